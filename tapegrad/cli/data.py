"""What is learned and in what order: the numbers of a text, what is held out, and batches."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

import tapegrad
from tapegrad import Tensor
from tapegrad.cli.errors import UserError
from tapegrad.cli.run_folder import RunFolder
from tapegrad.cli.text import Text
from tapegrad.cli.vocabulary import Vocabulary, watched

__all__ = ["Batches", "Joined", "held_out_windows", "kept_numbers", "split", "write_numbers"]

_PARTS = 10  # of each tenth of the text, its last tenth is held out

Array = np.ndarray[Any, Any]
Batch = tuple[Tensor, Tensor]


def write_numbers(
    text: Text, vocabulary: Vocabulary, folder: RunFolder, quiet: bool = False
) -> Array:
    """Write the numbers of a text to a file of the run, and return them as `kept_numbers` does."""
    with folder.replacing(folder.tokens) as file:
        for block in watched("encoding", text, vocabulary.numbers(text), quiet):
            file.write(block.tobytes())
    return kept_numbers(vocabulary, folder)


def kept_numbers(vocabulary: Vocabulary, folder: RunFolder) -> Array:
    """Return the numbers that lie in the file of the run, which is read where they are used."""
    path, dtype = folder.tokens, np.dtype(vocabulary.dtype)
    if not path.is_file() or path.stat().st_size < dtype.itemsize:  # no memory to map
        return np.empty(0, dtype)
    return np.memmap(path, dtype, "r")


class Joined:
    """Pieces of an array, one behind the other, of which windows can be taken.

    Nothing is copied but the windows: the array may be a file that is larger than memory.

    Example:
        >>> import numpy as np
        >>> from tapegrad.cli.data import Joined
        >>> joined = Joined([np.arange(5), np.arange(10, 15)])
        >>> len(joined), joined.window(3, 4).tolist()
        (10, [3, 4, 10, 11])
    """

    def __init__(self, pieces: Sequence[Array]) -> None:
        self._pieces = list(pieces)
        self._ends = list(accumulate(map(len, self._pieces)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def window(self, start: int, length: int) -> Array:
        """Return so many elements from a place on."""
        index = bisect_right(self._ends, start)
        found = []
        while length > 0:
            piece = self._pieces[index]
            first = start - (self._ends[index] - len(piece))
            found.append(piece[first : first + length])
            start, length, index = start + len(found[-1]), length - len(found[-1]), index + 1
        return found[0] if len(found) == 1 else np.concatenate(found)


def split(numbers: Array, context: int) -> tuple[Joined, Joined]:
    """Return what is trained on and what is held out: the last tenth of each tenth of the text.

    A text may change from its start to its end; pieces from everywhere stand for all of it.
    """
    least = (context + 1) * _PARTS
    if len(numbers) < least:
        raise UserError(
            f"the text is too short: a context of {context} needs at least {least:,} tokens, "
            f"got {len(numbers):,}; give a longer --text or a smaller --context"
        )
    edges = [len(numbers) * part // _PARTS for part in range(_PARTS + 1)]
    starts, ends = edges[:-1], edges[1:]
    cuts = [start + (end - start) * 9 // 10 for start, end in zip(starts, ends, strict=True)]
    train = Joined([numbers[a:b] for a, b in zip(starts, cuts, strict=True)])
    held_out = Joined([numbers[a:b] for a, b in zip(cuts, ends, strict=True)])
    return train, held_out


class Batches:
    """Pieces of text from random places, and what comes after each of their tokens.

    The generator is its own: neither dropout nor samples move the order of the data. It is the
    CPU's, wherever the model is: the order is the same on all devices. A GPU gets its batches by
    copies that nobody waits for.

    Args:
        text: to take pieces from.
        batch: pieces in a batch.
        accumulate: batches in a step. A step takes the same pieces however it is divided.
        context: tokens in a piece.
        seed: of the order.
        device: where batches are used.
        part: which rows of each batch are taken; all are drawn.
    """

    def __init__(
        self,
        text: Joined,
        batch: int,
        accumulate: int,
        context: int,
        seed: int,
        device: tapegrad.device | None = None,
        part: slice = slice(None),
    ) -> None:
        self.part = part
        self.text, self.batch, self.accumulate, self.context = text, batch, accumulate, context
        self.device = device or tapegrad.device("cpu")
        self.generator = tapegrad.Generator().manual_seed(seed)

    def draw(self) -> list[Batch]:
        """Return the inputs and targets of the next step, each (batch, context)."""
        last = len(self.text) - self.context - 1
        shape = (self.accumulate, self.batch)
        starts = tapegrad.randint(0, last + 1, shape, generator=self.generator).tolist()
        parts = [places[self.part] for places in starts]
        return [windows(self.text, places, self.context, self.device) for places in parts]


def windows(text: Joined, starts: Sequence[int], context: int, device: tapegrad.device) -> Batch:
    """Return pieces from given places, and the same one token later, on a device."""
    is_pinned = device.type == "cuda"
    pieces = tapegrad.empty(len(starts), context + 1, dtype=tapegrad.int64, pin_memory=is_pinned)
    rows = pieces.numpy()
    for row, start in enumerate(starts):
        rows[row] = text.window(start, context + 1)
    moved = pieces.to(device, non_blocking=is_pinned)
    return moved[:, :-1], moved[:, 1:]


def held_out_windows(
    text: Joined, count: int, context: int, batch: int, device: tapegrad.device
) -> list[Batch]:
    """Return batches of windows spread evenly over a held-out text, always the same."""
    last = len(text) - context - 1
    count = min(count, last + 1)
    starts = [last * i // max(1, count - 1) for i in range(count)]
    groups = [starts[i : i + batch] for i in range(0, count, batch)]
    return [windows(text, group, context, device) for group in groups]
