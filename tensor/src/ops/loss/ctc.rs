//! Connectionist temporal classification: a label sequence against the class probabilities of a longer sequence.
//!
//! Labels, with blanks between them, are the states of a trellis. Every path through it that spells the labels adds to
//! their probability. The lengths of sequences and labels are values, so that a batch with other lengths is the same
//! program.

use super::Reduction;
use crate::axes::Axes;
use crate::op::{Func, Fused, Grads, Op, Outs, Prim, Saved, Saves, Value, Values, VjpFn, same_device};
use crate::ops::concat::{cat, stack};
use crate::ops::indexing::{count_up, gather, scatter_add};
use crate::ops::pointwise::{select, select_scalar};
use crate::ops::rnn::recurrence::{for_steps, page, set_page};
use crate::{DType, Device, Dims, Error, Meta, Result, Scalar, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_kernels::loss as kernels;
use torchtpu_kernels::memory;
use torchtpu_stablehlo::{Direction, Type};

/// Logarithms of the probability of all paths from the first two states to a state at a step.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | emit, of each state at each step | `[steps, batch, states]` | `float32`, `float64` |
/// | skip, 0 where a state may follow the one two before it, else minus infinity | `[batch, states]` | as emit |
/// | y | as emit | as emit |
///
/// `y[t, s] = emit[t, s] + log(exp y[t-1, s] + exp y[t-1, s-1] + exp(y[t-1, s-2] + skip[s]))`, on `tpu` in one loop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Trellis;

impl Op for Trellis {
    const NAME: &'static str = "ctc_trellis";
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let dtype = x[0].dtype();
        if !matches!(dtype, DType::F32 | DType::F64) {
            return Err(crate::ops::complex::unsupported("ctc_loss_cpu", dtype));
        }
        Ok(Meta { place: same_device(x)?, ..*x[0].meta() })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("_ n _, n _ -> _ n _", x, y)
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        kernels::trellis(&x[0].view(), &x[1].view(), &mut y[0].view_mut());
        Ok(())
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        let (emit, skip) = (&x[0], &x[1]);
        let (steps, e, ty) = (emit.shape()[0], emit.element(), skip.ty().clone());
        let nothing = f.splat(f64::NEG_INFINITY, &ty);
        let floor = f.scalar(f64::NEG_INFINITY, e);
        // The state before the first step, from which the first two states are reached at no cost.
        let at = f.iota(&Type::new(&ty.shape, torchtpu_stablehlo::ElementType::S32), 1);
        let first = f.splat_i64(0, at.ty());
        let is_first = f.compare(Direction::Eq, &at, &first);
        let zero = f.splat(0.0, &ty);
        let start = f.select(&is_first, &zero, &nothing);
        let all = f.splat(f64::NEG_INFINITY, emit.ty());
        let done = for_steps(f, steps, false, vec![start, all], |f, t, carried| {
            let stay = &carried[0];
            let behind = |f: &mut Func, by: i64| f.pad(stay, &floor, &[0, by], &[0, -by], &[0, 0]);
            let (next, over) = (behind(f, 1), behind(f, 2));
            let over = f.binary("stablehlo.add", &over, skip);
            let top = f.binary("stablehlo.maximum", stay, &next);
            let top = f.binary("stablehlo.maximum", &top, &over);
            // Differences of infinities are NaN.
            let is_none = f.compare(Direction::Eq, &top, &nothing);
            let base = f.select(&is_none, &zero, &top);
            let part = |f: &mut Func, v: &Value| {
                let d = f.binary("stablehlo.subtract", v, &base);
                f.unary("stablehlo.exponential", &d)
            };
            let (a, b, c) = (part(f, stay), part(f, &next), part(f, &over));
            let sum = f.binary("stablehlo.add", &a, &b);
            let sum = f.binary("stablehlo.add", &sum, &c);
            let log = f.unary("stablehlo.log", &sum);
            let log = f.binary("stablehlo.add", &log, &base);
            let own = page(f, emit, t);
            let now = f.binary("stablehlo.add", &log, &own);
            let all = set_page(f, &carried[1], t, &now);
            vec![now, all]
        });
        smallvec![done[1].clone()]
    }
    fn vjp(&self, _: &Saved<'_>, _: &Tensor) -> Result<Grads> {
        Err(Error::runtime("derivative for aten::_ctc_loss_backward is not implemented"))
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}

/// The loss of each sequence.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x, logarithms of probabilities | `[steps, batch, classes]` | `float32`, `float64` |
/// | targets, padded with anything | `[batch, labels]` | `int64` |
/// | steps that count | `[batch]` | `int64` |
/// | labels that count | `[batch]` | `int64` |
/// | loss | `[batch]` | as x |
/// | the trellis | `[steps, batch, 2 labels + 1]` | as x |
///
/// The loss is infinite if the labels do not fit the steps. The gradient is PyTorch's: `exp(x)` minus the probability
/// that the class is spelled at the step. It is right for scores whose log-softmax is x; the gradient for x alone is
/// another one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CtcLoss {
    /// The class of blanks.
    pub blank: i64,
    /// Whether an infinite loss, and its gradient, become zero.
    pub zero_infinity: bool,
}

