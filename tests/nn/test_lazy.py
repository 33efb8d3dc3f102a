"""Lazy modules and tensors without a shape. Run on both libraries, and beside each other."""

import copy
import pickle

import pytest

from .side_by_side import copy_state, expect_near, numbers, tensor_of

LAZY = [
    ("LazyLinear", (4,), {}, (2, 5)),
    ("LazyLinear", (4,), {"bias": False}, (3, 2, 5)),
    ("LazyBatchNorm1d", (), {}, (4, 3)),
    ("LazyBatchNorm1d", (), {"affine": False}, (4, 3, 2)),
    ("LazyBatchNorm1d", (), {"track_running_stats": False, "bias": False}, (4, 3)),
    ("LazyBatchNorm2d", (1e-3, 0.2), {}, (2, 3, 4, 2)),
    ("LazyBatchNorm3d", (), {}, (2, 3, 2, 2, 2)),
    ("LazyInstanceNorm1d", (), {}, (2, 3, 4)),
    ("LazyInstanceNorm2d", (), {"affine": False}, (2, 3, 4, 2)),
    ("LazyInstanceNorm3d", (), {}, (2, 3, 2, 2, 2)),
]


@pytest.mark.parametrize(("name", "args", "kwargs", "shape"), LAZY)
def test_first_forward(both, name, args, kwargs, shape):
    modules = [
        getattr(library.nn, name)(*args, dtype=library.float64, **kwargs) for library in both
    ]
    assert repr(modules[0]) == repr(modules[1])
    assert list(modules[0].state_dict()) == list(modules[1].state_dict())
    for library, module in zip(both, modules, strict=True):
        parameters = list(module.parameters())
        module(library.ones(shape, dtype=library.float64))
        assert all(a is b for a, b in zip(parameters, module.parameters(), strict=True))
        assert type(module) is getattr(library.nn, name.replace("Lazy", ""))
        assert all(type(own) is library.nn.Parameter for own in parameters)
        assert all(type(own) is library.Tensor for own in module.buffers())
    assert repr(modules[0]) == repr(modules[1])
    copy_state(modules[1], modules[0], both[0])
    results = [
        module(tensor_of(library, numbers(*shape)))
        for library, module in zip(both, modules, strict=True)
    ]
    expect_near(*results, name)
    assert not modules[0]._forward_pre_hooks and not modules[0]._load_state_dict_pre_hooks


def test_initial_values(torch):
    layer = torch.nn.LazyLinear(50)
    layer(torch.ones(1, 100))
    assert 0 < layer.weight.abs().max().item() <= 0.1 and layer.weight.requires_grad
    norm = torch.nn.LazyBatchNorm1d().eval()
    norm(torch.ones(2, 3))
    assert norm.weight.tolist() == [1, 1, 1] and norm.running_var.tolist() == [1, 1, 1]


def test_loading(torch):
    source = torch.nn.Linear(5, 3)
    lazy = torch.nn.LazyLinear(3)
    assert str(lazy.load_state_dict(source.state_dict())) == "<All keys matched successfully>"
    assert type(lazy) is torch.nn.LazyLinear and not lazy.has_uninitialized_params()
    x = torch.ones(2, 5)
    assert torch.allclose(lazy(x), source(x)) and type(lazy) is torch.nn.Linear
    assert lazy.in_features == 5
    assert torch.equal(lazy.weight, source.weight)
    first, second = torch.nn.LazyLinear(3), torch.nn.LazyLinear(3)
    second.load_state_dict(first.state_dict())
    assert second.has_uninitialized_params()
    with pytest.raises(RuntimeError, match="Can't access the shape"):
        source.load_state_dict(first.state_dict())


def test_loading_norms(torch):
    source = torch.nn.BatchNorm1d(3)
    source(torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 5.0]]))
    lazy = torch.nn.LazyBatchNorm1d()
    lazy.load_state_dict(source.state_dict())
    assert lazy.running_mean.tolist() == source.running_mean.tolist()
    x = torch.ones(2, 3)
    assert torch.allclose(lazy.eval()(x), source.eval()(x))


