"""The loss curve of a convolutional network over 200 steps beside PyTorch's; see test_curves.py.

With a smooth activation the curves stay within float32 rounding. With ReLU they may not: sooner or
later an input of one is so near zero that rounding decides its sign, and from there the two
trainings go apart by what one element of a gradient weighs. `APART` allows for some such elements.
"""

import functools

import numpy as np
import pytest

from .test_curves import NOISE, TOLERANCE, train

SIDE = 12
APART = {"SiLU": 0.1 * TOLERANCE, "ReLU": 20 * TOLERANCE}


def cnn(library, activation):
    """A small residual network with batch norms and SGD: which way the stripes of an image run."""
    nn = library.nn

    def unit(near, far, stride, groups=1):
        convolution = nn.Conv2d(near, far, 3, stride, 1, groups=groups, bias=False)
        return nn.Sequential(convolution, nn.BatchNorm2d(far), getattr(nn, activation)())

    model = nn.ModuleDict(
        {
            "first": unit(1, 8, 1),
            "depthwise": unit(8, 8, 1, groups=8),
            "down": unit(8, 16, 2),
            "more": unit(16, 16, 1),
            "up": nn.ConvTranspose2d(16, 8, 2, stride=2),
            "last": nn.Linear(8, 4),
        }
    )
    optimizer = library.optim.SGD(model.parameters(), lr=0.02, momentum=0.5)

    def batch(random):
        labels = random.integers(0, 4, 16)
        angle = labels[:, None, None] * np.pi / 4
        y, x = np.mgrid[:SIDE, :SIDE] * 1.3
        phase = random.uniform(0, 2 * np.pi, (16, 1, 1))
        stripes = np.sin(np.cos(angle) * x + np.sin(angle) * y + phase)
        images = stripes + 0.3 * random.normal(size=stripes.shape)
        return images[:, None], labels

    def loss(images, labels):
        x = model["first"](images)
        x = model["down"](x + model["depthwise"](x))
        x = model["up"](x + model["more"](x))
        return nn.functional.cross_entropy(model["last"](x.mean((2, 3))), labels)

    return model, optimizer, batch, loss


@pytest.mark.parametrize("activation", APART)
def test_curve(both, activation):
    tapegrad, pytorch = both
    recipe = functools.partial(cnn, activation=activation)
    weights = recipe(pytorch)[0]
    ours = train(tapegrad, recipe, "float32", weights)
    theirs = train(pytorch, recipe, "float32", weights)
    exact = train(pytorch, recipe, "float64", weights)
    assert theirs[-20:].mean() < 0.5 * theirs[:20].mean(), "a curve that stays flat shows nothing"
    np.testing.assert_allclose(ours, theirs, rtol=APART[activation])
    own, their = (np.max(np.abs(curve - exact) / exact) for curve in (ours, theirs))
    allowed = 3 * max(their, NOISE) if activation == "SiLU" else APART[activation]
    assert own <= allowed, f"{own:.1e} from the float64 curve, PyTorch {their:.1e}"
