"""Fixtures of the tests of the tape."""

import gc
import sys

import pytest

from .offload_cases import offload_threads


@pytest.fixture(autouse=True)
def nothing_stays():
    """No thread outlives the values that it is for, and no value its graph."""
    yield
    records = sys.modules.get("tapegrad.tape._offload_records")
    if records is None or not (records.records or offload_threads()):
        return
    gc.collect()
    for thread in offload_threads():
        thread.join(10)
    assert offload_threads() == []
    assert not records.records
