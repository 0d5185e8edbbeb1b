//! Gradients of functions of two operands: the kinds of formulas, and the formulas that do not fit a row.

use crate::op::{Saved, Saves};
use crate::ops::pointwise::compare::compare;
use crate::ops::pointwise::select::{select, select_scalar};
use crate::ops::pointwise::{arith, binary};
use crate::schema::Operand;
use crate::types::compute::{narrowed as narrowed_to, widened as wide};
use crate::{Error, Result, Scalar, Tensor};
use smallvec::SmallVec;
use torchtpu_kernels::pointwise::{BinaryKind, CompareKind};

/// Gradients of both operands, of those that are wanted.
pub(super) type Pair = (Option<Tensor>, Option<Tensor>);

/// A formula for the gradient of one operand from the gradient of the result.
type Formula = fn(&Saved<'_>, &Tensor) -> Result<Tensor>;

/// The gradient of one operand, and the values that its formula reads.
#[derive(Clone, Copy)]
pub(super) struct Slope {
    saves: Saves,
    of: Formula,
}

impl Slope {
    /// The gradient of the result.
    pub(super) const SAME: Slope = Slope::of(Saves::NONE, |_, g| Ok(g.clone()));
    /// Zero.
    pub(super) const ZERO: Slope = Slope::of(Saves::NONE, |_, g| Tensor::zeros_like_meta(g.meta()));
    /// By a formula that reads these values.
    pub(super) const fn of(saves: Saves, of: Formula) -> Slope {
        Slope { saves, of }
    }
    /// By a formula that reads both operands.
    pub(super) const fn of_operands(of: Formula) -> Slope {
        Slope::of(Saves::inputs(0b11), of)
    }
}

/// How the gradients of a function are computed. Formulas get conjugates of complex operands and results, and those of
/// 16-bit floats get `float32`, unless they round once.
#[derive(Clone, Copy)]
pub(super) enum Gradient {
    /// Results are integers or truth values, or constant.
    None,
    /// Each operand by itself.
    Each(Slope, Slope),
    /// Both by one formula, whose parts share work. It reads both operands.
    Both(fn(&Saved<'_>, &Tensor) -> Result<Pair>),
}

impl Gradient {
    /// The values that the formulas of the wanted gradients read.
    #[inline]
    pub(super) fn saves(&self, needs: u64) -> Saves {
        match self {
            Gradient::None => Saves::NONE,
            Gradient::Each(a, b) => {
                let of = |slope: &Slope, i: u64| if needs >> i & 1 != 0 { slope.saves } else { Saves::NONE };
                let (a, b) = (of(a, 0), of(b, 1));
                Saves::both(a.x | b.x, a.y | b.y)
            }
            Gradient::Both(_) => Saves::inputs(0b11),
        }
    }
    pub(super) fn compute(&self, s: &Saved<'_>, g: &Tensor) -> Result<Pair> {
        if !s.meta(0).dtype.is_complex() {
            return self.of_values(s, g);
        }
        // As for functions of one operand, the formulas get conjugates.
        let conj = |t: &Option<Tensor>| t.as_ref().map(Tensor::conj).transpose();
        type Values = SmallVec<[Option<Tensor>; 2]>;
        let x = s.x.iter().map(conj).collect::<Result<Values>>()?;
        let y = s.y.iter().map(conj).collect::<Result<Values>>()?;
        self.of_values(&Saved { x: &x, y: &y, ..*s }, g)
    }
    fn of_values(&self, s: &Saved<'_>, g: &Tensor) -> Result<Pair> {
        match self {
            Gradient::None => Ok((None, None)),
            Gradient::Each(a, b) => Ok((when(s, 0, &|| (a.of)(s, g))?, when(s, 1, &|| (b.of)(s, g))?)),
            Gradient::Both(of) => of(s, g),
        }
    }
}

/// The gradient of operand `i`, if it is wanted.
fn when(s: &Saved<'_>, i: usize, f: &dyn Fn() -> Result<Tensor>) -> Result<Option<Tensor>> {
    s.needs(i).then(f).transpose()
}

pub(super) fn mul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    binary(BinaryKind::Mul, a, b)
}

pub(super) fn div(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    binary(BinaryKind::Div, a, b)
}

fn zero<'a>() -> Operand<'a> {
    Operand::Scalar(Scalar::Float(0.0))
}

fn is_zero(x: &Tensor) -> Result<Tensor> {
    compare(CompareKind::Eq, Operand::Tensor(x), zero())
}

/// The error of a derivative that PyTorch does not have, either.
pub(super) fn missing(function: &str, argument: &str) -> Error {
    Error::not_implemented(format!("the derivative for '{function}: {argument}' is not implemented."))
}

/// The gradient of a quotient's divisor. The square of `b` would overflow or vanish. A compiler makes one of
/// `a / b / b`, and none of a product.
pub(super) fn of_divisor(s: &Saved<'_>, g: &Tensor) -> Result<Tensor> {
    let (a, b) = (s.x(0), s.x(1));
    let ratio = div(a, b)?;
    let slope = if b.place().has_handle() { mul(&ratio, &b.reciprocal()?)? } else { div(&ratio, b)? };
    mul(&g.neg()?, &slope)
}

/// The exponent of a power, if it is a real number that is at hand.
fn exponent(p: &Tensor) -> Option<f64> {
    if !p.is_wrapped_number() || !p.place().in_memory() {
        return None;
    }
    match p.dtype() {
        crate::DType::F32 => Some(f64::from(p.as_slice::<f32>()?[0])),
        crate::DType::F64 => Some(p.as_slice::<f64>()?[0]),
        _ => None,
    }
}

pub(super) fn of_base(s: &Saved<'_>, g: &Tensor) -> Result<Tensor> {
    let (x, p) = (s.x(0), s.x(1));
    if let Some(p) = exponent(p) {
        let g = &g.mul_scalar(p)?;
        return match p {
            0.0 => Tensor::zeros_like_meta(g.meta()),
            2.0 => mul(g, x),
            _ => mul(g, &x.pow_scalar(p - 1.0)?),
        };
    }
    let less = arith(BinaryKind::Sub, Operand::Tensor(p), Operand::Scalar(Scalar::Int(1)))?;
    // x^0 is constant, also at x = 0, where the formula divides by zero. The second derivative uses the base too.
    let flat = is_zero(p)?;
    let d = mul(&mul(g, p)?, &binary(BinaryKind::Pow, &select_scalar(&flat, 1.0, x)?, &less)?)?;
    select_scalar(&flat, 0.0, &d)
}

pub(super) fn of_exponent(s: &Saved<'_>, g: &Tensor) -> Result<Tensor> {
    let (x, p) = (s.x(0), s.x(1));
    let d = mul(&mul(g, s.y(0))?, &x.log()?)?;
    let mut rising = compare(CompareKind::Ge, Operand::Tensor(&p.real()?), zero())?;
    if p.dtype().is_complex() {
        rising = binary(BinaryKind::LogicalAnd, &rising, &is_zero(&p.imag()?)?)?;
    }
    select_scalar(&binary(BinaryKind::LogicalAnd, &is_zero(x)?, &rising)?, 0.0, &d)
}

/// Ties share the gradient. If one operand is NaN, both get all of it.
fn of_extreme(above: CompareKind, below: CompareKind, keeps_nan: bool, s: &Saved<'_>, g: &Tensor) -> Result<Pair> {
    let (a, b) = (s.x(0), s.x(1));
    let half = arith(BinaryKind::Mul, Operand::Tensor(g), Operand::Scalar(Scalar::Float(0.5)))?;
    let tie = compare(CompareKind::Eq, Operand::Tensor(a), Operand::Tensor(b))?;
    let part = |x: &Tensor, y: &Tensor, is_first: bool| -> Result<Tensor> {
        let zeros = Tensor::zeros_like_meta(g.meta())?;
        let versus = |kind| compare(kind, Operand::Tensor(x), Operand::Tensor(y));
        let d = if keeps_nan {
            select(&versus(below)?, &zeros, g)?
        } else {
            // Only the number gets it, or the first of two NaN.
            let alone = if is_first {
                y.isnan()?
            } else {
                binary(BinaryKind::LogicalAnd, &y.isnan()?, &x.isnan()?.logical_not()?)?
            };
            select(&binary(BinaryKind::LogicalOr, &versus(above)?, &alone)?, g, &zeros)?
        };
        select(&tie, &half, &d)
    };
    Ok((when(s, 0, &|| part(a, b, true))?, when(s, 1, &|| part(b, a, false))?))
}

pub(super) fn of_maximum(s: &Saved<'_>, g: &Tensor) -> Result<Pair> {
    of_extreme(CompareKind::Gt, CompareKind::Lt, true, s, g)
}

pub(super) fn of_minimum(s: &Saved<'_>, g: &Tensor) -> Result<Pair> {
    of_extreme(CompareKind::Lt, CompareKind::Gt, true, s, g)
}

pub(super) fn of_fmax(s: &Saved<'_>, g: &Tensor) -> Result<Pair> {
    of_extreme(CompareKind::Gt, CompareKind::Lt, false, s, g)
}

pub(super) fn of_fmin(s: &Saved<'_>, g: &Tensor) -> Result<Pair> {
    of_extreme(CompareKind::Lt, CompareKind::Gt, false, s, g)
}

/// The quotient is piecewise constant, also where the division has an infinite slope.
pub(super) fn of_truncated_divisor(s: &Saved<'_>, g: &Tensor) -> Result<Tensor> {
    mul(g, &div(&s.x(0).detach(), &s.x(1).detach())?.trunc()?)?.neg()
}

pub(super) fn of_atan2(s: &Saved<'_>, g: &Tensor) -> Result<Pair> {
    // The squares of 16-bit floats may overflow.
    let (y, x) = (wide(s.x(0))?, wide(s.x(1))?);
    let r2 = binary(BinaryKind::Add, &y.square()?, &x.square()?)?;
    // At the origin there is no angle, and the gradient is zero.
    let (g, r2) = (wide(g)?, select_scalar(&is_zero(&r2)?, 1.0, &r2)?);
    let part = |a: &Tensor| narrowed_to(div(&mul(&g, a)?, &r2)?, s.x(0).dtype());
    Ok((when(s, 0, &|| part(&x))?, when(s, 1, &|| part(&y)?.neg())?))
}

pub(super) fn of_hypot(s: &Saved<'_>, g: &Tensor) -> Result<Pair> {
    let y = binary(BinaryKind::Hypot, s.x(0), s.x(1))?;
    let part = |i: usize| mul(g, &div(s.x(i), &y)?);
    Ok((when(s, 0, &|| part(0))?, when(s, 1, &|| part(1))?))
}

pub(super) fn of_magnitude(s: &Saved<'_>, g: &Tensor) -> Result<Tensor> {
    let same = compare(CompareKind::Eq, Operand::Tensor(s.y(0)), Operand::Tensor(s.x(0)))?;
    let d = select(&same, g, &g.neg()?)?;
    select_scalar(&is_zero(s.x(0))?, 0.0, &d)
}

/// Between equal numbers the result is the second one, which is a constant.
pub(super) fn of_start(s: &Saved<'_>, g: &Tensor) -> Result<Tensor> {
    let equal = compare(CompareKind::Eq, Operand::Tensor(s.x(0)), Operand::Tensor(s.x(1)))?;
    select_scalar(&equal, 0.0, g)
}

/// `g` times the density of the gamma distribution.
pub(super) fn of_gamma_bound(s: &Saved<'_>, g: &Tensor) -> Result<Tensor> {
    let (a, x) = (s.x(0), s.x(1));
    let less = arith(BinaryKind::Sub, Operand::Tensor(a), Operand::Scalar(Scalar::Int(1)))?;
    mul(g, &mul(&less, &x.log()?)?.sub(x)?.sub(&a.lgamma()?)?.exp()?)
}

pub(super) fn of_zeta_shift(s: &Saved<'_>, g: &Tensor) -> Result<Tensor> {
    let next = arith(BinaryKind::Add, Operand::Tensor(s.x(0)), Operand::Scalar(Scalar::Int(1)))?;
    mul(&mul(g, &s.x(0).neg()?)?, &binary(BinaryKind::Zeta, &next, s.x(1))?)
}

/// A gradient of zero stays zero where the logarithm is none, so that a mask after the function protects from elements
/// outside of its domain.
pub(super) fn of_xlogy(s: &Saved<'_>, g: &Tensor) -> Result<Pair> {
    let (x, y) = (s.x(0), s.x(1));
    let none = is_zero(x)?;
    let of_x = || {
        let outside = none.logical_and(&y.le_scalar(0.0)?)?;
        select_scalar(&outside, 0.0, &binary(BinaryKind::Xlogy, g, y)?)
    };
    let of_y = || {
        let pole = none.logical_and(&y.eq_scalar(0.0)?)?;
        div(&mul(g, x)?, &select_scalar(&pole, 1.0, y)?)
    };
    Ok((when(s, 0, &of_x)?, when(s, 1, &of_y)?))
}
