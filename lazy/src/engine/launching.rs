//! From a segment to values: find or compile its executable, and launch it here or in the background.

use super::choosing::{Launch, Pieces};
use super::pieces_launch::Target;
use super::{
    Body, Compiling, Engine, InFlight, Launched, MAX_BACKGROUND, MAX_IN_FLIGHT_FUSED, MAX_IN_FLIGHT_STRICT, Outputs,
    Segment,
};
use crate::cache::Compiled;
use crate::collectives::{self, Watched};
use crate::cut::CutReason;
use crate::device::Device;
use crate::explain::Explanation;
use crate::failure::Failure;
use crate::form::{DTYPES, Form, mix};
use crate::lower::{self, Module};
use crate::metrics::{COUNTERS, count};
use crate::mode::EagerMode;
use crate::slot::Slot;
use crate::{bundle, device, explain, forbidden, form, mode, options, pieces, plan, precision, types, xla_cpu};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use torchtpu_pjrt::{Buffer, Event, Executable};
use torchtpu_stablehlo::Precision;
use torchtpu_tensor::comm;
use torchtpu_tensor::{DType, ErrorKind};

impl Engine {
    /// Launch a segment here or in the background. Every output gets an outcome in any case.
    pub(super) fn run(&self, mut segment: Segment) -> Result<(), Arc<Failure>> {
        if let Some(first) = segment.first.take() {
            // The values carry the failure.
            let _ = self.run(*first);
        }
        if segment.outputs.0.is_empty() && !segment.body.has_effects {
            if segment.reason == CutReason::StepBoundary
                && let Some(plan) = plan::active()
            {
                plan.step_without_launch();
            }
            count(&COUNTERS.segments_dropped, 1);
            self.recycle(segment.body);
            return Ok(());
        }
        if let Some(plan) = plan::active() {
            return self.plan(&plan, segment);
        }
        let device = device::get().map_err(|e| Arc::new(Failure::new(e.kind(), e.message())));
        match device.and_then(|d| d.check_process().map(|()| d).map_err(Arc::new)) {
            Ok(device) => {
                let launch = self.choose(&mut segment);
                self.carry_out(device, launch, segment)
            }
            Err(f) => self.finish(segment, Err(f)),
        }
    }

    /// Launch a segment in the way that was chosen.
    fn carry_out(&self, device: &'static Device, launch: Launch, mut segment: Segment) -> Result<(), Arc<Failure>> {
        match launch {
            Launch::Agreed(steps) => self.run_agreed(device, segment, steps),
            Launch::Interpreted(it) => match self.interpret(&segment.body, &segment.outputs, it.first_run) {
                Some(result) => self.finish_interpreted(segment, result),
                None => {
                    let launch = self.choose_refused(&mut segment, &it);
                    self.carry_out(device, launch, segment)
                }
            },
            Launch::Pieces(Pieces { nodes, on_device, compile }) => {
                if let Some((hash, whole)) = compile {
                    self.compile_in_background(device, hash, &segment.body.form, segment.reason, whole);
                }
                self.await_stream(segment.stream);
                let is_on_host = |p| on_device.is_some_and(|device| p != device);
                self.launch_pieces(Target::Device(device), segment, &nodes, is_on_host, |_| Ok(()))
            }
            Launch::Known(compiled) => self.launch_next(device, Ok(compiled), segment),
            Launch::Awaited(hash, whole) => {
                let compiled = match whole.wait() {
                    Some(whole) if whole.form == segment.body.form => {
                        self.pieces.record_whole(hash);
                        Ok(self.cache.insert(hash, whole.clone()))
                    }
                    // Another program has the same hash, or compilation failed.
                    _ => self.compile(device, hash, &segment.body.form, segment.reason),
                };
                self.launch_next(device, compiled, segment)
            }
            Launch::New(hash) => match self.to_background(device, hash, segment) {
                None => Ok(()),
                Some(segment) => {
                    let compiled = self.compile(device, hash, &segment.body.form, segment.reason);
                    self.launch_next(device, compiled, segment)
                }
            },
        }
    }

    /// Launch a segment after the last one of its stream that went to the background.
    fn launch_next(
        &self,
        device: &Device,
        compiled: Result<Arc<Compiled>, Arc<Failure>>,
        segment: Segment,
    ) -> Result<(), Arc<Failure>> {
        let before = self.background_of(segment.stream);
        self.launch_after(before, device, compiled, segment)
    }

