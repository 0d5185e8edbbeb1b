//! The polar decomposition.

use super::svd::svd;
use super::{Pair, adjoint, any, expect_inexact, expect_matrices, matrix_size, pair_of, times_columns};
use crate::schema::{Row, Scope, Tier, t};
use crate::{Error, Result, Tensor};

fn polar(x: &Tensor) -> Result<Pair> {
    expect_matrices("linalg.polar", x, "A")?;
    expect_inexact("linalg.polar", x)?;
    let (m, n) = matrix_size(x.meta());
    if m < n {
        return Err(Error::runtime(format!(
            "linalg.polar: input must have at least as many rows as columns, but got {m} by {n} matrices"
        )));
    }
    let y = svd(x, false, true, None)?;
    let v = adjoint(&y[2])?;
    let h = times_columns(&v, &y[1].to_dtype(v.dtype())?)?.matmul(&y[2])?;
    Ok((y[0].matmul(&y[2])?, h))
}

/// The rows of this file.
pub const ROWS: &[Row] = &[Row::new(
    "linalg_polar(Tensor A) -> (Tensor U, Tensor H)",
    Tier::Composed,
    |a| pair_of(polar(a.tensor(0)?)?),
    || vec![any(vec![t(&[4, 3])])],
)
.doc(
    "Return `U`, with orthonormal columns, and positive semidefinite `H` `(..., n, n)`, with `A = U @ H`, for \
         each matrix of `A` `(..., m, n)`. Fewer rows than columns raise `RuntimeError`.",
)
.scope(Scope::Nn)
.fields(&["U", "H"])];
