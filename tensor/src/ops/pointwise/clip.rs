//! `clamp`, `clip` and their one-sided forms.

use crate::ops::ok;
use crate::ops::pointwise::{arith, binary, compare, result_type_of, select, select_scalar};
use crate::scalar::general;
use crate::schema::{Args, Operand, Row, SampleArg, Tier, n, positive, t, unit};
use crate::types::compute::narrowed;
use crate::{DType, Error, ErrorKind, Result, Scalar, Tensor, graph, samples};
use torchtpu_kernels::pointwise::{BinaryKind, CompareKind};

/// Clamp `x` to bounds that are tensors or numbers. If the bounds cross, the upper one wins. NaN stays. Strictly
/// between numbers the gradient goes to `x`, elsewhere it is zero. Tensors get the gradient where they bound, and half
/// of it where an element equals them.
///
/// # Errors
/// `Runtime` when there is no bound, or shapes do not broadcast.
pub fn clamp(x: &Tensor, low: Option<Operand<'_>>, high: Option<Operand<'_>>) -> Result<Tensor> {
    if low.is_none() && high.is_none() {
        return Err(Error::runtime("torch.clamp: At least one of 'min' or 'max' must not be None"));
    }
    let mut all = vec![Operand::Tensor(x)];
    all.extend(low.iter().chain(&high));
    let dtype = result_type_of(&all);
    if dtype.is_complex() {
        return Err(Error::not_implemented("clamp is not supported for complex types"));
    }
    let x = narrowed(x.clone(), dtype)?;
    let by_numbers = graph::may_need_grad(&[&x]) && all[1..].iter().all(|b| matches!(b, Operand::Scalar(_)));
    let mut y = if by_numbers { x.detach() } else { x.clone() };
    let mut within: Option<Tensor> = None;
    for (bound, kind, inside) in
        [(low, BinaryKind::Maximum, CompareKind::Gt), (high, BinaryKind::Minimum, CompareKind::Lt)]
    {
        let Some(bound) = bound else { continue };
        let bound = match bound {
            Operand::Tensor(b) => narrowed(b.clone(), dtype)?,
            Operand::Scalar(s) => {
                let Some(s) = representable(s, dtype, kind)? else { continue };
                let bound = Tensor::number(s, dtype)?;
                if by_numbers {
                    let here = compare(inside, Operand::Tensor(&x), Operand::Tensor(&bound))?;
                    within = Some(match within {
                        Some(before) => binary(BinaryKind::LogicalAnd, &before, &here)?,
                        None => here,
                    });
                }
                bound
            }
        };
        y = arith(kind, Operand::Tensor(&y), Operand::Tensor(&bound))?;
    }
    match within {
        Some(within) => select(&within, &x, &y),
        None => y.copy_if_view(&x),
    }
}

/// A bound in a form that the dtype can hold: `None` if no element can be beyond it, an error if all elements would be.
fn representable(bound: Scalar, dtype: DType, kind: BinaryKind) -> Result<Option<Scalar>> {
    if let (Scalar::Unsigned(_), DType::I64) = (bound, dtype) {
        // Every `int64` is below it.
        return match kind {
            BinaryKind::Maximum => Err(Error::runtime(format!(
                "Clamp min value {} is outside the representable range of Long",
                general(bound.to_f64())
            ))),
            _ => Ok(None),
        };
    }
    let least = match dtype {
        DType::U8 => 0.0,
        DType::I8 => f64::from(i8::MIN),
        DType::I16 => f64::from(i16::MIN),
        DType::I32 => f64::from(i32::MIN),
        _ => return Ok(Some(bound)),
    };
    let most = crate::ops::random::largest(dtype) as f64;
    let v = bound.to_f64();
    let (name, beyond, within) = match kind {
        BinaryKind::Maximum => ("min", v > most, v >= least),
        _ => ("max", v < least, v <= most),
    };
    if beyond {
        return Err(Error::runtime(format!(
            "Clamp {name} value {} is outside the representable range of {}",
            general(v),
            dtype.scalar_type()
        )));
    }
    Ok(within.then_some(bound))
}

