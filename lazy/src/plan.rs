//! Planned devices: costs of a program on a TPU that is not here.
//!
//! While a plan is active, device `tpu` records and compiles, and runs nothing. Values have only shapes. A read gives
//! zeros, or an error on request. libtpu compiles each new program for every target of the plan. No other plugin is
//! needed or loaded.

use crate::aot::{Compiler, Report, Target};
use crate::cut::CutReason;
use crate::explain;
use crate::failure::Failure;
use crate::form::Form;
use crate::metrics::{self, COUNTERS, count};
use crate::recorded::{Place, Recorded, Shape};
use crate::slot::Slot;
use crate::{mode, options};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use torchtpu_tensor::host::HostValue;
use torchtpu_tensor::{Error, Meta, Result, site};

/// The result of reading a value that was not computed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Reads {
    /// Zeros, with a message on stderr at the first read.
    #[default]
    Zeros,
    /// An error.
    Raise,
    /// Zeros. The program is not launched for the value and goes on, which shows the cost of reads.
    Skip,
}

/// The results of a plan.
#[derive(Clone, Default, Serialize)]
pub struct PlanReport {
    /// The machines, in the order of the reports of a program.
    pub topologies: Vec<String>,
    /// Bytes of memory of a device of each machine.
    pub memory_bytes: Vec<u64>,
    /// The programs, in the order of their first launch.
    pub programs: Vec<Program>,
    /// The training steps. Programs after the last boundary are a step of their own.
    pub steps: Vec<Step>,
}

/// A program of a plan.
#[derive(Clone, Serialize)]
pub struct Program {
    /// Ops in the segment.
    pub ops: usize,
    /// Their names, shortened.
    pub summary: String,
    /// The reason to end the segment.
    pub cut: &'static str,
    /// The difference to the nearest earlier program.
    pub why: String,
    /// Number of times that it would run.
    pub launches: u64,
    /// The largest values that its ops compute, with lines of the user's program, in the form of memory errors.
    pub largest: String,
    /// The StableHLO text.
    #[serde(skip)]
    pub text: Arc<str>,
    /// The number of the compiler's options that the program set, in this process.
    pub options: u32,
    /// Number of ranks that would run it together.
    pub ranks: usize,
    #[serde(skip)]
    form: Arc<Form>,
    /// The compiler's report for each topology, or its error.
    pub reports: Vec<Compiled>,
}

/// The answer of the compiler to a program.
#[derive(Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Compiled {
    /// It compiles.
    Report(Box<Report>),
    /// It does not: the error.
    Error(String),
}

impl Program {
    /// Return the ops and the results, for tools that search for a cause.
    pub fn recorded(&self) -> Recorded {
        Recorded::of(&self.form)
    }
}

/// A training step of a plan.
#[derive(Clone, Default, Serialize)]
pub struct Step {
    /// The launched programs, as positions in the list of programs.
    pub programs: Vec<usize>,
    /// Bytes on the device beside the program, at the launch with the highest total, for each topology.
    pub resident_bytes: Vec<i64>,
    /// Bytes of the program and those beside it, for each topology.
    pub total_bytes: Vec<i64>,
    /// Values copied to the device.
    pub uploads: u64,
    /// Bytes of them.
    pub upload_bytes: u64,
    /// The descriptions of them, in order.
    pub inputs: Vec<Shape>,
    /// Values that the program read.
    pub reads: u64,
    /// The lines of the user's program that read, in order.
    pub read_lines: Vec<Place>,
    /// The sizes that depend on values and are therefore made up, in order.
    pub assumed: Vec<Assumed>,
}

/// A number of rows that depends on values, which a planned device does not have.
#[derive(Clone, Serialize)]
pub struct Assumed {
    /// The line of the user's program, if known.
    pub place: Option<Place>,
    /// The number of rows that the plan goes on with.
    pub rows: usize,
    /// The largest number that is possible.
    pub most: usize,
}

