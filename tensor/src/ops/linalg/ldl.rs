//! The LDL decomposition of symmetric matrices, and the function that solves with its factors.

use super::{
    any, batch_and, batch_codes, check, count, definite, elements, expect_fit, expect_inexact, expect_square,
    matrix_size, no_gradient, on_host, part, part_mut, same_batch, tuple, with_number, write,
};
use crate::axes::Axes;
use crate::op::{Fused, KernelFn, Outs, Prim, VjpFn, check_same_device};
use crate::schema::{Fill, Row, SampleArg, Scope, Tier, n, t};
use crate::{DType, Dims, Error, Meta, Result, Tensor, dispatch};
use torchtpu_kernels::memory;
use torchtpu_linalg as kernels;

/// `a = L D L^T`, or `L D L^H`, from the lower triangle of `a`, with LAPACK's pivots. `info` is zero for each matrix,
/// or the number of the first block of `D` that is zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LdlFactor {
    /// Whether to use conjugates.
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
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("... _ _ -> ... _ _, ... _, ...", x, y)
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        on_host(Prim::LdlFactor(*self), x)
    }
    fn takes_complex(&self) -> bool {
        true
    }
}

/// `x` with `a x = b`, from the factors of [`LdlFactor`] of `a`, and `b`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LdlSolve {
    /// Whether to use conjugates.
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
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("... _ _, ... _, ... _ k -> ... _ k", x, y).linear(&[0b100])
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        on_host(Prim::LdlSolve(*self), x)
    }
    fn takes_complex(&self) -> bool {
        true
    }
}

fn ldl_factor(x: &Tensor, hermitian: bool) -> Result<Outs> {
    const NAME: &str = "torch.linalg.ldl_factor_ex";
    expect_square(NAME, x, "A")?;
    expect_inexact(NAME, x)?;
    dispatch::call_n(Prim::LdlFactor(LdlFactor { hermitian: hermitian && x.dtype().is_complex() }), &[x])
}

fn ldl_solve(ld: &Tensor, pivots: &Tensor, b: &Tensor, hermitian: bool) -> Result<Tensor> {
    const NAME: &str = "torch.linalg.ldl_solve";
    expect_square(NAME, ld, "LD")?;
    if ld.dtype().is_half() {
        return Err(crate::ops::complex::unsupported("ldl_solve_kernel_cpu", ld.dtype()));
    }
    expect_inexact(NAME, ld)?;
    if b.dims().len() < 2 {
        return Err(Error::runtime(format!(
            "{NAME}: Expected B to have at least 2 dimensions, but it has {} dimensions instead",
            b.dims().len()
        )));
    }
    if pivots.dtype().is_inexact() || pivots.dtype() == DType::Bool {
        return Err(Error::runtime(format!(
            "{NAME}: Expected pivots to be integers. Got {}",
            pivots.dtype().scalar_type()
        )));
    }
    if ld.dtype() != b.dtype() {
        return Err(Error::runtime(format!(
            "ldl_solve: Expected LD and B to have the same dtype, but found LD of type {} and B of type {} instead",
            ld.dtype().scalar_type(),
            b.dtype().scalar_type()
        )));
    }
    let r = ld.dims().len();
    if ld.dims()[..r - 1] != pivots.dims()[..] {
        return Err(Error::runtime(format!(
            "{NAME}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape {} instead",
            pivots.dims()
        )));
    }
    check_same_device(ld, b)?;
    check_same_device(ld, pivots)?;
    expect_fit(NAME, ld, b, true)?;
    let (ld, b) = same_batch(ld, b)?;
    let mut order = ld.dims().to_vec();
    order.pop();
    let pivots = pivots.to_dtype(DType::I32)?.expand_dims(&Dims::new(&order))?;
    let hermitian = hermitian && ld.dtype().is_complex();
    dispatch::call(Prim::LdlSolve(LdlSolve { hermitian }), &[&ld, &pivots, &b])
}

/// The rows of this file.
pub const ROWS: &[Row] = &[
    Row::new(
        "linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)",
        Tier::Composed,
        |a| {
            let y = ldl_factor(a.tensor(0)?, a.bool(1)?)?;
            check(&y[2], |head, code| {
                Error::linalg(format!("torch.linalg.ldl_factor: {head}D[{code},{code}] is zero"))
            })?;
            tuple(y.into_iter().take(2))
        },
        || vec![any(vec![t(&[2, 4, 4])]).no_gradient()],
    )
    .doc(
        "Return the factors of `input = L @ D @ L^T` in one tensor `LD` `(..., n, n)`, and `pivots` `(..., n)`, \
         `int32`, as LAPACK has them. `input` is symmetric, `float32`, `float64` or complex, and its lower triangle \
         is read. With `hermitian`, `L^H` takes the place of `L^T`. A block of `D` that is zero raises \
         `torch.linalg.LinAlgError`. There is no gradient.",
    )
    .scope(Scope::Nn)
    .fields(&["LD", "pivots"]),
    Row::new(
        "linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, \
        Tensor pivots, Tensor info)",
        Tier::Composed,
        |a| {
            let y = ldl_factor(a.tensor(0)?, a.bool(1)?)?;
            if a.bool(2)? {
                check(&y[2], |head, code| {
                    Error::linalg(format!("torch.linalg.ldl_factor_ex: {head}D[{code},{code}] is zero"))
                })?;
            }
            tuple(y)
        },
        || vec![any(vec![t(&[4, 4]), n(true)]).no_gradient()],
    )
    .doc(
        "Return the results of `torch.linalg.ldl_factor`, and `info`, `int32`: 0 for each matrix, or the number, from \
         1, of its first block of `D` that is zero. Such a block raises `torch.linalg.LinAlgError` with \
         `check_errors` only.",
    )
    .scope(Scope::Nn)
    .fields(&["LD", "pivots", "info"]),
    Row::new(
        "linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
        Tier::Composed,
        |a| Ok(ldl_solve(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.bool(3)?)?.into()),
        || vec![any(vec![definite(&[3, 3]), SampleArg::Tensor(vec![3], Fill::Pivots), t(&[3, 2])]).no_gradient()],
    )
    .doc(
        "Return `x` with `A @ x = B`, from the `LD` `(..., n, n)` and `pivots` that `torch.linalg.ldl_factor` made of \
         `A`, for `B` `(..., n, k)`. `hermitian` must be as it was there. Batches of `LD` and `B` broadcast. There is \
         no gradient.",
    )
    .scope(Scope::Nn),
];
