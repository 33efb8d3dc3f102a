"""Random programs: swept, stepped through and replayed, they give bitwise what autograd gives."""

import re

import numpy as np
import pytest
from autograd.random_programs import REASON, Machine, generate, is_sweep, pytorch
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape is tapegrad's own", allow_module_level=True)
if pytorch is None:
    pytest.skip(REASON, allow_module_level=True)

from tapegrad import _C, tape

BATCHES, PROGRAMS_IN_BATCH = 6, 25
INPUTS = 6
MOST_OUTPUTS = 3


def programs(batch):
    """Yield a random program's inputs and its other statements, none of them a sweep."""
    for seed in range(batch * PROGRAMS_IN_BATCH, (batch + 1) * PROGRAMS_IN_BATCH):
        lines = generate(seed, without=("hook", "sweep", "flags"))
        yield seed, lines[:INPUTS], [line for line in lines[INPUTS:] if not is_sweep(line)]


def outputs_of(machine):
    """Return the last tensors that have a history."""
    found = [each for each in machine.tensors().values() if each.requires_grad and not each.is_leaf]
    return found[-MOST_OUTPUTS:]


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
        machine = Machine(torch)
        for line in inputs + body:
            machine.run(line)
        outputs = outputs_of(machine)
        if not outputs:
            continue
        leaves = [
            each for each in machine.tensors().values() if each.is_leaf and each.requires_grad
        ]
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
        machine, peer = Machine(torch), Machine(torch)
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
            assert "a guard does not hold" in text or "cannot run again" in text, f"program {seed}"
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
