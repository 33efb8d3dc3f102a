"""Fixtures shared by all tests, and the check that a whole run leaves nothing alive."""

import gc
import sys
from pathlib import Path

import pytest
from library import IS_TORCH, torch

HERE = Path(__file__).parent
NOTHING = (0, 0)
LEAKS = pytest.StashKey[list]()


@pytest.fixture(autouse=True)
def fresh_state():
    """Start every test from the same seed, with recording on and the usual default dtype."""
    torch.manual_seed(0)
    yield
    assert torch.is_grad_enabled(), "a test left gradient recording off"
    assert not torch.is_autocast_enabled("cpu"), "a test left autocast on"
    assert torch.get_default_dtype() is torch.float32, "a test left another default dtype"


@pytest.fixture(autouse=True, scope="module")
def quick_collections():
    """Put what pytest holds out of the collector's reach: tests, and a report of each that has run.

    Many tests collect garbage, and each collection would look at a million objects for a second.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """Fail a run after which tensors or tape entries live on.

    Under xdist the workers run the tests. Their exit status is not heard, so each sends its counts
    with its farewell, and the controller, which holds no tensors, fails the run.
    """
    leaks = session.config.stash.setdefault(LEAKS, [])
    if not IS_TORCH:
        counts = live_counts_without_tests()
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["live_counts"] = counts
        elif counts != NOTHING:
            leaks.append(("this process", counts))
    if leaks:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Take a worker's counts; a worker that crashed sends none, and its tests fail anyway."""
    counts = tuple(getattr(node, "workeroutput", {}).get("live_counts", NOTHING))
    if counts != NOTHING:
        node.config.stash.setdefault(LEAKS, []).append((f"worker {node.gateway.id}", counts))


def pytest_terminal_summary(terminalreporter, config):
    for where, (tensors, entries) in config.stash.get(LEAKS, []):
        terminalreporter.write_line(
            f"LEAK: {tensors} tensors and {entries} tape entries outlive the tests in {where}",
            red=True,
        )


def live_counts_without_tests():
    """Return the numbers of live tensors and tape entries once the test modules hold none."""
    for name in ("last_exc", "last_value", "last_traceback"):
        if hasattr(sys, name):  # The last failure's frames hold its tensors.
            delattr(sys, name)
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if path and HERE in Path(path).parents and path != __file__:
            vars(module).clear()
    gc.unfreeze()
    gc.collect()
    return tuple(torch._C.live_counts())
