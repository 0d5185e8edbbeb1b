//! The properties of `Tensor`: getters, setters, and the move of autograd state when `.data` is assigned.

use crate::enter::{self, Outcome};
use crate::objects::{self, boolean, integer, new_none, owned, type_name};
use crate::tensor_type::{is_tensor, remember_place, replace, tensor_of, wrap};
use crate::torch_function::{self, Access};
use crate::{autograd, device, dtype, size};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi::*;
use pyo3::prelude::*;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use torchtpu_tensor::graph::GradPlace;
use torchtpu_tensor::{DeviceKind, GradRef, Tensor, warning};

type Object = *mut PyObject;

/// Return whether the gradient of a computed tensor will be kept.
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

/// Return the conjugate transpose: `H` of one matrix, `mH` of matrices.
fn adjoint(x: &Tensor, one: bool) -> Outcome<Tensor> {
    let n = x.dims().len();
    let message = match (one, n) {
        (true, 0 | 2) | (false, 2..) => return Ok(if n == 0 { x.conj()? } else { x.adjoint()? }),
        (true, 1) => "tensor.H is only supported on matrices (2-D tensors). Got 1-D tensor.".to_string(),
        (true, n) => format!(
            "tensor.H is only supported on matrices (2-D tensors). Got {n}-D tensor. For batches of matrices, consider \
            using tensor.mH"
        ),
        (false, n) => format!("tensor.mH is only supported on matrices or batches of matrices. Got {n}-D tensor."),
    };
    Err(PyRuntimeError::new_err(message).into())
}

