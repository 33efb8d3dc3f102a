"""Linear maps, and rows chosen from tables."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor, linear
from tapegrad._casts import casts
from tapegrad._composed.einsum import einsum
from tapegrad._ops import runs
from tapegrad.autograd.function import Function
from tapegrad.autograd.grad_mode import no_grad
from tapegrad.nn.functional._arrays import refuse_arrays

__all__ = ["bilinear", "embedding", "linear", "one_hot"]


@runs("matmul")
@casts(cuda="widest")
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``input1 @ weight[k] @ input2 + bias[k]`` for every output feature k.

    Args:
        input1: a tensor of shape ``(..., in1)``.
        input2: a tensor of shape ``(..., in2)`` with the same leading dimensions.
        weight: a tensor of shape ``(out, in1, in2)``.
        bias: a tensor of shape ``(out,)``.

    Returns:
        A tensor of shape ``(..., out)``.

    Example:
        >>> torch.nn.functional.bilinear(torch.ones(2, 3), torch.ones(2, 4), torch.ones(5, 3, 4))
        tensor([[12., 12., 12., 12., 12.],
                [12., 12., 12., 12., 12.]])
    """
    if input1.dim() != input2.dim() or input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            "bilinear(): input batch dimensions do not match: got "
            f"{list(input1.shape[:-1])} and {list(input2.shape[:-1])}"
        )
    for name, tensor, dim in (("input1", input1, 1), ("input2", input2, 2)):
        if tensor.shape[-1] != weight.shape[dim]:
            raise RuntimeError(
                f"bilinear(): {name} size does not match weight size: got {tensor.shape[-1]} but "
                f"expected {weight.shape[dim]}"
            )
    result = einsum("...i,oij,...j->...o", input1, weight, input2)
    return result if bias is None else result + bias


