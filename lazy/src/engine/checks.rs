//! Checks of values that are computed later. A check is settled when the program reads the value or waits for it.

use super::{Check, Engine, Finding, Recording, State, tpu::Tpu};
use crate::cut::CutReason;
use crate::plan;
use torchtpu_tensor::backend::{ALL_WELL, Backend as _, DeferredError};
use torchtpu_tensor::{Error, Result};

impl Engine {
    /// Read this thread's deferred checks whose segments were cut, and raise the first that failed. Forget the others.
    pub(super) fn answer_checks(&self) -> Result<()> {
        let thread = std::thread::current().id();
        let due: Vec<Check> = {
            let mut checks = self.checks.lock();
            if checks.is_empty() {
                return Ok(());
            }
            let mut r = self.recording.lock();
            let (later, due) =
                std::mem::take(&mut *checks).into_iter().partition(|c| c.thread != thread || is_pending(c, &mut r));
            *checks = later;
            due
        };
        let mut failed = None;
        for check in due {
            let finding = match check.finding {
                Finding::Open(handle, error) if failed.is_none() => self.settle(handle, error),
                Finding::Open(handle, _) => {
                    Tpu.release(handle);
                    None
                }
                Finding::Wrong(e) => Some(e),
            };
            failed = failed.or(finding);
        }
        failed.map_or(Ok(()), Err)
    }

    /// Forget the checks whose values will never be computed.
    pub(super) fn forget_pending_checks(&self) {
        let mut checks = self.checks.lock();
        let mut r = self.recording.lock();
        let (pending, others): (Vec<Check>, Vec<Check>) =
            std::mem::take(&mut *checks).into_iter().partition(|c| is_pending(c, &mut r));
        *checks = others;
        drop((r, checks));
        for check in pending {
            if let Finding::Open(handle, _) = check.finding {
                Tpu.release(handle);
            }
        }
    }

    /// Read the value of a check and release its handle.
    pub(super) fn settle(&self, handle: u64, error: DeferredError) -> Option<Error> {
        if plan::is_active() || self.is_planned(handle) {
            Tpu.release(handle);
            return None;
        }
        let mut found = [0u8; 8];
        let outcome = self.copy_out(handle, &mut found, CutReason::Read);
        Tpu.release(handle);
        match (outcome, i64::from_ne_bytes(found)) {
            (Ok(()), ALL_WELL) => None,
            (Ok(()), wrong) => Some(error(wrong)),
            (Err(e), _) => Some(e),
        }
    }

    /// Settle the checks of this thread whose values are computed.
    pub(super) fn settle_known_checks(&self) {
        let thread = std::thread::current().id();
        let known: Vec<Check> = {
            let mut checks = self.checks.lock();
            let mut r = self.recording.lock();
            let is_known = |c: &Check, r: &mut Recording| match &c.finding {
                Finding::Open(h, _) if c.thread == thread => match r.entry(*h).map(|e| &e.state) {
                    Ok(State::Held(slot)) => slot.is_computed(),
                    _ => false,
                },
                _ => false,
            };
            let (known, later) = std::mem::take(&mut *checks).into_iter().partition(|c| is_known(c, &mut r));
            *checks = later;
            known
        };
        // Report one error. The following ones are mostly its consequences.
        let mut wrong = None;
        for check in known {
            match check.finding {
                Finding::Open(handle, error) if wrong.is_none() => wrong = self.settle(handle, error),
                Finding::Open(handle, _) => Tpu.release(handle),
                Finding::Wrong(_) => {}
            }
        }
        let is_told = |c: &Check| c.thread == thread && matches!(c.finding, Finding::Wrong(_));
        if let Some(e) = wrong {
            let mut checks = self.checks.lock();
            if !checks.iter().any(is_told) {
                checks.push(Check { thread, finding: Finding::Wrong(e) });
            }
        }
    }
}

/// Return whether the value of a check is not computed yet.
fn is_pending(check: &Check, r: &mut Recording) -> bool {
    match &check.finding {
        Finding::Open(h, _) => matches!(r.entry(*h).map(|e| &e.state), Ok(State::Pending { .. })),
        Finding::Wrong(_) => false,
    }
}
