//! The engine behind device `tpu`: trace, segments, compilation cache and execution on PJRT devices.
//!
//! An op on a `tpu` tensor computes nothing. The engine records the op, the values that it reads, and the shapes of its
//! results. The recorded stream is cut into *segments*, and each segment is one program for the device's compiler. The
//! modes ([`EagerMode`]) differ only in their cuts. `Debug` and `Strict` cut after every op, and `Debug` also waits.
//! `Fused` cuts when the host reads a value, at the end of a training step, at a size limit, or when the stream begins
//! to repeat.
//!
//! # From ops to a running program
//!
//! * A *handle* with a reference count names a value. The value is pending (an op of the segment will compute it), or
//!   held (a buffer, or the promise of one).
//! * At a cut, pending values with a handle are the segment's outputs. The others never exist outside of the program.
//!   Arguments without a handle are *donated*: the program may overwrite them.
//! * The *form* of a segment has everything that determines its program, and nothing else. Python's numbers are not in
//!   it: they are arguments, packed into one vector per dtype. So the second step of a training loop has the form of
//!   the first, and finds its executable in memory. The first step of the second run finds it on disk.
//! * A hash finds candidates. A hit compares the form itself.
//! * Execution is asynchronous. An error of the device is raised when a value that depends on it is read, and names the
//!   ops. No other value fails, and nothing panics.
//!
//! Three types to know, all private: `form::Form`, the key; `slot::Slot`, a value that may not be computed yet;
//! `engine::Tpu`, which implements [`torchtpu_tensor::backend::Backend`].
//!
//! # Environment
//!
//! | variable | meaning |
//! |---|---|
//! | `TORCHTPU_PJRT_PLUGIN` | the plugin: a path, or `cpu`, `cuda`, `tpu` |
//! | `TORCH_TPU_LAUNCH_BLOCKING=1` | Debug mode |
//! | `TORCH_TPU_DEFER_AND_FUSE=0` | Strict mode |
//! | `TORCHTPU_CHECK_NUMERICS=1` | Debug mode refuses NaN and infinities that come from finite inputs |
//! | `TORCHTPU_SEGMENT_OPS` | greatest number of ops in a segment; unless set, 32,768, and on XLA:CPU 1500 |
//! | `TORCHTPU_PENDING_BYTES` | most bytes of pending values; see `docs/environment.md` for its default |
//! | `TORCHTPU_PIECES` | `0`: never divide programs that keep changing; `always`: divide all of them, for tests |
//! | `TORCHTPU_INTERPRET=0` | compile new programs at once on XLA:CPU too; `always`: never compile, for tests |
//! | `TORCHTPU_EARLY_OPS` | a segment of so many ops is launched early where the device would idle; unless set, never |
//! | `TORCHTPU_CACHE=0` | no executables on disk |
//! | `TORCHTPU_CACHE_DIR` | their folder; else `$XDG_CACHE_HOME/torchtpu`, `~/.cache/torchtpu` |
//! | `TORCHTPU_CACHE_BYTES` | the most they may take, 2 GiB |
//! | `TORCHTPU_AGREEMENT` | `always`: ranks agree about programs also on XLA:CPU, to test it |
//! | `TORCHTPU_LOWERINGS` | `accelerator`: XLA:CPU compiles the lowerings for accelerators, to test them |
//! | `TORCHTPU_DUMP_DIR` | a folder that gets the StableHLO text of every program |
//!
//! ```no_run
//! torchtpu_lazy::install();
//! println!("{}", torchtpu_lazy::device_name()?);
//! torchtpu_lazy::synchronize()?;
//! println!("{} compilations", torchtpu_lazy::metrics().compilations);
//! # Ok::<(), torchtpu_tensor::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod aot;
mod bundle;
mod cache;
mod check;
mod chips;
mod collectives;
mod custom;
mod custom_op;
mod cut;
mod device;
mod disk;
mod engine;
mod event;
mod explain;
mod failure;
mod families;
mod forbidden;
mod form;
mod growing;
mod lower;
mod metrics;
mod mode;
pub mod mosaic;
mod options;
mod pieces;
pub mod plan;
mod precision;
pub mod recorded;
mod repeat;
mod slot;
mod types;
mod xla_cpu;

