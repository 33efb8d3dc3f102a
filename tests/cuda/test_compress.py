"""Codings of saved values on CUDA: the codes of the CPU, and gradients that know no difference."""

import pytest
from library import torch

F = torch.nn.functional
compress = torch.tape.compress

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8)
# One value, a block with a rest, several thread blocks.
SIZES = (1, 17, 256, 1031, 9001)


def bits(x):
    """Return a tensor's elements as integers, which tell -0 from 0 and compare NaN."""
    same = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    return x.cpu().contiguous().view(same)


def check_round_trip(x, codec, view=lambda x: x, **options):
    """Check that coding and decoding does on CUDA what it does on the CPU, bit by bit."""
    torch.manual_seed(3)
    wanted = compress(codec, min_bytes=0, **options).round_trip(view(x))
    torch.manual_seed(3)
    found = compress(codec, min_bytes=0, **options).round_trip(view(x.cuda()))
    assert found.device.type == "cuda"
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert torch.equal(bits(found), bits(wanted))


def values(size, dtype):
    torch.manual_seed(1)
    return torch.randn(size, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("codec", ["int8", "int4", "bf16"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_rounded_values(size, dtype, codec):
    check_round_trip(values(size, dtype), codec)


@pytest.mark.parametrize("codec", ["int8", "int4"])
@pytest.mark.parametrize("block", [32, 64, 96, 128, 416, 4096])
def test_sizes_of_blocks(block, codec):
    check_round_trip(values(2 * block + 5, torch.float32), codec, block=block)


@pytest.mark.parametrize("codec", ["int8", "int4", "bf16"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_blocks_that_cannot_be_scaled(dtype, codec):
    """Infinities, NaN, huge and tiny numbers are kept beside the codes."""
    x = values(70 * 64, dtype)
    x[64 * 3 + 5] = float("inf")
    x[64 * 10] = float("nan")
    x[64 * 40 : 64 * 42] = torch.finfo(dtype).max
    x[64 * 50 : 64 * 51] = torch.finfo(dtype).tiny
    x[64 * 60 : 64 * 61] = 0
    x[-64:] = -float("inf")
    check_round_trip(x, codec, block=None if codec == "bf16" else 64)


def test_all_blocks_are_kept():
    """More of them than one thread block counts."""
    x = torch.full((1030 * 32 + 3,), float("nan"))
    x[::7] = 1.5
    check_round_trip(x, "int8", block=32)


VIEWS = {
    "transposed": lambda x: x.t(),
    "every other row": lambda x: x[::2],
    "shifted": lambda x: x[:, 1:],
    "expanded": lambda x: x[:, :1].expand(60, 50),
    "unaligned": lambda x: x.flatten()[1:],
}


@pytest.mark.parametrize("codec", ["int8", "bf16"])
@pytest.mark.parametrize("view", VIEWS)
def test_other_layouts(view, codec):
    check_round_trip(values(60 * 50, torch.float32).reshape(60, 50), codec, VIEWS[view])


@pytest.mark.parametrize("dtype", (*FLOATS, *INTEGERS, torch.bool), ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_two_values(dtype, size):
    torch.manual_seed(2)
    mask = torch.rand(size) < 0.5
    check_round_trip(mask.to(dtype) if dtype is torch.bool else mask.to(dtype) * 3 - 1, "exact")
    check_round_trip(torch.ones(size).to(dtype), "exact")


@pytest.mark.parametrize("place", [0, 1, 255, 2100, 8999, 9000])
def test_a_third_value(place):
    """Wherever it stands: what has three values is not coded as bits."""
    x = (torch.arange(9001) % 2).to(torch.uint8)
    x[place] = 7
    check_round_trip(x, "exact")


@pytest.mark.parametrize("dtype", INTEGERS[:3], ids=str)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("width", [200, 60_000, 4_000_000_000, 2**62])
def test_integers_of_a_range(dtype, size, width):
    limits = torch.iinfo(dtype)
    low = max(-width // 3, limits.min)
    high = min(low + width, limits.max)
    torch.manual_seed(4)
    check_round_trip(torch.randint(low, high, (size,), dtype=dtype), "exact")


def test_bfloat16_of_huge_doubles():
    """Beyond its range by more than rounding: kept as they are."""
    top = torch.finfo(torch.bfloat16).max
    x = torch.tensor([1.0, top, 1.001 * top, -float("inf")], dtype=torch.float64)
    check_round_trip(x, "bf16")
    check_round_trip(torch.cat([x, torch.tensor([1e40], dtype=torch.float64)]), "bf16")


# ---- gradients

TESTED = {
    "relu": torch.relu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.7),
    "clamp": lambda x: x.clamp(-0.4, 0.4),
}
SMOOTH = {"tanh": torch.tanh, "product": lambda x: x * x.t().contiguous().t(), "exp": torch.exp}


def gradient(function, device, codec, dtype=torch.float32, shape=(37, 53)):
    torch.manual_seed(11)
    leaf = torch.randn(*shape, dtype=torch.float64).to(dtype).to(device).requires_grad_()
    with compress(codec, min_bytes=0) as c:
        y = function(leaf + 0)
    weights = torch.linspace(-1, 2, y.numel(), dtype=torch.float64).reshape(y.shape)
    torch.manual_seed(12)
    return torch.autograd.grad(y, leaf, weights.to(y))[0].cpu(), c


@pytest.mark.parametrize("codec", ["int8", "int4", "bf16", "exact"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", TESTED)
def test_exact_codings_change_nothing(name, dtype, codec):
    plain, _ = gradient(TESTED[name], "cuda", None, dtype)
    coded, c = gradient(TESTED[name], "cuda", codec, dtype)
    assert torch.equal(bits(coded), bits(plain))
    assert list(c.by_codec()) == ["bits"]


@pytest.mark.parametrize("codec", ["int8", "int4", "bf16"])
@pytest.mark.parametrize("name", SMOOTH)
def test_rounded_codings_are_those_of_the_cpu(name, codec):
    wanted, c = gradient(SMOOTH[name], "cpu", codec)
    found, d = gradient(SMOOTH[name], "cuda", codec)
    assert d.by_codec() == c.by_codec()
    # A code may fall to the other side of a random number where the value differs by a rounding.
    off = (found - wanted).abs() > 1e-5 * wanted.abs().clamp(min=1.0)
    assert off.float().mean().item() < 2e-3


def test_dropout_masks_become_bits():
    def function(x):
        torch.manual_seed(5)
        return F.dropout(x, 0.4)

    plain, _ = gradient(function, "cuda", None)
    coded, c = gradient(function, "cuda", "int8")
    assert torch.equal(bits(coded), bits(plain))
    assert "bits" in c.by_codec()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.max_pool2d(x, 3, stride=2, padding=1),
        lambda x: F.max_pool2d(x, 2, stride=1, dilation=2),
        lambda x: F.adaptive_max_pool2d(x, (3, 4)),
        lambda x: F.max_pool1d(x.flatten(1), 5),
    ],
    ids=["2", "3 padded", "dilated", "adaptive", "1d"],
)
def test_places_of_maxima_become_bytes(function):
    plain, _ = gradient(function, "cuda", None, shape=(2, 3, 10, 13))
    coded, c = gradient(function, "cuda", "int8", shape=(2, 3, 10, 13))
    assert torch.equal(bits(coded), bits(plain))
    assert list(c.by_codec()) == ["places"]
