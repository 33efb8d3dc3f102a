"""How a loss is reduced to a number."""

from tapegrad._C import Tensor

__all__ = ["check_reduction", "chosen_reduction", "reduced", "weighted"]


def chosen_reduction(
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> str:
    """Return the reduction, from the two flags of old code where they are given."""
    if size_average is not None or reduce is not None:
        import warnings

        averaged = "sum" if size_average is False else "mean"
        reduction = "none" if reduce is False else averaged
        warnings.warn(
            "size_average and reduce args will be deprecated, please use "
            f"reduction='{reduction}' instead.",
            stacklevel=4,
        )
    return reduction


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """Return the losses of all elements, their mean or their sum."""
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    check_reduction(reduction)
    return loss


def check_reduction(reduction: str) -> None:
    """Refuse what is no reduction."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")


def weighted(name: str, loss: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """Reduce losses that have weights, whose mean is by weight."""
    if weight is None:
        return reduced(loss, reduction)
    if weight.shape != loss.shape:
        raise ValueError(
            f"{name}: Weights and input must have the same size, got {weight.shape} and "
            f"{loss.shape}"
        )
    loss = loss * weight
    return loss.sum() / weight.sum() if reduction == "mean" else reduced(loss, reduction)
