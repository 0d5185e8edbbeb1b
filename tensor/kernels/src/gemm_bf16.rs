//! Products of `bf16` matrices with `f32` sums, for processors that multiply pairs of `bf16` (AVX-512 BF16).
//!
//! The usual blocking: a block of the right operand is packed into panels of 32 columns, shared by all threads and resident in
//! the third-level cache; a block of the left operand into strips of up to 14 rows, in a thread's second-level cache; a tile of
//! 14 x 32 sums stays in 28 registers while `K_BLOCK` steps are added to it. Masks handle every edge, so there are no scalar tails.
//! A step is two neighbours of the summed dimension in one 32-bit lane. Operands are packed from any strides; where the summed
//! dimension is contiguous, 16 x 16 lanes at a time are transposed in registers.

use crate::bf16;
use crate::matmul::{Mat, MatMut};
use crate::par::{Scratch, Shared, parallel_for, threads};
use std::arch::x86_64::*;

/// Columns of a panel.
const WIDTH: usize = 32;
/// Packed steps of the summed dimension in a block: a panel of 32 KiB stays in the first-level cache.
const K_BLOCK: usize = 256;
/// Rows of a block of the left operand, about.
const M_BLOCK: usize = 168;
/// Columns of a block of the right operand.
const N_BLOCK: usize = 4096;

/// Elements of the summed dimension in a packed step.
const PER_STEP: usize = 2;

/// Whether the processor has the instructions.
pub(crate) fn is_available() -> bool {
    crate::real::level() == 4 && is_x86_feature_detected!("avx512bf16")
}

/// `c = alpha * a @ b + beta * c` for `[m, k] @ [k, n]`, `k > 0`; `c` has unit column stride and is not read when `beta` is zero.
///
/// # Safety
/// `is_available()`; the matrices have the sizes given; `c` overlaps neither operand.
pub(crate) unsafe fn gemm(
    m: usize,
    n: usize,
    k: usize,
    alpha: f32,
    a: Mat<bf16>,
    b: Mat<bf16>,
    beta: f32,
    c: MatMut<f32>,
    parallel: bool,
) {
    if parallel {
        // One hop to the pool; the loops inside then fork without another.
        // SAFETY: by the caller.
        rayon::scope(|_| unsafe { blocks(m, n, k, alpha, a, b, beta, c, true) });
    } else {
        // SAFETY: by the caller.
        unsafe { blocks(m, n, k, alpha, a, b, beta, c, false) }
    }
}

