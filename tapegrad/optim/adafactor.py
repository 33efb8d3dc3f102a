"""Adafactor: Adam's scaling with the memory of a row and a column per matrix."""

from typing import Any

import tapegrad
from tapegrad import Tensor
from tapegrad.optim._arguments import check_lr
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

__all__ = ["Adafactor", "adafactor"]


class Adafactor(GroupwiseOptimizer):
    """Adafactor: the average of squares is kept as the product of a column and a row.

    Args:
        params: tensors, named tensors or parameter groups.
        lr: the largest relative step; a step ``t`` moves by at most ``min(lr, 1 / sqrt(t))`` of a
            parameter's own size.
        beta2_decay: the averages take in ``t ** beta2_decay`` of each new square.
        eps: what keeps the averages from zero (None: the dtype's own epsilon), and the smallest
            size that a parameter is taken to have.
        d: updates whose root mean square is above this are scaled down to it.
        weight_decay: parameters shrink by ``lr * weight_decay``.
        foreach: accepted for PyTorch's sake.
        maximize: ascend instead.

    Example:
        >>> w = torch.ones(3, 4, requires_grad=True)
        >>> optimizer = torch.optim.Adafactor([w], lr=0.1)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> sorted(optimizer.state[w])
        ['col_var', 'row_var', 'step']
        >>> w[0]
        tensor([0.9000, 0.9000, 0.9000, 0.9000], grad_fn=<SelectBackward0>)
    """

    _takes_complex = False

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        _check(lr, beta2_decay, eps, d, weight_decay)
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        state = {"step": scalar(0.0, group, param)}
        if param.dim() > 1:
            shape = list(param.shape)
            state["row_var"] = param.new_zeros([*shape[:-1], 1])
            state["col_var"] = param.new_zeros([*shape[:-2], 1, shape[-1]])
        else:
            state["variance"] = tapegrad.zeros_like(param)
        return state

    def _update(
        self, group: Group, params: list[Tensor], grads: list[Tensor], states: list[Any]
    ) -> None:
        eps1, eps2 = group["eps"]
        adafactor(
            params,
            grads,
            [state.get("row_var") for state in states],
            [state.get("col_var") for state in states],
            [state.get("variance") for state in states],
            listed(states, "step"),
            d=group["d"],
            lr=number(group["lr"]),
            beta2_decay=group["beta2_decay"],
            weight_decay=group["weight_decay"],
            eps1=eps1,
            eps2=eps2,
            maximize=group["maximize"],
        )


def _check(lr: Any, beta2_decay: float, eps: Any, d: float, weight_decay: float) -> None:
    check_lr("Adafactor", lr)
    for valid, complaint in (
        (beta2_decay <= 0.0, f"beta2_decay should be <= 0 but is: {beta2_decay}"),
        (eps[0] is None or eps[0] >= 0.0, f"epsilon1 should be >= 0 but is: {eps[0]}"),
        (eps[1] >= 0.0, f"epsilon2 should be >= 0 but is: {eps[1]}"),
        (d >= 1.0, f"Clipping threshold d should be >= 1 but is: {d}"),
        (weight_decay >= 0.0, f"weight_decay should be >= 0 but is: {weight_decay}"),
    ):
        if not valid:
            raise ValueError(f"Adafactor: {complaint}")


def _root_mean_square(x: Tensor) -> float:
    return x.norm(2).item() / x.numel() ** 0.5


def adafactor(
    params: list[Tensor],
    grads: list[Tensor],
    row_vars: list[Tensor | None],
    col_vars: list[Tensor | None],
    variances: list[Tensor | None],
    steps: list[Tensor],
    *,
    d: float,
    lr: float,
    beta2_decay: float,
    weight_decay: float,
    eps1: float | None,
    eps2: float,
    maximize: bool,
) -> None:
    """Update parameters by `Adafactor`; those of one dimension have a variance, others two."""
    grads = signed(grads, maximize)
    for i, (p, g, t) in enumerate(zip(params, grads, count_step(steps), strict=True)):
        row, column, variance = row_vars[i], col_vars[i], variances[i]
        floor = tapegrad.finfo(p.dtype).eps if eps1 is None else eps1
        share = t**beta2_decay
        size = max(eps2, _root_mean_square(p)) * min(lr, 1 / t**0.5)
        if weight_decay != 0:
            p.mul_(1 - lr * weight_decay)
        if row is not None and column is not None:
            square = g * g
            row.lerp_(square.mean(-1, keepdim=True), share)
            column.lerp_(square.mean(-2, keepdim=True), share)
            estimate = (row @ column).div_(row.mean(-2, keepdim=True).clamp_(min=floor))
        else:
            assert variance is not None
            estimate = variance.lerp_(g * g, share).clone()
        update = estimate.clamp_(min=floor * floor).rsqrt_().mul_(g)
        p.add_(update, alpha=-size / max(1.0, _root_mean_square(update) / d))
