//! The Cholesky decomposition, and the functions that solve with its factor.

use super::triangular::SolveTriangular;
use super::{
    Pair, adjoint, any, batch_codes, check, count, definite, elements, expect_inexact, expect_square,
    expect_square_inexact, identity, matrix_size, on_host, pair_of, part_mut, same_batch, two, with_adjoint,
    with_diagonal, with_number, write,
};
use crate::axes::Axes;
use crate::op::{Fused, KernelFn, Outs, Prim, Saves, VjpFn, same_device};
use crate::ops::indexing::tril;
use crate::policy::{Policies, Policy};
use crate::schema::{Row, Scope, Tier, n, t};
use crate::{Error, Meta, Result, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_linalg as kernels;

/// `L` with `a = L L^H`, from the lower triangle of `a`. `info` is zero for each matrix, or the order of the first
/// leading minor that is not positive.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | a, L | `[.., n, n]` | `float32`, `float64` or complex |
/// | info | the batch | `int32` |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cholesky;

impl Fused for Cholesky {
    const NAME: &'static str = "linalg_cholesky";
    const OUTS: usize = 2;
    const DIFFERENTIABLE: u64 = 1;
    const KERNEL: Option<KernelFn<Self>> = Some(|_, x, y| {
        let (n, _) = matrix_size(x[0].meta());
        with_number!(x[0].dtype(), T => {
            let mut a = elements::<T>(x[0]);
            let info: Vec<i32> =
                (0..count(x[0].dims())).map(|i| kernels::cholesky(part_mut(&mut a, i, n * n), n)).collect();
            write(&y[0], &a);
            write(&y[1], &info);
        });
        Ok(())
    });
    /// Murray, "Differentiation of the Cholesky decomposition" (2016).
    const VJP: Option<VjpFn<Self>> = Some(|_, s, g| {
        let l = s.y(0);
        let inner = tril(&adjoint(l)?.matmul(g)?, 0)?;
        let half = inner.diagonal(0, -2, -1)?.mul_scalar(0.5)?;
        let inner = with_adjoint(&with_diagonal(&inner, &half)?)?.mul_scalar(0.5)?;
        // Solve with the triangle on both sides.
        let solve = SolveTriangular { upper: true, unit: false };
        let lh = adjoint(l)?;
        let left = solve.call(&lh, &inner)?;
        let both = adjoint(&solve.call(&lh, &adjoint(&left)?)?)?;
        Ok(smallvec![Some(both)])
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        expect_square("linalg.cholesky", x[0], "A")?;
        expect_inexact("linalg.cholesky", x[0])?;
        Ok(x[0].meta().with_dims(*x[0].dims()))
    }
    fn infer_extra(&self, x: &[&Tensor], first: &Meta, _: usize) -> Meta {
        batch_codes(x, first)
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("... _ _ -> ... _ _, ...", x, y)
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        on_host(Prim::Cholesky(*self), x)
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::outputs(1)
    }
    fn takes_complex(&self) -> bool {
        true
    }
}

/// `x` with `l l^H x = b`, or with `l^H l x = b` for an upper factor.
///
/// Only the triangle is read. The gradient is that of a factor with all its elements, as PyTorch defines it.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | b | `[.., n, k]` | `float32`, `float64` or complex |
/// | l | `[.., n, n]`, with the same batch | that of b |
/// | x | that of b | that of b |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CholeskySolve {
    /// Whether the factor is upper.
    pub upper: bool,
}

impl Fused for CholeskySolve {
    const NAME: &'static str = "cholesky_solve";
    const VJP: Option<VjpFn<Self>> = Some(|o, s, g| {
        let l = s.x(1);
        let gb = dispatch::call(Prim::CholeskySolve(*o), &[g, l])?;
        let gl = match s.needs(1) {
            false => None,
            true => {
                let half = gb.matmul(&adjoint(s.y(0))?)?;
                let both = half.add(&adjoint(&half)?)?.neg()?;
                Some(if o.upper { l.matmul(&both)? } else { both.matmul(l)? })
            }
        };
        Ok(smallvec![Some(gb), gl])
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        same_device(x)?;
        Ok(x[0].meta().with_dims(*x[0].dims()))
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("... _ k, ... _ _ -> ... _ k", x, y).linear(&[0b01])
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let (b, l) = (x[0], x[1]);
        let back = adjoint(l)?;
        let (first, second) = if self.upper { (&back, l) } else { (l, &back) };
        let y = SolveTriangular { upper: false, unit: false }.call(first, b)?;
        Ok(smallvec![SolveTriangular { upper: true, unit: false }.call(second, &y)?])
    }
    fn saves(&self, needs: u64) -> Saves {
        Saves::both(0b10, if needs & 2 != 0 { 1 } else { 0 })
    }
    fn takes_complex(&self) -> bool {
        true
    }
}

fn cholesky_ex(name: &str, x: &Tensor, upper: bool, checked: bool) -> Result<Pair> {
    expect_square_inexact(name, x)?;
    let of = if upper { adjoint(x)? } else { x.clone() };
    let (l, info) = two(dispatch::call_n(Prim::Cholesky(Cholesky), &[&of])?);
    if checked {
        check(&info, |head, code| {
            Error::linalg(format!(
                "{name}: {head}The factorization could not be completed because the input is not positive-definite \
                (the leading minor of order {code} is not positive-definite)."
            ))
        })?;
    }
    Ok((if upper { adjoint(&l)? } else { l }, info))
}

/// `x` with `a x = b`, from the Cholesky factor of `a`.
fn cholesky_solve(b: &Tensor, l: &Tensor, upper: bool) -> Result<Tensor> {
    for (name, x) in [("b", b), ("u", l)] {
        if x.dims().len() < 2 {
            return Err(Error::runtime(format!(
                "{name} should have at least 2 dimensions, but has {} dimensions instead",
                x.dims().len()
            )));
        }
    }
    let ((m, n), (rows, columns)) = (matrix_size(l.meta()), matrix_size(b.meta()));
    if m != n {
        return Err(Error::runtime(format!("A must be batches of square matrices, but they are {m} by {n} matrices")));
    }
    if n != rows {
        return Err(Error::runtime(format!(
            "Incompatible matrix sizes for cholesky_solve: each A matrix is {m} by {n} but each b matrix is {rows} by \
            {columns}"
        )));
    }
    let (b, l) = same_batch(b, l)?;
    dispatch::call(Prim::CholeskySolve(CholeskySolve { upper }), &[&b, &l])
}

fn cholesky_inverse(l: &Tensor, upper: bool) -> Result<Tensor> {
    expect_square("cholesky_inverse", l, "A")?;
    let (n, _) = matrix_size(l.meta());
    cholesky_solve(&identity(n, n, l)?.expand_dims(l.dims())?, l, upper)
}

/// The rows of this file.
pub const ROWS: &[Row] = &[
    Row::new(
        "linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor",
        Tier::Composed,
        |a| Ok(cholesky_ex("linalg.cholesky", a.tensor(0)?, a.bool(1)?, true)?.0.into()),
        || vec![any(vec![definite(&[2, 3, 3])]).no_gradient(), any(vec![definite(&[3, 3]), n(true)]).no_gradient()],
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return the lower triangular `L` with `input = L @ L^H`, for each matrix of `input` `(..., n, n)`, `float32`, \
         `float64` or complex. With `upper`, return `U` with `input = U^H @ U`. Only the triangle of that side is \
         read. A matrix that is not positive definite raises `torch.linalg.LinAlgError`.",
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
        Tier::Composed,
        |a| pair_of(cholesky_ex("linalg.cholesky", a.tensor(0)?, a.bool(1)?, a.bool(2)?)?),
        || vec![any(vec![definite(&[3, 3])]).no_gradient()],
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return the result of `torch.linalg.cholesky` as `L`, and `info`, `int32`: 0 for each matrix, or the order of \
         its first leading minor that is not positive. A failure raises `torch.linalg.LinAlgError` with \
         `check_errors` only.",
    )
    .scope(Scope::Nn)
    .fields(&["L", "info"]),
    Row::new(
        "cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
        Tier::Composed,
        |a| Ok(cholesky_solve(a.tensor(0)?, a.tensor(1)?, a.bool(2)?)?.into()),
        || {
            vec![
                any(vec![t(&[3, 2]), definite(&[2, 3, 3])]).no_gradient(),
                any(vec![t(&[3, 2]), definite(&[3, 3]), n(true)]).no_gradient(),
            ]
        },
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return `x` with `A @ x = input`, for `input` `(..., n, k)` and the Cholesky factor `input2` `(..., n, n)` of \
         `A`: `A = input2 @ input2^H`, or `A = input2^H @ input2` with `upper`. Only the triangle is read. Batches \
         broadcast.",
    ),
    Row::new(
        "cholesky_inverse(Tensor self, bool upper=False) -> Tensor",
        Tier::Composed,
        |a| Ok(cholesky_inverse(a.tensor(0)?, a.bool(1)?)?.into()),
        || vec![any(vec![definite(&[3, 3])]).no_gradient(), any(vec![definite(&[3, 3]), n(true)]).no_gradient()],
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return the inverse of each matrix whose Cholesky factor `input` `(..., n, n)` holds, as a lower triangle, or \
         an upper one with `upper`.",
    ),
];
