//! Gradients on their way to leaves, and the sum in `.grad`.

use crate::engine::{Address, leaf_at, node_at};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use torchtpu_tensor::graph::{Edge, Leaf, LeafEdge, Node};
use torchtpu_tensor::hooks::are_leaves_watched;
use torchtpu_tensor::{Error, Result, Tensor, backend};

/// A leaf, and the sum of the gradients that have reached it.
pub(crate) type Given = (Arc<Leaf>, LeafEdge, Tensor);

/// The leaves that gradients have reached.
#[derive(Default)]
pub(crate) struct Leaves {
    /// In the order of their first gradients. `None` once they are finished.
    given: Vec<Option<Given>>,
    index: FxHashMap<Address, usize>,
    /// The leaves whose hooks run during the pass, with the smallest sequence number of the nodes that have an edge to
    /// them. Rising numbers: the last leaf gets all its gradients first.
    hooked: Vec<(u64, Address)>,
}

impl Leaves {
    /// Search the graph for leaves with hooks that run after their gradient is accumulated. Programs without such hooks
    /// skip the search.
    pub(crate) fn of(roots: &[(Edge, Tensor)]) -> Leaves {
        let mut lowest: FxHashMap<Address, u64> = FxHashMap::default();
        if are_leaves_watched() {
            let mut seen: FxHashSet<Address> = FxHashSet::default();
            let mut stack: Vec<Arc<Node>> = Vec::new();
            let node_of = |e: &Edge| if let Edge::Node(n, _) = e { Some(n.clone()) } else { None };
            stack.extend(roots.iter().filter_map(|r| node_of(&r.0)));
            while let Some(node) = stack.pop() {
                if !seen.insert(node_at(&node)) {
                    continue;
                }
                for e in node.edges() {
                    if let Edge::Leaf(l) = e {
                        let seq = lowest
                            .entry(l.address())
                            .or_insert_with(|| if l.leaf().is_ok_and(|leaf| is_watched(&leaf)) { u64::MAX } else { 0 });
                        *seq = node.seq().min(*seq);
                    }
                    stack.extend(node_of(e));
                }
            }
        }
        let mut hooked: Vec<(u64, Address)> =
            lowest.into_iter().filter(|l| l.1 > 0).map(|(at, seq)| (seq, at)).collect();
        hooked.sort_unstable();
        Leaves { hooked, ..Leaves::default() }
    }

    pub(crate) fn add(&mut self, edge: &LeafEdge, g: Tensor) -> Result<()> {
        let leaf = edge.leaf()?;
        let (index, given) = (&mut self.index, &mut self.given);
        let i = *index.entry(leaf_at(&leaf)).or_insert(given.len());
        if i == given.len() {
            given.push(Some((leaf, edge.clone(), g)));
            return Ok(());
        }
        // Nodes with an edge to a finished leaf have run.
        let slot = given[i].as_mut().expect("a leaf without a gradient to come");
        if slot.2.dims() != g.dims() {
            // The tensor got other elements between two parts of the graph.
            return Err(Error::runtime(format!(
                "a leaf got gradients of different shapes: got {} but expected shape compatible with {}",
                g.dims(),
                slot.2.dims()
            )));
        }
        slot.2 = slot.2.add(&g)?;
        Ok(())
    }

    /// Return a leaf with hooks that gets no gradient from nodes with sequence numbers up to `next`.
    pub(crate) fn take_final(&mut self, next: u64) -> Option<Given> {
        while self.hooked.last().is_some_and(|l| l.0 > next) {
            let (_, at) = self.hooked.pop()?;
            let given = self.index.get(&at).and_then(|&i| self.given[i].take());
            if given.is_some() {
                return given;
            }
        }
        None
    }

    /// Return the leaves that are left, in the order of their first gradients.
    pub(crate) fn into_rest(self) -> impl Iterator<Item = Given> {
        self.given.into_iter().flatten()
    }
}

/// Whether hooks wait until the gradient of the leaf is accumulated.
fn is_watched(leaf: &Leaf) -> bool {
    let hooks = leaf.hooks.lock().unwrap_or_else(|e| e.into_inner());
    !hooks.after.is_empty() || !hooks.node.post.is_empty()
}

/// Return the first gradient of the leaf `x`, in memory of its own. It has the strides of `x`, or is row-major if `x`
/// has gaps.
#[cold]
fn like_leaf(x: &Tensor, g: Tensor, own: bool) -> Result<Tensor> {
    let strides = if x.is_dense() { *x.strides() } else { x.dims().contiguous_strides() };
    if own && !g.is_lazy() && *g.strides() == strides { Ok(g) } else { g.detach().copy_strided(strides) }
}

/// Add to a leaf's `grad`. Without `create_graph`, the sum is written to the existing tensor in place, so that other
/// references to it see the sum.
pub(crate) fn accumulate_into(leaf: &Leaf, x: &Tensor, g: Tensor, create_graph: bool) -> Result<()> {
    let g = if create_graph { g } else { backend::placed_like(x, g)? };
    loop {
        let old = {
            let mut slot = leaf.grad.lock().unwrap_or_else(|e| e.into_inner());
            match &*slot {
                None => {
                    // The first gradient becomes `grad` itself. A view, or a tensor with other handles, is copied.
                    let own = g.view_info().is_none() && g.handle_count() == 1 && !g.has_autograd();
                    *slot = Some(if create_graph {
                        g
                    } else if g.is_contiguous() && x.is_contiguous() {
                        if own { g } else { g.detach().copy()? }
                    } else {
                        like_leaf(x, g, own)?
                    });
                    return Ok(());
                }
                Some(old) if create_graph || old.requires_grad() => old.clone(),
                Some(old) => {
                    old.add_(&g)?;
                    return Ok(());
                }
            }
        };
        // A sum with a history may run the user's code, which may read the gradient. So hold no lock here.
        let sum = old.add(&g)?;
        let mut slot = leaf.grad.lock().unwrap_or_else(|e| e.into_inner());
        if slot.as_ref().is_some_and(|now| now.is_same(&old)) {
            let before = slot.replace(sum);
            drop(slot);
            // The object belongs to the old gradient. Drop it without holding the lock.
            let object = leaf.hooks.lock().unwrap_or_else(|e| e.into_inner()).grad_object.take();
            drop((before, object));
            return Ok(());
        }
    }
}
