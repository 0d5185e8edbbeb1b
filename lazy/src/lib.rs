//! The engine behind device `tpu`: trace, segments, compilation cache and execution on PJRT devices.
//!
//! An op on a `tpu` tensor computes nothing. It is recorded: the op, which values it reads, the description of what it
//! gives. The recorded stream is cut into *segments*; each segment is one program for the device's compiler. When the
//! stream is cut is the only difference between the modes ([`EagerMode`]): after every op (`Debug`, which also waits,
//! and `Strict`), or where it pays (`Fused`): when the host reads a value, at the end of a training step, at a size, or
//! where the stream starts to repeat.
//!
//! # From ops to a running program
//!
//! * A value is named by a *handle* with a reference count. It is pending (an op of the segment will compute it), or
//!   held (a buffer, or the promise of one).
//! * At a cut, pending values with a handle are the segment's outputs. The others never exist outside of the program.
//!   Arguments whose last handle is gone are *donated*: the program may write over them.
//! * The *form* of a segment is everything that decides its program, and nothing else. Python's numbers are not in it:
//!   they are arguments, packed into one vector per dtype. So the second step of a training loop has the form of the
//!   first, and its executable is found in memory; the first step of the second run finds it on disk.
//! * A hash finds candidates; a hit compares the form itself.
//! * Execution is asynchronous. An error of the device shows where a value that depends on it is read, and names the
//!   ops; nothing else fails, and nothing panics.
//!
//! Three types to know, all private: `form::Form`, the key; `slot::Slot`, a value that may still be to come;
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
mod chips;
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
mod form;
mod growing;
mod interpret;
mod kernels;
mod lower;
mod metrics;
mod mode;
pub mod mosaic;
mod options;
mod pieces;
pub mod plan;
mod pool;
mod precision;
pub mod recorded;
mod repeat;
mod slot;
mod types;

pub use custom_op::CustomOp;
pub use cut::CutReason;
pub use event::Event;
pub use explain::Explanation;
pub use interpret::Interpret;
pub use metrics::Metrics;
pub use mode::EagerMode;
pub use pieces::Divide;

/// The executable in the bytes of a disk cache file, if the file is intact and of this key. For tests that damage
/// files.
#[doc(hidden)]
pub fn executable_in_cache_file<'a>(bytes: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    disk::parse(bytes, key).ok().map(|range| &bytes[range])
}

use engine::Engine;
use std::sync::OnceLock;
pub use torchtpu_pjrt::OptionValue;
use torchtpu_stablehlo::Platform;
pub use torchtpu_stablehlo::Precision;
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

/// Makes this engine the one behind device `tpu`. Loads nothing: a plugin is looked for when the device is first used.
pub fn install() {
    torchtpu_tensor::backend::install(&engine::Tpu);
}

/// The mode now.
pub fn eager_mode() -> EagerMode {
    mode::get()
}

/// Changes the mode; what was recorded under the old one is launched first.
pub fn set_eager_mode(mode: EagerMode) {
    engine().cut_all(CutReason::Explicit);
    mode::set(mode);
    if mode != EagerMode::Fused {
        pool::shared().clear();
    }
}

/// How precisely accelerators multiply matrices of `float32` now.
pub fn matmul_precision() -> Precision {
    precision::get()
}

/// Changes how precisely accelerators multiply matrices of `float32`; what was recorded before is launched first, as it
/// was asked for. XLA:CPU always multiplies `float32`.
pub fn set_matmul_precision(precision: Precision) {
    if precision != precision::get() {
        engine().cut_all(CutReason::Explicit);
    }
    precision::set(precision);
}

/// Sets options of the device's compiler, by name, in place of those set before; what was recorded before is launched
/// first, as it was asked for. An option that the compiler does not know is an error where a value is read that a
/// program with it computes.
pub fn set_compiler_options(options: Vec<(String, OptionValue)>) {
    let number = options::number(options);
    if number != options::current() {
        engine().cut_all(CutReason::Explicit);
    }
    options::set(number);
}

/// Launches what is recorded, on all threads, and waits for all of it.
///
/// # Errors
/// That of a launch still under way that failed. The values that it should have computed tell it too.
pub fn synchronize() -> Result<()> {
    engine().synchronize()
}

/// Waits for all that was launched, without launching what is recorded: to be called before a `fork`, so that no thread
/// holds a lock that the child would wait for. Tells no error; the values that failed do.
pub fn quiesce() {
    engine().quiesce();
}

