"""How a text becomes numbers: characters, bytes, or learned tokens, each with its number."""

import json
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import numpy as np

import tapegrad
from tapegrad.cli.bpe import BYTES, WORD, BytePairs, whole_words, words_of
from tapegrad.cli.errors import UserError
from tapegrad.cli.settings import Settings
from tapegrad.cli.text import BLOCK, Text
from tapegrad.utils.progress import Progress

__all__ = [
    "Bytes",
    "Characters",
    "Tokens",
    "Vocabulary",
    "learn_vocabulary",
    "restore_vocabulary",
    "watched",
]

_LEARNT_BLOCKS = 64  # of 1 MiB, spread over the text, are what tokens are learned from
_PATIENCE = 1.0  # seconds before progress is shown

Array = np.ndarray[Any, Any]
T = TypeVar("T")


class Vocabulary(ABC):
    """The numbers of a model and what each stands for."""

    @abstractmethod
    def __len__(self) -> int:
        """Return how many numbers there are."""

    @abstractmethod
    def numbers(self, text: Text) -> Iterator[Array]:
        """Yield the numbers of a whole text, which the vocabulary was learned from."""

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Return the numbers of a prompt."""

    @abstractmethod
    def to_bytes(self, numbers: Iterable[int]) -> bytes:
        """Return what numbers stand for, as UTF-8 where the text was UTF-8."""

    @abstractmethod
    def state(self) -> Any:
        """Return what `restore_vocabulary` takes."""

    @property
    def dtype(self) -> Any:
        """The smallest dtype of NumPy that holds every number."""
        return np.min_scalar_type(len(self) - 1)

    def decode(self, numbers: Sequence[int]) -> str:
        """Return the text that numbers stand for; bytes that are no UTF-8 become ``\\ufffd``."""
        return self.to_bytes(numbers).decode(errors="replace")

    def first_prompt(self) -> list[int]:
        """Return what a model that was given nothing goes on from: a new line."""
        return self.encode("\n")


class Characters(Vocabulary):
    """The characters of a text in the order of their code points.

    Example:
        >>> from tapegrad.cli.vocabulary import Characters
        >>> vocabulary = Characters("abn")
        >>> vocabulary.encode("nab")
        [2, 0, 1]
        >>> vocabulary.decode([1, 0, 2])
        'ban'
    """

    def __init__(self, symbols: str) -> None:
        self.symbols = symbols
        self._numbers = {symbol: number for number, symbol in enumerate(symbols)}

    @classmethod
    def learn(cls, text: Text) -> "Characters":
        """Return the characters of a text, which has to be UTF-8."""
        found: set[str] = set()
        for block in text.characters():
            found.update(block)
        return cls("".join(sorted(found)))

    def __len__(self) -> int:
        return len(self.symbols)

    def numbers(self, text: Text) -> Iterator[Array]:
        table = np.array([ord(symbol) for symbol in self.symbols], np.uint32)
        for block in text.characters():
            points = np.frombuffer(block.encode("utf-32-le"), np.uint32)
            yield np.searchsorted(table, points).astype(self.dtype)

    def encode(self, text: str) -> list[int]:
        unknown = sorted(set(text) - set(self.symbols))
        if unknown:
            shown = " ".join(map(repr, unknown[:10]))
            raise UserError(f"the model was trained without {shown}; leave it out of the prompt")
        return [self._numbers[symbol] for symbol in text]

    def to_bytes(self, numbers: Iterable[int]) -> bytes:
        return "".join([self.symbols[number] for number in numbers]).encode()

    def state(self) -> str:
        return self.symbols

    def first_prompt(self) -> list[int]:
        return self.encode("\n" if "\n" in self.symbols else self.symbols[0])


class Bytes(Vocabulary):
    """All 256 bytes: any file is a text."""

    def __len__(self) -> int:
        return BYTES

    def numbers(self, text: Text) -> Iterator[Array]:
        for block in text.blocks():
            yield np.frombuffer(block, np.uint8)

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8", "surrogateescape"))

    def to_bytes(self, numbers: Iterable[int]) -> bytes:
        return bytes(numbers)

    def state(self) -> None:
        return None


class Tokens(Vocabulary):
    """Words and parts of words that were learned from the text, for any bytes."""

    def __init__(self, pairs: BytePairs) -> None:
        self.pairs = pairs

    @classmethod
    def learn(cls, text: Text, size: int, quiet: bool = False) -> "Tokens":
        """Return at most so many tokens; progress is shown if that takes long."""
        every = -(-text.size // (_LEARNT_BLOCKS * BLOCK)) or 1
        counts: Counter[str] = Counter()
        blocks = watched("reading", text, text.any_characters(), quiet)
        for block in whole_words(islice(blocks, 0, None, every)):
            counts.update(words_of(block))
        progress = _progress("token", size, quiet, start=BYTES)
        with progress:
            pairs = BytePairs.learn(counts, size, lambda merges: progress.update(BYTES + merges))
        return cls(pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def numbers(self, text: Text) -> Iterator[Array]:
        for block in whole_words(text.any_characters()):
            yield np.array(self.pairs.encode(block), self.dtype)

    def encode(self, text: str) -> list[int]:
        return self.pairs.encode(text)

    def to_bytes(self, numbers: Iterable[int]) -> bytes:
        return self.pairs.decode(numbers)

    def state(self) -> tapegrad.Tensor:
        return tapegrad.tensor(self.pairs.merges, dtype=tapegrad.int32).reshape(-1, 2)

    def as_json(self) -> str:
        """Return the tokens as text for other programs: merges, and what each token reads."""
        merges = ",\n".join(
            json.dumps([first, second, self.decode([BYTES + place])], ensure_ascii=False)
            for place, (first, second) in enumerate(self.pairs.merges)
        )
        return (
            f'{{"kind": "byte pairs", "size": {len(self)}, "words": {json.dumps(WORD.pattern)},\n'
            f'"merges": [\n{merges}\n]}}\n'
        )


def learn_vocabulary(text: Text, settings: Settings, quiet: bool = False) -> Vocabulary:
    """Return the vocabulary that the settings name, made for a text."""
    if settings.tokens == "bytes":
        return Bytes()
    if settings.tokens == "characters":
        return Characters.learn(text)
    return Tokens.learn(text, settings.vocabulary, quiet)


def restore_vocabulary(state: Any) -> Vocabulary:
    """Return a vocabulary from its state: characters, None for bytes, or pairs of tokens."""
    if state is None:
        return Bytes()
    if isinstance(state, str):
        return Characters(state)
    return Tokens(BytePairs(state.tolist()))


def watched(name: str, text: Text, blocks: Iterable[T], quiet: bool) -> Iterator[T]:
    """Yield what is made of the blocks of a text, and show how far it is if it takes long."""
    total = -(-text.size // BLOCK)
    with _progress(f"{name}, MiB", total, quiet) as progress:
        for position, block in enumerate(blocks, start=1):
            yield block
            if position <= total:  # the last may hold what is left of the others
                progress.update(position)


def _progress(noun: str, total: int, quiet: bool, start: int = 0) -> Progress:
    return Progress(
        total, start=start, noun=noun, stream=sys.stdout, delay=_PATIENCE, disable=quiet
    )
