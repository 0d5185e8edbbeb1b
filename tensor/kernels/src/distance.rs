//! Distances between the rows of two matrices.

use crate::par::Shared;
use crate::real::{Real, for_acc, input, output, simd};
use crate::threads::parallel_for;
use crate::{View, ViewMut};

/// Compute `out[b, i, j]`, the `p`-norm of `x[b, i] - y[b, j]`, for `x: [b, m, k]` and `y: [b, n, k]`.
pub fn cdist(x: &View, y: &View, p: f64, out: &mut ViewMut) {
    let (m, n, k) = (x.sizes()[1], y.sizes()[1], x.sizes()[2]);
    for_acc!(x.dtype(), A => {
        let (x, y) = (input::<A>(x), input::<A>(y));
        output::<A, _>(out, |out| {
            if out.is_empty() {
                return;
            }
            let rows = out.len() / n;
            let to = Shared::new(out);
            parallel_for(rows, (1usize << 14).div_ceil((n * k).max(1)), |range| {
                for row in range {
                    // SAFETY: the row is in bounds, and one thread uses it.
                    let out = unsafe { to.slice(row * n, n) };
                    let x = &x[row * k..][..k];
                    for (j, out) in out.iter_mut().enumerate() {
                        *out = distance(x, &y[(row / m * n + j) * k..][..k], p);
                    }
                }
            });
        });
    });
}

#[inline]
fn distance<A: Real>(x: &[A], y: &[A], p: f64) -> A {
    let magnitude = |d: A| if d < A::ZERO { -d } else { d };
    if p == 2.0 {
        return squares(x, y).sqrt();
    }
    if p == 1.0 {
        return magnitudes(x, y);
    }
    let differences = x.iter().zip(y).map(|(&x, &y)| magnitude(x - y));
    if p == 0.0 {
        return A::of(differences.filter(|&d| d != A::ZERO).count() as f64);
    }
    if p == f64::INFINITY {
        // NaN is the maximum.
        return differences.fold(A::ZERO, |a, d| if d > a || d.is_nan() { d } else { a });
    }
    A::of(differences.map(|d| d.to_f64().powf(p)).sum::<f64>().powf(1.0 / p))
}

/// Number of partial sums that are added side by side.
const LANES: usize = 16;

simd! {
    fn squares<A: Real>(x: &[A], y: &[A]) -> A {
        let mut sums = [A::ZERO; LANES];
        let (xs, ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
        let mut rest = A::ZERO;
        for (&x, &y) in xs.remainder().iter().zip(ys.remainder()) {
            rest += (x - y) * (x - y);
        }
        for (x, y) in xs.zip(ys) {
            for i in 0..LANES {
                sums[i] += (x[i] - y[i]) * (x[i] - y[i]);
            }
        }
        sums.into_iter().fold(rest, |a, b| a + b)
    }
}

simd! {
    fn magnitudes<A: Real>(x: &[A], y: &[A]) -> A {
        let mut sums = [A::ZERO; LANES];
        let (xs, ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
        let mut rest = A::ZERO;
        for (&x, &y) in xs.remainder().iter().zip(ys.remainder()) {
            let d = x - y;
            rest += if d < A::ZERO { -d } else { d };
        }
        for (x, y) in xs.zip(ys) {
            for i in 0..LANES {
                let d = x[i] - y[i];
                sums[i] += if d < A::ZERO { -d } else { d };
            }
        }
        sums.into_iter().fold(rest, |a, b| a + b)
    }
}
