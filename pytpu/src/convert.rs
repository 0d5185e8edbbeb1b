//! Python's numbers, lists and arrays to tensors, and back.

use crate::enter::{self, Failure, OrRaise, Outcome};
use crate::objects::{self, new_object, part_of};
use crate::tensor_type::{is_tensor, tensor_of};
use crate::{device, dtype, tensor_type, torch_dispatch, torch_function};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi::*;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use std::ptr::null_mut;
use torchtpu_kernels::memory;
use torchtpu_tensor::{DType, Device, Meta, Place, Scalar, Tensor, default_dtype, state, warning};

/// Return whether an object shares its memory by NumPy's array interface. NumPy's scalars have one too, but their
/// memory is freed right after the call.
///
/// # Safety
/// `o` is an object.
pub unsafe fn is_array(o: *mut PyObject) -> bool {
    // SAFETY: `o` is an object. Looked up on the type, so that nothing is built to answer.
    unsafe {
        let ty = Py_TYPE(o).cast();
        PyObject_HasAttrString(ty, c"__array_interface__".as_ptr()) == 1
            && PyObject_HasAttrString(ty, c"__setitem__".as_ptr()) == 1
    }
}

/// `torch.tensor`: a new tensor with a copy of the data.
///
/// # Errors
/// Ragged lists, objects that are not numbers, numbers that the dtype cannot hold.
///
/// # Safety
/// `o` is an object; the GIL is held.
pub unsafe fn tensor(o: *mut PyObject, dtype: Option<DType>, device: Option<Device>) -> Outcome<Tensor> {
    // SAFETY: `o` is an object, and the GIL is held.
    unsafe {
        if is_tensor(o) {
            let x = tensor_of(o).clone();
            let t = enter::work(x.numel(), || {
                torchtpu_tensor::no_grad(|| {
                    let y = x
                        .detach()
                        .to_device(device.map_or_else(|| Ok(x.place()), |d| torchtpu_tensor::backend::moved(&x, d))?)?
                        .to_dtype(dtype.unwrap_or(x.dtype()))?;
                    if y.shares_storage(&x) { y.copy() } else { Ok(y) }
                })
            })?;
            return Ok(t.detach());
        }
        let place = device::of_new(device);
        if is_array(o) {
            let t = Python::attach(|py| from_array_interface(&Bound::from_borrowed_ptr(py, o)))?;
            let t = t.to_dtype(dtype.unwrap_or(t.dtype()))?;
            let t = if t.storage_bytes() > 0 && dtype.is_none_or(|d| d == t.dtype()) { t.copy()? } else { t };
            return Ok(t.to_device(place)?);
        }
        if PyList_Check(o) != 0 && PyList_Size(o) > 0 && is_array(PyList_GetItem(o, 0)) {
            torchtpu_tensor::warn_once!(
                "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider converting the \
                list to a single numpy.ndarray with numpy.array() before converting to a tensor.",
            )?;
        }
        if let Some(t) = from_exporter(o)? {
            return tensor(t.as_ptr(), dtype, Some(place.device));
        }
        let mut dims = Vec::new();
        shape_of(o, &mut dims)?;
        let mut data = Numbers { values: Vec::new(), kind: None, odd: None, has_large: false };
        read(o, &dims, 0, &mut data, dtype)?;
        let dtype = dtype.unwrap_or(data.kind.unwrap_or_else(default_dtype));
        if let Some(odd) = data.odd {
            return Err(no_number(&odd, dtype));
        }
        if data.has_large && dtype.is_int() {
            return Err(PyValueError::new_err("Overflow when unpacking long long").into());
        }
        let t = from_numbers(&data.values, &dims, dtype)?;
        Ok(t.to_device(place)?)
    }
}

