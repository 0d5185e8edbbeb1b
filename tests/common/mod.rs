//! What several files of tests share.
#![allow(dead_code, reason = "each file uses its part")]

use std::sync::{Mutex, MutexGuard};
use torchtpu::nn::Module;
use torchtpu::{DType, Device, Tensor};

/// The generator and the default dtype are one per process, so tests that use them take turns.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|e| e.into_inner())
}

/// The devices that a test runs on.
pub fn devices() -> [Device; 2] {
    [Device::CPU, torchtpu::device("tpu").unwrap()]
}

/// Normal numbers of the default generator, on `cpu`.
pub fn randn(dims: &[usize]) -> Tensor {
    Tensor::randn(dims, DType::F32, Device::CPU).unwrap()
}

/// The names of a module's parameters.
pub fn names(m: &dyn Module) -> Vec<String> {
    m.named_parameters().into_iter().map(|(name, _)| name).collect()
}
