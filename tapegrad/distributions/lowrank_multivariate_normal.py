"""Multivariate normal distributions whose covariance is a diagonal and a few directions."""

import math
from typing import Any, ClassVar

import tapegrad as torch
from tapegrad import Size, Tensor
from tapegrad.distributions import constraints
from tapegrad.distributions.distribution import Distribution
from tapegrad.distributions.multivariate_normal import _batch_mahalanobis, _batch_mv, _half_log_det
from tapegrad.distributions.utils import _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal"]


def _batch_capacitance_tril(W: Tensor, D: Tensor) -> Tensor:
    """The Cholesky factor of ``I + W^T D^-1 W``."""
    m = W.size(-1)
    capacitance = torch.matmul(W.mT / D.unsqueeze(-2), W)
    return torch.linalg.cholesky(capacitance + torch.eye(m, dtype=W.dtype, device=W.device))


def _batch_lowrank_logdet(W: Tensor, D: Tensor, capacitance_tril: Tensor) -> Tensor:
    """``log det (W W^T + D)``, by the matrix determinant lemma."""
    return 2 * _half_log_det(capacitance_tril) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(
    W: Tensor,
    D: Tensor,
    x: Tensor,
    capacitance_tril: Tensor,
) -> Tensor:
    """``x^T (W W^T + D)^-1 x``, by the Woodbury identity."""
    projected = _batch_mv(W.mT / D.unsqueeze(-2), x)
    return (x.pow(2) / D).sum(-1) - _batch_mahalanobis(capacitance_tril, projected)


class LowRankMultivariateNormal(Distribution):
    """The normal distribution with covariance ``cov_factor @ cov_factor.mT + diag(cov_diag)``.

    Args:
        loc: the mean.
        cov_factor: a few columns.
        cov_diag: the diagonal, which is positive.

    Example:
        >>> d = torch.distributions
        >>> m = d.LowRankMultivariateNormal(torch.zeros(2), torch.ones(2, 1), torch.ones(2))
        >>> m.covariance_matrix
        tensor([[2., 1.],
                [1., 2.]])
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support: Any = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        cov_factor: Tensor,
        cov_diag: Tensor,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(
                f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m"
            )
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            batch_shape = torch.broadcast_shapes(
                loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1]
            )
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, "
                f"cov_diag {cov_diag.shape}"
            ) from error
        self.loc = loc.expand(batch_shape + event_shape)
        self.cov_factor = cov_factor.expand(batch_shape + cov_factor.shape[-2:])
        self.cov_diag = cov_diag.expand(batch_shape + event_shape)
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(LowRankMultivariateNormal, _instance)
        batch_shape = Size(batch_shape)
        new.loc = self.loc.expand(batch_shape + self.event_shape)
        new.cov_diag = self.cov_diag.expand(batch_shape + self.event_shape)
        new.cov_factor = self.cov_factor.expand(batch_shape + self.cov_factor.shape[-2:])
        new._unbroadcasted_cov_factor = self._unbroadcasted_cov_factor
        new._unbroadcasted_cov_diag = self._unbroadcasted_cov_diag
        new._capacitance_tril = self._capacitance_tril
        super(LowRankMultivariateNormal, new).__init__(
            batch_shape, self.event_shape, validate_args=False
        )
        new._validate_args = self._validate_args
        return new

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    def _matrix_shape(self) -> Any:
        return self._batch_shape + self._event_shape + self._event_shape

    @lazy_property
    def variance(self) -> Tensor:  # type: ignore[override]
        variance = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return variance.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:  # type: ignore[override]
        """The Cholesky factor of the covariance."""
        # of D^1/2 (I + D^-1/2 W W^T D^-1/2) D^1/2, whose middle has no eigenvalue below one
        scale = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / scale
        eye = torch.eye(self._event_shape[0], dtype=scale.dtype, device=scale.device)
        factor = scale * torch.linalg.cholesky(torch.matmul(scaled, scaled.mT) + eye)
        return factor.expand(self._matrix_shape())

    @lazy_property
    def covariance_matrix(self) -> Tensor:  # type: ignore[override]
        """The covariance."""
        factor = self._unbroadcasted_cov_factor
        covariance = torch.matmul(factor, factor.mT)
        covariance = covariance + torch.diag_embed(self._unbroadcasted_cov_diag)
        return covariance.expand(self._matrix_shape())

    @lazy_property
    def precision_matrix(self) -> Tensor:  # type: ignore[override]
        """The inverse of the covariance."""
        diag = self._unbroadcasted_cov_diag
        projection = self._unbroadcasted_cov_factor.mT / diag.unsqueeze(-2)
        batch = projection.shape[:-2]
        factor = self._capacitance_tril.expand(batch + self._capacitance_tril.shape[-2:])
        solved = torch.linalg.solve_triangular(factor, projection, upper=False)
        precision = torch.diag_embed(diag.reciprocal()) - torch.matmul(solved.mT, solved)
        return precision.expand(self._matrix_shape())

    def rsample(self, sample_shape: Any = Size(())) -> Tensor:  # noqa: B008
        shape = self._extended_shape(sample_shape)
        narrow = shape[:-1] + self.cov_factor.shape[-1:]
        eps_factor = _standard_normal(narrow, dtype=self.loc.dtype, device=self.loc.device)
        eps_diag = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return (
            self.loc
            + _batch_mv(self._unbroadcasted_cov_factor, eps_factor)
            + self._unbroadcasted_cov_diag.sqrt() * eps_diag
        )

    def _log_det(self) -> Tensor:
        return _batch_lowrank_logdet(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril
        )

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        mahalanobis = _batch_lowrank_mahalanobis(
            self._unbroadcasted_cov_factor,
            self._unbroadcasted_cov_diag,
            value - self.loc,
            self._capacitance_tril,
        )
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + mahalanobis)

    def entropy(self) -> Tensor:
        entropy = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return entropy if len(self._batch_shape) == 0 else entropy.expand(self._batch_shape)
