"""Adadelta: steps in the parameters' own units."""

from typing import Any

import tapegrad
from tapegrad import Tensor
from tapegrad.optim._arguments import check_common
from tapegrad.optim.optimizer import (
    Group,
    GroupwiseOptimizer,
    Params,
    listed,
    number,
    scalar,
    signed,
)

__all__ = ["Adadelta", "adadelta"]


class Adadelta(GroupwiseOptimizer):
    """Adadelta: ``p -= lr * g * sqrt(d + eps) / sqrt(v + eps)``.

    ``v`` is the running average of ``g * g``, ``d`` that of the squared steps.

    Args:
        params: tensors, named tensors or parameter groups.
        lr: scales the steps.
        rho: how much of the averages each step keeps.
        eps: keeps the first steps from zero.
        weight_decay: this times the parameter is added to its gradient.
        foreach: accepted for PyTorch's sake.
        capturable: for graph capture on a GPU; refused by ``step`` on the CPU.
        maximize: ascend instead.
        differentiable: not supported.

    Example:
        >>> x = torch.tensor([3.0, 4.0], requires_grad=True)
        >>> optimizer = torch.optim.Adadelta([x], eps=1e-4)
        >>> (x**2).sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([2.9684, 3.9684], requires_grad=True)
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_common("Adadelta", lr, eps, weight_decay)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Adadelta: Invalid rho value: {rho}; expected at least 0, at most 1")
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _native(self, group: Group) -> str | None:
        return "adadelta_step"

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        return {
            "step": scalar(0.0, group, param),
            "square_avg": tapegrad.zeros_like(param),
            "acc_delta": tapegrad.zeros_like(param),
        }

    def _update(
        self, group: Group, params: list[Tensor], grads: list[Tensor], states: list[Any]
    ) -> None:
        adadelta(
            params,
            grads,
            listed(states, "square_avg"),
            listed(states, "acc_delta"),
            listed(states, "step"),
            lr=number(group["lr"]),
            rho=group["rho"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )


def adadelta(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    acc_deltas: list[Tensor],
    steps: list[Tensor],
    *,
    lr: float,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """Update parameters by `Adadelta`."""
    grads = signed(grads, maximize)
    rows = zip(params, grads, square_avgs, acc_deltas, steps, strict=True)
    for p, g, v, d, step in rows:
        step += 1
        if weight_decay != 0:
            g = g.add(p, alpha=weight_decay)
        v.mul_(rho).addcmul_(g, g, value=1 - rho)
        delta = d.add(eps).sqrt_().div_(v.add(eps).sqrt_()).mul_(g)
        d.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        p.add_(delta, alpha=-lr)
