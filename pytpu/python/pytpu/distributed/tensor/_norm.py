"""The norm of many sharded tensors, taken as one vector."""

from __future__ import annotations

import math

import pytpu as torch

from ... import Tensor
from .._functional_collectives import all_reduce
from ._api import DTensor
from .device_mesh import DeviceMesh
from .placement_types import Partial, Replicate


def norm_of_sharded(tensors: list[DTensor], order: float) -> DTensor:
    """Return the norm of all elements of tensors of one mesh, with at most one reduction for each mesh dimension.

    Args:
        tensors: The tensors. All of them have the same mesh.
        order: Exponent of the norm, not zero. `inf` gives the largest absolute value.
    """
    mesh = tensors[0].device_mesh
    # Norms of this rank's parts, by the mesh dimensions over which they are still to be combined.
    parts: dict[frozenset[int], list[Tensor]] = {}
    for tensor in tensors:
        split, part = _part_of_rank(tensor, order)
        parts.setdefault(split, []).append(part)
    for dim in range(mesh.ndim):
        open_dims = [dims for dims in parts if dim in dims]
        if open_dims:
            norms = torch.stack([_combine(parts.pop(dims), order) for dims in open_dims])
            for dims, norm in zip(open_dims, _over_ranks(norms, order, mesh, dim).unbind(), strict=True):
                parts.setdefault(dims - {dim}, []).append(norm)
    total = _combine(parts[frozenset()], order)
    return DTensor.from_local(total, mesh, [Replicate()] * mesh.ndim, run_check=False)


def _part_of_rank(tensor: DTensor, order: float) -> tuple[frozenset[int], Tensor]:
    """Return the mesh dimensions that split a tensor, and the norm of the part of this rank."""
    if any(isinstance(placement, Partial) for placement in tensor.placements):
        tensor = tensor.redistribute(
            placements=[Replicate() if isinstance(p, Partial) else p for p in tensor.placements]
        )
    split = frozenset(dim for dim, placement in enumerate(tensor.placements) if not placement.is_replicate())
    local = tensor.to_local()
    # A part without elements has no largest element: take the value that changes no result.
    is_empty = local.numel() == 0
    part = local.new_full((), math.inf if order < 0 else 0.0) if is_empty else torch.linalg.vector_norm(local, order)
    return split, part


def _combine(norms: list[Tensor], order: float) -> Tensor:
    return torch.linalg.vector_norm(torch.stack(norms), order)


def _over_ranks(norms: Tensor, order: float, mesh: DeviceMesh, dim: int) -> Tensor:
    """Combine norms of parts over a mesh dimension, element by element."""
    if math.isinf(order):
        return all_reduce(norms, "max" if order > 0 else "min", (mesh, dim))
    return all_reduce(norms.pow(order), "sum", (mesh, dim)).pow(1 / order)
