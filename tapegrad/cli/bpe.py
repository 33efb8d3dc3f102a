"""Byte pair encoding: tokens are words and parts of words, learned from the text itself.

A text is cut into words (`words_of`). A word starts as its bytes, which are the first 256 tokens.
Learning counts which two tokens stand side by side most often in all words, makes that pair a token
of its own, and counts again. The list of pairs in that order, the merges, is all there is to know:
encoding a word applies them in the same order. Every byte is a token, so that any bytes can be
encoded, and decoding gives them back.

>>> pairs = BytePairs.learn(Counter(words_of("the cat, the hat, the bat")), 260)
>>> [pairs.pieces[token] for token in pairs.encode("the hat")]
[b'the', b' ', b'h', b'at']
"""

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice, pairwise

__all__ = ["BYTES", "WORD", "BytePairs", "whole_words", "words_of"]

BYTES = 256  # the first tokens
_LEAST_COUNT = 2  # a pair that occurs once teaches nothing
_MOST_KEPT = 400_000  # words whose tokens are remembered

Pair = tuple[int, int]

# Letters, digits or other signs, each with the space before them; of other space what stands
# before the last one, which goes with the next word. Endings such as 's are words. No word is
# longer than 64 characters, however long a line without spaces is.
WORD = re.compile(
    r"'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]{1,64}| ?\d{1,64}| ?(?:[^\s\w]|_){1,64}"
    r"|\s{1,64}(?!\S)|\s{1,64}"
)


def words_of(text: str) -> list[str]:
    """Return the words of a text; together they are the text.

    >>> words_of("It's 3  o'clock,\\n no?")
    ['It', "'s", ' 3', ' ', ' o', "'", 'clock', ',', '\\n', ' no', '?']
    """
    return WORD.findall(text)


def whole_words(blocks: Iterable[str]) -> Iterator[str]:
    """Yield the same text in blocks that end where a word ends.

    That is before a space that follows something else: a word has space at its beginning only.
    """
    waiting: list[str] = []
    for block in blocks:
        cut = _last_start(block)
        if cut == 0 and block[:1].isspace() and waiting and not waiting[-1][-1:].isspace():
            yield "".join(waiting)
            waiting = []
        if cut:
            yield "".join([*waiting, block[:cut]])
            waiting = []
        if block:
            waiting.append(block[cut:])
    yield "".join(waiting)


def _last_start(block: str) -> int:
    """Return where the last space stands that follows something else, 0 if none does."""
    text = block.rstrip()
    if len(text) < len(block):
        return len(text)
    parts = block.rsplit(None, 1)
    return len(parts[0]) if len(parts) == 2 else 0


