"""Muon: momentum whose steps are made orthogonal."""

from typing import Any

import tapegrad
from tapegrad import Tensor
from tapegrad.optim._arguments import check_lr
from tapegrad.optim.optimizer import Group, GroupwiseOptimizer, Params, listed, number

__all__ = ["Muon", "muon"]


class Muon(GroupwiseOptimizer):
    """Momentum for matrices: each step is the nearest orthogonal matrix to the velocity, nearly.

    It is found by a few steps of a Newton-Schulz iteration in bfloat16. For the hidden weight
    matrices of a network; biases, embeddings and the last layer go to another optimizer.

    Args:
        params: matrices, named matrices or parameter groups.
        lr: learning rate.
        weight_decay: parameters shrink by ``lr * weight_decay``.
        momentum: how much of the velocity each step keeps.
        nesterov: look ahead along the velocity.
        ns_coefficients: of the iteration's quintic polynomial.
        eps: keeps the norm that the velocity is divided by from zero.
        ns_steps: steps of the iteration, fewer than 100.
        adjust_lr_fn: ``"original"`` (also None) scales the rate of an ``a x b`` matrix by
            ``sqrt(max(1, a / b))``, ``"match_rms_adamw"`` by ``0.2 * sqrt(max(a, b))``.

    Example:
        >>> w = torch.eye(3).requires_grad_()
        >>> optimizer = torch.optim.Muon([w], lr=0.1, weight_decay=0.0)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> bool((w.diag() < 0.95).all())
        True
    """

    _takes_complex = False

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_lr("Muon", lr)
        for what, value in (("momentum", momentum), ("weight decay", weight_decay)):
            if not value >= 0.0:
                raise ValueError(f"Muon: {what} should be >= 0 but is: {value}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(
                f"Muon: Adjust learning rate function {adjust_lr_fn} is not supported; expected "
                "'original' or 'match_rms_adamw'"
            )
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)

    def add_param_group(self, param_group: Group) -> None:
        """Add a group of matrices.

        Args:
            param_group: a dict with ``params`` and the options that differ from the defaults.
        """
        super().add_param_group(param_group)
        for param in param_group["params"]:
            if param.ndim != 2:
                self.param_groups.pop()
                raise ValueError(
                    "Muon: Muon only supports 2D parameters whereas we found a parameter with "
                    f"size: {param.size()}; give it to another optimizer"
                )

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        return {"momentum_buffer": tapegrad.zeros_like(param)}

    def _update(
        self, group: Group, params: list[Tensor], grads: list[Tensor], states: list[Any]
    ) -> None:
        muon(
            params,
            grads,
            listed(states, "momentum_buffer"),
            lr=number(group["lr"]),
            weight_decay=group["weight_decay"],
            momentum=group["momentum"],
            nesterov=group["nesterov"],
            ns_coefficients=group["ns_coefficients"],
            eps=group["eps"],
            ns_steps=group["ns_steps"],
            adjust_lr_fn=group["adjust_lr_fn"],
        )


def _orthogonalized(
    matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """Return a matrix with the same singular vectors and singular values near 1, in bfloat16.

    The iteration ``X <- a X + (b A + c A A) X`` with ``A = X X^T`` drives singular values towards
    1; the shorter side goes first, so that ``A`` is the smaller of the two products.
    """
    if steps >= 100:
        raise ValueError(
            f"Muon: Number of steps must be less than 100 for computational efficiency, got {steps}"
        )
    if len(coefficients) != 3:
        raise ValueError(
            f"Muon: Coefficients must be a tuple of exactly 3 values, got {len(coefficients)}"
        )
    a, b, c = coefficients
    tall = matrix.size(0) > matrix.size(1)
    x = matrix.bfloat16()
    if tall:
        x = x.T
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        polynomial = tapegrad.addmm(gram, gram, gram, beta=b, alpha=c)
        x = tapegrad.addmm(x, polynomial, x, beta=a)
    return x.T if tall else x


def _adjusted(lr: float, rule: str | None, shape: Any) -> float:
    rows, columns = shape
    if rule == "match_rms_adamw":
        return lr * 0.2 * max(rows, columns) ** 0.5
    return lr * max(1, rows / columns) ** 0.5


def muon(
    params: list[Tensor],
    grads: list[Tensor],
    momentum_buffers: list[Tensor],
    *,
    lr: float,
    weight_decay: float,
    momentum: float,
    nesterov: bool,
    ns_coefficients: tuple[float, float, float],
    eps: float,
    ns_steps: int,
    adjust_lr_fn: str | None,
) -> None:
    """Update matrices by `Muon`."""
    for p, g, velocity in zip(params, grads, momentum_buffers, strict=True):
        velocity.lerp_(g, 1 - momentum)
        ahead = g.lerp(velocity, momentum) if nesterov else velocity
        update = _orthogonalized(ahead, ns_coefficients, ns_steps, eps)
        p.mul_(1 - lr * weight_decay)
        p.add_(update, alpha=-_adjusted(lr, adjust_lr_fn, p.shape))
