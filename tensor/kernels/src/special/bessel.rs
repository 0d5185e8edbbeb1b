//! Bessel functions of orders 0 and 1, and the Airy function.

use super::tables::*;
use super::{Analytic, chebyshev, cubic_series, polynomial};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI, FRAC_2_SQRT_PI, FRAC_PI_4, LN_2};

/// Return `e^-|x| I0(x)`.
pub fn i0e<T: Analytic>(x: &T) -> T {
    let a = x.abs();
    T::choose(
        &a.above(8.0),
        || chebyshev(&(a.of(32.0) / a.clone() - 2.0), &I0_FAR) / a.sqrt(),
        || chebyshev(&(a.clone() * 0.5 - 2.0), &I0_NEAR),
    )
}

/// Return the modified Bessel function of the first kind, order 0.
pub fn i0<T: Analytic>(x: &T) -> T {
    i0e(x) * x.abs().exp()
}

/// Return `e^-|x| I1(x)`.
pub fn i1e<T: Analytic>(x: &T) -> T {
    let a = x.abs();
    let y = T::choose(
        &a.above(8.0),
        || chebyshev(&(a.of(32.0) / a.clone() - 2.0), &I1_FAR) / a.sqrt(),
        || chebyshev(&(a.clone() * 0.5 - 2.0), &I1_NEAR) * a.clone(),
    );
    T::choose(&x.below(0.0), || -y.clone(), || y.clone())
}

/// Return the modified Bessel function of the first kind, order 1.
pub fn i1<T: Analytic>(x: &T) -> T {
    i1e(x) * x.abs().exp()
}

/// Return `ln(x / 2)`.
fn ln_half<T: Analytic>(x: &T) -> T {
    x.ln() - LN_2
}

/// Return the value `y` of a function of the second kind for positive `x`, `at_zero` at zero, and NaN below zero.
fn positive<T: Analytic>(x: &T, at_zero: f64, y: impl FnOnce() -> T) -> T {
    T::choose(&x.is(0.0), || x.of(at_zero), || T::choose(&x.below(0.0), || x.of(f64::NAN), y))
}

fn k0_near<T: Analytic>(x: &T) -> T {
    chebyshev(&(x.squared() - 2.0), &K0_NEAR) - ln_half(x) * i0(x)
}

fn k0_far<T: Analytic>(x: &T) -> T {
    chebyshev(&(x.of(8.0) / x.clone() - 2.0), &K0_FAR) / x.sqrt()
}

fn k1_near<T: Analytic>(x: &T) -> T {
    ln_half(x) * i1(x) + chebyshev(&(x.squared() - 2.0), &K1_NEAR) / x.clone()
}

fn k1_far<T: Analytic>(x: &T) -> T {
    chebyshev(&(x.of(8.0) / x.clone() - 2.0), &K1_FAR) / x.sqrt()
}

/// Return the modified Bessel function of the second kind, order 0.
pub fn k0<T: Analytic>(x: &T) -> T {
    positive(x, f64::INFINITY, || T::choose(&x.above(2.0), || k0_far(x) * (-x.clone()).exp(), || k0_near(x)))
}

/// Return `e^x K0(x)`.
pub fn k0e<T: Analytic>(x: &T) -> T {
    positive(x, f64::INFINITY, || T::choose(&x.above(2.0), || k0_far(x), || k0_near(x) * x.exp()))
}

/// Return the modified Bessel function of the second kind, order 1.
pub fn k1<T: Analytic>(x: &T) -> T {
    positive(x, f64::INFINITY, || T::choose(&x.above(2.0), || k1_far(x) * (-x.clone()).exp(), || k1_near(x)))
}

/// Return `e^x K1(x)`.
pub fn k1e<T: Analytic>(x: &T) -> T {
    positive(x, f64::INFINITY, || T::choose(&x.above(2.0), || k1_far(x), || k1_near(x) * x.exp()))
}

/// The square root of `2 / pi`.
const ROOT: f64 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;

/// Return the amplitudes of Hankel's expansion beyond 5 for order `n`: those of the cosine and the sine of
/// `x - (2n + 1) pi / 4`.
fn hankel<T: Analytic>(x: &T, order: usize) -> (T, T) {
    let w = x.of(5.0) / x.clone();
    let z = w.squared();
    let (p, q) = if order == 0 {
        (polynomial(&z, &J0_PP) / polynomial(&z, &J0_PQ), polynomial(&z, &J0_QP) / polynomial(&z, &J0_QQ))
    } else {
        (polynomial(&z, &J1_PP) / polynomial(&z, &J1_PQ), polynomial(&z, &J1_QP) / polynomial(&z, &J1_QQ))
    };
    let scale = x.of(ROOT) / x.sqrt();
    (p * scale.clone(), q * w * scale)
}

