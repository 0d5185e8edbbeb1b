//! Gradients of functions of one operand. The table has the short formulas, this file the long ones.

use super::{UnaryKind as K, unary};
use crate::op::{Saved, Saves};
use crate::ops::pointwise::{BinaryKind, arith, binary, select, select_scalar};
use crate::schema::Operand;
use crate::{DType, Result, Scalar, Tensor};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI};

/// The gradient of an operand, from the gradient `g` of the result and the tensors that it names: the operand `x`, the
/// result `y`.
#[derive(Clone, Copy)]
pub(super) enum Gradient {
    /// There is none: the function is piecewise constant, and its result is no number with a point.
    None,
    /// PyTorch has no derivative of the function, so its results need no gradient.
    Missing,
    /// Of `g`.
    Of(fn(&Tensor) -> Result<Tensor>),
    /// Of `x, g`.
    OfInput(fn(&Tensor, &Tensor) -> Result<Tensor>),
    /// Of `y, g`.
    OfResult(fn(&Tensor, &Tensor) -> Result<Tensor>),
    /// Of `x, y, g`.
    OfBoth(fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>),
}

/// The gradient of a step function.
pub(super) const ZERO: Gradient = Gradient::Of(|g| Tensor::zeros_like_meta(g.meta()));

impl Gradient {
    pub(super) fn saves(self) -> Saves {
        match self {
            Gradient::None | Gradient::Missing | Gradient::Of(_) => Saves::NONE,
            Gradient::OfInput(_) => Saves::inputs(1),
            Gradient::OfResult(_) => Saves::outputs(1),
            Gradient::OfBoth(_) => Saves::both(1, 1),
        }
    }
    pub(super) fn compute(self, s: &Saved<'_>, g: &Tensor) -> Result<Option<Tensor>> {
        Ok(Some(match self {
            Gradient::None | Gradient::Missing => return Ok(None),
            Gradient::Of(f) => f(g)?,
            Gradient::OfInput(f) => f(s.x(0), g)?,
            Gradient::OfResult(f) => f(s.y(0), g)?,
            Gradient::OfBoth(f) => f(s.x(0), s.y(0), g)?,
        }))
    }
    /// [`Gradient::compute`] of a complex function that is holomorphic: `g conj(f'(z))`, where `conj(f'(z))` is `f'` of
    /// the conjugate.
    pub(super) fn compute_conjugated(self, s: &Saved<'_>, g: &Tensor) -> Result<Option<Tensor>> {
        let conj = |t: Option<&Option<Tensor>>| t.and_then(Option::as_ref).map(Tensor::conj).transpose();
        let (x, y) = ([conj(s.x.first())?], [conj(s.y.first())?]);
        self.compute(&Saved { x: &x, y: &y, ..*s }, g)
    }
}

pub(super) fn mul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    binary(BinaryKind::Mul, a, b)
}

pub(super) fn div(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    binary(BinaryKind::Div, a, b)
}

/// `a x`.
pub(super) fn scaled(x: &Tensor, a: f64) -> Result<Tensor> {
    arith(BinaryKind::Mul, Operand::Tensor(x), Operand::Scalar(Scalar::Float(a)))
}

/// `a x + b`, which many formulas end in.
pub(super) fn affine(x: &Tensor, a: f64, b: f64) -> Result<Tensor> {
    let y = if a == 1.0 { x.clone() } else { scaled(x, a)? };
    arith(BinaryKind::Add, Operand::Tensor(&y), Operand::Scalar(Scalar::Float(b)))
}

pub(super) fn abs(x: &Tensor, g: &Tensor) -> Result<Tensor> {
    if x.dtype().is_complex() { x.sgn()?.mul(g) } else { mul(g, &x.sign()?) }
}

pub(super) fn sgn(x: &Tensor, g: &Tensor) -> Result<Tensor> {
    if x.dtype().is_complex() { crate::ops::complex::sgn_vjp(x, g) } else { Tensor::zeros_like_meta(g.meta()) }
}

pub(super) fn angle(x: &Tensor, g: &Tensor) -> Result<Tensor> {
    if x.dtype().is_complex() { crate::ops::complex::angle_vjp(x, g) } else { Tensor::zeros_like_meta(g.meta()) }
}

/// `1 / sqrt(x^2 + 1)` without the square, which would leave the range.
pub(super) fn asinh(x: &Tensor, g: &Tensor) -> Result<Tensor> {
    if x.dtype().is_complex() {
        return mul(g, &affine(&x.square()?, 1.0, 1.0)?.rsqrt()?);
    }
    let one = Tensor::number(Scalar::Float(1.0), x.dtype())?;
    div(g, &binary(BinaryKind::Hypot, x, &one)?)
}

/// `c[0] r + c[1] r^2 + ..`
fn series(r: &Tensor, c: &[f64]) -> Result<Tensor> {
    let (last, rest) = c.split_last().expect("a series has terms");
    let mut y = scaled(r, *last)?;
    for c in rest.iter().rev() {
        y = mul(&affine(&y, 1.0, *c)?, r)?;
    }
    Ok(y)
}

/// Where a difference that cancels is replaced by a series, for `float32` and for `float64`.
fn far(x: &Tensor, single: f64, double: f64) -> Result<Tensor> {
    x.detach().abs()?.gt_scalar(if x.dtype() == DType::F64 { double } else { single })
}

