//! Convolutions with 3x3 kernels and unit steps by Winograd's F(2x2, 3x3), and their gradients (Lavin and Gray, "Fast
//! Algorithms for Convolutional Neural Networks", 2015).
//!
//! A tile of 2x2 results reads a patch of 4x4 inputs. Patch and kernel are each transformed to 16 numbers. These are
//! multiplied one by one and summed over channels, and the sums are transformed back. This takes 16 multiplications for
//! 4 results instead of 36. Over all channels and tiles, it is 16 matrix products, one for each *point*. The gradient
//! for the input is the same with reversed kernels. The gradient for the weight is the transposed algorithm, whose sums
//! run over the tiles.
//!
//! Tiles are processed in chunks that stay in a second-level cache. Transformed numbers are written in the layout that
//! the register tiles of [`gemm`](crate::gemm) read, so nothing is packed a second time. Lanes are tiles if sums run
//! over channels, and channels if sums run over tiles.
//!
//! Sums and differences of neighbours are computed before the products, so an infinite or NaN input makes whole tiles
//! NaN.

#[cfg(test)]
mod tests;
mod weight_grad;

pub(super) use weight_grad::weight_grad;

use super::vector::{Transform, Vector, copy, leveled};
use super::{Shape, each_group};
use crate::cpu::level;
use crate::gemm::{Kernel, Multiply, pack};
use crate::par::{Scratch, Shared, parallel_for};
use crate::real::Real;
use crate::threads::num_threads;
use std::ops::Range;

/// Number of points that a patch or a kernel is transformed to.
const POINTS: usize = 16;
/// Number of elements that transforms handle at a time. They may write up to this many elements beyond their result,
/// which later writes replace. Buffers have as much room at the end.
const LANES: usize = 16;
/// Number of elements in a kernel.
const TAPS: usize = 9;

/// A convolution: result `p` is the sum over taps of `w[tap] * source[p + tap - low]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layer {
    n: usize,
    groups: usize,
    /// Number of input channels of a group. `o` is the number of output channels.
    c: usize,
    o: usize,
    source: [usize; 2],
    result: [usize; 2],
    low: [isize; 2],
    /// Whether the kernel is read backwards.
    reverse: bool,
}

/// Position of the kernel from channel `c` to channel `o` of a group: `o * line + c * step`.
#[derive(Clone, Copy)]
struct Kernels {
    line: usize,
    step: usize,
}

impl Layer {
    /// Return the convolution if it has two dimensions, a 3x3 kernel and unit steps.
    pub(super) fn new(s: &Shape) -> Option<Layer> {
        let low = s.unit_low?;
        let flat = s.k == [1, 3, 3] && s.table[0] == [0] && !s.is_depthwise();
        flat.then(|| Layer {
            n: s.n,
            groups: s.groups,
            c: s.cg(),
            o: s.og(),
            source: [s.x[1], s.x[2]],
            result: [s.y[1], s.y[2]],
            low: [low[1] as isize, low[2] as isize],
            reverse: s.reverse,
        })
    }

    /// Return the convolution that computes this one's gradient for the input.
    pub(super) fn input_gradient(&self) -> Layer {
        let low = self.low.map(|low| 2 - low);
        let (c, o, source, result) = (self.o, self.c, self.result, self.source);
        Layer { c, o, source, result, low, reverse: !self.reverse, ..*self }
    }

    /// Whether there is enough work to make up for transforming the kernels.
    pub(super) fn is_profitable(&self) -> bool {
        let (c, o, results) = (self.c, self.o, self.n * self.result_plane());
        c >= 16 && results >= (c * o / 256).max(512) && results * c.min(o) >= 1 << 16
    }

    /// Like [`Layer::is_profitable`], with tiles as lanes. Narrow planes have few neighbouring tiles, so they need more
    /// channels.
    pub(super) fn is_profitable_along_tiles(&self) -> bool {
        self.is_profitable() && self.c * self.grid()[1].min(8) >= 128
    }

