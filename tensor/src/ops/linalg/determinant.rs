//! Determinants and their logarithms.

use super::lu::{LuFactor, lu_solve};
use super::solve::solution;
use super::{
    Pair, adjoint, any, batch_and, count, definite, elements, expect_square_inexact, identity, matrix_size, on_host,
    pair_of, part_mut, two, with_diagonal, with_number, write,
};
use crate::axes::Axes;
use crate::op::{Fused, KernelFn, Outs, Prim, Saves, VjpFn};
use crate::ops::pointwise;
use crate::schema::{Row, Sample, Scope, Tier, t};
use crate::{DType, Meta, Result, Scalar, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_kernels::memory;
use torchtpu_linalg as kernels;
use torchtpu_linalg::Number;

/// The determinant of each matrix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Det;

impl Fused for Det {
    const NAME: &'static str = "linalg_det";
    const KERNEL: Option<KernelFn<Self>> = Some(|_, x, y| {
        let (n, _) = matrix_size(x[0].meta());
        with_number!(x[0].dtype(), T => {
            let matrices = count(x[0].dims());
            let mut det = memory::filled(T::ONE, matrices);
            each_diagonal(&mut elements::<T>(x[0]), matrices, n, |i, pivots, odd| {
                let product = pivots.fold(T::ONE, |p, v| p * v);
                det[i] = if odd { -product } else { product };
            });
            write(&y[0], &det);
        });
        Ok(())
    });
    /// The determinant times the inverse. A zero pivot is replaced by a tiny one, which gives the cofactors.
    const VJP: Option<VjpFn<Self>> = Some(|_, s, g| {
        let a = s.x(0);
        let (lu, pivots) = triangles(a)?;
        let diagonal = lu.diagonal(0, -2, -1)?;
        let differentiated = crate::state::grad_enabled() && (2..=MINORS).contains(&matrix_size(a.meta()).0);
        if differentiated && diagonal.eq_scalar(0.0)?.sum()?.item()?.to_i64() > 0 {
            let g = g.unsqueeze(-1)?.unsqueeze(-1)?;
            return Ok(smallvec![Some(g.mul(&cofactors(a)?.conj()?)?)]);
        }
        let tiny = if a.dtype().to_real() == DType::F64 { f64::EPSILON } else { f32::EPSILON.into() };
        let diagonal = pointwise::select_scalar(&diagonal.eq_scalar(0.0)?, tiny, &diagonal)?;
        let lu = with_diagonal(&lu, &diagonal)?;
        let (n, _) = matrix_size(a.meta());
        let steps = crate::ops::indexing::count_up(n, a.place())?.add_scalar(1)?;
        let odd = pivots.ne(&steps.to_dtype(DType::I32)?)?.to_dtype(DType::I64)?.sum_dim(&[-1], false)?;
        let odd = odd.remainder(&Tensor::number(Scalar::Int(2), DType::I64)?)?.eq_scalar(1)?;
        let product = diagonal.prod_dim(-1, false)?;
        let det = pointwise::select(&odd, &product.neg()?, &product)?;
        let scale = g.mul(&det.conj()?)?;
        let unit = identity(n, n, a)?.expand_dims(a.dims())?;
        let b = unit.mul(&scale.unsqueeze(-1)?.unsqueeze(-1)?)?;
        Ok(smallvec![Some(lu_solve(&lu, &pivots, &b, true, true)?)])
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(x[0].meta().with_dims(batch_and(x[0].dims(), &[])))
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("... _ _ -> ...", x, y)
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        on_host(Prim::Det(*self), x)
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::inputs(1)
    }
    fn takes_complex(&self) -> bool {
        true
    }
}

/// The largest matrix whose cofactors are computed one by one.
const MINORS: usize = 48;

/// The cofactors of each matrix, as determinants: the gradient of a determinant that can be differentiated at singular
/// matrices. They take the memory of `n^4` numbers for each matrix.
fn cofactors(a: &Tensor) -> Result<Tensor> {
    let (n, _) = matrix_size(a.meta());
    let rest: Vec<i64> = memory::collect((0..n).flat_map(|i| (0..n).filter(move |j| *j != i)).map(|j| j as i64));
    let rest = Tensor::from_slice_on(&rest, &[rest.len()], a.place())?;
    let batch: Vec<i64> = a.dims()[..a.dims().len() - 2].iter().map(|n| *n as i64).collect();
    let (n, m) = (n as i64, n as i64 - 1);
    let sizes = |last: [i64; 4]| batch.iter().copied().chain(last).collect::<Vec<i64>>();
    let minors = crate::ops::indexing::index_select(&crate::ops::indexing::index_select(a, -2, &rest)?, -1, &rest)?;
    let minors = minors.reshape(&sizes([n, m, n, m]))?.transpose(-3, -2)?;
    let signs: Vec<f64> = memory::collect((0..n * n).map(|k| if (k / n + k % n) % 2 == 0 { 1.0 } else { -1.0 }));
    let signs = Tensor::from_slice_on(&signs, &[n as usize, n as usize], a.place())?.to_dtype(a.dtype())?;
    dispatch::call(Prim::Det(Det), &[&minors])?.mul(&signs)
}

/// The determinant of each matrix, as its sign and the logarithm of its absolute value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slogdet;

impl Fused for Slogdet {
    const NAME: &'static str = "linalg_slogdet";
    const OUTS: usize = 2;
    const KERNEL: Option<KernelFn<Self>> = Some(|_, x, y| {
        let (n, _) = matrix_size(x[0].meta());
        with_number!(x[0].dtype(), T => {
            let matrices = count(x[0].dims());
            let mut sign = memory::filled(T::ONE, matrices);
            let mut log = memory::filled(<T as Number>::Part::ZERO, matrices);
            each_diagonal(&mut elements::<T>(x[0]), matrices, n, |i, pivots, odd| {
                let mut s = if odd { -T::ONE } else { T::ONE };
                for v in pivots {
                    let size = v.modulus();
                    s *= v.phase();
                    log[i] += size.ln();
                }
                sign[i] = s;
            });
            write(&y[0], &sign);
            write(&y[1], &log);
        });
        Ok(())
    });
    const VJP: Option<VjpFn<Self>> = Some(|_, s, g| {
        let a = s.x(0);
        let (n, _) = matrix_size(a.meta());
        let log = match s.g(1) {
            Some(log) => log.to_dtype(a.dtype())?,
            None => Tensor::zeros_like_meta(g.meta())?,
        };
        let scale = match a.dtype().is_complex() {
            false => log,
            true => {
                let turn = g.conj()?.mul(s.y(0))?.imag()?;
                let none = Tensor::zeros_like_meta(turn.meta())?;
                log.sub(&crate::ops::complex::complex(&none, &turn)?)?
            }
        };
        let unit = identity(n, n, a)?.expand_dims(a.dims())?;
        let b = unit.mul(&scale.unsqueeze(-1)?.unsqueeze(-1)?)?;
        Ok(smallvec![Some(solution(&adjoint(a)?, &b)?)])
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(x[0].meta().with_dims(batch_and(x[0].dims(), &[])))
    }
    fn infer_extra(&self, _: &[&Tensor], first: &Meta, _: usize) -> Meta {
        first.with_dtype(first.dtype.to_real())
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("... _ _ -> ...", x, y)
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        on_host(Prim::Slogdet(*self), x)
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::both(1, 1)
    }
    fn takes_complex(&self) -> bool {
        true
    }
}

/// Triangles and pivots of each matrix, with a gradient through the triangles.
fn triangles(a: &Tensor) -> Result<(Tensor, Tensor)> {
    let mut y = dispatch::call_n(Prim::LuFactor(LuFactor), &[a])?;
    y.truncate(2);
    let pivots = y.pop().expect("three outputs");
    Ok((y.pop().expect("three outputs"), pivots))
}

/// Call `f` with the number of each matrix, the diagonal of its upper factor, and whether its row exchanges are odd.
fn each_diagonal<T: Number>(
    a: &mut [T],
    matrices: usize,
    n: usize,
    mut f: impl FnMut(usize, &mut dyn Iterator<Item = T>, bool),
) {
    let mut pivots = memory::filled(0, n);
    for i in 0..matrices {
        let a = part_mut(a, i, n * n);
        kernels::lu(a, n, n, &mut pivots);
        let odd = pivots.iter().enumerate().filter(|(j, p)| **p != *j as i32 + 1).count() % 2 == 1;
        f(i, &mut (0..n).map(|j| a[j * n + j]), odd);
    }
}

fn det(name: &str, x: &Tensor) -> Result<Tensor> {
    expect_square_inexact(name, x)?;
    dispatch::call(Prim::Det(Det), &[x])
}

fn slogdet(name: &str, x: &Tensor) -> Result<Pair> {
    expect_square_inexact(name, x)?;
    Ok(two(dispatch::call_n(Prim::Slogdet(Slogdet), &[x])?))
}

fn logdet(x: &Tensor) -> Result<Tensor> {
    let (sign, log) = slogdet("logdet", x)?;
    if x.dtype().is_complex() {
        return sign.log()?.add(&log);
    }
    let nan = Tensor::number(Scalar::Float(f64::NAN), x.dtype())?;
    pointwise::select(&sign.eq_scalar(-1.0)?, &nan, &log)
}

/// The rows of this file.
pub const ROWS: &[Row] = &[
    Row::new(
        "linalg_det(Tensor A) -> Tensor",
        Tier::Composed,
        |a| Ok(det("linalg.det", a.tensor(0)?)?.into()),
        || vec![any(vec![t(&[2, 3, 3])]), any(vec![t(&[4, 4])])],
    )
    .doc(
        "Return the determinant of each matrix of `A` `(..., n, n)`, `float32`, `float64` or complex, with the shape \
         of the batch. A singular matrix gives 0.",
    )
    .scope(Scope::Nn),
    Row::new(
        "det(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(det("linalg.det", a.tensor(0)?)?.into()),
        || vec![any(vec![t(&[3, 3])])],
    )
    .doc("Alias of `torch.linalg.det`.")
    .no_out(),
    Row::new(
        "linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)",
        Tier::Composed,
        |a| pair_of(slogdet("linalg.slogdet", a.tensor(0)?)?),
        || vec![any(vec![t(&[2, 3, 3])])],
    )
    .doc(
        "Return the `sign` of the determinant of each matrix of `A` `(..., n, n)`, `float32`, `float64` or complex, \
         and `logabsdet`, the logarithm of its magnitude. A singular matrix gives 0 and `-inf`. The sign of a complex \
         determinant has magnitude 1, and `logabsdet` is real.",
    )
    .scope(Scope::Nn)
    .fields(&["sign", "logabsdet"]),
    Row::new(
        "slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)",
        Tier::Composed,
        |a| pair_of(slogdet("linalg.slogdet", a.tensor(0)?)?),
        || vec![any(vec![t(&[3, 3])])],
    )
    .doc("Alias of `torch.linalg.slogdet`.")
    .fields(&["sign", "logabsdet"]),
    Row::new(
        "logdet(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(logdet(a.tensor(0)?)?.into()),
        || vec![Sample::new(vec![definite(&[3, 3])])],
    )
    .doc(
        "Return the logarithm of the determinant of each matrix of `input` `(..., n, n)`. A singular matrix gives \
         `-inf`, a negative determinant NaN. Complex matrices give the complex logarithm.",
    )
    .no_out(),
];
