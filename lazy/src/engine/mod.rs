//! The engine: values by handle, streams of recorded ops, cuts, launches.
//!
//! Recording takes one lock for some tens of nanoseconds. Compiling, launching and waiting happen without it. The
//! values of a launched segment are [`Slot`]s, so all threads go on recording with them. The thread that makes a cut
//! also launches: PJRT computes on its own threads, and one more thread in between would cost a wake-up per segment.
//!
//! Each thread records its own stream, so that the segments of independent threads repeat. If a thread uses a value of
//! another one, the stream that computes the value is cut.

mod agreeing;
mod bisect;
mod checks;
mod choosing;
mod collectives;
mod dumps;
mod interpreting;
mod launching;
mod pieces_launch;
mod planned;
mod recording;
mod steps;
mod tpu;

pub(crate) use checks::set_early as set_early_checks;
pub(crate) use tpu::Tpu;

use crate::cache::ProcessCache;
use crate::check::Check;
use crate::collectives::{Turn, await_buffer, is_device_running, poll_until};
use crate::cut::CutReason;
use crate::device::{self, Device};
use crate::failure::Failure;
use crate::families::Families;
use crate::form::{DTYPES, Form, Input, MAX_ITEMS};
use crate::growing::Growing;
use crate::metrics::{self, COUNTERS, count};
use crate::pieces::{Divide, Pieces};
use crate::repeat::{Early, Repeat};
use crate::slot::Slot;
use crate::xla_cpu::collectives::Chain;
use crate::xla_cpu::interpret::{Interpret, Interpreter};
use crate::xla_cpu::pool;
use crate::{bundle, lower, options, plan};
use checks::Dependences;
use parking_lot::Mutex;
use recording::stale;
use smallvec::SmallVec;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use steps::Step;
use torchtpu_pjrt::{Buffer, Event};
use torchtpu_stablehlo::Profile;
use torchtpu_tensor::comm::Cut;
use torchtpu_tensor::{ErrorKind, Result, site};

/// On XLA:CPU, whose compiler takes longer per op beyond about this many.
pub(crate) const DEFAULT_MAX_NODES: usize = 1500;
/// Where a training step should be one program.
const STEP_MAX_NODES: usize = 1 << 15;
/// For a device that does not report how much memory it has.
const DEFAULT_MAX_PENDING_BYTES: usize = 2 << 30;
/// On XLA:CPU a segment ends when its values in use take more than this many of [`MANY_BYTES`], and more than this many
/// of its largest value.
///
/// An execution takes its temporaries from `malloc` in one piece. glibc returns a piece of more than 32 MB to the
/// system as soon as it is free, so every page faults again at every step: 10 to 20 % of a GPT step. Therefore values
/// in use may take those 32 MB. A value that leaves a segment has a piece of its own, which stays. A chain of ops on
/// few large values is fused, however large they are.
const MANY: usize = 8;
const MANY_BYTES: usize = 4 << 20;
/// Number of launched segments that have not finished: enough to keep a device busy, few enough to bound its memory.
const MAX_IN_FLIGHT_FUSED: usize = 2;
/// Segments of one op are short.
const MAX_IN_FLIGHT_STRICT: usize = 64;
const NO_OWNER: u32 = u32::MAX;

/// A handle's target.
struct Entry {
    refs: u32,
    /// Increases when the entry is reused, so that a stale handle is noticed.
    generation: u32,
    state: State,
    /// The segment in which the value last became an argument, and the number of that argument.
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
    /// The entry of each value that has a handle.
    owners: Vec<u32>,
    /// Values behind the arguments.
    slots: Vec<Arc<Slot>>,
    /// Numbers, packed by dtype.
    numbers: [Vec<u8>; DTYPES],
    /// Numbers that several ops share, by name.
    shared: Vec<(u64, Input)>,
    /// Fills that an optimizer recorded in its step: see [`Engine::part_made_in_step`].
    made_in_step: Vec<u32>,
    /// Other fills of few elements: see [`Body::add_totals`].
    small_fills: Vec<u32>,
    /// Whether an op [has effects](torchtpu_tensor::op::Facts::has_effects).
    has_effects: bool,
    /// The checks that values depend on.
    dependences: Dependences,
}

impl Body {
    fn clear(&mut self) {
        self.form.clear();
        self.hash = 0;
        self.owners.clear();
        self.slots.clear();
        self.numbers.iter_mut().for_each(Vec::clear);
        self.shared.clear();
        self.made_in_step.clear();
        self.small_fills.clear();
        self.has_effects = false;
        self.dependences.clear();
    }
}

