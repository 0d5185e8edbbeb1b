//! Normalisations and their gradients: layer, root-mean-square, batch and group.
//!
//! Variances are computed in a second pass over data in the cache, not from sums of squares. Statistics may have any
//! floating-point dtype; use `f32` for `f16` and `bf16` data. Weights, biases and the outputs of backward passes are
//! optional. Outputs must not overlap inputs.

use crate::par::{Scratch, Shared, prefetch};
use crate::real::{Input, Real, for_acc, input, output, simd, sum_of, sum_of2};
use crate::threads::{GRAIN, num_threads, parallel_for};
use crate::{View, ViewMut};

fn optional<'a, A: Real>(x: Option<&View<'a>>) -> Option<Input<'a, A>> {
    x.map(input::<A>)
}

/// Like [`output`], for an optional output. `f` gets `None` if there is none.
fn optional_output<A: Real, R>(out: Option<&mut ViewMut>, f: impl FnOnce(Option<&mut [A]>) -> R) -> R {
    match out {
        Some(out) => output::<A, _>(out, |out| f(Some(out))),
        None => f(None),
    }
}

fn shared<A>(x: Option<&mut [A]>) -> Option<Shared<A>> {
    x.map(Shared::new)
}

/// Compute `y = (x - mean) * rstd * w + b` over rows of the last `n` elements (flattened), with
/// `rstd = 1 / sqrt(var + eps)`.
///
/// `x` and `y` are `[.., n..]`. `w` and `b` have `n` elements. `mean` and `rstd` have one element per row, in row
/// order.
pub fn layer_norm(
    x: &View,
    n: usize,
    w: Option<&View>,
    b: Option<&View>,
    eps: f64,
    y: &mut ViewMut,
    mean: &mut ViewMut,
    rstd: &mut ViewMut,
) {
    for_acc!(x.dtype(), A => {
        let (x, w, b) = (input::<A>(x), optional::<A>(w), optional::<A>(b));
        let (w, b) = (w.as_deref(), b.as_deref());
        let rows = mean.numel();
        assert!(x.len() == rows * n && rstd.numel() == rows, "layer_norm: wrong size of statistics");
        output::<A, _>(y, |y| output::<A, _>(mean, |mean| output::<A, _>(rstd, |rstd| {
            let (y, mean, rstd) = (Shared::new(y), Shared::new(mean), Shared::new(rstd));
            parallel_for(rows, GRAIN.div_ceil(n.max(1)), |range| {
                for row in range {
                    let (x, next) = x[row * n..].split_at(n);
                    // SAFETY: the row is in bounds, and one thread uses it.
                    let (y, mean, rstd) = unsafe { (y.slice(row * n, n), mean.slice(row, 1), rstd.slice(row, 1)) };
                    (mean[0], rstd[0]) = layer_norm_row(x, w, b, A::of(eps), y, next);
                }
            });
        })));
    });
}

/// Return the mean and variance of a row.
#[inline(always)]
fn moments<A: Real>(x: &[A]) -> (A, A) {
    let n = A::of(x.len() as f64);
    let mean = sum_of(x, |v| v) / n;
    let var = sum_of(x, |v| (v - mean) * (v - mean)) / n;
    (mean, var)
}

simd! {
    fn layer_norm_row<A: Real>(x: &[A], w: Option<&[A]>, b: Option<&[A]>, eps: A, y: &mut [A], next: &[A]) -> (A, A) {
        let (mean, var) = moments(x);
        let rstd = A::ONE / (var + eps).sqrt();
        // Prefetch the next row while this one is written.
        const BLOCK: usize = 128;
        for (i, (x, y)) in x.chunks(BLOCK).zip(y.chunks_mut(BLOCK)).enumerate() {
            let here = i * BLOCK..i * BLOCK + x.len();
            prefetch(next.get(here.clone()).unwrap_or_default());
            affine(x, rstd, -(mean * rstd), w.map(|w| &w[here.clone()]), b.map(|b| &b[here.clone()]), y);
        }
        (mean, rstd)
    }
}

