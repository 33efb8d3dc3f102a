"""Runs features in pairs on models, and compares with the run without them.

python tests/combinations/combinations.py              every pair, both ways round, every model
python tests/combinations/combinations.py --pair budget replay --model gpt
"""

import argparse
import functools
import gc
import itertools
import re
import sys
import time
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from library import torch

from combinations.features import FEATURES, LEVELS, SEED
from combinations.models import MODELS
from combinations.refusals import REFUSALS, ROUNDED, ROUNDING

# Two ways of computing the same in float64.
CLOSE = 1e-8
STEPS = 3
BY_NAME = {feature.name: feature for feature in FEATURES}


def levels_of(features):
    """Return the level of each feature, outermost first; None if they cannot nest in this order."""
    for levels in itertools.product(*(feature.levels for feature in features)):
        depths = [LEVELS.index(level) for level in levels]
        if depths == sorted(depths):
            return levels
    return None


def nests(names):
    """Return whether features can nest in this order, outermost first."""
    return levels_of([BY_NAME[name] for name in names]) is not None


# Outermost first.
PAIRS = [pair for pair in itertools.product(BY_NAME, repeat=2) if nests(pair)]
# What has been wrong on one model alone.
KNOWN = [
    ("wide_dropout_net", ("compress", "offload")),
    ("wide_dropout_net", ("offload", "compress int8")),
    ("indices_and_masks", ("compress", "replay")),
    ("maml", ("grad of grad", "vmap")),
    ("lstm", ("offload", "forward mode")),
]


def plain_measure(objective, parameters, x):
    loss = objective(parameters, x)
    loss.backward()
    grads = {name: value.grad for name, value in parameters.items() if value.grad is not None}
    return {"loss": loss.detach(), **grads}


def plain_chain(stages):
    def forward(x):
        for stage in stages:
            x = stage(x)
        return x

    return forward


class Unsound(AssertionError):
    """A combination that is wrong, or refused without being listed."""


def build(level, features, levels, what):
    """Return a part of the computation as those features change it that act at its level."""
    for feature, at in zip(features[::-1], levels[::-1], strict=True):
        if at == level:
            what = getattr(feature, level)(what)
    return what


def compute(model, features, steps=STEPS):
    """Return what a model gives under features, outermost first: the loss and the gradients.

    They are those of the last of a few steps, since what one leaves behind may spoil the next.
    """
    torch.manual_seed(SEED)
    problem = MODELS[model]()
    levels = levels_of(features)
    if levels is None:
        raise ValueError(f"cannot nest {[feature.name for feature in features]} in this order")
    part = functools.partial(build, features=features, levels=levels)
    chain = part("chain", what=plain_chain)

    def forward_of(parameters):
        return chain([part("stage", what=stage) for stage in problem.stages_of(parameters)])

    def loss(parameters, x):
        return problem.loss(forward_of, parameters, x)

    objective = part("objective", what=loss)
    measure = part("measure", what=plain_measure)

    def step(x):
        for parameter in problem.parameters.values():
            parameter.grad = None
        torch.manual_seed(SEED + 1)
        return measure(objective, problem.parameters, x)

    before = [each.detach().clone() for each in (problem.x, *problem.parameters.values())]
    try:
        for number in range(steps):
            x = problem.other if number % 2 else problem.x
            found = part("call", what=functools.partial(step, x))()
            if number + 1 < steps:
                descend(problem.parameters, found)
        return found
    except (RuntimeError, NotImplementedError, ValueError) as error:
        after = [each.detach() for each in (problem.x, *problem.parameters.values())]
        if not all(map(torch.equal, before, after)):
            raise Unsound(f"refused, but something was changed: {error}") from error
        raise


def descend(parameters, found):
    """Change the parameters in place, as an optimizer does."""
    with torch.no_grad():
        for name, parameter in parameters.items():
            if name in found:
                parameter.sub_(found[name].sign(), alpha=0.01)


