"""nn.utils.parametrize: tensors of a module as functions of others. Run on both libraries."""

import copy
import pickle

import pytest


def classes(torch):
    """Return parametrizations: a symmetric matrix, a sum of two tensors, and bad ones."""

    class Symmetric(torch.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).transpose(-1, -2)

        def right_inverse(self, x):
            return x.triu()

    class Sum(torch.nn.Module):
        def forward(self, a, b):
            return a + b

        def right_inverse(self, x):
            return x / 4, x * 0.75

    class Twice(torch.nn.Module):
        def forward(self, x):
            return 2 * x

    class Returns(torch.nn.Module):
        def __init__(self, forward, inverse=None):
            super().__init__()
            self.function = forward
            if inverse is not None:
                self.right_inverse = inverse

        def forward(self, x):
            return self.function(x)

    return Symmetric, Sum, Twice, Returns


def parametrized(torch, kind, *shape):
    layer = torch.nn.Linear(*(shape or (3, 3)))
    before = layer.weight
    made = torch.nn.utils.parametrize.register_parametrization(layer, "weight", kind())
    assert made is layer
    return layer, before


def test_names_classes_and_repr(torch):
    symmetric, total, _, _ = classes(torch)
    layer, before = parametrized(torch, symmetric)
    assert type(layer).__name__ == "ParametrizedLinear" and isinstance(layer, torch.nn.Linear)
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert layer.parametrizations.weight.original is before
    assert repr(layer) == (
        "ParametrizedLinear(\n  in_features=3, out_features=3, bias=True\n  (parametrizations): "
        "ModuleDict(\n    (weight): ParametrizationList(\n      (0): Symmetric()\n    )\n  )\n)"
    )
    parametrize = torch.nn.utils.parametrize
    assert parametrize.is_parametrized(layer) and parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias")
    assert parametrize.type_before_parametrizations(layer) is torch.nn.Linear
    assert parametrize.type_before_parametrizations(torch.nn.ReLU()) is torch.nn.ReLU
    assert isinstance(layer.parametrizations.weight, parametrize.ParametrizationList)
    several, _ = parametrized(torch, total)
    assert list(several.state_dict()) == [
        "bias",
        "parametrizations.weight.original0",
        "parametrizations.weight.original1",
    ]
    assert several.parametrizations.weight.ntensors == 2
    assert not several.parametrizations.weight.is_tensor


def test_values_and_gradients(torch):
    symmetric, *_ = classes(torch)
    layer, before = parametrized(torch, symmetric)
    assert torch.equal(layer.weight, layer.weight.T)
    assert torch.equal(layer.weight.triu(), before)  # The inverse ran once.
    layer(torch.ones(2, 3)).sum().backward()
    assert before.grad.tolist() == [[2, 4, 4], [0, 2, 4], [0, 0, 2]]
    assert [name for name, _ in layer.named_parameters()] == [
        "bias",
        "parametrizations.weight.original",
    ]


def test_assignment_goes_through_the_inverse(torch):
    symmetric, total, twice, _ = classes(torch)
    layer, before = parametrized(torch, symmetric)
    layer.weight = torch.ones(3, 3)
    assert layer.parametrizations.weight.original is before
    assert before.tolist() == [[1, 1, 1], [0, 1, 1], [0, 0, 1]]
    several, _ = parametrized(torch, total)
    several.weight = torch.full((3, 3), 4.0)
    assert several.parametrizations.weight.original0.tolist() == [[1.0] * 3] * 3
    assert several.parametrizations.weight.original1.tolist() == [[3.0] * 3] * 3
    without, _ = parametrized(torch, twice)
    with pytest.raises(RuntimeError, match="Twice does not implement right_inverse"):
        without.weight = torch.ones(3, 3)


def test_chains_and_several_tensors(torch):
    symmetric, _, twice, _ = classes(torch)
    layer, before = parametrized(torch, symmetric)
    parametrize = torch.nn.utils.parametrize
    parametrize.register_parametrization(layer, "weight", twice())
    parametrize.register_parametrization(layer, "bias", twice())
    assert torch.equal(layer.weight.triu(), 2 * before)
    assert layer.bias.tolist() == (2 * layer.parametrizations.bias.original).tolist()
    assert list(layer.state_dict()) == [
        "parametrizations.weight.original",
        "parametrizations.bias.original",
    ]
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer).__name__ == "ParametrizedLinear" and layer.weight is before
    assert parametrize.is_parametrized(layer, "bias")
    parametrize.remove_parametrizations(layer, "bias")
    assert type(layer) is torch.nn.Linear and not hasattr(layer, "parametrizations")


def test_buffers(torch):
    _, _, twice, _ = classes(torch)
    norm = torch.nn.BatchNorm1d(2)
    torch.nn.utils.parametrize.register_parametrization(norm, "running_var", twice())
    assert norm.running_var.tolist() == [2, 2]
    assert "parametrizations.running_var.original" in dict(norm.named_buffers())
    torch.nn.utils.parametrize.remove_parametrizations(norm, "running_var")
    assert dict(norm.named_buffers())["running_var"].tolist() == [2, 2]


def test_removal(torch):
    symmetric, total, _, _ = classes(torch)
    parametrize = torch.nn.utils.parametrize
    layer, before = parametrized(torch, symmetric)
    value = layer.weight.detach().clone()
    parametrize.remove_parametrizations(layer, "weight")
    assert layer.weight is before and torch.equal(layer.weight, value)
    assert type(layer) is torch.nn.Linear and layer.weight.requires_grad
    layer, before = parametrized(torch, symmetric)
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert layer.weight is before and layer.weight.tril(-1).abs().sum().item() == 0
    several, _ = parametrized(torch, total)
    with pytest.raises(ValueError, match="sequence of tensors"):
        parametrize.remove_parametrizations(several, "weight", leave_parametrized=False)
    parametrize.remove_parametrizations(several, "weight")
    assert isinstance(several.weight, torch.nn.Parameter) and several.weight.requires_grad
    with pytest.raises(ValueError, match="does not have a parametrization"):
        parametrize.remove_parametrizations(layer, "weight")


