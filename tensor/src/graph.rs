//! What autograd hangs on a tensor: nodes, edges, leaves.
//!
//! Recording is here, beside the tensor, because every op with a gradient pays for it; the loop that walks the graph is in
//! `torchtpu-autograd`. A [`Node`] keeps the op by value, one edge an input, and the inputs and outputs that the op's
//! [`Saves`](crate::op::Saves) name. Sequence numbers are Lamport clocks: a node's is larger than those of all nodes its
//! inputs came from, whatever thread made them, so walking by falling number is a topological order.

use crate::op::{Grads, Prim, Saved};
use crate::{Error, GradRef, Meta, Result, Tensor, state};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

/// A function that sees a gradient and may replace it.
pub type Hook = Arc<dyn Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync>;
/// A function that sees a leaf's accumulated gradient.
pub type LeafHook = Arc<dyn Fn(&Tensor) -> Result<()> + Send + Sync>;

/// Where the gradient of an input goes.
#[derive(Clone, Default)]
pub enum Edge {
    /// Nowhere.
    #[default]
    None,
    /// To output `.1` of a node.
    Node(Arc<Node>, u32),
    /// Into a leaf's `grad`.
    Leaf(Arc<Leaf>),
}

impl Edge {
    /// Whether a gradient is wanted.
    #[inline]
    pub fn is_some(&self) -> bool {
        !matches!(self, Edge::None)
    }
}

/// The autograd side of a leaf tensor.
pub struct Leaf {
    meta: Meta,
    requires_grad: AtomicBool,
    /// The accumulated gradient.
    pub grad: Mutex<Option<Tensor>>,
    /// Hooks by id: on the gradient before it is accumulated, and after.
    pub hooks: Mutex<LeafHooks>,
}

/// Hooks of a leaf, by the id that removes them.
#[derive(Default)]
pub struct LeafHooks {
    /// See the incoming gradient and may replace it.
    pub before: Vec<(u64, Hook)>,
    /// See the accumulated gradient.
    pub after: Vec<(u64, LeafHook)>,
}

impl Leaf {
    /// A leaf of the given description.
    pub fn new(meta: Meta, requires_grad: bool) -> Leaf {
        Leaf { meta, requires_grad: AtomicBool::new(requires_grad), grad: Mutex::new(None), hooks: Mutex::default() }
    }
    /// Whether gradients are accumulated.
    #[inline]
    pub fn requires_grad(&self) -> bool {
        self.requires_grad.load(Relaxed)
    }
    /// Sizes, dtype and device of the tensor.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }
}

/// A tensor kept for backward, with the version it must still have.
pub struct SavedTensor {
    tensor: Tensor,
    version: u32,
}

impl SavedTensor {
    #[inline]
    fn new(tensor: Tensor) -> SavedTensor {
        let version = tensor.version();
        SavedTensor { tensor, version }
    }
    fn check(&self, producer: &dyn Fn() -> String) -> Result<()> {
        let now = self.tensor.version();
        if now == self.version {
            return Ok(());
        }
        Err(Error::runtime(format!(
            "one of the variables needed for gradient computation has been modified by an inplace operation: [torch.{}Tensor {}]{}, is at version {now}; expected version {} instead. Hint: enable anomaly detection to find the operation that failed to compute its gradient, with torch.autograd.set_detect_anomaly(True).",
            self.tensor.dtype().scalar_type(),
            self.tensor.dims(),
            producer(),
            self.version
        )))
    }
}

/// One input of a node: its description, and itself if the rule wants it.
pub struct Input {
    /// Where it differs from output 0's.
    meta: Option<Box<Meta>>,
    saved: Option<SavedTensor>,
}

/// What a node keeps until it has run.
pub struct Kept {
    inputs: SmallVec<[Input; 2]>,
    outputs: SmallVec<[Option<SavedTensor>; 1]>,
}

/// A backward function that is not an op's rule: `torch.autograd.Function`, checkpointing.
pub trait BackwardFn: Send + Sync {
    /// Name shown to the user, `MyFunctionBackward`.
    fn name(&self) -> String;
    /// Gradients of the inputs, one an edge.
    ///
    /// # Errors
    /// Whatever the user's code raises.
    fn backward(&self, g: &[Option<Tensor>]) -> Result<Grads>;
    /// Drops what was kept; a second backward is an error.
    fn release(&self) {}
}

/// How a node computes gradients.
pub enum Rule {
    /// By the op's `vjp`.
    Op(Prim),
    /// By a function.
    Function(Box<dyn BackwardFn>),
}

/// Hooks and rarely used state of a node.
#[derive(Default)]
pub struct NodeExtras {
    /// On the gradient of output `.1`, before the node runs; by id.
    pub before: Vec<(u64, u32, Hook)>,
    /// `retain_grad`: where the gradient of output `.0` is kept.
    pub retained: Vec<(u32, Arc<Mutex<Option<Tensor>>>)>,
    /// Forward traceback, in anomaly mode.
    pub traceback: Option<String>,
}

