//! The one general convolution, of one to three spatial dimensions, and its two gradients.
//!
//! Element `o` of an output dimension is the sum over kernel positions `k` of `w[k] * x'[o * stride + k * w_dilation - low]`, where `x'`
//! is `x` with `x_dilation - 1` zeros between elements, and `w` is read backwards when `reverse` is set. Padding may be negative,
//! which crops. One table a dimension says which input position a pair of output and kernel position reads; every path works from
//! these tables, so all of them handle every combination.
//!
//! Products of matrices do the arithmetic: an input's windows are unfolded, a tile at a time, into scratch memory that fits in
//! cache. A kernel of one with unit strides needs no unfolding; a depthwise convolution is computed directly.

use crate::matmul::{Mat, MatMut, gemm};
use crate::par::{Scratch, Shared, parallel_for, threads};
use crate::real::{Real, for_acc, input, output, simd, sum_of2};
use crate::{View, ViewMut};

/// What a convolution does. Entry `d` of each array is about the `d`-th spatial dimension; entries from `spatial` on are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConvSpec {
    /// Steps between windows.
    pub stride: [usize; 3],
    /// Padding before and after; negative values crop.
    pub pad: [(i64, i64); 3],
    /// Steps between input elements, with zeros between them: the stride of a transposed convolution.
    pub x_dilation: [usize; 3],
    /// Steps between kernel elements.
    pub w_dilation: [usize; 3],
    /// Whether the kernel is read backwards in every spatial dimension.
    pub reverse: bool,
    /// Groups that input and output channels are divided into.
    pub groups: usize,
    /// How many spatial dimensions there are, one to three.
    pub spatial: usize,
}

impl Default for ConvSpec {
    fn default() -> ConvSpec {
        ConvSpec {
            stride: [1; 3],
            pad: [(0, 0); 3],
            x_dilation: [1; 3],
            w_dilation: [1; 3],
            reverse: false,
            groups: 1,
            spatial: 2,
        }
    }
}

impl ConvSpec {
    /// Output size along dimension `d` for an input and a kernel size; zero where no window fits.
    pub fn output_size(&self, d: usize, x: usize, k: usize) -> usize {
        let dilated = if x == 0 { 0 } else { (x as i64 - 1) * self.x_dilation[d] as i64 + 1 };
        let room = dilated + self.pad[d].0 + self.pad[d].1 - ((k as i64 - 1) * self.w_dilation[d] as i64 + 1);
        if room < 0 { 0 } else { room as usize / self.stride[d] + 1 }
    }
}

/// What a table holds where a zero is read.
const NOTHING: u32 = u32::MAX;

/// A convolution with three spatial dimensions, the missing ones of size one in front.
struct Shape {
    n: usize,
    c: usize,
    o: usize,
    groups: usize,
    x: [usize; 3],
    k: [usize; 3],
    y: [usize; 3],
    /// Per dimension, `[kernel position][output position]`.
    table: [Vec<u32>; 3],
    /// For each kernel position of the last dimension, the run of its reads, where output and input positions advance together.
    spans: Option<Vec<Span>>,
    /// Windows are the input itself.
    is_pointwise: bool,
}

/// Output positions `first..first + count` read the input from `start` on; the others read zeros.
#[derive(Clone, Copy)]
struct Span {
    first: usize,
    count: usize,
    start: usize,
}

/// Which positions of an input row the output row of a kernel position reads.
#[derive(Clone, Copy)]
struct Columns<'a> {
    positions: &'a [u32],
    span: Option<Span>,
}

