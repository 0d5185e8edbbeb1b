//! Binary kernels of a 16-bit float tensor and an `f32` number.

use crate::copy::copy;
use crate::memory;
use crate::par::Shared;
use crate::pointwise::{BinaryKind, binary};
use crate::threads::{CHEAP_GRAIN, parallel_for};
use crate::{KernelError, View, ViewMut};

/// Number of elements widened at a time. They stay in the first-level cache.
const BLOCK: usize = 2048;
/// Write `kind(x, number)` to `out`, computed in `f32` and rounded once. `x` and `out` have the same sizes and dtype.
/// `out` may be `x` itself.
///
/// # Errors
/// Fails like [`binary`].
pub fn with_number(kind: BinaryKind, x: &View, number: f32, out: &mut ViewMut) -> Result<(), KernelError> {
    debug_assert!(x.sizes() == out.sizes() && x.dtype() == out.dtype());
    let by = [number];
    if !x.is_contiguous() || !out.is_contiguous() {
        let n = [x.numel()];
        let mut wide = memory::filled(0f32, n[0]);
        let strides: Vec<usize> = (0..x.sizes().len()).map(|d| x.sizes()[d + 1..].iter().product()).collect();
        copy(x, &mut ViewMut::of_slice(&mut wide, x.sizes(), &strides));
        let mut y = memory::filled(0f32, n[0]);
        let (from, by) = (View::of_slice(&wide, &n, &[1]), View::of_slice(&by, &n, &[0]));
        binary(kind, &from, &by, &mut ViewMut::of_slice(&mut y, &n, &[1]))?;
        copy(&View::of_slice(&y, x.sizes(), &strides), out);
        return Ok(());
    }
    let (size, dtype) = (x.dtype().size_bytes(), x.dtype());
    let (from, to) = (Shared::at(x.ptr().cast_mut()), Shared::at(out.ptr()));
    let work = |range: std::ops::Range<usize>| -> Result<(), KernelError> {
        let (mut wide, mut y) = ([0f32; BLOCK], [0f32; BLOCK]);
        for start in range.clone().step_by(BLOCK) {
            let n = [BLOCK.min(range.end - start)];
            // SAFETY: `start + n` elements lie in both, contiguously, and one thread uses the piece.
            let (x, mut out) = unsafe {
                let (from, to) = (from.ptr().add(start * size), to.ptr().add(start * size));
                (View::new(from, &n, &[1], dtype), ViewMut::new(to, &n, &[1], dtype))
            };
            copy(&x, &mut ViewMut::of_slice(&mut wide, &n, &[1]));
            let (from, by) = (View::of_slice(&wide, &n, &[1]), View::of_slice(&by, &n, &[0]));
            binary(kind, &from, &by, &mut ViewMut::of_slice(&mut y, &n, &[1]))?;
            copy(&View::of_slice(&y, &n, &[1]), &mut out);
        }
        Ok(())
    };
    // Report a kind without a kernel before any thread starts.
    work(0..0)?;
    parallel_for(x.numel(), CHEAP_GRAIN, |range| work(range).expect("floats of any kind divide"));
    Ok(())
}
