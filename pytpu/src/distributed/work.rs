//! `torch.distributed.Work`: a collective or message in flight.

use crate::enter::{self, OrRaise};
use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use torchtpu_distributed::Work;
use torchtpu_tensor::Error;

/// A collective or message in flight, which asynchronous calls return.
///
/// Classes that inherit from it override ``wait`` and whatever else their users call.
#[pyclass(frozen, subclass, name = "Work", module = "torch.distributed")]
pub(super) struct PyWork {
    /// `None` in a class of Python's.
    work: Option<Work>,
    /// The tensors that are written.
    result: Py<PyAny>,
    /// The future, once it was asked for.
    future: Mutex<Option<Py<PyAny>>>,
}

impl PyWork {
    pub(super) fn make(py: Python<'_>, work: Work, result: Py<PyAny>) -> PyResult<Bound<'_, PyWork>> {
        Bound::new(py, PyWork { work: Some(work), result, future: Mutex::new(None) })
    }

    fn work(&self) -> PyResult<&Work> {
        self.work.as_ref().ok_or_else(|| enter::exception(Error::not_implemented("Not implemented.")))
    }
}

/// Set a future when its work ends.
fn complete(future: &Py<PyAny>, result: &Py<PyAny>, error: Option<Error>) {
    // While the interpreter ends nothing waits for the future.
    Python::try_attach(|py| {
        let set = match error {
            None => future.call_method1(py, "set_result", (result,)),
            Some(error) => future.call_method1(py, "set_exception", (enter::exception(error).into_value(py),)),
        };
        if let Err(e) = set {
            e.write_unraisable(py, Some(future.bind(py)));
        }
    });
}

#[pymethods]
impl PyWork {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(py: Python<'_>, _args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> PyWork {
        PyWork { work: None, result: py.None(), future: Mutex::new(None) }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.result)?;
        // A collection may begin while this thread holds the lock. It then finds no garbage here.
        if let Ok(future) = self.future.try_lock()
            && let Some(future) = &*future
        {
            visit.call(future)?;
        }
        Ok(())
    }

    /// Wait until the work is done, and return ``True``. Raise its error if it failed.
    ///
    /// Args:
    ///     timeout: a ``datetime.timedelta`` that limits this wait. Without it, or if it is zero, the timeout of the
    ///         collective limits the wait.
    ///
    /// Raises:
    ///     DistBackendError: if the work failed, or is not done after ``timeout``.
    #[pyo3(signature = (timeout=Duration::ZERO))]
    fn wait(&self, py: Python<'_>, timeout: Duration) -> PyResult<bool> {
        let work = self.work()?;
        let limit = (!timeout.is_zero()).then_some(timeout);
        py.detach(|| work.wait(limit)).or_raise()?;
        Ok(true)
    }

    /// The same as `wait` without a timeout, as the results are in host memory.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        self.wait(py, Duration::ZERO).map(drop)
    }

    /// The same as `wait` without a timeout, as the results are in host memory.
    fn block_current_stream(&self, py: Python<'_>) -> PyResult<()> {
        self.wait(py, Duration::ZERO).map(drop)
    }

    /// Whether the work has ended, well or with an error.
    fn is_completed(&self) -> PyResult<bool> {
        Ok(self.work()?.is_completed())
    }

    /// Whether the work has ended without an error.
    fn is_success(&self) -> PyResult<bool> {
        let work = self.work()?;
        Ok(work.is_completed() && work.exception().is_none())
    }

    /// Return the exception of the work, or ``None``.
    fn exception(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.work()?.exception().map(|e| enter::exception(e).into_value(py).into_any()))
    }

    /// Return the tensors that were written. The work must have ended.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if !self.work()?.is_completed() {
            return Err(PyRuntimeError::new_err("Work needs to be completed before calling result()"));
        }
        Ok(self.result.clone_ref(py))
    }

    /// Return a `torch.futures.Future` of the tensors that are written. Its callbacks run on threads of their own.
    fn get_future(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let work = self.work()?;
        if let Some(future) = &*self.future.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(future.clone_ref(py));
        }
        let made = py.import("pytpu.futures")?.getattr("Future")?.call0()?.unbind();
        let future = {
            let mut kept = self.future.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(future) = &*kept {
                return Ok(future.clone_ref(py));
            }
            kept.insert(made).clone_ref(py)
        };
        let (set, result) = (future.clone_ref(py), self.result.clone_ref(py));
        work.on_finish(move |error| complete(&set, &result, error));
        Ok(future)
    }

    /// Return the rank that a message came from. The work must have ended.
    fn source_rank(&self) -> PyResult<usize> {
        let none = || {
            PyRuntimeError::new_err(
                "sourceRank() may only be called on work objects that correspond to a \
                                               recv or recv-from-any call.",
            )
        };
        self.work()?.source().ok_or_else(none)
    }

    /// The same as `source_rank`.
    fn _source_rank(&self) -> PyResult<usize> {
        self.source_rank()
    }
}

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyWork>()
}
