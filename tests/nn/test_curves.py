"""Loss curves over 200 steps beside PyTorch's: same weights, same data, same order.

A recipe builds a model, an optimizer and a loss out of a library; `RECIPES` lists them, so that one
more model is one more function there.

Rounding differs between two libraries from the first sum on, and training feeds it back: a
difference in a weight grows from step to step, and so does PyTorch's own difference from exact
numbers. So each float32 curve is also measured against a float64 curve of the same training. Ours
must follow PyTorch's within `TOLERANCE`, and must be no further than 3 times PyTorch's own distance
from the float64 curve. All distances are relative, the largest of the 200 steps. One rounding of
float32 is 6e-8: `NOISE` is what 200 steps add up to where they amplify nothing, and a distance
below it counts as that, because which of two libraries is luckier there says nothing; `TOLERANCE`
leaves room for a model that amplifies rounding, as the LSTM does (2e-5 for PyTorch).
"""

import numpy as np
import pytest

from .side_by_side import copy_state

STEPS = 200
TOLERANCE = 1e-4
NOISE = 5e-6


def mlp(library):
    """A multilayer perceptron with Adam: three classes of points in a plane."""
    nn = library.nn
    model = nn.Sequential(
        nn.Linear(2, 32),
        nn.Tanh(),
        nn.Linear(32, 32),
        nn.GELU(),
        nn.LayerNorm(32),
        nn.Linear(32, 3),
    )
    optimizer = library.optim.Adam(model.parameters(), lr=3e-3)

    def batch(random):
        points = random.normal(size=(32, 2))
        return points, (np.hypot(*points.T) * 1.5).astype("int64").clip(0, 2)

    def loss(points, labels):
        return nn.functional.cross_entropy(model(points), labels)

    return model, optimizer, batch, loss


def lstm(library):
    """An LSTM classifier with Adam: which of two tones is higher."""
    nn = library.nn
    model = nn.ModuleDict({"lstm": nn.LSTM(1, 16, 2, batch_first=True), "last": nn.Linear(16, 2)})
    optimizer = library.optim.Adam(model.parameters(), lr=2e-3)

    def batch(random):
        tones = random.uniform(0.2, 1.0, (16, 2))
        time = np.arange(6)
        waves = np.concatenate([np.sin(tones[:, :1] * time), np.sin(tones[:, 1:] * time)], 1)
        return waves[:, :, None], (tones[:, 0] < tones[:, 1]).astype("int64")

    def loss(waves, labels):
        _, (h, _) = model["lstm"](waves)
        return nn.functional.cross_entropy(model["last"](h[-1]), labels)

    return model, optimizer, batch, loss


def gpt(library):
    """A GPT of two layers with AdamW: the next letter of sentences that repeat themselves."""
    nn = library.nn
    size, length, letters = 32, 12, 8
    block = nn.TransformerEncoderLayer(
        size, 4, 64, 0.0, "gelu", batch_first=True, norm_first=True, dtype=library.float32
    )
    model = nn.ModuleDict(
        {
            "letters": nn.Embedding(letters, size),
            "places": nn.Embedding(length, size),
            "blocks": nn.TransformerEncoder(block, 2, nn.LayerNorm(size), False),
            "head": nn.Linear(size, letters, bias=False),
        }
    )
    optimizer = library.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    places = library.arange(length)

    def batch(random):
        period = random.integers(0, letters, (8, 4))
        return (np.tile(period, 4)[:, : length + 1],)

    def loss(text):
        x = model["letters"](text[:, :-1]) + model["places"](places)
        mask = nn.Transformer.generate_square_subsequent_mask(length, dtype=x.dtype)
        scores = model["head"](model["blocks"](x, mask, is_causal=True))
        return nn.functional.cross_entropy(scores.flatten(0, 1), text[:, 1:].flatten())

    return model, optimizer, batch, loss


RECIPES = {"mlp": mlp, "lstm": lstm, "gpt": gpt}


def train(library, recipe, dtype, weights):
    """Return the losses of 200 steps from given weights, in a dtype."""
    model, optimizer, batch, loss_of = recipe(library)
    copy_state(weights, model, library)
    model.to(getattr(library, dtype))
    random = np.random.default_rng(0)
    losses = []
    for _ in range(STEPS):
        arrays = [
            array if array.dtype == np.int64 else array.astype(np.float32).astype(dtype)
            for array in batch(random)
        ]
        optimizer.zero_grad()
        loss = loss_of(*(library.from_numpy(np.ascontiguousarray(array)) for array in arrays))
        loss.backward()
        library.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


@pytest.mark.parametrize("name", RECIPES)
def test_curve(both, name):
    tapegrad, pytorch = both
    weights = RECIPES[name](pytorch)[0]
    ours = train(tapegrad, RECIPES[name], "float32", weights)
    theirs = train(pytorch, RECIPES[name], "float32", weights)
    exact = train(pytorch, RECIPES[name], "float64", weights)

    assert theirs[-20:].mean() < 0.5 * theirs[:20].mean(), "a curve that stays flat shows nothing"
    np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE)
    own_distance = np.max(np.abs(ours - exact) / exact)
    their_distance = np.max(np.abs(theirs - exact) / exact)
    assert own_distance <= 3 * max(their_distance, NOISE), (
        f"{name}: {own_distance:.1e} from the float64 curve, PyTorch {their_distance:.1e}"
    )
