//! Reductions: `Reduce{kind}` and `ArgReduce`, and functions composed of them.

mod rows;
mod spread;

use crate::axes::{Axes, Combine, names};
use crate::formula::{by_formula, linear};
use crate::graph::{BackwardFn, with_backward};
use crate::lower::fields::fields;
use crate::lower::kernel_call::{self, KernelCall, message, misfit};
use crate::op::{Func, Grads, Op, Prim, Saved, Saves, Value, Values, normalize_dim, normalize_dims};
use crate::ops::pointwise::select_scalar;
use crate::saved::SavedTensor;
use crate::types::compute::{narrowed, widened};
use crate::{DType, Dims, Error, Meta, Result, Scalar, Tensor, dispatch};
pub use rows::ROWS;
use smallvec::{SmallVec, smallvec};
pub use spread::{Spread, var_mean};
use std::sync::Mutex;
pub use torchtpu_kernels::reduce::ReduceKind;
use torchtpu_kernels::{View, ViewMut};
use torchtpu_stablehlo as hlo;

/// Folds the dimensions of a bit mask, which are removed.
///
/// Sums and products of integers and `bool` are computed and returned in `int64`. Floats narrower than `f32` accumulate
/// in `f32`. An empty sum is 0, an empty product 1, and an empty maximum or minimum is refused. NaN wins in maximum and
/// minimum.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reduce {
    /// The function.
    pub kind: ReduceKind,
    /// Bit `i`: dimension `i` is removed.
    pub mask: u64,
}

fn kept(dims: &Dims, mask: u64) -> Dims {
    dims.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 0).map(|(_, n)| *n).collect()
}
fn kept_as_one(dims: &Dims, mask: u64) -> Dims {
    dims.iter().enumerate().map(|(i, n)| if mask >> i & 1 == 0 { *n } else { 1 }).collect()
}
fn masked(mask: u64, rank: usize) -> Vec<usize> {
    (0..rank).filter(|i| mask >> i & 1 != 0).collect()
}

/// The kernel of sums over a number of leading dimensions.
#[derive(Debug)]
pub(crate) struct SumRows(usize);

fields! {
    SumRows { 0 };
}

impl KernelCall for SumRows {
    fn name() -> &'static str {
        "sum_rows"
    }
    fn arity(&self) -> (usize, usize) {
        (1, 1)
    }
    fn compute(&self, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> std::result::Result<(), String> {
        let ([x], [y]) = (x, y) else { return Err(misfit(self)) };
        let mask: SmallVec<[bool; 8]> = (0..x.sizes().len()).map(|i| i < self.0).collect();
        torchtpu_kernels::reduce::reduce(ReduceKind::Sum, x, &mask, y).map_err(message)
    }
}

/// The dtype of a result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// That of the operand.
    Same,
    /// The same for floats and complex numbers, and `int64` for others.
    Wide,
    /// `bool`.
    Truth,
}

