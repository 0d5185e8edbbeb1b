//! Special functions composed of element-wise ops, and tests of elements.
//!
//! Values and gradients are also right at points where the plain formula is not. An argument that would leave the
//! domain is replaced before the function gets it.

use crate::formula::{by_formula, by_result};
use crate::op::{Grads, bit, normalize_dims};
use crate::ops::complex::refuse;
use crate::ops::pointwise::{arith, as_tensor, binary, result_type, select, select_scalar};
use crate::schema::{
    Aliasing, Args, DTypeWithOut, Numbers, Operand, OutDType, Row, Sample, Tier, ints, messages, n, positive, t, unit,
    widely,
};
use crate::types::compute::{compute_dtype, narrowed, widened};
use crate::{DType, Error, ErrorKind, Result, Scalar, Tensor, default_dtype, graph, samples};
use smallvec::smallvec;
use std::f64::consts::{LN_2, PI};
use torchtpu_kernels::pointwise::BinaryKind;

/// Two operands as floating-point tensors of their common dtype.
fn floats(a: &Args<'_>) -> Result<(Tensor, Tensor)> {
    let (x, y) = (a.operand(0)?, a.operand(1)?);
    let dtype = result_type(x, y);
    let dtype = if dtype.is_inexact() { dtype } else { default_dtype() };
    Ok((as_tensor(x, dtype)?, as_tensor(y, dtype)?))
}

fn float(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_inexact() { Ok(x.clone()) } else { x.to_dtype(default_dtype()) }
}

/// Refuse complex numbers. `kernel` is PyTorch's name of the kernel.
fn real_only(kernel: &str, x: &Tensor) -> Result<()> {
    if x.dtype().is_complex() { Err(crate::ops::complex::unsupported(kernel, x.dtype())) } else { Ok(()) }
}

/// `x * log1p(y)`, zero where `x` is zero unless `y` is NaN.
fn xlog1py(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    real_only("xlog1py_cpu", x)?;
    let forward = || {
        // Where `x` is zero, the logarithm is one of a number within its domain.
        let (dtype, x, y) = (x.dtype(), &widened(x)?, &widened(y)?);
        let safe = select_scalar(&x.eq_scalar(0.0)?.logical_and(&y.isnan()?.logical_not()?)?, 1.0, y)?;
        narrowed(x.mul(&safe.log1p()?)?, dtype)
    };
    by_formula("SpecialXlog1PyBackward0", &[x, y], forward, xlog1py_vjp)
}

/// Gradients of [`xlog1py`]. A gradient of zero stays zero where the logarithm is none, so that a mask after the
/// function protects from elements outside of its domain.
fn xlog1py_vjp(x: &[Tensor], g: &Tensor, needs: u64) -> Result<Grads> {
    let (x, y) = (&x[0], &x[1]);
    let zero = x.eq_scalar(0.0)?;
    let of_x = || -> Result<Tensor> {
        let outside = zero.logical_and(&y.le_scalar(-1.0)?)?;
        select_scalar(&outside, 0.0, &xlog1py(g, y)?)
    };
    let of_y = || -> Result<Tensor> {
        let pole = zero.logical_and(&y.eq_scalar(-1.0)?)?;
        g.mul(x)?.div(&select_scalar(&pole, 1.0, &y.add_scalar(1.0)?)?)
    };
    Ok(smallvec![if needs & 1 != 0 { Some(of_x()?) } else { None }, if needs & 2 != 0 { Some(of_y()?) } else { None }])
}

/// `-x * log(x)`; zero at zero, minus infinity below.
fn entropy(x: &Tensor) -> Result<Tensor> {
    let x = &float(x)?;
    let forward = || -> Result<Tensor> {
        let y = select_scalar(&x.eq_scalar(0.0)?, 0.0, &binary(BinaryKind::Xlogy, x, x)?.neg()?)?;
        select_scalar(&x.lt_scalar(0.0)?, f64::NEG_INFINITY, &y)
    };
    let rule = |x: &[Tensor], g: &Tensor, _| Ok(smallvec![Some(g.mul(&x[0].log()?.add_scalar(1.0)?.neg()?)?)]);
    by_formula("SpecialEntrBackward0", &[x], forward, rule)
}