/// Gradient of [`CtcLoss`] for x, from `g`, its operands and the trellis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CtcLossBackward {
    /// The op whose gradient this is.
    pub of: CtcLoss,
}

/// Whether each of `0..n` is below the number of each row: `[batch, n]`.
fn is_below(n: usize, limit: &Tensor) -> Result<Tensor> {
    count_up(n, limit.place())?.lt(&limit.unsqueeze(1)?)
}

/// `from - at`, at least zero, for `at` in `0..n`: `[batch, n]`.
fn mirrored(n: usize, from: &Tensor) -> Result<Tensor> {
    from.unsqueeze(1)?.sub(&count_up(n, from.place())?)?.maximum_scalar(0)
}

/// The states of labels `[batch, labels]`: blanks before, between and after them. The second result says which states
/// may follow the one two before: those that differ from it, which blanks do not.
fn states(labels: &Tensor, blank: i64, like: &Tensor) -> Result<(Tensor, Tensor)> {
    let (n, s) = (labels.dims()[0], labels.dims()[1]);
    let blanks = |n: &[usize]| Tensor::full(n, blank, DType::I64, labels.place());
    let pairs = stack(&[&blanks(&[n, s])?, labels], 2)?.reshape_dims(Dims::new(&[n, 2 * s]))?;
    let states = cat(&[&pairs, &blanks(&[n, 1])?], 1)?;
    let before = cat(&[&blanks(&[n, 2])?, &states], 1)?.narrow(1, 0, 2 * s as i64 + 1)?;
    let may_skip = states.ne(&before)?;
    let zeros = Tensor::zeros(states.dims(), like.dtype(), like.place())?;
    Ok((states, select(&may_skip, &zeros, &Tensor::number(Scalar::Float(f64::NEG_INFINITY), like.dtype())?)?))
}

/// The same at every step: `[batch, n]` as `[steps, batch, n]`.
fn at_each(steps: usize, x: &Tensor) -> Result<Tensor> {
    x.expand_dims(&Dims::new(&[steps, x.dims()[0], x.dims()[1]]))
}

fn trellis(emit: &Tensor, skip: &Tensor) -> Result<Tensor> {
    dispatch::call(Prim::Trellis(Trellis), &[&emit.contiguous()?, &skip.contiguous()?])
}

