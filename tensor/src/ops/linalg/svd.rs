//! The singular value decomposition.

use super::{
    adjoint, any, batch_and, count, elements, expect_inexact, expect_matrices, expect_no_phase, gradient, matrix_size,
    not_converged, on_host, over_differences, part, part_mut, times_columns, tuple, wants_gradient, with_diagonal,
    with_number, write,
};
use crate::axes::Axes;
use crate::op::{Fused, Grads, KernelFn, Outs, Prim, Saved, Saves, VjpFn};
use crate::policy::{Policies, Policy};
use crate::schema::{Ret, Row, Sample, Scope, Tier, n, t};
use crate::{Dims, Error, Meta, Result, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_kernels::memory;
use torchtpu_linalg as kernels;
use torchtpu_linalg::Number;

/// `a = U diag(S) Vh`: singular values in descending order, with orthogonal `U` and `Vh`.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | a | `[.., m, n]` | `float32`, `float64` or complex |
/// | U | `[.., m, k]`, with `full` `[.., m, m]`; `[0]` where not wanted | that of a |
/// | S | `[.., k]` with `k = min(m, n)` | the real type of a |
/// | Vh | `[.., k, n]`, with `full` `[.., n, n]`; `[0]` where not wanted | that of a |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Svd {
    /// Whether to compute all vectors.
    pub full: bool,
    /// Whether to compute vectors.
    pub vectors: bool,
}

impl Fused for Svd {
    const NAME: &'static str = "linalg_svd";
    const OUTS: usize = 3;
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        let (m, n) = matrix_size(x[0].meta());
        let batched = x[0].dims().len() > 2;
        with_number!(x[0].dtype(), T => {
            let a = elements::<T>(x[0]);
            let (matrices, few) = (count(x[0].dims()), m.min(n));
            let (rows, columns) = if o.full { (m, n) } else { (few, few) };
            let mut s = memory::filled(<T as Number>::Part::ZERO, matrices * few);
            let mut u = memory::filled(T::ZERO, if o.vectors { matrices * m * rows } else { 0 });
            let mut v = memory::filled(T::ZERO, if o.vectors { matrices * columns * n } else { 0 });
            for i in 0..matrices {
                let vectors =
                    o.vectors.then(|| (part_mut(&mut u, i, m * rows), part_mut(&mut v, i, columns * n)));
                if !kernels::svd(part(&a, i, m * n), m, n, o.full, part_mut(&mut s, i, few), vectors) {
                    return Err(not_converged("linalg.svd", batched, i,
                        "the input matrix contained non-finite values."));
                }
            }
            write(&y[0], &u);
            write(&y[1], &s);
            write(&y[2], &v);
        });
        Ok(())
    });
    /// Townsend, "Differentiating the singular value decomposition" (2016), with a phase for complex numbers.
    const VJP: Option<VjpFn<Self>> = Some(svd_vjp);
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (m, n) = matrix_size(x[0].meta());
        Ok(x[0].meta().with_dims(match (self.vectors, self.full) {
            (false, _) => Dims::new(&[0]),
            (_, full) => batch_and(x[0].dims(), &[m, if full { m } else { m.min(n) }]),
        }))
    }
    fn infer_extra(&self, x: &[&Tensor], first: &Meta, i: usize) -> Meta {
        let (m, n) = matrix_size(x[0].meta());
        match i {
            1 => first.with_dims(batch_and(x[0].dims(), &[m.min(n)])).with_dtype(x[0].dtype().to_real()),
            _ if !self.vectors => first.with_dims(Dims::new(&[0])),
            _ => first.with_dims(batch_and(x[0].dims(), &[if self.full { n } else { m.min(n) }, n])),
        }
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("... _ _ -> ... _ _, ... _, ... _ _", x, y)
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        on_host(Prim::Svd(*self), x)
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::outputs(0b111)
    }
    fn takes_complex(&self) -> bool {
        true
    }
}

