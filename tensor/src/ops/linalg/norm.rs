//! Norms of vectors and matrices.

use super::expect_float;
use super::svd::svdvals;
use crate::op::normalize_dim;
use crate::ops::reduce::{ReduceKind, reduce};
use crate::policy::{Policies, Policy};
use crate::schema::{Args, DTypeWithOut, OutDType, Ret, Row, SampleArg, Scope, Tier, ints, messages, n, positive, t};
use crate::{DType, Error, Result, Scalar, Tensor, samples};

/// `x` in the dtype in which its norm is computed.
fn norm_operand(name: &str, x: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    expect_float(name, x)?;
    match dtype {
        None => Ok(x.clone()),
        Some(d) if !d.is_inexact() => Err(Error::runtime(format!(
            "{name}: dtype should be floating point or complex, but got {}",
            d.scalar_type()
        ))),
        Some(d) if crate::promote_types(x.dtype(), d) != d => Err(Error::runtime(format!(
            "{name}: the dtype of the input ({}) should be convertible without narrowing to the specified dtype ({})",
            x.dtype().scalar_type(),
            d.scalar_type()
        ))),
        Some(d) => x.to_dtype(d),
    }
}

/// The order of a norm, which must not be complex.
fn real_order(p: Scalar) -> Result<Scalar> {
    if p.is_complex() {
        return Err(Error::runtime("linalg.vector_norm: Expected a non-complex scalar as the order of norm."));
    }
    Ok(p)
}

/// `torch.linalg.vector_norm`.
pub fn vector_norm(x: &Tensor, p: Scalar, dims: Option<&[i64]>, keep: bool, dtype: Option<DType>) -> Result<Tensor> {
    let x = norm_operand("linalg.vector_norm", x, dtype)?;
    let order = p.to_f64();
    if x.numel() == 0 && (order < 0.0 || order == f64::INFINITY) {
        let all = dims.is_none_or(<[i64]>::is_empty);
        let shown =
            if order.is_infinite() { if order > 0.0 { "inf" } else { "-inf" }.to_string() } else { order.to_string() };
        if all {
            return Err(Error::runtime(format!(
                "linalg.vector_norm cannot compute the {shown} norm on an empty tensor because the operation does not \
                have an identity"
            )));
        }
        for &d in dims.unwrap_or(&[]) {
            if x.dims().get(normalize_dim(d, x.dims().len())?) == Some(&0) {
                return Err(Error::runtime(format!(
                    "linalg.vector_norm cannot compute the {shown} norm on the dimension {d} because this dimension is \
                    empty and the operation does not have an identity"
                )));
            }
        }
    }
    crate::ops::reduce::norm(&x, p, dims, keep)
}

/// The order of a matrix norm.
#[derive(Clone, Copy)]
pub(super) enum Order<'a> {
    Number(f64),
    Name(&'a str),
}

