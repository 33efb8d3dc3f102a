"""Resilient backpropagation: steps by the gradient's sign."""

from typing import Any

import tapegrad
from tapegrad import Tensor
from tapegrad.optim._arguments import check_lr
from tapegrad.optim.optimizer import (
    Group,
    GroupwiseOptimizer,
    Params,
    listed,
    number,
    scalar,
    signed,
)

__all__ = ["Rprop", "rprop"]


class Rprop(GroupwiseOptimizer):
    """Rprop: every element has a step size, which grows while its gradient keeps its sign.

    Where the sign has turned, the size shrinks and the element rests for a step. For gradients of
    the whole data set: those of batches turn their signs too often.

    Args:
        params: tensors, named tensors or parameter groups.
        lr: the first step size.
        etas: the factors by which sizes shrink and grow.
        step_sizes: the smallest and the largest size.
        capturable: for graph capture on a GPU; refused by ``step`` on the CPU.
        foreach: accepted for PyTorch's sake.
        maximize: ascend instead.
        differentiable: not supported.

    Example:
        >>> x = torch.tensor([3.0, 4.0], requires_grad=True)
        >>> optimizer = torch.optim.Rprop([x], lr=0.5)
        >>> (x**2).sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([2.5000, 3.5000], requires_grad=True)
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr("Rprop", lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(
                f"Rprop: Invalid eta values: {etas[0]}, {etas[1]}; expected the first between 0 "
                "and 1, the second above 1"
            )
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _native(self, group: Group) -> str | None:
        return "rprop_step"

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        lr = number(group["lr"])
        lr = complex(lr, lr) if param.is_complex() else lr
        return {
            "step": scalar(0.0, group, param),
            "prev": tapegrad.zeros_like(param),
            "step_size": tapegrad.full_like(param, lr, requires_grad=False),
        }

    def _update(
        self, group: Group, params: list[Tensor], grads: list[Tensor], states: list[Any]
    ) -> None:
        shrink, grow = group["etas"]
        smallest, largest = group["step_sizes"]
        rprop(
            params,
            grads,
            listed(states, "prev"),
            listed(states, "step_size"),
            listed(states, "step"),
            etaminus=shrink,
            etaplus=grow,
            step_size_min=smallest,
            step_size_max=largest,
            maximize=group["maximize"],
        )


def rprop(
    params: list[Tensor],
    grads: list[Tensor],
    prevs: list[Tensor],
    step_sizes: list[Tensor],
    steps: list[Tensor],
    *,
    etaminus: float,
    etaplus: float,
    step_size_min: float,
    step_size_max: float,
    maximize: bool,
) -> None:
    """Update parameters by `Rprop`."""
    grads = signed(grads, maximize)
    rows = zip(params, grads, prevs, step_sizes, steps, strict=True)
    for p, g, previous, size, step in rows:
        step += 1
        agreement = g * previous
        turned = agreement.lt(0)
        size.copy_(tapegrad.where(agreement.gt(0), size * etaplus, size))
        size.copy_(tapegrad.where(turned, size * etaminus, size))
        size.clamp_(step_size_min, step_size_max)
        g = g.masked_fill(turned, 0.0)
        p.addcmul_(g.sign(), size, value=-1)
        previous.copy_(g)
