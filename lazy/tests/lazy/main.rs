//! Tests of the engine through tensors on device `tpu`, on the XLA:CPU plugin.

mod cache;
mod checks;
mod collectives;
mod interpret;
mod keys;
mod modes;
mod pieces;
mod pool;
mod streams;

use std::sync::{Mutex, MutexGuard, Once};
use torchtpu_lazy as lazy;
use torchtpu_tensor::{Device, Tensor};

/// Lock the engine and its counters, which exist once per process, so that tests run one at a time. Each test starts in
/// Fused mode, without pending work, and with counts of zero.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    static FIRST: Once = Once::new();
    let guard = TURN.lock().unwrap_or_else(|e| e.into_inner());
    FIRST.call_once(|| {
        lazy::install();
        if !cache::is_child() {
            lazy::set_cache_folder(None).expect("nothing has used the device yet");
        }
        lazy::device_name().expect("these tests need a plugin");
    });
    lazy::set_eager_mode(lazy::EagerMode::Fused);
    lazy::set_max_segment_ops(1500);
    lazy::set_max_pending_bytes(None);
    lazy::set_check_numerics(false);
    lazy::set_early_ops(usize::MAX);
    lazy::set_hash_mask(u64::MAX);
    lazy::set_divide(lazy::Divide::Changing);
    lazy::set_interpret(lazy::Interpret::Never);
    lazy::synchronize().expect("an earlier test left a failure behind");
    lazy::reset_metrics();
    guard
}

fn tpu(data: &[f32], dims: &[usize]) -> Tensor {
    Tensor::from_slice_on(data, dims, Device::TPU).unwrap()
}

fn values(x: &Tensor) -> Vec<f32> {
    x.to_vec::<f32>().unwrap()
}

/// Return the number of segments that were cut for this reason.
fn cuts(reason: lazy::CutReason) -> u64 {
    lazy::metrics().cuts.iter().find(|(name, _)| *name == reason.name()).map_or(0, |(_, n)| *n)
}
