"""Captured programs of CUDA tensors: run again, replayed, and loaded in another process."""

import os
import subprocess
import sys

import pytest
from library import torch
from tape.program_files import parts, written

from tapegrad import tape
from tapegrad.serialization import CheckpointError
from tapegrad.tape._memory import same_elements

F = torch.nn.functional


def reloaded(program, tmp_path):
    program.save(tmp_path / "program")
    loaded = tape.load_program(tmp_path / "program")
    assert loaded == program and str(loaded) == str(program)
    return loaded


def check_equal(found, wanted):
    assert (found.device, found.dtype, found.shape) == (wanted.device, wanted.dtype, wanted.shape)
    assert same_elements(found, wanted)


def record(function, *inputs):
    """Return the program of a function of tensors, its tape and its result."""
    with tape.record(replay=True, inputs=inputs) as t:
        result = function(*inputs)
    return t.program(outputs={"result": result}), t, result


def check_runs_again(function, tmp_path, *shapes):
    """Record a function, and run it on other numbers: loaded, and as a replay."""
    torch.manual_seed(0)
    inputs = [torch.randn(shape, device="cuda") for shape in shapes]
    others = [torch.randn(shape, device="cuda") for shape in shapes]
    program, t, result = record(function, *inputs)
    kept = result.detach().clone()
    named = {f"input{number}": each for number, each in enumerate(others)}
    wanted = function(*[each.clone() for each in others])
    check_equal(reloaded(program, tmp_path).run(named)["result"], wanted)
    check_equal(result, kept)  # the program ran in memory of its own
    check_equal(t.replay(*others, outputs=result), wanted)
    return program


def test_calls(tmp_path):
    program = check_runs_again(
        lambda x, w: (x @ w).softmax(1) * 0.5 + x.sum(), tmp_path, (3, 4), (4, 4)
    )
    assert "matmul(%0 float32[3, 4] on cuda:0, %1 float32[4, 4] on cuda:0" in str(program)


def test_constants(tmp_path):
    """What comes from Python, by way of the host, and memory that nobody has written."""

    def function(x):
        mask = torch.tensor([True, False, True], device="cuda")
        y = torch.where(mask, x, torch.tensor(2.5)) + torch.tensor([[1.0], [2.0]], device="cuda")
        unwritten = torch.empty(3, device="cuda")
        return y + unwritten.masked_fill(torch.ones(3, dtype=torch.bool, device="cuda"), 1.0)

    program = check_runs_again(function, tmp_path, (2, 3))
    names = [step.op for step in program.steps]
    assert names.count("constant") >= 3 and "move" in names


def test_unwritten_memory_is_kept(tmp_path):
    """What a call reads there is what the recorded one read: found on the device."""
    with tape.record(replay=True) as t:
        unwritten = torch.empty(5, device="cuda")
        y = unwritten.view(torch.int32) + 1
    program = reloaded(t.program(outputs={"y": y}), tmp_path)
    check_equal(program.run({})["y"], y)


def test_there_and_back(tmp_path):
    """Moves run the kernel of the device that is not the CPU, whichever way they go."""

    def function(x):
        return ((x * 2).cpu() + 1).t().cuda() - x.t()

    program = check_runs_again(function, tmp_path, (3, 5))
    assert [step.op for step in program.steps].count("move") == 2


def test_random_numbers_are_those_of_the_recording(tmp_path):
    torch.manual_seed(3)
    x = torch.randn(50, device="cuda")
    program, _, y = record(lambda x: F.dropout(x, 0.5) + torch.randn(50, device="cuda"), x)
    state = torch.cuda.get_rng_state()
    check_equal(reloaded(program, tmp_path).run({"input0": x})["result"], y)
    assert torch.equal(torch.cuda.get_rng_state(), state)


