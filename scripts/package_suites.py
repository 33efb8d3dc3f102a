"""Run the test suites of packages written for torch, under PyTorch and under the switch.

    python scripts/package_suites.py                     # all of them; writes docs/package-suites.md
    python scripts/package_suites.py einops nflows       # only these, and prints what fails here only
    python scripts/package_suites.py gpytorch -k kernels

Each suite is what the package's own source distribution holds, of the version that is named in
`SUITES`, fetched from the package index. Two environments are made in ``--work``: one with PyTorch,
one without, where ``pytest -p tapegrad.compat.pytest`` has ``import torch`` mean the tapegrad of
this tree. A test counts if it passes under PyTorch; the table says how many of those pass here.
"""

import argparse
import json
import os
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "package-suites.md"
TORCH = "torch==2.13.0"
# What the packages and their tests import; torch is never among it.
NEEDED = (
    "boltons expecttest flaky huggingface_hub hypothesis jaxtyping lightning-utilities loguru "
    "matplotlib networkx numpy opt_einsum opt_einsum_fx packaging pandas parameterized pillow "
    "pyro-api pytest pytest-timeout pytorch_ranger pyyaml safetensors scikit-learn scipy sympy "
    "tabulate tqdm trampoline typing_extensions wadler_lindig"
).split()


class Suite(NamedTuple):
    """A package, its version, and where its distribution keeps tests.

    The first dotted names of ``reasons`` say why some of its tests fail here.
    """

    name: str
    version: str
    tests: tuple[str, ...] = ("tests",)
    source: str = "."
    environ: tuple[tuple[str, str], ...] = ()
    deselect: str = ""
    needs: tuple[str, ...] = ()
    reasons: str = ""


SUITES = [
    Suite("einops", "0.8.2", ("einops/tests",), environ=(("EINOPS_TEST_BACKENDS", "numpy,torch"),)),
    Suite("linear_operator", "0.6.1", ("test",)),
    Suite("gpytorch", "1.15.2", ("test",), needs=("linear_operator==0.6.1",)),
    Suite("nflows", "0.14"),
    Suite("normflows", "1.7.3", ("normflows",)),
    Suite("entmax", "1.0", ("entmax",)),
    Suite("torchsde", "0.2.6"),
    Suite("torch-optimizer", "0.3.0"),
    Suite("zuko", "1.6.0"),
    Suite("e3nn", "0.6.0"),
    Suite("skorch", "1.4.0", ("skorch/tests",)),
    Suite("pytorch_warmup", "0.2.0", ("test",)),
    Suite("optree", "0.20.0", ("tests/integrations",), source=""),
    Suite("tensorly", "0.10.0", ("tensorly",), environ=(("TENSORLY_BACKEND", "pytorch"),)),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("suites", nargs="*", help="names of suites; all if none is given")
    parser.add_argument("-k", dest="only", default="", help="handed to pytest")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "package-suites")
    parser.add_argument("--here", action="store_true", help="take PyTorch's results of last time")
    parser.add_argument("--jobs", default="0", help="processes of pytest-xdist")
    args = parser.parse_args()
    chosen = [each for each in SUITES if not args.suites or each.name in args.suites]
    work = args.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    for name in ("torch", "none"):
        make_environment(work / name, torch=name == "torch")
    rows = []
    for suite in chosen:
        folder = fetch(suite, work)
        known = work / f"{suite.name}-torch.json"
        if not (args.here and known.exists()):
            known.write_text(json.dumps(run(suite, folder, work / "torch", args, here=False)))
        there = json.loads(known.read_text())
        here = run(suite, folder, work / "none", args, here=True)
        (work / f"{suite.name}-here.json").write_text(json.dumps(here))
        counted = [each for each, outcome in there.items() if outcome == "passed"]
        if args.only:
            counted = [each for each in counted if each in here]
        failed = [each for each in counted if here.get(each) != "passed"]
        rows.append((suite, len(counted), len(counted) - len(failed)))
        for each in failed if args.suites else []:
            print(f"  {here.get(each, 'not run')}: {each}")
        print(
            f"{suite.name} {suite.version}: {len(counted) - len(failed)} of {len(counted)}",
            flush=True,
        )
    if not args.suites:
        write_page(rows)
