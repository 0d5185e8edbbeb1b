//! The backward pass of a thread, for hooks that query which nodes it will reach.

use crate::engine::{Address, node_at};
use rustc_hash::FxHashSet;
use std::cell::RefCell;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use torchtpu_tensor::Tensor;
use torchtpu_tensor::graph::Edge;

struct Pass {
    id: i64,
    roots: Vec<Edge>,
    /// The nodes that will run. `None` while all nodes will run and no caller has queried.
    reached: Option<FxHashSet<Address>>,
}

thread_local! {
    static PASSES: RefCell<Vec<Pass>> = const { RefCell::new(Vec::new()) };
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
