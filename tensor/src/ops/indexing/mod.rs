//! Reading and writing at positions that are data: `Gather`, `Scatter`, `IndexSelect`, `IndexAdd`, `Index`, `IndexPut`,
//! and functions composed of them. This file has the rules that they share.
//!
//! On `cpu` a kernel checks every index before it writes anything. On `tpu` an index is known only when the program
//! runs, and XLA moves a wrong one inwards (gather) or drops it (scatter). So each public function here also records
//! one fused reduction that finds wrong indices, and ties the indices to it ([`Check::tied`]). A read of any value that
//! was computed from tied indices raises the error. Gradients use the tied indices of the forward pass, and check
//! nothing.
//!
//! Negative indices count from the end in advanced indexing, `take`, `put` and `index_fill`. In other functions they
//! are errors.
//!
//! The number of results of `nonzero`, `masked_select` and of indexing with a mask depends on the values. On `tpu` the
//! host reads the mask, which cuts the trace. Filling or overwriting by a mask (`masked_fill`, `masked_scatter`,
//! `x[mask] = number`) does not cut it.

pub(super) mod classes;
pub(super) mod gather;
pub(super) mod index;
pub(super) mod index_select;
pub(super) mod mask;
mod overlapping;
pub(super) mod take;
pub(super) mod triangle;

pub use classes::one_hot;
pub use gather::{Gather, Scatter, ScatterKind, gather, scatter, scatter_add, scatter_reduce};
pub use index::{Index, IndexPut, index, index_put};
pub use index_select::{IndexAdd, IndexSelect, index_add, index_copy, index_fill, index_select, index_select_in_range};
pub use mask::{masked_fill, masked_scatter, masked_select, nonzero};
pub use take::{put, take, take_along_dim};
pub use triangle::{diag_embed, tril, triu};

use crate::op::{Func, Prim, Value};
use crate::schema::{Operand, Ret, SampleArg};
use crate::{DType, Dims, Error, Meta, Place, Result, Scalar, Tensor, backend, dispatch, inplace, state};
use torchtpu_stablehlo::{Direction, ElementType, ScatterKind as Join};

/// The narrowest type that holds every position in `0..size`: TPUs have no 64-bit integers.
fn position_type(size: usize) -> ElementType {
    if i32::try_from(size).is_ok() { ElementType::S32 } else { ElementType::S64 }
}

/// Positions in the compiler's form. Negative ones count from the end if `wrap`.
fn lower_positions(f: &mut Func, index: &Value, size: usize, wrap: bool) -> Value {
    let index = f.convert(index, position_type(size));
    if !wrap {
        return index;
    }
    let zero = f.splat_i64(0, index.ty());
    let n = f.splat_i64(size as i64, index.ty());
    let negative = f.compare(Direction::Lt, &index, &zero);
    let wrapped = f.binary("stablehlo.add", &index, &n);
    f.select(&negative, &wrapped, &index)
}

/// A scatter of `src` into `x`. Sums and products of 16-bit floats are computed in `f32`, and rounded once. `is_single`
/// says that no element gets several values, so that they need not be widened.
pub(crate) fn lower_scatter(
    f: &mut Func,
    x: &Value,
    src: &Value,
    join: Join,
    is_single: bool,
    scatter: impl FnOnce(&mut Func, &Value, &Value) -> Value,
) -> Value {
    let e = x.element();
    if is_single || e.widened() == e || !matches!(join, Join::Add | Join::Mul) {
        return scatter(f, x, src);
    }
    let (x, src) = (f.convert(x, e.widened()), f.convert(src, e.widened()));
    let y = scatter(f, &x, &src);
    f.convert(&y, e)
}

/// A check of values that are computed later. The op must read the operand that [`Check::tied`] returns.
#[must_use]
pub(crate) struct Check {
    /// Whether the values are not known to be right.
    is_open: bool,
}

impl Check {
    const PASSED: Check = Check { is_open: false };

    /// Return `x`, tied to the check: if the check fails, its error belongs to every value that is computed from the
    /// result. Call it before another op is recorded.
    pub(crate) fn tied(self, x: &Tensor) -> Result<Tensor> {
        // The device ties the next copy: see `Representation::defer_check`.
        if self.is_open { dispatch::call(Prim::Copy(super::convert::Copy), &[x]) } else { Ok(x.clone()) }
    }
}

/// Return `index`, on a device tied to the error of an index outside `low..size`. On `cpu` the kernel checks it.
pub(crate) fn guard(
    index: &Tensor,
    low: i64,
    size: usize,
    error: impl FnOnce(i64) -> Error + Send + Sync + 'static,
) -> Result<Tensor> {
    if !index.place().has_handle() || index.numel() == 0 {
        return Ok(index.clone());
    }
    state::no_grad(|| {
        let bad = index.lt_scalar(low)?.logical_or(&index.ge_scalar(size as i64)?)?;
        defer_index(&bad, index, error)?.tied(index)
    })
}

