"""torchdiffeq: a small neural ODE, by an adaptive method and with the adjoint, and its training."""

import torch
from common import array, set_weights, show, train
from torchdiffeq import odeint, odeint_adjoint


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)
        )

    def forward(self, t, y):
        return self.net(y**3)


field = set_weights(Field(), 0.3)
start, times = array(5, 2), torch.linspace(0.0, 1.0, 6)
target = array(5, 2, seed=3)
show("dopri5", odeint(field, start, times, rtol=1e-6, atol=1e-6)[-1])
show("rk4", odeint(field, start, times, method="rk4")[-1])
show("adams", odeint(field, start, times, method="explicit_adams")[-1])


def adjoint():
    return (odeint_adjoint(field, start, times, rtol=1e-6, atol=1e-6)[-1] - target).abs().mean()


def direct():
    return (odeint(field, start, times, method="rk4")[-1] - target).abs().mean()


show(
    "adjoint", train(adjoint, field.parameters(), 3, torch.optim.RMSprop(field.parameters(), 1e-2))
)
show("direct", train(direct, field.parameters(), 3, torch.optim.RMSprop(field.parameters(), 1e-2)))
