"""The tape as an object: where its values live, and what they cost.

- `compress` keeps saved values in fewer bytes.
"""

from tapegrad.tape.compress import compress

__all__ = ["compress"]
