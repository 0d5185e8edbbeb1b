//! Histograms, in any number of dimensions.

use super::refuse;
use crate::op::Prim;
use crate::ops::creation::Iota;
use crate::ops::indexing::{self};
use crate::ops::pointwise::select;
use crate::ops::reduce::{ReduceKind, reduce};
use crate::ops::sort::searchsorted;
use crate::schema::{Args, Ret};
use crate::{DType, Dims, Error, Result, Scalar, Tensor, dispatch};

/// The points as `[.., n]`, one in each row, and one weight for each row.
pub(super) struct Points {
    x: Tensor,
    weights: Option<Tensor>,
}

pub(super) fn points(x: &Tensor, weights: Option<&Tensor>) -> Result<Points> {
    if x.dims().len() < 2 {
        return Err(Error::runtime("torch.histogramdd: input tensor should have at least 2 dimensions"));
    }
    if !matches!(x.dtype(), DType::F32 | DType::F64) {
        return Err(Error::not_implemented(format!(
            "\"histogramdd\" not implemented for '{}'",
            x.dtype().scalar_type()
        )));
    }
    let n = *x.dims().last().expect("two dimensions");
    if let Some(w) = weights {
        if w.dtype() != x.dtype() {
            return Err(Error::runtime(format!(
                "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same \
                dtype, but got input({}), and weight({})",
                x.dtype().c_name(),
                w.dtype().c_name()
            )));
        }
        if w.dims()[..] != x.dims()[..x.dims().len() - 1] {
            return Err(Error::runtime(format!(
                "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor \
                excluding its innermost dimension, but got input with shape {} and weight with shape {}",
                x.dims(),
                w.dims()
            )));
        }
    }
    let rows = x.numel().checked_div(n).unwrap_or(0);
    Ok(Points {
        x: x.detach().reshape(&[rows as i64, n as i64])?,
        weights: weights.map(|w| w.detach().reshape(&[-1])).transpose()?,
    })
}

/// The smallest and the greatest element of a column, or a given range, widened if both are equal.
fn outer_edges(p: &Points, d: usize, range: Option<&[f64]>) -> Result<(Tensor, Tensor)> {
    let meta = p.x.meta().with_dims(Dims::EMPTY);
    let (low, high) = match range {
        Some(r) => {
            let (low, high) = (r[2 * d], r[2 * d + 1]);
            if !low.is_finite() || !high.is_finite() {
                return Err(Error::runtime(format!(
                    "torch.histogramdd: dimension {d}'s range [{low}, {high}] is not finite"
                )));
            }
            if low > high {
                return Err(Error::runtime(format!(
                    "torch.histogramdd: min should not exceed max, but got min {low} max {high} for dimension {d}"
                )));
            }
            (Tensor::full_meta(&meta, Scalar::Float(low))?, Tensor::full_meta(&meta, Scalar::Float(high))?)
        }
        None if p.x.dims()[0] == 0 => {
            (Tensor::full_meta(&meta, Scalar::Int(0))?, Tensor::full_meta(&meta, Scalar::Int(1))?)
        }
        None => {
            let column = p.x.select(1, d as i64)?;
            let (low, high) =
                (reduce(ReduceKind::Min, &column, None, false)?, reduce(ReduceKind::Max, &column, None, false)?);
            refuse(
                &low.isfinite()?.logical_and(&high.isfinite()?)?.logical_not()?,
                Error::runtime(format!("torch.histogramdd: dimension {d}'s range is not finite")),
            )?;
            (low, high)
        }
    };
    let same = low.eq(&high)?;
    Ok((select(&same, &low.sub_scalar(0.5)?, &low)?, select(&same, &high.add_scalar(0.5)?, &high)?))
}

/// Edges of equally wide bins.
pub(super) fn even_edges(p: &Points, bins: &[i64], range: Option<&[f64]>) -> Result<Vec<Tensor>> {
    let n = p.x.dims()[1];
    if bins.len() != n {
        return Err(Error::runtime(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input.",
        ));
    }
    if let Some(r) = range.filter(|r| r.len() != 2 * n) {
        return Err(Error::runtime(format!(
            "torch.histogramdd: for a {n}-dimensional histogram range should have {} elements, but got {}",
            2 * n,
            r.len()
        )));
    }
    check_bins(bins.iter().copied())?;
    (0..n)
        .map(|d| {
            let (low, high) = outer_edges(p, d, range)?;
            let count = bins[d] as usize;
            // Count each half from its own end, so that both ends are exact.
            let i = dispatch::call(Prim::Iota(Iota { len: count + 1, place: p.x.place() }), &[])?;
            let step = high.sub(&low)?.div_scalar(count as f64)?;
            let up = low.add(&step.mul(&i.to_dtype(p.x.dtype())?)?)?;
            let back = i.neg()?.add_scalar(count as i64)?.to_dtype(p.x.dtype())?;
            select(&i.lt_scalar((count as i64 + 1) / 2)?, &up, &high.sub(&step.mul(&back)?)?)
        })
        .collect()
}

