"""Worker processes: what comes from them, how they fail, and that nothing of them stays."""

import gc
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from library import IS_TORCH, torch

from . import datasets
from .datasets import Board, Function, Images, is_gone, until

if IS_TORCH:
    pytest.skip("the workers are tapegrad's own", allow_module_level=True)
if sys.platform != "linux":
    pytest.skip("these tests look into /proc", allow_module_level=True)

from tapegrad.utils.data import DataLoader, IterableDataset, get_worker_info, pool, transport

pytestmark = pytest.mark.filterwarnings(
    "ignore:This DataLoader will create:UserWarning",
    "ignore:This process .* is multi-threaded:DeprecationWarning",  # of fork, from Python 3.12
)


def pids(iterator):
    return [process.pid for process in iterator._pool.processes]


def open_files():
    return len(os.listdir("/proc/self/fd"))


def mapped_segments():
    with open("/proc/self/maps") as file:
        return sum("memfd:tapegrad-batch" in line for line in file)


@pytest.fixture(autouse=True)
def nothing_stays():
    """Fail a test that leaves processes, open files, mappings or shared memory behind."""
    gc.collect()
    before = (open_files(), mapped_segments())
    yield
    gc.collect()
    after = (open_files(), mapped_segments())
    if "multiprocessing.resource_tracker" in sys.modules:  # spawn starts it, with a pipe to it
        before, after = before[1:], after[1:]
    assert after == before
    assert not multiprocessing.active_children()


# ---- what comes


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_batches_come_in_order(method):
    loader = DataLoader(Images(5), 2, num_workers=2, multiprocessing_context=method)
    seen = [(x[:, 0].tolist(), x.shape, y.tolist()) for x, y in loader]
    assert seen == [
        ([0.0, 1.0], (2, datasets.LARGE), [0, 1]),
        ([2.0, 3.0], (2, datasets.LARGE), [2, 3]),
        ([4.0], (1, datasets.LARGE), [4]),
    ]


def test_order_does_not_depend_on_speed():
    board = Board()

    def slow_at_first(index):
        if index == 0:
            board.wait(0, 1)
        if index == 3:
            board[0] = 1
        return index

    loader = DataLoader(Function(slow_at_first, 8), None, num_workers=2)
    assert list(loader) == list(range(8))


def test_out_of_order_gives_what_is_ready():
    board = Board()

    def slow_at_first(index):
        if index == 0:
            board.wait(0, 1)
        return index

    iterator = iter(DataLoader(Function(slow_at_first, 6), None, num_workers=2, in_order=False))
    first = [next(iterator) for _ in range(4)]
    assert first[:2] == [1, 3]
    assert 0 not in first
    board[0] = 1
    assert sorted(first + list(iterator)) == list(range(6))


@pytest.mark.parametrize("size", [3, datasets.LARGE])
def test_every_dtype(size):
    names = ["bool", "uint8", "int8", "int16", "int32", "int64"]
    names += ["float16", "bfloat16", "float32", "float64"]
    dtypes = [getattr(torch, name) for name in names]

    def sample(index):
        return [torch.arange(size).remainder(2).to(dtype) for dtype in dtypes]

    (batch,) = DataLoader(Function(sample, 1), None, num_workers=1, collate_fn=lambda x: x)
    assert [x.dtype for x in batch] == dtypes
    for x, expected in zip(batch, sample(0), strict=True):
        assert bool((x == expected).all())
        assert not x.requires_grad


@pytest.mark.parametrize("size", [0, 3, datasets.LARGE])
def test_batches_can_be_written_to(size):
    def sample(index):
        return torch.zeros(size), np.zeros(size), torch.zeros(size, 2).t()

    (batch,) = DataLoader(Function(sample, 1), None, num_workers=1, collate_fn=lambda x: x)
    for each in batch:
        each += 1
    tensor, array, transposed = batch
    assert tensor.sum().item() == array.sum() == size
    assert transposed.shape == (2, size)


def test_leaves_keep_requires_grad_and_others_are_refused():
    def sample(index):
        x = torch.ones(2, requires_grad=True)
        return x if index == 0 else x * 2

    iterator = iter(DataLoader(Function(sample, 2), None, num_workers=1))
    leaf = next(iterator)
    assert leaf.requires_grad
    assert leaf.is_leaf
    with pytest.raises(RuntimeError, match="not a leaf; the tape does not cross processes"):
        next(iterator)


def test_more_large_arrays_than_segments():
    def sample(index):
        return [np.full(datasets.LARGE, i) for i in range(3 * transport.MOST_SEGMENTS + 1)]

    (batch,) = DataLoader(Function(sample, 1), None, num_workers=1, collate_fn=lambda x: x)
    assert [array[-1] for array in batch] == list(range(len(batch)))
    assert mapped_segments() <= transport.MOST_SEGMENTS


