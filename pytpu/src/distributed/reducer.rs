//! The engine below `torch.nn.parallel.DistributedDataParallel`.

use super::group::PyProcessGroup;
use super::memory::{Memory, check};
use super::tensors::PyTensorGroup;
use crate::enter::{self, OrRaise, callback_error};
use crate::sites;
use crate::tensor_type::{self, to_python};
use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};
use torchtpu_distributed as distributed;
use torchtpu_distributed::reducer::{Bucket, CommHook, Pending, Reducer, ReducerOptions};
use torchtpu_tensor::{Result, Tensor};

/// Averages the gradients of parameters over the ranks of a group.
///
/// Args:
///     group: the group.
///     tensors: the same group for tensors on device ``tpu``, or ``None``.
///     parameters: a list of names and parameters.
///     first_bucket_bytes: the size of the first bucket.
///     bucket_bytes: the size of the other buckets.
///     find_unused: whether a step may leave parameters without gradients.
///     is_static: whether all steps use the same parameters equally often.
///     grads_are_views: whether gradients are views of the buckets.
#[pyclass(frozen, name = "_Reducer", module = "torch._C")]
struct PyReducer {
    reducer: Reducer,
    hook: Mutex<Option<Arc<Py<PyAny>>>>,
}

fn tensor_of(object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    match tensor_type::extract(object) {
        Some(t) => Ok(t.clone()),
        None => Err(PyTypeError::new_err(format!("expected a Tensor, not {}", object.get_type().name()?))),
    }
}

fn memory(buffer: &Tensor) -> Result<Box<dyn distributed::Memory>> {
    check("all_reduce", buffer, true)?;
    Ok(Box::new(Memory::both(vec![buffer.shallow_alias()?])?))
}

/// Call a hook of Python with a bucket. It returns a future.
fn call_hook(hook: &Py<PyAny>, bucket: &Bucket) -> Result<Pending> {
    let call = |py: Python<'_>| {
        let buffer = to_python(py, bucket.buffer.clone())?;
        hook.call1(py, (bucket.index, bucket.is_last, buffer, bucket.parameters.clone()))
    };
    let future = Python::attach(call).map_err(callback_error)?;
    Ok(Box::new(move || {
        let wait = |py: Python<'_>| tensor_of(future.call_method0(py, "wait")?.bind(py));
        Python::attach(wait).map_err(callback_error)
    }))
}

#[pymethods]
impl PyReducer {
    #[new]
    fn new(
        group: &Bound<'_, PyProcessGroup>,
        tensors: Option<&Bound<'_, PyTensorGroup>>,
        parameters: Vec<(String, Bound<'_, PyAny>)>,
        first_bucket_bytes: usize,
        bucket_bytes: usize,
        find_unused: bool,
        is_static: bool,
        grads_are_views: bool,
    ) -> PyResult<PyReducer> {
        let (py, group) = (group.py(), group.get().group()?);
        let parameters: Vec<(String, Tensor)> =
            parameters.into_iter().map(|(name, x)| Ok((name, tensor_of(&x)?))).collect::<PyResult<_>>()?;
        let options =
            ReducerOptions { first_bucket_bytes, bucket_bytes, find_unused, is_static, grads_are_views, memory };
        let tensors = tensors.map(|group| group.get().0.clone());
        let reducer = py.detach(|| Reducer::new(&group, tensors, parameters, options)).or_raise()?;
        Ok(PyReducer { reducer, hook: Mutex::default() })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        // A collection may begin while this thread holds the lock. It then finds no garbage here.
        if let Ok(hook) = self.hook.try_lock()
            && let Some(hook) = &*hook
        {
            visit.call(&**hook)?;
        }
        Ok(())
    }

    fn __clear__(&self) {
        // No object reaches the reducer, so no other thread uses it.
        self.reducer.set_comm_hook(None);
        let hook = self.hook.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(hook);
    }

    /// Begin a step whose gradients are averaged, before the forward pass.
    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        let line = sites::user_line(py).map(Arc::from);
        enter::without_gil(|| self.reducer.begin(line)).or_raise()
    }

    /// Expect the gradients of a backward pass. ``outputs`` is a list of the tensors that the forward pass returned, if
    /// parameters may be unused.
    fn expect(&self, py: Python<'_>, outputs: Option<Vec<Bound<'_, PyAny>>>) -> PyResult<()> {
        let outputs = outputs.map(|all| all.iter().map(tensor_of).collect::<PyResult<Vec<_>>>()).transpose()?;
        py.detach(|| self.reducer.expect(outputs.as_deref())).or_raise()
    }

    /// Average the gradients of the next backward pass, whose forward pass was in ``no_sync``. accelerate calls it.
    fn prepare_for_backward(&self, py: Python<'_>, outputs: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        self.begin(py)?;
        self.expect(py, Some(outputs).filter(|all| !all.is_empty()))
    }

    /// Begin a step of the other ranks, as a rank that has run out of data. ``shadow`` goes on with it.
    fn begin_shadow(&self) -> PyResult<()> {
        enter::without_gil(|| self.reducer.begin_shadow()).or_raise()
    }

    /// Take part in a step of the other ranks, with zeros as gradients.
    fn shadow(&self) -> PyResult<()> {
        enter::without_gil(|| self.reducer.shadow()).or_raise()
    }

    /// Reduce buckets by ``hook(index, is_last, buffer, parameters)``, which returns a future of the reduced buffer.
    /// ``parameters`` is a list of numbers. ``None`` averages.
    fn set_comm_hook(&self, py: Python<'_>, hook: Option<Py<PyAny>>) {
        let hook = hook.map(Arc::new);
        let of_rust = hook.clone().map(|hook| -> CommHook { Arc::new(move |b: &Bucket| call_hook(&hook, b)) });
        py.detach(|| self.reducer.set_comm_hook(of_rust));
        let before = std::mem::replace(&mut *self.hook.lock().unwrap_or_else(PoisonError::into_inner), hook);
        drop(before);
    }

    /// Divide sums of gradients by ``divisor`` instead of by the number of ranks.
    fn set_divisor(&self, py: Python<'_>, divisor: usize) {
        py.detach(|| self.reducer.set_divisor(divisor));
    }

    /// Return the parameters of each bucket, by their numbers.
    fn buckets(&self, py: Python<'_>) -> Vec<Vec<usize>> {
        py.detach(|| self.reducer.buckets())
    }

    /// Whether the buckets follow the order of the gradients of the first step.
    fn has_rebuilt_buckets(&self, py: Python<'_>) -> bool {
        py.detach(|| self.reducer.has_rebuilt_buckets())
    }

    /// Return the number of steps whose gradients were averaged.
    fn steps(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.reducer.steps())
    }

    /// Remove the hooks of the parameters. Gradients are no longer averaged.
    fn remove_hooks(&self, py: Python<'_>) {
        py.detach(|| self.reducer.remove_hooks());
    }
}

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyReducer>()
}
