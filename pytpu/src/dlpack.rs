//! DLPack: tensors exchanged with other libraries without a copy.
//!
//! The structs are those of the [specification](https://dmlc.github.io/dlpack/latest/c_api.html), both the first form and
//! the one with a version, which says whether the memory may be written.

use crate::enter::OrRaise;
use crate::tensor_type::{extract, to_python};
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use torchtpu_tensor::{DType, Device, DeviceKind, Dims, Meta, Tensor};

const CPU: i32 = 1;
const NAME: &CStr = c"dltensor";
const NAME_VERSIONED: &CStr = c"dltensor_versioned";
const USED: &CStr = c"used_dltensor";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;

#[repr(C)]
struct DlDevice {
    kind: i32,
    id: i32,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
struct DlDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    ndim: i32,
    dtype: DlDataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: DlTensor,
}

/// What a tensor that was given away keeps: itself, and the lists that the struct points at.
struct Given {
    _tensor: Tensor,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

/// Dtypes by the name that both sides agree on, with DLPack's code and bits.
const DTYPES: &[(&str, u8, u8)] = &[
    ("int8", 0, 8),
    ("int16", 0, 16),
    ("int32", 0, 32),
    ("int64", 0, 64),
    ("uint8", 1, 8),
    ("uint16", 1, 16),
    ("uint32", 1, 32),
    ("uint64", 1, 64),
    ("float16", 2, 16),
    ("float32", 2, 32),
    ("float64", 2, 64),
    ("bfloat16", 4, 16),
    ("complex64", 5, 64),
    ("complex128", 5, 128),
    ("bool", 6, 8),
];

fn describe(x: &Tensor, given: &mut Given) -> PyResult<DlTensor> {
    let Some((_, code, bits)) = DTYPES.iter().find(|(name, ..)| *name == x.dtype().name()) else {
        return Err(PyBufferError::new_err(format!("torch.{} has no DLPack type", x.dtype().name())));
    };
    Ok(DlTensor {
        data: x.data_ptr() as *mut c_void,
        device: DlDevice { kind: CPU, id: 0 },
        ndim: given.shape.len() as i32,
        dtype: DlDataType { code: *code, bits: *bits, lanes: 1 },
        shape: given.shape.as_mut_ptr(),
        strides: given.strides.as_mut_ptr(),
        byte_offset: 0,
    })
}

unsafe extern "C" fn delete_managed(p: *mut Managed) {
    // SAFETY: both were leaked by `export`, and the consumer calls this once.
    unsafe {
        drop(Box::from_raw((*p).context.cast::<Given>()));
        drop(Box::from_raw(p));
    }
}
unsafe extern "C" fn delete_versioned(p: *mut Versioned) {
    // SAFETY: as above.
    unsafe {
        drop(Box::from_raw((*p).context.cast::<Given>()));
        drop(Box::from_raw(p));
    }
}

/// A capsule that nobody consumed frees its tensor; a consumed one has another name.
unsafe extern "C" fn drop_capsule(o: *mut ffi::PyObject) {
    // SAFETY: called by the interpreter with the capsule, whose name says what it holds.
    unsafe {
        if ffi::PyCapsule_IsValid(o, NAME.as_ptr()) != 0 {
            release(ffi::PyCapsule_GetPointer(o, NAME.as_ptr()).cast::<Managed>());
        } else if ffi::PyCapsule_IsValid(o, NAME_VERSIONED.as_ptr()) != 0 {
            release_versioned(ffi::PyCapsule_GetPointer(o, NAME_VERSIONED.as_ptr()).cast::<Versioned>());
        }
    }
}

unsafe fn release(p: *mut Managed) {
    // SAFETY: the owner gives it up.
    unsafe {
        if let Some(f) = (*p).deleter {
            f(p);
        }
    }
}
unsafe fn release_versioned(p: *mut Versioned) {
    // SAFETY: as above.
    unsafe {
        if let Some(f) = (*p).deleter {
            f(p);
        }
    }
}

/// A capsule with the tensor, which it keeps alive.
#[pyfunction]
fn _to_dlpack<'py>(x: &Bound<'py, PyAny>, versioned: bool, copied: bool) -> PyResult<Bound<'py, PyAny>> {
    let Some(t) = extract(x) else { return Err(PyTypeError::new_err("to_dlpack(): argument must be Tensor")) };
    if t.device().kind != DeviceKind::Cpu {
        return Err(PyBufferError::new_err(format!("Cannot pack tensors on {}", t.device())));
    }
    let mut given = Box::new(Given {
        _tensor: t.clone(),
        shape: t.dims().iter().map(|&n| n as i64).collect(),
        strides: t.strides().iter().map(|&n| n as i64).collect(),
    });
    let tensor = describe(t, &mut given)?;
    let context = Box::into_raw(given).cast();
    let (p, name): (*mut c_void, _) = if versioned {
        let flags = if copied { IS_COPIED } else { 0 };
        let v = Versioned { major: 1, minor: 0, context, deleter: Some(delete_versioned), flags, tensor };
        (Box::into_raw(Box::new(v)).cast(), NAME_VERSIONED)
    } else {
        let m = Managed { tensor, context, deleter: Some(delete_managed) };
        (Box::into_raw(Box::new(m)).cast(), NAME)
    };
    // SAFETY: the pointer is not null; the destructor knows what the name stands for.
    unsafe { Bound::from_owned_ptr_or_err(x.py(), ffi::PyCapsule_New(p, name.as_ptr(), Some(drop_capsule))) }
}

