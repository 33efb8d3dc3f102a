"""Modules whose parameters are divided between processes: refused in words.

Settings and wrapping policies are there, so that programs that import them, and use them only where
there are several processes, run.
"""

from typing import TYPE_CHECKING

from tapegrad._refused import Refused, refused
from tapegrad.distributed.fsdp import api, wrap
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
    "api",
    "fully_shard",
    "wrap",
]

_WHY = (
    "parameters that are divided between processes are not supported; in one process use the "
    "module itself, or DistributedDataParallel"
)


class FullyShardedDataParallel(Refused):
    """Refuses to be made. No module is one, so that ``isinstance`` answers."""

    _why = _WHY
    clip_grad_norm_ = refused("FullyShardedDataParallel.clip_grad_norm_", _WHY)
    flatten_sharded_optim_state_dict = staticmethod(
        refused("FullyShardedDataParallel.flatten_sharded_optim_state_dict", _WHY)
    )
    full_optim_state_dict = staticmethod(
        refused("FullyShardedDataParallel.full_optim_state_dict", _WHY)
    )
    fsdp_modules = staticmethod(refused("FullyShardedDataParallel.fsdp_modules", _WHY))
    optim_state_dict = staticmethod(refused("FullyShardedDataParallel.optim_state_dict", _WHY))
    optim_state_dict_to_load = staticmethod(
        refused("FullyShardedDataParallel.optim_state_dict_to_load", _WHY)
    )
    rekey_optim_state_dict = staticmethod(
        refused("FullyShardedDataParallel.rekey_optim_state_dict", _WHY)
    )
    scatter_full_optim_state_dict = staticmethod(
        refused("FullyShardedDataParallel.scatter_full_optim_state_dict", _WHY)
    )
    set_state_dict_type = staticmethod(
        refused("FullyShardedDataParallel.set_state_dict_type", _WHY)
    )
    state_dict_type = staticmethod(refused("FullyShardedDataParallel.state_dict_type", _WHY))
    summon_full_params = staticmethod(refused("FullyShardedDataParallel.summon_full_params", _WHY))


class FSDPModule(Refused):
    """Refuses to be made. No module is one, so that ``isinstance`` answers."""

    _why = _WHY


fully_shard = refused("fully_shard", _WHY)

if not TYPE_CHECKING:

    def __getattr__(name):
        """Load what stands on the names above when it is first asked for."""
        from importlib import import_module

        if name in ("fully_sharded_data_parallel", "sharded_grad_scaler"):
            return import_module(f"tapegrad.distributed.fsdp.{name}")
        raise AttributeError(f"module 'tapegrad.distributed.fsdp' has no attribute {name!r}")
