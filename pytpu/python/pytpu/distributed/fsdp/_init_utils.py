"""Groups of ranks within and between hosts, and kinds of strategies."""

from __future__ import annotations

from typing import cast

from ..distributed_c10d import get_process_group_ranks, new_group, new_subgroups
from .api import ShardingStrategy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..distributed_c10d import ProcessGroup

#: Strategies that keep gathered parameters after forward.
NO_RESHARD_AFTER_FORWARD_STRATEGIES = (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2)


def _init_intra_node_process_group(num_devices_per_node: int) -> ProcessGroup:
    """Return the group of the ranks on this rank's host."""
    # Each rank is in one of the groups.
    return cast("ProcessGroup", new_subgroups(num_devices_per_node)[0])


def _init_inter_node_process_group(global_process_group: ProcessGroup, num_devices_per_node: int) -> ProcessGroup:
    """Return the group of the ranks of all hosts that have this rank's place on their host."""
    ranks = get_process_group_ranks(global_process_group)
    own = global_process_group.rank() % num_devices_per_node
    made = [new_group(ranks[place::num_devices_per_node]) for place in range(num_devices_per_node)]
    return cast("ProcessGroup", made[own])