/// The state of one recording thread.
struct Stream {
    body: Body,
    /// Number of the segment, unique among all streams.
    serial: u64,
    /// Bytes of pending values that have a handle.
    live_bytes: usize,
    /// Bytes of the largest value that the segment has computed, with or without a handle.
    largest: usize,
    repeat: Repeat,
    early: Early,
    step: Step,
    /// The last segment that went to the background. Later ones are launched after it.
    background: Option<Arc<Launched>>,
    /// The first cuts since the last segment with effects.
    cuts: Vec<Cut>,
}

/// A segment that was cut.
struct Segment {
    body: Body,
    outputs: Outputs,
    reason: CutReason,
    /// Whether Debug mode waits for the segment and checks its results.
    debug: bool,
    /// The stream of the segment.
    stream: u32,
    /// A segment that makes arguments of this one. It is launched first.
    first: Option<Box<Segment>>,
    /// The place of a segment with effects in the order of such launches.
    turn: Option<Turn>,
    /// The first cuts after the last segment with effects, up to that of this one, if the ranks agree about programs.
    cuts: Vec<Cut>,
}

impl Segment {
    fn new(body: Body, outputs: Outputs, reason: CutReason, debug: bool, stream: u32) -> Segment {
        Segment { body, outputs, reason, debug, stream, first: None, turn: None, cuts: Vec::new() }
    }
}

/// Set when a segment that is compiled in the background has been launched or has failed.
type Launched = OnceLock<()>;

/// A program that is being compiled in the background.
struct Compiling {
    /// Its hash and its form, if a later equal segment should wait for it.
    wanted: Option<(u64, Form)>,
    /// Whether no segment needs it yet.
    is_spare: bool,
    launched: Arc<Launched>,
}

/// Number of segments that are compiled in the background at the same time. More would only share the processor.
const MAX_BACKGROUND: usize = 4;

/// A segment that was launched.
struct InFlight {
    event: Arc<Event>,
    /// Freeing a donated buffer waits for the program that took it. So it is freed after the program has ended.
    _donated: SmallVec<[Arc<Slot>; 8]>,
    _pooled: Vec<Buffer>,
}

/// The slots that a segment must fill. Dropping them without an outcome, as a panic does, marks them as failed, so that
/// no reader waits forever.
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
    /// The cuts that all ranks make: see [`agreeing`].
    adopted: Vec<Cut>,
}

/// Settings that the program or the environment made. The device decides the others.
#[derive(Default)]
struct Requested {
    max_nodes: Option<usize>,
    pending_bytes: Option<usize>,
    early_ops: Option<usize>,
    agreement: bool,
}

pub(crate) struct Engine {
    requested: Mutex<Requested>,
    recording: Mutex<Recording>,
    /// [Checks](checks) that may be open.
    checks: Mutex<Vec<Arc<Check>>>,
    /// Failures of checks that the program was not told of.
    untold: Mutex<Vec<Arc<Failure>>>,
    cache: ProcessCache,
    families: Families,
    growing: Growing,
    pieces: Pieces,
    interpreter: Interpreter,
    in_flight: Mutex<VecDeque<InFlight>>,
    chain: Chain,
    /// Why ranks may have launched different programs. Later programs with collectives have this failure.
    out_of_step: OnceLock<Arc<Failure>>,
    peers: collectives::Peers,
    /// Whether ranks agree about programs with collectives before they launch them.
    agrees: AtomicBool,
    /// Whether segments of Fused mode take memory from the pool.
    pools: AtomicBool,
    /// Whether programs state the precision of products.
    multiplies_in_passes: AtomicBool,
    /// Whether the cut at the end of a training step waits for the next op.
    cuts_steps_lazily: AtomicBool,
    /// Bits of a segment's hash that the cache uses. Tests of collisions use fewer.
    hash_mask: AtomicU64,
    max_nodes: AtomicUsize,
    max_pending_bytes: AtomicUsize,
    /// [`MANY_BYTES`] on XLA:CPU; see [`MANY`].
    many_bytes: AtomicUsize,
    /// A segment of this many ops is launched early if the device would idle: see [`Early`].
    early_ops: AtomicUsize,
    compiling: Mutex<Vec<Compiling>>,
    /// Number of segments in the background. At 0, a launch need not search for them.
    in_background: AtomicUsize,
    /// The threads of segments in the background. Some may have ended.
    threads: Mutex<Vec<JoinHandle<()>>>,
    check_numerics: AtomicBool,
    /// One bit for each of the last 64 large segments: whether it had to be compiled.
    compiled_lately: AtomicU64,
    dumped: AtomicU64,
}

