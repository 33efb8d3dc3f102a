"""Tensors of complex numbers: made, converted, printed, shared, saved."""

import copy
import io
import pickle
import warnings

import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
beside_pytorch = pytest.mark.skipif(
    pytorch is None or IS_TORCH, reason=REASON or "nothing to compare with"
)
both = pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=["64", "128"])


def test_made_of_numbers():
    assert torch.tensor(1j).dtype is torch.complex64
    assert torch.tensor([1, 2j]).tolist() == [1 + 0j, 2j]
    assert torch.tensor([1.5, True, 2j], dtype=torch.complex128).tolist() == [1.5, 1, 2j]
    assert torch.tensor([1, 2], dtype=torch.cfloat).dtype is torch.complex64
    assert torch.tensor([[1j], [2]], dtype=torch.cdouble).shape == (2, 1)
    assert torch.tensor([torch.tensor(2j), 1]).tolist() == [2j, 1]
    assert torch.tensor(np.complex64(3j)).item() == 3j
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.tensor(1j).dtype is torch.complex128
    finally:
        torch.set_default_dtype(torch.float32)
    with pytest.raises(TypeError):
        torch.tensor(1j, dtype=torch.float32)
    with pytest.raises(TypeError):
        torch.tensor([1j, [2]])


@both
def test_made_of_nothing(dtype):
    assert torch.zeros(2, dtype=dtype).tolist() == [0, 0]
    assert torch.ones(2, dtype=dtype).tolist() == [1, 1]
    assert torch.empty(2, 3, dtype=dtype).shape == (2, 3)
    assert torch.full((2,), 1 + 2j, dtype=dtype).tolist() == [1 + 2j] * 2
    assert torch.full((2,), 3, dtype=dtype).tolist() == [3, 3]
    assert torch.eye(2, dtype=dtype).tolist() == [[1, 0], [0, 1]]
    x = torch.zeros(2, dtype=dtype)
    assert torch.full_like(x, 1j).tolist() == [1j, 1j]
    assert x.new_full((1,), 2j).tolist() == [2j]
    assert x.fill_(1 - 1j).tolist() == [1 - 1j] * 2
    assert torch.zeros_like(x).dtype is dtype
    assert torch.full((2,), 1j).dtype is torch.complex64
    with pytest.raises(RuntimeError, match="complex"):
        torch.full((2,), 1j, dtype=torch.float32)
    with pytest.raises(RuntimeError, match="complex"):
        torch.zeros(2).fill_(1j)


@both
def test_random_numbers(dtype):
    normal = torch.randn(20_000, dtype=dtype)
    assert normal.dtype is dtype
    assert normal.real.var().item() == pytest.approx(0.5, abs=0.02)
    assert normal.var().item() == pytest.approx(1, abs=0.03)
    assert abs((normal.real * normal.imag).mean().item()) < 0.02
    uniform = torch.rand(1000, dtype=dtype)
    assert uniform.real.min().item() >= 0 and uniform.imag.max().item() < 1
    assert torch.randn_like(normal).shape == normal.shape


def test_numbers_out():
    z = torch.tensor([1 + 2j, 3])
    assert z[0].item() == 1 + 2j and isinstance(z[1].item(), complex)
    assert complex(z[0]) == 1 + 2j
    assert float(z[1]) == 3 and int(z[1]) == 3
    assert bool(torch.tensor(1j)) and not bool(torch.tensor(0j))
    with pytest.raises(RuntimeError):
        float(z[0])
    assert z.is_complex() and torch.is_complex(z) and not z.is_floating_point()
    assert 3 + 0j in z and 5j not in z
    assert z.dtype.is_complex and z.element_size() == 8 and z.is_signed()
    assert z.type() == "torch.ComplexFloatTensor"


PRINTED = [
    lambda t: t.tensor([1 + 2j, 3 - 4.5j]),
    lambda t: t.tensor([1 + 2j, 3 - 4j]),
    lambda t: t.tensor(1.25 - 2j),
    lambda t: t.tensor([[1e-6 + 1j, 1e6 - 1j]]),
    lambda t: t.tensor([float("nan") + 1j, complex(1, float("inf")), complex(-0.0, -0.0)]),
    lambda t: t.zeros(0, dtype=t.complex64),
    lambda t: t.zeros(2, dtype=t.complex128),
    lambda t: t.zeros(2000, dtype=t.complex64),
    lambda t: t.tensor([[1.5 + 10j, 2 - 100.25j], [1j, 0]], dtype=t.complex128),
    lambda t: t.tensor([1j], requires_grad=True) * 2,
    lambda t: t.tensor([1 + 2j] * 12),
]


