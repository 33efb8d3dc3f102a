"""Rows of a table reduced over bags of indices."""

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._casts import casts
from tapegrad.nn.functional.tables import embedding

__all__ = ["embedding_bag"]

_INTEGERS = (_C.int64, _C.int32)


@casts()
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return the sum, mean or maximum of the rows of a table that each bag of indices names.

    Args:
        input: indices: of shape ``(bags, indices per bag)``, or of one dimension, with offsets.
        weight: the table, of shape ``(rows, width)``.
        offsets: where each bag begins in a one-dimensional input.
        max_norm: rows that are used and longer than this are shortened to it first, in place.
        norm_type: the p of the norm for max_norm.
        scale_grad_by_freq: whether gradients are divided by how often their row is used.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        sparse: whether the gradient of the table is sparse: of the rows that were named alone.
        per_sample_weights: factors for the rows, of the input's shape; with mode ``"sum"``.
        include_last_offset: whether the last offset is the end of the last bag.
        padding_idx: indices of this row are left out.

    Returns:
        A tensor of shape ``(bags, width)``, zeros where a bag is empty.

    Example:
        >>> table = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
        >>> bags = torch.tensor([[0, 1], [2, 2]])
        >>> torch.nn.functional.embedding_bag(bags, table, mode="sum")
        tensor([[ 2.,  4.],
                [ 8., 10.]])
    """
    _check_bag_options(weight, mode, sparse, scale_grad_by_freq)
    _check_bags(input, weight, offsets, mode, per_sample_weights)
    if padding_idx is not None:
        padding_idx = _wrapped_padding(padding_idx, weight.shape[0])
    options = (max_norm, norm_type, scale_grad_by_freq, sparse)
    if input.dim() == 2 and padding_idx is None:
        rows = embedding(input, weight, None, *options)
        return _reduced_rows(rows, per_sample_weights, mode)
    if input.dim() == 2:
        bags, most = input.shape
        bag = _C.arange(bags, device=input.device).unsqueeze(1).expand(bags, most).reshape(-1)
    else:
        assert offsets is not None
        # PyTorch lets the last bag run to the end where it goes through the bags one by one.
        to_end = mode == "max" or padding_idx is not None
        bags, bag = _bags_of(input, offsets, include_last_offset, to_end)
    indices = input.reshape(-1)[: bag.shape[0]]
    factors = None
    if per_sample_weights is not None:
        factors = per_sample_weights.reshape(-1)[: bag.shape[0]]
    if padding_idx is not None:
        kept = (indices != padding_idx).nonzero().squeeze(1)
        indices, bag = indices.index_select(0, kept), bag.index_select(0, kept)
        factors = None if factors is None else factors.index_select(0, kept)
    rows = embedding(indices, weight, None, *options)
    if factors is not None:
        rows = rows * factors.unsqueeze(1)
    return _reduced_bags(rows, bag, bags, mode)


def _check_bag_options(weight: Tensor, mode: str, sparse: bool, scale_grad_by_freq: bool) -> None:
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: mode has to be one of sum, mean or max, got {mode}")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError(
            "embedding_bag: max mode does not support scaling the gradient by the frequency"
        )
    if mode == "max" and sparse:
        raise ValueError("embedding_bag: max mode does not support sparse weights")
    if weight.dim() != 2:
        raise RuntimeError(f"embedding_bag: 'weight' must be 2-D, got {weight.dim()}-D")


def _check_bags(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None,
    mode: str,
    per_sample_weights: Tensor | None,
) -> None:
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then "
            f"it must have the same shape as the input ({input.shape})"
        )
    if input.dim() == 2 and offsets is not None:
        raise ValueError(
            "embedding_bag: if input is 2D, then offsets has to be None, as every row is a bag; "
            f"found offsets of type {type(offsets)}"
        )
    if input.dim() == 1 and (not isinstance(offsets, Tensor) or offsets.dim() != 1):
        got = "None" if offsets is None else f"{offsets.dim()}D"
        raise ValueError(f"embedding_bag: offsets has to be a 1D Tensor but got {got}")
    if input.dim() not in (1, 2):
        raise ValueError(
            "embedding_bag: input has to be 1D or 2D Tensor, but got Tensor of dimension "
            f"{input.dim()}"
        )
    for name, tensor in (("indices", input), ("offsets", offsets)):
        if tensor is not None and tensor.dtype not in _INTEGERS:
            raise RuntimeError(
                f"embedding_bag: Expected tensor for argument '{name}' to have one of the "
                f"following scalar types: Long, Int; but got {tensor.dtype}; call .long() first"
            )
    if per_sample_weights is None:
        return
    if mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}')"
        )
    if per_sample_weights.dtype != weight.dtype:
        raise RuntimeError(
            "embedding_bag: expected 'weight' to have the same type as 'per_sample_weights', got "
            f"{weight.dtype} and {per_sample_weights.dtype}"
        )


def _wrapped_padding(padding_idx: int, rows: int) -> int:
    if not -rows <= padding_idx < rows:
        raise RuntimeError(
            "embedding_bag: padding_idx must be within the number of embeddings, "
            f"{-rows} through {rows - 1}, but got {padding_idx}"
        )
    return padding_idx % rows


def _bags_of(
    input: Tensor, offsets: Tensor, include_last_offset: bool, to_end: bool
) -> tuple[int, Tensor]:
    """Return the number of bags, and the bag of every index."""
    count = input.shape[0]
    if include_last_offset and offsets.numel() == 0:
        raise RuntimeError(
            "embedding_bag: include_last_offset: number of offset should be at least 1"
        )
    if offsets.numel() == 0:
        return 0, offsets.new_empty((0,), dtype=_C.int64)
    offsets = offsets.long()
    if not include_last_offset:
        offsets = _C.cat([offsets, offsets.new_full((1,), count)])
    first, last = int(offsets[0]), int(offsets[-1])
    if first != 0:
        raise RuntimeError(
            "embedding_bag: offsets[0] has to be 0, i.e., the first sequence in the mini-batch has "
            f"to start from position 0. However, got {first}"
        )
    largest = int(offsets.max())
    if last > count or largest > count:
        raise RuntimeError(
            f"embedding_bag: offsets[-1] can not be greater than input's length {count} but got "
            f"offsets[-1] of {largest}"
        )
    lengths = offsets.diff()
    if bool((lengths < 0).any()):
        raise RuntimeError(
            f"embedding_bag: expected offsets that do not fall, got {offsets.tolist()}"
        )
    if to_end and offsets.shape[0] > 1:
        lengths[-1] += count - last
    bags = lengths.shape[0]
    return bags, _C.arange(bags, device=input.device).repeat_interleave(lengths)


def _reduced_rows(rows: Tensor, factors: Tensor | None, mode: str) -> Tensor:
    """Reduce bags of one size."""
    if factors is not None:
        return (rows * factors.unsqueeze(2)).sum(1)
    if mode == "sum" or rows.shape[1] == 0:
        return rows.sum(1)
    return rows.mean(1) if mode == "mean" else rows.max(1)[0]


def _reduced_bags(rows: Tensor, bag: Tensor, bags: int, mode: str) -> Tensor:
    if mode == "max":
        return _largest_of_bags(rows, bag, bags)
    total = rows.new_zeros((bags, rows.shape[1])).index_add(0, bag, rows)
    if mode == "sum":
        return total
    counts = bag.bincount(minlength=bags).clamp(min=1)
    return total / counts.unsqueeze(1).to(rows.dtype)


def _largest_of_bags(rows: Tensor, bag: Tensor, bags: int) -> Tensor:
    """Lay the bags out side by side, the shorter ones filled up with what is never largest."""
    counts = bag.bincount(minlength=bags)
    if rows.shape[0] == 0:
        return rows.new_zeros((bags, rows.shape[1])) + rows.sum()
    starts = counts.cumsum(0) - counts
    most = int(counts.max())
    places = bag * most + _C.arange(bag.shape[0], device=bag.device) - starts.index_select(0, bag)
    flat = rows.new_full((bags * most, rows.shape[1]), -float("inf")).index_copy(0, places, rows)
    largest = flat.unflatten(0, (bags, most)).max(1)[0]
    return largest.masked_fill((counts == 0).unsqueeze(1), 0)
