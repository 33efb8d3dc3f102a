"""nn.utils: clipping of gradients, parameters as a vector."""

import math

import pytest


def with_gradients(torch, *gradients):
    parameters = []
    for gradient in gradients:
        parameter = torch.nn.Parameter(torch.zeros(len(gradient)))
        parameter.grad = torch.tensor(gradient)
        parameters.append(parameter)
    return parameters


@pytest.mark.parametrize(
    ("norm_type", "norm"), [(2.0, 13.0), (1.0, 19.0), (math.inf, 12.0), (3.0, 1819 ** (1 / 3))]
)
def test_clip_grad_norm(torch, norm_type, norm):
    parameters = with_gradients(torch, [3.0, 4.0], [-12.0])
    total = torch.nn.utils.clip_grad_norm_(parameters, 2.0, norm_type)
    assert total.item() == pytest.approx(norm, rel=1e-4)
    assert parameters[0].grad.tolist() == pytest.approx([6 / norm, 8 / norm], rel=1e-4)
    assert parameters[1].grad.tolist() == pytest.approx([-24 / norm], rel=1e-4)


def test_small_gradients_stay(torch):
    parameters = with_gradients(torch, [0.3, 0.4])
    assert torch.nn.utils.clip_grad_norm_(parameters, 2.0).item() == pytest.approx(0.5)
    assert parameters[0].grad.tolist() == pytest.approx([0.3, 0.4])


def test_parameters_without_gradients_do_not_count(torch):
    parameters = [torch.nn.Parameter(torch.ones(2)), *with_gradients(torch, [3.0, 4.0])]
    assert torch.nn.utils.clip_grad_norm_(iter(parameters), 1.0).item() == pytest.approx(5.0)
    assert parameters[0].grad is None and parameters[1].grad.norm().item() == pytest.approx(1.0)
    assert torch.nn.utils.clip_grad_norm_([], 1.0).item() == 0
    assert torch.nn.utils.clip_grad_norm_(parameters[1], 1.0).item() == pytest.approx(1.0)


def test_norms_that_are_not_finite(torch):
    parameters = with_gradients(torch, [math.nan, 1.0])
    with pytest.raises(RuntimeError, match="non-finite"):
        torch.nn.utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
    assert math.isnan(torch.nn.utils.clip_grad_norm_(parameters, 1.0).item())


def test_clip_with_a_known_norm(torch):
    parameters = with_gradients(torch, [3.0, 4.0])
    total = torch.nn.utils.get_total_norm([parameter.grad for parameter in parameters])
    assert total.item() == pytest.approx(5.0)
    torch.nn.utils.clip_grads_with_norm_(parameters, 1.0, total)
    assert parameters[0].grad.tolist() == pytest.approx([0.6, 0.8], rel=1e-4)


def test_clip_grad_value(torch):
    parameters = with_gradients(torch, [3.0, -4.0], [0.5])
    torch.nn.utils.clip_grad_value_(parameters, 1.0)
    assert [p.grad.tolist() for p in parameters] == [[1.0, -1.0], [0.5]]


def test_parameters_as_a_vector_and_back(torch):
    layer = torch.nn.Linear(2, 3)
    vector = torch.nn.utils.parameters_to_vector(layer.parameters())
    assert vector.shape == (9,) and vector.requires_grad
    assert vector[:6].tolist() == layer.weight.reshape(-1).tolist()
    torch.nn.utils.vector_to_parameters(torch.arange(9.0), layer.parameters())
    assert layer.weight.tolist() == [[0, 1], [2, 3], [4, 5]] and layer.bias.tolist() == [6, 7, 8]
    assert layer.weight.requires_grad and layer.weight.is_leaf