/// On a device, check later that `bad` is false everywhere. The error is that of one of the elements of `index` at
/// which it is true.
pub(crate) fn defer_index(
    bad: &Tensor,
    index: &Tensor,
    error: impl FnOnce(i64) -> Error + Send + Sync + 'static,
) -> Result<Check> {
    if bad.numel() == 0 {
        return Ok(Check::PASSED);
    }
    // The smallest number means that no error was found. So an index of that value is stored as its neighbour, and
    // restored for the error.
    let smallest = Tensor::number(Scalar::Int(backend::ALL_WELL + 1), DType::I64)?;
    let shown = index.to_dtype(DType::I64)?.maximum(&smallest)?;
    let shown = super::loss::select_int(bad, &shown, backend::ALL_WELL)?;
    let worst = if shown.dims().is_empty() { shown } else { shown.amax(&[], false)? };
    let place = state::place();
    let error = move |wrong: i64| {
        let error = error(if wrong == backend::ALL_WELL + 1 { i64::MIN } else { wrong });
        match place {
            Some(place) => error.note(format!("the call was at {place}")),
            None => error,
        }
    };
    let is_open = backend::of(worst.place())?.defer_check(worst.device_value()?, Box::new(error))?;
    Ok(Check { is_open })
}

/// On a device, check later that `bad` is false everywhere.
pub(crate) fn defer(bad: &Tensor, error: Error) -> Result<Check> {
    defer_index(bad, &bad.to_dtype(DType::I64)?, move |_| error)
}

fn out_of_bounds(index: i64, dim: usize, size: usize) -> Error {
    Error::index(format!("index {index} is out of bounds for dimension {dim} with size {size}"))
}

pub(crate) fn out_of_range_in_self(index: i64, size: usize) -> Error {
    Error::index("index out of range in self").note(format!("an index is {index}, in a dimension of size {size}"))
}

/// Refuse indices that are not integers, for `gather` and similar functions.
fn check_index_dtype(op: &str, index: &Tensor) -> Result<()> {
    if matches!(index.dtype(), DType::I64 | DType::I32) {
        return Ok(());
    }
    Err(Error::runtime(format!("{op}(): Expected dtype int32/int64 for index")))
}

fn check_same_dtype(op: &str, x: &Tensor, src: &Tensor) -> Result<()> {
    if x.dtype() == src.dtype() {
        return Ok(());
    }
    Err(Error::runtime(format!("{op}(): Expected self.dtype to be equal to src.dtype")))
}

/// Copy the whole, for a kernel that then changes a part of it. In an in-place call, `y` may be the memory of `x`.
fn copy_of(x: &Tensor, y: &Tensor) {
    if inplace::is_same_place(x, y) {
        return;
    }
    torchtpu_kernels::copy::copy(&x.view(), &mut y.view_mut());
}

/// 0, 1, .. in a new one-dimensional tensor.
pub(crate) fn count_up(n: usize, place: Place) -> Result<Tensor> {
    dispatch::call(Prim::Iota(super::creation::Iota { len: n, place }), &[])
}

fn zeros_like(m: &Meta) -> Result<Tensor> {
    Tensor::zeros_like_meta(m)
}

/// A tensor without dimensions is indexed like a vector of one element.
fn at_least_1d(x: &Tensor) -> Result<Tensor> {
    if x.dims().is_empty() { x.view_dims(Dims::new(&[1])) } else { Ok(x.clone()) }
}

/// The number that a fill writes, in the dtype of the tensor.
fn fill_value(op: &str, x: &Tensor, value: Operand<'_>) -> Result<Tensor> {
    match value {
        Operand::Scalar(s) => {
            super::creation::check_range(s, x.dtype())?;
            Tensor::number(s, x.dtype())
        }
        Operand::Tensor(v) if v.dims().is_empty() => {
            if v.dtype().is_complex() && !x.dtype().is_complex() {
                super::creation::check_range(v.item()?, x.dtype())?;
            }
            v.to_dtype(x.dtype())
        }
        Operand::Tensor(v) => Err(Error::runtime(format!(
            "{op} only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
            v.dims().len()
        ))),
    }
}

fn to_device(x: &Tensor, place: Place) -> Result<Tensor> {
    if x.place() == place { Ok(x.clone()) } else { x.to_device(place) }
}

fn ok(t: Result<Tensor>) -> Result<Ret> {
    t.map(Ret::Tensor)
}

/// The dtype of argument `i`: `int64` for the schema's default, which is written as `long`.
pub(crate) fn long_or(a: &crate::schema::Args<'_>, i: usize) -> Result<DType> {
    if matches!(a.0[i], crate::schema::Arg::Str("long")) {
        Ok(DType::I64)
    } else {
        Ok(a.opt_dtype(i)?.unwrap_or(DType::I64))
    }
}

const KINDS: &[DType] = &[DType::F64, DType::BF16, DType::I64, DType::I32, DType::U8, DType::Bool];

fn str_arg(s: &'static str) -> SampleArg {
    SampleArg::Str(s)
}
