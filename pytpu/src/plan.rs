//! `torch.tpu.plan` and `torch.tpu.aot`: costs of programs on a TPU that is not here.

use crate::enter;
use crate::tensor_type::to_python;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::path::PathBuf;
use torchtpu_lazy::Argument;
use torchtpu_lazy::aot::{Compiler, Target};
use torchtpu_lazy::plan::{self, PlanReport, Reads};
use torchtpu_tensor::{Device, Meta, Tensor};

/// A target as Python passes it: topology, compiler options, partitions, bytes of memory.
type PyTarget = (String, Vec<(String, String)>, usize, Option<u64>);

fn target((topology, options, num_partitions, memory_bytes): PyTarget) -> Target {
    Target { topology, options, num_partitions, memory_bytes }
}

/// Return a report as JSON, and the StableHLO text and the recorded ops of each program.
type Given = (String, Vec<String>, Vec<String>);

fn given(report: &PlanReport) -> PyResult<Given> {
    let wrong = |e: serde_json::Error| PyValueError::new_err(e.to_string());
    let json = serde_json::to_string(report).map_err(wrong)?;
    let texts = report.programs.iter().map(|p| p.text.to_string()).collect();
    let ops = report.programs.iter().map(|p| serde_json::to_string(&p.recorded()).map_err(wrong));
    Ok((json, texts, ops.collect::<PyResult<_>>()?))
}

/// Begin a plan: record programs for these targets instead of running them. The part ``assumed_share`` of rows is
/// assumed where values decide their number.
#[pyfunction]
fn _plan_begin(py: Python<'_>, targets: Vec<PyTarget>, reads: &str, assumed_share: f64) -> PyResult<()> {
    let targets = targets.into_iter().map(target).collect();
    let reads = match reads {
        "raise" => Reads::Raise,
        "skip" => Reads::Skip,
        _ => Reads::Zeros,
    };
    py.detach(|| plan::begin(targets, reads, assumed_share)).map_err(enter::exception)
}

/// Return what the plan has found so far.
#[pyfunction]
fn _plan_report(py: Python<'_>) -> PyResult<Given> {
    given(&py.detach(plan::report).map_err(enter::exception)?)
}

/// End a plan, and return its report.
#[pyfunction]
fn _plan_end(py: Python<'_>, drop_pending: bool) -> PyResult<Option<Given>> {
    py.detach(|| plan::end(drop_pending)).as_ref().map(given).transpose()
}

/// Return the number of devices of each machine of the active plan.
#[pyfunction]
fn _plan_devices() -> Vec<usize> {
    plan::devices()
}

/// Return whether a plan records programs.
#[pyfunction]
fn _plan_is_active() -> bool {
    plan::is_active()
}

/// Begin to record a program for export.
#[pyfunction]
fn _export_begin(py: Python<'_>) -> PyResult<()> {
    py.detach(plan::begin_recording).map_err(enter::exception)
}

/// Return a tensor on device `tpu` with the shape and dtype of `x`, and without data.
#[pyfunction]
fn _export_input<'py>(py: Python<'py>, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let t = crate::tensor_type::extract(x).ok_or_else(|| PyTypeError::new_err("expected a tensor"))?;
    let meta = Meta::new(t.dims(), t.dtype(), Device::TPU);
    to_python(py, Tensor::from_device_value(&meta, torchtpu_lazy::planned_value(&meta)))
}

/// An argument of an exported program: the position of an input, or a captured tensor.
#[derive(IntoPyObject)]
enum PyArgument<'py> {
    Input(usize),
    Constant(Bound<'py, PyAny>),
}

/// Return the program that computes the outputs from the inputs: its text, its arguments, and the number of each output
/// among its results.
#[pyfunction]
fn _export<'py>(
    py: Python<'py>,
    outputs: Vec<Bound<'py, PyAny>>,
    inputs: Vec<Bound<'py, PyAny>>,
) -> PyResult<(String, Vec<PyArgument<'py>>, Vec<usize>)> {
    let values = |tensors: &[Bound<'py, PyAny>]| {
        let value = |x| crate::tpu::device_tensor(x)?.device_value().map_err(enter::exception);
        tensors.iter().map(value).collect::<PyResult<Vec<u64>>>()
    };
    let found = torchtpu_lazy::export(&values(&outputs)?, &values(&inputs)?).map_err(enter::exception)?;
    let argument = |a| {
        Ok(match a {
            Argument::Input(i) => PyArgument::Input(i),
            Argument::Constant(meta, bytes) => {
                let tensor = Tensor::from_bytes(&bytes, &meta.dims, meta.dtype).map_err(enter::exception)?;
                PyArgument::Constant(to_python(py, tensor)?)
            }
        })
    };
    let arguments = found.arguments.into_iter().map(argument).collect::<PyResult<Vec<_>>>()?;
    Ok((found.text, arguments, found.results))
}

/// Return the number of training steps that have ended in the active plan.
#[pyfunction]
fn _plan_steps() -> usize {
    plan::steps()
}

/// Return the report of one program as JSON.
#[pyfunction]
fn _aot_compile(py: Python<'_>, text: &str, to: PyTarget) -> PyResult<String> {
    let report = py.detach(|| Compiler::new(target(to))?.compile(text)).map_err(enter::exception)?;
    serde_json::to_string(&report).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// Return the program that ``ranks`` run together, optimized, as text.
#[pyfunction]
fn _aot_optimized_text(py: Python<'_>, text: &str, ranks: usize, to: PyTarget) -> PyResult<String> {
    py.detach(|| Compiler::new(target(to))?.optimized_text(text, ranks)).map_err(enter::exception)
}

/// Compile programs and write them to a file. Return their number.
#[pyfunction]
fn _aot_save(py: Python<'_>, path: PathBuf, programs: Vec<(String, u32, usize)>, to: PyTarget) -> PyResult<usize> {
    let programs: Vec<_> = programs.iter().map(|(text, options, ranks)| (text.as_str(), *options, *ranks)).collect();
    py.detach(|| Compiler::new(target(to))?.save(&path, &programs)).map_err(enter::exception)
}

/// Return whether libtpu is installed.
#[pyfunction]
fn _aot_is_available() -> bool {
    torchtpu_lazy::aot::is_available()
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_plan_begin, m)?)?;
    m.add_function(wrap_pyfunction!(_export_begin, m)?)?;
    m.add_function(wrap_pyfunction!(_export, m)?)?;
    m.add_function(wrap_pyfunction!(_export_input, m)?)?;
    m.add_function(wrap_pyfunction!(_plan_report, m)?)?;
    m.add_function(wrap_pyfunction!(_plan_end, m)?)?;
    m.add_function(wrap_pyfunction!(_plan_devices, m)?)?;
    m.add_function(wrap_pyfunction!(_plan_is_active, m)?)?;
    m.add_function(wrap_pyfunction!(_plan_steps, m)?)?;
    m.add_function(wrap_pyfunction!(_aot_compile, m)?)?;
    m.add_function(wrap_pyfunction!(_aot_optimized_text, m)?)?;
    m.add_function(wrap_pyfunction!(_aot_save, m)?)?;
    m.add_function(wrap_pyfunction!(_aot_is_available, m)?)?;
    Ok(())
}
