"""`torch.fx.passes.infra.partitioner`: find the parts of a graph that a backend can run."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from ...graph_module import GraphModule
from ...node import Node, _get_qualified_name
from ..operator_support import OperatorSupportBase
from ..utils.fuser_utils import fuse_by_partitions

logger = logging.getLogger(__name__)


class Partition:
    """Nodes that become one module.

    Args:
        id: A number.
        nodes: The nodes.
        node_orders: Their places.
    """

    def __init__(
        self, id: int | None = None, nodes: Iterable[Node] | None = None, node_orders: Iterable[int] | None = None
    ) -> None:
        self.id = id
        listed = list(nodes or ())
        places: list[int | None] = [None] * len(listed) if node_orders is None else list(node_orders)
        if len(listed) != len(places):
            raise AssertionError("nodes and node_orders must have the same length")
        self.nodes: dict[Node, int | None] = dict(zip(listed, places))

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node, node_order: int | None = None) -> None:
        """Add a node."""
        self.nodes[node] = node_order

    def remove_node(self, node: Node) -> None:
        """Remove a node."""
        del self.nodes[node]

    def size(self) -> int:
        """Return the number of nodes."""
        return len(self.nodes)


class _DependencyViewer:
    """The nodes that depend on each node, as bits of numbers: nodes have places in the graph."""

    def __init__(self, graph_module: GraphModule) -> None:
        self.nodes = list(graph_module.graph.nodes)
        self.place = {node: i for i, node in enumerate(self.nodes)}
        self.after: dict[Node, int] = {}
        for node in reversed(self.nodes):
            bits = 0
            for user in node.users:
                bits |= self.after[user] | 1 << self.place[user]
            self.after[node] = bits

    def downstreams_of(self, node: Node) -> set[Node]:
        """Return the nodes that depend on a node."""
        bits = self.after[node]
        return {other for other, i in self.place.items() if bits >> i & 1}


class CapabilityBasedPartitioner:
    """A search for the largest parts of a graph that a backend can run.

    Args:
        graph_module: The module with the graph.
        operator_support: What the backend can run.
        allows_single_node_partition: Propose parts of one operation too.
        non_compute_ops: Names of functions that do not count as operations.
        allowed_single_node_partition_ops: Names of functions that may be a part alone.
        skip_horizontal_fusion: Join parts only along values, not side by side.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        skip_horizontal_fusion: bool = False,
    ) -> None:
        self.graph_module, self.operator_support = graph_module, operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = [] if non_compute_ops is None else non_compute_ops
        self.allowed_single_node_partition_ops = allowed_single_node_partition_ops or []
        self.skip_horizontal_fusion = skip_horizontal_fusion
        self.dependency_viewer = _DependencyViewer(graph_module)

    def _is_node_supported(self, node: Node) -> bool:
        return self.operator_support.is_node_supported(dict(self.graph_module.named_modules()), node)

    def propose_partitions(self) -> list[Partition]:
        """Return the parts. Each can become one module without a cycle, also together with all others."""
        viewer = self.dependency_viewer
        modules = dict(self.graph_module.named_modules())
        parts = _Parts(viewer)
        for order, node in enumerate(reversed(self.graph_module.graph.nodes)):
            made = None
            if self.operator_support.is_node_supported(modules, node) and node not in parts.part_of:
                made = parts.add(node, order)
            if self.skip_horizontal_fusion:
                if made is None:
                    continue
                candidates = [made, *(parts.part_of[user] for user in node.users if user in parts.part_of)]
            else:
                candidates = sorted(parts.members, key=parts.first.__getitem__)
                candidates = candidates if made is None else [made, *candidates]
            candidates = list(dict.fromkeys(candidates))
            if candidates:
                into = candidates[0]
                for other in candidates[1:]:
                    into = parts.join(into, other)
        self._move_items(parts)
        found = []
        for i, members in parts.members.items():
            nodes = sorted(members, key=viewer.place.__getitem__)
            orders = [len(viewer.nodes) - 1 - viewer.place[node] for node in nodes]
            if nodes and (self.allows_single_node_partition or self._has_enough(nodes)):
                found.append(Partition(i, nodes, orders))
        return found

    @staticmethod
    def _move_items(parts: _Parts) -> None:
        """Let items of a tuple be in the part that makes the tuple."""
        is_changed = True
        while is_changed:
            is_changed = False
            for node in parts.viewer.nodes:
                if not all(_is_item(user) for user in node.users):
                    continue
                part = parts.part_of.get(node)
                for user in node.users:
                    if parts.part_of.get(user) != part:
                        parts.move(user, part)
                        is_changed = True

    def _has_enough(self, nodes: list[Node]) -> bool:
        free = {"torch.ops.aten.view", "_operator.getitem", *self.non_compute_ops}
        count = 0
        for node in nodes:
            if node.op == "call_function":
                name = _get_qualified_name(node.target)  # type: ignore[arg-type]
                count += (name not in free) + (name in self.allowed_single_node_partition_ops)
        return count > 1

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """Make a module of each part, and return the whole with calls of them."""
        return fuse_by_partitions(self.graph_module, [partition.nodes for partition in partitions], prefix=prefix)

    def remove_bookend_non_compute_ops(self, partitions: list[Partition]) -> None:
        """Remove `non_compute_ops` from the start and the end of parts."""
        for partition in partitions:
            inside = partition.nodes
            removed: set[Node] = set()
            for nodes, neighbours in (
                (sorted(inside), lambda node: node.all_input_nodes),
                (sorted(inside, reverse=True), lambda node: list(node.users)),
            ):
                # In this order, the neighbours of a node have been looked at before it.
                gone: set[Node] = set()
                for node in nodes:
                    if self._is_free(node) and all(each not in inside or each in gone for each in neighbours(node)):
                        gone.add(node)
                removed |= gone
            for node in removed:
                del inside[node]

    def _is_free(self, node: Node) -> bool:
        if node.op != "call_function":
            return False
        return _get_qualified_name(node.target) in self.non_compute_ops  # type: ignore[arg-type]

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Propose the parts, and make modules of them."""
        return self.fuse_partitions(self.propose_partitions(), prefix=prefix)


def _is_item(node: Node) -> bool:
    return node.op == "call_function" and _get_qualified_name(node.target) == "_operator.getitem"  # type: ignore[arg-type]


class _Parts:
    """The parts while they are joined: numbers, with the bits of their nodes and of the nodes that depend on them."""

    def __init__(self, viewer: _DependencyViewer) -> None:
        self.viewer = viewer
        self.members: dict[int, dict[Node, None]] = {}
        self.part_of: dict[Node, int] = {}
        self.first: dict[int, int] = {}
        self.bits: dict[int, int] = {}
        self.after: dict[int, int] = {}
        self.next_id = 0

    def add(self, node: Node, order: int) -> int:
        """Make a part of one node."""
        part = self.next_id
        self.next_id += 1
        self.members[part] = {node: None}
        self.part_of[node] = self.first[part] = part
        self.bits[part] = 1 << self.viewer.place[node]
        self.after[part] = self.viewer.after[node]
        return part

    def _reach(self, start: int, without: set[int]) -> int:
        """Return the bits of all nodes that depend on some, if each other part is one node."""
        reached, is_changed = start, True
        left = [part for part in self.members if part not in without]
        while is_changed:
            is_changed = False
            for part in list(left):
                if reached & self.bits[part]:
                    left.remove(part)
                    reached |= self.after[part]
                    is_changed = True
        return reached

    def join(self, a: int, b: int) -> int:
        """Join two parts, unless a cycle would follow. Return the part of the first one."""
        together = self.bits[a] | self.bits[b]
        outside = 0
        for node in self._both(a, b):
            for user in node.users:
                i = self.viewer.place[user]
                if not together >> i & 1:
                    outside |= self.viewer.after[user] | 1 << i
        if self._reach(outside, {a, b}) & together:
            return a
        kept, gone = (b, a) if len(self.members[a]) < len(self.members[b]) else (a, b)
        for node in self.members[gone]:
            self.part_of[node] = kept
        self.members[kept].update(self.members.pop(gone))
        self.first[kept] = min(self.first[kept], self.first.pop(gone))
        self.bits[kept], self.after[kept] = together, self.after[kept] | self.after.pop(gone)
        del self.bits[gone]
        return kept

    def _both(self, a: int, b: int) -> Iterator[Node]:
        yield from self.members[a]
        yield from self.members[b]

    def move(self, node: Node, part: int | None) -> None:
        """Move a node into another part, or out of all."""
        if node in self.part_of:
            del self.members[self.part_of.pop(node)][node]
        if part is not None:
            self.part_of[node] = part
            self.members[part][node] = None
