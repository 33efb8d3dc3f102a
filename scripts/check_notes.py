"""Check that every cited Note exists, once.

A Note is an essay in a comment under a line that holds its title alone; other places cite it by the
same words. Prints each citation without a Note and each title used twice as file:line, and exits
with 1.

Usage: python scripts/check_notes.py [root]           (the repository by default)
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("csrc", "tapegrad", "tests", "scripts", "benchmarks", "examples", "docs")
SOURCE_SUFFIXES = {".h", ".cpp", ".def", ".cu", ".cuh", ".py"}
TEXT_SUFFIXES = {".md"}
MENTION = re.compile(r"\bNote\s+\[([^\]]+)\]")
# A comment may break a title over two lines; the marker between them is no part of it.
LINE_BREAK = re.compile(r"\n[ \t]*(?://+|#+)?[ \t]*")
HEADING = re.compile(r"^[ \t]*(?://+|#+)?[ \t]*Note \[([^\]]+)\][ \t]*$")

Place = tuple[str, int]


def mentions(text: str) -> Iterator[tuple[int, str]]:
    """Yield line number and title of every mention of a Note."""
    # Blanking the breaks keeps all offsets, from which the line numbers come.
    joined = LINE_BREAK.sub(lambda found: " " * len(found[0]), text)
    for found in MENTION.finditer(joined):
        yield text.count("\n", 0, found.start()) + 1, " ".join(found[1].split())


def collect(root: Path) -> tuple[dict[str, list[Place]], dict[str, list[Place]]]:
    """Return the places of all headings and of all citations, by title."""
    headings: dict[str, list[Place]] = defaultdict(list)
    citations: dict[str, list[Place]] = defaultdict(list)
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*")):
        if path.suffix not in SOURCE_SUFFIXES | TEXT_SUFFIXES:
            continue
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        for number, title in mentions(text):
            is_heading = path.suffix in SOURCE_SUFFIXES and HEADING.match(lines[number - 1])
            (headings if is_heading else citations)[title].append(
                (str(path.relative_to(root)), number)
            )
    return headings, citations


def main(arguments: list[str]) -> int:
    """Compare citations with headings."""
    root = Path(arguments[0] if arguments else Path(__file__).parents[1]).resolve()
    headings, citations = collect(root)
    problems = [
        f"{file}:{number}: no Note has the title '{title}'"
        for title, places in citations.items()
        if title not in headings
        for file, number in places
    ]
    problems += [
        f"{file}:{number}: the title '{title}' is already that of the Note at {places[0][0]}"
        for title, places in headings.items()
        for file, number in places[1:]
    ]
    print(*sorted(problems), sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
