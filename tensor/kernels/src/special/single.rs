//! Elementary functions for `f32`, each written once over [`Arithmetic`] in double precision. A kernel runs them on
//! vectors of `f64`. A program for XLA:CPU, which calls a scalar function for most of them, contains them as arithmetic
//! that it vectorises.
//!
//! Arguments are `f32` numbers. Relative errors are below `2e-11`, so the result rounded to `f32` is within half a unit
//! in the last place and some thousandths. Polynomials interpolate at Chebyshev nodes, with the highest term first.

use super::{Arithmetic, polynomial};
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, LN_2, LOG2_E, PI};

#[inline(always)]
fn pick<T: Arithmetic>(t: &T::Truth, yes: &T, no: &T) -> T {
    T::choose(t, || yes.clone(), || no.clone())
}

/// Return `x + x z p(z)` with `z = x^2`.
#[inline(always)]
fn odd<T: Arithmetic, const N: usize>(x: &T, p: &[f64; N]) -> T {
    let z = x.squared();
    (polynomial(&z, p) * z).fused(x, x)
}

/// Return the smaller of `x` and `top`, or NaN for NaN.
#[inline(always)]
fn at_most<T: Arithmetic>(x: &T, top: f64) -> T {
    pick(&x.above(top), &x.of(top), x)
}

// ------------------------------------------------------------------------------------------------ exp and ln

/// ln 2 without its last 20 bits, so that products with exponents are exact. `LN2_LOW` is the remainder.
const LN2_HIGH: f64 = f64::from_bits(LN_2.to_bits() & !0xf_ffff);
const LN2_LOW: f64 = 7.440_617_110_012_397e-11;

/// `1 / n!` for n = 13 down to 0.
const EXP: [f64; 14] = {
    let mut c = [1.0; 14];
    let mut n = 1;
    while n < 14 {
        c[13 - n] = c[14 - n] / n as f64;
        n += 1;
    }
    c
};

/// `2 / (2k + 1)` for k = 10 down to 1: the series of `ln((1 + s) / (1 - s)) / s` after its first term.
const LOG: [f64; 10] = {
    let mut c = [0.0; 10];
    let mut k = 1;
    while k <= 10 {
        c[10 - k] = 2.0 / (2 * k + 1) as f64;
        k += 1;
    }
    c
};

/// Return `e^x`. It is infinite from `e^700` on, and limited to `e^-700`, which is zero in `f32`.
#[inline(always)]
pub fn exp<T: Arithmetic>(x: &T) -> T {
    let cut = at_most(x, 700.0);
    let cut = pick(&x.below(-700.0), &x.of(-700.0), &cut);
    let n = (cut.clone() * LOG2_E).round();
    let r = n.fused(&x.of(-LN2_LOW), &n.fused(&x.of(-LN2_HIGH), &cut));
    pick(&cut.is(700.0), &x.of(f64::INFINITY), &polynomial(&r, &EXP).scaled(&n))
}

/// Return the natural logarithm. It is wrong for subnormal `f64` numbers, but no `f32` number is one.
#[inline(always)]
pub fn ln<T: Arithmetic>(x: &T) -> T {
    let (e, f) = x.split();
    let s = f.clone() / (f + 2.0);
    let z = s.squared();
    let tail = polynomial(&z, &LOG) * z * s.clone();
    let y = e.fused(&x.of(LN2_HIGH), &(e.fused(&x.of(LN2_LOW), &tail) + s * 2.0));
    let y = pick(&x.is(f64::INFINITY), x, &y);
    let y = pick(&x.is(0.0), &x.of(f64::NEG_INFINITY), &y);
    pick(&T::either(&x.is(0.0), &x.above(0.0)), &y, &x.of(f64::NAN))
}

// ------------------------------------------------------------------------------------------------ arc functions

