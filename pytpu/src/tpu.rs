//! `torch.tpu`: reports and settings of the lazy engine.

use crate::enter;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use std::ffi::{c_int, c_void};
use torchtpu_lazy::{self as lazy, EagerMode};
use torchtpu_tensor::{backend, local};

/// Return whether a plugin for `tpu` is there and starts.
#[pyfunction]
fn _tpu_is_available(py: Python<'_>) -> bool {
    py.detach(lazy::is_available)
}

/// Return whether a plugin file is found. This does not load it.
#[pyfunction]
fn _tpu_plugin_is_installed(py: Python<'_>) -> bool {
    py.detach(lazy::plugin_is_installed)
}

/// Return whether the plugin of device `tpu` is XLA:CPU, which stands in for an accelerator. This does not load it.
#[pyfunction]
fn _tpu_is_stand_in(py: Python<'_>) -> bool {
    py.detach(|| matches!(lazy::plugin_kind(), Ok(lazy::PluginKind::Cpu)))
}

/// Return the number of devices of the processes on this host.
#[pyfunction]
fn _tpu_device_count(py: Python<'_>) -> usize {
    py.detach(lazy::device_count)
}

/// Return the number of the device of this process.
#[pyfunction]
fn _tpu_current_device() -> u8 {
    local::number()
}

/// Set the number of the device of this process, which has no tensors on it yet.
#[pyfunction]
fn _tpu_set_device(py: Python<'_>, number: u8) -> PyResult<()> {
    if number != local::number() && py.detach(lazy::metrics).live_values > 0 {
        return Err(enter::exception(local::absent(number)));
    }
    local::choose(number).map_err(enter::exception)
}

/// Return the name of the hardware.
#[pyfunction]
fn _tpu_device_name(py: Python<'_>) -> PyResult<String> {
    py.detach(lazy::device_name).map_err(enter::exception)
}

/// Return the free and the whole memory in bytes, or `None` if the plugin does not say.
#[pyfunction]
fn _tpu_memory_info(py: Python<'_>) -> PyResult<Option<(u64, u64)>> {
    py.detach(lazy::memory_info).map_err(enter::exception)
}

/// Launch what is recorded, and wait for it.
#[pyfunction]
fn _tpu_synchronize(py: Python<'_>) -> PyResult<()> {
    py.detach(lazy::synchronize).map_err(enter::exception)
}

/// Wait until no thread works, for a fork.
#[pyfunction]
fn _tpu_quiesce(py: Python<'_>) {
    py.detach(lazy::quiesce);
}

/// Refuse compilations until they are allowed again: see `torch.tpu.forbid_compilation`.
#[pyfunction]
fn _tpu_forbid_compilation(py: Python<'_>) {
    py.detach(lazy::forbid_compilation);
}

/// End a `_tpu_forbid_compilation`, and raise the first refusal.
#[pyfunction]
fn _tpu_allow_compilation(py: Python<'_>) -> PyResult<()> {
    py.detach(lazy::allow_compilation).map_err(enter::exception)
}

/// Return the mode as a number: 0 debug, 1 strict, 2 fused.
#[pyfunction]
fn _tpu_eager_mode() -> u8 {
    lazy::eager_mode() as u8
}

/// Set the mode by its number: see `torch.tpu.set_eager_mode`.
#[pyfunction]
fn _tpu_set_eager_mode(py: Python<'_>, mode: u8) -> PyResult<()> {
    let mode = match mode {
        0 => EagerMode::Debug,
        1 => EagerMode::Strict,
        2 => EagerMode::Fused,
        _ => return Err(PyValueError::new_err(format!("no eager mode has the number {mode}"))),
    };
    py.detach(|| lazy::set_eager_mode(mode));
    Ok(())
}

/// Set the precision of `float32` products on accelerators: 0 highest, 1 high, 2 medium.
#[pyfunction]
fn _tpu_set_matmul_precision(precision: u8) -> PyResult<()> {
    lazy::set_matmul_precision(numbered_precision(precision)?);
    Ok(())
}

