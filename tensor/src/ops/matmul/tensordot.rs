//! `tensordot` and `inner`: contractions that name the dimensions to sum over.

use crate::op::{normalize_dim, normalize_dims};
use crate::ops::reduce::{ReduceKind, sum_typed};
use crate::policy::{Policies, Policy};
use crate::schema::{Arg, Args, Ret};
use crate::{Dims, Error, Result, Tensor, autocast};

/// Sums of products over `left` of `a` and `right` of `b`: the other dimensions of `a`, then those of `b`.
pub(super) fn tensordot(a: &Tensor, b: &Tensor, left: &[i64], right: &[i64]) -> Result<Tensor> {
    if left.len() != right.len() {
        return Err(Error::runtime("both dimension lists should have same length"));
    }
    if a.dtype() != b.dtype() {
        return Err(Error::runtime("both inputs should have same dtype"));
    }
    let size = |t: &Tensor, d: i64| match t.dims().get(normalize_dim(d, t.dims().len())?) {
        Some(&n) => Ok(n),
        None => Err(Error::index(format!("Dimension specified as {d} but tensor has no dimensions"))),
    };
    let (mut x, mut y) = (a.clone(), b.clone());
    for (&i, &j) in left.iter().zip(right) {
        let (m, n) = (size(a, i)?, size(b, j)?);
        // A dimension of size 1 is broadcast: sum over the other.
        if n == 1 {
            x = sum_typed(&x, Some(&[i]), true, Some(a.dtype()), ReduceKind::Sum)?;
        } else if m == 1 {
            y = sum_typed(&y, Some(&[j]), true, Some(b.dtype()), ReduceKind::Sum)?;
        } else if m != n {
            return Err(Error::runtime(format!(
                "contracted dimensions need to match, but first has size {m} in dim {i} and second has size {n} in \
                dim {j}"
            )));
        }
    }
    let split = |t: &Tensor, dims: &[i64]| -> Result<(Vec<i64>, Vec<i64>)> {
        let rank = t.dims().len();
        let mask = if dims.is_empty() { 0 } else { normalize_dims(dims, rank)? };
        let rest = (0..rank).filter(|&d| mask >> d & 1 == 0).map(|d| d as i64).collect();
        Ok((rest, dims.iter().map(|&d| normalize_dim(d, rank).map(|d| d as i64)).collect::<Result<_>>()?))
    };
    let ((rest_x, sum_x), (rest_y, sum_y)) = (split(&x, left)?, split(&y, right)?);
    let sizes = |t: &Tensor, dims: &[i64]| dims.iter().map(|&d| t.dims()[d as usize]).collect::<Vec<_>>();
    let (kept_x, kept_y) = (sizes(&x, &rest_x), sizes(&y, &rest_y));
    let count = |sizes: &[usize]| sizes.iter().product::<usize>() as i64;
    let (rows, columns, inner) = (count(&kept_x), count(&kept_y), count(&sizes(&x, &sum_x)));
    let x = x.permute(&[&rest_x[..], &sum_x[..]].concat())?;
    let y = y.permute(&[&sum_y[..], &rest_y[..]].concat())?;
    let z = if rest_x.is_empty() && rest_y.is_empty() {
        dot(&x.reshape(&[inner])?, &y.reshape(&[inner])?)?
    } else {
        x.reshape(&[rows, inner])?.mm(&y.reshape(&[inner, columns])?)?
    };
    z.reshape_dims(Dims::new(&[kept_x, kept_y].concat()))
}

/// The inner product of two vectors. Unlike the product of matrices, it is not computed in 16 bits under autocast.
fn dot(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    if !autocast::is_on() {
        return x.dot(y);
    }
    let args = [Arg::Tensor(x), Arg::Tensor(y)];
    let z =
        autocast::call(Policies::both(Policy::Widest), &Args(&args), |a| Ok(a.tensor(0)?.dot(a.tensor(1)?)?.into()))?;
    match z {
        Ret::Tensor(z) => Ok(z),
        other => Err(Error::runtime(format!("dot gave {other:?} where a tensor was expected"))),
    }
}

/// Sums of products over the last dimensions; a product of elements if an operand has no dimensions.
pub(super) fn inner(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    match (a.dims().last(), b.dims().last()) {
        (Some(m), Some(n)) if m != n => Err(Error::runtime(format!(
            "inner() the last dimension must match on both input tensors but got shapes {} and {}",
            a.dims(),
            b.dims()
        ))),
        (Some(_), Some(_)) => tensordot(a, b, &[-1], &[-1]),
        _ => a.mul(b),
    }
}
