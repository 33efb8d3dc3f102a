"""Named tuples that composed operations return, under the names PyTorch gives them."""

from typing import NamedTuple

from tapegrad._C import Tensor

__all__ = ["aminmax", "frexp", "histogram", "histogramdd", "nanmedian"]


class aminmax(NamedTuple):
    """Smallest and largest elements."""

    min: Tensor
    max: Tensor


class nanmedian(NamedTuple):
    """Medians of what is not nan, and where they were found."""

    values: Tensor
    indices: Tensor


class frexp(NamedTuple):
    """Significands between a half and one, and the powers of two beside them."""

    mantissa: Tensor
    exponent: Tensor


class histogram(NamedTuple):
    """Counts, and the edges of their bins."""

    hist: Tensor
    bin_edges: Tensor


class histogramdd(NamedTuple):
    """Counts, and the edges of their bins in each dimension."""

    hist: Tensor
    bin_edges: tuple[Tensor, ...]
