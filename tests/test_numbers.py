"""Python numbers as operands and parameters, beside PyTorch: every dtype, numbers of every kind.

A number takes the dtype of the tensor before the op sees it: it is rounded to float16, wraps in
uint8, is refused where PyTorch's kernels read it with a check. Each op is run on one short tensor
per dtype; results must be equal to the bit, but for ops whose last digit is not defined.
"""

import math

import dtypes as dt
import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
if pytorch is None or IS_TORCH:
    pytest.skip(REASON or "compares two libraries", allow_module_level=True)

NUMBERS = (
    *(0, 1, 2, 3, -1, -3, 7, 100, 127, 128, 255, 256, 300, -129, 32768, 70000),
    *(2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, -(2**63)),
    *(0.0, 0.1, -0.1, 0.5, 1.5, 2.5, -2.5, 1 / 3, 0.3, 3.7, 1e-8, 65504.0, 65519.9, 65520.0),
    *(1e5, 1e30, 3.4e38, 1e39, 1e300, math.inf, -math.inf, math.nan, True, False),
)


def by_name(name):
    return lambda library, x, number: getattr(library, name)(x, number)


def in_place(name):
    return lambda library, x, number: getattr(x.clone(), name)(number)


def assigned(x, number):
    x = x.clone()
    x[:1] = number
    return x


