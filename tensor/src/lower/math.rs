//! The spelling of elementary functions for a compiler.
//!
//! XLA:CPU calls a scalar function for each element of `stablehlo.sine`, `cosine` and `tan`: 13 to 23 ms for four
//! million `f32` on two cores, ten times the time of its other functions. So for XLA:CPU elements of at most 32 bits
//! are computed by arithmetic that it vectorises, if no kernel is called. The angle is reduced to an eighth of a turn
//! in `f64`, or in integers if it is large, and polynomials compute the rest. The results are accurate to the last bit
//! of `f32` or the one before, for every finite angle.
//!
//! The same holds for the inverse functions, the gamma function and some others. They have the texts that kernels of
//! `f32` run in vectors of `f64` ([`single`]), and so the same results.

use crate::lower::fields::{Field, Numbers};
use crate::lower::kernel_call::{KernelCall, message, misfit};
use crate::lower::{analytic, kernel_call};
use crate::op::{Func, Value};
use torchtpu_kernels::pointwise::{BinaryKind, UnaryKind};
use torchtpu_kernels::special::{Analytic, single};
use torchtpu_kernels::{View, ViewMut};
use torchtpu_stablehlo::{Direction, ElementType, Type};

/// The function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trig {
    Sin,
    Cos,
    Tan,
}

/// From here on the quarter turns are counted in integers.
const LARGE: f64 = 1_048_576.0;
/// An angle below this equals its own sine and tangent.
const TINY: f64 = 1.0 / 4096.0;
/// A quarter turn as two numbers: its first 32 bits, whose multiples up to `2^21` are exact, and the remainder.
const QUARTER: (f64, f64) = (1.5707963267341256, 6.077100506506192e-11);
/// `2 / pi` in binary, after 32 zeros.
const TWO_OVER_PI: [u32; 8] =
    [0, 0xa2f9_836e, 0x4e44_1529, 0xfc27_57d1, 0xf534_ddc0, 0xdb62_9599, 0x3c43_9041, 0xfe51_63ab];
/// `sin r = r + r^3 (S0 + r^2 (S1 + ...))`, of Taylor's series; the next term is below `2^-28` of the sum up to `pi /
/// 4`.
const SIN: [f64; 4] = [-1.0 / 6.0, 1.0 / 120.0, -1.0 / 5040.0, 1.0 / 362_880.0];
/// `cos r = 1 + r^2 (C0 + r^2 (C1 + ...))`, also of Taylor's series.
const COS: [f64; 5] = [-0.5, 1.0 / 24.0, -1.0 / 720.0, 1.0 / 40_320.0, -1.0 / 3_628_800.0];

pub(crate) fn is_single(e: ElementType) -> bool {
    matches!(e, ElementType::F32 | ElementType::F16 | ElementType::BF16)
}

/// Whether a program leaves sine, cosine or tangent to the kernel, which is twice as fast as the spelling below. The
/// gain is larger in a loop that computes other functions too: a processor looks ahead some 400 instructions, and a
/// step of such a loop is a chain of about as many, each of which waits for the one before.
pub(crate) fn is_called(kind: UnaryKind, f: &Func, x: &Value) -> bool {
    Angle::KINDS.contains(&kind) && is_single(x.element()) && kernel_call::is_profitable(f, x.element(), x.ty().numel())
}

/// A function that is written once for kernels and for XLA:CPU.
struct Single<K>(K);

impl analytic::OfTwo for Single<BinaryKind> {
    fn of<T: Analytic>(self, a: &T, b: &T) -> T {
        match self.0 {
            BinaryKind::Atan2 => single::atan2(a, b),
            kind => unreachable!("{} has no text for single precision", kind.name()),
        }
    }
}

/// The kernel of sine, cosine or tangent.
#[derive(Debug)]
pub(crate) struct Angle(pub(crate) UnaryKind);

impl Angle {
    const KINDS: [UnaryKind; 3] = [UnaryKind::Sin, UnaryKind::Cos, UnaryKind::Tan];
}

impl Field for Angle {
    fn put(&self, to: &mut Numbers) {
        Angle::KINDS.iter().position(|kind| *kind == self.0).expect("a function of an angle").put(to);
    }
    fn take(from: &mut &[i64]) -> Option<Angle> {
        Angle::KINDS.get(usize::take(from)?).copied().map(Angle)
    }
}

impl KernelCall for Angle {
    fn name() -> &'static str {
        "angle"
    }
    fn arity(&self) -> (usize, usize) {
        (1, 1)
    }
    fn compute(&self, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> Result<(), String> {
        let ([x], [y]) = (x, y) else { return Err(misfit(self)) };
        torchtpu_kernels::pointwise::unary(self.0, x, y).map_err(message)
    }
}

/// A function of `x` that is computed in `f64` and rounded as the result of a kernel is.
pub(crate) fn in_double(f: &mut Func, x: &Value, function: fn(&mut Func, &Value) -> Value) -> Value {
    let e = x.element();
    let x = f.convert(x, ElementType::F64);
    let y = function(f, &x);
    narrowed(f, &y, e)
}

