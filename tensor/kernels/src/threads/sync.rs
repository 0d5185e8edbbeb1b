//! The parts of the standard library that `job.rs` uses. Its model test (`tests/job_model.rs`) replaces them by loom's
//! types.

pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
pub(super) use std::thread::park;

/// `std::cell::UnsafeCell` with the interface of loom's type.
pub(super) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(super) const fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    pub(super) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    pub(super) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// Let other threads run, for the `waits`-th time in a loop. Some waits give up the processor, because a worker
/// preempted in the middle of a piece may need it.
pub(super) fn pause(waits: u32) {
    if waits.is_multiple_of(4096) { std::thread::yield_now() } else { std::hint::spin_loop() }
}
