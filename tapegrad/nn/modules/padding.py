"""Modules that put borders around the last dimensions."""

from collections.abc import Sequence

from tapegrad._C import Tensor
from tapegrad.nn import functional as F
from tapegrad.nn.modules.module import Module

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]

_Widths = int | Sequence[int]


class _Pad(Module):
    """What all of them share: a width for every side of every padded dimension."""

    _dims: int
    _mode: str
    padding: tuple[int, ...]

    def __init__(self, padding: _Widths) -> None:
        super().__init__()
        sides = 2 * self._dims
        self.padding = (padding,) * sides if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with borders."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """Return the widths."""
        return f"{self.padding}"


class ConstantPad1d(_Pad):
    """Puts a border of one value around the last dimension.

    Args:
        padding: the width of the border, one for all sides or ``(left, right)``.
        value: what it holds.

    Example:
        >>> torch.nn.ConstantPad1d((1, 2), 9.0)(torch.tensor([[1.0, 2.0]]))
        tensor([[9., 1., 2., 9., 9.]])
    """

    _dims = 1

    def __init__(self, padding: _Widths, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with borders."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """Return the widths and the value."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad2d(ConstantPad1d):
    """As ConstantPad1d, for the last two dimensions: ``(left, right, top, bottom)``."""

    _dims = 2


class ConstantPad3d(ConstantPad1d):
    """As ConstantPad1d, for the last three: ``(left, right, top, bottom, front, back)``."""

    _dims = 3


class ZeroPad1d(ConstantPad1d):
    """Puts a border of zeros around the last dimension.

    Args:
        padding: the width of the border, one for all sides or ``(left, right)``.

    Example:
        >>> torch.nn.ZeroPad1d(1)(torch.tensor([[1.0, 2.0]]))
        tensor([[0., 1., 2., 0.]])
    """

    def __init__(self, padding: _Widths) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Return the widths."""
        return f"{self.padding}"


class ZeroPad2d(ZeroPad1d):
    """As ZeroPad1d, for the last two dimensions: ``(left, right, top, bottom)``."""

    _dims = 2


class ZeroPad3d(ZeroPad1d):
    """As ZeroPad1d, for the last three: ``(left, right, top, bottom, front, back)``."""

    _dims = 3


class ReflectionPad1d(_Pad):
    """Mirrors the values at the edges of the last dimension into a border.

    Args:
        padding: the width of the border, one for all sides or ``(left, right)``.

    Example:
        >>> torch.nn.ReflectionPad1d(2)(torch.tensor([[1.0, 2.0, 3.0]]))
        tensor([[3., 2., 1., 2., 3., 2., 1.]])
    """

    _dims = 1
    _mode = "reflect"


class ReflectionPad2d(ReflectionPad1d):
    """As ReflectionPad1d, for the last two dimensions: ``(left, right, top, bottom)``."""

    _dims = 2


class ReflectionPad3d(ReflectionPad1d):
    """As ReflectionPad1d, for the last three: ``(left, right, top, bottom, front, back)``."""

    _dims = 3


class ReplicationPad1d(_Pad):
    """Repeats the values at the edges of the last dimension in a border.

    Args:
        padding: the width of the border, one for all sides or ``(left, right)``.

    Example:
        >>> torch.nn.ReplicationPad1d(2)(torch.tensor([[1.0, 2.0, 3.0]]))
        tensor([[1., 1., 1., 2., 3., 3., 3.]])
    """

    _dims = 1
    _mode = "replicate"


class ReplicationPad2d(ReplicationPad1d):
    """As ReplicationPad1d, for the last two dimensions: ``(left, right, top, bottom)``."""

    _dims = 2


class ReplicationPad3d(ReplicationPad1d):
    """As ReplicationPad1d, for the last three: ``(left, right, top, bottom, front, back)``."""

    _dims = 3


class CircularPad1d(_Pad):
    """Continues the last dimension with the values of its other end.

    Args:
        padding: the width of the border, one for all sides or ``(left, right)``.

    Example:
        >>> torch.nn.CircularPad1d(2)(torch.tensor([[1.0, 2.0, 3.0]]))
        tensor([[2., 3., 1., 2., 3., 1., 2.]])
    """

    _dims = 1
    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with borders."""
        if input.dim() not in (self._dims + 1, self._dims + 2):
            raise ValueError(
                f"expected {self._dims + 1}D or {self._dims + 2}D input (got {input.dim()}D input)"
            )
        return super().forward(input)


class CircularPad2d(CircularPad1d):
    """As CircularPad1d, for the last two dimensions: ``(left, right, top, bottom)``."""

    _dims = 2


class CircularPad3d(CircularPad1d):
    """As CircularPad1d, for the last three: ``(left, right, top, bottom, front, back)``."""

    _dims = 3
