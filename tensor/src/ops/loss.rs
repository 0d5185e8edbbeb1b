//! Losses.
//!
//! Cross entropy of class indices is fused: it keeps the log-sum-exp of each row and not the probabilities. The others are
//! compositions; each ends in the same [`reduced`].

use super::ok;
use crate::op::{F64, Fused, Grads, KernelFn, LowerFn, Outs, Prim, Saves, VjpFn, same_device};
use crate::ops::activation::log_sigmoid;
use crate::ops::clip::clamp;
use crate::ops::dtype::{compute_dtype, expect_float, narrowed, widened};
use crate::ops::indexing::{gather, index_select};
use crate::ops::pointwise::{check_subtraction, kernel_error, result_type, select, select_scalar};
use crate::schema::{Operand, Row, Sample, SampleArg, Scope, Tier, index, n, positive, probability, t, unit};
use crate::{DType, DeviceKind, Dims, Error, Meta, Result, Scalar, Tensor, dispatch, samples, state};
use smallvec::smallvec;
use torchtpu_kernels::loss as kernels;
use torchtpu_stablehlo::{Direction, ElementType, ReduceKind, Type};

/// What becomes of the losses of all elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduction {
    /// They are given as they are.
    None,
    /// Their mean.
    Mean,
    /// Their sum.
    Sum,
}

impl Reduction {
    /// From aten's numbers.
    ///
    /// # Errors
    /// `Value` for any but 0, 1, 2.
    pub fn from_int(v: i64) -> Result<Reduction> {
        match v {
            0 => Ok(Reduction::None),
            1 => Ok(Reduction::Mean),
            2 => Ok(Reduction::Sum),
            _ => Err(Error::value(format!("{v} is not a valid value for reduction"))),
        }
    }
}

pub(crate) fn reduced(loss: Tensor, r: Reduction) -> Result<Tensor> {
    match r {
        Reduction::None => Ok(loss),
        Reduction::Mean => loss.mean(),
        Reduction::Sum => loss.sum(),
    }
}

// ------------------------------------------------------------------------------------------------ cross entropy

/// Cross entropy of logits with class indices, a loss a row: `(1 - e) w[t] (lse - x[t]) + e / c * sum_j w[j] (lse - x[j])`.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[n, c, *]` or `[c]` | floating point |
/// | target | x without c | `int64` |
/// | w | `[c]`, optional | as x |
/// | loss | as target | as x |
/// | lse | as target | that of arithmetic |
/// | total | 0-d: sum of `w[t]` of rows that count | as x |
///
/// Rows whose target is `ignore_index` lose nothing. A target that is no class raises on `cpu`; a compiled program cannot raise,
/// there the row's loss is NaN. Saves x, target, w and lse.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CrossEntropy {
    /// Whether classes have weights.
    pub weight: bool,
    /// Target of rows that do not count.
    pub ignore_index: i64,
    /// How much of the target's probability is spread over all classes.
    pub smoothing: F64,
}

/// Gradient of [`CrossEntropy`] for x, from `g, x, target, lse[, w]` with `g` as loss.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CrossEntropyBackward {
    /// What it is the gradient of.
    pub of: CrossEntropy,
}

/// The dimension of the classes.
fn class_dim(rank: usize) -> usize {
    (rank > 1) as usize
}

fn without(dims: &Dims, d: usize) -> Dims {
    let mut r = *dims;
    r.remove(d);
    r
}

/// Weights of classes shaped to broadcast over x.
fn spread_weight(w: &Tensor, rank: usize) -> Result<Tensor> {
    let mut d = Dims::filled(1, rank);
    d[class_dim(rank)] = w.numel();
    w.reshape_dims(d)
}

impl CrossEntropy {
    fn spec<'a>(&self, weight: Option<torchtpu_kernels::View<'a>>) -> kernels::CrossEntropy<'a> {
        kernels::CrossEntropy { weight, ignore_index: self.ignore_index, label_smoothing: self.smoothing.get() }
    }
    /// Which rows count, their targets (zero where not), and the weight of each row.
    fn rows(&self, target: &Tensor, w: Option<&Tensor>, like: DType) -> Result<(Tensor, Tensor, Tensor)> {
        let counts = target.ne_scalar(self.ignore_index)?;
        let safe = select_int(&counts, target, 0)?;
        let weight = counts.to_dtype(like)?;
        let weight = match w {
            None => weight,
            Some(w) => {
                let flat = safe.reshape_dims(Dims::new(&[safe.numel()]))?;
                weight.mul(&index_select(w, 0, &flat)?.reshape_dims(*safe.dims())?)?
            }
        };
        Ok((counts, safe, weight))
    }
}

/// `x` where `cond` holds, else an integer.
pub(super) fn select_int(cond: &Tensor, x: &Tensor, other: i64) -> Result<Tensor> {
    select(cond, x, &Tensor::number(Scalar::Int(other), x.dtype())?)
}