/// Compute `y = (x * scale + shift) * w + b`.
#[inline(always)]
fn affine<A: Real>(x: &[A], scale: A, shift: A, w: Option<&[A]>, b: Option<&[A]>, y: &mut [A]) {
    let n = y.len();
    let x = &x[..n];
    match (w, b) {
        (Some(w), Some(b)) => {
            let (w, b) = (&w[..n], &b[..n]);
            for i in 0..n {
                y[i] = (x[i] * scale + shift) * w[i] + b[i];
            }
        }
        (Some(w), None) => {
            let w = &w[..n];
            for i in 0..n {
                y[i] = (x[i] * scale + shift) * w[i];
            }
        }
        (None, Some(b)) => {
            let b = &b[..n];
            for i in 0..n {
                y[i] = x[i] * scale + shift + b[i];
            }
        }
        (None, None) => {
            for i in 0..n {
                y[i] = x[i] * scale + shift;
            }
        }
    }
}

/// Compute the gradients of [`layer_norm`] for `x`, `w` and `b`, each only if an output is given.
pub fn layer_norm_backward(
    g: &View,
    x: &View,
    n: usize,
    mean: &View,
    rstd: &View,
    w: Option<&View>,
    gx: Option<&mut ViewMut>,
    gw: Option<&mut ViewMut>,
    gb: Option<&mut ViewMut>,
) {
    rows_backward(g, x, n, Some(mean), rstd, w, gx, gw, gb);
}

/// Compute `y = x * rstd * w` over rows of the last `n` elements, with `rstd = 1 / sqrt(mean(x^2) + eps)`.
pub fn rms_norm(x: &View, n: usize, w: Option<&View>, eps: f64, y: &mut ViewMut, rstd: &mut ViewMut) {
    for_acc!(x.dtype(), A => {
        let (x, w) = (input::<A>(x), optional::<A>(w));
        let w = w.as_deref();
        let rows = rstd.numel();
        assert!(x.len() == rows * n, "rms_norm: wrong size of statistics");
        output::<A, _>(y, |y| output::<A, _>(rstd, |rstd| {
            let (y, rstd) = (Shared::new(y), Shared::new(rstd));
            parallel_for(rows, GRAIN.div_ceil(n.max(1)), |range| {
                for row in range {
                    // SAFETY: the row is in bounds, and one thread uses it.
                    let (y, rstd) = unsafe { (y.slice(row * n, n), rstd.slice(row, 1)) };
                    rstd[0] = rms_norm_row(&x[row * n..][..n], w, A::of(eps), y);
                }
            });
        }));
    });
}

simd! {
    fn rms_norm_row<A: Real>(x: &[A], w: Option<&[A]>, eps: A, y: &mut [A]) -> A {
        let rstd = A::ONE / (sum_of(x, |v| v * v) / A::of(x.len() as f64) + eps).sqrt();
        affine(x, rstd, A::ZERO, w, None, y);
        rstd
    }
}

/// Compute the gradients of [`rms_norm`] for `x` and `w`, each only if an output is given.
pub fn rms_norm_backward(
    g: &View,
    x: &View,
    n: usize,
    rstd: &View,
    w: Option<&View>,
    gx: Option<&mut ViewMut>,
    gw: Option<&mut ViewMut>,
) {
    rows_backward(g, x, n, None, rstd, w, gx, gw, None);
}

