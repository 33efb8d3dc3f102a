"""Memory that processes share: fork, spawn, queues, modules; nothing is left behind."""

import gc
import multiprocessing
import os
import subprocess
import sys

import pytest
from library import IS_TORCH, torch

mp = torch.multiprocessing
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc and /dev/shm")
only_ours = pytest.mark.skipif(IS_TORCH, reason="PyTorch moves views as well, and shares to send")
METHODS = [name for name in ("fork", "spawn") if name in multiprocessing.get_all_start_methods()]


def run(method, target, *args):
    process = multiprocessing.get_context(method).Process(target=target, args=args)
    process.start()
    process.join(60)
    assert process.exitcode == 0


@pytest.fixture(params=["file_descriptor", "file_system"])
def strategy(request):
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy(request.param)
    yield request.param
    mp.set_sharing_strategy(before)


def add_one(x):
    assert x.is_shared()
    x += 1


@pytest.mark.parametrize("method", METHODS)
def test_writes_of_another_process_are_seen(method, strategy):
    x = torch.arange(4.0)
    assert x.share_memory_() is x
    assert x.is_shared() and x.untyped_storage().is_shared()
    run(method, add_one, x)
    assert x.tolist() == [1, 2, 3, 4]


def check_place(x, row):
    assert row.tolist() == [1, 4] and row.stride() == (3,) and x.dtype == torch.bfloat16
    row.zero_()


@pytest.mark.parametrize("method", METHODS)
def test_a_view_of_shared_memory_is_sent_as_a_view(method):
    x = torch.arange(6).reshape(2, 3).to(torch.bfloat16).share_memory_()
    run(method, check_place, x, x[:, 1])
    assert x.tolist() == [[0, 0, 2], [3, 0, 5]]


def fill(model, value):
    for parameter in model.parameters():
        assert parameter.requires_grad and type(parameter) is torch.nn.Parameter
        parameter.data.fill_(value)


@pytest.mark.parametrize("method", METHODS)
def test_modules_share_parameters_gradients_and_buffers(method):
    model = torch.nn.Sequential(torch.nn.Linear(40, 20), torch.nn.BatchNorm1d(20))
    model[1].bias = model[0].bias
    model(torch.ones(3, 40)).sum().backward()
    kept = list(model.parameters())
    assert model.share_memory() is model
    assert all(a is b for a, b in zip(kept, model.parameters(), strict=True))
    tensors = [*kept, *(p.grad for p in kept), *model.buffers()]
    assert all(tensor.is_shared() for tensor in tensors)
    run(method, fill, model, 7.0)
    assert all(bool((parameter == 7).all()) for parameter in kept)
    model(torch.ones(3, 40)).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert not bool((model[0].bias == 7).all())


def answer(requests, answers, done):
    x = requests.get()
    x.mul_(10)
    answers.put(x[1:])
    assert done.wait(60)  # whoever holds a descriptor must live until it was fetched


@pytest.mark.parametrize("method", METHODS)
def test_queues(method, strategy):
    if IS_TORCH and (method, strategy) == ("spawn", "file_system"):
        pytest.skip("PyTorch moves the memory in the child, whose strategy is the default")
    context = multiprocessing.get_context(method)
    requests, answers, done = context.Queue(), context.Queue(), context.Event()
    process = context.Process(target=answer, args=(requests, answers, done))
    process.start()
    x = torch.arange(3.0).share_memory_()
    requests.put(x)
    part = answers.get(timeout=60)
    assert part.tolist() == [10, 20] and x.tolist() == [0, 10, 20]
    part[1] = 5
    done.set()
    process.join(60)
    assert process.exitcode == 0
    assert x.tolist() == [0, 10, 5]


def train_a_little(model, start):
    start.wait(60)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(200):
        optimizer.zero_grad()
        model(torch.ones(8, 4)).sub(3).square().mean().backward()
        optimizer.step()


def test_hogwild():
    """Processes train one model without locks."""
    model = torch.nn.Linear(4, 1).share_memory()
    context = multiprocessing.get_context("spawn")
    start = context.Event()
    processes = [context.Process(target=train_a_little, args=(model, start)) for _ in range(2)]
    for process in processes:
        process.start()
    start.set()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    assert abs(model(torch.ones(1, 4)).item() - 3) < 0.1


