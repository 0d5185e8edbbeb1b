//! The native half of the Python package: `pytpu._C`.
//!
//! From Python the package looks like `torch`. Code that must be fast or touches memory is here. Code that users read
//! and subclass is Python ([`python/pytpu`](https://github.com/torchtpu/torchtpu)).
//!
//! # The hot path
//!
//! For `x + y` on small tensors, the interpreter's part dominates: a slot call, two pointer compares, the op, one
//! object. So the tensor type is a heap type made through the C API ([`tensor_type`]), with operator slots written by
//! hand ([`number`]). All functions and methods have one data-driven entry ([`table`]) that parses arguments by the
//! op's schema ([`arguments`]). PyO3 sets up the module, and serves the classes and functions that are called rarely.
//!
//! # The entry
//!
//! Every call from Python goes through [`enter`]. A panic becomes a `RuntimeError` and never crosses into the
//! interpreter. An [`Error`](torchtpu_tensor::Error) becomes the Python exception of its kind. The GIL is released only
//! for big work and for waits: for small work, releasing it costs thousands of times the work when threads compete for
//! it.
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
mod collector;
mod constructor;
mod convert;
mod custom;
mod deprecated;
mod device;
mod distributed;
mod dlpack;
mod dtype;
mod enter;
mod fake;
mod help;
mod indexing;
mod methods;
mod number;
mod objects;
mod out;
mod panics;
mod plan;
mod properties;
mod random;
mod safetensors;
mod sites;
mod size;
mod table;
mod tensor_functions;
mod tensor_type;
mod torch_dispatch;
mod torch_function;
mod tpu;

use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Return the number of threads of kernels on `cpu`.
#[pyfunction]
fn _num_threads() -> usize {
    torchtpu_kernels::threads::num_threads()
}

/// Set the number of threads that kernels on `cpu` use.
#[pyfunction]
fn _set_num_threads(n: usize) {
    torchtpu_kernels::threads::set_num_threads(n);
}

/// Set whether functions without a deterministic form in PyTorch raise an error or warn.
#[pyfunction]
fn _set_deterministic(on: bool, warn_only: bool) {
    torchtpu_tensor::state::set_deterministic(on, warn_only);
}

/// Set how tensors are printed. Without a threshold, all elements are printed.
#[pyfunction]
fn _set_print_options(
    precision: usize,
    threshold: Option<usize>,
    edge_items: usize,
    line_width: usize,
    scientific: Option<bool>,
) -> PyResult<()> {
    // No number has a million digits, and more would only take memory.
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
    // Everything that is made here stays, so the collector would look in vain.
    let _pause = collector::Pause::new(m.py());
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_function(wrap_pyfunction!(_num_threads, m)?)?;
    m.add_function(wrap_pyfunction!(_set_num_threads, m)?)?;
    m.add_function(wrap_pyfunction!(_set_deterministic, m)?)?;
    m.add_function(wrap_pyfunction!(_set_print_options, m)?)?;
    m.add_function(wrap_pyfunction!(_log_api_usage_once, m)?)?;
    enter::register(m)?;
    dtype::register(m)?;
    device::register(m)?;
    fake::register(m)?;
    size::register(m)?;
    random::register(m)?;
    let mut slots = number::slots();
    slots.extend(indexing::slots());
    slots.extend(collector::slots());
    slots.push(tensor_type::slot(pyo3::ffi::Py_tp_new, constructor::new as *const std::ffi::c_void));
    let parts = tensor_type::Parts { properties: properties::properties(), methods: methods::methods(), slots };
    // SAFETY: each file makes its slots from functions of the types that the C API states for their numbers.
    unsafe { tensor_type::register(m, parts)? };
    torch_dispatch::register(m)?;
    torch_dispatch::ops::register(m)?;
    torch_dispatch::values::register(m)?;
    torch_function::register(m)?;
    table::register(m)?;
    convert::register(m)?;
    tensor_functions::register(m)?;
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
