//! Systems of equations with a triangular matrix.

use super::{
    adjoint, any, count, definite, different_dtypes, elements, expect_fit, expect_inexact, expect_matrices,
    expect_square, matrix_size, on_host, part, part_mut, same_batch, tuple, with_number, write,
};
use crate::axes::Axes;
use crate::op::{Func, Fused, KernelFn, LowerFn, Outs, Prim, Saves, Value, VjpFn, same_device};
use crate::ops::indexing::{tril, triu};
use crate::policy::{Policies, Policy};
use crate::schema::{Ret, Row, Scope, Tier, n, t};
use crate::{Error, Meta, Result, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_linalg as kernels;

/// `x` with `a x = b` for a triangle `a`.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | a | `[.., n, n]`, of which one triangle is read | `float32`, `float64` or complex (C1) |
/// | b | `[.., n, k]`, with the same batch (C2) | that of a |
/// | x | that of b | that of a |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SolveTriangular {
    /// Whether to read the upper triangle.
    pub upper: bool,
    /// Whether the diagonal counts as ones, whatever its elements are.
    pub unit: bool,
}

impl SolveTriangular {
    /// # Errors
    /// When sizes or dtypes do not fit.
    pub(super) fn call(self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        dispatch::call(Prim::SolveTriangular(self), &[a, b])
    }
}

impl Fused for SolveTriangular {
    const NAME: &'static str = "linalg_solve_triangular";
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        let (n, k) = matrix_size(x[1].meta());
        with_number!(x[0].dtype(), T => {
            let (a, mut b) = (elements::<T>(x[0]), elements::<T>(x[1]));
            for i in 0..count(x[1].dims()) {
                kernels::solve_triangular(part(&a, i, n * n), part_mut(&mut b, i, n * k), n, k, o.upper, o.unit);
            }
            write(&y[0], &b);
        });
        Ok(())
    });
    const LOWER: Option<LowerFn<Self>> = Some(|o, f: &mut Func, x: &[Value], _| {
        smallvec![f.triangular_solve(&x[0], &x[1], true, !o.upper, o.unit, false)]
    });
    const VJP: Option<VjpFn<Self>> = Some(|o, s, g| {
        let back = SolveTriangular { upper: !o.upper, ..*o };
        let gb = back.call(&adjoint(s.x(0))?, g)?;
        let ga = match s.needs(0) {
            false => None,
            true => {
                let all = gb.matmul(&adjoint(s.y(0))?)?.neg()?;
                let from = o.unit as i64;
                Some(if o.upper { triu(&all, from)? } else { tril(&all, -from)? })
            }
        };
        Ok(smallvec![ga, Some(gb)])
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        expect_square("linalg.solve_triangular", x[0], "A")?;
        expect_inexact("linalg.solve_triangular", x[0])?; // C1
        same_device(x)?;
        let fits = x[1].dims().len() == x[0].dims().len() && {
            let r = x[0].dims().len();
            x[0].dims()[..r - 1] == x[1].dims()[..r - 1] && x[0].dtype() == x[1].dtype()
        };
        if !fits {
            return Err(Error::runtime(format!(
                "linalg.solve_triangular: {} does not fit {}", // C2
                x[1].dims(),
                x[0].dims()
            )));
        }
        Ok(x[1].meta().with_dims(*x[1].dims()))
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("... _ _, ... _ k -> ... _ k", x, y).linear(&[0b10])
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        on_host(Prim::SolveTriangular(*self), x)
    }
    fn saves(&self, needs: u64) -> Saves {
        Saves::both(0b1, if needs & 1 != 0 { 1 } else { 0 })
    }
    fn takes_complex(&self) -> bool {
        true
    }
}

fn solve_triangular(a: &Tensor, b: &Tensor, upper: bool, left: bool, unit: bool) -> Result<Tensor> {
    const NAME: &str = "linalg.solve_triangular";
    expect_square(NAME, a, "A")?;
    expect_matrices(NAME, b, "B")?;
    if a.dtype() != b.dtype() {
        return Err(different_dtypes(NAME, "A", "B", a, b));
    }
    expect_fit(NAME, a, b, left)?;
    let (a, b) = same_batch(a, b)?;
    if left {
        return SolveTriangular { upper, unit }.call(&a, &b);
    }
    let y = SolveTriangular { upper: !upper, unit }.call(&a.transpose(-2, -1)?, &b.transpose(-2, -1)?)?;
    y.transpose(-2, -1)
}

fn triangular_solve(b: &Tensor, a: &Tensor, upper: bool, transpose: bool, unit: bool) -> Result<Ret> {
    for (name, x) in [("b", b), ("A", a)] {
        if x.dims().len() < 2 {
            return Err(Error::runtime(format!(
                "torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it has {} dimensions \
                instead",
                x.dims().len()
            )));
        }
    }
    let ((m, n), (rows, _)) = (matrix_size(a.meta()), matrix_size(b.meta()));
    if m != n || n != rows {
        return Err(Error::runtime(format!(
            "Incompatible matrix sizes for triangular_solve: each A matrix is {m} by {n} but each b matrix is {rows} \
            by {}",
            matrix_size(b.meta()).1
        )));
    }
    let (a, b) = same_batch(a, b)?;
    let x = match transpose {
        false => SolveTriangular { upper, unit }.call(&a, &b)?,
        true => SolveTriangular { upper: !upper, unit }.call(&a.transpose(-2, -1)?, &b)?,
    };
    tuple([x, a.copy()?])
}

/// The rows of this file.
pub const ROWS: &[Row] = &[
    Row::new(
        "linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) \
        -> Tensor",
        Tier::Composed,
        |a| Ok(solve_triangular(a.tensor(0)?, a.tensor(1)?, a.bool(2)?, a.bool(3)?, a.bool(4)?)?.into()),
        || {
            vec![
                any(vec![definite(&[2, 3, 3]), t(&[3, 2]), n(true)]),
                any(vec![definite(&[3, 3]), t(&[2, 3]), n(false), n(false), n(true)]),
            ]
        },
    )
    .doc(
        "Return `x` with `input @ x = B`, for triangular matrices `input` `(..., n, n)`, `float32`, `float64` or \
         complex, and `B` `(..., n, k)` of one dtype. With `left=False`, solve `x @ input = B`, for `B` `(..., k, \
         n)`. Only the triangle that `upper` names is read, and with `unitriangular` its diagonal counts as ones. \
         Batches broadcast. A zero on the diagonal is not reported.",
    )
    .scope(Scope::Nn),
    Row::new(
        "triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) \
        -> (Tensor solution, Tensor cloned_coefficient)",
        Tier::Composed,
        |a| triangular_solve(a.tensor(0)?, a.tensor(1)?, a.bool(2)?, a.bool(3)?, a.bool(4)?),
        || vec![any(vec![t(&[3, 2]), definite(&[3, 3])]), any(vec![t(&[3, 2]), definite(&[3, 3]), n(false), n(true)])],
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return `solution`, with `A @ solution = input` for triangular matrices `A` `(..., n, n)`, and a copy of `A`. \
         With `transpose`, `A^T` takes the place of `A`. Only the triangle that `upper` names is read, and with \
         `unitriangular` its diagonal counts as ones. `torch.linalg.solve_triangular` is the newer form.",
    )
    .fields(&["solution", "cloned_coefficient"]),
];
