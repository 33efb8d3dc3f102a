"""torch.special: its names, the limits of its functions, derivatives that PyTorch lacks."""

import math

import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity, torch

INF, NAN = math.inf, math.nan

pytorch, REASON = pytorch_for_parity()
needs_pytorch = pytest.mark.skipif(pytorch is None or IS_TORCH, reason=REASON or "compares two")

VALUES = [0.0, -0.0, 1.0, -1.0, 0.3, 2.5, -2.5, 7.9, 8.1, -12.0, 120.0, 1e-40, 1e-300, INF, -INF,
          NAN]  # fmt: skip
UNARY = ["airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "entr", "erfcx", "expit",
         "gammaln", "i0", "i0e", "i1", "i1e", "log_ndtr", "logit", "modified_bessel_i0",
         "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1", "ndtr", "ndtri", "psi",
         "scaled_modified_bessel_k0", "scaled_modified_bessel_k1",
         "spherical_bessel_j0"]  # fmt: skip
# Where PyTorch is not followed: (function, argument).
BETTER = {
    **{(name, x): "infinite, and not NaN" for name in ("i0", "i1", "modified_bessel_i0",
                                                      "modified_bessel_i1") for x in (INF, -INF)},
}  # fmt: skip
POLYNOMIALS = [name for name in dir(torch.special) if "_polynomial_" in name]


@needs_pytorch
def test_names_are_those_of_pytorch():
    assert sorted(torch.special.__all__) == sorted(pytorch.special.__all__)
    assert all(callable(getattr(torch.special, name)) for name in torch.special.__all__)


@needs_pytorch
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", UNARY)
def test_limits(name, dtype):
    values = [x for x in VALUES if (name, x) not in BETTER]
    if dtype == "float32":
        values = [x for x in values if x != 1e-300]
    ours = getattr(torch.special, name)(torch.tensor(values, dtype=getattr(torch, dtype)))
    theirs = getattr(pytorch.special, name)(pytorch.tensor(values, dtype=getattr(pytorch, dtype)))
    tolerance = 3e-6 if dtype == "float32" else 1e-13
    if name.startswith(("airy", "bessel")):
        tolerance = 3e-6  # PyTorch has no more digits; test_accuracy_special.py tells who is right
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=tolerance, atol=tolerance)


PAIRS = [(0, 0), (0, 1), (1, 0), (0, INF), (INF, 1), (INF, INF), (1, INF), (-1, 1), (1, -1),
         (NAN, 1), (1, NAN), (-0.0, 1), (1, -0.0), (1e-300, 1e-300), (1e300, 1e300), (200, 200),
         (1e-10, 1e-5), (0.5, 1e-20), (3e5, 3.001e5), (1e-3, 40), (30, 1e-3), (150, 110),
         (150, 200)]  # fmt: skip


@needs_pytorch
@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_limits_of_incomplete_gamma(name):
    a, x = np.asarray(PAIRS).T
    ours = getattr(torch.special, name)(torch.tensor(a), torch.tensor(x)).numpy()
    theirs = getattr(pytorch.special, name)(pytorch.tensor(a), pytorch.tensor(x)).numpy()
    # The tails of PyTorch have nine digits, and less where a is tiny.
    where = a > 1e-200
    np.testing.assert_allclose(ours[where], theirs[where], rtol=1e-8)


def test_limits_of_zeta():
    s = [1, 0.5, 2, 2, 3, 2.5, NAN, 2, INF, INF, INF, 1e10, 1e10, -3, 4, 2]
    q = [1, 1, 0, -1, -1.5, -1.5, 1, NAN, 1, 2, 0.5, 1, 0.5, 1, 1e-100, INF]
    wanted = [INF, NAN, INF, INF, 0.11810203, NAN, NAN, NAN, 1, 0, INF, 1, INF, NAN, INF, 0]
    found = torch.special.zeta(torch.tensor(s).double(), torch.tensor(q).double())
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-7)


DEGREES = [0, -1, 2.7, 5, 7, 30, 100, NAN, INF, -0.5]


@needs_pytorch
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_degrees(name):
    """Degrees are truncated; negative ones, and those that are no number, give zero."""
    x, n = np.meshgrid([0.0, 0.3, -0.7, 1.0, -1.0, 2.0, 0.5], DEGREES)
    ours = getattr(torch.special, name)(torch.tensor(x), torch.tensor(n)).numpy()
    theirs = getattr(pytorch.special, name)(pytorch.tensor(x), pytorch.tensor(n)).numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_degree_beyond_the_range_of_numbers(name):
    """Where PyTorch has NaN, as its recurrence takes infinity from infinity."""
    if IS_TORCH:
        pytest.skip("asks for more than PyTorch delivers")
    x, n = torch.tensor([3.0, -3.0, NAN]).double(), torch.tensor([2000.0, 2001.0, 3.0]).double()
    if name.startswith(("hermite", "laguerre")):
        x = x * 1e4
    found = getattr(torch.special, name)(x, n).tolist()
    last = INF if name == "laguerre_polynomial_l" else -INF
    first = INF
    assert found[:2] == [first, last] and math.isnan(found[2])


@pytest.mark.skipif(IS_TORCH, reason="PyTorch computes for years")
def test_degree_that_would_take_for_ever():
    for name in ("legendre_polynomial_p", "laguerre_polynomial_l"):
        assert math.isnan(getattr(torch.special, name)(torch.tensor([0.5]), 2**40).item())
    assert abs(torch.special.chebyshev_polynomial_t(torch.tensor([0.5]), 3 * 2**40).item()) > 0.99


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_numbers_for_operands(name):
    function = getattr(torch.special, name)
    x, n = torch.tensor([0.25, 0.5]), torch.tensor([2, 3])
    both = function(x, n)
    assert torch.equal(function(x, 2)[0], both[0]) and torch.equal(function(0.25, n)[0], both[0])
    out = torch.empty(2)
    assert function(x, n, out=out) is out and torch.equal(out, both)
    with pytest.raises(TypeError):
        function(0.5, 2)
    assert function(torch.tensor([1, 0]), 3).dtype == torch.float32


