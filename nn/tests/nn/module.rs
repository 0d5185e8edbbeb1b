//! Tests of containers, dtypes of modules, and inputs and sizes that layers refuse.

use crate::common::{close, devices, names, ones, refused, turn};
use std::sync::Arc;
use torchtpu::nn::optim::{Optimizer, Sgd, SgdOptions};
use torchtpu::nn::{
    BagMode, Bilinear, CELU, Dropout1d, Dropout2d, Dropout3d, Embedding, EmbeddingBag, EmbeddingBagOptions,
    EmbeddingOptions, FeatureAlphaDropout, GLU, GRU, GRUCell, Hardshrink, LSTM, LSTMCell, Linear, Module, ModuleDict,
    ModuleList, MultiheadAttention, MultiheadAttentionOptions, PReLU, RReLU, ReLU, RnnOptions, Sequential, Softmax2d,
    Softmin, Softshrink, Threshold, TransformerEncoderLayer, TransformerOptions, generate_square_subsequent_mask,
};
use torchtpu::{Backward, DType, Device, ErrorKind, Tensor};

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
fn gradients_arrive_at_parameters_that_change_before_backward() {
    let _turn = turn();
    for device in devices() {
        let m = Linear::new(2, 1).unwrap();
        m.to(device).unwrap();
        let x = Tensor::ones(&[1, 2], DType::F32, device).unwrap();
        let loss = m.forward(&x).unwrap().sum().unwrap();
        m.double().unwrap();
        m.weight.set_data(Tensor::ones(&[3], DType::F32, device).unwrap()).unwrap();
        loss.backward().unwrap();
        // It has the sizes and dtype of forward.
        let g = m.weight.grad().unwrap();
        assert_eq!((g.dtype(), g.to_vec::<f64>().unwrap()), (DType::F32, vec![1.0, 1.0]));
        assert_eq!(m.bias.as_ref().unwrap().grad().unwrap().to_vec::<f64>().unwrap(), [1.0]);
    }
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
