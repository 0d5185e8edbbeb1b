//! Scaled dot product attention on `[b, h, l, e]`, forward and backward, without a matrix of all weights.
//!
//! Kernels work on blocks of query rows. The scores of a block live in scratch memory and are dropped after the block,
//! so memory grows with `l * block`. The forward pass keeps the log-sum-exp of each row, and the backward pass
//! recomputes the weights from it. A row whose keys are all masked gives zeros, and its log-sum-exp is minus infinity.

use crate::matmul::{Mat, MatMut, gemm};
use crate::par::{Scratch, Shared};
use crate::real::{Real, for_acc, input, max_of, output, simd, sum_of2};
use crate::skinny::{self, Narrow, Operands};
use crate::threads::{num_threads, parallel_for};
use crate::{DType, Element, View, ViewMut};

/// Scale, mask and memory layout of an attention.
#[derive(Clone, Copy)]
pub struct Attention<'a> {
    /// Factor of the products of queries and keys, usually `1 / sqrt(e)`.
    pub scale: f64,
    /// Row `i` attends to the keys `0..=i` only.
    pub is_causal: bool,
    /// Whether operands and results are `[b, l, h, e]` instead of `[b, h, l, e]`. Layers produce the first layout.
    pub rows_first: bool,
    /// Mask of shape `[b, h, l, s]`, broadcast through strides of zero. A `bool` mask keeps the scores where it is
    /// true. A floating-point mask is added to the scores.
    pub mask: Option<View<'a>>,
}

#[derive(Clone, Copy)]
struct Sizes {
    heads: usize,
    /// Number of query heads that share a head of keys and values.
    group: usize,
    l: usize,
    s: usize,
    e: usize,
    ev: usize,
}

impl Attention<'_> {
    /// Return the dimensions of heads and of rows.
    fn dimensions(&self) -> [usize; 2] {
        if self.rows_first { [2, 1] } else { [1, 2] }
    }

    /// Return `batch * heads`, and the sizes.
    fn sizes(&self, q: &View, k: &View, v: &View) -> (usize, Sizes) {
        let (q, k, v) = (q.sizes(), k.sizes(), v.sizes());
        assert!(q.len() == 4 && k.len() == 4 && v.len() == 4, "attention: operands have four dimensions");
        let [heads, rows] = self.dimensions();
        let group = q[heads] / k[heads].max(1);
        (q[0] * q[heads], Sizes { heads: q[heads], group, l: q[rows], s: k[rows], e: q[3], ev: v[3] })
    }

    /// Return the number of query rows per block. A causal mask gets smaller blocks, so that fewer masked scores are
    /// computed.
    fn block(&self) -> usize {
        if self.is_causal { 32 } else { 64 }
    }

    /// Return the number of keys that the rows below `end` attend to.
    fn seen(&self, end: usize, s: usize) -> usize {
        if self.is_causal { end.min(s) } else { s }
    }

    /// Mask the scores of row `i` of one head and the keys from `first` on: set masked scores to minus infinity.
    fn apply<A: Real>(&self, batch: usize, head: usize, i: usize, first: usize, row: &mut [A]) {
        if let Some(mask) = self.mask {
            let t = mask.strides();
            let at = batch * t[0] + head * t[1] + i * t[2] + first * t[3];
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
                        // SAFETY: the mask covers `[b, h, l, s]`, and `T` is its dtype.
                        let m = unsafe { *mask.ptr().cast::<T>().add(at + j * t[3]) };
                        *v += A::from_f64(Element::to_f64(m));
                    }
                }),
            }
        }
        if self.is_causal && i + 1 < first + row.len() {
            row[(i + 1).saturating_sub(first)..].fill(A::NEG_INF);
        }
    }
}

/// The rows of all heads. The elements of a row are contiguous. The rows themselves may lie anywhere.
struct Heads<P> {
    at: P,
    heads: usize,
    /// Strides in elements of the batch, head and row dimensions.
    strides: [usize; 3],
}

impl<P: Copy> Heads<P> {
    fn new(at: P, sizes: &[usize], strides: &[usize], [heads, rows]: [usize; 2]) -> Heads<P> {
        Heads { at, heads: sizes[heads], strides: [strides[0], strides[heads], strides[rows]] }
    }
    /// Return the offset in elements of row `i` of the head `pair`, counted over all batches.
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

/// Whether kernels can read and write the rows of a view in place: the dtype is `A`, and each row is contiguous.
fn is_in_place<A: Element>(dtype: DType, sizes: &[usize], strides: &[usize]) -> bool {
    dtype == A::DTYPE && (strides[3] == 1 || sizes[3] == 1)
}

impl Attention<'_> {
    /// Call `f` with the heads of the views `x`. Copies a view only if its rows cannot be read in place.
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

