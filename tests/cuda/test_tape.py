"""Ways to keep less of a tape on CUDA, alone and in pairs: the gradients of the plain run."""

import pytest
from library import torch
from tape.models import Block

from tapegrad import tape
from tapegrad.tape._memory import same_elements
from tapegrad.utils.checkpoint import (
    checkpoint,
    create_selective_checkpoint_contexts,
    set_checkpoint_early_stop,
)

nn = torch.nn


# ---- models: stages that take each other's results


def mlp():
    stages = [nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Dropout(0.3)) for _ in range(4)]
    return stages, torch.randn(24, 32)


def attention():
    return [Block(16, 2), nn.Dropout(0.2), Block(16, 2)], torch.randn(4, 8, 16)


def convolutions():
    stages = [
        nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.1))
        for _ in range(3)
    ]
    return stages, torch.randn(2, 4, 8, 8)


MODELS = {build.__name__: build for build in (mlp, attention, convolutions)}


# ---- what is done with the stages


def plain(stages, x):
    for stage in stages:
        x = stage(x)
    return x


def checkpointed(stages, x):
    for stage in stages:
        x = checkpoint(stage, x, use_reentrant=False)
    return x


def reentrant(stages, x):
    for stage in stages:
        x = checkpoint(stage, x, use_reentrant=True)
    return x


def selective(stages, x):
    def contexts():
        return create_selective_checkpoint_contexts(["matmul", "conv"])

    for stage in stages:
        x = checkpoint(stage, x, use_reentrant=False, context_fn=contexts)
    return x


def in_a_loop(stages, x):
    return tape.revolve(lambda x, i: stages[i](x), x, n=len(stages), slots=2)


FORWARDS = (plain, checkpointed, reentrant, selective, in_a_loop)


def backward(forward, stages, x):
    loss = forward(stages, x).square().mean()
    loss.backward()
    return loss.detach()