pub use custom_op::CustomOp;
pub use cut::CutReason;
pub use device::Job;
pub use event::Event;
pub use explain::Explanation;
pub use metrics::Metrics;
pub use mode::EagerMode;
pub use pieces::Divide;
pub use xla_cpu::interpret::Interpret;

/// Return the executable in the bytes of a disk cache file, if the file is intact and has this key. For tests that
/// damage files.
#[doc(hidden)]
pub fn executable_in_cache_file<'a>(bytes: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    disk::parse(bytes, key).ok().map(|range| &bytes[range])
}

use engine::Engine;
use std::sync::OnceLock;
pub use torchtpu_pjrt::{
    Code as PluginErrorCode, Error as PluginError, KeyValueStore, OptionValue, PluginKind, on_libtpu_loaded,
};
pub use torchtpu_stablehlo::Precision;
use torchtpu_stablehlo::Profile;
use torchtpu_tensor::{Meta, Result};

static ENGINE: OnceLock<Engine> = OnceLock::new();

pub(crate) fn engine() -> &'static Engine {
    ENGINE.get_or_init(|| {
        device::on_load(|| engine().configure());
        let engine = Engine::default();
        // The device may have been loaded before.
        engine.configure();
        engine
    })
}

/// Make this engine the one behind device `tpu`. The plugin is loaded at the first use of the device.
pub fn install() {
    torchtpu_tensor::backend::install(&engine::Tpu);
}

/// The mode now.
pub fn eager_mode() -> EagerMode {
    mode::get()
}

/// Change the mode. Ops that were recorded in the old mode are launched first.
pub fn set_eager_mode(mode: EagerMode) {
    engine().cut_all(CutReason::Explicit);
    mode::set(mode);
    if mode != EagerMode::Fused {
        xla_cpu::pool::shared().clear();
    }
}

/// Refuse compilations in this process until [`allow_compilation`] is called as often. What was recorded before is
/// launched first. A program that would be compiled fails: each read of its results is an error, which names what
/// differs from the programs that there are. Programs in memory, on disk and in a [`bundle`] run as always.
pub fn forbid_compilation() {
    engine().cut_all(CutReason::Explicit);
    engine().quiesce();
    forbidden::begin();
}

/// End a [`forbid_compilation`]. What was recorded is launched first.
///
/// # Errors
/// `Runtime`, for the first compilation that was refused since.
pub fn allow_compilation() -> Result<()> {
    engine().cut_all(CutReason::Explicit);
    engine().quiesce();
    forbidden::end()
}

/// Return the precision of `float32` matrix products on accelerators.
pub fn matmul_precision() -> Precision {
    precision::get()
}

/// Set the precision of `float32` matrix products on accelerators, for ops that are recorded from now on. XLA:CPU
/// always multiplies in `float32`.
pub fn set_matmul_precision(precision: Precision) {
    precision::set(precision);
}

/// Set the precision of the ops that this thread records, instead of [`set_matmul_precision`]. `None` ends that. Return
/// the setting before.
pub fn set_thread_matmul_precision(precision: Option<Precision>) -> Option<Precision> {
    precision::set_for_thread(precision)
}

/// Replace the options of the device's compiler. Recorded ops are launched first, with the old options. If the compiler
/// does not know an option, reading a value of a program with this option is an error.
pub fn set_compiler_options(options: Vec<(String, OptionValue)>) {
    let number = options::number(options);
    if number != options::current() {
        engine().cut_all(CutReason::Explicit);
    }
    options::set(number);
}

/// Launch what is recorded, on all threads, and wait for all of it.
///
/// # Errors
/// The error of a running launch that failed. The values that it should have computed have the error too.
pub fn synchronize() -> Result<()> {
    engine().synchronize()
}

/// Wait for all launched programs, without launching the recorded ops. Call this before a `fork`, so that no thread
/// holds a lock that the child needs. Errors stay with the values.
pub fn quiesce() {
    engine().quiesce();
}

