//! The spelling of functions of two operands for compilers.

use super::BinaryKind;
use crate::lower::{analytic, math};
use crate::op::{Func, Value};
use crate::ops::pointwise::special_binary::SpecialBinary;
use crate::ops::pointwise::unary::lower_unary;
use torchtpu_kernels::pointwise::UnaryKind;
use torchtpu_stablehlo::{Direction, ElementType};

/// How a function is spelled. Both operands have the sizes and the element type of the result.
#[derive(Clone, Copy)]
pub(super) enum Lower {
    /// One op of the compiler, for all element types.
    Op(&'static str),
    /// One op, and another one for truth values.
    OrBool(&'static str, &'static str),
    /// Several ops.
    By(fn(&mut Func, &Value, &Value) -> Value),
    /// The text of the kernel, see [`SpecialBinary`].
    Special,
}

impl Lower {
    pub(super) fn spell(self, kind: BinaryKind, f: &mut Func, a: &Value, b: &Value) -> Value {
        match self {
            Lower::Op(name) => f.binary(name, a, b),
            Lower::OrBool(_, name) if a.element() == ElementType::Pred => f.binary(name, a, b),
            Lower::OrBool(name, _) => f.binary(name, a, b),
            Lower::By(spell) => spell(f, a, b),
            Lower::Special => analytic::binary(f, SpecialBinary(kind), a, b),
        }
    }
}

pub(super) fn div(f: &mut Func, a: &Value, b: &Value) -> Value {
    let e = a.element();
    if e.is_complex() {
        return complex_quotient(f, a, b);
    }
    if e == ElementType::F16 {
        // XLA makes `a / (b c)` of `a / b / c`. The product leaves the range of `float16` already for divisors of 256.
        let (a, b) = (f.convert(a, ElementType::F32), f.convert(b, ElementType::F32));
        let y = f.binary("stablehlo.divide", &a, &b);
        return f.convert(&y, e);
    }
    f.binary("stablehlo.divide", a, b)
}

/// A quotient of complex numbers. Compilers square the divisor's parts, so very large and very small divisors are first
/// scaled near one, by powers of two.
fn complex_quotient(f: &mut Func, a: &Value, b: &Value) -> Value {
    let (re, im) = (f.unary("stablehlo.real", b), f.unary("stablehlo.imag", b));
    let (re, im) = (f.unary("stablehlo.abs", &re), f.unary("stablehlo.abs", &im));
    let size = f.binary("stablehlo.maximum", &re, &im);
    let exponent = if b.element() == ElementType::C64 { 64 } else { 512 };
    let (large, small) = (2f64.powi(exponent - 4), 2f64.powi(4 - exponent));
    let [one, grown, shrunk, large, small] =
        [1.0, 2f64.powi(exponent), 2f64.powi(-exponent - 2), large, small].map(|v| f.splat(v, size.ty()));
    let (is_large, is_small) = (f.compare(Direction::Gt, &size, &large), f.compare(Direction::Lt, &size, &small));
    let factor = f.select(&is_small, &grown, &one);
    let factor = f.select(&is_large, &shrunk, &factor);
    let mut scaled = |z: &Value| {
        let (re, im) = (f.unary("stablehlo.real", z), f.unary("stablehlo.imag", z));
        let (re, im) = (f.binary("stablehlo.multiply", &re, &factor), f.binary("stablehlo.multiply", &im, &factor));
        f.binary("stablehlo.complex", &re, &im)
    };
    let (a, b) = (scaled(a), scaled(b));
    f.binary("stablehlo.divide", &a, &b)
}

pub(super) fn pow(f: &mut Func, a: &Value, b: &Value) -> Value {
    let e = a.element();
    if e.is_float() {
        return f.binary("stablehlo.power", a, b);
    }
    if e.is_integer() {
        return integer_power(f, a, b);
    }
    // Zero to a power with a positive real part is zero; the infinite logarithm would make it NaN.
    let y = f.binary("stablehlo.power", a, b);
    let (zero, re) = (f.splat(0.0, a.ty()), f.unary("stablehlo.real", b));
    let re_zero = f.splat(0.0, re.ty());
    let (none, grows) = (f.compare(Direction::Eq, a, &zero), f.compare(Direction::Gt, &re, &re_zero));
    let is_zero = f.binary("stablehlo.and", &none, &grows);
    f.select(&is_zero, &zero, &y)
}

/// Powers of integers, which wrap around, by squaring until no exponent has a bit left. `stablehlo.power` reads only
/// the lowest `log2(bits)` bits of an exponent. Negative exponents give C's results: 1 and -1 stay the same except for
/// the sign, all others become zero.
fn integer_power(f: &mut Func, a: &Value, b: &Value) -> Value {
    let all: Vec<usize> = (0..a.rank()).collect();
    let splat = |f: &mut Func, n: i64| f.splat_i64(n, a.ty());
    let odd = |f: &mut Func, b: &Value| {
        let (zero, one) = (f.splat_i64(0, b.ty()), f.splat_i64(1, b.ty()));
        let bit = f.binary("stablehlo.and", b, &one);
        f.compare(Direction::Ne, &bit, &zero)
    };
    let one = splat(f, 1);
    let y = f.while_loop(
        &[one, a.clone(), b.clone()],
        |f, s| {
            let zero = splat(f, 0);
            let live = f.compare(Direction::Gt, &s[2], &zero);
            f.reduce(&live, torchtpu_stablehlo::ReduceKind::Or, &all)
        },
        |f, s| {
            let one = splat(f, 1);
            let more = f.binary("stablehlo.multiply", &s[0], &s[1]);
            let takes = odd(f, &s[2]);
            let y = f.select(&takes, &more, &s[0]);
            let square = f.binary("stablehlo.multiply", &s[1], &s[1]);
            vec![y, square, f.binary("stablehlo.shift_right_logical", &s[2], &one)]
        },
    );
    if a.element().is_unsigned() {
        return y[0].clone();
    }
    let (zero, one, minus) = (splat(f, 0), splat(f, 1), splat(f, -1));
    let (is_one, is_minus) = (f.compare(Direction::Eq, a, &one), f.compare(Direction::Eq, a, &minus));
    let takes = odd(f, b);
    let turned = f.select(&takes, &minus, &one);
    let inverse = f.select(&is_minus, &turned, &zero);
    let inverse = f.select(&is_one, &one, &inverse);
    let negative = f.compare(Direction::Lt, b, &zero);
    f.select(&negative, &inverse, &y[0])
}

pub(super) fn atan2(f: &mut Func, a: &Value, b: &Value) -> Value {
    math::binary(BinaryKind::Atan2, f, a, b).unwrap_or_else(|| f.binary("stablehlo.atan2", a, b))
}

pub(super) fn right_shift(f: &mut Func, a: &Value, b: &Value) -> Value {
    let is_unsigned = a.element().is_unsigned();
    f.binary(if is_unsigned { "stablehlo.shift_right_logical" } else { "stablehlo.shift_right_arithmetic" }, a, b)
}

/// An op on the truth of both operands.
fn of_truth(name: &'static str, f: &mut Func, a: &Value, b: &Value) -> Value {
    let (a, b) = (f.convert(a, ElementType::Pred), f.convert(b, ElementType::Pred));
    f.binary(name, &a, &b)
}

pub(super) fn logical_and(f: &mut Func, a: &Value, b: &Value) -> Value {
    of_truth("stablehlo.and", f, a, b)
}

pub(super) fn logical_or(f: &mut Func, a: &Value, b: &Value) -> Value {
    of_truth("stablehlo.or", f, a, b)
}

pub(super) fn logical_xor(f: &mut Func, a: &Value, b: &Value) -> Value {
    of_truth("stablehlo.xor", f, a, b)
}

/// The maximum or minimum, or the number where one of the two is NaN.
fn of_numbers(name: &'static str, f: &mut Func, a: &Value, b: &Value) -> Value {
    if !a.element().is_float() {
        return f.binary(name, a, b);
    }
    let (na, nb) = (f.compare(Direction::Ne, a, a), f.compare(Direction::Ne, b, b));
    let m = f.binary(name, a, b);
    let m = f.select(&nb, a, &m);
    f.select(&na, b, &m)
}

pub(super) fn fmax(f: &mut Func, a: &Value, b: &Value) -> Value {
    of_numbers("stablehlo.maximum", f, a, b)
}

pub(super) fn fmin(f: &mut Func, a: &Value, b: &Value) -> Value {
    of_numbers("stablehlo.minimum", f, a, b)
}

/// Euclid's algorithm for all elements at once, until the last one has ended.
pub(super) fn gcd(f: &mut Func, a: &Value, b: &Value) -> Value {
    let a = lower_unary(UnaryKind::Abs, f, a);
    let b = lower_unary(UnaryKind::Abs, f, b);
    let all: Vec<usize> = (0..a.rank()).collect();
    let y = f.while_loop(
        &[a, b],
        |f, s| {
            let zero = f.splat_i64(0, s[0].ty());
            let live = f.compare(Direction::Ne, &s[0], &zero);
            f.reduce(&live, torchtpu_stablehlo::ReduceKind::Or, &all)
        },
        |f, s| {
            let zero = f.splat_i64(0, s[0].ty());
            let done = f.compare(Direction::Eq, &s[0], &zero);
            let r = f.binary("stablehlo.remainder", &s[1], &s[0]);
            vec![f.select(&done, &zero, &r), f.select(&done, &s[1], &s[0])]
        },
    );
    y[1].clone()
}

pub(super) fn lcm(f: &mut Func, a: &Value, b: &Value) -> Value {
    let g = gcd(f, a, b);
    let y = f.binary("stablehlo.divide", a, &g);
    let y = f.binary("stablehlo.multiply", &y, b);
    lower_unary(UnaryKind::Abs, f, &y)
}

/// The sums of this function cancel.
pub(super) fn gamma_slope(f: &mut Func, a: &Value, b: &Value) -> Value {
    let e = a.element();
    let (a, b) = (f.convert(a, ElementType::F64), f.convert(b, ElementType::F64));
    let y = analytic::binary(f, SpecialBinary(BinaryKind::GammaSlope), &a, &b);
    f.convert(&y, e)
}

pub(super) fn remainder(f: &mut Func, a: &Value, b: &Value) -> Value {
    let e = a.element();
    let safe = if e.is_integer() { f.nonzero(b) } else { b.clone() };
    let b = &safe;
    let zero = if e.is_float() { f.splat(0.0, a.ty()) } else { f.splat_i64(0, a.ty()) };
    let r = f.binary("stablehlo.remainder", a, b);
    let nonzero = f.compare(Direction::Ne, &r, &zero);
    let (nr, nb) = (f.compare(Direction::Lt, &r, &zero), f.compare(Direction::Lt, b, &zero));
    let differ = f.binary("stablehlo.xor", &nr, &nb);
    let fix = f.binary("stablehlo.and", &nonzero, &differ);
    let shifted = f.binary("stablehlo.add", &r, b);
    f.select(&fix, &shifted, &r)
}

pub(super) fn floor_divide(f: &mut Func, a: &Value, b: &Value) -> Value {
    if a.element().is_float() { floor_divide_floats(f, a, b) } else { floor_divide_integers(f, a, b) }
}

fn floor_divide_floats(f: &mut Func, a: &Value, b: &Value) -> Value {
    // As in the kernel, compute from the remainder, so that the quotient is exact.
    let r = f.binary("stablehlo.remainder", a, b);
    let zero = f.splat(0.0, a.ty());
    let d = f.binary("stablehlo.subtract", a, &r);
    let q = f.binary("stablehlo.divide", &d, b);
    let nonzero = f.compare(Direction::Ne, &r, &zero);
    let (nr, nb) = (f.compare(Direction::Lt, &r, &zero), f.compare(Direction::Lt, b, &zero));
    let differ = f.binary("stablehlo.xor", &nr, &nb);
    let fix = f.binary("stablehlo.and", &nonzero, &differ);
    let one = f.splat(1.0, a.ty());
    let less = f.binary("stablehlo.subtract", &q, &one);
    let q = f.select(&fix, &less, &q);
    let q = f.unary("stablehlo.round_nearest_even", &q);
    let plain = f.binary("stablehlo.divide", a, b);
    let by_zero = f.compare(Direction::Eq, b, &zero);
    f.select(&by_zero, &plain, &q)
}

fn floor_divide_integers(f: &mut Func, a: &Value, b: &Value) -> Value {
    let b = &f.nonzero(b);
    let q = f.binary("stablehlo.divide", a, b);
    let r = f.binary("stablehlo.remainder", a, b);
    let zero = f.splat_i64(0, a.ty());
    let nonzero = f.compare(Direction::Ne, &r, &zero);
    let (na, nb) = (f.compare(Direction::Lt, a, &zero), f.compare(Direction::Lt, b, &zero));
    let differ = f.binary("stablehlo.xor", &na, &nb);
    let fix = f.binary("stablehlo.and", &nonzero, &differ);
    let one = f.splat_i64(1, a.ty());
    let less = f.binary("stablehlo.subtract", &q, &one);
    f.select(&fix, &less, &q)
}

pub(super) fn hypot(f: &mut Func, a: &Value, b: &Value) -> Value {
    let (aa, bb) = (f.unary("stablehlo.abs", a), f.unary("stablehlo.abs", b));
    let hi = f.binary("stablehlo.maximum", &aa, &bb);
    let lo = f.binary("stablehlo.minimum", &aa, &bb);
    let r = f.binary("stablehlo.divide", &lo, &hi);
    let r2 = f.binary("stablehlo.multiply", &r, &r);
    let one = f.splat(1.0, a.ty());
    let s = f.binary("stablehlo.add", &r2, &one);
    let s = f.unary("stablehlo.sqrt", &s);
    let y = f.binary("stablehlo.multiply", &hi, &s);
    let zero = f.splat(0.0, a.ty());
    let none = f.compare(Direction::Eq, &hi, &zero);
    // An infinity beside NaN too.
    let inf = f.splat(f64::INFINITY, a.ty());
    let (of_a, of_b) = (f.compare(Direction::Eq, &aa, &inf), f.compare(Direction::Eq, &bb, &inf));
    let infinite = f.binary("stablehlo.or", &of_a, &of_b);
    let y = f.select(&infinite, &inf, &y);
    f.select(&none, &zero, &y)
}

pub(super) fn logaddexp(f: &mut Func, a: &Value, b: &Value) -> Value {
    let top = f.binary("stablehlo.maximum", a, b);
    let gap = f.binary("stablehlo.subtract", a, b);
    let gap = f.unary("stablehlo.abs", &gap);
    let gap = f.unary("stablehlo.negate", &gap);
    let small = f.unary("stablehlo.exponential", &gap);
    let rest = lower_unary(UnaryKind::Log1p, f, &small);
    let y = f.binary("stablehlo.add", &top, &rest);
    // Equal infinities have no difference.
    let size = f.unary("stablehlo.abs", a);
    let infinity = f.splat(f64::INFINITY, a.ty());
    let (equal, infinite) = (f.compare(Direction::Eq, a, b), f.compare(Direction::Eq, &size, &infinity));
    let equal = f.binary("stablehlo.and", &equal, &infinite);
    f.select(&equal, a, &y)
}

pub(super) fn copysign(f: &mut Func, a: &Value, b: &Value) -> Value {
    let e = a.element();
    let magnitude = f.unary("stablehlo.abs", a);
    // The sign bit, unlike a comparison, distinguishes -0.0 from 0.0.
    let int = match e {
        ElementType::F64 => ElementType::S64,
        ElementType::F32 => ElementType::S32,
        _ => ElementType::S16,
    };
    let bits = f.bitcast_convert(b, int);
    let zero = f.splat_i64(0, bits.ty());
    let negative = f.compare(Direction::Lt, &bits, &zero);
    let minus = f.unary("stablehlo.negate", &magnitude);
    f.select(&negative, &minus, &magnitude)
}

pub(super) fn xlogy(f: &mut Func, a: &Value, b: &Value) -> Value {
    let log = lower_unary(UnaryKind::Log, f, b);
    let y = f.binary("stablehlo.multiply", a, &log);
    let zero = f.splat(0.0, a.ty());
    let (none, is_number) = (f.compare(Direction::Eq, a, &zero), f.compare(Direction::Eq, b, b));
    let none = f.binary("stablehlo.and", &none, &is_number);
    f.select(&none, &zero, &y)
}
