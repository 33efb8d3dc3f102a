"""RAdam: Adam that waits with its denominator until that is known well enough."""

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

__all__ = ["RAdam", "radam"]


class RAdam(GroupwiseOptimizer):
    """Adam with its denominator rectified for the variance that it has in early steps.

    As long as the average of squares rests on too few gradients, steps follow the average gradient
    alone; then the scaled step comes in by a factor that grows to 1.

    Args:
        params: tensors, named tensors or parameter groups.
        lr: learning rate.
        betas: how much of the averages of the gradient and its square each step keeps.
        eps: keeps the denominator from zero.
        weight_decay: this times the parameter is added to its gradient.
        decoupled_weight_decay: shrink the parameters by ``lr * weight_decay`` instead.
        foreach: accepted for PyTorch's sake.
        maximize: ascend instead.
        capturable: for graph capture on a GPU; refused by ``step`` on the CPU.
        differentiable: not supported.

    Example:
        >>> x = torch.tensor([3.0, 4.0], requires_grad=True)
        >>> optimizer = torch.optim.RAdam([x], lr=0.1)
        >>> (x**2).sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([2.4000, 3.2000], requires_grad=True)
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_common("RAdam", lr, eps, weight_decay)
        check_betas("RAdam", betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _native(self, group: Group) -> str | None:
        return "radam_step"

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        return {
            "step": scalar(0.0, group, param),
            "exp_avg": tapegrad.zeros_like(param),
            "exp_avg_sq": tapegrad.zeros_like(param),
        }

    def _update(
        self, group: Group, params: list[Tensor], grads: list[Tensor], states: list[Any]
    ) -> None:
        beta1, beta2 = group["betas"]
        radam(
            params,
            grads,
            listed(states, "exp_avg"),
            listed(states, "exp_avg_sq"),
            listed(states, "step"),
            beta1=beta1,
            beta2=beta2,
            lr=number(group["lr"]),
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            decoupled_weight_decay=group["decoupled_weight_decay"],
            maximize=group["maximize"],
        )


def _rectification(beta2: float, t: float) -> float | None:
    """Return the factor of the scaled step, or None while the average square is not trusted."""
    longest = 2 / (1 - beta2) - 1
    length = longest - 2 * t * beta2**t / (1 - beta2**t)
    if length <= 5.0:
        return None
    now = (length - 4) * (length - 2) / length
    finally_ = (longest - 4) * (longest - 2) / longest
    return (now / finally_) ** 0.5


def radam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    steps: list[Tensor],
    *,
    beta1: float,
    beta2: float,
    lr: float,
    eps: float,
    weight_decay: float,
    decoupled_weight_decay: bool,
    maximize: bool,
) -> None:
    """Update parameters by `RAdam`."""
    grads = signed(grads, maximize)
    for i, (p, g, t) in enumerate(zip(params, grads, count_step(steps), strict=True)):
        m, v = exp_avgs[i], exp_avg_sqs[i]
        if weight_decay != 0:
            if decoupled_weight_decay:
                p.mul_(1 - lr * weight_decay)
            else:
                g = g.add(p, alpha=weight_decay)
        m.lerp_(g, 1 - beta1)
        v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        step_size = lr / (1 - beta1**t)
        rectified = _rectification(beta2, t)
        if rectified is None:
            p.add_(m, alpha=-step_size)
        else:
            scale = rectified * (1 - beta2**t) ** 0.5
            p.addcdiv_(m, v.sqrt().add_(eps), value=-step_size * scale)
