//! The entry from Python into Rust: panics, errors, the GIL.

use pyo3::exceptions::*;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use torchtpu_tensor::{Error, ErrorKind};

pyo3::create_exception!(torch, OutOfMemoryError, PyRuntimeError, "Memory for a tensor could not be had.");
pyo3::create_exception!(
    torch._C,
    _LinAlgError,
    PyRuntimeError,
    "A matrix is singular, or not positive, or iterations did not converge."
);
pyo3::create_exception!(torch.distributed, DistError, PyRuntimeError, "Several processes failed to work together.");
pyo3::create_exception!(torch.distributed, DistBackendError, DistError, "A collective failed.");
pyo3::create_exception!(torch.distributed, DistNetworkError, DistError, "A connection to another process failed.");
pyo3::create_exception!(
    torch.distributed,
    DistStoreError,
    DistError,
    "A key-value store failed, or a wait for a key took too long."
);
pyo3::create_exception!(torch.distributed, QueueEmptyError, DistStoreError, "A queue of a store is empty.");

/// The reason why a call has no result. One word in size.
pub enum Failure {
    /// An error of the library.
    Error(Error),
    /// The Python exception is set already.
    Raised,
}

/// Result of a function that Python calls.
pub type Outcome<T = *mut PyObject> = Result<T, Failure>;

impl From<Error> for Failure {
    #[inline]
    fn from(e: Error) -> Failure {
        Failure::Error(e)
    }
}
impl From<PyErr> for Failure {
    #[cold]
    fn from(e: PyErr) -> Failure {
        Python::attach(|py| e.restore(py));
        Failure::Raised
    }
}

/// Return the exception for an error.
#[cold]
pub fn exception(mut e: Error) -> PyErr {
    if let Some(payload) = e.take_payload()
        && let Ok(raised) = payload.downcast::<PyErr>()
    {
        return *raised;
    }
    let text = e.to_string();
    match e.kind() {
        ErrorKind::Runtime | ErrorKind::Callback => PyRuntimeError::new_err(text),
        ErrorKind::Type => PyTypeError::new_err(text),
        ErrorKind::Value => PyValueError::new_err(text),
        ErrorKind::Index => PyIndexError::new_err(text),
        ErrorKind::NotImplemented => PyNotImplementedError::new_err(text),
        ErrorKind::Buffer => PyBufferError::new_err(text),
        ErrorKind::OutOfMemory => OutOfMemoryError::new_err(text),
        ErrorKind::LinAlg => _LinAlgError::new_err(text),
        ErrorKind::Dist => DistError::new_err(text),
        ErrorKind::DistBackend => DistBackendError::new_err(text),
        ErrorKind::DistNetwork => DistNetworkError::new_err(text),
        ErrorKind::DistStore => DistStoreError::new_err(text),
        ErrorKind::DistQueueEmpty => QueueEmptyError::new_err(text),
        ErrorKind::Key => PyKeyError::new_err(text),
        ErrorKind::Attribute => PyAttributeError::new_err(text),
        ErrorKind::Interrupted => PyKeyboardInterrupt::new_err(text),
        ErrorKind::Assertion => PyAssertionError::new_err(text),
        ErrorKind::DataDependent => of_fake("_raise", &["value", &text]),
        ErrorKind::DynamicShape => of_fake("_raise", &["size", &text]),
        ErrorKind::FakeDevices => of_fake("_raise_devices", &[&text]),
    }
}

/// Return the exception that a function of `torch._subclasses.fake_tensor` raises for these texts.
#[cold]
fn of_fake(function: &str, texts: &[&str]) -> PyErr {
    Python::attach(|py| {
        let raise = || py.import("pytpu._subclasses.fake_tensor")?.getattr(function)?.call1(PyTuple::new(py, texts)?);
        raise().err().unwrap_or_else(|| PyRuntimeError::new_err("the function must raise"))
    })
}

/// Return the exception for a failure. An exception that is set is cleared.
#[cold]
pub fn take(py: Python<'_>, f: Failure) -> PyErr {
    match f {
        Failure::Error(e) => exception(e),
        Failure::Raised => PyErr::fetch(py),
    }
}

/// Conversion of results for functions of PyO3.
pub trait OrRaise<T> {
    /// The value, or the Python exception.
    fn or_raise(self) -> PyResult<T>;
}
impl<T> OrRaise<T> for torchtpu_tensor::Result<T> {
    #[inline]
    fn or_raise(self) -> PyResult<T> {
        self.map_err(exception)
    }
}
impl<T> OrRaise<T> for Outcome<T> {
    #[inline]
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|f| Python::attach(|py| take(py, f)))
    }
}

/// Show a library's warning as a `UserWarning`.
fn warn(text: &str) -> torchtpu_tensor::Result<()> {
    Python::attach(|py| {
        let text = CString::new(text).unwrap_or_default();
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1).map_err(callback_error)
    })
}

