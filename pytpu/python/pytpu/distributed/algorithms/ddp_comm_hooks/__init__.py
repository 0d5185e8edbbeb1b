"""Functions that reduce the gradients of `DistributedDataParallel`, for its method `register_comm_hook`."""

from __future__ import annotations

import enum
import functools

from . import (
    ddp_zero_hook,
    debugging_hooks,
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
    quantization_hooks,
)

#: The other name of a module.
quantization = quantization_hooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....nn.parallel import DistributedDataParallel

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class DDPCommHookType(enum.Enum):
    """Hooks by name. The value is a function that registers the hook: `kind.value(model=model, state=state)`."""

    ALLREDUCE = functools.partial(lambda model, state: model.register_comm_hook(state, default_hooks.allreduce_hook))
    FP16_COMPRESS = functools.partial(
        lambda model, state: model.register_comm_hook(state, default_hooks.fp16_compress_hook)
    )
    BF16_COMPRESS = functools.partial(
        lambda model, state: model.register_comm_hook(state, default_hooks.bf16_compress_hook)
    )
    QUANTIZE_PER_TENSOR = functools.partial(
        lambda model, state: model.register_comm_hook(state, quantization_hooks.quantization_pertensor_hook)
    )
    QUANTIZE_PER_CHANNEL = functools.partial(
        lambda model, state: model.register_comm_hook(state, quantization_hooks.quantization_perchannel_hook)
    )
    POWER_SGD = functools.partial(lambda model, state: _register_power_sgd(model, state, 1))
    POWER_SGD_RANK2 = functools.partial(lambda model, state: _register_power_sgd(model, state, 2))
    BATCHED_POWER_SGD = functools.partial(lambda model, state: _register_power_sgd(model, state, 1, True))
    BATCHED_POWER_SGD_RANK2 = functools.partial(lambda model, state: _register_power_sgd(model, state, 2, True))
    NOOP = functools.partial(lambda model, state: model.register_comm_hook(state, debugging_hooks.noop_hook))


def _register_power_sgd(model: DistributedDataParallel, group: object, rank: int, is_batched: bool = False) -> None:
    hook = powerSGD_hook.batched_powerSGD_hook if is_batched else powerSGD_hook.powerSGD_hook
    model.register_comm_hook(powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=rank), hook)


def register_ddp_comm_hook(
    comm_hook_type: DDPCommHookType, model: DistributedDataParallel, state: object = None
) -> None:
    """Register a hook by name.

    Args:
        comm_hook_type: the name.
        model: the model whose gradients are reduced.
        state: the first argument of the hook: the group, or `None` for the default one.
    """
    comm_hook_type.value(model=model, state=state)
