//! The native half of the Python package: `pytpu._C`.
//!
//! From Python the package looks like `torch`. What has to be fast, or has to touch memory, is here; what users read
//! and subclass is Python ([`python/pytpu`](https://github.com/torchtpu/torchtpu)).
//!
//! # The hot path
//!
//! `x + y` on small tensors is an interpreter's matter: a slot call, two pointer compares, the op, one object. So the
//! tensor type is a heap type made through the C API ([`tensor_type`]), with operator slots written by hand
//! ([`number`]), and all functions and methods are served by one data-driven entry ([`table`]) that parses arguments by
//! the op's schema ([`arguments`]). PyO3 sets up the module, and serves the classes and functions that are called
//! rarely.
//!
//! # The one door
//!
//! Whatever Python calls goes through [`enter`]: a panic becomes a `RuntimeError` and never crosses into the
//! interpreter; an [`Error`](torchtpu_tensor::Error) becomes the Python exception of its kind; the GIL is given up for
//! big work and while waiting, and only then, because giving it up for small work costs thousands of times the work
//! when threads compete for it.
//!
//! # Identity
//!
//! One tensor has at most one living Python object (`x.grad is x.grad`). The tensor knows its object, weakly: the
//! object clears the pointer when it dies. Both happen under the GIL.
//!
//! Three types to know: [`tensor_type::TensorObject`], [`arguments::Overload`], [`enter::Failure`].

#![allow(non_snake_case)] // the crate is named like the module, `_C`

mod arguments;
mod autocast;
mod autograd;
mod convert;
mod custom;
mod deprecated;
mod device;
mod distributed;
mod dlpack;
mod dtype;
mod enter;
mod help;
mod indexing;
mod methods;
mod number;
mod objects;
mod out;
mod panics;
mod plan;
mod random;
mod safetensors;
mod sites;
mod size;
mod table;
mod tensor_type;
mod torch_function;
mod tpu;

use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Number of threads that kernels on `cpu` use.
#[pyfunction]
fn _num_threads() -> usize {
    torchtpu_kernels::threads::num_threads()
}

#[pyfunction]
fn _set_num_threads(n: usize) {
    torchtpu_kernels::threads::set_num_threads(n);
}

/// Whether functions that PyTorch has in no deterministic form are refused, or warn.
#[pyfunction]
fn _set_deterministic(on: bool, warn_only: bool) {
    torchtpu_tensor::state::set_deterministic(on, warn_only);
}

/// How tensors are printed from now on; no threshold prints all.
#[pyfunction]
fn _set_print_options(
    precision: usize,
    threshold: Option<usize>,
    edge_items: usize,
    line_width: usize,
    scientific: Option<bool>,
) -> PyResult<()> {
    // A million digits are more than any number has; more would only take memory.
    if precision > 1 << 20 {
        return Err(pyo3::exceptions::PyValueError::new_err("precision too big"));
    }
    let threshold = threshold.unwrap_or(usize::MAX);
    torchtpu_tensor::print::set_print_options(torchtpu_tensor::print::PrintOptions {
        precision,
        threshold,
        edge_items,
        line_width,
        scientific,
    });
    Ok(())
}

/// Do nothing: libraries call it to be counted, and this build does not count.
#[pyfunction]
fn _log_api_usage_once(_event: &str) {}

#[pymodule]
#[pyo3(name = "_C")]
fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
    // SAFETY: the GIL is held.
    if unsafe { pyo3::ffi::PyInterpreterState_GetID(pyo3::ffi::PyInterpreterState_Get()) } != 0 {
        return Err(pyo3::exceptions::PyImportError::new_err(
            "pytpu works in the main interpreter only: it keeps objects for the whole process, which sub-interpreters \
            may not share",
        ));
    }
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_function(wrap_pyfunction!(_num_threads, m)?)?;
    m.add_function(wrap_pyfunction!(_set_num_threads, m)?)?;
    m.add_function(wrap_pyfunction!(_set_deterministic, m)?)?;
    m.add_function(wrap_pyfunction!(_set_print_options, m)?)?;
    m.add_function(wrap_pyfunction!(_log_api_usage_once, m)?)?;
    enter::register(m)?;
    dtype::register(m)?;
    device::register(m)?;
    size::register(m)?;
    random::register(m)?;
    tensor_type::register(m)?;
    torch_function::register(m)?;
    table::register(m)?;
    convert::register(m)?;
    methods::register(m)?;
    autocast::register(m)?;
    autograd::register(m)?;
    distributed::register(m)?;
    dlpack::register(m)?;
    safetensors::register(m)?;
    plan::register(m)?;
    sites::register(m)?;
    custom::register(m)?;
    tpu::register(m)?;
    panics::register(m)?;
    Ok(())
}
