"""Count which torch names are there, and write down which are not, and why.

Reads docs/coverage.csv, a list of names with the number of programs that use each and of its uses,
and writes docs/coverage.md and the sentence about it in the README; and from the names of
PyTorch's documentation that tapegrad.compat.coverage knows, docs/api-coverage.md.

Usage: python scripts/coverage.py [--check] [usage.csv]

--check     compare with what is written, and exit with 1 if it is out of date
usage.csv   a new list for docs/coverage.csv: its columns name, programs_using, total_uses
"""

import csv
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tapegrad.compat import coverage
from tapegrad.compat.coverage import is_there

ROOT = Path(__file__).parents[1]
NAMES = ROOT / "docs" / "coverage.csv"
PAGE = ROOT / "docs" / "coverage.md"
API_PAGE = ROOT / "docs" / "api-coverage.md"
README = ROOT / "README.md"
PROGRAMS = 53  # that were read for the list: models, trainers, libraries on top of PyTorch
SENTENCE = re.compile(r"Of the [\d,]+ torch names that .*?\n? *.*? % of their uses")

# The first pattern that matches the name behind `torch.` names its group.
GROUPS = {
    "Mixed precision": r"(cuda\.)?amp\b|.*autocast",
    "Distributed training": r"distributed|nn\.parallel|nn\.DataParallel|utils\.data\.[dD]istributed"
    r"|_C\._distributed|cuda\.nccl|futures|Future|multiprocessing|Tensor\.share_memory_",
    "Distributions": r"distributions|_sample_dirichlet",
    "Quantization and 8-bit floats": r"ao\.|nn\.quantized|nn\.intrinsic|backends\.quantized|float8"
    r"|_scaled_mm|Tensor\.dequantize|_utils\._rebuild_qtensor|.*QuantizableLinear",
    "Compilers and tracing": r"compile|_dynamo|_inductor|jit|_jit|fx|ScriptModule|_C\._jit"
    r"|_C\._get_tracing|_assert|library|classes|ops\b|nn\.attention\.flex|utils\.cpp_extension",
    "Export": r"onnx|_shape_as_tensor",
    "CUDA and other devices": r"cuda|backends|accelerator|mps|xpu|Stream|version\.cuda"
    r"|Tensor\.(cuda|pin_memory)|nn\.Module\.cuda|[gs]et_default_device|_utils\._get_device"
    r"|_C\._get_privateuse1",
    "Linear algebra": r"linalg|(Tensor\.)?(inverse|pinverse|(slog|log)det|cholesky\w*|svd|qr|symeig"
    r"|lu\w*|pca_lowrank)$|_C\._LinAlgError",
    "Complex numbers": r"view_as_(real|complex)|polar|(Tensor\.)?(real|imag|conj|H)$",
    "Fourier transforms": r"fft|stft|istft|\w+_window",
    "Sparse and nested tensors": r"sparse|spmm|nested|jagged|optim\.SparseAdam|_segment_reduce"
    r"|Tensor\.(_values|_?indices|\w+_indices|_?coalesce|_coalesced_|is_coalesced|\w*sparse\w*"
    r"|to_dense|_nested\w+)",
    "Classes for one dtype, further dtypes": r"[A-Z]\w+Tensor$|set_default_tensor_type|uint\d+$"
    r"|Tensor\.new$",
    "Functions over lists (`_foreach_...`)": r"_foreach",
}
REST = "Single names"
# Why what a group lists is not there, where that is a decision.
REASONS = {
    "Quantization and 8-bit floats": "There are no quantized tensors and no observers.",
    "Sparse and nested tensors": "[Sparse tensors](sparse.md) are there;\n"
    "[nested tensors](nested.md) are packed ones of one ragged dimension.",
    "Distributed training": "[`torch.distributed`](distributed.md) is there for one process, and\n"
    "for several on CPUs, with modules and tensors that are divided. Remote procedure\n"
    "calls are refused in words.",
    REST: "Data pipes are what `IterableDataset` is.",
}
INTRODUCTION = """\
What is not there raises `AttributeError` or `ModuleNotFoundError`, or refuses in words. The names,
private ones among them, were counted in the sources of programs on GitHub: models, trainers, and
libraries on top of PyTorch ([the list](coverage.csv)).
"""


@dataclass
class Name:
    """A name, how many programs use it, and how often they do so together."""

    name: str
    programs: int
    uses: int


