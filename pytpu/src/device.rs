//! `torch.device`.

use crate::enter::OrRaise;
use crate::objects;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use torchtpu_tensor::{Device, DeviceKind, Error, Place, Result, fake};

/// The place of a tensor. As a context manager: the place of new tensors.
#[pyclass(frozen, eq, hash, name = "device", module = "torch")]
#[derive(PartialEq, Eq, Hash)]
pub struct PyDevice {
    /// The device without its index.
    device: Device,
    /// The index, if it was given: `torch.device("tpu")` has none. `cpu:1` keeps its index, though its tensors are on
    /// `cpu`.
    index: Option<u8>,
    /// The name of a kind that this package does not have. Such a device can be made, compared and printed, but no
    /// tensor can be on it.
    absent: Option<&'static str>,
}

/// Kinds that PyTorch has.
const ABSENT: [&str; 11] =
    ["cuda", "hip", "hpu", "ipu", "maia", "mps", "mtia", "privateuseone", "vulkan", "xla", "xpu"];

/// A device as the user named it.
#[derive(Clone, Copy)]
struct Named {
    device: Device,
    index: Option<u8>,
}

thread_local! {
    static DEFAULT: Cell<Option<Named>> = const { Cell::new(None) };
    static ENTERED: RefCell<Vec<Option<Named>>> = const { RefCell::new(Vec::new()) };
}

/// The place of functions that make tensors from nothing, if it is not the dense one on `cpu`.
#[inline]
pub fn current_default() -> Option<Place> {
    match (DEFAULT.get(), fake::mode()) {
        (None, None) => None,
        (named, _) => Some(fake::place_of_new(named.map_or(Device::CPU, |d| d.device))),
    }
}

/// The place of a new tensor, on the device that the caller names if it names one.
pub fn of_new(device: Option<Device>) -> Place {
    match device {
        Some(device) => fake::place_of_new(device),
        None => current_default().unwrap_or(Place::CPU),
    }
}

#[pymethods]
impl PyDevice {
    #[new]
    #[pyo3(signature = (r#type, index = None))]
    fn new(r#type: &Bound<'_, PyAny>, index: Option<i64>) -> PyResult<PyDevice> {
        let index = index.map(place).transpose()?;
        if let Ok(d) = r#type.cast::<PyDevice>() {
            let PyDevice { device, index, absent } = *d.get();
            return Ok(PyDevice { device, index, absent });
        }
        if let Ok(i) = r#type.extract::<i64>() {
            let i = place(i)?;
            return Ok(PyDevice { device: Device::TPU, index: Some(i), absent: None });
        }
        let Ok(text) = r#type.extract::<String>() else {
            let name = r#type.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "device(): argument 'type' (position 1) must be str, not {name}"
            )));
        };
        let (name, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
        let absent = ABSENT.into_iter().find(|&a| a == name);
        let device = match absent {
            Some(_) => Device::parse(&format!("cpu{rest}"))
                .map_err(|_| Error::runtime(format!("Invalid device string: '{text}'"))),
            None => Device::parse(&text),
        }
        .or_raise()?;
        if index.is_some() && text.contains(':') {
            return Err(pyo3::exceptions::PyRuntimeError::new_err(format!(
                "type (string) must not include an index because index was passed explicitly: {text}"
            )));
        }
        let index = index.or(Device::index_in(&text).or_raise()?);
        Ok(PyDevice { device: Device::new(device.kind, 0), index, absent })
    }
    /// The kind of device, such as `cpu` or `tpu`.
    #[getter]
    fn r#type(&self) -> &'static str {
        self.absent.unwrap_or(self.device.type_name())
    }
    /// The number of the device, or `None` if it was not given.
    #[getter]
    fn index(&self) -> Option<u8> {
        self.index
    }
    fn __str__(&self) -> String {
        match self.index {
            Some(i) => format!("{}:{i}", self.r#type()),
            None => self.r#type().into(),
        }
    }
    fn __repr__(&self) -> String {
        match self.index {
            Some(i) => format!("device(type='{}', index={i})", self.r#type()),
            None => format!("device(type='{}')", self.r#type()),
        }
    }
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.import("pytpu._C")?.getattr("_device_of")?, (self.__str__(),)))
    }
    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }
    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }
    fn __enter__(slf: Py<Self>) -> PyResult<Py<Self>> {
        let this = slf.get();
        let before = DEFAULT.replace(Some(Named { device: this.present().or_raise()?, index: this.index }));
        ENTERED.with_borrow_mut(|e| e.push(before));
        Ok(slf)
    }
    #[pyo3(signature = (*_args))]
    fn __exit__(&self, _args: &Bound<'_, pyo3::types::PyTuple>) {
        DEFAULT.set(ENTERED.with_borrow_mut(Vec::pop).flatten());
    }
}

