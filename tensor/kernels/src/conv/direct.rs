//! Direct convolution with unit steps, for few channels and small images. There, packing windows or transforming tiles
//! costs more than it saves.
//!
//! The part of an image that some result rows read is copied once, padded with zeros, and stays in the first two levels
//! of cache.
//!
//! For a result, there is one copy per kernel column, shifted by that column and as wide as the result. So the inputs
//! of one tap for consecutive results are contiguous, even across rows. A register tile of channels x results loads
//! them in place and stores results in order.
//!
//! For the weight's gradient, the lanes are result channels, and the result's gradient is packed in that layout. The
//! rows of a tile are taps, and each tap reads single elements of one padded copy. Sums over images stay in vectors
//! until the end.

use super::vector::{Transform, Vector, copy, leveled};
use super::{Shape, kernel_positions};
use crate::cpu::{Level, level};
use crate::gemm::pack;
use crate::memory;
use crate::par::{Scratch, Shared, parallel_for};
use crate::real::Real;
use crate::threads::num_threads;

/// Number of elements by which vectors may reach beyond the end of a buffer.
const ROOM: usize = 64;
/// Smallest number of multiplications per thread.
const GRAIN: usize = 1 << 17;

/// A convolution: result `p` is the sum over taps of `w[tap] * source[p + tap - low]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layer {
    n: usize,
    c: usize,
    o: usize,
    source: [usize; 3],
    result: [usize; 3],
    k: [usize; 3],
    low: [isize; 3],
    /// Whether the kernel is read backwards.
    reverse: bool,
}

/// Layout of the copied part of an image: `[copy][channel][kernel plane][row][column]`.
#[derive(Clone, Copy)]
struct Form {
    /// Number of result rows, of one result plane, that a part serves.
    rows: usize,
    /// Number of parts of a result plane.
    parts: usize,
    /// Number of copies, each shifted by one more column.
    copies: usize,
    /// Number of elements in a row.
    pitch: usize,
    /// Number of elements in a plane of a copy.
    plane: usize,
}

/// The part of image `n` for the result rows `first..first + rows` of plane `z`.
#[derive(Clone, Copy)]
struct Part {
    n: usize,
    z: usize,
    first: usize,
    rows: usize,
}

impl Part {
    /// Return the position of the part within its image.
    fn place(&self) -> (usize, usize) {
        (self.z, self.first)
    }
}

impl Layer {
    /// Return the convolution if all steps are one and there is one group.
    pub(super) fn new(s: &Shape) -> Option<Layer> {
        let low = s.unit_low?.map(|low| low as isize);
        (s.groups == 1).then_some(Layer {
            n: s.n,
            c: s.c,
            o: s.o,
            source: s.x,
            result: s.y,
            k: s.k,
            low,
            reverse: s.reverse,
        })
    }

    /// Return the convolution that computes this one's gradient for the input.
    pub(super) fn input_gradient(&self) -> Layer {
        let low = std::array::from_fn(|d| self.k[d] as isize - 1 - self.low[d]);
        let (c, o, source, result) = (self.o, self.c, self.result, self.source);
        Layer { c, o, source, result, low, reverse: !self.reverse, ..*self }
    }

