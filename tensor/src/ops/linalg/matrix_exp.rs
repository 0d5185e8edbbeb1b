//! The exponential of a matrix.

use super::{
    adjoint, any, count, elements, expect_inexact, expect_square, matrix_size, on_host, part_mut, with_number, write,
};
use crate::axes::Axes;
use crate::op::{Fused, KernelFn, Outs, Prim, Saves, VjpFn};
use crate::schema::{Row, Scope, Tier, t};
use crate::{DType, Meta, Result, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_linalg as kernels;

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
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("... _ _ -> ... _ _", x, y)
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

fn matrix_exp(x: &Tensor) -> Result<Tensor> {
    expect_square("linalg.matrix_exp", x, "A")?;
    if x.dtype().is_half() {
        return matrix_exp(&x.to_dtype(DType::F32)?)?.to_dtype(x.dtype());
    }
    expect_inexact("linalg.matrix_exp", x)?;
    dispatch::call(Prim::MatrixExp(MatrixExp), &[x])
}

/// The rows of this file.
pub const ROWS: &[Row] = &[
    Row::new(
        "linalg_matrix_exp(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(matrix_exp(a.tensor(0)?)?.into()),
        || vec![any(vec![t(&[2, 3, 3])])],
    )
    .doc(
        "Return the exponential of each matrix of `input` `(..., n, n)`: the sum of `A^k / k!`. It is computed in \
         double precision. `float16` and `bfloat16` are allowed.",
    )
    .scope(Scope::Nn)
    .no_out(),
    Row::new(
        "matrix_exp(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(matrix_exp(a.tensor(0)?)?.into()),
        || vec![any(vec![t(&[3, 3])])],
    )
    .doc("Alias of `torch.linalg.matrix_exp`.")
    .no_out(),
];
