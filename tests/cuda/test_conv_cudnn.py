"""Convolutions by cuDNN against the CPU's in float64; test_dnn.py runs them with a stand-in."""

import os

import pytest
from library import torch

F, _C = torch.nn.functional, torch._C
cudnn = torch.backends.cudnn
LAST = torch.channels_last

pytestmark = pytest.mark.skipif(
    not cudnn.is_available(), reason="no cuDNN here: test_dnn.py runs these with a stand-in"
)


@pytest.fixture(autouse=True)
def no_depthwise_kernels():
    """Let cuDNN have all convolutions."""
    were_used = _C._cuda_use_depthwise(False)
    yield
    _C._cuda_use_depthwise(were_used)


# Sizes of input and weight, and options. Transposed ones take the weight's first as their channels.
CASES = [
    ((2, 3, 11), (4, 3, 3), {}),
    ((2, 4, 11), (6, 2, 4), {"stride": 2, "padding": 3, "groups": 2}),
    ((1, 8, 9), (8, 1, 3), {"dilation": 2, "padding": 1, "groups": 8}),
    ((2, 3, 7, 8), (5, 3, 3, 3), {}),
    ((2, 3, 9, 8), (4, 3, 3, 2), {"stride": (1, 2), "padding": (2, 0), "dilation": (2, 1)}),
    ((2, 8, 7, 8), (8, 1, 3, 3), {"padding": 1, "groups": 8}),
    ((2, 3, 7, 8), (6, 1, 3, 3), {"padding": 1, "groups": 3}),
    ((2, 8, 6, 5), (8, 4, 3, 3), {"padding": 1, "groups": 2}),
    ((2, 16, 6, 7), (8, 16, 1, 1), {}),
    ((2, 8, 8, 8), (16, 8, 1, 1), {"stride": 2}),
    ((1, 16, 9, 9), (32, 16, 3, 3), {"padding": 1, "stride": 2}),
    ((1, 4, 12, 12), (4, 1, 7, 7), {"padding": 3, "groups": 4}),
    ((1, 2, 5, 4, 6), (3, 2, 3, 2, 3), {"padding": 1}),
    ((1, 4, 5, 4, 6), (4, 1, 2, 2, 2), {"stride": 2, "groups": 4}),
]
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
FUNCTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def gradients(function, operands, sizes=False):
    """Return the result, and the gradients for a gradient of the result that depends on place.

    For sizes alone, everything is positive.
    """
    leaves = [(x.abs() if sizes else x).detach().requires_grad_() for x in operands]
    y = function(*leaves)
    weights = (torch.arange(y.numel()) % 5 - 2).reshape(y.shape).to(y.device, y.dtype)
    return [y, *torch.autograd.grad(y, leaves, weights.abs() if sizes else weights)]


def check(function, operands, dtype, allowed=None):
    """Compare with float64 on the CPU, from operands that were rounded to the dtype.

    A sum may be off by the rounding of its result, once more where a bias is added to that, and by
    that of its products in float32.
    """
    operands = [x.to(dtype) for x in operands]
    wanted = gradients(function, [x.double() for x in operands])
    sizes = gradients(function, [x.double() for x in operands], sizes=True)  # of what is summed
    found = gradients(function, [x.cuda() for x in operands])
    eps = torch.finfo(dtype).eps
    wide = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
    for ours, exact, size in zip(found, wanted, sizes, strict=True):
        assert ours.dtype == dtype and ours.shape == exact.shape and ours.is_cuda
        bound = eps * exact.abs() + (allowed or 64 * wide) * size + 1e-30
        if len(operands) > 2:
            bound += eps * size
        worst = ((ours.detach().cpu().double() - exact).abs() / bound).max().item()
        assert worst <= 1, f"{worst} times what is allowed"
    return found


def used(before, count):
    """Check that cuDNN has computed that many convolutions since."""
    assert _C._cuda_dnn_convolutions() - before == count, _C._cuda_dnn_refusal()


def tensors(x, w, biases=None):
    torch.manual_seed(0)
    return [torch.randn(x), torch.randn(w), *([torch.randn(biases)] if biases else [])]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("x", "w", "options"), CASES, ids=str)
def test_conv(x, w, options, biased, dtype):
    before = _C._cuda_dnn_convolutions()
    conv = FUNCTIONS[len(x) - 2]
    check(lambda *given: conv(*given, **options), tensors(x, w, w[0] if biased else None), dtype)
    used(before, 3)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("x", "w", "options"), CASES, ids=str)
