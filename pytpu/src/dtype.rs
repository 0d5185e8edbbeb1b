//! `torch.dtype`, `torch.layout`, `torch.memory_format`.

use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError, PyTypeError};
use pyo3::ffi::*;
use pyo3::prelude::*;
use std::sync::OnceLock;
use torchtpu_tensor::{DType, can_cast, default_dtype, promote_types, set_default_dtype};

/// The type of a tensor's elements.
#[pyclass(frozen, eq, hash, name = "dtype", module = "torch")]
#[derive(PartialEq, Eq, Hash)]
pub struct PyDType(pub DType);

#[pymethods]
impl PyDType {
    fn __repr__(&self) -> String {
        format!("torch.{}", self.0.name())
    }
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (&'static str,))> {
        Ok((py.import("pytpu._C")?.getattr("_dtype_of")?, (self.0.name(),)))
    }
    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }
    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }
    #[getter]
    fn is_floating_point(&self) -> bool {
        self.0.is_float()
    }
    #[getter]
    fn is_complex(&self) -> bool {
        self.0.is_complex()
    }
    #[getter]
    fn is_signed(&self) -> bool {
        !matches!(self.0, DType::Bool | DType::U8)
    }
    #[getter]
    fn itemsize(&self) -> usize {
        self.0.size_bytes()
    }
    fn to_real<'py>(&self, py: Python<'py>) -> Bound<'py, PyDType> {
        object(py, self.0.to_real())
    }
    fn to_complex<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDType>> {
        match self.0 {
            DType::F16 | DType::BF16 => {
                Err(PyNotImplementedError::new_err(format!("complex numbers of {} are not supported", self.0.name())))
            }
            d => d
                .to_complex()
                .map(|d| object(py, d))
                .ok_or_else(|| PyRuntimeError::new_err(format!("Unknown Complex ScalarType for {}", d.scalar_type()))),
        }
    }
    #[getter]
    fn _scalar_type(&self) -> &'static str {
        self.0.scalar_type()
    }
}

static OBJECTS: OnceLock<Vec<Py<PyDType>>> = OnceLock::new();

/// The object of a dtype.
pub fn object(py: Python<'_>, d: DType) -> Bound<'_, PyDType> {
    OBJECTS.get().expect("set at import")[d as usize].bind(py).clone()
}

/// A dtype argument: a dtype, or one of Python's own types, which have 64 bits, whatever the default dtype is.
///
/// # Safety
/// `o` is an object.
pub unsafe fn extract(o: *mut PyObject) -> Option<DType> {
    if o == (&raw mut PyFloat_Type).cast() {
        return Some(DType::F64);
    }
    if o == (&raw mut PyLong_Type).cast() {
        return Some(DType::I64);
    }
    if o == (&raw mut PyBool_Type).cast() {
        return Some(DType::Bool);
    }
    if o == (&raw mut PyComplex_Type).cast() {
        return Some(DType::C128);
    }
    Python::attach(|py| {
        // SAFETY: by the contract.
        let o = unsafe { Bound::from_borrowed_ptr(py, o) };
        o.cast::<PyDType>().ok().map(|d| d.get().0)
    })
}

/// How elements are stored; one of `torch.strided`, `torch.channels_last`, ...
#[pyclass(frozen, name = "layout", module = "torch")]
struct PyLayout(&'static str);
#[pymethods]
impl PyLayout {
    fn __repr__(&self) -> String {
        format!("torch.{}", self.0)
    }
    fn __reduce__(&self) -> &'static str {
        self.0
    }
}

/// The order of elements in memory.
#[pyclass(frozen, name = "memory_format", module = "torch")]
struct PyMemoryFormat(&'static str);
#[pymethods]
impl PyMemoryFormat {
    fn __repr__(&self) -> String {
        format!("torch.{}", self.0)
    }
    fn __reduce__(&self) -> &'static str {
        self.0
    }
}

/// Whether `o` is a layout or memory format that is served. A memory format is a hint about speed: values are the same.
///
/// # Safety
/// `o` is an object.
pub unsafe fn is_default_layout(o: *mut PyObject) -> bool {
    Python::attach(|py| {
        // SAFETY: by the contract.
        let o = unsafe { Bound::from_borrowed_ptr(py, o) };
        o.cast::<PyLayout>().is_ok_and(|l| l.get().0 == "strided") || o.is_instance_of::<PyMemoryFormat>()
    })
}

/// The dtype of a name; what pickles call.
#[pyfunction]
fn _dtype_of<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDType>> {
    match DType::ALL.into_iter().find(|d| d.name() == name) {
        Some(d) => Ok(object(py, d)),
        None => Err(pyo3::exceptions::PyValueError::new_err(format!("unknown dtype {name}"))),
    }
}

#[pyfunction]
fn get_default_dtype(py: Python<'_>) -> Bound<'_, PyDType> {
    object(py, default_dtype())
}

#[pyfunction]
#[pyo3(name = "set_default_dtype")]
fn set_default(d: &Bound<'_, PyAny>) -> PyResult<()> {
    // SAFETY: a living object.
    match unsafe { extract(d.as_ptr()) } {
        Some(d) if d.is_float() => {
            set_default_dtype(d);
            Ok(())
        }
        _ => Err(PyTypeError::new_err("only floating-point types are supported as the default type")),
    }
}

#[pyfunction]
#[pyo3(name = "promote_types")]
fn promote<'py>(py: Python<'py>, type1: &PyDType, type2: &PyDType) -> Bound<'py, PyDType> {
    object(py, promote_types(type1.0, type2.0))
}