/// `log(x / (1 - x))`, of `x` clamped to `[eps, 1 - eps]` if given.
fn logit(x: &Tensor, eps: Option<f64>) -> Result<Tensor> {
    real_only("logit_cpu", x)?;
    let x = &float(x)?;
    let forward = || -> Result<Tensor> {
        let wide = &widened(x)?;
        let v = match eps {
            None => wide.clone(),
            Some(e) => {
                let (low, high) = (wide.lt_scalar(e)?, wide.gt_scalar(1.0 - e)?);
                // If `eps` is above one half, the lower bound wins.
                select_scalar(&low, e, &select_scalar(&high, 1.0 - e, wide)?)?
            }
        };
        narrowed(v.div(&v.neg()?.add_scalar(1.0)?)?.log()?, x.dtype())
    };
    by_formula("LogitBackward0", &[x], forward, move |x, g, _| {
        // `g / (x (1 - x))` within the bounds. Outside of them there is no gradient, and with `eps` it is zero.
        let x = &x[0];
        let least = eps.unwrap_or(0.0);
        let within = x.ge_scalar(least)?.logical_and(&x.le_scalar(1.0 - least)?)?;
        let outside = within.logical_not()?;
        let (x, otherwise) = (select_scalar(&outside, 0.5, x)?, if eps.is_some() { 0.0 } else { f64::NAN });
        let d = g.div(&x.mul(&x.neg()?.add_scalar(1.0)?)?)?;
        Ok(smallvec![Some(select_scalar(&outside, otherwise, &d)?)])
    })
}

/// `sin(pi x) / (pi x)`, one at zero.
fn sinc(x: &Tensor) -> Result<Tensor> {
    let x = &float(x)?;
    let forward = || -> Result<Tensor> {
        let v = widened(x)?.mul_scalar(PI)?;
        let zero = v.eq_scalar(0.0)?;
        let safe = select_scalar(&zero, 1.0, &v)?;
        let sine = match x.dtype().is_half() {
            true => half_turns(&widened(x)?)?.0,
            false => safe.sin()?,
        };
        narrowed(select_scalar(&zero, 1.0, &sine.div(&safe)?)?, x.dtype())
    };
    let is_half = x.dtype().is_half();
    by_formula("SincBackward0", &[x], forward, move |x, g, _| {
        Ok(smallvec![Some(g.mul(&sinc_slope(&x[0].conj()?, is_half)?)?)])
    })
}

/// `sin(pi x)` and `cos(pi x)` of real numbers, from the distance to the nearest whole number. The product of a large
/// number with pi has no digits left for the angle.
fn half_turns(x: &Tensor) -> Result<(Tensor, Tensor)> {
    let whole = x.detach().round()?;
    let angle = x.sub(&whole)?.mul_scalar(PI)?;
    let odd = whole.sub(&whole.mul_scalar(0.5)?.floor()?.mul_scalar(2.0)?)?;
    let sign = odd.mul_scalar(-2.0)?.add_scalar(1.0)?;
    Ok((angle.sin()?.mul(&sign)?, angle.cos()?.mul(&sign)?))
}

/// The derivative of `sinc`: `(cos(pi x) - sinc(x)) / x`. Near zero, where the difference cancels, it is a series.
/// `reduce` asks for the angles of [`half_turns`].
fn sinc_slope(x: &Tensor, reduce: bool) -> Result<Tensor> {
    const COEFFICIENTS: [f64; 5] = [-1.0 / 3.0, 1.0 / 30.0, -1.0 / 840.0, 1.0 / 45360.0, -1.0 / 3991680.0];
    let v = x.mul_scalar(PI)?;
    let near = v.detach().abs()?.lt_scalar(0.25)?;
    let small = select_scalar(&near.logical_not()?, 0.0, &v)?;
    let squared = small.square()?;
    let mut series = squared.mul_scalar(COEFFICIENTS[4])?;
    for c in COEFFICIENTS[1..4].iter().rev() {
        series = series.add_scalar(*c)?.mul(&squared)?;
    }
    let series = series.add_scalar(COEFFICIENTS[0])?.mul(&small)?.mul_scalar(PI)?;
    let large = select_scalar(&near, 1.0, &v)?;
    let (sine, cosine) = match reduce {
        true => half_turns(&select_scalar(&near, 1.0, x)?)?,
        false => (large.sin()?, large.cos()?),
    };
    let quotient = cosine.sub(&sine.div(&large)?)?.div(&large)?.mul_scalar(PI)?;
    select(&near, &series, &quotient)
}

/// The logistic function within the gradient of another function. Its own gradient, `s(x) s(-x)`, keeps its digits for
/// large `x`, where `1 - s(x)` has none left.
pub(crate) fn logistic(x: &Tensor) -> Result<Tensor> {
    by_formula(
        "SigmoidBackward0",
        &[x],
        || x.sigmoid(),
        |x, g, _| Ok(smallvec![Some(g.mul(&logistic(&x[0])?)?.mul(&logistic(&x[0].neg()?)?)?)]),
    )
}

/// `log(exp(x) + exp(y))` of complex numbers.
pub(super) fn logaddexp_of_complex(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    // The term with the larger real part is factored out of the sum.
    let swap = x.real()?.lt(&y.real()?)?;
    let (high, low) = (select(&swap, y, x)?, select(&swap, x, y)?);
    let sum = high.add(&low.sub(&high)?.exp()?.log1p()?)?;
    // An infinite part absorbs the other term. The difference of two infinities is NaN.
    let infinite = high.real()?.abs()?.eq_scalar(f64::INFINITY)?;
    select(&infinite, &high, &sum)
}

