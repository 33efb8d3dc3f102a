"""functional_call with modules, and ensembles of them under vmap."""

import pytest


def model(torch):
    return torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))


def test_parameters_are_replaced_for_the_call(torch):
    layer = torch.nn.Linear(2, 1)
    before = layer.weight
    result = torch.func.functional_call(
        layer, {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}, (torch.ones(1, 2),)
    )
    assert result.tolist() == [[2.0]] and layer.weight is before


def test_they_are_put_back_after_an_error(torch):
    layer = torch.nn.Linear(2, 1)
    before = layer.weight
    with pytest.raises(RuntimeError):
        torch.func.functional_call(layer, {"weight": torch.ones(1, 5)}, (torch.ones(1, 2),))
    assert layer.weight is before


def test_gradients_of_parameters(torch):
    net = model(torch)
    x = torch.randn(4, 2)
    parameters = {name: value.detach() for name, value in net.named_parameters()}
    grads = torch.func.grad(
        lambda parameters: torch.func.functional_call(net, parameters, (x,)).square().sum()
    )(parameters)
    net(x).square().sum().backward()
    for name, parameter in net.named_parameters():
        assert torch.allclose(grads[name], parameter.grad, atol=1e-5), name


def test_gradients_per_sample(torch):
    net = model(torch)
    x, y = torch.randn(4, 2), torch.randn(4, 1)
    parameters = {name: value.detach() for name, value in net.named_parameters()}

    def loss(parameters, x, y):
        return torch.nn.functional.mse_loss(torch.func.functional_call(net, parameters, (x,)), y)

    grads = torch.vmap(torch.func.grad(loss), (None, 0, 0))(parameters, x, y)
    for sample in range(4):
        expected = torch.func.grad(loss)(parameters, x[sample], y[sample])
        for name, value in expected.items():
            assert torch.allclose(grads[name][sample], value, atol=1e-6), name


def test_buffers_are_replaced(torch):
    norm = torch.nn.BatchNorm1d(1).eval()
    state = dict(norm.named_parameters()) | {
        "running_mean": torch.tensor([2.0]),
        "running_var": torch.tensor([4.0]),
    }
    result = torch.func.functional_call(norm, state, (torch.tensor([[4.0]]),))
    assert result.item() == pytest.approx(1.0, abs=1e-4)
    assert norm.running_mean.tolist() == [0.0]


def test_hooks_run(torch):
    layer = torch.nn.Linear(1, 1)
    layer.register_forward_hook(lambda module, args, output: output + 1)
    state = {"weight": torch.ones(1, 1), "bias": torch.zeros(1)}
    assert torch.func.functional_call(layer, state, (torch.ones(1, 1),)).item() == 2


def test_tied_weights_are_replaced_together(torch):
    net = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False))
    net[1].weight = net[0].weight
    state = {"0.weight": torch.full((1, 1), 3.0)}
    assert torch.func.functional_call(net, state, (torch.ones(1, 1),)).item() == 9


def test_strict(torch):
    layer = torch.nn.Linear(1, 1)
    with pytest.raises(RuntimeError):
        torch.func.functional_call(layer, {"x": torch.ones(1)}, (torch.ones(1, 1),), strict=True)


def test_ensemble(torch):
    models = [model(torch) for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(models)
    assert parameters["0.weight"].shape == (3, 3, 2) and buffers == {}
    assert parameters["0.weight"].is_leaf and parameters["0.weight"].requires_grad
    x = torch.randn(5, 2)

    def call(parameters, buffers, x):
        return torch.func.functional_call(models[0], (parameters, buffers), (x,))

    result = torch.vmap(call, (0, 0, None))(parameters, buffers, x)
    expected = torch.stack([net(x) for net in models])
    assert torch.allclose(result, expected, atol=1e-6)
    result.sum().backward()
    assert parameters["0.weight"].grad.shape == (3, 3, 2)


def test_ensembles_are_of_one_kind(torch):
    layers = [torch.nn.Linear(1, 1), torch.nn.Linear(1, 1).eval()]
    with pytest.raises(RuntimeError, match="same training/eval mode"):
        torch.func.stack_module_state(layers)
    with pytest.raises(RuntimeError, match="at least one model"):
        torch.func.stack_module_state([])
    with pytest.raises(RuntimeError, match="same class"):
        torch.func.stack_module_state([torch.nn.Linear(1, 1), torch.nn.Bilinear(1, 1, 1)])


def test_buffers_of_ensembles_are_stacked(torch):
    _, buffers = torch.func.stack_module_state([torch.nn.BatchNorm1d(2) for _ in range(3)])
    assert buffers["running_mean"].shape == (3, 2)
    assert buffers["num_batches_tracked"].tolist() == [0, 0, 0]


class Counting:
    """Makes modules whose forward puts another tensor in the place of a buffer."""

    def __new__(cls, torch):
        class Module(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(1))
                self.register_buffer("steps", torch.zeros(1))
                self.plain = 0

            def forward(self, x):
                self.steps = self.steps + 1
                return x * self.weight + self.steps + getattr(self, "extra", 0)

        return Module()


@pytest.mark.parametrize("tie_weights", [True, False])
def test_functional_call_writes_back(torch, tie_weights):
    module = Counting(torch)
    state = {"weight": torch.full((1,), 3.0), "steps": torch.full((1,), 10.0)}
    torch.func.functional_call(module, state, (torch.ones(1),), tie_weights=tie_weights)
    assert state["steps"].item() == 11 and state["weight"].item() == 3
    assert module.steps.item() == 0
    parts = ({"weight": torch.ones(1)}, {"steps": torch.full((1,), 10.0)})
    torch.func.functional_call(module, parts, (torch.ones(1),), tie_weights=tie_weights)
    assert parts[1]["steps"].item() == 10 and module.steps.item() == 0


def test_functional_call_takes_extra_keys(torch):
    module = Counting(torch)
    state = {"steps": torch.zeros(1), "extra": torch.full((1,), 5.0)}
    assert torch.func.functional_call(module, state, (torch.ones(1),)).item() == 7
    assert not hasattr(module, "extra") and module.steps.item() == 0


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ({"absent.weight": 1}, AttributeError),
        ({"plain": 1}, TypeError),
        ({"weight": "text"}, TypeError),
    ],
)
def test_functional_call_refuses_and_restores(torch, state, error):
    module = Counting(torch)
    before = module.weight
    given = {"steps": torch.ones(1)}
    given |= {k: torch.ones(1) if value == 1 else value for k, value in state.items()}
    with pytest.raises(error):
        torch.func.functional_call(module, given, (torch.ones(1),))
    assert module.weight is before and module.plain == 0


def test_parameters_are_replaced_in_a_block(torch):
    model = torch.nn.BatchNorm1d(2)
    own, mean = model.weight, model.running_mean
    given = {"weight": torch.full((2,), 3.0), "running_mean": torch.zeros(2)}
    with torch.nn.utils.stateless._reparametrize_module(model, given):
        assert model.weight is given["weight"]
        model.running_mean = torch.ones(2)
    assert model.weight is own and model.running_mean is mean
    assert given["running_mean"].tolist() == [1.0, 1.0]
    with (
        pytest.raises(ZeroDivisionError),
        torch.nn.utils.stateless._reparametrize_module(model, {"weight": torch.zeros(2)}),
    ):
        raise ZeroDivisionError
    assert model.weight is own
