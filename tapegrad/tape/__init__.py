"""The tape as an object: where its values live, and what they cost.

- `offload` moves saved values to a file while they are not needed.
"""

from tapegrad.tape.offload import offload

__all__ = ["offload"]
