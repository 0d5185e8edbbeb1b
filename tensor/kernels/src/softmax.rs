//! Softmax and its logarithm along one dimension, and their gradients.
//!
//! A row is read from memory once and written once: its maximum, exponentials and sum are computed while it is in the
//! first-level cache. If the dimension is not the last, blocks of neighbouring columns are processed with running
//! maxima and sums. Rows of only `-inf` give NaN, as the formula says. Outputs must not overlap inputs.

use crate::par::{Shared, prefetch};
use crate::real::{LANES, Real, for_acc, input, lanes_sum, max_of, output, simd, sum_of, sum_of2};
use crate::threads::{GRAIN, parallel_for};
use crate::{View, ViewMut};

/// Number of columns that are processed together if the dimension is not the last.
const COLUMNS: usize = 1024;

/// Number of rows of such a block between updates of the running maximum.
const ROWS: usize = 16;

/// Compute `out = exp(x) / sum(exp(x), dim)`.
pub fn softmax(x: &View, dim: usize, out: &mut ViewMut) {
    forward(x, dim, false, out);
}

/// Compute `out = x - log(sum(exp(x), dim))`.
pub fn log_softmax(x: &View, dim: usize, out: &mut ViewMut) {
    forward(x, dim, true, out);
}

/// Compute `gx = y * (g - sum(g * y, dim))` for `y = softmax(x)`.
pub fn softmax_backward(g: &View, y: &View, dim: usize, gx: &mut ViewMut) {
    backward(g, y, dim, false, gx);
}

/// Compute `gx = g - exp(y) * sum(g, dim)` for `y = log_softmax(x)`.
pub fn log_softmax_backward(g: &View, y: &View, dim: usize, gx: &mut ViewMut) {
    backward(g, y, dim, true, gx);
}

/// Return the sizes before, at and after a dimension. A zero-dimensional view has one row of one element.
fn split(sizes: &[usize], dim: usize) -> (usize, usize, usize) {
    if sizes.is_empty() {
        return (1, 1, 1);
    }
    (sizes[..dim].iter().product(), sizes[dim], sizes[dim + 1..].iter().product())
}

fn forward(x: &View, dim: usize, log: bool, out: &mut ViewMut) {
    let (outer, n, inner) = split(x.sizes(), dim);
    if outer * n * inner == 0 {
        return;
    }
    for_acc!(x.dtype(), A => {
        let x = input::<A>(x);
        output::<A, _>(out, |out| {
            let to = Shared::new(out);
            if inner == 1 {
                parallel_for(outer, GRAIN.div_ceil(n), |rows| {
                    for row in rows {
                        // SAFETY: the row is in bounds, and one thread uses it.
                        let y = unsafe { to.slice(row * n, n) };
                        let (x, next) = x[row * n..].split_at(n);
                        if log { log_softmax_row(x, y) } else { softmax_row(x, y, next) }
                    }
                });
                return;
            }
            let blocks = inner.div_ceil(COLUMNS);
            parallel_for(outer * blocks, GRAIN.div_ceil(n * COLUMNS.min(inner)), |range| {
                for i in range {
                    let (o, first) = (i / blocks, i % blocks * COLUMNS);
                    softmax_columns(&x[o * n * inner..][..n * inner], to, o * n * inner, n, inner, first, log);
                }
            });
        });
    });
}

simd! {
    fn softmax_row<A: Real>(x: &[A], y: &mut [A], next: &[A]) {
        let max = max_of(x);
        let mut lanes = [A::ZERO; LANES];
        let mut rest = A::ZERO;
        let (mut yc, xc) = (y.chunks_exact_mut(LANES), x.chunks_exact(LANES));
        let tail = xc.remainder();
        // Prefetch the next row in the meantime.
        let ahead = next.chunks(LANES).chain(std::iter::repeat(&[][..]));
        for ((y, x), ahead) in (&mut yc).zip(xc).zip(ahead) {
            prefetch(ahead);
            for i in 0..LANES {
                let e = (x[i] - max).exp();
                y[i] = e;
                lanes[i] += e;
            }
        }
        for (y, &x) in yc.into_remainder().iter_mut().zip(tail) {
            let e = (x - max).exp();
            *y = e;
            rest += e;
        }
        let factor = A::ONE / (lanes_sum(lanes) + rest);
        for y in y.iter_mut() {
            *y *= factor;
        }
    }
}

simd! {
    fn log_softmax_row<A: Real>(x: &[A], y: &mut [A]) {
        let max = max_of(x);
        let sum = sum_of(x, |v| (v - max).exp());
        let log = sum.ln();
        for (y, &x) in y.iter_mut().zip(x) {
            *y = x - max - log;
        }
    }
}

