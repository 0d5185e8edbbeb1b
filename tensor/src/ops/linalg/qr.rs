//! The QR decomposition and Householder reflectors.

use super::triangular::SolveTriangular;
use super::{
    Pair, adjoint, any, batch_and, count, elements, expect_inexact, expect_matrices, gradient, identity, matrix_size,
    no_gradient, on_host, pair_of, part_mut, two, with_adjoint, with_diagonal, with_number, write,
};
use crate::axes::Axes;
use crate::op::{Fused, KernelFn, Outs, Prim, Saves, VjpFn};
use crate::ops::indexing::{tril, triu};
use crate::policy::{Policies, Policy};
use crate::schema::{Row, Sample, SampleArg, Scope, Tier, n, t};
use crate::{Dims, Error, Meta, Result, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_kernels::memory;
use torchtpu_linalg as kernels;
use torchtpu_linalg::Number;

/// `a = Q R` in LAPACK's form: `R`, below it the vectors of reflectors `1 - tau v v^H` without their leading ones, and
/// `tau`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Geqrf;

impl Fused for Geqrf {
    const NAME: &'static str = "geqrf";
    const OUTS: usize = 2;
    const KERNEL: Option<KernelFn<Self>> = Some(|_, x, y| {
        let (m, n) = matrix_size(x[0].meta());
        with_number!(x[0].dtype(), T => {
            let mut a = elements::<T>(x[0]);
            let (matrices, few) = (count(x[0].dims()), m.min(n));
            let mut tau = memory::filled(T::ZERO, matrices * few);
            for i in 0..matrices {
                kernels::qr(part_mut(&mut a, i, m * n), m, n, part_mut(&mut tau, i, few));
            }
            write(&y[0], &a);
            write(&y[1], &tau);
        });
        Ok(())
    });
    const VJP: Option<VjpFn<Self>> = Some(|_, _, _| Err(no_gradient("geqrf")));
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(x[0].meta().with_dims(*x[0].dims()))
    }
    fn infer_extra(&self, x: &[&Tensor], first: &Meta, _: usize) -> Meta {
        let (m, n) = matrix_size(x[0].meta());
        first.with_dims(batch_and(x[0].dims(), &[m.min(n)]))
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("... _ _ -> ... _ _, ... _", x, y)
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        on_host(Prim::Geqrf(*self), x)
    }
    fn takes_complex(&self) -> bool {
        true
    }
}

/// Vectors of reflectors as columns `v`, and the triangle `t` such that their product is `1 - v t v^H`.
pub(super) fn reflectors(a: &Tensor, tau: &Tensor) -> Result<(Tensor, Tensor)> {
    let (m, _) = matrix_size(a.meta());
    let k = tau.dims()[tau.dims().len() - 1];
    let v = tril(&a.narrow(-1, 0, k as i64)?, -1)?.add(&identity(m, k, a)?)?;
    // t = (1 + tau S)^-1 tau for the strict upper triangle S of v^H v.
    let tau = tau.unsqueeze(-1)?;
    let overlap = triu(&adjoint(&v)?.matmul(&v)?, 1)?;
    let unit = identity(k, k, a)?;
    let t = SolveTriangular { upper: true, unit: true }
        .call(&tau.mul(&overlap)?, &tau.mul(&unit)?.expand_dims(overlap.dims())?)?;
    Ok((v, t))
}

/// The first `columns` columns of the product of reflectors.
pub(super) fn product_of_reflectors(a: &Tensor, tau: &Tensor, columns: usize) -> Result<Tensor> {
    let (v, t) = reflectors(a, tau)?;
    let (m, _) = matrix_size(a.meta());
    let first = adjoint(&v.narrow(-2, 0, columns as i64)?)?;
    identity(m, columns, a)?.sub(&v.matmul(&t.matmul(&first)?)?)
}

/// The factors of `a = Q R` to compute.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Parts {
    /// Both, with as many columns of `Q`, and rows of `R`, as the shorter side.
    Reduced,
    /// Both, with a square `Q`.
    Complete,
    /// Only `R`, as in the first variant.
    R,
}

