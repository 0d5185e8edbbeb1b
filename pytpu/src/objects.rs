//! Python objects as plain values, and plain values as Python objects.

use crate::enter::{Failure, Outcome};
use crate::tensor_type::{is_exact, is_tensor, tensor_of};
use pyo3::ffi::*;
use pyo3::prelude::*;
use std::ptr::null_mut;
use torchtpu_tensor::Scalar;
use torchtpu_tensor::schema::Operand;

/// A reference to an object, held while Python code runs that may drop the object from its container.
pub struct Held(*mut PyObject);

impl Held {
    /// # Safety
    /// `o` is an object; the GIL is held until this is dropped.
    pub unsafe fn new(o: *mut PyObject) -> Held {
        // SAFETY: `o` is an object, and the GIL is held until this is dropped.
        unsafe { Py_INCREF(o) };
        Held(o)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the caller of `new` holds the GIL until now, and `new` took this reference.
        unsafe { Py_DECREF(self.0) };
    }
}

#[inline(always)]
pub fn none() -> *mut PyObject {
    // SAFETY: a constant of the interpreter.
    unsafe { Py_None() }
}

/// # Safety
/// `o` is an object.
#[inline(always)]
pub unsafe fn is_int(o: *mut PyObject) -> bool {
    // SAFETY: `o` is an object.
    unsafe { PyLong_Check(o) != 0 && PyBool_Check(o) == 0 }
}

/// Return an integer from 2^63 to 2^64 - 1, Python's or NumPy's.
///
/// # Safety
/// `o` is an object.
#[cold]
unsafe fn unsigned(o: *mut PyObject) -> Option<Scalar> {
    // SAFETY: `o` is an object. The index is a new reference.
    unsafe {
        let index = PyNumber_Index(o);
        if index.is_null() {
            PyErr_Clear();
            return None;
        }
        let v = PyLong_AsUnsignedLongLong(index);
        Py_DECREF(index);
        if !PyErr_Occurred().is_null() {
            PyErr_Clear();
            return None;
        }
        (v > i64::MAX as u64).then_some(Scalar::Unsigned(v))
    }
}

/// Return whether an object is an integer that does not fit into `int64`.
///
/// # Safety
/// `o` is an object.
pub unsafe fn is_too_large(o: *mut PyObject) -> bool {
    // SAFETY: `o` is an object. No exception is set for an integer that does not fit.
    unsafe {
        let mut beyond = 0;
        is_int(o) && {
            PyLong_AsLongLongAndOverflow(o, &mut beyond);
            beyond != 0
        }
    }
}

/// # Safety
/// `o` is an object.
pub unsafe fn looks_like_int(o: *mut PyObject) -> bool {
    // SAFETY: `o` is an object. A tensor of one integer, and NumPy's integers, have `__index__`.
    unsafe {
        is_int(o)
            || PyBool_Check(o) == 0
                && if is_tensor(o) {
                    tensor_of(o).dims().is_empty() && !tensor_of(o).dtype().is_inexact()
                } else {
                    PyIndex_Check(o) != 0
                }
    }
}

/// Return an integer, or `None` if `o` is not one that fits 64 bits.
///
/// # Safety
/// `o` is an object.
#[inline(always)]
pub unsafe fn int(o: *mut PyObject) -> Option<i64> {
    // SAFETY: `o` is an object.
    unsafe {
        if is_int(o) {
            let v = PyLong_AsLongLong(o);
            if v == -1 && !PyErr_Occurred().is_null() {
                PyErr_Clear();
                return None;
            }
            return Some(v);
        }
        int_slow(o)
    }
}

#[cold]
unsafe fn int_slow(o: *mut PyObject) -> Option<i64> {
    // SAFETY: the caller passes the object of `int`.
    unsafe {
        let _held = Held::new(o);
        if !looks_like_int(o) {
            return None;
        }
        let i = PyNumber_Index(o);
        if i.is_null() {
            PyErr_Clear();
            return None;
        }
        let v = PyLong_AsLongLong(i);
        Py_DECREF(i);
        if v == -1 && !PyErr_Occurred().is_null() {
            PyErr_Clear();
            return None;
        }
        Some(v)
    }
}

