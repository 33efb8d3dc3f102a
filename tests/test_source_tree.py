"""``import tapegrad`` in a clone, where the source hides the package that is installed."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the source tree is tapegrad's own", allow_module_level=True)

BUILT = Path(torch.__file__).parent
POISON = "raise RuntimeError('this part was taken from the source')\n"
PRINT_FILES = "print(tapegrad.__file__, tapegrad.nn.__file__, tapegrad, sep='\\n')"


@pytest.fixture
def clone(tmp_path):
    """Give a folder with a source that is not built, most of which may not be imported."""
    package = tmp_path / "tapegrad"
    for part in ("nn", "cli"):
        (package / part).mkdir(parents=True)
        (package / part / "__init__.py").write_text(POISON)
    for name in ("__main__.py", "_tensor.py", "_types.py"):
        (package / name).write_text(POISON)
    for name in ("__init__.py", "_source_tree.py"):
        shutil.copy(BUILT / name, package)
    return tmp_path


@pytest.fixture
def python(clone):
    """Give a function that runs Python in the clone: exit status, output, errors."""

    def run(*words, installed=True):
        # Without site-packages where nothing is to be installed; -I would leave out the clone, too.
        options = [] if installed else ["-S"]
        environment = os.environ | {"PYTHONPATH": str(BUILT.parent) if installed else ""}
        done = subprocess.run(
            [sys.executable, *options, *words],
            cwd=clone,
            env=environment,
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout, done.stderr

    return run


def lines_about(package):
    """Return what PRINT_FILES prints for a package."""
    init = package / "__init__.py"
    return [str(init), str(package / "nn" / "__init__.py"), f"<module 'tapegrad' from '{init}'>"]


class TestInstalled:
    @pytest.mark.parametrize(
        "statement",
        [
            "import tapegrad",
            "import tapegrad.nn",
            "from tapegrad.nn import functional; import tapegrad",
        ],
    )
    def test_all_parts_are_those_installed(self, python, statement):
        status, out, errors = python("-c", f"{statement}\n{PRINT_FILES}")
        assert (status, errors) == (0, "")
        assert out.splitlines() == lines_about(BUILT)

    def test_it_computes(self, python):
        program = (
            "import tapegrad as torch; x = torch.ones(2, 2, requires_grad=True)\n"
            "(x @ x).sum().backward(); print(x.grad.tolist())"
        )
        assert python("-c", program) == (0, "[[4.0, 4.0], [4.0, 4.0]]\n", "")

    def test_the_command(self, python):
        status, out, errors = python("-m", "tapegrad", "--version")
        assert (status, out, errors) == (0, f"tapegrad {torch.__version__}\n", "")

    def test_a_script(self, python, clone):
        (clone / "script.py").write_text(f"import tapegrad\n{PRINT_FILES}")
        assert python("script.py")[1].splitlines() == lines_about(BUILT)

    def test_pytest(self, python, clone):
        (clone / "test_it.py").write_text(
            f"import tapegrad\ndef test():\n    assert tapegrad.__file__ == {torch.__file__!r}\n"
        )
        status, out, _ = python("-m", "pytest", "-q", "-p", "no:cacheprovider")
        assert status == 0, out
        assert "1 passed" in out

    @pytest.mark.skipif(
        importlib.util.find_spec("IPython") is None, reason="IPython is not installed"
    )
    def test_a_notebook(self, python, clone):
        """IPython is the kernel of notebooks."""
        status, out, errors = python(
            *("-m", "IPython", "--quick", "--colors=NoColor", f"--ipython-dir={clone}"),
            *("-c", f"import tapegrad\n{PRINT_FILES}"),
        )
        assert status == 0, errors
        assert out.splitlines()[-3:] == lines_about(BUILT)

    def test_a_child_process(self, python, clone):
        (clone / "script.py").write_text(
            "import multiprocessing, tapegrad\n"
            "if __name__ == '__main__':\n"
            "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
            "        print(pool.map(tapegrad.ones, [2])[0].tolist())\n"
        )
        assert python("script.py") == (0, "[1.0, 1.0]\n", "")

    def test_another_state_of_the_source_is_refused(self, python, clone):
        with (clone / "tapegrad" / "__init__.py").open("a") as file:
            file.write("new_name = 1\n")
        status, _, errors = python("-c", "import tapegrad")
        assert status == 1
        assert errors.splitlines()[-1] == (
            f"ImportError: tapegrad: {clone / 'tapegrad'} is the source, and the tapegrad that is "
            f"installed in {BUILT} is of another state of it; run `make install` and start "
            ".venv/bin/python, or run `pip install .` in the environment of this Python, again, "
            "or start Python in another folder"
        )


class TestNotInstalled:
    @pytest.mark.parametrize("words", [("-c", "import tapegrad"), ("-c", "import tapegrad.nn")])
    def test_the_error_says_what_to_do(self, python, clone, words):
        status, _, errors = python(*words, installed=False)
        assert status == 1
        assert errors.splitlines()[-1] == (
            f"ImportError: tapegrad: {clone / 'tapegrad'} is the source, which is not built for "
            f"this Python ({sys.executable}), and no built one is installed there; run `make "
            "install` and start .venv/bin/python, or run `pip install .` in the environment of "
            "this Python"
        )
        assert "circular" not in errors

    def test_the_command_says_so_too(self, python):
        status, _, errors = python("-m", "tapegrad", "train", installed=False)
        assert status == 1
        assert "is the source, which is not built for this Python" in errors

    def test_an_extension_that_does_not_load_says_why_itself(self, python, clone):
        (extension,) = BUILT.glob("_C.*so")
        (clone / "tapegrad" / extension.name).write_bytes(b"no library")
        status, _, errors = python("-c", "import tapegrad", installed=False)
        assert status == 1
        assert f"{clone / 'tapegrad' / extension.name}: " in errors.splitlines()[-1]


def test_an_editable_install_finds_extension_and_openblas(tmp_path):
    """Which a finder takes from the environment, and all else from the source, changed or not."""
    source = tmp_path / "tapegrad"
    shutil.copytree(BUILT, source, ignore=shutil.ignore_patterns("*.so", "lib", "__pycache__"))
    with (source / "__init__.py").open("a") as file:
        file.write("new_name = 1\n")
    (extension,) = BUILT.glob("_C.*so")
    (tmp_path / "program.py").write_text(
        "import sys\n"
        "from importlib.util import spec_from_file_location\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'tapegrad._C':\n"
        f"            return spec_from_file_location(name, {str(extension)!r})\n"
        "sys.meta_path.insert(0, Finder())\n"
        "import tapegrad\n"
        "print(tapegrad.__file__, tapegrad.new_name)\n"
        "print(tapegrad.__config__.show())\n"
    )
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == f"{source / '__init__.py'} 1"
    assert "OpenBLAS" in done.stdout


def test_an_installed_package_does_not_load_it():
    program = "import sys, tapegrad; print('tapegrad._source_tree' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": str(BUILT.parent)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=BUILT.parent,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
