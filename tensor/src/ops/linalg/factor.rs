//! Decompositions.

use super::{
    adjoint, batch_and, count, elements, expect_inexact, expect_square, identity, matrix_size, on_host, part, part_mut,
    times_columns, with_number, write,
};
use crate::op::{Fused, Grads, KernelFn, Outs, Prim, Saved, Saves, VjpFn};
use crate::ops::indexing::{tril, triu};
use crate::ops::pointwise;
use crate::{DType, Dims, Error, Meta, Result, Scalar, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_kernels::memory;
use torchtpu_linalg as kernels;
use torchtpu_linalg::Number;

fn batch_codes(x: &[&Tensor], first: &Meta) -> Meta {
    first.with_dims(batch_and(x[0].dims(), &[])).with_dtype(DType::I32)
}

/// A gradient, zeros where none came.
fn gradient(s: &Saved<'_>, i: usize) -> Result<Tensor> {
    s.g(i).map_or_else(|| Tensor::zeros_like_meta(s.out(i)), |g| Ok(g.clone()))
}

fn no_gradient(name: &str) -> Error {
    Error::not_implemented(format!("the derivative for '{name}' is not implemented."))
}

/// `x + x^H`.
fn with_adjoint(x: &Tensor) -> Result<Tensor> {
    x.add(&adjoint(x)?)
}

/// `x - x^H`.
fn without_adjoint(x: &Tensor) -> Result<Tensor> {
    x.sub(&adjoint(x)?)
}

/// `x` divided by the differences `b[j] - a[i]` of values, zero on the diagonal.
fn over_differences(x: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let differences = b.unsqueeze(-2)?.sub(&a.unsqueeze(-1)?)?;
    let ones = Tensor::full_meta(&a.meta().with_dims(*a.dims()), Scalar::Int(1))?;
    let quotient = x.div(&super::with_diagonal(&differences, &ones)?)?;
    super::with_diagonal(&quotient, &Tensor::zeros_like_meta(a.meta())?)
}

/// Refuses a loss that depends on the phase of vectors, which nothing determines: the diagonal of `V^H gV` must be
/// real.
fn expect_no_phase(name: &str, what: &str, diagonal: &Tensor) -> Result<()> {
    if !diagonal.dtype().is_complex() || diagonal.device().kind == crate::DeviceKind::Meta {
        return Ok(());
    }
    let is_real = crate::no_grad(|| {
        let (im, size) = (diagonal.imag()?.abs()?, diagonal.abs()?);
        let over = im.gt(&size.mul_scalar(1e-2)?.add_scalar(1e-2)?)?;
        Ok(over.to_dtype(DType::I64)?.sum()?.item()?.to_i64() == 0)
    })?;
    if is_real {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "{name}: The {what} in the complex case are specified up to multiplication by e^{{i phi}}. The specified loss \
        function depends on this quantity, so it is ill-defined."
    )))
}

// ------------------------------------------------------------------------------------------------ triangles

/// `L` with `a = L L^H`, from the lower triangle of `a`, and per matrix zero, or the order of the first leading minor
/// that is not positive.
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
        let inner = with_adjoint(&super::with_diagonal(&inner, &half)?)?.mul_scalar(0.5)?;
        // Triangles on both sides.
        let solve = super::SolveTriangular { upper: true, unit: false };
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

/// `a = P L U`: both triangles in one matrix, without the ones of `L`; pivots, which count rows from one; and per
/// matrix zero, or the number of the first pivot that is zero.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | a, LU | `[.., m, n]` | `float32`, `float64` or complex |
/// | pivots | `[.., min(m, n)]` | `int32` |
/// | info | the batch | `int32` |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LuFactor;

