//! Distances between vectors: of pairs, of all pairs of two sets, and of all pairs of one set.

use crate::axes::{Axes, Combine};
use crate::op::{F64, Fused, KernelFn, Outs, Prim, broadcast_dims, same_device};
use crate::ops::indexing::index_select;
use crate::ops::pointwise::clip::clamp;
use crate::ops::pointwise::{safe_sqrt, select_scalar};
use crate::policy::{Policies, Policy};
use crate::schema::{Operand, Row, Sample, Scope, Tier, n, positive, t, widely};
use crate::types::compute::{narrowed, widened};
use crate::{DType, Dims, Error, Meta, Result, Scalar, Tensor, dispatch, samples};
use smallvec::smallvec;
use torchtpu_kernels::distance as kernels;
use torchtpu_kernels::memory;

/// The `p`-norm of every difference of a row of `a` and a row of `b`.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | a | `[batch, m, k]` | `float32` or `float64` |
/// | b | `[batch, n, k]` | as a |
/// | y | `[batch, m, n]` | as a |
///
/// If two rows are equal, the gradient is zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CDist {
    /// The order `p` of the norm.
    pub p: F64,
}

impl Fused for CDist {
    const NAME: &'static str = "cdist";
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        kernels::cdist(&x[0].view(), &x[1].view(), o.p.get(), &mut y[0].view_mut());
        Ok(())
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (a, b) = (x[0].dims(), x[1].dims());
        Ok(Meta { dims: Dims::new(&[a[0], a[1], b[1]]), dtype: x[0].dtype(), place: same_device(x)? })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        // For `p = 1`, distances of parts add up. For infinity, the greatest one is the distance.
        let text = |k| format!("b m {k}, b n {k} -> b m n");
        match self.p.get() {
            1.0 => Axes::parse(&text("k"), x, y).reduces("k", Combine::Sum),
            f64::INFINITY => Axes::parse(&text("k"), x, y).reduces("k", Combine::Max),
            _ => Axes::parse(&text("_"), x, y),
        }
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        Ok(smallvec![norm(&x[0].unsqueeze(2)?.sub(&x[1].unsqueeze(1)?)?, self.p.get(), false)?])
    }
}

/// The `p`-norm along the last dimension. The gradient for a vector of zeros is zero.
fn norm(x: &Tensor, p: f64, keep: bool) -> Result<Tensor> {
    let last = [-1];
    let rank = x.dims().len();
    if x.dims().last() == Some(&0) {
        let mut dims = *x.dims();
        dims.set(rank - 1, 1);
        let y = x.sum_dim(&last, true)?.reshape_dims(dims)?;
        return if keep { Ok(y) } else { y.squeeze(-1) };
    }
    match p {
        0.0 => {
            let count = x.ne_scalar(0.0)?.to_dtype(x.dtype())?;
            crate::ops::pointwise::independent_of(x, count)?.sum_dim(&last, keep)
        }
        1.0 => x.abs()?.sum_dim(&last, keep),
        2.0 => safe_sqrt(&x.square()?.sum_dim(&last, keep)?),
        f64::INFINITY => x.abs()?.amax(&last, keep),
        p => {
            let power = |x: &Tensor, p: f64| -> Result<Tensor> {
                let zero = x.eq_scalar(0.0)?;
                select_scalar(&zero, 0.0, &select_scalar(&zero, 1.0, x)?.pow_scalar(p)?)
            };
            power(&power(&x.abs()?, p)?.sum_dim(&last, keep)?, 1.0 / p)
        }
    }
}

/// `sqrt(|a|^2 - 2 a b + |b|^2)`: a product of matrices instead of all differences.
fn euclidean(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let squares = |t: &Tensor| t.square()?.sum_dim(&[-1], true);
    let sum = squares(a)?.add(&squares(b)?.transpose(1, 2)?)?;
    let s = sum.sub(&a.bmm(&b.transpose(1, 2)?)?.mul_scalar(2.0)?)?;
    safe_sqrt(&clamp(&s, Some(Operand::Scalar(Scalar::Float(0.0))), None)?)
}

/// The number of rows from which a product of matrices is worthwhile, unless the caller refuses it.
const MANY: usize = 25;

