//! Tests of activations, dropouts, tables, containers, attention and the transformer against numbers of PyTorch from
//! the same seeds, and of the module trait.

mod common;

use common::{devices, names, randn, turn};
use std::sync::Arc;
use torchtpu::nn::optim::{Optimizer, Sgd, SgdOptions};
use torchtpu::nn::{
    AlphaDropout, AttentionMask, BagMode, Bilinear, CELU, CosineSimilarity, Dropout, Dropout1d, Dropout2d, Dropout3d,
    ELU, Embedding, EmbeddingBag, EmbeddingBagOptions, EmbeddingOptions, FeatureAlphaDropout, GELU, GLU, GRU, GRUCell,
    Hardshrink, Hardsigmoid, Hardswish, Hardtanh, LSTM, LSTMCell, LeakyReLU, Linear, LogSigmoid, LogSoftmax, Mish,
    Module, ModuleDict, ModuleList, MultiheadAttention, MultiheadAttentionOptions, PReLU, PairwiseDistance, RReLU,
    ReLU, ReLU6, RnnOptions, SELU, Sequential, SiLU, Sigmoid, Softmax, Softmax2d, Softmin, Softplus, Softshrink,
    Softsign, Tanh, Tanhshrink, Threshold, Transformer, TransformerDecoder, TransformerDecoderLayer,
    TransformerEncoderLayer, TransformerOptions, Visitor, generate_square_subsequent_mask,
};
use torchtpu::random::manual_seed;
use torchtpu::{Backward, DType, Device, ErrorKind, Result, Tensor, set_default_dtype};

fn ones(dims: &[usize]) -> Tensor {
    Tensor::ones(dims, DType::F32, Device::CPU).unwrap()
}

/// Assert that the first elements are close to `want`.
#[track_caller]
fn close(x: &Tensor, want: &[f64]) {
    let got = x.to_vec::<f64>().unwrap();
    let near = |(g, w): (&f64, &f64)| (g - w).abs() <= 2e-5 * (1.0 + w.abs());
    assert!(got.len() >= want.len() && got.iter().zip(want).all(near), "{got:?} against {want:?}");
}

#[track_caller]
fn refused<T>(y: Result<T>, kind: ErrorKind, message: &str) {
    let e = y.err().expect("an error");
    assert_eq!((e.kind(), e.message()), (kind, message));
}