/// Set the precision for this thread, or end that with ``None``. Return the setting before.
#[pyfunction]
fn _tpu_set_thread_precision(precision: Option<u8>) -> PyResult<Option<u8>> {
    let precision = precision.map(numbered_precision).transpose()?;
    Ok(lazy::set_thread_matmul_precision(precision).map(|p| p as u8))
}

fn numbered_precision(number: u8) -> PyResult<lazy::Precision> {
    match number {
        0 => Ok(lazy::Precision::Highest),
        1 => Ok(lazy::Precision::High),
        2 => Ok(lazy::Precision::Medium),
        _ => Err(PyValueError::new_err(format!("no precision has the number {number}"))),
    }
}

/// Set options of the compiler: pairs of a name and a text, a truth value or a number.
#[pyfunction]
fn _tpu_set_compiler_options(py: Python<'_>, options: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<()> {
    let value = |value: &Bound<'_, PyAny>| -> PyResult<lazy::OptionValue> {
        Ok(if let Ok(is_on) = value.cast::<PyBool>() {
            lazy::OptionValue::Bool(is_on.is_true())
        } else if let Ok(text) = value.extract::<String>() {
            // XLA parses numbers in texts, but not truth values in lower case.
            match text.as_str() {
                "true" => lazy::OptionValue::Bool(true),
                "false" => lazy::OptionValue::Bool(false),
                _ => lazy::OptionValue::String(text),
            }
        } else if let Ok(number) = value.extract() {
            lazy::OptionValue::Int64(number)
        } else {
            lazy::OptionValue::Float(value.extract()?)
        })
    };
    let options =
        options.iter().map(|(name, given)| Ok((name.clone(), value(given)?))).collect::<PyResult<Vec<_>>>()?;
    py.detach(|| lazy::set_compiler_options(options));
    Ok(())
}

/// A point in the order of launches.
#[pyclass(frozen, name = "_TpuEvent", module = "torch._C")]
struct Event(lazy::Event);

#[pymethods]
impl Event {
    fn is_ready(&self, py: Python<'_>) -> bool {
        py.detach(|| self.0.is_ready())
    }

    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.wait()).map_err(enter::exception)
    }

    fn milliseconds_until(&self, py: Python<'_>, later: &Bound<'_, Event>) -> Option<f64> {
        let later = &later.get().0;
        py.detach(|| self.0.milliseconds_until(later))
    }
}

/// Return an event that is ready when everything recorded so far has run.
#[pyfunction]
fn _tpu_record_event(py: Python<'_>, timed: bool) -> PyResult<Event> {
    py.detach(|| lazy::record_event(timed)).map(Event).map_err(enter::exception)
}

/// Say that a tensor is a buffer of a module.
#[pyfunction]
fn _mark_state(x: &Bound<'_, PyAny>) {
    if let Some(x) = crate::tensor_type::extract(x) {
        x.mark_state();
    }
}

/// Say that an optimizer begins a step. Return whether a gradient may depend on a check that has not passed.
#[pyfunction]
fn _step_begins(py: Python<'_>, optimizer: u64, makes_state: bool) -> bool {
    py.detach(|| lazy::step_begins(optimizer, makes_state));
    lazy::has_checks()
}

/// Name the gradients that a step reads. Raise the error of a check that failed.
#[pyfunction]
fn _step_reads(py: Python<'_>, gradients: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
    let all = gradients.iter().map(device_tensor).collect::<PyResult<Vec<_>>>()?;
    let values = all.iter().map(|x| x.device_value().map_err(enter::exception)).collect::<PyResult<Vec<_>>>()?;
    py.detach(|| backend::get().and_then(|b| b.step_reads(&values))).map_err(enter::exception)
}

/// Raise the error of a step that wrote nothing, because a check failed.
#[pyfunction]
fn _step_errors(py: Python<'_>) -> PyResult<()> {
    py.detach(|| backend::get().and_then(|b| b.step_errors())).map_err(enter::exception)
}