class BytePairs:
    """Tokens made of pairs of tokens.

    Args:
        merges: the pairs, in the order in which they were learned.

    Attributes:
        merges: the same.
        pieces: the bytes that each token stands for.
    """

    def __init__(self, merges: Iterable[Pair]) -> None:
        self.merges = [(first, second) for first, second in merges]
        self.pieces = [bytes([byte]) for byte in range(BYTES)]
        for first, second in self.merges:
            self.pieces.append(self.pieces[first] + self.pieces[second])
        self._tokens = {pair: BYTES + place for place, pair in enumerate(self.merges)}
        self._known = _KnownWords(self._encode_word)

    def __len__(self) -> int:
        return len(self.pieces)

    @classmethod
    def learn(
        cls,
        counts: Mapping[str, int],
        size: int,
        progress: Callable[[int], object] = lambda merges: None,
    ) -> "BytePairs":
        """Return pairs learned from words.

        Of pairs that are equally frequent the one with the lower tokens comes first, so that
        the same text gives the same tokens.

        Args:
            counts: how often each word occurs.
            size: of the vocabulary; fewer tokens come out where no pair occurs twice any more.
            progress: called with the number of merges now and then.
        """
        learner = _Learner(counts)
        progress(0)  # the clock starts here
        while BYTES + len(learner.merges) < size and learner.merge():
            if len(learner.merges) % 100 == 0:
                progress(len(learner.merges))
        progress(len(learner.merges))
        pairs = cls(learner.merges)
        pairs._known.update(islice(zip(counts, learner.words(), strict=True), _MOST_KEPT - 1))
        return pairs

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text. Bytes that are no UTF-8 stand in it as lone surrogates."""
        return list(chain.from_iterable(map(self._known.__getitem__, words_of(text))))

    def decode(self, tokens: Iterable[int]) -> bytes:
        """Return the bytes that tokens stand for."""
        return b"".join([self.pieces[token] for token in tokens])

    def _encode_word(self, word: str) -> tuple[int, ...]:
        tokens = _bytes_of(word)
        while len(tokens) > 1:
            # The pair that was learned first has the lowest token.
            pair = min(pairwise(tokens), key=lambda pair: self._tokens.get(pair, len(self)))
            token = self._tokens.get(pair)
            if token is None:
                break
            tokens = _merged(tokens, pair, token)
        return tuple(tokens)


class _KnownWords(dict[str, tuple[int, ...]]):
    """The tokens of words, computed when they are first asked for; most words come again."""

    def __init__(self, compute: Callable[[str], tuple[int, ...]]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, word: str) -> tuple[int, ...]:
        if len(self) >= _MOST_KEPT:
            self.clear()
        tokens = self[word] = self._compute(word)
        return tokens


class _Learner:
    """Words as tokens, how often each pair stands in them, and where.

    A merge can only lower the count of a pair that was there before, and all pairs with the new
    token come up with it. So each pair waits in the heap once, with a count that is at least its
    true one, and the first pair whose count is true is the most frequent.
    """

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.merges: list[Pair] = []
        self._words = [_bytes_of(word) for word in counts]
        self._counts = list(counts.values())
        self._pairs: Counter[Pair] = Counter()
        self._places: dict[Pair, set[int]] = {}  # words that have, or had, a pair
        for index in range(len(self._words)):
            self._add(index)
        self._heap = [(-count, pair) for pair, count in self._pairs.items()]
        heapq.heapify(self._heap)

    def words(self) -> Iterator[tuple[int, ...]]:
        """Return the tokens of the words, in the order of the counts."""
        return map(tuple, self._words)

    def merge(self) -> bool:
        """Make the most frequent pair a token; whether there was one to be made."""
        pair = self._most_frequent()
        if pair is None:
            return False
        token = BYTES + len(self.merges)
        self.merges.append(pair)
        fresh: set[Pair] = set()
        for index in self._places.pop(pair):
            word = self._words[index]
            merged = _merged(word, pair, token)
            if len(merged) == len(word):
                continue  # an earlier merge took the pair away
            count = self._counts[index]
            for old in pairwise(word):
                self._pairs[old] -= count
            self._words[index] = merged
            fresh.update(self._add(index, token))
        del self._pairs[pair]
        for new in fresh:
            heapq.heappush(self._heap, (-self._pairs[new], new))
        return True

    def _most_frequent(self) -> Pair | None:
        while self._heap:
            believed, pair = heapq.heappop(self._heap)
            count = self._pairs.get(pair, 0)
            if count < _LEAST_COUNT:
                self._places.pop(pair, None)
                self._pairs.pop(pair, None)
            elif count == -believed:
                return pair
            else:
                heapq.heappush(self._heap, (-count, pair))
        return None

    def _add(self, index: int, token: int | None = None) -> list[Pair]:
        """Count the pairs of a word, and return those that have a token."""
        count, found = self._counts[index], []
        for pair in pairwise(self._words[index]):
            self._pairs[pair] += count
            if token is None or token in pair:
                found.append(pair)
                self._places.setdefault(pair, set()).add(index)
        return found


def _bytes_of(word: str) -> list[int]:
    return list(word.encode("utf-8", "surrogateescape"))


def _merged(tokens: list[int], pair: Pair, token: int) -> list[int]:
    """Return tokens with one in place of each pair, from the left."""
    first, second = pair
    merged: list[int] = []
    place, last = 0, len(tokens) - 1
    while place <= last:
        if place < last and tokens[place] == first and tokens[place + 1] == second:
            merged.append(token)
            place += 2
        else:
            merged.append(tokens[place])
            place += 1
    return merged
