//! Tiles of AVX2 and AVX-512 registers.

use super::pack::x86::mask;
use super::{Format, Kernel, nothing, pack_unchanged};
use std::arch::x86_64::*;

/// Repeat a block for the rows `0..ROWS` with literal indices: sums indexed by a variable would live in memory.
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

/// Define a tile of `height` x two registers and its entry in the table.
macro_rules! tiles {
    ($($name:ident: $t:ty, $features:literal, $lanes:literal, [$($height:literal)*], $format:ident, $per_step:literal,
        $masks:literal,
        k $k_block:literal, $zero:ident, $set:ident, $load:ident, $mul:ident, $fma:ident,
        |$sum:ident, $x:ident, $y:ident| $step:expr,
        |$at:ident, $columns:ident| $read:expr, |$to:ident, $count:ident, $v:ident| $write:expr;)*) => {$(
        pub(super) static $name: Kernel<$t> = {
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn kernel<const ROWS: usize>(
                steps: usize, a: *const $t, b: *const $t, alpha: $t, beta: $t, c: *mut $t, row: usize, rows: usize,
                columns: usize,
            ) {
                // SAFETY: the caller passes packed operands that hold the steps, and room for `rows` x `columns`
                // results.
                unsafe {
                    each_row!(ROWS, i => {
                        if i < rows {
                            _mm_prefetch::<_MM_HINT_T0>(c.add(i * row).cast());
                            _mm_prefetch::<_MM_HINT_T0>(c.wrapping_add(i * row + $lanes).cast());
                        }
                    });
                    let mut sums = [[$zero(); 2]; ROWS];
                    let (mut a, mut b) = (a, b);
                    for _ in 0..steps {
                        // Prefetch the next strip, which follows this one and often lies beyond the second-level cache.
                        // A panel is larger than the first-level cache.
                        _mm_prefetch::<_MM_HINT_T1>(a.wrapping_add(steps * ROWS).cast());
                        _mm_prefetch::<_MM_HINT_T0>(b.wrapping_add(16 * $lanes).cast());
                        _mm_prefetch::<_MM_HINT_T0>(b.wrapping_add(17 * $lanes).cast());
                        let y = [$load(b), $load(b.add($lanes))];
                        each_row!(ROWS, i => {
                            let $x = $set(*a.add(i));
                            { let ($sum, $y) = (sums[i][0], y[0]); sums[i][0] = $step; }
                            { let ($sum, $y) = (sums[i][1], y[1]); sums[i][1] = $step; }
                        });
                        a = a.add(ROWS);
                        b = b.add(2 * $lanes);
                    }
                    let (alpha, scale) = ($set(alpha), $set(beta));
                    each_row!(ROWS, i => {
                        if i < rows {
                            for half in 0..2 {
                                let $at = c.wrapping_add(i * row + half * $lanes);
                                let $columns = columns.saturating_sub(half * $lanes);
                                let mut $v = $mul(sums[i][half], alpha);
                                if beta != 0.0 {
                                    $v = $fma($read, scale, $v);
                                }
                                let ($to, $count) = ($at, $columns);
                                $write;
                            }
                        }
                    });
                }
            }
            unsafe fn tile(
                height: usize, steps: usize, a: *const $t, b: *const $t, alpha: $t, beta: $t, c: *mut $t, row: usize,
                rows: usize,
                columns: usize, _: *const $t,
            ) {
                // SAFETY: the caller passes packed operands that hold the steps, and room for `rows` x `columns`
                // results.
                unsafe {
                    match height {
                        $($height => kernel::<$height>(steps, a, b, alpha, beta, c, row, rows, columns),)*
                        other => unreachable!("tile of {other} rows"),
                    }
                }
            }
            Kernel {
                width: 2 * $lanes,
                heights: &[$($height),*],
                per_step: $per_step,
                steps: 1,
                words: 1,
                k_block: $k_block,
                masks: $masks,
                format: Format::$format,
                tile,
                pack: pack_unchanged,
                fallback: None,
                enter: nothing,
                leave: nothing,
            }
        };
    )*};
}

/// Reinterpret a vector as two `bf16` per lane.
#[inline(always)]
fn pairs(v: __m512) -> __m512bh {
    // SAFETY: both types have 512 bits.
    unsafe { std::mem::transmute(v) }
}

/// Return a mask of the first `n` of eight lanes.
#[inline(always)]
fn mask8(n: usize) -> u8 {
    if n >= 8 { u8::MAX } else { (1 << n) - 1 }
}

tiles! {
    F32_AVX512: f32, "avx512f", 16, [14 13 12 11 8 6 4 2], Plain, 1, true, k 512,
        _mm512_setzero_ps, _mm512_set1_ps, _mm512_loadu_ps, _mm512_mul_ps, _mm512_fmadd_ps, |s, x, y|
            _mm512_fmadd_ps(x, y, s),
        |at, columns| _mm512_maskz_loadu_ps(mask(columns), at), |at, columns, v|
            _mm512_mask_storeu_ps(at, mask(columns), v);
    F64_AVX512: f64, "avx512f", 8, [14 13 12 11 8 6 4 2], Plain, 1, true, k 256,
        _mm512_setzero_pd, _mm512_set1_pd, _mm512_loadu_pd, _mm512_mul_pd, _mm512_fmadd_pd, |s, x, y|
            _mm512_fmadd_pd(x, y, s),
        |at, columns| _mm512_maskz_loadu_pd(mask8(columns), at), |at, columns, v|
            _mm512_mask_storeu_pd(at, mask8(columns), v);
    BF16_PAIRS: f32, "avx512f,avx512bf16", 16, [14 13 12 11 8 6 4 2], Pairs, 2, true, k 512,
        _mm512_setzero_ps, _mm512_set1_ps, _mm512_loadu_ps, _mm512_mul_ps, _mm512_fmadd_ps, |s, x, y|
            _mm512_dpbf16_ps(s, pairs(x), pairs(y)),
        |at, columns| _mm512_maskz_loadu_ps(mask(columns), at), |at, columns, v|
            _mm512_mask_storeu_ps(at, mask(columns), v);
    F32_AVX2: f32, "avx2,fma", 8, [6 4 2], Plain, 1, false, k 256,
        _mm256_setzero_ps, _mm256_set1_ps, _mm256_loadu_ps, _mm256_mul_ps, _mm256_fmadd_ps, |s, x, y|
            _mm256_fmadd_ps(x, y, s),
        |at, _columns| _mm256_loadu_ps(at), |at, _columns, v| _mm256_storeu_ps(at, v);
    F64_AVX2: f64, "avx2,fma", 4, [6 4 2], Plain, 1, false, k 256,
        _mm256_setzero_pd, _mm256_set1_pd, _mm256_loadu_pd, _mm256_mul_pd, _mm256_fmadd_pd, |s, x, y|
            _mm256_fmadd_pd(x, y, s),
        |at, _columns| _mm256_loadu_pd(at), |at, _columns, v| _mm256_storeu_pd(at, v);
}
