//! The backward graph: nodes, edges and leaves.
//!
//! Recording is here, beside the tensor, because it adds to the cost of every op with a gradient. The loop that walks
//! the graph is in `torchtpu-autograd`. A [`Node`] keeps the op by value, one edge for each input, and the inputs and
//! outputs that the op's [`Saves`](crate::op::Saves) name. Sequence numbers are Lamport clocks: a node's number is
//! larger than those of all nodes that its inputs came from, on any thread. So falling numbers are a topological order.

pub use crate::block::LeafEdge;
use crate::block::NewArc;
use crate::op::{Grads, Prim, Saved, bit};
use crate::saved::{self, SavedTensor};
use crate::site::{self, Site};
use crate::{Error, GradRef, Meta, Result, Tensor, state};
use smallvec::SmallVec;
use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// A function that sees a gradient and may replace it.
pub type Hook = Arc<dyn Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync>;
/// A function that sees a leaf whose gradient has been accumulated.
pub type LeafHook = Arc<dyn Fn(&Tensor) -> Result<()> + Send + Sync>;

/// Gradients, one for each input or output. `None` stands for a gradient that no op has computed.
pub type GradList = Vec<Option<Tensor>>;
/// A function that sees the gradients of all outputs of a node before it runs and may replace them.
pub type PreHook = Arc<dyn Fn(&[Option<Tensor>]) -> Result<Option<GradList>> + Send + Sync>;
/// A function that sees the gradients of the inputs and outputs of a node that has run. It may replace those of the
/// inputs.
pub type PostHook = Arc<dyn Fn(&[Option<Tensor>], &[Option<Tensor>]) -> Result<Option<GradList>> + Send + Sync>;

/// Store a gradient, and drop the old one after the lock is released. Dropping it may run the user's code, which may
/// take the same lock.
pub fn put(slot: &Mutex<Option<Tensor>>, g: Option<Tensor>) {
    let old = std::mem::replace(&mut *slot.lock().unwrap_or_else(|e| e.into_inner()), g);
    drop(old);
}

/// The gradient of a computed tensor, or the place where it will be.
pub type GradSlot = Arc<Mutex<Option<Tensor>>>;

/// A place that holds the `.grad` of a tensor. It keeps neither the tensor nor the gradient alive.
#[derive(Clone)]
pub enum GradPlace {
    /// Of a leaf.
    Leaf(Weak<Leaf>),
    /// Of a computed tensor.
    Slot(Weak<Mutex<Option<Tensor>>>),
}

impl GradPlace {
    /// The place of the `.grad` of `x`, if there is one.
    pub fn of(x: &Tensor) -> Option<GradPlace> {
        match x.grad_ref()? {
            GradRef::Leaf(l) => Some(GradPlace::Leaf(Arc::downgrade(&l))),
            GradRef::Node(n) => n.grad_slot(x.output_nr()).map(|slot| GradPlace::Slot(Arc::downgrade(&slot))),
        }
    }
    /// Whether both are the same place.
    pub fn is_same(&self, other: &GradPlace) -> bool {
        match (self, other) {
            (GradPlace::Leaf(a), GradPlace::Leaf(b)) => a.ptr_eq(b),
            (GradPlace::Slot(a), GradPlace::Slot(b)) => a.ptr_eq(b),
            _ => false,
        }
    }
    /// Whether the tensor of this place still exists.
    pub fn is_alive(&self) -> bool {
        match self {
            GradPlace::Leaf(l) => l.strong_count() > 0,
            GradPlace::Slot(s) => s.strong_count() > 0,
        }
    }
    /// Put `new` in the place of `old`, if the place holds `old`.
    pub fn exchange(&self, old: &Tensor, new: &Tensor) {
        let swap = |slot: &Mutex<Option<Tensor>>| {
            let mut held = slot.lock().unwrap_or_else(|e| e.into_inner());
            let gone = if held.as_ref().is_some_and(|g| g.is_same(old)) { held.replace(new.clone()) } else { None };
            drop(held);
            drop(gone); // may run the user's code, so not under the lock
        };
        match self {
            GradPlace::Leaf(l) => l.upgrade().iter().for_each(|l| swap(&l.grad)),
            GradPlace::Slot(s) => s.upgrade().iter().for_each(|s| swap(s)),
        }
    }
}

