//! Quantiles and modes.

use super::{refuse_later, sizes};
use crate::op::normalize_dim;
use crate::ops::concat::cat;
use crate::ops::indexing::{self, count_up};
use crate::ops::pointwise::{kernel_error, select, select_scalar};
use crate::ops::sort::sort;
use crate::schema::{Args, Ret};
use crate::{DType, Dims, Error, Result, Scalar, Tensor};
use torchtpu_kernels::sort as kernels;

/// `torch.quantile` and, without NaN, `torch.nanquantile`.
fn quantile(name: &str, x: &Tensor, q: &Tensor, dim: Option<i64>, keep: bool, how: &str, skip: bool) -> Result<Tensor> {
    let fail = |text: &str| Err(Error::runtime(format!("{name}() {text}")));
    if x.numel() == 0 {
        return fail("input tensor must be non-empty");
    }
    if q.dims().len() > 1 {
        return fail("q must be a scalar or 1D tensor");
    }
    if !matches!(x.dtype(), DType::F32 | DType::F64) {
        return fail("input tensor must be either float or double dtype");
    }
    if q.dtype() != x.dtype() {
        return fail("q tensor must be same dtype as the input tensor");
    }
    if q.place() != x.place() {
        return fail("q tensor must be on the same device as the input tensor");
    }
    if !["linear", "lower", "higher", "midpoint", "nearest"].contains(&how) {
        return fail(&format!(
            "interpolation must be one of linear, lower, higher, midpoint or nearest, but got {how}"
        ));
    }
    let rank = x.dims().len();
    let d = dim.map(|d| normalize_dim(d, rank)).transpose()?;
    let q = &refuse_later(
        &q.detach().lt_scalar(0.0)?.logical_or(&q.detach().gt_scalar(1.0)?)?,
        Error::runtime(format!("{name}() q values must be in the range [0, 1]")),
        q,
    )?;
    // The rows, sorted, along the last dimension.
    let rows = match d {
        Some(d) if rank > 0 => x.movedim(&[d as i64], &[-1])?,
        _ => x.reshape(&[-1])?,
    };
    let (sorted, _) = sort(&rows, -1, false, false)?;
    let size = *sorted.dims().last().expect("at least one dimension");
    let last = sorted.dims().len() as i64 - 1;
    let flat_q = q.reshape(&[-1])?;
    let missing = sorted.detach().isnan()?;
    let ranks = if skip {
        let count = missing.logical_not()?.sum_dim(&[-1], true)?.to_dtype(x.dtype())?;
        let r = count.sub_scalar(1.0)?.mul(&flat_q)?;
        select_scalar(&r.lt_scalar(0.0)?, 0.0, &r)?
    } else {
        // A row with NaN, which sorts to its end, gives NaN.
        let r = flat_q.mul_scalar((size - 1) as f64)?;
        select_scalar(&missing.narrow(-1, size as i64 - 1, 1)?, (size - 1) as f64, &r)?
    };
    let mut shape = sizes(&sorted);
    shape[last as usize] = flat_q.numel() as i64;
    let ranks = ranks.expand(&shape)?;
    let ranks = match how {
        "lower" => ranks.floor()?,
        "higher" => ranks.ceil()?,
        "nearest" => ranks.round()?,
        _ => ranks,
    };
    let low = ranks.detach().to_dtype(DType::I64)?;
    let below = indexing::gather(&sorted, last, &low)?;
    let y = if how == "linear" || how == "midpoint" {
        let above = indexing::gather(&sorted, last, &ranks.detach().ceil()?.to_dtype(DType::I64)?)?;
        let weight = if how == "midpoint" {
            Tensor::full_meta(ranks.meta(), Scalar::Float(0.5))?
        } else {
            ranks.sub(&low.to_dtype(x.dtype())?)?
        };
        let gap = above.sub(&below)?;
        // Interpolate from the nearer end, so that both ends are exact.
        let near_low = below.add(&gap.mul(&weight)?)?;
        let near_high = above.sub(&gap.mul(&weight.neg()?.add_scalar(1.0)?)?)?;
        select(&weight.detach().lt_scalar(0.5)?, &near_low, &near_high)?
    } else {
        below
    };
    // The quantiles come first. The dimension is removed or keeps one element.
    let y = y.movedim(&[-1], &[0])?;
    let mut shape: Vec<i64> = if q.dims().is_empty() { vec![] } else { vec![q.numel() as i64] };
    match d {
        None if keep => shape.extend(vec![1; rank]),
        None => {}
        Some(d) => {
            shape.extend((0..rank).filter(|&e| keep || e != d).map(|e| if e == d { 1 } else { x.dims()[e] as i64 }))
        }
    }
    y.reshape(&shape)
}

