//! Calls with numbers between the tensors, `x.add_(0.5, y)` and `torch.addmm(beta, x, alpha, a, b)`, which PyTorch
//! still accepts.
//!
//! They are tried only when no overload matches. The numbers become keyword arguments, and the call is matched again.
//! The rows say which functions have [such a form](Deprecated).

use crate::arguments::{Call, Interned, Overload};
use crate::enter::Outcome;
use crate::objects::plain_number;
use crate::tensor_type::{is_tensor, tensor_of};
use pyo3::ffi::*;
use std::sync::atomic::AtomicBool;
use torchtpu_tensor::schema::Deprecated;
use torchtpu_tensor::warning;

/// A call with its numbers as keyword arguments.
pub struct Rearranged {
    args: Vec<*mut PyObject>,
    positional: usize,
    names: *mut PyObject,
    receiver: *mut PyObject,
}

impl Rearranged {
    /// The call to make instead. It borrows from this one and from the call that was made.
    pub fn call(&self) -> Call {
        Call { receiver: self.receiver, args: self.args.as_ptr(), positional: self.positional, names: self.names }
    }
}

impl Drop for Rearranged {
    fn drop(&mut self) {
        // SAFETY: a new reference, made in `rearranged`.
        unsafe { Py_DECREF(self.names) }
    }
}

/// Return whether an object is a number here. A tensor without dimensions that needs no gradient is one too.
unsafe fn is_number(o: *mut PyObject) -> bool {
    // SAFETY: all callers pass an object of the call.
    unsafe {
        match is_tensor(o) {
            true => tensor_of(o).dims().is_empty() && !tensor_of(o).requires_grad(),
            false => plain_number(o).is_some(),
        }
    }
}

/// Rewrite a call in the deprecated `form` into the current one. Return `None` if the call is not in that form.
///
/// # Safety
/// The objects of the call are alive.
pub unsafe fn rearranged(form: Deprecated, call: &Call) -> Option<Rearranged> {
    // SAFETY: the caller holds the objects of the call. Values of keywords follow the positional arguments.
    unsafe {
        let given: Vec<*mut PyObject> = (0..call.positional).map(|i| *call.args.add(i)).collect();
        let own = usize::from(!call.receiver.is_null());
        let number_at = |i: usize| given.get(i).is_some_and(|o| is_number(*o));
        let (mut taken, mut keywords): (Vec<usize>, Vec<&str>) = (Vec::new(), Vec::new());
        match form {
            Deprecated::AfterFirst(keyword) => {
                let at = 1 - own;
                if !number_at(at) {
                    return None;
                }
                taken.push(at);
                keywords.push(keyword);
            }
            Deprecated::Products => {
                if !number_at(0) {
                    return None;
                }
                taken.push(0);
                keywords.push("beta");
                let at = 2 - own;
                if given.len() > at + 2 && number_at(at) {
                    taken.push(at);
                    keywords.push("alpha");
                }
            }
        }
        let mut args: Vec<*mut PyObject> =
            given.iter().enumerate().filter(|(i, _)| !taken.contains(i)).map(|(_, o)| *o).collect();
        let positional = args.len();
        args.extend(taken.iter().map(|i| given[*i]));
        let old = if call.names.is_null() { 0 } else { PyTuple_Size(call.names) };
        let names = PyTuple_New(keywords.len() as Py_ssize_t + old);
        if names.is_null() {
            PyErr_Clear();
            return None;
        }
        for (i, k) in keywords.iter().enumerate() {
            PyTuple_SetItem(names, i as Py_ssize_t, Interned::new(k).0);
        }
        for i in 0..old {
            let k = PyTuple_GetItem(call.names, i);
            Py_INCREF(k);
            PyTuple_SetItem(names, keywords.len() as Py_ssize_t + i, k);
            args.push(*call.args.add(call.positional + i as usize));
        }
        Some(Rearranged { args, positional, names, receiver: call.receiver })
    }
}

/// Warn, once in a process, that a form with numbers between the tensors is deprecated.
pub fn warn(name: &str, form: Deprecated, call: &Rearranged, overload: &Overload) -> Outcome<()> {
    static WARNED: AtomicBool = AtomicBool::new(false);
    let method = !call.receiver.is_null();
    let mut shown: Vec<String> = Vec::new();
    let own = (!method).then(|| "Tensor input".to_string());
    match form {
        Deprecated::AfterFirst(keyword) => shown.extend(own.into_iter().chain([format!("Number {keyword}")])),
        Deprecated::Products => {
            shown.extend(["Number beta".to_string()].into_iter().chain(own));
            if call.args.len() > call.positional + 1 {
                shown.push("Number alpha".into());
            }
        }
    }
    shown.extend(overload.tensors_after_first().map(|t| format!("Tensor {t}")));
    if !method {
        shown.extend(["*".to_string(), "Tensor out = None".to_string()]);
    }
    let text = format!(
        "This overload of {name} is deprecated:\n\t{name}({})\n\
        Consider using one of the following signatures instead:\n\t{name}{}",
        shown.join(", "),
        overload.signature(method)
    );
    Ok(warning::once(&WARNED, &text)?)
}
