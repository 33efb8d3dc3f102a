"""What a sparse tensor consists of, and the patterns that its products go by.

Note [Layouts]
A sparse tensor holds one `Parts` (csrc/core/sparse.h tells how). In layout sparse_coo it has
`indices`, a column for each element; in sparse_csr and sparse_csc it has `starts`, where each row
or column begins, and `plain`, the columns or rows of the elements. `values` never have a history:
that is the tensor's own. No rule writes into indices or values: an in-place op replaces them in the
`Parts`, so that tensors may share them.
"""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import sparse_coo, sparse_csc, sparse_csr

__all__ = ["Parts", "Rows", "make"]

_INT64 = _C.int64


class Parts:
    """The parts of one sparse tensor, and what was found out about them."""

    __slots__ = ("_kept", "coalesced", "indices", "layout", "plain", "starts", "values")

    layout: Any
    indices: Tensor | None
    starts: Tensor | None
    plain: Tensor | None
    values: Tensor
    coalesced: bool

    def __init__(
        self,
        layout: Any,
        values: Tensor,
        indices: Tensor | None = None,
        starts: Tensor | None = None,
        plain: Tensor | None = None,
        coalesced: bool = True,
    ) -> None:
        self.layout = layout
        self.values = values
        self.indices = indices
        self.starts = starts
        self.plain = plain
        self.coalesced = coalesced
        self._kept: dict[str, Any] = {}

    def with_values(self, values: Tensor) -> "Parts":
        """Return parts with other values at the same places."""
        parts = Parts(self.layout, values, self.indices, self.starts, self.plain, self.coalesced)
        parts._kept = self._kept  # of the places alone
        return parts

    def replace(self, other: "Parts") -> None:
        """Take over all that other parts have, in place."""
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))

    def same_places(self, other: "Parts") -> bool:
        """Return whether the elements of both are known to be at the same places."""
        return (
            self.layout is other.layout
            and self.indices is other.indices
            and self.starts is other.starts
            and self.plain is other.plain
        )

    def _places(self) -> tuple[Tensor, ...]:
        return tuple(p for p in (self.indices, self.starts, self.plain) if p is not None)

    def kept(self, name: str, find: Any) -> Any:
        """Return what was found out of the places, or find it out; writes to them are noticed."""
        places = self._places()
        written = tuple(p._version for p in places) if not places[0].is_inference() else ()
        known = self._kept.get(name)
        if known is None or known[0] != written:
            known = self._kept[name] = (written, find())
        return known[1]

    def coordinates(self, shape: Any) -> Tensor:
        """Return the places as indices of layout sparse_coo."""
        if self.indices is not None:
            return self.indices
        return self.kept("coordinates", lambda: self._expanded())

    def _expanded(self) -> Tensor:
        assert self.starts is not None and self.plain is not None
        starts, plain = self.starts.to(_INT64), self.plain.to(_INT64)
        major = _C.repeat_interleave(_C.arange(starts.shape[0] - 1), starts.diff())
        rows = [major, plain] if self.layout is sparse_csr else [plain, major]
        return _C.stack(rows)

    def rows(self, shape: Any) -> "Rows":
        """Return the places of a matrix row by row."""
        return self.kept("rows", lambda: self._by_rows(shape))

    def _by_rows(self, shape: Any) -> "Rows":
        if self.layout is sparse_csr:
            assert self.starts is not None and self.plain is not None
            return Rows(self.starts.to(_INT64), self.plain.to(_INT64), None, shape[1])
        if self.layout is sparse_csc:
            assert self.starts is not None and self.plain is not None
            return Rows(self.starts.to(_INT64), self.plain.to(_INT64), None, shape[0]).transposed()
        assert self.indices is not None
        row, column = self.indices.unbind(0)
        starts, order = _C._counting_order(row, shape[0])
        if self.coalesced:
            return Rows(starts, column.contiguous(), None, shape[1])
        return Rows(starts, column.index_select(0, order), order, shape[1])


class Rows:
    """The places of a sparse matrix row by row.

    Attributes:
        starts: where each row begins.
        columns: of the elements.
        order: which of the tensor's values each element is; None where they are in this order.
        width: the number of columns.
    """

    __slots__ = ("_other", "columns", "order", "starts", "width")

    def __init__(self, starts: Tensor, columns: Tensor, order: Tensor | None, width: int) -> None:
        self.starts = starts
        self.columns = columns
        self.order = order
        self.width = width
        self._other: Rows | None = None

    def transposed(self) -> "Rows":
        """Return the places of the transpose; the order is that of the same values."""
        if self._other is None:
            rows = _C.repeat_interleave(_C.arange(self.starts.shape[0] - 1), self.starts.diff())
            starts, order = _C._counting_order(self.columns, self.width)
            rows = rows.index_select(0, order)
            if self.order is not None:
                order = self.order.index_select(0, order)
            self._other = Rows(starts, rows, order, self.starts.shape[0] - 1)
        return self._other


def make(parts: Parts, shape: Any) -> Tensor:
    """Return a sparse tensor without history that has these parts."""
    values = parts.values
    if values.device.type != "cpu":
        raise NotImplementedError(
            f"sparse tensors are supported on the CPU alone, got values on {values.device}; "
            "use dense tensors there"
        )
    for number, _ in _C._running_vmaps():
        if any(_C._is_batched_at(part, number) for part in (values, *parts._places())):
            raise NotImplementedError(
                "vmap: sparse tensors cannot be made inside of vmap; use dense tensors there"
            )
    return _C._sparse_handle(parts, values.dtype, tuple(shape))


def empty_coo(shape: Any, sparse_dim: int, dtype: Any) -> Parts:
    """Return the parts of a tensor without elements."""
    indices = _C.empty((sparse_dim, 0), dtype=_INT64)
    values = _C.empty((0, *shape[sparse_dim:]), dtype=dtype)
    return Parts(sparse_coo, values, indices)
