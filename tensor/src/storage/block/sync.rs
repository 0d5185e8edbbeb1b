//! The atomics of [`word`](super::word). The model of its protocol replaces them by loom's types.

pub(super) use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Let the processor wait a moment for the thread that holds a word.
#[inline(always)]
pub(super) fn pause() {
    std::hint::spin_loop();
}
