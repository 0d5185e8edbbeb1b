//! Python's garbage collector: the slots of `Tensor` that it calls, and pauses.

use crate::tensor_type::{dict_of, slot, take_dict, tensor_if_set};
use crate::{autograd, enter};
use pyo3::ffi::*;
use pyo3::prelude::*;
use std::ffi::{c_int, c_void};

unsafe extern "C" fn traverse(o: *mut PyObject, visit: visitproc, arg: *mut c_void) -> c_int {
    // SAFETY: the collector passes a living object of our type, and `arg` belongs to `visit`.
    unsafe {
        let dict = dict_of(o);
        if !dict.is_null() {
            let r = visit(dict, arg);
            if r != 0 {
                return r;
            }
        }
        if let Some(t) = tensor_if_set(o) {
            let r = enter::quietly(0, || autograd::traverse(t, &mut |object| visit(object, arg)));
            if r != 0 {
                return r;
            }
        }
        visit(Py_TYPE(o).cast(), arg)
    }
}

unsafe extern "C" fn clear(o: *mut PyObject) -> c_int {
    // SAFETY: the collector passes a living object of our type. This function owns the dictionary that it takes.
    unsafe {
        let dict = take_dict(o);
        if let Some(t) = tensor_if_set(o) {
            enter::unraisable(|| autograd::clear(t));
        }
        if !dict.is_null() {
            Py_DECREF(dict);
        }
    }
    0
}

/// A pause of the collector, until it is dropped.
pub struct Pause {
    was_on: bool,
}

impl Pause {
    /// Pause the collector.
    pub fn new(_py: Python<'_>) -> Pause {
        // SAFETY: the GIL is held.
        Pause { was_on: unsafe { PyGC_Disable() } != 0 }
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        if self.was_on {
            // SAFETY: the GIL is held, since the value was made with it and stays in one function.
            unsafe { PyGC_Enable() };
        }
    }
}

pub(crate) fn slots() -> [PyType_Slot; 2] {
    [slot(Py_tp_traverse, traverse as *const c_void), slot(Py_tp_clear, clear as *const c_void)]
}
