"""Stochastic gradient descent, with momentum."""

from typing import Any

from tapegrad import Tensor
from tapegrad.optim._arguments import check_common, check_not_negative
from tapegrad.optim.optimizer import Group, GroupwiseOptimizer, Params, number, signed

__all__ = ["SGD", "sgd"]


class SGD(GroupwiseOptimizer):
    """Gradient descent: ``p -= lr * g``, or with momentum ``p -= lr * v``.

    The velocity ``v`` is the first gradient at first, and from then on
    ``momentum * v + (1 - dampening) * g``.

    Args:
        params: tensors, named tensors or parameter groups.
        lr: learning rate.
        momentum: how much of the velocity each step keeps.
        dampening: how much of each gradient is kept out of the velocity.
        weight_decay: this times the parameter is added to its gradient.
        nesterov: look ahead along the velocity; needs momentum and no dampening.
        maximize: ascend instead.
        foreach, fused: accepted for PyTorch's sake; all parameters are updated together anyway.
        differentiable: not supported.

    Example:
        >>> x = torch.tensor([3.0, 4.0], requires_grad=True)
        >>> optimizer = torch.optim.SGD([x], lr=0.1, momentum=0.9)
        >>> for _ in range(200):
        ...     optimizer.zero_grad()
        ...     (x**2).sum().backward()
        ...     optimizer.step()
        >>> bool((x.abs() < 1e-3).all())
        True
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_common("SGD", lr, weight_decay=weight_decay)
        check_not_negative("SGD", "momentum value", momentum)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("SGD: Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    _takes_sparse = True
    _steps_by_parts = False  # what is linear is the same for both parts

    def _step_group(self, group: Group) -> None:
        if group["momentum"] != 0:
            super()._step_group(group)
            return
        # Without momentum there is no state, not even empty entries.
        params = [param for param in group["params"] if param.grad is not None]
        self._check_switches(group)
        self._check_layouts(group, params)
        self._update(group, params, [param.grad for param in params], [])

    def _native(self, group: Group) -> str | None:
        return "sgd_momentum_step" if group["momentum"] != 0 else "sgd_step"

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        return {"momentum_buffer": None}

    def _update(
        self, group: Group, params: list[Tensor], grads: list[Tensor], states: list[Any]
    ) -> None:
        buffers = [state.get("momentum_buffer") for state in states]
        sgd(
            params,
            grads,
            buffers,
            lr=number(group["lr"]),
            momentum=number(group["momentum"]),
            dampening=group["dampening"],
            weight_decay=number(group["weight_decay"]),
            nesterov=group["nesterov"],
            maximize=group["maximize"],
        )
        for state, buffer in zip(states, buffers, strict=True):
            state["momentum_buffer"] = buffer


def sgd(
    params: list[Tensor],
    grads: list[Tensor],
    momentum_buffers: list[Tensor | None],
    *,
    lr: float,
    momentum: float,
    dampening: float,
    weight_decay: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """Update parameters by `SGD`; a buffer that is None is replaced in its list by a new one."""
    grads = signed(grads, maximize)
    if weight_decay != 0:
        grads = [g.add(p, alpha=weight_decay) for p, g in zip(params, grads, strict=True)]
    if momentum != 0:
        for i, g in enumerate(grads):
            velocity = momentum_buffers[i]
            if g.is_sparse:
                g = g.coalesce()  # a velocity of terms would grow with each step
            if velocity is None:
                momentum_buffers[i] = g.clone().detach()
            else:
                velocity.mul_(momentum).add_(g, alpha=1 - dampening)
        velocities = [buffer for buffer in momentum_buffers if buffer is not None]
        if nesterov:
            grads = [g.add(v, alpha=momentum) for g, v in zip(grads, velocities, strict=True)]
        else:
            grads = velocities
    for p, g in zip(params, grads, strict=True):
        p.add_(g, alpha=-lr)
