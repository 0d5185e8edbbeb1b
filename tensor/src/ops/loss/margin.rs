//! Losses with a margin, and two more of `torch.nn.functional` that are compositions.

use crate::formula::by_formula;
use crate::ops::distance::pairwise_distance;
use crate::ops::indexing::{gather, guard, index_select, scatter_add};
use crate::ops::loss::{Reduction, reduced};
use crate::ops::pointwise::clip::clamp;
use crate::ops::pointwise::special::logistic;
use crate::ops::pointwise::{BinaryKind, binary, select, select_scalar};
use crate::policy::{Policies, Policy};
use crate::schema::{Args, Operand, Ret, Row, Sample, SampleArg, Scope, Tier, index, n, positive, t, widely};
use crate::types::compute::expect_float;
use crate::{DType, Dims, Error, Result, Scalar, Tensor, samples};
use smallvec::smallvec;

fn reduction(a: &Args<'_>, i: usize) -> Result<Reduction> {
    Reduction::from_int(a.int(i)?)
}

fn at_least_zero(x: &Tensor) -> Result<Tensor> {
    clamp(x, Some(Operand::Scalar(Scalar::Float(0.0))), None)
}

/// `x` as a batch of rows. A vector or a 0-d tensor is one row.
fn rows(x: &Tensor) -> Result<Tensor> {
    let d = x.dims();
    if d.len() > 2 || d.last() == Some(&0) {
        return Err(Error::runtime(format!(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: {d}"
        )));
    }
    if d.len() == 2 { Ok(x.clone()) } else { x.reshape_dims(Dims::new(&[1, x.numel()])) }
}

fn expect_long(x: &Tensor) -> Result<()> {
    if x.dtype() == DType::I64 {
        return Ok(());
    }
    Err(Error::runtime(format!("expected scalar type Long but found {}", x.dtype().scalar_type())))
}

/// An out-of-range index, reported in the words of a loss.
fn or_out_of_range<T>(r: Result<T>, text: &'static str) -> Result<T> {
    r.map_err(|e| if e.message().contains("is out of bounds") { Error::runtime(text) } else { e })
}

// ------------------------------------------------------------------------------------------------ one class

/// `sum_j max(0, margin - x[t] + x[j])^p / c` over the classes `j` other than the target, weighted by the target's
/// class.
///
/// # Errors
/// `Runtime` for shapes, dtypes, a `p` or targets that do not fit.
pub fn multi_margin_loss(
    x: &Tensor,
    target: &Tensor,
    p: f64,
    margin: f64,
    weight: Option<&Tensor>,
    r: Reduction,
) -> Result<Tensor> {
    if p != 1.0 && p != 2.0 {
        return Err(Error::runtime("only p == 1 and p == 2 supported"));
    }
    let v = rows(x)?;
    let (batch, classes) = (v.dims()[0], v.dims()[1]);
    if target.dims().len() > 1 || target.numel() != batch {
        return Err(Error::runtime(format!(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch \
            size). Expected target size [{batch}], but got {}. Input has shape {}.",
            target.dims(),
            x.dims()
        )));
    }
    if let Some(w) = weight.filter(|w| w.dims().len() != 1 || w.numel() != classes) {
        return Err(Error::runtime(format!("inconsistent weight size, expected {classes} but got {}", w.dims())));
    }
    expect_float("multi_margin_loss_cpu_kernel", x)?;
    expect_long(target)?;
    if let Some(w) = weight.filter(|w| w.dtype() != x.dtype()) {
        return Err(Error::runtime(format!(
            "expected scalar type {} but found {}",
            x.dtype().scalar_type(),
            w.dtype().scalar_type()
        )));
    }
    const OUTSIDE: &str = "target out of range";
    let at = target.reshape_dims(Dims::new(&[batch, 1]))?;
    let at = guard(&at, 0, classes, |_| Error::runtime(OUTSIDE))?;
    let own = or_out_of_range(gather(&v, 1, &at), OUTSIDE)?;
    let mut z = v.sub(&own)?.add_scalar(margin)?;
    let others = crate::ops::indexing::count_up(classes, x.place())?.ne(&at)?;
    let counts = others.logical_and(&z.gt_scalar(0.0)?)?;
    if p == 2.0 {
        z = z.square()?;
    }
    if let Some(w) = weight {
        z = z.mul(&index_select(w, 0, &at.squeeze(1)?)?.unsqueeze(1)?)?;
    }
    let loss = select_scalar(&counts.logical_not()?, 0.0, &z)?.sum_dim(&[1], false)?.div_scalar(classes as f64)?;
    if r == Reduction::None { loss.reshape_dims(*target.dims()) } else { reduced(loss, r) }
}

