"""Batches of sequences of different lengths: padded to one length, or packed without padding.

A packed batch holds the first elements of all sequences, then the second elements of those that
have one, and so on, the longest sequence first. Going there is one `index_select` on the flat
batch, going back is one `index_copy`, whatever the number of steps.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


# The name in its repr is PyTorch's.
_Fields.__name__ = "PackedSequence_"


class PackedSequence(_Fields):
    """A packed batch; made by pack_padded_sequence() and pack_sequence().

    Args:
        data: the elements, of shape ``(sum of lengths, ...)``.
        batch_sizes: how many sequences have each step; an int64 tensor on the CPU.
        sorted_indices: where each packed sequence stood in the batch; None if they stood in order.
        unsorted_indices: where each sequence of the batch stands in the pack.

    Example:
        >>> packed = torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])])
        >>> packed.data, packed.batch_sizes
        (tensor([1, 3, 2]), tensor([2, 1]))
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> "PackedSequence":
        """Make the batch of its parts; a pair (data, batch_sizes) may stand for the first two."""
        if batch_sizes is None:
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "PackedSequence: batch_sizes should always be on CPU, got a tensor on "
                f"{batch_sizes.device}; call .cpu() first"
            )
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> "PackedSequence":
        """Return the batch with `Tensor.to` called on its data; itself if nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        kept = {name: value for name, value in kwargs.items() if name in ("non_blocking", "copy")}
        moved = [
            None if indices is None else indices.to(data.device, **kept)
            for indices in (self.sorted_indices, self.unsorted_indices)
        ]
        return type(self)(data, self.batch_sizes, moved[0], moved[1])

    def cuda(self, *args: Any, **kwargs: Any) -> "PackedSequence":
        """Return the batch on a CUDA device."""
        if args:
            return self.to(*args, **kwargs)
        return self.to(**{"device": "cuda", **kwargs})

    def cpu(self, *args: Any, **kwargs: Any) -> "PackedSequence":
        """Return the batch on the CPU."""
        return self.to(*args, **{"device": "cpu", **kwargs})

    def double(self) -> "PackedSequence":
        """Return the batch with data of dtype float64."""
        return self.to(dtype=_C.float64)

    def float(self) -> "PackedSequence":
        """Return the batch with data of dtype float32."""
        return self.to(dtype=_C.float32)

    def half(self) -> "PackedSequence":
        """Return the batch with data of dtype float16."""
        return self.to(dtype=_C.float16)

    def long(self) -> "PackedSequence":
        """Return the batch with data of dtype int64."""
        return self.to(dtype=_C.int64)

    def int(self) -> "PackedSequence":
        """Return the batch with data of dtype int32."""
        return self.to(dtype=_C.int32)

    def short(self) -> "PackedSequence":
        """Return the batch with data of dtype int16."""
        return self.to(dtype=_C.int16)

    def char(self) -> "PackedSequence":
        """Return the batch with data of dtype int8."""
        return self.to(dtype=_C.int8)

    def byte(self) -> "PackedSequence":
        """Return the batch with data of dtype uint8."""
        return self.to(dtype=_C.uint8)

    def pin_memory(self) -> "PackedSequence":
        """Return the batch in page-locked memory."""
        pinned = [
            None if part is None else part.pin_memory()
            for part in (self.data, self.batch_sizes, self.sorted_indices, self.unsorted_indices)
        ]
        return type(self)(*pinned)

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a CUDA device."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether the data is in page-locked memory."""
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the permutation that undoes another.

    Example:
        >>> torch.nn.utils.rnn.invert_permutation(torch.tensor([1, 2, 0]))
        tensor([2, 0, 1])
    """
    if permutation is None:
        return None
    places = _C.arange(permutation.numel(), dtype=permutation.dtype, device=permutation.device)
    return _C.empty_like(permutation).scatter_(0, permutation, places)


def _flat_places(
    step: Tensor, row: Tensor, steps: int, rows: int, batch_first: bool
) -> Tensor:  # in a batch whose first two dimensions became one
    return row * steps + step if batch_first else step * rows + row


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | Sequence[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """Pack a padded batch: leave the padding out.

    Args:
        input: the batch, of shape ``(steps, batch, ...)``.
        lengths: the length of each sequence, a list or a tensor on the CPU.
        batch_first: whether the shape is ``(batch, steps, ...)``.
        enforce_sorted: whether the lengths must fall already; False sorts the sequences.

    Returns:
        The packed batch.

    Example:
        >>> padded = torch.tensor([[1, 2], [3, 0]])
        >>> torch.nn.utils.rnn.pack_padded_sequence(padded, [2, 1], batch_first=True).data
        tensor([1, 3, 2])
    """
    if not isinstance(lengths, Tensor):
        lengths = _C.tensor(lengths, dtype=_C.int64, device="cpu")
    lengths = lengths.to(_C.int64)
    _check_lengths(input, lengths, batch_first, enforce_sorted)
    rows, steps = (input.shape[0], input.shape[1]) if batch_first else input.shape[1::-1]
    sorted_indices = None
    if not enforce_sorted:
        lengths, sorted_indices = lengths.sort(descending=True, stable=True)
    longest = int(lengths[0])
    if longest > steps:
        raise RuntimeError(
            f"pack_padded_sequence: expected lengths of at most {steps}, the steps of the input, "
            f"got {longest}"
        )
    is_there = _C.arange(longest, device="cpu").unsqueeze(1) < lengths
    step, row = is_there.nonzero().unbind(1)
    if sorted_indices is not None:
        row = sorted_indices.index_select(0, row)
    places = _flat_places(step, row, steps, rows, batch_first)
    data = input.flatten(0, 1).index_select(0, places)
    return PackedSequence(data, is_there.sum(1), sorted_indices)


def _check_lengths(input: Tensor, lengths: Tensor, batch_first: bool, enforce_sorted: bool) -> None:
    if lengths.dim() != 1 or lengths.device.type != "cpu":
        raise RuntimeError(
            "pack_padded_sequence: 'lengths' argument should be a 1D CPU int64 tensor, but got "
            f"{lengths.dim()}D {lengths.device} tensor"
        )
    if input.dim() < 2:
        raise IndexError(
            "pack_padded_sequence: Dimension out of range: expected an input with steps and a "
            f"batch, got {input.dim()}-D"
        )
    if input.numel() == 0:
        raise RuntimeError("pack_padded_sequence: Cannot pack empty tensors.")
    rows = input.shape[0 if batch_first else 1]
    if lengths.numel() != rows:
        raise RuntimeError(
            "pack_padded_sequence: Expected `len(lengths)` to be equal to batch_size, but got "
            f"{lengths.numel()} (batch_size={rows})"
        )
    if bool((lengths <= 0).any()):
        raise RuntimeError(
            "pack_padded_sequence: Length of all samples has to be greater than 0, but found an "
            "element in 'lengths' that is <= 0"
        )
    if enforce_sorted and bool((lengths[1:] > lengths[:-1]).any()):
        raise RuntimeError(
            "pack_padded_sequence: `lengths` array must be sorted in decreasing order when "
            "`enforce_sorted` is True; pass `enforce_sorted=False` to have the sequences sorted"
        )


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Turn a packed batch to a padded one.

    Args:
        sequence: the packed batch.
        batch_first: whether the result has the shape ``(batch, steps, ...)``.
        padding_value: what stands where a sequence is over.
        total_length: the number of steps, if not that of the longest sequence.

    Returns:
        The batch, of shape ``(steps, batch, ...)``, and the lengths of the sequences.

    Example:
        >>> packed = torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])])
        >>> torch.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
        (tensor([[1, 2],
                [3, 0]]), tensor([2, 1]))
    """
    longest = sequence.batch_sizes.numel()
    steps = longest if total_length is None else total_length
    if steps < longest:
        raise ValueError(
            "pad_packed_sequence: Expected total_length to be at least the length of the longest "
            f"sequence in input, but got total_length={steps} and max sequence length being "
            f"{longest}"
        )
    rows = int(sequence.batch_sizes[0])
    is_there = _C.arange(rows, device="cpu") < sequence.batch_sizes.unsqueeze(1)
    lengths = is_there.sum(0)
    step, row = is_there.nonzero().unbind(1)
    if sequence.sorted_indices is not None:
        row = sequence.sorted_indices.index_select(0, row)
    if sequence.unsorted_indices is not None:
        lengths = lengths.index_select(0, sequence.unsorted_indices)
    places = _flat_places(step, row, steps, rows, batch_first)
    leading = (rows, steps) if batch_first else (steps, rows)
    return _scattered(sequence.data, places, leading, padding_value), lengths


