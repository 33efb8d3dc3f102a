"""The old name of `tapegrad.distributed.tensor`."""

from tapegrad.distributed import device_mesh as device_mesh
from tapegrad.distributed.tensor import *  # noqa: F403
from tapegrad.distributed.tensor import __all__ as __all__
