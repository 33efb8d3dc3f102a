"""``%%tape`` in a notebook: run a cell and show its tape below it.

``%load_ext tapegrad.tape`` brings it. The page is the one that `Tape.html` writes, inside a frame
of the notebook, so that nothing of it can touch the notebook's own page.
"""

import argparse
import html
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tapegrad
from tapegrad.tape.last_backward import LastBackward
from tapegrad.tape.show import html_page, totals_table, write_html

__all__ = ["load", "page_frame"]

_HEIGHT = 640  # pixels


def load(shell: Any) -> None:
    """Register ``%%tape`` with an IPython shell."""

    def tape(line: str, cell: str) -> None:
        run_cell(shell, line, cell)

    tape.__doc__ = _options().format_help()
    shell.register_magic_function(tape, "cell", "tape")


def page_frame(document: Mapping[str, Any], height: int = _HEIGHT) -> str:
    """Return HTML that shows a tape's page inside another page."""
    title = html.escape(str(document.get("title") or "tape"))
    return (
        f'<div><iframe title="{title}" sandbox="allow-scripts" loading="lazy" '
        f'style="width: 100%; height: {height}px; border: 0; border-radius: 8px" '
        f'srcdoc="{html.escape(html_page(document))}"></iframe></div>'
    )


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise ValueError(f"%%tape: {message}; %%tape? lists the options")


def _options() -> _Options:
    parser = _Options(
        prog="%%tape",
        add_help=False,
        description="Run the cell and show the tape of its last backward, or what it recorded if "
        "no backward ran.",
    )
    parser.add_argument("-o", "--out", metavar="FILE", help="write the page to a file, too")
    parser.add_argument("--height", type=int, default=_HEIGHT, help=f"in pixels ({_HEIGHT})")
    parser.add_argument("--profile", action="store_true", help="time every entry, too")
    parser.add_argument("--text", action="store_true", help="a table instead of the page")
    return parser


def run_cell(shell: Any, line: str, cell: str) -> None:
    """Run a cell and show its tape; what goes wrong in the cell is shown as usual."""
    from IPython.display import HTML, display

    options = _options().parse_args(shlex.split(line))
    with LastBackward(profile=options.profile) as watcher, tapegrad.tape.record() as recorded:
        shell.run_cell(cell)
    document = watcher.document
    if document is not None:
        document["title"] = f"backward {watcher.number:,} of {watcher.count:,} of the cell"
    elif len(recorded):
        document = {**recorded.to_dict(), "title": "what the cell recorded"}
    del recorded
    if document is None:
        print("%%tape: the cell ran no backward and recorded nothing")
        return
    if options.out:
        print(f"page: {write_html(document, Path(options.out))}")
    if options.text:
        print(totals_table(document))
    else:
        display(HTML(page_frame(document, options.height)))
