"""Ways to fill a tensor before training: each writes in place, unrecorded, and returns it."""

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._missing import names_of_torch as _names_of_torch
from tapegrad.autograd.grad_mode import no_grad

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

_LINEAR = (
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "sigmoid",
)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor that keeps variances through a nonlinearity.

    Args:
        nonlinearity: its name, such as ``"relu"``.
        param: the negative slope, for ``"leaky_relu"``.

    Returns:
        The factor.

    Example:
        >>> torch.nn.init.calculate_gain("tanh")
        1.6666666666666667
    """
    if nonlinearity in _LINEAR:
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "selu":
        return 3.0 / 4
    if nonlinearity == "leaky_relu":
        if param is None:
            param = 0.01
        elif isinstance(param, bool) or not isinstance(param, (int, float)):
            raise ValueError(f"calculate_gain: negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + param**2))
    raise ValueError(f"calculate_gain: Unsupported nonlinearity {nonlinearity}")


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with numbers drawn evenly between `a` and `b`.

    Args:
        tensor: the tensor.
        a: the lower bound.
        b: the upper bound.
        generator: where the numbers come from; the default generator if None.

    Returns:
        The tensor.
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with normal numbers.

    Args:
        tensor: the tensor.
        mean: their mean.
        std: their standard deviation.
        generator: where the numbers come from; the default generator if None.

    Returns:
        The tensor.
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Fill with normal numbers, those outside of `a` and `b` drawn again.

    Args:
        tensor: the tensor.
        mean: the mean of the whole distribution.
        std: its standard deviation.
        a: the lower bound.
        b: the upper bound.
        generator: where the numbers come from; the default generator if None.

    Returns:
        The tensor.
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        import warnings

        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of "
            "values may be incorrect.",
            stacklevel=2,
        )
    low, high = _normal_cdf((a - mean) / std), _normal_cdf((b - mean) / std)
    with no_grad():
        # In 16 bits the ends of the interval are too coarse: erfinv would be infinite there.
        wide = tensor.float() if tensor.dtype in (_C.float16, _C.bfloat16) else tensor
        wide.uniform_(2 * low - 1, 2 * high - 1, generator=generator)
        wide.erfinv_().mul_(std * math.sqrt(2.0)).add_(mean).clamp_(min=a, max=b)
        return tensor if wide is tensor else tensor.copy_(wide)


def _normal_cdf(x: float) -> float:
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one number."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with ones on the diagonal and zeros elsewhere."""
    if tensor.dim() != 2:
        raise ValueError(
            f"eye_: Only tensors with 2 dimensions are supported, got {tensor.dim()} dimensions"
        )
    with no_grad():
        return tensor.copy_(_C.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill the weight of a convolution so that it passes channels through.

    Args:
        tensor: a weight of shape ``(out, in, ...)`` with one to three spatial dimensions.
        groups: the number of groups of the convolution.

    Returns:
        The tensor.
    """
    if tensor.dim() not in (3, 4, 5):
        raise ValueError(
            "dirac_: Only tensors with 3, 4, or 5 dimensions are supported, got "
            f"{tensor.dim()} dimensions"
        )
    out_channels, in_channels, *spatial = tensor.shape
    if out_channels % groups:
        raise ValueError(
            f"dirac_: dim 0 must be divisible by groups, got {out_channels} and {groups}"
        )
    per_group = out_channels // groups
    centre = tuple(size // 2 for size in spatial)
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, in_channels)):
                place = (group * per_group + channel, channel, *centre)
                tensor[place] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions, got "
            f"{tensor.dim()}"
        )
    receptive = 1
    for size in tensor.shape[2:]:
        receptive *= size
    return tensor.shape[1] * receptive, tensor.shape[0] * receptive


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    modes = ["fan_in", "fan_out"]
    mode = mode.lower()
    if mode not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode)]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill evenly, with a variance that suits the sizes of input and output (Glorot 2010).

    Args:
        tensor: a weight with at least two dimensions.
        gain: a factor, as calculate_gain() returns it.
        generator: where the numbers come from; the default generator if None.

    Returns:
        The tensor.
    """
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """As xavier_uniform_(), with normal numbers."""
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _xavier_std(tensor: Tensor, gain: float) -> float:
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return gain * math.sqrt(2.0 / (fan_in + fan_out))


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fill evenly, with a variance that suits rectified units (He 2015).

    Args:
        tensor: a weight with at least two dimensions.
        a: the negative slope, with ``"leaky_relu"``.
        mode: ``"fan_in"`` keeps variances forward, ``"fan_out"`` backward.
        nonlinearity: what follows the weight.
        generator: where the numbers come from; the default generator if None.

    Returns:
        The tensor.
    """
    if 0 in tensor.shape:
        return _nothing_to_fill(tensor)
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """As kaiming_uniform_(), with normal numbers."""
    if 0 in tensor.shape:
        return _nothing_to_fill(tensor)
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _nothing_to_fill(tensor: Tensor) -> Tensor:
    import warnings

    warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
    return tensor


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fill with a random matrix whose rows or columns are orthogonal and of length `gain`.

    Args:
        tensor: a tensor with at least two dimensions; those after the first count as one.
        gain: the length.
        generator: where the numbers come from; the default generator if None.

    Returns:
        The tensor.

    Example:
        >>> w = torch.nn.init.orthogonal_(torch.empty(2, 3))
        >>> torch.allclose(w @ w.T, torch.eye(2), atol=1e-6)
        True
    """
    if tensor.dim() < 2:
        raise ValueError(
            f"orthogonal_: Only tensors with 2 or more dimensions are supported, got {tensor.dim()}"
        )
    if tensor.is_complex():
        raise NotImplementedError(
            f"orthogonal_: not implemented for '{tensor.dtype}'; copy torch.linalg.qr(...).Q of "
            "random numbers"
        )
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    drawn = _C.empty(max(rows, columns), min(rows, columns), dtype=_C.float64)
    drawn.normal_(0, 1, generator=generator)
    basis = _orthonormal_columns(drawn)
    if rows < columns:
        basis = basis.t()
    with no_grad():
        return tensor.copy_((basis * gain).reshape(tensor.shape))


def _orthonormal_columns(matrix: Tensor) -> Tensor:
    """Return Q of the QR decomposition whose R has a positive diagonal."""
    with no_grad():
        q, r = _C._linalg_qr("nn.init.orthogonal_", matrix, "reduced")
        return q * r.diagonal().sign()


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill a matrix with normal numbers, and zeros in a part of every column.

    Args:
        tensor: the matrix.
        sparsity: the part of zeros.
        std: the standard deviation of the others.
        generator: where the numbers come from; the default generator if None.

    Returns:
        The tensor.
    """
    if tensor.dim() != 2:
        raise ValueError(
            f"sparse_: Only tensors with 2 dimensions are supported, got {tensor.dim()} dimensions"
        )
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        if tensor.numel() == 0:
            return tensor
        for column in range(columns):
            chosen = _C.randperm(rows, generator=generator)[:zeros]
            tensor[chosen, column] = 0
    return tensor


def _former(initialise: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return an initialiser under its name from before the names ended in an underscore."""
    name = initialise.__name__.removesuffix("_")

    def former(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"nn.init.{name} is now deprecated in favor of nn.init.{name}_.",
            FutureWarning,
            stacklevel=2,
        )
        return initialise(*args, **kwargs)

    former.__name__ = former.__qualname__ = name
    former.__doc__ = f"Deprecated: use `{name}_`."
    return former


constant = _former(constant_)
dirac = _former(dirac_)
eye = _former(eye_)
kaiming_normal = _former(kaiming_normal_)
kaiming_uniform = _former(kaiming_uniform_)
normal = _former(normal_)
orthogonal = _former(orthogonal_)
sparse = _former(sparse_)
uniform = _former(uniform_)
xavier_normal = _former(xavier_normal_)
xavier_uniform = _former(xavier_uniform_)

if not TYPE_CHECKING:
    __getattr__ = _names_of_torch(__name__)
