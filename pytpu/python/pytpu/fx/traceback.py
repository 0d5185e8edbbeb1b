"""`torch.fx.traceback`: notes that tracers and interpreters put on the nodes that they make."""

from __future__ import annotations

import contextlib
import functools
import traceback
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, TypeVar

from ._compatibility import compatibility

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .graph import Graph
    from .node import Node

__all__ = [
    "NodeSource",
    "NodeSourceAction",
    "annotate",
    "annotate_fn",
    "format_stack",
    "get_current_meta",
    "get_current_replay_node",
    "get_graph_provenance_json",
    "has_preserved_node_meta",
    "preserve_node_meta",
    "reset_grad_fn_seq_nr",
    "set_current_meta",
    "set_current_replay_node",
    "set_grad_fn_seq_nr",
    "set_stack_trace",
]

_F = TypeVar("_F", bound=Callable[..., Any])

current_meta: dict[str, Any] = {}
should_preserve_node_meta = False
current_replay_node: Node | None = None
# Files and names of functions whose frames stay in stack traces.
_anchors: set[tuple[str, str]] = set()


@compatibility(is_backward_compatible=False)
class NodeSourceAction(Enum):
    """What made a node from another one."""

    CREATE = "create"
    REPLACE = "replace"


@compatibility(is_backward_compatible=False)
class NodeSource:
    """The node that another one was made from, as far as `meta["from_node"]` says it.

    Args:
        node: The node, or `None`.
        pass_name: The pass that made the other one.
        action: What the pass did: an action, or a list of them.
    """

    class NodeInfo:
        """The name, the target and the identity of the graph of a node."""

        def __init__(self, name: str, target: str, graph_id: int) -> None:
            self.name, self.target, self.graph_id = name, target, graph_id

    def __init__(
        self, node: Node | None, pass_name: str = "", action: NodeSourceAction | list[NodeSourceAction] | None = None
    ) -> None:
        actions = action if isinstance(action, list) else [] if action is None else [action]
        for item in actions:
            if not isinstance(item, NodeSourceAction):
                raise AssertionError(f"Expected NodeSourceAction, got {type(item)}")
        self.pass_name, self.action = pass_name, actions
        self.node_info: NodeSource.NodeInfo | None = None
        self.from_node: list[NodeSource] = []
        if node is not None:
            self.node_info = self.NodeInfo(node.name, str(node.target), id(node.graph))
            self.from_node = list(node.meta.get("from_node", ()))

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.node_info.name if self.node_info else ""

    @property
    def target(self) -> str:
        """The target of the node, as a text."""
        return self.node_info.target if self.node_info else ""

    @property
    def graph_id(self) -> int:
        """The identity of the graph of the node."""
        return self.node_info.graph_id if self.node_info else -1

    def _get_action_string(self) -> str:
        return "+".join(action.name.lower() for action in self.action)

    def __repr__(self) -> str:
        return self.print_readable()

    def print_readable(self, indent: int = 0) -> str:
        """Return one line for the node, and indented lines for the nodes that it was made from."""
        if indent > 9:
            return ""
        line = (
            f"{' ' * indent * 4}(name={self.name}, pass_name={self.pass_name}, action={self._get_action_string()}, "
            f"graph_id={self.graph_id})\n"
        )
        return line + "".join(source.print_readable(indent + 1) for source in self.from_node)

    def to_dict(self) -> dict[str, Any]:
        """Return the same as a dictionary."""
        return {
            "name": self.name,
            "target": self.target,
            "graph_id": self.graph_id,
            "pass_name": self.pass_name,
            "action": self._get_action_string(),
            "from_node": [source.to_dict() for source in self.from_node],
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSource) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.print_readable())

    @classmethod
    def _from_dict(cls, d: dict[str, Any] | None) -> NodeSource | None:
        if d is None:
            return None
        if not isinstance(d, dict):
            raise AssertionError(f"Expected a dict, got {type(d)}")
        known = {action.value: action for action in NodeSourceAction}
        made = cls(None, d.get("pass_name", ""), [known[a] for a in d.get("action", "").split("+") if a in known])
        if all(key in d for key in ("name", "target", "graph_id")):
            made.node_info = cls.NodeInfo(d["name"], d["target"], d["graph_id"])
        sources = [cls._from_dict(source) for source in d.get("from_node") or []]
        made.from_node = [source for source in sources if source is not None]
        return made