    /// Call `f` with the heads of `y` for writing. Their initial values are unspecified.
    fn write<A: Real>(&self, y: &mut ViewMut, f: impl FnOnce(Heads<*mut A>)) {
        let sizes = y.sizes();
        if is_in_place::<A>(y.dtype(), sizes, y.strides()) {
            return f(Heads::new(y.ptr().cast(), sizes, y.strides(), self.dimensions()));
        }
        output::<A, _>(y, |y| f(Heads::new(y.as_mut_ptr(), sizes, &contiguous(sizes), self.dimensions())));
    }
}

// SAFETY: the rows outlive the kernel, and threads only read them.
unsafe impl<A: Sync> Sync for Heads<*const A> {}
// SAFETY: the rows outlive the kernel, and each thread writes its own rows.
unsafe impl<A: Send> Sync for Heads<*mut A> {}

impl<A: Real> Heads<*const A> {
    /// Return the rows of the head `pair` from row `i` on, as a matrix.
    fn rows(&self, pair: usize, i: usize) -> Mat<A> {
        // SAFETY: `pair` and `i` name a row of the view.
        unsafe { Mat::at(self.at.add(self.before(pair, i)), self.row(), 1) }
    }
}

impl<A: Real> Heads<*mut A> {
    /// Return the rows of the head `pair` from row `i` on, as a matrix for writing.
    fn rows(&self, pair: usize, i: usize) -> MatMut<A> {
        // SAFETY: `pair` and `i` name a row of the view.
        unsafe { MatMut::at(self.at.add(self.before(pair, i)), self.row(), 1) }
    }
    /// Set the first `rows` rows of the head `pair` to zero.
    fn clear(&self, pair: usize, rows: usize, width: usize) {
        for i in 0..rows {
            // SAFETY: the row is one of the view's, and its elements are contiguous. All-zero bytes are the number
            // zero.
            unsafe { self.at.add(self.before(pair, i)).write_bytes(0, width) };
        }
    }
}

/// Compute `out = softmax(scale * q @ k^T + mask) @ v` for `q: [b, h, l, e]`, `k: [b, h, s, e]` and `v: [b, h, s, ev]`.
/// Writes `out: [b, h, l, ev]` and `lse: [b, h, l]`. The operands may have any strides. If `k` and `v` have fewer heads
/// than `q`, each of them belongs to a run of query heads.
pub fn attention(q: &View, k: &View, v: &View, spec: &Attention, out: &mut ViewMut, lse: &mut ViewMut) {
    let (pairs, z) = spec.sizes(q, k, v);
    if z.l <= FEW && z.l * z.group <= MOST_ROWS && are_read_in_place(k, v) {
        match k.dtype() {
            DType::F32 => return few_queries::<f32>(q, k, v, spec, out, lse),
            DType::BF16 => return few_queries::<crate::bf16>(q, k, v, spec, out, lse),
            DType::F16 => return few_queries::<crate::f16>(q, k, v, spec, out, lse),
            _ => {}
        }
    }
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
                    let shared = pair / z.group;
                    let rows = block.min(z.l - first);
                    let seen = spec.seen(first + rows, z.s);
                    // SAFETY: the block is in bounds, and one thread uses it.
                    let lse = unsafe { lse.slice(pair * z.l + first, rows) };
                    let scores = &mut scores[..rows * seen];
                    // SAFETY: the heads have the sizes `z`, and one thread writes the block.
                    unsafe {
                        gemm(rows, seen, z.e, A::of(spec.scale), q.rows(pair, first), k.rows(shared, 0).t(), A::ZERO,
                            MatMut::new(scores, seen, 1), false, None);
                    }
                    for r in 0..rows {
                        let row = &mut scores[r * seen..][..seen];
                        spec.apply(pair / z.heads, pair % z.heads, first + r, 0, row);
                        lse[r] = weights(row);
                    }
                    // SAFETY: the heads have the sizes `z`, and one thread writes the block.
                    unsafe {
                        gemm(rows, z.ev, seen, A::ONE, Mat::new(scores, seen, 1), v.rows(shared, 0), A::ZERO,
                            out.rows(pair, first), false, None);
                    }
                }
            });
        })));
    });
}

/// Number of queries of a head for which keys and values are read where they are, and largest number of queries that
/// share them.
const FEW: usize = 8;
const MOST_ROWS: usize = 64;
/// Number of keys of a block.
const KEYS: usize = 256;