impl Fused for LuFactor {
    const NAME: &'static str = "linalg_lu_factor";
    const OUTS: usize = 3;
    const DIFFERENTIABLE: u64 = 1;
    const KERNEL: Option<KernelFn<Self>> = Some(|_, x, y| {
        let (m, n) = matrix_size(x[0].meta());
        with_number!(x[0].dtype(), T => {
            let mut a = elements::<T>(x[0]);
            let matrices = count(x[0].dims());
            let few = m.min(n);
            let mut pivots = memory::filled(0, matrices * few);
            let info: Vec<i32> = memory::collect((0..matrices).map(|i| {
                kernels::lu(part_mut(&mut a, i, m * n), m, n, part_mut(&mut pivots, i, few))
            }));
            write(&y[0], &a);
            write(&y[1], &pivots);
            write(&y[2], &info);
        });
        Ok(())
    });
    /// With `a1` the square part of `a`, `P^T da1 = dL U + L dU` splits into triangles between `L^-1` and `U^-1`; the
    /// rest of a wide or tall matrix follows from that part.
    const VJP: Option<VjpFn<Self>> = Some(|_, s, g| {
        let lu = s.y(0);
        let (m, n) = matrix_size(lu.meta());
        let few = m.min(n) as i64;
        let square = lu.narrow(-2, 0, few)?.narrow(-1, 0, few)?;
        let g1 = g.narrow(-2, 0, few)?.narrow(-1, 0, few)?;
        let l = with_ones(&tril(&square, -1)?)?;
        let u = triu(&square, 0)?;
        let solve_l = |b: &Tensor| super::SolveTriangular { upper: true, unit: true }.call(&adjoint(&l)?, b);
        // x U^-H, as the adjoint of U^-1 x^H.
        let solve_u =
            |b: &Tensor| adjoint(&super::SolveTriangular { upper: true, unit: false }.call(&u, &adjoint(b)?)?);
        let mut lower = adjoint(&l)?.matmul(&tril(&g1, -1)?)?;
        let mut upper = triu(&g1, 0)?.matmul(&adjoint(&u)?)?;
        let mut beside = None;
        if m < n {
            let (u2, g2) = (lu.narrow(-1, few, n as i64 - few)?, g.narrow(-1, few, n as i64 - few)?);
            lower = lower.sub(&g2.matmul(&adjoint(&u2)?)?)?;
            beside = Some((solve_l(&g2)?, -1));
        } else if m > n {
            let (l2, g2) = (lu.narrow(-2, few, m as i64 - few)?, g.narrow(-2, few, m as i64 - few)?);
            upper = upper.sub(&adjoint(&l2)?.matmul(&g2)?)?;
            beside = Some((solve_u(&g2)?, -2));
        }
        let inner = tril(&lower, -1)?.add(&triu(&upper, 0)?)?;
        let mut ga = solve_u(&solve_l(&inner)?)?;
        if let Some((rest, dim)) = beside {
            ga = crate::ops::concat::cat(&[&ga, &rest], dim)?;
        }
        let order = permutation(s.y(1), m, false)?;
        Ok(smallvec![Some(rows_back(&ga, &order)?)])
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(x[0].meta().with_dims(*x[0].dims()))
    }
    fn infer_extra(&self, x: &[&Tensor], first: &Meta, i: usize) -> Meta {
        let (m, n) = matrix_size(x[0].meta());
        match i {
            1 => first.with_dims(batch_and(x[0].dims(), &[m.min(n)])).with_dtype(DType::I32),
            _ => batch_codes(x, first),
        }
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        on_host(Prim::LuFactor(*self), x)
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::outputs(0b11)
    }
    fn takes_complex(&self) -> bool {
        true
    }
}

/// With ones on the diagonals.
pub(super) fn with_ones(x: &Tensor) -> Result<Tensor> {
    let (n, _) = matrix_size(x.meta());
    let ones = Tensor::full_meta(&x.meta().with_dims(Dims::new(&[n])), Scalar::Int(1))?;
    super::with_diagonal(x, &ones)
}

/// Where each row of `P^T a` stands in `a`, from the pivots of a matrix with so many rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Permutation {
    /// Rows.
    pub rows: usize,
    /// For `lu_solve`, not `lu_unpack`, which names them in errors.
    pub solving: bool,
}

