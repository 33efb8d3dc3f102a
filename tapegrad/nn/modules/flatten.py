"""Modules that change the shape alone."""

from collections.abc import Sequence
from typing import Any

from tapegrad._C import Tensor
from tapegrad.nn.modules.module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Joins the dimensions from start_dim to end_dim to one.

    Args:
        start_dim: the first dimension to join.
        end_dim: the last dimension to join.

    Example:
        >>> torch.nn.Flatten()(torch.ones(2, 3, 4)).shape
        torch.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with fewer dimensions."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits one dimension into several.

    Args:
        dim: the dimension to split.
        unflattened_size: the sizes that take its place.

    Example:
        >>> torch.nn.Unflatten(1, (3, 4))(torch.ones(2, 12)).shape
        torch.Size([2, 3, 4])
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(
                f"Unflatten: expected dim to be an int, got {type(dim).__name__}; named "
                "dimensions are not supported"
            )
        self._expect_ints(unflattened_size)
        self.dim = dim
        self.unflattened_size = unflattened_size

    @staticmethod
    def _expect_ints(sizes: Any) -> None:
        if not isinstance(sizes, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(sizes).__name__}"
            )
        for place, size in enumerate(sizes):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(size).__name__} at pos {place}"
                )

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with more dimensions."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
