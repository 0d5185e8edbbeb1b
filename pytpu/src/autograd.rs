//! The backward pass, gradient modes, hooks, and what `torch.autograd.Function` stands on.

use crate::enter::{self, OrRaise, callback_error};
use crate::tensor_type::{extract, to_python};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use torchtpu_tensor::graph::{BackwardFn, Edge, Hook, Leaf, LeafHook, Node};
use torchtpu_tensor::op::Grads;
use torchtpu_tensor::{Error, GradRef, Meta, Result, Tensor, state};

fn tensor_in(o: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    match extract(o) {
        Some(t) => Ok(t.clone()),
        None => Err(PyTypeError::new_err(format!("expected a Tensor, but got {}", o.get_type().name()?))),
    }
}

fn tensors_in(o: &Bound<'_, PyAny>) -> PyResult<Vec<Tensor>> {
    o.try_iter()?.map(|t| tensor_in(&t?)).collect()
}

fn optional_tensors_in(o: &Bound<'_, PyAny>) -> PyResult<Vec<Option<Tensor>>> {
    o.try_iter()?.map(|t| t.and_then(|t| if t.is_none() { Ok(None) } else { tensor_in(&t).map(Some) })).collect()
}

fn optional_object<'py>(py: Python<'py>, t: Option<Tensor>) -> PyResult<Bound<'py, PyAny>> {
    t.map_or_else(|| Ok(py.None().into_bound(py)), |t| to_python(py, t))
}

/// Accumulates gradients into leaves.
#[pyfunction]
fn _backward(
    tensors: &Bound<'_, PyAny>,
    grads: &Bound<'_, PyAny>,
    retain_graph: Option<bool>,
    create_graph: bool,
    inputs: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let (y, g) = (tensors_in(tensors)?, optional_tensors_in(grads)?);
    let inputs = inputs.map(tensors_in).transpose()?;
    let run = || torchtpu_autograd::backward(&y, &g, retain_graph, create_graph, inputs.as_deref());
    // A graph of small tensors is quick, but hooks and functions in it may be anything: they attach for themselves.
    enter::without_gil(run).or_raise()
}

/// Gradients of outputs with respect to inputs.
#[pyfunction]
fn _grad<'py>(
    py: Python<'py>,
    outputs: &Bound<'py, PyAny>,
    inputs: &Bound<'py, PyAny>,
    grads: &Bound<'py, PyAny>,
    retain_graph: Option<bool>,
    create_graph: bool,
    allow_unused: bool,
) -> PyResult<Bound<'py, PyTuple>> {
    let (y, x, g) = (tensors_in(outputs)?, tensors_in(inputs)?, optional_tensors_in(grads)?);
    let found = enter::without_gil(|| torchtpu_autograd::grad(&y, &x, &g, retain_graph, create_graph, allow_unused))
        .or_raise()?;
    let found: Vec<_> = found.into_iter().map(|t| optional_object(py, t)).collect::<PyResult<_>>()?;
    PyTuple::new(py, found)
}

#[pyfunction]
fn is_grad_enabled() -> bool {
    state::grad_enabled()
}

/// Switches recording on or off and says what was set before.
#[pyfunction]
fn _set_grad_enabled(on: bool) -> bool {
    state::with(|s| s.grad.replace(on))
}

// ---- nodes

/// A step of the backward graph, `x.grad_fn`.
#[pyclass(frozen, name = "Node", module = "torch.autograd.graph")]
pub struct PyNode(Edge);

impl PyNode {
    fn node(&self) -> Option<&Arc<Node>> {
        if let Edge::Node(n, _) = &self.0 { Some(n) } else { None }
    }
    fn address(&self) -> usize {
        match &self.0 {
            Edge::Node(n, _) => Arc::as_ptr(n) as usize,
            Edge::Leaf(l) => l.address(),
            Edge::None => 0,
        }
    }
}

#[pymethods]
impl PyNode {
    fn name(&self) -> String {
        self.node().map_or_else(|| "torch::autograd::AccumulateGrad".into(), |n| n.name())
    }
    fn __repr__(&self) -> String {
        let name = self.node().map_or_else(|| "AccumulateGrad".into(), |n| n.name());
        format!("<{name} object at {:#x}>", self.address())
    }
    fn __hash__(&self) -> usize {
        self.address() >> 4
    }
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyNode>().is_ok_and(|o| o.get().address() == self.address())
    }
    #[getter]
    fn next_functions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let edges = self.node().map_or(&[][..], |n| n.edges());
        let next = edges.iter().map(|e| {
            let nr = if let Edge::Node(_, nr) = e { *nr } else { 0 };
            let o = if e.is_some() { Bound::new(py, PyNode(e.clone()))?.into_any() } else { py.None().into_bound(py) };
            Ok((o, nr))
        });
        PyTuple::new(py, next.collect::<PyResult<Vec<_>>>()?)
    }
    #[getter]
    fn _sequence_nr(&self) -> u64 {
        self.node().map_or(u64::MAX, |n| n.seq())
    }
    /// Calls `fn(grad_outputs)` before the node runs.
    fn register_prehook(&self, hook: Py<PyAny>) -> PyResult<u64> {
        let node = self.node().ok_or_else(|| PyRuntimeError::new_err("a leaf's hooks are registered on the tensor"))?;
        let id = next_id();
        let f: Hook = Arc::new(move |g| call_hook(&hook, g, true));
        node.extras().lock().unwrap_or_else(|e| e.into_inner()).before.push((id, 0, f));
        Ok(id)
    }
}

