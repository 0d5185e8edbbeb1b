//! Losses.
//!
//! Cross entropy of class indices is fused: it saves the log-sum-exp of each row instead of the probabilities. The
//! others are compositions, which all end in [`reduced`].

mod cross_entropy;
mod ctc;
mod margin;

use super::ok;
use crate::formula::by_formula;
use crate::op::Grads;
use crate::ops::activation::log_sigmoid;
use crate::ops::pointwise::clip::clamp;
use crate::ops::pointwise::{check_subtraction, result_type, select, select_scalar};
use crate::policy::{Policies, Policy};
use crate::schema::{
    Args, Operand, Row, Sample, SampleArg, Scope, Tier, index, n, positive, probability, t, unit, widely,
};
use crate::types::compute::{expect_float, narrowed, widened};
use crate::{DType, Error, Result, Scalar, Tensor, samples, state};
pub(super) use cross_entropy::select_int;
pub use cross_entropy::{CrossEntropy, CrossEntropyArgs, CrossEntropyBackward, cross_entropy, nll_loss};
pub use ctc::{CtcArgs, CtcLoss, CtcLossBackward, Trellis, ctc_loss};
pub use margin::ROWS as MARGIN_ROWS;
use smallvec::smallvec;

/// The reduction of the losses of all elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduction {
    /// No reduction.
    None,
    /// Their mean.
    Mean,
    /// Their sum.
    Sum,
}

