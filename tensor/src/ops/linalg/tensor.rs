//! Inverses and systems of equations of tensors as linear maps.

use super::inverse::inv;
use super::solve::solve;
use crate::op::normalize_dim;
use crate::policy::{Policies, Policy};
use crate::schema::{Row, Scope, Tier, ints, n, t};
use crate::{Error, Result, Tensor, samples};

fn product(dims: &[usize]) -> i64 {
    dims.iter().product::<usize>() as i64
}

fn tensorinv(x: &Tensor, ind: i64) -> Result<Tensor> {
    if ind <= 0 {
        return Err(Error::runtime("Expected a strictly positive integer for 'ind'"));
    }
    let at = (ind as usize).min(x.dims().len());
    let (rows, columns) = (product(&x.dims()[..at]), product(&x.dims()[at..]));
    if rows != columns {
        return Err(Error::runtime(format!(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got \
            {columns} != {rows}"
        )));
    }
    let sizes: Vec<i64> = x.dims()[at..].iter().chain(&x.dims()[..at]).map(|&n| n as i64).collect();
    inv("linalg.inv", &x.reshape(&[rows, columns])?)?.reshape(&sizes)
}

fn tensorsolve(a: &Tensor, b: &Tensor, dims: Option<&[i64]>) -> Result<Tensor> {
    let r = a.dims().len();
    let mut moved = a.clone();
    if let Some(dims) = dims {
        let from: Vec<usize> = dims.iter().map(|&d| normalize_dim(d, r)).collect::<Result<_>>()?;
        let to: Vec<i64> = (r as i64 - from.len() as i64..r as i64).collect();
        moved = a.movedim(&from.iter().map(|&d| d as i64).collect::<Vec<_>>(), &to)?;
    }
    let at = b.dims().len().min(r);
    let (rows, columns) = (product(&moved.dims()[..at]), product(&moved.dims()[at..]));
    if rows != columns {
        return Err(Error::runtime(format!(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), \
            but got {columns} != {rows}"
        )));
    }
    let sizes: Vec<i64> = moved.dims()[at..].iter().map(|&n| n as i64).collect();
    solve(&moved.reshape(&[rows, columns])?, &b.reshape(&[-1])?, true)?.reshape(&sizes)
}

/// The rows of this file.
pub const ROWS: &[Row] = &[
    Row::new(
        "linalg_tensorinv(Tensor self, int ind=2) -> Tensor",
        Tier::Composed,
        |a| Ok(tensorinv(a.tensor(0)?, a.int(1)?)?.into()),
        samples!([t(&[2, 2, 4])], [t(&[4, 2, 2]), n(1)]),
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return the inverse of `input` as a linear map of tensors: its first `ind` dimensions are the rows of a \
         matrix, the others its columns. The products of both sizes agree. The result has shape `input.shape[ind:] + \
         input.shape[:ind]`. A singular map raises `torch.linalg.LinAlgError`.",
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor",
        Tier::Composed,
        |a| Ok(tensorsolve(a.tensor(0)?, a.tensor(1)?, a.opt_ints(2)?)?.into()),
        samples!([t(&[2, 2, 4]), t(&[2, 2])], [t(&[4, 2, 2]), t(&[2, 2]), ints(&[0])]),
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return `x` with `tensordot(input, x, x.ndim) = other`. The leading dimensions of `input`, as many as `other` \
         has, are the rows of a matrix, the others its columns. Their products agree, and `x` has the shape of the \
         others. `dims` are moved to the end of `input` first.",
    )
    .scope(Scope::Nn),
];
