"""A hundred steps under autocast on the CPU, beside PyTorch's.

Half precision rounds, and the two libraries not at the same places, so the curves are not equal.
What is asked: the losses under autocast are no farther from those in float32 than twice as far as
PyTorch's are from its own, in the mean over the steps.
"""

import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
if pytorch is None or IS_TORCH:
    pytest.skip(REASON or "PyTorch beside itself", allow_module_level=True)

STEPS = 100


def mlp(t):
    nn = t.nn
    model = nn.Sequential(
        nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 3)
    )
    return model, t.nn.functional.mse_loss


def cnn(t):
    nn = t.nn
    model = nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32, 4),
    )
    return model, t.nn.functional.cross_entropy


def gpt(t):
    nn, functional = t.nn, t.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.after = nn.LayerNorm(16), nn.LayerNorm(16)
            self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
            self.wide = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

        def forward(self, x):
            batch, length, width = x.shape
            parts = self.qkv(self.before(x)).split(width, 2)
            q, k, v = (each.view(batch, length, 2, width // 2).transpose(1, 2) for each in parts)
            seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
            return x + self.wide(self.after(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(11, 16), nn.Embedding(8, 16)
            self.blocks = nn.Sequential(Block(), Block())
            self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 11, bias=False)

        def forward(self, tokens):
            x = self.tokens(tokens) + self.places.weight
            return self.head(self.norm(self.blocks(x))).flatten(0, 1)

    return Model(), functional.cross_entropy


def batches(name):
    rng = np.random.default_rng(1)
    for _ in range(STEPS):
        if name == "mlp":
            x = rng.standard_normal((16, 12)).astype(np.float32)
            yield x, np.sin(x[:, :3]) + x[:, 3:6]
        elif name == "cnn":
            classes = rng.integers(0, 4, 16)
            x = rng.standard_normal((16, 1, 8, 8)).astype(np.float32) * 0.5
            x[np.arange(16), 0, classes * 2] += 1
            yield x, classes
        else:
            start, step = rng.integers(0, 11, (8, 1)), rng.integers(1, 3, (8, 1))
            tokens = (start + step * np.arange(9)) % 11
            yield tokens[:, :-1], tokens[:, 1:].reshape(-1)


def curve(library, name, state, enabled):
    model, loss_of = {"mlp": mlp, "cnn": cnn, "gpt": gpt}[name](library)
    model.load_state_dict({key: library.tensor(value) for key, value in state.items()})
    optimizer = library.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for x, y in batches(name):
        optimizer.zero_grad()
        with library.autocast("cpu", library.bfloat16, enabled=enabled):
            loss = loss_of(model(library.tensor(x)), library.tensor(y))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert loss.dtype is library.float32
    assert all(each.dtype is library.float32 for each in model.parameters())
    return np.array(losses)


@pytest.mark.parametrize("name", ["mlp", "cnn", "gpt"])
def test_curve(name):
    pytorch.manual_seed(0)
    model = {"mlp": mlp, "cnn": cnn, "gpt": gpt}[name](pytorch)[0]
    state = {key: value.numpy() for key, value in model.state_dict().items()}
    ours, ours_exact = (curve(torch, name, state, enabled) for enabled in (True, False))
    theirs, theirs_exact = (curve(pytorch, name, state, enabled) for enabled in (True, False))
    assert ours[-10:].mean() < 0.7 * ours[:10].mean(), "nothing was learned"
    distance = np.abs(ours - ours_exact).mean()
    assert 0 < distance <= 2 * np.abs(theirs - theirs_exact).mean()


def test_scaled_float16_on_the_cpu():
    """Autocast to float16 with a scaler: gradients that would vanish do not."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18, growth_interval=20)
    x = torch.randn(64, 8)
    y = x[:, :1] * x[:, 1:2]
    losses, scales = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
        scales.append(scaler.get_scale())
    assert losses[-1] < 0.8 * losses[0]
    assert min(scales) < 2.0**18, "the first scale was too large for float16, and has to fall"
