//! `torch.dtype`, `torch.layout`, `torch.memory_format`.

use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError, PyTypeError};
use pyo3::ffi::*;
use pyo3::prelude::*;
use std::sync::OnceLock;
use torchtpu_tensor::{
    DType, MemoryFormat, can_cast, default_dtype, is_promotable, no_common_dtype, promote_types, set_default_dtype,
};

/// The type of a tensor's elements.
#[pyclass(frozen, eq, hash, name = "dtype", module = "torch")]
#[derive(PartialEq, Eq, Hash)]
pub struct PyDType(Kind);

#[derive(PartialEq, Eq, Hash)]
enum Kind {
    /// A dtype of tensors.
    Served(DType),
    /// A dtype with a name only: scripts compare with it and libraries keep it in tables, but no tensor has it.
    Named(&'static Named),
}

#[derive(PartialEq, Eq, Hash)]
struct Named {
    name: &'static str,
    /// The name in PyTorch's C++ core.
    scalar_type: &'static str,
    bytes: usize,
    class: Class,
}

#[derive(PartialEq, Eq, Hash)]
enum Class {
    Float,
    Complex,
    Int,
    UnsignedInt,
    Quantized,
}

const fn named(name: &'static str, scalar_type: &'static str, bytes: usize, class: Class) -> Named {
    Named { name, scalar_type, bytes, class }
}

static NAMED: [Named; 21] = [
    named("complex32", "ComplexHalf", 4, Class::Complex),
    named("float4_e2m1fn_x2", "Float4_e2m1fn_x2", 1, Class::Float),
    named("int1", "Int1", 1, Class::Int),
    named("int2", "Int2", 1, Class::Int),
    named("int3", "Int3", 1, Class::Int),
    named("int4", "Int4", 1, Class::Int),
    named("int5", "Int5", 1, Class::Int),
    named("int6", "Int6", 1, Class::Int),
    named("int7", "Int7", 1, Class::Int),
    named("uint1", "UInt1", 1, Class::UnsignedInt),
    named("uint2", "UInt2", 1, Class::UnsignedInt),
    named("uint3", "UInt3", 1, Class::UnsignedInt),
    named("uint4", "UInt4", 1, Class::UnsignedInt),
    named("uint5", "UInt5", 1, Class::UnsignedInt),
    named("uint6", "UInt6", 1, Class::UnsignedInt),
    named("uint7", "UInt7", 1, Class::UnsignedInt),
    named("qint8", "QInt8", 1, Class::Quantized),
    named("qint32", "QInt32", 4, Class::Quantized),
    named("quint8", "QUInt8", 1, Class::Quantized),
    named("quint4x2", "QUInt4x2", 1, Class::Quantized),
    named("quint2x4", "QUInt2x4", 1, Class::Quantized),
];

impl PyDType {
    fn name(&self) -> &'static str {
        match &self.0 {
            Kind::Served(d) => d.name(),
            Kind::Named(n) => n.name,
        }
    }

    /// Return the dtype of tensors.
    ///
    /// # Errors
    /// `NotImplementedError` for a dtype that no tensor has.
    pub fn served(&self) -> PyResult<DType> {
        match &self.0 {
            Kind::Served(d) => Ok(*d),
            Kind::Named(n) => {
                Err(PyNotImplementedError::new_err(format!("tensors of torch.{} are not supported", n.name)))
            }
        }
    }
}

