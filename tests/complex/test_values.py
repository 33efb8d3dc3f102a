"""Values of complex ops: PyTorch's and NumPy's, special values and branch cuts included."""

import cmath
import itertools
import warnings

import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity, torch

from .cases import CASES, IDS, UNARY, arrays

pytorch, REASON = pytorch_for_parity()
beside_pytorch = pytest.mark.skipif(
    pytorch is None or IS_TORCH, reason=REASON or "nothing to compare with"
)


def lifted(library, operands, wide, layout):
    found = []
    for x in arrays(operands, wide):
        tensor = library.from_numpy(x.copy())
        if layout == "strided" and x.ndim:
            tensor = library.stack([tensor, tensor * 2], -1)[..., 0]
        if layout == "transposed" and x.ndim > 1:
            tensor = library.from_numpy(np.ascontiguousarray(x.T)).permute(*range(x.ndim)[::-1])
        found.append(tensor)
    return found


@beside_pytorch
@pytest.mark.parametrize("layout", ["contiguous", "strided", "transposed"])
@pytest.mark.parametrize("wide", [True, False], ids=["128", "64"])
@pytest.mark.parametrize(("name", "call", "operands", "_"), CASES, ids=IDS)
def test_values_are_those_of_pytorch(name, call, operands, _, wide, layout):
    if layout != "contiguous" and name in ("view_as_complex", "write.complex"):
        pytest.skip("needs pairs side by side")
    ours, theirs = (
        call(library, *lifted(library, operands, wide, layout)) for library in (torch, pytorch)
    )
    assert str(ours.dtype) == str(theirs.dtype)
    assert tuple(ours.shape) == tuple(theirs.shape)
    tolerance = 1e-12 if wide else 3e-5
    np.testing.assert_allclose(
        ours.numpy(), theirs.resolve_conj().numpy(), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize(("name", "call", "operands", "_"), CASES, ids=IDS)
def test_meta_tensors_have_shape_and_dtype(name, call, operands, _):
    inputs = lifted(torch, operands, True, "contiguous")
    if name in ("mask", "gather", "scatter", "scatter_add", "masked_fill", "masked_select") or (
        name.startswith(("index", "write"))
    ):
        pytest.skip("takes indices or looks at values")
    real = call(torch, *inputs)
    meta = call(torch, *(x.to("meta") for x in inputs))
    assert (meta.dtype, meta.shape, meta.device.type) == (real.dtype, real.shape, "meta")


@pytest.mark.parametrize("name", [n for n in UNARY if n not in ("t", "adjoint")])
@pytest.mark.parametrize("shape", [(0,), (), (2, 0, 3)])
def test_no_elements_and_no_dimensions(name, shape):
    x = torch.ones(shape, dtype=torch.complex64) * (1 + 1j)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of variances of nothing
        y = getattr(torch, name)(x)
    if name in ("sum", "mean", "prod", "var", "std"):
        assert y.shape == ()
    elif name == "view_as_real":
        assert y.shape == (*shape, 2)
    elif name != "ravel":
        assert y.shape == shape


PARTS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.0, float("inf"), float("-inf"), float("nan"))
EDGES = np.array([complex(a, b) for a, b in itertools.product(PARTS, PARTS)])
BY_STANDARD = (
    "sqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "acosh", "atanh", "log10",
)  # fmt: skip


@pytest.mark.parametrize("name", BY_STANDARD)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_special_values_and_branch_cuts_are_those_of_the_standard(name, dtype):
    """As Python's cmath has them, which follows the C standard; NaN gives what libraries like."""
    function = getattr(cmath, name)
    found = getattr(torch, name)(torch.from_numpy(EDGES.astype(dtype))).tolist()
    tolerance = 1e-5 if dtype == "complex64" else 1e-12
    for z, y in zip(EDGES.tolist(), found, strict=True):
        if cmath.isnan(z):
            continue
        try:
            wanted = function(z)
        except (ValueError, OverflowError):
            continue  # where cmath refuses to name an infinity or NaN
        for got, want in ((y.real, wanted.real), (y.imag, wanted.imag)):
            assert np.isclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True), (
                f"{name}({z}) is {y}, expected {wanted}"
            )


def test_signs_of_zeros_choose_the_side_of_a_cut():
    z = torch.tensor([complex(-1, 0.0), complex(-1, -0.0)])
    assert torch.sqrt(z).imag.tolist() == [1, -1]
    assert torch.log(z).imag.tolist() == pytest.approx([cmath.pi, -cmath.pi])
    assert torch.angle(z).tolist() == pytest.approx([cmath.pi, -cmath.pi])
    assert torch.copysign(torch.ones(2), (-z).imag).tolist() == [-1, 1]


def test_division_and_magnitude_do_not_overflow_on_the_way():
    huge = torch.tensor([1e308 + 1e308j], dtype=torch.complex128)
    assert (huge / huge).tolist() == [1 + 0j]
    tiny = torch.tensor([3e-320 + 3e-320j], dtype=torch.complex128)
    assert (tiny / tiny).tolist() == [1 + 0j]
    assert torch.abs(torch.tensor([3e300 + 4e300j], dtype=torch.complex128)).tolist() == [5e300]
    assert torch.abs(torch.tensor([3e-300 + 4e-300j], dtype=torch.complex128)).item() > 0


def test_log1p_and_expm1_keep_small_numbers():
    z = torch.tensor([1e-12 + 1e-13j], dtype=torch.complex128)
    a = z.item()
    for function, wanted in ((torch.log1p, a - a * a / 2), (torch.expm1, a + a * a / 2)):
        np.testing.assert_allclose(function(z).item(), wanted, rtol=1e-14)


