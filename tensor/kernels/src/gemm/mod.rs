//! Matrix products: one driver, and a register tile for each number type and instruction set.
//!
//! The blocking is the usual one. The right operand is packed into panels as wide as a tile, and the left operand into
//! strips as high as a tile, both over a block of the summed dimension. A tile of sums stays in registers while the
//! block is added to it. Packing reads any strides, widens `f16` and `bf16` if the tile computes in `f32`, and fills
//! missing lines with zeros, so tiles handle edges only when they store. An operand only has to list its lines
//! ([`Lines`]). It needs no matrix in memory: a convolution packs its windows.
//!
//! The longer dimension is split between threads. The operand along the other dimension is packed once for all threads.
//! Each thread packs its own part of the longer operand into its second-level cache.
//!
//! A result depends on the sizes and the instruction set, and not on the threads, because the cuts of the summed
//! dimension depend only on the sizes. Tiles that split numbers into parts (see [`parts`]) leave operands that cannot
//! be split to plain tiles.

mod driver;
mod pack;
mod parts;
mod portable;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod tiles;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::DType;
use crate::cpu::Level;
use crate::real::{Float, Real};
pub(crate) use driver::{Product, fastest_product, matrices, rounded};
pub(crate) use pack::pack;
#[cfg(target_arch = "x86_64")]
pub(crate) use pack::x86 as x86_lanes;
use parts::Extent;
use std::ops::Range;

/// A register tile and its operand format. `S` is the type of the sums. Packed operands are words of the same size.
pub(crate) struct Kernel<S: 'static> {
    /// Number of columns in a tile.
    pub(crate) width: usize,
    /// Heights of tiles, the tallest first.
    heights: &'static [usize],
    /// Number of elements of the summed dimension in a packed step.
    per_step: usize,
    /// The number of packed steps is a multiple of this.
    steps: usize,
    /// Number of words of a line in a packed step.
    words: usize,
    /// Approximate number of elements of the summed dimension in a block.
    pub(crate) k_block: usize,
    /// Whether the tile can store a part of itself. If not, the driver stores it through a buffer.
    masks: bool,
    /// Format of the operands.
    format: Format,
    pub(crate) tile: Tile<S>,
    /// Function that packs a part of an operand in the format.
    pack: Pack<S>,
    /// Tile for operands that this one cannot multiply.
    fallback: Option<&'static Kernel<S>>,
    /// Function to call before a thread's first tile. `leave` is called after its last.
    pub(crate) enter: unsafe fn(),
    pub(crate) leave: unsafe fn(),
}

/// Layout of packed operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// `[steps][lanes]`: one element of the sums' type.
    Plain,
    /// `[steps][lanes]`: two neighbouring `bf16` or `f16` of the summed dimension.
    Pairs,
    /// Right operand as `Pairs`, left operand in squares of 16 rows of 16 pairs.
    Squares,
    /// Squares of three `bf16` per number; see [`parts`].
    Parts,
}

/// A function that packs a part of an operand. It returns the magnitudes of its numbers if the tile needs them.
type Pack<S> = unsafe fn(x: &dyn Lines<S>, part: &Part, out: &mut [S]) -> Extent;

/// Pack for tiles that multiply any numbers.
unsafe fn pack_unchanged<S>(x: &dyn Lines<S>, part: &Part, out: &mut [S]) -> Extent {
    // SAFETY: the caller passes a part within the operand, and room for it.
    unsafe { x.pack(part, out) };
    Extent::ONE
}

/// A function that computes `c = alpha * a @ b + beta * c` for `rows` x `columns` of a tile of the given height. `a`
/// and `b` hold that many steps. `ahead` is memory to prefetch for later tiles: one of the [`PORTIONS`] of a strip, or
/// null.
pub(crate) type Tile<S> = unsafe fn(
    height: usize,
    steps: usize,
    a: *const S,
    b: *const S,
    alpha: S,
    beta: S,
    c: *mut S,
    row: usize,
    rows: usize,
    columns: usize,
    ahead: *const S,
);

/// Number of portions of the next strip or panel, which lies in the third-level cache. While the current one is
/// multiplied, each tile may prefetch one portion.
const PORTIONS: usize = 8;

/// The operand that lines belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// Rows of the left operand.
    Left,
    /// Columns of the right operand.
    Right,
}

/// A part to pack: lines `first..first + valid`, as `lanes` lines, over elements `k` of the summed dimension.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) side: Side,
    pub(crate) format: Format,
    pub(crate) first: usize,
    pub(crate) valid: usize,
    pub(crate) lanes: usize,
    pub(crate) k: Range<usize>,
}

/// An operand: lines along the summed dimension, packed on demand.
pub(crate) trait Lines<S>: Sync {
    /// Pack a part, with zeros for missing lines and elements.
    ///
    /// # Safety
    /// The part lies within the operand, and `out` has room for its steps.
    unsafe fn pack(&self, part: &Part, out: &mut [S]);

    /// Return the first element, and the distances between lines and between elements, if the lines lie in memory.
    fn strided(&self) -> Option<(*const S, usize, usize)> {
        None
    }
}

