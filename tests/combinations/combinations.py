"""Runs features in pairs on models, and compares with the run without them.

python tests/combinations/combinations.py              every pair, both ways round, every model
python tests/combinations/combinations.py --pair budget replay --model gpt
"""

import argparse
import contextlib
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

from combinations.features import FEATURES, SEED
from combinations.models import MODELS
from combinations.refusals import REFUSALS, ROUNDED, ROUNDING

# Two ways of computing the same in float64.
CLOSE = 1e-8
STEPS = 3
BY_NAME = {feature.name: feature for feature in FEATURES}
PAIRS = list(itertools.combinations(BY_NAME, 2))
# What has been wrong on one model alone.
KNOWN = [
    ("wide_dropout_net", ("compress", "offload")),
    ("wide_dropout_net", ("offload", "compress int8")),
    ("indices_and_masks", ("compress", "replay")),
    ("maml", ("create_graph", "vmap")),
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


def compute(model, features, steps=STEPS):
    """Return what a model gives under features, outermost first: the loss and the gradients.

    They are those of the last of a few steps, since what one leaves behind may spoil the next.
    """
    torch.manual_seed(SEED)
    problem = MODELS[model]()
    inner_first = features[::-1]
    chain, measure = plain_chain, plain_measure
    for feature in inner_first:
        chain, measure = feature.chain(chain), feature.measure(measure)

    def forward_of(parameters):
        stages = problem.stages_of(parameters)
        for feature in inner_first:
            stages = [feature.wrap(stage) for stage in stages]
        return chain(stages)

    def objective(parameters, x):
        return problem.loss(forward_of, parameters, x)

    for feature in inner_first:
        objective = feature.objective(objective)

    def step(x):
        for parameter in problem.parameters.values():
            parameter.grad = None
        with contextlib.ExitStack() as blocks:
            for feature in features:
                blocks.enter_context(feature.around())
            torch.manual_seed(SEED + 1)
            return measure(objective, problem.parameters, x)

    before = [each.detach().clone() for each in (problem.x, *problem.parameters.values())]
    try:
        for number in range(steps):
            x = problem.other if number % 2 else problem.x
            found = call(features, functools.partial(step, x))
            if number + 1 < steps:
                descend(problem.parameters, found)
        return found
    except (RuntimeError, NotImplementedError, ValueError) as error:
        after = [each.detach() for each in (problem.x, *problem.parameters.values())]
        if not all(map(torch.equal, before, after)):
            raise Unsound(f"refused, but something was changed: {error}") from error
        raise


def call(features, step):
    """Take a step, called as the features ask for."""
    for feature in features[::-1]:
        step = functools.partial(feature.call, step)
    return step()


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
    """Run one combination; return "same" or "refused", or raise Unsound."""
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
    steps = 1 if bound > 0 else STEPS  # where steps differ, the way parts
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
    shaping = tuple(feature.name for feature in features if not feature.transparent)
    if frozenset(names) in ROUNDED:
        bound = max(bound, ROUNDING)
    # What hooks make of gradients, forward mode does not know of.
    comparable = "forward mode" not in names or not MODELS[model]().changes_gradients
    if len(shaping) == len(features) and comparable:
        compare(found, reference(model, shaping, True, steps), max(bound, CLOSE))
    else:
        compare(found, reference(model, shaping, False, steps), bound)
    return "same"


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
    """Yield (model, pair): every pair on one model, models and nestings taken in turn, and more."""
    yield from KNOWN
    models = itertools.cycle(MODELS)
    for number, pair in enumerate(PAIRS):
        yield next(models), pair if number % 2 else pair[::-1]


def full_form():
    """Yield (model, features): every feature alone, and every pair both ways round."""
    alone = [(name,) for name in BY_NAME]
    for model in MODELS:
        for names in (*alone, *PAIRS, *(pair[::-1] for pair in PAIRS)):
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
        f"{len(MODELS)} models: {counts['same']} the same, {counts['refused']} refused in words, "
        f"{counts['wrong']} wrong, in {seconds:.0f} s"
    )
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
