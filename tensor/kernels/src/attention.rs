//! Scaled dot product attention on `[b, h, l, e]`, forward and backward, without the matrix of all weights.
//!
//! Query rows are taken in blocks; a block's scores against the keys that it may see live in scratch memory and are gone when the
//! block is done, so memory grows with `l * block`. The forward pass keeps the log-sum-exp of each row, from which the
//! backward pass computes the weights again. A row that may see nothing gives zeros, and its log-sum-exp is minus infinity.

use crate::matmul::{Mat, MatMut, gemm};
use crate::par::{Scratch, Shared};
use crate::real::{Real, for_acc, input, max_of, output, simd, sum_of2};
use crate::threads::{num_threads, parallel_for};
use crate::{DType, View, ViewMut};

/// What scores go through before the softmax.
#[derive(Clone, Copy)]
pub struct Attention<'a> {
    /// Factor of the products of queries and keys, usually `1 / sqrt(e)`.
    pub scale: f64,
    /// Row `i` sees the keys `0..=i` only.
    pub is_causal: bool,
    /// `[b, h, l, s]`, broadcast through strides of zero: `bool` (true means seen) or a floating-point number that is added.
    pub mask: Option<View<'a>>,
}

/// Query rows of a block.
const BLOCK: usize = 64;

#[derive(Clone, Copy)]
struct Sizes {
    heads: usize,
    l: usize,
    s: usize,
    e: usize,
    ev: usize,
}

fn sizes(q: &[usize], k: &[usize], v: &[usize]) -> (usize, Sizes) {
    assert!(q.len() == 4 && k.len() == 4 && v.len() == 4, "attention: operands have four dimensions");
    (q[0] * q[1], Sizes { heads: q[1], l: q[2], s: k[2], e: q[3], ev: v[3] })
}

impl Attention<'_> {
    /// How many keys the rows below `end` see.
    fn seen(&self, end: usize, s: usize) -> usize {
        if self.is_causal { end.min(s) } else { s }
    }

    /// Masks the scores of row `i` of one head: what is not seen becomes minus infinity.
    fn apply<A: Real>(&self, batch: usize, head: usize, i: usize, row: &mut [A]) {
        if let Some(mask) = self.mask {
            let t = mask.strides();
            let at = batch * t[0] + head * t[1] + i * t[2];
            match mask.dtype() {
                DType::Bool => {
                    for (j, v) in row.iter_mut().enumerate() {
                        // SAFETY: the mask covers `[b, h, l, s]`; a bool is one byte.
                        if unsafe { *mask.ptr().add(at + j * t[3]) } == 0 {
                            *v = A::NEG_INF;
                        }
                    }
                }
                dtype => crate::real::for_float!(dtype, T => {
                    for (j, v) in row.iter_mut().enumerate() {
                        // SAFETY: as above.
                        let m = unsafe { *mask.ptr().cast::<T>().add(at + j * t[3]) };
                        *v += A::from_f64(crate::Element::to_f64(m));
                    }
                }),
            }
        }
        if self.is_causal && i + 1 < row.len() {
            row[i + 1..].fill(A::NEG_INF);
        }
    }
}

/// `out = softmax(scale * q @ k^T + mask) @ v` for `q: [b, h, l, e]`, `k: [b, h, s, e]`, `v: [b, h, s, ev]`; writes
/// `out: [b, h, l, ev]` and `lse: [b, h, l]`.
pub fn attention(q: &View, k: &View, v: &View, spec: &Attention, out: &mut ViewMut, lse: &mut ViewMut) {
    let (pairs, z) = sizes(q.sizes(), k.sizes(), v.sizes());
    for_acc!(q.dtype(), A => {
        let (q, k, v) = (input::<A>(q), input::<A>(k), input::<A>(v));
        output::<A, _>(out, |out| output::<A, _>(lse, |lse| {
            let (out, lse) = (Shared::new(out), Shared::new(lse));
            let blocks = z.l.div_ceil(BLOCK);
            let work = BLOCK.min(z.l.max(1)) * z.s.max(1) * (z.e + z.ev).max(1);
            parallel_for(pairs * blocks, (1usize << 18).div_ceil(work), |range| {
                let mut scores = Scratch::<A>::any(BLOCK.min(z.l) * z.s);
                for i in range {
                    let (pair, first) = (i / blocks, i % blocks * BLOCK);
                    let rows = BLOCK.min(z.l - first);
                    let seen = spec.seen(first + rows, z.s);
                    let q = &q[(pair * z.l + first) * z.e..][..rows * z.e];
                    let (k, v) = (&k[pair * z.s * z.e..][..z.s * z.e], &v[pair * z.s * z.ev..][..z.s * z.ev]);
                    // SAFETY: blocks are disjoint.
                    let (out, lse) = unsafe {
                        (out.slice((pair * z.l + first) * z.ev, rows * z.ev), lse.slice(pair * z.l + first, rows))
                    };
                    let scores = &mut scores[..rows * seen];
                    // SAFETY: the slices have the sizes given.
                    unsafe {
                        gemm(rows, seen, z.e, A::of(spec.scale), Mat::new(q, z.e, 1), Mat::new(k, 1, z.e), A::ZERO,
                            MatMut::new(scores, seen, 1), false);
                    }
                    for r in 0..rows {
                        let row = &mut scores[r * seen..][..seen];
                        spec.apply(pair / z.heads, pair % z.heads, first + r, row);
                        lse[r] = weights(row);
                    }
                    // SAFETY: as above.
                    unsafe {
                        gemm(rows, z.ev, seen, A::ONE, Mat::new(scores, seen, 1), Mat::new(v, z.ev, 1), A::ZERO,
                            MatMut::new(out, z.ev, 1), false);
                    }
                }
            });
        }));
    });
}

