//! The engine: values by handle, streams of recorded ops, cuts, launches.
//!
//! Recording takes one lock for some tens of nanoseconds. Compiling, launching and waiting happen outside of it. Values of a
//! segment that is on its way are [`Slot`]s, so all threads go on recording with them. The thread that made the cut launches:
//! PJRT computes on threads of its own, and a second one in between would cost a wake-up a segment.
//!
//! Each thread records a stream of its own. Threads that work independently thereby have segments that repeat; a value that
//! crosses over cuts the stream that computes it.

use crate::cache::{Compiled, ProcessCache};
use crate::device::{self, Device};
use crate::explain::{self, Explanation};
use crate::form::{self, Arg, DTYPES, Form, Input, MAX_ITEMS, Node, mix};
use crate::lower;
use crate::metrics::{self, COUNTERS, CutReason, count};
use crate::mode::{self, EagerMode};
use crate::repeat::{Early, Repeat};
use crate::slot::{Failure, Slot};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use torchtpu_pjrt::{Buffer, Event};
use torchtpu_stablehlo::Platform;
use torchtpu_tensor::backend::{ALL_WELL, Backend, DeferredError, Operand};
use torchtpu_tensor::op::Prim;
use torchtpu_tensor::{DType, Error, ErrorKind, Meta, Result};

/// Compilers take longer per op beyond about this many.
pub(crate) const DEFAULT_MAX_NODES: usize = 1500;
const DEFAULT_MAX_PENDING_BYTES: usize = 2 << 30;
/// Launched and not yet finished: enough to keep a device busy, few enough to bound its memory.
const MAX_IN_FLIGHT_FUSED: usize = 2;
/// Segments of one op are short.
const MAX_IN_FLIGHT_STRICT: usize = 64;
/// Where nothing else is asked for, a segment goes out early after so many ops on a device that does not share the host's
/// processor. On XLA:CPU, which does, overlap gains nothing and the cut costs fusion.
const DEFAULT_EARLY_OPS: usize = 512;
/// Until the device is known.
const EARLY_UNDECIDED: usize = usize::MAX - 1;
const NO_OWNER: u32 = u32::MAX;

/// A handle's target.
struct Entry {
    refs: u32,
    /// Raised each time the entry is used anew, so that a stale handle is noticed.
    generation: u32,
    state: State,
    /// Segment in which the value last became an argument, and which one.
    mark: u64,
    arg: u32,
}

enum State {
    Free,
    /// Value `value` of the segment that stream `stream` is recording.
    Pending {
        stream: u32,
        value: u32,
    },
    Held(Arc<Slot>),
}

/// A segment as it is recorded.
#[derive(Default)]
struct Body {
    form: Form,
    hash: u64,
    /// The entry of each value, while a handle to it is alive.
    owners: Vec<u32>,
    /// Values behind the arguments.
    slots: Vec<Arc<Slot>>,
    /// Numbers, packed by dtype.
    numbers: [Vec<u8>; DTYPES],
}

impl Body {
    fn clear(&mut self) {
        self.form.clear();
        self.hash = 0;
        self.owners.clear();
        self.slots.clear();
        self.numbers.iter_mut().for_each(Vec::clear);
    }
}

/// What one thread records.
struct Stream {
    body: Body,
    /// Number of the segment, unique among all streams.
    serial: u64,
    /// Bytes of pending values that a handle keeps alive.
    live_bytes: usize,
    repeat: Repeat,
    early: Early,
    /// The last segment that went to the background: later ones are launched after it.
    background: Option<Arc<Launched>>,
}

/// A segment that was cut.
struct Segment {
    body: Body,
    outputs: Outputs,
    reason: CutReason,
    /// Whether the host waits for it and looks at its results.
    debug: bool,
    /// The stream that it was cut from.
    stream: u32,
}

/// Set when a segment that is compiled in the background has been launched, or has failed.
type Launched = OnceLock<()>;

/// A program that is being compiled in the background.
struct Compiling {
    hash: u64,
    form: Form,
    launched: Arc<Launched>,
}

/// Compiles in the background at most so many segments at once: more would only share the processor.
const MAX_BACKGROUND: usize = 4;

/// A segment that was launched.
struct InFlight {
    event: Event,
    /// Freeing a buffer that was given away waits for the program that took it, so that is done when it has ended.
    _donated: SmallVec<[Arc<Slot>; 8]>,
}

/// The values that a segment owes. Whoever drops them without an outcome, by a panic, fails them: nobody must wait forever.
struct Outputs(Vec<Arc<Slot>>);

impl Outputs {
    fn fail(&self, failure: &Arc<Failure>) {
        self.0.iter().for_each(|s| s.fail(failure.clone()));
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.fail(&Arc::new(Failure::new(ErrorKind::Runtime, "computing this value was interrupted by a panic")));
        }
    }
}

#[derive(Default)]
struct Recording {
    entries: Vec<Entry>,
    free: Vec<u32>,
    streams: Vec<Stream>,
    free_streams: Vec<u32>,
    /// Emptied bodies, kept for their memory.
    spare: Vec<Body>,
    serial: u64,
    nodes_recorded: u64,
}

/// Something that may turn out wrong, and is told to the thread that asked for it.
struct Check {
    thread: std::thread::ThreadId,
    finding: Finding,
}

