"""The tape as an object: what reverse mode recorded, to look at, to price and to sweep again.

- `of` gives the tape behind a tensor, `record` that of a block, `live` everything there is.
- `Tape` is what they give: a sequence of `Entry`.
- `Program` is a recorded block as a value: to print, to save, to load elsewhere and to run there.
- `budget`, `compress` and `offload` decide where and how saved values live, `revolve`
  differentiates long loops.
"""

from tapegrad.tape.budget import BudgetWarning, budget
from tapegrad.tape.compress import compress
from tapegrad.tape.entries import Entry
from tapegrad.tape.listing import Tape
from tapegrad.tape.offload import offload
from tapegrad.tape.program import Program, load_program
from tapegrad.tape.recording import live, of, record
from tapegrad.tape.revolve import revolve
from tapegrad.tape.revolve_plan import revolve_cost, revolve_schedule

__all__ = [
    "BudgetWarning",
    "Entry",
    "Program",
    "Tape",
    "budget",
    "compress",
    "live",
    "load_program",
    "of",
    "offload",
    "record",
    "revolve",
    "revolve_cost",
    "revolve_schedule",
]


def load_ipython_extension(shell: object) -> None:
    """Bring ``%%tape`` to a notebook: ``%load_ext tapegrad.tape``."""
    from tapegrad.tape.magic import load

    load(shell)
