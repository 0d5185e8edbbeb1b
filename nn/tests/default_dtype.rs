//! Test of the default dtype of layers, in a separate process because it affects all threads.

#[path = "nn/close.rs"]
mod close;

use close::close;
use torchtpu::nn::{Embedding, GRU, LSTMCell, Linear, Module, MultiheadAttention, PReLU, RnnOptions};
use torchtpu::random::manual_seed;
use torchtpu::{DType, set_default_dtype};

#[test]
fn layers_have_the_default_dtype() {
    set_default_dtype(DType::F64);
    manual_seed(1);
    let all: Vec<(Box<dyn Module>, &[f64])> = vec![
        (Box::new(Linear::new(3, 2).unwrap()), &[-0.506852, -0.318057, -0.306859, -0.372854, 0.064742, -0.450975]),
        (Box::new(GRU::new(2, 2, RnnOptions::default()).unwrap()), &[]),
        (Box::new(Embedding::new(2, 2).unwrap()), &[-0.684178, 0.453291, 0.291158, -0.831717]),
        (Box::new(MultiheadAttention::new(4, 2, 0.0, true).unwrap()), &[]),
        (Box::new(LSTMCell::new(2, 2, true).unwrap()), &[]),
        (Box::new(PReLU::new().unwrap()), &[0.25]),
    ];
    set_default_dtype(DType::F32);
    for (m, want) in &all {
        assert!(m.parameters().iter().all(|p| p.tensor().dtype() == DType::F64), "{}", m.name());
        close(&m.parameters()[0].tensor(), want);
    }
    close(&all[1].0.parameters()[1].tensor(), &[0.60086, 0.706682, 0.555404, 0.532762]);
}