#[test]
fn activations_equal_pytorchs() {
    let _turn = turn();
    let table: Vec<(Box<dyn Module>, &[f64])> = vec![
        (Box::new(ReLU), &[0.0, 0.0, 0.0, 0.0, 0.0, 0.3, 0.75, 1.5, 3.5, 7.0]),
        (Box::new(ReLU6), &[0.0, 0.0, 0.0, 0.0, 0.0, 0.3, 0.75, 1.5, 3.5, 6.0]),
        (
            Box::new(Tanh),
            &[-0.999329, -0.986614, -0.761594, -0.244919, 0.0, 0.291313, 0.635149, 0.905148, 0.998178, 0.999998],
        ),
        (
            Box::new(Tanhshrink),
            &[-3.000671, -1.513386, -0.238406, -0.005081, 0.0, 0.008687, 0.114851, 0.594852, 2.501822, 6.000002],
        ),
        (
            Box::new(Sigmoid),
            &[0.017986, 0.075858, 0.268941, 0.437824, 0.5, 0.574443, 0.679179, 0.817574, 0.970688, 0.999089],
        ),
        (
            Box::new(LogSigmoid),
            &[
                -4.01815,
                -2.57889,
                -1.313262,
                -0.825939,
                -std::f64::consts::LN_2,
                -0.554355,
                -0.386871,
                -0.201413,
                -0.02975,
                -0.000911,
            ],
        ),
        (Box::new(Hardsigmoid), &[0.0, 0.083333, 0.333333, 0.458333, 0.5, 0.55, 0.625, 0.75, 1.0, 1.0]),
        (Box::new(Hardswish), &[0.0, -0.208333, -0.333333, -0.114583, 0.0, 0.165, 0.46875, 1.125, 3.5, 7.0]),
        (
            Box::new(SiLU),
            &[-0.071945, -0.189645, -0.268941, -0.109456, 0.0, 0.172333, 0.509384, 1.226362, 3.397407, 6.993623],
        ),
        (
            Box::new(Mish),
            &[-0.072592, -0.196816, -0.303401, -0.129927, 0.0, 0.208001, 0.610018, 1.403378, 3.493991, 6.999989],
        ),
        (
            Box::new(SELU),
            &[-1.725899, -1.613786, -1.111331, -0.38889, 0.0, 0.31521, 0.788026, 1.576051, 3.677454, 7.354907],
        ),
        (Box::new(Softsign), &[-0.8, -0.714286, -0.5, -0.2, 0.0, 0.230769, 0.428571, 0.6, 0.777778, 0.875]),
        (
            Box::new(GELU::default()),
            &[-0.000126, -0.015524, -0.158655, -0.100323, 0.0, 0.185373, 0.580029, 1.399789, 3.499186, 7.0],
        ),
        (
            Box::new(GELU { tanh: true }),
            &[-0.000070, -0.015084, -0.158808, -0.100325, 0.0, 0.185371, 0.579961, 1.399572, 3.499384, 7.0],
        ),
        (Box::new(LeakyReLU { negative_slope: 0.2 }), &[-0.8, -0.5, -0.2, -0.05, 0.0, 0.3, 0.75, 1.5, 3.5, 7.0]),
        (Box::new(ELU { alpha: 0.7 }), &[-0.687179, -0.64254, -0.442484, -0.154839, 0.0, 0.3, 0.75, 1.5, 3.5, 7.0]),
        (Box::new(CELU { alpha: 0.7 }), &[-0.697691, -0.680319, -0.532244, -0.210229, 0.0, 0.3, 0.75, 1.5, 3.5, 7.0]),
        (
            Box::new(Softplus { beta: 2.0, threshold: 5.0 }),
            &[0.000168, 0.003358, 0.063464, 0.237038, 0.346574, 0.518744, 0.850707, 1.524294, 3.5, 7.0],
        ),
        (Box::new(Hardtanh { min_val: -0.5, max_val: 2.0 }), &[-0.5, -0.5, -0.5, -0.25, 0.0, 0.3, 0.75, 1.5, 2.0, 2.0]),
        (Box::new(Hardshrink { lambd: 0.3 }), &[-4.0, -2.5, -1.0, 0.0, 0.0, 0.0, 0.75, 1.5, 3.5, 7.0]),
        (Box::new(Softshrink { lambd: 0.4 }), &[-3.6, -2.1, -0.6, 0.0, 0.0, 0.0, 0.35, 1.1, 3.1, 6.6]),
        (
            Box::new(Softmax { dim: 0 }),
            &[0.000016, 0.000072, 0.000323, 0.000683, 0.000877, 0.001184, 0.001857, 0.003931, 0.02905, 0.962006],
        ),
        (
            Box::new(Softmin { dim: 0 }),
            &[0.745363, 0.166313, 0.037109, 0.017529, 0.013652, 0.010114, 0.006449, 0.003046, 0.000412, 0.000012],
        ),
        (
            Box::new(LogSoftmax::default()),
            &[
                -11.038734, -9.538734, -8.038734, -7.288734, -7.038734, -6.738734, -6.288734, -5.538734, -3.538735,
                -0.038735,
            ],
        ),
        (Box::new(GLU::default()), &[-2.29777, -1.697947, -0.817574, -0.242672, 0.0]),
        (Box::new(Threshold::new(0.5, -7.0)), &[-7.0, -7.0, -7.0, -7.0, -7.0, -7.0, 0.75, 1.5, 3.5, 7.0]),
        (Box::new(PReLU::new().unwrap()), &[-1.0, -0.625, -0.25, -0.0625, 0.0, 0.3, 0.75, 1.5, 3.5, 7.0]),
        (Box::new(RReLU::default()), &[-0.916667, -0.572917, -0.229167, -0.057292, 0.0, 0.3, 0.75, 1.5, 3.5, 7.0]),
    ];
    for device in devices() {
        let x = Tensor::from_slice(&[-4.0f32, -2.5, -1.0, -0.25, 0.0, 0.3, 0.75, 1.5, 3.5, 7.0], &[10]).unwrap();
        let x = x.to_device(device).unwrap();
        for (m, want) in &table {
            m.to(device).unwrap();
            m.eval();
            close(&m.forward(&x).unwrap(), want);
        }
    }
    refused(
        Softmax2d.forward(&ones(&[3, 2])),
        ErrorKind::Value,
        "Softmax2d: expected input to be 3D or 4D, got 2D instead",
    );
    let wrong = Hardtanh { min_val: 1.0, max_val: 1.0 }.forward(&ones(&[2]));
    refused(wrong, ErrorKind::Value, "max_val (1.0) must be greater than min_val (1.0)");
}

