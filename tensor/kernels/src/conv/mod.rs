//! The general convolution of one to three spatial dimensions, and its two gradients.
//!
//! Element `o` of an output dimension is the sum over kernel positions `k` of
//! `w[k] * x'[o * stride + k * w_dilation - low]`. `x'` is `x` with `x_dilation - 1` zeros between elements. `w` is
//! read backwards if `reverse` is set. Padding may be negative, which crops. One table per dimension gives the input
//! position for each pair of output and kernel positions. Every code path uses these tables, so all of them handle
//! every combination.
//!
//! Matrix products over the whole batch do the arithmetic. The windows of an input are an operand that is packed
//! directly from the input. The gradient for the input is also a convolution: of the output's gradient with reversed
//! weights. With a stride, there is one such convolution for each class of input positions that the same kernel
//! positions reach.
//!
//! Kernels of 3x3 with unit steps use Winograd's transforms if there is enough work. A convolution with unit steps that
//! reads few channels is summed by its definition, and so is a depthwise one.

mod direct;
mod vector;
mod windows;
mod winograd;

use crate::gemm::{Adjacent, Columns, Product, fastest_product};
use crate::matmul::Mat;
use crate::memory;
use crate::par::Shared;
use crate::real::{Real, for_acc, input, output, simd, sum_of2};
use crate::threads::{num_threads, parallel_for};
use crate::{View, ViewMut};
use vector::Transform;
use windows::{Elements, MERGEABLE, Reads, Segments, Windows};
use winograd::Layer;

/// Settings of a convolution. Entry `d` of each array belongs to the `d`-th spatial dimension. Entries from `spatial`
/// on are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConvSpec {
    /// Distance between neighbouring windows.
    pub stride: [usize; 3],
    /// Padding before and after. Negative values crop.
    pub pad: [(i64, i64); 3],
    /// Distance between neighbouring input elements, with zeros between them. It is the stride of a transposed
    /// convolution.
    pub x_dilation: [usize; 3],
    /// Distance between neighbouring kernel elements.
    pub w_dilation: [usize; 3],
    /// Whether the kernel is read backwards in every spatial dimension.
    pub reverse: bool,
    /// Number of groups that input and output channels are divided into.
    pub groups: usize,
    /// Number of spatial dimensions, one to three.
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
    /// Return the output size along dimension `d` for an input and a kernel size. It is zero if no window fits.
    pub fn output_size(&self, d: usize, x: usize, k: usize) -> usize {
        // Use 128 bits: an expanded tensor can have any size.
        let dilated = if x == 0 { 0 } else { (x as i128 - 1) * self.x_dilation[d] as i128 + 1 };
        let (low, high) = self.pad[d];
        let room = dilated + i128::from(low) + i128::from(high) - ((k as i128 - 1) * self.w_dilation[d] as i128 + 1);
        if room < 0 { 0 } else { usize::try_from(room / self.stride[d] as i128 + 1).unwrap_or(usize::MAX) }
    }
}

/// Table entry for a zero, which is not read from the input.
const NOTHING: u32 = u32::MAX;

/// A convolution with three spatial dimensions. Missing ones have size one and come first.
struct Shape {
    n: usize,
    c: usize,
    o: usize,
    groups: usize,
    x: [usize; 3],
    k: [usize; 3],
    y: [usize; 3],
    /// For each dimension, the input position at `[kernel position][output position]`.
    table: [Vec<u32>; 3],
    /// The run of reads of each kernel position of the last dimension, if output and input positions advance together.
    spans: Option<Vec<Span>>,
    stride: [usize; 3],
    /// Padding before each dimension, if all steps are one.
    unit_low: Option<[i64; 3]>,
    reverse: bool,
}

/// Output positions `first..first + count` read consecutive inputs from `start` on. The others read zeros.
#[derive(Clone, Copy)]
struct Span {
    first: usize,
    count: usize,
    start: usize,
}

