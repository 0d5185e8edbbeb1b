//! Capsules, in which Python carries [`torchtpu_tensor::dlpack`]'s structs. A capsule owns its struct until a library
//! consumes the capsule and renames it.

use crate::enter::{self, OrRaise};
use crate::tensor_type::{extract, to_python};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::CStr;
use std::mem::ManuallyDrop;
use torchtpu_tensor::Tensor;
use torchtpu_tensor::dlpack::{
    DLDevice, DLManagedTensor, DLManagedTensorVersioned, Form, ManagedTensor, Request, from_dlpack_with,
};

/// The name of a capsule with a struct of this form.
trait Capsule: Form {
    const NAME: &CStr;
    const USED: &CStr;
}
impl Capsule for DLManagedTensor {
    const NAME: &CStr = c"dltensor";
    const USED: &CStr = c"used_dltensor";
}
impl Capsule for DLManagedTensorVersioned {
    const NAME: &CStr = c"dltensor_versioned";
    const USED: &CStr = c"used_dltensor_versioned";
}

/// Return the struct in a capsule that is not consumed yet. The capsule still owns it.
///
/// # Safety
/// The object lives.
unsafe fn content<M: Capsule>(o: *mut ffi::PyObject) -> Option<ManuallyDrop<ManagedTensor<M>>> {
    // SAFETY: a capsule of that name holds a struct of that form, and the protocol asks for the rest.
    unsafe {
        (ffi::PyCapsule_IsValid(o, M::NAME.as_ptr()) != 0).then(|| {
            let raw = ffi::PyCapsule_GetPointer(o, M::NAME.as_ptr()).cast();
            ManuallyDrop::new(ManagedTensor::from_raw(raw))
        })
    }
}

/// Free the memory, unless a consumer has taken it.
unsafe extern "C" fn drop_capsule<M: Capsule>(o: *mut ffi::PyObject) {
    // SAFETY: the interpreter passes the capsule.
    let managed = unsafe { content::<M>(o) };
    enter::unraisable(|| drop(managed.map(ManuallyDrop::into_inner)));
}

fn capsule<'py, M: Capsule>(py: Python<'py>, x: &Tensor, request: &Request) -> PyResult<Bound<'py, PyAny>> {
    let managed = ManagedTensor::<M>::new(x, request).or_raise()?;
    let raw = managed.as_ptr().cast_mut().cast();
    // SAFETY: the pointer is not null, and it came from the exporter of this form.
    let o = unsafe { ffi::PyCapsule_New(raw, M::NAME.as_ptr(), Some(drop_capsule::<M>)) };
    // SAFETY: a new object, or null with an exception.
    let capsule = unsafe { Bound::from_owned_ptr_or_err(py, o) }?;
    managed.into_raw(); // The capsule owns it now.
    Ok(capsule)
}

/// Make a capsule with the tensor's memory, or with that of a copy.
#[pyfunction]
fn _to_dlpack<'py>(
    x: &Bound<'py, PyAny>,
    versioned: bool,
    dl_device: Option<(i32, i32)>,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(t) = extract(x) else { return Err(PyTypeError::new_err("to_dlpack(): argument must be Tensor")) };
    let device = dl_device.map(|(device_type, device_id)| DLDevice { device_type, device_id });
    let request = Request { device, copy };
    match versioned {
        true => capsule::<DLManagedTensorVersioned>(x.py(), t, &request),
        false => capsule::<DLManagedTensor>(x.py(), t, &request),
    }
}

/// Return the tensor's device in DLPack's numbers.
#[pyfunction]
fn _dlpack_device(x: &Bound<'_, PyAny>) -> PyResult<(i32, i32)> {
    let Some(t) = extract(x) else { return Err(PyTypeError::new_err("__dlpack_device__(): argument must be Tensor")) };
    let DLDevice { device_type, device_id } = DLDevice::of(t.device()).or_raise()?;
    Ok((device_type, device_id))
}

/// Return a tensor on the memory in a capsule that holds a struct of this form.
fn consume<M: Capsule>(capsule: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
    let o = capsule.as_ptr();
    // SAFETY: the `Bound` keeps the object alive.
    let Some(managed) = (unsafe { content::<M>(o) }) else { return Ok(None) };
    // If the memory cannot be used, the capsule stays its owner.
    managed.meta().or_raise()?;
    // SAFETY: the object is a capsule. Its new name marks it as consumed, so its destructor leaves the struct alone.
    if unsafe { ffi::PyCapsule_SetName(o, M::USED.as_ptr()) } != 0 {
        return Err(PyErr::fetch(capsule.py()));
    }
    from_dlpack_with(ManuallyDrop::into_inner(managed), give_back).or_raise().map(Some)
}

/// Call the deleter with the interpreter attached, since the deleters of Python libraries touch Python objects. Without
/// an interpreter, the memory stays allocated.
fn give_back<M: Form>(managed: ManagedTensor<M>) {
    let mut managed = ManuallyDrop::new(managed);
    // SAFETY: dropped here and nowhere else.
    Python::try_attach(|_| unsafe { ManuallyDrop::drop(&mut managed) });
}

const CONSUMED: &str = "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only \
    once, so you might have already constructed a tensor from it once.";

/// Return a tensor on the memory of a capsule, or on a copy if the memory is read-only.
#[pyfunction]
fn _from_dlpack<'py>(capsule: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let mut x = consume::<DLManagedTensorVersioned>(capsule)?;
    if x.is_none() {
        x = consume::<DLManagedTensor>(capsule)?;
    }
    let Some(x) = x else { return Err(PyRuntimeError::new_err(CONSUMED)) };
    to_python(capsule.py(), x)
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_to_dlpack, m)?)?;
    m.add_function(wrap_pyfunction!(_dlpack_device, m)?)?;
    m.add_function(wrap_pyfunction!(_from_dlpack, m)?)
}
