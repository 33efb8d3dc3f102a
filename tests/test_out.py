"""out= beside PyTorch: of every dtype, of a right and a wrong size, permuted, strided, expanded.

Each call writes to outs of every kind in both libraries; compared is whether it is refused,
and what the out then holds, with its shape and strides, and whether resizing it warned.
"""

import warnings

import dtypes as dt
import pytest
from library import IS_TORCH, pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
if pytorch is None or IS_TORCH:
    pytest.skip(REASON or "compares two libraries", allow_module_level=True)


class Operands:
    """The tensors the calls take, of one library."""

    def __init__(self, library):
        self.x = library.arange(12.0).reshape(3, 4) / 3 - 1.7
        self.i = library.arange(12).reshape(3, 4)
        self.b = self.x > 0
        self.v = library.arange(4.0) + 1
        self.s = library.eye(3) * 2 + library.arange(9.0).reshape(3, 3) / 9
        self.k = library.tensor([0, 2])


def of_x(name):
    return lambda library, t, out: getattr(library, name)(t.x, out=out)


def of_two(name):
    return lambda library, t, out: getattr(library, name)(t.x, t.x + 1, out=out)


def of_ints(name):
    return lambda library, t, out: getattr(library, name)(t.i, t.i + 1, out=out)


def along_rows(name):
    return lambda library, t, out: getattr(library, name)(t.x, 1, out=out)