/// Where the gradient of an input goes. Its tag is a whole word, so that an edge just made is moved by whole words.
#[derive(Clone, Default)]
#[repr(u64)]
pub enum Edge {
    /// Nowhere.
    #[default]
    None,
    /// To output `.1` of a node.
    Node(Arc<Node>, u32),
    /// Into a leaf's `grad`.
    Leaf(LeafEdge),
}

impl Edge {
    /// Whether a gradient is wanted.
    #[inline]
    pub fn is_some(&self) -> bool {
        !matches!(self, Edge::None)
    }
    /// The smallest sequence number that a node with this edge may have.
    #[inline]
    fn next_seq(&self) -> u64 {
        match self {
            Edge::Node(n, _) => n.seq + 1,
            _ => 0,
        }
    }
}

/// The autograd side of a leaf tensor.
pub struct Leaf {
    pub(super) requires_grad: AtomicBool,
    /// The accumulated gradient.
    pub grad: Mutex<Option<Tensor>>,
    /// Hooks by id, before and after the gradient is accumulated.
    pub hooks: Mutex<LeafHooks>,
}

/// Hooks of a leaf, by the id that removes them.
#[derive(Default)]
pub struct LeafHooks {
    /// See the incoming gradient and may replace it.
    pub before: Vec<(u64, Hook)>,
    /// See the leaf once its gradient has been accumulated.
    pub after: Vec<(u64, LeafHook)>,
    /// Hooks on the accumulation itself.
    pub node: NodeHooks,
    /// For the binding: the objects of the user's hooks, by id, so that a garbage collector can visit them.
    pub objects: Vec<(u64, Arc<dyn Any + Send + Sync>)>,
    /// The binding's word: the object that a user assigned to `.grad`.
    pub grad_object: Option<Arc<dyn Any + Send + Sync>>,
}

/// Hooks on a step of the graph, by the id that removes them.
#[derive(Clone, Default)]
pub struct NodeHooks {
    /// Called before the step runs.
    pub pre: Vec<(u64, PreHook)>,
    /// Called after it has run.
    pub post: Vec<(u64, PostHook)>,
    /// For the binding: an object that the user attaches to the step.
    pub metadata: Option<Arc<dyn Any + Send + Sync>>,
}

/// A removed hook. The caller drops it when it holds no lock, because dropping it may run the user's code.
pub type Removed = Option<Box<dyn Any>>;

/// Remove the entry with this id from a list.
fn take<T: 'static>(list: &mut Vec<T>, found: impl Fn(&T) -> bool) -> Removed {
    let at = list.iter().position(found)?;
    Some(Box::new(list.remove(at)))
}

impl NodeHooks {
    /// Remove a hook.
    #[must_use = "a hook is dropped after the lock is released"]
    pub fn remove(&mut self, id: u64) -> Removed {
        take(&mut self.pre, |h| h.0 == id).or_else(|| take(&mut self.post, |h| h.0 == id))
    }
}

impl LeafHooks {
    /// Remove a hook.
    #[must_use = "a hook is dropped after the lock is released"]
    pub fn remove(&mut self, id: u64) -> Removed {
        let object = take(&mut self.objects, |h| h.0 == id);
        let hook = take(&mut self.before, |h| h.0 == id)
            .or_else(|| take(&mut self.after, |h| h.0 == id))
            .or_else(|| self.node.remove(id));
        Some(Box::new((object, hook)))
    }
}

impl NodeExtras {
    /// Remove a hook.
    #[must_use = "a hook is dropped after the lock is released"]
    pub fn remove(&mut self, id: u64) -> Removed {
        let object = take(&mut self.objects, |h| h.0 == id);
        let hook = take(&mut self.before, |h| h.0 == id).or_else(|| self.hooks.remove(id));
        Some(Box::new((object, hook)))
    }
}

impl Leaf {
    /// A leaf without a gradient.
    pub fn new(requires_grad: bool) -> Leaf {
        Leaf { requires_grad: AtomicBool::new(requires_grad), grad: Mutex::new(None), hooks: Mutex::default() }
    }
    /// Whether gradients are accumulated.
    #[inline]
    pub fn requires_grad(&self) -> bool {
        self.requires_grad.load(Relaxed)
    }
}