/// One step of the backward graph.
pub struct Node {
    rule: Rule,
    seq: u64,
    edges: SmallVec<[Edge; 2]>,
    outputs: SmallVec<[Meta; 1]>,
    kept: Mutex<Option<Kept>>,
    extras: OnceLock<Box<Mutex<NodeExtras>>>,
}

impl Node {
    /// A node for a function; `outputs` describes what it differentiates.
    pub fn function(f: Box<dyn BackwardFn>, edges: SmallVec<[Edge; 2]>, outputs: SmallVec<[Meta; 1]>) -> Arc<Node> {
        let seq = next_seq(&edges);
        Arc::new(Node {
            rule: Rule::Function(f),
            seq,
            edges,
            outputs,
            kept: Mutex::new(Some(Kept { inputs: SmallVec::new(), outputs: SmallVec::new() })),
            extras: OnceLock::new(),
        })
    }
    /// Position in time: larger than that of every node it leads to.
    #[inline]
    pub fn seq(&self) -> u64 {
        self.seq
    }
    /// Where the gradients of the inputs go.
    #[inline]
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }
    /// Descriptions of the outputs.
    #[inline]
    pub fn outputs(&self) -> &[Meta] {
        &self.outputs
    }
    /// `AddBackward0`, as PyTorch prints it.
    pub fn name(&self) -> String {
        match &self.rule {
            Rule::Op(op) => format!("{}Backward0", op.backward_name()),
            Rule::Function(f) => f.name(),
        }
    }
    /// Hooks and other rare state, made on first use.
    pub fn extras(&self) -> &Mutex<NodeExtras> {
        self.extras.get_or_init(Box::default)
    }
    /// The same, if any.
    #[inline]
    pub fn extras_if_any(&self) -> Option<&Mutex<NodeExtras>> {
        self.extras.get().map(|b| &**b)
    }

    /// Gradients of the inputs for the given gradients of the outputs.
    ///
    /// # Errors
    /// `Runtime` when what was kept has been freed or changed in place; whatever the rule raises.
    pub fn apply(self: &Arc<Node>, g: &[Option<Tensor>]) -> Result<Grads> {
        let op = match &self.rule {
            Rule::Function(f) => return f.backward(g),
            Rule::Op(op) => op,
        };
        let kept = self.kept.lock().unwrap_or_else(|e| e.into_inner());
        let Some(kept) = &*kept else { return Err(second_backward()) };
        let grad_mode = state::grad_enabled();
        let mut x: SmallVec<[Option<Tensor>; 2]> = SmallVec::with_capacity(kept.inputs.len());
        let mut metas: SmallVec<[Meta; 2]> = SmallVec::with_capacity(kept.inputs.len());
        let mut needs = 0u64;
        for (i, input) in kept.inputs.iter().enumerate() {
            if self.edges[i].is_some() {
                needs |= 1 << i.min(63);
            }
            metas.push(input.meta.as_deref().copied().unwrap_or(self.outputs[0]));
            x.push(match &input.saved {
                None => None,
                Some(s) => {
                    s.check(&|| match &self.edges[i] {
                        Edge::Node(n, nr) => format!(", which is output {nr} of {}", n.name()),
                        _ => String::new(),
                    })?;
                    Some(s.tensor.clone())
                }
            });
        }
        let mut y: SmallVec<[Option<Tensor>; 1]> = SmallVec::with_capacity(kept.outputs.len());
        for (nr, out) in kept.outputs.iter().enumerate() {
            y.push(match out {
                None => None,
                Some(s) => {
                    s.check(&|| format!(", which is output {nr} of {}", self.name()))?;
                    let t = s.tensor.clone();
                    // The kept alias has no history, so that a node does not own itself; double backward needs it back.
                    Some(if grad_mode {
                        let t = t.shallow_alias()?;
                        t.set_grad_ref(Some(GradRef::Node(self.clone())), nr as u32);
                        t
                    } else {
                        t
                    })
                }
            });
        }
        let zero;
        let first = match &g[0] {
            Some(g) => g,
            None => {
                zero = Tensor::zeros_like_meta(&self.outputs[0])?;
                &zero
            }
        };
        let mut grads = op.vjp(&Saved { x: &x, y: &y, metas: &metas, outputs: &self.outputs, g, needs }, first)?;
        // A real number moves along the real line only.
        for (g, m) in grads.iter_mut().zip(&metas) {
            if let Some(d) = g.as_ref().filter(|g| g.dtype().is_complex() && !m.dtype.is_complex()) {
                *g = Some(d.real()?);
            }
        }
        Ok(grads)
    }

    /// Frees what was kept.
    pub fn release(&self) {
        if let Rule::Function(f) = &self.rule {
            f.release();
        }
        let kept = self.kept.lock().unwrap_or_else(|e| e.into_inner()).take();
        drop(kept);
    }
}