pub(super) fn matrix_norm(
    x: &Tensor,
    order: Order<'_>,
    dims: &[i64],
    keep: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    const NAME: &str = "linalg.matrix_norm";
    let rank = x.dims().len();
    if rank < 2 {
        return Err(Error::runtime(format!("{NAME}: The input tensor A must have at least 2 dimensions.")));
    }
    let shown = |order: &Order<'_>| match order {
        Order::Number(p) if p.is_infinite() => if *p > 0.0 { "inf" } else { "-inf" }.to_string(),
        Order::Number(p) => p.to_string(),
        Order::Name(s) => s.to_string(),
    };
    let supported = match order {
        Order::Number(p) => [1.0, 2.0, f64::INFINITY].contains(&p.abs()),
        Order::Name(s) => s == "fro" || s == "nuc",
    };
    if !supported {
        return Err(Error::runtime(format!("{NAME}: Order {} not supported.", shown(&order))));
    }
    let &[a, b] = dims else {
        let list: Vec<String> = dims.iter().map(i64::to_string).collect();
        return Err(Error::runtime(format!("{NAME}: dim must be a 2-tuple. Got {}", list.join(" "))));
    };
    let (a, b) = (normalize_dim(a, rank)?, normalize_dim(b, rank)?);
    if a == b {
        return Err(Error::runtime(format!("{NAME}: dims must be different. Got ({}, {})", dims[0], dims[1])));
    }
    let x = norm_operand(NAME, x, dtype)?;
    let (sum_over, fold_over) = match order {
        Order::Name("fro") => return crate::ops::reduce::norm(&x, Scalar::Int(2), Some(&[a as i64, b as i64]), keep),
        Order::Number(p) if p.abs() == 1.0 => (a, b),
        Order::Number(p) if p.is_infinite() => (b, a),
        Order::Number(p) if p > 0.0 => {
            return singular_norm(&x, a, b, keep, |s| match s.dims().last() {
                // Without values, the largest counts as zero.
                Some(0) => s.sum_dim(&[-1], true),
                _ => s.amax(&[-1], true),
            });
        }
        Order::Number(_) => return singular_norm(&x, a, b, keep, |s| s.amin(&[-1], true)),
        Order::Name(_) => return singular_norm(&x, a, b, keep, |s| s.sum_dim(&[-1], true)),
    };
    let sums = x.abs()?.sum_dim(&[sum_over as i64], true)?;
    let least = matches!(order, Order::Number(p) if p < 0.0);
    let fold = match least {
        true => ReduceKind::Min,
        // Without sums, the largest counts as zero.
        false if x.dims()[fold_over] == 0 => ReduceKind::Sum,
        false => ReduceKind::Max,
    };
    let y = reduce(fold, &sums, Some(&[fold_over as i64]), true)?;
    if keep {
        return Ok(y);
    }
    let (low, high) = (a.min(b) as i64, a.max(b) as i64);
    y.squeeze(high)?.squeeze(low)
}

/// The singular values, reduced by `fold`, of the matrices in dimensions `a` and `b`.
fn singular_norm(
    x: &Tensor,
    a: usize,
    b: usize,
    keep: bool,
    fold: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let y = fold(&svdvals(&x.movedim(&[a as i64, b as i64], &[-2, -1])?)?)?.squeeze(-1)?;
    if !keep {
        return Ok(y);
    }
    y.unsqueeze(a.min(b) as i64)?.unsqueeze(a.max(b) as i64)
}

/// `torch.linalg.norm`: of vectors or matrices, depending on the arguments.
fn linalg_norm(
    x: &Tensor,
    order: Option<Order<'_>>,
    dims: Option<&[i64]>,
    keep: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    let rank = x.dims().len();
    if let Some(d) = dims.filter(|d| d.len() != 1 && d.len() != 2) {
        return Err(Error::runtime(format!(
            "linalg.norm: If dim is specified, it must be of length 1 or 2. Got {d:?}"
        )));
    }
    match (order, dims) {
        (None, _) => vector_norm(x, Scalar::Int(2), dims, keep, dtype),
        (Some(_), None) if rank != 1 && rank != 2 => Err(Error::runtime(format!(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {rank}D."
        ))),
        (Some(Order::Number(p)), d) if d.map_or(rank, <[i64]>::len) == 1 => {
            vector_norm(x, Scalar::Float(p), d, keep, dtype)
        }
        (Some(order), d) => {
            let both: Vec<i64> = d.map_or_else(|| (0..rank as i64).collect(), <[i64]>::to_vec);
            matrix_norm(x, order, &both, keep, dtype)
        }
    }
}

fn norm_row(a: &Args<'_>, order: Option<Order<'_>>) -> Result<Ret> {
    Ok(linalg_norm(a.tensor(0)?, order, a.opt_ints(2)?, a.bool(3)?, a.opt_dtype(4)?)?.into())
}

