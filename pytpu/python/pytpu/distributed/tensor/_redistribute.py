"""Redistribution of the part of one rank."""

from __future__ import annotations

from ... import Tensor
from ._api import DTensor
from ._dtensor_spec import DTensorSpec

__all__ = ["redistribute_local_tensor"]


def redistribute_local_tensor(
    local_tensor: Tensor,
    current_spec: DTensorSpec,
    target_spec: DTensorSpec,
    *,
    async_op: bool = False,
    use_graph_based_transform: bool | None = None,
) -> Tensor:
    """Return this rank's part of a tensor with other placements. All ranks of the mesh call it.

    Args:
        local_tensor: the part of this rank.
        current_spec: the placements of the tensor, with the sizes of the whole.
        target_spec: the wanted placements.
        async_op: accepted. The call waits.
        use_graph_based_transform: accepted. The steps follow from the placements.

    Raises:
        NotImplementedError: for another mesh.
        ValueError: if `current_spec` lacks the sizes of the whole.
    """
    if current_spec.mesh != target_spec.mesh:
        raise NotImplementedError("Cross device mesh comm not supported yet!")
    meta = current_spec.tensor_meta
    if meta is None:
        raise ValueError("redistribute_local_tensor: current_spec: tensor_meta must be set")
    whole = DTensor.from_local(
        local_tensor, current_spec.mesh, current_spec.placements, shape=meta.shape, stride=meta.stride
    )
    return whole.redistribute(placements=target_spec.placements).to_local()
