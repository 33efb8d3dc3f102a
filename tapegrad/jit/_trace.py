"""`trace`, `trace_module` and `script`."""

import inspect
import types
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tapegrad._C import Tensor
from tapegrad._composed.compare import isclose
from tapegrad.jit._method import geometry
from tapegrad.jit._modules import (
    FrozenModule,
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    TopLevelTracedModule,
    TracedModule,
    script_function,
)
from tapegrad.jit._record import Run, without_classes
from tapegrad.jit._state import state
from tapegrad.jit._traced import TracedMethod
from tapegrad.nn.modules.module import Module
from tapegrad.onnx._capture import kept_state
from tapegrad.utils._pytree import TreeSpec, tree_flatten

__all__ = [
    "TracerWarning",
    "TracingCheckError",
    "freeze",
    "is_tracing",
    "optimize_for_inference",
    "script",
    "trace",
    "trace_module",
]


class TracerWarning(Warning):
    """A trace may not do for other arguments what the function does."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Do nothing: the library's own looks at values cause no warnings."""


class TracingCheckError(Exception):
    """A function did something else when it was traced a second time."""

    def __init__(
        self, graph_diff_error: str, tensor_compare_error: Any = None, extra_msg: Any = None
    ):
        self.message = "Tracing failed sanity checks!\n"
        if extra_msg is not None:
            self.message += extra_msg + "\n"
        self.message += f"ERROR: Graphs differed across invocations!\n\t{graph_diff_error}\n"
        if tensor_compare_error is not None:
            self.message += f"ERROR: Tensor-valued Constant nodes differed\n{tensor_compare_error}"
        super().__init__(self.message)


Axes = Mapping[str, Mapping[int, str]]


def is_tracing() -> bool:
    """Return whether a function is being traced on this thread."""
    return state.depth > 0


def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Sequence[Any] | None = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: Mapping[str, Any] | None = None,
    _store_inputs: bool = True,
    *,
    dynamic_axes: Axes | None = None,
) -> Any:
    """Run a function or a module on an example and return its calls as one that can be saved.

    The result is called like the function. Without gradients it runs the recorded calls, and none
    of the function's Python; arguments of other sizes are traced when they first come. What is to
    be differentiated, and what depends on values that Python looked at, runs the function itself.

    A file has the calls for one size of each axis, but for the *dynamic* axes. By default that is
    the first axis of the arguments, where the function does the same for other sizes of it.

    Args:
        func: a module, or a function of tensors.
        example_inputs: a tuple of arguments, or one tensor: tensors, and lists, tuples and dicts
            of them.
        optimize: not used.
        check_trace: trace a second time and compare: calls that differ are an error, results that
            do a `TracerWarning`.
        check_inputs: further tuples of arguments to compare with.
        check_tolerance: of results, relative and absolute.
        strict: refuse a dict as result.
        _force_outplace, _module_class, _compilation_unit, _store_inputs: not used.
        example_kwarg_inputs: arguments by keyword.
        dynamic_axes: axes whose sizes a file leaves open, as ``{"x": {0: "batch", 1: "time"}}`` by
            the names of parameters; ``{}`` for none.

    Returns:
        A `ScriptModule` for a module, a `ScriptFunction` for a function.

    Example:
        >>> import os, tempfile
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Tanh()).eval()
        >>> path = os.path.join(tempfile.mkdtemp(), "model.tg")
        >>> torch.jit.trace(model, torch.zeros(1, 4)).save(path)
        >>> torch.jit.load(path)(torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """
    if type(func) is RecursiveScriptModule:  # scripted, and so without a program yet
        func = func._original
    is_traced = isinstance(func, ScriptModule) and "_name" in func.__dict__
    if is_traced or type(func) is ScriptFunction:
        warnings.warn(
            "The input to trace is already a ScriptModule, tracing it is a no-op. Returning the "
            "object as is.",
            stacklevel=2,
        )
        return func
    args, kwargs = _example(example_inputs, example_kwarg_inputs)
    owner = getattr(func, "__self__", None)
    if isinstance(owner, Module) and not isinstance(func, Module):
        if func.__name__ != "forward":
            raise AttributeError(
                "trace doesn't support compiling individual module's functions.\n"
                "Please use trace_module"
            )
        func = owner
    if not callable(func):
        raise RuntimeError(f"trace: expected a module or a function, got {type(func).__name__}")
    name = "forward" if isinstance(func, Module) else getattr(func, "__name__", "function")
    module = func if isinstance(func, Module) else None
    method = TracedMethod(name, func, module, args, kwargs, dynamic_axes)
    _trace_and_check(method, strict, check_trace, check_inputs, check_tolerance)
    if module is not None:
        return TopLevelTracedModule(module, {"forward": method})
    return ScriptFunction(func, method)