/// Return a tensor on the memory of an object that exports it by DLPack, unless the object is a number or a sequence.
///
/// # Safety
/// `o` is an object; the GIL is held.
unsafe fn from_exporter(o: *mut PyObject) -> Outcome<Option<Py<PyAny>>> {
    // SAFETY: `o` is an object, and the GIL is held.
    unsafe {
        if PyFloat_Check(o) != 0 || PyLong_Check(o) != 0 || PySequence_Check(o) != 0 {
            return Ok(None);
        }
        if PyObject_HasAttrString(Py_TYPE(o).cast(), c"__dlpack__".as_ptr()) == 0 {
            return Ok(None);
        }
        Python::attach(|py| {
            let from = py.import("pytpu.utils.dlpack")?.getattr("from_dlpack")?;
            Ok(Some(from.call1((Bound::from_borrowed_ptr(py, o),))?.unbind()))
        })
    }
}

/// Mark a new tensor as an inference tensor in inference mode.
pub fn mark_inference(t: Tensor) -> Tensor {
    if state::is_inference() {
        t.mark_inference();
    }
    t
}

struct Numbers {
    values: Vec<Scalar>,
    /// The dtype that holds what was seen so far.
    kind: Option<DType>,
    /// The type of the first object that is not a number. The error depends on the dtype.
    odd: Option<String>,
    /// Whether some integer has more than 64 bits.
    has_large: bool,
}

impl Numbers {
    /// Take an integer of more than 64 bits, which floating-point dtypes round.
    ///
    /// # Safety
    /// `o` is an integer object.
    unsafe fn push_large(&mut self, o: *mut PyObject) -> Outcome<()> {
        // SAFETY: `o` is an integer object.
        let exact = unsafe { PyLong_AsUnsignedLongLong(o) };
        // SAFETY: the GIL is held.
        if exact != u64::MAX || unsafe { PyErr_Occurred() }.is_null() {
            self.push(Scalar::Unsigned(exact), DType::I64);
            self.has_large = true;
            return Ok(());
        }
        // SAFETY: the GIL is held, and `o` is an integer object.
        let v = unsafe {
            PyErr_Clear();
            PyLong_AsDouble(o)
        };
        // SAFETY: the GIL is held.
        if v == -1.0 && !unsafe { PyErr_Occurred() }.is_null() {
            return Err(Failure::Raised);
        }
        self.push(Scalar::Float(v), DType::I64);
        self.has_large = true;
        Ok(())
    }
    fn push(&mut self, v: Scalar, kind: DType) {
        if self.values.len() == self.values.capacity() {
            memory::reserve(&mut self.values, 1);
        }
        self.values.push(v);
        self.kind = Some(match self.kind {
            None => kind,
            Some(k) => torchtpu_tensor::promote_types(k, kind),
        });
    }
}

/// # Safety
/// `o` is an object.
unsafe fn is_sequence(o: *mut PyObject) -> bool {
    // SAFETY: `o` is an object. Strings and dictionaries are none here.
    unsafe {
        PyList_Check(o) != 0
            || PyTuple_Check(o) != 0
            || (PySequence_Check(o) != 0
                && PyUnicode_Check(o) == 0
                && PyBytes_Check(o) == 0
                && !is_tensor(o)
                && !is_array(o))
    }
}

/// # Safety
/// `o` is a sequence.
unsafe fn entry(o: *mut PyObject, i: usize) -> Outcome<*mut PyObject> {
    // SAFETY: `o` is a sequence. A new reference.
    unsafe {
        let e = PySequence_GetItem(o, i as Py_ssize_t);
        if e.is_null() { Err(Failure::Raised) } else { Ok(e) }
    }
}

