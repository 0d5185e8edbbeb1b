//! The backward pass, and gradient modes. The files of the folder have nodes, hooks, and `torch.autograd.Function`.

mod anomaly;
mod collect;
mod function;
mod hook;
mod kept;
mod node;
mod python_backward;
mod saved_hooks;
mod tensors;

pub use collect::{clear, traverse};
pub use hook::keep_grad_object;
pub use node::node_object;

use crate::enter::{self, OrRaise, callback_error};
use crate::tensor_type::extract;
use kept::Kept;
use node::PyNode;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tensors::{optional_object, optional_tensors_in};
use torchtpu_autograd::Place;
use torchtpu_tensor::graph::Edge;
use torchtpu_tensor::state;

/// A tensor, or a `GradientEdge`: a node and the number of an output.
fn place_in(o: &Bound<'_, PyAny>) -> PyResult<Place> {
    if let Some(t) = extract(o) {
        return Place::of(t).or_raise();
    }
    let Ok(node) = o.getattr("node") else {
        return Err(PyTypeError::new_err(format!(
            "expected a Tensor or a GradientEdge, but got {}",
            o.get_type().name()?
        )));
    };
    let node = node.cast::<PyNode>()?.get();
    let nr: u32 = o.getattr("output_nr")?.extract()?;
    match &node.0 {
        Edge::Leaf(l) => Ok(Place { edge: node.0.clone(), meta: *l.meta(), foreign: None }),
        Edge::Node(n, _) => match n.outputs().get(nr as usize) {
            Some(meta) => Ok(Place { edge: Edge::Node(n.clone(), nr), meta: *meta, foreign: None }),
            None => Err(PyRuntimeError::new_err(format!("{} has no output {nr}", n.name()))),
        },
        Edge::None => Err(PyRuntimeError::new_err("an edge without a node")),
    }
}

fn places_in(o: &Bound<'_, PyAny>) -> PyResult<Vec<Place>> {
    o.try_iter()?.map(|t| place_in(&t?)).collect()
}

/// Accumulate gradients into leaves.
#[pyfunction]
fn _backward(
    tensors: &Bound<'_, PyAny>,
    grads: &Bound<'_, PyAny>,
    retain_graph: Option<bool>,
    create_graph: bool,
    inputs: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let (y, g) = (places_in(tensors)?, optional_tensors_in(grads)?);
    let inputs = inputs.map(places_in).transpose()?;
    let run = || torchtpu_autograd::backward_at(&y, &g, retain_graph, create_graph, inputs.as_deref());
    // A graph of small tensors is quick, but its hooks and functions may run any code. They take the GIL themselves.
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
    let (y, x, g) = (places_in(outputs)?, places_in(inputs)?, optional_tensors_in(grads)?);
    let found = enter::without_gil(|| torchtpu_autograd::grad_at(&y, &x, &g, retain_graph, create_graph, allow_unused))
        .or_raise()?;
    let found: Vec<_> = found.into_iter().map(|t| optional_object(py, t)).collect::<PyResult<_>>()?;
    PyTuple::new(py, found)
}

/// Call a function when this thread's outermost backward pass ends. If the pass fails, the function is not called.
#[pyfunction]
fn _at_end_of_backward(function: Py<PyAny>) -> PyResult<()> {
    let function = Kept::new(function);
    let call = move || Python::attach(|py| function.get().call0(py).map(drop)).map_err(callback_error);
    torchtpu_autograd::at_end(call).or_raise()
}

thread_local! {
    /// The value of `is_grad_enabled` in inference mode, which records nothing in either case.
    static GRAD_IN_INFERENCE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Return whether this thread records operations for autograd.
#[pyfunction]
fn is_grad_enabled() -> bool {
    state::grad_enabled() || (state::is_inference() && GRAD_IN_INFERENCE.get())
}

/// Switch recording on or off, and return the previous setting. Inference mode records nothing in either case.
#[pyfunction]
fn _set_grad_enabled(on: bool) -> bool {
    if state::is_inference() { GRAD_IN_INFERENCE.replace(on) } else { state::with(|s| s.grad.replace(on)) }
}

/// Switch inference mode on or off, and recording to the opposite. Return both previous settings.
#[pyfunction]
fn _set_inference_mode(on: bool, grad: bool) -> (bool, bool) {
    let before = is_grad_enabled();
    let was_on = state::set_inference(on);
    GRAD_IN_INFERENCE.set(on && grad);
    state::with(|s| s.grad.set(!on && grad));
    (was_on, before)
}

/// Return whether this thread is in inference mode.
#[pyfunction]
fn is_inference_mode_enabled() -> bool {
    state::is_inference()
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_backward, m)?)?;
    m.add_function(wrap_pyfunction!(_grad, m)?)?;
    m.add_function(wrap_pyfunction!(_at_end_of_backward, m)?)?;
    m.add_function(wrap_pyfunction!(is_grad_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(_set_grad_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(_set_inference_mode, m)?)?;
    m.add_function(wrap_pyfunction!(is_inference_mode_enabled, m)?)?;
    node::register(m)?;
    hook::register(m)?;
    function::register(m)?;
    saved_hooks::register(m)?;
    anomaly::register(m)
}
