"""The backward of a stage, as a whole or in two halves: gradients of its inputs, and gradients of its weights.

The first half runs the backward only on paths from the outputs to the inputs, and keeps the gradients that arrive at
nodes where a path to a weight leaves these paths. The second half starts from there. Between the halves another stage
can work with the gradients of the inputs.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytpu as torch

from ...autograd.graph import GradientEdge, Node, get_gradient_edge
from ...nn import Parameter


def _edge_of(value: torch.Tensor | GradientEdge) -> GradientEdge:
    """Return the edge of the graph that the gradient of a tensor takes."""
    return value if isinstance(value, GradientEdge) else get_gradient_edge(value)


def _reverse_edges(roots: Iterable[Node]) -> dict[Node, list[Node]]:
    """Return the users of each node that can be reached from `roots`."""
    users: dict[Node, list[Node]] = defaultdict(list)
    seen = set(roots)
    queue = deque(seen)
    while queue:
        node = queue.popleft()
        for following, _ in node.next_functions:
            if following is None:
                continue
            users[following].append(node)
            if following not in seen:
                seen.add(following)
                queue.append(following)
    return users


def _upwards(start: Iterable[Node], users: dict[Node, list[Node]], border: set[Node]) -> tuple[set[Node], set[Node]]:
    """Follow users from `start` on, but not beyond `border`. Return the nodes on the way, and the border's nodes."""
    inside: set[Node] = set(start)
    queue = deque(inside)
    reached: set[Node] = set()
    while queue:
        for user in users.get(queue.popleft(), ()):
            if user in border:
                reached.add(user)
            elif user not in inside:
                inside.add(user)
                queue.append(user)
    return inside, reached


@dataclass
class _Late:
    """Weights whose gradients are computed in the second half, all from the same nodes.

    Args:
        weights: Nodes of the weights.
        borders: Nodes at which their paths leave the paths to the inputs, and outputs that lead to no input.
        arrived: Gradients that arrived at borders in the first half.
        direct: Outputs that were not visited in the first half, with their gradients.
    """

    weights: list[Node]
    borders: set[Node]
    arrived: dict[Node, tuple[torch.Tensor | None, ...]] = field(default_factory=dict)
    direct: list[tuple[GradientEdge, torch.Tensor]] = field(default_factory=list)

    def keep(self, node: Node) -> Callable[[tuple[torch.Tensor | None, ...]], None]:
        """Return a hook that keeps what arrives at `node`."""
        return lambda grads: self.arrived.update({node: grads})


def _late_weights(
    inputs: Iterable[Node], weights: Iterable[Node], roots: set[Node], users: dict[Node, list[Node]]
) -> list[_Late]:
    """Find the borders of each weight. Weights with a common border belong together."""
    to_inputs, _ = _upwards(inputs, users, set())
    late: dict[int, _Late] = {}
    group_of: dict[Node, _Late] = {}
    for weight in weights:
        if weight in to_inputs:
            continue  # It is an input of the stage too: the first half computes its gradient.
        inside, borders = _upwards([weight], users, to_inputs)
        group = _Late([weight], borders | (inside & roots))
        for known in {id(group_of[node]) for node in group.borders if node in group_of}:
            other = late.pop(known)
            group.weights += other.weights
            group.borders |= other.borders
        if group.borders:  # Else the outputs do not depend on it.
            late[id(group)] = group
            group_of.update(dict.fromkeys(group.borders, group))
    return list(late.values())


def _with_gradient(
    outputs: Sequence[Any], output_grads: Sequence[torch.Tensor | None] | None
) -> tuple[list[torch.Tensor | GradientEdge], list[torch.Tensor | None]]:
    """Return the outputs that have a backward, and their gradients. Without `output_grads` these are ones."""
    roots: list[torch.Tensor | GradientEdge] = []
    grads: list[torch.Tensor | None] = []
    for index, output in enumerate(outputs):
        if isinstance(output, GradientEdge):
            if output_grads is None:
                raise ValueError("An edge needs the gradient of its output")
        elif not isinstance(output, torch.Tensor) or not output.requires_grad:
            continue
        roots.append(output)
        grads.append(torch.ones_like(output) if output_grads is None else output_grads[index])
    return roots, grads


def _accumulate(tensor: torch.Tensor, grad: torch.Tensor) -> None:
    if tensor.grad is None:
        tensor.grad = grad
    else:
        tensor.grad += grad