unsafe fn blocks(
    m: usize,
    n: usize,
    k: usize,
    alpha: f32,
    a: Mat<bf16>,
    b: Mat<bf16>,
    beta: f32,
    c: MatMut<f32>,
    parallel: bool,
) {
    let strip = strip_rows(m);
    let k_block = K_BLOCK * PER_STEP;
    let block_rows = (M_BLOCK / strip).max(1) * strip;
    let each = |count: usize, f: &(dyn Fn(std::ops::Range<usize>) + Sync)| {
        if parallel { parallel_for(count, 1, f) } else { f(0..count) }
    };
    let mut right = Scratch::<f32>::any(K_BLOCK.min(k.div_ceil(PER_STEP)) * N_BLOCK.min(n.next_multiple_of(WIDTH)));
    for n0 in (0..n).step_by(N_BLOCK) {
        let nb = N_BLOCK.min(n - n0);
        let panels = nb.div_ceil(WIDTH);
        for k0 in (0..k).step_by(k_block) {
            let kb = k_block.min(k - k0);
            let steps = kb.div_ceil(PER_STEP);
            let beta = if k0 == 0 { beta } else { 1.0 };
            let packed = Shared::new(&mut right[..]);
            each(panels, &|range| {
                for panel in range {
                    let j = n0 + panel * WIDTH;
                    let valid = WIDTH.min(n0 + nb - j);
                    // SAFETY: by the caller; panels are disjoint.
                    unsafe {
                        let out = packed.slice(panel * steps * WIDTH, steps * WIDTH);
                        pack(b.element(k0, j), b.col(), b.row(), valid, kb, WIDTH, out.as_mut_ptr());
                    }
                }
            });
            let right: &[f32] = &right;
            // Blocks of rows, and of columns too where rows alone would leave threads idle.
            let row_blocks = m.div_ceil(block_rows);
            let splits = if parallel { (3 * threads()).div_ceil(row_blocks).clamp(1, panels) } else { 1 };
            each(row_blocks * splits, &|range| {
                let mut left = Scratch::<f32>::any(block_rows * steps);
                let mut packed_block = usize::MAX;
                for task in range {
                    let (block, split) = (task / splits, task % splits);
                    let m0 = block * block_rows;
                    let mb = block_rows.min(m - m0);
                    let strips = mb.div_ceil(strip);
                    if packed_block != block {
                        packed_block = block;
                        for s in 0..strips {
                            let i = m0 + s * strip;
                            let valid = strip.min(m0 + mb - i);
                            // SAFETY: by the caller.
                            unsafe {
                                let out = left[s * steps * strip..].as_mut_ptr();
                                pack(a.element(i, k0), a.row(), a.col(), valid, kb, strip, out);
                            }
                        }
                    }
                    for panel in split * panels / splits..(split + 1) * panels / splits {
                        let j = n0 + panel * WIDTH;
                        let columns = WIDTH.min(n0 + nb - j);
                        let b = right[panel * steps * WIDTH..].as_ptr();
                        for s in 0..strips {
                            let i = m0 + s * strip;
                            let rows = strip.min(m0 + mb - i);
                            let a = left[s * steps * strip..].as_ptr();
                            // SAFETY: packed operands hold `steps` steps; tiles of `c` are disjoint.
                            unsafe {
                                let (c, row) = (c.element(i, j), c.row());
                                tile(strip, steps, a, b, alpha, beta, c, row, rows, columns)
                            }
                        }
                    }
                }
            });
        }
    }
}

/// Rows of a strip: the height that wastes least on `m` rows, the tallest of equals.
fn strip_rows(m: usize) -> usize {
    let waste = |s: &usize| m.next_multiple_of(*s);
    [14, 13, 12, 11, 8, 6, 4].into_iter().min_by_key(waste).unwrap_or(14)
}

/// Packs `valid` lines (of `line` elements apart) over `k` elements of the summed dimension (`step` apart) as `[steps][lanes]`, with zeros
/// for the lines and elements that are missing.
///
/// # Safety
/// The elements exist, and `out` has room for all steps of `lanes`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn pack(x: *const bf16, line: usize, step: usize, valid: usize, k: usize, lanes: usize, out: *mut f32) {
    let steps = k.div_ceil(PER_STEP);
    for group in (0..lanes).step_by(16) {
        let store = mask(lanes - group);
        let lines = valid.saturating_sub(group).min(16);
        // SAFETY: by the caller; masks keep loads and stores within.
        unsafe {
            let x = x.add(group * line);
            let out = out.add(group);
            if line == 1 && lines > 0 {
                for s in 0..steps {
                    _mm512_mask_storeu_ps(out.add(s * lanes), store, across(x, step, s, k, lines));
                }
            } else if step == 1 {
                for s0 in (0..steps).step_by(16) {
                    let rest = k - s0 * PER_STEP;
                    let mut rows = [_mm512_setzero_ps(); 16];
                    for i in 0..lines {
                        rows[i] = along(x.add(i * line + s0 * PER_STEP), rest);
                    }
                    let columns = transpose(rows);
                    for s in 0..16.min(steps - s0) {
                        _mm512_mask_storeu_ps(out.add((s0 + s) * lanes), store, columns[s]);
                    }
                }
            } else {
                for s in 0..steps {
                    for i in 0..16.min(lanes - group) {
                        let at = |k: usize| *x.add(i * line + k * step);
                        let mut bits = 0u32;
                        if i < lines {
                            let first = s * PER_STEP;
                            bits = at(first).to_bits() as u32;
                            if first + 1 < k {
                                bits |= (at(first + 1).to_bits() as u32) << 16;
                            }
                        }
                        *out.add(s * lanes + i) = f32::from_bits(bits);
                    }
                }
            }
        }
    }
}

/// The first `n` of 16 lanes.
#[inline(always)]
fn mask(n: usize) -> u16 {
    if n >= 16 { u16::MAX } else { (1 << n) - 1 }
}

