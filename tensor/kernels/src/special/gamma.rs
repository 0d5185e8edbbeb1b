//! The incomplete gamma functions, the derivatives of gamma and Dirichlet draws by their parameters, and the Hurwitz
//! zeta function.

use super::{Analytic, polynomial, single};
use std::f64::consts::PI;

/// Largest number of terms of a series, or steps of a fraction.
const STEPS: f64 = 20_000.0;

/// Return `x^a e^-x / Gamma(a + 1)`, without the cancellation between large powers.
fn density<T: Analytic>(a: &T, x: &T) -> T {
    // Stirling's series for ln Gamma(a), without its main part.
    const STIRLING: [f64; 8] = [
        -3_617.0 / 122_400.0,
        1.0 / 156.0,
        -691.0 / 360_360.0,
        1.0 / 1_188.0,
        -1.0 / 1_680.0,
        1.0 / 1_260.0,
        -1.0 / 360.0,
        1.0 / 12.0,
    ];
    let large = || {
        let z = a.inverse();
        let correction = z.clone() * polynomial(&z.squared(), &STIRLING);
        let u = (x.clone() - a.clone()) / a.clone();
        let exponent = (u.ln_1p() - u) * a.clone() - correction;
        exponent.exp() / (a.clone() * (2.0 * PI)).sqrt()
    };
    let small = || (x.ln() * a.clone() - x.clone() - (a.clone() + 1.0).lgamma()).exp();
    T::choose(&a.above(12.0), large, small)
}

/// Return the lower function by its power series, for `x` below about `a + 1`.
fn series<T: Analytic>(a: &T, x: &T) -> T {
    let eps = a.epsilon() * 0.25;
    let [sum, _, _] = T::repeat(
        [a.of(1.0), a.of(1.0), a.of(0.0)],
        |[sum, term, k]| T::both(&(sum.clone() * eps).less(term), &k.below(STEPS)),
        |[sum, term, k]| {
            let k = k + 1.0;
            let term = term * x.clone() / (a.clone() + k.clone());
            [sum + term.clone(), term, k]
        },
    );
    density(a, x) * sum
}

/// Return the upper function by its continued fraction, for `x` above about `a + 1`.
fn fraction<T: Analytic>(a: &T, x: &T) -> T {
    let eps = a.epsilon() * 0.5;
    let b = x.clone() - a.clone() + 1.0;
    let start = b.inverse();
    // State of Lentz's method: the value, its two ratios, the last change and the step.
    let tiny = 1e-30;
    let [h, ..] = T::repeat(
        [start.clone(), a.of(1.0 / tiny), start, a.of(2.0), a.of(0.0)],
        |[_, _, _, change, k]| T::both(&(change.clone() - 1.0).abs().above(eps), &k.below(STEPS)),
        |[h, c, d, _, k]| {
            let k = k + 1.0;
            let an = k.clone() * (a.clone() - k.clone());
            let b = b.clone() + k.clone() * 2.0;
            let d = an.clone() * d + b.clone();
            let d = T::choose(&d.is(0.0), || d.of(tiny), || d.clone()).inverse();
            let c = an / c + b;
            let c = T::choose(&c.is(0.0), || c.of(tiny), || c.clone());
            let change = c.clone() * d.clone();
            [h * change.clone(), c, d, change, k]
        },
    );
    h * density(a, x) * a.clone()
}

/// Return `ln Gamma(1 + a)`, exact near zero.
fn lgamma_1p<T: Analytic>(a: &T) -> T {
    // zeta(k) (-1)^k / k, and Euler's constant.
    const SERIES: [f64; 14] = [
        0.071_432_946_295_361_34,
        -0.076_932_516_411_352_2,
        0.083_353_840_546_109,
        -0.090_954_017_145_829_04,
        0.100_099_457_512_781_79,
        -0.111_334_265_869_564_69,
        0.125_509_669_524_743_04,
        -0.144_049_896_768_846_14,
        0.169_557_176_997_408_22,
        -0.207_385_551_028_674,
        0.270_580_808_427_784_54,
        -0.400_685_634_386_531_43,
        0.822_467_033_424_113_2,
        -0.577_215_664_901_532_9,
    ];
    T::choose(&a.below(0.1), || a.clone() * polynomial(a, &SERIES), || (a.clone() + 1.0).lgamma())
}

