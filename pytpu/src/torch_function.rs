//! `__torch_function__`: subclasses of `Tensor`, and other types, that take calls over.
//!
//! A plain tensor costs one compare. For any other type the attribute is looked up on the type, with CPython's own
//! cache. While a thread has a mode, no tensor is plain, and calls without tensors are examined too.

use crate::enter::{Failure, Outcome};
use crate::{tensor_type, torch_dispatch};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::*;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

static NAME: AtomicPtr<PyObject> = AtomicPtr::new(null_mut());
static DISABLED: AtomicPtr<PyObject> = AtomicPtr::new(null_mut());

/// Number of modes in all threads.
static MODES_IN_ALL: AtomicUsize = AtomicUsize::new(0);

/// The overrides that calls are offered to.
#[derive(Clone, Copy, PartialEq)]
enum Asking {
    /// Types and modes.
    All,
    /// Modes.
    Modes,
    /// None.
    Nobody,
}

thread_local! {
    static ASKING: Cell<Asking> = const { Cell::new(Asking::All) };
    /// The modes that this thread has entered, with the innermost last.
    static MODES: RefCell<Vec<Py<PyAny>>> = const { RefCell::new(Vec::new()) };
}

fn enter_mode(mode: Py<PyAny>) {
    MODES.with_borrow_mut(|m| m.push(mode));
    MODES_IN_ALL.fetch_add(1, Relaxed);
    tensor_type::allow_shortcuts(false);
}

fn leave_mode() -> Option<Py<PyAny>> {
    let mode = MODES.with_borrow_mut(Vec::pop)?;
    tensor_type::allow_shortcuts(MODES_IN_ALL.fetch_sub(1, Relaxed) == 1);
    Some(mode)
}

/// Return whether a mode of this thread sees calls.
#[inline(always)]
pub fn has_mode() -> bool {
    MODES_IN_ALL.load(Relaxed) != 0 && ASKING.get() != Asking::Nobody && MODES.with_borrow(|m| !m.is_empty())
}

/// Return whether calls on `o` are taken over: by its type, or for a tensor by a mode.
///
/// # Safety
/// `o` is an object; the GIL is held.
#[inline(never)]
pub unsafe fn overrides(o: *mut PyObject) -> bool {
    // SAFETY: `o` is an object, and the GIL is held.
    unsafe { type_overrides(o) || has_mode() && tensor_type::is_tensor(o) }
}

/// Return whether the type of `o` takes calls over.
///
/// # Safety
/// `o` is an object; the GIL is held.
#[inline]
unsafe fn type_overrides(o: *mut PyObject) -> bool {
    if ASKING.get() != Asking::All {
        return false;
    }
    // SAFETY: `o` is an object, and the GIL is held.
    unsafe {
        let ty = Py_TYPE(o);
        if ty == tensor_type::tensor_type() {
            return false;
        }
        let f = PyObject_GetAttr(ty.cast(), NAME.load(Relaxed));
        if f.is_null() {
            PyErr_Clear();
            return false;
        }
        let custom = f != DISABLED.load(Relaxed);
        Py_DECREF(f);
        custom
    }
}

/// Call the override of the first of `operands` that takes the call over.
///
/// `args` and `kwargs` are those of the call. Subclasses come before their bases, else left before right.
pub fn call<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    operands: &[Bound<'py, PyAny>],
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    call_of(py, function, operands, args, kwargs, false)
}

/// [`call`] for properties, and for methods and functions that are not ops. Overrides get plain tensors, too.
fn call_of<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    operands: &[Bound<'py, PyAny>],
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
    with_tensors: bool,
) -> PyResult<Bound<'py, PyAny>> {
    ask(py, function, operands, args, kwargs, with_tensors)?.map_err(|declined| refusal(function, &declined))
}

/// The overrides that were called and returned `NotImplemented`: the mode, and types.
struct Declined<'py> {
    mode: Option<Bound<'py, PyAny>>,
    types: Vec<Bound<'py, PyAny>>,
}

