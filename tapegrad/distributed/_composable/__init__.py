"""Old names of what wraps no module."""

from tapegrad.distributed._composable import fsdp

__all__ = ["fsdp"]
