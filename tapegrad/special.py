"""Special functions, under the names of ``torch.special``.

Elementwise functions of mathematical physics and statistics, computed in float32 and float64
(16-bit floats in float32); integers are promoted to the default dtype. All are differentiable,
those too that PyTorch gives no derivative: only the degree of a polynomial and the first operand
of `gammainc`, `gammaincc` and `zeta` refuse one.

    >>> torch.special.erfcx(torch.tensor([0.0, 1.0, 100.0]))
    tensor([1.0000, 0.4276, 0.0056])
"""

from typing import TYPE_CHECKING, Any

from tapegrad import _C
from tapegrad._C import (
    Tensor,
    digamma,
    erf,
    erfc,
    erfinv,
    exp2,
    expm1,
    i0,
    log1p,
    log_softmax,
    logit,
    logsumexp,
    polygamma,
    round,
    sinc,
    softmax,
    xlogy,
)
from tapegrad._C import _special_airy_ai as airy_ai
from tapegrad._C import _special_bessel_j0 as bessel_j0
from tapegrad._C import _special_bessel_j1 as bessel_j1
from tapegrad._C import _special_bessel_y0 as bessel_y0
from tapegrad._C import _special_bessel_y1 as bessel_y1
from tapegrad._C import _special_chebyshev_polynomial_t as chebyshev_polynomial_t
from tapegrad._C import _special_chebyshev_polynomial_u as chebyshev_polynomial_u
from tapegrad._C import _special_chebyshev_polynomial_v as chebyshev_polynomial_v
from tapegrad._C import _special_chebyshev_polynomial_w as chebyshev_polynomial_w
from tapegrad._C import _special_entr as entr
from tapegrad._C import _special_erfcx as erfcx
from tapegrad._C import _special_hermite_polynomial_h as hermite_polynomial_h
from tapegrad._C import _special_hermite_polynomial_he as hermite_polynomial_he
from tapegrad._C import _special_i0e as i0e
from tapegrad._C import _special_i1 as i1
from tapegrad._C import _special_i1e as i1e
from tapegrad._C import _special_laguerre_polynomial_l as laguerre_polynomial_l
from tapegrad._C import _special_legendre_polynomial_p as legendre_polynomial_p
from tapegrad._C import _special_log_ndtr as log_ndtr
from tapegrad._C import _special_modified_bessel_k0 as modified_bessel_k0
from tapegrad._C import _special_modified_bessel_k1 as modified_bessel_k1
from tapegrad._C import _special_ndtr as ndtr
from tapegrad._C import _special_ndtri as ndtri
from tapegrad._C import _special_scaled_modified_bessel_k0 as scaled_modified_bessel_k0
from tapegrad._C import _special_scaled_modified_bessel_k1 as scaled_modified_bessel_k1
from tapegrad._C import _special_spherical_bessel_j0 as spherical_bessel_j0
from tapegrad._C import _special_xlog1py as xlog1py
from tapegrad._C import _special_zeta as zeta
from tapegrad._composed.arguments import expect_tensor
from tapegrad._missing import names_of_torch as _names_of_torch

__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]

expit = _C.sigmoid
gammainc = _C.igamma
gammaincc = _C.igammac
gammaln = _C.lgamma
multigammaln = _C.mvlgamma
psi = _C.digamma
modified_bessel_i0 = _C.i0
modified_bessel_i1 = i1


def _shifted(op: str, polynomial: Any, input: Any, n: Any, out: Tensor | None) -> Tensor:
    """Return a Chebyshev polynomial of 2 x - 1; one of the operands may be a number."""
    if not isinstance(input, Tensor):
        expect_tensor(op, "n", n)
    elif not input.is_floating_point():
        common = _C.result_type(input, n)
        input = input.to(common if common.is_floating_point else _C.get_default_dtype())
    result: Tensor = polynomial(2 * input - 1, n, out=out)
    return result


def shifted_chebyshev_polynomial_t(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomial of the first kind of ``2 * input - 1``.

    Args:
        input: a tensor or number; the polynomials are orthogonal on [0, 1].
        n: the degree, a tensor or number; the polynomial of a negative degree is zero.
        out: where the result is written.

    Returns:
        The values, broadcast together.

    Example:
        >>> torch.special.shifted_chebyshev_polynomial_t(torch.tensor([0.0, 0.25, 1.0]), 3)
        tensor([-1.,  1.,  1.])
    """
    return _shifted("shifted_chebyshev_polynomial_t", chebyshev_polynomial_t, input, n, out)


def shifted_chebyshev_polynomial_u(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomial of the second kind of ``2 * input - 1``.

    Args:
        input: a tensor or number; the polynomials are orthogonal on [0, 1].
        n: the degree, a tensor or number; the polynomial of a negative degree is zero.
        out: where the result is written.

    Returns:
        The values, broadcast together.

    Example:
        >>> torch.special.shifted_chebyshev_polynomial_u(torch.tensor([0.0, 0.25, 1.0]), 3)
        tensor([-4.,  1.,  4.])
    """
    return _shifted("shifted_chebyshev_polynomial_u", chebyshev_polynomial_u, input, n, out)


def shifted_chebyshev_polynomial_v(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomial of the third kind of ``2 * input - 1``.

    Args:
        input: a tensor or number; the polynomials are orthogonal on [0, 1].
        n: the degree, a tensor or number; the polynomial of a negative degree is zero.
        out: where the result is written.

    Returns:
        The values, broadcast together.

    Example:
        >>> torch.special.shifted_chebyshev_polynomial_v(torch.tensor([0.0, 0.25, 1.0]), 3)
        tensor([-7.,  1.,  1.])
    """
    return _shifted("shifted_chebyshev_polynomial_v", chebyshev_polynomial_v, input, n, out)


def shifted_chebyshev_polynomial_w(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomial of the fourth kind of ``2 * input - 1``.

    Args:
        input: a tensor or number; the polynomials are orthogonal on [0, 1].
        n: the degree, a tensor or number; the polynomial of a negative degree is zero.
        out: where the result is written.

    Returns:
        The values, broadcast together.

    Example:
        >>> torch.special.shifted_chebyshev_polynomial_w(torch.tensor([0.0, 0.25, 1.0]), 3)
        tensor([-1.,  1.,  7.])
    """
    return _shifted("shifted_chebyshev_polynomial_w", chebyshev_polynomial_w, input, n, out)


if not TYPE_CHECKING:
    __getattr__ = _names_of_torch(__name__)
