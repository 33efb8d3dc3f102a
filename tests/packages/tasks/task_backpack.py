"""backpack-for-pytorch: gradients of each sample, their moments, and curvature."""

import torch
from backpack import backpack, extend
from backpack.extensions import (
    HMP,
    KFLR,
    BatchGrad,
    BatchL2Grad,
    DiagGGNExact,
    DiagHessian,
    SumGradSquared,
    Variance,
)
from common import array, integers, set_weights, show

model = torch.nn.Sequential(
    torch.nn.Conv2d(1, 2, 3), torch.nn.Sigmoid(), torch.nn.Flatten(), torch.nn.Linear(32, 3)
)
model, criterion = extend(set_weights(model, 0.3)), extend(torch.nn.CrossEntropyLoss())
x, y = array(5, 1, 6, 6), integers(3, 5)
with backpack(
    BatchGrad(), BatchL2Grad(), SumGradSquared(), Variance(), DiagGGNExact(), DiagHessian()
):
    criterion(model(x), y).backward()
for name, weight in model.named_parameters():
    show(f"{name} each", weight.grad_batch.abs().sum(tuple(range(1, weight.dim() + 1))))
    show(f"{name} norms", weight.batch_l2)
    show(f"{name} squares", weight.sum_grad_squared.sum())
    show(f"{name} variance", weight.variance.sum())
    show(f"{name} ggn", weight.diag_ggn_exact.sum())
    show(f"{name} hessian", weight.diag_h.sum())
model.zero_grad()
with backpack(KFLR(), HMP()):
    criterion(model(x), y).backward()
for name, weight in model.named_parameters():
    show(f"{name} kflr", torch.stack([factor.trace() for factor in weight.kflr]))
    show(f"{name} products", weight.hmp(array(1, *weight.shape)).abs().sum())
