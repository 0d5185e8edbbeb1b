//! The switches of the current thread.

use std::cell::Cell;

/// Per-thread switches: one word each and no destructor, so that reading them costs one load.
pub struct State {
    /// Whether new history is recorded. `torch.no_grad` clears it.
    pub grad: Cell<bool>,
    /// Sequence number of the next autograd node.
    pub seq: Cell<u64>,
    /// Storage that the running in-place op will overwrite; 0 for none. Tensors that backward saves of it must be
    /// copied.
    pub overwritten: Cell<usize>,
    /// Storage whose elements an op may change directly, because a call of [`update`](crate::inplace::update) has yet
    /// to write them; 0 for none.
    pub(crate) destination: Cell<usize>,
    /// Whether hooks decide how tensors are saved for backward; see [`saved`](crate::saved).
    pub saved_hooks: Cell<bool>,
    /// Whether new tensors are inference tensors; see [`set_inference`].
    pub inference: Cell<bool>,
    /// [Site](crate::site) of the last op that was recorded.
    pub(crate) site: Cell<crate::site::Site>,
    /// Site of the op whose gradient is being computed; 0 for none.
    pub(crate) forward_site: Cell<crate::site::Site>,
}

/// Number of reasons for which calls are not ordinary: an [observer](crate::dispatch::observe), and threads with
/// [autocast](crate::autocast) or in [inference mode](set_inference). While it is 0, shortcuts need no further checks.
pub(crate) static UNUSUAL: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

thread_local! {
    static STATE: State = const { State { grad: Cell::new(true), seq: Cell::new(1), overwritten: Cell::new(0),
        destination: Cell::new(0), saved_hooks: Cell::new(false), inference: Cell::new(false), site: Cell::new(0),
        forward_site: Cell::new(0) } };
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

/// Whether calls are not ordinary, because some thread has autocast on, is in inference mode, or is observed.
#[inline(always)]
pub fn is_unusual() -> bool {
    UNUSUAL.load(std::sync::atomic::Ordering::Relaxed) != 0
}

/// Whether this thread is in inference mode.
#[inline]
pub fn is_inference() -> bool {
    is_unusual() && with(|s| s.inference.get())
}

/// Switch inference mode for this thread and return the previous setting. In inference mode, results of ops are
/// inference tensors: backward refuses to save them, and only code in inference mode may write them. It does not switch
/// recording off; callers set the gradient mode.
pub fn set_inference(on: bool) -> bool {
    use std::sync::atomic::Ordering::Relaxed;
    let before = with(|s| s.inference.replace(on));
    match (before, on) {
        (false, true) => drop(UNUSUAL.fetch_add(1, Relaxed)),
        (true, false) => drop(UNUSUAL.fetch_sub(1, Relaxed)),
        _ => {}
    }
    before
}

static DETERMINISTIC: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Make functions without a deterministic form in PyTorch fail or warn, as `torch.use_deterministic_algorithms` does.
/// Here all functions are deterministic; they are refused so that programs behave as in PyTorch.
pub fn set_deterministic(on: bool, warn_only: bool) {
    let mode = if !on { 0 } else { 1 + u8::from(warn_only) };
    DETERMINISTIC.store(mode, std::sync::atomic::Ordering::Relaxed);
}

/// Whether [`set_deterministic`] has asked for deterministic algorithms, even if only for warnings.
pub fn is_deterministic() -> bool {
    DETERMINISTIC.load(std::sync::atomic::Ordering::Relaxed) != 0
}

/// Refuse a function without a deterministic form in PyTorch, if [`set_deterministic`] has asked for that.
pub(crate) fn alert_not_deterministic(name: &str) -> crate::Result<()> {
    const SUPPORT: &str = "file an issue at https://github.com/pytorch/pytorch/issues to help us prioritize adding \
        deterministic support for this operation.";
    match DETERMINISTIC.load(std::sync::atomic::Ordering::Relaxed) {
        0 => Ok(()),
        1 => Err(crate::Error::runtime(format!(
            "{name} does not have a deterministic implementation, but you set \
            'torch.use_deterministic_algorithms(True)'. You can turn off determinism just for this operation, or you \
            can use the 'warn_only=True' option, if that's acceptable for your application. You can also {SUPPORT}"
        ))),
        _ => crate::warning::warn(&format!(
            "{name} does not have a deterministic implementation, but you set \
            'torch.use_deterministic_algorithms(True, warn_only=True)'. You can {SUPPORT}"
        )),
    }
}

/// Guard that sets the gradient mode and restores it when dropped, also while unwinding.
pub struct GradMode(bool);

impl GradMode {
    /// Switch recording on or off until the guard is dropped.
    pub fn set(on: bool) -> GradMode {
        with(|s| GradMode(s.grad.replace(on)))
    }
}

impl Drop for GradMode {
    fn drop(&mut self) {
        with(|s| s.grad.set(self.0));
    }
}

/// Guard that names the storage that an in-place op will overwrite, until it is dropped, also while unwinding.
pub struct Overwriting(usize);

impl Overwriting {
    /// Set the storage by its [`Tensor::storage_id`](crate::Tensor::storage_id).
    pub fn set(storage: usize) -> Overwriting {
        with(|s| Overwriting(s.overwritten.replace(storage)))
    }
}

impl Drop for Overwriting {
    fn drop(&mut self) {
        with(|s| s.overwritten.set(self.0));
    }
}

/// Guard that names the storage that an op may change directly, until it is dropped, also while unwinding.
pub(crate) struct Destination(usize);

impl Destination {
    /// Set the storage by its [`Tensor::storage_id`](crate::Tensor::storage_id).
    pub(crate) fn set(storage: usize) -> Destination {
        with(|s| Destination(s.destination.replace(storage)))
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        with(|s| s.destination.set(self.0));
    }
}

/// Run `f` without recording history.
pub fn no_grad<R>(f: impl FnOnce() -> R) -> R {
    let _guard = GradMode::set(false);
    f()
}

static PLACE: std::sync::OnceLock<fn() -> Option<String>> = std::sync::OnceLock::new();

/// Install the function that finds the place of the current call in the user's program. A language binding has one. The
/// first one stays.
pub fn install_place(f: fn() -> Option<String>) {
    let _ = PLACE.set(f);
}

/// The place of the current call in the user's program, if it is known. Errors that are raised later name it.
pub fn place() -> Option<String> {
    PLACE.get().and_then(|f| f())
}