fn are_read_in_place(k: &View, v: &View) -> bool {
    [k, v].iter().all(|x| x.strides()[3] == 1 || x.sizes()[3] == 1)
}

/// [`attention`] of few queries, such as the next token's: it costs as much as reading the keys and values once.
///
/// All queries that share a head of keys and values are rows of the same products, and the keys are divided into blocks
/// of [`KEYS`]. Each block computes its own weights, which are the largest score apart, and their sum. The blocks are
/// then merged in their order, so results do not depend on the number of threads.
fn few_queries<T: Narrow>(q: &View, k: &View, v: &View, spec: &Attention, out: &mut ViewMut, lse: &mut ViewMut) {
    let (pairs, z) = spec.sizes(q, k, v);
    let [head, row] = spec.dimensions();
    let (rows, shared) = (z.l * z.group, pairs / z.group.max(1));
    let seen = spec.seen(z.l, z.s);
    let blocks = seen.div_ceil(KEYS);
    let kv = z.heads / z.group.max(1);
    // The queries of each shared head, scaled and padded for the products.
    let width = z.e.next_multiple_of(skinny::PADDED);
    let mut queries = Scratch::<f32>::filled(pairs * z.l * width, 0.0);
    let strides = q.strides();
    for i in 0..pairs * z.l {
        let (pair, l) = (i / z.l, i % z.l);
        let at = pair / z.heads * strides[0] + pair % z.heads * strides[head] + l * strides[row];
        for p in 0..z.e {
            // SAFETY: the element is one of the view's, of its dtype.
            queries[i * width + p] = spec.scale as f32 * unsafe { *q.ptr().cast::<T>().add(at + p * strides[3]) }.up();
        }
        skinny::arrange::<T>(&mut queries[i * width..][..width]);
    }
    // For each block of a shared head: the largest score and the sum of the weights of each row, and the rows.
    let size = rows * (z.ev + 2);
    let mut parts = Scratch::<f32>::any(shared * blocks * size);
    let all = Shared::new(&mut parts);
    let queries = &queries[..];
    let work = KEYS * (z.e + z.ev).max(1) * rows.max(1);
    let (k_at, v_at) = (Shared::at(k.ptr().cast_mut().cast::<T>()), Shared::at(v.ptr().cast_mut().cast::<T>()));
    let (sk, sv) = (k.strides(), v.strides());
    parallel_for(shared * blocks, (1usize << 17).div_ceil(work), |range| {
        let mut scores = Scratch::<f32>::filled(rows * KEYS, 0.0);
        for task in range {
            let (i, first) = (task / blocks, task % blocks * KEYS);
            let keys = KEYS.min(seen - first);
            // SAFETY: one thread uses the part of the block.
            let part = unsafe { all.slice(task * size, size) };
            let (numbers, sums) = part.split_at_mut(2 * rows);
            // SAFETY: the operands are the block's keys and values, and the rows of the queries that share them.
            unsafe {
                let at = |s: &[usize]| i / kv * s[0] + i % kv * s[head] + first * s[row];
                skinny::dots(&Operands {
                    m: rows,
                    n: keys,
                    k: z.e,
                    x: queries.as_ptr().add(i * rows * width),
                    x_row: width,
                    w: k_at.ptr().cast_const().add(at(sk)),
                    w_step: sk[row],
                    y: scores.as_mut_ptr(),
                    y_row: KEYS,
                });
                for r in 0..rows {
                    let pair = i * z.group + r / z.l;
                    let row = &mut scores[r * KEYS..][..keys];
                    spec.apply(pair / z.heads, pair % z.heads, r % z.l, first, row);
                    (numbers[2 * r], numbers[2 * r + 1]) = exponentials(row);
                }
                sums.fill(0.0);
                skinny::sums(&Operands {
                    m: rows,
                    n: z.ev,
                    k: keys,
                    x: scores.as_ptr(),
                    x_row: KEYS,
                    w: v_at.ptr().cast_const().add(at(sv)),
                    w_step: sv[row],
                    y: sums.as_mut_ptr(),
                    y_row: z.ev,
                });
            }
        }
    });
    let (out_strides, lse_strides) = (out.strides().to_vec(), lse.strides().to_vec());
    let (out, lse) = (out.ptr().cast::<T>(), lse.ptr().cast::<f32>());
    let mut total = Scratch::<f32>::any(z.ev);
    for i in 0..pairs * z.l {
        let (pair, l) = (i / z.l, i % z.l);
        let (group, r) = (pair / z.group, pair % z.group * z.l + l);
        let blocks = (0..blocks).map(|b| &parts[(group * blocks + b) * size..][..size]);
        let most = blocks.clone().map(|p| p[2 * r]).fold(f32::NEG_INFINITY, f32::max);
        let mut sum = 0.0;
        total.fill(0.0);
        for part in blocks {
            // A block without a visible key has only minus infinity.
            let factor = if part[2 * r] == f32::NEG_INFINITY { 1.0 } else { (part[2 * r] - most).exp() };
            sum += factor * part[2 * r + 1];
            let row = &part[2 * rows + r * z.ev..][..z.ev];
            total.iter_mut().zip(row).for_each(|(t, v)| *t += factor * v);
        }
        let factor = if sum == 0.0 { 0.0 } else { 1.0 / sum };
        let (b, h) = (pair / z.heads, pair % z.heads);
        let at = b * out_strides[0] + h * out_strides[head] + l * out_strides[row];
        for (j, v) in total.iter().enumerate() {
            // SAFETY: the element is one of the output's, of its dtype. Only this thread writes it.
            unsafe { *out.add(at + j * out_strides[3]) = T::down(if sum == 0.0 { 0.0 } else { v * factor }) };
        }
        // SAFETY: as above; `lse` has the dtype of arithmetic.
        unsafe { *lse.add(b * lse_strides[0] + h * lse_strides[1] + l * lse_strides[2]) = most + sum.ln() };
    }
}

