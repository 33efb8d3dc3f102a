"""Loops in few stored states: the bits of the plain loop, the fewest steps, no more states."""

import errno
import gc
import os
import subprocess
import sys
import textwrap

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape is tapegrad's own", allow_module_level=True)

from tapegrad import _C, nn, tape


class Counted:
    """A step that counts its calls."""

    def __init__(self, step):
        self.step = step
        self.calls = 0

    def __call__(self, state, i, *args):
        self.calls += 1
        return self.step(state, i, *args)


def plain(step, state, n, args=()):
    for i in range(n):
        state = step(state, i, *args)
    return state


def leaves_of(*values):
    return [torch.tensor(value, requires_grad=True) for value in values]


def bits(*tensors):
    return [None if each is None else each.tolist() for each in tensors]


def gradients(run, leaves):
    """Return the loss and the gradients of leaves, which begin without."""
    for each in leaves:
        each.grad = None
    loss = run()
    loss.backward()
    return loss.item(), bits(*(each.grad for each in leaves))


# ---- the same as the plain loop


@pytest.mark.parametrize("slots", [1, 2, 3, 8, 70])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 61])
def test_bits_and_counts(n, slots):
    x, w = leaves_of([0.3, 0.4], [0.5, -0.6])

    def step(state, i):
        return torch.tanh(state * w + 0.1 * i * w)  # w twice: the order of the sums shows

    expected = gradients(lambda: (plain(step, x, n) * x).sum(), [x, w])
    counted = Counted(step)
    found = gradients(lambda: (tape.revolve(counted, x, n, slots) * x).sum(), [x, w])
    assert found == expected
    assert counted.calls == tape.revolve_cost(n, slots) + n


def test_nested_states():
    x, v, w = leaves_of([0.3, 0.4], [1.0, -1.0], [0.5, -0.6])

    def step(state, i):
        place, (speed, counter), names = state["place"], state["moving"], state["names"]
        force = -torch.sin(place * w)
        speed = speed + 0.1 * force
        moving = (speed, counter + 1)
        return {"place": place + 0.1 * speed, "moving": moving, "names": [*names, i][-2:]}

    def loop(run):
        state = {"place": x, "moving": (v, torch.tensor(0)), "names": [0, 0]}
        state = run(step, state)
        assert state["names"] == [18, 19]
        assert state["moving"][1].item() == 20
        assert not state["moving"][1].requires_grad
        return (state["place"] * state["moving"][0]).sum()

    leaves = [x, v, w]
    expected = gradients(lambda: loop(lambda step, state: plain(step, state, 20)), leaves)
    found = gradients(lambda: loop(lambda step, state: tape.revolve(step, state, 20, 4)), leaves)
    assert found == expected


def test_a_tensor_twice_in_the_state_and_one_that_passes_through():
    x, y = leaves_of([0.3, 0.7], [0.2, 0.9])

    def step(state, i):
        a, b, kept = state
        new = torch.sin(a * b) + a * kept + b
        return new, new, kept

    def loss(state):
        return (state[0] * state[1] * state[2]).sum()

    expected = gradients(lambda: loss(plain(step, (x, x, y), 15)), [x, y])
    found = gradients(lambda: loss(tape.revolve(step, (x, x, y), 15, 3)), [x, y])
    assert found == expected


def test_modules_and_layers_that_differ_from_step_to_step():
    torch.manual_seed(4)
    layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(12))
    x = torch.randn(5, 3, requires_grad=True)

    def step(state, i):
        return torch.tanh(layers[i](state))

    leaves = [x, *layers.parameters()]
    expected = gradients(lambda: plain(step, x, 12).sum(), leaves)
    assert gradients(lambda: tape.revolve(step, x, 12, 3).sum(), leaves) == expected


def test_arguments_with_a_history():
    x, raw = leaves_of([0.3, 0.4], [0.5, -0.6])

    def step(state, i, scale, bias):
        return torch.sin(state * scale["scale"]) + bias

    def loop(run):
        scale = raw.exp()
        return run({"scale": scale}, 0.5).sum()

    expected = gradients(lambda: loop(lambda *args: plain(step, x, 9, args)), [x, raw])
    found = gradients(lambda: loop(lambda *a: tape.revolve(step, x, 9, 2, args=a)), [x, raw])
    assert found == expected
    scale = raw.exp()
    line = sys._getframe().f_lineno - 1
    with pytest.raises(RuntimeError, match="step 0 to use nothing with a history but") as caught:
        tape.revolve(lambda state, i: state * scale, x, 9, 2)
    assert f"ExpBackward0, recorded at {__file__}:{line}" in str(caught.value)
    assert "args=(...)" in str(caught.value)


