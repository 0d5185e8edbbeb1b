//! `x[...]` and `x[...] = v`.
//!
//! Integers, slices, `None`, `...` and booleans become views, one after the other. Tensors, lists and arrays are
//! collected by dimension and go to the ops `index` and `index_put_`. A mask becomes the positions where it is true,
//! unless a masked fill does the same without waiting for the positions.

use crate::convert;
use crate::enter::{self, Failure, Outcome};
use crate::number::only_element;
use crate::objects;
use crate::table::{call_tensor_op, row};
use crate::tensor_type::{is_tensor, tensor_of, wrap};
use crate::torch_function;
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::ffi::*;
use std::ffi::{c_int, c_void};
use torchtpu_tensor::ops::indexing::masked_fill;
use torchtpu_tensor::schema::{Arg, Args, Operand, Ret};
use torchtpu_tensor::{DType, Error, Scalar, Tensor, inplace, ops, warning};

type Object = *mut PyObject;

enum Item {
    Int(i64),
    Slice(Option<i64>, Option<i64>, i64),
    NewAxis,
    Ellipsis,
    Bool(bool),
    Tensor(Tensor),
}

#[cold]
fn bad_index(o: Object) -> Failure {
    // SAFETY: an object that the caller holds.
    if unsafe { objects::is_too_large(o) } {
        return PyValueError::new_err("Overflow when unpacking long long").into();
    }
    // SAFETY: `o` is an object that the caller holds.
    let name = unsafe { objects::type_name(o) };
    PyIndexError::new_err(format!(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {name})"
    ))
    .into()
}

/// # Safety
/// `o` is an object.
unsafe fn bound(o: Object) -> Outcome<Option<i64>> {
    // SAFETY: `o` is an object.
    unsafe {
        if o == Py_None() {
            return Ok(None);
        }
        if let Some(v) = objects::int(o) {
            return Ok(Some(v));
        }
        // A Python int beyond 64 bits is clipped, as slices do.
        if PyLong_Check(o) != 0 && PyBool_Check(o) == 0 {
            let zero = PyLong_FromLong(0);
            let negative = PyObject_RichCompareBool(o, zero, Py_LT) == 1;
            Py_DECREF(zero);
            return Ok(Some(if negative { i64::MIN } else { i64::MAX }));
        }
        if PyBool_Check(o) != 0 {
            return Ok(Some((o == Py_True()).into()));
        }
        Err(PyTypeError::new_err("slice indices must be integers or None or have an __index__ method").into())
    }
}

/// # Safety
/// `o` is an object.
unsafe fn slice_part(o: Object, name: &std::ffi::CStr) -> Outcome<Option<i64>> {
    // SAFETY: `o` is an object. A slice has these attributes.
    unsafe {
        let v = PyObject_GetAttrString(o, name.as_ptr());
        if v.is_null() {
            return Err(Failure::Raised);
        }
        let r = bound(v);
        Py_DECREF(v);
        r
    }
}

/// # Safety
/// `o` is an object.
unsafe fn item(o: Object, x: &Tensor) -> Outcome<Item> {
    // SAFETY: `o` is an object.
    unsafe {
        if PyLong_CheckExact(o) != 0 {
            return objects::int(o).map(Item::Int).ok_or_else(|| bad_index(o));
        }
        if PySlice_Check(o) != 0 {
            let step = slice_part(o, c"step")?.unwrap_or(1);
            if step == 0 {
                return Err(PyValueError::new_err("slice step cannot be zero").into());
            }
            if step < 0 {
                return Err(PyValueError::new_err("step must be greater than zero").into());
            }
            return Ok(Item::Slice(slice_part(o, c"start")?, slice_part(o, c"stop")?, step));
        }
        if o == Py_None() {
            return Ok(Item::NewAxis);
        }
        if o == Py_Ellipsis() {
            return Ok(Item::Ellipsis);
        }
        if PyBool_Check(o) != 0 {
            return Ok(Item::Bool(o == Py_True()));
        }
        let t = if is_tensor(o) {
            tensor_of(o).clone()
        } else {
            if !convert::is_array(o)
                && let Some(v) = objects::int(o)
            {
                return Ok(Item::Int(v));
            }
            if convert::is_array(o) {
                convert::tensor(o, None, None)?.to_device(x.place())?
            } else if PySequence_Check(o) == 0 {
                return Err(bad_index(o));
            } else {
                // Numbers of a list are positions, also fractional ones. Truth values are a mask.
                let t = convert::tensor(o, None, None)?;
                (if t.dtype() == DType::Bool { t } else { t.to_dtype(DType::I64)? }).to_device(x.place())?
            }
        };
        match (t.dtype(), t.dims().is_empty()) {
            (DType::Bool | DType::U8, true) => Ok(Item::Bool(only_element(&t)?.to_i64() != 0)),
            (d, true) if !d.is_inexact() => Ok(Item::Int(only_element(&t)?.to_i64())),
            (d, _) if d.is_inexact() => {
                Err(PyIndexError::new_err("tensors used as indices must be long, int, byte or bool tensors").into())
            }
            (d, _) => {
                if d == DType::U8 {
                    warning::warn(
                        "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.",
                    )?;
                }
                Ok(Item::Tensor(t))
            }
        }
    }
}

