"""`torch.fx.passes.utils.matcher_utils`: search a graph for parts that have a form."""

from __future__ import annotations

import copy
import inspect
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytpu as torch

from ..._compatibility import compatibility
from ...graph import Graph
from ...graph_module import _get_attr
from ...node import Node

__all__ = ["InternalMatch", "SubgraphMatcher"]

logger = logging.getLogger(__name__)
logger.setLevel(os.environ.get("PYTORCH_MATCHER_LOGLEVEL", "WARNING").upper())


@compatibility(is_backward_compatible=False)
@dataclass
class InternalMatch:
    """A part of a graph that has the form.

    Attributes:
        anchors: The nodes of the pattern from which the search starts.
        nodes_map: The values of the graph, by the nodes of the pattern.
        placeholder_nodes: The values of the graph for the parameters of the pattern.
        returning_nodes: The nodes of the graph for the results of the pattern.
        name_node_map: Nodes of the graph, by the names that `SubgraphMatcherWithNameNodeMap` gives them.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        lists = self.placeholder_nodes.copy(), self.returning_nodes.copy()
        return InternalMatch(self.anchors, self.nodes_map.copy(), *lists)


def _is_inner(node: Node) -> bool:
    return node.op not in ("placeholder", "output")


@compatibility(is_backward_compatible=False)
class SubgraphMatcher:
    """A search for parts of a graph with the form of another graph.

    Args:
        pattern: The form.
        match_output: Whether the output of the pattern must be an output.
        match_placeholder: Whether a parameter of the pattern must be one. Else it stands for any value.
        remove_overlapping_matches: Return only the first of matches that share nodes.
        ignore_literals: Let numbers and texts of the pattern stand for any others.

    Raises:
        ValueError: The pattern is empty.
        AssertionError: A node of the pattern is not used.
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        if len(pattern.nodes) == 0:
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for node in pattern.nodes:
            if node.op != "output" and not node.is_impure() and not node.users:
                raise AssertionError("SubgraphMatcher cannot be initialized with a pattern with dead code")
        self.pattern = pattern
        self.match_output, self.match_placeholder = match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals
        self.pattern_placeholder_nodes = [node for node in pattern.nodes if node.op == "placeholder"]
        output = pattern.output_node()
        self.pattern_returning_nodes: list[Node] = output.all_input_nodes
        # The search goes from results to parameters. A result that another node uses is found on the way.
        sinks = [node for node in output.all_input_nodes if len(node.users) == 1]
        self.pattern_anchors: list[Node] = [output] if match_output else sinks

    def _match_attributes(self, wanted: Node, candidate: Node) -> bool:
        values = []
        for node in (wanted, candidate):
            if not isinstance(node.target, str):
                raise AssertionError(f"target {node.target} must be a string.")
            if node.graph.owning_module is None:
                raise AssertionError("graph.owning_module must not be None")
            values.append(_get_attr(node.graph.owning_module, node.target))
        if type(values[0]) is not type(values[1]):
            return False
        if not isinstance(values[0], torch.Tensor):
            raise RuntimeError(f"Unsupported type {values[0]} when matching attributes")
        return True

    def _nodes_are_equal(self, wanted: Node, candidate: Node, node_name_match: str = "") -> bool:
        if not self.match_placeholder and wanted.op == "placeholder":
            return True
        if node_name_match and node_name_match in candidate.name:
            return True
        if wanted.op != candidate.op:
            return False
        if wanted.op == "get_attr":
            return self._match_attributes(wanted, candidate)
        return not _is_inner(wanted) or wanted.target == candidate.target

    def _is_contained(self, nodes_map: dict[Node, Any]) -> bool:
        """Return whether only results are used outside of the match."""
        inside = {candidate for wanted, candidate in nodes_map.items() if wanted.op != "placeholder"}
        return all(
            user in inside
            for wanted, candidate in nodes_map.items()
            if wanted.op != "placeholder" and wanted not in self.pattern_returning_nodes
            for user in candidate.users
        )

    def _remove_overlapping_matches(self, matches: list[InternalMatch]) -> list[InternalMatch]:
        kept: list[InternalMatch] = []
        taken: set[Any] = set()
        for match in matches:
            nodes = {candidate for wanted, candidate in match.nodes_map.items() if _is_inner(wanted)}
            if not nodes & taken:
                kept.append(match)
                taken |= nodes
        return kept

    def _match_literals(self, wanted: Any, candidate: Any, match: InternalMatch) -> bool:
        if isinstance(wanted, Node):
            if isinstance(candidate, Node):
                raise AssertionError("wanted and candidate cannot both be Node")
            if wanted.op != "placeholder":
                return False
            if wanted in match.nodes_map:
                return match.nodes_map[wanted] == candidate
            match.nodes_map[wanted] = candidate
            return True
        return not isinstance(candidate, Node) and type(candidate) is type(wanted) and candidate == wanted

    def _match_args(self, pattern: Sequence[Any], given: Sequence[Any], match: InternalMatch) -> bool:
        if len(pattern) != len(given):
            return False
        for wanted, candidate in zip(pattern, given):
            if isinstance(wanted, Node) and isinstance(candidate, Node):
                matched = self._match_nodes(wanted, candidate, match)
            elif isinstance(wanted, (list, tuple)) and isinstance(candidate, (list, tuple)):
                matched = self._match_args(wanted, candidate, match)
            else:
                matched = self._match_literals(wanted, candidate, match) or self.ignore_literals
            if not matched:
                return False
        return True

    def _match_nodes(self, wanted: Node, candidate: Node, match: InternalMatch, node_name_match: str = "") -> bool:
        if not (isinstance(wanted, Node) and isinstance(candidate, Node)):
            raise AssertionError(f"wanted and candidate must be Node, wanted: {wanted}, candidate: {candidate}")
        if wanted in match.nodes_map:
            return match.nodes_map[wanted] is candidate
        if any(candidate is taken for taken in match.nodes_map.values()) or not self._nodes_are_equal(
            wanted, candidate, node_name_match
        ):
            return False
        match.nodes_map[wanted] = candidate
        if wanted.op == "placeholder":
            return True
        arguments = _arguments(wanted, candidate)
        return arguments is not None and self._match_args(*arguments, match)

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """Return the parts of a graph that have the form.

        Only the results of a part are used outside of it, and it can become one node without a cycle.

        Args:
            graph: The graph.
            node_name_match: A text. A node with the text in its name matches any result of the pattern.
        """
        from .fuser_utils import validate_partition

        candidates = [
            (anchor, [node for node in graph.nodes if self._nodes_are_equal(anchor, node, node_name_match)])
            for anchor in self.pattern_anchors
        ]
        matches = list(self._search(candidates, InternalMatch(self.pattern_anchors), node_name_match))
        if not candidates:
            matches = []
        found = []
        for match in matches:
            if self._is_contained(match.nodes_map) and validate_partition(
                [candidate for wanted, candidate in match.nodes_map.items() if _is_inner(wanted)]
            ):
                found.append(match)
        logger.info("Matches: %s, after the checks: %s", len(matches), len(found))
        return self._remove_overlapping_matches(found) if self.remove_overlapping_matches else found

    def _search(
        self, candidates: list[tuple[Node, list[Node]]], match: InternalMatch, node_name_match: str
    ) -> Iterator[InternalMatch]:
        if not candidates:
            if all(
                wanted in match.nodes_map for wanted in (*self.pattern_placeholder_nodes, *self.pattern_returning_nodes)
            ):
                match.placeholder_nodes = [match.nodes_map[wanted] for wanted in self.pattern_placeholder_nodes]
                match.returning_nodes = [match.nodes_map[wanted] for wanted in self.pattern_returning_nodes]
                yield match
            return
        (anchor, nodes), *rest = candidates
        for node in nodes:
            attempt = copy.copy(match)
            if self._match_nodes(anchor, node, attempt, node_name_match):
                yield from self._search(rest, attempt, node_name_match)


