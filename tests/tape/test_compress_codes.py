"""What a value looks like that was coded and decoded: the errors are those that are documented."""

import math
from fractions import Fraction

import numpy as np
import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape as an object is tapegrad's own", allow_module_level=True)

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
LEVELS = {"int8": 127, "int4": 7}
BLOCKS = {"int8": 256, "int4": 64}
# Rounding of the scale and of the product with it, in units of a step.
SLACK = 1e-5


def round_trip(x, codec, **options):
    return torch.tape.compress(codec, **options).round_trip(x)


def steps_of(values, codec, block):
    """Return the distance of neighbouring codes, for each element of a flat array."""
    padded = np.zeros(-(-len(values) // block) * block)
    padded[: len(values)] = np.abs(values)
    largest = padded.reshape(-1, block).max(1) / LEVELS[codec]
    return np.repeat(largest, block)[: len(values)]


def half_unit(values, dtype):
    """Return half a unit in the last place of the dtype, which the decoded value is rounded to."""
    return np.abs(values) * torch.finfo(dtype).eps / 2


@pytest.mark.parametrize("count", [1, 31, 64, 65, 255, 256, 257, 1000, 70_000])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("codec", ["int8", "int4"])
def test_quantised_values_are_neighbouring_multiples_of_the_step(codec, dtype, count):
    values = np.random.default_rng(count).standard_normal(count)
    x = torch.tensor(values, dtype=torch.float64).to(dtype)
    values = x.double().numpy()
    decoded = round_trip(x, codec)
    assert decoded.dtype is dtype
    found = decoded.double().numpy()
    step = steps_of(values, codec, BLOCKS[codec])
    allowed = step * (1 + SLACK * LEVELS[codec]) + half_unit(found, dtype)
    assert (np.abs(found - values) <= allowed).all()
    multiples = found / step
    off = np.abs(multiples - np.round(multiples)) * step
    assert (off <= SLACK * LEVELS[codec] * step + half_unit(found, dtype)).all()


@pytest.mark.parametrize("block", [32, 96, 512, 4096])
@pytest.mark.parametrize("codec", ["int8", "int4"])
def test_blocks_of_other_sizes(codec, block):
    values = np.random.default_rng(0).standard_normal(5000) * np.linspace(0.01, 100, 5000)
    x = torch.tensor(values)
    found = round_trip(x, codec, block=block).numpy()
    step = steps_of(values, codec, block)
    assert (np.abs(found - values) <= step * (1 + SLACK)).all()
    assert np.abs(found - values).max() > 0.5 * step[-1]


@pytest.mark.parametrize("codec", ["int8", "int4"])
def test_rounding_has_the_right_mean(codec):
    """Each element is rounded up as often as its place between two codes says: exact fractions."""
    torch.manual_seed(5)
    x = torch.tensor([0.0, 0.1, -0.37, 0.5, 0.73, -0.999, 1.0] + [0.25] * 25)
    rounds = 4000
    compress = torch.tape.compress(codec, block=32)
    found = torch.stack([compress.round_trip(x) for _ in range(rounds)]).double().numpy()
    levels = LEVELS[codec]
    for i, value in enumerate(x.tolist()):
        place = Fraction(value) * levels
        below = math.floor(place)
        chance = float(place - below)
        ups = int((found[:, i] > (below + 0.5) / levels).sum())
        deviation = math.sqrt(rounds * chance * (1 - chance)) + 1
        assert abs(ups - rounds * chance) < 5 * deviation, (value, ups, chance)
        assert ((found[:, i] * levels > below - 0.01) & (found[:, i] * levels < below + 1.01)).all()


def test_neighbours_are_rounded_independently():
    """The numbers of one element tell nothing of those of another, in its block or the next."""
    torch.manual_seed(7)
    x = torch.full((512,), 0.5 / 127)
    x[0] = x[256] = 1.0
    compress = torch.tape.compress("int8")
    ups = torch.stack([compress.round_trip(x) for _ in range(2000)]).numpy() > 0.25 / 127
    ups = np.delete(ups, [0, 256], axis=1).astype(float)
    assert abs(ups.mean() - 0.5) < 0.002
    correlation = np.corrcoef(ups.T)
    np.fill_diagonal(correlation, 0)
    assert np.abs(correlation).max() < 6 / math.sqrt(2000)
    assert abs(correlation.mean()) < 1e-3


def test_whole_multiples_of_the_step_are_exact():
    """A value on a code stays: zeros above all, of which ReLU makes many."""
    x = torch.cat([torch.arange(-127, 128), torch.tensor([0])]).float().repeat(400)
    assert torch.equal(round_trip(x, "int8"), x)
    assert torch.equal(round_trip(x / 64, "int8"), x / 64)
    zeros = torch.zeros(100_000)
    zeros[::256] = 3.0
    decoded = round_trip(zeros + 0, "int8")
    assert torch.equal(decoded[1:256], zeros[1:256])
    assert (decoded[zeros == 0] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_bf16_is_the_nearest(dtype):
    x = torch.randn(10_000, dtype=dtype) * torch.logspace(-30, 30, 10_000, dtype=dtype)
    assert torch.equal(round_trip(x, "bf16"), x.to(torch.float32).to(torch.bfloat16).to(dtype))
    assert ((round_trip(x, "bf16") - x).abs() <= x.abs() / 256).all()


def test_bf16_keeps_finite_values_finite():
    top = torch.finfo(torch.float32).max
    x = torch.tensor([top, -top, 1.0, 2.0, math.inf, -math.inf, math.nan, -0.0] * 40)
    decoded = round_trip(x, "bf16")
    assert decoded[:8].isfinite().tolist() == [True] * 4 + [False] * 3 + [True]
    assert (decoded[:4] - x[:4]).abs().max().item() <= top / 256
    assert decoded[4:6].tolist() == [math.inf, -math.inf]
    assert decoded[6].isnan()
    assert decoded[7].signbit()


def test_float64_beyond_the_range_of_bf16_is_kept():
    x = torch.full((1000,), 1e300, dtype=torch.float64)
    x[::3] = 1.25e-300
    x[::7] = 3.0
    assert torch.equal(round_trip(x, "bf16"), x)


@pytest.mark.parametrize("codec", ["int8", "int4"])
@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
def test_a_block_with_a_value_that_is_not_finite_is_exact(codec, special):
    block = BLOCKS[codec]
    x = torch.randn(10 * block + 5)
    x[3 * block + 7] = special
    x[10 * block + 4] = special  # in the last block, which is not full
    decoded = round_trip(x, codec)
    for number in range(11):
        part = slice(number * block, (number + 1) * block)
        same = ((decoded[part] == x[part]) | x[part].isnan()).all().item()
        assert same == (number in (3, 10))
    assert decoded[3 * block + 7].isnan() == math.isnan(special)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("codec", ["int8", "int4"])
def test_tiny_and_huge_values(codec, dtype):
    info = torch.finfo(dtype)
    block = BLOCKS[codec]
    sizes = [info.smallest_normal / 4, info.smallest_normal * 8, 1e-20, 1.0, 1e20, info.max]
    parts = [torch.linspace(-1, 1, block, dtype=dtype) * size for size in sizes]
    x = torch.cat([*parts, torch.zeros(block, dtype=dtype)])
    values = x.double().numpy()
    found = round_trip(x, codec).double().numpy()
    assert np.isfinite(found).all()
    for number in range(len(sizes)):
        part = slice(number * block, (number + 1) * block)
        step = np.abs(values[part]).max() / LEVELS[codec]
        assert np.abs(found[part] - values[part]).max() <= step * (1 + SLACK * LEVELS[codec])
    assert (found[-block:] == 0).all()


@pytest.mark.parametrize("codec", ["int8", "int4", "bf16", "exact"])
def test_layouts(codec):
    """Transposed, cut, repeated and stepped tensors are decoded with their shape and values."""
    base = torch.randn(6, 8, 10)
    views = {
        "transposed": base.transpose(0, 2),
        "columns": base[:, :, 2:5],
        "stepped": base[::2, ::3],
        "expanded": base[:1].expand(6, 8, 10),
        "expanded rows": base[:, :1].expand(6, 8, 10),
        "expanded columns": base[:, :1, ::2].expand(6, 4, 5),
        "overlapping": base.as_strided((20, 8), (3, 1)),
        "flat": base.flatten(),
        "scalar": base[0, 0, 0],
        "empty": base[:0],
    }
    for name, view in views.items():
        decoded = round_trip(view, codec, block=32)
        assert decoded.shape == view.shape, name
        error = (decoded - view).abs().max().item() if view.numel() else 0.0
        limit = 0.0 if codec == "exact" else view.abs().max().item() / 6 if view.numel() else 0.0
        assert error <= limit, name
    for name in ("transposed", "expanded"):  # dense memory keeps its order
        assert round_trip(views[name], "bf16").stride() == views[name].stride()


@pytest.mark.parametrize("count", [1, 7, 8, 63, 64, 65, 1000])
def test_bool_as_bits(count):
    x = torch.rand(count) < 0.3
    assert torch.equal(round_trip(x, "int8"), x)
    assert torch.equal(round_trip(~x, "int8"), ~x)


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64, torch.uint8, torch.int8])
@pytest.mark.parametrize("width", [1, 2, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**63])
def test_integers_are_exact(dtype, width):
    info = torch.iinfo(dtype)
    random = np.random.default_rng(width % 97)
    width = min(width, info.max - info.min)
    for low in (info.min, max(info.min, -5), info.max - width):
        if low + width > info.max:
            continue
        spread = [low + int(part * width) for part in random.random(600)]
        x = torch.tensor([low, low + width, *spread], dtype=dtype)
        assert torch.equal(round_trip(x, "int8"), x)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_two_values_are_bits_whatever_they_are(dtype):
    """A mask of -inf and 0 or of dropout's noise, and NaN beside zeros of both signs."""
    pairs = [(0.0, -math.inf), (0.0, 1 / 0.7), (-0.0, 0.0), (math.nan, 1.0), (5.0, 5.0)]
    chosen = torch.rand(3000) < 0.5
    for pair in pairs:
        x = torch.where(chosen, torch.tensor(pair[0]), torch.tensor(pair[1])).to(dtype)
        x = x.requires_grad_(False)
        with torch.tape.compress("int8", min_bytes=0) as c:
            y = torch.ones(3000, dtype=dtype).requires_grad_() * x
        assert list(c.by_codec()) == ["bits"]
        (grad,) = torch.autograd.grad(y.sum(), y.grad_fn.next_functions[0][0].variable)
        bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
        assert torch.equal(grad.view(bits), x.view(bits))


def test_results_do_not_depend_on_threads():
    x = torch.randn(300_000)
    found = []
    threads = torch.get_num_threads()
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        torch.manual_seed(3)
        found.append([round_trip(x, codec) for codec in ("int8", "int4", "bf16")])
    torch.set_num_threads(threads)
    assert all(
        torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True)
    )
