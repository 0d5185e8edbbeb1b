//! A value on the device, possibly still to come.

use crate::{device, metrics};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use torchtpu_pjrt::{Buffer, Code};
use torchtpu_tensor::{Error, ErrorKind, Meta};

/// Why a value will never come; shared by all that depend on it.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
    pub(crate) notes: Vec<String>,
}

impl Failure {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into(), notes: Vec::new() }
    }
    /// What the plugin reported while doing `what`.
    pub(crate) fn device(what: &str, e: &torchtpu_pjrt::Error) -> Failure {
        // Of temporaries XLA:CPU says so in words only, and so do our kernels.
        let says = |words: &str| e.message().to_ascii_lowercase().contains(words);
        let kind = match e.code() {
            Code::ResourceExhausted => ErrorKind::OutOfMemory,
            _ if says("out of memory") || says("allocate memory") || says("failed to allocate") => {
                ErrorKind::OutOfMemory
            }
            _ => ErrorKind::Runtime,
        };
        Failure::new(kind, format!("{what}: {}", e.message()))
    }
    pub(crate) fn note(mut self, note: impl Into<String>) -> Failure {
        self.notes.push(note.into());
        self
    }
    pub(crate) fn error(&self) -> Error {
        self.notes.iter().fold(Error::new(self.kind, self.message.clone()), |e, n| e.note(n.clone()))
    }
}

/// What a value is.
pub(crate) enum Data {
    /// On the device.
    Buffer(Buffer),
    /// Nowhere: a [plan](crate::plan) holds shapes only. Of small uploads it keeps the bytes, so that sizes and flags that a program
    /// reads back are what it wrote.
    Planned(Option<Box<[u8]>>),
}

/// Outcome of what computes a value.
pub(crate) type Outcome = Result<Data, Arc<Failure>>;

/// A value on the device: set once, by the segment or upload that makes it. PJRT buffers are themselves futures, so a slot is
/// empty only while its segment is being compiled or launched.
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
    /// The stream whose segments read it; [`SEVERAL`], or [`NOBODY`].
    user: AtomicU32,
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
    /// Whether the segment that `stream` is cutting may destroy it: nothing but segments of this stream, which are launched
    /// in order, can see it. How far earlier launches have got must not matter: the answer is part of the key.
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
        }
    }
    pub(crate) fn ready(meta: Meta, buffer: Buffer) -> Slot {
        let slot = Slot::empty(meta);
        slot.fill(buffer, None, false);
        slot
    }
    /// A value of a plan.
    pub(crate) fn planned(meta: Meta, bytes: Option<Box<[u8]>>) -> Slot {
        let slot = Slot::empty(meta);
        slot.set(Data::Planned(bytes));
        slot
    }
    /// Sets the buffer; the first outcome stays.
    pub(crate) fn fill(&self, buffer: Buffer, origin: Option<&Arc<str>>, is_pooled: bool) {
        self.is_pooled.store(is_pooled, Relaxed);
        if let Some(o) = origin {
            let _ = self.origin.set(o.clone());
        }
        self.set(Data::Buffer(buffer));
    }
    /// Sets that a plan holds its shape; the first outcome stays.
    pub(crate) fn plan(&self) {
        self.set(Data::Planned(None));
    }
    fn set(&self, data: Data) {
        if self.outcome.set(Ok(data)).is_ok() {
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
            Some(Ok(data)) => {
                metrics::sub_live_bytes(own.meta.bytes().unwrap_or(0));
                match data {
                    Data::Buffer(buffer) => to.fill(buffer, own.origin.get(), *own.is_pooled.get_mut()),
                    planned @ Data::Planned(_) => to.set(planned),
                }
            }
            Some(Err(failure)) => to.fail(failure),
            None => {}
        }
    }
    /// The outcome, as soon as there is one.
    pub(crate) fn wait(&self) -> &Outcome {
        self.outcome.wait()
    }
    /// The buffer, as soon as there is one.
    pub(crate) fn buffer(&self) -> Result<&Buffer, Arc<Failure>> {
        match self.wait() {
            Ok(Data::Buffer(buffer)) => Ok(buffer),
            Ok(Data::Planned(_)) => Err(Arc::new(
                Failure::new(ErrorKind::Runtime, "this tensor was computed inside of torch.tpu.plan and holds no data")
                    .note("a planned device records and compiles, and runs nothing"),
            )),
            Err(f) => Err(f.clone()),
        }
    }
    /// Whether its outcome is known, so that nobody need wait for it.
    pub(crate) fn is_computed(&self) -> bool {
        match self.outcome.get() {
            Some(Ok(Data::Buffer(buffer))) => buffer.is_ready().unwrap_or(true),
            Some(Ok(Data::Planned(_)) | Err(_)) => true,
            None => false,
        }
    }
    /// The ops that computed it; empty for uploads.
    pub(crate) fn origin(&self) -> &str {
        self.origin.get().map_or("", |o| o)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(Ok(data)) = self.outcome.take() {
            metrics::sub_live_bytes(self.meta.bytes().unwrap_or(0));
            let Data::Buffer(buffer) = data else { return };
            if device::loaded().is_some_and(|d| !d.is_ours()) {
                std::mem::forget(buffer); // The parent's to free; the client's threads are not here.
            } else if *self.is_pooled.get_mut() {
                crate::engine().pool.keep(&self.meta, buffer);
            }
        }
    }
}