pub(crate) struct Plan {
    compilers: Vec<Compiler>,
    reads: Reads,
    /// The part of the rows that is assumed where their number depends on values.
    assumed_share: f64,
    state: Mutex<State>,
    has_warned: AtomicBool,
    /// Bytes on the device when the plan began. They do not count.
    bytes_before: usize,
}

#[derive(Default)]
struct State {
    forms: FxHashMap<u64, Vec<(Arc<Form>, usize)>>,
    programs: Vec<Program>,
    steps: Vec<Step>,
    now: Step,
    /// The step that begins at a boundary whose cut is not made yet.
    next: Option<Step>,
}

impl State {
    /// The step that uploads and reads belong to.
    fn step(&mut self) -> &mut Step {
        self.next.as_mut().unwrap_or(&mut self.now)
    }

    fn end_step(&mut self) {
        let next = self.next.take().unwrap_or_default();
        let step = std::mem::replace(&mut self.now, next);
        self.steps.push(step);
    }

    /// The program of a form.
    fn program(&self, hash: u64, form: &Form) -> Option<usize> {
        self.forms.get(&hash)?.iter().find(|(f, _)| **f == *form).map(|(_, program)| *program)
    }
}

thread_local! {
    /// Whether this thread has read values that are made up.
    static MADE_UP: Cell<bool> = const { Cell::new(false) };
}

/// See [`torchtpu_tensor::backend::Backend::take_made_up`].
pub(crate) fn take_made_up() -> bool {
    MADE_UP.take()
}

static BEGUN: AtomicU64 = AtomicU64::new(0);
static PLAN: RwLock<Option<Arc<Plan>>> = RwLock::new(None);

/// Return whether device `tpu` is planned.
#[inline]
pub fn is_active() -> bool {
    mode::is_planned()
}

#[inline]
pub(crate) fn active() -> Option<Arc<Plan>> {
    if is_active() { PLAN.read().clone() } else { None }
}

/// Return the number of the active plan, counted from 1 in this process, or 0 if none is active.
#[inline]
pub fn number() -> u64 {
    if is_active() { BEGUN.load(Relaxed) } else { 0 }
}

/// Make device `tpu` a planned one, until [`end`]. What was recorded before is launched first.
///
/// # Errors
/// `Runtime` if libtpu is not found or does not know a machine, or if a plan is active already. `Value` without a
/// target. Where values decide how many rows a result has, as with `nonzero`, the part `assumed_share` of all rows is
/// assumed.
pub fn begin(targets: Vec<Target>, reads: Reads, assumed_share: f64) -> Result<()> {
    if targets.is_empty() {
        return Err(Error::value("torch.tpu.plan: expected at least one topology"));
    }
    if !(0.0..=1.0).contains(&assumed_share) {
        return Err(Error::value(format!(
            "torch.tpu.plan: assume_share: expected a number from 0 to 1, but got {assumed_share}"
        )));
    }
    start(targets.into_iter().map(Compiler::new).collect::<Result<Vec<_>>>()?, reads, assumed_share)
}

/// Make device `tpu` one that records, and neither compiles nor runs, until [`end`]: for [`crate::export`]. A read is
/// an error.
///
/// # Errors
/// `Runtime` if a plan is active.
pub fn begin_recording() -> Result<()> {
    start(Vec::new(), Reads::Raise, 1.0)
}

fn start(compilers: Vec<Compiler>, reads: Reads, assumed_share: f64) -> Result<()> {
    if is_active() {
        return Err(Error::runtime("torch.tpu.plan: a plan is active already"));
    }
    crate::engine().cut_all(CutReason::Explicit);
    let bytes_before = metrics::live_bytes();
    let (state, has_warned) = (Mutex::default(), AtomicBool::new(false));
    let plan = Plan { compilers, reads, assumed_share, state, has_warned, bytes_before };
    let mut slot = PLAN.write();
    if slot.is_some() {
        return Err(Error::runtime("torch.tpu.plan: a plan is active already"));
    }
    *slot = Some(Arc::new(plan));
    drop(slot);
    BEGUN.fetch_add(1, Relaxed);
    mode::set_planned(true);
    crate::engine().configure();
    Ok(())
}

