//! Elementary functions of `f32`, branch-free so that loops over them are vectorised.
//!
//! `FMA` says whether `mul_add` is one instruction. If not, a product and a sum are used, because the library call for
//! the exact result costs fifty times as much. The stated accuracies are checked by tests.

use crate::special::{Arithmetic, Wide, single};

#[inline(always)]
fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
fn fma64<const FMA: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Evaluate a polynomial by Horner's rule, unrolled here. A loop over coefficients might not be unrolled before
/// vectorisation.
macro_rules! horner {
    ($fma:ident, $x:expr, $c:expr) => { $c };
    ($fma:ident, $x:expr, $c:expr, $($rest:expr),+) => { $fma::<FMA>(horner!($fma, $x, $($rest),+), $x, $c) };
}

/// ln 2 without its last bits, so that products with small integers are exact. `LN2_LOW` is the remainder.
const LN2_HIGH: f32 = f32::from_bits(0x3f31_7200);
const LN2_LOW: f32 = (std::f64::consts::LN_2 - LN2_HIGH as f64) as f32;
/// Adding this number rounds to an integer in the low mantissa bits.
const ROUNDER: f32 = 12_582_912.0;

/// Return 2^k for -126 <= k <= 127.
#[inline(always)]
fn power_of_two(k: i32) -> f32 {
    f32::from_bits(((k + 127) << 23) as u32)
}

/// Return `n` and `r` with `x = n ln 2 + r` and |r| <= ln 2 / 2, for |x| < 200.
#[inline(always)]
fn reduce_ln2<const FMA: bool>(x: f32) -> (i32, f32) {
    let shifted = fma::<FMA>(x, std::f32::consts::LOG2_E, ROUNDER);
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUNDER.to_bits() as i32);
    let nf = shifted - ROUNDER;
    let r = fma::<FMA>(nf, -LN2_LOW, fma::<FMA>(nf, -LN2_HIGH, x));
    (n, r)
}

/// Return (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2, by Taylor's series.
#[inline(always)]
fn exp_tail<const FMA: bool>(r: f32) -> f32 {
    horner!(fma, r, 0.5, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0)
}

/// Clamp `x` to a range. NaN stays NaN.
#[inline(always)]
fn within(x: f32, low: f32, high: f32) -> f32 {
    let x = if x > high { high } else { x };
    if x < low { low } else { x }
}

/// Return the last factor of a power, or zero if the power underflows to zero. A product that underflows costs hundreds
/// of cycles, and the exponential of minus infinity is common.
#[inline(always)]
fn unless_zero(is_zero: bool, factor: f32) -> f32 {
    if is_zero { 0.0 } else { factor }
}

/// Return e^x to 1 ulp, subnormal results included.
#[inline(always)]
pub(crate) fn exp<const FMA: bool>(x: f32) -> f32 {
    let (n, r) = reduce_ln2::<FMA>(within(x, -105.0, 90.0));
    let p = 1.0 + fma::<FMA>(r * r, exp_tail::<FMA>(r), r);
    // Multiply in two steps, because 2^n alone may not be a normal number. For NaN, `n` is arbitrary and the result is
    // NaN.
    let n = n.clamp(-252, 252);
    let half = n >> 1;
    p * power_of_two(half) * unless_zero(x < -105.0, power_of_two(n - half))
}

/// Return e^x for -87 <= x <= 88, where 2^n is normal.
#[inline(always)]
fn exp_normal<const FMA: bool>(x: f32) -> f32 {
    let (n, r) = reduce_ln2::<FMA>(x);
    let p = 1.0 + fma::<FMA>(r * r, exp_tail::<FMA>(r), r);
    p * power_of_two(n.clamp(-126, 127))
}

/// Return 2^x to 1 ulp.
#[inline(always)]
pub(crate) fn exp2<const FMA: bool>(x: f32) -> f32 {
    let is_zero = x < -151.0;
    let x = within(x, -151.0, 129.0);
    let shifted = x + ROUNDER;
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUNDER.to_bits() as i32).clamp(-252, 252);
    let f = x - (shifted - ROUNDER);
    // The low part of the product affects the last bit.
    let r = f * std::f32::consts::LN_2;
    const LN2_REST: f32 = (std::f64::consts::LN_2 - std::f32::consts::LN_2 as f64) as f32;
    let low = if FMA { f.mul_add(std::f32::consts::LN_2, -r) } else { 0.0 } + f * LN2_REST;
    let p = 1.0 + (fma::<FMA>(r * r, exp_tail::<FMA>(r), low) + r);
    let half = n >> 1;
    p * power_of_two(half) * unless_zero(is_zero, power_of_two(n - half))
}

