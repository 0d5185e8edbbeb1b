//! Running sums, products, extremes and log-sum-exps along a dimension.

use crate::complex::{Complex, by_parts, exp, for_complex, ln_1p};
use crate::convert::{Number, cast};
use crate::loops::{Cursor, Dim, RawMut, simplify};
use crate::pointwise::unsupported;
use crate::threads::parallel_for;
use crate::{DType, Element, KernelError, View, ViewMut, c128, for_dtype};

/// Call `line` for every line along `dim`, with the byte offset of the line's first element in each operand.
fn lines<const M: usize>(
    sizes: &[usize],
    dim: usize,
    operands: [(&[usize], usize); M],
    line: impl Fn([usize; M]) + Sync,
) {
    let mut dims: Vec<Dim<M>> = (0..sizes.len())
        .filter(|&d| d != dim)
        .map(|d| Dim { size: sizes[d], steps: operands.map(|(strides, size)| strides[d] * size) })
        .collect();
    let count: usize = dims.iter().map(|d| d.size).product();
    let length = sizes.get(dim).copied().unwrap_or(1);
    if count == 0 || length == 0 {
        return;
    }
    simplify(&mut dims);
    parallel_for(count, (16 * 1024 / length).max(1), |range| {
        let mut at = Cursor::new(&dims, range.start);
        for _ in range {
            line(at.offset);
            at.advance(&dims, 1);
        }
    });
}

/// Return the length and the byte step along `dim`. A tensor without dimensions is one line of one element.
fn along(sizes: &[usize], strides: &[usize], dim: usize, size: usize) -> (usize, usize) {
    match sizes.get(dim) {
        Some(&n) => (n, strides[dim] * size),
        None => (1, 0),
    }
}

/// Scan with an accumulator of type `A`. `out` has the dtype of `x`.
fn scan<A: Number>(x: &View, dim: usize, out: &mut ViewMut, start: A, f: impl Fn(A, A) -> A + Sync + Copy) {
    let (sx, so) = (x.dtype().size_bytes(), out.dtype().size_bytes());
    let (n, step_x) = along(x.sizes(), x.strides(), dim, sx);
    let (_, step_o) = along(out.sizes(), out.strides(), dim, so);
    let (from, to) = (RawMut(x.ptr().cast_mut()), RawMut(out.ptr()));
    for_dtype!(x.dtype(), T => {
        lines(x.sizes(), dim, [(x.strides(), sx), (out.strides(), so)], |[a, b]| {
            let mut acc = start;
            for i in 0..n {
                // SAFETY: the line lies within both views, one thread uses it, and each element is read before it is
                // written.
                unsafe {
                    acc = f(acc, cast::<T, A>(*from.at(a + i * step_x).cast::<T>()));
                    to.at(b + i * step_o).cast::<T>().write(cast(acc));
                }
            }
        })
    });
}

/// Run a scan of sums or products in the accumulator type for the output.
macro_rules! scan_in {
    ($x:ident, $dim:ident, $out:ident, $name:literal, $int:expr, $start:literal, |$a:ident, $b:ident| $e:expr) => {{
        let converted;
        let mut held: Vec<u64> = Vec::new();
        let strides: Vec<usize>;
        let x = if $x.dtype() == $out.dtype() {
            $x
        } else {
            // Convert to another dtype before the scan, as PyTorch defines it.
            crate::memory::reserve(&mut held, $x.numel());
            held.resize($x.numel(), 0);
            strides = contiguous_strides($x.sizes());
            // SAFETY: the buffer holds eight bytes per element.
            let mut to = unsafe { ViewMut::new(held.as_mut_ptr().cast(), $x.sizes(), &strides, $out.dtype()) };
            crate::copy::copy($x, &mut to);
            // SAFETY: the buffer holds eight bytes per element, and all elements are written.
            converted = unsafe { View::new(held.as_ptr().cast(), $x.sizes(), &strides, $out.dtype()) };
            &converted
        };
        match $out.dtype() {
            // Sums of 16-bit floats run in `f32`. Sums of `f32` run in `f64`, which costs no time here and keeps long
            // sums exact.
            DType::F16 | DType::BF16 => scan::<f32>(x, $dim, $out, $start as f32, |$a, $b| $e),
            DType::F32 | DType::F64 => scan::<f64>(x, $dim, $out, $start as f64, |$a, $b| $e),
            DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64 => {
                scan::<i64>(x, $dim, $out, $start as i64, $int)
            }
            d => return Err(unsupported($name, d)),
        }
        Ok(())
    }};
}

/// Like [`scan`], for complex numbers.
fn complex_scan<C: Complex>(
    x: &View,
    dim: usize,
    out: &mut ViewMut,
    start: c128,
    f: impl Fn(c128, c128) -> c128 + Sync + Copy,
) {
    let size = size_of::<C>();
    let (n, step_x) = along(x.sizes(), x.strides(), dim, size);
    let (_, step_o) = along(out.sizes(), out.strides(), dim, size);
    let (from, to) = (RawMut(x.ptr().cast_mut()), RawMut(out.ptr()));
    lines(x.sizes(), dim, [(x.strides(), size), (out.strides(), size)], |[a, b]| {
        let mut acc = start;
        for i in 0..n {
            // SAFETY: the line lies within both views, one thread uses it, and each element is read before it is
            // written.
            unsafe {
                acc = f(acc, (*from.at(a + i * step_x).cast::<C>()).wide());
                to.at(b + i * step_o).cast::<C>().write(C::narrow(acc));
            }
        }
    });
}

