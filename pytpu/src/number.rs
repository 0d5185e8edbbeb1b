//! Operators: `x + y`, `x += 1`, `x < y`, `-x`, `float(x)`.
//!
//! Two plain tensors take two pointer compares and one call. Numbers stay numbers: they are operands of the op, never
//! tensors. For any other operand the slot returns `NotImplemented`, and Python raises its own error.

use crate::enter::{self, Failure, Outcome};
use crate::objects::{self, new_object, number_object, operand, part_of};
use crate::tensor_type::{is_exact, is_tensor, tensor_of, wrap};
use crate::{convert, table, torch_dispatch, torch_function};
use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi::*;
use pyo3::prelude::*;
use std::ffi::{c_int, c_void};
use torchtpu_tensor::ops::pointwise::{self, BinaryKind, CompareKind, UnaryKind};
use torchtpu_tensor::schema::{Arg, Args, Operand, Ret};
use torchtpu_tensor::{DType, Scalar, Tensor, autocast};

type Object = *mut PyObject;

fn not_implemented() -> Outcome {
    // SAFETY: the object is a constant of the interpreter. The result is a new reference.
    unsafe {
        let o = Py_NotImplemented();
        Py_INCREF(o);
        Ok(o)
    }
}

/// Run a function of two operands. Big work runs without the GIL, on handles of its own, since another thread may put
/// other tensors into the objects.
#[inline(always)]
fn compute<R>(a: Operand<'_>, b: Operand<'_>, weight: usize, f: impl FnOnce(Operand<'_>, Operand<'_>) -> R) -> R {
    if weight * elements(a, b) < enter::BIG { f(a, b) } else { compute_big(a, b, f) }
}

#[inline(never)]
fn compute_big<R>(a: Operand<'_>, b: Operand<'_>, f: impl FnOnce(Operand<'_>, Operand<'_>) -> R) -> R {
    let held = |o: Operand<'_>| if let Operand::Tensor(t) = o { Some(t.clone()) } else { None };
    let (x, y) = (held(a), held(b));
    enter::without_gil(|| f(x.as_ref().map_or(a, Operand::Tensor), y.as_ref().map_or(b, Operand::Tensor)))
}

#[inline(always)]
fn elements(a: Operand<'_>, b: Operand<'_>) -> usize {
    let n = |o: Operand<'_>| if let Operand::Tensor(t) = o { t.numel() } else { 0 };
    n(a) + n(b)
}

/// # Safety
/// Objects; the GIL is held.
#[inline(always)]
unsafe fn with_operands(
    a: Object,
    b: Object,
    name: &'static str,
    reflected: &'static str,
    f: impl Fn(Operand<'_>, Operand<'_>) -> torchtpu_tensor::Result<Tensor>,
) -> Outcome {
    // SAFETY: `a` and `b` are objects, and the GIL is held.
    unsafe {
        if !(is_exact(a) && is_exact(b)) && ((!is_exact(a) && takes_over(a)) || (!is_exact(b) && takes_over(b))) {
            return if is_tensor(a) {
                torch_function::call_operator(name, &[a, b])
            } else {
                torch_function::call_operator(reflected, &[b, a])
            };
        }
        match (operand(a), operand(b)) {
            (Some(x), Some(y)) => Ok(wrap(compute(x, y, 1, &f)?)),
            _ => with_other(a, b, name, f),
        }
    }
}

