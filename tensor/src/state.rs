//! What the current thread has switched on.

use std::cell::Cell;

/// Per-thread switches; one word each, no destructor, so that reading them costs a load.
pub struct State {
    /// Whether new history is recorded (`torch.no_grad` clears it).
    pub grad: Cell<bool>,
    /// Sequence number of the next autograd node.
    pub seq: Cell<u64>,
    /// Storage that the running in-place op is about to overwrite; 0 for none. What backward keeps of it must be copied.
    pub overwritten: Cell<usize>,
    /// Whether hooks decide how tensors are kept for backward; see [`saved`](crate::saved).
    pub saved_hooks: Cell<bool>,
}

/// How many things make calls other than ordinary: an [observer](crate::dispatch::observe), threads with
/// [autocast](crate::autocast). While there are none, no shortcut needs to look further.
pub(crate) static UNUSUAL: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

thread_local! {
    static STATE: State = const { State { grad: Cell::new(true), seq: Cell::new(1), overwritten: Cell::new(0), saved_hooks: Cell::new(false) } };
}

/// The current thread's state.
#[inline(always)]
pub fn with<R>(f: impl FnOnce(&State) -> R) -> R {
    STATE.with(f)
}

/// Whether new history is recorded on this thread.
#[inline]
pub fn grad_enabled() -> bool {
    with(|s| s.grad.get())
}

/// Sets the gradient mode and restores it when dropped, also while unwinding.
pub struct GradMode(bool);

impl GradMode {
    /// Switches recording on or off until the guard is dropped.
    pub fn set(on: bool) -> GradMode {
        with(|s| GradMode(s.grad.replace(on)))
    }
}

impl Drop for GradMode {
    fn drop(&mut self) {
        with(|s| s.grad.set(self.0));
    }
}

/// Names the storage that an in-place op is about to overwrite, until dropped, also while unwinding.
pub struct Overwriting(usize);

impl Overwriting {
    /// Names a storage by its [`Tensor::storage_id`](crate::Tensor::storage_id).
    pub fn set(storage: usize) -> Overwriting {
        with(|s| Overwriting(s.overwritten.replace(storage)))
    }
}

impl Drop for Overwriting {
    fn drop(&mut self) {
        with(|s| s.overwritten.set(self.0));
    }
}

/// Runs `f` without recording history.
pub fn no_grad<R>(f: impl FnOnce() -> R) -> R {
    let _guard = GradMode::set(false);
    f()
}

static PLACE: std::sync::OnceLock<fn() -> Option<String>> = std::sync::OnceLock::new();

/// Installs what says where in the user's program the current call is: a language binding knows. The first one stays.
pub fn install_place(f: fn() -> Option<String>) {
    let _ = PLACE.set(f);
}

/// Where in the user's program the current call is, if anybody knows; for errors that are raised later.
pub(crate) fn place() -> Option<String> {
    PLACE.get().and_then(|f| f())
}