impl Fused for Permutation {
    const NAME: &'static str = "lu_permutation";
    const DIFFERENTIABLE: u64 = 0;
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        let pivots = elements::<i32>(x[0]);
        let few = x[0].dims()[x[0].dims().len() - 1];
        let mut order = memory::filled(0, y[0].numel());
        if pivots.iter().any(|&p| p < 1 || p as usize > o.rows) {
            return Err(Error::runtime(match (o.solving, pivots.iter().any(|&p| p < 1)) {
                (false, _) => {
                    "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive.Did you properly pass the \
                    result of lu_factor?"
                }
                (_, true) => {
                    "Pivots given to lu_solve must all be greater or equal to 1. Did you properly pass the result of \
                    lu_factor?"
                }
                _ => {
                    "Pivots given to lu_solve must all be smaller or equal to LU.size(-2). Did you properly pass the \
                    result of lu_factor?"
                }
            }));
        }
        for i in 0..order.len().checked_div(o.rows).unwrap_or(0) {
            kernels::permutation(part(&pivots, i, few), part_mut(&mut order, i, o.rows));
        }
        write(&y[0], &order);
        Ok(())
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let r = x[0].dims().len();
        let mut dims = x[0].dims().to_vec();
        dims[r - 1] = self.rows;
        Ok(x[0].meta().with_dims(Dims::new(&dims)).with_dtype(DType::I64))
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        on_host(Prim::Permutation(*self), x)
    }
}

pub(super) fn permutation(pivots: &Tensor, rows: usize, solving: bool) -> Result<Tensor> {
    dispatch::call(Prim::Permutation(Permutation { rows, solving }), &[pivots])
}

/// `P x`, for `P` that takes row `i` to row `order[i]`.
pub(super) fn rows_back(x: &Tensor, order: &Tensor) -> Result<Tensor> {
    rows_to(x, &crate::no_grad(|| Ok(crate::ops::sort::sort(order, -1, false, false)?.1))?)
}

/// `P^T x`.
pub(super) fn rows_to(x: &Tensor, order: &Tensor) -> Result<Tensor> {
    crate::ops::indexing::gather(x, -2, &order.unsqueeze(-1)?.expand_dims(x.dims())?)
}

// ------------------------------------------------------------------------------------------------ orthogonal factors

/// `a = Q R` as LAPACK keeps it: `R`, below it the vectors of reflectors `1 - tau v v^H` without their leading ones,
/// and `tau`.
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
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        on_host(Prim::Geqrf(*self), x)
    }
    fn takes_complex(&self) -> bool {
        true
    }
}

/// Vectors of reflectors as columns, and the triangle `t` with which their product is `1 - v t v^H`.
pub(super) fn reflectors(a: &Tensor, tau: &Tensor) -> Result<(Tensor, Tensor)> {
    let (m, _) = matrix_size(a.meta());
    let k = tau.dims()[tau.dims().len() - 1];
    let v = tril(&a.narrow(-1, 0, k as i64)?, -1)?.add(&identity(m, k, a)?)?;
    // t = (1 + tau S)^-1 tau for the strict upper triangle S of v^H v.
    let tau = tau.unsqueeze(-1)?;
    let overlap = triu(&adjoint(&v)?.matmul(&v)?, 1)?;
    let unit = identity(k, k, a)?;
    let t = super::SolveTriangular { upper: true, unit: true }
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

/// Which factors of `a = Q R` are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Parts {
    /// As many columns of `Q`, and rows of `R`, as the shorter side.
    Reduced,
    /// A square `Q`.
    Complete,
    /// `R` of the first, and no `Q`.
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
    /// What is wanted.
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
            let sum = super::with_diagonal(&sum, &half)?;
            let left = gq.add(&q.matmul(&sum)?)?;
            // left R^-H
            adjoint(&super::SolveTriangular { upper: true, unit: false }.call(r, &adjoint(&left)?)?)
        };
        if m >= n {
            return Ok(smallvec![Some(square(g, r, &gr)?)]);
        }
        let (left, right) = (m as i64, (n - m) as i64);
        let gr2 = gr.narrow(-1, left, right)?;
        let gq = g.add(&s.x(0).narrow(-1, left, right)?.matmul(&adjoint(&gr2)?)?)?;
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
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let (m, n) = matrix_size(x[0].meta());
        let k = self.inner(m, n);
        let packed = dispatch::call_n(Prim::Geqrf(Geqrf), &[x[0]])?;
        let (a, tau) = (&packed[0], &packed[1]);
        let r = triu(&a.narrow(-2, 0, k as i64)?, 0)?;
        let q = match self.parts {
            Parts::R => Tensor::zeros(&[0], x[0].dtype(), x[0].device())?,
            _ => product_of_reflectors(a, tau, k)?,
        };
        Ok(smallvec![q, r])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::both(1, 0b11)
    }
    fn takes_complex(&self) -> bool {
        true
    }
}