/// Raise the error of a check that failed, unless an error was raised for it already. A program that ends calls this,
/// so that no error is lost. If it `waits`, what is recorded is launched and awaited first.
///
/// # Errors
/// That error.
pub fn tell_unread_errors(waits: bool) -> Result<()> {
    let engine = engine();
    if torchtpu_pjrt::is_forked() {
        return Ok(());
    }
    if waits {
        engine.cut_all(CutReason::Synchronize);
    }
    engine.tell_first(waits)
}

/// Return whether a value may depend on a check that has not passed, so that [`tell_unread_errors`] may find an error.
pub fn has_checks() -> bool {
    check::is_tracking() && !plan::is_active()
}

/// Set whether checks of indices that came from the host are settled when they are recorded. This is for tests.
pub fn set_early_checks(on: bool) {
    engine::set_early_checks(on);
}

/// Record that an optimizer begins its step: see [`step_boundary`]. Optimizers call this.
///
/// `optimizer` is a number that identifies the optimizer. A step right after that of another optimizer belongs to the
/// same training step. If `makes_state`, fills until the boundary, such as moments of zeros, are computed by a program
/// of their own. Later steps find the state, so that all steps have the same program.
pub fn step_begins(optimizer: u64, makes_state: bool) {
    engine().step_begins(optimizer, makes_state);
}

/// Record that a training step ends here, the best place for a cut. Optimizers call this.
///
/// On accelerators the cut is made when the next op is recorded, or a value is read. So gradients that are dropped
/// right after the step are not results of its program.
pub fn step_boundary() {
    engine().step_boundary();
}

/// Launch the recorded ops of the current thread, and return an event behind them in the order of launches. With
/// `timed`, the event also has the time of its end. This waits for programs that are still being compiled, but not for
/// their results.
///
/// # Errors
/// In a forked process. With `timed`, if the plugin does not report ends.
pub fn record_event(timed: bool) -> Result<Event> {
    engine().record_event(timed)
}

/// Launch what the current thread recorded, without waiting.
pub fn mark_step() {
    engine().cut(CutReason::Explicit);
}

/// Return whether Debug mode refuses NaN and infinities that an op makes of finite inputs. Off at first: a mask of
/// `-inf` is no mistake.
pub fn set_check_numerics(on: bool) {
    engine().set_check_numerics(on);
}

/// Set which programs are computed in pieces.
pub fn set_divide(divide: Divide) {
    engine().set_divide(divide);
}

/// Set which programs XLA:CPU does not compile. Their ops run one by one on the kernels of device `cpu`.
pub fn set_interpret(wanted: Interpret) {
    engine().cut_all(CutReason::Explicit);
    engine().set_interpret(wanted);
}

/// Set the greatest number of ops in a segment.
pub fn set_max_segment_ops(n: usize) {
    engine().set_max_nodes(n);
}

/// Set the bytes of pending values in use above which the segment is cut. `None` restores the default, as
/// `TORCHTPU_PENDING_BYTES` does above.
pub fn set_max_pending_bytes(n: impl Into<Option<usize>>) {
    engine().set_max_pending_bytes(n.into());
}

/// Let the ranks agree about each program with collectives before they launch it, also on XLA:CPU, which needs no
/// agreement. `TORCHTPU_AGREEMENT=always` does the same. For tests.
pub fn set_agreement(always: bool) {
    engine().set_agreement(always);
}

/// Return the counts since the start or the last [`reset_metrics`].
pub fn metrics() -> Metrics {
    engine().metrics()
}

/// Set all counts to zero. Live bytes stay, and are the new peak.
pub fn reset_metrics() {
    engine().reset_metrics();
}

/// Make the bytes that are live now the peak.
pub fn reset_peak_bytes() {
    metrics::reset_peak();
}

/// Return the last thousand compilations, oldest first, each with its reason.
pub fn explain() -> Vec<Explanation> {
    explain::all()
}

/// Write the executables in memory to a file, which [`load_cache`] reads on another machine. Return their number.
/// Executables that the plugin cannot serialize, such as sorts on XLA:CPU, are left out.
///
/// # Errors
/// `Runtime` if the file cannot be written.
pub fn save_cache(path: impl AsRef<std::path::Path>) -> Result<usize> {
    engine().save_cache(path.as_ref())
}

