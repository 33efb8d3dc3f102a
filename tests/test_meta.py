"""The meta device: shapes, strides, dtypes, gradients and errors of the CPU, and no bytes."""

import io
import pickle
import subprocess
import sys
import textwrap
import threading

import pytest
from cases import each_op
from library import IS_SANITIZED, IS_TORCH, torch
from op_db.row import Value, lift, lift_value, results, walk
from op_db.sampler import draw

if IS_TORCH:
    pytest.skip("PyTorch has its own list of what runs there", allow_module_level=True)

# What has a size that depends on elements.
DATA_DEPENDENT = {
    "bincount": "the result",
    "getitem.advanced": "the result, with a mask",
    "index_put": "the indices that a mask stands for",
    "masked_scatter": "the gradient of what was not used",
    "masked_select": "the result",
    "nonzero": "the result",
    "nonzero.tuple": "the results",
    "repeat_interleave.tensor": "the result",
    "setitem": "the indices that a mask stands for",
    "unique": "the result",
    "where.one": "the results",
}
NO_DATA = "elements of a tensor on the meta device were asked for"


def moved(sample, device):
    """Return a sample's arguments on a device, with gradients wanted where they can be."""

    def visit(leaf):
        if not isinstance(leaf, Value):
            return lift(leaf)
        copy = lift_value(leaf).to(device)
        return copy.requires_grad_(leaf.differentiable and copy.is_floating_point())

    return walk((sample.args, sample.kwargs), visit)


def seen(answer):
    """Return what can be seen of an answer without its elements."""
    if isinstance(answer, torch.Tensor):
        return tuple(answer.shape), answer.stride(), answer.dtype, answer.requires_grad
    if isinstance(answer, (tuple, list)):
        return [seen(each) for each in answer]
    return answer


def gradients(op, answer, tree):
    """Sweep back from an answer; return what can be seen of the gradients."""
    losses = [y.sum() for y in results(answer) if isinstance(y, torch.Tensor) and y.requires_grad]
    if not losses or not op.gradient_order:
        return []
    sum(losses).backward()
    found = []

    def visit(leaf):
        if isinstance(leaf, torch.Tensor):
            found.append(None if leaf.grad is None else seen(leaf.grad))
        return leaf

    walk(tree, visit)
    return found


def outcome(op, sample, device):
    """Return what can be seen of a call and of its gradients, or the type of its error."""
    torch.manual_seed(0)
    args, kwargs = moved(sample, device)
    try:
        answer = op.function()(*args, **kwargs)
        return seen(answer), gradients(op, answer, (args, kwargs))
    except NotImplementedError as error:
        if device == "meta" and NO_DATA in str(error):
            return NO_DATA
        raise
    except RuntimeError as error:
        return type(error)


@each_op("test_meta")
def test_meta(op):
    """Every row, on the CPU and on the meta device, forward and backward."""
    refused = False
    for sample in draw(op, op.dtypes[0]):
        found = outcome(op, sample, "meta")
        refused |= found == NO_DATA
        if found != NO_DATA:
            assert found == outcome(op, sample, "cpu"), f"{op.name}{sample}"
    assert refused == (op.name in DATA_DEPENDENT)


# ---- what is not an op


def test_printing():
    x = torch.empty(2, 3, device="meta")
    assert repr(x) == "tensor(..., device='meta', size=(2, 3))"
    assert repr(x.int()) == "tensor(..., device='meta', size=(2, 3), dtype=torch.int32)"
    assert repr(x.requires_grad_()).endswith("size=(2, 3), requires_grad=True)")
    assert repr(x.sum()).endswith("size=(), grad_fn=<SumBackward0>)")


def test_it_takes_no_memory():
    before = torch._C.memory_stats()["live_bytes"]
    x = torch.empty(10**9, 10**6, device="meta")
    y = (x.t() @ x).relu()
    assert tuple(y.shape) == (10**6, 10**6) and y.nbytes == 4 * 10**12
    assert torch._C.memory_stats()["live_bytes"] - before < 10**5


CREATORS = {
    "zeros": lambda **options: torch.zeros(2, 3, **options),
    "full": lambda **options: torch.full((2, 3), 7.0, **options),
    "rand": lambda **options: torch.rand(2, 3, **options),
    "randint": lambda **options: torch.randint(9, (2, 3), **options),
    "randperm": lambda **options: torch.randperm(5, **options),
    "arange": lambda **options: torch.arange(1, 9, 2, **options),
    "linspace": lambda **options: torch.linspace(0, 1, 5, **options),
    "eye": lambda **options: torch.eye(3, **options),
    "tensor": lambda **options: torch.tensor([[1.0, 2.0]], **options),
    "as_tensor": lambda **options: torch.as_tensor([1, 2], **options),
    "empty_strided": lambda **options: torch.empty_strided((2, 3), (1, 2), **options),
    "zeros_like": lambda **options: torch.zeros_like(torch.ones(2, device="cpu"), **options),
    "new_ones": lambda **options: torch.ones(2, device="cpu").new_ones(3, **options),
}


