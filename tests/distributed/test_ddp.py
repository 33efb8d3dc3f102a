"""Gradients that are combined while a backward runs, in several processes."""

import copy

import pytest

import tapegrad as torch
from tapegrad import distributed as dist
from tapegrad.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from tapegrad.nn.parallel import DistributedDataParallel as DDP
from tapegrad.utils.checkpoint import checkpoint

TINY = 1e-5  # megabytes: a bucket for each parameter


def mlp(layers=4, size=4):
    torch.manual_seed(3)
    parts = []
    for _ in range(layers):
        parts += [torch.nn.Linear(size, size), torch.nn.Tanh()]
    return torch.nn.Sequential(*parts, torch.nn.Linear(size, 1))


def batch(rank, step=0, size=4):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(5, size, generator=generator)


def grads(model):
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def whole(model, size, forward=None, step=0):
    """Return the gradients of one process with the inputs of all."""
    model = copy.deepcopy(model)
    forward = forward or (lambda net, x: net(x))
    sum(forward(model, batch(r, step)).mean() for r in range(size)).div(size).backward()
    return grads(model)


def assert_close(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b)


def same(ours, theirs):
    return all(
        (a is None) == (b is None) and (a is None or torch.equal(a, b))
        for a, b in zip(ours, theirs, strict=True)
    )


KINDS = [
    {},
    {"gradient_as_bucket_view": True},
    {"static_graph": True},
    {"gradient_as_bucket_view": True, "static_graph": True, "find_unused_parameters": True},
]


@pytest.mark.parametrize("cap", [TINY, 25])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_steps_are_those_of_one_process(ranks, kind, cap):
    def train(net, inputs, to_none):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        losses = []
        for step in range(6):
            optimizer.zero_grad(set_to_none=to_none)
            loss = torch.stack([net(x).square().mean() for x in inputs(step)]).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    for to_none in (True, False):
        alone = mlp()
        expected = train(alone, lambda step: [batch(r, step) for r in range(2)], to_none)

        def run(rank, to_none=to_none):
            model = DDP(mlp(), bucket_cap_mb=cap, **kind)
            losses = train(model, lambda step: [batch(rank, step)], to_none)
            return losses, [p.detach().clone() for p in model.parameters()]

        first, second = ranks(2, run), ranks(2, run)
        assert [losses for losses, _ in first] == [losses for losses, _ in second]
        assert same(first[0][1], second[0][1]) and same(first[0][1], first[1][1])
        assert_close(first[0][1], [p.detach() for p in alone.parameters()])
        mean = [sum(pair) / 2 for pair in zip(*(losses for losses, _ in first), strict=True)]
        torch.testing.assert_close(torch.tensor(mean), torch.tensor(expected))


def test_buckets_are_begun_while_the_backward_runs(ranks):
    def run(rank):
        net, events = mlp(), []
        model = DDP(net, bucket_cap_mb=TINY)
        names = {id(p): name for name, p in net.named_parameters()}

        def hook(state, bucket):
            events.extend(names[id(p)] for p in bucket.parameters())
            return default_hooks.allreduce_hook(None, bucket)

        model.register_comm_hook(None, hook)

        def passing(number):
            return lambda module, grad_input, grad_output: events.append(number)

        for number in (0, 2, 4, 6):
            net[number].register_full_backward_hook(passing(number))
        seen = []
        for _ in range(3):
            events.clear()
            loss = model(batch(rank).requires_grad_()).sum()  # the last one is held meanwhile
            loss.backward()
            seen.append(list(events))
        return seen

    for seen in ranks(2, run):
        for events in seen:
            for number in (0, 2, 4, 6):
                later = [f"{other}.weight" for other in (2, 4, 6, 8) if other > number]
                before = events[: events.index(number)]
                assert set(later) <= set(before), "before the backward comes to this layer"
            assert len(events) == 14


def test_gradients_as_views_of_buckets(ranks):
    def run(rank):
        model = DDP(mlp(), gradient_as_bucket_view=True)
        model(batch(rank)).mean().backward()
        once = grads(model)
        pointers = [p.grad.data_ptr() for p in model.parameters()]
        memory = [bucket.memory for bucket in model._reducer._buckets]
        spans = [(m.data_ptr(), m.data_ptr() + 4 * m.numel()) for m in memory]
        assert all(any(a <= p < b for a, b in spans) for p in pointers)
        model(batch(rank)).mean().backward()  # adds up
        assert [p.grad.data_ptr() for p in model.parameters()] == pointers
        twice = grads(model)
        model.zero_grad()
        model(batch(rank)).mean().backward()
        assert same(grads(model), once)
        return once, twice

    expected = whole(mlp(), 2)
    for once, twice in ranks(2, run):
        assert_close(once, expected)
        assert_close(twice, [2 * g for g in expected])