impl Default for Engine {
    fn default() -> Engine {
        let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<usize>().ok());
        let requested = Requested {
            max_nodes: number("TORCHTPU_SEGMENT_OPS"),
            pending_bytes: number("TORCHTPU_PENDING_BYTES"),
            early_ops: number("TORCHTPU_EARLY_OPS"),
            agreement: std::env::var("TORCHTPU_AGREEMENT").is_ok_and(|v| v.trim() == "always"),
        };
        let engine = Engine {
            requested: Mutex::new(requested),
            recording: Mutex::default(),
            checks: Mutex::default(),
            untold: Mutex::default(),
            cache: ProcessCache::default(),
            families: Families::default(),
            growing: Growing::default(),
            pieces: Pieces::from_environment(),
            interpreter: Interpreter::from_environment(),
            in_flight: Mutex::default(),
            chain: Chain::default(),
            out_of_step: OnceLock::new(),
            peers: collectives::Peers::default(),
            agrees: AtomicBool::new(false),
            pools: AtomicBool::new(false),
            multiplies_in_passes: AtomicBool::new(false),
            cuts_steps_lazily: AtomicBool::new(false),
            hash_mask: AtomicU64::new(u64::MAX),
            max_nodes: AtomicUsize::new(DEFAULT_MAX_NODES),
            max_pending_bytes: AtomicUsize::new(DEFAULT_MAX_PENDING_BYTES),
            many_bytes: AtomicUsize::new(usize::MAX),
            early_ops: AtomicUsize::new(usize::MAX),
            compiling: Mutex::default(),
            in_background: AtomicUsize::new(0),
            threads: Mutex::default(),
            check_numerics: AtomicBool::new(std::env::var("TORCHTPU_CHECK_NUMERICS").is_ok_and(|v| v == "1")),
            compiled_lately: AtomicU64::new(0),
            dumped: AtomicU64::new(0),
        };
        engine.configure();
        engine
    }
}

/// The current thread's stream, which the thread releases when it ends.
///
/// The thread that ends the process drops it too, and then waits for the launched programs, before the destructors of
/// the plugin run. It does not wait for programs that were never launched.
struct StreamGuard;
impl Drop for StreamGuard {
    fn drop(&mut self) {
        let id = STREAM.replace(NO_STREAM);
        if id == NO_STREAM || torchtpu_pjrt::is_forked() {
            return;
        }
        let engine = crate::engine();
        engine.recording.lock().free_streams.push(id);
        if device::loaded().is_some() {
            engine.await_background(true);
        }
        let launched = std::mem::take(&mut *engine.in_flight.lock());
        // If a program cannot end, this fails. Whoever reads its values gets that error, so it is ignored here.
        launched.iter().for_each(|l| drop(engine.await_launch(&l.event)));
    }
}
const NO_STREAM: u32 = u32::MAX;
thread_local! {
    static STREAM: Cell<u32> = const { Cell::new(NO_STREAM) };
    static STREAM_GUARD: StreamGuard = const { StreamGuard };
}

