//! Products and norms of vectors and matrices that need no decomposition.

use crate::op::normalize_dim;
use crate::ops::concat::{cat, flip, stack};
use crate::ops::reduce::{ReduceKind, reduce};
use crate::policy::{Policies, Policy};
use crate::schema::{
    Args, DTypeWithOut, OutDType, Ret, Row, Sample, SampleArg, Scope, Tier, ints, messages, n, positive, t,
};
use crate::{DType, Error, Result, Scalar, Tensor, samples};

fn shape(x: &Tensor) -> Vec<i64> {
    x.dims().iter().map(|&n| n as i64).collect()
}

/// The Kronecker product: every element of `a` times the whole of `b`.
fn kron(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let rank = a.dims().len().max(b.dims().len());
    let padded = |x: &Tensor| -> Vec<i64> {
        let mut s = vec![1; rank - x.dims().len()];
        s.extend(shape(x));
        s
    };
    let (sa, sb) = (padded(a), padded(b));
    let interleave = |f: &dyn Fn(usize) -> [i64; 2]| (0..rank).flat_map(f).collect::<Vec<i64>>();
    let x = a.reshape(&interleave(&|d| [sa[d], 1]))?;
    let y = b.reshape(&interleave(&|d| [1, sb[d]]))?;
    x.mul(&y)?.reshape(&(0..rank).map(|d| sa[d] * sb[d]).collect::<Vec<_>>())
}

/// The cross product of the vectors of three along `dim`.
fn cross(a: &Tensor, b: &Tensor, dim: i64) -> Result<Tensor> {
    if a.dims().len() != b.dims().len() {
        return Err(Error::runtime("linalg.cross: inputs must have the same number of dimensions."));
    }
    let d = normalize_dim(dim, a.dims().len())?;
    let size = |x: &Tensor| x.dims().get(d).copied().unwrap_or(1);
    if size(a) != 3 || size(b) != 3 {
        return Err(Error::runtime(format!(
            "linalg.cross: inputs dimension {dim} must have length 3. Got {} and {}",
            size(a),
            size(b)
        )));
    }
    let d = d as i64;
    let part = |i: i64| -> Result<Tensor> {
        let (j, k) = ((i + 1) % 3, (i + 2) % 3);
        a.select(d, j)?.mul(&b.select(d, k)?)?.sub(&a.select(d, k)?.mul(&b.select(d, j)?)?)
    };
    stack(&[&part(0)?, &part(1)?, &part(2)?], d)
}

/// [`cross`] along a given dimension, or the first of three elements.
fn cross_somewhere(a: &Tensor, b: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    match dim {
        Some(d) => cross(a, b, d),
        None => match a.dims().iter().position(|&n| n == 3) {
            Some(d) => cross(a, b, d as i64),
            None => Err(Error::runtime("no dimension of size 3 in input")),
        },
    }
}

fn expect_float(name: &str, x: &Tensor) -> Result<()> {
    if x.dtype().is_inexact() {
        return Ok(());
    }
    Err(Error::not_implemented(format!(
        "{name}: Expected a floating point or complex tensor as input. Got {}",
        x.dtype().scalar_type()
    )))
}

fn vecdot(x: &Tensor, y: &Tensor, dim: i64) -> Result<Tensor> {
    expect_float("linalg.vecdot", x)?;
    expect_float("linalg.vecdot", y)?;
    if x.dtype() != y.dtype() {
        return Err(Error::runtime(format!(
            "linalg.vecdot: Expected x and y to have the same dtype, but found x of type {} and y of type {} instead",
            x.dtype().scalar_type(),
            y.dtype().scalar_type()
        )));
    }
    x.conj()?.mul(y)?.sum_dim(&[dim], false)
}

/// Powers 0 to `columns - 1` of each element, as a new last dimension.
fn powers(x: &Tensor, columns: i64) -> Result<Tensor> {
    let x = if x.dtype() == DType::Bool { x.to_dtype(DType::I64)? } else { x.clone() };
    let x = if x.dims().is_empty() { x.unsqueeze(0)? } else { x };
    let last = x.dims().len() as i64;
    let mut sizes = shape(&x);
    sizes.push(columns - 1);
    let x = x.unsqueeze(-1)?.expand(&sizes)?;
    sizes[last as usize] = 1;
    let dims: Vec<usize> = sizes.iter().map(|&n| n as usize).collect();
    let one = Tensor::ones(&dims, x.dtype(), x.device())?;
    if columns == 1 {
        return Ok(one);
    }
    // Integers multiply into int64, as products do.
    let p = x.cumprod(last)?;
    cat(&[&one.to_dtype(p.dtype())?, &p], last)
}

