"""Pointwise operations that are one or two native ones."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed.arguments import expect_tensor
from tapegrad._composed.registry import function, method
from tapegrad._ops import runs

__all__ = ["float_power", "logit", "positive", "rsub", "softmin"]


@function
@method
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """Inverse of the sigmoid: ``log(x / (1 - x))``.

    Args:
        input: a tensor of numbers in [0, 1].
        eps: clamp the input to [eps, 1 - eps] first; without it, values outside give nan.

    Returns:
        The logits.

    Example:
        >>> torch.logit(torch.tensor([0.5, 0.75]))
        tensor([0.0000, 1.0986])
    """
    expect_tensor("logit", "input", input)
    if eps is not None:
        input = input.clamp(eps, 1 - eps)
    return (input / (1 - input)).log()


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
def rsub(input: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
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


@function
@method
@runs("pow")
def float_power(input: Any, exponent: Any) -> Tensor:
    """Power computed in float64.

    Args:
        input: the base, a tensor or a number.
        exponent: the exponent, a tensor or a number.

    Returns:
        A float64 tensor.

    Example:
        >>> torch.float_power(torch.tensor([2]), 3).tolist()
        [8.0]
    """
    if not isinstance(input, Tensor) and not isinstance(exponent, Tensor):
        raise TypeError("float_power: expected input or exponent to be a Tensor, got two numbers")
    base, power = (x.double() if isinstance(x, Tensor) else float(x) for x in (input, exponent))
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
