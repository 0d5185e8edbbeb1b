//! Tests of recurrent and transformer layers, optimisers, schedules and clipping against numbers of PyTorch from the
//! same seeds.

mod common;

use common::{names, randn, turn};
use torchtpu::nn::optim::{
    Adagrad, AdagradOptions, CosineAnnealingLR, LinearLR, MultiStepLR, OneCycleLR, Optimizer, RMSprop, RMSpropOptions,
    ReduceLROnPlateau, Schedule, Scheduler, SequentialLR, Sgd, SgdOptions, clip_grad_norm,
};
use torchtpu::nn::{
    Activation, AttentionMask, GRU, GRUCell, LSTM, LSTMCell, Module, Parameter, RNN, RnnNonlinearity, RnnOptions,
    TransformerDecoderLayer, TransformerEncoderLayer, TransformerOptions, Visitor, safetensors,
};
use torchtpu::random::manual_seed;
use torchtpu::{Backward, DType, Device, Result, Tensor};

#[track_caller]
fn close(x: &Tensor, want: &[f64]) {
    let got = x.to_vec::<f64>().unwrap();
    let near = |(g, w): (&f64, &f64)| (g - w).abs() <= 2e-5 * (1.0 + w.abs());
    assert!(got.iter().zip(want).all(near), "{:?} against {want:?}", &got[..want.len()]);
}

#[test]
fn recurrent_layers_equal_pytorchs() {
    let _turn = turn();
    manual_seed(1);
    let lstm = LSTM::new(3, 2, RnnOptions { num_layers: 2, bidirectional: true, ..RnnOptions::default() }).unwrap();
    let x = randn(&[4, 2, 3]);
    close(&lstm.forward(&x).unwrap().sum().unwrap(), &[2.73527]);
    assert_eq!(names(&lstm)[3..6], ["bias_hh_l0", "weight_ih_l0_reverse", "weight_hh_l0_reverse"]);
    manual_seed(1);
    let cell = GRUCell::new(3, 2, true).unwrap();
    close(
        &cell.forward(&randn(&[2, 3])).unwrap().flatten(0, -1).unwrap(),
        &[0.122609, -0.472166, -0.156735, -0.246374],
    );
}

#[test]
fn layers_equal_their_cells_on_every_device() {
    let _turn = turn();
    for device in [Device::CPU, torchtpu::device("tpu").unwrap()] {
        manual_seed(2);
        let (layer, cell) = (LSTM::new(3, 4, RnnOptions::default()).unwrap(), LSTMCell::new(3, 4, true).unwrap());
        let state: Vec<_> =
            layer.state_dict().into_iter().map(|(k, v)| (k.trim_end_matches("_l0").to_string(), v)).collect();
        cell.load_state_dict(&state, true).unwrap();
        let x = randn(&[5, 2, 3]).to_device(device).unwrap();
        layer.to(device).unwrap();
        cell.to(device).unwrap();
        let (y, (h, c)) = layer.run(&x, None).unwrap();
        let mut s = None;
        for step in x.unbind(0).unwrap() {
            s = Some(cell.step(&step, s).unwrap());
        }
        let s = s.unwrap();
        close(&h.flatten(0, -1).unwrap(), &s.0.flatten(0, -1).unwrap().to_vec::<f64>().unwrap());
        close(&c.flatten(0, -1).unwrap(), &s.1.flatten(0, -1).unwrap().to_vec::<f64>().unwrap());
        y.square().unwrap().sum().unwrap().backward().unwrap();
        s.0.square().unwrap().sum().unwrap().backward().unwrap();
        assert!(layer.parameters().iter().all(|p| p.grad().is_some()));
        let relu = RNN::new(3, 2, RnnNonlinearity::ReLU, RnnOptions::default()).unwrap();
        relu.to(device).unwrap();
        assert_eq!(relu.run(&x, None).unwrap().1.dims()[..], [1, 2, 2]);
    }
}

#[test]
fn invalid_settings_are_refused() {
    let _turn = turn();
    let wrong = |o: RnnOptions| GRU::new(3, 2, o).unwrap_err().message().to_string();
    assert!(
        wrong(RnnOptions { proj_size: 1, ..RnnOptions::default() }).starts_with("proj_size argument is only supported")
    );
    assert!(
        wrong(RnnOptions { dropout: 2.0, ..RnnOptions::default() }).starts_with("dropout should be a number in range")
    );
    assert!(
        wrong(RnnOptions { num_layers: 0, ..RnnOptions::default() })
            .starts_with("num_layers must be greater than zero")
    );
    let layer = GRU::new(3, 2, RnnOptions::default()).unwrap();
    let e = layer.forward(&randn(&[4, 2, 5])).unwrap_err();
    assert_eq!(e.message(), "input.size(-1) must be equal to input_size. Expected 3, got 5");
    let e = layer.run(&randn(&[4, 2, 3]), Some(randn(&[1, 3, 2]))).unwrap_err();
    assert!(e.message().starts_with("gru: the hidden state has size [3, 2], but must have [2, 2]"), "{e}");
}

