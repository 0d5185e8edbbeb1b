//! Numbers as sums of three `bf16`, for tiles that multiply `bf16` and add in `f32`.
//!
//! The 24 significant bits of an `f32` are three times eight: `x = x1 + x2 + x3`, where each part is the `bf16` nearest to what those
//! before it leave. Of the nine products of the parts of two numbers six are computed. The other three are at most 2^-23 of the
//! whole and usually below 2^-25, less than what rounding one addition costs, of which a tile does fewer than a chain of
//! fused additions: the result is as good as theirs. XLA knows the method as `BF16_BF16_F32_X6`.
//!
//! Parts have the exponents of `f32`, but tiles take subnormal numbers for zero, and infinities have no parts. [`Extent`] tells which
//! operands may be multiplied this way.

use std::sync::atomic::{AtomicU32, Ordering};

/// Magnitudes of a packed operand, as the bits of `f32`, whose order is that of integers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// The least among the largest magnitudes of lines; lines of zeros do not count.
    least: u32,
    /// The largest magnitude; more than any number's where there is a NaN.
    most: u32,
}

impl Extent {
    /// Of nothing but zeros.
    pub(super) const ZERO: Extent = Extent { least: f32::INFINITY.to_bits(), most: 0 };
    /// Of numbers about one.
    pub(super) const ONE: Extent = Extent { least: 1f32.to_bits(), most: 1f32.to_bits() };

    /// Of both.
    pub(super) fn and(self, other: Extent) -> Extent {
        Extent { least: self.least.min(other.least), most: self.most.max(other.most) }
    }

    /// Whether all parts are numbers, and neither are sums of products infinite nor products of parts, in every line of the
    /// result that has a normal number, subnormal.
    pub(super) fn fits(self, other: Extent) -> bool {
        const LEAST: f64 = 1.0 / (1u128 << 100) as f64;
        const MOST: f64 = (1u128 << 127) as f64;
        const MOST_PRODUCT: f64 = (1u128 << 96) as f64;
        let number = |bits: u32| f32::from_bits(bits) as f64;
        let (least, most) = ([number(self.least), number(other.least)], [number(self.most), number(other.most)]);
        least.iter().all(|&v| v >= LEAST)
            && least[0] * least[1] >= LEAST
            && most.iter().all(|&v| v < MOST)
            && most[0] * most[1] <= MOST_PRODUCT
    }
}

/// An [`Extent`] that threads find out together.
pub(super) struct SharedExtent {
    least: AtomicU32,
    most: AtomicU32,
}

