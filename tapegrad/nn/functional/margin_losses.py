"""Losses that are zero beyond a margin."""

from collections.abc import Callable

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._casts import casts
from tapegrad.nn.functional._reduction import check_reduction, chosen_reduction, reduced
from tapegrad.nn.functional.distances import pairwise_distance

__all__ = [
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]

_Flag = bool | None


@casts(cpu="float32", cuda="float32")
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: _Flag = None,
    reduce: _Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Return one minus the cosine for like pairs, and the cosine above `margin` for unlike ones.

    Args:
        input1: vectors of shape ``(N, D)`` or ``(D,)``.
        input2: the vectors to compare with.
        target: 1 for like, -1 for unlike, of shape ``(N,)`` or ``()``.
        margin: the cosine up to which unlike pairs cost nothing.
        size_average: of old code; use `reduction`.
        reduce: of old code; use `reduction`.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        The loss.
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    if target.dim() > 1:
        raise RuntimeError(
            "cosine_embedding_loss: 0D or 1D target tensor expected, multi-target not supported"
        )
    wanted = target.dim() + 1
    if input1.dim() != wanted or input2.dim() != wanted:
        raise RuntimeError(
            f"cosine_embedding_loss: {target.dim()}D target tensor expects {wanted}D input "
            f"tensors, but found inputs with sizes {list(input1.shape)} and {list(input2.shape)}."
        )
    tiny = 1e-12  # Inside the root, as in PyTorch: no division by a zero norm.
    dot = (input1 * input2).sum(-1)
    squares = (input1.square().sum(-1) + tiny) * (input2.square().sum(-1) + tiny)
    cosine = dot / squares.sqrt()
    zeros = _C.zeros_like(cosine)
    like = _C.where(target == 1, 1 - cosine, zeros)
    unlike = _C.where(target == -1, (cosine - margin).clamp_min(0), zeros)
    return reduced(like + unlike, reduction)


@casts(cpu="float32", cuda="float32")
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: _Flag = None,
    reduce: _Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Return distances of like pairs, and what unlike ones lack to `margin`.

    Args:
        input: distances.
        target: 1 for like, -1 for unlike.
        margin: the distance from which unlike pairs cost nothing.
        size_average: of old code; use `reduction`.
        reduce: of old code; use `reduction`.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        The loss.
    """
    zeros = _C.zeros_like(input)
    unlike = _C.where(target != 1, (margin - input).clamp_min(0), zeros)
    like = _C.where(target != -1, input, zeros)
    return reduced(like + unlike, chosen_reduction(size_average, reduce, reduction))


@casts(cpu="float32", cuda="float32")
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: _Flag = None,
    reduce: _Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Return what the first input lacks to be above the second by `margin`, or the other way round.

    Args:
        input1: scores.
        input2: the scores to compare with.
        target: 1 where the first shall be larger, -1 where the second.
        margin: by how much.
        size_average: of old code; use `reduction`.
        reduce: of old code; use `reduction`.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        The loss.
    """
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape}"
        )
    loss = (-target * (input1 - input2) + margin).clamp_min(0)
    return reduced(loss, chosen_reduction(size_average, reduce, reduction))