/// Memory of another library, which hears when it is no longer used.
enum Taken {
    Managed(*mut Managed),
    Versioned(*mut Versioned),
}
// SAFETY: the struct is only handed back, with the interpreter attached.
unsafe impl Send for Taken {}
// SAFETY: as above.
unsafe impl Sync for Taken {}

impl Drop for Taken {
    fn drop(&mut self) {
        // Deleters of Python libraries touch Python objects.
        Python::try_attach(|_| {
            // SAFETY: taken over from the capsule, and given back once.
            unsafe {
                match *self {
                    Taken::Managed(p) => release(p),
                    Taken::Versioned(p) => release_versioned(p),
                }
            }
        });
    }
}

const CONSUMED: &str = "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you might have already constructed a tensor from it once.";

/// A tensor on the memory that a capsule stands for, and whether that memory may only be read.
#[pyfunction]
fn _from_dlpack<'py>(capsule: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, bool)> {
    let py = capsule.py();
    let o = capsule.as_ptr();
    // SAFETY: a living object; a capsule with one of the two names holds the struct of that name.
    let (t, taken, read_only) = unsafe {
        if ffi::PyCapsule_IsValid(o, NAME_VERSIONED.as_ptr()) != 0 {
            let p = ffi::PyCapsule_GetPointer(o, NAME_VERSIONED.as_ptr()).cast::<Versioned>();
            if (*p).major > 1 {
                return Err(PyRuntimeError::new_err(format!(
                    "from_dlpack: version {}.{} of DLPack is not supported",
                    (*p).major,
                    (*p).minor
                )));
            }
            (&(*p).tensor, Taken::Versioned(p), (*p).flags & READ_ONLY != 0)
        } else if ffi::PyCapsule_IsValid(o, NAME.as_ptr()) != 0 {
            let p = ffi::PyCapsule_GetPointer(o, NAME.as_ptr()).cast::<Managed>();
            (&(*p).tensor, Taken::Managed(p), false)
        } else {
            return Err(PyRuntimeError::new_err(CONSUMED));
        }
    };
    let versioned = matches!(taken, Taken::Versioned(_));
    // Until all checks have passed the capsule stays the owner.
    let taken = std::mem::ManuallyDrop::new(taken);
    let (meta, strides, data) = layout(t)?;
    let used = if versioned { USED_VERSIONED } else { USED };
    // SAFETY: the capsule is one; its new name says that it was consumed, so its destructor leaves the struct alone.
    if unsafe { ffi::PyCapsule_SetName(o, used.as_ptr()) } != 0 {
        return Err(PyErr::fetch(py));
    }
    let taken = std::mem::ManuallyDrop::into_inner(taken);
    let x = if meta.numel() == 0 {
        drop(taken);
        Tensor::empty(&meta).or_raise()?
    } else {
        // SAFETY: the producer says that its memory reaches over these sizes and strides until the deleter is called;
        // `layout` has checked that they are not negative, and the alignment.
        unsafe { Tensor::from_foreign(&meta, &strides, data, Box::new(taken)) }
    };
    Ok((to_python(py, x)?, read_only))
}