    /// Return the executable of a body, if it is in memory, and its hash. Without an executable, the form of the body
    /// may become [more general](crate::families).
    pub(super) fn look_up(&self, body: &mut Body) -> (u64, Option<Arc<Compiled>>) {
        let mask = self.hash_mask.load(Relaxed);
        let hash = body.hash & mask;
        let found = self.find(hash, &body.form);
        if found.is_none()
            && let Some((general, offsets)) = self.families.generalize(&mut body.form)
        {
            body.numbers[DType::I64 as usize].extend(offsets.iter().flat_map(|o| o.to_ne_bytes()));
            let hash = general & mask;
            return (hash, self.find(hash, &body.form));
        }
        (hash, found)
    }

    /// Return an executable that is in memory, or that another thread is compiling.
    pub(super) fn find(&self, hash: u64, form: &Form) -> Option<Arc<Compiled>> {
        let found = self.cache.get(hash, form).or_else(|| {
            if self.in_background.load(Relaxed) == 0 {
                return None;
            }
            let same = |c: &&Compiling| c.wanted.as_ref().is_some_and(|(h, f)| *h == hash && f == form);
            let launched = self.compiling.lock().iter().find(same).map(|c| c.launched.clone())?;
            launched.wait();
            self.cache.get(hash, form)
        });
        if found.is_some() {
            count(&COUNTERS.process_cache_hits, 1);
        }
        found
    }

    /// Return the last segment of a stream that went to the background, if it may still be there.
    pub(super) fn background_of(&self, stream: u32) -> Option<Arc<Launched>> {
        if self.in_background.load(Relaxed) == 0 {
            return None;
        }
        self.recording.lock().streams[stream as usize].background.clone()
    }

    /// Wait for the last segment of a stream that went to the background. A later segment may destroy a value that it
    /// reads.
    fn await_stream(&self, stream: u32) {
        if let Some(before) = self.background_of(stream) {
            self.await_launched(&before);
        }
    }

    /// Wait for a segment in the background.
    pub(super) fn await_launched(&self, launched: &Launched) {
        if self.agrees.load(Relaxed) {
            // It may wait for other ranks. An interrupt breaks the groups, and a read of the values then tells of it.
            let may_end = collectives::poll_until(|| launched.get().is_some()).is_ok();
            // A program of an accelerator that cannot end may keep the launch from ending, too.
            if !may_end && collectives::is_device_running() {
                return;
            }
        }
        launched.wait();
    }

    /// Compile and launch a segment on a thread of its own, if the cut is inside of a step. The caller goes on
    /// recording, and the other segments of the step are compiled meanwhile. Otherwise return the segment.
    pub(super) fn to_background(&self, device: &'static Device, hash: u64, segment: Segment) -> Option<Segment> {
        if !segment.reason.is_inside_step() || segment.debug {
            return Some(segment);
        }
        let wanted = Some((hash, segment.body.form.clone()));
        self.in_background(wanted, segment, move |engine, before, segment| {
            let compiled = engine.compile(device, hash, &segment.body.form, segment.reason);
            // The outputs carry the failure. A reader raises it.
            let _ = engine.launch_after(before, device, compiled, segment);
        })
    }

    /// Let `work` launch a segment on a thread of its own, after the earlier segment of the stream that it gets.
    /// `wanted` is the program that it compiles, if later segments may need it. Return the segment if there are too
    /// many such threads.
    pub(super) fn in_background(
        &self,
        wanted: Option<(u64, Form)>,
        segment: Segment,
        work: impl FnOnce(&Engine, Option<Arc<Launched>>, Segment) + Send + 'static,
    ) -> Option<Segment> {
        let launched = Arc::new(Launched::new());
        {
            let mut compiling = self.compiling.lock();
            if compiling.len() >= MAX_BACKGROUND {
                return Some(segment);
            }
            compiling.push(Compiling { wanted, is_spare: false, launched: launched.clone() });
        }
        let before = self.recording.lock().streams[segment.stream as usize].background.replace(launched.clone());
        let shared = Arc::new(Mutex::new(Some(segment)));
        let taken = shared.clone();
        let started = self.in_thread(launched, move |engine| {
            let segment = taken.lock().take();
            if let Some(segment) = segment {
                work(engine, before, segment);
            }
        });
        // No thread could be started: launch here.
        if started { None } else { shared.lock().take() }
    }