@pytest.mark.parametrize("views", [False, True])
def test_no_sync_counts_for_the_forward(ranks, views):
    def run(rank):
        model = DDP(mlp(), bucket_cap_mb=TINY, gradient_as_bucket_view=views)
        with model.no_sync():
            loss = model(batch(rank)).mean()
        loss.backward()
        alone = grads(model)
        model(batch(rank, 1)).mean().backward()
        return alone, grads(model)

    expected = [a + b for a, b in zip(whole(mlp(), 2), whole(mlp(), 2, step=1), strict=True)]
    found = ranks(2, run)
    assert not torch.equal(found[0][0][0], found[1][0][0])
    for _, both in found:
        assert_close(both, expected)


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.parts = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(4)])

    def forward(self, x, chosen):
        for i in chosen:
            x = torch.tanh(self.parts[i](x))
        return x


@pytest.mark.parametrize("views", [False, True])
def test_parts_that_are_used_in_some_steps_and_processes(ranks, views):
    plan = [[(0, 1), (1, 2)], [(2,), (2,)], [(0, 1), (1, 2)], [(1, 2, 1), (0,)]]

    def run(rank):
        model = DDP(Branches(), bucket_cap_mb=TINY, gradient_as_bucket_view=views)
        seen = []
        for step in plan:
            model.zero_grad()
            model(batch(rank), step[rank]).mean().backward()
            seen.append(grads(model))
        with model.no_sync():  # used only where nothing is combined
            model(batch(rank), (3,)).mean().backward()
        model(batch(rank), (0,)).mean().backward()
        return seen, grads(model)

    expected = []
    for step in plan:
        model = Branches()
        sum(model(batch(r), step[r]).mean() for r in range(2)).div(2).backward()
        expected.append(grads(model))
    (first, last), (second, other) = ranks(2, run)
    for ours, theirs, alone in zip(first, second, expected, strict=True):
        assert same(ours, theirs)
        assert_close(ours, alone)
    assert last[-1] is not None and same(last, other)


@pytest.mark.parametrize("views", [False, True])
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("twice", [False, True])
def test_checkpoints_inside(ranks, views, reentrant, twice):
    def forward(net, x):
        x = net[0](x).requires_grad_()
        x = checkpoint(net[2], x, use_reentrant=reentrant)
        x = checkpoint(lambda y: torch.tanh(net[4](y)), x, use_reentrant=reentrant)
        return net[4](net[2](x)) if twice else x  # the same layers outside, too

    def run(rank):
        net = mlp()
        model = DDP(net, bucket_cap_mb=TINY, gradient_as_bucket_view=views)
        seen = []
        for _ in range(3):
            model.zero_grad()
            forward(net, batch(rank)).mean().backward()
            seen.append(grads(net))
        return seen

    expected = whole(mlp(), 2, forward)
    found = ranks(2, run)
    for steps in found:
        for step in steps:
            assert_close(step, expected)
    assert all(same(a, b) for a, b in zip(*found, strict=True))


def test_a_memory_budget_inside(ranks):
    def run(rank):
        model = DDP(mlp(), bucket_cap_mb=TINY)
        with torch.tape.budget(2000):
            model(batch(rank)).mean().backward()
        return grads(model)

    expected = whole(mlp(), 2)
    for found in ranks(2, run):
        assert_close(found, expected)


def test_a_second_backward_and_second_derivatives(ranks):
    def penalty(net, x):
        x = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        return slope.square().sum(1)

    def run(rank):
        model = DDP(mlp(), bucket_cap_mb=TINY)
        loss = model(batch(rank)).mean()
        loss.backward(retain_graph=True)
        once = grads(model)
        loss.backward()
        twice = grads(model)
        model.zero_grad()
        penalty(model, batch(rank)).mean().backward()
        return once, twice, grads(model)

    expected, second = whole(mlp(), 2), whole(mlp(), 2, penalty)
    for once, twice, slopes in ranks(2, run):
        assert_close(once, expected)
        assert_close(twice, [2 * g for g in expected])
        # The last bias has no part in the slope.
        assert_close(slopes, second)


@pytest.mark.parametrize("views", [False, True])
def test_several_dtypes(ranks, views):
    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            names = ("float32", "float64", "bfloat16", "float16", "complex64")
            self.kinds = [getattr(torch, name) for name in names]
            values = [torch.arange(1, 4).to(kind) for kind in self.kinds for _ in range(2)]
            self.weights = torch.nn.ParameterList(values)

        def forward(self, rank):
            factor = torch.arange(3) + rank
            return sum((w * factor).abs().square().real.sum().double() for w in self.weights)

    def run(rank):
        model = DDP(Mixed(), bucket_cap_mb=TINY, gradient_as_bucket_view=views)
        for _ in range(2):
            model.zero_grad()
            model(rank).backward()
        return grads(model)

    model = Mixed()
    (sum(model(r) for r in range(2)) / 2).backward()
    for found in ranks(2, run):
        assert [g.dtype for g in found] == [p.dtype for p in model.parameters()]
        assert_close(found, grads(model))


