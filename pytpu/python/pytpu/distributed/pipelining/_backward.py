"""The backward of a stage, as a whole or in two halves: gradients of its inputs, and gradients of its weights.

The first half runs the backward only on paths from the outputs to the inputs, and keeps the gradients that arrive at
nodes where a path to a weight leaves these paths. The second half starts from there. Between the halves another stage
can work with the gradients of the inputs.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
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


def _param_groups(
    inputs: Iterable[Node], params: Iterable[Node], roots: set[Node], users: dict[Node, list[Node]]
) -> list[dict[str, Any]]:
    """Group weights that leave the paths to the inputs at a common node.

    Returns:
        Dicts with ``params``, nodes of weights, and ``intermediates``, the nodes at which their paths leave. A root on
        such a path is an intermediate too.
    """
    to_inputs, _ = _upwards(inputs, users, set())
    groups: list[dict[str, Any]] = []
    group_of: dict[Node, dict[str, Any]] = {}
    for param in params:
        if param in to_inputs:
            continue  # An input of the stage: the first half computes its gradient.
        inside, intermediates = _upwards([param], users, to_inputs)
        intermediates |= inside & roots
        if not intermediates:
            continue  # The outputs do not depend on it.
        group: dict[str, Any] = {"params": {param: None}, "intermediates": dict.fromkeys(intermediates)}
        for node in intermediates:
            other = group_of.get(node)
            if other is not None and other is not group:
                groups.remove(other)
                group["params"] = {**other["params"], **group["params"]}
                group["intermediates"] = {**other["intermediates"], **group["intermediates"]}
            for member in group["intermediates"]:
                group_of[member] = group
        groups.append(group)
    for group in groups:
        group["params"], group["intermediates"] = list(group["params"]), list(group["intermediates"])
    return groups


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
) -> tuple[tuple[torch.Tensor | None, ...], list[dict[str, Any]]]:
    """Compute the gradients of a stage's inputs, and keep what the gradients of its weights need.

    Args:
        stage_outputs_or_loss: Outputs of the stage, or edges of the graph for them, or the loss in a tuple.
        output_grads: Gradient of each output. ``None`` for the loss.
        input_values: Inputs of the stage. Values that are not tensors, or require no gradient, have none.
        weights: Parameters of the stage.

    Returns:
        The gradients of `input_values`, which are also added to their ``grad``, and groups of weights for
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
    params = [_edge_of(weight).node for weight in weights if weight.requires_grad]
    groups = _param_groups(inputs, params, roots, users)

    dinputs: list[torch.Tensor | None] = [None] * len(input_values)
    handles = []
    try:
        for group in groups:
            group["grads"] = [None] * len(group["intermediates"])
            for place, node in enumerate(group["intermediates"]):

                def keep(arrived, kept=group["grads"], place=place):
                    kept[place] = arrived

                handles.append(node.register_prehook(keep))
        if outputs and wanted:
            found = torch.autograd.grad(
                outputs, [input_values[index] for index in wanted], grads, retain_graph=True, allow_unused=True
            )
            for index, grad in zip(wanted, found):
                dinputs[index] = grad
                if grad is not None:
                    _accumulate(input_values[index], grad)
    finally:
        for handle in handles:
            handle.remove()

    # Outputs that lead to no input have not been visited. Their weights start from the gradients of the outputs.
    for group in groups:
        visited = {node for node, arrived in zip(group["intermediates"], group["grads"]) if arrived is not None}
        here = set(group["intermediates"]) - visited
        group["roots"] = [(edge, grad) for edge, grad in zip(edges, grads) if edge.node in here and grad is not None]
    for output in stage_outputs_or_loss:
        if isinstance(output, torch.Tensor) and not output._is_view():
            output.detach_()  # The nodes above the intermediates are not needed any more.
    return tuple(dinputs), groups


def stage_backward_weight(
    weights: Iterable[Parameter], param_groups: list[dict[str, Any]], retain_graph: bool = False
) -> tuple[torch.Tensor | None, ...]:
    """Compute the gradients of a stage's weights, and add them to their ``grad``.

    Args:
        weights: Parameters of the stage.
        param_groups: Groups that `stage_backward_input` returned. They are used up.
        retain_graph: Whether to keep the graph for another backward.

    Returns:
        The gradients that the weights have now.
    """
    weights = list(weights)
    weight_of = {_edge_of(weight).node: weight for weight in weights if weight.requires_grad}
    for group in param_groups:
        edges: list[GradientEdge] = [edge for edge, _ in group["roots"]]
        grads: list[torch.Tensor] = [grad for _, grad in group.pop("roots")]
        handles = []
        for node, arrived in zip(group.pop("intermediates"), group.pop("grads")):
            if arrived is None:
                continue
            for number, grad in enumerate(arrived):
                if grad is not None:
                    edges.append(GradientEdge(node, number))
                    grads.append(grad)
            # What has arrived is complete. A path from another intermediate must not add to it again.
            handles.append(node.register_prehook(lambda _, complete=arrived: complete))
        try:
            if edges:
                params = group["params"]
                found = torch.autograd.grad(
                    edges,
                    [GradientEdge(param, 0) for param in params],
                    grads,
                    retain_graph=retain_graph,
                    allow_unused=True,
                )
                for param, grad in zip(params, found):
                    if grad is not None:
                        _accumulate(weight_of[param], grad)
        finally:
            for handle in handles:
                handle.remove()
    return tuple(weight.grad for weight in weights)


def stage_backward(
    stage_output: Any, output_grads: Sequence[torch.Tensor | None] | None, input_values: Sequence[Any]
) -> tuple[torch.Tensor | None, ...]:
    """Compute the gradients of a stage's inputs, and add those of its weights to their ``grad``.

    Args:
        stage_output: Outputs of the stage, or edges of the graph for them, or the loss.
        output_grads: Gradient of each output. ``None`` for the loss.
        input_values: Inputs of the stage.

    Returns:
        The gradients of `input_values`, ``None`` for values that have none. Their ``grad`` is ``None`` afterwards.
    """
    outputs = (stage_output,) if isinstance(stage_output, torch.Tensor) else stage_output
    torch.autograd.backward(*_with_gradient(outputs, output_grads))
    tensors = [value if isinstance(value, torch.Tensor) else None for value in input_values]
    found = tuple(None if tensor is None else tensor.grad for tensor in tensors)
    for tensor in tensors:
        if tensor is not None:
            tensor.grad = None
    return found
