"""How cuBLASLt is found and called, with a stand-in that reads the memory of the emulator."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tapegrad.cuda._blas import find_cublaslt

HERE = Path(__file__).parent
MULTIPLY = "import tapegrad as torch; x = torch.ones(2, 2, device='cuda'); print((x @ x).tolist())"


def run(*command, library):
    environment = {**os.environ, "TAPEGRAD_CUBLASLT": str(library)}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    path = tmp_path_factory.mktemp("blas") / "libstand_in.so"
    compiler = os.environ.get("CXX", "g++").split()
    source = HERE / "blas_stand_in.cpp"
    options = ("-std=c++20", "-O1", "-fPIC", "-shared", "-o", str(path), "-ldl")
    subprocess.run([*compiler, str(source), *options], check=True)
    return path


def test_products_are_described_by_columns(stand_in, emulator):
    """All tests of matrix products, by a library that computes what it was asked for."""
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly")
    done = run(*command, str(HERE / "test_matmul.py"), "-k", "cublaslt", library=stand_in)
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout


def test_epilogues(stand_in, emulator):
    """All tests of products that are merged with GELU, by the same library."""
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly")
    os.environ.setdefault("TAPEGRAD_TEST_CUDA", "all")
    done = run(
        *command,
        str(HERE / "test_merged_products.py"),
        str(HERE / "test_unmerged_products.py"),
        library=stand_in,
    )
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout


def test_a_library_that_is_missing(emulator):
    done = run(sys.executable, "-c", MULTIPLY, library="/no/such/library.so")
    assert done.returncode != 0
    assert "RuntimeError: cuda: cuBLASLt, which multiplies matrices, cannot be used" in done.stderr
    assert "/no/such/library.so" in done.stderr
    assert "pip install --upgrade tapegrad[cuda]" in done.stderr


def test_a_library_that_is_something_else(emulator):
    done = run(sys.executable, "-c", MULTIPLY, library="libc.so.6")
    assert "libc.so.6 has no function cublasLtGetVersion" in done.stderr


def test_what_is_looked_for(monkeypatch, emulator):
    monkeypatch.setenv("TAPEGRAD_CUBLASLT", "chosen.so")
    assert find_cublaslt() == ["chosen.so"]
    monkeypatch.delenv("TAPEGRAD_CUBLASLT")
    assert find_cublaslt() == []  # the emulator stands in for the driver
    monkeypatch.delenv("TAPEGRAD_CUDA_DRIVER")
    monkeypatch.setattr("tapegrad.cuda._blas._is_loadable", lambda name: name.endswith("12"))
    assert find_cublaslt()[-1] == "libcublasLt.so.12"
    monkeypatch.setattr("tapegrad.cuda._blas._is_loadable", lambda name: False)
    monkeypatch.setattr("tapegrad.cuda._blas._wheels", list)
    with pytest.warns(UserWarning, match=r"pip install tapegrad\[cuda\]"):
        assert find_cublaslt() == []