/// The dtype in which two tensors or numbers meet.
#[pyfunction]
#[pyo3(name = "result_type")]
fn result_type_of<'py>(
    py: Python<'py>,
    tensor1: &Bound<'py, PyAny>,
    tensor2: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDType>> {
    let operand = |o: &Bound<'py, PyAny>| {
        // SAFETY: the caller holds both objects until the function returns.
        unsafe { crate::number::operand(o.as_ptr()) }.ok_or_else(|| {
            // SAFETY: as above.
            let got = unsafe { crate::arguments::type_name(o.as_ptr()) };
            PyTypeError::new_err(format!("result_type() takes tensors and numbers, not {got}"))
        })
    };
    Ok(object(py, torchtpu_tensor::ops::pointwise::result_type(operand(tensor1)?, operand(tensor2)?)))
}

#[pyfunction]
#[pyo3(name = "can_cast")]
fn cast_allowed(from_: &PyDType, to: &PyDType) -> bool {
    can_cast(from_.0, to.0)
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    m.add_class::<PyDType>()?;
    m.add_class::<PyLayout>()?;
    m.add_class::<PyMemoryFormat>()?;
    let all = DType::ALL.iter().map(|d| Py::new(py, PyDType(*d))).collect::<PyResult<Vec<_>>>()?;
    OBJECTS.get_or_init(|| all);
    for d in DType::ALL {
        let o = object(py, d);
        m.add(d.name(), &o)?;
        let alias = match d {
            DType::I16 => "short",
            DType::I32 => "int",
            DType::I64 => "long",
            DType::F16 => "half",
            DType::F32 => "float",
            DType::F64 => "double",
            DType::C64 => "cfloat",
            DType::C128 => "cdouble",
            _ => continue,
        };
        m.add(alias, o)?;
    }
    for name in ["strided", "sparse_coo", "sparse_csr"] {
        m.add(name, Py::new(py, PyLayout(name))?)?;
    }
    for name in ["contiguous_format", "preserve_format", "channels_last", "channels_last_3d"] {
        m.add(name, Py::new(py, PyMemoryFormat(name))?)?;
    }
    m.add_function(wrap_pyfunction!(get_default_dtype, m)?)?;
    m.add_function(wrap_pyfunction!(_dtype_of, m)?)?;
    m.add_function(wrap_pyfunction!(set_default, m)?)?;
    m.add_function(wrap_pyfunction!(promote, m)?)?;
    m.add_function(wrap_pyfunction!(cast_allowed, m)?)?;
    m.add_function(wrap_pyfunction!(result_type_of, m)?)?;
    Ok(())
}