/// The lines of an operand from `first` on, and their elements from `k` on.
struct Inside<'a, S> {
    lines: &'a dyn Lines<S>,
    first: usize,
    k: usize,
}

impl<S> Lines<S> for Inside<'_, S> {
    unsafe fn pack(&self, part: &Part, out: &mut [S]) {
        let k = part.k.start + self.k..part.k.end + self.k;
        // SAFETY: the caller passes a part within the operand, and room for it.
        unsafe { self.lines.pack(&Part { first: part.first + self.first, k, ..part.clone() }, out) }
    }
}

/// Positions of the result's columns, in elements from the start of its row, in ascending order.
pub(crate) trait Columns: Sync {
    fn at(&self, j: usize) -> usize;
}

/// Adjacent columns.
pub(crate) struct Adjacent;
impl Columns for Adjacent {
    #[inline(always)]
    fn at(&self, j: usize) -> usize {
        j
    }
}

/// The columns from `first` on.
struct ColumnsFrom<'a> {
    columns: &'a dyn Columns,
    first: usize,
}
impl Columns for ColumnsFrom<'_> {
    fn at(&self, j: usize) -> usize {
        self.columns.at(self.first + j)
    }
}

fn nothing() {}

/// A number type that has tiles.
pub(crate) trait Multiply: Real + Float<Acc = Self> {
    /// Return the tile for sums of this type at a level.
    fn kernel(level: Level) -> &'static Kernel<Self>;

    /// Return the fastest tile for a product of these sizes.
    fn product_kernel(level: Level, _m: usize, _n: usize, _k: usize) -> &'static Kernel<Self> {
        Self::kernel(level)
    }

    /// Return a tile that multiplies 16-bit elements directly, if the level has one that is faster than widening.
    fn half_kernel(_: DType, _: Level) -> Option<&'static Kernel<Self>> {
        None
    }
}

impl Multiply for f32 {
    fn kernel(level: Level) -> &'static Kernel<f32> {
        match level {
            Level::Portable => &portable::F32,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => &x86::F32_AVX2,
            #[cfg(target_arch = "x86_64")]
            _ => &x86::F32_AVX512,
            #[cfg(not(target_arch = "x86_64"))]
            _ => &portable::F32,
        }
    }

    fn product_kernel(level: Level, m: usize, n: usize, k: usize) -> &'static Kernel<f32> {
        #[cfg(target_arch = "x86_64")]
        if level == Level::Amx && tiles::is_profitable(m, n, k) {
            return &tiles::F32;
        }
        Self::kernel(level)
    }

    fn half_kernel(dtype: DType, level: Level) -> Option<&'static Kernel<f32>> {
        match (dtype, level) {
            #[cfg(target_arch = "x86_64")]
            (DType::BF16, Level::Amx) => Some(&tiles::BF16),
            #[cfg(target_arch = "x86_64")]
            (DType::F16, Level::Amx) if crate::cpu::has_f16_tiles() => Some(&tiles::F16),
            #[cfg(target_arch = "x86_64")]
            (DType::BF16, Level::Bf16) => Some(&x86::BF16_PAIRS),
            _ => None,
        }
    }
}

impl Multiply for f64 {
    fn kernel(level: Level) -> &'static Kernel<f64> {
        match level {
            Level::Portable => &portable::F64,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => &x86::F64_AVX2,
            #[cfg(target_arch = "x86_64")]
            _ => &x86::F64_AVX512,
            #[cfg(not(target_arch = "x86_64"))]
            _ => &portable::F64,
        }
    }
}

impl<S: Real> Kernel<S> {
    /// Return the height with the least cost for `m` rows. Short tiles load more per product, and tall ones may be
    /// partly empty.
    pub(crate) fn height(&self, m: usize) -> usize {
        let cost = |&h: &usize| m.div_ceil(h) * (2 * h + 3);
        self.heights.iter().copied().min_by_key(|h| cost(h)).unwrap_or(1)
    }

    /// Return the number of packed words of one line over `k` elements.
    fn steps(&self, k: usize) -> usize {
        k.div_ceil(self.per_step).next_multiple_of(self.steps) * self.words
    }

    /// Pack lines as strips of `lanes`, one after the other. Return the magnitudes of their numbers.
    ///
    /// # Safety
    /// The same as for [`Lines::pack`].
    unsafe fn pack_lines(
        &self,
        x: &dyn Lines<S>,
        side: Side,
        lines: Range<usize>,
        lanes: usize,
        k: &Range<usize>,
        out: &mut [S],
    ) -> Extent {
        let mut extent = Extent::ZERO;
        for (first, out) in lines.clone().step_by(lanes).zip(out.chunks_exact_mut(self.steps(k.len()) * lanes)) {
            let valid = lanes.min(lines.end - first);
            let part = Part { side, format: self.format, first, valid, lanes, k: k.clone() };
            // SAFETY: the caller passes lines within the operand, and room for them.
            extent = extent.and(unsafe { (self.pack)(x, &part, out) });
        }
        extent
    }
}