/// Sizes by the first elements.
///
/// # Safety
/// `o` is an object.
unsafe fn shape_of(o: *mut PyObject, dims: &mut Vec<usize>) -> Outcome<()> {
    // SAFETY: `o` is an object. `first` is released after its use.
    unsafe {
        // A tensor in a list stands for its one element.
        if is_tensor(o) {
            return Ok(());
        }
        // A string is a sequence of strings, without end.
        if PyUnicode_Check(o) != 0 && !dims.is_empty() {
            return Err(PyValueError::new_err("too many dimensions 'str'").into());
        }
        if is_array(o) {
            let t = Python::attach(|py| from_array_interface(&Bound::from_borrowed_ptr(py, o)))?;
            dims.extend(t.dims().iter());
            return Ok(());
        }
        if !is_sequence(o) {
            return Ok(());
        }
        let n = PySequence_Size(o);
        if n < 0 {
            return Err(Failure::Raised);
        }
        dims.push(n as usize);
        if dims.len() > 128 {
            return Err(PyValueError::new_err("too many dimensions 'list'").into());
        }
        if n > 0 {
            let first = entry(o, 0)?;
            let r = shape_of(first, dims);
            Py_DECREF(first);
            r?;
        }
        Ok(())
    }
}

/// # Safety
/// `o` is an object.
unsafe fn read(o: *mut PyObject, dims: &[usize], depth: usize, out: &mut Numbers, dtype: Option<DType>) -> Outcome<()> {
    // SAFETY: `o` is an object.
    unsafe {
        if is_tensor(o) || is_array(o) {
            let t = tensor(o, None, Some(Device::CPU))?;
            if is_tensor(o) && depth == dims.len() {
                if t.numel() == 1 {
                    out.push(t.item()?, t.dtype());
                } else {
                    out.kind = Some(out.kind.map_or(t.dtype(), |k| torchtpu_tensor::promote_types(k, t.dtype())));
                    out.odd.get_or_insert_with(|| "Tensor".into());
                }
                return Ok(());
            }
            if t.dims()[..] != dims[depth..] {
                return Err(ragged(dims, depth, t.dims().first().copied().unwrap_or(0)));
            }
            let bits = Bits::of(&t)?;
            for i in 0..t.numel() {
                out.push(bits.get(i), t.dtype());
            }
            return Ok(());
        }
        if depth == dims.len() {
            if PyFloat_CheckExact(o) != 0 {
                out.push(Scalar::Float(PyFloat_AsDouble(o)), default_dtype());
                return Ok(());
            }
            if PyLong_Check(o) != 0 && PyBool_Check(o) == 0 {
                let v = PyLong_AsLongLong(o);
                if v == -1 && !PyErr_Occurred().is_null() {
                    PyErr_Clear();
                    return out.push_large(o);
                }
                out.push(Scalar::Int(v), DType::I64);
                return Ok(());
            }
            if let Some(s) = objects::number(o).filter(|s| !matches!(s, Scalar::Unsigned(_))) {
                // NumPy's scalars have a type of their own.
                let name = objects::type_name(o);
                let kind = name.strip_prefix("numpy.").and_then(|n| DType::ALL.into_iter().find(|d| d.name() == n));
                out.push(s, kind.unwrap_or(s.dtype()));
                return Ok(());
            }
            // NumPy's unsigned integers may be too large, like Python's.
            if PyIndex_Check(o) != 0 {
                let i = PyNumber_Index(o);
                if i.is_null() {
                    return Err(Failure::Raised);
                }
                let r = out.push_large(i);
                Py_DECREF(i);
                return r;
            }
            let name = objects::type_name(o);
            if is_sequence(o) {
                out.odd.get_or_insert_with(|| name.to_string());
                return Ok(());
            }
            return Err(match dtype {
                Some(d) if depth > 0 => no_number(&name, d),
                _ if PyUnicode_Check(o) != 0 || PyBytes_Check(o) != 0 => {
                    PyTypeError::new_err(format!("new(): invalid data type '{name}'")).into()
                }
                _ => PyRuntimeError::new_err(format!("Could not infer dtype of {name}")).into(),
            });
        }
        if !is_sequence(o) {
            return Err(PyTypeError::new_err("not a sequence").into());
        }
        let n = PySequence_Size(o);
        if n != dims[depth] as Py_ssize_t {
            return Err(ragged(dims, depth, n.max(0) as usize));
        }
        for i in 0..dims[depth] {
            let e = entry(o, i)?;
            let r = read(e, dims, depth + 1, out, dtype);
            Py_DECREF(e);
            r?;
        }
        Ok(())
    }
}

