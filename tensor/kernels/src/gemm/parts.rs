//! Numbers as sums of three `bf16`, for tiles that multiply `bf16` and add in `f32`.
//!
//! The 24 significant bits of an `f32` are three times eight bits: `x = x1 + x2 + x3`. Each part is the `bf16` nearest
//! to the remainder after the parts before it. A product of two numbers has nine products of parts, and six of them are
//! computed. The other three are at most 2^-23 of the whole product, and usually below 2^-25. This is less than the
//! rounding error of one addition, and a tile does fewer additions than a chain of fused multiply-adds. So the result
//! is as accurate as that chain. XLA calls the method `BF16_BF16_F32_X6`.
//!
//! Parts have the exponents of `f32`, but tiles treat subnormal numbers as zero, and infinities have no parts.
//! [`Extent`] tells which operands may be multiplied this way.

use std::sync::atomic::{AtomicU32, Ordering};

/// Magnitudes of a packed operand, as the bits of `f32`. These bits have the order of integers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// The least among the largest magnitudes of all lines. Lines of zeros do not count.
    least: u32,
    /// The largest magnitude. With a NaN, it is larger than any number's.
    most: u32,
}

impl Extent {
    /// The extent of an operand of zeros.
    pub(super) const ZERO: Extent = Extent { least: f32::INFINITY.to_bits(), most: 0 };
    /// The extent of an operand of ones.
    pub(super) const ONE: Extent = Extent { least: 1f32.to_bits(), most: 1f32.to_bits() };

    /// Return the extent of both operands together.
    pub(super) fn and(self, other: Extent) -> Extent {
        Extent { least: self.least.min(other.least), most: self.most.max(other.most) }
    }

    /// Whether two operands may be multiplied in parts. All parts must be finite, and no sum of products may overflow.
    /// No product of parts may be subnormal in a line of the result that has a normal number.
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

/// An [`Extent`] that several threads compute together.
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

    /// Number of lines in a packed part, and of elements in a packed step.
    pub(in crate::gemm) const SIDE: usize = 32;
    /// Number of words in a packed step: two squares of 16 x 16 pairs for each part of the numbers.
    pub(in crate::gemm) const STEP: usize = 3 * 2 * SQUARE;
    const SQUARE: usize = 16 * 16;
    /// Number of elements that are packed unchanged before they are split, if an operand does not lie in memory.
    const CHUNK: usize = 64;

    /// Pack a part of an operand: for every 32 elements of the summed dimension, two squares for each of the three
    /// parts.
    ///
    /// # Safety
    /// The same as for [`Lines::pack`]. The processor has AVX-512 with `bf16`.
    pub(in crate::gemm) unsafe fn pack(x: &dyn Lines<f32>, part: &Part, out: &mut [f32]) -> Extent {
        let k = part.k.len();
        debug_assert!(part.lanes == SIDE && out.len() == k.div_ceil(SIDE) * STEP);
        let left = part.side == Side::Left;
        let split = |x: *const f32, pitch: usize, along: bool, valid: usize, k: usize, out: &mut [f32]| {
            let out = out.as_mut_ptr();
            // SAFETY: the caller of `pack` passes a part within the operand, and room for it.
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
            // SAFETY: the caller of `pack` passes a part within the operand, and room for it; packing writes all lanes
            // of all steps.
            unsafe {
                x.pack(&chunk, std::slice::from_raw_parts_mut(plain.as_mut_ptr().cast(), count * SIDE));
            }
            extent = extent.and(split(plain.as_ptr().cast(), SIDE, false, SIDE, count, out));
        }
        extent
    }

    /// Split `valid` lines of `k` elements into parts. With `ALONG`, the elements of a line are adjacent, and lines are
    /// `pitch` apart. Otherwise lines are adjacent, and elements are `pitch` apart. Squares of the left operand have
    /// one row per line. Squares of the right operand have one row per pair of elements.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn split<const ALONG: bool, const LEFT: bool>(
        x: *const f32,
        pitch: usize,
        valid: usize,
        k: usize,
        out: *mut f32,
    ) -> Extent {
        let bits = _mm512_set1_epi32(i32::MAX);
        // Interleave: lane `i` of one vector is next to lane `i` of the other.
        let order: [i16; 32] = std::array::from_fn(|i| (i / 2 + i % 2 * 16) as i16);
        // SAFETY: the array has 64 bytes.
        let order = unsafe { _mm512_loadu_si512(order.as_ptr().cast()) };
        // Largest magnitudes: one vector per line, or one lane per line.
        let mut most = [_mm512_setzero_si512(); SIDE];
        for (step, k0) in (0..k).step_by(SIDE).enumerate() {
            // Prefetch one step ahead. In the last step, prefetch the first step of the lines that are packed next.
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
                    // The two vectors that the square's vector `i` is made of.
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
                    // Prefetch every cache line to the first-level cache. The few lines of one step stay there, and the
                    // neighbouring line that the processor may prefetch itself would come late.
                    _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(ahead).cast());
                    _mm_prefetch::<_MM_HINT_T0>(second.wrapping_add(ahead).cast());
                    // SAFETY: the caller passes elements that exist; masks keep loads within.
                    let (mut a, mut b) =
                        unsafe { (_mm512_maskz_loadu_ps(lanes[0], first), _mm512_maskz_loadu_ps(lanes[1], second)) };
                    let magnitude = |v: __m512| _mm512_and_si512(_mm512_castps_si512(v), bits);
                    let line = if ALONG { 16 * half + i } else { half };
                    most[line] = _mm512_max_epi32(most[line], _mm512_max_epi32(magnitude(a), magnitude(b)));
                    for part in 0..3 {
                        // SAFETY: both types have 512 bits.
                        let pairs: __m512i = unsafe { std::mem::transmute(_mm512_cvtne2ps_pbh(b, a)) };
                        let widened =
                            |v: __m256i| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(v)));
                        if ALONG {
                            a = _mm512_sub_ps(a, widened(_mm512_castsi512_si256(pairs)));
                            b = _mm512_sub_ps(b, widened(_mm512_extracti64x4_epi64::<1>(pairs)));
                            // SAFETY: the caller passes room for all steps.
                            unsafe { _mm512_storeu_si512(out.add(2 * part * SQUARE + 16 * i).cast(), pairs) };
                        } else {
                            let pairs = _mm512_permutexvar_epi16(order, pairs);
                            let high = _mm512_set1_epi32(!0xffff);
                            a = _mm512_sub_ps(a, _mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs)));
                            b = _mm512_sub_ps(b, _mm512_castsi512_ps(_mm512_and_si512(pairs, high)));
                            // SAFETY: the caller passes room for all steps.
                            unsafe { _mm512_storeu_si512(out.add(2 * part * SQUARE + 16 * i).cast(), pairs) };
                        }
                    }
                }
                if ALONG != LEFT {
                    for part in 0..3 {
                        // SAFETY: the square was written above.
                        unsafe { transpose_square(out.add(2 * part * SQUARE)) };
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
                // SAFETY: the array has 64 bytes.
                unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), v) };
                lanes.into_iter().for_each(&mut add);
            }
        }
        extent
    }

    /// Transpose a square in place.
    ///
    /// # Safety
    /// `square` points to 16 x 16 words.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn transpose_square(square: *mut f32) {
        // SAFETY: the caller passes 16 x 16 words.
        unsafe {
            let rows = std::array::from_fn(|i| _mm512_loadu_ps(square.add(16 * i)));
            put(transpose(rows), square, 16, 16, u16::MAX);
        }
    }
}
