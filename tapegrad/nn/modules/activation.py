"""Activations as modules. What each computes is written in its docstring."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.nn import functional as F
from tapegrad.nn import init
from tapegrad.nn.modules.module import Module
from tapegrad.nn.parameter import Parameter

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _Inplace(Module):
    """An activation whose only argument is whether the result is written to the input."""

    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Return the argument where it is not the default."""
        return "inplace=True" if self.inplace else ""


class ReLU(_Inplace):
    """``max(0, x)``.

    Args:
        inplace: whether the result is written to the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return _C.relu_(input) if self.inplace else _C.relu(input)


class ReLU6(_Inplace):
    """``min(max(0, x), 6)``.

    Args:
        inplace: whether the result is written to the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return _C.relu6_(input) if self.inplace else _C.relu6(input)


class SiLU(_Inplace):
    """``x * sigmoid(x)``.

    Args:
        inplace: whether the result is written to the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return _C.silu_(input) if self.inplace else _C.silu(input)


class Mish(_Inplace):
    """``x * tanh(softplus(x))``.

    Args:
        inplace: whether the result is written to the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return _C.mish_(input) if self.inplace else _C.mish(input)


class SELU(_Inplace):
    """``1.0507 * (max(0, x) + min(0, 1.6733 * expm1(x)))``.

    Args:
        inplace: whether the result is written to the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return _C.selu_(input) if self.inplace else _C.selu(input)


class Hardswish(_Inplace):
    """``x * min(max(0, x + 3), 6) / 6``.

    Args:
        inplace: whether the result is written to the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return _C.hardswish_(input) if self.inplace else _C.hardswish(input)

    def extra_repr(self) -> str:
        """Return nothing, as in PyTorch."""
        return ""


class Hardsigmoid(_Inplace):
    """``min(max(0, x / 6 + 1/2), 1)``.

    Args:
        inplace: whether the result is written to the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return _C.hardsigmoid_(input) if self.inplace else _C.hardsigmoid(input)

    def extra_repr(self) -> str:
        """Return nothing, as in PyTorch."""
        return ""


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``.

    Example:
        >>> torch.nn.Sigmoid()(torch.tensor([0.0]))
        tensor([0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return _C.sigmoid(input)


class Tanh(Module):
    """``tanh(x)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return _C.tanh(input)


class LogSigmoid(Module):
    """``log(sigmoid(x))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return _C.logsigmoid(input)


class Softsign(Module):
    """``x / (1 + abs(x))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return _C.softsign(input)


class Tanhshrink(Module):
    """``x - tanh(x)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return F.tanhshrink(input)


class ELU(Module):
    """``x`` above zero, ``alpha * expm1(x)`` below.

    Args:
        alpha: the factor.
        inplace: whether the result is written to the input.
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return (_C.elu_ if self.inplace else _C.elu)(input, self.alpha)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class CELU(Module):
    """``max(0, x) + min(0, alpha * expm1(x / alpha))``.

    Args:
        alpha: the factor.
        inplace: whether the result is written to the input.
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return (_C.celu_ if self.inplace else _C.celu)(input, self.alpha)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class LeakyReLU(Module):
    """``x`` above zero, ``negative_slope * x`` below.

    Args:
        negative_slope: the slope below zero.
        inplace: whether the result is written to the input.
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return (_C.leaky_relu_ if self.inplace else _C.leaky_relu)(input, self.negative_slope)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class Threshold(Module):
    """``x`` above a threshold, a value elsewhere.

    Args:
        threshold: the threshold.
        value: the value.
        inplace: whether the result is written to the input.
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return (_C.threshold_ if self.inplace else _C.threshold)(input, self.threshold, self.value)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"threshold={self.threshold}, value={self.value}" + (
            ", inplace=True" if self.inplace else ""
        )


class RReLU(Module):
    """``x`` above zero, and ``x`` times a slope below, drawn for each element while training.

    Args:
        lower: the smallest slope.
        upper: the largest slope.
        inplace: whether the result is written to the input.
    """

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"lower={self.lower}, upper={self.upper}" + (
            ", inplace=True" if self.inplace else ""
        )


class GLU(Module):
    """One half of the elements, each times the sigmoid of its partner in the other.

    Args:
        dim: the dimension to halve.
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"dim={self.dim}"


class GELU(Module):
    """``x * P(X <= x)`` for a standard normal X.

    Args:
        approximate: ``"none"``, or ``"tanh"`` for the approximation by tanh.
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return _C.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"approximate={self.approximate!r}"


class Hardshrink(Module):
    """``x`` where it is farther from zero than `lambd`, zero elsewhere.

    Args:
        lambd: the distance.
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return _C.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.lambd}"


class Softshrink(Module):
    """``x`` moved towards zero by `lambd`, and zero where that would pass it.

    Args:
        lambd: the distance.
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.lambd}"


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``.

    Args:
        beta: the factor.
        threshold: where ``beta * x`` is above it, the result is x.
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return _C.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"beta={self.beta}, threshold={self.threshold}"


class Softmax(Module):
    """The exponentials of the elements, scaled to sum to one along a dimension.

    Args:
        dim: the dimension.
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return F.softmax(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """The logarithm of softmax.

    Args:
        dim: the dimension.
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return F.log_softmax(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"dim={self.dim}"


class Softmin(Module):
    """Softmax of the negated elements.

    Args:
        dim: the dimension.
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return F.softmin(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"dim={self.dim}"


class Hardtanh(Module):
    """``min(max(min_val, x), max_val)``.

    Args:
        min_val: the least value.
        max_val: the largest value.
        inplace: whether the result is written to the input.
        min_value: the old name of min_val.
        max_value: the old name of max_val.
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        if min_value is not None or max_value is not None:
            import warnings

            warnings.warn(
                "keyword argument `min_value` and `max_value` are deprecated and renamed to "
                "`min_val` and `max_val`",
                FutureWarning,
                stacklevel=2,
            )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if not self.max_val > self.min_val:
            raise AssertionError(
                f"Hardtanh: expected max_val above min_val, got {self.max_val} and {self.min_val}"
            )

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return (_C.hardtanh_ if self.inplace else _C.hardtanh)(input, self.min_val, self.max_val)

    def extra_repr(self) -> str:
        """Return the arguments."""
        inplace = ", inplace=True" if self.inplace else ""
        return f"min_val={self.min_val}, max_val={self.max_val}{inplace}"


class PReLU(Module):
    """``x`` above zero, ``weight * x`` below, with a learned weight.

    Args:
        num_parameters: 1, or the number of channels.
        init: what the weight begins with.
        device: where the weight is.
        dtype: of the weight; the default dtype if None.

    Example:
        >>> torch.nn.PReLU()(torch.tensor([-4.0, 4.0])).detach()
        tensor([-1.,  4.])
    """

    weight: Tensor

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(_C.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to what it begins with."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Return the number of weights."""
        return f"num_parameters={self.num_parameters}"


class Softmax2d(Module):
    """Softmax over the channels of an input of shape (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of the input."""
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, but got {input.dim()}D instead"
            )
        return _C.softmax(input, -3)