def test_many_indices_and_large_pickles_do_not_lock_up():
    """Both sides have more to say than a socket holds."""

    def sample(index):
        return ["x" * 100] * 2

    big = DataLoader(
        Function(sample, 200_000),
        100_000,
        num_workers=1,
        prefetch_factor=2,
        collate_fn=lambda samples: [str(i) for i in range(len(samples))],
    )
    assert [len(batch) for batch in big] == [100_000, 100_000]


# ---- shared memory


def test_large_batches_lie_in_shared_memory():
    before = mapped_segments()
    ((x, y),) = DataLoader(Images(2), 2, num_workers=1)
    assert mapped_segments() == before + 1  # the small one came in the pickle
    assert y.tolist() == [0, 1]
    view = x[1]
    del x
    assert view[5].item() == 1.0  # after the worker has ended
    del view
    assert mapped_segments() == before


def test_keeping_a_part_of_a_batch_keeps_only_that_part():
    def sample(index):
        return torch.ones(datasets.LARGE), torch.ones(datasets.LARGE)

    before = mapped_segments()
    kept = [y for _, y in DataLoader(Function(sample, 4), None, num_workers=1)]
    gc.collect()
    assert len(kept) == 4
    assert mapped_segments() == before + 4


def test_batches_that_are_kept_cost_no_open_files():
    before = open_files()
    kept = list(DataLoader(Images(40), 1, num_workers=2))
    assert open_files() == before
    assert [y.item() for _, y in kept] == list(range(40))


# ---- seeds, init functions, worker info


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_seeds_follow_the_base_seed(method):
    def epoch():
        generator = torch.Generator().manual_seed(3)
        dataset = Function(datasets.random_numbers, 4)
        loader = DataLoader(
            dataset, None, num_workers=2, generator=generator, multiprocessing_context=method
        )
        return list(loader)

    first = epoch()
    ids, seeds, tapegrads, pythons, numpys = zip(*first, strict=True)
    assert ids == (0, 1, 0, 1)
    assert seeds[1] - seeds[0] == 1
    for drawn in (tapegrads, pythons, numpys):
        assert len(set(drawn)) == 4
    assert epoch() == first


def test_each_epoch_has_another_seed():
    loader = DataLoader(Function(datasets.random_numbers, 1), None, num_workers=1)
    assert len({sample[2] for _ in range(3) for sample in loader}) == 3


def test_init_function_and_worker_info():
    def init(worker_id):
        info = get_worker_info()
        assert info.id == worker_id
        info.dataset.n = 1000 + worker_id
        called.append(worker_id)

    called = []

    def sample(index):
        info = get_worker_info()
        with pytest.raises(RuntimeError, match="Cannot assign attributes"):
            info.id = 5
        return (info.id, info.num_workers, info.dataset.n, called, torch.get_num_threads())

    loader = DataLoader(Function(sample, 2), None, num_workers=2, worker_init_fn=init)
    # default_convert makes lists of tuples
    assert list(loader) == [[0, 2, 1000, [0], 1], [1, 2, 1001, [1], 1]]
    assert get_worker_info() is None


def test_info_is_shown():
    (text,) = DataLoader(Function(lambda i: repr(get_worker_info()), 1), None, num_workers=1)
    assert text.startswith("WorkerInfo(id=0, num_workers=1, seed=")


# ---- prefetching, persistent workers


def test_prefetch_factor():
    board = Board()

    def sample(index):
        board[0] += 1
        return index

    iterator = iter(DataLoader(Function(sample, 10), None, num_workers=1, prefetch_factor=3))
    board.wait(0, 3)
    time.sleep(0.1)
    assert board[0] == 3
    assert next(iterator) == 0
    board.wait(0, 4)
    assert list(iterator) == list(range(1, 10))


def test_a_worker_goes_on_while_the_loader_is_busy():
    """Also when batches are larger than what a socket holds."""
    board = Board()

    def sample(index):
        board[0] += 1
        return "x" * 1_000_000

    iterator = iter(DataLoader(Function(sample, 4), None, num_workers=1, prefetch_factor=4))
    board.wait(0, 4)
    assert [len(text) for text in iterator] == [1_000_000] * 4


def test_persistent_workers_are_reused():
    loader = DataLoader(Function(datasets.own_pid, 4), None, num_workers=2, persistent_workers=True)
    first, second = list(loader), list(loader)
    assert first == second
    assert len(set(first)) == 2
    assert not any(is_gone(pid) for pid in first)
    del loader
    gc.collect()
    assert all(is_gone(pid) for pid in first)


