"""A run beside the same recipe written by hand in PyTorch: the same losses, norms and rates.

The recipe here is written from GPT-2's description, not from ours: what both do alike was not
forgotten in one of them. Weights and batches are those of the run.
"""

import math

import pytest
from library import IS_TORCH, pytorch_for_parity

from cli.conftest import numbers

PYTORCH, REASON = (None, "the command is tapegrad's own") if IS_TORCH else pytorch_for_parity()
pytestmark = pytest.mark.skipif(PYTORCH is None, reason=REASON)

LAYERS, WIDTH, HEADS, CONTEXT, STEPS = 3, 32, 4, 16, 25
LR, WARMUP, LAST, DECAY, BETAS, CLIP = 0.01, 4, 0.1, 0.1, (0.9, 0.95), 1.0
WORDS = (
    *("train", "--preset", "gpt2", "--text", "text.txt", "--out", "run", "--vocabulary", "300"),
    *("--layers", LAYERS, "--width", WIDTH, "--heads", HEADS, "--context", CONTEXT),
    *("--batch", "3", "--accumulate", "2", "--steps", STEPS, "--lr", LR, "--warmup", WARMUP),
    *("--sample-tokens", "0", "--every", "100"),
)


def scores(weights, tokens):
    """GPT-2, its weights by our names, its functions by PyTorch's."""
    F = PYTORCH.nn.functional

    def linear(x, name):
        return F.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), weights[f"{name}.weight"], weights[f"{name}.bias"])

    batch, time = tokens.shape
    x = weights["token.weight"][tokens] + weights["position.weight"][:time]
    for layer in range(LAYERS):
        block = f"blocks.{layer}"
        parts = linear(norm(x, f"{block}.attention_norm"), f"{block}.attention.query_key_value")
        query, key, value = (
            part.view(batch, time, HEADS, -1).transpose(1, 2) for part in parts.split(WIDTH, 2)
        )
        weighed = query @ key.transpose(2, 3) / math.sqrt(WIDTH // HEADS)
        unseen = PYTORCH.ones(time, time, dtype=PYTORCH.bool).triu(1)
        seen = weighed.masked_fill(unseen, -math.inf).softmax(3) @ value
        x = x + linear(seen.transpose(1, 2).flatten(2), f"{block}.attention.out")
        inner = linear(norm(x, f"{block}.feed_norm"), f"{block}.feed.0")
        cube = inner + 0.044715 * inner**3
        inner = 0.5 * inner * (1 + PYTORCH.tanh(math.sqrt(2 / math.pi) * cube))
        x = x + linear(inner, f"{block}.feed.2")
    return norm(x, "norm") @ weights["token.weight"].T


def rate(step):
    if step < WARMUP:
        return LR * (step + 1) / (WARMUP + 1)
    done = (step - WARMUP) / (STEPS - WARMUP)
    return LR * (LAST + (1 - LAST) * (1 + math.cos(math.pi * done)) / 2)


def train(first_weights, steps):
    """Yield loss, norm of the gradient and learning rate of each step."""
    weights = {
        name: PYTORCH.tensor(value.tolist()).requires_grad_()
        for name, value in first_weights.items()
        if name != "scores.weight"  # is the embedding
    }
    matrices = [weight for weight in weights.values() if weight.dim() == 2]
    others = [weight for weight in weights.values() if weight.dim() == 1]
    groups = [
        {"params": matrices, "weight_decay": DECAY},
        {"params": others, "weight_decay": 0.0},
    ]
    optimizer = PYTORCH.optim.AdamW(groups, betas=BETAS)
    for step, batches in enumerate(steps):
        optimizer.zero_grad()
        inputs, targets = (PYTORCH.tensor([row for b in batches for row in b[i]]) for i in (0, 1))
        loss = PYTORCH.nn.functional.cross_entropy(
            scores(weights, inputs).flatten(0, 1), targets.flatten()
        )
        loss.backward()
        norm = PYTORCH.nn.utils.clip_grad_norm_(weights.values(), CLIP)
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        optimizer.step()
        yield loss.item(), norm.item(), rate(step)


@pytest.fixture
def watched(monkeypatch):
    """Keep the first weights of a run, and its batches as lists."""
    from tapegrad.cli.data import Batches
    from tapegrad.cli.trainer import Trainer

    weights, steps = {}, []
    draw, take_step = Batches.draw, Trainer.take_step

    def draw_and_keep(self):
        batches = draw(self)
        steps.append([(inputs.tolist(), targets.tolist()) for inputs, targets in batches])
        return batches

    def keep_and_take_step(self):
        if self.step == 0:
            weights.update({k: v.clone() for k, v in self.model.state_dict().items()})
        return take_step(self)

    monkeypatch.setattr(Batches, "draw", draw_and_keep)
    monkeypatch.setattr(Trainer, "take_step", keep_and_take_step)
    return weights, steps


# bfloat16 has three digits: losses stay within two of them, norms are not compared.
@pytest.mark.parametrize(("dtype", "near"), [("float32", 1e-5), ("bfloat16", 2e-2)])
def test_the_same_recipe(command, folder, watched, dtype, near):
    status, _, errors = command(*WORDS, "--dtype", dtype)
    assert (status, errors) == (0, "")
    weights, steps = watched
    mine = [line for line in numbers(folder / "run") if "loss" in line]
    theirs = list(train(weights, steps))
    assert len(mine) == len(theirs) == STEPS
    assert [line["lr"] for line in mine] == pytest.approx([rate for *_, rate in theirs])
    assert [line["loss"] for line in mine] == pytest.approx([loss for loss, *_ in theirs], rel=near)
    if dtype == "float32":
        norms = [norm for _, norm, _ in theirs]
        assert [line["grad_norm"] for line in mine] == pytest.approx(norms, rel=1e-3)
    assert mine[-1]["loss"] < mine[0]["loss"] - 0.5
