//! A value on the device that may not be computed yet.

use crate::check::Check;
use crate::failure::Failure;
use crate::xla_cpu::pool;
use crate::{device, metrics, types};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use torchtpu_pjrt::{Buffer, HostView};
use torchtpu_tensor::host::HostValue;
use torchtpu_tensor::{ErrorKind, Meta};

/// A computed value: on the device, in host memory, or both. In neither place if it was computed in a
/// [plan](crate::plan), which holds shapes only.
pub(crate) struct Held {
    /// Made from `host` when a program first reads it.
    buffer: OnceLock<Arc<Buffer>>,
    host: Option<Arc<HostValue>>,
}

/// The outcome of computing a value.
type Outcome = Result<Held, Arc<Failure>>;

/// A value on the device. The segment or upload that makes the value sets it once. PJRT buffers are futures, so a slot
/// is empty only while its segment is being compiled or launched.
pub(crate) struct Slot {
    pub(crate) meta: Meta,
    outcome: OnceLock<Outcome>,
    /// The ops that computed it, for errors that appear when it is read.
    origin: OnceLock<Arc<str>>,
    /// Whether a handle names it.
    pub(crate) named: AtomicBool,
    /// Number of copies to the host that are running.
    pub(crate) readers: AtomicU32,
    /// Whether the pool takes its buffer when the slot is dropped.
    is_pooled: AtomicBool,
    /// Whether the host part of a [divided](crate::growing) program made it.
    pub(crate) has_grown: AtomicBool,
    /// The stream whose segments read it, [`SEVERAL`], or [`NOBODY`].
    user: AtomicU32,
    /// The checks that it depends on.
    checks: OnceLock<Box<[Arc<Check>]>>,
    /// Whether its value came from the host, where it can be read without waiting for a program.
    is_from_host: bool,
}

/// Smaller values in host memory are copied to the device. That is faster than a callback of the plugin after the
/// transfer.
const COPIED_BYTES: usize = 16 << 10;

impl Held {
    fn buffer(&self, meta: &Meta) -> Result<&Arc<Buffer>, Arc<Failure>> {
        if let Some(buffer) = self.buffer.get() {
            return Ok(buffer);
        }
        let Some(host) = &self.host else {
            return Err(Arc::new(
                Failure::new(ErrorKind::Runtime, "this tensor was computed inside of torch.tpu.plan and holds no data")
                    .note("a planned device records and compiles, and runs nothing"),
            ));
        };
        let device = device::get().map_err(|e| Failure::new(e.kind(), e.message()))?;
        let (element, dims) = (types::element_type(meta.dtype), types::dimensions(meta));
        let made = if host.bytes().len() < COPIED_BYTES {
            device.client.buffer_from_host(host.bytes(), element, &dims)
        } else {
            device.client.buffer_from_host_zero_copy(host.clone(), element, &dims)
        };
        let made = made.map_err(|e| Failure::device("copying to device tpu", &e))?;
        Ok(self.buffer.get_or_init(|| Arc::new(made)))
    }
}

const NOBODY: u32 = u32::MAX;
const SEVERAL: u32 = u32::MAX - 1;