    /// Return the number of tiles along both dimensions.
    fn grid(&self) -> [usize; 2] {
        self.result.map(|size| size.div_ceil(2))
    }
    fn tiles(&self) -> usize {
        self.n * self.grid()[0] * self.grid()[1]
    }
    fn source_plane(&self) -> usize {
        self.source[0] * self.source[1]
    }
    fn result_plane(&self) -> usize {
        self.result[0] * self.result[1]
    }

    /// Return the runs of a range of tiles, image by image.
    fn runs(&self, tiles: &Range<usize>) -> Vec<Run> {
        let [high, wide] = self.grid();
        let mut runs = Vec::new();
        let mut at = tiles.start;
        while at < tiles.end {
            let image = at / (high * wide);
            let end = tiles.end.min((image + 1) * high * wide);
            let (first, last) = (at - image * high * wide, end - 1 - image * high * wide);
            let (rows, columns) = (first / wide..last / wide + 1, first % wide..last % wide + 1);
            let columns = if rows.len() == 1 { columns } else { 0..wide };
            runs.push(Run { image, rows, columns, tiles: first..last + 1 });
            at = end;
        }
        runs
    }
}

/// Consecutive tiles of one image, and the rows and columns of the grid that they cover.
struct Run {
    image: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    /// Range of tiles, counted within the image.
    tiles: Range<usize>,
}

/// Up to [`LANES`] neighbouring tiles.
struct Piece {
    /// First tile within the chunk. `count` is the number of tiles.
    at: usize,
    count: usize,
    image: usize,
    /// Position in the grid.
    row: usize,
    column: usize,
    /// Upper left element among the phases. `pitch` is the distance between an even row and its odd row.
    from: usize,
    pitch: usize,
}

/// Cut the tiles of runs into pieces that do not cross a multiple of `width`.
fn pieces(runs: &[Run], wide: usize, width: usize) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let (mut at, mut phases) = (0, 0);
    for run in runs {
        let pitch = run.columns.len() + 1;
        let mut tile = run.tiles.start;
        while tile < run.tiles.end {
            let (row, column) = (tile / wide, tile % wide);
            let count = (run.tiles.end - tile).min(wide - column).min(width - at % width).min(LANES);
            let from = phases + 4 * pitch * (row - run.rows.start) + column - run.columns.start;
            pieces.push(Piece { at, count, image: run.image, row, column, from, pitch });
            (at, tile) = (at + count, tile + count);
        }
        phases += phase_elements(run);
    }
    pieces
}

/// Return the number of elements of a run's phases: for each input row the even elements, then the odd ones.
fn phase_elements(run: &Run) -> usize {
    (2 * run.rows.len() + 2) * 2 * (run.columns.len() + 1)
}

/// Transform four elements of a patch to four points.
#[inline(always)]
unsafe fn patch<V: Vector>(d: [V; 4]) -> [V; 4] {
    // SAFETY: the caller has the registers.
    unsafe { [d[0].sub(d[2]), d[1].add(d[2]), d[2].sub(d[1]), d[1].sub(d[3])] }
}
/// Transform three taps to four points.
#[inline(always)]
unsafe fn taps<V: Vector>(w: [V; 3]) -> [V; 4] {
    // SAFETY: the caller has the registers.
    unsafe {
        let (half, ends) = (V::splat(V::Element::of(0.5)), w[0].add(w[2]));
        [w[0], ends.add(w[1]).mul(half), ends.sub(w[1]).mul(half), w[2]]
    }
}
/// Transform four points to three taps: the transpose of [`taps`].
#[inline(always)]
unsafe fn taps_back<V: Vector>(p: [V; 4]) -> [V; 3] {
    // SAFETY: the caller has the registers.
    unsafe {
        let half = V::splat(V::Element::of(0.5));
        let ends = p[1].add(p[2]).mul(half);
        [p[0].add(ends), p[1].sub(p[2]).mul(half), ends.add(p[3])]
    }
}
/// Transform four points to two results.
#[inline(always)]
unsafe fn results<V: Vector>(p: [V; 4]) -> [V; 2] {
    // SAFETY: the caller has the registers.
    unsafe { [p[0].add(p[1]).add(p[2]), p[1].sub(p[2]).sub(p[3])] }
}
/// Transform two results to four points: the transpose of [`results`].
#[inline(always)]
unsafe fn results_back<V: Vector>(y: [V; 2]) -> [V; 4] {
    // SAFETY: the caller has the registers.
    unsafe { [y[0], y[0].add(y[1]), y[0].sub(y[1]), V::splat(V::Element::ZERO).sub(y[1])] }
}