#[test]
fn transformer_layers_equal_pytorchs() {
    let _turn = turn();
    let o =
        TransformerOptions { dim_feedforward: 16, dropout: 0.0, batch_first: true, ..TransformerOptions::default() };
    manual_seed(1);
    let layer =
        TransformerEncoderLayer::new(8, 2, TransformerOptions { activation: Activation::GELU, norm_first: true, ..o })
            .unwrap();
    let y = layer.forward(&randn(&[2, 3, 8])).unwrap();
    close(&y.flatten(0, -1).unwrap(), &[0.917239, 0.994019, -0.568604, -2.118054, 1.090181, -0.648082]);
    y.square().unwrap().sum().unwrap().backward().unwrap();
    let all = layer.named_parameters();
    assert_eq!(all[0].0, "self_attn.in_proj_weight");
    close(
        &all[0].1.grad().unwrap().flatten(0, -1).unwrap(),
        &[-0.032208, 0.388368, 0.426066, -1.783608, 0.922133, 0.074427],
    );
    manual_seed(1);
    let layer = TransformerDecoderLayer::new(8, 2, o).unwrap();
    let (x, memory) = (randn(&[2, 3, 8]), randn(&[2, 4, 8]));
    let causal = AttentionMask { is_causal: true, ..AttentionMask::default() };
    let y = layer.decode(&x, &memory, causal, AttentionMask::default()).unwrap();
    close(&y.flatten(0, -1).unwrap(), &[0.171278, 0.716752, -1.645334, -1.105815, 1.651273, 0.76557]);
    let mut found = Vec::new();
    layer.visit(&mut Visitor::new(&mut |name, _| found.push(name.to_string())));
    assert!(found.contains(&"multihead_attn.out_proj.bias".to_string()) && found.contains(&"norm3.weight".to_string()));
}

fn steps(make: impl Fn(Vec<Parameter>) -> Result<Box<dyn Optimizer>>) -> Tensor {
    let p = Parameter::new(Tensor::from_slice(&[1.0f32, -2.0, 3.0], &[3]).unwrap()).unwrap();
    let mut optimizer = make(vec![p.clone()]).unwrap();
    for g in [[0.5f32, -1.0, 2.0], [1.0, 0.25, -0.5], [-0.5, 2.0, 0.125]] {
        p.tensor().set_grad(Some(Tensor::from_slice(&g, &[3]).unwrap())).unwrap();
        optimizer.step().unwrap();
    }
    p.tensor().detach()
}

#[test]
fn rmsprop_and_adagrad_steps_equal_pytorchs() {
    let _turn = turn();
    let o = RMSpropOptions { lr: 0.1, centered: true, momentum: 0.9, weight_decay: 0.1, ..RMSpropOptions::default() };
    close(&steps(|p| Ok(Box::new(RMSprop::new(p, o)?))), &[-2.864262, -0.371089, 0.417155]);
    let o = AdagradOptions {
        lr: 0.1,
        lr_decay: 0.1,
        weight_decay: 0.1,
        initial_accumulator_value: 0.5,
        ..AdagradOptions::default()
    };
    close(&steps(|p| Ok(Box::new(Adagrad::new(p, o)?))), &[0.889053, -1.983664, 2.898151]);
    let p = vec![Parameter::new(randn(&[2])).unwrap()];
    let e = RMSprop::new(p, RMSpropOptions { alpha: -1.0, ..RMSpropOptions::default() }).unwrap_err();
    assert_eq!(e.message(), "Invalid alpha value: -1.0");
}

#[test]
fn gradients_are_clipped_together() {
    let _turn = turn();
    let make = |g: &[f32]| {
        let p = Parameter::new(Tensor::zeros(&[g.len()], DType::F32, Device::CPU).unwrap()).unwrap();
        p.tensor().set_grad(Some(Tensor::from_slice(g, &[g.len()]).unwrap())).unwrap();
        p
    };
    for (norm_type, norm, p, q) in [
        (2.0, 13.0, [0.461538, 0.615385], [1.846154]),
        (1.0, 19.0, [0.315789, 0.421053], [1.263158]),
        (f64::INFINITY, 12.0, [0.5, 0.666667], [2.0]),
    ] {
        let all = [make(&[3.0, 4.0]), make(&[12.0])];
        close(&clip_grad_norm(&all, 2.0, norm_type).unwrap(), &[norm]);
        close(&all[0].grad().unwrap(), &p);
        close(&all[1].grad().unwrap(), &q);
    }
}