/// Return whether a list means the tuple of its entries: one of them is a list, a slice, a tensor, `None` or `...`.
/// Long lists never do.
///
/// # Safety
/// `key` is an object.
unsafe fn stands_for_tuple(key: Object) -> bool {
    // SAFETY: `key` is an object. Entries are released after a look at them.
    unsafe {
        if is_tensor(key) || convert::is_array(key) || PySequence_Check(key) == 0 {
            return false;
        }
        let n = PySequence_Size(key);
        if !(0..32).contains(&n) {
            PyErr_Clear();
            return false;
        }
        (0..n).any(|i| {
            let o = PySequence_GetItem(key, i);
            if o.is_null() {
                PyErr_Clear();
                return false;
            }
            let special = is_tensor(o)
                || PySequence_Check(o) != 0
                || PySlice_Check(o) != 0
                || o == Py_None()
                || o == Py_Ellipsis();
            Py_DECREF(o);
            special
        })
    }
}

/// # Safety
/// `key` is an object.
unsafe fn items(key: Object, x: &Tensor) -> Outcome<Vec<Item>> {
    // SAFETY: `key` is an object.
    unsafe {
        if PyTuple_Check(key) != 0 {
            return (0..PyTuple_Size(key)).map(|i| item(PyTuple_GetItem(key, i), x)).collect();
        }
        if !stands_for_tuple(key) {
            return Ok(vec![item(key, x)?]);
        }
        warning::warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch \
            2.9; use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, \
            x[torch.tensor(seq)], which will result either in an error or a different result",
        )?;
        (0..PySequence_Size(key))
            .map(|i| {
                let o = PySequence_GetItem(key, i);
                if o.is_null() {
                    return Err(Failure::Raised);
                }
                let found = item(o, x);
                Py_DECREF(o);
                found
            })
            .collect()
    }
}

/// A view, and the index tensors that still apply to it, by dimension.
struct Selected {
    x: Tensor,
    indices: Vec<Option<Tensor>>,
    /// The view is the tensor itself.
    untouched: bool,
}

fn positions(mask: &Tensor) -> Outcome<Vec<Tensor>> {
    let mask = if mask.dtype() == DType::Bool { mask.clone() } else { mask.to_dtype(DType::Bool)? };
    let found = enter::without_gil(|| torchtpu_tensor::no_grad(|| call_positions(&mask)))?;
    Ok(found.unbind(1)?)
}

fn call_positions(mask: &Tensor) -> torchtpu_tensor::Result<Tensor> {
    run("nonzero", "", &[Arg::Tensor(mask)])
}

