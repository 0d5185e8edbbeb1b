//! The inverse of a matrix.

use super::solve::solve_in_place;
use super::{
    Pair, adjoint, any, batch_and, check, count, elements, expect_square_inexact, matrix_size, on_host, pair_of, two,
    with_number, write,
};
use crate::axes::Axes;
use crate::op::{Fused, KernelFn, Outs, Prim, Saves, VjpFn};
use crate::policy::{Policies, Policy};
use crate::schema::{Row, Scope, Tier, t};
use crate::{DType, Error, Meta, Result, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_kernels::memory;
use torchtpu_linalg::Number;

/// The inverse of each matrix. `info` is zero, or the number of a pivot that is zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Inverse;

impl Fused for Inverse {
    const NAME: &'static str = "linalg_inv";
    const OUTS: usize = 2;
    const DIFFERENTIABLE: u64 = 1;
    const KERNEL: Option<KernelFn<Self>> = Some(|_, x, y| {
        let (n, _) = matrix_size(x[0].meta());
        with_number!(x[0].dtype(), T => {
            let mut a = elements::<T>(x[0]);
            let mut b = memory::filled(T::ZERO, a.len());
            let matrices = count(x[0].dims());
            for i in 0..matrices {
                for j in 0..n {
                    b[i * n * n + j * n + j] = T::ONE;
                }
            }
            solve_in_place(&mut a, &mut b, matrices, n, n, &y[1]);
            write(&y[0], &b);
        });
        Ok(())
    });
    const VJP: Option<VjpFn<Self>> = Some(|_, s, g| {
        let back = adjoint(s.y(0))?;
        Ok(smallvec![Some(back.matmul(&g.matmul(&back)?)?.neg()?)])
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(x[0].meta().with_dims(*x[0].dims()))
    }
    fn infer_extra(&self, x: &[&Tensor], first: &Meta, _: usize) -> Meta {
        first.with_dims(batch_and(x[0].dims(), &[])).with_dtype(DType::I32)
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("... _ _ -> ... _ _, ...", x, y)
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        on_host(Prim::Inverse(*self), x)
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::outputs(1)
    }
    fn takes_complex(&self) -> bool {
        true
    }
}

pub(super) fn inv_ex(name: &str, x: &Tensor, checked: bool) -> Result<Pair> {
    expect_square_inexact(name, x)?;
    let (y, info) = two(dispatch::call_n(Prim::Inverse(Inverse), &[x])?);
    if checked {
        check(&info, |head, code| {
            Error::linalg(format!(
                "linalg.inv: {head}The diagonal element {code} is zero, the inversion could not be completed because \
                the input matrix is singular."
            ))
        })?;
    }
    Ok((y, info))
}

/// The inverse of each matrix.
pub(super) fn inv(name: &str, x: &Tensor) -> Result<Tensor> {
    Ok(inv_ex(name, x, true)?.0)
}

/// The rows of this file.
pub const ROWS: &[Row] = &[
    Row::new(
        "linalg_inv(Tensor A) -> Tensor",
        Tier::Composed,
        |a| Ok(inv("linalg.inv", a.tensor(0)?)?.into()),
        || vec![any(vec![t(&[2, 3, 3])])],
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return the inverse of each matrix of `A` `(..., n, n)`, `float32`, `float64` or complex. A singular matrix \
         raises `torch.linalg.LinAlgError`. To multiply with an inverse, `torch.linalg.solve` is faster and more \
         exact.",
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
        Tier::Composed,
        |a| pair_of(inv_ex("linalg.inv", a.tensor(0)?, a.bool(1)?)?),
        || vec![any(vec![t(&[3, 3])])],
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return the result of `torch.linalg.inv` as `inverse`, and `info`, `int32`: 0 for each matrix, or the number, \
         from 1, of a pivot that is zero. A singular matrix raises `torch.linalg.LinAlgError` with `check_errors` \
         only.",
    )
    .scope(Scope::Nn)
    .fields(&["inverse", "info"]),
    Row::new(
        "inverse(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(inv("linalg.inv", a.tensor(0)?)?.into()),
        || vec![any(vec![t(&[3, 3])])],
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc("Alias of `torch.linalg.inv`."),
];
