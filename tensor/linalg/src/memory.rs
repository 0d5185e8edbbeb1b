//! Memory for matrices that unwinds if there is none: `Vec` would abort the process.
//!
//! The panic message equals that of `torchtpu_kernels::memory`, which this crate does not depend on, so that a caller
//! catches both in the same way.

/// Panic because `bytes` bytes of memory are not available.
#[cold]
pub(crate) fn give_up(bytes: usize) -> ! {
    std::panic::resume_unwind(Box::new(format!(
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate {bytes} bytes."
    )))
}

/// Like `vec![value; n]`, but unwind if there is no memory.
pub(crate) fn filled<T: Clone>(value: T, n: usize) -> Vec<T> {
    let mut v = Vec::new();
    if v.try_reserve_exact(n).is_err() {
        give_up(n.saturating_mul(size_of::<T>()));
    }
    v.resize(n, value);
    v
}

/// Collect `n` items of an iterator, and unwind if there is no memory.
pub(crate) fn collect<T>(n: usize, items: impl Iterator<Item = T>) -> Vec<T> {
    let mut v = Vec::new();
    if v.try_reserve_exact(n).is_err() {
        give_up(n.saturating_mul(size_of::<T>()));
    }
    v.extend(items.take(n));
    v
}