def test_a_state_behind_the_back():
    x = torch.tensor([0.3, 0.4], requires_grad=True)
    hidden = []

    def step(state, i):
        state = torch.sin(state + (hidden[-1] if hidden else 0))
        hidden.append(state)
        return state

    with pytest.raises(RuntimeError, match="step 1 to use nothing with a history"):
        tape.revolve(step, x, 5, 2)


def test_gradients_to_chosen_inputs_and_hooks():
    x, w = leaves_of([0.3, 0.4], [0.5, -0.6])

    def step(state, i):
        return torch.sin(state * w)

    calls = []
    w.register_hook(lambda grad: calls.append(grad.tolist()) or grad * 2)
    w.register_post_accumulate_grad_hook(lambda leaf: calls.append(leaf.grad.tolist()))
    expected = gradients(lambda: plain(step, x, 20).sum(), [x, w])
    seen, calls = calls[:], calls
    calls.clear()
    assert gradients(lambda: tape.revolve(step, x, 20, 3).sum(), [x, w]) == expected
    assert calls == seen and len(seen) == 2
    (found,) = torch.autograd.grad(tape.revolve(step, x, 20, 3).sum(), w)
    assert found.tolist() == w.grad.tolist()
    x.grad = w.grad = None
    tape.revolve(step, x, 20, 3).sum().backward(inputs=[x])
    assert w.grad is None and x.grad.tolist() == expected[1][0]


def test_a_step_that_sweeps_inside():
    """Recording is on in a step whenever it runs, as it is in the plain loop."""
    (q,) = leaves_of([0.3, 0.4])
    w = torch.tensor(1.5, requires_grad=True)

    def step(state, i):
        q, p = state
        q = q if q.requires_grad else q.requires_grad_()
        energy = (torch.cos(q) * w).sum()
        (force,) = torch.autograd.grad(energy, q, create_graph=True)
        p = p + 0.1 * force
        return q + 0.1 * p, p

    def loop(run):
        return run((q, torch.zeros(2)))[0].sum()

    expected = gradients(lambda: loop(lambda state: plain(step, state, 12)), [q, w])
    found = gradients(lambda: loop(lambda state: tape.revolve(step, state, 12, 3)), [q, w])
    assert found == expected


def test_checkpoint_inside_and_outside():
    from tapegrad.utils.checkpoint import checkpoint

    x, w = leaves_of([0.3, 0.4], [0.5, -0.6])

    def inner(state):
        return torch.sin(state * w).exp()

    def step(state, i):
        return checkpoint(inner, state, use_reentrant=False) * 0.5

    def block(x):
        return tape.revolve(step, x, 10, 2).cos()

    expected = gradients(lambda: plain(step, x, 10).cos().sum(), [x, w])
    assert gradients(lambda: block(x).sum(), [x, w]) == expected
    assert gradients(lambda: checkpoint(block, x, use_reentrant=False).sum(), [x, w]) == expected


def test_revolve_inside_revolve():
    x, w = leaves_of([0.3, 0.4], [0.5, -0.6])

    def inner(state, i):
        return torch.sin(state * w)

    def outer(state, i):
        return tape.revolve(inner, state, 4, 2) + 0.1

    def outer_plain(state, i):
        return plain(inner, state, 4) + 0.1

    found = gradients(lambda: tape.revolve(outer, x, 6, 2).sum(), [x, w])
    expected = gradients(lambda: plain(outer_plain, x, 6).sum(), [x, w])
    assert found[0] == expected[0] and found[1][0] == expected[1][0]
    assert torch.allclose(torch.tensor(found[1][1]), torch.tensor(expected[1][1]))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_recording(mode):
    x, w = leaves_of([0.3, 0.4], [0.5, -0.6])
    counted = Counted(lambda state, i: torch.sin(state * w))
    with mode():
        result = tape.revolve(counted, x, 7, 2)
    assert not result.requires_grad
    assert counted.calls == 7
    constant = tape.revolve(lambda state, i: state * 2, torch.ones(2), 3, 2)
    assert constant.tolist() == [8.0, 8.0] and not constant.requires_grad