/// Return the inverse sine of `a` in `[0, 1/2]`. For larger `a`, return that of `sqrt((1 - a) / 2)`, which is half the
/// inverse cosine of `a`.
#[inline(always)]
fn half_arc<T: Arithmetic>(a: &T, upper: &T::Truth) -> T {
    odd(&T::choose(upper, || (-a.clone() * 0.5 + 0.5).sqrt(), || a.clone()), &ASIN)
}

/// Return the inverse sine.
#[inline(always)]
pub fn asin<T: Arithmetic>(x: &T) -> T {
    let a = x.abs();
    let upper = a.above(0.5);
    let y = half_arc(&a, &upper);
    T::choose(&upper, || -y.clone() * 2.0 + FRAC_PI_2, || y.clone()).copysign(x)
}

/// Return the inverse cosine.
#[inline(always)]
pub fn acos<T: Arithmetic>(x: &T) -> T {
    let a = x.abs();
    let upper = a.above(0.5);
    let y = half_arc(&a, &upper);
    let outer = y.clone() * 2.0;
    let outer = T::choose(&x.below(0.0), || -outer.clone() + PI, || outer.clone());
    T::choose(&upper, || outer, || -y.copysign(x) + FRAC_PI_2)
}

/// `tan(pi / 8)`, below which the series of the inverse tangent is accurate.
const EIGHTH: f64 = std::f64::consts::SQRT_2 - 1.0;

/// Return the inverse tangent.
#[inline(always)]
pub fn atan<T: Arithmetic>(x: &T) -> T {
    let a = x.abs();
    let (middle, outer) = (a.above(EIGHTH), a.above(EIGHTH + 2.0));
    // Use one division for all ranges: of `a` turned back by an eighth or a quarter of a turn.
    let above = pick(&outer, &a.of(-1.0), &T::choose(&middle, || a.clone() - 1.0, || a.clone()));
    let below = T::choose(&outer, || a.clone(), || T::choose(&middle, || a.clone() + 1.0, || a.of(1.0)));
    let turned = pick(&outer, &a.of(FRAC_PI_2), &pick(&middle, &a.of(FRAC_PI_4), &a.of(0.0)));
    (odd(&(above / below), &ATAN) + turned).copysign(x)
}

/// Return the angle of the point `(x, y)`.
#[inline(always)]
pub fn atan2<T: Arithmetic>(y: &T, x: &T) -> T {
    // Infinities become numbers so large that their ratio to any `f32` is out of its range.
    let (rise, run) = (at_most(&y.abs(), 1e100), at_most(&x.abs(), 1e100));
    let steep = run.less(&rise);
    let (low, high) = (pick(&steep, &run, &rise), pick(&steep, &rise, &run));
    let middle = (high.clone() * EIGHTH).less(&low);
    let above = T::choose(&middle, || low.clone() - high.clone(), || low.clone());
    let below = T::choose(&middle, || low.clone() + high.clone(), || high.clone());
    let t = pick(&high.is(0.0), &low, &(above / below));
    let angle = odd(&t, &ATAN) + pick(&middle, &low.of(FRAC_PI_4), &low.of(0.0));
    let angle = T::choose(&steep, || -angle.clone() + FRAC_PI_2, || angle.clone());
    // The sign of a zero counts.
    let left = x.of(1.0).copysign(x).below(0.0);
    T::choose(&left, || -angle.clone() + PI, || angle.clone()).copysign(y)
}

// ------------------------------------------------------------------------------------------------ hyperbolic

/// Return the hyperbolic sine.
#[inline(always)]
pub fn sinh<T: Arithmetic>(x: &T) -> T {
    // `1 / (2k + 1)!` for k = 6 down to 1.
    const SERIES: [f64; 6] =
        [1.0 / 6_227_020_800.0, 1.0 / 39_916_800.0, 1.0 / 362_880.0, 1.0 / 5040.0, 1.0 / 120.0, 1.0 / 6.0];
    let a = x.abs();
    let e = exp(&a);
    let far = (e.clone() - e.inverse()) * 0.5;
    pick(&a.below(1.0), &odd(&a, &SERIES), &far).copysign(x)
}

