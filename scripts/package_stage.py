"""Install packages that were written for PyTorch, and record the numbers that PyTorch gives there.

    python scripts/package_stage.py install .venv-packages
    python scripts/package_stage.py install .venv-reference --pytorch
    python scripts/package_stage.py record .venv-reference [module ...]

`install` makes a virtual environment with what tests/packages/requirements.txt pins, without their
dependencies, and puts the tapegrad there that this Python has installed; with ``--pytorch`` the
PyTorch to compare with instead. What is installed already stays, as long as the pins are the same.
Where the index cannot be reached, or has a package no longer, it says so and ends well: the tests
skip what is not there. `record` writes tests/packages/expected.
"""

import argparse
import importlib.metadata
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from packages.table import HERE, REQUIREMENTS, TASKS, rows_of  # noqa: E402

PYTORCH = "torch==2.13.0"
PIP = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"]
FAILURES = 3  # in a row: then the index is taken to be out of reach


def python_of(folder: Path) -> Path:
    """Return the interpreter of a virtual environment."""
    return folder / "bin" / "python"


def install(folder: Path, with_pytorch: bool) -> None:
    """Make the environment, unless it is there."""
    stamp = folder / ".pins"
    pins = REQUIREMENTS.read_text("utf-8") + (PYTORCH if with_pytorch else "")
    if not stamp.exists() or stamp.read_text("utf-8") != pins:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        if install_pins(folder, with_pytorch):
            stamp.write_text(pins, "utf-8")
    if not with_pytorch:
        copy_tapegrad(folder)


def install_pins(folder: Path, with_pytorch: bool) -> bool:
    """Return whether all that is pinned could be installed."""
    pip = [python_of(folder), *PIP, "--only-binary=:all:"]
    if with_pytorch:
        subprocess.run([*pip, PYTORCH], check=True)
    pip.append("--no-deps")
    if subprocess.run([*pip, "-r", REQUIREMENTS]).returncode == 0:
        return True
    failed = 0
    lines = REQUIREMENTS.read_text("utf-8").splitlines()
    for line in (each for each in lines if "==" in each):
        failed = failed + 1 if subprocess.run([*pip, line]).returncode else 0
        if failed:
            print(f"{line} could not be installed: its tests are skipped", file=sys.stderr)
        if failed == FAILURES:
            print("the index cannot be reached: the rest is skipped as well", file=sys.stderr)
            break
    return False


def copy_tapegrad(folder: Path) -> None:
    """Copy the files of the installed tapegrad, as they are."""
    files = importlib.metadata.distribution("tapegrad").files or []
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    there = Path(subprocess.check_output([python_of(folder), "-c", ask], text=True).strip())
    for old in there.glob("tapegrad*"):
        shutil.rmtree(old)
    for file in files:
        if ".." not in file.parts and "__pycache__" not in file.parts:
            (there / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file.locate(), there / file)


def record(folder: Path, modules: list[str]) -> None:
    """Write the numbers that PyTorch gives."""
    for task in TASKS:
        if modules and task.module not in modules:
            continue
        command = [python_of(folder).absolute(), HERE / "with_torch.py", task.script]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if done.returncode or "torch 2.13.0" not in done.stdout or "tapegrad" in done.stdout:
            sys.exit(f"{task.package}: PyTorch 2.13 gave no numbers\n{done.stderr[-4000:]}")
        lines = [
            f"  {json.dumps(name)}: {json.dumps(values)}"
            for name, values in rows_of(done.stdout).items()
        ]
        task.expected.parent.mkdir(exist_ok=True)
        task.expected.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
        print(f"{task.package}: {len(lines)} rows", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    installing = commands.add_parser("install", help="make a virtual environment")
    installing.add_argument("folder", type=Path)
    installing.add_argument("--pytorch", action="store_true", help="with PyTorch, not tapegrad")
    recording = commands.add_parser("record", help="write the numbers that PyTorch gives")
    recording.add_argument("folder", type=Path, help="an environment with PyTorch")
    recording.add_argument("modules", nargs="*", help="of which tasks; all if none")
    arguments = parser.parse_args()
    if arguments.command == "install":
        install(arguments.folder, arguments.pytorch)
    else:
        record(arguments.folder, arguments.modules)


if __name__ == "__main__":
    main()