/// `i0e(x) - |i1e(x)|`. Far from zero the difference is `(1 / (2 x) + 3 / (16 x^2) + ..) / sqrt(2 pi x)`.
fn decay(x: &Tensor) -> Result<Tensor> {
    const SERIES: [f64; 5] = [0.5, 3.0 / 16.0, 45.0 / 256.0, 525.0 / 2048.0, 33075.0 / 65536.0];
    let far = far(x, 100.0, 1e4)?;
    let near = select_scalar(&far, 1.0, x)?;
    let near = unary(K::I0e, &near)?.sub(&mul(&near.sign()?, &unary(K::I1e, &near)?)?)?;
    let x = select_scalar(&far.logical_not()?, 1e5, &mul(x, &x.sign()?)?)?;
    let tail = scaled(&mul(&x.rsqrt()?, &series(&x.reciprocal()?, &SERIES)?)?, 1.0 / (2.0 * PI).sqrt())?;
    select(&far, &tail, &near)
}

pub(super) fn i0e(x: &Tensor, g: &Tensor) -> Result<Tensor> {
    mul(g, &mul(&decay(x)?, &x.sign()?)?)?.neg()
}

/// The exponential is multiplied in two halves, since its product with the rest is smaller.
pub(super) fn i1(x: &Tensor, g: &Tensor) -> Result<Tensor> {
    let slope = unary(K::I0e, x)?.sub(&over_argument(x, &unary(K::I1e, x)?)?)?;
    let half = scaled(&mul(x, &x.sign()?)?, 0.5)?.exp()?;
    mul(g, &mul(&mul(&slope, &half)?, &half)?)
}

pub(super) fn i1e(x: &Tensor, g: &Tensor) -> Result<Tensor> {
    mul(g, &decay(x)?.sub(&over_argument(x, &unary(K::I1e, x)?)?)?)
}

/// `2 x y - 2 / sqrt(pi)`. Far above zero the difference is `(-1 / (2 x^2) + 3 / (2 x^2)^2 - ..) 2 / sqrt(pi)`.
pub(super) fn erfcx(x: &Tensor, y: &Tensor, g: &Tensor) -> Result<Tensor> {
    const SERIES: [f64; 6] = [-1.0, 3.0, -15.0, 105.0, -945.0, 10395.0];
    let far = far(x, 8.0, 50.0)?.logical_and(&x.detach().gt_scalar(0.0)?)?;
    let near = affine(&mul(&select_scalar(&far, 0.0, x)?, y)?, 2.0, -FRAC_2_SQRT_PI)?;
    let x = select_scalar(&far.logical_not()?, 1e2, x)?;
    let r = x.reciprocal()?;
    let tail = scaled(&series(&scaled(&mul(&r, &r)?, 0.5)?, &SERIES)?, FRAC_2_SQRT_PI)?;
    mul(g, &select(&far, &tail, &near)?)
}

pub(super) fn j1(x: &Tensor, y: &Tensor, g: &Tensor) -> Result<Tensor> {
    mul(g, &unary(K::BesselJ0, x)?.sub(&over_argument(x, y)?)?)
}

pub(super) fn k1(x: &Tensor, y: &Tensor, g: &Tensor) -> Result<Tensor> {
    mul(g, &unary(K::ModifiedBesselK0, x)?.add(&div(y, x)?)?)?.neg()
}

/// The density of the normal distribution over its integral. Below -1, where both vanish, it is one over a scaled
/// integral, which overflows above.
pub(super) fn log_ndtr(x: &Tensor, g: &Tensor) -> Result<Tensor> {
    let below = x.detach().lt_scalar(-1.0)?;
    let (low, high) = (select_scalar(&below.logical_not()?, -1.0, x)?, select_scalar(&below, -1.0, x)?);
    let tail = unary(K::Erfcx, &scaled(&low, -FRAC_1_SQRT_2)?)?;
    let ratio = scaled(&tail, 1.0 / (FRAC_2_SQRT_PI * FRAC_1_SQRT_2))?.reciprocal()?;
    let density = scaled(&scaled(&high.square()?, -0.5)?.exp()?, 0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2)?;
    let integral = scaled(&scaled(&high, -FRAC_1_SQRT_2)?.erfc()?, 0.5)?;
    mul(g, &select(&below, &ratio, &div(&density, &integral)?)?)
}

pub(super) fn ndtri(y: &Tensor, g: &Tensor) -> Result<Tensor> {
    let bell = scaled(&y.square()?, 0.5)?.exp()?;
    scaled(&mul(g, &bell)?, (2.0 * PI).sqrt())
}

/// `y / x` of functions that are odd with slope one half at zero. Near zero the quotient is that slope: its derivative,
/// a difference of quotients, would lose all digits.
fn over_argument(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let epsilon = match x.dtype() {
        DType::F64 => f64::EPSILON,
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => f64::from(f32::EPSILON),
    };
    let tiny = x.detach().abs()?.le_scalar(epsilon)?;
    let safe = select_scalar(&tiny, 1.0, x)?;
    select_scalar(&tiny, 0.5, &div(y, &safe)?)
}
