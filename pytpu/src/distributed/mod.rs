//! `torch.distributed`: stores, process groups, works, meshes and sharded tensors.
//!
//! Validation and words are Python ([`distributed_c10d.py`](https://github.com/torchtpu/torchtpu)), work is done here.
//! All calls that may wait release the GIL, and notice Ctrl-C.

mod group;
mod memory;
mod mesh;
mod mpi;
mod reducer;
mod sharded;
mod store;
mod tensors;
mod work;

use crate::enter;
use pyo3::prelude::*;
use torchtpu_distributed::Recorder;

/// Raise the exception of a signal that has arrived, such as `KeyboardInterrupt`. Signals reach the main thread only.
fn check_signals() -> torchtpu_tensor::Result<()> {
    // Collectives of programs wait on threads of the device's runtime. The main thread may hold the GIL while it waits
    // for the program.
    if rustix::thread::gettid() != rustix::process::getpid() {
        return Ok(());
    }
    // While the interpreter ends there is no user to interrupt.
    Python::try_attach(|py| py.check_signals()).unwrap_or(Ok(())).map_err(enter::callback_error)
}

/// Return the last collectives of this process as JSON, with the names of PyTorch's flight recorder.
#[pyfunction]
fn _flight_recorder_json(py: Python<'_>) -> String {
    py.detach(|| Recorder::global().json())
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    torchtpu_distributed::store::install_interrupt_check(check_signals);
    store::register(m)?;
    group::register(m)?;
    tensors::register(m)?;
    work::register(m)?;
    mesh::register(m)?;
    mpi::register(m)?;
    reducer::register(m)?;
    sharded::register(m)?;
    m.add_function(wrap_pyfunction!(_flight_recorder_json, m)?)?;
    for (name, class) in [
        ("_DistError", m.py().get_type::<enter::DistError>()),
        ("_DistBackendError", m.py().get_type::<enter::DistBackendError>()),
        ("_DistNetworkError", m.py().get_type::<enter::DistNetworkError>()),
        ("_DistStoreError", m.py().get_type::<enter::DistStoreError>()),
        ("_DistQueueEmptyError", m.py().get_type::<enter::QueueEmptyError>()),
    ] {
        m.add(name, class)?;
    }
    Ok(())
}
