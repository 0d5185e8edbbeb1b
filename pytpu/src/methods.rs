//! What `Tensor` has beside the op table: its constructor, properties, and the methods that speak of the object itself.

use crate::enter::{self, Failure, Outcome};
use crate::number::only_element;
use crate::objects::number_object;
use crate::objects::{self, int, string, type_name};
use crate::table::{call_tensor_op, tensor_argument};
use crate::tensor_type::{extract, is_tensor, replace, tensor_of, to_python, wrap, wrap_as};
use crate::torch_function::{self, Access};
use crate::{autograd, convert, device, dtype, size};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi::*;
use pyo3::prelude::*;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use torchtpu_tensor::graph::Leaf;
use torchtpu_tensor::ops;
use torchtpu_tensor::schema::Arg;
use torchtpu_tensor::{DType, Device, DeviceKind, GradRef, MemoryFormat, Meta, Scalar, Tensor, default_dtype, warning};

type Object = *mut PyObject;

fn object_of<T>(o: Bound<'_, T>) -> Outcome {
    Ok(o.into_ptr())
}
fn boolean(b: bool) -> Outcome {
    Ok(number_object(Scalar::Bool(b)))
}
fn integer(i: usize) -> Outcome {
    Ok(number_object(Scalar::Int(i as i64)))
}
fn none() -> Outcome {
    // SAFETY: a constant of the interpreter; a new reference.
    unsafe {
        Py_INCREF(Py_None());
        Ok(Py_None())
    }
}
fn text(s: &str) -> Outcome {
    // SAFETY: valid UTF-8 of this length.
    unsafe { Ok(PyUnicode_FromStringAndSize(s.as_ptr().cast(), s.len() as Py_ssize_t)) }
}
/// # Safety
/// `o` is an object.
unsafe fn same(o: Object) -> Outcome {
    // SAFETY: by the contract.
    unsafe { Py_INCREF(o) };
    Ok(o)
}

// ---- properties

/// Whether the gradient of a computed tensor will be kept.
fn retains_grad(x: &Tensor) -> bool {
    match x.grad_ref() {
        Some(GradRef::Node(n)) => n
            .extras_if_any()
            .is_some_and(|e| e.lock().unwrap_or_else(|e| e.into_inner()).retained.iter().any(|r| r.0 == x.output_nr())),
        _ => false,
    }
}

