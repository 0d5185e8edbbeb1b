//! Rows scaled to a norm, and reductions of segments.

use super::{refuse, sizes};
use crate::formula::by_formula;
use crate::op::{Prim, normalize_dim};
use crate::ops::indexing::{Gather, Scatter, ScatterKind, count_up};
use crate::ops::pointwise::{select, select_scalar};
use crate::ops::sort::searchsorted;
use crate::schema::{Args, Ret};
use crate::types::compute::{narrowed, widened};
use crate::{DType, Error, Result, Scalar, Tensor, dispatch};
use smallvec::smallvec;

/// Scale the slices along a dimension down to a bound, if their norm is greater.
pub(super) fn renorm(x: &Tensor, p: Scalar, dim: i64, bound: f64) -> Result<Tensor> {
    let rank = x.dims().len();
    if p.to_f64() <= 0.0 {
        return Err(Error::runtime("renorm: non-positive-norm not supported"));
    }
    if bound < 0.0 {
        return Err(Error::runtime(format!("renorm: expected maxnorm to be >= 0 but got {bound}")));
    }
    if rank <= 1 {
        return Err(Error::runtime(format!("renorm: input needs at least 2 dimensions, got {rank} dimensions")));
    }
    let d = normalize_dim(dim, rank)?;
    let others: Vec<i64> = (0..rank).filter(|&e| e != d).map(|e| e as i64).collect();
    // PyTorch adds in `float64`, so that squares stay within the range.
    let wide = if x.dtype().is_float() { x.to_dtype(DType::F64)? } else { widened(x)? };
    let norm = crate::ops::linalg::vector_norm(&wide, p, Some(&others), true, None)?;
    let large = norm.detach().gt_scalar(bound)?;
    let one = Tensor::number(Scalar::Float(1.0), norm.dtype())?;
    let safe = select(&large, &norm, &one)?;
    let factor = select(&large, &safe.add_scalar(1e-7)?.reciprocal()?.mul_scalar(bound)?, &one)?;
    narrowed(wide.mul(&factor)?, x.dtype())
}

/// The gradient of segments that were combined into `init` by `scatter`. `number` says for each element of `x` which
/// segment it belongs to. A NaN counts as the result of its segment.
fn segments_vjp(x: &Tensor, g: &Tensor, scatter: Scatter, init: &Tensor, number: &Tensor) -> Result<Tensor> {
    let put = |init: &Tensor, kind: ScatterKind, x: &Tensor| {
        dispatch::call(Prim::Scatter(Scatter { kind, ..scatter }), &[init, number, x])
    };
    let at = |t: &Tensor| dispatch::call(Prim::Gather(Gather { dim: scatter.dim }), &[t, number]);
    let count = |hits: &Tensor| {
        let hits = hits.to_dtype(x.dtype())?;
        at(&put(&Tensor::zeros_like_meta(init.meta())?, ScatterKind::Add, &hits)?)
    };
    let g = at(g)?;
    let is_nan = x.isnan()?;
    match scatter.kind {
        ScatterKind::Add => Ok(g),
        ScatterKind::Mul => {
            // Zeros and NaN get the product of the others, and the others the result divided by themselves.
            let hole = is_nan.logical_or(&x.eq_scalar(0.0)?)?;
            let filled = select_scalar(&hole, 1.0, x)?;
            let rest = at(&put(init, ScatterKind::Mul, &filled)?)?;
            let other_holes = count(&hole)?.sub(&hole.to_dtype(x.dtype())?)?;
            let other_nan = count(&is_nan)?.sub(&is_nan.to_dtype(x.dtype())?)?.gt_scalar(0.0)?;
            let others = select_scalar(&other_holes.gt_scalar(0.0)?, 0.0, &rest)?;
            let others = select_scalar(&other_nan, f64::NAN, &others)?;
            let plain = at(&put(init, ScatterKind::Mul, x)?)?.div(&filled)?;
            g.mul(&select(&hole, &others, &plain)?)
        }
        _ => {
            let y = at(&put(init, scatter.kind, x)?)?;
            let hit = x.eq(&y)?.logical_or(&is_nan)?;
            let share = g.div(&count(&hit)?.maximum_scalar(1.0)?)?;
            select_scalar(&hit.logical_not()?, 0.0, &share)
        }
    }
}