/// Return the error for a call whose overrides all returned `NotImplemented`.
#[cold]
fn refusal(function: &Bound<'_, PyAny>, declined: &Declined<'_>) -> PyErr {
    let attribute = |o: &Bound<'_, PyAny>, name: &str| o.getattr(name).map_or_else(|_| "?".into(), |n| n.to_string());
    let name = attribute(function, "__name__");
    let property = function.getattr("__self__").ok().filter(|p| p.hasattr("__objclass__").unwrap_or(false));
    let name = match property {
        Some(p) => format!("torch.Tensor.{}.{name}", attribute(&p, "__name__")),
        None if function.hasattr("__objclass__").unwrap_or(false) => format!("torch.Tensor.{name}"),
        None => format!("{}.{name}", attribute(function, "__module__")),
    };
    let types = declined.types.iter().map(ToString::to_string);
    let text = if function.hasattr("__code__").unwrap_or(false) {
        let types = types.collect::<Vec<_>>().join(", ");
        let mode = declined.mode.as_ref().map(|m| format!(" nor in mode {m}")).unwrap_or_default();
        format!("no implementation found for '{name}' on types that implement __torch_function__: [{types}]{mode}")
    } else {
        let mode = declined.mode.iter().map(|m| format!("\n\n  - mode object {m}"));
        let list: String = mode.chain(types.map(|t| format!("\n\n  - tensor subclass {t}"))).collect();
        format!("Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned NotImplemented:{list}")
    };
    PyTypeError::new_err(text)
}

/// Whether `o` is a tensor of PyTorch itself, which may be installed beside this library. Its `__torch_function__`
/// calls the function again, which would never end.
fn is_of_pytorch(o: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the `Bound` keeps the object alive, and the GIL is held.
    if unsafe { tensor_type::is_tensor(o.as_ptr()) } || o.get_type().getattr("__torch_function__").is_err() {
        return false;
    }
    let is_text = |t: PyResult<Bound<'_, PyAny>>, text: &str| t.is_ok_and(|t| t.eq(text).unwrap_or(false));
    o.get_type()
        .mro()
        .iter()
        .any(|c| is_text(c.getattr("__name__"), "Tensor") && is_text(c.getattr("__module__"), "torch"))
}

/// Refuse tensors of PyTorch among the operands of `function`.
fn refuse_pytorch<'py>(
    function: &Bound<'py, PyAny>,
    mut operands: impl Iterator<Item = Bound<'py, PyAny>>,
) -> PyResult<()> {
    if !operands.any(|o| is_of_pytorch(&o)) {
        return Ok(());
    }
    let name = function.getattr("__name__").map_or_else(|_| "this function".into(), |n| n.to_string());
    Err(PyTypeError::new_err(format!(
        "{name}(): tensors of PyTorch and of pytpu cannot be mixed. Convert a tensor of PyTorch with \
        pytpu.from_dlpack(x), or a tensor of pytpu with torch.from_dlpack(x)."
    )))
}

/// Refuse tensors of PyTorch among the arguments of a call, and in their lists and tuples.
#[pyfunction]
fn _refuse_pytorch<'py>(
    func: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<()> {
    for o in args.iter().chain(kwargs.into_iter().flat_map(|k| k.values())) {
        match o.is_exact_instance_of::<PyTuple>() || o.is_exact_instance_of::<PyList>() {
            true => refuse_pytorch(func, o.try_iter()?.filter_map(Result::ok))?,
            false => refuse_pytorch(func, std::iter::once(o))?,
        }
    }
    Ok(())
}