/// `log2(2^x + 2^y)`, without overflow.
fn logaddexp2(a: &Args<'_>) -> Result<Tensor> {
    let dtype = result_type(a.operand(0)?, a.operand(1)?);
    if !dtype.is_float() {
        return Err(crate::ops::complex::unsupported("logaddexp2_cpu", dtype));
    }
    let (x, y) = &floats(a)?;
    let forward = || -> Result<Tensor> {
        let (a, b) = (widened(x)?, widened(y)?);
        let top = a.maximum(&b)?;
        let equal = a.eq(&b)?.logical_and(&top.isinf()?)?;
        let rest = a.sub(&b)?.abs()?.neg()?.exp2()?.log1p()?.div_scalar(LN_2)?;
        narrowed(select(&equal, &top, &top.add(&rest)?)?, x.dtype())
    };
    by_formula("Logaddexp2Backward0", &[x, y], forward, |x, g, needs| {
        let gap = x[0].sub(&x[1])?.mul_scalar(LN_2)?;
        let part = |i: u64, gap: &Tensor| match needs >> i & 1 {
            0 => Ok(None),
            _ => g.mul(&logistic(gap)?).map(Some),
        };
        Ok(smallvec![part(0, &gap)?, part(1, &gap.neg()?)?])
    })
}

/// Step function with the given values at zero.
fn heaviside(x: Operand<'_>, values: Operand<'_>) -> Result<Tensor> {
    let (Operand::Tensor(x), Operand::Tensor(values)) = (x, values) else {
        return Err(Error::type_error("heaviside(): arguments 'input' and 'values' must be Tensors"));
    };
    if x.dtype() != values.dtype() {
        return Err(Error::runtime("heaviside is not yet implemented for tensors with different dtypes."));
    }
    refuse(x, ErrorKind::NotImplemented, "heaviside is not yet implemented for complex tensors.")?;
    let y = {
        let (x, values) = (x.detach(), values.detach());
        select(&x.eq_scalar(0)?, &values, &x.gt_scalar(0)?.to_dtype(x.dtype())?)?
    };
    if !graph::may_need_grad(&[x, values]) {
        return Ok(y);
    }
    let why = "derivative for aten::heaviside is not implemented".to_string();
    graph::refuse_backward(&y, &[x, values], "NotImplemented", why)
}

/// Largest finite number of a dtype.
fn largest(d: DType) -> f64 {
    match d {
        DType::F64 => f64::MAX,
        DType::F16 => 65504.0,
        DType::BF16 => f64::from(half_max()),
        _ => f64::from(f32::MAX),
    }
}

/// The largest `bfloat16`: the upper half of the largest `f32`.
fn half_max() -> f32 {
    f32::from_bits(0x7f7f_0000)
}

/// Replace NaN and infinities by numbers.
fn nan_to_num(x: &Tensor, nan: Option<f64>, high: Option<f64>, low: Option<f64>) -> Result<Tensor> {
    if x.dtype().is_complex() {
        return crate::ops::complex::by_parts(x, |x| nan_to_num(x, nan, high, low));
    }
    if !x.dtype().is_float() {
        return x.copy();
    }
    let top = largest(x.dtype());
    let y = select_scalar(&x.isnan()?, nan.unwrap_or(0.0), x)?;
    let y = select_scalar(&x.eq_scalar(f64::INFINITY)?, high.unwrap_or(top), &y)?;
    select_scalar(&x.eq_scalar(f64::NEG_INFINITY)?, low.unwrap_or(-top), &y)
}

/// Whether the sign bit is set, also for `-0.0`.
fn signbit(x: &Tensor) -> Result<Tensor> {
    refuse(x, ErrorKind::NotImplemented, "signbit is not implemented for complex tensors.")?;
    if !x.dtype().is_float() {
        return if x.dtype() == DType::Bool { x.logical_and(&x.logical_not()?) } else { x.lt_scalar(0) };
    }
    let one = Operand::Scalar(Scalar::Float(1.0));
    arith(BinaryKind::Copysign, one, Operand::Tensor(&x.detach()))?.lt_scalar(0.0)
}

/// Whether an element is one of the infinities.
fn is_infinity(x: &Tensor, v: f64) -> Result<Tensor> {
    let name = if v > 0.0 { "isposinf" } else { "isneginf" };
    refuse(x, ErrorKind::Type, &format!("{name} does not support complex inputs."))?;
    if x.dtype().is_float() { x.eq_scalar(v) } else { x.isinf() }
}