#[pymethods]
impl PyDType {
    fn __repr__(&self) -> String {
        format!("torch.{}", self.name())
    }
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (&'static str,))> {
        Ok((py.import("pytpu._C")?.getattr("_dtype_of")?, (self.name(),)))
    }
    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }
    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }
    /// Whether numbers are real floating-point ones.
    #[getter]
    fn is_floating_point(&self) -> bool {
        match &self.0 {
            Kind::Served(d) => d.is_floating_point(),
            Kind::Named(n) => n.class == Class::Float,
        }
    }
    /// Whether numbers are complex.
    #[getter]
    fn is_complex(&self) -> bool {
        match &self.0 {
            Kind::Served(d) => d.is_complex(),
            Kind::Named(n) => n.class == Class::Complex,
        }
    }
    /// Whether there are negative numbers.
    #[getter]
    fn is_signed(&self) -> PyResult<bool> {
        match &self.0 {
            Kind::Served(d) => Ok(d.is_signed()),
            Kind::Named(n) if n.class == Class::Quantized => {
                Err(PyRuntimeError::new_err("isSignedType not supported for quantized types"))
            }
            Kind::Named(n) => Ok(n.class != Class::UnsignedInt),
        }
    }
    /// The size of one element in bytes.
    #[getter]
    fn itemsize(&self) -> usize {
        match &self.0 {
            Kind::Served(d) => d.size_bytes(),
            Kind::Named(n) => n.bytes,
        }
    }
    /// Return the dtype of real and imaginary parts. Return any other dtype itself.
    fn to_real<'py>(slf: &Bound<'py, Self>) -> Bound<'py, PyDType> {
        match &slf.get().0 {
            Kind::Served(d) => object(slf.py(), d.to_real()),
            Kind::Named(n) if n.class == Class::Complex => object(slf.py(), DType::F16),
            Kind::Named(_) => slf.clone(),
        }
    }
    /// Return the complex dtype whose parts have this dtype.
    fn to_complex<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDType>> {
        let py = slf.py();
        match &slf.get().0 {
            Kind::Served(DType::F16) => by_name(py, "complex32"),
            Kind::Served(DType::BF16) => {
                Err(PyNotImplementedError::new_err("complex numbers of bfloat16 are not supported"))
            }
            Kind::Named(n) if n.class == Class::Complex => Ok(slf.clone()),
            Kind::Served(d) if d.is_inexact() && d.to_complex().is_some() => {
                Ok(object(py, d.to_complex().expect("checked above")))
            }
            _ => {
                let name = slf.get()._scalar_type();
                Err(PyRuntimeError::new_err(format!("Unknown Complex ScalarType for {name}")))
            }
        }
    }
    /// The dtype's name in PyTorch's C++ code, such as `Float`.
    #[getter]
    fn _scalar_type(&self) -> &'static str {
        match &self.0 {
            Kind::Served(d) => d.scalar_type(),
            Kind::Named(n) => n.scalar_type,
        }
    }
}

/// The objects of `DType::ALL` in order, then those of `NAMED`.
static OBJECTS: OnceLock<Vec<Py<PyDType>>> = OnceLock::new();

/// The object of a dtype.
pub fn object(py: Python<'_>, d: DType) -> Bound<'_, PyDType> {
    OBJECTS.get().expect("set at import")[d as usize].bind(py).clone()
}

/// Return the dtype of an argument: a dtype, or one of Python's own types. These have 64 bits, whatever the default
/// dtype is.
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
        // SAFETY: `o` is an object.
        let o = unsafe { Bound::from_borrowed_ptr(py, o) };
        o.cast::<PyDType>().ok().and_then(|d| d.get().served().ok())
    })
}

/// Return the error for an argument that is a dtype without tensors, or `None` for any other object.
///
/// # Safety
/// `o` is an object.
pub unsafe fn refusal(o: *mut PyObject) -> Option<PyErr> {
    Python::attach(|py| {
        // SAFETY: `o` is an object.
        let o = unsafe { Bound::from_borrowed_ptr(py, o) };
        o.cast::<PyDType>().ok().and_then(|d| d.get().served().err())
    })
}

/// The order of elements in memory: `torch.contiguous_format`, `torch.channels_last`, ...
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

/// Return whether `o` is the layout that is supported.
///
/// # Safety
/// `o` is an object.
pub unsafe fn is_default_layout(o: *mut PyObject) -> bool {
    Python::attach(|py| {
        // SAFETY: `o` is an object.
        let o = unsafe { Bound::from_borrowed_ptr(py, o) };
        o.cast::<PyLayout>().is_ok_and(|l| l.get().0 == "strided")
    })
}

/// Return the memory format that `o` is, or nothing.
///
/// # Safety
/// `o` is an object.
pub unsafe fn memory_format(o: *mut PyObject) -> Option<MemoryFormat> {
    Python::attach(|py| {
        // SAFETY: `o` is an object.
        let o = unsafe { Bound::from_borrowed_ptr(py, o) };
        MemoryFormat::from_name(o.cast::<PyMemoryFormat>().ok()?.get().0)
    })
}