simd! {
    /// Softmax of a row in place; returns its log-sum-exp. A row of only minus infinity becomes zeros.
    fn weights<A: Real>(row: &mut [A]) -> A {
        let max = max_of(row);
        if max == A::NEG_INF && row.iter().all(|v| *v == A::NEG_INF) {
            row.fill(A::ZERO);
            return A::NEG_INF;
        }
        for v in row.iter_mut() {
            *v = (*v - max).exp();
        }
        let sum = crate::real::sum_of(row, |v| v);
        let factor = A::ONE / sum;
        for v in row.iter_mut() {
            *v *= factor;
        }
        max + sum.ln()
    }
}

/// Gradients of [`attention`] for `q`, `k`, `v`: `g`, `o` are the output's gradient and the output, `lse` what the forward pass
/// wrote. A mask gets no gradient.
pub fn attention_backward(
    g: &View,
    q: &View,
    k: &View,
    v: &View,
    o: &View,
    lse: &View,
    spec: &Attention,
    gq: &mut ViewMut,
    gk: &mut ViewMut,
    gv: &mut ViewMut,
) {
    let (pairs, z) = sizes(q.sizes(), k.sizes(), v.sizes());
    for_acc!(q.dtype(), A => {
        let (g, q, k, v, o, lse) =
            (input::<A>(g), input::<A>(q), input::<A>(k), input::<A>(v), input::<A>(o), input::<A>(lse));
        output::<A, _>(gq, |gq| output::<A, _>(gk, |gk| output::<A, _>(gv, |gv| {
            let (gq, gk, gv) = (Shared::new(gq), Shared::new(gk), Shared::new(gv));
            // Few heads: the products themselves run on several threads instead.
            let inside = pairs < num_threads();
            let work = (z.l * z.s * (z.e + z.ev)).max(1);
            parallel_for(pairs, if inside { pairs.max(1) } else { (1usize << 18).div_ceil(work) }, |range| {
                let mut scratch = Scratch::<A>::any(2 * BLOCK.min(z.l) * z.s);
                let (p, dp) = scratch.split_at_mut(BLOCK.min(z.l) * z.s);
                for pair in range {
                    let (k, v) = (&k[pair * z.s * z.e..][..z.s * z.e], &v[pair * z.s * z.ev..][..z.s * z.ev]);
                    // SAFETY: heads are disjoint.
                    let (gk, gv) =
                        unsafe { (gk.slice(pair * z.s * z.e, z.s * z.e), gv.slice(pair * z.s * z.ev, z.s * z.ev)) };
                    gk.fill(A::ZERO);
                    gv.fill(A::ZERO);
                    for first in (0..z.l).step_by(BLOCK) {
                        let rows = BLOCK.min(z.l - first);
                        let seen = spec.seen(first + rows, z.s);
                        let base = pair * z.l + first;
                        let (q, g, o) = (
                            &q[base * z.e..][..rows * z.e], &g[base * z.ev..][..rows * z.ev], &o[base * z.ev..][..rows * z.ev],
                        );
                        // SAFETY: as above.
                        let gq = unsafe { gq.slice(base * z.e, rows * z.e) };
                        let (p, dp) = (&mut p[..rows * seen], &mut dp[..rows * seen]);
                        let (qm, gm) = (Mat::new(q, z.e, 1), Mat::new(g, z.ev, 1));
                        // SAFETY: the slices have the sizes given.
                        unsafe {
                            gemm(rows, seen, z.e, A::of(spec.scale), qm, Mat::new(k, 1, z.e), A::ZERO,
                                MatMut::new(p, seen, 1), inside);
                            gemm(rows, seen, z.ev, A::ONE, gm, Mat::new(v, 1, z.ev), A::ZERO,
                                MatMut::new(dp, seen, 1), inside);
                        }
                        for r in 0..rows {
                            let row = &mut p[r * seen..][..seen];
                            spec.apply(pair / z.heads, pair % z.heads, first + r, row);
                            let delta = dot(&g[r * z.ev..][..z.ev], &o[r * z.ev..][..z.ev]);
                            score_gradient(row, &mut dp[r * seen..][..seen], lse[base + r], delta, A::of(spec.scale));
                        }
                        let (pm, dm) = (Mat::new(p, seen, 1), Mat::new(dp, seen, 1));
                        // SAFETY: as above.
                        unsafe {
                            gemm(seen, z.ev, rows, A::ONE, pm.t(), gm, A::ONE, MatMut::new(gv, z.ev, 1), inside);
                            gemm(rows, z.e, seen, A::ONE, dm, Mat::new(k, z.e, 1), A::ZERO, MatMut::new(gq, z.e, 1), inside);
                            gemm(seen, z.e, rows, A::ONE, dm.t(), qm, A::ONE, MatMut::new(gk, z.e, 1), inside);
                        }
                    }
                }
            });
        })));
    });
}

simd! {
    fn dot<A: Real>(x: &[A], y: &[A]) -> A {
        sum_of2(x, y, |a, b| a * b)
    }
}

simd! {
    /// From scores to weights, and from the weights' gradient to the scores' (with the scale in it).
    fn score_gradient<A: Real>(p: &mut [A], dp: &mut [A], lse: A, delta: A, scale: A) {
        if lse == A::NEG_INF {
            p.fill(A::ZERO);
            dp.fill(A::ZERO);
            return;
        }
        let dp = &mut dp[..p.len()];
        for j in 0..p.len() {
            p[j] = (p[j] - lse).exp();
            dp[j] = p[j] * (dp[j] - delta) * scale;
        }
    }
}
