//! Samplers that draw until something fits: Poisson and gamma. `out` is filled in index order, as PyTorch's results of
//! these functions are new contiguous tensors.

use super::generator::Generator;
use super::order::{Offsets, for_float};
use crate::{DType, Element, KernelError, View, ViewMut};

unsafe extern "C" {
    /// The platform's logarithm of the gamma function.
    safe fn lgamma(x: f64) -> f64;
}

/// Maps every element of `x` to one of `out`, both of dtype `T`, in index order.
fn map<T: Element>(x: &View, out: &mut ViewMut, mut f: impl FnMut(T) -> T) {
    let dims = |sizes: &[usize], strides: &[usize]| -> Vec<(usize, usize)> {
        sizes.iter().copied().zip(strides.iter().copied()).collect()
    };
    let (x_dims, out_dims) = (dims(x.sizes(), x.strides()), dims(out.sizes(), out.strides()));
    let (mut from, mut to) = (Offsets::new(&x_dims), Offsets::new(&out_dims));
    for _ in 0..x.numel() {
        // SAFETY: the offsets are those of the elements of views of the same sizes.
        unsafe { out.ptr().cast::<T>().add(to.step()).write(f(x.ptr().cast::<T>().add(from.step()).read())) };
    }
}

/// Fills `out` with Poisson counts of the rates in `rate`, which has the same sizes and dtype.
///
/// # Errors
/// When a rate is negative or the dtype is not floating.
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

/// One count: Hoermann's transformed rejection for large rates, a product of uniforms for small ones.
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

/// Fills `out` with gamma numbers of the shapes in `alpha` and scale one; same sizes and dtype, F32 or F64.
///
/// # Errors
/// When the dtype is another.
pub fn standard_gamma(g: &mut Generator, alpha: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    match alpha.dtype() {
        DType::F64 => map::<f64>(alpha, out, |alpha| {
            let (boost, alpha) = boosted(g, alpha, |a| 1.0 / a, |a| a + 1.0);
            let d = alpha - f64::from(1.0f32 / 3.0);
            if alpha == 0.0 { f64::MIN_POSITIVE } else { gamma(g, boost, d).max(f64::MIN_POSITIVE) }
        }),
        DType::F32 => map::<f32>(alpha, out, |alpha| {
            let (boost, alpha) =
                boosted(g, f64::from(alpha), |a| f64::from(1.0 / a as f32), |a| f64::from(a as f32 + 1.0));
            let d = alpha as f32 - 1.0f32 / 3.0;
            if alpha == 0.0 { f32::MIN_POSITIVE } else { (gamma(g, boost, f64::from(d)) as f32).max(f32::MIN_POSITIVE) }
        }),
        other => {
            let name = other.scalar_type();
            return Err(KernelError::Other(format!("\"gamma\" not implemented for '{name}'")));
        }
    }
    Ok(())
}

/// A shape below one is sampled as that shape plus one times a power of a uniform; zero stays zero and draws nothing.
fn boosted(g: &mut Generator, alpha: f64, inverse: impl Fn(f64) -> f64, plus_one: impl Fn(f64) -> f64) -> (f64, f64) {
    if alpha == 0.0 || alpha >= 1.0 {
        return (1.0, alpha);
    }
    ((1.0 - g.next_f64()).powf(inverse(alpha)), plus_one(alpha))
}

/// Marsaglia and Tsang's method; the result is `scale * d * v`, left to right. No product here is fused.
fn gamma(g: &mut Generator, scale: f64, d: f64) -> f64 {
    let c = 1.0 / (9.0 * d).sqrt();
    let squeeze = f64::from(0.0331f32);
    loop {
        let (x, y) = loop {
            let x = g.next_normal();
            let y = 1.0 + c * x;
            if y > 0.0 {
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