/// StableHLO pieces that both directions share.
struct Lowered {
    /// Arithmetic's element type.
    e: ElementType,
    /// Full shape, element type of arithmetic.
    full: Type,
    /// Where the class is the row's target.
    hit: torchtpu_stablehlo::Value,
    /// Rows that count, over the full shape.
    counts: torchtpu_stablehlo::Value,
    /// Rows whose target is neither a class nor ignored, without the class dimension.
    wrong: torchtpu_stablehlo::Value,
    /// Dimensions of a row's number within the full shape.
    rows: Vec<usize>,
}

fn lowered(
    o: &CrossEntropy,
    f: &mut torchtpu_stablehlo::Func,
    x: &torchtpu_stablehlo::Value,
    target: &torchtpu_stablehlo::Value,
) -> Lowered {
    let (rank, d) = (x.rank(), class_dim(x.rank()));
    let e = if matches!(x.element(), ElementType::F16 | ElementType::BF16) { ElementType::F32 } else { x.element() };
    let full = Type::new(x.shape(), e);
    let rows: Vec<usize> = (0..rank).filter(|&i| i != d).collect();
    let class = f.iota(&full.with_element(ElementType::S64), d);
    let spread = f.broadcast_in_dim(target, x.shape(), &rows);
    let hit = f.compare(Direction::Eq, &class, &spread);
    let ignored = f.splat_i64(o.ignore_index, target.ty());
    let ignored = f.compare(Direction::Eq, target, &ignored);
    let counted = f.unary("stablehlo.not", &ignored);
    let counts = f.broadcast_in_dim(&counted, x.shape(), &rows);
    let (zero, end) = (f.splat_i64(0, target.ty()), f.splat_i64(x.shape()[d] as i64, target.ty()));
    let (below, above) = (f.compare(Direction::Lt, target, &zero), f.compare(Direction::Ge, target, &end));
    let outside = f.binary("stablehlo.or", &below, &above);
    let wrong = f.binary("stablehlo.and", &outside, &counted);
    Lowered { e, full, hit, counts, wrong, rows }
}

