"""Write docs/common-mistakes.md: what users do wrong, and what PyTorch and tapegrad say of it.

The mistakes are in tests/mistakes.py, the messages in tests/mistakes.json.

Usage: python scripts/make_mistakes_page.py [--record] [--check]

With --record the messages are made anew, for which PyTorch must be installed. With --check nothing
is written, and the exit code is 1 when the page is out of date.
"""

import json
import subprocess
import sys
from collections.abc import Iterator

from generated import ROOT, write_or_check

sys.path.append(str(ROOT / "tests"))

from mistakes import MESSAGES, MISTAKES

TARGET = ROOT / "docs" / "common-mistakes.md"
LONGEST = 400
HEADER = """\
<!-- Written by scripts/make_mistakes_page.py; do not edit. -->
# Common mistakes

{count} mistakes that users make, each with PyTorch 2.13's error and tapegrad's. The exception types
agree, so a program that catches one catches the other. What tapegrad adds:

- a message opens with the op, and ends with the remedy where one is known;
- it names the one argument that is wrong instead of listing every accepted signature;
- an error inside a module says where: the path from the model you called, the module's class and
  declared sizes, and the shapes it was given;
- an error in `backward` names the source lines of the ops involved.

In the snippets below, `x` is `torch.zeros(2, 3)` and `labels` is `torch.tensor([0, 3])`.
"""


def record() -> None:
    """Ask both libraries for their messages."""
    said = {}
    for library in ("torch", "tapegrad"):
        command = [sys.executable, "-W", "ignore", ROOT / "tests" / "mistakes.py", library]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        said[library] = {line: text for line, (text, _) in json.loads(done.stdout).items()}
    rows = {line: {name: texts[line] for name, texts in said.items()} for line in said["torch"]}
    MESSAGES.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def block(library: str, text: str) -> str:
    """Return a message as it stands on the page."""
    text = text.rstrip()
    text = text if len(text) <= LONGEST else f"{text[:LONGEST].rstrip()} ..."
    first, *rest = text.expandtabs(2).split("\n")
    return "\n".join([f"{library:9} {first}", *(f"{'':9} {line}".rstrip() for line in rest)])


def parts() -> Iterator[str]:
    """Yield the pieces of the page."""
    messages = json.loads(MESSAGES.read_text(encoding="utf-8"))
    yield HEADER.format(count=sum(map(len, MISTAKES.values())))
    for area, rows in MISTAKES.items():
        yield f"## {area}\n"
        for title, line in rows:
            said = messages[line]
            both = f"{block('PyTorch', said['torch'])}\n{block('tapegrad', said['tapegrad'])}"
            yield f"**{title}**: `{line}`\n\n```\n{both}\n```\n"


if __name__ == "__main__":
    if "--record" in sys.argv[1:]:
        record()
    sys.exit(write_or_check(TARGET, "\n".join(parts()), sys.argv[1:], "make_mistakes_page.py"))
