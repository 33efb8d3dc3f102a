"""Checkpoints in folders: a safetensors file for each process, and an index of several.

`save` writes nested state, `load` fills the tensors of a state in place. `state_dict` has the names
of parameters in place of numbers, so that a checkpoint fits however modules are wrapped.
"""

from tapegrad.distributed.checkpoint import (
    default_planner,
    filesystem,
    optimizer,
    state_dict,
    stateful,
)
from tapegrad.distributed.checkpoint._folder import CheckpointException, Metadata
from tapegrad.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from tapegrad.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from tapegrad.distributed.checkpoint.state_dict_loader import load, load_state_dict
from tapegrad.distributed.checkpoint.state_dict_saver import async_save, save, save_state_dict
from tapegrad.distributed.checkpoint.stateful import Stateful

__all__ = [
    "CheckpointException",
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "FileSystemReader",
    "FileSystemWriter",
    "Metadata",
    "Stateful",
    "async_save",
    "default_planner",
    "filesystem",
    "load",
    "load_state_dict",
    "optimizer",
    "save",
    "save_state_dict",
    "state_dict",
    "stateful",
]