/// Return the upper function for small `x`, where one minus the lower function would cancel.
fn small<T: Analytic>(a: &T, x: &T) -> T {
    let eps = a.epsilon() * 0.25;
    // The sum over k >= 1 of (-x)^k / (k! (a + k)).
    let [sum, _, _] = T::repeat(
        [a.of(0.0), a.of(1.0), a.of(0.0)],
        |[sum, term, k]| {
            let live = T::either(&(sum.abs() * eps).less(&term.abs()), &k.below(2.0));
            T::both(&live, &k.below(200.0))
        },
        |[sum, term, k]| {
            let k = k + 1.0;
            let term = -term * x.clone() / k.clone();
            [sum + term.clone() / (a.clone() + k.clone()), term, k]
        },
    );
    let t = x.ln() * a.clone() - lgamma_1p(a);
    -t.exp_m1() - t.exp() * a.clone() * sum
}

/// Return the upper function by Temme's expansion, for large `a` and `x` near `a`.
fn uniform<T: Analytic>(a: &T, x: &T) -> T {
    // The first terms of the series in eta of the expansion's coefficient functions.
    const C0: [f64; 8] = [
        -1.0 / 3.0,
        1.0 / 12.0,
        -2.0 / 135.0,
        1.0 / 864.0,
        1.0 / 2_835.0,
        -139.0 / 777_600.0,
        1.0 / 25_515.0,
        -571.0 / 261_273_600.0,
    ];
    const C1: [f64; 5] = [-1.0 / 540.0, -1.0 / 288.0, 1.0 / 378.0, -77.0 / 77_760.0, 1.0 / 4_860.0];
    const C2: [f64; 3] = [25.0 / 6_048.0, -139.0 / 51_840.0, 1.0 / 1_296.0];
    let rising = |c: &[f64], z: &T| c.iter().rev().fold(z.of(0.0), |y, &c| y * z.clone() + c);
    let u = (x.clone() - a.clone()) / a.clone();
    // eta^2 / 2 = u - ln(1 + u), computed by its series because u is small.
    const TERMS: usize = 24;
    let half = (2..2 + TERMS).rev().fold(u.of(0.0), |y, k| {
        let c = if k % 2 == 0 { 1.0 } else { -1.0 } / k as f64;
        y * u.clone() + c
    });
    let eta = u.clone() * (half * 2.0).sqrt();
    let z = a.inverse();
    let sum = rising(&C0, &eta) + z.clone() * (rising(&C1, &eta) + z * rising(&C2, &eta));
    let normal = (eta.clone() * (a.clone() * 0.5).sqrt()).erfc() * 0.5;
    let bell = (-(a.clone() * eta.squared()) * 0.5).exp() / (a.clone() * (2.0 * PI)).sqrt();
    normal + bell * sum
}

/// Return the upper or lower function, choosing the method by `a` and `x`.
fn incomplete<T: Analytic>(a: &T, x: &T, upper: bool) -> T {
    let lower = |y: T| if upper { -y + 1.0 } else { y };
    let upwards = |y: T| if upper { y } else { -y + 1.0 };
    // Near a large `a`, the series and the fraction would take thousands of steps.
    let near = T::both(&a.above(2e4), &((x.clone() - a.clone()).abs() / a.clone()).below(0.1));
    let half = x.below(0.5);
    let beyond = x.above(1.1);
    let by_series = T::choose_truth(
        &beyond,
        &x.less(a),
        &T::choose_truth(&half, &(x.ln() * a.clone()).below(-0.4), &(x.clone() * 1.1).less(a)),
    );
    // A compiled program computes every method for every element. Elements of other methods get arguments that take few
    // steps.
    let within = |region: &T::Truth, way: &dyn Fn(&T, &T) -> T| {
        let one = |v: &T| T::choose(region, || v.clone(), || v.of(1.0));
        way(&one(a), &one(x))
    };
    let y = T::choose(
        &near,
        || within(&near, &|a, x| upwards(uniform(a, x))),
        || {
            let here = T::both(&by_series, &T::not(&near));
            T::choose(
                &here,
                || within(&here, &|a, x| lower(series(a, x))),
                || {
                    let far = T::both(&beyond, &T::both(&T::not(&by_series), &T::not(&near)));
                    let close = T::both(&T::not(&beyond), &T::not(&by_series));
                    T::choose(
                        &beyond,
                        || within(&far, &|a, x| upwards(fraction(a, x))),
                        || within(&close, &|a, x| upwards(small(a, x))),
                    )
                },
            )
        },
    );
    let (none, all) = if upper { (1.0, 0.0) } else { (0.0, 1.0) };
    let infinite = |v: &T| v.is(f64::INFINITY);
    let y = T::choose(&infinite(x), || x.of(all), || y.clone());
    let y = T::choose(&infinite(a), || x.of(none), || y.clone());
    let y = T::choose(&x.is(0.0), || x.of(none), || y.clone());
    let y = T::choose(&a.is(0.0), || x.of(all), || y.clone());
    let unknown = |v: &T| T::not(&T::either(&v.below(1.0), &v.above(0.0)));
    let undefined = T::either(
        &T::either(&x.below(0.0), &a.below(0.0)),
        &T::either(
            &T::either(&T::both(&x.is(0.0), &a.is(0.0)), &T::both(&infinite(x), &infinite(a))),
            &T::either(&T::both(&unknown(x), &a.is(0.0)), &T::both(&unknown(x), &unknown(a))),
        ),
    );
    T::choose(&undefined, || x.of(f64::NAN), || y.clone())
}

