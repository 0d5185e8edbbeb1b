//! The order in which a fill visits elements, and the cuts of a fill into runs.

use crate::{Element, ViewMut};

/// Number of elements handled at once. Words and values of a run stay in the first-level cache.
pub(super) const RUN: usize = 1024;

/// Return the dimensions of a fill from the largest to the smallest stride, merged if one continues the other.
///
/// PyTorch fills by ascending address, not by index, so that a transposed tensor gets the stream of its memory.
fn memory_dims(sizes: &[usize], strides: &[usize]) -> Vec<(usize, usize)> {
    let mut dims: Vec<(usize, usize)> =
        sizes.iter().copied().zip(strides.iter().copied()).filter(|&(n, _)| n != 1).collect();
    dims.sort_by_key(|&(_, s)| std::cmp::Reverse(s));
    let mut merged: Vec<(usize, usize)> = Vec::with_capacity(dims.len());
    for (n, s) in dims {
        match merged.last_mut() {
            Some(outer) if outer.1 == s * n => *outer = (outer.0 * n, s),
            _ => merged.push((n, s)),
        }
    }
    merged
}

/// An iterator over the offsets of the elements of `dims`, in order.
pub(super) struct Offsets<'a> {
    dims: &'a [(usize, usize)],
    index: Vec<usize>,
    offset: usize,
}

impl<'a> Offsets<'a> {
    pub(super) fn new(dims: &'a [(usize, usize)]) -> Offsets<'a> {
        Offsets { dims, index: vec![0; dims.len()], offset: 0 }
    }

    /// Return the current offset and move one step on. Wraps to the start after the last element.
    #[inline]
    pub(super) fn step(&mut self) -> usize {
        let here = self.offset;
        for d in (0..self.dims.len()).rev() {
            let (n, s) = self.dims[d];
            self.index[d] += 1;
            self.offset += s;
            if self.index[d] < n {
                break;
            }
            self.index[d] = 0;
            self.offset -= n * s;
        }
        here
    }
}

/// Call `draw` with runs of at most [`RUN`] elements, in memory order, until all of `out` is filled.
pub(super) fn fill<T: Element>(out: &mut ViewMut, mut draw: impl FnMut(&mut [T])) {
    debug_assert_eq!(out.dtype(), T::DTYPE);
    let n = out.numel();
    if n == 0 {
        return;
    }
    let dims = memory_dims(out.sizes(), out.strides());
    let base = out.ptr().cast::<T>();
    if dims.is_empty() || (dims.len() == 1 && dims[0].1 == 1) {
        // SAFETY: the elements are one run of `n` that starts at the lowest address, and `out` is exclusive.
        let all = unsafe { std::slice::from_raw_parts_mut(base, n) };
        all.chunks_mut(RUN).for_each(draw);
        return;
    }
    let mut run = vec![T::default(); RUN.min(n)];
    let mut offsets = Offsets::new(&dims);
    let mut rest = n;
    while rest > 0 {
        let m = rest.min(RUN);
        draw(&mut run[..m]);
        for &v in &run[..m] {
            // SAFETY: `offsets` steps through the offsets of the view's elements.
            unsafe { *base.add(offsets.step()) = v };
        }
        rest -= m;
    }
}

/// Run a block with `$T` bound to a floating dtype's Rust type. Returns an error for other dtypes.
macro_rules! for_float {
    ($dtype:expr, $op:literal, $T:ident => $body:expr) => {
        $crate::for_types!($dtype, $T => $body, [F16 $crate::f16, BF16 $crate::bf16, F32 f32, F64 f64],
            other => {
                return Err($crate::KernelError::NotImplemented(format!(
                    "\"{}\" not implemented for '{}'",
                    $op,
                    other.scalar_type()
                )));
            })
    };
}
pub(super) use for_float;

/// Define a function that uses AVX2 and FMA if the processor has them.
///
/// Expands to the plain body, a copy of it compiled for those features, and the choice between them. Results are equal
/// on both paths (`mul_add` is the exact fused operation). Without the features, `mul_add` is a slow library call.
macro_rules! with_fma {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $t:ty),* $(,)?) $body:block) => {
        $(#[$meta])*
        $vis fn $name($($arg: $t),*) {
            #[inline(always)]
            fn plain($($arg: $t),*) $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn fused($($arg: $t),*) {
                    plain($($arg),*)
                }
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    // SAFETY: the features were just detected.
                    return unsafe { fused($($arg),*) };
                }
            }
            plain($($arg),*)
        }
    };
}
pub(super) use with_fma;
