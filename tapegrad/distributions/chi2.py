"""Chi-squared distributions."""

from typing import Any, ClassVar

from tapegrad import Tensor
from tapegrad.distributions import constraints
from tapegrad.distributions.gamma import Gamma
from tapegrad.distributions.utils import broadcast_all

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The chi-squared distribution: of the sum of `df` squared standard normal variables.

    Args:
        df: the degrees of freedom.
    """

    arg_constraints: ClassVar[Any] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (df,) = broadcast_all(df)
        super().__init__(0.5 * df, df.new_full((), 0.5), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(Chi2, _instance))

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self.concentration * 2
