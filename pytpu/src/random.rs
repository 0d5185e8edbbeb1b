//! `torch.Generator`.

use crate::device;
use crate::enter::OrRaise;
use crate::tensor_type::{extract as tensor, to_python};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use torchtpu_tensor::random::{self, Generator};
use torchtpu_tensor::{DType, Device, Tensor};

/// A position in a generator's stream.
#[pyclass(frozen, name = "_Snapshot", module = "torch._C")]
struct Snapshot(random::Snapshot);

/// A source of random numbers.
#[pyclass(frozen, name = "Generator", module = "torch._C")]
pub struct PyGenerator(Generator);

#[pymethods]
impl PyGenerator {
    #[new]
    #[pyo3(signature = (device = None))]
    fn new(device: Option<&Bound<'_, PyAny>>) -> PyResult<PyGenerator> {
        let on = match device {
            None => Device::CPU,
            // SAFETY: the `Bound` keeps the object alive.
            Some(d) => unsafe { device::extract(d.as_ptr()) }
                .or_raise()?
                .ok_or_else(|| PyTypeError::new_err("Generator(): argument 'device' must be torch.device"))?,
        };
        Ok(PyGenerator(Generator::on(on, random::DEFAULT_SEED)))
    }
    /// Set the seed, and return this generator.
    fn manual_seed<'py>(slf: Bound<'py, Self>, seed: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let seed = match seed.extract::<i64>() {
            Ok(s) => s as u64,
            Err(_) => seed.extract::<u64>().map_err(|e| match e.is_instance_of::<PyOverflowError>(seed.py()) {
                true => PyValueError::new_err("Overflow when unpacking long long"),
                false => e,
            })?,
        };
        let g = &slf.get().0;
        // Seeding the default generator seeds the generators of all devices.
        if g.is_same(&random::default_generator(Device::CPU)) {
            random::manual_seed(seed);
        } else {
            g.manual_seed(seed);
        }
        Ok(slf)
    }
    /// Return the seed that was set last.
    fn initial_seed(&self) -> u64 {
        self.0.initial_seed()
    }
    /// Set a seed that the system chooses, and return it.
    fn seed(&self) -> u64 {
        self.0.seed()
    }
    /// Return the state as a tensor of bytes.
    fn get_state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let bytes = self.0.get_state().or_raise()?;
        to_python(py, Tensor::from_slice(&bytes, &[bytes.len()]).or_raise()?)
    }
    /// Return the position of the stream without waiting for a device, for `_restore`.
    fn _snapshot(&self) -> Snapshot {
        Snapshot(self.0.snapshot())
    }
    /// Go back to a snapshot.
    fn _restore(&self, then: &Snapshot) -> PyResult<()> {
        self.0.restore(&then.0).or_raise()
    }
    /// Set the state that `get_state` has returned.
    fn set_state(slf: Py<Self>, state: &Bound<'_, PyAny>) -> PyResult<Py<Self>> {
        let t = tensor(state)
            .filter(|t| t.dtype() == DType::U8)
            .ok_or_else(|| PyTypeError::new_err("RNG state must be a torch.ByteTensor"))?;
        slf.get().0.set_state(&t.to_vec::<u8>().or_raise()?).or_raise()?;
        Ok(slf)
    }
    /// The device of the generator.
    #[getter]
    fn device<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, device::PyDevice>> {
        device::object(py, self.0.device())
    }
}

/// Return the generator in an object.
///
/// # Safety
/// `o` is an object that outlives the reference.
pub unsafe fn extract<'a>(o: *mut PyObject) -> Option<&'a Generator> {
    Python::attach(|py| {
        // SAFETY: `o` is an object that outlives the reference.
        let o = unsafe { Bound::from_borrowed_ptr(py, o) };
        let g: *const Generator = &o.cast::<PyGenerator>().ok()?.get().0;
        // SAFETY: the class is frozen, and the caller keeps the object alive longer than the reference.
        Some(unsafe { &*g })
    })
}

/// Return the default generator of a device.
#[pyfunction]
fn _default_generator(device: &Bound<'_, PyAny>) -> PyResult<PyGenerator> {
    // SAFETY: the `Bound` keeps the object alive.
    match unsafe { device::extract(device.as_ptr()) }.or_raise()? {
        Some(d) => Ok(PyGenerator(random::default_generator(d))),
        None => Err(PyTypeError::new_err("_default_generator(): argument 'device' must be torch.device")),
    }
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyGenerator>()?;
    m.add_function(wrap_pyfunction!(_default_generator, m)?)?;
    m.add("default_generator", Py::new(m.py(), PyGenerator(random::default_generator(Device::CPU)))?)
}
