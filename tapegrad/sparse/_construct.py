"""Sparse tensors from indices and values."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import Size, sparse_coo, sparse_csc, sparse_csr
from tapegrad.sparse._errors import check_not_blocks
from tapegrad.sparse._history import build
from tapegrad.sparse._order import coalescing
from tapegrad.sparse._parts import Parts, empty_coo, make

__all__ = [
    "check_sparse_tensor_invariants",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
]


class check_sparse_tensor_invariants:
    """Whether all that must hold of a sparse tensor is checked when one is made.

    That indices are in range is always checked here. Beyond that, `check_invariants=True` of the
    constructors, or this as a context manager or decorator, checks that a tensor that is said to be
    coalesced is, and that the columns of each row rise in layout sparse_csr.

    Example:
        >>> with torch.sparse.check_sparse_tensor_invariants():
        ...     torch.sparse.check_sparse_tensor_invariants.is_enabled()
        True
    """

    _enabled = False

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self._before: list[bool] = []

    @staticmethod
    def is_enabled() -> bool:
        """Return whether the checks are on."""
        return check_sparse_tensor_invariants._enabled

    @staticmethod
    def enable() -> None:
        """Turn the checks on."""
        check_sparse_tensor_invariants._enabled = True

    @staticmethod
    def disable() -> None:
        """Turn the checks off."""
        check_sparse_tensor_invariants._enabled = False

    def __enter__(self) -> None:
        self._before.append(self.is_enabled())
        check_sparse_tensor_invariants._enabled = self.state

    def __exit__(self, *error: Any) -> None:
        check_sparse_tensor_invariants._enabled = self._before.pop()

    def __call__(self, function: Any) -> Any:
        """Wrap a function, which then runs with the checks on or off."""
        import functools

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return wrapped


def _checks(given: bool | None) -> bool:
    return check_sparse_tensor_invariants.is_enabled() if given is None else given


def _check_device(name: str, device: Any, pin_memory: bool | None) -> None:
    kind = "cpu" if device is None else str(device).partition(":")[0]
    if device is None and _C._get_default_device() is not None:
        kind = str(_C._get_default_device()).partition(":")[0]
    if kind != "cpu":
        raise NotImplementedError(
            f"{name}: sparse tensors are supported on the CPU alone, got device '{kind}'; use "
            "dense tensors there"
        )
    if pin_memory:
        raise NotImplementedError(f"{name}: pin_memory is not supported for sparse tensors")


def _index_tensor(name: str, given: Any) -> Tensor:
    if isinstance(given, Tensor):
        if given.dtype.is_complex:
            raise TypeError(f"{name}: indices must be integers, got {given.dtype}")
        return given.detach() if given.dtype is _C.int64 else given.detach().to(_C.int64)
    return _C.tensor(given, dtype=_C.int64)


def _value_tensor(given: Any, dtype: Any) -> Tensor:
    if isinstance(given, Tensor):
        return given.detach() if dtype is None else given.detach().to(dtype)
    return _C.tensor(given, dtype=dtype)


def _has_history(values: Any) -> bool:
    if not isinstance(values, Tensor):
        return False
    return values.requires_grad or bool(_C._tangent_levels(values))


def _sizes(name: str, size: Any) -> tuple[int, ...]:
    sizes = tuple(int(each) for each in size)
    for each in sizes:
        if each < 0:
            raise RuntimeError(f"{name}: negative sizes are not allowed, got {list(sizes)}")
    return sizes


def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """Make a sparse tensor of the places of its elements and their values.

    Values at the same place are added up. Values with a history give the tensor one.

    Args:
        indices: of shape ``(sparse dimensions, elements)``: a column for each element.
        values: of shape ``(elements, *dense dimensions)``.
        size: of the tensor; as small as the indices allow if None. Without indices and values, an
            empty tensor of this size is made.
        dtype: of the values; their own if None.
        layout: `torch.sparse_coo`.
        device: the CPU.
        pin_memory: refused.
        requires_grad: whether gradients of the tensor are wanted.
        check_invariants: whether `is_coalesced` is checked. Indices always are.
        is_coalesced: whether the indices are sorted and each of them is there once.

    Example:
        >>> torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).to_dense()
        tensor([[0., 0., 3.],
                [4., 0., 0.]])
    """
    name = "sparse_coo_tensor"
    if layout not in (None, sparse_coo):
        raise RuntimeError(f"{name}: expected layout torch.sparse_coo, got {layout}")
    if size is None and values is None and indices is not None:
        size, indices = indices, None
    _check_device(name, device, pin_memory)
    if indices is None:
        if size is None:
            raise TypeError(f"{name}(): missing required argument: 'size'")
        shape = _sizes(name, size)
        parts = empty_coo(shape, len(shape), dtype or _C.get_default_dtype())
        return _finished(make(parts, shape), requires_grad)
    found = _index_tensor(name, indices)
    history = _has_history(values)
    numbers = _value_tensor(values, dtype)
    shape = _check_coo(name, found, numbers, size)
    parts = Parts(sparse_coo, numbers, found, coalesced=bool(is_coalesced) or found.shape[1] < 2)
    if is_coalesced and _checks(check_invariants):
        probe = Parts(sparse_coo, numbers, found, coalesced=False)
        if not _C.Tensor.equal(coalescing(probe, shape).indices, found):
            raise RuntimeError(
                "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"
            )
    if history and not requires_grad:
        with_history = values if dtype is None else values.to(dtype)
        return build(parts, with_history, shape)
    return _finished(make(parts, shape), requires_grad)


def _finished(x: Tensor, requires_grad: bool) -> Tensor:
    if requires_grad:
        x.requires_grad_(True)
    return x


def _check_coo(name: str, indices: Tensor, values: Tensor, size: Any) -> tuple[int, ...]:
    if indices.dim() != 2:
        if indices.dim() == 1 and indices.shape[0] == 0 and values.shape[0] == 0:
            raise RuntimeError(f"{name}: indices must be sparse_dim x nnz, but got: {[0]}")
        if indices.dim() == 1 and size is not None:
            raise RuntimeError(
                f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, "
                f"sparse_dim = {indices.shape[0]}, dense_dim = {max(values.dim() - 1, 0)}"
            )
        raise RuntimeError(
            f"{name}: indices must be sparse_dim x nnz, but got: {list(indices.shape)}"
        )
    if values.dim() == 0:
        raise RuntimeError(f"{name}: expected values with a dimension of elements, got a number")
    sparse, count = indices.shape
    if size is None:
        low, high = _bounds(indices)
        for dim, least in enumerate(low):
            if least < 0:
                raise RuntimeError(f"found negative index {least} for dim {dim}")
        return (*(most + 1 for most in high), *values.shape[1:])
    shape = _sizes(name, size)
    if len(shape) != sparse + values.dim() - 1:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, "
            f"sparse_dim = {sparse}, dense_dim = {values.dim() - 1}"
        )
    if values.shape[0] != count:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {count}, nnz from "
            f"values: {values.shape[0]}"
        )
    if values.shape[1:] != Size(shape[sparse:]):
        raise RuntimeError(
            f"values has incorrect size, expected {[count, *shape[sparse:]]}, got "
            f"{list(values.shape)}"
        )
    low, high = _bounds(indices)
    for dim in range(sparse if count else 0):
        if low[dim] < 0:
            raise RuntimeError(f"found negative index {low[dim]} for dim {dim}")
        if high[dim] >= shape[dim]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {shape[dim]} but found "
                f"index {high[dim]}"
            )
    return shape


def _bounds(indices: Tensor) -> tuple[list[int], list[int]]:
    if indices.shape[1] == 0 or indices.shape[0] == 0:
        return [0] * indices.shape[0], [-1] * indices.shape[0]
    return indices.amin(1).tolist(), indices.amax(1).tolist()


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """Make a sparse matrix of layout sparse_csr or sparse_csc, as `layout` says.

    Args:
        compressed_indices: where each row (or column, in layout sparse_csc) begins, and the end.
        plain_indices: the column (or row) of each element.
        values: of the elements.
        size: of the matrix; as small as the indices allow if None.
        dtype: of the values; their own if None.
        layout: `torch.sparse_csr` or `torch.sparse_csc`.
        device: the CPU.
        pin_memory: refused.
        requires_grad: whether gradients of the matrix are wanted.
        check_invariants: whether it is checked that the columns of each row rise.

    Example:
        >>> torch.sparse_compressed_tensor(
        ...     [0, 1, 2], [2, 0], [3.0, 4.0], (2, 3), layout=torch.sparse_csr
        ... ).to_dense()
        tensor([[0., 0., 3.],
                [4., 0., 0.]])
    """
    if layout is None:
        raise TypeError("sparse_compressed_tensor(): missing required argument: 'layout'")
    check_not_blocks("sparse_compressed_tensor", layout)
    if layout not in (sparse_csr, sparse_csc):
        raise RuntimeError(
            f"sparse_compressed_tensor: expected layout torch.sparse_csr or torch.sparse_csc, got "
            f"{layout}"
        )
    name = "sparse_csr_tensor" if layout is sparse_csr else "sparse_csc_tensor"
    _check_device(name, device, pin_memory)
    starts, plain = _kept_index(name, compressed_indices), _kept_index(name, plain_indices)
    numbers = _value_tensor(values, dtype)
    shape = _check_compressed(name, layout, starts, plain, numbers, size, check_invariants)
    parts = Parts(layout, numbers, None, starts, plain)
    if _has_history(values) and not requires_grad:
        return build(parts, values if dtype is None else values.to(dtype), shape)
    return _finished(make(parts, shape), requires_grad)


def _kept_index(name: str, given: Any) -> Tensor:
    """Return indices in their own dtype, int32 or int64."""
    if isinstance(given, Tensor):
        if given.dtype not in (_C.int64, _C.int32):
            raise RuntimeError(
                f"{name}: compressed_indices and plain_indices dtype must be Int or Long, but got "
                f"{given.dtype}"
            )
        return given.detach()
    return _C.tensor(given, dtype=_C.int64)


def _check_compressed(
    name: str, layout: Any, starts: Tensor, plain: Tensor, values: Tensor, size: Any,
    check_invariants: bool | None,
) -> tuple[int, ...]:  # fmt: skip
    if starts.dim() != 1 or plain.dim() != 1 or values.dim() != 1:
        raise NotImplementedError(
            f"{name}: batches and dense dimensions are not supported, got values of shape "
            f"{list(values.shape)}; use a list of matrices, or a hybrid tensor of layout "
            "torch.sparse_coo"
        )
    if starts.dtype is not plain.dtype:
        raise RuntimeError(
            f"{name}: compressed_indices and plain_indices must have the same dtype, bot got "
            f"{starts.dtype} and {plain.dtype}, respectively"
        )
    if plain.shape[0] != values.shape[0]:
        raise RuntimeError(
            f"{name}: number of plain indices must match number of values, got {plain.shape[0]} "
            f"and {values.shape[0]}"
        )
    if starts.shape[0] < 1:
        raise RuntimeError(f"{name}: expected at least one compressed index")
    count = plain.shape[0]
    low, high = (int(plain.min()), int(plain.max())) if count else (0, -1)
    if size is None:
        major, minor = starts.shape[0] - 1, high + 1
        shape: tuple[int, ...] = (major, minor) if layout is sparse_csr else (minor, major)
    else:
        shape = _sizes(name, size)
        if len(shape) != 2:
            raise NotImplementedError(
                f"{name}: expected the size of a matrix, got {list(shape)}; batches and dense "
                "dimensions are not supported"
            )
        major, minor = shape if layout is sparse_csr else shape[::-1]
    if starts.shape[0] != major + 1:
        raise RuntimeError(
            f"{name}: expected {major + 1} compressed indices for size {list(shape)}, got "
            f"{starts.shape[0]}"
        )
    steps = starts.diff()
    if int(starts[0]) != 0 or int(starts[-1]) != count or bool((steps < 0).any()):
        raise RuntimeError(
            f"{name}: expected compressed indices that rise from 0 to {count}, the number of "
            f"elements, got {starts.tolist() if starts.shape[0] < 20 else list(starts.shape)}"
        )
    if low < 0 or high >= minor:
        raise RuntimeError(
            f"{name}: expected plain indices from 0 to {minor - 1}, got {low} to {high}"
        )
    rows = _C.repeat_interleave(_C.arange(major), steps.to(_C.int64))
    same = rows[1:] == rows[:-1]
    if _checks(check_invariants) and bool((same & (plain[1:] <= plain[:-1])).any()):
        raise RuntimeError(
            f"{name}: expected the plain indices of each row or column to rise and be distinct"
        )
    return shape


def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """Make a sparse matrix given row by row; see `sparse_compressed_tensor`.

    Example:
        >>> torch.sparse_csr_tensor([0, 1, 2], [2, 0], [3.0, 4.0], (2, 3)).values()
        tensor([3., 4.])
    """
    if layout not in (None, sparse_csr):
        raise RuntimeError(f"sparse_csr_tensor: expected layout torch.sparse_csr, got {layout}")
    return sparse_compressed_tensor(
        crow_indices, col_indices, values, size, dtype=dtype, layout=sparse_csr, device=device,
        pin_memory=pin_memory, requires_grad=requires_grad, check_invariants=check_invariants,
    )  # fmt: skip


def sparse_csc_tensor(
    ccol_indices: Any,
    row_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """Make a sparse matrix given column by column; see `sparse_compressed_tensor`.

    Example:
        >>> torch.sparse_csc_tensor([0, 1, 1, 2], [1, 0], [4.0, 3.0], (2, 3)).row_indices()
        tensor([1, 0])
    """
    if layout not in (None, sparse_csc):
        raise RuntimeError(f"sparse_csc_tensor: expected layout torch.sparse_csc, got {layout}")
    return sparse_compressed_tensor(
        ccol_indices, row_indices, values, size, dtype=dtype, layout=sparse_csc, device=device,
        pin_memory=pin_memory, requires_grad=requires_grad, check_invariants=check_invariants,
    )  # fmt: skip