/// A gradient, from the op, the saved values and the gradient of the result.
type Gradient = fn(&Reduce, &Saved<'_>, &Tensor) -> Result<Option<Tensor>>;

/// The rules of one reduction. [`rules`] has a row for each. The loops are rows of a table in `torchtpu_kernels`.
struct Rules {
    of: Of,
    /// How results of parts of a dimension are combined. For truth values the greatest is `any`, the least `all`.
    combine: Combine,
    lower: hlo::ReduceKind,
    /// PyTorch's kernel, if the reduction refuses complex numbers and has no value for no elements.
    extreme: Option<&'static str>,
    saves: Saves,
    gradient: Gradient,
}

const fn rules(kind: ReduceKind) -> Rules {
    const NO_GRADIENT: Gradient = |_, _, _| Ok(None);
    let (of, combine, lower, extreme, saves, gradient): (_, _, _, _, _, Gradient) = match kind {
        ReduceKind::Sum => (Of::Wide, Combine::Sum, hlo::ReduceKind::Add, None, Saves::NONE, |o, s, g| {
            o.spread(g, s.meta(0)).map(Some)
        }),
        ReduceKind::Prod => (Of::Wide, Combine::Product, hlo::ReduceKind::Mul, None, Saves::inputs(1), |o, s, g| {
            prod_vjp(&s.x(0).conj()?, o.mask, &o.spread(g, s.meta(0))?).map(Some)
        }),
        ReduceKind::Max => {
            (Of::Same, Combine::Max, hlo::ReduceKind::Max, Some("max_values_cpu"), Saves::both(1, 1), extreme_vjp)
        }
        ReduceKind::Min => {
            (Of::Same, Combine::Min, hlo::ReduceKind::Min, Some("min_values_cpu"), Saves::both(1, 1), extreme_vjp)
        }
        ReduceKind::Any => (Of::Truth, Combine::Max, hlo::ReduceKind::Or, None, Saves::NONE, NO_GRADIENT),
        ReduceKind::All => (Of::Truth, Combine::Min, hlo::ReduceKind::And, None, Saves::NONE, NO_GRADIENT),
    };
    Rules { of, combine, lower, extreme, saves, gradient }
}

/// Ties share the gradient evenly, even if they are NaN.
fn extreme_vjp(o: &Reduce, s: &Saved<'_>, g: &Tensor) -> Result<Option<Tensor>> {
    let hit = equal_or_nan(s.x(0), &o.spread(s.y(0), s.meta(0))?)?;
    let share = sum_mask(&hit, o.mask)?.to_dtype(g.dtype())?;
    o.spread(&g.div(&share)?, s.meta(0))?.mul(&hit.to_dtype(g.dtype())?).map(Some)
}

impl Reduce {
    /// A value of the result's sizes, expanded to those of the operand.
    fn spread(&self, t: &Tensor, x: &Meta) -> Result<Tensor> {
        t.reshape_dims(kept_as_one(&x.dims, self.mask))?.expand_dims(&x.dims)
    }
    /// Refuse to reduce no elements, if there is no value for them.
    #[cold]
    fn check_empty(&self, dims: &Dims) -> Result<()> {
        let name = self.label();
        let empty = (0..dims.len()).find(|i| self.mask >> i & 1 != 0 && dims[*i] == 0);
        match empty.filter(|_| self.mask.count_ones() < dims.len() as u32) {
            _ if empty.is_none() => Ok(()),
            Some(i) => Err(Error::index(format!("{name}(): Expected reduction dim {i} to have non-zero size."))),
            None => Err(Error::runtime(format!(
                "{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim \
                with the 'dim' argument."
            ))),
        }
    }
}

impl Op for Reduce {
    const NAME: &'static str = "reduce";
    fn label(&self) -> &'static str {
        self.kind.name()
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (m, rules) = (x[0].meta(), rules(self.kind));
        if let Some(kernel) = rules.extreme {
            if m.dtype.is_complex() {
                return Err(super::complex::unsupported(kernel, m.dtype));
            }
            if m.dims.contains(&0) {
                self.check_empty(&m.dims)?;
            }
        }
        let dtype = match rules.of {
            Of::Wide if !m.dtype.is_inexact() => DType::I64,
            Of::Truth => DType::Bool,
            _ => m.dtype,
        };
        Ok(Meta { dims: kept(&m.dims, self.mask), dtype, place: m.place })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let dims: Vec<String> = names("d", x[0].dims.len()).collect();
        let kept: Vec<&str> = (0..dims.len()).filter(|i| self.mask >> i & 1 == 0).map(|i| dims[i].as_str()).collect();
        let mut axes = Axes::parse(&format!("{} -> {}", dims.join(" "), kept.join(" ")), x, y);
        for (_, name) in dims.iter().enumerate().filter(|(i, _)| self.mask >> i & 1 != 0) {
            axes = axes.reduces(name, rules(self.kind).combine);
        }
        axes.linear(if self.kind == ReduceKind::Sum { &[0b1] } else { &[] })
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let mask: SmallVec<[bool; 8]> = (0..x[0].dims().len()).map(|i| self.mask >> i & 1 != 0).collect();
        torchtpu_kernels::reduce::reduce(self.kind, &x[0].view(), &mask, &mut y[0].view_mut())
            .map_err(super::pointwise::kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let dims = masked(self.mask, x[0].rank());
        let e = crate::meta::element_type(y[0].dtype);
        let is_of_rows = !dims.is_empty() && dims.len() < x[0].rank() && dims.iter().enumerate().all(|(i, &d)| i == d);
        if self.kind == ReduceKind::Sum
            && is_of_rows
            && kernel_call::is_profitable(f, x[0].element(), x[0].shape().iter().product())
        {
            return SumRows(dims.len()).call_kernel(f, [&x[0]], y);
        }
        let v = f.convert(&x[0], e);
        smallvec![f.reduce(&v, rules(self.kind).lower, &dims)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let rule =
            |s: &Saved<'_>, g: &Tensor| -> Result<Grads> { Ok(smallvec![(rules(self.kind).gradient)(self, s, g)?]) };
        // The gradient of a sum is copied.
        if self.kind == ReduceKind::Sum { rule(s, g) } else { s.widely(g, rule) }
    }
    fn saves(&self, _: u64) -> Saves {
        rules(self.kind).saves
    }
}

/// Whether elements are equal or both are NaN, for each element.
pub(crate) fn equal_or_nan(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let equal = x.eq(y)?;
    if !x.dtype().is_float() {
        return Ok(equal);
    }
    equal.logical_or(&x.ne(x)?.logical_and(&y.ne(y)?)?)
}

/// Gradient of a product, which is right even if factors are zero: the product of all others, from both sides.
fn prod_vjp(x: &Tensor, mask: u64, g: &Tensor) -> Result<Tensor> {
    let rank = x.dims().len();
    // Move the folded dimensions to the end and merge them.
    let order: Vec<i64> =
        (0..rank).filter(|i| mask >> i & 1 == 0).chain(masked(mask, rank)).map(|i| i as i64).collect();
    let moved = x.permute(&order)?;
    let outer: Dims = kept(x.dims(), mask);
    let folded: usize = masked(mask, rank).iter().map(|&i| x.dims()[i]).product();
    let mut flat = outer;
    flat.push(folded);
    let v = moved.reshape_dims(flat)?;
    if folded == 0 {
        return Tensor::zeros_like_meta(x.meta());
    }
    let d = outer.len() as i64;
    let ones = Tensor::full_meta(
        &v.meta().with_dims({
            let mut o = outer;
            o.push(1);
            o
        }),
        Scalar::Float(1.0),
    )?;
    let before = super::scan::cumprod(&super::concat::cat(&[&ones, &v.narrow(d, 0, folded as i64 - 1)?], d)?, d)?;
    let tail = super::concat::flip(&v.narrow(d, 1, folded as i64 - 1)?, &[d])?;
    let after = super::concat::flip(&super::scan::cumprod(&super::concat::cat(&[&ones, &tail], d)?, d)?, &[d])?;
    let others = before.mul(&after)?.reshape_dims(*moved.dims())?;
    let mut back = vec![0; rank];
    order.iter().enumerate().for_each(|(i, &o)| back[o as usize] = i as i64);
    others.permute(&back)?.mul(g)
}

/// Index of the largest or smallest element along a dimension, which is removed. The first of equal elements is chosen,
/// and NaN wins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ArgReduce {
    /// Whether to find the largest; else the smallest.
    pub max: bool,
    /// The dimension.
    pub dim: usize,
}

impl Op for ArgReduce {
    const NAME: &'static str = "arg_reduce";
    const DIFFERENTIABLE: u64 = 0;
    fn label(&self) -> &'static str {
        if self.max { "argmax" } else { "argmin" }
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let m = x[0].meta();
        if m.dtype.is_complex() {
            return Err(Error::type_error(format!("{}(): does not support complex input", self.label())));
        }
        if m.dims[self.dim] == 0 {
            return Err(Error::index(format!(
                "{}(): Expected reduction dim {} to have non-zero size.",
                self.label(),
                self.dim
            )));
        }
        Ok(Meta { dims: kept(&m.dims, 1 << self.dim), dtype: DType::I64, place: m.place })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let mut dims: Vec<String> = names("d", x[0].dims.len()).collect();
        let kept: Vec<String> =
            dims.iter().enumerate().filter(|(i, _)| *i != self.dim).map(|(_, d)| d.clone()).collect();
        dims[self.dim] = "_".into();
        Axes::parse(&format!("{} -> {}", dims.join(" "), kept.join(" ")), x, y)
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        torchtpu_kernels::reduce::arg_reduce(self.max, &x[0].view(), self.dim, &mut y[0].view_mut())
            .map_err(super::pointwise::kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        smallvec![f.reduce_arg(&x[0], self.max, self.dim).1]
    }
    fn vjp(&self, _: &Saved<'_>, _: &Tensor) -> Result<Grads> {
        Ok(smallvec![None]) // piecewise constant
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}

/// Sum over the dimensions of a mask, which are removed.
pub fn sum_mask(x: &Tensor, mask: u64) -> Result<Tensor> {
    reduce_mask(ReduceKind::Sum, x, mask, false)
}

/// `x` with one element of each dimension of the mask whose elements are all the same, because it was expanded, and how
/// often that element counts. A device would write the copies out before it reduces them.
fn repeated(x: &Tensor, mask: u64) -> Result<Option<(Tensor, usize)>> {
    if !x.place().is_tpu() {
        return Ok(None);
    }
    let (mut once, mut count) = (x.clone(), 1);
    for d in masked(mask, x.dims().len()) {
        if x.strides()[d] == 0 && x.dims()[d] > 1 {
            once = once.narrow(d as i64, 0, 1)?;
            count *= x.dims()[d];
        }
    }
    Ok((count > 1).then_some((once, count)))
}

/// The reduction of `count` copies of each element of `x`.
fn reduce_copies(kind: ReduceKind, x: &Tensor, count: usize, mask: u64, keep: bool) -> Result<Tensor> {
    let wide = if matches!(kind, ReduceKind::Sum | ReduceKind::Prod) { widened(x)? } else { x.clone() };
    let y = reduce_mask(kind, &wide, mask, keep)?;
    let count = if y.dtype().is_int() { Scalar::Int(count as i64) } else { Scalar::Float(count as f64) };
    match kind {
        ReduceKind::Sum => narrowed(y.mul_scalar(count)?, if x.dtype().is_half() { x.dtype() } else { y.dtype() }),
        ReduceKind::Prod => narrowed(y.pow_scalar(count)?, if x.dtype().is_half() { x.dtype() } else { y.dtype() }),
        _ => Ok(y),
    }
}

fn reduce_mask(kind: ReduceKind, x: &Tensor, mask: u64, keep: bool) -> Result<Tensor> {
    if let Some((once, count)) = repeated(x, mask)? {
        if !crate::graph::may_need_grad(&[x]) {
            return reduce_copies(kind, &once, count, mask, keep);
        }
        if kind == ReduceKind::Sum && x.dtype().is_inexact() {
            let forward = || reduce_copies(kind, &once, count, mask, keep);
            return linear("SumBackward1", &[x], forward, move |g, metas, _| {
                let dims = &metas[0].dims;
                Ok(smallvec![Some(g.reshape_dims(kept_as_one(dims, mask))?.expand_dims(dims)?)])
            });
        }
    }
    let y = if mask == 0
        && !matches!(kind, ReduceKind::Any | ReduceKind::All)
        && (x.dtype().is_inexact() || matches!(kind, ReduceKind::Max | ReduceKind::Min))
    {
        x.view_dims(*x.dims())?
    } else {
        dispatch::call(Prim::Reduce(Reduce { kind, mask }), &[x])?
    };
    if keep { y.reshape_dims(kept_as_one(x.dims(), mask)) } else { Ok(y) }
}

/// Reduction over dimensions from a user. `None` means all.
pub fn reduce(kind: ReduceKind, x: &Tensor, dims: Option<&[i64]>, keep: bool) -> Result<Tensor> {
    let mask = normalize_dims(dims.unwrap_or(&[]), x.dims().len())?;
    let y = reduce_mask(kind, x, mask, keep)?;
    if mask == 0 { y.copy_if_view(x) } else { Ok(y) }
}

impl Tensor {
    /// Sum of all elements.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn sum(&self) -> Result<Tensor> {
        reduce(ReduceKind::Sum, self, None, false)
    }
    /// Sum over dimensions.
    ///
    /// # Errors
    /// `Index` for a wrong dimension.
    pub fn sum_dim(&self, dims: &[i64], keep: bool) -> Result<Tensor> {
        reduce(ReduceKind::Sum, self, Some(dims), keep)
    }
    /// Mean of all elements.
    ///
    /// # Errors
    /// `Runtime` for integers.
    pub fn mean(&self) -> Result<Tensor> {
        mean(self, None, false, None)
    }
    /// Mean over dimensions.
    ///
    /// # Errors
    /// `Runtime` for integers, `Index` for a wrong dimension.
    pub fn mean_dim(&self, dims: &[i64], keep: bool) -> Result<Tensor> {
        mean(self, Some(dims), keep, None)
    }
    /// The largest over dimensions. Ties share the gradient.
    ///
    /// # Errors
    /// `Index` for a wrong or empty dimension.
    pub fn amax(&self, dims: &[i64], keep: bool) -> Result<Tensor> {
        reduce(ReduceKind::Max, self, Some(dims), keep)
    }
    /// The smallest over dimensions. Ties share the gradient.
    ///
    /// # Errors
    /// `Index` for a wrong or empty dimension.
    pub fn amin(&self, dims: &[i64], keep: bool) -> Result<Tensor> {
        reduce(ReduceKind::Min, self, Some(dims), keep)
    }
    /// Index of the largest element, of all or along a dimension.
    ///
    /// # Errors
    /// `Index` for a wrong or empty dimension.
    pub fn argmax(&self, dim: Option<i64>, keep: bool) -> Result<Tensor> {
        arg_reduce(self, true, dim, keep)
    }
    /// Index of the smallest element, of all or along a dimension.
    ///
    /// # Errors
    /// `Index` for a wrong or empty dimension.
    pub fn argmin(&self, dim: Option<i64>, keep: bool) -> Result<Tensor> {
        arg_reduce(self, false, dim, keep)
    }
}

fn arg_reduce(x: &Tensor, max: bool, dim: Option<i64>, keep: bool) -> Result<Tensor> {
    let name = if max { "argmax" } else { "argmin" };
    let Some(dim) = dim else {
        if x.numel() == 0 {
            return Err(Error::index(format!(
                "{name}(): Expected reduction dim to be specified for input.numel() == 0."
            )));
        }
        let y = dispatch::call(Prim::ArgReduce(ArgReduce { max, dim: 0 }), &[&x.reshape(&[-1])?])?;
        return if keep { y.reshape_dims(Dims::filled(1, x.dims().len())) } else { Ok(y) };
    };
    let d = normalize_dim(dim, x.dims().len())?;
    if x.dims().is_empty() {
        return Tensor::full_meta(&x.meta().with_dtype(DType::I64), Scalar::Int(0));
    }
    let y = dispatch::call(Prim::ArgReduce(ArgReduce { max, dim: d }), &[x])?;
    if keep { y.unsqueeze(d as i64) } else { Ok(y) }
}

/// Largest or smallest along a dimension, with its index. The gradient goes to that index alone.
fn extreme_dim(x: &Tensor, max: bool, dim: i64, keep: bool) -> Result<(Tensor, Tensor)> {
    let d = normalize_dim(dim, x.dims().len())?;
    if x.dims().is_empty() {
        return Ok((x.copy()?, Tensor::full_meta(&x.meta().with_dtype(DType::I64), Scalar::Int(0))?));
    }
    if x.dims()[d] == 0 {
        let name = if max { "max" } else { "min" };
        return Err(Error::index(format!("{name}(): Expected reduction dim {d} to have non-zero size.")));
    }
    let at = arg_reduce(x, max, Some(dim), true)?;
    let values = super::indexing::gather(x, d as i64, &at)?;
    if keep { Ok((values, at)) } else { Ok((values.squeeze(d as i64)?, at.squeeze(d as i64)?)) }
}

/// Mean over dimensions, in a given dtype.
pub fn mean(x: &Tensor, dims: Option<&[i64]>, keep: bool, dtype: Option<DType>) -> Result<Tensor> {
    let x = match dtype {
        Some(d) => x.to_dtype(d)?,
        None => x.clone(),
    };
    if !x.dtype().is_inexact() {
        let what = if dtype.is_some() { "Optional" } else { "Input" };
        return Err(Error::not_implemented(format!(
            "mean(): could not infer output dtype. {what} dtype must be either a floating point or complex dtype. Got: \
            {}",
            x.dtype().scalar_type()
        )));
    }
    let mask = normalize_dims(dims.unwrap_or(&[]), x.dims().len())?;
    let count: usize = masked(mask, x.dims().len()).iter().map(|&i| x.dims()[i]).product();
    if x.dtype().is_half() {
        // The sum may overflow 16-bit floats even if the mean does not.
        let wide = x.to_dtype(DType::F32)?;
        return reduce_mask(ReduceKind::Sum, &wide, mask, keep)?.div_scalar(count as f64)?.to_dtype(x.dtype());
    }
    reduce_mask(ReduceKind::Sum, &x, mask, keep)?.div_scalar(count as f64)
}

pub(crate) fn sum_typed(
    x: &Tensor,
    dims: Option<&[i64]>,
    keep: bool,
    dtype: Option<DType>,
    kind: ReduceKind,
) -> Result<Tensor> {
    match dtype {
        Some(d) if d != x.dtype() => reduce(kind, &x.to_dtype(d)?, dims, keep)?.to_dtype(d),
        Some(d) => reduce(kind, x, dims, keep)?.to_dtype(d),
        None => reduce(kind, x, dims, keep),
    }
}

/// `any` and `all` over several dimensions. An empty list reduces nothing, and `None` means all.
fn truth_over(kind: ReduceKind, x: &Tensor, dims: Option<&[i64]>, keep: bool) -> Result<Tensor> {
    match dims {
        Some([]) if x.dtype() == DType::U8 => Ok(x.ne_scalar(0)?.to_dtype(DType::U8)?),
        Some([]) => x.ne_scalar(0),
        _ => truth(kind, x, dims, keep),
    }
}

/// `log(sum(exp(x)))` over dimensions, exact for large values.
pub fn logsumexp(x: &Tensor, dims: &[i64], keep: bool) -> Result<Tensor> {
    let x = if x.dtype().is_inexact() { x.clone() } else { x.to_dtype(crate::default_dtype())? };
    if x.dtype().is_half() {
        return narrowed(logsumexp(&widened(&x)?, dims, keep)?, x.dtype());
    }
    let mask = normalize_dims(dims, x.dims().len())?;
    if x.numel() == 0 {
        return reduce_mask(ReduceKind::Sum, &x.exp()?, mask, keep)?.log();
    }
    let forward = || -> Result<Tensor> {
        let m = reduce_mask(ReduceKind::Max, &x.detach().real()?, mask, true)?;
        let finite = m.isfinite()?;
        let m = super::pointwise::select(&finite, &m, &Tensor::number(Scalar::Float(0.0), m.dtype())?)?;
        reduce_mask(ReduceKind::Sum, &x.sub(&m)?.exp()?, mask, true)?.log()?.add(&m)
    };
    let s = by_formula("LogsumexpBackward0", &[&x], forward, move |x, g, _| {
        // `exp(x - y)`: an infinite element takes nothing away from the finite ones.
        let dims: Vec<i64> = masked(mask, x[0].dims().len()).iter().map(|&i| i as i64).collect();
        Ok(smallvec![Some(g.mul(&x[0].sub(&logsumexp(&x[0], &dims, true)?)?.exp()?.conj()?)?)])
    })?;
    if keep { Ok(s) } else { s.reshape_dims(kept(x.dims(), mask)) }
}

/// The gradient of a 2-norm: `g (x / y)`, and zero where the norm is. That of a root and a square, `2 x (g / (2 y))`,
/// would overflow if `x` is tiny.
struct LengthBackward {
    /// The operand and the norm.
    saved: Mutex<Option<[SavedTensor; 2]>>,
    mask: u64,
}

impl BackwardFn for LengthBackward {
    fn name(&self) -> String {
        "LinalgVectorNormBackward0".into()
    }
    fn backward(&self, g: &[Option<Tensor>]) -> Result<Grads> {
        let Some(g) = &g[0] else { return Ok(smallvec![None]) };
        let saved = self.saved.lock().unwrap_or_else(|e| e.into_inner());
        let Some([x, y]) = saved.as_ref() else { return Err(crate::graph::second_backward()) };
        let (x, y) = (x.get()?, y.get()?);
        drop(saved);
        let spread = |t: &Tensor| t.reshape_dims(kept_as_one(x.dims(), self.mask));
        // Compute the norm again if this is differentiated, since the saved one has no history.
        let y = if crate::state::grad_enabled() {
            let dims: Vec<i64> = masked(self.mask, x.dims().len()).iter().map(|&d| d as i64).collect();
            norm(&x, Scalar::Int(2), Some(&dims), true)?
        } else {
            spread(&y)?
        };
        let zero = y.eq_scalar(0.0)?;
        let slope = x.div(&select_scalar(&zero, 1.0, &y)?)?;
        Ok(smallvec![Some(slope.mul(&select_scalar(&zero, 0.0, &spread(g)?)?)?)])
    }
    fn release(&self) {
        let gone = self.saved.lock().unwrap_or_else(|e| e.into_inner()).take();
        drop(gone);
    }
}

/// The `p`-norm over dimensions.
pub(crate) fn norm(x: &Tensor, p: Scalar, dims: Option<&[i64]>, keep: bool) -> Result<Tensor> {
    if !x.dtype().is_inexact() {
        return Err(Error::not_implemented(format!(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. Got {}",
            x.dtype().scalar_type()
        )));
    }
    let lengths;
    let x = if x.dtype().is_complex() {
        lengths = x.abs()?;
        &lengths
    } else {
        x
    };
    if x.dtype().is_half() {
        // Powers may overflow 16-bit floats.
        return norm(&x.to_dtype(DType::F32)?, p, dims, keep)?.to_dtype(x.dtype());
    }
    let p = p.to_f64();
    let sum = |y: &Tensor| reduce(ReduceKind::Sum, y, dims, keep);
    if p == f64::INFINITY {
        reduce(ReduceKind::Max, &x.abs()?, dims, keep)
    } else if p == f64::NEG_INFINITY {
        reduce(ReduceKind::Min, &x.abs()?, dims, keep)
    } else if p == 0.0 {
        let counted = sum(&x.ne_scalar(0.0)?.to_dtype(x.dtype())?)?;
        if x.requires_grad() {
            // The function is piecewise constant: its gradient is zero, not missing.
            let zeros = Tensor::zeros_like_meta(x.meta())?;
            return counted.add(&sum(&super::pointwise::independent_of(x, zeros)?)?);
        }
        Ok(counted)
    } else if p == 1.0 {
        sum(&x.abs()?)
    } else if p == 2.0 {
        let length = |x: &Tensor| sum(&x.square()?)?.sqrt();
        if !(crate::state::grad_enabled() && x.requires_grad()) {
            return length(x);
        }
        let y = crate::no_grad(|| length(&x.detach()))?;
        let mask = normalize_dims(dims.unwrap_or(&[]), x.dims().len())?;
        let saved = [SavedTensor::new(x.clone())?, SavedTensor::new(y.clone())?];
        with_backward(&y, &[x], Box::new(LengthBackward { saved: Mutex::new(Some(saved)), mask }))
    } else {
        // The gradient at zeros, and of slices of zeros, is defined as zero. The powers would give NaN.
        let flat = |y: Tensor, wrong: &Tensor, at: f64, q: f64| -> Result<Tensor> {
            let safe = select_scalar(wrong, 1.0, &y)?;
            select_scalar(wrong, at, &safe.pow_scalar(q)?)
        };
        let size = x.abs()?;
        let at_zero = if p > 0.0 { 0.0 } else { f64::INFINITY };
        let zero = size.detach().eq_scalar(0.0)?;
        let s = sum(&flat(size, &zero, at_zero, p)?)?;
        let none = s.detach().eq_scalar(at_zero)?;
        flat(s, &none, 0.0, 1.0 / p)
    }
}

/// Whether any or all are true. As in PyTorch, the answer for bytes is in bytes.
fn truth(kind: ReduceKind, x: &Tensor, dims: Option<&[i64]>, keep: bool) -> Result<Tensor> {
    let y = reduce(kind, x, dims, keep)?;
    if x.dtype() == DType::U8 { y.to_dtype(DType::U8) } else { Ok(y) }
}