/// Compute an operator of a tensor and an object that is neither a tensor nor a 64-bit number.
///
/// Handle `==` and `array / tensor` for a NumPy array. Return `NotImplemented` for the other operators, so that NumPy
/// tries.
///
/// # Safety
/// Objects; the GIL is held.
#[cold]
unsafe fn with_other(
    a: Object,
    b: Object,
    name: &'static str,
    f: impl Fn(Operand<'_>, Operand<'_>) -> torchtpu_tensor::Result<Tensor>,
) -> Outcome {
    // SAFETY: `a` and `b` are objects, and the GIL is held. The product is a new reference.
    unsafe {
        if objects::is_too_large(a) || objects::is_too_large(b) {
            return Err(PyOverflowError::new_err("int too big to convert").into());
        }
        let (tensor, array) = if is_tensor(a) { (a, b) } else { (b, a) };
        if !is_tensor(tensor) || !convert::is_array(array) {
            return not_implemented();
        }
        match name {
            "__eq__" => Python::attach(|py| {
                match convert::from_array_interface(&Bound::from_borrowed_ptr(py, array)) {
                    Ok(y) => Ok(wrap(f(Operand::Tensor(tensor_of(tensor)), Operand::Tensor(&y))?)),
                    // An array with a dtype that no tensor has is not equal to a tensor.
                    Err(e) if e.is_instance_of::<PyTypeError>(py) => not_implemented(),
                    Err(e) => Err(e.into()),
                }
            }),
            "__truediv__" if tensor == b => {
                let inverse = wrap(tensor_of(b).reciprocal()?);
                let y = PyNumber_Multiply(inverse, array);
                Py_DECREF(inverse);
                if y.is_null() { Err(Python::attach(PyErr::fetch).into()) } else { Ok(y) }
            }
            _ => not_implemented(),
        }
    }
}

/// Floats and integers never override `__torch_function__`.
///
/// # Safety
/// `o` is an object.
#[inline(always)]
unsafe fn takes_over(o: Object) -> bool {
    // SAFETY: `o` is an object.
    unsafe { PyFloat_CheckExact(o) == 0 && PyLong_CheckExact(o) == 0 && torch_function::operator_takes_over(o) }
}

macro_rules! binary_slots {
    ($($f:ident $kind:ident $name:literal $reflected:literal;)*) => {$(
        unsafe extern "C" fn $f(a: Object, b: Object) -> Object {
            // SAFETY: the interpreter passes objects and holds the GIL.
            enter::object(|| unsafe {
                if is_exact(a) && is_exact(b) {
                    let (x, y) = (tensor_of(a), tensor_of(b));
                    if x.numel() + y.numel() < enter::BIG {
                        return Ok(wrap(pointwise::binary(BinaryKind::$kind, x, y)?));
                    }
                }
                with_operands(a, b, $name, $reflected, |x, y| pointwise::arith(BinaryKind::$kind, x, y))
            })
        }
    )*};
}
binary_slots! {
    add Add "__add__" "__radd__";
    sub Sub "__sub__" "__rsub__";
    mul Mul "__mul__" "__rmul__";
    div Div "__truediv__" "__rtruediv__";
    floor_divide FloorDivide "__floordiv__" "__rfloordiv__";
    remainder Remainder "__mod__" "__rmod__";
    and BitwiseAnd "__and__" "__rand__";
    or BitwiseOr "__or__" "__ror__";
    xor BitwiseXor "__xor__" "__rxor__";
    left_shift LeftShift "__lshift__" "__rlshift__";
    right_shift RightShift "__rshift__" "__rrshift__";
}

/// # Safety
/// Objects; the GIL is held.
#[inline(always)]
unsafe fn change_in_place(a: Object, b: Object, name: &'static str, kind: BinaryKind) -> Outcome {
    // SAFETY: `a` and `b` are objects, and the GIL is held. The left operand of an in-place slot is of our type.
    unsafe {
        if (!is_exact(a) && takes_over(a)) || (!is_exact(b) && takes_over(b)) {
            return torch_function::call_operator(name, &[a, b]);
        }
        let Some(y) = operand(b) else {
            return if objects::is_too_large(b) {
                Err(PyOverflowError::new_err("int too big to convert").into())
            } else {
                not_implemented()
            };
        };
        let x = tensor_of(a);
        compute(Operand::Tensor(x), y, 1, |x, y| match x {
            Operand::Tensor(x) => pointwise::arith_(kind, x, y),
            Operand::Scalar(_) => unreachable!("the left operand is a tensor"),
        })?;
        Py_INCREF(a);
        Ok(a)
    }
}

