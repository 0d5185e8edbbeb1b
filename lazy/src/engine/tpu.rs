//! The backend behind `tpu`.

use super::{Engine, NO_OWNER, State, checks};
use crate::check::is_tracking;
use crate::cut::CutReason;
use crate::failure::Failure;
use crate::metrics::{COUNTERS, count};
use crate::mode::EagerMode;
use crate::slot::Slot;
use crate::{custom, device, mode, plan, types};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use torchtpu_stablehlo::Profile;
use torchtpu_tensor::backend::{Backend, DeferredError, Operand, Representation};
use torchtpu_tensor::host::HostValue;
use torchtpu_tensor::op::Prim;
use torchtpu_tensor::ops::inline::Kernel;
use torchtpu_tensor::{DType, Error, ErrorKind, Meta, Result, local};

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
        if meta.place.device.index > 0 {
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

/// Uploads of indices up to this size stay in host memory too, if the device has memory of its own. Checks read them
/// there.
const KEPT_BYTES: usize = 64 << 10;

fn is_index(dtype: DType) -> bool {
    dtype.is_int() || dtype == DType::Bool
}

/// Values are placed on the device of this process only.
const DEVICES: usize = 1;

#[cold]
fn no_such_device(meta: &Meta) -> Error {
    local::absent(meta.place.device.number())
}

impl Engine {
    /// Give the results of an op a failure, and record nothing, if an operand is known to depend on a failed check. A
    /// collective runs in any case, since other ranks wait for it.
    #[cold]
    fn fails_now(&self, op: &Prim, x: &[Operand<'_>], y: &[Meta], handles: &mut [u64]) -> bool {
        if op.facts().has_effects || plan::is_active() {
            return false;
        }
        let values = x.iter().filter_map(|x| if let Operand::Value(h) = x { Some(*h) } else { None });
        let failure = self.recording.lock().failure_of(values);
        if failure.is_some() {
            checks::forget_tie();
        }
        failure.inspect(|f| self.fail_values(y, handles, f)).is_some()
    }

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

impl Representation for Tpu {
    #[inline]
    fn record(&self, op: &Prim, x: &[Operand<'_>], y: &[Meta], handles: &mut [u64]) -> Result<()> {
        device::check()?;
        fit(y)?;
        let engine = crate::engine();
        if is_tracking() && engine.fails_now(op, x, y, handles) {
            return Ok(());
        }
        let tied = match op {
            _ if op.facts().carries_checks && is_tracking() => engine.record_tied(op, x, y, handles),
            _ => None,
        };
        let cut = match tied {
            None => engine.push(op, x, y, handles, None)?,
            Some(cut) => cut?,
        };
        let Some(segment) = cut else { return Ok(()) };
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
        crate::engine().copy_out(handle, out, CutReason::Read)
    }

    #[inline]
    fn overwrite(&self, old: u64, new: u64, is_update: bool) -> Result<u64> {
        if is_tracking() && !plan::is_active() {
            return crate::engine().keep(old, new, is_update);
        }
        self.retain(new);
        Ok(new)
    }

    fn defer_check(&self, handle: u64, error: DeferredError) -> Result<bool> {
        device::check()?;
        crate::engine().defer_check(handle, error)
    }

    fn has_checks(&self) -> bool {
        crate::has_checks()
    }

    fn upload(&self, meta: &Meta, bytes: &[u8]) -> Result<u64> {
        if meta.place.device.index > 0 {
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
        let host = (!device.profile.shares_memory && bytes.len() <= KEPT_BYTES && is_index(meta.dtype))
            .then(|| HostValue::shared(meta, Arc::new(bytes.to_vec())).ok())
            .flatten();
        let state = State::Held(Arc::new(Slot::uploaded(*meta, buffer, host, device.profile.shares_memory)));
        Ok(crate::engine().recording.lock().new_entry(state).1)
    }

    fn remakes_views(&self) -> bool {
        mode::get() == EagerMode::Fused
    }
}

impl Backend for Tpu {
    fn step_reads(&self, gradients: &[u64]) -> Result<()> {
        crate::engine().step_reads(gradients)
    }

    fn step_errors(&self) -> Result<()> {
        crate::engine().step_errors()
    }

    fn profile(&self) -> &'static Profile {
        // Without a device no op can be recorded, so it does not matter which profile this returns.
        const ABSENT: Profile = Profile { calls_kernels: false, ..Profile::XLA_CPU };
        crate::profile().unwrap_or(&ABSENT)
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
