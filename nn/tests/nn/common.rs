//! Helpers of several test files.

pub use crate::close::close;
use std::sync::{Mutex, MutexGuard};
use torchtpu::nn::Module;
use torchtpu::{DType, Device, ErrorKind, Result, Tensor};

/// Lock the generator and the default dtype, which exist once per process, so that tests that use them run one at a
/// time.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|e| e.into_inner())
}

/// Return the devices that a test runs on.
pub fn devices() -> [Device; 2] {
    // Tests compare numbers for equality. A program that runs op by op until it is met again would round otherwise
    // then, and the tests of this process share programs.
    static COMPILED: std::sync::Once = std::sync::Once::new();
    COMPILED.call_once(|| torchtpu::lazy::set_interpret(torchtpu::lazy::Interpret::Never));
    [Device::CPU, torchtpu::device("tpu").unwrap()]
}

/// Return normal numbers of the default generator, on `cpu`.
pub fn randn(dims: &[usize]) -> Tensor {
    Tensor::randn(dims, DType::F32, Device::CPU).unwrap()
}

/// Return the names of a module's parameters.
pub fn names(m: &dyn Module) -> Vec<String> {
    m.named_parameters().into_iter().map(|(name, _)| name).collect()
}

/// Return a tensor of ones on `cpu`.
pub fn ones(dims: &[usize]) -> Tensor {
    Tensor::ones(dims, DType::F32, Device::CPU).unwrap()
}

/// Assert that the call failed with this kind and message.
#[track_caller]
pub fn refused<T>(y: Result<T>, kind: ErrorKind, message: &str) {
    let e = y.err().expect("an error");
    assert_eq!((e.kind(), e.message()), (kind, message));
}
