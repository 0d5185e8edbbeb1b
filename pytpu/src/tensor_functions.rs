//! Functions of the package that read or replace the layout of a tensor.

use crate::dtype;
use crate::enter::OrRaise;
use crate::tensor_type::{extract, replace, to_python};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use torchtpu_tensor::GradRef;

/// Return whether an object is a tensor.
#[pyfunction]
#[pyo3(name = "is_tensor")]
fn is_tensor_object(obj: &Bound<'_, PyAny>) -> bool {
    extract(obj).is_some()
}

/// Put the tensor of `value`, with its history, into the object `target`, for methods such as `target.unsqueeze_(0)`.
#[pyfunction]
fn _swap_tensor(target: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let (Some(x), Some(v)) = (extract(target), extract(value)) else {
        return Err(PyTypeError::new_err("expected two Tensors"));
    };
    // A view stays a view of the same base.
    let new = if x.is_view() && v.is_view() { v.same_view().or_raise()? } else { v.detach() };
    match v.history().or_raise()? {
        Some(GradRef::Node(n)) => {
            // A gradient that the tensor keeps is from now on that of the new node.
            x.move_grad_slots(Some(&n), v.output_nr());
            new.set_grad_ref(Some(GradRef::Node(n)), v.output_nr());
        }
        _ => new.take_over(x).or_raise()?,
    }
    // SAFETY: `target` is a tensor object, and no reference to its tensor is in use.
    unsafe { replace(target.as_ptr(), new) };
    Ok(())
}

/// Return the strides of a tensor of these sizes in a memory format.
#[pyfunction]
fn _format_strides(size: Vec<usize>, format: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    // SAFETY: `format` is an object.
    let format = unsafe { dtype::memory_format(format.as_ptr()) }
        .ok_or_else(|| PyTypeError::new_err("memory_format must be a torch.memory_format"))?;
    let dims = torchtpu_tensor::Dims::try_new(&size).or_raise()?;
    Ok(format.strides(&dims).or_raise()?.to_vec())
}

/// Return whether the elements fill a range of memory, each position once.
#[pyfunction]
fn _is_dense(t: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(extract(t).ok_or_else(|| PyTypeError::new_err("expected a Tensor"))?.is_dense())
}

/// Return the name of the memory format that a tensor's strides suggest.
#[pyfunction]
fn _suggested_format(t: &Bound<'_, PyAny>) -> PyResult<&'static str> {
    let x = extract(t).ok_or_else(|| PyTypeError::new_err("expected a Tensor"))?;
    Ok(x.suggested_format().name())
}

/// Return a tensor with this layout on the storage of another one. `torch.load` rebuilds tensors with it.
#[pyfunction]
fn _strided<'py>(
    storage: &Bound<'py, PyAny>,
    offset: i64,
    size: Vec<i64>,
    stride: Vec<i64>,
) -> PyResult<Bound<'py, PyAny>> {
    let t = extract(storage).ok_or_else(|| PyTypeError::new_err("expected a Tensor"))?;
    let y = torchtpu_tensor::no_grad(|| t.as_strided(&size, &stride, Some(offset))).or_raise()?;
    to_python(storage.py(), y.detach())
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(is_tensor_object, m)?)?;
    m.add_function(wrap_pyfunction!(_swap_tensor, m)?)?;
    m.add_function(wrap_pyfunction!(_strided, m)?)?;
    m.add_function(wrap_pyfunction!(_format_strides, m)?)?;
    m.add_function(wrap_pyfunction!(_suggested_format, m)?)?;
    m.add_function(wrap_pyfunction!(_is_dense, m)?)?;
    Ok(())
}
