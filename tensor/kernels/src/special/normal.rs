//! The scaled complementary error function, and functions of the normal distribution.

use super::tables::*;
use super::{Analytic, polynomial};
use std::f64::consts::FRAC_1_SQRT_2;

/// Return `e^(x^2) erfc(x)` by W. J. Cody's rational approximations.
pub fn erfcx<T: Analytic>(x: &T) -> T {
    const C: [f64; 9] = [
        2.153_115_354_744_038_3e-8,
        5.641_884_969_886_701e-1,
        8.883_149_794_388_377,
        66.119_190_637_141_63,
        298.635_138_197_400_1,
        881.952_221_241_769,
        1_712.047_612_634_070_7,
        2_051.078_377_826_071_6,
        1_230.339_354_797_997_2,
    ];
    const D: [f64; 9] = [
        1.0,
        15.744_926_110_709_835,
        117.693_950_891_312_5,
        537.181_101_862_009_9,
        1_621.389_574_566_690_3,
        3_290.799_235_733_459_7,
        4_362.619_090_143_247,
        3_439.367_674_143_721_6,
        1_230.339_354_803_749_5,
    ];
    const P: [f64; 6] = [
        1.631_538_713_730_209_8e-2,
        3.053_266_349_612_323_6e-1,
        3.603_448_999_498_044_5e-1,
        1.257_817_261_112_292_6e-1,
        1.608_378_514_874_227_5e-2,
        6.587_491_615_298_378e-4,
    ];
    const Q: [f64; 6] = [
        1.0,
        2.568_520_192_289_822,
        1.872_952_849_923_460_4,
        5.279_051_029_514_285e-1,
        6.051_834_131_244_132e-2,
        2.335_204_976_268_691_8e-3,
    ];
    const INVERSE_ROOT_PI: f64 = 0.5 * std::f64::consts::FRAC_2_SQRT_PI;
    let a = x.abs();
    let far = || {
        let z = a.squared().inverse();
        let r = z.clone() * polynomial(&z, &P) / polynomial(&z, &Q);
        (-r + INVERSE_ROOT_PI) / a.clone()
    };
    let y = T::choose(&a.above(4.0), far, || polynomial(&a, &C) / polynomial(&a, &D));
    let square = || x.squared().exp();
    T::choose(
        &a.below(0.468_75),
        || square() * x.erfc(),
        || T::choose(&x.below(0.0), || square() * 2.0 - y.clone(), || y.clone()),
    )
}

/// Return the logarithm of the normal distribution function.
pub fn log_ndtr<T: Analytic>(x: &T) -> T {
    let t = x.clone() * FRAC_1_SQRT_2;
    T::choose(&x.below(-1.0), || (erfcx(&-t.clone()) * 0.5).ln() - t.squared(), || (t.erfc() * -0.5).ln_1p())
}

/// Return the inverse of the normal distribution function.
pub fn ndtri<T: Analytic>(p: &T) -> T {
    const ROOT_2_PI: f64 = 2.506_628_274_631_000_7;
    const TAIL: f64 = 0.135_335_283_236_612_7; // e^-2
    let upper = p.above(1.0 - TAIL);
    let y = T::choose(&upper, || -p.clone() + 1.0, || p.clone());
    let centre = || {
        let d = y.clone() - 0.5;
        let z = d.squared();
        (d.clone() + d * z.clone() * polynomial(&z, &NDTRI_P0) / polynomial(&z, &NDTRI_Q0)) * ROOT_2_PI
    };
    let tail = || {
        let x = (y.ln() * -2.0).sqrt();
        let z = x.inverse();
        let rest = T::choose(
            &x.below(8.0),
            || polynomial(&z, &NDTRI_P1) / polynomial(&z, &NDTRI_Q1),
            || polynomial(&z, &NDTRI_P2) / polynomial(&z, &NDTRI_Q2),
        );
        let x = x.clone() - x.ln() / x - z * rest;
        T::choose(&upper, || x.clone(), || -x.clone())
    };
    let x = T::choose(&y.above(TAIL), centre, tail);
    let outside = T::either(&p.below(0.0), &p.above(1.0));
    let x = T::choose(&outside, || p.of(f64::NAN), || x.clone());
    let x = T::choose(&p.is(0.0), || p.of(f64::NEG_INFINITY), || x.clone());
    T::choose(&p.is(1.0), || p.of(f64::INFINITY), || x.clone())
}
