"""Ways to train and to generate, compiled beside eager: each one as programs write it."""

import pytest
from library import IS_TORCH, torch

from compile.pairs import Pair

if IS_TORCH:
    pytest.skip("traces are tapegrad's own", allow_module_level=True)

nn, functional, func = torch.nn, torch.nn.functional, torch.func


def model_of(last=4):
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, last))


def run(make, change=None, traces=1):
    """Compare calls before and after a change of both worlds."""
    pair = Pair(make)
    for _ in range(6):
        pair.call(torch.randn(3, 4))
    if change:
        pair.both(change)
        for _ in range(5):
            pair.call(torch.randn(3, 4))
    assert pair.traces == traces, pair.reasons


def training(model, loss_of=lambda model, x: model(x).square().mean(), after=None):
    """Return a step with SGD, which calls `after` between backward and update."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        loss = loss_of(model, x)
        loss.backward()
        if after:
            after()
        optimizer.step()
        return loss

    return step, {"model": model}


def test_layers_that_are_frozen_and_tied():
    def tied():
        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
        model[2].weight = model[0].weight
        return training(model)

    run(tied)
    run(tied, lambda world: world["model"][0].requires_grad_(False), traces=2)
    run(
        tied,
        lambda world: setattr(world["model"][2], "weight", nn.Parameter(torch.eye(4))),
        traces=2,
    )


def test_hooks_that_come_later():
    def of_module(world):
        world["model"][0].register_forward_hook(lambda module, args, result: result * 2)

    def of_weight(world):  # runs eagerly from then on
        world["model"][2].weight.register_hook(lambda grad: grad * 0.5)

    run(lambda: training(model_of()), of_module, traces=2)
    run(lambda: training(model_of()), of_weight, traces=1)


def test_parametrizations():
    names = nn.utils.parametrizations
    for change in (names.spectral_norm, names.weight_norm):
        run(lambda change=change: training(nn.Sequential(change(nn.Linear(4, 4)))))


def test_another_dtype():
    def loss_of(model, x):
        return model(x.to(model[0].weight.dtype)).square().mean()

    run(lambda: training(model_of(), loss_of), lambda world: world["model"].double(), traces=2)


def test_a_moving_average_of_the_weights():
    def make():
        model, average = model_of(), model_of().requires_grad_(False)
        step, world = training(model)

        def both(x):
            loss = step(x)
            with torch.no_grad():
                for mean, value in zip(average.parameters(), model.parameters(), strict=True):
                    mean.lerp_(value, 0.1)
            return loss

        return both, {**world, "average": average}

    run(make)


def test_gradients_that_are_kept_in_state():
    def make():
        model, kept = model_of(), torch.zeros(8, 4)

        def after():
            kept.mul_(0.9).add_(model[0].weight.grad)
            model[0].weight.grad.copy_(kept)
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)

        step, world = training(model, after=after)
        return step, {**world, "kept": kept}

    run(make)


def test_sharpness_aware_steps():
    def make():
        model = model_of()
        step, world = training(model)

        def sharp(x):
            model.zero_grad()
            model(x).square().mean().backward()
            before = [each.detach().clone() for each in model.parameters()]
            with torch.no_grad():
                norm = torch.stack([each.grad.norm() for each in model.parameters()]).norm()
                for each in model.parameters():
                    each.add_(each.grad / (norm + 1e-6), alpha=0.05)
            loss = step(x)
            with torch.no_grad():
                for each, value in zip(model.parameters(), before, strict=True):
                    each.copy_(value - 0.1 * each.grad)
            return loss

        return sharp, world

    run(make)


def test_steps_within_a_step():
    def loss_of(model, x):
        weights = dict(model.named_parameters())
        loss = func.functional_call(model, weights, (x,)).square().mean()
        grads = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        fast = {
            name: weight - 0.1 * grad
            for (name, weight), grad in zip(weights.items(), grads, strict=True)
        }
        return func.functional_call(model, fast, (x,)).square().mean()

    run(lambda: training(model_of(), loss_of))


def test_gradients_of_single_examples():
    def make():
        model = model_of()

        def loss_of(weights, row):
            return func.functional_call(model, weights, (row[None],)).square().mean()

        def grads(x):
            weights = {name: each.detach() for name, each in model.named_parameters()}
            return torch.vmap(func.grad(loss_of), (None, 0))(weights, x)

        return grads, {"model": model}

    def change(world):
        with torch.no_grad():
            world["model"][0].weight.add_(1)

    run(make, change)


def test_two_models_that_train_each_other():
    def make():
        maker, judge = model_of(), model_of(1)
        optimizers = [torch.optim.Adam(each.parameters(), lr=0.01) for each in (maker, judge)]
        loss_of = functional.binary_cross_entropy_with_logits

        def step(x):
            made = maker(torch.randn_like(x))
            optimizers[1].zero_grad()
            lost = loss_of(judge(x), torch.ones(3, 1))
            lost = lost + loss_of(judge(made.detach()), torch.zeros(3, 1))
            lost.backward()
            optimizers[1].step()
            optimizers[0].zero_grad()
            other = loss_of(judge(made), torch.ones(3, 1))
            other.backward()
            optimizers[0].step()
            return lost, other

        return step, {"maker": maker, "judge": judge}

    run(make)


def test_a_cache_that_is_written_in_place():
    def make():
        keys, place = torch.zeros(16, 4), torch.zeros(1, dtype=torch.int64)

        def token(x):
            keys.index_copy_(0, place, x[:1])
            unseen = torch.arange(16) > place
            place.add_(1)
            return (keys @ x[0]).masked_fill(unseen, -1e9).softmax(0)

        return torch.no_grad()(token), {"keys": keys, "place": place}

    run(make)


def test_a_state_that_is_carried():
    def make():
        model, state = nn.GRU(4, 4), torch.zeros(1, 3, 4)

        def step(x):
            y, last = model(x[None], state)
            state.copy_(last)
            return y.sum()

        return torch.no_grad()(step), {"state": state}

    run(make, lambda world: world["state"].zero_())


def test_arguments_that_overlap():
    def function(a, b):
        a.add_(1)
        b.mul_(2)
        return (a + b).sum()

    compiled = torch.compile(torch.no_grad()(function))
    spans = [(0, 4, 5, 9), (0, 4, 2, 6), (0, 4, 0, 4), (4, 8, 0, 4)]
    for call in range(12):
        found = []
        for each in (torch.no_grad()(function), compiled):
            base = torch.arange(10.0) * call
            first, last, begin, end = spans[call % 4]
            found.append((each(base[first:last], base[begin:end]), base))
        assert all(torch.equal(*pair) for pair in zip(*found, strict=True))
