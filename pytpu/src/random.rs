//! `torch.Generator`.

use pyo3::ffi;
use pyo3::prelude::*;
use torchtpu_tensor::random::Generator;

/// A source of random numbers.
#[pyclass(frozen, name = "Generator", module = "torch")]
pub struct PyGenerator(Generator);

#[pymethods]
impl PyGenerator {
    #[new]
    #[pyo3(signature = (device = None))]
    fn new(device: Option<&Bound<'_, PyAny>>) -> PyGenerator {
        let _ = device;
        PyGenerator(Generator::new(67280421310721))
    }
    fn initial_seed(&self) -> u64 {
        self.0.initial_seed()
    }
}

/// The generator in an object.
///
/// # Safety
/// `o` is an object that outlives the reference.
pub unsafe fn extract<'a>(o: *mut ffi::PyObject) -> Option<&'a Generator> {
    Python::attach(|py| {
        // SAFETY: by the contract.
        let o = unsafe { Bound::from_borrowed_ptr(py, o) };
        let g: *const Generator = &o.cast::<PyGenerator>().ok()?.get().0;
        // SAFETY: the class is frozen, and the object outlives the reference by the contract.
        Some(unsafe { &*g })
    })
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyGenerator>()
}
