//! Products of vectors and matrices.

use super::expect_float;
use super::inverse::inv;
use crate::op::normalize_dim;
use crate::ops::concat::{cat, flip, stack};
use crate::policy::{Policies, Policy};
use crate::schema::{Row, Sample, SampleArg, Scope, Tier, n, t, widely};
use crate::{DType, Error, Result, Tensor, samples};

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

/// The cross product of the vectors of three elements along `dim`.
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

/// [`cross`] along a given dimension, or the first one of size three.
fn cross_somewhere(a: &Tensor, b: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    match dim {
        Some(d) => cross(a, b, d),
        None => match a.dims().iter().position(|&n| n == 3) {
            Some(d) => cross(a, b, d as i64),
            None => Err(Error::runtime("no dimension of size 3 in input")),
        },
    }
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
    let one = Tensor::ones(&dims, x.dtype(), x.place())?;
    if columns == 1 {
        return Ok(one);
    }
    // Integers multiply in int64, as products do.
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

/// The product of a chain of matrices, in the order with the fewest multiplications. The first and last operand may be
/// vectors.
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
        if x.place() != xs[0].place() {
            return Err(Error::runtime(format!(
                "multi_dot(): all tensors must be on the same device but tensor 0 is on {} and tensor {i} on {}",
                xs[0].place(),
                x.place()
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

/// `x` multiplied by itself, by repeated squaring.
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
        return matrix_power(&inv("linalg.inv", x)?, p.checked_neg().unwrap_or(i64::MAX));
    }
    if p == 0 {
        let i = crate::ops::indexing::count_up(rows, x.place())?;
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

fn list(shapes: &[&[usize]]) -> SampleArg {
    SampleArg::Tensors(shapes.iter().map(|s| s.to_vec()).collect(), crate::schema::Fill::Normal)
}

const WHOLE: &[DType] = &[DType::I64, DType::F64];

/// The rows of this file.
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
        |a| widely(a, |a| Ok(cross_somewhere(a.tensor(0)?, a.tensor(1)?, a.opt_int(2)?)?.into())),
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
        |a| widely(a, |a| Ok(cross(a.tensor(0)?, a.tensor(1)?, a.int(2)?)?.into())),
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
        |a| widely(a, |a| Ok(vecdot(a.tensor(0)?, a.tensor(1)?, a.int(2)?)?.into())),
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
];