@beside_pytorch
@pytest.mark.parametrize("make", PRINTED, ids=range(len(PRINTED)))
def test_printed_as_pytorch_prints(make):
    assert repr(make(torch)) == repr(make(pytorch))


@both
def test_casts(dtype):
    z = torch.tensor([1.75 + 2j, 0 + 1j], dtype=dtype)
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        assert z.to(torch.float32).tolist() == [1.75, 0]
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        assert z.int().tolist() == [1, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert z.bool().tolist() == [True, True]
        assert z.to(torch.complex128).tolist() == [1.75 + 2j, 1j]
    for name in ("bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"):
        x = torch.tensor([0, 1, 1]).to(getattr(torch, name)).to(dtype)
        assert x.dtype is dtype and x.tolist() == [0, 1, 1], name
    assert torch.ones(2, 3).t().to(dtype).shape == (3, 2)
    assert torch.tensor([2.0]).cfloat().dtype is torch.complex64
    assert torch.tensor([2.0]).cdouble().dtype is torch.complex128


@both
def test_numpy_shares_memory(dtype):
    array = np.array([[1 + 2j, 3], [4j, 5]], str(dtype).removeprefix("torch."))
    x = torch.from_numpy(array)
    assert x.dtype is dtype and x.tolist() == array.tolist()
    x[0, 0] = 9j
    assert array[0, 0] == 9j
    x.numpy()[1, 1] = 7
    assert array[1, 1] == 7
    assert torch.from_numpy(array[:, ::2].T).tolist() == array[:, ::2].T.tolist()
    assert np.asarray(x).dtype == array.dtype
    back = torch.from_dlpack(np.from_dlpack(x))
    assert back.dtype is dtype and back.tolist() == x.tolist()
    assert torch.frombuffer(array, dtype=dtype).tolist() == array.reshape(-1).tolist()
    assert (x * np.complex64(2)).dtype is dtype


@both
def test_saved_and_copied(dtype):
    x = torch.tensor([[1 + 2j, 3], [4j, 5]], dtype=dtype)
    file = io.BytesIO()
    torch.save({"x": x, "row": x[1]}, file)
    file.seek(0)
    loaded = torch.load(file)
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), loaded["x"], x.clone()):
        assert other.dtype is dtype and other.tolist() == x.tolist()
    loaded["x"][1, 0] = 0
    assert loaded["row"][0].item() == 0


@both
def test_parts_are_views(dtype):
    z = torch.tensor([1 + 2j, 3 + 4j], dtype=dtype)
    z.real.mul_(10)
    z.imag[0] = 5
    assert z.tolist() == [10 + 5j, 30 + 4j]
    z.real = torch.tensor([1.0, 2.0])
    z.imag = 0
    assert z.tolist() == [1, 2]
    pairs = torch.view_as_real(z)
    assert pairs.shape == (2, 2) and pairs.data_ptr() == z.data_ptr()
    assert torch.view_as_complex(pairs[:, None]).tolist() == [[1], [2]]
    assert z.real.stride() == (2,) and z.imag.storage_offset() == 1
    assert torch.real(z.real) is not None and z.real.real.tolist() == [1, 2]
    assert z._version == z.real._version
    with pytest.raises(RuntimeError, match="non-complex"):
        _ = z.real.imag
    with pytest.raises(RuntimeError, match="complex"):
        torch.view_as_real(z.real)


def test_view_as_complex_says_what_it_needs():
    for x, text in (
        (torch.ones(2, dtype=torch.int64), "floating point|float32"),
        (torch.tensor(1.0), "dimensions"),
        (torch.ones(3), "size 2"),
        (torch.ones(2, 2).t(), "stride 1"),
        (torch.ones(2, 3)[:, :2], "divisible by 2"),
        (torch.ones(3)[1:], "storage_offset"),
    ):
        with pytest.raises(RuntimeError, match=text):
            torch.view_as_complex(x)