fn transposed(x: &Tensor) -> Outcome<Tensor> {
    let n = x.dims().len() as i64;
    if n != 2 {
        torchtpu_tensor::warn_once!(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will \
            throw an error in a future release. Consider `x.mT` to transpose batches of matrices or \
            `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor.",
        )?;
    }
    Ok(x.permute(&(0..n).rev().collect::<Vec<_>>())?)
}
fn matrix_transposed(x: &Tensor) -> Outcome<Tensor> {
    if x.dims().len() < 2 {
        return Err(PyRuntimeError::new_err(format!(
            "tensor.mT is only supported on matrices or batches of matrices. Got {}-D tensor.",
            x.dims().len()
        ))
        .into());
    }
    Ok(x.transpose(-2, -1)?)
}

/// The conjugate transpose: `H` of one matrix, `mH` of matrices.
fn adjoint(x: &Tensor, one: bool) -> Outcome<Tensor> {
    let n = x.dims().len();
    let said = match (one, n) {
        (true, 0 | 2) | (false, 2..) => return Ok(if n == 0 { x.conj()? } else { x.adjoint()? }),
        (true, 1) => "tensor.H is only supported on matrices (2-D tensors). Got 1-D tensor.".to_string(),
        (true, n) => format!(
            "tensor.H is only supported on matrices (2-D tensors). Got {n}-D tensor. For batches of matrices, consider \
            using tensor.mH"
        ),
        (false, n) => format!("tensor.mH is only supported on matrices or batches of matrices. Got {n}-D tensor."),
    };
    Err(PyRuntimeError::new_err(said).into())
}

macro_rules! getters {
    ($($f:ident |$x:ident| $body:expr;)*) => {$(
        unsafe extern "C" fn $f(o: Object, closure: *mut c_void) -> Object {
            enter::object(|| {
                // SAFETY: an object of our type; the closure is the property's name.
                unsafe {
                    if torch_function::takes_over(o) {
                        return torch_function::call_property(CStr::from_ptr(closure.cast()), Access::Get, o);
                    }
                }
                // SAFETY: the interpreter passes an object of our type.
                let $x = unsafe { tensor_of(o) };
                $body
            })
        }
    )*};
}
getters! {
    get_shape |x| Ok(size::new(x.dims()));
    get_ndim |x| integer(x.dims().len());
    get_dtype |x| Python::attach(|py| object_of(dtype::object(py, x.dtype())));
    get_device |x| Python::attach(|py| object_of(device::object(py, x.device())?));
    get_requires_grad |x| boolean(x.requires_grad());
    get_grad |x| match x.grad() {
        Some(g) => Ok(wrap(g)),
        None => {
            if x.requires_grad() && !x.is_leaf() && !retains_grad(x) {
                warning::warn("The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad \
                    attribute won't be populated during autograd.backward(). If you indeed want the .grad field to be \
                    populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you access the \
                    non-leaf Tensor by mistake, make sure you access the leaf Tensor instead. See \
                    github.com/pytorch/pytorch/pull/30531 for more information.")?;
            }
            none()
        }
    };
    get_is_leaf |x| boolean(x.is_leaf());
    get_data |x| Ok(wrap(x.data()));
    get_transposed |x| Ok(wrap(transposed(x)?));
    get_matrix_transposed |x| Ok(wrap(matrix_transposed(x)?));
    get_real |x| Ok(wrap(x.real()?));
    get_imag |x| Ok(wrap(x.imag()?));
    get_adjoint |x| Ok(wrap(adjoint(x, true)?));
    get_matrix_adjoint |x| Ok(wrap(adjoint(x, false)?));
    get_is_cpu |x| boolean(x.device().kind == DeviceKind::Cpu);
    get_is_tpu |x| boolean(x.device().kind == DeviceKind::Tpu);
    get_is_meta |x| boolean(x.device().kind == DeviceKind::Meta);
    get_false |_x| boolean(false);
    get_itemsize |x| integer(x.dtype().size_bytes());
    get_nbytes |x| {
        // Of an expanded view they may be more than 64 bits count.
        let bytes = x.numel() as u128 * x.dtype().size_bytes() as u128;
        Python::attach(|py| object_of(bytes.into_pyobject(py).map_err(PyErr::from)?))
    };
    get_version |x| {
        if x.is_inference() {
            return Err(PyRuntimeError::new_err("Inference tensors do not track version counter.").into());
        }
        integer(x.version() as usize)
    };
    get_output_nr |x| integer(x.output_nr() as usize);
    get_base |x| match x.view_info().filter(|v| v.is_visible()) { Some(v) => Ok(wrap(v.base.clone())), None => none() };
    get_layout |_x| Python::attach(|py| object_of(py.import("pytpu._C")?.getattr("strided")?));
    get_retains_grad |x| boolean(retains_grad(x));
    get_grad_fn |x| match x.history()? {
        Some(GradRef::Node(n)) => Python::attach(|py| object_of(autograd::node_object(py, n)?)),
        _ => none(),
    };
    get_names |x| {
        let n = x.dims().len();
        Python::attach(|py| object_of(pyo3::types::PyTuple::new(py, (0..n).map(|_| py.None()))?))
    };
}

/// Lets an override take over the assignment to a property, or its deletion (`value` is null). Says whether it did.
///
/// # Safety
/// `o` is an object of our type, `value` an object or null.
#[inline]
unsafe fn assigned_elsewhere(name: &CStr, o: Object, value: Object) -> Outcome<bool> {
    // SAFETY: by the contract.
    unsafe {
        if !torch_function::takes_over(o) {
            return Ok(false);
        }
        let access = if value.is_null() { Access::Delete } else { Access::Set(value) };
        Py_DECREF(torch_function::call_property(name, access, o)?);
        Ok(true)
    }
}

unsafe extern "C" fn set_requires_grad(o: Object, value: Object, _closure: *mut c_void) -> c_int {
    // SAFETY: the interpreter passes an object of our type, and any object; null deletes.
    enter::status(|| unsafe {
        if assigned_elsewhere(c"requires_grad", o, value)? {
            return Ok(0);
        }
        if value.is_null() || PyBool_Check(value) == 0 {
            return Err(PyRuntimeError::new_err("requires_grad must be a bool").into());
        }
        tensor_of(o).requires_grad_(value == Py_True())?;
        Ok(0)
    })
}

/// Writes a value over a part of a complex tensor.
unsafe fn set_part(
    o: Object,
    value: Object,
    name: &str,
    part: impl Fn(&Tensor) -> torchtpu_tensor::Result<Tensor>,
) -> c_int {
    // SAFETY: the interpreter passes an object of our type, and any object.
    enter::status(|| unsafe {
        if value.is_null() {
            return Err(PyRuntimeError::new_err(format!("cannot delete attribute '{name}'")).into());
        }
        let part = part(tensor_of(o))?;
        match value {
            v if is_tensor(v) => part.copy_(tensor_of(v))?,
            v => {
                let Some(s) = objects::number(v) else {
                    return Err(PyTypeError::new_err(format!(
                        "{name} must be set to a Tensor or a number, not {}",
                        type_name(v)
                    ))
                    .into());
                };
                part.copy_(&Tensor::number(s, s.dtype())?)?
            }
        };
        Ok(0)
    })
}

unsafe extern "C" fn set_real(o: Object, value: Object, _closure: *mut c_void) -> c_int {
    // SAFETY: as the interpreter passes them.
    unsafe { set_part(o, value, "real", Tensor::real) }
}

unsafe extern "C" fn set_imag(o: Object, value: Object, _closure: *mut c_void) -> c_int {
    // SAFETY: as the interpreter passes them.
    unsafe { set_part(o, value, "imag", Tensor::imag) }
}

unsafe extern "C" fn set_grad(o: Object, value: Object, _closure: *mut c_void) -> c_int {
    // SAFETY: the interpreter passes an object of our type, and any object; null deletes.
    enter::status(|| unsafe {
        if assigned_elsewhere(c"grad", o, value)? {
            return Ok(0);
        }
        let g = match value {
            v if v.is_null() || v == Py_None() => None,
            v if v == o => return Err(PyRuntimeError::new_err("can't assign Variable as its own grad").into()),
            v if is_tensor(v) => Some(tensor_of(v).clone()),
            v => {
                let got = type_name(v);
                return Err(PyTypeError::new_err(format!(
                    "assigned grad expected to be a Tensor or None but got grad of type {got}"
                ))
                .into());
            }
        };
        let object = if g.is_some() { value } else { null_mut() };
        tensor_of(o).set_grad(g)?;
        autograd::keep_grad_object(tensor_of(o), object);
        Ok(0)
    })
}

unsafe extern "C" fn set_data(o: Object, value: Object, _closure: *mut c_void) -> c_int {
    // SAFETY: the interpreter passes an object of our type, and any object; references to the old tensor end before it
    // goes.
    enter::status(|| unsafe {
        if assigned_elsewhere(c"data", o, value)? {
            return Ok(0);
        }
        if value.is_null() {
            return Err(PyRuntimeError::new_err("Deleting tensor data is not allowed. Delete tensor instead!").into());
        }
        if !is_tensor(value) {
            return Err(PyTypeError::new_err(format!(
                "Variable data has to be a tensor, but got {}",
                type_name(value)
            ))
            .into());
        }
        let new = tensor_of(value).detach();
        if tensor_of(o).requires_grad() && !new.dtype().is_inexact() {
            return Err(PyRuntimeError::new_err(
                "data set to a tensor that requires gradients must be floating point or complex dtype",
            )
            .into());
        }
        move_history(tensor_of(o), &new)?;
        replace(o, new);
        Ok(0)
    })
}

/// Gives `to` what autograd hung on `from`.
fn move_history(from: &Tensor, to: &Tensor) -> Outcome<()> {
    let nr = from.output_nr();
    let moved = match from.history()? {
        // Graphs that exist lead to this leaf, so it stays the leaf unless the new tensor is of another kind.
        Some(GradRef::Leaf(l)) if l.meta() == to.meta() => Some(GradRef::Leaf(l)),
        Some(GradRef::Leaf(l)) => {
            let new = Leaf::new(*to.meta(), l.requires_grad());
            let grad = l.grad.lock().unwrap_or_else(|e| e.into_inner()).clone();
            *new.grad.lock().unwrap_or_else(|e| e.into_inner()) = grad;
            let hooks = l.hooks.lock().unwrap_or_else(|e| e.into_inner());
            let mut kept = new.hooks.lock().unwrap_or_else(|e| e.into_inner());
            kept.before.clone_from(&hooks.before);
            kept.after.clone_from(&hooks.after);
            kept.node.clone_from(&hooks.node);
            kept.objects.clone_from(&hooks.objects);
            kept.grad_object.clone_from(&hooks.grad_object);
            drop(kept);
            Some(GradRef::Leaf(Arc::new(new)))
        }
        node => node,
    };
    to.set_grad_ref(moved, nr);
    Ok(())
}

pub(crate) fn properties() -> Vec<PyGetSetDef> {
    // The closure names the property that overrides are told of.
    let named = |name: &'static CStr, told: &'static CStr, get: getter, set: Option<setter>| PyGetSetDef {
        name: name.as_ptr(),
        get: Some(get),
        set,
        doc: null(),
        closure: told.as_ptr().cast_mut().cast(),
    };
    let p = |name: &'static CStr, get: getter, set: Option<setter>| named(name, name, get, set);
    vec![
        p(c"shape", get_shape, None),
        p(c"ndim", get_ndim, None),
        p(c"dtype", get_dtype, None),
        p(c"device", get_device, None),
        p(c"requires_grad", get_requires_grad, Some(set_requires_grad)),
        p(c"grad", get_grad, Some(set_grad)),
        named(c"_grad", c"grad", get_grad, Some(set_grad)),
        p(c"grad_fn", get_grad_fn, None),
        p(c"is_leaf", get_is_leaf, None),
        p(c"data", get_data, Some(set_data)),
        p(c"T", get_transposed, None),
        p(c"H", get_adjoint, None),
        p(c"mT", get_matrix_transposed, None),
        p(c"mH", get_matrix_adjoint, None),
        p(c"real", get_real, Some(set_real)),
        p(c"imag", get_imag, Some(set_imag)),
        p(c"is_cpu", get_is_cpu, None),
        p(c"is_tpu", get_is_tpu, None),
        p(c"is_meta", get_is_meta, None),
        p(c"is_cuda", get_false, None),
        p(c"is_mps", get_false, None),
        p(c"is_xla", get_false, None),
        p(c"is_xpu", get_false, None),
        p(c"is_ipu", get_false, None),
        p(c"is_maia", get_false, None),
        p(c"is_mtia", get_false, None),
        p(c"is_vulkan", get_false, None),
        p(c"is_mkldnn", get_false, None),
        p(c"is_sparse_csr", get_false, None),
        p(c"is_sparse", get_false, None),
        p(c"is_quantized", get_false, None),
        p(c"is_nested", get_false, None),
        p(c"itemsize", get_itemsize, None),
        p(c"nbytes", get_nbytes, None),
        p(c"_version", get_version, None),
        p(c"output_nr", get_output_nr, None),
        p(c"_base", get_base, None),
        p(c"layout", get_layout, None),
        p(c"retains_grad", get_retains_grad, None),
        p(c"names", get_names, None),
    ]
}

// ---- methods

/// Arguments of a hand-written method, put in the order of its parameters; null where not given.
///
/// # Safety
/// As the interpreter passes them.
unsafe fn arrange<const N: usize>(
    function: &str,
    params: [&str; N],
    args: *const Object,
    positional: Py_ssize_t,
    names: Object,
) -> Outcome<[Object; N]> {
    let mut given = [null_mut(); N];
    let n = positional as usize;
    if n > N {
        return Err(PyTypeError::new_err(format!(
            "{function}() takes at most {N} positional arguments but {n} were given"
        ))
        .into());
    }
    // SAFETY: by the contract; values of keywords follow the positional ones.
    unsafe {
        for (i, g) in given.iter_mut().enumerate().take(n) {
            *g = *args.add(i);
        }
        let keywords = if names.is_null() { 0 } else { PyTuple_Size(names) };
        for k in 0..keywords {
            let name = string(PyTuple_GetItem(names, k)).unwrap_or("?");
            let Some(at) = params.iter().position(|p| *p == name) else {
                return Err(
                    PyTypeError::new_err(format!("{function}() got an unexpected keyword argument '{name}'")).into()
                );
            };
            if !given[at].is_null() {
                return Err(
                    PyTypeError::new_err(format!("{function}() got multiple values for argument '{name}'")).into()
                );
            }
            given[at] = *args.add(n + k as usize);
        }
        for g in &mut given {
            if *g == Py_None() {
                *g = null_mut();
            }
        }
    }
    Ok(given)
}

macro_rules! methods {
    ($($f:ident $name:literal ($($param:literal),*) |$o:ident, $x:ident, $args:ident| $body:expr;)*) => {
        $(unsafe extern "C" fn $f(o: Object, args: *const Object, positional: Py_ssize_t, names: Object) -> Object {
            enter::object(|| {
                // Methods that begin with one underscore are for this package only.
                const IS_PUBLIC: bool = $name.as_bytes()[0] != b'_' || $name.as_bytes()[1] == b'_';
                // SAFETY: as the interpreter passes them.
                unsafe {
                    if IS_PUBLIC && torch_function::takes_over(o) {
                        return torch_function::call_method($name, o, args, positional, names);
                    }
                }
                let ($o, $args) = (o, {
                    // SAFETY: as the interpreter passes them.
                    unsafe { arrange($name, [$($param),*], args, positional, names) }?
                });
                // SAFETY: the receiver of a method is an object of our type.
                let $x = unsafe { tensor_of(o) };
                $body
            })
        })*
        pub(crate) fn methods() -> Vec<PyMethodDef> {
            let entry = |name: &'static str, f, flags| PyMethodDef {
                ml_name: name.as_ptr().cast(),
                ml_meth: PyMethodDefPointer { PyCFunctionFastWithKeywords: f },
                ml_flags: METH_FASTCALL | METH_KEYWORDS | flags,
                ml_doc: null(),
            };
            vec![
                $(entry(concat!($name, "\0"), $f, 0),)*
                entry("_make_subclass\0", make_subclass, METH_STATIC),
                entry("as_subclass\0", as_subclass, 0),
            ]
        }
    };
}

methods! {
    m_size "size" ("dim") |_o, x, a| match a[0] {
        d if d.is_null() => Ok(size::new(x.dims())),
        d => integer(x.dims()[dim_of(x, d, "size")?]),
    };
    m_dim "dim" () |_o, x, _a| integer(x.dims().len());
    m_ndimension "ndimension" () |_o, x, _a| integer(x.dims().len());
    m_numel "numel" () |_o, x, _a| integer(x.numel());
    m_nelement "nelement" () |_o, x, _a| integer(x.numel());
    m_stride "stride" ("dim") |_o, x, a| match a[0] {
        d if d.is_null() => Python::attach(|py| object_of(pyo3::types::PyTuple::new(py, x.strides().iter())?)),
        d => integer(x.strides()[dim_of(x, d, "stride")?]),
    };
    m_storage_offset "storage_offset" () |_o, x, _a| integer(x.storage_offset());
    m_data_ptr "data_ptr" () |_o, x, _a| integer(address(x));
    m_storage_id "_storage_id" () |_o, x, _a| integer(x.storage_id());
    m_storage_bytes "_storage_bytes" () |_o, x, _a| integer(x.storage_bytes());
    m_is_resizable "_is_resizable" () |_o, x, _a| boolean(x.is_resizable());
    m_is_contiguous "is_contiguous" ("memory_format") |_o, x, a| match format_of(a[0], "is_contiguous")? {
        None => boolean(x.has_contiguous_strides()),
        Some(f) => boolean(x.is_contiguous_in(f)),
    };
    m_element_size "element_size" () |_o, x, _a| integer(x.dtype().size_bytes());
    m_item "item" () |_o, x, _a| Ok(number_object(only_element(x)?));
    m_tolist "tolist" () |_o, x, _a| convert::to_list(x);
    m_is_floating_point "is_floating_point" () |_o, x, _a| boolean(x.dtype().is_float());
    m_is_complex "is_complex" () |_o, x, _a| boolean(x.dtype().is_complex());
    m_is_conj "is_conj" () |_o, x, _a| boolean(x.is_conj());
    m_is_neg "is_neg" () |_o, x, _a| boolean(x.is_neg());
    m_complex "__complex__" () |_o, x, _a| {
        if x.numel() != 1 {
            let text = "only one element tensors can be converted to Python scalars";
            return Err(pyo3::exceptions::PyValueError::new_err(text).into());
        }
        let (re, im) = only_element(x)?.to_complex();
        Ok(number_object(Scalar::Complex(re, im)))
    };
    m_is_signed "is_signed" () |_o, x, _a| boolean(!matches!(x.dtype(), DType::Bool | DType::U8));
    m_is_inference "is_inference" () |_o, x, _a| boolean(x.is_inference());
    m_is_view "_is_view" () |_o, x, _a| boolean(x.is_view());
    m_get_device "get_device" () |_o, x, _a| {
        let tpu = x.device().kind == DeviceKind::Tpu;
        Ok(number_object(Scalar::Int(if tpu { x.device().index.into() } else { -1 })))
    };
    m_detach_in_place "detach_" () |o, x, _a| {
        if x.is_view() {
            return Err(PyRuntimeError::new_err("Can't detach views in-place. Use detach() instead. If you are using \
                DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as True, gradients are \
                views of DDP buckets, and hence detach_() cannot be called on these gradients. To fix this error, \
                please refer to the Optimizer.zero_grad() function in torch/optim/optimizer.py as a reference.")
            .into());
        }
        x.set_grad_ref(None, 0);
        // SAFETY: the receiver.
        unsafe { same(o) }
    };
    m_retain_grad "retain_grad" () |_o, x, _a| {
        x.retain_grad()?;
        none()
    };
    m_to "to" ("device", "dtype", "non_blocking", "copy", "other", "memory_format") |_o, x, a| {
        // SAFETY: objects that the caller holds.
        let (dtype, device, copy) = unsafe { to_arguments(a)? };
        moved(x, dtype, device, copy, format_of(a[5], "to")?)
    };
    m_cpu "cpu" ("memory_format") |_o, x, a| moved(x, None, Some(Device::CPU), false, format_of(a[0], "cpu")?);
    m_tpu "tpu" ("device", "non_blocking", "memory_format") |_o, x, a| {
        let device = match a[0] {
            d if d.is_null() => Device::TPU,
            // SAFETY: an object that the caller holds.
            d => unsafe { device::extract(d) }?.unwrap_or(Device::TPU),
        };
        moved(x, None, Some(device), false, format_of(a[2], "tpu")?)
    };
    m_text "_text" () |_o, x, _a| {
        let x = x.clone();
        let s = enter::without_gil(|| x.to_string());
        text(&s)
    };
}

fn dim_of(x: &Tensor, o: Object, function: &str) -> Outcome<usize> {
    // SAFETY: an object that the caller holds.
    let Some(d) = (unsafe { int(o) }) else {
        // SAFETY: as above.
        let got = unsafe { type_name(o) };
        return Err(
            PyTypeError::new_err(format!("{function}(): argument 'dim' (position 1) must be int, not {got}")).into()
        );
    };
    let n = x.dims().len() as i64;
    let range = n.max(1);
    if d < -range || d >= range || n == 0 {
        return Err(torchtpu_tensor::Error::index(format!(
            "Dimension out of range (expected to be in range of [{}, {}], but got {d})",
            -range,
            range - 1
        ))
        .into());
    }
    Ok(d.rem_euclid(n) as usize)
}

/// The value of an argument that has to be a `bool`.
///
/// # Safety
/// `o` is an object; the GIL is held.
unsafe fn boolean_of(o: Object) -> Option<bool> {
    // SAFETY: by the contract.
    unsafe { (PyBool_Check(o) != 0).then(|| o == Py_True()) }
}

/// The error for arguments that fit no form of `to`. Arguments after a gap were given by name.
///
/// # Safety
/// Objects or null; the GIL is held.
#[cold]
unsafe fn no_form_of_to(a: &[Object; 6]) -> PyErr {
    let names = ["device", "dtype", "non_blocking", "copy", "other", "memory_format"];
    let gap = a.iter().position(|o| o.is_null()).unwrap_or(a.len());
    let given = names.iter().zip(a).enumerate().filter(|(_, (_, o))| !o.is_null()).map(|(i, (name, o))| {
        // SAFETY: by the contract.
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

/// `to(device, dtype)`, `to(dtype)`, `to(other)`, and keywords.
///
/// # Safety
/// Objects or null.
unsafe fn to_arguments(a: [Object; 6]) -> Outcome<(Option<DType>, Option<Device>, bool)> {
    let [first, second, third, fourth, other, _format] = a;
    // SAFETY: by the contract.
    unsafe {
        let (mut dtype, mut device) = (None, None);
        // `to(dtype, non_blocking, copy)` and `to(other, non_blocking, copy)` put copy one place earlier.
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

/// Where the first element is. Memory of a device gets its address late, and from run to run another: the number of the
/// storage stands for it, so that tensors on one storage can be told from others.
fn address(x: &Tensor) -> usize {
    match x.device().kind {
        DeviceKind::Tpu if x.numel() > 0 => x.storage_id() + x.storage_offset() * x.dtype().size_bytes(),
        _ if x.numel() == 0 => 0,
        _ => x.data_ptr(),
    }
}

/// The memory format that an argument names, if it is given.
fn format_of(o: Object, function: &str) -> Outcome<Option<MemoryFormat>> {
    // SAFETY: None, or an object that the caller holds.
    if o.is_null() || o == unsafe { Py_None() } {
        return Ok(None);
    }
    // SAFETY: an object that the caller holds.
    match unsafe { dtype::memory_format(o) } {
        Some(f) => Ok(Some(f)),
        None => {
            // SAFETY: as above.
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
    let crossing = device.is_some_and(|d| d != x.device());
    let x = x.clone();
    let f = || ops::convert::to_format(&x, dtype, device, copy, format);
    // Copies to a device wait for it.
    Ok(wrap(if crossing { enter::without_gil(f) } else { enter::work(x.numel(), f) }?))
}

unsafe extern "C" fn make_subclass(_o: Object, args: *const Object, positional: Py_ssize_t, names: Object) -> Object {
    // SAFETY: as the interpreter passes them.
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

unsafe extern "C" fn as_subclass(o: Object, args: *const Object, positional: Py_ssize_t, names: Object) -> Object {
    // SAFETY: as the interpreter passes them.
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
        wrap_as(cls.cast(), t)
    }
}

/// `torch.Tensor(...)`: sizes, or data in the default dtype.
pub(crate) unsafe extern "C" fn new(ty: *mut PyTypeObject, args: Object, kwargs: Object) -> Object {
    // SAFETY: as the interpreter passes them; the tuple holds its items.
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
        let device = on.or_else(device::current_default).unwrap_or(Device::CPU);
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
                Tensor::empty(&meta)?.to_device(device)?
            }
            None if n == 1 && is_tensor(first) => tensor_of(first).detach(),
            None if n == 1 || subclass => convert::tensor(first, Some(default_dtype()), Some(device))?,
            None => {
                return Err(PyTypeError::new_err("new(): expected sizes, a sequence of numbers, or a Tensor").into());
            }
        };
        wrap_as(ty, if n == 1 && is_tensor(first) { t } else { convert::mark_inference(t) })
    })
}

// ---- functions about tensors

/// Whether an object is a tensor.
#[pyfunction]
#[pyo3(name = "is_tensor")]
fn is_tensor_object(obj: &Bound<'_, PyAny>) -> bool {
    extract(obj).is_some()
}

/// Puts the tensor of `value`, with its history, into the object `target`: `target.unsqueeze_(0)` and its kin.
#[pyfunction]
fn _swap_tensor(target: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    use crate::enter::OrRaise;
    let (Some(x), Some(v)) = (extract(target), extract(value)) else {
        return Err(PyTypeError::new_err("expected two Tensors"));
    };
    // A view stays one, of the same base.
    let new = if x.is_view() && v.is_view() { v.same_view().or_raise()? } else { v.detach() };
    match v.history().or_raise()? {
        Some(GradRef::Node(n)) => new.set_grad_ref(Some(GradRef::Node(n)), v.output_nr()),
        _ => move_history(x, &new).or_raise()?,
    }
    // SAFETY: a tensor object; no reference to its tensor is in use.
    unsafe { replace(target.as_ptr(), new) };
    Ok(())
}

/// Strides of a tensor of these sizes in a memory format.
#[pyfunction]
fn _format_strides(size: Vec<usize>, format: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    use crate::enter::OrRaise;
    // SAFETY: an object.
    let format = unsafe { dtype::memory_format(format.as_ptr()) }
        .ok_or_else(|| PyTypeError::new_err("memory_format must be a torch.memory_format"))?;
    let dims = torchtpu_tensor::Dims::try_new(&size).or_raise()?;
    Ok(format.strides(&dims).or_raise()?.to_vec())
}

/// Whether the elements fill a range of memory, each place once.
#[pyfunction]
fn _is_dense(t: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(extract(t).ok_or_else(|| PyTypeError::new_err("expected a Tensor"))?.is_dense())
}

/// Name of the memory format that a tensor's strides suggest.
#[pyfunction]
fn _suggested_format(t: &Bound<'_, PyAny>) -> PyResult<&'static str> {
    let x = extract(t).ok_or_else(|| PyTypeError::new_err("expected a Tensor"))?;
    Ok(x.suggested_format().name())
}

/// Layout and elements of another tensor, on the same storage; what `torch.load` rebuilds tensors with.
#[pyfunction]
fn _strided<'py>(
    storage: &Bound<'py, PyAny>,
    offset: i64,
    size: Vec<i64>,
    stride: Vec<i64>,
) -> PyResult<Bound<'py, PyAny>> {
    use crate::enter::OrRaise;
    let t = extract(storage).ok_or_else(|| PyTypeError::new_err("expected a Tensor"))?;
    let y = torchtpu_tensor::no_grad(|| t.as_strided(&size, &stride, Some(offset))).or_raise()?;
    to_python(storage.py(), y.detach())
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(is_tensor_object, m)?)?;
    m.add_function(wrap_pyfunction!(_swap_tensor, m)?)?;
    m.add_function(wrap_pyfunction!(_strided, m)?)?;
    m.add_function(wrap_pyfunction!(_format_strides, m)?)?;
    m.add_function(wrap_pyfunction!(_suggested_format, m)?)?;
    m.add_function(wrap_pyfunction!(_is_dense, m)?)?;
    Ok(())
}