/// Says that an optimiser begins its step: see [`step_boundary`]. Called by the optimisers.
///
/// `optimizer` is a number of the caller's choice that tells its optimisers apart. A step right after that of another
/// optimiser belongs to the same training step. If `makes_state`, what is filled with a number until the boundary, such
/// as moments of zeros, is computed by a program of its own: later steps find it made, so that all of them have the
/// same program.
pub fn step_begins(optimizer: u64, makes_state: bool) {
    engine().step_begins(optimizer, makes_state);
}

/// Says that a training step ends here: the best place for a cut. Called by the optimisers.
///
/// On accelerators the cut is made when the next op is recorded, or a value is read. So gradients that are dropped
/// right after the step are no results of its program.
pub fn step_boundary() {
    engine().step_boundary();
}

/// Launches what the current thread recorded, and records the point in the order of launches behind it, without
/// waiting; `timed` if it will be asked when that point was reached. A program that is still being compiled is waited
/// for until it is launched.
///
/// # Errors
/// In a forked process; with `timed`, where the plugin does not tell of ends.
pub fn record_event(timed: bool) -> Result<Event> {
    engine().record_event(timed)
}

/// Launches what the current thread recorded, without waiting.
pub fn mark_step() {
    engine().cut(CutReason::Explicit);
}

/// Whether Debug mode refuses NaN and infinities that an op makes of finite inputs. Off at first: a mask of `-inf` is
/// no mistake.
pub fn set_check_numerics(on: bool) {
    engine().set_check_numerics(on);
}

/// Says which programs are computed in pieces.
pub fn set_divide(divide: Divide) {
    engine().set_divide(divide);
}

/// Says which programs XLA:CPU does not compile: their ops run one by one on the kernels of device `cpu`.
pub fn set_interpret(wanted: Interpret) {
    engine().cut_all(CutReason::Explicit);
    engine().set_interpret(wanted);
}

/// Sets the greatest number of ops in a segment.
pub fn set_max_segment_ops(n: usize) {
    engine().set_max_nodes(n);
}

/// Sets how many bytes of pending values may be in use before the segment is cut; `None` for what holds by default, as
/// `TORCHTPU_PENDING_BYTES` says above.
pub fn set_max_pending_bytes(n: impl Into<Option<usize>>) {
    engine().set_max_pending_bytes(n.into());
}

/// What was counted since the start or [`reset_metrics`].
pub fn metrics() -> Metrics {
    engine().metrics()
}

/// Sets all counts to zero; live bytes stay, and are the new peak.
pub fn reset_metrics() {
    engine().reset_metrics();
}

/// Makes the bytes that are live now the peak.
pub fn reset_peak_bytes() {
    metrics::reset_peak();
}

/// The last thousand compilations, oldest first, each with what made it necessary.
pub fn explain() -> Vec<Explanation> {
    explain::all()
}

/// Writes the executables in memory to a file, which [`load_cache`] reads on another machine. Returns how many were
/// written. Executables that the plugin cannot serialise, such as sorts on XLA:CPU, are left out.
///
/// # Errors
/// `Runtime` when the file cannot be written.
pub fn save_cache(path: impl AsRef<std::path::Path>) -> Result<usize> {
    engine().save_cache(path.as_ref())
}

/// Reads a file of [`save_cache`]: programs in it are not compiled any more. Returns how many there are. Executables
/// are native code: load only files that you trust as you trust a program.
///
/// # Errors
/// `Runtime` when the file cannot be read, is damaged, or was made by another version or for another device.
pub fn load_cache(path: impl AsRef<std::path::Path>) -> Result<usize> {
    bundle::load(path.as_ref(), &device::get()?.bundle_environment())
}

/// A program with all that it needs but its inputs.
pub struct Exported {
    /// The StableHLO text, in the spelling for accelerators.
    pub text: String,
    /// The arguments of its entry, in order.
    pub arguments: Vec<Argument>,
    /// Which result of its entry each output is.
    pub results: Vec<usize>,
}

/// An argument of an [`Exported`] program.
pub enum Argument {
    /// The input of this place.
    Input(usize),
    /// A value that the program takes along: its description and its bytes, dense and row-major.
    Constant(Meta, Vec<u8>),
}

/// The program that would compute these outputs from these inputs, which are values on the device. What else it reads
/// becomes a part of it.
///
/// # Errors
/// `Value` when the outputs are not all to be computed by one segment; why a value that the program takes along cannot
/// be read.
pub fn export(outputs: &[u64], inputs: &[u64]) -> Result<Exported> {
    engine().export(outputs, inputs)
}

