"""Von Mises distributions of angles."""

import math
from typing import Any, ClassVar

import tapegrad as torch
from tapegrad import Size, Tensor
from tapegrad.distributions import constraints
from tapegrad.distributions.distribution import Distribution
from tapegrad.distributions.utils import broadcast_all, lazy_property

__all__ = ["VonMises"]


def _log_i0(x: Tensor) -> Tensor:
    """The logarithm of the modified Bessel function of order 0."""
    return torch.special.i0e(x).log() + x


class VonMises(Distribution):
    """The von Mises distribution of angles: a normal distribution round the circle.

    Samples lie between ``-pi`` and ``pi``; the density takes any number for an angle.

    Args:
        loc: an angle in radians.
        concentration: how narrow the distribution is.
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real,
        "concentration": constraints.positive,
    }
    support: Any = constraints.real
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, Size(()), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        names = ("loc", "concentration")
        return self._expand_parameters(VonMises, batch_shape, _instance, names)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        log_prob = self.concentration * torch.cos(value - self.loc)
        return log_prob - math.log(2 * math.pi) - _log_i0(self.concentration)

    @lazy_property
    def _proposal_r(self) -> Tensor:
        """The parameter of the wrapped Cauchy distribution under which samples are proposed."""
        kappa = self.concentration.double()
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        r = (1 + rho**2) / (2 * rho)
        # For small concentrations these formulas cancel, and a series does not.
        return torch.where(kappa < 1e-5, 1 / kappa + kappa, r)

    def sample(self, sample_shape: Any = Size(())) -> Tensor:  # noqa: B008
        """Draw samples, by the rejection method of Best and Fisher (1979)."""
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            kappa = self.concentration.double().expand(shape).reshape(-1)
            r = self._proposal_r.expand(shape).reshape(-1)
            angles = torch.zeros_like(kappa)
            waiting = torch.arange(kappa.numel(), device=kappa.device)
            while waiting.numel():
                found, accepted = _propose_angles(kappa[waiting], r[waiting])
                angles[waiting] = found
                waiting = waiting[~accepted]
            loc = self.loc.double().expand(shape)
            angles = torch.remainder(angles.reshape(shape) + math.pi + loc, 2 * math.pi) - math.pi
            return angles.to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        """The circular mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:  # type: ignore[override]
        """The circular variance."""
        kappa = self.concentration
        return 1 - torch.special.i1e(kappa) / torch.special.i0e(kappa)


def _propose_angles(kappa: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    u1, u2, u3 = torch.rand((3, *kappa.shape), dtype=kappa.dtype, device=kappa.device)
    z = torch.cos(math.pi * u1)
    f = (1 + r * z) / (r + z)
    c = kappa * (r - f)
    accepted = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
    # Not a number is a parameter's fault and would never be accepted.
    return (u3 - 0.5).sign() * torch.acos(f.clamp(min=-1, max=1)), accepted | (c != c)
