"""The loss of unaligned sequences: connectionist temporal classification.

A target of labels is extended by a blank between all labels and at both ends. `alpha[t, s]` is the
log of the probability of all paths through the first t steps that end at place s of the extended
target; a step stays, goes on by one place, or by two where that skips a blank between different
labels. The recursion is made of recorded ops, a few for each step and the whole batch, so gradients
of all orders come from the tape. What is impossible is a large finite number instead of infinity,
whose differences would be nan.
"""

from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._casts import casts
from tapegrad.autograd.function import Function
from tapegrad.nn.functional._reduction import reduced

__all__ = ["ctc_loss"]

_IMPOSSIBLE = -1e30
_Lengths = Tensor | Sequence[int]


@casts(cpu="float32")
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: _Lengths,
    target_lengths: _Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return how unlikely targets are, over all their alignments with a sequence of predictions.

    Args:
        log_probs: log-probabilities of all classes, as of log_softmax(), of shape ``(T, N, C)`` or
            ``(T, C)``.
        targets: labels, none of them blank: of shape ``(N, S)``, padded, or ``(sum of lengths,)``.
        input_lengths: how many of the T steps count, for each sample.
        target_lengths: how many labels there are, for each sample.
        blank: the class that stands for no label.
        reduction: ``"mean"``, which divides by the lengths of the targets first, ``"sum"`` or
            ``"none"``.
        zero_infinity: whether infinite losses, of targets that are too long, become zeros.

    Returns:
        The loss. As PyTorch's, its gradient takes log_probs for what log_softmax() returned: it is
        the gradient of the values before log_softmax().

    Example:
        >>> log_probs = torch.zeros(2, 1, 3).log_softmax(2)
        >>> torch.nn.functional.ctc_loss(log_probs, torch.tensor([[1]]), [2], [1])
        tensor(1.0986)
    """
    is_single = log_probs.dim() == 2
    batch = log_probs.unsqueeze(1) if is_single else log_probs
    steps, labels = (
        _as_list("input_lengths", input_lengths),
        _as_list("target_lengths", target_lengths),
    )
    _check_predictions(batch, steps, labels, blank)
    padded = _padded_targets(
        targets.to(batch.device), labels, batch.shape[1], batch.shape[2], is_single
    )
    losses = _losses(batch, padded, steps, labels, blank)
    is_possible = losses.detach() < -_IMPOSSIBLE / 10
    if zero_infinity:
        losses = _C.where(is_possible, losses, _C.zeros_like(losses))
    else:  # Infinity, with a gradient that is none.
        losses = losses / is_possible.to(losses.dtype)
    if reduction == "mean":
        losses = losses / losses.new_tensor(labels).clamp(min=1)
    return reduced(losses.squeeze(0) if is_single else losses, reduction)


def _as_list(name: str, lengths: Any) -> list[int]:
    if isinstance(lengths, Tensor):
        if lengths.is_floating_point():
            raise RuntimeError(f"ctc_loss: {name} must be integral, got {lengths.dtype}")
        return [int(length) for length in lengths.reshape(-1).tolist()]
    return [int(length) for length in lengths]


def _check_predictions(log_probs: Tensor, steps: list[int], labels: list[int], blank: int) -> None:
    if log_probs.dim() != 3:
        raise RuntimeError(
            f"ctc_loss: Expected 3-dimensional tensor for log_probs, but got {log_probs.dim()}-D"
        )
    if log_probs.dtype not in (_C.float32, _C.float64):
        raise NotImplementedError(
            f'ctc_loss: "ctc_loss" not implemented for {log_probs.dtype}; call .float() first'
        )
    most, batch, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise RuntimeError(
            f"ctc_loss: blank must be in label range, got {blank} for {classes} classes"
        )
    for name, lengths in (("input_lengths", steps), ("target_lengths", labels)):
        if len(lengths) != batch:
            raise RuntimeError(
                f"ctc_loss: {name} must be of size batch_size, got {len(lengths)} for {batch}"
            )
        if min(lengths, default=0) < 0:
            raise RuntimeError(
                f"ctc_loss: Expected {name} to have value at least 0, but got value {min(lengths)}"
            )
    if max(steps, default=0) > most:
        raise RuntimeError(
            f"ctc_loss: Expected input_lengths to have value at most {most}, but got value "
            f"{max(steps)}"
        )


def _padded_targets(
    targets: Tensor, labels: list[int], batch: int, classes: int, is_single: bool
) -> Tensor:
    """Return the targets as one row for each sample, zeros behind the end of each."""
    longest = max(labels, default=0)
    device = targets.device
    lengths = _C.tensor(labels, dtype=_C.int64, device=device)
    is_label = _C.arange(longest, device=device) < lengths.unsqueeze(1)
    targets = targets.long()
    if targets.dim() == 1:
        if targets.shape[0] != sum(labels) and not (is_single and targets.shape[0] >= longest):
            raise RuntimeError(
                f"ctc_loss: Expected targets to have size {sum(labels)} at dimension 0, the sum of "
                f"target_lengths, but got size {targets.shape[0]}"
            )
        starts = (lengths.cumsum(0) - lengths).unsqueeze(1)
        places = (starts + _C.arange(longest, device=device)).masked_fill(~is_label, 0)
        padded = targets.index_select(0, places.reshape(-1)).reshape(batch, longest)
    else:
        if targets.dim() != 2 or targets.shape[0] != batch or targets.shape[1] < longest:
            raise RuntimeError(
                f"ctc_loss: Expected targets to have size {batch} at dimension 0 and size at least "
                f"{longest} at dimension 1, but got {list(targets.shape)}"
            )
        padded = targets[:, :longest]
    padded = padded.masked_fill(~is_label, 0)
    if padded.numel() and bool(((padded < 0) | (padded >= classes)).any()):
        raise RuntimeError(
            f"ctc_loss: expected targets from 0 to {classes - 1}, got values from "
            f"{int(padded.min())} to {int(padded.max())}"
        )
    return padded


def _losses(
    log_probs: Tensor, targets: Tensor, steps: list[int], labels: list[int], blank: int
) -> Tensor:
    """Return the negative log-likelihood of every sample, a huge number for what cannot be."""
    most, batch, _ = log_probs.shape
    places = 2 * targets.shape[1] + 1
    extended = targets.new_full((batch, places), blank)
    extended[:, 1::2] = targets
    # A skip over a blank to a label that is not the last one again costs nothing.
    skip = log_probs.new_full((batch, places), _IMPOSSIBLE)
    skip[:, 2:].masked_fill_(extended[:, 2:] != extended[:, :-2], 0.0)
    alphas = [_beginning(log_probs, batch, places)]  # Before the first step.
    before = alphas[0].new_full((batch, 2), _IMPOSSIBLE)
    if most:
        index = extended.expand(most, batch, places)
        chosen = _OfLogSoftmax.apply(log_probs).gather(2, index).clamp(min=_IMPOSSIBLE)
        first = alphas[0].new_full((batch, places), _IMPOSSIBLE)
        first[:, :2] = 0.0
        alphas.append(first + chosen[0])
        for now in chosen.unbind(0)[1 : max(steps)]:
            alpha = alphas[-1]
            shifted = _C.cat([before, alpha], 1)
            stay_or_go = _C.logaddexp(alpha, shifted.narrow(1, 1, places))
            alphas.append(_C.logaddexp(stay_or_go, shifted.narrow(1, 0, places) + skip) + now)
    ends = _C.stack(alphas)[targets.new_tensor(steps), _C.arange(batch, device=targets.device)]
    return -_at_the_end(ends, labels)


def _beginning(log_probs: Tensor, batch: int, places: int) -> Tensor:
    """Return what is possible after no steps at all: to be at the first blank."""
    alpha = log_probs.new_full((batch, places), _IMPOSSIBLE)
    alpha[:, 0] = 0.0
    return alpha


def _at_the_end(alpha: Tensor, labels: list[int]) -> Tensor:
    """Add the probabilities to be at the last label or the blank behind it."""
    last = 2 * _C.tensor(labels, dtype=_C.int64, device=alpha.device).unsqueeze(1)
    at_blank = alpha.gather(1, last).squeeze(1)
    at_label = alpha.gather(1, (last - 1).clamp(min=0)).squeeze(1)
    has_labels = (last > 0).squeeze(1)
    at_label = _C.where(has_labels, at_label, _C.full_like(at_label, _IMPOSSIBLE))
    return _C.logaddexp(at_blank, at_label)


class _OfLogSoftmax(Function):
    """Passes log-probabilities on; their gradient becomes that of the values before log_softmax."""

    @staticmethod
    def forward(ctx: Any, log_probs: Tensor) -> Tensor:
        ctx.save_for_backward(log_probs)
        return log_probs.view_as(log_probs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (log_probs,) = ctx.saved_tensors
        return grad - log_probs.exp() * grad.sum(-1, keepdim=True)
