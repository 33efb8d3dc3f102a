"""Attention by cuDNN against float64 on the CPU; test_dnn_attention.py has a stand-in for it."""

import contextlib
import math

import pytest
from library import torch

from tapegrad import tape

from .conftest import DEVICE

_C = torch._C
attend = torch.nn.functional.scaled_dot_product_attention
Backend, sdpa_kernel = torch.nn.attention.SDPBackend, torch.nn.attention.sdpa_kernel
HALVES = [torch.float16, torch.bfloat16]

pytestmark = pytest.mark.skipif(
    not _C._cuda_dnn_version(), reason="no cuDNN here: test_dnn_attention.py has a stand-in"
)
real = pytest.mark.skipif(DEVICE != "gpu", reason="takes minutes on the emulator")


def operands(batch, heads, queries, keys, width, value_width=None, shared=1, layout="heads"):
    torch.manual_seed(1)
    if layout == "packed":
        x = torch.randn(batch, queries, 3, heads, width)
        return [x[:, :, i].transpose(1, 2) for i in range(3)]
    sizes = [
        (batch, heads, queries, width),
        (batch, heads // shared, keys, width),
        (batch, heads // shared, keys, value_width or width),
    ]
    if layout == "plain":
        return [torch.randn(*size) for size in sizes]
    return [torch.randn(b, n, h, w).transpose(1, 2) for b, h, n, w in sizes]


def composed(query, key, value, mask=None, causal=False, scale=None, kept=None):
    """Attention of float64, plainly; `kept` is what weights are multiplied with."""
    group = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(group, 1) for x in (key, value))
    scores = query @ key.transpose(-2, -1) * (scale or 1 / math.sqrt(query.shape[-1]))
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, -math.inf)
    elif mask is not None:
        scores = scores + mask.double()
    unseen = (scores == -math.inf).all(-1, keepdim=True)
    weights = scores.masked_fill(unseen, 0.0).softmax(-1).masked_fill(unseen, 0.0)
    return (weights if kept is None else weights * kept) @ value


def moved(x, dtype):
    """Return it on the device in the same order of memory."""
    order = sorted(range(4), key=lambda d: -x.stride(d))
    there = x.permute(order).contiguous().to("cuda", dtype)
    return there.permute([order.index(d) for d in range(4)])


def check(tensors, dtype, mask=None, units=6, **kwargs):
    """Compare results and gradients, and see that cuDNN computed them."""
    tensors = [x.to(dtype) for x in tensors]
    exact = [x.double().requires_grad_() for x in tensors]
    wanted = composed(*exact, mask=mask, causal=kwargs.get("is_causal"), scale=kwargs.get("scale"))
    grad = torch.randn(wanted.transpose(1, 2).shape).transpose(1, 2).to(dtype)
    wanted = [wanted, *torch.autograd.grad(wanted, exact, grad.double())]
    found_of = [moved(x, dtype).requires_grad_() for x in tensors]
    there = mask.cuda() if mask is not None else None
    before = _C._cuda_dnn_attentions()
    with sdpa_kernel(Backend.CUDNN_ATTENTION):
        found = attend(*found_of, attn_mask=there, **kwargs)
        found = [found, *torch.autograd.grad(found, found_of, moved(grad, dtype))]
    after = _C._cuda_dnn_attentions()
    assert (after[0] - before[0], after[1] - before[1]) == (1, 1)
    for name, ours, exactly in zip(("result", "dq", "dk", "dv"), found, wanted, strict=True):
        assert ours.dtype == dtype
        allowed = units * torch.finfo(dtype).eps * max(exactly.abs().max().item(), 1e-3)
        worst = (ours.detach().cpu().double() - exactly.detach()).abs().max().item()
        assert worst <= allowed, f"{name} differs by {worst}, and {allowed} is allowed"
    return found


