//! The backward of a `torch.autograd.Function`, as the graph calls it.

use super::kept::Kept;
use super::tensors::{optional_object, optional_tensors_in};
use crate::enter::callback_error;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::any::Any;
use torchtpu_tensor::graph::BackwardFn;
use torchtpu_tensor::op::Grads;
use torchtpu_tensor::{Result, Tensor};

pub(super) struct FunctionObjects {
    /// Gradients of the outputs in, a tuple of gradients of the inputs out.
    pub(super) run: Py<PyAny>,
    /// Called when the saved tensors may be freed.
    pub(super) release: Py<PyAny>,
    /// The user's `ctx`.
    pub(super) context: Py<PyAny>,
}

/// A backward written in Python.
pub(super) struct PythonBackward {
    pub(super) name: String,
    pub(super) objects: Kept<FunctionObjects>,
    pub(super) inputs: usize,
    /// Whether each output shares the elements of an input.
    pub(super) views: Vec<bool>,
}

impl PythonBackward {
    pub(super) fn objects(&self) -> &FunctionObjects {
        self.objects.get()
    }
}

impl BackwardFn for PythonBackward {
    fn name(&self) -> String {
        self.name.clone()
    }
    fn backward(&self, g: &[Option<Tensor>]) -> Result<Grads> {
        Python::attach(|py| {
            let g: Vec<_> = g.iter().map(|g| optional_object(py, g.clone())).collect::<PyResult<_>>()?;
            let r = self.objects().run.bind(py).call1(PyTuple::new(py, g)?)?;
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
    fn is_view_output(&self, nr: u32) -> bool {
        self.views.get(nr as usize).copied().unwrap_or(false)
    }
    fn release(&self) {
        Python::attach(|py| {
            if let Err(e) = self.objects().release.bind(py).call0() {
                e.write_unraisable(py, None);
            }
        });
    }
    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}
