"""L-BFGS: quasi-Newton steps from the last few changes of the gradient."""

from collections.abc import Callable
from typing import Any

import tapegrad
from tapegrad import Tensor
from tapegrad.optim._arguments import check_lr
from tapegrad.optim._line_search import Point, strong_wolfe
from tapegrad.optim.optimizer import Optimizer, Params, number

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """L-BFGS, with a fixed step or a line search for the strong Wolfe conditions.

    A step runs up to ``max_iter`` iterations and calls the closure in each. It keeps
    ``2 * history_size`` copies of all parameters.

    Args:
        params: tensors or named tensors; there can be one group only.
        lr: the step along each direction, or the first that a line search tries.
        max_iter: the most iterations in a step.
        max_eval: the most calls of the closure in a step; by default 1.25 times ``max_iter``.
        tolerance_grad: stop when no element of the gradient is larger than this.
        tolerance_change: stop when loss or parameters change by less than this.
        history_size: how many changes of the gradient are kept.
        line_search_fn: ``"strong_wolfe"``, or None.

    Example:
        >>> x = torch.tensor([-1.2, 1.0], requires_grad=True)
        >>> optimizer = torch.optim.LBFGS([x], max_iter=100, line_search_fn="strong_wolfe")
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        ...     loss.backward()
        ...     return loss
        >>> _ = optimizer.step(closure)
        >>> bool(((x - 1).abs() < 1e-3).all())
        True
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_lr("LBFGS", lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError(
                "LBFGS: LBFGS doesn't support per-parameter options (parameter groups); got "
                f"{len(self.param_groups)} groups"
            )

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Run up to ``max_iter`` iterations.

        Args:
            closure: zeroes the gradients, computes the loss and its gradients and returns the loss.

        Returns:
            The loss that the first call of the closure returned.
        """

        def evaluate() -> Any:
            with tapegrad.enable_grad():
                return closure()

        with tapegrad.no_grad():
            return self._step(evaluate)

    def _step(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        state = self.state[group["params"][0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss, grad, spent = float(first_loss), self._flat_grad(), 1
        state["func_evals"] += 1
        if _largest(grad) <= group["tolerance_grad"]:
            return first_loss
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            t = self._prepare_direction(state, group, grad, loss)
            direction = state["d"]
            slope = grad.dot(direction).item()
            if slope > -group["tolerance_change"]:
                break
            last = iteration == group["max_iter"]
            if group["line_search_fn"] is not None:
                start = Point(0.0, loss, grad, slope)
                point, calls = self._search(closure, group, start, direction, t, spent)
                t, loss, grad = point.t, point.loss, point.grad
                self._move(direction, t)
            else:
                self._move(direction, t)
                calls = 0 if last else 1
                if not last:
                    loss, grad = float(closure()), self._flat_grad()
            state["t"] = t
            spent += calls
            state["func_evals"] += calls
            if last or spent >= group["max_eval"] or self._converged(state, group, grad, loss):
                break
        return first_loss

    def _prepare_direction(self, state: Any, group: Any, grad: Tensor, loss: float) -> float:
        """Put the next direction in the state and return the first step to try along it."""
        lr = number(group["lr"])
        if state["n_iter"] == 1:
            state.update(d=grad.neg(), old_dirs=[], old_stps=[], ro=[], H_diag=1)
            t = min(1.0, 1.0 / grad.abs().sum().item()) * lr
        else:
            _remember(state, grad, group["history_size"])
            state["d"] = _two_loops(state, grad, group["history_size"])
            t = lr
        state.update(t=t, prev_flat_grad=grad.clone(), prev_loss=loss)
        return t

    def _converged(self, state: Any, group: Any, grad: Tensor, loss: float) -> bool:
        tolerance = group["tolerance_change"]
        return (
            _largest(grad) <= group["tolerance_grad"]
            or _largest(state["d"].mul(state["t"])) <= tolerance
            or abs(loss - state["prev_loss"]) < tolerance
        )

    def _search(
        self,
        closure: Callable[[], Any],
        group: Any,
        start: Point,
        direction: Tensor,
        t: float,
        spent: int,
    ) -> tuple[Point, int]:
        if group["line_search_fn"] != "strong_wolfe":
            raise RuntimeError(
                "LBFGS: only 'strong_wolfe' is supported as line_search_fn, got "
                f"{group['line_search_fn']!r}"
            )
        origin = [param.clone() for param in group["params"]]

        def evaluate(t: float) -> Point:
            self._move(direction, t)
            loss, grad = float(closure()), self._flat_grad()
            for param, value in zip(group["params"], origin, strict=True):
                param.copy_(value)
            return Point(t, loss, grad, grad.dot(direction).item())

        # The line search's tolerance is PyTorch's constant, not the group's.
        return strong_wolfe(
            evaluate, start, t, _largest(direction), 1e-9, group["max_eval"] - spent
        )

    def _flat_grad(self) -> Tensor:
        parts = []
        for param in self.param_groups[0]["params"]:
            grad = tapegrad.zeros_like(param) if param.grad is None else param.grad.to_dense()
            parts.append(_real_parts(grad).reshape(-1))
        return tapegrad.cat(parts)

    def _move(self, direction: Tensor, t: float) -> None:
        offset = 0
        for param in self.param_groups[0]["params"]:
            parts = _real_parts(param)
            part = direction[offset : offset + parts.numel()]
            parts.add_(part.view_as(parts), alpha=t)
            offset += parts.numel()


def _real_parts(x: Tensor) -> Tensor:
    """Return complex numbers as pairs of real ones, in place; real ones as they are."""
    return tapegrad.view_as_real(x) if x.is_complex() else x


def _largest(x: Tensor) -> float:
    return x.abs().max().item()


def _remember(state: Any, grad: Tensor, history_size: int) -> None:
    """Add the last step and the change of the gradient along it to the history."""
    change = grad.sub(state["prev_flat_grad"])
    step = state["d"].mul(number(state["t"]))
    curvature = change.dot(step)
    if curvature.item() <= 1e-10:
        return
    if len(state["old_dirs"]) == history_size:
        for history in (state["old_dirs"], state["old_stps"], state["ro"]):
            history.pop(0)
    state["old_dirs"].append(change)
    state["old_stps"].append(step)
    state["ro"].append(1.0 / curvature)
    state["H_diag"] = curvature / change.dot(change)


def _two_loops(state: Any, grad: Tensor, history_size: int) -> Tensor:
    """Return minus the approximate inverse Hessian times the gradient."""
    changes, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
    weights = state.setdefault("al", [None] * history_size)
    direction = grad.neg()
    for i in reversed(range(len(changes))):
        weights[i] = steps[i].dot(direction) * ro[i]
        direction.add_(changes[i], alpha=-weights[i].item())
    direction.mul_(number(state["H_diag"]))
    for i in range(len(changes)):
        rest = weights[i] - changes[i].dot(direction) * ro[i]
        direction.add_(steps[i], alpha=rest.item())
    return direction