/// One input of a node: its description, and the tensor if the rule needs it.
pub struct Input {
    /// The description, if it differs from that of output 0.
    meta: Option<Box<Meta>>,
    saved: Option<SavedTensor>,
}

/// The tensors that a node saves until it has run. A list is empty where it would hold no information: if all inputs
/// have the description of output 0 and none is saved, or if no output is saved.
#[derive(Default)]
pub struct Kept {
    inputs: SmallVec<[Input; 2]>,
    outputs: SmallVec<[Option<SavedTensor>; 1]>,
}

impl Kept {
    fn has_tensors(&self) -> bool {
        self.inputs.iter().any(|k| k.saved.is_some()) || self.outputs.iter().any(Option::is_some)
    }
}

/// A backward function that is not an op's rule, such as `torch.autograd.Function` or checkpointing.
pub trait BackwardFn: Send + Sync {
    /// Name shown to the user, `MyFunctionBackward`.
    fn name(&self) -> String;
    /// Gradients of the inputs, one for each edge.
    ///
    /// # Errors
    /// The errors of the user's code.
    fn backward(&self, g: &[Option<Tensor>]) -> Result<Grads>;
    /// Drop the saved tensors, after which a second backward is an error.
    fn release(&self) {}
    /// Whether output `nr` shares the elements of an input. A write to such an output would bypass this function.
    fn is_view_output(&self, _nr: u32) -> bool {
        false
    }
    /// The function itself, so that a binding can recognise its own.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// How a node computes gradients.
pub enum Rule {
    /// By the op's `vjp`.
    Op(Prim),
    /// By a function.
    Function(Box<dyn BackwardFn>),
    /// The node is being dropped.
    Gone,
}

/// Hooks and rarely used state of a node.
#[derive(Default)]
pub struct NodeExtras {
    /// Hooks on the gradient of output `.1`, called before the node runs, by id.
    pub before: Vec<(u64, u32, Hook)>,
    /// The gradients that `retain_grad` keeps, of output `.0`.
    pub retained: Vec<(u32, GradSlot)>,
    /// Gradients that a user assigned to `.grad`, of output `.0`.
    pub assigned: Vec<(u32, GradSlot)>,
    /// Hooks on the node itself.
    pub hooks: NodeHooks,
    /// Like [`LeafHooks::objects`].
    pub objects: Vec<(u64, Arc<dyn Any + Send + Sync>)>,
    /// Like [`LeafHooks::grad_object`], of output `.0`.
    pub grad_objects: Vec<(u32, Arc<dyn Any + Send + Sync>)>,
    /// The traceback of the node's making, in anomaly mode.
    pub traceback: Option<String>,
    /// The node whose gradient made this one, in anomaly mode.
    pub parent: Option<Arc<Node>>,
}

/// One step of the backward graph.
pub struct Node {
    rule: Rule,
    seq: u64,
    site: Site,
    edges: SmallVec<[Edge; 2]>,
    outputs: SmallVec<[Meta; 1]>,
    kept: Mutex<Option<Kept>>,
    extras: OnceLock<Box<Mutex<NodeExtras>>>,
}

impl Node {
    /// A node for a function. `outputs` describes the tensors that it differentiates.
    pub fn function(f: Box<dyn BackwardFn>, edges: SmallVec<[Edge; 2]>, outputs: SmallVec<[Meta; 1]>) -> Arc<Node> {
        let seq = take_seq(edges.iter().map(Edge::next_seq).max().unwrap_or(0));
        let node = Arc::new(Node {
            rule: Rule::Function(f),
            seq,
            site: site::last(),
            edges,
            outputs,
            kept: Mutex::new(Some(Kept::default())),
            extras: OnceLock::new(),
        });
        saved::remember(&node);
        node
    }
    /// The sequence number, which is larger than that of every node it leads to.
    #[inline]
    pub fn seq(&self) -> u64 {
        self.seq
    }
    /// The line of the user's program that made the node; 0 if it is not known.
    #[inline]
    pub fn site(&self) -> Site {
        self.site
    }
    /// The edges to which the gradients of the inputs go.
    #[inline]
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }
    /// Descriptions of the outputs.
    #[inline]
    pub fn outputs(&self) -> &[Meta] {
        &self.outputs
    }
    /// The name as PyTorch prints it, `AddBackward0`.
    pub fn name(&self) -> String {
        match &self.rule {
            Rule::Op(op) => format!("{}Backward0", op.backward_name()),
            Rule::Function(f) => f.name(),
            Rule::Gone => String::new(),
        }
    }
    /// Hooks and other rare state, made on first use.
    pub fn extras(&self) -> &Mutex<NodeExtras> {
        self.extras.get_or_init(Box::default)
    }
    /// [`Node::extras`], if they were made.
    #[inline]
    pub fn extras_if_any(&self) -> Option<&Mutex<NodeExtras>> {
        self.extras.get().map(|b| &**b)
    }