/// Return e^x - 1 to 3 ulp, without cancellation near zero.
#[inline(always)]
pub(crate) fn expm1<const FMA: bool>(x: f32) -> f32 {
    let clipped = within(x, -40.0, 88.9);
    let (n, r) = reduce_ln2::<FMA>(clipped);
    let p = fma::<FMA>(r * r, exp_tail::<FMA>(r), r);
    // Compute 2^n (p + 1) - 1. 2^128 overflows, but 2 * 2^127 does not.
    let n = n.clamp(-126, 128);
    let s = power_of_two(n - 1);
    let y = fma::<FMA>(s, p, s - 0.5) * 2.0;
    // This also keeps the sign of zero.
    if x.abs() < 1e-7 { x } else { y }
}

/// Return `e` and `f` with `x = 2^e (1 + f)` and 1 + f between sqrt(1/2) and sqrt(2), for finite positive x.
#[inline(always)]
fn split(x: f32) -> (f32, f32) {
    let small = x < f32::MIN_POSITIVE;
    let bits = if small { x * 8_388_608.0 } else { x }.to_bits();
    let e = (bits.wrapping_sub(0x3f35_04f3) as i32) >> 23;
    let m = f32::from_bits(bits.wrapping_sub((e << 23) as u32));
    (e as f32 - if small { 23.0 } else { 0.0 }, m - 1.0)
}

/// Return ln(1 + f) - f for |f| < 0.42. Uses the series of 2 atanh s with s = f / (2 + f), arranged to keep f exact.
#[inline(always)]
fn log_tail<const FMA: bool>(f: f32) -> f32 {
    let s = f / (2.0 + f);
    let z = s * s;
    let r = z * horner!(fma, z, 2.0 / 3.0, 2.0 / 5.0, 2.0 / 7.0, 2.0 / 9.0, 2.0 / 11.0);
    let half_square = 0.5 * f * f;
    fma::<FMA>(s, half_square + r, -half_square)
}

/// Return the value of a logarithm for `x` that is zero, negative, infinite or NaN, else `y`.
#[inline(always)]
fn log_edges(x: f32, y: f32) -> f32 {
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x >= 0.0 { y } else { f32::NAN }
}

/// Return ln x to 1 ulp.
#[inline(always)]
pub(crate) fn log<const FMA: bool>(x: f32) -> f32 {
    let (e, f) = split(x);
    let y = fma::<FMA>(e, LN2_HIGH, f + fma::<FMA>(e, LN2_LOW, log_tail::<FMA>(f)));
    log_edges(x, y)
}

/// Return log2 x to 2 ulp, exact for powers of two. The product with log2 e is computed in f64.
#[inline(always)]
pub(crate) fn log2<const FMA: bool>(x: f32) -> f32 {
    let (e, f) = split(x);
    let y = (f as f64 + log_tail::<FMA>(f) as f64) * std::f64::consts::LOG2_E + e as f64;
    log_edges(x, y as f32)
}

/// Return log10 x to 2 ulp.
#[inline(always)]
pub(crate) fn log10<const FMA: bool>(x: f32) -> f32 {
    let (e, f) = split(x);
    let y = (f as f64 + log_tail::<FMA>(f) as f64) * std::f64::consts::LOG10_E + e as f64 * std::f64::consts::LOG10_2;
    log_edges(x, y as f32)
}

/// Return ln(1 + x) to 2 ulp.
#[inline(always)]
pub(crate) fn log1p<const FMA: bool>(x: f32) -> f32 {
    let u = 1.0 + x;
    // Correct the rounding error of u to first order.
    let correction = (x - (u - 1.0)) / u;
    let y = log::<FMA>(u);
    let y = if u > 0.0 && u < f32::INFINITY { y + correction } else { y };
    if x.abs() < 1e-7 { x } else { y }
}

/// Return tanh x to 3 ulp.
#[inline(always)]
pub(crate) fn tanh<const FMA: bool>(x: f32) -> f32 {
    let a = within(x.abs(), 0.0, 10.0);
    let t = expm1::<FMA>(a + a);
    let y = t / (t + 2.0);
    if x.abs() < 1e-4 { x } else { y.copysign(x) }
}

/// Return 1 / (1 + e^-x) to 3 ulp.
#[inline(always)]
pub(crate) fn sigmoid<const FMA: bool>(x: f32) -> f32 {
    1.0 / (1.0 + exp::<FMA>(-x))
}

