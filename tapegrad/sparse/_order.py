"""Where the elements of sparse tensors are, and in which order."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.autograd.function import Function

__all__ = ["Merged", "coalescing", "flat_places", "places_among", "rows_times"]

# The largest size of a dimension that is sorted by counting, for each element.
_COUNTED = 8


def flat_places(indices: Tensor, shape: Any) -> Tensor:
    """Return one number for each column of indices: its place in row-major order."""
    flat = indices[0] if indices.shape[0] else indices.new_zeros(indices.shape[1])
    for dim in range(1, indices.shape[0]):
        flat = flat * shape[dim] + indices[dim]
    return flat


def order_of(indices: Tensor, shape: Any) -> Tensor:
    """Return the order that sorts columns of indices, which keeps equal ones as they were."""
    count = indices.shape[1]
    order: Tensor | None = None
    for dim in reversed(range(indices.shape[0])):
        row = indices[dim] if order is None else indices[dim].index_select(0, order)
        if shape[dim] <= max(_COUNTED * count, 1024):
            step = _C._counting_order(row, shape[dim])[1]
        else:
            step = row.argsort(stable=True)
        order = step if order is None else order.index_select(0, step)
    return _C.arange(count) if order is None else order


def places_among(known: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Return whether each wanted number is among known ones, which are sorted, and where."""
    place = _C.searchsorted(known, wanted)
    last = max(known.shape[0] - 1, 0)
    place = place.clamp(max=last)
    if known.shape[0] == 0:
        return _C.zeros(wanted.shape, dtype=_C.bool), place
    return known.index_select(0, place) == wanted, place


class Merged:
    """Which terms of an uncoalesced tensor make up which element.

    Attributes:
        indices: of the elements, sorted.
        starts: where the terms of each begin in the order.
        order: which terms they are.
    """

    __slots__ = ("indices", "order", "starts", "terms")

    def __init__(self, indices: Tensor, starts: Tensor, order: Tensor, terms: int) -> None:
        self.indices = indices
        self.starts = starts
        self.order = order
        self.terms = terms

    def firsts(self) -> Tensor:
        """Return the first term of every element."""
        return self.order.index_select(0, self.starts[:-1])

    def sum(self, values: Tensor) -> Tensor:
        """Return the values of the elements: the sums of those of their terms."""
        if self.indices.shape[1] == self.terms:
            return values.index_select(0, self.order)
        if values.dtype == _C.bool:
            return self.sum(values.to(_C.int64)) != 0
        from tapegrad.sparse._parts import Rows

        rows = Rows(self.starts, self.order, None, self.terms)
        flat = values.reshape(self.terms, values[0].numel())
        ones = _C.ones(self.terms, dtype=values.dtype)
        return rows_times(rows, ones, flat).reshape(-1, *values.shape[1:])


def coalescing(parts: Any, shape: Any) -> Merged:
    """Return how the terms of parts of layout sparse_coo are merged."""
    return parts.kept("merged", lambda: _find_merged(parts.indices, shape))


def _find_merged(indices: Tensor, shape: Any) -> Merged:
    terms = indices.shape[1]
    order = order_of(indices, shape)
    ordered = indices.index_select(1, order)
    if terms == 0:
        return Merged(ordered, _C.zeros(1, dtype=_C.int64), order, 0)
    new = _C.ones(terms, dtype=_C.bool)
    new[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(0)
    firsts = new.nonzero().squeeze(1)
    starts = _C.cat([firsts, firsts.new_full((1,), terms)])
    return Merged(ordered.index_select(1, firsts), starts, order, terms)


def rows_times(rows: Any, values: Tensor, dense: Tensor) -> Tensor:
    """Return a sparse matrix, of these places and values, times a dense one."""
    if not values.dtype.is_complex:
        return SparseMm.apply(values, dense, rows)
    # Products of both parts of the values with a matrix twice as wide.
    count, width = dense.shape
    pairs = _C.view_as_real(dense.resolve_conj()).reshape(count, 2 * width)
    parts = [SparseMm.apply(part.contiguous(), pairs, rows) for part in (values.real, values.imag)]
    real, imag = (_C.view_as_complex(part.reshape(-1, width, 2)) for part in parts)
    return real + imag * 1j


def elements_of_product(rows: Any, a: Tensor, b: Tensor) -> Tensor:
    """Return the elements of ``a @ b.mT`` at the places of a matrix, in the order of its values."""
    if not a.dtype.is_complex:
        return SparseSampledMm.apply(a, b, rows)
    real = SparseSampledMm.apply(a.real, b.real, rows) - SparseSampledMm.apply(a.imag, b.imag, rows)
    imag = SparseSampledMm.apply(a.real, b.imag, rows) + SparseSampledMm.apply(a.imag, b.real, rows)
    return _C.view_as_complex(_C.stack([real, imag], -1))


class SparseMm(Function):
    """A sparse matrix times a dense one."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, dense: Tensor, rows: Any) -> Tensor:
        ctx.rows = rows
        # The places are saved so that writes to them are noticed.
        ctx.save_for_backward(values, dense, rows.starts, rows.columns)
        if rows.order is not None:
            values = values.index_select(0, rows.order)
        return _C._csr_mm(rows.starts, rows.columns, values, dense)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        values, dense, *_ = ctx.saved_tensors
        grad_values = grad_dense = None
        if ctx.needs_input_grad[0]:
            grad_values = SparseSampledMm.apply(grad, dense, ctx.rows)
        if ctx.needs_input_grad[1]:
            grad_dense = SparseMm.apply(values, grad, ctx.rows.transposed())
        return grad_values, grad_dense, None


class SparseSampledMm(Function):
    """Elements of the product of two dense matrices."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, rows: Any) -> Tensor:
        ctx.rows = rows
        ctx.save_for_backward(a, b, rows.starts, rows.columns)
        elements = _C._csr_sampled_mm(rows.starts, rows.columns, a, b)
        if rows.order is None:
            return elements
        return _C.empty_like(elements).index_copy_(0, rows.order, elements)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        a, b, *_ = ctx.saved_tensors
        grad_a = grad_b = None
        if ctx.needs_input_grad[0]:
            grad_a = SparseMm.apply(grad, b, ctx.rows)
        if ctx.needs_input_grad[1]:
            grad_b = SparseMm.apply(grad, a, ctx.rows.transposed())
        return grad_a, grad_b, None