#[test]
fn trained_and_random_slopes_equal_pytorchs() {
    let _turn = turn();
    for device in devices() {
        let x = Tensor::from_slice(&[-4.0f32, -2.5, -1.0, -0.25, 0.0, 0.3, 0.75, 1.5, 3.5, 7.0], &[10]).unwrap();
        manual_seed(3);
        let y = RReLU::new(0.1, 0.5).forward(&x.to_device(device).unwrap()).unwrap();
        if device == Device::CPU {
            close(&y, &[-0.454573, -0.53674, -0.409166, -0.042493, 0.0, 0.3, 0.75, 1.5, 3.5, 7.0]);
        }
        manual_seed(3);
        let m = PReLU::with_parameters(2, 0.25).unwrap();
        m.to(device).unwrap();
        let y = m.forward(&randn(&[2, 2, 2]).to_device(device).unwrap()).unwrap();
        close(&y, &[0.803276, 0.174833, 0.088978, -0.15343, 0.046182, -0.342065, 0.337495, 1.011116]);
        y.sum().unwrap().backward().unwrap();
        close(&m.weight.grad().unwrap(), &[-1.368259, -0.613718]);
        assert_eq!(names(&m), ["weight"]);
        manual_seed(3);
        let y = Softmax2d.forward(&randn(&[2, 2, 2]).to_device(device).unwrap()).unwrap();
        close(&y, &[0.680722, 0.823914, 0.438189, 0.164539, 0.319278, 0.176086, 0.561811, 0.835461]);
    }
}