/// Logarithm of the multivariate gamma function.
fn mvlgamma(x: &Tensor, p: i64) -> Result<Tensor> {
    if p < 1 {
        return Err(Error::runtime("p has to be greater than or equal to 1"));
    }
    let x = float(x)?;
    let mut y = x.lgamma()?;
    // More than a few terms are computed as one tensor, so that a large `p` fails at once with `OutOfMemory`.
    const FEW: i64 = 64;
    for j in 1..p.min(FEW) {
        y = y.add(&x.sub_scalar(j as f64 / 2.0)?.lgamma()?)?;
    }
    if p > FEW {
        let half = Scalar::Float(0.5);
        let (from, to) = (Scalar::Float(FEW as f64 / 2.0), Scalar::Float(p as f64 / 2.0));
        let by = Tensor::arange(from, to, half, x.dtype(), x.place())?;
        y = y.add(&x.unsqueeze(-1)?.sub(&by)?.lgamma()?.sum_dim(&[-1], false)?)?;
    }
    y.add_scalar(p as f64 * (p as f64 - 1.0) / 4.0 * PI.ln())
}

/// Bernoulli numbers `B_2, B_4, ...`, each divided by the factorial of its index.
const BERNOULLI: [f64; 8] = [
    1.0 / 12.0,
    -1.0 / 720.0,
    1.0 / 30240.0,
    -1.0 / 1209600.0,
    1.0 / 47900160.0,
    -691.0 / 1307674368000.0,
    1.0 / 74724249600.0,
    -3617.0 / 10670622842880000.0,
];

/// `sum over k >= 0 of (x + k)^-s` for `x >= 1/2` and whole `s >= 2`: a few terms, and the rest by the Euler-Maclaurin
/// formula.
fn zeta_of_positive(s: i64, x: &Tensor) -> Result<Tensor> {
    let terms = s.clamp(10, 40);
    let p = s as f64;
    let mut y = x.pow_scalar(-p)?;
    for k in 1..terms {
        y = y.add(&x.add_scalar(k as f64)?.pow_scalar(-p)?)?;
    }
    let w = x.add_scalar(terms as f64)?;
    y = y.add(&w.pow_scalar(1.0 - p)?.div_scalar(p - 1.0)?)?.add(&w.pow_scalar(-p)?.mul_scalar(0.5)?)?;
    let mut rising = p;
    for (j, b) in BERNOULLI.iter().enumerate() {
        let odd = 2.0 * j as f64 + 1.0;
        y = y.add(&w.pow_scalar(-p - odd)?.mul_scalar(b * rising)?)?;
        rising *= (p + odd) * (p + odd + 1.0);
    }
    Ok(y)
}

/// From this order on, a few terms near zero make up the whole sum, and the reflection would lose digits.
const MANY: i64 = 20;

/// `sum over k >= 0 of (x + k)^-s` for `s > MANY`, also for negative `x`: the terms right of zero, and at most `MANY`
/// left of it, since the next one is below `MANY^-MANY` of the largest.
fn zeta_of_all(s: i64, x: &Tensor) -> Result<Tensor> {
    let p = s as f64;
    let whole = x.floor()?;
    let part = x.sub(&whole)?;
    // Terms left of zero start at the fraction of `x`, terms right of it at `x`.
    let near = select(&whole.lt_scalar(0.0)?, &part, x)?;
    let mut y = zeta_of_positive(s, &near.add_scalar(MANY as f64)?)?;
    let sign = if s % 2 == 0 { 1.0 } else { -1.0 };
    // Add from the smallest term on, as pairs from both sides, which may cancel.
    for m in (1..=MANY).rev() {
        let m = m as f64;
        let right = near.add_scalar(m - 1.0)?.pow_scalar(-p)?;
        let left = part.neg()?.add_scalar(m)?.pow_scalar(-p)?.mul_scalar(sign)?;
        y = y.add(&select(&whole.le_scalar(-m)?, &right.add(&left)?, &right)?)?;
    }
    Ok(y)
}

/// Coefficients of the polynomial in `cot(z)` that is the `n`-th derivative of `cot(z)`.
fn cotangent_derivative(n: i64) -> Vec<f64> {
    let mut c = vec![0.0, 1.0];
    for _ in 0..n {
        // d/dz P(cot z) = -(1 + cot^2 z) P'(cot z)
        let mut next = vec![0.0; c.len() + 1];
        for (i, a) in c.iter().enumerate().skip(1) {
            next[i - 1] -= a * i as f64;
            next[i + 1] -= a * i as f64;
        }
        c = next;
    }
    c
}