/// Raise the error of a check that failed, unless the program knows it. If it `waits`, what is recorded runs first.
#[pyfunction]
fn _tpu_tell_unread_errors(py: Python<'_>, waits: bool) -> PyResult<()> {
    if !lazy::has_checks() {
        return Ok(());
    }
    py.detach(|| lazy::tell_unread_errors(waits)).map_err(enter::exception)
}

/// Set whether checks of indices from the host are settled when they are recorded.
#[pyfunction]
fn _tpu_set_early_checks(on: bool) {
    lazy::set_early_checks(on);
}

/// Say that a training step has ended.
#[pyfunction]
fn _step_boundary(py: Python<'_>) {
    py.detach(lazy::step_boundary);
}

/// Launch what is recorded, without waiting for it.
#[pyfunction]
fn _tpu_mark_step(py: Python<'_>) {
    py.detach(lazy::mark_step);
}

/// Return counters by name.
#[pyfunction]
fn _tpu_metrics(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let m = lazy::metrics();
    let d = PyDict::new(py);
    macro_rules! put {
        ($($name:ident)*) => { $(d.set_item(stringify!($name), m.$name)?;)* };
    }
    put!(compilations compile_nanos process_cache_hits disk_cache_hits disk_cache_misses disk_cache_rejected
        cached_executables segments_executed segments_dropped segments_interpreted nodes_recorded
        nodes_executed nodes_interpreted uploads upload_bytes downloads download_bytes donations pool_hits
        programs_fused programs_split cuts_adopted pool_bytes live_values live_bytes peak_bytes);
    let cuts = PyDict::new(py);
    for (why, n) in &m.cuts {
        cuts.set_item(why, n)?;
    }
    d.set_item("cuts", cuts)?;
    Ok(d)
}

/// Set the counters to zero.
#[pyfunction]
fn _tpu_reset_metrics() {
    lazy::reset_metrics();
}

/// Set the peak of memory to what is used now.
#[pyfunction]
fn _tpu_reset_peak_bytes() {
    lazy::reset_peak_bytes();
}

/// Return the bytes of device ``cpu`` that are allocated, and the largest number of them since the start or
/// ``_cpu_reset_peak``. The allocator rounds sizes up.
#[pyfunction]
fn _cpu_memory() -> (usize, usize) {
    let stats = torchtpu_kernels::memory::stats();
    (stats.allocated_bytes, stats.peak_bytes)
}

/// Set the largest number of bytes of device ``cpu`` to what is allocated now.
#[pyfunction]
fn _cpu_reset_peak() {
    torchtpu_kernels::memory::reset_peak();
}

/// Return the compilations with their reasons, one a line.
#[pyfunction]
fn _tpu_explain() -> Vec<String> {
    lazy::explain().iter().map(ToString::to_string).collect()
}

/// Write the compiled programs to a file, and return how many they are.
#[pyfunction]
fn _tpu_save_cache(py: Python<'_>, path: std::path::PathBuf) -> PyResult<usize> {
    py.detach(|| lazy::save_cache(path)).map_err(enter::exception)
}

/// Read compiled programs from a file, and return how many they are.
#[pyfunction]
fn _tpu_load_cache(py: Python<'_>, path: std::path::PathBuf) -> PyResult<usize> {
    py.detach(|| lazy::load_cache(path)).map_err(enter::exception)
}

/// Forget the compiled programs.
#[pyfunction]
fn _tpu_clear_cache() {
    lazy::clear_cache();
}

/// Return unused memory to the system.
#[pyfunction]
fn _tpu_empty_cache(py: Python<'_>) {
    py.detach(lazy::empty_cache);
}

/// Set whether mode Debug refuses results with NaN or infinity.
#[pyfunction]
fn _tpu_set_check_numerics(on: bool) {
    lazy::set_check_numerics(on);
}

/// Set the plugin: a path, or `cpu`, `cuda` or `tpu`.
#[pyfunction]
fn _tpu_set_plugin(name: &str) -> PyResult<()> {
    lazy::set_plugin(name).map_err(enter::exception)
}

/// Look for plugins in this folder too.
#[pyfunction]
fn _tpu_add_plugin_search_path(folder: &str) {
    lazy::add_plugin_search_path(folder);
}