def test_conjugates():
    z = torch.tensor([[1 + 2j, 3], [4j, 5]])
    assert z.conj().resolve_conj().tolist() == [[1 - 2j, 3], [-4j, 5]]
    assert z.H.tolist() == [[1 - 2j, -4j], [3, 5]]
    assert z.mH.tolist() == z.adjoint().tolist() == z.H.tolist()
    assert not z.is_conj() and not z.is_neg()
    x = torch.ones(2)
    assert x.conj() is x and x.resolve_conj() is x and torch.real(x) is x
    with pytest.raises(RuntimeError, match="matri"):
        _ = x.H
    assert torch.isreal(z).tolist() == [[False, True], [False, True]]
    assert torch.isreal(x).tolist() == [True, True]


def test_angles_and_signs_of_real_numbers():
    x = torch.tensor([-2.0, 0.0, 3.0, float("nan")])
    assert torch.angle(x)[:3].tolist() == pytest.approx([np.pi, 0, 0])
    assert torch.angle(x)[3].isnan()
    assert torch.angle(torch.tensor([-1, 1])).dtype is torch.float32
    assert torch.sgn(x)[:3].tolist() == [-1, 0, 1]


ORDERS = ("lt", "le", "gt", "ge", "maximum", "minimum", "fmod", "remainder", "floor_divide")
OTHERS = (
    "sort", "argsort", "max", "min", "amax", "argmax", "median", "floor", "ceil", "round", "trunc",
    "frac", "erf", "lgamma", "relu", "signbit", "cummax", "topk", "unique", "sign",
)  # fmt: skip


@pytest.mark.parametrize("name", ORDERS + OTHERS)
def test_what_has_no_meaning_is_refused(name):
    z = torch.tensor([1 + 2j, 3j])
    arguments = (z,) if name in ORDERS else (1,) if name == "topk" else ()
    if name == "cummax":
        arguments = (0,)
    with pytest.raises((RuntimeError, NotImplementedError, TypeError), match="omplex"):
        getattr(torch, name)(z, *arguments)


@pytest.mark.skipif(IS_TORCH, reason="what PyTorch has and we have not")
def test_what_is_not_there_is_refused_by_name():
    z = torch.tensor([[1 + 2j, 3j]], requires_grad=True)
    F = torch.nn.functional
    for call in (
        lambda: F.softmax(z, -1),
        lambda: F.layer_norm(z, (2,)),
        lambda: F.max_pool1d(z, 2),
        lambda: F.dropout(z),
        lambda: F.scaled_dot_product_attention(z, z, z),
        lambda: F.gelu(z),
        lambda: F.cross_entropy(z, torch.tensor([0])),
        lambda: torch.arange(3, dtype=torch.complex64),
        lambda: torch.logaddexp2(z, z),
        lambda: z.detach().exponential_(),
        lambda: torch.histc(z),
        lambda: torch.bernoulli(z),
    ):
        with pytest.raises((NotImplementedError, RuntimeError, TypeError), match="omplex"):
            call()


@pytest.mark.skipif(IS_TORCH, reason="policies of the tape")
def test_compressed_tapes_leave_complex_values_alone():
    x = torch.randn(300, 40, dtype=torch.complex64, requires_grad=True)
    (x.exp() * x).abs().sum().backward()
    wanted, x.grad = x.grad, None
    with torch.tape.compress(min_bytes=1):
        loss = (x.exp() * x).abs().sum()
    loss.backward()
    assert torch.equal(x.grad, wanted)


@pytest.mark.skipif(IS_TORCH, reason="policies of the tape")
def test_budgets_and_checkpoints_give_the_same_gradients():
    x = torch.randn(300, 40, dtype=torch.complex64, requires_grad=True)

    def loss():
        return ((x.exp() * x).conj() @ x.t()).abs().sum()

    loss().backward()
    wanted, x.grad = x.grad, None
    with torch.tape.budget("1 MiB"):
        loss().backward()
    assert torch.equal(x.grad, wanted)
    x.grad = None
    torch.utils.checkpoint.checkpoint(loss, use_reentrant=False).backward()
    assert torch.equal(x.grad, wanted)


@pytest.mark.skipif(IS_TORCH, reason="our compiler")
def test_compiled_functions_agree():
    x = torch.randn(30, dtype=torch.complex64)

    def f(z):
        return (z * 2j + z.conj()).abs().sum()

    compiled = torch.compile(f)
    for _ in range(3):
        assert torch.equal(compiled(x), f(x))
        x = x * 1.5