/// Run an op with one result, for code that does not hold the GIL.
fn run(name: &str, overload: &str, args: &[Arg<'_>]) -> torchtpu_tensor::Result<Tensor> {
    match row(name, overload).map(|r| (r.call)(&Args(args))) {
        Some(Ok(Ret::Tensor(t))) => Ok(t),
        Some(Err(e)) => Err(e),
        _ => Err(Error::not_implemented(format!("{name}.{overload} is not in this build"))),
    }
}

fn is_mask(t: &Tensor) -> bool {
    matches!(t.dtype(), DType::Bool | DType::U8)
}

fn select(x: &Tensor, items: Vec<Item>) -> Outcome<Selected> {
    let taken: usize = items
        .iter()
        .map(|i| match i {
            Item::Int(_) | Item::Slice(..) => 1,
            Item::Tensor(t) if is_mask(t) => t.dims().len(),
            Item::Tensor(_) => 1,
            _ => 0,
        })
        .sum();
    if taken > x.dims().len() {
        return Err(
            PyIndexError::new_err(format!("too many indices for tensor of dimension {}", x.dims().len())).into()
        );
    }
    let mut s = Selected { x: x.clone(), indices: Vec::new(), untouched: true };
    // `from` counts dimensions of `x`. `dim` counts those of the view.
    let (mut dim, mut from) = (0usize, 0usize);
    let mut expanded = false;
    let only_tensors = items.iter().all(|i| matches!(i, Item::Tensor(_)));
    for (at, i) in items.into_iter().enumerate() {
        match i {
            Item::Int(v) => {
                let n = s.x.dims()[dim] as i64;
                if v < -n || v >= n {
                    return Err(PyIndexError::new_err(format!(
                        "index {v} is out of bounds for dimension {from} with size {n}"
                    ))
                    .into());
                }
                s.x = s.x.select(dim as i64, v)?;
                s.untouched = false;
                from += 1;
            }
            Item::Slice(start, end, step) => {
                if (start, end, step) != (None, None, 1) {
                    s.x = s.x.slice(dim as i64, start, end, step)?;
                    s.untouched = false;
                }
                dim += 1;
                from += 1;
            }
            Item::NewAxis => {
                s.x = s.x.unsqueeze(dim as i64)?;
                s.untouched = false;
                dim += 1;
            }
            Item::Ellipsis => {
                // A second `...` has no effect, as in PyTorch.
                let n = if std::mem::replace(&mut expanded, true) { 0 } else { x.dims().len() - taken };
                dim += n;
                from += n;
            }
            Item::Bool(b) => {
                s.x = s.x.unsqueeze(dim as i64)?;
                s.untouched = false;
                s.indices.resize(dim, None);
                let zero = Tensor::zeros(&[b.into()], DType::I64, x.place())?;
                s.indices.push(Some(zero));
                dim += 1;
            }
            Item::Tensor(t) if is_mask(&t) => {
                for (k, n) in t.dims().iter().enumerate() {
                    if s.x.dims()[dim + k] != *n {
                        return Err(PyIndexError::new_err(format!(
                            "The shape of the mask {} at index {} does not match the shape of the indexed tensor {} at \
                            index {}",
                            t.dims(),
                            k,
                            if only_tensors { x.dims() } else { s.x.dims() },
                            if only_tensors { at + k } else { dim + k }
                        ))
                        .into());
                    }
                }
                s.indices.resize(dim, None);
                let n = t.dims().len();
                s.indices.extend(positions(&t)?.into_iter().map(Some));
                dim += n;
                from += n;
            }
            Item::Tensor(t) => {
                s.indices.resize(dim, None);
                s.indices.push(Some(t));
                dim += 1;
                from += 1;
            }
        }
    }
    Ok(s)
}

fn apply_indices(s: Selected) -> Outcome<Tensor> {
    if s.indices.is_empty() {
        return if s.untouched { call_tensor_op("alias", "", &[Arg::Tensor(&s.x)]) } else { Ok(s.x) };
    }
    let args = [Arg::Tensor(&s.x), Arg::Tensors(&s.indices)];
    Ok(enter::work(s.x.numel(), || run("index", "Tensor", &args))?)
}

unsafe extern "C" fn get_item(o: Object, key: Object) -> Object {
    // SAFETY: the interpreter passes an object of our type, any object, and holds the GIL.
    enter::object(|| unsafe {
        if torch_function::operator_takes_over(o) || torch_function::key_takes_over(key) {
            return torch_function::call_indexing(o, key, None);
        }
        let x = tensor_of(o);
        if PyLong_CheckExact(key) != 0 {
            if x.dims().is_empty() {
                return Err(PyIndexError::new_err(
                    "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to \
                    convert a 0-dim tensor to a number",
                )
                .into());
            }
            let v = objects::int(key).ok_or_else(|| bad_index(key))?;
            let n = x.dims()[0] as i64;
            if v < -n || v >= n {
                return Err(
                    PyIndexError::new_err(format!("index {v} is out of bounds for dimension 0 with size {n}")).into()
                );
            }
            return Ok(wrap(x.select(0, v)?));
        }
        // Take a handle: reading the key may run code that puts another tensor into the object.
        let x = &x.clone();
        Ok(wrap(apply_indices(select(x, items(key, x)?)?)?))
    })
}

/// Return the value to write, on the device and with the dtype of `x`.
///
/// # Safety
/// `o` is an object.
unsafe fn value_for(x: &Tensor, o: Object) -> Outcome<Tensor> {
    // SAFETY: `o` is an object.
    unsafe {
        if is_tensor(o) {
            return Ok(tensor_of(o).clone());
        }
        if let Some(v) = objects::plain_number(o) {
            return Ok(Tensor::full(&[], v, x.dtype(), x.place())?);
        }
        Err(PyTypeError::new_err(format!(
            "can't assign a {} to a torch.{}Tensor",
            objects::type_name(o),
            x.dtype().scalar_type()
        ))
        .into())
    }
}

/// Remove leading dimensions of size one: every value broadcasts without them, and errors name the other dimensions.
fn without_leading_ones(v: Tensor) -> Outcome<Tensor> {
    let rest: Vec<i64> = v.dims().iter().skip_while(|n| **n == 1).map(|n| *n as i64).collect();
    Ok(if rest.len() == v.dims().len() { v } else { v.reshape(&rest)? })
}

fn assign(x: &Tensor, key: Vec<Item>, value: Tensor, number: Option<Scalar>) -> Outcome<()> {
    let value = without_leading_ones(value)?;
    // `x[mask] = 0` needs no positions.
    if let ([Item::Tensor(mask)], true) = (&key[..], value.dims().is_empty())
        && mask.dtype() == DType::Bool
        && x.dims().starts_with(&mask.dims()[..])
    {
        // A mask on the host works for every device, as an index does.
        let mask = &if mask.place().in_memory() { mask.to_device(x.place())? } else { mask.clone() };
        let mask = &(mask.dims().len()..x.dims().len()).try_fold(mask.clone(), |m, _| m.unsqueeze(-1))?;
        if inplace::overlaps_itself(x) {
            let (name, fill) = match number {
                Some(n) => ("masked_fill_.Scalar", Arg::Scalar(n)),
                None => ("masked_fill_.Tensor", Arg::Tensor(&value)),
            };
            ops::call(name, &[Arg::Tensor(x), Arg::Tensor(mask), fill])?;
            return Ok(());
        }
        let fill = match number {
            Some(n) => Operand::Scalar(n),
            None => Operand::Tensor(&value),
        };
        return Ok(inplace::update(x, |x| masked_fill(x, mask, fill))?);
    }
    let is_filled = value.dims().is_empty()
        && key.iter().any(|i| matches!(i, Item::Bool(_)) || matches!(i, Item::Tensor(t) if is_mask(t)));
    let s = select(x, key)?;
    if s.indices.is_empty() {
        // Writing one number to all elements is safe also if elements share memory.
        if let Some(n) = number.filter(|_| inplace::repeats_elements(&s.x)) {
            ops::call("fill_.Scalar", &[Arg::Tensor(&s.x), Arg::Scalar(n)])?;
            return Ok(());
        }
        // As in PyTorch, a value that is broadcast may overlap the elements that are written.
        let sizes = || s.x.dims().iter().map(|&n| n as i64).collect::<Vec<i64>>();
        let value =
            if value.shares_storage(&s.x) && value.dims() != s.x.dims() { value.expand(&sizes())? } else { value };
        return enter::work(s.x.numel(), || match s.x.copy_(&value) {
            Ok(_) => Ok(()),
            // A value of sizes that do not fit is refused as `expand` refuses it, as in PyTorch.
            Err(e) => Err(value.expand(&sizes()).err().unwrap_or(e).into()),
        });
    }
    let value = if number.is_some() || is_filled { value.to_dtype(s.x.dtype())? } else { value };
    let value = value.to_device(s.x.place())?;
    let false_ = Arg::Scalar(Scalar::Bool(false));
    let args = [Arg::Tensor(&s.x), Arg::Tensors(&s.indices), Arg::Tensor(&value), false_];
    let put = row("index_put", "").ok_or_else(|| Error::not_implemented("index_put is not in this build"))?;
    enter::work(s.x.numel(), || put.call_in_place(&Args(&args)))?;
    Ok(())
}

unsafe extern "C" fn set_item(o: Object, key: Object, value: Object) -> c_int {
    // SAFETY: the interpreter passes an object of our type, any objects (null to delete), and holds the GIL.
    enter::status(|| unsafe {
        if value.is_null() {
            return Err(PyTypeError::new_err("Tensor does not support deleting items").into());
        }
        if torch_function::operator_takes_over(o)
            || torch_function::any_takes_over(value)
            || torch_function::key_takes_over(key)
        {
            let r = torch_function::call_indexing(o, key, Some(value))?;
            Py_DECREF(r);
            return Ok(0);
        }
        let x = &tensor_of(o).clone();
        let v = value_for(x, value)?;
        assign(x, items(key, x)?, v, objects::plain_number(value))?;
        Ok(0)
    })
}

pub(crate) fn slots() -> [PyType_Slot; 2] {
    [
        PyType_Slot { slot: Py_mp_subscript, pfunc: get_item as *mut c_void },
        PyType_Slot { slot: Py_mp_ass_subscript, pfunc: set_item as *mut c_void },
    ]
}
