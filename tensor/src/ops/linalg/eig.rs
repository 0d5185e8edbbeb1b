//! Eigenvalues and eigenvectors of square matrices.

use super::solve::solution;
use super::{
    EIGEN, Pair, adjoint, any, batch_and, count, elements, expect_no_phase, expect_square_inexact, matrix_size,
    not_converged, on_host, over_differences, pair_of, part, part_mut, times_columns, two, wants_gradient,
    with_diagonal, with_number, write,
};
use crate::axes::Axes;
use crate::op::{Fused, KernelFn, Outs, Prim, Saves, VjpFn};
use crate::policy::{Policies, Policy};
use crate::schema::{Row, Scope, Tier, t};
use crate::{DType, Dims, Error, Meta, Result, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_kernels::memory;
use torchtpu_linalg as kernels;
use torchtpu_linalg::Number;

/// `a V = V diag(w)`: eigenvalues, and eigenvectors of length one as columns. They are complex for any `a`.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | a | `[.., n, n]` | `float32`, `float64` or complex |
/// | w | `[.., n]` | the complex type of a |
/// | V | `[.., n, n]`; `[0]` where not wanted | that of w |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Eig {
    /// Whether to compute eigenvectors.
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
                    if o.vectors {
                        return Err(Error::runtime("torch.linalg.eig: input tensor should not contain infs or NaNs."));
                    }
                    let nan = <T as Number>::Part::NAN;
                    part_mut(&mut w, i, n).fill(Whole::new(nan, nan));
                    continue;
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
                // The eigenvectors keep length one.
                let inner = inner.sub(&times_columns(&vh.matmul(v)?, &diagonal.real()?.to_dtype(v.dtype())?)?)?;
                let w = w.conj()?;
                with_diagonal(&over_differences(&inner, &w, &w)?, g)?
            }
        };
        let ga = solution(&vh, &inner.matmul(&vh)?)?;
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
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("... _ _ -> ... _, ... _ _", x, y)
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

fn eig(name: &str, x: &Tensor, vectors: bool) -> Result<Pair> {
    expect_square_inexact(name, x)?;
    Ok(two(dispatch::call_n(Prim::Eig(Eig { vectors: vectors || wants_gradient(x) }), &[x])?))
}

/// The rows of this file.
pub const ROWS: &[Row] = &[
    Row::new(
        "linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)",
        Tier::Composed,
        |a| pair_of(eig("linalg.eig", a.tensor(0)?, true)?),
        || vec![any(vec![t(&[3, 3])]).no_gradient()],
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return the `eigenvalues` `(..., n)` and the `eigenvectors` `(..., n, n)`, as columns of length 1, of square \
         matrices `input` `(..., n, n)`, `float32`, `float64` or complex. Both results are complex, and the order is \
         not defined. An input with infinities or NaN raises `RuntimeError`.",
    )
    .scope(Scope::Nn)
    .fields(EIGEN),
    Row::new(
        "linalg_eigvals(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(eig("linalg.eigvals", a.tensor(0)?, false)?.0.into()),
        || vec![any(vec![t(&[3, 3])])],
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc("Return the complex eigenvalues `(..., n)` of square matrices `input` `(..., n, n)`, in no defined order.")
    .scope(Scope::Nn),
];
