"""Functions that PyTorch also has outside nn.functional, with another order of arguments there."""

from collections.abc import Sequence

from tapegrad._C import Tensor
from tapegrad.nn.functional import activations, dropouts, norms, tables

__all__ = [
    "alpha_dropout",
    "alpha_dropout_",
    "batch_norm",
    "dropout",
    "dropout_",
    "embedding",
    "feature_alpha_dropout",
    "feature_alpha_dropout_",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "rrelu",
    "rrelu_",
    "threshold",
    "threshold_",
]


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """As nn.functional.dropout, which has defaults."""
    return dropouts.dropout(input, p, train)


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """As nn.functional.dropout, in place."""
    return dropouts.dropout(input, p, train, inplace=True)


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """As nn.functional.alpha_dropout, which has defaults."""
    return dropouts.alpha_dropout(input, p, train)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """As nn.functional.alpha_dropout, in place."""
    return dropouts.alpha_dropout(input, p, train, inplace=True)


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """As nn.functional.feature_alpha_dropout, which has defaults."""
    return dropouts.feature_alpha_dropout(input, p, train)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """As nn.functional.feature_alpha_dropout, in place."""
    return dropouts.feature_alpha_dropout(input, p, train, inplace=True)


def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """As nn.functional.embedding, which takes the indices first; no padding is -1 here."""
    padding = None if padding_idx < 0 else padding_idx
    return tables.embedding(
        indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse
    )


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """As nn.functional.layer_norm; `cudnn_enable` changes nothing."""
    return norms.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """As nn.functional.group_norm; `cudnn_enabled` changes nothing."""
    return norms.group_norm(input, num_groups, weight, bias, eps)


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """As nn.functional.batch_norm, which takes the running statistics first."""
    return norms.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """As nn.functional.instance_norm, which takes the running statistics first."""
    return norms.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """As nn.functional.threshold."""
    return activations.threshold(input, threshold, value)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """As nn.functional.threshold, in place."""
    return activations.threshold(input, threshold, value, inplace=True)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Tensor:
    """As nn.functional.rrelu."""
    return activations.rrelu(input, lower, upper, training)


def rrelu_(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Tensor:
    """As nn.functional.rrelu, in place."""
    return activations.rrelu(input, lower, upper, training, inplace=True)
