"""Traced functions: in the process that traced them, and from a file."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed.compare import isclose
from tapegrad._types import contiguous_format
from tapegrad.autograd.function import Function
from tapegrad.autograd.grad_mode import no_grad
from tapegrad.jit._method import Arguments, Built, Template, geometry
from tapegrad.jit._record import Run, run_once
from tapegrad.jit._sizes import MOST_AXES, Misfit, evaluate, merge, points
from tapegrad.nn.modules.module import Module
from tapegrad.onnx._capture import kept_state
from tapegrad.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["LoadedMethod", "TracedMethod", "parameter_names", "state_of"]

_MOST_PROGRAMS = 32
_MOST_LOADED = 256

State = Mapping[str, tuple[dict[str, Any], str]]  # where each tensor of a module is held


def state_of(module: Any) -> dict[str, tuple[dict[str, Any], str]]:
    """Return where the parameters and buffers of a module are held, by the names of a program."""
    found: dict[str, tuple[dict[str, Any], str]] = {}
    if not isinstance(module, Module):
        return found
    for path, each in module.named_modules(remove_duplicate=False):
        for held in (each._parameters, each._buffers):
            for key, tensor in held.items():
                if tensor is not None:
                    found[f"state.{path}.{key}" if path else f"state.{key}"] = (held, key)
    return found


def parameter_names(function: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters of a function or a module's forward, if known."""
    target = function.forward if isinstance(function, Module) else function
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [each.name for each in parameters if each.kind in kinds]


