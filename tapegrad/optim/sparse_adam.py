"""SparseAdam: Adam for sparse gradients."""

from typing import Any

import tapegrad
from tapegrad import Tensor
from tapegrad.optim._arguments import check_betas
from tapegrad.optim.optimizer import Group, GroupwiseOptimizer, Params, number, with_values

__all__ = ["SparseAdam", "sparse_adam"]


class SparseAdam(GroupwiseOptimizer):
    """Adam that reads and writes parameters and averages where a sparse gradient has elements.

    Args:
        params: dense tensors, named tensors or parameter groups.
        lr: learning rate.
        betas: decay rates of the averages of gradients and of their squares.
        eps: keeps the denominator from zero.
        maximize: ascend instead.

    Example:
        >>> table = torch.nn.Embedding(10, 2, sparse=True)
        >>> optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)
        >>> table(torch.tensor([3])).sum().backward()
        >>> optimizer.step()
    """

    _takes_sparse = True
    _scalar_state = ()  # the count of steps is a Python number

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError(
                f"SparseAdam: Tensor lr must be 1-element, got shape {tuple(lr.shape)}"
            )
        if not lr > 0.0:
            raise ValueError(f"SparseAdam: Invalid learning rate: {lr}; expected more than 0")
        if not eps > 0.0:
            raise ValueError(f"SparseAdam: Invalid epsilon value: {eps}; expected more than 0")
        check_betas("SparseAdam", betas)
        defaults = {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize}
        super().__init__(params, defaults)
        sparse, complex_ones = [], []
        for index, group in enumerate(self.param_groups):
            for place, param in enumerate(group["params"]):
                if param.layout is not tapegrad.strided:
                    sparse.append([index, place])
                if param.is_complex():
                    complex_ones.append([index, place])
        if sparse:
            raise ValueError(
                f"SparseAdam: Sparse params at indices {sparse}: SparseAdam requires dense "
                "parameter tensors"
            )
        if complex_ones:
            raise ValueError(
                f"SparseAdam: Complex params at indices {complex_ones}: SparseAdam does not "
                "support complex parameters"
            )

    def _check_layouts(self, group: Group, params: list[Tensor]) -> None:
        for param in params:
            if param.grad is not None and param.grad.layout is not tapegrad.sparse_coo:
                raise RuntimeError(
                    "SparseAdam does not support dense gradients, please consider Adam instead"
                )

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        return {
            "step": 0,
            "exp_avg": tapegrad.zeros_like(param, requires_grad=False),
            "exp_avg_sq": tapegrad.zeros_like(param, requires_grad=False),
        }

    def _update(
        self, group: Group, params: list[Tensor], grads: list[Tensor], states: list[Any]
    ) -> None:
        for state in states:
            state["step"] += 1
        beta1, beta2 = group["betas"]
        sparse_adam(
            params,
            grads,
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [state["step"] for state in states],
            eps=group["eps"],
            beta1=beta1,
            beta2=beta2,
            lr=number(group["lr"]),
            maximize=group["maximize"],
        )


def sparse_adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[int],
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float,
    maximize: bool,
) -> None:
    """Update parameters by `SparseAdam`."""
    for p, given, average, square, step in zip(
        params, grads, exp_avgs, exp_avg_sqs, state_steps, strict=True
    ):
        grad = (-given if maximize else given).coalesce()
        values = grad.values()
        if values.numel() == 0:
            continue
        before = average.sparse_mask(grad).values()
        change = (values - before) * (1 - beta1)
        average.add_(with_values(grad, change))
        before_square = square.sparse_mask(grad).values()
        change_square = (values.square() - before_square) * (1 - beta2)
        square.add_(with_values(grad, change_square))
        root = (change_square + before_square).sqrt().add_(eps)
        rate = lr * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
        p.add_(with_values(grad, (change + before) / root), alpha=-rate)
