"""Logistic-normal distributions."""

from typing import Any, ClassVar

from tapegrad import Tensor
from tapegrad.distributions import constraints
from tapegrad.distributions.normal import Normal
from tapegrad.distributions.transformed_distribution import TransformedDistribution
from tapegrad.distributions.transforms import StickBreakingTransform

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """A distribution on the simplex: stick breaking of normal variables.

    Args:
        loc: the means of the normal variables.
        scale: their standard deviations.

    Example:
        >>> m = torch.distributions.LogisticNormal(torch.zeros(3), torch.ones(3))
        >>> m.event_shape
        torch.Size([4])
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base_dist: Any = Normal(loc, scale, validate_args=validate_args)
        if not base_dist.batch_shape:
            base_dist = base_dist.expand([1])
        super().__init__(base_dist, StickBreakingTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(LogisticNormal, _instance)
        return super().expand(batch_shape, _instance=new)

    @property
    def loc(self) -> Tensor:
        """The means of the normal variables."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Their standard deviations."""
        return self.base_dist.base_dist.scale
