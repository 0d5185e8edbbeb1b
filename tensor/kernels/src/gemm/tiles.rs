//! Tiles of AMX: 32 x 32 sums in four tile registers, which multiply two squares of each operand.

use super::parts::{self, SIDE, STEP};
use super::{Format, Kernel, PORTIONS, pack_unchanged};
use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

const fn kernel(tile: super::Tile<f32>) -> Kernel<f32> {
    Kernel {
        width: SIDE,
        heights: &[SIDE],
        per_step: 2,
        steps: 16,
        words: 1,
        // Most products fit one block: storing sums only once is worth more than shorter strips.
        k_block: 4096,
        masks: true,
        format: Format::Squares,
        tile,
        pack: pack_unchanged,
        fallback: None,
        enter,
        leave,
    }
}

pub(super) static BF16: Kernel<f32> = kernel(bf16_tile);
pub(super) static F16: Kernel<f32> = kernel(f16_tile);
pub(super) static F32: Kernel<f32> = Kernel {
    words: 3,
    // Strips and panels of this many elements can still be read from the second-level cache.
    k_block: 512,
    format: Format::Parts,
    pack: parts::pack,
    fallback: Some(&super::x86::F32_AVX512),
    ..kernel(parts_tile)
};

/// Whether splitting numbers into parts is faster than AVX-512. Picoseconds per element of the summed dimension: 13 for
/// a product with whole columns in AVX-512, 7 for one with whole rows and columns in these tiles, and 330 for splitting
/// a line.
pub(super) fn is_profitable(m: usize, n: usize, k: usize) -> bool {
    let (rows, columns) = (m.next_multiple_of(SIDE), n.next_multiple_of(SIDE));
    k >= 64 && m * n * k >= 1 << 24 && 13 * m * columns >= 7 * rows * columns + 330 * (rows + columns)
}

/// A tile configuration of palette 1, with 16 rows of 64 bytes in every tile.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

static CONFIGURATION: Configuration = Configuration {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// # Safety
/// The processor has AMX tiles, and the process may use them.
unsafe fn enter() {
    // SAFETY: the caller has AMX tiles, and the configuration is valid.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &CONFIGURATION, options(nostack, readonly)) };
}

/// # Safety
/// The same as for [`enter`].
unsafe fn leave() {
    // SAFETY: the caller has AMX tiles.
    unsafe { asm!("tilerelease", options(nostack, nomem)) };
}

/// Define a [`super::Tile`]. `$step` adds the products of `$words` packed words of each line at `a` and `b` to the sums
/// in `tmm0` to `tmm3`, moves to the next words, and prefetches its portion of `ahead`.
///
/// Each step also stores an unused register. After about 600 ns without such a store, the next store takes 250 ns
/// longer (measured on one Xeon), and a tile's sums would always pay for this.
macro_rules! tile {
    ($name:ident, $words:literal, [$($step:expr),*], $($operand:ident = $value:expr),*) => {
        #[target_feature(enable = "avx512f")]
        unsafe fn $name(
            _: usize,
            steps: usize,
            a: *const f32,
            b: *const f32,
            alpha: f32,
            beta: f32,
            c: *mut f32,
            row: usize,
            rows: usize,
            columns: usize,
            ahead: *const f32,
        ) {
            let (ahead, ahead_step) = if ahead.is_null() { (a, 0) } else { (ahead, $words * 4 * SIDE / PORTIONS) };
            let direct = rows == SIDE && columns == SIDE && alpha == 1.0 && (beta == 0.0 || beta == 1.0);
            // SAFETY: the caller passes packed operands that hold the steps, and room for `rows` x `columns` results.
            // The compiler does not know tile registers and never uses them. Every statement below names the registers
            // it uses.
            unsafe {
                start(direct && beta == 1.0, c, row);
                for i in 0..rows {
                    let c = c.wrapping_add(i * row);
                    asm!("prefetchw [{c}]", "prefetchw [{c} + 64]", c = in(reg) c, options(nostack, preserves_flags));
                }
                let mut scrap = MaybeUninit::<Square>::uninit();
                asm!(
                    "2:",
                    $($step,)*
                    "tilestored [{scrap} + {scrap_row}*1], tmm7",
                    "add {ahead}, {ahead_step}",
                    "dec {count}",
                    "jnz 2b",
                    a = inout(reg) a => _, b = inout(reg) b => _, count = inout(reg) steps / $words => _,
                    scrap = in(reg) scrap.as_mut_ptr(), scrap_row = in(reg) 64usize,
                    ahead = inout(reg) ahead => _, ahead_step = in(reg) ahead_step,
                    $($operand = in(reg) $value,)* options(nostack)
                );
                finish(direct, alpha, beta, c, row, rows, columns);
            }
        }
    };
}

/// The contents of a tile register.
#[repr(C, align(64))]
struct Square([u8; 1024]);

/// Load the sums of the result, or zeros.
#[inline(always)]
unsafe fn start(with_result: bool, c: *const f32, row: usize) {
    // SAFETY: the caller has AMX tiles, and passes a whole tile if `with_result` is set.
    unsafe {
        if with_result {
            asm!(
                "tileloadd tmm0, [{c} + {step}*1]",
                "tileloadd tmm1, [{c} + {step}*1 + 64]",
                "tileloadd tmm2, [{low} + {step}*1]",
                "tileloadd tmm3, [{low} + {step}*1 + 64]",
                c = in(reg) c, low = in(reg) c.wrapping_add(16 * row), step = in(reg) 4 * row,
                options(nostack, readonly)
            );
        } else {
            asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", options(nostack, nomem));
        }
    }
}

/// Store sums, with rows `row` numbers apart.
#[inline(always)]
unsafe fn store(c: *mut f32, row: usize) {
    // SAFETY: the caller has AMX tiles, and passes room for a whole tile.
    unsafe {
        asm!(
            "tilestored [{c} + {step}*1], tmm0",
            "tilestored [{c} + {step}*1 + 64], tmm1",
            "tilestored [{low} + {step}*1], tmm2",
            "tilestored [{low} + {step}*1 + 64], tmm3",
            c = in(reg) c, low = in(reg) c.wrapping_add(16 * row), step = in(reg) 4 * row, options(nostack)
        );
    }
}

/// Store sums to the result: directly if possible, else scaled by `alpha` and `beta`.
#[inline(always)]
unsafe fn finish(direct: bool, alpha: f32, beta: f32, c: *mut f32, row: usize, rows: usize, columns: usize) {
    // SAFETY: the caller has AMX tiles, and passes room for `rows` x `columns` results.
    unsafe {
        if direct {
            return store(c, row);
        }
        scaled(alpha, beta, c, row, rows, columns);
    }
}

#[target_feature(enable = "avx512f")]
unsafe fn scaled(alpha: f32, beta: f32, c: *mut f32, row: usize, rows: usize, columns: usize) {
    let mut sums = MaybeUninit::<[__m512; 2 * SIDE]>::uninit();
    let at = sums.as_mut_ptr().cast::<f32>();
    // SAFETY: the caller has AMX tiles, and passes room for `rows` x `columns` results.
    unsafe {
        store(at, SIDE);
        let (alpha, scale) = (_mm512_set1_ps(alpha), _mm512_set1_ps(beta));
        for i in 0..rows {
            for half in 0..2 {
                let mask = super::pack::x86::mask(columns.saturating_sub(16 * half));
                let to = c.wrapping_add(i * row + 16 * half);
                let mut v = _mm512_mul_ps(_mm512_load_ps(at.add(i * SIDE + 16 * half)), alpha);
                if beta != 0.0 {
                    v = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, to), scale, v);
                }
                _mm512_mask_storeu_ps(to, mask, v);
            }
        }
    }
}

