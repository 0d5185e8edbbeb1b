//! What [`word`](super::word) is made of. The model of its protocol puts loom's types in place of these.

pub(super) use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Let the processor wait a moment for the thread that holds a word.
#[inline(always)]
pub(super) fn pause() {
    std::hint::spin_loop();
}
