"""What makes nested tensors, and ordinary ones of them."""

from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import jagged, strided
from tapegrad.nested._structure import Structure
from tapegrad.nested._tensor import NestedTensor

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]


def _check_layout(name: str, layout: Any) -> None:
    if layout is not None and layout is not jagged and layout is not strided:
        raise RuntimeError(f"{name}: Specified layout is unsupported for nested tensors: {layout}")


def _packed(name: str, tensors: Sequence[Tensor]) -> NestedTensor:
    """Put tensors that differ in their first dimension alone one behind the other."""
    if not tensors:
        raise RuntimeError(f"{name}: expected at least one tensor")
    rest = tensors[0].shape[1:]
    for each in tensors:
        if each.dim() == 0:
            raise RuntimeError(f"{name}: expected tensors of one dimension or more, got a number")
        if each.dim() != tensors[0].dim() or each.shape[1:] != rest:
            raise RuntimeError(
                f"{name}: expected tensors that differ in their first dimension alone, got shapes "
                f"{tuple(tensors[0].shape)} and {tuple(each.shape)}; transpose or pad them"
            )
        if each.dtype != tensors[0].dtype or each.device != tensors[0].device:
            raise RuntimeError(f"{name}: expected tensors of one dtype, on one device")
    lengths = [each.shape[0] for each in tensors]
    return NestedTensor(_C.cat(list(tensors)), Structure.of_lengths(lengths, tensors[0].device))


