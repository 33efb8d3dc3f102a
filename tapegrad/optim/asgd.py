"""Averaged stochastic gradient descent."""

from typing import Any

import tapegrad
from tapegrad import Tensor
from tapegrad.optim._arguments import check_common
from tapegrad.optim.optimizer import (
    Group,
    GroupwiseOptimizer,
    Params,
    count_step,
    listed,
    number,
    scalar,
    signed,
)

__all__ = ["ASGD", "asgd"]


class ASGD(GroupwiseOptimizer):
    """Gradient descent with a decaying rate, which also keeps the average of the parameters.

    The average is in ``optimizer.state[p]["ax"]``; it starts after ``t0`` steps.

    Args:
        params: tensors, named tensors or parameter groups.
        lr: learning rate of the first step.
        lambd: parameters shrink by this times the rate.
        alpha: the rate at step ``t`` is ``lr / (1 + lambd * lr * t) ** alpha``.
        t0: the step at which averaging starts.
        weight_decay: this times the parameter is added to its gradient.
        foreach: accepted for PyTorch's sake.
        maximize: ascend instead.
        differentiable: not supported.
        capturable: for graph capture on a GPU; refused by ``step`` on the CPU.

    Example:
        >>> x = torch.tensor([3.0, 4.0], requires_grad=True)
        >>> optimizer = torch.optim.ASGD([x], lr=0.1)
        >>> (x**2).sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([2.4000, 3.2000], requires_grad=True)
    """

    _scalar_state = ("step", "eta", "mu")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_common("ASGD", lr, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _native(self, group: Group) -> str | None:
        return "asgd_step"

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        return {
            "step": scalar(0.0, group, param),
            "eta": scalar(number(group["lr"]), group, param),
            "mu": scalar(1.0, group, param),
            "ax": tapegrad.zeros_like(param),
        }

    def _update(
        self, group: Group, params: list[Tensor], grads: list[Tensor], states: list[Any]
    ) -> None:
        asgd(
            params,
            grads,
            listed(states, "ax"),
            listed(states, "mu"),
            listed(states, "eta"),
            listed(states, "step"),
            lr=number(group["lr"]),
            lambd=group["lambd"],
            alpha=group["alpha"],
            t0=group["t0"],
            weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )


def asgd(
    params: list[Tensor],
    grads: list[Tensor],
    axs: list[Tensor],
    mus: list[Tensor],
    etas: list[Tensor],
    steps: list[Tensor],
    *,
    lr: float,
    lambd: float,
    alpha: float,
    t0: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """Update parameters and their averages by `ASGD`."""
    grads = signed(grads, maximize)
    for i, (p, g, t) in enumerate(zip(params, grads, count_step(steps), strict=True)):
        average, mu, eta = axs[i], mus[i], etas[i]
        if weight_decay != 0:
            g = g.add(p, alpha=weight_decay)
        rate, share = eta.item(), mu.item()
        p.mul_(1 - lambd * rate).add_(g, alpha=-rate)
        if share == 1:
            average.copy_(p)
        else:
            average.add_(p.sub(average), alpha=share)
        eta.fill_(lr / (1 + lambd * lr * t) ** alpha)
        mu.fill_(1 / max(1, t - t0))
