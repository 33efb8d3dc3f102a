"""higher: gradients through three steps of an inner optimizer."""

import higher
import torch
from common import array, set_weights, show

model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
set_weights(model, 0.3)
x, y = array(16, 4), array(16, 1, seed=1)
for make in (torch.optim.SGD, torch.optim.Adam):
    rate = torch.tensor(0.1, requires_grad=True)
    inner = make(model.parameters(), lr=0.1)
    with higher.innerloop_ctx(model, inner, override={"lr": [rate]}) as (functional, optimizer):
        for _ in range(3):
            optimizer.step((functional(x) - y).square().mean())
        outer = (functional(x) - y).abs().mean()
        gradients = torch.autograd.grad(outer, [rate, *functional.parameters(time=0)])
    show(f"{make.__name__} outer", outer)
    show(f"{make.__name__} gradient of the rate", gradients[0])
    show(f"{make.__name__} gradients", torch.stack([g.abs().sum() for g in gradients[1:]]))