impl Shape {
    fn new(spec: &ConvSpec, x: &[usize], w: &[usize], y: &[usize]) -> Shape {
        let s = spec.spatial;
        assert!((1..=3).contains(&s), "conv: one to three spatial dimensions");
        assert!(x.len() == s + 2 && w.len() == s + 2 && y.len() == s + 2, "conv: wrong number of dimensions");
        assert_eq!(x[1], w[1] * spec.groups, "conv: channels of input and weight differ");
        assert!(y[0] == x[0] && y[1] == w[0] && w[0].is_multiple_of(spec.groups), "conv: wrong output size");
        let three = |sizes: &[usize]| {
            let mut out = [1; 3];
            out[3 - s..].copy_from_slice(&sizes[2..]);
            out
        };
        let (xs, ks, ys) = (three(x), three(w), three(y));
        let table = std::array::from_fn(|d| {
            let Some(e) = (d + s).checked_sub(3) else { return vec![0] };
            assert_eq!(ys[d], spec.output_size(e, xs[d], ks[d]), "conv: wrong output size");
            let mut table = Vec::with_capacity(ks[d] * ys[d]);
            for k in 0..ks[d] {
                let k = if spec.reverse { ks[d] - 1 - k } else { k };
                for o in 0..ys[d] {
                    let at = (o * spec.stride[e] + k * spec.w_dilation[e]) as i64 - spec.pad[e].0;
                    let step = spec.x_dilation[e] as i64;
                    let inside = at >= 0 && at % step == 0 && at / step < xs[d] as i64;
                    table.push(if inside { (at / step) as u32 } else { NOTHING });
                }
            }
            table
        });
        let is_pointwise = ks == [1; 3]
            && xs == ys
            && (0..3).all(|d| table[d].iter().enumerate().all(|(i, &at): (usize, &u32)| at as usize == i));
        let unit_step = spec.stride[s - 1] == 1 && spec.x_dilation[s - 1] == 1 && ys[2] > 0;
        let spans = unit_step.then(|| table[2].chunks_exact(ys[2]).map(span).collect());
        Shape { n: x[0], c: x[1], o: w[0], groups: spec.groups, x: xs, k: ks, y: ys, table, spans, is_pointwise }
    }

    /// Input channels of a group.
    fn cg(&self) -> usize {
        self.c / self.groups
    }
    /// Output channels of a group.
    fn og(&self) -> usize {
        self.o / self.groups
    }
    /// Elements of an input plane.
    fn xs(&self) -> usize {
        self.x.iter().product()
    }
    /// Elements of an output plane.
    fn ys(&self) -> usize {
        self.y.iter().product()
    }
    /// Elements of a kernel plane.
    fn ks(&self) -> usize {
        self.k.iter().product()
    }
    /// Rows of the unfolded input of a group.
    fn depth(&self) -> usize {
        self.cg() * self.ks()
    }
    fn is_depthwise(&self) -> bool {
        self.cg() == 1 && self.ks() > 1 && self.og() <= 4
    }

    /// Calls `f(kernel position, output offset, input offset, output positions, input positions)` for each kernel position and each row of
    /// output rows `rows` that reads the input at all; the positions are of the last dimension.
    #[inline(always)]
    fn rows(&self, rows: std::ops::Range<usize>, mut f: impl FnMut(usize, usize, Option<usize>, Columns)) {
        let [_, yh, yw] = self.y;
        let [kd, kh, kw] = self.k;
        for a in 0..kd {
            for b in 0..kh {
                for c in 0..kw {
                    let k = (a * kh + b) * kw + c;
                    let columns = Columns {
                        positions: &self.table[2][c * yw..][..yw],
                        span: self.spans.as_ref().map(|spans| spans[c]),
                    };
                    for row in rows.clone() {
                        let z = self.table[0][a * self.y[0] + row / yh];
                        let y = self.table[1][b * yh + row % yh];
                        let from =
                            (z != NOTHING && y != NOTHING).then(|| (z as usize * self.x[1] + y as usize) * self.x[2]);
                        f(k, row * yw, from, columns);
                    }
                }
            }
        }
    }
}

/// The run of a row of positions that follow one another.
fn span(positions: &[u32]) -> Span {
    let first = positions.iter().position(|&v| v != NOTHING).unwrap_or(positions.len());
    let count = positions[first..].iter().position(|&v| v == NOTHING).unwrap_or(positions.len() - first);
    Span { first, count, start: positions.get(first).map_or(0, |&v| v as usize) }
}

