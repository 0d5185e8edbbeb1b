//! Normal numbers truncated to an interval, by the rejection of `torch.nn.init.trunc_normal_`.

use super::generator::Generator;
use super::order::{fill, for_float};
use super::{normal, uniform};
use crate::memory;
use crate::{DType, Element, KernelError, ViewMut};

unsafe extern "C" {
    /// Return the platform's error function.
    safe fn erf(x: f64) -> f64;
}

/// Fill with normal numbers inside [`a`, `b`]. Each round redraws the whole tensor and uses it for the elements that
/// are still missing.
///
/// # Errors
/// Fails unless `std` is positive, `a < b`, and the dtype is floating.
pub fn trunc_normal_(
    g: &mut Generator,
    out: &mut ViewMut,
    mean: f64,
    std: f64,
    a: f64,
    b: f64,
) -> Result<(), KernelError> {
    if !(std > 0.0) {
        return Err(KernelError::Other(format!("normal expects std > 0.0, but found std {std}")));
    }
    if !(a < b) {
        return Err(KernelError::Other(format!("trunc_normal_ expects a < b, but got a={a} and b={b}")));
    }
    let cdf = |x: f64| (1.0 + erf(x / std::f64::consts::SQRT_2)) / 2.0;
    let mass = cdf((b - mean) / std) - cdf((a - mean) / std);
    let (n, contiguous) = (out.numel(), out.is_contiguous());
    for_float!(out.dtype(), "trunc_normal_", T => {
        let drawn: Vec<T> = if mass > 0.3 {
            by_normals(g, n, contiguous, mean, std, a, b)
        } else {
            by_uniforms(g, n, mean, std, a, b)
        };
        let mut rest = drawn.as_slice();
        fill::<T>(out, |run| {
            let (now, later) = rest.split_at(run.len());
            run.copy_from_slice(now);
            rest = later;
        });
    });
    Ok(())
}

/// Draw normal numbers until they are inside. Used if the interval holds much of the mass.
fn by_normals<T: Element + PartialOrd>(
    g: &mut Generator,
    n: usize,
    contiguous: bool,
    mean: f64,
    std: f64,
    a: f64,
    b: f64,
) -> Vec<T> {
    let (low, high) = (<T as Element>::from_f64(a), <T as Element>::from_f64(b));
    let outside = |v: T| v < low || v > high;
    let mut drawn = memory::filled(T::default(), n);
    normal::fill_slice(g, &mut drawn, contiguous, mean, std);
    let mut again = drawn.clone();
    while drawn.iter().any(|&v| outside(v)) {
        normal::fill_slice(g, &mut again, contiguous, mean, std);
        for (v, &w) in drawn.iter_mut().zip(&again) {
            if outside(*v) {
                *v = w;
            }
        }
    }
    drawn
}

/// Draw uniform numbers on the interval, accepted with the density relative to its peak. Used for other intervals.
fn by_uniforms<T: Element>(g: &mut Generator, n: usize, mean: f64, std: f64, a: f64, b: f64) -> Vec<T> {
    let mode = a.max(b.min(mean));
    let peak = -0.5 * ((mode - mean) / std) * ((mode - mean) / std);
    // Each step is one tensor op in PyTorch, so each rounds to the dtype.
    let round = |v: f64| <T as Element>::from_f64(v).to_f64();
    let step = |x: f64, op: fn(f64, f64) -> f64, y: f64| match T::DTYPE {
        DType::F64 => op(x, y),
        // The scalar is rounded to `f32`. An `f64` operation on two `f32` then rounds like an `f32` operation.
        _ => round(f64::from(op(x, f64::from(y as f32)) as f32)),
    };
    let log_density = |v: T| {
        let c = step(v.to_f64(), |x, y| x - y, mean);
        let c = step(c, |x, y| x / y, std);
        let c = step(c, |x, y| x * y, c);
        let c = step(c, |x, y| x * y, -0.5);
        step(c, |x, y| x - y, peak)
    };
    let mut drawn = memory::filled(T::default(), n);
    let mut u = memory::filled(T::default(), n);
    uniform::fill_slice(g, &mut drawn, a, b);
    uniform::fill_slice(g, &mut u, 0.0, 1.0);
    let rejected = |u: T, v: T| round(u.to_f64().ln()) > log_density(v);
    let mut pending: Vec<bool> = memory::collect(drawn.iter().zip(&u).map(|(&v, &u)| rejected(u, v)));
    let mut candidates = memory::copied(&drawn);
    while pending.contains(&true) {
        uniform::fill_slice(g, &mut candidates, a, b);
        uniform::fill_slice(g, &mut u, 0.0, 1.0);
        for i in 0..n {
            if pending[i] {
                drawn[i] = candidates[i];
                pending[i] = rejected(u[i], candidates[i]);
            }
        }
    }
    drawn
}