/// A layer, the size of its input, and its output for ones.
type Drop = (Box<dyn Module>, &'static [usize], Vec<f64>);

#[test]
fn dropouts_drop_the_same_elements_as_pytorchs() {
    let _turn = turn();
    let (o, a, b) = (1.666667, -0.910642, 1.470377);
    let table: Vec<Drop> = vec![
        (Box::new(Dropout::new(0.4).unwrap()), &[2, 6], vec![0.0, o, o, o, o, 0.0, o, 0.0, 0.0, o, o, o]),
        (Box::new(Dropout1d::new(0.4).unwrap()), &[2, 3, 2], vec![0.0, 0.0, o, o, o, o, o, o, o, o, 0.0, 0.0]),
        (Box::new(Dropout1d::new(0.4).unwrap()), &[4, 2], vec![0.0, 0.0, o, o, o, o, o, o]),
        (Box::new(Dropout2d::new(0.4).unwrap()), &[2, 2, 2, 2], [[0.0; 4], [o; 4], [o; 4], [o; 4]].concat()),
        (Box::new(Dropout3d::new(0.4).unwrap()), &[3, 2, 1, 2], [[0.0; 4], [o; 4], [o; 4]].concat()),
        (Box::new(AlphaDropout::new(0.4).unwrap()), &[2, 6], vec![a, b, b, b, b, a, b, a, a, b, b, b]),
        (Box::new(FeatureAlphaDropout::new(0.4).unwrap()), &[2, 3, 2], vec![a, a, b, b, b, b, b, b, b, b, a, a]),
    ];
    let tpu = torchtpu::device("tpu").unwrap();
    for (m, dims, want) in &table {
        manual_seed(5);
        close(&m.forward(&ones(dims)).unwrap(), want);
        // The device draws its own numbers, so only check that each output is one of the two possible values.
        let y = m.forward(&ones(dims).to_device(tpu).unwrap()).unwrap();
        let two = [want.iter().copied().fold(f64::MAX, f64::min), want.iter().copied().fold(f64::MIN, f64::max)];
        assert!(y.to_vec::<f64>().unwrap().iter().all(|v| two.iter().any(|w| (v - w).abs() < 1e-5)), "{y:?}");
        m.eval();
        close(&m.forward(&ones(dims)).unwrap(), &vec![1.0; want.len()]);
    }
    refused(Dropout3d::new(-0.5), ErrorKind::Value, "dropout probability has to be between 0 and 1, but got -0.5");
    assert!(AlphaDropout::new(f64::NAN).is_err());
    refused(
        Dropout1d::default().forward(&ones(&[3])),
        ErrorKind::Runtime,
        "dropout1d: Expected 2D or 3D input, but received a 1D input. Note that dropout1d exists to provide \
        channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch dimension \
        (i.e. 2D or 3D inputs).",
    );
}

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

#[test]
fn bilinear_layers_and_distances_equal_pytorchs() {
    let _turn = turn();
    for device in devices() {
        manual_seed(1);
        let m = Bilinear::new(3, 2, 2, true).unwrap();
        m.to(device).unwrap();
        let (x, y) = (randn(&[4, 3]).to_device(device).unwrap(), randn(&[4, 2]).to_device(device).unwrap());
        let z = m.apply(&x, &y).unwrap();
        close(&z, &[1.322183, 0.009261, -1.198498, 0.111651, -1.47202, 0.209375, 0.209826, -0.046106]);
        z.square().unwrap().sum().unwrap().backward().unwrap();
        let g = m.weight.grad().unwrap();
        close(&g, &[1.817779, 0.904154, 4.568026, 8.654937, -9.501808, 11.442484, -0.202959, 0.152674]);
        assert_eq!(names(&m), ["weight", "bias"]);
        manual_seed(1);
        let (x, y) = (randn(&[2, 3]).to_device(device).unwrap(), randn(&[2, 3]).to_device(device).unwrap());
        close(&CosineSimilarity::default().forward(&x, &y).unwrap(), &[-0.721133, 0.075938]);
        let d = PairwiseDistance { p: 1.0, keepdim: true, ..PairwiseDistance::default() }.forward(&x, &y).unwrap();
        close(&d, &[3.388167, 1.732636]);
        assert_eq!(d.dims()[..], [2, 1]);
    }
    refused(Bilinear::new(0, 1, 1, true), ErrorKind::Value, "in1_features must be > 0, but got (in1_features=0)");
}

fn mask(rows: &[[bool; 3]]) -> Tensor {
    Tensor::from_slice(&rows.concat(), &[rows.len(), 3]).unwrap()
}

#[test]
fn attention_ignores_masked_positions() {
    let _turn = turn();
    for device in devices() {
        let on = |x: Tensor| x.to_device(device).unwrap();
        manual_seed(1);
        let o = MultiheadAttentionOptions { batch_first: true, ..MultiheadAttentionOptions::default() };
        let m = MultiheadAttention::with_options(8, 2, o).unwrap();
        m.to(device).unwrap();
        let x = on(randn(&[2, 3, 8]));
        let padding = on(mask(&[[false, false, true], [false, true, false]]));
        let later = on(mask(&[[false, true, true], [false, false, true], [false, false, false]]));
        let none = AttentionMask::default();
        let kpm = AttentionMask { key_padding_mask: Some(&padding), ..none };
        let (y, w) = m.attend_with_weights(&x, &x, &x, kpm, true).unwrap();
        let want = [0.535438, -0.162929, -0.194509, 0.101953, 0.488506, 0.033671];
        close(&y, &want);
        close(&m.attend(&x, &x, &x, kpm).unwrap(), &want);
        close(&w, &[0.567279, 0.432721, 0.0, 0.39745, 0.602551, 0.0, 0.35662, 0.64338, 0.0, 0.656633, 0.0, 0.343367]);
        assert_eq!(w.dims()[..], [2, 3, 3]);
        let want = [0.768209, -0.158713, -0.196218, 0.263065, 0.622681, 0.154345];
        let (y, w) = m.attend_with_weights(&x, &x, &x, AttentionMask { mask: Some(&later), ..none }, false).unwrap();
        close(&y, &want);
        close(&w, &[1.0, 0.0, 0.0, 0.43474, 0.56526, 0.0, 0.269105, 0.486414, 0.244481, 1.0, 0.0, 0.0]);
        assert_eq!(w.dims()[..], [2, 2, 3, 3]);
        // The same mask in other forms.
        close(&m.attend(&x, &x, &x, AttentionMask { is_causal: true, ..none }).unwrap(), &want);
        close(&m.attend(&x, &x, &x, AttentionMask { mask: Some(&later), ..kpm }).unwrap(), &want);
        close(&m.attend(&x, &x, &x, AttentionMask { is_causal: true, ..kpm }).unwrap(), &want);
        let float = generate_square_subsequent_mask(3, DType::F32, device).unwrap();
        close(&m.attend(&x, &x, &x, AttentionMask { mask: Some(&float), ..none }).unwrap(), &want);
        let each: Vec<f32> = (0..36).map(|v| v as f32 / 10.0).collect();
        let each = on(Tensor::from_slice(&each, &[4, 3, 3]).unwrap());
        let y = m.attend(&x, &x, &x, AttentionMask { mask: Some(&each), ..none }).unwrap();
        close(&y, &[0.353659, -0.063908, 0.015604, 0.129785, 0.101329, 0.102135]);
        let row = x.select(0, 0).unwrap();
        let (y, w) = m.attend_with_weights(&row, &row, &row, none, true).unwrap();
        close(&y, &[0.377697, -0.074095, -0.003567, 0.136055, 0.137578, 0.09911]);
        close(&w, &[0.382101, 0.288067, 0.329832, 0.262644, 0.389812, 0.347544, 0.258064, 0.465614, 0.276322]);
        assert_eq!((y.dims()[..].to_vec(), w.dims()[..].to_vec()), (vec![3, 8], vec![3, 3]));

        manual_seed(1);
        let o = MultiheadAttentionOptions {
            kdim: Some(5),
            vdim: Some(3),
            add_bias_kv: true,
            add_zero_attn: true,
            batch_first: false,
            ..MultiheadAttentionOptions::default()
        };
        let m = MultiheadAttention::with_options(8, 2, o).unwrap();
        m.to(device).unwrap();
        let (q, k, v) = (on(randn(&[3, 2, 8])), on(randn(&[4, 2, 5])), on(randn(&[4, 2, 3])));
        let padding = [false, false, true, false, false, true, false, false];
        let padding = on(Tensor::from_slice(&padding, &[2, 4]).unwrap());
        let kpm = AttentionMask { key_padding_mask: Some(&padding), ..none };
        let want = [-0.027803, 0.062188, 0.160446, 0.068063, -0.081484, 0.075841];
        let (y, w) = m.attend_with_weights(&q, &k, &v, kpm, true).unwrap();
        close(&y, &want);
        close(&w, &[0.156323, 0.21023, 0.0, 0.143552, 0.286726, 0.203169, 0.08859, 0.199332, 0.0, 0.106491]);
        let y = m.attend(&q, &k, &v, kpm).unwrap();
        close(&y, &want);
        y.square().unwrap().sum().unwrap().backward().unwrap();
        let g = m.bias_k.as_ref().unwrap().grad().unwrap();
        close(&g, &[-0.006309, 0.003919, -0.010611, -0.004477, -0.019939, -0.003897, -0.019192, 0.024983]);
        let all = ["q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias", "bias_k", "bias_v"];
        assert_eq!(names(&m)[..6], all);
    }
}

#[test]
fn attention_refuses_wrong_shapes_and_masks() {
    let _turn = turn();
    use ErrorKind::{Runtime, Value};
    refused(MultiheadAttention::new(8, 3, 0.0, true), Value, "embed_dim must be divisible by num_heads");
    refused(
        MultiheadAttention::new(8, 0, 0.0, true),
        Value,
        "embed_dim and num_heads must be greater than 0, got embed_dim=8 and num_heads=0 instead",
    );
    let too_much = "dropout probability has to be between 0 and 1, but got 1.5";
    refused(MultiheadAttention::new(8, 2, 1.5, true), Value, too_much);
    let o = TransformerOptions { dropout: 1.5, ..TransformerOptions::default() };
    refused(TransformerEncoderLayer::new(8, 2, o), Value, too_much);
    let o = MultiheadAttentionOptions { batch_first: true, ..MultiheadAttentionOptions::default() };
    let m = MultiheadAttention::with_options(8, 2, o).unwrap();
    let (x, none) = (ones(&[2, 3, 8]), AttentionMask::default());
    let row = ones(&[8]);
    refused(
        m.attend(&row, &x, &x, none),
        Value,
        "query should be unbatched 2D or batched 3D tensor but received 1-D query tensor",
    );
    refused(
        m.attend(&x, &ones(&[3, 8]), &x, none),
        Value,
        "For batched (3-D) `query`, expected `key` and `value` to be 3-D but found 2-D and 3-D tensors respectively",
    );
    refused(
        m.attend(&x, &x, &x, AttentionMask { key_padding_mask: Some(&row), ..none }),
        Value,
        "For batched (3-D) `query`, expected `key_padding_mask` to be `None` or 2-D but found 1-D tensor instead",
    );
    refused(m.forward(&ones(&[2, 3, 5])), Value, "was expecting embedding dimension of 8, but got 5");
    assert!(m.attend(&x, &ones(&[2, 3, 5]), &ones(&[2, 3, 5]), none).is_err());
    assert!(m.attend(&x, &ones(&[1, 3, 8]), &ones(&[1, 3, 8]), none).is_err());
    let masked = |dims: &[usize]| {
        let all = ones(dims);
        m.attend(&x, &x, &x, AttentionMask { mask: Some(&all), ..none })
    };
    refused(masked(&[3, 2]), Runtime, "The shape of the 2D attn_mask is torch.Size([3, 2]), but should be (3, 3).");
    refused(
        masked(&[3, 3, 2]),
        Runtime,
        "The shape of the 3D attn_mask is torch.Size([3, 3, 2]), but should be (4, 3, 3).",
    );
    refused(
        masked(&[3]),
        Value,
        "For batched (3-D) `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found 1-D tensor instead",
    );
    assert!(masked(&[7, 7, 3, 3]).is_err());
    refused(
        m.attend(&x, &x, &x, AttentionMask { key_padding_mask: Some(&ones(&[2, 4])), ..none }),
        Value,
        "Expected key_padded_mask.shape[1] to be 3, but got 4",
    );
    let ints = Tensor::ones(&[3, 3], DType::I64, Device::CPU).unwrap();
    refused(
        m.attend(&x, &x, &x, AttentionMask { mask: Some(&ints), ..none }),
        Value,
        "only bool and floating types of attn_mask are supported",
    );
    // Use no keys, then no queries.
    assert_eq!(m.forward(&ones(&[0, 3, 8])).unwrap().dims()[..], [0, 3, 8]);
    assert_eq!(m.forward(&ones(&[2, 0, 8])).unwrap().dims()[..], [2, 0, 8]);
}

#[test]
fn sizes_near_the_largest_are_refused() {
    let _turn = turn();
    let huge = [usize::MAX, usize::MAX / 2, usize::MAX / 4 + 1, i64::MAX as usize];
    for n in huge {
        assert!(LSTM::new(1, n, RnnOptions::default()).is_err());
        assert!(GRU::new(n, n, RnnOptions::default()).is_err());
        let both = RnnOptions { bidirectional: true, num_layers: 2, ..RnnOptions::default() };
        assert!(GRU::new(1, n, both).is_err());
        assert!(LSTMCell::new(1, n, true).is_err() && GRUCell::new(n, 1, true).is_err());
        assert!(MultiheadAttention::new(n, 1, 0.0, true).is_err());
        assert!(TransformerEncoderLayer::new(n, n, TransformerOptions::default()).is_err());
        assert!(Linear::new(n, n).is_err() && Embedding::new(n, 1).is_err() && Bilinear::new(n, n, n, true).is_err());
        assert!(PReLU::with_parameters(n, 0.25).is_err());
        assert!(EmbeddingBag::new(n, n, EmbeddingBagOptions::default()).is_err());
        assert!(generate_square_subsequent_mask(n, DType::F32, Device::CPU).is_err());
        let o = MultiheadAttentionOptions { kdim: Some(n), ..MultiheadAttentionOptions::default() };
        assert!(MultiheadAttention::with_options(8, 2, o).is_err());
    }
}

#[test]
fn a_transformer_equals_pytorchs() {
    let _turn = turn();
    let o =
        TransformerOptions { dim_feedforward: 16, dropout: 0.0, batch_first: true, ..TransformerOptions::default() };
    let none = AttentionMask::default();
    for device in devices() {
        let on = |x: Tensor| x.to_device(device).unwrap();
        manual_seed(1);
        let t = Transformer::new(8, 2, 2, 2, o).unwrap();
        t.to(device).unwrap();
        let (src, tgt) = (on(randn(&[2, 3, 8])), on(randn(&[2, 4, 8])));
        let later = on(Transformer::generate_square_subsequent_mask(4).unwrap());
        let y = t.transform(&src, &tgt, none, AttentionMask { mask: Some(&later), ..none }, none).unwrap();
        close(&y, &[-0.504813, -1.368723, -0.832751, 0.192085, 0.09182, 0.369823]);
        y.square().unwrap().sum().unwrap().backward().unwrap();
        let all = t.named_parameters();
        let get = |key: &str| all.iter().find(|(name, _)| name == key).unwrap().1.clone();
        assert_eq!((all.len(), all[2].0.as_str()), (64, "encoder.layers.0.self_attn.out_proj.weight"));
        assert_eq!(all[63].0, "decoder.norm.bias");
        assert!(all.iter().all(|(_, p)| p.grad().is_some()));
        close(&get("encoder.layers.1.linear1.bias").tensor(), &[0.05063, -0.167177, 0.351216, 0.007561]);
        close(&get("decoder.layers.1.linear2.weight").tensor(), &[0.229596, 0.241653, -0.406347, 0.169972]);
        assert!(!get("encoder.layers.1.linear1.bias").is_same(&get("encoder.layers.0.linear1.bias")));

        manual_seed(1);
        let turned = TransformerOptions {
            norm_first: true,
            batch_first: false,
            activation: torchtpu::nn::Activation::GELU,
            ..o
        };
        let t = Transformer::new(8, 2, 1, 1, turned).unwrap();
        t.to(device).unwrap();
        let (src, tgt) = (on(randn(&[3, 2, 8])), on(randn(&[4, 2, 8])));
        let padding = on(mask(&[[false, false, true], [false, true, false]]));
        let kpm = AttentionMask { key_padding_mask: Some(&padding), ..none };
        let y = t.transform(&src, &tgt, kpm, none, kpm).unwrap();
        close(&y, &[0.841927, -0.378955, -1.945611, -0.42529, 0.520162, 0.09067]);
        refused(
            t.transform(&src, &tgt.narrow(1, 0, 1).unwrap(), none, none, none),
            ErrorKind::Runtime,
            "the batch number of src and tgt must be equal",
        );
        refused(
            t.transform(&src, &on(ones(&[4, 2, 7])), none, none, none),
            ErrorKind::Runtime,
            "the feature number of src and tgt must be equal to d_model",
        );

        manual_seed(1);
        let layer = TransformerDecoderLayer::new(8, 2, o).unwrap();
        let decoder = TransformerDecoder::new(&layer, 2, None).unwrap();
        decoder.to(device).unwrap();
        let (x, memory) = (on(randn(&[2, 3, 8])), on(randn(&[2, 4, 8])));
        let y = decoder.decode(&x, &memory, none, none).unwrap();
        close(&y, &[-0.145798, 1.218888, -1.589225, -0.656001, 1.657581, 0.523573]);
    }
}

/// A user-defined module that contains a decoder layer.
struct Reader {
    layer: TransformerDecoderLayer,
}

impl Module for Reader {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.layer.decode(x, x, AttentionMask::default(), AttentionMask::default())
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.module("layer", &self.layer);
    }
}