/// `a = Q R` with `Q` orthogonal and `R` an upper triangle.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | a | `[.., m, n]` | `float32`, `float64` or complex |
/// | Q | `[.., m, k]`; `[0]` where not wanted | that of a |
/// | R | `[.., k, n]` | that of a |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Qr {
    /// The factors to compute.
    pub parts: Parts,
}

impl Qr {
    fn inner(&self, m: usize, n: usize) -> usize {
        if self.parts == Parts::Complete { m } else { m.min(n) }
    }
}

impl Fused for Qr {
    const NAME: &'static str = "linalg_qr";
    const OUTS: usize = 2;
    /// Walter and Lehmann, "Algorithmic differentiation of linear algebra functions with application in optimum
    /// experimental design" (2010).
    const VJP: Option<VjpFn<Self>> = Some(|o, s, g| {
        let (m, n) = matrix_size(s.meta(0));
        if o.parts == Parts::R {
            return Err(Error::runtime(
                "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use \
                linalg.qr(A, mode='reduced') if you are going to require gradients.",
            ));
        }
        if o.parts == Parts::Complete && m > n {
            return Err(Error::runtime(
                "The QR decomposition is not differentiable when mode='complete' and nrows > ncols.",
            ));
        }
        let (q, r, gr) = (s.y(0), s.y(1), gradient(s, 1)?);
        let square = |gq: &Tensor, r: &Tensor, gr: &Tensor| -> Result<Tensor> {
            let inner = gr.matmul(&adjoint(r)?)?.sub(&adjoint(q)?.matmul(gq)?)?;
            let inner = triu(&inner, 0)?;
            let sum = with_adjoint(&inner)?;
            let half = sum.diagonal(0, -2, -1)?.mul_scalar(0.5)?;
            let sum = with_diagonal(&sum, &half)?;
            let left = gq.add(&q.matmul(&sum)?)?;
            // left R^-H
            adjoint(&SolveTriangular { upper: true, unit: false }.call(r, &adjoint(&left)?)?)
        };
        if m >= n {
            return Ok(smallvec![Some(square(g, r, &gr)?)]);
        }
        let (left, right) = (m as i64, (n - m) as i64);
        let gr2 = gr.narrow(-1, left, right)?;
        // The columns of `a` on the right are `Q` times those of `R`.
        let gq = g.add(&q.matmul(&r.narrow(-1, left, right)?.matmul(&adjoint(&gr2)?)?)?)?;
        let g1 = square(&gq, &r.narrow(-1, 0, left)?, &gr.narrow(-1, 0, left)?)?;
        Ok(smallvec![Some(crate::ops::concat::cat(&[&g1, &q.matmul(&gr2)?], -1)?)])
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (m, n) = matrix_size(x[0].meta());
        Ok(x[0].meta().with_dims(match self.parts {
            Parts::R => Dims::new(&[0]),
            _ => batch_and(x[0].dims(), &[m, self.inner(m, n)]),
        }))
    }
    fn infer_extra(&self, x: &[&Tensor], first: &Meta, _: usize) -> Meta {
        let (m, n) = matrix_size(x[0].meta());
        first.with_dims(batch_and(x[0].dims(), &[self.inner(m, n), n]))
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("... _ _ -> ... _ _, ... _ _", x, y)
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let (m, n) = matrix_size(x[0].meta());
        let k = self.inner(m, n);
        let packed = dispatch::call_n(Prim::Geqrf(Geqrf), &[x[0]])?;
        let (a, tau) = (&packed[0], &packed[1]);
        let r = triu(&a.narrow(-2, 0, k as i64)?, 0)?;
        let q = match self.parts {
            Parts::R => Tensor::zeros(&[0], x[0].dtype(), x[0].place())?,
            _ => product_of_reflectors(a, tau, k)?,
        };
        Ok(smallvec![q, r])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::outputs(0b11)
    }
    fn takes_complex(&self) -> bool {
        true
    }
}

fn qr(x: &Tensor, mode: &str) -> Result<Pair> {
    expect_matrices("linalg.qr", x, "A")?;
    expect_inexact("linalg.qr", x)?;
    let parts = match mode {
        "reduced" => Parts::Reduced,
        "complete" => Parts::Complete,
        "r" => Parts::R,
        other => {
            return Err(Error::runtime(format!(
                "qr received unrecognized mode '{other}' but expected one of 'reduced' (default), 'r', or 'complete'"
            )));
        }
    };
    Ok(two(dispatch::call_n(Prim::Qr(Qr { parts }), &[x])?))
}

fn geqrf(x: &Tensor) -> Result<Pair> {
    expect_matrices("torch.geqrf", x, "input")?;
    expect_inexact("torch.geqrf", x)?;
    Ok(two(dispatch::call_n(Prim::Geqrf(Geqrf), &[x])?))
}

/// Refuse reflectors that do not fit `tau`.
fn expect_reflectors(name: &str, a: &Tensor, tau: &Tensor) -> Result<()> {
    let fail = |why: &str| Err(Error::runtime(format!("{name}: {why}")));
    if a.dims().len() < 2 {
        return fail("input must have at least 2 dimensions.");
    }
    if tau.dims().len() + 1 != a.dims().len() {
        return Err(Error::runtime(format!(
            "{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {} and input.ndim \
            is equal to {}",
            tau.dims().len(),
            a.dims().len()
        )));
    }
    let batch = a.dims().len() - 2;
    if a.dims()[..batch] != tau.dims()[..batch] {
        return Err(Error::runtime(format!(
            "{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {}",
            Dims::new(&tau.dims()[..batch])
        )));
    }
    if a.dtype() != tau.dtype() {
        return Err(Error::runtime(format!(
            "{name}: tau dtype {} does not match input dtype {}",
            tau.dtype().scalar_type(),
            a.dtype().scalar_type()
        )));
    }
    Ok(())
}

fn householder_product(a: &Tensor, tau: &Tensor) -> Result<Tensor> {
    const NAME: &str = "torch.linalg.householder_product";
    expect_reflectors(NAME, a, tau)?;
    let ((m, n), k) = (matrix_size(a.meta()), tau.dims()[tau.dims().len() - 1]);
    if m < n {
        return Err(Error::runtime(format!(
            "{NAME}: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )));
    }
    if n < k {
        return Err(Error::runtime(format!("{NAME}: input.shape[-1] must be greater than or equal to tau.shape[-1]")));
    }
    product_of_reflectors(a, tau, n)
}

fn ormqr(a: &Tensor, tau: &Tensor, c: &Tensor, left: bool, transposed: bool) -> Result<Tensor> {
    const NAME: &str = "torch.ormqr";
    if a.dims().len() < 2 || c.dims().len() < 2 {
        let which = if a.dims().len() < 2 { "input" } else { "other" };
        return Err(Error::runtime(format!("{NAME}: {which} must have at least 2 dimensions.")));
    }
    let ((m, _), k) = (matrix_size(a.meta()), tau.dims().last().copied().unwrap_or(0));
    let (rows, columns) = matrix_size(c.meta());
    let (side, place) = if left { (rows, "-2") } else { (columns, "-1") };
    if side < k {
        return Err(Error::runtime(format!(
            "{NAME}: other.shape[{place}] must be greater than or equal to tau.shape[-1]"
        )));
    }
    if side != m {
        return Err(Error::runtime(format!("{NAME}: other.shape[{place}] must be equal to input.shape[-2]")));
    }
    expect_reflectors(NAME, a, tau)?;
    if a.dtype() != c.dtype() {
        return Err(Error::runtime(format!(
            "{NAME}: Expected input and other to have the same dtype, but input has dtype {} and other has dtype {}",
            a.dtype().scalar_type(),
            c.dtype().scalar_type()
        )));
    }
    let (v, t) = reflectors(a, tau)?;
    let (vh, t) = (adjoint(&v)?, if transposed { adjoint(&t)? } else { t });
    match left {
        true => c.sub(&v.matmul(&t.matmul(&vh.matmul(c)?)?)?),
        false => c.sub(&c.matmul(&v)?.matmul(&t)?.matmul(&vh)?),
    }
}

/// The rows of this file.
pub const ROWS: &[Row] = &[
    Row::new(
        "linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)",
        Tier::Composed,
        |a| pair_of(qr(a.tensor(0)?, a.str(1)?)?),
        || {
            vec![
                any(vec![t(&[2, 3, 3])]),
                any(vec![t(&[4, 2])]),
                Sample::new(vec![t(&[2, 4])]),
                any(vec![t(&[4, 2]), SampleArg::Str("complete")]).no_gradient(),
                any(vec![t(&[4, 2]), SampleArg::Str("r")]).no_gradient(),
            ]
        },
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return `Q`, with orthonormal columns, and upper triangular `R`, with `A = Q @ R`, for each matrix of `A` \
         `(..., m, n)`, `float32`, `float64` or complex. `mode=\"reduced\"` gives `Q` `(..., m, k)` and `R` `(..., k, \
         n)` with `k = min(m, n)`. `mode=\"complete\"` gives `(..., m, m)` and `(..., m, n)`, and `mode=\"r\"` a `Q` \
         of no elements. There is no gradient for `\"r\"`, nor for `\"complete\"` where `m > n`.",
    )
    .scope(Scope::Nn)
    .fields(&["Q", "R"]),
    Row::new(
        "geqrf(Tensor self) -> (Tensor a, Tensor tau)",
        Tier::Composed,
        |a| pair_of(geqrf(a.tensor(0)?)?),
        || vec![any(vec![t(&[4, 3])]).no_gradient()],
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return the QR decomposition of each matrix of `input` `(..., m, n)` as LAPACK keeps it. `a` holds `R` and, \
         below its diagonal, the vectors of the reflectors, and `tau` `(..., min(m, n))` their factors. \
         `torch.linalg.householder_product` makes `Q` of them. There is no gradient.",
    )
    .fields(&["a", "tau"]),
    Row::new(
        "linalg_householder_product(Tensor input, Tensor tau) -> Tensor",
        Tier::Composed,
        |a| Ok(householder_product(a.tensor(0)?, a.tensor(1)?)?.into()),
        || vec![any(vec![t(&[2, 4, 3]), t(&[2, 2])])],
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return the first `n` columns of the product of `k` Householder reflectors `1 - tau[i] * v @ v^H`. The \
         vectors `v` are the columns of `input` `(..., m, n)` below the diagonal, with a leading one, and `tau` is \
         `(..., k)` with `k <= n <= m`. Both operands have one dtype.",
    )
    .scope(Scope::Nn),
    Row::new(
        "orgqr(Tensor self, Tensor input2) -> Tensor",
        Tier::Composed,
        |a| Ok(householder_product(a.tensor(0)?, a.tensor(1)?)?.into()),
        || vec![any(vec![t(&[4, 3]), t(&[3])])],
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc("Alias of `torch.linalg.householder_product`, where `tau` is called `input2`."),
    Row::new(
        "ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
        Tier::Composed,
        |a| Ok(ormqr(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.bool(3)?, a.bool(4)?)?.into()),
        || {
            vec![
                any(vec![t(&[4, 3]), t(&[3]), t(&[4, 2])]),
                any(vec![t(&[4, 3]), t(&[3]), t(&[2, 4]), n(false), n(true)]),
            ]
        },
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return `Q @ input3`, where `Q` `(m, m)` is the product of the reflectors that `input` and `tau=input2` hold \
         as `torch.geqrf` returns them. With `left=False`, return `input3 @ Q`. With `transpose`, `Q^H` takes the \
         place of `Q`. All three operands have one dtype.",
    ),
];
