"""`torch.distributed.fsdp.api`: the settings of `FullyShardedDataParallel`."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ...nn.modules.batchnorm import _BatchNorm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ... import dtype as _dtype, nn

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "OptimStateDictConfig",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
]


class ShardingStrategy(enum.Enum):
    """What is sharded, and over which ranks.

    `FULL_SHARD` shards parameters, gradients and states of optimizers. `SHARD_GRAD_OP` keeps the gathered
    parameters from forward to backward. `NO_SHARD` shards nothing, and averages gradients. `HYBRID_SHARD` and
    `_HYBRID_SHARD_ZERO2` are the first two within a group of ranks, and replicate between groups.
    """

    FULL_SHARD = enum.auto()
    SHARD_GRAD_OP = enum.auto()
    NO_SHARD = enum.auto()
    HYBRID_SHARD = enum.auto()
    _HYBRID_SHARD_ZERO2 = enum.auto()


class BackwardPrefetch(enum.Enum):
    """When backward gathers the parameters of the next module. Both begin before the module's own backward."""

    BACKWARD_PRE = enum.auto()
    BACKWARD_POST = enum.auto()


@dataclass
class MixedPrecision:
    """The dtypes that modules compute in. Sharded parameters keep theirs.

    Args:
        param_dtype: the dtype that parameters are gathered in.
        reduce_dtype: the dtype that gradients are reduced in. The default is `param_dtype`.
        buffer_dtype: the dtype that floating-point buffers become.
        keep_low_precision_grads: must be `False`.
        cast_forward_inputs: whether floating-point inputs of each wrapped module become `param_dtype`.
        cast_root_forward_inputs: whether those of the root do.
        _module_classes_to_ignore: classes of modules that automatic wrapping leaves in their dtype.
    """

    param_dtype: _dtype | None = None
    reduce_dtype: _dtype | None = None
    buffer_dtype: _dtype | None = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type[nn.Module]] = (_BatchNorm,)


@dataclass
class CPUOffload:
    """Where sharded parameters are kept.

    Args:
        offload_params: whether they, their gradients and the states of optimizers are kept on `cpu`.
    """

    offload_params: bool = False


class StateDictType(enum.Enum):
    """The values in state dicts: whole tensors, or sharded ones."""

    FULL_STATE_DICT = enum.auto()
    LOCAL_STATE_DICT = enum.auto()
    SHARDED_STATE_DICT = enum.auto()


@dataclass
class StateDictConfig:
    """Settings of state dicts of modules.

    Args:
        offload_to_cpu: whether values are moved to `cpu`.
    """

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Settings of state dicts of modules with whole tensors.

    Args:
        offload_to_cpu: whether values are moved to `cpu`.
        rank0_only: whether only rank 0 gets values.
    """

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Settings of `LOCAL_STATE_DICT`, which is refused."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Settings of state dicts of modules with sharded tensors, which are always `DTensor`.

    Args:
        offload_to_cpu: whether values are moved to `cpu`.
        _use_dtensor: accepted.
    """

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """Settings of state dicts of optimizers.

    Args:
        offload_to_cpu: whether values are moved to `cpu`.
    """

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Settings of state dicts of optimizers with whole tensors.

    Args:
        offload_to_cpu: whether values are moved to `cpu`.
        rank0_only: whether only rank 0 gets values.
    """

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Settings of `LOCAL_STATE_DICT`, which is refused.

    Args:
        offload_to_cpu: whether values are moved to `cpu`.
    """

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Settings of state dicts of optimizers with sharded tensors, which are always `DTensor`.

    Args:
        offload_to_cpu: whether values are moved to `cpu`.
        _use_dtensor: accepted.
    """

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """The kind of state dicts, and their settings.

    Args:
        state_dict_type: the kind.
        state_dict_config: settings of those of modules.
        optim_state_dict_config: settings of those of optimizers.
    """

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
