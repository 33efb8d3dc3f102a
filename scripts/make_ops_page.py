"""Write docs/ops.md: the list of all ops, from their records.

Usage: python scripts/make_ops_page.py [--check]

With --check nothing is written, and the exit code is 1 when the file is out of date.
"""

import sys
from collections.abc import Iterator

from generated import ROOT, write_or_check

sys.path.append(str(ROOT))  # the installed package if there is one, else a build in the tree

import tapegrad
from tapegrad._ops import OpRecord

TARGET = ROOT / "docs" / "ops.md"
HEADER = """\
# Ops

<!-- Written by scripts/make_ops_page.py; do not edit. -->

Every computation is a call of one of these, forward or backward: they are what a
[captured program](tape/program.md) is made of, and what the [profiler](profiler.md) and policies of
selective checkpoints name. `tapegrad.ops()` gives this list to programs. Functions that are not
here are made of several ops, or are views, which are none. [Adding an op](adding-an-op.md) tells
where a record stands.

**Attributes** are the numbers of a call besides its tensors; one with a star stands for as many as
any other with one. **Entries** are what an op records on the tape, by the function that records
them, with the values that may be saved. Traits:

"""
TRAITS = {
    "elementwise": "works element by element: further leading dimensions change nothing",
    "random": "draws random numbers, from its attributes `seed` and `offset`",
    "overwrites": "may write its result over its first operand",
    "contracts": "sums products of its first two operands",
    "host_read": "its result is looked at on the host at once: it is a size, or a check",
    "any_order": "adds what meets in one place, on the CPU always in the same order",
    "no_derivative": "what it gives depends on nothing smoothly",
    "unrecorded": "a step of a derivative, of an optimizer or of a coding: where its own "
    "derivative is wanted, recorded ops run in its place",
    "moves": "moves bytes between devices",
    "leading_dims": "works matrix by matrix: dimensions in front of all operands are a batch",
    "host_numbers": "numbers that it writes may be on the CPU, whatever device the rest is on",
}


def entries_of(record: OpRecord) -> str:
    """Return what an op records: ``mm(self, mat2)``."""
    by_function: dict[str, dict[str, None]] = {}
    for each in record.derivatives:
        by_function.setdefault(each.function, {}).update(dict.fromkeys(each.saved))
    return ", ".join(f"`{function}({', '.join(saved)})`" for function, saved in by_function.items())


def row_of(record: OpRecord) -> str:
    cells = (
        f"`{record.name}`",
        ", ".join(f"`{name}`" for name in record.attributes if name != "unused"),
        ", ".join(record.traits),
        entries_of(record),
    )
    return f"| {' | '.join(cells)} |"


def lines() -> Iterator[str]:
    used = {trait for record in tapegrad.ops() for trait in record.traits}
    if used != TRAITS.keys():
        raise SystemExit(f"make_ops_page.py: traits that differ: {used ^ TRAITS.keys()}")
    yield from (f"- {name}: {meaning}." for name, meaning in TRAITS.items())
    records = tapegrad.ops()
    is_pointwise = {line["name"] for line in tapegrad._C.pointwise_table()}
    own = [record for record in records if record.name in is_pointwise]
    steps = [record for record in records if "unrecorded" in record.traits]
    rest = [record for record in records if record not in own and record not in steps]
    for title, group in (("Pointwise", own), ("Structured", rest), ("Steps", steps)):
        yield f"\n## {title} ({len(group)})\n"
        yield "| op | attributes | traits | entries |"
        yield "|---|---|---|---|"
        yield from map(row_of, group)


if __name__ == "__main__":
    text = HEADER + "\n".join(lines()) + "\n"
    sys.exit(write_or_check(TARGET, text, sys.argv[1:], "make_ops_page.py"))
