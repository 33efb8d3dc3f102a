"""RMSprop: steps scaled by the root of a running average of squares."""

from typing import Any

import tapegrad
from tapegrad import Tensor
from tapegrad.optim._arguments import check_common, check_not_negative
from tapegrad.optim.optimizer import (
    Group,
    GroupwiseOptimizer,
    Params,
    listed,
    number,
    scalar,
    signed,
)

__all__ = ["RMSprop", "rmsprop"]


class RMSprop(GroupwiseOptimizer):
    """RMSprop: ``p -= lr * g / (sqrt(v) + eps)``, where ``v`` is the running average of ``g * g``.

    Args:
        params: tensors, named tensors or parameter groups.
        lr: learning rate.
        alpha: how much of the average each step keeps.
        eps: keeps the denominator from zero.
        weight_decay: this times the parameter is added to its gradient.
        momentum: how much of the last step each step keeps.
        centered: divide by the root of the variance instead: the square of the running average of
            the gradient is taken off ``v``.
        capturable: for graph capture on a GPU; refused by ``step`` on the CPU.
        foreach: accepted for PyTorch's sake.
        maximize: ascend instead.
        differentiable: not supported.

    Example:
        >>> x = torch.tensor([3.0, 4.0], requires_grad=True)
        >>> optimizer = torch.optim.RMSprop([x], lr=0.01)
        >>> (x**2).sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([2.9000, 3.9000], requires_grad=True)
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_common("RMSprop", lr, eps, weight_decay)
        check_not_negative("RMSprop", "momentum value", momentum)
        check_not_negative("RMSprop", "alpha value", alpha)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _native(self, group: Group) -> str | None:
        kind = "_centered" if group["centered"] else ""
        return f"rmsprop{kind}_momentum_step" if group["momentum"] > 0 else f"rmsprop{kind}_step"

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        state = {"step": scalar(0.0, group, param), "square_avg": tapegrad.zeros_like(param)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = tapegrad.zeros_like(param)
        if group["centered"]:
            state["grad_avg"] = tapegrad.zeros_like(param)
        return state

    def _update(
        self, group: Group, params: list[Tensor], grads: list[Tensor], states: list[Any]
    ) -> None:
        rmsprop(
            params,
            grads,
            listed(states, "square_avg"),
            listed(states, "grad_avg") if group["centered"] else [],
            listed(states, "momentum_buffer") if group["momentum"] > 0 else [],
            listed(states, "step"),
            lr=number(group["lr"]),
            alpha=group["alpha"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            momentum=group["momentum"],
            centered=group["centered"],
            maximize=group["maximize"],
        )


def rmsprop(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    grad_avgs: list[Tensor],
    momentum_buffers: list[Tensor],
    steps: list[Tensor],
    *,
    lr: float,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
    maximize: bool,
) -> None:
    """Update parameters by `RMSprop`."""
    grads = signed(grads, maximize)
    for i, (p, g, v, step) in enumerate(zip(params, grads, square_avgs, steps, strict=True)):
        step += 1
        if weight_decay != 0:
            g = g.add(p, alpha=weight_decay)
        v.mul_(alpha).addcmul_(g, g, value=1 - alpha)
        if centered:
            mean = grad_avgs[i].lerp_(g, 1 - alpha)
            root = v.addcmul(mean, mean, value=-1).sqrt_().add_(eps)
        else:
            root = v.sqrt().add_(eps)
        if momentum > 0:
            velocity = momentum_buffers[i].mul_(momentum).addcdiv_(g, root)
            p.add_(velocity, alpha=-lr)
        else:
            p.addcdiv_(g, root, value=-lr)
