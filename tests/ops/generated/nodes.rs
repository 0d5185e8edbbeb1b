//! `docs/nodes.md`: every node of the trace at a glance, written from the rules of the nodes. Calls of the samples give
//! the axes.

use super::compare;
use crate::axes::{metas, run};
use crate::samples::every_call;
use std::collections::BTreeMap;
use torchtpu::{Tensor, ops};

const HEAD: &str = "\
# Nodes

The table of ops in Python has thousands of rows. They are computed by the nodes of this page: a trace consists of
nodes, and each has its rules in one file of `tensor/src/ops`. `make generated` writes this page from the rules; a test
fails when it is stale. [The architecture](architecture.md) explains the words.

* *Form*: a *primitive* has all rules. The result of a *view* shares the memory of its operand. A *fused* node means
  what its expansion in other nodes computes. It may have rules of its own, which are faster.
* *Kernel*: what computes it on `cpu`. *Program*: what StableHLO is written for it. *Gradient*: what differentiates it.
  *own* is a rule of the node, and *expansion* those of the nodes that it expands to.
* *Axes* of one call, as an einsum text. A part of an axis can be computed alone; `_` is a dimension that is needed
  whole. Sharded tensors, pipelines and large programs are cut along axes.
* *Linear*: operands in which the results are jointly linear.
* *At run time*: numbers of the node that a compiled program may get as operands, so that other numbers compile nothing.

Where cells are empty, no sample reaches the node: its results are random, it works in place, or users define it.

| Node | Form | Kernel | Program | Gradient | Axes | Linear | At run time |
|---|---|---|---|---|---|---|---|
";

/// What the samples show of a node.
#[derive(Default)]
struct Seen {
    kernel: bool,
    lower: bool,
    vjp: bool,
    differentiable: bool,
    offsets: bool,
    /// The text of the axes of the call with the most axes, the number of them, and the linear operands.
    axes: (String, usize, String),
}

/// The sets of operands in which the results are linear: `0`, `0 or 1`, `0 and 1`.
fn linear(sets: &[u64]) -> String {
    let set = |mask: &u64| {
        let operands: Vec<String> = (0..64).filter(|i| mask >> i & 1 != 0).map(|i| i.to_string()).collect();
        operands.join(" and ")
    };
    sets.iter().map(set).collect::<Vec<_>>().join(" or ")
}

#[test]
fn the_page_of_nodes_follows_their_rules() {
    let mut seen: BTreeMap<&'static str, Seen> = BTreeMap::new();
    every_call(&mut |call| {
        let node = seen.entry(call.op.node()).or_default();
        let x: Vec<&Tensor> = call.x.iter().collect();
        node.kernel |= call.op.has_kernel();
        node.lower |= call.op.has_lower(&x);
        node.vjp |= call.op.has_vjp();
        node.differentiable |= call.op.differentiable_outputs() != 0;
        node.offsets |= !call.op.offsets().is_empty();
        if node.axes.1 >= 4 {
            return; // shows enough
        }
        let Ok(y) = run(&call.op, &call.x) else { return };
        let axes = call.op.axes(&metas(&call.x), &metas(&y));
        if node.axes.0.is_empty() || axes.sizes.len() > node.axes.1 {
            node.axes = (axes.to_string(), axes.sizes.len(), linear(&axes.linear));
        }
    });
    let mut text = HEAD.to_string();
    for (name, tier) in ops::Prim::NODES {
        let form = if *tier == "prim" { "primitive" } else { tier };
        let own = |has: bool| if has { "own" } else { "expansion" };
        text.push_str(&match seen.get(name) {
            Some(s) => format!(
                "| `{name}` | {form} | {} | {} | {} | `{}` | {} | {} |\n",
                if form == "view" { "none" } else { own(s.kernel) },
                own(s.lower),
                if s.differentiable { own(s.vjp) } else { "none" },
                s.axes.0,
                s.axes.2,
                if s.offsets { "offsets" } else { "" },
            ),
            None => format!("| `{name}` | {form} | | | | | | |\n"),
        });
    }
    compare("docs/nodes.md", |_| text.clone());
}
