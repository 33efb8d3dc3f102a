"""Pytest parameters from the op database, and the check of a whole answer against its row."""

import dtypes as dt
import pytest
from checks import assert_result
from op_db import OPS
from op_db.row import expected, result_dtype, results


def each(test, *, having=lambda op: True, dtypes=lambda op: op.dtypes):
    """Parametrize a test as ``[tanh-float32]`` over the rows that have what the test needs."""
    cases = []
    for op in filter(having, OPS):
        for dtype in dtypes(op):
            cases.append(
                pytest.param(op, dtype, id=f"{op.name}-{dtype}", marks=skip(op, test, dtype))
            )
    return pytest.mark.parametrize(("op", "dtype"), cases)


def each_op(test, *, having=lambda op: True):
    """Parametrize a test as ``[tanh]``."""
    cases = [pytest.param(op, id=op.name, marks=skip(op, test)) for op in filter(having, OPS)]
    return pytest.mark.parametrize("op", cases)


def skip(op, test, dtype=""):
    reason = op.skip_reason(test, dtype)
    return [pytest.mark.skip(reason=reason)] if reason else []


def first_dtype(op):
    """Choose the one dtype in which a row's layouts and variants are tried."""
    return op.dtypes[:1]


def assert_answer(op, sample, answer, context="", *, dtypes=None):
    """Check all results of a call: number, dtypes, shapes and values."""
    context = f"for {op.name}{sample} {context}"
    wanted, found = expected(op, sample), results(answer)
    assert len(found) == len(wanted), f"{len(found)} results, wanted {len(wanted)} {context}"
    promised = dtypes or result_dtype(op, sample)
    promised = promised * len(found) if len(promised) == 1 else promised
    for result, value, dtype in zip(found, wanted, promised, strict=True):
        assert dt.name_of(result.dtype) == dtype, f"dtype {result.dtype}, wanted {dtype} {context}"
        assert_result(result, value, op.tolerance, context)
