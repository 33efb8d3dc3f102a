"""Memory formats on a CUDA device: strides, values and gradients are those of the CPU."""

import pytest
from library import torch

from .comparing import assert_close

nn, functional = torch.nn, torch.nn.functional

CALLS = {
    "conv": lambda: nn.Conv2d(4, 6, 3, padding=1),
    "conv.strided": lambda: nn.Conv2d(4, 6, 3, stride=2, bias=False),
    "conv.pointwise": lambda: nn.Conv2d(4, 6, 1),
    "conv.depthwise": lambda: nn.Conv2d(4, 4, 3, groups=4),
    "conv_transpose": lambda: nn.ConvTranspose2d(4, 6, 3, stride=2),
    "batch_norm": lambda: nn.BatchNorm2d(4),
    "batch_norm.eval": lambda: nn.BatchNorm2d(4).eval(),
    "group_norm": lambda: nn.GroupNorm(2, 4),
    "max_pool": lambda: nn.MaxPool2d(3, stride=2, padding=1),
    "avg_pool": lambda: nn.AvgPool2d(2),
    "adaptive_avg_pool": lambda: nn.AdaptiveAvgPool2d(3),
    "adaptive_max_pool": lambda: nn.AdaptiveMaxPool2d(2),
    "max_unpool": lambda: (
        lambda x: functional.max_unpool2d(*functional.max_pool2d(x, 2, return_indices=True), 2)
    ),
    "upsample": lambda: nn.Upsample(scale_factor=2),
    "upsample.bilinear": lambda: nn.Upsample(scale_factor=2, mode="bilinear"),
    "pad": lambda: nn.ZeroPad2d(1),
    "pad.reflect": lambda: nn.ReflectionPad2d(1),
    "pixel_shuffle": lambda: nn.PixelShuffle(2),
    "channel_shuffle": lambda: nn.ChannelShuffle(2),
    "softmax": lambda: nn.Softmax2d(),
    "relu": lambda: nn.ReLU(),
    "scaled": lambda: lambda x: x * 2 + torch.ones(4, 1, 1, device=x.device),
    "mixed": lambda: lambda x: torch.ones(x.shape, device=x.device) + x,
    "cat": lambda: lambda x: torch.cat([x, x.relu()], 1),
    "mean": lambda: lambda x: x.mean((2, 3), keepdim=True),
    "in_place": lambda: lambda x: (x * 1).add_(1).relu_(),
}


def run(make, x, device):
    torch.manual_seed(0)
    module = make()
    parameters = []
    if isinstance(module, nn.Module):
        module.to(device).to(memory_format=torch.channels_last)
        parameters = list(module.parameters())
    leaf = x.detach().to(device).requires_grad_()
    y = module(leaf)
    torch.manual_seed(1)
    y.backward(torch.randn(y.shape).to(device))
    return [y, leaf.grad, *(parameter.grad for parameter in parameters)]


@pytest.mark.parametrize("name", CALLS)
def test_call(name):
    torch.manual_seed(2)
    for shape in ((2, 4, 6, 8), (1, 4, 6, 6)):
        x = torch.randn(shape).contiguous(memory_format=torch.channels_last)
        wanted, found = (run(CALLS[name], x, device) for device in ("cpu", "cuda"))
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours.stride() == theirs.stride()
            assert_close(ours, theirs, units=256)


def test_volumes():
    x = torch.randn(2, 4, 4, 4, 4).contiguous(memory_format=torch.channels_last_3d)
    for make in (lambda: nn.MaxPool3d(2), lambda: nn.BatchNorm3d(4), lambda: nn.Conv3d(4, 3, 2)):
        outcomes = []
        for device in ("cpu", "cuda"):
            torch.manual_seed(0)
            leaf = x.detach().to(device).requires_grad_()
            y = make().to(device)(leaf)
            y.sum().backward()
            outcomes.append((y, leaf.grad))
        for ours, theirs in zip(outcomes[1], outcomes[0], strict=True):
            assert ours.stride() == theirs.stride()
            assert_close(ours, theirs, units=256)


def test_moves():
    x = torch.randn(2, 3, 4, 5)
    last = x.contiguous(memory_format=torch.channels_last)
    moves = {
        "cuda": lambda t, form: t.cuda(memory_format=form),
        "to": lambda t, form: t.to("cuda", memory_format=form),
        "to_dtype": lambda t, form: t.to("cuda", torch.float16, memory_format=form).float(),
        "back": lambda t, form: t.cuda().cpu(memory_format=form).cuda(),
        "there": lambda t, form: t.cuda().to(memory_format=form),
        "like": lambda t, form: torch.empty_like(t, device="cuda", memory_format=form).copy_(t),
    }
    for name, move in moves.items():
        for source in (x, last):
            for form, strides in (
                (torch.channels_last, last.stride()),
                (torch.contiguous_format, x.stride()),
                (torch.preserve_format, source.stride()),
            ):
                moved = move(source, form)
                assert moved.stride() == strides, (name, form)
                assert_close(moved.cpu().half().cuda(), source.half())
