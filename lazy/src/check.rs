//! Checks of values that are computed later, as data: [`engine::checks`](mod@crate::engine) records and settles them.

use crate::failure::Failure;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize};
use torchtpu_tensor::backend::DeferredError;

/// Number of open checks, and of failures of checks that values still have. At 0, no value depends on a check.
pub(crate) static TRACKED: AtomicUsize = AtomicUsize::new(0);
/// Return whether a value may depend on a check that has not passed.
#[inline(always)]
pub(crate) fn is_tracking() -> bool {
    TRACKED.load(Relaxed) != 0
}

/// Marks the failure of a check. It records whether an error was raised for the failure.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) is_told: AtomicBool,
}

impl Wrong {
    pub(crate) fn new() -> Arc<Wrong> {
        TRACKED.fetch_add(1, AcqRel);
        Arc::new(Wrong { is_told: AtomicBool::new(false) })
    }
}

impl Drop for Wrong {
    fn drop(&mut self) {
        TRACKED.fetch_sub(1, AcqRel);
    }
}

impl Failure {
    /// Return whether a check failed. Other failures are those of the device.
    pub(crate) fn is_of_check(&self) -> bool {
        self.wrong.is_some()
    }
    pub(crate) fn is_told(&self) -> bool {
        self.wrong.as_ref().is_none_or(|w| w.is_told.load(Relaxed))
    }
}

pub(crate) const OPEN: u8 = 0;
pub(crate) const PASSED: u8 = 1;
pub(crate) const FAILED: u8 = 2;

/// A check of a value that is computed later.
pub(crate) struct Check {
    /// Checks are numbered in the order of their ops.
    pub(crate) number: u64,
    pub(crate) status: AtomicU8,
    pub(crate) finding: Mutex<Finding>,
}

/// What is known of a check.
pub(crate) enum Finding {
    /// The handle of the value that the check reads, and its error.
    Open(u64, DeferredError),
    Passed,
    Failed(Arc<Failure>),
}

impl Check {
    pub(crate) fn new(handle: u64, error: DeferredError) -> Arc<Check> {
        TRACKED.fetch_add(1, AcqRel);
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        Arc::new(Check { number, status: AtomicU8::new(OPEN), finding: Mutex::new(Finding::Open(handle, error)) })
    }
    pub(crate) fn is_open(&self) -> bool {
        self.status.load(Acquire) == OPEN
    }
    /// Return the failure, if it is known.
    pub(crate) fn known_failure(&self) -> Option<Arc<Failure>> {
        if self.status.load(Acquire) != FAILED {
            return None;
        }
        match &*self.finding.lock() {
            Finding::Failed(f) => Some(f.clone()),
            _ => None,
        }
    }
}