/// Return the dtype with this name. Pickles call this.
#[pyfunction]
#[pyo3(name = "_dtype_of")]
fn by_name<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDType>> {
    let all = OBJECTS.get().expect("set at import");
    match all.iter().find(|d| d.get().name() == name) {
        Some(d) => Ok(d.bind(py).clone()),
        None => Err(pyo3::exceptions::PyValueError::new_err(format!("unknown dtype {name}"))),
    }
}

/// Return the dtype of new floating-point tensors.
#[pyfunction]
fn get_default_dtype(py: Python<'_>) -> Bound<'_, PyDType> {
    object(py, default_dtype())
}

/// Set the dtype of new floating-point tensors. It must be a floating-point dtype.
#[pyfunction]
#[pyo3(name = "set_default_dtype")]
fn set_default(d: &Bound<'_, PyAny>) -> PyResult<()> {
    // SAFETY: the `Bound` keeps the object alive.
    match unsafe { extract(d.as_ptr()) } {
        Some(d) if d.is_float() => {
            set_default_dtype(d);
            Ok(())
        }
        _ => Err(PyTypeError::new_err("only floating-point types are supported as the default type")),
    }
}

/// Return the smallest dtype that holds the values of both dtypes.
#[pyfunction]
#[pyo3(name = "promote_types")]
fn promote<'py>(py: Python<'py>, type1: &PyDType, type2: &PyDType) -> PyResult<Bound<'py, PyDType>> {
    let (a, b) = (type1.served()?, type2.served()?);
    if !is_promotable(a, b) {
        return Err(crate::enter::exception(no_common_dtype(a, b)));
    }
    Ok(object(py, promote_types(a, b)))
}

/// Return the common dtype of two tensors or numbers.
#[pyfunction]
#[pyo3(name = "result_type")]
fn result_type_of<'py>(
    py: Python<'py>,
    tensor1: &Bound<'py, PyAny>,
    tensor2: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDType>> {
    let operand = |o: &Bound<'py, PyAny>| {
        // SAFETY: the caller holds both objects until the function returns.
        unsafe { crate::objects::operand(o.as_ptr()) }.ok_or_else(|| {
            // SAFETY: the caller holds both objects until the function returns.
            let got = unsafe { crate::objects::type_name(o.as_ptr()) };
            PyTypeError::new_err(format!("result_type() takes tensors and numbers, not {got}"))
        })
    };
    Ok(object(py, torchtpu_tensor::ops::pointwise::result_type(operand(tensor1)?, operand(tensor2)?)))
}

/// Return whether a result of dtype `from_` may be written into a tensor of dtype `to`.
#[pyfunction]
#[pyo3(name = "can_cast")]
fn cast_allowed(from_: &PyDType, to: &PyDType) -> PyResult<bool> {
    Ok(can_cast(from_.served()?, to.served()?))
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    m.add_class::<PyDType>()?;
    m.add_class::<PyLayout>()?;
    m.add_class::<PyMemoryFormat>()?;
    let served = DType::ALL.iter().map(|d| Kind::Served(*d));
    let all =
        served.chain(NAMED.iter().map(Kind::Named)).map(|k| Py::new(py, PyDType(k))).collect::<PyResult<Vec<_>>>()?;
    for d in OBJECTS.get_or_init(|| all) {
        m.add(d.get().name(), d)?;
    }
    m.add("chalf", by_name(py, "complex32")?)?;
    for d in DType::ALL {
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
        m.add(alias, object(py, d))?;
    }
    for name in ["strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged", "_mkldnn"] {
        m.add(name, Py::new(py, PyLayout(name))?)?;
    }
    for name in ["contiguous_format", "preserve_format", "channels_last", "channels_last_3d"] {
        m.add(name, Py::new(py, PyMemoryFormat(name))?)?;
    }
    m.add_function(wrap_pyfunction!(get_default_dtype, m)?)?;
    m.add_function(wrap_pyfunction!(by_name, m)?)?;
    m.add_function(wrap_pyfunction!(set_default, m)?)?;
    m.add_function(wrap_pyfunction!(promote, m)?)?;
    m.add_function(wrap_pyfunction!(cast_allowed, m)?)?;
    m.add_function(wrap_pyfunction!(result_type_of, m)?)?;
    Ok(())
}
