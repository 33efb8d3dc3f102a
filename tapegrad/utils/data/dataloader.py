"""The loader: batches of a dataset, made in this process or in workers.

Workers get tasks in turn, ``prefetch_factor`` each, and a new one for each batch that is taken, so
the order of the batches does not depend on who is faster. Batches come through shared memory; see
`tapegrad.utils.data.transport`. Everything that needs processes is imported with the first worker.
"""

import os
import sys
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from tapegrad import _C
from tapegrad._C import Generator
from tapegrad.utils.data.collate import default_collate, default_convert, pin_batch
from tapegrad.utils.data.dataset import Dataset, IterableDataset
from tapegrad.utils.data.fetch import Fetcher, Recipe
from tapegrad.utils.data.sampler import (
    BatchSampler,
    InfiniteSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    draw_seed,
)

__all__ = ["DataLoader"]

T_co = TypeVar("T_co", covariant=True)
DEFAULT_PREFETCH = 2


class DataLoader(Generic[T_co]):
    """Batches of a dataset.

    Args:
        dataset: samples by index (`Dataset`, or anything with ``__getitem__`` and ``__len__``) or
            an `IterableDataset`.
        batch_size: samples per batch; None gives samples one by one, without a batch dimension.
        shuffle: whether each epoch has a new random order.
        sampler: gives the order instead; any iterable of indices.
        batch_sampler: gives lists of indices; excludes batch_size, shuffle, sampler, drop_last.
        num_workers: how many processes load; 0 loads in this one.
        collate_fn: makes a batch of a list of samples; by default `default_collate`, and
            `default_convert` where batch_size is None.
        pin_memory: whether batches come in page-locked memory, from which a GPU copies by itself
            (``x.to("cuda", non_blocking=True)``); ignored where there is no GPU.
        drop_last: whether a last, smaller batch is left out.
        timeout: how many seconds to wait for a batch from the workers; 0 waits for ever.
        worker_init_fn: called with the worker's number in each worker, after seeding.
        multiprocessing_context: a start method or a context of multiprocessing; fork on Linux if
            None.
        generator: where the seeds of shuffling and workers come from.
        prefetch_factor: how many batches each worker loads ahead; 2 if None.
        persistent_workers: whether the workers stay for the next epoch.
        pin_memory_device: accepted; page-locked memory serves all devices.
        in_order: whether batches come in the order of the sampler; otherwise as they are ready.

    Worker ``i`` seeds the default generators of tapegrad, Python and NumPy from the iterator's base
    seed plus ``i``. An exception in a worker is raised here again, with its traceback; a worker
    that dies gives a RuntimeError.

    Example:
        >>> loader = torch.utils.data.DataLoader(range(5), batch_size=2, num_workers=1)
        >>> len(loader)
        3
        >>> list(loader)
        [tensor([0, 1]), tensor([2, 3]), tensor([4])]
    """

    dataset: Any
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Any
    prefetch_factor: int | None

    _FIXED = (
        "batch_size",
        "batch_sampler",
        "sampler",
        "drop_last",
        "dataset",
        "persistent_workers",
    )
    _initialized = False

    def __init__(
        self,
        dataset: Dataset[T_co] | Sequence[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[Any] | Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_worker_options(num_workers, timeout, prefetch_factor, persistent_workers)
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = DEFAULT_PREFETCH
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.generator = generator
        self.persistent_workers = persistent_workers

        self._is_iterable = isinstance(dataset, IterableDataset)
        if self._is_iterable:
            _check_unordered(shuffle, sampler, batch_sampler)
        _check_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size = None
        if sampler is None:
            sampler = self._default_sampler(bool(shuffle))
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self._length_told: int | None = None  # by len(), which warns when it was wrong
        self._iterator: _WorkerIterator | None = None  # of persistent workers
        self._initialized = True
        self.check_worker_number_rationality()

    def _default_sampler(self, shuffle: bool) -> Sampler[Any]:
        if self._is_iterable:
            return InfiniteSampler()
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)
        return SequentialSampler(self.dataset)

    def __setattr__(self, name: str, value: Any) -> None:
        if self._initialized and name in self._FIXED:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """How workers are started; None is the default."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, value: Any) -> None:
        self._context = None if value is None else _checked_context(value, self.num_workers)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __iter__(self) -> Iterator[Any]:
        if self.num_workers == 0:
            return _LocalIterator(self)
        if not self.persistent_workers:
            return _WorkerIterator(self)
        if self._iterator is None or self._iterator._pool.closed:
            self._iterator = _WorkerIterator(self)
        else:
            self._iterator._start_epoch(self)
        return self._iterator

    def __len__(self) -> int:
        if not self._is_iterable:
            return len(self._index_sampler)
        length = self._length_told = len(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warn when there are more workers than processors."""
        if hasattr(os, "sched_getaffinity"):
            processors = len(os.sched_getaffinity(0))
        else:
            processors = os.cpu_count() or 1
        if self.num_workers > processors:
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our "
                f"suggested max number of worker in current system is {processors}: more may slow "
                "loading down or even freeze it; lower num_workers if it does.",
                stacklevel=3,
            )