/// Return x sigmoid(x).
#[inline(always)]
pub(crate) fn silu<const FMA: bool>(x: f32) -> f32 {
    x / (1.0 + exp::<FMA>(-x))
}

/// Largest angle for vector code. Beyond it, reducing an angle by multiples of pi/2 in f64 loses digits, and scalar
/// code computes sine and cosine.
pub(crate) const ANGLE_MAX: f32 = 1.0e6;

/// Return the number of quarter turns in an angle |x| <= [`ANGLE_MAX`], and sine and cosine of the remainder, in f64.
#[inline(always)]
fn quarter_turns<const FMA: bool>(x: f32) -> (i64, f64, f64) {
    const ROUNDER64: f64 = 6_755_399_441_055_744.0;
    // pi / 2 in three parts. The first has 32 bits, so that its product with the number of quarter turns is exact.
    const HALF_PI_HIGH: f64 = f64::from_bits(std::f64::consts::FRAC_PI_2.to_bits() & !((1 << 21) - 1));
    const HALF_PI_MIDDLE: f64 = std::f64::consts::FRAC_PI_2 - HALF_PI_HIGH;
    const HALF_PI_LOW: f64 = 6.123_233_995_736_766e-17;
    let x = x as f64;
    let shifted = fma64::<FMA>(x, std::f64::consts::FRAC_2_PI, ROUNDER64);
    let q = shifted.to_bits() as i64;
    let n = shifted - ROUNDER64;
    let r = fma64::<FMA>(n, -HALF_PI_HIGH, x);
    let r = fma64::<FMA>(n, -HALF_PI_LOW, fma64::<FMA>(n, -HALF_PI_MIDDLE, r));
    let z = r * r;
    let sin = fma64::<FMA>(
        r * z,
        horner!(fma64, z, -1.0 / 6.0, 1.0 / 120.0, -1.0 / 5040.0, 1.0 / 362_880.0, -1.0 / 39_916_800.0),
        r,
    );
    let cos = fma64::<FMA>(
        z,
        horner!(fma64, z, -0.5, 1.0 / 24.0, -1.0 / 720.0, 1.0 / 40_320.0, -1.0 / 3_628_800.0, 1.0 / 479_001_600.0),
        1.0,
    );
    (q, sin, cos)
}

/// Return the sine (`quarter` 0) or cosine (`quarter` 1) of |x| <= [`ANGLE_MAX`].
#[inline(always)]
fn sin_quarter<const FMA: bool>(x: f32, quarter: i64) -> f32 {
    let (q, sin, cos) = quarter_turns::<FMA>(x);
    let q = q.wrapping_add(quarter);
    let y = if q & 1 == 0 { sin } else { cos };
    (if q & 2 == 0 { y } else { -y }) as f32
}

/// Return sin x to 1 ulp for |x| <= [`ANGLE_MAX`].
#[inline(always)]
pub(crate) fn sin<const FMA: bool>(x: f32) -> f32 {
    let y = sin_quarter::<FMA>(x, 0);
    if x == 0.0 { x } else { y }
}

/// Return cos x to 1 ulp for |x| <= [`ANGLE_MAX`].
#[inline(always)]
pub(crate) fn cos<const FMA: bool>(x: f32) -> f32 {
    sin_quarter::<FMA>(x, 1)
}

/// Return tan x to 1 ulp for |x| <= [`ANGLE_MAX`].
#[inline(always)]
pub(crate) fn tan<const FMA: bool>(x: f32) -> f32 {
    let (q, sin, cos) = quarter_turns::<FMA>(x);
    let odd = q & 1 != 0;
    let y = (if odd { -cos } else { sin }) / (if odd { sin } else { cos });
    if x == 0.0 { x } else { y as f32 }
}

/// Return sqrt(a^2 + b^2) to 1 ulp, without overflow. It is infinite if one operand is, even if the other is NaN.
#[inline(always)]
pub(crate) fn hypot<const FMA: bool>(a: f32, b: f32) -> f32 {
    let (x, y) = (a as f64, b as f64);
    let h = fma64::<FMA>(x, x, y * y).sqrt() as f32;
    if a.abs() == f32::INFINITY || b.abs() == f32::INFINITY { f32::INFINITY } else { h }
}

/// Return the angle of the point (b, a) to 1 ulp.
#[inline(always)]
pub(crate) fn atan2<const FMA: bool>(a: f32, b: f32) -> f32 {
    single::atan2(&Wide::<FMA>(a as f64), &Wide(b as f64)).0 as f32
}

