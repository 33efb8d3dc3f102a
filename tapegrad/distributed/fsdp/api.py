"""Settings of sharded modules. They are data, and can be made where no module is sharded."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from tapegrad.nn.modules.batchnorm import _BatchNorm

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "CPUOffloadPolicy",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
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
]


class ShardingStrategy(Enum):
    """What is divided between processes."""

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When backward fetches the parameters of the next module."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """What a state dict holds."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


class OptimStateKeyType(Enum):
    """What an optimizer's state is keyed by."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


@dataclass
class CPUOffload:
    """Whether parameters lie on the host."""

    offload_params: bool = False


@dataclass
class MixedPrecision:
    """The dtypes of parameters, reductions and buffers."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Any = (_BatchNorm,)


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes of parameters, reductions and outputs."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Nothing lies on the host."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters lie on the host."""

    pin_memory: bool = True


@dataclass
class StateDictConfig:
    """Whether a state dict lies on the host."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Settings of a whole state dict."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Settings of the state dict of one process."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Settings of a divided state dict."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """Whether an optimizer's state lies on the host."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Settings of an optimizer's whole state."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Settings of an optimizer's state of one process."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Settings of an optimizer's divided state."""

    _use_dtensor: bool = False
