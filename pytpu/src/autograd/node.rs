//! Nodes of the backward graph as Python objects: `x.grad_fn` and its attributes.

use super::hook::{HookOwner, Owner, call_node_hook};
use super::kept::Kept;
use super::python_backward::PythonBackward;
use super::tensors::{optional_object, tensor_in};
use crate::enter::OrRaise;
use crate::tensor_type::to_python;
use pyo3::exceptions::{PyAttributeError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use std::sync::Arc;
use torchtpu_tensor::graph::{Edge, Node, NodeHooks, PostHook, PreHook};
use torchtpu_tensor::hooks::{next_id, watch_leaves};
use torchtpu_tensor::{Error, Result, Tensor};

/// A step of the backward graph, `x.grad_fn`. Its type is a subclass with the name of the step.
#[pyclass(frozen, subclass, name = "Node", module = "torch.autograd.graph")]
pub struct PyNode(pub(super) Edge);

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
    fn class_name(&self) -> String {
        self.node().map_or_else(|| "AccumulateGrad".into(), |n| n.name())
    }
    fn python_function(&self) -> Option<&PythonBackward> {
        self.node()?.user_function()?.as_any()?.downcast_ref()
    }
    /// Call `f` with the hooks of the step.
    fn with_hooks<R>(&self, f: impl FnOnce(&mut NodeHooks) -> R) -> PyResult<R> {
        match &self.0 {
            Edge::Node(n, _) => Ok(f(&mut n.extras().lock().unwrap_or_else(|e| e.into_inner()).hooks)),
            Edge::Leaf(l) => Ok(f(&mut l.leaf().or_raise()?.hooks.lock().unwrap_or_else(|e| e.into_inner()).node)),
            Edge::None => Err(PyRuntimeError::new_err("no step")),
        }
    }
    fn owner(&self) -> PyResult<Owner> {
        match &self.0 {
            Edge::Node(n, _) => Ok(Owner::Node(Arc::downgrade(n))),
            Edge::Leaf(l) => l.leaf().map(|l| Owner::Leaf(Arc::downgrade(&l))).or_raise(),
            Edge::None => Err(PyRuntimeError::new_err("no step")),
        }
    }
}

/// The text of an attribute's name.
fn saved_name(name: &Bound<'_, PyAny>) -> Option<String> {
    name.extract().ok()
}

/// Return the operand or result that an attribute such as `_saved_self` names.
fn saved_place(name: &str) -> Option<SavedPlace> {
    Some(match name.strip_prefix("_saved_")? {
        "self" | "input" | "mat1" | "condition" | "theta" => SavedPlace::Operand(0),
        "other" | "weight" | "mat2" | "exponent" | "index" | "indices" | "target" | "vec" => SavedPlace::Operand(1),
        "bias" | "src" | "source" => SavedPlace::Operand(2),
        "result" | "output" | "result0" | "grad_input" => SavedPlace::Result(0),
        "result1" | "mean" | "save_mean" => SavedPlace::Result(1),
        "result2" | "rstd" | "save_invstd" => SavedPlace::Result(2),
        _ => return None,
    })
}

/// A tensor that a node may keep.
#[derive(Clone, Copy)]
enum SavedPlace {
    Operand(usize),
    Result(u32),
}

impl PyNode {
    /// Return the tensor that the step has saved at a place: `None` if there is no such place, `Some(None)` if the
    /// place is empty.
    fn saved(&self, place: SavedPlace) -> Result<Option<Option<Tensor>>> {
        let Some(n) = self.node() else { return Ok(None) };
        match place {
            SavedPlace::Operand(i) if i < n.edges().len() => n.saved_operand(i).map(Some),
            SavedPlace::Result(nr) if (nr as usize) < n.outputs().len() => n.saved_result(nr).map(Some),
            _ => Ok(None),
        }
    }
}

