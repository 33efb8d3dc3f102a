"""Functions for neural networks, without state: the modules of `tapegrad.nn` call these."""

from typing import TYPE_CHECKING

from tapegrad._missing import names_of_torch as _names_of_torch
from tapegrad.nn.functional import (
    activations,
    attention,
    bags,
    blocks,
    convolutions,
    ctc,
    distances,
    dropouts,
    grids,
    interpolation,
    linear_losses,
    losses,
    margin_losses,
    multi_head_attention,
    norms,
    padding,
    pooling,
    tables,
)
from tapegrad.nn.functional.activations import *  # noqa: F403
from tapegrad.nn.functional.attention import *  # noqa: F403
from tapegrad.nn.functional.bags import *  # noqa: F403
from tapegrad.nn.functional.blocks import *  # noqa: F403
from tapegrad.nn.functional.convolutions import *  # noqa: F403
from tapegrad.nn.functional.ctc import *  # noqa: F403
from tapegrad.nn.functional.distances import *  # noqa: F403
from tapegrad.nn.functional.dropouts import *  # noqa: F403
from tapegrad.nn.functional.grids import *  # noqa: F403
from tapegrad.nn.functional.interpolation import *  # noqa: F403
from tapegrad.nn.functional.linear_losses import *  # noqa: F403
from tapegrad.nn.functional.losses import *  # noqa: F403
from tapegrad.nn.functional.margin_losses import *  # noqa: F403
from tapegrad.nn.functional.multi_head_attention import *  # noqa: F403
from tapegrad.nn.functional.norms import *  # noqa: F403
from tapegrad.nn.functional.padding import *  # noqa: F403
from tapegrad.nn.functional.pooling import *  # noqa: F403
from tapegrad.nn.functional.tables import *  # noqa: F403
from tapegrad.overrides import (
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)

_PARTS = (
    activations,
    attention,
    bags,
    blocks,
    convolutions,
    ctc,
    distances,
    dropouts,
    grids,
    interpolation,
    linear_losses,
    losses,
    margin_losses,
    multi_head_attention,
    norms,
    padding,
    pooling,
    tables,
)
__all__ = [name for part in _PARTS for name in part.__all__]
__all__ += ["has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"]

if not TYPE_CHECKING:
    __getattr__ = _names_of_torch(__name__)