/// `out[n, o, ..] = x * w + bias[o]` for `x: [n, c, *s]`, `w: [o, c / groups, *k]`, `out: [n, o, *os]`.
pub fn conv(x: &View, w: &View, bias: Option<&View>, spec: &ConvSpec, out: &mut ViewMut) {
    let shape = Shape::new(spec, x.sizes(), w.sizes(), out.sizes());
    for_acc!(out.dtype(), A => {
        let (x, w, bias) = (input::<A>(x), input::<A>(w), bias.map(input::<A>));
        output::<A, _>(out, |out| forward(&shape, &x, &w, bias.as_deref(), out));
    });
}

/// Gradient of [`conv`] for its input: `g: [n, o, *os]`, `w` and `spec` those of the forward convolution, `gx: [n, c, *s]`.
pub fn conv_input_grad(g: &View, w: &View, spec: &ConvSpec, gx: &mut ViewMut) {
    let shape = Shape::new(spec, gx.sizes(), w.sizes(), g.sizes());
    for_acc!(gx.dtype(), A => {
        let (g, w) = (input::<A>(g), input::<A>(w));
        output::<A, _>(gx, |gx| input_grad(&shape, &g, &w, gx));
    });
}

/// Gradient of [`conv`] for its weight: `x` and `spec` those of the forward convolution, `g: [n, o, *os]`, `gw: [o, c / groups, *k]`.
pub fn conv_weight_grad(x: &View, g: &View, spec: &ConvSpec, gw: &mut ViewMut) {
    let shape = Shape::new(spec, x.sizes(), gw.sizes(), g.sizes());
    for_acc!(gw.dtype(), A => {
        let (x, g) = (input::<A>(x), input::<A>(g));
        output::<A, _>(gw, |gw| weight_grad(&shape, &x, &g, gw));
    });
}

/// Bytes of unfolded input that a thread works on at a time: about half of a second-level cache.
const TILE_BYTES: usize = 768 << 10;

/// Rows of output (along the last dimension) that a tile holds.
fn tile_rows<A>(s: &Shape) -> usize {
    let rows = s.y[0] * s.y[1];
    let row_bytes = (s.depth() * s.y[2] * size_of::<A>()).max(1);
    (TILE_BYTES / row_bytes).clamp(1, rows.max(1))
}

fn forward<A: Real>(s: &Shape, x: &[A], w: &[A], bias: Option<&[A]>, out: &mut [A]) {
    let (xs, ys, og, depth) = (s.xs(), s.ys(), s.og(), s.depth());
    if out.is_empty() {
        return;
    }
    let beta = if bias.is_some() { A::ONE } else { A::ZERO };
    let to = Shared::new(out);
    // SAFETY (of its calls): a channel's range of columns is written by one thread.
    let start_with_bias = |n: usize, channels: std::ops::Range<usize>, columns: std::ops::Range<usize>| {
        if let Some(bias) = bias {
            for c in channels {
                // SAFETY: by the caller.
                unsafe { to.slice((n * s.o + c) * ys + columns.start, columns.len()) }.fill(bias[c]);
            }
        }
    };
    if s.is_depthwise() {
        return parallel_for(s.n * s.o, (1usize << 15).div_ceil(ys * s.ks()), |range| {
            for i in range {
                let (n, o) = (i / s.o, i % s.o);
                // SAFETY: planes are disjoint.
                let out = unsafe { to.slice(i * ys, ys) };
                out.fill(bias.map_or(A::ZERO, |b| b[o]));
                depthwise_forward(s, &x[(n * s.c + o / og) * xs..][..xs], &w[o * s.ks()..][..s.ks()], out);
            }
        });
    }
    let rows = s.y[0] * s.y[1];
    let per = if s.is_pointwise { rows } else { tile_rows::<A>(s) };
    let tiles = rows.div_ceil(per);
    let count = s.n * s.groups * tiles;
    let work = (og * depth * per * s.y[2]).max(1);
    // Few tiles: the product itself runs on several threads.
    let inside = count < threads();
    parallel_for(count, if inside { count } else { (1usize << 18).div_ceil(work) }, |range| {
        let mut unfolded = Scratch::<A>::any(if s.is_pointwise { 0 } else { depth * per * s.y[2] });
        for i in range {
            let (n, group, tile) = (i / tiles / s.groups, i / tiles % s.groups, i % tiles);
            let tile = tile * per..((tile + 1) * per).min(rows);
            let columns = tile.start * s.y[2]..tile.end * s.y[2];
            let (width, first) = (columns.len(), columns.start);
            let x = &x[(n * s.c + group * s.cg()) * xs..][..s.cg() * xs];
            start_with_bias(n, group * og..(group + 1) * og, columns);
            let b = if s.is_pointwise {
                Mat::new(x, xs, 1)
            } else {
                unfold(s, x, tile, &mut unfolded[..depth * width]);
                Mat::new(&unfolded, width, 1)
            };
            let w = Mat::new(&w[group * og * depth..][..og * depth], depth, 1);
            // SAFETY: the slices have these sizes; tiles of the output are disjoint.
            unsafe {
                let c = MatMut::at(to.ptr().add((n * s.o + group * og) * ys + first), ys, 1);
                gemm(og, width, depth, A::ONE, w, b, beta, c, inside);
            }
        }
    });
}

