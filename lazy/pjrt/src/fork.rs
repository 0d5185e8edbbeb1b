//! Forked processes: a client's threads are not in them, and its locks may be held forever.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static FORKED: AtomicBool = AtomicBool::new(false);

/// From now on, [`is_forked`] is true in processes that are forked from this one. To be called when a client is made.
pub fn watch_forks() {
    #[cfg(unix)]
    {
        extern "C" fn in_child() {
            FORKED.store(true, Relaxed);
        }
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| {
            // SAFETY: all that the handler does is a store to an atomic, which is allowed after a fork.
            let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
    }
}

/// Whether this process was forked from one that watched: its clients are not to be touched here.
#[inline]
pub fn is_forked() -> bool {
    FORKED.load(Relaxed)
}