def nested_tensor(
    tensor_list: Sequence[Any],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> NestedTensor:
    """Make a nested tensor of copies of sequences.

    Args:
        tensor_list: tensors, or what `torch.tensor` takes, that differ in their first dimension
            alone.
        dtype: that of the elements; that of the sequences if left out.
        layout: `torch.jagged` or `torch.strided`: elements are packed in either case.
        device: where the elements are put.
        requires_grad: whether gradients are wanted.
        pin_memory: refused.

    Example:
        >>> torch.nested.nested_tensor([torch.zeros(1, 2), torch.ones(2, 2)]).values()
        tensor([[0., 0.],
                [1., 1.],
                [1., 1.]])
    """
    _check_layout("nested_tensor", layout)
    if pin_memory:
        raise NotImplementedError("nested_tensor: pin_memory is not implemented; pin its values()")
    if isinstance(tensor_list, Tensor) and tensor_list.dim() > 0:
        tensor_list = tensor_list.unbind()
    if not isinstance(tensor_list, (list, tuple)):
        raise TypeError(
            "nested_tensor: Only lists (or lists of lists) are accepted, got "
            f"{type(tensor_list).__name__}"
        )
    tensors = [
        each.detach().to(
            device=each.device if device is None else device, dtype=dtype or each.dtype
        )
        if isinstance(each, Tensor)
        else _C.tensor(each, dtype=dtype, device=device)
        for each in tensor_list
    ]
    return _packed("nested_tensor", tensors).requires_grad_(requires_grad)


def as_nested_tensor(
    ts: Any, dtype: Any = None, device: Any = None, layout: Any = None
) -> NestedTensor:
    """Make a nested tensor of sequences; gradients go on to them.

    Args:
        ts: a list of tensors that differ in their first dimension alone, a tensor of sequences of
            one length, or a nested tensor.
        dtype: that of the elements; that of the sequences if left out.
        device: where the elements are put.
        layout: `torch.jagged` or `torch.strided`: elements are packed in either case.

    Example:
        >>> a = torch.ones(2, requires_grad=True)
        >>> x = torch.nested.as_nested_tensor([a, torch.zeros(1)])
        >>> (x * 3).sum().backward()
        >>> a.grad
        tensor([3., 3.])
    """
    _check_layout("as_nested_tensor", layout)
    if isinstance(ts, NestedTensor):
        return ts.to(device=ts.device if device is None else device, dtype=dtype or ts.dtype)
    if not isinstance(ts, (Tensor, list, tuple)) or not all(isinstance(t, Tensor) for t in ts):
        raise TypeError(
            "as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of "
            "tensors"
        )
    if isinstance(ts, Tensor):
        if ts.dim() < 2:
            raise RuntimeError("as_nested_tensor(): expected a tensor of 2 dimensions or more")
        lengths = [ts.shape[1]] * ts.shape[0]
        x = NestedTensor(ts.flatten(0, 1), Structure.of_lengths(lengths, ts.device))
    else:
        x = _packed("as_nested_tensor", ts)
    return x.to(device=x.device if device is None else device, dtype=dtype or x.dtype)


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    """Make a nested tensor of elements that are packed already; gradients go on to them.

    Args:
        values: the elements of all sequences, one behind the other.
        offsets: where each sequence begins, and where the last one ends.
        lengths: the length of each sequence. Beside `offsets` there may be gaps behind sequences,
            which are left out: the values are then a copy.
        jagged_dim: 1, the only place of the ragged dimension that is supported.
        min_seqlen: accepted; lengths are found when they are needed.
        max_seqlen: the same.

    Example:
        >>> values, offsets = torch.arange(5.0), torch.tensor([0, 2, 5])
        >>> torch.nested.nested_tensor_from_jagged(values, offsets).unbind()
        (tensor([0., 1.]), tensor([2., 3., 4.]))
    """
    if jagged_dim is not None and jagged_dim < 1:
        raise ValueError(f"Expected jagged_dim >=1, but got {jagged_dim}.")
    if jagged_dim not in (None, 1):
        raise NotImplementedError(
            f"nested_tensor_from_jagged(): jagged_dim={jagged_dim} is not supported; move the "
            "dimension to the front, and transpose what this gives"
        )
    if offsets is None and lengths is None:
        raise RuntimeError(
            "nested_tensor_from_jagged(): At least one of offsets or lengths is required."
        )
    if offsets is None:
        assert lengths is not None
        structure = Structure.of_lengths(lengths.tolist(), values.device)
        structure.check(values.shape[0])
        return NestedTensor(values, structure)
    if lengths is not None:
        return _taken(values, offsets[:-1].tolist(), lengths.tolist())
    structure = Structure(offsets)
    structure.check(values.shape[0])
    return NestedTensor(values, structure)


def _taken(values: Tensor, starts: list[int], lengths: list[int]) -> NestedTensor:
    """Take pieces of the first dimension."""
    for start, length in zip(starts, lengths, strict=True):
        if start < 0 or length < 0 or start + length > values.shape[0]:
            raise RuntimeError(
                f"nested_tensor_from_jagged(): {length} elements from {start} on reach outside of "
                f"{values.shape[0]}"
            )
    structure = Structure.of_lengths(lengths, values.device)
    rows, places = structure.places()
    begin = _C.tensor(starts, dtype=_C.int64, device=values.device)
    return NestedTensor(values[begin[rows] + places], structure)


def narrow(
    tensor: Tensor, dim: int, start: int | Tensor, length: int | Tensor, layout: Any = strided
) -> NestedTensor:
    """Take a piece of another place and length from each sequence of a tensor: a copy.

    Args:
        tensor: of shape ``(batch, length, ...)``.
        dim: 1, the dimension that is narrowed.
        start: where the pieces begin: a number, or a vector of one for each sequence.
        length: how long they are, the same way.
        layout: `torch.jagged` or `torch.strided`: elements are packed in either case.

    Example:
        >>> x = torch.arange(6).reshape(2, 3)
        >>> torch.nested.narrow(x, 1, 0, torch.tensor([1, 3]), layout=torch.jagged).unbind()
        (tensor([0]), tensor([3, 4, 5]))
    """
    _check_layout("narrow", layout)
    if dim != 1:
        raise RuntimeError(f"narrow: expected dim=1, the ragged dimension, got {dim}")
    batch, size = tensor.shape[:2]
    starts, lengths = (
        each.tolist() if isinstance(each, Tensor) else [each] * batch for each in (start, length)
    )
    if len(starts) != batch or len(lengths) != batch:
        raise RuntimeError(f"narrow: expected {batch} starts and lengths, one for each sequence")
    for begin, count in zip(starts, lengths, strict=True):
        if begin < 0 or count < 0 or begin + count > size:
            raise RuntimeError(
                f"narrow: start ({begin}) + length ({count}) exceeds dimension size ({size})"
            )
    firsts = [number * size + begin for number, begin in enumerate(starts)]
    return _taken(tensor.flatten(0, 1), firsts, lengths)


def masked_select(tensor: Tensor, mask: Tensor) -> NestedTensor:
    """Make a nested tensor of the elements of each row that a mask marks.

    Args:
        tensor: of two dimensions or more; the last is the one that becomes ragged.
        mask: a bool tensor, broadcast to its shape.

    Example:
        >>> x = torch.tensor([[1, 2], [3, 4]])
        >>> torch.nested.masked_select(x, torch.tensor([[True, False], [True, True]])).unbind()
        (tensor([1]), tensor([3, 4]))
    """
    mask = mask.expand(tensor.shape)
    if tensor.dim() != 2:
        raise NotImplementedError(
            f"masked_select: expected a matrix, got {tensor.dim()} dimensions; flatten the others"
        )
    structure = Structure.of_lengths(mask.sum(1).tolist(), tensor.device)
    return NestedTensor(tensor.masked_select(mask), structure)


def to_padded_tensor(
    input: NestedTensor,
    padding: float,
    output_size: Sequence[int] | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return an ordinary tensor, with a number behind the end of shorter sequences.

    Args:
        input: a nested tensor.
        padding: the number.
        output_size: the sizes of the result; those of the longest sequence if left out.
        out: refused.

    Example:
        >>> x = torch.nested.nested_tensor([[1.0], [2.0, 3.0]])
        >>> torch.nested.to_padded_tensor(x, 0.0)
        tensor([[1., 0.],
                [2., 3.]])
    """
    if not isinstance(input, NestedTensor):
        raise TypeError(f"to_padded_tensor: expected a NestedTensor, got {type(input).__name__}")
    if out is not None:
        raise NotImplementedError("to_padded_tensor: out= is not supported; use the result")
    return input.to_padded_tensor(padding, output_size)