// ------------------------------------------------------------------------------------------------ eigenvalues

/// `a = V diag(w) V^H` from one triangle of `a`: real eigenvalues from the least, and eigenvectors as columns.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | a | `[.., n, n]` | `float32`, `float64` or complex |
/// | w | `[.., n]` | the real type of a |
/// | V | `[.., n, n]`; `[0]` where not wanted | that of a |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Eigh {
    /// From the upper triangle.
    pub upper: bool,
    /// Vectors too.
    pub vectors: bool,
}

/// What a batch's iterations end in when they do not converge.
fn not_converged(name: &str, batched: bool, i: usize, why: &str) -> Error {
    let head = if batched { format!("(Batch element {i}): ") } else { String::new() };
    Error::linalg(format!("{name}: {head}The algorithm failed to converge because {why}"))
}

impl Fused for Eigh {
    const NAME: &'static str = "linalg_eigh";
    const OUTS: usize = 2;
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        let (n, _) = matrix_size(x[0].meta());
        let batched = x[0].dims().len() > 2;
        with_number!(x[0].dtype(), T => {
            let a = elements::<T>(x[0]);
            let matrices = count(x[0].dims());
            let mut w = memory::filled(<T as Number>::Part::ZERO, matrices * n);
            let mut v = memory::filled(T::ZERO, if o.vectors { matrices * n * n } else { 0 });
            for i in 0..matrices {
                let vectors = o.vectors.then(|| part_mut(&mut v, i, n * n));
                let a = part(&a, i, n * n);
                if !a.iter().all(|v| v.modulus().is_finite()) {
                    let nan = <T as Number>::Part::NAN;
                    part_mut(&mut w, i, n).fill(nan);
                    vectors.into_iter().flatten().for_each(|v| *v = T::real(nan));
                } else if !kernels::eigh(a, n, o.upper, part_mut(&mut w, i, n), vectors) {
                    return Err(not_converged("linalg.eigh", batched, i,
                        "the input matrix is ill-conditioned or has too many repeated eigenvalues (error code: 1)."));
                }
            }
            write(&y[0], &w);
            write(&y[1], &v);
        });
        Ok(())
    });
    const VJP: Option<VjpFn<Self>> = Some(|_, s, g| {
        let (w, v) = (s.y(0), s.y(1));
        let vh = adjoint(v)?;
        let gw = g.to_dtype(v.dtype())?;
        let inner = match s.g(1) {
            // V diag(gw) V^H
            None => return Ok(smallvec![Some(times_columns(v, &gw)?.matmul(&vh)?)]),
            Some(gv) => vh.matmul(gv)?,
        };
        expect_no_phase("linalg_eigh_backward", "eigenvectors", &inner.diagonal(0, -2, -1)?)?;
        let inner = super::with_diagonal(&over_differences(&inner, w, w)?, &gw)?;
        Ok(smallvec![Some(v.matmul(&inner.matmul(&vh)?)?)])
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (n, _) = matrix_size(x[0].meta());
        Ok(x[0].meta().with_dims(batch_and(x[0].dims(), &[n])).with_dtype(x[0].dtype().to_real()))
    }
    fn infer_extra(&self, x: &[&Tensor], _: &Meta, _: usize) -> Meta {
        x[0].meta().with_dims(if self.vectors { *x[0].dims() } else { Dims::new(&[0]) })
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        on_host(Prim::Eigh(*self), x)
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::outputs(0b11)
    }
    fn takes_complex(&self) -> bool {
        true
    }
}