// ------------------------------------------------------------------------------------------------ several classes

/// `sum_{k, j} max(0, 1 - x[t[k]] + x[j]) / c`, over the targets before the first negative one and the classes `j` that
/// are no target. The second result says which classes are targets.
///
/// # Errors
/// `Runtime` for shapes, dtypes or targets that do not fit.
pub fn multilabel_margin_loss(x: &Tensor, target: &Tensor, r: Reduction) -> Result<(Tensor, Tensor)> {
    let v = rows(x)?;
    let classes = v.dims()[1];
    let agree =
        target.dims() == x.dims() || (x.dims().len() < 2 && target.dims().len() < 2 && target.numel() == classes);
    if !agree {
        return Err(Error::runtime(format!(
            "inconsistent target size: {} for input of size: {}",
            target.dims(),
            x.dims()
        )));
    }
    expect_float("multilabel_margin_loss_forward_out_frame", x)?;
    expect_long(target)?;
    const OUTSIDE: &str = "argument #2 'target' is out of range";
    let t = target.reshape_dims(*v.dims())?;
    let t = guard(&t, -1, classes, |_| Error::runtime(OUTSIDE))?;
    // Targets after the first negative one do not count.
    let listed = t.lt_scalar(0i64)?.to_dtype(DType::I64)?.cumsum(1)?.eq_scalar(0i64)?;
    let lowest = Tensor::number(Scalar::Int(0), DType::I64)?;
    let below = t.lt_scalar(-1i64)?;
    // An invalid index is left as it is, so that gather refuses it.
    let at = select(
        &listed.logical_not()?.logical_and(&below.logical_not()?)?,
        &binary(BinaryKind::Maximum, &t, &lowest)?,
        &t,
    )?;
    let own = or_out_of_range(gather(&v, 1, &at), OUTSIDE)?;
    let at = select(&listed, &at, &lowest)?;
    let hits = Tensor::zeros_like_meta(&v.meta().with_dtype(DType::I64))?;
    let is_target = scatter_add(&hits, 1, &at, &listed.to_dtype(DType::I64)?)?.gt_scalar(0i64)?;
    let z = v.unsqueeze(1)?.sub(&own.unsqueeze(2)?)?.add_scalar(1.0)?;
    let counts = listed.unsqueeze(2)?.logical_and(&is_target.logical_not()?.unsqueeze(1)?)?;
    let counts = counts.logical_and(&z.gt_scalar(0.0)?)?;
    let loss = select_scalar(&counts.logical_not()?, 0.0, &z)?.sum_dim(&[1, 2], false)?.div_scalar(classes as f64)?;
    let loss =
        if r == Reduction::None { if x.dims().len() < 2 { loss.squeeze(0)? } else { loss } } else { reduced(loss, r)? };
    Ok((loss, is_target.to_dtype(x.dtype())?.reshape_dims(*target.dims())?))
}

// ------------------------------------------------------------------------------------------------ compositions

/// `x` where the target is not -1, and `max(0, margin - x)` where it is not 1.
fn hinge_embedding(x: &Tensor, target: &Tensor, margin: f64, r: Reduction) -> Result<Tensor> {
    let far = at_least_zero(&x.neg()?.add_scalar(margin)?)?;
    let near = select_scalar(&target.eq_scalar(-1i64)?, 0.0, x)?;
    reduced(select_scalar(&target.eq_scalar(1i64)?, 0.0, &far)?.add(&near)?, r)
}

fn poisson_nll(x: &Tensor, target: &Tensor, log_input: bool, full: bool, eps: f64, r: Reduction) -> Result<Tensor> {
    let mut loss =
        if log_input { x.exp()?.sub(&target.mul(x)?)? } else { x.sub(&target.mul(&x.add_scalar(eps)?.log()?)?)? };
    if full {
        // Stirling's approximation of the logarithm of the factorial; zero up to one.
        let small = target.le_scalar(1i64)?;
        let count = select_scalar(&small, 1.0, &target.to_dtype(loss.dtype())?)?;
        let log = count.mul(&count.log()?)?.sub(&count)?;
        let log = log.add(&count.mul_scalar(std::f64::consts::TAU)?.log()?.mul_scalar(0.5)?)?;
        loss = loss.add(&select_scalar(&small, 0.0, &log)?)?;
    }
    reduced(loss, r)
}