/// Read a file of [`save_cache`], so that its programs are not compiled again. Return their number. Executables are
/// native code: load only files that you would run as programs.
///
/// # Errors
/// `Runtime` if the file cannot be read, is damaged, or was made by another version or for another device.
pub fn load_cache(path: impl AsRef<std::path::Path>) -> Result<usize> {
    bundle::load(path.as_ref(), &device::get()?.bundle_environment())
}

/// A program with everything that it needs except its inputs.
pub struct Exported {
    /// The StableHLO text, with the lowerings for accelerators.
    pub text: String,
    /// The arguments of its entry, in order.
    pub arguments: Vec<Argument>,
    /// The result of its entry that each output is.
    pub results: Vec<usize>,
}

/// An argument of an [`Exported`] program.
pub enum Argument {
    /// The input of this place.
    Input(usize),
    /// A captured value: its description and its bytes, dense and row-major.
    Constant(Meta, Vec<u8>),
}

/// Return the program that would compute these outputs from these inputs, which are values on the device. Other values
/// that it reads become a part of it.
///
/// # Errors
/// `Value` if one segment does not compute all outputs. The error of a captured value that cannot be read.
pub fn export(outputs: &[u64], inputs: &[u64]) -> Result<Exported> {
    engine().export(outputs, inputs)
}

/// Forget the executables in memory. Those on disk stay.
pub fn clear_cache() {
    engine().clear_cache();
}

/// Return pooled memory to the system. Only Fused mode pools memory, and only on XLA:CPU.
pub fn empty_cache() {
    xla_cpu::pool::shared().clear();
}

/// Keep only these bits of the hashes that find executables, to provoke collisions. For tests.
#[doc(hidden)]
pub fn set_hash_mask(mask: u64) {
    engine().set_hash_mask(mask);
}

/// Return the name of the device behind `tpu`, such as `XLA:CPU (PJRT plugin xla_cpu_pjrt 0.81)`.
///
/// # Errors
/// When no plugin can be loaded.
pub fn device_name() -> Result<String> {
    match plan::active() {
        Some(plan) => Ok(plan.device_name()),
        None => Ok(device::get()?.name()),
    }
}

/// Return the free and the total memory of the device in bytes, as the plugin reports them. Return `None` on XLA:CPU,
/// which uses host memory, and if the plugin does not report.
///
/// # Errors
/// When no plugin can be loaded.
pub fn memory_info() -> Result<Option<(u64, u64)>> {
    if let Some(plan) = plan::active() {
        let whole = plan.memory_bytes();
        return Ok(Some((whole.saturating_sub(metrics::live_bytes() as u64), whole)));
    }
    let device = device::get()?;
    let stats = device.client.device_memory_stats(device.client.default_device()).ok();
    Ok(stats.and_then(|s| {
        let whole = u64::try_from(s.bytes_limit?).ok().filter(|&n| n > 0)?;
        Some((whole.saturating_sub(u64::try_from(s.bytes_in_use).ok()?), whole))
    }))
}

/// Return the platform that custom kernels are made for: `tpu`, also in a [plan](plan::begin), `cpu`, or the plugin's
/// name of its platform.
///
/// # Errors
/// When no plugin can be loaded.
pub fn platform() -> Result<String> {
    match plan::is_active() {
        true => Ok("tpu".to_string()),
        false => Ok(device::get()?.client.platform_name().to_ascii_lowercase()),
    }
}

/// Return the capabilities of the platform that programs are made for.
///
/// # Errors
/// When no plugin can be loaded.
pub(crate) fn profile() -> Result<&'static Profile> {
    match plan::is_active() {
        true => Ok(&Profile::TPU),
        false => Ok(&device::get()?.profile),
    }
}

/// Make a value that does not exist. A read fails with the reason.
pub fn lost_value(meta: &Meta, why: &str) -> u64 {
    engine().lost_value(meta, why)
}

/// Make a value of a [plan] that has only a shape, such as an input of [`export`].
pub fn planned_value(meta: &Meta) -> u64 {
    engine().planned_value(meta)
}