# Sizes: batch, heads, queries, keys, width, and what else is not usual.
SIZES = [
    ((2, 4, 128, 128, 64), {}),
    ((2, 2, 128, 128, 128), {}),
    ((1, 2, 128, 128, 256), {}),
    ((2, 3, 77, 131, 64), {}),
    ((2, 3, 131, 77, 32), {}),
    ((1, 2, 65, 200, 8), {}),
    ((2, 2, 40, 40, 40), {}),
    ((1, 2, 64, 96, 64, 32), {}),
    ((1, 1, 1, 77, 64), {}),
    ((3, 2, 5, 7, 16), {}),
    ((2, 4, 100, 100, 64), {"layout": "packed"}),
    ((2, 4, 100, 60, 64), {"layout": "plain"}),
    ((2, 6, 70, 70, 64), {"shared": 3}),
    ((2, 4, 128, 128, 128), {"shared": 4}),
]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("sizes", "options"), SIZES, ids=str)
def test_sizes(sizes, options, causal):
    dtype = HALVES[(sum(sizes) + causal) % 2]
    inputs = operands(*sizes, **options)
    check(inputs, dtype, is_causal=causal, enable_gqa="shared" in options)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_dtypes(dtype):
    found = check(operands(1, 2, 96, 96, 64), dtype, is_causal=True)
    assert found[0].stride() == (96 * 2 * 64, 64, 2 * 64, 1)


def test_scale():
    check(operands(1, 2, 64, 64, 64), torch.bfloat16, scale=0.05)


def test_large_scores():
    query, key, value = operands(1, 2, 64, 64, 64)
    check([query * 8, key * 8, value], torch.float16, units=12)


MASKS = [(70, 90), (2, 1, 70, 90), (1, 3, 70, 90), (2, 3, 70, 90), (2, 1, 1, 90), (90,)]


@pytest.mark.parametrize("kind", ["bool", "half", "wide"])
@pytest.mark.parametrize("shape", MASKS, ids=str)
def test_masks(shape, kind):
    torch.manual_seed(2)
    dtype = torch.bfloat16
    mask = torch.rand(shape) > 0.3
    if kind != "bool":
        added = torch.randn(shape).to(dtype).masked_fill(~mask, -math.inf)
        mask = added.to(dtype if kind == "half" else torch.float32)
    check(operands(2, 3, 70, 90, 64), dtype, mask)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_queries_that_see_nothing(dtype):
    mask = torch.ones(70, 90, dtype=torch.bool)
    mask[3] = mask[64] = mask[69] = False
    mask[10, :70] = False  # whose first blocks are all hidden
    found = check(operands(1, 2, 70, 90, 64), dtype, mask)
    for row in (3, 64, 69):
        assert not found[0][:, :, row].any()
        assert not found[1][:, :, row].any()


def test_a_sequence_that_sees_nothing():
    mask = torch.ones(2, 1, 1, 90, dtype=torch.bool)
    mask[1] = False
    found = check(operands(2, 2, 70, 90, 64), torch.bfloat16, mask)
    assert not any(x[1].any() for x in found)


def test_not_numbers_stay():
    """A mask that hides all of a row makes zeros, and nothing else does."""
    query, key, value = operands(1, 1, 64, 64, 64)
    query[0, 0, 5] = math.nan
    mask = torch.ones(64, 64, dtype=torch.bool)
    mask[7] = False
    tensors = [moved(x, torch.bfloat16) for x in (query, key, value)]
    with sdpa_kernel(Backend.CUDNN_ATTENTION):
        found = attend(*tensors, attn_mask=mask.cuda())
    assert found[0, 0, 5].isnan().all()
    assert not found[0, 0, 7].any()


