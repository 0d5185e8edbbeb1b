//! The native half of `torch.safetensors`.

use crate::device;
use crate::enter::{self, OrRaise};
use crate::tensor_type::{extract, to_python};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Mutex;
use torchtpu_nn::{StateDict, safetensors};
use torchtpu_tensor::{Device, Tensor};

fn named(tensors: &Bound<'_, PyDict>) -> PyResult<Vec<(String, Tensor)>> {
    tensors
        .iter()
        .map(|(name, x)| match extract(&x) {
            Some(t) => Ok((name.extract()?, t.clone())),
            None => Err(PyTypeError::new_err(format!("expected a Tensor, but got {}", x.get_type().name()?))),
        })
        .collect()
}

fn device_in(o: &Bound<'_, PyAny>) -> PyResult<Device> {
    // SAFETY: the `Bound` keeps the object alive.
    unsafe { device::extract(o.as_ptr()) }
        .or_raise()?
        .ok_or_else(|| PyTypeError::new_err("device must be torch.device"))
}

fn dictionary<'py>(py: Python<'py>, tensors: StateDict) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    for (name, x) in tensors {
        d.set_item(name, to_python(py, x)?)?;
    }
    Ok(d)
}

#[pyfunction]
fn save<'py>(tensors: &Bound<'py, PyDict>, metadata: Option<HashMap<String, String>>) -> PyResult<Bound<'py, PyBytes>> {
    let all = named(tensors)?;
    let bytes = enter::without_gil(|| safetensors::save(&all, metadata)).or_raise()?;
    PyBytes::new_with(tensors.py(), bytes.len(), |to| {
        to.copy_from_slice(&bytes);
        Ok(())
    })
}

#[pyfunction]
fn save_file(tensors: &Bound<'_, PyDict>, path: PathBuf, metadata: Option<HashMap<String, String>>) -> PyResult<()> {
    let all = named(tensors)?;
    enter::without_gil(|| safetensors::save_file(&path, &all, metadata)).or_raise()
}

#[pyfunction]
fn load<'py>(bytes: &Bound<'py, PyBytes>, device: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let tensors = safetensors::load(bytes.as_bytes(), device_in(device)?).or_raise()?;
    dictionary(bytes.py(), tensors)
}

#[pyfunction]
fn load_file<'py>(py: Python<'py>, path: PathBuf, device: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let device = device_in(device)?;
    dictionary(py, enter::without_gil(|| safetensors::load_file(&path, device)).or_raise()?)
}

/// A file whose tensors are read one by one.
#[pyclass(frozen, module = "torch._C._safetensors")]
struct File(Mutex<Option<safetensors::File>>);

impl File {
    fn with<R>(&self, f: impl FnOnce(&safetensors::File) -> PyResult<R>) -> PyResult<R> {
        match &*self.0.lock().unwrap_or_else(|e| e.into_inner()) {
            Some(file) => f(file),
            None => Err(PyRuntimeError::new_err("File is closed")),
        }
    }
}

#[pymethods]
impl File {
    #[new]
    fn new(path: PathBuf) -> PyResult<File> {
        Ok(File(Mutex::new(Some(safetensors::File::open(path).or_raise()?))))
    }
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.with(|f| PyList::new(py, f.names()))
    }
    fn metadata(&self) -> PyResult<Option<HashMap<String, String>>> {
        self.with(|f| Ok(f.text_metadata().cloned()))
    }
    fn describe(&self, name: &str) -> PyResult<(String, Vec<usize>)> {
        self.with(|f| f.describe(name).or_raise())
    }
    fn tensor<'py>(&self, py: Python<'py>, name: &str, device: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let device = device_in(device)?;
        let x = self.with(|f| f.tensor(name, device).or_raise())?;
        to_python(py, x)
    }
    fn close(&self) {
        *self.0.lock().unwrap_or_else(|e| e.into_inner()) = None;
    }
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let own = PyModule::new(m.py(), "_safetensors")?;
    own.add_function(wrap_pyfunction!(save, &own)?)?;
    own.add_function(wrap_pyfunction!(save_file, &own)?)?;
    own.add_function(wrap_pyfunction!(load, &own)?)?;
    own.add_function(wrap_pyfunction!(load_file, &own)?)?;
    own.add_class::<File>()?;
    m.add_submodule(&own)
}
