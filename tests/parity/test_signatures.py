"""Parameters of what both libraries have are PyTorch's: names, order, kinds and defaults."""

import re

import pytest
from library import IS_TORCH, pytorch_for_parity

if IS_TORCH or pytorch_for_parity()[0] is None:
    pytest.skip(pytorch_for_parity()[1] or "nothing to compare", allow_module_level=True)

from parity import signatures
from parity.signature_deviations import DEVIATIONS, MOST
from parity.signatures import Parameter, problem
from tapegrad.compat import coverage

LEAST_COMPARED = 2000


def fits(words, path):
    return re.fullmatch(words, path.removeprefix("torch."))


def reason_of(path):
    return next((reason for words, reason in DEVIATIONS.items() if fits(words, path)), None)


@pytest.fixture(scope="module")
def compared():
    """Return what was found of each name, with the number of names that were compared."""
    found, count = {}, 0
    for path in coverage.names():
        if coverage.is_there(path) and signatures.is_callable(path):
            count += 1
            if differences := signatures.compared(path):
                found[path] = differences
    return found, count


@pytest.mark.filterwarnings("ignore")
def test_signatures(compared):
    found, count = compared
    assert count >= LEAST_COMPARED
    unexplained = [
        f"{path}: {why}\n    PyTorch {theirs}\n    here    {ours}"
        for path, differences in found.items()
        if reason_of(path) is None
        for theirs, ours, why in differences
    ]
    assert not unexplained, "\n".join(unexplained)


@pytest.mark.filterwarnings("ignore")
def test_deviations_are_few_and_needed(compared):
    found, _ = compared
    assert len(found) <= MOST
    unused = [w for w in DEVIATIONS if not any(fits(w, path) for path in found)]
    assert not unused


def parameters(text):
    return signatures.of_text(text)


@pytest.mark.parametrize(
    ("theirs", "ours", "expected"),
    (
        ("a, b", "a, b", ""),
        ("a, b", "a, c", "c stands where b does"),
        ("a, b=1", "a, b", "b is required"),
        ("a, b=1", "a, b=2", "b is 2.0 by default, not 1.0"),
        ("a, b=1", "a, b=1.0, *, c=3", ""),
        ("a", "a, b", "more parameters are required"),
        ("a, *, out=None", "a", "no out"),
        ("a, b", "a, *, b", "no positional b"),
        ("a, *, b", "a, b", ""),
        ("*size", "a", "no *size"),
        ("a", "*args", ""),
        ("dim=None", "dim=()", ""),
    ),
)
def test_problem(theirs, ours, expected):
    assert problem(parameters(theirs), parameters(ours)) == expected


def test_text():
    assert signatures.text_of((Parameter("a", "positional", "required"),)) == "(a)"
    assert signatures.text_of(parameters("a, *, b=1")) == "(a, *, b=1.0)"
