//! Recording of a `torch.autograd.Function`, and the tensors that its `ctx` saves.

use super::kept::Kept;
use super::node::node_object;
use super::python_backward::{FunctionObjects, PythonBackward};
use super::tensors::{tensor_in, tensors_in};
use crate::enter::OrRaise;
use crate::tensor_type::{self, to_python};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use smallvec::SmallVec;
use std::sync::{Arc, Weak};
use torchtpu_tensor::graph::{Edge, Node};
use torchtpu_tensor::saved::SavedTensor;
use torchtpu_tensor::{GradRef, Meta, Result, Tensor};

/// Record a Python backward for `outputs`, as a function of `inputs`. Each list has one entry per output:
/// `differentiable` selects the recorded outputs, `dirty` the inputs that were written, and `views` the outputs that
/// share the elements of an input.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "called in one place, from Python")]
fn _attach_function(
    name: String,
    inputs: &Bound<'_, PyList>,
    outputs: &Bound<'_, PyList>,
    differentiable: Vec<bool>,
    dirty: Vec<bool>,
    views: Vec<bool>,
    run: Py<PyAny>,
    release: Py<PyAny>,
    context: Py<PyAny>,
) -> PyResult<WeakNode> {
    let x = tensors_in(inputs)?;
    let y = tensors_in(outputs)?;
    let edges: SmallVec<[Edge; 2]> = x.iter().map(Tensor::history_edge).collect::<Result<_>>().or_raise()?;
    let metas: SmallVec<[Meta; 1]> = y.iter().map(|t| *t.meta()).collect();
    let node = Node::function(
        Box::new(PythonBackward {
            name,
            objects: Kept::new(FunctionObjects { run, release, context }),
            inputs: x.len(),
            views,
        }),
        edges,
        metas,
    );
    for (nr, t) in y.iter().enumerate() {
        if differentiable[nr] {
            // `ctx` may refer to its own outputs.
            // SAFETY: `tensors_in` found tensor objects in the list.
            unsafe { tensor_type::track(outputs.get_item(nr)?.as_ptr()) };
        }
        if dirty[nr] {
            if t.is_view() && y.len() > 1 {
                return Err(PyRuntimeError::new_err(
                    "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot \
                    return more than one Tensor. This is not supported by the current autograd engine. You should \
                    either make sure the input is not a view (using .clone() for example) or make your Function only \
                    return one Tensor (potentially splitting it into two Functions: one doing the inplace that returns \
                    a single Tensor and a second one that does the other operations). You can ask on the forum \
                    https://discuss.pytorch.org/ if you need help to do this change.",
                ));
            }
            if differentiable[nr] {
                t.adopt_history(&node, nr as u32).or_raise()?;
            }
        } else if differentiable[nr] {
            t.set_grad_ref(Some(GradRef::Node(node.clone())), nr as u32);
        }
    }
    Ok(WeakNode(Arc::downgrade(&node)))
}

/// A weak reference to a node, for the node's own backward.
#[pyclass(frozen)]
struct WeakNode(Weak<Node>);

/// Return the node of a weak reference, or `None` if it is gone.
#[pyfunction]
fn _node_of<'py>(py: Python<'py>, weak: &WeakNode) -> PyResult<Option<Bound<'py, PyAny>>> {
    weak.0.upgrade().map(|n| node_object(py, n)).transpose()
}

/// A tensor that `ctx` keeps, through hooks on saved tensors if there are any.
#[pyclass(frozen)]
struct SavedByFunction {
    saved: SavedTensor,
    output: Option<u32>,
}

/// Keep a tensor for backward. `output` is its number if it is an output of the node that keeps it.
#[pyfunction]
fn _save(x: &Bound<'_, PyAny>, output: Option<u32>) -> PyResult<SavedByFunction> {
    let t = tensor_in(x)?;
    let saved = if output.is_some() { SavedTensor::output(&t) } else { SavedTensor::new(t) };
    Ok(SavedByFunction { saved: saved.or_raise()?, output })
}

/// Return the kept tensor. An output gets the history of the node.
#[pyfunction]
#[pyo3(signature = (kept, node=None))]
fn _unsave<'py>(py: Python<'py>, kept: &SavedByFunction, node: Option<&WeakNode>) -> PyResult<Bound<'py, PyAny>> {
    let t = match (kept.output, node.and_then(|node| node.0.upgrade())) {
        (Some(nr), Some(node)) => kept.saved.get_output(&node, nr),
        _ => kept.saved.get(),
    };
    to_python(py, t.or_raise()?)
}

/// Count a write to a tensor, as `ctx.mark_dirty` asks.
#[pyfunction]
fn _bump_version(x: &Bound<'_, PyAny>) -> PyResult<()> {
    tensor_in(x)?.bump_version();
    Ok(())
}

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_attach_function, m)?)?;
    m.add_class::<WeakNode>()?;
    m.add_function(wrap_pyfunction!(_node_of, m)?)?;
    m.add_class::<SavedByFunction>()?;
    m.add_function(wrap_pyfunction!(_save, m)?)?;
    m.add_function(wrap_pyfunction!(_unsave, m)?)?;
    m.add_function(wrap_pyfunction!(_bump_version, m)?)?;
    Ok(())
}
