"""Old names of `torch.amp`, for the CPU."""

from tapegrad.cpu.amp.autocast_mode import autocast
from tapegrad.cpu.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast"]
