"""What all compiled functions do for a while: `set_stance`."""

import functools
from collections.abc import Callable
from typing import Any

from tapegrad import _C

__all__ = ["current", "set_stance"]

_STANCES = (
    *("default", "force_eager", "eager_on_recompile", "fail_on_recompile"),
    *("eager_then_compile", "aot_eager_then_compile"),
)
_EAGER = ("eager", "aot_eager")
_current = "default"


def current() -> str:
    """Return the name of the stance."""
    return _current


def _take(stance: str) -> str:
    global _current
    before, _current = _current, stance
    _C._set_traces_enabled(stance != "force_eager")
    return before


class set_stance:
    """Tell all compiled functions what to do; a context manager and a decorator, too.

    Args:
        stance: "default"; "force_eager": functions run themselves; "eager_on_recompile": traces
            are replayed, and where none holds the function runs itself and is not captured;
            "fail_on_recompile": an error where a function has traces and none holds.
            "eager_then_compile" and "aot_eager_then_compile" are the default: a first call runs
            eagerly always.
        skip_guard_eval_unsafe: accepted for PyTorch's sake; what a trace depends on is compared.
        force_backend: one of the names that `compile` takes.

    Example:
        >>> f = torch.compile(lambda x: x * 2)
        >>> with torch.compiler.set_stance("force_eager"):
        ...     f(torch.ones(2))
        tensor([2., 2.])
    """

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: str | Callable[..., Any] | None = None,
    ) -> None:
        from tapegrad.compiler._compile import check_backend

        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        if stance not in _STANCES:
            known = ", ".join(repr(each) for each in _STANCES)
            raise RuntimeError(f"set_stance: expected stance to be one of {known}, got {stance!r}")
        if force_backend is not None:
            check_backend(force_backend)
        self._stance = "force_eager" if force_backend in _EAGER else stance
        self._before = _take(self._stance)

    def __enter__(self) -> None:
        _take(self._stance)

    def __exit__(self, *exception: object) -> None:
        _take(self._before)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        _take(self._before)
        stance = self._stance

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            before = _take(stance)
            try:
                return function(*args, **kwargs)
            finally:
                _take(before)

        return call
