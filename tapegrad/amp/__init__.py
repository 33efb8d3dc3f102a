"""Mixed precision: autocast, which chooses the dtype of each operation, and the scaling of losses.

>>> layer = torch.nn.Linear(2, 2)
>>> with torch.autocast("cpu", torch.bfloat16):
...     y = layer(torch.ones(1, 2))
>>> y.dtype, layer.weight.dtype
(torch.bfloat16, torch.float32)
"""

from typing import TYPE_CHECKING

from tapegrad._missing import names_of_torch as _names_of_torch
from tapegrad.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from tapegrad.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

if not TYPE_CHECKING:
    __getattr__ = _names_of_torch(__name__)