/// Call the mode and then the overrides, until one of them does not return `NotImplemented`.
fn ask<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    operands: &[Bound<'py, PyAny>],
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
    with_tensors: bool,
) -> PyResult<Result<Bound<'py, PyAny>, Declined<'py>>> {
    let mut order: Vec<&Bound<'py, PyAny>> = Vec::new();
    // SAFETY: the `Bound` keeps the object alive.
    let wants_call = |o: &Bound<'py, PyAny>| unsafe { type_overrides(o.as_ptr()) };
    // SAFETY: the `Bound` keeps the object alive.
    let is_reported = |o: &Bound<'py, PyAny>| with_tensors && unsafe { tensor_type::is_tensor(o.as_ptr()) };
    for o in operands {
        if !(wants_call(o) || is_reported(o)) || order.iter().any(|p| p.get_type().is(o.get_type())) {
            continue;
        }
        let at = order.iter().position(|p| o.get_type().is_subclass(&p.get_type()).unwrap_or(false));
        order.insert(at.unwrap_or(order.len()), o);
    }
    refuse_pytorch(function, order.iter().map(|o| (*o).clone()))?;
    let types = PyTuple::new(py, order.iter().map(|o| o.get_type()))?;
    order.retain(|o| wants_call(o));
    let empty = PyDict::new(py);
    let mut declined = Declined { mode: None, types: Vec::new() };
    if has_mode()
        && let Some(mode) = leave_mode()
    {
        declined.mode = Some(mode.bind(py).clone());
        let r = mode.bind(py).call_method1("__torch_function__", (function, &types, args, kwargs.unwrap_or(&empty)));
        enter_mode(mode);
        let r = r?;
        if !r.is(py.NotImplemented()) {
            return Ok(Ok(r));
        }
    }
    for o in &order {
        let f = o.getattr("__torch_function__")?;
        let r = f.call1((function, &types, args, kwargs.unwrap_or(&empty)))?;
        if !r.is(py.NotImplemented()) {
            return Ok(Ok(r));
        }
    }
    declined.types = order.iter().map(|o| o.get_type().into_any()).collect();
    Ok(Err(declined))
}

/// Return the method that overrides get for a special method. If PyTorch's type has one function under two names, this
/// is its name.
fn reported_method(name: &str) -> &str {
    match name {
        "__add__" | "__radd__" => "add",
        "__sub__" => "sub",
        "__mul__" | "__rmul__" => "mul",
        "__truediv__" => "div",
        "__mod__" => "remainder",
        "__pow__" => "pow",
        "__matmul__" => "matmul",
        "__lt__" => "lt",
        "__le__" => "le",
        "__gt__" => "gt",
        "__ge__" => "ge",
        "__ne__" => "ne",
        "__rand__" => "bitwise_and",
        "__ror__" => "bitwise_or",
        "__rxor__" => "bitwise_xor",
        "__iadd__" => "add_",
        "__isub__" => "sub_",
        "__imul__" => "mul_",
        "__itruediv__" => "div_",
        "__ifloordiv__" => "floor_divide_",
        "__imod__" => "remainder_",
        "__ipow__" => "pow_",
        "__neg__" => "neg",
        "__abs__" => "abs",
        "__pos__" => "positive",
        "ndimension" => "dim",
        "nelement" => "numel",
        name => name,
    }
}

/// Call an override for an operator slot. `name` is the special method. A binary operator returns `NotImplemented` if
/// all overrides did so. Python then tries the other operand.
///
/// # Safety
/// `operands` are objects; the GIL is held.
#[cold]
pub unsafe fn call_operator(name: &str, operands: &[*mut PyObject]) -> Outcome {
    // SAFETY: `operands` are objects, and the GIL is held.
    if operands.iter().all(|o| unsafe { !overrides(*o) }) {
        return torch_dispatch::operator(name, operands);
    }
    Python::attach(|py| {
        // SAFETY: `operands` are objects, and the GIL is held.
        let o: Vec<Bound<'_, PyAny>> = operands.iter().map(|o| unsafe { Bound::from_borrowed_ptr(py, *o) }).collect();
        // SAFETY: the type object lives forever.
        let ty = unsafe { Bound::from_borrowed_ptr(py, tensor_type::tensor_type().cast()) };
        let function = ty.getattr(reported_method(name))?;
        let r = match ask(py, &function, &o, &PyTuple::new(py, &o)?, None, false)? {
            Ok(r) => r,
            Err(_) if o.len() == 2 && name != "__contains__" => py.NotImplemented().into_bound(py),
            Err(declined) => return Err(refusal(&function, &declined).into()),
        };
        Ok::<_, Failure>(r.into_ptr())
    })
}

