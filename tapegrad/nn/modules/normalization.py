"""Normalisation over layers and groups of channels: the same in training and evaluation."""

from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.nn import functional as F
from tapegrad.nn import init
from tapegrad.nn.modules.module import Module
from tapegrad.nn.parameter import Parameter

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class LocalResponseNorm(Module):
    """Divides every channel by a power of the mean square of its neighbours.

    Args:
        size: the number of neighbouring channels.
        alpha: multiplied with the mean square.
        beta: the power.
        k: added before the power is taken.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Return the divided channels."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class LayerNorm(Module):
    """Shifts and scales the last dimensions to mean 0 and variance 1.

    Args:
        normalized_shape: the sizes of the dimensions, or the size of the last.
        eps: added to the variance.
        elementwise_affine: whether a weight is multiplied afterwards.
        bias: whether a bias is added, too.
        device: where the parameters are.
        dtype: of the parameters; the default dtype if None.

    Example:
        >>> torch.nn.LayerNorm(2)(torch.tensor([[1.0, 3.0]])).detach()
        tensor([[-1.0000,  1.0000]])
    """

    weight: Tensor | None
    bias: Tensor | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_sizes(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            sizes = self.normalized_shape
            tensor = Parameter(_C.empty(sizes, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, tensor)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to ones and the bias to zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class CrossMapLRN2d(Module):
    """As LocalResponseNorm, for images, with a window that has as many channels on both sides.

    Args:
        size: the number of neighbouring channels.
        alpha: multiplied with the sum of squares, and divided by size.
        beta: the power.
        k: added before the power is taken.

    Example:
        >>> torch.nn.CrossMapLRN2d(3)(torch.ones(1, 4, 2, 2)).shape
        torch.Size([1, 4, 2, 2])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        reach = (self.size - 1) // 2
        square = input.square()
        padded = F.pad(square, (0, 0, 0, 0, reach, reach))
        total = padded.unfold(1, 2 * reach + 1, 1).sum(-1)
        # In PyTorch the first channel never leaves the window; weights were trained with that.
        first = square[:, :1].expand(-1, max(input.shape[1] - reach - 1, 0), -1, -1)
        total = total + F.pad(first, (0, 0, 0, 0, input.shape[1] - first.shape[1], 0))
        return input / (total * (self.alpha / self.size) + self.k).pow(self.beta)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class RMSNorm(Module):
    """Scales the last dimensions to mean square 1.

    Args:
        normalized_shape: the sizes of the dimensions, or the size of the last.
        eps: added to the mean square; None takes the rounding error of the input's dtype.
        elementwise_affine: whether a weight is multiplied afterwards.
        device: where the weight is.
        dtype: of the weight; the default dtype if None.

    Example:
        >>> torch.nn.RMSNorm(2)(torch.tensor([3.0, 4.0])).detach()
        tensor([0.8485, 1.1314])
    """

    weight: Tensor | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_sizes(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(_C.empty(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to ones."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(Module):
    """Shifts and scales groups of channels of each sample to mean 0 and variance 1.

    Args:
        num_groups: the number of groups.
        num_channels: the number of channels, which the groups divide.
        eps: added to the variance.
        affine: whether a weight is multiplied afterwards.
        device: where the parameters are.
        dtype: of the parameters; the default dtype if None.
        bias: whether a bias is added, too.

    Example:
        >>> torch.nn.GroupNorm(3, 6)(torch.ones(20, 6, 10, 10)).shape
        torch.Size([20, 6, 10, 10])
    """

    weight: Tensor | None
    bias: Tensor | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            tensor = (
                Parameter(_C.empty(num_channels, device=device, dtype=dtype)) if wanted else None
            )
            self.register_parameter(name, tensor)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to ones and the bias to zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


def _as_sizes(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