/// The rows of this file.
pub const ROWS: &[Row] = &[
    Row::new(
        "linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? \
        dtype=None) -> Tensor",
        Tier::Composed,
        |a| {
            Ok(vector_norm(a.tensor(0)?, real_order(a.scalar(1)?)?, a.opt_ints(2)?, a.bool(3)?, a.opt_dtype(4)?)?
                .into())
        },
        samples!([t(&[2, 3]), n(2), ints(&[0])], [positive(&[2, 3]), n(f64::INFINITY)]),
    )
    .doc(
        "Return the norm `sum(abs(x) ** ord) ** (1 / ord)` over the dimensions `dim`, or over all elements. `ord` may \
         be `inf` (largest magnitude), `-inf` (smallest) or 0 (number of elements that are not zero). `input` is \
         floating point or complex, and the result is real. `dtype` is the dtype to compute in, and may not be \
         narrower. For an empty dimension, `inf` and negative orders raise `RuntimeError`.",
    )
    .scope(Scope::Nn)
    .dtype_with_out(DTypeWithOut::MustMatch(messages::expected_out))
    .out_dtype(OutDType::OfResult(messages::expected_out))
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new(
        "linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2,-1], bool keepdim=False, *, ScalarType? dtype=None) \
        -> Tensor",
        Tier::Composed,
        |a| Ok(matrix_norm(a.tensor(0)?, Order::Number(a.float(1)?), a.ints(2)?, a.bool(3)?, a.opt_dtype(4)?)?.into()),
        samples!([t(&[2, 3, 4]), n(1)], [t(&[2, 3, 4]), n(f64::NEG_INFINITY), ints(&[0, 2]), n(true)]),
    )
    .doc(
        "Return a norm of the matrices that the two dimensions `dim` of `input` hold. `ord` is `\"fro\"` for the root \
         of the sum of squares, or `\"nuc\"` for the sum of the singular values. It is 1 or -1 for the largest or \
         smallest sum of magnitudes in a column, `inf` or `-inf` for that in a row, and 2 or -2 for the largest or \
         smallest singular value. `input` is floating point or complex, and the result is real.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new(
        "linalg_matrix_norm.str_ord(Tensor self, str ord='fro', int[] dim=[-2,-1], bool keepdim=False, *, ScalarType? \
        dtype=None) -> Tensor",
        Tier::Composed,
        |a| Ok(matrix_norm(a.tensor(0)?, Order::Name(a.str(1)?), a.ints(2)?, a.bool(3)?, a.opt_dtype(4)?)?.into()),
        samples!([t(&[2, 3, 4])]),
    )
    .scope(Scope::Nn)
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new(
        "linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) \
        -> Tensor",
        Tier::Composed,
        |a| norm_row(a, a.opt_scalar(1)?.map(|p| real_order(p).map(|p| Order::Number(p.to_f64()))).transpose()?),
        samples!([t(&[2, 3])], [t(&[2, 3]), n(1)], [positive(&[2, 3]), n(3), ints(&[1])]),
    )
    .doc(
        "Return the norm of vectors or matrices. Without `ord` it is the 2-norm of all elements, or of those along \
         `dim`. With `ord`, one dimension (a vector, or a `dim` of one) takes `torch.linalg.vector_norm` and two take \
         `torch.linalg.matrix_norm`. An input of other ranks needs `dim` then.",
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> \
        Tensor",
        Tier::Composed,
        |a| norm_row(a, Some(Order::Name(a.str(1)?))),
        samples!([t(&[2, 3]), SampleArg::Str("fro")]),
    )
    .scope(Scope::Nn),
    Row::new(
        "frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
        Tier::Composed,
        |a| Ok(vector_norm(a.tensor(0)?, Scalar::Int(2), Some(a.ints(1)?), a.bool(2)?, None)?.into()),
        samples!([t(&[2, 3]), ints(&[0, 1])]),
    )
    .doc(
        "Return the root of the sum of squared magnitudes over the dimensions `dim`. It is `torch.linalg.vector_norm` \
         with `ord=2`.",
    )
    .scope(Scope::Function)
    .autocast(Policies::accelerator(Policy::Full)),
];

/// Rows of the nuclear norm, which come after the others in the table.
pub const NUCLEAR_ROWS: &[Row] = &[
    Row::new(
        "nuclear_norm(Tensor self, bool keepdim=False) -> Tensor",
        Tier::Composed,
        |a| Ok(matrix_norm(a.tensor(0)?, Order::Name("nuc"), &[-2, -1], a.bool(1)?, None)?.into()),
        samples!([t(&[3, 4])]),
    )
    .doc(
        "Return the sum of the singular values of the matrices that the last two dimensions of `input`, or `dim`, \
         hold. It is `torch.linalg.matrix_norm` with `ord=\"nuc\"`.",
    )
    .scope(Scope::Function),
    Row::new(
        "nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> Tensor",
        Tier::Composed,
        |a| Ok(matrix_norm(a.tensor(0)?, Order::Name("nuc"), a.ints(1)?, a.bool(2)?, None)?.into()),
        samples!([t(&[3, 2, 4]), ints(&[0, 2])]),
    )
    .scope(Scope::Function),
];
