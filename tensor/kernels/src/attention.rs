//! Scaled dot product attention on `[b, h, l, e]`, forward and backward, without the matrix of all weights.
//!
//! Query rows are taken in blocks; a block's scores against the keys that it may see live in scratch memory and are gone when the
//! block is done, so memory grows with `l * block`. The forward pass keeps the log-sum-exp of each row, from which the
//! backward pass computes the weights again. A row that may see nothing gives zeros, and its log-sum-exp is minus infinity.

use crate::matmul::{Mat, MatMut, gemm};
use crate::par::{Scratch, Shared};
use crate::real::{Real, for_acc, input, max_of, output, simd, sum_of2};
use crate::threads::{num_threads, parallel_for};
use crate::{DType, Element, View, ViewMut};

/// What scores go through before the softmax.
#[derive(Clone, Copy)]
pub struct Attention<'a> {
    /// Factor of the products of queries and keys, usually `1 / sqrt(e)`.
    pub scale: f64,
    /// Row `i` sees the keys `0..=i` only.
    pub is_causal: bool,
    /// Whether operands and results are `[b, l, h, e]` instead of `[b, h, l, e]`, as layers make them.
    pub rows_first: bool,
    /// `[b, h, l, s]`, broadcast through strides of zero: `bool` (true means seen) or a floating-point number that is added.
    pub mask: Option<View<'a>>,
}

#[derive(Clone, Copy)]
struct Sizes {
    heads: usize,
    l: usize,
    s: usize,
    e: usize,
    ev: usize,
}

impl Attention<'_> {
    /// The dimensions of heads and of rows.
    fn dimensions(&self) -> [usize; 2] {
        if self.rows_first { [2, 1] } else { [1, 2] }
    }

    /// The number of all heads, and sizes.
    fn sizes(&self, q: &View, k: &View, v: &View) -> (usize, Sizes) {
        let (q, k, v) = (q.sizes(), k.sizes(), v.sizes());
        assert!(q.len() == 4 && k.len() == 4 && v.len() == 4, "attention: operands have four dimensions");
        let [heads, rows] = self.dimensions();
        (q[0] * q[heads], Sizes { heads: q[heads], l: q[rows], s: k[rows], e: q[3], ev: v[3] })
    }

    /// Query rows of a block. Where each row sees one key more, smaller blocks compute less that is not seen.
    fn block(&self) -> usize {
        if self.is_causal { 32 } else { 64 }
    }

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
                        *v += A::from_f64(Element::to_f64(m));
                    }
                }),
            }
        }
        if self.is_causal && i + 1 < row.len() {
            row[i + 1..].fill(A::NEG_INF);
        }
    }
}

/// The rows of all heads, each with its numbers side by side, wherever the rows lie.
struct Heads<P> {
    at: P,
    heads: usize,
    /// Elements from a batch, a head and a row to the next.
    strides: [usize; 3],
}

impl<P: Copy> Heads<P> {
    fn new(at: P, sizes: &[usize], strides: &[usize], [heads, rows]: [usize; 2]) -> Heads<P> {
        Heads { at, heads: sizes[heads], strides: [strides[0], strides[heads], strides[rows]] }
    }
    /// Elements before row `i` of the head with this number in the batches.
    fn before(&self, pair: usize, i: usize) -> usize {
        let [batch, head, row] = self.strides;
        pair / self.heads * batch + pair % self.heads * head + i * row
    }
    fn row(&self) -> usize {
        self.strides[2]
    }
}

fn contiguous(sizes: &[usize]) -> [usize; 4] {
    let rows = sizes[2] * sizes[3];
    [sizes[1] * rows, rows, sizes[3], 1]
}

/// Whether a view's rows are read and written where they lie.
fn is_in_place<A: Element>(dtype: DType, sizes: &[usize], strides: &[usize]) -> bool {
    dtype == A::DTYPE && (strides[3] == 1 || sizes[3] == 1)
}