impl Fused for CrossEntropy {
    const NAME: &'static str = "cross_entropy_loss";
    const OUTS: usize = 3;
    const DIFFERENTIABLE: u64 = 1;
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        let spec = o.spec(x.get(2).map(|w| w.view()));
        let total =
            kernels::cross_entropy(&x[0].view(), &x[1].view(), &spec, &mut y[0].view_mut(), &mut y[1].view_mut())
                .map_err(kernel_error)?;
        y[2].set_scalar_bits(Scalar::Float(total).bits(y[2].dtype()));
        Ok(())
    });
    // The target's logit is picked by comparison, which fuses with the sums; a gather would read the logits once more.
    const LOWER: Option<LowerFn<Self>> = Some(|o, f, x, y| {
        let d = class_dim(x[0].rank());
        let l = lowered(o, f, &x[0], &x[1]);
        let v = f.convert(&x[0], l.e);
        let zero = f.splat(0.0, &l.full);
        let top = f.reduce(&v, ReduceKind::Max, &[d]);
        let top_full = f.broadcast_in_dim(&top, &l.full.shape, &l.rows);
        let shifted = f.binary("stablehlo.subtract", &v, &top_full);
        let exps = f.unary("stablehlo.exponential", &shifted);
        let sum = f.reduce(&exps, ReduceKind::Add, &[d]);
        let log = f.unary("stablehlo.log", &sum);
        let lse = f.binary("stablehlo.add", &log, &top);
        // log p, weighted by what the loss takes of each class.
        let lse_full = f.broadcast_in_dim(&lse, &l.full.shape, &l.rows);
        let surprise = f.binary("stablehlo.subtract", &lse_full, &v);
        let one = f.splat(1.0, &l.full);
        let w = match x.get(2) {
            Some(w) => {
                let w = f.convert(w, l.e);
                f.broadcast_in_dim(&w, &l.full.shape, &[d])
            }
            None => one,
        };
        let picked = f.select(&l.hit, &w, &zero);
        let picked = f.select(&l.counts, &picked, &zero);
        let row_weight = f.reduce(&picked, ReduceKind::Add, &[d]);
        let smoothing = o.smoothing.get();
        let term = f.select(&l.hit, &surprise, &zero);
        let term = f.binary("stablehlo.multiply", &term, &w);
        let term = f.select(&l.counts, &term, &zero);
        let mut loss = f.reduce(&term, ReduceKind::Add, &[d]);
        if smoothing != 0.0 {
            let keep = f.splat(1.0 - smoothing, loss.ty());
            loss = f.binary("stablehlo.multiply", &loss, &keep);
            let all = f.binary("stablehlo.multiply", &surprise, &w);
            let all = f.select(&l.counts, &all, &zero);
            let all = f.reduce(&all, ReduceKind::Add, &[d]);
            let share = f.splat(smoothing / x[0].shape()[d] as f64, loss.ty());
            let all = f.binary("stablehlo.multiply", &all, &share);
            loss = f.binary("stablehlo.add", &loss, &all);
        }
        let nan = f.splat(f64::NAN, loss.ty());
        loss = f.select(&l.wrong, &nan, &loss);
        let dims: Vec<usize> = (0..row_weight.rank()).collect();
        let total = f.reduce(&row_weight, ReduceKind::Add, &dims);
        let out = crate::meta::element_type(y[0].dtype);
        smallvec![f.convert(&loss, out), lse, f.convert(&total, out)]
    });
    const VJP: Option<VjpFn<Self>> = Some(|o, s, g| {
        let mut x = vec![g, s.x(0), s.x(1), s.y(1)];
        if o.weight {
            x.push(s.x(2));
        }
        let gx = dispatch::call(Prim::CrossEntropyBackward(CrossEntropyBackward { of: *o }), &x)?;
        let mut grads: Grads = smallvec![Some(gx), None];
        if o.weight {
            grads.push(None); // class weights are constants, as in PyTorch
        }
        Ok(grads)
    });
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        expect_float("log_softmax_lastdim_kernel_impl", x[0])?;
        let d = *x[0].dims();
        check_target(x[0], x[1])?;
        if let Some(w) = x.get(2) {
            check_weight(w, d[class_dim(d.len())])?;
            if w.dtype() != x[0].dtype() {
                return Err(Error::runtime(format!(
                    "expected scalar type {} but found {}",
                    x[0].dtype().scalar_type(),
                    w.dtype().scalar_type()
                )));
            }
        }
        Ok(Meta { dims: without(&d, class_dim(d.len())), dtype: x[0].dtype(), device: same_device(x)? })
    }
    fn infer_extra(&self, _: &[&Tensor], first: &Meta, i: usize) -> Meta {
        if i == 1 { first.with_dtype(compute_dtype(first.dtype)) } else { first.with_dims(Dims::EMPTY) }
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let (dtype, d) = (x[0].dtype(), class_dim(x[0].dims().len()));
        let v = widened(x[0])?;
        let w = x.get(2).map(|w| widened(&w.detach())).transpose()?;
        let (_, safe, weight) = self.rows(x[1], w.as_ref(), v.dtype())?;
        let lse = super::reduce::logsumexp(&v, &[d as i64], true)?;
        let surprise = lse.sub(&v)?;
        let at = gather(&surprise, d as i64, &safe.unsqueeze(d as i64)?)?.squeeze(d as i64)?;
        let mut loss = at.mul(&weight)?;
        let smoothing = self.smoothing.get();
        if smoothing != 0.0 {
            let all = match &w {
                Some(w) => surprise.mul(&spread_weight(w, v.dims().len())?)?,
                None => surprise,
            };
            let counts = x[1].ne_scalar(self.ignore_index)?.to_dtype(v.dtype())?;
            let all = all.sum_dim(&[d as i64], false)?.mul(&counts)?.mul_scalar(smoothing / x[0].dims()[d] as f64)?;
            loss = loss.mul_scalar(1.0 - smoothing)?.add(&all)?;
        }
        let total = narrowed(weight.sum()?, dtype)?;
        Ok(smallvec![narrowed(loss, dtype)?, lse.detach().squeeze(d as i64)?, total])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::both(0b11 | (self.weight as u64) << 2, 0b10)
    }
}