    /// Run `work` on a new thread, which counts as one in the background until it ends. Return whether the thread
    /// started.
    pub(super) fn in_thread(&self, launched: Arc<Launched>, work: impl FnOnce(&Engine) + Send + 'static) -> bool {
        self.in_background.fetch_add(1, Relaxed);
        let done = Background(launched);
        let work = move || {
            work(crate::engine());
            drop(done);
        };
        let thread = std::thread::Builder::new().name("torchtpu-compile".into()).spawn(work);
        let Ok(thread) = thread else { return false };
        let mut threads = self.threads.lock();
        threads.retain(|t| !t.is_finished());
        threads.push(thread);
        true
    }

    /// Launch a segment after an earlier one that went to the background. This segment may destroy values that the
    /// earlier one reads.
    pub(super) fn launch_after(
        &self,
        before: Option<Arc<Launched>>,
        device: &Device,
        compiled: Result<Arc<Compiled>, Arc<Failure>>,
        segment: Segment,
    ) -> Result<(), Arc<Failure>> {
        if let Some(before) = before {
            self.await_launched(&before);
        }
        if let Some(turn) = &segment.turn {
            turn.wait();
        }
        let result = compiled.and_then(|c| self.launch(device, &c, &segment.body, &segment.outputs, segment.debug));
        if let Err(failure) = &result
            && segment.body.form.nodes.len() > 1
            && !segment.body.has_effects
        {
            self.launch_in_groups(device, &segment.body, &segment.outputs, segment.reason, failure.clone());
        }
        self.finish(segment, result)
    }

    /// Check the results of a segment that was computed op by op for NaN and infinities, if Debug mode checks them.
    /// Keep the memory of the body for later segments.
    fn finish_interpreted(&self, segment: Segment, result: Result<(), Arc<Failure>>) -> Result<(), Arc<Failure>> {
        let result = result.and_then(|()| match segment.debug && self.check_numerics.load(Relaxed) {
            true => Ok(numerics(&segment.body, &segment.outputs.0)?),
            false => Ok(()),
        });
        self.recycle(segment.body);
        result
    }

    /// Pass a failure to the outputs, and keep the memory of the body.
    pub(super) fn finish(&self, segment: Segment, result: Result<(), Arc<Failure>>) -> Result<(), Arc<Failure>> {
        if let Err(f) = &result {
            segment.outputs.fail(f);
            if segment.body.has_effects {
                collectives::give_up(&segment.body.tickets(), f);
            }
        }
        self.recycle(segment.body);
        result
    }

    /// Return whether all launched programs are known to have ended.
    pub(super) fn is_idle(&self) -> bool {
        self.in_background.load(Relaxed) == 0
            && self.in_flight.try_lock().is_some_and(|l| l.iter().all(|l| l.event.is_ready().unwrap_or(true)))
    }

    /// Launch, and fill the outputs.
    pub(super) fn launch(
        &self,
        device: &Device,
        compiled: &Compiled,
        body: &Body,
        outputs: &Outputs,
        debug: bool,
    ) -> Result<(), Arc<Failure>> {
        let failed = |e: torchtpu_pjrt::Error| {
            let f = Failure::device("executing on device tpu", &e).about_memory(&body.form);
            Arc::new(f.note(format!("in a segment of {} ops: {}", compiled.form.nodes.len(), compiled.summary)))
        };
        let numbers = upload_numbers(device, compiled, &body.numbers)?;
        let pooled = xla_cpu::pool::shared().take(device, &compiled.pooled).map_err(failed)?;
        let token = if compiled.is_chained { Some(self.chain.token(&device.client).map_err(failed)?) } else { None };
        let mut args: SmallVec<[&Buffer; 32]> = SmallVec::new();
        for slot in &body.slots {
            // If an argument has failed, its consumers fail with the same error.
            args.push(slot.buffer()?);
        }
        args.extend(numbers.iter().map(|b| &**b));
        args.extend(&pooled);
        args.extend(token.as_deref());
        let watched = (body.has_effects && !compiled.is_chained).then(|| Watched::begin(&body.tickets()));
        let mut buffers = compiled.executable.execute(&args, &[]).map_err(failed)?;
        drop(args);
        let token = if compiled.is_chained { buffers.pop() } else { None };
        let mut event = token.as_ref().and_then(|token| token.ready_event().ok()).map(Arc::new);
        self.note_effects(token, body, debug).map_err(failed)?;
        if buffers.len() != outputs.0.len() {
            return Err(Arc::new(Failure::new(ErrorKind::Runtime, "the program returned a wrong number of results")));
        }
        count(&COUNTERS.segments_executed, 1);
        count(&COUNTERS.nodes_executed, body.form.nodes.len() as u64);
        if debug {
            buffers.iter().try_for_each(Buffer::await_ready).map_err(failed)?;
        } else {
            event = event.or_else(|| buffers.first().and_then(|b| b.ready_event().ok()).map(Arc::new));
        }
        if let (Some(watched), Some(event)) = (&watched, &event) {
            watched.launched(event.clone());
        }
        for (slot, buffer) in outputs.0.iter().zip(buffers) {
            slot.fill(buffer, Some(&compiled.summary), compiled.form.is_pooled);
        }
        if let Some(event) = event {
            let donated = body.slots.iter().zip(&body.form.args).filter(|(_, a)| a.donated).map(|(s, _)| s.clone());
            self.throttle(InFlight { event, _donated: donated.collect(), _pooled: pooled });
        }
        if debug && self.check_numerics.load(Relaxed) {
            numerics(body, &outputs.0)?;
        }
        Ok(())
    }