/// Return whether calls on the tensor object `o` are taken over. One compare for a plain tensor without modes.
///
/// # Safety
/// `o` is an object; the GIL is held.
#[inline(always)]
pub unsafe fn takes_over(o: *mut PyObject) -> bool {
    // SAFETY: `o` is an object, and the GIL is held.
    unsafe { !tensor_type::is_exact(o) && overrides(o) }
}

/// [`takes_over`] for an operator or an index, which those below autograd get too.
///
/// # Safety
/// `o` is an object; the GIL is held.
#[inline(always)]
pub unsafe fn operator_takes_over(o: *mut PyObject) -> bool {
    // SAFETY: `o` is an object, and the GIL is held.
    unsafe { !tensor_type::is_exact(o) && (overrides(o) || torch_dispatch::takes_over(o)) }
}

/// [`takes_over`] for any object. Most keys are made of numbers and slices, which are not examined.
///
/// # Safety
/// `o` is an object; the GIL is held.
#[inline]
pub unsafe fn any_takes_over(o: *mut PyObject) -> bool {
    // SAFETY: `o` is an object, and the GIL is held.
    unsafe {
        PyLong_CheckExact(o) == 0
            && PyFloat_CheckExact(o) == 0
            && PySlice_Check(o) == 0
            && PyBool_Check(o) == 0
            && o != Py_None()
            && o != Py_Ellipsis()
            && operator_takes_over(o)
    }
}

/// Return whether a key, or an item of one, takes calls over above autograd.
///
/// # Safety
/// `key` is an object; the GIL is held.
unsafe fn key_overrides(key: *mut PyObject) -> bool {
    // SAFETY: `key` is an object, and the GIL is held. The sequence holds its items while they are examined.
    unsafe {
        if PyTuple_CheckExact(key) != 0 {
            (0..PyTuple_Size(key)).any(|i| overrides(PyTuple_GetItem(key, i)))
        } else if PyList_CheckExact(key) != 0 {
            (0..PyList_Size(key)).any(|i| overrides(PyList_GetItem(key, i)))
        } else {
            overrides(key)
        }
    }
}

/// [`any_takes_over`] for a key: the items of a tuple or a list are examined.
///
/// # Safety
/// `key` is an object; the GIL is held.
#[inline]
pub unsafe fn key_takes_over(key: *mut PyObject) -> bool {
    // SAFETY: `key` is an object, and the GIL is held. The sequence holds its items while they are examined.
    unsafe {
        if PyTuple_CheckExact(key) != 0 {
            (0..PyTuple_Size(key)).any(|i| any_takes_over(PyTuple_GetItem(key, i)))
        } else if PyList_CheckExact(key) != 0 {
            (0..PyList_Size(key)).any(|i| any_takes_over(PyList_GetItem(key, i)))
        } else {
            any_takes_over(key)
        }
    }
}