/// Compute the gradients of both row normalisations. With `h = (x - mean) rstd` and `d = g w`,
/// `gx = rstd (d - mean(d) - h mean(d h))`. Without a mean, the term `mean(d)` is zero.
fn rows_backward(
    g: &View,
    x: &View,
    n: usize,
    mean: Option<&View>,
    rstd: &View,
    w: Option<&View>,
    gx: Option<&mut ViewMut>,
    gw: Option<&mut ViewMut>,
    gb: Option<&mut ViewMut>,
) {
    for_acc!(x.dtype(), A => {
        let (g, x, w) = (input::<A>(g), input::<A>(x), optional::<A>(w));
        let (mean, rstd) = (optional::<A>(mean), input::<A>(rstd));
        let (w, mean) = (w.as_deref(), mean.as_deref());
        let rows = rstd.len();
        let (want_gw, want_gb) = (gw.is_some(), gb.is_some());
        optional_output::<A, _>(gx, |gx| {
            let gx = shared(gx);
            // Each piece has its own pair of partial sums. Pieces are added in order, so results do not depend on
            // timing.
            let pieces = if rows * n < GRAIN { 1 } else { num_threads().min(rows.max(1)) };
            let mut partial = Scratch::filled(2 * pieces * n, A::ZERO);
            let sums = Shared::new(&mut partial);
            parallel_for(pieces, 1, |range| {
                for piece in range {
                    // SAFETY: the sums of the piece are in bounds, and one thread uses the piece.
                    let (gw, gb) = unsafe { (sums.slice(2 * piece * n, n), sums.slice((2 * piece + 1) * n, n)) };
                    for row in piece * rows / pieces..(piece + 1) * rows / pieces {
                        let at = row * n;
                        // SAFETY: the row is in bounds, and one thread uses the piece that holds it.
                        let gx = gx.map(|gx| unsafe { gx.slice(at, n) });
                        let (g, x) = (&g[at..at + n], &x[at..at + n]);
                        let centred = mean.map(|m| m[row]);
                        row_backward(g, x, centred, rstd[row], w, gx, want_gw.then_some(&mut *gw),
                            want_gb.then_some(&mut *gb));
                    }
                }
            });
            let total = |out: &mut [A], which: usize| {
                out.copy_from_slice(&partial[which * n..][..n]);
                for piece in 1..pieces {
                    for (o, &v) in out.iter_mut().zip(&partial[(2 * piece + which) * n..][..n]) {
                        *o += v;
                    }
                }
            };
            if let Some(gw) = gw {
                output::<A, _>(gw, |out| total(out, 0));
            }
            if let Some(gb) = gb {
                output::<A, _>(gb, |out| total(out, 1));
            }
        });
    });
}

simd! {
    fn row_backward<A: Real>(
        g: &[A], x: &[A], mean: Option<A>, rstd: A, w: Option<&[A]>,
        gx: Option<&mut [A]>, gw: Option<&mut [A]>, gb: Option<&mut [A]>
    ) {
        let n = g.len();
        let x = &x[..n];
        let centre = mean.unwrap_or(A::ZERO);
        if let Some(gw) = gw {
            let gw = &mut gw[..n];
            for i in 0..n {
                gw[i] += g[i] * ((x[i] - centre) * rstd);
            }
        }
        if let Some(gb) = gb {
            let gb = &mut gb[..n];
            for i in 0..n {
                gb[i] += g[i];
            }
        }
        let Some(gx) = gx else { return };
        let gx = &mut gx[..n];
        match w {
            Some(w) => {
                let w = &w[..n];
                for i in 0..n {
                    gx[i] = g[i] * w[i];
                }
            }
            None => gx.copy_from_slice(g),
        }
        let count = A::of(n as f64);
        let mean_d = if mean.is_some() { sum_of(gx, |v| v) / count } else { A::ZERO };
        let mean_dh = sum_of2(gx, x, |d, x| d * ((x - centre) * rstd)) / count;
        for i in 0..n {
            gx[i] = rstd * (gx[i] - mean_d - (x[i] - centre) * rstd * mean_dh);
        }
    }
}

/// Return the sizes `(n, c, product of the rest)`.
fn channels(sizes: &[usize]) -> (usize, usize, usize) {
    assert!(sizes.len() >= 2, "norm: data has a channel dimension");
    (sizes[0], sizes[1], sizes[2..].iter().product())
}

/// Number of channels processed together if a channel has too few consecutive elements to vectorise over.
const CHANNELS: usize = 64;

/// Call `f` with ranges of channels, in parallel: one channel at a time if its runs are long, else blocks of channels.
fn over_channels(n: usize, c: usize, s: usize, f: impl Fn(std::ops::Range<usize>) + Sync) {
    let block = if s >= 16 { 1 } else { CHANNELS };
    parallel_for(c.div_ceil(block), GRAIN.div_ceil((n * s * block).max(1)), |range| {
        for i in range {
            f(i * block..((i + 1) * block).min(c));
        }
    });
}

/// Number of rows that share a level of accumulators; see [`in_levels`].
const ROWS: usize = 16;

