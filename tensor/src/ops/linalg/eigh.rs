//! Eigenvalues and eigenvectors of symmetric and Hermitian matrices.

use super::{
    EIGEN, Pair, adjoint, any, batch_and, count, definite, elements, expect_no_phase, expect_square_inexact,
    matrix_size, not_converged, on_host, over_differences, pair_of, part, part_mut, times_columns, two, wants_gradient,
    with_diagonal, with_number, write,
};
use crate::axes::Axes;
use crate::op::{Fused, KernelFn, Outs, Prim, Saves, VjpFn};
use crate::policy::{Policies, Policy};
use crate::schema::{Row, SampleArg, Scope, Tier};
use crate::{Dims, Error, Meta, Result, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_kernels::memory;
use torchtpu_linalg as kernels;
use torchtpu_linalg::Number;

/// `a = V diag(w) V^H` from one triangle of `a`: real eigenvalues in ascending order, and eigenvectors as columns.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | a | `[.., n, n]` | `float32`, `float64` or complex |
/// | w | `[.., n]` | the real type of a |
/// | V | `[.., n, n]`; `[0]` where not wanted | that of a |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Eigh {
    /// Whether to read the upper triangle.
    pub upper: bool,
    /// Whether to compute eigenvectors.
    pub vectors: bool,
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
        let inner = with_diagonal(&over_differences(&inner, w, w)?, &gw)?;
        Ok(smallvec![Some(v.matmul(&inner.matmul(&vh)?)?)])
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (n, _) = matrix_size(x[0].meta());
        Ok(x[0].meta().with_dims(batch_and(x[0].dims(), &[n])).with_dtype(x[0].dtype().to_real()))
    }
    fn infer_extra(&self, x: &[&Tensor], _: &Meta, _: usize) -> Meta {
        x[0].meta().with_dims(if self.vectors { *x[0].dims() } else { Dims::new(&[0]) })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("... _ _ -> ... _, ... _ _", x, y)
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

pub(super) fn eigh(name: &str, x: &Tensor, triangle: &str, vectors: bool) -> Result<Pair> {
    expect_square_inexact(name, x)?;
    let upper = match triangle {
        "L" | "l" => false,
        "U" | "u" => true,
        other => {
            return Err(Error::runtime(format!("Expected UPLO argument to be 'L' or 'U', but got {other}")));
        }
    };
    Ok(two(dispatch::call_n(Prim::Eigh(Eigh { upper, vectors: vectors || wants_gradient(x) }), &[x])?))
}

/// The rows of this file.
pub const ROWS: &[Row] = &[
    Row::new(
        "linalg_eigh(Tensor self, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)",
        Tier::Composed,
        |a| pair_of(eigh("linalg.eigh", a.tensor(0)?, a.str(1)?, true)?),
        || {
            vec![
                any(vec![definite(&[2, 3, 3])]).no_gradient(),
                any(vec![definite(&[3, 3]), SampleArg::Str("U")]).no_gradient(),
            ]
        },
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return the real `eigenvalues` `(..., n)`, in ascending order, and the orthonormal `eigenvectors` `(..., n, \
         n)`, as columns, of symmetric or Hermitian matrices `input` `(..., n, n)`, `float32`, `float64` or complex. \
         Only the triangle `UPLO`, `\"L\"` or `\"U\"`, is read. Eigenvectors are determined up to a factor of \
         magnitude 1; a loss that depends on the phase of complex ones raises `RuntimeError` in backward.",
    )
    .scope(Scope::Nn)
    .fields(EIGEN),
    Row::new(
        "linalg_eigvalsh(Tensor self, str UPLO='L') -> Tensor",
        Tier::Composed,
        |a| Ok(eigh("linalg.eigvalsh", a.tensor(0)?, a.str(1)?, false)?.0.into()),
        || vec![any(vec![definite(&[3, 3])]).no_gradient()],
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return the eigenvalues `(..., n)`, real and in ascending order, of symmetric or Hermitian matrices `input` \
         `(..., n, n)`. Only the triangle `UPLO`, `\"L\"` or `\"U\"`, is read.",
    )
    .scope(Scope::Nn),
];