/// The object of a node.
pub fn node_object(py: Python<'_>, n: Arc<Node>) -> PyResult<Bound<'_, PyNode>> {
    Bound::new(py, PyNode(Edge::Node(n, 0)))
}

// ---- hooks

static NEXT_ID: AtomicU64 = AtomicU64::new(1);
fn next_id() -> u64 {
    NEXT_ID.fetch_add(1, Relaxed)
}

fn call_hook(hook: &Py<PyAny>, g: &Tensor, in_tuple: bool) -> Result<Option<Tensor>> {
    Python::attach(|py| {
        let g = to_python(py, g.clone())?;
        let r = if in_tuple { hook.bind(py).call1(((g,),))? } else { hook.bind(py).call1((g,))? };
        if r.is_none() {
            return Ok(None);
        }
        let r = if let (true, Ok(t)) = (in_tuple, r.cast::<PyTuple>()) { t.get_item(0)? } else { r };
        match extract(&r) {
            Some(t) => Ok(Some(t.clone())),
            None => Err(PyTypeError::new_err(format!(
                "hook '{}' has returned an incompatible type: expected Tensor, got {}",
                hook.bind(py).getattr("__name__").map_or_else(|_| "<unknown>".into(), |n| n.to_string()),
                r.get_type().name()?
            ))),
        }
    })
    .map_err(callback_error)
}

/// Where hooks of a tensor are kept.
#[pyclass(frozen)]
struct HookOwner {
    at: At,
    id: u64,
}
enum At {
    Node(Arc<Node>),
    Leaf(Arc<Leaf>),
}

#[pymethods]
impl HookOwner {
    /// Removes the hook.
    fn remove(&self) {
        match &self.at {
            At::Node(n) => n.extras().lock().unwrap_or_else(|e| e.into_inner()).before.retain(|h| h.0 != self.id),
            At::Leaf(l) => {
                let mut hooks = l.hooks.lock().unwrap_or_else(|e| e.into_inner());
                hooks.before.retain(|h| h.0 != self.id);
                hooks.after.retain(|h| h.0 != self.id);
            }
        }
    }
}

/// Calls `hook(grad)` when the gradient of `x` is known.
#[pyfunction]
fn _register_hook(x: &Bound<'_, PyAny>, hook: Py<PyAny>) -> PyResult<HookOwner> {
    let t = tensor_in(x)?;
    let id = next_id();
    let f: Hook = Arc::new(move |g| call_hook(&hook, g, false));
    match t.history().or_raise()? {
        Some(GradRef::Node(n)) => {
            n.extras().lock().unwrap_or_else(|e| e.into_inner()).before.push((id, t.output_nr(), f));
            Ok(HookOwner { at: At::Node(n), id })
        }
        Some(GradRef::Leaf(l)) if l.requires_grad() => {
            l.hooks.lock().unwrap_or_else(|e| e.into_inner()).before.push((id, f));
            Ok(HookOwner { at: At::Leaf(l), id })
        }
        _ => Err(PyRuntimeError::new_err("cannot register a hook on a tensor that doesn't require gradient")),
    }
}

/// Calls `hook(x)` when the gradient of the leaf `x` has been accumulated.
#[pyfunction]
fn _register_post_accumulate_grad_hook(x: &Bound<'_, PyAny>, hook: Py<PyAny>) -> PyResult<HookOwner> {
    let t = tensor_in(x)?;
    let leaf = match t.history().or_raise()? {
        Some(GradRef::Leaf(l)) if l.requires_grad() => l,
        Some(GradRef::Node(_)) => {
            return Err(PyRuntimeError::new_err("post accumulate grad hooks cannot be registered on non-leaf tensors"));
        }
        _ => return Err(PyRuntimeError::new_err("cannot register a hook on a tensor that doesn't require gradient")),
    };
    // The hook must not keep its own tensor alive.
    let weak = x.py().import("weakref")?.getattr("ref")?.call1((x,))?.unbind();
    let f: LeafHook = Arc::new(move |_| {
        Python::attach(|py| {
            let x = weak.bind(py).call0()?;
            if !x.is_none() {
                hook.bind(py).call1((x,))?;
            }
            Ok(())
        })
        .map_err(callback_error)
    });
    let id = next_id();
    leaf.hooks.lock().unwrap_or_else(|e| e.into_inner()).after.push((id, f));
    Ok(HookOwner { at: At::Leaf(leaf), id })
}

// ---- torch.autograd.Function

/// A backward written in Python.
struct PythonBackward {
    name: String,
    /// Gradients of the outputs in, a tuple of gradients of the inputs out; and what to call when what was saved may go.
    functions: Option<(Py<PyAny>, Py<PyAny>)>,
    inputs: usize,
}

impl PythonBackward {
    fn functions(&self) -> &(Py<PyAny>, Py<PyAny>) {
        self.functions.as_ref().expect("taken only when dropped")
    }
}

/// What the functions keep goes with the node, not when PyO3 next finds the time.
impl Drop for PythonBackward {
    fn drop(&mut self) {
        let functions = self.functions.take();
        Python::try_attach(|_| drop(functions));
    }
}

impl BackwardFn for PythonBackward {
    fn name(&self) -> String {
        self.name.clone()
    }
    fn backward(&self, g: &[Option<Tensor>]) -> Result<Grads> {
        Python::attach(|py| {
            let g: Vec<_> = g.iter().map(|g| optional_object(py, g.clone())).collect::<PyResult<_>>()?;
            let r = self.functions().0.bind(py).call1(PyTuple::new(py, g)?)?;
            let found = optional_tensors_in(&r)?;
            if found.len() != self.inputs {
                return Err(PyRuntimeError::new_err(format!(
                    "function {} returned an incorrect number of gradients (expected {}, got {})",
                    self.name,
                    self.inputs,
                    found.len()
                )));
            }
            Ok(found.into_iter().collect())
        })
        .map_err(callback_error)
    }
    fn release(&self) {
        Python::attach(|py| {
            if let Err(e) = self.functions().1.bind(py).call0() {
                e.write_unraisable(py, None);
            }
        });
    }
}

/// Hangs a Python backward on `outputs`, as a function of `inputs`. Outputs at places not in `differentiable` are left alone.
#[pyfunction]
fn _attach_function(
    name: String,
    inputs: &Bound<'_, PyList>,
    outputs: &Bound<'_, PyList>,
    differentiable: Vec<bool>,
    run: Py<PyAny>,
    release: Py<PyAny>,
) -> PyResult<WeakNode> {
    let x = tensors_in(inputs)?;
    let y = tensors_in(outputs)?;
    let edges: SmallVec<[Edge; 2]> = x.iter().map(Tensor::history_edge).collect::<Result<_>>().or_raise()?;
    let metas: SmallVec<[Meta; 1]> = y.iter().map(|t| *t.meta()).collect();
    let node = Node::function(
        Box::new(PythonBackward { name, functions: Some((run, release)), inputs: x.len() }),
        edges,
        metas,
    );
    for (nr, t) in y.iter().enumerate() {
        if differentiable[nr] {
            t.set_grad_ref(Some(GradRef::Node(node.clone())), nr as u32);
        }
    }
    Ok(WeakNode(Arc::downgrade(&node)))
}

/// A node that is not kept alive: its own backward refers to it.
#[pyclass(frozen)]
struct WeakNode(Weak<Node>);

#[pyfunction]
fn _node_of<'py>(py: Python<'py>, weak: &WeakNode) -> PyResult<Option<Bound<'py, PyNode>>> {
    weak.0.upgrade().map(|n| node_object(py, n)).transpose()
}

