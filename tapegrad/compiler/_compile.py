"""compile() and what tells about it."""

from collections.abc import Callable
from typing import Any

from tapegrad.compiler._compiled import (
    MOST_TRACES,
    CompiledFunction,
    OptimizedModule,
    all_compiled,
)
from tapegrad.compiler._explain import Explanation
from tapegrad.nn import Module

__all__ = ["compile", "disable", "explain", "is_compiling", "list_backends", "reset"]

_BACKENDS = ("inductor", "cudagraphs")  # one plan, whatever it is called
_EAGER = ("eager", "aot_eager")
_MODES = (
    *("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
    "lite",
)


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
    verify: bool = False,
) -> Any:
    """Return a function that does what a function does, without running its Python each time.

    The calls of ops are captured while the function runs, below autograd: forward, backward,
    updates of optimizers. When two calls did exactly the same, later ones replay it, as long as
    everything that the function reads is as it was: shapes, dtypes and strides of arguments,
    attributes of modules, closures, globals, modes. Where something differs, the function runs
    itself and another trace is captured. Numbers of optimizers (``lr``, ``betas``) and of the
    random generator are read anew by every call.

    Calls whose effects a trace cannot repeat (``print``, an ``append``) run eagerly; `explain`
    tells why. Results can be differentiated, to any order.

    Args:
        model: a function, a method or a module; without it, a decorator is returned. Of a class,
            ``__call__`` is compiled, and the class returned.
        fullgraph: raise an error where a call cannot be replayed. A first call may make state,
            such as that of an optimizer, which later ones find.
        dynamic: accepted for PyTorch's sake; every shape has a trace of its own.
        backend: "inductor" or "cudagraphs", which are the same here; "eager" and "aot_eager" run
            the function itself. None means "inductor".
        mode: one of PyTorch's names; they are the same here.
        options: must be empty: there are none.
        name: accepted for PyTorch's sake.
        disable: return the function as it is.
        recompile_limit: how many traces there may be; 32 if not given.
        isolate_recompiles: accepted for PyTorch's sake: every compiled function has its own traces.
        shapes_spec: must be None: every shape has a trace of its own.
        verify: run the function itself in every call, and raise an error where it did something
            else than the trace that would have been replayed.

    Returns:
        A function; for a module, a module with the same parameters and attributes.

    Example:
        >>> @torch.compile
        ... def f(x):
        ...     return (x * x + x.sin()).sum()
        >>> with torch.no_grad():
        ...     [round(f(torch.full((2,), float(i))).item(), 3) for i in range(4)]
        [0.0, 3.683, 9.819, 18.282]
    """
    if model is None:
        return lambda function: compile(
            function,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            name=name,
            disable=disable,
            recompile_limit=recompile_limit,
            isolate_recompiles=isolate_recompiles,
            shapes_spec=shapes_spec,
            verify=verify,
        )
    _check(model, mode, options)
    if shapes_spec is not None:
        raise NotImplementedError(
            "compile: expected shapes_spec to be None: every shape has a trace of its own"
        )
    if backend is not None:
        check_backend(backend)
    if disable or getattr(model, "_torchdynamo_disable", False):
        return model
    if isinstance(model, CompiledFunction | OptimizedModule):
        return model
    is_eager = backend in _EAGER
    most = MOST_TRACES if recompile_limit is None else recompile_limit
    if isinstance(model, type):
        return model if is_eager else _compile_class(model, fullgraph, verify, most)
    call = model if is_eager else CompiledFunction(model, fullgraph, verify, most)
    return OptimizedModule(model, call) if isinstance(model, Module) else call


def _compile_class(kind: type, *settings: Any) -> type:
    """Compile the calls of a class's instances."""
    call = next((vars(each)["__call__"] for each in kind.__mro__ if "__call__" in vars(each)), None)
    if call is not None and not isinstance(call, CompiledFunction):
        type.__setattr__(kind, "__call__", CompiledFunction(call, *settings))
    return kind


def _check(model: Any, mode: str | None, options: Any) -> None:
    if not callable(model):
        raise TypeError(f"compile: expected a function or a module, got {type(model).__name__}")
    if mode is not None and options:
        raise RuntimeError(
            "compile: either mode or options can be specified, but both can't be specified at the "
            "same time."
        )
    if mode is not None and mode not in _MODES:
        known = ", ".join(repr(each) for each in _MODES)
        raise RuntimeError(f"compile: expected mode to be one of {known}, got {mode!r}")
    if options:
        raise RuntimeError(f"compile: expected no options, got {', '.join(sorted(options))}")


def check_backend(backend: Any) -> None:
    """Raise an error unless it is the name of a back end."""
    if callable(backend):
        raise NotImplementedError(
            "compile: a function as backend is not supported; passes over programs are in "
            "tapegrad.compiler.passes"
        )
    if backend not in (*_BACKENDS, *_EAGER):
        known = ", ".join(repr(each) for each in (*_BACKENDS, *_EAGER))
        raise RuntimeError(f"compile: expected backend to be one of {known}, got {backend!r}")


def disable(
    fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None
) -> Any:
    """Mark a function that is not to be replayed, nor any function that calls it.

    Args:
        fn: the function; without it, a decorator is returned.
        recursive: accepted for PyTorch's sake.
        reason: said by `explain`.

    Returns:
        A function that does the same.
    """
    import functools

    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)
    function = fn._function if isinstance(fn, CompiledFunction) else fn

    @functools.wraps(function)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    disabled._torchdynamo_disable = reason or "compiler.disable"  # type: ignore[attr-defined]
    return disabled


def explain(fn: Any) -> Explanation:
    """Return what became of the calls of a compiled function.

    Args:
        fn: what `compile` returned.

    Returns:
        An `Explanation`, to be printed.

    Example:
        >>> f = torch.compile(lambda x: x * 2)
        >>> for _ in range(3):
        ...     _ = f(torch.ones(3))
        >>> len(torch.compiler.explain(f).traces)
        1
    """
    compiled = fn.__dict__["_call"] if isinstance(fn, OptimizedModule) else fn
    if isinstance(compiled, CompiledFunction):
        return Explanation(compiled)
    raise TypeError(f"explain: expected what compile() returned, got {type(fn).__name__}")


def reset() -> None:
    """Forget the traces of all compiled functions."""
    for each in list(all_compiled):
        each.reset()


def is_compiling() -> bool:
    """Return False: calls are captured as they run, eagerly."""
    return False


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """Return the names that `compile` takes as backend."""
    return [*_BACKENDS, *_EAGER]
