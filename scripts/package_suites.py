"""Run the test suites of packages written for torch, under PyTorch and under the switch.

    python scripts/package_suites.py                    # all of them; writes docs/package-suites.md
    python scripts/package_suites.py einops nflows      # only these; prints what fails here only
    python scripts/package_suites.py --known gpytorch   # PyTorch's results are those of last time

Each suite is what the package's own source distribution holds, of the version that `SUITES` names,
fetched from the package index. Two environments are made in ``--work``: one with PyTorch, and one
without, where ``pytest -p tapegrad.compat.pytest`` has ``import torch`` mean the tapegrad of this
tree. A test counts if it passes under PyTorch; the table says how many of those pass here. What
passes is kept in ``--work``, a file of JSON for each suite and library.
"""

import argparse
import json
import os
import subprocess
import sys
import tarfile
import venv
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "package-suites.md"
# What the packages and their tests import. The packages themselves come without what they require,
# which is torch.
NEEDED = [
    *("hypothesis", "jaxtyping", "matplotlib", "networkx", "numpy", "packaging", "pandas"),
    *("pytest", "pytest-timeout", "scikit-learn", "scipy", "sympy", "tabulate", "tqdm"),
    "typing_extensions",
]
ALONE = [
    *("boltons", "gpytorch==1.15.2", "linear_operator==0.6.1", "lightning-utilities"),
    *("opt_einsum", "pyro-ppl==1.9.2", "pyro-api", "pytorch_ranger", "torchdiffeq==0.2.5"),
    *("torchtestcase", "trampoline", "UMNN", "wadler_lindig"),
]
HEADER = """\
# Packages' own test suites

`python scripts/package_suites.py` runs the test suites that packages ship in their source
distributions, under PyTorch 2.13 and under the switch ([coming from
PyTorch](coming-from-pytorch.md)), in an environment without torch. A test counts if it passes under
PyTorch. This page is what it wrote.

| suite | version | pass under PyTorch | of them pass here | | why the rest does not |
|---|---|---|---|---|---|
"""


class Suite(NamedTuple):
    """The tests of a package: where its source distribution has them, and what they need."""

    name: str
    version: str
    folder: str = "tests"
    environ: tuple[tuple[str, str], ...] = ()
    rest: str = ""


RANDOM = "random inputs without a seed: another test in another run"
REASONS = {
    "linear_operator": "17: gradients of `cholesky_solve` by entries that it does not read are "
    "zero here; 1: batches of CSR matrices; the others are not explained yet",
    "gpytorch": "3: a unit in the last place of `softplus` in float32; 2: points of `linspace` in "
    "float32 are rounded otherwise; 2: samplers, whose random numbers are others; 1: a file from "
    "PyTorch before 1.6",
    "nflows": RANDOM,
    "zuko": RANDOM,
}

SUITES = [
    Suite("einops", "0.8.2", "einops/tests", (("EINOPS_TEST_BACKENDS", "numpy,torch"),)),
    Suite("linear_operator", "0.6.1", "test", rest=REASONS["linear_operator"]),
    Suite("gpytorch", "1.15.2", "test", rest=REASONS["gpytorch"]),
    Suite("nflows", "0.14", rest=REASONS["nflows"]),
    Suite("normflows", "1.7.3", "normflows"),
    Suite("entmax", "1.0", "entmax"),
    Suite("torch-optimizer", "0.3.0"),
    Suite("torchsde", "0.2.6"),
    Suite("zuko", "1.6.0", rest=REASONS["zuko"]),
    Suite("pytorch_warmup", "0.2.0", "test"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("suites", nargs="*", help="names of suites; all if none is given")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "package-suites")
    parser.add_argument("--known", action="store_true", help="take PyTorch's results of last time")
    parser.add_argument("--written", action="store_true", help="write the page of results alone")
    args = parser.parse_args()
    work = args.work.resolve()
    chosen = [each for each in SUITES if not args.suites or each.name in args.suites]
    for suite in [] if args.written else chosen:
        folder = fetched(suite, work)
        for library in ("torch", "here"):
            if library == "here" or not (
                args.known and results_file(suite, library, work).exists()
            ):
                run(suite, library, folder, work)
    rows = []
    for suite in chosen:
        passed = set(passing(suite, "torch", work))
        lost = sorted(passed - set(passing(suite, "here", work)))
        print(f"{suite.name} {suite.version}: {len(passed) - len(lost)} of {len(passed)}")
        if args.suites:
            print(*lost, sep="\n")
        share = 100 * (len(passed) - len(lost)) / max(1, len(passed))
        rows.append(
            f"| {suite.name} | {suite.version} | {len(passed):,} | {len(passed) - len(lost):,} "
            f"| {share:.1f} % | {suite.rest} |\n"
        )
    if not args.suites:
        PAGE.write_text(HEADER + "".join(rows))


def environment(library: str, work: Path) -> Path:
    """Return the Python of an environment with PyTorch, or without; it is made if need be."""
    folder = work / ("with-torch" if library == "torch" else "without-torch")
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        venv.create(folder, clear=True, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet"]
        torch = ["torch==2.13.0"] if library == "torch" else []
        subprocess.run([*install, *NEEDED, *torch], check=True)
        subprocess.run([*install, "--no-deps", *ALONE], check=True)
        (folder / "complete").touch()
    return python


def fetched(suite: Suite, work: Path) -> Path:
    """Return the folder of a package's source, from the package index if it is not there."""
    stem = f"{suite.name}-{suite.version}"
    if not list(work.glob(f"{stem}.tar.gz")):
        work.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:"]
        pip += ["--dest", str(work), f"{suite.name}=={suite.version}"]
        # Old packages say nowhere what they are built with, and find it only outside of isolation.
        if subprocess.run(pip, check=False, capture_output=True).returncode:
            subprocess.run([*pip, "--no-build-isolation"], check=True)
    if not (work / stem).exists():
        with tarfile.open(work / f"{stem}.tar.gz") as archive:
            archive.extractall(work, filter="data")
    return work / stem


def run(suite: Suite, library: str, folder: Path, work: Path) -> None:
    """Run the tests of a suite and keep the names of those that pass."""
    report = work / f"{suite.name}-{library}.xml"
    report.unlink(missing_ok=True)
    switch = ["-p", "tapegrad.compat.pytest"] if library == "here" else []
    path = [str(folder), *([str(ROOT)] if library == "here" else [])]
    environ = {**os.environ, **dict(suite.environ), "PYTHONPATH": os.pathsep.join(path)}
    command = [str(environment(library, work)), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [*switch, "--timeout=120", "--continue-on-collection-errors"]
    with (work / f"{suite.name}-{library}.log").open("w") as log:
        subprocess.run(
            [*command, f"--junitxml={report}", suite.folder],
            cwd=folder, env={**environ, "MPLBACKEND": "Agg"}, stdout=log, stderr=log, check=False,
        )  # fmt: skip
    names = [
        f"{case.get('classname')}::{case.get('name')}"
        for case in ElementTree.parse(report).iter("testcase")
        if not any(part.tag in ("failure", "error", "skipped") for part in case)
    ]
    results_file(suite, library, work).write_text(json.dumps(names, indent=0))


def results_file(suite: Suite, library: str, work: Path) -> Path:
    return work / f"{suite.name}-{library}.json"


def passing(suite: Suite, library: str, work: Path) -> list[str]:
    """Return the names of the tests that passed last time."""
    names: list[str] = json.loads(results_file(suite, library, work).read_text())
    return names


if __name__ == "__main__":
    main()