def test_caching(torch):
    symmetric, *_ = classes(torch)
    layer, _ = parametrized(torch, symmetric)
    assert layer.weight is not layer.weight
    with torch.nn.utils.parametrize.cached():
        first = layer.weight
        with torch.nn.utils.parametrize.cached():
            assert layer.weight is first
        assert layer.weight is first
    assert layer.weight is not first


def test_caching_knows_modules_that_are_gone():
    """In PyTorch a module that gets the id of one that is gone gets its values, too."""
    import gc

    import tapegrad as torch

    class Same(torch.nn.Module):
        def forward(self, x):
            return x

    with torch.nn.utils.parametrize.cached():
        for number in range(20):
            layer = torch.nn.Linear(2, 2)
            with torch.no_grad():
                layer.weight.fill_(number)
            torch.nn.utils.parametrize.register_parametrization(layer, "weight", Same())
            assert layer.weight[0, 0].item() == number
            del layer
            gc.collect()


def test_copies(torch):
    symmetric, *_ = classes(torch)
    layer, _ = parametrized(torch, symmetric)
    replica = copy.deepcopy(layer)
    assert torch.equal(replica.weight, layer.weight)
    assert replica.parametrizations.weight.original is not layer.parametrizations.weight.original
    with torch.no_grad():
        replica.parametrizations.weight.original.zero_()
    assert replica.weight.abs().sum().item() == 0 and layer.weight.abs().sum().item() > 0
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(layer)


def test_removal_from_a_copy_leaves_the_other():
    """In PyTorch the two share a class that removal changes."""
    import tapegrad as torch

    symmetric, _, twice, _ = classes(torch)
    layer, _ = parametrized(torch, symmetric)
    torch.nn.utils.parametrize.register_parametrization(layer, "bias", twice())
    replica = copy.deepcopy(layer)
    torch.nn.utils.parametrize.remove_parametrizations(replica, "weight")
    assert torch.equal(layer.weight, layer.weight.T)


def test_state_dicts(torch):
    symmetric, total, *_ = classes(torch)
    for kind in (symmetric, total):
        first, _ = parametrized(torch, kind)
        second, _ = parametrized(torch, kind)
        second.load_state_dict(first.state_dict())
        assert torch.equal(first.weight, second.weight)


def test_training_through_a_parametrization(torch):
    symmetric, *_ = classes(torch)
    layer, _ = parametrized(torch, symmetric)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    x, target = torch.eye(3), torch.tensor([[1.0, 2.0, 0.0], [2.0, 0.0, 1.0], [0.0, 1.0, 3.0]])
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = (layer(x) - target).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 1e-2 * losses[0] and torch.equal(layer.weight, layer.weight.T)


def test_modes_follow_the_module(torch):
    _, _, twice, _ = classes(torch)
    layer = torch.nn.Linear(2, 2).eval()
    parametrization = twice()
    torch.nn.utils.parametrize.register_parametrization(layer, "weight", parametrization)
    assert not parametrization.training
    assert layer.train() is layer and parametrization.training


BAD = [
    (lambda x: x[:2], None, "change the shape"),
    (lambda x: x.double(), None, "change the dtype"),
    (lambda x: 3, None, "must return a tensor"),
    (lambda x: x, lambda x: 3, "'right_inverse' must return a Tensor"),
    (lambda x: x, lambda x: x[:2], "change the shape"),
    (lambda x: x, lambda x: x.double(), "dtype"),
]


@pytest.mark.parametrize(("forward", "inverse", "text"), BAD)
def test_bad_parametrizations(torch, forward, inverse, text):
    *_, returns = classes(torch)
    layer = torch.nn.Linear(3, 3)
    register = torch.nn.utils.parametrize.register_parametrization
    with pytest.raises(ValueError, match=text):
        register(layer, "weight", returns(forward, inverse))


@pytest.mark.parametrize(("forward", "inverse", "text"), BAD[:3])
def test_bad_parametrizations_behind_others(torch, forward, inverse, text):
    symmetric, *_, returns = classes(torch)
    layer, _ = parametrized(torch, symmetric)
    with pytest.raises(ValueError, match=text):
        torch.nn.utils.parametrize.register_parametrization(layer, "weight", returns(forward))
    assert len(layer.parametrizations.weight) == 1


def test_unsafe_and_unknown_names(torch):
    *_, returns = classes(torch)
    layer = torch.nn.Linear(3, 3, bias=False)
    register = torch.nn.utils.parametrize.register_parametrization
    register(layer, "weight", returns(lambda x: x[:2]), unsafe=True)
    assert layer(torch.ones(1, 3)).shape == (1, 2)
    assert layer.parametrizations.weight.unsafe
    with pytest.raises(ValueError, match="with name 'foo'"):
        register(layer, "foo", returns(lambda x: x))


def test_transfer(torch):
    symmetric, total, _, _ = classes(torch)
    transfer = torch.nn.utils.parametrize.transfer_parametrizations_and_params
    for kind in (symmetric, total):
        source, _ = parametrized(torch, kind)
        target = torch.nn.Linear(3, 3)
        assert transfer(source, target) is target
        assert torch.equal(source.weight, target.weight)
        assert list(source.state_dict()) == list(target.state_dict())
    plain = torch.nn.Linear(2, 2)
    assert transfer(torch.nn.Linear(2, 2), plain) is plain and type(plain) is torch.nn.Linear