/// Return the hyperbolic cosine.
#[inline(always)]
pub fn cosh<T: Arithmetic>(x: &T) -> T {
    let e = exp(&x.abs());
    (e.clone() + e.inverse()) * 0.5
}

/// Return the inverse hyperbolic sine.
#[inline(always)]
pub fn asinh<T: Arithmetic>(x: &T) -> T {
    let a = x.abs();
    let far = ln(&(a.clone() + (a.squared() + 1.0).sqrt()));
    // Near zero, the logarithm of a number near one loses digits.
    pick(&a.below(1.0 / 64.0), &odd(&a, &[-15.0 / 336.0, 3.0 / 40.0, -1.0 / 6.0]), &far).copysign(x)
}

/// Return the inverse hyperbolic cosine.
#[inline(always)]
pub fn acosh<T: Arithmetic>(x: &T) -> T {
    let more = x.clone() - 1.0;
    let y = ln(&(x.clone() + (more.clone() * (more + 2.0)).sqrt()));
    pick(&x.below(1.0), &x.of(f64::NAN), &y)
}

/// Return the inverse hyperbolic tangent.
#[inline(always)]
pub fn atanh<T: Arithmetic>(x: &T) -> T {
    let a = x.abs();
    let far = ln(&((a.clone() + 1.0) / (-a.clone() + 1.0))) * 0.5;
    pick(&a.below(1.0 / 64.0), &odd(&a, &[1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0]), &far).copysign(x)
}

// ------------------------------------------------------------------------------------------------ error function

/// Return `1 - erf(x)`. `e^(x^2) erfc(x)` is a polynomial in `3 / (3 + x)`.
#[inline(always)]
pub fn erfc<T: Arithmetic>(x: &T) -> T {
    let a = at_most(&x.abs(), 10.5);
    let t = a.of(3.0) / (a.clone() + 3.0);
    let y = polynomial(&(t - 0.625), &ERFC) * exp(&-a.squared());
    T::choose(&x.below(0.0), || -y.clone() + 2.0, || y.clone())
}

/// Return the inverse of the error function. `erfinv(x) / x` is smooth in `w = -ln(1 - x^2)`, and for large `w` in its
/// square root.
#[inline(always)]
pub fn erfinv<T: Arithmetic>(x: &T) -> T {
    let a = x.abs();
    let w = -ln(&((-a.clone() + 1.0) * (a.clone() + 1.0)));
    let far = polynomial(&(w.sqrt() - 3.125), &ERFINV_FAR);
    let y = pick(&w.above(5.0), &far, &polynomial(&(w - 2.5), &ERFINV_NEAR)) * x.clone();
    pick(&a.is(1.0), &x.of(f64::INFINITY).copysign(x), &y)
}

// ------------------------------------------------------------------------------------------------ gamma function

/// Stirling's formula is used above this. Smaller numbers are moved into `[1, 2]`.
const STIRLING: f64 = 2.5;
/// The zero of the digamma function, and its rounding error.
const DIGAMMA_ROOT: (f64, f64) = (1.461_632_144_968_362_2, 9.549_995_429_965_697e-17);

/// `(-1)^k / (2k + 1)!` for k = 10 down to 1.
const SIN: [f64; 10] = {
    let (mut c, mut term, mut k) = ([0.0; 10], 1.0, 1);
    while k <= 10 {
        term /= -((2 * k * (2 * k + 1)) as f64);
        c[10 - k] = term;
        k += 1;
    }
    c
};

/// Return `sin(pi x)` for |x| <= 1/2.
#[inline(always)]
fn sin_pi<T: Arithmetic>(x: &T) -> T {
    odd(&(x.clone() * PI), &SIN)
}

