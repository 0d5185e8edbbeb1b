//! Steps of samplers that draw until a proposal is accepted, for generators that give each element its own stream.
//!
//! A step computes a number from two uniform numbers in `(0, 1)`. NaN means that the proposal is rejected, and that the
//! next two numbers are to be tried.

use super::{Analytic, ndtri};

/// Return the difference between `ln k!` and Stirling's formula for `k >= 1`, by Stieltjes' continued fraction. The
/// error is 6e-6 at one, and 1e-8 from two on. A program with `lgamma` instead would keep a TPU's compiler busy for up
/// to two minutes in `f64`.
fn stirling_rest<T: Analytic>(k: &T) -> T {
    const STIELTJES: [f64; 7] = [
        1.0 / 12.0,
        1.0 / 30.0,
        53.0 / 210.0,
        195.0 / 371.0,
        22_999.0 / 22_737.0,
        29_944_523.0 / 19_733_142.0,
        109_535_241_009.0 / 48_264_275_462.0,
    ];
    let rest = STIELTJES[1..].iter().rev().fold(k.of(0.0), |rest, &c| k.of(c) / (k.clone() + rest));
    k.of(STIELTJES[0]) / (k.clone() + rest)
}

/// Return `x ln(x / mean) + mean - x` for `x > 0`, without the cancellation between the terms.
fn deviance<T: Analytic>(x: &T, mean: &T) -> T {
    let t = (mean.clone() - x.clone()) / x.clone();
    (t.clone() - t.ln_1p()) * x.clone()
}

/// Return `value` where `fits` holds, else NaN.
fn if_fits<T: Analytic>(fits: &T::Truth, value: T) -> T {
    T::choose(fits, || value.clone(), || value.of(f64::NAN))
}

/// Propose a gamma number of shape `a >= 1`, by Marsaglia and Tsang's method.
pub fn gamma_proposal<T: Analytic>(a: &T, u: &T, v: &T) -> T {
    let z = ndtri(u);
    let d = a.clone() - 1.0 / 3.0;
    let y = z.clone() / (d.clone() * 9.0).sqrt() + 1.0;
    let positive = y.above(0.0);
    let y = T::choose(&positive, || y.clone(), || y.of(1.0));
    let cube = y.squared() * y.clone();
    let bound = z.squared() * 0.5 + d.clone() * (-cube.clone() + 1.0 + y.ln() * 3.0);
    if_fits(&T::both(&positive, &v.ln().less(&bound)), d * cube)
}

/// Means below this are counted up. Larger ones use transformed rejection.
const MANY: f64 = 10.0;

/// Count up from zero until the summed probabilities of the counts reach `u`. `none` is the probability of zero. `next`
/// returns the quotient of a probability and the one before.
fn count_up<T: Analytic>(none: &T, u: &T, next: impl Fn(&T) -> T) -> T {
    let [count, ..] = T::repeat(
        [u.of(0.0), none.clone(), none.clone()],
        |[count, p, sum]| {
            // The sum of all probabilities may stay below a uniform number near one. Stop when further terms are
            // negligible.
            let more = T::either(&count.below(MANY), &p.above(1e-12));
            T::both(&T::both(&sum.less(u), &more), &count.below(1e4))
        },
        |[count, p, sum]| {
            let count = count + 1.0;
            let p = p * next(&count);
            [count, p.clone(), sum + p]
        },
    );
    count
}

/// Return the proposal of Hoermann's transformed rejection, and the bound that the logarithm of the count's probability
/// must exceed, without `ln(alpha)`.
fn transformed<T: Analytic>(centre: &T, a: &T, b: &T, u: &T, v: &T) -> (T, T) {
    let u = u.clone() - 0.5;
    let us = -u.abs() + 0.5;
    let k = ((a.clone() * 2.0 / us.clone() + b.clone()) * u + centre.clone()).floor();
    (k, (v.clone() / (a.clone() / us.squared() + b.clone())).ln())
}

