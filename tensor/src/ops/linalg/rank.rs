//! The rank of a matrix.

use super::eigh::eigh;
use super::pinv::{number, tolerances};
use super::svd::svdvals;
use super::{any, batch_and, definite, expect_matrices};
use crate::policy::{Policies, Policy};
use crate::schema::{Fill, Row, Sample, SampleArg, Scope, Tier, n, t};
use crate::{DType, Error, Result, Tensor};

fn matrix_rank(x: &Tensor, atol: Option<Tensor>, rtol: Option<Tensor>, hermitian: bool) -> Result<Tensor> {
    const NAME: &str = "torch.linalg.matrix_rank";
    expect_matrices(NAME, x, "input")?;
    for (which, v) in [("atol", &atol), ("rtol", &rtol)] {
        if let Some(v) = v.as_ref().filter(|v| v.dtype().is_complex()) {
            return Err(Error::runtime(format!(
                "{NAME}: {which} tensor of complex type is not supported. Got {}",
                v.dtype().scalar_type()
            )));
        }
    }
    crate::no_grad(|| {
        let values = match hermitian {
            true => eigh("linalg.eigvalsh", x, "L", false)?.0.abs()?,
            false => svdvals(x)?,
        };
        if x.numel() == 0 {
            let dims = batch_and(x.dims(), &[]);
            return Tensor::zeros_like_meta(&x.meta().with_dims(dims).with_dtype(DType::I64));
        }
        let (atol, rtol) = tolerances(NAME, x, atol, rtol)?;
        let least = atol.maximum(&rtol.mul(&values.amax(&[-1], false)?)?)?.unsqueeze(-1)?;
        values.gt(&least)?.to_dtype(DType::I64)?.sum_dim(&[-1], false)
    })
}

/// The rows of this file.
pub const ROWS: &[Row] = &[
    Row::new(
        "linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool \
        hermitian=False) -> Tensor",
        Tier::Composed,
        |a| Ok(matrix_rank(a.tensor(0)?, a.opt_tensor(1)?.cloned(), a.opt_tensor(2)?.cloned(), a.bool(3)?)?.into()),
        || vec![any(vec![t(&[2, 3, 4])]).no_gradient()],
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return the number of singular values of each matrix of `input` `(..., m, n)` that are larger than `max(atol, \
         rtol * s)`, as `int64`. `s` is the largest one, and the defaults of the tolerances are those of \
         `torch.linalg.pinv`. `tol` is `atol` with `rtol=0`. With `hermitian`, the magnitudes of eigenvalues are \
         counted.",
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool \
        hermitian=False) -> Tensor",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            Ok(matrix_rank(x, number(x, a.opt_float(1)?)?, number(x, a.opt_float(2)?)?, a.bool(3)?)?.into())
        },
        || vec![any(vec![t(&[3, 4]), n(1.0)]).no_gradient()],
    )
    .autocast(Policies::cpu(Policy::Full))
    .scope(Scope::Nn),
    Row::new(
        "linalg_matrix_rank(Tensor self, float tol, bool hermitian=False) -> Tensor",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            Ok(matrix_rank(x, number(x, Some(a.float(1)?))?, number(x, Some(0.0))?, a.bool(2)?)?.into())
        },
        || vec![any(vec![definite(&[3, 3]), n(1.0), n(true)]).no_gradient()],
    )
    .autocast(Policies::cpu(Policy::Full))
    .scope(Scope::Nn),
    Row::new(
        "linalg_matrix_rank.tol_tensor(Tensor input, Tensor tol, bool hermitian=False) -> Tensor",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            Ok(matrix_rank(x, Some(a.tensor(1)?.clone()), number(x, Some(0.0))?, a.bool(2)?)?.into())
        },
        || vec![Sample::new(vec![t(&[3, 4]), SampleArg::Tensor(vec![], Fill::Positive)]).no_gradient()],
    )
    .autocast(Policies::cpu(Policy::Full))
    .scope(Scope::Nn),
];
