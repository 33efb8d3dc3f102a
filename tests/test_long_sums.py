"""Accuracy of sums over many elements in float32, beside NumPy in float64."""

import numpy as np
import pytest
from library import torch

SCALES = {"unit": 1.0, "huge": 1e25, "tiny": 1e-25}


@pytest.mark.parametrize("dim", [None, 0, 1])
@pytest.mark.parametrize("kind", [*SCALES, "offset", "wide"])
def test_standard_deviation_in_float32(kind, dim):
    """Rounded once, for columns and rows too, also where squares leave the range of float32."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((300, 300))
    if kind == "wide":
        values *= 10.0 ** rng.uniform(-6, 6, values.shape)
    values = (values * SCALES.get(kind, 1.0) + (1000 if kind == "offset" else 0)).astype(np.float32)
    expected = values.astype(np.float64).std(dim, ddof=1)
    result = torch.std(torch.tensor(values), dim=dim).double().numpy()
    np.testing.assert_allclose(result, expected, rtol=1.2e-7)


@pytest.mark.parametrize("name", ["layer_norm", "group_norm", "batch_norm", "rms_norm"])
def test_norms_of_millions_in_float32(name):
    """Sums over long rows are taken in blocks: their error does not grow with the length."""
    count = 9_400_000
    values = np.random.default_rng(1).standard_normal(count).astype(np.float32) + np.float32(3)
    wide = values.astype(np.float64)
    centre = 0.0 if name == "rms_norm" else wide.mean()
    expected = (wide - centre) / np.sqrt(np.square(wide - centre).mean() + 1e-5)
    x, functions = torch.tensor(values), torch.nn.functional
    if name in ("layer_norm", "rms_norm"):
        result = getattr(functions, name)(x, (count,), eps=1e-5)
    elif name == "group_norm":
        result = functions.group_norm(x.view(1, 2, -1), 1)
    else:
        result = functions.batch_norm(x.view(1, 1, -1), None, None, training=True)
    error = np.abs(result.reshape(-1).double().numpy() - expected).max()
    assert error < 3e-6


def test_gradient_of_softmax_of_millions_in_float32():
    count = 3_000_000
    rng = np.random.default_rng(2)
    values, weights = (rng.standard_normal(count).astype(np.float32) for _ in range(2))
    weights += 5
    x = torch.tensor(values, requires_grad=True)
    (grad,) = torch.autograd.grad(torch.log_softmax(x, 0), x, torch.tensor(weights))
    shares = np.exp(values.astype(np.float64))
    shares /= shares.sum()
    expected = weights - shares * weights.astype(np.float64).sum()
    np.testing.assert_allclose(grad.numpy(), expected, rtol=3e-6, atol=1e-5)
