//! Collectives that return new tensors, on all devices. On device `tpu` they are recorded.

use crate::enter::{self, OrRaise};
use crate::{sites, tensor_type};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::rc::Rc;
use std::sync::Arc;
use torchtpu_distributed::{ProcessGroup, tensors};
use torchtpu_tensor::comm::Group;
use torchtpu_tensor::ops::collective::{self, Reduction};
use torchtpu_tensor::{Result, Tensor};

/// The ranks of a group, for collectives that return new tensors. They have gradients. Reductions are numbers of a
/// `ReduceOp`, and ranks are ranks of the group.
#[pyclass(frozen, name = "_TensorGroup", module = "torch._C")]
pub(super) struct PyTensorGroup(pub(super) Group);

/// A tensor of a call.
struct Given(Tensor);

impl<'py> FromPyObject<'_, 'py> for Given {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Given> {
        match tensor_type::extract(&given) {
            Some(t) => Ok(Given(t.clone())),
            None => Err(PyTypeError::new_err(format!("expected a Tensor, not {}", given.get_type().name()?))),
        }
    }
}

/// A function that combines the elements of ranks, and whether the result is divided by their number.
fn reduction(op: usize) -> PyResult<(Reduction, bool)> {
    use Reduction::{And, Max, Min, Or, Product, Sum, Xor};
    // In the order of `ReduceOp::ALL`.
    let all = [(Sum, false), (Sum, true), (Product, false), (Min, false), (Max, false), (And, false), (Or, false)];
    let all = all.into_iter().chain([(Xor, false)]);
    all.into_iter().nth(op).ok_or_else(|| PyValueError::new_err(format!("reduction {op}, must be less than 8")))
}

impl PyTensorGroup {
    /// Make the group of this process's rank usable for tensors.
    pub(super) fn make(
        py: Python<'_>,
        group: &ProcessGroup,
        partition: Vec<Vec<usize>>,
        is_on_host: bool,
    ) -> PyResult<PyTensorGroup> {
        let register = if is_on_host { tensors::register_on_host } else { tensors::register };
        py.detach(|| register(group, partition)).map(PyTensorGroup).or_raise()
    }

    fn call<'py>(
        &self,
        py: Python<'py>,
        x: &Given,
        collective: impl Send + FnOnce(&Tensor, &Group) -> Result<Tensor>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let line = sites::user_line(py).map(Arc::from);
        let y = enter::without_gil(|| tensors::at_line(line, || collective(&x.0, &self.0))).or_raise()?;
        tensor_type::to_python(py, y)
    }

    /// Call a collective that reduces by the function with number `op`.
    fn reduce_by<'py>(
        &self,
        py: Python<'py>,
        x: &Given,
        op: usize,
        collective: impl Send + FnOnce(&Tensor, Reduction, &Group) -> Result<Tensor>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (by, is_mean) = reduction(op)?;
        self.call(py, x, |x, group| {
            if !is_mean {
                return collective(x, by, group);
            }
            collective::check_mean(x)?;
            collective::mean_of_sum(&collective(x, by, group)?, group)
        })
    }
}

#[pymethods]
impl PyTensorGroup {
    /// Return ``x`` of all ranks, combined.
    fn all_reduce<'py>(&self, py: Python<'py>, x: Given, op: usize) -> PyResult<Bound<'py, PyAny>> {
        self.reduce_by(py, &x, op, collective::all_reduce)
    }

    /// Return ``x`` of all ranks, combined, on rank ``to``, and zeros on the others.
    fn reduce<'py>(&self, py: Python<'py>, x: Given, op: usize, to: usize) -> PyResult<Bound<'py, PyAny>> {
        self.reduce_by(py, &x, op, |x, by, group| collective::reduce(x, by, to, group))
    }

    /// Return ``x`` of rank ``source``.
    fn broadcast<'py>(&self, py: Python<'py>, x: Given, source: usize) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, &x, |x, group| collective::broadcast(x, source, group))
    }

    /// Return ``x`` of all ranks, concatenated along dimension 0.
    fn all_gather<'py>(&self, py: Python<'py>, x: Given) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, &x, collective::all_gather)
    }

    /// Return this rank's part of dimension 0 of ``x`` of all ranks, combined.
    fn reduce_scatter<'py>(&self, py: Python<'py>, x: Given, op: usize) -> PyResult<Bound<'py, PyAny>> {
        self.reduce_by(py, &x, op, collective::reduce_scatter)
    }

    /// Send ``sent[i]`` rows of ``x`` to rank ``i``. Return the rows from all ranks, ``received[i]`` from rank ``i``.
    fn all_to_all<'py>(
        &self,
        py: Python<'py>,
        x: Given,
        sent: Vec<usize>,
        received: Vec<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, &x, |x, group| collective::all_to_all(x, &sent, &received, group))
    }

    /// Send ``x`` along ``pairs`` of a source and a target rank. A rank that is no target gets zeros.
    fn permute<'py>(&self, py: Python<'py>, x: Given, pairs: Vec<(usize, usize)>) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, &x, |x, group| collective::permute(x, &pairs, group))
    }

    /// Wait until the collectives that were recorded have run, and forget the group.
    fn close(&self, py: Python<'_>) {
        py.detach(|| tensors::unregister(&self.0));
    }
}

/// Call ``observer`` with the name of each collective that this thread calls on tensors. ``None`` ends it.
#[pyfunction]
#[pyo3(signature = (observer))]
fn _observe_collectives(observer: Option<Py<PyAny>>) {
    collective::observe(observer.map(|observer| -> collective::Observer {
        Rc::new(move |name| {
            Python::attach(|py| {
                if let Err(e) = observer.call1(py, (name,)) {
                    e.write_unraisable(py, Some(observer.bind(py)));
                }
            });
        })
    }));
}

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyTensorGroup>()?;
    m.add_function(wrap_pyfunction!(_observe_collectives, m)?)
}
