//! Tiles of AMX: 32 x 32 sums in four tile registers, fed by two squares of each operand.

use super::{Format, Kernel};
use std::arch::asm;
use std::arch::x86_64::*;

const SIDE: usize = 32;

const fn kernel(tile: super::Tile<f32>) -> Kernel<f32> {
    Kernel {
        width: SIDE,
        heights: &[SIDE],
        per_step: 2,
        steps: 16,
        k_block: 1024,
        m_block: 256,
        masks: true,
        format: Format::Squares,
        tile,
        enter,
        leave,
    }
}

pub(super) static BF16: Kernel<f32> = kernel(bf16_tile);
pub(super) static F16: Kernel<f32> = kernel(f16_tile);

/// Palette 1: every tile has 16 rows of 64 bytes.
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
/// The processor has tiles, and the process may use them.
unsafe fn enter() {
    // SAFETY: by the caller; the configuration is valid.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &CONFIGURATION, options(nostack, readonly)) };
}

/// # Safety
/// As [`enter`].
unsafe fn leave() {
    // SAFETY: by the caller.
    unsafe { asm!("tilerelease", options(nostack, nomem)) };
}

macro_rules! tile {
    ($name:ident, $multiply:literal) => {
        /// See [`super::Tile`].
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
        ) {
            let direct = rows == SIDE && columns == SIDE && alpha == 1.0 && (beta == 0.0 || beta == 1.0);
            // SAFETY: by the caller: packed operands hold the steps, and the result `rows` x `columns` elements. Tile registers are not
            // known to the compiler, which therefore never touches them; every statement below names those it uses.
            unsafe {
                let (low, bytes) = (c.wrapping_add(16 * row), row * 4);
                if direct && beta == 1.0 {
                    asm!(
                        "tileloadd tmm0, [{c} + {step}*1]",
                        "tileloadd tmm1, [{c} + {step}*1 + 64]",
                        "tileloadd tmm2, [{low} + {step}*1]",
                        "tileloadd tmm3, [{low} + {step}*1 + 64]",
                        c = in(reg) c, low = in(reg) low, step = in(reg) bytes, options(nostack, readonly)
                    );
                } else {
                    asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", options(nostack, nomem));
                }
                asm!(
                    "2:",
                    "tileloadd tmm6, [{b} + {wide}*1]",
                    "tileloadd tmm4, [{a} + {narrow}*1]",
                    "tileloadd tmm7, [{b} + {wide}*1 + 64]",
                    concat!($multiply, " tmm0, tmm4, tmm6"),
                    "tileloadd tmm5, [{a} + {narrow}*1 + 1024]",
                    concat!($multiply, " tmm1, tmm4, tmm7"),
                    concat!($multiply, " tmm2, tmm5, tmm6"),
                    concat!($multiply, " tmm3, tmm5, tmm7"),
                    "add {a}, 2048",
                    "add {b}, 2048",
                    "dec {count}",
                    "jnz 2b",
                    a = inout(reg) a => _, b = inout(reg) b => _, count = inout(reg) steps / 16 => _,
                    narrow = in(reg) 64usize, wide = in(reg) 128usize, options(nostack, readonly)
                );
                if direct {
                    asm!(
                        "tilestored [{c} + {step}*1], tmm0",
                        "tilestored [{c} + {step}*1 + 64], tmm1",
                        "tilestored [{low} + {step}*1], tmm2",
                        "tilestored [{low} + {step}*1 + 64], tmm3",
                        c = in(reg) c, low = in(reg) low, step = in(reg) bytes, options(nostack)
                    );
                    return;
                }
                let mut sums = std::mem::MaybeUninit::<[__m512; 2 * SIDE]>::uninit();
                let at = sums.as_mut_ptr().cast::<f32>();
                asm!(
                    "tilestored [{c} + {step}*1], tmm0",
                    "tilestored [{c} + {step}*1 + 64], tmm1",
                    "tilestored [{low} + {step}*1], tmm2",
                    "tilestored [{low} + {step}*1 + 64], tmm3",
                    c = in(reg) at, low = in(reg) at.add(16 * SIDE), step = in(reg) 4 * SIDE, options(nostack)
                );
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
    };
}
tile!(bf16_tile, "tdpbf16ps");
tile!(f16_tile, "tdpfp16ps");
