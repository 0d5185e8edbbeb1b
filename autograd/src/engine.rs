//! The backward loop over the graph.

use crate::hooks::{after_step, before_step};
use crate::leaves::{Given, Leaves, accumulate_into};
use crate::{anomaly, current};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::Cell;
use std::collections::BinaryHeap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use torchtpu_tensor::graph::{Edge, GradList, Leaf, Node, NodeHooks, put};
use torchtpu_tensor::hooks::check_result;
use torchtpu_tensor::site::GradientOf;
use torchtpu_tensor::{Error, GradMode, Meta, Rep, Result, Scalar, Tensor, autocast, foreign, saved, warning};

/// A node that is ready to run, ordered by its number.
struct Ready(Arc<Node>);

impl PartialEq for Ready {
    fn eq(&self, other: &Ready) -> bool {
        self.0.seq() == other.0.seq()
    }
}
impl Eq for Ready {}
impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Ready) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Ready {
    fn cmp(&self, other: &Ready) -> std::cmp::Ordering {
        self.0.seq().cmp(&other.0.seq())
    }
}

pub(crate) type Address = usize;

pub(crate) fn node_at(n: &Arc<Node>) -> Address {
    Arc::as_ptr(n) as usize
}
pub(crate) fn leaf_at(l: &Arc<Leaf>) -> Address {
    Arc::as_ptr(l) as usize
}

/// The gradients that have reached a node so far, one per output.
#[derive(Default)]
struct Pending {
    first: Option<Tensor>,
    rest: Vec<Option<Tensor>>,
}

impl Pending {
    fn slot(&mut self, nr: u32) -> &mut Option<Tensor> {
        if nr == 0 {
            return &mut self.first;
        }
        let i = nr as usize - 1;
        if self.rest.len() <= i {
            self.rest.resize_with(i + 1, || None);
        }
        &mut self.rest[i]
    }
    fn into_all(self, outputs: usize) -> Vec<Option<Tensor>> {
        let mut v = vec![self.first];
        v.extend(self.rest);
        v.resize_with(outputs.max(1), || None);
        v
    }
}

fn accumulate(slot: &mut Option<Tensor>, g: Tensor) -> Result<()> {
    *slot = Some(match slot.take() {
        None => g,
        Some(old) => old.add(&g)?,
    });
    Ok(())
}

/// The gradients that a pass should compute.
enum Targets {
    /// Gradients of all reached leaves.
    Leaves,
    /// Gradients of these inputs only. The leaves' `.grad` is not changed.
    Only(Captures),
}

/// The places where the gradients of given inputs are captured.
#[derive(Default)]
struct Captures {
    nodes: FxHashMap<(Address, u32), Vec<usize>>,
    leaves: FxHashMap<Address, Vec<usize>>,
    /// Nodes on a path to an input. Other nodes need not run.
    needed: FxHashSet<Address>,
    found: Vec<Option<Tensor>>,
}

impl Targets {
    /// Whether a gradient along `e` is used.
    fn want(&self, e: &Edge) -> bool {
        match (e, self) {
            (Edge::None, _) => false,
            (_, Targets::Leaves) => true,
            (Edge::Leaf(l), Targets::Only(c)) => c.leaves.contains_key(&l.address()),
            (Edge::Node(n, nr), Targets::Only(c)) => {
                c.needed.contains(&node_at(n)) || c.nodes.contains_key(&(node_at(n), *nr))
            }
        }
    }
}

