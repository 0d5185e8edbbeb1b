"""Sizes and places of the parts of sharded tensors."""

from __future__ import annotations

from ..device_mesh import DeviceMesh
from .placement_types import Placement, Shard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["compute_global_tensor_info", "compute_local_shape_and_global_offset"]


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes of this rank's part, and the first place of it in each dimension.

    The part of a rank that is not in the mesh has the sizes `(0,)`. The first place of an empty part is the size of
    the dimension.

    Args:
        global_shape: the sizes of the whole tensor.
        mesh: the mesh.
        placements: a placement for each mesh dimension.
    """
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        return (0,), ()
    places = local_places(global_shape, mesh, placements, coordinate)
    sizes = tuple(sum(length for _, length in now) for now in places)
    offsets = tuple(now[0][0] if now else size for now, size in zip(places, global_shape))
    return sizes, offsets


def local_places(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement], coordinate: Sequence[int]
) -> list[list[tuple[int, int]]]:
    """Return the places of each dimension that a rank has, as first places and lengths of pieces.

    Args:
        global_shape: the sizes of the whole tensor.
        mesh: the mesh.
        placements: a placement for each mesh dimension.
        coordinate: the position of the rank.
    """
    places = [[(0, size)] for size in global_shape]
    for at, ranks, placement in zip(coordinate, mesh.shape, placements):
        if isinstance(placement, Shard):
            now = places[placement.dim]
            pieces = placement._pieces(sum(length for _, length in now), ranks, at)
            places[placement.dim] = _join([found for piece in pieces for found in _take(now, *piece)])
    return places


def _join(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return pieces without those that continue another one."""
    joined = list[tuple[int, int]]()
    for first, size in places:
        if joined and sum(joined[-1]) == first:
            first, size = joined[-1][0], joined.pop()[1] + size
        joined.append((first, size))
    return joined


def _take(places: list[tuple[int, int]], start: int, length: int) -> list[tuple[int, int]]:
    """Return `length` of the places from number `start` on."""
    taken, before = [], 0
    for first, size in places:
        low, high = max(start, before), min(start + length, before + size)
        if low < high:
            taken.append((first + low - before, high - low))
        before += size
    return taken


def compute_global_tensor_info(
    shape: Sequence[int], stride: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[list[int], list[int]]:
    """Return sizes and strides of the whole tensor, if every rank has a part with this `shape` and `stride`.

    Args:
        shape: the sizes of the part.
        stride: its strides.
        mesh: the mesh.
        placements: a placement for each mesh dimension.
    """
    sizes, strides = list(shape), list(stride)
    for ranks, placement in zip(mesh.shape, placements):
        if not isinstance(placement, Shard):
            continue
        dim = placement.dim
        if dim < 0:
            raise AssertionError(
                f"Shard placements should have negative dims normalized in the user-facing APIs: {placement}"
            )
        if dim >= len(sizes):
            raise AssertionError(f"Sharding dim {dim} greater than tensor ndim {len(sizes)} for placement {placement}.")
        sizes[dim] *= ranks
        for i, step in enumerate(strides):
            if i != dim and step >= strides[dim]:
                strides[i] = step * ranks
    return sizes, strides
