"""Datasets: samples by index or as a stream, and datasets made of others."""

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from tapegrad import _C
from tapegrad._C import Generator, Tensor
from tapegrad.utils.data.sampler import device_of

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Samples by index. A subclass has ``__getitem__``, and ``__len__`` for the usual samplers.

    With ``__getitems__(indices)`` as well, a whole batch is fetched by one call. ``a + b`` is a
    `ConcatDataset`.

    Example:
        >>> class Squares(torch.utils.data.Dataset):
        ...     def __getitem__(self, index):
        ...         return index**2
        ...     def __len__(self):
        ...         return 4
        >>> list(torch.utils.data.DataLoader(Squares(), batch_size=4))
        [tensor([0, 1, 4, 9])]
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: "Dataset[T_co]") -> "ConcatDataset[T_co]":
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Samples as a stream. A subclass has ``__iter__``; ``a + b`` is a `ChainDataset`.

    Every worker process iterates over its own copy: to share the work out, ``__iter__`` asks
    `get_worker_info` which part is its own.

    Example:
        >>> class Count(torch.utils.data.IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(3))
        >>> list(torch.utils.data.DataLoader(Count(), batch_size=2))
        [tensor([0, 1]), tensor([2])]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset[T_co]) -> "ChainDataset":  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Rows of tensors: sample ``i`` is ``(tensor[i], ...)``.

    Args:
        *tensors: tensors with the same size in dimension 0.

    Example:
        >>> torch.utils.data.TensorDataset(torch.arange(3), torch.eye(3))[1]
        (tensor(1), tensor([0., 1., 0.]))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensor.size(0) != tensors[0].size(0) for tensor in tensors):
            sizes = [tensor.size(0) for tensor in tensors]
            raise AssertionError(
                f"TensorDataset: Size mismatch between tensors: sizes in dimension 0 are {sizes}"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


def _get_many(dataset: Any, indices: list[Any]) -> list[Any]:
    """Return several samples, by one call where the dataset has one."""
    if callable(getattr(dataset, "__getitems__", None)):
        samples: list[Any] = dataset.__getitems__(indices)
        return samples
    return [dataset[index] for index in indices]


class StackDataset(Dataset[Any]):
    """Datasets side by side: sample ``i`` holds sample ``i`` of each.

    Args:
        *args: datasets whose samples make a tuple.
        **kwargs: datasets whose samples make a dict. Not together with args.

    Example:
        >>> dataset = torch.utils.data.StackDataset(image=[1, 2], text=["one", "two"])
        >>> dataset[1]
        {'image': 2, 'text': 'two'}
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "StackDataset: expected datasets by position, for tuples, or by keyword, for "
                "dicts, but both types are given"
            )
        if not args and not kwargs:
            raise ValueError("StackDataset: At least one dataset should be passed")
        self.datasets = args or kwargs
        lengths = [len(dataset) for dataset in (args or kwargs.values())]
        if len(set(lengths)) > 1:
            raise ValueError(f"StackDataset: Size mismatch between datasets: {lengths}")
        self._length = lengths[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {key: dataset[index] for key, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        if isinstance(self.datasets, dict):
            columns = self._columns(self.datasets.values(), indices)
            return [dict(zip(self.datasets, row, strict=True)) for row in columns]
        return list(self._columns(self.datasets, indices))

    def _columns(self, datasets: Iterable[Any], indices: list[Any]) -> Iterator[tuple[Any, ...]]:
        columns = [_get_many(dataset, indices) for dataset in datasets]
        for column in columns:
            if len(column) != len(indices):
                raise ValueError(
                    "StackDataset: Nested dataset's output size mismatch. Expected "
                    f"{len(indices)}, got {len(column)}"
                )
        return zip(*columns, strict=True)

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T_co]):
    """Datasets one after another, by index.

    Args:
        datasets: datasets with a length.

    Example:
        >>> dataset = torch.utils.data.ConcatDataset([[0, 1], [2, 3, 4]])
        >>> len(dataset), dataset[3], dataset[-5]
        (5, 3, 0)
    """

    datasets: list[Any]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Return where each dataset ends."""
        return list(itertools.accumulate(len(each) for each in sequence))

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset: datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError(
                "ConcatDataset does not support IterableDataset; chain them with ChainDataset"
            )
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> T_co:
        if idx < 0:
            if -idx > len(self):
                raise ValueError(
                    "ConcatDataset: absolute value of index should not exceed dataset length "
                    f"{len(self)}, got {idx}"
                )
            idx += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        start = self.cumulative_sizes[which - 1] if which > 0 else 0
        sample: T_co = self.datasets[which][idx - start]
        return sample


class ChainDataset(IterableDataset[Any]):
    """Streams one after another.

    Args:
        datasets: iterable datasets.

    Example:
        >>> class Count(torch.utils.data.IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(2))
        >>> list(Count() + Count())
        [0, 1, 0, 1]
    """

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = datasets

    def _checked(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError(
                    "ChainDataset only supports IterableDataset, got "
                    f"{type(dataset).__name__}; join others with ConcatDataset"
                )
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self._checked())

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._checked())