/// Return the error for an object that is not a number of a dtype.
#[cold]
fn no_number(name: &str, dtype: DType) -> Failure {
    match (name, dtype.is_inexact()) {
        ("Tensor", true) => PyValueError::new_err("only one element tensors can be converted to Python scalars"),
        ("Tensor", false) => {
            PyTypeError::new_err("only integer tensors of a single element can be converted to an index")
        }
        (_, true) => PyTypeError::new_err(format!("must be real number, not {name}")),
        (_, false) => PyTypeError::new_err(format!("'{name}' object cannot be interpreted as an integer")),
    }
    .into()
}

#[cold]
fn ragged(dims: &[usize], depth: usize, got: usize) -> Failure {
    let want = dims.get(depth).copied().unwrap_or(0);
    PyValueError::new_err(format!("expected sequence of length {want} at dim {depth} (got {got})")).into()
}

/// Return whether an integer dtype has the whole part of a float.
fn holds(v: f64, dtype: DType) -> bool {
    let bits = 8 * dtype.size_bytes() as i32;
    let (low, high) = match dtype {
        DType::U8 => (0.0, 255.0),
        DType::I64 => (-2f64.powi(63), 2f64.powi(63)),
        _ => (-2f64.powi(bits - 1), 2f64.powi(bits - 1) - 1.0),
    };
    (low..=high).contains(&v)
}

fn from_numbers(values: &[Scalar], dims: &[usize], dtype: DType) -> Outcome<Tensor> {
    let size = dtype.size_bytes();
    let mut bytes = memory::with_capacity(values.len() * size);
    for v in values {
        if v.is_complex() && !dtype.is_complex() {
            return Err(PyTypeError::new_err(match dtype.is_int() {
                true => "'complex' object cannot be interpreted as an integer",
                false => "must be real number, not complex",
            })
            .into());
        }
        let fits = match (v, dtype) {
            (Scalar::Int(i), DType::U8) => u8::try_from(*i).is_ok() || i8::try_from(*i).is_ok(),
            (Scalar::Int(i), DType::I8) => i8::try_from(*i).is_ok(),
            (Scalar::Int(i), DType::I16) => i16::try_from(*i).is_ok(),
            (Scalar::Int(i), DType::I32) => i32::try_from(*i).is_ok(),
            (Scalar::Int(i), DType::U16) => i.unsigned_abs() >> 16 == 0,
            (Scalar::Int(i), DType::U32) => i.unsigned_abs() >> 32 == 0,
            (Scalar::Unsigned(_), DType::U16 | DType::U32) => false,
            (Scalar::Float(f), d) if d.is_int() => holds(*f, d),
            _ => true,
        };
        if !fits {
            return Err(PyRuntimeError::new_err(format!(
                "value cannot be converted to type {} without overflow",
                dtype.name()
            ))
            .into());
        }
        bytes.extend_from_slice(&v.bits(dtype).to_le_bytes()[..size]);
    }
    Ok(Tensor::from_bytes(&bytes, dims, dtype)?)
}

/// Elements of a contiguous host tensor as numbers.
struct Bits {
    bytes: Vec<u8>,
    dtype: DType,
}

impl Bits {
    fn of(t: &Tensor) -> Outcome<Bits> {
        Ok(Bits { bytes: enter::without_gil(|| t.to_bytes())?, dtype: t.dtype() })
    }
    fn get(&self, i: usize) -> Scalar {
        let size = self.dtype.size_bytes();
        let mut b = [0u8; 16];
        b[..size].copy_from_slice(&self.bytes[i * size..(i + 1) * size]);
        Scalar::from_bits(u128::from_le_bytes(b), self.dtype)
    }
}