/// `a V = V diag(w)`: eigenvalues and eigenvectors of length one, as columns; complex for any `a`.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | a | `[.., n, n]` | `float32`, `float64` or complex |
/// | w | `[.., n]` | the complex type of a |
/// | V | `[.., n, n]`; `[0]` where not wanted | that of w |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Eig {
    /// Vectors too.
    pub vectors: bool,
}

impl Fused for Eig {
    const NAME: &'static str = "linalg_eig";
    const OUTS: usize = 2;
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        let (n, _) = matrix_size(x[0].meta());
        let batched = x[0].dims().len() > 2;
        with_number!(x[0].dtype(), T => {
            type Whole = num_complex::Complex<<T as Number>::Part>;
            let a = elements::<T>(x[0]);
            let matrices = count(x[0].dims());
            let mut w = memory::filled(<Whole as Number>::ZERO, matrices * n);
            let mut v = memory::filled(<Whole as Number>::ZERO, if o.vectors { matrices * n * n } else { 0 });
            for i in 0..matrices {
                let a = part(&a, i, n * n);
                if !a.iter().all(|v| v.modulus().is_finite()) {
                    return Err(Error::runtime("torch.linalg.eig: input tensor should not contain infs or NaNs."));
                }
                let vectors = o.vectors.then(|| part_mut(&mut v, i, n * n));
                if !kernels::eig(a, n, part_mut(&mut w, i, n), vectors) {
                    return Err(not_converged("linalg.eig", batched, i,
                        "the input matrix is ill-conditioned or has too many repeated eigenvalues (error code: 1)."));
                }
            }
            write(&y[0], &w);
            write(&y[1], &v);
        });
        Ok(())
    });
    const VJP: Option<VjpFn<Self>> = Some(|_, s, g| {
        let (w, v) = (s.y(0), s.y(1));
        let vh = adjoint(v)?;
        let inner = match s.g(1) {
            None => crate::ops::indexing::diag_embed(g, 0, -2, -1)?,
            Some(gv) => {
                let inner = vh.matmul(gv)?;
                let diagonal = inner.diagonal(0, -2, -1)?;
                expect_no_phase("linalg_eig_backward", "eigenvectors", &diagonal)?;
                // Vectors keep the length of one.
                let inner = inner.sub(&times_columns(&vh.matmul(v)?, &diagonal.real()?.to_dtype(v.dtype())?)?)?;
                let w = w.conj()?;
                super::with_diagonal(&over_differences(&inner, &w, &w)?, g)?
            }
        };
        let ga = super::solve::solution(&vh, &inner.matmul(&vh)?)?;
        Ok(smallvec![Some(if s.meta(0).dtype.is_complex() { ga } else { ga.real()?.contiguous()? })])
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (n, _) = matrix_size(x[0].meta());
        let dtype = x[0].dtype().to_complex().unwrap_or(DType::C64);
        Ok(x[0].meta().with_dims(batch_and(x[0].dims(), &[n])).with_dtype(dtype))
    }
    fn infer_extra(&self, x: &[&Tensor], first: &Meta, _: usize) -> Meta {
        first.with_dims(if self.vectors { *x[0].dims() } else { Dims::new(&[0]) })
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        on_host(Prim::Eig(*self), x)
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::outputs(0b11)
    }
    fn takes_complex(&self) -> bool {
        true
    }
}

