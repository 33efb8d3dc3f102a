"""Long random sequences of what programs do between compiled calls, beside an eager twin."""

import random

import numpy as np
import pytest
from library import IS_TORCH, torch

from compile.pairs import look_at, same

if IS_TORCH:
    pytest.skip("traces are tapegrad's own", allow_module_level=True)

nn, functional = torch.nn, torch.nn.functional


class World:
    """A model, its optimizer, a step, an evaluation and a forward, compiled or not."""

    def __init__(self, compiled):
        torch.manual_seed(3)
        self.model = nn.Sequential(
            nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.2), nn.Linear(6, 2)
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.handles = []
        wrap = torch.compile if compiled else lambda function: function
        self.functions = [wrap(each) for each in (self._step, self._evaluate, self._loss)]
        self.step, self.evaluate, self.loss = self.functions

    def _step(self, x, y):
        self.optimizer.zero_grad()
        loss = functional.mse_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def _evaluate(self, x):
        return self.model(x).argmax(1), self.model[0].weight.norm()

    def _loss(self, x, y):
        hidden = self.model[2](self.model[0](x))
        return (self.model[4](hidden) - y).square().mean()

    # ---- what happens

    def train_step(self, draw):
        n = draw.choice((2, 3))
        return self.step(torch.randn(n, 4), torch.randn(n, 2))

    def look(self, draw):
        return self.evaluate(torch.randn(draw.choice((2, 5)), 4))

    def accumulate(self, draw):
        loss = self.loss(torch.randn(3, 4), torch.randn(3, 2))
        if loss.requires_grad:
            loss.backward()
        return loss.detach()

    def switch(self, draw):
        self.model.train(draw.random() < 0.5)

    def schedule(self, draw):
        rate = draw.choice((0.01, 0.02, np.float64(0.005), 1e-3))
        self.optimizer.param_groups[0]["lr"] = rate

    def forget(self, draw):
        self.optimizer.zero_grad(set_to_none=draw.random() < 0.5)

    def reload(self, draw):
        self.model.load_state_dict({k: v.clone() for k, v in self.model.state_dict().items()})
        self.optimizer.load_state_dict(self.optimizer.state_dict())

    def freeze(self, draw):
        self.model[0].requires_grad_(draw.random() < 0.5)

    def hook(self, draw):
        if self.handles and draw.random() < 0.7:
            self.handles.pop().remove()
        else:
            self.handles.append(self.model[2].register_forward_hook(lambda m, a, out: out * 1.5))

    def replace(self, draw):
        self.model[3] = nn.Dropout(draw.choice((0.1, 0.4)))

    def overwrite(self, draw):
        with torch.no_grad():
            self.model[4].bias.add_(0.1)


ACTIONS = (
    *(["train_step"] * 12 + ["look"] * 8 + ["accumulate"] * 8),
    *(
        "switch",
        "schedule",
        "schedule",
        "forget",
        "reload",
        "freeze",
        "hook",
        "replace",
        "overwrite",
    ),
)


@pytest.mark.parametrize("seed", range(6))
def test_long_runs(seed):
    worlds = World(compiled=False), World(compiled=True)
    draws = [random.Random(seed) for _ in worlds]
    for number in range(250):
        found = []
        for world, draw in zip(worlds, draws, strict=True):
            torch.manual_seed(1000 * seed + number)
            result = getattr(world, draw.choice(ACTIONS))(draw)
            state = look_at(world.model), look_at(world.optimizer), torch.get_rng_state()
            found.append((result, state))
        assert same(*found), number
    told = [torch.compiler.explain(each) for each in worlds[1].functions]
    assert sum(len(each.traces) for each in told) >= 3
