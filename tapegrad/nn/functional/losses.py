"""Losses: of numbers, of classes, of probabilities."""

import math
from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._casts import casts
from tapegrad.autograd.function import Function
from tapegrad.autograd.grad_mode import no_grad
from tapegrad.nn.functional._arrays import refuse_arrays
from tapegrad.nn.functional._reduction import chosen_reduction, reduced, weighted

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "gaussian_nll_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
]

_Flag = bool | None


# ---- of numbers


@casts(cpu="float32", cuda="float32")
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: _Flag = None,
    reduce: _Flag = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return the absolute differences, reduced.

    Args:
        input: the predictions.
        target: the true values, of the same shape.
        size_average: of old code; use `reduction`.
        reduce: of old code; use `reduction`.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: a weight for each element.

    Returns:
        The loss.

    Example:
        >>> torch.nn.functional.l1_loss(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
        tensor(1.)
    """
    if not (isinstance(input, Tensor) and isinstance(target, Tensor)):
        refuse_arrays("l1_loss", input=input, target=target)
    if target.shape != input.shape:
        _warn_of_sizes("l1_loss", input, target)
    reduction = chosen_reduction(size_average, reduce, reduction)
    return weighted("l1_loss", (input - target).abs(), weight, reduction)


@casts(cpu="float32", cuda="float32")
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: _Flag = None,
    reduce: _Flag = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return the squared differences, reduced. Arguments as of l1_loss().

    Example:
        >>> torch.nn.functional.mse_loss(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
        tensor(2.)
    """
    if not (isinstance(input, Tensor) and isinstance(target, Tensor)):
        refuse_arrays("mse_loss", input=input, target=target)
    if target.shape != input.shape:
        _warn_of_sizes("mse_loss", input, target)
    _expect_real("mse_loss", input, target)
    reduction = chosen_reduction(size_average, reduce, reduction)
    return weighted("mse_loss", (input - target).square(), weight, reduction)


@casts(cpu="float32", cuda="float32")
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: _Flag = None,
    reduce: _Flag = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Return half squares over beta of differences below `beta`, and absolute ones above.

    Args:
        input: the predictions.
        target: the true values, of the same shape.
        size_average: of old code; use `reduction`.
        reduce: of old code; use `reduction`.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        beta: where the two parts meet.

    Returns:
        The loss.
    """
    if not (isinstance(input, Tensor) and isinstance(target, Tensor)):
        refuse_arrays("smooth_l1_loss", input=input, target=target)
    if beta < 0:
        raise RuntimeError(
            f"smooth_l1_loss: smooth_l1_loss does not support negative values for beta, got {beta}"
        )
    if beta == 0:
        return l1_loss(input, target, size_average, reduce, reduction)
    if target.shape != input.shape:
        _warn_of_sizes("smooth_l1_loss", input, target)
    _expect_real("smooth_l1_loss", input, target)
    gap = (input - target).abs()
    loss = _C.where(gap < beta, gap.square() * (0.5 / beta), gap - 0.5 * beta)
    return reduced(loss, chosen_reduction(size_average, reduce, reduction))


@casts(cpu="float32", cuda="float32")
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Return half squares of differences below `delta`, and lines of slope `delta` above.

    Args:
        input: the predictions.
        target: the true values, of the same shape.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        delta: where the two parts meet.
        weight: a weight for each element.

    Returns:
        The loss.
    """
    if not (isinstance(input, Tensor) and isinstance(target, Tensor)):
        refuse_arrays("huber_loss", input=input, target=target)
    if delta <= 0:
        raise RuntimeError(
            f"huber_loss: huber_loss does not support non-positive values for delta, got {delta}"
        )
    if target.shape != input.shape:
        _warn_of_sizes("huber_loss", input, target)
    _expect_real("huber_loss", input, target)
    gap = (input - target).abs()
    loss = _C.where(gap <= delta, gap.square() * 0.5, (gap - 0.5 * delta) * delta)
    # PyTorch divides by the number of elements here, not by the weights.
    return reduced(loss if weight is None else loss * weight, reduction)


def _expect_real(name: str, input: Tensor, target: Tensor) -> None:
    if input.is_complex() or target.is_complex():
        raise NotImplementedError(
            f"{name}: not implemented for '{input.dtype}' and '{target.dtype}'; give it "
            "(input - target).abs() and zeros"
        )


def _warn_of_sizes(name: str, input: Tensor, target: Tensor) -> None:
    import warnings

    warnings.warn(
        f"{name}: Using a target size ({target.shape}) that is different to the input size "
        f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
        "Please ensure they have the same size.",
        stacklevel=4,  # `casts` has a frame of its own
    )


# ---- of classes


@casts(cpu="float32", cuda="float32")
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: _Flag = None,
    ignore_index: int = -100,
    reduce: _Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log probabilities of the true classes, reduced.

    Args:
        input: log probabilities, of shape ``(N, C, ...)`` or ``(C,)``.
        target: classes, of shape ``(N, ...)`` or ``()``.
        weight: a weight for each class; the mean is by weight.
        size_average: of old code; use `reduction`.
        ignore_index: a target that counts for nothing.
        reduce: of old code; use `reduction`.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        The loss.

    Example:
        >>> log_probabilities = torch.tensor([[0.5, 0.5], [0.25, 0.75]]).log()
        >>> torch.nn.functional.nll_loss(log_probabilities, torch.tensor([0, 1]))
        tensor(0.4904)
    """
    if not (isinstance(input, Tensor) and isinstance(target, Tensor)):
        refuse_arrays("nll_loss", input=input, target=target)
    reduction = chosen_reduction(size_average, reduce, reduction)
    _expect_classes("nll_loss", input, target, weight)
    class_dim = 0 if input.dim() == 1 else 1
    target = target.long()
    ignored = target == ignore_index
    target = target.masked_fill(ignored, 0)
    picked = _pick(input, target, class_dim)
    if weight is None:
        loss = (-picked).masked_fill(ignored, 0)
        if reduction == "mean":
            return loss.sum() / (target.numel() - ignored.sum()).to(loss.dtype)
        return reduced(loss, reduction)
    weights = weight[target].masked_fill(ignored, 0)
    loss = (-picked * weights).masked_fill(ignored, 0)
    return loss.sum() / weights.sum() if reduction == "mean" else reduced(loss, reduction)


def _pick(input: Tensor, target: Tensor, class_dim: int) -> Tensor:
    """Return the elements that the classes name; a class that does not exist is an IndexError."""
    try:
        return input.gather(class_dim, target.unsqueeze(class_dim)).squeeze(class_dim)
    except (IndexError, RuntimeError) as error:
        bad = target[(target < 0) | (target >= input.shape[class_dim])]
        if bad.numel() == 0:
            raise
        raise IndexError(
            f"nll_loss: Target {bad[0].item()} is out of bounds. There are "
            f"{input.shape[class_dim]} classes"
        ) from error


def _expect_classes(name: str, input: Tensor, target: Tensor, weight: Tensor | None) -> None:
    if input.dim() == 0:
        raise ValueError(f"{name}: Expected 1 or more dimensions (got {input.dim()})")
    if input.dim() > 1 and (target.dim() == 0 or input.shape[0] != target.shape[0]):
        got = target.shape[0] if target.dim() else 0
        raise ValueError(
            f"{name}: Expected input batch_size ({input.shape[0]}) to match target batch_size "
            f"({got})."
        )
    if target.dtype not in (_C.int64, _C.uint8):
        if target.dim() != max(input.dim() - 1, 0):
            raise RuntimeError(
                f"{name}: 0D or 1D target tensor expected, multi-target not supported; got shape "
                f"{list(target.shape)}"
            )
        raise RuntimeError(
            f"{name}: expected target dtype to be Long or Byte, but got {target.dtype}; call "
            ".long() first"
        )
    expected = tuple(input.shape[:1]) + tuple(input.shape[2:]) if input.dim() > 1 else ()
    if tuple(target.shape) != expected:
        raise RuntimeError(
            f"{name}: Expected target size {list(expected)}, got {list(target.shape)}"
        )
    classes = input.shape[0 if input.dim() == 1 else 1]
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(
            f"{name}: weight tensor should be defined either for all {classes} classes or no "
            f"classes but got weight tensor of shape: {list(weight.shape)}"
        )


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: _Flag = None,
    ignore_index: int = -100,
    reduce: _Flag = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the negative log softmax of the true classes, reduced.

    Args:
        input: unnormalised log probabilities, of shape ``(N, C, ...)`` or ``(C,)``.
        target: classes, of shape ``(N, ...)`` or ``()``; or probabilities, of the input's shape.
        weight: a weight for each class; the mean over class targets is by weight.
        size_average: of old code; use `reduction`.
        ignore_index: a class target that counts for nothing.
        reduce: of old code; use `reduction`.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        label_smoothing: the part of every target that is spread over all classes.

    Returns:
        The loss.

    Example:
        >>> torch.nn.functional.cross_entropy(torch.zeros(2, 4), torch.tensor([0, 3]))
        tensor(1.3863)
    """
    if not (isinstance(input, Tensor) and isinstance(target, Tensor)):
        refuse_arrays("cross_entropy", input=input, target=target)
    reduction = chosen_reduction(size_average, reduce, reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(
            f"cross_entropy: label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}"
        )
    if input.dim() == 0:
        raise ValueError("cross_entropy: Expected 1 or more dimensions (got 0)")
    if target.shape == input.shape:
        return _of_probabilities(input, target, weight, ignore_index, reduction, label_smoothing)
    _expect_classes("cross_entropy", input, target, weight)
    if weight is not None and (weight.requires_grad or _C._tangent_levels(weight)):
        return _composed_cross_entropy(
            input, target, weight, ignore_index, reduction, label_smoothing
        )
    return _C._cross_entropy(
        input,
        target.long(),
        weight,
        _number_of(reduction),
        ignore_index,
        label_smoothing,
    )


def _number_of(reduction: str) -> int:
    """Return what the core calls a reduction."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return ("none", "mean", "sum").index(reduction)


@casts(cpu="float32", cuda="float32", of="cross_entropy")
def _composed_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Tensor:
    """Return the same of ops that are recorded one by one: the weight has a gradient, too."""
    class_dim = 0 if input.dim() == 1 else 1
    log_probabilities = _C.log_softmax(input, class_dim)
    loss = nll_loss(
        log_probabilities, target, weight, ignore_index=ignore_index, reduction=reduction
    )
    if label_smoothing == 0.0:
        return loss
    spread = _spread_over_classes(log_probabilities, target.long(), weight, ignore_index, reduction)
    return loss * (1 - label_smoothing) + spread * (label_smoothing / input.shape[class_dim])


def _shaped_weight(weight: Tensor, input: Tensor) -> Tensor:
    return weight if input.dim() == 1 else weight.reshape([-1, *[1] * (input.dim() - 2)])


@casts(cpu="float32", cuda="float32", of="cross_entropy")
def _of_probabilities(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Tensor:
    if not target.is_floating_point():
        raise RuntimeError(
            "cross_entropy: Expected floating point type for target with class probabilities, "
            f"got {target.dtype}"
        )
    if ignore_index >= 0:
        raise RuntimeError("cross_entropy: ignore_index is not supported for floating point target")
    class_dim = 0 if input.dim() == 1 else 1
    log_probabilities = _C.log_softmax(input, class_dim)
    classes = input.shape[class_dim]
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(
            f"cross_entropy: weight tensor should be defined either for all {classes} classes or "
            f"no classes but got weight tensor of shape: {list(weight.shape)}"
        )
    if label_smoothing > 0:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    losses = log_probabilities * target
    if weight is not None:
        losses = losses * _shaped_weight(weight, log_probabilities)
    losses = -losses.sum(class_dim)
    return reduced(losses, reduction)


def _spread_over_classes(
    log_probabilities: Tensor,
    target: Tensor,
    weight: Tensor,
    ignore_index: int,
    reduction: str,
) -> Tensor:
    """Return the loss of targets that are every class at once."""
    class_dim = 0 if log_probabilities.dim() == 1 else 1
    ignored = target == ignore_index
    losses = log_probabilities * _shaped_weight(weight, log_probabilities)
    losses = (-losses.sum(class_dim)).masked_fill(ignored, 0)
    if reduction != "mean":
        return reduced(losses, reduction)
    used = weight[target.masked_fill(ignored, 0)].masked_fill(ignored, 0)
    return losses.sum() / used.sum()


# ---- of probabilities


class _BinaryCrossEntropy(Function):
    """Cross entropy whose logarithms are at least -100, with a derivative that stays finite."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, target: Tensor) -> Tensor:
        ctx.save_for_backward(input, target)
        return -(target * _bounded_log(input) + (1 - target) * _bounded_log(1 - input))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        input, target = ctx.saved_tensors
        grad_input = grad_target = None
        if ctx.needs_input_grad[0]:
            grad_input = grad * (input - target) / (input * (1 - input)).clamp_min(1e-12)
        if ctx.needs_input_grad[1]:
            grad_target = grad * (_bounded_log(1 - input) - _bounded_log(input))
        return grad_input, grad_target


def _bounded_log(x: Tensor) -> Tensor:
    return x.log().clamp_min(-100)


@casts(cpu="float32", cuda="refused")
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: _Flag = None,
    reduce: _Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the cross entropy of probabilities of yes and no, reduced.

    Args:
        input: probabilities.
        target: true probabilities, of the same shape.
        weight: a weight that broadcasts with the losses.
        size_average: of old code; use `reduction`.
        reduce: of old code; use `reduction`.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        The loss, whose logarithms are at least -100.

    Example:
        >>> torch.nn.functional.binary_cross_entropy(torch.tensor([0.5]), torch.tensor([1.0]))
        tensor(0.6931)
    """
    if not (isinstance(input, Tensor) and isinstance(target, Tensor)):
        refuse_arrays("binary_cross_entropy", input=input, target=target)
    reduction = chosen_reduction(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"binary_cross_entropy: Using a target size ({target.shape}) that is different to the "
            f"input size ({input.shape}) is deprecated. Please ensure they have the same size."
        )
    if not _C._running_vmaps() and bool(((input < 0) | (input > 1)).any()):
        raise RuntimeError(
            "binary_cross_entropy: all elements of input should be between 0 and 1; for values "
            "before the sigmoid call binary_cross_entropy_with_logits()"
        )
    loss = _BinaryCrossEntropy.apply(input, target)
    return reduced(loss if weight is None else loss * weight, reduction)


@casts(cpu="float32", cuda="float32")
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: _Flag = None,
    reduce: _Flag = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Return binary_cross_entropy() of the sigmoid of the input, without loss of precision.

    Args:
        input: values before the sigmoid.
        target: true probabilities, of the same shape.
        weight: a weight that broadcasts with the losses.
        size_average: of old code; use `reduction`.
        reduce: of old code; use `reduction`.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        pos_weight: a weight of the positive part.

    Returns:
        The loss.

    Example:
        >>> f = torch.nn.functional.binary_cross_entropy_with_logits
        >>> f(torch.tensor([0.0]), torch.tensor([1.0]))
        tensor(0.6931)
    """
    if not (isinstance(input, Tensor) and isinstance(target, Tensor)):
        refuse_arrays("binary_cross_entropy_with_logits", input=input, target=target)
    reduction = chosen_reduction(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"binary_cross_entropy_with_logits: Target size ({target.shape}) must be the same as "
            f"input size ({input.shape})"
        )
    log_sigmoid = _C.logsigmoid(input)
    if pos_weight is not None:
        log_sigmoid = log_sigmoid * ((pos_weight - 1) * target + 1)
    loss = (1 - target) * input - log_sigmoid
    return reduced(loss if weight is None else loss * weight, reduction)


@casts(cpu="float32", cuda="float32")
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: _Flag = None,
    reduce: _Flag = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Return the Kullback-Leibler divergence of targets from log probabilities, reduced.

    Args:
        input: log probabilities.
        target: probabilities, or their logarithms with `log_target`.
        size_average: of old code; use `reduction`.
        reduce: of old code; use `reduction`.
        reduction: ``"batchmean"``, which is the divergence itself; ``"mean"``, ``"sum"`` or
            ``"none"``.
        log_target: whether the targets are logarithms.

    Returns:
        The loss.
    """
    if not (isinstance(input, Tensor) and isinstance(target, Tensor)):
        refuse_arrays("kl_div", input=input, target=target)
    if size_average is not None or reduce is not None:
        reduction = chosen_reduction(size_average, reduce, reduction)
    elif reduction == "mean":
        import warnings

        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support "
            "size; 'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition.",
            stacklevel=3,  # `casts` has a frame of its own
        )
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = _C.xlogy(target, target) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0] if input.dim() else loss.sum()
    return reduced(loss, reduction)


@casts(cpu="float32", cuda="float32")
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: _Flag = None,
    eps: float = 1e-8,
    reduce: _Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log likelihoods of Poisson distributions, reduced.

    Args:
        input: the rates, or their logarithms with `log_input`.
        target: the counts.
        log_input: whether the input is the logarithm of the rate.
        full: whether Stirling's approximation of the constant is added.
        size_average: of old code; use `reduction`.
        eps: added to rates before their logarithm is taken.
        reduce: of old code; use `reduction`.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        The loss.
    """
    reduction = chosen_reduction(size_average, reduce, reduction)
    rate, log_rate = (input.exp(), input) if log_input else (input, (input + eps).log())
    loss = rate - target * log_rate
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return reduced(loss, reduction)


def _is_shared_along_one(sizes: Sequence[int], of: Sequence[int]) -> bool:
    """Whether sizes are those of another shape but for one, which is 1."""
    if len(sizes) != len(of):
        return False
    return [size for size, other in zip(sizes, of, strict=True) if size != other] == [1]


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log likelihoods of normal distributions, reduced.

    Args:
        input: the means.
        target: the values.
        var: the variances: a number, or a tensor of the input's shape, or without its last
            dimension, or with size 1 there.
        full: whether the constant is added.
        eps: the least variance; gradients pass as if it were not raised.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        The loss.
    """
    if not isinstance(var, Tensor):
        if var < 0:
            raise ValueError("gaussian_nll_loss: var has negative entry/entries")
        var = _C.full_like(input, var)
    elif not _C._running_vmaps() and bool((var < 0).any()):
        raise ValueError("gaussian_nll_loss: var has negative entry/entries")
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif not _is_shared_along_one(var.shape, input.shape):
            raise ValueError(
                f"gaussian_nll_loss: var is of incorrect size: {var.shape} for {input.shape}"
            )
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    var = var.clone()
    with no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (var.log() + (input - target).square() / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, reduction)
