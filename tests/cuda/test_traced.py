"""Traces that run on a device: where they were made, and where they were not."""

import io

from library import torch

nn = torch.nn


def through_file(traced, map_location=None):
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    return torch.jit.load(file, map_location)


def test_a_trace_of_the_cpu_runs_on_a_device_and_back():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).requires_grad_(False)
    traced = torch.jit.trace(model, torch.zeros(1, 4))
    x = torch.randn(5, 4)
    expected = model(x)
    loaded = through_file(traced, "cuda")
    found = loaded(x.cuda())
    assert found.is_cuda
    assert torch.allclose(found.cpu(), expected, 1e-3, 1e-4)
    assert torch.allclose(loaded.cpu()(x), expected, 1e-5, 1e-6)
    on_device = through_file(torch.jit.trace(model.cuda(), x.cuda()), "cpu")
    assert torch.allclose(on_device(x[:2]), expected[:2], 1e-3, 1e-4)
    model.cpu()


def test_a_traced_module_moves():
    model = nn.Linear(4, 2).requires_grad_(False)
    x = torch.randn(3, 4)
    traced = torch.jit.trace(model, x)
    expected = traced(x)
    assert torch.allclose(traced.cuda()(x.cuda()).cpu(), expected, 1e-3, 1e-4)
    traced.cpu()


def test_constants_follow():
    shift = torch.arange(4.0)
    traced = torch.jit.trace(lambda x: x + shift, torch.zeros(1, 4))
    loaded = through_file(traced)
    x = torch.ones(2, 4)
    assert torch.equal(loaded(x.cuda()).cpu(), x + shift)
    assert torch.equal(loaded(x), x + shift)