/// Apply a transform to each column of a matrix of vectors.
#[inline(always)]
fn down<V: Vector, const N: usize, const M: usize, const W: usize>(
    rows: [[V; W]; N],
    f: impl Fn([V; N]) -> [V; M],
) -> [[V; W]; M] {
    let columns: [[V; M]; W] = std::array::from_fn(|j| f(std::array::from_fn(|i| rows[i][j])));
    std::array::from_fn(|i| std::array::from_fn(|j| columns[j][i]))
}

/// Store points that are `distance` elements apart.
#[inline(always)]
unsafe fn store<V: Vector, const N: usize>(points: [V; N], to: *mut V::Element, distance: usize) {
    for (point, v) in points.into_iter().enumerate() {
        // SAFETY: the caller has the registers, and passes room for all points.
        unsafe { v.store(to.add(point * distance)) };
    }
}

#[inline(always)]
unsafe fn store_all<V: Vector>(points: [[V; 4]; 4], to: *mut V::Element, distance: usize) {
    for (i, row) in points.into_iter().enumerate() {
        // SAFETY: the caller has the registers, and passes room for all points.
        unsafe { store(row, to.add(4 * i * distance), distance) };
    }
}

/// Transformed kernels, `[point][strip][input channel][height]`. There is unused memory behind each strip.
struct Left<A> {
    u: Scratch<A>,
    height: usize,
    strips: usize,
    strip: usize,
}

fn transform_kernels<A: Transform>(l: &Layer, kernel: &Kernel<A>, w: &[A], at: Kernels) -> Left<A> {
    /// Number of channels whose kernels are packed at a time.
    const CHANNELS: usize = 16;
    let height = kernel.height(l.o);
    assert!(height <= LANES);
    let (strips, strip) = (l.o.div_ceil(height), l.c * height + LANES);
    let mut u = Scratch::<A>::any(POINTS * strips * strip);
    let to = Shared::new(&mut u);
    parallel_for(strips, (1usize << 12).div_ceil(l.c * height), |range| {
        let mut packed = Scratch::<A>::any(CHANNELS * TAPS * height + LANES);
        for s in range {
            let valid = height.min(l.o - s * height);
            for c in (0..l.c).step_by(CHANNELS) {
                let count = CHANNELS.min(l.c - c);
                // SAFETY: the kernels exist, and one thread writes the strip.
                unsafe {
                    let from = w.as_ptr().add(s * height * at.line + c * at.step);
                    if at.step == TAPS {
                        pack::<A>(from, at.line, 1, valid, count * TAPS, height, packed.as_mut_ptr());
                    } else {
                        for i in 0..count {
                            let to = packed.as_mut_ptr().add(i * TAPS * height);
                            pack::<A>(from.add(i * at.step), at.line, 1, valid, TAPS, height, to);
                        }
                    }
                    let to = to.ptr().add(s * strip + c * height);
                    spread_kernels(&packed, count, height, l.reverse, to, strips * strip);
                }
            }
        }
    });
    Left { u, height, strips, strip }
}

leveled! {
    /// Transform `[count][taps][height]` to `[point][count][height]`, with points `distance` elements apart.
    ///
    /// # Safety
    /// Both buffers have room for `LANES` elements behind their last line.
    fn spread_kernels<V>(packed: &[A], count: usize, height: usize, reverse: bool, to: *mut A, distance: usize) {
        for i in 0..count {
            for lane in (0..height).step_by(V::LANES) {
                let mut kernel = [[V::splat(A::ZERO); 3]; 3];
                for (tap, v) in kernel.as_flattened_mut().iter_mut().enumerate() {
                    let tap = if reverse { TAPS - 1 - tap } else { tap };
                    *v = V::load(packed.as_ptr().add((i * TAPS + tap) * height + lane));
                }
                let points = down(kernel.map(|w| taps(w)), |w| taps(w));
                store_all(points, to.add(i * height + lane), distance);
            }
        }
    }
}

