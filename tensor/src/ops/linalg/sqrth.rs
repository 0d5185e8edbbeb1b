//! The square root of a positive semidefinite matrix.

use super::eigh::eigh;
use super::{adjoint, any, definite, times_columns};
use crate::schema::{Row, Scope, Tier};
use crate::{Result, Tensor};

fn matrix_sqrth(x: &Tensor) -> Result<Tensor> {
    let (w, v) = eigh("linalg.matrix_sqrth", x, "L", true)?;
    let root = w.relu()?.sqrt()?.to_dtype(v.dtype())?;
    times_columns(&v, &root)?.matmul(&adjoint(&v)?)
}

/// The rows of this file.
pub const ROWS: &[Row] = &[Row::new(
    "linalg_matrix_sqrth(Tensor self) -> Tensor",
    Tier::Composed,
    |a| Ok(matrix_sqrth(a.tensor(0)?)?.into()),
    || vec![any(vec![definite(&[3, 3])]).no_gradient()],
)
.doc(
    "Return the square root of each positive semidefinite, symmetric or Hermitian matrix of `input` `(..., n, \
         n)`. It is `V @ diag(sqrt(w)) @ V^H` for eigenvalues `w` and eigenvectors `V`. Negative eigenvalues count as \
         zero. The lower triangle is read.",
)
.scope(Scope::Nn)];
