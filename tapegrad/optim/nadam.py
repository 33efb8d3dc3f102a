"""NAdam: Adam with Nesterov's look ahead."""

from typing import Any

import tapegrad
from tapegrad import Tensor
from tapegrad.optim._arguments import check_betas, check_common, check_not_negative
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

__all__ = ["NAdam", "nadam"]


class NAdam(GroupwiseOptimizer):
    """Adam whose momentum looks a step ahead, and grows with the steps.

    At step ``t`` the momentum is ``mu(t) = beta1 * (1 - 0.96 ** (t * momentum_decay) / 2)``; the
    present gradient counts with ``1 - mu(t)``, the running average with ``mu(t + 1)``.

    Args:
        params: tensors, named tensors or parameter groups.
        lr: learning rate.
        betas: how much of the averages of the gradient and its square each step keeps.
        eps: keeps the denominator from zero.
        weight_decay: this times the parameter is added to its gradient.
        momentum_decay: how fast the momentum grows to ``beta1``.
        decoupled_weight_decay: shrink the parameters by ``lr * weight_decay`` instead.
        foreach: accepted for PyTorch's sake.
        maximize: ascend instead.
        capturable: for graph capture on a GPU; refused by ``step`` on the CPU.
        differentiable: not supported.

    Example:
        >>> x = torch.tensor([3.0, 4.0], requires_grad=True)
        >>> optimizer = torch.optim.NAdam([x], lr=0.1)
        >>> for _ in range(100):
        ...     optimizer.zero_grad()
        ...     (x**2).sum().backward()
        ...     optimizer.step()
        >>> bool((x.abs() < 0.1).all())
        True
    """

    _scalar_state = ("step", "mu_product")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_common("NAdam", lr, eps, weight_decay)
        check_betas("NAdam", betas)
        check_not_negative("NAdam", "momentum_decay value", momentum_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _native(self, group: Group) -> str | None:
        return "nadam_step"

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        return {
            "step": scalar(0.0, group, param),
            "mu_product": scalar(1.0, group, param),
            "exp_avg": tapegrad.zeros_like(param),
            "exp_avg_sq": tapegrad.zeros_like(param),
        }

    def _update(
        self, group: Group, params: list[Tensor], grads: list[Tensor], states: list[Any]
    ) -> None:
        beta1, beta2 = group["betas"]
        nadam(
            params,
            grads,
            listed(states, "exp_avg"),
            listed(states, "exp_avg_sq"),
            listed(states, "mu_product"),
            listed(states, "step"),
            beta1=beta1,
            beta2=beta2,
            lr=number(group["lr"]),
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            momentum_decay=group["momentum_decay"],
            decoupled_weight_decay=group["decoupled_weight_decay"],
            maximize=group["maximize"],
        )


def nadam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    mu_products: list[Tensor],
    steps: list[Tensor],
    *,
    beta1: float,
    beta2: float,
    lr: float,
    eps: float,
    weight_decay: float,
    momentum_decay: float,
    decoupled_weight_decay: bool,
    maximize: bool,
) -> None:
    """Update parameters by `NAdam`."""

    def momentum(t: float) -> float:
        return beta1 * (1.0 - 0.5 * 0.96 ** (t * momentum_decay))

    grads = signed(grads, maximize)
    for i, (p, g, t) in enumerate(zip(params, grads, count_step(steps), strict=True)):
        m, v = exp_avgs[i], exp_avg_sqs[i]
        if weight_decay != 0:
            if decoupled_weight_decay:
                p.mul_(1 - lr * weight_decay)
            else:
                g = g.add(p, alpha=weight_decay)
        mu, mu_next = momentum(t), momentum(t + 1)
        product = mu_products[i].mul_(mu).item()
        m.lerp_(g, 1 - beta1)
        v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        root = v.div(1 - beta2**t).sqrt_().add_(eps)
        p.addcdiv_(g, root, value=-lr * (1 - mu) / (1 - product))
        p.addcdiv_(m, root, value=-lr * mu_next / (1 - product * mu_next))