fn svd_vjp(_: &Svd, s: &Saved<'_>, gu: &Tensor) -> Result<Grads> {
    let (m, n) = matrix_size(s.meta(0));
    let few = m.min(n) as i64;
    let (u, values) = (s.y(0).narrow(-1, 0, few)?, s.y(1));
    let vh = s.y(2).narrow(-2, 0, few)?;
    let gs = gradient(s, 1)?.to_dtype(u.dtype())?;
    if s.g(0).is_none() && s.g(2).is_none() {
        return Ok(smallvec![Some(times_columns(&u, &gs)?.matmul(&vh)?)]);
    }
    let gu = gu.narrow(-1, 0, few)?;
    let gv = adjoint(&gradient(s, 2)?.narrow(-2, 0, few)?)?;
    let (uh, v) = (adjoint(&u)?, adjoint(&vh)?);
    let (along_u, along_v) = (uh.matmul(&gu)?, vh.matmul(&gv)?);
    let real = values.to_dtype(u.dtype())?;
    // s[j]^2 - s[i]^2
    let squares = values.mul(values)?;
    let left = over_differences(&without_adjoint(&along_u)?, &squares, &squares)?;
    let right = over_differences(&without_adjoint(&along_v)?, &squares, &squares)?;
    let inner = times_columns(&left, &real)?.add(&real.unsqueeze(-1)?.mul(&right)?)?;
    let mut diagonal = gs;
    if u.dtype().is_complex() {
        let (du, dv) = (along_u.diagonal(0, -2, -1)?, along_v.diagonal(0, -2, -1)?);
        // U and V turn by the same phase.
        let sum = du.add(&dv)?.imag()?;
        let none = Tensor::zeros_like_meta(sum.meta())?;
        let turn = crate::ops::complex::complex(&none, &sum)?;
        expect_no_phase("svd_backward", "singular vectors", &turn)?;
        let turn = du.sub(&dv)?.imag()?.div(values)?.mul_scalar(0.5)?;
        diagonal = diagonal.add(&crate::ops::complex::complex(&none, &turn)?)?;
    }
    let inner = with_diagonal(&inner, &diagonal)?;
    let mut left = u.matmul(&inner)?;
    if m > n {
        // The part of the gradient of U outside of the span of its columns.
        let beside = times_columns(&gu.sub(&u.matmul(&along_u)?)?, &real.reciprocal()?)?;
        left = left.add(&beside)?;
    }
    let mut ga = left.matmul(&vh)?;
    if n > m {
        let beside = gv.sub(&v.matmul(&along_v)?)?;
        let beside = real.reciprocal()?.unsqueeze(-1)?.mul(&adjoint(&beside)?)?;
        ga = ga.add(&u.matmul(&beside)?)?;
    }
    Ok(smallvec![Some(ga)])
}

/// `x - x^H`.
fn without_adjoint(x: &Tensor) -> Result<Tensor> {
    x.sub(&adjoint(x)?)
}

pub(super) fn svd(x: &Tensor, full: bool, vectors: bool, driver: Option<&str>) -> Result<Outs> {
    expect_matrices("linalg.svd", x, "A")?;
    expect_inexact("linalg.svd", x)?;
    if driver.is_some() {
        return Err(Error::runtime(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.",
        ));
    }
    dispatch::call_n(Prim::Svd(Svd { full, vectors }), &[x])
}

/// Singular values in descending order.
pub(super) fn svdvals(x: &Tensor) -> Result<Tensor> {
    Ok(svd(x, false, wants_gradient(x), None)?.swap_remove(1))
}

/// `torch.svd`, which returns `V` instead of its conjugate transpose.
fn old_svd(x: &Tensor, some: bool, vectors: bool) -> Result<Ret> {
    if !vectors {
        let (m, n) = if x.dims().len() < 2 { (0, 0) } else { matrix_size(x.meta()) };
        let s = svdvals(x)?;
        let none = |n: usize| Tensor::zeros_like_meta(&x.meta().with_dims(batch_and(x.dims(), &[n, n])));
        return tuple([none(m)?, s, none(n)?]);
    }
    let y = svd(x, !some, true, None)?;
    tuple([y[0].clone(), y[1].clone(), adjoint(&y[2])?])
}

/// The rows of this file.
pub const ROWS: &[Row] = &[
    Row::new(
        "linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
        Tier::Composed,
        |a| tuple(svd(a.tensor(0)?, a.bool(1)?, true, a.opt_str(2)?)?),
        || {
            vec![
                Sample::new(vec![t(&[2, 3, 3])]),
                any(vec![t(&[4, 3]), n(false)]).no_gradient(),
                Sample::new(vec![t(&[3, 4]), n(false)]),
            ]
        },
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return `U`, `S` and `Vh` with `A = U @ diag(S) @ Vh`, for each matrix of `A` `(..., m, n)`, `float32`, \
         `float64` or complex. The singular values `S` `(..., min(m, n))` are real, in descending order. `U` is \
         `(..., m, m)` and `Vh` `(..., n, n)`, or, with `full_matrices=False`, both have `min(m, n)` vectors. A \
         `driver` raises `RuntimeError`.",
    )
    .scope(Scope::Nn)
    .fields(&["U", "S", "Vh"]),
    Row::new(
        "linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor",
        Tier::Composed,
        |a| {
            if a.opt_str(1)?.is_some() {
                svd(a.tensor(0)?, false, false, a.opt_str(1)?)?;
            }
            Ok(svdvals(a.tensor(0)?)?.into())
        },
        || vec![any(vec![t(&[2, 3, 4])])],
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return the singular values `(..., min(m, n))` of each matrix of `A` `(..., m, n)`, real and in descending \
         order.",
    )
    .scope(Scope::Nn),
    Row::new(
        "svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
        Tier::Composed,
        |a| old_svd(a.tensor(0)?, a.bool(1)?, a.bool(2)?),
        || vec![Sample::new(vec![t(&[4, 3])]), any(vec![t(&[4, 3]), n(true), n(false)]).no_gradient()],
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return `U`, `S` and `V` with `input = U @ diag(S) @ V^H`. Unlike `torch.linalg.svd` it returns `V`, not its \
         conjugate transpose, and with `some`, the default, only `min(m, n)` vectors of each. With \
         `compute_uv=False`, `U` and `V` are zeros.",
    )
    .fields(&["U", "S", "V"]),
];
