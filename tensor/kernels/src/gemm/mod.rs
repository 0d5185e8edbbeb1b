//! Products of matrices: one driver, and a register tile for each number type and instruction set.
//!
//! The usual blocking. The right operand is packed into panels as wide as a tile, the left one into strips as high as a tile,
//! both over a block of the summed dimension; a tile of sums stays in registers while the block is added to it. Packing reads
//! any strides, widens `f16` and `bf16` where the tile computes in `f32`, and fills missing lines with zeros; tiles therefore know no edges
//! but their store. Whoever can list the lines of an operand ([`Lines`]) needs no matrix in memory: a convolution packs its windows.
//!
//! The dimension that is split between threads is the longer one. The operand along the other is packed once for all of them,
//! and each thread packs its own part of the longer one into its second-level cache.
//!
//! A result depends on the sizes and the instruction set, and not on the threads: sums are cut along the summed dimension in one way. Tiles
//! that take numbers apart (see [`parts`]) leave operands that have no parts to plain ones.

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

/// A register tile and the formats that it reads. `S` is the type of the sums; packed operands are words of the same size.
pub(crate) struct Kernel<S: 'static> {
    /// Columns of a tile.
    pub(crate) width: usize,
    /// Heights that tiles come in, the tallest first.
    heights: &'static [usize],
    /// Elements of the summed dimension in a packed step.
    per_step: usize,
    /// Packed steps come in multiples of this.
    steps: usize,
    /// Words that a line takes in a packed step.
    words: usize,
    /// Elements of the summed dimension in a block, about.
    pub(crate) k_block: usize,
    /// Whether the tile stores parts of itself; else the driver does through a buffer.
    masks: bool,
    /// Format of the operands.
    format: Format,
    pub(crate) tile: Tile<S>,
    /// Packs a part of an operand in the format.
    pack: Pack<S>,
    /// The tile for operands that this one can't multiply.
    otherwise: Option<&'static Kernel<S>>,
    /// Before a thread's first tile, and after its last.
    pub(crate) enter: unsafe fn(),
    pub(crate) leave: unsafe fn(),
}

/// How operands are packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// `[steps][lanes]`, one element of the sums' type.
    Plain,
    /// `[steps][lanes]`, two neighbouring `bf16` or `f16` of the summed dimension.
    Pairs,
    /// The right operand as `Pairs`; the left one in squares of 16 rows of 16 pairs.
    Squares,
    /// Squares of three `bf16` for each number; see [`parts`].
    Parts,
}

/// Packs a part of an operand, and says how large its numbers are where the tile has to know.
type Pack<S> = unsafe fn(x: &dyn Lines<S>, part: &Part, out: &mut [S]) -> Extent;

/// For tiles that multiply any numbers.
unsafe fn as_it_is<S>(x: &dyn Lines<S>, part: &Part, out: &mut [S]) -> Extent {
    // SAFETY: by the caller.
    unsafe { x.pack(part, out) };
    Extent::ONE
}

/// `c = alpha * a @ b + beta * c` for `rows` x `columns` of a tile of the given height; `a` and `b` hold that many steps. What lies `ahead` is
/// read by later tiles: one of [`PORTIONS`] of a strip, or null.
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

/// Portions of the next strip or panel that lies in the third-level cache; while the one before it is multiplied, each tile may fetch one.
const PORTIONS: usize = 8;

/// Which operand lines belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// Rows of the left operand.
    Left,
    /// Columns of the right operand.
    Right,
}

/// What to pack: lines `first..first + valid`, as `lanes` lines, over elements `k` of the summed dimension.
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
    /// Packs a part, with zeros for what is missing.
    ///
    /// # Safety
    /// The part lies within the operand; `out` has room for its steps.
    unsafe fn pack(&self, part: &Part, out: &mut [S]);

    /// Where the lines are the memory itself: the first element, and the distances of lines and of elements.
    fn strided(&self) -> Option<(*const S, usize, usize)> {
        None
    }
}

/// Lines from one on, and elements from one on.
struct Inside<'a, S> {
    lines: &'a dyn Lines<S>,
    first: usize,
    k: usize,
}

impl<S> Lines<S> for Inside<'_, S> {
    unsafe fn pack(&self, part: &Part, out: &mut [S]) {
        let k = part.k.start + self.k..part.k.end + self.k;
        // SAFETY: by the caller.
        unsafe { self.lines.pack(&Part { first: part.first + self.first, k, ..part.clone() }, out) }
    }
}

/// Where the columns of the result lie, from the start of its row; increasing.
pub(crate) trait Columns: Sync {
    fn at(&self, j: usize) -> usize;
}

/// Columns side by side.
pub(crate) struct Adjacent;
impl Columns for Adjacent {
    #[inline(always)]
    fn at(&self, j: usize) -> usize {
        j
    }
}

/// Columns from one on.
struct From<'a> {
    columns: &'a dyn Columns,
    first: usize,
}
impl Columns for From<'_> {
    fn at(&self, j: usize) -> usize {
        self.columns.at(self.first + j)
    }
}

fn nothing() {}

/// A number type that has tiles.
pub(crate) trait Multiply: Real + Float<Acc = Self> {
    /// The tile for sums of this type at a level.
    fn kernel(level: Level) -> &'static Kernel<Self>;

    /// The tile that is fastest for a product of these sizes.
    fn product_kernel(level: Level, _m: usize, _n: usize, _k: usize) -> &'static Kernel<Self> {
        Self::kernel(level)
    }

    /// The tile that multiplies elements of two bytes as such, if the level has one that is faster than widening.
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
        if level == Level::Amx && tiles::pays(m, n, k) {
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
    /// The height that costs least for `m` rows: short tiles load more for each product, tall ones may be empty in part.
    pub(crate) fn height(&self, m: usize) -> usize {
        let cost = |&h: &usize| m.div_ceil(h) * (2 * h + 3);
        self.heights.iter().copied().min_by_key(|h| cost(h)).unwrap_or(1)
    }

    /// Packed words of one line over `k` elements.
    fn steps(&self, k: usize) -> usize {
        k.div_ceil(self.per_step).next_multiple_of(self.steps) * self.words
    }

    /// Packs lines one strip of `lanes` after the other, and says how large their numbers are.
    ///
    /// # Safety
    /// As [`Lines::pack`].
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
            // SAFETY: by the caller.
            extent = extent.and(unsafe { (self.pack)(x, &part, out) });
        }
        extent
    }
}
