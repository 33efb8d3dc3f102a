"""Weight norm and spectral norm, of both kinds, and fusion of batch norms, beside PyTorch."""

import copy
import warnings

import pytest

from .side_by_side import copy_state, expect_near, numbers, tensor_of


def quiet(function, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return function(*args, **kwargs)


def pair(both, apply, width=3, height=4):
    """Return the same layer in both libraries, after a change of its weight."""
    modules = [
        apply(library, library.nn.Linear(width, height, dtype=library.float64)) for library in both
    ]
    copy_state(modules[1], modules[0], both[0])
    assert list(modules[0].state_dict()) == list(modules[1].state_dict())
    assert repr(modules[0]) == repr(modules[1])
    return modules


def expect_same_steps(both, modules, steps=3, after=None):
    """Compare outputs, gradients of parameters and buffers of several calls in a row."""
    for step in range(steps):
        results = []
        for library, module in zip(both, modules, strict=True):
            module.zero_grad()
            x = tensor_of(library, numbers(2, 3, seed=step)).detach()
            output = module(x)
            output.sin().sum().backward()
            results.append(
                [output, module.weight]
                + [parameter.grad for parameter in module.parameters()]
                + [buffer.clone() for buffer in module.buffers()]
            )
        for place, (ours, theirs) in enumerate(zip(*results, strict=True)):
            expect_near(ours, theirs, f"step {step}, {place}")
    if after is not None:
        results = [after(library, module) for library, module in zip(both, modules, strict=True)]
        expect_near(results[0].weight, results[1].weight, "afterwards")
        assert list(results[0].state_dict()) == list(results[1].state_dict())
        assert isinstance(results[0].weight, both[0].nn.Parameter)


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm(both, dim):
    modules = pair(
        both, lambda lib, layer: lib.nn.utils.parametrizations.weight_norm(layer, dim=dim)
    )
    shapes = [tuple(module.parametrizations.weight.original0.shape) for module in modules]
    assert shapes[0] == shapes[1]
    expect_same_steps(
        both,
        modules,
        after=lambda lib, m: lib.nn.utils.parametrize.remove_parametrizations(m, "weight"),
    )


@pytest.mark.parametrize("dim", [0, 1, None])
def test_older_weight_norm(both, dim):
    modules = pair(both, lambda lib, layer: quiet(lib.nn.utils.weight_norm, layer, "weight", dim))
    assert type(modules[0].weight) is both[0].Tensor
    expect_same_steps(both, modules, after=lambda lib, m: lib.nn.utils.remove_weight_norm(m))
    assert not modules[0]._forward_pre_hooks and not modules[0]._any_hooks


def test_older_state_dicts_load_into_new_weight_norm(torch):
    older = quiet(torch.nn.utils.weight_norm, torch.nn.Linear(3, 4))
    newer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 4))
    newer.load_state_dict(older.state_dict())
    assert torch.allclose(newer.weight, older.weight)


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("dim", [None, 1])
def test_spectral_norm(both, rounds, dim):
    modules = pair(
        both,
        lambda lib, layer: lib.nn.utils.parametrizations.spectral_norm(
            layer, n_power_iterations=rounds, dim=dim
        ),
    )
    expect_same_steps(both, modules)
    for module in modules:
        module.eval()
    expect_same_steps(
        both,
        modules,
        steps=2,
        after=lambda lib, m: lib.nn.utils.parametrize.remove_parametrizations(m, "weight"),
    )


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("dim", [None, 1])
def test_older_spectral_norm(both, rounds, dim):
    modules = pair(
        both,
        lambda lib, layer: lib.nn.utils.spectral_norm(layer, n_power_iterations=rounds, dim=dim),
    )
    metadata = [dict(module.state_dict()._metadata[""]) for module in modules]
    assert metadata[0] == metadata[1]
    expect_same_steps(both, modules)
    for module in modules:
        module.eval()
    expect_same_steps(
        both, modules, steps=2, after=lambda lib, m: lib.nn.utils.remove_spectral_norm(m)
    )
    assert not modules[0]._forward_pre_hooks
    assert dict(modules[0].state_dict()._metadata[""]) == {"version": 1}


def test_spectral_norms_are_one(torch):
    torch.manual_seed(3)
    layer = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(5, 4))
    for _ in range(50):
        layer(torch.ones(1, 5))
    weight = layer.weight.detach()
    vector = torch.ones(5)
    for _ in range(200):
        vector = weight.T @ (weight @ vector)
        vector = vector / vector.norm()
    assert (weight @ vector).norm().item() == pytest.approx(1.0, abs=1e-4)
    bias = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(2, 3), "bias").bias
    assert bias.norm().item() == pytest.approx(1.0, abs=1e-6)