    /// Keep the token of a launched program for the next program with collectives. Without one, tell the communicator
    /// that the collectives were launched. With `waits`, wait for the token.
    fn note_effects(&self, token: Option<Buffer>, body: &Body, waits: bool) -> torchtpu_pjrt::Result<()> {
        if let Some(token) = token {
            xla_cpu::collectives::watch(&token, body.tickets());
            if waits {
                token.await_ready()?;
            }
            self.chain.set(token);
        } else if body.has_effects
            && let Ok(comm) = comm::get()
        {
            body.tickets().into_iter().for_each(|ticket| comm.was_launched(ticket));
        }
        Ok(())
    }

    /// Compile a form, or load its executable from disk, and keep it in memory.
    #[cold]
    #[inline(never)]
    pub(super) fn compile(
        &self,
        device: &Device,
        hash: u64,
        form: &Form,
        reason: CutReason,
    ) -> Result<Arc<Compiled>, Arc<Failure>> {
        let compiled = self.build(device, hash, form, reason, true)?;
        Ok(self.cache.insert(hash, Arc::new(compiled)))
    }

    /// The ops of a form, and what differs from the nearest program that was compiled.
    fn describe(&self, form: &Form) -> String {
        let recent = self.cache.recent(64);
        let why = explain::difference(form, recent.iter().map(|c| &c.form));
        format!("{} ops ({}). The difference to the nearest program: {why}", form.nodes.len(), form.summary())
    }

