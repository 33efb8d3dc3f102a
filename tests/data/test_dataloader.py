"""The loader in one process, the same in both libraries, and with workers where both agree."""

import pickle
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings(
    "ignore:This DataLoader will create:UserWarning",
    "ignore:This process .* is multi-threaded:DeprecationWarning",  # of fork, from Python 3.12
)


def rows(loader):
    return [batch.tolist() for batch in loader]


def count_to(data, n, length=None):
    class Count(data.IterableDataset):
        def __iter__(self):
            return iter(range(n))

    class CountWithLength(Count):
        def __len__(self):
            return length

    return Count() if length is None else CountWithLength()


class Shards:
    """Not a dataset by itself: workers take parts of different lengths of a stream."""

    @staticmethod
    def of(data, lengths):
        class Shard(data.IterableDataset):
            def __iter__(self):
                worker = data.get_worker_info().id
                return iter(range(worker * 100, worker * 100 + lengths[worker]))

        return Shard()


# ---- what comes, and in which order


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("drop_last", [False, True])
def test_batches(data, drop_last, workers):
    loader = data.DataLoader(range(7), batch_size=3, drop_last=drop_last, num_workers=workers)
    expected = [[0, 1, 2], [3, 4, 5], [6]][: 2 if drop_last else 3]
    assert rows(loader) == expected
    assert rows(loader) == expected
    assert len(loader) == len(iter(loader)) == len(expected)


def test_default_batch_size_is_one(data):
    loader = data.DataLoader(range(2))
    assert rows(loader) == [[0], [1]]
    assert (loader.batch_size, loader.drop_last, loader.num_workers) == (1, False, 0)
    assert loader.prefetch_factor is None
    assert isinstance(loader.sampler, data.SequentialSampler)
    assert isinstance(loader.batch_sampler, data.BatchSampler)
    assert loader.collate_fn is data.default_collate


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_without_batches(data, workers):
    loader = data.DataLoader([1, "a", np.array([2.0])], batch_size=None, num_workers=workers)
    one, letter, array = loader
    assert (one, letter, array.tolist()) == (1, "a", [2.0])
    assert type(array).__name__ == "Tensor"
    assert len(loader) == 3
    assert loader.batch_sampler is None
    assert loader.collate_fn is data.default_convert


@pytest.mark.parametrize("workers", [0, 2])
def test_own_samplers(data, workers):
    loader = data.DataLoader(range(10), 2, sampler=[3, 1, 4, 1, 5], num_workers=workers)
    assert rows(loader) == [[3, 1], [4, 1], [5]]
    assert len(loader) == 3
    loader = data.DataLoader(range(10), batch_sampler=[[9], [8, 7], []][:2], num_workers=workers)
    assert rows(loader) == [[9], [8, 7]]
    assert len(loader) == 2
    assert loader.batch_size is None


def test_batches_from_the_sampler_index_the_dataset_at_once(torch, data):
    sampler = data.BatchSampler(data.SequentialSampler(range(5)), 2, False)
    loader = data.DataLoader(torch.arange(5) * 2, batch_size=None, sampler=sampler)
    assert rows(loader) == [[0, 2], [4, 6], [8]]


def test_shuffle(torch, data):
    loader = data.DataLoader(range(20), batch_size=4, shuffle=True)
    torch.manual_seed(1)
    first, second = rows(loader), rows(loader)
    for epoch in (first, second):
        assert sorted(index for batch in epoch for index in batch) == list(range(20))
    assert first != second
    torch.manual_seed(1)
    assert [rows(loader), rows(loader)] == [first, second]
    assert isinstance(loader.sampler, data.RandomSampler)


@pytest.mark.parametrize("workers", [0, 2])
def test_shuffle_with_a_generator(torch, data, workers):
    def epochs(seed):
        generator = torch.Generator().manual_seed(seed)
        loader = data.DataLoader(
            range(20), 5, shuffle=True, generator=generator, num_workers=workers
        )
        return [rows(loader), rows(loader)]

    first = epochs(5)
    state = torch.get_rng_state().tolist()
    assert epochs(5) == first
    assert epochs(6) != first
    assert torch.get_rng_state().tolist() == state


def test_collate_fn(data):
    assert list(data.DataLoader(range(5), 2, collate_fn=tuple)) == [(0, 1), (2, 3), (4,)]
    assert list(data.DataLoader("ab", None, collate_fn=str.upper)) == ["A", "B"]


def test_many_samples_by_one_call(data):
    class Several(data.Dataset):
        def __init__(self):
            self.calls = []

        def __getitems__(self, indices):
            self.calls.append(indices)
            return [10 * index for index in indices]

        def __len__(self):
            return 5

    dataset = Several()
    assert rows(data.DataLoader(dataset, 2)) == [[0, 10], [20, 30], [40]]
    assert dataset.calls == [[0, 1], [2, 3], [4]]


def test_pin_memory_is_accepted(torch, data):
    if torch.__name__ == "torch":
        pytest.skip("PyTorch warns that it finds no accelerator")
    assert rows(data.DataLoader(range(3), 3, pin_memory=True)) == [[0, 1, 2]]


# ---- streams


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("drop_last", [False, True])
def test_stream(data, drop_last, workers):
    loader = data.DataLoader(count_to(data, 5), 2, drop_last=drop_last, num_workers=workers)
    assert rows(loader) == [[0, 1], [2, 3], [4]][: 2 if drop_last else 3]
    assert rows(loader) == [[0, 1], [2, 3], [4]][: 2 if drop_last else 3]
    with pytest.raises(TypeError):
        len(loader)


@pytest.mark.parametrize("workers", [0, 1])
def test_stream_without_batches(data, workers):
    loader = data.DataLoader(count_to(data, 3), batch_size=None, num_workers=workers)
    assert list(loader) == [0, 1, 2]