impl Fused for CrossEntropyBackward {
    const NAME: &'static str = "cross_entropy_loss_backward";
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        let spec = o.of.spec(x.get(4).map(|w| w.view()));
        let v: Vec<_> = x[..4].iter().map(|t| t.view()).collect();
        kernels::cross_entropy_backward(&v[0], &v[1], &v[2], &v[3], &spec, &mut y[0].view_mut()).map_err(kernel_error)
    });
    const LOWER: Option<LowerFn<Self>> = Some(|o, f, x, y| {
        let d = class_dim(x[1].rank());
        let l = lowered(&o.of, f, &x[1], &x[2]);
        let v = f.convert(&x[1], l.e);
        let zero = f.splat(0.0, &l.full);
        let spread = |f: &mut torchtpu_stablehlo::Func, t: &torchtpu_stablehlo::Value| {
            let t = f.convert(t, l.e);
            f.broadcast_in_dim(&t, &l.full.shape, &l.rows)
        };
        let (g, lse) = (spread(f, &x[0]), spread(f, &x[3]));
        let shifted = f.binary("stablehlo.subtract", &v, &lse);
        let p = f.unary("stablehlo.exponential", &shifted);
        let w = match x.get(4) {
            Some(w) => {
                let w = f.convert(w, l.e);
                f.broadcast_in_dim(&w, &l.full.shape, &[d])
            }
            None => f.splat(1.0, &l.full),
        };
        // The loss takes `a[j]` of each class: its gradient is `p * sum(a) - a`.
        let smoothing = o.of.smoothing.get();
        let mut a = f.select(&l.hit, &w, &zero);
        if smoothing != 0.0 {
            let keep = f.splat(1.0 - smoothing, &l.full);
            a = f.binary("stablehlo.multiply", &a, &keep);
            let share = f.splat(smoothing / x[1].shape()[d] as f64, &l.full);
            let all = f.binary("stablehlo.multiply", &w, &share);
            a = f.binary("stablehlo.add", &a, &all);
        }
        let sum = f.reduce(&a, ReduceKind::Add, &[d]);
        let nan = f.splat(f64::NAN, sum.ty());
        let sum = f.select(&l.wrong, &nan, &sum);
        let sum = f.broadcast_in_dim(&sum, &l.full.shape, &l.rows);
        let ps = f.binary("stablehlo.multiply", &p, &sum);
        let slope = f.binary("stablehlo.subtract", &ps, &a);
        let gx = f.binary("stablehlo.multiply", &g, &slope);
        let gx = f.select(&l.counts, &gx, &zero);
        smallvec![f.convert(&gx, crate::meta::element_type(y[0].dtype))]
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(*x[1].meta())
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let (v, rank) = (widened(x[1])?, x[1].dims().len());
        let d = class_dim(rank);
        let classes = v.dims()[d];
        let spread = |t: &Tensor| -> Result<Tensor> { widened(t)?.unsqueeze(d as i64) };
        let lse = if state::grad_enabled() { super::reduce::logsumexp(&v, &[d as i64], true)? } else { spread(x[3])? };
        let p = v.sub(&lse)?.exp()?;
        let w = x.get(4).map(|w| spread_weight(&widened(w)?, rank)).transpose()?;
        let count =
            Tensor::arange(Scalar::Int(0), Scalar::Int(classes as i64), Scalar::Int(1), DType::I64, v.device())?;
        let class = spread_weight(&count, rank)?;
        let hit = class.eq(&x[2].unsqueeze(d as i64)?)?.to_dtype(v.dtype())?;
        let smoothing = self.of.smoothing.get();
        let mut a = match &w {
            Some(w) => hit.mul(w)?,
            None => hit,
        };
        if smoothing != 0.0 {
            let share = smoothing / classes as f64;
            a = a.mul_scalar(1.0 - smoothing)?;
            a = match &w {
                Some(w) => a.add(&w.mul_scalar(share)?)?,
                None => a.add_scalar(share)?,
            };
        }
        let slope = p.mul(&a.sum_dim(&[d as i64], true)?)?.sub(&a)?;
        let counts = x[2].ne_scalar(self.of.ignore_index)?.unsqueeze(d as i64)?.to_dtype(v.dtype())?;
        let gx = spread(x[0])?.mul(&counts)?.mul(&slope)?;
        Ok(smallvec![narrowed(gx, x[1].dtype())?])
    }
}

/// Targets as the rules want them: bytes become `int64`, and one class for one row of scores loses its dimension.
fn classes_of(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    let target = if target.dtype() == DType::U8 { target.to_dtype(DType::I64)? } else { target.clone() };
    if x.dims().len() == 1 && target.dims()[..] == [1] { target.reshape_dims(Dims::EMPTY) } else { Ok(target) }
}

/// Requires targets of a shape that fits the scores.
fn check_target(x: &Tensor, target: &Tensor) -> Result<()> {
    let (d, td) = (x.dims(), target.dims());
    if d.is_empty() {
        return Err(Error::runtime("input tensor should be 1D or 2D"));
    }
    let want = without(d, class_dim(d.len()));
    if *td == want || d.len() == 1 && td[..] == [1] {
        if matches!(target.dtype(), DType::I64 | DType::U8) {
            return Ok(());
        }
        return Err(Error::runtime(format!(
            "expected target dtype to be Long or Byte, but got {}",
            target.dtype().scalar_type()
        )));
    }
    if d.len() >= 2 && td.first().is_some_and(|n| *n != d[0]) {
        return Err(Error::value(format!(
            "Expected input batch_size ({}) to match target batch_size ({}).",
            d[0], td[0]
        )));
    }
    if d.len() <= 2 {
        return Err(Error::runtime(format!(
            "0D or 1D target tensor expected, multi-target not supported (input of size {d}, target of size {td})"
        )));
    }
    Err(Error::runtime(format!("Expected target size {want}, got {td}")))
}

fn check_weight(w: &Tensor, classes: usize) -> Result<()> {
    if w.dims().len() == 1 && w.numel() == classes {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of shape: {}",
        w.dims()
    )))
}

/// Settings of [`cross_entropy`].
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropyArgs<'a> {
    /// Weight of each class.
    pub weight: Option<&'a Tensor>,
    /// What becomes of the rows' losses.
    pub reduction: Reduction,
    /// Target of rows that do not count.
    pub ignore_index: i64,
    /// How much of the target's probability is spread over all classes.
    pub label_smoothing: f64,
}