class Subset(Dataset[T_co]):
    """The samples of a dataset at some indices.

    Args:
        dataset: the whole dataset.
        indices: which of its samples, in this order.

    Example:
        >>> subset = torch.utils.data.Subset("abcdef", [5, 0])
        >>> len(subset), subset[0]
        (2, 'f')
    """

    dataset: Any
    indices: Sequence[int]

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        cls = type(self)
        if cls.__getitem__ is not Subset.__getitem__ and cls.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{cls.__name__} overrides __getitem__ but not __getitems__, which DataLoader "
                "calls; add: def __getitems__(self, indices): return [self[i] for i in indices]"
            )

    def __getitem__(self, idx: Any) -> T_co:
        if isinstance(idx, list):
            many: T_co = self.dataset[[self.indices[each] for each in idx]]
            return many
        sample: T_co = self.dataset[self.indices[idx]]
        return sample

    def __getitems__(self, indices: list[int]) -> list[T_co]:
        return _get_many(self.dataset, [self.indices[each] for each in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: Generator | None = None
) -> list[Subset[Any]]:
    """Split a dataset at random into parts that share no sample.

    Args:
        dataset: a dataset with a length.
        lengths: how many samples each part gets, or fractions with the sum 1. What is left when
            the fractions are rounded down goes to the first parts, one sample each.
        generator: where the random numbers come from; the default generator if None.

    Returns:
        The parts.

    Example:
        >>> parts = torch.utils.data.random_split(range(10), [0.75, 0.25])
        >>> [len(part) for part in parts]
        [8, 2]
    """
    total = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _counts_of_fractions(lengths, total)
    if sum(lengths) != total:
        raise ValueError(
            "random_split: Sum of input lengths does not equal the length of the input dataset! "
            f"{list(lengths)} for {total} samples"
        )
    order = _C.randperm(total, generator=generator, device=device_of(generator)).tolist()
    ends = itertools.accumulate(int(length) for length in lengths)
    return [
        Subset(dataset, order[end - int(length) : end])
        for end, length in zip(ends, lengths, strict=True)
    ]


def _counts_of_fractions(fractions: Sequence[float], total: int) -> list[int]:
    for index, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(
                f"random_split: Fraction at index {index} is not between 0 and 1: {fraction}"
            )
    counts = [math.floor(total * fraction) for fraction in fractions]
    for index in range(total - sum(counts)):
        counts[index % len(counts)] += 1
    for index, count in enumerate(counts):
        if count == 0:
            warnings.warn(
                f"Length of split at index {index} is 0. This might result in an empty dataset.",
                stacklevel=3,
            )
    return counts
