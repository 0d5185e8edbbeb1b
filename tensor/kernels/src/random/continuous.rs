//! Samplers that transform one uniform number: exponential and Cauchy.

use super::discrete::fill_from_unit;
use super::generator::Generator;
use super::order::for_float;
use crate::{Element, KernelError, ViewMut};

/// Fill with exponential numbers of rate `lambda`.
///
/// # Errors
/// Fails if `lambda` is not positive or the dtype is not floating.
pub fn exponential_(g: &mut Generator, out: &mut ViewMut, lambda: f64) -> Result<(), KernelError> {
    if !(lambda > 0.0) {
        return Err(KernelError::Other(format!("exponential_ expects lambda > 0.0, but found lambda={lambda}")));
    }
    let scale = -1.0 / lambda;
    for_float!(out.dtype(), "exponential_cpu", T => {
        fill_from_unit::<T>(g, out, |u| <T as Element>::from_f64(scale * (-u).ln_1p()));
    });
    Ok(())
}

/// Fill with Cauchy numbers of the given median and half-width.
///
/// # Errors
/// Fails if `sigma` is not positive or the dtype is not floating.
pub fn cauchy_(g: &mut Generator, out: &mut ViewMut, median: f64, sigma: f64) -> Result<(), KernelError> {
    if !(sigma > 0.0) {
        return Err(KernelError::Other(format!("cauchy_ expects sigma > 0.0, but found sigma={sigma}")));
    }
    for_float!(out.dtype(), "cauchy_cpu", T => {
        fill_from_unit::<T>(g, out, |u| {
            let t = (std::f64::consts::PI * (u - 0.5)).tan();
            <T as Element>::from_f64(t.mul_add(sigma, median))
        });
    });
    Ok(())
}
