"""Named tuples that composed operations return, under the names PyTorch gives them."""

from typing import NamedTuple

from tapegrad._C import Tensor

__all__ = ["aminmax", "nanmedian"]


class aminmax(NamedTuple):
    """Smallest and largest elements."""

    min: Tensor
    max: Tensor


class nanmedian(NamedTuple):
    """Medians of what is not nan, and where they were found."""

    values: Tensor
    indices: Tensor
