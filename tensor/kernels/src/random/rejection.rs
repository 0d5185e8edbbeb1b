//! Samplers that draw until a proposal is accepted: Poisson, binomial, gamma and Dirichlet. They fill `out` in index
//! order, because PyTorch's results of these functions are new contiguous tensors.

use super::generator::Generator;
use super::order::{Offsets, for_float};
use crate::memory;
use crate::{DType, Element, KernelError, View, ViewMut};

unsafe extern "C" {
    /// Return the platform's logarithm of the gamma function.
    safe fn lgamma(x: f64) -> f64;
}

/// Return pairs of size and stride, as [`Offsets`] takes them.
fn pairs(sizes: &[usize], strides: &[usize]) -> Vec<(usize, usize)> {
    sizes.iter().copied().zip(strides.iter().copied()).collect()
}

/// Map every element of `x` to one of `out`, both of dtype `T`, in index order.
fn map<T: Element>(x: &View, out: &mut ViewMut, mut f: impl FnMut(T) -> T) {
    let (x_dims, out_dims) = (pairs(x.sizes(), x.strides()), pairs(out.sizes(), out.strides()));
    let (mut from, mut to) = (Offsets::new(&x_dims), Offsets::new(&out_dims));
    for _ in 0..x.numel() {
        // SAFETY: `from` and `to` step through the offsets of the elements of views of equal sizes.
        unsafe { out.ptr().cast::<T>().add(to.step()).write(f(x.ptr().cast::<T>().add(from.step()).read())) };
    }
}

/// Fill `out` with Poisson counts of the rates in `rate`, which has the same sizes and dtype.
///
/// # Errors
/// Fails if a rate is negative or the dtype is not floating.
pub fn poisson(g: &mut Generator, rate: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    let mut negative = false;
    for_float!(rate.dtype(), "poisson_cpu", T => map::<T>(rate, out, |rate| {
        let rate = rate.to_f64();
        negative |= !(rate >= 0.0);
        <T as Element>::from_i64(if rate > 0.0 { poisson_count(g, rate) } else { 0 })
    }));
    if negative {
        return Err(KernelError::Other("invalid Poisson rate, expected rate to be non-negative".into()));
    }
    Ok(())
}

/// Draw one count: Hoermann's transformed rejection for large rates, a product of uniform numbers for small ones.
fn poisson_count(g: &mut Generator, rate: f64) -> i64 {
    if rate < 10.0 {
        let limit = (-rate).exp();
        let (mut count, mut product) = (0, 1.0);
        loop {
            product *= g.next_f64();
            if product <= limit {
                return count;
            }
            count += 1;
        }
    }
    let root = rate.sqrt();
    let log_rate = rate.ln();
    let b = 0.931 + 2.53 * root;
    let a = -0.059 + 0.02483 * b;
    let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    let v_r = 0.9277 - 3.6224 / (b - 2.0);
    loop {
        let u = g.next_f64() - 0.5;
        let v = g.next_f64();
        let us = 0.5 - u.abs();
        let k = ((2.0 * a / us + b) * u + rate + 0.43).floor();
        if us >= 0.07 && v <= v_r {
            return k as i64;
        }
        if k < 0.0 || (us < 0.013 && v > us) {
            continue;
        }
        let bound = -rate + k * log_rate - lgamma(k + 1.0);
        if v.ln() + inverse_alpha.ln() - (a / (us * us) + b).ln() <= bound {
            return k as i64;
        }
    }
}

/// A dtype in which binomial counts are computed: products, quotients and logarithms are rounded to it.
trait Rounded: Element {
    /// Round to this dtype and convert back.
    fn round(v: f64) -> f64;
    /// Return `ln(1 + v)`.
    fn ln_1p(v: f64) -> f64;
}
impl Rounded for f64 {
    fn round(v: f64) -> f64 {
        v
    }
    fn ln_1p(v: f64) -> f64 {
        v.ln_1p()
    }
}
impl Rounded for f32 {
    fn round(v: f64) -> f64 {
        f64::from(v as f32)
    }
    fn ln_1p(v: f64) -> f64 {
        f64::from((v as f32).ln_1p())
    }
}

