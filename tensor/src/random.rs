//! Random generators.

use std::sync::Mutex;

/// A source of random numbers; cloning shares it.
#[derive(Debug)]
pub struct Generator {
    seed: Mutex<u64>,
}

impl Generator {
    /// A generator with a seed.
    pub fn new(seed: u64) -> Generator {
        Generator { seed: Mutex::new(seed) }
    }
    /// The seed it was set to.
    pub fn initial_seed(&self) -> u64 {
        *self.seed.lock().unwrap_or_else(|e| e.into_inner())
    }
}