enum Finding {
    /// The value of this handle will tell.
    Open(u64, DeferredError),
    Wrong(Error),
}

/// Beyond so many open checks, those that are known are settled: a program that never reads must not pile them up.
const MAX_OPEN_CHECKS: usize = 64;

pub(crate) struct Engine {
    recording: Mutex<Recording>,
    /// See [`Backend::defer_check`].
    checks: Mutex<Vec<Check>>,
    cache: ProcessCache,
    in_flight: Mutex<VecDeque<InFlight>>,
    /// Bits of a segment's hash that the cache looks at; fewer only in tests of collisions.
    hash_mask: AtomicU64,
    max_nodes: AtomicUsize,
    max_pending_bytes: AtomicUsize,
    /// A segment of so many ops is launched early if the device would idle; see [`Early`].
    early_ops: AtomicUsize,
    compiling: Mutex<Vec<Compiling>>,
    /// Segments in the background, so that launching need not look for them when there are none.
    in_background: AtomicUsize,
    check_numerics: AtomicBool,
    dumped: AtomicU64,
}

impl Default for Engine {
    fn default() -> Engine {
        let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<usize>().ok());
        Engine {
            recording: Mutex::default(),
            checks: Mutex::default(),
            cache: ProcessCache::default(),
            in_flight: Mutex::default(),
            hash_mask: AtomicU64::new(u64::MAX),
            max_nodes: AtomicUsize::new(
                number("TORCHTPU_SEGMENT_OPS").unwrap_or(DEFAULT_MAX_NODES).clamp(1, MAX_ITEMS / 64),
            ),
            max_pending_bytes: AtomicUsize::new(number("TORCHTPU_PENDING_BYTES").unwrap_or(DEFAULT_MAX_PENDING_BYTES)),
            early_ops: AtomicUsize::new(number("TORCHTPU_EARLY_OPS").unwrap_or(EARLY_UNDECIDED)),
            compiling: Mutex::default(),
            in_background: AtomicUsize::new(0),
            check_numerics: AtomicBool::new(std::env::var("TORCHTPU_CHECK_NUMERICS").is_ok_and(|v| v == "1")),
            dumped: AtomicU64::new(0),
        }
    }
}

/// The current thread's stream, given back when the thread ends.
///
/// The thread that ends the process drops it too, before the plugin's own destructors run under programs still under way:
/// those are waited for. What was never launched is not.
struct StreamGuard;
impl Drop for StreamGuard {
    fn drop(&mut self) {
        let id = STREAM.replace(NO_STREAM);
        if id == NO_STREAM {
            return;
        }
        let engine = crate::engine();
        engine.recording.lock().free_streams.push(id);
        let is_ours = device::loaded().is_some_and(|d| d.check_process().is_ok());
        if is_ours {
            engine.await_background();
        }
        let launched = std::mem::take(&mut *engine.in_flight.lock());
        if is_ours {
            launched.iter().for_each(|l| drop(l.event.await_ready()));
        } else {
            std::mem::forget(launched); // A forked child would wait forever.
        }
    }
}
const NO_STREAM: u32 = u32::MAX;
thread_local! {
    static STREAM: Cell<u32> = const { Cell::new(NO_STREAM) };
    static STREAM_GUARD: StreamGuard = const { StreamGuard };
}

impl Recording {
    /// The current thread's stream.
    #[inline]
    fn stream(&mut self) -> usize {
        match STREAM.get() {
            NO_STREAM => self.new_stream(),
            id => id as usize,
        }
    }

    #[cold]
    fn new_stream(&mut self) -> usize {
        let id = self.free_streams.pop().unwrap_or_else(|| {
            self.serial += 1;
            let (serial, body) = (self.serial, Body::default());
            self.streams.push(Stream {
                body,
                serial,
                live_bytes: 0,
                repeat: Repeat::default(),
                early: Early::default(),
                background: None,
            });
            self.streams.len() as u32 - 1
        });
        STREAM.set(id);
        // In a thread that is ending there is no guard any more; its stream then stays taken.
        let _ = STREAM_GUARD.try_with(|_| ());
        id as usize
    }

    #[inline]
    fn entry(&mut self, handle: u64) -> Result<&mut Entry> {
        match self.entries.get_mut(handle as u32 as usize) {
            Some(e) if e.generation == (handle >> 32) as u32 && e.refs > 0 => Ok(e),
            _ => Err(stale()),
        }
    }

    #[inline]
    fn new_entry(&mut self, state: State) -> (u32, u64) {
        new_entry(&mut self.entries, &mut self.free, state)
    }
}

#[cold]
fn stale() -> Error {
    Error::runtime("a device value was used after its last reference was given back")
}