def read(path: Path) -> list[Name]:
    """Return the names of a list."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Name(row["name"], int(row["programs_using"]), int(row["total_uses"]))
            for row in csv.DictReader(file)
        ]


def write(names: list[Name], path: Path) -> None:
    """Write a list that `read` reads."""
    lines = [f"{name.name},{name.programs},{name.uses}\n" for name in names]
    path.write_text("".join(["name,programs_using,total_uses\n", *lines]), encoding="utf-8")


def group_of(name: str) -> str:
    """Return the heading under which a missing name is listed."""
    short = name.removeprefix("torch.")
    return next((group for group, words in GROUPS.items() if re.match(words, short)), REST)


def missing_by_group(names: list[Name]) -> dict[str, list[Name]]:
    """Return what is not there, the most used group first and the single names last."""
    groups: dict[str, list[Name]] = {}
    for name in names:
        if not is_there(name.name):
            groups.setdefault(group_of(name.name), []).append(name)
    for missing in groups.values():
        missing.sort(key=lambda name: (-name.programs, name.name))
    order = sorted(groups, key=lambda group: (group == REST, -sum(n.uses for n in groups[group])))
    return {group: groups[group] for group in order}


def sentence(names: list[Name], missing: list[Name]) -> str:
    """Return the sentence that README and page share."""
    uses = sum(name.uses for name in names)
    share = 100 * (1 - sum(name.uses for name in missing) / uses)
    return (
        f"Of the {len(names):,} torch names that {PROGRAMS} public programs use, "
        f"{len(names) - len(missing):,} are there, which is {share:.0f} % of their uses"
    )


def page(names: list[Name]) -> str:
    """Return the page about what is missing."""
    groups = missing_by_group(names)
    missing = [name for group in groups.values() for name in group]
    return "\n".join([*_head(names, missing, groups), *_lists(groups)])


def _head(names: list[Name], missing: list[Name], groups: dict[str, list[Name]]) -> Iterator[str]:
    yield "<!-- Written by scripts/coverage.py; do not edit. -->"
    yield "# What of PyTorch is there, and what is not\n"
    yield f"{sentence(names, missing)}."
    yield INTRODUCTION
    yield "| names used by | of them there |\n|---|---|"
    for least in (20, 10, 5, 2, 1):
        used = [name for name in names if name.programs >= least]
        there = len(used) - sum(name.programs >= least for name in missing)
        programs = f"{least} programs or more" if least > 1 else "any program"
        yield f"| {programs} | {there:,} of {len(used):,}, {100 * there / len(used):.0f} % |"
    yield "\n| missing | names | uses |\n|---|--:|--:|"
    for group, listed in groups.items():
        yield f"| {group} | {len(listed)} | {sum(name.uses for name in listed):,} |"


def _lists(groups: dict[str, list[Name]]) -> Iterator[str]:
    yield "\nThe numbers below are those of the programs that use a name."
    for group, listed in groups.items():
        yield f"\n## {group}\n"
        if group in REASONS:
            yield f"{REASONS[group]}\n"
        yield ",\n".join(f"`{name.name}` {name.programs}" for name in listed) + "."
    yield ""


API_INTRODUCTION = """\
The names of PyTorch 2.13's documentation, module by module and for the classes whose members
programs call. `python -m tapegrad.compat.coverage` prints this table; with a name, a module or a
program it tells what is there of it; `--missing` and `--limited` say why a name is not there, or
how far it goes.
How closely what is there agrees with PyTorch is measured ([agreement](parity.md)).
"""


def api_page() -> str:
    """Return the page about the names of PyTorch's documentation."""
    return "\n".join(_api_lines())


def _api_lines() -> Iterator[str]:
    entries = list(coverage.entries())
    there = sum(entry.state in ("present", "limited") for entry in entries)
    yield "<!-- Written by scripts/coverage.py; do not edit. -->"
    yield "# PyTorch's API, name by name\n"
    yield f"Of {len(entries):,} names, {there:,} are there.\n"
    yield API_INTRODUCTION
    yield "| module or class | there | with limits | not there |\n|---|--:|--:|--:|"
    for module, count in coverage.table(entries):
        absent = count["refused"] + count["missing"]
        yield f"| `{module}` | {count['present']} | {count['limited']} | {absent} |"
    yield "\n## With limits\n"
    yield from _by_text(entry for entry in entries if entry.state == "limited")
    yield "\n## Not there\n"
    yield from _by_text(entry for entry in entries if entry.state in ("refused", "missing"))
    yield ""


def _by_text(entries: Iterable[coverage.Entry]) -> Iterator[str]:
    """Yield what is said, with the names of which it is."""
    groups: dict[str, list[str]] = {}
    for entry in entries:
        groups.setdefault(entry.text, []).append(entry.path.removeprefix("torch."))
    for text, paths in groups.items():
        listed = ", ".join(f"`{path}`" for path in paths)
        line = f"- **{text[0].upper()}{text[1:]}**: {listed}."
        yield textwrap.fill(line, 120, subsequent_indent="  ", break_on_hyphens=False)


def readme(names: list[Name]) -> str:
    """Return the README with the sentence of today."""
    text = README.read_text(encoding="utf-8")
    missing = [name for name in names if not is_there(name.name)]
    found = SENTENCE.search(text)
    if found is None:
        raise SystemExit("README.md: the sentence `Of the ... torch names that ...` is gone")
    words = sentence(names, missing)
    return text if " ".join(found[0].split()) == words else text.replace(found[0], words)


def main(arguments: list[str]) -> int:
    """Write page and sentence, or compare them."""
    lists = [word for word in arguments if word != "--check"]
    if lists:
        write(read(Path(lists[0])), NAMES)
    names = read(NAMES)
    texts = {PAGE: page(names), API_PAGE: api_page(), README: readme(names)}
    old = [
        path
        for path, text in texts.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    for path in old:
        if "--check" in arguments:
            print(f"{path.relative_to(ROOT)}: out of date; run python scripts/coverage.py")
        else:
            path.write_text(texts[path], encoding="utf-8")
    return 1 if old and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