/// The `n`-th derivative of the digamma function: left of 1/2 by reflection, and infinite at the poles. It is computed
/// in `f64`, since the reflection cancels.
pub fn polygamma(order: i64, x: &Tensor) -> Result<Tensor> {
    if order < 0 {
        return Err(Error::runtime("polygamma(n, x) does not support negative n."));
    }
    let x = &float(x)?;
    if order == 0 {
        return x.digamma();
    }
    if x.dtype().is_complex() {
        let name = if order == 1 { "trigamma" } else { "polygamma" };
        return Err(crate::ops::complex::unsupported(name, x.dtype()));
    }
    // The next derivative is infinite at the poles, where those of the parts have no limit.
    let rule =
        move |x: &[Tensor], g: &Tensor, _| Ok(smallvec![Some(g.mul(&polygamma(order.saturating_add(1), &x[0])?)?)]);
    by_formula("PolygammaBackward0", &[x], || polygamma_value(order, x), rule)
}

/// [`polygamma`] of a positive order.
fn polygamma_value(order: i64, x: &Tensor) -> Result<Tensor> {
    let wide = x.to_dtype(DType::F64)?;
    // 171! is larger than the largest number.
    let factorial: f64 = (1..=order.min(171)).map(|k| k as f64).product();
    let sign = if order % 2 == 0 { -1.0 } else { 1.0 };
    let left = wide.lt_scalar(0.5)?;
    let pole = wide.le_scalar(0.0)?.logical_and(&wide.eq(&wide.floor()?)?)?;
    let right = select(&left, &wide.neg()?.add_scalar(1.0)?, &wide)?;
    if order >= MANY {
        let y = zeta_of_all(order.saturating_add(1), &wide)?.mul_scalar(sign * factorial)?;
        return select_scalar(&pole, sign * f64::INFINITY, &y)?.to_dtype(x.dtype());
    }
    let y = zeta_of_positive(order + 1, &right)?.mul_scalar(sign * factorial)?;
    // cot(pi x) has period 1. Remove the whole part first, which would only cost digits.
    let near = wide.sub(&wide.round()?.detach())?;
    let angle = select_scalar(&left.logical_and(&pole.logical_not()?)?.logical_not()?, 0.25, &near)?;
    let cot = angle.mul_scalar(PI)?.tan()?.reciprocal()?;
    let coefficients = cotangent_derivative(order);
    let mut poly = Tensor::zeros_like_meta(cot.meta())?;
    for c in coefficients.iter().rev() {
        poly = poly.mul(&cot)?.add_scalar(*c)?;
    }
    let poly = poly.mul_scalar(PI.powi(order as i32 + 1))?;
    let reflected = y.mul_scalar(-sign)?.sub(&poly)?;
    let y = select(&left, &reflected, &y)?;
    select_scalar(&pole, sign * f64::INFINITY, &y)?.to_dtype(x.dtype())
}

/// Sum without NaN.
fn nansum(x: &Tensor, dims: Option<&[i64]>, keep: bool, dtype: Option<DType>) -> Result<Tensor> {
    refuse(x, ErrorKind::NotImplemented, "nansum on CPU does not support complex inputs")?;
    if let Some(d) = dtype.filter(|d| d.is_complex() && x.dtype().is_float()) {
        return Err(crate::ops::complex::unsupported("nansum_cpu", d));
    }
    let x = dtype.map_or_else(|| Ok(x.clone()), |d| x.to_dtype(d))?;
    let x = if x.dtype().is_float() { select_scalar(&x.isnan()?, 0.0, &x)? } else { x };
    let y = x.sum_dim(dims.unwrap_or(&[]), keep)?;
    dtype.map_or_else(|| Ok(y.clone()), |d| y.to_dtype(d))
}

/// Mean without NaN.
fn nanmean(x: &Tensor, dims: Option<&[i64]>, keep: bool, dtype: Option<DType>) -> Result<Tensor> {
    refuse(x, ErrorKind::NotImplemented, "nansum on CPU does not support complex inputs")?;
    if !x.dtype().is_float() {
        return Err(Error::not_implemented(format!(
            "nanmean(): expected input to have floating point or complex dtype but got {}",
            x.dtype().scalar_type()
        )));
    }
    if let Some(d) = dtype.filter(|d| !d.is_inexact()) {
        return Err(Error::runtime(format!(
            "mean(): could not infer output dtype. Optional dtype must be either a floating point or complex dtype. \
            Got: {}",
            d.scalar_type()
        )));
    }
    normalize_dims(dims.unwrap_or(&[]), x.dims().len())?;
    let count = x.isnan()?.logical_not()?.sum_dim(dims.unwrap_or(&[]), keep)?;
    // 16-bit sums would be rounded, or infinite, before they are divided.
    let narrow = dtype.unwrap_or(x.dtype());
    let wide = compute_dtype(narrow);
    narrowed(nansum(x, dims, keep, Some(wide).filter(|d| *d != x.dtype()))?.div(&count)?, narrow)
}

