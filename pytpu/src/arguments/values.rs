//! Python objects as values: what each type of a schema takes, and the quick ways for the commonest objects.

use super::complaint::type_name;
use super::{Owned, Parameter, Parsed, STACK_INTS};
use crate::tensor_type::{is_exact, is_tensor, tensor_of};
use crate::{device, dtype, random, torch_function};
use pyo3::ffi::*;
use std::ptr::null_mut;
use torchtpu_kernels::memory;
use torchtpu_tensor::schema::{Arg, Ty};
use torchtpu_tensor::{Scalar, Tensor};

#[inline(always)]
pub(super) fn none() -> *mut PyObject {
    // SAFETY: a constant of the interpreter.
    unsafe { Py_None() }
}

/// # Safety
/// `o` is an object.
#[inline(always)]
pub(super) unsafe fn is_int(o: *mut PyObject) -> bool {
    // SAFETY: by the contract.
    unsafe { PyLong_Check(o) != 0 && PyBool_Check(o) == 0 }
}

/// Whether an object is an integer of more than 64 bits.
///
/// # Safety
/// `o` is an object.
pub unsafe fn is_too_large(o: *mut PyObject) -> bool {
    // SAFETY: by the contract; no exception is set for an integer that does not fit.
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
pub(super) unsafe fn looks_like_int(o: *mut PyObject) -> bool {
    // SAFETY: by the contract. A tensor of one integer, and NumPy's integers, have `__index__`.
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

/// An integer, or `None` when `o` is not one that fits 64 bits.
///
/// # Safety
/// `o` is an object.
#[inline(always)]
pub unsafe fn int(o: *mut PyObject) -> Option<i64> {
    // SAFETY: by the contract.
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

/// Holds an object while Python code runs that may drop it from where it was found.
struct Held(*mut PyObject);

impl Held {
    /// # Safety
    /// `o` is an object; the GIL is held until this is dropped.
    unsafe fn new(o: *mut PyObject) -> Held {
        // SAFETY: by the contract.
        unsafe { Py_INCREF(o) };
        Held(o)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: by the contract of `new`.
        unsafe { Py_DECREF(self.0) };
    }
}

#[cold]
unsafe fn int_slow(o: *mut PyObject) -> Option<i64> {
    // SAFETY: as `int`.
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

/// A number: Python's, NumPy's, or a tensor of one element that needs no gradient.
///
/// # Safety
/// `o` is an object.
#[inline(always)]
pub unsafe fn number(o: *mut PyObject) -> Option<Scalar> {
    // SAFETY: by the contract.
    unsafe {
        if PyFloat_Check(o) != 0 {
            return Some(Scalar::Float(PyFloat_AsDouble(o)));
        }
        if PyBool_Check(o) != 0 {
            return Some(Scalar::Bool(o == Py_True()));
        }
        if PyLong_Check(o) != 0 {
            return int(o).map(Scalar::Int);
        }
        number_slow(o)
    }
}

/// A number that is no tensor.
///
/// # Safety
/// `o` is an object.
#[inline(always)]
pub unsafe fn plain_number(o: *mut PyObject) -> Option<Scalar> {
    // SAFETY: by the contract.
    unsafe { if is_tensor(o) { None } else { number(o) } }
}

#[cold]
unsafe fn number_slow(o: *mut PyObject) -> Option<Scalar> {
    // SAFETY: as `number`.
    unsafe {
        let _held = Held::new(o);
        if is_tensor(o) {
            let t = tensor_of(o);
            return if t.dims().is_empty() && !t.requires_grad() { t.item().ok() } else { None };
        }
        if PyIndex_Check(o) != 0 {
            return int_slow(o).map(Scalar::Int);
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
        // NumPy's scalars; strings and sequences have no `__float__`, arrays of one element do but are no numbers.
        let py_float = PyType_GetSlot(Py_TYPE(o), Py_nb_float);
        if py_float.is_null() || PySequence_Check(o) != 0 {
            return None;
        }
        if crate::convert::is_numpy_bool(o) {
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

/// # Safety
/// `items` gives `n` objects.
#[inline(always)]
pub(super) unsafe fn int_list(
    items: impl Iterator<Item = *mut PyObject>,
    n: usize,
    out: &mut Parsed,
) -> Option<Arg<'static>> {
    // SAFETY: by the contract; the slice is written before it is read and lives in `out`.
    unsafe {
        if out.ints_used + n <= STACK_INTS {
            let start = out.ints_used;
            for o in items {
                out.ints[out.ints_used].write(int(o)?);
                out.ints_used += 1;
            }
            return Some(Arg::Ints(std::slice::from_raw_parts(out.ints.as_ptr().add(start).cast(), n)));
        }
        let mut v = memory::with_capacity(n);
        for o in items {
            v.push(int(o)?);
        }
        Some(out.keep_ints(v))
    }
}

/// Items of a tuple or list, borrowed. Of a list that gets shorter meanwhile, what is missing is `None`.
///
/// # Safety
/// `o` is an object. Whoever may run Python code holds the item that is in use: a list may drop it then.
pub(super) unsafe fn sequence(o: *mut PyObject) -> Option<(usize, impl Fn(usize) -> *mut PyObject)> {
    // SAFETY: by the contract; the index is below the length.
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

/// # Safety
/// `o` is an object that outlives the use of the arguments.
#[inline(always)]
pub(super) unsafe fn convert(p: &Parameter, o: *mut PyObject, out: &mut Parsed) -> Option<Arg<'static>> {
    // SAFETY: by the contract, throughout.
    unsafe {
        match p.ty {
            Ty::Tensor => {
                if is_exact(o) {
                    let t = tensor_of(o);
                    out.elements += t.numel();
                    return Some(Arg::Tensor(t));
                }
                if o != none() {
                    if is_tensor(o) {
                        out.overridden |= torch_function::overrides(o);
                        let t = tensor_of(o);
                        out.elements += t.numel();
                        return Some(Arg::Tensor(t));
                    }
                    return if p.number_ok { number(o).map(Arg::Scalar) } else { None };
                }
            }
            Ty::Int => {
                if let Some(v) = int(o) {
                    return Some(Arg::Scalar(Scalar::Int(v)));
                }
            }
            Ty::Scalar => {
                if let Some(v) = number(o) {
                    return Some(Arg::Scalar(v));
                }
            }
            Ty::Float => {
                if let Some(v) = number(o).filter(|v| !v.is_complex()) {
                    return Some(Arg::Scalar(Scalar::Float(v.to_f64())));
                }
            }
            Ty::Bool => {
                if PyBool_Check(o) != 0 {
                    return Some(Arg::Scalar(Scalar::Bool(o == Py_True())));
                }
            }
            Ty::IntList(n) => {
                if let Some((len, item)) = sequence(o) {
                    return int_list((0..len).map(item), len, out);
                }
                if n > 0 && looks_like_int(o) {
                    return int_list(std::iter::repeat_n(o, n.into()), n.into(), out);
                }
            }
            _ => {
                if o != none() {
                    return convert_rare(p, o, out);
                }
            }
        }
        match p.default {
            _ if o != none() => None,
            _ if p.optional => Some(Arg::None),
            // As in PyTorch `None` is another word for an empty list where that is the default.
            Arg::Ints([]) if !p.required => Some(p.default),
            _ => None,
        }
    }
}

#[inline(never)]
unsafe fn convert_rare(p: &Parameter, o: *mut PyObject, out: &mut Parsed) -> Option<Arg<'static>> {
    // SAFETY: as `convert`.
    unsafe {
        match p.ty {
            Ty::TensorList => {
                let (n, item) = sequence(o)?;
                let mut list = memory::with_capacity(n);
                for i in 0..n {
                    let e = item(i);
                    let _held = Held::new(e);
                    if is_tensor(e) {
                        out.overridden |= !is_exact(e) && torch_function::overrides(e);
                        out.elements += tensor_of(e).numel();
                        list.push(Some(tensor_of(e).clone()));
                    } else if e == none() {
                        list.push(None);
                    } else if torch_function::overrides(e) {
                        // The call goes elsewhere, so that nobody looks at what is missing here.
                        out.overridden = true;
                        list.push(None);
                    } else {
                        return None;
                    }
                }
                let list = list.into_boxed_slice();
                let slice: *const [Option<Tensor>] = &*list;
                out.owned.push(Owned::Tensors(list));
                Some(Arg::Tensors(&*slice))
            }
            Ty::FloatList => {
                let (n, item) = sequence(o)?;
                let mut list = memory::with_capacity(n);
                for i in 0..n {
                    list.push(number(item(i))?.to_f64());
                }
                let list: Box<[f64]> = list.into_boxed_slice();
                let slice: *const [f64] = &*list;
                out.owned.push(Owned::Floats(list));
                Some(Arg::Floats(&*slice))
            }
            Ty::ScalarList => {
                let (n, item) = sequence(o)?;
                let mut list = memory::with_capacity(n);
                for i in 0..n {
                    list.push(number(item(i))?);
                }
                let list: Box<[Scalar]> = list.into_boxed_slice();
                let slice: *const [Scalar] = &*list;
                out.owned.push(Owned::Scalars(list));
                Some(Arg::Scalars(&*slice))
            }
            Ty::Str => string(o).map(Arg::Str),
            Ty::DType => dtype::extract(o).map(Arg::DType),
            Ty::Device => device::extract(o).ok()?.map(Arg::Device),
            Ty::Layout => dtype::is_default_layout(o).then_some(Arg::None),
            Ty::MemoryFormat => dtype::memory_format(o).map(Arg::MemoryFormat),
            Ty::Generator => random::extract(o).map(Arg::Generator),
            _ => None,
        }
    }
}

/// The text of a string object, borrowed from it.
///
/// # Safety
/// `o` is an object that outlives the text.
pub unsafe fn string<'a>(o: *mut PyObject) -> Option<&'a str> {
    // SAFETY: by the contract; Python gives UTF-8.
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