    /// Whether this is faster than a product of packed windows. If `transforms` is set, compare with Winograd
    /// transforms instead.
    ///
    /// Only AVX-512 packs windows of `f32` quickly: elsewhere, packing takes four times as long as a direct
    /// convolution. Transforms save more than this if there are many channels to sum over. Microseconds before and
    /// after, with two AVX-512 cores, `f32`, kernel 3x3, padding 1:
    ///
    /// | batch, channels, side, output channels | result | input gradient | weight gradient |
    /// |---|---|---|---|
    /// | 64, 1, 8, 16 | 16, 11 | 52, 37 | 53, 12 |
    /// | 64, 16, 8, 32 | 161, 149 | 256, 181 | 228, 162 |
    /// | 8, 3, 28, 32 | 117, 85 | 379, 209 | 149, 95 |
    /// | 8, 8, 14, 16 | 81, 34 | 96, 43 | 129, 33 |
    /// | 1, 16, 28, 32 | 68, 53 | 93, 68 | 80, 54 |
    /// | 8, 16, 28, 32 | 310, 205 | transforms | 438, 204 |
    /// | 64, 32, 14, 32 | 970, 878 | 1040, 864 | transforms |
    pub(super) fn is_profitable<A>(&self, transforms: bool) -> bool {
        let most = match (packs_quickly::<A>(), transforms) {
            (true, true) if self.result[2] > 128 => 0,
            (true, true) if self.result[2] > 16 => 16,
            (true, _) => 32,
            (false, true) => 0,
            (false, false) => 64,
        };
        self.is_flat() && self.taps() > 1 && self.c <= most
    }

    /// Like [`Layer::is_profitable`], for the weight's gradient. Its sums are read and written once per part of an
    /// image, so there must not be too many.
    pub(super) fn is_profitable_for_weights<A>(&self, transforms: bool) -> bool {
        let most = match (packs_quickly::<A>(), transforms) {
            (true, false) if self.taps() > 9 && self.n * self.result_plane() >= 1024 => 32,
            (true, _) => 16,
            (false, true) => 0,
            (false, false) => 64,
        };
        self.is_flat() && self.c <= most && self.c * self.taps() * self.o <= 1 << 16
    }

    /// Whether the convolution is two-dimensional, with rows worth copying and enough results to be worth packing its
    /// kernels.
    fn is_flat(&self) -> bool {
        let plane = self.result_plane();
        let flat =
            self.source[0] == 1 && self.k[0] == 1 && self.result[0] == 1 && self.result[1] > 1 && self.result[2] >= 4;
        flat && plane >= 25 && self.n * plane >= (16 * self.c).max(128)
    }

    fn taps(&self) -> usize {
        self.k.iter().product()
    }
    fn result_plane(&self) -> usize {
        self.result.iter().product()
    }
    /// Return the number of multiplications for a row of the result.
    fn row_work(&self) -> usize {
        self.result[2] * self.c * self.taps() * self.o
    }

    /// Return a layout whose copies stay in a second-level cache, with rows few enough for `tasks` parts if possible.
    fn form(&self, copies: usize, tasks: usize) -> Form {
        const ELEMENTS: usize = 1 << 15;
        let pitch = self.result[2] + self.k[2] - copies;
        let fit =
            (ELEMENTS / (self.c * self.k[0] * copies * pitch).max(1)).saturating_sub(self.k[1] - 1).max(self.k[1]);
        let parts = self.result[1].div_ceil(fit).max(tasks / (self.n * self.result[0]).max(1)).clamp(1, self.result[1]);
        let rows = self.result[1].div_ceil(parts);
        let plane = (rows + self.k[1] - 1) * pitch;
        Form { rows, parts: self.result[1].div_ceil(rows), copies, pitch, plane }
    }

    fn count(&self, form: &Form) -> usize {
        self.n * self.result[0] * form.parts
    }
    fn part(&self, form: &Form, i: usize) -> Part {
        let first = i % form.parts * form.rows;
        let plane = i / form.parts;
        let rows = form.rows.min(self.result[1] - first);
        Part { n: plane / self.result[0], z: plane % self.result[0], first, rows }
    }
    fn elements(&self, form: &Form) -> usize {
        self.c * self.k[0] * form.copies * form.plane + ROOM
    }

    /// Return the offsets that the taps of each channel read for the first result.
    fn offsets(&self, form: &Form) -> Vec<usize> {
        let taps = kernel_positions(self.k);
        let of = |c: usize, tap: &[usize; 3]| {
            let [z, y, x] = std::array::from_fn(|d| if self.reverse { self.k[d] - 1 - tap[d] } else { tap[d] });
            let (copy, x) = if form.copies == 1 { (0, x) } else { (x, 0) };
            ((copy * self.c + c) * self.k[0] + z) * form.plane + y * form.pitch + x
        };
        memory::collect((0..self.c).flat_map(|c| taps.iter().map(move |tap| of(c, tap))))
    }
}

