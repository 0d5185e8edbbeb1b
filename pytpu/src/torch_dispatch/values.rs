//! The values of foreign tensors: objects of classes with `__torch_dispatch__`.

use super::parts::{PROBE, TWINS, WRITABLE, tensors};
use super::{DISABLED, answers, library_error, watch};
use crate::enter::{OrRaise, Outcome};
use crate::tensor_type::{self, extract, tensor_type, to_python};
use crate::{device, dtype};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::*;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use torchtpu_tensor::backend::{self, Absence, DeferredError, Representation};
use torchtpu_tensor::schema::{Arg, Args};
use torchtpu_tensor::{Dims, Error, Meta, Place, Rep, Tensor, foreign, state};

/// The object that a foreign tensor stands for.
struct Entry {
    count: usize,
    class: Py<PyType>,
    attributes: Py<PyDict>,
    /// The elements, if the class has them: `_make_subclass`.
    inner: Option<Tensor>,
    meta: Meta,
    strides: Dims,
}

static ENTRIES: Mutex<Option<HashMap<u64, Entry>>> = Mutex::new(None);
static NEXT: AtomicU64 = AtomicU64::new(1);

struct Entries(MutexGuard<'static, Option<HashMap<u64, Entry>>>);

impl Entries {
    fn lock() -> Entries {
        Entries(ENTRIES.lock().unwrap_or_else(PoisonError::into_inner))
    }
    fn of(&mut self, handle: u64) -> Option<&mut Entry> {
        self.0.as_mut()?.get_mut(&Rep::id(handle))
    }
}

/// The representation of foreign tensors.
struct Foreign;

impl Representation for Foreign {
    fn retain(&self, handle: u64) {
        if let Some(entry) = Entries::lock().of(handle) {
            entry.count += 1;
        }
    }
    fn overwrite(&self, old: u64, new: u64, _: bool) -> torchtpu_tensor::Result<u64> {
        if Rep::id(old) == 0 || Rep::id(old) >= TWINS {
            if WRITABLE.with_borrow(|all| all.contains(&old)) {
                return Ok(old);
            }
            // The history of a row that writes over its parts does not follow from them.
            PROBE.set(None);
            return Ok(new);
        }
        // The object may be a view of others, which its class knows.
        let of = |handle: u64| {
            let (meta, strides) = Entries::lock().of(handle).map(|entry| (entry.meta, entry.strides))?;
            self.retain(handle);
            Some(foreign::of_value(&meta, strides, handle))
        };
        let (Some(target), Some(value)) = (of(old), of(new)) else { return Err(self.absent(Absence::ITEM)) };
        state::no_grad(|| {
            Python::attach(|py| {
                let [_, ops, _] = answers()?;
                let values = PyTuple::new(py, [to_python(py, target)?, to_python(py, value)?])?;
                ops.bind(py).call1(("copy_.default", values, PyDict::new(py)))?;
                Ok(())
            })
            .map_err(library_error)
        })?;
        self.retain(old);
        Ok(old)
    }
    fn release(&self, handle: u64) {
        let mut entries = Entries::lock();
        let Some(entry) = entries.of(handle) else { return };
        entry.count -= 1;
        if entry.count > 0 {
            return;
        }
        let gone = entries.0.as_mut().and_then(|all| all.remove(&Rep::id(handle)));
        // Dropping attributes may run code that makes or drops foreign tensors.
        drop(entries);
        Python::attach(|_| drop(gone));
    }
    fn mixed(&self, own: Place, other: Place) -> Error {
        let text = "Expected all tensors to be on the same device, but found at least two devices, ";
        Error::runtime(format!("{text}{} and {}!", own.device, other.device))
    }
    fn read(&self, handle: u64, out: &mut [u8]) -> torchtpu_tensor::Result<()> {
        let held = Entries::lock().of(handle).and_then(|entry| entry.inner.clone());
        let Some(inner) = held else { return Err(self.absent(Absence::ITEM)) };
        out.copy_from_slice(&inner.to_bytes()?);
        Ok(())
    }
    fn defer_check(&self, _: u64, _: DeferredError) -> torchtpu_tensor::Result<bool> {
        // The class computes with the values that it wraps, whose operators check them.
        Ok(false)
    }
    fn absent(&self, _: Absence) -> Error {
        Error::runtime(
            "Attempted to access the data pointer of a tensor that wraps others, and has no elements of its own",
        )
    }
}

/// Return the tensor that holds the elements of a foreign tensor, or a tensor that is not foreign itself.
pub(super) fn inner(t: &Tensor) -> torchtpu_tensor::Result<Tensor> {
    if !foreign::is_foreign(t) {
        return Ok(t.clone());
    }
    let handle = t.device_value()?;
    let held = Entries::lock().of(handle).and_then(|entry| entry.inner.clone());
    held.ok_or_else(|| Foreign.absent(Absence::ITEM))
}

/// Return the answer of a row that is called while calls are offered to nobody, on the elements that tensors hold.
#[cold]
#[inline(never)]
pub fn unwrapped(args: &Args<'_>) -> Outcome<Option<Vec<Option<Tensor>>>> {
    if !DISABLED.get() || !tensors(args).iter().any(|t| foreign::is_foreign(t)) {
        return Ok(None);
    }
    let held = args.0.iter().map(|a| match a {
        Arg::Tensor(t) => inner(t).map(Some),
        _ => Ok(None),
    });
    Ok(Some(held.collect::<Result<_, _>>()?))
}

fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| backend::install_representation(Rep::Foreign, &Foreign));
    static SEEN: AtomicBool = AtomicBool::new(false);
    if !SEEN.swap(true, Relaxed) {
        watch(true);
    }
}