macro_rules! in_place_slots {
    ($($f:ident $kind:ident $name:literal;)*) => {$(
        unsafe extern "C" fn $f(a: Object, b: Object) -> Object {
            // SAFETY: the interpreter passes objects and holds the GIL.
            enter::object(|| unsafe { change_in_place(a, b, $name, BinaryKind::$kind) })
        }
    )*};
}
in_place_slots! {
    iadd Add "__iadd__";
    isub Sub "__isub__";
    imul Mul "__imul__";
    idiv Div "__itruediv__";
    ifloor_divide FloorDivide "__ifloordiv__";
    iremainder Remainder "__imod__";
    iand BitwiseAnd "__iand__";
    ior BitwiseOr "__ior__";
    ixor BitwiseXor "__ixor__";
    ileft_shift LeftShift "__ilshift__";
    iright_shift RightShift "__irshift__";
}

/// An operator has the autocast policy of the function with its name.
#[inline(always)]
fn cast(
    name: &str,
    x: Operand<'_>,
    y: Operand<'_>,
    f: impl Fn(Operand<'_>, Operand<'_>) -> torchtpu_tensor::Result<Tensor>,
) -> torchtpu_tensor::Result<Tensor> {
    if autocast::is_on() { cast_operands(name, x, y, &f) } else { f(x, y) }
}

#[cold]
fn cast_operands(
    name: &str,
    x: Operand<'_>,
    y: Operand<'_>,
    f: &dyn Fn(Operand<'_>, Operand<'_>) -> torchtpu_tensor::Result<Tensor>,
) -> torchtpu_tensor::Result<Tensor> {
    let argument = |o| match o {
        Operand::Tensor(t) => Arg::Tensor(t),
        Operand::Scalar(s) => Arg::Scalar(s),
    };
    let args = [argument(x), argument(y)];
    let r = autocast::call(table::policies(name), &Args(&args), |a| f(a.operand(0)?, a.operand(1)?).map(Ret::Tensor))?;
    match r {
        Ret::Tensor(t) => Ok(t),
        _ => unreachable!("an operator gives one tensor"),
    }
}

unsafe extern "C" fn power(a: Object, b: Object, modulo: Object) -> Object {
    // SAFETY: the interpreter passes objects and holds the GIL.
    enter::object(|| unsafe {
        if modulo != Py_None() {
            return not_implemented();
        }
        with_operands(a, b, "__pow__", "__rpow__", |x, y| {
            cast("pow", x, y, |x, y| pointwise::arith(BinaryKind::Pow, x, y))
        })
    })
}

unsafe extern "C" fn ipower(a: Object, b: Object, _modulo: Object) -> Object {
    // SAFETY: the interpreter passes objects and holds the GIL.
    enter::object(|| unsafe { change_in_place(a, b, "__ipow__", BinaryKind::Pow) })
}

unsafe extern "C" fn matmul(a: Object, b: Object) -> Object {
    // SAFETY: the interpreter passes objects and holds the GIL.
    enter::object(|| unsafe {
        if !is_exact(a) || !is_exact(b) {
            if takes_over(a) || takes_over(b) {
                let (name, x, y) = if is_tensor(a) { ("__matmul__", a, b) } else { ("__rmatmul__", b, a) };
                return torch_function::call_operator(name, &[x, y]);
            }
            if !is_tensor(a) || !is_tensor(b) {
                return not_implemented();
            }
        }
        let (x, y) = (Operand::Tensor(tensor_of(a)), Operand::Tensor(tensor_of(b)));
        // The work of a product grows faster than its elements.
        let multiply = |x: Operand<'_>, y: Operand<'_>| match (x, y) {
            (Operand::Tensor(x), Operand::Tensor(y)) => x.matmul(y),
            _ => unreachable!("both operands are tensors"),
        };
        Ok(wrap(compute(x, y, 4, |x, y| cast("matmul", x, y, multiply))?))
    })
}