/// An argument `x` reduced for the gamma functions. `x` becomes `1 - x` left of zero. The flags say whether it was
/// negative, is above [`STIRLING`], is below one, or is between two and [`STIRLING`]. `near` is the number in `[1, 2]`
/// at an integer distance.
struct Shifted<T: Arithmetic> {
    x: T,
    left: T::Truth,
    far: T::Truth,
    low: T::Truth,
    high: T::Truth,
    near: T,
}

#[inline(always)]
fn shifted<T: Arithmetic>(x: &T) -> Shifted<T> {
    let left = x.below(0.0);
    let x = T::choose(&left, || -x.clone() + 1.0, || x.clone());
    let far = x.above(STIRLING);
    let (low, high) = (x.below(1.0), T::both(&x.above(2.0), &T::not(&far)));
    let near = T::choose(&low, || x.clone() + 1.0, || T::choose(&high, || x.clone() - 1.0, || x.clone()));
    Shifted { x, left, far, low, high, near }
}

/// Return the logarithm of the absolute value of the gamma function.
#[inline(always)]
pub fn lgamma<T: Arithmetic>(x: &T) -> T {
    let s = shifted(x);
    let factor = T::choose(&T::either(&s.low, &s.far), || s.x.clone(), || pick(&s.high, &s.near, &x.of(1.0)));
    let log = ln(&factor);
    let near = (s.near.clone() - 1.0) * (s.near.clone() - 2.0) * polynomial(&(s.near.clone() - 1.5), &LGAMMA_NEAR);
    let near = near + T::choose(&s.low, || -log.clone(), || log.clone());
    let r = s.x.inverse();
    // Half of ln(2 pi), minus one half.
    const REST: f64 = 0.418_938_533_204_672_7;
    let far = (s.x.clone() - 0.5).fused(&(log - 1.0), &(polynomial(&r.squared(), &LGAMMA_FAR) * r + REST));
    let y = pick(&s.far, &far, &near);
    // Gamma(x) Gamma(1 - x) = pi / sin(pi x), which has the poles of the result.
    let sine = sin_pi(&(x.clone() - x.round())).abs();
    let reflected = ln(&(sine.of(PI) / sine)) - y.clone();
    let y = pick(&s.left, &reflected, &y);
    pick(&x.is(f64::NEG_INFINITY), &x.of(f64::INFINITY), &y)
}

/// Return the derivative of [`lgamma`].
#[inline(always)]
pub fn digamma<T: Arithmetic>(x: &T) -> T {
    let s = shifted(x);
    let r = pick(&s.high, &s.near, &s.x).inverse();
    let near = (s.near.clone() - DIGAMMA_ROOT.0 - DIGAMMA_ROOT.1) * polynomial(&(s.near.clone() - 1.5), &DIGAMMA_NEAR);
    let near = near + pick(&s.low, &-r.clone(), &pick(&s.high, &r, &x.of(0.0)));
    let z = r.squared();
    let far = ln(&s.x) - r * 0.5 + polynomial(&z, &DIGAMMA_FAR) * z;
    let y = pick(&s.far, &far, &near);
    // psi(1 - x) - psi(x) = pi cot(pi x), which is undefined at the poles.
    let f = x.clone() - x.round();
    let cot = sin_pi(&(-f.abs() + 0.5)) / sin_pi(&f);
    let reflected = y.clone() - cot * PI;
    let reflected = pick(&f.is(0.0), &x.of(f64::NAN), &reflected);
    pick(&s.left, &reflected, &y)
}

// ------------------------------------------------------------------------------------------------ Bessel functions

/// Return a modified Bessel function of `a >= 0` from its polynomials, times `e^-a` if `scaled`.
#[inline(always)]
fn bessel_i<T: Arithmetic, const N: usize, const M: usize>(a: &T, near: &[f64; N], far: &[f64; M], scaled: bool) -> T {
    let outer = a.above(8.0);
    // The far polynomial is that of the function divided by `e^a`.
    let e = exp(&if scaled { -a.clone() } else { a.clone() });
    let (with_near, with_far) = if scaled { (e, a.of(1.0)) } else { (a.of(1.0), e) };
    let t = a.inverse() - 0.0625;
    let y = T::choose(&outer, || polynomial(&t, far) / a.sqrt(), || polynomial(&a.squared(), near));
    y * pick(&outer, &with_far, &with_near)
}