/// What another library's struct describes, as far as a tensor here can be it.
fn layout(t: &DlTensor) -> PyResult<(Meta, Vec<usize>, *mut u8)> {
    if t.device.kind != CPU {
        return Err(PyBufferError::new_err(format!(
            "from_dlpack: memory of DLPack device type {} cannot be used here: only that of the host (1) can; copy it there first",
            t.device.kind
        )));
    }
    let found = DTYPES.iter().find(|(_, code, bits)| (*code, *bits, 1) == (t.dtype.code, t.dtype.bits, t.dtype.lanes));
    let dtype = found.and_then(|(name, ..)| DType::ALL.into_iter().find(|d| d.name() == *name));
    let Some(dtype) = dtype else {
        return Err(PyBufferError::new_err(format!(
            "from_dlpack: there is no dtype for DLPack code {} with {} bits and {} lanes",
            t.dtype.code, t.dtype.bits, t.dtype.lanes
        )));
    };
    let rank =
        usize::try_from(t.ndim).map_err(|_| PyBufferError::new_err("from_dlpack: negative number of dimensions"))?;
    // SAFETY: the producer's lists have `ndim` entries; strides may be missing.
    let (shape, strides) = unsafe {
        let list = |p: *mut i64| if rank == 0 { &[] } else { std::slice::from_raw_parts(p.cast_const(), rank) };
        if rank > 0 && t.shape == null_mut() {
            return Err(PyBufferError::new_err("from_dlpack: no shape"));
        }
        (list(t.shape), if t.strides.is_null() { None } else { Some(list(t.strides)) })
    };
    let sizes: Vec<usize> = shape
        .iter()
        .map(|&n| usize::try_from(n).map_err(|_| PyBufferError::new_err(format!("from_dlpack: negative size {n}"))))
        .collect::<PyResult<_>>()?;
    let dims = Dims::try_new(&sizes).or_raise()?;
    let meta = Meta { dims, dtype, device: Device::CPU };
    let strides: Vec<usize> = match strides {
        None => dims.contiguous_strides().to_vec(),
        Some(s) => s
            .iter()
            .zip(&sizes)
            .map(|(&s, &n)| match usize::try_from(s) {
                Ok(s) => Ok(s),
                Err(_) if n <= 1 => Ok(1), // never taken
                Err(_) => Err(PyBufferError::new_err(
                    "from_dlpack: tensors with negative strides are not supported; copy the array first",
                )),
            })
            .collect::<PyResult<_>>()?,
    };
    let data = (t.data as usize).wrapping_add(t.byte_offset as usize);
    if meta.numel() > 0 && (data == 0 || data % dtype.size_bytes().min(8) != 0) {
        return Err(PyBufferError::new_err(
            "from_dlpack: the memory is not aligned to its element size; copy the array first",
        ));
    }
    Ok((meta, strides, data as *mut u8))
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_to_dlpack, m)?)?;
    m.add_function(wrap_pyfunction!(_from_dlpack, m)?)
}
