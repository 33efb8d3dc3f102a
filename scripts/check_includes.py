"""Check that includes under csrc/ point one way.

    python -> engine -> ops -> graph -> intercept -> core
    api ---------------------------------^

and that kernels (cpu, cuda) see only core, themselves, the pointwise table and what they agree on
with the ops (spec). Only csrc/python may include Python's or nanobind's headers, and nobody may
include streams, locales or what is built on them (Note [No streams in the library]). Prints each
violation as file:line and exits with 1.

Usage: python scripts/check_includes.py [folder]      (csrc by default)
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

# What the files of each folder may include. The files at the top of csrc/ are the "table".
ALLOWED = {
    "python": {
        "python",
        "engine",
        "ops",
        "graph",
        "intercept",
        "spec",
        "core",
        "cpu",
        "cuda",
        "table",
    },
    "api": {"api", "intercept", "core"},
    "engine": {"engine", "ops", "graph", "intercept", "core"},
    "ops": {"ops", "graph", "intercept", "spec", "core", "table"},
    "graph": {"graph", "intercept", "spec", "core"},
    "intercept": {"intercept", "core"},
    "core": {"core"},
    "spec": {"spec", "core", "table"},
    "cpu": {"cpu", "spec", "core", "table"},
    "cuda": {"cuda", "spec", "core", "table"},
    "table": {"table", "spec"},
}
# What the CPU's kernels share with those of CUDA devices: Note [Functions written once].
DEVICE_FUNCTIONS = "tapegrad/cuda/functions/"
SUFFIXES = {".h", ".cpp", ".def", ".cuh", ".cu"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
PYTHON_HEADER = re.compile(
    r"^(Python\.h|structmember\.h|structseq\.h|internal/pycore_.*|nanobind/.*)$"
)
STREAM_HEADER = re.compile(
    r"^([iof]?stream|[io]?fstream|[io]?s?spanstream|sstream|syncstream|iostream|streambuf|ios|iosfwd"
    r"|iomanip|locale|clocale|locale\.h|codecvt|regex|format|print|filesystem|strstream)$"
)


def layer_of(path: Path) -> str:
    """Return the folder that a path relative to csrc/ belongs to."""
    return path.parts[0] if len(path.parts) > 1 else "table"


def includes(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line number, opening delimiter and target of each include of a file."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if found := INCLUDE.match(line):
            yield number, found[1], found[2]


def violation(root: Path, layer: str, delimiter: str, target: str) -> str | None:
    """Return what is wrong with an include, or None."""
    if PYTHON_HEADER.match(target):
        return None if layer == "python" else f"only csrc/python may include <{target}>"
    if delimiter == "<":
        return f"<{target}> uses streams or locales" if STREAM_HEADER.match(target) else None
    if target.startswith(DEVICE_FUNCTIONS) and (root.parent / target).is_file():
        return None if layer == "cpu" else f'only csrc/cpu may include "{target}"'
    if not (root / target).is_file():
        return f'"{target}" is not a path below {root.name}/'
    if layer not in ALLOWED:
        return f"the folder {layer}/ is unknown; give it a place in {Path(__file__).name}"
    if layer_of(Path(target)) not in ALLOWED[layer]:
        return f'{layer} must not include "{target}"; it may include {sorted(ALLOWED[layer])}'
    return None


def main(arguments: list[str]) -> int:
    """Check every source file of the folder."""
    root = Path(arguments[0] if arguments else Path(__file__).parents[1] / "csrc").resolve()
    failures = 0
    for path in sorted(root.rglob("*")):
        if path.suffix not in SUFFIXES:
            continue
        relative = path.relative_to(root)
        for number, delimiter, target in includes(path):
            if problem := violation(root, layer_of(relative), delimiter, target):
                print(f"{root.name}/{relative}:{number}: {problem}")
                failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