/// `kind(a, b)` where a spelling is faster than the op of that name.
pub(crate) fn binary(kind: BinaryKind, f: &mut Func, a: &Value, b: &Value) -> Option<Value> {
    let e = a.element();
    if !f.profile().spells_atan2 || !is_single(e) || kind != BinaryKind::Atan2 {
        return None;
    }
    let (a, b) = (f.convert(a, ElementType::F64), f.convert(b, ElementType::F64));
    let y = analytic::binary(f, Single(kind), &a, &b);
    Some(narrowed(f, &y, e))
}

/// Compute in `f64` and round like a kernel, which computes in `f32`.
fn narrowed(f: &mut Func, y: &Value, e: ElementType) -> Value {
    let y = f.convert(y, ElementType::F32);
    f.convert(&y, e)
}

/// `ln(1 + x)` by the logarithm, which XLA vectorises: of the rounded `u = 1 + x`, times a factor for the rounding.
pub(crate) fn log1p(f: &mut Func, x: &Value) -> Value {
    let e = x.element();
    let x = f.convert(x, ElementType::F32);
    let one = f.splat(1.0, x.ty());
    let u = f.binary("stablehlo.add", &x, &one);
    let log = f.unary("stablehlo.log", &u);
    // The maximum with zero changes no number that has a logarithm. Without it, XLA simplifies `(1 + x) - 1` to `x`.
    let zero = f.splat(0.0, x.ty());
    let rounded = f.binary("stablehlo.maximum", &u, &zero);
    let taken = f.binary("stablehlo.subtract", &rounded, &one);
    let ratio = f.binary("stablehlo.divide", &x, &taken);
    let y = f.binary("stablehlo.multiply", &log, &ratio);
    // For infinity the ratio is not defined.
    let infinity = f.splat(f64::INFINITY, x.ty());
    let infinite = f.compare(Direction::Eq, &u, &infinity);
    let y = f.select(&infinite, &u, &y);
    let same = f.compare(Direction::Eq, &u, &one);
    let y = f.select(&same, &x, &y);
    f.convert(&y, e)
}

/// The function of `x`, of any floating dtype or complex.
pub(crate) fn trig(kind: Trig, f: &mut Func, x: &Value) -> Value {
    let e = x.element();
    if !f.profile().spells_functions || !is_single(e) {
        let name = match kind {
            Trig::Sin => "stablehlo.sine",
            Trig::Cos => "stablehlo.cosine",
            Trig::Tan => "stablehlo.tan",
        };
        return f.unary(name, x);
    }
    let x = f.convert(x, ElementType::F32);
    let (turn, r) = reduced(f, &x);
    let square = f.binary("stablehlo.multiply", &r, &r);
    let tail = polynomial(f, &square, &SIN);
    let tail = f.binary("stablehlo.multiply", &tail, &r);
    let sine = f.binary("stablehlo.add", &r, &tail);
    let one = f.splat(1.0, r.ty());
    let tail = polynomial(f, &square, &COS);
    let cosine = f.binary("stablehlo.add", &one, &tail);
    // An odd number of quarter turns exchanges sine and cosine.
    let turn = if kind == Trig::Cos { with(f, "stablehlo.add", &turn, 1) } else { turn };
    let odd = bit(f, &turn, 1);
    let y = if kind == Trig::Tan {
        let minus = f.unary("stablehlo.negate", &cosine);
        let (above, below) = (f.select(&odd, &minus, &sine), f.select(&odd, &sine, &cosine));
        f.binary("stablehlo.divide", &above, &below)
    } else {
        let y = f.select(&odd, &cosine, &sine);
        let (minus, back) = (f.unary("stablehlo.negate", &y), bit(f, &turn, 2));
        f.select(&back, &minus, &y)
    };
    let mut y = f.convert(&y, ElementType::F32);
    if kind != Trig::Cos {
        let size = f.unary("stablehlo.abs", &x);
        let limit = f.splat(TINY, x.ty());
        let tiny = f.compare(Direction::Lt, &size, &limit);
        y = f.select(&tiny, &x, &y);
    }
    f.convert(&y, e)
}

/// Quarter turns of `x`, as `i64` whose two lowest bits count, and the remaining angle, as `f64` in `[-pi/4, pi/4]`.
/// The remainder of infinity and NaN is NaN.
fn reduced(f: &mut Func, x: &Value) -> (Value, Value) {
    let wide = f.convert(x, ElementType::F64);
    let per_quarter = f.splat(std::f64::consts::FRAC_2_PI, wide.ty());
    let turns = f.binary("stablehlo.multiply", &wide, &per_quarter);
    let turns = f.unary("stablehlo.round_nearest_even", &turns);
    let mut rest = wide.clone();
    for part in [QUARTER.0, QUARTER.1] {
        let part = f.splat(part, wide.ty());
        let whole = f.binary("stablehlo.multiply", &turns, &part);
        rest = f.binary("stablehlo.subtract", &rest, &whole);
    }
    let turn = f.convert(&turns, ElementType::S64);
    let (far_turn, far_rest) = reduced_far(f, x);
    let size = f.unary("stablehlo.abs", &wide);
    let (from, below) = (f.splat(LARGE, wide.ty()), f.splat(f64::INFINITY, wide.ty()));
    let (large, finite) = (f.compare(Direction::Ge, &size, &from), f.compare(Direction::Lt, &size, &below));
    let far = f.binary("stablehlo.and", &large, &finite);
    (f.select(&far, &far_turn, &turn), f.select(&far, &far_rest, &rest))
}

