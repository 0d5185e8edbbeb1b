//! `torch.Tensor(...)`, and objects of subclasses of `Tensor`.

use crate::arguments::arrange;
use crate::enter::{self, Outcome};
use crate::objects::{boolean_of, int, type_name};
use crate::table::{call_tensor_op, tensor_argument};
use crate::tensor_type::{is_tensor, tensor_of, wrap_as};
use crate::torch_dispatch::values;
use crate::{convert, device};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi::*;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::ptr::null_mut;
use torchtpu_tensor::schema::Arg;
use torchtpu_tensor::{Device, Meta, Tensor, default_dtype};

type Object = *mut PyObject;

pub(crate) unsafe extern "C" fn make_subclass(
    _o: Object,
    args: *const Object,
    positional: Py_ssize_t,
    names: Object,
) -> Object {
    // SAFETY: the interpreter passes these arguments, in the form of this kind of function.
    enter::object(|| unsafe {
        let [cls, data, requires_grad] =
            arrange("_make_subclass", ["cls", "data", "require_grad"], args, positional, names)?;
        if cls.is_null() || data.is_null() || PyType_Check(cls) == 0 {
            return Err(PyTypeError::new_err("_make_subclass() takes a subclass of Tensor and a Tensor").into());
        }
        let t = tensor_argument(data, "_make_subclass", "data", 2)?.detach();
        if !requires_grad.is_null() {
            let Some(wants) = boolean_of(requires_grad) else {
                return Err(PyTypeError::new_err(format!(
                    "_make_subclass(): argument 'require_grad' (position 3) must be bool, not {}",
                    type_name(requires_grad)
                ))
                .into());
            };
            if wants {
                t.requires_grad_(true)?;
            }
        }
        subclass_object(cls, t)
    })
}

pub(crate) unsafe extern "C" fn as_subclass(
    o: Object,
    args: *const Object,
    positional: Py_ssize_t,
    names: Object,
) -> Object {
    // SAFETY: the interpreter passes these arguments, in the form of this kind of function.
    enter::object(|| unsafe {
        let [cls] = arrange("as_subclass", ["cls"], args, positional, names)?;
        if cls.is_null() || PyType_Check(cls) == 0 {
            return Err(PyTypeError::new_err("cls must be a type").into());
        }
        subclass_object(cls, call_tensor_op("alias", "", &[Arg::Tensor(tensor_of(o))])?)
    })
}

/// # Safety
/// `cls` is a type.
unsafe fn subclass_object(cls: Object, t: Tensor) -> Outcome {
    // SAFETY: checked here.
    unsafe {
        if PyType_IsSubtype(cls.cast(), crate::tensor_type::tensor_type()) == 0 {
            return Err(PyTypeError::new_err(
                "Creating a Tensor subclass from a class that does not inherit from Tensor \
                is not possible. Make sure your class inherits from Tensor.",
            )
            .into());
        }
        let made = Python::attach(|py| {
            let class = Bound::<PyAny>::from_borrowed_ptr(py, cls);
            let class = class.cast::<PyType>().ok().filter(|class| values::is_dispatching(class))?;
            Some(values::subclass(class, &t).map(Bound::into_ptr))
        });
        match made {
            Some(made) => Ok(made?),
            None => wrap_as(cls.cast(), t),
        }
    }
}

/// `torch.Tensor(...)`: sizes, or data in the default dtype.
pub(crate) unsafe extern "C" fn new(ty: *mut PyTypeObject, args: Object, kwargs: Object) -> Object {
    // SAFETY: the interpreter passes a type, a tuple, which holds its items, and a dictionary or null.
    enter::object(|| unsafe {
        let n = PyTuple_Size(args);
        let mut on = None;
        let subclass = ty != crate::tensor_type::tensor_type();
        if !kwargs.is_null() && !subclass {
            let d = PyDict_GetItemString(kwargs, c"device".as_ptr());
            if !d.is_null() {
                on = device::extract(d)?;
            } else if PyDict_Size(kwargs) > 0 {
                return Err(PyTypeError::new_err("new() received an invalid combination of arguments").into());
            }
        }
        let first = if n > 0 { PyTuple_GetItem(args, 0) } else { null_mut() };
        let sizes: Option<Vec<i64>> =
            (0..n).map(|i| int(PyTuple_GetItem(args, i)).filter(|_| !is_tensor(first))).collect();
        let place = device::of_new(on);
        let t = match sizes {
            Some(sizes) => {
                let sizes = if n == 0 { vec![0] } else { sizes };
                let Some(dims) = sizes.iter().map(|s| usize::try_from(*s).ok()).collect::<Option<Vec<_>>>() else {
                    return Err(PyRuntimeError::new_err(format!(
                        "Trying to create tensor with negative dimension: {sizes:?}"
                    ))
                    .into());
                };
                torchtpu_tensor::Dims::try_new(&dims)?;
                let meta = Meta::new(&dims, default_dtype(), Device::CPU);
                if place.is_abstract() {
                    Tensor::empty(&Meta { place, ..meta })?
                } else {
                    Tensor::empty(&meta)?.to_device(place)?
                }
            }
            None if n == 1 && is_tensor(first) => tensor_of(first).detach(),
            None if n == 1 || subclass => convert::tensor(first, Some(default_dtype()), on)?,
            None => {
                return Err(PyTypeError::new_err("new(): expected sizes, a sequence of numbers, or a Tensor").into());
            }
        };
        wrap_as(ty, if n == 1 && is_tensor(first) { t } else { convert::mark_inference(t) })
    })
}