@pytest.mark.parametrize("by_all", [True, False])
@pytest.mark.parametrize("views", [False, True])
def test_uneven_inputs(ranks, by_all, views):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = mlp(1)
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, x):
            self.seen += 1
            return self.net(x)

    def step(optimizer, loss):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    alone = Net()
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.1)
    for i in range(3):
        there = range(i, 3)
        loss = sum(alone(batch(r, i)).square().mean() for r in there)
        step(optimizer, loss / (3 if by_all else len(there)))

    def run(rank):
        model = DDP(Net(), bucket_cap_mb=TINY, gradient_as_bucket_view=views)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with model.join(divide_by_initial_world_size=by_all):
            for i in range(rank + 1):
                step(optimizer, model(batch(rank, i)).square().mean())
        return list(model.state_dict().values())

    found = ranks(3, run)
    assert same(found[0], found[1]) and same(found[0], found[2])
    assert_close(found[0][1:], [p.detach() for p in alone.parameters()])
    assert found[0][0].item() == 3, "buffers are those of a process that was among the last"


def test_uneven_inputs_that_end_early(ranks):
    def run(rank):
        model = DDP(mlp(1))
        with (
            pytest.raises(RuntimeError, match="no inputs left"),
            model.join(throw_on_early_termination=True),
        ):
            for i in range(rank + 1):
                model(batch(rank, i)).mean().backward()

    ranks(2, run)


def test_uneven_inputs_with_steps_that_combine_nothing(ranks):
    def run(rank):
        model = DDP(mlp(1))
        with model.join():
            for i in range(2 * rank + 2):
                if i % 2:
                    model(batch(rank, i)).mean().backward()
                else:
                    with model.no_sync():
                        model(batch(rank, i)).mean().backward()
                with torch.no_grad():
                    model(batch(rank, i))
        return [p.detach().clone() for p in model.parameters()]

    first, second = ranks(2, run)
    assert same(first, second)


def test_static_graphs_refuse_what_differs(ranks):
    def run(rank):
        model = DDP(Branches(), static_graph=True)
        for _ in range(2):
            model(batch(rank), (0, 1)).mean().backward()
        with pytest.raises(RuntimeError, match=r"differs in parts\.1\.weight, parts\.1\.bias"):
            model(batch(rank), (0,)).mean().backward()

    ranks(2, run)


def test_an_error_in_a_backward(ranks):
    def run(rank):
        model = DDP(mlp(), bucket_cap_mb=TINY)
        model(batch(rank)).mean().backward()
        x = batch(rank).requires_grad_()
        x.register_hook(lambda grad: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model(x).mean().backward()
        with pytest.raises(RuntimeError, match="an error ended the backward before this one"):
            model(batch(rank)).mean().backward()
        for future in model._reducer._round.begun:  # what was begun ends
            future.wait()

    ranks(2, run)


def test_sparse_gradients_are_refused(ranks):
    def run(rank):
        model = DDP(torch.nn.Embedding(4, 2, sparse=True))
        with pytest.raises(NotImplementedError, match="the gradient of weight is sparse"):
            model(torch.tensor([1, 2])).sum().backward()

    ranks(2, run)


def test_compressed_gradients_of_several_processes(ranks):
    def run(rank, hook):
        model = DDP(mlp(), bucket_cap_mb=TINY)
        model.register_comm_hook(None, hook)
        model(batch(rank)).mean().backward()
        return grads(model)

    expected = whole(mlp(), 2)
    for hook in (default_hooks.fp16_compress_hook, default_hooks.bf16_compress_hook):
        for found in ranks(2, lambda rank, hook=hook: run(rank, hook)):
            for a, b in zip(found, expected, strict=True):
                torch.testing.assert_close(a, b, rtol=2e-2, atol=1e-3)


@pytest.mark.parametrize("cap", [TINY, 25])
@pytest.mark.parametrize("wrapped", [False, True])
def test_power_sgd(ranks, cap, wrapped):
    def run(rank):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.Linear(16, 8))
        model = DDP(net, bucket_cap_mb=cap)
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=2, start_powerSGD_iter=2
        )
        hook = powerSGD_hook.powerSGD_hook
        model.register_comm_hook(
            state, default_hooks.bf16_compress_wrapper(hook) if wrapped else hook
        )
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        losses = []
        for _ in range(30):
            x = batch(rank, size=16)
            optimizer.zero_grad()
            loss = (model(x) - x[:, :8]).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert state.iter == 30 and state.error_dict and state.q_memory_dict
        ranks_ = [torch.linalg.matrix_rank(net[0].weight.grad.float(), tol=1e-2).item()]
        return losses, [p.detach().clone() for p in model.parameters()], ranks_

    first, second = ranks(2, run)
    assert same(first[1], second[1]), "all processes have the same gradients"
    assert first[2] == [2] or wrapped
    for losses, _, _ in (first, second):
        assert losses[-1] < 0.5 * losses[0]


def test_power_sgd_refuses():
    with pytest.raises(ValueError, match="start_powerSGD_iter"):
        powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=1)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=0)


def test_models_by_copy_go_on(ranks):
    def run(rank):
        model = DDP(mlp(), bucket_cap_mb=TINY, gradient_as_bucket_view=True)
        model(batch(rank)).mean().backward()
        model.zero_grad()
        again = copy.deepcopy(model)
        again(batch(rank)).mean().backward()
        assert dist.get_world_size() == 2
        return grads(again)

    expected = whole(mlp(), 2)
    for found in ranks(2, run):
        assert_close(found, expected)
