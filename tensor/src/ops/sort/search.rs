//! Positions of values among sorted boundaries: `searchsorted` and `bucketize`.

use crate::ops::indexing;
use crate::ops::pointwise::{kernel_error, select};
use crate::ops::reduce::{ReduceKind, reduce};
use crate::schema::{Operand, Row, Scope, Tier};
use crate::{DType, Error, Meta, Place, Result, Scalar, Tensor, promote_types};
use torchtpu_kernels::sort as kernels;

/// `torch.searchsorted`: for each value, its position in the sorted row, before equal elements or, with `right`, after
/// them. On a device the smaller boundaries are counted.
///
/// # Errors
/// `Runtime` for shapes and dtypes that do not fit.
pub fn searchsorted(
    boundaries: &Tensor,
    values: &Tensor,
    right: bool,
    narrow: bool,
    sorter: Option<&Tensor>,
) -> Result<Tensor> {
    for t in [boundaries, values] {
        if t.dtype().is_rare() {
            return Err(crate::ops::complex::unsupported("searchsorted_out_cpu", t.dtype()));
        }
    }
    let (b, v) = (boundaries.dims(), values.dims());
    if b.is_empty() {
        return Err(Error::runtime(
            "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension",
        ));
    }
    let one_row = b.len() == 1;
    if !one_row && v.is_empty() {
        return Err(Error::runtime(format!(
            "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got \
            boundaries tensor dim({}) and input value's dim(0) numel(1)",
            b.len()
        )));
    }
    if !one_row && (v.len() != b.len() || v[..v.len() - 1] != b[..b.len() - 1]) {
        return Err(Error::runtime(format!(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries \
            tensor and input value tensor must match, but we got boundaries tensor {b} and input value tensor {v}"
        )));
    }
    if let Some(s) = sorter {
        if s.dims() != b {
            return Err(Error::runtime(format!(
                "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor {b}and got \
                sorter tensor {}",
                s.dims()
            )));
        }
        if s.dtype() != DType::I64 {
            return Err(Error::runtime(format!(
                "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {}",
                s.dtype().scalar_type()
            )));
        }
    }
    if boundaries.place() != values.place() {
        return Err(Error::runtime(format!(
            "torch.searchsorted(): boundaries and input value tensors should have same device type, but got boundaries \
             tensor device type {} and input value tensor device type {}",
            boundaries.place(),
            values.place()
        )));
    }
    let out = if narrow { DType::I32 } else { DType::I64 };
    let dtype = match values.is_wrapped_number() {
        true => boundaries.dtype(),
        false => promote_types(boundaries.dtype(), values.dtype()),
    };
    let (boundaries, values) = (boundaries.detach().to_dtype(dtype)?, values.detach().to_dtype(dtype)?);
    if boundaries.place().in_memory() {
        let (boundaries, values) = (boundaries.resolved()?, values.resolved()?);
        let y = Tensor::empty(&Meta { dims: *v, dtype: out, place: Place::CPU })?;
        let order = sorter.map(Tensor::view);
        kernels::searchsorted(&boundaries.view(), &values.view(), right, order.as_ref(), &mut y.view_mut())
            .map_err(kernel_error)?;
        return Ok(y);
    }
    let last = b.len() as i64 - 1;
    let boundaries = match sorter {
        Some(s) => indexing::gather(&boundaries, last, s)?,
        None => boundaries,
    };
    if dtype.is_float() && b[last as usize] > 0 {
        return bisected(&boundaries, &values, right)?.to_dtype(out);
    }
    let boundaries = if one_row { boundaries } else { boundaries.unsqueeze(-2)? };
    let values = values.unsqueeze(-1)?;
    let before = if right { boundaries.le(&values)? } else { boundaries.lt(&values)? };
    reduce(ReduceKind::Sum, &before, Some(&[-1]), false)?.to_dtype(out)
}

/// [`searchsorted`] of floats on a device. Where NaN are among the boundaries, the steps of the search decide.
fn bisected(boundaries: &Tensor, values: &Tensor, right: bool) -> Result<Tensor> {
    let last = boundaries.dims().len() as i64 - 1;
    let size = boundaries.dims()[last as usize] as i64;
    let at = |i: &Tensor| match last {
        0 => boundaries.take(i),
        _ => indexing::gather(boundaries, last, i),
    };
    let positions = Meta { dims: *values.dims(), dtype: DType::I64, place: values.place() };
    let mut start = Tensor::zeros_like_meta(&positions)?;
    let mut end = Tensor::full_meta(&positions, Scalar::Int(size))?;
    for _ in 0..=size.ilog2() {
        let middle = start.add(&end.sub(&start)?.floor_divide_scalar(2i64)?)?;
        let found = at(&middle.minimum_scalar(size - 1)?)?;
        let behind = if right { found.gt(values)? } else { found.ge(values)? };
        let done = start.ge(&end)?;
        let next = select(&behind.logical_or(&done)?, &start, &middle.add_scalar(1i64)?)?;
        end = select(&behind.logical_and(&done.logical_not()?)?, &middle, &end)?;
        start = next;
    }
    Ok(start)
}