/// Call an override for `x[key]`, or with a value for `x[key] = value`. The items of a tuple or a list are examined
/// too.
///
/// # Safety
/// `o`, `key` and `value` are objects; the GIL is held.
#[cold]
pub unsafe fn call_indexing(o: *mut PyObject, key: *mut PyObject, value: Option<*mut PyObject>) -> Outcome {
    // SAFETY: `o`, `key` and `value` are objects, and the GIL is held.
    let is_below = unsafe { !overrides(o) && !key_overrides(key) && value.is_none_or(|v| !overrides(v)) };
    if is_below {
        let name = if value.is_some() { "__setitem__" } else { "__getitem__" };
        return torch_dispatch::operator(name, &[Some(o), Some(key), value].into_iter().flatten().collect::<Vec<_>>());
    }
    Python::attach(|py| {
        // SAFETY: `o`, `key` and `value` are objects, and the GIL is held. The type object lives forever.
        let object = |p: *mut PyObject| unsafe { Bound::<PyAny>::from_borrowed_ptr(py, p) };
        let (owner, key, value) = (object(o), object(key), value.map(object));
        let mut operands = vec![owner.clone()];
        if key.is_exact_instance_of::<PyTuple>() || key.is_exact_instance_of::<PyList>() {
            operands.extend(key.try_iter()?.collect::<PyResult<Vec<_>>>()?);
        } else {
            operands.push(key.clone());
        }
        operands.extend(value.clone());
        let args = PyTuple::new(py, [Some(owner), Some(key), value].into_iter().flatten().collect::<Vec<_>>())?;
        let name = if args.len() == 2 { "__getitem__" } else { "__setitem__" };
        let function = object(tensor_type::tensor_type().cast()).getattr(name)?;
        Ok::<_, Failure>(call(py, &function, &operands, &args, None)?.into_ptr())
    })
}

/// Call the mode for a function that makes a tensor of `data`.
///
/// # Errors
/// Those that the mode raises.
#[cold]
pub fn call_factory<'py>(
    name: &str,
    data: &Bound<'py, PyAny>,
    kwargs: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = data.py();
    let function = py.import("pytpu._C")?.getattr(name)?;
    call(py, &function, &[], &PyTuple::new(py, [data])?, Some(kwargs))
}

/// The kind of access to a property.
pub enum Access {
    /// It is read.
    Get,
    /// This object is assigned to it.
    Set(*mut PyObject),
    /// It is deleted.
    Delete,
}

/// Call an override for an access to a property of the tensor object `o`.
///
/// # Safety
/// `name` is that of a property of the type; `o` and the assigned value are objects; the GIL is held.
#[cold]
pub unsafe fn call_property(name: &CStr, access: Access, o: *mut PyObject) -> Outcome {
    Python::attach(|py| {
        // SAFETY: `name` is that of a property of the type. `o` and the assigned value are objects, and the GIL is
        // held. The type object lives forever.
        let object = |p: *mut PyObject| unsafe { Bound::<PyAny>::from_borrowed_ptr(py, p) };
        let owner = object(o);
        let mut args = vec![owner.clone()];
        let access = match access {
            Access::Get => "__get__",
            Access::Set(value) => {
                args.push(object(value));
                "__set__"
            }
            Access::Delete => "__delete__",
        };
        let property = object(tensor_type::tensor_type().cast()).getattr(&*name.to_string_lossy())?;
        let r = call_of(py, &property.getattr(access)?, &[owner], &PyTuple::new(py, args)?, None, true)?;
        Ok::<_, Failure>(r.into_ptr())
    })
}

/// Call an override for a method that is written by hand. The arguments are those from the interpreter.
///
/// # Safety
/// `o` is an object; the rest is what the interpreter passed; the GIL is held.
#[cold]
pub unsafe fn call_method(
    name: &str,
    o: *mut PyObject,
    args: *const *mut PyObject,
    positional: Py_ssize_t,
    names: *mut PyObject,
) -> Outcome {
    Python::attach(|py| {
        // SAFETY: `o` is an object; the rest is what the interpreter passed, and the GIL is held. Values of keywords
        // follow the positional ones, the tuple holds their names.
        let (ty, given, keywords) = unsafe {
            let object = |p: *mut PyObject| Bound::<PyAny>::from_borrowed_ptr(py, p);
            let ty = object(tensor_type::tensor_type().cast());
            let n = positional as usize;
            let mut given = vec![object(o)];
            given.extend((0..n).map(|i| object(*args.add(i))));
            let count = if names.is_null() { 0 } else { PyTuple_Size(names) };
            let keywords: Vec<_> =
                (0..count).map(|k| (object(PyTuple_GetItem(names, k)), object(*args.add(n + k as usize)))).collect();
            (ty, given, keywords)
        };
        let kwargs = PyDict::new(py);
        let mut operands = given.clone();
        for (name, value) in keywords {
            kwargs.set_item(&name, &value)?;
            operands.push(value);
        }
        let function = ty.getattr(reported_method(name))?;
        let r = call_of(py, &function, &operands, &PyTuple::new(py, &given)?, Some(&kwargs), true)?;
        Ok::<_, Failure>(r.into_ptr())
    })
}