impl Attention<'_> {
    /// Lets `f` read the heads of views, of which it gets copies only where their rows are not what it computes with.
    fn read<A: Real, const N: usize>(&self, x: [&View; N], f: impl FnOnce([Heads<*const A>; N])) {
        let copies = x.map(|x| (!is_in_place::<A>(x.dtype(), x.sizes(), x.strides())).then(|| input::<A>(x)));
        f(std::array::from_fn(|i| {
            let (sizes, dimensions) = (x[i].sizes(), self.dimensions());
            match &copies[i] {
                Some(copy) => Heads::new(copy.as_ptr(), sizes, &contiguous(sizes), dimensions),
                None => Heads::new(x[i].ptr().cast(), sizes, x[i].strides(), dimensions),
            }
        }));
    }

    /// Lets `f` write the heads of a view, whose first values are unspecified.
    fn write<A: Real>(&self, y: &mut ViewMut, f: impl FnOnce(Heads<*mut A>)) {
        let sizes = y.sizes();
        if is_in_place::<A>(y.dtype(), sizes, y.strides()) {
            return f(Heads::new(y.ptr().cast(), sizes, y.strides(), self.dimensions()));
        }
        output::<A, _>(y, |y| f(Heads::new(y.as_mut_ptr(), sizes, &contiguous(sizes), self.dimensions())));
    }
}

// SAFETY: rows that outlive the kernel; threads write different ones.
unsafe impl<A: Sync> Sync for Heads<*const A> {}
// SAFETY: as above.
unsafe impl<A: Send> Sync for Heads<*mut A> {}

impl<A: Real> Heads<*const A> {
    /// The rows of a head from row `i` on.
    fn rows(&self, pair: usize, i: usize) -> Mat<A> {
        // SAFETY: the row is one of the view's.
        unsafe { Mat::at(self.at.add(self.before(pair, i)), self.row(), 1) }
    }
}

impl<A: Real> Heads<*mut A> {
    /// As for heads that are read.
    fn rows(&self, pair: usize, i: usize) -> MatMut<A> {
        // SAFETY: as above.
        unsafe { MatMut::at(self.at.add(self.before(pair, i)), self.row(), 1) }
    }
    /// Zeros for the first rows of a head.
    fn clear(&self, pair: usize, rows: usize, width: usize) {
        for i in 0..rows {
            // SAFETY: as above, and numbers lie side by side; zeros are numbers.
            unsafe { self.at.add(self.before(pair, i)).write_bytes(0, width) };
        }
    }
}