macro_rules! getters {
    ($($f:ident |$x:ident| $body:expr;)*) => {$(
        unsafe extern "C" fn $f(o: Object, closure: *mut c_void) -> Object {
            enter::object(|| {
                // SAFETY: the interpreter passes an object of our type. The closure is the property's name.
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
    get_dtype |x| Python::attach(|py| owned(dtype::object(py, x.dtype())));
    get_device |x| Python::attach(|py| owned(device::object(py, x.device())?));
    get_requires_grad |x| boolean(x.requires_grad());
    get_grad |x| match x.grad() {
        Some(g) => {
            let o = wrap(g);
            if let Some(place) = GradPlace::of(x).filter(|_| !o.is_null()) {
                // SAFETY: `wrap` has returned a tensor object, and the interpreter holds the GIL.
                unsafe { remember_place(o, place) };
            }
            Ok(o)
        }
        None => {
            if x.requires_grad() && !x.is_leaf() && !retains_grad(x) {
                warning::warn("The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad \
                    attribute won't be populated during autograd.backward(). If you indeed want the .grad field to be \
                    populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you access the \
                    non-leaf Tensor by mistake, make sure you access the leaf Tensor instead. See \
                    github.com/pytorch/pytorch/pull/30531 for more information.")?;
            }
            new_none()
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
        // The bytes of an expanded view may need more than 64 bits.
        let bytes = x.numel() as u128 * x.dtype().size_bytes() as u128;
        Python::attach(|py| owned(bytes.into_pyobject(py).map_err(PyErr::from)?))
    };
    get_version |x| {
        if x.is_inference() {
            return Err(PyRuntimeError::new_err("Inference tensors do not track version counter.").into());
        }
        integer(x.version() as usize)
    };
    get_output_nr |x| integer(x.output_nr() as usize);
    get_base |x| match x.view_info().filter(|v| v.is_visible()) {
        Some(v) => Ok(wrap(v.base.clone())),
        None => new_none(),
    };
    get_layout |_x| Python::attach(|py| owned(py.import("pytpu._C")?.getattr("strided")?));
    get_retains_grad |x| boolean(retains_grad(x));
    get_grad_fn |x| match x.history()? {
        Some(GradRef::Node(n)) => Python::attach(|py| owned(autograd::node_object(py, n)?)),
        _ => new_none(),
    };
    get_names |x| {
        let n = x.dims().len();
        Python::attach(|py| owned(pyo3::types::PyTuple::new(py, (0..n).map(|_| py.None()))?))
    };
}

/// Let an override take over the assignment to a property, or its deletion (`value` is null). Return whether it did.
///
/// # Safety
/// `o` is an object of our type, `value` an object or null.
#[inline]
unsafe fn assigned_elsewhere(name: &CStr, o: Object, value: Object) -> Outcome<bool> {
    // SAFETY: `o` is an object of our type, `value` an object or null.
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
    // SAFETY: the interpreter passes an object of our type, and any object or, to delete, null.
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

/// Write a value to the real or imaginary part of a complex tensor.
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
    // SAFETY: the interpreter passes these arguments, in the form of this kind of function.
    unsafe { set_part(o, value, "real", Tensor::real) }
}

unsafe extern "C" fn set_imag(o: Object, value: Object, _closure: *mut c_void) -> c_int {
    // SAFETY: the interpreter passes these arguments, in the form of this kind of function.
    unsafe { set_part(o, value, "imag", Tensor::imag) }
}

unsafe extern "C" fn set_grad(o: Object, value: Object, _closure: *mut c_void) -> c_int {
    // SAFETY: the interpreter passes an object of our type, and any object or, to delete, null.
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
        if let Some(place) = GradPlace::of(tensor_of(o)).filter(|_| !object.is_null()) {
            remember_place(object, place);
        }
        Ok(0)
    })
}

unsafe extern "C" fn set_data(o: Object, value: Object, _closure: *mut c_void) -> c_int {
    // SAFETY: the interpreter passes an object of our type, and any object or, to delete, null. References to the old
    // tensor end before it is replaced.
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
        if tensor_of(o).place().is_abstract() != new.place().is_abstract() {
            return Err(PyRuntimeError::new_err(
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor \
                type.",
            )
            .into());
        }
        new.take_over(tensor_of(o))?;
        replace(o, new);
        Ok(0)
    })
}

pub(crate) fn properties() -> Vec<PyGetSetDef> {
    // The closure is the name of the property that overrides get.
    let named = |name: &'static CStr, told: &'static CStr, get: getter, set, doc: &'static CStr| PyGetSetDef {
        name: name.as_ptr(),
        get: Some(get),
        set,
        doc: doc.as_ptr(),
        closure: told.as_ptr().cast_mut().cast(),
    };
    let p =
        |name: &'static CStr, get: getter, set: Option<setter>, doc: &'static CStr| named(name, name, get, set, doc);
    vec![
        p(c"shape", get_shape, None, c"The sizes, a `torch.Size`."),
        p(c"ndim", get_ndim, None, c"The number of dimensions."),
        p(c"dtype", get_dtype, None, c"The type of the elements."),
        p(c"device", get_device, None, c"The device that holds the elements."),
        p(
            c"requires_grad",
            get_requires_grad,
            Some(set_requires_grad),
            c"Whether autograd records operations on this tensor. It can be set on leaves.",
        ),
        p(c"grad", get_grad, Some(set_grad), c"The gradient that `backward` has computed, or `None`."),
        named(c"_grad", c"grad", get_grad, Some(set_grad), c"The same as `grad`."),
        p(c"grad_fn", get_grad_fn, None, c"The node of the graph that computed this tensor, or `None` for a leaf."),
        p(c"is_leaf", get_is_leaf, None, c"Whether no operation that autograd recorded has computed this tensor."),
        p(
            c"data",
            get_data,
            Some(set_data),
            c"A tensor with the same elements that autograd does not follow. An assignment replaces the elements.",
        ),
        p(
            c"T",
            get_transposed,
            None,
            c"This matrix transposed. With other numbers of dimensions, their order is reversed, which is deprecated.",
        ),
        p(c"H", get_adjoint, None, c"The conjugate transpose of this matrix."),
        p(c"mT", get_matrix_transposed, None, c"The matrices in the last two dimensions, transposed."),
        p(c"mH", get_matrix_adjoint, None, c"The conjugate transposes of the matrices in the last two dimensions."),
        p(c"real", get_real, Some(set_real), c"The real parts, as a view. A real tensor is returned itself."),
        p(c"imag", get_imag, Some(set_imag), c"The imaginary parts of a complex tensor, as a view."),
        p(c"is_cpu", get_is_cpu, None, c"Whether the tensor is on `cpu`."),
        p(c"is_tpu", get_is_tpu, None, c"Whether the tensor is on `tpu`."),
        p(c"is_meta", get_is_meta, None, c"Whether the tensor is on `meta`, where it has no elements."),
        p(c"is_cuda", get_false, None, c"Always `False`: there is no such device in this build."),
        p(c"is_mps", get_false, None, c"Always `False`: there is no such device in this build."),
        p(c"is_xla", get_false, None, c"Always `False`: there is no such device in this build."),
        p(c"is_xpu", get_false, None, c"Always `False`: there is no such device in this build."),
        p(c"is_ipu", get_false, None, c"Always `False`: there is no such device in this build."),
        p(c"is_maia", get_false, None, c"Always `False`: there is no such device in this build."),
        p(c"is_mtia", get_false, None, c"Always `False`: there is no such device in this build."),
        p(c"is_vulkan", get_false, None, c"Always `False`: there is no such device in this build."),
        p(c"is_mkldnn", get_false, None, c"Always `False`: no tensor has the layout of oneDNN."),
        p(c"is_sparse_csr", get_false, None, c"Always `False`: all tensors are dense."),
        p(c"is_sparse", get_false, None, c"Always `False`: all tensors are dense."),
        p(c"is_quantized", get_false, None, c"Always `False`: there are no quantized tensors."),
        p(c"is_nested", get_false, None, c"Always `False`: there are no nested tensors."),
        p(c"itemsize", get_itemsize, None, c"The size of one element in bytes."),
        p(c"nbytes", get_nbytes, None, c"The number of elements times the size of one, in bytes."),
        p(c"_version", get_version, None, c"The number of writes to the elements so far."),
        p(c"output_nr", get_output_nr, None, c"Which result of `grad_fn` this tensor is."),
        p(c"_base", get_base, None, c"The tensor that this one is a view of, or `None`."),
        p(c"layout", get_layout, None, c"The layout of the elements, `torch.strided`."),
        p(
            c"retains_grad",
            get_retains_grad,
            None,
            c"Whether `retain_grad` was called on this tensor, which is not a leaf.",
        ),
        p(c"names", get_names, None, c"`None` for each dimension: dimensions have no names."),
    ]
}