def test_other_workers_are_new_in_every_epoch():
    loader = DataLoader(Function(datasets.own_pid, 2), None, num_workers=1)
    first, second = list(loader), list(loader)
    assert len({*first, *second}) == 2
    assert all(is_gone(pid) for pid in first + second)


def test_persistent_workers_after_an_epoch_left_early():
    loader = DataLoader(range(20), None, num_workers=2, persistent_workers=True)
    iterator = iter(loader)
    assert [next(iterator) for _ in range(3)] == [0, 1, 2]
    assert list(loader) == list(range(20))
    workers = pids(iterator)
    assert list(loader) == list(range(20))
    assert pids(iter(loader)) == workers


def test_persistent_streams_begin_anew():
    class Count(IterableDataset):
        def __iter__(self):
            return iter(range(3))

    loader = DataLoader(Count(), None, num_workers=1, persistent_workers=True)
    assert [list(loader) for _ in range(3)] == [[0, 1, 2]] * 3


# ---- errors


def test_an_exception_comes_with_its_traceback():
    loader = DataLoader(Function(datasets.raise_at_three, 6), None, num_workers=2)
    iterator = iter(loader)
    assert [next(iterator) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three is bad") as caught:
        next(iterator)
    text = str(caught.value)
    assert text.startswith("Caught ValueError in DataLoader worker process 1.\nOriginal Traceback")
    assert "in raise_at_three" in text
    assert list(iterator) == [4, 5]  # the others still come


def test_exceptions_that_are_hard_to_rebuild():
    class Local(Exception):
        pass

    def sample(index):
        if index == 0:
            raise Local("local")
        if index == 1:
            raise KeyError("missing")
        if index == 2:
            raise UnicodeDecodeError("ascii", b"x", 0, 1, "odd")
        if index == 3:
            raise StopIteration("stop")
        return lambda: index  # cannot be pickled

    iterator = iter(DataLoader(Function(sample, 5), None, num_workers=1))
    with pytest.raises(RuntimeError, match="Caught Local in DataLoader worker process 0"):
        next(iterator)
    with pytest.raises(KeyError, match=r"Caught KeyError .*\nOriginal Traceback"):
        next(iterator)
    with pytest.raises(RuntimeError, match="Caught UnicodeDecodeError"):
        next(iterator)
    with pytest.raises(RuntimeError, match="Caught StopIteration"):
        next(iterator)
    with pytest.raises(Exception, match=r"in DataLoader worker process 0.*\nOriginal Traceback"):
        next(iterator)
    with pytest.raises(StopIteration):
        next(iterator)


def test_an_exception_of_the_init_function():
    def init(worker_id):
        raise ValueError("no start")

    with pytest.raises(ValueError, match="no start"):
        next(iter(DataLoader(range(3), num_workers=2, worker_init_fn=init)))


def test_an_exception_of_a_stream():
    class Broken(IterableDataset):
        def __iter__(self):
            yield 0
            raise ValueError("broken")

    iterator = iter(DataLoader(Broken(), None, num_workers=1))
    assert next(iterator) == 0
    with pytest.raises(ValueError, match="broken"):
        next(iterator)
    with pytest.raises(StopIteration):
        next(iterator)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (datasets.kill_self, "killed by signal SIGKILL"),
        (datasets.exit_self, "exit code 7"),
    ],
)
def test_a_worker_that_dies(function, reason):
    iterator = iter(DataLoader(Function(function, 6), None, num_workers=2))
    workers = pids(iterator)
    assert next(iterator) == 0
    text = rf"DataLoader worker 0 \(pid\(s\) {workers[0]}\) exited unexpectedly: {reason}"
    with pytest.raises(RuntimeError, match=text):
        list(iterator)
    assert all(is_gone(pid) for pid in workers)
    with pytest.raises(RuntimeError, match="the workers have ended; iterate over the loader again"):
        next(iterator)


def test_death_is_noticed_while_another_worker_is_waited_for(monkeypatch):
    monkeypatch.setattr(pool, "SECONDS_TO_END", 0.1)  # the one that waits is ended by force
    board = Board()

    def sample(index):
        if index == 0:
            board.wait(0, 1)
        else:
            os.kill(os.getpid(), signal.SIGKILL)
        return index

    iterator = iter(DataLoader(Function(sample, 2), None, num_workers=2))
    with pytest.raises(RuntimeError, match="DataLoader worker 1"):
        next(iterator)


def test_death_is_noticed_when_a_child_of_the_worker_lives_on():
    board = Board()

    def sample(index):
        child = os.fork()  # has a copy of the worker's socket
        if child == 0:
            time.sleep(60)
            os._exit(0)
        board.memory[8:12] = child.to_bytes(4, "little")
        os.kill(os.getpid(), signal.SIGKILL)

    try:
        with pytest.raises(RuntimeError, match=r"worker 0 .* killed by signal SIGKILL"):
            next(iter(DataLoader(Function(sample, 2), None, num_workers=1)))
    finally:
        os.kill(int.from_bytes(board.memory[8:12], "little"), signal.SIGKILL)


