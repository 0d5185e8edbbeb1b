//! Resampling of dimensions: each output is a weighted sum of a few inputs along one dimension.

use crate::memory;
use crate::par::{Scratch, Shared};
use crate::real::{Real, for_acc, input, output, simd};
use crate::threads::{GRAIN, parallel_for};
use crate::{View, ViewMut};

/// Inputs of each output and their weights: a sparse matrix by rows.
#[derive(Clone, Debug, Default)]
pub struct Taps {
    /// Start of the entries of each row, then the number of all entries.
    pub starts: Vec<usize>,
    /// Position of the input of each entry.
    pub positions: Vec<usize>,
    /// Weight of each entry.
    pub weights: Vec<f64>,
}

impl Taps {
    /// Return a matrix without rows.
    pub fn new() -> Taps {
        Taps { starts: vec![0], ..Taps::default() }
    }
    /// Add a row.
    pub fn push(&mut self, entries: impl IntoIterator<Item = (usize, f64)>) {
        for (p, w) in entries {
            memory::push(&mut self.positions, p);
            memory::push(&mut self.weights, w);
        }
        memory::push(&mut self.starts, self.positions.len());
    }
    /// Return the number of rows.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }
    /// Return the range of the entries of row `i`.
    pub fn row(&self, i: usize) -> std::ops::Range<usize> {
        self.starts[i]..self.starts[i + 1]
    }
    /// Return the transposed matrix, which has `inputs` rows.
    pub fn transposed(&self, inputs: usize) -> Taps {
        let mut starts = memory::filled(0, inputs + 1);
        self.positions.iter().for_each(|&p| starts[p + 1] += 1);
        (0..inputs).for_each(|i| starts[i + 1] += starts[i]);
        let (mut positions, mut weights) =
            (memory::filled(0, self.positions.len()), memory::filled(0.0, self.positions.len()));
        let mut next = memory::copied(&starts);
        for row in 0..self.rows() {
            for e in self.row(row) {
                let at = &mut next[self.positions[e]];
                (positions[*at], weights[*at]) = (row, self.weights[e]);
                *at += 1;
            }
        }
        Taps { starts, positions, weights }
    }
}

/// Resample the last `axes.len()` dimensions, the `d`-th of them by `axes[d]`. `None` leaves a dimension unchanged.
/// Dimensions are resampled one after the other, from the last to the first, or from the first to the last if
/// `forwards`.
pub fn resample(x: &View, axes: &[Option<Taps>], forwards: bool, out: &mut ViewMut) {
    let mut sizes = x.sizes().to_vec();
    let lead = sizes.len() - axes.len();
    let mut order: Vec<usize> = (0..axes.len()).filter(|&d| axes[d].is_some()).collect();
    if !forwards {
        order.reverse();
    }
    for_acc!(x.dtype(), A => {
        let x = input::<A>(x);
        output::<A, _>(out, |out| {
            if out.is_empty() {
                return;
            }
            if order.is_empty() {
                return out.copy_from_slice(&x);
            }
            let mut held: Option<Scratch<A>> = None;
            for (step, &d) in order.iter().enumerate() {
                let Some(taps) = &axes[d] else { continue };
                let from = sizes[lead + d];
                let inner: usize = sizes[lead + d + 1..].iter().product();
                sizes[lead + d] = taps.rows();
                let source: &[A] = held.as_deref().unwrap_or(&x);
                if step + 1 == order.len() {
                    along(source, from, inner, taps, out);
                } else {
                    let mut next = Scratch::any(sizes.iter().product());
                    along(source, from, inner, taps, &mut next);
                    held = Some(next);
                }
            }
        });
    });
}

/// Resample one dimension: `x` is `[.., n, inner]`, and `out` is `[.., rows, inner]`.
fn along<A: Real>(x: &[A], n: usize, inner: usize, taps: &Taps, out: &mut [A]) {
    let rows = taps.rows();
    let weights: Vec<A> = memory::collect(taps.weights.iter().map(|&w| A::of(w)));
    let per_row = taps.positions.len().div_ceil(rows.max(1)).max(1);
    let to = Shared::new(out);
    if inner == 1 {
        let outer = out.len() / rows;
        let two = per_row == 2 && taps.starts.windows(2).all(|s| s[1] - s[0] == 2);
        parallel_for(outer, GRAIN.div_ceil(rows * per_row), |range| {
            for o in range {
                // SAFETY: the row is in bounds, and one thread uses it.
                let y = unsafe { to.slice(o * rows, rows) };
                let x = &x[o * n..][..n];
                if two {
                    pairs(x, &taps.positions, &weights, y);
                    continue;
                }
                for (i, y) in y.iter_mut().enumerate() {
                    let mut sum = A::ZERO;
                    for e in taps.row(i) {
                        sum += x[taps.positions[e]] * weights[e];
                    }
                    *y = sum;
                }
            }
        });
        return;
    }
    let outer = out.len() / (rows * inner);
    parallel_for(outer * rows, GRAIN.div_ceil(inner * per_row), |range| {
        for k in range {
            let (o, i) = (k / rows, k % rows);
            // SAFETY: the row is in bounds, and one thread uses it.
            let y = unsafe { to.slice(k * inner, inner) };
            let of = |e: usize| &x[(o * n + taps.positions[e]) * inner..][..inner];
            let row = taps.row(i);
            match row.len() {
                0 => y.fill(A::ZERO),
                1 if taps.weights[row.start] == 1.0 => y.copy_from_slice(of(row.start)),
                _ => {
                    scaled(of(row.start), weights[row.start], y);
                    for e in row.skip(1) {
                        add_scaled(of(e), weights[e], y);
                    }
                }
            }
        }
    });
}

