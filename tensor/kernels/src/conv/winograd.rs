//! Convolutions with 3x3 kernels and unit steps by Winograd's F(2x2, 3x3), and their gradients (Lavin and Gray, "Fast Algorithms for
//! Convolutional Neural Networks", 2015).
//!
//! A tile of 2x2 results reads a patch of 4x4 inputs. Patch and kernel are transformed to 16 numbers each, which are multiplied one by one and
//! summed over channels, and the sums are transformed back: 16 multiplications for 4 results where the definition needs 36. Over all
//! channels and tiles these are 16 products of matrices, one for each *point*. The gradient for the input is the same with the kernels
//! turned around; the one for the weight is the transposed algorithm, whose sums run over the tiles.
//!
//! Tiles are worked on in chunks that stay in a second-level cache. Transformed numbers are written as the register tiles of
//! [`gemm`](crate::gemm) read them, so nothing is packed a second time: lanes are tiles where sums run over channels, and channels where they
//! run over tiles.
//!
//! Sums and differences of neighbours are taken before the products: an infinite or NaN input makes whole tiles NaN.

use super::{Shape, each_group};
use crate::cpu::{Level, level};
use crate::gemm::{Kernel, Multiply, pack};
use crate::par::{Scratch, Shared, parallel_for};
use crate::real::Real;
use crate::threads::num_threads;
use std::ops::Range;

/// Numbers that a patch or a kernel is transformed to.
const POINTS: usize = 16;
/// Elements that transforms handle at a time. They may write as many beyond the place of their result, where what belongs there comes
/// later; buffers end with as much room.
const LANES: usize = 16;
/// Elements of a kernel.
const TAPS: usize = 9;

/// Result `p` is the sum over taps of `w[tap] * source[p + tap - low]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layer {
    n: usize,
    groups: usize,
    /// Channels of a group that are read, and written.
    c: usize,
    o: usize,
    source: [usize; 2],
    result: [usize; 2],
    low: [isize; 2],
    /// Whether taps count backwards.
    reverse: bool,
}

/// Where the kernel from channel `c` to channel `o` of a group lies: at `o * line + c * step`.
#[derive(Clone, Copy)]
struct Kernels {
    line: usize,
    step: usize,
}

impl Layer {
    /// The convolution, where it is one of two dimensions with a 3x3 kernel and unit steps.
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

    /// The convolution that is this one's gradient for the input.
    pub(super) fn turned(&self) -> Layer {
        let low = self.low.map(|low| 2 - low);
        let (c, o, source, result) = (self.o, self.c, self.result, self.source);
        Layer { c, o, source, result, low, reverse: !self.reverse, ..*self }
    }

    /// Whether all of it together is worth transforming the kernels, and a tile its kernels.
    pub(super) fn pays(&self) -> bool {
        let (c, o, results) = (self.c, self.o, self.n * self.result_plane());
        c >= 16 && results >= (c * o / 256).max(512) && results * c.min(o) >= 1 << 16
    }

    /// The same where lanes are tiles: in narrow planes few of them are side by side, and more channels must make up for that.
    pub(super) fn pays_along_tiles(&self) -> bool {
        self.pays() && self.c * self.grid()[1].min(8) >= 128
    }

    /// Tiles along both dimensions.
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

