//! Cross entropy, and the likelihood that it is composed of.

use super::Reduction;
use crate::axes::{Axes, Combine, names};
use crate::lower::fields::fields;
use crate::lower::kernel_call::{self, KernelCall, message, misfit};
use crate::op::{F64, Facts, Fused, Grads, KernelFn, LowerFn, Outs, Prim, Saves, VjpFn, same_device};
use crate::ops::indexing::{gather, index_select};
use crate::ops::pointwise::{kernel_error, select};
use crate::policy::{Policies, Policy};
use crate::types::compute::{compute_dtype, expect_float, narrowed, widened};
use crate::{DType, Dims, Error, Held, Meta, Result, Scalar, Tensor, dispatch, state};
use smallvec::smallvec;
use torchtpu_kernels::loss as kernels;
use torchtpu_kernels::{KernelError, View, ViewMut, copy};
use torchtpu_stablehlo::{Direction, ElementType, ReduceKind, Type};

/// Cross entropy of logits with class indices, one loss for each row: `(1 - e) w[t] (lse - x[t]) + e / c * sum_j w[j]
/// (lse - x[j])`.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[n, c, *]` or `[c]` | floating point |
/// | target | x without c | `int64` |
/// | w | `[c]`, optional | as x |
/// | loss | as target | that of arithmetic |
/// | lse | as target | that of arithmetic |
/// | total | 0-d: sum of `w[t]` of rows that count | that of arithmetic |
///
/// Rows whose target is `ignore_index` have a loss of zero. A target that is no class raises an error on `cpu`. A
/// compiled program cannot raise, so there the row's loss is NaN. Saves x, target, w and lse.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CrossEntropy {
    /// Whether classes have weights.
    pub weight: bool,
    /// Target of rows to ignore.
    pub ignore_index: i64,
    /// The part of the target's probability that is spread over all classes.
    pub smoothing: F64,
}

/// Gradient of [`CrossEntropy`] for x, from `g, x, target, lse[, w]`, where `g` has the shape of the loss.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CrossEntropyBackward {
    /// The op whose gradient this is.
    pub of: CrossEntropy,
}

/// The dimension of the classes.
fn class_dim(rank: usize) -> usize {
    (rank > 1) as usize
}

/// The dimensions of `x`, whose classes are whole, and those of its rows.
fn class_text(rank: usize) -> (String, String) {
    let mut dims: Vec<String> = names("d", rank).collect();
    dims[class_dim(rank)] = "_".into();
    let rows: Vec<&str> = dims.iter().map(String::as_str).filter(|d| *d != "_").collect();
    (dims.join(" "), rows.join(" "))
}

fn without(dims: &Dims, d: usize) -> Dims {
    let mut r = *dims;
    r.remove(d);
    r
}

/// Weights of classes, reshaped to broadcast over x.
fn spread_weight(w: &Tensor, rank: usize) -> Result<Tensor> {
    w.reshape_dims(Dims::filled(1, rank).with(class_dim(rank), w.numel()))
}