/// Whether vectors pack windows of type `A` at this level.
fn packs_quickly<A>() -> bool {
    level() >= Level::Avx512 && size_of::<A>() == 4
}

/// Return the number of lanes of a vector at this level.
fn lanes<A>() -> usize {
    match level() {
        Level::Portable => 4,
        Level::Avx2 => 32 / size_of::<A>(),
        _ => 64 / size_of::<A>(),
    }
}

/// Return the tile height with the least cost for `rows` rows.
fn height(rows: usize) -> usize {
    let heights: &[usize] =
        if level() >= Level::Avx512 { &[14, 13, 11, 9, 8, 6, 4, 3, 2, 1] } else { &[6, 4, 3, 2, 1] };
    let cost = |&h: &usize| rows.div_ceil(h) * (2 * h + 3);
    heights.iter().copied().min_by_key(|h| cost(h)).unwrap_or(1)
}

/// Call a tile function of two constants, rows and vectors, for a height of [`height`]. There is one arm for each pair
/// that fits the registers.
macro_rules! sized {
    ($f:ident::<$v:ident>, $height:expr, $vectors:expr, $args:tt) => {
        sized!(@ $f, $v, $height, $vectors, $args, [14 13 11 9 8], [6], [4 3 2 1])
    };
    (@ $f:ident, $v:ident, $height:expr, $vectors:expr, $args:tt, [$($tall:literal)*], [$middle:literal],
        [$($low:literal)*]) => {{
        let many_registers = $v::LANES * size_of::<$v::Element>() == 64;
        match ($height, $vectors) {
            $(($tall, 2) if many_registers => $f::<$v, $tall, 2> $args,
            ($tall, _) if many_registers => $f::<$v, $tall, 1> $args,)*
            ($middle, 2) => $f::<$v, $middle, 2> $args,
            ($middle, _) => $f::<$v, $middle, 1> $args,
            $(($low, 4) => $f::<$v, $low, 4> $args,
            ($low, 2) => $f::<$v, $low, 2> $args,
            ($low, _) => $f::<$v, $low, 1> $args,)*
            (other, _) => unreachable!("tile of {other} rows"),
        }
    }};
}

leveled! {
    /// Copy a part of an image. Stores whole vectors, so elements behind a run are overwritten by later writes.
    /// `zeroed` means that the last part copied to `to` had the same rows outside the source as this one.
    ///
    /// # Safety
    /// `to` has room for [`Layer::elements`].
    fn copy_part<V>(l: &Layer, form: &Form, x: &[A], part: Part, zeroed: bool, to: *mut A) {
        let ([depth, high, wide], pitch, rows) = (l.source, form.pitch, form.rows + l.k[1] - 1);
        let y = part.first as isize - l.low[1];
        // The rows that lie within the source.
        let above = (-y).clamp(0, rows as isize) as usize;
        let below = (high as isize - y).clamp(above as isize, rows as isize) as usize;
        let valid = below - above;
        for copy in 0..form.copies {
            let shift = copy as isize - l.low[2];
            let begin = (-shift).clamp(0, pitch as isize) as usize;
            let end = (wide as isize - shift).clamp(begin as isize, pitch as isize) as usize;
            for i in 0..l.c * l.k[0] {
                let to = to.add((copy * l.c * l.k[0] + i) * form.plane);
                let (c, z) = if l.k[0] == 1 { (i, 0) } else { (i / l.k[0], i % l.k[0]) };
                let z = (part.z + z) as isize - l.low[0];
                if !(0..depth as isize).contains(&z) || valid == 0 || begin == end {
                    to.write_bytes(0, form.plane);
                    continue;
                }
                if !zeroed {
                    to.write_bytes(0, above * pitch);
                    to.add(below * pitch).write_bytes(0, (rows - below) * pitch);
                }
                let plane = (part.n * l.c + c) * depth + z as usize;
                let x = &x[(plane * high + (y + above as isize) as usize) * wide + (begin as isize + shift) as usize..];
                let first = to.add(above * pitch);
                zeros::<V>(first, begin);
                if pitch == wide {
                    // The rows are consecutive in both the source and the copy.
                    run::<V>(x, first.add(begin), valid * pitch - begin - (pitch - end));
                    for row in 0..valid {
                        (0..begin).chain(end..pitch).for_each(|column| *first.add(row * pitch + column) = A::ZERO);
                    }
                } else {
                    for row in 0..valid {
                        run::<V>(&x[row * wide..], first.add(row * pitch + begin), end - begin);
                        zeros::<V>(first.add(row * pitch + end), pitch - end + begin);
                    }
                }
                // The last vector may have reached beyond the rows.
                V::splat(A::ZERO).store(to.add(below * pitch));
            }
        }
    }
}