/// [`clamp`] by numbers. The gradient goes to `x` also where an element equals a bound.
pub(crate) fn clamp_scalars(x: &Tensor, low: Option<f64>, high: Option<f64>) -> Result<Tensor> {
    crate::ops::complex::refuse(x, ErrorKind::NotImplemented, "clamp is not supported for complex types")?;
    if !x.dtype().is_float() || !graph::may_need_grad(&[x]) {
        let number =
            |v: f64| Operand::Scalar(if x.dtype().is_float() { Scalar::Float(v) } else { Scalar::Int(v as i64) });
        return clamp(x, low.map(number), high.map(number));
    }
    let mut y = x.clone();
    if let Some(low) = low {
        y = select_scalar(&y.lt_scalar(low)?, low, &y)?;
    }
    if let Some(high) = high {
        y = select_scalar(&y.gt_scalar(high)?, high, &y)?;
    }
    Ok(y)
}

fn opt_operand<'a>(a: &Args<'a>, i: usize) -> Result<Option<Operand<'a>>> {
    Ok(match a.opt_tensor(i) {
        Ok(t) => t.map(Operand::Tensor),
        Err(_) => Some(a.operand(i)?),
    })
}

/// Rows of the functions that clip.
pub const ROWS: &[Row] = &[
    Row::new(
        "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
        Tier::Composed,
        |a| ok(clamp(a.tensor(0)?, opt_operand(a, 1)?, opt_operand(a, 2)?)?),
        samples!([t(&[2, 3]), unit(&[3]), positive(&[2, 1])]),
    )
    .doc(
        "Return `input` with elements below `min` replaced by `min` and elements above `max` by `max`. The bounds \
         are numbers, or tensors that broadcast; one of them may be left out. Where they cross, `max` wins. NaN \
         stays NaN. The result has the common dtype of all operands; complex ones are refused.",
    )
    .inplace()
    .in_place_function(),
    Row::new(
        "clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
        Tier::Composed,
        |a| ok(clamp(a.tensor(0)?, opt_operand(a, 1)?, opt_operand(a, 2)?)?),
        samples!([t(&[2, 3]), n(-0.5), n(0.7)], [t(&[2, 3]), SampleArg::Default, n(0.7)]),
    )
    .inplace()
    .in_place_function(),
    Row::new(
        "clip.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
        Tier::Composed,
        |a| ok(clamp(a.tensor(0)?, opt_operand(a, 1)?, opt_operand(a, 2)?)?),
        samples!([t(&[2, 3]), unit(&[3])]),
    )
    .doc("Alias of `torch.clamp`.")
    .inplace()
    .in_place_function(),
    Row::new(
        "clip(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
        Tier::Composed,
        |a| ok(clamp(a.tensor(0)?, opt_operand(a, 1)?, opt_operand(a, 2)?)?),
        samples!([t(&[2, 3]), n(-0.5), n(0.7)]),
    )
    .inplace()
    .in_place_function(),
    Row::new(
        "clamp_min.Tensor(Tensor self, Tensor min) -> Tensor",
        Tier::Composed,
        |a| ok(clamp(a.tensor(0)?, Some(a.operand(1)?), None)?),
        samples!([t(&[2, 3]), unit(&[3])]),
    )
    .doc(
        "Return `input` with elements below `min` replaced by `min`, a number or a tensor that broadcasts. It is \
         `torch.clamp` with a lower bound alone.",
    )
    .inplace()
    .in_place_function(),
    Row::new(
        "clamp_min(Tensor self, Scalar min) -> Tensor",
        Tier::Composed,
        |a| ok(clamp(a.tensor(0)?, Some(a.operand(1)?), None)?),
        samples!([t(&[2, 3]), n(-0.5)]),
    )
    .inplace()
    .in_place_function(),
    Row::new(
        "clamp_max.Tensor(Tensor self, Tensor max) -> Tensor",
        Tier::Composed,
        |a| ok(clamp(a.tensor(0)?, None, Some(a.operand(1)?))?),
        samples!([t(&[2, 3]), unit(&[3])]),
    )
    .doc(
        "Return `input` with elements above `max` replaced by `max`, a number or a tensor that broadcasts. It is \
         `torch.clamp` with an upper bound alone.",
    )
    .inplace()
    .in_place_function(),
    Row::new(
        "clamp_max(Tensor self, Scalar max) -> Tensor",
        Tier::Composed,
        |a| ok(clamp(a.tensor(0)?, None, Some(a.operand(1)?))?),
        samples!([t(&[2, 3]), n(0.5)]),
    )
    .inplace()
    .in_place_function(),
];