/// Add up rows `0..n`. `add(i, sums)` adds row `i` to `sums`. Each level of accumulators takes [`ROWS`] rows of the
/// level before, so errors grow with the logarithm of `n`. `add` is called at one place, so that it is inlined and
/// compiled for the caller's instruction set.
#[inline(always)]
fn in_levels<A: Real>(n: usize, sums: &mut [A], mut add: impl FnMut(usize, &mut [A])) {
    let width = sums.len();
    sums.fill(A::ZERO);
    let upper_levels = if n <= ROWS { 0 } else { (n.ilog2() / ROWS.ilog2()) as usize };
    let mut upper = (upper_levels > 0).then(|| Scratch::filled(upper_levels * width, A::ZERO));
    for i in 0..n {
        add(i, sums);
        let (mut full, mut level) = (i + 1, 0);
        while let Some(upper) = upper.as_mut().filter(|_| level < upper_levels && full % ROWS == 0) {
            full /= ROWS;
            let (before, after) = upper.split_at_mut(level * width);
            let lower = if level == 0 { &mut *sums } else { &mut before[(level - 1) * width..] };
            for (u, l) in after[..width].iter_mut().zip(lower) {
                *u += *l;
                *l = A::ZERO;
            }
            level += 1;
        }
    }
    if let Some(upper) = upper.filter(|_| width > 0) {
        for level in upper.chunks(width) {
            for (s, l) in sums.iter_mut().zip(level) {
                *s += *l;
            }
        }
    }
}

simd! {
    /// Add two sums over the batch for a range of channels: `sum y` and `sum y (x - centre[channel])`.
    fn channel_sums<A: Real>(
        x: &[A], y: &[A], n: usize, c: usize, s: usize, start: usize, centre: &[A], sum_y: &mut [A], sum_yx: &mut [A]
    ) {
        let width = sum_y.len();
        let mut both = Scratch::any(2 * width);
        in_levels(n, &mut both, |i, sums| {
            let (sum_y, sum_yx) = sums.split_at_mut(width);
            let at = (i * c + start) * s;
            if s == 1 {
                let (x, y, centre) = (&x[at..at + width], &y[at..at + width], &centre[..width]);
                let (sum_y, sum_yx) = (&mut sum_y[..width], &mut sum_yx[..width]);
                for j in 0..width {
                    sum_y[j] += y[j];
                    sum_yx[j] += y[j] * (x[j] - centre[j]);
                }
                return;
            }
            for j in 0..width {
                let (x, y) = (&x[at + j * s..][..s], &y[at + j * s..][..s]);
                let m = centre[j];
                sum_y[j] += sum_of(y, |v| v);
                sum_yx[j] += sum_of2(x, y, |x, y| y * (x - m));
            }
        });
        sum_y.copy_from_slice(&both[..width]);
        sum_yx.copy_from_slice(&both[width..]);
    }
}

simd! {
    /// Add the squares of `x - centre[channel]` over the batch for a range of channels.
    fn channel_squares<A: Real>(
        x: &[A], n: usize, c: usize, s: usize, start: usize, centre: &[A], sum: &mut [A], squares: bool
    ) {
        let width = sum.len();
        in_levels(n, sum, |i, sum| {
            let at = (i * c + start) * s;
            let sum = &mut sum[..width];
            if s == 1 {
                let (x, centre) = (&x[at..at + width], &centre[..width]);
                for j in 0..width {
                    let d = x[j] - centre[j];
                    sum[j] += if squares { d * d } else { d };
                }
                return;
            }
            for j in 0..width {
                let m = centre[j];
                let x = &x[at + j * s..][..s];
                sum[j] += if squares { sum_of(x, |v| (v - m) * (v - m)) } else { sum_of(x, |v| v - m) };
            }
        });
    }
}

simd! {
    /// Compute `y = x * scale[channel] + shift[channel]` for a range of channels over the batch.
    fn channel_affine<A: Real>(
        x: &[A], n: usize, c: usize, s: usize, start: usize, scale: &[A], shift: &[A], y: Shared<A>
    ) {
        let width = scale.len();
        let shift = &shift[..width];
        for i in 0..n {
            let at = (i * c + start) * s;
            let x = &x[at..at + width * s];
            // SAFETY: the range of channels is in bounds, and only this call uses it.
            let y = unsafe { y.slice(at, width * s) };
            if s == 1 {
                for j in 0..width {
                    y[j] = x[j] * scale[j] + shift[j];
                }
                continue;
            }
            for j in 0..width {
                let (a, b) = (scale[j], shift[j]);
                for (y, &x) in y[j * s..][..s].iter_mut().zip(&x[j * s..][..s]) {
                    *y = x * a + b;
                }
            }
        }
    }
}

