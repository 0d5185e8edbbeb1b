//! Quantiles, modes, covariances, histograms, numerical gradients and reductions of segments: all composed.
//!
//! Checks of values (weights that are negative, lengths that do not add up) read them, as in PyTorch; the fractions of a
//! quantile are checked on `cpu` at once and on a device when the host next reads.

use super::concat::cat;
use super::creation::Iota;
use super::indexing::{self, Scatter, ScatterKind, count_up};
use super::pointwise::{select, select_scalar};
use super::reduce::{ReduceKind, reduce};
use super::sort::{searchsorted, sort};
use crate::op::{Prim, normalize_dim, normalize_dims};
use crate::schema::{Args, Fill, Ret, Row, Sample, SampleArg, Scope, Tier, index, ints, n, positive, t};
use crate::{DType, DeviceKind, Dims, Error, Result, Scalar, Tensor, default_dtype, dispatch, samples};

/// Raises `error` when any element of `bad` is true.
fn refuse(bad: &Tensor, error: Error) -> Result<()> {
    if bad.device().kind == DeviceKind::Meta {
        return Ok(());
    }
    let any = reduce(ReduceKind::Any, bad, None, false)?;
    if any.item()?.to_i64() != 0 { Err(error) } else { Ok(()) }
}

/// [`refuse`] at the next read where reading now would cut the trace.
fn refuse_later(bad: &Tensor, error: Error) -> Result<()> {
    if bad.device().kind == DeviceKind::Tpu { indexing::defer(bad, error) } else { refuse(bad, error) }
}

fn sizes(x: &Tensor) -> Vec<i64> {
    x.dims().iter().map(|&n| n as i64).collect()
}

// ------------------------------------------------------------------------------------------------ quantiles

/// `torch.quantile` and, leaving NaN out, `torch.nanquantile`.
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
    if q.device() != x.device() {
        return fail("q tensor must be on the same device as the input tensor");
    }
    if !["linear", "lower", "higher", "midpoint", "nearest"].contains(&how) {
        return fail(&format!(
            "interpolation must be one of linear, lower, higher, midpoint or nearest, but got {how}"
        ));
    }
    let rank = x.dims().len();
    let d = dim.map(|d| normalize_dim(d, rank)).transpose()?;
    refuse_later(
        &q.detach().lt_scalar(0.0)?.logical_or(&q.detach().gt_scalar(1.0)?)?,
        Error::runtime(format!("{name}() q values must be in the range [0, 1]")),
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
        // A row with NaN, which is sorted to its end, gives NaN.
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
        // From the nearer end, so that both ends are exact.
        let near_low = below.add(&gap.mul(&weight)?)?;
        let near_high = above.sub(&gap.mul(&weight.neg()?.add_scalar(1.0)?)?)?;
        select(&weight.detach().lt_scalar(0.5)?, &near_low, &near_high)?
    } else {
        below
    };
    // The quantiles come first, the dimension goes away or keeps one element.
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

fn quantile_row(a: &Args<'_>, name: &str, skip: bool) -> Result<Ret> {
    let x = a.tensor(0)?;
    let q = match a.operand(1)? {
        crate::schema::Operand::Tensor(q) => q.clone(),
        crate::schema::Operand::Scalar(q) => {
            let q = q.to_f64();
            if !(0.0..=1.0).contains(&q) {
                return Err(Error::runtime(format!("{name}() q must be in the range [0, 1] but got {q}")));
            }
            Tensor::full(&[], q, x.dtype(), x.device())?
        }
    };
    Ok(quantile(name, x, &q, a.opt_int(2)?, a.bool(3)?, a.str(4)?, skip)?.into())
}

