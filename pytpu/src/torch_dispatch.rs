//! `__torch_dispatch__`: modes below autograd, and classes of tensors that compute by themselves.
//!
//! A call reaches them at one of two places. A row of the op table is offered by its name and with the user's
//! arguments ([`rows::serve`]). An op that Rust calls by itself, such as a part of a gradient formula, is offered as
//! the aten call that computes it ([`torchtpu_tensor::ops::aten`]). In both cases the Python side chooses who answers
//! (`_torch_dispatch.py`).
//!
//! An object of a class with `__torch_dispatch__` holds a [foreign] tensor. The value behind
//! its handle is the class and the attributes of the object, so that a tensor which only Rust has kept, such as one
//! saved for backward, gives an object with the same attributes.

pub mod ops;
mod parts;
pub mod rows;
pub mod values;

use crate::enter::{self, Failure, Outcome};
use crate::objects;
use crate::tensor_type::{self, extract, tensor_of, to_python};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi::*;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::cell::{Cell, RefCell};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use torchtpu_tensor::{Error, Scalar, Tensor, foreign};

/// Modes in all threads, and one more once there was a foreign tensor. While it is 0, calls pay one load.
static REASONS: AtomicUsize = AtomicUsize::new(0);

/// Whether `torch.library` has put kernels in the places of aten's.
static IS_OVERRIDDEN: AtomicBool = AtomicBool::new(false);

/// The functions of `_torch_dispatch.py`: the answers to calls of rows, of ops, and of operators.
static ANSWERS: OnceLock<[Py<PyAny>; 3]> = OnceLock::new();

thread_local! {
    /// The modes that this thread has entered, with the innermost last.
    static MODES: RefCell<Vec<Py<PyAny>>> = const { RefCell::new(Vec::new()) };
    /// Whether no call of this thread is offered to anyone.
    static DISABLED: Cell<bool> = const { Cell::new(false) };
}

fn watch(on: bool) {
    let before = if on { REASONS.fetch_add(1, Relaxed) } else { REASONS.fetch_sub(1, Relaxed) };
    foreign::watch(on);
    let is_first_or_last = before == usize::from(!on);
    if is_first_or_last {
        tensor_type::note_dispatch(on);
    }
}

/// Return whether a thread has a mode, or there was a foreign tensor.
#[inline(always)]
pub fn is_watched() -> bool {
    REASONS.load(Relaxed) != 0
}

fn has_mode() -> bool {
    !DISABLED.get() && MODES.with_borrow(|m| !m.is_empty())
}

/// Return whether a call on `o` is offered to a mode, or to its class.
///
/// # Safety
/// `o` is an object; the GIL is held.
#[inline]
pub unsafe fn takes_over(o: *mut PyObject) -> bool {
    // SAFETY: `o` is an object, and the GIL is held.
    let is_answered =
        || unsafe { tensor_type::is_tensor(o) && (IS_OVERRIDDEN.load(Relaxed) || foreign::is_foreign(tensor_of(o))) };
    is_watched() && !DISABLED.get() && (has_mode() || is_answered())
}

/// Return the tensors of an answer.
fn results(y: &Bound<'_, PyAny>) -> PyResult<Vec<Tensor>> {
    if let Some(t) = extract(y) {
        return Ok(vec![t.clone()]);
    }
    if y.is_instance_of::<PyTuple>() || y.is_instance_of::<PyList>() {
        let items = y.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        if let Some(found) = items.iter().map(|t| extract(t).cloned()).collect::<Option<Vec<_>>>() {
            return Ok(found);
        }
    }
    Err(PyTypeError::new_err(format!(
        "Unable to cast Python instance of type {} to C++ type 'at::Tensor'",
        y.get_type()
    )))
}

/// Offer an operator, or an index.
///
/// # Errors
/// Those of the code that answers.
#[cold]
pub fn operator(name: &str, operands: &[*mut PyObject]) -> Outcome {
    Python::attach(|py| {
        let [_, _, operators] = answers()?;
        // SAFETY: the caller holds the objects.
        let operands = operands.iter().map(|o| unsafe { Bound::<PyAny>::from_borrowed_ptr(py, *o) });
        let args = PyTuple::new(py, operands.collect::<Vec<_>>())?;
        Ok(operators.bind(py).call1((name, args))?.into_ptr())
    })
}

