"""Function transforms inside one another, over every differentiable op; see `compositions`."""

import pytest
from cases import each_op
from library import IS_TORCH
from op_db import BY_NAME

from . import transform_programs
from .compositions import check, check_reference, compositions, few, is_covered

pytestmark = pytest.mark.skipif(IS_TORCH, reason="compares tapegrad's transforms with each other")

# Between them, all ways in which derivatives are written: with inputs, with the output, with both.
WHOLE = ("exp", "mul", "cumprod")
PROGRAMS, BATCH = 200, 20


@each_op("test_compositions", having=is_covered)
def test_compositions(op):
    reports = check(op, few(op))
    assert not reports, reports


@pytest.mark.parametrize("name", WHOLE)
def test_all_compositions(name):
    shallow = [composition for composition in compositions() if len(composition) < 3]
    reports = check(BY_NAME[name], shallow)
    assert not reports, reports


@each_op("test_reference", having=lambda op: is_covered(op) and op.gradient_order >= 2)
def test_reference(op):
    """What compositions are compared with is what finite differences give."""
    check_reference(op)


@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_programs(first):
    reports = [transform_programs.check(seed) for seed in range(first, first + BATCH)]
    assert not any(reports), [report for report in reports if report]