/// Write `count` zeros, as a whole vector if one is enough.
#[inline(always)]
unsafe fn zeros<V: Vector>(to: *mut V::Element, count: usize) {
    // SAFETY: the caller leaves room for a whole vector.
    unsafe {
        match count {
            0 => {}
            _ if count <= V::LANES => V::splat(V::Element::ZERO).store(to),
            _ => to.write_bytes(0, count),
        }
    }
}

/// Copy `count` elements in whole vectors.
#[inline(always)]
unsafe fn run<V: Vector>(x: &[V::Element], to: *mut V::Element, count: usize) {
    // SAFETY: the caller leaves room for whole vectors at `to`; `x` is read in whole vectors only if it has that many
    // elements.
    unsafe {
        if x.len() >= count.next_multiple_of(V::LANES) {
            for at in (0..count).step_by(V::LANES) {
                V::load(x.as_ptr().add(at)).store(to.add(at));
            }
        } else {
            std::ptr::copy_nonoverlapping(x.as_ptr(), to, count);
        }
    }
}

/// Position of the kernel from channel `c` to channel `o`: `o * line + c * step`.
#[derive(Clone, Copy)]
struct Kernels {
    line: usize,
    step: usize,
}

pub(super) fn forward<A: Transform>(l: &Layer, x: &[A], w: &[A], bias: Option<&[A]>, y: &mut [A]) {
    convolve(l, x, w, Kernels { line: l.c * l.taps(), step: l.taps() }, bias, y);
}

pub(super) fn input_grad<A: Transform>(l: &Layer, g: &[A], w: &[A], gx: &mut [A]) {
    convolve(&l.input_gradient(), g, w, Kernels { line: l.taps(), step: l.c * l.taps() }, None, gx);
}

fn convolve<A: Transform>(l: &Layer, x: &[A], w: &[A], at: Kernels, bias: Option<&[A]>, y: &mut [A]) {
    let form = l.form(l.k[2], 4 * num_threads());
    let (offsets, height, taps) = (l.offsets(&form), height(l.o), l.taps());
    let mut packed = Scratch::<A>::any(l.o.next_multiple_of(height) * offsets.len());
    // Pack consecutive kernels in one run.
    let (runs, length) = if at.step == taps { (1, offsets.len()) } else { (l.c, taps) };
    for (strip, packed) in packed.chunks_exact_mut((height * offsets.len()).max(1)).enumerate() {
        let first = strip * height;
        for c in 0..runs {
            // SAFETY: the kernels exist, and the strip has room for them.
            unsafe {
                let from = w.as_ptr().add(first * at.line + c * at.step);
                let to = packed.as_mut_ptr().add(c * length * height);
                pack::<A>(from, at.line, 1, height.min(l.o - first), length, height, to);
            }
        }
    }
    let y = Shared::new(y);
    parallel_for(l.count(&form), GRAIN.div_ceil(form.rows * l.row_work().max(1)), |range| {
        let mut copied = Scratch::<A>::any(l.elements(&form));
        let mut before = None;
        for i in range {
            let part = l.part(&form, i);
            let to = (part.n * l.o * l.result[0] + part.z) * l.result[1] + part.first;
            // SAFETY: the buffers were made for this form, and one thread writes the part of the result.
            unsafe {
                copy_part(l, &form, x, part, before.replace(part.place()) == Some(part.place()), copied.as_mut_ptr());
                let y = y.ptr().add(to * l.result[2]);
                results(&copied, &offsets, &packed, height, l.o, bias, part.rows * l.result[2], y, l.result_plane());
            }
        }
    });
}

