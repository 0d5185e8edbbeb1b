//! Discrete Fourier transforms of complex numbers.

use crate::complex::Complex as Element;
use crate::copy::copy;
use crate::loops::{Cursor, Dim, RawMut, simplify};
use crate::memory;
use crate::threads::parallel_for;
use crate::{View, ViewMut, c64, c128};
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftDirection, FftPlanner};
use std::sync::{Arc, Mutex, OnceLock};

/// Number of cached transforms. All are dropped when a new one would exceed it.
const KEEP: usize = 64;

/// Cached plans of one precision, and their number.
type Plans<T> = OnceLock<Mutex<(FftPlanner<T>, usize)>>;

/// A complex type that can be transformed.
trait Transformed: Element {
    type Part: rustfft::FftNum + Default;
    fn plans() -> &'static Plans<Self::Part>;
    fn to(self) -> Complex<Self::Part>;
    fn of(v: Complex<Self::Part>) -> Self;
}

macro_rules! transformed {
    ($($c:ident $t:ident;)*) => {$(
        impl Transformed for $c {
            type Part = $t;
            fn plans() -> &'static Plans<$t> {
                static PLANS: Plans<$t> = OnceLock::new();
                &PLANS
            }
            #[inline(always)]
            fn to(self) -> Complex<$t> { self }
            #[inline(always)]
            fn of(v: Complex<$t>) -> $c { v }
        }
    )*};
}
transformed! { c64 f32; c128 f64; }

fn plan<C: Transformed>(n: usize, inverse: bool) -> Arc<dyn Fft<C::Part>> {
    let plans = C::plans().get_or_init(|| Mutex::new((FftPlanner::new(), 0)));
    let mut plans = plans.lock().unwrap_or_else(|e| e.into_inner());
    if plans.1 >= KEEP {
        *plans = (FftPlanner::new(), 0);
    }
    plans.1 += 1;
    plans.0.plan_fft(n, if inverse { FftDirection::Inverse } else { FftDirection::Forward })
}

/// Transform every line along `dim` in place.
fn lines<C: Transformed>(out: &mut ViewMut, dim: usize, inverse: bool) {
    let n = out.sizes()[dim];
    let size = size_of::<C>();
    let step = out.strides()[dim] * size;
    let mut dims: Vec<Dim<1>> = (0..out.sizes().len())
        .filter(|&d| d != dim)
        .map(|d| Dim { size: out.sizes()[d], steps: [out.strides()[d] * size] })
        .collect();
    let count: usize = dims.iter().map(|d| d.size).product();
    if count == 0 || n < 2 {
        return;
    }
    simplify(&mut dims);
    let plan = plan::<C>(n, inverse);
    let to = RawMut(out.ptr());
    parallel_for(count, (8 * 1024 / n).max(1), |range| {
        let mut line = memory::filled(Complex::default(), n);
        let mut scratch = memory::filled(Complex::default(), plan.get_inplace_scratch_len());
        let mut at = Cursor::new(&dims, range.start);
        for _ in range {
            // SAFETY: the line lies within the output, and one thread uses it.
            unsafe {
                let first = to.at(at.offset[0]);
                for (i, v) in line.iter_mut().enumerate() {
                    *v = first.add(i * step).cast::<C>().read().to();
                }
                plan.process_with_scratch(&mut line, &mut scratch);
                for (i, v) in line.iter().enumerate() {
                    first.add(i * step).cast::<C>().write(C::of(*v));
                }
            }
            at.advance(&dims, 1);
        }
    });
}

/// Compute `out[k] = sum_j x[j] e^(-2 pi i j k / n)` along each of `dims`, without normalisation. `inverse` flips the
/// sign of the exponent. `x` and `out` have the same complex dtype and the same sizes. `out` must not overlap `x`.
pub fn fft(x: &View, dims: &[usize], inverse: bool, out: &mut ViewMut) {
    copy(x, out);
    for &dim in dims {
        crate::complex::for_complex!(x.dtype(), C => lines::<C>(out, dim, inverse));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transforms_equal_their_definition() {
        for n in [1usize, 2, 3, 8, 12, 17, 30] {
            let x: Vec<c128> = (0..2 * n).map(|i| c128::new((i * 7 % 5) as f64 - 2.0, (i * 3 % 4) as f64)).collect();
            let mut y = vec![c128::default(); 2 * n];
            let (sizes, strides) = ([2, n], [n, 1]);
            for inverse in [false, true] {
                fft(
                    &View::of_slice(&x, &sizes, &strides),
                    &[1],
                    inverse,
                    &mut ViewMut::of_slice(&mut y, &sizes, &strides),
                );
                for row in 0..2 {
                    for k in 0..n {
                        let turn = std::f64::consts::TAU * if inverse { 1.0 } else { -1.0 } / n as f64;
                        let want: c128 =
                            (0..n).map(|j| x[row * n + j] * c128::from_polar(1.0, turn * (j * k % n) as f64)).sum();
                        assert!((want - y[row * n + k]).norm() < 1e-11 * n as f64, "{n} {k}");
                    }
                }
            }
        }
    }
}
