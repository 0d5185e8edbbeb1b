//! Packing of operands: plain strided packing, and the transposition in registers that all packing shares.

use super::{Format, Lines, Part, Side};
use crate::cpu::{Level, level};
use crate::matmul::Mat;
use crate::real::{Float, Real};
use crate::{DType, bf16};
use std::any::TypeId;

impl<T: Float, S: Real> Lines<S> for Strided<T> {
    unsafe fn pack(&self, part: &Part, out: &mut [S]) {
        let (line, step) = (self.line, self.step);
        // SAFETY: the caller passes a part within the operand, and room for it.
        unsafe {
            let x = self.x.add(part.first * line + part.k.start * step);
            match part.format {
                Format::Plain => {
                    debug_assert!(TypeId::of::<T::Acc>() == TypeId::of::<S>());
                    pack::<T>(x, line, step, part.valid, part.k.len(), part.lanes, out.as_mut_ptr().cast());
                }
                #[cfg(target_arch = "x86_64")]
                format => {
                    assert!(size_of::<T>() == 2, "pairs of {}", T::DTYPE.name());
                    let (x, out) = (x.cast::<u16>(), out.as_mut_ptr().cast());
                    if format == Format::Squares && part.side == Side::Left {
                        x86::squares(x, line, step, part.valid, part.k.len(), part.lanes, out);
                    } else {
                        let steps = if format == Format::Squares { 16 } else { 1 };
                        x86::pairs(x, line, step, part.valid, part.k.len(), part.lanes, steps, out);
                    }
                }
                #[cfg(not(target_arch = "x86_64"))]
                format => unreachable!("{format:?} on this processor"),
            }
        }
    }

    fn strided(&self) -> Option<(*const S, usize, usize)> {
        (TypeId::of::<T>() == TypeId::of::<S>()).then_some((self.x.cast(), self.line, self.step))
    }
}

/// Lines of a strided matrix: `line` elements apart, with elements `step` apart.
pub(crate) struct Strided<T> {
    x: *const T,
    line: usize,
    step: usize,
}

// SAFETY: the memory is only read, and it outlives the product.
unsafe impl<T: Sync> Sync for Strided<T> {}

impl<T> Mat<T> {
    /// Return the rows, as the lines of a left operand.
    pub(crate) fn rows(self) -> Strided<T>
    where
        T: Copy,
    {
        // SAFETY: `(0, 0)` is the matrix's first element.
        Strided { x: unsafe { self.element(0, 0) }, line: self.row(), step: self.col() }
    }
    /// Return the columns, as the lines of a right operand.
    pub(crate) fn columns(self) -> Strided<T>
    where
        T: Copy,
    {
        self.t().rows()
    }
}