leveled! {
    /// Write `count` results of each channel. Channels are `plane` elements apart.
    ///
    /// # Safety
    /// `copied`, `offsets` and `packed` were made for the same form, and the results may be written.
    fn results<V>(
        copied: &[A], offsets: &[usize], packed: &[A], height: usize, channels: usize, bias: Option<&[A]>, count: usize,
        y: *mut A, plane: usize,
    ) {
        let mut at = 0;
        while at < count {
            let vectors = match (count - at).div_ceil(V::LANES) {
                4.. if height <= 4 => 4,
                2.. => 2,
                _ => 1,
            };
            for first in (0..channels).step_by(height) {
                let a = packed.as_ptr().add(first * offsets.len());
                let bias = bias.map(|bias| &bias[first..]);
                let (y, rows) = (y.add(first * plane + at), height.min(channels - first));
                sized!(
                    result::<V>, height, vectors,
                    (copied.as_ptr().add(at), offsets, a, bias, rows, count - at, y, plane)
                );
            }
            at += vectors * V::LANES;
        }
    }
}

/// Compute one tile of [`results`]: `rows` of its rows, and the first `columns` of its columns.
#[inline(always)]
unsafe fn result<V: Vector, const ROWS: usize, const VECTORS: usize>(
    x: *const V::Element,
    offsets: &[usize],
    a: *const V::Element,
    bias: Option<&[V::Element]>,
    rows: usize,
    columns: usize,
    y: *mut V::Element,
    plane: usize,
) {
    // SAFETY: the caller passes operands of the same form and room for the results.
    unsafe {
        let mut sums = [[V::splat(V::Element::ZERO); VECTORS]; ROWS];
        let mut a = a;
        for &offset in offsets {
            let x: [V; VECTORS] = std::array::from_fn(|j| V::load(x.add(offset + j * V::LANES)));
            for i in 0..ROWS {
                let a = V::splat(*a.add(i));
                for j in 0..VECTORS {
                    sums[i][j] = sums[i][j].plus(a, x[j]);
                }
            }
            a = a.add(ROWS);
        }
        if let Some(bias) = bias {
            for i in 0..ROWS {
                let bias = V::splat(bias[i.min(rows - 1)]);
                sums[i] = sums[i].map(|sum| sum.add(bias));
            }
        }
        if columns >= VECTORS * V::LANES {
            for i in 0..ROWS {
                if i < rows {
                    for j in 0..VECTORS {
                        sums[i][j].store(y.add(i * plane + j * V::LANES));
                    }
                }
            }
            return;
        }
        let mut buffer = [[V::Element::ZERO; 64]; ROWS];
        for i in 0..ROWS {
            for j in 0..VECTORS {
                sums[i][j].store(buffer[i].as_mut_ptr().add(j * V::LANES));
            }
        }
        for (i, buffer) in buffer.iter().enumerate().take(rows) {
            for at in (0..columns).step_by(16) {
                copy(buffer.as_ptr().add(at), y.add(i * plane + at), (columns - at).min(16));
            }
        }
    }
}

