//! Decomposition of numbers into fractions and powers of two.

use crate::strided::{Address, Nest};
use crate::{DType, Element, KernelError, View, ViewMut, for_dtype};

/// Compute `x = mantissa * 2^exponent` with `1/2 <= |mantissa| < 1`. Zero, infinities and NaN have exponent 0. The
/// mantissa has the dtype of `x`, and the exponent is `int32`.
///
/// # Errors
/// Fails with [`KernelError::Other`] for integers.
pub fn frexp(x: &View, mantissa: &mut ViewMut, exponent: &mut ViewMut) -> Result<(), KernelError> {
    if !x.dtype().is_float() {
        return Err(super::unsupported("frexp", x.dtype()));
    }
    debug_assert!(mantissa.dtype() == x.dtype() && exponent.dtype() == DType::I32);
    let nest = Nest::new(x.sizes(), [x.strides(), mantissa.strides(), exponent.strides()], |_| false);
    for_dtype!(x.dtype(), T => {
        let (from, m, e) = (Address::<T>::of(x.ptr()), Address::<T>::of(mantissa.ptr()),
            Address::<i32>::of(exponent.ptr()));
        nest.par_for_each_row(|[xo, mo, eo], n, [xs, ms, es]| {
            for i in 0..n {
                // SAFETY: the nest visits only offsets of the views' elements, and each output element once.
                unsafe {
                    let v = from.read(xo + i * xs);
                    let wide = v.to_f64();
                    let (fraction, power) = if wide.is_finite() { libm::frexp(wide) } else { (wide, 0) };
                    m.write(mo + i * ms, T::from_f64(fraction));
                    e.write(eo + i * es, power);
                }
            }
        });
    });
    Ok(())
}
