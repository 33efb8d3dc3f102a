# mypy: disable-error-code="method-assign, attr-defined, assignment"
"""Tensor methods that are no functions, and in-place forms of what is written in Python.

An in-place form computes its result with the recorded operation and copies it into the tensor,
which is recorded as the write of any in-place operation is.
"""

import sys
from collections.abc import Callable
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed import (
    embedding_views,
    linear_algebra,
    pointwise,
    scaling,
)
from tapegrad._types import contiguous_format

__all__ = ["install"]


def _inplace(operation: Callable[..., Tensor]) -> Callable[..., Tensor]:
    name = operation.__name__ + "_"

    def write(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        # What the operation saves for its derivative must not be written over.
        source = self.clone() if self.requires_grad and _C.is_grad_enabled() else self
        result = operation(source, *args, **kwargs)
        if result.shape != self.shape:
            raise RuntimeError(
                f"{name}: output with shape {list(self.shape)} doesn't match the broadcast shape "
                f"{list(result.shape)}"
            )
        if not scaling.can_cast(result.dtype, self.dtype):
            raise RuntimeError(
                f"{name}: result type {result.dtype} can't be cast to the desired output type "
                f"{self.dtype}"
            )
        return self.copy_(result)

    write.__name__ = write.__qualname__ = name
    write.__doc__ = f"`{operation.__name__}`, written into the tensor."
    write.__wrapped__ = operation  # type: ignore[attr-defined]  # its signature
    return write


def float_power_(self: Tensor, exponent: Any) -> Tensor:
    """`float_power`, in place, of a tensor of float64, or of complex128 if a number is complex."""
    required = _C.complex128 if pointwise.any_complex(self, exponent) else _C.float64
    if self.dtype != required:
        raise RuntimeError(
            f"float_power_: the base has dtype {self.dtype} but the result requires {required}"
        )
    return _float_power(self, exponent)


_float_power = _inplace(pointwise.float_power)


def fill_diagonal_(self: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Write one number into the main diagonal: the elements whose indices are all equal.

    Args:
        fill_value: the number.
        wrap: whether the diagonal of a tall matrix begins anew below a row without an element.

    Example:
        >>> torch.zeros(2, 3).fill_diagonal_(5)
        tensor([[5., 0., 0.],
                [0., 5., 0.]])
    """
    if self.dim() < 2:
        raise RuntimeError("fill_diagonal_: dimensions must larger than 1")
    height, width = self.shape[0], self.shape[1]
    if self.dim() > 2 and any(size != height for size in self.shape):
        raise RuntimeError("fill_diagonal_: all dimensions of input must be of equal length")
    if self.numel() == 0:
        return self
    step = sum(self.stride())
    least = min(self.shape)
    self.as_strided((least,), (step,)).fill_(fill_value)
    if wrap and self.dim() == 2 and height > width + 1:
        for first in range(width + 1, height, width + 1):
            count = min(width, height - first)
            self.narrow(0, first, count).as_strided((count,), (step,)).fill_(fill_value)
    return self


def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace every element by what a Python function makes of it; for tensors on the CPU."""
    return _mapped(self, "apply_", callable)


def map_(self: Tensor, other: Tensor, callable: Callable[..., Any]) -> Tensor:
    """Replace every element by what a function makes of it and the element of another tensor."""
    return _mapped(self, "map_", callable, other)


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[..., Any]) -> Tensor:
    """Replace every element by what a function makes of it and the elements of two tensors."""
    return _mapped(self, "map2_", callable, x, y)


def _mapped(self: Tensor, name: str, function: Callable[..., Any], *others: Tensor) -> Tensor:
    for tensor in (self, *others):
        if tensor.requires_grad:
            raise RuntimeError(
                f"Can't call {name} on a tensor that requires grad; use x.detach().{name} instead"
            )
        if tensor.device.type != "cpu":
            raise TypeError(f"{name} is only implemented on CPU tensors")
    for other in others:
        if other.dtype != self.dtype:
            raise TypeError(f"{name}: expected {self.dtype}, got {other.dtype}")
    columns = [self, *(other.expand_as(self) for other in others)]
    rows = zip(*(column.reshape(-1).tolist() for column in columns), strict=True)
    values = [function(*row) for row in rows]
    return self.copy_(_C.tensor(values, dtype=self.dtype).reshape(self.shape))


def hardshrink(self: Tensor, lambd: float = 0.5) -> Tensor:
    """Zero where the absolute value is at most `lambd`, as nn.functional.hardshrink."""
    return _C.hardshrink(self, lambd)


def prelu(self: Tensor, weight: Tensor) -> Tensor:
    """The elements, those below zero times a weight, as nn.functional.prelu."""
    from tapegrad.nn.functional import prelu

    return prelu(self, weight)


def narrow_copy(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A copy of a range of positions; `narrow` gives a view of it."""
    return self.narrow(dim, start, length).clone(memory_format=contiguous_format)


def dim_order(self: Tensor) -> tuple[int, ...]:
    """Return the dimensions in the order in which they lie in memory, the slowest first.

    Example:
        >>> torch.empty(2, 3, 4).transpose(1, 2).dim_order()
        (0, 2, 1)
    """
    strides = self.stride()
    return tuple(sorted(range(self.dim()), key=lambda dim: -strides[dim]))


def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """Return the tensor itself, or in another dtype: it is dense already."""
    return self if dtype is None else self.to(dtype)


def to_sparse(
    self: Tensor, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None,
    dense_dim: int | None = None,
) -> Tensor:  # fmt: skip
    """Return the elements that are not zero as a sparse tensor.

    Args:
        sparse_dim: how many dimensions are sparse, from the first on; all if None.
        layout: `torch.sparse_coo`, `torch.sparse_csr` or `torch.sparse_csc`; the first if None.
        blocksize: refused.
        dense_dim: how many dimensions are dense, the last ones.

    Example:
        >>> torch.tensor([[0, 3], [4, 0]]).to_sparse().indices()
        tensor([[0, 1],
                [1, 0]])
    """
    from tapegrad.sparse._convert import to_sparse

    return to_sparse(self, sparse_dim, layout=layout, blocksize=blocksize, dense_dim=dense_dim)


def to_sparse_coo(self: Tensor) -> Tensor:
    """Return the elements that are not zero as a sparse tensor of layout sparse_coo."""
    return to_sparse(self)


def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """Return the elements of a matrix that are not zero, row by row."""
    from tapegrad.sparse._convert import sparse_csr, to_layout

    return to_layout(self, sparse_csr, dense_dim)


def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """Return the elements of a matrix that are not zero, column by column."""
    from tapegrad.sparse._convert import sparse_csc, to_layout

    return to_layout(self, sparse_csc, dense_dim)


def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """Return the elements at the places of a sparse tensor, as one."""
    from tapegrad.sparse._convert import sparse_mask

    return sparse_mask(self, mask)


def smm(self: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of a sparse matrix with this one: see `torch.smm`."""
    from tapegrad.sparse._products import smm

    return smm(self, mat2)


def sparse_dim(self: Tensor) -> int:
    """Return the number of sparse dimensions: none."""
    return 0


def dense_dim(self: Tensor) -> int:
    """Return the number of dense dimensions: all."""
    return self.dim()


def _is_sparse_csr(self: Tensor) -> bool:
    """Return whether the layout is sparse_csr: not that of a dense tensor."""
    return False


def _is_elsewhere(self: Tensor) -> bool:
    """Return whether the tensor is on such a device: False, since there are no back ends for it."""
    return False


def _of_layout(name: str, kind: str) -> Any:
    def fail(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"{name} expected sparse {kind}tensor layout but got Strided; call .to_sparse() first"
        )

    fail.__name__ = fail.__qualname__ = name
    fail.__doc__ = f"`{name}` of a sparse tensor; a dense one has none."
    return fail


def swapaxes_(self: Tensor, axis0: int, axis1: int) -> Tensor:
    """`swapaxes`, in place."""
    return self.transpose_(axis0, axis1)


def is_shared(self: Tensor) -> bool:
    """Return whether other processes see the memory, after `share_memory_`, or on a GPU."""
    shared = sys.modules.get("tapegrad.multiprocessing.shared")  # without it nothing was shared
    if self.device.type != "cpu" or shared is None:
        return self.is_cuda
    return bool(shared.is_shared(self.untyped_storage()))


def share_memory_(self: Tensor) -> Tensor:
    """Move the memory to where processes share it: what one writes, all see.

    Forked processes have it from the start; to others the tensor is sent as an argument of
    `torch.multiprocessing.Process` or through a queue, without a copy. No other tensor may show
    the memory: it would not move with this one.

    Example:
        >>> x = torch.zeros(2).share_memory_()
        >>> x.is_shared()
        True
    """
    from tapegrad.multiprocessing.shared import share

    return share(self)


def polygamma_(self: Tensor, n: int) -> Tensor:
    """`polygamma`, written into the tensor."""
    return _polygamma(self, n)


_polygamma = _inplace(lambda x, n: _C.polygamma(n, x))


def install() -> None:
    """Give the Tensor class these methods."""
    Tensor.addbmm_ = _inplace(linear_algebra.addbmm)
    Tensor.addr_ = _inplace(linear_algebra.addr)
    Tensor.apply_ = apply_
    Tensor.dim_order = dim_order
    Tensor.fill_diagonal_ = fill_diagonal_
    Tensor.float_power_ = float_power_
    Tensor.hardshrink = hardshrink
    Tensor.index_reduce_ = _inplace(embedding_views.index_reduce)
    Tensor.is_shared = is_shared
    Tensor.share_memory_ = share_memory_
    Tensor.ldexp_ = _inplace(scaling.ldexp)
    Tensor.map2_ = map2_
    Tensor.map_ = map_
    Tensor.narrow_copy = narrow_copy
    Tensor.polygamma_ = polygamma_
    Tensor.prelu = prelu
    Tensor.renorm_ = _inplace(scaling.renorm)
    Tensor.smm = smm
    Tensor.sparse_mask = sparse_mask
    Tensor.swapaxes_ = swapaxes_
    Tensor.to_dense = to_dense
    Tensor.dense_dim = dense_dim
    Tensor.sparse_dim = sparse_dim
    Tensor.to_sparse = to_sparse
    Tensor.to_sparse_coo = to_sparse_coo
    Tensor.to_sparse_csc = to_sparse_csc
    Tensor.to_sparse_csr = to_sparse_csr
    Tensor.is_sparse_csr = property(_is_sparse_csr)
    for name in ("ipu", "maia", "mps", "mtia", "vulkan", "xla", "xpu"):
        setattr(Tensor, f"is_{name}", property(_is_elsewhere))
    Tensor.const_data_ptr = Tensor.data_ptr
    Tensor.coalesce = _of_layout("coalesce", "coordinate ")
    Tensor.is_coalesced = _of_layout("is_coalesced", "coordinate ")
    Tensor.indices = _of_layout("indices", "coordinate ")
    Tensor._indices = _of_layout("_indices", "coordinate ")
    Tensor._coalesced_ = _of_layout("_coalesced_", "coordinate ")
    Tensor._nnz = _of_layout("_nnz", "coordinate ")
    Tensor.values = _of_layout("values", "")
    Tensor._values = _of_layout("_values", "")
    Tensor.sparse_resize_ = _of_layout("sparse_resize_", "")
    Tensor.sparse_resize_and_clear_ = _of_layout("sparse_resize_and_clear_", "")
    Tensor.crow_indices = _of_layout("crow_indices", "row compressed ")
    Tensor.col_indices = _of_layout("col_indices", "row compressed ")
    Tensor.ccol_indices = _of_layout("ccol_indices", "column compressed ")
    Tensor.row_indices = _of_layout("row_indices", "column compressed ")