/// Fill `out` with the successes of `count` trials of probability `prob`. All have the same sizes and dtype, F32 or
/// F64.
///
/// A count or probability of zero or less gives zero. A probability of one or more gives `count`. NaN gives NaN.
///
/// # Errors
/// Fails for dtypes other than F32 and F64.
pub fn binomial(g: &mut Generator, count: &View, prob: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    match count.dtype() {
        DType::F64 => binomial_of::<f64>(g, count, prob, out),
        DType::F32 => binomial_of::<f32>(g, count, prob, out),
        other => {
            let name = other.scalar_type();
            return Err(KernelError::NotImplemented(format!("\"binomial_cpu\" not implemented for '{name}'")));
        }
    }
    Ok(())
}

fn binomial_of<T: Rounded>(g: &mut Generator, count: &View, prob: &View, out: &mut ViewMut) {
    let p_dims = pairs(prob.sizes(), prob.strides());
    let mut at = Offsets::new(&p_dims);
    map::<T>(count, out, |n| {
        // SAFETY: `at` steps through the offsets of the elements of `prob`, which has the sizes of `count`.
        let p = unsafe { prob.ptr().cast::<T>().add(at.step()).read() }.to_f64();
        let n = n.to_f64();
        let successes = if n <= 0.0 || p <= 0.0 {
            0.0
        } else if p >= 1.0 {
            n
        } else if p > 0.5 {
            n - successes::<T>(g, n, T::round(1.0 - p))
        } else if p.is_nan() || n.is_nan() {
            f64::NAN
        } else {
            successes::<T>(g, n, p)
        };
        <T as Element>::from_f64(successes)
    });
}

/// Return the difference between `ln k!` and Stirling's formula.
fn stirling_rest(k: f64) -> f64 {
    const FIRST: [f64; 10] = [
        0.0810614667953272,
        0.0413406959554092,
        0.0276779256849983,
        0.02079067210376509,
        0.0166446911898211,
        0.0138761288230707,
        0.0118967099458917,
        0.0104112652619720,
        0.00925546218271273,
        0.00833056343336287,
    ];
    if let Some(&known) = FIRST.get(k as usize).filter(|_| k < 10.0) {
        return known;
    }
    let square = (k + 1.0) * (k + 1.0);
    (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / square) / square) / (k + 1.0)
}

/// Draw the number of successes for a probability of at most one half. Uses Hoermann's transformed rejection for ten or
/// more expected successes, else the waiting times between successes.
fn successes<T: Rounded>(g: &mut Generator, n: f64, p: f64) -> f64 {
    let r = T::round;
    if r(n * p) < 10.0 {
        let log_failure = T::ln_1p(-p);
        let (mut waited, mut found) = (0.0, 0.0);
        loop {
            // The logarithm of zero gives an infinite waiting time.
            waited += (g.next_f64().ln() / log_failure).ceil();
            if waited > n {
                return found;
            }
            found = r(found + 1.0);
        }
    }
    let deviation = r(r(r(n * p) * r(1.0 - p)).sqrt());
    let b = 1.15 + 2.53 * deviation;
    let a = -0.0873 + 0.0248 * b + 0.01 * p;
    let centre = r(n * p) + 0.5;
    let v_r = 0.92 - 4.2 / b;
    let odds = r(p / r(1.0 - p));
    let alpha = (2.83 + 5.1 / b) * deviation;
    let mode = r(r(n + 1.0) * p).floor();
    loop {
        let u = g.next_f64() - 0.5;
        let v = g.next_f64();
        let us = 0.5 - u.abs();
        if us == 0.0 {
            continue;
        }
        let k = r(((2.0 * a / us + b) * u + centre).floor());
        if k < 0.0 || k > n {
            continue;
        }
        if us >= 0.07 && v <= v_r {
            return k;
        }
        let v = (v * alpha / (a / (us * us) + b)).ln();
        let left = r(r(n - k) + 1.0);
        let bound = (mode + 0.5) * ((mode + 1.0) / (odds * (n - mode + 1.0))).ln()
            + r(n + 1.0) * ((n - mode + 1.0) / left).ln()
            + (k + 0.5) * (odds * left / r(k + 1.0)).ln()
            + stirling_rest(mode)
            + stirling_rest(n - mode)
            - stirling_rest(k)
            - stirling_rest(r(n - k));
        if v <= bound {
            return k;
        }
    }
}