/// Return the modified Bessel function of the first kind, order 0.
#[inline(always)]
pub fn i0<T: Arithmetic>(x: &T) -> T {
    bessel_i(&x.abs(), &I0_NEAR, &I0_FAR, false)
}

/// Return `e^-|x| I0(x)`.
#[inline(always)]
pub fn i0e<T: Arithmetic>(x: &T) -> T {
    bessel_i(&x.abs(), &I0_NEAR, &I0_FAR, true)
}

/// Make a function of order 1 odd. Below 8 its polynomial lacks a factor x.
#[inline(always)]
fn odd_order<T: Arithmetic>(x: &T, y: T) -> T {
    let a = x.abs();
    let y = T::choose(&a.above(8.0), || y.clone(), || y.clone() * a.clone());
    // Zero stays positive, as in PyTorch.
    T::choose(&x.below(0.0), || -y.clone(), || y.clone())
}

/// Return the modified Bessel function of the first kind, order 1.
#[inline(always)]
pub fn i1<T: Arithmetic>(x: &T) -> T {
    odd_order(x, bessel_i(&x.abs(), &I1_NEAR, &I1_FAR, false))
}

/// Return `e^-|x| I1(x)`.
#[inline(always)]
pub fn i1e<T: Arithmetic>(x: &T) -> T {
    odd_order(x, bessel_i(&x.abs(), &I1_NEAR, &I1_FAR, true))
}

// ------------------------------------------------------------------------------------------------ polynomials

/// `(asin(x) / x - 1) / z` as a polynomial in `z = x^2`, z up to 1/4.
const ASIN: [f64; 10] = [
    0.027_907_031_432_666_1,
    -0.002_939_792_906_724_196_3,
    0.015_675_662_527_070_935,
    0.013_187_916_136_753_73,
    0.017_441_495_685_492_855,
    0.022_366_065_938_885_01,
    0.030_382_182_776_212_484,
    0.044_642_852_437_938_72,
    0.075_000_000_035_845_59,
    0.166_666_666_666_621_8,
];

/// `(atan(x) / x - 1) / z` as a polynomial in `z = x^2`, z up to `tan(pi / 8)^2`.
const ATAN: [f64; 8] = [
    0.032_953_943_010_441_57,
    -0.060_271_479_563_650_32,
    0.076_047_651_966_714_27,
    -0.090_840_981_437_366_91,
    0.111_108_195_109_782_32,
    -0.142_857_081_050_342_75,
    0.199_999_999_498_036_57,
    -0.333_333_333_332_661_2,
];

/// `e^(x^2) erfc(x)` as a polynomial in `3 / (3 + x) - 0.625`, x up to 10.5.
const ERFC: [f64; 15] = [
    0.012_353_789_602_750_23,
    0.012_340_192_808_731_57,
    -0.030_271_649_308_938_716,
    -0.026_919_591_537_662_7,
    0.063_934_918_092_425_69,
    0.065_609_821_008_987_93,
    -0.128_696_242_802_150_2,
    -0.239_837_619_850_654_05,
    0.126_894_171_600_696_2,
    0.938_859_959_327_014,
    1.689_702_042_926_882_5,
    1.905_850_748_121_913_1,
    1.556_433_066_780_122,
    0.964_322_479_125_446_4,
    0.278_560_095_636_258_1,
];

/// `erfinv(x) / x` as a polynomial in `w - 2.5`, w up to 5.
const ERFINV_NEAR: [f64; 14] = [
    -2.796_041_048_433_219_5e-13,
    -2.051_840_961_433_056_2e-11,
    1.286_157_267_873_015_6e-10,
    8.198_350_424_588_279e-10,
    -1.089_716_865_701_676_8e-8,
    1.378_211_098_166_745_7e-8,
    4.788_011_625_385_882e-7,
    -3.417_409_529_690_375e-6,
    -4.996_157_075_714_713e-6,
    0.000_218_251_081_695_785_78,
    -0.001_252_707_877_863_829_2,
    -0.004_177_318_042_578_073,
    0.246_640_276_742_261_05,
    1.501_409_351_131_071_5,
];