fn check_bins(counts: impl Iterator<Item = i64>) -> Result<()> {
    for (d, n) in counts.enumerate() {
        if n <= 0 {
            return Err(Error::runtime(format!("torch.histogram(): bins must be > 0, but got {n} for dimension {d}")));
        }
    }
    Ok(())
}

pub(super) fn given_edges(p: &Points, edges: &[&Tensor]) -> Result<Vec<Tensor>> {
    if edges.len() != p.x.dims()[1] {
        return Err(Error::runtime(format!(
            "torch.histogramdd: expected {} sequences of bin edges for a {}-dimensional histogram but got {}",
            p.x.dims()[1],
            p.x.dims()[1],
            edges.len()
        )));
    }
    for (d, e) in edges.iter().enumerate() {
        if e.dtype() != p.x.dtype() {
            return Err(Error::runtime(format!(
                "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype \
                {} and bins for dimension {d} with dtype {}",
                p.x.dtype().c_name(),
                e.dtype().c_name()
            )));
        }
        if e.dims().len() != 1 {
            return Err(Error::runtime(format!(
                "torch.histogramdd: bins tensor should have one dimension, but got {} dimensions in the bins tensor \
                for dimension {d}",
                e.dims().len()
            )));
        }
    }
    check_bins(edges.iter().map(|e| e.numel() as i64 - 1))?;
    Ok(edges.iter().map(|e| e.detach()).collect())
}

/// Counts, or sums of weights, of the points in each bin. The last bin of a dimension includes its upper edge.
pub(super) fn histogram(p: &Points, edges: &[Tensor], density: bool) -> Result<Tensor> {
    let counts: Vec<usize> = edges.iter().map(|e| e.numel() - 1).collect();
    let total: usize = counts.iter().product();
    let mut place: Option<Tensor> = None;
    let mut outside: Option<Tensor> = None;
    for (d, e) in edges.iter().enumerate() {
        let x = p.x.select(1, d as i64)?.contiguous()?;
        let bins = counts[d] as i64;
        let at = searchsorted(e, &x, true, false, None)?.sub_scalar(1)?;
        let at = select(&at.eq_scalar(bins)?.logical_and(&x.eq(&e.select(0, bins)?)?)?, &at.sub_scalar(1)?, &at)?;
        let inside = x.ge(&e.select(0, 0)?)?.logical_and(&x.le(&e.select(0, bins)?)?)?;
        let off = at.lt_scalar(0)?.logical_or(&at.ge_scalar(bins)?)?.logical_or(&inside.logical_not()?)?;
        place = Some(match place {
            None => at,
            Some(q) => q.mul_scalar(bins)?.add(&at)?,
        });
        outside = Some(match outside {
            None => off,
            Some(q) => q.logical_or(&off)?,
        });
    }
    let meta = p.x.meta().with_dims(Dims::new(&[total + 1]));
    let zeros = Tensor::zeros_like_meta(&meta)?;
    let (Some(place), Some(outside)) = (place, outside) else {
        return zeros.narrow(0, 0, total as i64)?.reshape(&[]);
    };
    // Points outside go to one additional place, which is cut off.
    let place = select(&outside, &Tensor::number(Scalar::Int(total as i64), DType::I64)?, &place)?;
    let one = Tensor::full_meta(&p.x.meta().with_dims(*place.dims()), Scalar::Int(1))?;
    let y = indexing::index_add(&zeros, 0, &place, p.weights.as_ref().unwrap_or(&one))?;
    let y = y.narrow(0, 0, total as i64)?;
    let y = y.reshape(&counts.iter().map(|&n| n as i64).collect::<Vec<_>>())?;
    if !density {
        return y.copy();
    }
    let mut y = y.div(&y.sum()?)?;
    for (d, e) in edges.iter().enumerate() {
        let n = counts[d] as i64;
        let mut shape = vec![1; counts.len()];
        shape[d] = n;
        y = y.div(&e.narrow(0, 1, n)?.sub(&e.narrow(0, 0, n)?)?.reshape(&shape)?)?;
    }
    Ok(y)
}

/// A histogram of all elements, as points with one coordinate.
pub(super) fn histogram_of_all(
    a: &Args<'_>,
    weight: usize,
    edges: &dyn Fn(&Points) -> Result<Vec<Tensor>>,
) -> Result<Ret> {
    let x = a.tensor(0)?;
    let w = a.opt_tensor(weight)?;
    if let Some(w) = w.filter(|w| w.dims() != x.dims()) {
        let shown: Vec<String> = x.dims().iter().map(|n| n.to_string()).chain(["1".to_string()]).collect();
        return Err(Error::runtime(format!(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor \
            excluding its innermost dimension, but got input with shape [{}] and weight with shape {}",
            shown.join(", "),
            w.dims()
        )));
    }
    let flat = x.reshape(&[-1, 1])?;
    let w = w.map(|w| w.reshape(&[-1])).transpose()?;
    let p = points(&flat, w.as_ref())?;
    let edges = edges(&p)?;
    Ok((histogram(&p, &edges, a.bool(weight + 1)?)?, edges[0].clone()).into())
}
