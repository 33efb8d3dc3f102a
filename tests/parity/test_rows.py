"""Calls of PyTorch's op database give in both libraries the same, or differ for a stated reason.

`rows.py` beside it is the long form; docs/parity.md says what is compared.
"""

import warnings

import pytest
from library import IS_TORCH, pytorch_for_parity, torch

if IS_TORCH or pytorch_for_parity()[0] is None:
    pytest.skip(pytorch_for_parity()[1] or "nothing to compare", allow_module_level=True)

from parity import deviations
from parity.pytorch_ops import infos, pytorch
from parity.rows import DTYPES, Forms, compare_row

SAMPLES = 2  # of a row and a dtype
# Callables that are compared, and functions among them: neither number falls unseen.
LEAST_CALLABLES = 1_090
LEAST_FUNCTIONS = 540
ROWS = sorted(name for name in infos() if not deviations.is_left_out(name))


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small calls are compared: threads would only wait for each other."""
    before = torch.get_num_threads(), pytorch.get_num_threads()
    torch.set_num_threads(1)
    pytorch.set_num_threads(1)
    yield
    torch.set_num_threads(before[0])
    pytorch.set_num_threads(before[1])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ROWS)
def test_row(name):
    unexplained = []
    for dtype in DTYPES:
        for form, call, found in compare_row(name, dtype, SAMPLES):
            if found and deviations.find(name, dtype, form, call, found) is None:
                unexplained.append(f"{dtype} {form} {call}\n    {found}")
    assert not unexplained, "\n".join(unexplained[:20])


def test_rows_are_many():
    callables, functions = 0, set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ROWS:
            pairs = Forms(infos()[name]).pairs
            callables += sum(mine is not None for mine, _ in pairs.values())
            if pairs["function"][0] is not None:
                functions.add(infos()[name].name)
    assert callables >= LEAST_CALLABLES, callables
    assert len(functions) >= LEAST_FUNCTIONS, len(functions)


def test_deviations_are_few_and_reasoned():
    assert len(deviations.DEVIATIONS) <= deviations.MOST
    assert all(len(each.reason) > 8 for each in deviations.DEVIATIONS)
    named = {row for each in deviations.DEVIATIONS for row in each.rows}
    assert not {row for row in named if not any(deviations.fits(row, name) for name in infos())}


def test_rows_that_are_left_out_have_reasons():
    for pattern, reason in deviations.LEFT_OUT.items():
        assert len(reason) > 8, pattern
        assert any(deviations.fits(pattern, name) for name in infos()), pattern