fn contiguous_strides(sizes: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; sizes.len()];
    for d in (1..sizes.len()).rev() {
        strides[d - 1] = strides[d] * sizes[d].max(1);
    }
    strides
}

/// Compute running sums along `dim`, in the dtype of `out`. Integers wrap. `out` may be `x`.
///
/// # Errors
/// Fails with [`KernelError::Other`] if `out` is `bool`.
pub fn cumsum(x: &View, dim: usize, out: &mut ViewMut) -> Result<(), KernelError> {
    if x.dtype().is_complex() {
        return by_parts(x, out, |x, out| cumsum(x, dim, out));
    }
    scan_in!(x, dim, out, "cumsum", i64::wrapping_add, 0, |a, b| a + b)
}

/// Compute running products along `dim`, in the dtype of `out`. Integers wrap. `out` may be `x`.
///
/// # Errors
/// Fails with [`KernelError::Other`] if `out` is `bool`.
pub fn cumprod(x: &View, dim: usize, out: &mut ViewMut) -> Result<(), KernelError> {
    if x.dtype().is_complex() {
        for_complex!(x.dtype(), C => complex_scan::<C>(x, dim, out, c128::new(1.0, 0.0), |a, b| a * b));
        return Ok(());
    }
    scan_in!(x, dim, out, "cumprod", i64::wrapping_mul, 1, |a, b| a * b)
}

/// Compute `ln(e^x0 + ... + e^xi)` along `dim`, without overflow, for real and complex numbers. `out` has the dtype of
/// `x`.
///
/// # Errors
/// Fails with [`KernelError::Other`] for other dtypes.
pub fn logcumsumexp(x: &View, dim: usize, out: &mut ViewMut) -> Result<(), KernelError> {
    if x.dtype().is_complex() && x.dtype() == out.dtype() {
        let none = c128::new(f64::NEG_INFINITY, 0.0);
        for_complex!(x.dtype(), C => complex_scan::<C>(x, dim, out, none, |a, b| {
            // Subtract the larger from the smaller one, so that the exponential does not overflow.
            let (low, high) = if a.re < b.re { (a, b) } else { (b, a) };
            if low.re == f64::NEG_INFINITY { high } else { high + ln_1p(exp(low - high)) }
        }));
        return Ok(());
    }
    if !x.dtype().is_float() || x.dtype() != out.dtype() {
        return Err(unsupported("logcumsumexp", x.dtype()));
    }
    scan::<f64>(x, dim, out, f64::NEG_INFINITY, |a, b| {
        let (low, high) = if a < b { (a, b) } else { (b, a) };
        if high.is_infinite() && !low.is_nan() {
            // Subtracting infinities of the same sign would give NaN.
            high
        } else {
            high + (low - high).exp().ln_1p()
        }
    });
    Ok(())
}

/// Compute running extremes along `dim` and their positions. The last of equal elements wins, as in PyTorch. A NaN wins
/// from its position on.
fn cumulative_extreme(max: bool, x: &View, dim: usize, values: &mut ViewMut, indices: &mut ViewMut) {
    debug_assert!(values.dtype() == x.dtype() && indices.dtype() == DType::I64);
    let size = x.dtype().size_bytes();
    let (n, step_x) = along(x.sizes(), x.strides(), dim, size);
    let (_, step_v) = along(values.sizes(), values.strides(), dim, size);
    let (_, step_i) = along(indices.sizes(), indices.strides(), dim, 8);
    let (from, to, at) = (RawMut(x.ptr().cast_mut()), RawMut(values.ptr()), RawMut(indices.ptr()));
    let is_nan = |v: f64| v.is_nan();
    for_dtype!(x.dtype(), T => {
        lines(x.sizes(), dim, [(x.strides(), size), (values.strides(), size), (indices.strides(), 8)], |[a, b, c]| {
            // SAFETY: the line lies within the views, one thread uses it, and each element is read before it is
            // written.
            unsafe {
                let mut best: T = *from.at(a).cast::<T>();
                let mut place = 0;
                for i in 0..n {
                    let v = *from.at(a + i * step_x).cast::<T>();
                    let held_nan = T::DTYPE.is_float() && is_nan(best.to_f64());
                    let new_nan = T::DTYPE.is_float() && is_nan(v.to_f64());
                    if new_nan || (!held_nan && if max { v >= best } else { v <= best }) {
                        best = v;
                        place = i;
                    }
                    to.at(b + i * step_v).cast::<T>().write(best);
                    at.at(c + i * step_i).cast::<i64>().write(place as i64);
                }
            }
        })
    });
}

/// Compute running maxima along `dim` with their positions (`i64`). The last of equal elements wins.
pub fn cummax(x: &View, dim: usize, values: &mut ViewMut, indices: &mut ViewMut) {
    cumulative_extreme(true, x, dim, values, indices);
}

/// Compute running minima along `dim` with their positions (`i64`). The last of equal elements wins.
pub fn cummin(x: &View, dim: usize, values: &mut ViewMut, indices: &mut ViewMut) {
    cumulative_extreme(false, x, dim, values, indices);
}
