//! Kernels that compute values from positions.

use crate::convert::{Number, cast};
use crate::copy::{Scalar, copy, fill};
use crate::loops::RawMut;
use crate::threads::parallel_for;
use crate::{Element, View, ViewMut, for_dtype};

/// Set element `i` of a one-dimensional output to `value(i)`.
fn along<T: Number>(out: &mut ViewMut, value: impl Fn(usize) -> T + Sync) {
    debug_assert_eq!(out.sizes().len(), 1);
    let (n, stride, to) = (out.sizes()[0], out.strides()[0], RawMut(out.ptr()));
    parallel_for(n, 16 * 1024, |range| {
        for i in range {
            // SAFETY: the position lies within the output, and one thread writes it.
            unsafe { to.at(i * stride * size_of::<T>()).cast::<T>().write(value(i)) };
        }
    });
}

/// Compute `out[i] = start + i * step` for a one-dimensional output. Integers are computed as integers and wrap.
pub fn arange(start: Scalar, step: Scalar, out: &mut ViewMut) {
    for_dtype!(out.dtype(), T => match (start, step, T::DTYPE.is_float()) {
        (Scalar::Int(a), Scalar::Int(d), false) => along::<T>(out, |i| cast(a.wrapping_add(d.wrapping_mul(i as i64)))),
        _ => {
            let (a, d) = (start.to_f64(), step.to_f64());
            along::<T>(out, |i| cast(a + d * i as f64))
        }
    });
}

/// Fill `out` with equal steps from `start` to `end`, both included. The second half is computed from the end.
pub fn linspace(start: f64, end: f64, out: &mut ViewMut) {
    let n = out.numel();
    let step = if n > 1 { (end - start) / (n - 1) as f64 } else { 0.0 };
    for_dtype!(out.dtype(), T => along::<T>(out, |i| {
        cast(if i < n / 2 || n == 1 { start + step * i as f64 } else { end - step * (n - 1 - i) as f64 })
    }));
}

/// Write ones on the diagonal of a matrix, and zeros elsewhere.
pub fn eye(out: &mut ViewMut) {
    debug_assert_eq!(out.sizes().len(), 2);
    fill(out, Scalar::Int(0));
    let n = out.sizes()[0].min(out.sizes()[1]);
    let stride = out.strides()[0] + out.strides()[1];
    let (sizes, strides) = ([n], [stride]);
    // SAFETY: the diagonal lies within the matrix, and its elements are distinct.
    let mut diagonal = unsafe { ViewMut::new(out.ptr(), &sizes, &strides, out.dtype()) };
    fill(&mut diagonal, Scalar::Int(1));
}

/// Copy matrices (the last two dimensions) row by row, with zeros on one side of the diagonal.
fn triangle(x: &View, out: &mut ViewMut, lower: bool, diagonal: i64) {
    debug_assert!(out.sizes().len() >= 2 && x.dtype() == out.dtype());
    if x.ptr() != out.ptr().cast_const() {
        copy(x, out);
    }
    let d = out.sizes().len();
    let (rows, cols) = (out.sizes()[d - 2], out.sizes()[d - 1]);
    let (down, right) = (out.strides()[d - 2], out.strides()[d - 1]);
    if rows == 0 || cols == 0 {
        return;
    }
    let (batch_sizes, batch_strides) = (&out.sizes()[..d - 2], &out.strides()[..d - 2]);
    let matrices: usize = batch_sizes.iter().product();
    let (to, size) = (RawMut(out.ptr()), out.dtype().size_bytes());
    parallel_for(matrices * rows, (16 * 1024 / cols).max(1), |range| {
        for item in range {
            let (mut m, r) = (item / rows, item % rows);
            let mut offset = r * down;
            for (n, s) in batch_sizes.iter().zip(batch_strides).rev() {
                offset += m % n * s;
                m /= n;
            }
            // Columns up to `r + diagonal` belong to the lower triangle.
            let edge = r as i64 + diagonal;
            let zeros = if lower {
                edge.saturating_add(1).clamp(0, cols as i64) as usize..cols
            } else {
                0..edge.clamp(0, cols as i64) as usize
            };
            // SAFETY: the row lies within the output, and one thread writes it. All-zero bytes are zero in every dtype.
            unsafe {
                if right == 1 {
                    to.at((offset + zeros.start) * size).write_bytes(0, zeros.len() * size);
                } else {
                    for c in zeros {
                        to.at((offset + c * right) * size).write_bytes(0, size);
                    }
                }
            }
        }
    });
}

/// Copy the lower triangles of matrices, with zeros above the given diagonal. `out` may be `x`.
pub fn tril(x: &View, diagonal: i64, out: &mut ViewMut) {
    triangle(x, out, true, diagonal);
}

/// Copy the upper triangles of matrices, with zeros below the given diagonal. `out` may be `x`.
pub fn triu(x: &View, diagonal: i64, out: &mut ViewMut) {
    triangle(x, out, false, diagonal);
}
