"""Depthwise convolutions whose channels lie last, against the CPU's in float64."""

import pytest
from library import torch

F, _C = torch.nn.functional, torch._C
LAST = torch.channels_last
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]

# Sizes of the input, of the window, and options.
CASES = [
    ((2, 16, 9, 9), (7, 7), {"padding": 3}),
    ((1, 10, 15, 17), (7, 7), {"padding": 3}),
    ((1, 8, 3, 2), (7, 7), {"padding": 3}),  # smaller than the window
    ((2, 9, 8, 5), (7, 7), {"padding": 3, "stride": 2}),
    ((1, 8, 16, 30), (7, 7), {}),
    ((2, 8, 7, 8), (3, 3), {"padding": 1}),
    ((1, 8, 9, 16), (3, 3), {"padding": 3}),  # wider than the window
    ((1, 136, 5, 6), (3, 3), {"padding": 1}),  # in several blocks
    ((1, 12, 9, 10), (3, 3), {"padding": 1, "stride": 2}),
    ((2, 11, 10, 9), (3, 3), {"stride": 2}),
    ((1, 8, 17, 16), (3, 3), {"padding": 1, "stride": 3}),
    ((1, 8, 9, 8), (3, 3), {"padding": 2, "dilation": 2}),
    ((1, 8, 11, 8), (3, 3), {"padding": 2, "dilation": 2, "stride": 2}),
    ((2, 10, 8, 9), (5, 5), {"padding": 2}),
    ((1, 8, 12, 9), (5, 5), {"padding": 2, "stride": 2}),
    ((1, 8, 7, 9), (1, 7), {"padding": (0, 3)}),
    ((1, 9, 8, 7), (4, 2), {"padding": (2, 1), "stride": (1, 2), "dilation": (1, 2)}),
    ((1, 40, 6, 6), (9, 9), {"padding": 4}),
    ((2, 8, 4, 4), (1, 1), {}),
    ((3, 8, 3, 3), (3, 3), {}),  # one place is left
]


def gradients(function, operands, sizes=False):
    """Return the result, and the gradients for a gradient of the result that depends on place.

    For sizes alone, everything is positive.
    """
    leaves = [(x.abs() if sizes else x).detach().requires_grad_() for x in operands]
    y = function(*leaves)
    weights = (torch.arange(y.numel()) % 7 - 3).reshape(y.shape).to(y.device, y.dtype)
    return [y, *torch.autograd.grad(y, leaves, weights.abs() if sizes else weights)]


def check(function, operands, dtype, found=None):
    """Compare with float64 on the CPU, from operands that were rounded to the dtype.

    A sum may be off by the rounding of its result and by that of its products in float32.
    """
    operands = [x.to(dtype) for x in operands]
    wanted = gradients(function, [x.double() for x in operands])
    sizes = gradients(function, [x.double() for x in operands], sizes=True)  # of what is summed
    if found is None:
        found = gradients(function, [x.cuda() for x in operands])
    eps = torch.finfo(dtype).eps
    wide = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
    for ours, exact, size in zip(found, wanted, sizes, strict=True):
        assert ours.dtype == dtype and ours.shape == exact.shape and ours.is_cuda
        bound = eps * exact.abs() + 64 * wide * size + 1e-30
        worst = ((ours.detach().cpu().double() - exact).abs() / bound).max().item()
        assert worst <= 1, f"{worst} times what is allowed"
    return found


def tensors(x, window, biased=False):
    """Return an input whose channels lie last, a weight and perhaps a bias."""
    torch.manual_seed(0)
    sizes = [x, (x[1], 1, *window), *([(x[1],)] if biased else [])]
    return [
        t.contiguous(memory_format=LAST) if t.dim() == 4 else t for t in map(torch.randn, sizes)
    ]


def used(before, count):
    """Check that kernels for depthwise convolutions have computed that many since."""
    assert _C._cuda_depthwise_convolutions() - before == count


@pytest.fixture(params=[False, True], ids=["any channels", "these channels"])
def for_their_channels(request):
    """Let kernels know how many channels there are."""
    if request.param:
        many = _C._cuda_depthwise_many(0)
        yield
        _C._cuda_depthwise_many(many)
    else:
        yield


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("x", "window", "options"), CASES, ids=str)
def test_conv(x, window, options, dtype):
    before = _C._cuda_depthwise_convolutions()
    found = check(
        lambda x, w: F.conv2d(x, w, groups=x.shape[1], **options), tensors(x, window), dtype
    )
    used(before, 3)
    assert found[0].is_contiguous(memory_format=LAST)
    assert found[1].is_contiguous(memory_format=LAST)


@pytest.mark.parametrize(("x", "window", "options"), CASES, ids=str)
def test_transposed(x, window, options):
    before = _C._cuda_depthwise_convolutions()
    check(
        lambda x, w, b: F.conv_transpose2d(x, w, b, groups=x.shape[1], **options),
        tensors(x, window, biased=True),
        torch.float32,
    )
    used(before, 3)