/// The commonest element along a dimension, the least of several, and the place of its last occurrence.
fn mode(x: &Tensor, dim: i64, keep: bool) -> Result<(Tensor, Tensor)> {
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
    let (sorted, from) = sort(x, dim, false, true)?;
    // How long the run of equals is that each place ends: counted from where the run began.
    let mut along = Dims::filled(1, rank);
    along[d] = size;
    let place = count_up(size, x.device())?.reshape_dims(along)?.expand_dims(sorted.dims())?;
    let length = if size == 1 {
        place
    } else {
        let values = sorted.detach();
        let differs = values.narrow(dim, 1, size as i64 - 1)?.ne(&values.narrow(dim, 0, size as i64 - 1)?)?;
        let zero = Tensor::number(Scalar::Int(0), DType::I64)?;
        let later = select(&differs, &place.narrow(dim, 1, size as i64 - 1)?, &zero)?;
        let first = place.narrow(dim, 0, 1)?;
        let (start, _) = super::scan::cum_extreme(&cat(&[&first, &later], dim)?, true, dim)?;
        place.sub(&start)?
    };
    let best = length.argmax(Some(dim), true)?;
    let (values, at) = (indexing::gather(&sorted, dim, &best)?, indexing::gather(&from, dim, &best)?);
    if keep { Ok((values, at)) } else { Ok((values.squeeze(dim)?, at.squeeze(dim)?)) }
}

// ------------------------------------------------------------------------------------------------ covariances

/// Covariances of the rows of a matrix, whose columns are observations.
fn cov(x: &Tensor, correction: i64, frequencies: Option<&Tensor>, weights: Option<&Tensor>) -> Result<Tensor> {
    let fail = |text: String| Error::runtime(format!("cov(): {text}"));
    if x.dims().len() > 2 {
        return Err(fail(format!(
            "expected input to have two or fewer dimensions but got an input with {} dimensions",
            x.dims().len()
        )));
    }
    if x.dtype() == DType::Bool {
        return Err(Error::not_implemented("cov(): bool dtype is not supported for input"));
    }
    let m = if x.dims().len() < 2 { x.reshape(&[1, -1])? } else { x.clone() };
    let count = m.dims()[1];
    let checked = |name: &str, w: &Tensor, right: bool, kind: &str| -> Result<()> {
        if w.dims().len() > 1 {
            return Err(fail(format!(
                "expected {name} to have one or fewer dimensions but got {name} with {} dimensions",
                w.dims().len()
            )));
        }
        if !right {
            return Err(fail(format!(
                "expected {name} to have {kind} dtype but got {name} with {} dtype",
                w.dtype().scalar_type()
            )));
        }
        if w.numel() != count {
            return Err(fail(format!(
                "expected {name} to have the same numel as there are observations in the input but got {} != {count}",
                w.numel()
            )));
        }
        if count == 0 {
            return Ok(());
        }
        refuse(&w.detach().lt_scalar(0)?, Error::runtime(format!("cov(): {name} cannot be negative")))
    };
    if let Some(f) = frequencies {
        checked("fweights", f, f.dtype().is_int(), "integral")?;
    }
    if let Some(w) = weights {
        checked("aweights", w, w.dtype().is_float(), "floating point")?;
    }
    let w = match (frequencies, weights) {
        (Some(f), Some(w)) => Some(f.mul(w)?),
        (f, w) => f.or(w).cloned(),
    };
    let total = w.as_ref().map(Tensor::sum).transpose()?;
    if let Some(t) = &total {
        refuse(&t.detach().eq_scalar(0)?, Error::runtime("cov(): weights sum to zero, can't be normalized"))?;
    }
    let weighted = |m: &Tensor| w.as_ref().map_or_else(|| Ok(m.clone()), |w| m.mul(w));
    let sum = weighted(&m)?.sum_dim(&[1], false)?;
    let mean = match &total {
        Some(t) => sum.div(t)?,
        None => sum.div_scalar(count as i64)?,
    };
    let d = m.sub(&mean.unsqueeze(1)?)?;
    let dd = weighted(&d)?;
    let y = d.to_dtype(dd.dtype())?.mm(&dd.t()?.conj()?)?;
    let y = match total {
        None => y.div_scalar((count as i64 - correction).max(0))?,
        Some(t) => {
            let less = match (weights, &w) {
                (Some(aw), Some(w)) if correction != 0 => w.mul(aw)?.sum()?.div(&t)?.mul_scalar(correction)?,
                _ => Tensor::full(&[], correction, t.dtype(), t.device())?,
            };
            let norm = t.sub(&less)?;
            y.div(&norm.maximum_scalar(0)?)?
        }
    };
    y.squeeze_all()
}