/// The value "calls are not taken over". A subclass sets this function as its `__torch_function__`.
#[pyfunction]
#[pyo3(signature = (func, types, args = None, kwargs = None))]
fn _disabled_torch_function_impl<'py>(
    func: &Bound<'py, PyAny>,
    types: &Bound<'py, PyAny>,
    args: Option<&Bound<'py, PyTuple>>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _ = types;
    let empty = PyTuple::empty(func.py());
    _refuse_pytorch(func, args.unwrap_or(&empty), kwargs)?;
    let before = ASKING.get();
    if before == Asking::All {
        ASKING.set(Asking::Modes);
    }
    let r = func.call(args.unwrap_or(&empty), kwargs);
    ASKING.set(before);
    r
}

/// Set the overrides that this thread calls: 0 for types and modes, 1 for modes only, 2 for none. Return the previous
/// setting.
#[pyfunction]
fn _set_torch_function_disabled(off: u8) -> u8 {
    let asking = [Asking::All, Asking::Modes, Asking::Nobody][usize::from(off.min(2))];
    ASKING.replace(asking) as u8
}

/// Return whether types of arguments may take calls over.
#[pyfunction]
fn _is_torch_function_enabled() -> bool {
    ASKING.get() == Asking::All
}

/// Return whether neither types nor modes may take calls over.
#[pyfunction]
fn _is_torch_function_all_disabled() -> bool {
    ASKING.get() == Asking::Nobody
}

/// Make a mode the innermost of the thread.
#[pyfunction]
fn _push_torch_function_mode(mode: Py<PyAny>) {
    enter_mode(mode);
}

/// Leave the innermost mode of the thread, and return it.
#[pyfunction]
fn _pop_torch_function_mode() -> Option<Py<PyAny>> {
    leave_mode()
}

/// Return the modes of the thread, with the innermost last.
#[pyfunction]
fn _torch_function_modes(py: Python<'_>) -> Vec<Py<PyAny>> {
    MODES.with_borrow(|m| m.iter().map(|m| m.clone_ref(py)).collect())
}

/// Return whether an operand, or a mode, takes calls over by `__torch_function__`.
#[pyfunction]
fn _has_torch_function(operands: &Bound<'_, PyTuple>) -> bool {
    // SAFETY: the tuple keeps its items alive.
    has_mode() || operands.iter().any(|o| unsafe { overrides(o.as_ptr()) })
}

/// Call the overrides of `func`, as `__torch_function__` defines, until one does not return `NotImplemented`.
#[pyfunction]
#[pyo3(signature = (func, operands, args, kwargs = None))]
fn _call_torch_function<'py>(
    func: &Bound<'py, PyAny>,
    operands: &Bound<'py, PyTuple>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let o: Vec<_> = operands.iter().collect();
    call_of(func.py(), func, &o, args, kwargs, true)
}