/// Like [`resample`], for bytes in integer arithmetic. Each axis comes with 16-bit weights and the number of their
/// fractional bits. Results are rounded and clamped after each dimension, from the last to the first.
pub fn resample_bytes(x: &View, axes: &[Option<(&Taps, Vec<i64>, u32)>], out: &mut ViewMut) {
    let mut sizes = x.sizes().to_vec();
    let lead = sizes.len() - axes.len();
    // SAFETY: `offset_of` gives offsets of the view's elements.
    let byte = |i| unsafe { *x.ptr().add(crate::real::offset_of(i, x.sizes(), x.strides())) };
    let mut now: Vec<u8> = memory::collect((0..x.numel()).map(byte));
    for (d, axis) in axes.iter().enumerate().rev() {
        let Some((taps, weights, bits)) = axis else { continue };
        let (from, inner): (usize, usize) = (sizes[lead + d], sizes[lead + d + 1..].iter().product());
        let rows = taps.rows();
        sizes[lead + d] = rows;
        let mut next = memory::filled(0u8, sizes.iter().product());
        let half = (1i64 << bits) >> 1;
        let source = &now;
        let to = Shared::new(&mut next);
        let outer: usize = sizes[..lead + d].iter().product();
        parallel_for(outer * rows, GRAIN.div_ceil(inner.max(1)), |range| {
            for k in range {
                let (o, i) = (k / rows, k % rows);
                // SAFETY: the row is in bounds, and one thread uses it.
                let y = unsafe { to.slice(k * inner, inner) };
                for (j, y) in y.iter_mut().enumerate() {
                    let sum: i64 = taps
                        .row(i)
                        .map(|e| i64::from(source[(o * from + taps.positions[e]) * inner + j]) * weights[e])
                        .sum();
                    *y = ((sum + half) >> bits).clamp(0, 255) as u8;
                }
            }
        });
        now = next;
    }
    if let Some(out) = out.as_slice_mut::<u8>() {
        out.copy_from_slice(&now);
    }
}

fn pairs<A: Real>(x: &[A], positions: &[usize], weights: &[A], y: &mut [A]) {
    for ((y, p), w) in y.iter_mut().zip(positions.chunks_exact(2)).zip(weights.chunks_exact(2)) {
        *y = x[p[0]] * w[0] + x[p[1]] * w[1];
    }
}

simd! {
    fn scaled<A: Real>(x: &[A], w: A, y: &mut [A]) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = x * w;
        }
    }
}

simd! {
    fn add_scaled<A: Real>(x: &[A], w: A, y: &mut [A]) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y += x * w;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposing_twice_gives_the_same_matrix() {
        let mut taps = Taps::new();
        taps.push([(0, 0.25), (1, 0.75)]);
        taps.push([]);
        taps.push([(2, 1.0)]);
        let back = taps.transposed(4).transposed(3);
        assert_eq!((back.starts, back.positions, back.weights), (taps.starts, taps.positions, taps.weights));
    }

    #[test]
    fn an_inner_dimension_is_resampled_like_a_last_one() {
        let mut taps = Taps::new();
        taps.push([(0, 0.5), (1, 0.5)]);
        taps.push([(1, 1.0)]);
        taps.push([]);
        let x: Vec<f32> = (0..8).map(|v| v as f32).collect();
        let (mut inner, mut last) = ([0f32; 12], [0f32; 12]);
        let axes = [Some(taps), None];
        resample(
            &View::of_slice(&x, &[2, 2, 2], &[4, 2, 1]),
            &axes,
            false,
            &mut ViewMut::of_slice(&mut inner, &[2, 3, 2], &[6, 2, 1]),
        );
        assert_eq!(inner, [1., 2., 2., 3., 0., 0., 5., 6., 6., 7., 0., 0.]);
        resample(
            &View::of_slice(&x, &[2, 2, 2], &[4, 1, 2]),
            &axes[..1],
            false,
            &mut ViewMut::of_slice(&mut last, &[2, 2, 3], &[6, 3, 1]),
        );
        assert_eq!(last, [1., 2., 0., 2., 3., 0., 5., 6., 0., 6., 7., 0.]);
    }
}
