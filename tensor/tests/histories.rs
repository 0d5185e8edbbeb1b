//! Histories that several threads give to one tensor.

use std::sync::Arc;
use torchtpu_tensor::{DType, Device, Tensor};

/// A gradient that went to another leaf than the tensor's would be lost.
#[test]
fn threads_that_ask_for_gradients_at_once_get_the_same_leaf() {
    for _ in 0..500 {
        let w = Tensor::ones(&[4], DType::F32, Device::CPU).unwrap();
        let leaves: Vec<_> = std::thread::scope(|s| {
            let ask = || {
                w.requires_grad_(true).unwrap();
                w.leaf().unwrap()
            };
            let threads: Vec<_> = (0..3).map(|_| s.spawn(ask)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let leaf = w.leaf().unwrap();
        assert!(leaves.iter().all(|l| Arc::ptr_eq(l, &leaf)));
        assert!(w.requires_grad());
    }
}