pub(super) fn quantile_row(a: &Args<'_>, name: &str, skip: bool) -> Result<Ret> {
    let x = a.tensor(0)?;
    let q = match a.operand(1)? {
        crate::schema::Operand::Tensor(q) => q.clone(),
        crate::schema::Operand::Scalar(q) => {
            let q = q.to_f64();
            if !(0.0..=1.0).contains(&q) {
                return Err(Error::runtime(format!("{name}() q must be in the range [0, 1] but got {q}")));
            }
            Tensor::full(&[], q, x.dtype(), x.place())?
        }
    };
    Ok(quantile(name, x, &q, a.opt_int(2)?, a.bool(3)?, a.str(4)?, skip)?.into())
}

/// The position of the mode along a dimension, which keeps size 1.
fn mode_on_cpu(x: &Tensor, d: usize) -> Result<Tensor> {
    let x = x.detach().resolved()?;
    let mut dims = *x.dims();
    dims.set(d, 1);
    let values = Tensor::empty(&x.meta().with_dims(dims))?;
    let at = Tensor::empty(&values.meta().with_dtype(DType::I64))?;
    kernels::mode(&x.view(), d, &mut values.view_mut(), &mut at.view_mut()).map_err(kernel_error)?;
    Ok(at)
}

/// The most frequent element along a dimension, the smallest of several, and the position of its last occurrence. On
/// `cpu` it is the last one after PyTorch's sort.
pub(super) fn mode(x: &Tensor, dim: i64, keep: bool) -> Result<(Tensor, Tensor)> {
    if x.dtype().is_stored() {
        return Err(crate::ops::complex::unsupported("mode_cpu", x.dtype()));
    }
    let rank = x.dims().len();
    let d = normalize_dim(dim, rank)?;
    if rank == 0 {
        return Ok((x.copy()?, Tensor::zeros_like_meta(&x.meta().with_dtype(DType::I64))?));
    }
    let size = x.dims()[d];
    if size == 0 {
        return Err(Error::index(format!("mode(): Expected reduction dim {d} to have non-zero size.")));
    }
    let dim = d as i64;
    if x.place().in_memory() && !x.dtype().is_complex() {
        let at = mode_on_cpu(x, d)?;
        let values = indexing::gather(x, dim, &at)?;
        return if keep { Ok((values, at)) } else { Ok((values.squeeze(dim)?, at.squeeze(dim)?)) };
    }
    let (sorted, from) = sort(x, dim, false, true)?;
    // The length of the run of equal elements that ends at each position, counted from the start of the run.
    let mut along = Dims::filled(1, rank);
    along.set(d, size);
    let place = count_up(size, x.place())?.reshape_dims(along)?.expand_dims(sorted.dims())?;
    let length = if size == 1 {
        place
    } else {
        let values = sorted.detach();
        let differs = values.narrow(dim, 1, size as i64 - 1)?.ne(&values.narrow(dim, 0, size as i64 - 1)?)?;
        let zero = Tensor::number(Scalar::Int(0), DType::I64)?;
        let later = select(&differs, &place.narrow(dim, 1, size as i64 - 1)?, &zero)?;
        let first = place.narrow(dim, 0, 1)?;
        let (start, _) = crate::ops::scan::cum_extreme(&cat(&[&first, &later], dim)?, true, dim)?;
        place.sub(&start)?
    };
    let best = length.argmax(Some(dim), true)?;
    let (values, at) = (indexing::gather(&sorted, dim, &best)?, indexing::gather(&from, dim, &best)?);
    if keep { Ok((values, at)) } else { Ok((values.squeeze(dim)?, at.squeeze(dim)?)) }
}