/// The loss, from the paths that end at the last step that counts, in one of the last two states: a blank and, if there
/// are labels, the last label.
fn ended(ways: &Tensor, steps: &Tensor, labels: &Tensor) -> Result<Tensor> {
    let last = steps.sub_scalar(1)?.maximum_scalar(0)?.unsqueeze(1)?;
    let at = at_each(1, &last.expand_dims(&Dims::new(&ways.dims()[1..]))?)?;
    let ends = gather(ways, 0, &at)?.select(0, 0)?;
    let end = labels.mul_scalar(2)?.unsqueeze(1)?;
    let (blank, label) = (gather(&ends, 1, &end)?, gather(&ends, 1, &end.sub_scalar(1)?.maximum_scalar(0)?)?);
    let is_empty = end.eq_scalar(0)?;
    let both = cat(&[&blank, &select_scalar(&is_empty, f64::NEG_INFINITY, &label)?], 1)?;
    let loss = both.logsumexp(&[1], false)?.neg()?;
    // Without steps there is one path, which spells nothing.
    let zeros = Tensor::zeros(loss.dims(), loss.dtype(), loss.place())?;
    let none = select_scalar(&labels.gt_scalar(0)?, f64::INFINITY, &zeros)?;
    select(&steps.eq_scalar(0)?, &none, &loss)
}

impl CtcLoss {
    /// Labels, with blanks in place of those that do not count.
    fn labels(&self, targets: &Tensor, lengths: &Tensor) -> Result<Tensor> {
        super::select_int(&is_below(targets.dims()[1], lengths)?, targets, self.blank)
    }
}

impl Fused for CtcLoss {
    const NAME: &'static str = "ctc_loss";
    const OUTS: usize = 2;
    const DIFFERENTIABLE: u64 = 1;
    const VJP: Option<VjpFn<Self>> = Some(|o, s, g| {
        let x = [g, s.x(0), s.x(1), s.x(2), s.x(3), s.y(1)];
        let gx = dispatch::call(Prim::CtcLossBackward(CtcLossBackward { of: *o }), &x)?;
        Ok(smallvec![Some(gx), None, None, None])
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        if !matches!(x[0].dtype(), DType::F32 | DType::F64) {
            return Err(crate::ops::complex::unsupported("ctc_loss_cpu", x[0].dtype()));
        }
        Ok(Meta { dims: *x[2].dims(), dtype: x[0].dtype(), place: same_device(x)? })
    }
    fn infer_extra(&self, x: &[&Tensor], first: &Meta, _: usize) -> Meta {
        let (d, s) = (x[0].dims(), x[1].dims()[1]);
        first.with_dims(Dims::new(&[d[0], d[1], 2 * s + 1]))
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("_ n _, n _, n, n -> n, _ n _", x, y)
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let [x, targets, steps, labels] = [x[0], x[1], x[2], x[3]];
        let t = x.dims()[0];
        let (states, skip) = states(&self.labels(targets, labels)?, self.blank, x)?;
        let ways = trellis(&gather(x, 2, &at_each(t, &states)?)?, &skip)?;
        let loss = ended(&ways, steps, labels)?;
        let loss = match self.zero_infinity {
            true => select_scalar(&loss.eq_scalar(f64::INFINITY)?, 0.0, &loss)?,
            false => loss,
        };
        Ok(smallvec![loss, ways])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::both(0b1111, 0b10)
    }
}

impl Fused for CtcLossBackward {
    const NAME: &'static str = "ctc_loss_backward";
    const VJP: Option<VjpFn<Self>> =
        Some(|_, _, _| Err(Error::runtime("derivative for aten::_ctc_loss_backward is not implemented")));
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(*x[1].meta())
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("n, _ n _, n _, n, n, _ n _ -> _ n _", x, y).linear(&[0b1])
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let [g, x, targets, steps, labels, ways] = [x[0], x[1], x[2], x[3], x[4], x[5]];
        let (t, s) = (x.dims()[0], targets.dims()[1]);
        let own = self.of.labels(targets, labels)?;
        let (states_of, _) = states(&own, self.of.blank, x)?;
        let d = *states_of.dims();
        let emit = gather(x, 2, &at_each(t, &states_of)?)?;
        // The paths from a state to the end are those of the reversed sequence and labels.
        let turned = self.of.labels(&gather(&own, 1, &mirrored(s, &labels.sub_scalar(1)?)?)?, labels)?;
        let (_, skip) = states(&turned, self.of.blank, x)?;
        let full = Dims::new(&[t, d[0], d[1]]);
        let when = mirrored(t, &steps.sub_scalar(1)?)?.transpose(0, 1)?.unsqueeze(2)?.expand_dims(&full)?;
        let which = at_each(t, &mirrored(d[1], &labels.mul_scalar(2)?)?)?;
        let turn = |v: &Tensor| gather(&gather(v, 0, &when)?, 2, &which);
        let to_end = turn(&trellis(&turn(&emit)?, &skip)?)?;
        // Both directions contain the step's own logarithm.
        let counts = is_below(t, steps)?.transpose(0, 1)?.unsqueeze(2)?;
        let on_way = is_below(d[1], &labels.mul_scalar(2)?.add_scalar(1)?)?;
        let loss = ended(ways, steps, labels)?;
        let sum = ways.add(&to_end)?.sub(&emit)?.add(&loss.unsqueeze(1)?)?;
        let possible = ways.gt_scalar(f64::NEG_INFINITY)?.logical_and(&to_end.gt_scalar(f64::NEG_INFINITY)?)?;
        let possible = possible.logical_and(&on_way)?;
        let spelled = select(&possible, &sum.exp()?, &Tensor::number(Scalar::Float(0.0), x.dtype())?)?;
        let zeros = Tensor::zeros_like_meta(x.meta())?;
        let spelled = scatter_add(&zeros, 2, &at_each(t, &states_of)?, &spelled)?;
        // An infinite loss has no gradient.
        let instead = if self.of.zero_infinity { 0.0 } else { f64::NAN };
        let g = select_scalar(&loss.eq_scalar(f64::INFINITY)?, instead, g)?;
        let gx = x.exp()?.sub(&spelled)?.mul(&g.unsqueeze(1)?)?;
        Ok(smallvec![select(&counts, &gx, &zeros)?])
    }
}