DIFFERENTIABLE = [name for name in UNARY if name not in ("expit", "gammaln", "psi")]


@pytest.mark.skipif(IS_TORCH, reason="PyTorch has no derivative of many of these")
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives(name):
    """First and second, against differences, on both sides of every change of method."""
    inside = name in ("logit", "ndtri")
    points = (
        [0.1, 0.3, 0.48, 0.76, 0.9] if inside else [0.4, 0.9, 1.2, 1.9, 2.3, 4.6, 7.8, 8.4, 9.5]
    )
    if name in ("airy_ai", "bessel_j0", "bessel_j1", "i0", "i1", "i0e", "i1e", "ndtr", "erfcx"):
        points += [-x for x in points]
    x = torch.tensor(points, dtype=torch.float64, requires_grad=True)
    function = getattr(torch.special, name)
    (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    h = 1e-4

    def differences(f):
        with torch.no_grad():
            near = [f(x + k * h).numpy() for k in (-2, -1, 1, 2)]
        return (near[0] - 8 * near[1] + 8 * near[2] - near[3]) / (12 * h)

    def slope(at):
        with torch.enable_grad():
            leaf = at.detach().requires_grad_()
            return torch.autograd.grad(function(leaf).sum(), leaf)[0]

    np.testing.assert_allclose(first.detach().numpy(), differences(function), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(second.numpy(), differences(slope), rtol=1e-7, atol=1e-9)


@pytest.mark.skipif(IS_TORCH, reason="PyTorch has no derivative of these")
@pytest.mark.parametrize("name", ["bessel_j1", "i1", "i1e", "spherical_bessel_j0"])
def test_derivatives_at_zero(name):
    x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    y = getattr(torch.special, name)(x)
    (first,) = torch.autograd.grad(y.sum(), x)
    assert first.item() == (0.0 if name == "spherical_bessel_j0" else 0.5)


@pytest.mark.skipif(IS_TORCH, reason="PyTorch has no derivative of these")
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_derivatives_of_polynomials(name):
    """Also at the ends of the interval, where the usual formulas divide zero by zero."""
    low = 0.0 if name.startswith("shifted") else -1.0
    for n in (0, 1, 2, 5):
        x = torch.tensor([low, 0.3, 0.77, 1.0], dtype=torch.float64, requires_grad=True)
        function = getattr(torch.special, name)
        (first,) = torch.autograd.grad(function(x, n).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        at = x.detach().numpy()
        nodes = np.linspace(low, 1, 8)
        fitted = np.polynomial.Polynomial.fit(
            nodes, function(torch.tensor(nodes), n).numpy(), max(n, 1)
        )
        for order, found in ((1, first), (2, second)):
            wanted = fitted.deriv(order)(at)
            np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "zeta"])
def test_refused_derivative(name):
    a = torch.tensor([2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="derivative"):
        getattr(torch.special, name)(a, torch.tensor([3.0])).sum().backward()


def test_density_of_gamma_to_second_order():
    a = torch.tensor([0.5, 2.0, 15.0, 120.0], dtype=torch.float64)
    x = torch.tensor([0.7, 3.0, 14.0, 118.0], dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(torch.special.gammainc(a, x).sum(), x, create_graph=True)
    wanted = torch.exp((a - 1) * torch.log(x) - x - torch.lgamma(a))
    np.testing.assert_allclose(first.detach().numpy(), wanted.detach().numpy(), rtol=1e-12)
    if IS_TORCH:
        return
    (second,) = torch.autograd.grad(first.sum(), x)
    slope = (wanted * ((a - 1) / x - 1)).detach().numpy()
    np.testing.assert_allclose(second.numpy(), slope, rtol=1e-10, atol=1e-15)


def test_logit_has_no_gradient_outside_of_its_domain():
    """PyTorch's is NaN there; up to the second order it is finite inside."""
    values = [-INF, -0.5, -1e-300, 0.0, 0.3, 0.5, 1.0, 1.5, INF, math.nan]
    x = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(torch.logit(x).sum(), x, create_graph=True)
    inside = slice(4, 6)
    assert first.isnan().tolist() == [True] * 3 + [False] * 4 + [True] * 3
    assert first[[3, 6]].tolist() == [INF, INF]
    want = [1 / (p * (1 - p)) for p in values[inside]]
    torch.testing.assert_close(first[inside], torch.tensor(want, dtype=torch.float64))
    (second,) = torch.autograd.grad(first[inside].sum(), x)
    want = [(2 * p - 1) / (p * (1 - p)) ** 2 for p in values[inside]]
    torch.testing.assert_close(second[inside], torch.tensor(want, dtype=torch.float64))


def test_logit_refuses_an_eps_that_leaves_nothing():
    if IS_TORCH:
        pytest.skip("PyTorch takes it")
    with pytest.raises(RuntimeError, match=r"at most 0\.5"):
        torch.logit(torch.tensor([0.3]), eps=0.7)


def test_in_place_refuses_integers():
    for method in ("logit_", "i0_", "mvlgamma_"):
        arguments = (2,) if method == "mvlgamma_" else ()
        with pytest.raises(RuntimeError, match=r"cast|dtype|float"):
            getattr(torch.tensor([3]), method)(*arguments)
