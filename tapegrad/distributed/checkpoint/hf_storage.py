"""Checkpoints of several processes as safetensors files: refused in words."""

from tapegrad._refused import Refused

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]

_WHY = "torch.save and torch.load write and read safetensors files of whole models"


class HuggingFaceStorageReader(Refused):
    """Refuses to be made."""

    _why = _WHY


class HuggingFaceStorageWriter(Refused):
    """Refuses to be made."""

    _why = _WHY