def test_transposed(x, w, options, biased, dtype):
    before = _C._cuda_dnn_convolutions()
    channels = w[1] * options.get("groups", 1)
    conv = TRANSPOSED[len(x) - 2]
    operands = tensors((x[0], w[0], *x[2:]), w, channels if biased else None)
    check(lambda *given: conv(*given, **options), operands, dtype)
    used(before, 3)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("x", "w", "options"), [c for c in CASES if len(c[0]) == 4], ids=str)
def test_channels_last(x, w, options, biased, dtype):
    before = _C._cuda_dnn_convolutions()
    operands = [
        t.contiguous(memory_format=LAST) if t.dim() == 4 else t
        for t in tensors(x, w, w[0] if biased else None)
    ]
    found = check(lambda *given: F.conv2d(*given, **options), operands, dtype)
    used(before, 3)
    assert found[0].is_contiguous(memory_format=LAST)
    assert found[1].is_contiguous(memory_format=LAST)


def test_tf32():
    operands = tensors((2, 32, 9, 9), (32, 32, 3, 3))
    with cudnn.flags(enabled=True, allow_tf32=True):
        loose = check(lambda x, w: F.conv2d(x, w, padding=1), operands, torch.float32, 2e-3)
    exact = check(lambda x, w: F.conv2d(x, w, padding=1), operands, torch.float32)
    assert torch.allclose(loose[0], exact[0], atol=0.1)


def test_second_derivative():
    def second(x, w):
        y = F.conv2d(x, w, stride=2, padding=1)
        grads = torch.autograd.grad(y.square().sum(), (x, w), create_graph=True)
        return grads[0].square().mean() + grads[1].square().mean()

    operands = tensors((1, 3, 6, 6), (4, 3, 3, 3))
    before = _C._cuda_dnn_convolutions()
    for ours, exact in zip(
        gradients(second, [x.cuda() for x in operands]),
        gradients(second, [x.double() for x in operands]),
        strict=True,
    ):
        assert torch.allclose(ours.cpu().double(), exact, rtol=1e-3, atol=1e-3 * exact.abs().max())
    assert _C._cuda_dnn_convolutions() > before + 5


def test_it_is_used_where_it_is_enabled():
    x, w = (t.cuda() for t in tensors((1, 3, 6, 6), (4, 3, 3, 3)))
    before = _C._cuda_dnn_convolutions()
    with cudnn.flags(enabled=False):
        plain = F.conv2d(x, w)
    used(before, 0)
    with cudnn.flags(enabled=True, allow_tf32=False):
        assert torch.allclose(F.conv2d(x, w), plain, atol=1e-4)
    used(before, 1)


def test_plans_are_kept():
    x, w = (t.cuda() for t in tensors((3, 3, 6, 7), (4, 3, 2, 3)))
    first = F.conv2d(x, w)
    before = _C._cuda_dnn_plans()
    assert torch.equal(F.conv2d(x, w), first)
    assert torch.equal(F.conv2d(x.clone(), w.clone()), first)
    assert _C._cuda_dnn_plans() == before
    F.conv2d(x[:2], w)
    assert _C._cuda_dnn_plans() == before + 1


def test_plans_are_kept_on_disk(monkeypatch, tmp_path):
    monkeypatch.setenv("TAPEGRAD_CACHE", str(tmp_path))
    x, w = (t.cuda() for t in tensors((3, 3, 7, 9), (8, 3, 3, 3)))
    wanted = F.conv2d(x, w, padding=2)
    (path,) = (tmp_path / "plans").glob("*.json")
    good = path.read_bytes()
    assert good.startswith(b"conv cuDNN ")

    def made_anew():
        _C._cuda_dnn_forget_plans()
        before = _C._cuda_dnn_plans()
        assert torch.equal(F.conv2d(x, w, padding=2), wanted)
        return _C._cuda_dnn_plans() - before

    assert made_anew() == 0
    for wrong in (b"", b"what is this", good[:20], good.split(b"\n")[0] + b"\n{}", b"x" + good):
        path.write_bytes(wrong)
        assert made_anew() == 1
        assert path.read_bytes().split(b"\n")[0] == good.split(b"\n")[0]  # the file is right again
        assert made_anew() == 0
    path.unlink()
    tmp_path.joinpath("plans").rmdir()
    tmp_path.joinpath("plans").write_text("a file in the way")
    assert made_anew() == 1