@pytest.mark.parametrize("name", CREATORS)
def test_creating(name):
    on_meta, on_cpu = CREATORS[name](device="meta"), CREATORS[name]()
    assert on_meta.is_meta and not on_cpu.is_meta
    assert seen(on_meta) == seen(on_cpu)


def test_the_default_device():
    """Of functions that make tensors from nothing; what is like a tensor goes where it is."""
    like = torch.ones(2)
    with torch.device("meta"):
        assert torch.ones(2).is_meta and torch.tensor([1.0]).is_meta and torch.rand(3).is_meta
        assert not torch.zeros_like(like).is_meta and not like.new_ones(2).is_meta
        assert not torch.ones(2, device="cpu").is_meta
        with torch.device("cpu"):
            assert not torch.ones(2).is_meta
        assert torch.get_default_device() == torch.device("meta")
    assert not torch.ones(2).is_meta
    torch.set_default_device("meta")
    try:
        assert torch.ones(2).is_meta
    finally:
        torch.set_default_device(None)
    assert torch.get_default_device() == torch.device("cpu")


def test_moving():
    x = torch.ones(3, 2).t()
    moved_x = x.to("meta")
    assert moved_x.is_meta and seen(moved_x)[:3] == seen(x)[:3]
    assert x.to(moved_x).is_meta and x.to(device="meta", dtype=torch.int64).dtype == torch.int64
    for move in (lambda: moved_x.cpu(), lambda: moved_x.to("cpu"), lambda: x.copy_(moved_x)):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data"):
            move()
    assert moved_x.copy_(x) is moved_x


def test_devices_do_not_mix():
    x, y = torch.ones(2, device="meta"), torch.ones(2)
    with pytest.raises(RuntimeError, match=r"mul: Expected all tensors to be on the same device.*"):
        x * y
    with pytest.raises(
        RuntimeError, match=r"input of shape \[2\] on meta, input of shape \[2\] on"
    ):
        torch.where(x > 0, x, y)
    assert (x * 2 + torch.tensor(3.0)).is_meta  # a number of no dimensions may meet any device


def test_gradients_stay_on_their_device():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="assigned grad: has data located on a different device"):
        x.grad = torch.ones(2, device="meta")
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        (x.to("meta") * 2).sum().backward()
    assert x.grad is None


def test_what_looks_at_bytes_is_refused():
    x = torch.ones(2, device="meta")
    assert x.data_ptr() == 0 and x.untyped_storage().nbytes() == 8
    for look in (pickle.dumps, lambda x: torch.save(x, io.BytesIO()), torch.Tensor.__dlpack__):
        with pytest.raises(NotImplementedError, match=NO_DATA):
            look(x)


def policies():
    from tapegrad import tape

    yield from (tape.record(), tape.budget("1 GiB"), tape.compress("int8"), tape.compress("exact"))
    yield torch.profiler.profile()


def test_policies_leave_it_alone():
    """They are about bytes; there are none."""
    with torch.device("meta"):
        model = torch.nn.Sequential(
            torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)
        )
        x = torch.randn(512, 64)
    for policy in policies():
        with policy:
            model.zero_grad()
            model(x).square().mean().backward()
        assert all(p.grad.is_meta and p.grad.shape == p.shape for p in model.parameters())


@pytest.mark.parametrize("read", ["item", "tolist", "numpy", "__bool__", "__float__"])
def test_elements_cannot_be_read(read):
    with pytest.raises(NotImplementedError, match=NO_DATA):
        getattr(torch.ones(1, device="meta"), read)()


def test_modules():
    with torch.device("meta"):
        model = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.LSTM(8, 3)
        )
    assert all(value.is_meta for value in model.state_dict().values())
    out, _ = model(torch.ones(5, 4, device="meta"))
    out.sum().backward()
    assert all(p.grad.is_meta and p.grad.shape == p.shape for p in model.parameters())
    filled = torch.nn.Linear(4, 8)
    model[0].load_state_dict(filled.state_dict(), assign=True)
    assert torch.equal(model[0].weight, filled.weight)
    with pytest.raises(NotImplementedError, match="to_empty"):
        model.to("cpu")
    model.to_empty(device="cpu")
    assert not any(value.is_meta for value in model.state_dict().values())


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_optimizers(name):
    model = torch.nn.Linear(4, 8, device="meta")
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(2, 4, device="meta")).sum().backward()
        optimizer.step()
    assert model.weight.is_meta