/// `torch.cdist`. With a `mode` of 1, `p = 2` always uses the product of matrices, with 2 never.
///
/// # Errors
/// `Runtime` for sizes, dtypes or a `p` that do not fit.
pub fn cdist(a: &Tensor, b: &Tensor, p: f64, mode: Option<i64>) -> Result<Tensor> {
    for (t, name) in [(a, "X1"), (b, "X2")] {
        if !t.dtype().is_float() {
            return Err(Error::runtime(format!(
                "cdist only supports floating-point dtypes, {name} got: {}",
                t.dtype().scalar_type()
            )));
        }
    }
    for (t, name) in [(a, "X1"), (b, "X2")] {
        if t.dims().len() < 2 {
            return Err(Error::runtime(format!(
                "cdist only supports at least 2D tensors, {name} got: {}D",
                t.dims().len()
            )));
        }
    }
    let (da, db) = (a.dims(), b.dims());
    let (k, kb) = (da[da.len() - 1], db[db.len() - 1]);
    if k != kb {
        return Err(Error::runtime(format!("X1 and X2 must have the same number of columns. X1: {k} X2: {kb}")));
    }
    check_p("cdist", p)?;
    let mode = mode.unwrap_or(0);
    if !(0..=2).contains(&mode) {
        return Err(Error::runtime(format!("possible modes: 0, 1, 2, but was: {mode}")));
    }
    check_precision("cdist", a)?;
    if a.dtype() != b.dtype() {
        return Err(Error::runtime(format!(
            "expected scalar type {} but found {}",
            a.dtype().scalar_type(),
            b.dtype().scalar_type()
        )));
    }
    let lead = |d: &Dims| -> Dims { d[..d.len() - 2].iter().copied().collect() };
    let batch = broadcast_dims(&lead(da), &lead(db))?;
    let (m, n) = (da[da.len() - 2], db[db.len() - 2]);
    let three = |t: &Tensor, rows: usize| -> Result<Tensor> {
        let full: Dims = batch.iter().copied().chain([rows, k]).collect();
        t.expand_dims(&full)?.reshape_dims(Dims::new(&[batch.numel(), rows, k]))
    };
    let (a3, b3) = (three(a, m)?, three(b, n)?);
    let many = mode == 1 || (mode == 0 && (m > MANY || n > MANY));
    let y = if p == 2.0 && many {
        euclidean(&a3, &b3)?
    } else {
        dispatch::call(Prim::CDist(CDist { p: F64::new(p) }), &[&a3, &b3])?
    };
    y.reshape_dims(batch.iter().copied().chain([m, n]).collect())
}

fn check_p(op: &str, p: f64) -> Result<()> {
    if p >= 0.0 {
        return Ok(());
    }
    Err(Error::runtime(format!("{op} only supports non-negative p values")))
}

fn check_precision(op: &str, x: &Tensor) -> Result<()> {
    if matches!(x.dtype(), DType::F32 | DType::F64) {
        return Ok(());
    }
    Err(Error::not_implemented(format!("\"{op}\" not implemented for '{}'", x.dtype().scalar_type())))
}

/// `torch.pdist`: distances between each row and all later ones.
///
/// # Errors
/// `Runtime` for an input that is no matrix of floating point, or a negative `p`.
pub fn pdist(x: &Tensor, p: f64) -> Result<Tensor> {
    let d = *x.dims();
    if d.len() != 2 {
        return Err(Error::runtime(format!("pdist only supports 2D tensors, got: {}D", d.len())));
    }
    if !x.dtype().is_float() {
        return Err(Error::runtime("pdist only supports floating-point dtypes"));
    }
    check_p("pdist", p)?;
    check_precision("pdist", x)?;
    let pairs = || (0..d[0] as i64).flat_map(|i| (i + 1..d[0] as i64).map(move |j| (i, j)));
    let (first, second): (Vec<i64>, Vec<i64>) =
        (memory::collect(pairs().map(|p| p.0)), memory::collect(pairs().map(|p| p.1)));
    let pick = |at: &[i64]| index_select(x, 0, &Tensor::from_slice_on(at, &[at.len()], x.place())?);
    norm(&pick(&first)?.sub(&pick(&second)?)?, p, false)
}

