//! Dropout and related functions. [`crate::ops::random::keep_mask`] draws the elements to drop.

use crate::ops::pointwise::{select, select_scalar};
use crate::schema::{Args, Call, Ret, Row, Sample, Scope, Tier, mask, n, t};
use crate::{DType, Dims, Error, Result, Scalar, Tensor, default_dtype};

/// The elements that share a draw.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Element,
    Channel,
}

fn check(p: f64) -> Result<()> {
    if (0.0..=1.0).contains(&p) {
        return Ok(());
    }
    Err(Error::runtime(format!("dropout probability has to be between 0 and 1, but got {p}")))
}

/// Whether a dropout returns its input unchanged.
fn drops_nothing(x: &Tensor, p: f64, train: bool) -> bool {
    !train || p == 0.0 || x.numel() == 0
}

/// Whether each element, or each channel of `[n, c, ..]`, is kept.
fn keeps(x: &Tensor, p: f64, unit: Unit) -> Result<Tensor> {
    if unit == Unit::Element {
        return crate::ops::random::keep_mask_like(x, 1.0 - p);
    }
    let mut meta = *x.meta();
    let rank = meta.dims.len();
    if rank < 2 {
        return Err(Error::runtime("Feature dropout requires at least 2 dimensions in the input"));
    }
    meta.dims = meta.dims[..2].iter().copied().chain(std::iter::repeat_n(1, rank - 2)).collect::<Dims>();
    crate::ops::random::keep_mask(&meta, 1.0 - p, None)
}

/// Zeros, the result if all elements are dropped.
fn nothing(x: &Tensor) -> Result<Tensor> {
    x.mul_scalar(if x.dtype().is_inexact() { Scalar::Float(0.0) } else { Scalar::Int(0) })
}

/// Refuse integers, which cannot be multiplied by the factor.
fn check_scales(x: &Tensor) -> Result<()> {
    if x.dtype().is_inexact() {
        return Ok(());
    }
    let (from, to) = (default_dtype().scalar_type(), x.dtype().scalar_type());
    Err(Error::runtime(format!("result type {from} can't be cast to the desired output type {to}")))
}

fn drop(x: &Tensor, p: f64, train: bool, unit: Unit) -> Result<Tensor> {
    check(p)?;
    if drops_nothing(x, p, train) {
        return Ok(x.clone());
    }
    if p == 1.0 {
        return nothing(x);
    }
    check_scales(x)?;
    let kept = keeps(x, p, unit)?;
    // Round the factor like the quotient of two numbers of the dtype.
    let factor = match x.dtype() {
        DType::F64 | DType::C128 => 1.0 / (1.0 - p),
        _ => (1.0f32 / (1.0 - p) as f32) as f64,
    };
    let zero = Tensor::number(Scalar::Float(0.0), x.dtype())?;
    select(&kept, &x.mul_scalar(factor)?, &zero)
}

/// `torch.nn.functional.dropout`: set each element to zero with probability `p`, and scale the others by `1 / (1 - p)`.
///
/// # Errors
/// `Runtime` when `p` is no probability.
pub fn dropout(x: &Tensor, p: f64, train: bool) -> Result<Tensor> {
    drop(x, p, train, Unit::Element)
}

/// Dropout that keeps mean and variance of the outputs of SELU. Dropped elements become SELU's lower limit.
fn alpha_dropout(x: &Tensor, p: f64, train: bool, unit: Unit) -> Result<Tensor> {
    check(p)?;
    if drops_nothing(x, p, train) {
        return Ok(x.clone());
    }
    if p == 1.0 {
        return nothing(x);
    }
    check_scales(x)?;
    const LIMIT: f64 = 1.758_099_340_847_376_7;
    let scale = 1.0 / ((LIMIT * LIMIT * p + 1.0) * (1.0 - p)).sqrt();
    let kept = keeps(x, p, unit)?;
    let shift = LIMIT * scale * p;
    let y = x.mul_scalar(scale)?.add_scalar(shift)?;
    let gone = crate::ops::pointwise::unary(torchtpu_kernels::pointwise::UnaryKind::LogicalNot, &kept)?;
    select_scalar(&gone, shift - LIMIT * scale, &y)
}

/// The in-place form of a dropout. If nothing is dropped, nothing is written, so that gradients that need the values
/// still have them.
fn in_place(a: &Args<'_>, f: fn(&Tensor, f64, bool) -> Result<Tensor>) -> Result<Ret> {
    let (x, p, train) = (a.tensor(0)?, a.float(1)?, a.bool(2)?);
    check(p)?;
    if !drops_nothing(x, p, train) {
        crate::inplace::apply(x, |alias| f(alias, p, train))?;
    }
    Ok(x.clone().into())
}

