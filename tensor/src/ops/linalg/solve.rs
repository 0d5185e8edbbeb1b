//! Systems of equations with a square matrix.

use super::{
    Pair, adjoint, any, batch_and, check, count, different_dtypes, elements, expect_fit, expect_inexact,
    expect_matrices, expect_square, matrix_size, on_host, pair_of, part_mut, same_batch, two, with_number, write,
};
use crate::axes::Axes;
use crate::op::{Fused, KernelFn, Outs, Prim, Saves, VjpFn, same_device};
use crate::policy::{Policies, Policy};
use crate::schema::{Row, Scope, Tier, n, t};
use crate::{DType, Error, Meta, Result, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_kernels::memory;
use torchtpu_linalg as kernels;
use torchtpu_linalg::Number;

/// `x` with `a x = b`. `info` is zero for each matrix, or the number of a pivot that is zero.
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
            solve_in_place(&mut a, &mut b, count(x[1].dims()), n, k, &y[1]);
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
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("... _ _, ... _ _ -> ... _ _, ...", x, y)
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

/// Write the solutions over `b`, and the triangles over `a`. `info` gets the numbers of pivots that are zero.
pub(super) fn solve_in_place<T: Number>(a: &mut [T], b: &mut [T], matrices: usize, n: usize, k: usize, info: &Tensor) {
    let mut pivots = memory::filled(0, n);
    let codes: Vec<i32> = memory::collect((0..matrices).map(|i| {
        let (a, b) = (part_mut(a, i, n * n), part_mut(b, i, n * k));
        let code = kernels::lu(a, n, n, &mut pivots);
        kernels::lu_solve(a, &pivots, b, n, k);
        code
    }));
    write(info, &codes);
}

/// `x` with `a x = b` for equal batches. It is infinite or NaN if `a` is singular.
pub(super) fn solution(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(dispatch::call_n(Prim::Solve(Solve), &[a, b])?.swap_remove(0))
}

/// Whether `b` holds a vector for each matrix of `a`.
pub(super) fn is_vector(a: &Tensor, b: &Tensor) -> bool {
    let r = a.dims().len();
    b.dims().len() == 1 || (b.dims().len() + 1 == r && b.dims()[..] == a.dims()[..r - 1])
}

fn solve_ex(name: &str, a: &Tensor, b: &Tensor, left: bool) -> Result<Pair> {
    expect_square(name, a, "A")?;
    expect_inexact(name, a)?;
    if a.dtype() != b.dtype() {
        return Err(different_dtypes(name, "A", "B", a, b));
    }
    let vector = is_vector(a, b);
    if vector && !left {
        return Err(Error::runtime(format!(
            "{name}: Vector broadcasting of the left hand side is not supported for left=False. In this case {name} is \
            equivalent to B / A.squeeze(-1)"
        )));
    }
    let columns = if vector { b.unsqueeze(-1)? } else { b.clone() };
    expect_matrices(name, &columns, "B")?;
    expect_fit(name, a, &columns, left)?;
    let (a, columns) = same_batch(a, &columns)?;
    let (a, columns) = if left { (a, columns) } else { (a.transpose(-2, -1)?, columns.transpose(-2, -1)?) };
    let (x, info) = two(dispatch::call_n(Prim::Solve(Solve), &[&a, &columns])?);
    let x = if left { x } else { x.transpose(-2, -1)? };
    Ok((if vector { x.squeeze(-1)? } else { x }, info))
}

fn check_solved(info: &Tensor) -> Result<()> {
    check(info, |head, _| {
        Error::linalg(format!("torch.linalg.solve: {head}The solver failed because the input matrix is singular."))
    })
}

pub(super) fn solve(a: &Tensor, b: &Tensor, left: bool) -> Result<Tensor> {
    let (x, info) = solve_ex("linalg.solve", a, b, left)?;
    check_solved(&info)?;
    Ok(x)
}

/// The rows of this file.
pub const ROWS: &[Row] = &[
    Row::new(
        "linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor",
        Tier::Composed,
        |a| Ok(solve(a.tensor(0)?, a.tensor(1)?, a.bool(2)?)?.into()),
        || {
            vec![
                any(vec![t(&[2, 3, 3]), t(&[3, 2])]),
                any(vec![t(&[3, 3]), t(&[3])]),
                any(vec![t(&[3, 3]), t(&[2, 3]), n(false)]),
            ]
        },
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return `x` with `A @ x = B`, for each matrix of `A` `(..., n, n)`, `float32`, `float64` or complex, and `B` \
         of one dtype. `B` is `(..., n, k)`. It holds one vector for each matrix if it is `(n,)`, or has the shape of \
         `A` without the last dimension. With `left=False`, solve `x @ A = B`, for `B` `(..., k, n)`. Batches \
         broadcast, and a singular matrix raises `torch.linalg.LinAlgError`.",
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, \
        Tensor info)",
        Tier::Composed,
        |a| {
            let y = solve_ex("linalg.solve", a.tensor(0)?, a.tensor(1)?, a.bool(2)?)?;
            if a.bool(3)? {
                check_solved(&y.1)?;
            }
            pair_of(y)
        },
        || vec![any(vec![t(&[3, 3]), t(&[3, 2])])],
    )
    .doc(
        "Return the result of `torch.linalg.solve`, and `info`, `int32`: 0 for each matrix, or the number, from 1, of \
         a pivot that is zero. A singular matrix raises `torch.linalg.LinAlgError` with `check_errors` only.",
    )
    .scope(Scope::Nn)
    .fields(&["result", "info"]),
];