pub(super) fn weight_grad<A: Transform>(l: &Layer, x: &[A], g: &[A], gw: &mut [A]) {
    let form = l.form(1, 8);
    let (items, mut offsets) = (l.count(&form), l.offsets(&form));
    let (depth, height) = (offsets.len(), height(offsets.len()));
    memory::reserve(&mut offsets, depth.next_multiple_of(height) - depth);
    offsets.resize(depth.next_multiple_of(height), 0);
    // Number of lanes of a tile.
    let lanes = lanes::<A>();
    let wide = if l.o > lanes { 2 * lanes } else { lanes };
    let blocks = l.o.div_ceil(wide);
    // The number of parts depends only on sizes, so results do not depend on the number of threads.
    let work = items * form.rows * l.result[2] * (depth + 16) * blocks * wide;
    let most = (l.n * l.result_plane() / 256).clamp(1, 16).min(items);
    let parts = 1 << (work >> 19).clamp(1, most).ilog2();
    let part_sums = blocks * offsets.len() * wide;
    let mut sums = Scratch::<A>::filled(parts * part_sums, A::ZERO);
    let to = Shared::new(&mut sums);
    parallel_for(parts, 1, |range| {
        let mut copied = Scratch::<A>::any(l.elements(&form));
        let mut before = None;
        let mut packed = Scratch::<A>::any(form.rows * l.result[2] * wide);
        for p in range {
            for i in p * items / parts..(p + 1) * items / parts {
                let part = l.part(&form, i);
                let (rows, columns) = (part.rows, l.result[2]);
                let from = (part.n * l.o * l.result[0] + part.z) * l.result[1] + part.first;
                // SAFETY: the buffers were made for this form, and each part has its own sums.
                unsafe {
                    copy_part(
                        l,
                        &form,
                        x,
                        part,
                        before.replace(part.place()) == Some(part.place()),
                        copied.as_mut_ptr(),
                    );
                    for block in 0..blocks {
                        let g = g.as_ptr().add(from * columns + block * wide * l.result_plane());
                        let valid = wide.min(l.o - block * wide);
                        pack::<A>(g, l.result_plane(), 1, valid, rows * columns, wide, packed.as_mut_ptr());
                        let to = to.ptr().add(p * part_sums + block * offsets.len() * wide);
                        taps(&copied, &offsets, height, &packed, wide / lanes, rows, columns, form.pitch, to);
                    }
                }
            }
        }
    });
    let gw = Shared::new(gw);
    parallel_for(depth, (1usize << 14).div_ceil(parts * blocks * wide), |range| {
        let mut sum = Scratch::<A>::any(wide);
        for tap in range {
            for block in 0..blocks {
                sum.fill(A::ZERO);
                for p in 0..parts {
                    let at = p * part_sums + (block * offsets.len() + tap) * wide;
                    sum.iter_mut().zip(&sums[at..at + wide]).for_each(|(sum, v)| *sum += *v);
                }
                for o in block * wide..l.o.min((block + 1) * wide) {
                    // SAFETY: the weight is in bounds, and one thread writes the tap.
                    unsafe { *gw.ptr().add(o * depth + tap) = sum[o - block * wide] };
                }
            }
        }
    });
}

leveled! {
    /// Add the contribution of some rows of the result's gradient to the sums of all taps. Each position has `vectors`
    /// vectors of channels.
    ///
    /// # Safety
    /// `copied`, `offsets` and `g` were made for the same form, and `sums` has room for all taps.
    fn taps<V>(
        copied: &[A], offsets: &[usize], height: usize, g: &[A], vectors: usize, rows: usize, columns: usize,
        pitch: usize, sums: *mut A,
    ) {
        for (i, offsets) in offsets.chunks_exact(height).enumerate() {
            let sums = sums.add(i * height * vectors * V::LANES);
            sized!(tap::<V>, height, vectors, (copied.as_ptr(), offsets, g.as_ptr(), rows, columns, pitch, sums));
        }
    }
}