impl CrossEntropy {
    fn spec<'a>(&self, weight: Option<View<'a>>) -> kernels::CrossEntropy<'a> {
        kernels::CrossEntropy {
            weight,
            ignore_index: self.ignore_index,
            label_smoothing: self.smoothing.get(),
            wrong_is_nan: false,
        }
    }
    /// Write `loss` and `lse` and return the total weight. As in a compiled program, a target that is no class gives
    /// NaN.
    pub(crate) fn run(
        &self,
        x: &[View<'_>],
        [loss, lse]: [&mut ViewMut<'_>; 2],
    ) -> std::result::Result<f64, KernelError> {
        let spec = kernels::CrossEntropy { wrong_is_nan: true, ..self.spec(x.get(2).copied()) };
        kernels::cross_entropy(&x[0], &x[1], &spec, loss, lse)
    }
    /// The rows that count, their targets (zero for the others), and the weight of each row.
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
pub(crate) fn select_int(cond: &Tensor, x: &Tensor, other: i64) -> Result<Tensor> {
    select(cond, x, &Tensor::number(Scalar::Int(other), x.dtype())?)
}

/// StableHLO pieces that forward and gradient share.
struct Lowered {
    /// Element type of the arithmetic.
    e: ElementType,
    /// Full shape, in the element type of the arithmetic.
    full: Type,
    /// Whether the class is the row's target.
    hit: torchtpu_stablehlo::Value,
    /// The rows that count, broadcast to the full shape.
    counts: torchtpu_stablehlo::Value,
    /// The rows whose target is neither a class nor ignored, without the class dimension.
    wrong: torchtpu_stablehlo::Value,
    /// The rows that count and whose target is a class, without the class dimension, unless the compiler `fuses_sums`.
    inside: Option<torchtpu_stablehlo::Value>,
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
    let e = x.element().widened();
    let full = Type::new(x.shape(), e);
    let rows: Vec<usize> = (0..rank).filter(|&i| i != d).collect();
    let classes = x.shape()[d];
    let is_narrow = !f.profile().has_int64 && i32::try_from(classes).is_ok();
    let (class, narrow) = if is_narrow {
        // Accelerators have no 64-bit integers. Targets that are no classes stay out of range.
        let (below, above) = (f.scalar_i64(-1, target.element()), f.scalar_i64(classes as i64, target.element()));
        let bounded = f.clamp(&below, target, &above);
        (ElementType::S32, f.convert(&bounded, ElementType::S32))
    } else {
        (ElementType::S64, target.clone())
    };
    let class = f.iota(&full.with_element(class), d);
    let spread = f.broadcast_in_dim(&narrow, x.shape(), &rows);
    let hit = f.compare(Direction::Eq, &class, &spread);
    let ignored = f.splat_i64(o.ignore_index, target.ty());
    let ignored = f.compare(Direction::Eq, target, &ignored);
    let counted = f.unary("stablehlo.not", &ignored);
    let counts = f.broadcast_in_dim(&counted, x.shape(), &rows);
    let (zero, end) = (f.splat_i64(0, target.ty()), f.splat_i64(x.shape()[d] as i64, target.ty()));
    let (below, above) = (f.compare(Direction::Lt, target, &zero), f.compare(Direction::Ge, target, &end));
    let outside = f.binary("stablehlo.or", &below, &above);
    let wrong = f.binary("stablehlo.and", &outside, &counted);
    let inside = (!f.profile().fuses_sums).then(|| {
        let inside = f.unary("stablehlo.not", &outside);
        f.binary("stablehlo.and", &inside, &counted)
    });
    Lowered { e, full, hit, counts, wrong, inside, rows }
}

impl CrossEntropyBackward {
    /// Write the gradient from `g, x, target, lse[, w]`. As in a compiled program, a target that is no class gives NaN.
    pub(crate) fn run(&self, x: &[View<'_>], gx: &mut ViewMut<'_>) -> std::result::Result<(), KernelError> {
        let spec = kernels::CrossEntropy { wrong_is_nan: true, ..self.of.spec(x.get(4).copied()) };
        kernels::cross_entropy_backward(&x[0], &x[1], &x[2], &x[3], &spec, gx)
    }
}

fields! {
    CrossEntropy { weight, ignore_index, smoothing };
    CrossEntropyBackward { of };
}

impl KernelCall for CrossEntropy {
    fn name() -> &'static str {
        "cross_entropy"
    }
    fn arity(&self) -> (usize, usize) {
        (2 + usize::from(self.weight), 3)
    }
    fn compute(&self, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> std::result::Result<(), String> {
        let [loss, lse, total] = y else { return Err(misfit(self)) };
        let weight = self.run(x, [loss, lse]).map_err(message)?;
        copy::fill(total, copy::Scalar::Float(weight));
        Ok(())
    }
}

impl KernelCall for CrossEntropyBackward {
    fn name() -> &'static str {
        "cross_entropy_backward"
    }
    fn arity(&self) -> (usize, usize) {
        (4 + usize::from(self.of.weight), 1)
    }
    fn compute(&self, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> std::result::Result<(), String> {
        let [gx] = y else { return Err(misfit(self)) };
        self.run(x, gx).map_err(message)
    }
}

impl Fused for CrossEntropy {
    const NAME: &'static str = "cross_entropy_loss";
    const FACTS: Facts = Facts { autocast: Policies::both(Policy::Full), ..Facts::NONE };
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
    // A comparison selects the target's logit, because it fuses with the sums. A gather would read the logits once
    // more.
    const LOWER: Option<LowerFn<Self>> = Some(|o, f, x, y| {
        if kernel_call::is_profitable(f, x[0].element(), x[0].ty().numel()) {
            return o.call_kernel(f, x, y);
        }
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
        // `log p`, weighted by the loss's coefficient of each class.
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
        let row_weight = match (&l.inside, x.get(2)) {
            // This is known without a pass over all classes.
            (Some(inside), None) => f.convert(inside, l.e),
            _ => {
                let picked = f.select(&l.hit, &w, &zero);
                let picked = f.select(&l.counts, &picked, &zero);
                f.reduce(&picked, ReduceKind::Add, &[d])
            }
        };
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
        smallvec![loss, lse, total]
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
        let dtype = compute_dtype(x[0].dtype());
        Ok(Meta { dims: without(&d, class_dim(d.len())), dtype, place: same_device(x)? })
    }
    fn infer_extra(&self, _: &[&Tensor], first: &Meta, i: usize) -> Meta {
        if i == 1 { *first } else { first.with_dims(Dims::EMPTY) }
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let (logits, rows) = class_text(x[0].dims.len());
        let mut axes = Axes::parse(&format!("{logits}, {rows}, _ -> {rows}, {rows}, "), x, y);
        for row in rows.split_whitespace() {
            axes = axes.reduces(row, Combine::Sum);
        }
        axes
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let d = class_dim(x[0].dims().len());
        let v = widened(x[0])?;
        let w = x.get(2).map(|w| widened(&w.detach())).transpose()?;
        let (_, safe, weight) = self.rows(x[1], w.as_ref(), v.dtype())?;
        let lse = crate::ops::reduce::logsumexp(&v, &[d as i64], true)?;
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
        Ok(smallvec![loss, lse.detach().squeeze(d as i64)?, weight.sum()?])
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
        if kernel_call::is_profitable(f, x[1].element(), x[1].ty().numel()) {
            return o.call_kernel(f, x, y);
        }
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
        // The loss is `-sum(a[j] log p[j])`, so its gradient is `p * sum(a) - a`.
        let smoothing = o.of.smoothing.get();
        let mut a = f.select(&l.hit, &w, &zero);
        if smoothing != 0.0 {
            let keep = f.splat(1.0 - smoothing, &l.full);
            a = f.binary("stablehlo.multiply", &a, &keep);
            let share = f.splat(smoothing / x[1].shape()[d] as f64, &l.full);
            let all = f.binary("stablehlo.multiply", &w, &share);
            a = f.binary("stablehlo.add", &a, &all);
        }
        let sum = match (&l.inside, x.get(4)) {
            // Without weights the sum is one for each row that counts. Other rows get no gradient.
            (Some(_), None) => f.splat(1.0, &x[3].ty().with_element(l.e)),
            _ => f.reduce(&a, ReduceKind::Add, &[d]),
        };
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
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let (logits, rows) = class_text(x[1].dims.len());
        Axes::parse(&format!("{rows}, {logits}, {rows}, {rows}, _ -> {logits}"), x, y).linear(&[0b1])
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let (v, rank) = (widened(x[1])?, x[1].dims().len());
        let d = class_dim(rank);
        let classes = v.dims()[d];
        let spread = |t: &Tensor| -> Result<Tensor> { widened(t)?.unsqueeze(d as i64) };
        let lse =
            if state::grad_enabled() { crate::ops::reduce::logsumexp(&v, &[d as i64], true)? } else { spread(x[3])? };
        let p = v.sub(&lse)?.exp()?;
        let w = x.get(4).map(|w| spread_weight(&widened(w)?, rank)).transpose()?;
        let count = Tensor::arange(Scalar::Int(0), Scalar::Int(classes as i64), Scalar::Int(1), DType::I64, v.place())?;
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

/// Targets in the form for the rules: bytes become `int64`, and one class for one row of scores loses its dimension.
fn classes_of(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    let target = if target.dtype() == DType::U8 { target.to_dtype(DType::I64)? } else { target.clone() };
    if x.dims().len() == 1 && target.dims()[..] == [1] { target.reshape_dims(Dims::EMPTY) } else { Ok(target) }
}

/// Refuse targets whose shape does not fit the scores.
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
        return Err(Error::runtime("0D or 1D target tensor expected, multi-target not supported"));
    }
    Err(Error::runtime(format!("Expected target size {want}, got {td}")))
}

fn check_weight(w: &Tensor, classes: usize) -> Result<()> {
    if w.dims().len() == 1 && w.numel() == classes {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of \
        shape: {}",
        w.dims()
    )))
}

/// Settings of [`cross_entropy`].
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropyArgs<'a> {
    /// Weight of each class.
    pub weight: Option<&'a Tensor>,
    /// The reduction of the rows' losses.
    pub reduction: Reduction,
    /// Target of rows to ignore.
    pub ignore_index: i64,
    /// The part of the target's probability that is spread over all classes.
    pub label_smoothing: f64,
}

/// `torch.nn.functional.cross_entropy`, for targets that are class indices or class probabilities.
///
/// # Errors
/// `Value` or `Runtime`, in PyTorch's wording, when shapes, dtypes or settings do not fit; `Index` for a target that is
/// no class.
pub fn cross_entropy(x: &Tensor, target: &Tensor, a: &CrossEntropyArgs<'_>) -> Result<Tensor> {
    // As in PyTorch, a smoothing that is not positive has no effect.
    let smoothing = a.label_smoothing.max(0.0);
    if smoothing > 1.0 {
        return Err(Error::runtime(format!("label_smoothing must be between 0.0 and 1.0. Got: {}", a.label_smoothing)));
    }
    if x.dims() == target.dims() && target.dtype().is_float() {
        return soft_cross_entropy(x, target, a);
    }
    let op = CrossEntropy { weight: a.weight.is_some(), ignore_index: a.ignore_index, smoothing: F64::new(smoothing) };
    let mut target = classes_of(x, target)?;
    if target.place().has_handle() && !x.dims().is_empty() {
        // On `cpu` the kernel checks the targets.
        target = checked_targets(&target, x.dims()[class_dim(x.dims().len())], a.ignore_index)?;
    }
    let mut inputs = vec![x, &target];
    inputs.extend(a.weight);
    let y = dispatch::call_n(Prim::CrossEntropy(op), &inputs)?;
    let loss = match a.reduction {
        Reduction::None => y[0].clone(),
        Reduction::Sum => y[0].sum()?,
        Reduction::Mean => mean(&y[0], &y[2])?,
    };
    narrowed(loss, x.dtype())
}

/// The sum of the losses over the total weight. The sum of 16-bit losses may leave the range.
fn mean(loss: &Tensor, total: &Tensor) -> Result<Tensor> {
    narrowed(widened(loss)?.sum()?.div(total)?, loss.dtype())
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
    if x.dtype().is_half() && target.dtype() == x.dtype() && a.weight.is_none_or(|w| w.dtype() == x.dtype()) {
        let weight = a.weight.map(widened).transpose()?;
        let a = CrossEntropyArgs { weight: weight.as_ref(), ..*a };
        return narrowed(soft_cross_entropy(&widened(x)?, &widened(target)?, &a)?, x.dtype());
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

/// Return the targets. Refuse those that are no class, or on a device, tie the targets to the error.
fn checked_targets(target: &Tensor, classes: usize, ignore_index: i64) -> Result<Tensor> {
    match target.place().held() {
        Held::Memory => {}
        // The loss refuses targets of other dtypes itself.
        Held::Handle if target.numel() > 0 && target.dtype().is_int() => {
            return defer_targets(target, classes, ignore_index);
        }
        _ => return Ok(target.clone()),
    }
    let given = target;
    let target = target.contiguous()?;
    let wrong = |t: &&i64| **t != ignore_index && !(0..classes as i64).contains(*t);
    match target.as_slice::<i64>().and_then(|v| v.iter().find(wrong)) {
        Some(t) => Err(Error::index(format!("Target {t} is out of bounds."))),
        None => Ok(given.clone()),
    }
}

fn defer_targets(target: &Tensor, classes: usize, ignore_index: i64) -> Result<Tensor> {
    state::no_grad(|| {
        let outside = target.lt_scalar(0)?.logical_or(&target.ge_scalar(classes as i64)?)?;
        let bad = outside.logical_and(&target.ne_scalar(ignore_index)?)?;
        let error = |t| Error::index(format!("Target {t} is out of bounds."));
        crate::ops::indexing::defer_index(&bad, target, error)?.tied(target)
    })
}

/// `torch.nn.functional.nll_loss`: minus the weighted log-probability of each row's class.
///
/// # Errors
/// The errors of [`cross_entropy`].
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
    let target = &checked_targets(target, classes, ignore_index)?;
    let op = CrossEntropy { weight: weight.is_some(), ignore_index, smoothing: F64::new(0.0) };
    let weight = weight.map(|w| widened(&w.detach())).transpose()?;
    let wide = compute_dtype(x.dtype());
    let (counts, safe, row_weight) = op.rows(target, weight.as_ref(), wide)?;
    let at = widened(&gather(x, d as i64, &safe.unsqueeze(d as i64)?)?.squeeze(d as i64)?)?;
    // Zero, not `0 * -inf`, for rows that do not count.
    let zero = Tensor::number(Scalar::Float(0.0), wide)?;
    let loss = select(&counts, &at.mul(&row_weight)?.neg()?, &zero)?;
    let loss = match r {
        Reduction::None => loss,
        Reduction::Sum => loss.sum()?,
        Reduction::Mean => loss.sum()?.div(&row_weight.sum()?)?,
    };
    narrowed(loss, x.dtype())
}