def test_guards(tmp_path):
    """Looks at elements on a device: of one, of several, and of some that lie apart."""

    def function(x, total):
        total += 1  # before the last guard: put back where that does not hold
        y = x * 2 if x.max().item() > 0 else x * 3
        if x.t()[0].tolist() == [1.0, 3.0] and x[:, 1].sum() > 0:
            total += y.sum()
        return total

    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device="cuda")
    total = torch.zeros(3, device="cuda")
    program, t, _ = record(function, x, total)
    program = reloaded(program, tmp_path)
    assert [step.op for step in program.steps].count("read") == 3
    again = torch.full((3,), 5.0, device="cuda")
    assert program.run({"input0": x.clone(), "input1": again})["result"].tolist() == [26.0] * 3
    other = torch.tensor([[1.0, 2.0], [3.0, 4.5]], device="cuda")
    before = again.clone()
    with pytest.raises(RuntimeError, match=r"run: a guard does not hold: at .*test_programs.py"):
        program.run({"input0": other, "input1": again})
    check_equal(again, before)
    with pytest.raises(RuntimeError, match=r"replay: a guard does not hold.*nothing was changed"):
        t.replay(other, again)
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]] and total.tolist() == [21.0] * 3


def test_inputs_that_share_memory():
    """Those of a replay are put where the recorded ones were, strides and all."""
    base = torch.arange(12.0, device="cuda")
    x, y = base[:8].view(2, 4).t(), base[4:10:2]
    with tape.record(replay=True, inputs=[x, y]) as t:
        z = x.sum() + y.exp().sum()
    new = torch.arange(100.0, 108.0, device="cuda").view(2, 4).t()
    tail = torch.tensor([104.0, 106.0, 3.0], device="cuda")
    check_equal(t.replay(new, tail, outputs=z), new.sum() + tail.exp().sum())
    with pytest.raises(ValueError, match="recorded inputs share memory"):
        t.replay(new, torch.zeros(3, device="cuda"), outputs=z)
    with pytest.raises(RuntimeError, match=r"device cuda:0, got cpu"):
        t.replay(new.cpu(), tail, outputs=z)
    program = t.program(outputs={"z": z})
    apart = torch.zeros(6, device="cuda")[::2].copy_(tail)
    wanted = new.sum() + tail.exp().sum()
    check_equal(program.run({"input0": new, "input1": apart})["z"], wanted)
    with pytest.raises(ValueError, match="differ there"):
        program.run({"input0": new, "input1": apart.zero_()})


def test_batches_of_a_vmap(tmp_path):
    """They lie in the device's memory, and numbers that meet them on the CPU."""

    def each(row):
        total = torch.zeros(6, device="cuda")
        total += row.sin() * torch.tensor(1.5)
        total[1:3] = row[:2] * 2
        return total * row.sum() + row.cumsum(0)

    def function(x):
        return torch.func.vmap(each)(x) + torch.func.vmap(torch.func.grad(lambda r: r.sin().sum()))(
            x
        )

    check_runs_again(function, tmp_path, (5, 6))


OPTIMIZERS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.1),
    "AdamW capturable": lambda parameters: torch.optim.AdamW(parameters, lr=0.1, capturable=True),
}


