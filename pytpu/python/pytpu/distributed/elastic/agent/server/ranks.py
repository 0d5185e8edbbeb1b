"""The ranks of workers on several nodes."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any, NamedTuple


class Ranks(NamedTuple):
    """The ranks of the workers of a node.

    Args:
        first: rank of the first worker.
        world_size: number of all workers.
        role_first: rank of the first worker among those of the same role.
        role_world_size: number of workers of the same role.
    """

    first: int
    world_size: int
    role_first: int
    role_world_size: int


def add_up(nodes: list[tuple[str, int]]) -> list[Ranks]:
    """Return the ranks on each node.

    Args:
        nodes: the role and the number of the workers of each node.
    """
    sizes: Counter[str] = Counter()
    firsts = []
    for role, n in nodes:
        firsts.append((sizes.total(), sizes[role]))
        sizes[role] += n
    return [
        Ranks(first, sizes.total(), role_first, sizes[role]) for (first, role_first), (role, _) in zip(firsts, nodes)
    ]


def agree(store: Any, node: int, nodes: int, role: str, n: int) -> Ranks:
    """Return the ranks on this node. All nodes call this function.

    If the environment variable `TORCH_ELASTIC_WORKER_IDENTICAL` is 1, all nodes are equal, and no message is needed.

    Args:
        store: a store that all nodes share.
        node: rank of this node.
        nodes: number of nodes.
        role: role of the workers of this node.
        n: number of workers of this node.
    """
    if os.environ.get("TORCH_ELASTIC_WORKER_IDENTICAL") == "1":
        return add_up([(role, n)] * nodes)[node]
    # PyTorch's agents use the same keys: nodes with both kinds of agents may form one job.
    own = {"role": role, "rank": node, "local_world_size": n}
    store.set(f"torchelastic/role_info/{node}", json.dumps(own))
    if node == 0:
        found = [json.loads(text) for text in store.multi_get([f"torchelastic/role_info/{i}" for i in range(nodes)])]
        answers = add_up([(info["role"], info["local_world_size"]) for info in found])
        keys = [f"torchelastic/assigned_ranks/{i}" for i in range(nodes)]
        store.multi_set(keys, [json.dumps(answer) for answer in answers])
        return answers[0]
    return Ranks(*json.loads(store.get(f"torchelastic/assigned_ranks/{node}")))
