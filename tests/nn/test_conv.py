"""Convolutions beside PyTorch's: random geometry, layouts, dtypes, transforms, hostile numbers."""

import importlib
import itertools
import subprocess
import sys
import warnings

import numpy as np
import pytest
from library import IS_SANITIZED, IS_TORCH

from .side_by_side import expect_near, expect_same, numbers, tensor_of

SEEDS = range(40)
# Of one element: the rounding of a result, and what sums of a hundred products of size one add up.
TOLERANCES = {"float64": 1e-11, "float32": 2e-5}


def geometry(seed):
    """Return a random call: rank, whether transposed, shapes of input and weight, arguments."""
    random = np.random.default_rng(seed)
    rank = int(random.integers(1, 4))
    transposed = bool(random.integers(2))
    largest = {1: 40, 2: 14, 3: 7}[rank]

    def draw(low, high):
        return tuple(int(value) for value in random.integers(low, high + 1, rank))

    kernel, stride, dilation = draw(1, 4), draw(1, 3), draw(1, 2)
    reach = [step * (size - 1) + 1 for step, size in zip(dilation, kernel, strict=True)]
    sizes = tuple(int(random.integers(size, size + largest)) for size in reach)
    padding = tuple(int(random.integers(0, (size + 1) // 2 + 1)) for size in reach)
    groups = int(random.choice([1, 1, 2, 3]))
    near, far = (groups * int(random.integers(1, 4)) for _ in range(2))
    batch = int(random.choice([0, 1, 2, 3]))
    weight = (near, far // groups, *kernel) if transposed else (far, near // groups, *kernel)
    lead = () if random.integers(4) == 0 else (batch,)
    kwargs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if transposed:
        kwargs["output_padding"] = tuple(
            int(random.integers(0, max(pair))) for pair in zip(stride, dilation, strict=True)
        )
    bias = (far,) if random.integers(2) else None
    return rank, transposed, (*lead, near, *sizes), weight, bias, kwargs


def function_of(rank, transposed):
    name = f"conv_transpose{rank}d" if transposed else f"conv{rank}d"
    return lambda library: getattr(library.nn.functional, name)


def arrays_of(x, w, bias):
    shapes = [shape for shape in (x, w, bias) if shape]
    return [numbers(*shape, seed=k, low=-1, high=1) for k, shape in enumerate(shapes)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_random_geometry(both, seed, dtype):
    rank, transposed, *shapes, kwargs = geometry(seed)
    found = []
    for library in both:
        args = [
            library.from_numpy(array.astype(dtype)).requires_grad_() for array in arrays_of(*shapes)
        ]
        y = function_of(rank, transposed)(library)(*args, **kwargs)
        cotangent = library.from_numpy(numbers(*y.shape, seed=5).astype(dtype))
        found.append((y, *library.autograd.grad(y, args, cotangent)))
    for ours, theirs in zip(*found, strict=True):
        expect_near(ours, theirs, f"{shapes}, {kwargs}", TOLERANCES[dtype])


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_are_rounded_once(both, seed, dtype):
    """PyTorch rounds on the way, so the measure is its float64 result, rounded at the end."""
    tapegrad, pytorch = both
    rank, transposed, *shapes, kwargs = geometry(seed)
    halves = [
        tapegrad.from_numpy(array).to(getattr(tapegrad, dtype)) for array in arrays_of(*shapes)
    ]
    ours = function_of(rank, transposed)(tapegrad)(*halves, **kwargs)
    assert ours.dtype is getattr(tapegrad, dtype)
    exact = [pytorch.from_numpy(half.double().numpy()) for half in halves]
    theirs = function_of(rank, transposed)(pytorch)(*exact, **kwargs).numpy()
    epsilon = tapegrad.finfo(ours.dtype).eps
    np.testing.assert_allclose(ours.double().numpy(), theirs, rtol=epsilon, atol=1e-5)


LAYOUTS = {
    "transposed": lambda t: t.transpose(-1, -2).contiguous().transpose(-1, -2),
    "channels last": lambda t: t.movedim(1, -1).contiguous().movedim(-1, 1),
    "sliced": lambda t: t.repeat_interleave(2, -1)[..., ::2],
    "offset": lambda t: t.repeat(2, *[1] * (t.dim() - 1))[t.shape[0] :],
    "expanded": lambda t: t[:, :, :1].expand(t.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("transposed", [False, True])
def test_layouts(both, layout, transposed):
    """Input, weight and what comes back in the sweep may lie anyhow in memory."""
    lay = LAYOUTS[layout]

    def convolve(library):
        function = function_of(2, transposed)(library)

        def run(x, w, g):
            y = function(lay(x), lay(w), stride=2, padding=1)
            assert layout == "offset" or not lay(x).is_contiguous()
            return (y * lay(g)).sum() + (y.transpose(0, 1).flatten() ** 2).sum()

        return run

    y = (2, 4, 13, 11) if transposed else (2, 4, 4, 3)
    expect_same(both, convolve, [numbers(2, 4, 7, 6), numbers(4, 4, 3, 3), numbers(*y)])


def test_a_gradient_that_is_expanded(both):
    """A sum sends back one element for all, with strides of zero."""

    def convolve(library):
        return lambda x, w: library.nn.functional.conv2d(x, w).sum()

    expect_same(both, convolve, [numbers(2, 3, 6, 6), numbers(4, 3, 3, 3)])


SAME = [
    (rank, kernel, dilation)
    for rank in (1, 2, 3)
    for kernel in ((3, 3, 3), (2, 3, 4), (4, 1, 2))
    for dilation in (1, 2, (3, 1, 2))
]


@pytest.mark.parametrize(("rank", "kernel", "dilation"), SAME)
@pytest.mark.parametrize("batched", [True, False])
def test_same_padding(both, rank, kernel, dilation, batched):
    dilation = dilation if isinstance(dilation, int) else dilation[:rank]
    shape = (4, 5, 4, 6)[: rank + 1]
    x = numbers(*((2,) if batched else ()), *shape)
    args = [x, numbers(2, 4, *kernel[:rank]), numbers(2)]
    kwargs = {"padding": "same", "dilation": dilation}
    expect_same(both, function_of(rank, False), args, kwargs)
    ours = both[0].nn.functional
    y = getattr(ours, f"conv{rank}d")(*(tensor_of(both[0], arg) for arg in args), **kwargs)
    assert y.shape[-rank:] == shape[1:]


def test_same_padding_is_a_pad_in_front(torch):
    """The odd zero stands at the end."""
    x, w = torch.randn(1, 1, 5), torch.randn(1, 1, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch tells of the copy.
        same = torch.nn.functional.conv1d(x, w, padding="same")
    padded = torch.nn.functional.conv1d(torch.nn.functional.pad(x, (1, 2)), w)
    assert same.flatten().tolist() == pytest.approx(padded.flatten().tolist())


def test_valid_padding(both):
    args = [numbers(2, 3, 7, 8), numbers(4, 3, 3, 2)]
    kwargs = {"padding": "valid", "stride": 2}
    expect_same(both, function_of(2, False), args, kwargs)


def test_positional_order(both):
    args = [numbers(1, 4, 6, 6), numbers(4, 2, 3, 3), numbers(4)]
    expect_same(both, lambda t: lambda *a: t.conv2d(*a, 2, 1, 2, 2), args)
    expect_same(both, lambda t: lambda *a: t.conv_transpose2d(*a, 2, 1, 1, 2, 2), args)
    how = ((2, 1), (1, 0), (2, 1), True, (1, 0), 2)
    expect_same(both, lambda t: lambda *a: t.convolution(*a, *how), args)
    expect_same(both, lambda t: lambda *a: t.convolution(*a, *how[:3], False, (0, 0), 2), args)


@pytest.mark.parametrize("name", ["conv1d", "conv2d", "conv3d"])
def test_top_level_names(torch, name):
    rank = int(name[4])
    x, w = torch.randn(1, 2, *[4] * rank), torch.randn(3, 2, *[2] * rank)
    for last in (name, f"conv_transpose{rank}d"):
        weight = w if last == name else w.transpose(0, 1)
        top, nested = getattr(torch, last), getattr(torch.nn.functional, last)
        assert top(x, weight).tolist() == nested(x, weight).tolist()


def test_the_transpose_is_the_transpose(torch):
    """<conv(x), y> = <x, conv_transpose(y)> with the same weight and geometry."""
    x, y = torch.randn(2, 4, 9, 8).double(), torch.randn(2, 6, 5, 3).double()
    w = torch.randn(6, 2, 3, 4).double()
    forward = torch.conv2d(x, w, stride=(2, 3), padding=(1, 2), groups=2)
    back = torch.conv_transpose2d(y, w, None, (2, 3), (1, 2), (0, 2), 2)
    assert forward.shape == y.shape and back.shape == x.shape
    assert (forward * y).sum().item() == pytest.approx((x * back).sum().item())


# ---- derivatives ----------------------------------------------------------------------------

SMALL = [
    (1, False, {"stride": 2, "padding": 1}),
    (2, False, {"groups": 2, "padding": 1}),
    (2, False, {"dilation": 2, "padding": (2, 1), "stride": (1, 2)}),
    (3, False, {}),
    (1, True, {"stride": 2, "output_padding": 1}),
    (2, True, {"groups": 2, "stride": 2, "padding": 1}),
    (3, True, {"dilation": (1, 2, 1)}),
]


def small_args(torch, rank, groups):
    shapes = ((2, 2, *[3] * rank), (2, 2 // groups, *[2] * rank), (2,))
    return [tensor_of(torch, numbers(*shape, seed=k)) for k, shape in enumerate(shapes)]


@pytest.mark.parametrize(("rank", "transposed", "kwargs"), SMALL)
@pytest.mark.parametrize("with_bias", [True, False])
def test_gradcheck(torch, rank, transposed, kwargs, with_bias):
    args = small_args(torch, rank, kwargs.get("groups", 1))[: 3 if with_bias else 2]
    function = function_of(rank, transposed)(torch)

    def run(*tensors):
        return function(*tensors, **kwargs)

    fast = rank == 3
    assert torch.autograd.gradcheck(run, args, check_forward_ad=True, fast_mode=fast)
    assert torch.autograd.gradgradcheck(run, args, fast_mode=True)


@pytest.mark.parametrize(("rank", "transposed", "kwargs"), SMALL)
@pytest.mark.parametrize("with_bias", [True, False])
def test_forward_mode(both, rank, transposed, kwargs, with_bias):
    pushed = []
    for library in both:
        args = small_args(library, rank, kwargs.get("groups", 1))[: 3 if with_bias else 2]
        primals = tuple(arg.detach() for arg in args)
        tangents = tuple(arg.detach().sin() for arg in args)
        function = function_of(rank, transposed)(library)

        def run(*tensors, function=function):
            return function(*tensors, **kwargs)

        pushed.append(library.func.jvp(run, primals, tangents))
    for ours, theirs in zip(*pushed, strict=True):
        expect_near(ours, theirs, "value and tangent")


@pytest.mark.parametrize("in_dims", [(0, None), (None, 0), (0, 0), (1, 2)])
def test_vmap(both, in_dims):
    mapped = []
    for library in both:
        x, w = numbers(3, 3, 3, 5, 5), numbers(3, 3, 3, 2, 2, seed=1)
        x = x if in_dims[0] is not None else x[0]
        w = w if in_dims[1] is not None else w[0]
        args = tensor_of(library, x).detach(), tensor_of(library, w).detach()
        run = library.func.vmap(
            lambda x, w, t=library: t.nn.functional.conv2d(x, w, padding=1), in_dims
        )
        mapped.append(run(*args))
    expect_near(*mapped, "of a batch of convolutions")


def test_per_sample_gradients(both):
    """vmap over grad: each image has a gradient of the weight of its own."""
    found = []
    for library in both:
        x = tensor_of(library, numbers(4, 2, 5, 5)).detach()
        w, b = (tensor_of(library, numbers(*s)).detach() for s in ((3, 2, 3, 3), (3,)))

        def loss(w, b, image, t=library):
            return (t.nn.functional.conv2d(image, w, b) ** 2).sum()

        grads = library.func.grad(loss, (0, 1))
        found.append(library.func.vmap(grads, (None, None, 0))(w, b, x))
    for ours, theirs in zip(*found, strict=True):
        expect_near(ours, theirs, "per-sample gradients")


def test_only_what_needs_a_gradient_gets_one(torch):
    for chosen in itertools.product([False, True], repeat=3):
        args = [torch.randn(*s) for s in ((2, 3, 5, 5), (4, 3, 3, 3), (4,))]
        for arg, wanted in zip(args, chosen, strict=True):
            arg.requires_grad_(wanted)
        y = torch.conv2d(*args, padding=1)
        assert y.requires_grad == any(chosen)
        if any(chosen):
            y.sum().backward()
        assert tuple(arg.grad is not None for arg in args) == chosen


# ---- machines -------------------------------------------------------------------------------

SCRIPT = """
import tapegrad as torch
torch.manual_seed(0)
torch.set_num_threads({threads})
shapes = [  # image, weight, arguments
    ((2, 8, 19, 23), (16, 8, 3, 3), dict(padding=1)),
    ((2, 8, 19, 23), (16, 8, 3, 3), dict(stride=2, padding=1)),
    ((2, 8, 32, 32), (8, 1, 3, 3), dict(groups=8)),
    ((2, 8, 16, 16), (24, 8, 1, 1), dict()),
    ((9, 8, 3, 3), (16, 8, 3, 3), dict(padding=1)),
    ((2, 6, 5, 6, 7), (4, 3, 2, 3, 2), dict(groups=2, dilation=2, padding=2)),
    ((3, 4, 200), (5, 4, 7), dict(stride=3)),
]
sums = []
for dtype in (torch.float32, torch.float64):
    for image, weight, how in shapes:
        x = torch.randn(image, dtype=dtype, requires_grad=True)
        w = torch.randn(weight, dtype=dtype, requires_grad=True)
        y = getattr(torch, "conv%dd" % (len(weight) - 2))(x, w, **how)
        y.backward(torch.sin(torch.arange(y.numel(), dtype=dtype)).view(y.shape))
        ramp = torch.cos(torch.arange(y.numel(), dtype=dtype)).view(y.shape)
        sums += [(y * ramp).sum().item(), y.abs().sum().item()]
        sums += [value.item() for g in (x.grad, w.grad) for value in (g.sum(), g.abs().sum())]
print(*sums)
"""


def sums_of(tmp_path, cpu="v4", threads=1):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(threads=threads)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"TAPEGRAD_CPU": cpu, "PYTHONPATH": ":".join(sys.path)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [float(word) for word in done.stdout.split()]


@pytest.mark.skipif(IS_SANITIZED, reason="the sanitizers' runtime is not loaded in the child")
@pytest.mark.skipif(IS_TORCH, reason="starts tapegrad")
@pytest.mark.parametrize(("cpu", "threads"), [("v2", 1), ("v3", 1), ("v3", 2), ("v4", 2)])
def test_every_instruction_set_and_number_of_threads(cpu, threads, tmp_path):
    assert sums_of(tmp_path, cpu, threads) == pytest.approx(sums_of(tmp_path), rel=2e-4, abs=2e-3)


# ---- refusals -------------------------------------------------------------------------------

BAD_NUMBERS = (-1, -(2**63), 2**31, 2**40, 2**62, 2**63 - 1)
HOSTILE = [
    (transposed, name, value)
    for transposed in (False, True)
    for name in ("stride", "padding", "dilation", "groups", "output_padding")
    for value in (BAD_NUMBERS if "padding" in name else (0, *BAD_NUMBERS))
    if transposed or name != "output_padding"
]


@pytest.mark.skipif(IS_TORCH, reason="PyTorch computes with some of them modulo 2**32")
@pytest.mark.parametrize(("transposed", "name", "value"), HOSTILE)
def test_hostile_numbers(transposed, name, value):
    """Refused by name: never a crash, an overflow or a result out of bounds."""
    tapegrad = importlib.import_module("tapegrad")
    function = function_of(2, transposed)(tapegrad)
    x, w = tapegrad.ones(1, 2, 5, 5), tapegrad.ones(2, 2, 3, 3)
    for number in (value, (1, value)) if name != "groups" else (value,):
        with pytest.raises(RuntimeError) as error:
            function(x, w, **{name: number})
        assert name in str(error.value).replace("output padding", "output_padding")


@pytest.mark.parametrize("value", [2**64, 10**30])
def test_numbers_beyond_64_bits(torch, value):
    for name in ("stride", "padding", "dilation", "groups"):
        with pytest.raises((RuntimeError, ValueError, TypeError, OverflowError)):
            torch.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2), **{name: value})


# A call, the error in both libraries, what ours says.
REFUSED = [
    (lambda t: t.conv1d(t.ones(2, 3, 8), t.ones(4, 3, 3, 3)), RuntimeError, "3 dimensions"),
    (lambda t: t.conv1d(t.ones(2, 3, 8, 8), t.ones(4, 3, 3, 3)), RuntimeError, "conv1d"),
    (lambda t: t.conv2d(t.ones(2, 3, 8), t.ones(4, 3, 3)), RuntimeError, "4 dimensions"),
    (lambda t: t.conv3d(t.ones(2, 3, 8, 8), t.ones(4, 3, 3, 3)), RuntimeError, "5 dimensions"),
    (lambda t: t.conv_transpose1d(t.ones(2, 3, 8), t.ones(3, 3, 3, 3)), RuntimeError, "3 dim"),
    (lambda t: t.conv2d(t.ones(3, 8), t.ones(4, 3, 3, 3)), RuntimeError, "unbatched"),
    (lambda t: t.conv2d(t.ones(2, 3, 8, 8), t.ones(4, 2, 3, 3)), RuntimeError, "2 channels"),
    (
        lambda t: t.conv2d(t.ones(2, 3, 8, 8).double(), t.ones(4, 3, 3, 3)),
        RuntimeError,
        r"conv2d: Input type \(.*float64\) and weight type \(.*float32\)",
    ),
    (
        lambda t: t.conv1d(t.ones(2, 3, 8), t.ones(4, 3, 3), t.ones(4).double()),
        RuntimeError,
        "bias type",
    ),
    (lambda t: t.conv1d(t.ones(2, 3, 8), t.ones(4, 3, 3), t.ones(4, 1)), RuntimeError, "bias"),
    (
        lambda t: t.conv1d(t.ones(2, 3, 8), t.ones(4, 3, 3), 3),
        TypeError,
        "conv1d: expected tensors",
    ),
    (lambda t: t.conv1d(None, t.ones(4, 3, 3)), TypeError, "NoneType"),
    (lambda t: t.conv1d(t.ones(2, 3, 8), 3.0), TypeError, "float"),
    (lambda t: t.conv1d(t.ones(2, 3, 8), t.ones(4, 3, 3), stride=1.5), TypeError, "float"),
    (lambda t: t.conv1d(t.ones(2, 3, 8), t.ones(4, 3, 3), padding=None), TypeError, "None"),
    (lambda t: t.conv1d(t.ones(2, 3, 8), t.ones(4, 3, 0)), RuntimeError, "kernel size"),
    (lambda t: t.conv1d(t.ones(2, 3, 0), t.ones(4, 3, 3)), RuntimeError, "Kernel size"),
    (lambda t: t.conv1d(t.ones(2, 3, 8), t.ones(0, 3, 3)), RuntimeError, "at least 1"),
    (lambda t: t.conv1d(t.ones(2, 3, 8), t.ones(4, 3, 3), padding=()), RuntimeError, "padding"),
    (
        lambda t: t.conv1d(t.ones(2, 3, 8), t.ones(4, 3, 3), padding="same", stride=(1, 1)),
        RuntimeError,
        "stride",
    ),
    (
        lambda t: t.conv2d(t.ones(2, 3, 8, 8).bool(), t.ones(4, 3, 3, 3).bool()),
        RuntimeError,
        "bool",
    ),
    (
        lambda t: t.convolution(t.ones(3, 8), t.ones(4, 3, 3), None, [1], [0], [1], False, [0], 1),
        RuntimeError,
        "3-dimensional input",
    ),
]


@pytest.mark.parametrize(("call", "error", "says"), REFUSED)
def test_refusals(both, call, error, says):
    tapegrad, pytorch = both
    with pytest.raises(error):
        call(pytorch)
    with pytest.raises(error, match=says):
        call(tapegrad)


def test_integers_wrap_around(both):
    """Sums of integers are exact up to the width of their dtype, and wrap there."""
    for dtype, largest in (("int8", 2**7), ("int64", 2**63)):
        results = []
        for library in both:
            x = library.tensor([[largest - 1, 3, -5, largest // 3]], dtype=getattr(library, dtype))
            w = library.tensor([[[3, 1]]], dtype=getattr(library, dtype))
            results.append(library.conv1d(x, w).tolist())
        assert results[0] == results[1]