/// Return the number of devices of each machine of the active plan. Without a plan there are none.
pub fn devices() -> Vec<usize> {
    active().map_or_else(Vec::new, |plan| plan.compilers.iter().map(Compiler::devices).collect())
}

/// Return the place of each rank in the machine of the plan. `None` if machines differ.
pub(crate) fn rank_coordinates() -> Option<Vec<Vec<i64>>> {
    let plan = active()?;
    let mut machines = plan.compilers.iter().map(Compiler::rank_coordinates);
    let first = machines.next()?;
    if machines.all(|other| other == first) { first } else { None }
}

/// Return the report of the active plan so far. Recorded ops are compiled first.
///
/// # Errors
/// `Runtime` if no plan is active.
pub fn report() -> Result<PlanReport> {
    let plan = active().ok_or_else(|| Error::runtime("torch.tpu.plan: no plan is active"))?;
    crate::engine().cut_all(CutReason::Explicit);
    Ok(plan.report())
}

/// End the active plan and return its report, or `None` if none was active. With `drop_pending`, recorded ops are not
/// compiled: an interrupted step is not a program of its own.
pub fn end(drop_pending: bool) -> Option<PlanReport> {
    let plan = active()?;
    if drop_pending {
        crate::engine().drop_pending();
    } else {
        crate::engine().cut_all(CutReason::Explicit);
    }
    let report = plan.report();
    mode::set_planned(false);
    *PLAN.write() = None;
    crate::engine().configure();
    Some(report)
}

/// Return the number of training steps that have ended in the active plan.
pub fn steps() -> usize {
    active().map_or(0, |p| p.state.lock().steps.len())
}

