//! The `out=` form of calls: the row's requirements of the tensors that are given, and the writing of results.

use crate::arguments::{Interned, Overload};
use crate::enter::Outcome;
use crate::objects::{new_object, type_name};
use crate::tensor_type::{is_tensor, replace, tensor_of};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyUserWarning, PyValueError};
use pyo3::ffi::*;
use pyo3::prelude::*;
use torchtpu_tensor::schema::{Aliasing, Arg, Args, DTypeMessage, DTypeWithOut, OutDType, OutShape, Ret, Row};
use torchtpu_tensor::{DType, Device, Error, Tensor, can_cast, inplace, state};

/// Take `dtype=` and `device=` of a call from `out=`, and raise an error for other values.
pub fn follow_out(name: &str, o: &Overload, args: &mut [Arg<'_>], out: *mut PyObject) -> Outcome<()> {
    // SAFETY: the caller holds `out`.
    let Some(target) = (unsafe { is_tensor(out).then(|| tensor_of(out)) }) else { return Ok(()) };
    let makes = o.makes_from_nothing();
    if let Some(i) = o.dtype_parameter() {
        match args[i] {
            Arg::DType(want) if want != target.dtype() => {
                let got = target.dtype();
                let text = match o.row.dtype_with_out {
                    _ if makes => format!(
                        "dtype {} does not match dtype of out parameter ({})",
                        want.scalar_type(),
                        got.scalar_type()
                    ),
                    DTypeWithOut::MustMatch(text) | DTypeWithOut::FollowsOut(text) => text(name, want, got),
                    DTypeWithOut::Independent => return Ok(()),
                };
                return Err(PyRuntimeError::new_err(text).into());
            }
            Arg::None if makes || matches!(o.row.dtype_with_out, DTypeWithOut::FollowsOut(_)) => {
                args[i] = Arg::DType(target.dtype());
            }
            _ => {}
        }
    }
    if let Some(i) = o.device_parameter().filter(|_| makes) {
        match args[i] {
            Arg::Device(want) if want != target.place() => {
                let kind = |d: Device| d.to_string().split(':').next().unwrap_or_default().to_string();
                return Err(PyRuntimeError::new_err(format!(
                    "device type {} does not match device type of out parameter ({})",
                    kind(want.device),
                    kind(target.device())
                ))
                .into());
            }
            _ => args[i] = Arg::Device(target.place()),
        }
    }
    Ok(())
}

/// Raise an error for an `out` whose dtype the row does not allow, before the call runs.
#[cold]
pub fn check_out(name: &str, row: &Row, args: &Args<'_>, out: *mut PyObject) -> Outcome<()> {
    // SAFETY: the caller holds `out`.
    let Some(target) = (unsafe { is_tensor(out).then(|| tensor_of(out)) }) else { return Ok(()) };
    let got = target.dtype();
    let refuse = |text: DTypeMessage, want| Err(PyRuntimeError::new_err(text(name, want, got)).into());
    match (row.out_dtype, args.0.first()) {
        (OutDType::OfRealInput(_), Some(Arg::Tensor(x))) if x.dtype().is_complex() => Ok(()),
        (OutDType::OfInput(text) | OutDType::OfRealInput(text), Some(Arg::Tensor(x))) if x.dtype() != got => {
            refuse(text, x.dtype())
        }
        (OutDType::OneOf(allowed, text), _) if !allowed.contains(&got) => refuse(text, allowed[0]),
        _ => Ok(()),
    }
}

/// Raise an error for an `out`, alone or in a tuple, that shares memory with an operand against the rule of the row.
#[cold]
pub fn check_no_overlap(aliasing: Aliasing, args: &Args<'_>, out: *mut PyObject) -> Outcome<()> {
    // SAFETY: the caller holds `out` and with it the items of a tuple.
    unsafe {
        if PyTuple_Check(out) != 0 {
            return (0..PyTuple_Size(out)).try_for_each(|i| check_no_overlap(aliasing, args, PyTuple_GetItem(out, i)));
        }
    }
    // SAFETY: the caller holds `out`.
    let Some(target) = (unsafe { is_tensor(out).then(|| tensor_of(out)) }) else { return Ok(()) };
    let check = |x: &Tensor| match aliasing {
        _ if !x.shares_storage(target) => Ok(()),
        Aliasing::Allowed => Ok(()),
        Aliasing::InStep => inplace::check_apart(target, x),
        Aliasing::Refused => inplace::check_disjoint(target, x),
    };
    for a in args.0 {
        match a {
            Arg::Tensor(x) => check(x)?,
            Arg::Tensors(list) => list.iter().flatten().try_for_each(check)?,
            _ => {}
        }
    }
    Ok(())
}

/// Return an error for an `out` whose dtype is not that of the result, if the row requires it.
#[cold]
fn check_result(name: &str, row: &Row, got: DType, want: DType) -> Outcome<()> {
    match row.out_dtype {
        OutDType::OfResult(text) if got != want => Err(PyRuntimeError::new_err(text(name, want, got)).into()),
        _ => Ok(()),
    }
}

/// Raise an error for tensors of an `out` tuple that share memory, if the row forbids it.
#[cold]
fn check_outs_do_not_overlap(name: &str, row: &Row, targets: &[*mut PyObject]) -> Outcome<()> {
    for (i, x) in targets.iter().enumerate().filter(|_| row.outs_apart) {
        for (j, y) in targets.iter().enumerate().skip(i + 1) {
            // SAFETY: tensors that the caller holds.
            if unsafe { tensor_of(*x).shares_storage(tensor_of(*y)) } {
                return Err(PyValueError::new_err(format!(
                    "{name}(): the `{}` and `{}` out= tensors must not overlap.",
                    row.fields[i], row.fields[j]
                ))
                .into());
            }
        }
    }
    Ok(())
}

/// Write results into the tensors given as `out=`.
#[cold]
pub fn write_out(name: &str, row: &Row, fields: Option<Interned>, r: Ret, out: *mut PyObject) -> Outcome {
    let is_list = matches!(r, Ret::List(_));
    let results = match r {
        Ret::Tensor(t) => vec![t],
        Ret::Tuple(v) | Ret::List(v) => v,
        Ret::Scalar(_) | Ret::None => return Err(PyTypeError::new_err(format!("{}() has no out= form", name)).into()),
    };
    let mut targets = Vec::new();
    // SAFETY: `out` and the items of the tuple are held by the caller.
    unsafe {
        if is_tensor(out) {
            targets.push(out);
        } else if PyTuple_Check(out) != 0 {
            targets.extend((0..PyTuple_Size(out)).map(|i| PyTuple_GetItem(out, i)));
        } else if is_list && PyList_Check(out) != 0 {
            targets.extend((0..PyList_Size(out)).map(|i| PyList_GetItem(out, i)));
        }
        if targets.len() != results.len() || !targets.iter().all(|o| is_tensor(*o)) {
            let want = if results.len() == 1 { "Tensor" } else { "tuple of Tensors" };
            let got = type_name(out);
            return Err(PyTypeError::new_err(format!("{}(): argument 'out' must be {want}, not {got}", name)).into());
        }
        check_outs_do_not_overlap(name, row, &targets)?;
        for (o, y) in targets.iter().zip(&results) {
            check_result(name, row, tensor_of(*o).dtype(), y.dtype())?;
        }
        for (o, y) in targets.iter().zip(results) {
            fill_out(*o, y, name, row)?;
        }
        if is_list {
            // A function that returns a list has no `out` here.
            Py_INCREF(Py_None());
            return Ok(Py_None());
        }
        if let (Some(ty), false) = (fields, is_tensor(out)) {
            // The tuple has names, like the results.
            let o = new_object(PyStructSequence_New(ty.0.cast()))?;
            for (i, t) in targets.into_iter().enumerate() {
                Py_INCREF(t);
                PyStructSequence_SetItem(o, i as Py_ssize_t, t);
            }
            return Ok(o);
        }
        Py_INCREF(out);
    }
    Ok(out)
}

/// Write the result `y` of a function into the tensor object given as `out=`.
///
/// # Safety
/// `o` is a tensor object.
unsafe fn fill_out(o: *mut PyObject, y: Tensor, function: &str, row: &Row) -> Outcome<()> {
    // SAFETY: `o` is a tensor object. The reference ends before the tensor is replaced.
    unsafe {
        let x = tensor_of(o);
        if state::grad_enabled() && (x.requires_grad() || y.requires_grad()) {
            return Err(PyRuntimeError::new_err(format!(
                "{function}(): functions with out=... arguments don't support automatic differentiation, but one of \
                the arguments requires grad."
            ))
            .into());
        }
        let is_real = matches!(row.out_dtype, OutDType::CastToReal) && !x.dtype().is_complex();
        let fits = is_real || can_cast(y.dtype(), x.dtype());
        if !fits {
            return Err(PyRuntimeError::new_err(format!(
                "result type {} can't be cast to the desired output type {}",
                y.dtype().scalar_type(),
                x.dtype().scalar_type()
            ))
            .into());
        }
        if x.dims() == y.dims() {
            torchtpu_tensor::no_grad(|| x.copy_(&y).map(|_| ()))?;
            return Ok(());
        }
        let keeps_shape = matches!(row.out_shape, OutShape::Kept | OutShape::KeptWithWarning);
        if keeps_shape && x.numel() == y.numel() {
            torchtpu_tensor::no_grad(|| {
                let dims: Vec<i64> = x.dims().iter().map(|n| *n as i64).collect();
                x.copy_(&y.reshape(&dims)?).map(|_| ())
            })?;
            return Ok(());
        }
        let warns = matches!(row.out_shape, OutShape::ResizedWithWarning | OutShape::KeptWithWarning);
        if x.numel() != 0 && warns {
            let warning = if keeps_shape {
                format!(
                    "The number of elements in the out tensor of shape {} is {} which does not match the computed \
                    number of elements {}. Note that this may occur as a result of rounding error. The out tensor will \
                    be resized to a tensor of shape ({},).",
                    x.dims(),
                    x.numel(),
                    y.numel(),
                    y.numel()
                )
            } else {
                format!(
                    "An output with one or more elements was resized since it had shape {}, which does not match the \
                    required output shape {}. This behavior is deprecated, and in a future PyTorch release outputs \
                    will not be resized unless they have zero elements. You can explicitly reuse an out tensor t by \
                    resizing it, inplace, to zero elements with t.resize_(0).",
                    x.dims(),
                    y.dims()
                )
            };
            Python::attach(|py| {
                let text = std::ffi::CString::new(warning).unwrap_or_default();
                PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)
            })?;
        }
        let new = torchtpu_tensor::no_grad(|| resized(x, &y))?;
        replace(o, if new.pyobject().is_null() { new } else { new.detach() });
    }
    Ok(())
}