/// Positions of an input row that an output row reads at one kernel position.
#[derive(Clone, Copy)]
struct Row<'a> {
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
            let mut table = memory::with_capacity(ks[d] * ys[d]);
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
        let unit_step = spec.stride[s - 1] == 1 && spec.x_dilation[s - 1] == 1 && ys[2] > 0;
        let spans = unit_step.then(|| memory::collect(table[2].chunks_exact(ys[2]).map(span)));
        let stride = std::array::from_fn(|d| (d + s).checked_sub(3).map_or(1, |e| spec.stride[e]));
        let unit =
            [spec.stride, spec.x_dilation, spec.w_dilation].iter().all(|steps| steps[..s].iter().all(|&n| n == 1));
        let unit_low = unit.then(|| std::array::from_fn(|d| (d + s).checked_sub(3).map_or(0, |e| spec.pad[e].0)));
        Shape {
            n: x[0],
            c: x[1],
            o: w[0],
            groups: spec.groups,
            x: xs,
            k: ks,
            y: ys,
            table,
            spans,
            stride,
            unit_low,
            reverse: spec.reverse,
        }
    }

    /// Return the number of input channels of a group.
    fn cg(&self) -> usize {
        self.c / self.groups
    }
    /// Return the number of output channels of a group.
    fn og(&self) -> usize {
        self.o / self.groups
    }
    /// Return the number of elements in an input plane.
    fn xs(&self) -> usize {
        self.x.iter().product()
    }
    /// Return the number of elements in an output plane.
    fn ys(&self) -> usize {
        self.y.iter().product()
    }
    /// Return the number of elements in a kernel plane.
    fn ks(&self) -> usize {
        self.k.iter().product()
    }
    /// Return the number of rows of a group's unfolded input.
    fn depth(&self) -> usize {
        self.cg() * self.ks()
    }
    fn is_depthwise(&self) -> bool {
        self.cg() == 1 && self.ks() > 1 && self.og() <= 4
    }

    /// Call `f(kernel position, output offset, input offset, row)` for each kernel position and each output row in
    /// `rows`. The input offset is `None` if the row reads only zeros. `row` holds positions of the last dimension.
    #[inline(always)]
    fn rows(&self, rows: std::ops::Range<usize>, mut f: impl FnMut(usize, usize, Option<usize>, Row)) {
        let [_, yh, yw] = self.y;
        let [kd, kh, kw] = self.k;
        for a in 0..kd {
            for b in 0..kh {
                for c in 0..kw {
                    let k = (a * kh + b) * kw + c;
                    let columns = Row {
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

/// Return the run of consecutive positions in a row.
fn span(positions: &[u32]) -> Span {
    let first = positions.iter().position(|&v| v != NOTHING).unwrap_or(positions.len());
    let count = positions[first..].iter().position(|&v| v == NOTHING).unwrap_or(positions.len() - first);
    Span { first, count, start: positions.get(first).map_or(0, |&v| v as usize) }
}

/// Compute `out[n, o, ..] = x * w + bias[o]` for `x: [n, c, *s]`, `w: [o, c / groups, *k]`, `out: [n, o, *os]`.
pub fn conv(x: &View, w: &View, bias: Option<&View>, spec: &ConvSpec, out: &mut ViewMut) {
    let shape = Shape::new(spec, x.sizes(), w.sizes(), out.sizes());
    for_acc!(out.dtype(), A => {
        let (x, w, bias) = (input::<A>(x), input::<A>(w), bias.map(input::<A>));
        output::<A, _>(out, |out| forward(&shape, &x, &w, bias.as_deref(), out));
    });
}

/// Compute the gradient of [`conv`] for its input: `g: [n, o, *os]`, `gx: [n, c, *s]`. `w` and `spec` are those of the
/// forward convolution.
pub fn conv_input_grad(g: &View, w: &View, spec: &ConvSpec, gx: &mut ViewMut) {
    let shape = Shape::new(spec, gx.sizes(), w.sizes(), g.sizes());
    for_acc!(gx.dtype(), A => {
        let (g, w) = (input::<A>(g), input::<A>(w));
        output::<A, _>(gx, |gx| input_grad(&shape, &g, &w, gx));
    });
}

/// Compute the gradient of [`conv`] for its weight: `g: [n, o, *os]`, `gw: [o, c / groups, *k]`. `x` and `spec` are
/// those of the forward convolution.
pub fn conv_weight_grad(x: &View, g: &View, spec: &ConvSpec, gw: &mut ViewMut) {
    let shape = Shape::new(spec, x.sizes(), gw.sizes(), g.sizes());
    for_acc!(gw.dtype(), A => {
        let (x, g) = (input::<A>(x), input::<A>(g));
        output::<A, _>(gw, |gw| weight_grad(&shape, &x, &g, gw));
    });
}

/// Columns of a result whose images lie `image` elements apart.
struct Images {
    positions: usize,
    image: usize,
}

impl Columns for Images {
    #[inline(always)]
    fn at(&self, j: usize) -> usize {
        j / self.positions * self.image + j % self.positions
    }
}

/// Columns of a result at the given positions of images.
struct Scattered<'a> {
    positions: &'a [usize],
    image: usize,
}

impl Columns for Scattered<'_> {
    #[inline(always)]
    fn at(&self, j: usize) -> usize {
        let n = self.positions.len();
        j / n * self.image + self.positions[j % n]
    }
}

/// Return all kernel positions in order.
fn kernel_positions(k: [usize; 3]) -> Vec<[usize; 3]> {
    memory::collect((0..k[0]).flat_map(|a| (0..k[1]).flat_map(move |b| (0..k[2]).map(move |c| [a, b, c]))))
}

/// Call `f(group, parallel)` for each group. Many groups run on separate threads. Few groups run one after the other,
/// and `parallel` lets their products use all threads.
fn each_group(groups: usize, work: usize, f: impl Fn(usize, bool) + Sync) {
    if groups >= 2 * num_threads() && num_threads() > 1 {
        parallel_for(groups, (1usize << 18).div_ceil(work.max(1)), |range| range.for_each(|g| f(g, false)));
    } else {
        (0..groups).for_each(|g| f(g, true));
    }
}

/// Smallest number of multiplications of a product that uses several threads.
const SERIAL: usize = 1 << 19;

fn forward<A: Transform>(s: &Shape, x: &[A], w: &[A], bias: Option<&[A]>, out: &mut [A]) {
    let (xs, ys, og, depth) = (s.xs(), s.ys(), s.og(), s.depth());
    if out.is_empty() {
        return;
    }
    let transforms = Layer::new(s).filter(|l| l.is_profitable_along_tiles());
    if let Some(layer) = direct::Layer::new(s).filter(|l| l.is_profitable::<A>(transforms.is_some())) {
        return direct::forward(&layer, x, w, bias, out);
    }
    if let Some(layer) = transforms {
        return winograd::forward(&layer, x, w, bias, out);
    }
    let beta = if bias.is_some() { A::ONE } else { A::ZERO };
    let to = Shared::new(out);
    let start_with_bias = |plane: usize| {
        if let Some(bias) = bias {
            // SAFETY: the plane is in bounds, and one thread uses it.
            unsafe { to.slice(plane * ys, ys) }.fill(bias[plane % s.o]);
        }
    };
    if s.is_depthwise() {
        return parallel_for(s.n * s.o, (1usize << 15).div_ceil(ys * s.ks()), |range| {
            for i in range {
                let (n, o) = (i / s.o, i % s.o);
                // SAFETY: the plane is in bounds, and one thread uses it.
                let out = unsafe { to.slice(i * ys, ys) };
                out.fill(bias.map_or(A::ZERO, |b| b[o]));
                depthwise_forward(s, &x[(n * s.c + o / og) * xs..][..xs], &w[o * s.ks()..][..s.ks()], out);
            }
        });
    }
    if bias.is_some() {
        parallel_for(s.n * s.o, (1usize << 15).div_ceil(ys), |range| range.for_each(start_with_bias));
    }
    let kernel = kernel_positions(s.k);
    let tables = std::array::from_fn(|d| &s.table[d][..]);
    let reads = Reads { source: s.x, positions: s.y, tables, kernel: &kernel };
    let (image, out_image) = (s.c * xs, s.o * ys);
    // Images too large for several to share a lookup are processed one by one.
    let batch = if image <= MERGEABLE { s.n } else { 1 };
    let work = og * depth * batch * ys;
    for first in (0..s.n).step_by(batch) {
        each_group(s.groups, work, |group, parallel| {
            let x = &x[first * image + group * s.cg() * xs..];
            let windows = Windows::new(x, &reads, batch, image);
            // SAFETY: the slices have these sizes, and one thread writes the group of the output.
            unsafe {
                let p = Product {
                    m: og,
                    n: batch * ys,
                    k: depth,
                    alpha: A::ONE,
                    beta,
                    c: to.ptr().add(first * out_image + group * og * ys),
                    row: ys,
                    columns: &Images { positions: ys, image: out_image },
                    parallel: parallel && work >= SERIAL,
                    rounded: None,
                    bias: None,
                };
                if depth > 0 {
                    let w = Mat::new(&w[group * og * depth..][..og * depth], depth, 1);
                    fastest_product(&w.rows(), &windows, &p);
                } else if bias.is_none() {
                    for n in 0..batch {
                        to.slice((first + n) * out_image + group * og * ys, og * ys).fill(A::ZERO);
                    }
                }
            }
        });
    }
}

/// Add `factor * row` at the positions that the row was read from.
#[inline(always)]
fn add_row<A: Real>(row: &[A], columns: Row, x: &mut [A], factor: A) {
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

fn input_grad<A: Transform>(s: &Shape, g: &[A], w: &[A], gx: &mut [A]) {
    let (xs, ys, og) = (s.xs(), s.ys(), s.og());
    if gx.is_empty() {
        return;
    }
    let transforms = Layer::new(s).filter(|l| l.input_gradient().is_profitable_along_tiles());
    if let Some(layer) = direct::Layer::new(s).filter(|l| l.input_gradient().is_profitable::<A>(transforms.is_some())) {
        return direct::input_grad(&layer, g, w, gx);
    }
    if let Some(layer) = transforms {
        return winograd::input_grad(&layer, g, w, gx);
    }
    let to = Shared::new(gx);
    if s.is_depthwise() {
        return parallel_for(s.n * s.c, (1usize << 15).div_ceil((ys * s.ks() * og).max(1)), |range| {
            for i in range {
                let (n, c) = (i / s.c, i % s.c);
                // SAFETY: the plane is in bounds, and one thread uses it.
                let gx = unsafe { to.slice(i * xs, xs) };
                gx.fill(A::ZERO);
                for o in c * og..(c + 1) * og {
                    depthwise_input_grad(s, &g[(n * s.o + o) * ys..][..ys], &w[o * s.ks()..][..s.ks()], gx);
                }
            }
        });
    }
    // For each pair of kernel and input positions, the output position.
    let inverse: [Vec<u32>; 3] = std::array::from_fn(|d| {
        let mut inverse = memory::filled(NOTHING, s.k[d] * s.x[d]);
        for k in 0..s.k[d] {
            for o in 0..s.y[d] {
                let at = s.table[d][k * s.y[d] + o];
                if at != NOTHING {
                    inverse[k * s.x[d] + at as usize] = o as u32;
                }
            }
        }
        inverse
    });
    let (image, g_image) = (s.c * xs, s.o * ys);
    let batch = if g_image <= MERGEABLE { s.n } else { 1 };
    let phases = s.stride.iter().product::<usize>();
    for phase in 0..phases {
        let rest = [phase / (s.stride[1] * s.stride[2]), phase / s.stride[2] % s.stride[1], phase % s.stride[2]];
        // The input positions of this phase along each dimension, and tables for these positions only.
        let count: [usize; 3] = std::array::from_fn(|d| (s.x[d] + s.stride[d] - 1 - rest[d]) / s.stride[d]);
        let tables: [Vec<u32>; 3] = std::array::from_fn(|d| {
            let row = |k: usize| (0..count[d]).map(move |i| k * s.x[d] + rest[d] + i * s.stride[d]);
            memory::collect((0..s.k[d]).flat_map(row).map(|at| inverse[d][at]))
        });
        let reached = |d: usize, k: usize| tables[d][k * count[d]..][..count[d]].iter().any(|&o| o != NOTHING);
        let all = kernel_positions(s.k);
        let kernel: Vec<[usize; 3]> = memory::collect(all.iter().copied().filter(|k| (0..3).all(|d| reached(d, k[d]))));
        let positions: Vec<usize> = memory::collect(
            kernel_positions(count)
                .iter()
                .map(|p| std::array::from_fn::<usize, 3, _>(|d| rest[d] + p[d] * s.stride[d]))
                .map(|at| (at[0] * s.x[1] + at[1]) * s.x[2] + at[2]),
        );
        if positions.is_empty() {
            continue;
        }
        let tables = std::array::from_fn(|d| &tables[d][..]);
        let reads = Reads { source: s.y, positions: count, tables, kernel: &kernel };
        let picks: Vec<usize> = memory::collect(kernel.iter().map(|k| (k[0] * s.k[1] + k[1]) * s.k[2] + k[2]));
        let (reads_all, depth) = (kernel.len() == all.len(), og * kernel.len());
        let work = s.cg() * depth * batch * positions.len();
        for first in (0..s.n).step_by(batch) {
            each_group(s.groups, work, |group, parallel| {
                let columns = Scattered { positions: &positions, image };
                let at = first * image + group * s.cg() * xs;
                if depth == 0 {
                    for channel in 0..s.cg() {
                        for j in 0..batch * positions.len() {
                            // SAFETY: the position is in bounds, and one thread writes it: phases and groups are
                            // disjoint.
                            unsafe { *to.ptr().add(at + channel * xs + columns.at(j)) = A::ZERO };
                        }
                    }
                    return;
                }
                let w = &w[group * og * s.cg() * s.ks()..][..og * s.cg() * s.ks()];
                let windows = Windows::new(&g[first * g_image + group * og * ys..], &reads, batch, g_image);
                // SAFETY: the slices have these sizes, and one thread writes the group and phase of the gradient.
                unsafe {
                    let p = Product {
                        m: s.cg(),
                        n: batch * positions.len(),
                        k: depth,
                        alpha: A::ONE,
                        beta: A::ZERO,
                        c: to.ptr().add(at),
                        row: xs,
                        columns: if phases == 1 { &Images { positions: xs, image } } else { &columns },
                        parallel: parallel && work >= SERIAL,
                        rounded: None,
                        bias: None,
                    };
                    // If few kernel positions are read, list their offsets.
                    let elements = if reads_all && s.ks() > 8 { Elements::Run(s.ks()) } else { Elements::At(&picks) };
                    let w = Segments::new(w, s.ks(), elements, s.cg() * s.ks());
                    fastest_product(&w, &windows, &p);
                }
            });
        }
    }
}

fn weight_grad<A: Transform>(s: &Shape, x: &[A], g: &[A], gw: &mut [A]) {
    let (xs, ys, og, depth) = (s.xs(), s.ys(), s.og(), s.depth());
    if gw.is_empty() {
        return;
    }
    let transforms = Layer::new(s).filter(|l| l.is_profitable());
    if let Some(layer) = direct::Layer::new(s).filter(|l| l.is_profitable_for_weights::<A>(transforms.is_some())) {
        return direct::weight_grad(&layer, x, g, gw);
    }
    if s.is_depthwise() {
        let to = Shared::new(gw);
        return parallel_for(s.o, (1usize << 15).div_ceil((ys * s.ks() * s.n).max(1)), |range| {
            for o in range {
                // SAFETY: the kernel is in bounds, and one thread uses it.
                let gw = unsafe { to.slice(o * s.ks(), s.ks()) };
                gw.fill(A::ZERO);
                for n in 0..s.n {
                    depthwise_weight_grad(s, &x[(n * s.c + o / og) * xs..][..xs], &g[(n * s.o + o) * ys..][..ys], gw);
                }
            }
        });
    }
    if depth == 0 || s.n * ys == 0 {
        return gw.fill(A::ZERO);
    }
    if let Some(layer) = transforms {
        return winograd::weight_grad(&layer, x, g, gw);
    }
    let kernel = kernel_positions(s.k);
    let tables = std::array::from_fn(|d| &s.table[d][..]);
    let reads = Reads { source: s.x, positions: s.y, tables, kernel: &kernel };
    let (image, g_image) = (s.c * xs, s.o * ys);
    let batch = if image <= MERGEABLE { s.n } else { 1 };
    let work = og * depth * batch * ys;
    let to = Shared::new(gw);
    for first in (0..s.n).step_by(batch) {
        each_group(s.groups, work, |group, parallel| {
            let windows = Windows::new(&x[first * image + group * s.cg() * xs..], &reads, batch, image);
            let g = Segments::new(&g[first * g_image + group * og * ys..], ys, Elements::Run(ys), g_image);
            // SAFETY: the slices have these sizes, and one thread writes the group of the gradient.
            unsafe {
                let p = Product {
                    m: og,
                    n: depth,
                    k: batch * ys,
                    alpha: A::ONE,
                    beta: if first == 0 { A::ZERO } else { A::ONE },
                    c: to.ptr().add(group * og * depth),
                    row: depth,
                    columns: &Adjacent,
                    parallel: parallel && work >= SERIAL,
                    rounded: None,
                    bias: None,
                };
                fastest_product(&g, &windows.transposed(), &p);
            }
        });
    }
}
