"""A linear map and the cross entropy of what it returns, in one call that can save memory."""

import math
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor, linear
from tapegrad.nn.functional.losses import cross_entropy

__all__ = ["linear_cross_entropy"]


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """Return the cross entropy of ``input @ linear_weight.T + linear_bias`` and a target.

    Args:
        input: samples, of shape ``(N, in_features)`` or ``(in_features,)``.
        linear_weight: of shape ``(C, in_features)``, or ``(C, d1, ..., dK, in_features)`` for a
            loss of K more dimensions.
        target: classes, of shape ``(N,)``, ``()`` or ``(N, d1, ..., dK)``; or probabilities.
        linear_bias: of the weight's shape without its last dimension.
        weight: a weight for each class.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        ignore_index: a class whose samples do not count; -100 if None. Not for probabilities.
        label_smoothing: how much of each target is spread over all classes.
        options: LinearCrossEntropyOptions() computes a part of the batch at a time, and again in
            the backward, so that the scores of all samples are never in memory together.

    Returns:
        The loss.

    Example:
        >>> x, weight = torch.ones(2, 3), torch.zeros(4, 3)
        >>> torch.nn.functional.linear_cross_entropy(x, weight, torch.tensor([0, 3]))
        tensor(1.3863)
    """
    _check(input, linear_weight, linear_bias)
    if ignore_index is not None and target.is_floating_point():
        raise RuntimeError(
            "linear_cross_entropy: ignore_index cannot be specified when target contains "
            "probabilities"
        )
    rest: dict[str, Any] = {
        "weight": weight,
        "ignore_index": -100 if ignore_index is None else ignore_index,
        "label_smoothing": label_smoothing,
    }
    if options is not None and input.dim() == 2 and linear_weight.dim() == 2 and len(input):
        size = options._chunk_size(*input.shape, linear_weight.shape[0])
        if target.shape[:1] == input.shape[:1] and reduction in ("mean", "sum", "none"):
            parameters = (linear_weight, linear_bias)
            return _in_parts(input, parameters, target, size, reduction, rest)
    scores = _scores(input, linear_weight, linear_bias)
    return cross_entropy(scores, target, reduction=reduction, **rest)


def _check(input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None) -> None:
    name = "linear_cross_entropy"
    if input.dim() not in (1, 2):
        raise RuntimeError(f"{name}: expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(
            f"{name}: expected linear_weight with dimensionality at least 2, got "
            f"{linear_weight.dim()}"
        )
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            f"{name}: expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {linear_weight.shape[-1]}, respectively"
        )
    if linear_weight.dim() > 2 and input.dim() == 1:
        raise RuntimeError(
            f"{name}: K-dimensional loss defined by linear_weight shape "
            f"{tuple(linear_weight.shape)} requires batched input, (N, {input.shape[-1]}), got "
            f"unbatched input with shape {tuple(input.shape)}"
        )
    if linear_bias is not None and linear_bias.shape != linear_weight.shape[:-1]:
        raise RuntimeError(
            f"{name}: expected linear_bias shape {tuple(linear_weight.shape[:-1])}, got "
            f"{tuple(linear_bias.shape)}"
        )


def _scores(input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None) -> Tensor:
    if linear_weight.dim() == 2:
        return linear(input, linear_weight, linear_bias)
    sizes = tuple(linear_weight.shape[:-1])
    flat_bias = None if linear_bias is None else linear_bias.reshape(-1)
    flat = linear(input, linear_weight.reshape(math.prod(sizes), -1), flat_bias)
    return flat.unflatten(1, sizes)


def _in_parts(
    input: Tensor,
    parameters: tuple[Tensor, Tensor | None],
    target: Tensor,
    size: int,
    reduction: str,
    rest: dict[str, Any],
) -> Tensor:
    """Compute the losses of a part of the batch at a time, and again when gradients are wanted."""
    from tapegrad.utils.checkpoint import checkpoint

    inner = "none" if reduction == "none" else "sum"

    def of_part(rows: Tensor, linear_weight: Tensor, linear_bias: Any, labels: Tensor) -> Tensor:
        scores = linear(rows, linear_weight, linear_bias)
        return cross_entropy(scores, labels, reduction=inner, **rest)

    losses = [
        checkpoint(of_part, rows, *parameters, labels, use_reentrant=False)
        for rows, labels in zip(input.split(size), target.split(size), strict=True)
    ]
    if reduction == "none":
        return _C.cat(losses)
    total = _C.stack(losses).sum()
    if reduction == "sum":
        return total
    if target.is_floating_point():
        return total / input.shape[0]
    is_counted = target != rest["ignore_index"]
    if rest["weight"] is None:
        return total / is_counted.sum()
    classes = target.masked_fill(~is_counted, 0)
    return total / (rest["weight"].index_select(0, classes) * is_counted).sum()