ERRORS = [
    (lambda u, t, x: u.remove_weight_norm(x), ValueError, "weight_norm of 'weight' not found"),
    (lambda u, t, x: u.remove_spectral_norm(x), ValueError, "spectral_norm of 'weight' not found"),
    (lambda u, t, x: u.weight_norm(u.weight_norm(x)), RuntimeError, "two weight_norm hooks"),
    (lambda u, t, x: u.weight_norm(x, "foo"), AttributeError, "no attribute 'foo'"),
    (lambda u, t, x: u.spectral_norm(u.spectral_norm(x)), RuntimeError, "two spectral_norm"),
    (lambda u, t, x: u.spectral_norm(x, n_power_iterations=0), ValueError, "to be positive"),
    (lambda u, t, x: u.parametrizations.weight_norm(x, "foo"), ValueError, "name 'foo'"),
    (lambda u, t, x: u.parametrizations.spectral_norm(x, "foo"), ValueError, "name 'foo'"),
    (lambda u, t, x: u.parametrizations.spectral_norm(x, dim=3), IndexError, "out of range"),
    (
        lambda u, t, x: u.parametrizations.spectral_norm(x, n_power_iterations=0),
        ValueError,
        "to be positive",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_errors(torch, call, error, text):
    with pytest.raises(error, match=text):
        call(torch.nn.utils, torch, torch.nn.Linear(2, 3))


def test_warnings_of_older_names(torch):
    with pytest.warns(FutureWarning, match="parametrizations.weight_norm"):
        torch.nn.utils.weight_norm(torch.nn.Linear(2, 3))
    with pytest.warns(FutureWarning, match="clip_grad_norm_"):
        torch.nn.utils.clip_grad_norm([], 1.0)
    layer = torch.nn.Linear(2, 1, bias=False)
    with pytest.warns(FutureWarning, match=r"torch.func.functional_call"):
        result = torch.nn.utils.stateless.functional_call(
            layer, {"weight": torch.ones(1, 2)}, torch.ones(1, 2)
        )
    assert result.tolist() == [[2.0]]


@pytest.mark.parametrize("use_base", [True, False])
@pytest.mark.parametrize("kind", [None, "matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("size", [(3, 3), (3, 5), (5, 3)], ids=str)
def test_orthogonal(both, size, kind, use_base):
    apply = [library.nn.utils.parametrizations.orthogonal for library in both]
    modules = [library.nn.Linear(*size, dtype=library.float64) for library in both]
    copy_state(modules[1], modules[0], both[0])
    for function, module in zip(apply, modules, strict=True):
        function(module, orthogonal_map=kind, use_trivialization=use_base)
    if use_base:
        ours, theirs = (module.parametrizations.weight[0] for module in modules)
        base = theirs.base.detach()
        ours.base = both[0].tensor(base.tolist(), dtype=both[0].float64)
    expect_near(modules[0].weight, modules[1].weight, "weight")
    weight = modules[0].weight
    short = weight if weight.shape[0] <= weight.shape[1] else weight.mT
    assert both[0].allclose(short @ short.mT, both[0].eye(min(size), dtype=both[0].float64))
    for module in modules:
        (module.weight * module.weight.cumsum(0)).sum().backward()
    expect_near(
        modules[0].parametrizations.weight.original.grad,
        modules[1].parametrizations.weight.original.grad,
        "gradient",
    )


def test_orthogonal_weights_can_be_set():
    import tapegrad as torch

    layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(3, 3))
    wanted = torch.nn.init.orthogonal_(torch.empty(3, 3))
    layer.weight = wanted
    assert torch.allclose(layer.weight, wanted, atol=1e-6)
    with pytest.raises(ValueError, match="matrix_exp"):
        torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(3, 3), orthogonal_map="x")


def test_skip_init(torch):
    layer = torch.nn.utils.skip_init(torch.nn.Linear, 3, 4, bias=False)
    assert layer.weight.shape == (4, 3) and layer.bias is None
    with pytest.raises(RuntimeError, match="'device' arg"):
        torch.nn.utils.skip_init(torch.nn.ReLU)
    with pytest.raises(RuntimeError, match="Expected a Module"):
        torch.nn.utils.skip_init(torch.Tensor)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("affine", [True, False])
def test_fuse_linear(torch, bias, affine):
    layer = torch.nn.Linear(3, 4, bias=bias).double()
    norm = torch.nn.BatchNorm1d(4, affine=affine).double()
    for _ in range(3):
        norm(layer(torch.randn(6, 3, dtype=torch.float64)))
    if affine:
        with torch.no_grad():
            norm.weight.uniform_(0.5, 2)
            norm.bias.uniform_(-1, 1)
    with pytest.raises(AssertionError, match="eval"):
        torch.nn.utils.fuse_linear_bn_eval(layer, norm)
    if not affine:
        return  # PyTorch wants weight and bias here.
    x = torch.randn(5, 3, dtype=torch.float64)
    fused = torch.nn.utils.fuse_linear_bn_eval(layer.eval(), norm.eval())
    assert torch.allclose(fused(x), norm(layer(x)))
    assert isinstance(fused.weight, torch.nn.Parameter) and fused.weight is not layer.weight


@pytest.mark.parametrize("transpose", [False, True])
def test_fuse_conv_weights(both, transpose):
    shape = (2, 4, 3, 3) if transpose else (4, 2, 3, 3)
    results = []
    for library in both:
        tensors = [tensor_of(library, numbers(4, seed=seed)) for seed in range(4)]
        variance = tensors[1].detach().square()
        results.append(
            library.nn.utils.fuse_conv_bn_weights(
                tensor_of(library, numbers(*shape)),
                tensors[3],
                tensors[0].detach(),
                variance,
                1e-3,
                tensors[2],
                None,
                transpose,
            )
        )
    for ours, theirs in zip(*results, strict=True):
        expect_near(ours, theirs, "fused")
        assert ours.requires_grad == theirs.requires_grad


def test_hooks_survive_copies(torch):
    layer = torch.nn.utils.spectral_norm(torch.nn.Linear(2, 2))
    replica = copy.deepcopy(layer)
    x = torch.ones(1, 2)
    assert torch.allclose(replica(x), layer(x))
