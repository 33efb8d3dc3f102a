"""Batch norm on a CUDA device in both memory formats and in half precision, against the CPU."""

import pytest
from library import torch

F = torch.nn.functional
FORMATS = {
    "usual": torch.contiguous_format,
    "channels_last": torch.channels_last,
    "channels_last_3d": torch.channels_last_3d,
}
# Channels that are read eight at a time, one by one, in several strips of blocks.
SHAPES = [(3, 8, 5, 4), (2, 3, 7, 6), (1, 1, 4, 4), (2, 296, 3, 2), (5, 16, 1, 1), (2, 8, 3, 2, 4)]
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def formats_of(shape):
    last = {4: "channels_last", 5: "channels_last_3d"}
    return [FORMATS["usual"], *([FORMATS[last[len(shape)]]] if len(shape) in last else [])]


def outcome(x, weight, bias, mean, variance, training, device, wide):
    """Return the result, the gradients and the running statistics."""
    to = {"device": device}
    leaf = x.to(**to, dtype=wide).detach().requires_grad_()
    affine = [t if t is None else t.detach().to(**to).requires_grad_() for t in (weight, bias)]
    running = [t.clone().to(**to) for t in (mean, variance)]
    y = F.batch_norm(leaf, *running, *affine, training=training)
    y.backward((torch.arange(y.numel()) % 7 - 3).reshape(y.shape).to(device, y.dtype))
    return y, leaf.grad, [t.grad for t in affine if t is not None], running


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_formats_and_dtypes(shape, training, dtype):
    torch.manual_seed(0)
    channels = shape[1]
    numbers = torch.float64 if dtype == torch.float64 else torch.float32
    weight, bias, mean = (torch.randn(channels).to(numbers) for _ in range(3))
    variance = torch.rand(channels).to(numbers) + 0.5
    eps = torch.finfo(dtype).eps
    for form in formats_of(shape):
        x = (torch.randn(shape) * 2 + 1).to(dtype).contiguous(memory_format=form)
        for affine in ((weight, bias), (None, None)):
            given = (x, *affine, mean, variance, training)
            exact = outcome(*given, "cpu", numbers)
            found = outcome(*given, "cuda", dtype)
            assert found[0].dtype == found[1].dtype == dtype
            assert found[0].stride() == found[1].stride() == x.stride()
            assert all(g.dtype == numbers for g in found[2])
            pairs = [*zip(found[:2], exact[:2], strict=True)]
            for ours, theirs in zip((*found[2], *found[3]), (*exact[2], *exact[3]), strict=True):
                pairs.append((ours, theirs))
            for ours, theirs in pairs:
                theirs = theirs.double()
                worst = (ours.detach().cpu().double() - theirs).abs().max()
                assert worst <= 64 * eps * max(1, theirs.abs().max())


def test_weights_in_half_precision():
    """They are, as in PyTorch, of the input's dtype after model.to(dtype), and so are gradients."""
    torch.manual_seed(0)
    model = torch.nn.BatchNorm2d(8).to("cuda", torch.bfloat16)
    x = torch.randn(2, 8, 4, 4).to("cuda", torch.bfloat16).requires_grad_()
    y = model(x)
    y.sum().backward()
    assert y.dtype == x.grad.dtype == model.weight.grad.dtype == torch.bfloat16
    assert model.running_mean.dtype == torch.bfloat16
    wide = torch.nn.BatchNorm2d(8)
    wide(x.detach().cpu().float())
    assert torch.allclose(model.running_mean.cpu().float(), wide.running_mean, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_second_derivative(dtype):
    torch.manual_seed(0)
    x = torch.randn(2, 8, 3, 3).to(dtype)
    found = []
    for device in ("cpu", "cuda"):
        leaf = x.detach().to(device).contiguous(memory_format=torch.channels_last).requires_grad_()
        weight = torch.linspace(0.5, 2, 8).to(device).requires_grad_()
        y = F.batch_norm(leaf, None, None, weight, training=True)
        (grad,) = torch.autograd.grad(y.float().pow(3).sum(), leaf, create_graph=True)
        found.append(torch.autograd.grad(grad.float().square().sum(), (leaf, weight)))
    for ours, theirs in zip(found[1], found[0], strict=True):
        assert ours.dtype == theirs.dtype
        scale = theirs.float().abs().max()
        allowed = 1e-4 if dtype == torch.float32 else 5e-2
        assert (ours.cpu().float() - theirs.float()).abs().max() <= allowed * scale


def test_in_autocast():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, bias=False), torch.nn.BatchNorm2d(8))
    model = model.to("cuda", memory_format=torch.channels_last)
    x = torch.randn(2, 3, 8, 8).cuda().contiguous(memory_format=torch.channels_last)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        y = model(x)
    assert y.dtype == torch.bfloat16 and y.is_contiguous(memory_format=torch.channels_last)
    y.float().square().mean().backward()
    assert model[1].weight.grad.dtype == torch.float32
    assert model[1].running_mean.dtype == torch.float32


def test_other_numbers_than_float32_are_refused():
    x = torch.ones(2, 3, 4, dtype=torch.bfloat16, device="cuda")
    with pytest.raises(RuntimeError, match="batch_norm: expected weight, bias and statistics of"):
        torch._C._batch_norm(x, None, None, x[0, :, 0].contiguous(), None, 1e-5)


@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last], ids=str)
def test_numbers_far_from_zero(form):
    """Deviations are summed, not squares: those would be all that is left of these."""
    torch.manual_seed(0)
    x = (torch.randn(64, 8, 16, 16) * 0.5 + 200).half().contiguous(memory_format=form)
    mean, variance = torch.zeros(8).cuda(), torch.zeros(8).cuda()
    y = F.batch_norm(x.cuda(), mean, variance, training=True, momentum=1.0)
    exact = x.double()
    assert torch.allclose(mean.cpu().double(), exact.mean((0, 2, 3)), rtol=1e-6)
    assert torch.allclose(variance.cpu().double(), exact.var((0, 2, 3)), rtol=1e-4)
    wanted = F.batch_norm(exact, None, None, training=True)
    assert (y.cpu().double() - wanted).abs().max() <= 4e-3


def test_a_nan_is_one_of_its_channel():
    x = torch.randn(2, 8, 3, 3).bfloat16().contiguous(memory_format=torch.channels_last)
    x[0, 5, 1, 1] = float("nan")
    y = F.batch_norm(x.cuda(), None, None, training=True).cpu()
    assert y[:, 5].isnan().all() and not y[:, :5].isnan().any() and not y[:, 6:].isnan().any()