fn triplet_margin(a: &Args<'_>) -> Result<Tensor> {
    let (anchor, positive, negative) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?);
    let ranks = [anchor, positive, negative].map(|t| t.dims().len());
    if ranks[0] != ranks[1] || ranks[1] != ranks[2] {
        return Err(Error::runtime(format!(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: \
            anchor {}D, positive {}D, and negative {}D inputs",
            ranks[0], ranks[1], ranks[2]
        )));
    }
    let (margin, p, eps) = (a.float(3)?, a.float(4)?, a.float(5)?);
    let near = pairwise_distance(anchor, positive, p, eps, false)?;
    let mut far = pairwise_distance(anchor, negative, p, eps, false)?;
    if a.bool(6)? {
        far = binary(BinaryKind::Minimum, &far, &pairwise_distance(positive, negative, p, eps, false)?)?;
    }
    reduced(at_least_zero(&near.sub(&far)?.add_scalar(margin)?)?, reduction(a, 7)?)
}

fn soft_margin(x: &Tensor, target: &Tensor, r: Reduction) -> Result<Tensor> {
    let forward = || x.mul(&target.neg()?)?.exp()?.log1p();
    if x.dtype().is_complex() || target.dtype().is_complex() {
        return reduced(forward()?, r);
    }
    let loss = by_formula("SoftMarginLossBackward0", &[x, target], forward, |x, g, needs| {
        let (x, t) = (&x[0], &x[1]);
        let slope = g.mul(&logistic(&x.mul(&t.neg()?)?)?)?.neg()?;
        Ok(smallvec![
            if needs & 1 != 0 { Some(slope.mul(t)?) } else { None },
            if needs & 2 != 0 { Some(slope.mul(x)?) } else { None }
        ])
    })?;
    reduced(loss, r)
}

fn one(y: Tensor) -> Result<Ret> {
    Ok(y.into())
}

fn multi_margin_samples() -> Vec<Sample> {
    let none = || SampleArg::Default;
    vec![
        Sample::new(vec![t(&[3, 4]), index(&[3], 4)]),
        Sample::new(vec![t(&[4]), index(&[], 4), n(2), n(0.7), none(), n(0)]),
        Sample::new(vec![t(&[3, 4]), index(&[3], 4), n(1), n(1.0), positive(&[4]), n(2)]).no_gradient(),
    ]
}

