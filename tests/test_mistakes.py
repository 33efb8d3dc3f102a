"""Errors of common mistakes: at least as helpful as PyTorch's, of the same type, as documented."""

import importlib.util
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import mistakes
import pytest

HERE = Path(__file__).parent
RECORDED = json.loads(mistakes.MESSAGES.read_text("utf-8"))
LINES = [line for rows in mistakes.MISTAKES.values() for _, line in rows]
# Numbers that say nothing of the values: which argument it was, how many are missing.
COUNTS = re.compile(r"\(position \d+\)|missing \d|argument (#\d|\d)|takes \d|PyTorch \d\.\d")
# PyTorch's message lists all forms of the call, or how unsafe files could be loaded.
LISTS = ("invalid combination of arguments", "Weights only load failed")


@cache
def asked(library):
    """Return what a library says, by the line that makes the mistake."""
    command = [sys.executable, "-W", "ignore", HERE / "mistakes.py", library]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_there_are_at_least_sixty():
    assert len(LINES) == len(set(LINES)) >= 60
    assert set(LINES) == RECORDED.keys()


@pytest.mark.parametrize("line", LINES)
def test_message_is_the_documented_one(line):
    said, kinds = asked("tapegrad")[line]
    assert said == RECORDED[line]["tapegrad"]
    assert RECORDED[line]["torch"].partition(":")[0] in kinds


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="PyTorch is not installed")
def test_messages_of_pytorch_are_the_documented_ones():
    assert {line: text for line, (text, _) in asked("torch").items()} == {
        line: row["torch"] for line, row in RECORDED.items()
    }


@pytest.mark.parametrize("line", LINES)
def test_message_says_what_pytorch_says(line):
    theirs, ours = RECORDED[line]["torch"], RECORDED[line]["tapegrad"]
    assert "incompatible function" not in ours
    assert "supported:" not in ours
    if any(mark in theirs for mark in LISTS):
        return
    shapes = set(re.findall(r"\d+", COUNTS.sub("", theirs)))
    assert shapes <= set(re.findall(r"\d+", ours)), "a size or an index is not told"
    names = set(re.findall(r"'([a-z_]+)'", theirs)) | set(re.findall(r'"([a-z_]+)"', theirs))
    assert {name for name in names - {"torch", "np"} if name not in ours} == set()


def test_page_is_up_to_date():
    command = [sys.executable, HERE.parent / "scripts" / "make_mistakes_page.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