impl PyDevice {
    /// Return the device, if tensors can be on it.
    pub fn present(&self) -> Result<Device> {
        match self.absent {
            None => Ok(self.index.map_or(self.device, |i| Device::numbered(self.device.kind, i))),
            Some(name) => Err(Error::runtime(format!(
                "Torch not compiled with {} enabled: devices are cpu, tpu and meta",
                name.to_uppercase()
            ))),
        }
    }
}

fn index_of(i: i64) -> Result<u8> {
    u8::try_from(i).map_err(|_| match i < 0 {
        true => Error::runtime("Device index must not be negative"),
        false => Error::runtime(format!("Device index must be between 0 and 255, got {i}")),
    })
}

fn place(i: i64) -> PyResult<u8> {
    index_of(i).or_raise()
}

/// Return the object of a tensor's device.
pub fn object(py: Python<'_>, device: Device) -> PyResult<Bound<'_, PyDevice>> {
    let index = (device.kind == DeviceKind::Tpu).then_some(device.number());
    Bound::new(py, PyDevice { device: Device::new(device.kind, 0), index, absent: None })
}

/// Return the device of an argument: a device, a string, or an index. Return `Ok(None)` for any other type.
///
/// # Errors
/// For a string that is not a device.
///
/// # Safety
/// `o` is an object.
pub unsafe fn extract(o: *mut PyObject) -> Result<Option<Device>> {
    // SAFETY: `o` is an object.
    unsafe {
        if let Some(s) = objects::string(o) {
            return Device::parse(s).map(Some);
        }
        if let Some(i) = objects::int(o) {
            return Ok(Some(Device::numbered(DeviceKind::Tpu, index_of(i)?)));
        }
        Python::attach(|py| {
            Bound::from_borrowed_ptr(py, o).cast::<PyDevice>().ok().map(|d| d.get().present()).transpose()
        })
    }
}

/// Return the device with this name. Pickles call this.
#[pyfunction]
fn _device_of(name: &Bound<'_, PyAny>) -> PyResult<PyDevice> {
    PyDevice::new(name, None)
}

/// Set the device of new tensors. `None` is `cpu`.
#[pyfunction]
fn set_default_device(device: &Bound<'_, PyAny>) -> PyResult<()> {
    if device.is_none() {
        DEFAULT.set(None);
        return Ok(());
    }
    // SAFETY: the `Bound` keeps the object alive.
    let Some(found) = unsafe { extract(device.as_ptr()) }.or_raise()? else {
        return Err(PyTypeError::new_err("set_default_device(): a device or a string is expected"));
    };
    let index = match device.cast::<PyDevice>() {
        Ok(d) => d.get().index,
        Err(_) => device.extract::<String>().ok().and_then(|s| Device::index_in(&s).ok().flatten()),
    };
    DEFAULT.set(Some(Named { device: found, index }));
    Ok(())
}

/// Return the device of new tensors.
#[pyfunction]
fn get_default_device(py: Python<'_>) -> PyResult<Bound<'_, PyDevice>> {
    match DEFAULT.get() {
        Some(Named { device, index }) if device.kind != DeviceKind::Tpu => {
            Bound::new(py, PyDevice { device, index, absent: None })
        }
        d => object(py, d.map_or(Device::CPU, |d| d.device)),
    }
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyDevice>()?;
    m.add_function(wrap_pyfunction!(_device_of, m)?)?;
    m.add_function(wrap_pyfunction!(set_default_device, m)?)?;
    m.add_function(wrap_pyfunction!(get_default_device, m)?)?;
    Ok(())
}