simd! {
    fn softmax_columns<A: Real>(
        x: &[A], out: Shared<A>, at: usize, n: usize, inner: usize, first: usize, log: bool
    ) {
        let width = COLUMNS.min(inner - first);
        let (mut max, mut sum, mut high) = ([A::NEG_INF; COLUMNS], [A::ZERO; COLUMNS], [A::ZERO; COLUMNS]);
        let (max, sum, high) = (&mut max[..width], &mut sum[..width], &mut high[..width]);
        // Update running maxima and sums a few rows at a time: columns are read from memory once here and once below.
        for rows in (0..n).step_by(ROWS) {
            let end = (rows + ROWS).min(n);
            high.copy_from_slice(max);
            for i in rows..end {
                let x = &x[i * inner + first..][..width];
                for j in 0..width {
                    high[j] = x[j].larger(high[j]);
                }
            }
            for j in 0..width {
                // All elements so far are minus infinity. Any finite maximum keeps the sum zero instead of NaN.
                let old = max[j];
                max[j] = high[j];
                high[j] = if high[j] == A::NEG_INF { A::ZERO } else { high[j] };
                sum[j] *= (old - high[j]).exp();
            }
            for i in rows..end {
                let x = &x[i * inner + first..][..width];
                for j in 0..width {
                    sum[j] += (x[j] - high[j]).exp();
                }
            }
        }
        for v in sum.iter_mut() {
            *v = if log { v.ln() } else { A::ONE / *v };
        }
        for i in 0..n {
            let x = &x[i * inner + first..][..width];
            // SAFETY: the columns are in bounds, and only this call writes them.
            let y = unsafe { out.slice(at + i * inner + first, width) };
            for j in 0..width {
                y[j] = if log { x[j] - max[j] - sum[j] } else { (x[j] - max[j]).exp() * sum[j] };
            }
        }
    }
}

fn backward(g: &View, y: &View, dim: usize, log: bool, gx: &mut ViewMut) {
    let (outer, n, inner) = split(y.sizes(), dim);
    if outer * n * inner == 0 {
        return;
    }
    for_acc!(y.dtype(), A => {
        let (g, y) = (input::<A>(g), input::<A>(y));
        output::<A, _>(gx, |gx| {
            let to = Shared::new(gx);
            if inner == 1 {
                parallel_for(outer, GRAIN.div_ceil(n), |rows| {
                    for row in rows {
                        // SAFETY: the row is in bounds, and one thread uses it.
                        backward_row(&g[row * n..][..n], &y[row * n..][..n], unsafe { to.slice(row * n, n) }, log);
                    }
                });
                return;
            }
            let blocks = inner.div_ceil(COLUMNS);
            parallel_for(outer * blocks, GRAIN.div_ceil(n * COLUMNS.min(inner)), |range| {
                for i in range {
                    let (o, first) = (i / blocks, i % blocks * COLUMNS);
                    let (g, y) = (&g[o * n * inner..][..n * inner], &y[o * n * inner..][..n * inner]);
                    backward_columns(g, y, to, o * n * inner, n, inner, first, log);
                }
            });
        });
    });
}

simd! {
    fn backward_row<A: Real>(g: &[A], y: &[A], gx: &mut [A], log: bool) {
        let n = gx.len();
        let (g, y) = (&g[..n], &y[..n]);
        if log {
            let sum = sum_of(g, |v| v);
            for i in 0..n {
                gx[i] = g[i] - y[i].exp() * sum;
            }
        } else {
            let sum = sum_of2(g, y, |g, y| g * y);
            for i in 0..n {
                gx[i] = y[i] * (g[i] - sum);
            }
        }
    }
}

simd! {
    fn backward_columns<A: Real>(
        g: &[A], y: &[A], gx: Shared<A>, at: usize, n: usize, inner: usize, first: usize, log: bool
    ) {
        let width = COLUMNS.min(inner - first);
        let mut sum = [A::ZERO; COLUMNS];
        let sum = &mut sum[..width];
        for i in 0..n {
            let (g, y) = (&g[i * inner + first..][..width], &y[i * inner + first..][..width]);
            for j in 0..width {
                sum[j] += if log { g[j] } else { g[j] * y[j] };
            }
        }
        for i in 0..n {
            let (g, y) = (&g[i * inner + first..][..width], &y[i * inner + first..][..width]);
            // SAFETY: the columns are in bounds, and only this call writes them.
            let gx = unsafe { gx.slice(at + i * inner + first, width) };
            for j in 0..width {
                gx[j] = if log { g[j] - y[j].exp() * sum[j] } else { y[j] * (g[j] - sum[j]) };
            }
        }
    }
}
