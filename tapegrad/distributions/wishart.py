"""Wishart distributions of positive definite matrices."""

import math
import warnings
from numbers import Number
from typing import Any

import tapegrad as torch
from tapegrad import Size, Tensor
from tapegrad.distributions import constraints
from tapegrad.distributions.chi2 import Chi2
from tapegrad.distributions.exp_family import ExponentialFamily
from tapegrad.distributions.multivariate_normal import _half_log_det, _precision_to_scale_tril
from tapegrad.distributions.utils import _multigammaln, lazy_property

__all__ = ["Wishart"]


def _multidigamma(x: Tensor, p: int) -> Tensor:
    """The derivative of the logarithm of the multivariate gamma function of dimension `p`."""
    steps = 0.5 * torch.arange(p, dtype=x.dtype, device=x.device)
    return torch.digamma(x.unsqueeze(-1) - steps).sum(-1)


class Wishart(ExponentialFamily):
    """The Wishart distribution: of sums of `df` squared normal vectors.

    Args:
        df: the degrees of freedom, above the dimension less one.
        covariance_matrix: the covariance of the vectors.
        precision_matrix: its inverse.
        scale_tril: its lower triangular factor, with a positive diagonal.
    """

    support: Any = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        assert sum(each is not None for each in given.values()) == 1, (
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
        [(name, param)] = [(k, each) for k, each in given.items() if each is not None]
        if param.dim() < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if isinstance(df, Number):
            batch_shape = Size(param.shape[:-2])
            self.df = torch.tensor(df, dtype=param.dtype, device=param.device)
        else:
            batch_shape = torch.broadcast_shapes(param.shape[:-2], df.shape)
            self.df = df.expand(batch_shape)
        event_shape = param.shape[-2:]
        if self.df.le(event_shape[-1] - 1).any():
            raise ValueError(
                f"Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}."
            )
        setattr(self, name, param.expand((*batch_shape, -1, -1)))
        if self.df.lt(event_shape[-1]).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for "
                "ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._batch_dims = [-(i + 1) for i in range(len(self._batch_shape))]
        if scale_tril is not None:
            self._unbroadcasted_scale_tril = scale_tril
        elif covariance_matrix is not None:
            self._unbroadcasted_scale_tril = torch.linalg.cholesky(covariance_matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(param)
        steps = torch.arange(event_shape[-1], dtype=param.dtype, device=param.device)
        df_of_rows = self.df.expand(batch_shape).unsqueeze(-1) - steps
        self._dist_chi2 = Chi2(df=df_of_rows)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Wishart, _instance)
        batch_shape = Size(batch_shape)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        new.df = self.df.expand(batch_shape)
        new._batch_dims = [-(i + 1) for i in range(len(batch_shape))]
        for name in ("covariance_matrix", "scale_tril", "precision_matrix"):
            if name in self.__dict__:
                setattr(new, name, self.__dict__[name].expand(batch_shape + self.event_shape))
        new._dist_chi2 = self._dist_chi2.expand(batch_shape + self.event_shape[-1:])
        super(Wishart, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @lazy_property
    def scale_tril(self) -> Tensor:  # type: ignore[override]
        """The Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:  # type: ignore[override]
        """The covariance of the vectors."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:  # type: ignore[override]
        """The inverse of the covariance."""
        inverse = torch.cholesky_inverse(self._unbroadcasted_scale_tril)
        return inverse.expand(self._batch_shape + self._event_shape)

    def _df_of_matrices(self) -> Tensor:
        return self.df.unsqueeze(-1).unsqueeze(-1)

    @property
    def mean(self) -> Tensor:
        return self._df_of_matrices() * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self._df_of_matrices() - self.covariance_matrix.shape[-1] - 1
        return torch.where(factor <= 0, math.nan, factor) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        products = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._df_of_matrices() * (covariance.pow(2) + products)

    def _bartlett_sampling(self, sample_shape: Any = Size(())) -> Tensor:  # noqa: B008
        """Bartlett's decomposition: ``L A A^T L^T``, with a triangular ``A``."""
        diagonal = self._dist_chi2.rsample(sample_shape).clamp(min=_smallest(self.df)).sqrt()
        shape = self._extended_shape(sample_shape)
        below = torch.randn(shape, dtype=diagonal.dtype, device=diagonal.device).tril(-1)
        factor = self._unbroadcasted_scale_tril @ (torch.diag_embed(diagonal) + below)
        return factor @ factor.mT

    def rsample(
        self,
        sample_shape: Any = Size(()),  # noqa: B008
        max_try_correction: int | None = None,
    ) -> Tensor:
        """Draw samples; those that are singular are drawn anew, some times.

        Args:
            sample_shape: how many.
            max_try_correction: how often singular samples are replaced, 3 times by default.
        """
        sample = self._bartlett_sampling(sample_shape)
        for _ in range(3 if max_try_correction is None else max_try_correction):
            singular = ~_is_definite(sample)
            if not singular.any():
                return sample
            again = self._bartlett_sampling(sample_shape)
            sample = torch.where(singular[..., None, None], again, sample)
        if not _is_definite(sample).all():
            warnings.warn("Singular sample detected.", stacklevel=2)
        return sample

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        nu = self.df
        p = self._event_shape[-1]
        factor = torch.linalg.cholesky(value)
        tril = self._unbroadcasted_scale_tril
        batch = torch.broadcast_shapes(factor.shape[:-2], tril.shape[:-2])
        # tr(V^-1 X) is the squared norm of L^-1 C, for V = L L^T and X = C C^T.
        solved = torch.linalg.solve_triangular(
            tril.expand((*batch, p, p)), factor.expand((*batch, p, p)), upper=False
        )
        trace = solved.square().sum((-2, -1))
        return (
            -nu * (0.5 * p * math.log(2) + _half_log_det(tril))
            - _multigammaln(nu / 2, p)
            + (nu - p - 1) * _half_log_det(factor)
            - trace / 2
        )

    def entropy(self) -> Tensor:
        nu = self.df
        p = self._event_shape[-1]
        half_log_det = _half_log_det(self._unbroadcasted_scale_tril)
        return (
            (p + 1) * (0.5 * p * math.log(2) + half_log_det)
            + _multigammaln(nu / 2, p)
            - (nu - p - 1) / 2 * _multidigamma(nu / 2, p)
            + nu * p / 2
        )

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        p = self._event_shape[-1]
        return -self.precision_matrix / 2, (self.df - p - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        p = self._event_shape[-1]
        half_df = y + (p + 1) / 2
        log_det = 2 * _half_log_det(torch.linalg.cholesky(-2 * x))
        return half_df * (-log_det + p * math.log(2)) + _multigammaln(half_df, p)


def _smallest(like: Tensor) -> float:
    return torch.finfo(like.dtype).eps


def _is_definite(sample: Tensor) -> Tensor:
    return constraints.positive_definite.check(sample.detach())