/// Takes back what was recorded of a node whose next operand is stale: the given operands. Says so.
#[cold]
fn forget(b: &mut Body, node: &Node, x: &[Operand<'_>]) -> Error {
    b.form.inputs.truncate(node.first_input as usize);
    for operand in x {
        if let Operand::Number { meta, .. } = operand {
            let d = meta.dtype as usize;
            b.form.numbers[d] -= 1;
            let kept = b.numbers[d].len() - meta.dtype.size_bytes();
            b.numbers[d].truncate(kept);
        }
    }
    stale()
}

#[inline]
fn new_entry(entries: &mut Vec<Entry>, free: &mut Vec<u32>, state: State) -> (u32, u64) {
    match free.pop() {
        Some(i) => {
            let e = &mut entries[i as usize];
            e.generation = e.generation.wrapping_add(1);
            (e.refs, e.state, e.mark) = (1, state, 0);
            (i, u64::from(e.generation) << 32 | u64::from(i))
        }
        None => {
            let i = entries.len() as u32;
            entries.push(Entry { refs: 1, generation: 1, state, mark: 0, arg: 0 });
            (i, 1 << 32 | u64::from(i))
        }
    }
}

impl Engine {
    /// Appends an op to the current thread's segment; writes the handles, and returns the cut that has become due.
    #[inline]
    fn push(&self, op: &Prim, x: &[Operand<'_>], y: &[Meta], handles: &mut [u64]) -> Result<Option<Box<Segment>>> {
        let mode = mode::get();
        let mut guard = self.recording.lock();
        let id = guard.stream();
        if guard.streams.len() > 1 {
            guard = self.join(guard, id, x);
        }
        let r = &mut *guard;
        let s = &mut r.streams[id];
        let b = &mut s.body;
        let op_hash = form::hash_op(op);
        let mut hash = mix(b.hash, op_hash);
        let node =
            Node { op: op.clone(), first_input: b.form.inputs.len() as u32, first_value: b.form.values.len() as u32 };
        for (i, operand) in x.iter().enumerate() {
            let input = match operand {
                Operand::Value(h) => {
                    let e = match r.entries.get_mut(*h as u32 as usize) {
                        Some(e) if e.generation == (*h >> 32) as u32 && e.refs > 0 => e,
                        _ => return Err(forget(b, &node, &x[..i])),
                    };
                    match &e.state {
                        State::Pending { value, .. } => Input::value(*value),
                        State::Held(_) if e.mark == s.serial => Input::arg(e.arg),
                        State::Held(slot) => {
                            let i = b.slots.len() as u32;
                            hash = mix(hash, form::hash_meta(&slot.meta));
                            b.form.args.push(Arg { meta: slot.meta, donated: false });
                            b.slots.push(slot.clone());
                            slot.used_by(id as u32);
                            (e.mark, e.arg) = (s.serial, i);
                            Input::arg(i)
                        }
                        State::Free => return Err(forget(b, &node, &x[..i])),
                    }
                }
                Operand::Number { bits, meta } => {
                    let d = meta.dtype as usize;
                    let i = b.form.numbers[d];
                    b.form.numbers[d] += 1;
                    b.numbers[d].extend_from_slice(&bits.to_le_bytes()[..meta.dtype.size_bytes()]);
                    Input::number(meta.dtype, i)
                }
            };
            hash = mix(hash, u64::from(input.0));
            b.form.inputs.push(input);
        }
        b.form.nodes.push(node);
        let mut signature = op_hash;
        for (meta, out) in y.iter().zip(handles) {
            let value = b.form.values.len() as u32;
            let (entry, handle) = new_entry(&mut r.entries, &mut r.free, State::Pending { stream: id as u32, value });
            b.form.values.push(*meta);
            b.owners.push(entry);
            let bytes = meta.bytes().unwrap_or(usize::MAX);
            s.live_bytes = s.live_bytes.saturating_add(bytes);
            signature = mix(signature, bytes as u64);
            *out = handle;
        }
        b.hash = mix(hash, y.len() as u64);
        r.nodes_recorded += 1;
        let len = b.form.nodes.len();
        let reason = match mode {
            EagerMode::Fused => {
                let max = self.max_nodes.load(Relaxed);
                if let Some(reason) = s.repeat.push(signature, len, max) {
                    reason
                } else if len >= max {
                    CutReason::Size
                } else if s.live_bytes > self.max_pending_bytes.load(Relaxed) {
                    CutReason::Memory
                } else if len == self.early_ops.load(Relaxed) && s.early.pass(s.repeat.place(), || self.is_idle()) {
                    CutReason::Idle
                } else {
                    return Ok(None);
                }
            }
            EagerMode::Strict => CutReason::Strict,
            EagerMode::Debug => CutReason::Debug,
        };
        Ok(self.take(r, id, reason).map(Box::new))
    }

    /// Cuts the segments of other threads that compute what the current thread is about to use.
    #[cold]
    fn join<'a>(
        &'a self,
        mut guard: MutexGuard<'a, Recording>,
        own: usize,
        x: &[Operand<'_>],
    ) -> MutexGuard<'a, Recording> {
        for operand in x {
            let Operand::Value(h) = operand else { continue };
            let other = match guard.entry(*h) {
                Ok(Entry { state: State::Pending { stream, .. }, .. }) if *stream as usize != own => *stream as usize,
                _ => continue,
            };
            if let Some(segment) = self.take(&mut guard, other, CutReason::OtherThread) {
                // A failure is kept in the values; whoever reads them is told.
                let _ = MutexGuard::unlocked(&mut guard, || self.run(segment));
            }
        }
        guard
    }

    /// Ends a stream's segment: decides what leaves it and what it may destroy, and turns its values into slots.
    fn take(&self, r: &mut Recording, stream: usize, reason: CutReason) -> Option<Segment> {
        let spare = r.spare.pop().unwrap_or_default();
        let s = &mut r.streams[stream];
        match reason {
            CutReason::Size | CutReason::Memory | CutReason::RepeatFound | CutReason::Idle | CutReason::OtherThread => {
            }
            _ => s.repeat.anchor(),
        }
        if s.body.form.nodes.is_empty() {
            r.spare.push(spare);
            return None;
        }
        count(&COUNTERS.cuts[reason as usize], 1);
        s.early.ended(s.body.form.nodes.len(), self.early_ops.load(Relaxed));
        let mut body = std::mem::replace(&mut s.body, spare);
        r.serial += 1;
        s.serial = r.serial;
        s.live_bytes = 0;
        let debug = mode::get() == EagerMode::Debug;
        let mut outputs = Vec::new();
        for (value, &owner) in body.owners.iter().enumerate() {
            if owner != NO_OWNER {
                let slot = Arc::new(Slot::empty(body.form.values[value]));
                r.entries[owner as usize].state = State::Held(slot.clone());
                body.form.outputs.push(value as u32);
                body.hash = mix(body.hash, value as u64);
                outputs.push(slot);
            }
        }
        if STREAM.get() != stream as u32 {
            // Two threads launch segments of this stream now, so their order is not that of the cuts.
            body.slots.iter().for_each(|s| s.share());
        }
        if !(debug && self.check_numerics.load(Relaxed)) {
            donate(&mut body, stream as u32);
        }
        Some(Segment { body, outputs: Outputs(outputs), reason, debug, stream: stream as u32 })
    }

    /// Finds or compiles the executable and launches it, or has it launched. Whatever happens, every output gets an outcome.
    fn run(&self, segment: Segment) -> std::result::Result<(), Arc<Failure>> {
        if segment.outputs.0.is_empty() {
            count(&COUNTERS.segments_dropped, 1);
            self.recycle(segment.body);
            return Ok(());
        }
        let hash = segment.body.hash & self.hash_mask.load(Relaxed);
        let prepared = device::get().map_err(|e| Arc::new(Failure::new(e.kind(), e.message()))).and_then(|device| {
            device.check_process()?;
            if self.early_ops.load(Relaxed) == EARLY_UNDECIDED {
                let ops = if device.platform.is_cpu() { usize::MAX } else { DEFAULT_EARLY_OPS };
                self.early_ops.store(ops, Relaxed);
            }
            Ok((device, self.find(hash, &segment.body.form)))
        });
        let (device, found) = match prepared {
            Ok(p) => p,
            Err(f) => return self.finish(segment, Err(f)),
        };
        let (compiled, segment) = match found {
            Some(c) => (Ok(c), segment),
            None => match self.to_background(device, hash, segment) {
                None => return Ok(()),
                Some(s) => (self.compile(device, hash, &s.body.form, s.reason), s),
            },
        };
        let before = self.background_of(segment.stream);
        self.launch_after(before, device, compiled, segment)
    }

    /// An executable that is in memory, or is just being compiled.
    fn find(&self, hash: u64, form: &Form) -> Option<Arc<Compiled>> {
        let found = self.cache.get(hash, form).or_else(|| {
            if self.in_background.load(Relaxed) == 0 {
                return None;
            }
            let same = |c: &&Compiling| c.hash == hash && c.form == *form;
            let launched = self.compiling.lock().iter().find(same).map(|c| c.launched.clone())?;
            launched.wait();
            self.cache.get(hash, form)
        });
        if found.is_some() {
            count(&COUNTERS.process_cache_hits, 1);
        }
        found
    }

    /// The last segment of a stream that went to the background, if it may still be there.
    fn background_of(&self, stream: u32) -> Option<Arc<Launched>> {
        if self.in_background.load(Relaxed) == 0 {
            return None;
        }
        self.recording.lock().streams[stream as usize].background.clone()
    }

    /// Compiles and launches a segment on a thread of its own, where the caller goes on recording: a cut inside of a step,
    /// whose other segments can be compiled meanwhile. Otherwise gives the segment back.
    fn to_background(&self, device: &'static Device, hash: u64, segment: Segment) -> Option<Segment> {
        let goes_on =
            matches!(segment.reason, CutReason::Size | CutReason::Memory | CutReason::RepeatFound | CutReason::Idle);
        if !goes_on || segment.debug {
            return Some(segment);
        }
        let launched = Arc::new(Launched::new());
        {
            let mut compiling = self.compiling.lock();
            if compiling.len() >= MAX_BACKGROUND {
                return Some(segment);
            }
            compiling.push(Compiling { hash, form: segment.body.form.clone(), launched: launched.clone() });
        }
        self.in_background.fetch_add(1, Relaxed);
        let before = self.recording.lock().streams[segment.stream as usize].background.replace(launched.clone());
        let done = Background(launched);
        let shared = Arc::new(Mutex::new(Some(segment)));
        let taken = shared.clone();
        let work = move || {
            if let Some(segment) = taken.lock().take() {
                let engine = crate::engine();
                let compiled = engine.compile(device, hash, &segment.body.form, segment.reason);
                // Failures are in the outputs; whoever reads them is told.
                let _ = engine.launch_after(before, device, compiled, segment);
            }
            drop(done);
        };
        match std::thread::Builder::new().name("torchtpu-compile".into()).spawn(work) {
            Ok(_) => None,
            // No thread to be had: then here.
            Err(_) => shared.lock().take(),
        }
    }

    /// Launches a segment after one that went to the background before: it may destroy what that one reads.
    fn launch_after(
        &self,
        before: Option<Arc<Launched>>,
        device: &Device,
        compiled: std::result::Result<Arc<Compiled>, Arc<Failure>>,
        segment: Segment,
    ) -> std::result::Result<(), Arc<Failure>> {
        if let Some(before) = before {
            before.wait();
        }
        let result = compiled.and_then(|c| self.launch(device, &c, &segment.body, &segment.outputs, segment.debug));
        self.finish(segment, result)
    }

    /// Tells the outputs of a failure, and keeps the body's memory.
    fn finish(
        &self,
        segment: Segment,
        result: std::result::Result<(), Arc<Failure>>,
    ) -> std::result::Result<(), Arc<Failure>> {
        if let Err(f) = &result {
            segment.outputs.fail(f);
        }
        self.recycle(segment.body);
        result
    }

    /// Whether nothing is running that was launched; `false` when that cannot be told at once.
    fn is_idle(&self) -> bool {
        self.in_background.load(Relaxed) == 0
            && self.in_flight.try_lock().is_some_and(|l| l.iter().all(|l| l.event.is_ready().unwrap_or(true)))
    }

    /// Launches, and fills the outputs.
    fn launch(
        &self,
        device: &Device,
        compiled: &Compiled,
        body: &Body,
        outputs: &Outputs,
        debug: bool,
    ) -> std::result::Result<(), Arc<Failure>> {
        let numbers = upload_numbers(device, compiled, &body.numbers)?;
        let mut args: SmallVec<[&Buffer; 32]> = SmallVec::new();
        for slot in &body.slots {
            // What an argument failed of, its consumers fail of.
            args.push(slot.wait().as_ref().map_err(Arc::clone)?);
        }
        args.extend(numbers.iter().map(|b| &**b));
        let failed = |e: torchtpu_pjrt::Error| {
            let f = Failure::device("executing on device tpu", &e);
            Arc::new(f.note(format!("in a segment of {} ops: {}", compiled.form.nodes.len(), compiled.summary)))
        };
        let buffers = compiled.executable.execute(&args, &[]).map_err(failed)?;
        if buffers.len() != outputs.0.len() {
            return Err(Arc::new(Failure::new(ErrorKind::Runtime, "the program gave another number of results")));
        }
        count(&COUNTERS.segments_executed, 1);
        count(&COUNTERS.nodes_executed, body.form.nodes.len() as u64);
        let mut event = None;
        if debug {
            for b in &buffers {
                b.await_ready().map_err(failed)?;
            }
        } else {
            event = buffers.first().and_then(|b| b.ready_event().ok());
        }
        for (slot, buffer) in outputs.0.iter().zip(buffers) {
            slot.fill(buffer, Some(&compiled.summary));
        }
        if let Some(event) = event {
            let donated = body.slots.iter().zip(&body.form.args).filter(|(_, a)| a.donated).map(|(s, _)| s.clone());
            self.throttle(InFlight { event, _donated: donated.collect() });
        }
        if debug && self.check_numerics.load(Relaxed) {
            numerics(body, &outputs.0)?;
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn compile(
        &self,
        device: &Device,
        hash: u64,
        form: &Form,
        reason: CutReason,
    ) -> std::result::Result<Arc<Compiled>, Arc<Failure>> {
        let start = Instant::now();
        let place = |f: Failure| {
            Arc::new(f.note(format!("while compiling a segment of {} ops: {}", form.nodes.len(), form.summary())))
        };
        let text = lower::module(form, &form.outputs, device.platform).map_err(place)?;
        if let Some(folder) = &device.dump_folder {
            let name = format!("{:06}-{hash:016x}.mlir", self.dumped.fetch_add(1, Relaxed));
            let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(folder.join(name), &text));
            if let Err(e) = written {
                crate::disk::warn(&format!("cannot write to TORCHTPU_DUMP_DIR {}: {e}", folder.display()));
            }
        }
        let mut loaded = None;
        let key = device.disk.as_ref().map(|disk| (disk, device.disk_key(&text)));
        if let Some((disk, key)) = &key {
            loaded = disk.load(key).and_then(|bytes| match device.client.deserialize(&bytes) {
                Ok(e) => Some(e),
                Err(e) => {
                    disk.reject(key, e.message());
                    None
                }
            });
        }
        let from_disk = loaded.is_some();
        let executable = match loaded {
            Some(e) => {
                count(&COUNTERS.disk_cache_hits, 1);
                e
            }
            None => {
                let e = device.compile(&text).map_err(|e| place(Failure::device("compiling for device tpu", &e)))?;
                count(&COUNTERS.compilations, 1);
                if let Some((disk, _)) = &key {
                    // Options may have changed on the way: the key is that of what was compiled.
                    match e.serialize() {
                        Ok(bytes) => disk.store(&device.disk_key(&text), &bytes),
                        Err(e) => log_unserialisable(&e),
                    }
                }
                e
            }
        };
        let nanos = start.elapsed().as_nanos() as u64;
        count(&COUNTERS.compile_nanos, nanos);
        let recent = self.cache.recent(64);
        metrics::explained(Explanation {
            cut: reason,
            nodes: form.nodes.len(),
            ops: form.summary(),
            nanos,
            from_disk,
            why: explain::difference(form, recent.iter().map(|c| &c.form)),
        });
        Ok(self.cache.insert(hash, Compiled::new(form.clone(), executable)))
    }

    /// Waits until few enough segments are in flight.
    fn throttle(&self, launched: InFlight) {
        let limit = if mode::get() == EagerMode::Fused { MAX_IN_FLIGHT_FUSED } else { MAX_IN_FLIGHT_STRICT };
        let mut list = self.in_flight.lock();
        list.push_back(launched);
        loop {
            let done = list.front().is_some_and(|l| l.event.is_ready().unwrap_or(true));
            if !done && list.len() <= limit {
                return;
            }
            let Some(oldest) = list.pop_front() else { return };
            // An error is told to whoever reads the values.
            MutexGuard::unlocked(&mut list, || {
                let _ = oldest.event.await_ready();
                drop(oldest);
            });
        }
    }

    fn recycle(&self, mut body: Body) {
        // Dropping ops and buffers may take time: not under the lock.
        body.clear();
        let mut r = self.recording.lock();
        if r.spare.len() < 4 {
            r.spare.push(body);
        }
    }

    /// The slot of a value, after cutting the segment that computes it; one reader more.
    fn slot(&self, handle: u64, reason: CutReason) -> Result<Arc<Slot>> {
        let mut guard = self.recording.lock();
        let stream = match &guard.entry(handle)?.state {
            State::Held(slot) => {
                slot.readers.fetch_add(1, Relaxed);
                return Ok(slot.clone());
            }
            State::Pending { stream, .. } => *stream as usize,
            State::Free => return Err(stale()),
        };
        let segment = self.take(&mut guard, stream, reason);
        let slot = match &guard.entry(handle)?.state {
            State::Held(slot) => slot.clone(),
            _ => return Err(stale()),
        };
        slot.readers.fetch_add(1, Relaxed);
        drop(guard);
        if let Some(segment) = segment {
            // A failure is in the slot too.
            let _ = self.run(segment);
        }
        Ok(slot)
    }

    /// Reads this thread's deferred checks whose segments were cut and raises the first that failed; the rest is forgotten
    /// with it.
    fn answer_checks(&self) -> Result<()> {
        let thread = std::thread::current().id();
        let due: Vec<Check> = {
            let mut checks = self.checks.lock();
            if checks.is_empty() {
                return Ok(());
            }
            let mut r = self.recording.lock();
            let pending = |f: &Finding, r: &mut Recording| match f {
                Finding::Open(h, _) => matches!(r.entry(*h).map(|e| &e.state), Ok(State::Pending { .. })),
                Finding::Wrong(_) => false,
            };
            let (later, due) = std::mem::take(&mut *checks)
                .into_iter()
                .partition(|c| c.thread != thread || pending(&c.finding, &mut r));
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

    /// Reads the value of a check and gives its handle back.
    fn settle(&self, handle: u64, error: DeferredError) -> Option<Error> {
        let mut found = [0u8; 8];
        let outcome = self.copy_out(handle, &mut found, CutReason::Read);
        Tpu.release(handle);
        match (outcome, i64::from_ne_bytes(found)) {
            (Ok(()), ALL_WELL) => None,
            (Ok(()), wrong) => Some(error(wrong)),
            (Err(e), _) => Some(e),
        }
    }

    /// Settles the checks of this thread whose values are computed.
    fn settle_known_checks(&self) {
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
        // One error is told; those that follow it are mostly its consequences.
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

    fn copy_out(&self, handle: u64, out: &mut [u8], reason: CutReason) -> Result<()> {
        let slot = self.slot(handle, reason)?;
        let _reading = Reading(&slot);
        if let Some(d) = device::loaded() {
            d.check_process().map_err(|f| f.error())?;
        }
        let buffer = slot.wait().as_ref().map_err(|f| f.error())?;
        count(&COUNTERS.downloads, 1);
        count(&COUNTERS.download_bytes, out.len() as u64);
        buffer.to_host(out).map_err(|e| {
            let f = Failure::device("computing on device tpu", &e);
            match slot.origin() {
                "" => f.error(),
                ops => f.note(format!("in a segment with the ops: {ops}")).error(),
            }
        })
    }

    /// Cuts the current thread's segment.
    pub(crate) fn cut(&self, reason: CutReason) {
        let mut guard = self.recording.lock();
        let id = guard.stream();
        let segment = self.take(&mut guard, id, reason);
        drop(guard);
        if let Some(segment) = segment {
            let _ = self.run(segment);
        }
    }

    /// Cuts all segments.
    pub(crate) fn cut_all(&self, reason: CutReason) {
        let mut guard = self.recording.lock();
        let segments: Vec<Segment> =
            (0..guard.streams.len()).filter_map(|id| self.take(&mut guard, id, reason)).collect();
        drop(guard);
        for segment in segments {
            let _ = self.run(segment);
        }
    }

    /// Cuts all segments and waits for everything that was launched.
    pub(crate) fn synchronize(&self) -> Result<()> {
        self.cut_all(CutReason::Synchronize);
        if let Some(d) = device::loaded() {
            d.check_process().map_err(|f| f.error())?;
        }
        self.await_background();
        self.answer_checks()?;
        let launched = std::mem::take(&mut *self.in_flight.lock());
        for l in launched {
            l.event.await_ready().map_err(|e| Failure::device("executing on device tpu", &e).error())?;
        }
        Ok(())
    }

    /// Waits until nothing is left in the background.
    fn await_background(&self) {
        if self.in_background.load(Relaxed) > 0 {
            let all: Vec<_> = self.compiling.lock().iter().map(|c| c.launched.clone()).collect();
            all.iter().for_each(|l| {
                l.wait();
            });
        }
    }

    pub(crate) fn metrics(&self) -> metrics::Metrics {
        let mut m = metrics::snapshot();
        let r = self.recording.lock();
        m.nodes_recorded = r.nodes_recorded;
        m.live_values = (r.entries.len() - r.free.len()) as u64;
        m.cached_executables = self.cache.len() as u64;
        m
    }

    pub(crate) fn reset_metrics(&self) {
        self.recording.lock().nodes_recorded = 0;
        metrics::reset();
    }

    pub(crate) fn set_check_numerics(&self, on: bool) {
        self.check_numerics.store(on, Relaxed);
    }

    pub(crate) fn set_max_nodes(&self, n: usize) {
        self.max_nodes.store(n.clamp(1, MAX_ITEMS / 64), Relaxed);
    }

    pub(crate) fn set_max_pending_bytes(&self, n: usize) {
        self.max_pending_bytes.store(n, Relaxed);
    }

    pub(crate) fn set_early_ops(&self, n: usize) {
        self.early_ops.store(n, Relaxed);
    }

    pub(crate) fn set_hash_mask(&self, mask: u64) {
        self.cache.clear();
        self.hash_mask.store(mask, Relaxed);
    }

    pub(crate) fn clear_cache(&self) {
        self.cache.clear();
    }

    /// The module that would compute a value that is still to be computed.
    pub(crate) fn dump(&self, handle: u64, platform: Platform) -> Result<String> {
        let (form, value) = self.pending(handle)?;
        lower::module(&form, &[value], platform).map_err(|f| f.error())
    }

    /// The module that would compute several values of one segment.
    pub(crate) fn dump_all(&self, handles: &[u64], platform: Platform) -> Result<String> {
        let mut r = self.recording.lock();
        let mut from = None;
        let mut values = Vec::with_capacity(handles.len());
        for &h in handles {
            match &r.entry(h)?.state {
                State::Pending { stream, value } if from.is_none_or(|s| s == *stream) => {
                    from = Some(*stream);
                    values.push(*value);
                }
                _ => return Err(Error::value("the values are not all to be computed by one segment")),
            }
        }
        let Some(stream) = from else { return Err(Error::value("no value was named")) };
        let form = r.streams[stream as usize].body.form.clone();
        drop(r);
        lower::module(&form, &values, platform).map_err(|f| f.error())
    }

    /// The ops that would compute a value that is still to be computed, a line each.
    pub(crate) fn dump_graph(&self, handle: u64) -> Result<String> {
        let (form, value) = self.pending(handle)?;
        Ok(form.graph(value))
    }

    /// The segment that computes a value, and which of its values that is.
    fn pending(&self, handle: u64) -> Result<(Form, u32)> {
        let mut r = self.recording.lock();
        let (stream, value) = match &r.entry(handle)?.state {
            State::Pending { stream, value } => (*stream as usize, *value),
            _ => {
                return Err(Error::value("the value is computed already; only one still to be computed has a program"));
            }
        };
        Ok((r.streams[stream].body.form.clone(), value))
    }
}

/// A segment that is in the background, until dropped.
struct Background(Arc<Launched>);
impl Drop for Background {
    fn drop(&mut self) {
        let engine = crate::engine();
        engine.compiling.lock().retain(|c| !Arc::ptr_eq(&c.launched, &self.0));
        let _ = self.0.set(());
        engine.in_background.fetch_sub(1, Relaxed);
    }
}

/// One reader less, when dropped.
struct Reading<'a>(&'a Slot);
impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Relaxed);
    }
}

/// Marks the arguments that nobody can see any more and whose memory a result of the same type can take.
fn donate(body: &mut Body, stream: u32) {
    let mut wanted: Option<Vec<(u64, u32)>> = None;
    for (i, slot) in body.slots.iter().enumerate() {
        if !slot.may_be_donated(stream) {
            continue;
        }
        let wanted = wanted.get_or_insert_with(|| {
            let mut list: Vec<u64> =
                body.form.outputs.iter().map(|&o| form::hash_meta(&body.form.values[o as usize])).collect();
            list.sort_unstable();
            let mut counts: Vec<(u64, u32)> = Vec::new();
            for h in list {
                match counts.last_mut() {
                    Some((last, n)) if *last == h => *n += 1,
                    _ => counts.push((h, 1)),
                }
            }
            counts
        });
        if let Ok(at) = wanted.binary_search_by_key(&form::hash_meta(&slot.meta), |w| w.0)
            && wanted[at].1 > 0
        {
            wanted[at].1 -= 1;
            body.form.args[i].donated = true;
            body.hash = mix(body.hash, i as u64 | 1 << 40);
            count(&COUNTERS.donations, 1);
        }
    }
}

/// The vectors of numbers on the device, each uploaded only if it changed since the executable last ran.
fn upload_numbers(
    device: &Device,
    compiled: &Compiled,
    numbers: &[Vec<u8>; DTYPES],
) -> std::result::Result<SmallVec<[Arc<Buffer>; 2]>, Arc<Failure>> {
    let mut out = SmallVec::new();
    if compiled.form.numbers.iter().all(|&n| n == 0) {
        return Ok(out);
    }
    let mut last = compiled.numbers.lock();
    for (d, bytes) in numbers.iter().enumerate().filter(|(_, b)| !b.is_empty()) {
        if let Some((old, buffer)) = &last[d]
            && old == bytes
        {
            out.push(buffer.clone());
            continue;
        }
        let buffer = device
            .client
            .buffer_from_host(bytes, device::element_type(DType::ALL[d]), &[i64::from(compiled.form.numbers[d])])
            .map_err(|e| Failure::device("copying numbers to device tpu", &e))?;
        count(&COUNTERS.uploads, 1);
        count(&COUNTERS.upload_bytes, bytes.len() as u64);
        let buffer = Arc::new(buffer);
        out.push(buffer.clone());
        match &mut last[d] {
            Some((old, slot)) => {
                old.clone_from(bytes);
                *slot = buffer;
            }
            none => *none = Some((bytes.clone(), buffer)),
        }
    }
    Ok(out)
}

/// Refuses results with NaN or infinities that came from finite inputs.
fn numerics(body: &Body, outputs: &[Arc<Slot>]) -> std::result::Result<(), Failure> {
    let finite = |slot: &Slot| -> std::result::Result<bool, Failure> {
        let Ok(buffer) = slot.wait() else { return Ok(true) };
        if !slot.meta.dtype.is_inexact() {
            return Ok(true);
        }
        let bytes = buffer.to_vec().map_err(|e| Failure::device("reading from device tpu", &e))?;
        Ok(all_finite(slot.meta.dtype, &bytes))
    };
    for (i, out) in outputs.iter().enumerate() {
        if finite(out)? {
            continue;
        }
        let numbers_finite = body.numbers.iter().enumerate().all(|(d, b)| all_finite(DType::ALL[d], b));
        let mut inputs_finite = numbers_finite;
        for slot in &body.slots {
            inputs_finite = inputs_finite && finite(slot)?;
        }
        if inputs_finite {
            let names = body.form.summary();
            return Err(Failure::new(
                ErrorKind::Runtime,
                format!("Function '{names}' returned nan or inf values in its {i}th output, from finite inputs."),
            ));
        }
    }
    Ok(())
}

fn all_finite(dtype: DType, bytes: &[u8]) -> bool {
    let words16 = |mask: u16| bytes.chunks_exact(2).all(|b| u16::from_ne_bytes([b[0], b[1]]) & mask != mask);
    match dtype.to_real() {
        DType::F16 => words16(0x7c00),
        DType::BF16 => words16(0x7f80),
        DType::F32 => bytes.chunks_exact(4).all(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]]).is_finite()),
        DType::F64 => bytes
            .chunks_exact(8)
            .all(|b| f64::from_ne_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]).is_finite()),
        _ => true,
    }
}

