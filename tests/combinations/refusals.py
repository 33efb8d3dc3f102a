"""Combinations that are refused, in which words, and why; and those that round in another order.

Both are data, and few: their number is capped by a test. An entry is taken off when the combination
works.
"""

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """That some features are refused together."""

    features: tuple  # a combination with all of these, in any order, is refused
    words: str  # a pattern of what the error says
    reason: str
    models: tuple = ()  # which are concerned; none means all
    sometimes: bool = False  # depends on the other features

    def covers(self, model, names):
        return Counter(self.features) <= Counter(names) and (
            not self.models or model in self.models
        )


def refusal(features, words, reason, models=(), sometimes=False):
    return Refusal(tuple(features), words, reason, tuple(models), sometimes)


REFUSALS = (
    refusal(
        ["revolve"],
        "revolve: expected step 0 to use nothing with a history but its state and args",
        "the weights that MAML adapts have a history, and are not passed with args",
        models=["maml"],
        sometimes=True,
    ),
    refusal(
        ["revolve", "autocast"],
        "revolve: expected step 0 to use nothing with a history but its state and args",
        "parameters that are cast to float32 first have a history, and are not passed with args",
        sometimes=True,
    ),
    refusal(
        ["vmap"],
        "lerp: vmap: inplace arithmetic is not possible",
        "batch norm updates its running statistics, which are not vmapped over",
        models=["residual"],
    ),
    refusal(
        ["replay", "replay"],
        "capture: another capture is active on this thread",
        "what runs is recorded once; a block inside another would have to be a part of its program",
    ),
    refusal(
        ["profile", "profile"],
        "profile: a profiler is already running on this thread",
        "as in PyTorch, a thread has one profiler",
    ),
    *(
        refusal(
            [name],
            "differentiate twice a function that was marked with @once_differentiable",
            "the adjoint method is differentiable once",
            models=["ode_adjoint"],
        )
        for name in ("forward mode", "grad of grad")
    ),
)

# How far results may be off, as a part of their norm, where sums are made in another order.
ROUNDING = 1e-12
ROUNDED = {
    frozenset(["revolve", "grad of grad"]): "a loop that is recorded whole adds up apart from it",
    frozenset(["replay", "grad of grad"]): "what is captured is held: no gradient takes its place",
    # A clone of the argument has the same effect without any of these.
    **{
        frozenset(["vmap", name]): "elements of a recomputed batch lie at other distances, and a "
        "product over them is made in other parts"
        for name in ("checkpoint", "selective checkpoint", "revolve")
    },
}
