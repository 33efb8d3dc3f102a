"""This checkout beside another one, each linked in several random orders.

    python -m benchmarks.layouts ../former --case 'small/*' --layouts 8

Where the linker puts functions moves the time of a small op by up to a third, at random, so one
build of each says little about a change of a few percent. Here the objects of both builds are
linked in random orders and the rows are measured for each pair. The figure is the ratio of medians
over all layouts: above 1, this checkout is faster. The ranges are those of the layouts: where they
overlap, the difference is less than what linking does.

Both checkouts need a build by Ninja in their folder build/dev, with TAPEGRAD_IN_TREE.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parents[1]
ALIAS = """import sys
sys.path.insert(0, {folder!r})
import tapegrad
sys.modules[__name__] = tapegrad
"""


def link_command(checkout: Path) -> tuple[str, Path]:
    """Return the shell command that links the native module, and the file it writes."""
    (module,) = (checkout / "tapegrad").glob("_C*.so")
    command = ["ninja", "-C", str(checkout / "build/dev"), "-t", "commands", str(module.resolve())]
    lines = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    return lines.strip().splitlines()[-1], module.resolve()


def link(checkout: Path, folder: Path, seed: int) -> None:
    """Make a copy of the package in `folder` whose module is linked in another order."""
    command, module = link_command(checkout)
    words = shlex.split(command)
    places = [i for i, word in enumerate(words) if word.endswith(".o")]
    objects = [words[i] for i in places]
    random.Random(seed).shuffle(objects)
    for i, name in zip(places, objects, strict=True):
        words[i] = name
    package = folder / "tapegrad"
    package.mkdir(parents=True)
    for entry in (checkout / "tapegrad").iterdir():
        if entry.name != module.name:
            (package / entry.name).symlink_to(entry.resolve())
    text = " ".join(word if word in ("&&", ":") else shlex.quote(word) for word in words)
    text = text.replace(str(module), str(package / module.name))
    subprocess.run(text, shell=True, cwd=checkout / "build/dev", check=True, capture_output=True)


def measure(checkouts: dict[str, Path], seed: int, options: list[str]) -> list[dict]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for alias, checkout in checkouts.items():
            link(checkout, folder / f"{alias}-tree", seed)
            text = ALIAS.format(folder=str(folder / f"{alias}-tree"))
            (folder / f"{alias}.py").write_text(text)
        path = os.pathsep.join([str(folder), str(HERE)])
        command = [sys.executable, "-m", "benchmarks", "--a", "this", "--b", "former"]
        command += ["--out", str(folder / "rows"), *options]
        environment = os.environ | {"PYTHONPATH": path}
        subprocess.run(command, env=environment, check=True, cwd=HERE, stdout=subprocess.DEVNULL)
        return json.loads((folder / "rows.json").read_text())["rows"]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("former", type=Path, help="the checkout to compare with")
    parser.add_argument("--layouts", type=int, default=8, metavar="N")
    parser.add_argument(
        "--case", action="append", metavar="GLOB", help="as of python -m benchmarks"
    )
    parser.add_argument("--rounds", default="12", metavar="N")
    options = parser.parse_args()
    checkouts = {"this": HERE, "former": options.former.resolve()}
    passed = ["--rounds", options.rounds]
    for case in options.case or ["small/*", "tape/*"]:
        passed += ["--case", case]
    times: dict[str, tuple[list[float], list[float]]] = {}
    for seed in range(options.layouts):
        for row in measure(checkouts, seed, passed):
            ours, theirs = times.setdefault(f"{row['family']}/{row['name']}", ([], []))
            ours.append(statistics.median(row["a"]))
            theirs.append(statistics.median(row["b"]))
    report(times)
    return 0


def report(times: dict[str, tuple[list[float], list[float]]]) -> None:
    ratios = {
        name: statistics.median(theirs) / statistics.median(ours)
        for name, (ours, theirs) in times.items()
    }
    print(f"{'case':32} {'ratio':>6}  this, ns          former, ns")
    for name in sorted(ratios, key=ratios.__getitem__):
        spans = [f"{min(each) * 1e9:7.1f} to {max(each) * 1e9:7.1f}" for each in times[name]]
        print(f"{name:32} {ratios[name]:6.3f}  {'  '.join(spans)}")
    print(f"median of all rows: {statistics.median(ratios.values()):.3f}")


if __name__ == "__main__":
    sys.exit(main())