    /// The function of a node that no op made, for the code that made it.
    pub fn user_function(&self) -> Option<&dyn BackwardFn> {
        if let Rule::Function(f) = &self.rule { Some(&**f) } else { None }
    }
    /// The op of a node that an op made.
    pub(crate) fn prim(&self) -> Option<&Prim> {
        if let Rule::Op(op) = &self.rule { Some(op) } else { None }
    }
    /// Store a gradient for `.grad` of output `nr`.
    pub fn keep_grad(&self, nr: u32, g: Tensor) {
        let slot = {
            let mut extras = self.extras().lock().unwrap_or_else(|e| e.into_inner());
            match extras.retained.iter().find(|(k, _)| *k == nr) {
                Some((_, slot)) => slot.clone(),
                None => {
                    extras.retained.push((nr, Arc::default()));
                    extras.retained[extras.retained.len() - 1].1.clone()
                }
            }
        };
        put(&slot, Some(g));
    }

    /// Store the gradient that a user has assigned to `.grad` of output `nr`, or remove it.
    pub(super) fn assign_grad(&self, nr: u32, g: Option<Tensor>) {
        let mut extras = self.extras().lock().unwrap_or_else(|e| e.into_inner());
        let old = if let Some(i) = extras.retained.iter().position(|(k, _)| *k == nr) {
            std::mem::replace(&mut *extras.retained[i].1.lock().unwrap_or_else(|e| e.into_inner()), g)
        } else {
            let at = extras.assigned.iter().position(|(k, _)| *k == nr);
            let old = at.and_then(|i| extras.assigned.remove(i).1.lock().unwrap_or_else(|e| e.into_inner()).take());
            extras.assigned.extend(g.map(|g| (nr, Arc::new(Mutex::new(Some(g))))));
            old
        };
        drop(extras);
        drop(old);
    }

    /// The place of the retained or assigned gradient of output `nr`, if there is one.
    pub(super) fn grad_slot(&self, nr: u32) -> Option<GradSlot> {
        let extras = self.extras_if_any()?.lock().unwrap_or_else(|e| e.into_inner());
        extras.retained.iter().chain(&extras.assigned).find(|(k, _)| *k == nr).map(|(_, slot)| slot.clone())
    }

