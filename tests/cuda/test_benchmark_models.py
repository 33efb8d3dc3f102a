"""The models that benchmarks train, on the device: the values of the CPU."""

import pytest
from library import torch
from test_benchmark_models import ROOT, report  # noqa: F401

from benchmarks.cuda_models.cases import all_cases
from benchmarks.cuda_models.work import Setting


@pytest.mark.parametrize("row", list(all_cases()))
def test_values_of_the_cpu(row):
    case = all_cases()[row]
    there = case.run(Setting(torch, "cuda", is_tiny=True))
    assert there["seconds"] > 0
    if case.is_ours:
        assert there["is_same"]
        return
    here = case.run(Setting(torch, "cpu", is_tiny=True))
    apart = report.difference({"tapegrad": there, "torch": here})
    assert apart <= case.tolerance, (there["values"], here["values"])
    if case.make is not None:
        assert there["memory"] > 0 and there["limit"] == pytest.approx(here["limit"])
