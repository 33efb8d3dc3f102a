"""Names for annotations."""

from collections.abc import Sequence
from typing import Any

from tapegrad._C import Tensor, UntypedStorage
from tapegrad._C import dtype as _dtype  # noqa: F401
from tapegrad._types import Size, device

__all__ = ["Device", "Number", "Sequence", "Size", "Storage", "Tensor"]

Number = int | float | bool
Device = device | str | int | None
BoolLikeType = bool
IntLikeType = int
FloatLikeType = float
FileLike = Any
Storage = UntypedStorage
# What annotations of packages call them.
_device = device
_size = Sequence[int] | Size