macro_rules! unary_slots {
    ($($f:ident $kind:ident $name:literal;)*) => {$(
        unsafe extern "C" fn $f(a: Object) -> Object {
            // SAFETY: the interpreter passes an object of our type and holds the GIL.
            enter::object(|| unsafe {
                if torch_function::operator_takes_over(a) {
                    return torch_function::call_operator($name, &[a]);
                }
                let x = tensor_of(a);
                if x.numel() < enter::BIG {
                    return Ok(wrap(pointwise::unary(UnaryKind::$kind, x)?));
                }
                let x = x.clone();
                Ok(wrap(enter::without_gil(|| pointwise::unary(UnaryKind::$kind, &x))?))
            })
        }
    )*};
}
unary_slots! {
    neg Neg "__neg__";
    abs Abs "__abs__";
    flip BitwiseNot "__invert__";
}

unsafe extern "C" fn invert(a: Object) -> Object {
    // SAFETY: the interpreter passes an object of our type and holds the GIL.
    unsafe {
        if !torch_function::takes_over(a) && tensor_of(a).dtype().is_inexact() {
            return enter::object(|| {
                Err(PyTypeError::new_err("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
                    .into())
            });
        }
        flip(a)
    }
}

unsafe extern "C" fn positive(a: Object) -> Object {
    // SAFETY: the interpreter passes an object of our type and holds the GIL.
    enter::object(|| unsafe {
        if torch_function::operator_takes_over(a) {
            return torch_function::call_operator("__pos__", &[a]);
        }
        Py_INCREF(a);
        Ok(a)
    })
}

#[allow(non_upper_case_globals)] // the interpreter's names
unsafe extern "C" fn compare(a: Object, b: Object, op: c_int) -> Object {
    // SAFETY: the interpreter passes objects and holds the GIL.
    enter::object(|| unsafe {
        let (kind, name, reflected) = match op {
            Py_EQ => (CompareKind::Eq, "__eq__", "__eq__"),
            Py_NE => (CompareKind::Ne, "__ne__", "__ne__"),
            Py_LT => (CompareKind::Lt, "__lt__", "__gt__"),
            Py_LE => (CompareKind::Le, "__le__", "__ge__"),
            Py_GT => (CompareKind::Gt, "__gt__", "__lt__"),
            _ => (CompareKind::Ge, "__ge__", "__le__"),
        };
        with_operands(a, b, name, reflected, |x, y| pointwise::compare(kind, x, y))
    })
}

/// Read the only element from the device.
///
/// # Errors
/// If there is not exactly one element.
pub fn only_element(x: &Tensor) -> Outcome<Scalar> {
    if torch_dispatch::is_watched()
        && let Some(number) = torch_dispatch::item(x)?
    {
        return Ok(number);
    }
    if let Some(bits) = x.scalar_bits() {
        return Ok(Scalar::from_bits(bits, x.dtype()));
    }
    if x.numel() != 1 {
        return Err(PyRuntimeError::new_err(format!(
            "a Tensor with {} elements cannot be converted to Scalar",
            x.numel()
        ))
        .into());
    }
    let x = x.clone();
    Ok(enter::without_gil(|| x.item())?)
}

/// Return the only element, for `int(x)` and `float(x)`.
fn python_number(x: &Tensor) -> Outcome<Scalar> {
    if x.numel() != 1 {
        return Err(PyValueError::new_err("only one element tensors can be converted to Python scalars").into());
    }
    only_element(x)
}

/// Return [`python_number`]. A complex number is an error, unless its imaginary part is zero.
fn real_number(x: &Tensor, kind: &str) -> Outcome<Scalar> {
    match python_number(x)? {
        Scalar::Complex(re, 0.0) => Ok(Scalar::Float(re)),
        Scalar::Complex(..) => {
            Err(PyRuntimeError::new_err(format!("value cannot be converted to type {kind} without overflow")).into())
        }
        s => Ok(s),
    }
}

unsafe extern "C" fn truth(a: Object) -> c_int {
    // SAFETY: the interpreter passes an object of our type.
    enter::status(|| unsafe {
        if torch_function::takes_over(a) {
            let r = torch_function::call_operator("__bool__", &[a])?;
            let is_true = PyObject_IsTrue(r);
            Py_DECREF(r);
            return if is_true < 0 { Err(Failure::Raised) } else { Ok(is_true) };
        }
        let x = tensor_of(a);
        match x.numel() {
            1 => Ok(c_int::from(only_element(x)?.is_true())),
            0 => Err(PyRuntimeError::new_err("Boolean value of Tensor with no values is ambiguous").into()),
            _ => Err(PyRuntimeError::new_err("Boolean value of Tensor with more than one value is ambiguous").into()),
        }
    })
}

unsafe extern "C" fn to_int(a: Object) -> Object {
    // SAFETY: `o` is an object of our type. Python's own conversion refuses NaN and infinities.
    enter::object(|| unsafe {
        if torch_function::takes_over(a) {
            return torch_function::call_operator("__int__", &[a]);
        }
        match real_number(tensor_of(a), "int64_t")? {
            Scalar::Float(f) => match PyLong_FromDouble(f) {
                o if o.is_null() => Err(Failure::Raised),
                o => Ok(o),
            },
            s => Ok(PyLong_FromLongLong(s.to_i64())),
        }
    })
}

unsafe extern "C" fn to_float(a: Object) -> Object {
    // SAFETY: the interpreter passes an object of our type.
    enter::object(|| unsafe {
        if torch_function::takes_over(a) {
            return torch_function::call_operator("__float__", &[a]);
        }
        let x = tensor_of(a);
        if torchtpu_tensor::state::grad_enabled() && x.requires_grad() {
            torchtpu_tensor::warn_once!(
                "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\nConsider \
                using tensor.detach() first.",
            )?;
        }
        Ok(number_object(Scalar::Float(real_number(x, "double")?.to_f64())))
    })
}

unsafe extern "C" fn to_index(a: Object) -> Object {
    // SAFETY: the interpreter passes an object of our type.
    enter::object(|| unsafe {
        if torch_function::takes_over(a) {
            return torch_function::call_operator("__index__", &[a]);
        }
        let x = tensor_of(a);
        if x.dtype().is_inexact() || x.numel() != 1 {
            return Err(
                PyTypeError::new_err("only integer tensors of a single element can be converted to an index").into()
            );
        }
        Ok(PyLong_FromLongLong(only_element(x)?.to_i64()))
    })
}

unsafe extern "C" fn length(a: Object) -> Py_ssize_t {
    // SAFETY: the interpreter passes an object of our type.
    let r = enter::status(|| unsafe {
        if torch_function::takes_over(a) {
            let r = torch_function::call_operator("__len__", &[a])?;
            let n = PyLong_AsSsize_t(r);
            Py_DECREF(r);
            return if n < 0 { Err(Failure::Raised) } else { Ok(n as i64) };
        }
        match tensor_of(a).dims().first() {
            Some(n) => Ok(*n as i64),
            None => Err(PyTypeError::new_err("len() of a 0-d tensor").into()),
        }
    });
    r as Py_ssize_t
}

unsafe extern "C" fn contains(a: Object, o: Object) -> c_int {
    // SAFETY: the interpreter passes objects and holds the GIL.
    enter::status(|| unsafe {
        if torch_function::takes_over(a) {
            let r = torch_function::call_operator("__contains__", &[a, o])?;
            let is_true = PyObject_IsTrue(r);
            Py_DECREF(r);
            return if is_true < 0 { Err(Failure::Raised) } else { Ok(is_true) };
        }
        let x = tensor_of(a);
        let Some(value) = operand(o) else {
            return Err(PyRuntimeError::new_err(format!(
                "Tensor.__contains__ only supports Tensor or scalar, but you passed in a <class '{}'>.",
                objects::type_name(o)
            ))
            .into());
        };
        let equal = pointwise::compare(CompareKind::Eq, Operand::Tensor(x), value)?;
        if equal.numel() == 0 {
            return Ok(0);
        }
        let sum = equal.to_dtype(DType::I64)?.reshape(&[-1])?;
        let any = enter::without_gil(|| sum.to_vec::<i64>())?.iter().any(|v| *v != 0);
        Ok(c_int::from(any))
    })
}

/// Iterate over the rows that an override returns for `unbind`: rows of a subclass are of the subclass.
///
/// # Safety
/// `a` is an object of our type; the GIL is held.
#[cold]
unsafe fn iterate_overridden(a: Object) -> Outcome {
    Python::attach(|py| {
        // SAFETY: `a` is an object of our type, and the GIL is held.
        let x = unsafe { Bound::<PyAny>::from_borrowed_ptr(py, a) };
        if x.call_method0("dim")?.eq(0)? {
            return Err(PyTypeError::new_err("iteration over a 0-d tensor").into());
        }
        Ok::<_, Failure>(x.call_method0("unbind")?.try_iter()?.into_ptr())
    })
}

unsafe extern "C" fn iterate(a: Object) -> Object {
    // SAFETY: the interpreter passes an object of our type and holds the GIL.
    enter::object(|| unsafe {
        if torch_function::takes_over(a) {
            return iterate_overridden(a);
        }
        let x = tensor_of(a);
        if x.dims().is_empty() {
            return Err(PyTypeError::new_err("iteration over a 0-d tensor").into());
        }
        let rows = x.unbind(0)?;
        let list = new_object(PyTuple_New(rows.len() as Py_ssize_t))?;
        for (i, r) in rows.into_iter().enumerate() {
            PyTuple_SetItem(list, i as Py_ssize_t, part_of(list, wrap(r))?);
        }
        let it = PyObject_GetIter(list);
        Py_DECREF(list);
        if it.is_null() { Err(Failure::Raised) } else { Ok(it) }
    })
}

pub(crate) fn slots() -> Vec<PyType_Slot> {
    let s = |slot: c_int, f: *const c_void| PyType_Slot { slot, pfunc: f.cast_mut() };
    vec![
        s(Py_nb_add, add as *const c_void),
        s(Py_nb_subtract, sub as *const c_void),
        s(Py_nb_multiply, mul as *const c_void),
        s(Py_nb_true_divide, div as *const c_void),
        s(Py_nb_floor_divide, floor_divide as *const c_void),
        s(Py_nb_remainder, remainder as *const c_void),
        s(Py_nb_power, power as *const c_void),
        s(Py_nb_matrix_multiply, matmul as *const c_void),
        s(Py_nb_and, and as *const c_void),
        s(Py_nb_or, or as *const c_void),
        s(Py_nb_xor, xor as *const c_void),
        s(Py_nb_lshift, left_shift as *const c_void),
        s(Py_nb_rshift, right_shift as *const c_void),
        s(Py_nb_inplace_add, iadd as *const c_void),
        s(Py_nb_inplace_subtract, isub as *const c_void),
        s(Py_nb_inplace_multiply, imul as *const c_void),
        s(Py_nb_inplace_true_divide, idiv as *const c_void),
        s(Py_nb_inplace_floor_divide, ifloor_divide as *const c_void),
        s(Py_nb_inplace_remainder, iremainder as *const c_void),
        s(Py_nb_inplace_power, ipower as *const c_void),
        s(Py_nb_inplace_and, iand as *const c_void),
        s(Py_nb_inplace_or, ior as *const c_void),
        s(Py_nb_inplace_xor, ixor as *const c_void),
        s(Py_nb_inplace_lshift, ileft_shift as *const c_void),
        s(Py_nb_inplace_rshift, iright_shift as *const c_void),
        s(Py_nb_negative, neg as *const c_void),
        s(Py_nb_absolute, abs as *const c_void),
        s(Py_nb_invert, invert as *const c_void),
        s(Py_nb_positive, positive as *const c_void),
        s(Py_nb_bool, truth as *const c_void),
        s(Py_nb_int, to_int as *const c_void),
        s(Py_nb_float, to_float as *const c_void),
        s(Py_nb_index, to_index as *const c_void),
        s(Py_tp_richcompare, compare as *const c_void),
        s(Py_tp_iter, iterate as *const c_void),
        s(Py_mp_length, length as *const c_void),
        s(Py_sq_contains, contains as *const c_void),
    ]
}