/// Rows of the family.
pub const ROWS: &[Row] = &[
    Row::new(
        "multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int \
        reduction=Mean) -> Tensor",
        Tier::Composed,
        |a| {
            widely(a, |a| {
                one(multi_margin_loss(
                    a.tensor(0)?,
                    a.tensor(1)?,
                    a.float(2)?,
                    a.float(3)?,
                    a.opt_tensor(4)?,
                    reduction(a, 5)?,
                )?)
            })
        },
        multi_margin_samples,
    )
    .doc(
        "Return `weight[t] * max(0, margin - input[t] + input[j]) ** p`, summed over the classes `j` other than the \
         target `t` and divided by the number of classes. `input` is floating point `(n, c)` or `(c,)`, `target` \
         `int64` `(n,)` or without dimensions. `p` is 1 or 2, and `weight` `(c,)` is 1 unless given. `reduction` is 0 \
         for the loss of each row, 1 for the mean and 2 for the sum. A target that is no class raises `RuntimeError`.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::both(Policy::Full)),
    Row::new(
        "multilabel_margin_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor",
        Tier::Composed,
        |a| widely(a, |a| one(multilabel_margin_loss(a.tensor(0)?, a.tensor(1)?, reduction(a, 2)?)?.0)),
        samples!([t(&[3, 4]), index(&[3, 4], 4)], [t(&[4]), index(&[4], 3), n(0)]),
    )
    .doc(
        "Return `max(0, 1 - input[t] + input[j])`, summed over the target classes `t` and the other classes `j`, and \
         divided by the number of classes. `input` is floating point `(n, c)` or `(c,)`. Each row of `target`, \
         `int64` of the same shape, lists class indices up to the first negative one. `reduction` is 0 for the loss \
         of each row, 1 for the mean and 2 for the sum.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::both(Policy::Full)),
    Row::new(
        "multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) -> (Tensor, Tensor)",
        Tier::Composed,
        |a| widely(a, |a| Ok(multilabel_margin_loss(a.tensor(0)?, a.tensor(1)?, reduction(a, 2)?)?.into())),
        || vec![Sample::new(vec![t(&[3, 4]), index(&[3, 4], 4), n(1)]).no_gradient()],
    )
    .autocast(Policies::cpu(Policy::Full))
    .doc(
        "Return the result of `torch.nn.functional.multilabel_margin_loss`, and a tensor like `target` with 1 for \
         each class that is a target and 0 for the others.",
    )
    .scope(Scope::Aten),
    Row::new(
        "hinge_embedding_loss(Tensor self, Tensor target, float margin=1.0, int reduction=Mean) -> Tensor",
        Tier::Composed,
        |a| widely(a, |a| one(hinge_embedding(a.tensor(0)?, a.tensor(1)?, a.float(2)?, reduction(a, 3)?)?)),
        samples!([t(&[2, 3]), index(&[2, 3], 2)], [t(&[2, 3]), index(&[2, 3], 2), n(0.3), n(0)]),
    )
    .doc(
        "Return `input` where `target` is 1, and `max(0, margin - input)` where it is -1. `input` holds distances, \
         for example of pairs that are alike (1) or not (-1). `reduction` is 0 for none, 1 for the mean and 2 for the \
         sum.",
    )
    .no_out()
    .scope(Scope::Function)
    .autocast(Policies::both(Policy::Full)),
    Row::new(
        "poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> \
        Tensor",
        Tier::Composed,
        |a| {
            widely(a, |a| {
                one(poisson_nll(a.tensor(0)?, a.tensor(1)?, a.bool(2)?, a.bool(3)?, a.float(4)?, reduction(a, 5)?)?)
            })
        },
        || {
            vec![
                Sample::new(vec![t(&[2, 3]), index(&[2, 3], 4), n(true), n(true), n(1e-8), n(1)]),
                Sample::new(vec![positive(&[2, 3]), positive(&[2, 3]), n(false), n(false), n(1e-8), n(0)]),
            ]
        },
    )
    .doc(
        "Return the negative log-likelihood of counts `target` under Poisson rates: `exp(input) - target * input` \
         with `log_input`, else `input - target * log(input + eps)`. With `full`, Stirling's approximation of \
         `log(target!)` is added where `target` is above 1. `reduction` is 0 for none, 1 for the mean and 2 for the \
         sum.",
    )
    .no_out()
    .scope(Scope::Function)
    .autocast(Policies::both(Policy::Full)),
    Row::new(
        "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2, float \
        eps=1e-06, bool swap=False, int reduction=Mean) -> Tensor",
        Tier::Composed,
        |a| widely(a, |a| one(triplet_margin(a)?)),
        samples!(
            [t(&[2, 3]), positive(&[2, 3]), t(&[2, 3])],
            [t(&[2, 3]), positive(&[2, 3]), t(&[2, 3]), n(2.0), n(1.0), n(0.1), n(true), n(0)]
        ),
    )
    .doc(
        "Return `max(0, d(anchor, positive) - d(anchor, negative) + margin)`, where `d` is `torch.pairwise_distance` \
         with `p` and `eps`. With `swap`, `d(positive, negative)` takes the place of the second distance where it is \
         smaller. All three tensors have one rank, and broadcast. `reduction` is 0 for none, 1 for the mean and 2 for \
         the sum.",
    )
    .no_out()
    .scope(Scope::Function)
    .autocast(Policies::both(Policy::Full)),
    Row::new(
        "soft_margin_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor",
        Tier::Composed,
        |a| widely(a, |a| one(soft_margin(a.tensor(0)?, a.tensor(1)?, reduction(a, 2)?)?)),
        samples!([t(&[2, 3]), positive(&[2, 3])], [t(&[2, 3]), t(&[2, 3]), n(2)]),
    )
    .doc(
        "Return `log(1 + exp(-target * input))`, where `target` is 1 or -1. The operands broadcast. `reduction` is 0 \
         for none, 1 for the mean and 2 for the sum.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::both(Policy::Full)),
];
