"""Creation: tensors from data, constants, ranges, and every way to say a size."""

import array
import math
import re

import numpy as np
import pytest
from library import IS_TORCH, torch

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


def facts(tensor):
    return str(tensor.dtype), tuple(tensor.shape), tensor.tolist()


# ---- tensor(data)

INFERRED = [
    (2.0, "float32"),
    (2, "int64"),
    (True, "bool"),
    ([], "float32"),
    ([[], []], "float32"),
    ([1, 2], "int64"),
    ([1, 2.0], "float32"),
    ([True, 2], "int64"),
    ([True, False], "bool"),
    ([True, 2, 3.5], "float32"),
    (((1, 2), (3, 4)), "int64"),
    ([[[1.5]]], "float32"),
    (range(3), "int64"),
    (array.array("d", [1, 2]), "float32"),
    (bytearray(b"ab"), "int64"),
    (np.float64(1.5), "float64"),
    (np.int16(3), "int16"),
    ([np.float32(1), 2], "float32"),
    ([np.float64(1), 2], "float64"),
    ([np.bool_(True)], "bool"),
    ([np.array([1.0, 2.0]), [3, 4]], "float64"),
    (np.arange(6).reshape(2, 3), "int64"),
    (np.arange(6, dtype=np.float16)[::2], "float16"),
    (np.array(7, dtype=np.uint8), "uint8"),
]


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list of numpy.ndarrays")
@pytest.mark.parametrize(("data", "dtype"), INFERRED, ids=[str(data) for data, _ in INFERRED])
def test_tensor_infers_dtype_and_shape(data, dtype):
    x = torch.tensor(data)
    wanted = np.array([list(row) for row in data] if isinstance(data, tuple) else data)
    if isinstance(data, bytearray):
        wanted = np.array(list(data))
    assert str(x.dtype) == f"torch.{dtype}"
    assert tuple(x.shape) == wanted.shape
    assert x.tolist() == wanted.tolist()
    assert x.is_leaf
    assert not x.requires_grad


def test_tensor_follows_the_default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.tensor([1.5]).dtype is torch.float64
        assert torch.zeros(2).dtype is torch.float64
        assert torch.arange(2.0).dtype is torch.float64
        assert torch.tensor([1]).dtype is torch.int64
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", DTYPES)
def test_tensor_converts_to_a_dtype(name):
    x = torch.tensor([[0, 1], [2, 3]], dtype=getattr(torch, name))
    assert facts(x) == (f"torch.{name}", (2, 2), np.array([[0, 1], [2, 3]]).astype(name).tolist())
    y = torch.tensor([0.0, 1.7], dtype=getattr(torch, name))
    assert y.tolist() == np.array([0.0, 1.7]).astype(name).tolist()


def test_tensor_reads_tensors_as_numbers():
    pair = [torch.tensor(1), torch.tensor([2.5])]
    assert facts(torch.tensor(pair)) == ("torch.float32", (2,), [1.0, 2.5])
    assert torch.tensor([torch.tensor(1, dtype=torch.int8), 2]).dtype is torch.int64
    with pytest.raises(ValueError, match="only one element tensors"):
        torch.tensor([torch.ones(2), torch.ones(2)])


def test_tensor_copies():
    array_ = np.ones(3)
    x = torch.tensor(array_)
    array_[0] = 5
    assert x.tolist() == [1, 1, 1]
    source = torch.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="copy construct"):
        y = torch.tensor(source)
    assert not y.requires_grad
    assert y.data_ptr() != source.data_ptr()


def test_tensor_extreme_numbers():
    assert torch.tensor(2**63 - 1).item() == 2**63 - 1
    assert torch.tensor(-(2**63)).item() == -(2**63)
    assert torch.tensor(2**70, dtype=torch.float64).item() == 2.0**70
    assert math.isinf(torch.tensor(1e40).item())
    assert torch.tensor(-1, dtype=torch.uint8).item() == 255
    assert torch.tensor(math.nan, dtype=torch.bool).item() is True