macro_rules! dropout_row {
    ($schema:literal, $f:expr) => {
        Row::new(
            $schema,
            Tier::Composed,
            {
                const F: Call = |a| Ok($f(a.tensor(0)?, a.float(1)?, a.bool(2)?)?.into());
                F
            },
            samples,
        )
        .inplace_by({
            const F: Call = |a| in_place(a, $f);
            F
        })
        .scope(Scope::Function)
    };
}

/// `torch.native_dropout`: the result, and the mask of kept elements.
fn native_dropout(x: &Tensor, p: f64, train: Option<bool>) -> Result<(Tensor, Tensor)> {
    let meta = x.meta().with_dtype(DType::Bool);
    if x.numel() == 0 || train == Some(false) {
        return Ok((x.copy()?, Tensor::full_meta(&meta, Scalar::Bool(true))?));
    }
    check(p)?;
    let kept = crate::ops::random::keep_mask_like(x, 1.0 - p)?;
    let scale = if p == 1.0 { 0.0 } else { 1.0 / (1.0 - p) };
    Ok((x.mul(&kept)?.mul_scalar(scale)?, kept))
}

fn samples() -> Vec<Sample> {
    vec![Sample::new(vec![t(&[2, 3, 4]), n(0.5), n(false)]), Sample::new(vec![t(&[2, 3, 4]), n(1.0), n(true)])]
}

/// Rows of the dropouts.
pub const ROWS: &[Row] = &[
    dropout_row!("dropout(Tensor input, float p, bool train) -> Tensor", |x: &Tensor, p, train| drop(
        x,
        p,
        train,
        Unit::Element
    ))
    .doc(
        "Return `input` with each element zeroed with probability `p` and the others multiplied by `1 / (1 - p)`. \
         Without `train`, or with `p = 0`, return `input` itself. `p = 1` gives zeros. Integers raise `RuntimeError` \
         where the factor is needed, and `p` outside `[0, 1]` always does.",
    ),
    dropout_row!("feature_dropout(Tensor input, float p, bool train) -> Tensor", |x: &Tensor, p, train| drop(
        x,
        p,
        train,
        Unit::Channel
    ))
    .doc(
        "Return `input` with each channel zeroed with probability `p` and the others multiplied by `1 / (1 - p)`. A \
         channel is the part `input[i, j]` of an input `(n, c, ...)`. Fewer than two dimensions raise `RuntimeError`. \
         Without `train`, or with `p = 0`, return `input` itself.",
    ),
    dropout_row!("alpha_dropout(Tensor input, float p, bool train) -> Tensor", |x: &Tensor, p, train| {
        alpha_dropout(x, p, train, Unit::Element)
    })
    .doc(
        "Return `input` with each element replaced with probability `p` by -1.7581, the lower limit of `selu`, and \
         all elements then scaled and shifted. The scale and the shift keep mean 0 and variance 1. Without `train`, \
         or with `p = 0`, return `input` itself. `p = 1` gives zeros.",
    ),
    dropout_row!("feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor", |x: &Tensor, p, train| {
        alpha_dropout(x, p, train, Unit::Channel)
    })
    .doc(
        "Return `input` with whole channels replaced as `torch.alpha_dropout` replaces elements: each channel \
         `input[i, j]` of an input `(n, c, ...)` with probability `p`. Fewer than two dimensions raise \
         `RuntimeError`. Without `train`, or with `p = 0`, return `input` itself.",
    ),
    Row::new(
        "native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)",
        Tier::Composed,
        |a| Ok(native_dropout(a.tensor(0)?, a.float(1)?, a.opt_bool(2)?)?.into()),
        || vec![Sample::new(vec![t(&[2, 3]), n(0.5), n(false)]), Sample::new(vec![t(&[2, 3]), n(0.0), n(true)])],
    )
    .doc(
        "Return `input` after dropout, and a `bool` tensor that is True where an element was kept. Elements are \
         zeroed with probability `p`, the others multiplied by `1 / (1 - p)`. `train=None` means True. With \
         `train=False` the result is a copy of `input` and all elements are kept.",
    )
    .scope(Scope::Function),
    Row::new(
        "native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor",
        Tier::Composed,
        |a| {
            let (g, mask) = (a.tensor(0)?, a.tensor(1)?);
            if mask.dtype() != DType::Bool {
                return Err(Error::runtime(format!("Mask should be Bool Scalar Type{}", mask.dtype().scalar_type())));
            }
            Ok(g.mul(&mask.to_dtype(g.dtype())?.mul_scalar(a.float(2)?)?)?.into())
        },
        || vec![Sample::new(vec![t(&[2, 3]), mask(&[2, 3]), n(2.0)])],
    )
    .doc("Return `grad_output * mask * scale`, the gradient of `torch.native_dropout`. `mask` must be `bool`.")
    .scope(Scope::Aten),
];