fn j_far<T: Analytic>(x: &T, order: usize) -> T {
    let (p, q) = hankel(x, order);
    let angle = x.clone() - (2 * order + 1) as f64 * FRAC_PI_4;
    p * angle.cos() - q * angle.sin()
}

fn y_far<T: Analytic>(x: &T, order: usize) -> T {
    let (p, q) = hankel(x, order);
    let angle = x.clone() - (2 * order + 1) as f64 * FRAC_PI_4;
    p * angle.sin() + q * angle.cos()
}

/// Return the Bessel function of the first kind, order 0.
pub fn j0<T: Analytic>(x: &T) -> T {
    let a = x.abs();
    let z = a.squared();
    T::choose(
        &a.above(5.0),
        || j_far(&a, 0),
        || {
            // The squares of the first two zeros.
            let zeros = (z.clone() - 5.783_185_962_946_784) * (z.clone() - 30.471_262_343_662_087);
            zeros * polynomial(&z, &J0_RP) / polynomial(&z, &J0_RQ)
        },
    )
}

/// Return the Bessel function of the first kind, order 1.
pub fn j1<T: Analytic>(x: &T) -> T {
    let a = x.abs();
    let z = a.squared();
    let y = T::choose(
        &a.above(5.0),
        || j_far(&a, 1),
        || {
            let zeros = (z.clone() - 14.681_970_642_123_893) * (z.clone() - 49.218_456_321_694_6);
            zeros * a.clone() * polynomial(&z, &J1_RP) / polynomial(&z, &J1_RQ)
        },
    );
    T::choose(&x.below(0.0), || -y.clone(), || y.clone())
}

/// Return the Bessel function of the second kind, order 0.
pub fn y0<T: Analytic>(x: &T) -> T {
    positive(x, f64::NEG_INFINITY, || {
        T::choose(
            &x.above(5.0),
            || y_far(x, 0),
            || {
                let z = x.squared();
                polynomial(&z, &Y0_P) / polynomial(&z, &Y0_Q) + x.ln() * j0(x) * FRAC_2_PI
            },
        )
    })
}

/// Return the Bessel function of the second kind, order 1.
pub fn y1<T: Analytic>(x: &T) -> T {
    positive(x, f64::NEG_INFINITY, || {
        T::choose(
            &x.above(5.0),
            || y_far(x, 1),
            || {
                let z = x.squared();
                let rest = x.clone() * polynomial(&z, &Y1_P) / polynomial(&z, &Y1_Q);
                rest + (x.ln() * j1(x) - x.inverse()) * FRAC_2_PI
            },
        )
    })
}

/// Return the spherical Bessel function of the first kind, order 0: `sin(x) / x`.
pub fn spherical_j0<T: Analytic>(x: &T) -> T {
    let z = x.squared();
    const SERIES: [f64; 7] =
        [1.0 / 6_227_020_800.0, -1.0 / 39_916_800.0, 1.0 / 362_880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0, 1.0];
    T::choose(
        &x.abs().is(f64::INFINITY),
        || x.of(0.0),
        || T::choose(&x.abs().below(0.5), || polynomial(&z, &SERIES), || x.sin() / x.clone()),
    )
}

/// Return the Airy function.
pub fn airy_ai<T: Analytic>(x: &T) -> T {
    const HALF_ROOT: f64 = 0.5 * FRAC_2_SQRT_PI; // 1 / sqrt(pi)
    let a = x.abs();
    let zeta = a.clone() * a.sqrt() * (2.0 / 3.0);
    let z = zeta.inverse();
    let scale = x.of(HALF_ROOT) / a.sqrt().sqrt();
    let right = || {
        let amplitude = polynomial(&z, &AIRY_AN) / polynomial(&z, &AIRY_AD);
        scale.clone() * amplitude * (-zeta.clone()).exp() * 0.5
    };
    let left = || {
        let zz = z.squared();
        let f = zz.clone() * polynomial(&zz, &AIRY_AFN) / polynomial(&zz, &AIRY_AFD) + 1.0;
        let g = z.clone() * polynomial(&zz, &AIRY_AGN) / polynomial(&zz, &AIRY_AGD);
        let angle = zeta.clone() + FRAC_PI_4;
        scale.clone() * (angle.sin() * f - angle.cos() * g)
    };
    let middle = || {
        const F: [f64; 14] = cubic_series(1);
        const G: [f64; 14] = cubic_series(0);
        let cube = x.squared() * x.clone();
        // Ai(0) and -Ai'(0).
        polynomial(&cube, &F) * 0.355_028_053_887_817_2 - x.clone() * polynomial(&cube, &G) * 0.258_819_403_792_806_8
    };
    let y = T::choose(&x.below(-2.09), left, || T::choose(&x.below(2.09), middle, right));
    T::choose(&a.is(f64::INFINITY), || x.of(f64::NAN), || y.clone())
}
