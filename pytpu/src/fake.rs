//! Fake tensors and their mode, for `torch._subclasses.fake_tensor`.

use crate::enter::OrRaise;
use crate::tensor_type;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use torchtpu_tensor::Tensor;
use torchtpu_tensor::fake::{self, Mode};

/// Set the mode of fake tensors: whether other tensors may be operands beside fake ones, or ``None`` to leave it.
/// Return the mode before.
#[pyfunction]
#[pyo3(signature = (allows_others))]
fn _set_fake_mode(allows_others: Option<bool>) -> Option<bool> {
    fake::set_mode(allows_others.map(|allows_dense| Mode { allows_dense })).map(|m| m.allows_dense)
}

fn tensor<'a>(x: &'a Bound<'_, PyAny>) -> PyResult<&'a Tensor> {
    tensor_type::extract(x).ok_or_else(|| PyTypeError::new_err("expected a Tensor"))
}

/// Return whether a tensor is fake.
#[pyfunction]
fn _is_fake(x: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(fake::is_fake(tensor(x)?))
}

/// Return the fake tensor with the sizes, strides, offset, dtype and device of a tensor.
#[pyfunction]
fn _fake_of<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    tensor_type::to_python(x.py(), fake::of(tensor(x)?).or_raise()?)
}

/// Return whether the elements of a tensor are in host memory, at its `data_ptr`.
#[pyfunction]
fn _in_memory(x: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(tensor(x)?.place().in_memory())
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_set_fake_mode, m)?)?;
    m.add_function(wrap_pyfunction!(_is_fake, m)?)?;
    m.add_function(wrap_pyfunction!(_fake_of, m)?)?;
    m.add_function(wrap_pyfunction!(_in_memory, m)?)
}