simd! {
    /// Replace scores by their exponentials, divided by that of the largest. Return the largest score and the sum.
    /// Scores of only minus infinity become zeros.
    fn exponentials(row: &mut [f32]) -> (f32, f32) {
        let most = max_of(row);
        if most == f32::NEG_INFINITY && row.iter().all(|v| *v == f32::NEG_INFINITY) {
            row.fill(0.0);
            return (most, 0.0);
        }
        for v in row.iter_mut() {
            *v = Real::exp(*v - most);
        }
        (most, crate::real::sum_of(row, |v| v))
    }
}

simd! {
    /// Compute the softmax of a row in place and return its log-sum-exp. A row of only minus infinity becomes zeros.
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

/// Compute the gradients of [`attention`] for `q`, `k` and `v` from the output's gradient `g` and the `lse` of the
/// forward pass. A mask gets no gradient.
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
        spec.read::<A, 4>([g, q, k, v], |[g, q, k, v]|
            spec.write::<A>(gq, |gq| spec.write::<A>(gk, |gk| spec.write::<A>(gv, |gv| {
            // With few heads, parallelise inside the products instead of over the heads.
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
                        // SAFETY: the heads have the sizes `z`, and one thread writes the head.
                        unsafe {
                            gemm(rows, seen, z.e, A::of(spec.scale), q, k.t(), A::ZERO, MatMut::new(p, seen, 1),
                                inside, None);
                            gemm(rows, seen, z.ev, A::ONE, g, v.t(), A::ZERO, MatMut::new(dp, seen, 1), inside, None);
                        }
                        for r in 0..rows {
                            let row = &mut p[r * seen..][..seen];
                            spec.apply(pair / z.heads, pair % z.heads, first + r, 0, row);
                            let lse = lse[pair * z.l + first + r];
                            score_gradient(row, &mut dp[r * seen..][..seen], lse, A::of(spec.scale));
                        }
                        let (pm, dm) = (Mat::new(p, seen, 1), Mat::new(dp, seen, 1));
                        // SAFETY: the heads have the sizes `z`, and one thread writes the head.
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
    /// Turn scores `p` into weights, and the weights' gradient `dp` into the scores' gradient, scale included.
    fn score_gradient<A: Real>(p: &mut [A], dp: &mut [A], lse: A, scale: A) {
        if lse == A::NEG_INF {
            p.fill(A::ZERO);
            dp.fill(A::ZERO);
            return;
        }
        for p in p.iter_mut() {
            *p = (*p - lse).exp();
        }
        // The weights sum to one except for the rounding of `lse`. That error is common to all weights, so divide by
        // their sum.
        let factor = A::ONE / crate::real::sum_of(p, |p| p);
        // The softmax gradient subtracts `sum(out * g)`, which equals the sum of weights times their gradients.
        let delta = factor * sum_of2(p, dp, |p, dp| p * dp);
        for (p, dp) in p.iter_mut().zip(dp) {
            *p *= factor;
            *dp = *p * (*dp - delta) * scale;
        }
    }
}