impl SharedExtent {
    pub(super) fn new() -> SharedExtent {
        SharedExtent { least: AtomicU32::new(Extent::ZERO.least), most: AtomicU32::new(0) }
    }
    pub(super) fn add(&self, other: Extent) {
        self.least.fetch_min(other.least, Ordering::Relaxed);
        self.most.fetch_max(other.most, Ordering::Relaxed);
    }
    pub(super) fn get(&self) -> Extent {
        Extent { least: self.least.load(Ordering::Relaxed), most: self.most.load(Ordering::Relaxed) }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{SIDE, STEP, pack};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Extent;
    use crate::gemm::pack::x86::{mask, put, transpose};
    use crate::gemm::{Format, Lines, Part, Side};
    use std::arch::x86_64::*;
    use std::mem::MaybeUninit;

    /// Lines of a packed part, and elements of a packed step.
    pub(in crate::gemm) const SIDE: usize = 32;
    /// Words of a packed step: two squares of 16 x 16 pairs for each part of the numbers.
    pub(in crate::gemm) const STEP: usize = 3 * 2 * SQUARE;
    const SQUARE: usize = 16 * 16;
    /// Elements that are packed as they are before they are taken apart, where an operand has no memory of its own.
    const CHUNK: usize = 64;

    /// Packs a part of an operand: for every 32 elements of the summed dimension, for each of the three parts of the numbers, two squares.
    ///
    /// # Safety
    /// As [`Lines::pack`]; the processor has AVX-512 with `bf16`.
    pub(in crate::gemm) unsafe fn pack(x: &dyn Lines<f32>, part: &Part, out: &mut [f32]) -> Extent {
        let k = part.k.len();
        debug_assert!(part.lanes == SIDE && out.len() == k.div_ceil(SIDE) * STEP);
        let left = part.side == Side::Left;
        let split = |x: *const f32, pitch: usize, along: bool, valid: usize, k: usize, out: &mut [f32]| {
            let out = out.as_mut_ptr();
            // SAFETY: by the caller of `pack`.
            unsafe {
                match (along, left) {
                    (true, true) => split::<true, true>(x, pitch, valid, k, out),
                    (true, false) => split::<true, false>(x, pitch, valid, k, out),
                    (false, true) => split::<false, true>(x, pitch, valid, k, out),
                    (false, false) => split::<false, false>(x, pitch, valid, k, out),
                }
            }
        };
        if let Some((x, line, step)) = x.strided()
            && (line == 1 || step == 1)
        {
            let x = x.wrapping_add(part.first * line + part.k.start * step);
            let along = step == 1 && line != 1;
            return split(x, if along { line } else { step }, along, part.valid, k, out);
        }
        let mut extent = Extent::ZERO;
        let mut plain = MaybeUninit::<[f32; CHUNK * SIDE]>::uninit();
        for (first, out) in (0..k).step_by(CHUNK).zip(out.chunks_mut(CHUNK / SIDE * STEP)) {
            let count = CHUNK.min(k - first);
            let start = part.k.start + first;
            let chunk = Part { format: Format::Plain, k: start..start + count, ..part.clone() };
            // SAFETY: by the caller; packing writes all lanes of all steps.
            unsafe {
                x.pack(&chunk, std::slice::from_raw_parts_mut(plain.as_mut_ptr().cast(), count * SIDE));
            }
            extent = extent.and(split(plain.as_ptr().cast(), SIDE, false, SIDE, count, out));
        }
        extent
    }

    /// Takes apart `valid` lines of `k` elements. Elements lie side by side `ALONG` a line, and lines `pitch` apart; or lines lie side by side, and
    /// elements `pitch` apart. Squares of the left operand have a row for each line, those of the right one for each pair of elements.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn split<const ALONG: bool, const LEFT: bool>(
        x: *const f32,
        pitch: usize,
        valid: usize,
        k: usize,
        out: *mut f32,
    ) -> Extent {
        let bits = _mm512_set1_epi32(i32::MAX);
        // Lane `i` of one vector beside lane `i` of another.
        let order: [i16; 32] = std::array::from_fn(|i| (i / 2 + i % 2 * 16) as i16);
        // SAFETY: 64 bytes.
        let order = unsafe { _mm512_loadu_si512(order.as_ptr().cast()) };
        // Largest magnitudes: a vector for each line, or a lane.
        let mut most = [_mm512_setzero_si512(); SIDE];
        for (step, k0) in (0..k).step_by(SIDE).enumerate() {
            // A step ahead, and in the last one, the first step of the lines that are packed after these.
            let ahead = match (ALONG, k0 + SIDE < k) {
                (true, true) => SIDE,
                (true, false) => (SIDE * pitch + SIDE).wrapping_sub(k),
                (false, true) => SIDE * pitch,
                (false, false) => (SIDE * pitch + SIDE).wrapping_sub(k * pitch),
            };
            for half in 0..2 {
                // The square of part `p` is 2 `p` squares after this one.
                let out = out.wrapping_add(step * STEP + half * SQUARE);
                for i in 0..16 {
                    // Two vectors, of which the square's vector `i` is made.
                    let (first, second, lanes) = if ALONG {
                        let line = 16 * half + i;
                        let x = x.wrapping_add(line * pitch + k0);
                        let lanes = |at: usize| if line < valid { mask(k.saturating_sub(k0 + at)) } else { 0 };
                        (x, x.wrapping_add(16), [lanes(0), lanes(16)])
                    } else {
                        let k1 = k0 + 2 * i;
                        let x = x.wrapping_add(k1 * pitch + 16 * half);
                        let lanes = |k1: usize| if k1 < k { mask(valid.saturating_sub(16 * half)) } else { 0 };
                        (x, x.wrapping_add(pitch), [lanes(k1), lanes(k1 + 1)])
                    };
                    // All lines of memory, and to the first-level cache: as few as a step reads stay there, and the neighbour that the
                    // processor may fetch on its own comes late.
                    _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(ahead).cast());
                    _mm_prefetch::<_MM_HINT_T0>(second.wrapping_add(ahead).cast());
                    // SAFETY: by the caller; masks keep loads within.
                    let (mut a, mut b) =
                        unsafe { (_mm512_maskz_loadu_ps(lanes[0], first), _mm512_maskz_loadu_ps(lanes[1], second)) };
                    let magnitude = |v: __m512| _mm512_and_si512(_mm512_castps_si512(v), bits);
                    let line = if ALONG { 16 * half + i } else { half };
                    most[line] = _mm512_max_epi32(most[line], _mm512_max_epi32(magnitude(a), magnitude(b)));
                    for part in 0..3 {
                        // SAFETY: both are 512 bits.
                        let pairs: __m512i = unsafe { std::mem::transmute(_mm512_cvtne2ps_pbh(b, a)) };
                        let widened =
                            |v: __m256i| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(v)));
                        if ALONG {
                            a = _mm512_sub_ps(a, widened(_mm512_castsi512_si256(pairs)));
                            b = _mm512_sub_ps(b, widened(_mm512_extracti64x4_epi64::<1>(pairs)));
                            // SAFETY: by the caller, there is room for the steps.
                            unsafe { _mm512_storeu_si512(out.add(2 * part * SQUARE + 16 * i).cast(), pairs) };
                        } else {
                            let pairs = _mm512_permutexvar_epi16(order, pairs);
                            let high = _mm512_set1_epi32(!0xffff);
                            a = _mm512_sub_ps(a, _mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs)));
                            b = _mm512_sub_ps(b, _mm512_castsi512_ps(_mm512_and_si512(pairs, high)));
                            // SAFETY: as above.
                            unsafe { _mm512_storeu_si512(out.add(2 * part * SQUARE + 16 * i).cast(), pairs) };
                        }
                    }
                }
                if ALONG != LEFT {
                    for part in 0..3 {
                        // SAFETY: as above.
                        unsafe { turn(out.add(2 * part * SQUARE)) };
                    }
                }
            }
        }
        let mut extent = Extent::ZERO;
        let mut add = |most: u32| {
            if most != 0 {
                extent = extent.and(Extent { least: most, most });
            }
        };
        if ALONG {
            most.iter().for_each(|&v| add(_mm512_reduce_max_epi32(v) as u32));
        } else {
            for v in [most[0], most[1]] {
                let mut lanes = [0u32; 16];
                // SAFETY: 64 bytes.
                unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), v) };
                lanes.into_iter().for_each(&mut add);
            }
        }
        extent
    }

    /// Transposes a square where it is.
    ///
    /// # Safety
    /// There are 16 x 16 words.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn turn(square: *mut f32) {
        // SAFETY: by the caller.
        unsafe {
            let rows = std::array::from_fn(|i| _mm512_loadu_ps(square.add(16 * i)));
            put(transpose(rows), square, 16, 16, u16::MAX);
        }
    }
}
