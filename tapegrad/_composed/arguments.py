"""Argument checks that the composed operations share."""

import functools
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = [
    "as_sequence",
    "can_be_cast",
    "expect_count",
    "expect_tensor",
    "into_out",
    "takes_out",
    "wrap_dim",
]

_P = ParamSpec("_P")
_R = TypeVar("_R", covariant=True)
_LARGEST = 2**63 - 1


def expect_count(operation: str, count: int, what: str, bytes_each: int) -> None:
    """Refuse a result of more objects than memory can hold, before the first of them is made."""
    _C._check_count(operation, min(operator.index(count), _LARGEST), what, bytes_each)


def expect_tensor(operation: str, name: str, value: Any) -> None:
    """Raise TypeError unless the value is a tensor."""
    if not isinstance(value, Tensor):
        came = type(value).__name__
        if hasattr(value, "__array_interface__"):
            came = f"{type(value).__module__}.{came}; use torch.from_numpy()"
        raise TypeError(f"{operation}: expected {name} to be a Tensor, got {came}")


def wrap_dim(operation: str, dim: int, rank: int) -> int:
    """Return a dimension counted from the front; a 0-d tensor counts as having one."""
    rank = max(rank, 1)
    if not -rank <= dim < rank:
        raise IndexError(
            f"{operation}: Dimension out of range (expected to be in range of "
            f"[{-rank}, {rank - 1}], but got {dim})"
        )
    return dim % rank


def as_sequence(operation: str, tensors: Sequence[Any]) -> tuple[Tensor, ...]:
    """Return the tensors of ``f(a, b)`` or of ``f([a, b])`` as one tuple."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tensors[0]
    for index, tensor in enumerate(tensors):
        expect_tensor(operation, f"tensors[{index}]", tensor)
    return tuple(tensors)


def into_out(
    operation: str,
    result: Tensor,
    out: Tensor | None,
    *,
    exact: bool = False,
    error: type[Exception] = RuntimeError,
) -> Tensor:
    """Return the result, or write it into `out`, which takes its shape.

    Args:
        operation: the name of the operation, for errors.
        result: the result.
        out: where it goes.
        exact: whether `out` must have the dtype of the result, instead of one that it casts to.
        error: the type of the error if it does not.
    """
    if out is None:
        return result
    expect_tensor(operation, "out", out)
    if _C.is_grad_enabled() and (result.requires_grad or out.requires_grad):
        raise RuntimeError(
            f"{operation}: functions with out=... arguments don't support automatic "
            "differentiation, but one of the arguments requires grad"
        )
    if exact and out.dtype != result.dtype:
        raise error(f"{operation}: expected out of dtype {result.dtype}, got {out.dtype}")
    if not can_be_cast(result.dtype, out.dtype):
        raise error(
            f"{operation}: result type {result.dtype} can't be cast to the desired output type "
            f"{out.dtype}"
        )
    if out.shape != result.shape:
        if out.numel():
            warnings.warn(
                f"{operation}: an output with elements was resized from {tuple(out.shape)} to "
                f"{tuple(result.shape)}; call out.resize_(0) first",
                stacklevel=3,
            )
        out.resize_(result.shape)
    return out.copy_(result)


class _TakesOut(Protocol[_P, _R]):
    """An operation with the argument ``out=``, as type checkers see it."""

    __name__: str

    @overload
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...

    @overload
    def __call__(self, *args: Any, out: Any, **kwargs: Any) -> _R: ...


def takes_out(
    exact: bool = False, error: type[Exception] = RuntimeError
) -> Callable[[Callable[_P, _R]], "_TakesOut[_P, _R]"]:
    """Give an operation the argument ``out=``: one tensor, or as many as it has results.

    Args:
        exact: whether it must have the dtype of the result, as in `into_out`.
        error: the type of the error if it does not.
    """

    def mark(operation: Callable[_P, _R]) -> _TakesOut[_P, _R]:
        write = functools.partial(into_out, operation.__name__, exact=exact, error=error)

        @functools.wraps(operation)
        def call(*args: Any, out: Any = None, **options: Any) -> Any:
            result: Any = operation(*args, **options)
            if out is None:
                return result
            if isinstance(result, Tensor):
                return write(result, out)
            pairs = zip(result, out, strict=True)
            return type(result)(*(write(each, place) for each, place in pairs))

        call.takes_out = True  # type: ignore[attr-defined]
        return cast(_TakesOut[_P, _R], call)

    return mark


def can_be_cast(source: Any, target: Any) -> bool:
    """Whether a dtype can be cast to another without leaving its kind of numbers."""
    return _category(source) <= _category(target)


def _category(dtype: Any) -> int:
    """Rank of a dtype among bool, integers, floats and complex numbers: casts go upwards."""
    if dtype.is_complex:
        return 3
    return 2 if dtype.is_floating_point else int(dtype != _C.bool)
