"""Dropout: elements or whole channels set to zero at random while training."""

import math
from collections.abc import Sequence

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = [
    "alpha_dropout",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
]

_ALPHA = 1.7580993408473766  # The value SELU tends to far below zero, with the sign changed.


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return the input with elements zero with probability p, the others scaled by 1 / (1 - p).

    Args:
        input: a tensor.
        p: the probability of a zero.
        training: whether anything is done at all.
        inplace: whether the result is written to the input.

    Returns:
        The result.

    Example:
        >>> torch.nn.functional.dropout(torch.ones(3), 0.5, training=False)
        tensor([1., 1., 1.])
    """
    _expect_probability(p)
    if not training or p == 0:
        return input
    return _times_noise(input, input.shape, p, inplace)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """As dropout(), for whole channels of an input of shape (N, C, L) or (C, L)."""
    _expect_probability(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. Channels "
            "with one spatial dimension have shape (N, C, L) or (C, L)"
        )
    return _channel_dropout(input, p, training, inplace, has_batch=input.dim() == 3)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """As dropout(), for whole channels of an input of shape (N, C, H, W).

    An input of three dimensions is taken for (N, C, L), as PyTorch takes it.
    """
    _expect_probability(p)
    if input.dim() not in (3, 4):
        _warn(
            f"dropout2d: Received a {input.dim()}-D input, which is deprecated and will result in "
            "an error in a future release; channels with two spatial dimensions have shape "
            "(N, C, H, W)"
        )
    elif input.dim() == 3:
        _warn(
            "dropout2d: Received a 3D input and assuming that channel-wise 1D dropout behavior is "
            "desired, of shape (N, C, L); for one without a batch dimension call unsqueeze(0)"
        )
    return _channel_dropout(input, p, training, inplace, has_batch=True)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """As dropout(), for whole channels of an input of shape (N, C, D, H, W) or (C, D, H, W)."""
    _expect_probability(p)
    if input.dim() not in (4, 5):
        _warn(
            f"dropout3d: Received a {input.dim()}-D input, which is deprecated and will result in "
            "an error in a future release; channels with three spatial dimensions have shape "
            "(N, C, D, H, W) or (C, D, H, W)"
        )
    return _channel_dropout(input, p, training, inplace, has_batch=input.dim() != 4)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout that keeps mean and variance of what SELU returns.

    Args:
        input: a tensor.
        p: the probability of an element being dropped.
        training: whether anything is done at all.
        inplace: whether the result is written to the input.

    Returns:
        The result.
    """
    _expect_probability(p)
    if not training or p == 0:
        return input
    return _alpha_noise(input, input.shape, p, inplace)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """As alpha_dropout(), for whole channels (dimension 1)."""
    _expect_probability(p)
    if not training or p == 0:
        return input
    return _alpha_noise(input, _channel_shape(input, True), p, inplace)


def _expect_probability(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _channel_shape(input: Tensor, has_batch: bool) -> Sequence[int]:
    if input.dim() < 2:
        raise RuntimeError(
            f"Feature dropout requires at least 2 dimensions in the input, got {input.dim()}"
        )
    kept = 2 if has_batch else 1
    return [*input.shape[:kept], *[1] * (input.dim() - kept)]


def _channel_dropout(
    input: Tensor, p: float, training: bool, inplace: bool, has_batch: bool
) -> Tensor:
    if not training or p == 0:
        return input
    return _times_noise(input, _channel_shape(input, has_batch), p, inplace)


def _noise(input: Tensor, shape: Sequence[int], p: float) -> Tensor:
    """Zeros with probability p, else ones."""
    like = _C.empty_like(input) if list(shape) == list(input.shape) else input.new_empty(shape)
    return like.bernoulli_(1 - p)


def _times_noise(input: Tensor, shape: Sequence[int], p: float, inplace: bool) -> Tensor:
    noise = _noise(input, shape, p)
    if p < 1:
        noise.div_(1 - p)
    return input.mul_(noise) if inplace else input * noise


def _alpha_noise(input: Tensor, shape: Sequence[int], p: float, inplace: bool) -> Tensor:
    if p == 1:
        zeros = input.new_zeros(shape)
        return input.mul_(zeros) if inplace else input * zeros
    scale = 1 / math.sqrt((_ALPHA * _ALPHA * p + 1) * (1 - p))
    noise = _noise(input, shape, p)
    shift = (noise - 1).mul_(_ALPHA * scale).add_(_ALPHA * scale * p)
    noise.mul_(scale)
    return input.mul_(noise).add_(shift) if inplace else input * noise + shift


def _warn(message: str) -> None:
    import warnings

    warnings.warn(message, stacklevel=3)