fn value_tensor(a: Operand<'_>, like: &Tensor) -> Result<Tensor> {
    match a {
        Operand::Tensor(t) => Ok(t.clone()),
        // A fraction is compared as such, also with integers.
        Operand::Scalar(s) => Tensor::number(s, if like.dtype().is_float() { like.dtype() } else { s.dtype() }),
    }
}

/// [`searchsorted`] for a number. Integers and floats are compared as floats.
fn search_number(
    boundaries: &Tensor,
    v: Operand<'_>,
    right: bool,
    narrow: bool,
    sorter: Option<&Tensor>,
) -> Result<Tensor> {
    let value = value_tensor(v, boundaries)?;
    let value = if value.place() == boundaries.place() { value } else { value.to_device(boundaries.place())? };
    let common = if value.dtype().is_float() { value.dtype() } else { boundaries.dtype() };
    searchsorted(&boundaries.to_dtype(common)?, &value.to_dtype(common)?, right, narrow, sorter)
}

fn side(right: bool, side: Option<&str>) -> Result<bool> {
    match side {
        None => Ok(right),
        Some("left") if right => Err(Error::runtime(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True",
        )),
        Some("left") => Ok(false),
        Some("right") => Ok(true),
        Some(s) => Err(Error::runtime(format!("torch.searchsorted(): side can only be 'left' or 'right' but got {s}"))),
    }
}

fn check_row(boundaries: &Tensor) -> Result<()> {
    if boundaries.dims().len() != 1 {
        return Err(Error::runtime(format!(
            "boundaries tensor must be 1 dimension, but got dim({})",
            boundaries.dims().len()
        )));
    }
    Ok(())
}

fn bucketize(v: &Tensor, boundaries: &Tensor, narrow: bool, right: bool) -> Result<Tensor> {
    check_row(boundaries)?;
    searchsorted(boundaries, v, right, narrow, None)
}

/// Rows of searches.
pub const ROWS: &[Row] = &[
    Row::new(
        "searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? \
        side=None, Tensor? sorter=None) -> Tensor",
        Tier::Composed,
        |a| {
            Ok(searchsorted(
                a.tensor(0)?,
                a.tensor(1)?,
                side(a.bool(3)?, a.opt_str(4)?)?,
                a.bool(2)?,
                a.opt_tensor(5)?,
            )?
            .into())
        },
        Vec::new,
    )
    .doc(
        "Return the position where each element of `input` belongs in the sorted last dimension of \
         `sorted_sequence`, before equal elements, or behind them with `right=True` or `side='right'`. \
         `sorted_sequence` is a vector, or agrees with `input` in all dimensions but the last. `sorter` has the \
         positions that sort it if it is not sorted. The result is `int64`, or `int32` with `out_int32`.",
    )
    .scope(Scope::Function),
    Row::new(
        "searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str? \
        side=None, Tensor? sorter=None) -> Tensor",
        Tier::Composed,
        |a| {
            Ok(search_number(
                a.tensor(0)?,
                a.operand(1)?,
                side(a.bool(3)?, a.opt_str(4)?)?,
                a.bool(2)?,
                a.opt_tensor(5)?,
            )?
            .into())
        },
        Vec::new,
    )
    .scope(Scope::Function),
    Row::new(
        "bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
        Tier::Composed,
        |a| Ok(bucketize(a.tensor(0)?, a.tensor(1)?, a.bool(2)?, a.bool(3)?)?.into()),
        Vec::new,
    )
    .doc(
        "Return the number of the bucket of each element of `input`, where the vector `boundaries` has the sorted \
         bounds. A number equal to a bound belongs to the bucket before it, or with `right=True` to the one behind \
         it. The result is `int64`, or `int32` with `out_int32`.",
    )
    .scope(Scope::Function),
    Row::new(
        "bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
        Tier::Composed,
        |a| {
            check_row(a.tensor(1)?)?;
            Ok(search_number(a.tensor(1)?, a.operand(0)?, a.bool(3)?, a.bool(2)?, None)?.into())
        },
        Vec::new,
    )
    .scope(Scope::Function),
];