class TracedMethod:
    """A function that was traced here.

    Programs run where nothing is recorded for gradients. Where something is, or where a program
    does not hold (other values at a place at which Python looked at some), the function itself
    runs, with its modules in the modes that they were traced in.

    Args:
        name: for messages.
        function: what was traced.
        module: whose state it uses, or None.
        args, kwargs: the example.
        axes: dynamic axes by the names of parameters, or None for what is found out.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        module: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        axes: Mapping[str, Mapping[int, str]] | None,
    ) -> None:
        known = parameter_names(function)
        names = [*known, *(f"input_{i}" for i in range(len(known), len(args)))][: len(args)]
        names += [each for each in kwargs if each not in names]
        leaves, structure = tree_flatten([*args, *(kwargs[each] for each in names[len(args) :])])
        self.arguments = Arguments(name, names, structure)
        self.example = [each.detach() for each in leaves]
        self.axes = axes
        self.module = module
        self._function = function
        self._count = len(args)
        self._state: State = state_of(module)
        modules = list(module.modules()) if isinstance(module, Module) else []
        self._modes = [(each, each.training) for each in modules]
        self._programs: dict[Any, tuple[Built, dict[str, Tensor]] | None] = {}
        self._walk: Any = None  # over what the function reads of Python, when it was traced

    # ---- running

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = self.arguments.bind(args, kwargs)
        if self._must_run_itself(leaves):
            return self.call_function(leaves)
        key = geometry(leaves)
        if key not in self._programs:
            if len(self._programs) >= _MOST_PROGRAMS:
                return self.call_function(leaves)
            return self._trace_anew(key, leaves)
        found = self._programs[key]
        if found is None:
            return self.call_function(leaves)
        built, constants = found
        try:
            return built.run({**self.tensors(leaves), **constants})
        except (RuntimeError, ValueError) as error:
            if str(error).startswith("run: "):  # the state is laid out in another way, or a guard
                return self.call_function(leaves)
            raise

    def _must_run_itself(self, leaves: Sequence[Tensor]) -> bool:
        if _C._is_observed() or _C.is_autocast_enabled("cpu") or _C.is_autocast_enabled("cuda"):
            return True
        if not _C.is_grad_enabled():
            return False
        held = (where[key] for where, key in self._state.values())
        return any(each.requires_grad for each in (*leaves, *held) if each is not None)

    def call_function(self, leaves: Sequence[Tensor]) -> Any:
        """Run the function, its modules in the modes that they were traced in."""
        args, kwargs = self.arguments.split(list(leaves), self._count)
        changed = [(each, each.training) for each, mode in self._modes if each.training != mode]
        try:
            for each, mode in self._modes:
                if each.training != mode:
                    each.training = mode
            self._tell_change()
            return self._function(*args, **kwargs)
        finally:
            if self._walk is not None and self._walk.watch.find_change() >= 0:
                self._walk = None  # the function changes what it reads
            for each, mode in changed:
                each.training = mode

    def _tell_change(self) -> None:
        """Warn, once, if the function reads other things of Python than when it was traced."""
        change = -1 if self._walk is None else self._walk.watch.find_change()
        if change < 0:
            return
        from tapegrad.jit._trace import warn

        name, what = self.arguments.name, self._walk.names[change]
        self._walk = None
        if what.endswith(("._parameters", "._buffers")):  # moved, or loaded: these are the model's
            self._follow()
            return
        warn(
            f"{name}(): {what} changed after the trace. Where gradients are recorded, for other "
            "sizes and in files the function counts as it is now; trace it again"
        )

    def _follow(self) -> None:
        """Remember what the function reads of Python, as far as it can be followed."""
        from tapegrad.compiler._walk import Refusal, Walk

        walk = Walk()
        try:
            title = getattr(self._function, "__name__", type(self._function).__name__)
            walk.follow([(self._function, title)])
        except Refusal:
            return
        self._walk = walk

    def _trace_anew(self, key: Any, leaves: Sequence[Tensor]) -> Any:
        """Run the function on arguments of a new geometry, and keep a program of it."""
        if any(not each.is_contiguous() for each in leaves):
            result = self.call_function(leaves)  # it may depend on strides, or write to arguments
            leaves = [each.detach().clone(memory_format=contiguous_format) for each in leaves]
            with kept_state(self.module):
                self.add(key, self.record(leaves))
            return result
        run = self.record(leaves)
        self.add(key, run)
        return run.result

    def add(self, key: Any, run: Run) -> None:
        """Keep the program of a run, if it can be run again."""
        try:
            built = Built(run.document, run.data, structure=run.structure, shown=run.shown)
        except RuntimeError as error:
            if not str(error).startswith("trace: "):
                raise
            self._programs[key] = None
            return
        self._programs[key] = built, run.constants

    def tensors(self, leaves: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return arguments and state by the names of a program."""
        found = {f"input.{i}": each for i, each in enumerate(leaves)}
        for name, (held, key) in self._state.items():
            tensor = held.get(key)
            if tensor is not None:
                found[name] = tensor
        return found

    def record(self, leaves: Sequence[Tensor]) -> Run:
        """Run the function on contiguous arguments and describe what it did."""
        given = list(leaves)
        return run_once(self.call_function, (given,), {}, self.tensors(given))

    def record_copies(self, leaves: Sequence[Tensor]) -> Run:
        """Run the function on copies and put back what it changed."""
        copies = [each.detach().clone(memory_format=contiguous_format) for each in leaves]
        with kept_state(self.module):
            return self.record(copies)

    def trace(self) -> Run:
        """Trace the example."""
        self._walk = None
        run = self.record_copies(self.example)
        self._follow()
        self.first = run._replace(result=None)
        self._programs[geometry(self.example)] = (
            Built(run.document, run.data, structure=run.structure, shown=run.shown),
            run.constants,
        )
        return run

    def copied(self, module: Module, name: str) -> "TracedMethod":
        """Return the same trace of a copy of the module."""
        for (_, mode), each in zip(self._modes, module.modules(), strict=True):
            each.training = mode
        function = module if name == "forward" else getattr(module, name)
        args, kwargs = self.arguments.split(list(self.example), self._count)
        made = TracedMethod(name, function, module, args, kwargs, self.axes)
        made.trace()
        return made

    @property
    def program(self) -> Any:
        """The program of the example."""
        found = self._programs[geometry(self.example)]
        assert found is not None
        return found[0].program

    # ---- for a file

    def template(self) -> tuple[Template, dict[str, Tensor]]:
        """Return the program with its numbers as functions of sizes, and its constants."""
        dtypes = [str(each.dtype).removeprefix("torch.") for each in self.example]
        shapes: list[list[int | str]] = [list(each.shape) for each in self.example]
        first = self.first
        marked = self._marked()
        reason = ""
        if marked:
            try:
                document, constants, data = self._merged(marked)
            except Misfit as error:
                if self.axes is not None:
                    raise RuntimeError(
                        f"save: {self.arguments.name}() cannot be saved for other sizes of "
                        f"{', '.join(_axes(marked))}: {error}; trace it with dynamic_axes for "
                        "fewer axes"
                    ) from None
                reason = str(error)
            else:
                for place, axes in marked.items():
                    for axis, symbol in axes.items():
                        shapes[place][axis] = symbol
                names = _axes(marked)
                template = Template(document, data, shapes, dtypes, names)
                template.is_batch = self._is_batch(template, constants)
                return template, constants
        template = Template(first.document, first.data, shapes, dtypes, [])
        template.reason = reason
        return template, first.constants

    def _marked(self) -> dict[int, dict[int, str]]:
        """Return the dynamic axes by the number of the tensor and the axis."""
        if self.axes is None:
            sized = [i for i, each in enumerate(self.example) if each.dim() > 0]
            if not sized:
                return {}
            rows = self.example[sized[0]].shape[0]
            if rows == 0:
                return {}
            return {i: {0: "batch"} for i in sized if self.example[i].shape[0] == rows}
        places: dict[str, list[int]] = {}
        number = 0
        parts = self.arguments.structure.children()
        for name, part in zip(self.arguments.names, parts, strict=True):
            places[name] = list(range(number, number + part.num_leaves))
            number += part.num_leaves
        found: dict[int, dict[int, str]] = {}
        for name, axes in self.axes.items():
            if name not in places:
                raise ValueError(
                    f"trace: dynamic_axes names '{name}', expected one of {', '.join(places)}"
                )
            for place in places[name]:
                rank = self.example[place].dim()
                found[place] = {axis % rank: str(symbol) for axis, symbol in axes.items()}
        if len(_axes(found)) > MOST_AXES:
            raise ValueError(f"trace: expected at most {MOST_AXES} dynamic axes")
        return found

    def _merged(
        self, marked: Mapping[int, Mapping[int, str]]
    ) -> tuple[dict[str, Any], dict[str, Tensor], bytes]:
        names = _axes(marked)
        base = [self._size(marked, name) for name in names]
        sizes = points(base)
        runs = []
        for each in sizes:
            try:
                runs.append(self.record_copies(self._sized(marked, names, each)))
            except Exception as error:
                raise Misfit(
                    f"with sizes {', '.join(map(str, each))} the function fails: {error}"
                ) from None
        first = runs[0]
        for other in runs[1:]:
            same = [_C._memory_id(each) for each in other.constants.values()] == [
                _C._memory_id(each) for each in first.constants.values()
            ]
            if other.data != first.data or not same:
                raise Misfit("what it looks at, or its constants, are others")
        document = merge([run.document for run in runs], sizes)
        small = [2] * len(names)
        try:  # as loading does
            Built(evaluate(document, small), first.data)
        except (RuntimeError, ValueError) as error:
            raise Misfit(
                f"with sizes {', '.join(map(str, small))} the calls would not fit: {error}"
            ) from None
        return document, first.constants, first.data

    def _size(self, marked: Mapping[int, Mapping[int, str]], name: str) -> int:
        found = {
            self.example[place].shape[axis]
            for place, axes in marked.items()
            for axis, symbol in axes.items()
            if symbol == name
        }
        if len(found) > 1:
            raise ValueError(f"trace: axes '{name}' have sizes {sorted(found)} in the example")
        return int(found.pop())

    def _sized(
        self, marked: Mapping[int, Mapping[int, str]], names: Sequence[str], sizes: Sequence[int]
    ) -> list[Tensor]:
        """Return the example in other sizes, made of its elements."""
        by_name = dict(zip(names, sizes, strict=True))
        leaves = list(self.example)
        for place, axes in marked.items():
            x = leaves[place]
            for axis, symbol in axes.items():
                count = x.shape[axis]
                if by_name[symbol] != count:
                    index = _C.arange(by_name[symbol], device=x.device) % count
                    x = x.index_select(axis, index)
            leaves[place] = x
        return leaves

    def _is_batch(self, template: Template, constants: Mapping[str, Tensor]) -> bool:
        """Return whether rows are computed each by itself, as far as trying tells."""
        if template.axes != ["batch"] or any(shape[:1] != ["batch"] for shape in template.shapes):
            return False
        document = template.document
        rows = {"size": [[1, 1, [1]]]}
        if any(operand[2][:1] != [rows] for _, operand, _, _ in document["outputs"]):
            return False
        if any(is_written for _, _, _, is_written in document["inputs"]):
            return False
        if self.first.looks:
            return False
        if any("seed" in dict(each.get("attributes", ())) for each in document["steps"]):
            return False
        with kept_state(self.module):
            sized = self._sized({i: {0: "n"} for i in range(len(self.example))}, ["n"], [3])
            sized = [_varied(each) for each in sized]
            together = self._run_template(template, constants, sized, 3)
            for row in range(3):
                alone = [each[row : row + 1] for each in sized]
                single = self._run_template(template, constants, alone, 1)
                if not all(map(_close, [each[row : row + 1] for each in together], single)):
                    return False
        return True

    def _run_template(
        self,
        template: Template,
        constants: Mapping[str, Tensor],
        leaves: Sequence[Tensor],
        rows: int,
    ) -> list[Tensor]:
        built = Built(evaluate(template.document, [rows]), template.data)
        with no_grad():
            leaves = [each.contiguous() for each in leaves]
            return tree_flatten(built.run({**self.tensors(leaves), **constants}))[0]