# Results equal to the bit.
EXACT = {
    name: by_name(name)
    for name in (
        *("add", "sub", "mul", "div", "floor_divide", "remainder", "fmod"),
        *("eq", "ne", "lt", "le", "gt", "ge", "copysign"),
        *("bitwise_and", "bitwise_or", "bitwise_xor"),
        *("bitwise_left_shift", "bitwise_right_shift", "clamp_min", "clamp_max", "clamp"),
    )
}
EXACT |= {
    name: in_place(name)
    for name in (
        *("add_", "sub_", "mul_", "div_", "remainder_", "fmod_", "eq_", "lt_"),
        *("clamp_min_", "fill_"),
    )
}
EXACT |= {
    "number - x": lambda library, x, number: number - x,
    "number / x": lambda library, x, number: number / x,
    "number % x": lambda library, x, number: number % x,
    "number < x": lambda library, x, number: number < x,
    "div(trunc)": lambda library, x, number: library.div(x, number, rounding_mode="trunc"),
    "div(floor)": lambda library, x, number: library.div(x, number, rounding_mode="floor"),
    "clamp(1, number)": lambda library, x, number: library.clamp(x, 1, number),
    "where": lambda library, x, number: library.where(x > 1, x, number),
    "where(number, 1)": lambda library, x, number: library.where(x > 1, number, 1),
    "full_like": lambda library, x, number: library.full_like(x, number),
    "new_full": lambda library, x, number: x.new_full((2,), number),
    "new_full of one": lambda library, x, number: x.new_full((1,), number),
    "masked_fill": lambda library, x, number: library.masked_fill(x, x > 1, number),
    "x[:1] = number": lambda library, x, number: assigned(x, number),
    "threshold": lambda library, x, number: library.nn.functional.threshold(x, number, number),
    "nan_to_num": lambda library, x, number: library.nan_to_num(x, number, number, number),
    "isin": lambda library, x, number: library.isin(x, number),
}
# How many units of the last place a result may differ by: powers and logarithms are not rounded
# correctly in either library, and PyTorch rounds 16-bit floats between the steps of some ops.
WITHIN = {
    "pow": (by_name("pow"), 32),
    "pow_": (in_place("pow_"), 32),
    "number ** x": (lambda library, x, number: number**x, 32),
    "number // x": (lambda library, x, number: number // x, 1),
    "xlogy": (by_name("xlogy"), 2),
    "lerp": (lambda library, x, number: library.lerp(x, x + 1, number), 2),
    "add(alpha=)": (lambda library, x, number: library.add(x, x, alpha=number), 2),
    "sub(alpha=)": (lambda library, x, number: library.sub(x, x, alpha=number), 2),
    "rsub(alpha=)": (lambda library, x, number: library.rsub(x, 3, alpha=number), 2),
    "addcmul(value=)": (lambda library, x, number: library.addcmul(x, x, x, value=number), 2),
}
OPS = {name: (function, 0) for name, function in EXACT.items()} | WITHIN

# (op, dtype, number): why it may differ. PyTorch is not followed into these.
KNOWN = {
    ("pow", "float32", -(2**31) - 1): "the exponent is even as float32, so (-0.) ** it is +inf",
    ("pow_", "float32", -(2**31) - 1): "the exponent is even as float32, so (-0.) ** it is +inf",
}


def test_known_differences_are_few():
    assert len(KNOWN) <= 4


def values_of(dtype):
    if dtype == "bool":
        return np.array([True, False, True])
    if dt.is_float(dtype):
        values = [0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, 0.1, 2.5, -137.7]
        return dt.cast(np.array(values), dtype)
    limits = np.iinfo(dtype)
    # The least number is left out: dividing it by -1 kills PyTorch's process.
    return np.array([limits.min + 1, limits.max, 5, limits.max - 1, 0, 12, 1, 2, 3], dtype=dtype)


def tensor_of(library, dtype):
    return library.tensor(values_of(dtype).tolist(), dtype=getattr(library, dtype))


def outcome(library, function, dtype, number):
    try:
        return function(library, tensor_of(library, dtype), number)
    except (RuntimeError, TypeError, ValueError) as error:
        return error


def units_apart(ours, theirs, dtype):
    """Return the largest distance in units of the last place; NaN equals NaN."""
    ours, theirs = (np.array(t.double().tolist()) for t in (ours, theirs))
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    if same.all():
        return 0
    if not dt.is_float(dtype) or not (np.isfinite(ours) & np.isfinite(theirs) | same).all():
        return math.inf
    with np.errstate(invalid="ignore"):
        scale = np.maximum(np.maximum(abs(ours), abs(theirs)), dt.SMALLEST_NORMAL[dtype])
        return np.where(same, 0, abs(ours - theirs) / (scale * dt.EPSILON[dtype])).max()


def difference(function, tolerance, dtype, number):
    """Return what differs between the libraries, or an empty string."""
    ours = outcome(torch, function, dtype, number)
    theirs = outcome(pytorch, function, dtype, number)
    if isinstance(ours, Exception) or isinstance(theirs, Exception):
        # NotImplementedError is a RuntimeError: which of the two is not worth a difference.
        both = isinstance(ours, Exception) and isinstance(theirs, Exception)
        kinds = [isinstance(error, RuntimeError) for error in (ours, theirs)]
        return "" if both and kinds[0] == kinds[1] else f"{ours!r}, in PyTorch {theirs!r}"
    if dt.name_of(ours.dtype) != dt.name_of(theirs.dtype):
        return f"{ours.dtype}, in PyTorch {theirs.dtype}"
    if units_apart(ours, theirs, dt.name_of(ours.dtype)) > tolerance:
        return f"{ours.tolist()}, in PyTorch {theirs.tolist()}"
    return ""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPS)
def test_numbers_take_the_dtype_of_the_tensor(name):
    function, tolerance = OPS[name]
    found = []
    for dtype in dt.ALL:
        for number in NUMBERS:
            text = difference(function, tolerance, dtype, number)
            if text and (name, dtype, number) not in KNOWN:
                found.append(f"{name}({dtype}, {number!r}): {text}")
    assert not found, "\n".join(found[:10])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_number_is_rounded_to_half_before_it_is_compared(dtype):
    x = torch.tensor([0.1], dtype=getattr(torch, dtype))
    assert (x == 0.1).item() and not (x < 0.1).item() and not (x > 0.1).item()
    assert torch.remainder(torch.ones(1, dtype=x.dtype), 0.1).item() == (1 % x).item()


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "remainder", "eq", "lt"])
@pytest.mark.parametrize("other", ["float32", "int64"])
def test_zero_dim_operands_of_another_dtype_are_rounded_like_numbers(name, other):
    """Products and quotients alone take a single second operand as it is."""
    for dtype in ("float16", "bfloat16"):
        for value in (0.1, 3.7, 2049, 70001):
            results = []
            for library in (torch, pytorch):
                x, y = tensor_of(library, dtype), library.tensor(value).to(getattr(library, other))
                if other == "int64" and value < 1:
                    continue
                results.append([getattr(library, name)(x, y), getattr(library, name)(y, x)])
            for ours, theirs in zip(*results, strict=True) if results else ():
                assert units_apart(ours, theirs, dtype) == 0, (name, dtype, other, value)