@pytest.mark.parametrize("shared_memory", [True, False])
def test_heads_of_one_projection(shared_memory):
    """The gradients of its parts lie in one memory."""
    x = torch.randn(2, 40, 3, 2, 16, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    before = _C._cuda_dnn_attentions()
    parts = x.permute(2, 0, 3, 1, 4).unbind(0)
    if not shared_memory:
        parts = [part.clone() for part in parts]
    result = attend(*parts, is_causal=True)
    weights = result.detach().float().cos().to(torch.bfloat16)
    with tape.record(replay=True) as t:
        grad = torch.autograd.grad(result, x, weights)[0]
    assert ("copy(" in str(t.program())) != shared_memory
    after = _C._cuda_dnn_attentions()
    assert (after[0] - before[0], after[1] - before[1]) == (1, 1)
    exact = x.detach().cpu().double().requires_grad_()
    composed(*exact.permute(2, 0, 3, 1, 4).unbind(0), causal=True).sin().sum().backward()
    worst = (grad.cpu().double() - exact.grad).abs().max()
    assert worst <= 0.03 * exact.grad.abs().max()


def test_gradients_of_other_strides():
    """The gradient of a sum is one number, repeated."""
    inputs = [moved(x, torch.bfloat16).requires_grad_() for x in operands(1, 2, 64, 64, 64)]
    attend(*inputs, is_causal=True).sum().backward()
    exact = [x.detach().cpu().double().requires_grad_() for x in inputs]
    composed(*exact, causal=True).sum().backward()
    for ours, wanted in zip(inputs, exact, strict=True):
        allowed = 0.05 * max(wanted.grad.abs().max().item(), 0.05)
        assert (ours.grad.cpu().double() - wanted.grad).abs().max() <= allowed


@pytest.mark.parametrize("causal", [False, True])
def test_second_derivatives(causal):
    inputs = operands(1, 2, 24, 24, 16)
    found = []
    for device, dtype in (("cpu", torch.float64), ("cuda", torch.float16)):
        tensors = [x.half().to(device, dtype).requires_grad_() for x in inputs]
        result = attend(*tensors, is_causal=causal)
        grads = torch.autograd.grad(result.sin().sum(), tensors, create_graph=True)
        found.append(torch.autograd.grad(sum(g.square().sum() for g in grads), tensors))
    for exact, ours in zip(*found, strict=True):
        assert (ours.cpu().double() - exact).abs().max() <= 0.02 * exact.abs().max()


def test_in_order():
    """Deterministic algorithms give the same bits each time."""
    inputs = [moved(x, torch.bfloat16).requires_grad_() for x in operands(2, 4, 200, 200, 64)]
    grad = torch.randn(2, 4, 200, 64, device="cuda", dtype=torch.bfloat16)
    torch.use_deterministic_algorithms(True)
    try:
        check(operands(2, 3, 100, 100, 64), torch.bfloat16, is_causal=True)
        check(operands(2, 4, 100, 100, 64, shared=2), torch.bfloat16, enable_gqa=True)
        runs = [
            torch.autograd.grad(attend(*inputs, is_causal=True), inputs, grad) for _ in range(5)
        ]
    finally:
        torch.use_deterministic_algorithms(False)
    for run in runs[1:]:
        assert all(torch.equal(a, b) for a, b in zip(run, runs[0], strict=True))


# ---- dropout


def dropped_weights(query, key, p, **kwargs):
    """Return what dropout makes of the weights, for a number of keys that is a head size."""
    keys = key.shape[2]
    identity = torch.eye(keys, device="cuda", dtype=query.dtype).expand(*key.shape[:2], keys, keys)
    torch.manual_seed(5)
    return attend(query, key, identity.contiguous(), dropout_p=p, **kwargs)


def test_dropout_statistics():
    query, key = (torch.zeros(2, 4, 256, 64, device="cuda", dtype=torch.float16) for _ in "qk")
    key = key[:, :, :64]
    weights = dropped_weights(query, key, 0.25)
    assert abs((weights == 0).double().mean().item() - 0.25) < 0.01
    kept = weights[weights != 0].double()
    assert (kept - 1 / 64 / 0.75).abs().max() < 1e-4
    flat = (weights != 0).double().reshape(8, -1)
    alike = flat @ flat.T / flat.shape[1]
    others = alike[~torch.eye(8, dtype=torch.bool, device="cuda")]
    assert (others - 0.75**2).abs().max() < 0.02  # heads draw numbers of their own


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shared", [1, 2])
def test_dropout_of_both_directions(causal, shared):
    p, dtype = 0.2, torch.bfloat16
    options = {"is_causal": causal, "enable_gqa": shared > 1}
    tensors = [moved(x, dtype) for x in operands(2, 4, 80, 64, 64, shared=shared, layout="plain")]
    kept = (dropped_weights(*tensors[:2], p, **options) != 0).cpu().double() / (1 - p)
    grad = torch.randn(2, 4, 80, 64).to(dtype)
    leaves = [x.requires_grad_() for x in tensors]
    before = _C._cuda_dnn_attentions()
    torch.manual_seed(5)
    found = attend(*leaves, dropout_p=p, **options)
    found = [found, *torch.autograd.grad(found, leaves, grad.cuda())]
    after = _C._cuda_dnn_attentions()
    assert (after[0] - before[0], after[1] - before[1]) == (1, 1)
    exact = [x.detach().cpu().double().requires_grad_() for x in tensors]
    wanted = composed(*exact, causal=causal, kept=kept)
    wanted = [wanted, *torch.autograd.grad(wanted, exact, grad.double())]
    for name, ours, exactly in zip(("result", "dq", "dk", "dv"), found, wanted, strict=True):
        allowed = 6 * torch.finfo(dtype).eps * exactly.abs().max().item()
        worst = (ours.detach().cpu().double() - exactly.detach()).abs().max().item()
        assert worst <= allowed, f"{name} differs by {worst}, and {allowed} is allowed"


def test_dropout_repeats():
    inputs = [moved(x, torch.bfloat16).requires_grad_() for x in operands(1, 2, 64, 64, 64)]

    def run(*tensors):
        return attend(*tensors, dropout_p=0.5, is_causal=True)

    torch.manual_seed(3)
    first, second = run(*inputs), run(*inputs)
    assert not torch.equal(first, second)
    zeros, identity = torch.zeros_like(inputs[0]), torch.eye(64, device="cuda").expand(1, 2, 64, 64)
    weights = [
        attend(zeros, zeros, identity.to(zeros.dtype), dropout_p=0.5).flatten() != 0
        for _ in range(2)
    ]
    for shift in range(0, 4096, 64):  # of calls after each other neither is the other, shifted
        alike = weights[0][shift:] == weights[1][: 8192 - shift]
        assert alike.double().mean() < 0.6
    torch.manual_seed(3)
    assert torch.equal(first, run(*inputs))
    torch.manual_seed(3)
    wanted = torch.autograd.grad(run(*inputs).float().square().sum(), inputs)
    torch.manual_seed(3)
    again = torch.utils.checkpoint.checkpoint(run, *inputs, use_reentrant=False)
    found = torch.autograd.grad(again.float().square().sum(), inputs)
    for ours, exact in zip(found, wanted, strict=True):
        assert (ours - exact).abs().max() <= 0.02 * exact.abs().max()


def test_dropout_twice_differentiable():
    inputs = operands(1, 2, 24, 24, 16, layout="plain")
    tensors = [moved(x, torch.float16).requires_grad_() for x in inputs]
    torch.manual_seed(3)
    result = attend(*tensors, dropout_p=0.3)
    first = torch.autograd.grad(result.float().sin().sum(), tensors, retain_graph=True)
    again = torch.autograd.grad(result.float().sin().sum(), tensors, create_graph=True)
    for ours, exact in zip(again, first, strict=True):
        assert (ours - exact).abs().max() <= 0.01 * exact.abs().max()
    total = sum(g.float().square().sum() for g in again)
    assert all(x.isfinite().all() for x in torch.autograd.grad(total, tensors))


# ---- with the tools for the tape


def layers(x, weights, dropout_p=0.0):
    """Layers of attention whose heads are split off one projection."""
    for weight in weights:
        parts = (x @ weight).view(2, 48, 3, 2, 16).permute(2, 0, 3, 1, 4)
        seen = attend(*parts, is_causal=True, dropout_p=dropout_p)
        x = x + seen.transpose(1, 2).reshape(x.shape)
    return x


def run_layers(around, dropout_p, count):
    torch.manual_seed(4)
    x = torch.randn(2, 48, 32, device="cuda", dtype=torch.bfloat16)
    weights = [torch.randn(32, 96, device="cuda", dtype=torch.bfloat16) / 6 for _ in range(count)]
    weights = [weight.requires_grad_() for weight in weights]
    torch.manual_seed(5)
    with around:
        loss = layers(x, weights, dropout_p).float().square().mean()
        loss.backward()
    return [weight.grad.double() for weight in weights]


@pytest.fixture
def in_order():
    """The same bits each time."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dropout_p", [0.0, 0.3])
def test_budgets(in_order, dropout_p):
    plain = run_layers(contextlib.nullcontext(), dropout_p, 6)
    before = _C._cuda_dnn_attentions()
    tight = run_layers(tape.budget("58 KiB"), dropout_p, 6)
    after = _C._cuda_dnn_attentions()
    assert after[0] - before[0] > 6, "nothing was computed again"
    assert all(torch.equal(a, b) for a, b in zip(plain, tight, strict=True))


@pytest.mark.parametrize("dropout_p", [0.0, 0.3])
def test_compressed(dropout_p):
    plain = run_layers(contextlib.nullcontext(), dropout_p, 2)
    small = run_layers(tape.compress("int8"), dropout_p, 2)
    for ours, exact in zip(small, plain, strict=True):
        assert (ours - exact).abs().max() <= 0.1 * exact.abs().max()


def test_a_program(in_order):
    torch.manual_seed(4)
    x = torch.randn(2, 48, 32, device="cuda", dtype=torch.bfloat16)
    weight = (torch.randn(32, 96, device="cuda", dtype=torch.bfloat16) / 6).requires_grad_()

    def step(x):
        return torch.autograd.grad(layers(x, [weight]).float().square().mean(), weight)[0]

    with tape.record(replay=True, inputs=x) as t:
        step(x)
    other = x * 2
    wanted = step(other)
    before = _C._cuda_dnn_attentions()
    assert torch.equal(t.replay(other), wanted)
    assert _C._cuda_dnn_attentions() == (before[0] + 1, before[1] + 1)


def test_autocast():
    x = torch.randn(1, 2, 40, 16, device="cuda", requires_grad=True)
    before = _C._cuda_dnn_attentions()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        result = attend(x, x, x, is_causal=True)
    result.float().sum().backward()
    assert result.dtype == torch.bfloat16
    assert x.grad.dtype == torch.float32
    assert _C._cuda_dnn_attentions() == (before[0] + 1, before[1] + 1)


def test_other_streams():
    inputs = [moved(x, torch.bfloat16).requires_grad_() for x in operands(1, 2, 64, 64, 64)]
    wanted = attend(*inputs, is_causal=True)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        found = attend(*inputs, is_causal=True)
        torch.autograd.grad(found.float().sum(), inputs)
    torch.cuda.current_stream().wait_stream(stream)
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("dropout_p", [0.0, 0.4])
def test_graphs(in_order, dropout_p):
    """Replays draw the numbers that the program would draw."""
    inputs = [moved(x, torch.bfloat16).requires_grad_() for x in operands(1, 2, 40, 40, 16)]

    def run():
        result = attend(*inputs, is_causal=True, dropout_p=dropout_p)
        return [result, *torch.autograd.grad(result.float().square().sum(), inputs)]

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
    torch.cuda.current_stream().wait_stream(stream)
    torch.manual_seed(9)
    wanted = [[x.clone() for x in run()] for _ in range(3)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    torch.manual_seed(9)
    for step in wanted:
        graph.replay()
        assert all(torch.equal(a, b) for a, b in zip(captured, step, strict=True))


# ---- the choice


def test_the_choice():
    x = torch.zeros(1, 2, 64, 64, device="cuda", dtype=torch.bfloat16)
    y = torch.zeros(1, 2, 64, 12, device="cuda", dtype=torch.bfloat16)
    choice = torch._fused_sdp_choice
    assert Backend(choice(x, x, x)) == Backend.CUDNN_ATTENTION
    assert Backend(choice(x, x, x, dropout_p=0.1)) == Backend.CUDNN_ATTENTION
    assert Backend(choice(x.float(), x.float(), x.float())) == Backend.FLASH_ATTENTION
    assert Backend(choice(y, y, y)) == Backend.FLASH_ATTENTION
    assert Backend(choice(y, y, y, dropout_p=0.1)) == Backend.FLASH_ATTENTION
    with sdpa_kernel(Backend.EFFICIENT_ATTENTION):
        assert Backend(choice(x, x, x)) == Backend.EFFICIENT_ATTENTION
        before = _C._cuda_dnn_attentions()
        attend(x, x, x)
        assert _C._cuda_dnn_attentions() == before
    with sdpa_kernel(Backend.CUDNN_ATTENTION), pytest.raises(RuntimeError, match="multiples of 8"):
        attend(y, y, y)
    with torch.backends.cudnn.flags(enabled=False):
        assert Backend(choice(x, x, x)) == Backend.FLASH_ATTENTION
    params = torch.backends.cuda.SDPAParams(x, x, x, None, 0.0, True, False)
    assert torch.backends.cuda.can_use_cudnn_attention(params, debug=True)


def test_rows_that_are_not_aligned():
    """Are copied where cuDNN takes the size, else they go to the kernels of our own."""
    wide = torch.randn(1, 2, 40, 17, device="cuda", dtype=torch.bfloat16)
    repeated = torch.randn(1, 1, 40, 16, device="cuda", dtype=torch.bfloat16).expand(1, 2, 40, 16)
    across = torch.randn(1, 2, 16, 40, device="cuda", dtype=torch.bfloat16).transpose(2, 3)
    for x, backend in (
        (wide[..., 1:], Backend.CUDNN_ATTENTION),
        (repeated, Backend.CUDNN_ATTENTION),
        (across, Backend.CUDNN_ATTENTION),
        (wide, Backend.FLASH_ATTENTION),
        (wide[..., 2:], Backend.FLASH_ATTENTION),
    ):
        assert Backend(torch._fused_sdp_choice(x, x, x)) == backend
        leaf, exact = x.detach().requires_grad_(), x.cpu().double().requires_grad_()
        found, wanted = attend(leaf, leaf, leaf), composed(exact, exact, exact)
        assert (found.cpu().double() - wanted).abs().max() < 0.05
        found.float().square().sum().backward()
        wanted.square().sum().backward()
        assert (leaf.grad.cpu().double() - exact.grad).abs().max() < 0.05 * exact.grad.abs().max()


@pytest.mark.parametrize("dropout_p", [0.0, 0.2])
def test_gradients_that_repeat(dropout_p):
    """Those of a sum over one dimension are copied, and cuDNN has them."""
    inputs = [moved(x, torch.bfloat16).requires_grad_() for x in operands(2, 2, 64, 64, 64)]
    before = _C._cuda_dnn_attentions()
    result = attend(*inputs, is_causal=True, dropout_p=dropout_p)
    weights = torch.randn(1, 1, 64, 64, device="cuda", dtype=torch.bfloat16)
    found = torch.autograd.grad(result, inputs, weights.expand(2, 2, 64, 64), retain_graph=True)
    wanted = torch.autograd.grad(result, inputs, weights.expand(2, 2, 64, 64).contiguous())
    after = _C._cuda_dnn_attentions()
    assert (after[0] - before[0], after[1] - before[1]) == (1, 2)
    for ours, exact in zip(found, wanted, strict=True):
        assert (ours - exact).abs().max() <= 0.02 * exact.abs().max()


def test_the_backward_of_results_of_our_own_kernels():
    """Sums of rows mean the same to both."""
    inputs = [moved(x, torch.float16).requires_grad_() for x in operands(1, 2, 70, 70, 64)]
    found = []
    for backend in (Backend.CUDNN_ATTENTION, Backend.FLASH_ATTENTION):
        with sdpa_kernel(backend):
            result = attend(*inputs, is_causal=True)
        found.append([result, *torch.autograd.grad(result.float().sin().sum(), inputs)])
    for ours, theirs in zip(*found, strict=True):
        assert (ours - theirs).abs().max() <= 0.01 * theirs.abs().max()


@real
def test_memory_grows_with_the_length():
    x = torch.randn(1, 8192, 4, 64, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
    x.requires_grad_()
    grad = torch.ones(1, 4, 8192, 64, device="cuda", dtype=torch.bfloat16)
    attend(x, x, x, is_causal=True).backward(grad)
    x.grad = None
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    attend(x, x, x, is_causal=True).backward(grad)
    assert torch.cuda.max_memory_allocated() - before < 16 * x.numel() * 2
