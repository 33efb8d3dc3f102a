"""Random loops, revolved and plain: the same bits, the fewest steps, nothing left behind."""

import gc
import os
from collections import Counter

import numpy as np
import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape is tapegrad's own", allow_module_level=True)

from tapegrad import _C, nn, tape
from tapegrad.utils.checkpoint import checkpoint

BATCHES, LOOPS_IN_BATCH = 8, 25
KINDS = ("weight", "layer", "dropout", "noise", "norm", "argument", "mix", "swap", "sweep",
         "checkpoint", "constant", "branch", "in place")  # fmt: skip


class Loop:
    """A loop drawn from a seed: what a step does, how long it is, how it is to be revolved."""

    def __init__(self, seed):
        random = np.random.default_rng(seed)
        self.kinds = [KINDS[i] for i in random.integers(len(KINDS), size=1 + random.integers(4))]
        self.n = int(random.integers(1, 40))
        self.slots = int(random.integers(1, 7))
        self.disk_slots = int(random.integers(1, 4)) if random.random() < 0.3 else 0
        self.online = bool(random.random() < 0.3)
        self.nested = bool(random.random() < 0.7)
        self.twice = bool(random.random() < 0.2)
        self.calls = 0
        torch.manual_seed(seed)
        self.weight = (torch.randn(3, 3) * 0.5).requires_grad_()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
        self.norm = nn.BatchNorm1d(3)
        self.own = torch.Generator().manual_seed(seed)
        self.first = torch.randn(4, 3, requires_grad=True)
        self.second = torch.randn(4, 3, requires_grad=True)
        self.raw = torch.randn(3, requires_grad=True)

    def leaves(self):
        modules = [*self.layers.parameters(), *self.norm.parameters()]
        return [self.weight, *modules, self.first, self.second, self.raw]

    def one(self, kind, a, b, i, scale):
        """Return the next value of a; b is the other part of the state."""
        if kind == "weight":
            return torch.tanh(a @ self.weight + 0.1 * self.weight.sum())
        if kind == "layer":
            return torch.sin(self.layers[i % 3](a))
        if kind == "dropout":
            return nn.functional.dropout(a, 0.2)
        if kind == "noise":
            return a + 0.1 * torch.rand(4, 3, generator=self.own) * torch.rand(4, 3)
        if kind == "norm":
            return self.norm(a + 0.01 * b)
        if kind == "argument":
            return torch.sin(a * scale)
        if kind == "mix":
            return (a * b).tanh() + a
        if kind == "sweep":
            x = a if a.requires_grad else a.detach().requires_grad_()
            return torch.autograd.grad(x.sin().sum(), x, create_graph=True)[0]
        if kind == "checkpoint":
            return checkpoint(lambda x: (x @ self.weight).sin(), a, use_reentrant=False)
        if kind == "constant":
            return a * (i % 3) + b.detach()
        if kind == "branch":
            return a.cos() if i % 2 else torch.tanh(a @ self.weight.t())
        if kind == "in place":
            return (a * 1).mul_(b).tanh_()
        return b

    def step(self, state, i, scale):
        self.calls += 1
        a, b = (state["a"], state["more"][0]) if self.nested else (state, self.second)
        for kind in self.kinds:
            new = self.one(kind, a, b, i, scale)
            if self.nested and kind == "swap":
                b = a
            a = new
        if not self.nested:
            return a
        return {"a": a, "more": [b, state["more"][1] + 1]}

    def loss(self, revolve, folder):
        """Return the loss of the loop, plain or revolved."""
        state = {"a": self.first, "more": [self.second, 0]} if self.nested else self.first
        scale = self.raw.exp()
        torch.manual_seed(5)
        if not revolve:
            for i in range(self.n):
                state = self.step(state, i, scale)
        else:
            options = {"args": (scale,), "disk_slots": self.disk_slots, "folder": folder}
            if self.online:
                options["until"] = lambda state: False
            state = tape.revolve(self.step, state, self.n, self.slots, **options)
        if self.nested:
            assert state["more"][1] == self.n
            return (state["a"] * 2 + state["more"][0]).sum()
        return state.square().sum()

    def observe(self, revolve, folder):
        """Return all that can be seen of the loop."""
        loss = self.loss(revolve, folder)
        seen = [loss.item(), torch.get_rng_state().tolist(), self.own.get_state().tolist()]
        self.norm.eval()
        if loss.requires_grad:
            if self.twice:
                loss.backward(retain_graph=True)
            loss.backward()
        grads = [None if leaf.grad is None else leaf.grad.tolist() for leaf in self.leaves()]
        statistics = [each.tolist() for each in self.norm.buffers()]
        return [*seen, grads, statistics, torch.get_rng_state().tolist()]


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_loops(batch, tmp_path):
    gc.collect()
    before = _C.live_counts()
    for seed in range(batch * LOOPS_IN_BATCH, (batch + 1) * LOOPS_IN_BATCH):
        loop = Loop(seed)
        expected = Loop(seed).observe(False, None)
        found = loop.observe(True, tmp_path)
        text = f"loop {seed}: {loop.kinds}, n={loop.n}, slots={loop.slots}, {vars(loop)}"
        assert repr(found) == repr(expected), text  # NaN equals NaN
        total = loop.slots + loop.disk_slots
        most = (tape.revolve_cost(loop.n, total) + loop.n) * (1 + loop.twice)
        if loop.online:
            most += 2 * loop.n
        assert loop.calls <= most, text
    del loop
    gc.collect()
    assert os.listdir(tmp_path) == []
    assert _C.live_counts() == before


def test_loops_are_varied():
    loops = [Loop(seed) for seed in range(BATCHES * LOOPS_IN_BATCH)]
    kinds = Counter(kind for loop in loops for kind in loop.kinds)
    assert all(kinds[kind] > 10 for kind in KINDS)
    for name in ("online", "nested", "twice", "disk_slots"):
        assert 10 < sum(bool(getattr(loop, name)) for loop in loops) < len(loops) - 10
