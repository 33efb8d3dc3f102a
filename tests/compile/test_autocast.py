"""Autocast around and inside of compiled functions: the casts decide the bits of gradients."""

import pytest
from library import IS_TORCH, torch

from compile.pairs import Pair, batch, functional, nn

if IS_TORCH:
    pytest.skip("traces are tapegrad's own", allow_module_level=True)


def test_autocast():
    def make():
        model = nn.Linear(4, 2)
        return torch.no_grad()(lambda x: model(x)), {"model": model}

    pair = Pair(make)
    for i in range(12):
        with torch.autocast("cpu", torch.bfloat16, enabled=i % 3 == 0):
            pair.call(torch.randn(3, 4))


def test_autocast_inside():
    def make():
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x, y):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = functional.mse_loss(model(x).float(), y)
            loss.backward()
            optimizer.step()
            return loss

        return step, {"model": model}

    pair = Pair(make)
    for _ in range(6):
        pair.call(*batch())
    assert pair.traces == 1


def test_a_cast_that_several_calls_share():
    """The gradients of a weight that is cast once are added up in the dtype of the cast."""

    def make():
        model = nn.Linear(4, 4)

        def step(x):
            model.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                y = model(model(model(x)))
            y.float().square().sum().backward()
            return y.detach()

        return step, {"model": model}

    pair = Pair(make)
    for i in range(8):  # in a block of its own, whose casts outlive the call, and without
        with torch.autocast("cpu", torch.bfloat16, enabled=i > 3):
            pair.call(torch.randn(3, 4))
            pair.call(torch.randn(3, 4))
    assert pair.traces == 2, pair.reasons


def test_a_shared_cast_is_differentiated_outside():
    model = nn.Linear(4, 4)

    def twice(x):
        return model(model(x).tanh())

    compiled = torch.compile(twice)
    for _ in range(5):
        x, found = torch.randn(3, 4), []
        for each in (twice, compiled):
            model.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                y = each(x)
            y.float().square().sum().backward()
            found.append((y.detach(), model.weight.grad, model.bias.grad))
        assert all(torch.equal(*pair) for pair in zip(*found, strict=True))
    assert y.grad_fn.name() == "CompiledBackward"