/// An alias of `x` whose history is output `nr` of `node`: a saved output, when it is wanted back.
#[pyfunction]
fn _output_of<'py>(x: &Bound<'py, PyAny>, node: &PyNode, nr: u32) -> PyResult<Bound<'py, PyAny>> {
    let t = tensor_in(x)?.shallow_alias().or_raise()?;
    if let Some(n) = node.node() {
        t.set_grad_ref(Some(GradRef::Node(n.clone())), nr);
    }
    to_python(x.py(), t)
}

/// Counts a write to a tensor, as `ctx.mark_dirty` asks.
#[pyfunction]
fn _bump_version(x: &Bound<'_, PyAny>) -> PyResult<()> {
    tensor_in(x)?.bump_version();
    Ok(())
}

/// Zeros like an output of a node; for a gradient that never came.
#[pyfunction]
fn _zeros_for<'py>(py: Python<'py>, node: &PyNode, nr: usize) -> PyResult<Bound<'py, PyAny>> {
    let meta = node.node().and_then(|n| n.outputs().get(nr).copied());
    let meta = meta.ok_or_else(|| Error::runtime("no such output")).or_raise()?;
    to_python(py, Tensor::zeros_like_meta(&meta).or_raise()?)
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyNode>()?;
    m.add_class::<HookOwner>()?;
    m.add_function(wrap_pyfunction!(_backward, m)?)?;
    m.add_function(wrap_pyfunction!(_grad, m)?)?;
    m.add_function(wrap_pyfunction!(is_grad_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(_set_grad_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(_register_hook, m)?)?;
    m.add_function(wrap_pyfunction!(_register_post_accumulate_grad_hook, m)?)?;
    m.add_function(wrap_pyfunction!(_attach_function, m)?)?;
    m.add_class::<WeakNode>()?;
    m.add_function(wrap_pyfunction!(_node_of, m)?)?;
    m.add_function(wrap_pyfunction!(_output_of, m)?)?;
    m.add_function(wrap_pyfunction!(_bump_version, m)?)?;
    m.add_function(wrap_pyfunction!(_zeros_for, m)?)?;
    Ok(())
}