def test_no_steps():
    (x,) = leaves_of([0.3, 0.4])
    assert tape.revolve(lambda state, i: 1 / 0, x, 0, 2) is x
    assert tape.revolve(lambda state, i: 1 / 0, x, None, 2, until=lambda state: True) is x


# ---- what steps see again


def test_random_numbers():
    (x,) = leaves_of([[0.3, 0.4, 1.0, 2.0]] * 8)
    dropout = nn.Dropout(0.3)
    own = torch.Generator().manual_seed(5)

    def step(state, i):
        return dropout(state) + 0.1 * torch.sin(state * torch.rand(4, generator=own))

    def run(call):
        torch.manual_seed(3)
        own.manual_seed(5)
        return (
            gradients(lambda: call().sum(), [x]),
            torch.rand(3).tolist(),
            own.get_state().tolist(),
        )

    expected = run(lambda: plain(step, x, 30))
    assert run(lambda: tape.revolve(step, x, 30, 3)) == expected
    assert run(lambda: tape.revolve(step, x, 30, 3, until=lambda state: False)) == expected


def test_random_numbers_that_are_not_preserved():
    draws = {}

    def step(state, i):
        draws.setdefault(i, []).append(torch.rand(1).item())
        return state * 0.5

    (x,) = leaves_of([1.0])
    tape.revolve(step, x, 5, 1, preserve_rng_state=False).backward()
    assert len(set(draws[0])) == len(draws[0]) > 1
    draws.clear()
    tape.revolve(step, x, 5, 1).backward()
    assert len(set(draws[0])) == 1 and len(draws[0]) > 1


def test_modes_of_modules_and_running_statistics():
    def run(loop):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.2))
        x = torch.randn(6, 3, requires_grad=True)
        loss = loop(lambda state, i: torch.tanh(model(state)), x).sum()
        model.eval()
        loss.backward()
        assert not model.training
        norm = model[1]
        grads = [x.grad, *(each.grad for each in model.parameters())]
        return bits(norm.running_mean, norm.running_var, norm.num_batches_tracked, *grads)

    expected = run(lambda step, x: plain(step, x, 8))
    assert run(lambda step, x: tape.revolve(step, x, 8, 2)) == expected


# ---- how it is used


def test_backward_twice():
    x, w = leaves_of([0.3, 0.4], [0.5, -0.6])
    counted = Counted(lambda state, i: torch.sin(state * w))
    loss = tape.revolve(counted, x, 20, 3).sum()
    loss.backward(retain_graph=True)
    once = bits(x.grad, w.grad)
    calls = counted.calls
    assert calls == tape.revolve_cost(20, 3) + 20
    x.grad = w.grad = None
    loss.backward()
    assert bits(x.grad, w.grad) == once
    assert counted.calls == 2 * calls, "the second time, only the first state is left"
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def second_order(run, leaves):
    grads = torch.autograd.grad(run(), leaves, create_graph=True)
    return bits(*grads, *torch.autograd.grad(sum((g * g).sum() for g in grads), leaves))


def test_gradients_of_gradients():
    """Also where the state was computed from what the steps use: no path counts twice."""
    x, w = leaves_of([0.3, 0.4], [0.5, -0.6])

    def step(state, i, scale):
        place, speed = state
        return torch.sin(place * w) + speed, speed * scale

    def loop(run):
        state = x * w, x + w.exp()
        place, speed = run(step, state, 6, w.sigmoid())
        return (place * speed).sum()

    def revolving(step, state, n, scale):
        return tape.revolve(step, state, n, 2, args=(scale,))

    found = second_order(lambda: loop(revolving), [x, w])
    expected = second_order(lambda: loop(lambda *a: plain(*a[:3], a[3:])), [x, w])
    assert torch.allclose(torch.tensor(found), torch.tensor(expected), rtol=1e-5)
    assert gradients(lambda: loop(revolving), [x])[1][0] == expected[0]


