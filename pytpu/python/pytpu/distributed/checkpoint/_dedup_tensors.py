"""Tensors that several ranks have are written by the first of them. Planners use `_dedup_save_plans` instead."""

from __future__ import annotations

import dataclasses

from .metadata import MetadataIndex
from .planner import SavePlan, WriteItemType

__all__ = ["dedup_tensors"]


def dedup_tensors(all_plans: list[SavePlan]) -> list[SavePlan]:
    """Return plans in which each piece of a tensor occurs once, in the first plan that has it. Other items stay.

    Args:
        all_plans: The plan of each rank.
    """
    first: dict[MetadataIndex, int] = {}
    result = []
    for rank, plan in enumerate(all_plans):
        items = [
            item
            for item in plan.items
            if item.type == WriteItemType.BYTE_IO or first.setdefault(item.index, rank) == rank
        ]
        result.append(dataclasses.replace(plan, items=items))
    return result
