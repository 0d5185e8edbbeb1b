//! The methods of `Tensor` that the op table does not have: sizes, memory, conversions and copies between devices.

use crate::arguments::arrange;
use crate::constructor::{as_subclass, make_subclass};
use crate::enter::{self, Failure, Outcome};
use crate::number::only_element;
use crate::objects::{
    boolean, boolean_of, int, integer, new_none, new_reference, number_object, owned, text, type_name,
};
use crate::tensor_type::{is_tensor, tensor_of, wrap};
use crate::{convert, device, dtype, size, torch_dispatch, torch_function};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi::*;
use pyo3::prelude::*;
use torchtpu_distributed::sharded;
use torchtpu_tensor::ops;
use torchtpu_tensor::{DType, Device, DeviceKind, Error, Held, MemoryFormat, Rep, Scalar, Tensor};

type Object = *mut PyObject;

macro_rules! methods {
    ($(
        $f:ident $name:literal ($($param:literal = $default:literal),*)
        $doc:literal
        |$o:ident, $x:ident, $args:ident| $body:expr;
    )*) => {
        $(unsafe extern "C" fn $f(o: Object, args: *const Object, positional: Py_ssize_t, names: Object) -> Object {
            enter::object(|| {
                // Methods that begin with one underscore are for this package only.
                const IS_PUBLIC: bool = $name.as_bytes()[0] != b'_' || $name.as_bytes()[1] == b'_';
                // SAFETY: the interpreter passes these arguments, in the form of this kind of function.
                unsafe {
                    if IS_PUBLIC && torch_function::takes_over(o) {
                        return torch_function::call_method($name, o, args, positional, names);
                    }
                }
                let ($o, $args) = (o, {
                    // SAFETY: the interpreter passes these arguments, in the form of this kind of function.
                    unsafe { arrange($name, [$($param),*], args, positional, names) }?
                });
                // SAFETY: the receiver of a method is an object of our type.
                let $x = unsafe { tensor_of(o) };
                $body
            })
        })*
        pub(crate) fn methods() -> Vec<PyMethodDef> {
            // The interpreter splits the text before and after the line `--` into `__text_signature__` and `__doc__`.
            let entry = |name: &'static str, f, flags, help: &'static str| PyMethodDef {
                ml_name: name.as_ptr().cast(),
                ml_meth: PyMethodDefPointer { PyCFunctionFastWithKeywords: f },
                ml_flags: METH_FASTCALL | METH_KEYWORDS | flags,
                ml_doc: help.as_ptr().cast(),
            };
            vec![
                $(entry(
                    concat!($name, "\0"),
                    $f,
                    0,
                    concat!($name, "($self", $(", ", $param, "=", $default,)* ")\n--\n\n", $doc, "\0"),
                ),)*
                entry(
                    "_make_subclass\0",
                    make_subclass,
                    METH_STATIC,
                    "_make_subclass(cls, data, require_grad=False)\n--\n\nReturn an object of the subclass `cls` with \
                     the elements of `data`.\0",
                ),
                entry(
                    "as_subclass\0",
                    as_subclass,
                    0,
                    "as_subclass($self, cls)\n--\n\nReturn a view of this tensor as an object of the class `cls`.\0",
                ),
            ]
        }
    };
}