/// Compute batch normalisation of `x: [n, c, *]` with the batch's own statistics. Writes `y` and, with one element per
/// channel, `mean`, `invstd = 1 / sqrt(var + eps)` and the biased `var`. The caller updates the running statistics.
pub fn batch_norm_train(
    x: &View,
    w: Option<&View>,
    b: Option<&View>,
    eps: f64,
    y: &mut ViewMut,
    mean: &mut ViewMut,
    invstd: &mut ViewMut,
    var: &mut ViewMut,
) {
    let (n, c, s) = channels(x.sizes());
    for_acc!(x.dtype(), A => {
        let (x, w, b) = (input::<A>(x), optional::<A>(w), optional::<A>(b));
        let (w, b) = (w.as_deref(), b.as_deref());
        let count = A::of((n * s) as f64);
        output::<A, _>(y, |y| output::<A, _>(mean, |mean| output::<A, _>(invstd, |invstd| output::<A, _>(var, |var| {
            let y = Shared::new(y);
            let (mean, invstd, var) = (Shared::new(mean), Shared::new(invstd), Shared::new(var));
            over_channels(n, c, s, |range| {
                let (start, width) = (range.start, range.len());
                // SAFETY: the range of channels is in bounds, and one thread uses it.
                let (mean, invstd, var) =
                    unsafe { (mean.slice(start, width), invstd.slice(start, width), var.slice(start, width)) };
                let (mut scale, mut shift) = (Scratch::filled(width, A::ZERO), Scratch::any(width));
                channel_squares(&x, n, c, s, start, &scale, mean, false);
                for m in mean.iter_mut() {
                    *m /= count;
                }
                channel_squares(&x, n, c, s, start, mean, var, true);
                for j in 0..width {
                    var[j] /= count;
                    invstd[j] = A::ONE / (var[j] + A::of(eps)).sqrt();
                    scale[j] = invstd[j] * w.map_or(A::ONE, |w| w[start + j]);
                    shift[j] = b.map_or(A::ZERO, |b| b[start + j]) - mean[j] * scale[j];
                }
                channel_affine(&x, n, c, s, start, &scale, &shift, y);
            });
        }))));
    });
}

/// Compute batch normalisation with given statistics: `y = (x - mean) / sqrt(var + eps) * w + b`.
pub fn batch_norm_eval(
    x: &View,
    mean: &View,
    var: &View,
    w: Option<&View>,
    b: Option<&View>,
    eps: f64,
    y: &mut ViewMut,
) {
    let (n, c, s) = channels(x.sizes());
    for_acc!(x.dtype(), A => {
        let (x, mean, var, w, b) = (input::<A>(x), input::<A>(mean), input::<A>(var), optional::<A>(w),
            optional::<A>(b));
        output::<A, _>(y, |y| {
            let y = Shared::new(y);
            let (mut scale, mut shift) = (Scratch::any(c), Scratch::any(c));
            for j in 0..c {
                scale[j] = w.as_ref().map_or(A::ONE, |w| w[j]) / (var[j] + A::of(eps)).sqrt();
                shift[j] = b.as_ref().map_or(A::ZERO, |b| b[j]) - mean[j] * scale[j];
            }
            let (scale, shift): (&[A], &[A]) = (&scale, &shift);
            over_channels(n, c, s, |r| channel_affine(&x, n, c, s, r.start, &scale[r.clone()], &shift[r.clone()], y));
        });
    });
}