def _check_worker_options(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    if num_workers < 0:
        raise ValueError(
            "DataLoader: num_workers option should be non-negative, got "
            f"{num_workers}; use num_workers=0 to disable multiprocessing."
        )
    if timeout < 0:
        raise ValueError(f"DataLoader: timeout option should be non-negative, got {timeout}")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "DataLoader: prefetch_factor option could only be specified in multiprocessing; let "
            "num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("DataLoader: prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("DataLoader: persistent_workers option needs num_workers > 0")


def _check_unordered(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    given = {"sampler": sampler, "batch_sampler": batch_sampler}
    if shuffle not in (False, None):
        given = {"shuffle": shuffle}
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
                f"{name}={value}"
            )


def _check_order(
    batch_size: int | None, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    if sampler is not None and shuffle:
        raise ValueError("DataLoader: sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (
        batch_size != 1 or shuffle or sampler is not None or drop_last
    ):
        raise ValueError(
            "DataLoader: batch_sampler option is mutually exclusive with batch_size, shuffle, "
            "sampler, and drop_last"
        )
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError(
            "DataLoader: batch_size=None option disables auto-batching and is mutually exclusive "
            "with drop_last"
        )


def _checked_context(value: Any, num_workers: int) -> Any:
    if num_workers == 0:
        raise ValueError(
            "DataLoader: multiprocessing_context can only be used with multi-process loading "
            "(num_workers > 0), but got num_workers=0"
        )
    import multiprocessing

    if isinstance(value, str):
        methods = multiprocessing.get_all_start_methods()
        if value not in methods:
            raise ValueError(
                "DataLoader: multiprocessing_context option should specify a valid start method "
                f"in {methods!r}, but got multiprocessing_context={value!r}"
            )
        return multiprocessing.get_context(value)
    if not isinstance(value, multiprocessing.context.BaseContext):
        raise TypeError(
            "DataLoader: multiprocessing_context option should be a valid context object or a "
            f"string specifying the start method, but got multiprocessing_context={value}"
        )
    return value


def _default_context() -> Any:
    """Return the context a program has chosen; otherwise fork on Linux."""
    import multiprocessing

    chosen = multiprocessing.get_start_method(allow_none=True)
    return multiprocessing.get_context(chosen or ("fork" if sys.platform == "linux" else None))


class _Iterator:
    """What both ways of loading share."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._recipe = Recipe(
            loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last
        )
        self._base_seed = draw_seed(loader.generator)
        self._begin(loader)

    def _begin(self, loader: DataLoader[Any]) -> None:
        self._index_sampler = loader._index_sampler
        self._indices = iter(self._index_sampler)
        self._length_told = loader._length_told
        self._num_yielded = 0
        self._num_workers = loader.num_workers
        self._pins = bool(loader.pin_memory) and not _C._cuda_why_unavailable()

    def __iter__(self) -> "_Iterator":
        return self

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __next__(self) -> Any:
        batch = self._next_batch()
        self._num_yielded += 1
        told = self._length_told
        if isinstance(self._recipe.dataset, IterableDataset) and told is not None:
            self._check_length(told)
        return pin_batch(batch) if self._pins else batch

    def _check_length(self, told: int) -> None:
        if self._num_yielded <= told:
            return
        hint = ""
        if self._num_workers > 0:
            hint = (
                " Every worker iterates over its own copy: configure it with get_worker_info() to "
                "avoid having duplicate data."
            )
        warnings.warn(
            f"Length of IterableDataset {self._recipe.dataset} was reported to be {told} (when "
            f"accessing len(dataloader)), but {self._num_yielded} samples have been fetched.{hint}",
            stacklevel=3,
        )

    def _next_batch(self) -> Any:
        raise NotImplementedError

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")


class _LocalIterator(_Iterator):
    """Loads in this process."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        if loader.timeout != 0:
            raise AssertionError(
                f"DataLoader: expected timeout=0 without workers, got {loader.timeout}; let "
                "num_workers > 0"
            )
        super().__init__(loader)
        self._fetcher = Fetcher(self._recipe)

    def _next_batch(self) -> Any:
        return self._fetcher.fetch(next(self._indices))


class _WorkerIterator(_Iterator):
    """Loads in worker processes.

    ``_order`` holds the number of a worker for every task that is out, oldest first. A worker
    answers its tasks in their order, so the oldest task's batch is the first unread answer of the
    worker at the head. Answers to an earlier epoch, left early, are dropped as they come.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        prefetch = loader.prefetch_factor or 0
        if prefetch <= 0:
            raise AssertionError("DataLoader: prefetch_factor must be greater than 0 with workers")
        self._prefetch = prefetch
        self._timeout = loader.timeout or None
        self._in_order = loader.in_order
        self._persistent = loader.persistent_workers
        self._epoch = 0
        super().__init__(loader)
        from tapegrad.utils.data.pool import WorkerPool

        context = loader.multiprocessing_context or _default_context()
        self._pool = WorkerPool(
            context, self._recipe, loader.num_workers, self._base_seed, loader.worker_init_fn
        )
        weakref.finalize(self, self._pool.close)
        self._prime()

    def _start_epoch(self, loader: DataLoader[Any]) -> None:
        """Begin another epoch with the same workers."""
        self._begin(loader)
        self._prime()

    def _prime(self) -> None:
        self._epoch += 1
        self._finished = False
        self._order: deque[int] = deque()
        self._unread: list[deque[Any]] = [deque() for _ in range(self._num_workers)]
        self._active = list(range(self._num_workers))
        self._turn = 0
        try:
            for _ in range(self._prefetch * self._num_workers):
                self._hand_out()
        except BaseException:
            self._pool.close()
            raise

    def _hand_out(self, free: int | None = None) -> None:
        """Give the next task to the worker whose turn it is, or to the one that is free."""
        if not self._active:
            return
        try:
            index = next(self._indices)
        except StopIteration:
            return
        if free is None or self._in_order:
            free = self._active[self._turn % len(self._active)]
            self._turn = (self._turn + 1) % len(self._active)
        self._order.append(free)
        self._pool.send(free, self._epoch, index)

    def _next_batch(self) -> Any:
        if self._finished:
            raise StopIteration
        if self._pool.closed:
            raise RuntimeError("DataLoader: the workers have ended; iterate over the loader again")
        try:
            return self._take()
        except (KeyboardInterrupt, SystemExit):  # perhaps in the middle of a message
            self._pool.close()
            raise

    def _take(self) -> Any:
        from tapegrad.utils.data import transport, worker

        while self._order:
            number = self._ready()
            message = self._unread[number].popleft()
            if message.kind == worker.END:
                self._retire(number)
                continue
            self._order.remove(number)
            self._hand_out(free=number)
            value = transport.unpack(message)
            if message.kind == worker.FAILURE:
                value.reraise()
            return value
        self._finished = True
        if not self._persistent:
            self._pool.close()
        raise StopIteration

    def _ready(self) -> int:
        """Wait for a batch that may be given out now; return its worker."""
        while True:
            for number in self._order:
                if self._unread[number]:
                    return number
                if self._in_order:
                    break
            answers = self._pool.collect(self._timeout)
            if not answers:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
            for number, message in answers:
                if message.epoch == self._epoch:
                    self._unread[number].append(message)

    def _retire(self, number: int) -> None:
        """Expect nothing more of a worker whose stream has ended."""
        place = self._active.index(number)
        self._active.remove(number)
        if place < self._turn:
            self._turn -= 1
        self._order = deque(each for each in self._order if each != number)
        if not self._persistent:
            self._pool.release(number)


# As programs name them that ask which kind of iterator they hold.
_BaseDataLoaderIter = _Iterator
_SingleProcessDataLoaderIter = _LocalIterator
_MultiProcessingDataLoaderIter = _WorkerIterator