/// Return the regularised lower incomplete gamma function `P(a, x)`.
pub fn igamma<T: Analytic>(a: &T, x: &T) -> T {
    incomplete(a, x, false)
}

/// Return the regularised upper incomplete gamma function `Q(a, x)`.
pub fn igammac<T: Analytic>(a: &T, x: &T) -> T {
    incomplete(a, x, true)
}

/// Return the sum of `c_k g_k` over `k >= 0`, starting with `c_0 = c` and `g_0 = gap`. For each `k`, `next` returns the
/// factor that `c` is multiplied by, and the term that is added to `g`.
///
/// The factors `c_k` grow before they fall, and `g_k` may change its sign at the largest factors. So the sum ends when
/// the factors fall and a bound on the next term would not change it.
fn weighted_sum<T: Analytic>(c: &T, gap: &T, next: impl Fn(&T) -> (T, T)) -> T {
    let eps = c.epsilon() * 0.25;
    let [sum, ..] = T::repeat(
        [c.clone() * gap.clone(), c.clone(), gap.clone(), c.of(2.0), c.of(0.0)],
        |[sum, c, gap, ratio, k]| {
            let size = c.clone() * (gap.abs() + 1.0);
            let live = T::either(&(sum.abs() * eps).less(&size), &ratio.above(1.0));
            T::both(&live, &k.below(STEPS))
        },
        |[sum, c, gap, _, k]| {
            let k = k + 1.0;
            let (ratio, more) = next(&k);
            let (c, gap) = (c * ratio.clone(), gap + more);
            [sum + c.clone() * gap.clone(), c, gap, ratio, k]
        },
    );
    sum
}

/// Return how fast a number `x` of the gamma distribution of shape `a` moves with `a` at a fixed quantile: minus the
/// derivative of `P(a, x)` by `a`, divided by the one by `x`. Computed in `f64`.
pub fn gamma_slope<T: Analytic>(a: &T, x: &T) -> T {
    let large = a.above(1e4);
    let series = || {
        let (a, x) = (T::choose(&large, || a.of(1.0), || a.clone()), T::choose(&large, || a.of(1.0), || x.clone()));
        // Terms of the power series of P divided by the density, x^(k + 1) / (a (a + 1) .. (a + k)), times the
        // derivative of their logarithm.
        let gap = single::digamma(&(a.clone() + 1.0)) - x.ln();
        let sum = weighted_sum(&a.inverse(), &gap, |k| {
            let place = (a.clone() + k.clone()).inverse();
            (x.clone() * place.clone(), place)
        });
        x.clone() * sum
    };
    // The signed root of the deviance of x stays constant: the first two terms of the expansion in 1 / a.
    let expansion = || {
        let u = (x.clone() - a.clone()) / a.clone();
        let log = T::choose(&u.is(0.0), || u.of(1.0), || u.ln_1p() / u.clone());
        (u.clone() + 1.0) * log + (u * (1.0 / 12.0) + 1.0 / 6.0) / a.clone()
    };
    let y = T::choose(&large, expansion, series);
    T::choose(&x.is(0.0), || x.of(0.0), || y.clone())
}

/// Return how fast an entry `x` of a Dirichlet draw moves with its concentration `a`, divided by `1 - x`. The
/// concentrations sum to `total`. The entry has the beta distribution of `a` and `total - a`, and moves like the number
/// of [`gamma_slope`]. Computed in `f64`.
pub fn dirichlet_slope<T: Analytic>(x: &T, a: &T, total: &T) -> T {
    let b = total.clone() - a.clone();
    let large = T::both(&a.above(1e6), &b.above(1e6));
    let series = || {
        let safe = |v: &T, otherwise: f64| T::choose(&large, || v.of(otherwise), || v.clone());
        let (x, a, b, total) = (safe(x, 0.5), safe(a, 1.0), safe(&b, 1.0), safe(total, 2.0));
        let gap = x.ln() - single::digamma(&a) + single::digamma(&total);
        // Use the power series in x of the distribution function, or the one in 1 - x of its complement.
        let lower = T::not(&x.above(0.5));
        let of = |low: T, high: T| T::choose(&lower, || low.clone(), || high.clone());
        let (s, c) = (of(x.clone(), -x.clone() + 1.0), of(a.clone(), b.clone()));
        let first = of(x.of(1.0), x.of(0.0));
        let gap = gap - first.clone() / a.clone();
        let sum = weighted_sum(&c.inverse(), &gap, |k| {
            let before = total.clone() + (k.clone() - 1.0);
            let place = c.clone() + k.clone();
            (s.clone() * before.clone() / place.clone(), before.inverse() - first.clone() / place)
        });
        x.clone() * of(-sum.clone(), sum)
    };
    // The signed root of the deviance of x stays constant: the first term of the expansion.
    let expansion = || {
        let w = (a.clone() / total.clone() - x.clone()) / x.clone();
        T::choose(&w.is(0.0), || w.of(1.0), || w.ln_1p() / w.clone()) / total.clone()
    };
    T::choose(&large, expansion, series)
}