/// How one input row is split into its phases: a single odd element, pairs, and a single even element.
#[derive(Clone, Copy)]
struct Split {
    /// First element, and its place.
    from: usize,
    place: usize,
    count: usize,
}

impl Split {
    /// Split the places `0..places` of a row of `size` elements. Place 0 is element `start`.
    fn new(start: isize, places: usize, size: usize) -> Split {
        let place = (-start).max(0);
        let count = (places as isize).min(size as isize - start) - place;
        let (from, place) = ((start + place).max(0) as usize, place as usize);
        if count > 0 { Split { from, place, count: count as usize } } else { Split { from: 0, place: 0, count: 0 } }
    }

    #[inline(always)]
    unsafe fn apply<A: Real>(self, row: *const A, even: *mut A, odd: *mut A) {
        let Split { from, mut place, mut count } = self;
        // SAFETY: the caller passes a row of the size given to `new`, and room for its phases.
        unsafe {
            let mut from = row.add(from);
            if place % 2 == 1 && count > 0 {
                *odd.add(place / 2) = *from;
                (from, place, count) = (from.add(1), place + 1, count - 1);
            }
            let (pairs, even, odd) = (count / 2, even.add(place / 2), odd.add(place / 2));
            match pairs {
                0..4 => (0..pairs).for_each(|i| (*even.add(i), *odd.add(i)) = (*from.add(2 * i), *from.add(2 * i + 1))),
                4..8 => unzip::<A, 4>(from, pairs, even, odd),
                8..16 => unzip::<A, 8>(from, pairs, even, odd),
                16.. => unzip::<A, 16>(from, pairs, even, odd),
            }
            if count % 2 == 1 {
                *even.add(pairs) = *from.add(2 * pairs);
            }
        }
    }
}

/// Separate at least `N` pairs. The last `N` may overlap the pairs before.
#[inline(always)]
unsafe fn unzip<A: Real, const N: usize>(from: *const A, pairs: usize, even: *mut A, odd: *mut A) {
    let mut i = 0;
    while i < pairs {
        let at = i.min(pairs - N);
        // SAFETY: the caller passes at least `N` pairs, and room for them.
        unsafe {
            let x = from.add(2 * at).cast::<[A; N]>();
            let (a, b) = (x.read_unaligned(), x.add(1).read_unaligned());
            let pick =
                |odd: usize| std::array::from_fn(|i| if i < N / 2 { a[2 * i + odd] } else { b[2 * i + odd - N] });
            even.add(at).cast::<[A; N]>().write_unaligned(pick(0));
            odd.add(at).cast::<[A; N]>().write_unaligned(pick(1));
        }
        i += N;
    }
}

/// An input row and its phases.
struct SplitRow {
    /// Its first element, counted from the start of the channel in the first image.
    from: usize,
    to: usize,
    pitch: usize,
    split: Split,
}

/// Return the input rows that runs read.
fn split_rows(l: &Layer, runs: &[Run]) -> Vec<SplitRow> {
    let mut rows = Vec::new();
    let mut phases = 0;
    for run in runs {
        let pitch = run.columns.len() + 1;
        let start = 2 * run.columns.start as isize - l.low[1];
        let split = Split::new(start, 2 * pitch, l.source[1]);
        for i in 0..2 * run.rows.len() + 2 {
            let y = (2 * run.rows.start + i) as isize - l.low[0];
            if split.count > 0 && (0..l.source[0] as isize).contains(&y) {
                let image = run.image * l.groups * l.c * l.source_plane();
                rows.push(SplitRow {
                    from: image + y as usize * l.source[1],
                    to: phases + 2 * pitch * i,
                    pitch,
                    split,
                });
            }
        }
        phases += phase_elements(run);
    }
    rows
}

