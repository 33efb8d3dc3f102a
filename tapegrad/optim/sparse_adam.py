"""SparseAdam, which is refused."""

from typing import Any, NoReturn

from tapegrad.optim.optimizer import Optimizer, Params

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Not supported: gradients are never sparse here.

    Args:
        params: not used.
        args, kwargs: not used.

    Example:
        >>> torch.optim.SparseAdam([torch.zeros(1, requires_grad=True)])
        Traceback (most recent call last):
        NotImplementedError: SparseAdam: there are no sparse gradients; use torch.optim.Adam
    """

    def __init__(self, params: Params, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError("SparseAdam: there are no sparse gradients; use torch.optim.Adam")