/// `torch.nn.functional.cross_entropy`, with class indices or class probabilities as target.
///
/// # Errors
/// `Value` or `Runtime`, in PyTorch's wording, when shapes, dtypes or settings do not fit; `Index` for a target that is no class.
pub fn cross_entropy(x: &Tensor, target: &Tensor, a: &CrossEntropyArgs<'_>) -> Result<Tensor> {
    // What is not positive smooths nothing, as in PyTorch.
    let smoothing = a.label_smoothing.max(0.0);
    if smoothing > 1.0 {
        return Err(Error::runtime(format!("label_smoothing must be between 0.0 and 1.0. Got: {}", a.label_smoothing)));
    }
    if x.dims() == target.dims() && target.dtype().is_float() {
        return soft_cross_entropy(x, target, a);
    }
    let op = CrossEntropy { weight: a.weight.is_some(), ignore_index: a.ignore_index, smoothing: F64::new(smoothing) };
    let target = &classes_of(x, target)?;
    let mut inputs = vec![x, target];
    inputs.extend(a.weight);
    let y = dispatch::call_n(Prim::CrossEntropy(op), &inputs)?;
    if target.device().kind == DeviceKind::Tpu {
        // On `cpu` the kernel looks itself.
        check_targets(target, x.dims()[class_dim(x.dims().len())], a.ignore_index)?;
    }
    match a.reduction {
        Reduction::None => Ok(y[0].clone()),
        Reduction::Sum => y[0].sum(),
        Reduction::Mean => y[0].sum()?.div(&y[2]),
    }
}

fn soft_cross_entropy(x: &Tensor, target: &Tensor, a: &CrossEntropyArgs<'_>) -> Result<Tensor> {
    let rank = x.dims().len();
    if rank == 0 {
        return Err(Error::runtime("input tensor should be 1D or 2D"));
    }
    let d = class_dim(rank);
    let classes = x.dims()[d];
    if a.ignore_index >= 0 {
        return Err(Error::runtime("ignore_index is not supported for floating point target"));
    }
    let e = a.label_smoothing;
    let target = if e > 0.0 { target.mul_scalar(1.0 - e)?.add_scalar(e / classes as f64)? } else { target.clone() };
    let mut terms = x.log_softmax(d as i64)?.mul(&target)?;
    if let Some(w) = a.weight {
        check_weight(w, classes)?;
        terms = terms.mul(&spread_weight(w, rank)?)?;
    }
    match a.reduction {
        Reduction::None => terms.sum_dim(&[d as i64], false)?.neg(),
        Reduction::Sum => terms.sum()?.neg(),
        Reduction::Mean => terms.sum()?.neg()?.div_scalar((x.numel() / classes.max(1)) as f64),
    }
}

/// Refuses targets that are no class: at once where the values are at hand, on a device when the host next reads.
fn check_targets(target: &Tensor, classes: usize, ignore_index: i64) -> Result<()> {
    match target.device().kind {
        DeviceKind::Cpu => {}
        DeviceKind::Tpu if target.numel() > 0 => return defer_targets(target, classes, ignore_index),
        _ => return Ok(()),
    }
    let target = target.contiguous()?;
    let wrong = |t: &&i64| **t != ignore_index && !(0..classes as i64).contains(*t);
    match target.as_slice::<i64>().and_then(|v| v.iter().find(wrong)) {
        Some(t) => Err(Error::index(format!("Target {t} is out of bounds."))),
        None => Ok(()),
    }
}

fn defer_targets(target: &Tensor, classes: usize, ignore_index: i64) -> Result<()> {
    state::no_grad(|| {
        let outside = target.lt_scalar(0)?.logical_or(&target.ge_scalar(classes as i64)?)?;
        let bad = outside.logical_and(&target.ne_scalar(ignore_index)?)?;
        super::indexing::defer_index(&bad, target, |t| Error::index(format!("Target {t} is out of bounds.")))
    })
}

/// `torch.nn.functional.nll_loss`: minus the weighted log-probability of each row's class.
///
/// # Errors
/// As [`cross_entropy`].
pub fn nll_loss(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    r: Reduction,
    ignore_index: i64,
) -> Result<Tensor> {
    check_target(x, target)?;
    let target = &classes_of(x, target)?;
    let d = class_dim(x.dims().len());
    let classes = x.dims()[d];
    if let Some(w) = weight {
        check_weight(w, classes)?;
    }
    expect_float("nll_loss_out_frame", x)?;
    if let Some(w) = weight.filter(|w| w.dtype() != x.dtype()) {
        return Err(Error::runtime(format!(
            "expected scalar type {} but found {}",
            x.dtype().scalar_type(),
            w.dtype().scalar_type()
        )));
    }
    check_targets(target, classes, ignore_index)?;
    let op = CrossEntropy { weight: weight.is_some(), ignore_index, smoothing: F64::new(0.0) };
    let weight = weight.map(Tensor::detach);
    let (counts, safe, row_weight) = op.rows(target, weight.as_ref(), x.dtype())?;
    let at = gather(x, d as i64, &safe.unsqueeze(d as i64)?)?.squeeze(d as i64)?;
    // Zero, not `0 * -inf`, where the row does not count.
    let zero = Tensor::number(Scalar::Float(0.0), x.dtype())?;
    let loss = select(&counts, &at.mul(&row_weight)?.neg()?, &zero)?;
    match r {
        Reduction::None => Ok(loss),
        Reduction::Sum => loss.sum(),
        Reduction::Mean => loss.sum()?.div(&row_weight.sum()?),
    }
}

