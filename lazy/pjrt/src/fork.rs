//! Forked processes. They lack the client's threads, and their copies of its locks may be held forever.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static FORKED: AtomicBool = AtomicBool::new(false);

/// From now on, [`is_forked`] is true in processes that are forked from this one. Call it when a client is made.
pub fn watch_forks() {
    #[cfg(unix)]
    {
        extern "C" fn in_child() {
            FORKED.store(true, Relaxed);
        }
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| {
            // SAFETY: the handler only stores to an atomic, which is allowed after a fork.
            let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
    }
}

/// Whether this process was forked after [`watch_forks`]. It must not use the clients of its parent.
#[inline]
pub fn is_forked() -> bool {
    FORKED.load(Relaxed)
}
