//! Uniform numbers on an interval.

use super::generator::{Generator, unit_f32, unit_f64};
use super::order::{RUN, fill, for_float, with_fma};
use crate::{DType, Element, KernelError, ViewMut};

/// Fill with uniform numbers in [`from`, `to`).
///
/// # Errors
/// Fails if `from > to`, `to - from` is not finite, or the dtype is not floating.
pub fn uniform_(g: &mut Generator, out: &mut ViewMut, from: f64, to: f64) -> Result<(), KernelError> {
    if !(from <= to) {
        return Err(KernelError::Other(format!(
            "uniform_ expects to return a [from, to) range, but found from={from} > to={to}"
        )));
    }
    if !(to - from).is_finite() {
        return Err(KernelError::Other(format!(
            "uniform_ expects to-from <= std::numeric_limits<scalar_t>::max(), but found to={to} and from={from} \
             which result in to-from to exceed the limit"
        )));
    }
    for_float!(out.dtype(), "check_uniform_bounds", T => fill::<T>(out, |run| fill_run(g, run, from, to)));
    Ok(())
}

/// Fill any number of elements in stream order.
pub(super) fn fill_slice<T: Element>(g: &mut Generator, out: &mut [T], from: f64, to: f64) {
    out.chunks_mut(RUN).for_each(|run| fill_run(g, run, from, to));
}

fn fill_run<T: Element>(g: &mut Generator, out: &mut [T], from: f64, to: f64) {
    let n = out.len();
    let mut words = [0; 2 * RUN];
    if T::DTYPE == DType::F64 {
        let mut v = [0.0; RUN];
        g.fill_u32(&mut words[..2 * n]);
        affine_f64(&words[..2 * n], &mut v[..n], from, to);
        for (o, &v) in out.iter_mut().zip(&v) {
            *o = <T as Element>::from_f64(v);
        }
    } else {
        let mut v = [0.0; RUN];
        g.fill_u32(&mut words[..n]);
        affine_f32(&words[..n], &mut v[..n], from as f32, to as f32);
        // Rounding can reach the excluded bound, in 16-bit floats one time in 500. It is replaced by the lower bound.
        let low = <T as Element>::from_f64(f64::from(from as f32));
        let high = <T as Element>::from_f64(f64::from(to as f32));
        for (o, &v) in out.iter_mut().zip(&v) {
            let v = <T as Element>::from_f64(f64::from(v));
            *o = if v == high { low } else { v };
        }
    }
}

with_fma! {
    fn affine_f32(words: &[u32], out: &mut [f32], from: f32, to: f32) {
        for (o, &w) in out.iter_mut().zip(words) {
            *o = unit_f32(w).mul_add(to - from, from);
        }
    }
}

with_fma! {
    fn affine_f64(words: &[u32], out: &mut [f64], from: f64, to: f64) {
        for (o, w) in out.iter_mut().zip(words.chunks_exact(2)) {
            let v = unit_f64(u64::from(w[0]) << 32 | u64::from(w[1])).mul_add(to - from, from);
            *o = if v == to { from } else { v };
        }
    }
}
