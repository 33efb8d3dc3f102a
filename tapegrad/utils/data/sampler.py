"""Samplers: the order in which a loader asks for samples, and how it groups them."""

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from tapegrad import _C
from tapegrad._C import Generator

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

T_co = TypeVar("T_co", covariant=True)
DRAWN_AT_ONCE = 32


def device_of(generator: Generator | None) -> Any:
    """Return where to draw: indices are the host's, whatever the default device is."""
    return "cpu" if generator is None else generator.device


def draw_seed(generator: Generator | None) -> int:
    """Return a random seed."""
    seed = _C.empty((), dtype=_C.int64, device=device_of(generator))
    return int(seed.random_(generator=generator).item())


def _check_count(op: str, name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{op}: {name} should be a positive integer value, but got {name}={value}")


class Sampler(Generic[T_co]):
    """Gives indices, or lists of them, in some order. A subclass has ``__iter__``.

    Example:
        >>> class Backwards(torch.utils.data.Sampler):
        ...     def __iter__(self):
        ...         return iter([2, 1, 0])
        >>> list(torch.utils.data.DataLoader("abc", sampler=Backwards()))
        [['c'], ['b'], ['a']]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("Subclasses of Sampler should implement __iter__.")


class SequentialSampler(Sampler[int]):
    """All indices in order.

    Args:
        data_source: a dataset with a length.

    Example:
        >>> list(torch.utils.data.SequentialSampler("abc"))
        [0, 1, 2]
    """

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices at random. The same generator state gives the same order.

    Args:
        data_source: a dataset with a length.
        replacement: whether an index may come again before all others have come.
        num_samples: how many to draw; as many as the dataset has if None.
        generator: where the random numbers come from. If None, each iteration takes one seed from
            the default generator.

    Example:
        >>> sampler = torch.utils.data.RandomSampler("abcd", num_samples=6)
        >>> len(sampler), sorted(list(sampler)[:4])
        (6, [0, 1, 2, 3])
    """

    data_source: Sized
    replacement: bool

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(
                "RandomSampler: replacement should be a boolean value, but got "
                f"replacement={replacement}"
            )
        _check_count("RandomSampler", "num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """How many indices an iteration gives."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        generator = self.generator
        if generator is None:
            generator = Generator().manual_seed(draw_seed(None))
        draw = self._with_replacement if self.replacement else self._permutations
        return itertools.islice(draw(generator), self.num_samples)

    def _with_replacement(self, generator: Generator) -> Iterator[int]:
        n = len(self.data_source)
        for start in range(0, self.num_samples, DRAWN_AT_ONCE):
            count = min(DRAWN_AT_ONCE, self.num_samples - start)
            drawn = _C.randint(0, n, (count,), generator=generator, device=generator.device)
            yield from drawn.tolist()

    def _permutations(self, generator: Generator) -> Iterator[int]:
        n = len(self.data_source)
        for _ in range(0, self.num_samples, n):
            yield from _C.randperm(n, generator=generator, device=generator.device).tolist()

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Some indices, each once, in random order.

    Args:
        indices: the indices.
        generator: where the random numbers come from; the default generator if None.

    Example:
        >>> sorted(torch.utils.data.SubsetRandomSampler([7, 3, 5]))
        [3, 5, 7]
    """

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        device = device_of(self.generator)
        order = _C.randperm(len(self.indices), generator=self.generator, device=device)
        for place in order.tolist():
            yield self.indices[place]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices at random, with the given weights.

    Args:
        weights: a weight for every index; they need no particular sum.
        num_samples: how many to draw.
        replacement: whether an index may come more than once.
        generator: where the random numbers come from; the default generator if None.

    Example:
        >>> list(torch.utils.data.WeightedRandomSampler([0.0, 2.0, 0.0], 3))
        [1, 1, 1]
    """

    num_samples: int
    replacement: bool

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        _check_count("WeightedRandomSampler", "num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(
                "WeightedRandomSampler: replacement should be a boolean value, but got "
                f"replacement={replacement}"
            )
        self.weights = _C.as_tensor(weights, dtype=_C.float64, device=device_of(generator))
        if self.weights.dim() != 1:
            raise ValueError(
                "WeightedRandomSampler: weights should be a 1d sequence but given weights have "
                f"shape {tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = _C.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of indices of another sampler.

    Args:
        sampler: gives the indices; any iterable.
        batch_size: how many go into a list.
        drop_last: whether a last, shorter list is left out.

    Example:
        >>> list(torch.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        _check_count("BatchSampler", "batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(
                f"BatchSampler: drop_last should be a boolean value, but got drop_last={drop_last}"
            )
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


class InfiniteSampler(Sampler[None]):
    """Says "the next" for ever: what a stream is asked for."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)