    /// Compile a form, or load its executable from disk, for the caller to keep. If the program is awaited, it may not
    /// be compiled where compilations are [forbidden].
    pub(super) fn build(
        &self,
        device: &Device,
        hash: u64,
        form: &Form,
        reason: CutReason,
        is_awaited: bool,
    ) -> Result<Compiled, Arc<Failure>> {
        let ranks = device.ranks(form).map_err(Arc::new)?;
        let start = Instant::now();
        let place = |f: Failure| {
            let f = f.about_memory(form).about_kernels(form);
            Arc::new(f.note(format!("while compiling a segment of {} ops: {}", form.nodes.len(), form.summary())))
        };
        let Module { text, pooled, precise_products, is_chained } =
            lower::module(form, &form.outputs, &device.profile, &ranks).map_err(place)?;
        if precise_products > 0 {
            let highest = form.nodes.iter().any(|n| n.precision == Precision::Highest);
            let precision = if highest { Precision::Highest } else { precision::get() };
            precision::notify(&device.profile, precision);
        }
        if let Some(folder) = &device.dump_folder {
            let name = format!("{:06}-{hash:016x}.mlir", self.dumped.fetch_add(1, Relaxed));
            let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(folder.join(name), &text));
            if let Err(e) = written {
                crate::disk::warn(&format!("cannot write to TORCHTPU_DUMP_DIR {}: {e}", folder.display()));
            }
        }
        let options = options::list(form.options);
        let loaded = load(device, &text, &options, &ranks);
        let from_disk = loaded.is_some();
        let executable = match loaded {
            Some(e) => {
                count(&COUNTERS.disk_cache_hits, 1);
                e
            }
            None => {
                if is_awaited {
                    forbidden::check(|| self.describe(form)).map_err(Arc::new)?;
                }
                let _notice = Notice::new(form.nodes.len());
                let _compiling = collectives::Compiling::begin();
                compile(device, &text, &options, &ranks)
                    .map_err(|e| place(Failure::device("compiling for device tpu", &e)))?
            }
        };
        let nanos = start.elapsed().as_nanos() as u64;
        count(&COUNTERS.compile_nanos, nanos);
        let recent = self.cache.recent(64);
        let why = explain::difference(form, recent.iter().map(|c| &c.form));
        if reason != CutReason::Piece && self.note(form.nodes.len(), !from_disk) {
            warn_of_compilations(&why);
        }
        explain::keep(Explanation {
            cut: reason,
            nodes: form.nodes.len(),
            ops: form.summary(),
            nanos,
            from_disk,
            is_interpreted: false,
            why,
        });
        Ok(Compiled::new(form.clone(), executable, pooled, is_chained))
    }

    /// Record whether a large segment had to be compiled. Return whether many of the last 64 had to be.
    pub(super) fn note(&self, ops: usize, compiled: bool) -> bool {
        if ops < pieces::MIN_DIVIDED_OPS {
            return false;
        }
        let push = |r: u64| Some(r << 1 | u64::from(compiled));
        let before = self.compiled_lately.fetch_update(Relaxed, Relaxed, push).unwrap_or(0);
        compiled && before.count_ones() + 1 >= MANY_COMPILED
    }

    /// Wait until a launched program has ended. Its own error stays with its event.
    ///
    /// # Errors
    /// If the program cannot end, since other ranks are gone or late, or the user interrupts the wait for them.
    pub(crate) fn await_launch(&self, event: &Arc<Event>) -> torchtpu_tensor::Result<()> {
        if collectives::is_device_running() {
            return collectives::await_event(event);
        }
        if self.chain.is_running() {
            // An interrupt breaks the groups, and so ends the program. A read of its values then tells of it.
            let _ = collectives::await_event(event);
        }
        drop(event.await_ready());
        Ok(())
    }

    /// Wait until few enough segments are in flight.
    pub(super) fn throttle(&self, launched: InFlight) {
        let limit = if mode::get() == EagerMode::Fused { MAX_IN_FLIGHT_FUSED } else { MAX_IN_FLIGHT_STRICT };
        let mut list = self.in_flight.lock();
        list.push_back(launched);
        while let Some(oldest) = list.front().map(|l| l.event.clone()) {
            let done = oldest.is_ready().unwrap_or(true);
            if !done && list.len() <= limit {
                return;
            }
            // The launch stays in the list during the wait, since other threads may record events. A read of its values
            // raises its error.
            if !done {
                // A read of the values tells of an interrupt, and of a program that cannot end.
                let may_end = MutexGuard::unlocked(&mut list, || self.await_launch(&oldest).is_ok());
                if !may_end {
                    return;
                }
            }
            if list.front().is_some_and(|l| Arc::ptr_eq(&l.event, &oldest)) {
                let ended = list.pop_front();
                MutexGuard::unlocked(&mut list, || drop(ended));
            }
        }
    }

    pub(super) fn recycle(&self, mut body: Body) {
        // Dropping ops and buffers may take long, so do it after the lock is released.
        body.clear();
        let mut r = self.recording.lock();
        if r.spare.len() < 4 {
            r.spare.push(body);
        }
    }

    /// Wait until no segment is in the background. With `spare_too`, wait also for programs that no segment needs yet.
    pub(super) fn await_background(&self, spare_too: bool) {
        if self.in_background.load(Relaxed) > 0 {
            let compiling = self.compiling.lock();
            let all = compiling.iter().filter(|c| spare_too || !c.is_spare).map(|c| c.launched.clone());
            let all: Vec<_> = all.collect();
            drop(compiling);
            all.iter().for_each(|l| self.await_launched(l));
        }
    }
}

/// Load the executable of a program from the bundle of this device, or from the disk.
fn load(device: &Device, text: &str, options: &options::List, ranks: &[usize]) -> Option<Executable> {
    // An executable that does not load is compiled.
    let bundled = bundle::find(|| bundle::key(&device.options(options, ranks), text));
    if let Some(executable) = bundled.and_then(|bytes| device.client.deserialize(&bytes).ok()) {
        return Some(executable);
    }
    let disk = device.disk.as_ref()?;
    let key = device.disk_key(text, options, ranks);
    let bytes = disk.load(&key)?;
    device.client.deserialize(&bytes).inspect_err(|e| disk.reject(&key, e.message())).ok()
}