/// Prefetch a cache line of `ahead`.
macro_rules! fetch {
    ($at:literal) => {
        concat!("prefetcht1 [{ahead} + ", $at, "]")
    };
}

/// Define the tile of a 16-bit format. The instruction `$multiply` adds the products of two squares to a tile register.
macro_rules! half_tile {
    ($name:ident, $multiply:literal) => {
        tile!(
            $name,
            16,
            [
                "tileloadd tmm6, [{b} + {wide}*1]",
                "tileloadd tmm4, [{a} + {narrow}*1]",
                "tileloadd tmm7, [{b} + {wide}*1 + 64]",
                concat!($multiply, " tmm0, tmm4, tmm6"),
                fetch!("0"),
                "tileloadd tmm5, [{a} + {narrow}*1 + 1024]",
                concat!($multiply, " tmm1, tmm4, tmm7"),
                fetch!("64"),
                concat!($multiply, " tmm2, tmm5, tmm6"),
                fetch!("128"),
                concat!($multiply, " tmm3, tmm5, tmm7"),
                fetch!("192"),
                "add {a}, 2048",
                "add {b}, 2048"
            ],
            narrow = 64usize,
            wide = 128usize
        );
    };
}
half_tile!(bf16_tile, "tdpbf16ps");
half_tile!(f16_tile, "tdpfp16ps");

/// Load the squares of a part of one operand.
macro_rules! squares {
    ($x:literal, $first:literal, $second:literal, $at:literal) => {
        concat!(
            "tileloadd ",
            $first,
            ", [{",
            $x,
            "} + {row}*1 + ",
            $at,
            "]\n",
            "tileloadd ",
            $second,
            ", [{",
            $x,
            "} + {row}*1 + ",
            $at,
            " + 1024]"
        )
    };
}

/// Add the products of the loaded squares.
macro_rules! products {
    () => {
        "tdpbf16ps tmm0, tmm4, tmm6\ntdpbf16ps tmm1, tmm4, tmm7\ntdpbf16ps tmm2, tmm5, tmm6\ntdpbf16ps tmm3, tmm5, tmm7"
    };
}

// Products of the parts 1 3, 1 2, 2 2, 2 1, 3 1 and 1 1: each differs from the one before in one part, which is loaded.
tile!(
    parts_tile,
    48,
    [
        squares!("a", "tmm4", "tmm5", "0"),
        squares!("b", "tmm6", "tmm7", "4096"),
        products!(),
        fetch!("0"),
        fetch!("64"),
        squares!("b", "tmm6", "tmm7", "2048"),
        products!(),
        fetch!("128"),
        fetch!("192"),
        squares!("a", "tmm4", "tmm5", "2048"),
        products!(),
        fetch!("256"),
        fetch!("320"),
        squares!("b", "tmm6", "tmm7", "0"),
        products!(),
        fetch!("384"),
        fetch!("448"),
        squares!("a", "tmm4", "tmm5", "4096"),
        products!(),
        fetch!("512"),
        fetch!("576"),
        squares!("a", "tmm4", "tmm5", "0"),
        products!(),
        fetch!("640"),
        fetch!("704"),
        "add {a}, 6144",
        "add {b}, 6144"
    ],
    row = 64usize
);
const _: () = assert!(4 * STEP == 6144 && 4 * STEP / PORTIONS == 12 * 64);