/// Compute one tile of [`taps`].
#[inline(always)]
unsafe fn tap<V: Vector, const ROWS: usize, const VECTORS: usize>(
    x: *const V::Element,
    offsets: &[usize],
    g: *const V::Element,
    rows: usize,
    columns: usize,
    pitch: usize,
    to: *mut V::Element,
) {
    // SAFETY: the caller passes operands of the same form and room for the sums.
    unsafe {
        let place = |i: usize, j: usize| to.add((i * VECTORS + j) * V::LANES);
        let mut sums: [[V; VECTORS]; ROWS] = std::array::from_fn(|i| std::array::from_fn(|j| V::load(place(i, j))));
        let x: [*const V::Element; ROWS] = std::array::from_fn(|i| x.add(offsets[i]));
        let (mut at, mut g) = (0, g);
        for _ in 0..rows {
            for _ in 0..columns {
                let g_here: [V; VECTORS] = std::array::from_fn(|j| V::load(g.add(j * V::LANES)));
                for i in 0..ROWS {
                    let x = V::splat(*x[i].add(at));
                    for j in 0..VECTORS {
                        sums[i][j] = sums[i][j].plus(x, g_here[j]);
                    }
                }
                (at, g) = (at + 1, g.add(VECTORS * V::LANES));
            }
            at += pitch - columns;
        }
        for i in 0..ROWS {
            for j in 0..VECTORS {
                sums[i][j].store(place(i, j));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ConvSpec;
    use super::*;
    use crate::threads::set_num_threads;

    struct Random(u64);
    impl Random {
        fn pick(&mut self, low: usize, high: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            low + (self.0 >> 33) as usize % (high - low + 1)
        }
        fn numbers(&mut self, n: usize) -> Vec<f64> {
            (0..n).map(|_| self.pick(0, 1 << 20) as f64 / (1 << 19) as f64 - 1.0).collect()
        }
    }

    /// Operands of a convolution, with the result (without bias) and gradients computed by definition.
    struct Case {
        layer: Layer,
        x: Vec<f64>,
        w: Vec<f64>,
        g: Vec<f64>,
        bias: Vec<f64>,
        wanted: [Vec<f64>; 3],
    }

    fn case(random: &mut Random, spatial: usize, channels: usize) -> Case {
        let mut three = |low, high| std::array::from_fn(|d| if d < spatial { random.pick(low, high) } else { 1 });
        let (k, x): ([usize; 3], [usize; 3]) = (three(1, 5), three(5, [0, 70, 23, 7][spatial]));
        let pad: [(i64, i64); 3] = std::array::from_fn(|_| (random.pick(0, 3) as i64 - 1, random.pick(0, 2) as i64));
        let spec = ConvSpec { spatial, pad, reverse: random.pick(0, 1) == 1, ..ConvSpec::default() };
        let (n, c, o) = (random.pick(1, 3), random.pick(1, channels), random.pick(1, channels));
        let y: [usize; 3] = std::array::from_fn(|d| if d < spatial { spec.output_size(d, x[d], k[d]) } else { 1 });
        let sizes = |a: usize, b: usize, of: &[usize; 3]| [&[a, b], &of[..spatial]].concat();
        let (xs, ws, ys) = (sizes(n, c, &x), sizes(o, c, &k), sizes(n, o, &y));
        let layer = Layer::new(&Shape::new(&spec, &xs, &ws, &ys)).unwrap();
        let mut of = |sizes: &[usize]| random.numbers(sizes.iter().product());
        let (mut xv, wv, gv, bias) = (of(&xs), of(&ws), of(&ys), of(&[o]));
        if random.pick(0, 3) == 0 {
            // The NaN must spoil the results that read it, and no others.
            let at = random.pick(0, xv.len() - 1);
            xv[at] = f64::NAN;
        }
        let mut wanted = [gv.len(), xv.len(), wv.len()].map(|n| vec![0.0; n]);
        let Layer { source, result, k, low, .. } = layer;
        let flat = |at: [usize; 3], sizes: [usize; 3]| (at[0] * sizes[1] + at[1]) * sizes[2] + at[2];
        for (n, o, c) in (0..n).flat_map(|n| (0..o).flat_map(move |o| (0..c).map(move |c| (n, o, c)))) {
            for (p, tap) in
                kernel_positions(result).into_iter().flat_map(|p| kernel_positions(k).into_iter().map(move |t| (p, t)))
            {
                let read: [isize; 3] = std::array::from_fn(|d| {
                    let tap = if spec.reverse { k[d] - 1 - tap[d] } else { tap[d] };
                    (p[d] + tap) as isize - low[d]
                });
                if (0..3).all(|d| (0..source[d] as isize).contains(&read[d])) {
                    let xi =
                        (n * layer.c + c) * source.iter().product::<usize>() + flat(read.map(|at| at as usize), source);
                    let yi = (n * layer.o + o) * layer.result_plane() + flat(p, result);
                    let wi = (o * layer.c + c) * layer.taps() + flat(tap, k);
                    wanted[0][yi] += xv[xi] * wv[wi];
                    wanted[1][xi] += gv[yi] * wv[wi];
                    wanted[2][wi] += gv[yi] * xv[xi];
                }
            }
        }
        Case { layer, x: xv, w: wv, g: gv, bias, wanted }
    }

    /// Compute the result and both gradients, over buffers with other numbers.
    fn all<A: Transform>(c: &Case, with_bias: bool) -> [Vec<A>; 3] {
        let to = |x: &[f64]| -> Vec<A> { x.iter().map(|&v| A::of(v)).collect() };
        let (x, w, g, bias) = (to(&c.x), to(&c.w), to(&c.g), to(&c.bias));
        let mut out = [0, 1, 2].map(|i| vec![A::of(77.0); c.wanted[i].len()]);
        forward(&c.layer, &x, &w, with_bias.then_some(&bias[..]), &mut out[0]);
        input_grad(&c.layer, &g, &w, &mut out[1]);
        weight_grad(&c.layer, &x, &g, &mut out[2]);
        out
    }

    #[test]
    fn every_shape_equals_the_definition() {
        fn check<A: Transform>(c: &Case, with_bias: bool, tolerance: f64) {
            let l = &c.layer;
            let terms = [l.c * l.taps(), l.o * l.taps(), l.n * l.result_plane()].map(|n| (n as f64).sqrt());
            for (i, (got, want)) in all::<A>(c, with_bias).iter().zip(&c.wanted).enumerate() {
                for (at, (got, want)) in got.iter().zip(want).enumerate() {
                    let bias = if i == 0 && with_bias { c.bias[at / l.result_plane() % l.o] } else { 0.0 };
                    let (got, want) = (got.to_f64(), want + bias);
                    let near = (got - want).abs() <= tolerance * terms[i] * (1.0 + want.abs());
                    assert!(near || (got.is_nan() && want.is_nan()), "{i}: {at} is {got}, not {want}, of {l:?}");
                }
            }
        }
        let mut random = Random(21);
        for i in 0..90 {
            let c = case(&mut random, [2, 1, 2, 3][i % 4], [5, 36][i % 2]);
            check::<f64>(&c, i % 3 == 0, 2e-15);
            check::<f32>(&c, i % 3 == 1, 1e-6);
        }
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        let mut random = Random(22);
        for _ in 0..6 {
            let c = case(&mut random, 2, 40);
            let before = num_threads();
            let of = |threads: usize| {
                set_num_threads(threads);
                all::<f32>(&c, false).map(|v| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
            };
            let one = of(1);
            let same = [2, 3, 5, 8].map(|threads| of(threads) == one);
            set_num_threads(before);
            assert_eq!(same, [true; 4], "{:?}", c.layer);
        }
    }

    #[test]
    fn results_are_right_at_every_level() {
        if std::env::var_os("TORCHTPU_CPU_SIMD").is_some() {
            // This process is one of the child processes started below.
            return;
        }
        let program = std::env::current_exe().unwrap();
        for other in Level::ALL.into_iter().filter(|&l| l <= crate::cpu::machine() && l != level()) {
            let mut command = std::process::Command::new(&program);
            let output = command.arg("conv::direct").env("TORCHTPU_CPU_SIMD", other.name()).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains("3 passed"), "at level {}:\n{text}", other.name());
        }
    }
}
