"""Settings of cuDNN, which computes convolutions on CUDA devices where it can be loaded.

They are attributes of the module: ``enabled``, ``benchmark``, ``benchmark_limit``,
``deterministic``, ``allow_tf32`` and ``fp32_precision``.

Example:
    >>> torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark
    (True, False)
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from tapegrad import _C

__all__ = ["flags", "is_acceptable", "is_available", "set_flags", "version"]


def is_available() -> bool:
    """Whether there is a CUDA device and cuDNN could be loaded.

    Example:
        >>> torch.backends.cudnn.is_available() == (torch.backends.cudnn.version() is not None)
        True
    """
    return version() is not None


def version() -> int | None:
    """Return the version of cuDNN, such as 91900, or None where it is not available."""
    if _C._cuda_why_unavailable():
        return None
    return _C._cuda_dnn_version() or None


def is_acceptable(tensor: Any) -> bool:
    """Whether cuDNN takes a tensor: one of a CUDA device, of a floating dtype."""
    takes_it = bool(tensor.is_cuda and tensor.is_floating_point())
    return _C._cuda_dnn_settings()["enabled"] and takes_it and is_available()


_FLAGS = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
) -> tuple[Any, ...]:
    """Set those that are not None, and return what all of them were before."""
    settings = _C._cuda_dnn_settings()
    before = tuple(settings[name] for name in _FLAGS)
    given = (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32)
    settings.update({n: v for n, v in zip(_FLAGS, given, strict=True) if v is not None})
    _C._cuda_set_dnn_settings(**settings)
    return before


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int | None = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> Iterator[None]:
    """Set the flags for a block.

    Example:
        >>> with torch.backends.cudnn.flags(enabled=True, deterministic=True):
        ...     torch.backends.cudnn.deterministic
        True
    """
    before = set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32)
    try:
        yield
    finally:
        set_flags(*before)


# ---- the attributes

enabled: bool
benchmark: bool
benchmark_limit: int | None
deterministic: bool
allow_tf32: bool


class _Flag:
    """A setting of the native module, as an attribute of this one."""

    def __init__(self, kind: type, doc: str) -> None:
        self._kind = kind
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else _C._cuda_dnn_settings()[self._name]

    def __set__(self, instance: Any, value: Any) -> None:
        if not isinstance(value, self._kind):
            raise TypeError(
                f"torch.backends.cudnn.{self._name}: expected a {self._kind.__name__}, "
                f"got {type(value).__name__}"
            )
        settings: dict[str, Any] = {f"_{self._name}": value}
        set_flags(**settings)


class _Cudnn(ModuleType):
    enabled = _Flag(bool, "Whether cuDNN is used where it can be loaded.")
    benchmark = _Flag(
        bool, "Whether the fastest of several engines is found by timing them, for each shape."
    )
    benchmark_limit = _Flag(int, "How many engines are timed; 0 for all.")
    deterministic = _Flag(bool, "Whether gradients of weights have the same bits in every run.")
    allow_tf32 = _Flag(bool, "Whether convolutions of float32 may be computed in TF32.")

    @property
    def fp32_precision(self) -> str:
        """The same in words: ``"tf32"``, or ``"ieee"`` for products that are rounded once."""
        return "tf32" if self.allow_tf32 else "ieee"

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        if value not in ("tf32", "ieee", "none"):
            raise RuntimeError(
                f"fp32_precision: expected 'ieee', 'tf32' or 'none' for cudnn, got {value!r}"
            )
        self.allow_tf32 = value != "ieee"


sys.modules[__name__].__class__ = _Cudnn
