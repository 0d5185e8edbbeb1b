//! Tensors in arguments and results of Python functions.

use crate::tensor_type::{extract, to_python};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use torchtpu_tensor::Tensor;

pub(super) fn tensor_in(o: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    match extract(o) {
        Some(t) => Ok(t.clone()),
        None => Err(PyTypeError::new_err(format!("expected a Tensor, but got {}", o.get_type().name()?))),
    }
}

pub(super) fn tensors_in(o: &Bound<'_, PyAny>) -> PyResult<Vec<Tensor>> {
    o.try_iter()?.map(|t| tensor_in(&t?)).collect()
}

pub(super) fn optional_tensors_in(o: &Bound<'_, PyAny>) -> PyResult<Vec<Option<Tensor>>> {
    o.try_iter()?.map(|t| t.and_then(|t| if t.is_none() { Ok(None) } else { tensor_in(&t).map(Some) })).collect()
}

pub(super) fn optional_object<'py>(py: Python<'py>, t: Option<Tensor>) -> PyResult<Bound<'py, PyAny>> {
    t.map_or_else(|| Ok(py.None().into_bound(py)), |t| to_python(py, t))
}
