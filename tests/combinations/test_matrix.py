"""Everything that intervenes between an op and its kernel, or between an entry and what it saves,
in pairs: each pair on eleven small models against the run without it.

The matrix below is the claim. Its rows stand outside and its columns inside: the cell (budget,
vmap) is a vmap that runs under a budget, and (vmap, budget) a budget inside the function that is
mapped.

    =  equal to the bit to the run without those that must change nothing
    ~  within the tolerance of `combinations.py`: the same derivative, computed in another way
       (1e-8 of its norm, in float64; 10 % with autocast, which rounds to bfloat16), or sums in
       another order (1e-12)
    <  within the error that the lossy coding states
    x  refused, in the words and for the reason that `refusals.py` lists
    .  cannot nest like this: a replay is of a whole step

What a single model cannot do (differentiate a function twice that is differentiable once) is listed
in `refusals.py`, too.
"""

import pytest
from library import IS_TORCH

if IS_TORCH:
    pytest.skip("the tape is tapegrad's own", allow_module_level=True)

from . import combinations
from .combinations import BY_NAME, Unsound, check, expected_refusal, nests

MODELS = (
    *("gpt", "unet", "lstm", "dropout_net", "weight_tied", "wgan_gp", "maml", "hooks"),
    *("views_in_place", "channels_last", "indices_and_masks"),
)

MATRIX = """
                        vm  gg  fm  ch  sc  bu  ce  c8  of  re  pr  ac
vmap                     ~   ~   ~   ~   ~   =   =   <   =   .   =   ~
grad of grad             ~   ~   ~   =   =   =   =   <   =   .   =   ~
forward mode             ~   ~   ~   =   =   =   =   <   =   .   =   ~
checkpoint               ~   =   =   =   =   =   =   <   =   .   =   =
selective checkpoint     ~   =   =   =   =   =   =   <   =   .   =   =
budget                   =   =   =   =   =   =   =   <   =   =   =   =
compress                 =   =   =   =   =   =   =   <   =   =   =   =
compress int8            <   <   <   <   <   <   <   <   <   <   <   <
offload                  =   =   =   =   =   =   =   <   =   =   =   =
replay                   =   ~   =   =   =   =   =   <   =   x   =   =
profile                  =   =   =   =   =   =   =   <   =   =   x   =
autocast                 ~   ~   ~   =   =   =   =   <   =   .   =   ~
"""
OUTCOMES = {"=": ["equal"], "~": ["close", "equal"], "<": ["close"], "x": ["refused"]}


def cells():
    """Yield (outer, inner, sign) of the matrix."""
    _, *rows = MATRIX.strip().splitlines()
    names = [row[:24].strip() for row in rows]
    for outer, row in zip(names, rows, strict=True):
        for inner, sign in zip(names, row[24:].split(), strict=True):
            yield outer, inner, sign


@pytest.fixture(autouse=True, scope="module")
def forget_references():
    yield
    combinations.reference.cache_clear()


@pytest.mark.parametrize("model", MODELS)
def test_matrix(model):
    wrong = []
    for *names, sign in cells():
        if sign == ".":
            continue
        refusal = expected_refusal(model, names)
        expected = ["refused"] if refusal is not None and refusal.models else OUTCOMES[sign]
        try:
            outcome = check(model, tuple(names))
        except Unsound as error:
            outcome = str(error)
        if outcome not in expected:
            wrong.append(f"{names[1]} in {names[0]}: not {' or '.join(expected)}: {outcome}")
    assert not wrong, "\n".join(wrong)


def test_the_matrix_is_whole():
    """Every feature that it is about is there, and only what cannot nest is left out."""
    assert {outer for outer, _, _ in cells()} == {inner for _, inner, _ in cells()}
    assert {outer for outer, _, _ in cells()} < BY_NAME.keys()
    assert len(set(MODELS)) == 11
    for outer, inner, sign in cells():
        assert nests((outer, inner)) is (sign != "."), (outer, inner)
        lossy = max(BY_NAME[outer].bound, BY_NAME[inner].bound) > 0
        assert (sign == "<") is lossy, (outer, inner)