/// Return the tensor of device `tpu` in any object, or nothing.
pub(crate) fn device_tensor<'a>(x: &'a Bound<'_, PyAny>) -> PyResult<&'a torchtpu_tensor::Tensor> {
    crate::tensor_type::extract(x)
        .filter(|t| t.place().is_tpu())
        .ok_or_else(|| PyValueError::new_err("expected a tensor on device tpu"))
}

/// Return the StableHLO text of the program that would compute a tensor.
#[pyfunction]
fn _tpu_dump_stablehlo(x: &Bound<'_, PyAny>) -> PyResult<String> {
    device_tensor(x)?.device_value().and_then(lazy::dump_stablehlo).map_err(enter::exception)
}

/// Return the recorded ops that would compute a tensor.
#[pyfunction]
fn _tpu_dump_graph(x: &Bound<'_, PyAny>) -> PyResult<String> {
    device_tensor(x)?.device_value().and_then(lazy::dump_graph).map_err(enter::exception)
}

/// Set how many bytes of results may wait for a launch.
#[pyfunction]
fn _tpu_set_max_pending_bytes(n: Option<usize>) {
    lazy::set_max_pending_bytes(n);
}

/// Set how many ops one program may have.
#[pyfunction]
fn _tpu_set_max_segment_ops(n: usize) {
    lazy::set_max_segment_ops(n);
}

/// Let Python's table of handlers say that `SIGPROF` is ignored, as it is after libtpu has been loaded. Otherwise a
/// program that restores all handlers would set the default action, and the next tick of libtpu would end it.
fn agree_on_profiling_signal() {
    extern "C" fn agree(_: *mut c_void) -> c_int {
        Python::attach(|py| {
            let tell = || -> PyResult<()> {
                let signal = py.import("signal")?;
                let number = signal.getattr("SIGPROF")?;
                if signal.call_method1("getsignal", (&number,))?.eq(signal.getattr("SIG_DFL")?)? {
                    signal.call_method1("signal", (&number, signal.getattr("SIG_IGN")?))?;
                }
                Ok(())
            };
            if let Err(e) = tell() {
                e.write_unraisable(py, None);
            }
        });
        0
    }
    // Only the main thread may set handlers, and any thread may load libtpu.
    // SAFETY: the function may be called at any time, and takes no argument.
    unsafe { pyo3::ffi::Py_AddPendingCall(Some(agree), std::ptr::null_mut()) };
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    lazy::install();
    lazy::on_libtpu_loaded(agree_on_profiling_signal);
    m.add_function(wrap_pyfunction!(_tpu_dump_graph, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_set_max_pending_bytes, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_set_max_segment_ops, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_is_available, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_plugin_is_installed, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_is_stand_in, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_device_count, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_current_device, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_set_device, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_device_name, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_memory_info, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_synchronize, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_quiesce, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_forbid_compilation, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_allow_compilation, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_eager_mode, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_set_eager_mode, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_set_matmul_precision, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_set_thread_precision, m)?)?;
    m.add_function(wrap_pyfunction!(_step_begins, m)?)?;
    m.add_function(wrap_pyfunction!(_mark_state, m)?)?;
    m.add_function(wrap_pyfunction!(_step_reads, m)?)?;
    m.add_function(wrap_pyfunction!(_step_errors, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_tell_unread_errors, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_set_early_checks, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_set_compiler_options, m)?)?;
    m.add_class::<Event>()?;
    m.add_function(wrap_pyfunction!(_tpu_record_event, m)?)?;
    m.add_function(wrap_pyfunction!(_step_boundary, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_mark_step, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_metrics, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_reset_metrics, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_reset_peak_bytes, m)?)?;
    m.add_function(wrap_pyfunction!(_cpu_memory, m)?)?;
    m.add_function(wrap_pyfunction!(_cpu_reset_peak, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_explain, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_save_cache, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_load_cache, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_clear_cache, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_empty_cache, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_set_check_numerics, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_set_plugin, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_add_plugin_search_path, m)?)?;
    m.add_function(wrap_pyfunction!(_tpu_dump_stablehlo, m)?)?;
    Ok(())
}