/// Return the text of a StableHLO module without comments and locations.
///
/// # Errors
/// `Value` if it cannot be read.
pub fn without_locations(text: &str) -> Result<String> {
    torchtpu_stablehlo::Library::without_locations(text).map_err(torchtpu_tensor::Error::value)
}

/// Return a custom kernel for device `tpu` from the disk cache. `made` is its key, such as the source of a function.
pub fn load_kernel(made: &str) -> Option<Vec<u8>> {
    custom::load(made)
}

/// Keep a custom kernel in the disk cache for [`load_kernel`].
pub fn store_kernel(made: &str, kernel: &[u8]) {
    custom::store(made, kernel);
}

/// Return the place of each rank's device in the machine: its coordinates on the torus of chips, and its core on the
/// chip. `None` if the plugin does not report it, or if this process has a client of its own. Makes the client.
///
/// # Errors
/// When no plugin can be loaded.
pub fn rank_coordinates() -> Result<Option<Vec<Vec<i64>>>> {
    if plan::is_active() {
        return Ok(plan::rank_coordinates());
    }
    let device = device::get()?;
    Ok(device.processes.as_ref().and_then(|processes| processes.coordinates(&device.client)))
}

/// Return the number of devices of the processes on this host, or 0 if no plugin can be loaded. No client of an
/// accelerator is made for the answer, since processes may have to make it together.
pub fn device_count() -> usize {
    let has_device = match device::plugin_kind() {
        Ok(kind @ (PluginKind::Cuda | PluginKind::Tpu)) if device::loaded().is_none() && !plan::is_active() => {
            kind.has_device()
        }
        _ => matches!(torchtpu_tensor::backend::Backend::device_count(&engine::Tpu), Ok(1..)),
    };
    if has_device { torchtpu_tensor::local::count() } else { 0 }
}

/// Return whether device `tpu` can be used.
pub fn is_available() -> bool {
    device_count() > 0
}

/// Return whether a plugin file is found. Loads nothing: the file may still turn out not to work.
pub fn plugin_is_installed() -> bool {
    device::loaded().is_some() || torchtpu_pjrt::Plugin::locate(device::requested().as_deref()).is_ok()
}

/// Return the kind of the plugin that is loaded, or that would be loaded at the first use of the device.
///
/// # Errors
/// `Runtime` if none is found.
pub fn plugin_kind() -> Result<PluginKind> {
    device::plugin_kind()
}

/// Set how the client is made, before the device is first used.
///
/// # Errors
/// `Runtime` if a plugin is loaded already.
pub fn set_job(job: Job) -> Result<()> {
    device::set_job(job)
}

/// Choose the plugin, a path or `cpu`, `cuda`, `tpu`, before the device is first used.
///
/// # Errors
/// `Runtime` if one is loaded already.
pub fn set_plugin(name: &str) -> Result<()> {
    device::set_plugin(name)
}

/// Choose the folder of executables, or `None`, before the device is first used.
///
/// # Errors
/// `Runtime` if a plugin is loaded already.
pub fn set_cache_folder(folder: Option<std::path::PathBuf>) -> Result<()> {
    device::set_cache_folder(folder)
}

/// Add a folder that is searched for plugins before all others: a Python program names its site-packages.
pub fn add_plugin_search_path(folder: impl Into<std::path::PathBuf>) {
    torchtpu_pjrt::add_search_path(folder);
}

/// Set the number of ops after which a segment is launched early if the device would idle. The default `usize::MAX`
/// means never.
pub fn set_early_ops(n: usize) {
    engine().set_early_ops(n);
}

/// Return the recorded ops that would compute a pending value, one per line.
///
/// # Errors
/// `Value` if the value is computed already.
pub fn dump_graph(handle: u64) -> Result<String> {
    engine().dump_graph(handle)
}

/// Return the StableHLO text of the program that would compute a pending value.
///
/// # Errors
/// `Value` if the value is computed already.
pub fn dump_stablehlo(handle: u64) -> Result<String> {
    engine().dump(handle, profile()?)
}