#[test]
fn a_decoder_layer_is_a_module() {
    let _turn = turn();
    let o = TransformerOptions { dim_feedforward: 4, ..TransformerOptions::default() };
    let reader = Reader { layer: TransformerDecoderLayer::new(4, 2, o).unwrap() };
    assert_eq!(reader.parameters().len(), 18);
    assert_eq!(names(&reader)[17], "layer.norm3.bias");
    let other = Reader { layer: TransformerDecoderLayer::new(4, 2, o).unwrap() };
    other.load_state_dict(&reader.state_dict(), true).unwrap();
    let x = ones(&[2, 3, 4]);
    reader.eval();
    other.eval();
    close(&reader.forward(&x).unwrap(), &other.forward(&x).unwrap().to_vec().unwrap());
    refused(
        reader.layer.forward(&x),
        ErrorKind::Type,
        "TransformerDecoderLayer.forward() missing 1 required positional argument: 'memory'",
    );
    let modules = reader.named_modules();
    assert_eq!(modules[0], ("layer".to_string(), "TransformerDecoderLayer"));
    assert!(modules.contains(&("layer.self_attn.out_proj".to_string(), "Linear")));
    assert!(modules.contains(&("layer.dropout3".to_string(), "Dropout")));
}

#[test]
fn containers_name_their_modules() {
    let _turn = turn();
    let linear = || Linear::new(2, 2).unwrap();
    let m = Sequential::new().push_named("1", linear()).unwrap().push(ReLU).push_named("last", linear()).unwrap();
    assert_eq!(names(&m), ["1.weight", "1.bias", "last.weight", "last.bias"]);
    assert_eq!(m.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["1", "2", "last"]);
    assert_eq!((m.len(), m.get(1).unwrap().name(), m.get(3).is_none()), (3, "ReLU", true));
    assert_eq!(format!("{m:?}"), "Sequential(\n  (1): Linear\n  (2): ReLU\n  (last): Linear\n)");
    refused(m.push_named("last", ReLU), ErrorKind::Key, "attribute 'last' already exists");
    refused(Sequential::new().push_named("a.b", ReLU), ErrorKind::Key, "module name can't contain \".\", got: a.b");
    refused(Sequential::new().push_named("", ReLU), ErrorKind::Key, "module name can't be empty string \"\"");
    let mut list = ModuleList::new();
    list.push(linear());
    // A pointer to a module is a module.
    let boxed: Box<dyn Module> = Box::new(linear());
    list.push(boxed);
    list.push(Arc::new(linear()));
    assert_eq!((names(&list)[4].as_str(), list.len(), list.get(1).unwrap().name()), ("2.weight", 3, "Linear"));
    let message = "Module [ModuleList] is missing the required \"forward\" function";
    refused(list.forward(&ones(&[2])), ErrorKind::NotImplemented, message);
    let mut dict = ModuleDict::new();
    dict.insert("a", linear()).unwrap();
    dict.insert("b", linear()).unwrap();
    dict.insert("a", ReLU).unwrap();
    assert_eq!((names(&dict), dict.len()), (vec!["b.weight".to_string(), "b.bias".to_string()], 2));
    assert!(dict.get("a").is_some() && dict.get("c").is_none() && dict.insert("x.y", ReLU).is_err());
}

