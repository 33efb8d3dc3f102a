"""What a function is likely to use is found, and is as it was when the function runs again."""

import functools
import types

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("tapegrad's own", allow_module_level=True)

from tapegrad import nn
from tapegrad.utils._replay import Surroundings, parts_of

GLOBAL = nn.Tanh()


def names_a_global(x):
    return GLOBAL(x)


def test_modules_are_found():
    inner = nn.Linear(1, 1)
    outer = nn.Sequential(inner, nn.Sequential(nn.Tanh()))
    holder = types.SimpleNamespace(models=[outer])

    class Trainer:
        def __init__(self):
            self.model = outer

        def run(self, x):
            return self.model(x)

    helper = lambda x: outer(x)  # noqa: E731
    everything = {id(each) for each in outer.modules()}
    for function in (
        outer,
        outer.forward,
        Trainer().run,
        helper,
        lambda x: helper(x),
        functools.partial(lambda model, x: model(x), outer),
        lambda x, model=outer: model(x),
        lambda x: holder.models[0](x),
    ):
        assert {id(each) for each in parts_of(function)[0]} == everything
    assert {id(each) for each in parts_of(torch.exp, [{"model": outer}])[0]} == everything
    assert [each is GLOBAL for each in parts_of(names_a_global)[0]] == [True]
    assert parts_of(torch.exp, [torch.ones(2), 3, "text", None]) == ([], [])


def test_generators_are_found():
    own = torch.Generator()
    assert parts_of(lambda: torch.rand(2, generator=own))[1] == [own]
    assert parts_of(torch.rand, [2, own])[1] == [own]


def test_looking_ends():
    loop = []
    loop.append(loop)
    many = [object() for _ in range(10_000)]
    chain = None
    for _ in range(100):
        chain = types.SimpleNamespace(next=chain)
    assert parts_of(lambda: (loop, many, chain)) == ([], [])


def test_all_is_as_it_was_and_then_as_it_is():
    own = torch.Generator().manual_seed(1)
    model = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2))

    def function():
        return model, own

    torch.manual_seed(5)
    surroundings = Surroundings(function)
    drawn = torch.rand(2).tolist(), torch.rand(2, generator=own).tolist()
    now = torch.get_rng_state().tolist(), own.get_state().tolist()
    model.eval()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad(), pytest.raises(KeyError), surroundings:
            assert torch.is_grad_enabled()
            assert torch.get_default_dtype() == torch.float32
            assert all(each.training for each in model.modules())
            assert (torch.rand(2).tolist(), torch.rand(2, generator=own).tolist()) == drawn
            with surroundings:  # nests
                assert torch.rand(2).tolist() == drawn[0]
            model[1](torch.ones(3, 2))
            raise KeyError
        assert torch.is_grad_enabled()
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert not any(each.training for each in model.modules())
    assert (torch.get_rng_state().tolist(), own.get_state().tolist()) == now
    assert model[1].num_batches_tracked.item() == 0
    assert model[1].running_mean.tolist() == [0.0, 0.0]