/// Return the operands of a call, with the items of lists and tuples, if one of them takes the call over.
#[pyfunction]
fn _overriding<'py>(args: &Bound<'py, PyTuple>, kwargs: &Bound<'py, PyDict>) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let any_takes_part = || args.iter_borrowed().any(|o| takes_part(&o)) || kwargs.iter().any(|(_, o)| takes_part(&o));
    if !has_mode() && !any_takes_part() {
        return Ok(None);
    }
    let mut operands = Vec::new();
    for o in args.iter().chain(kwargs.values()) {
        if o.is_instance_of::<PyTuple>() || o.is_instance_of::<PyList>() {
            operands.extend(o.try_iter()?.collect::<PyResult<Vec<_>>>()?);
        } else {
            operands.push(o);
        }
    }
    PyTuple::new(args.py(), operands).map(Some)
}

/// The overrides of an argument.
enum Part {
    /// It takes calls over.
    Takes,
    /// It does not.
    None,
    /// Its items must be examined.
    Items,
}

/// # Safety
/// `o` is an object that the caller holds; the GIL is held.
unsafe fn part(o: *mut PyObject) -> Part {
    // SAFETY: `o` is an object that the caller holds, and the GIL is held.
    unsafe {
        if Py_TYPE(o) == tensor_type::tensor_type()
            || PyLong_CheckExact(o) != 0
            || o == Py_None()
            || PyUnicode_CheckExact(o) != 0
        {
            Part::None
        } else if PyTuple_CheckExact(o) != 0 || PyList_CheckExact(o) != 0 {
            Part::Items
        } else if type_overrides(o) {
            Part::Takes
        } else {
            Part::None
        }
    }
}

/// Return whether an argument, or an item of a list or a tuple at any depth, takes calls over.
fn takes_part(o: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the `Bound` keeps the object alive.
    match unsafe { part(o.as_ptr()) } {
        Part::Takes => true,
        Part::None => false,
        Part::Items => has_item_that_takes_part(o),
    }
}

/// Examines a list or a tuple without recursion: it may be nested deeply, or contain itself.
fn has_item_that_takes_part(o: &Bound<'_, PyAny>) -> bool {
    let mut seen: HashSet<usize> = HashSet::new();
    let mut pending = vec![o.clone()];
    while let Some(list) = pending.pop() {
        // Items are held one by one, since an override may change the list.
        let mut i = 0;
        while let Some(item) = item_of(&list, i) {
            i += 1;
            // SAFETY: the `Bound` keeps the object alive.
            match unsafe { part(item.as_ptr()) } {
                Part::Takes => return true,
                Part::None => {}
                Part::Items => {
                    if seen.insert(item.as_ptr() as usize) {
                        pending.push(item);
                    }
                }
            }
        }
    }
    false
}

/// Return item `i` of a list or a tuple, if there is one.
fn item_of<'py>(list: &Bound<'py, PyAny>, i: usize) -> Option<Bound<'py, PyAny>> {
    match list.cast::<PyTuple>() {
        Ok(t) => t.get_item(i).ok(),
        Err(_) => list.cast::<PyList>().ok()?.get_item(i).ok(),
    }
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    NAME.store(pyo3::types::PyString::intern(m.py(), "__torch_function__").into_ptr(), Relaxed);
    let disabled = wrap_pyfunction!(_disabled_torch_function_impl, m)?;
    m.add("_disabled_torch_function_impl", &disabled)?;
    DISABLED.store(disabled.into_ptr(), Relaxed);
    m.add_function(wrap_pyfunction!(_set_torch_function_disabled, m)?)?;
    m.add_function(wrap_pyfunction!(_is_torch_function_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(_is_torch_function_all_disabled, m)?)?;
    m.add_function(wrap_pyfunction!(_push_torch_function_mode, m)?)?;
    m.add_function(wrap_pyfunction!(_pop_torch_function_mode, m)?)?;
    m.add_function(wrap_pyfunction!(_torch_function_modes, m)?)?;
    m.add_function(wrap_pyfunction!(_has_torch_function, m)?)?;
    m.add_function(wrap_pyfunction!(_call_torch_function, m)?)?;
    m.add_function(wrap_pyfunction!(_overriding, m)?)?;
    m.add_function(wrap_pyfunction!(_refuse_pytorch, m)?)?;
    Ok(())
}
