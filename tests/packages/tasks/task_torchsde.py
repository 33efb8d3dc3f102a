"""torchsde: paths of an SDE under given noise, and gradients through them."""

import torch
import torchsde
from common import array, set_weights, show, train


class Noise(torchsde.BrownianInterval):
    """A path whose increments are given, so that no generator matters."""

    def __call__(self, ta, tb=None, return_U=False, return_A=False):
        step = round(float(ta) * 20)
        return INCREMENTS[step]


class Equation(torch.nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self):
        super().__init__()
        self.drift, self.spread = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def f(self, t, y):
        return torch.tanh(self.drift(y))

    def g(self, t, y):
        return torch.sigmoid(self.spread(y)) * 0.3


INCREMENTS = array(21, 4, 3, seed=5, scale=0.05**0.5)
equation = set_weights(Equation(), 0.4)
start, times = array(4, 3), torch.tensor([0.0, 0.5, 1.0])


def paths(method):
    noise = Noise(t0=0.0, t1=1.0, size=(4, 3))
    return torchsde.sdeint(equation, start, times, bm=noise, dt=0.05, method=method)


show("euler", paths("euler")[-1])
show("milstein", paths("milstein")[-1])
show("losses", train(lambda: paths("euler")[-1].square().mean(), equation.parameters()))