/// Mark the nodes on a path to a target.
fn mark_needed(roots: &[Edge], c: &mut Captures) {
    // Search depth first, without recursion. A node is decided after all its edges.
    let mut seen: FxHashMap<Address, bool> = FxHashMap::default();
    let mut stack: Vec<(Arc<Node>, Option<usize>)> = Vec::new();
    for r in roots {
        if let Edge::Node(n, _) = r {
            stack.push((n.clone(), None));
        }
        while let Some((n, from)) = stack.pop() {
            let at = node_at(&n);
            if from.is_none() && seen.contains_key(&at) {
                continue;
            }
            let i = from.unwrap_or(0);
            let mut needed = seen.get(&at).copied().unwrap_or(false);
            let mut next = i;
            let mut down = None;
            for e in &n.edges()[i..] {
                next += 1;
                match e {
                    Edge::None => {}
                    Edge::Leaf(l) => needed |= c.leaves.contains_key(&l.address()),
                    Edge::Node(m, nr) => {
                        needed |= c.nodes.contains_key(&(node_at(m), *nr));
                        match seen.get(&node_at(m)) {
                            Some(known) => needed |= known,
                            None => {
                                down = Some(m.clone());
                                break;
                            }
                        }
                    }
                }
            }
            seen.insert(at, needed);
            if let Some(m) = down {
                // Visit the same edge again when its answer is known.
                stack.push((n, Some(next - 1)));
                stack.push((m, None));
            }
        }
    }
    c.needed = seen.into_iter().filter(|(_, v)| *v).map(|(k, _)| k).collect();
}

/// Number of nested passes on one thread. The next pass runs on a new thread, which has a new stack.
const DEEP: usize = 60;

