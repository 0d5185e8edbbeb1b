//! The profiling signal, which libtpu sends.

use std::sync::OnceLock;

static ON_LIBTPU: OnceLock<fn()> = OnceLock::new();

/// Call `f` after libtpu has been loaded, on the thread that loaded it. The first function stays.
///
/// libtpu has timers that send `SIGPROF`, and ignores the signal unless the program has a handler. An interpreter that
/// keeps its own table of handlers must learn that, or it restores the default action one day, which ends the process.
pub fn on_libtpu_loaded(f: fn()) {
    let _ = ON_LIBTPU.set(f);
}

/// Ignore `SIGPROF` from now on, unless the program has a handler for it.
pub(crate) fn prepare_for_libtpu() {
    // SAFETY: the struct is plain data, for which zeros are valid.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the call only reads the current action into `now`.
    let is_known = unsafe { libc::sigaction(libc::SIGPROF, std::ptr::null(), &mut now) } == 0;
    if is_known && now.sa_sigaction == libc::SIG_DFL {
        // SAFETY: ignoring a signal runs no code.
        unsafe { libc::signal(libc::SIGPROF, libc::SIG_IGN) };
    }
}

/// Tell that libtpu has been loaded.
pub(crate) fn libtpu_is_loaded() {
    if let Some(f) = ON_LIBTPU.get() {
        f();
    }
}