methods! {
    m_size "size" ("dim" = "None")
        "Return the sizes as a `torch.Size`, or the size of dimension `dim`."
        |_o, x, a| match a[0] {
        d if d.is_null() => Ok(size::new(x.dims())),
        d => integer(x.dims()[dim_of(x, d, "size")?]),
    };
    m_dim "dim" ()
        "Return the number of dimensions."
        |_o, x, _a| integer(x.dims().len());
    m_ndimension "ndimension" ()
        "Alias of `dim`."
        |_o, x, _a| integer(x.dims().len());
    m_numel "numel" ()
        "Return the number of elements."
        |_o, x, _a| integer(x.numel());
    m_nelement "nelement" ()
        "Alias of `numel`."
        |_o, x, _a| integer(x.numel());
    m_stride "stride" ("dim" = "None")
        "Return the strides in elements, or the stride of dimension `dim`."
        |_o, x, a| match a[0] {
        d if d.is_null() => Python::attach(|py| owned(pyo3::types::PyTuple::new(py, x.strides().iter())?)),
        d => integer(x.strides()[dim_of(x, d, "stride")?]),
    };
    m_storage_offset "storage_offset" ()
        "Return the place of the first element in the storage, in elements."
        |_o, x, _a| integer(x.storage_offset());
    m_data_ptr "data_ptr" ()
        "Return the address of the first element."
        |_o, x, _a| integer(address(x));
    m_storage_id "_storage_id" ()
        "Return a number that tensors have in common which share their storage."
        |_o, x, _a| integer(x.storage_id());
    m_storage_bytes "_storage_bytes" ()
        "Return the size of the storage in bytes."
        |_o, x, _a| integer(x.storage_bytes());
    m_is_resizable "_is_resizable" ()
        "Return whether the storage can change its size."
        |_o, x, _a| boolean(x.is_resizable());
    m_is_contiguous "is_contiguous" ("memory_format" = "None")
        "Return whether the elements lie in the order of `memory_format`. `None` is `torch.contiguous_format`."
        |_o, x, a| match format_of(a[0], "is_contiguous")? {
        None => boolean(x.has_contiguous_strides()),
        Some(f) => boolean(x.is_contiguous_in(f)),
    };
    m_element_size "element_size" ()
        "Return the size of one element in bytes."
        |_o, x, _a| integer(x.dtype().size_bytes());
    m_item "item" ()
        "Return the only element as a Python number."
        |_o, x, _a| Ok(number_object(only_element(x)?));
    m_tolist "tolist" ()
        "Return the elements as nested lists of Python numbers, or as one number for a tensor without dimensions."
        |_o, x, _a| torch_dispatch::unseen(|| convert::to_list(x));
    m_is_floating_point "is_floating_point" ()
        "Return whether the dtype is a real floating-point one."
        |_o, x, _a| boolean(x.dtype().is_floating_point());
    m_is_complex "is_complex" ()
        "Return whether the dtype is complex."
        |_o, x, _a| boolean(x.dtype().is_complex());
    m_is_conj "is_conj" ()
        "Return whether the conjugate of the elements in memory is meant."
        |_o, x, _a| boolean(x.is_conj());
    m_is_neg "is_neg" ()
        "Return whether the negative of the elements in memory is meant."
        |_o, x, _a| boolean(x.is_neg());
    m_complex "__complex__" ()
        "Return the only element as a `complex`."
        |_o, x, _a| {
        if x.numel() != 1 {
            let text = "only one element tensors can be converted to Python scalars";
            return Err(pyo3::exceptions::PyValueError::new_err(text).into());
        }
        let (re, im) = only_element(x)?.to_complex();
        Ok(number_object(Scalar::Complex(re, im)))
    };
    m_is_signed "is_signed" ()
        "Return whether the dtype has negative numbers."
        |_o, x, _a| boolean(x.dtype().is_signed());
    m_is_inference "is_inference" ()
        "Return whether the tensor was made in inference mode."
        |_o, x, _a| boolean(x.is_inference());
    m_is_view "_is_view" ()
        "Return whether the tensor is a view of another one."
        |_o, x, _a| boolean(x.is_view());
    m_get_device "get_device" ()
        "Return the index of the `tpu` device, or -1 on other devices."
        |_o, x, _a| {
        let device = x.device();
        Ok(number_object(Scalar::Int(if device.kind == DeviceKind::Tpu { device.number().into() } else { -1 })))
    };
    m_detach_in_place "detach_" ()
        "Detach this tensor from the graph that computed it, and return it. Views are refused."
        |o, x, _a| {
        if x.is_view() {
            return Err(PyRuntimeError::new_err("Can't detach views in-place. Use detach() instead. If you are using \
                DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as True, gradients are \
                views of DDP buckets, and hence detach_() cannot be called on these gradients. To fix this error, \
                please refer to the Optimizer.zero_grad() function in torch/optim/optimizer.py as a reference.")
            .into());
        }
        x.set_grad_ref(None, 0);
        // SAFETY: `o` is the receiver, an object.
        unsafe { new_reference(o) }
    };
    m_retain_grad "retain_grad" ()
        "Keep the gradient of this tensor in `grad` although it is not a leaf."
        |_o, x, _a| {
        x.retain_grad()?;
        new_none()
    };
    m_to "to" (
        "device" = "None", "dtype" = "None", "non_blocking" = "False", "copy" = "False", "other" = "None",
        "memory_format" = "None"
    )
        "Return the tensor with another dtype, or on another device. It is this tensor if nothing changes, unless \
        `copy` is true. The forms are `to(dtype)`, `to(device, dtype)` and `to(other)`, for the dtype and device of \
        another tensor."
        |_o, x, a| {
        // SAFETY: objects that the caller holds.
        let (dtype, device, copy) = unsafe { to_arguments(a)? };
        moved(x, dtype, device, copy, format_of(a[5], "to")?)
    };
    m_cpu "cpu" ("memory_format" = "None")
        "Return the tensor on `cpu`: itself if it is there."
        |_o, x, a| moved(x, None, Some(Device::CPU), false, format_of(a[0], "cpu")?);
    m_tpu "tpu" ("device" = "None", "non_blocking" = "False", "memory_format" = "None")
        "Return the tensor on `tpu`: itself if it is there."
        |_o, x, a| {
        let device = match a[0] {
            d if d.is_null() => Device::TPU,
            // SAFETY: an object that the caller holds.
            d => unsafe { device::extract(d) }?.unwrap_or(Device::TPU),
        };
        moved(x, None, Some(device), false, format_of(a[2], "tpu")?)
    };
    m_text "_text" ()
        "Return what `repr` shows."
        |_o, x, _a| {
        let x = x.clone();
        let s = torch_dispatch::unseen(|| enter::without_gil(|| x.to_string()));
        text(&s)
    };
}

