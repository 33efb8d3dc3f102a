"""nn.utils.prune: masks on parameters. Run on both libraries, and beside each other."""

import importlib

import numpy as np
import pytest

from .side_by_side import copy_state, expect_near, numbers, tensor_of


def prune_of(torch):
    return importlib.import_module(torch.__name__ + ".nn.utils.prune")


def pair(both):
    layers = [library.nn.Linear(5, 6, dtype=library.float64) for library in both]
    copy_state(layers[1], layers[0], both[0])
    return layers


def expect_same_layers(both, layers):
    ours, theirs = layers
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for key, value in ours.state_dict().items():
        expect_near(value, theirs.state_dict()[key], key)
    expect_near(ours.weight, theirs.weight, "weight")
    results = []
    for library, layer in zip(both, layers, strict=True):
        layer.zero_grad()
        x = tensor_of(library, numbers(3, 5)).detach()
        output = layer(x)
        output.sin().sum().backward()
        results.append((output, *[parameter.grad for parameter in layer.parameters()]))
    for own, their in zip(*results, strict=True):
        expect_near(own, their, "forward and backward")


CHAINS = [
    [("l1_unstructured", {"amount": 0.3})],
    [("l1_unstructured", {"amount": 7})],
    [("l1_unstructured", {"amount": 0})],
    [("ln_structured", {"amount": 2, "n": 2, "dim": 0})],
    [("ln_structured", {"amount": 0.5, "n": 1, "dim": 1})],
    [("ln_structured", {"amount": 1, "n": float("inf"), "dim": -1})],
    [("identity", {})],
    [("l1_unstructured", {"amount": 0.3}), ("l1_unstructured", {"amount": 5})],
    [("l1_unstructured", {"amount": 0.3}), ("ln_structured", {"amount": 2, "n": 2, "dim": 0})],
    [("ln_structured", {"amount": 2, "n": 2, "dim": 0}), ("l1_unstructured", {"amount": 0.5})],
    [
        ("ln_structured", {"amount": 2, "n": 2, "dim": 0}),
        ("ln_structured", {"amount": 0.5, "n": 2, "dim": 1}),
        ("identity", {}),
    ],
]


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: "-".join(name for name, _ in chain))
def test_methods_and_chains(both, chain):
    layers = pair(both)
    for library, layer in zip(both, layers, strict=True):
        for name, kwargs in chain:
            assert getattr(prune_of(library), name)(layer, "weight", **kwargs) is layer
    expect_same_layers(both, layers)
    hooks = [list(layer._forward_pre_hooks.values()) for layer in layers]
    assert type(hooks[0][0]).__name__ == type(hooks[1][0]).__name__
    assert len(hooks[0]) == len(hooks[1]) == 1
    for library, layer in zip(both, layers, strict=True):
        prune_of(library).remove(layer, "weight")
        assert isinstance(layer.weight, library.nn.Parameter)
        assert not prune_of(library).is_pruned(layer)
    assert sorted(layers[0].state_dict()) == ["bias", "weight"]
    expect_same_layers(both, layers)


def test_importance_scores(both):
    layers = pair(both)
    for library, layer in zip(both, layers, strict=True):
        scores = tensor_of(library, numbers(6, 5, seed=3)).detach()
        prune_of(library).l1_unstructured(layer, "weight", 0.5, importance_scores=scores)
        prune_of(library).ln_structured(layer, "weight", 2, 2, 0, importance_scores=scores)
    expect_same_layers(both, layers)


def test_custom_masks(both):
    layers = pair(both)
    mask = np.random.default_rng(0).integers(0, 2, (6, 5)).tolist()
    for library, layer in zip(both, layers, strict=True):
        prune_of(library).custom_from_mask(layer, "weight", library.tensor(mask))
        prune_of(library).l1_unstructured(layer, "weight", 3)
        prune_of(library).custom_from_mask(layer, "weight", library.tensor(mask[::-1]))
    expect_same_layers(both, layers)


def test_global_unstructured(both):
    models = []
    for library in both:
        torch = library
        models.append(
            torch.nn.Sequential(
                torch.nn.Linear(3, 4, dtype=torch.float64), torch.nn.Linear(4, 2).double()
            )
        )
    copy_state(models[1], models[0], both[0])
    for library, model in zip(both, models, strict=True):
        prune = prune_of(library)
        pairs = [(model[0], "weight"), (model[1], "weight")]
        prune.global_unstructured(pairs, prune.L1Unstructured, amount=0.5)
        prune.global_unstructured(tuple(pairs), prune.L1Unstructured, amount=2)
        scores = {pairs[0]: library.arange(12.0).reshape(4, 3).double()}
        prune.global_unstructured(pairs, prune.L1Unstructured, scores, amount=1)
    for key, value in models[0].state_dict().items():
        expect_near(value, models[1].state_dict()[key], key)
    zeros = sum(int((layer.weight == 0).sum()) for layer in models[0])
    assert zeros == 13