fn scaled(name: &str, x: &Tensor, by: f64) -> Result<Tensor> {
    refuse(x, ErrorKind::NotImplemented, &format!("{name} is not supported for complex tensors."))?;
    float(x)?.mul_scalar(by)
}

fn flat(x: crate::schema::SampleArg) -> Vec<Sample> {
    vec![Sample::new(vec![x]).no_gradient().dtypes(&[DType::I64, DType::Bool])]
}

/// `x * 2^e`. The gradient of floats reads `e` and the result, so that `x` may be written, as in PyTorch.
fn ldexp(x: Operand<'_>, e: Operand<'_>) -> Result<Tensor> {
    match (x, e) {
        (Operand::Tensor(x), Operand::Tensor(e))
            if x.dtype().is_float() && (e.dtype() == x.dtype() || !e.dtype().is_inexact()) =>
        {
            let rule = |v: &[Tensor], g: &Tensor, needs: u64| -> Result<Grads> {
                let (e, y) = (&v[0], &v[1]);
                let gx = || scaled_by_power(Operand::Tensor(g), Operand::Tensor(e));
                let ge = || g.mul(y)?.mul_scalar(LN_2);
                let when = |i: usize, f: &dyn Fn() -> Result<Tensor>| (needs & bit(i) != 0).then(f).transpose();
                Ok(smallvec![when(0, &gx)?, when(1, &ge)?])
            };
            let forward = || scaled_by_power(Operand::Tensor(x), Operand::Tensor(e));
            by_result("LdexpBackward0", &[x, e], 0b10, forward, rule)
        }
        _ => scaled_by_power(x, e),
    }
}

fn scaled_by_power(x: Operand<'_>, e: Operand<'_>) -> Result<Tensor> {
    // In 16 bits the power would be rounded, or infinite, before the product.
    if let (Operand::Tensor(x), Operand::Tensor(e)) = (x, e)
        && x.dtype().is_half()
        && result_type(Operand::Tensor(x), Operand::Tensor(e)) == x.dtype()
    {
        let two = arith(BinaryKind::Pow, Operand::Scalar(Scalar::Float(2.0)), Operand::Tensor(&widened(e)?))?;
        return narrowed(widened(x)?.mul(&two.to_dtype(DType::F32)?)?, x.dtype());
    }
    let two = arith(BinaryKind::Pow, Operand::Scalar(Scalar::Float(2.0)), e)?;
    // Whole exponents scale without a change of dtype.
    let two = match (x, e) {
        (Operand::Tensor(x), Operand::Tensor(e)) if x.dtype().is_inexact() && !e.dtype().is_inexact() => {
            two.to_dtype(x.dtype())?
        }
        _ => two,
    };
    arith(BinaryKind::Mul, x, Operand::Tensor(&two))
}