fn dim_of(x: &Tensor, o: Object, function: &str) -> Outcome<usize> {
    // SAFETY: an object that the caller holds.
    let Some(d) = (unsafe { int(o) }) else {
        // SAFETY: `o` is an object that the caller holds.
        let got = unsafe { type_name(o) };
        return Err(
            PyTypeError::new_err(format!("{function}(): argument 'dim' (position 1) must be int, not {got}")).into()
        );
    };
    let n = x.dims().len() as i64;
    let range = n.max(1);
    if d < -range || d >= range || n == 0 {
        return Err(Error::index(format!(
            "Dimension out of range (expected to be in range of [{}, {}], but got {d})",
            -range,
            range - 1
        ))
        .into());
    }
    Ok(d.rem_euclid(n) as usize)
}

/// Return the error for arguments that fit no form of `to`. Arguments after a gap were given by name.
///
/// # Safety
/// Objects or null; the GIL is held.
#[cold]
unsafe fn no_form_of_to(a: &[Object; 6]) -> PyErr {
    let names = ["device", "dtype", "non_blocking", "copy", "other", "memory_format"];
    let gap = a.iter().position(|o| o.is_null()).unwrap_or(a.len());
    let given = names.iter().zip(a).enumerate().filter(|(_, (_, o))| !o.is_null()).map(|(i, (name, o))| {
        // SAFETY: the entries of `a` are objects or null, and the GIL is held.
        let got = unsafe { type_name(*o) };
        if i < gap { got } else { format!("{name}={got}") }
    });
    let got = given.collect::<Vec<_>>().join(", ");
    PyTypeError::new_err(format!(
        "to() received an invalid combination of arguments - got ({got}), but expected one of:\n * (torch.device \
        device = None, torch.dtype dtype = None, bool non_blocking = False, bool copy = False, *, torch.memory_format \
        memory_format = None)\n * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, \
        torch.memory_format memory_format = None)\n * (Tensor tensor, bool non_blocking = False, bool copy = False, *, \
        torch.memory_format memory_format = None)\n"
    ))
}