/// Pack `valid` lines over `k` elements as `[k][lanes]`, widened, with zeros for the missing lines.
///
/// # Safety
/// The elements exist, and `out` has room for `k * lanes` numbers.
pub(crate) unsafe fn pack<T: Float>(
    x: *const T,
    line: usize,
    step: usize,
    valid: usize,
    k: usize,
    lanes: usize,
    out: *mut T::Acc,
) {
    // SAFETY: the caller passes elements that exist and room for the result; the processor has the level.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if level() >= Level::Avx512 && (line == 1 || step == 1) {
            let (out, f32) = (out.cast::<f32>(), TypeId::of::<T::Acc>() == TypeId::of::<f32>());
            match T::DTYPE {
                DType::F32 => return x86::plain(x.cast::<f32>(), line, step, valid, k, lanes, out),
                DType::BF16 if f32 => return x86::plain(x.cast::<bf16>(), line, step, valid, k, lanes, out),
                DType::F16 if f32 => return x86::plain(x.cast::<crate::f16>(), line, step, valid, k, lanes, out),
                _ => {}
            }
        }
        if line == 1 {
            for p in 0..k {
                let (x, out) = (x.add(p * step), out.add(p * lanes));
                for i in 0..valid {
                    *out.add(i) = (*x.add(i)).up();
                }
                for i in valid..lanes {
                    *out.add(i) = T::Acc::ZERO;
                }
            }
            return;
        }
        // Pack a few elements of each line at a time, so that the written lines stay in the first-level cache.
        for p0 in (0..k).step_by(8) {
            let p1 = (p0 + 8).min(k);
            for i in 0..lanes {
                for p in p0..p1 {
                    *out.add(p * lanes + i) = if i < valid { (*x.add(i * line + p * step)).up() } else { T::Acc::ZERO };
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    //! Packing of 16 lanes at a time.

    use crate::{bf16, f16};
    use std::arch::x86_64::*;

    /// Return a mask of the first `n` of 16 lanes.
    #[inline(always)]
    pub(crate) fn mask(n: usize) -> u16 {
        if n >= 16 { u16::MAX } else { (1 << n) - 1 }
    }

    /// An element type that loads as 16 lanes of `f32`.
    pub(crate) trait Load: Copy {
        /// # Safety
        /// The lanes of the mask exist in memory.
        unsafe fn load(x: *const Self, mask: u16) -> __m512;
    }
    impl Load for f32 {
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
        unsafe fn load(x: *const f32, mask: u16) -> __m512 {
            // SAFETY: the caller passes a mask of lanes that exist.
            unsafe { _mm512_maskz_loadu_ps(mask, x) }
        }
    }
    impl Load for bf16 {
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
        unsafe fn load(x: *const bf16, mask: u16) -> __m512 {
            // SAFETY: the caller passes a mask of lanes that exist.
            let v = unsafe { _mm256_maskz_loadu_epi16(mask, x.cast()) };
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(v)))
        }
    }
    impl Load for f16 {
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
        unsafe fn load(x: *const f16, mask: u16) -> __m512 {
            // SAFETY: the caller passes a mask of lanes that exist.
            _mm512_cvtph_ps(unsafe { _mm256_maskz_loadu_epi16(mask, x.cast()) })
        }
    }

    /// Number of steps to prefetch if each lies in its own cache line or page.
    const AHEAD: usize = 16;

    /// Like [`super::pack`], for adjacent lines or adjacent elements.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn plain<T: Load>(
        x: *const T,
        line: usize,
        step: usize,
        valid: usize,
        k: usize,
        lanes: usize,
        out: *mut f32,
    ) {
        if line == 1 {
            for p in 0..k {
                let (x, out) = (x.wrapping_add(p * step), out.wrapping_add(p * lanes));
                _mm_prefetch::<_MM_HINT_T0>(x.wrapping_add(AHEAD * step).cast());
                _mm_prefetch::<_MM_HINT_T0>(x.wrapping_add(AHEAD * step + lanes - 1).cast());
                for group in (0..lanes).step_by(16) {
                    // SAFETY: the caller passes elements that exist and room for the result; masks keep loads and
                    // stores within.
                    unsafe {
                        let v = T::load(x.wrapping_add(group), mask(valid.saturating_sub(group)));
                        _mm512_mask_storeu_ps(out.wrapping_add(group), mask(lanes - group), v);
                    }
                }
            }
            return;
        }
        for group in (0..lanes).step_by(16) {
            let store = mask(lanes - group);
            let lines = valid.saturating_sub(group).min(16);
            // SAFETY: the caller passes elements that exist and room for the result; masks keep loads and stores
            // within.
            unsafe {
                let (x, out) = (x.wrapping_add(group * line), out.add(group));
                for p in (0..k).step_by(16) {
                    let (x, out) = (x.wrapping_add(p), out.add(p * lanes));
                    let rows = if k - p < 16 {
                        rows::<T, 0>(x, line, lines, mask(k - p))
                    } else {
                        match lines {
                            16 => rows::<T, 16>(x, line, lines, u16::MAX),
                            14 => rows::<T, 14>(x, line, lines, u16::MAX),
                            13 => rows::<T, 13>(x, line, lines, u16::MAX),
                            8 => rows::<T, 8>(x, line, lines, u16::MAX),
                            _ => rows::<T, 0>(x, line, lines, u16::MAX),
                        }
                    };
                    put(transpose(rows), out, lanes, 16.min(k - p), store);
                }
            }
        }
    }

    /// Load sixteen elements of each of `lines` lines, and zeros for the others. `N` is `lines` if it is known at
    /// compile time, else zero.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn rows<T: Load, const N: usize>(x: *const T, line: usize, lines: usize, rest: u16) -> [__m512; 16] {
        let mut rows = [_mm512_setzero_ps(); 16];
        macro_rules! load {
            ($($i:literal)*) => {$(
                if $i < if N == 0 { lines } else { N } {
                    let x = x.wrapping_add($i * line);
                    _mm_prefetch::<_MM_HINT_T0>(x.wrapping_add(64).cast());
                    // SAFETY: the caller passes lines that exist; the mask keeps the load within.
                    rows[$i] = unsafe { T::load(x, rest) };
                }
            )*};
        }
        load!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        rows
    }

    /// Store the first `count` columns, `lanes` words apart.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) unsafe fn put(columns: [__m512; 16], out: *mut f32, lanes: usize, count: usize, store: u16) {
        macro_rules! put {
            ($count:expr; $($i:literal)*) => {$(
                if $i < $count {
                    // SAFETY: the caller passes room for `count` steps; the mask keeps the store within the step.
                    unsafe { _mm512_mask_storeu_ps(out.wrapping_add($i * lanes), store, columns[$i]) };
                }
            )*};
        }
        if count == 16 {
            put!(16; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        } else {
            put!(count; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        }
    }

    /// Pack `valid` lines over `k` elements as `[steps][lanes]` of pairs, with zeros for missing elements. The number
    /// of steps is rounded up to `multiple`.
    ///
    /// # Safety
    /// The elements exist, and `out` has room for all steps.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn pairs(
        x: *const u16,
        line: usize,
        step: usize,
        valid: usize,
        k: usize,
        lanes: usize,
        multiple: usize,
        out: *mut f32,
    ) {
        let steps = k.div_ceil(2);
        if line == 1 && lanes == 32 {
            // SAFETY: the caller passes elements that exist, and room for all steps.
            return unsafe { pairs_across(x, step, valid, k, steps.next_multiple_of(multiple), out) };
        }
        for group in (0..lanes).step_by(16) {
            let store = mask(lanes - group);
            let lines = valid.saturating_sub(group).min(16);
            // SAFETY: the caller passes elements that exist and room for all steps; masks keep loads and stores within.
            unsafe {
                let x = x.wrapping_add(group * line);
                let out = out.add(group);
                if step == 1 && line != 1 {
                    for s0 in (0..steps).step_by(16) {
                        let mut rows = [_mm512_setzero_ps(); 16];
                        for i in 0..lines {
                            rows[i] = along(x.add(i * line + 2 * s0), k - 2 * s0);
                        }
                        put(transpose(rows), out.add(s0 * lanes), lanes, 16.min(steps - s0), store);
                    }
                } else {
                    for s in 0..steps {
                        _mm512_mask_storeu_ps(out.add(s * lanes), store, across(x, line, step, s, k, lines));
                    }
                }
                for s in steps..steps.next_multiple_of(multiple) {
                    _mm512_mask_storeu_ps(out.add(s * lanes), store, _mm512_setzero_ps());
                }
            }
        }
    }

    /// Like [`pairs`], for 32 adjacent lines.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn pairs_across(x: *const u16, step: usize, valid: usize, k: usize, steps: usize, out: *mut f32) {
        let x = x.cast::<i16>();
        let load = if valid >= 32 { u32::MAX } else { (1 << valid) - 1 };
        // Interleave: element `i` of one row is next to element `i` of the other.
        let order: [i16; 64] = std::array::from_fn(|i| (i / 2 + i % 2 * 32) as i16);
        let zero = _mm512_setzero_si512();
        // SAFETY: the caller passes elements that exist and room for all steps; masks keep loads within.
        unsafe {
            let first = _mm512_loadu_epi16(order.as_ptr());
            let second = _mm512_loadu_epi16(order[32..].as_ptr());
            for s in 0..steps {
                let row = |p: usize| {
                    let x = x.wrapping_add(p * step);
                    _mm_prefetch::<_MM_HINT_T0>(x.wrapping_add(AHEAD * step).cast());
                    if p < k { _mm512_maskz_loadu_epi16(load, x) } else { zero }
                };
                let (a, b) = (row(2 * s), row(2 * s + 1));
                _mm512_storeu_si512(out.add(32 * s).cast(), _mm512_permutex2var_epi16(a, first, b));
                _mm512_storeu_si512(out.add(32 * s + 16).cast(), _mm512_permutex2var_epi16(a, second, b));
            }
        }
    }

    /// Pack `valid` rows over `k` elements as squares: for every 16 pairs and every 16 lanes, 16 rows of 16 pairs.
    ///
    /// # Safety
    /// The same as for [`pairs`]. The number of steps is a multiple of 16.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn squares(
        x: *const u16,
        line: usize,
        step: usize,
        valid: usize,
        k: usize,
        lanes: usize,
        mut out: *mut f32,
    ) {
        for s0 in (0..k.div_ceil(2)).step_by(16) {
            for group in (0..lanes).step_by(16) {
                let lines = valid.saturating_sub(group).min(16);
                let mut rows = [_mm512_setzero_ps(); 16];
                // SAFETY: the caller passes elements that exist and room for all steps; masks keep loads within.
                unsafe {
                    let x = x.wrapping_add(group * line);
                    if step == 1 {
                        for i in 0..lines {
                            rows[i] = along(x.add(i * line + 2 * s0), k - 2 * s0);
                        }
                    } else if lines > 0 {
                        for s in 0..16.min(k.div_ceil(2) - s0) {
                            rows[s] = across(x, line, step, s0 + s, k, lines);
                        }
                        rows = transpose(rows);
                    }
                    for row in rows {
                        _mm512_storeu_ps(out, row);
                        out = out.add(16);
                    }
                }
            }
        }
    }

    /// Load one step of up to 16 lines.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn across(x: *const u16, line: usize, step: usize, s: usize, k: usize, lines: usize) -> __m512 {
        // SAFETY: the caller of `pairs` passes elements that exist; the mask keeps the load within.
        unsafe {
            let x = x.cast::<u16>().wrapping_add(2 * s * step);
            if line == 1 {
                let low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask(lines), x.cast()));
                if 2 * s + 1 >= k {
                    return _mm512_castsi512_ps(low);
                }
                let high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask(lines), x.wrapping_add(step).cast()));
                return _mm512_castsi512_ps(_mm512_or_si512(low, _mm512_slli_epi32::<16>(high)));
            }
            let mut pairs = [0u32; 16];
            for i in 0..lines {
                pairs[i] = *x.add(i * line) as u32;
                if 2 * s + 1 < k {
                    pairs[i] |= (*x.add(i * line + step) as u32) << 16;
                }
            }
            _mm512_castsi512_ps(_mm512_loadu_si512(pairs.as_ptr().cast()))
        }
    }

    /// Load up to 16 steps of one line, which has `rest` elements left.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn along(x: *const u16, rest: usize) -> __m512 {
        // SAFETY: the caller of `pairs` passes elements that exist; the mask keeps the load within.
        unsafe {
            let mask = if rest >= 32 { u32::MAX } else { (1 << rest) - 1 };
            _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(mask, x.cast()))
        }
    }

    /// Transpose 16 x 16 lanes: pairs, then pairs of pairs, then 128-bit quarters.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn transpose(r: [__m512; 16]) -> [__m512; 16] {
        let zero = _mm512_setzero_ps();
        let (mut t, mut u, mut out) = ([zero; 16], [_mm512_setzero_pd(); 16], [zero; 16]);
        for i in 0..8 {
            t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
            t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
        }
        for i in 0..4 {
            for j in 0..2 {
                let (a, b) = (_mm512_castps_pd(t[4 * i + j]), _mm512_castps_pd(t[4 * i + j + 2]));
                u[4 * i + 2 * j] = _mm512_unpacklo_pd(a, b);
                u[4 * i + 2 * j + 1] = _mm512_unpackhi_pd(a, b);
            }
        }
        for j in 0..4 {
            let (a, b) = (_mm512_castpd_ps(u[j]), _mm512_castpd_ps(u[4 + j]));
            let (c, d) = (_mm512_castpd_ps(u[8 + j]), _mm512_castpd_ps(u[12 + j]));
            let (even, odd) = (_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
            let (even2, odd2) = (_mm512_shuffle_f32x4::<0x88>(c, d), _mm512_shuffle_f32x4::<0xdd>(c, d));
            out[j] = _mm512_shuffle_f32x4::<0x88>(even, even2);
            out[4 + j] = _mm512_shuffle_f32x4::<0x88>(odd, odd2);
            out[8 + j] = _mm512_shuffle_f32x4::<0xdd>(even, even2);
            out[12 + j] = _mm512_shuffle_f32x4::<0xdd>(odd, odd2);
        }
        out
    }
}
