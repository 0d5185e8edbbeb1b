//! The modes, which decide where the trace is cut.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

/// When recorded ops go to the device. Results are the same in all modes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum EagerMode {
    /// After every op, and wait for it. An error names the op and is raised at its call.
    Debug,
    /// After every op, without waiting.
    Strict,
    /// In large segments that repeat from step to step.
    Fused,
}

static IS_PLANNED: AtomicBool = AtomicBool::new(false);

/// Return whether device `tpu` is planned: it records and compiles, and runs nothing.
#[inline]
pub(crate) fn is_planned() -> bool {
    IS_PLANNED.load(Relaxed)
}

/// Set whether device `tpu` is planned.
pub(crate) fn set_planned(on: bool) {
    IS_PLANNED.store(on, Relaxed);
}

const UNSET: u8 = u8::MAX;
static MODE: AtomicU8 = AtomicU8::new(UNSET);

impl EagerMode {
    fn from_u8(v: u8) -> EagerMode {
        match v {
            0 => EagerMode::Debug,
            1 => EagerMode::Strict,
            _ => EagerMode::Fused,
        }
    }
    /// Return the mode that the two environment variables select.
    fn from_variables(blocking: Option<&str>, fuse: Option<&str>) -> EagerMode {
        match (blocking, fuse) {
            (Some("1"), _) => EagerMode::Debug,
            (_, Some("0")) => EagerMode::Strict,
            _ => EagerMode::Fused,
        }
    }
}

/// The mode now.
#[inline]
pub(crate) fn get() -> EagerMode {
    match MODE.load(Relaxed) {
        UNSET => first(),
        m => EagerMode::from_u8(m),
    }
}

#[cold]
fn first() -> EagerMode {
    let var = |name| std::env::var(name).ok();
    let mode = EagerMode::from_variables(
        var("TORCH_TPU_LAUNCH_BLOCKING").as_deref(),
        var("TORCH_TPU_DEFER_AND_FUSE").as_deref(),
    );
    let _ = MODE.compare_exchange(UNSET, mode as u8, Relaxed, Relaxed);
    EagerMode::from_u8(MODE.load(Relaxed))
}

pub(crate) fn set(mode: EagerMode) {
    MODE.store(mode as u8, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_chooses_the_mode() {
        assert_eq!(EagerMode::from_variables(None, None), EagerMode::Fused);
        assert_eq!(EagerMode::from_variables(None, Some("0")), EagerMode::Strict);
        assert_eq!(EagerMode::from_variables(None, Some("1")), EagerMode::Fused);
        assert_eq!(EagerMode::from_variables(Some("1"), Some("1")), EagerMode::Debug);
        assert_eq!(EagerMode::from_variables(Some("0"), Some("0")), EagerMode::Strict);
    }
}
