//! The condition number of a matrix.

use super::inverse::inv_ex;
use super::norm::{Order, matrix_norm};
use super::svd::svdvals;
use super::{any, batch_and, expect_square};
use crate::ops::pointwise;
use crate::policy::{Policies, Policy};
use crate::schema::{Row, SampleArg, Scope, Tier, n, t};
use crate::{Error, Result, Scalar, Tensor};

/// The factor by which errors may grow in solutions: a norm of each matrix times that of its inverse.
fn cond(x: &Tensor, order: Option<Order<'_>>) -> Result<Tensor> {
    if x.dims().len() < 2 {
        return Err(Error::runtime("linalg.cond: The input tensor must have at least 2 dimensions."));
    }
    let shown = match order {
        None => "None".to_string(),
        Some(Order::Number(p)) => p.to_string(),
        Some(Order::Name(s)) => s.to_string(),
    };
    let invalid = || Error::value(format!("linalg.cond got an invalid norm type: {shown}"));
    let dims = batch_and(x.dims(), &[]);
    match order {
        Some(Order::Number(p)) if ![1.0, 2.0, f64::INFINITY].contains(&p.abs()) => return Err(invalid()),
        Some(Order::Name(s)) if s != "fro" && s != "nuc" => return Err(invalid()),
        _ => {}
    }
    if x.numel() == 0 {
        let y = Tensor::zeros_like_meta(&x.meta().with_dims(dims).with_dtype(x.dtype().to_real()))?;
        return pointwise::independent_of(x, y);
    }
    let by_values = match &order {
        None => Some(false),
        Some(Order::Number(p)) if p.abs() == 2.0 => Some(*p < 0.0),
        _ => None,
    };
    if let Some(turned) = by_values {
        let s = svdvals(x)?;
        let count = s.dims()[s.dims().len() - 1] as i64;
        let (first, last) = (s.select(-1, 0)?, s.select(-1, count - 1)?);
        return if turned { last.div(&first) } else { first.div(&last) };
    }
    expect_square(&format!("linalg.cond(ord={shown})"), x, "A")?;
    let (inverse, info) = inv_ex("linalg.cond", x, false)?;
    // The singular values of non-finite matrices do not exist. Use zeros, and replace the results below.
    let singular = info.ne_scalar(0)?;
    let inverse = pointwise::select_scalar(&singular.unsqueeze(-1)?.unsqueeze(-1)?, 0.0, &inverse)?;
    let order = order.expect("given");
    let norm = |x: &Tensor| matrix_norm(x, order, &[-2, -1], false, None);
    let y = norm(x)?.mul(&norm(&inverse)?)?;
    let infinite = Tensor::number(Scalar::Float(f64::INFINITY), y.dtype())?;
    pointwise::select(&singular, &infinite, &y)
}

/// The rows of this file.
pub const ROWS: &[Row] = &[
    Row::new(
        "linalg_cond(Tensor self, Scalar? p=None) -> Tensor",
        Tier::Composed,
        |a| Ok(cond(a.tensor(0)?, a.opt_float(1)?.map(Order::Number))?.into()),
        || vec![any(vec![t(&[2, 3, 4])]), any(vec![t(&[3, 3]), n(1)])],
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return the condition number of each matrix of `input` `(..., m, n)`. For `p` of None or 2 it is the largest \
         singular value divided by the smallest, for -2 the reverse. For `\"fro\"`, `\"nuc\"`, 1, -1, `inf` and \
         `-inf` it is the norm of that order times that of the inverse, for square matrices. A singular matrix gives \
         `inf`, and 0 for -2.",
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_cond.p_str(Tensor self, str p) -> Tensor",
        Tier::Composed,
        |a| Ok(cond(a.tensor(0)?, Some(Order::Name(a.str(1)?)))?.into()),
        || vec![any(vec![t(&[3, 3]), SampleArg::Str("fro")])],
    )
    .autocast(Policies::cpu(Policy::Full))
    .scope(Scope::Nn),
];
