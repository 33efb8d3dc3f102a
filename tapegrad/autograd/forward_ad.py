"""Forward mode: tangents that travel with values.

Inside a `dual_level`, `make_dual` attaches a tangent to a tensor, every op carries it on, and
`unpack_dual` reads it off the result. Levels nest, and the tangents of different levels are never
confused.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


class _Levels(threading.local):
    """The numbers of the running levels of a thread, outermost first."""

    def __init__(self) -> None:
        self.numbers: list[int] = []


_running = _Levels()


class UnpackedDualTensor(NamedTuple):
    """A tensor's value and its tangent, which is None if it has none."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Start a level of forward mode and return its number.

    Example:
        >>> level = torch.autograd.forward_ad.enter_dual_level()
        >>> torch.autograd.forward_ad.exit_dual_level(level=level)
    """
    _running.numbers.append(_C._enter_dual_level())
    return _running.numbers[-1]


def exit_dual_level(*, level: int | None = None) -> None:
    """End the innermost level; the tangents made in it are gone.

    Args:
        level: the number of the level, as a check; the innermost by default.
    """
    levels = _running.numbers
    if not levels:
        raise RuntimeError("exit_dual_level: expected to be inside a dual level, but there is none")
    if level is not None and level != levels[-1]:
        raise RuntimeError(
            "exit_dual_level: trying to exit a forward AD level that was not the last one that was "
            f"created: expected {levels[-1]}, got {level}"
        )
    _C._exit_dual_level(levels[-1])
    levels.pop()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return a view of a tensor that carries a tangent.

    Args:
        tensor: the value.
        tangent: its tangent, of the same shape and dtype.
        level: the level the tangent belongs to; the innermost by default.

    Example:
        >>> import tapegrad.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     x = fwAD.make_dual(torch.tensor(3.0), torch.tensor(1.0))
        ...     fwAD.unpack_dual(x * x).tangent
        tensor(6.)
    """
    if level is None:
        if not _running.numbers:
            raise RuntimeError(
                "make_dual: trying to create a dual Tensor for forward AD but no level exists, "
                "make sure to enter_dual_level() first"
            )
        level = _running.numbers[-1]
    return _C._make_dual(tensor, tangent, level)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return the value and the tangent of a tensor.

    Args:
        tensor: any tensor; one without tangent gives None for it.
        level: the level to read; the innermost by default.

    Example:
        >>> import tapegrad.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     x = fwAD.make_dual(torch.tensor(2.0), torch.tensor(1.0))
        ...     value, tangent = fwAD.unpack_dual(x.exp())
        >>> tangent
        tensor(7.3891)
    """
    if level is None:
        if not _running.numbers:
            return UnpackedDualTensor(tensor, None)
        level = _running.numbers[-1]
    return UnpackedDualTensor(*_C._unpack_dual(tensor, level))


@contextlib.contextmanager
def _outside_levels() -> Iterator[None]:
    """Run a block as if no level were running: for what began before those that are."""
    running, _running.numbers = _running.numbers, []
    shown = _C._hide_dual_levels()
    try:
        yield
    finally:
        _C._show_dual_levels(shown)
        _running.numbers = running


class dual_level:
    """A block of forward mode: tangents live from its beginning to its end.

    Example:
        >>> import tapegrad.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     x = fwAD.make_dual(torch.tensor(1.0), torch.tensor(2.0))
        ...     fwAD.unpack_dual(x.sin()).tangent
        tensor(1.0806)
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: Any) -> None:
        exit_dual_level()