/// `out = softmax(scale * q @ k^T + mask) @ v` for `q: [b, h, l, e]`, `k: [b, h, s, e]`, `v: [b, h, s, ev]`; writes
/// `out: [b, h, l, ev]` and `lse: [b, h, l]`. Rows may lie anywhere.
pub fn attention(q: &View, k: &View, v: &View, spec: &Attention, out: &mut ViewMut, lse: &mut ViewMut) {
    let (pairs, z) = spec.sizes(q, k, v);
    for_acc!(q.dtype(), A => {
        spec.read::<A, 3>([q, k, v], |[q, k, v]| spec.write::<A>(out, |out| output::<A, _>(lse, |lse| {
            let lse = Shared::new(lse);
            let block = spec.block();
            let blocks = z.l.div_ceil(block);
            let work = block.min(z.l.max(1)) * z.s.max(1) * (z.e + z.ev).max(1);
            parallel_for(pairs * blocks, (1usize << 18).div_ceil(work), |range| {
                let mut scores = Scratch::<A>::any(block.min(z.l) * z.s);
                for i in range {
                    let (pair, first) = (i / blocks, i % blocks * block);
                    let rows = block.min(z.l - first);
                    let seen = spec.seen(first + rows, z.s);
                    // SAFETY: blocks are disjoint.
                    let lse = unsafe { lse.slice(pair * z.l + first, rows) };
                    let scores = &mut scores[..rows * seen];
                    // SAFETY: the heads have the sizes given.
                    unsafe {
                        gemm(rows, seen, z.e, A::of(spec.scale), q.rows(pair, first), k.rows(pair, 0).t(), A::ZERO,
                            MatMut::new(scores, seen, 1), false, None);
                    }
                    for r in 0..rows {
                        let row = &mut scores[r * seen..][..seen];
                        spec.apply(pair / z.heads, pair % z.heads, first + r, row);
                        lse[r] = weights(row);
                    }
                    // SAFETY: as above.
                    unsafe {
                        gemm(rows, z.ev, seen, A::ONE, Mat::new(scores, seen, 1), v.rows(pair, 0), A::ZERO,
                            out.rows(pair, first), false, None);
                    }
                }
            });
        })));
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

/// Gradients of [`attention`] for `q`, `k`, `v`: `g` is the output's gradient, `lse` what the forward pass wrote. A mask gets no
/// gradient.
pub fn attention_backward(
    g: &View,
    q: &View,
    k: &View,
    v: &View,
    lse: &View,
    spec: &Attention,
    gq: &mut ViewMut,
    gk: &mut ViewMut,
    gv: &mut ViewMut,
) {
    let (pairs, z) = spec.sizes(q, k, v);
    for_acc!(q.dtype(), A => {
        let lse = input::<A>(lse);
        spec.read::<A, 4>([g, q, k, v], |[g, q, k, v]| spec.write::<A>(gq, |gq| spec.write::<A>(gk, |gk| spec.write::<A>(gv, |gv| {
            // Few heads: the products themselves run on several threads instead.
            let inside = pairs < num_threads();
            let block = spec.block();
            let work = (z.l * z.s * (z.e + z.ev)).max(1);
            parallel_for(pairs, if inside { pairs.max(1) } else { (1usize << 18).div_ceil(work) }, |range| {
                let mut scratch = Scratch::<A>::any(2 * block.min(z.l) * z.s);
                let (p, dp) = scratch.split_at_mut(block.min(z.l) * z.s);
                for pair in range {
                    let (k, v) = (k.rows(pair, 0), v.rows(pair, 0));
                    gk.clear(pair, z.s, z.e);
                    gv.clear(pair, z.s, z.ev);
                    for first in (0..z.l).step_by(block) {
                        let rows = block.min(z.l - first);
                        let seen = spec.seen(first + rows, z.s);
                        let (p, dp) = (&mut p[..rows * seen], &mut dp[..rows * seen]);
                        let (q, g) = (q.rows(pair, first), g.rows(pair, first));
                        // SAFETY: the heads have the sizes given.
                        unsafe {
                            gemm(rows, seen, z.e, A::of(spec.scale), q, k.t(), A::ZERO, MatMut::new(p, seen, 1), inside, None);
                            gemm(rows, seen, z.ev, A::ONE, g, v.t(), A::ZERO, MatMut::new(dp, seen, 1), inside, None);
                        }
                        for r in 0..rows {
                            let row = &mut p[r * seen..][..seen];
                            spec.apply(pair / z.heads, pair % z.heads, first + r, row);
                            let lse = lse[pair * z.l + first + r];
                            score_gradient(row, &mut dp[r * seen..][..seen], lse, A::of(spec.scale));
                        }
                        let (pm, dm) = (Mat::new(p, seen, 1), Mat::new(dp, seen, 1));
                        // SAFETY: as above; heads are disjoint.
                        unsafe {
                            gemm(seen, z.ev, rows, A::ONE, pm.t(), g, A::ONE, gv.rows(pair, 0), inside, None);
                            gemm(rows, z.e, seen, A::ONE, dm, k, A::ZERO, gq.rows(pair, first), inside, None);
                            gemm(seen, z.e, rows, A::ONE, dm.t(), q, A::ONE, gk.rows(pair, 0), inside, None);
                        }
                    }
                }
            });
        }))));
    });
}

simd! {
    /// From scores to weights, and from the weights' gradient to the scores' (with the scale in it).
    fn score_gradient<A: Real>(p: &mut [A], dp: &mut [A], lse: A, scale: A) {
        if lse == A::NEG_INF {
            p.fill(A::ZERO);
            dp.fill(A::ZERO);
            return;
        }
        for p in p.iter_mut() {
            *p = (*p - lse).exp();
        }
        // The weights' sum is one but for the rounding of `lse`, which all of them share and which is taken out again.
        let factor = A::ONE / crate::real::sum_of(p, |p| p);
        // What the softmax takes off: the products of the output and its gradient, which are those of weights and their gradients.
        let delta = factor * sum_of2(p, dp, |p, dp| p * dp);
        for (p, dp) in p.iter_mut().zip(dp) {
            *p *= factor;
            *dp = *p * (*dp - delta) * scale;
        }
    }
}