/// Return nested lists of Python numbers, or a number for a 0-d tensor. A new reference.
///
/// # Errors
/// Errors of reading from the device.
pub fn to_list(t: &Tensor) -> Outcome {
    fn level(bits: &Bits, dims: &[usize], from: &mut usize) -> Outcome {
        let Some((n, rest)) = dims.split_first() else {
            *from += 1;
            return new_object(objects::number_object(bits.get(*from - 1)));
        };
        // SAFETY: the GIL is held, and the list is filled before other code sees it.
        unsafe {
            let list = new_object(PyList_New(*n as Py_ssize_t))?;
            for i in 0..*n {
                let item = level(bits, rest, from).unwrap_or(null_mut());
                PyList_SetItem(list, i as Py_ssize_t, part_of(list, item)?);
                if i & 0xfff == 0xfff && PyErr_CheckSignals() != 0 {
                    Py_DECREF(list);
                    return Err(Failure::Raised);
                }
            }
            Ok(list)
        }
    }
    // Take a handle: while the bytes are read without the GIL, the object may get another tensor.
    let t = t.clone();
    let bits = Bits::of(&t)?;
    level(&bits, t.dims(), &mut 0)
}

/// Return NumPy's name for a dtype. `bfloat16` and floats of 8 bits have none.
pub fn typestr(d: DType) -> Option<&'static str> {
    Some(match d {
        DType::Bool => "|b1",
        DType::U8 => "|u1",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::C64 => "<c8",
        DType::C128 => "<c16",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        _ => return None,
    })
}

/// An object that owns memory. Dropping this releases it at once, while PyO3 alone may defer that.
struct Kept(Option<Py<PyAny>>);

impl Drop for Kept {
    fn drop(&mut self) {
        Python::try_attach(|_| drop(self.0.take()));
    }
}

/// A tensor on an array's memory.
///
/// # Errors
/// Dtypes and strides that tensors cannot have.
pub fn from_array_interface(array: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    from_interface(array, &array.getattr("__array_interface__")?)
}

