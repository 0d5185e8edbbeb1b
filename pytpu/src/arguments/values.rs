//! Python objects as values of schema types, with fast paths for the most common objects.

use super::{Owned, Parameter, Parsed, STACK_INTS};
use crate::objects::{Held, int, looks_like_int, none, number, sequence, string};
use crate::tensor_type::{is_exact, is_tensor, tensor_of};
use crate::{device, dtype, random, torch_function};
use pyo3::ffi::*;
use torchtpu_kernels::memory;
use torchtpu_tensor::schema::{Arg, Ty};
use torchtpu_tensor::{Scalar, Tensor};

/// # Safety
/// `items` gives `n` objects.
#[inline(always)]
pub(super) unsafe fn int_list(
    items: impl Iterator<Item = *mut PyObject>,
    n: usize,
    out: &mut Parsed,
) -> Option<Arg<'static>> {
    // SAFETY: `items` gives `n` objects. The slice is written before it is read and lives in `out`.
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

/// # Safety
/// `o` is an object that outlives the use of the arguments.
#[inline(always)]
pub(super) unsafe fn convert(p: &Parameter, o: *mut PyObject, out: &mut Parsed) -> Option<Arg<'static>> {
    // SAFETY: `o` is an object that outlives the use of the arguments.
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
            // As in PyTorch, `None` means an empty list if that is the default.
            Arg::Ints([]) if !p.required => Some(p.default),
            _ => None,
        }
    }
}

#[inline(never)]
unsafe fn convert_rare(p: &Parameter, o: *mut PyObject, out: &mut Parsed) -> Option<Arg<'static>> {
    // SAFETY: the caller passes the arguments of `convert` on.
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
                        // Another overload takes the call, so a missing value here is never read.
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
            Ty::Device => device::extract(o).ok()?.map(|d| Arg::Device(torchtpu_tensor::fake::place_of_new(d))),
            Ty::Layout => dtype::is_default_layout(o).then_some(Arg::None),
            Ty::MemoryFormat => dtype::memory_format(o).map(Arg::MemoryFormat),
            Ty::Generator => random::extract(o).map(Arg::Generator),
            _ => None,
        }
    }
}
