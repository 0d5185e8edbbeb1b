//! Tests of embeddings against numbers of PyTorch from the same seeds.

use crate::common::{close, devices, ones, refused, turn};
use torchtpu::nn::{BagMode, Embedding, EmbeddingBag, EmbeddingBagOptions, EmbeddingOptions, Module};
use torchtpu::random::manual_seed;
use torchtpu::{Backward, DType, Device, ErrorKind, Tensor};

#[test]
fn embeddings_equal_pytorchs() {
    let _turn = turn();
    for device in devices() {
        manual_seed(1);
        let options = EmbeddingOptions {
            padding_idx: Some(-2),
            max_norm: Some(1.0),
            scale_grad_by_freq: true,
            ..EmbeddingOptions::default()
        };
        let e = Embedding::with_options(5, 3, options).unwrap();
        e.to(device).unwrap();
        let i = Tensor::from_slice(&[0i64, 3, 2, 2, 4, 2], &[2, 3]).unwrap().to_device(device).unwrap();
        let y = e.forward(&i).unwrap();
        close(&y, &[0.661352, 0.266924, 0.061677, 0.0, 0.0, 0.0, -0.811582, 0.203424, -0.547679]);
        let factors: Vec<f32> = (0..18).map(|v| v as f32).collect();
        let factors = Tensor::from_slice(&factors, &[2, 3, 3]).unwrap().to_device(device).unwrap();
        y.mul(&factors).unwrap().sum().unwrap().backward().unwrap();
        let g = [0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 10.0, 11.0, 12.0, 0.0, 0.0, 0.0, 12.0, 13.0, 14.0];
        close(&e.weight.grad().unwrap(), &g);
        close(&e.weight.tensor(), &[0.661352, 0.266924, 0.061677, 0.621317, -0.451906, -0.16613, -0.811582, 0.203424]);

        let flat = i.reshape(&[-1]).unwrap();
        let ints = |v: &[i64]| Tensor::from_slice(v, &[v.len()]).unwrap().to_device(device).unwrap();
        for (mode, first) in [
            (BagMode::Sum, [0.098299, -0.625366, 0.003427]),
            (BagMode::Mean, [0.04915, -0.312683, 0.001714]),
            (BagMode::Max, [0.661352, 0.266924, 0.061677]),
        ] {
            manual_seed(1);
            let o = EmbeddingBagOptions { mode, padding_idx: Some(2), ..EmbeddingBagOptions::default() };
            let bag = EmbeddingBag::new(5, 3, o).unwrap();
            bag.to(device).unwrap();
            let last = [-0.19551, -0.965636, 0.422415];
            close(&bag.forward(&i).unwrap(), &[first, last].concat());
            let y = bag.bag(&flat, Some(&ints(&[0, 2, 2])), None).unwrap();
            close(&y, &[first, [0.0; 3], last].concat());
        }
        manual_seed(1);
        let o = EmbeddingBagOptions { mode: BagMode::Sum, include_last_offset: true, ..EmbeddingBagOptions::default() };
        let bag = EmbeddingBag::new(5, 3, o).unwrap();
        bag.to(device).unwrap();
        let factors = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[6]).unwrap().to_device(device).unwrap();
        let y = bag.bag(&flat, Some(&ints(&[0, 4, 6])), Some(&factors)).unwrap();
        close(&y, &[-11.124133, 1.15413, -7.248084, -10.114159, -2.538076, -4.053576]);
    }
    let rows = ones(&[3, 2]);
    let frozen = Embedding::from_pretrained(&rows, true, EmbeddingOptions::default()).unwrap();
    assert!(!frozen.weight.tensor().requires_grad() && !frozen.weight.tensor().is_same(&rows));
    refused(Embedding::with_padding(3, 2, Some(3)), ErrorKind::Value, "Padding_idx must be within num_embeddings");
    refused(
        Embedding::with_padding(3, 2, Some(i64::MIN)),
        ErrorKind::Value,
        "Padding_idx must be within num_embeddings",
    );
    let o = EmbeddingBagOptions { padding_idx: Some(-4), ..EmbeddingBagOptions::default() };
    refused(EmbeddingBag::new(3, 2, o), ErrorKind::Value, "padding_idx must be within num_embeddings");
    refused(
        Embedding::from_pretrained(&ones(&[3]), true, EmbeddingOptions::default()),
        ErrorKind::Value,
        "Embeddings parameter is expected to be 2-dimensional",
    );
    let bag = EmbeddingBag::new(3, 2, EmbeddingBagOptions::default()).unwrap();
    let one = |dims: &[usize]| Tensor::ones(dims, DType::I64, Device::CPU).unwrap();
    refused(bag.forward(&one(&[1])), ErrorKind::Value, "offsets has to be a 1D Tensor but got None");
    refused(bag.forward(&one(&[])), ErrorKind::Value, "input has to be 1D or 2D Tensor, but got Tensor of dimension 0");
    let y = bag.bag(&one(&[1]), Some(&one(&[1]).sub(&one(&[1])).unwrap()), Some(&ones(&[1])));
    refused(
        y,
        ErrorKind::NotImplemented,
        "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got \
        mode='mean'). Please open a feature request on GitHub.",
    );
    assert_eq!(bag.forward(&one(&[2, 0])).unwrap().dims()[..], [2, 2]);
    assert_eq!(bag.forward(&one(&[0, 2])).unwrap().dims()[..], [0, 2]);
}