/// Reduce runs of a dimension, given by their lengths or by their starts.
fn segment_reduce(
    x: &Tensor,
    how: &str,
    lengths: Option<&Tensor>,
    offsets: Option<&Tensor>,
    axis: i64,
    trusted: bool,
    initial: Option<f64>,
) -> Result<Tensor> {
    let fail = |text: &str| Err(Error::runtime(format!("segment_reduce(): {text}")));
    let kind = match how {
        "sum" | "mean" => ScatterKind::Add,
        "max" | "amax" => ScatterKind::Max,
        "min" | "amin" => ScatterKind::Min,
        "prod" => ScatterKind::Mul,
        other => {
            return Err(Error::runtime(format!(
                "reduce argument must be either sum, prod, mean, amax or amin, got {other}"
            )));
        }
    };
    let Some(given) = offsets.or(lengths) else { return fail("Either lengths or offsets must be defined.") };
    if x.numel() == 0 && !trusted && x.dims().is_empty() {
        return fail("Expected data to have at least one dimension.");
    }
    if !x.dtype().is_float() {
        return Err(Error::not_implemented(format!(
            "\"_segment_reduce_cpu\" not implemented for '{}'",
            x.dtype().scalar_type()
        )));
    }
    if !matches!(given.dtype(), DType::I64 | DType::I32) {
        return Err(Error::not_implemented(format!(
            "\"_segment_reduce_{}_cpu_kernel1\" not implemented for '{}'",
            if offsets.is_some() { "offsets" } else { "lengths" },
            given.dtype().scalar_type()
        )));
    }
    let rank = x.dims().len();
    let d = normalize_dim(axis, rank)?;
    if given.dims().len() != d + 1 {
        return fail(&format!(
            "Expected axis to be the last dimension of {} but got {axis}.",
            if offsets.is_some() { "offsets" } else { "lengths" }
        ));
    }
    if given.dims()[..d] != x.dims()[..d] {
        return fail("Expected data and lengths to have the same sizes before axis.");
    }
    if x.dtype().is_half() {
        let y = segment_reduce(&widened(x)?, how, lengths, offsets, axis, trusted, initial)?;
        return narrowed(y, x.dtype());
    }
    let size = x.dims()[d];
    let given = given.detach().to_dtype(DType::I64)?;
    let (lengths, ends, start) = match offsets {
        Some(_) => {
            let n = given.dims()[d] as i64;
            if n == 0 {
                return fail("Expected offsets to have at least one element along axis.");
            }
            let ends = given.narrow(-1, 1, n - 1)?.contiguous()?;
            (ends.sub(&given.narrow(-1, 0, n - 1)?)?, ends, Some(given.narrow(-1, 0, 1)?))
        }
        None => {
            if !trusted {
                refuse(&given.lt_scalar(0)?, Error::runtime("lengths contains negative value!"))?;
                refuse(
                    &given.sum_dim(&[-1], false)?.ne_scalar(size as i64)?,
                    Error::runtime(
                        "segment_reduce(): Expected all rows of lengths along axis to sum to \
                        data.size(lengths.dim()-1) when !unsafe.",
                    ),
                )?;
            }
            (given.clone(), given.cumsum(-1)?, None)
        }
    };
    let segments = lengths.dims()[d];
    // The number of each element's segment. Elements in no segment get one additional number, which is cut off.
    let mut shape = sizes(&lengths);
    shape[d] = size as i64;
    let place = count_up(size, x.place())?.expand(&shape)?.contiguous()?;
    let number = searchsorted(&ends, &place, true, false, None)?;
    let number = match start {
        Some(s) => select(&place.lt(&s)?, &Tensor::number(Scalar::Int(segments as i64), DType::I64)?, &number)?,
        None => number,
    };
    shape.extend(vec![1; rank - d - 1]);
    let number = number.reshape(&shape)?.expand_dims(x.dims())?;
    let empty_value = initial.unwrap_or(match kind {
        ScatterKind::Max => f64::NEG_INFINITY,
        ScatterKind::Min => f64::INFINITY,
        ScatterKind::Mul => 1.0,
        _ => 0.0,
    });
    let mut dims = *x.dims();
    dims.set(d, segments + 1);
    let init = Tensor::full_meta(&x.meta().with_dims(dims), Scalar::Float(empty_value))?;
    let y = if x.numel() == 0 {
        crate::ops::pointwise::independent_of(&x.sum()?, init)?
    } else {
        let scatter = Scatter { dim: d, kind, include_self: true };
        let forward = || dispatch::call(Prim::Scatter(scatter), &[&init, &number, x]);
        let (number, init) = (number.clone(), init.clone());
        by_formula("SegmentReduceBackward0", &[x], forward, move |x, g, _| {
            Ok(smallvec![Some(segments_vjp(&x[0], g, scatter, &init, &number)?)])
        })?
    };
    let y = y.narrow(d as i64, 0, segments as i64)?;
    if how != "mean" {
        return y.copy();
    }
    let mut shape = sizes(&lengths);
    shape.extend(vec![1; rank - d - 1]);
    let count = lengths.reshape(&shape)?;
    let count = if initial.is_some() { count.maximum_scalar(1)? } else { count };
    y.div(&count.to_dtype(x.dtype())?)
}

pub(super) fn segment_row(a: &Args<'_>) -> Result<Ret> {
    if a.opt_tensor(3)?.is_some() {
        return Err(Error::runtime("segment_reduce(): indices based reduction is not supported yet."));
    }
    let (lengths, offsets) = (a.opt_tensor(2)?, a.opt_tensor(4)?);
    Ok(segment_reduce(a.tensor(0)?, a.str(1)?, lengths, offsets, a.int(5)?, a.bool(6)?, a.opt_float(7)?)?.into())
}
