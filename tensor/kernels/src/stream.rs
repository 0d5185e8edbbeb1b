//! Results that are larger than any cache, written past them.
//!
//! A store to memory that is not in a cache reads the line first, and then something else has to leave for it. Rows that were
//! computed in the first-level cache are therefore written with stores that do neither.

#[cfg(target_arch = "x86_64")]
use crate::cpu::{Level, level};

/// Bytes of a result from which it is written past the caches: what follows will not find it there anyway.
const LARGE: usize = 32 << 20;

/// Whether a result of `n` elements is better written past the caches.
pub(crate) fn is_large<A>(n: usize) -> bool {
    if std::env::var_os("NT").is_some() { return false; }
    n * size_of::<A>() >= LARGE
}

/// Copies a row to memory, past the caches where the processor can.
pub(crate) fn write<A: Copy>(row: &[A], to: &mut [A]) {
    assert_eq!(row.len(), to.len());
    #[cfg(target_arch = "x86_64")]
    {
        let bytes = size_of_val(row);
        if to.as_ptr().addr() % 64 == 0 && bytes % 64 == 0 && level() >= Level::Avx2 {
            // SAFETY: both have that many bytes, the target starts with a line, and the level says what the processor has.
            return unsafe { lines(row.as_ptr().cast(), to.as_mut_ptr().cast(), bytes / 64) };
        }
    }
    to.copy_from_slice(row);
}

/// # Safety
/// Both sides have `n` lines of 64 bytes; `to` is aligned to them.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn lines(from: *const u8, to: *mut u8, n: usize) {
    use std::arch::x86_64::*;
    for i in 0..n {
        // SAFETY: by the caller.
        unsafe {
            let (from, to) = (from.add(64 * i).cast::<__m256i>(), to.add(64 * i).cast::<__m256i>());
            let (a, b) = (_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1)));
            _mm256_stream_si256(to, a);
            _mm256_stream_si256(to.add(1), b);
        }
    }
    // Other threads must see these stores before whatever says that the row is done.
    _mm_sfence();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_any_alignment_arrive() {
        let from: Vec<f32> = (0..300).map(|i| i as f32).collect();
        let mut to = vec![0f32; 400];
        let aligned = (64 - to.as_ptr().addr() % 64) % 64 / 4;
        for (start, n) in [(aligned, 256), (aligned + 1, 256), (aligned, 299), (aligned, 0), (aligned + 16, 16)] {
            to.fill(-1.0);
            write(&from[..n], &mut to[start..start + n]);
            assert_eq!(to[start..start + n], from[..n]);
            assert!(to[..start].iter().chain(&to[start + n..]).all(|&v| v == -1.0));
        }
    }
}