def test_storages():
    storage = torch.UntypedStorage._new_shared(16)
    assert storage.is_shared() and storage.nbytes() == 16
    assert storage.share_memory_() is storage
    run(METHODS[-1], set_first_byte, storage)
    assert storage[0] == 9
    assert not torch.ones(2).untyped_storage().is_shared()
    if not IS_TORCH:  # where it warns
        assert torch.ones(2).storage()._new_shared(3).is_shared()


def set_first_byte(storage):
    storage[0] = 9


def test_copies_are_not_shared():
    x = torch.ones(3).share_memory_()
    assert x.detach().is_shared() and x[1:].is_shared()
    assert not x.clone().is_shared() and not (x + 1).is_shared() and not torch.ones(3).is_shared()


def test_sharing_keeps_the_leaf():
    w = torch.nn.Parameter(torch.ones(3))
    assert w.share_memory_() is w and w.requires_grad and w.is_leaf
    (w * 2).sum().backward()
    assert w.grad.tolist() == [2, 2, 2]


def test_strategies():
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    with pytest.raises(AssertionError, match="invalid sharing strategy 'x'"):
        mp.set_sharing_strategy("x")


def test_what_is_no_leaf_is_not_sent():
    x = torch.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="non-leaf tensor which requires_grad"):
        multiprocessing.reduction.ForkingPickler.dumps(x)


@only_ours
def test_a_view_or_a_saved_value_is_not_left_behind():
    x = torch.ones(4)
    view = x[1:]
    with pytest.raises(RuntimeError, match="share_memory_: other tensors"):
        x.share_memory_()
    with pytest.raises(RuntimeError, match="share_memory_: other tensors"):
        view.share_memory_()
    assert not x.is_shared()
    del view
    assert x.share_memory_().is_shared()
    w = torch.ones(4, requires_grad=True)
    y = w.exp()
    with pytest.raises(RuntimeError, match="values saved for backward"):
        y.share_memory_()
    y = (w * w).sum()
    w.share_memory_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
    with pytest.raises(RuntimeError, match=r"call Tensor\.share_memory_"):
        x.clone().untyped_storage().share_memory_()
    with pytest.raises(RuntimeError, match="only available on CPU"):
        torch.ones(2, device="meta").share_memory_()


def is_a_copy(x):
    assert not x.is_shared()
    x += 1


@only_ours
def test_what_is_not_shared_is_copied():
    x = torch.ones(3)
    run("spawn", is_a_copy, x)
    assert x.tolist() == [1, 1, 1]


def open_files():
    return sum("tapegrad-shared" in os.readlink(f"/proc/self/fd/{n}") for n in descriptors())


def descriptors():
    return [n for n in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{n}")]


def mappings():
    with open("/proc/self/maps", encoding="utf-8") as file:
        return sum("tapegrad-" in line for line in file)


def names(process):
    return [name for name in os.listdir("/dev/shm") if name.startswith(f"tapegrad-{process}-")]


@only_ours
@needs_linux
def test_nothing_is_left_behind(strategy):
    gc.collect()
    before = open_files(), mappings(), len(names(os.getpid()))
    x = torch.ones(5000).share_memory_()
    run("spawn", add_one, x)
    assert (open_files(), mappings(), len(names(os.getpid()))) != before
    part = x[3:]
    del x
    assert part.is_shared() and part[0].item() == 2
    del part
    gc.collect()
    assert (open_files(), mappings(), len(names(os.getpid()))) == before


KILLED = """
import os, signal
import tapegrad as torch
torch.multiprocessing.set_sharing_strategy("file_system")
x = torch.ones(3).share_memory_()
name = f"tapegrad-{os.getpid()}-"
print(os.getpid(), sum(n.startswith(name) for n in os.listdir("/dev/shm")), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@only_ours
@needs_linux
def test_a_killed_process_leaves_no_name_behind():
    # Its output ends when the resource tracker, which has inherited it, has ended too.
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True)
    assert done.returncode == -9
    process, made = done.stdout.split()
    assert made == "1" and not names(process)


@only_ours
def test_a_name_that_is_gone(strategy):
    if strategy == "file_descriptor":
        pytest.skip("a descriptor holds its file")
    from tapegrad.multiprocessing.shared import Region

    path = Region.make(8).path
    with pytest.raises(RuntimeError, match="is gone"):
        Region(8, None, path).bytes()
