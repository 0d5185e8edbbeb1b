"""`torch.distributed.tensor.parallel.input_reshard`: divide what a module saves for backward."""

from __future__ import annotations

from ....autograd.graph import saved_tensors_hooks
from .._api import DTensor
from ..placement_types import Replicate, Shard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .... import Tensor, nn
    from ...device_mesh import DeviceMesh

__all__ = ["input_reshard"]


def input_reshard(module: nn.Module, tp_device_mesh: DeviceMesh, input_reshard_dim: int | None = None) -> nn.Module:
    """Keep replicated tensors in parts from the forward to the backward pass of a module, and return the module.

    Each rank keeps its part of a replicated `DTensor` that the module saves. The backward pass gathers the parts.
    Parameters, sharded tensors and plain tensors are kept as they are.

    Args:
        module: the module.
        tp_device_mesh: the mesh of the tensors.
        input_reshard_dim: the dimension to divide. `None` divides nothing.
    """
    if input_reshard_dim is None:
        return module
    dim, whole = input_reshard_dim, [Replicate()] * tp_device_mesh.ndim
    parts = [Shard(dim), *whole[1:]]

    def pack(x: Tensor) -> Callable[[], Tensor]:
        is_parameter = x.is_leaf and x.requires_grad
        if is_parameter or not isinstance(x, DTensor) or x.device_mesh != tp_device_mesh:
            return lambda: x
        if list(x.placements) != whole or not -x.ndim <= dim < x.ndim:
            return lambda: x
        detached: Any = x.detach()
        part = detached.redistribute(placements=parts)
        return lambda: part.redistribute(placements=whole)

    active: list[saved_tensors_hooks] = []

    def enter(*_: Any) -> None:
        active.append(saved_tensors_hooks(pack, lambda restore: restore()))
        active[-1].__enter__()

    def leave(*_: Any) -> None:
        active.pop().__exit__()

    module.register_forward_pre_hook(enter)
    module.register_forward_hook(leave, always_call=True)
    return module