#[cold]
fn second_backward() -> Error {
    Error::runtime(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors after calling backward.",
    )
}

/// A long chain is freed in a loop, not by recursion.
impl Drop for Node {
    fn drop(&mut self) {
        // Saved tensors hold the nodes before this one; they go while the edges still do too.
        *self.kept.get_mut().unwrap_or_else(|e| e.into_inner()) = None;
        let mut pending: SmallVec<[Edge; 4]> = SmallVec::new();
        let mut edges = std::mem::take(&mut self.edges);
        loop {
            for e in edges.drain(..) {
                if matches!(e, Edge::Node(..)) {
                    pending.push(e);
                }
            }
            let Some(Edge::Node(n, _)) = pending.pop() else { return };
            if let Some(mut n) = Arc::into_inner(n) {
                // Its saved tensors may hold the next node too; that is still referenced by `edges`, so no recursion.
                edges = std::mem::take(&mut n.edges);
            }
        }
    }
}

fn next_seq(edges: &[Edge]) -> u64 {
    let mut seq = state::with(|s| s.seq.get());
    for e in edges {
        if let Edge::Node(n, _) = e {
            seq = seq.max(n.seq + 1);
        }
    }
    state::with(|s| s.seq.set(seq + 1));
    seq
}

/// Whether an op on these inputs may have to be recorded; [`record`] sees for itself.
#[inline(always)]
pub(crate) fn may_need_grad(x: &[&Tensor]) -> bool {
    let mut any = false;
    for t in x {
        any |= t.has_autograd() | t.view_info().is_some();
    }
    any && state::grad_enabled() && x.iter().any(|t| t.has_autograd() || t.requires_grad())
}

/// Hangs a new node on the outputs of an op.
#[inline]
pub(crate) fn record(op: Prim, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
    let (mut needs, mut seq) = (0u64, 0);
    let mut edges: SmallVec<[Edge; 2]> = SmallVec::with_capacity(x.len());
    for (i, t) in x.iter().enumerate() {
        let e = t.history_edge()?;
        match &e {
            Edge::None => {}
            Edge::Leaf(_) => needs |= 1 << i.min(63),
            Edge::Node(n, _) => {
                needs |= 1 << i.min(63);
                seq = seq.max(n.seq + 1);
            }
        }
        edges.push(e);
    }
    if needs == 0 {
        return Ok(());
    }
    let saves = op.saves(needs);
    let mut inputs: SmallVec<[Input; 2]> = SmallVec::with_capacity(x.len());
    let first = y[0].meta();
    for (i, t) in x.iter().enumerate() {
        let saved = if saves.x >> i.min(63) & 1 == 0 {
            None
        } else if state::with(|s| s.overwritten.get()) == t.storage_id() {
            Some(SavedTensor::new(t.copy()?)) // an in-place op is about to overwrite it
        } else {
            Some(SavedTensor::new((*t).clone()))
        };
        let meta = if t.meta() != first { Some(Box::new(*t.meta())) } else { None };
        inputs.push(Input { meta, saved });
    }
    let mut outputs: SmallVec<[Option<SavedTensor>; 1]> = SmallVec::new();
    let mut metas: SmallVec<[Meta; 1]> = SmallVec::new();
    for (i, t) in y.iter().enumerate() {
        metas.push(*t.meta());
        outputs.push(if saves.y >> i & 1 != 0 { Some(SavedTensor::new(t.shallow_alias()?)) } else { None });
    }
    let differentiable = op.differentiable_outputs();
    state::with(|s| {
        seq = seq.max(s.seq.get());
        s.seq.set(seq + 1);
    });
    let node = Arc::new(Node {
        rule: Rule::Op(op),
        seq,
        edges,
        outputs: metas,
        kept: Mutex::new(Some(Kept { inputs, outputs })),
        extras: OnceLock::new(),
    });
    if let [y] = y {
        if y.dtype().is_inexact() && differentiable & 1 != 0 {
            y.set_grad_ref(Some(GradRef::Node(node)), 0);
        }
        return Ok(());
    }
    for (i, t) in y.iter().enumerate() {
        if t.dtype().is_inexact() && differentiable >> i & 1 != 0 {
            t.set_grad_ref(Some(GradRef::Node(node.clone())), i as u32);
        }
    }
    Ok(())
}

impl Tensor {
    /// Whether gradients flow to this tensor.
    #[inline]
    pub fn requires_grad(&self) -> bool {
        if self.has_autograd() {
            return self.has_node() || matches!(self.grad_ref(), Some(GradRef::Leaf(l)) if l.requires_grad());
        }
        self.view_info().is_some_and(|v| v.is_stale(self) && v.base.requires_grad())
    }

