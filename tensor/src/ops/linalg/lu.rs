//! The LU decomposition with pivots, and the functions that solve with its factors.

use super::triangular::SolveTriangular;
use super::{
    adjoint, any, batch_and, batch_codes, check, count, definite, different_dtypes, elements, expect_fit,
    expect_inexact, expect_matrices, expect_square, identity, matrix_size, on_host, part, part_mut, same_batch, tuple,
    with_diagonal, with_number, write,
};
use crate::axes::Axes;
use crate::op::{Fused, KernelFn, Outs, Prim, Saves, VjpFn};
use crate::ops::indexing::{tril, triu};
use crate::policy::{Policies, Policy};
use crate::schema::{Fill, Ret, Row, SampleArg, Scope, Tier, n, t};
use crate::{DType, Dims, Error, Meta, Result, Scalar, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_kernels::memory;
use torchtpu_linalg as kernels;

/// `a = P L U`: both triangles in one matrix, without the ones of `L`, and pivots, which count rows from one. `info` is
/// zero for each matrix, or the number of the first pivot that is zero.
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
    /// Let `a1` be the square part of `a`. `P^T da1 = dL U + L dU` splits into triangles between `L^-1` and `U^-1`. The
    /// rest of a wide or tall matrix follows from that part.
    const VJP: Option<VjpFn<Self>> = Some(|_, s, g| {
        let lu = s.y(0);
        let (m, n) = matrix_size(lu.meta());
        let few = m.min(n) as i64;
        let square = lu.narrow(-2, 0, few)?.narrow(-1, 0, few)?;
        let g1 = g.narrow(-2, 0, few)?.narrow(-1, 0, few)?;
        let l = with_ones(&tril(&square, -1)?)?;
        let u = triu(&square, 0)?;
        let solve_l = |b: &Tensor| SolveTriangular { upper: true, unit: true }.call(&adjoint(&l)?, b);
        // x U^-H, as the adjoint of U^-1 x^H.
        let solve_u = |b: &Tensor| adjoint(&SolveTriangular { upper: true, unit: false }.call(&u, &adjoint(b)?)?);
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
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("... _ _ -> ... _ _, ... _, ...", x, y)
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

/// For each row of `P^T a` its row in `a`, from the pivots of a matrix with `rows` rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Permutation {
    /// The number of rows.
    pub rows: usize,
    /// Whether errors name `lu_solve` instead of `lu_unpack`.
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
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("... _ -> ... _", x, y)
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        on_host(Prim::Permutation(*self), x)
    }
}

pub(super) fn permutation(pivots: &Tensor, rows: usize, solving: bool) -> Result<Tensor> {
    dispatch::call(Prim::Permutation(Permutation { rows, solving }), &[pivots])
}

/// `P x`, for the `P` that takes row `i` to row `order[i]`.
pub(super) fn rows_back(x: &Tensor, order: &Tensor) -> Result<Tensor> {
    rows_to(x, &crate::no_grad(|| Ok(crate::ops::sort::sort(order, -1, false, false)?.1))?)
}

/// `P^T x`.
pub(super) fn rows_to(x: &Tensor, order: &Tensor) -> Result<Tensor> {
    crate::ops::indexing::gather(x, -2, &order.unsqueeze(-1)?.expand_dims(x.dims())?)
}

/// `x` with ones on the diagonals.
pub(super) fn with_ones(x: &Tensor) -> Result<Tensor> {
    let (n, _) = matrix_size(x.meta());
    let ones = Tensor::full_meta(&x.meta().with_dims(Dims::new(&[n])), Scalar::Int(1))?;
    with_diagonal(x, &ones)
}

fn lu_factor_ex(name: &str, x: &Tensor, pivot: bool) -> Result<Outs> {
    expect_matrices(name, x, "A")?;
    expect_inexact(name, x)?;
    if !pivot {
        return Err(Error::runtime(format!("{name}: LU without pivoting is not implemented on the CPU")));
    }
    dispatch::call_n(Prim::LuFactor(LuFactor), &[x])
}

fn lu_factor(x: &Tensor, pivot: bool, checked: bool) -> Result<Outs> {
    let y = lu_factor_ex("linalg.lu_factor", x, pivot)?;
    if checked {
        check(&y[2], |head, code| {
            Error::runtime(format!(
                "torch.linalg.lu_factor: {head}U[{code},{code}] is zero and using it on lu_solve would result in a \
                division by zero. If you still want to perform the factorization, consider calling linalg.lu(A, pivot) \
                or linalg.lu_factor_ex(A, pivot)"
            ))
        })?;
    }
    Ok(y)
}

/// The permutation as a matrix.
fn permutation_matrix(pivots: &Tensor, rows: usize, like: &Tensor) -> Result<Tensor> {
    let order = permutation(pivots, rows, false)?;
    let row = crate::ops::indexing::count_up(rows, order.place())?.unsqueeze(-1)?;
    row.eq(&order.unsqueeze(-2)?)?.to_dtype(like.dtype())
}

fn lower_part(lu: &Tensor) -> Result<Tensor> {
    let (m, n) = matrix_size(lu.meta());
    let few = m.min(n);
    let l = tril(&lu.narrow(-1, 0, few as i64)?, -1)?;
    if m == few { with_ones(&l) } else { l.add(&identity(m, few, lu)?) }
}

fn upper_part(lu: &Tensor) -> Result<Tensor> {
    let (m, n) = matrix_size(lu.meta());
    triu(&lu.narrow(-2, 0, m.min(n) as i64)?, 0)
}

fn lu(x: &Tensor, pivot: bool) -> Result<Ret> {
    let y = lu_factor_ex("linalg.lu", x, pivot)?;
    let (m, _) = matrix_size(x.meta());
    tuple([permutation_matrix(&y[1], m, x)?, lower_part(&y[0])?, upper_part(&y[0])?])
}

fn lu_unpack(lu: &Tensor, pivots: &Tensor, data: bool, places: bool) -> Result<Ret> {
    expect_matrices("torch.lu_unpack", lu, "LU_data")?;
    let (m, _) = matrix_size(lu.meta());
    if places && pivots.dtype() != DType::I32 {
        return Err(Error::runtime(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\nNote: this \
            function is intended to be used with the output produced by torch.linalg.lu_factor",
        ));
    }
    let none = || Tensor::zeros(&[0], lu.dtype(), lu.place());
    let p = if places { permutation_matrix(pivots, m, lu)? } else { none()? };
    let (l, u) = if data { (lower_part(lu)?, upper_part(lu)?) } else { (none()?, none()?) };
    tuple([p, l, u])
}

/// `x` with `a x = b`, or `x a = b`, or with `a^H` in place of `a`, from the triangles and pivots of `a`.
pub(super) fn lu_solve(lu: &Tensor, pivots: &Tensor, b: &Tensor, left: bool, adjoined: bool) -> Result<Tensor> {
    const NAME: &str = "linalg.lu_solve";
    expect_square(NAME, lu, "LU")?;
    expect_matrices(NAME, b, "B")?;
    expect_inexact(NAME, lu)?;
    if pivots.dtype() != DType::I32 {
        return Err(Error::runtime(format!("{NAME}: pivots should be a Tensor of scalar type torch.int32")));
    }
    if lu.dtype() != b.dtype() {
        return Err(different_dtypes(NAME, "LU", "B", lu, b));
    }
    let r = lu.dims().len();
    if lu.dims()[..r - 1] != pivots.dims()[..] {
        return Err(Error::runtime(format!(
            "{NAME}: Number of pivots per batch should be same as the dimension of the matrix"
        )));
    }
    expect_fit(NAME, lu, b, left)?;
    if !left {
        return adjoint(&lu_solve(lu, pivots, &adjoint(b)?, true, !adjoined)?);
    }
    let (n, _) = matrix_size(lu.meta());
    let (wide, b) = same_batch(lu, b)?;
    let mut order = wide.dims().to_vec();
    order.pop();
    let order = permutation(pivots, n, true)?.expand_dims(&Dims::new(&order))?;
    let (unit, plain) = (SolveTriangular { upper: false, unit: true }, SolveTriangular { upper: true, unit: false });
    if adjoined {
        let back = adjoint(&wide)?;
        let y = SolveTriangular { upper: false, unit: false }.call(&back, &b)?;
        let y = SolveTriangular { upper: true, unit: true }.call(&back, &y)?;
        return rows_back(&y, &order);
    }
    plain.call(&wide, &unit.call(&wide, &rows_to(&b, &order)?)?)
}

/// The rows of this file.
pub const ROWS: &[Row] = &[
    Row::new(
        "linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
        Tier::Composed,
        |a| tuple(lu_factor(a.tensor(0)?, a.bool(1)?, true)?.into_iter().take(2)),
        || vec![any(vec![t(&[2, 3, 3])]), any(vec![t(&[2, 4])]), any(vec![t(&[4, 2])])],
    )
    .doc(
        "Return the factors of `A = P @ L @ U` in one tensor `LU` `(..., m, n)`, and `pivots` `(..., min(m, n))`, \
         `int32`. `L` lies below the diagonal, without its ones. `pivots[i]` is the row, counted from 1, that row `i` \
         changed places with. `A` is `float32`, `float64` or complex. A zero on the diagonal of `U`, and \
         `pivot=False`, raise `RuntimeError`.",
    )
    .scope(Scope::Nn)
    .fields(&["LU", "pivots"]),
    Row::new(
        "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, \
        Tensor info)",
        Tier::Composed,
        |a| tuple(lu_factor(a.tensor(0)?, a.bool(1)?, a.bool(2)?)?),
        || vec![any(vec![t(&[3, 3])])],
    )
    .doc(
        "Return the results of `torch.linalg.lu_factor`, and `info`, `int32`: 0 for each matrix, or the number, from \
         1, of its first pivot that is zero. Such a pivot raises `RuntimeError` with `check_errors` only.",
    )
    .scope(Scope::Nn)
    .fields(&["LU", "pivots", "info"]),
    Row::new(
        "_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) -> (Tensor LU, Tensor pivots, Tensor \
        info)",
        Tier::Composed,
        |a| tuple(lu_factor(a.tensor(0)?, a.bool(1)?, a.bool(2)?)?),
        || vec![any(vec![t(&[3, 3])])],
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc("Return the results of `torch.linalg.lu_factor_ex`, where `check_errors` is True unless given.")
    .scope(Scope::Function)
    .no_out()
    .fields(&["LU", "pivots", "info"]),
    Row::new(
        "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
        Tier::Composed,
        |a| lu(a.tensor(0)?, a.bool(1)?),
        || vec![any(vec![t(&[2, 3, 3])]), any(vec![t(&[4, 2])])],
    )
    .doc(
        "Return `P` `(..., m, m)`, `L` `(..., m, k)` and `U` `(..., k, n)` with `A = P @ L @ U` and `k = min(m, n)`, \
         for each matrix of `A`, `float32`, `float64` or complex. `P` permutes rows, `L` has ones on its diagonal. A \
         singular matrix is no error, and `pivot=False` raises `RuntimeError`.",
    )
    .scope(Scope::Nn)
    .fields(&["P", "L", "U"]),
    Row::new(
        "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor \
        P, Tensor L, Tensor U)",
        Tier::Composed,
        |a| lu_unpack(a.tensor(0)?, a.tensor(1)?, a.bool(2)?, a.bool(3)?),
        || {
            vec![
                any(vec![t(&[3, 3]), SampleArg::Tensor(vec![3], Fill::Pivots)]),
                any(vec![t(&[2, 3]), SampleArg::Tensor(vec![2], Fill::Pivots), n(true), n(false)]),
            ]
        },
    )
    .doc(
        "Return `P`, `L` and `U` as `torch.linalg.lu` does, from the `LU` and `pivots` of `torch.linalg.lu_factor`. \
         Without `unpack_data`, `L` and `U` have no elements, and without `unpack_pivots` `P` has none. The pivots \
         must be `int32`.",
    )
    .scope(Scope::Function)
    .fields(&["P", "L", "U"]),
    Row::new(
        "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
        Tier::Composed,
        |a| Ok(lu_solve(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.bool(3)?, a.bool(4)?)?.into()),
        || {
            vec![
                any(vec![definite(&[3, 3]), SampleArg::Tensor(vec![3], Fill::Pivots), t(&[3, 2])]),
                any(vec![definite(&[3, 3]), SampleArg::Tensor(vec![3], Fill::Pivots), t(&[2, 3]), n(false), n(true)]),
            ]
        },
    )
    .doc(
        "Return `x` with `A @ x = B`, from the `LU` `(..., n, n)` and `pivots` of `torch.linalg.lu_factor`, for `B` \
         `(..., n, k)`. With `left=False`, solve `x @ A = B`, for `B` `(..., k, n)`. With `adjoint`, `A^H` takes the \
         place of `A`. Batches broadcast, and `B` has the dtype of `LU`.",
    )
    .scope(Scope::Nn),
    Row::new(
        "lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor",
        Tier::Composed,
        |a| Ok(lu_solve(a.tensor(1)?, a.tensor(2)?, a.tensor(0)?, true, false)?.into()),
        || vec![any(vec![t(&[3, 2]), definite(&[3, 3]), SampleArg::Tensor(vec![3], Fill::Pivots)])],
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc("Return `torch.linalg.lu_solve(LU_data, LU_pivots, input)`: `x` with `A @ x = input`."),
];