simd! {
    /// Writes the windows of output rows `tile`: `out[channel, kernel position][output position]`.
    fn unfold<A: Real>(s: &Shape, x: &[A], tile: std::ops::Range<usize>, out: &mut [A]) {
        let (xs, yw, xw) = (s.xs(), s.y[2], s.x[2]);
        let width = tile.len() * yw;
        let base = tile.start * yw;
        for c in 0..s.cg() {
            let x = &x[c * xs..][..xs];
            s.rows(tile.clone(), |k, at, from, columns| {
                let out = &mut out[(c * s.ks() + k) * width + at - base..][..yw];
                let Some(from) = from else { return out.fill(A::ZERO) };
                let x = &x[from..from + xw];
                if let Some(Span { first, count, start }) = columns.span {
                    for o in &mut out[..first] {
                        *o = A::ZERO;
                    }
                    copy_row(&x[start..start + count], &mut out[first..first + count]);
                    for o in &mut out[first + count..] {
                        *o = A::ZERO;
                    }
                } else {
                    for (o, &at) in out.iter_mut().zip(columns.positions) {
                        *o = if at == NOTHING { A::ZERO } else { x[at as usize] };
                    }
                }
            });
        }
    }
}

/// A copy in fixed pieces: rows are too short for a call of `memcpy` to pay.
#[inline(always)]
#[allow(clippy::manual_memcpy, reason = "see above")]
fn copy_row<A: Real>(x: &[A], out: &mut [A]) {
    let (mut to, from) = (out.chunks_exact_mut(16), x.chunks_exact(16));
    let rest = from.remainder();
    for (o, x) in (&mut to).zip(from) {
        for i in 0..16 {
            o[i] = x[i];
        }
    }
    for (o, &x) in to.into_remainder().iter_mut().zip(rest) {
        *o = x;
    }
}

simd! {
    /// Adds unfolded windows back to where they were read.
    fn fold<A: Real>(s: &Shape, windows: &[A], tile: std::ops::Range<usize>, x: &mut [A]) {
        let (xs, yw, xw) = (s.xs(), s.y[2], s.x[2]);
        let width = tile.len() * yw;
        let base = tile.start * yw;
        for c in 0..s.cg() {
            let x = &mut x[c * xs..][..xs];
            s.rows(tile.clone(), |k, at, from, columns| {
                let Some(from) = from else { return };
                let windows = &windows[(c * s.ks() + k) * width + at - base..][..yw];
                add_row(windows, columns, &mut x[from..from + xw], A::ONE);
            });
        }
    }
}