#[test]
fn modules_change_their_dtype_in_their_cells() {
    let _turn = turn();
    for device in devices() {
        let shared = Arc::new(Linear::new(2, 2).unwrap());
        let m = Sequential::new()
            .push(shared.clone())
            .push(torchtpu::nn::BatchNorm2d::new(2).unwrap())
            .push(shared.clone());
        m.to(device).unwrap();
        let mut optimizer = Sgd::new(m.parameters(), SgdOptions { lr: 1.0, ..SgdOptions::default() }).unwrap();
        let before = shared.weight.tensor().to_vec::<f64>().unwrap();
        let g = Tensor::ones(&[2, 2], DType::F32, device).unwrap();
        shared.weight.tensor().set_grad(Some(g)).unwrap();
        m.double().unwrap();
        assert_eq!(m.parameters().len(), 4);
        assert!(m.parameters().iter().all(|p| p.tensor().dtype() == DType::F64 && p.tensor().requires_grad()));
        assert_eq!(shared.weight.grad().unwrap().dtype(), DType::F64);
        let dtypes: Vec<DType> = m.named_buffers().iter().map(|(_, b)| b.tensor().dtype()).collect();
        assert_eq!(dtypes, [DType::F64, DType::F64, DType::I64]);
        optimizer.step().unwrap();
        close(&shared.weight.tensor(), &before.iter().map(|v| v - 1.0).collect::<Vec<_>>());
        m.half().unwrap();
        assert_eq!(shared.bias.as_ref().unwrap().tensor().dtype(), DType::F16);
        m.bfloat16().unwrap();
        assert_eq!(m.state_dict()[0].1.dtype(), DType::BF16);
        m.float().unwrap();
        assert_eq!(m.state_dict()[0].1.dtype(), DType::F32);
        let message = "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=torch.int64";
        refused(m.to_dtype(DType::I64), ErrorKind::Type, message);
        m.requires_grad_(false).unwrap();
        assert!(m.parameters().iter().all(|p| !p.tensor().requires_grad()));
        m.double().unwrap();
        assert!(!shared.weight.tensor().requires_grad());
        m.requires_grad_(true).unwrap();
        assert!(shared.weight.tensor().requires_grad());
        let p = &shared.weight;
        p.set_data(Tensor::ones(&[2, 2], DType::F64, device).unwrap()).unwrap();
        assert!(p.grad().is_some() && p.tensor().requires_grad());
        close(&m.parameters()[0].tensor(), &[1.0; 4]);
        p.set_data(Tensor::ones(&[3], DType::F32, device).unwrap()).unwrap();
        assert!(p.grad().is_none());
        assert!(p.set_data(Tensor::ones(&[3], DType::I64, device).unwrap()).is_err());
    }
}

