"""`visualize_sharding`: a table of the parts of a sharded tensor."""

from __future__ import annotations

from .._api import DTensor
from .._utils import local_places

__all__ = ["visualize_sharding"]


def visualize_sharding(dtensor: DTensor, header: str = "", use_rich: bool = False) -> None:
    """Print which ranks have which part of a sharded tensor of one or two dimensions, on the first rank of the mesh.

    Args:
        dtensor: the tensor.
        header: a line before the table.
        use_rich: must be `False`: tables are plain text.

    Raises:
        RuntimeError: if the tensor has more than two dimensions, or a reduction is pending.
        NotImplementedError: for `use_rich`.
    """
    if dtensor.numel() == 0:
        return
    if dtensor.ndim > 2:
        raise RuntimeError("visualize sharding is only implemented for 1D or 2D DTensor")
    if any(placement.is_partial() for placement in dtensor.placements):
        raise RuntimeError("visualize sharding: a pending reduction has no parts to show")
    if use_rich:
        raise NotImplementedError("visualize_sharding: use_rich is not implemented")
    mesh = dtensor.device_mesh
    coordinate = mesh.get_coordinate()
    if coordinate is None or any(coordinate):
        return
    ranks: dict[tuple[str, ...], list[str]] = {}
    for at, rank in _coordinates(list(mesh.shape), mesh.mesh.flatten().tolist()):
        places = local_places(dtensor.shape, mesh, dtensor.placements, at)
        cells = tuple(", ".join(f"{first}-{first + size - 1}" for first, size in each) for each in places)
        ranks.setdefault(cells, []).append(f"{mesh.device_type}:{rank}")
    rows = sorted({cells[0] for cells in ranks if cells[0]}, key=_first)
    columns = sorted({cells[1] for cells in ranks if len(cells) > 1 and cells[1]}, key=_first) or [""]
    table = [["", *columns]] if columns != [""] else []
    for row in rows:
        key = [(row, column) if dtensor.ndim == 2 else (row,) for column in columns]
        table.append([f"Row {row}" if dtensor.ndim == 2 else f"Row {row}", *(", ".join(ranks.get(k, [])) for k in key)])
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    if header:
        print(header)
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def _first(cell: str) -> int:
    return int(cell.split("-")[0])


def _coordinates(sizes: list[int], ranks: list[int]) -> list[tuple[list[int], int]]:
    """Return each position of a mesh with its rank."""
    found = []
    for i, rank in enumerate(ranks):
        at, rest = [0] * len(sizes), i
        for dim in reversed(range(len(sizes))):
            rest, at[dim] = divmod(rest, sizes[dim])
        found.append((at, rank))
    return found
