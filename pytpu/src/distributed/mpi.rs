//! Backend ``mpi``: an MPI library that is loaded at run time.

use crate::enter::OrRaise;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use torchtpu_distributed::transport::mpi::{self, Mpi};

/// Return the first of these libraries that can be loaded and has the functions of MPI, or ``None``.
#[pyfunction]
fn _mpi_find(py: Python<'_>, paths: Vec<String>) -> Option<String> {
    py.detach(|| mpi::find(paths.iter().map(Path::new)).map(|path| path.display().to_string()))
}

/// Start MPI with a library, at the first call. Return this rank and the number of ranks.
#[pyfunction]
fn _mpi_start(py: Python<'_>, path: PathBuf) -> PyResult<(usize, usize)> {
    let mpi = py.detach(|| Mpi::start(&path)).or_raise()?;
    Ok((mpi.rank(), mpi.size()))
}

/// Return the bytes that rank 0 of MPI gives.
#[pyfunction]
fn _mpi_broadcast(py: Python<'_>, data: Vec<u8>) -> PyResult<Vec<u8>> {
    let mpi = Mpi::started().ok_or_else(|| torchtpu_tensor::Error::runtime("MPI is not started")).or_raise()?;
    py.detach(|| mpi.broadcast(&data)).or_raise()
}

/// End MPI, if this library has started it. Waits for the other ranks.
#[pyfunction]
fn _mpi_finalize(py: Python<'_>) -> PyResult<()> {
    py.detach(mpi::finalize).or_raise()
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_mpi_find, m)?)?;
    m.add_function(wrap_pyfunction!(_mpi_start, m)?)?;
    m.add_function(wrap_pyfunction!(_mpi_broadcast, m)?)?;
    m.add_function(wrap_pyfunction!(_mpi_finalize, m)?)
}