    /// Gradients of the inputs for the given gradients of the outputs. `wanted` says for each edge whether its gradient
    /// is used. A rule leaves out the others if that saves work.
    ///
    /// # Errors
    /// `Runtime` if a saved tensor has been freed or changed in place; the errors of the rule.
    pub fn apply(self: &Arc<Node>, g: &[Option<Tensor>], wanted: impl Fn(&Edge) -> bool) -> Result<Grads> {
        let op = match &self.rule {
            Rule::Function(f) => {
                let _autocast = crate::autocast::as_called();
                return f.backward(g);
            }
            Rule::Op(op) => op,
            Rule::Gone => return Err(second_backward()),
        };
        let kept = self.kept.lock().unwrap_or_else(|e| e.into_inner());
        let Some(kept) = &*kept else { return Err(second_backward()) };
        let mut x: SmallVec<[Option<Tensor>; 2]> = SmallVec::with_capacity(self.edges.len());
        let mut metas: SmallVec<[Meta; 2]> = SmallVec::with_capacity(self.edges.len());
        let mut needs = 0u64;
        for (i, edge) in self.edges.iter().enumerate() {
            if wanted(edge) {
                needs |= bit(i);
            }
            let input = kept.inputs.get(i);
            metas.push(input.and_then(|k| k.meta.as_deref()).copied().unwrap_or(self.outputs[0]));
            x.push(input.and_then(|k| k.saved.as_ref()).map(SavedTensor::get).transpose()?);
        }
        // A saved output has no history, so that a node does not own itself. Double backward needs the history back.
        let mut y: SmallVec<[Option<Tensor>; 1]> = SmallVec::with_capacity(kept.outputs.len());
        for (nr, out) in kept.outputs.iter().enumerate() {
            y.push(out.as_ref().map(|s| s.get_output(self, nr as u32)).transpose()?);
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
        // The gradient of a real number is real.
        for (g, m) in grads.iter_mut().zip(&metas) {
            if let Some(d) = g.as_ref().filter(|g| g.dtype().is_complex() && !m.dtype.is_complex()) {
                *g = Some(d.real()?);
            }
        }
        Ok(grads)
    }

    /// Return operand `i` as it was saved for backward, or `None` if it was not saved.
    ///
    /// # Errors
    /// `Runtime` if the saved tensor has been freed or changed in place; the errors of a hook.
    pub fn saved_operand(&self, i: usize) -> Result<Option<Tensor>> {
        let kept = self.kept.lock().unwrap_or_else(|e| e.into_inner());
        let Some(kept) = &*kept else { return Err(second_backward()) };
        kept.inputs.get(i).and_then(|k| k.saved.as_ref()).map(SavedTensor::get).transpose()
    }

    /// Return result `nr` as it was saved for backward, or `None` if it was not saved.
    ///
    /// # Errors
    /// The errors of [`Node::saved_operand`].
    pub fn saved_result(self: &Arc<Node>, nr: u32) -> Result<Option<Tensor>> {
        let kept = self.kept.lock().unwrap_or_else(|e| e.into_inner());
        let Some(kept) = &*kept else { return Err(second_backward()) };
        let saved = kept.outputs.get(nr as usize).and_then(Option::as_ref);
        saved.map(|s| s.get_output(self, nr)).transpose()
    }

    /// Free the saved tensors. A node that needs none can run again, because losses often share views and sums.
    pub fn release(&self) {
        if let Rule::Function(f) = &self.rule {
            f.release();
        }
        let kept = {
            let mut kept = self.kept.lock().unwrap_or_else(|e| e.into_inner());
            if kept.as_ref().is_some_and(Kept::has_tensors) { kept.take() } else { None }
        };
        drop(kept);
    }
}

/// The error of a second backward, after the saved tensors have been freed.
#[cold]
pub fn second_backward() -> Error {
    Error::runtime(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already \
        been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). \
        Specify retain_graph=True if you need to backward through the graph a second time or if you need to access \
        saved tensors after calling backward.",
    )
}

/// A step without a gradient. Its backward raises an error with the reason.
struct Refused {
    name: &'static str,
    why: String,
}

impl BackwardFn for Refused {
    fn name(&self) -> String {
        self.name.to_string()
    }
    fn backward(&self, _: &[Option<Tensor>]) -> Result<Grads> {
        Err(Error::runtime(self.why.clone()))
    }
}

/// Return an alias of `y` that is recorded as a result of `x`. A function computes its gradients. `y` must have no
/// history.
pub(crate) fn with_backward(y: &Tensor, x: &[&Tensor], f: Box<dyn BackwardFn>) -> Result<Tensor> {
    Ok(with_backward_n(std::slice::from_ref(y), x, f)?.swap_remove(0))
}

/// [`with_backward`] for several results.
pub(crate) fn with_backward_n(y: &[Tensor], x: &[&Tensor], f: Box<dyn BackwardFn>) -> Result<Vec<Tensor>> {
    let edges = x.iter().map(|x| x.history_edge()).collect::<Result<_>>()?;
    let node = Node::function(f, edges, y.iter().map(|y| *y.meta()).collect());
    let mut out = Vec::with_capacity(y.len());
    for (nr, y) in y.iter().enumerate() {
        let alias = y.shallow_alias()?;
        alias.set_new_grad_ref(GradRef::Node(node.clone()), nr as u32);
        out.push(alias);
    }
    Ok(out)
}

