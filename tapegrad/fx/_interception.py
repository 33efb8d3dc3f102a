"""Functions of the package that are written in Python see proxies while there are some.

Native functions ask each argument that is no tensor whether it computes by itself. Functions in
Python do not, as that would cost every call. Programs hold such functions by whatever name they
like, so that it would not do to put others in their places: while a `Proxy` lives, the *code* of
each function is one that looks for proxies first, and goes on to the function as it was when there
is none. With the last proxy the functions get their own code back.
"""

import threading
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from tapegrad.fx._torch_names import arguments_of, own_functions

__all__ = ["INTERCEPTION", "Interception", "find_proxy"]

_MARK = -987654321.5  # stands for the handler among the constants of a template


def find_proxy(values: Any) -> Any:
    """Return the first proxy among values and the containers among them, or None."""
    from tapegrad.fx.proxy import Proxy

    for value in values:
        if isinstance(value, Proxy):
            return value
        found = None
        if isinstance(value, tuple | list):
            found = find_proxy(value)
        elif isinstance(value, dict):
            found = find_proxy(value.values())
        elif isinstance(value, slice):
            found = find_proxy((value.start, value.stop, value.step))
        if found is not None:
            return found
    return None


def _code_that_calls(handler: Callable[..., Any], free: int, name: str) -> CodeType:
    """Return code with a number of free variables that hands all arguments to a handler."""
    cells = [f"_cell{i}" for i in range(free)]
    held = f"        if 0: ({', '.join(cells)},)\n" if cells else ""
    text = (
        f"def outer({', '.join(cells)}):\n"
        f"    def inner(*args, **kwargs):\n{held}"
        f"        handler = {_MARK}\n"
        f"        return handler(args, kwargs)\n"
        f"    return inner\n"
    )
    outer = next(c for c in compile(text, "<fx>", "exec").co_consts if isinstance(c, CodeType))
    inner = next(c for c in outer.co_consts if isinstance(c, CodeType))
    constants = tuple(handler if c == _MARK else c for c in inner.co_consts)
    return inner.replace(co_consts=constants, co_name=name)


class _Intercepted:
    """One function, its own code and the code that looks for proxies."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.own_code = function.__code__
        self.original = FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        self.original.__kwdefaults__ = function.__kwdefaults__
        self.original.__dict__.update(function.__dict__)  # the signature of what it wraps
        free = len(self.own_code.co_freevars)
        self.looking = _code_that_calls(self.call, free, self.own_code.co_name)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        proxy = find_proxy(args)
        if proxy is None:
            proxy = find_proxy(kwargs.values()) if kwargs else None
            if proxy is None:
                return self.original(*args, **kwargs)
        args, kwargs = arguments_of(self.function, self.original, args, kwargs)
        return type(proxy).__torch_function__(self.function, (type(proxy),), args, kwargs)


class Interception:
    """Counts those who need functions to look for proxies."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._count = 0
        self._functions: list[_Intercepted] | None = None

    @property
    def is_on(self) -> bool:
        """Whether functions look for proxies now."""
        return self._count > 0

    def retain(self) -> None:
        """Have functions look for proxies until `release` is called as often."""
        with self._lock:
            self._count += 1
            if self._count > 1:
                return
            if self._functions is None:
                self._functions = [_Intercepted(function) for function in own_functions()]
            for each in self._functions:
                each.function.__code__ = each.looking

    def release(self) -> None:
        """Undo one `retain`."""
        with self._lock:
            self._count -= 1
            if self._count == 0:
                for each in self._functions or ():
                    each.function.__code__ = each.own_code


INTERCEPTION = Interception()