    /// The tiles of a range, image by image.
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

/// Tiles of one image that follow one another, and the rows and columns of the grid that they lie in.
struct Run {
    image: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    /// Counted within the image.
    tiles: Range<usize>,
}

/// Up to [`LANES`] tiles side by side.
struct Piece {
    /// First of them within the chunk, and how many.
    at: usize,
    count: usize,
    image: usize,
    /// Where in the grid.
    row: usize,
    column: usize,
    /// Their upper left element among the phases, and the distance of an even row from its odd one.
    from: usize,
    pitch: usize,
}

/// Cuts the tiles of runs into pieces that do not cross a multiple of `width`.
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

/// Elements of a run's phases: for each row of the input the elements with even, then those with odd places.
fn phase_elements(run: &Run) -> usize {
    (2 * run.rows.len() + 2) * 2 * (run.columns.len() + 1)
}

/// A register of elements, or several. A name for each type and level: loops over arrays of lanes as long as those of the transforms are not
/// kept in registers.
pub(super) trait Vector: Copy {
    type Element: Real;
    const LANES: usize;
    /// # Safety
    /// The processor has the registers, here and below; the elements exist.
    unsafe fn load(at: *const Self::Element) -> Self;
    unsafe fn store(self, at: *mut Self::Element);
    unsafe fn splat(v: Self::Element) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    /// `self + a * b`, rounded once where the processor can.
    unsafe fn plus(self, a: Self, b: Self) -> Self;
}

/// Registers of a processor: the type's loads, stores and arithmetic by name.
#[cfg(target_arch = "x86_64")]
macro_rules! vectors {
    ($($v:ident: $lanes:literal $t:ty, $features:literal, $load:ident, $store:ident, $set:ident, $add:ident, $sub:ident, $mul:ident,
        $fma:ident;)*) => {$(
        impl Vector for std::arch::x86_64::$v {
            type Element = $t;
            const LANES: usize = $lanes;
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn load(at: *const $t) -> Self {
                // SAFETY: by the caller.
                unsafe { std::arch::x86_64::$load(at) }
            }
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn store(self, at: *mut $t) {
                // SAFETY: by the caller.
                unsafe { std::arch::x86_64::$store(at, self) }
            }
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn splat(v: $t) -> Self {
                std::arch::x86_64::$set(v)
            }
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn add(self, other: Self) -> Self {
                std::arch::x86_64::$add(self, other)
            }
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn sub(self, other: Self) -> Self {
                std::arch::x86_64::$sub(self, other)
            }
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn mul(self, other: Self) -> Self {
                std::arch::x86_64::$mul(self, other)
            }
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn plus(self, a: Self, b: Self) -> Self {
                std::arch::x86_64::$fma(a, b, self)
            }
        }
    )*};
}
#[cfg(target_arch = "x86_64")]
vectors! {
    __m512: 16 f32, "avx512f", _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps, _mm512_add_ps, _mm512_sub_ps, _mm512_mul_ps,
        _mm512_fmadd_ps;
    __m512d: 8 f64, "avx512f", _mm512_loadu_pd, _mm512_storeu_pd, _mm512_set1_pd, _mm512_add_pd, _mm512_sub_pd, _mm512_mul_pd,
        _mm512_fmadd_pd;
    __m256: 8 f32, "avx2,fma", _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_add_ps, _mm256_sub_ps, _mm256_mul_ps,
        _mm256_fmadd_ps;
    __m256d: 4 f64, "avx2,fma", _mm256_loadu_pd, _mm256_storeu_pd, _mm256_set1_pd, _mm256_add_pd, _mm256_sub_pd, _mm256_mul_pd,
        _mm256_fmadd_pd;
}

/// What every processor has: 16 bytes, or two registers of 8.
#[derive(Clone, Copy)]
pub(super) struct Four<A>([A; 4]);

impl<A: Real> Vector for Four<A> {
    type Element = A;
    const LANES: usize = 4;
    #[inline(always)]
    unsafe fn load(at: *const A) -> Self {
        // SAFETY: by the caller.
        Four(unsafe { at.cast::<[A; 4]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut A) {
        // SAFETY: by the caller.
        unsafe { at.cast::<[A; 4]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn splat(v: A) -> Self {
        Four([v; 4])
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Four(std::array::from_fn(|i| self.0[i] + other.0[i]))
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        Four(std::array::from_fn(|i| self.0[i] - other.0[i]))
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        Four(std::array::from_fn(|i| self.0[i] * other.0[i]))
    }
    #[inline(always)]
    unsafe fn plus(self, a: Self, b: Self) -> Self {
        Four(std::array::from_fn(|i| self.0[i] + a.0[i] * b.0[i]))
    }
}

/// A number type and its registers.
pub(super) trait Transform: Multiply {
    type Avx512: Vector<Element = Self>;
    type Avx2: Vector<Element = Self>;
}
#[cfg(target_arch = "x86_64")]
impl Transform for f32 {
    type Avx512 = std::arch::x86_64::__m512;
    type Avx2 = std::arch::x86_64::__m256;
}
#[cfg(target_arch = "x86_64")]
impl Transform for f64 {
    type Avx512 = std::arch::x86_64::__m512d;
    type Avx2 = std::arch::x86_64::__m256d;
}
#[cfg(not(target_arch = "x86_64"))]
impl<A: Multiply> Transform for A {
    type Avx512 = Four<A>;
    type Avx2 = Four<A>;
}

/// Defines a function of vectors, compiled for the registers of each level and chosen at run time.
macro_rules! leveled {
    ($(#[$meta:meta])* fn $name:ident<$v:ident>($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        $(#[$meta])*
        unsafe fn $name<A: Transform>($($arg: $ty),*) {
            #[inline(always)]
            unsafe fn body<A: Transform, $v: Vector<Element = A>>($($arg: $ty),*) {
                // SAFETY: by the caller, as each function says.
                unsafe { $body }
            }
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
                unsafe fn v4<A: Transform>($($arg: $ty),*) {
                    // SAFETY: by the caller.
                    unsafe { body::<A, A::Avx512>($($arg),*) }
                }
                #[target_feature(enable = "avx2,fma")]
                unsafe fn v3<A: Transform>($($arg: $ty),*) {
                    // SAFETY: by the caller.
                    unsafe { body::<A, A::Avx2>($($arg),*) }
                }
                match level() {
                    Level::Portable => {}
                    // SAFETY: the level says that the processor has these features.
                    Level::Avx2 => return unsafe { v3::<A>($($arg),*) },
                    // SAFETY: as above.
                    _ => return unsafe { v4::<A>($($arg),*) },
                }
            }
            // SAFETY: by the caller.
            unsafe { body::<A, Four<A>>($($arg),*) }
        }
    };
}
pub(super) use leveled;

/// Four elements of a patch to four points.
#[inline(always)]
unsafe fn patch<V: Vector>(d: [V; 4]) -> [V; 4] {
    // SAFETY: by the caller, here and below: the processor has the registers.
    unsafe { [d[0].sub(d[2]), d[1].add(d[2]), d[2].sub(d[1]), d[1].sub(d[3])] }
}
/// Three taps to four points.
#[inline(always)]
unsafe fn taps<V: Vector>(w: [V; 3]) -> [V; 4] {
    // SAFETY: as above.
    unsafe {
        let (half, ends) = (V::splat(V::Element::of(0.5)), w[0].add(w[2]));
        [w[0], ends.add(w[1]).mul(half), ends.sub(w[1]).mul(half), w[2]]
    }
}
/// The transpose of [`taps`]: four points to three taps.
#[inline(always)]
unsafe fn taps_back<V: Vector>(p: [V; 4]) -> [V; 3] {
    // SAFETY: as above.
    unsafe {
        let half = V::splat(V::Element::of(0.5));
        let ends = p[1].add(p[2]).mul(half);
        [p[0].add(ends), p[1].sub(p[2]).mul(half), ends.add(p[3])]
    }
}
/// Four points to two results.
#[inline(always)]
unsafe fn results<V: Vector>(p: [V; 4]) -> [V; 2] {
    // SAFETY: as above.
    unsafe { [p[0].add(p[1]).add(p[2]), p[1].sub(p[2]).sub(p[3])] }
}
/// The transpose of [`results`]: two results to four points.
#[inline(always)]
unsafe fn results_back<V: Vector>(y: [V; 2]) -> [V; 4] {
    // SAFETY: as above.
    unsafe { [y[0], y[0].add(y[1]), y[0].sub(y[1]), V::splat(V::Element::ZERO).sub(y[1])] }
}

/// Applies a transform to the columns of rows.
#[inline(always)]
fn down<V: Vector, const N: usize, const M: usize, const W: usize>(
    rows: [[V; W]; N],
    f: impl Fn([V; N]) -> [V; M],
) -> [[V; W]; M] {
    let columns: [[V; M]; W] = std::array::from_fn(|j| f(std::array::from_fn(|i| rows[i][j])));
    std::array::from_fn(|i| std::array::from_fn(|j| columns[j][i]))
}

/// Stores points, `distance` elements apart.
#[inline(always)]
unsafe fn store<V: Vector, const N: usize>(points: [V; N], to: *mut V::Element, distance: usize) {
    for (point, v) in points.into_iter().enumerate() {
        // SAFETY: by the caller.
        unsafe { v.store(to.add(point * distance)) };
    }
}

#[inline(always)]
unsafe fn store_all<V: Vector>(points: [[V; 4]; 4], to: *mut V::Element, distance: usize) {
    for (i, row) in points.into_iter().enumerate() {
        // SAFETY: by the caller.
        unsafe { store(row, to.add(4 * i * distance), distance) };
    }
}

/// Transformed kernels, `[point][strip][channel read][height]`, each strip with room behind it.
struct Left<A> {
    u: Scratch<A>,
    height: usize,
    strips: usize,
    strip: usize,
}

fn transform_kernels<A: Transform>(l: &Layer, kernel: &Kernel<A>, w: &[A], at: Kernels) -> Left<A> {
    /// Channels whose kernels are packed at a time.
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
                // SAFETY: the kernels exist; strips are disjoint.
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
    /// Transforms `[count][taps][height]` to `[point][count][height]`, points `distance` elements apart.
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

/// Elements of one row of the input that go to its phases: a single odd one, pairs, and a single even one.
#[derive(Clone, Copy)]
struct Split {
    /// First element, and its place.
    from: usize,
    place: usize,
    count: usize,
}

impl Split {
    /// For places `0..places`, of which the first is element `start` of a row of `size`.
    fn new(start: isize, places: usize, size: usize) -> Split {
        let place = (-start).max(0);
        let count = (places as isize).min(size as isize - start) - place;
        let (from, place) = ((start + place).max(0) as usize, place as usize);
        if count > 0 { Split { from, place, count: count as usize } } else { Split { from: 0, place: 0, count: 0 } }
    }

    #[inline(always)]
    unsafe fn apply<A: Real>(self, row: *const A, even: *mut A, odd: *mut A) {
        let Split { from, mut place, mut count } = self;
        // SAFETY: by the caller.
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

/// Separates at least `N` pairs; the last `N` may overlap those before.
#[inline(always)]
unsafe fn unzip<A: Real, const N: usize>(from: *const A, pairs: usize, even: *mut A, odd: *mut A) {
    let mut i = 0;
    while i < pairs {
        let at = i.min(pairs - N);
        // SAFETY: by the caller.
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

/// A row of the input and its phases.
struct SplitRow {
    /// Its first element, from the start of the channel in the first image.
    from: usize,
    to: usize,
    pitch: usize,
    split: Split,
}

/// The rows that runs read.
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
    /// Writes the patches of one channel as points, `distance` elements apart; tiles in panels of `width` elements, `panel` elements apart.
    ///
    /// # Safety
    /// Rows lie within the channel and the phases; pieces within phases and panels, with room for `LANES` elements behind.
    fn spread_patches<V>(
        x: &[A], rows: &[SplitRow], pieces: &[Piece], phases: *mut A, v: *mut A, width: usize, panel: usize, distance: usize,
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
    /// Writes the results of one channel, whose sums are `distance` elements apart from point to point.
    ///
    /// # Safety
    /// The sums have room for `LANES` elements behind; results of tiles are disjoint.
    fn collect<V>(m: *const A, distance: usize, pieces: &[Piece], bias: A, y: *mut A, image: usize, size: [usize; 2]) {
        let bias = V::splat(bias);
        for p in pieces {
            // Two rows of results with even, and with odd places.
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

/// Copies less than 32 elements.
#[inline(always)]
pub(super) unsafe fn copy<A: Real>(from: *const A, to: *mut A, count: usize) {
    #[inline(always)]
    unsafe fn ends<A: Real, const N: usize>(from: *const A, to: *mut A, count: usize) {
        for at in [0, count - N] {
            // SAFETY: by the caller, there are at least `N`.
            unsafe { to.add(at).cast::<[A; N]>().write_unaligned(from.add(at).cast::<[A; N]>().read_unaligned()) };
        }
    }
    // SAFETY: by the caller.
    unsafe {
        match count {
            16.. => ends::<A, 16>(from, to, count),
            8..16 => ends::<A, 8>(from, to, count),
            4..8 => ends::<A, 4>(from, to, count),
            2..4 => ends::<A, 2>(from, to, count),
            1 => *to = *from,
            0 => {}
        }
    }
}

/// Sums over steps of packed lines, added to `c` unless they are the first.
///
/// # Safety
/// The operands hold the steps, and `c` a whole tile.
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
        // SAFETY: by the caller.
        unsafe {
            let (a, b) = (a.add(at * height), b.add(at * kernel.width));
            (kernel.tile)(height, count, a, b, A::ONE, beta, c, row, height, kernel.width);
        }
        at += count;
    }
}

/// `y = x * w + bias`; the results of a group are written.
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
            // SAFETY: operands and sums have these sizes; tiles of the result are disjoint.
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

/// Tiles of a chunk where sums run over channels: more where all kernels together are read from beyond the second-level cache.
fn chunk(l: &Layer) -> usize {
    if l.c * l.o > 1 << 16 { 256 } else { 64 }
}

pub(super) fn forward<A: Transform>(l: &Layer, x: &[A], w: &[A], bias: Option<&[A]>, y: &mut [A]) {
    let y = Shared::new(y);
    let kernels = l.c * l.o * TAPS;
    let at = Kernels { line: l.c * TAPS, step: TAPS };
    each_group(l.groups, l.tiles() * POINTS * l.c * l.o, |group, _| {
        let bias = bias.map(|bias| &bias[group * l.o..]);
        // SAFETY: the first element of the group.
        let y = Shared::at(unsafe { y.ptr().add(group * l.o * l.result_plane()) });
        convolve(l, &x[group * l.c * l.source_plane()..], &w[group * kernels..][..kernels], at, bias, y);
    });
}

pub(super) fn input_grad<A: Transform>(l: &Layer, g: &[A], w: &[A], gx: &mut [A]) {
    let gx = Shared::new(gx);
    let kernels = l.c * l.o * TAPS;
    let at = Kernels { line: TAPS, step: l.c * TAPS };
    let l = &l.turned();
    each_group(l.groups, l.tiles() * POINTS * l.c * l.o, |group, _| {
        // SAFETY: as in `forward`.
        let gx = Shared::at(unsafe { gx.ptr().add(group * l.o * l.result_plane()) });
        convolve(l, &g[group * l.c * l.source_plane()..], &w[group * kernels..][..kernels], at, None, gx);
    });
}

/// Elements of planes that are packed with channels as lanes, and where the tiles' patches of `N` elements lie among them.
struct Patches<const N: usize> {
    /// First element, from the start of the channel in the first image, how many, and the line that they are packed at.
    rows: Vec<(usize, usize, usize)>,
    /// Lines; the first one is zeros.
    lines: usize,
    /// For each tile, the line of each element.
    tiles: Vec<[u32; N]>,
}

impl<const N: usize> Patches<N> {
    /// Square patches, one every two elements from `-low` on, of the tiles of runs; images are `image` elements apart.
    fn new(runs: &[Run], wide: usize, size: [usize; 2], low: [isize; 2], image: usize) -> Patches<N> {
        let side = N.isqrt();
        let mut patches = Patches { rows: Vec::new(), lines: 1, tiles: Vec::new() };
        // Positions that a range of the grid reads along a dimension.
        let reads = |d: usize, grid: &Range<usize>| {
            let inside = |at: usize| (at as isize - low[d]).clamp(0, size[d] as isize) as usize;
            inside(2 * grid.start)..inside(2 * grid.end + side - 2)
        };
        for run in runs {
            let (ys, xs) = (reads(0, &run.rows), reads(1, &run.columns));
            let first = patches.lines;
            let from = run.image * image + ys.start * size[1] + xs.start;
            if xs.len() == size[1] {
                patches.rows.push((from, ys.len() * xs.len(), first));
            } else {
                patches.rows.extend((0..ys.len()).map(|i| (from + i * size[1], xs.len(), first + i * xs.len())));
            }
            patches.lines += ys.len() * xs.len();
            for tile in run.tiles.clone() {
                let corner = [(2 * (tile / wide)) as isize - low[0], (2 * (tile % wide)) as isize - low[1]];
                patches.tiles.push(std::array::from_fn(|i| {
                    let (y, x) = (corner[0] + (i / side) as isize, corner[1] + (i % side) as isize);
                    let inside = y >= 0 && x >= 0 && ys.contains(&(y as usize)) && xs.contains(&(x as usize));
                    if inside { (first + (y as usize - ys.start) * xs.len() + x as usize - xs.start) as u32 } else { 0 }
                }));
            }
        }
        patches
    }

    /// Packs `valid` channels, `plane` elements apart, as `lanes` lanes.
    fn pack<A: Multiply>(&self, x: &[A], plane: usize, valid: usize, lanes: usize, out: &mut [A]) {
        out[..lanes].fill(A::ZERO);
        for &(from, count, line) in &self.rows {
            // SAFETY: rows lie within their planes and the lines within the buffer.
            unsafe {
                pack::<A>(x.as_ptr().add(from), plane, 1, valid, count, lanes, out.as_mut_ptr().add(line * lanes))
            };
        }
    }
}

leveled! {
    /// Transforms patches of lines of `lanes` elements to some rows of their points, `distance` elements apart.
    ///
    /// # Safety
    /// Both buffers have room for `LANES` elements behind their last line.
    fn spread_inputs<V>(
        packed: &[A], lanes: usize, tiles: &[[u32; 16]], rows: Range<usize>, to: *mut A, distance: usize,
    ) {
        for (t, lines) in tiles.iter().enumerate() {
            for lane in (0..lanes).step_by(V::LANES) {
                let packed = packed.as_ptr().add(lane);
                let at = lines.map(|line| packed.add(line as usize * lanes));
                for row in rows.clone() {
                    let (a, b, sum) = [(0, 8, false), (4, 8, true), (8, 4, false), (4, 12, false)][row];
                    let mut columns = [V::splat(A::ZERO); 4];
                    for (j, column) in columns.iter_mut().enumerate() {
                        let (a, b) = (V::load(at[a + j]), V::load(at[b + j]));
                        *column = if sum { a.add(b) } else { a.sub(b) };
                    }
                    let points = patch(columns);
                    store(points, to.add(4 * row * distance + t * lanes + lane), distance);
                }
            }
        }
    }
}

leveled! {
    /// [`spread_inputs`] for the gradients of results.
    ///
    /// # Safety
    /// As there.
    fn spread_results<V>(
        packed: &[A], lanes: usize, tiles: &[[u32; 4]], rows: Range<usize>, to: *mut A, distance: usize,
    ) {
        for (t, lines) in tiles.iter().enumerate() {
            for lane in (0..lanes).step_by(V::LANES) {
                let packed = packed.as_ptr().add(lane);
                let at = lines.map(|line| packed.add(line as usize * lanes));
                for row in rows.clone() {
                    let mut columns = [V::splat(A::ZERO); 2];
                    for (j, column) in columns.iter_mut().enumerate() {
                        let (upper, lower) = (V::load(at[j]), V::load(at[2 + j]));
                        *column = match row {
                            0 => upper,
                            1 => upper.add(lower),
                            2 => upper.sub(lower),
                            _ => column.sub(lower),
                        };
                    }
                    let points = results_back(columns);
                    store(points, to.add(4 * row * distance + t * lanes + lane), distance);
                }
            }
        }
    }
}

/// Tiles of a chunk where sums run over them.
const LONG_CHUNK: usize = 128;

/// Parts of the tiles that are summed separately. The cut depends on sizes alone, and so do results.
fn parts(tiles: usize, sums: usize) -> usize {
    /// Tiles of a part at least, and elements of all sums at most.
    const TILES: usize = 512;
    const ELEMENTS: usize = 4 << 20;
    (tiles / TILES).min(ELEMENTS / sums).clamp(1, 16)
}

/// Tasks that share the 4 rows of points of a part: no more than occupy the threads, as each packs the part's elements.
fn shares(parts: usize) -> usize {
    let threads = num_threads();
    let even = |n: &usize| (parts * n).is_multiple_of(threads) || parts * n >= 4 * threads;
    [1, 2, 4].into_iter().find(even).unwrap_or(4)
}

pub(super) fn weight_grad<A: Transform>(l: &Layer, x: &[A], g: &[A], gw: &mut [A]) {
    let kernels = l.c * l.o * TAPS;
    let gw = Shared::new(gw);
    each_group(l.groups, l.tiles() * POINTS * l.c * l.o, |group, _| {
        // SAFETY: groups are disjoint.
        let gw = unsafe { gw.slice(group * kernels, kernels) };
        weight_grad_of_group(l, &x[group * l.c * l.source_plane()..], &g[group * l.o * l.result_plane()..], gw);
    });
}

fn weight_grad_of_group<A: Transform>(l: &Layer, x: &[A], g: &[A], gw: &mut [A]) {
    let kernel = A::kernel(level());
    let (height, width) = (kernel.height(l.o), kernel.width);
    let (strips, panels) = (l.o.div_ceil(height), l.c.div_ceil(width));
    let (rows, columns) = (strips * height, panels * width);
    let (tiles, wide) = (l.tiles(), l.grid()[1]);
    let point = rows * columns;
    let parts = parts(tiles, POINTS * point);
    let mut sums = Scratch::<A>::any(parts * POINTS * point + LANES);
    let to = Shared::new(&mut sums);
    let (x_image, g_image) = (l.groups * l.c * l.source_plane(), l.groups * l.o * l.result_plane());
    let shares = shares(parts);
    parallel_for(parts * shares, 1, |range| {
        let (panel, strip) = (LONG_CHUNK * width + LANES, LONG_CHUNK * height + LANES);
        let mut v = Scratch::<A>::any(POINTS * panels * panel);
        let mut z = Scratch::<A>::any(POINTS * strips * strip);
        for task in range {
            let (part, share) = (task / shares, task % shares);
            let mine = share * 4 / shares..(share + 1) * 4 / shares;
            let (first, end) = (part * tiles / parts, (part + 1) * tiles / parts);
            let sums = to.ptr().wrapping_add(part * POINTS * point);
            for start in (first..end).step_by(LONG_CHUNK) {
                let here = start..(start + LONG_CHUNK).min(end);
                let runs = l.runs(&here);
                let inputs = Patches::<16>::new(&runs, wide, l.source, l.low, x_image);
                let results = Patches::<4>::new(&runs, wide, l.result, [0; 2], g_image);
                let lines = (inputs.lines * width).max(results.lines * height);
                let mut packed = Scratch::<A>::any(lines + LANES);
                for j in 0..panels {
                    let valid = width.min(l.c - j * width);
                    inputs.pack(&x[j * width * l.source_plane()..], l.source_plane(), valid, width, &mut packed);
                    // SAFETY: the buffers have this room.
                    unsafe {
                        let to = v.as_mut_ptr().add(j * panel);
                        spread_inputs(&packed, width, &inputs.tiles, mine.clone(), to, panels * panel);
                    }
                }
                for s in 0..strips {
                    let valid = height.min(l.o - s * height);
                    results.pack(&g[s * height * l.result_plane()..], l.result_plane(), valid, height, &mut packed);
                    // SAFETY: as above.
                    unsafe {
                        let to = z.as_mut_ptr().add(s * strip);
                        spread_results(&packed, height, &results.tiles, mine.clone(), to, strips * strip);
                    }
                }
                // SAFETY: operands and sums have these sizes; parts have sums of their own.
                unsafe {
                    (kernel.enter)();
                    for p in 4 * mine.start..4 * mine.end {
                        for j in 0..panels {
                            let b = v.as_ptr().add((p * panels + j) * panel);
                            for s in 0..strips {
                                let a = z.as_ptr().add((p * strips + s) * strip);
                                let c = sums.add(p * point + s * height * columns + j * width);
                                multiply(kernel, height, here.len(), a, b, start == first, c, columns);
                            }
                        }
                    }
                    (kernel.leave)();
                }
            }
        }
    });
    let gw = Shared::new(gw);
    parallel_for(l.o, (1usize << 12).div_ceil(l.c * parts), |range| {
        for o in range {
            // SAFETY: rows are disjoint.
            let gw = unsafe { gw.slice(o * l.c * TAPS, l.c * TAPS) };
            // SAFETY: the sums have this room.
            unsafe { collect_kernels(&sums[o * columns..], point, parts, l.reverse, gw) };
        }
    });
}

leveled! {
    /// Adds up the sums of parts for one row of kernels, and transforms them.
    ///
    /// # Safety
    /// The sums have room for `LANES` elements behind their last row.
    fn collect_kernels<V>(sums: &[A], distance: usize, parts: usize, reverse: bool, gw: &mut [A]) {
        for (i, gw) in gw.chunks_mut(V::LANES * TAPS).enumerate() {
            let mut points = [[V::splat(A::ZERO); 4]; 4];
            for part in 0..parts {
                for (point, sum) in points.as_flattened_mut().iter_mut().enumerate() {
                    let at = (part * POINTS + point) * distance + i * V::LANES;
                    *sum = sum.add(V::load(sums.as_ptr().add(at)));
                }
            }
            let mut lanes = [[A::ZERO; LANES]; TAPS];
            let rows = points.map(|p| taps_back(p));
 for (i, row) in down(rows, |p| taps_back(p)).into_iter().enumerate() {
                for (j, v) in row.into_iter().enumerate() {
                    v.store(lanes[if reverse { TAPS - 1 - 3 * i - j } else { 3 * i + j }].as_mut_ptr());
                }
            }
            for (lane, gw) in gw.chunks_exact_mut(TAPS).enumerate() {
                for (gw, lanes) in gw.iter_mut().zip(&lanes) {
                    *gw = lanes[lane];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::weight_grad as chosen_weight_grad;
    use super::super::{ConvSpec, Shape, forward as chosen_forward, input_grad as chosen_input_grad};
    use super::*;
    use crate::threads::set_num_threads;

    struct Random(u64);
    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.0 >> 33
        }
        fn pick(&mut self, low: usize, high: usize) -> usize {
            low + self.next() as usize % (high - low + 1)
        }
        fn numbers(&mut self, n: usize) -> Vec<f64> {
            (0..n).map(|_| (self.next() as f64 / (1u64 << 30) as f64 - 1.0) as f32 as f64).collect()
        }
    }

    /// Operands of a convolution, and by the definition its result and gradients.
    struct Case {
        shape: Shape,
        layer: Layer,
        x: Vec<f64>,
        w: Vec<f64>,
        g: Vec<f64>,
        bias: Vec<f64>,
        y: Vec<f64>,
        gx: Vec<f64>,
        gw: Vec<f64>,
    }

    fn case(random: &mut Random, channels: usize) -> Case {
        let mut pad = || (random.pick(0, 5) as i64 - 2, random.pick(0, 5) as i64 - 2);
        let pads = [pad(), pad(), (0, 0)];
        let (groups, reverse) = (random.pick(1, 3), random.pick(0, 1) == 1);
        let spec = ConvSpec { pad: pads, groups, reverse, ..ConvSpec::default() };
        let (n, cg, og) = (random.pick(1, 3), random.pick(2, channels), random.pick(2, channels));
        let x = [n, cg * spec.groups, random.pick(7, 15), random.pick(7, 40)];
        let w = [og * spec.groups, cg, 3, 3];
        let y = [n, w[0], spec.output_size(0, x[2], 3), spec.output_size(1, x[3], 3)];
        let shape = Shape::new(&spec, &x, &w, &y);
        let layer = Layer::new(&shape).unwrap();
        let mut of = |sizes: &[usize; 4]| random.numbers(sizes.iter().product());
        let (xs, ws, gs) = (of(&x), of(&w), of(&y));
        let bias = random.numbers(w[0]);
        let (mut ys, mut gx, mut gw) = (vec![0.0; gs.len()], vec![0.0; xs.len()], vec![0.0; ws.len()]);
        for (image, o, c) in (0..n).flat_map(|n| (0..w[0]).flat_map(move |o| (0..cg).map(move |c| (n, o, c)))) {
            for (p, q, k) in (0..y[2]).flat_map(|p| (0..y[3]).flat_map(move |q| (0..9).map(move |k| (p, q, k)))) {
                let tap = if spec.reverse { 8 - k } else { k };
                let (a, b) = ((p + tap / 3) as i64 - spec.pad[0].0, (q + tap % 3) as i64 - spec.pad[1].0);
                if a >= 0 && b >= 0 && a < x[2] as i64 && b < x[3] as i64 {
                    let xi = ((image * x[1] + o / og * cg + c) * x[2] + a as usize) * x[3] + b as usize;
                    let (yi, wi) = (((image * w[0] + o) * y[2] + p) * y[3] + q, (o * cg + c) * 9 + k);
                    ys[yi] += xs[xi] * ws[wi];
                    gx[xi] += gs[yi] * ws[wi];
                    gw[wi] += gs[yi] * xs[xi];
                }
            }
        }
        Case { shape, layer, x: xs, w: ws, g: gs, bias, y: ys, gx, gw }
    }

    fn to<A: Real>(x: &[f64]) -> Vec<A> {
        x.iter().map(|&v| A::of(v)).collect()
    }

    /// Result and both gradients, written over other numbers.
    fn all<A: Transform>(c: &Case, bias: Option<&[A]>) -> [Vec<A>; 3] {
        let (x, w, g) = (to::<A>(&c.x), to::<A>(&c.w), to::<A>(&c.g));
        let mut out = [c.y.len(), c.x.len(), c.w.len()].map(|n| vec![A::of(77.0); n]);
        if c.layer.tiles() > 0 {
            forward(&c.layer, &x, &w, bias, &mut out[0]);
            weight_grad(&c.layer, &x, &g, &mut out[2]);
        }
        input_grad(&c.layer, &g, &w, &mut out[1]);
        out
    }

    #[test]
    fn every_shape_equals_the_definition() {
        fn check<A: Transform>(c: &Case, tolerance: f64) {
            let plane = c.layer.result_plane();
            let with_bias: Vec<f64> =
                c.y.iter().enumerate().map(|(i, v)| v + c.bias[i / plane % c.bias.len()]).collect();
            let bias = to::<A>(&c.bias);
            for (bias, y) in [(None, &c.y), (Some(&bias[..]), &with_bias)] {
                let got = all::<A>(c, bias);
                for (what, (got, want)) in ["result", "gx", "gw"].iter().zip(got.iter().zip([y, &c.gx, &c.gw])) {
                    for (i, (got, want)) in got.iter().zip(want).enumerate() {
                        let near = (got.to_f64() - want).abs() <= tolerance * (1.0 + want.abs());
                        assert!(near, "{what} {i} is {got:?}, not {want}, of {:?}", c.layer);
                    }
                }
            }
        }
        let mut random = Random(11);
        for _ in 0..60 {
            let c = case(&mut random, 40);
            check::<f64>(&c, 1e-12);
            check::<f32>(&c, 2e-5);
        }
    }

    #[test]
    fn errors_are_those_of_the_direct_sums() {
        let mut random = Random(12);
        // Sums of squares of errors, by these sums and by direct ones.
        let mut errors = [[0.0; 2]; 3];
        for _ in 0..40 {
            let c = case(&mut random, 64);
            assert!(!c.layer.pays() && !c.layer.turned().pays(), "too large: {:?}", c.layer);
            let (x, w, g) = (to::<f32>(&c.x), to::<f32>(&c.w), to::<f32>(&c.g));
            let mut direct = [c.y.len(), c.x.len(), c.w.len()].map(|n| vec![0.0f32; n]);
            chosen_forward(&c.shape, &x, &w, None, &mut direct[0]);
            chosen_input_grad(&c.shape, &g, &w, &mut direct[1]);
            chosen_weight_grad(&c.shape, &x, &g, &mut direct[2]);
            let these = all::<f32>(&c, None);
            for (i, want) in [&c.y, &c.gx, &c.gw].into_iter().enumerate() {
                let size = want.iter().map(|v| v * v).sum::<f64>();
                for (error, got) in errors[i].iter_mut().zip([&these[i], &direct[i]]) {
                    let sum: f64 = got.iter().zip(want).map(|(a, b)| (*a as f64 - b).powi(2)).sum();
                    *error += if size > 0.0 { sum / size } else { 0.0 };
                }
            }
        }
        for ([these, direct], what) in errors.into_iter().zip(["result", "gx", "gw"]) {
            println!("{what}: {:.2e} against {:.2e}", (these / 40.0).sqrt(), (direct / 40.0).sqrt());
            assert!(these <= 4.0 * direct, "{what}: {these:e} against {direct:e}");
        }
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        let mut random = Random(13);
        for _ in 0..6 {
            let c = case(&mut random, 40);
            let before = num_threads();
            let of = |threads: usize| {
                set_num_threads(threads);
                all::<f32>(&c, None).map(|v| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
            };
            let one = of(1);
            let same = [2, 3, 5, 8].map(|threads| of(threads) == one);
            set_num_threads(before);
            assert_eq!(same, [true; 4], "{:?}", c.layer);
        }
    }
}