leveled! {
    /// Write the patches of one channel as points `distance` elements apart. Tiles lie in panels of `width` elements,
    /// and panels are `panel` elements apart.
    ///
    /// # Safety
    /// Rows lie within the channel and the phases. Pieces lie within phases and panels, with room for `LANES` elements
    /// behind.
    fn spread_patches<V>(
        x: &[A], rows: &[SplitRow], pieces: &[Piece], phases: *mut A, v: *mut A, width: usize, panel: usize,
        distance: usize,
    ) {
        for r in rows {
            r.split.apply(x.as_ptr().add(r.from), phases.add(r.to), phases.add(r.to + r.pitch));
        }
        for p in pieces {
            let to = v.add(p.at / width * panel + p.at % width);
            for lane in (0..p.count).step_by(V::LANES) {
                let row = |i: usize| {
                    let even = phases.add(p.from + 2 * i * p.pitch + lane);
                    let odd = even.add(p.pitch);
                    patch([V::load(even), V::load(odd), V::load(even.add(1)), V::load(odd.add(1))])
                };
                store_all(down([row(0), row(1), row(2), row(3)], |d| patch(d)), to.add(lane), distance);
            }
        }
    }
}

leveled! {
    /// Write the results of one channel. Its sums are `distance` elements apart from point to point.
    ///
    /// # Safety
    /// The sums have room for `LANES` elements behind, and no other thread writes the results of these tiles.
    fn collect<V>(m: *const A, distance: usize, pieces: &[Piece], bias: A, y: *mut A, image: usize, size: [usize; 2]) {
        let bias = V::splat(bias);
        for p in pieces {
            // Two rows of results: the even columns and the odd columns of each.
            let mut sums = [[[A::ZERO; LANES]; 2]; 2];
            for lane in (0..p.count).step_by(V::LANES) {
                let m = m.add(p.at + lane);
                let column = |j: usize| results(std::array::from_fn(|i| V::load(m.add((4 * i + j) * distance))));
                let columns = [column(0), column(1), column(2), column(3)];
                for (i, sums) in sums.iter_mut().enumerate() {
                    let [even, odd] = results(std::array::from_fn(|j| columns[j][i]));
                    even.add(bias).store(sums[0].as_mut_ptr().add(lane));
                    odd.add(bias).store(sums[1].as_mut_ptr().add(lane));
                }
            }
            let count = (2 * p.count).min(size[1] - 2 * p.column);
            let y = y.add(p.image * image + 2 * p.row * size[1] + 2 * p.column);
            for (i, sums) in sums.iter().enumerate().take(size[0] - 2 * p.row) {
                let y = y.add(i * size[1]);
                let zip = |first: usize| -> [A; LANES] { std::array::from_fn(|i| sums[i % 2][first + i / 2]) };
                if count == 2 * LANES {
                    y.cast::<[A; LANES]>().write_unaligned(zip(0));
                    y.add(LANES).cast::<[A; LANES]>().write_unaligned(zip(LANES / 2));
                } else {
                    copy([zip(0), zip(LANES / 2)].as_flattened().as_ptr(), y, count);
                }
            }
        }
    }
}

/// Sum products over the steps of packed lines. The sums are added to `c` unless they are the first.
///
/// # Safety
/// The operands hold all steps, and `c` has room for a whole tile.
unsafe fn multiply<A: Multiply>(
    kernel: &Kernel<A>,
    height: usize,
    steps: usize,
    a: *const A,
    b: *const A,
    first: bool,
    c: *mut A,
    row: usize,
) {
    let mut at = 0;
    while at < steps {
        let count = kernel.k_block.min(steps - at);
        let beta = if first && at == 0 { A::ZERO } else { A::ONE };
        // SAFETY: the caller passes operands that hold all steps, and room for a tile.
        unsafe {
            let (a, b) = (a.add(at * height), b.add(at * kernel.width));
            (kernel.tile)(height, count, a, b, A::ONE, beta, c, row, height, kernel.width, std::ptr::null());
        }
        at += count;
    }
}