/// Return the dtype, the device and `copy` of `to(device, dtype)`, `to(dtype)`, `to(other)`, with keywords.
///
/// # Safety
/// Objects or null.
unsafe fn to_arguments(a: [Object; 6]) -> Outcome<(Option<DType>, Option<Device>, bool)> {
    let [first, second, third, fourth, other, _format] = a;
    // SAFETY: the entries of `a` are objects or null.
    unsafe {
        let (mut dtype, mut device) = (None, None);
        // `copy` is one position earlier in `to(dtype, non_blocking, copy)` and `to(other, non_blocking, copy)`.
        let mut shifted = false;
        let source = if other.is_null() { first } else { other };
        if !source.is_null() {
            if is_tensor(source) {
                (dtype, device) = (Some(tensor_of(source).dtype()), Some(tensor_of(source).device()));
                shifted = true;
            } else if let Some(d) = dtype::extract(source) {
                dtype = Some(d);
                shifted = second.is_null() || PyBool_Check(second) != 0;
            } else if let Some(e) = dtype::refusal(source) {
                return Err(e.into());
            } else {
                match device::extract(source)? {
                    Some(d) => device = Some(d),
                    None => {
                        return Err(no_form_of_to(&a).into());
                    }
                }
            }
        }
        if !second.is_null() && PyBool_Check(second) == 0 {
            let Some(d) = dtype::extract(second).filter(|_| dtype.is_none()) else {
                return Err(dtype::refusal(second).unwrap_or_else(|| no_form_of_to(&a)).into());
            };
            dtype = Some(d);
        }
        let flag = |o: Object| match o {
            o if o.is_null() => Ok(false),
            o => boolean_of(o).ok_or_else(|| Failure::from(no_form_of_to(&a))),
        };
        let (third, fourth) = (flag(third)?, flag(fourth)?);
        let copy = fourth || (shifted && !second.is_null() && third);
        Ok((dtype, device, copy))
    }
}

/// Return the address of the first element. Memory of a device gets its address late, and a different one in each run.
/// There the number of the storage replaces it, so that tensors on one storage can be recognized.
fn address(x: &Tensor) -> usize {
    match x.place().held() {
        Held::Handle if x.numel() > 0 => x.storage_id() + x.storage_offset() * x.dtype().size_bytes(),
        _ if x.numel() == 0 => 0,
        _ => x.data_ptr(),
    }
}

/// Return the memory format of an argument, if it is given.
fn format_of(o: Object, function: &str) -> Outcome<Option<MemoryFormat>> {
    // SAFETY: None, or an object that the caller holds.
    if o.is_null() || o == unsafe { Py_None() } {
        return Ok(None);
    }
    // SAFETY: an object that the caller holds.
    match unsafe { dtype::memory_format(o) } {
        Some(f) => Ok(Some(f)),
        None => {
            // SAFETY: `o` is an object that the caller holds.
            let got = unsafe { type_name(o) };
            Err(PyTypeError::new_err(format!(
                "{function}(): argument 'memory_format' must be torch.memory_format, not {got}"
            ))
            .into())
        }
    }
}

fn moved(
    x: &Tensor,
    dtype: Option<DType>,
    device: Option<Device>,
    copy: bool,
    format: Option<MemoryFormat>,
) -> Outcome {
    // The device of a sharded tensor is that of its parts.
    let device = device.filter(|d| *d != x.device());
    let crossing = device.is_some();
    let (x, device) = match device {
        Some(d) if x.place().rep == Rep::Sharded => (enter::without_gil(|| sharded::to_device(x, d))?, None),
        _ => (x.clone(), device),
    };
    let f = || {
        let place = device.map(|d| torchtpu_tensor::backend::moved(&x, d)).transpose()?;
        ops::convert::to_format(&x, dtype, place, copy, format)
    };
    // Copies to a device wait for it.
    Ok(wrap(if crossing { enter::without_gil(f) } else { enter::work(x.numel(), f) }?))
}