fn from_interface(array: &Bound<'_, PyAny>, interface: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let d = interface.cast::<PyDict>()?;
    let get = |k: &str| d.get_item(k)?.ok_or_else(|| PyValueError::new_err(format!("__array_interface__ without {k}")));
    let name: String = get("typestr")?.extract()?;
    let mut letters = name.chars();
    let (order, kind) = (letters.next(), letters.as_str());
    let Some(dtype) = DType::ALL.into_iter().find(|d| typestr(*d).is_some_and(|t| &t[1..] == kind)) else {
        let shown =
            (array.getattr("dtype").and_then(|d| d.getattr("type")?.getattr("__name__")?.extract())).unwrap_or(name);
        return Err(PyTypeError::new_err(format!(
            "can't convert np.ndarray of type numpy.{shown}. The only supported types are: float64, float32, float16, \
            complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool."
        )));
    };
    if order == Some('>') {
        return Err(PyValueError::new_err(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is \
            currently not supported.",
        ));
    }
    let shape: Vec<usize> = get("shape")?.extract()?;
    let (address, _read_only): (usize, bool) = get("data")?.extract()?;
    let dims = torchtpu_tensor::Dims::try_new(&shape).or_raise()?;
    let size = dtype.size_bytes();
    let too_large = || PyValueError::new_err("the sizes and strides of __array_interface__ exceed the address space");
    if dims.checked_numel().and_then(|n| n.checked_mul(size)).is_none_or(|n| isize::try_from(n).is_err()) {
        return Err(too_large());
    }
    let strides = match d.get_item("strides")? {
        Some(s) if !s.is_none() => {
            let bytes: Vec<isize> = s.extract()?;
            if bytes.len() != shape.len() {
                return Err(PyValueError::new_err(format!(
                    "__array_interface__ has {} strides for {} dimensions",
                    bytes.len(),
                    shape.len()
                )));
            }
            if bytes.iter().any(|b| *b < 0) {
                return Err(PyValueError::new_err(
                    "At least one stride in the given numpy array is negative, and tensors with negative strides are \
                    not currently supported. (You can probably work around this by making a copy of your array  with \
                    array.copy().) ",
                ));
            }
            if bytes.iter().any(|b| b % size as isize != 0) {
                return Err(PyValueError::new_err(
                    "given numpy array strides not a multiple of the element byte size. Copy the numpy array to \
                    reallocate the memory.",
                ));
            }
            bytes.iter().map(|b| *b as usize / size).collect()
        }
        _ => dims.contiguous_strides().to_vec(),
    };
    let meta = Meta { dims, dtype, place: Place::CPU };
    if meta.numel() == 0 {
        return Tensor::empty(&meta).or_raise();
    }
    // Complex numbers have the alignment of their parts.
    let is_aligned = address.is_multiple_of(dtype.to_real().size_bytes());
    // The last element that sizes and strides reach.
    let reach = dims.iter().zip(&strides).try_fold(1usize, |sum, (n, s)| sum.checked_add((n - 1).checked_mul(*s)?));
    let end = reach.and_then(|n| n.checked_mul(size)).and_then(|n| n.checked_add(address));
    // Addresses of a process have at most 57 bits.
    if address == 0 || end.is_none_or(|n| n >> 57 != 0) {
        return Err(too_large());
    }
    if !is_aligned {
        torchtpu_tensor::warn_once!(
            "The given NumPy array is not aligned to its element size. Its elements are copied, so the tensor does not \
            share memory with it.",
        )
        .or_raise()?;
        let mut bytes = memory::with_capacity(meta.numel() * size);
        for place in places(&dims, &strides) {
            let from = (address + place * size) as *const u8;
            // SAFETY: the array promises that its memory covers these sizes and strides, and it lives during this call.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(from, size) });
        }
        return Tensor::from_bytes(&bytes, &dims, dtype).or_raise();
    }
    let keep = Kept(Some(array.clone().unbind()));
    // SAFETY: the array promises that its memory covers these sizes and strides. The memory lives as long as the array,
    // which the tensor keeps. The alignment was checked above.
    Ok(unsafe { Tensor::from_foreign(&meta, &strides, address as *mut u8, Box::new(keep)) })
}

/// Return the places of all elements in row-major order, in elements.
fn places(dims: &torchtpu_tensor::Dims, strides: &[usize]) -> Vec<usize> {
    let mut places = vec![0];
    for (n, step) in dims.iter().zip(strides) {
        places = places.iter().flat_map(|p| (0..*n).map(move |i| p + i * step)).collect();
    }
    places
}

/// [`from_array_interface`], with a warning, once in a process, if the array refuses writes: tensors can write to it.
fn on_array(array: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let interface = array.getattr("__array_interface__")?;
    let (_, is_read_only): (usize, bool) = interface.get_item("data")?.extract()?;
    if is_read_only {
        torchtpu_tensor::warn_once!(
            "The given NumPy array is not writable, and PyTorch does not support non-writable tensors. This means \
            writing to this tensor will result in undefined behavior. You may want to copy the array to protect its \
            data or make it writable before converting it to a tensor. This type of warning will be suppressed for \
            the rest of this program.",
        )
        .or_raise()?;
    }
    from_interface(array, &interface)
}

fn dtype_argument(o: Option<&Bound<'_, PyAny>>, function: &str) -> PyResult<Option<DType>> {
    let Some(o) = o.filter(|o| !o.is_none()) else { return Ok(None) };
    // SAFETY: the `Bound` keeps the object alive.
    match unsafe { dtype::extract(o.as_ptr()) } {
        Some(d) => Ok(Some(d)),
        None => {
            // SAFETY: the `Bound` keeps the object alive.
            if let Some(e) = unsafe { dtype::refusal(o.as_ptr()) } {
                return Err(e);
            }
            let name = o.get_type().name()?;
            Err(PyTypeError::new_err(format!("{function}(): argument 'dtype' must be torch.dtype, not {name}")))
        }
    }
}