@compatibility(is_backward_compatible=False)
@contextlib.contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Context in which new nodes get the notes of `get_current_meta`."""
    global current_meta, should_preserve_node_meta
    before = should_preserve_node_meta, dict(current_meta)
    should_preserve_node_meta = enable
    try:
        yield
    finally:
        should_preserve_node_meta, current_meta = before


@compatibility(is_backward_compatible=False)
def has_preserved_node_meta() -> bool:
    """Return whether new nodes get the notes of `get_current_meta`."""
    return should_preserve_node_meta


@compatibility(is_backward_compatible=False)
def get_current_meta() -> dict[str, Any]:
    """Return the notes for new nodes: those of the node that runs, or those from `annotate`."""
    return current_meta


@compatibility(is_backward_compatible=False)
@contextlib.contextmanager
def set_current_meta(node: Node, pass_name: str = "") -> Iterator[None]:
    """Context in which the notes are those of a node, and say that new nodes are made from it."""
    global current_meta
    before = current_meta
    if should_preserve_node_meta and node.meta:
        current_meta = {**node.meta, "from_node": [NodeSource(node, pass_name, NodeSourceAction.CREATE)]}
    try:
        yield
    finally:
        current_meta = before


@compatibility(is_backward_compatible=False)
@contextlib.contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Context in which the notes have more entries under `"custom"`. `symbolic_trace` does not look at them."""
    global current_meta
    before = current_meta
    current_meta = {**before, "custom": {**before.get("custom", {}), **annotation_dict}}
    try:
        yield
    finally:
        current_meta = before


@compatibility(is_backward_compatible=False)
def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[[_F], _F]:
    """Return a decorator of functions that run within `annotate`."""

    def decorate(func: _F) -> _F:
        code = getattr(func, "__code__", None)
        if code is not None:
            _anchors.add((code.co_filename, code.co_name))

        @functools.wraps(func)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            with annotate(annotation_dict):
                return func(*args, **kwargs)

        return annotated  # type: ignore[return-value]

    return decorate


@compatibility(is_backward_compatible=False)
def set_stack_trace(stack: list[str]) -> None:
    """Set the stack trace of the notes. An empty one removes it."""
    if should_preserve_node_meta:
        if stack:
            current_meta["stack_trace"] = "".join(stack)
        else:
            current_meta.pop("stack_trace", None)


@compatibility(is_backward_compatible=False)
def format_stack() -> list[str]:
    """Return the stack trace of the notes, or that of the caller."""
    if should_preserve_node_meta:
        return [current_meta.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


@compatibility(is_backward_compatible=False)
def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Enter the backward of an autograd node with a number."""
    if should_preserve_node_meta:
        current_meta["grad_fn_seq_nr"] = [*current_meta.get("grad_fn_seq_nr", []), seq_nr]
        current_meta["in_grad_fn"] = current_meta.get("in_grad_fn", 0) + 1


@compatibility(is_backward_compatible=False)
def reset_grad_fn_seq_nr() -> None:
    """Leave the backward of an autograd node."""
    if should_preserve_node_meta:
        level = current_meta.get("in_grad_fn", 0)
        if level <= 0:
            raise AssertionError(f"Expected current_level > 0, got {level}")
        if level == 1:
            del current_meta["in_grad_fn"], current_meta["grad_fn_seq_nr"]
        else:
            current_meta["in_grad_fn"] = level - 1
            current_meta["grad_fn_seq_nr"] = current_meta["grad_fn_seq_nr"][:-1]


@compatibility(is_backward_compatible=False)
@contextlib.contextmanager
def set_current_replay_node(node: Node | None) -> Iterator[None]:
    """Context in which new nodes replace `node`, and get its notes."""
    global current_replay_node
    before = current_replay_node
    current_replay_node = node
    try:
        yield
    finally:
        current_replay_node = before


@compatibility(is_backward_compatible=False)
def get_current_replay_node() -> Node | None:
    """Return the node that new nodes replace, or `None`."""
    return current_replay_node


@compatibility(is_backward_compatible=False)
def get_graph_provenance_json(graph: Graph) -> dict[str, Any]:
    """Return, for each call of a function, the nodes that it was made from."""
    return {
        node.name: [source.to_dict() for source in node.meta.get("from_node", ())]
        for node in graph.nodes
        if node.op == "call_function"
    }