/// Settings of [`ctc_loss`].
#[derive(Clone, Copy, Debug)]
pub struct CtcArgs {
    /// The class of blanks.
    pub blank: i64,
    /// The reduction of the losses. The mean divides each loss by the number of its labels first.
    pub reduction: Reduction,
    /// Whether an infinite loss becomes zero.
    pub zero_infinity: bool,
}

/// `torch.nn.functional.ctc_loss`: `log_probs` are `[steps, batch, classes]`, or `[steps, classes]` for one sequence.
/// Targets are `[batch, labels]`, or all labels in one vector.
///
/// # Errors
/// `Runtime` in PyTorch's words, when sizes and lengths do not fit.
pub fn ctc_loss(log_probs: &Tensor, targets: &Tensor, steps: &[i64], labels: &[i64], a: &CtcArgs) -> Result<Tensor> {
    if log_probs.dims().len() != 3 {
        let loss = batch(&log_probs.unsqueeze(1)?, targets, steps, labels, a)?;
        return if a.reduction == Reduction::None { loss.squeeze(0) } else { Ok(loss) };
    }
    batch(log_probs, targets, steps, labels, a)
}

/// The error of a check of `ctc_loss_allocate_outputs`.
fn refused(text: String) -> Error {
    Error::runtime(format!("{text} (while checking arguments for ctc_loss_allocate_outputs)"))
}

