"""Activations, softmax and what is made of them."""

from typing import Any, Protocol

from tapegrad import _C
from tapegrad._C import (
    Tensor,
    celu_,
    elu_,
    hardshrink,
    hardtanh_,
    leaky_relu_,
    logsigmoid,
    relu_,
    selu_,
    sigmoid,
    softplus,
    softsign,
    tanh,
    threshold_,
)
from tapegrad._casts import casts
from tapegrad._ops import runs

__all__ = [
    "celu",
    "celu_",
    "elu",
    "elu_",
    "gelu",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "log_softmax",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
]


class _Switched(Protocol):
    """An activation without parameters."""

    __name__: str

    def __call__(self, input: Tensor, inplace: bool = False) -> Tensor: ...


class _Elu(Protocol):
    __name__: str

    def __call__(self, input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor: ...


class _Leaky(Protocol):
    __name__: str

    def __call__(
        self, input: Tensor, negative_slope: float = 0.01, inplace: bool = False
    ) -> Tensor: ...


def _with_switch(native: Any, native_inplace: Any, params: int = 0) -> Any:
    """Make a function with an `inplace` switch, which PyTorch has after the parameters."""

    def activation(input: Tensor, *args: Any, inplace: bool = False, **kwargs: Any) -> Tensor:
        if len(args) == params + 1:
            args, inplace = args[:-1], args[-1]
        operation: Any = native_inplace if inplace else native
        return operation(input, *args, **kwargs)

    activation.__name__ = activation.__qualname__ = native.__name__
    activation.__doc__ = native.__doc__
    return activation


celu: _Elu = _with_switch(_C.celu, _C.celu_, params=1)
elu: _Elu = _with_switch(_C.elu, _C.elu_, params=1)
hardsigmoid: _Switched = _with_switch(_C.hardsigmoid, _C.hardsigmoid_)
hardswish: _Switched = _with_switch(_C.hardswish, _C.hardswish_)
leaky_relu: _Leaky = _with_switch(_C.leaky_relu, _C.leaky_relu_, params=1)
mish: _Switched = _with_switch(_C.mish, _C.mish_)
relu: _Switched = _with_switch(_C.relu, _C.relu_)
relu6: _Switched = _with_switch(_C.relu6, _C.relu6_)
selu: _Switched = _with_switch(_C.selu, _C.selu_)
silu: _Switched = _with_switch(_C.silu, _C.silu_)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """Return ``x * P(X <= x)`` for a standard normal X, exactly or by the tanh approximation."""
    return _C.gelu(input, approximate)


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Return the exponentials of the elements, scaled to sum to one along `dim`."""
    dim = _implicit_dim("softmax", input, dim)
    try:
        return _C.softmax(input, dim, dtype=dtype)
    except TypeError:
        if getattr(input, "is_nested", False):
            return input.softmax(dim, dtype)
        raise


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Return the logarithm of softmax along `dim`."""
    return _C.log_softmax(input, _implicit_dim("log_softmax", input, dim), dtype=dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Return the softmax of the negated elements."""
    return softmax(-input, dim, dtype=dtype)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return the elements moved towards zero by `lambd`, and zero where that would pass it."""
    if lambd < 0:
        raise RuntimeError(f"softshrink: expected lambd to be at least 0, got {lambd}")
    return _C.softshrink(input, lambd)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Return the elements above `threshold`, and `value` in place of the others."""
    return (_C.threshold_ if inplace else _C.threshold)(input, threshold, value)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """Return the elements, held between `min_val` and `max_val`."""
    if min_val > max_val:
        raise ValueError(
            f"hardtanh: min_val cannot be greater than max_val, got {min_val} and {max_val}"
        )
    return (_C.hardtanh_ if inplace else _C.hardtanh)(input, min_val, max_val)


def tanhshrink(input: Tensor) -> Tensor:
    """Return ``x - tanh(x)``."""
    return input - input.tanh()


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return one half of the elements along `dim`, each times the sigmoid of its partner.

    Args:
        input: a tensor whose size along `dim` is even.
        dim: the dimension to halve.

    Returns:
        ``a * sigmoid(b)`` for the first half a and the second half b.

    Example:
        >>> torch.nn.functional.glu(torch.tensor([1.0, 2.0, 0.0, 0.0]))
        tensor([0.5000, 1.0000])
    """
    if input.dim() == 0:
        raise RuntimeError("glu: does not support 0-dimensional tensors")
    size = input.shape[dim]
    if size % 2:
        raise RuntimeError(
            f"glu: Halving dimension must be even, but dimension {dim % input.dim()} is size {size}"
        )
    a, b = input.split([size // 2] * 2, dim)
    return a * b.sigmoid()


@casts(cpu="lower", cuda="lower")
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Return the elements, those below zero times a learned slope.

    Args:
        input: a tensor.
        weight: one slope, or one for each channel (dimension 1).

    Returns:
        ``where(x > 0, x, weight * x)``.

    Example:
        >>> torch.nn.functional.prelu(torch.tensor([-2.0, 2.0]), torch.tensor([0.5]))
        tensor([-1.,  2.])
    """
    if weight.dim() > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got ndim = {weight.dim()}"
        )
    if weight.numel() != 1:
        channels = input.shape[1] if input.dim() > 1 else 1
        if input.dim() == 0:
            raise RuntimeError("prelu: Not allow zero-dim input tensor with more than one slope")
        if channels != weight.numel():
            raise RuntimeError(
                "prelu: Mismatch of parameter numbers and input channel size. Found parameter "
                f"numbers = {weight.numel()} and channel size = {channels}."
            )
        weight = weight.reshape([-1] + [1] * (input.dim() - 2))
    elif input.dim() == 0:
        weight = weight.reshape([])
    return _C.where(input > 0, input, weight * input)


@runs("leaky_relu")
def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Return the elements, those below zero times a slope that is drawn for each while training.

    Args:
        input: a tensor.
        lower: the smallest slope.
        upper: the largest slope.
        training: whether slopes are drawn; otherwise all are the mean of the two.
        inplace: whether the result is written to the input.

    Returns:
        The result.

    Example:
        >>> torch.nn.functional.rrelu(torch.tensor([-4.0, 4.0]), 0.25, 0.75)
        tensor([-2.,  4.])
    """
    if lower > upper:
        raise RuntimeError(
            "rrelu: Lower bound should be less than or equal to the upper bound, got "
            f"{lower} and {upper}"
        )
    if not training:
        slope = (lower + upper) / 2
        return (_C.leaky_relu_ if inplace else _C.leaky_relu)(input, slope)
    slopes = _C.empty_like(input).uniform_(lower, upper)
    slopes = slopes.masked_fill(input > 0, 1)
    return input.mul_(slopes) if inplace else input * slopes


def rrelu_(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Tensor:
    """As rrelu(), in place."""
    return rrelu(input, lower, upper, training, inplace=True)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Draw from the Gumbel-softmax distribution, so that gradients reach the logits.

    Args:
        logits: unnormalised log probabilities.
        tau: the temperature.
        hard: whether the result is one-hot, with the gradients of the soft one.
        eps: accepted for old code; unused.
        dim: the dimension along which the result sums to one.

    Returns:
        The sample.

    Example:
        >>> torch.nn.functional.gumbel_softmax(torch.zeros(2, 3), hard=True).sum(-1)
        tensor([1., 1.])
    """
    noise = -_C.empty_like(logits).exponential_().log()
    soft = _C.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.detach().argmax(dim, keepdim=True)
    one_hot = _C.zeros_like(soft.detach()).scatter(dim, index, 1.0)
    return one_hot - soft.detach() + soft


def _implicit_dim(name: str, input: Tensor, dim: int | None) -> int:
    """PyTorch's old choice of a dimension, kept for code that leaves it out."""
    if dim is not None:
        return dim
    import warnings

    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=3,
    )
    return 0 if input.dim() in (0, 1, 3) else 1