def test_random_methods(torch):
    prune = prune_of(torch)
    layer = prune.random_unstructured(torch.nn.Linear(5, 6), "weight", 11)
    assert int((layer.weight_mask == 0).sum()) == 11
    prune.random_unstructured(layer, "weight", 0.5)
    assert int((layer.weight_mask == 0).sum()) == 11 + 10
    layer = prune.random_structured(torch.nn.Linear(5, 6), "weight", 2, dim=0)
    assert sorted(layer.weight_mask.sum(1).tolist()) == [0, 0, 5, 5, 5, 5]
    prune.random_structured(layer, "weight", 0.5, dim=0)
    assert sorted(layer.weight_mask.sum(1).tolist()) == [0, 0, 0, 0, 5, 5]
    layer = prune.random_structured(torch.nn.Linear(5, 6), "weight", 3, dim=-1)
    assert sorted(layer.weight_mask.sum(0).tolist()) == [0, 0, 0, 6, 6]


def test_prune_of_tensors(torch):
    prune = prune_of(torch)
    x = torch.tensor([1.0, -3.0, 2.0, 0.0])
    assert prune.L1Unstructured(0.5).prune(x).tolist() == [0, -3, 2, 0]
    mask = torch.tensor([0.0, 1.0, 1.0, 1.0])
    assert prune.L1Unstructured(2).prune(x, default_mask=mask).tolist() == [0, -3, 2, 0]
    scores = torch.tensor([4.0, 1.0, 2.0, 3.0])
    assert prune.L1Unstructured(2).prune(x, importance_scores=scores).tolist() == [1, 0, 0, 0]
    assert prune.Identity().prune(x).tolist() == x.tolist()
    rows = torch.tensor([[1.0, 1.0], [3.0, 3.0]])
    assert prune.LnStructured(1, 2, 0).prune(rows).tolist() == [[0, 0], [3, 3]]


def test_hooks_and_names(torch):
    prune = prune_of(torch)
    layer = torch.nn.Linear(3, 2)
    before = layer.weight
    assert not prune.is_pruned(layer)
    prune.l1_unstructured(layer, "weight", 0.5)
    assert layer.weight_orig is before and type(layer.weight) is torch.Tensor
    assert [name for name, _ in layer.named_buffers()] == ["weight_mask"]
    assert prune.is_pruned(torch.nn.Sequential(layer))
    prune.l1_unstructured(layer, "bias", 1)
    prune.remove(layer, "weight")
    assert layer.weight is before and prune.is_pruned(layer)
    prune.remove(layer, "bias")
    assert not prune.is_pruned(layer)


def test_the_mask_holds_while_training(torch):
    prune = prune_of(torch)
    layer = prune.l1_unstructured(torch.nn.Linear(3, 2), "weight", 3)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        layer(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    layer(torch.ones(2, 3))
    assert int((layer.weight == 0).sum()) == 3


def test_containers(torch):
    prune = prune_of(torch)
    first, second = prune.L1Unstructured(1), prune.Identity()
    first._tensor_name = second._tensor_name = "weight"
    container = prune.PruningContainer(first)
    container.add_pruning_method(second)
    assert len(container) == 2 and list(container) == [first, second] and container[1] is second
    other = prune.Identity()
    other._tensor_name = "bias"
    with pytest.raises(ValueError, match="acting on the parameter named 'weight'"):
        container.add_pruning_method(other)
    with pytest.raises(TypeError, match="is not a BasePruningMethod"):
        container.add_pruning_method(3)


ERRORS = [
    (lambda p, x: p.l1_unstructured(x, "weight", 1.5), ValueError, "in the range"),
    (lambda p, x: p.l1_unstructured(x, "weight", -1), ValueError, "in the range"),
    (lambda p, x: p.l1_unstructured(x, "weight", 7), ValueError, "number of parameters to prune=6"),
    (lambda p, x: p.l1_unstructured(x, "weight", "a"), TypeError, "Invalid type for amount"),
    (lambda p, x: p.random_structured(x, "bias", 1, 0), ValueError, "multidimensional"),
    (lambda p, x: p.random_structured(x, "weight", 1, 2), IndexError, "Invalid index 2"),
    (lambda p, x: p.ln_structured(x, "weight", 5, 2, 0), ValueError, "to prune=2"),
    (lambda p, x: p.remove(x, "weight"), ValueError, "has to be pruned before"),
    (lambda p, x: p.global_unstructured(3, p.L1Unstructured, amount=1), TypeError, "Iterable"),
    (
        lambda p, x: p.global_unstructured([(x, "weight")], p.RandomStructured, amount=1),
        TypeError,
        "unstructured",
    ),
    (
        lambda p, x: p.l1_unstructured(x, "weight", 1, importance_scores=x.bias),
        AssertionError,
        "same shape",
    ),
    (lambda p, x: p.custom_from_mask(x, "weight", x.bias), AssertionError, "must match"),
    (lambda p, x: p.BasePruningMethod(), TypeError, "abstract"),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS)
def test_errors(torch, call, error, text):
    layer = torch.nn.Linear(3, 2)
    with pytest.raises(error, match=text):
        call(prune_of(torch), layer)
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    assert layer(torch.ones(1, 3)).shape == (1, 2)
