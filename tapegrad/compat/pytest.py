"""A plugin that runs tests written for torch: ``pytest -p tapegrad.compat.pytest tests``.

Nothing else is needed: ``import torch`` means tapegrad from before the first test is collected.
``--torch-report`` lists at the end which names of torch were asked for and are not there.
"""

from pathlib import Path
from typing import Any

import _pytest
import pytest

from tapegrad._version import __version__
from tapegrad.compat import torch as switch


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    switch.install()
    switch.install_in_children()


def pytest_addoption(parser: Any) -> None:
    parser.getgroup("tapegrad").addoption(
        "--torch-report",
        action="store_true",
        help="list the names of torch that were asked for and are not there",
    )


def pytest_report_header(config: Any) -> str:
    return f"torch is tapegrad {__version__}"


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    if config.getoption("--torch-report"):
        terminalreporter.section("torch")
        terminalreporter.write(switch.report(besides=str(Path(_pytest.__file__).parent)))