fn rates<S: Schedule>(schedule: S, n: usize) -> Vec<f64> {
    let p = vec![Parameter::new(randn(&[1])).unwrap()];
    let mut optimizer = Sgd::new(p, SgdOptions { lr: 0.1, ..SgdOptions::default() }).unwrap();
    let mut scheduler = Scheduler::new(schedule, &mut optimizer).unwrap();
    let mut all = vec![optimizer.lr()];
    for _ in 0..n {
        scheduler.step(&mut optimizer).unwrap();
        all.push(optimizer.lr());
    }
    all.into_iter().map(|v| (v * 1e6).round() / 1e6).collect()
}

#[test]
fn schedules_equal_pytorchs() {
    let _turn = turn();
    assert_eq!(
        rates(CosineAnnealingLR { t_max: 6, eta_min: 0.01 }, 8),
        [0.1, 0.093971, 0.0775, 0.055, 0.0325, 0.016029, 0.01, 0.016029, 0.0325]
    );
    assert_eq!(
        rates(OneCycleLR::new(1.0, 10), 9),
        [0.04, 0.52, 1.0, 0.950485, 0.811746, 0.611262, 0.388742, 0.188258, 0.049519, 4e-06]
    );
    let warm = LinearLR { start_factor: 0.25, end_factor: 1.0, total_iters: 4 };
    assert_eq!(rates(warm, 5), [0.025, 0.04375, 0.0625, 0.08125, 0.1, 0.1]);
    assert_eq!(rates(MultiStepLR { milestones: vec![2, 5], gamma: 0.1 }, 5), [0.1, 0.1, 0.01, 0.01, 0.01, 0.001]);
    let warm = LinearLR { start_factor: 0.1, end_factor: 1.0, total_iters: 3 };
    let both = SequentialLR::new(vec![Box::new(warm), Box::new(CosineAnnealingLR { t_max: 5, eta_min: 0.0 })], vec![3]);
    assert_eq!(rates(both.unwrap(), 8), [0.01, 0.04, 0.07, 0.1, 0.090451, 0.065451, 0.034549, 0.009549, 0.0]);
    let p = vec![Parameter::new(randn(&[1])).unwrap()];
    let mut optimizer = Sgd::new(p, SgdOptions { lr: 1.0, ..SgdOptions::default() }).unwrap();
    let mut plateau = ReduceLROnPlateau::new(false);
    plateau.patience = 1;
    for measure in [1.0, 0.5, 0.6, 0.7, 0.8] {
        plateau.step(measure, &mut optimizer);
    }
    assert!((optimizer.lr() - 0.1).abs() < 1e-12);
}

#[test]
fn safetensors_keep_every_dtype_and_refuse_damage() {
    let _turn = turn();
    let folder = std::env::temp_dir().join(format!("torchtpu-safetensors-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("a.safetensors");
    let given: Vec<(String, Tensor)> = DType::ALL
        .into_iter()
        .filter(|d| d.name() != "complex128")
        .map(|d| (d.name().to_string(), Tensor::ones(&[2, 3], d, Device::CPU).unwrap()))
        .collect();
    safetensors::save_file(&path, &given, Some([("k".to_string(), "v".to_string())].into())).unwrap();
    let found = safetensors::load_file(&path, Device::CPU).unwrap();
    assert_eq!(found.len(), given.len());
    for (name, x) in &given {
        let y = &found.iter().find(|(n, _)| n == name).unwrap().1;
        assert_eq!((y.meta(), y.to_bytes().unwrap()), (x.meta(), x.to_bytes().unwrap()));
    }
    let bytes = std::fs::read(&path).unwrap();
    for end in [0, 7, 8, 20, bytes.len() - 1] {
        let e = safetensors::load(&bytes[..end], Device::CPU).unwrap_err();
        assert!(e.message().starts_with("Error while deserializing"), "{e}");
        std::fs::write(&path, &bytes[..end]).unwrap();
        assert!(safetensors::File::open(&path).is_err());
    }
    let e = safetensors::save_file(folder.join("no").join("a"), &given, None).unwrap_err();
    assert!(e.message().contains("I/O error"), "{e}");
    assert!(safetensors::save(&[given[0].clone(), given[0].clone()], None).is_err());
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    std::fs::remove_dir_all(&folder).unwrap();
}
