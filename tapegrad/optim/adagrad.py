"""Adagrad: steps scaled by the root of the sum of all squared gradients."""

from typing import Any

import tapegrad
from tapegrad import Tensor
from tapegrad.optim._arguments import check_common, check_not_negative
from tapegrad.optim.optimizer import (
    Group,
    GroupwiseOptimizer,
    Params,
    count_step,
    listed,
    number,
    scalar,
    signed,
    with_values,
)

__all__ = ["Adagrad", "adagrad"]


class Adagrad(GroupwiseOptimizer):
    """Adagrad: ``p -= lr * g / (sqrt(s) + eps)``, where ``s`` is the sum of all ``g * g``.

    Args:
        params: tensors, named tensors or parameter groups.
        lr: learning rate.
        lr_decay: the rate at step ``t`` is ``lr / (1 + (t - 1) * lr_decay)``.
        weight_decay: this times the parameter is added to its gradient.
        initial_accumulator_value: where the sums start.
        eps: keeps the denominator from zero.
        foreach, fused: accepted for PyTorch's sake; all parameters are updated together anyway.
        maximize: ascend instead.
        differentiable: not supported.

    Example:
        >>> x = torch.tensor([3.0, 4.0], requires_grad=True)
        >>> optimizer = torch.optim.Adagrad([x], lr=0.1)
        >>> (x**2).sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([2.9000, 3.9000], requires_grad=True)
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_common("Adagrad", lr, eps, weight_decay)
        check_not_negative("Adagrad", "lr_decay value", lr_decay)
        check_not_negative("Adagrad", "initial_accumulator_value value", initial_accumulator_value)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param] = self._new_state(group, param)

    _takes_sparse = True

    def _native(self, group: Group) -> str | None:
        return "adagrad_step"

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        start = self.defaults["initial_accumulator_value"]
        start = complex(start, start) if param.is_complex() else start
        return {
            "step": scalar(0.0, group, param),
            "sum": tapegrad.full_like(param, start, requires_grad=False),
        }

    def _update(
        self, group: Group, params: list[Tensor], grads: list[Tensor], states: list[Any]
    ) -> None:
        adagrad(
            params,
            grads,
            listed(states, "sum"),
            listed(states, "step"),
            lr=number(group["lr"]),
            lr_decay=group["lr_decay"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )


def adagrad(
    params: list[Tensor],
    grads: list[Tensor],
    state_sums: list[Tensor],
    steps: list[Tensor],
    *,
    lr: float,
    lr_decay: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """Update parameters by `Adagrad`."""
    grads = signed(grads, maximize)
    for p, g, total, t in zip(params, grads, state_sums, count_step(steps), strict=True):
        if g.is_sparse:
            rate = float(lr / (1 + (t - 1) * lr_decay))
            _sparse_adagrad(p, g, total, rate, eps, weight_decay)
            continue
        if weight_decay != 0:
            g = g.add(p, alpha=weight_decay)
        total.addcmul_(g, g)
        p.addcdiv_(g, total.sqrt().add_(eps), value=-lr / (1 + (t - 1) * lr_decay))


def _sparse_adagrad(
    p: Tensor, grad: Tensor, total: Tensor, rate: float, eps: float, weight_decay: float
) -> None:
    """Update the elements that a sparse gradient has."""
    if weight_decay != 0:
        raise RuntimeError("weight_decay option is not compatible with sparse gradients")
    grad = grad.coalesce()
    values = grad.values()
    total.add_(with_values(grad, values.square()))
    root = total.sparse_mask(grad).values().sqrt().add(eps)
    p.add_(with_values(grad, values / root), alpha=-rate)
