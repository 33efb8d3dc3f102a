"""How cuDNN is found and called, with a stand-in that reads the memory of the emulator."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tapegrad.cuda._dnn import find_cudnn

HERE = Path(__file__).parent
CONVOLVE = """
import tapegrad as torch
x = torch.ones(1, 1, 3, 3, device="cuda")
print(torch.nn.functional.conv2d(x, x).tolist(), torch.backends.cudnn.version())
torch.nn.functional.conv2d(x, x)
"""


def run(*command, library):
    environment = {**os.environ, "TAPEGRAD_CUDNN": str(library), "TAPEGRAD_TEST_CUDA": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    path = tmp_path_factory.mktemp("dnn") / "libstand_in.so"
    compiler = os.environ.get("CXX", "g++").split()
    source = HERE / "dnn_stand_in.cpp"
    options = ("-std=c++20", "-O1", "-fPIC", "-shared", "-o", str(path), "-ldl")
    subprocess.run([*compiler, str(source), *options], check=True)
    return path


@pytest.mark.parametrize("file", ["test_conv_cudnn.py", "test_conv.py"])
def test_convolutions_are_described_as_they_lie(stand_in, emulator, file):
    """All tests of convolutions, by a library that computes what it was asked for."""
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly")
    done = run(*command, str(HERE / file), library=stand_in)
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout


def test_a_library_that_is_missing(emulator):
    done = run(sys.executable, "-c", CONVOLVE, library="/no/such/library.so")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[[[[9.0]]]] None\n"
    assert done.stderr.count("UserWarning: cuda: cuDNN cannot be used") == 1
    assert "/no/such/library.so" in done.stderr
    assert "pip install --upgrade tapegrad[cuda]" in done.stderr


def test_a_library_that_is_something_else(emulator):
    done = run(sys.executable, "-c", CONVOLVE, library="libc.so.6")
    assert done.stdout == "[[[[9.0]]]] None\n"
    assert "libc.so.6 has no function cudnnGetVersion" in done.stderr


def test_a_library_that_is_not_used(emulator):
    text = "import tapegrad as torch; torch.backends.cudnn.enabled = False\n" + CONVOLVE
    done = run(sys.executable, "-c", text, library="/no/such/library.so")
    assert done.stdout == "[[[[9.0]]]] None\n"
    assert not done.stderr


def test_what_is_looked_for(monkeypatch, emulator):
    monkeypatch.setenv("TAPEGRAD_CUDNN", "chosen.so")
    assert find_cudnn() == ["chosen.so"]
    monkeypatch.delenv("TAPEGRAD_CUDNN")
    assert find_cudnn() == []  # the emulator stands in for the driver
    monkeypatch.delenv("TAPEGRAD_CUDA_DRIVER")
    monkeypatch.setattr("tapegrad.cuda._dnn._wheels", lambda: ["wheel/libcudnn.so.9"])
    assert find_cudnn() == ["wheel/libcudnn.so.9", "libcudnn.so.9"]