fn linalg_vander(x: &Tensor, columns: Option<i64>) -> Result<Tensor> {
    let columns = columns.unwrap_or_else(|| x.dims().last().map_or(1, |&n| n as i64));
    if columns <= 1 {
        return Err(Error::runtime("N must be greater than 1."));
    }
    if x.dtype() == DType::Bool {
        return Err(Error::runtime("linalg.vander: expected a numeric tensor, but got Bool"));
    }
    powers(x, columns)
}

fn vander(x: &Tensor, columns: Option<i64>, increasing: bool) -> Result<Tensor> {
    if x.dims().len() != 1 {
        return Err(Error::runtime("x must be a one-dimensional tensor."));
    }
    let columns = columns.unwrap_or(x.numel() as i64);
    if columns < 0 {
        return Err(Error::runtime("N must be non-negative."));
    }
    let y = powers(x, columns.max(1))?.narrow(1, 0, columns)?;
    if increasing { Ok(y) } else { flip(&y, &[1]) }
}

/// The product of a chain of matrices in the order that takes the fewest multiplications; a vector may stand at either
/// end.
fn multi_dot(xs: &[&Tensor]) -> Result<Tensor> {
    let n = xs.len();
    if n < 2 {
        return Err(Error::runtime(format!("multi_dot(): expected at least 2 tensors but got {n}")));
    }
    let ranked = |x: &Tensor, which: &str| match x.dims().len() {
        1 | 2 => Ok(()),
        r => Err(Error::runtime(format!("multi_dot(): the {which} tensor must be 1D or 2D but got {r}D"))),
    };
    ranked(xs[0], "first")?;
    ranked(xs[n - 1], "last")?;
    let mut m: Vec<Tensor> = Vec::with_capacity(n);
    for (i, x) in xs.iter().enumerate() {
        if x.dtype() != xs[0].dtype() {
            return Err(Error::runtime(format!(
                "multi_dot(): all tensors must have be the same dtype but tensor 0 is {} and tensor {i} {}",
                xs[0].dtype().c_name(),
                x.dtype().c_name()
            )));
        }
        if x.device() != xs[0].device() {
            return Err(Error::runtime(format!(
                "multi_dot(): all tensors must be on the same device but tensor 0 is on {} and tensor {i} on {}",
                xs[0].device(),
                x.device()
            )));
        }
        m.push(match (i, x.dims().len()) {
            (0, 1) => x.unsqueeze(0)?,
            (_, 1) if i == n - 1 => x.unsqueeze(1)?,
            (_, 2) => (*x).clone(),
            (_, r) => return Err(Error::runtime(format!("multi_dot(): tensor {i} must be 2D but got {r}D"))),
        });
    }
    for i in 1..n {
        if m[i - 1].dims()[1] != m[i].dims()[0] {
            return Err(Error::runtime(format!(
                "multi_dot(): tensors {} and {i} with shapes {} and {} cannot be multiplied",
                i - 1,
                xs[i - 1].dims(),
                xs[i].dims()
            )));
        }
    }
    // cost[i][j]: the fewest multiplications for the product of i..=j, which is split after at[i][j].
    let size = |i: usize| if i == 0 { m[0].dims()[0] } else { m[i - 1].dims()[1] } as u128;
    let (mut cost, mut at) = (vec![vec![0u128; n]; n], vec![vec![0; n]; n]);
    for len in 1..n {
        for i in 0..n - len {
            let j = i + len;
            let best = (i..j)
                .map(|k| (cost[i][k] + cost[k + 1][j] + size(i) * size(k + 1) * size(j + 1), k))
                .min()
                .expect("at least one split");
            (cost[i][j], at[i][j]) = best;
        }
    }
    fn product(m: &[Tensor], at: &[Vec<usize>], i: usize, j: usize) -> Result<Tensor> {
        if i == j {
            return Ok(m[i].clone());
        }
        let k = at[i][j];
        product(m, at, i, k)?.mm(&product(m, at, k + 1, j)?)
    }
    let y = product(&m, &at, 0, n - 1)?;
    let y = if xs[n - 1].dims().len() == 1 { y.squeeze(1)? } else { y };
    if xs[0].dims().len() == 1 { y.squeeze(0) } else { Ok(y) }
}

fn chain_matmul(xs: &[&Tensor]) -> Result<Tensor> {
    if let Some(x) = xs.iter().find(|x| x.dims().len() != 2) {
        return Err(Error::runtime(format!("Tensor dimension is {}, expected 2 instead.", x.dims().len())));
    }
    match xs {
        [] => Err(Error::runtime("chain_matmul(): Expected one or more matrices")),
        [x] => Ok((*x).clone()),
        _ => multi_dot(xs),
    }
}