/// `a = U diag(S) Vh`: singular values from the greatest, with orthogonal `U` and `Vh`.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | a | `[.., m, n]` | `float32`, `float64` or complex |
/// | U | `[.., m, k]`, with `full` `[.., m, m]`; `[0]` where not wanted | that of a |
/// | S | `[.., k]` with `k = min(m, n)` | the real type of a |
/// | Vh | `[.., k, n]`, with `full` `[.., n, n]`; `[0]` where not wanted | that of a |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Svd {
    /// All vectors.
    pub full: bool,
    /// Vectors too.
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
    /// Townsend, "Differentiating the singular value decomposition" (2016), and a phase for complex numbers.
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
        // U and V turn together.
        let sum = du.add(&dv)?.imag()?;
        let none = Tensor::zeros_like_meta(sum.meta())?;
        let turn = crate::ops::complex::complex(&none, &sum)?;
        expect_no_phase("svd_backward", "singular vectors", &turn)?;
        let turn = du.sub(&dv)?.imag()?.div(values)?.mul_scalar(0.5)?;
        diagonal = diagonal.add(&crate::ops::complex::complex(&none, &turn)?)?;
    }
    let inner = super::with_diagonal(&inner, &diagonal)?;
    let mut left = u.matmul(&inner)?;
    if m > n {
        // What U moves out of its own columns.
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

/// The pseudoinverse of each matrix, singular values up to the greater of `atol` and `rtol` times the greatest being
/// taken for zero.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | a | `[.., m, n]` | `float32`, `float64` or complex |
/// | atol, rtol | the batch, or what is broadcast to it | the real type of a |
/// | y | `[.., n, m]` | that of a |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pinv {
    /// By eigenvalues of a Hermitian matrix.
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
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let (a, atol, rtol) = (x[0], x[1], x[2]);
        let inverted = |values: &Tensor, greatest: &Tensor| -> Result<Tensor> {
            let least = atol.maximum(&rtol.mul(greatest)?)?.unsqueeze(-1)?;
            let kept = values.abs()?.gt(&least)?;
            let y = pointwise::select(&kept, &values.reciprocal()?, &Tensor::zeros_like_meta(values.meta())?)?;
            y.to_dtype(a.dtype())
        };
        if self.hermitian {
            let y = dispatch::call_n(Prim::Eigh(Eigh { upper: false, vectors: true }), &[a])?;
            let by = inverted(&y[0], &y[0].abs()?.amax(&[-1], false)?)?;
            return Ok(smallvec![times_columns(&y[1], &by)?.matmul(&adjoint(&y[1])?)?]);
        }
        let y = dispatch::call_n(Prim::Svd(Svd { full: false, vectors: true }), &[a])?;
        let by = inverted(&y[1], &y[1].narrow(-1, 0, 1)?.squeeze(-1)?)?;
        Ok(smallvec![times_columns(&adjoint(&y[2])?, &by)?.matmul(&adjoint(&y[0])?)?])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::both(1, 1)
    }
    fn takes_complex(&self) -> bool {
        true
    }
}

// ------------------------------------------------------------------------------------------------ symmetric matrices

/// `a = L D L^T`, or `L D L^H`, from the lower triangle of `a`; pivots as LAPACK has them, and per matrix zero, or the
/// number of the first block of `D` that is zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LdlFactor {
    /// With conjugates.
    pub hermitian: bool,
}

