//! A value on the device, possibly still to come.

use crate::failure::Failure;
use crate::{device, metrics, pool, types};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use torchtpu_pjrt::{Buffer, HostView};
use torchtpu_tensor::host::HostValue;
use torchtpu_tensor::{ErrorKind, Meta};

/// A value that is there: on the device, in host memory, or both. Nowhere, if it was computed in a [plan](crate::plan),
/// which holds shapes only.
pub(crate) struct Held {
    /// Made of `host` when a program first takes it.
    buffer: OnceLock<Arc<Buffer>>,
    host: Option<Arc<HostValue>>,
}

/// Outcome of what computes a value.
type Outcome = Result<Held, Arc<Failure>>;

/// A value on the device: set once, by the segment or upload that makes it. PJRT buffers are themselves futures, so a
/// slot is empty only while its segment is being compiled or launched.
pub(crate) struct Slot {
    pub(crate) meta: Meta,
    outcome: OnceLock<Outcome>,
    /// The ops that computed it, for errors that show when it is read.
    origin: OnceLock<Arc<str>>,
    /// Whether a handle names it.
    pub(crate) named: AtomicBool,
    /// Copies to the host under way.
    pub(crate) readers: AtomicU32,
    /// Whether the pool takes its buffer when it is gone.
    is_pooled: AtomicBool,
    /// Whether the host part of a [divided](crate::growing) program made it.
    pub(crate) has_grown: AtomicBool,
    /// The stream whose segments read it; [`SEVERAL`], or [`NOBODY`].
    user: AtomicU32,
}

/// Smaller values in host memory are copied to the device: that is faster than to have the plugin say when it is done
/// with them.
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
    /// Takes note that a segment of a stream reads it.
    #[inline]
    pub(crate) fn used_by(&self, stream: u32) {
        let old = self.user.load(Relaxed);
        if old != stream {
            self.user.store(if old == NOBODY { stream } else { SEVERAL }, Relaxed);
        }
    }
    /// Takes note that launches which read it are in no known order.
    pub(crate) fn share(&self) {
        self.user.store(SEVERAL, Relaxed);
    }
    /// Whether the segment that `stream` is cutting may destroy it: nothing but segments of this stream, which are
    /// launched in order, can see it. How far earlier launches have got must not matter: the answer is part of the key.
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
        }
    }
    pub(crate) fn ready(meta: Meta, buffer: Buffer) -> Slot {
        let slot = Slot::empty(meta);
        slot.fill(buffer, None, false);
        slot
    }
    /// Sets the buffer; the first outcome stays.
    pub(crate) fn fill(&self, buffer: Buffer, origin: Option<&Arc<str>>, is_pooled: bool) {
        self.is_pooled.store(is_pooled, Relaxed);
        if let Some(o) = origin {
            let _ = self.origin.set(o.clone());
        }
        self.set(Held { buffer: OnceLock::from(Arc::new(buffer)), host: None });
    }
    /// Sets the value, which was computed on the host; the first outcome stays.
    pub(crate) fn fill_on_host(&self, value: HostValue) {
        self.set(Held { buffer: OnceLock::new(), host: Some(Arc::new(value)) });
    }
    /// Sets that a plan holds its shape; the first outcome stays.
    pub(crate) fn plan(&self) {
        self.set(Held { buffer: OnceLock::new(), host: None });
    }
    /// Whether a plan holds its shape, and nothing else.
    pub(crate) fn is_planned(&self) -> bool {
        matches!(self.outcome.get(), Some(Ok(held)) if held.host.is_none() && held.buffer.get().is_none())
    }
    fn set(&self, held: Held) {
        if self.outcome.set(Ok(held)).is_ok() {
            metrics::add_live_bytes(self.meta.bytes().unwrap_or(0));
        }
    }
    /// Sets the failure; the first outcome stays.
    pub(crate) fn fail(&self, failure: Arc<Failure>) {
        let _ = self.outcome.set(Err(failure));
    }
    /// Gives the outcome, which nobody else has seen, to another slot of the same description.
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
    /// Why there is no value, as soon as that is known.
    pub(crate) fn failure(&self) -> Option<&Arc<Failure>> {
        self.wait().err()
    }
    /// The buffer, as soon as there is one.
    pub(crate) fn buffer(&self) -> Result<&Arc<Buffer>, Arc<Failure>> {
        self.wait().map_err(Arc::clone)?.buffer(&self.meta)
    }
    /// The value in host memory, once it is computed.
    ///
    /// # Errors
    /// Why it could not be computed.
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
    /// Copies the value's bytes once it is computed.
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
    /// The failure to compute it that shows now.
    fn computing(&self, e: &torchtpu_pjrt::Error) -> Arc<Failure> {
        let f = Failure::device("computing on device tpu", e);
        Arc::new(match self.origin() {
            "" => f,
            ops => f.note(format!("in a segment with the ops: {ops}")),
        })
    }
    /// Whether its outcome is known, so that nobody need wait for it.
    pub(crate) fn is_computed(&self) -> bool {
        match self.outcome.get() {
            Some(Ok(held)) => held.host.is_some() || held.buffer.get().is_none_or(|b| b.is_ready().unwrap_or(true)),
            Some(Err(_)) => true,
            None => false,
        }
    }
    /// The ops that computed it; empty for uploads.
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
            std::mem::forget(buffer); // The parent's to free; the client's threads are not here.
        } else if *self.is_pooled.get_mut()
            && let Some(buffer) = Arc::into_inner(buffer)
        {
            pool::shared().keep(&self.meta, buffer);
        }
    }
}
