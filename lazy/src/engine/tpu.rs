//! The backend behind `tpu`.

use super::{Check, Engine, Finding, MAX_OPEN_CHECKS, NO_OWNER, State};
use crate::cut::CutReason;
use crate::failure::Failure;
use crate::metrics::{COUNTERS, count};
use crate::mode::EagerMode;
use crate::slot::Slot;
use crate::{custom, device, mode, plan, types};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use torchtpu_stablehlo::Platform;
use torchtpu_tensor::backend::{Backend, DeferredError, Operand};
use torchtpu_tensor::op::Prim;
use torchtpu_tensor::ops::inline::Kernel;
use torchtpu_tensor::{Error, ErrorKind, Meta, Result, local};

/// The engine as a backend of the tensor crate.
pub(crate) struct Tpu;

/// Bytes that no process can hold. Compilers count the bytes of all values, also of intermediate ones, in 64 bits, and
/// abort on overflow.
const ADDRESS_SPACE: usize = 1 << 47;

/// Return an error for values that fit into no memory or name an absent device, before anything is recorded.
#[inline]
fn fit(values: &[Meta]) -> Result<()> {
    for meta in values {
        if meta.bytes().is_none_or(|bytes| bytes > ADDRESS_SPACE) {
            return Err(too_large(meta));
        }
        if meta.device.index > 0 {
            return Err(no_such_device(meta));
        }
    }
    Ok(())
}

#[cold]
fn too_large(meta: &Meta) -> Error {
    let Some(bytes) = meta.bytes() else { return torchtpu_tensor::too_many_bytes(meta) };
    Error::new(ErrorKind::OutOfMemory, format!("can't allocate memory: you tried to allocate {bytes} bytes"))
}

/// Values are placed on the device of this process only.
const DEVICES: usize = 1;

#[cold]
fn no_such_device(meta: &Meta) -> Error {
    local::absent(meta.device.number())
}

impl Engine {
    /// See [`crate::lost_value`].
    pub(crate) fn lost_value(&self, meta: &Meta, why: &str) -> u64 {
        let slot = Slot::empty(*meta);
        slot.fail(Arc::new(Failure::new(ErrorKind::Runtime, why)));
        self.recording.lock().new_entry(State::Held(Arc::new(slot))).1
    }

    /// See [`crate::planned_value`].
    pub(crate) fn planned_value(&self, meta: &Meta) -> u64 {
        let slot = Slot::empty(*meta);
        slot.plan();
        self.recording.lock().new_entry(State::Held(Arc::new(slot))).1
    }
}

impl Backend for Tpu {
    #[inline]
    fn record(&self, op: &Prim, x: &[Operand<'_>], y: &[Meta], handles: &mut [u64]) -> Result<()> {
        device::check()?;
        fit(y)?;
        let engine = crate::engine();
        let Some(segment) = engine.push(op, x, y, handles)? else { return Ok(()) };
        let at_once = segment.reason == CutReason::Strict || segment.reason == CutReason::Debug;
        match engine.run(*segment) {
            Err(f) if at_once => {
                handles.iter().for_each(|&h| self.release(h));
                Err(f.error().in_op(op.name()))
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn retain(&self, handle: u64) {
        if torchtpu_pjrt::is_forked() {
            return;
        }
        if let Ok(e) = crate::engine().recording.lock().entry(handle) {
            e.refs += 1;
        }
    }

    #[inline]
    fn release(&self, handle: u64) {
        if torchtpu_pjrt::is_forked() {
            return;
        }
        if plan::is_active() {
            crate::engine().cut_before_release(handle);
        }
        let mut guard = crate::engine().recording.lock();
        let r = &mut *guard;
        let Ok(e) = r.entry(handle) else { return };
        e.refs -= 1;
        if e.refs > 0 {
            return;
        }
        let state = std::mem::replace(&mut e.state, State::Free);
        r.free.push(handle as u32);
        match &state {
            State::Pending { stream, value } => {
                let s = &mut r.streams[*stream as usize];
                s.body.owners[*value as usize] = NO_OWNER;
                let bytes = s.body.form.values[*value as usize].bytes().unwrap_or(usize::MAX);
                s.live_bytes = s.live_bytes.saturating_sub(bytes);
            }
            State::Held(slot) => slot.named.store(false, Relaxed),
            State::Free => {}
        }
        drop(guard);
        // A buffer is freed here, after the lock is released.
    }

    fn read(&self, handle: u64, out: &mut [u8]) -> Result<()> {
        device::check()?;
        let engine = crate::engine();
        engine.copy_out(handle, out, CutReason::Read)?;
        engine.answer_checks()
    }

    fn defer_check(&self, handle: u64, error: DeferredError) -> Result<()> {
        device::check()?;
        let engine = crate::engine();
        self.retain(handle);
        if mode::get() == EagerMode::Debug {
            return engine.settle(handle, error).map_or(Ok(()), Err);
        }
        let open = {
            let mut checks = engine.checks.lock();
            checks.push(Check { thread: std::thread::current().id(), finding: Finding::Open(handle, error) });
            checks.len()
        };
        if open.is_multiple_of(MAX_OPEN_CHECKS) {
            engine.settle_known_checks();
        }
        Ok(())
    }

    fn upload(&self, meta: &Meta, bytes: &[u8]) -> Result<u64> {
        if meta.device.index > 0 {
            return Err(no_such_device(meta));
        }
        if let Some(plan) = plan::active() {
            let slot = Arc::new(plan.upload(meta, bytes));
            return Ok(crate::engine().recording.lock().new_entry(State::Held(slot)).1);
        }
        let device = device::get()?;
        device.check_process().map_err(|f| f.error())?;
        let buffer = device
            .client
            .buffer_from_host(bytes, types::element_type(meta.dtype), &types::dimensions(meta))
            .map_err(|e| Failure::device("copying to device tpu", &e).error())?;
        count(&COUNTERS.uploads, 1);
        count(&COUNTERS.upload_bytes, bytes.len() as u64);
        let state = State::Held(Arc::new(Slot::ready(*meta, buffer)));
        Ok(crate::engine().recording.lock().new_entry(state).1)
    }

    fn calls_kernels(&self) -> bool {
        !plan::is_active() && device::get().is_ok_and(|d| d.platform == Platform::Cpu { kernels: true })
    }

    fn is_accelerator(&self) -> bool {
        plan::is_active() || device::get().is_ok_and(|d| d.platform == Platform::Any)
    }

    fn is_planned(&self) -> bool {
        plan::is_active()
    }

    fn take_made_up(&self) -> bool {
        plan::take_made_up()
    }

    fn assume_rows(&self, most: usize) -> usize {
        plan::active().map_or(0, |plan| plan.assume_rows(most))
    }

    fn remakes_views(&self) -> bool {
        mode::get() == EagerMode::Fused
    }

    fn step_begins(&self, optimizer: u64, makes_state: bool) {
        crate::step_begins(optimizer, makes_state);
    }

    fn step_boundary(&self) {
        crate::step_boundary();
    }

    fn launch_collectives(&self) {
        crate::engine().launch_collectives();
    }

    fn finish_collectives(&self) {
        crate::engine().finish_collectives();
    }

    fn run_kernel(&self, kernel: &Arc<Kernel>, x: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        custom::run(kernel, x)
    }

    fn device_count(&self) -> Result<usize> {
        if plan::is_active() {
            return Ok(DEVICES);
        }
        device::get().map(|_| DEVICES)
    }
}
