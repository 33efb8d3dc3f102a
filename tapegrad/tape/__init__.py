"""The tape as an object: what reverse mode recorded, to look at, to price and to sweep again.

- `of` gives the tape behind a tensor, `record` that of a block, `live` everything there is.
- `Tape` is what they give: a sequence of `Entry`.
"""

from tapegrad.tape.entries import Entry
from tapegrad.tape.listing import Tape
from tapegrad.tape.recording import live, of, record

__all__ = ["Entry", "Tape", "live", "of", "record"]