def within_half(run):
    """Run under a budget of half of what the tape needs; it is measured first."""
    with tape.budget(1 << 40) as free:
        run()
    with quiet_budget(free.peak // 2) as b:
        run()
    assert b.peak <= free.peak  # a block that is recorded for a replay holds its values


def quiet_budget(limit):
    class Quiet(tape.budget):
        def _warn(self, irreducible, device):
            assert device == "cuda:0"

    return Quiet(limit)


def compressed(run):
    with tape.compress("exact", min_bytes=0):
        run()


def replayed(run):
    """Record one run, and let a second one be that again."""
    with tape.record(replay=True) as t:
        run()
    t.replay()


def alone(run):
    run()


AROUND = (alone, within_half, compressed, replayed)


class Problem:
    """A model on CUDA, and what one backward gives for it."""

    def __init__(self, build):
        torch.manual_seed(1)
        stages, x = build()
        self.model = nn.ModuleList(stages).cuda()
        self.x = x.cuda().requires_grad_()
        self.leaves = [*self.model.parameters(), self.x]
        self.buffers = {name: each.clone() for name, each in self.model.named_buffers()}
        for leaf in self.leaves:
            leaf.grad = torch.zeros_like(leaf)

    def run(self, forward):
        for leaf in self.leaves:
            leaf.grad.zero_()
        for name, buffer in self.model.named_buffers():
            buffer.copy_(self.buffers[name])
        torch.cuda.manual_seed(7)
        loss = backward(forward, list(self.model), self.x)
        # What the generator gives next tells whether it is where the plain run leaves it.
        return [loss, torch.rand(3, device="cuda")]

    def outcome(self, forward, around):
        results = []
        around(lambda: results.append(self.run(forward)))
        state = [each.clone() for each in self.model.state_dict().values()]
        return [*results[-1], *(leaf.grad.clone() for leaf in self.leaves), *state]


def check(build, forward, *around):
    problem = Problem(build)
    wanted = problem.outcome(plain, alone)

    def within(run):
        for each in around:
            run = (lambda outer, inner: lambda: outer(inner))(each, run)
        run()

    found = problem.outcome(forward, within)
    for one, other in zip(found, wanted, strict=True):
        assert one.device.type == "cuda" and same_elements(one, other)


@pytest.mark.parametrize("around", AROUND[1:], ids=lambda each: each.__name__)
@pytest.mark.parametrize("model", MODELS)
def test_alone(model, around):
    check(MODELS[model], plain, around)


@pytest.mark.parametrize("forward", FORWARDS[1:], ids=lambda each: each.__name__)
@pytest.mark.parametrize("model", MODELS)
def test_ways_of_a_forward(model, forward):
    check(MODELS[model], forward, alone)


@pytest.mark.parametrize("around", AROUND[1:], ids=lambda each: each.__name__)
@pytest.mark.parametrize("forward", FORWARDS[1:], ids=lambda each: each.__name__)
def test_pairs_with_a_forward(forward, around):
    check(mlp, forward, around)


@pytest.mark.parametrize("outer", AROUND[1:], ids=lambda each: each.__name__)
@pytest.mark.parametrize("inner", AROUND[1:], ids=lambda each: each.__name__)
def test_pairs(inner, outer):
    if inner is not outer:
        check(mlp, plain, inner, outer)


def test_checkpoints_in_a_loop():
    def forward(stages, x):
        steps = [lambda x, stage=stage: selective([stage], x) for stage in stages]
        return in_a_loop(steps, checkpointed(stages[:1], x))

    problem = Problem(mlp)
    wanted = problem.outcome(lambda stages, x: plain(stages, plain(stages[:1], x)), alone)
    found = problem.outcome(forward, alone)
    assert all(map(same_elements, found, wanted))


def test_states_of_a_loop_on_disk(tmp_path):
    """They come back to the device that they were on, laid out as they were."""

    def forward(stages, x):
        step = lambda x, i: stages[i % 4](x.t().contiguous().t())  # noqa: E731
        return tape.revolve(step, x, n=9, slots=1, disk_slots=3, folder=tmp_path)

    def unrolled(stages, x):
        for i in range(9):
            x = stages[i % 4](x.t().contiguous().t())
        return x

    problem = Problem(mlp)
    wanted = problem.outcome(unrolled, alone)
    assert all(map(same_elements, problem.outcome(forward, alone), wanted))


@pytest.mark.parametrize("reentry", [False, True])
def test_random_numbers_that_are_not_preserved(reentry):
    """The other half of preserve_rng_state: without it the second run draws anew."""
    x = torch.randn(40, 40, device="cuda", requires_grad=True)
    y = torch.randn(40, 40, device="cuda")

    def gradient(preserve):
        torch.manual_seed(3)
        found = checkpoint(
            lambda x: nn.functional.dropout(x, 0.5) * y,
            x,
            use_reentrant=reentry,
            preserve_rng_state=preserve,
        )
        x.grad = None
        found.square().sum().backward()
        return x.grad

    torch.manual_seed(3)
    plain = nn.functional.dropout(x, 0.5) * y
    (wanted,) = torch.autograd.grad(plain.square().sum(), x)
    assert same_elements(gradient(True), wanted)
    assert not same_elements(gradient(False), wanted)


def test_a_policy_that_draws_random_numbers():
    """It is asked once only, and the second run draws what the first drew after it."""

    def policy(context, op, *args, **kwargs):
        return bool(torch.rand(1, device="cuda") < 0.5) if op == "matmul" else False

    def function(x):
        for _ in range(3):
            x = nn.functional.dropout(x @ x, 0.5)
        return x

    drawn = []
    x = torch.randn(12, 12, device="cuda", requires_grad=True)
    torch.manual_seed(6)
    with set_checkpoint_early_stop(False):
        y = checkpoint(
            lambda x: drawn.append(function(x)) or drawn[-1],
            x,
            use_reentrant=False,
            context_fn=lambda: create_selective_checkpoint_contexts(policy),
        )
    y.square().sum().backward()
    first, again = drawn
    assert same_elements(first, again)


def test_a_generator_of_ones_own():
    generator = torch.Generator("cuda")

    def function(x):
        return x * torch.rand(x.shape, generator=generator, device="cuda")

    x = torch.randn(30, device="cuda", requires_grad=True)
    generator.manual_seed(4)
    (wanted,) = torch.autograd.grad(function(x).square().sum(), x)
    generator.manual_seed(4)
    y = checkpoint(function, x, use_reentrant=False)
    torch.rand(5, generator=generator, device="cuda")
    (found,) = torch.autograd.grad(y.square().sum(), x)
    assert same_elements(found, wanted)


# ---- what is shown


def test_entries_say_where_they_are(tmp_path):
    x = torch.randn(8, 8, device="cuda", requires_grad=True)
    w = torch.randn(8, 8, requires_grad=True)
    y = ((x * x).cpu() @ w).sum()
    t = tape.of(y)
    by_op = {entry.op: entry for entry in t}
    assert (by_op["mul"].device, by_op["mm"].device) == ("cuda:0", "cpu")
    assert by_op["mm"].saved[0].device == "cpu" and by_op["mul"].outputs[0].device == "cuda:0"
    text = str(t)
    assert "device" in text.splitlines()[1] and "cuda:0" in text
    document = t.to_dict()
    devices = {output["device"] for entry in document["entries"] for output in entry["outputs"]}
    assert devices == {"cpu", "cuda:0"}
    t.html(tmp_path / "page.html")
    t.dot(tmp_path / "graph.dot")
    assert "float32[8, 8] on cuda:0" in (tmp_path / "graph.dot").read_text()


def test_bytes_of_the_device_are_shown():
    x = torch.randn(64, 64, device="cuda", requires_grad=True)
    with tape.record() as t:
        y = x.exp()
        loss = (y * y).cpu().square().sum()  # noqa: F841  what it saves lives
    assert t.memory["cuda:0 saved_bytes"] == 64 * 64 * 4
    assert t.memory["cuda:0 live_bytes"] == torch.cuda.memory_allocated()
    assert t.memory["saved_bytes"] >= 2 * 64 * 64 * 4
    assert "16.0 KiB on cuda:0" in str(t).splitlines()[0]


def test_no_word_of_devices_on_the_cpu():
    x = torch.randn(4, requires_grad=True)
    t = tape.of(x.exp().sum())
    assert "device" not in str(t) and set(t.to_dict()["memory"]) >= {"live_bytes", "saved_bytes"}