def test_conversions_and_copies(torch):
    layer = torch.nn.LazyLinear(3).double()
    assert layer.weight.dtype == torch.float64 and layer.has_uninitialized_params()
    norm = torch.nn.LazyBatchNorm1d().to(torch.float64)
    assert norm.has_uninitialized_params() and norm.running_mean.dtype == torch.float64
    assert layer(torch.ones(1, 2, dtype=torch.float64)).dtype == torch.float64
    layer = torch.nn.LazyLinear(3)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert other.weight is not layer.weight
        assert other(torch.ones(1, 2)).shape == (1, 3)
        assert layer.has_uninitialized_params()
    assert layer(torch.ones(1, 4)).shape == (1, 3)


def test_copies_keep_their_dtype(both):
    """Those of PyTorch forget it."""
    layer = both[0].nn.LazyLinear(3).double()
    assert copy.deepcopy(layer).weight.dtype == both[0].float64
    assert pickle.loads(pickle.dumps(layer)).weight.dtype == both[0].float64


def test_training_a_lazy_model(torch):
    model = torch.nn.Sequential(torch.nn.LazyLinear(4), torch.nn.ReLU(), torch.nn.LazyLinear(1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    model(x).square().sum().backward()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer.step()
    after = list(model.parameters())
    assert len(after) == 4
    assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_tensors_without_a_shape(torch):
    parameter = torch.nn.UninitializedParameter(dtype=torch.float64)
    assert repr(parameter) == "<UninitializedParameter>" and parameter.requires_grad
    assert repr(torch.nn.UninitializedBuffer()) == "<UninitializedBuffer>"
    assert torch.nn.parameter.is_lazy(parameter)
    assert not torch.nn.parameter.is_lazy(torch.nn.Parameter(torch.ones(1)))
    assert parameter.dtype == torch.float64 and parameter.grad is None
    with pytest.raises(RuntimeError, match="Can't access the shape"):
        _ = parameter.shape
    for use in (
        lambda p: p + 1,
        lambda p: 2 * p,
        lambda p: p[0],
        lambda p: p.sum(),
        lambda p: p.numel(),
        lambda p: p.view(3),
    ):
        with pytest.raises(ValueError, match="uninitialized parameter"):
            use(parameter)
    parameter.materialize((2, 3))
    assert type(parameter) is torch.nn.Parameter and parameter.shape == (2, 3)
    assert parameter.dtype == torch.float64
    buffer = torch.nn.UninitializedBuffer()
    buffer.materialize((2,), dtype=torch.float64)
    assert type(buffer) is torch.Tensor and buffer.dtype == torch.float64
    assert not torch.nn.UninitializedParameter(requires_grad=False).requires_grad


def test_modules_of_ones_own(torch):
    mixin = torch.nn.modules.lazy.LazyModuleMixin

    class Scale(mixin, torch.nn.Module):
        def __init__(self, complete):
            super().__init__()
            self.complete = complete
            self.weight = torch.nn.UninitializedParameter()

        def initialize_parameters(self, x, factor=1.0):
            if self.complete:
                self.weight.materialize(x.shape)
                torch.nn.init.constant_(self.weight, factor)

        def forward(self, x, factor=1.0):
            return x * self.weight

    scale = Scale(True)
    assert scale(torch.ones(3), factor=2.0).tolist() == [2, 2, 2]
    assert type(scale) is Scale and scale(torch.ones(3), factor=5.0).tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="Scale has not been fully initialized"):
        Scale(False)(torch.ones(3))

    class Unfinished(mixin, torch.nn.Module):
        def forward(self, x):
            return x

    with pytest.raises(NotImplementedError, match="initialize_parameters is not implemented"):
        Unfinished()(torch.ones(1))
