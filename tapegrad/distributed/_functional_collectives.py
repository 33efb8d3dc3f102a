"""Collectives that return a new tensor: those of PyTorch's that programs call by themselves."""

from typing import Any

from tapegrad._C import Tensor, empty
from tapegrad.distributed.nn.functional import all_to_all_single as _all_to_all_single

__all__ = ["all_to_all_single", "all_to_all_single_autograd", "wait_tensor"]


def wait_tensor(tensor: Tensor) -> Tensor:
    """Return the tensor: it is there when the call that communicates returns."""
    return tensor


def all_to_all_single(
    self: Tensor,
    output_split_sizes: list[int] | None,
    input_split_sizes: list[int] | None,
    group: Any,
    tag: str = "",
) -> Tensor:
    """Return what every process of a group sent to this one, row after row; differentiable.

    Args:
        self: what is sent.
        output_split_sizes: how many rows come from each process; equally many if None.
        input_split_sizes: how many rows each process is sent; equally many if None.
        group: the processes.
        tag: not used.
    """
    rows = self.shape[0] if output_split_sizes is None else sum(output_split_sizes)
    out = empty((rows, *self.shape[1:]), dtype=self.dtype, device=self.device)
    return _all_to_all_single(out, self, output_split_sizes, input_split_sizes, group)


all_to_all_single_autograd = all_to_all_single