def _arguments(wanted: Node, candidate: Node) -> tuple[list[Any], list[Any]] | None:
    """Return the arguments of two nodes side by side, or `None` if their forms differ."""
    if len(wanted.args) == len(candidate.args) and list(wanted.kwargs) == list(candidate.kwargs):
        return [*wanted.args, *wanted.kwargs.values()], [*candidate.args, *candidate.kwargs.values()]
    if wanted.op == "call_function" and isinstance(wanted.target, torch._ops.OpOverload):
        # Arguments of an operator are also found by name, and defaults are filled in.
        signatures: list[inspect.Signature] = torch.fx.operator_schemas.get_signature_for_torch_op(wanted.target)
        if signatures:
            return _by_parameter(signatures[0], wanted), _by_parameter(signatures[0], candidate)
    return None


def _by_parameter(signature: inspect.Signature, node: Node) -> list[Any]:
    values = []
    for i, (name, parameter) in enumerate(signature.parameters.items()):
        names = ("input", "self") if name == "input" else (name,)
        given = [node.kwargs[key] for key in names if key in node.kwargs]
        if given:
            values.append(given[0])
        elif parameter.kind is not inspect.Parameter.KEYWORD_ONLY and i < len(node.args):
            values.append(node.args[i])
        else:
            values.append(None if parameter.default is inspect.Parameter.empty else parameter.default)
    return values
