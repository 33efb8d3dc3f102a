"""Random programs: swept, stepped through and replayed, they give bitwise what autograd gives."""

import pickle
import re

import numpy as np
import pytest
from autograd.program_machine import REASON, Machine, has_history, is_sweep, pytorch
from autograd.random_programs import generate
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape is tapegrad's own", allow_module_level=True)
if pytorch is None:
    pytest.skip(REASON, allow_module_level=True)

from tapegrad import _C, tape

BATCHES, PROGRAMS_IN_BATCH = 6, 25
INPUTS = 6
MOST_OUTPUTS = 3


MACHINES = []


@pytest.fixture(autouse=True)
def forget_programs():
    yield
    for machine in MACHINES:
        machine.clear()
    MACHINES.clear()


def new_machine():
    MACHINES.append(Machine(torch))
    return MACHINES[-1]


def programs(batch):
    """Yield a random program's inputs and its other statements, none of them a sweep."""
    for seed in range(batch * PROGRAMS_IN_BATCH, (batch + 1) * PROGRAMS_IN_BATCH):
        lines = generate(seed, without=("hook", "sweep", "flags", "drop"))
        yield seed, lines[:INPUTS], [line for line in lines[INPUTS:] if not is_sweep(line)]


def readable(machine):
    """Return the tensors that require grad and whose history is not lost."""
    return [each for each in machine.tensors().values() if has_history(each) and each.requires_grad]


def outputs_of(machine):
    """Return the last tensors that have a history."""
    return [each for each in readable(machine) if not each.is_leaf][-MOST_OUTPUTS:]


def grads_of(outputs, leaves, cotangents):
    """Return autograd's gradients, or the text with which it refuses."""
    try:
        return torch.autograd.grad(
            outputs, leaves, cotangents, retain_graph=True, allow_unused=True
        )
    except RuntimeError as error:
        return str(error)


def same_bits(a, b):
    """Whether two tensors agree to the bit, NaN included."""
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and a.shape == b.shape and a.tolist().__repr__() == repr(b.tolist())


@pytest.mark.parametrize("batch", range(BATCHES))
def test_sweeps(batch):
    swept = 0
    for seed, inputs, body in programs(batch):
        machine = new_machine()
        for line in inputs + body:
            machine.run(line)
        outputs = outputs_of(machine)
        if not outputs:
            continue
        leaves = [each for each in readable(machine) if each.is_leaf]
        cotangents = [torch.randn(each.shape, dtype=each.dtype) for each in outputs]
        expected = grads_of(outputs, leaves, cotangents)
        t = tape.of(outputs)
        if isinstance(expected, str):
            with pytest.raises(RuntimeError, match=re.escape(expected)):
                t.vjp(cotangents)
            with pytest.raises(RuntimeError, match=re.escape(expected)):
                t.rewind(cotangents).run()
            continue
        swept += 1
        for grads in (t.vjp(cotangents), t.rewind(cotangents).run()):
            for leaf, grad in zip(leaves, expected, strict=True):
                assert same_bits(grads.get(leaf), grad), f"program {seed}"
    assert swept > PROGRAMS_IN_BATCH / 4


def moved(tensor, random):
    """Return new contents for an input: other floats, the same integers and truth values."""
    new = tensor.detach().clone()
    if new.is_floating_point():
        new *= torch.tensor(random.uniform(0.9, 1.1, tuple(new.shape)), dtype=new.dtype)
    return new


@pytest.mark.parametrize("batch", range(BATCHES))
def test_replays(batch):
    replayed = 0
    for seed, inputs, body in programs(batch):
        random = np.random.default_rng(seed)
        machine, peer = new_machine(), new_machine()
        for line in inputs:
            machine.run(line)
            peer.run(line)
        names = list(machine.tensors())
        new = {name: moved(machine.variables[name], random) for name in names}
        with torch.no_grad():
            for name in names:
                peer.variables[name].copy_(new[name])
        with tape.record(replay=True) as t:
            refusals = [machine.run(line) is None for line in body]
        if [peer.run(line) is None for line in body] != refusals:
            continue  # the other values lead another way
        storages = {name: _C._storage_id(machine.variables[name]) for name in names}
        read = {name for name in names if storages[name] in t._replay._read}
        unread = {storages[name] for name in names if name not in read}
        try:
            t.replay({machine.variables[name]: new[name] for name in names if name in read})
        except RuntimeError as error:
            text = str(error)
            words = ("a guard does not hold", "cannot run again", "record the block again")
            assert any(each in text for each in words), f"program {seed}: {text}"
            continue
        replayed += 1
        others = peer.tensors()
        for name, tensor in machine.tensors().items():
            if _C._storage_id(tensor) in unread:
                continue  # it shows an input that no op read: nothing to replay
            assert same_bits(tensor, others[name]), f"program {seed}: {name}"
        compare_gradients(seed, machine, peer, names)
    assert replayed > PROGRAMS_IN_BATCH / 4