def test_persistent_workers_are_replaced_after_a_death():
    board = Board()

    def sample(index):
        if board[0] == 0 and index == 1:
            board[0] = 1
            os._exit(1)
        return index

    loader = DataLoader(Function(sample, 4), None, num_workers=1, persistent_workers=True)
    with pytest.raises(RuntimeError, match="exited unexpectedly: exit code 1"):
        list(loader)
    assert list(loader) == [0, 1, 2, 3]


def test_timeout():
    board = Board()

    def sample(index):
        board.wait(0, 1)
        return index

    iterator = iter(DataLoader(Function(sample, 2), None, num_workers=1, timeout=0.05))
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.05 seconds"):
        next(iterator)
    board[0] = 1
    iterator._timeout = None
    assert list(iterator) == [0, 1]


def test_a_dataset_that_spawn_cannot_send():
    dataset = Function(lambda index: index, 3)
    with pytest.raises(Exception, match=r"pickle|lambda"):
        iter(DataLoader(dataset, num_workers=2, multiprocessing_context="spawn"))


# ---- ends


def test_workers_end_when_the_consumer_stops_early():
    iterator = iter(DataLoader(Images(50), 1, num_workers=2))
    next(iterator)
    workers = pids(iterator)
    del iterator
    gc.collect()
    assert all(is_gone(pid) for pid in workers)


def test_workers_end_when_a_cycle_with_the_iterator_is_collected():
    iterator = iter(DataLoader(Images(50), 1, num_workers=2))
    workers = pids(iterator)
    iterator.cycle = iterator
    next(iterator)
    del iterator
    gc.collect()
    assert all(is_gone(pid) for pid in workers)


def test_what_is_not_needed_any_more_is_not_loaded():
    board = Board()

    def sample(index):
        board[0] += 1
        board.wait(1, 1)
        return index

    iterator = iter(DataLoader(Function(sample, 9), None, num_workers=1, prefetch_factor=9))
    board.wait(0, 1)
    iterator._pool.release(0)
    time.sleep(0.5)
    board[1] = 1
    del iterator
    gc.collect()
    assert board[0] == 1


def test_a_stuck_worker_is_ended_by_force(monkeypatch):
    monkeypatch.setattr(pool, "SECONDS_TO_END", 0.1)

    def sample(index):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1000)

    iterator = iter(DataLoader(Function(sample, 2), None, num_workers=1))
    workers = pids(iterator)
    del iterator
    gc.collect()
    assert all(is_gone(pid) for pid in workers)


def test_a_forked_child_leaves_the_workers_alone():
    """A child that drops its copy of an iterator does not close its parent's."""
    iterator = iter(DataLoader(range(20), None, num_workers=1))
    assert next(iterator) == 0
    child = os.fork()
    if child == 0:
        del iterator
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert list(iterator) == list(range(1, 20))


def test_a_message_that_breaks_off():
    """A process may be killed in the middle of sending, and others hold its socket open."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(transport.HEADER.pack(0, 0, 0, 100) + b"only a part")
        assert transport.receive(theirs, lambda: True) is None


PROGRAM = """
import sys, time
import tapegrad as torch

class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 1000
    def __getitem__(self, index):
        time.sleep(0.1)
        return torch.zeros(50_000)

def main():
    iterator = iter(torch.utils.data.DataLoader(Slow(), num_workers=2))
    next(iterator)
    print(*(process.pid for process in iterator._pool.processes), flush=True)
    {then}

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("then", "send"),
    [
        ("list(iterator)", lambda pid: os.kill(pid, signal.SIGINT)),
        ("list(iterator)", lambda pid: os.killpg(pid, signal.SIGINT)),
        ("time.sleep(1000)", lambda pid: os.killpg(pid, signal.SIGINT)),
        ("list(iterator)", lambda pid: os.kill(pid, signal.SIGKILL)),
        ("sys.exit()", lambda pid: None),
    ],
    ids=["interrupted", "control-c", "control-c-outside", "killed", "exit"],
)
def test_no_orphans(then, send, tmp_path):
    """However the loader's process ends, its workers end too."""
    program = PROGRAM.replace("{then}", then)
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,  # the checkout's folder would come before the installed package
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        workers = [int(pid) for pid in process.stdout.readline().split()]
        assert len(workers) == 2
        send(process.pid)
        process.wait(60)
    until(lambda: all(is_gone(pid) for pid in workers))