BAD_DATA = [
    ([[1, 2], [3]], {}, ValueError, r"expected sequence of length 2 at dim 1 \(got 1\)"),
    ([[1], [2, 3]], {}, ValueError, r"expected sequence of length 1 at dim 1 \(got 2\)"),
    ([[[1], [2]], [[3]]], {}, ValueError, r"expected sequence of length 2 at dim 1 \(got 1\)"),
    ([[1, 2], 3], {}, TypeError, "a sequence"),
    ([1, [3]], {}, TypeError, "list"),
    (2**63, {}, ValueError, "(?i)overflow"),
    ([-(2**63) - 1], {}, ValueError, "(?i)overflow"),
    (300, {"dtype": "uint8"}, RuntimeError, "without overflow"),
    ([128], {"dtype": "int8"}, RuntimeError, "without overflow"),
    (1e20, {"dtype": "int64"}, RuntimeError, "without overflow"),
    (math.nan, {"dtype": "int32"}, RuntimeError, "without overflow"),
    ("abc", {}, TypeError, "invalid data type 'str'"),
    (["a", 1], {}, ValueError, "too many dimensions 'str'"),
    (b"abc", {}, TypeError, "invalid data type 'bytes'"),
    (None, {}, RuntimeError, "(?i)could not infer dtype of NoneType"),
    ({1: 2}, {}, RuntimeError, "(?i)could not infer dtype of dict"),
    (1, {"requires_grad": True}, RuntimeError, "floating point"),
    (np.arange(3)[::-1], {}, ValueError, "negative"),
    (np.array(["a"]), {}, TypeError, "can't convert np.ndarray of type numpy.str_"),
]

if not IS_TORCH:  # where a float of 2**63 becomes the largest integer
    BAD_DATA.append((2.0**63, {"dtype": "int64"}, RuntimeError, "without overflow"))


@pytest.mark.parametrize(("data", "options", "error", "text"), BAD_DATA)
def test_tensor_refuses(data, options, error, text):
    if "dtype" in options:
        options = {"dtype": getattr(torch, options["dtype"])}
    with pytest.raises(error, match=text):
        torch.tensor(data, **options)


def test_a_list_that_changes_while_it_is_read():
    """Reading an element may run Python code; shrinking the list there must not crash."""
    data = [1.0, None, 3.0]

    class Shrinks:
        def __float__(self):
            data.clear()
            return 2.0

    data[1] = Shrinks()
    try:
        x = torch.tensor(data, dtype=torch.float32)
    except RuntimeError:
        return
    assert tuple(x.shape) == (3,)


def test_nesting_without_end():
    data = []
    data.append(data)
    with pytest.raises((ValueError, RecursionError, RuntimeError)):
        torch.tensor(data)


# ---- sharing


def test_as_tensor_shares_what_it_can():
    x = torch.ones(2)
    assert torch.as_tensor(x) is x
    array_ = np.zeros(3)
    y = torch.as_tensor(array_)
    array_[1] = 7
    assert y.tolist() == [0, 7, 0]
    z = torch.as_tensor(array_, dtype=torch.float32)
    array_[1] = 8
    assert z.tolist() == [0, 7, 0]
    assert facts(torch.as_tensor([1, 2])) == ("torch.int64", (2,), [1, 2])


def test_asarray():
    array_ = np.zeros(3)
    shared = torch.asarray(array_)
    copied = torch.asarray(array_, copy=True)
    array_[0] = 1
    assert shared.tolist() == [1, 0, 0]
    assert copied.tolist() == [0, 0, 0]
    assert torch.asarray(array.array("f", [1.5, 2.5])).tolist() == [1.5, 2.5]
    assert torch.asarray([1, 2.0]).dtype is torch.float32
    x = torch.ones(2)
    assert torch.asarray(x).data_ptr() == x.data_ptr()
    assert torch.asarray([1.0], requires_grad=True).requires_grad
    with pytest.raises(ValueError, match="alias"):
        torch.asarray([1], copy=False)
    with pytest.raises(ValueError, match="alias"):
        torch.asarray(array_, copy=False, dtype=torch.float32)


def test_frombuffer():
    buffer = bytearray(np.arange(4, dtype=np.int32).tobytes())
    x = torch.frombuffer(buffer, dtype=torch.int32)
    assert x.tolist() == [0, 1, 2, 3]
    buffer[0] = 9
    assert x[0].item() == 9
    assert torch.frombuffer(buffer, dtype=torch.int32, count=2, offset=4).tolist() == [1, 2]