impl Fused for LdlFactor {
    const NAME: &'static str = "linalg_ldl_factor";
    const OUTS: usize = 3;
    const DIFFERENTIABLE: u64 = 0;
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        let (n, _) = matrix_size(x[0].meta());
        with_number!(x[0].dtype(), T => {
            let mut a = elements::<T>(x[0]);
            let matrices = count(x[0].dims());
            let mut pivots = memory::filled(0, matrices * n);
            let info: Vec<i32> = memory::collect((0..matrices).map(|i| {
                kernels::ldl(part_mut(&mut a, i, n * n), n, o.hermitian, part_mut(&mut pivots, i, n))
            }));
            write(&y[0], &a);
            write(&y[1], &pivots);
            write(&y[2], &info);
        });
        Ok(())
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(x[0].meta().with_dims(*x[0].dims()))
    }
    fn infer_extra(&self, x: &[&Tensor], first: &Meta, i: usize) -> Meta {
        let (n, _) = matrix_size(x[0].meta());
        match i {
            1 => first.with_dims(batch_and(x[0].dims(), &[n])).with_dtype(DType::I32),
            _ => batch_codes(x, first),
        }
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        on_host(Prim::LdlFactor(*self), x)
    }
    fn takes_complex(&self) -> bool {
        true
    }
}

/// `x` of `a x = b` from what [`LdlFactor`] made of `a`, and `b`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LdlSolve {
    /// With conjugates.
    pub hermitian: bool,
}

impl Fused for LdlSolve {
    const NAME: &'static str = "linalg_ldl_solve";
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        let (n, k) = matrix_size(x[2].meta());
        let pivots = elements::<i32>(x[1]);
        if pivots.iter().any(|p| p.unsigned_abs() as usize > n || *p == 0) {
            let bound = if pivots.contains(&0) { ">= 1" } else { "<= LD.size(-2)" };
            return Err(Error::runtime(format!(
                "Pivots given to ldl_solve must all satisfy |pivot| {bound}. Did you properly pass the result of \
                ldl_factor?"
            )));
        }
        with_number!(x[0].dtype(), T => {
            let (ld, mut b) = (elements::<T>(x[0]), elements::<T>(x[2]));
            for i in 0..count(x[2].dims()) {
                let pivots = part(&pivots, i, n);
                kernels::ldl_solve(part(&ld, i, n * n), pivots, part_mut(&mut b, i, n * k), n, k, o.hermitian);
            }
            write(&y[0], &b);
        });
        Ok(())
    });
    const VJP: Option<VjpFn<Self>> = Some(|_, _, _| Err(no_gradient("linalg_ldl_solve")));
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(x[2].meta().with_dims(*x[2].dims()))
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        on_host(Prim::LdlSolve(*self), x)
    }
    fn takes_complex(&self) -> bool {
        true
    }
}

// ------------------------------------------------------------------------------------------------ functions of
// matrices

/// `e^a`, computed in `float64`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MatrixExp;

impl Fused for MatrixExp {
    const NAME: &'static str = "linalg_matrix_exp";
    const KERNEL: Option<KernelFn<Self>> = Some(|_, x, y| {
        let (n, _) = matrix_size(x[0].meta());
        with_number!(x[0].dtype(), T => {
            let mut a = elements::<T>(x[0]);
            for i in 0..count(x[0].dims()) {
                kernels::matrix_exp(part_mut(&mut a, i, n * n), n);
            }
            write(&y[0], &a);
        });
        Ok(())
    });
    /// `e^[[a^H, g], [0, a^H]]` has the gradient in its corner.
    const VJP: Option<VjpFn<Self>> = Some(|_, s, g| {
        let ah = adjoint(s.x(0))?;
        let n = ah.dims()[ah.dims().len() - 1] as i64;
        let none = Tensor::zeros_like_meta(ah.meta())?;
        let top = crate::ops::concat::cat(&[&ah, g], -1)?;
        let bottom = crate::ops::concat::cat(&[&none, &ah], -1)?;
        let whole = crate::ops::concat::cat(&[&top, &bottom], -2)?;
        let y = dispatch::call(Prim::MatrixExp(MatrixExp), &[&whole])?;
        Ok(smallvec![Some(y.narrow(-2, 0, n)?.narrow(-1, n, n)?)])
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(x[0].meta().with_dims(*x[0].dims()))
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        on_host(Prim::MatrixExp(*self), x)
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::inputs(1)
    }
    fn takes_complex(&self) -> bool {
        true
    }
}