@casts(cpu="float32", cuda="float32")
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: _Flag = None,
    reduce: _Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Return ``log(1 + exp(-target * input))`` of targets 1 and -1, reduced."""
    loss = (-target * input).exp().log1p()
    return reduced(loss, chosen_reduction(size_average, reduce, reduction))


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: _Flag = None,
    reduce: _Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the binary cross entropy of several labels, averaged over the classes, reduced.

    Args:
        input: values before the sigmoid, of shape ``(..., C)``.
        target: 0 or 1, of the same shape.
        weight: a weight for each class.
        size_average: of old code; use `reduction`.
        reduce: of old code; use `reduction`.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        The loss.
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    loss = -(target * _C.logsigmoid(input) + (1 - target) * _C.logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduced(loss.sum(-1) / input.shape[-1], reduction)


@casts(cpu="float32", cuda="float32")
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: _Flag = None,
    reduce: _Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Return how far other classes come closer to the true one than `margin`, reduced.

    Args:
        input: scores, of shape ``(N, C)`` or ``(C,)``; a number is the score of one class.
        target: classes, of shape ``(N,)`` or ``()``.
        p: the power, 1 or 2.
        margin: the distance that costs nothing.
        weight: a weight for each class.
        size_average: of old code; use `reduction`.
        reduce: of old code; use `reduction`.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        The loss.
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    if weight is not None and weight.dim() != 1:
        raise ValueError(
            f"multi_margin_loss: weight must be one-dimensional, got shape {tuple(weight.shape)}"
        )
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: only p == 1 and p == 2 supported, got {p}")
    if input.dim() > 2:
        raise RuntimeError(
            f"multi_margin_loss: Expected a vector or matrix, got shape {list(input.shape)}"
        )
    scores = input if input.dim() == 2 else input.reshape(1, input.numel())
    classes = target.reshape(-1)
    if target.dim() > 1 or classes.shape[0] != scores.shape[0]:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of "
            f"input samples. Expected target size [{scores.shape[0]}], but got "
            f"{list(target.shape)}"
        )
    count = scores.shape[1]
    if not _C._running_vmaps() and bool(((classes < 0) | (classes >= count)).any()):
        raise RuntimeError(f"multi_margin_loss: target out of range of {count} classes")
    index = classes.unsqueeze(1)
    losses = (margin - scores.gather(1, index) + scores).clamp_min(0)
    if p == 2:
        losses = losses.square()
    if weight is not None:
        losses = losses * weight[classes].unsqueeze(1)
    losses = losses.scatter(1, index, 0.0).sum(1) / count
    return reduced(losses if target.dim() == 1 else losses.reshape([]), reduction)


@casts(cpu="float32", cuda="float32")
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: _Flag = None,
    reduce: _Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Return how far other classes come closer to the true ones than 1, reduced.

    Args:
        input: scores, of shape ``(N, C)`` or ``(C,)``.
        target: the true classes of each sample, followed by -1; of the input's shape.
        size_average: of old code; use `reduction`.
        reduce: of old code; use `reduction`.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        The loss.

    Example:
        >>> scores = torch.tensor([[0.1, 0.2, 0.4, 0.8]])
        >>> torch.nn.functional.multilabel_margin_loss(scores, torch.tensor([[3, 0, -1, 1]]))
        tensor(0.8500)
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    if input.dim() > 2 or (input.dim() and input.shape[-1] == 0):
        raise RuntimeError(
            "multilabel_margin_loss: Expected non-empty vector or matrix with optional 0-dim batch "
            f"size, but got: {list(input.shape)}"
        )
    single = input.dim() + target.dim() == 1 and input.numel() == target.numel()
    if target.shape != input.shape and not single:
        raise RuntimeError(
            f"multilabel_margin_loss: inconsistent target size: {list(target.shape)} for input of "
            f"size: {list(input.shape)}"
        )
    if target.dtype != _C.int64:
        raise RuntimeError(
            f"multilabel_margin_loss: expected scalar type Long but found {target.dtype}; call "
            ".long() first"
        )
    if not input.is_floating_point():
        raise NotImplementedError(
            f'multilabel_margin_loss: "multilabel_margin_loss" not implemented for {input.dtype}'
        )
    count = input.shape[-1] if input.dim() else 1
    scores, classes = input.reshape(-1, count), target.reshape(-1, count)
    if not _C._running_vmaps() and bool(((classes < -1) | (classes >= count)).any()):
        raise RuntimeError(
            "multilabel_margin_loss: argument #2 'target' is out of range of "
            f"{count} classes and -1"
        )
    is_named = (classes >= 0).long().cumprod(1).bool()
    index = classes.masked_fill(~is_named, 0)
    # Counts, because a scatter of booleans would let entries behind -1 undo those before.
    is_true = _C.zeros_like(classes).scatter_add(1, index, is_named.long()) > 0
    gaps = 1 - scores.gather(1, index).unsqueeze(2) + scores.unsqueeze(1)
    is_counted = is_named.unsqueeze(2) & ~is_true.unsqueeze(1)
    losses = gaps.clamp_min(0).masked_fill(~is_counted, 0).sum((1, 2)) / count
    return reduced(losses if input.dim() == 2 else losses.squeeze(0), reduction)


@casts(cpu="float32", cuda="float32")
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: _Flag = None,
    reduce: _Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Return what anchors lack to be nearer to positives than to negatives by `margin`.

    Args:
        anchor: vectors.
        positive: vectors that shall be near.
        negative: vectors that shall be far.
        margin: by how much.
        p: the p of the norm.
        eps: added to every difference.
        swap: whether a negative nearer to the positive than to the anchor counts instead.
        size_average: of old code; use `reduction`.
        reduce: of old code; use `reduction`.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        The loss.
    """
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "triplet_margin_loss: The anchor, positive, and negative tensors are expected to have "
            f"the same number of dimensions, but got: anchor {anchor.dim()}D, positive "
            f"{positive.dim()}D, and negative {negative.dim()}D inputs"
        )
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return _of_triplets(
        lambda a, b: pairwise_distance(a, b, p, eps),
        (anchor, positive, negative),
        margin,
        swap,
        chosen_reduction(size_average, reduce, reduction),
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """As triplet_margin_loss(), with a distance of one's own; pairwise_distance() if None."""
    if margin <= 0:
        raise ValueError(
            f"triplet_margin_with_distance_loss: margin must be greater than 0, got {margin}"
        )
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "triplet_margin_with_distance_loss: The anchor, positive, and negative tensors are "
            f"expected to have the same number of dimensions, but got: anchor {anchor.dim()}D, "
            f"positive {positive.dim()}D, and negative {negative.dim()}D inputs"
        )
    distance = pairwise_distance if distance_function is None else distance_function
    return _of_triplets(distance, (anchor, positive, negative), margin, swap, reduction)


def _of_triplets(
    distance: Callable[[Tensor, Tensor], Tensor],
    triplet: tuple[Tensor, Tensor, Tensor],
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    anchor, positive, negative = triplet
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = _C.minimum(far, distance(positive, negative))
    return reduced((margin + near - far).clamp_min(0), reduction)