@functools.cache
def reference(model, names, written_out, steps):
    """Return what the features must not change: of their written-out forms, if asked for."""
    features = [BY_NAME[name] for name in names]
    if written_out:
        features = [feature.written_out() for feature in features]
    return {name: value.clone() for name, value in compute(model, features, steps).items()}


def expected_refusal(model, names):
    """Return the pattern of the refusal that is listed for a combination, or None."""
    for refusal in REFUSALS:
        if refusal.covers(model, names):
            return refusal
    return None


def check(model, names):
    """Run one combination; return "equal", "close" or "refused", or raise Unsound."""
    try:
        return _checked(model, names)
    finally:
        # While a batch lives anywhere, gradients are added out of place, and may round otherwise.
        if "vmap" in names:
            gc.collect()


def _checked(model, names):
    features = [BY_NAME[name] for name in names]
    refusal = expected_refusal(model, names)
    bound = max(feature.bound for feature in features)
    shaping = tuple(feature.name for feature in features if not feature.transparent)
    # What hooks make of gradients, forward mode does not know of.
    comparable = "forward mode" not in names or not MODELS[model]().changes_gradients
    written_out = len(shaping) == len(features) and comparable
    if written_out:
        bound = max(bound, CLOSE, *(feature.sensitivity for feature in features))
    steps = 1 if bound > CLOSE else STEPS  # small differences grow with every step
    try:
        found = compute(model, features, steps)
    except Unsound:
        raise
    except Exception as error:
        if refusal is None:
            raise Unsound(f"refused: {type(error).__name__}: {error}") from error
        if not re.search(refusal.words, str(error)):
            raise Unsound(f"refused in other words than {refusal.words!r}: {error}") from error
        return "refused"
    if refusal is not None and not refusal.sometimes:
        raise Unsound(f"not refused any more: take {refusal} off the list")
    if frozenset(names) in ROUNDED:
        bound = max(bound, ROUNDING)
    compare(found, reference(model, shaping, written_out, steps), bound)
    return "close" if bound > 0 else "equal"


def compare(found, expected, bound):
    """Compare results by name: to the bit, or within a part of their norm."""
    if found.keys() != expected.keys():
        raise Unsound(f"has results {sorted(found)}, expected {sorted(expected)}")
    for name, value in expected.items():
        mine = found[name]
        if mine.shape != value.shape or mine.dtype != value.dtype:
            raise Unsound(f"{name}: {mine.dtype} {tuple(mine.shape)}")
        error = (mine - value).norm().item()
        scale = max(each.norm().item() for each in expected.values()) if bound > CLOSE else 0
        if not error <= bound * max(value.norm().item(), scale):
            raise Unsound(f"{name}: off by {error:.3g}, of {value.norm().item():.3g}")


def short_form():
    """Yield (model, pair): every pair on one model, taken in turn, and what has been wrong."""
    yield from KNOWN
    yield from zip(itertools.cycle(MODELS), PAIRS)


def full_form():
    """Yield (model, features): every feature alone, and every pair."""
    alone = [(name,) for name in BY_NAME]
    for model in MODELS:
        for names in (*alone, *PAIRS):
            yield model, names


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pair", nargs="+", help="only these features, outermost first")
    parser.add_argument("--model", action="append", help="only this model")
    options = parser.parse_args()
    counts, begun = Counter(), time.perf_counter()
    for model, names in full_form():
        if options.model and model not in options.model:
            continue
        if options.pair and names != tuple(options.pair):
            continue
        try:
            counts[check(model, names)] += 1
        except Unsound as error:
            counts["wrong"] += 1
            print(f"{model}: {' in '.join(names[::-1])}: {error}", flush=True)
    seconds = time.perf_counter() - begun
    print(
        f"combinations: {sum(counts.values())} of {len(BY_NAME)} features in pairs on "
        f"{len(MODELS)} models: {counts['equal']} equal to the bit, {counts['close']} within "
        f"their tolerance, {counts['refused']} refused in words, {counts['wrong']} wrong, in "
        f"{seconds:.0f} s"
    )
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