def stage_backward_input(
    stage_outputs_or_loss: Sequence[torch.Tensor | GradientEdge | None],
    output_grads: Sequence[torch.Tensor | None] | None,
    input_values: Sequence[Any],
    weights: Iterable[Parameter],
) -> tuple[tuple[torch.Tensor | None, ...], list[_Late]]:
    """Compute the gradients of a stage's inputs, and keep what the gradients of its weights need.

    Args:
        stage_outputs_or_loss: Outputs of the stage, or edges of the graph for them, or the loss in a tuple.
        output_grads: Gradient of each output. `None` for the loss.
        input_values: Inputs of the stage. Values that are not tensors, or require no gradient, have none.
        weights: Parameters of the stage.

    Returns:
        The gradients of `input_values`, which are also added to their `grad`, and groups of weights for
        `stage_backward_weight`.
    """
    outputs, grads = _with_gradient(stage_outputs_or_loss, output_grads)
    wanted = [
        index for index, value in enumerate(input_values) if isinstance(value, torch.Tensor) and value.requires_grad
    ]
    edges = [_edge_of(output) for output in outputs]
    roots = {edge.node for edge in edges}
    users = _reverse_edges(roots)
    inputs = [_edge_of(input_values[index]).node for index in wanted]
    late = _late_weights(inputs, [_edge_of(weight).node for weight in weights if weight.requires_grad], roots, users)

    dinputs: list[torch.Tensor | None] = [None] * len(input_values)
    hooks = [node.register_prehook(group.keep(node)) for group in late for node in group.borders]
    try:
        if outputs and wanted:
            found = torch.autograd.grad(
                outputs, [input_values[index] for index in wanted], grads, retain_graph=True, allow_unused=True
            )
            for index, grad in zip(wanted, found):
                dinputs[index] = grad
                if grad is not None:
                    _accumulate(input_values[index], grad)
    finally:
        for hook in hooks:
            hook.remove()

    for group in late:
        for edge, start in zip(edges, grads):
            if edge.node in group.borders and edge.node not in group.arrived and start is not None:
                group.direct.append((edge, start))
    for output in stage_outputs_or_loss:
        if isinstance(output, torch.Tensor) and not output._is_view():
            output.detach_()  # The nodes above the borders are not needed any more.
    return tuple(dinputs), late


def stage_backward_weight(
    weights: Iterable[Parameter], param_groups: list[_Late], retain_graph: bool = False
) -> tuple[torch.Tensor | None, ...]:
    """Compute the gradients of a stage's weights, and add them to their `grad`.

    Args:
        weights: Parameters of the stage.
        param_groups: Groups that `stage_backward_input` returned. They can be used once.
        retain_graph: Whether to keep the graph for another backward.

    Returns:
        The gradients that the weights have now.
    """
    weights = list(weights)
    weight_of = {_edge_of(weight).node: weight for weight in weights if weight.requires_grad}
    for group in param_groups:
        starts = group.direct + [
            (GradientEdge(node, number), grad)
            for node, arrived in group.arrived.items()
            for number, grad in enumerate(arrived)
            if grad is not None
        ]
        if not starts:
            continue
        # What has arrived is complete. A path from another border must not add to it again.
        hooks = [node.register_prehook(lambda _, whole=whole: whole) for node, whole in group.arrived.items()]
        try:
            found = torch.autograd.grad(
                [edge for edge, _ in starts],
                [GradientEdge(weight, 0) for weight in group.weights],
                [grad for _, grad in starts],
                retain_graph=retain_graph,
                allow_unused=True,
            )
        finally:
            for hook in hooks:
                hook.remove()
        for weight, grad in zip(group.weights, found):
            if grad is not None:
                _accumulate(weight_of[weight], grad)
        group.arrived.clear()
        group.direct.clear()
    return tuple(weight.grad for weight in weights)


def stage_backward(
    stage_output: Any, output_grads: Sequence[torch.Tensor | None] | None, input_values: Sequence[Any]
) -> tuple[torch.Tensor | None, ...]:
    """Compute the gradients of a stage's inputs, and add those of its weights to their `grad`.

    Args:
        stage_output: Outputs of the stage, or edges of the graph for them, or the loss.
        output_grads: Gradient of each output. `None` for the loss.
        input_values: Inputs of the stage.

    Returns:
        The gradients of `input_values`, `None` for values that have none. Their `grad` is `None` afterwards.
    """
    outputs = (stage_output,) if isinstance(stage_output, torch.Tensor) else stage_output
    torch.autograd.backward(*_with_gradient(outputs, output_grads))
    tensors = [value if isinstance(value, torch.Tensor) else None for value in input_values]
    found = tuple(None if tensor is None else tensor.grad for tensor in tensors)
    for tensor in tensors:
        if tensor is not None:
            tensor.grad = None
    return found
