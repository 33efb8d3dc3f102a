"""``make``: what each target installs, and that it is installed once."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from library import IS_TORCH

ROOT = Path(__file__).parents[1]
BUILD = "pip install ."
TEST_EXTRAS = "pip install 'tapegrad[test]'"
TRAIN = ".venv/bin/tapegrad train"

# Without what `make test` itself has put there: it would be told that it runs inside another one.
ENVIRONMENT = {name: value for name, value in os.environ.items() if "MAKE" not in name}

if IS_TORCH:
    pytest.skip("the Makefile is tapegrad's own", allow_module_level=True)
if shutil.which("make") is None:
    pytest.skip("make is not installed", allow_module_level=True)


@pytest.fixture
def clone(tmp_path):
    """Give a folder with what `make` looks at."""
    for name in ("Makefile", "pyproject.toml", "CMakeLists.txt"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("csrc/core/tensor.cpp", "tapegrad/__init__.py", ".venv/bin/python"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    return tmp_path


def make(clone, *arguments):
    return subprocess.run(
        ["make", *arguments], cwd=clone, env=ENVIRONMENT, capture_output=True, text=True
    )


def commands(clone, target):
    """Return what a target would run, and pretend that it has run: its stamps are set."""
    done = make(clone, "-n", target)
    done.check_returncode()
    lines = done.stdout.splitlines()
    for line in lines:
        if line.startswith("touch "):
            (clone / line.removeprefix("touch ")).touch()
    return "\n".join(line.removeprefix(".venv/bin/python -m ") for line in lines).splitlines()


def change(path):
    later = time.time() + 10  # some file systems tell no shorter times apart than a second
    os.utime(path, (later, later))


def test_packages_have_an_environment_of_their_own(clone):
    lines = commands(clone, "test-packages")
    assert lines[:2] == [BUILD, "touch .venv/.installed"]
    assert lines[-2] == ".venv/bin/python scripts/package_stage.py install .venv-packages"
    assert f"TAPEGRAD_PACKAGES_PYTHON={clone}/.venv-packages/bin/python" in lines[-1]
    assert lines[-1].endswith("tests/packages")


def test_train_installs_only_what_training_needs(clone):
    assert commands(clone, "train")[:3] == [BUILD, "touch .venv/.installed", TRAIN]


def test_test_installs_the_test_extras_behind_the_package(clone):
    run = commands(clone, "test")
    assert run.index(BUILD) < run.index(TEST_EXTRAS) < len(run) - 1
    assert run[-1].startswith(".venv/bin/pytest")


@pytest.mark.parametrize("first", ["train", "test", "install"])
def test_nothing_is_installed_twice(clone, first):
    commands(clone, first)
    commands(clone, "test")
    for target in ("train", "test", "install", "train", "test", "stubs"):
        assert not [line for line in commands(clone, target) if "pip install" in line]


def test_a_changed_source_is_built_again_and_the_extras_stay(clone):
    commands(clone, "test")
    change(clone / "csrc/core/tensor.cpp")
    assert [line for line in commands(clone, "test") if "pip" in line] == [BUILD]


def test_changed_requirements_are_installed_again(clone):
    commands(clone, "test")
    change(clone / "pyproject.toml")
    assert [line for line in commands(clone, "test") if "pip" in line] == [BUILD, TEST_EXTRAS]


@pytest.mark.parametrize("target", ["install", "train"])
def test_the_last_words_say_how_to_use_it(clone, target):
    """As a newcomer's shell does not find the command."""
    assert "source .venv/bin/activate" in commands(clone, target)[-1]


def test_an_environment_that_could_not_be_made_is_made_again(clone):
    """Debian's venv leaves one without pip where the package python3-venv is missing."""
    (clone / ".venv" / "bin" / "python").unlink()
    (clone / "broken").write_text("#!/bin/sh\nln -s /bin/sh .venv/bin/python\nexit 1\n")
    (clone / "broken").chmod(0o755)
    for _ in range(2):
        done = make(clone, "install", "PYTHON=./broken")
        assert done.returncode == 2
        assert done.stdout.splitlines()[0] == "./broken -m venv .venv"