def _scattered(data: Tensor, places: Tensor, leading: Sequence[int], padding: Any) -> Tensor:
    """Put elements into a batch of padding."""
    flat = data.new_full((leading[0] * leading[1], *data.shape[1:]), padding)
    return flat.index_copy(0, places, data).unflatten(0, tuple(leading))


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stack sequences of different lengths, the shorter ones padded.

    Args:
        sequences: tensors whose shapes differ in the first dimension alone.
        batch_first: whether the result has the shape ``(batch, steps, ...)``.
        padding_value: what is filled in.
        padding_side: ``"right"`` or ``"left"``.

    Returns:
        A tensor of shape ``(steps, batch, ...)``.

    Example:
        >>> sequences = [torch.tensor([1, 2]), torch.tensor([3])]
        >>> torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
        tensor([[1, 2],
                [3, 0]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    several = list(sequences.unbind(0) if isinstance(sequences, Tensor) else sequences)
    if not several:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            "pad_sequence: Expected padding_side to be one of left or right, but got "
            f"{padding_side}."
        )
    first = several[0]
    for tensor in several:
        if tensor.shape[1:] != first.shape[1:] or not tensor.dim():
            raise RuntimeError(
                "pad_sequence: The size of tensors must match behind the first dimension, got "
                f"{list(first.shape)} and {list(tensor.shape)}"
            )
    counts = [tensor.shape[0] for tensor in several]
    steps = max(counts)
    if min(counts) == steps:
        return _C.stack(several, 0 if batch_first else 1)
    lengths = _C.tensor(counts, device="cpu").unsqueeze(1)
    row, step = (_C.arange(steps, device="cpu") < lengths).nonzero().unbind(1)
    if padding_side == "left":
        step = step + (steps - lengths.squeeze(1)).index_select(0, row)
    places = _flat_places(step, row, steps, len(several), batch_first)
    leading = (len(several), steps) if batch_first else (steps, len(several))
    data = _C.cat([tensor.to(first.dtype) for tensor in several])
    return _scattered(data, places, leading, padding_value)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """Take a padded batch apart: a list of sequences without padding.

    Args:
        padded_sequences: the batch, of shape ``(steps, batch, ...)``.
        lengths: the length of each sequence.
        batch_first: whether the shape is ``(batch, steps, ...)``.

    Returns:
        The sequences, views of the batch.

    Example:
        >>> padded = torch.tensor([[1, 2], [3, 0]])
        >>> torch.nn.utils.rnn.unpad_sequence(padded, torch.tensor([2, 1]), batch_first=True)
        [tensor([1, 2]), tensor([3])]
    """
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    counts = lengths.tolist() if isinstance(lengths, Tensor) else lengths
    return [row[:count] for row, count in zip(rows.unbind(0), counts, strict=False)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of sequences.

    Args:
        sequences: tensors whose shapes differ in the first dimension alone.
        enforce_sorted: whether they must come longest first; False sorts them.

    Returns:
        The packed batch.

    Example:
        >>> sequences = [torch.tensor([3]), torch.tensor([1, 2])]
        >>> torch.nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False).data
        tensor([1, 3, 2])
    """
    lengths = [sequence.shape[0] for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Turn a packed batch to a list of sequences.

    Args:
        packed_sequences: the packed batch.

    Returns:
        The sequences.

    Example:
        >>> sequences = [torch.tensor([1, 2]), torch.tensor([3])]
        >>> torch.nn.utils.rnn.unpack_sequence(torch.nn.utils.rnn.pack_sequence(sequences))
        [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