BAD_BUFFERS = [
    (bytearray(9), {}, "must be a multiple of element size"),
    (bytearray(0), {}, "must not be 0"),
    (bytearray(4), {"count": 0}, "must not be 0"),
    (bytearray(4), {"count": 3}, "must not be greater than actual buffer length"),
    (bytearray(4), {"offset": 4}, "offset"),
    (bytearray(4), {"offset": -1}, "offset"),
    ([1], {}, "buffer protocol"),
]


@pytest.mark.parametrize(("buffer", "options", "text"), BAD_BUFFERS)
def test_frombuffer_refuses(buffer, options, text):
    with pytest.raises(ValueError, match=text):
        torch.frombuffer(buffer, dtype=torch.int32, **options)


@pytest.mark.skipif(IS_TORCH, reason="PyTorch lets the buffer move under the tensor")
def test_frombuffer_holds_the_buffer():
    buffer = bytearray(8)
    x = torch.frombuffer(buffer, dtype=torch.float32)
    with pytest.raises(BufferError):
        buffer.extend(b"more")
    del x
    buffer.extend(b"more")


@pytest.mark.skipif(IS_TORCH, reason="PyTorch accepts unaligned memory")
def test_unaligned_memory_is_refused():
    with pytest.raises(ValueError, match="aligned"):
        torch.frombuffer(bytearray(9), dtype=torch.int32, offset=1, count=1)


# ---- sizes and options

SIZES = [
    (lambda f, **k: f(2, 3, **k), (2, 3)),
    (lambda f, **k: f((2, 3), **k), (2, 3)),
    (lambda f, **k: f([2, 3], **k), (2, 3)),
    (lambda f, **k: f(size=(2, 3), **k), (2, 3)),
    (lambda f, **k: f(torch.ones(2, 3).shape, **k), (2, 3)),
    (lambda f, **k: f((), **k), ()),
    (lambda f, **k: f(0, **k), (0,)),
    (lambda f, **k: f(4, **k), (4,)),
    (lambda f, **k: f(torch.tensor(3), 2, **k), (3, 2)),
    (lambda f, **k: f((torch.tensor(3), np.int64(2)), **k), (3, 2)),
]
SIZED = ("zeros", "ones", "empty", "rand", "randn")


@pytest.mark.parametrize("name", SIZED)
@pytest.mark.parametrize(("call", "shape"), SIZES)
def test_sizes(name, call, shape):
    function = getattr(torch, name)
    assert tuple(call(function).shape) == shape
    x = call(function, dtype=torch.float64, device="cpu", requires_grad=True, layout=torch.strided)
    assert (tuple(x.shape), x.dtype, x.requires_grad, x.is_leaf) == (
        shape,
        torch.float64,
        True,
        True,
    )
    assert not call(function).requires_grad


@pytest.mark.parametrize("name", ["new_zeros", "new_ones", "new_empty"])
@pytest.mark.parametrize(("call", "shape"), SIZES)
def test_new_sizes(name, call, shape):
    source = torch.ones(1, dtype=torch.int16)
    x = call(getattr(source, name))
    assert (tuple(x.shape), x.dtype) == (shape, torch.int16)
    assert call(getattr(source, name), dtype=torch.float64).dtype is torch.float64


@pytest.mark.parametrize("name", SIZED)
def test_bad_sizes(name):
    function = getattr(torch, name)
    for bad in (2.0, "a", (2, "a"), (2, 1.5)):
        with pytest.raises(TypeError, match=r"size|invalid combination"):
            function(bad)
    with pytest.raises(TypeError):
        function()
    with pytest.raises(TypeError):
        function(2, (3,))
    for negative in ((-1,), (2, -1)):
        with pytest.raises(RuntimeError, match=r"(?i)negative"):
            function(*negative)
    with pytest.raises(RuntimeError):
        function(2**40, 2**40)
    with pytest.raises(TypeError, match="no_such"):
        function(2, no_such=1)
    with pytest.raises(TypeError, match=r"dtype|invalid combination"):
        function(2, dtype="float32")
    with pytest.raises((RuntimeError, AssertionError), match=r"(?i)cuda"):
        function(2, device="cuda:99")