/// `torch.pairwise_distance`: the `p`-norm of `a - b + eps` along the last dimension.
///
/// # Errors
/// `Runtime` when sizes do not broadcast.
pub fn pairwise_distance(a: &Tensor, b: &Tensor, p: f64, eps: f64, keep: bool) -> Result<Tensor> {
    let d = a.sub(b)?.add_scalar(eps)?;
    let d = if d.dtype().is_complex() { d.abs()? } else { d };
    let dtype = d.dtype();
    if p == f64::NEG_INFINITY {
        return d.abs()?.amin(&[-1], keep);
    }
    narrowed(norm(&widened(&d)?, p, keep)?, dtype)
}

/// Rows of the distances.
pub const ROWS: &[Row] = &[
    Row::new(
        "pairwise_distance(Tensor x1, Tensor x2, float p=2, float eps=1e-06, bool keepdim=False) -> Tensor",
        Tier::Composed,
        |a| {
            widely(a, |a| {
                Ok(pairwise_distance(a.tensor(0)?, a.tensor(1)?, a.float(2)?, a.float(3)?, a.bool(4)?)?.into())
            })
        },
        samples!(
            [t(&[2, 3]), positive(&[2, 3])],
            [t(&[2, 3]), positive(&[3]), n(3.0), n(0.5), n(true)],
            [t(&[2, 3]), positive(&[2, 3]), n(f64::INFINITY)]
        ),
    )
    .doc(
        "Return the `p`-norm of `x1 - x2 + eps` along the last dimension. The operands broadcast, and integers give \
         the default dtype. The result loses the last dimension, or has size 1 there with `keepdim`. `p = inf` takes \
         the largest magnitude, `p = -inf` the smallest, and `p = 0` counts the elements that are not zero.",
    )
    .no_out()
    .scope(Scope::Function)
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new(
        "cdist(Tensor x1, Tensor x2, float p=2, int? compute_mode=None) -> Tensor",
        Tier::Fused,
        |a| Ok(cdist(a.tensor(0)?, a.tensor(1)?, a.float(2)?, a.opt_int(3)?)?.into()),
        || {
            let mut v = vec![
                Sample::new(vec![t(&[2, 3, 4]), positive(&[5, 4])]).dtypes(&[DType::F64]),
                Sample::new(vec![t(&[3, 4]), positive(&[2, 4]), n(2.0), n(1)]),
                Sample::new(vec![t(&[3, 0]), positive(&[2, 0])]),
            ];
            for p in [0.0, 0.5, 1.0, 3.0, f64::INFINITY] {
                v.push(Sample::new(vec![t(&[3, 4]), positive(&[2, 4]), n(p)]));
            }
            v
        },
    )
    .doc(
        "Return the `p`-norm of the difference of each row of `x1` and each row of `x2`: `(..., m, k)` and `(..., n, \
         k)` give `(..., m, n)`. Leading dimensions broadcast, and both operands are `float32` or `float64`, of one \
         dtype. `p` is 0 (count of differing elements) or more, and may be `inf`. For `p = 2`, `compute_mode` says \
         whether a product of matrices is used: 0 when `m` or `n` is above 25, 1 always, 2 never. The product is \
         faster, and less exact for rows that are close.",
    )
    .no_out()
    .scope(Scope::Function)
    .autocast(Policies::both(Policy::Full)),
    Row::new(
        "pdist(Tensor self, float p=2) -> Tensor",
        Tier::Composed,
        |a| Ok(pdist(a.tensor(0)?, a.float(1)?)?.into()),
        samples!([t(&[4, 3])], [t(&[3, 2]), n(1.5)], [t(&[1, 3])]),
    )
    .doc(
        "Return the `p`-norms of the differences of each row of `input` and each later row, as a vector of `n * (n - \
         1) / 2` elements. `input` has shape `(n, m)` and dtype `float32` or `float64`. The order of pairs is `(0, \
         1), (0, 2), ..., (n - 2, n - 1)`. `p` is 0 or more, and may be `inf`.",
    )
    .no_out()
    .scope(Scope::Function)
    .autocast(Policies::accelerator(Policy::Full)),
];
