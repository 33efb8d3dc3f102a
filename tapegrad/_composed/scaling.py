"""Powers of two taken apart and put together, and slices scaled to a norm."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed import return_types
from tapegrad._composed.arguments import can_be_cast, expect_tensor, into_out, wrap_dim
from tapegrad._composed.registry import function, method

__all__ = ["can_cast", "fill", "frexp", "ldexp", "renorm"]

# The integer dtype of the same size, the bits of the significand, the bias of the exponent, and a
# power of two that makes a normal number of every number.
_FORMS = {
    _C.float32: (_C.int32, 23, 126, 0xFF, 25),
    _C.float64: (_C.int64, 52, 1022, 0x7FF, 54),
}


@function
@method
def frexp(input: Tensor, *, out: Any = None) -> return_types.frexp:
    """Take numbers apart into a significand and a power of two: ``mantissa * 2 ** exponent``.

    Args:
        input: a tensor of a floating dtype.
        out: where to put both results.

    Returns:
        A named tuple (mantissa, exponent): absolute values in [0.5, 1), and int32.

    Example:
        >>> torch.frexp(torch.tensor([1.0, -6.0])).mantissa
        tensor([ 0.5000, -0.7500])
    """
    expect_tensor("frexp", "input", input)
    if not input.dtype.is_floating_point:
        raise RuntimeError(
            f"frexp: expected a floating dtype, got {input.dtype}; call .float() first"
        )
    exponent = _exponent(input.detach())
    # In two steps: one factor alone may be no finite number.
    half = exponent.bitwise_right_shift(1)
    wide = input if input.dtype in _FORMS else input.float()
    mantissa = wide * _power_of_two(-half, wide) * _power_of_two(half - exponent, wide)
    result = return_types.frexp(mantissa.to(input.dtype), exponent)
    if out is None:
        return result
    pairs = zip(result, out, strict=True)
    return return_types.frexp(*(into_out("frexp", each, place) for each, place in pairs))


def _power_of_two(exponent: Tensor, like: Tensor) -> Tensor:
    return exponent.to(like.dtype).exp2()


def _exponent(x: Tensor) -> Tensor:
    x = x if x.dtype in _FORMS else x.float()
    integer, significand, bias, mask, lift = _FORMS[x.dtype]

    def field(values: Tensor) -> Tensor:
        bits = values.contiguous().view(integer).bitwise_right_shift(significand)
        return bits.bitwise_and(mask).int()

    plain, lifted = field(x), field(x * 2.0**lift)
    exponent = _C.where(plain.eq(0), lifted - (bias + lift), plain - bias)
    return exponent.masked_fill(x.eq(0).logical_or(x.isfinite().logical_not()), 0)


@function
@method
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Multiply by powers of two: ``input * 2 ** other``.

    Args:
        input: a tensor.
        other: the exponents, a tensor whose shape broadcasts.
        out: where to put the result.

    Returns:
        The products, of a floating dtype.

    Example:
        >>> torch.ldexp(torch.tensor([1.0, 3.0]), torch.tensor([1, 2]))
        tensor([ 2., 12.])
    """
    expect_tensor("ldexp", "input", input)
    expect_tensor("ldexp", "other", other)
    if other.dtype.is_floating_point or other.dtype.is_complex:
        product = input * _C.pow(2.0, other)
    else:
        product = _scaled(input, other)
    return into_out("ldexp", product, out, exact=True)


# The powers of two that are normal numbers of float64 begin with 2 ** -_REACH.
_REACH = 1022


def _scaled(x: Tensor, exponent: Tensor) -> Tensor:
    """Return ``x * 2 ** exponent``, rounded once, where the power alone is too large as well."""
    is_number = x.dtype.is_floating_point or x.dtype.is_complex
    dtype = x.dtype if is_number else _C.get_default_dtype()
    wide = x.to(_C.complex128 if dtype.is_complex else _C.float64)
    rest, factors = exponent.to(_C.int64), []
    for _ in range(2 if dtype in (_C.float64, _C.complex128) else 0):
        factors.append(rest.clamp(-_REACH, _REACH))
        rest = rest - factors[-1]
    factors.append(rest.clamp(-_REACH, _REACH))
    for each in reversed(factors):  # The smallest comes first: what is rounded then ends as zero.
        wide = wide * each.double().exp2()
    return wide.to(dtype)


@function
@method
def renorm(
    input: Tensor, p: float, dim: int, maxnorm: float, *, out: Tensor | None = None
) -> Tensor:
    """Scale the slices along a dimension down to a norm, where theirs is larger.

    Args:
        input: a tensor of a floating dtype with at least two dimensions.
        p: the order of the norm, above 0.
        dim: the dimension that counts the slices.
        maxnorm: the largest norm that a slice keeps.
        out: where to put the result.

    Returns:
        A tensor of the shape of `input`.

    Example:
        >>> torch.renorm(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
        tensor([[0.6000, 0.8000],
                [0.3000, 0.4000]])
    """
    expect_tensor("renorm", "input", input)
    if not p > 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if not maxnorm >= 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if input.dim() < 2:
        raise RuntimeError(
            f"renorm: input needs at least 2 dimensions, got {input.dim()} dimensions"
        )
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        raise RuntimeError(f"renorm: expected a floating dtype, got {input.dtype}")
    dim = wrap_dim("renorm", dim, input.dim())
    others = [d for d in range(input.dim()) if d != dim]
    wide = input if input.dtype in _FORMS or input.is_complex() else input.float()
    norms = wide.norm(p, others, keepdim=True)
    factor = _C.where(norms > maxnorm, maxnorm / (norms + 1e-7), _C.ones_like(norms))
    return into_out("renorm", (wide * factor).to(input.dtype).contiguous(), out, exact=True)


@function
def fill(input: Tensor, value: Any) -> Tensor:
    """Return a tensor like another with one value everywhere.

    Args:
        input: the tensor whose shape, dtype and device the result has.
        value: a number or a 0-d tensor.

    Returns:
        A new tensor.

    Example:
        >>> torch.fill(torch.zeros(2), 3.0)
        tensor([3., 3.])
    """
    expect_tensor("fill", "input", input)
    if not isinstance(value, Tensor):
        if input.requires_grad and _C.is_grad_enabled():
            return input.clone().fill_(value)
        return _C.full_like(input, value) if input.dtype != _C.bool else _cut(input, value)
    if value.dim():
        raise RuntimeError(
            "fill_ only supports 0-dimension value tensor but got tensor with "
            f"{value.dim()} dimensions."
        )
    return value.to(input.device, input.dtype).expand(input.shape).clone()


def _cut(input: Tensor, value: Any) -> Tensor:
    return _C.full_like(input, bool(value))


@function
def can_cast(from_: Any, to: Any) -> bool:
    """Return whether a dtype can be cast to another by the rules of type promotion.

    Args:
        from_: a dtype.
        to: the dtype to cast to.

    Returns:
        False where a kind of numbers would be left: from floats to integers, from those to bool.

    Example:
        >>> torch.can_cast(torch.double, torch.float), torch.can_cast(torch.float, torch.int)
        (True, False)
    """
    return can_be_cast(from_, to)
