"""Neural networks: modules, the functions below them, ways to begin, and helpers."""

from typing import TYPE_CHECKING, Any

from tapegrad._missing import missing as _missing
from tapegrad.nn import attention, functional, init, modules, parameter, utils
from tapegrad.nn.modules import *  # noqa: F403
from tapegrad.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "attention",
    "factory_kwargs",
    "functional",
    "init",
    "modules",
    "parameter",
    "utils",
    *modules.__all__,
]


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Return the arguments of a module that go on to `torch.empty` and its like.

    Args:
        kwargs: of device, dtype and memory_format, and the same in a dict called factory_kwargs.

    Example:
        >>> torch.nn.factory_kwargs({"device": "cpu", "factory_kwargs": {"dtype": torch.int8}})
        {'dtype': torch.int8, 'device': 'cpu'}
    """
    if kwargs is None:
        return {}
    simple = ("device", "dtype", "memory_format")
    if unexpected := kwargs.keys() - {*simple, "factory_kwargs"}:
        raise TypeError(f"unexpected kwargs {unexpected}")
    found = dict(kwargs.get("factory_kwargs", {}))
    for key in simple:
        if key in kwargs:
            if key in found:
                raise TypeError(f"{key} specified twice, in **kwargs and in factory_kwargs")
            found[key] = kwargs[key]
    return found


if TYPE_CHECKING:
    from tapegrad.nn import grad as grad
    from tapegrad.nn import parallel as parallel
    from tapegrad.nn.parallel import DataParallel as DataParallel
else:

    def __getattr__(name: str) -> Any:
        """Load the parts that many programs do without when they are first asked for."""
        from importlib import import_module

        if name in ("grad", "parallel"):
            return import_module(f"tapegrad.nn.{name}")
        if name == "DataParallel":
            return import_module("tapegrad.nn.parallel").DataParallel
        raise _missing(__name__, name)
