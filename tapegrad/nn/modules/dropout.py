"""Dropout: elements or whole channels set to zero at random while training."""

from tapegrad._C import Tensor
from tapegrad.nn import functional as F
from tapegrad.nn.modules.module import Module

__all__ = [
    "AlphaDropout",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "FeatureAlphaDropout",
]


class _DropoutNd(Module):
    p: float
    inplace: bool

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """While training, sets elements to zero with probability p and scales the others up.

    Args:
        p: the probability.
        inplace: whether the result is written to the input.

    Example:
        >>> torch.nn.Dropout(0.2).eval()(torch.ones(3))
        tensor([1., 1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with elements dropped."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """As Dropout, for whole channels of an input of shape (N, C, L) or (C, L)."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with channels dropped."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """As Dropout, for whole channels of an input of shape (N, C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with channels dropped."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """As Dropout, for whole channels of an input of shape (N, C, D, H, W) or (C, D, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with channels dropped."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance of what SELU returns."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with elements dropped."""
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_DropoutNd):
    """As AlphaDropout, for whole channels."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with channels dropped."""
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)
