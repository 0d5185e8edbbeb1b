//! The backward pass of a thread, for hooks that query which nodes it will reach.

use crate::engine::{Address, node_at};
use rustc_hash::FxHashSet;
use std::cell::RefCell;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use torchtpu_tensor::graph::Edge;
use torchtpu_tensor::{Error, Result, Tensor};

type AtEnd = Box<dyn FnOnce() -> Result<()>>;

struct Pass {
    id: i64,
    roots: Vec<Edge>,
    /// The nodes that will run. `None` while all nodes will run and no caller has queried.
    reached: Option<FxHashSet<Address>>,
}

thread_local! {
    static PASSES: RefCell<Vec<Pass>> = const { RefCell::new(Vec::new()) };
    /// Functions to call at the end of this thread's outermost pass.
    static AT_END: RefCell<Vec<AtEnd>> = const { RefCell::new(Vec::new()) };
}
static NEXT: AtomicI64 = AtomicI64::new(0);

/// A guard that marks a running pass until it is dropped.
pub(crate) struct Current;

impl Current {
    pub(crate) fn start(roots: &[(Edge, Tensor)], only: Option<impl Iterator<Item = Address>>) -> Current {
        let pass = Pass {
            id: NEXT.fetch_add(1, Relaxed),
            roots: roots.iter().map(|r| r.0.clone()).collect(),
            reached: only.map(Iterator::collect),
        };
        PASSES.with_borrow_mut(|p| p.push(pass));
        Current
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        let pass = PASSES.with_borrow_mut(Vec::pop);
        drop(pass);
    }
}

fn address(e: &Edge) -> Option<Address> {
    match e {
        Edge::None => None,
        Edge::Node(n, _) => Some(node_at(n)),
        Edge::Leaf(l) => Some(l.address()),
    }
}

fn reached_from(roots: &[Edge]) -> FxHashSet<Address> {
    let mut seen = FxHashSet::default();
    let mut stack: Vec<Edge> = roots.to_vec();
    while let Some(e) = stack.pop() {
        let Some(at) = address(&e) else { continue };
        if seen.insert(at)
            && let Edge::Node(n, _) = &e
        {
            stack.extend(n.edges().iter().cloned());
        }
    }
    seen
}

/// Return the number of this thread's pass, or -1 outside of a pass.
pub fn graph_task_id() -> i64 {
    PASSES.with_borrow(|p| p.last().map_or(-1, |p| p.id))
}

/// Return whether this thread's pass reaches `place`, or `None` outside of a pass.
pub fn will_reach(place: &Edge) -> Option<bool> {
    PASSES.with_borrow_mut(|p| {
        let pass = p.last_mut()?;
        let reached = pass.reached.get_or_insert_with(|| reached_from(&pass.roots));
        Some(address(place).is_some_and(|at| reached.contains(&at)))
    })
}

/// Call `f` when this thread's outermost pass ends. If the pass fails, `f` is dropped. Hooks use this to act on all
/// gradients of the pass.
///
/// # Errors
/// `Runtime` outside of a pass. The pass fails with the error of `f`.
pub fn at_end(f: impl FnOnce() -> Result<()> + 'static) -> Result<()> {
    if PASSES.with_borrow(Vec::is_empty) {
        return Err(Error::runtime("Final callbacks can only be installed during backward pass."));
    }
    AT_END.with_borrow_mut(|all| all.push(Box::new(f)));
    Ok(())
}

/// Call the functions of an outermost pass that has ended, and return its result.
pub(crate) fn ended<T>(result: Result<T>) -> Result<T> {
    let functions = AT_END.take();
    let value = result?;
    functions.into_iter().try_for_each(|f| f())?;
    Ok(value)
}