/// Forgets the executables in memory; those on disk stay.
pub fn clear_cache() {
    engine().clear_cache();
}

/// Gives memory back to the system that is kept for results to come. Only Fused mode keeps any, and only on XLA:CPU.
pub fn empty_cache() {
    pool::shared().clear();
}

/// Keeps only these bits of the hashes that find executables, to provoke collisions. For tests.
#[doc(hidden)]
pub fn set_hash_mask(mask: u64) {
    engine().set_hash_mask(mask);
}

/// The truth about what is behind `tpu`, such as `XLA:CPU (PJRT plugin xla_cpu_pjrt 0.81)`.
///
/// # Errors
/// When no plugin can be loaded.
pub fn device_name() -> Result<String> {
    match plan::active() {
        Some(plan) => Ok(plan.device_name()),
        None => Ok(device::get()?.name()),
    }
}

/// The free and the whole memory of the device in bytes, as the plugin says it; `None` on XLA:CPU, whose memory is the
/// host's, and where the plugin does not say.
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

/// The platform that custom kernels are made for now: `tpu`, also in a [plan](plan::begin), `cpu`, or what the plugin
/// calls itself.
///
/// # Errors
/// When no plugin can be loaded.
pub fn platform() -> Result<String> {
    match plan::is_active() {
        true => Ok("tpu".to_string()),
        false => Ok(device::get()?.client.platform_name().to_ascii_lowercase()),
    }
}

/// A value that is not there: a read fails, and says why.
pub fn lost_value(meta: &Meta, why: &str) -> u64 {
    engine().lost_value(meta, why)
}

/// A value of a [plan] that holds its shape only, such as an input of [`export`].
pub fn planned_value(meta: &Meta) -> u64 {
    engine().planned_value(meta)
}

/// The text of a StableHLO module without comments and locations.
///
/// # Errors
/// `Value` when it cannot be read.
pub fn without_locations(text: &str) -> Result<String> {
    torchtpu_stablehlo::Library::without_locations(text).map_err(torchtpu_tensor::Error::value)
}

/// What made a custom kernel for device `tpu`, from the disk cache: `made` is what decides it, such as the source of a
/// function.
pub fn load_kernel(made: &str) -> Option<Vec<u8>> {
    custom::load(made)
}

/// Keeps a custom kernel in the disk cache for [`load_kernel`].
pub fn store_kernel(made: &str, kernel: &[u8]) {
    custom::store(made, kernel);
}

/// How many devices there are; 0 when no plugin can be loaded.
pub fn device_count() -> usize {
    torchtpu_tensor::backend::Backend::device_count(&engine::Tpu).unwrap_or(0)
}

/// Whether device `tpu` can be used.
pub fn is_available() -> bool {
    device_count() > 0
}

/// Whether a plugin file is found. Loads nothing: the file may still turn out not to work.
pub fn plugin_is_installed() -> bool {
    device::loaded().is_some() || torchtpu_pjrt::Plugin::locate(device::requested().as_deref()).is_ok()
}

/// Chooses the plugin, a path or `cpu`, `cuda`, `tpu`, before the device is first used.
///
/// # Errors
/// `Runtime` when one is loaded already.
pub fn set_plugin(name: &str) -> Result<()> {
    device::set_plugin(name)
}

/// Chooses the folder that keeps executables, or none, before the device is first used.
///
/// # Errors
/// `Runtime` when a plugin is loaded already.
pub fn set_cache_folder(folder: Option<std::path::PathBuf>) -> Result<()> {
    device::set_cache_folder(folder)
}

/// Adds a folder in which plugins are looked for before all others: a Python program names its site-packages.
pub fn add_plugin_search_path(folder: impl Into<std::path::PathBuf>) {
    torchtpu_pjrt::add_search_path(folder);
}

/// Sets after how many ops a segment is launched early where the device would idle; `usize::MAX`, as at first, for
/// never.
pub fn set_early_ops(n: usize) {
    engine().set_early_ops(n);
}

/// The recorded ops that would compute a pending value, a line each.
///
/// # Errors
/// `Value` when the value is computed already.
pub fn dump_graph(handle: u64) -> Result<String> {
    engine().dump_graph(handle)
}

/// The StableHLO text of the program that would compute a pending value.
///
/// # Errors
/// `Value` when the value is computed already.
pub fn dump_stablehlo(handle: u64) -> Result<String> {
    let platform = if plan::is_active() { Platform::Any } else { device::get()?.platform };
    engine().dump(handle, platform)
}
