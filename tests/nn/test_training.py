"""Whole models trained beside PyTorch from the same weights: the losses stay the same."""

import numpy as np
import pytest

from .side_by_side import copy_state, numbers

MODELS = {
    "mlp": lambda nn: nn.Sequential(
        nn.Linear(8, 16),
        nn.ReLU(),
        nn.LayerNorm(16),
        nn.Linear(16, 16),
        nn.GELU(),
        nn.Linear(16, 4),
    ),
    "batch norm": lambda nn: nn.Sequential(
        nn.Linear(8, 16, bias=False), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 4)
    ),
    "embedding": lambda nn: nn.Sequential(
        nn.Embedding(10, 6, padding_idx=0),
        nn.Flatten(),
        nn.SiLU(),
        nn.RMSNorm(24),
        nn.Linear(24, 4),
    ),
}


def train(library, model, name, steps):
    """Run gradient descent and return the losses."""
    losses = []
    tokens = name == "embedding"
    shape, low, high = ((32, 4), 0, 10) if tokens else ((32, 8), -2, 2)
    for step in range(steps):
        values = numbers(*shape, seed=step % 5, low=low, high=high)
        values = values.astype("int64" if tokens else "float64")
        x = library.tensor(values.tolist(), dtype=getattr(library, str(values.dtype)))
        y = library.tensor(((values.sum(1) * 1.5).astype("int64") % 4).tolist())
        loss = library.nn.functional.cross_entropy(model(x), y, label_smoothing=0.1)
        model.zero_grad()
        loss.backward()
        library.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with library.no_grad():
            for parameter in model.parameters():
                parameter.sub_(parameter.grad * 0.5)
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", MODELS)
def test_losses_follow_pytorchs(both, name):
    tapegrad, pytorch = both
    ours, theirs = (MODELS[name](library.nn).double() for library in both)
    copy_state(theirs, ours, tapegrad)
    assert repr(ours) == repr(theirs)
    own_losses = train(tapegrad, ours, name, 200)
    their_losses = train(pytorch, theirs, name, 200)
    np.testing.assert_allclose(own_losses, their_losses, rtol=1e-8)
    assert own_losses[-1] < 0.95 * own_losses[0]