/// Return the Hurwitz zeta function, the sum over `k >= 0` of `(q + k)^-s`: some terms, and the remainder by the
/// Euler-Maclaurin formula.
pub fn zeta<T: Analytic>(s: &T, q: &T) -> T {
    // Factorials of even numbers divided by Bernoulli numbers.
    const RATIOS: [f64; 12] = [
        12.0,
        -720.0,
        30_240.0,
        -1_209_600.0,
        47_900_160.0,
        -1.892_437_580_318_379e9,
        7.472_424_96e10,
        -2.950_130_727_918_164e12,
        1.164_678_281_435_006_8e14,
        -4.597_978_722_407_472e15,
        1.815_210_540_194_354_7e17,
        -7.166_165_256_175_667e18,
    ];
    let eps = s.epsilon() * 0.5;
    let minus = -s.clone();
    let term = |w: &T| {
        // The exponent of a negative base is an integer here, and its parity gives the sign.
        let even = (s.clone() * 0.5).floor().same(&(s.clone() * 0.5));
        let size = w.abs().pow(&minus);
        T::choose(&T::both(&w.below(0.0), &T::not(&even)), || -size.clone(), || size.clone())
    };
    // Far left of zero, the sum starts near zero. The skipped terms are the difference of two sums given by the
    // Euler-Maclaurin formula.
    let far = q.below(-64.0);
    let part = q.clone() - q.floor();
    let from = T::choose(&far, || part.clone() - 32.0, || q.clone());
    let first = term(&from);
    let [sum, w, last, _] = T::repeat(
        [first, from.clone(), q.of(f64::INFINITY), q.of(0.0)],
        |[sum, w, last, k]| {
            // `w` is NaN for an infinite `q`, and `NaN^0` is 1, so a loop that runs until `w > 9` would not end.
            let more = T::either(&k.below(9.0), &T::either(&w.below(9.0), &w.is(9.0)));
            T::both(&more, &(sum.abs() * eps).less(&last.abs()))
        },
        |[sum, w, _, k]| {
            let w = w + 1.0;
            let last = term(&w);
            [sum + last.clone(), w, last, k + 1.0]
        },
    );
    // The sum of the terms after `last`, which is `w^-s`, minus half of `last`.
    let after = |w: &T, last: &T| {
        let mut y = last.clone() * w.clone() / (s.clone() - 1.0) - last.clone() * 0.5;
        let (mut rising, mut power) = (s.clone(), last.clone() / w.clone());
        for (i, ratio) in RATIOS.iter().enumerate() {
            y = y + rising.clone() * power.clone() / *ratio;
            let k = 2.0 * i as f64 + 1.0;
            rising = rising * (s.clone() + k) * (s.clone() + (k + 1.0));
            power = power / w.squared();
        }
        y
    };
    let rest = || sum.clone() + after(&w, &last);
    let y = T::choose(&(sum.abs() * eps).less(&last.abs()), rest, || sum.clone());
    let skipped = || {
        let all = |w: &T| {
            let first = w.pow(&minus);
            after(w, &first) + first.clone()
        };
        let size = all(&(-from.clone() + 1.0)) - all(&(-q.clone() + 1.0));
        let even = (s.clone() * 0.5).floor().same(&(s.clone() * 0.5));
        T::choose(&even, || size.clone(), || -size.clone())
    };
    let y = T::choose(&far, || y.clone() + skipped(), || y.clone());
    let whole = |v: &T| v.floor().same(v);
    let left = T::not(&q.above(0.0));
    let y = T::choose(&T::both(&left, &T::not(&whole(s))), || q.of(f64::NAN), || y.clone());
    let y = T::choose(&T::both(&left, &whole(q)), || q.of(f64::INFINITY), || y.clone());
    let y = T::choose(&s.above(1.0), || y.clone(), || q.of(f64::NAN));
    T::choose(&s.is(1.0), || q.of(f64::INFINITY), || y.clone())
}