/// Propose a Poisson count of the given rate.
pub fn poisson_proposal<T: Analytic>(rate: &T, u: &T, v: &T) -> T {
    let many = T::not(&rate.below(MANY));
    let few = || {
        let rate = T::choose(&many, || rate.of(1.0), || rate.clone());
        count_up(&(-rate.clone()).exp(), u, |k| rate.clone() / k.clone())
    };
    let large = || {
        let rate = T::choose(&many, || rate.clone(), || rate.of(MANY));
        let b = rate.sqrt() * 2.53 + 0.931;
        let a = b.clone() * 0.02483 - 0.059;
        let inverse_alpha = (b.clone() - 3.4).inverse() * 1.1328 + 1.1239;
        let (k, level) = transformed(&(rate.clone() + 0.43), &a, &b, u, v);
        let positive = k.above(0.0);
        let some = T::choose(&positive, || k.clone(), || k.of(1.0));
        let log = -deviance(&some, &rate) - (some.clone() * std::f64::consts::TAU).ln() * 0.5 - stirling_rest(&some);
        let log = T::choose(&positive, || log.clone(), || -rate.clone());
        let fits = T::both(&T::not(&k.below(0.0)), &T::not(&log.less(&(level + inverse_alpha.ln()))));
        if_fits(&fits, k)
    };
    T::choose(&many, large, few)
}

/// Return the logarithm of the probability of `k` successes in `n` trials of probability `p`.
fn log_binomial<T: Analytic>(n: &T, p: &T, k: &T) -> T {
    let (none, all) = (T::not(&k.above(0.0)), T::not(&k.less(n)));
    let inner = T::not(&T::either(&none, &all));
    // Replace other counts by a valid one, so that no branch gives NaN.
    let (n1, k1) = (T::choose(&inner, || n.clone(), || n.of(2.0)), T::choose(&inner, || k.clone(), || k.of(1.0)));
    let rest = n1.clone() - k1.clone();
    let q = -p.clone() + 1.0;
    let log = stirling_rest(&n1)
        - stirling_rest(&k1)
        - stirling_rest(&rest)
        - deviance(&k1, &(n1.clone() * p.clone()))
        - deviance(&rest, &(n1.clone() * q))
        - (k1 * rest / n1 * std::f64::consts::TAU).ln() * 0.5;
    let log = T::choose(&none, || n.clone() * (-p.clone()).ln_1p(), || log.clone());
    T::choose(&all, || n.clone() * p.ln(), || log.clone())
}

/// Propose the number of successes in `n` trials of probability `p`, at most one half.
pub fn binomial_proposal<T: Analytic>(n: &T, p: &T, u: &T, v: &T) -> T {
    let many = T::not(&(n.clone() * p.clone()).below(MANY));
    let few = || {
        let (n, p) = (T::choose(&many, || n.of(1.0), || n.clone()), T::choose(&many, || n.of(0.25), || p.clone()));
        let odds = p.clone() / (-p.clone() + 1.0);
        count_up(&(n.clone() * (-p).ln_1p()).exp(), u, |k| (n.clone() + 1.0 - k.clone()) / k.clone() * odds.clone())
    };
    let large = || {
        let (n, p) = (T::choose(&many, || n.clone(), || n.of(40.0)), T::choose(&many, || p.clone(), || n.of(0.5)));
        let deviation = (n.clone() * p.clone() * (-p.clone() + 1.0)).sqrt();
        let b = deviation.clone() * 2.53 + 1.15;
        let a = b.clone() * 0.0248 + p.clone() * 0.01 - 0.0873;
        let alpha = (b.inverse() * 5.1 + 2.83) * deviation;
        let (k, level) = transformed(&(n.clone() * p.clone() + 0.5), &a, &b, u, v);
        let inside = T::not(&T::either(&k.below(0.0), &n.less(&k)));
        let k1 = T::choose(&inside, || k.clone(), || k.of(0.0));
        let mode = ((n.clone() + 1.0) * p.clone()).floor();
        let bound = log_binomial(&n, &p, &k1) - log_binomial(&n, &p, &mode);
        if_fits(&T::both(&inside, &T::not(&bound.less(&(level + alpha.ln())))), k)
    };
    T::choose(&many, large, few)
}
