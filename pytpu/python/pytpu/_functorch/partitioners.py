"""Kinds of ops, which policies of selective checkpointing ask for, and parts of graphs with forward and backward."""

from __future__ import annotations

from dataclasses import dataclass

from .. import ops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["OpTypes", "default_partition", "get_default_op_list", "min_cut_rematerialization_partition"]


@dataclass
class OpTypes:
    """Ops by what they cost.

    Args:
        compute_intensive_ops: Products of matrices, convolutions and attention. It pays to keep their results.
    """

    compute_intensive_ops: set[Any]


def get_default_op_list() -> OpTypes:
    """Return the ops of this package by kind."""
    names = "mm bmm addmm convolution convolution_backward _scaled_dot_product_flash_attention"
    return OpTypes({getattr(ops.aten, name) for name in names.split() if hasattr(ops.aten, name)})


def default_partition(joint_module: Any, _joint_inputs: Any, *, num_fwd_outputs: int, **_: Any) -> tuple[Any, Any]:
    """Return the graphs of forward and of backward. Forward also returns what backward reads.

    Args:
        joint_module: a graph whose results are those of forward and, after them, the gradients.
        _joint_inputs: the inputs of forward, or a pair of them and of the gradients of the results.
        num_fwd_outputs: how many results are of forward.
    """
    from ..fx import Graph, GraphModule, Node

    nodes = list(joint_module.graph.nodes)
    inputs = [n for n in nodes if n.op == "placeholder"]
    count = len(_joint_inputs[0] if isinstance(_joint_inputs, tuple) else _joint_inputs)
    tangents = inputs[count:]
    output = nodes[-1]
    results = list(output.args[0])
    of_forward, gradients = results[:num_fwd_outputs], results[num_fwd_outputs:]
    late = set(tangents)
    for node in nodes:
        if any(used in late for used in node.all_input_nodes) and node is not output:
            late.add(node)
    inner = [n for n in nodes if n.op not in ("placeholder", "output")]
    writes = any(
        str(n.target).split(".")[1].endswith("_") for n in inner if n.op == "call_function" and "." in str(n.target)
    )
    if not writes:
        # What only backward needs is computed there. After a write, its operands would have other elements.
        needed = {r for r in of_forward if isinstance(r, Node)}
        for node in reversed(inner):
            if node in needed:
                needed.update(node.all_input_nodes)
        late.update(n for n in inner if n not in needed)
    reads = [used for n in nodes if n in late for used in n.all_input_nodes]
    reads += [g for g in gradients if isinstance(g, Node)]
    # Attributes are read again in backward.
    saved = [n for n in dict.fromkeys(reads) if n not in late and n.op != "get_attr"]

    forward, env = Graph(), {}
    for node in nodes:
        if (node not in late or node.op == "get_attr") and node is not output and node not in tangents:
            env[node] = forward.node_copy(node, lambda n: env[n])
    outputs = [env[r] if isinstance(r, Node) else r for r in of_forward]
    forward.output(tuple([*outputs, *(env[n] for n in saved)]))

    backward, back = Graph(), {}
    for node in (*saved, *tangents):
        made = backward.placeholder(node.name)
        made.meta.update(node.meta)
        back[node] = made
    for node in nodes:
        if node.op == "get_attr":
            if node in reads:
                back[node] = backward.node_copy(node)
        elif node in late and node not in tangents:
            back[node] = backward.node_copy(node, lambda n: back[n])
    backward.output(tuple(back[g] if isinstance(g, Node) else g for g in gradients))
    return GraphModule(joint_module, forward), GraphModule(joint_module, backward)


#: Values that are cheap to compute are kept, too: the names differ in PyTorch by what backward computes anew.
min_cut_rematerialization_partition = default_partition
