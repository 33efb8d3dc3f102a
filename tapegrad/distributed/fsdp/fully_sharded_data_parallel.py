"""Names that PyTorch keeps here; they are those of `tapegrad.distributed.fsdp`."""

from tapegrad.distributed.fsdp import *  # noqa: F403
from tapegrad.distributed.fsdp import __all__ as __all__