/// Compile a program, and store its executable on the disk.
fn compile(device: &Device, text: &str, options: &options::List, ranks: &[usize]) -> torchtpu_pjrt::Result<Executable> {
    let executable = device.compile(text, options, ranks)?;
    count(&COUNTERS.compilations, 1);
    if let Some(disk) = &device.disk {
        // Options may have changed meanwhile. The key is that of the compiled program.
        match executable.serialize() {
            Ok(bytes) => disk.store(&device.disk_key(text, options, ranks), &bytes),
            Err(e) => log_unserializable(&e),
        }
    }
    Ok(executable)
}

/// Number of new programs among the last 64 large ones that is too high for a first step.
const MANY_COMPILED: u32 = 40;

/// Warn once in a process that its programs never repeat.
#[cold]
pub(super) fn warn_of_compilations(why: &str) {
    static PRINTED: AtomicBool = AtomicBool::new(false);
    if !PRINTED.swap(true, Relaxed) {
        crate::disk::warn(&format!(
            "{MANY_COMPILED} of the last 64 large programs of device tpu had to be compiled. The difference of the \
            last one: {why}. Each new shape, and each new path through the code, is a new program. torch.tpu.explain() \
            lists them"
        ));
    }
}

/// Print once in a process that a program takes long to compile, while the compiler runs.
struct Notice(Option<mpsc::Sender<()>>);

impl Notice {
    const AFTER: Duration = Duration::from_secs(10);
    /// The compiler never takes that long for smaller programs.
    const FEWEST_OPS: usize = 50;

    fn new(ops: usize) -> Notice {
        static PRINTED: AtomicBool = AtomicBool::new(false);
        if ops < Notice::FEWEST_OPS || PRINTED.load(Relaxed) {
            return Notice(None);
        }
        let (done, wait) = mpsc::channel::<()>();
        let watch = move || {
            if wait.recv_timeout(Notice::AFTER) == Err(mpsc::RecvTimeoutError::Timeout) && !PRINTED.swap(true, Relaxed)
            {
                eprintln!(
                    "torchtpu: the compiler has taken more than {} s for a program of {ops} ops, and is still running",
                    Notice::AFTER.as_secs()
                );
            }
        };
        // Without a thread, print nothing.
        let _ = std::thread::Builder::new().name("torchtpu-notice".into()).spawn(watch);
        Notice(Some(done))
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        // The thread sees that the channel is closed.
        drop(self.0.take());
    }
}

/// A segment in the background. It ends when this is dropped.
struct Background(Arc<Launched>);

impl Drop for Background {
    fn drop(&mut self) {
        let engine = crate::engine();
        engine.compiling.lock().retain(|c| !Arc::ptr_eq(&c.launched, &self.0));
        let _ = self.0.set(());
        engine.in_background.fetch_sub(1, Relaxed);
    }
}

/// Mark the arguments without handles whose memory a result of the same type can take.
pub(super) fn donate(body: &mut Body, stream: u32) {
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

/// Return the numbers of a launch as vectors on the device. A vector is uploaded only if it changed since the last
/// launch.
fn upload_numbers(
    device: &Device,
    compiled: &Compiled,
    numbers: &[Vec<u8>; DTYPES],
) -> Result<SmallVec<[Arc<Buffer>; 2]>, Arc<Failure>> {
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
            .buffer_from_host(bytes, types::element_type(DType::ALL[d]), &[i64::from(compiled.form.numbers[d])])
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

/// Return an error if finite inputs gave a result with NaN or infinity.
fn numerics(body: &Body, outputs: &[Arc<Slot>]) -> Result<(), Failure> {
    let finite = |slot: &Slot| -> Result<bool, Failure> {
        if slot.failure().is_some() || !slot.meta.dtype.is_inexact() {
            return Ok(true);
        }
        let mut bytes = vec![0; slot.meta.bytes().unwrap_or(0)];
        slot.copy_to(&mut bytes).map_err(|f| (*f).clone())?;
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

/// Print once that the plugin cannot serialize executables. The disk cache is then unused.
pub(super) fn log_unserializable(e: &torchtpu_pjrt::Error) {
    static PRINTED: AtomicBool = AtomicBool::new(false);
    if !PRINTED.swap(true, Relaxed) {
        let why = e.message();
        crate::disk::warn(&format!("this plugin cannot serialize executables, so the disk cache is not used: {why}"));
    }
}