def test_values():
    assert facts(torch.zeros(2)) == ("torch.float32", (2,), [0, 0])
    assert facts(torch.ones(2, dtype=torch.bool)) == ("torch.bool", (2,), [True, True])
    assert facts(torch.full((2,), 3)) == ("torch.int64", (2,), [3, 3])
    assert facts(torch.full((2,), 2.5)) == ("torch.float32", (2,), [2.5, 2.5])
    assert facts(torch.full((1,), True)) == ("torch.bool", (1,), [True])
    assert facts(torch.full(size=(1,), fill_value=torch.tensor(4.0)))[2] == [4]
    assert facts(torch.full((2,), 3.7, dtype=torch.int32)) == ("torch.int32", (2,), [3, 3])
    assert facts(torch.scalar_tensor(3)) == ("torch.float32", (), 3)
    assert facts(torch.ones(1).new_full((2,), 3)) == ("torch.float32", (2,), [3, 3])
    assert facts(torch.ones(1).new_tensor([1, 2])) == ("torch.float32", (2,), [1, 2])
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.full((2,), 300, dtype=torch.uint8)
    with pytest.raises(TypeError, match="fill_value"):
        torch.full((2,), torch.ones(2))
    with pytest.raises(RuntimeError, match="floating point"):
        torch.zeros(2, dtype=torch.int32, requires_grad=True)


@pytest.mark.parametrize(
    "name", ["zeros_like", "ones_like", "empty_like", "rand_like", "randn_like"]
)
def test_like(name):
    function = getattr(torch, name)
    x = torch.ones(2, 3, dtype=torch.float64).t()
    y = function(x)
    assert (tuple(y.shape), y.dtype, y.stride()) == ((3, 2), torch.float64, (1, 3))
    assert not y.requires_grad
    z = function(x, dtype=torch.float32, requires_grad=True)
    assert (z.dtype, z.requires_grad) == (torch.float32, True)
    assert function(x[:, :1]).is_contiguous()
    assert function(torch.ones(1).expand(3)).is_contiguous()


def test_like_values_and_memory_format():
    x = torch.ones(2, 3, dtype=torch.int32).t()
    assert torch.zeros_like(x).tolist() == [[0, 0]] * 3
    assert torch.full_like(x, 3.7).tolist() == [[3, 3]] * 3
    assert torch.ones_like(x, memory_format=torch.contiguous_format).stride() == (2, 1)
    assert torch.ones_like(x, memory_format=torch.preserve_format).stride() == (1, 3)
    random = torch.rand_like(x, dtype=torch.float32, memory_format=torch.contiguous_format)
    assert random.stride() == (2, 1)
    assert torch.randint_like(x, 3, memory_format=torch.contiguous_format).stride() == (2, 1)


def test_empty_strided():
    x = torch.empty_strided((2, 3), (1, 2), dtype=torch.float64)
    assert (x.stride(), x.dtype) == ((1, 2), torch.float64)
    assert torch.ones(1).new_empty_strided((2, 2), (0, 1)).stride() == (0, 1)
    assert x.untyped_storage().nbytes() == 6 * 8
    with pytest.raises(RuntimeError, match="dimensionality"):
        torch.empty_strided((2, 3), (1,))
    with pytest.raises(RuntimeError, match="strides"):
        torch.empty_strided((2, 3), (1, -2))
    with pytest.raises(RuntimeError):
        torch.empty_strided((2**40, 2), (2**60, 1))


# ---- ranges

ARANGES = [
    ((5,), {}),
    ((5.0,), {}),
    ((1, 5), {}),
    ((1, 5.0, 2), {}),
    ((5, 1, -1), {}),
    ((1, 2.5, 0.5), {}),
    ((0,), {}),
    ((), {"end": 5}),
    ((), {"start": 1, "end": 5, "step": 2}),
    ((1,), {"end": 4}),
    ((0, 1, 0.1), {}),
    ((-3, 3), {}),
]