@pytest.mark.parametrize("lengths", [(3, 5), (5, 3), (0, 4), (4, 0), (0, 0), (1, 9)])
@pytest.mark.parametrize("persistent", [False, True])
def test_shards_of_different_lengths(data, lengths, persistent):
    loader = data.DataLoader(
        Shards.of(data, lengths), None, num_workers=2, persistent_workers=persistent
    )
    expected = []
    for place in range(max(lengths)):
        expected += [100 * worker + place for worker in (0, 1) if place < lengths[worker]]
    assert list(loader) == expected
    assert list(loader) == expected


@pytest.mark.parametrize(
    ("length", "size", "drop_last", "expected"),
    [(10, 3, False, 4), (10, 3, True, 3), (9, 3, False, 3), (10, None, False, 10)],
)
def test_length_of_a_stream(data, length, size, drop_last, expected):
    loader = data.DataLoader(count_to(data, 1, length), size, drop_last=drop_last)
    assert len(loader) == expected


@pytest.mark.parametrize("workers", [0, 1])
def test_stream_longer_than_it_said(data, workers):
    loader = data.DataLoader(count_to(data, 3, length=2), batch_size=None, num_workers=workers)
    assert [*iter(loader)] == [0, 1, 2]  # nobody asked for the length
    assert len(loader) == 2
    with pytest.warns(UserWarning, match=r"was reported to be 2.* but 3 samples have been fetch"):
        assert list(loader) == [0, 1, 2]


# ---- options that are refused


@pytest.mark.parametrize(
    ("error", "text", "options"),
    [
        (ValueError, "num_workers option should be non-negative", {"num_workers": -1}),
        (ValueError, "timeout option should be non-negative", {"timeout": -1}),
        (ValueError, "prefetch_factor option could only be specified", {"prefetch_factor": 2}),
        (ValueError, "prefetch_factor option", {"prefetch_factor": -1, "num_workers": 1}),
        (ValueError, "persistent_workers option needs num_workers", {"persistent_workers": True}),
        (ValueError, "sampler option is mutually exclusive", {"sampler": [0], "shuffle": True}),
        (ValueError, "batch_sampler option is mut", {"batch_sampler": [[0]], "batch_size": 2}),
        (ValueError, "batch_sampler option is mut", {"batch_sampler": [[0]], "shuffle": True}),
        (ValueError, "batch_sampler option is mut", {"batch_sampler": [[0]], "sampler": [0]}),
        (ValueError, "batch_sampler option is mut", {"batch_sampler": [[0]], "drop_last": True}),
        (ValueError, "disables auto-batching", {"batch_size": None, "drop_last": True}),
        (ValueError, "batch_size should be a positive integer", {"batch_size": 0}),
        (ValueError, "can only be used with multi-process", {"multiprocessing_context": "fork"}),
        (ValueError, "valid start method", {"multiprocessing_context": "x", "num_workers": 1}),
        (TypeError, "valid context object", {"multiprocessing_context": 3, "num_workers": 1}),
    ],
)
def test_bad_options(data, error, text, options):
    with pytest.raises(error, match=text):
        data.DataLoader(range(4), **options)


@pytest.mark.parametrize("options", [{"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}])
def test_streams_have_no_order_to_choose(data, options):
    (name,) = options
    with pytest.raises(ValueError, match=f"expected unspecified {name} option, but got {name}="):
        data.DataLoader(count_to(data, 3), **options)


def test_streams_may_say_that_they_are_not_shuffled(data):
    assert rows(data.DataLoader(count_to(data, 2), 2, shuffle=False)) == [[0, 1]]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of PyTorch
def test_options_that_only_workers_have(data):
    with pytest.raises(AssertionError):
        iter(data.DataLoader(range(3), timeout=1))
    with pytest.raises(AssertionError, match="prefetch_factor must be greater than 0"):
        iter(data.DataLoader(range(3), num_workers=1, prefetch_factor=0))


@pytest.mark.parametrize("name", ["batch_size", "sampler", "batch_sampler", "drop_last", "dataset"])
def test_attributes_that_are_fixed(data, name):
    loader = data.DataLoader(range(3))
    with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader"):
        setattr(loader, name, None)
    loader.collate_fn = len
    assert list(loader) == [1, 1, 1]


def test_more_workers_than_processors(data):
    with pytest.warns(UserWarning, match="will create 5000 worker processes in total"):
        data.DataLoader(range(3), num_workers=5000)


def test_iterators_are_not_pickled(data):
    with pytest.raises(NotImplementedError):
        pickle.dumps(iter(data.DataLoader(range(3))))


def test_errors_of_the_dataset_come_through(data):
    iterator = iter(data.DataLoader([1, None, 3]))
    assert next(iterator).tolist() == [1]
    with pytest.raises(TypeError, match="found <class 'NoneType'>"):
        next(iterator)
    assert next(iterator).tolist() == [3]
    with pytest.raises(StopIteration):
        next(iterator)


def test_no_worker_here(data):
    assert data.get_worker_info() is None


# ---- tapegrad alone


def test_loading_without_workers_needs_no_processes(tmp_path):
    import subprocess

    code = (
        "import sys, tapegrad\n"
        "assert 'tapegrad.utils.data' not in sys.modules\n"
        "loader = tapegrad.utils.data.DataLoader(range(4), 2, shuffle=True)\n"
        "assert len(list(loader)) == 2\n"
        "print([name for name in ('multiprocessing', 'socket', 'ctypes') if name in sys.modules])\n"
    )
    # Elsewhere than in the checkout, whose folder would come before the installed package.
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "multiprocessing" not in done.stdout
