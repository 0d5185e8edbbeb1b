//! The pseudoinverse.

use super::eigh::Eigh;
use super::svd::Svd;
use super::{
    Pair, adjoint, any, batch_and, definite, expect_inexact, expect_matrices, expect_square, matrix_size, times_columns,
};
use crate::axes::Axes;
use crate::op::{Fused, Outs, Prim, Saves, VjpFn};
use crate::ops::pointwise;
use crate::policy::{Policies, Policy};
use crate::schema::{Fill, Row, SampleArg, Scope, Tier, n, t};
use crate::{DType, Dims, Error, Meta, Result, Scalar, Tensor, dispatch};
use smallvec::smallvec;

/// The pseudoinverse of each matrix. Singular values up to the larger of `atol` and `rtol` times the largest one count
/// as zero.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | a | `[.., m, n]` | `float32`, `float64` or complex |
/// | atol, rtol | the batch, or what is broadcast to it | the real type of a |
/// | y | `[.., n, m]` | that of a |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pinv {
    /// Whether to use eigenvalues of a Hermitian matrix.
    pub hermitian: bool,
}

impl Fused for Pinv {
    const NAME: &'static str = "linalg_pinv";
    /// Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose variables
    /// separate" (1973).
    const VJP: Option<VjpFn<Self>> = Some(|_, s, g| {
        let (a, p) = (s.x(0), s.y(0));
        let (gh, ph) = (adjoint(g)?, adjoint(p)?);
        // p and its gradient g are n by m.
        let first = ph.matmul(&g.matmul(&ph)?)?.neg()?;
        let (pg, gp) = (p.matmul(&gh)?, gh.matmul(p)?);
        // (1 - a p) g^H p p^H and p^H p g^H (1 - p a)
        let beside = gp.sub(&a.matmul(&p.matmul(&gp)?)?)?.matmul(&ph)?;
        let below = ph.matmul(&pg.sub(&pg.matmul(p)?.matmul(a)?)?)?;
        Ok(smallvec![Some(first.add(&beside)?.add(&below)?), None, None])
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (m, n) = matrix_size(x[0].meta());
        Ok(x[0].meta().with_dims(batch_and(x[0].dims(), &[n, m])))
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("... _ _, ..., ... -> ... _ _", x, y)
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let (a, atol, rtol) = (x[0], x[1], x[2]);
        let inverted = |values: &Tensor, greatest: &Tensor| -> Result<Tensor> {
            let least = atol.maximum(&rtol.mul(greatest)?)?.unsqueeze(-1)?;
            let kept = values.abs()?.gt(&least)?;
            let y = pointwise::select(&kept, &values.reciprocal()?, &Tensor::zeros_like_meta(values.meta())?)?;
            y.to_dtype(a.dtype())
        };
        // A matrix with infinities has singular values and vectors of NaN. As in PyTorch, its inverse is zero.
        let present =
            |vectors: &Tensor, values: &Tensor| pointwise::select_scalar(&values.isnan()?.unsqueeze(-2)?, 0.0, vectors);
        if self.hermitian {
            let y = dispatch::call_n(Prim::Eigh(Eigh { upper: false, vectors: true }), &[a])?;
            let by = inverted(&y[0], &y[0].abs()?.amax(&[-1], false)?)?;
            let v = present(&y[1], &y[0])?;
            return Ok(smallvec![times_columns(&v, &by)?.matmul(&adjoint(&v)?)?]);
        }
        let y = dispatch::call_n(Prim::Svd(Svd { full: false, vectors: true }), &[a])?;
        let by = inverted(&y[1], &y[1].narrow(-1, 0, 1)?.squeeze(-1)?)?;
        let (u, v) = (present(&y[0], &y[1])?, present(&adjoint(&y[2])?, &y[1])?);
        Ok(smallvec![times_columns(&v, &by)?.matmul(&adjoint(&u)?)?])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::both(1, 1)
    }
    fn takes_complex(&self) -> bool {
        true
    }
}

/// The tolerances below which singular values count as zero: absolute, and relative to the largest one.
pub(super) fn tolerances(name: &str, x: &Tensor, atol: Option<Tensor>, rtol: Option<Tensor>) -> Result<Pair> {
    for (which, t) in [("atol", &atol), ("rtol", &rtol)] {
        if let Some(t) = t.as_ref().filter(|t| t.place() != x.place()) {
            return Err(Error::runtime(format!(
                "{name}: Expected {which} and input tensors to be on the same device, but got {which} on {} and input \
                on {}",
                t.place(),
                x.place()
            )));
        }
    }
    let real = x.dtype().to_real();
    let meta = |dims: Dims| Meta { dims, dtype: real, place: x.place() };
    let zero = || Tensor::full_meta(&meta(Dims::EMPTY), Scalar::Int(0));
    let (m, n) = matrix_size(x.meta());
    let epsilon = if real == DType::F64 { f64::EPSILON } else { f32::EPSILON.into() } * m.max(n) as f64;
    let common = || Tensor::full_meta(&meta(Dims::EMPTY), Scalar::Float(epsilon));
    let rtol = match (&atol, rtol) {
        (_, Some(rtol)) => rtol.to_dtype(real)?,
        (None, None) => common()?,
        (Some(atol), None) => pointwise::select(&atol.gt_scalar(0.0)?, &zero()?, &common()?)?,
    };
    Ok((atol.map_or_else(zero, |t| t.to_dtype(real))?, rtol))
}

pub(super) fn number(x: &Tensor, v: Option<f64>) -> Result<Option<Tensor>> {
    let meta = Meta { dims: Dims::EMPTY, dtype: x.dtype().to_real(), place: x.place() };
    v.map(|v| Tensor::full_meta(&meta, Scalar::Float(v))).transpose()
}

pub(super) fn pinv(
    name: &str,
    x: &Tensor,
    atol: Option<Tensor>,
    rtol: Option<Tensor>,
    hermitian: bool,
) -> Result<Tensor> {
    expect_matrices(name, x, "A")?;
    expect_inexact(name, x)?;
    if hermitian {
        expect_square(name, x, "A")?;
    }
    if x.numel() == 0 {
        return adjoint(x)?.neg();
    }
    let (atol, rtol) = tolerances(name, x, atol, rtol)?;
    dispatch::call(Prim::Pinv(Pinv { hermitian }), &[x, &atol, &rtol])
}

/// The rows of this file.
pub const ROWS: &[Row] = &[
    Row::new(
        "linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) \
        -> Tensor",
        Tier::Composed,
        |a| {
            Ok(pinv("linalg.pinv", a.tensor(0)?, a.opt_tensor(1)?.cloned(), a.opt_tensor(2)?.cloned(), a.bool(3)?)?
                .into())
        },
        || {
            vec![
                any(vec![t(&[2, 3, 4])]),
                any(vec![t(&[4, 3])]),
                any(vec![definite(&[3, 3]), SampleArg::Default, SampleArg::Default, n(true)]).no_gradient(),
            ]
        },
    )
    .doc(
        "Return the pseudoinverse `(..., n, m)` of each matrix of `input` `(..., m, n)`, `float32`, `float64` or \
         complex. Singular values up to `max(atol, rtol * s)` count as zero, where `s` is the largest one. `atol` is \
         0 unless given. `rtol` is `max(m, n)` times the epsilon of the dtype unless given, or 0 where `atol` is \
         positive. With `hermitian`, the matrices are symmetric or Hermitian, and eigenvalues are used.",
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> \
        Tensor",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            Ok(pinv("linalg.pinv", x, number(x, a.opt_float(1)?)?, number(x, a.opt_float(2)?)?, a.bool(3)?)?.into())
        },
        || vec![any(vec![t(&[3, 4]), n(0.1), n(0.0)])],
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            Ok(pinv("linalg.pinv", x, number(x, Some(0.0))?, number(x, Some(a.float(1)?))?, a.bool(2)?)?.into())
        },
        || vec![any(vec![t(&[3, 4]), n(1e-4)])],
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            Ok(pinv("linalg.pinv", x, number(x, Some(0.0))?, Some(a.tensor(1)?.clone()), a.bool(2)?)?.into())
        },
        || vec![any(vec![t(&[3, 4]), SampleArg::Tensor(vec![], Fill::Unit)]).no_gradient()],
    )
    .scope(Scope::Nn),
    Row::new(
        "pinverse(Tensor self, float rcond=1e-15) -> Tensor",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            Ok(pinv("linalg.pinv", x, number(x, Some(0.0))?, number(x, Some(a.float(1)?))?, false)?.into())
        },
        || vec![any(vec![t(&[3, 4])])],
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return the pseudoinverse of each matrix of `input`. It is `torch.linalg.pinv` with `atol=0` and \
         `rtol=rcond`.",
    )
    .no_out(),
];
