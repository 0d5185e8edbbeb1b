//! Memory for matrices, or an unwinding where there is none: `Vec` would end the process.
//!
//! The text equals that of `torchtpu_kernels::memory`, which this crate does not depend on, so that a caller catches both alike.

/// Unwinds for want of `bytes` bytes.
#[cold]
pub(crate) fn give_up(bytes: usize) -> ! {
    std::panic::resume_unwind(Box::new(format!(
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate {bytes} bytes."
    )))
}

/// `vec![value; n]`, or an unwinding.
pub(crate) fn filled<T: Clone>(value: T, n: usize) -> Vec<T> {
    let mut v = Vec::new();
    if v.try_reserve_exact(n).is_err() {
        give_up(n.saturating_mul(size_of::<T>()));
    }
    v.resize(n, value);
    v
}

/// `n` items of an iterator, or an unwinding.
pub(crate) fn collect<T>(n: usize, items: impl Iterator<Item = T>) -> Vec<T> {
    let mut v = Vec::new();
    if v.try_reserve_exact(n).is_err() {
        give_up(n.saturating_mul(size_of::<T>()));
    }
    v.extend(items.take(n));
    v
}