@pytest.mark.parametrize("offset", [1, 2, 4])
def test_addresses_between_those_of_vectors(offset):
    memory = torch.randn(offset + 2 * 4 * 6 * 6).cuda()
    x, w = memory[offset:].view(2, 4, 6, 6), torch.randn(8, 4, 3, 3).cuda()
    before = _C._cuda_dnn_convolutions()
    found = F.conv2d(x, w, padding=1)
    used(before, 1)
    wanted = F.conv2d(x.cpu().double(), w.cpu().double(), padding=1)
    assert torch.allclose(found.cpu().double(), wanted, atol=1e-4)


def test_benchmark():
    """The fastest of several engines is taken, whichever that is: the numbers are right."""
    with cudnn.flags(enabled=True, benchmark=True, benchmark_limit=3, allow_tf32=False):
        before = _C._cuda_dnn_convolutions()
        operands = tensors((2, 4, 10, 10), (8, 4, 3, 3), 8)
        check(lambda *given: F.conv2d(*given, padding=1), operands, torch.float32)
        used(before, 3)


@pytest.mark.parametrize("how", ["cudnn", "all"])
def test_the_same_bits_in_every_run(how):
    x, w = (t.cuda() for t in tensors((4, 16, 14, 14), (16, 16, 3, 3)))
    function = lambda x, w: F.conv2d(x, w, padding=1)  # noqa: E731
    before = torch.are_deterministic_algorithms_enabled()
    try:
        torch.use_deterministic_algorithms(how == "all")
        with cudnn.flags(enabled=True, deterministic=how == "cudnn"):
            first = gradients(function, [x, w])
            for _ in range(3):
                for a, b in zip(first, gradients(function, [x, w]), strict=True):
                    assert torch.equal(a, b)
    finally:
        torch.use_deterministic_algorithms(before)


@pytest.mark.parametrize("benchmark", [False, True])
def test_graphs(monkeypatch, benchmark):
    """Plans are made while a graph is captured, and none is timed: that would be a part of it."""
    monkeypatch.setattr(cudnn, "benchmark", benchmark)
    monkeypatch.setattr(cudnn, "deterministic", True)
    x = torch.randn(2, 3, 9 + benchmark, 8, device="cuda")
    w = torch.randn(4, 3, 3, 3, device="cuda", requires_grad=True)

    def step():
        y = F.conv2d(x, w, padding=1)
        return [y.detach(), *torch.autograd.grad(y.square().sum(), w)]

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step()
    for _ in range(2):
        x.mul_(2)
        graph.replay()
        assert all(map(torch.allclose, found, step()))


def test_streams():
    x, w = (t.cuda() for t in tensors((2, 4, 8, 8), (8, 4, 3, 3)))
    wanted = F.conv2d(x, w)
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(2)]
    found = []
    for k in range(4):
        with torch.cuda.stream(streams[k % 2]):
            found.append(F.conv2d(x, w))
    torch.cuda.synchronize()
    assert all(torch.equal(y, wanted) for y in found)


def test_nobody_waits():
    x, w = (t.cuda() for t in tensors((2, 4, 8, 8), (8, 4, 3, 3)))
    w.requires_grad_()
    F.conv2d(x, w).sum().backward()  # plans are made
    torch.cuda.set_sync_debug_mode("error")
    try:
        F.conv2d(x, w).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_autocast():
    x, w = (t.cuda() for t in tensors((2, 4, 8, 8), (8, 4, 3, 3)))
    w.requires_grad_()
    before = _C._cuda_dnn_convolutions()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        y = F.conv2d(x, w)
    assert y.dtype == torch.bfloat16
    y.sum().backward()
    used(before, 2)
    assert w.grad.dtype == torch.float32


def test_sizes_without_elements():
    w = torch.randn(4, 3, 3, 3).cuda().requires_grad_()
    y = F.conv2d(torch.randn(0, 3, 5, 5).cuda(), w)
    assert y.shape == (0, 4, 3, 3)
    y.sum().backward()
    assert torch.equal(w.grad, torch.zeros_like(w))


def test_what_the_library_refuses():
    """Kernels of our own take its place; the stand-in has no convolution of 13 channels."""
    if "stand_in" not in os.environ.get("TAPEGRAD_CUDNN", ""):
        pytest.skip("NVIDIA's library refuses nothing that is known")
    before = _C._cuda_dnn_convolutions()
    for dtype in (torch.float32, torch.bfloat16):
        for last in (False, True):
            x, w, b = tensors((2, 3, 6, 6), (13, 3, 3, 3), 13)
            if last:
                x = x.contiguous(memory_format=LAST)
            check(F.conv2d, [x, w, b], dtype)
    used(before, 0)
    assert "there is no engine" in _C._cuda_dnn_refusal()