thread_local! {
    /// Depth of nested passes: the number on this thread, and the number on the threads that wait for it.
    static DEPTH: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

static DEEPEST: OnceLock<DepthLimit> = OnceLock::new();

/// Returns how deep passes may be nested, and the function that makes the error beyond that.
pub type DepthLimit = fn() -> (usize, fn() -> Error);

/// Install the function that limits how many passes may be nested, and that makes the error beyond the limit. The first
/// function installed stays.
pub fn set_depth_limit(f: DepthLimit) {
    let _ = DEEPEST.set(f);
}

/// A guard that counts one nested pass until it is dropped.
struct Deeper((usize, usize));

impl Deeper {
    fn enter(here: usize, before: usize) -> Deeper {
        Deeper(DEPTH.replace((here, before)))
    }
}

impl Drop for Deeper {
    fn drop(&mut self) {
        DEPTH.set(self.0);
    }
}

/// Run the graph from `roots` with the given gradients. Hooks and functions may start nested passes, which would
/// overflow the stack at some depth. So after every [`DEEP`] nested passes, a new thread runs the next one, while this
/// thread waits.
fn run(roots: Vec<(Edge, Tensor)>, keep_graph: bool, create_graph: bool, targets: Targets) -> Result<Targets> {
    let (here, before) = DEPTH.get();
    if here == 0 {
        let _deeper = Deeper::enter(1, before);
        return current::ended(walk(roots, keep_graph, create_graph, targets));
    }
    if let Some(limit) = DEEPEST.get() {
        let (most, error) = limit();
        if here + before >= most {
            return Err(error());
        }
    }
    if here < DEEP {
        let _deeper = Deeper::enter(here + 1, before);
        return walk(roots, keep_graph, create_graph, targets);
    }
    let hooks = saved::current_hooks();
    let go = move || {
        let _deeper = Deeper::enter(1, before + here);
        let _hooks = saved::adopt_hooks(hooks);
        current::ended(walk(roots, keep_graph, create_graph, targets))
    };
    let thread = std::thread::Builder::new().name("torchtpu-backward".into()).stack_size(STACK).spawn(go);
    let thread =
        thread.map_err(|e| Error::runtime(format!("a thread for a nested backward pass could not start: {e}")))?;
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Size in bytes of a stack for [`DEEP`] passes. Untouched pages take no memory.
const STACK: usize = 64 << 20;

fn walk(roots: Vec<(Edge, Tensor)>, keep_graph: bool, create_graph: bool, mut targets: Targets) -> Result<Targets> {
    let _mode = GradMode::set(create_graph);
    let _autocast = autocast::off();
    let mut pending: FxHashMap<Address, Pending> = FxHashMap::default();
    let _current = current::Current::start(
        &roots,
        match &targets {
            Targets::Leaves => None,
            Targets::Only(c) => {
                Some(c.needed.iter().chain(c.leaves.keys()).copied().chain(c.nodes.keys().map(|k| k.0)))
            }
        },
    );
    let watch = anomaly::Watch::start();
    let mut leaves = match &targets {
        Targets::Leaves => Leaves::of(&roots),
        Targets::Only(_) => Leaves::default(),
    };
    let mut heap: BinaryHeap<Ready> = BinaryHeap::new();
    let deliver = |e: &Edge,
                   g: Tensor,
                   leaves: &mut Leaves,
                   heap: &mut BinaryHeap<Ready>,
                   pending: &mut FxHashMap<Address, Pending>,
                   targets: &Targets|
     -> Result<()> {
        if !targets.want(e) {
            return Ok(());
        }
        match e {
            Edge::None => Ok(()),
            Edge::Leaf(l) => leaves.add(l, g),
            Edge::Node(n, nr) => {
                let p = pending.entry(node_at(n)).or_insert_with(|| {
                    heap.push(Ready(n.clone()));
                    Pending::default()
                });
                accumulate(p.slot(*nr), g)
            }
        }
    };
    for (e, g) in roots {
        deliver(&e, g, &mut leaves, &mut heap, &mut pending, &targets)?;
    }
    while let Some(Ready(node)) = heap.pop() {
        while let Some(leaf) = leaves.take_final(node.seq()) {
            finish(leaf, &mut targets, create_graph)?;
        }
        let at = node_at(&node);
        let p = pending.remove(&at).expect("a node in the heap has gradients");
        let mut g = p.into_all(node.outputs().len());
        let mut hooks = NodeHooks::default();
        if let Some(extras) = node.extras_if_any() {
            // Hooks may register hooks, so do not hold the lock while they run.
            let (before, retained) = {
                let e = extras.lock().unwrap_or_else(|e| e.into_inner());
                hooks = e.hooks.clone();
                (e.before.clone(), e.retained.clone())
            };
            for (i, (_, nr, hook)) in before.iter().enumerate() {
                if let Some(slot) = g.get_mut(*nr as usize)
                    && let Some(t) = slot.as_ref()
                    && let Some(new) = hook(t)?
                {
                    check_result(&i.to_string(), t, &new)?;
                    *slot = Some(new);
                }
            }
            for (nr, keep) in retained {
                let Some(new) = g.get(nr as usize).cloned().flatten() else { continue };
                let old = keep.lock().unwrap_or_else(|e| e.into_inner()).take();
                let sum = match old {
                    Some(old) => old.add(&new)?,
                    None => new,
                };
                put(&keep, Some(sum));
            }
        }
        let mut run_it = true;
        if let Targets::Only(c) = &mut targets {
            for (nr, g) in g.iter().enumerate() {
                if let Some(wanted) = c.nodes.get(&(at, nr as u32)) {
                    for &i in wanted {
                        c.found[i] = g.clone();
                    }
                }
            }
            run_it = c.needed.contains(&at);
        }
        if run_it {
            before_step(&hooks, &mut g)?;
            let running = watch.enter(&node);
            let gradient = GradientOf::begin(node.site());
            let grads = node.apply(&g, |e| targets.want(e)).map_err(|e| watch.failed(&node, e.in_op("backward")))?;
            drop((running, gradient));
            if grads.len() > node.edges().len() {
                return Err(Error::runtime(format!(
                    "function {} returned an incorrect number of gradients (expected {}, got {})",
                    node.name(),
                    node.edges().len(),
                    grads.len()
                )));
            }
            watch.check(&node, &grads)?;
            if hooks.post.is_empty() {
                drop(g);
                for (i, (e, g)) in node.edges().iter().zip(grads).enumerate() {
                    if let Some(g) = g {
                        deliver(e, fitted(&node, i, g)?, &mut leaves, &mut heap, &mut pending, &targets)?;
                    }
                }
            } else {
                let mut found: GradList = node
                    .edges()
                    .iter()
                    .zip(grads)
                    .enumerate()
                    .map(|(i, (e, g))| match g {
                        Some(g) if targets.want(e) => fitted(&node, i, g).map(Some),
                        _ => Ok(None),
                    })
                    .collect::<Result<_>>()?;
                found.resize_with(node.edges().len(), || None);
                after_step(&hooks, &mut found, &g)?;
                for (i, (e, g)) in node.edges().iter().zip(found).enumerate() {
                    if let Some(g) = g {
                        deliver(e, fitted(&node, i, g)?, &mut leaves, &mut heap, &mut pending, &targets)?;
                    }
                }
            }
            if !keep_graph {
                node.release();
            }
        }
    }
    while let Some(leaf) = leaves.take_final(0) {
        finish(leaf, &mut targets, create_graph)?;
    }
    for leaf in leaves.into_rest() {
        finish(leaf, &mut targets, create_graph)?;
    }
    Ok(targets)
}

/// Run the hooks of a leaf, and add its gradient to its `.grad` or to the captured ones.
fn finish((leaf, edge, mut g): Given, targets: &mut Targets, create_graph: bool) -> Result<()> {
    let hooks = {
        let h = leaf.hooks.lock().unwrap_or_else(|e| e.into_inner());
        (h.before.clone(), h.after.clone(), h.node.clone())
    };
    for (i, (_, hook)) in hooks.0.iter().enumerate() {
        if let Some(new) = hook(&g)? {
            check_result(&i.to_string(), &g, &new)?;
            g = new;
        }
    }
    match targets {
        Targets::Only(c) => {
            for &i in &c.leaves[&leaf_at(&leaf)] {
                c.found[i] = Some(g.clone());
            }
        }
        Targets::Leaves => {
            let mut given = vec![Some(g)];
            before_step(&hooks.2, &mut given)?;
            let seen = if hooks.2.post.is_empty() { Vec::new() } else { given.clone() };
            if let Some(g) = given.swap_remove(0) {
                accumulate_into(&leaf, edge.tensor(), g, create_graph)?;
            }
            for (_, hook) in &hooks.1 {
                hook(edge.tensor())?;
            }
            after_step(&hooks.2, &mut Vec::new(), &seen)?;
        }
    }
    Ok(())
}

/// Convert the gradient to the dtype and shape of its input `index`.
fn fitted(node: &Node, index: usize, g: Tensor) -> Result<Tensor> {
    let e = &node.edges()[index];
    let meta = match e {
        Edge::Leaf(l) => l.meta(),
        Edge::Node(n, nr) => &n.outputs()[*nr as usize],
        Edge::None => return Ok(g),
    };
    let g = if *g.dims() == meta.dims {
        g
    } else if torchtpu_tensor::op::broadcast_dims(&meta.dims, g.dims()).is_ok_and(|d| d == *g.dims()) {
        // Hand-written functions may leave the reduction of a broadcast to the engine.
        let keep: Vec<i64> = (0..g.dims().len() - meta.dims.len()).map(|d| d as i64).collect();
        let mut s = if keep.is_empty() { g } else { g.sum_dim(&keep, false)? };
        for (d, &n) in meta.dims.iter().enumerate() {
            if n == 1 && s.dims()[d] != 1 {
                s = s.sum_dim(&[d as i64], true)?;
            }
        }
        s
    } else {
        return Err(Error::runtime(format!(
            "Function {} returned an invalid gradient at index {index} - got {} but expected shape compatible with {}",
            node.name(),
            g.dims(),
            meta.dims
        )));
    };
    let g = if g.dtype() == meta.dtype { g } else { g.to_dtype(meta.dtype)? };
    let is_foreign = g.place().rep == Rep::Foreign || meta.place.rep == Rep::Foreign;
    if g.place() == meta.place || is_foreign && g.device() == meta.place.device {
        return Ok(g);
    }
    g.to_device(meta.place)
}

/// An input or output of differentiation: a place in the graph, and the metadata of its tensor.
#[derive(Clone)]
pub struct Place {
    /// Edge to the place.
    pub edge: Edge,
    /// Sizes, dtype and device of the tensor.
    pub meta: Meta,
    /// The tensor, if it is foreign: its class makes the first gradient.
    pub foreign: Option<Tensor>,
}

impl Place {
    /// Return the place of a tensor, or an empty edge if it requires no gradient.
    ///
    /// # Errors
    /// Fails if the history of a view cannot be regenerated.
    pub fn of(x: &Tensor) -> Result<Place> {
        let foreign = foreign::is_foreign(x).then(|| x.clone());
        Ok(Place { edge: x.history_edge()?, meta: *x.meta(), foreign })
    }
}

fn places(x: &[Tensor]) -> Result<Vec<Place>> {
    x.iter().map(Place::of).collect()
}

/// Return the start gradients: the given ones, or one for a tensor of one element.
fn start(outputs: &[Place], grads: &[Option<Tensor>], create_graph: bool) -> Result<Vec<(Edge, Tensor)>> {
    let _mode = GradMode::set(create_graph);
    let _autocast = autocast::off();
    if !grads.is_empty() && grads.len() != outputs.len() {
        return Err(Error::runtime(format!("got {} tensors and {} gradients", outputs.len(), grads.len())));
    }
    outputs
        .iter()
        .enumerate()
        .map(|(i, y)| {
            if !y.edge.is_some() {
                return Err(Error::runtime(format!(
                    "element {i} of tensors does not require grad and does not have a grad_fn"
                )));
            }
            let g = match grads.get(i).cloned().flatten() {
                Some(g) if *g.dims() != y.meta.dims => {
                    return Err(Error::runtime(format!(
                        "Mismatch in shape: grad_output[{i}] has a shape of torch.Size({}) and output[{i}] has a shape \
                        of torch.Size({}).",
                        g.dims(),
                        y.meta.dims
                    )));
                }
                Some(g) if g.dtype().is_complex() != y.meta.dtype.is_complex() => {
                    return Err(Error::runtime(format!(
                        "For complex Tensors, both grad_output and output are required to have the same dtype. \
                        Mismatch in dtype: grad_output[{i}] has a dtype of torch.{} and output[{i}] has a dtype of \
                        torch.{}.",
                        g.dtype().name(),
                        y.meta.dtype.name()
                    )));
                }
                Some(g) if g.dtype() != y.meta.dtype => g.to_dtype(y.meta.dtype)?,
                Some(g) => g,
                None if y.meta.numel() == 1 && y.meta.dtype.is_complex() => {
                    return Err(Error::runtime(format!(
                        "grad can be implicitly created only for real scalar outputs but got torch.{}",
                        y.meta.dtype.name()
                    )));
                }
                None if y.meta.numel() == 1 => match &y.foreign {
                    Some(x) => foreign::ones_like(x)?,
                    None => Tensor::full_meta(&y.meta, Scalar::Int(1))?,
                },
                None => return Err(Error::runtime("grad can be implicitly created only for scalar outputs")),
            };
            Ok((y.edge.clone(), g))
        })
        .collect()
}

fn captures(inputs: &[Place], roots: &[(Edge, Tensor)]) -> Result<Captures> {
    let mut c = Captures { found: vec![None; inputs.len()], ..Captures::default() };
    for (i, x) in inputs.iter().enumerate() {
        match &x.edge {
            Edge::Leaf(l) => c.leaves.entry(l.address()).or_default().push(i),
            Edge::Node(n, nr) => c.nodes.entry((node_at(n), *nr)).or_default().push(i),
            Edge::None => return Err(Error::runtime("One of the differentiated Tensors does not require grad")),
        }
    }
    mark_needed(&roots.iter().map(|(e, _)| e.clone()).collect::<Vec<_>>(), &mut c);
    Ok(c)
}

/// Compute gradients of the sum of `outputs` (weighted by `grads`) and add them to `.grad` of the leaves, or of
/// `inputs` only.
///
/// `retain_graph` defaults to `create_graph`. Without it, saved tensors are freed as the pass visits their nodes.
///
/// # Errors
/// Fails with `Runtime`, in PyTorch's wording, for outputs without history, a missing gradient of an output with
/// several elements, a second backward, and a saved tensor that was changed in place. Returns the errors of gradient
/// rules and hooks.
pub fn backward(
    outputs: &[Tensor],
    grads: &[Option<Tensor>],
    retain_graph: Option<bool>,
    create_graph: bool,
    inputs: Option<&[Tensor]>,
) -> Result<()> {
    let inputs = inputs.map(places).transpose()?;
    backward_at(&places(outputs)?, grads, retain_graph, create_graph, inputs.as_deref())
}

/// Like [`backward`], for places in the graph.
///
/// # Errors
/// Fails like [`backward`].
pub fn backward_at(
    outputs: &[Place],
    grads: &[Option<Tensor>],
    retain_graph: Option<bool>,
    create_graph: bool,
    inputs: Option<&[Place]>,
) -> Result<()> {
    if create_graph {
        static WARNED: AtomicBool = AtomicBool::new(false);
        warning::once(
            &WARNED,
            "Using backward() with create_graph=True will create a reference cycle between the parameter and its \
            gradient which can cause a memory leak. We recommend using autograd.grad when creating the graph to avoid \
            this. If you have to use this function, make sure to reset the .grad fields of your parameters to None \
            after use to break the cycle and avoid the leak.",
        )?;
    }
    let roots = start(outputs, grads, create_graph)?;
    let keep = retain_graph.unwrap_or(create_graph);
    let Some(inputs) = inputs else {
        run(roots, keep, create_graph, Targets::Leaves)?;
        return Ok(());
    };
    if inputs.is_empty() {
        return Err(Error::runtime("`inputs` argument to `backward` cannot be empty."));
    }
    let mut c = captures(inputs, &roots)?;
    for x in inputs {
        // The step that made an input runs for its hooks, and if it is the user's, as in PyTorch.
        if let Edge::Node(n, _) = &x.edge {
            let is_hooked = n.extras_if_any().is_some_and(|e| {
                let extras = e.lock().unwrap_or_else(|e| e.into_inner());
                !extras.hooks.pre.is_empty() || !extras.hooks.post.is_empty()
            });
            if is_hooked || n.user_function().is_some_and(|f| f.as_any().is_some()) {
                c.needed.insert(node_at(n));
            }
        }
    }
    let Targets::Only(c) = run(roots, keep, create_graph, Targets::Only(c))? else {
        unreachable!("the kind of target does not change")
    };
    for (x, g) in inputs.iter().zip(c.found) {
        let Some(g) = g else { continue };
        match &x.edge {
            Edge::Leaf(l) => {
                let leaf = l.leaf()?;
                accumulate_into(&leaf, l.tensor(), g, create_graph)?;
            }
            // Keep the gradient of this pass where the tensor's `.grad` finds it, as for `retain_grad`.
            Edge::Node(n, nr) => n.keep_grad(*nr, g),
            Edge::None => unreachable!("refused by `captures`"),
        }
    }
    Ok(())
}

/// Return gradients of the sum of `outputs` (weighted by `grad_outputs`) with respect to `inputs`. Does not change the
/// `.grad` of leaves.
///
/// # Errors
/// Fails like [`backward`], and with `Runtime` if an input was not used and `allow_unused` is off.
pub fn grad(
    outputs: &[Tensor],
    inputs: &[Tensor],
    grad_outputs: &[Option<Tensor>],
    retain_graph: Option<bool>,
    create_graph: bool,
    allow_unused: bool,
) -> Result<Vec<Option<Tensor>>> {
    grad_at(&places(outputs)?, &places(inputs)?, grad_outputs, retain_graph, create_graph, allow_unused)
}

/// Like [`grad`], for places in the graph.
///
/// # Errors
/// Fails like [`grad`].
pub fn grad_at(
    outputs: &[Place],
    inputs: &[Place],
    grad_outputs: &[Option<Tensor>],
    retain_graph: Option<bool>,
    create_graph: bool,
    allow_unused: bool,
) -> Result<Vec<Option<Tensor>>> {
    let roots = start(outputs, grad_outputs, create_graph)?;
    let keep = retain_graph.unwrap_or(create_graph);
    let c = captures(inputs, &roots)?;
    let Targets::Only(c) = run(roots, keep, create_graph, Targets::Only(c))? else {
        unreachable!("the kind of target does not change")
    };
    if let Some(i) = c.found.iter().position(Option::is_none).filter(|_| !allow_unused) {
        return Err(Error::runtime(format!(
            "The differentiated Tensor at index {i} appears to not have been used in the graph. Set allow_unused=True \
            if this is the desired behavior."
        )));
    }
    Ok(c.found)
}
