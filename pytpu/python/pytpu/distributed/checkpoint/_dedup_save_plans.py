"""Items that several ranks have are written by one of them."""

from __future__ import annotations

import dataclasses
import math

from .metadata import MetadataIndex
from .planner import SavePlan, WriteItem

__all__ = ["dedup_save_plans"]


def dedup_save_plans(all_plans: list[SavePlan], save_to_lowest_rank: bool = False) -> list[SavePlan]:
    """Return plans in which each item occurs once.

    An item that several ranks have goes to the rank that has the fewest bytes to write so far. Items that only one rank
    has are counted first.

    Args:
        all_plans: The plan of each rank.
        save_to_lowest_rank: If `True`, the first rank that has an item writes it.
    """
    owners: dict[MetadataIndex, list[int]] = {}
    bytes_of: dict[MetadataIndex, int] = {}
    for rank, plan in enumerate(all_plans):
        for item in plan.items:
            ranks = owners.setdefault(item.index, [])
            if rank not in ranks[-1:]:
                ranks.append(rank)
            bytes_of[item.index] = _bytes(item)
    load = [0] * len(all_plans)
    writer: dict[MetadataIndex, int] = {}
    for index, ranks in sorted(owners.items(), key=lambda pair: len(pair[1]) > 1):
        rank = ranks[0] if save_to_lowest_rank else min(ranks, key=lambda r: load[r])
        writer[index] = rank
        load[rank] += bytes_of[index]
    return [
        dataclasses.replace(plan, items=[item for item in plan.items if writer[item.index] == rank])
        for rank, plan in enumerate(all_plans)
    ]


def _bytes(item: WriteItem) -> int:
    """Return the size of an item. Objects that are not tensors count as one byte."""
    data = item.tensor_data
    return 1 if data is None else max(1, math.prod(data.chunk.sizes) * data.properties.dtype.itemsize)