/// A step whose gradient PyTorch does not have, either. Its backward says so.
struct NotDifferentiable {
    name: &'static str,
    function: &'static str,
}

impl BackwardFn for NotDifferentiable {
    fn name(&self) -> String {
        self.name.to_string()
    }
    fn backward(&self, _: &[Option<Tensor>]) -> Result<Grads> {
        Err(Error::not_implemented(format!("the derivative for '{}' is not implemented.", self.function)))
    }
}

/// Return `y`, or an alias of it that is recorded as a result of `x`, if `x` needs a gradient. Backward raises
/// PyTorch's error for a function without a derivative.
pub(crate) fn not_differentiable(y: Tensor, x: &Tensor, name: &'static str, function: &'static str) -> Result<Tensor> {
    if !may_need_grad(&[x]) {
        return Ok(y);
    }
    with_backward(&y, &[x], Box::new(NotDifferentiable { name, function }))
}

/// Return an alias of `y` that is recorded as a result of `x`, and whose backward fails with this text.
pub(crate) fn refuse_backward(y: &Tensor, x: &[&Tensor], name: &'static str, why: String) -> Result<Tensor> {
    with_backward(y, x, Box::new(Refused { name, why }))
}

/// A long chain is freed in a loop, not by recursion.
impl Drop for Node {
    fn drop(&mut self) {
        // Saved tensors may own the nodes before this one. Drop them while the edges still own these nodes.
        *self.kept.get_mut().unwrap_or_else(|e| e.into_inner()) = None;
        if matches!(self.rule, Rule::Function(_)) {
            // The same holds for tensors that a function has saved.
            self.rule = Rule::Gone;
        }
        let ours = self.edges.len();
        if !self.edges.iter().any(|e| matches!(e, Edge::Node(n, _) if Arc::strong_count(n) <= ours)) {
            return; // no other node is freed with this one
        }
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
                // Its saved tensors may own the next node too. `edges` still refers to that node, so there is no
                // recursion.
                edges = std::mem::take(&mut n.edges);
            }
        }
    }
}

/// The sequence number of a node whose edges require at least `least`.
#[inline]
fn take_seq(least: u64) -> u64 {
    state::with(|s| {
        let seq = s.seq.get().max(least);
        s.seq.set(seq + 1);
        seq
    })
}

/// Whether an op on these inputs may have to be recorded. [`record`] decides.
#[inline(always)]
pub(crate) fn may_need_grad(x: &[&Tensor]) -> bool {
    let mut any = false;
    for t in x {
        any |= t.has_autograd() | t.view_info().is_some();
    }
    any && state::grad_enabled() && x.iter().any(|t| t.requires_grad())
}

/// Describe an input for a node, and save it if `save` is set.
#[inline]
fn input(t: &Tensor, first: &Meta, save: bool) -> Result<Input> {
    let saved = if !save {
        None
    } else if state::with(|s| s.overwritten.get()) == t.storage_id() {
        Some(SavedTensor::new(t.copy()?)?) // an in-place op is about to overwrite it
    } else {
        Some(SavedTensor::new(t.clone())?)
    };
    Ok(Input { meta: if t.meta() != first { Some(Box::new(*t.meta())) } else { None }, saved })
}

/// Make a new node, and attach it to the outputs of an op.
#[inline]
pub(crate) fn record(op: Prim, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
    match (x, y) {
        ([a], [y]) => record_small(op, a, None, y),
        ([a, b], [y]) => record_small(op, a, Some(b), y),
        _ => record_any(op, x, y),
    }
}