/// Correlations of the rows of a matrix.
fn corrcoef(x: &Tensor) -> Result<Tensor> {
    if x.dims().len() > 2 {
        return Err(Error::runtime(format!(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with {} dimensions",
            x.dims().len()
        )));
    }
    let c = cov(x, 1, None, None)?;
    if c.dims().is_empty() {
        return c.div(&c);
    }
    let deviation = c.diagonal(0, 0, 1)?.sqrt()?;
    let c = c.div(&deviation.unsqueeze(1)?)?.div(&deviation.unsqueeze(0)?)?;
    // Rounding may lead beyond one.
    if c.dtype().is_complex() {
        return super::complex::by_parts(&c, clamped);
    }
    clamped(&c)
}

fn clamped(c: &Tensor) -> Result<Tensor> {
    super::clip::clamp(
        c,
        Some(crate::schema::Operand::Scalar(Scalar::Int(-1))),
        Some(crate::schema::Operand::Scalar(Scalar::Int(1))),
    )
}

// ------------------------------------------------------------------------------------------------ histograms

/// Points in `[.., n]`, one row each, weights one a row.
struct Points {
    x: Tensor,
    weights: Option<Tensor>,
}

fn points(x: &Tensor, weights: Option<&Tensor>) -> Result<Points> {
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
                "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same dtype, but got input({}), and weight({})",
                super::dtype::c_name(x.dtype()),
                super::dtype::c_name(w.dtype())
            )));
        }
        if w.dims()[..] != x.dims()[..x.dims().len() - 1] {
            return Err(Error::runtime(format!(
                "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding its innermost dimension, but got input with shape {} and weight with shape {}",
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

/// The least and greatest of a column, or a given range; a little apart where they are equal.
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
fn even_edges(p: &Points, bins: &[i64], range: Option<&[f64]>) -> Result<Vec<Tensor>> {
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
            // Each half is counted from its own end, so that both ends are exact.
            let i = dispatch::call(Prim::Iota(Iota { len: count + 1, device: p.x.device() }), &[])?;
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

fn given_edges(p: &Points, edges: &[&Tensor]) -> Result<Vec<Tensor>> {
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
                "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype {} and bins for dimension {d} with dtype {}",
                super::dtype::c_name(p.x.dtype()),
                super::dtype::c_name(e.dtype())
            )));
        }
        if e.dims().len() != 1 {
            return Err(Error::runtime(format!(
                "torch.histogramdd: bins tensor should have one dimension, but got {} dimensions in the bins tensor for dimension {d}",
                e.dims().len()
            )));
        }
    }
    check_bins(edges.iter().map(|e| e.numel() as i64 - 1))?;
    Ok(edges.iter().map(|e| e.detach()).collect())
}