/// Offer the reading of the only element of a tensor. `None` if it is read as always.
///
/// # Errors
/// Those of the code that answers.
#[cold]
pub fn item(x: &Tensor) -> Outcome<Option<Scalar>> {
    if DISABLED.get() || !(has_mode() || foreign::is_foreign(x)) {
        return Ok(None);
    }
    Python::attach(|py| {
        let [_, _, operators] = answers()?;
        let args = PyTuple::new(py, [to_python(py, x.clone())?])?;
        let y = operators.bind(py).call1(("number", args))?;
        // SAFETY: the `Bound` keeps the object alive.
        let number = unsafe { objects::number(y.as_ptr()) };
        number.map(Some).ok_or_else(|| {
            PyTypeError::new_err(format!("_local_scalar_dense must return a number, not {}", y.get_type())).into()
        })
    })
}

/// Run `f` while no mode and no class gets calls. Code that shows the elements of a tensor needs this.
pub fn unseen<R>(f: impl FnOnce() -> R) -> R {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            DISABLED.set(self.0);
        }
    }
    let _before = Before(DISABLED.replace(true));
    f()
}

/// Offer a tensor that was made of a user's numbers.
///
/// # Errors
/// Those of the code that answers.
#[cold]
pub fn made(y: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    if !has_mode() {
        return Ok(y);
    }
    let py = y.py();
    let [_, _, operators] = answers().map_err(|f| enter::take(py, f))?;
    operators.bind(py).call1(("tensor", PyTuple::new(py, [y])?))
}

/// The functions that answer calls.
fn answers() -> Outcome<&'static [Py<PyAny>; 3]> {
    match ANSWERS.get() {
        Some(answers) => Ok(answers),
        None => Err(PyRuntimeError::new_err("torch.utils._python_dispatch is not loaded").into()),
    }
}

/// Return an error of this library for one of a call from it.
fn library_error(f: Failure) -> Error {
    match f {
        Failure::Error(e) => e,
        f => Python::attach(|py| enter::callback_error(enter::take(py, f))),
    }
}

/// Set the functions that answer calls of rows, of ops, and of operators.
#[pyfunction]
fn _set_dispatch_answers(rows: Py<PyAny>, ops: Py<PyAny>, operators: Py<PyAny>) {
    let _ = ANSWERS.set([rows, ops, operators]);
}

/// Make a mode the innermost of the thread.
#[pyfunction]
fn _push_torch_dispatch_mode(mode: Py<PyAny>) {
    MODES.with_borrow_mut(|m| m.push(mode));
    watch(true);
}

/// Leave the innermost mode of the thread, and return it.
#[pyfunction]
fn _pop_torch_dispatch_mode() -> Option<Py<PyAny>> {
    let mode = MODES.with_borrow_mut(Vec::pop)?;
    watch(false);
    Some(mode)
}

/// Return the modes of the thread, with the innermost last.
#[pyfunction]
fn _torch_dispatch_modes(py: Python<'_>) -> Vec<Py<PyAny>> {
    MODES.with_borrow(|m| m.iter().map(|m| m.clone_ref(py)).collect())
}

/// The value "calls are not answered": the `__torch_dispatch__` of `Tensor`. Call the operator.
#[pyfunction]
#[pyo3(signature = (func, types, args = None, kwargs = None))]
fn _disabled_torch_dispatch_impl<'py>(
    func: &Bound<'py, PyAny>,
    types: &Bound<'py, PyAny>,
    args: Option<&Bound<'py, PyTuple>>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _ = types;
    unseen(|| func.call(args.unwrap_or(&PyTuple::empty(func.py())), kwargs))
}

/// Set whether `torch.library` has put kernels in the places of aten's.
#[pyfunction]
fn _set_dispatch_overridden(on: bool) {
    if IS_OVERRIDDEN.swap(on, Relaxed) != on {
        watch(on);
    }
}

/// Set whether calls of this thread are offered to nobody, and return the setting before.
#[pyfunction]
fn _set_torch_dispatch_disabled(on: bool) -> bool {
    DISABLED.replace(on)
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_disabled_torch_dispatch_impl, m)?)?;
    m.add_function(wrap_pyfunction!(_set_dispatch_answers, m)?)?;
    m.add_function(wrap_pyfunction!(_push_torch_dispatch_mode, m)?)?;
    m.add_function(wrap_pyfunction!(_pop_torch_dispatch_mode, m)?)?;
    m.add_function(wrap_pyfunction!(_torch_dispatch_modes, m)?)?;
    m.add_function(wrap_pyfunction!(_set_dispatch_overridden, m)?)?;
    m.add_function(wrap_pyfunction!(_set_torch_dispatch_disabled, m)?)?;
    Ok(())
}