fn device_argument(o: Option<&Bound<'_, PyAny>>, function: &str) -> PyResult<Option<Device>> {
    let Some(o) = o.filter(|o| !o.is_none()) else { return Ok(None) };
    // SAFETY: the `Bound` keeps the object alive.
    match unsafe { device::extract(o.as_ptr()) }.or_raise()? {
        Some(d) => Ok(Some(d)),
        None => {
            let name = o.get_type().name()?;
            Err(PyTypeError::new_err(format!("{function}(): argument 'device' must be torch.device, not {name}")))
        }
    }
}

/// A new tensor with a copy of the data.
#[pyfunction]
#[pyo3(name = "tensor", signature = (data, *, dtype = None, device = None, requires_grad = false, pin_memory = false))]
fn new_tensor<'py>(
    data: &Bound<'py, PyAny>,
    dtype: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
    requires_grad: bool,
    pin_memory: bool,
) -> PyResult<Bound<'py, PyAny>> {
    if torch_function::has_mode() {
        let kwargs = PyDict::new(data.py());
        for (name, value) in [("dtype", dtype), ("device", device)] {
            if let Some(value) = value {
                kwargs.set_item(name, value)?;
            }
        }
        for (name, value) in [("requires_grad", requires_grad), ("pin_memory", pin_memory)] {
            if value {
                kwargs.set_item(name, true)?;
            }
        }
        return torch_function::call_factory("tensor", data, &kwargs);
    }
    let _ = pin_memory;
    let (dtype, device) = (dtype_argument(dtype, "tensor")?, device_argument(device, "tensor")?);
    // SAFETY: `o` is alive, and the GIL is held.
    let t = unsafe {
        if is_tensor(data.as_ptr()) {
            warning::warn(
                "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or \
                sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
            )
            .or_raise()?;
        }
        tensor(data.as_ptr(), dtype, device)
    }
    .or_raise()?;
    let t = mark_inference(t);
    if requires_grad {
        if !t.dtype().is_inexact() {
            return Err(PyRuntimeError::new_err(
                "Only Tensors of floating point and complex dtype can require gradients",
            ));
        }
        t.requires_grad_(true).or_raise()?;
    }
    let made = tensor_type::to_python(data.py(), t)?;
    if torch_dispatch::is_watched() { torch_dispatch::made(made) } else { Ok(made) }
}

/// Return the data as a tensor, without a copy where that is possible.
#[pyfunction]
#[pyo3(signature = (data, dtype = None, device = None))]
fn as_tensor<'py>(
    data: &Bound<'py, PyAny>,
    dtype: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    if torch_function::has_mode() {
        let kwargs = PyDict::new(data.py());
        for (name, value) in [("dtype", dtype), ("device", device)] {
            if let Some(value) = value {
                kwargs.set_item(name, value)?;
            }
        }
        return torch_function::call_factory("as_tensor", data, &kwargs);
    }
    let (dtype, device) = (dtype_argument(dtype, "as_tensor")?, device_argument(device, "as_tensor")?);
    let py = data.py();
    if let Some(x) = tensor_type::extract(data) {
        let to = |x: &Tensor| {
            x.to_device(device.map_or_else(|| Ok(x.place()), |d| torchtpu_tensor::backend::moved(x, d))?)?
                .to_dtype(dtype.unwrap_or(x.dtype()))
        };
        return tensor_type::to_python(py, to(x).or_raise()?);
    }
    // SAFETY: `o` is alive, and the GIL is held.
    let t = unsafe {
        if is_array(data.as_ptr()) {
            let t = on_array(data)?;
            let t = t.to_dtype(dtype.unwrap_or(t.dtype())).or_raise()?;
            t.to_device(device::of_new(device)).or_raise()?
        } else {
            tensor(data.as_ptr(), dtype, device).or_raise()?
        }
    };
    tensor_type::to_python(py, mark_inference(t))
}

