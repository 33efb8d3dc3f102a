"""Every pair of features on a model, in turn; `make soak` has every pair on every model."""

import itertools
import warnings

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape is tapegrad's own", allow_module_level=True)

from . import combinations
from .combinations import BY_NAME, PAIRS, Unsound, check, compare, nests, short_form
from .features import FEATURES, Feature
from .models import MODELS
from .refusals import REFUSALS, ROUNDED

MOST_REFUSALS = 7
MOST_ROUNDED = 5


@pytest.fixture(autouse=True, scope="module")
def forget_references():
    yield
    combinations.reference.cache_clear()


@pytest.mark.parametrize("model", MODELS)
def test_alone(model):
    for name in BY_NAME:
        try:
            check(model, (name,))
        except Unsound as error:
            pytest.fail(f"{name}: {error}")


@pytest.mark.parametrize("feature", BY_NAME)
def test_in_pairs(feature):
    """Each pair is tested with its outer feature."""
    for model, names in short_form():
        if feature != names[0]:
            continue
        try:
            check(model, names)
        except Unsound as error:
            pytest.fail(f"{model}: {' in '.join(names[::-1])}: {error}")


def test_every_pair_is_there():
    assert len(FEATURES) >= 17 and len(MODELS) >= 10
    assert {names for _, names in short_form()} == set(PAIRS)
    assert {model for model, _ in short_form()} == set(MODELS)


def test_refusals_are_few_and_true():
    assert len(REFUSALS) <= MOST_REFUSALS and len(ROUNDED) <= MOST_ROUNDED
    for refusal in REFUSALS:
        assert set(refusal.features) <= BY_NAME.keys() and set(refusal.models) <= MODELS.keys()
        assert refusal.words and refusal.reason
        model = refusal.models[0] if refusal.models else next(iter(MODELS))
        assert check(model, nesting(refusal.features)) == "refused"
    for pair, reason in ROUNDED.items():
        assert pair <= BY_NAME.keys() and reason


def nesting(features):
    """Return features in an order in which they nest."""
    return next(filter(nests, itertools.permutations(features)))


class Forgetful(Feature):
    """Loses a gradient."""

    def measure(self, measure):
        def lossy(objective, parameters, x):
            found = measure(objective, parameters, x)
            return {**found, "bias": torch.zeros_like(found["bias"])}

        return lossy


class Inexact(Feature):
    """Rounds the loss."""

    levels = ("objective",)

    def objective(self, objective):
        return lambda parameters, x: objective(parameters, x).float().double()


@pytest.mark.parametrize("kind", [Forgetful, Inexact])
def test_what_is_wrong_is_found(kind, monkeypatch):
    monkeypatch.setitem(BY_NAME, "wrong", kind("wrong"))
    with pytest.raises(Unsound, match="off by"):
        check("weight_tied", ("record", "wrong"))


def test_what_is_refused_is_found(monkeypatch):
    class Refuses(Feature):
        def measure(self, measure):
            raise RuntimeError("no")

    monkeypatch.setitem(BY_NAME, "wrong", Refuses("wrong"))
    with pytest.raises(Unsound, match="refused: RuntimeError: no"):
        check("weight_tied", ("record", "wrong"))


def test_bits_are_compared():
    one = {"loss": torch.tensor(1.0)}
    compare(one, {"loss": torch.tensor(1.0)}, 0.0)
    with pytest.raises(Unsound):
        compare(one, {"loss": torch.tensor(1.0).nextafter(torch.tensor(2.0))}, 0.0)
    with pytest.raises(Unsound):
        compare(one, {"loss": torch.tensor(float("nan"))}, 1.0)
    with pytest.raises(Unsound):
        compare(one, {}, 1.0)


def test_nothing_warns():
    """A combination that works does so in silence."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check("weight_tied", ("offload", "checkpoint"))
