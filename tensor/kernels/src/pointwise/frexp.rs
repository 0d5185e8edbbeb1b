//! Numbers as fractions and powers of two.

use crate::strided::{Address, Nest};
use crate::{DType, Element, KernelError, View, ViewMut, for_dtype};

/// `x = mantissa * 2^exponent` with a mantissa of size 1/2 up to 1; zero, infinities and NaN have exponent 0. The mantissa
/// has the dtype of `x`, the exponent is `int32`.
///
/// # Errors
/// [`KernelError::Other`] for integers.
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
                // SAFETY: elements of the views; each output element is visited once.
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