/// `x` multiplied with itself, by repeated squaring.
fn matrix_power(x: &Tensor, p: i64) -> Result<Tensor> {
    let rank = x.dims().len();
    if rank < 2 {
        return Err(Error::runtime("linalg.matrix_power: The input tensor A must have at least 2 dimensions."));
    }
    let (rows, columns) = (x.dims()[rank - 2], x.dims()[rank - 1]);
    if rows != columns {
        return Err(Error::runtime(format!(
            "linalg.matrix_power: A must be batches of square matrices, but they are {rows} by {columns} matrices"
        )));
    }
    if p < 0 {
        expect_float("linalg.matrix_power", x)?;
        return matrix_power(&super::rows::inv("linalg.inv", x)?, p.checked_neg().unwrap_or(i64::MAX));
    }
    if p == 0 {
        let i = crate::ops::indexing::count_up(rows, x.device())?;
        let one = i.unsqueeze(1)?.eq(&i)?.to_dtype(x.dtype())?;
        return crate::ops::pointwise::independent_of(x, one.expand(&shape(x))?.copy()?);
    }
    let (mut y, mut square): (Option<Tensor>, Tensor) = (None, x.clone());
    let mut left = p;
    loop {
        if left & 1 == 1 {
            y = Some(match y {
                None => square.clone(),
                Some(y) => y.matmul(&square)?,
            });
        }
        left >>= 1;
        if left == 0 {
            return y.expect("a positive power has a first factor").copy();
        }
        square = square.matmul(&square)?;
    }
}

// ------------------------------------------------------------------------------------------------ norms

/// The dtype a norm is computed in.
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

/// The order of a norm, which is not complex.
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
                // Of no values the greatest is zero.
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
        // Of no sums the greatest is zero.
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

/// What `fold` makes of the singular values of the matrices that dimensions `a` and `b` hold.
fn singular_norm(
    x: &Tensor,
    a: usize,
    b: usize,
    keep: bool,
    fold: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let y = fold(&super::rows::svdvals(&x.movedim(&[a as i64, b as i64], &[-2, -1])?)?)?.squeeze(-1)?;
    if !keep {
        return Ok(y);
    }
    y.unsqueeze(a.min(b) as i64)?.unsqueeze(a.max(b) as i64)
}

/// `torch.linalg.norm`: of vectors or matrices, by what is given.
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

fn list(shapes: &[&[usize]]) -> SampleArg {
    SampleArg::Tensors(shapes.iter().map(|s| s.to_vec()).collect(), crate::schema::Fill::Normal)
}

const WHOLE: &[DType] = &[DType::I64, DType::F64];

