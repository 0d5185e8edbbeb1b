//! Arguments of methods that are written by hand and have no schema.

use crate::enter::Outcome;
use crate::objects::string;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::*;
use std::ptr::null_mut;

/// Return the arguments of a hand-written method in the order of its parameters. Absent arguments and `None` are null.
///
/// # Safety
/// `args`, `positional` and `names` are what the interpreter passes to a `METH_FASTCALL | METH_KEYWORDS` function.
pub unsafe fn arrange<const N: usize>(
    function: &str,
    params: [&str; N],
    args: *const *mut PyObject,
    positional: Py_ssize_t,
    names: *mut PyObject,
) -> Outcome<[*mut PyObject; N]> {
    let mut given = [null_mut(); N];
    let n = positional as usize;
    if n > N {
        return Err(PyTypeError::new_err(format!(
            "{function}() takes at most {N} positional arguments but {n} were given"
        ))
        .into());
    }
    // SAFETY: `args` holds `positional` objects, and then one for each name in `names`.
    unsafe {
        for (i, g) in given.iter_mut().enumerate().take(n) {
            *g = *args.add(i);
        }
        let keywords = if names.is_null() { 0 } else { PyTuple_Size(names) };
        for k in 0..keywords {
            let name = string(PyTuple_GetItem(names, k)).unwrap_or("?");
            let Some(at) = params.iter().position(|p| *p == name) else {
                return Err(
                    PyTypeError::new_err(format!("{function}() got an unexpected keyword argument '{name}'")).into()
                );
            };
            if !given[at].is_null() {
                return Err(
                    PyTypeError::new_err(format!("{function}() got multiple values for argument '{name}'")).into()
                );
            }
            given[at] = *args.add(n + k as usize);
        }
        for g in &mut given {
            if *g == Py_None() {
                *g = null_mut();
            }
        }
    }
    Ok(given)
}