@runs("index_select")
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of a table that indices name.

    Args:
        input: indices, of an integer dtype and any shape.
        weight: the table, of shape ``(rows, width)``.
        padding_idx: a row that gets no gradient.
        max_norm: rows that are used and longer than this are shortened to it first, in place.
        norm_type: the p of the norm for max_norm.
        scale_grad_by_freq: whether gradients are divided by how often their row is used.
        sparse: whether the gradient of the table is sparse: of the rows that were named alone.

    Returns:
        A tensor of the input's shape and one more dimension, the width.

    Example:
        >>> table = torch.tensor([[0.0, 1.0], [2.0, 3.0]])
        >>> torch.nn.functional.embedding(torch.tensor([1, 0, 1]), table)
        tensor([[2., 3.],
                [0., 1.],
                [2., 3.]])
    """
    if not (isinstance(input, Tensor) and isinstance(weight, Tensor)):
        refuse_arrays("embedding", input=input, weight=weight)
    if input.dtype not in (_C.int64, _C.int32):
        raise RuntimeError(
            "embedding: Expected tensor for argument #1 'indices' to have one of the following "
            f"scalar types: Long, Int; but got {input.dtype}; call .long() first"
        )
    if weight.dim() != 2:
        raise RuntimeError(f"embedding: 'weight' must be 2-D, got {weight.dim()}-D")
    padding_idx = _wrapped_padding(padding_idx, weight.shape[0])
    flat = input.reshape(-1)
    if max_norm is not None:
        _shorten_rows(flat, weight, max_norm, norm_type)
    try:
        if sparse and weight.requires_grad and _C.is_grad_enabled():
            rows = _sparse_rows(weight, flat, padding_idx, scale_grad_by_freq)
            return rows.reshape(*input.shape, weight.shape[1])
        rows = weight.index_select(0, flat)
    except (IndexError, RuntimeError) as error:
        _raise_where_out_of_range(input, weight, error)
        raise
    if padding_idx is not None and weight.requires_grad:
        rows = _C.where((flat == padding_idx).unsqueeze(-1), rows.detach(), rows)
    if scale_grad_by_freq and rows.requires_grad:
        counts = _C.zeros(weight.shape[0], dtype=rows.dtype, device=rows.device).index_add(
            0, flat, _C.ones(flat.shape, dtype=rows.dtype, device=rows.device)
        )
        rows = _ScaledGradient.apply(rows, counts.index_select(0, flat).reciprocal().unsqueeze(-1))
    return rows.reshape(*input.shape, weight.shape[1])


def _sparse_rows(
    weight: Tensor, flat: Tensor, padding_idx: int | None, scale_grad_by_freq: bool
) -> Tensor:
    from tapegrad.sparse._rows import SparseEmbedding

    if weight.device.type == "cuda":
        raise NotImplementedError(
            "embedding: sparse gradients are supported on the CPU alone; leave sparse at False"
        )
    return SparseEmbedding.apply(weight, flat.to(_C.int64), padding_idx, scale_grad_by_freq)


def _wrapped_padding(padding_idx: int | None, rows: int) -> int | None:
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise AssertionError(
            f"embedding: Padding_idx must be within num_embeddings, got {padding_idx} for {rows} "
            "rows"
        )
    return padding_idx % rows


def _raise_where_out_of_range(input: Tensor, weight: Tensor, error: Exception) -> None:
    bad = input[(input < 0) | (input >= weight.shape[0])]
    if bad.numel():
        raise IndexError(
            f"embedding: index out of range in self: {bad[0].item()} for {weight.shape[0]} rows"
        ) from error


def _shorten_rows(flat: Tensor, weight: Tensor, max_norm: float, norm_type: float) -> None:
    """Shorten rows in place. Neither mode of differentiation sees it."""
    shown = _C._hide_dual_levels()
    try:
        with no_grad():
            used = flat.unique()
            rows = weight.index_select(0, used)
            norms = rows.norm(norm_type, -1, True)
            scale = _C.where(norms > max_norm, max_norm / (norms + 1e-7), _C.ones_like(norms))
            weight.index_copy_(0, used, rows * scale)
    finally:
        _C._show_dual_levels(shown)


class _ScaledGradient(Function):
    """Passes its input through and scales the gradient that comes back."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, scale: Tensor) -> Tensor:
        ctx.save_for_backward(scale)
        return input.view_as(input)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (scale,) = ctx.saved_tensors
        return grad * scale, None


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Return rows of zeros with a one at the place each element names.

    Args:
        tensor: classes, of dtype int64 and any shape.
        num_classes: the length of the rows; -1 takes the largest class plus one.

    Returns:
        An int64 tensor with one more dimension.

    Example:
        >>> torch.nn.functional.one_hot(torch.tensor([0, 2]))
        tensor([[1, 0, 0],
                [0, 0, 1]])
    """
    if not isinstance(tensor, Tensor):
        refuse_arrays("one_hot", tensor=tensor)
    if tensor.dtype != _C.int64:
        raise RuntimeError(
            "one_hot: one_hot is only applicable to index tensor of type LongTensor, got "
            f"{tensor.dtype}; call .long() first"
        )
    if num_classes == 0 or (tensor.numel() == 0 and num_classes < 0):
        raise RuntimeError(
            "one_hot: Can not infer total number of classes from empty tensor; give num_classes"
        )
    unseen = tensor.is_meta and num_classes > 0
    if tensor.numel() and not unseen and not _C._running_vmaps():
        least, most = int(tensor.min()), int(tensor.max())
        if least < 0:
            raise RuntimeError(f"one_hot: Class values must be non-negative, got {least}")
        if num_classes < 0:
            num_classes = most + 1
        elif most >= num_classes:
            raise RuntimeError(
                f"one_hot: Class values must be smaller than num_classes, got {most} for "
                f"{num_classes} classes"
            )
    elif num_classes < 0:
        raise RuntimeError("one_hot: under vmap the number of classes must be given")
    return (tensor.unsqueeze(-1) == _C.arange(num_classes, device=tensor.device)).long()