def test_vmap_is_refused():
    with pytest.raises(
        RuntimeError, match="vmap: expected tensors with elements, got one on the meta"
    ):
        torch.vmap(torch.sin)(torch.ones(2, 3, device="meta"))


def test_a_large_model_is_priced_without_memory():
    """Seven billion parameters: built, run, priced and swept back in the memory of an import."""
    script = """
        import re
        import tapegrad as torch
        from tapegrad import nn, tape

        with torch.device("meta"):
            layer = nn.TransformerEncoderLayer(4096, 32, 16384, batch_first=True)
            model = nn.TransformerEncoder(layer, num_layers=36, enable_nested_tensor=False)
            loss = model(torch.randn(4, 1024, 4096)).square().mean()
        assert sum(p.numel() for p in model.parameters()) > 7 * 10**9
        assert tape.of(loss).total_bytes > 40 * 2**30
        loss.backward()
        assert all(p.grad.is_meta for p in model.parameters())
        with open("/proc/self/status") as status:  # the peak, in KiB
            print(int(re.search(r"VmHWM:\\s+(\\d+)", status.read())[1]) // 1024)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < (200 if not IS_SANITIZED else 2000)


@each_op("test_the_default_device_does_not_reach_into_functions")
def test_the_default_device_does_not_reach_into_functions(op):
    """What they make on the way goes where their arguments are."""
    for sample in draw(op, op.dtypes[0]):
        args, kwargs = lift((sample.args, sample.kwargs))
        if not any(isinstance(arg, torch.Tensor) for arg in args):
            continue
        with torch.device("meta"):
            found = results(op.function()(*args, **kwargs))
        tensors = [each for each in found if isinstance(each, torch.Tensor)]
        assert not any(each.is_meta for each in tensors), f"{op.name}{sample}"


@pytest.mark.parametrize("name", ["zeros", "arange", "linspace", "eye", "randperm", "rand"])
def test_out_decides_where_a_result_goes(name):
    """Whatever the default device is; one that is named must be the same."""
    sizes = {"zeros": (2, 3), "linspace": (0, 1, 6), "rand": (2, 3)}.get(name, (4,))
    function, out = getattr(torch, name), torch.empty(0)
    with torch.device("meta"):
        assert function(*sizes, out=out) is out and not out.is_meta
        assert out.numel() > 0 and torch.isfinite(out).all()
    with pytest.raises(RuntimeError, match="does not match device of out parameter"):
        function(*sizes, out=out, device="meta")


def test_the_default_device_of_other_threads():
    """One object may be entered on several threads: each has a default device of its own."""
    device, entered, seen_there = torch.device("meta"), threading.Barrier(2), []

    def other():
        with device:
            entered.wait(10)
            seen_there.append(torch.ones(1).is_meta)
        seen_there.append(torch.ones(1).is_meta)

    with torch.device("cpu"), device:
        thread = threading.Thread(target=other)
        thread.start()
        entered.wait(10)
    thread.join()
    assert seen_there == [True, False] and not torch.ones(1).is_meta
    with pytest.raises(RuntimeError, match="CUDA"), torch.device("cuda:99"):
        pass
    assert not torch.ones(1).is_meta


def test_asarray_does_not_share_between_devices():
    with pytest.raises(ValueError, match="can't alias tensor from device 'cpu' to 'meta'"):
        torch.asarray(torch.ones(2), device="meta", copy=False)


def test_one_hot_and_pads():
    classes = torch.ones(3, dtype=torch.int64, device="meta")
    assert torch.nn.functional.one_hot(classes, 4).shape == (3, 4)
    x = torch.ones(1, 2, 5, device="meta")
    assert torch.nn.functional.pad(x, (2, 1), "reflect").shape == (1, 2, 8)


def test_loading_does_not_follow_the_default_device():
    """What a file holds has elements: it goes where it can have them, unless told otherwise."""
    file = io.BytesIO()
    torch.save({"a": torch.arange(6.0).reshape(2, 3).t(), "b": torch.ones(2)}, file)
    file.seek(0)
    with torch.device("meta"):
        loaded = torch.load(file)
    assert loaded["a"].tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert loaded["b"].tolist() == [1.0, 1.0]
