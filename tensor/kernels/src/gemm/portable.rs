//! Tiles in plain Rust, for processors without hand-written tiles.

use super::{Format, Kernel, nothing, pack_unchanged};
use crate::loops::BASELINE_FMA;
use crate::real::Real;

const HEIGHT: usize = 4;
const WIDTH: usize = 8;

macro_rules! kernel {
    ($($name:ident $t:ty;)*) => {$(
        pub(super) static $name: Kernel<$t> = Kernel {
            width: WIDTH,
            heights: &[HEIGHT],
            per_step: 1,
            steps: 1,
            words: 1,
            k_block: 256,
            masks: false,
            format: Format::Plain,
            tile: tile::<$t>,
            pack: pack_unchanged,
            fallback: None,
            enter: nothing,
            leave: nothing,
        };
    )*};
}
kernel! { F32 f32; F64 f64; }

/// Compute a whole tile. See [`super::Tile`].
unsafe fn tile<S: Real>(
    _: usize,
    steps: usize,
    a: *const S,
    b: *const S,
    alpha: S,
    beta: S,
    c: *mut S,
    row: usize,
    _: usize,
    _: usize,
    _: *const S,
) {
    let mut sums = [[S::ZERO; WIDTH]; HEIGHT];
    // SAFETY: the caller passes packed operands that hold the steps, and room for the tile.
    unsafe {
        for s in 0..steps {
            let (x, y) = (&*a.add(s * HEIGHT).cast::<[S; HEIGHT]>(), &*b.add(s * WIDTH).cast::<[S; WIDTH]>());
            for i in 0..HEIGHT {
                for j in 0..WIDTH {
                    sums[i][j] = if BASELINE_FMA { x[i].fused(y[j], sums[i][j]) } else { sums[i][j] + x[i] * y[j] };
                }
            }
        }
        for i in 0..HEIGHT {
            for j in 0..WIDTH {
                let c = c.add(i * row + j);
                let v = alpha * sums[i][j];
                *c = if beta == S::ZERO { v } else { v + beta * *c };
            }
        }
    }
}
