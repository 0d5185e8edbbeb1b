//! Numerical gradients.

use crate::op::{normalize_dim, normalize_dims};
use crate::ops::concat::cat;
use crate::schema::{Args, Ret};
use crate::types::compute::{narrowed, widened};
use crate::{DType, Error, Result, Scalar, Tensor, default_dtype, scalar};

/// Distances between points along a dimension.
pub(super) enum Spacing {
    Even(Scalar),
    Points(Tensor),
}

/// Derivatives along dimensions, from differences of neighbours.
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
    let (narrow, x) = (x.dtype(), widened(&x)?);
    let round = |y: Tensor| if narrow.is_half() && y.dtype() == DType::F32 { narrowed(y, narrow) } else { Ok(y) };
    dims.iter()
        .enumerate()
        .map(|(i, &d)| {
            let even = match spacing.get(if spacing.len() == 1 { 0 } else { i }) {
                None => Scalar::Int(1),
                Some(Spacing::Even(h)) => *h,
                // Wider points make the result wider.
                Some(Spacing::Points(p)) if p.dtype() == narrow || !p.dtype().is_inexact() => {
                    return round(uneven_gradient(&x, d, &widened(p)?, edge)?);
                }
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
            round(if even.to_complex() == (1.0, 0.0) { y } else { y.div_scalar(even)? })
        })
        .collect()
}

fn uneven_gradient(x: &Tensor, d: usize, points: &Tensor, edge: i64) -> Result<Tensor> {
    let size = x.dims()[d] as i64;
    if points.dims().len() != 1 || points.numel() as i64 != size {
        return Err(Error::runtime(format!(
            "torch.gradient expected each element of spacing to have the length of its dimension, but got {} points \
            for a dimension of {size}",
            points.numel()
        )));
    }
    // Complex coordinates of real values have complex derivatives.
    let points = points.to_dtype(scalar::promote_types(points.dtype(), x.dtype()))?;
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
        // The derivative, at its end, of the parabola through three points.
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

/// Refuse distances whose number differs from that of the dimensions.
fn check_spacing(x: &Tensor, count: usize, dims: Option<usize>) -> Result<()> {
    let rank = x.dims().len();
    match dims {
        None if count != rank => Err(Error::runtime(format!(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to 'self.dim() = \
            {rank}', since dim argument was not given, but got a list of length {count}"
        ))),
        Some(n) if count != n => Err(Error::runtime(format!(
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have the \
            same length, but got a spacing argument of length {count} and a dim argument of length {n}."
        ))),
        _ => Ok(()),
    }
}

pub(super) fn gradient_row(a: &Args<'_>, spacing: Vec<Spacing>, dim: usize, one: bool, list: bool) -> Result<Ret> {
    let x = a.tensor(0)?;
    let dims = if one { a.opt_int(dim)?.map(|d| vec![d]) } else { Some(a.ints(dim)?.to_vec()) };
    if list {
        check_spacing(x, spacing.len(), dims.as_ref().map(Vec::len))?;
    }
    Ok(Ret::Tuple(gradient(x, dims, spacing, a.int(dim + 1)?)?))
}

pub(super) fn evenly(a: &Args<'_>, i: usize) -> Result<Vec<Spacing>> {
    Ok(a.scalars(i)?.iter().map(|&h| Spacing::Even(h)).collect())
}

pub(super) fn at_points(a: &Args<'_>, i: usize) -> Result<Vec<Spacing>> {
    Ok(a.tensors(i)?.into_iter().map(|t| Spacing::Points(t.clone())).collect())
}