impl Slot {
    /// Record that a segment of a stream reads it.
    #[inline]
    pub(crate) fn used_by(&self, stream: u32) {
        let old = self.user.load(Relaxed);
        if old != stream {
            self.user.store(if old == NOBODY { stream } else { SEVERAL }, Relaxed);
        }
    }
    /// Record that it is read by launches whose order is unknown.
    pub(crate) fn share(&self) {
        self.user.store(SEVERAL, Relaxed);
    }
    /// Return whether the segment that `stream` is cutting may destroy it: if only segments of this stream, which are
    /// launched in order, can see it. The progress of earlier launches must not matter, since the answer is part of the
    /// key.
    pub(crate) fn may_be_donated(self: &Arc<Self>, stream: u32) -> bool {
        !self.named.load(Relaxed)
            && self.readers.load(Relaxed) == 0
            && (self.user.load(Relaxed) == stream || Arc::strong_count(self) == 1)
    }
    pub(crate) fn empty(meta: Meta) -> Slot {
        Slot {
            meta,
            outcome: OnceLock::new(),
            origin: OnceLock::new(),
            named: AtomicBool::new(true),
            readers: AtomicU32::new(0),
            user: AtomicU32::new(NOBODY),
            is_pooled: AtomicBool::new(false),
            has_grown: AtomicBool::new(false),
            checks: OnceLock::new(),
            is_from_host: false,
        }
    }
    /// Make the slot of a value that was copied from the host. `host` is a copy that stays there. Without one,
    /// `is_shared` says whether the host can read the buffer.
    pub(crate) fn uploaded(meta: Meta, buffer: Buffer, host: Option<HostValue>, is_shared: bool) -> Slot {
        let mut slot = Slot::empty(meta);
        slot.is_from_host = is_shared || host.is_some();
        slot.set(Held { buffer: OnceLock::from(Arc::new(buffer)), host: host.map(Arc::new) });
        slot
    }
    /// Return whether its value came from the host, where it can be read without waiting for a program.
    pub(crate) fn is_from_host(&self) -> bool {
        self.is_from_host
    }
    /// Set the checks that it depends on.
    pub(crate) fn depend_on(&self, checks: Vec<Arc<Check>>) {
        if !checks.is_empty() {
            let _ = self.checks.set(checks.into_boxed_slice());
        }
    }
    /// Return the checks that it depends on. Some may have passed.
    #[inline]
    pub(crate) fn checks(&self) -> &[Arc<Check>] {
        self.checks.get().map_or(&[], |c| c)
    }
    /// Return the failure of a check, if its outcome is one.
    pub(crate) fn check_failure(&self) -> Option<Arc<Failure>> {
        match self.outcome.get() {
            Some(Err(f)) if f.is_of_check() => Some(f.clone()),
            _ => None,
        }
    }
    /// Set the buffer, unless there is an outcome.
    pub(crate) fn fill(&self, buffer: Buffer, origin: Option<&Arc<str>>, is_pooled: bool) {
        self.is_pooled.store(is_pooled, Relaxed);
        if let Some(o) = origin {
            let _ = self.origin.set(o.clone());
        }
        self.set(Held { buffer: OnceLock::from(Arc::new(buffer)), host: None });
    }
    /// Set a value that was computed on the host, unless there is an outcome.
    pub(crate) fn fill_on_host(&self, value: HostValue) {
        self.set(Held { buffer: OnceLock::new(), host: Some(Arc::new(value)) });
    }
    /// Record that a plan holds its shape, unless there is an outcome.
    pub(crate) fn plan(&self) {
        self.set(Held { buffer: OnceLock::new(), host: None });
    }
    /// Return whether a plan holds its shape and it has no data.
    pub(crate) fn is_planned(&self) -> bool {
        matches!(self.outcome.get(), Some(Ok(held)) if held.host.is_none() && held.buffer.get().is_none())
    }
    fn set(&self, held: Held) {
        if self.outcome.set(Ok(held)).is_ok() {
            metrics::add_live_bytes(self.meta.bytes().unwrap_or(0));
        }
    }
    /// Set the failure, unless there is an outcome.
    pub(crate) fn fail(&self, failure: Arc<Failure>) {
        let _ = self.outcome.set(Err(failure));
    }
    /// Move the outcome to another slot of the same description. This slot has one owner.
    pub(crate) fn give(self: Arc<Self>, to: &Slot) {
        let Ok(mut own) = Arc::try_unwrap(self) else {
            debug_assert!(false, "a slot that is given away has one owner");
            return to.fail(Arc::new(Failure::new(ErrorKind::Runtime, "a result of a piece was still in use")));
        };
        match own.outcome.take() {
            Some(Ok(held)) => {
                metrics::sub_live_bytes(own.meta.bytes().unwrap_or(0));
                to.is_pooled.store(*own.is_pooled.get_mut(), Relaxed);
                to.has_grown.store(*own.has_grown.get_mut(), Relaxed);
                if let Some(o) = own.origin.get() {
                    let _ = to.origin.set(o.clone());
                }
                to.set(held);
            }
            Some(Err(failure)) => to.fail(failure),
            None => {}
        }
    }
    fn wait(&self) -> Result<&Held, &Arc<Failure>> {
        self.outcome.wait().as_ref()
    }
    /// Wait for the outcome, and return the failure if there is one.
    pub(crate) fn failure(&self) -> Option<&Arc<Failure>> {
        self.wait().err()
    }
    /// Wait for the outcome, and return the buffer.
    pub(crate) fn buffer(&self) -> Result<&Arc<Buffer>, Arc<Failure>> {
        self.wait().map_err(Arc::clone)?.buffer(&self.meta)
    }
    /// Wait for the value, and return it in host memory.
    ///
    /// # Errors
    /// Returns the failure of computing it.
    pub(crate) fn on_host(&self) -> Result<HostValue, Arc<Failure>> {
        let held = self.wait().map_err(Arc::clone)?;
        if let Some(host) = &held.host {
            return Ok((**host).clone());
        }
        let buffer = held.buffer(&self.meta)?.clone();
        let view = HostView::new(buffer.clone()).map_err(|e| self.computing(&e))?;
        let value = match view {
            Some(view) => HostValue::shared(&self.meta, Arc::new(view)),
            None => {
                let mut bytes = vec![0; self.meta.bytes().unwrap_or(0)];
                buffer.to_host(&mut bytes).map_err(|e| self.computing(&e))?;
                HostValue::shared(&self.meta, Arc::new(bytes))
            }
        };
        value.map_err(|e| Arc::new(Failure::new(e.kind(), e.message().to_string())))
    }
    /// Wait for the value, and copy its bytes.
    pub(crate) fn copy_to(&self, out: &mut [u8]) -> Result<(), Arc<Failure>> {
        let held = self.wait().map_err(Arc::clone)?;
        match &held.host {
            Some(host) if host.bytes().len() == out.len() => {
                out.copy_from_slice(host.bytes());
                Ok(())
            }
            _ => held.buffer(&self.meta)?.to_host(out).map_err(|e| self.computing(&e)),
        }
    }
    /// Return the error of a computation that appears when its value is read.
    fn computing(&self, e: &torchtpu_pjrt::Error) -> Arc<Failure> {
        let f = Failure::device("computing on device tpu", e);
        Arc::new(match self.origin() {
            "" => f,
            ops => f.note(format!("in a segment with the ops: {ops}")),
        })
    }
    /// Return whether its segment was launched or has failed, so that there is an outcome.
    pub(crate) fn is_launched(&self) -> bool {
        self.outcome.get().is_some()
    }
    /// Return whether the outcome is known, so that a read does not wait.
    pub(crate) fn is_computed(&self) -> bool {
        match self.outcome.get() {
            Some(Ok(held)) => held.host.is_some() || held.buffer.get().is_none_or(|b| b.is_ready().unwrap_or(true)),
            Some(Err(_)) => true,
            None => false,
        }
    }
    /// Return the ops that computed it, or an empty text for an upload.
    fn origin(&self) -> &str {
        self.origin.get().map_or("", |o| o)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some(Ok(held)) = self.outcome.take() else { return };
        metrics::sub_live_bytes(self.meta.bytes().unwrap_or(0));
        let Some(buffer) = held.buffer.into_inner() else { return };
        if device::loaded().is_some_and(|d| !d.is_ours()) {
            std::mem::forget(buffer); // The parent frees it. A forked child does not have the threads of the client.
        } else if *self.is_pooled.get_mut()
            && let Some(buffer) = Arc::into_inner(buffer)
        {
            pool::shared().keep(&self.meta, buffer);
        }
    }
}
