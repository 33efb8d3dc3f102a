"""Modules whose parameters are divided between processes.

`fully_shard` does it to a module; `FullyShardedDataParallel`, the older wrapper, stands on it.
"""

from typing import TYPE_CHECKING

from tapegrad.distributed.fsdp import api, wrap
from tapegrad.distributed.fsdp._fully_shard import (
    FSDPModule,
    UnshardHandle,
    fully_shard,
    register_fsdp_forward_method,
)
from tapegrad.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    CPUOffloadPolicy,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    MixedPrecisionPolicy,
    OffloadPolicy,
    OptimStateDictConfig,
    OptimStateKeyType,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictType,
)
from tapegrad.distributed.fsdp.fully_sharded_data_parallel import FullyShardedDataParallel

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "CPUOffloadPolicy",
    "FSDPModule",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "OptimStateDictConfig",
    "OptimStateKeyType",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictType",
    "UnshardHandle",
    "api",
    "fully_shard",
    "register_fsdp_forward_method",
    "wrap",
]

if not TYPE_CHECKING:

    def __getattr__(name):
        """Load what stands on the names above when it is first asked for."""
        from importlib import import_module

        if name == "sharded_grad_scaler":
            return import_module(f"tapegrad.distributed.fsdp.{name}")
        raise AttributeError(f"module 'tapegrad.distributed.fsdp' has no attribute {name!r}")