/// Counts, or sums of weights, of the points in each bin; the last bin of a dimension holds its upper edge.
fn histogram(p: &Points, edges: &[Tensor], density: bool) -> Result<Tensor> {
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
    // What is outside goes to one place more, which is cut off.
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

/// A histogram of all elements: that of points with one coordinate.
fn histogram_of_all(a: &Args<'_>, weight: usize, edges: &dyn Fn(&Points) -> Result<Vec<Tensor>>) -> Result<Ret> {
    let x = a.tensor(0)?;
    let w = a.opt_tensor(weight)?;
    if let Some(w) = w.filter(|w| w.dims() != x.dims()) {
        let shown: Vec<String> = x.dims().iter().map(|n| n.to_string()).chain(["1".to_string()]).collect();
        return Err(Error::runtime(format!(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding its innermost dimension, but got input with shape [{}] and weight with shape {}",
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

// ------------------------------------------------------------------------------------------------ numerical gradients

/// Distances between points along a dimension.
enum Spacing {
    Even(f64),
    Points(Tensor),
}

/// Derivatives along dimensions, by differences of neighbours.
fn gradient(x: &Tensor, dims: Option<Vec<i64>>, spacing: Vec<Spacing>, edge: i64) -> Result<Vec<Tensor>> {
    let rank = x.dims().len();
    if edge != 1 && edge != 2 {
        return Err(Error::runtime("torch.gradient only supports edge_order=1 and edge_order=2."));
    }
    let dims = match dims {
        Some(d) => {
            normalize_dims(&d, rank)?;
            d.iter().map(|&d| normalize_dim(d, rank)).collect::<Result<Vec<_>>>()?
        }
        None => (0..rank).collect(),
    };
    if dims.iter().any(|&d| (x.dims().get(d).copied().unwrap_or(1) as i64) < edge + 1) {
        return Err(Error::runtime("torch.gradient expected each dimension size to be at least edge_order+1"));
    }
    let x = if x.dtype().is_inexact() { x.clone() } else { x.to_dtype(default_dtype())? };
    dims.iter()
        .enumerate()
        .map(|(i, &d)| {
            let even = match spacing.get(if spacing.len() == 1 { 0 } else { i }) {
                None => 1.0,
                Some(Spacing::Even(h)) => *h,
                Some(Spacing::Points(p)) => return uneven_gradient(&x, d, p, edge),
            };
            let (d, size) = (d as i64, x.dims()[d] as i64);
            let at = |i: i64| x.narrow(d, if i < 0 { size + i } else { i }, 1);
            let middle = x.narrow(d, 2, size - 2)?.sub(&x.narrow(d, 0, size - 2)?)?.mul_scalar(0.5)?;
            let (first, last) = if edge == 1 {
                (at(1)?.sub(&at(0)?)?, at(-1)?.sub(&at(-2)?)?)
            } else {
                let three = |a: Tensor, b: Tensor, c: Tensor| {
                    b.mul_scalar(2.0)?.sub(&a.mul_scalar(1.5)?)?.sub(&c.mul_scalar(0.5)?)
                };
                (three(at(0)?, at(1)?, at(2)?)?, three(at(-1)?, at(-2)?, at(-3)?)?.neg()?)
            };
            let y = cat(&[&first, &middle, &last], d)?;
            if even == 1.0 { Ok(y) } else { y.div_scalar(even) }
        })
        .collect()
}

fn uneven_gradient(x: &Tensor, d: usize, points: &Tensor, edge: i64) -> Result<Tensor> {
    let size = x.dims()[d] as i64;
    if points.dims().len() != 1 || points.numel() as i64 != size {
        return Err(Error::runtime(format!(
            "torch.gradient expected each element of spacing to have the length of its dimension, but got {} points for a dimension of {size}",
            points.numel()
        )));
    }
    let points = points.to_dtype(x.dtype())?;
    let step = points.narrow(0, 1, size - 1)?.sub(&points.narrow(0, 0, size - 1)?)?;
    let mut along = vec![1; x.dims().len()];
    along[d] = -1;
    let d = d as i64;
    let at = |i: i64| x.narrow(d, if i < 0 { size + i } else { i }, 1);
    let h = |i: i64| step.narrow(0, if i < 0 { size - 1 + i } else { i }, 1)?.reshape(&along);
    let (h1, h2) = (step.narrow(0, 0, size - 2)?.reshape(&along)?, step.narrow(0, 1, size - 2)?.reshape(&along)?);
    let sum = h1.add(&h2)?;
    let a = h2.neg()?.div(&h1.mul(&sum)?)?;
    let b = h2.sub(&h1)?.div(&h1.mul(&h2)?)?;
    let c = h1.div(&h2.mul(&sum)?)?;
    let part = |from: i64, w: &Tensor| x.narrow(d, from, size - 2)?.mul(w);
    let middle = part(0, &a)?.add(&part(1, &b)?)?.add(&part(2, &c)?)?;
    let (first, last) = if edge == 1 {
        (at(1)?.sub(&at(0)?)?.div(&h(0)?)?, at(-1)?.sub(&at(-2)?)?.div(&h(-1)?)?)
    } else {
        // The parabola through three points, at its end.
        let end = |f0: Tensor, f1: Tensor, f2: Tensor, h1: Tensor, h2: Tensor| -> Result<Tensor> {
            let sum = h1.add(&h2)?;
            let a = h1.mul_scalar(2.0)?.add(&h2)?.neg()?.div(&h1.mul(&sum)?)?;
            let b = sum.div(&h1.mul(&h2)?)?;
            let c = h1.div(&h2.mul(&sum)?)?.neg()?;
            f0.mul(&a)?.add(&f1.mul(&b)?)?.add(&f2.mul(&c)?)
        };
        (end(at(0)?, at(1)?, at(2)?, h(0)?, h(1)?)?, end(at(-1)?, at(-2)?, at(-3)?, h(-1)?.neg()?, h(-2)?.neg()?)?)
    };
    cat(&[&first, &middle, &last], d)
}

/// Requires as many distances as dimensions.
fn check_spacing(x: &Tensor, count: usize, dims: Option<usize>) -> Result<()> {
    let rank = x.dims().len();
    match dims {
        None if count != 1 && count != rank => Err(Error::runtime(format!(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to 'self.dim() = {rank}', since dim argument was not given, but got a list of length {count}"
        ))),
        Some(n) if count != n => Err(Error::runtime(format!(
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have the same length, but got a spacing argument of length {count} and a dim argument of length {n}."
        ))),
        _ => Ok(()),
    }
}

fn gradient_row(a: &Args<'_>, spacing: Vec<Spacing>, dim: usize, one: bool, list: bool) -> Result<Ret> {
    let x = a.tensor(0)?;
    let dims = if one { a.opt_int(dim)?.map(|d| vec![d]) } else { Some(a.ints(dim)?.to_vec()) };
    if list {
        check_spacing(x, spacing.len(), dims.as_ref().map(Vec::len))?;
    }
    Ok(Ret::Tuple(gradient(x, dims, spacing, a.int(dim + 1)?)?))
}

fn evenly(a: &Args<'_>, i: usize) -> Result<Vec<Spacing>> {
    Ok(a.opt_floats(i)?.unwrap_or(&[]).iter().map(|&h| Spacing::Even(h)).collect())
}

fn at_points(a: &Args<'_>, i: usize) -> Result<Vec<Spacing>> {
    Ok(a.tensors(i)?.into_iter().map(|t| Spacing::Points(t.clone())).collect())
}

// ------------------------------------------------------------------------------------------------ slices and segments

/// Shrinks the slices along a dimension whose norm is greater than a bound to that norm.
fn renorm(x: &Tensor, p: Scalar, dim: i64, bound: f64) -> Result<Tensor> {
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
    let wide = super::dtype::widened(x)?;
    let norm = super::linalg::vector_norm(&wide, p, Some(&others), true, None)?;
    let large = norm.detach().gt_scalar(bound)?;
    let one = Tensor::number(Scalar::Float(1.0), norm.dtype())?;
    let safe = select(&large, &norm, &one)?;
    let factor = select(&large, &safe.add_scalar(1e-7)?.reciprocal()?.mul_scalar(bound)?, &one)?;
    x.mul(&factor.to_dtype(x.dtype())?)
}

/// Folds runs of a dimension, given by their lengths or by where they begin.
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
                        "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe.",
                    ),
                )?;
            }
            (given.clone(), given.cumsum(-1)?, None)
        }
    };
    let segments = lengths.dims()[d];
    // The number of each element's segment; what lies in none goes to one more, which is cut off.
    let mut shape = sizes(&lengths);
    shape[d] = size as i64;
    let place = count_up(size, x.device())?.expand(&shape)?.contiguous()?;
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
    dims[d] = segments + 1;
    let init = Tensor::full_meta(&x.meta().with_dims(dims), Scalar::Float(empty_value))?;
    let y = if x.numel() == 0 {
        super::pointwise::independent_of(&x.sum()?, init)?
    } else {
        dispatch::call(Prim::Scatter(Scatter { dim: d, kind, include_self: true }), &[&init, &number, x])?
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

// ------------------------------------------------------------------------------------------------ the public functions

fn text(s: &'static str) -> SampleArg {
    SampleArg::Str(s)
}
fn fractions(dims: &[usize]) -> SampleArg {
    SampleArg::Tensor(dims.to_vec(), Fill::Fraction)
}

/// Rows of quantiles, covariances, histograms, numerical gradients and segments.
pub const ROWS: &[Row] = &[
    Row::new(
        "quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
        Tier::Composed,
        |a| quantile_row(a, "quantile", false),
        || {
            vec![
                Sample::new(vec![t(&[3, 5]), fractions(&[2]), n(1)]).no_gradient(),
                Sample::new(vec![t(&[3, 5]), fractions(&[]), SampleArg::Default, n(true)]).no_gradient(),
            ]
        },
    ),
    Row::new(
        "quantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
        Tier::Composed,
        |a| quantile_row(a, "quantile", false),
        samples!(
            [t(&[3, 5]), n(0.3), n(0)],
            [t(&[3, 5]), n(0.7), n(1), n(true), text("nearest")],
            [t(&[3, 5]), n(0.7), n(1), n(true), text("midpoint")],
        ),
    ),
    Row::new(
        "nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
        Tier::Composed,
        |a| quantile_row(a, "nanquantile", true),
        || vec![Sample::new(vec![t(&[3, 5]), fractions(&[2]), n(1)]).no_gradient()],
    ),
    Row::new(
        "nanquantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
        Tier::Composed,
        |a| quantile_row(a, "nanquantile", true),
        samples!([t(&[3, 5]), n(0.3), n(0)]),
    ),
    Row::new(
        "mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
        Tier::Composed,
        |a| Ok(mode(a.tensor(0)?, a.int(1)?, a.bool(2)?)?.into()),
        || {
            vec![
                Sample::new(vec![index(&[3, 7], 3)]).no_gradient(),
                Sample::new(vec![index(&[5, 3], 2), n(0), n(true)]).no_gradient(),
                Sample::new(vec![t(&[2, 3])]),
            ]
        },
    )
    .fields(&["values", "indices"]),
    Row::new(
        "cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor",
        Tier::Composed,
        |a| Ok(cov(a.tensor(0)?, a.int(1)?, a.opt_tensor(2)?, a.opt_tensor(3)?)?.into()),
        samples!([t(&[3, 5])], [t(&[5]), n(0)], [t(&[2, 4]), n(1), index(&[4], 3), positive(&[4])]),
    )
    .no_out(),
    Row::new(
        "corrcoef(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(corrcoef(a.tensor(0)?)?.into()),
        || vec![Sample::new(vec![t(&[3, 5])]).no_gradient(), Sample::new(vec![t(&[4])]).no_gradient()],
    )
    .no_out(),
    Row::new(
        "histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)",
        Tier::Composed,
        |a| histogram_of_all(a, 2, &|p| given_edges(p, &[a.tensor(1)?])),
        Vec::new,
    )
    .fields(&["hist", "bin_edges"]),
    Row::new(
        "histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)",
        Tier::Composed,
        |a| histogram_of_all(a, 3, &|p| even_edges(p, &[a.int(1)?], a.opt_floats(2)?)),
        || {
            vec![
                Sample::new(vec![t(&[3, 5]), n(4), SampleArg::Floats(vec![-1.05, 1.55])]).no_gradient(),
                Sample::new(vec![t(&[7]), n(3), SampleArg::Floats(vec![-2.05, 2.15]), positive(&[7]), n(true)]).no_gradient(),
            ]
        },
    )
    .fields(&["hist", "bin_edges"]),
    Row::new(
        "_histogramdd_bin_edges(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False) -> Tensor[]",
        Tier::Composed,
        |a| Ok(Ret::Tuple(even_edges(&points(a.tensor(0)?, a.opt_tensor(3)?)?, a.ints(1)?, a.opt_floats(2)?)?)),
        || vec![Sample::new(vec![t(&[5, 2]), ints(&[3, 2])]).no_gradient()],
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "_histogramdd_from_bin_cts(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False) -> Tensor",
        Tier::Composed,
        |a| {
            let p = points(a.tensor(0)?, a.opt_tensor(3)?)?;
            Ok(histogram(&p, &even_edges(&p, a.ints(1)?, a.opt_floats(2)?)?, a.bool(4)?)?.into())
        },
        || {
            let range = SampleArg::Floats(vec![-2.05, 2.15, -1.55, 1.65]);
            vec![Sample::new(vec![t(&[5, 2]), ints(&[3, 2]), range]).no_gradient()]
        },
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, Tensor? weight=None, bool density=False) -> Tensor",
        Tier::Composed,
        |a| {
            let p = points(a.tensor(0)?, a.opt_tensor(2)?)?;
            Ok(histogram(&p, &given_edges(&p, &a.tensors(1)?)?, a.bool(3)?)?.into())
        },
        Vec::new,
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "gradient.scalarint(Tensor self, *, Scalar? spacing=None, int? dim=None, int edge_order=1) -> Tensor[]",
        Tier::Composed,
        |a| gradient_row(a, a.opt_float(1)?.map(Spacing::Even).into_iter().collect(), 2, true, false),
        samples!([t(&[3, 4])], [t(&[3, 4]), n(0.5), n(1), n(2)]),
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "gradient.scalararray(Tensor self, *, Scalar spacing, int[] dim, int edge_order=1) -> Tensor[]",
        Tier::Composed,
        |a| gradient_row(a, vec![Spacing::Even(a.float(1)?)], 2, false, false),
        samples!([t(&[3, 4]), n(2), ints(&[1, 0])]),
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "gradient.array(Tensor self, *, int[] dim, int edge_order=1) -> Tensor[]",
        Tier::Composed,
        |a| gradient_row(a, vec![], 1, false, false),
        samples!([t(&[3, 4]), ints(&[0])]),
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "gradient.scalarrayint(Tensor self, *, float[] spacing, int? dim=None, int edge_order=1) -> Tensor[]",
        Tier::Composed,
        |a| gradient_row(a, evenly(a, 1)?, 2, true, true),
        samples!([t(&[3, 4]), SampleArg::Floats(vec![0.5, 2.0])]),
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "gradient.scalarrayarray(Tensor self, *, float[] spacing, int[] dim, int edge_order=1) -> Tensor[]",
        Tier::Composed,
        |a| gradient_row(a, evenly(a, 1)?, 2, false, true),
        samples!([t(&[3, 4]), SampleArg::Floats(vec![0.5, 2.0]), ints(&[1, 0])]),
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "gradient.tensorarrayint(Tensor self, *, Tensor[] spacing, int? dim=None, int edge_order=1) -> Tensor[]",
        Tier::Composed,
        |a| gradient_row(a, at_points(a, 1)?, 2, true, true),
        samples!(
            [t(&[3, 4]), SampleArg::Tensors(vec![vec![3], vec![4]], Fill::Normal)],
            [t(&[5]), SampleArg::Tensors(vec![vec![5]], Fill::Normal), n(0), n(2)],
        ),
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "gradient.tensorarray(Tensor self, *, Tensor[] spacing, int[] dim, int edge_order=1) -> Tensor[]",
        Tier::Composed,
        |a| gradient_row(a, at_points(a, 1)?, 2, false, true),
        samples!([t(&[3, 4]), SampleArg::Tensors(vec![vec![4]], Fill::Normal), ints(&[1])]),
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
        Tier::Composed,
        |a| Ok(renorm(a.tensor(0)?, a.scalar(1)?, a.int(2)?, a.float(3)?)?.into()),
        samples!([t(&[3, 4]), n(2), n(0), n(1)], [positive(&[2, 3, 2]), n(1), n(-1), n(4)]),
    )
    .inplace(),
    Row::new(
        "segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
        Tier::Composed,
        segment_row,
        segments,
    )
    .scope(Scope::Function),
    Row::new(
        "_segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
        Tier::Composed,
        segment_row,
        segments,
    )
    .scope(Scope::Function)
    .no_out(),
];

fn segment_row(a: &Args<'_>) -> Result<Ret> {
    if a.opt_tensor(3)?.is_some() {
        return Err(Error::runtime("segment_reduce(): indices based reduction is not supported yet."));
    }
    let (lengths, offsets) = (a.opt_tensor(2)?, a.opt_tensor(4)?);
    Ok(segment_reduce(a.tensor(0)?, a.str(1)?, lengths, offsets, a.int(5)?, a.bool(6)?, a.opt_float(7)?)?.into())
}

fn segments() -> Vec<Sample> {
    // Lengths of counted integers do not add up, so these say that they need not.
    let one = |how: &'static str, initial: SampleArg| {
        Sample::new(vec![
            t(&[7, 2]),
            text(how),
            index(&[4], 4),
            SampleArg::Default,
            SampleArg::Default,
            n(0),
            n(true),
            initial,
        ])
    };
    vec![one("sum", SampleArg::Default), one("prod", n(2)), one("max", n(-3)), one("min", n(3)), one("mean", n(0))]
}