@pytest.mark.usefixtures("for_their_channels")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("side", [3, 5, 7])
@pytest.mark.parametrize("stride", [1, 2])
def test_biases(side, stride, dtype):
    operands = tensors((2, 22, 9, 15), (side, side), biased=True)
    before = _C._cuda_depthwise_convolutions()
    check(
        lambda x, w, b: F.conv2d(x, w, b, stride, side // 2, groups=22),
        operands,
        dtype,
    )
    used(before, 3)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_operands_that_are_not_aligned(stride, dtype):
    """Pairs of channels cannot be read at a time."""
    x, w = (t.to(dtype) for t in tensors((2, 8, 8, 9), (3, 3)))

    def shifted(t):
        memory = torch.zeros(t.numel() + 1, dtype=dtype, device="cuda")
        last = t.permute(0, 2, 3, 1)
        return memory[1:].view(last.shape).copy_(last).permute(0, 3, 1, 2)

    def conv(x, w):
        return F.conv2d(x, w, stride=stride, padding=1, groups=8)

    before = _C._cuda_depthwise_convolutions()
    leaves = [shifted(t).detach().requires_grad_() for t in (x, w)]
    assert leaves[0].data_ptr() % (2 * x.element_size())
    y = conv(*leaves)
    weights = (torch.arange(y.numel()) % 7 - 3).reshape(y.shape).to("cuda", dtype)
    check(conv, [x, w], dtype, [y, *torch.autograd.grad(y, leaves, shifted(weights))])
    used(before, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_what_is_there_without_these_kernels(dtype):
    operands = [t.cuda().to(dtype) for t in tensors((2, 16, 9, 15), (7, 7))]

    def conv(x, w):
        return F.conv2d(x, w, padding=3, groups=16)

    ours = gradients(conv, operands)
    before = _C._cuda_depthwise_convolutions()
    were_used = _C._cuda_use_depthwise(False)
    try:
        with torch.backends.cudnn.flags(enabled=False):
            plain = gradients(conv, operands)
    finally:
        _C._cuda_use_depthwise(were_used)
    used(before, 0)
    for a, b in zip(ours, plain, strict=True):
        assert torch.allclose(a, b, rtol=2 * torch.finfo(dtype).eps, atol=1e-4 * b.abs().max())


def test_what_is_left_to_others():
    before = _C._cuda_depthwise_convolutions()
    last, window = tensors((1, 8, 5, 5), (3, 3))
    for x, w, groups in [
        (last.contiguous(), window.contiguous(), 8),  # channels do not lie last
        (last, torch.randn(16, 1, 3, 3), 8),  # two results of each channel
        (last, torch.randn(8, 2, 3, 3), 4),
        (last[:, :4].contiguous(memory_format=LAST), torch.randn(4, 1, 3, 3), 4),  # few channels
    ]:
        y = F.conv2d(x.cuda(), w.cuda(), padding=1, groups=groups).cpu()
        assert torch.allclose(y, F.conv2d(x, w, padding=1, groups=groups), atol=1e-4)
    used(before, 0)


def test_the_same_bits_in_each_run():
    """In results that a checkpoint computes again, and in sums that blocks share."""
    operands = [t.cuda() for t in tensors((4, 16, 20, 20), (5, 5))]

    def conv(x, w):
        return F.conv2d(x, w, padding=2, groups=16)

    first = gradients(conv, operands)
    assert all(torch.equal(a, b) for a, b in zip(first, gradients(conv, operands), strict=True))


@pytest.mark.parametrize("stride", [1, 2])
def test_second_derivative(stride):
    def second(x, w):
        y = F.conv2d(x, w, stride=stride, padding=1, groups=8)
        grads = torch.autograd.grad(y.square().sum(), (x, w), create_graph=True)
        return grads[0].square().mean() + grads[1].square().mean()

    operands = tensors((1, 8, 6, 7), (3, 3))
    before = _C._cuda_depthwise_convolutions()
    for ours, exact in zip(
        gradients(second, [x.cuda() for x in operands]),
        gradients(second, [x.double() for x in operands]),
        strict=True,
    ):
        bound = 1e-4 * exact.abs().max()
        assert torch.allclose(ours.cpu().double(), exact, rtol=1e-4, atol=bound.item())
    assert _C._cuda_depthwise_convolutions() > before + 5


def test_in_a_model():
    """A layer in autocast, with its normalisation, trains as on the CPU."""
    outcomes = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(8, 8, 7, padding=3, groups=8), torch.nn.BatchNorm2d(8)
        ).to(device, memory_format=LAST)
        x = torch.randn(2, 8, 6, 6).to(device).contiguous(memory_format=LAST)
        with torch.autocast(device, torch.bfloat16):
            loss = model(x).square().mean() + model(x).sin().mean()
        loss.backward()
        outcomes.append([loss.detach().cpu(), *(p.grad.cpu() for p in model.parameters())])
    for ours, theirs in zip(*reversed(outcomes), strict=True):
        assert torch.allclose(ours.float(), theirs.float(), rtol=0.05, atol=0.02)
