"""Which bytes of which tensors go to a file, and under which names.

A tensor that shares its memory with no other is an entry of its own, in row-major order, so that
any reader of safetensors finds it under its name with its values.

Tensors over one storage come back over one storage. An entry of the file may not overlap another,
so of the tensors that overlap only some are entries: contiguous ones, the largest first. What they
leave of the storage, from the first byte in use to the last, is filled with entries whose names end
in ``.storage``. The document describes all others by sizes, strides and offset.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.serialization._dtypes import CODES, Code, code_of
from tapegrad.serialization._errors import UnsupportedObjectError
from tapegrad.serialization._safetensors import METADATA, Piece
from tapegrad.serialization._storage import memory_of

__all__ = ["Layout"]


class _View(NamedTuple):
    """A tensor on a storage: first and last element, in elements of its size."""

    number: int
    tensor: Tensor
    name: str
    first: int
    end: int

    def fills_its_span(self) -> bool:
        return self.tensor.is_contiguous()


class Layout:
    """Collects what is to be written.

    `pieces()` are the entries in the order of the file, `records` describe the tensors by number,
    `storages` lists the entries that together form one storage.
    """

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.storages: list[list[str]] = []
        self._groups: list[tuple[int, list[Piece]]] = []
        self._tensors: list[tuple[Tensor, str]] = []
        self._numbers: dict[int, int] = {}
        self._names: dict[str, int] = {METADATA: 1}

    def add_tensor(self, tensor: Tensor, name: str) -> int:
        """Take in a tensor; return its number, the same for the same object."""
        if id(tensor) not in self._numbers:
            self._numbers[id(tensor)] = len(self._tensors)
            self._tensors.append((tensor, name))
        return self._numbers[id(tensor)]

    def add_bytes(self, code: Code, shape: Sequence[int], data: Any, name: str) -> str:
        """Take in memory with a buffer as an entry; return its name."""
        memory = memoryview(data)
        shape = (*shape, 2) if code.pairs else tuple(shape)

        def flat() -> memoryview:
            return memory.cast("B")

        piece = Piece(self._unique(name), code.name, shape, memory.nbytes, flat)
        self._groups.append((CODES[code.name], [piece]))
        return piece.name

    def pieces(self) -> list[Piece]:
        """Return all entries. The largest elements come first, so that all are aligned."""
        groups = sorted(self._groups, key=lambda group: -group[0])
        return [piece for _, group in groups for piece in group]

    def place_tensors(self) -> None:
        """Decide what becomes an entry, once all tensors are known."""
        self.records = [{} for _ in self._tensors]
        by_storage: dict[int, list[_View]] = {}
        for index, (tensor, name) in enumerate(self._tensors):
            first = tensor.storage_offset()
            if tensor.numel() == 0:
                self._place_alone(_View(index, tensor, name, first, first))
                continue
            pairs = zip(tensor.shape, tensor.stride(), strict=True)
            end = first + 1 + sum((size - 1) * step for size, step in pairs)
            view = _View(index, tensor, name, first, end)
            by_storage.setdefault(_C._storage_id(tensor), []).append(view)
        for views in by_storage.values():
            span = views[0].end - views[0].first
            if len(views) == 1 and views[0].tensor.numel() <= span:
                self._place_alone(views[0])
            else:
                self._place_together(views)

    def _unique(self, name: str) -> str:
        # Readers of JSON outside Python refuse lone surrogates.
        name = name.encode("utf-8", "backslashreplace").decode("utf-8")
        if name not in self._names:
            self._names[name] = 1
            return name
        while True:
            self._names[name] += 1
            candidate = f"{name}#{self._names[name]}"
            if candidate not in self._names:
                self._names[candidate] = 1
                return candidate

    # ---- one tensor on its storage

    def _place_alone(self, view: _View) -> None:
        tensor = view.tensor
        code = code_of(tensor.dtype)
        shape = (*tensor.shape, 2) if code.pairs else tuple(tensor.shape)

        def data() -> memoryview:
            plain = tensor.detach().contiguous()
            return _bytes_of(plain.cpu() if plain.is_cuda else plain)

        name = self._unique(view.name)
        nbytes = tensor.numel() * tensor.dtype.itemsize
        self._groups.append((tensor.dtype.itemsize, [Piece(name, code.name, shape, nbytes, data)]))
        record = self.records[view.number]
        record["entry"] = name
        if code.pairs:
            record["dtype"] = _name_of(tensor.dtype)
        if _is_dense(tensor) and not tensor.is_contiguous():
            record["memory_stride"] = list(tensor.stride())
        self._describe_kind(view)

    # ---- several tensors on a storage

    def _place_together(self, views: list[_View]) -> None:
        size = views[0].tensor.dtype.itemsize
        for view in views:
            if view.tensor.dtype.itemsize != size:
                raise UnsupportedObjectError(
                    f"save: {views[0].name} and {view.name} view the same memory as elements of "
                    "different sizes; clone() one of them"
                )
        first = min(view.first for view in views)
        end = max(view.end for view in views)
        owners = _choose_owners(views)
        holder, group = views[0], []
        names: dict[int, str] = {}
        place = first
        for owner in [*owners, None]:
            until = end if owner is None else owner.first
            if place < until:
                group.append(self._piece(holder, f"{holder.name}.storage", place, until, None))
            if owner is not None:
                piece = self._piece(owner, owner.name, owner.first, owner.end, owner.tensor.shape)
                group.append(piece)
                names[owner.number] = piece.name
                place = owner.end
        self._groups.append((size, group))
        if len(group) > 1:
            self.storages.append([piece.name for piece in group])
        for view in views:
            self._describe(view, names.get(view.number), group[0].name, first)

    def _piece(
        self, view: _View, name: str, first: int, end: int, shape: Sequence[int] | None
    ) -> Piece:
        tensor, size = view.tensor, view.tensor.dtype.itemsize
        code = code_of(tensor.dtype)
        sizes = (end - first,) if shape is None else tuple(shape)

        def data() -> memoryview:
            if tensor.is_cuda:
                span = _C.as_strided(tensor.detach(), (end - first,), (1,), first)
                return memory_of(span.cpu())
            return memory_of(tensor)[first * size : end * size]

        sizes = (*sizes, 2) if code.pairs else sizes
        return Piece(self._unique(name), code.name, sizes, (end - first) * size, data)

    def _describe(self, view: _View, own: str | None, storage: str, first: int) -> None:
        tensor, record = view.tensor, self.records[view.number]
        record["entry"] = own or storage
        if own is None or code_of(tensor.dtype).pairs:
            record["dtype"] = _name_of(tensor.dtype)
        if own is None:
            record["shape"] = list(tensor.shape)
            record["stride"] = list(tensor.stride())
            record["offset"] = view.first - first
        self._describe_kind(view)

    def _describe_kind(self, view: _View) -> None:
        record = self.records[view.number]
        if view.tensor.requires_grad:
            record["requires_grad"] = True
        if type(view.tensor) is not Tensor:
            record["parameter"] = True
        if view.tensor.is_cuda:
            record["device"] = str(view.tensor.device)


def _name_of(dtype: _C.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _choose_owners(views: list[_View]) -> list[_View]:
    """Return contiguous tensors that do not overlap, in the order of memory."""
    chosen: list[_View] = []
    candidates = [view for view in views if view.fills_its_span()]
    # Of those that begin together the longest, and of equal ones the first that was met.
    candidates.sort(key=lambda view: (view.first, -view.end, view.number))
    place = -1
    for view in candidates:
        if view.first >= place:
            chosen.append(view)
            place = view.end
    return chosen


def _is_dense(tensor: Tensor) -> bool:
    """Whether the elements fill their memory, in whatever order of dimensions."""
    expected = 1
    dims = [pair for pair in zip(tensor.stride(), tensor.shape, strict=True) if pair[1] != 1]
    for step, size in sorted(dims):
        if step != expected:
            return False
        expected *= size
    return True


def _bytes_of(tensor: Tensor) -> memoryview:
    """Return the bytes of a contiguous tensor."""
    size = tensor.dtype.itemsize
    start = tensor.storage_offset() * size
    return memory_of(tensor)[start : start + tensor.numel() * size]