// ------------------------------------------------------------------------------------------------ element by element

fn float_pair(name: &str, x: &Tensor, t: &Tensor) -> Result<Tensor> {
    let dtype = result_type(Operand::Tensor(x), Operand::Tensor(t));
    if !dtype.is_float() {
        return Err(super::complex::unsupported(name, dtype));
    }
    x.to_dtype(dtype)?.sub(&t.to_dtype(dtype)?)
}

fn smooth_l1(x: &Tensor, target: &Tensor, r: Reduction, beta: f64) -> Result<Tensor> {
    if beta < 0.0 {
        return Err(Error::runtime("smooth_l1_loss does not support negative values for beta."));
    }
    let d = float_pair("smooth_l1_cpu", x, target)?.abs()?;
    if beta == 0.0 {
        return reduced(d, r);
    }
    let near = d.square()?.mul_scalar(0.5 / beta)?;
    reduced(select(&d.lt_scalar(beta)?, &near, &d.sub_scalar(0.5 * beta)?)?, r)
}

fn huber(x: &Tensor, target: &Tensor, r: Reduction, delta: f64) -> Result<Tensor> {
    if delta <= 0.0 {
        return Err(Error::runtime("huber_loss does not support non-positive values for delta."));
    }
    let d = float_pair("huber_cpu", x, target)?.abs()?;
    let far = d.sub_scalar(0.5 * delta)?.mul_scalar(delta)?;
    reduced(select(&d.le_scalar(delta)?, &d.square()?.mul_scalar(0.5)?, &far)?, r)
}

/// `max(log(x), -100)`, whose gradient is finite at zero.
fn bounded_log(x: &Tensor) -> Result<Tensor> {
    let at_zero = x.eq_scalar(0.0)?;
    let log = select_scalar(&at_zero, 1.0, x)?.log()?;
    let low = Some(Operand::Scalar(Scalar::Float(-100.0)));
    clamp(&select_scalar(&at_zero, -100.0, &log)?, low, None)
}

fn binary_cross_entropy(x: &Tensor, target: &Tensor, weight: Option<&Tensor>, r: Reduction) -> Result<Tensor> {
    if x.dims() != target.dims() {
        return Err(Error::value(format!(
            "Using a target size (torch.Size({})) that is different to the input size (torch.Size({})) is deprecated. Please ensure they have the same size.",
            target.dims(),
            x.dims()
        )));
    }
    if target.dtype() != x.dtype() {
        return Err(Error::runtime(format!(
            "Found dtype {} but expected {}",
            target.dtype().scalar_type(),
            x.dtype().scalar_type()
        )));
    }
    expect_float("binary_cross_entropy", x)?;
    state::no_grad(|| -> Result<()> {
        let x = x.detach();
        let outside = x.ge_scalar(0.0)?.logical_and(&x.le_scalar(1.0)?)?.logical_not()?;
        let error = || Error::runtime("all elements of input should be between 0 and 1");
        if x.device().kind == DeviceKind::Tpu {
            return super::indexing::defer(&outside, error().in_op("binary_cross_entropy"));
        }
        match outside.to_dtype(DType::I64)?.sum()?.scalar_bits() {
            Some(n) if n != 0 => Err(error()),
            _ => Ok(()),
        }
    })?;
    let one_less = |t: &Tensor| t.neg()?.add_scalar(1.0);
    let loss = target.mul(&bounded_log(x)?)?.add(&one_less(target)?.mul(&bounded_log(&one_less(x)?)?)?)?.neg()?;
    reduced(
        match weight {
            Some(w) => loss.mul(w)?,
            None => loss,
        },
        r,
    )
}

fn binary_cross_entropy_with_logits(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    r: Reduction,
) -> Result<Tensor> {
    if x.dims() != target.dims() {
        return Err(Error::value(format!(
            "Target size (torch.Size({})) must be the same as input size (torch.Size({}))",
            target.dims(),
            x.dims()
        )));
    }
    if target.dtype() == DType::Bool {
        check_subtraction(Operand::Tensor(target), Operand::Tensor(target))?;
    }
    let mut log = log_sigmoid(x)?;
    if let Some(p) = pos_weight {
        log = log.mul(&p.sub_scalar(1.0)?.mul(target)?.add_scalar(1.0)?)?;
    }
    let loss = target.neg()?.add_scalar(1.0)?.mul(x)?.sub(&log)?;
    reduced(
        match weight {
            Some(w) => loss.mul(w)?,
            None => loss,
        },
        r,
    )
}