/// Return a number: Python's, NumPy's, or a tensor of one element that needs no gradient.
///
/// # Safety
/// `o` is an object.
#[inline(always)]
pub unsafe fn number(o: *mut PyObject) -> Option<Scalar> {
    // SAFETY: `o` is an object.
    unsafe {
        if PyFloat_Check(o) != 0 {
            return Some(Scalar::Float(PyFloat_AsDouble(o)));
        }
        if PyBool_Check(o) != 0 {
            return Some(Scalar::Bool(o == Py_True()));
        }
        if PyLong_Check(o) != 0 {
            return int(o).map(Scalar::Int).or_else(|| unsigned(o));
        }
        number_slow(o)
    }
}

/// Return a number that is not a tensor.
///
/// # Safety
/// `o` is an object.
#[inline(always)]
pub unsafe fn plain_number(o: *mut PyObject) -> Option<Scalar> {
    // SAFETY: `o` is an object.
    unsafe { if is_tensor(o) { None } else { number(o) } }
}

#[cold]
unsafe fn number_slow(o: *mut PyObject) -> Option<Scalar> {
    // SAFETY: the caller passes the object of `number`.
    unsafe {
        let _held = Held::new(o);
        if is_tensor(o) {
            let t = tensor_of(o);
            return if t.dims().is_empty() && !t.requires_grad() { t.item().ok() } else { None };
        }
        if PyIndex_Check(o) != 0 {
            return int_slow(o).map(Scalar::Int).or_else(|| unsigned(o));
        }
        if PyComplex_Check(o) != 0 {
            return Some(Scalar::Complex(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o)));
        }
        if type_name(o) == "numpy.complex64" {
            let c = PyObject_CallFunctionObjArgs((&raw mut PyComplex_Type).cast(), o, null_mut::<PyObject>());
            if c.is_null() {
                PyErr_Clear();
                return None;
            }
            let v = Scalar::Complex(PyComplex_RealAsDouble(c), PyComplex_ImagAsDouble(c));
            Py_DECREF(c);
            return Some(v);
        }
        // NumPy's scalars have `__float__`. Strings and sequences have not. Arrays of one element have it, but are not
        // numbers.
        let py_float = PyType_GetSlot(Py_TYPE(o), Py_nb_float);
        if py_float.is_null() || PySequence_Check(o) != 0 {
            return None;
        }
        if is_numpy_bool(o) {
            return Some(Scalar::Bool(PyObject_IsTrue(o) == 1));
        }
        let v = PyFloat_AsDouble(o);
        if v == -1.0 && !PyErr_Occurred().is_null() {
            PyErr_Clear();
            return None;
        }
        Some(Scalar::Float(v))
    }
}

/// Return the items of a tuple or list, borrowed. If a list gets shorter during the use, missing items are `None`.
///
/// # Safety
/// `o` is an object. A caller that may run Python code must hold the item in use, since a list may drop it then.
pub unsafe fn sequence(o: *mut PyObject) -> Option<(usize, impl Fn(usize) -> *mut PyObject)> {
    // SAFETY: `o` is an object. A caller that may run Python code holds the item in use. The index is below the length.
    unsafe {
        let tuple = PyTuple_Check(o) != 0;
        if !tuple && PyList_Check(o) == 0 {
            return None;
        }
        let n = if tuple { PyTuple_Size(o) } else { PyList_Size(o) } as usize;
        Some((n, move |i: usize| {
            if tuple {
                return PyTuple_GetItem(o, i as Py_ssize_t);
            }
            let item = PyList_GetItem(o, i as Py_ssize_t);
            if !item.is_null() {
                return item;
            }
            PyErr_Clear();
            none()
        }))
    }
}

/// Return the text of a string object, borrowed from it.
///
/// # Safety
/// `o` is an object that outlives the text.
pub unsafe fn string<'a>(o: *mut PyObject) -> Option<&'a str> {
    // SAFETY: `o` is an object that outlives the text. Python gives UTF-8.
    unsafe {
        if PyUnicode_Check(o) == 0 {
            return None;
        }
        let mut n = 0;
        let p = PyUnicode_AsUTF8AndSize(o, &mut n);
        if p.is_null() {
            PyErr_Clear();
            return None;
        }
        Some(std::str::from_utf8_unchecked(std::slice::from_raw_parts(p.cast(), n as usize)))
    }
}