/// Return ln(e^a + e^b) without overflow.
#[inline(always)]
pub(crate) fn logaddexp<const FMA: bool>(a: f32, b: f32) -> f32 {
    let top = if a > b { a } else { b };
    // The difference of equal infinities is NaN, and a NaN operand gives NaN.
    let y = top + log1p::<FMA>(exp::<FMA>(-(a - b).abs()));
    if (a == b) & (a.abs() == f32::INFINITY) { a } else { y }
}

/// Return a^b to 1 ulp.
#[inline(always)]
pub(crate) fn pow<const FMA: bool>(a: f32, b: f32) -> f32 {
    let (x, p) = (Wide::<FMA>(a as f64), Wide::<FMA>(b as f64));
    let y = (x.abs().ln() * p).exp().0;
    let half = p * 0.5;
    let whole = p.0 == p.round().0;
    let odd = whole & (half.0 != half.round().0);
    let y = if odd { y.copysign(x.0) } else { y };
    let y = if (a < 0.0) & (a > f32::NEG_INFINITY) & !whole { f64::NAN } else { y };
    let one = (b == 0.0) | (a == 1.0) | ((a == -1.0) & (b.abs() == f32::INFINITY));
    let y = if one { 1.0 } else { y };
    // A square can be halfway between two numbers, and must then round to even.
    (if b == 2.0 { x.0 * x.0 } else { y }) as f32
}

/// Whether [`fmod`] may be wrong for these operands: the quotient may have 28 bits or more, or is not finite.
#[inline(always)]
#[expect(clippy::neg_cmp_op_on_partial_ord, reason = "true of NaN too")]
pub(crate) fn is_long_division(a: f32, b: f32) -> bool {
    !(a.abs() < b.abs() * 268_435_456.0)
}

/// Return the exact remainder of `a / b` with the sign of `a`, unless [`is_long_division`].
#[inline(always)]
pub(crate) fn fmod<const FMA: bool>(a: f32, b: f32) -> f32 {
    let (x, d) = (a as f64, b as f64);
    // A quotient of two 24-bit numbers that is not an integer is too far from one to be rounded to it.
    let quotient = (x / d).abs();
    let n = Wide::<FMA>(quotient).round().0;
    let n = if n > quotient { n - 1.0 } else { n };
    // The product has at most 52 bits.
    let r = x.abs() - n * d.abs();
    if n == 0.0 { a } else { (r as f32).copysign(a) }
}

/// Choose without a jump. A plain `if` between two long computations becomes a branch, and the loop stays scalar.
#[inline(always)]
fn blend(first: bool, a: f32, b: f32) -> f32 {
    std::hint::select_unpredictable(first, a, b)
}

/// Return erf x to 3 ulp: Maclaurin's series up to one, then `1 - e^(-x^2) q(x)`.
#[inline(always)]
pub(crate) fn erf<const FMA: bool>(x: f32) -> f32 {
    let a = within(x.abs(), 0.0, 4.2);
    let z = a * a;
    const C: f32 = std::f32::consts::FRAC_2_SQRT_PI;
    let series = horner!(
        fma,
        z,
        C,
        -C / 3.0,
        C / 10.0,
        -C / 42.0,
        C / 216.0,
        -C / 1320.0,
        C / 9360.0,
        -C / 75_600.0,
        C / 685_440.0,
        -C / 6_894_720.0,
        C / 76_204_800.0
    );
    // This polynomial interpolates e^(x^2) erfc x at Chebyshev nodes of 1 / (1 + x), for x from 1 to 4.2.
    let t = 1.0 / (1.0 + a) - 0.35;
    let q = horner!(
        fma,
        t,
        0.271_552_9,
        0.977_585,
        0.482_358_7,
        -0.411_186_52,
        -0.222_144,
        0.568_086_27,
        -0.173_540_46,
        -0.632_258_5
    );
    let tail = fma::<FMA>(-q, exp_normal::<FMA>(-z), 1.0);
    let y = blend(a < 1.0, a * series, tail);
    y.copysign(x)
}