/// Compute the gradients of batch normalisation for `x`, `w` and `b`, each only if an output is given. `mean` and
/// `invstd` are those of the forward pass: the saved ones if `training`, else the running mean and
/// `1 / sqrt(running_var + eps)`, which are constants.
pub fn batch_norm_backward(
    g: &View,
    x: &View,
    mean: &View,
    invstd: &View,
    w: Option<&View>,
    training: bool,
    gx: Option<&mut ViewMut>,
    gw: Option<&mut ViewMut>,
    gb: Option<&mut ViewMut>,
) {
    let (n, c, s) = channels(x.sizes());
    for_acc!(x.dtype(), A => {
        let (g, x, mean, invstd) = (input::<A>(g), input::<A>(x), input::<A>(mean), input::<A>(invstd));
        let w = optional::<A>(w);
        let count = A::of((n * s) as f64);
        optional_output::<A, _>(gx, |gx| optional_output::<A, _>(gw, |gw| optional_output::<A, _>(gb, |gb| {
            let (gx, gw, gb) = (shared(gx), shared(gw), shared(gb));
            over_channels(n, c, s, |range| {
                let (start, width) = (range.start, range.len());
                let (mut sum_g, mut sum_gx) = (Scratch::<A>::any(width), Scratch::<A>::any(width));
                channel_sums(&x, &g, n, c, s, start, &mean[range.clone()], &mut sum_g, &mut sum_gx);
                // For each channel: gx = a g + b x + d.
                let mut factors = Scratch::<A>::any(3 * width);
                let (fa, rest) = factors.split_at_mut(width);
                let (fb, fd) = rest.split_at_mut(width);
                for j in 0..width {
                    let (i, m) = (invstd[start + j], mean[start + j]);
                    // SAFETY: the range of channels is in bounds, and one thread uses it.
                    unsafe {
                        if let Some(gw) = gw {
                            gw.slice(start + j, 1)[0] = sum_gx[j] * i;
                        }
                        if let Some(gb) = gb {
                            gb.slice(start + j, 1)[0] = sum_g[j];
                        }
                    }
                    fa[j] = i * w.as_ref().map_or(A::ONE, |w| w[start + j]);
                    if training {
                        fb[j] = -(fa[j] * i * i * sum_gx[j] / count);
                        fd[j] = -(fa[j] * sum_g[j] / count) - fb[j] * m;
                    } else {
                        (fb[j], fd[j]) = (A::ZERO, A::ZERO);
                    }
                }
                if let Some(gx) = gx {
                    channel_combine(&g, &x, n, c, s, start, fa, fb, fd, gx);
                }
            });
        })));
    });
}

simd! {
    /// Compute `out = a[channel] * g + b[channel] * x + d[channel]` for a range of channels over the batch.
    fn channel_combine<A: Real>(
        g: &[A], x: &[A], n: usize, c: usize, s: usize, start: usize, a: &[A], b: &[A], d: &[A], out: Shared<A>
    ) {
        let width = a.len();
        let (b, d) = (&b[..width], &d[..width]);
        for i in 0..n {
            let at = (i * c + start) * s;
            let (g, x) = (&g[at..at + width * s], &x[at..at + width * s]);
            // SAFETY: the range of channels is in bounds, and only this call uses it.
            let out = unsafe { out.slice(at, width * s) };
            if s == 1 {
                for j in 0..width {
                    out[j] = a[j] * g[j] + b[j] * x[j] + d[j];
                }
                continue;
            }
            for j in 0..width {
                let (a, b, d) = (a[j], b[j], d[j]);
                let (g, x, out) = (&g[j * s..][..s], &x[j * s..][..s], &mut out[j * s..][..s]);
                for k in 0..s {
                    out[k] = a * g[k] + b * x[k] + d;
                }
            }
        }
    }
}

/// Compute group normalisation of `x: [n, c, *]`, with statistics over each of `groups` runs of channels. `w` and `b`
/// are `[c]`. `mean` and `rstd` are `[n, groups]`.
pub fn group_norm(
    x: &View,
    groups: usize,
    w: Option<&View>,
    b: Option<&View>,
    eps: f64,
    y: &mut ViewMut,
    mean: &mut ViewMut,
    rstd: &mut ViewMut,
) {
    let (n, c, s) = channels(x.sizes());
    let per = c / groups;
    for_acc!(x.dtype(), A => {
        let (x, w, b) = (input::<A>(x), optional::<A>(w), optional::<A>(b));
        let (w, b) = (w.as_deref(), b.as_deref());
        output::<A, _>(y, |y| output::<A, _>(mean, |mean| output::<A, _>(rstd, |rstd| {
            let (y, mean, rstd) = (Shared::new(y), Shared::new(mean), Shared::new(rstd));
            parallel_for(n * groups, GRAIN.div_ceil((per * s).max(1)), |range| {
                let (mut scale, mut shift) = (Scratch::any(per), Scratch::any(per));
                for row in range {
                    let first = row % groups * per;
                    // SAFETY: the group is in bounds, and one thread uses it.
                    let (mean, rstd) = unsafe { (mean.slice(row, 1), rstd.slice(row, 1)) };
                    (mean[0], rstd[0]) = group_moments(&x[row * per * s..][..per * s], A::of(eps));
                    for j in 0..per {
                        scale[j] = rstd[0] * w.map_or(A::ONE, |w| w[first + j]);
                        shift[j] = b.map_or(A::ZERO, |b| b[first + j]) - mean[0] * scale[j];
                    }
                    let at = row / groups * c * s;
                    // SAFETY: the group is in bounds, and one thread uses it. `channel_affine` sees a batch of one
                    // entry.
                    let y = Shared::at(unsafe { y.ptr().add(at) });
                    channel_affine(&x[at..], 1, c, s, first, &scale, &shift, y);
                }
            });
        })));
    });
}