impl Reduction {
    /// The reduction with aten's number.
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

fn float_pair(name: &str, x: &Tensor, t: &Tensor) -> Result<Tensor> {
    let dtype = result_type(Operand::Tensor(x), Operand::Tensor(t));
    if !dtype.is_float() {
        return Err(super::complex::unsupported(name, dtype));
    }
    x.to_dtype(dtype)?.sub(&t.to_dtype(dtype)?)
}

/// The gradients of `x` and `target` of a loss whose slope is `near` times their difference up to `edge`, and `far`
/// with the sign of the difference from there on. They stay finite if the difference is infinite.
fn clipped_vjp(x: &[Tensor], g: &Tensor, needs: u64, edge: f64, near: f64, far: f64) -> Result<Grads> {
    let d = float_pair("clipped", &x[0], &x[1])?;
    let outside = d.detach().abs()?.ge_scalar(edge)?;
    let inner = select_scalar(&outside, 0.0, &d)?.mul_scalar(near)?;
    let d = g.mul(&select(&outside, &d.detach().sign()?.mul_scalar(far)?, &inner)?)?;
    Ok(smallvec![
        if needs & 1 != 0 { Some(narrowed(d.clone(), x[0].dtype())?) } else { None },
        if needs & 2 != 0 { Some(narrowed(d.neg()?, x[1].dtype())?) } else { None }
    ])
}

fn smooth_l1(x: &Tensor, target: &Tensor, r: Reduction, beta: f64) -> Result<Tensor> {
    if beta < 0.0 {
        return Err(Error::runtime("smooth_l1_loss does not support negative values for beta."));
    }
    if beta == 0.0 {
        return reduced(float_pair("smooth_l1_cpu", x, target)?.abs()?, r);
    }
    let forward = || -> Result<Tensor> {
        let d = float_pair("smooth_l1_cpu", x, target)?.abs()?;
        let near = d.square()?.mul_scalar(0.5 / beta)?;
        select(&d.lt_scalar(beta)?, &near, &d.sub_scalar(0.5 * beta)?)
    };
    let rule = move |x: &[Tensor], g: &Tensor, needs| clipped_vjp(x, g, needs, beta, 1.0 / beta, 1.0);
    reduced(by_formula("SmoothL1LossBackward0", &[x, target], forward, rule)?, r)
}

fn huber(x: &Tensor, target: &Tensor, r: Reduction, delta: f64) -> Result<Tensor> {
    if delta <= 0.0 {
        return Err(Error::runtime("huber_loss does not support non-positive values for delta."));
    }
    let forward = || -> Result<Tensor> {
        let d = float_pair("huber_cpu", x, target)?.abs()?;
        let far = d.sub_scalar(0.5 * delta)?.mul_scalar(delta)?;
        select(&d.le_scalar(delta)?, &d.square()?.mul_scalar(0.5)?, &far)
    };
    let rule = move |x: &[Tensor], g: &Tensor, needs| clipped_vjp(x, g, needs, delta, 1.0, delta);
    reduced(by_formula("HuberLossBackward0", &[x, target], forward, rule)?, r)
}

/// `(t - 1) max(log(1 - x), -100) - t max(log(x), -100)`.
fn binary_entropy(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    let (v, t) = (widened(x)?, widened(target)?);
    let bounded = |log: Tensor| clamp(&log, Some(Operand::Scalar(Scalar::Float(-100.0))), None);
    let (yes, no) = (bounded(v.log()?)?, bounded(v.neg()?.log1p()?)?);
    narrowed(t.sub_scalar(1.0)?.mul(&no)?.sub(&t.mul(&yes)?)?, x.dtype())
}

/// Gradients of [`binary_entropy`]. That of `x` is large at 0 and 1 but finite, so that a wrong prediction can change.
fn binary_entropy_vjp(x: &[Tensor], g: &Tensor, needs: u64) -> Result<Grads> {
    const EPS: f64 = 1e-12;
    let (v, t, g) = (widened(&x[0])?, widened(&x[1])?, widened(g)?);
    let one_less = v.neg()?.add_scalar(1.0)?;
    let of_x = || -> Result<Tensor> {
        let variance = clamp(&one_less.mul(&v)?, Some(Operand::Scalar(Scalar::Float(EPS))), None)?;
        narrowed(g.mul(&v.sub(&t)?)?.div(&variance)?, x[0].dtype())
    };
    let of_target = || narrowed(g.mul(&v.neg()?.log1p()?.sub(&v.log()?)?)?, x[1].dtype());
    Ok(smallvec![
        if needs & 1 != 0 { Some(of_x()?) } else { None },
        if needs & 2 != 0 { Some(of_target()?) } else { None }
    ])
}

fn binary_cross_entropy(x: &Tensor, target: &Tensor, weight: Option<&Tensor>, r: Reduction) -> Result<Tensor> {
    if x.dims() != target.dims() {
        return Err(Error::value(format!(
            "Using a target size (torch.Size({})) that is different to the input size (torch.Size({})) is deprecated. \
            Please ensure they have the same size.",
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
    let outside = state::no_grad(|| {
        let x = x.detach();
        x.ge_scalar(0.0)?.logical_and(&x.le_scalar(1.0)?)?.logical_not()
    })?;
    let error = Error::runtime("all elements of input should be between 0 and 1");
    let x = &if x.place().has_handle() {
        state::no_grad(|| super::indexing::defer(&outside, error.in_op("binary_cross_entropy")))?.tied(x)?
    } else {
        match state::no_grad(|| outside.to_dtype(DType::I64)?.sum())?.scalar_bits() {
            Some(n) if n != 0 => return Err(error),
            _ => x.clone(),
        }
    };
    let forward = || binary_entropy(x, target);
    let loss = by_formula("BinaryCrossEntropyBackward0", &[x, target], forward, binary_entropy_vjp)?;
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
    let forward = || -> Result<Tensor> {
        let mut log = log_sigmoid(x)?;
        if let Some(p) = pos_weight {
            log = log.mul(&p.sub_scalar(1.0)?.mul(target)?.add_scalar(1.0)?)?;
        }
        target.neg()?.add_scalar(1.0)?.mul(x)?.sub(&log)
    };
    let mut operands = vec![x, target];
    operands.extend(pos_weight);
    let loss = by_formula("BinaryCrossEntropyWithLogitsBackward0", &operands, forward, logits_vjp)?;
    reduced(
        match weight {
            Some(w) => loss.mul(w)?,
            None => loss,
        },
        r,
    )
}

/// Gradients of the binary cross entropy of logits. The slope `sigmoid(x) - t` keeps its digits for large negative `x`.
fn logits_vjp(x: &[Tensor], g: &Tensor, needs: u64) -> Result<Grads> {
    let (v, t) = (&x[0], &x[1]);
    let of_x = || -> Result<Tensor> {
        let Some(p) = x.get(2) else { return g.mul(&v.sigmoid()?.sub(t)?) };
        let weighted = p.mul(t)?;
        g.mul(&weighted.add_scalar(1.0)?.sub(t)?.mul(&v.sigmoid()?)?.sub(&weighted)?)
    };
    let of_target = || -> Result<Tensor> {
        let Some(p) = x.get(2) else { return g.mul(v)?.neg() };
        g.mul(&log_sigmoid(&v.neg()?)?.sub(&p.mul(&log_sigmoid(v)?)?)?)
    };
    let of_weight = || g.mul(t)?.mul(&log_sigmoid(v)?)?.neg();
    let mut grads: Grads = smallvec![
        if needs & 1 != 0 { Some(narrowed(of_x()?, v.dtype())?) } else { None },
        if needs & 2 != 0 { Some(narrowed(of_target()?, t.dtype())?) } else { None }
    ];
    if let Some(p) = x.get(2) {
        grads.push(if needs & 4 != 0 { Some(narrowed(of_weight()?, p.dtype())?) } else { None });
    }
    Ok(grads)
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
    let common = crate::ops::pointwise::result_type_of(&[Operand::Tensor(a), Operand::Tensor(b)]);
    if !common.is_float() {
        return Err(Error::runtime(format!(
            "expected common dtype to be floating point, yet common dtype is {}",
            common.scalar_type()
        )));
    }
    if common.is_half() {
        return narrowed(cosine_similarity(&widened(a)?, &widened(b)?, dim, eps)?, common);
    }
    let (a, b) = (&a.to_dtype(common)?, &b.to_dtype(common)?);
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
    let rank = target.dims().len();
    if a.dims().len() != rank + 1 || b.dims().len() != rank + 1 {
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
    Row::new(
        "cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt \
        ignore_index=-100, float label_smoothing=0.0) -> Tensor",
        Tier::Fused,
        |a| {
            let args = CrossEntropyArgs {
                weight: a.opt_tensor(2)?,
                reduction: Reduction::from_int(a.int(3)?)?,
                ignore_index: a.int(4)?,
                label_smoothing: a.float(5)?,
            };
            ok(cross_entropy(a.tensor(0)?, a.tensor(1)?, &args)?)
        },
        || {
            vec![
                Sample::new(vec![t(&[3, 5]), index(&[3], 5)]).dtypes(&[DType::F64, DType::BF16]),
                Sample::new(vec![t(&[2, 4, 3]), index(&[2, 3], 4), none(), n(0)]),
                Sample::new(vec![t(&[5]), index(&[], 5), none(), n(2)]),
                Sample::new(vec![t(&[3, 5]), index(&[3], 5), none(), n(1), n(1), n(0.2)]),
                Sample::new(vec![t(&[3, 5]), index(&[3], 5), positive(&[5]), n(1), n(-100), n(0.2)]).no_gradient(),
                Sample::new(vec![t(&[3, 5]), positive(&[3, 5])]),
            ]
        },
    )
    .doc(
        "Return the cross entropy of the logits `input` `(n, c, ...)` or `(c,)` and `target`. `target` holds class \
         indices, `int64` or `uint8`, in the shape of `input` without `c`, or class probabilities in its shape. \
         `weight` `(c,)` multiplies the loss of each class, targets of `ignore_index` do not count, and \
         `label_smoothing` spreads that part of the probability over all classes. `reduction` is 0 for the loss of \
         each row, 1 for the mean, and 2 for the sum. The mean of class indices divides by the sum of the weights of \
         the targets. A target that is no class raises `IndexError`.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::both(Policy::Full)),
    Row::new(
        "nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100) \
        -> Tensor",
        Tier::Composed,
        |a| ok(nll_loss(a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2)?, Reduction::from_int(a.int(3)?)?, a.int(4)?)?),
        nll_samples,
    )
    .doc(
        "Return `-weight[target] * input[target]` for the log-probabilities `input` `(n, c)` or `(c,)` and the class \
         indices `target`, `int64` or `uint8`. `weight` `(c,)` is 1 unless given, and targets of `ignore_index` do \
         not count. `reduction` is 0 for the loss of each row, 1 for the mean, weighted by `weight`, and 2 for the \
         sum. A target that is no class raises `IndexError`.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::both(Policy::Full)),
    Row::new(
        "nll_loss2d(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt \
        ignore_index=-100) -> Tensor",
        Tier::Composed,
        |a| ok(nll_loss(a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2)?, Reduction::from_int(a.int(3)?)?, a.int(4)?)?),
        samples!([t(&[2, 3, 2, 2]), index(&[2, 2, 2], 3)]),
    )
    .doc(
        "Return the negative log-likelihood of the class of each pixel, for `input` `(n, c, h, w)` and `target` `(n, \
         h, w)`. The arguments are those of `nll_loss`.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::both(Policy::Full)),
    Row::new(
        "nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt \
        ignore_index=-100) -> Tensor",
        Tier::Composed,
        |a| ok(nll_loss(a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2)?, Reduction::from_int(a.int(3)?)?, a.int(4)?)?),
        nll_samples,
    )
    .doc(
        "Return the negative log-likelihood for an `input` `(n, c, ...)` of any rank and a `target` of its shape \
         without `c`. The arguments are those of `nll_loss`.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::both(Policy::Full)),
    Row::new(
        "ctc_loss.IntList(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int \
        blank=0, int reduction=Mean, bool zero_infinity=False) -> Tensor",
        Tier::Fused,
        |a| ok(ctc_loss(a.tensor(0)?, a.tensor(1)?, a.ints(2)?, a.ints(3)?, &ctc_args(a)?)?),
        ctc_samples,
    )
    .doc(
        "Return minus the logarithm of the probability that `log_probs` spells the labels `targets`, summed over all \
         alignments. `log_probs` is `(t, n, c)` or `(t, c)`, `float32` or `float64`, and a log-softmax over its last \
         dimension. `targets` is `(n, s)`, or all labels in one vector. `input_lengths` and `target_lengths` say how \
         much of each sequence counts, and class `blank` spells nothing. The mean of `reduction=1` is of losses \
         divided by their target lengths. With `zero_infinity`, labels that do not fit give 0 instead of `inf`.",
    )
    .scope(Scope::Function)
    .autocast(Policies::both(Policy::Full)),
    Row::new(
        "ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int \
        blank=0, int reduction=Mean, bool zero_infinity=False) -> Tensor",
        Tier::Fused,
        |a| {
            let (steps, labels) =
                (ctc::lengths(a.tensor(2)?, "input_lengths")?, ctc::lengths(a.tensor(3)?, "target_lengths")?);
            ok(ctc_loss(a.tensor(0)?, a.tensor(1)?, &steps, &labels, &ctc_args(a)?)?)
        },
        Vec::new,
    )
    .scope(Scope::Function)
    .autocast(Policies::both(Policy::Full)),
    Row::new(
        "mse_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor",
        Tier::Composed,
        |a| {
            widely(a, |a| {
                ok(reduced(
                    float_pair("mse_cpu", a.tensor(0)?, a.tensor(1)?)?.square()?,
                    Reduction::from_int(a.int(2)?)?,
                )?)
            })
        },
        samples!([t(&[2, 3]), positive(&[2, 3])], [t(&[2, 3]), positive(&[2, 3]), n(0)]),
    )
    .doc(
        "Return the squared differences `(input - target) ** 2`. `reduction` is 0 for the loss of each element, 1 for \
         their mean and 2 for their sum. The operands broadcast, and their common dtype must be floating point.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::both(Policy::Full)),
    Row::new(
        "l1_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor",
        Tier::Composed,
        |a| ok(reduced(float_pair("l1_cpu", a.tensor(0)?, a.tensor(1)?)?.abs()?, Reduction::from_int(a.int(2)?)?)?),
        samples!([t(&[2, 3]), positive(&[2, 3]), n(2)]),
    )
    .doc(
        "Return the absolute differences `abs(input - target)`. `reduction` is 0 for the loss of each element, 1 for \
         their mean and 2 for their sum. The operands broadcast, and their common dtype must be floating point.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::both(Policy::Full)),
    Row::new(
        "smooth_l1_loss(Tensor self, Tensor target, int reduction=Mean, float beta=1.0) -> Tensor",
        Tier::Composed,
        |a| widely(a, |a| ok(smooth_l1(a.tensor(0)?, a.tensor(1)?, Reduction::from_int(a.int(2)?)?, a.float(3)?)?)),
        samples!([t(&[2, 3]), positive(&[2, 3])], [t(&[2, 3]), positive(&[2, 3]), n(0), n(0.5)]),
    )
    .doc(
        "Return `0.5 * d ** 2 / beta` where `d = abs(input - target)` is below `beta`, else `d - 0.5 * beta`. `beta = \
         0` gives `d`, and a negative one raises `RuntimeError`. `reduction` is 0 for none, 1 for the mean and 2 for \
         the sum. The operands broadcast, and their common dtype must be floating point.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::both(Policy::Full)),
    Row::new(
        "huber_loss(Tensor self, Tensor target, int reduction=Mean, float delta=1.0) -> Tensor",
        Tier::Composed,
        |a| widely(a, |a| ok(huber(a.tensor(0)?, a.tensor(1)?, Reduction::from_int(a.int(2)?)?, a.float(3)?)?)),
        samples!([t(&[2, 3]), positive(&[2, 3])], [t(&[2, 3]), positive(&[2, 3]), n(2), n(0.5)]),
    )
    .doc(
        "Return `0.5 * d ** 2` where `d = abs(input - target)` is at most `delta`, else `delta * (d - 0.5 * delta)`. \
         It is `delta` times the smooth L1 loss with `beta=delta`. `delta` must be positive. `reduction` is 0 for \
         none, 1 for the mean and 2 for the sum.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::both(Policy::Full)),
    Row::new(
        "binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean) -> Tensor",
        Tier::Composed,
        |a| {
            widely(a, |a| {
                ok(binary_cross_entropy(a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2)?, Reduction::from_int(a.int(3)?)?)?)
            })
        },
        bce_samples,
    )
    .doc(
        "Return `-weight * (target * log(input) + (1 - target) * log(1 - input))`, with logarithms of at least -100. \
         `input` and `target` have one shape and one floating-point dtype, and `input` lies in `[0, 1]`; other values \
         raise `RuntimeError`. `weight` broadcasts. `reduction` is 0 for none, 1 for the mean and 2 for the sum.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::both(Policy::Full)),
    Row::new(
        "binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? \
        pos_weight=None, int reduction=Mean) -> Tensor",
        Tier::Composed,
        |a| {
            widely(a, |a| {
                ok(binary_cross_entropy_with_logits(
                    a.tensor(0)?,
                    a.tensor(1)?,
                    a.opt_tensor(2)?,
                    a.opt_tensor(3)?,
                    Reduction::from_int(a.int(4)?)?,
                )?)
            })
        },
        samples!([t(&[2, 3]), positive(&[2, 3])], [t(&[2, 3]), unit(&[2, 3]), positive(&[3]), positive(&[3]), n(2)]),
    )
    .doc(
        "Return the binary cross entropy of `sigmoid(input)` and `target`, computed from the logits so that nothing \
         overflows. `weight` multiplies all terms, and `pos_weight` the terms of `target`; both broadcast. `input` \
         and `target` have one shape, else `ValueError` is raised. `reduction` is 0 for none, 1 for the mean and 2 \
         for the sum.",
    )
    .scope(Scope::Function)
    .autocast(Policies::both(Policy::Full)),
    Row::new(
        "kl_div(Tensor self, Tensor target, int reduction=Mean, *, bool log_target=False) -> Tensor",
        Tier::Composed,
        |a| widely(a, |a| ok(kl_div(a.tensor(0)?, a.tensor(1)?, Reduction::from_int(a.int(2)?)?, a.bool(3)?)?)),
        samples!([t(&[2, 3]), positive(&[2, 3])], [t(&[2, 3]), t(&[2, 3]), n(2), n(true)]),
    )
    .doc(
        "Return `target * (log(target) - input)`, where `input` holds log-probabilities. `target * log(target)` \
         counts as 0 where `target` is 0. With `log_target`, return `exp(target) * (target - input)`. `reduction` is \
         0 for none, 1 for the mean over all elements (not over the batch) and 2 for the sum. Both operands are \
         floating point, and broadcast.",
    )
    .scope(Scope::Function)
    .autocast(Policies::both(Policy::Full)),
    Row::new(
        "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
        Tier::Composed,
        |a| widely(a, |a| ok(cosine_similarity(a.tensor(0)?, a.tensor(1)?, a.int(2)?, a.float(3)?)?)),
        samples!([t(&[2, 3]), positive(&[2, 3])], [t(&[2, 3]), positive(&[1, 3]), n(0)]),
    )
    .doc(
        "Return `sum(x1 * x2) / (max(norm(x1), eps) * max(norm(x2), eps))` along `dim`, with 2-norms. The operands \
         broadcast, and the result lacks `dim`. Their common dtype must be floating point.",
    )
    .scope(Scope::Function)
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new(
        "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=Mean) \
        -> Tensor",
        Tier::Composed,
        |a| {
            widely(a, |a| {
                ok(cosine_embedding(
                    a.tensor(0)?,
                    a.tensor(1)?,
                    a.tensor(2)?,
                    a.float(3)?,
                    Reduction::from_int(a.int(4)?)?,
                )?)
            })
        },
        samples!([t(&[2, 3]), positive(&[2, 3]), index(&[2], 2)]),
    )
    .doc(
        "Return `1 - cos` where `target` is 1, and `max(0, cos - margin)` where it is -1, for the cosine `cos` of \
         each row of `input1` and `input2`. The inputs are `(n, d)` with `target` `(n,)`, or `(d,)` with a `target` \
         without dimensions. `reduction` is 0 for none, 1 for the mean and 2 for the sum.",
    )
    .scope(Scope::Function)
    .autocast(Policies::both(Policy::Full)),
    Row::new(
        "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=Mean) \
        -> Tensor",
        Tier::Composed,
        |a| {
            widely(a, |a| {
                ok(margin_ranking(
                    a.tensor(0)?,
                    a.tensor(1)?,
                    a.tensor(2)?,
                    a.float(3)?,
                    Reduction::from_int(a.int(4)?)?,
                )?)
            })
        },
        samples!([t(&[4]), positive(&[4]), t(&[4]), n(0.3)]),
    )
    .doc(
        "Return `max(0, -target * (input1 - input2) + margin)`, where a `target` of 1 says that `input1` should be \
         the larger one, and -1 the reverse. The operands broadcast. `reduction` is 0 for none, 1 for the mean and 2 \
         for the sum.",
    )
    .scope(Scope::Function)
    .autocast(Policies::both(Policy::Full)),
];

fn ctc_args(a: &Args<'_>) -> Result<CtcArgs> {
    Ok(CtcArgs { blank: a.int(4)?, reduction: Reduction::from_int(a.int(5)?)?, zero_infinity: a.bool(6)? })
}

/// Gradients are not compared: as in PyTorch, that of this loss is not the slope of its formula.
fn ctc_samples() -> Vec<Sample> {
    let lengths = |v: &[i64]| SampleArg::Ints(v.to_vec());
    vec![
        Sample::new(vec![t(&[5, 2, 4]), index(&[2, 3], 4), lengths(&[5, 4]), lengths(&[2, 3])]).no_gradient(),
        Sample::new(vec![t(&[5, 2, 4]), index(&[3], 4), lengths(&[5, 4]), lengths(&[1, 2]), n(3), n(0)]).no_gradient(),
    ]
}

fn bce_samples() -> Vec<Sample> {
    vec![
        Sample::new(vec![probability(&[2, 3]), probability(&[2, 3])]),
        Sample::new(vec![probability(&[2, 3]), probability(&[2, 3]), t(&[3]), n(2)]),
        Sample::new(vec![probability(&[0, 3]), probability(&[0, 3])]),
    ]
}