def test_out_of_a_wider_dtype_takes_the_rounded_result():
    for library in (torch, pytorch):
        third = library.tensor([1.0], dtype=library.float16)
        out = library.empty(1, dtype=library.float64)
        library.div(third, library.tensor([3.0], dtype=library.float16), out=out)
        assert out.item() == 0.333251953125
        sums = library.empty(1, dtype=library.int32)
        many = library.tensor([200], dtype=library.uint8)
        assert library.add(many, many, out=sums).item() == 144


def test_rounded_division_of_halves_is_that_of_single_elements():
    """PyTorch rounds the quotient before it truncates in long tensors, and not in short ones."""
    x = np.linspace(-60, 60, 401)
    y = np.linspace(0.01, 3, 401)
    for dtype in ("float16", "bfloat16"):
        for mode in ("trunc", "floor"):
            a = torch.tensor(x).to(getattr(torch, dtype))
            b = torch.tensor(y).to(getattr(torch, dtype))
            ours = torch.div(a, b, rounding_mode=mode).tolist()
            for i in range(0, 401, 7):
                one = [pytorch.tensor([v[i].item()]).to(getattr(pytorch, dtype)) for v in (a, b)]
                assert pytorch.div(*one, rounding_mode=mode).item() == ours[i]


# ---- casts

EXTREMES = (
    *(0.0, -0.0, 0.5, -0.5, 1.9, -1.9, 127.0, 128.0, -128.0, -129.0, 255.0, 256.0, 300.0),
    *(-1.0, -255.0, -300.0, 32767.0, 32768.0, -32769.0, 65536.0, 70000.0),
    *(2.0**31 - 1, 2.0**31, 2.0**31 + 5, -(2.0**31), -(2.0**31) - 1, -(2.0**31) - 0.5),
    *(2.0**32 + 300, -(2.0**32) - 300, 2.0**40 + 300, 2.0**53 + 2, 2.0**62, 2.0**63),
    *(-(2.0**63), 2.0**64, 1e19, 1e30, 3e38, -3e38, math.inf, -math.inf, math.nan),
)


@pytest.mark.parametrize("source", dt.FLOATS)
@pytest.mark.parametrize("target", dt.INTEGRAL)
def test_float_to_int_overflow_casts(source, target):
    def cast(library, values):
        x = library.tensor(values, dtype=library.float64).to(getattr(library, source))
        return x.to(getattr(library, target)).tolist()

    assert cast(torch, EXTREMES) == cast(pytorch, EXTREMES)
    long = EXTREMES * 9
    assert cast(torch, long) == cast(pytorch, long)


# ---- exponents


@pytest.mark.parametrize("exponent", [2, 3, 7, 8, 9, 200, 255])
def test_pow_of_uint8(exponent):
    values = list(range(256))
    ours = torch.tensor(values, dtype=torch.uint8) ** exponent
    theirs = pytorch.tensor(values, dtype=pytorch.uint8) ** exponent
    assert ours.tolist() == theirs.tolist()
    ours = exponent ** torch.tensor(values, dtype=torch.uint8)
    theirs = exponent ** pytorch.tensor(values, dtype=pytorch.uint8)
    assert ours.tolist() == theirs.tolist()


