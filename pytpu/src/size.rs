//! `torch.Size`. Python defines it as a subclass of `tuple`, and this file makes the objects.

use pyo3::ffi::*;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

static TYPE: AtomicPtr<PyTypeObject> = AtomicPtr::new(null_mut());

/// Make a `torch.Size`. A new reference.
pub fn new(dims: &[usize]) -> *mut PyObject {
    let ty = TYPE.load(Relaxed);
    // SAFETY: the GIL is held. A new tuple, of a subclass that adds no fields, is filled before other code sees it.
    unsafe {
        let o = if ty.is_null() {
            PyTuple_New(dims.len() as Py_ssize_t)
        } else {
            PyType_GenericAlloc(ty, dims.len() as Py_ssize_t)
        };
        if o.is_null() {
            return o;
        }
        for (i, d) in dims.iter().enumerate() {
            let n = PyLong_FromSize_t(*d);
            if n.is_null() {
                Py_DECREF(o);
                return n;
            }
            PyTuple_SetItem(o, i as Py_ssize_t, n);
        }
        o
    }
}

/// Set the class of sizes, `torch.Size`.
#[pyfunction]
fn _set_size_type(ty: Bound<'_, PyType>) {
    TYPE.store(ty.into_ptr().cast(), Relaxed);
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_set_size_type, m)?)
}