/// Return Phi(-|x|), the tail of the normal distribution, and e^(-x^2 / 2). Both are zero where the tail is negligible.
#[inline(always)]
fn normal_tail<const FMA: bool>(x: f32) -> (f32, f32) {
    let a = within(x.abs() * std::f32::consts::FRAC_1_SQRT_2, 0.0, 9.3);
    // This polynomial in 1 / (1 + 0.3 a) fits e^(a^2) erfc(a) / 2 to 2e-8, for a up to 9.4.
    let t = 1.0 / fma::<FMA>(a, 0.3, 1.0) - 0.5;
    let q = horner!(
        fma,
        t,
        0.081_244_98,
        0.300_751_75,
        0.475_305_2,
        0.634_999_33,
        0.702_681_24,
        0.618_919_1,
        0.397_090_23,
        0.132_680_88,
        -0.051_221_013,
        -0.062_410_414
    );
    let e = blend(a < 9.25, exp_normal::<FMA>(-0.5 * x * x), 0.0);
    (q * e, e)
}

/// Return Phi(x), given Phi(-|x|).
#[inline(always)]
fn from_tail(x: f32, tail: f32) -> f32 {
    blend(x < 0.0, tail, 1.0 - tail)
}

/// Return x Phi(x).
#[inline(always)]
pub(crate) fn gelu<const FMA: bool>(x: f32) -> f32 {
    x * from_tail(x, normal_tail::<FMA>(x).0)
}

/// Return the argument of tanh in the approximate gelu.
#[inline(always)]
fn gelu_inner(x: f32) -> f32 {
    const ROOT: f32 = std::f32::consts::FRAC_2_SQRT_PI * std::f32::consts::FRAC_1_SQRT_2;
    ROOT * (x + 0.044_715 * x * x * x)
}

/// Return the gelu approximated by tanh.
#[inline(always)]
pub(crate) fn gelu_tanh<const FMA: bool>(x: f32) -> f32 {
    0.5 * x * (1.0 + tanh::<FMA>(gelu_inner(x)))
}

/// Return the derivative of [`gelu`].
#[inline(always)]
pub(crate) fn gelu_slope<const FMA: bool>(x: f32) -> f32 {
    const DENSITY: f32 = 0.5 * std::f32::consts::FRAC_2_SQRT_PI * std::f32::consts::FRAC_1_SQRT_2;
    let (tail, e) = normal_tail::<FMA>(x);
    // Clamp x at both ends: far out the density is zero, and x times zero must stay zero.
    fma::<FMA>(within(x, -1e18, 1e18) * DENSITY, e, from_tail(x, tail))
}

/// Return the derivative of [`gelu_tanh`].
#[inline(always)]
pub(crate) fn gelu_tanh_slope<const FMA: bool>(x: f32) -> f32 {
    const ROOT: f32 = std::f32::consts::FRAC_2_SQRT_PI * std::f32::consts::FRAC_1_SQRT_2;
    let clipped = within(x, -1e6, 1e6);
    let t = tanh::<FMA>(gelu_inner(clipped));
    let slope = ROOT * (1.0 + 3.0 * 0.044_715 * clipped * clipped);
    0.5 * (1.0 + t) + 0.5 * clipped * (1.0 - t * t) * slope
}

/// Return psi(x), the derivative of ln Gamma. Uses the recurrence up to ten, then the asymptotic series. Negative x are
/// reflected.
pub(crate) fn digamma(mut x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    let mut reflected = 0.0;
    if x < 0.0 {
        if x == x.floor() {
            return f64::NAN;
        }
        // tan(pi x) has period one, and the fraction of x keeps its digits.
        reflected = -std::f64::consts::PI / (std::f64::consts::PI * x.fract()).tan();
        x = 1.0 - x;
    }
    let mut r = 0.0;
    while x < 10.0 {
        r -= 1.0 / x;
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    let bernoulli = [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32_760.0, 1.0 / 12.0];
    let series = bernoulli.iter().rev().fold(0.0, |s, b| (s + b) * z);
    r + x.ln() - 0.5 / x - series + reflected
}

/// Return the inverse of erf. Starts with a value of three digits, then takes Halley's steps on erf or, near one, on
/// erfc.
pub(crate) fn erfinv(y: f64) -> f64 {
    let a = y.abs();
    if a.is_nan() || a >= 1.0 {
        return if a == 1.0 { f64::INFINITY.copysign(y) } else { f64::NAN };
    }
    if a < 1e-9 {
        return y / std::f64::consts::FRAC_2_SQRT_PI;
    }
    let l = (-a * a).ln_1p();
    let k = 2.0 / (std::f64::consts::PI * 0.147) + 0.5 * l;
    let mut x = ((k * k - l / 0.147).sqrt() - k).sqrt();
    for _ in 0..3 {
        let excess = if a < 0.5 { libm::erf(x) - a } else { (1.0 - a) - libm::erfc(x) };
        let step = excess / (std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp());
        x -= step / (1.0 + x * step);
    }
    x.copysign(y)
}