def test_an_exponent_that_does_not_fit_is_refused():
    with pytest.raises(RuntimeError, match="pow: value cannot be converted to type uint8"):
        torch.ones(2, dtype=torch.uint8) ** 256
    assert torch.equal(torch.full((2,), 3.0) ** 2, torch.full((2,), 9.0))


def test_the_gradient_of_clamp_sees_the_rounded_bound():
    x = torch.tensor([0.1], dtype=torch.float16, requires_grad=True)
    x.clamp(min=0.1).backward()
    assert x.grad.item() == 1


# ---- elements


def test_assignment_takes_every_int64():
    x = torch.zeros(2, dtype=torch.int64)
    x[:1] = 2**63 - 1
    x[1] = -(2**63)
    assert x.tolist() == [2**63 - 1, -(2**63)]
    assert x.masked_fill(x > 0, 2**63 - 1).tolist() == x.tolist()


WITH_A_NUMBER = {
    "add": lambda lib, a, n: lib.add(a, a, alpha=n),
    "sub_": lambda lib, a, n: a.clone().sub_(a, alpha=n),
    "rsub": lambda lib, a, n: lib.rsub(a, a, alpha=n),
    "addcmul": lambda lib, a, n: lib.addcmul(a, a, a, value=n),
    "addcdiv": lambda lib, a, n: lib.addcdiv(a, a, a, value=n),
    "addmm": lambda lib, a, n: lib.addmm(a, a, a, beta=n, alpha=n),
    "baddbmm": lambda lib, a, n: lib.baddbmm(a[None], a[None], a[None], alpha=n),
    "index_add": lambda lib, a, n: lib.index_add(a, 0, lib.tensor([0, 1]), a, alpha=n),
    "foreach_add": lambda lib, a, n: lib._foreach_add([a], [a], alpha=n)[0],
    "leaky_relu": lambda lib, a, n: lib.nn.functional.leaky_relu(a, n),
    "elu": lambda lib, a, n: lib.nn.functional.elu(a, n),
    "softplus": lambda lib, a, n: lib.nn.functional.softplus(a, n),
    "hardtanh": lambda lib, a, n: lib.nn.functional.hardtanh(a, 0, n),
    "norm": lambda lib, a, n: lib.norm(a, n),
    "var": lambda lib, a, n: lib.var(a, correction=n),
    "full": lambda lib, a, n: lib.full((2,), n),
    "arange": lambda lib, a, n: lib.arange(n),
}


@pytest.mark.parametrize("name", WITH_A_NUMBER)
def test_a_tensor_without_dimensions_and_gradient_is_a_number(name):
    """Torch takes such a tensor wherever it takes a number; no gradient gets lost that way."""
    call = WITH_A_NUMBER[name]
    for number in (2.0, 2):
        results = [
            call(lib, lib.tensor([[1.0, -2.0], [3.0, 4.5]]), lib.tensor(number))
            for lib in (torch, pytorch)
        ]
        np.testing.assert_allclose(*(result.numpy() for result in results), rtol=1e-6)
    for lib in (torch, pytorch):
        with pytest.raises(TypeError):
            call(lib, lib.ones(2, 2), lib.tensor(2.0, requires_grad=True))
    with pytest.raises((TypeError, RuntimeError)):
        call(torch, torch.ones(2, 2), torch.tensor([2.0, 3.0]))


def test_normal_of_a_size_takes_its_numbers_from_tensors():
    for lib in (torch, pytorch):
        zero, one = lib.tensor(0.0), lib.tensor(1)
        assert lib.normal(0.0, one, (2, 3)).shape == (2, 3)
        assert lib.normal(zero, one, (4,)).shape == (4,)
        with pytest.raises(TypeError):
            lib.normal(0.0, lib.ones(3), (2,))


def test_the_ends_of_a_row_are_read_from_tensors():
    for lib in (torch, pytorch):
        end = lib.tensor(2.0, requires_grad=True)
        assert lib.linspace(0, end, 3).tolist() == [0, 1, 2]
        assert lib.logspace(0, end, 3).tolist() == [1, 10, 100]