/// A plugin that cannot serialise leaves the disk cache unused; said once.
fn log_unserialisable(e: &torchtpu_pjrt::Error) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Relaxed) {
        crate::disk::warn(&format!("executables of this plugin cannot be kept on disk: {}", e.message()));
    }
}

/// The engine as the tensor crate sees it.
pub(crate) struct Tpu;

impl Backend for Tpu {
    #[inline]
    fn record(&self, op: &Prim, x: &[Operand<'_>], y: &[Meta], handles: &mut [u64]) -> Result<()> {
        device::get()?;
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
        if let Ok(e) = crate::engine().recording.lock().entry(handle) {
            e.refs += 1;
        }
    }

    #[inline]
    fn release(&self, handle: u64) {
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
        // A buffer is freed outside of the lock, here.
    }

    fn read(&self, handle: u64, out: &mut [u8]) -> Result<()> {
        let engine = crate::engine();
        engine.copy_out(handle, out, CutReason::Read)?;
        engine.answer_checks()
    }

    fn defer_check(&self, handle: u64, error: DeferredError) -> Result<()> {
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
        let device = device::get()?;
        device.check_process().map_err(|f| f.error())?;
        let dims: SmallVec<[i64; 8]> = meta.dims.iter().map(|&d| d as i64).collect();
        let buffer = device
            .client
            .buffer_from_host(bytes, device::element_type(meta.dtype), &dims)
            .map_err(|e| Failure::device("copying to device tpu", &e).error())?;
        count(&COUNTERS.uploads, 1);
        count(&COUNTERS.upload_bytes, bytes.len() as u64);
        let state = State::Held(Arc::new(Slot::ready(*meta, buffer)));
        Ok(crate::engine().recording.lock().new_entry(state).1)
    }

    fn calls_kernels(&self) -> bool {
        device::get().is_ok_and(|d| d.platform == Platform::Cpu { kernels: true })
    }

    fn step_boundary(&self) {
        crate::step_boundary();
    }

    fn device_count(&self) -> Result<usize> {
        // Values are placed on the first device only.
        device::get().map(|_| 1)
    }
}
