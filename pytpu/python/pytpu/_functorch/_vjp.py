"""Backward of a graph of operators, operator by operator.

Gradients of operators are computed below the operators that graphs show. Where a graph of them cannot be recorded, each
node of the backward graph asks autograd for the gradient of one operator of the forward graph, which it computes again.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import pytpu as torch

from ..fx import Graph, GraphModule, Node
from ..fx.node import map_arg

_RANDOM = frozenset(
    "alpha_dropout alpha_dropout_ bernoulli bernoulli_ cauchy_ dropout dropout_ exponential_ feature_alpha_dropout "
    "feature_alpha_dropout_ feature_dropout feature_dropout_ fractional_max_pool2d fractional_max_pool3d geometric_ "
    "log_normal_ multinomial native_dropout normal normal_ poisson rand_like randint_like randn_like random_ rrelu "
    "rrelu_ rrelu_with_noise uniform_".split()
)


def _name(node: Node) -> str:
    target: Any = node.target
    return str(target.overloadpacket.__name__ if hasattr(target, "overloadpacket") else target.__name__)


def _tensors(value: Any, found: list[Any]) -> list[Any]:
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _tensors(item, found)
    elif isinstance(value, dict):
        for item in value.values():
            _tensors(item, found)
    return found


def _replace(value: Any, given: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return next(given)
    if isinstance(value, (list, tuple)):
        return type(value)([_replace(item, given) for item in value])
    if isinstance(value, dict):
        return {key: _replace(item, given) for key, item in value.items()}
    return value


def operator_gradient(name: str, wanted: Sequence[int], grads: Sequence[Any], args: Any, kwargs: Any) -> list[Any]:
    """Return the gradients of the tensors number `wanted` among the arguments of an operator.

    Args:
        name: the operator, such as `aten.mm.default`.
        wanted: positions.
        grads: the gradients of its results, or `None`.
        args: its arguments.
        kwargs: the same, by name.
    """
    target: Any = torch.ops
    for part in name.split("."):
        target = getattr(target, part)
    tensors = _tensors((args, kwargs), [])
    with torch.enable_grad():
        values = []
        for i, tensor in enumerate(tensors):
            if i in wanted:
                values.append(tensor.detach().requires_grad_())
            else:
                # Operators such as those of batch normalisation write statistics, which forward has already done.
                values.append(tensor.detach().clone() if "norm" in name else tensor.detach())
        full_args, full_kwargs = _replace((args, kwargs), iter(values))
        results = target(*full_args, **full_kwargs)
        results = [results] if isinstance(results, torch.Tensor) else list(results)
        pairs = [(r, g) for r, g in zip(results, grads) if g is not None and r.requires_grad]
        found = torch.autograd.grad(
            [r for r, _ in pairs], [values[i] for i in wanted], [g for _, g in pairs], allow_unused=True
        )
    return [torch.zeros_like(values[i]) if g is None else g for i, g in zip(wanted, found)]


def _without_writes(module: GraphModule) -> None:
    """Put functions in place of operators that write to results of other nodes."""
    graph = module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or not hasattr(node.target, "overloadpacket"):
            continue
        name = _name(node)
        base = node.args[0] if node.args else None
        if not name.endswith("_") or name.startswith("__") or not isinstance(base, Node) or base.op == "placeholder":
            continue
        packet = getattr(torch.ops.aten, name[:-1], None)
        overload = node.target.overloadpacket and node.target._overloadname
        later = [user for user in base.users if user is not node and not user < node]
        aliases = any(_is_view(user) for user in base.users if user is not node) or _is_view(base)
        if packet is None or not hasattr(packet, overload) or aliases or name in _RANDOM:
            raise NotImplementedError(
                f"aot_autograd: {node.target} writes to a view, or to a value that has views, and gradients of it are "
                "needed. Write the function without operators in place"
            )
        node.target = getattr(packet, overload)
        for user in later:
            user.replace_input_with(base, node)


_VIEWS = frozenset(
    "alias as_strided detach diagonal expand narrow permute reshape select slice split squeeze t transpose unbind "
    "unfold unsqueeze view view_as".split()
)


def _is_view(node: Node) -> bool:
    return node.op == "call_function" and hasattr(node.target, "overloadpacket") and _name(node) in _VIEWS


def _with_masks(module: GraphModule) -> None:
    """Put operators in place of `dropout` whose mask is a value, which backward reads."""
    aten: Any = torch.ops.aten
    graph = module.graph
    for node in graph.nodes:
        if node.op != "call_function" or node.target is not aten.dropout.default:
            continue
        x, p, train = node.args
        with graph.inserting_before(node):
            if not train or p == 0.0:
                made = graph.call_function(aten.alias.default, (x,))
            elif p == 1.0:
                made = graph.call_function(aten.mul.Tensor, (x, 0.0))
            else:
                mask = graph.call_function(aten.empty_like.default, (x,))
                drawn = graph.call_function(aten.bernoulli_.float, (mask, 1 - p))
                scaled = graph.call_function(aten.div_.Scalar, (drawn, 1 - p))
                for part in (mask, drawn, scaled):
                    part.meta.update(node.meta)
                made = graph.call_function(aten.mul.Tensor, (x, scaled))
            made.meta.update(node.meta)
        node.replace_all_uses_with(made)
        graph.erase_node(node)


def _draws(node: Node) -> bool:
    """Return whether an operator draws random numbers, so that it cannot be computed again."""
    name = _name(node)
    if name in _RANDOM:
        return True
    if "scaled_dot_product" in name or "multi_head_attention" in name:
        return any(isinstance(a, float) and a != 0.0 for a in (*node.args[3:6], node.kwargs.get("dropout_p", 0.0)))
    if name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        return any(isinstance(a, float) and a != 0.0 for a in (*node.args, *node.kwargs.values()))
    return False


#: Operators that read only the sizes of a tensor.
_OF_SIZES = frozenset(
    "empty_like zeros_like ones_like full_like rand_like randn_like randint_like new_empty new_zeros new_ones new_full "
    "bernoulli_ div_ detach".split()
)


def _operands(value: Any) -> list[Node]:
    """Return the nodes of arguments, in the order of `_tensors`."""
    found: list[Node] = []

    def note(node: Node) -> Node:
        found.append(node)
        return node

    map_arg(value, note)
    return found


def graphs(
    module: GraphModule, wanted: Sequence[int], differentiable: Sequence[int], has_no_grad: bool
) -> tuple[GraphModule, GraphModule]:
    """Return graphs of forward and backward.

    Args:
        module: the operators of forward. Its nodes know by `_modes` whether gradients were recorded.
        wanted: the inputs that need gradients.
        differentiable: the results that have gradients.
        has_no_grad: whether the function has blocks without gradients.

    Raises:
        NotImplementedError: An operator draws random numbers, or writes to a value whose gradient is needed.
    """
    _without_writes(module)
    _with_masks(module)
    nodes = list(module.graph.nodes)
    inputs = [n for n in nodes if n.op == "placeholder"]
    output = nodes[-1]
    results = list(output.args[0])
    needs = {inputs[i] for i in wanted}
    for node in nodes:
        if node.op != "call_function" or (node.target is not operator.getitem and _name(node) in _OF_SIZES):
            continue
        modes = node.meta.get("_modes")
        value = node.meta.get("val")
        inexact = any(v.is_floating_point() or v.is_complex() for v in _tensors(value, []))
        if inexact and any(used in needs for used in node.all_input_nodes):
            if modes is None or modes[0]:
                needs.add(node)
            elif not has_no_grad:
                raise NotImplementedError(f"aot_autograd: no graph can show the gradients of {node.target}")

    if any(results[i] not in needs for i in differentiable):
        raise NotImplementedError("aot_autograd: no graph can show the gradients of this function")
    backward = Graph()
    made: dict[Node, Node] = {}
    grads: dict[Node, Any] = {}
    saved: list[Node] = []
    tangents: list[Node] = []
    steps: list[Node] = []
    # Which values of forward the nodes of backward read is known first.
    for node in nodes:
        if node in needs and node.op == "call_function" and node.target is not operator.getitem:
            steps.append(node)
    for node in dict.fromkeys(used for step in steps for used in step.all_input_nodes):
        saved.append(node)
        made[node] = backward.placeholder(node.name)
        made[node].meta.update(node.meta)
    for i in differentiable:
        tangent = backward.placeholder(f"tangents_{len(tangents) + 1}")
        tangent.meta["val"] = results[i].meta.get("val")
        tangents.append(tangent)

    def add(node: Node, grad: Node) -> None:
        before = grads.get(node)
        if before is not None:
            grad = backward.call_function(torch.ops.aten.add.Tensor, (before, grad))
        grads[node] = grad

    for i, tangent in zip(differentiable, tangents):
        add(results[i], tangent)
    for node in reversed(nodes):
        if node not in needs or node.op != "call_function":
            continue
        if node.target is operator.getitem:
            continue
        items = [user for user in node.users if user.target is operator.getitem and user.args[0] is node]
        if isinstance(node.meta.get("val"), torch.Tensor):
            given = [grads.get(node)]
        else:
            given = [None] * len(node.meta["val"])
            for item in items:
                if item in grads:
                    given[item.args[1]] = grads[item]  # type: ignore[call-overload]
        if all(g is None for g in given):
            continue
        name = _name(node)
        if _draws(node):
            raise NotImplementedError(f"aot_autograd: the gradient of {node.target}, which draws random numbers")
        operands = _operands((node.args, node.kwargs))
        places = [k for k, operand in enumerate(operands) if operand in needs]
        call = backward.create_node(
            "call_function",
            operator_gradient,
            (
                str(node.target),
                tuple(places),
                given,
                map_arg(node.args, lambda n: made[n]),
                map_arg(dict(node.kwargs), lambda n: made[n]),
            ),
            name=f"{name}_backward",
        )
        for k, place in enumerate(places):
            part = backward.call_function(operator.getitem, (call, k))
            part.meta["val"] = operands[place].meta.get("val")
            add(operands[place], part)
    backward.output(tuple(grads.get(inputs[i]) for i in wanted))
    output.args = (tuple([*results, *saved]),)
    module.recompile()
    return module, GraphModule(torch.nn.Module() if not _has_attributes(module) else module, backward)


def _has_attributes(module: GraphModule) -> bool:
    return any(node.op == "get_attr" for node in module.graph.nodes)
