//! Anomaly mode, and the texts that the engine asks the interpreter for.

use crate::enter::callback_error;
use pyo3::prelude::*;
use torchtpu_tensor::Error;
use torchtpu_tensor::saved;

/// Set anomaly mode. Return the previous setting: whether it was on, and whether it checked for NaN.
#[pyfunction]
fn _set_anomaly_enabled(detect: bool, check_nan: bool) -> (bool, bool) {
    saved::set_anomaly(detect, check_nan)
}

/// Return whether errors of backward show the forward call.
#[pyfunction]
fn is_anomaly_enabled() -> bool {
    saved::anomaly().0
}

/// Return whether a NaN in a gradient is an error while anomalies are detected.
#[pyfunction]
fn is_anomaly_check_nan_enabled() -> bool {
    saved::anomaly().1
}

/// The interpreter's stack, innermost call last.
fn python_stack() -> String {
    let text = Python::try_attach(|py| -> PyResult<String> {
        let lines = py.import("traceback")?.getattr("format_stack")?.call0()?;
        pyo3::types::PyString::new(py, "").call_method1("join", (lines,))?.extract()
    });
    match text {
        Some(Ok(text)) => text,
        _ => "(no interpreter)\n".into(),
    }
}

/// Allow four times as many nested backward passes as Python allows nested calls, and raise its `RecursionError` beyond
/// that. Passes continue on new threads, so their calls are not nested in Python.
fn depth_limit() -> (usize, fn() -> Error) {
    let limit = Python::attach(|py| py.import("sys")?.getattr("getrecursionlimit")?.call0()?.extract::<usize>());
    (limit.unwrap_or(1000).saturating_mul(4), || {
        let text = "maximum recursion depth exceeded in nested backward passes";
        callback_error(pyo3::exceptions::PyRecursionError::new_err(text))
    })
}

fn warn(text: &str) {
    Python::attach(|py| {
        let warned = py.import("warnings").and_then(|w| w.getattr("warn")).and_then(|w| w.call1((text,)));
        if let Err(e) = warned {
            e.write_unraisable(py, None); // A warning that is an error must not replace the error of the pass.
        }
    });
}

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_set_anomaly_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(is_anomaly_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(is_anomaly_check_nan_enabled, m)?)?;
    saved::set_traceback(python_stack);
    torchtpu_autograd::set_depth_limit(depth_limit);
    torchtpu_autograd::anomaly::set_report(warn);
    Ok(())
}