def test_transforms():
    x, w = leaves_of([[0.3, 0.4], [0.1, -0.5]], [0.5, -0.6])
    func = torch.func

    def step(state, i):
        return torch.sin(state * w)

    def both(transform):
        revolved = transform(lambda x: tape.revolve(step, x, 7, 2).sum())
        return revolved, transform(lambda x: plain(step, x, 7).sum())

    x = x.detach()
    for transform in (func.grad, func.hessian, lambda f: func.vmap(func.grad(f))):
        found, expected = (each(x) for each in both(transform))
        assert torch.allclose(found, expected)
    found, expected = both(lambda f: lambda x: func.jvp(f, (x,), (x * 2,))[1])
    assert torch.allclose(found(x), expected(x))

    def run(f):
        return gradients(lambda: func.vmap(f)(batch).square().sum(), [batch, w])

    batch = x.clone().requires_grad_()
    assert run(lambda x: tape.revolve(step, x, 7, 2)) == run(lambda x: plain(step, x, 7))
    with pytest.raises(RuntimeError, match="step 0 to use tensors with a tangent only"):
        func.jvp(lambda y: tape.revolve(lambda s, i: torch.sin(s * y), x, 7, 2), (x,), (x,))


@pytest.mark.parametrize("which", ["state", "parameter"])
def test_writes_between_forward_and_backward_are_noticed(which):
    x, w = leaves_of([0.3, 0.4], [0.5, -0.6])
    state = x * 1
    loss = tape.revolve(lambda state, i: torch.sin(state * w), state, 5, 3).sum()
    with torch.no_grad():
        (state if which == "state" else w).add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_step_that_writes_to_its_state():
    def step(state, i):
        state[1].add_(1)
        return state[0] * 2, state[1]

    (x,) = leaves_of([0.3, 0.4])
    with pytest.raises(RuntimeError, match="state before step 0 was modified by an inplace"):
        tape.revolve(step, (x, torch.zeros(1)), 5, 2)


def test_a_step_that_changes():
    (x,) = leaves_of([0.3, 0.4])
    for second, text in (
        (lambda x: (x, x), "step 1 returned 2 values when it ran again, expected 1"),
        (lambda x: x.repeat(2), r"shape \(4,\) when it ran again, expected \(2,\)"),
    ):
        seen = set()

        def step(state, i, second=second, seen=seen):
            result = state.sin()
            if i in seen:
                result = second(result)
            seen.add(i)
            return result

        with pytest.raises(RuntimeError, match=text):
            tape.revolve(step, x, 3, 3).sum().backward()


def test_errors_of_a_step_come_through_and_lose_nothing(tmp_path):
    x, w = leaves_of([0.3, 0.4], [0.5, -0.6])
    fail = []

    def step(state, i):
        if fail and i == 4:
            raise KeyError("step 4")
        return torch.sin(state * w)

    loss = tape.revolve(step, x, 12, 2, disk_slots=2, folder=tmp_path).sum()
    before = bits(x, w)
    rng = torch.get_rng_state().tolist()
    fail.append(True)
    with pytest.raises(KeyError, match="step 4"):
        loss.backward()
    assert torch.is_grad_enabled()
    assert (bits(x, w), x.grad, w.grad) == (before, None, None)
    assert torch.get_rng_state().tolist() == rng
    fail.clear()
    loss.backward()  # begins with the first state again
    found = bits(x.grad, w.grad)
    assert gradients(lambda: plain(step, x, 12).sum(), [x, w])[1] == found


def test_bad_arguments():
    (x,) = leaves_of([0.3])

    def step(state, i):
        return state

    with pytest.raises(ValueError, match="slots to be at least 1, got 0"):
        tape.revolve(step, x, 3, 0)
    with pytest.raises(ValueError, match="n to be at least 0, got -1"):
        tape.revolve(step, x, -1, 3)
    with pytest.raises(TypeError, match="n to be an int, got float"):
        tape.revolve(step, x, 3.0, 3)
    with pytest.raises(ValueError, match="the number of steps n, or a function until"):
        tape.revolve(step, x, None, 3)


# ---- how much is kept


def peak_of(run):
    gc.collect()
    torch.reset_peak_memory_stats()
    before = torch.memory_stats()["live_bytes"]
    run()
    return torch.memory_stats()["peak_bytes"] - before