/// Rows of the special functions.
pub const ROWS: &[Row] = &[
    Row::new(
        "special_xlog1py(Tensor self, Tensor other) -> Tensor",
        Tier::Composed,
        |a| floats(a).and_then(|(x, y)| Ok(xlog1py(&x, &y)?.into())),
        samples!([t(&[2, 3]), positive(&[3])]),
    )
    .doc(
        "Return `input * log1p(other)`, element by element, and 0 where `input` is 0, unless `other` is NaN. The \
         operands broadcast; one of them may be a number. Integers are computed in the default floating-point dtype. \
         Complex tensors are refused.",
    )
    .scope(crate::schema::Scope::Nn)
    .numbers(Numbers::One),
    Row::new(
        "special_entr(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(entropy(a.tensor(0)?)?.into()),
        samples!([positive(&[2, 3])]),
    )
    .doc(
        "Return the entropy term `-input * log(input)` of each element. It is 0 at zero and `-inf` for negative \
         numbers. Integers and `bool` are computed in the default floating-point dtype.",
    )
    .scope(crate::schema::Scope::Nn),
    Row::new(
        "special_ndtr(Tensor self) -> Tensor",
        Tier::Composed,
        |a| {
            widely(a, |a| {
                Ok(float(a.tensor(0)?)?.mul_scalar(-std::f64::consts::FRAC_1_SQRT_2)?.erfc()?.mul_scalar(0.5)?.into())
            })
        },
        samples!([t(&[2, 3])]),
    )
    .doc(
        "Return the area under the standard normal density from `-inf` to each element of `input`, which is \
         `erfc(-input / sqrt(2)) / 2`. Integers and `bool` are computed in the default floating-point dtype.",
    )
    .scope(crate::schema::Scope::Nn),
    Row::new(
        "logit(Tensor self, float? eps=None) -> Tensor",
        Tier::Composed,
        |a| Ok(logit(a.tensor(0)?, a.opt_float(1)?)?.into()),
        || {
            let halves = || crate::schema::SampleArg::Tensor(vec![2, 3], crate::schema::Fill::Positive);
            vec![Sample::new(vec![halves(), n(0.1)]).no_gradient()]
        },
    )
    .doc(
        "Return `log(input / (1 - input))` for each element. With `eps`, `input` is clamped to `[eps, 1 - eps]` \
         first; without it, 0 and 1 give infinities and numbers outside of `[0, 1]` give NaN. Integers and `bool` \
         are computed in the default floating-point dtype. Complex tensors are refused.",
    )
    .inplace()
    .aliases(&["special_logit"])
    .in_place_function(),
    Row::new("sinc(Tensor self) -> Tensor", Tier::Composed, |a| Ok(sinc(a.tensor(0)?)?.into()), samples!([t(&[2, 3])]))
        .doc(
            "Return `sin(pi * input) / (pi * input)` for each element, and 1 at zero. Integers and `bool` are computed \
         in the default floating-point dtype.",
        )
        .inplace()
        .aliases(&["special_sinc"])
        .in_place_function(),
    Row::new(
        "logaddexp2(Tensor self, Tensor other) -> Tensor",
        Tier::Composed,
        |a| Ok(logaddexp2(a)?.into()),
        samples!([t(&[2, 3]), t(&[3])]),
    )
    .doc(
        "Return `log2(2^input + 2^other)`, element by element, without overflow. The operands broadcast and are \
         promoted to a common dtype. Only floating-point dtypes are allowed.",
    ),
    Row::new(
        "heaviside(Tensor self, Tensor values) -> Tensor",
        Tier::Composed,
        |a| Ok(heaviside(a.operand(0)?, a.operand(1)?)?.into()),
        || vec![Sample::new(vec![t(&[2, 3]), t(&[3])]).no_gradient()],
    )
    .doc(
        "Return 0 where `input` is negative, `values` where it is zero, and 1 where it is positive. NaN gives 0. \
         The two broadcast and must be tensors of the same real dtype. There is no derivative, so \
         backward raises `RuntimeError`.",
    )
    .inplace()
    .numbers(Numbers::Second),
    Row::new(
        "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
        Tier::Composed,
        |a| Ok(nan_to_num(a.tensor(0)?, a.opt_float(1)?, a.opt_float(2)?, a.opt_float(3)?)?.into()),
        samples!([t(&[2, 3])]),
    )
    .doc(
        "Return `input` with NaN replaced by `nan`, `inf` by `posinf` and `-inf` by `neginf`. The defaults are 0, \
         the largest and the lowest finite number of the dtype. Both parts of complex numbers are treated so. \
         Integers and `bool` are copied.",
    )
    .inplace()
    .in_place_function(),
    Row::new(
        "deg2rad(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(scaled("deg2rad", a.tensor(0)?, PI / 180.0)?.into()),
        samples!([t(&[2, 3])]),
    )
    .doc(
        "Return each element of `input` times `pi / 180`: degrees as radians. Integers and `bool` are computed in \
         the default floating-point dtype. Complex tensors are refused.",
    )
    .inplace()
    .in_place_function(),
    Row::new(
        "rad2deg(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(scaled("rad2deg", a.tensor(0)?, 180.0 / PI)?.into()),
        samples!([unit(&[2, 3])]),
    )
    .doc(
        "Return each element of `input` times `180 / pi`: radians as degrees. Integers and `bool` are computed in \
         the default floating-point dtype. Complex tensors are refused.",
    )
    .inplace()
    .in_place_function(),
    Row::new(
        "signbit(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(signbit(a.tensor(0)?)?.into()),
        || flat(t(&[2, 3])),
    )
    .doc(
        "Return `True` where the sign of an element of `input` is negative, as `bool`. `-0.0` is negative, and NaN \
         has a sign too. Complex tensors are refused.",
    )
    .out_dtype(OutDType::OneOf(&[DType::Bool], messages::non_boolean)),
    Row::new(
        "isposinf(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(is_infinity(a.tensor(0)?, f64::INFINITY)?.into()),
        || flat(t(&[2, 3])),
    )
    .doc(
        "Return `True` where an element of `input` is `inf`, as `bool`. Integers and `bool` are never infinite. \
         Complex tensors raise `TypeError`.",
    )
    .out_dtype(OutDType::OneOf(&[DType::Bool], messages::non_boolean)),
    Row::new(
        "isneginf(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(is_infinity(a.tensor(0)?, f64::NEG_INFINITY)?.into()),
        || flat(t(&[2, 3])),
    )
    .doc(
        "Return `True` where an element of `input` is `-inf`, as `bool`. Integers and `bool` are never infinite. \
         Complex tensors raise `TypeError`.",
    )
    .out_dtype(OutDType::OneOf(&[DType::Bool], messages::non_boolean)),
    Row::new(
        "positive(Tensor(a) self) -> Tensor(a)",
        Tier::Composed,
        |a| {
            if a.tensor(0)?.dtype() == DType::Bool {
                return Err(Error::not_implemented("The `+` operator, on a bool tensor is not supported."));
            }
            Ok(a.tensor(0)?.clone().into())
        },
        samples!([t(&[2, 3])]),
    )
    .doc("Return `input` itself. `bool` tensors are refused.")
    .no_out(),
    Row::new(
        "nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        Tier::Composed,
        |a| Ok(nansum(a.tensor(0)?, a.opt_ints(1)?, a.bool(2)?, a.opt_dtype(3)?)?.into()),
        samples!([t(&[2, 3])], [t(&[2, 3]), ints(&[1]), n(true)]),
    )
    .doc(
        "Return the sum of the elements of `input` over `dim`, with NaN counted as 0. Without `dim` all dimensions \
         are summed; `keepdim` keeps them with size 1. `dtype` is the dtype to compute in. Integers and `bool` are \
         summed in `int64`. Complex tensors are refused.",
    )
    .dtype_with_out(DTypeWithOut::MustMatch(messages::provided_dtype)),
    Row::new(
        "nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        Tier::Composed,
        |a| Ok(nanmean(a.tensor(0)?, a.opt_ints(1)?, a.bool(2)?, a.opt_dtype(3)?)?.into()),
        samples!([t(&[2, 3])], [t(&[2, 3]), ints(&[1]), n(true)]),
    )
    .doc(
        "Return the mean of the elements of `input` over `dim` that are not NaN. Without `dim` all dimensions are \
         averaged; `keepdim` keeps them with size 1. A slice with no number gives NaN. Only floating-point tensors \
         are allowed.",
    )
    .dtype_with_out(DTypeWithOut::MustMatch(messages::provided_dtype)),
    Row::new(
        "float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
        Tier::Composed,
        |a| {
            let wide = if result_type(a.operand(0)?, a.operand(1)?).is_complex() { DType::C128 } else { DType::F64 };
            let (x, p) = (as_tensor(a.operand(0)?, wide)?, as_tensor(a.operand(1)?, wide)?);
            Ok(arith(BinaryKind::Pow, Operand::Tensor(&x), Operand::Tensor(&p))?.into())
        },
        || vec![Sample::new(vec![positive(&[2, 3]), t(&[3])]).no_gradient()],
    )
    .doc(
        "Return `input ** exponent`, element by element, computed in `float64`, or in `complex128` where an operand \
         is complex. The operands broadcast; one of them may be a number.",
    )
    .numbers(Numbers::One)
    .out_aliasing(Aliasing::Allowed),
    Row::new(
        "ldexp.Tensor(Tensor self, Tensor other) -> Tensor",
        Tier::Composed,
        |a| {
            if let Operand::Scalar(s) = a.operand(1)? {
                return Err(Error::type_error(format!(
                    "ldexp(): argument 'other' (position 2) must be Tensor, not {}",
                    s.python_type()
                )));
            }
            Ok(ldexp(a.operand(0)?, a.operand(1)?)?.into())
        },
        samples!([t(&[2, 3]), t(&[3])]),
    )
    .doc(
        "Return `input * 2^other`, element by element. The operands broadcast. An integer tensor `other` keeps a \
         floating-point or complex dtype of `input`; an integer `input` gives the default floating-point dtype. \
         `other` must be a tensor.",
    )
    .inplace()
    .numbers(Numbers::Second)
    .reads_before_writing()
    .in_place_function(),
    Row::new(
        "polygamma(int n, Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(polygamma(a.int(0)?, a.tensor(1)?)?.into()),
        samples!([n(1), positive(&[2, 3])], [n(2), t(&[2, 3])]),
    )
    .doc(
        "Return the `n`-th derivative of the digamma function at each element of `input`. `n` must not be negative, \
         and 0 gives `torch.digamma`. Integers and `bool` are computed in the default floating-point dtype. `input` \
         comes second.",
    )
    .scope(crate::schema::Scope::Function)
    .aliases(&["special_polygamma"]),
    Row::new(
        "mvlgamma(Tensor self, int p) -> Tensor",
        Tier::Composed,
        |a| widely(a, |a| Ok(mvlgamma(a.tensor(0)?, a.int(1)?)?.into())),
        || vec![Sample::new(vec![positive(&[2, 3]), n(1)])],
    )
    .doc(
        "Return the logarithm of the multivariate gamma function of dimension `p`, which is `p * (p - 1) / 4 * \
         log(pi)` plus the sum of `lgamma(input - j / 2)` for `j` from 0 to `p - 1`. `p` must be at least 1. \
         Integers are computed in the default floating-point dtype.",
    )
    .inplace()
    .aliases(&["special_multigammaln"]),
];
