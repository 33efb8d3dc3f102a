"""Adamax: Adam with the largest recent gradient in the denominator."""

from typing import Any

import tapegrad
from tapegrad import Tensor
from tapegrad.optim._arguments import check_betas, check_common
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

__all__ = ["Adamax", "adamax"]


class Adamax(GroupwiseOptimizer):
    """Adam in the infinity norm: ``p -= lr * m / u``.

    ``m`` is the running average of the gradient; ``u`` is ``max(beta2 * u, |g| + eps)``.

    Args:
        params: tensors, named tensors or parameter groups.
        lr: learning rate.
        betas: how much of ``m`` and ``u`` each step keeps.
        eps: keeps the denominator from zero.
        weight_decay: this times the parameter is added to its gradient.
        foreach: accepted for PyTorch's sake.
        maximize: ascend instead.
        differentiable: not supported.
        capturable: for graph capture on a GPU; refused by ``step`` on the CPU.

    Example:
        >>> x = torch.tensor([3.0, 4.0], requires_grad=True)
        >>> optimizer = torch.optim.Adamax([x], lr=0.5)
        >>> (x**2).sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([2.5000, 3.5000], requires_grad=True)
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_common("Adamax", lr, eps, weight_decay)
        check_betas("Adamax", betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _native(self, group: Group) -> str | None:
        return "adamax_step"

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        return {
            "step": scalar(0.0, group, param),
            "exp_avg": tapegrad.zeros_like(param),
            "exp_inf": tapegrad.zeros_like(param),
        }

    def _update(
        self, group: Group, params: list[Tensor], grads: list[Tensor], states: list[Any]
    ) -> None:
        beta1, beta2 = group["betas"]
        adamax(
            params,
            grads,
            listed(states, "exp_avg"),
            listed(states, "exp_inf"),
            listed(states, "step"),
            beta1=beta1,
            beta2=beta2,
            lr=number(group["lr"]),
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )


def adamax(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_infs: list[Tensor],
    steps: list[Tensor],
    *,
    beta1: float,
    beta2: float,
    lr: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """Update parameters by `Adamax`."""
    grads = signed(grads, maximize)
    for i, (p, g, t) in enumerate(zip(params, grads, count_step(steps), strict=True)):
        m, u = exp_avgs[i], exp_infs[i]
        if weight_decay != 0:
            g = g.add(p, alpha=weight_decay)
        m.lerp_(g, 1 - beta1)
        u.copy_(tapegrad.maximum(u.mul_(beta2), g.abs().add_(eps)))
        p.addcdiv_(m, u, value=-lr / (1 - beta1**t))