def test_memory_is_that_of_the_slots():
    size = 1 << 20
    x = torch.zeros(size // 4, requires_grad=True)

    def run(slots, **options):
        tape.revolve(lambda state, i: torch.sin(state), x, 60, slots, **options).sum().backward()
        x.grad = None

    few, many = peak_of(lambda: run(3)), peak_of(lambda: run(13))
    assert 8 * size < many - few <= 10 * size, "ten slots more are ten states more"
    assert few <= (2 + 6) * size + 4096, (
        "the first state is the argument; a step's record and gradients"
    )
    online = peak_of(lambda: run(3, until=lambda state: False))
    assert online <= few + size


def test_live_tensors_after_forward_and_backward():
    x, w = leaves_of([0.3, 0.4], [0.5, -0.6])
    gc.collect()
    before = _C.live_counts()
    loss = tape.revolve(lambda state, i: torch.sin(state * w), x, 200, 5).sum()
    kept = _C.live_counts()[0] - before[0]
    # A state and those of the generators each, CUDA's once it is used, and the last record.
    generators = 1 + (torch.cuda.device_count() if torch.cuda.is_initialized() else 0)
    assert kept <= 5 * (1 + generators) + 12
    loss.backward()
    del loss
    x.grad = w.grad = None
    gc.collect()
    assert _C.live_counts() == before


# ---- unknown length


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_until(slots):
    x, w = leaves_of([5.0, 3.0], [0.9, 0.8])

    def step(state, i):
        return state * w + 0.0001 * i

    def until(state):
        return state.max().item() < 0.3

    def loop():
        state, i = x, 0
        while not until(state):
            state, i = step(state, i), i + 1
        return state.sum()

    expected = gradients(loop, [x, w])
    run = Counted(step)
    found = gradients(lambda: tape.revolve(run, x, None, slots, until=until).sum(), [x, w])
    assert found == expected
    most = gradients(lambda: tape.revolve(step, x, 7, slots, until=until).sum(), [x, w])
    assert most == gradients(lambda: plain(step, x, 7).sum(), [x, w])


# ---- states on disk


def test_disk_slots(tmp_path):
    x, w = leaves_of([0.3, 0.4], [0.5, -0.6])
    files = set()

    def step(state, i):
        files.update(len(names) for _, _, names in os.walk(tmp_path) if names)
        return torch.sin(state * w)

    expected = gradients(lambda: plain(step, x, 40).sum(), [x, w])
    files.clear()
    for options in ({}, {"until": lambda state: False}):
        counted = Counted(step)
        found = gradients(
            lambda counted=counted, options=options: tape.revolve(
                counted, x, 40, 2, disk_slots=4, folder=tmp_path, **options
            ).sum(),
            [x, w],
        )
        assert found == expected
        assert max(files) == 4
        files.clear()
        if not options:
            assert counted.calls == tape.revolve_cost(40, 6) + 40
        assert os.listdir(tmp_path) == [], "nothing is left behind"


def test_disk_keeps_dtypes_layouts_and_other_values(tmp_path):
    x = torch.randn(3, 4, requires_grad=True)

    def step(state, i):
        a, b, c, empty, number = state
        a = torch.sin(a.t()) if i % 2 else torch.sin(a).t()
        return a, (b * 0.5).to(torch.bfloat16), c + 1, empty, number + 1

    def run(loop):
        start = (x, x.sum().to(torch.bfloat16), torch.tensor([1, 2]), torch.zeros(0, 3), 7)
        a, b, c, empty, number = loop(start)
        assert (c.tolist(), empty.shape, number) == ([21, 22], (0, 3), 27)
        return (a.sum() + b.float()).sum()

    expected = gradients(lambda: run(lambda state: plain(step, state, 20)), [x])
    found = gradients(
        lambda: run(lambda state: tape.revolve(step, state, 20, 1, disk_slots=3, folder=tmp_path)),
        [x],
    )
    assert found == expected


def test_a_folder_that_cannot_be_written(tmp_path):
    (x,) = leaves_of([0.3])
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="revolve: could not make a folder for states in") as caught:
        tape.revolve(lambda s, i: s.sin(), x, 9, 2, disk_slots=1, folder=tmp_path / "file" / "sub")
    assert caught.value.errno == errno.ENOTDIR


WHAT_WAS_DONE = {
    "deleted": "No such file",
    "cut short": "expected 8 more bytes, found 3",
    "overwritten": "the bytes are not those that were written",
}


