"""entmax: sparse softmaxes and their losses, forward and backward."""

import torch
from common import array, integers, show
from entmax import Entmax15Loss, SparsemaxLoss, entmax15, entmax_bisect, sparsemax

x = array(4, 7, scale=2.0).requires_grad_()
for name, function in (("sparsemax", sparsemax), ("entmax15", entmax15)):
    y = function(x, dim=-1)
    (grad,) = torch.autograd.grad((y * array(4, 7, seed=1)).sum(), x)
    show(name, y)
    show(f"{name} gradient", grad)
alpha = torch.tensor(1.3, requires_grad=True)
y = entmax_bisect(x, alpha)
gradients = torch.autograd.grad((y * array(4, 7, seed=1)).sum(), (x, alpha))
show("bisect", y)
show("bisect gradient", gradients[0])
show("gradient of alpha", gradients[1])
targets = integers(7, 4)
for loss in (SparsemaxLoss(), Entmax15Loss()):
    value = loss(x, targets)
    show(type(loss).__name__, value)
    show(f"{type(loss).__name__} gradient", torch.autograd.grad(value.sum(), x)[0])
