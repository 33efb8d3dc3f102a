"""Pointwise operations that are one or two native ones."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed.arguments import expect_tensor, takes_out
from tapegrad._composed.registry import function, method
from tapegrad._ops import runs

__all__ = ["float_power", "positive", "rsub", "softmin"]


@function
@method
def positive(input: Tensor) -> Tensor:
    """Return the tensor itself: what ``+input`` means.

    Args:
        input: a tensor of any dtype but bool.

    Returns:
        `input`.

    Example:
        >>> torch.positive(torch.tensor([-1]))
        tensor([-1])
    """
    expect_tensor("positive", "input", input)
    if input.dtype == _C.bool:
        raise RuntimeError("positive: expected a number dtype, got bool")
    return input


@function
@method
@runs("sub")
def rsub(input: Tensor, other: Any, *, alpha: complex = 1) -> Tensor:
    """Subtract the other way round: ``other - alpha * input``.

    Args:
        input: the tensor to subtract.
        other: what to subtract from, a tensor or a number.
        alpha: factor of `input`.

    Returns:
        The difference.

    Example:
        >>> torch.rsub(torch.tensor([1, 2]), 10)
        tensor([9, 8])
    """
    expect_tensor("rsub", "input", input)
    return _C.sub(other, input, alpha=alpha)


def any_complex(*operands: Any) -> bool:
    """Whether a tensor or a number among operands is complex."""
    return any(
        isinstance(x, complex) or (isinstance(x, Tensor) and x.is_complex()) for x in operands
    )


@function
@method
@takes_out(exact=True)
@runs("pow")
def float_power(input: Any, exponent: Any) -> Tensor:
    """Power computed in float64.

    Args:
        input: the base, a tensor or a number.
        exponent: the exponent, a tensor or a number.

    Returns:
        A float64 tensor, or a complex128 one if an operand is complex.

    Example:
        >>> torch.float_power(torch.tensor([2]), 3).tolist()
        [8.0]
    """
    if not isinstance(input, Tensor) and not isinstance(exponent, Tensor):
        raise TypeError("float_power: expected input or exponent to be a Tensor, got two numbers")
    given = (input, exponent)
    if any_complex(*given):
        base, power = (x.to(_C.complex128) if isinstance(x, Tensor) else x for x in given)
    else:
        base, power = (x.double() if isinstance(x, Tensor) else float(x) for x in given)
    return _C.pow(base, power)


def softmin(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """Softmax of the negated values: the smallest gets the largest share.

    Args:
        input: a tensor.
        dim: the dimension along which the result sums to 1.
        dtype: convert to this dtype first.

    Returns:
        Shares between 0 and 1.

    Example:
        >>> softmin(torch.tensor([0.0, 0.0]), dim=0)
        tensor([0.5000, 0.5000])
    """
    return (-input).softmax(dim, dtype=dtype)