/// Return the tensor with the elements of `y` that takes the place of `x`. It has the dtype and device of `x`. It
/// begins where `x` begins in the storage, so that other views of the storage see the elements. If the storage is too
/// small, it gets a storage of its own, and the old one gets the elements that fit.
fn resized(x: &Tensor, y: &Tensor) -> torchtpu_tensor::Result<Tensor> {
    let y = y.detach().to_dtype(x.dtype())?.to_device(x.place())?;
    let room = (x.storage_bytes() / x.dtype().size_bytes()).saturating_sub(x.storage_offset());
    let fits = y.numel() <= room;
    if !fits && !x.is_resizable() {
        return Err(Error::runtime("Trying to resize storage that is not resizable"));
    }
    // An empty view does not know where it begins.
    if room == 0 || x.numel() == 0 || y.numel() == 0 {
        return Ok(y);
    }
    let sizes = |t: &Tensor| t.dims().iter().map(|n| *n as i64).collect::<Vec<_>>();
    let own = x.detach();
    let window = |like: &Tensor| {
        let strides: Vec<i64> = like.dims().contiguous_strides().iter().map(|n| *n as i64).collect();
        own.as_strided(&sizes(like), &strides, Some(x.storage_offset() as i64))
    };
    if fits {
        let new = window(&y)?;
        new.copy_(&y)?;
        return Ok(new.detach());
    }
    let first = y.reshape(&[-1])?.narrow(0, 0, room as i64)?;
    window(&first)?.copy_(&first)?;
    Ok(y)
}