fn kl_div(x: &Tensor, target: &Tensor, r: Reduction, log_target: bool) -> Result<Tensor> {
    for t in [x, target] {
        super::complex::refuse(t, crate::ErrorKind::Runtime, "kl_div: Complex inputs not supported.")?;
    }
    if !x.dtype().is_float() || !target.dtype().is_float() {
        return Err(Error::runtime("kl_div: Integral inputs not supported."));
    }
    if log_target {
        return reduced(target.exp()?.mul(&target.sub(x)?)?, r);
    }
    // `t log t` is zero at zero.
    let at_zero = target.eq_scalar(0.0)?;
    let own = target.mul(&select_scalar(&at_zero, 1.0, target)?.log()?)?;
    reduced(own.sub(&target.mul(x)?)?, r)
}

/// `torch.cosine_similarity` along a dimension.
///
/// # Errors
/// `Index` for a wrong dimension, `Runtime` when sizes do not broadcast.
pub fn cosine_similarity(a: &Tensor, b: &Tensor, dim: i64, eps: f64) -> Result<Tensor> {
    for t in [a, b] {
        if !t.dtype().is_float() {
            return Err(Error::runtime("expected common dtype to be floating point, yet common dtype is Long"));
        }
    }
    let dims = crate::op::broadcast_dims(a.dims(), b.dims())?;
    let (a, b) = (a.expand_dims(&dims)?, b.expand_dims(&dims)?);
    let unit = |x: &Tensor| -> Result<Tensor> {
        let norm = super::pointwise::safe_sqrt(&x.square()?.sum_dim(&[dim], true)?)?;
        x.div(&clamp(&norm, Some(Operand::Scalar(Scalar::Float(eps))), None)?)
    };
    unit(&a)?.mul(&unit(&b)?)?.sum_dim(&[dim], false)
}

fn cosine_embedding(a: &Tensor, b: &Tensor, target: &Tensor, margin: f64, r: Reduction) -> Result<Tensor> {
    const EPS: f64 = 1e-12;
    let (rank, want) = (target.dims().len(), a.dims().len() - target.dims().len().min(a.dims().len()));
    if a.dims() != b.dims() || want != 1 {
        return Err(Error::runtime(format!(
            "{rank}D target tensor expects {}D input tensors, but found inputs with sizes {} and {}.",
            rank + 1,
            a.dims(),
            b.dims()
        )));
    }
    let d = [rank as i64];
    let sum = |x: Tensor| x.sum_dim(&d, false);
    let size = sum(a.square()?)?.add_scalar(EPS)?.mul(&sum(b.square()?)?.add_scalar(EPS)?)?.sqrt()?;
    let cos = sum(a.mul(b)?)?.div(&size)?;
    let apart = clamp(&cos.sub_scalar(margin)?, Some(Operand::Scalar(Scalar::Float(0.0))), None)?;
    let zero = Tensor::number(Scalar::Float(0.0), cos.dtype())?;
    let alike = select(&target.eq_scalar(1i64)?, &cos.neg()?.add_scalar(1.0)?, &zero)?;
    reduced(alike.add(&select(&target.eq_scalar(-1i64)?, &apart, &zero)?)?, r)
}

fn margin_ranking(a: &Tensor, b: &Tensor, target: &Tensor, margin: f64, r: Reduction) -> Result<Tensor> {
    let z = target.neg()?.mul(&a.sub(b)?)?.add_scalar(margin)?;
    reduced(clamp(&z, Some(Operand::Scalar(Scalar::Float(0.0))), None)?, r)
}

fn none() -> SampleArg {
    SampleArg::Default
}

fn nll_samples() -> Vec<Sample> {
    vec![
        Sample::new(vec![t(&[3, 5]), index(&[3], 5)]),
        Sample::new(vec![t(&[2, 4, 3]), index(&[2, 3], 4), none(), n(0)]),
        Sample::new(vec![t(&[3, 5]), index(&[3], 5), none(), n(2), n(1)]),
        Sample::new(vec![t(&[3, 5]), index(&[3], 5), positive(&[5])]).no_gradient(),
    ]
}