/// The same for finite angles of `2^20` and more. The angle is `m * 2^s`, where `m` has 24 bits. The bits of `2 / pi`
/// that give multiples of four quarter turns are skipped, and the next 96 are multiplied by `m`.
fn reduced_far(f: &mut Func, x: &Value) -> (Value, Value) {
    let bits = f.bitcast_convert(x, ElementType::S32);
    let bits = f.convert(&bits, ElementType::S64);
    let ty = bits.ty().clone();
    let exponent = with(f, "stablehlo.shift_right_logical", &bits, 23);
    let exponent = with(f, "stablehlo.and", &exponent, 0xff);
    let m = with(f, "stablehlo.and", &bits, 0x7f_ffff);
    let m = with(f, "stablehlo.or", &m, 0x80_0000);
    // The first bit that counts in `TWO_OVER_PI`: its word, and its position in the word.
    let first = with(f, "stablehlo.add", &exponent, -120);
    let (word, place) = (with(f, "stablehlo.shift_right_arithmetic", &first, 5), with(f, "stablehlo.and", &first, 31));
    let (mut near, mut next) = (f.splat_i64(pair(0), &ty), f.splat_i64(pair(2), &ty));
    for w in 1..=4 {
        let w_value = f.splat_i64(w as i64, &ty);
        let here = f.compare(Direction::Eq, &word, &w_value);
        let (a, b) = (f.splat_i64(pair(w), &ty), f.splat_i64(pair(w + 2), &ty));
        (near, next) = (f.select(&here, &a, &near), f.select(&here, &b, &next));
    }
    let high = f.binary("stablehlo.shift_left", &near, &place);
    let back = f.splat_i64(63, &ty);
    let back = f.binary("stablehlo.subtract", &back, &place);
    let carried = with(f, "stablehlo.shift_right_logical", &next, 1);
    let carried = f.binary("stablehlo.shift_right_logical", &carried, &back);
    let high = f.binary("stablehlo.or", &high, &carried);
    let low = f.binary("stablehlo.shift_left", &next, &place);
    let low = with(f, "stablehlo.shift_right_logical", &low, 32);
    // Two bits of quarter turns, and 62 bits of their fraction.
    let (high, low) = (f.binary("stablehlo.multiply", &m, &high), f.binary("stablehlo.multiply", &m, &low));
    let low = with(f, "stablehlo.shift_right_logical", &low, 32);
    let product = f.binary("stablehlo.add", &high, &low);
    let turn = with(f, "stablehlo.add", &product, 1 << 61);
    let turn = with(f, "stablehlo.shift_right_logical", &turn, 62);
    let fraction = with(f, "stablehlo.shift_left", &product, 2);
    let fraction = f.convert(&fraction, ElementType::F64);
    let unit = f.splat(std::f64::consts::FRAC_PI_2 / 2f64.powi(64), fraction.ty());
    let rest = f.binary("stablehlo.multiply", &fraction, &unit);
    let zero = f.splat(0.0, x.ty());
    let negative = f.compare(Direction::Lt, x, &zero);
    let (minus_turn, minus_rest) = (f.unary("stablehlo.negate", &turn), f.unary("stablehlo.negate", &rest));
    (f.select(&negative, &minus_turn, &turn), f.select(&negative, &minus_rest, &rest))
}

/// Two words of `2 / pi`.
fn pair(word: usize) -> i64 {
    (i64::from(TWO_OVER_PI[word]) << 32) | i64::from(TWO_OVER_PI[word + 1])
}

/// Whether the bits of `mask` are set in `turn`.
fn bit(f: &mut Func, turn: &Value, mask: i64) -> Value {
    let masked = with(f, "stablehlo.and", turn, mask);
    let zero = f.splat_i64(0, turn.ty());
    f.compare(Direction::Ne, &masked, &zero)
}

/// `op` of `x` and the number `n`.
fn with(f: &mut Func, op: &'static str, x: &Value, n: i64) -> Value {
    let n = f.splat_i64(n, x.ty());
    f.binary(op, x, &n)
}

/// `x (c[0] + x (c[1] + ...))`.
fn polynomial(f: &mut Func, x: &Value, c: &[f64]) -> Value {
    let ty: Type = x.ty().clone();
    let mut sum: Option<Value> = None;
    for &c in c.iter().rev() {
        let c = f.splat(c, &ty);
        let next = sum.map_or_else(|| c.clone(), |s| f.binary("stablehlo.add", &s, &c));
        sum = Some(f.binary("stablehlo.multiply", &next, x));
    }
    sum.expect("a polynomial has terms")
}