/// Return the name of an object's type, as messages print it.
///
/// # Safety
/// `o` is an object.
pub unsafe fn type_name(o: *mut PyObject) -> String {
    Python::attach(|py| {
        // SAFETY: `o` is an object.
        let o = unsafe { Bound::from_borrowed_ptr(py, o) };
        use pyo3::types::{PyAnyMethods, PyTypeMethods};
        let ty = o.get_type();
        let name = ty.name().map_or_else(|_| "object".into(), |n| n.to_string());
        match ty.module() {
            Ok(m) if m == "torch" && name != "Tensor" => format!("torch.{name}"),
            Ok(m) if m == "numpy" => format!("numpy.{name}"),
            _ => name,
        }
    })
}

/// Return whether an object is NumPy's `bool`.
///
/// # Safety
/// `o` is an object.
pub unsafe fn is_numpy_bool(o: *mut PyObject) -> bool {
    // SAFETY: `o` is an object.
    unsafe { type_name(o).starts_with("numpy.bool") }
}

/// Return a new object of the interpreter. Null means that the interpreter has set an exception, mostly for lack of
/// memory.
pub fn new_object(o: *mut PyObject) -> Outcome {
    if o.is_null() { Err(Failure::Raised) } else { Ok(o) }
}

/// [`new_object`] for an item of the new container `of`, which is dropped when there is no item.
///
/// # Safety
/// `of` is a new object that nobody else has seen.
pub unsafe fn part_of(of: *mut PyObject, item: *mut PyObject) -> Outcome {
    if item.is_null() {
        // SAFETY: `of` is a new object that no other code has seen. Its type accepts null for places that are not
        // filled yet.
        unsafe { Py_DECREF(of) };
        return Err(Failure::Raised);
    }
    Ok(item)
}

/// Return a number as a Python object. A new reference.
pub fn number_object(s: Scalar) -> *mut PyObject {
    // SAFETY: the GIL is held.
    unsafe {
        match s {
            Scalar::Bool(b) => PyBool_FromLong(b.into()),
            Scalar::Int(i) => PyLong_FromLongLong(i),
            Scalar::Unsigned(i) => PyLong_FromUnsignedLongLong(i),
            Scalar::Float(f) => PyFloat_FromDouble(f),
            Scalar::Complex(re, im) => PyComplex_FromDoubles(re, im),
        }
    }
}

/// Return a tensor or a number, or `None` for any other object.
///
/// # Safety
/// `o` is an object that outlives the operand.
#[inline(always)]
pub unsafe fn operand<'a>(o: *mut PyObject) -> Option<Operand<'a>> {
    // SAFETY: `o` is an object that outlives the operand.
    unsafe {
        if is_exact(o) {
            return Some(Operand::Tensor(tensor_of(o)));
        }
        if PyFloat_CheckExact(o) != 0 {
            return Some(Operand::Scalar(Scalar::Float(PyFloat_AsDouble(o))));
        }
        if PyLong_CheckExact(o) != 0 {
            return int(o).map(Scalar::Int).or_else(|| unsigned(o)).map(Operand::Scalar);
        }
        if is_tensor(o) { Some(Operand::Tensor(tensor_of(o))) } else { plain_number(o).map(Operand::Scalar) }
    }
}

/// Return a new reference to an object of PyO3.
pub fn owned<T>(o: Bound<'_, T>) -> Outcome {
    Ok(o.into_ptr())
}

pub fn boolean(b: bool) -> Outcome {
    Ok(number_object(Scalar::Bool(b)))
}

pub fn integer(i: usize) -> Outcome {
    Ok(number_object(Scalar::Int(i as i64)))
}

/// Return a new reference to `None`.
pub fn new_none() -> Outcome {
    // SAFETY: `None` lives as long as the interpreter.
    unsafe {
        Py_INCREF(Py_None());
        Ok(Py_None())
    }
}

pub fn text(s: &str) -> Outcome {
    // SAFETY: `s` is valid UTF-8 of this length.
    unsafe { Ok(PyUnicode_FromStringAndSize(s.as_ptr().cast(), s.len() as Py_ssize_t)) }
}

/// Return a new reference to `o`.
///
/// # Safety
/// `o` is an object; the GIL is held.
pub unsafe fn new_reference(o: *mut PyObject) -> Outcome {
    // SAFETY: `o` is an object, and the GIL is held.
    unsafe { Py_INCREF(o) };
    Ok(o)
}

/// Return the value of a `bool`, or nothing for any other object.
///
/// # Safety
/// `o` is an object; the GIL is held.
pub unsafe fn boolean_of(o: *mut PyObject) -> Option<bool> {
    // SAFETY: `o` is an object.
    unsafe { (PyBool_Check(o) != 0).then(|| o == Py_True()) }
}
