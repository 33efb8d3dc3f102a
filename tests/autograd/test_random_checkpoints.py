"""Random programs with checkpoints in them, to the bit as without.

A program is a nested list of statements on a list of 3 x 3 matrices. A nested block is a function
of positional arguments, keywords and containers; it runs plainly, or in a checkpoint of its own, in
which some ops may be chosen to be kept. Everything that can be seen is compared: results, gradients
of first and second order, random numbers afterwards, running statistics.
"""

import functools
from collections import Counter

import numpy as np
import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the bits are tapegrad's own", allow_module_level=True)

from tapegrad import nn
from tapegrad.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

BATCHES, PROGRAMS_IN_BATCH = 10, 30
DEEPEST = 3
UNARY = ("sin", "exp", "tanh", "sigmoid", "t", "neg")
BINARY = ("mul", "add", "sub", "matmul", "maximum")
KEPT = ("matmul", "sin", "mul", "layer_norm", "softmax", "exp")
KINDS = ("unary", "binary", "unary", "binary", "dropout", "noise", "module", "in_place", "softmax",
         "detached", "parameter", "stack", "sweep")  # fmt: skip


class Writer:
    """Draws programs."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def choice(self, values):
        return values[int(self.random.integers(len(values)))]

    def number(self, count):
        return int(self.random.integers(count))

    def statement(self, depth):
        if depth < DEEPEST and self.random.random() < 0.25:
            return self.block(depth + 1)
        kind = self.choice(KINDS)
        name = self.choice(UNARY if kind == "unary" else BINARY)
        return kind, name, self.number(3), self.number(3)

    def block(self, depth):
        options = {
            "keeps": [name for name in KEPT if self.random.random() < 0.3],
            "selective": self.random.random() < 0.4,
            "early_stop": self.random.random() < 0.8,
            "plain": self.random.random() < 0.2,
            "scale": round(float(self.random.uniform(0.5, 1.5)), 2),
            "statements": [self.statement(depth) for _ in range(1 + self.number(6))],
        }
        return "block", options, self.number(3), self.number(3)


class Parts:
    """What programs use besides their arguments, made anew for each run."""

    def __init__(self, writes_views=True):
        torch.manual_seed(7)
        self.writes_views = writes_views
        self.weight = torch.randn(3, 3, requires_grad=True)
        self.modules = nn.ModuleList(
            [nn.Linear(3, 3), nn.LayerNorm(3), nn.BatchNorm1d(3), nn.Dropout(0.4)]
        )
        self.inputs = [(torch.randn(3, 3) * 0.5).requires_grad_() for _ in range(3)]
        self.own = torch.Generator(torch.get_default_device()).manual_seed(11)

    def leaves(self):
        return [self.weight, *self.modules.parameters(), *self.inputs]


def one(statement, values, parts, modules, checkpointing):
    """Return what a statement computes."""
    kind, name, first, second = statement
    a, b = values[first % len(values)], values[second % len(values)]
    if kind == "unary":
        return getattr(torch.tanh(a), name)()
    if kind == "binary":
        return getattr(torch, name)(a * 0.5, b)
    if kind == "dropout":
        return nn.functional.dropout(a, 0.3)
    if kind == "noise":
        return a + torch.rand(3, 3, generator=parts.own) * torch.rand_like(b)
    if kind == "module":
        return modules[(first + 3 * second) % len(modules)](a)
    if kind == "in_place":
        written = (a * 2).clone()
        if parts.writes_views:
            written[0].mul_(b[1])
        return written.mul_(b).add_(b)
    if kind == "softmax":
        return nn.functional.softmax(a, -1)
    if kind == "detached":
        with torch.no_grad():
            held = a.sin()
        return b * held
    if kind == "parameter":
        return a @ parts.weight
    if kind == "stack":
        return torch.stack([a, b]).sum(0)
    if kind == "sweep":
        x = a if a.requires_grad else a.detach().requires_grad_()
        return torch.autograd.grad(torch.sin(x).sum(), x, create_graph=True)[0] * b
    return call(name, a, b, parts, modules, checkpointing)


def run_block(options, parts, modules, checkpointing, x, *, other, extra, scale):
    values = [x * scale, other, extra["third"][0]]
    for statement in options["statements"]:
        values.append(one(statement, values[-3:], parts, modules, checkpointing))
    return {"last": values[-1], "rest": (values[-2], "text")}


def some_calls_of(ops):
    """Return a policy that keeps calls at random, whichever ops they are of, and some of these."""
    random = np.random.default_rng(len(ops))

    def policy(context, op, *args, **kwargs):
        assert all(each.numel() >= 0 and not each.requires_grad for each in args)
        return op in KEPT and bool(random.random() < (0.8 if op in ops else 0.4))

    return policy


def call(options, a, b, parts, modules, checkpointing):
    """Run a nested block, plainly or checkpointed."""
    function = functools.partial(run_block, options, parts, modules, checkpointing)
    given = {"other": b, "extra": {"third": [a + b]}, "scale": options["scale"]}
    if not checkpointing or options["plain"]:
        found = function(a, **given)
    else:
        more = {}
        if options["selective"]:
            keeps = options["keeps"]
            chosen = keeps if len(keeps) % 2 else some_calls_of(keeps)
            more["context_fn"] = functools.partial(create_selective_checkpoint_contexts, chosen)
        found = checkpoint(
            function, a, **given, use_reentrant=False, early_stop=options["early_stop"], **more
        )
    assert found["rest"][1] == "text"
    return found["last"] + found["rest"][0] * 0.5


def bits(tensors):
    return [None if each is None else each.tolist() for each in tensors]


def observe(seed, checkpointing):
    """Run a program; return all that can be seen of it."""
    writer = Writer(seed)
    parts = Parts()
    torch.manual_seed(seed)
    result = call(writer.block(0)[1], *parts.inputs[:2], parts, parts.modules, checkpointing)
    seen = [bits([result]), torch.get_rng_state().tolist(), parts.own.get_state().tolist()]
    parts.modules.eval()
    torch.manual_seed(99)
    loss = torch.tanh(result).square().sum()
    leaves = parts.leaves()
    if seed % 3 == 0:
        first = torch.autograd.grad(loss, leaves, allow_unused=True, retain_graph=True)
        seen.append(bits(first))
    loss.backward()
    seen.append(bits(leaf.grad for leaf in leaves))
    seen.append(bits(parts.modules.buffers()))
    seen += [torch.get_rng_state().tolist(), parts.own.get_state().tolist()]
    assert not any(module.training for module in parts.modules)
    return seen


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_checkpoints(batch):
    for seed in range(batch * PROGRAMS_IN_BATCH, (batch + 1) * PROGRAMS_IN_BATCH):
        plain, found = observe(seed, False), observe(seed, True)
        assert found == plain, f"program {seed}: {Writer(seed).block(0)}"


def second_order(seed, checkpointing):
    # A write to a view saves a copy whose history saved_tensors_hooks do not bring back.
    parts = Parts(writes_views=False)
    torch.manual_seed(seed)
    result = call(Writer(seed).block(0)[1], *parts.inputs[:2], parts, parts.modules, checkpointing)
    leaves = parts.leaves()
    first = torch.autograd.grad(
        torch.tanh(result).sum(), leaves, allow_unused=True, create_graph=True
    )
    total = sum((each * each).sum() for each in first if each is not None)
    if not total.requires_grad:
        return bits(first)
    return bits(torch.autograd.grad(total, leaves, allow_unused=True))


@pytest.mark.parametrize("batch", range(2))
def test_random_checkpoints_of_second_order(batch):
    for seed in range(batch * PROGRAMS_IN_BATCH, (batch + 1) * PROGRAMS_IN_BATCH):
        assert second_order(seed, True) == second_order(seed, False), f"program {seed}"


def test_programs_are_varied():
    counts = Counter()
    depths = Counter()

    def count(statement, depth):
        counts[statement[0]] += 1
        if statement[0] == "block":
            options = statement[1]
            depths[depth] += 1
            counts["selective"] += options["selective"]
            counts["to the end"] += not options["early_stop"]
            for each in options["statements"]:
                count(each, depth + 1)

    for seed in range(BATCHES * PROGRAMS_IN_BATCH):
        count(Writer(seed).block(0), 0)
    assert all(counts[kind] > 50 for kind in {*KINDS, "block", "selective", "to the end"})
    assert all(depths[depth] > 20 for depth in range(DEEPEST + 1))
