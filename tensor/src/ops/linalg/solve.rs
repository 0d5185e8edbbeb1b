//! Systems of equations, inverses and determinants.

use super::{
    adjoint, batch_and, count, elements, expect_inexact, expect_square, identity, matrix_size, on_host, part, part_mut,
    with_diagonal, with_number, write,
};
use crate::op::{Func, Fused, KernelFn, LowerFn, Outs, Prim, Saves, Value, VjpFn, same_device};
use crate::ops::indexing::{tril, triu};
use crate::{DType, Error, Meta, Result, Scalar, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_kernels::memory;
use torchtpu_linalg as kernels;
use torchtpu_linalg::Number;

/// `x` of `a x = b` for triangles `a`.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | a | `[.., n, n]`, of which one triangle is read | `float32`, `float64` or complex (C1) |
/// | b | `[.., n, k]`, with the same batch (C2) | that of a |
/// | x | that of b | that of a |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SolveTriangular {
    /// The upper triangle.
    pub upper: bool,
    /// With ones on the diagonal, whatever is there.
    pub unit: bool,
}

impl SolveTriangular {
    /// # Errors
    /// Sizes or dtypes that do not fit.
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

/// `x` of `l l^H x = b`, or of `l^H l x = b` with an upper factor.
///
/// The triangle alone is read. The gradient is that of a factor with all its elements, as PyTorch defines it.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | b | `[.., n, k]` | `float32`, `float64` or complex |
/// | l | `[.., n, n]`, with the same batch | that of b |
/// | x | that of b | that of b |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CholeskySolve {
    /// With an upper factor.
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

/// `x` of `a x = b`, and per matrix zero, or the number of a pivot that is zero.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | a | `[.., n, n]` | `float32`, `float64` or complex |
/// | b | `[.., n, k]`, with the same batch | that of a |
/// | x | that of b | that of a |
/// | info | the batch | `int32` |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Solve;

impl Fused for Solve {
    const NAME: &'static str = "linalg_solve";
    const OUTS: usize = 2;
    const DIFFERENTIABLE: u64 = 1;
    const KERNEL: Option<KernelFn<Self>> = Some(|_, x, y| {
        let (n, k) = matrix_size(x[1].meta());
        with_number!(x[0].dtype(), T => {
            let (mut a, mut b) = (elements::<T>(x[0]), elements::<T>(x[1]));
            solve(&mut a, &mut b, count(x[1].dims()), n, k, &y[1]);
            write(&y[0], &b);
        });
        Ok(())
    });
    const VJP: Option<VjpFn<Self>> = Some(|_, s, g| {
        let gb = solution(&adjoint(s.x(0))?, g)?;
        let ga = if s.needs(0) { Some(gb.matmul(&adjoint(s.y(0))?)?.neg()?) } else { None };
        Ok(smallvec![ga, Some(gb)])
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        same_device(x)?;
        Ok(x[1].meta().with_dims(*x[1].dims()))
    }
    fn infer_extra(&self, x: &[&Tensor], first: &Meta, _: usize) -> Meta {
        first.with_dims(batch_and(x[0].dims(), &[])).with_dtype(DType::I32)
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        on_host(Prim::Solve(*self), x)
    }
    fn saves(&self, needs: u64) -> Saves {
        Saves::both(0b1, if needs & 1 != 0 { 1 } else { 0 })
    }
    fn takes_complex(&self) -> bool {
        true
    }
}

/// Solutions in place of `b`; `a` becomes triangles. Pivots that are zero are told to `info`.
fn solve<T: Number>(a: &mut [T], b: &mut [T], matrices: usize, n: usize, k: usize, info: &Tensor) {
    let mut pivots = memory::filled(0, n);
    let codes: Vec<i32> = memory::collect((0..matrices).map(|i| {
        let (a, b) = (part_mut(a, i, n * n), part_mut(b, i, n * k));
        let code = kernels::lu(a, n, n, &mut pivots);
        kernels::lu_solve(a, &pivots, b, n, k);
        code
    }));
    write(info, &codes);
}

/// `x` of `a x = b` for equal batches; infinite or NaN where `a` is singular.
pub(super) fn solution(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(dispatch::call_n(Prim::Solve(Solve), &[a, b])?.swap_remove(0))
}

/// The inverse of each matrix, and zero, or the number of a pivot that is zero.
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
            solve(&mut a, &mut b, matrices, n, n, &y[1]);
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

/// Triangles and pivots of each matrix, with a gradient through the triangles.
fn triangles(a: &Tensor) -> Result<(Tensor, Tensor)> {
    let mut y = dispatch::call_n(Prim::LuFactor(super::LuFactor), &[a])?;
    y.truncate(2);
    let pivots = y.pop().expect("three outputs");
    Ok((y.pop().expect("three outputs"), pivots))
}

/// Calls `f` with each matrix's number, its pivots' product and the sign that changing rows gives.
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

/// The determinant of each matrix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Det;

/// The largest matrix whose cofactors are computed one by one.
const MINORS: usize = 48;

/// The cofactors of each matrix, as determinants: the gradient of a determinant that can be differentiated at singular
/// matrices. They take the memory of `n^4` numbers a matrix.
fn cofactors(a: &Tensor) -> Result<Tensor> {
    let (n, _) = matrix_size(a.meta());
    let rest: Vec<i64> = memory::collect((0..n).flat_map(|i| (0..n).filter(move |j| *j != i)).map(|j| j as i64));
    let rest = Tensor::from_slice_on(&rest, &[rest.len()], a.device())?;
    let batch: Vec<i64> = a.dims()[..a.dims().len() - 2].iter().map(|n| *n as i64).collect();
    let (n, m) = (n as i64, n as i64 - 1);
    let sizes = |last: [i64; 4]| batch.iter().copied().chain(last).collect::<Vec<i64>>();
    let minors = crate::ops::indexing::index_select(&crate::ops::indexing::index_select(a, -2, &rest)?, -1, &rest)?;
    let minors = minors.reshape(&sizes([n, m, n, m]))?.transpose(-3, -2)?;
    let signs: Vec<f64> = memory::collect((0..n * n).map(|k| if (k / n + k % n) % 2 == 0 { 1.0 } else { -1.0 }));
    let signs = Tensor::from_slice_on(&signs, &[n as usize, n as usize], a.device())?.to_dtype(a.dtype())?;
    dispatch::call(Prim::Det(Det), &[&minors])?.mul(&signs)
}

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
    /// The determinant times the inverse; a pivot of zero is taken for a tiny one, which gives the cofactors.
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
        let diagonal = crate::ops::pointwise::select_scalar(&diagonal.eq_scalar(0.0)?, tiny, &diagonal)?;
        let lu = with_diagonal(&lu, &diagonal)?;
        let (n, _) = matrix_size(a.meta());
        let steps = crate::ops::indexing::count_up(n, a.device())?.add_scalar(1)?;
        let odd = pivots.ne(&steps.to_dtype(DType::I32)?)?.to_dtype(DType::I64)?.sum_dim(&[-1], false)?;
        let odd = odd.remainder(&Tensor::number(Scalar::Int(2), DType::I64)?)?.eq_scalar(1)?;
        let product = diagonal.prod_dim(-1, false)?;
        let det = crate::ops::pointwise::select(&odd, &product.neg()?, &product)?;
        let scale = g.mul(&det.conj()?)?;
        let unit = identity(n, n, a)?.expand_dims(a.dims())?;
        let b = unit.mul(&scale.unsqueeze(-1)?.unsqueeze(-1)?)?;
        Ok(smallvec![Some(super::rows::lu_solve(&lu, &pivots, &b, true, true)?)])
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(x[0].meta().with_dims(batch_and(x[0].dims(), &[])))
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
                    s = if size == 0.0 { T::ZERO } else { s * (v / T::real(size)) };
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