/// `erfinv(x) / x` as a polynomial in `sqrt(w) - 3.125`, w from 5 to 16.
const ERFINV_FAR: [f64; 14] = [
    -3.818_864_536_689_556e-6,
    1.165_238_913_741_585_3e-5,
    -5.904_292_710_608_72e-7,
    -5.838_664_464_906_975e-5,
    0.000_137_634_636_081_484_6,
    -8.998_856_671_691_303e-5,
    -0.000_329_095_571_613_194_3,
    0.001_260_818_329_054_990_9,
    -0.002_519_823_429_785_344,
    0.003_794_398_293_962_822,
    -0.005_301_013_782_244_538_5,
    0.007_047_885_551_060_001,
    1.003_718_691_833_522_8,
    2.958_320_150_231_126_7,
];

/// `lgamma(x) / ((x - 1) (x - 2))` as a polynomial in `x - 1.5`, x in `[1, 2]`. Accurate to the last place of `f64`,
/// because sums with it cancel left of zero.
const LGAMMA_NEAR: [f64; 21] = [
    1.182_096_944_546_714_5e-5,
    -1.852_780_399_703_296_2e-5,
    1.358_427_545_913_094_3e-5,
    -2.148_770_252_062_576e-5,
    4.281_642_862_794_779e-5,
    -6.793_733_027_397_047e-5,
    0.000_105_417_152_221_859_04,
    -0.000_168_571_794_503_517_2,
    0.000_271_302_735_451_140_05,
    -0.000_438_035_161_325_805_34,
    0.000_711_520_275_205_129_8,
    -0.001_164_411_377_219_605,
    0.001_922_916_232_122_792_3,
    -0.003_212_074_220_607_290_8,
    0.005_446_457_842_219_553,
    -0.009_425_622_444_829_649,
    0.016_797_098_631_213_95,
    -0.031_308_487_501_053_27,
    0.062_911_401_074_564_85,
    -0.145_959_895_914_305_94,
    0.483_128_950_540_980_9,
];

/// The remainder of Stirling's formula, `lgamma(x) - (x - 1/2) ln x + x - ln(2 pi) / 2`, times x, as a polynomial in
/// `1 / x^2`, x from 2.5.
const LGAMMA_FAR: [f64; 13] = [
    1.657_912_642_736_839_8,
    -1.983_954_444_657_915_8,
    1.111_319_794_146_157,
    -0.397_302_016_787_515_37,
    0.106_894_747_012_195_9,
    -0.025_211_948_545_184_187,
    0.006_214_168_835_929_986,
    -0.001_911_206_127_327_331_3,
    0.000_841_614_646_895_459,
    -0.000_595_236_298_752_550_9,
    0.000_793_650_781_074_078_9,
    -0.002_777_777_777_742_570_4,
    0.083_333_333_333_333_31,
];

/// `digamma(x)` divided by the distance from its zero, as a polynomial in `x - 1.5`, x in `[1, 2]`. Accurate to the
/// last place of `f64`.
const DIGAMMA_NEAR: [f64; 21] = [
    0.000_252_259_050_696_488_5,
    -0.000_378_390_789_724_885_8,
    0.000_236_501_717_193_398_14,
    -0.000_354_763_520_533_719_77,
    0.000_718_410_796_904_637_8,
    -0.001_077_686_396_723_422_6,
    0.001_558_074_913_721_376_1,
    -0.002_337_552_647_103_118,
    0.003_518_750_436_195_013_4,
    -0.005_280_903_066_090_605,
    0.007_926_972_735_646_359,
    -0.011_908_146_513_976_738,
    0.017_907_250_563_619_775,
    -0.026_975_800_029_253_667,
    0.040_760_833_884_338_7,
    -0.061_922_133_190_727_07,
    0.094_988_724_453_541_83,
    -0.148_404_923_054_858_08,
    0.240_542_484_240_784_78,
    -0.423_627_421_281_457_3,
    0.951_055_876_031_832_8,
];

