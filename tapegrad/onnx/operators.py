"""Functions that models of older programs call for the sake of an export."""

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]


def shape_as_tensor(x: Tensor) -> Tensor:
    """Return the sizes of a tensor as a tensor."""
    return _C.tensor(tuple(x.shape), dtype=_C.int64)


def reshape_from_tensor_shape(x: Tensor, shape: Tensor) -> Tensor:
    """Return a tensor with the sizes that another one holds."""
    return x.reshape(shape.tolist())