/// Rows of products and norms.
pub const ROWS: &[Row] = &[
    Row::new(
        "kron(Tensor self, Tensor other) -> Tensor",
        Tier::Composed,
        |a| Ok(kron(a.tensor(0)?, a.tensor(1)?)?.into()),
        || vec![Sample::new(vec![t(&[2, 3]), t(&[3, 2])]).dtypes(WHOLE), Sample::new(vec![t(&[2]), t(&[2, 1, 3])])],
    )
    .doc(
        "Return the Kronecker product: each element of `input` times the whole of `other`, as blocks. Sizes multiply \
         dimension by dimension, where the operand of fewer dimensions gets leading sizes of 1. The dtypes are \
         promoted.",
    ),
    Row::new(
        "cross(Tensor self, Tensor other, int? dim=None) -> Tensor",
        Tier::Composed,
        |a| Ok(cross_somewhere(a.tensor(0)?, a.tensor(1)?, a.opt_int(2)?)?.into()),
        || {
            vec![
                Sample::new(vec![t(&[2, 3]), t(&[2, 3])]).dtypes(WHOLE),
                Sample::new(vec![t(&[3, 2]), t(&[3, 1]), n(0)]),
            ]
        },
    )
    .doc(
        "Return the cross products of the vectors of three elements along `dim`. Without `dim`, it is the first \
         dimension of `input` whose size is 3, unlike in `torch.linalg.cross`. The operands have one rank, and their \
         other sizes broadcast.",
    )
    .autocast(Policies::accelerator(Policy::Widest)),
    Row::new(
        "linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
        Tier::Composed,
        |a| Ok(cross(a.tensor(0)?, a.tensor(1)?, a.int(2)?)?.into()),
        samples!([t(&[2, 3]), t(&[1, 3])]),
    )
    .doc(
        "Return the cross products of the vectors of three elements along `dim`, which is the last dimension unless \
         given. The operands have one rank, and their other sizes broadcast. The dtypes are promoted.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::accelerator(Policy::Widest)),
    Row::new(
        "linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
        Tier::Composed,
        |a| Ok(vecdot(a.tensor(0)?, a.tensor(1)?, a.int(2)?)?.into()),
        samples!([t(&[2, 3]), t(&[2, 3])], [t(&[2, 3]), t(&[2, 1]), n(0)]),
    )
    .doc(
        "Return the sums of `conj(x) * y` along `dim`. The operands broadcast, and are floating point or complex of \
         one dtype. Integers raise `NotImplementedError`.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::both(Policy::Lower)),
    Row::new(
        "linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.diagonal(a.int(1)?, a.int(2)?, a.int(3)?)?.into()),
        samples!([t(&[2, 3, 4])], [t(&[3, 4]), n(1)]),
    )
    .doc(
        "Return a view of the diagonals of the matrices that `dim1` and `dim2` of `A` hold, as the last dimension. A \
         positive `offset` counts diagonals above the main one, a negative one diagonals below it. It is \
         `torch.diagonal` with the last two dimensions as the default.",
    )
    .scope(Scope::Nn)
    .no_out(),
    Row::new(
        "linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor",
        Tier::Composed,
        |a| Ok(linalg_vander(a.tensor(0)?, a.opt_int(1)?)?.into()),
        || vec![Sample::new(vec![t(&[2, 3])]).dtypes(WHOLE), Sample::new(vec![t(&[3]), n(5)])],
    )
    .doc(
        "Return the powers 0 to `N - 1` of each element of `x` `(..., n)`, as a new last dimension. `N` is `n` unless \
         given, and must be greater than 1. Integers give `int64`, and `bool` raises `RuntimeError`.",
    )
    .scope(Scope::Nn)
    .no_out(),
    Row::new(
        "vander(Tensor x, int? N=None, bool increasing=False) -> Tensor",
        Tier::Composed,
        |a| Ok(vander(a.tensor(0)?, a.opt_int(1)?, a.bool(2)?)?.into()),
        samples!([t(&[3])], [t(&[3]), n(2), n(true)]),
    )
    .doc(
        "Return the Vandermonde matrix of the vector `x`, `(n, N)`: in each row the powers `N - 1` to 0 of an \
         element, or 0 to `N - 1` with `increasing`. `N` is `n` unless given. Integers give `int64` where `N` is \
         above 1.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "linalg_multi_dot(Tensor[] tensors) -> Tensor",
        Tier::Composed,
        |a| Ok(multi_dot(&a.tensors(0)?)?.into()),
        samples!([list(&[&[2, 3], &[3, 4], &[4, 2]])], [list(&[&[3], &[3, 2], &[2]])]),
    )
    .doc(
        "Return the product of a list of two or more matrices, multiplied in the order that takes the fewest \
         operations. The first tensor may be a vector, which is a row, and the last one too, which is a column. The \
         result lacks their dimensions. All tensors have one dtype and one device.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::both(Policy::Lower)),
    Row::new(
        "chain_matmul(Tensor[] matrices) -> Tensor",
        Tier::Composed,
        |a| Ok(chain_matmul(&a.tensors(0)?)?.into()),
        samples!([list(&[&[2, 3], &[3, 4], &[4, 2]])]),
    )
    .doc(
        "Return the product of matrices as `torch.linalg.multi_dot` does, for matrices only. A single matrix is \
         returned as it is.",
    )
    .scope(Scope::Function)
    .autocast(Policies::both(Policy::Lower)),
    Row::new(
        "linalg_matrix_power(Tensor self, int n) -> Tensor",
        Tier::Composed,
        |a| Ok(matrix_power(a.tensor(0)?, a.int(1)?)?.into()),
        samples!([t(&[2, 3, 3]), n(5)], [t(&[3, 3]), n(-2)]),
    )
    .doc(
        "Return each matrix of `input` `(..., m, m)` multiplied with itself `n` times, by repeated squaring. `n = 0` \
         gives identity matrices. A negative `n` takes powers of the inverse, which exists for floating point and \
         complex dtypes only.",
    )
    .scope(Scope::Nn),
    Row::new(
        "matrix_power(Tensor self, int n) -> Tensor",
        Tier::Composed,
        |a| Ok(matrix_power(a.tensor(0)?, a.int(1)?)?.into()),
        samples!([t(&[3, 3]), n(3)]),
    )
    .doc("Alias of `torch.linalg.matrix_power`."),
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
