"""Names that PyTorch keeps here; they are those of `tapegrad.distributed`."""

from tapegrad.distributed import *  # noqa: F403
from tapegrad.distributed import __all__ as __all__
from tapegrad.distributed._collectives import (
    _all_gather_base as _all_gather_base,
)
from tapegrad.distributed._collectives import (
    _coalescing_manager as _coalescing_manager,
)
from tapegrad.distributed._collectives import (
    _reduce_scatter_base as _reduce_scatter_base,
)
from tapegrad.distributed._groups import _get_default_group as _get_default_group
from tapegrad.distributed._groups import default_pg_timeout as default_pg_timeout