impl Plan {
    /// Return the bytes of memory of a device: of the smallest one, if there are several targets.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.compilers.iter().map(Compiler::memory_bytes).min().unwrap_or(u64::MAX)
    }

    pub(crate) fn device_name(&self) -> String {
        let names: Vec<String> =
            self.compilers.iter().map(|c| format!("{} ({})", c.device_kind(), c.target().topology)).collect();
        format!("{}, planned", names.join(", "))
    }

    /// A value that was copied to the device.
    pub(crate) fn upload(&self, meta: &Meta, bytes: &[u8]) -> Slot {
        /// Values that programs read are small: sizes, lengths, flags.
        const MOST_KEPT: usize = 4096;
        let mut state = self.state.lock();
        let step = state.step();
        step.uploads += 1;
        step.upload_bytes += bytes.len() as u64;
        step.inputs.push(meta.into());
        drop(state);
        let slot = Slot::empty(*meta);
        // A value that an exported program reads beside its inputs is a part of it.
        let is_kept = bytes.len() <= MOST_KEPT || self.compilers.is_empty();
        let kept = is_kept.then(|| HostValue::shared(meta, Arc::new(bytes.to_vec())));
        match kept {
            Some(Ok(value)) => slot.fill_on_host(value),
            _ => slot.plan(),
        }
        slot
    }

    /// Return whether a read launches nothing.
    pub(crate) fn skips_reads(&self) -> bool {
        self.reads == Reads::Skip
    }

    /// Return the result of a read.
    pub(crate) fn read(&self, out: &mut [u8]) -> Result<()> {
        let place = Place::of(site::current());
        let mut state = self.state.lock();
        let step = state.step();
        step.reads += 1;
        step.read_lines.extend(place);
        drop(state);
        if self.reads == Reads::Raise {
            return Err(Error::runtime("a planned device computes nothing, so this value cannot be read")
                .note("torch.tpu.plan(..., reads=\"zeros\") gives zeros"));
        }
        if !self.has_warned.swap(true, Relaxed) {
            crate::disk::warn("the device is planned and computes nothing: values that are read are zeros");
        }
        out.fill(0);
        MADE_UP.set(true);
        Ok(())
    }

    /// Return the number of rows to assume, and note it.
    pub(crate) fn assume_rows(&self, most: usize) -> usize {
        let rows = (self.assumed_share * most as f64).ceil() as usize;
        let place = Place::of(site::current());
        self.state.lock().step().assumed.push(Assumed { place, rows, most });
        rows
    }

    /// Record that a training step has ended, before its program is cut.
    pub(crate) fn step_ends(&self) {
        self.state.lock().next.get_or_insert_default();
    }

    /// Return whether a program was launched before.
    pub(crate) fn has_program(&self, hash: u64, form: &Form) -> bool {
        self.state.lock().program(hash, form).is_some()
    }

    /// Record a program that would be launched. `lower` makes its text if it is new.
    pub(crate) fn launch(
        &self,
        hash: u64,
        form: &Form,
        cut: CutReason,
        argument_bytes: usize,
        lower: impl FnOnce() -> Result<String>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        let program = match state.program(hash, form) {
            Some(program) => program,
            None => {
                drop(state);
                let text: Arc<str> = lower()?.into();
                let reports = self.compile(&text, form);
                state = self.state.lock();
                let program = state.programs.len();
                let why = explain::difference(form, state.forms.values().flatten().map(|(f, _)| &**f));
                let form = Arc::new(form.clone());
                state.programs.push(Program {
                    ops: form.nodes.len(),
                    summary: form.summary(),
                    cut: cut.name(),
                    why,
                    launches: 0,
                    largest: form.largest(),
                    text,
                    options: form.options,
                    ranks: form.replicas(),
                    form: form.clone(),
                    reports,
                });
                state.forms.entry(hash).or_default().push((form, program));
                program
            }
        };
        state.programs[program].launches += 1;
        let beside = metrics::live_bytes().saturating_sub(self.bytes_before).saturating_sub(argument_bytes) as i64;
        let totals: Vec<i64> = state.programs[program]
            .reports
            .iter()
            .map(|r| match r {
                Compiled::Report(r) => beside + r.total_bytes,
                Compiled::Error(_) => beside,
            })
            .collect();
        let step = &mut state.now;
        step.programs.push(program);
        step.total_bytes.resize(totals.len(), 0);
        step.resident_bytes.resize(totals.len(), 0);
        for (i, total) in totals.into_iter().enumerate() {
            if total > step.total_bytes[i] {
                (step.total_bytes[i], step.resident_bytes[i]) = (total, beside);
            }
        }
        if cut == CutReason::StepBoundary {
            state.end_step();
        }
        Ok(())
    }

    /// Compile the text of a form for each machine of the plan.
    fn compile(&self, text: &str, form: &Form) -> Vec<Compiled> {
        let own = options::list(form.options);
        let compiled = |c: &Compiler| match c.compile_with(text, &own, form.replicas()) {
            Ok(report) => {
                count(if report.from_disk { &COUNTERS.disk_cache_hits } else { &COUNTERS.compilations }, 1);
                Compiled::Report(Box::new(report))
            }
            Err(e) => {
                let f = Failure::new(e.kind(), e.to_string()).about_memory(form).about_kernels(form);
                Compiled::Error(f.error().to_string())
            }
        };
        self.compilers.iter().map(compiled).collect()
    }

    /// Count a step that ended with nothing to launch, because its last op is a read.
    pub(crate) fn step_without_launch(&self) {
        self.state.lock().end_step();
    }

    fn report(&self) -> PlanReport {
        let state = self.state.lock();
        let mut steps = state.steps.clone();
        if !state.now.programs.is_empty() {
            steps.push(state.now.clone());
        }
        PlanReport {
            topologies: self.compilers.iter().map(|c| c.target().topology.clone()).collect(),
            memory_bytes: self.compilers.iter().map(Compiler::memory_bytes).collect(),
            programs: state.programs.clone(),
            steps,
        }
    }
}
