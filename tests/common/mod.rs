//! Helpers of several test files.
#![allow(dead_code, reason = "each file uses its part")]

use std::sync::{Mutex, MutexGuard};
use torchtpu::Device;

/// Lock the generator and the default dtype, which exist once per process, so that tests that use them run one at a
/// time.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|e| e.into_inner())
}

/// Return the devices that a test runs on.
pub fn devices() -> [Device; 2] {
    [Device::CPU, torchtpu::device("tpu").unwrap()]
}