/// Fill `out` with gamma numbers of scale one and the shapes in `alpha`. Both have the same sizes and dtype, F32 or
/// F64.
///
/// # Errors
/// Fails for dtypes other than F32 and F64.
pub fn standard_gamma(g: &mut Generator, alpha: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    match alpha.dtype() {
        DType::F64 => map::<f64>(alpha, out, |alpha| {
            let (boost, shape) = boosted(g, alpha, |a| 1.0 / a, |a| a + 1.0);
            let d = shape - f64::from(1.0f32 / 3.0);
            if alpha == 0.0 { f64::MIN_POSITIVE } else { gamma(g, boost, d).max(f64::MIN_POSITIVE) }
        }),
        DType::F32 => map::<f32>(alpha, out, |alpha| {
            let (boost, shape) =
                boosted(g, f64::from(alpha), |a| f64::from(1.0 / a as f32), |a| f64::from(a as f32 + 1.0));
            let d = shape as f32 - 1.0f32 / 3.0;
            if alpha == 0.0 { f32::MIN_POSITIVE } else { (gamma(g, boost, f64::from(d)) as f32).max(f32::MIN_POSITIVE) }
        }),
        other => {
            let name = other.scalar_type();
            return Err(KernelError::NotImplemented(format!("\"gamma_cpu\" not implemented for '{name}'")));
        }
    }
    Ok(())
}

/// Sample a shape below one as the shape plus one, times a power of a uniform number. A shape of zero gives zero and
/// draws nothing.
fn boosted(g: &mut Generator, alpha: f64, inverse: impl Fn(f64) -> f64, plus_one: impl Fn(f64) -> f64) -> (f64, f64) {
    if alpha == 0.0 || !(alpha < 1.0) {
        return (1.0, alpha);
    }
    ((1.0 - g.next_f64()).powf(inverse(alpha)), plus_one(alpha))
}

/// Draw by Marsaglia and Tsang's method. The result is `scale * d * v`, multiplied from left to right. No product here
/// is fused.
fn gamma(g: &mut Generator, scale: f64, d: f64) -> f64 {
    let c = 1.0 / (9.0 * d).sqrt();
    let squeeze = f64::from(0.0331f32);
    loop {
        let (x, y) = loop {
            let x = g.next_normal();
            let y = 1.0 + c * x;
            // The loop must also end for a NaN shape.
            if !(y <= 0.0) {
                break (x, y);
            }
        };
        let v = y * y * y;
        let u = 1.0 - g.next_f64();
        let xx = x * x;
        if u < 1.0 - squeeze * xx * xx || u.ln() < 0.5 * xx + d * (1.0 - v + v.ln()) {
            return scale * d * v;
        }
    }
}

/// Fill `out` with rows that sum to one: gamma numbers of the shapes in `alpha`, in `f64`, divided by their sum. A row
/// is the last dimension. Both have the same sizes and dtype, F32 or F64.
///
/// # Errors
/// Fails for dtypes other than F32 and F64.
pub fn sample_dirichlet(g: &mut Generator, alpha: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    match alpha.dtype() {
        DType::F64 => dirichlet_of::<f64>(g, alpha, out, f64::MIN_POSITIVE, 1.0 - f64::EPSILON / 2.0),
        DType::F32 => {
            dirichlet_of::<f32>(g, alpha, out, f64::from(f32::MIN_POSITIVE), 1.0 - f64::from(f32::EPSILON) / 2.0);
        }
        other => {
            let name = other.scalar_type();
            return Err(KernelError::NotImplemented(format!("\"dirichlet\" not implemented for '{name}'")));
        }
    }
    Ok(())
}

