"""Dtypes as the standard has them: kinds, limits, promotion."""

from typing import Any, NamedTuple

import tapegrad as torch
from tapegrad import Tensor

Scalar = bool | int | float | complex

SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
REAL_OF = {torch.complex64: torch.float32, torch.complex128: torch.float64}
COMPLEX_OF = {real: whole for whole, real in REAL_OF.items()}
KINDS = ("bool", "signed integer", "unsigned integer", "real floating", "complex floating")
WIDER_KINDS = {
    "integral": KINDS[1:3],
    "numeric": KINDS[1:],
}


class FInfo(NamedTuple):
    """Limits of a floating dtype; those of its parts for a complex one."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: torch.dtype


class IInfo(NamedTuple):
    """Limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: torch.dtype


def kind_of(dtype: torch.dtype) -> str:
    """Return the kind of a dtype, one of `KINDS`."""
    if dtype == torch.bool:
        return "bool"
    if dtype in UNSIGNED:
        return "unsigned integer"
    if dtype.is_complex:
        return "complex floating"
    return "real floating" if dtype.is_floating_point else "signed integer"


def is_floating(dtype: torch.dtype) -> bool:
    """Tell whether a dtype is real or complex floating."""
    return dtype.is_floating_point or dtype.is_complex


def dtype_of(value: Any) -> torch.dtype:
    """Return the dtype of a tensor, or a dtype as it is."""
    return value.dtype if isinstance(value, Tensor) else value


def with_scalar(dtype: torch.dtype, scalar: Scalar) -> torch.dtype:
    """Return the dtype in which an operand of a dtype meets a Python number."""
    if isinstance(scalar, complex):
        if dtype.is_complex:
            return dtype
        return COMPLEX_OF.get(dtype) or COMPLEX_OF[torch.get_default_dtype()]
    if isinstance(scalar, float) and not is_floating(dtype):
        return torch.get_default_dtype()
    if isinstance(scalar, int) and not isinstance(scalar, bool) and dtype == torch.bool:
        return torch.int64
    return dtype


def result_type(*arrays_and_dtypes: Any) -> torch.dtype:
    """Return the dtype that operands are promoted to; 0-d tensors count like all others.

    Args:
        arrays_and_dtypes: tensors, dtypes and Python numbers, at least one of the former two.
    """
    scalars = [each for each in arrays_and_dtypes if isinstance(each, Scalar)]
    others = [dtype_of(each) for each in arrays_and_dtypes if not isinstance(each, Scalar)]
    if not others:
        raise ValueError("result_type: expected at least one tensor or dtype among the arguments")
    found = others[0]
    for each in others[1:]:
        found = torch.promote_types(found, each)
    for scalar in scalars:
        found = with_scalar(found, scalar)
    return found


def promoted(*operands: Any) -> list[Tensor]:
    """Return operands, some of which may be Python numbers, as tensors of their common dtype."""
    dtype = result_type(*operands)
    device = next(each.device for each in operands if isinstance(each, Tensor))
    return [
        each.to(dtype)
        if isinstance(each, Tensor)
        else torch.tensor(each, dtype=dtype, device=device)
        for each in operands
    ]


def can_cast(from_: Any, to: torch.dtype, /) -> bool:
    """Tell whether promotion takes one dtype, or that of a tensor, to another.

    The standard promotes among integers and among floating dtypes, and between no others.
    """
    start = dtype_of(from_)
    alike = is_floating(start) == is_floating(to) and (start == torch.bool) == (to == torch.bool)
    return alike and torch.promote_types(start, to) == to


def isdtype(dtype: torch.dtype, kind: Any) -> bool:
    """Tell whether a dtype is of a kind.

    Args:
        dtype: the dtype to look at.
        kind: a dtype, a name such as ``"real floating"`` or ``"numeric"``, or a tuple of them.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    if isinstance(kind, str):
        if kind not in KINDS and kind not in WIDER_KINDS:
            raise ValueError(f"isdtype: expected one of {(*KINDS, *WIDER_KINDS)}, got {kind!r}")
        return kind_of(dtype) in WIDER_KINDS.get(kind, (kind,))
    if not isinstance(kind, torch.dtype):
        raise TypeError(f"isdtype: expected kind to be a dtype, str or tuple, got {kind!r}")
    return dtype == kind


def finfo(type: Any, /) -> FInfo:
    """Return the limits of a floating or complex dtype, or of a tensor's."""
    dtype = REAL_OF.get(dtype_of(type), dtype_of(type))
    known = torch.finfo(dtype)
    return FInfo(known.bits, known.eps, known.max, known.min, known.smallest_normal, dtype)


def iinfo(type: Any, /) -> IInfo:
    """Return the limits of an integer dtype, or of a tensor's."""
    known = torch.iinfo(dtype_of(type))
    return IInfo(known.bits, known.max, known.min, dtype_of(type))


def astype(x: Tensor, dtype: torch.dtype, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """Return a tensor of another dtype.

    Args:
        x: the tensor.
        dtype: what to cast to; a complex tensor has no cast to real ones.
        copy: whether a tensor that has the dtype already is copied.
        device: where the result is to be; that of ``x`` if none is given.
    """
    if x.dtype.is_complex and not dtype.is_complex:
        raise TypeError(
            f"astype: expected a complex dtype for a tensor of {x.dtype}, got {dtype}; "
            "take real(x) or imag(x) first"
        )
    return x.to(dtype=dtype, device=device or x.device, copy=copy)