/// One step of neighbouring lines.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn across(x: *const bf16, step: usize, s: usize, k: usize, lines: usize) -> __m512 {
    // SAFETY: by the caller of `pack`.
    unsafe {
        let x = x.cast::<i16>().add(2 * s * step);
        let low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask(lines), x));
        if 2 * s + 1 >= k {
            return _mm512_castsi512_ps(low);
        }
        let high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask(lines), x.add(step)));
        _mm512_castsi512_ps(_mm512_or_si512(low, _mm512_slli_epi32::<16>(high)))
    }
}

/// Up to 16 steps of one line, of which `rest` elements are left.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn along(x: *const bf16, rest: usize) -> __m512 {
    // SAFETY: by the caller of `pack`.
    unsafe {
        let mask = if rest >= 32 { u32::MAX } else { (1 << rest) - 1 };
        _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(mask, x.cast()))
    }
}

/// Transposes 16 x 16 lanes: pairs, then pairs of pairs, then 128-bit quarters.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(r: [__m512; 16]) -> [__m512; 16] {
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

/// One tile of at most `strip` x 32 outputs.
///
/// # Safety
/// `a` holds `steps` of `strip`, `b` `steps` of 32; `c` has `rows` x `columns` elements.
#[inline(always)]
unsafe fn tile(
    strip: usize,
    steps: usize,
    a: *const f32,
    b: *const f32,
    alpha: f32,
    beta: f32,
    c: *mut f32,
    row: usize,
    rows: usize,
    columns: usize,
) {
    macro_rules! heights {
        ($($height:literal)*) => {
            match strip {
                $($height => kernel::<$height>(steps, a, b, alpha, beta, c, row, rows, columns),)*
                other => unreachable!("strip of {other} rows"),
            }
        };
    }
    // SAFETY: by the caller.
    unsafe { heights!(14 13 12 11 8 6 4) }
}

/// Repeats a block for the rows `0..ROWS` with literal indices: sums that are indexed by a variable would live in memory.
macro_rules! each_row {
    ($rows:ident, $i:ident => $body:block) => {
        each_row!(@ $rows, $i => $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13)
    };
    (@ $rows:ident, $i:ident => $body:block, $($index:literal)*) => {
        $(if $index < $rows {
            let $i: usize = $index;
            $body
        })*
    };
}

#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn kernel<const ROWS: usize>(
    steps: usize,
    a: *const f32,
    b: *const f32,
    alpha: f32,
    beta: f32,
    c: *mut f32,
    row: usize,
    rows: usize,
    columns: usize,
) {
    // SAFETY: by the caller of `tile`; masks keep loads and stores within. A lane of `f32` bits holds two `bf16`.
    unsafe {
        let pairs = |v: __m512| std::mem::transmute::<__m512, __m512bh>(v);
        let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
        let (mut a, mut b) = (a, b);
        for _ in 0..steps {
            let y = [pairs(_mm512_loadu_ps(b)), pairs(_mm512_loadu_ps(b.add(16)))];
            each_row!(ROWS, i => {
                let x = pairs(_mm512_set1_ps(*a.add(i)));
                sums[i][0] = _mm512_dpbf16_ps(sums[i][0], x, y[0]);
                sums[i][1] = _mm512_dpbf16_ps(sums[i][1], x, y[1]);
            });
            a = a.add(ROWS);
            b = b.add(WIDTH);
        }
        let masks = [mask(columns), mask(columns.saturating_sub(16))];
        let (alpha, scale) = (_mm512_set1_ps(alpha), _mm512_set1_ps(beta));
        each_row!(ROWS, i => {
            if i < rows {
                let (first, second) = (c.add(i * row), c.add(i * row).wrapping_add(16));
                let mut v = [_mm512_mul_ps(sums[i][0], alpha), _mm512_mul_ps(sums[i][1], alpha)];
                if beta != 0.0 {
                    v[0] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(masks[0], first), scale, v[0]);
                    v[1] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(masks[1], second), scale, v[1]);
                }
                _mm512_mask_storeu_ps(first, masks[0], v[0]);
                _mm512_mask_storeu_ps(second, masks[1], v[1]);
            }
        });
    }
}