/// Adds `factor * row` at the positions it was read from.
#[inline(always)]
fn add_row<A: Real>(row: &[A], columns: Columns, x: &mut [A], factor: A) {
    if let Some(Span { first, count, start }) = columns.span {
        for (x, &v) in x[start..start + count].iter_mut().zip(&row[first..first + count]) {
            *x += factor * v;
        }
    } else {
        for (&v, &at) in row.iter().zip(columns.positions) {
            if at != NOTHING {
                x[at as usize] += factor * v;
            }
        }
    }
}

simd! {
    fn depthwise_forward<A: Real>(s: &Shape, x: &[A], w: &[A], out: &mut [A]) {
        let (yw, xw) = (s.y[2], s.x[2]);
        s.rows(0..s.y[0] * s.y[1], |k, at, from, columns| {
            let Some(from) = from else { return };
            let (x, out, w) = (&x[from..from + xw], &mut out[at..at + yw], w[k]);
            if let Some(Span { first, count, start }) = columns.span {
                for (o, &v) in out[first..first + count].iter_mut().zip(&x[start..start + count]) {
                    *o += w * v;
                }
            } else {
                for (o, &at) in out.iter_mut().zip(columns.positions) {
                    if at != NOTHING {
                        *o += w * x[at as usize];
                    }
                }
            }
        });
    }
}

simd! {
    fn depthwise_input_grad<A: Real>(s: &Shape, g: &[A], w: &[A], gx: &mut [A]) {
        let (yw, xw) = (s.y[2], s.x[2]);
        s.rows(0..s.y[0] * s.y[1], |k, at, from, columns| {
            let Some(from) = from else { return };
            add_row(&g[at..at + yw], columns, &mut gx[from..from + xw], w[k]);
        });
    }
}

simd! {
    fn depthwise_weight_grad<A: Real>(s: &Shape, x: &[A], g: &[A], gw: &mut [A]) {
        let (yw, xw) = (s.y[2], s.x[2]);
        s.rows(0..s.y[0] * s.y[1], |k, at, from, columns| {
            let Some(from) = from else { return };
            let (x, g) = (&x[from..from + xw], &g[at..at + yw]);
            if let Some(Span { first, count, start }) = columns.span {
                gw[k] += sum_of2(&x[start..start + count], &g[first..first + count], |a, b| a * b);
            } else {
                for (&v, &at) in g.iter().zip(columns.positions) {
                    if at != NOTHING {
                        gw[k] += v * x[at as usize];
                    }
                }
            }
        });
    }
}

fn input_grad<A: Real>(s: &Shape, g: &[A], w: &[A], gx: &mut [A]) {
    let (xs, ys, og, depth) = (s.xs(), s.ys(), s.og(), s.depth());
    if gx.is_empty() {
        return;
    }
    let to = Shared::new(gx);
    if s.is_depthwise() {
        return parallel_for(s.n * s.c, (1usize << 15).div_ceil((ys * s.ks() * og).max(1)), |range| {
            for i in range {
                let (n, c) = (i / s.c, i % s.c);
                // SAFETY: planes are disjoint.
                let gx = unsafe { to.slice(i * xs, xs) };
                gx.fill(A::ZERO);
                for o in c * og..(c + 1) * og {
                    depthwise_input_grad(s, &g[(n * s.o + o) * ys..][..ys], &w[o * s.ks()..][..s.ks()], gx);
                }
            }
        });
    }
    let rows = s.y[0] * s.y[1];
    let per = tile_rows::<A>(s);
    let count = s.n * s.groups;
    let inside = count < threads();
    let work = (og * depth * ys).max(1);
    parallel_for(count, if inside { count } else { (1usize << 18).div_ceil(work) }, |range| {
        let mut unfolded = Scratch::<A>::any(if s.is_pointwise { 0 } else { depth * per * s.y[2] });
        for i in range {
            let (n, group) = (i / s.groups, i % s.groups);
            let w = Mat::new(&w[group * og * depth..][..og * depth], depth, 1);
            // SAFETY: groups of planes are disjoint.
            let gx = unsafe { to.slice((n * s.c + group * s.cg()) * xs, s.cg() * xs) };
            let g = &g[(n * s.o + group * og) * ys..][..og * ys];
            if s.is_pointwise {
                // SAFETY: the slices have these sizes.
                unsafe {
                    gemm(depth, ys, og, A::ONE, w.t(), Mat::new(g, ys, 1), A::ZERO, MatMut::new(gx, ys, 1), inside)
                };
                continue;
            }
            gx.fill(A::ZERO);
            for first in (0..rows).step_by(per) {
                let tile = first..(first + per).min(rows);
                let width = tile.len() * s.y[2];
                if width == 0 {
                    continue;
                }
                let unfolded = &mut unfolded[..depth * width];
                let g = Mat::new(&g[first * s.y[2]..], ys, 1);
                // SAFETY: the slices have these sizes.
                unsafe { gemm(depth, width, og, A::ONE, w.t(), g, A::ZERO, MatMut::new(unfolded, width, 1), inside) };
                fold(s, unfolded, tile, gx);
            }
        }
    });
}