/// Rows of the losses.
pub const ROWS: &[Row] = &[
    Row::new("cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100, float label_smoothing=0.0) -> Tensor", Tier::Fused, |a| {
        let args = CrossEntropyArgs { weight: a.opt_tensor(2)?, reduction: Reduction::from_int(a.int(3)?)?, ignore_index: a.int(4)?, label_smoothing: a.float(5)? };
        ok(cross_entropy(a.tensor(0)?, a.tensor(1)?, &args)?)
    }, || vec![
        Sample::new(vec![t(&[3, 5]), index(&[3], 5)]).dtypes(&[DType::F64, DType::BF16]),
        Sample::new(vec![t(&[2, 4, 3]), index(&[2, 3], 4), none(), n(0)]),
        Sample::new(vec![t(&[5]), index(&[], 5), none(), n(2)]),
        Sample::new(vec![t(&[3, 5]), index(&[3], 5), none(), n(1), n(1), n(0.2)]),
        Sample::new(vec![t(&[3, 5]), index(&[3], 5), positive(&[5]), n(1), n(-100), n(0.2)]).no_gradient(),
        Sample::new(vec![t(&[3, 5]), positive(&[3, 5])]),
    ]).scope(Scope::Nn),
    Row::new("nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100) -> Tensor", Tier::Composed, |a| ok(nll_loss(a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2)?, Reduction::from_int(a.int(3)?)?, a.int(4)?)?), nll_samples).scope(Scope::Nn),
    Row::new("nll_loss2d(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100) -> Tensor", Tier::Composed, |a| ok(nll_loss(a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2)?, Reduction::from_int(a.int(3)?)?, a.int(4)?)?), samples!([t(&[2, 3, 2, 2]), index(&[2, 2, 2], 3)])).scope(Scope::Nn),
    Row::new("nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100) -> Tensor", Tier::Composed, |a| ok(nll_loss(a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2)?, Reduction::from_int(a.int(3)?)?, a.int(4)?)?), nll_samples).scope(Scope::Nn),
    Row::new("mse_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor", Tier::Composed, |a| ok(reduced(float_pair("mse_cpu", a.tensor(0)?, a.tensor(1)?)?.square()?, Reduction::from_int(a.int(2)?)?)?), samples!([t(&[2, 3]), positive(&[2, 3])], [t(&[2, 3]), positive(&[2, 3]), n(0)])).scope(Scope::Nn),
    Row::new("l1_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor", Tier::Composed, |a| ok(reduced(float_pair("l1_cpu", a.tensor(0)?, a.tensor(1)?)?.abs()?, Reduction::from_int(a.int(2)?)?)?), samples!([t(&[2, 3]), positive(&[2, 3]), n(2)])).scope(Scope::Nn),
    Row::new("smooth_l1_loss(Tensor self, Tensor target, int reduction=Mean, float beta=1.0) -> Tensor", Tier::Composed, |a| ok(smooth_l1(a.tensor(0)?, a.tensor(1)?, Reduction::from_int(a.int(2)?)?, a.float(3)?)?), samples!([t(&[2, 3]), positive(&[2, 3])], [t(&[2, 3]), positive(&[2, 3]), n(0), n(0.5)])).scope(Scope::Nn),
    Row::new("huber_loss(Tensor self, Tensor target, int reduction=Mean, float delta=1.0) -> Tensor", Tier::Composed, |a| ok(huber(a.tensor(0)?, a.tensor(1)?, Reduction::from_int(a.int(2)?)?, a.float(3)?)?), samples!([t(&[2, 3]), positive(&[2, 3])], [t(&[2, 3]), positive(&[2, 3]), n(2), n(0.5)])).scope(Scope::Nn),
    Row::new("binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean) -> Tensor", Tier::Composed, |a| ok(binary_cross_entropy(a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2)?, Reduction::from_int(a.int(3)?)?)?), bce_samples).scope(Scope::Nn),
    Row::new("binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=Mean) -> Tensor", Tier::Composed, |a| ok(binary_cross_entropy_with_logits(a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2)?, a.opt_tensor(3)?, Reduction::from_int(a.int(4)?)?)?), samples!([t(&[2, 3]), positive(&[2, 3])], [t(&[2, 3]), unit(&[2, 3]), positive(&[3]), positive(&[3]), n(2)])).scope(Scope::Function),
    Row::new("kl_div(Tensor self, Tensor target, int reduction=Mean, *, bool log_target=False) -> Tensor", Tier::Composed, |a| ok(kl_div(a.tensor(0)?, a.tensor(1)?, Reduction::from_int(a.int(2)?)?, a.bool(3)?)?), samples!([t(&[2, 3]), positive(&[2, 3])], [t(&[2, 3]), t(&[2, 3]), n(2), n(true)])).scope(Scope::Function),
    Row::new("cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor", Tier::Composed, |a| ok(cosine_similarity(a.tensor(0)?, a.tensor(1)?, a.int(2)?, a.float(3)?)?), samples!([t(&[2, 3]), positive(&[2, 3])], [t(&[2, 3]), positive(&[1, 3]), n(0)])).scope(Scope::Function),
    Row::new("cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=Mean) -> Tensor", Tier::Composed, |a| ok(cosine_embedding(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.float(3)?, Reduction::from_int(a.int(4)?)?)?), samples!([t(&[2, 3]), positive(&[2, 3]), index(&[2], 2)])).scope(Scope::Function),
    Row::new("margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=Mean) -> Tensor", Tier::Composed, |a| ok(margin_ranking(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.float(3)?, Reduction::from_int(a.int(4)?)?)?), samples!([t(&[4]), positive(&[4]), t(&[4]), n(0.3)])).scope(Scope::Function),
];

fn bce_samples() -> Vec<Sample> {
    vec![
        Sample::new(vec![probability(&[2, 3]), probability(&[2, 3])]),
        Sample::new(vec![probability(&[2, 3]), probability(&[2, 3]), t(&[3]), n(2)]),
        Sample::new(vec![probability(&[0, 3]), probability(&[0, 3])]),
    ]
}
