"""Adam and AdamW: steps scaled by running averages of the gradient and of its square."""

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

__all__ = ["Adam", "AdamW", "adam"]


class Adam(GroupwiseOptimizer):
    """Adam: ``p -= lr * m / (sqrt(v) + eps)``, with both averages corrected for their start at 0.

    ``m`` is the running average of the gradient, ``v`` of its square.

    Args:
        params: tensors, named tensors or parameter groups.
        lr: learning rate.
        betas: how much of ``m`` and ``v`` each step keeps.
        eps: keeps the denominator from zero.
        weight_decay: this times the parameter is added to its gradient.
        amsgrad: divide by the largest ``v`` so far.
        foreach, fused: accepted for PyTorch's sake; all parameters are updated together anyway.
        maximize: ascend instead.
        capturable: for graph capture on a GPU; refused by ``step`` on the CPU.
        differentiable: not supported.
        decoupled_weight_decay: shrink the parameters by ``lr * weight_decay`` instead, as `AdamW`.

    Example:
        >>> x = torch.tensor([3.0, 4.0], requires_grad=True)
        >>> optimizer = torch.optim.Adam([x], lr=0.1)
        >>> (x**2).sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([2.9000, 3.9000], requires_grad=True)
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        name = type(self).__name__
        check_common(name, lr, eps, weight_decay)
        check_betas(name, betas)
        _check_tensor_options(name, lr, betas, bool(foreach) and not capturable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    _sparse_name = "Adam"
    _sparse_hint = ", please consider SparseAdam instead"

    def _native(self, group: Group) -> str | None:
        return "adam_amsgrad_step" if group["amsgrad"] else "adam_step"

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        state = {
            "step": scalar(0.0, group, param),
            "exp_avg": tapegrad.zeros_like(param),
            "exp_avg_sq": tapegrad.zeros_like(param),
        }
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = tapegrad.zeros_like(param)
        return state

    def _update(
        self, group: Group, params: list[Tensor], grads: list[Tensor], states: list[Any]
    ) -> None:
        amsgrad = group["amsgrad"]
        beta1, beta2 = group["betas"]
        adam(
            params,
            grads,
            listed(states, "exp_avg"),
            listed(states, "exp_avg_sq"),
            listed(states, "max_exp_avg_sq") if amsgrad else [],
            listed(states, "step"),
            amsgrad=amsgrad,
            beta1=number(beta1),
            beta2=number(beta2),
            lr=number(group["lr"]),
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=group["maximize"],
            decoupled_weight_decay=group["decoupled_weight_decay"],
        )


class AdamW(Adam):
    """Adam with decoupled weight decay: parameters shrink by ``lr * weight_decay`` each step.

    The decay then enters neither of the running averages.

    Args:
        params: tensors, named tensors or parameter groups.
        lr: learning rate.
        betas: how much of the averages of the gradient and its square each step keeps.
        eps: keeps the denominator from zero.
        weight_decay: this times ``lr`` is how much parameters shrink.
        amsgrad: divide by the largest average square so far.
        maximize: ascend instead.
        foreach, fused: accepted for PyTorch's sake; all parameters are updated together anyway.
        capturable: for graph capture on a GPU; refused by ``step`` on the CPU.
        differentiable: not supported.

    Example:
        >>> x = torch.tensor([3.0, 4.0], requires_grad=True)
        >>> optimizer = torch.optim.AdamW([x], lr=0.1, weight_decay=0.1)
        >>> (x**2).sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([2.8700, 3.8600], requires_grad=True)
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


def _check_tensor_options(name: str, lr: Any, betas: Any, foreach: bool) -> None:
    """Check options that are given as tensors, as PyTorch restricts them."""
    tensors = [isinstance(beta, Tensor) for beta in betas]
    if any(tensors) != all(tensors):
        raise ValueError(f"{name}: betas must be either both floats or both Tensors")
    for what, value in (("lr", lr), ("betas[0]", betas[0]), ("betas[1]", betas[1])):
        if isinstance(value, Tensor) and foreach:
            raise ValueError(
                f"{name}: {what} as a Tensor is not supported for capturable=False and foreach=True"
            )


def adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    steps: list[Tensor],
    *,
    amsgrad: bool,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    decoupled_weight_decay: bool,
) -> None:
    """Update parameters by `Adam` or `AdamW`."""
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
        if amsgrad:
            largest = max_exp_avg_sqs[i]
            v = largest.copy_(tapegrad.maximum(largest, v))
        root = v.sqrt().div_((1 - beta2**t) ** 0.5).add_(eps)
        p.addcdiv_(m, root, value=-lr / (1 - beta1**t))
