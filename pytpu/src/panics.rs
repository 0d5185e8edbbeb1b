//! Panics on demand, for the test that no panic leaves the library: `pytpu._C._panics`.
//!
//! No call of a user reaches this code. Ops panic through the observer with which tests count ops. It is installed at
//! the first use. Code that runs no op has a stand-in that uses the same entry.

use crate::tensor_type;
use pyo3::prelude::*;
use std::cell::Cell;
use std::sync::Once;
use torchtpu_tensor::{DType, Device, Meta, Tensor, dispatch};

thread_local! {
    static ARMED: Cell<bool> = const { Cell::new(false) };
}

/// Set whether the next op that this thread runs panics.
#[pyfunction]
fn arm(on: bool) {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        dispatch::observe(|op, _| {
            if ARMED.replace(false) {
                panic!("{} was told to", op.name());
            }
        });
    });
    ARMED.set(on);
}

/// Return whether the requested panic has not happened yet.
#[pyfunction]
fn is_armed() -> bool {
    ARMED.get()
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("a drop was told to");
    }
}

/// Make a tensor on memory whose owner panics when it is released.
#[pyfunction]
fn tensor(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static MEMORY: [f32; 2] = [1.0, 2.0];
    let meta = Meta::new(&[2], DType::F32, Device::CPU);
    // SAFETY: the memory lives forever, and tests do not write to it.
    let t =
        unsafe { Tensor::from_foreign(&meta, &[1], MEMORY.as_ptr().cast_mut().cast(), Box::new(PanicsWhenDropped)) };
    tensor_type::to_python(py, t)
}

/// An object of a class of PyO3 whose methods all panic.
#[pyclass(name = "Panicking")]
struct Panicking(#[allow(dead_code)] Option<PanicsWhenDropped>); // Dropped with the object.

#[pymethods]
impl Panicking {
    #[new]
    fn new(how: &str) -> Panicking {
        match how {
            "new" => panic!("a constructor was told to"),
            "drop" => Panicking(Some(PanicsWhenDropped)),
            _ => Panicking(None),
        }
    }
    fn method(&self) {
        panic!("a method was told to");
    }
    #[getter]
    fn value(&self) -> i64 {
        panic!("a getter was told to");
    }
    #[setter]
    fn set_value(&mut self, _v: i64) {
        panic!("a setter was told to");
    }
    fn __repr__(&self) -> String {
        panic!("a slot was told to");
    }
    fn __len__(&self) -> usize {
        panic!("a slot was told to");
    }
}

/// Fail for lack of memory, as a kernel does.
#[pyfunction]
fn give_up(bytes: usize) {
    torchtpu_kernels::memory::give_up(bytes);
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let own = PyModule::new(m.py(), "_panics")?;
    own.add_function(wrap_pyfunction!(arm, &own)?)?;
    own.add_function(wrap_pyfunction!(is_armed, &own)?)?;
    own.add_function(wrap_pyfunction!(tensor, &own)?)?;
    own.add_function(wrap_pyfunction!(give_up, &own)?)?;
    own.add_class::<Panicking>()?;
    m.add("_panics", own)
}