def trace_module(
    mod: Module,
    inputs: Mapping[str, Any],
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Sequence[Mapping[str, Any]] | None = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: bool = True,
) -> Any:
    """Trace several methods of a module.

    Args:
        mod: the module.
        inputs: by the name of a method, its example: a tuple of arguments or a tensor.
        optimize: not used.
        check_trace, check_tolerance, strict: as in `trace`.
        check_inputs: further dicts such as `inputs`, to compare with.
        _force_outplace, _module_class, _compilation_unit, _store_inputs: not used.
        example_inputs_is_kwarg: whether examples are dicts of arguments by keyword.

    Returns:
        A `ScriptModule` with these methods.
    """
    if not isinstance(mod, Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not isinstance(inputs, Mapping):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    methods = {}
    for name, example in inputs.items():
        pair = (None, example) if example_inputs_is_kwarg else (example, None)
        args, kwargs = _example(*pair)
        function = mod if name == "forward" else getattr(mod, name)
        method = TracedMethod(name, function, mod, args, kwargs, None)
        further = [each[name] for each in check_inputs or () if name in each]
        _trace_and_check(method, strict, check_trace, further, check_tolerance)
        methods[name] = method
    return TopLevelTracedModule(mod, methods)


def _example(inputs: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if inputs is None:
        if not isinstance(kwargs, Mapping):
            raise RuntimeError("example_kwarg_inputs should be a dict")
        args: tuple[Any, ...] = ()
    elif isinstance(inputs, Tensor | dict):
        args, kwargs = (inputs,), {}
    else:
        args, kwargs = tuple(inputs), {}
    leaves, _ = tree_flatten([args, dict(kwargs)])
    if not all(isinstance(each, Tensor) for each in leaves):
        kinds = ", ".join(type(each).__name__ for each in (*args, *kwargs.values()))
        raise RuntimeError(
            f"Type 'Tuple[{kinds}]' cannot be traced. Only Tensors and (possibly nested) Lists, "
            "Dicts, and Tuples of Tensors can be traced"
        )
    if any(each.is_meta for each in leaves):
        raise RuntimeError("trace: expected tensors with elements, got one on the meta device")
    return args, dict(kwargs)


# ---- checking


def _trace_and_check(
    method: TracedMethod,
    strict: bool,
    check_trace: bool,
    further: Sequence[Any] | None,
    tolerance: float,
) -> None:
    run = method.trace()
    _check_container(run, strict)
    if check_trace:
        second = method.record_copies(method.example)
        if _difference(run, second):
            # A first call may do more than others: lazy parameters, tables that are filled.
            run = method.trace()
            difference = _difference(run, second)
            if difference:
                raise TracingCheckError(difference)
        if run.random:
            nodes = "\n".join(f"\t{each}" for each in dict.fromkeys(run.random))
            warn(
                "Trace had nondeterministic nodes. Did you forget call .eval() on your model? "
                f"Nodes:\n{nodes}\nThis may cause errors in trace checking. To disable trace "
                "checking, pass check_trace=False to torch.jit.trace()"
            )
    for look in run.looks:
        what = "boolean" if look.dtype == "bool" and look.numel == 1 else "number"
        where = f" at {look.line}" if look.line else ""
        warn(
            f"Converting a tensor to a Python {what} might cause the trace to be incorrect: the "
            f"function looks at what {look.maker} gave{where}. The value is a part of the trace, "
            "so that a saved program refuses arguments that give another one"
        )
    if check_trace:
        examples = [method.example]
        for each in further or ():
            args, kwargs = _example(each, None)
            examples.append(method.arguments.bind(args, kwargs))
        for leaves in examples:
            _compare(method, leaves, tolerance)


def _check_container(run: Run, strict: bool) -> None:
    kinds = set(_kinds(run.structure))
    if strict and kinds - {tuple, list}:
        raise RuntimeError(_container("dict"))
    if strict and list in kinds:
        warn(_container("list"))


def _kinds(structure: TreeSpec) -> Iterator[Any]:
    if not structure.is_leaf():
        yield tuple if structure.type is namedtuple else structure.type
        for each in structure.children():
            yield from _kinds(each)


def _container(kind: str) -> str:
    return (
        f"Encountering a {kind} at the output of the tracer might cause the trace to be "
        "incorrect, this is only valid if the container structure does not change based on the "
        "module's inputs. Consider using a constant container instead (e.g. for `list`, use a "
        "`tuple` instead. for `dict`, use a `NamedTuple` instead). If you absolutely need this and "
        "know the side effects, pass strict=False to trace() to allow this behavior."
    )


def _difference(one: Run, other: Run) -> str:
    """Return what differs between two runs, or an empty string."""
    steps, others = one.document["steps"], other.document["steps"]
    for number, (step, beside) in enumerate(zip(steps, others, strict=False)):
        if step != beside:
            first, second = step.get("op", "a look"), beside.get("op", "a look")
            return f"call {number}: {first} with {step}\n\tin the second run {second} with {beside}"
    if len(steps) != len(others):
        return f"{len(steps)} calls in the first run, {len(others)} in the second"
    if one.document != other.document or one.data != other.data:
        return "the constants or results are others in the second run"
    return ""


def _compare(method: TracedMethod, leaves: Sequence[Tensor], tolerance: float) -> None:
    """Warn if the trace does not give what the function gives."""
    from tapegrad.autograd.grad_mode import no_grad

    with no_grad(), kept_state(method.module):
        result = method.call_function([each.clone() for each in leaves])
        expected = tree_flatten(without_classes(result))[0]
    with no_grad(), kept_state(method.module):
        if geometry(leaves) not in method._programs:
            method.add(geometry(leaves), method.record_copies(leaves))
        values = dict(zip(method.arguments.names, _nested(method, leaves), strict=True))
        found = tree_flatten(without_classes(method(**values)))[0]
    for number, (x, y) in enumerate(zip(found, expected, strict=True), 1):
        if x.shape != y.shape or not _is_close(x, y, tolerance):
            warn(
                f"Output nr {number}. of the traced function does not match the corresponding "
                "output of the Python function."
            )


def _nested(method: TracedMethod, leaves: Sequence[Tensor]) -> list[Any]:
    values, _ = method.arguments.split(
        [each.clone() for each in leaves], len(method.arguments.names)
    )
    return values


def _is_close(x: Tensor, y: Tensor, tolerance: float) -> bool:
    if not x.is_floating_point():
        return bool((x == y).all())
    return bool(isclose(x.double(), y.double(), tolerance, tolerance, True).all())


def warn(text: str) -> None:
    warnings.warn(text, TracerWarning, stacklevel=4)


# ---- script


def script(
    obj: Any,
    optimize: None = None,
    _frames_up: int = 0,
    _rcb: Callable[[str], Any] | None = None,
    example_inputs: Any = None,
) -> Any:
    """Return a function or a module that counts as scripted, and runs its Python.

    PyTorch compiles the source. Here there is nothing to compile: a function runs as it is, and
    `compile` or `trace` leave its Python out. Classes are returned as they are.

    Args:
        obj: a function, a module or a class.
        optimize, _frames_up, _rcb: not used.
        example_inputs: a list of tuples of arguments; with these the result can be saved, as a
            trace of the first.

    Returns:
        A function, or a `ScriptModule` with the state of the module.

    Example:
        >>> @torch.jit.script
        ... def swish(x):
        ...     return x * torch.sigmoid(x)
        >>> swish(torch.zeros(2))
        tensor([0., 0.])
    """
    examples = example_inputs
    if isinstance(examples, Mapping):
        examples = next(iter(examples.values()), None)
    if isinstance(obj, ScriptModule | ScriptFunction | type):
        return obj
    if isinstance(obj, Module):
        made = RecursiveScriptModule(obj)
        made.__dict__["_examples"] = list(examples or ())
        return made
    if isinstance(obj, types.FunctionType):
        return script_function(obj, list(examples or ()))
    if inspect.ismethod(obj) or callable(obj) or isinstance(obj, dict | list):
        return obj
    raise RuntimeError(
        f"script: expected a function, a module or a class, got {type(obj).__name__}"
    )


# ---- freezing


def freeze(
    mod: Any, preserved_attrs: Sequence[str] | None = None, optimize_numerics: bool = True
) -> Any:
    """Return a copy of a traced or scripted module whose state is constant.

    Args:
        mod: what `trace` or `script` gave, in eval mode.
        preserved_attrs: attributes of the module that the copy has, too.
        optimize_numerics: not used.
    """
    import copy

    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or "
            "torch.jit.trace to script your 'nn.Module'."
        )
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() "
            "on your module before freezing."
        )
    if isinstance(mod, FrozenModule):
        return mod
    copied = copy.deepcopy(mod)
    if isinstance(copied, TracedModule):
        return FrozenModule(copied, preserved_attrs or ())
    return copied.requires_grad_(False)


def optimize_for_inference(mod: Any, other_methods: Sequence[str] | None = None) -> Any:
    """Return a frozen copy of a traced or scripted module.

    Args:
        mod: what `trace` or `script` gave, in eval mode, or what `freeze` gave.
        other_methods: kept as well.
    """
    if not isinstance(mod, ScriptModule):
        raise ValueError(
            "optimize_for_inference expects ScriptModule as input. Please use torch.jit.script or "
            "torch.jit.trace to script your 'nn.Module'."
        )
    return freeze(mod, other_methods) if not mod.training else mod