def compare_gradients(seed, machine, peer, names):
    """Compare gradients at the new inputs, from the replayed tape and from the other program."""
    pairs = [
        (outputs_of(each), [each.variables[name] for name in names]) for each in (machine, peer)
    ]
    outputs = pairs[0][0]
    if not outputs:
        return
    cotangents = [torch.randn(each.shape, dtype=each.dtype) for each in outputs]
    found = []
    for roots, leaves in pairs:
        wanted = [each for each in leaves if each.is_leaf and each.requires_grad]
        found.append(grads_of(roots, wanted, cotangents))
    mine, other = found
    if isinstance(mine, str) or isinstance(other, str):
        # The new inputs were written to the other program's once more.
        texts = [re.sub(r"version \d+", "version", str(each)) for each in found]
        assert texts[0] == texts[1], f"program {seed}"
        return
    assert all(map(same_bits, mine, other)), f"program {seed}"


# ---- blocks that transpose, resize and replace their tensors, and read them

MADE = (
    "{new} = {a} * {b}",
    "{new} = torch.tanh({a}) + {b}.flip(0)",
    "{new} = {a}.clone()",
    "{new} = torch.mul({a}, {b}, out=out)",
    "{new} = torch.add({a}[:2], 1.0, out=out)",
    "{new} = torch.tensor([1.0, 2.0, 3.0, 4.0]); {new} += {a}.flatten()[:1]",
    "{new} = torch.zeros(4); {new}[1:3] = {a}.flatten()[:2]",
    "{new} = {a}.detach().flatten()",
    "{new} = torch.where({a} > 0, {a}, {b}.sum())",
    "{new} = {a}.sort(0).values",
)
DONE = (
    "{a}.mul_(1.5)",
    "{a}.flatten()[:2].add_(x.flatten()[0])",
    "{a}.unsqueeze_(0)",
    "{a}.squeeze_()",
    "{a}.resize_(2)",
    "{a}.set_({b}.detach() * 2)",
    "{a}.data = {b}.detach() + 1",
    "{a}.copy_({a}.flip(0))",
)
SELDOM = (
    "w.add_({a}.flatten()[:4].sum())",
    "w.data = w.data * 0.5",
    "w.unsqueeze_(0)",
    "scale = {a}.sum().item(); {new} = {b} * scale",
    "{new} = {a} * len({a}.tolist())",
    "{new} = {a} + pickle.loads(pickle.dumps({b}))",
    "{new} = {a} * float({b}.numpy().sum())",
)


def random_block(random):
    """Return the lines of a block that uses x, w and out, and makes v0, v1, ..."""
    lines, names = [], ["x", "w"]
    for number in range(random.integers(3, 12)):
        kind = random.choice(3, p=[0.55, 0.35, 0.1])
        line = random.choice((MADE, DONE, SELDOM)[kind])
        own = [name for name in names if name not in ("x", "w")]
        if kind == 1 and not own:
            continue
        a = random.choice(own if kind == 1 else names)
        new = f"v{number}"
        lines.append(line.format(a=a, b=random.choice(names), new=new))
        if "{new}" in line:
            names.append(new)
    return lines


def fresh_names():
    return {
        **{"torch": torch, "pickle": pickle},
        **{"x": torch.tensor([1.0, -2.0, 3.0, 0.5]), "w": torch.tensor([0.5, 1.5, -1.0, 2.0])},
        "out": torch.zeros(4),
    }


def run_lines(lines, names):
    """Run lines; return which were refused."""
    refused = []
    for line in lines:
        try:
            exec(line, names)
        except (RuntimeError, TypeError, IndexError, NameError) as error:
            refused.append((line, type(error)))
    return refused


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("batch", range(4))
def test_blocks_that_turn_their_tensors(batch):
    replayed = 0
    for seed in range(batch * 100, (batch + 1) * 100):
        lines = random_block(np.random.default_rng(seed))
        new = torch.tensor([2.0, 1.0, -1.0, 4.0])
        names, peer = fresh_names(), fresh_names()
        with tape.record(replay=True, inputs=names["x"]) as t:
            refused = run_lines(lines, names)
        run_lines(lines, peer)
        peer["x"].copy_(new)
        if run_lines(lines, peer) != refused:
            continue
        try:
            t.replay(new)
        except RuntimeError as error:
            words = ("a guard does not hold", "cannot run again", "record the block again")
            assert any(each in str(error) for each in words), f"{lines}: {error}"
            continue
        except ValueError as error:
            assert "was not read by the block" in str(error), f"{lines}: {error}"
            continue
        replayed += 1
        for name, value in peer.items():
            if isinstance(value, torch.Tensor):
                assert same_bits(names[name], value), f"{seed}: {lines}: {name}"
    assert replayed > 30