/// A tensor that shares its memory with a NumPy array.
#[pyfunction]
fn from_numpy<'py>(ndarray: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the `Bound` keeps the object alive.
    if !unsafe { is_array(ndarray.as_ptr()) } {
        let name = ndarray.get_type().name()?;
        return Err(PyTypeError::new_err(format!("expected np.ndarray (got {name})")));
    }
    let t = on_array(ndarray)?;
    let t = t.to_device(torchtpu_tensor::fake::place_of_new(t.device())).or_raise()?;
    tensor_type::to_python(ndarray.py(), mark_inference(t))
}

/// Return NumPy's `__array_interface__` of a host tensor, and a new tensor on the same memory. The user of the
/// interface must hold this tensor, since the object `x` may get other memory at any time. The storage keeps its size
/// from now on.
#[pyfunction]
fn _array_interface<'py>(x: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyAny>)> {
    let py = x.py();
    let t = tensor_type::extract(x).ok_or_else(|| PyTypeError::new_err("expected a Tensor"))?;
    if t.is_lazy() {
        let bit = if t.is_conj() { "conj" } else { "neg" };
        let name = if t.is_conj() { "conjugate" } else { "negative" };
        return Err(PyRuntimeError::new_err(format!(
            "Can't call numpy() on Tensor that has {name} bit set. Use tensor.resolve_{bit}().numpy() instead."
        )));
    }
    if !t.place().in_memory() {
        return Err(PyRuntimeError::new_err(".numpy() is not supported for tensor subclasses."));
    }
    let Some(name) = typestr(t.dtype()) else {
        return Err(PyTypeError::new_err(format!("Got unsupported ScalarType {}", t.dtype().scalar_type())));
    };
    let size = t.dtype().size_bytes();
    let d = PyDict::new(py);
    d.set_item("version", 3)?;
    d.set_item("typestr", PyString::new(py, name))?;
    d.set_item("shape", PyTuple::new(py, t.dims().iter())?)?;
    d.set_item("strides", PyTuple::new(py, t.strides().iter().map(|s| s * size))?)?;
    d.set_item("data", (t.data_ptr(), false))?;
    t.mark_exported();
    Ok((d, tensor_type::to_python(py, t.detach())?))
}

/// Return the elements' bytes in row-major order, for `torch.save`.
#[pyfunction]
fn _to_bytes<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, pyo3::types::PyBytes>> {
    let t = tensor_type::extract(x).ok_or_else(|| PyTypeError::new_err("expected a Tensor"))?.clone();
    let bits = Bits::of(&t).or_raise()?;
    pyo3::types::PyBytes::new_with(x.py(), bits.bytes.len(), |to| {
        to.copy_from_slice(&bits.bytes);
        Ok(())
    })
}

/// Make a one-dimensional tensor from bytes, for `torch.load` and `torch.frombuffer`.
#[pyfunction]
fn _from_bytes<'py>(py: Python<'py>, bytes: &[u8], dtype: &dtype::PyDType) -> PyResult<Bound<'py, PyAny>> {
    let dtype = dtype.served()?;
    let size = dtype.size_bytes();
    if !bytes.len().is_multiple_of(size) {
        return Err(PyValueError::new_err(format!(
            "buffer length ({} bytes) must be a multiple of element size ({size})",
            bytes.len()
        )));
    }
    tensor_type::to_python(py, Tensor::from_bytes(bytes, &[bytes.len() / size], dtype).or_raise()?)
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(new_tensor, m)?)?;
    m.add_function(wrap_pyfunction!(as_tensor, m)?)?;
    m.add_function(wrap_pyfunction!(from_numpy, m)?)?;
    m.add_function(wrap_pyfunction!(_array_interface, m)?)?;
    m.add_function(wrap_pyfunction!(_to_bytes, m)?)?;
    m.add_function(wrap_pyfunction!(_from_bytes, m)?)?;
    Ok(())
}