#[pymethods]
impl PyNode {
    #[new]
    fn new(of: &PyNode) -> PyNode {
        PyNode(of.0.clone())
    }
    /// Return the name of the operation, such as `MulBackward0`.
    fn name(&self) -> String {
        self.node().map_or_else(|| "torch::autograd::AccumulateGrad".into(), |n| n.name())
    }
    fn __repr__(&self) -> String {
        let place = if self.python_function().is_some() { "torch.autograd.function." } else { "" };
        format!("<{place}{} object at {:#x}>", self.class_name(), self.address())
    }
    fn __hash__(&self) -> usize {
        self.address() >> 4
    }
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyNode>().is_ok_and(|o| o.get().address() == self.address())
    }
    /// Attributes of the `ctx` of a `torch.autograd.Function` are attributes of its node.
    fn __getattr__<'py>(slf: &Bound<'py, Self>, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match slf.get().python_function() {
            Some(f) => f.objects().context.bind(slf.py()).getattr(name.cast::<pyo3::types::PyString>()?),
            None if let Some(place) = saved_name(name).as_deref().and_then(saved_place)
                && let Some(found) = slf.get().saved(place).transpose() =>
            {
                optional_object(slf.py(), found.or_raise()?)
            }
            None => Err(PyAttributeError::new_err(format!(
                "'{}' object has no attribute '{}'",
                slf.get().class_name(),
                name.str()?
            ))),
        }
    }
    /// The nodes that get the gradients of the inputs, each with the number of its output.
    #[getter]
    fn next_functions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let edges = self.node().map_or(&[][..], |n| n.edges());
        let next = edges.iter().map(|e| {
            let nr = if let Edge::Node(_, nr) = e { *nr } else { 0 };
            let o = if e.is_some() { edge_object(py, e.clone())? } else { py.None().into_bound(py) };
            Ok((o, nr))
        });
        PyTuple::new(py, next.collect::<PyResult<Vec<_>>>()?)
    }
    /// The number of the node in the order of forward.
    #[getter]
    fn _sequence_nr(&self) -> u64 {
        self.node().map_or(u64::MAX, |n| n.seq())
    }
    /// The leaf into whose `grad` an `AccumulateGrad` adds.
    #[getter]
    fn variable<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.0 {
            Edge::Leaf(l) => to_python(py, l.tensor().clone()),
            _ => Err(PyAttributeError::new_err(format!("'{}' object has no attribute 'variable'", self.class_name()))),
        }
    }
    /// Whether the node computes gradients.
    #[getter]
    fn requires_grad(&self) -> bool {
        true
    }
    /// A dictionary for the user's own entries.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let known = self.with_hooks(|h| h.metadata.clone())?;
        if let Some(d) = known.as_deref().and_then(|d| d.downcast_ref::<Kept<Py<PyDict>>>()) {
            return Ok(d.get().bind(py).clone());
        }
        let new = PyDict::new(py);
        let kept = Arc::new(Kept::new(new.clone().unbind()));
        let before = self.with_hooks(|h| h.metadata.replace(kept))?;
        drop(before);
        Ok(new)
    }
    /// Call `fn(grad_outputs)` before the step runs. A tuple that it returns replaces `grad_outputs`.
    fn register_prehook(&self, hook: Py<PyAny>) -> PyResult<HookOwner> {
        let (id, hook) = (next_id(), Kept::new(hook));
        let f: PreHook = Arc::new(move |g| call_node_hook(hook.get(), &[g], g.len()));
        self.with_hooks(|h| h.pre.push((id, f)))?;
        Ok(HookOwner { owner: self.owner()?, id })
    }
    /// Call `fn(grad_inputs, grad_outputs)` after the step has run. A tuple that it returns replaces `grad_inputs`.
    fn register_hook(&self, hook: Py<PyAny>) -> PyResult<HookOwner> {
        let (id, hook) = (next_id(), Kept::new(hook));
        let f: PostHook = Arc::new(move |found, g| call_node_hook(hook.get(), &[found, g], found.len()));
        self.with_hooks(|h| h.post.push((id, f)))?;
        watch_leaves();
        Ok(HookOwner { owner: self.owner()?, id })
    }
}

static NODE_CLASSES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

/// Return the object of a step, of a class with its name.
fn edge_object(py: Python<'_>, e: Edge) -> PyResult<Bound<'_, PyAny>> {
    let node = PyNode(e);
    let name = node.class_name();
    let classes = NODE_CLASSES.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    let class = match classes.get_item(&name)? {
        Some(c) => c,
        None => {
            let module = if node.python_function().is_some() { "torch.autograd.function" } else { "builtins" };
            let body = PyDict::new(py);
            body.set_item("__module__", module)?;
            body.set_item("__slots__", ())?;
            let class = py.get_type::<PyType>().call1((&name, (py.get_type::<PyNode>(),), body))?;
            classes.set_item(&name, &class)?;
            class
        }
    };
    class.call1((Bound::new(py, node)?,))
}

/// Return the object of a node.
pub fn node_object(py: Python<'_>, n: Arc<Node>) -> PyResult<Bound<'_, PyAny>> {
    edge_object(py, Edge::Node(n, 0))
}

/// Return the node that receives a tensor's gradient, and the number of the output there.
#[pyfunction]
fn _gradient_edge<'py>(x: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, u32)> {
    let t = tensor_in(x)?;
    match t.history_edge().or_raise()? {
        Edge::None => Err(PyRuntimeError::new_err(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients",
        )),
        e => {
            let nr = if let Edge::Node(_, nr) = &e { *nr } else { 0 };
            Ok((edge_object(x.py(), e)?, nr))
        }
    }
}

/// Number of the backward pass that this thread is in, or -1.
#[pyfunction]
fn _current_graph_task_id() -> i64 {
    torchtpu_autograd::graph_task_id()
}

/// Return whether the backward pass that this thread is in reaches a node.
#[pyfunction]
fn _will_engine_execute_node(node: &PyNode) -> PyResult<bool> {
    torchtpu_autograd::will_reach(&node.0).ok_or_else(|| {
        PyRuntimeError::new_err("_get_should_execute_nodes should only be called during the backward pass")
    })
}

/// Return zeros like an output of a node, for a gradient that did not arrive.
#[pyfunction]
fn _zeros_for<'py>(py: Python<'py>, node: &PyNode, nr: usize) -> PyResult<Bound<'py, PyAny>> {
    let meta = node.node().and_then(|n| n.outputs().get(nr).copied());
    let meta = meta.ok_or_else(|| Error::runtime("no such output")).or_raise()?;
    to_python(py, Tensor::zeros_like_meta(&meta).or_raise()?)
}

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyNode>()?;
    m.add_function(wrap_pyfunction!(_gradient_edge, m)?)?;
    m.add_function(wrap_pyfunction!(_current_graph_task_id, m)?)?;
    m.add_function(wrap_pyfunction!(_will_engine_execute_node, m)?)?;
    m.add_function(wrap_pyfunction!(_zeros_for, m)?)?;
    Ok(())
}
