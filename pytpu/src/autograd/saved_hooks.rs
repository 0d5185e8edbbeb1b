//! Hooks on saved tensors.

use super::kept::Kept;
use super::tensors::{tensor_in, tensors_in};
use crate::enter::{OrRaise, callback_error};
use crate::tensor_type::{extract, to_python};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::sync::Arc;
use torchtpu_tensor::remade::Remade;
use torchtpu_tensor::saved::{self, Packed, SavedTensorHooks};
use torchtpu_tensor::{Result, Tensor};

/// The user's two functions.
struct PythonHooks(Kept<(Py<PyAny>, Py<PyAny>)>);

impl SavedTensorHooks for PythonHooks {
    fn pack(&self, x: &Tensor) -> Result<Packed> {
        Python::attach(|py| {
            let kept = self.0.get().0.bind(py).call1((to_python(py, x.clone())?,))?;
            Ok(Box::new(Kept::new(kept.unbind())) as Packed)
        })
        .map_err(callback_error)
    }
    fn unpack(&self, kept: &Packed) -> Result<Tensor> {
        Python::attach(|py| {
            let kept = kept.downcast_ref::<Kept<Py<PyAny>>>().expect("made by pack").get();
            let t = self.0.get().1.bind(py).call1((kept,))?;
            match extract(&t) {
                Some(t) => Ok(t.clone()),
                None => Err(PyTypeError::new_err(format!(
                    "Output of saved tensor unpack_hook expected to be a Tensor but got result of type {}",
                    t.get_type().name()?
                ))),
            }
        })
        .map_err(callback_error)
    }
}

/// Have `pack` and `unpack` called for tensors that this thread saves for backward from now on.
#[pyfunction]
fn _push_saved_tensors_hooks(pack: Py<PyAny>, unpack: Py<PyAny>) -> PyResult<()> {
    saved::push_hooks(Arc::new(PythonHooks(Kept::new((pack, unpack))))).or_raise()
}

/// Remove the hooks that were pushed last.
#[pyfunction]
fn _pop_saved_tensors_hooks() {
    saved::pop_hooks();
}

/// Forbid hooks, with the reason for the error, or allow them. Return the previous setting.
#[pyfunction]
fn _disable_saved_tensors_hooks(why: Option<String>) -> PyResult<Option<String>> {
    saved::disable_hooks(why).or_raise()
}

/// Hooks that keep the numbers of some tensors in place of the tensors, and make them again in backward.
#[pyclass(frozen, name = "_Remade", module = "torch._C")]
struct PyRemade(Arc<Remade>);

#[pymethods]
impl PyRemade {
    /// Put hooks in force on this thread. ``make(i)`` returns a tensor with the elements of tensor ``i``.
    #[new]
    fn new(tensors: &Bound<'_, PyAny>, make: Py<PyAny>) -> PyResult<PyRemade> {
        let make = Kept::new(make);
        let again =
            move |i: usize| Python::attach(|py| tensor_in(&make.get().bind(py).call1((i,))?)).map_err(callback_error);
        let hooks = Arc::new(Remade::new(tensors_in(tensors)?, again));
        saved::push_hooks(hooks.clone()).or_raise()?;
        Ok(PyRemade(hooks))
    }

    /// Remove the hooks, which were pushed last, and forget the tensors.
    fn pop(&self) {
        saved::pop_hooks();
        self.0.forget();
    }
}

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyRemade>()?;
    m.add_function(wrap_pyfunction!(_push_saved_tensors_hooks, m)?)?;
    m.add_function(wrap_pyfunction!(_pop_saved_tensors_hooks, m)?)?;
    m.add_function(wrap_pyfunction!(_disable_saved_tensors_hooks, m)?)?;
    Ok(())
}