    /// Whether the tensor was not computed from others that require a gradient.
    pub fn is_leaf(&self) -> bool {
        !matches!(self.history(), Ok(Some(GradRef::Node(_))))
    }

    /// [`Tensor::grad_ref`], brought up to date first when the base of this view was written in place.
    pub fn history(&self) -> Result<Option<GradRef>> {
        if let Some(v) = self.view_info() {
            v.refresh(self)?;
        }
        Ok(self.grad_ref())
    }

    /// [`Tensor::edge`], brought up to date like [`Tensor::history`].
    #[inline]
    pub fn history_edge(&self) -> Result<Edge> {
        if let Some(v) = self.view_info() {
            v.refresh(self)?;
        }
        Ok(if self.has_autograd() { self.edge() } else { Edge::None })
    }

    /// Switches gradients on or off for a leaf.
    ///
    /// # Errors
    /// `Runtime` for tensors of integers and for tensors with a history.
    pub fn requires_grad_(&self, on: bool) -> Result<&Tensor> {
        if on && !self.dtype().is_inexact() {
            return Err(Error::runtime("only Tensors of floating point dtype can require gradients"));
        }
        match self.history()? {
            Some(GradRef::Node(_)) if !on => Err(Error::runtime(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach().",
            )),
            Some(GradRef::Node(_)) => Ok(self),
            Some(GradRef::Leaf(l)) => {
                l.requires_grad.store(on, Relaxed);
                Ok(self)
            }
            None if on => {
                self.set_grad_ref(Some(GradRef::Leaf(Arc::new(Leaf::new(*self.meta(), true)))), 0);
                Ok(self)
            }
            None => Ok(self),
        }
    }

    /// The leaf state, made when missing.
    ///
    /// # Errors
    /// `Runtime` for tensors with a history.
    pub fn leaf(&self) -> Result<Arc<Leaf>> {
        match self.history()? {
            Some(GradRef::Leaf(l)) => Ok(l),
            Some(GradRef::Node(_)) => Err(Error::runtime("not a leaf tensor")),
            None => {
                let l = Arc::new(Leaf::new(*self.meta(), false));
                self.set_grad_ref(Some(GradRef::Leaf(l.clone())), 0);
                Ok(l)
            }
        }
    }

    /// The accumulated gradient of a leaf, or the retained one of a computed tensor.
    pub fn grad(&self) -> Option<Tensor> {
        match self.grad_ref()? {
            GradRef::Leaf(l) => l.grad.lock().unwrap_or_else(|e| e.into_inner()).clone(),
            GradRef::Node(n) => {
                let extras = n.extras_if_any()?.lock().unwrap_or_else(|e| e.into_inner());
                let slot = &extras.retained.iter().find(|(nr, _)| *nr == self.output_nr())?.1;
                slot.lock().unwrap_or_else(|e| e.into_inner()).clone()
            }
        }
    }

    /// Sets or clears `.grad`.
    ///
    /// # Errors
    /// `Runtime` when sizes, dtype or device differ, or the tensor is not a leaf.
    pub fn set_grad(&self, g: Option<Tensor>) -> Result<()> {
        if let Some(g) = &g {
            if g.dims() != self.dims() {
                return Err(Error::runtime(format!(
                    "assigned grad has data of a different size: expected {}, got {}",
                    self.dims(),
                    g.dims()
                )));
            }
            if g.dtype() != self.dtype() || g.device() != self.device() {
                return Err(Error::runtime("assigned grad has data of a different type"));
            }
        }
        if g.is_none() && !self.has_autograd() {
            return Ok(());
        }
        *self.leaf()?.grad.lock().unwrap_or_else(|e| e.into_inner()) = g;
        Ok(())
    }

    /// Keeps the gradient of a computed tensor in `.grad` during backward; a no-op for leaves.
    ///
    /// # Errors
    /// `Runtime` when no gradient is required.
    pub fn retain_grad(&self) -> Result<()> {
        match self.history()? {
            Some(GradRef::Leaf(l)) if l.requires_grad() => Ok(()),
            Some(GradRef::Node(n)) => {
                let mut extras = n.extras().lock().unwrap_or_else(|e| e.into_inner());
                let nr = self.output_nr();
                if !extras.retained.iter().any(|(k, _)| *k == nr) {
                    extras.retained.push((nr, Arc::default()));
                }
                Ok(())
            }
            _ => Err(Error::runtime("can't retain_grad on Tensor that has requires_grad=False")),
        }
    }

    /// The same elements without history; shares the storage.
    pub fn detach(&self) -> Tensor {
        self.shallow_alias().expect("a tensor's own layout fits its storage")
    }
}