def _axes(marked: Mapping[int, Mapping[int, str]]) -> list[str]:
    return list(dict.fromkeys(name for axes in marked.values() for name in axes.values()))


def _varied(x: Tensor) -> Tensor:
    """Return a tensor whose rows differ."""
    if x.is_floating_point():
        return x * (0.5 + _C.rand(x.shape, device=x.device)).to(x.dtype)
    flat = x.flatten(1)
    columns = [row.index_select(0, _C.randperm(row.numel(), device=x.device)) for row in flat]
    return _C.stack(columns).reshape(x.shape)


def _close(x: Tensor, y: Tensor) -> bool:
    if not x.is_floating_point():
        return bool((x == y).all())
    return bool(isclose(x.float(), y.float(), 1e-3, 1e-4, True).all())


# ---- from a file


class LoadedMethod:
    """A function from a file.

    Args:
        arguments: how it is called.
        template: its program.
        state: where the tensors of its module are.
        constants: tensors by name.
    """

    def __init__(
        self, arguments: Arguments, template: Template, state: State, constants: dict[str, Tensor]
    ) -> None:
        self.arguments = arguments
        self.template = template
        self._state = state
        self._constants = constants
        self._programs: dict[Any, tuple[Built, dict[str, Tensor]]] = {}
        self._names = [each[0] for each in template.document["inputs"]]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = self.arguments.bind(args, kwargs)
        sizes = self.template.sizes(self.arguments, leaves)
        tensors = {f"input.{i}": each for i, each in enumerate(leaves)}
        for name in self._names:
            if name in self._state:
                held, key = self._state[name]
                tensors[name] = held[key]
        used = [tensors[name] for name in self._names if name in tensors]
        variant = (*sizes, *(str(each.device) for each in used))
        if variant not in self._programs:
            if len(self._programs) >= _MOST_LOADED:
                del self._programs[next(iter(self._programs))]
            self._programs[variant] = self._build(sizes, tensors)
        built, constants = self._programs[variant]
        result = built.run({**tensors, **constants})
        if _C.is_grad_enabled() and any(each.requires_grad for each in used):
            return _without_backward(self.arguments.name, result, used)
        return result

    def _build(
        self, sizes: Sequence[int], tensors: Mapping[str, Tensor]
    ) -> tuple[Built, dict[str, Tensor]]:
        recorded = [device for _, device, _ in self.template.document["values"]]
        devices: dict[str, str] = {}
        for name, operand, _, _ in self.template.document["inputs"]:
            if name in tensors:
                before, now = recorded[operand[0]], str(tensors[name].device)
                if devices.setdefault(before, now) != now:
                    raise RuntimeError(
                        f"{self.arguments.name}(): expected all tensors on one device, found "
                        f"'{name}' on {now} and others on {devices[before]}"
                    )
        if devices and all(each == next(iter(devices.values())) for each in devices.values()):
            for each in recorded:
                devices.setdefault(each, next(iter(devices.values())))
        built = self.template.build(sizes, devices)
        constants = {
            name: each.to(devices.get(str(each.device), str(each.device)))
            for name, each in self._constants.items()
        }
        return built, constants

    @property
    def program(self) -> Any:
        """The program for the smallest sizes."""
        return self.template.build([2] * len(self.template.axes), {}).program


class _NoBackward(Function):
    """Gives results of a loaded program a backward that says what to do instead."""

    @staticmethod
    def forward(ctx: Any, name: str, count: int, *tensors: Tensor) -> Any:
        """Return the results."""
        ctx.name = name
        results = tuple(each.detach() for each in tensors[:count])
        ctx.mark_non_differentiable(*(x for x in results if not x.is_floating_point()))
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Refuse."""
        raise RuntimeError(
            f"{ctx.name}(): a program from a file has no backward; load its weights into the model "
            "(model.load_state_dict(loaded.state_dict())) and train that, or call the program in "
            "torch.no_grad()"
        )


def _without_backward(name: str, result: Any, used: Sequence[Tensor]) -> Any:
    leaves, structure = tree_flatten(result)
    wanted = [each for each in used if each.requires_grad]
    return tree_unflatten(list(_NoBackward.apply(name, len(leaves), *leaves, *wanted)), structure)
