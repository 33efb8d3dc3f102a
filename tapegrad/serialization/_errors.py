"""What goes wrong with checkpoints, as types."""

import pickle

__all__ = ["CheckpointError", "RefusedError", "UnsupportedObjectError"]


class CheckpointError(RuntimeError):
    """A file that is damaged, cut short, or no checkpoint at all."""


class RefusedError(CheckpointError, pickle.UnpicklingError):
    """A sound PyTorch checkpoint that asks for more than tensors and plain containers."""


class UnsupportedObjectError(TypeError, pickle.PicklingError):
    """An object that a checkpoint cannot hold. The message says where in the state it is."""