#[test]
fn layers_have_the_default_dtype() {
    let _turn = turn();
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

#[test]
fn no_input_makes_a_layer_panic() {
    let _turn = turn();
    let layers: Vec<Box<dyn Module>> = vec![
        Box::new(GLU::default()),
        Box::new(GLU { dim: i64::MIN }),
        Box::new(Softmin { dim: i64::MAX }),
        Box::new(Softmax2d),
        Box::new(RReLU::new(2.0, -1.0)),
        Box::new(PReLU::with_parameters(2, 0.25).unwrap()),
        Box::new(PReLU::with_parameters(0, 0.25).unwrap()),
        Box::new(CELU { alpha: 0.0 }),
        Box::new(Hardshrink { lambd: f64::NAN }),
        Box::new(Softshrink { lambd: -1.0 }),
        Box::new(Threshold::new(f64::NAN, f64::INFINITY)),
        Box::new(Dropout1d::default()),
        Box::new(Dropout2d::default()),
        Box::new(Dropout3d::default()),
        Box::new(FeatureAlphaDropout::default()),
        Box::new(
            Embedding::with_options(2, 3, EmbeddingOptions { max_norm: Some(-1.0), ..Default::default() }).unwrap(),
        ),
        Box::new(EmbeddingBag::new(2, 3, EmbeddingBagOptions { mode: BagMode::Max, ..Default::default() }).unwrap()),
        Box::new(Linear::new(3, 0).unwrap()),
        Box::new(MultiheadAttention::new(4, 2, 0.5, false).unwrap()),
        Box::new(TransformerEncoderLayer::new(4, 2, TransformerOptions::default()).unwrap()),
    ];
    let mut given = 0;
    for dims in [&[][..], &[0], &[3], &[2, 3], &[0, 3], &[2, 0], &[2, 3, 4], &[0, 2, 4], &[2, 0, 4], &[1; 6]] {
        for dtype in [DType::F32, DType::F16, DType::I64, DType::Bool, DType::C64] {
            let x = Tensor::ones(dims, dtype, Device::CPU).unwrap();
            given += layers.iter().filter(|m| m.forward(&x).is_ok()).count();
        }
    }
    assert!(given > 100, "{given}");
}
