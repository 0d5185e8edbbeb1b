//! Spellings of functions of one operand that take more than one operation of StableHLO.

use super::UnaryKind;
use crate::op::{Func, Value};
use torchtpu_stablehlo::{Direction, ElementType};

/// How a function is spelled for a compiler.
#[derive(Clone, Copy)]
pub(super) enum Lower {
    /// One operation.
    Op(&'static str),
    /// One operation for floating-point numbers. Integers and `bool` stay as they are.
    OfFloats(&'static str),
    /// Several operations.
    By(fn(&mut Func, &Value) -> Value),
}

impl Lower {
    pub(super) fn apply(self, f: &mut Func, x: &Value) -> Value {
        match self {
            Lower::Op(name) => f.unary(name, x),
            Lower::OfFloats(_) if !x.element().is_float() => x.clone(),
            Lower::OfFloats(name) => f.unary(name, x),
            Lower::By(spelling) => spelling(f, x),
        }
    }
}

/// A [`Lower::By`] of a function that is generic over [`Analytic`](torchtpu_kernels::special::Analytic): one text for
/// kernels and programs.
macro_rules! text {
    ($function:path) => {
        |f: &mut crate::op::Func, x: &crate::op::Value| {
            struct Text;
            impl crate::lower::analytic::OfOne for Text {
                fn of<T: torchtpu_kernels::special::Analytic>(self, x: &T) -> T {
                    $function(x)
                }
            }
            crate::lower::analytic::unary(f, Text, x)
        }
    };
}
pub(super) use text;

/// A spelling for XLA:CPU by a text that the kernels of `f32` run in vectors of `f64`.
macro_rules! single {
    ($function:path) => {
        |f: &mut crate::op::Func, x: &crate::op::Value| crate::lower::math::in_double(f, x, text!($function))
    };
}
pub(super) use single;

pub(super) fn abs(f: &mut Func, x: &Value) -> Value {
    let e = x.element();
    if e == ElementType::Pred || e.is_unsigned() { x.clone() } else { f.unary("stablehlo.abs", x) }
}

pub(super) fn sign(f: &mut Func, x: &Value) -> Value {
    let e = x.element();
    if e == ElementType::Pred {
        return x.clone();
    }
    if e.is_unsigned() {
        let zero = f.splat_i64(0, x.ty());
        let positive = f.compare(Direction::Ne, x, &zero);
        return f.convert(&positive, e);
    }
    if e.is_float() {
        // That of NaN is zero, as in PyTorch.
        let is_nan = f.compare(Direction::Ne, x, x);
        let (zero, sign) = (f.splat(0.0, x.ty()), f.unary("stablehlo.sign", x));
        return f.select(&is_nan, &zero, &sign);
    }
    f.unary("stablehlo.sign", x)
}

pub(super) fn rsqrt(f: &mut Func, x: &Value) -> Value {
    // XLA:CPU takes ten times longer for `rsqrt`.
    if f.profile().spells_rsqrt && matches!(x.element(), ElementType::F32 | ElementType::F64) {
        let (one, root) = (f.splat(1.0, x.ty()), f.unary("stablehlo.sqrt", x));
        return f.binary("stablehlo.divide", &one, &root);
    }
    f.unary("stablehlo.rsqrt", x)
}

pub(super) fn reciprocal(f: &mut Func, x: &Value) -> Value {
    let one = f.splat(1.0, x.ty());
    f.binary("stablehlo.divide", &one, x)
}

pub(super) fn square(f: &mut Func, x: &Value) -> Value {
    f.binary(if x.element() == ElementType::Pred { "stablehlo.and" } else { "stablehlo.multiply" }, x, x)
}

/// Computes 16-bit floats in `f32`.
fn in_single(f: &mut Func, x: &Value, y: impl FnOnce(&mut Func, &Value) -> Value) -> Value {
    let e = x.element();
    let half = e.is_half();
    let wide = if half { f.convert(x, ElementType::F32) } else { x.clone() };
    let y = y(f, &wide);
    f.convert(&y, e)
}

pub(super) fn exp2(f: &mut Func, x: &Value) -> Value {
    in_single(f, x, |f, x| {
        let c = f.splat(std::f64::consts::LN_2, x.ty());
        if !matches!(x.element(), ElementType::F32 | ElementType::F64) {
            let z = f.binary("stablehlo.multiply", x, &c);
            return f.unary("stablehlo.exponential", &z);
        }
        // Powers with whole exponents are exact: the exponent is written into the bits, half of it at a time, since a
        // number holds only so much.
        let bound = if x.element() == ElementType::F32 { 300.0 } else { 2200.0 };
        let (low, high) = (f.scalar(-bound, x.element()), f.scalar(bound, x.element()));
        let whole = f.unary("stablehlo.round_nearest_even", x);
        let whole = f.clamp(&low, &whole, &high);
        let rest = f.binary("stablehlo.subtract", x, &whole);
        let rest = f.binary("stablehlo.multiply", &rest, &c);
        let y = f.unary("stablehlo.exponential", &rest);
        let half = f.splat(0.5, x.ty());
        let first = f.binary("stablehlo.multiply", &whole, &half);
        let first = f.unary("stablehlo.floor", &first);
        let second = f.binary("stablehlo.subtract", &whole, &first);
        let (first, second) = (power_of_two(f, &first), power_of_two(f, &second));
        let y = f.binary("stablehlo.multiply", &y, &first);
        f.binary("stablehlo.multiply", &y, &second)
    })
}

/// `2^n` for a whole number `n` of `float32` within [-126, 127], or of `float64` within [-1022, 1023]. Beyond these
/// bounds it is the nearest of them.
fn power_of_two(f: &mut Func, n: &Value) -> Value {
    let (int, bias, shift) =
        if n.element() == ElementType::F32 { (ElementType::S32, 127, 23) } else { (ElementType::S64, 1023, 52) };
    let (low, high) = (f.scalar(1.0 - bias as f64, n.element()), f.scalar(bias as f64, n.element()));
    let n = f.clamp(&low, n, &high);
    let n = f.convert(&n, int);
    let (bias, shift) = (f.splat_i64(bias, n.ty()), f.splat_i64(shift, n.ty()));
    let bits = f.binary("stablehlo.add", &n, &bias);
    let bits = f.binary("stablehlo.shift_left", &bits, &shift);
    f.bitcast_convert(&bits, if int == ElementType::S32 { ElementType::F32 } else { ElementType::F64 })
}

/// The logarithm to a base whose natural logarithm is `base`.
pub(super) fn log(f: &mut Func, x: &Value, base: f64) -> Value {
    in_single(f, x, |f, x| {
        let c = f.splat(base, x.ty());
        let z = f.unary("stablehlo.log", x);
        f.binary("stablehlo.divide", &z, &c)
    })
}

pub(super) fn digamma(f: &mut Func, x: &Value) -> Value {
    let y = f.unary("chlo.digamma", x);
    // At the pole at zero the sign of the zero tells the side.
    let (zero, one) = (f.splat(0.0, x.ty()), f.splat(-1.0, x.ty()));
    let pole = f.compare(Direction::Eq, x, &zero);
    let side = f.binary("stablehlo.divide", &one, x);
    f.select(&pole, &side, &y)
}

pub(super) fn trunc(f: &mut Func, x: &Value) -> Value {
    if !x.element().is_float() {
        return x.clone();
    }
    let down = f.unary("stablehlo.floor", x);
    let up = f.unary("stablehlo.ceil", x);
    let zero = f.splat(0.0, x.ty());
    let negative = f.compare(Direction::Lt, x, &zero);
    f.select(&negative, &up, &down)
}

pub(super) fn frac(f: &mut Func, x: &Value) -> Value {
    let whole = trunc(f, x);
    f.binary("stablehlo.subtract", x, &whole)
}

pub(super) fn relu(f: &mut Func, x: &Value) -> Value {
    let zero = if x.element().is_float() { f.splat(0.0, x.ty()) } else { f.splat_i64(0, x.ty()) };
    f.binary("stablehlo.maximum", x, &zero)
}

pub(super) fn logical_not(f: &mut Func, x: &Value) -> Value {
    let truth = f.convert(x, ElementType::Pred);
    f.unary("stablehlo.not", &truth)
}

/// A predicate: of numbers without a point it is `of_integers`, and of complex ones both parts count.
fn predicate(
    kind: UnaryKind,
    f: &mut Func,
    x: &Value,
    of_integers: bool,
    of_floats: fn(&mut Func, &Value) -> Value,
) -> Value {
    let e = x.element();
    if e.is_complex() {
        let (re, im) = (f.unary("stablehlo.real", x), f.unary("stablehlo.imag", x));
        let (a, b) = (of_floats(f, &re), of_floats(f, &im));
        return f.binary(if kind == UnaryKind::IsFinite { "stablehlo.and" } else { "stablehlo.or" }, &a, &b);
    }
    if e.is_float() {
        return of_floats(f, x);
    }
    f.splat_i64(i64::from(of_integers), &x.ty().with_element(ElementType::Pred))
}

pub(super) fn isnan(f: &mut Func, x: &Value) -> Value {
    predicate(UnaryKind::IsNan, f, x, false, |f, x| f.compare(Direction::Ne, x, x))
}

pub(super) fn isinf(f: &mut Func, x: &Value) -> Value {
    predicate(UnaryKind::IsInf, f, x, false, |f, x| {
        let a = f.unary("stablehlo.abs", x);
        let inf = f.splat(f64::INFINITY, x.ty());
        f.compare(Direction::Eq, &a, &inf)
    })
}

pub(super) fn isfinite(f: &mut Func, x: &Value) -> Value {
    predicate(UnaryKind::IsFinite, f, x, true, |f, x| f.is_finite(x))
}

pub(super) fn angle(f: &mut Func, x: &Value) -> Value {
    if x.element().is_complex() {
        let (re, im) = (f.unary("stablehlo.real", x), f.unary("stablehlo.imag", x));
        return f.binary("stablehlo.atan2", &im, &re);
    }
    let (zero, pi) = (f.splat(0.0, x.ty()), f.splat(std::f64::consts::PI, x.ty()));
    let (negative, number) = (f.compare(Direction::Lt, x, &zero), f.compare(Direction::Eq, x, x));
    let y = f.select(&negative, &pi, &zero);
    f.select(&number, &y, x)
}

pub(super) fn conj(f: &mut Func, x: &Value) -> Value {
    if x.element().is_complex() { crate::ops::complex::lower_conj(f, x) } else { x.clone() }
}