impl Engine {
    /// Return the slot of a value, after a cut of the segment that computes it. The slot has one more reader.
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
            // The slot carries the failure too.
            let _ = self.run(segment);
        }
        Ok(slot)
    }

    fn copy_out(&self, handle: u64, out: &mut [u8], reason: CutReason) -> Result<()> {
        if let Some(plan) = plan::active()
            && plan.skips_reads()
            && matches!(self.recording.lock().entry(handle)?.state, State::Pending { .. })
        {
            return plan.read(out);
        }
        let slot = self.slot(handle, reason)?;
        let _reading = Reading(&slot);
        if !plan::is_active()
            && let Some(d) = device::loaded()
        {
            d.check_process().map_err(|f| f.error())?;
        }
        if let Some(plan) = plan::active()
            && slot.is_planned()
        {
            return plan.read(out);
        }
        if self.agrees.load(Relaxed) && !plan::is_active() {
            poll_until(|| slot.is_launched())?;
        }
        if let Some(f) = slot.failure() {
            return Err(self.tell(f));
        }
        if let Some(f) = self.failure_of_checks(&slot) {
            return Err(self.tell(&f));
        }
        count(&COUNTERS.downloads, 1);
        count(&COUNTERS.download_bytes, out.len() as u64);
        self.copy_slot(&slot, out)
    }

    /// Wait for a value that has no failure, and copy its bytes, whatever its checks say.
    fn copy_slot(&self, slot: &Slot, out: &mut [u8]) -> Result<()> {
        if let Some(f) = slot.failure() {
            return Err(f.error());
        }
        if !slot.is_computed()
            && (self.chain.is_running() || is_device_running())
            && let Ok(buffer) = slot.buffer()
        {
            await_buffer(buffer)?;
        }
        slot.copy_to(out).map_err(|f| f.error())
    }

    /// Cut the current thread's segment.
    pub(crate) fn cut(&self, reason: CutReason) {
        if torchtpu_pjrt::is_forked() {
            return;
        }
        let mut guard = self.recording.lock();
        let id = guard.stream();
        let segment = self.take(&mut guard, id, reason);
        drop(guard);
        if let Some(segment) = segment {
            let _ = self.run(segment);
        }
    }

    /// Cut all segments.
    pub(crate) fn cut_all(&self, reason: CutReason) {
        if torchtpu_pjrt::is_forked() {
            return;
        }
        let mut guard = self.recording.lock();
        let segments: Vec<Segment> =
            (0..guard.streams.len()).filter_map(|id| self.take(&mut guard, id, reason)).collect();
        drop(guard);
        for segment in segments {
            let _ = self.run(segment);
        }
    }

    /// Cut all segments, and wait for all launched programs.
    pub(crate) fn synchronize(&self) -> Result<()> {
        self.cut_all(CutReason::Synchronize);
        if let Some(d) = device::loaded() {
            d.check_process().map_err(|f| f.error())?;
        }
        self.await_background(false);
        // The launches stay in the list during the wait, since other threads may record events.
        let events: Vec<_> = self.in_flight.lock().iter().map(|l| l.event.clone()).collect();
        let mut result = Ok(());
        for event in &events {
            let failed = |e: torchtpu_pjrt::Error| Failure::device("executing on device tpu", &e).error();
            let ended = self.await_launch(event).and_then(|()| event.await_ready().map_err(failed));
            result = result.and(ended);
        }
        let mut list = self.in_flight.lock();
        let (ended, others) = list.drain(..).partition(|l| events.iter().any(|e| Arc::ptr_eq(e, &l.event)));
        *list = others;
        drop(list);
        let ended: VecDeque<InFlight> = ended;
        drop(ended);
        result?;
        self.tell_first(true)
    }

    /// Raise the error of a check that failed, if none was raised for it yet. If it `waits`, open checks are awaited.
    pub(crate) fn tell_first(&self, waits: bool) -> Result<()> {
        match self.first_untold(waits) {
            None => Ok(()),
            Some(f) => Err(self.tell(&f)),
        }
    }

    /// Cut the current thread's segment, and record an event after all launched programs.
    pub(crate) fn record_event(&self, timed: bool) -> Result<crate::Event> {
        if let Some(d) = device::loaded() {
            d.check_process().map_err(|f| f.error())?;
        }
        self.cut(CutReason::Explicit);
        self.await_background(false);
        let list = self.in_flight.lock();
        let launches = list.iter().map(|l| l.event.clone()).filter(|e| !e.is_ready().unwrap_or(true)).collect();
        drop(list);
        crate::Event::new(launches, timed)
    }

    /// Wait until the device and the threads of this engine are idle, so that a forked child finds no lock held. Errors
    /// stay with the values.
    pub(crate) fn quiesce(&self) {
        if !device::loaded().is_some_and(Device::is_ours) {
            return;
        }
        let threads = std::mem::take(&mut *self.threads.lock());
        if is_device_running() && poll_until(|| threads.iter().all(JoinHandle::is_finished)).is_err() {
            return;
        }
        // A panicking thread drops its outputs, which marks them as failed.
        threads.into_iter().for_each(|t| drop(t.join()));
        let launched = std::mem::take(&mut *self.in_flight.lock());
        // If a program cannot end, this fails. Whoever reads its values gets that error, so it is ignored here.
        launched.iter().for_each(|l| drop(self.await_launch(&l.event)));
    }

    pub(crate) fn metrics(&self) -> metrics::Metrics {
        let mut m = metrics::snapshot();
        let r = self.recording.lock();
        m.nodes_recorded = r.nodes_recorded;
        m.live_values = (r.entries.len() - r.free.len()) as u64;
        m.cached_executables = self.cache.len() as u64;
        m.pool_bytes = pool::shared().bytes() as u64;
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
        self.requested.lock().max_nodes = Some(n);
        self.configure();
    }

    pub(crate) fn set_max_pending_bytes(&self, n: Option<usize>) {
        self.requested.lock().pending_bytes = n;
        self.configure();
    }

    pub(crate) fn set_early_ops(&self, n: usize) {
        self.requested.lock().early_ops = Some(n);
        self.configure();
    }

    pub(crate) fn set_agreement(&self, always: bool) {
        self.requested.lock().agreement = always;
        self.configure();
    }

    /// Set the limits and switches that depend on the device. A limit that the program or the environment set stays.
    /// Call this before the first op is recorded, so that all segments are cut by the same rules.
    pub(crate) fn configure(&self) {
        let requested = self.requested.lock();
        let (profile, memory, makes_buffers) = match (plan::active(), device::loaded()) {
            (Some(plan), _) => (&Profile::TPU, Some(plan.memory_bytes()), false),
            (None, Some(d)) => (&d.profile, d.memory_bytes(), d.client.makes_uninitialized_buffers()),
            // Before a device is loaded, record as for XLA:CPU.
            (None, None) => (&Profile::XLA_CPU, None, false),
        };
        let max_nodes = if profile.compiles_whole_steps { STEP_MAX_NODES } else { DEFAULT_MAX_NODES };
        let memory = memory.filter(|_| profile.compiles_whole_steps);
        let pending_bytes = memory.map_or(DEFAULT_MAX_PENDING_BYTES, |n| n as usize);
        let many_bytes = if profile.pools && requested.pending_bytes.is_none() { MANY_BYTES } else { usize::MAX };
        self.max_nodes.store(requested.max_nodes.unwrap_or(max_nodes).clamp(1, MAX_ITEMS / 64), Relaxed);
        self.max_pending_bytes.store(requested.pending_bytes.unwrap_or(pending_bytes), Relaxed);
        self.many_bytes.store(many_bytes, Relaxed);
        self.early_ops.store(requested.early_ops.unwrap_or(usize::MAX), Relaxed);
        self.multiplies_in_passes.store(profile.multiplies_in_passes, Relaxed);
        self.cuts_steps_lazily.store(profile.compiles_whole_steps, Relaxed);
        self.agrees.store(requested.agreement || !profile.calls_collectives, Relaxed);
        site::set_on(profile.records_lines);
        self.interpreter.set_possible(profile.interprets);
        self.pools.store(profile.pools && makes_buffers, Relaxed);
    }

    pub(crate) fn set_interpret(&self, wanted: Interpret) {
        self.interpreter.set(wanted);
    }

    pub(crate) fn set_divide(&self, divide: Divide) {
        self.pieces.set(divide);
    }
    pub(crate) fn set_hash_mask(&self, mask: u64) {
        self.cache.clear();
        self.hash_mask.store(mask, Relaxed);
    }

    /// See [`crate::save_cache`].
    pub(crate) fn save_cache(&self, path: &std::path::Path) -> Result<usize> {
        let device = device::get()?;
        device.check_process().map_err(|f| f.error())?;
        self.await_background(true);
        let mut executables = Vec::new();
        for c in self.cache.recent(usize::MAX) {
            let ranks = device.ranks(&c.form).map_err(|f| f.error())?;
            let lowered = lower::module(&c.form, &c.form.outputs, &device.profile, &ranks);
            let text = lowered.map_err(|f| f.error())?.text;
            let options = options::list(c.form.options);
            let key = bundle::key(&device.options(&options, &ranks), &text);
            // An executable that was loaded from bytes is not serialized again: its bytes come from the file or bundle.
            // If the file is gone, the executable is compiled.
            let known = c.executable.is_deserialized().then(|| {
                bundle::find(|| key).or_else(|| device.disk.as_ref()?.load(&device.disk_key(&text, &options, &ranks)))
            });
            let written = match known {
                None => c.executable.serialize(),
                Some(Some(bytes)) => Ok(bytes),
                Some(None) => device.compile(&text, &options, &ranks).and_then(|e| e.serialize()),
            };
            match written {
                Ok(bytes) => executables.push((key, bytes)),
                Err(e) => launching::log_unserializable(&e),
            }
        }
        bundle::write(path, &device.bundle_environment(), &executables)?;
        Ok(executables.len())
    }

    pub(crate) fn clear_cache(&self) {
        self.cache.clear();
        self.families.clear();
        self.growing.clear();
        self.pieces.clear();
        self.interpreter.clear();
    }
}

/// One reader of a slot, until dropped.
struct Reading<'a>(&'a Slot);
impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Relaxed);
    }
}