fn weight_grad<A: Real>(s: &Shape, x: &[A], g: &[A], gw: &mut [A]) {
    let (xs, ys, og, depth) = (s.xs(), s.ys(), s.og(), s.depth());
    if gw.is_empty() {
        return;
    }
    if s.is_depthwise() {
        let to = Shared::new(gw);
        return parallel_for(s.o, (1usize << 15).div_ceil((ys * s.ks() * s.n).max(1)), |range| {
            for o in range {
                // SAFETY: kernels are disjoint.
                let gw = unsafe { to.slice(o * s.ks(), s.ks()) };
                gw.fill(A::ZERO);
                for n in 0..s.n {
                    depthwise_weight_grad(s, &x[(n * s.c + o / og) * xs..][..xs], &g[(n * s.o + o) * ys..][..ys], gw);
                }
            }
        });
    }
    let rows = s.y[0] * s.y[1];
    let per = if s.is_pointwise { rows } else { tile_rows::<A>(s) };
    let tiles = if ys == 0 { 0 } else { rows.div_ceil(per) };
    let items = s.n * tiles;
    // Each piece of the batch has its own sums, which are added in order: results do not depend on timing.
    let pieces = if og * depth * ys * s.n * s.groups < 1 << 18 { 1 } else { threads().min(items.max(1)) };
    let mut partial = Scratch::filled(pieces * gw.len(), A::ZERO);
    let sums = Shared::new(&mut partial);
    let size = gw.len();
    parallel_for(pieces, 1, |range| {
        for piece in range {
            // SAFETY: pieces have their own sums.
            let gw = unsafe { sums.slice(piece * size, size) };
            let mut unfolded = Scratch::<A>::any(if s.is_pointwise { 0 } else { depth * per * s.y[2] });
            for item in piece * items / pieces..(piece + 1) * items / pieces {
                let (n, first) = (item / tiles, item % tiles * per);
                let tile = first..(first + per).min(rows);
                let width = tile.len() * s.y[2];
                for group in 0..s.groups {
                    let x = &x[(n * s.c + group * s.cg()) * xs..][..s.cg() * xs];
                    let b = if s.is_pointwise {
                        Mat::new(x, xs, 1)
                    } else {
                        unfold(s, x, tile.clone(), &mut unfolded[..depth * width]);
                        Mat::new(&unfolded, width, 1)
                    };
                    let g = Mat::new(&g[(n * s.o + group * og) * ys + first * s.y[2]..], ys, 1);
                    let gw = MatMut::new(&mut gw[group * og * depth..][..og * depth], depth, 1);
                    // SAFETY: the slices have these sizes.
                    unsafe { gemm(og, depth, width, A::ONE, g, b.t(), A::ONE, gw, pieces == 1) };
                }
            }
        }
    });
    gw.copy_from_slice(&partial[..size]);
    for piece in 1..pieces {
        for (o, &v) in gw.iter_mut().zip(&partial[piece * size..][..size]) {
            *o += v;
        }
    }
}