@pytest.mark.parametrize("how", WHAT_WAS_DONE)
def test_a_file_that_is_gone(tmp_path, how):
    x, w = leaves_of([0.3, 0.4], [0.5, -0.6])
    loss = tape.revolve(
        lambda s, i: torch.sin(s * w), x, 30, 1, disk_slots=3, folder=tmp_path
    ).sum()
    for folder, _, names in os.walk(tmp_path):
        for name in names:
            path = os.path.join(folder, name)
            if how == "deleted":
                os.unlink(path)
            elif how == "cut short":
                os.truncate(path, 3)
            else:
                with open(path, "r+b") as file:
                    file.write(b"\0")
    with pytest.raises(OSError, match=r"revolve: could not read the state before step \d+: ") as e:
        loss.backward()
    text = str(e.value)
    assert "run the loop again" in text
    assert WHAT_WAS_DONE[how] in text
    assert x.grad is None and w.grad is None
    loss.backward()  # nothing is lost: the first state is still there
    assert (
        bits(x.grad, w.grad)
        == gradients(lambda: plain(lambda s, i: torch.sin(s * w), x, 30).sum(), [x, w])[1]
    )
    assert os.listdir(tmp_path) == []


def test_a_fork_leaves_the_files_to_the_process_that_made_them(tmp_path):
    program = """
        import os, sys, tapegrad as torch
        x = torch.ones(3, requires_grad=True)
        y = torch.tape.revolve(lambda s, i: s * 2, x, 9, 1, disk_slots=3, folder="states").sum()
        if os.fork() == 0:
            sys.exit()  # with all that is done at the end of a program
        assert os.wait()[1] == 0
        y.backward()
        print(x.grad.tolist(), os.listdir("states"))
    """
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(program))
    found = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout == "[512.0, 512.0, 512.0] []\n"


def test_a_full_disk(tmp_path):
    """A limit on the size of files stands for a full disk: the write fails in the same place."""
    program = """
        import os, resource, signal, tapegrad as torch
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        x = torch.ones(1000, requires_grad=True)
        try:
            torch.tape.revolve(lambda s, i: s.sin(), x, 9, 2, disk_slots=2, folder="states")
        except OSError as error:
            print(error)
        print(os.listdir("states"), x.sum().item(), x.grad)
    """
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(program))
    found = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    first, last = found.stdout.splitlines()
    assert "could not write the state before step" in first
    assert "File too large; free space there, or give another folder=" in first
    assert last == "[] 1000.0 None"


def test_a_program_that_ends_early_leaves_no_files(tmp_path):
    program = """
        import tapegrad as torch
        x = torch.ones(10, requires_grad=True)
        y = torch.tape.revolve(lambda s, i: s.sin(), x, 50, 1, disk_slots=5, folder="states")
    """
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(program))
    subprocess.run([sys.executable, str(path)], cwd=tmp_path, check=True)
    assert os.listdir(tmp_path / "states") == []


# ---- long


def test_a_hundred_thousand_steps():
    """s -> a s + b: the gradients are sums of powers."""
    n, factor = 100_000, 1 - 1e-4
    a = torch.tensor(factor, dtype=torch.float64, requires_grad=True)
    x = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    counted = Counted(lambda state, i: state * a + 0.5)
    y = tape.revolve(counted, x, n, 64)
    y.backward()
    assert counted.calls == tape.revolve_cost(n, 64) + n == 449_884
    fixed = 0.5 / (1 - factor)
    power = factor**n
    assert y.item() == pytest.approx(fixed + (1 - fixed) * power, rel=1e-9)
    assert x.grad.item() == pytest.approx(power, rel=1e-9)
    slope = 0.5 / (1 - factor) ** 2 * (1 - power) + (1 - fixed) * n * factor ** (n - 1)
    assert a.grad.item() == pytest.approx(slope, rel=1e-9)


def test_five_thousand_steps_to_the_bit():
    x, w = leaves_of([0.3, 0.4], [0.5, -0.6])

    def step(state, i):
        return torch.sin(state * w + state) + 0.2 * w

    expected = gradients(lambda: plain(step, x, 5000).sum(), [x, w])
    assert gradients(lambda: tape.revolve(step, x, 5000, 20).sum(), [x, w]) == expected