/// `(digamma(x) - ln x + 1 / 2x) x^2` as a polynomial in `1 / x^2`, x from 2.5.
const DIGAMMA_FAR: [f64; 15] = [
    -726.592_316_145_288_2,
    958.326_104_358_233_2,
    -586.357_810_511_384_3,
    223.199_619_958_613_74,
    -60.328_144_934_424_28,
    12.733_161_408_532_034,
    -2.317_034_687_125_437_5,
    0.411_423_505_081_948_4,
    -0.082_289_020_020_746_37,
    0.021_068_167_832_641_822,
    -0.007_575_365_827_440_7,
    0.004_166_662_822_086_598,
    -0.003_968_253_948_113_322,
    0.008_333_333_333_291_002,
    -0.083_333_333_333_333_31,
];

/// `I0(x)` as a polynomial in `x^2`, x up to 8.
const I0_NEAR: [f64; 15] = [
    8.316_924_282_245_636e-31,
    3.042_928_212_436_616_6e-28,
    2.704_676_589_441_877e-25,
    1.487_042_127_576_366_8e-22,
    7.247_839_261_626_606e-20,
    2.896_665_191_436_734_3e-17,
    9.386_040_001_755_36e-15,
    2.402_805_947_105_056_5e-12,
    4.709_503_045_067_053e-10,
    6.781_684_001_500_013e-8,
    6.781_684_029_592_905_5e-6,
    0.000_434_027_777_770_234_6,
    0.015_625_000_000_016_404,
    0.249_999_999_999_985_93,
    1.000_000_000_000_002,
];

/// `sqrt(x) e^-x I0(x)` as a polynomial in `1 / x - 1/16`, x from 8.
const I0_FAR: [f64; 11] = [
    -7_868.934_071_417_607,
    -560.029_478_081_133_7,
    83.348_376_906_823_53,
    13.411_519_787_995_905,
    1.509_857_256_851_557_6,
    0.307_831_440_704_313_3,
    0.097_229_277_938_247,
    0.045_644_349_234_620_96,
    0.034_871_318_125_909_13,
    0.053_768_831_275_586_786,
    0.402_176_509_445_031_25,
];

/// `I1(x) / x` as a polynomial in `x^2`, x up to 8.
const I1_NEAR: [f64; 15] = [
    2.684_117_868_217_199e-32,
    1.127_557_916_750_441e-29,
    1.031_803_280_001_254e-26,
    6.206_376_330_611_319_6e-24,
    3.293_636_916_703_203_8e-21,
    1.448_379_125_792_064_4e-18,
    5.214_448_339_837_098e-16,
    1.501_754_230_626_928_3e-13,
    3.363_930_644_814_329e-11,
    5.651_403_348_485_163e-9,
    6.781_684_028_330_045e-7,
    5.425_347_222_199_273_4e-5,
    0.002_604_166_666_667_165_7,
    0.062_499_999_999_999_57,
    0.500_000_000_000_000_1,
];

/// `sqrt(x) e^-x I1(x)` as a polynomial in `1 / x - 1/16`, x from 8.
const I1_FAR: [f64; 11] = [
    8_384.667_170_976_663,
    578.430_886_182_141_4,
    -92.275_195_893_967_65,
    -14.688_553_170_168_666,
    -1.698_013_733_169_844,
    -0.360_936_806_730_462_86,
    -0.120_237_250_714_504_78,
    -0.061_600_637_177_631_166,
    -0.056_124_358_472_520_91,
    -0.155_993_234_577_955_05,
    0.389_398_459_025_846_63,
];