def test_tests_of_special_values_look_at_both_parts():
    z = torch.from_numpy(EDGES)
    assert torch.isnan(z).tolist() == np.isnan(EDGES).tolist()
    assert torch.isinf(z).tolist() == np.isinf(EDGES).tolist()
    assert torch.isfinite(z).tolist() == np.isfinite(EDGES).tolist()


@pytest.mark.parametrize("numel", [1, 63, 65, 1000, 40_000])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_sizes_around_tiles_and_threads(numel, dtype):
    rng = np.random.default_rng(0)
    a, b = ((rng.normal(size=numel) + 1j * rng.normal(size=numel)).astype(dtype) for _ in range(2))
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    tolerance = 1e-4 if dtype == "complex64" else 1e-11
    for ours, wanted in (
        (x * y, a * b),
        (x + 2, a + 2),
        (x.conj() * y.real, a.conj() * b.real),
        (x.abs(), np.abs(a)),
        (x.cumsum(0), np.cumsum(a)),
        (x.sum().reshape(1), a.sum().reshape(1)),
        (x.flip(0), a[::-1]),
        (x == y, a == b),
    ):
        np.testing.assert_allclose(ours.numpy(), wanted, rtol=tolerance, atol=tolerance * numel)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (7, 300, 5), (200, 130, 90), (1, 500, 1), (3, 0, 2)])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_products_of_matrices(sizes, dtype):
    m, k, n = sizes
    rng = np.random.default_rng(0)
    a, b = (
        (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
        for shape in ((m, k), (k, n))
    )
    tolerance = 1e-3 if dtype == "complex64" else 1e-11
    for left, right in (
        (torch.from_numpy(a), torch.from_numpy(b)),
        (torch.from_numpy(np.ascontiguousarray(a.T)).t(), torch.from_numpy(b)),
        (torch.from_numpy(a), torch.from_numpy(np.ascontiguousarray(b.T)).t()),
    ):
        np.testing.assert_allclose((left @ right).numpy(), a @ b, rtol=tolerance, atol=tolerance)


def test_result_types():
    z, w = torch.ones(2, dtype=torch.complex64), torch.ones(2, dtype=torch.complex128)
    f, d, i = torch.ones(2), torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.int64)
    assert (z + f).dtype is torch.complex64
    assert (z + d).dtype is torch.complex128
    assert (z + i).dtype is torch.complex64
    assert (z + w).dtype is torch.complex128
    assert (f + 1j).dtype is torch.complex64
    assert (d + 1j).dtype is torch.complex128
    assert (i + 1j).dtype is torch.complex64
    assert (z + torch.tensor(1.0, dtype=torch.float64)).dtype is torch.complex64
    assert torch.result_type(f, 1j) is torch.complex64
    assert torch.result_type(d, 1j) is torch.complex128
    assert torch.promote_types(torch.complex64, torch.float64) is torch.complex128


def test_in_place_and_out():
    z = torch.tensor([1 + 2j, 3j])
    z *= 1j
    z += 1
    assert z.tolist() == [-1 + 1j, -2 + 0j]
    with pytest.raises(RuntimeError, match="ComplexFloat"):
        torch.ones(2).mul_(z)
    with pytest.raises(RuntimeError, match="complex"):
        z.abs_()
    out = torch.empty(2, dtype=torch.complex64)
    torch.exp(z, out=out)
    np.testing.assert_allclose(out.numpy(), np.exp(z.numpy()), rtol=1e-5)
    magnitudes = torch.empty(2)
    torch.abs(z, out=magnitudes)
    assert magnitudes.tolist() == pytest.approx([2**0.5, 2])
    with pytest.raises(RuntimeError, match="ComplexFloat"):
        torch.exp(z, out=magnitudes)
    z.conj_physical_()
    assert z.tolist() == [-1 - 1j, -2 + 0j]


def test_complex_numbers_as_operands_of_other_functions():
    z = torch.tensor([1 + 2j, 3j])
    mask = torch.tensor([True, False])
    assert torch.where(mask, z, 5j).tolist() == [1 + 2j, 5j]
    assert torch.where(mask, torch.ones(2), 5j).tolist() == [1, 5j]
    assert z.masked_fill(mask, 7j).tolist() == [7j, 3j]
    assert z.index_fill(0, torch.tensor([1]), 2 - 1j).tolist() == [1 + 2j, 2 - 1j]
    z[mask] = 4j
    z[1] = 1 - 1j
    assert z.tolist() == [4j, 1 - 1j]
    assert (z == 4j).tolist() == [True, False]
    if IS_TORCH:
        return
    for call in (
        lambda: torch.ones(2).masked_fill(mask, 7j),
        lambda: torch.add(torch.ones(2), torch.ones(2), alpha=2j),
        lambda: torch.addcmul(torch.ones(2), torch.ones(2), torch.ones(2), value=2j),
        lambda: torch.ones(2).__setitem__(0, 1j),
    ):
        with pytest.raises((TypeError, RuntimeError, NotImplementedError)):
            call()


def test_writing_complex_values_to_real_tensors_warns():
    x, z = torch.zeros(2), torch.tensor([1 + 2j, 3j])
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        x.copy_(z)
    assert x.tolist() == [1, 0]


def test_vmap():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4))
    x = torch.from_numpy(a)
    np.testing.assert_allclose(
        torch.vmap(lambda z: (z * z.conj()).sum() + z.abs().sum())(x).numpy(),
        (a * a.conj()).sum(1) + np.abs(a).sum(1),
    )
    np.testing.assert_allclose(torch.vmap(lambda z: z.imag.cumsum(0))(x).numpy(), a.imag.cumsum(1))
    np.testing.assert_allclose(
        torch.vmap(lambda z: torch.outer(z, z).mm(torch.outer(z, z)))(x).numpy(),
        np.stack([np.outer(z, z) @ np.outer(z, z) for z in a]),
    )