UNARY = (
    *("abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "deg2rad", "digamma", "erf", "erfc"),
    *("exp", "exp2", "expm1", "floor", "frac", "isneginf", "isposinf", "lgamma", "log", "log10"),
    *("log1p", "log2", "logical_not", "nan_to_num", "neg", "rad2deg", "reciprocal", "round"),
    *("rsqrt", "sigmoid", "sign", "signbit", "sin", "sinc", "sinh", "sqrt", "square", "tan"),
    *("tanh", "trunc", "logit", "i0"),
)
BINARY = (
    *("add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "atan2", "maximum"),
    *("minimum", "fmax", "fmin", "hypot", "logaddexp", "logaddexp2", "xlogy", "copysign"),
    *("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "heaviside"),
)
CALLS = {name: of_x(name) for name in UNARY} | {name: of_two(name) for name in BINARY}
CALLS |= {
    name: of_ints(name)
    for name in (
        *("bitwise_and", "bitwise_or", "bitwise_xor"),
        *("bitwise_left_shift", "bitwise_right_shift"),
    )
}
CALLS |= {
    name: along_rows(name)
    for name in (
        *("mean", "amax", "amin", "argmax", "argmin", "logsumexp", "softmax", "log_softmax"),
        *("logcumsumexp", "sum", "prod", "all", "any", "cumsum", "cumprod"),
    )
}
CALLS |= {
    "bitwise_not": lambda library, t, out: library.bitwise_not(t.i, out=out),
    "add of ints": lambda library, t, out: library.add(t.i, 1, out=out),
    "mul of bools": lambda library, t, out: library.mul(t.b, t.b, out=out),
    "sum of ints": lambda library, t, out: library.sum(t.i, 1, out=out),
    "clamp": lambda library, t, out: library.clamp(t.x, 0, 1, out=out),
    "clamp_min": lambda library, t, out: library.clamp_min(t.x, 0, out=out),
    "clamp_max": lambda library, t, out: library.clamp_max(t.x, 0, out=out),
    "where": lambda library, t, out: library.where(t.b, t.x, t.x, out=out),
    "lerp": lambda library, t, out: library.lerp(t.x, t.x, 0.5, out=out),
    "addcmul": lambda library, t, out: library.addcmul(t.x, t.x, t.x, out=out),
    "addcdiv": lambda library, t, out: library.addcdiv(t.x, t.x, t.x + 9, out=out),
    "polygamma": lambda library, t, out: library.polygamma(1, t.x, out=out),
    "norm": lambda library, t, out: library.norm(t.x, 2, 1, out=out),
    "matmul": lambda library, t, out: library.matmul(t.s, t.s, out=out),
    "mm": lambda library, t, out: library.mm(t.s, t.s, out=out),
    "bmm": lambda library, t, out: library.bmm(t.s[None], t.s[None], out=out),
    "mv": lambda library, t, out: library.mv(t.x, t.v, out=out),
    "dot": lambda library, t, out: library.dot(t.v, t.v, out=out),
    "outer": lambda library, t, out: library.outer(t.v, t.v, out=out),
    "addmm": lambda library, t, out: library.addmm(t.s, t.s, t.s, out=out),
    "addmv": lambda library, t, out: library.addmv(t.v[:3], t.s, t.v[:3], out=out),
    "cat": lambda library, t, out: library.cat([t.x, t.x], out=out),
    "stack": lambda library, t, out: library.stack([t.x, t.x], out=out),
    "index_select": lambda library, t, out: library.index_select(t.x, 0, t.k, out=out),
    "gather": lambda library, t, out: library.gather(t.x, 0, t.i % 3, out=out),
    "take": lambda library, t, out: library.take(t.x, t.k, out=out),
    "masked_select": lambda library, t, out: library.masked_select(t.x, t.b, out=out),
    "nonzero": lambda library, t, out: library.nonzero(t.x, out=out),
    "scatter": lambda library, t, out: library.scatter(t.x, 0, t.i % 3, t.x, out=out),
    "index_add": lambda library, t, out: library.index_add(t.x, 0, t.k, t.x[:2], out=out),
    "tril": lambda library, t, out: library.tril(t.x, out=out),
    "triu": lambda library, t, out: library.triu(t.x, out=out),
    "diag": lambda library, t, out: library.diag(t.v, out=out),
    "searchsorted": lambda library, t, out: library.searchsorted(t.v, t.v, out=out),
    "zeros": lambda library, t, out: library.zeros(3, 4, out=out),
    "ones": lambda library, t, out: library.ones(3, 4, out=out),
    "full": lambda library, t, out: library.full((3, 4), 2.0, out=out),
    "eye": lambda library, t, out: library.eye(3, out=out),
    "arange": lambda library, t, out: library.arange(12.0, out=out),
    "linspace": lambda library, t, out: library.linspace(0, 11, 12, out=out),
}
# Two outs: the values, and where they came from.
PAIRS = {
    name: along_rows(name)
    for name in ("sort", "topk", "max", "min", "median", "kthvalue", "cummax", "cummin")
}
PAIRS["topk"] = lambda library, t, out: library.topk(t.x, 2, out=out)
PAIRS["kthvalue"] = lambda library, t, out: library.kthvalue(t.x, 2, out=out)

KINDS = ("right", "wrong size", "zero-dim", "permuted", "strided", "expanded")

# (call, kind of out): why it may differ.
KNOWN = {
    **{
        (name, "expanded"): "refused: elements of the out share memory, and PyTorch writes each"
        for name in (
            *("sum", "sum of ints", "prod", "mean", "amax", "amin", "argmax", "argmin", "all"),
            *("any", "norm", "bmm", "mv", "tril", "triu", "zeros", "ones", "full", "eye"),
            *("logsumexp", "nonzero", "cumsum", "cumprod", "logcumsumexp"),
        )
    },
    **{("nonzero", kind): "PyTorch lays the result out by columns" for kind in ("int64", *KINDS)},
    **{
        (name, dtype): "another order of additions, in 16 bits"
        for name in ("sum", "prod", "mean", "cumsum", "cumprod", "logsumexp", "linspace")
        for dtype in ("float16", "bfloat16")
    },
    **{(name, "uint8"): "PyTorch counts in uint8" for name in ("all", "any")},
}


def test_known_differences_are_few():
    assert len(KNOWN) <= 50


def facts(tensor):
    numbers = [f"{value:.4g}" for value in tensor.reshape(-1).double().tolist()]
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    # The stride of a dimension of one element says nothing.
    strides = [stride for stride, size in zip(strides, shape, strict=True) if size > 1]
    return dt.name_of(tensor.dtype), shape, strides, numbers


def outcome(library, call, make_out):
    """Return the facts of what was written and the warnings' number, or that it was refused."""
    out = make_out(library)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call(library, Operands(library), out)
        except (RuntimeError, TypeError) as error:
            return "refused", isinstance(error, TypeError)
    resized = [w for w in caught if "resized" in str(w.message)]
    return [facts(t) for t in (out if isinstance(out, tuple) else (out,))], len(resized) > 0


def fresh(dtype):
    return lambda library: library.empty(0, dtype=getattr(library, dtype))


def of_kind(kind, dtype, shape):
    """Return what makes an out of a kind, given the right dtype and shape."""

    def make(library):
        def full(*sizes):
            return library.full(sizes, 7, dtype=getattr(library, dtype))

        if kind == "wrong size":
            return full(2, *shape)
        if kind == "zero-dim":
            return full()
        if kind == "permuted" and shape:
            return full(*reversed(shape)).permute(*reversed(range(len(shape))))
        if kind == "strided":
            return full(*shape, 2)[..., 0]
        return full(*shape) if kind == "right" else full(*[1] * len(shape)).expand(shape)

    return make


def differences(name, call, makers):
    found = []
    for kind, make in makers.items():
        ours, theirs = (outcome(library, call, make) for library in (torch, pytorch))
        if ours != theirs and (name, kind) not in KNOWN:
            found.append(f"{name}, out of {kind}: {ours}, in PyTorch {theirs}")
    return found


@pytest.mark.parametrize("name", CALLS)
def test_out_of_every_dtype(name):
    found = differences(name, CALLS[name], {dtype: fresh(dtype) for dtype in dt.ALL})
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", PAIRS)
def test_outs_of_every_dtype(name):
    makers = {}
    for dtype in dt.ALL:
        makers[dtype] = lambda library, d=dtype: (fresh(d)(library), fresh("int64")(library))
        makers[f"{dtype}, second"] = lambda library, d=dtype: (
            fresh("float32")(library),
            fresh(d)(library),
        )
    found = differences(name, PAIRS[name], makers)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", CALLS)
def test_out_of_every_geometry(name):
    for dtype in ("float32", "int64", "bool"):
        plain = outcome(pytorch, CALLS[name], fresh(dtype))
        if plain[0] != "refused":
            break
    shape = plain[0][0][1]
    found = differences(name, CALLS[name], {kind: of_kind(kind, dtype, shape) for kind in KINDS})
    assert not found, "\n".join(found)


def test_an_out_of_a_wrong_dtype_is_refused_in_words():
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="nonzero: expected out tensor to have dtype int64"):
        torch.nonzero(x, out=torch.empty(0))
    with pytest.raises(RuntimeError, match="all: expected out tensor to have dtype bool or uint8"):
        torch.all(x, 0, out=torch.empty(0))


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_the_value_may_stand_second(name):
    """The old order of arguments, which PyTorch still takes, with a warning."""
    x, y = torch.full((2,), 3.0), torch.full((2,), 2.0)
    expected = getattr(torch, name)(x, y, x, value=5).tolist()
    with pytest.warns(UserWarning, match=f"overload of {name} is deprecated"):
        assert getattr(torch, name)(x, 5, y, x).tolist() == expected
        assert getattr(x, name)(5, y, x).tolist() == expected
        assert getattr(x.clone(), name + "_")(5, y, x).tolist() == expected


def test_alpha_may_stand_second():
    x, y = torch.full((2,), 3.0), torch.full((2,), 2.0)
    with pytest.warns(UserWarning, match="is deprecated"):
        assert torch.add(x, 5, y).tolist() == [13.0, 13.0]
        assert torch.sub(x, 5, y).tolist() == [-7.0, -7.0]


def test_cumsum_in_place_refuses_bool_and_another_dtype():
    for library in (torch, pytorch):
        for name in ("cumsum_", "cumprod_"):
            with pytest.raises(RuntimeError):
                getattr(library.tensor([True]), name)(0)
            with pytest.raises(RuntimeError):
                getattr(library.tensor([1.0]), name)(0, dtype=library.float64)