def training(kind):
    """Return a model on the device, a function that takes a step, and the state of all of it."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.Dropout(0.25), torch.nn.Tanh(), torch.nn.Linear(8, 3)
    ).cuda()
    optimizer = OPTIMIZERS[kind](model.parameters())

    def step(x, target):
        optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def state():
        held = [value for each in optimizer.state.values() for value in each.values()]
        tensors = [*model.parameters(), *held]
        return [each for each in tensors if isinstance(each, torch.Tensor)]

    return model, step, state


def batches(count):
    torch.manual_seed(2)
    return [(torch.randn(4, 6).cuda(), torch.randint(3, (4,)).cuda()) for _ in range(count)]


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_steps_of_training(kind, tmp_path):
    """A replayed step of forward, backward and optimizer is the step, bit for bit."""
    first, second, third = batches(3)
    outcomes = []
    for replayed in (False, True):
        _, step, state = training(kind)
        step(*first)
        torch.manual_seed(5)
        with tape.record(replay=True, inputs=list(second)) as t:
            loss = step(*second)
        torch.manual_seed(5)  # a replay draws what the recording drew
        loss = t.replay(*third, outputs=loss) if replayed else step(*third)
        outcomes.append([loss, *state()])
    for wanted, found in zip(*outcomes, strict=True):
        check_equal(found, wanted)


LOADING = """
import sys
import tapegrad as torch
program = torch.tape.load_program(sys.argv[1])
given = torch.load(sys.argv[2])
given = {name: each.to(where) for name, (each, where) in given.items()}
results = program.run(given)
everything = given | results
torch.save({name: each.cpu() for name, each in everything.items()}, sys.argv[3])
"""


def test_a_step_in_a_fresh_process(tmp_path):
    """Parameters, gradients and the optimizer's state change there as they do here."""
    first, second = batches(2)
    _, step, _ = training("Adam")
    step(*first)
    with tape.record(replay=True, inputs=list(second)) as t:
        loss = step(*second)
    program = t.program(outputs={"loss": loss})
    program.save(tmp_path / "program")
    given = {name: each.detach().clone() for name, each in program.tensors.items()}
    saved = {name: (each.cpu(), str(each.device)) for name, each in given.items()}
    torch.save(saved, tmp_path / "given")
    files = [str(tmp_path / name) for name in ("program", "given", "found")]
    done = subprocess.run(
        [sys.executable, "-c", LOADING, *files], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = torch.load(tmp_path / "found")
    for name, each in (given | program.run(given)).items():
        check_equal(found[name], each.cpu())
    assert not torch.equal(found["loss"], loss.cpu())  # the state was that after the first run


def test_where_there_is_no_such_device(tmp_path):
    x = torch.ones(2, device="cuda")
    program, _, _ = record(lambda x: x * 2, x)
    program.save(tmp_path / "program")
    content = (tmp_path / "program").read_bytes()
    code = "import sys, tapegrad; tapegrad.tape.load_program(sys.argv[1])"
    hidden = {"TAPEGRAD_CUDA_DRIVER": "/nowhere/libcuda.so"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "program")],
        capture_output=True,
        text=True,
        env=os.environ | hidden,
        timeout=300,
    )
    assert "the program runs on device 'cuda:0', which is not there" in done.stderr
    assert "load it where it is" in done.stderr
    assert "could have been recorded" not in done.stderr
    header, data = parts(content)
    header["values"] = [[nbytes, "cuda:15", made] for nbytes, _, made in header["values"]]
    with pytest.raises(CheckpointError, match=r"runs on device 'cuda:15', which is not there"):
        tape.load_program(written(tmp_path / "other", header, data))
    for name in ("cuda", "cuda:x", "cuda:-1", "tpu:0"):
        header["values"] = [[nbytes, name, made] for nbytes, _, made in header["values"]]
        with pytest.raises(CheckpointError, match=r"load_program: "):
            tape.load_program(written(tmp_path / "other", header, data))


def test_moves_that_do_not_fit_are_refused(tmp_path):
    x = torch.ones(2, 3, device="cuda")
    program, _, _ = record(lambda x: x.cpu(), x)
    program.save(tmp_path / "program")
    content = (tmp_path / "program").read_bytes()
    changes = {
        "fewer elements": {"outputs": [[1, 0, [2, 2], [2, 1], "float32"]]},
        "another dtype": {"outputs": [[1, 0, [2, 3], [3, 1], "int32"]]},
        "elements apart": {"inputs": [[0, 0, [2, 2], [3, 1], "float32"]]},
        "backwards": {"inputs": [[0, 5, [2, 3], [-3, -1], "float32"]]},
        "a number": {"inputs": [1.0]},
        "nothing": {"inputs": []},
        "to the same device": {"inputs": [[1, 0, [2, 3], [3, 1], "float32"]]},
    }
    for change in changes.values():
        header, data = parts(content)
        (move,) = [step for step in header["steps"] if step.get("op") == "move"]
        move.update(change)
        with pytest.raises(CheckpointError, match=r"move: (an operand|expected one|no kernel)"):
            tape.load_program(written(tmp_path / "other", header, data))