@pytest.mark.parametrize(("args", "kwargs"), ARANGES)
def test_arange(args, kwargs):
    x = torch.arange(*args, **kwargs)
    named = [kwargs[name] for name in ("start", "end", "step") if name in kwargs]
    wanted = np.arange(*args, *named)
    floating = wanted.dtype.kind == "f"
    assert x.dtype is (torch.float32 if floating else torch.int64)
    np.testing.assert_allclose(x.numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize("name", DTYPES[1:])
def test_arange_dtypes(name):
    x = torch.arange(2, 9, 3, dtype=getattr(torch, name))
    assert facts(x) == (f"torch.{name}", (3,), np.arange(2, 9, 3).astype(name).tolist())


def test_arange_is_exact_for_large_integers():
    start = 2**62
    assert torch.arange(start, start + 3).tolist() == [start, start + 1, start + 2]


def test_arange_of_tensors():
    assert torch.arange(torch.tensor(3)).dtype is torch.int64
    assert torch.arange(torch.tensor(1.0), 3).tolist() == [1, 2]


BAD_RANGES = [
    (lambda: torch.arange(5, 1), RuntimeError, "step sign"),
    (lambda: torch.arange(0, 5, 0), RuntimeError, "nonzero"),
    (lambda: torch.arange(math.nan), RuntimeError, "unsupported range"),
    (lambda: torch.arange(math.inf), RuntimeError, "unsupported range"),
    (lambda: torch.arange(3, dtype=torch.bool), NotImplementedError, "(?i)bool"),
    (lambda: torch.arange(2**62), RuntimeError, "."),
    (lambda: torch.arange("a"), TypeError, "arange"),
    (lambda: torch.arange(), TypeError, "arange"),
    (lambda: torch.linspace(0, 1, -1), RuntimeError, "non-negative"),
    (lambda: torch.linspace(0, 1), TypeError, "steps|invalid combination"),
    (lambda: torch.logspace(0, 1, -1), RuntimeError, "non-negative"),
    (lambda: torch.eye(-1), RuntimeError, "-1"),
    (lambda: torch.eye(2, -1), RuntimeError, "-1"),
    (lambda: torch.eye(2.5), TypeError, "int"),
]


@pytest.mark.parametrize(("make", "error", "text"), BAD_RANGES)
def test_bad_ranges(make, error, text):
    with pytest.raises(error, match=text):
        make()


@pytest.mark.parametrize(
    ("start", "end", "steps"), [(0, 1, 5), (-3, 7.5, 101), (2, -2, 4), (1, 1, 3)]
)
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_linspace(start, end, steps, name):
    x = torch.linspace(start, end, steps, dtype=getattr(torch, name))
    np.testing.assert_allclose(
        x.numpy(), np.linspace(start, end, steps), rtol=3 * np.finfo(name).eps, atol=1e-7
    )
    assert x[-1].item() == end


def test_linspace_corners():
    assert torch.linspace(0, 1, 0).tolist() == []
    assert torch.linspace(3, 9, 1).tolist() == [3]
    assert torch.linspace(0, 10, 5, dtype=torch.int64).tolist() == [0, 2, 5, 7, 10]
    assert torch.linspace(torch.tensor(0.0), 1, 3).tolist() == [0, 0.5, 1]
    assert torch.linspace(start=0, end=1, steps=2, requires_grad=True).requires_grad


def test_logspace():
    np.testing.assert_allclose(torch.logspace(0, 2, 3).numpy(), [1, 10, 100], rtol=1e-6)
    np.testing.assert_allclose(torch.logspace(0, 3, 4, base=2.0).numpy(), [1, 2, 4, 8], rtol=1e-6)
    np.testing.assert_allclose(torch.logspace(-1, 1, 3, 2).numpy(), [0.5, 1, 2], rtol=1e-6)


def test_eye():
    assert torch.eye(2).tolist() == np.eye(2).tolist()
    assert torch.eye(2, 3, dtype=torch.int64).tolist() == np.eye(2, 3, dtype=int).tolist()
    assert torch.eye(n=3, m=1).tolist() == np.eye(3, 1).tolist()
    assert tuple(torch.eye(0).shape) == (0, 0)


def test_range_warns():
    with pytest.warns(UserWarning, match="deprecated"):
        x = torch.range(0, 1, 0.5)
    assert facts(x) == ("torch.float32", (3,), [0, 0.5, 1])


# ---- out=

OUTS = {
    "zeros": lambda out, **k: torch.zeros(2, 2, out=out, **k),
    "ones": lambda out, **k: torch.ones(2, 2, out=out, **k),
    "full": lambda out, **k: torch.full((2, 2), 5, out=out, **k),
    "eye": lambda out, **k: torch.eye(2, out=out, **k),
    "linspace": lambda out, **k: torch.linspace(0, 1, 4, out=out, **k),
    "rand": lambda out, **k: torch.rand(2, 2, out=out, **k),
    "randn": lambda out, **k: torch.randn(2, 2, out=out, **k),
    "randint": lambda out, **k: torch.randint(5, (2, 2), out=out, **k),
}


@pytest.mark.parametrize("name", OUTS)
def test_out(name):
    out = torch.full((2, 2) if name != "linspace" else (4,), -7.0)
    version = out._version
    result = OUTS[name](out)
    assert result is out
    assert out._version > version
    assert (out != -7).all()
    resized = torch.empty(0)
    assert OUTS[name](resized).numel() == 4
    with pytest.raises(RuntimeError, match="does not match dtype of out"):
        OUTS[name](torch.empty(4), dtype=torch.float64)


def test_out_strided():
    base = torch.full((2, 4), -7.0)
    torch.ones(2, 2, out=base[:, ::2])
    assert base.tolist() == [[1, -7, 1, -7]] * 2
    torch.rand(2, 2, out=base[:, ::2])
    assert (base[:, 1::2] == -7).all()
    assert ((base[:, ::2] >= 0) & (base[:, ::2] < 1)).all()


def test_errors_name_the_function():
    """The text of an error begins with the function that refused."""
    if IS_TORCH:
        pytest.skip("this is our own rule for error texts")
    for make, name in (
        (lambda: torch.zeros(-1), "zeros"),
        (lambda: torch.tensor([[1], 2]), "tensor"),
        (lambda: torch.full((2,), 300, dtype=torch.uint8), "full"),
        (lambda: torch.ones(1).new_zeros("a"), "new_zeros"),
        (lambda: torch.randint(5, 2, (1,)), "randint"),
    ):
        with pytest.raises((TypeError, RuntimeError, ValueError), match=rf"^{re.escape(name)}\b"):
            make()


def test_resize_keeps_the_bytes_of_a_strided_tensor():
    x = torch.arange(6.0).view(2, 3).t()
    assert x.resize_(2, 4).flatten()[:6].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_new_memory_must_fit_a_tensor_that_requires_grad():
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="floating"):
        x.data = torch.ones(2, dtype=torch.int64)
    with pytest.raises(RuntimeError):
        torch.ones(2).set_(torch.ones(2, dtype=torch.int32))


