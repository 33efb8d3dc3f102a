"""The text: where it comes from, how it becomes numbers, what is held out, and in what order."""

import gzip
import hashlib
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

import tapegrad
from tapegrad import Tensor
from tapegrad.cli.errors import UserError

__all__ = ["Batches", "Text", "Vocabulary", "held_out_windows", "read_text", "split"]

_PARTS = 10  # of each tenth of the text, its last tenth is held out


@dataclass(frozen=True)
class Text:
    """A text as bytes, its short name, and the hash by which a resumed run knows it again."""

    name: str
    content: bytes

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def read_text(path: str | None) -> Text:
    """Read a text file, or the text that comes with the package if the path is None."""
    if path is None:
        packed = (files("tapegrad.cli") / "texts" / "books.txt.gz").read_bytes()
        return Text("books", gzip.decompress(packed))
    try:
        return Text(Path(path).stem, Path(path).read_bytes())
    except OSError as error:
        raise UserError(
            f"cannot read the text {path}: {error.strerror}; say where it is with --text"
        ) from error


class Vocabulary:
    """Characters or bytes, each with its number. No token stands for more than one of them.

    Example:
        >>> from tapegrad.cli.text import Vocabulary
        >>> vocabulary = Vocabulary.of(b"banana", "characters")
        >>> vocabulary.encode("nab").tolist()
        [2, 0, 1]
        >>> vocabulary.decode([1, 0, 2])
        'ban'
    """

    def __init__(self, symbols: str | None) -> None:
        """Take the characters in the order of their numbers; None stands for all 256 bytes."""
        self.symbols = symbols
        if symbols is not None:
            self._numbers = {symbol: number for number, symbol in enumerate(symbols)}

    @classmethod
    def of(cls, content: bytes, tokens: str) -> "Vocabulary":
        """Return the vocabulary of a text."""
        if tokens == "bytes":
            return cls(None)
        return cls("".join(map(chr, np.unique(_code_points(content)).tolist())))

    def __len__(self) -> int:
        return 256 if self.symbols is None else len(self.symbols)

    def numbers(self, content: bytes) -> Tensor:
        """Return the numbers of a whole text, whose every symbol is known, in few bytes each."""
        if self.symbols is None:
            array = np.frombuffer(content, np.uint8)
        else:
            table = np.array([ord(symbol) for symbol in self.symbols], np.uint32)
            array = np.searchsorted(table, _code_points(content))
        return tapegrad.from_numpy(array.astype(np.uint8 if len(self) <= 256 else np.int32))

    def encode(self, text: str) -> Tensor:
        """Return the numbers of a prompt; a symbol that the model never saw is refused."""
        if self.symbols is None:
            return tapegrad.tensor(list(text.encode()), dtype=tapegrad.int64)
        unknown = sorted(set(text) - set(self.symbols))
        if unknown:
            shown = " ".join(map(repr, unknown[:10]))
            raise UserError(f"the model was trained without {shown}; leave it out of the prompt")
        return tapegrad.tensor([self._numbers[c] for c in text], dtype=tapegrad.int64)

    def decode(self, numbers: list[int]) -> str:
        """Return the text that numbers stand for; bytes that are no UTF-8 become ``\\ufffd``."""
        if self.symbols is None:
            return bytes(numbers).decode(errors="replace")
        return "".join(self.symbols[number] for number in numbers)


def _code_points(content: bytes) -> Any:
    """Return the characters of UTF-8 bytes as an array of numbers."""
    try:
        text = content.decode("utf-8-sig")  # some editors put a mark in front
    except UnicodeDecodeError as error:
        raise UserError(
            f"the text is not UTF-8: byte {content[error.start]:#04x} at position {error.start}; "
            "convert it (iconv -t UTF-8), or train on --tokens bytes"
        ) from error
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def split(numbers: Tensor, context: int) -> tuple[Tensor, Tensor]:
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
    train = tapegrad.cat([numbers[a:b] for a, b in zip(starts, cuts, strict=True)])
    held_out = tapegrad.cat([numbers[a:b] for a, b in zip(cuts, ends, strict=True)])
    return train, held_out


class Batches:
    """Pieces of text from random places, and what comes after each of their tokens.

    The generator is its own: neither dropout nor samples move the order of the data. It is the
    CPU's, wherever the text lies: the order is the same on all devices.
    """

    def __init__(self, numbers: Tensor, batch: int, context: int, seed: int) -> None:
        self.numbers, self.batch = numbers, batch
        self.generator = tapegrad.Generator().manual_seed(seed)
        self._offsets = tapegrad.arange(context + 1)

    def draw(self) -> tuple[Tensor, Tensor]:
        """Return the next inputs and targets, both (batch, context)."""
        last = len(self.numbers) - len(self._offsets)
        starts = tapegrad.randint(0, last + 1, (self.batch, 1), generator=self.generator)
        pieces = self.numbers[(starts + self._offsets).to(self.numbers.device)].long()
        return pieces[:, :-1], pieces[:, 1:]


def held_out_windows(
    numbers: Tensor, count: int, context: int, batch: int
) -> list[tuple[Tensor, Tensor]]:
    """Return batches of windows spread evenly over a held-out text, always the same."""
    last = len(numbers) - context - 1
    count = min(count, last + 1)
    starts = tapegrad.tensor([last * i // max(1, count - 1) for i in range(count)])
    pieces = numbers[starts.unsqueeze(1) + tapegrad.arange(context + 1)].long()
    return [(piece[:, :-1], piece[:, 1:]) for piece in pieces.split(batch)]
