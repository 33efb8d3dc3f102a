"""What goes wrong with checkpoints, as types."""

import pickle

__all__ = ["CheckpointError", "OtherFileError", "RefusedError", "UnsupportedObjectError"]


class CheckpointError(RuntimeError):
    """A file that is damaged, cut short, or no checkpoint at all."""


class OtherFileError(CheckpointError, pickle.UnpicklingError):
    """A file of another kind, such as a page that was saved in place of a checkpoint."""


class RefusedError(CheckpointError, pickle.UnpicklingError):
    """A sound PyTorch checkpoint that asks for more than tensors and plain containers."""


class UnsupportedObjectError(TypeError, pickle.PicklingError):
    """An object that a checkpoint cannot hold. The message says where in the state it is."""