simd! {
    fn group_moments<A: Real>(x: &[A], eps: A) -> (A, A) {
        let (mean, var) = moments(x);
        (mean, A::ONE / (var + eps).sqrt())
    }
}

/// Compute the gradients of [`group_norm`] for `x`, `w` and `b`, each only if an output is given.
pub fn group_norm_backward(
    g: &View,
    x: &View,
    groups: usize,
    mean: &View,
    rstd: &View,
    w: Option<&View>,
    gx: Option<&mut ViewMut>,
    gw: Option<&mut ViewMut>,
    gb: Option<&mut ViewMut>,
) {
    let (n, c, s) = channels(x.sizes());
    let per = c / groups;
    for_acc!(x.dtype(), A => {
        let (g, x, mean, rstd) = (input::<A>(g), input::<A>(x), input::<A>(mean), input::<A>(rstd));
        let w = optional::<A>(w);
        let count = A::of((per * s) as f64);
        // Per batch entry and channel: `sum g` and `sum g (x - mean)`.
        let mut sums = Scratch::<A>::any(2 * n * c);
        let (sum_g, sum_gx) = sums.split_at_mut(n * c);
        optional_output::<A, _>(gx, |gx| {
            let gx = shared(gx);
            let (all_g, all_gx) = (Shared::new(&mut *sum_g), Shared::new(&mut *sum_gx));
            parallel_for(n * groups, GRAIN.div_ceil((per * s).max(1)), |range| {
                let mut factors = Scratch::<A>::any(4 * per);
                let (fa, rest) = factors.split_at_mut(per);
                let (fb, rest) = rest.split_at_mut(per);
                let (fd, centre) = rest.split_at_mut(per);
                for row in range {
                    let (first, at, r) = (row % groups * per, row / groups * c * s, rstd[row]);
                    centre.fill(mean[row]);
                    // SAFETY: the group is in bounds, and one thread uses it.
                    let (sum_g, sum_gx) = unsafe { (all_g.slice(row * per, per), all_gx.slice(row * per, per)) };
                    channel_sums(&x[at..], &g[at..], 1, c, s, first, centre, sum_g, sum_gx);
                    let (mut d, mut dx) = (A::ZERO, A::ZERO);
                    for j in 0..per {
                        let w = w.as_ref().map_or(A::ONE, |w| w[first + j]);
                        d += w * sum_g[j];
                        dx += w * sum_gx[j];
                        fa[j] = w * r;
                    }
                    fb.fill(-(r * r * r * dx / count));
                    fd.fill(-(r * d / count) - fb.first().map_or(A::ZERO, |b| *b * mean[row]));
                    if let Some(gx) = gx {
                        // SAFETY: the group is in bounds, and one thread uses it. `channel_combine` sees a batch of one
                        // entry.
                        let gx = Shared::at(unsafe { gx.ptr().add(at) });
                        channel_combine(&g[at..], &x[at..], 1, c, s, first, fa, fb, fd, gx);
                    }
                }
            });
        });
        if let Some(gw) = gw {
            output::<A, _>(gw, |gw| {
                gw.fill(A::ZERO);
                for i in 0..n * c {
                    gw[i % c] += sum_gx[i] * rstd[i / per];
                }
            });
        }
        if let Some(gb) = gb {
            output::<A, _>(gb, |gb| {
                gb.fill(A::ZERO);
                for i in 0..n * c {
                    gb[i % c] += sum_g[i];
                }
            });
        }
    });
}