/// Fill `out` for dtype `T`. Results are clamped to `least` and `most`: the smallest positive number, and the largest
/// below one.
fn dirichlet_of<T: Element>(g: &mut Generator, alpha: &View, out: &mut ViewMut, least: f64, most: f64) {
    let classes = alpha.sizes().last().copied().unwrap_or(1);
    let mut gammas = memory::with_capacity(alpha.numel());
    let dims = pairs(alpha.sizes(), alpha.strides());
    let mut at = Offsets::new(&dims);
    for _ in 0..alpha.numel() {
        // SAFETY: `at` steps through the offsets of the elements of `alpha`.
        let alpha = unsafe { alpha.ptr().cast::<T>().add(at.step()).read() }.to_f64();
        let (boost, shape) = boosted(g, alpha, |a| 1.0 / a, |a| a + 1.0);
        let d = shape - f64::from(1.0f32 / 3.0);
        gammas.push(if alpha == 0.0 { f64::MIN_POSITIVE } else { gamma(g, boost, d).max(f64::MIN_POSITIVE) });
    }
    let dims = pairs(out.sizes(), out.strides());
    let mut at = Offsets::new(&dims);
    for row in gammas.chunks(classes.max(1)) {
        let total = sum_in_lanes(row);
        for gamma in row {
            let y = <T as Element>::from_f64(gamma / total).to_f64();
            // SAFETY: `at` steps through the offsets of the elements of `out`, which has the sizes of `alpha`.
            unsafe { out.ptr().cast::<T>().add(at.step()).write(<T as Element>::from_f64(y.max(least).min(most))) };
        }
    }
}

/// Sum in the order of PyTorch's sums along a contiguous dimension of up to 256. Four sums take every fourth group of
/// four numbers. Then the leftover numbers are added, and then the lanes of the sums.
fn sum_in_lanes(x: &[f64]) -> f64 {
    let mut sums = [[0.0; 4]; 4];
    let whole = x.len() / 16;
    for (i, four) in x.chunks_exact(4).enumerate() {
        let sum = &mut sums[if i < whole * 4 { i % 4 } else { 0 }];
        sum.iter_mut().zip(four).for_each(|(s, v)| *s += v);
    }
    let [mut lanes, rest @ ..] = sums;
    for sum in rest {
        lanes.iter_mut().zip(sum).for_each(|(l, v)| *l += v);
    }
    x.chunks_exact(4).remainder().iter().chain(&lanes).fold(0.0, |total, v| total + v)
}

/// Fill `out` with [`dirichlet_slope`](crate::special::dirichlet_slope) of the elements of `x`, `alpha` and `total`.
/// All have the same sizes and dtype, F32 or F64.
///
/// # Errors
/// Fails for dtypes other than F32 and F64.
pub fn dirichlet_grad(x: &View, alpha: &View, total: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    match x.dtype() {
        DType::F64 => slopes::<f64>(x, alpha, total, out),
        DType::F32 => slopes::<f32>(x, alpha, total, out),
        other => {
            let name = other.scalar_type();
            return Err(KernelError::NotImplemented(format!("\"_dirichlet_grad_cpu\" not implemented for '{name}'")));
        }
    }
    Ok(())
}

fn slopes<T: Element>(x: &View, alpha: &View, total: &View, out: &mut ViewMut) {
    let (a_dims, t_dims) = (pairs(alpha.sizes(), alpha.strides()), pairs(total.sizes(), total.strides()));
    let (mut a_at, mut t_at) = (Offsets::new(&a_dims), Offsets::new(&t_dims));
    map::<T>(x, out, |x| {
        // SAFETY: the offsets are those of the elements of `alpha` and `total`, which have the sizes of `x`.
        let [a, total] = unsafe {
            [alpha.ptr().cast::<T>().add(a_at.step()).read(), total.ptr().cast::<T>().add(t_at.step()).read()]
        };
        <T as Element>::from_f64(crate::special::dirichlet_slope(&x.to_f64(), &a.to_f64(), &total.to_f64()))
    });
}
