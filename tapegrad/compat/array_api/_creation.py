"""Functions that make tensors."""

from typing import Any

import tapegrad as torch
from tapegrad import Tensor

Shape = int | tuple[int, ...]


def _shape(shape: Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: torch.dtype | None = None,
    device: Any = None,
) -> Tensor:
    """Return evenly spaced numbers from a start up to a stop, which is not among them."""
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        whole = all(isinstance(each, int) for each in (start, stop, step))
        dtype = torch.int64 if whole else torch.get_default_dtype()
    if (step > 0 and stop < start) or (step < 0 and stop > start):
        return torch.empty(0, dtype=dtype, device=device)
    return torch.arange(start, stop, step, dtype=dtype, device=device)


def asarray(
    obj: Any,
    /,
    *,
    dtype: torch.dtype | None = None,
    device: Any = None,
    copy: bool | None = None,
) -> Tensor:
    """Return a tensor of a number, nested sequences, or another array.

    Args:
        obj: what to convert.
        dtype: that of the result; of ``obj`` if none is given.
        device: where the result is to be.
        copy: whether memory is copied: always, never (which raises if it must be), or if needed.
    """
    if copy is False and isinstance(obj, (bool, int, float, complex, list, tuple, range)):
        raise ValueError("asarray: a Python object has no memory to share; leave copy=False out")
    return torch.asarray(obj, dtype=dtype, device=device, copy=copy)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a tensor that shares the memory of another library's array."""
    found = torch.from_dlpack(x)
    if device is not None and torch.device(device) != found.device:
        if copy is False:
            raise ValueError(f"from_dlpack: {found.device} to {device} takes a copy")
        return found.to(device)
    return found.clone() if copy else found


def empty(shape: Shape, *, dtype: torch.dtype | None = None, device: Any = None) -> Tensor:
    """Return a tensor whose values are not set."""
    return torch.empty(_shape(shape), dtype=dtype, device=device)


def zeros(shape: Shape, *, dtype: torch.dtype | None = None, device: Any = None) -> Tensor:
    """Return a tensor of zeros."""
    return torch.zeros(_shape(shape), dtype=dtype, device=device)


def ones(shape: Shape, *, dtype: torch.dtype | None = None, device: Any = None) -> Tensor:
    """Return a tensor of ones."""
    return torch.ones(_shape(shape), dtype=dtype, device=device)


def full(
    shape: Shape, fill_value: Any, *, dtype: torch.dtype | None = None, device: Any = None
) -> Tensor:
    """Return a tensor all of whose elements are one value."""
    return torch.full(_shape(shape), fill_value, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: torch.dtype | None = None, device: Any = None) -> Tensor:
    """Return a tensor of another's shape whose values are not set."""
    return torch.empty_like(x, dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: torch.dtype | None = None, device: Any = None) -> Tensor:
    """Return a tensor of zeros of another's shape."""
    return torch.zeros_like(x, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: torch.dtype | None = None, device: Any = None) -> Tensor:
    """Return a tensor of ones of another's shape."""
    return torch.ones_like(x, dtype=dtype, device=device)


def full_like(
    x: Tensor, /, fill_value: Any, *, dtype: torch.dtype | None = None, device: Any = None
) -> Tensor:
    """Return a tensor of another's shape all of whose elements are one value."""
    return torch.full_like(x, fill_value, dtype=dtype, device=device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: torch.dtype | None = None,
    device: Any = None,
) -> Tensor:
    """Return a matrix with ones on its ``k``-th diagonal and zeros elsewhere."""
    rows = torch.arange(n_rows, device=device).unsqueeze(1)
    columns = torch.arange(n_rows if n_cols is None else n_cols, device=device)
    return (columns - rows == k).to(dtype or torch.get_default_dtype())


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: torch.dtype | None = None,
    device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """Return evenly spaced numbers from a start to a stop, which may be left out."""
    if endpoint:
        return torch.linspace(start, stop, num, dtype=dtype, device=device)
    return torch.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Return the coordinates of a grid that one-dimensional tensors span."""
    return tuple(torch.meshgrid(*arrays, indexing=indexing))


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Return the elements of matrices on and below a diagonal, with zeros above."""
    return torch.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Return the elements of matrices on and above a diagonal, with zeros below."""
    return torch.triu(x, k)
