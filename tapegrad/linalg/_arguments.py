"""Checks and `out=` that the functions of linear algebra share."""

import operator
from collections.abc import Sequence
from typing import Any, TypeVar

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = [
    "check_float",
    "check_matrices",
    "check_square",
    "epsilon_of",
    "into_out",
    "into_outs",
    "real_dtype_of",
    "wrap_dims",
]

_Results = TypeVar("_Results", bound=tuple[Any, ...])


def into_out(name: str, result: Tensor, out: Tensor | None) -> Tensor:
    """Return the result, in `out` if that is given."""
    return result if out is None else _C._into_out(name, result, out)


def into_outs(name: str, results: _Results, out: Sequence[Tensor] | None) -> _Results:
    """Return a named tuple of results, in the tensors of `out` if those are given."""
    if out is None:
        return results
    if not isinstance(out, (tuple, list)) or len(out) != len(results):
        raise TypeError(f"{name}: expected out to be a tuple of {len(results)} tensors")
    pairs = zip(results, out, strict=True)
    filled: _Results = type(results)(*(_C._into_out(name, *pair) for pair in pairs))
    return filled


def check_float(name: str, x: Any) -> None:
    """Refuse what is no tensor of real or complex numbers with parts of 32 or 64 bits."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: expected a Tensor, got {type(x).__name__}")
    if x.dtype in (_C.float32, _C.float64, _C.complex64, _C.complex128):
        return
    named = str(x.dtype).removeprefix("torch.")
    if x.dtype.is_floating_point:
        raise NotImplementedError(
            f"{name}: not implemented for '{named}'; expected float32 or float64, call .float() "
            "first"
        )
    raise RuntimeError(
        f"{name}: Expected a floating point or complex tensor as input. Got {named}; "
        "call .float() first"
    )


def epsilon_of(x: Tensor) -> float:
    """Return the distance from one to the next number of the dtype, or of its parts."""
    return 2.0**-23 if x.dtype in (_C.float32, _C.complex64) else 2.0**-52


def real_dtype_of(x: Tensor) -> Any:
    """Return the dtype of the magnitudes of x."""
    return {_C.complex64: _C.float32, _C.complex128: _C.float64}.get(x.dtype, x.dtype)


def check_matrices(name: str, x: Any, argument: str = "A") -> None:
    """Refuse what is no batch of matrices."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: expected {argument} to be a Tensor, got {type(x).__name__}")
    if x.dim() < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")


def check_square(name: str, x: Any, argument: str = "A") -> None:
    """Refuse what is no batch of square matrices."""
    check_matrices(name, x, argument)
    if x.shape[-1] != x.shape[-2]:
        raise RuntimeError(
            f"{name}: {argument} must be batches of square matrices, but they are "
            f"{x.shape[-2]} by {x.shape[-1]} matrices"
        )


def wrap_dims(name: str, dims: Any, rank: int) -> tuple[int, ...]:
    """Return dimensions counted from the front."""
    listed = (dims,) if isinstance(dims, int) else tuple(dims)
    wrapped = []
    for dim in listed:
        dim = operator.index(dim)
        if not -max(rank, 1) <= dim < max(rank, 1):
            raise IndexError(
                f"{name}: Dimension out of range (expected to be in range of "
                f"[{-max(rank, 1)}, {max(rank, 1) - 1}], but got {dim})"
            )
        wrapped.append(dim % max(rank, 1))
    if len(set(wrapped)) < len(wrapped):
        raise RuntimeError(f"{name}: dim {dims} appears multiple times in the list of dims")
    return tuple(wrapped)