/// Make the object of a foreign tensor.
fn new_object<'py>(
    class: &Bound<'py, PyType>,
    meta: &Meta,
    strides: &[usize],
    inner: Option<Tensor>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    install();
    let id = NEXT.fetch_add(1, Relaxed);
    let attributes = PyDict::new(py);
    let strides = Dims::try_new(strides).or_raise()?;
    let (class, attributes) = (class.clone().unbind(), attributes.unbind());
    let entry = Entry { count: 1, class, attributes, inner, meta: *meta, strides };
    Entries::lock().0.get_or_insert_default().insert(id, entry);
    let t = foreign::of_value(meta, strides, Rep::Foreign.handle(id));
    to_python(py, t)
}

/// Make the object of a foreign tensor that has none. A new reference, or null with an exception set.
pub fn wrap(t: Tensor) -> *mut PyObject {
    let entry = t.device_value().ok().and_then(|handle| {
        let mut entries = Entries::lock();
        let entry = entries.of(handle)?;
        Some(Python::attach(|py| (entry.class.clone_ref(py), entry.attributes.clone_ref(py))))
    });
    let Some((class, attributes)) = entry else {
        // SAFETY: the GIL is held, and the text is valid.
        unsafe { PyErr_SetString(PyExc_RuntimeError, c"the tensor wraps no object".as_ptr()) };
        return std::ptr::null_mut();
    };
    // SAFETY: `_make_wrapper_subclass` and `_make_subclass` have checked the class. The object takes the reference to
    // the attributes over.
    unsafe {
        let o = tensor_type::wrap_as(class.as_ptr().cast(), t).unwrap_or(std::ptr::null_mut());
        if !o.is_null() {
            tensor_type::share_dict(o, attributes.into_ptr());
        }
        o
    }
}

/// Return whether a class has its own `__torch_dispatch__`.
pub fn is_dispatching(class: &Bound<'_, PyType>) -> bool {
    let Ok(own) = class.getattr("__torch_dispatch__") else { return false };
    // SAFETY: the type object lives forever, and the GIL is held.
    let base = unsafe { Bound::<PyAny>::from_borrowed_ptr(class.py(), tensor_type().cast()) };
    base.getattr("__torch_dispatch__").is_ok_and(|disabled| !own.is(&disabled))
}

/// Return the object of a class with `__torch_dispatch__` that holds the elements of `data`.
pub fn subclass<'py>(class: &Bound<'py, PyType>, data: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    let o = new_object(class, data.meta(), data.strides(), Some(data.detach()))?;
    if data.requires_grad()
        && let Some(t) = extract(&o)
    {
        t.requires_grad_(true).or_raise()?;
    }
    Ok(o)
}

/// Return an object of a class that wraps other tensors: sizes, strides, dtype and device, without elements.
#[pyfunction]
#[pyo3(signature = (class, size, strides, dtype, device, requires_grad))]
fn _wrapper_subclass<'py>(
    class: &Bound<'py, PyType>,
    size: Vec<usize>,
    strides: Option<Vec<usize>>,
    dtype: &Bound<'py, PyAny>,
    device: &Bound<'py, PyAny>,
    requires_grad: bool,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: a type is checked for its base.
    if unsafe { PyType_IsSubtype(class.as_type_ptr(), tensor_type()) } == 0 {
        return Err(PyTypeError::new_err("cls must be a type (got a class that does not inherit from Tensor)"));
    }
    let dtype = dtype.cast::<dtype::PyDType>()?.get().served()?;
    // SAFETY: an object that the caller holds.
    let device = match unsafe { device::extract(device.as_ptr()) }.or_raise()? {
        Some(d) => d,
        None => torchtpu_tensor::Device::CPU,
    };
    let dims = Dims::try_new(&size).or_raise()?;
    let meta = Meta::new(&dims, dtype, device);
    let strides = strides.unwrap_or_else(|| dims.contiguous_strides().to_vec());
    let o = new_object(class, &meta, &strides, None)?;
    if requires_grad && let Some(t) = extract(&o) {
        t.requires_grad_(true).or_raise()?;
    }
    Ok(o)
}

/// Return whether a tensor is foreign.
#[pyfunction]
fn _is_foreign(x: &Bound<'_, PyAny>) -> bool {
    extract(x).is_some_and(foreign::is_foreign)
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    tensor_type::wrap_foreign_by(wrap);
    m.add_function(wrap_pyfunction!(_wrapper_subclass, m)?)?;
    m.add_function(wrap_pyfunction!(_is_foreign, m)?)
}