fn batch(x: &Tensor, targets: &Tensor, steps: &[i64], labels: &[i64], a: &CtcArgs) -> Result<Tensor> {
    if x.numel() == 0 {
        return Err(Error::runtime("log_probs tensor must not be empty"));
    }
    if !targets.dtype().is_int() && !targets.dtype().is_float() {
        return Err(refused(format!("Expected targets of integers, but got {}", targets.dtype().scalar_type())));
    }
    if x.dims().len() != 3 {
        return Err(refused(format!(
            "Expected 3-dimensional tensor, but got {}-dimensional tensor for argument #1 'log_probs'",
            x.dims().len()
        )));
    }
    let [t, n, c] = [x.dims()[0], x.dims()[1], x.dims()[2]];
    if a.blank < 0 || a.blank >= c as i64 {
        return Err(Error::runtime("blank must be in label range"));
    }
    if steps.len() != n {
        return Err(Error::runtime("input_lengths must be of size batch_size"));
    }
    if labels.len() != n {
        return Err(Error::runtime("target_lengths must be of size batch_size"));
    }
    if let Some(l) = labels.iter().find(|l| **l < 0) {
        return Err(refused(format!("Expected target_lengths to have value at least 0, but got value {l}")));
    }
    let longest = labels.iter().copied().max().unwrap_or(0);
    let size = |want: i64, got: usize, dim: usize, how: &str| {
        refused(format!(
            "Expected tensor to have size {how}{want} at dimension {dim}, but got size {got} for argument #2 'targets'"
        ))
    };
    let d = targets.dims();
    let total = labels.iter().fold(0i64, |sum, &n| sum.saturating_add(n));
    match d.len() {
        1 if total != d[0] as i64 => return Err(size(total, d[0], 0, "")),
        2 if d[0] != n => return Err(size(n as i64, d[0], 0, "")),
        2 if longest > d[1] as i64 => return Err(size(longest, d[1], 1, "at least ")),
        1 | 2 => {}
        r => {
            return Err(refused(format!(
                "Expected 1 to 2 dimensions, but got {r}-dimensional tensor for argument #2 'targets'"
            )));
        }
    }
    for s in steps {
        if *s < 0 {
            return Err(refused(format!("Expected input_lengths to have value at least 0, but got value {s}")));
        }
        if *s > t as i64 {
            return Err(refused(format!("Expected input_lengths to have value at most {t}, but got value {s}")));
        }
    }
    let on_device = |v: &[i64], dims: &[usize]| Tensor::from_slice(v, dims)?.to_device(x.place());
    let targets = targets.detach().to_device(x.place())?.to_dtype(DType::I64)?;
    let padded = if targets.dims().len() == 2 {
        targets
    } else {
        // Each sequence's part of the vector. Any label may serve as padding of a row.
        let mut places = memory::with_capacity(n.saturating_mul(longest.max(0) as usize));
        let mut from = 0;
        for l in labels {
            places
                .extend((0..longest).map(|i| from + i.min((l - 1).max(0))).map(|p| p.min(targets.numel() as i64 - 1)));
            from += l;
        }
        let places = on_device(&places, &[n * longest as usize])?;
        gather(&targets, 0, &places)?.reshape_dims(Dims::new(&[n, longest as usize]))?
    };
    let op = CtcLoss { blank: a.blank, zero_infinity: a.zero_infinity };
    let (steps, counts) = (on_device(steps, &[n])?, on_device(labels, &[n])?);
    let loss = dispatch::call_n(Prim::CtcLoss(op), &[x, &padded, &steps, &counts])?.swap_remove(0);
    match a.reduction {
        Reduction::Mean => loss.div(&counts.maximum_scalar(1)?.to_dtype(loss.dtype())?)?.mean(),
        r => super::reduced(loss, r),
    }
}

/// Lengths in a tensor. The length of a single sequence may be a number.
pub(super) fn lengths(x: &Tensor, name: &str) -> Result<Vec<i64>> {
    if !x.dtype().is_int() {
        return Err(Error::runtime(format!("{name} must be integral")));
    }
    x.detach().to_device(Device::CPU)?.to_dtype(DType::I64)?.to_vec()
}