# ---- out=, and Python's types as dtypes

ROWS = {
    "linspace": lambda out: torch.linspace(0, 11, 12, out=out),
    "arange": lambda out: torch.arange(12, out=out),
    "logspace": lambda out: torch.logspace(0, 11, 12, base=2, out=out),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_numbers_fill_an_out_that_is_a_view(name):
    expected = ROWS[name](torch.empty(12)).tolist()
    base = torch.full((3, 8), -1.0)
    out = base[:, ::2]
    assert ROWS[name](out) is out and out.shape == (3, 4) and out.stride() == (8, 2)
    assert out.reshape(-1).tolist() == expected and (base[:, 1::2] == -1).all()
    base = torch.full((4, 3), -1.0)
    ROWS[name](base.t())
    assert base.t().reshape(-1).tolist() == expected and base.shape == (4, 3)


def test_arange_warns_where_it_resizes_out():
    with pytest.warns(UserWarning, match="The number of elements in the out tensor"):
        assert torch.arange(5, out=torch.ones(3)).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("given", "dtype"), [(float, "float64"), (int, "int64"), (bool, "bool")], ids=str
)
def test_python_types_stand_for_dtypes(given, dtype):
    wanted = getattr(torch, dtype)
    x = torch.ones(2)
    made = [
        torch.zeros(2, dtype=given),
        torch.tensor([1, 0], dtype=given),
        torch.as_tensor([1, 0], dtype=given),
        torch.full((2,), 1, dtype=given),
        torch.empty_like(x, dtype=given),
        x.new_ones(2, dtype=given),
        x.to(given),
        x.to(dtype=given),
        torch.sum(x, dtype=given) if given is not bool else x.to(given),
    ]
    assert [tensor.dtype for tensor in made] == [wanted] * len(made)
    assert torch.nn.Linear(2, 2).to(float).weight.dtype is torch.float64
    assert torch.nn.Linear(2, 2).to(dtype=float).weight.dtype is torch.float64