/// [`record`] for one or two inputs and one output. Everything is built in registers and written once. A growing list
/// would be read back with wider loads than it was written with, which stalls.
#[inline]
fn record_small(op: Prim, a: &Tensor, b: Option<&Tensor>, y: &Tensor) -> Result<()> {
    let ea = a.history_edge()?;
    let eb = match b {
        Some(b) => b.history_edge()?,
        None => Edge::None,
    };
    let needs = ea.is_some() as u64 | (eb.is_some() as u64) << 1;
    if needs == 0 {
        return Ok(());
    }
    let n = 1 + b.is_some() as usize;
    let saves = op.saves(needs);
    let first = y.meta();
    let inputs = if saves.x == 0 && a.meta() == first && b.is_none_or(|b| b.meta() == first) {
        SmallVec::new()
    } else {
        let ia = input(a, first, saves.x & 1 != 0)?;
        let ib = match b {
            Some(b) => input(b, first, saves.x & 2 != 0)?,
            None => Input { meta: None, saved: None },
        };
        SmallVec::from_buf_and_len([ia, ib], n)
    };
    let outputs = match saves.y & 1 {
        0 => SmallVec::new(),
        _ => SmallVec::from_buf([Some(SavedTensor::output(y)?)]),
    };
    let differentiable = op.differentiable_outputs() & 1 != 0 && y.dtype().is_inexact();
    let seq = ea.next_seq().max(eb.next_seq());
    let seq = take_seq(seq);
    let node = NewArc::new().write(Node {
        seq,
        site: site::last(),
        rule: Rule::Op(op),
        edges: SmallVec::from_buf_and_len([ea, eb], n),
        outputs: SmallVec::from_buf([*first]),
        kept: Mutex::new(Some(Kept { inputs, outputs })),
        extras: OnceLock::new(),
    });
    saved::remember(&node);
    if differentiable {
        y.set_new_grad_ref(GradRef::Node(node), 0);
    }
    Ok(())
}

#[inline(never)]
fn record_any(op: Prim, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
    let (mut needs, mut seq) = (0u64, 0);
    let mut edges: SmallVec<[Edge; 2]> = SmallVec::with_capacity(x.len());
    for (i, t) in x.iter().enumerate() {
        let e = t.history_edge()?;
        if e.is_some() {
            needs |= bit(i);
        }
        seq = seq.max(e.next_seq());
        edges.push(e);
    }
    if needs == 0 {
        return Ok(());
    }
    let saves = op.saves(needs);
    let first = y[0].meta();
    let mut kept = Kept::default();
    for (i, t) in x.iter().enumerate() {
        kept.inputs.push(input(t, first, saves.x & bit(i) != 0)?);
    }
    for (i, t) in y.iter().enumerate() {
        let save = saves.y & bit(i) != 0;
        kept.outputs.push(if save { Some(SavedTensor::output(t)?) } else { None });
    }
    let differentiable = op.differentiable_outputs();
    let node = Arc::new(Node {
        rule: Rule::Op(op),
        seq: take_seq(seq),
        site: site::last(),
        edges,
        outputs: y.iter().map(|t| *t.meta()).collect(),
        kept: Mutex::new(Some(kept)),
        extras: OnceLock::new(),
    });
    saved::remember(&node);
    for (i, t) in y.iter().enumerate() {
        if t.dtype().is_inexact() && differentiable & bit(i) != 0 {
            t.set_new_grad_ref(GradRef::Node(node.clone()), i as u32);
        }
    }
    Ok(())
}

/// Give a tensor its new history after a write in place. A retained and an assigned gradient move to the new history.
pub(crate) fn replace_history(x: &Tensor, r: Option<GradRef>, nr: u32) {
    x.move_grad_slots(if let Some(GradRef::Node(n)) = &r { Some(n) } else { None }, nr);
    x.set_grad_ref(r, nr);
}

impl Tensor {
    /// Move a retained and an assigned gradient from the history of this tensor to output `nr` of its new history. Drop
    /// them if that is no node.
    pub fn move_grad_slots(&self, to: Option<&Node>, nr: u32) {
        let Some(GradRef::Node(from)) = self.grad_ref() else { return };
        let Some(extras) = from.extras_if_any() else { return };
        let (retained, assigned) = {
            let mut extras = extras.lock().unwrap_or_else(|e| e.into_inner());
            let at = self.output_nr();
            let retained = extras.retained.iter().position(|(k, _)| *k == at).map(|i| extras.retained.remove(i).1);
            let assigned = extras.assigned.iter().position(|(k, _)| *k == at).map(|i| extras.assigned.remove(i).1);
            (retained, assigned)
        };
        if let Some(to) = to
            && (retained.is_some() || assigned.is_some())
        {
            let mut extras = to.extras().lock().unwrap_or_else(|e| e.into_inner());
            extras.retained.extend(retained.map(|slot| (nr, slot)));
            extras.assigned.extend(assigned.map(|g| (nr, g)));
        }
    }
}
