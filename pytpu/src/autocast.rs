//! The switches of `torch.autocast`. The context manager itself is Python.

use crate::dtype::{self, PyDType};
use crate::enter;
use pyo3::prelude::*;
use torchtpu_tensor::{Device, autocast};

fn kind(device: &str) -> PyResult<torchtpu_tensor::DeviceKind> {
    Ok(Device::parse(device).map_err(enter::exception)?.kind)
}

/// Return whether autocast is on for a kind of device.
#[pyfunction]
fn _autocast_enabled(device: &str) -> PyResult<bool> {
    Ok(autocast::is_enabled(kind(device)?))
}

/// Set whether autocast is on for a kind of device. Return the previous setting.
#[pyfunction]
fn _set_autocast_enabled(device: &str, on: bool) -> PyResult<bool> {
    autocast::set_enabled(kind(device)?, on).map_err(enter::exception)
}

/// Return the dtype of products under autocast.
#[pyfunction]
fn _autocast_dtype<'py>(py: Python<'py>, device: &str) -> PyResult<Bound<'py, PyDType>> {
    Ok(dtype::object(py, autocast::dtype(kind(device)?).map_err(enter::exception)?))
}

/// Set the dtype of products under autocast.
#[pyfunction]
fn _set_autocast_dtype(device: &str, dtype: &Bound<'_, PyAny>) -> PyResult<()> {
    // SAFETY: `dtype` is alive.
    let Some(d) = (unsafe { dtype::extract(dtype.as_ptr()) }) else {
        // SAFETY: `dtype` is alive.
        if let Some(e) = unsafe { dtype::refusal(dtype.as_ptr()) } {
            return Err(e);
        }
        let got = dtype.get_type().name()?;
        return Err(pyo3::exceptions::PyTypeError::new_err(format!(
            "set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not {got}"
        )));
    };
    autocast::set_dtype(kind(device)?, d).map_err(enter::exception)
}

/// Return whether casts of parameters are kept until the outermost block ends.
#[pyfunction]
fn is_autocast_cache_enabled() -> bool {
    autocast::keeps_casts()
}

/// Set whether casts of parameters are kept.
#[pyfunction]
fn set_autocast_cache_enabled(enabled: bool) {
    autocast::set_keeps_casts(enabled);
}

/// Forget the casts that were kept.
#[pyfunction]
fn clear_autocast_cache() {
    autocast::clear_casts();
}

/// Enter a block. Return the number of blocks that this thread is in.
#[pyfunction]
fn autocast_increment_nesting() -> i64 {
    autocast::nest(1)
}

/// Leave a block. Return the number of blocks that this thread is still in.
#[pyfunction]
fn autocast_decrement_nesting() -> i64 {
    autocast::nest(-1)
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_autocast_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(_set_autocast_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(_autocast_dtype, m)?)?;
    m.add_function(wrap_pyfunction!(_set_autocast_dtype, m)?)?;
    m.add_function(wrap_pyfunction!(is_autocast_cache_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(set_autocast_cache_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(clear_autocast_cache, m)?)?;
    m.add_function(wrap_pyfunction!(autocast_increment_nesting, m)?)?;
    m.add_function(wrap_pyfunction!(autocast_decrement_nesting, m)?)?;
    Ok(())
}
