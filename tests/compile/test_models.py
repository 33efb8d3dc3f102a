"""Whole models, made, run and swept inside one compiled function, and trained by one."""

import pytest
from library import IS_TORCH, torch
from tape.models import MODELS

from compile.pairs import Pair, same

if IS_TORCH:
    pytest.skip("traces are tapegrad's own", allow_module_level=True)

nn, functional = torch.nn, torch.nn.functional


@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    model = MODELS[name]

    def function():
        loss = model()
        loss.backward()
        return loss.detach()

    compiled = torch.compile(function)
    for seed in range(5):
        torch.manual_seed(seed)
        expected = function()
        after = torch.get_rng_state()
        torch.manual_seed(seed)
        assert same(expected, compiled())
        assert torch.equal(after, torch.get_rng_state())


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, dropout=0.1, batch_first=True)
        self.feed = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.feed(self.norm(x))


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.blocks = nn.ModuleList(Block(8) for _ in range(2))
        self.drop = nn.Dropout(0.1)

    def forward(self, tokens):
        x = self.drop(self.table(tokens))
        for block in self.blocks:
            x = block(x)
        return x @ self.table.weight.t()


def trained(make_model, make_batch, loss_of, make_optimizer):
    def make():
        model = make_model()
        optimizer = make_optimizer(model.parameters())

        def step(*batch):
            optimizer.zero_grad()
            loss = loss_of(model(batch[0]), *batch[1:])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss

        return step, {"model": model, "optimizer": optimizer}

    pair = Pair(make)
    for _ in range(7):
        pair.call(*make_batch())
    assert pair.traces == 1, pair.reasons


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=0.01)


def test_a_language_model():
    def loss_of(logits, targets):
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    trained(
        Language,
        lambda: (torch.randint(11, (2, 5)), torch.randint(11, (2, 5))),
        loss_of,
        adamw,
    )


def test_a_convolutional_network():
    def make_model():
        return nn.Sequential(
            *(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True)),
            *(nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(64, 3)),
        )

    trained(
        make_model,
        lambda: (torch.randn(2, 1, 8, 8), torch.randint(3, (2,))),
        functional.cross_entropy,
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    )


def test_a_recurrent_network():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.cells = nn.LSTM(3, 4, 2, batch_first=True, dropout=0.2)
            self.last = nn.Linear(4, 1)

        def forward(self, x):
            return self.last(self.cells(x)[0][:, -1])

    trained(Last, lambda: (torch.randn(2, 6, 3), torch.randn(2, 1)), functional.mse_loss, adamw)