/// Carry a Python exception through library code that does not know Python.
pub fn callback_error(e: PyErr) -> Error {
    Error::new(ErrorKind::Callback, e.to_string()).with_payload(Box::new(e))
}

#[cold]
#[inline(never)]
fn raise(f: Failure) {
    if let Failure::Error(e) = f {
        Python::attach(|py| exception(e).restore(py));
    }
}

#[cold]
#[inline(never)]
fn raise_panic(payload: Box<dyn std::any::Any + Send>) {
    let e = panic_error(&*payload);
    Python::attach(|py| e.restore(py));
}

/// Return the exception for a panic: out of memory, or a bug of this library.
#[cold]
fn panic_error(payload: &(dyn std::any::Any + Send)) -> PyErr {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(s), _) => error_of_panic(s),
        (_, Some(s)) => error_of_panic(s),
        _ => error_of_panic("no message"),
    }
}

#[cold]
fn error_of_panic(text: &str) -> PyErr {
    if text.starts_with(torchtpu_kernels::memory::NO_MEMORY) {
        return OutOfMemoryError::new_err(text.to_string());
    }
    if text.starts_with(torchtpu_tensor::block::OTHER_DEVICE) {
        return PyRuntimeError::new_err(text.to_string());
    }
    PyRuntimeError::new_err(format!("internal error, please report it: {text}"))
}

/// The replacement of PyO3's `PanicException`: calling it makes an exception of the kinds above. So a panic in a
/// function or a class of PyO3 reaches Python as in any other entry, and `except Exception` catches it.
#[pyfunction]
#[pyo3(signature = (_class, *args))]
fn _exception_for_panic<'py>(_class: &Bound<'py, PyAny>, args: &Bound<'py, PyTuple>) -> Bound<'py, PyAny> {
    let given = args.get_item(0);
    // CPython calls the class again, with the exception that it made, if that is of another class.
    if let Ok(made) = &given
        && made.is_instance_of::<PyBaseException>()
    {
        return made.clone();
    }
    let text = given.and_then(|t| t.extract::<String>()).unwrap_or_else(|_| "no message".into());
    error_of_panic(&text).into_value(args.py()).into_bound(args.py()).into_any()
}

/// Run code without a caller that could get an exception, such as a destructor. A panic goes to `sys.unraisablehook`.
#[inline(never)]
pub fn unraisable(f: impl FnOnce()) {
    if let Err(p) = catch_unwind(AssertUnwindSafe(f)) {
        let e = panic_error(&*p);
        Python::attach(|py| {
            let before = PyErr::take(py);
            e.write_unraisable(py, None);
            if let Some(before) = before {
                before.restore(py);
            }
        });
    }
}

/// Run code that must not report a panic, because a garbage collection is running. Return `otherwise` after a panic.
#[inline(never)]
pub fn quietly<R>(otherwise: R, f: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or(otherwise)
}

/// Run the body of a function that returns an object to Python.
#[inline(always)]
pub fn object(f: impl FnOnce() -> Outcome) -> *mut PyObject {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(o)) => o,
        Ok(Err(e)) => {
            raise(e);
            null_mut()
        }
        Err(p) => {
            raise_panic(p);
            null_mut()
        }
    }
}

/// Run the body of a function that returns a status or a number to Python. -1 means an exception.
#[inline(always)]
pub fn status<N: From<i8>>(f: impl FnOnce() -> Outcome<N>) -> N {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(n)) => n,
        Ok(Err(e)) => {
            raise(e);
            N::from(-1)
        }
        Err(p) => {
            raise_panic(p);
            N::from(-1)
        }
    }
}

/// Number of elements of all operands from which the GIL is released: about 50 microseconds of simple work.
pub const BIG: usize = 1 << 18;

struct Ungil<T>(T);
// SAFETY: the closure runs on the thread that made it, and the callers of `without_gil` promise that it touches no
// Python object.
unsafe impl<T> Send for Ungil<T> {}

/// Run `f` without the GIL. `f` must touch no Python object except through `Python::attach`.
#[inline(never)]
pub fn without_gil<R>(f: impl FnOnce() -> R) -> R {
    let f = Ungil(f);
    // SAFETY: every caller was entered from the interpreter and holds the GIL.
    let py = unsafe { Python::assume_attached() };
    py.detach(move || {
        let f = f;
        Ungil((f.0)())
    })
    .0
}

/// Run `f`, without the GIL if the work is big. `f` works on handles of its own, not on those in Python objects.
#[inline(always)]
pub fn work<R>(elements: usize, f: impl FnOnce() -> R) -> R {
    if elements < BIG { f() } else { without_gil(f) }
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    torchtpu_tensor::warning::install(warn);
    let panics = m.py().get_type::<pyo3::panic::PanicException>();
    panics.setattr("__new__", wrap_pyfunction!(_exception_for_panic, m)?)?;
    m.add("_LinAlgError", m.py().get_type::<_LinAlgError>())?;
    m.add("OutOfMemoryError", m.py().get_type::<OutOfMemoryError>())
}
