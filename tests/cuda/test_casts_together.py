"""Casts of parameters that former blocks of autocast made: all of them in one launch.

See Note [Casts that are made together] in csrc/ops/autocast.h.
"""

import gc
import weakref

import pytest
from library import torch

from .test_gradient_dtypes import gradients, kernels_of

nn = torch.nn


def make(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 7), nn.Linear(7, 3)).cuda()


def batch():
    torch.manual_seed(1)
    return torch.randn(5, 6).cuda().requires_grad_()


def loss_of(model, x, **options):
    with torch.autocast("cuda", torch.bfloat16, **options):
        return model(x).float().square().sum()


def step(model, x, **options):
    loss_of(model, x, **options).backward()
    return gradients(model, x)


def casts(function):
    """Return how many casts there were of many tensors, and of one."""
    kernels = kernels_of(function)
    return kernels.get("cast_tensors", 0), kernels.get("copy", 0)


def test_the_second_block_casts_at_once_with_the_same_bits():
    model, x = make(), batch()
    assert casts(lambda: loss_of(model, x)) == (0, 8)  # of parameters, x and y
    assert casts(lambda: loss_of(model, x)) == (1, 1)
    together = step(model, x)
    alone = step(model, x, cache_enabled=False)
    assert casts(lambda: loss_of(model, x, cache_enabled=False)) == (0, 8)
    for a, b in zip(together, alone, strict=True):
        assert torch.equal(a, b)


def test_the_tape_looks_the_same():
    model, x = make(), batch()

    def names(loss):
        return [(entry.name, entry.line) for entry in torch.tape.of(loss)]

    (first, second) = (names(loss_of(model, x)) for _ in range(2))
    assert first == second and any("ToCopy" in name for name, _ in first)


def test_a_parameter_that_is_written_in_the_block_is_cast_again():
    model, x = make(), batch()
    step(model, x)
    with torch.autocast("cuda", torch.bfloat16):
        hidden = model[0](x)
        with torch.no_grad():
            model[2].weight.mul_(2)
            model[3].bias.data = model[3].bias.detach() + 1
        found = model[3](model[2](torch.nn.functional.gelu(hidden)))
    with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
        wanted = model(x)
    assert torch.equal(found, wanted)


def test_what_changed_between_the_blocks():
    """Parameters that froze, moved to another dtype or shape, or are gone."""
    model, x = make(), batch()
    step(model, x)
    model[2].weight.requires_grad_(False)
    model[2].bias.data = model[2].bias.detach().double()
    model[3] = nn.Linear(7, 4).cuda()
    model[2].bias.data = model[2].bias.detach().float()
    found = loss_of(model, x)
    assert torch.equal(found, loss_of(model, x, cache_enabled=False))
    found.backward()
    assert model[2].weight.grad is None
    gradients(nn.ModuleList([model[0], model[3]]), x)


def test_nothing_is_held():
    model, x = make(), batch()
    step(model, x)
    watched = [weakref.ref(parameter) for parameter in model.parameters()]
    first = model[0]
    del model
    gc.collect()
    assert sum(each() is not None for each in watched) == 2  # of the first layer
    with torch.autocast("cuda", torch.bfloat16):
        first(x)
    del first
    gc.collect()
    assert not any(each() is not None for each in watched)


def test_models_that_take_turns_have_groups_of_their_own():
    """Also where they begin with the same leaf."""
    models, x = [make(0), make(1)], batch()
    for _ in range(3):
        for model in models:
            step(model, x)
    for model in models:
        assert casts(lambda model=model: loss_of(model, x)) == (1, 2)


def test_an_input_that_is_another_leaf_each_time():
    model = make()
    for _ in range(2):
        step(model, batch())
    x = batch()
    assert casts(lambda: loss_of(model, x)) == (1, 2)


def test_recomputed_blocks_cast_what_they_need():
    model, x = make(), batch()
    wanted = step(model, x)

    def run():
        with torch.autocast("cuda", torch.bfloat16):
            y = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)
            return y.float().square().sum()

    run().backward()
    gradients(model, x)
    loss = run()
    assert casts(loss.backward)[0] == 0
    for a, b in zip(gradients(model, x), wanted, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("kind", ["budget", "record", "no_grad", "float16"])
def test_beside_other_features(kind):
    model, x = make(), batch()
    step(model, x)
    wanted = step(model, x, cache_enabled=False)
    if kind == "budget":
        with torch.tape.budget("1 MiB"):
            found = step(model, x)
    elif kind == "record":
        with torch.tape.record(replay=True):
            found = step(model, x)
    elif kind == "no_grad":
        with torch.no_grad():
            assert torch.equal(loss_of(model, x), loss_of(model, x, cache_enabled=False))
        found = step(model, x)
    else:
        with torch.autocast("cuda", torch.float16):
            assert model(x).dtype is torch.float16
        found = step(model, x)
    for a, b in zip(found, wanted, strict=True):
        assert torch.equal(a, b)
    assert casts(lambda: loss_of(model, x))[0] == 1


def test_a_graph_casts_what_the_parameters_hold_when_it_is_replayed():
    model, x = make(), batch().detach()
    with torch.no_grad():
        for _ in range(2):
            loss_of(model, x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = loss_of(model, x)
        model[2].weight.mul_(1.5)
        graph.replay()
        assert torch.equal(found, loss_of(model, x, cache_enabled=False))