/// Compute `y = x * w + bias` and write the results of a group.
fn convolve<A: Transform>(l: &Layer, x: &[A], w: &[A], at: Kernels, bias: Option<&[A]>, y: Shared<A>) {
    let kernel = A::kernel(level());
    let width = kernel.width;
    let left = transform_kernels(l, kernel, w, at);
    let (height, strips) = (left.height, left.strips);
    let tiles = l.tiles();
    let chunk = chunk(l).min(tiles.div_ceil(num_threads())).next_multiple_of(width);
    parallel_for(tiles.div_ceil(chunk), 1, |range| {
        let (panels, panel) = (chunk / width, l.c * width + LANES);
        let (points, rows) = (panels * panel, strips * height);
        let mut v = Scratch::<A>::any(POINTS * points);
        let mut m = Scratch::<A>::any(POINTS * rows * chunk + LANES);
        for i in range {
            let here = i * chunk..((i + 1) * chunk).min(tiles);
            let runs = l.runs(&here);
            let pieces = pieces(&runs, l.grid()[1], width);
            let split = split_rows(l, &runs);
            let mut phases = Scratch::filled(runs.iter().map(phase_elements).sum::<usize>() + LANES + 1, A::ZERO);
            for c in 0..l.c {
                // SAFETY: rows and pieces were made for these buffers.
                unsafe {
                    let (x, v) = (&x[c * l.source_plane()..], v.as_mut_ptr().add(c * width));
                    spread_patches(x, &split, &pieces, phases.as_mut_ptr(), v, width, panel, points);
                }
            }
            // SAFETY: operands and sums have these sizes, and one thread writes the results of the tile.
            unsafe {
                (kernel.enter)();
                for point in 0..POINTS {
                    for j in 0..here.len().div_ceil(width) {
                        let b = v.as_ptr().add(point * points + j * panel);
                        for s in 0..strips {
                            let a = left.u.as_ptr().add((point * strips + s) * left.strip);
                            let c = m.as_mut_ptr().add((point * rows + s * height) * chunk + j * width);
                            multiply(kernel, height, l.c, a, b, true, c, chunk);
                        }
                    }
                }
                (kernel.leave)();
                for o in 0..l.o {
                    let (m, y) = (m.as_ptr().add(o * chunk), y.ptr().add(o * l.result_plane()));
                    let bias = bias.map_or(A::ZERO, |bias| bias[o]);
                    collect(m, rows * chunk, &pieces, bias, y, l.groups * l.o * l.result_plane(), l.result);
                }
            }
        }
    });
}

/// Return the number of tiles in a chunk for sums over channels. It is larger if the kernels together exceed the
/// second-level cache.
fn chunk(l: &Layer) -> usize {
    if l.c * l.o > 1 << 16 { 256 } else { 64 }
}

pub(super) fn forward<A: Transform>(l: &Layer, x: &[A], w: &[A], bias: Option<&[A]>, y: &mut [A]) {
    let y = Shared::new(y);
    let kernels = l.c * l.o * TAPS;
    let at = Kernels { line: l.c * TAPS, step: TAPS };
    each_group(l.groups, l.tiles() * POINTS * l.c * l.o, |group, _| {
        let bias = bias.map(|bias| &bias[group * l.o..]);
        // SAFETY: the offset is that of the group's first element.
        let y = Shared::at(unsafe { y.ptr().add(group * l.o * l.result_plane()) });
        convolve(l, &x[group * l.c * l.source_plane()..], &w[group * kernels..][..kernels], at, bias, y);
    });
}

pub(super) fn input_grad<A: Transform>(l: &Layer, g: &[A], w: &[A], gx: &mut [A]) {
    let gx = Shared::new(gx);
    let kernels = l.c * l.o * TAPS;
    let at = Kernels { line: TAPS, step: l.c * TAPS };
    let l = &l.input_gradient();
    each_group(l.groups, l.tiles() * POINTS * l.c * l.o, |group, _| {
        // SAFETY: the offset is that of the group's first element.
        let gx = Shared::at(unsafe { gx.ptr().add(group * l.o * l.result_plane()) });
        convolve(l, &g[group * l.c * l.source_plane()..], &w[group * kernels..][..kernels], at, None, gx);
    });
}
