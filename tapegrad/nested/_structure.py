"""Where the sequences of a nested tensor begin and end."""

import itertools
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = ["NestedInt", "Structure"]

_numbers = itertools.count()


class NestedInt:
    """The size of a ragged dimension: equal to that of tensors of the same structure alone."""

    def __init__(self) -> None:
        self._number = next(_numbers)

    def __repr__(self) -> str:
        return f"j{self._number}"


class Structure:
    """Offsets, and what follows from them.

    Args:
        offsets: where each sequence begins, and where the last one ends.
        lengths: the lengths, where they are known on the host.
    """

    def __init__(self, offsets: Tensor, lengths: list[int] | None = None) -> None:
        self.offsets = offsets
        self.size = NestedInt()
        self._lengths = lengths

    @classmethod
    def of_lengths(cls, lengths: list[int], device: Any) -> "Structure":
        """Make the structure of sequences of known lengths."""
        ends = list(itertools.accumulate(lengths, initial=0))
        return cls(_C.tensor(ends, dtype=_C.int64, device=device), lengths)

    @property
    def batch(self) -> int:
        """How many sequences there are."""
        return len(self.offsets) - 1

    @property
    def lengths(self) -> list[int]:
        """The lengths, on the host."""
        if self._lengths is None:
            ends = self.offsets.tolist()
            self._lengths = [end - begin for begin, end in itertools.pairwise(ends)]
        return self._lengths

    def matches(self, other: "Structure") -> bool:
        """Whether sequences have the same lengths."""
        return self is other or self.lengths == other.lengths

    def check(self, total: int) -> None:
        """Refuse offsets that are not those of so many elements."""
        ends = self.offsets.tolist()
        if ends[0] != 0 or ends[-1] != total or any(n < 0 for n in self.lengths):
            raise RuntimeError(
                f"nested_tensor_from_jagged(): expected offsets that rise from 0 to {total}, the "
                f"length of values, got {ends}"
            )

    def places(self) -> tuple[Tensor, Tensor]:
        """Return for each element its sequence, and its place in it."""
        lengths, device = self.lengths, self.offsets.device
        counts = _C.tensor(lengths, dtype=_C.int64, device=device)
        rows = _C.arange(len(lengths), device=device).repeat_interleave(counts)
        return rows, _C.arange(sum(lengths), device=device) - self.offsets.long()[rows]

    def to(self, device: Any) -> "Structure":
        """Return the same structure with its offsets on a device."""
        moved = self.offsets.to(device)
        return self if moved is self.offsets else Structure(moved, self._lengths)
