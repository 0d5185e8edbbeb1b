//! Tests of optimisers, schedules and clipping against numbers of PyTorch, and of resuming from saved state.

use crate::common::devices;
use torchtpu::nn::optim::{
    Adagrad, AdagradOptions, Adam, AdamOptions, AdamW, ChainedScheduler, ConstantLR, CosineAnnealingWarmRestarts,
    CyclicLR, CyclicMode, ExponentialLR, MultiplicativeLR, OneCycleLR, Optimizer, OptimizerState, PolynomialLR,
    RMSprop, RMSpropOptions, ReduceLROnPlateau, Schedule, Scheduler, SequentialLR, Setting, Sgd, SgdOptions, StepLR,
    clip_grad_norm, get_total_norm,
};
use torchtpu::nn::{Parameter, safetensors};
use torchtpu::{DType, Device, Result, Tensor};

fn parameter(v: &[f32], d: Device) -> Parameter {
    Parameter::new(Tensor::from_slice_on(v, &[v.len()], d).unwrap()).unwrap()
}

fn set_grad(p: &Parameter, v: &[f32]) {
    let p = p.tensor();
    p.set_grad(Some(Tensor::from_slice_on(v, &[v.len()], p.device()).unwrap())).unwrap();
}

fn values(p: &[Parameter]) -> Vec<f64> {
    p.iter().flat_map(|p| p.tensor().to_vec::<f64>().unwrap()).collect()
}

fn close(a: &[f64], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    assert!(a.iter().zip(b).all(|(x, y)| (x - y).abs() <= tolerance * (1.0 + y.abs())), "{a:?} against {b:?}");
}

/// A function that makes an optimiser of two groups, the second with its own settings.
type Make = fn(&[Parameter]) -> Result<Box<dyn Optimizer>>;

const CASES: [(&str, Make, [f64; 3]); 5] = [
    (
        "sgd",
        |p| {
            let o = SgdOptions { lr: 0.1, momentum: 0.9, ..SgdOptions::default() };
            let mut all = Sgd::new(p[..1].to_vec(), o)?;
            all.add_param_group(p[1..].to_vec(), SgdOptions { lr: 0.05, weight_decay: 0.1, ..o })?;
            Ok(Box::new(all))
        },
        [-0.8559000492095947, -1.5245000123977661, 2.4413490295410156],
    ),
    (
        "adam",
        |p| {
            let o = AdamOptions { lr: 0.1, amsgrad: true, ..AdamOptions::adam() };
            let mut all = Adam::new(p[..1].to_vec(), o)?;
            all.add_param_group(p[1..].to_vec(), AdamOptions { lr: 0.05, weight_decay: 0.1, ..o })?;
            Ok(Box::new(all))
        },
        [0.6116406917572021, -1.7555797100067139, 2.838542938232422],
    ),
    (
        "adamw",
        |p| {
            let o = AdamOptions { lr: 0.1, ..AdamOptions::adamw() };
            let mut all = AdamW::new(p[..1].to_vec(), o)?;
            all.add_param_group(p[1..].to_vec(), AdamOptions { lr: 0.05, weight_decay: 0.1, ..o })?;
            Ok(Box::new(all))
        },
        [0.6082351803779602, -1.7478234767913818, 2.7941436767578125],
    ),
    (
        "rmsprop",
        |p| {
            let o = RMSpropOptions { lr: 0.1, momentum: 0.5, centered: true, ..RMSpropOptions::default() };
            let mut all = RMSprop::new(p[..1].to_vec(), o)?;
            all.add_param_group(p[1..].to_vec(), RMSpropOptions { lr: 0.05, weight_decay: 0.1, ..o })?;
            Ok(Box::new(all))
        },
        [-4.431491851806641, 1.9279369115829468, 1.7292970418930054],
    ),
    (
        "adagrad",
        |p| {
            let o = AdagradOptions { lr: 0.1, lr_decay: 0.1, ..AdagradOptions::default() };
            let mut all = Adagrad::new(p[..1].to_vec(), o)?;
            all.add_param_group(p[1..].to_vec(), AdagradOptions { lr: 0.05, weight_decay: 0.1, ..o })?;
            Ok(Box::new(all))
        },
        [0.6956964135169983, -1.7728796005249023, 2.933009386062622],
    ),
];

fn train(p: &[Parameter], optimizer: &mut dyn Optimizer, steps: std::ops::Range<usize>) {
    for i in steps {
        let i = i as f32;
        set_grad(&p[0], &[1.0 + i, -0.5 * i]);
        set_grad(&p[1], &[2.0 - i]);
        optimizer.step().unwrap();
    }
}

#[test]
fn groups_step_with_their_own_settings_as_in_pytorch() {
    for d in devices() {
        for (name, make, expected) in CASES {
            let p = [parameter(&[1.0, -2.0], d), parameter(&[3.0], d)];
            let mut optimizer = make(&p).unwrap();
            assert_eq!(optimizer.lrs(), [0.1, 0.05], "{name}");
            train(&p, &mut *optimizer, 0..4);
            // RMSprop divides by a small difference of large numbers.
            close(&values(&p), &expected, if name == "rmsprop" { 2e-4 } else { 1e-5 });
        }
    }
}

#[test]
fn training_resumes_exactly_from_a_file() {
    let path = std::env::temp_dir().join(format!("torchtpu-optim-{}.safetensors", std::process::id()));
    for d in devices() {
        for (name, make, _) in CASES {
            let p = [parameter(&[1.0, -2.0], d), parameter(&[3.0], d)];
            let mut first = make(&p).unwrap();
            train(&p, &mut *first, 0..2);
            first.set_lrs(&[0.2, 0.01]);
            safetensors::save_file(&path, &first.state_dict().unwrap().to_tensors().unwrap(), None).unwrap();
            let halfway = values(&p);
            train(&p, &mut *first, 2..4);

            let h: Vec<f32> = halfway.iter().map(|&v| v as f32).collect();
            let q = [parameter(&h[..2], d), parameter(&h[2..], d)];
            let mut second = make(&q).unwrap();
            let saved = safetensors::load_file(&path, Device::CPU).unwrap();
            second.load_state_dict(&OptimizerState::from_tensors(&saved).unwrap()).unwrap();
            assert_eq!(second.lrs(), [0.2, 0.01], "{name}");
            assert_eq!(second.param_groups(), first.param_groups());
            train(&q, &mut *second, 2..4);
            assert_eq!(values(&q), values(&p), "{name} on {d:?}");
        }
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn state_dictionaries_have_pytorchs_keys() {
    let expected = [
        vec!["momentum_buffer"],
        vec!["step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"],
        vec!["step", "exp_avg", "exp_avg_sq"],
        vec!["step", "square_avg", "momentum_buffer", "grad_avg"],
        vec!["step", "sum"],
    ];
    for ((name, make, _), expected) in CASES.into_iter().zip(expected) {
        let p = [parameter(&[1.0, -2.0], Device::CPU), parameter(&[3.0], Device::CPU)];
        let mut optimizer = make(&p).unwrap();
        train(&p, &mut *optimizer, 0..3);
        let state = optimizer.state_dict().unwrap();
        let keys: Vec<&str> = state.state[&0].iter().map(|(k, _)| k.as_str()).collect();
        assert_eq!(keys, expected, "{name}");
        if let Some((_, step)) = state.state[&1].iter().find(|(k, _)| k == "step") {
            assert_eq!((step.dtype(), step.item_f64().unwrap()), (DType::F32, 3.0));
        }
        assert_eq!(state.param_groups[1].params, [1]);
        assert_eq!(state.param_groups[1].get("weight_decay"), Some(Setting::Number(0.1)));
        // The dictionary is a copy.
        let before = state.state[&0][expected.len() - 1].1.to_vec::<f32>().unwrap();
        train(&p, &mut *optimizer, 0..3);
        assert_eq!(state.state[&0][expected.len() - 1].1.to_vec::<f32>().unwrap(), before);
    }
}

#[test]
fn a_wrong_state_dictionary_changes_nothing() {
    let p = [parameter(&[1.0, -2.0], Device::CPU), parameter(&[3.0], Device::CPU)];
    let mut two = CASES[0].1(&p).unwrap();
    let one = Sgd::new(p.to_vec(), SgdOptions::default()).unwrap();
    let message = |e: torchtpu::Error| e.message().to_string();
    assert_eq!(
        message(two.load_state_dict(&one.state_dict().unwrap()).unwrap_err()),
        "loaded state dict has a different number of parameter groups"
    );
    let mut state = two.state_dict().unwrap();
    state.param_groups[1].params.push(2);
    assert_eq!(
        message(two.load_state_dict(&state).unwrap_err()),
        "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
    );
    let mut state = two.state_dict().unwrap();
    state.param_groups[0].settings =
        vec![("lr".into(), Setting::Number(7.0)), ("momentum".into(), Setting::Flag(true))];
    two.load_state_dict(&state).unwrap_err();
    state.param_groups[0].settings.clear();
    state.state.insert(0, vec![("momentum_buffer".into(), Tensor::ones(&[5], DType::F32, Device::CPU).unwrap())]);
    two.load_state_dict(&state).unwrap_err();
    assert_eq!(two.lrs(), [0.1, 0.05]);
    let mut sgd = Sgd::new(p.to_vec(), SgdOptions::default()).unwrap();
    let e = sgd.add_param_group(p[..1].to_vec(), SgdOptions::default()).unwrap_err();
    assert_eq!(message(e), "some parameters appear in more than one parameter group");
    assert!(sgd.set(0, "betas", Setting::Pair(0.0, 0.0)).is_err());
    assert!(sgd.set(1, "lr", Setting::Number(0.0)).is_err());
}

fn sgd() -> Sgd {
    let o = SgdOptions { lr: 0.1, momentum: 0.9, ..SgdOptions::default() };
    Sgd::new(vec![parameter(&[1.0], Device::CPU)], o).unwrap()
}

fn momentum(o: &dyn Optimizer) -> f64 {
    match o.param_groups()[0].get("momentum") {
        Some(Setting::Number(m)) => m,
        other => panic!("{other:?}"),
    }
}

/// Return the learning rates and the momenta.
fn rates(schedule: impl Schedule, n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut o = sgd();
    let mut s = Scheduler::new(schedule, &mut o).unwrap();
    let (mut lrs, mut momenta) = (vec![o.lr()], vec![momentum(&o)]);
    for _ in 0..n {
        s.step(&mut o).unwrap();
        lrs.push(o.lr());
        momenta.push(momentum(&o));
    }
    (lrs, momenta)
}

#[test]
fn more_schedules_equal_pytorchs() {
    let same = |schedule: Box<dyn Schedule>, expected: &[f64]| {
        close(&rates(schedule, expected.len() - 1).0, expected, 1e-12);
    };
    same(Box::new(ConstantLR { factor: 0.5, total_iters: 3 }), &[0.05, 0.05, 0.05, 0.1, 0.1, 0.1]);
    same(Box::new(PolynomialLR { total_iters: 4, power: 2.0 }), &[0.1, 0.05625, 0.025, 0.00625, 0.0, 0.0]);
    let factor = |e: u64| if e % 2 == 1 { 0.9 } else { 0.8 };
    same(Box::new(MultiplicativeLR::new(factor)), &[0.1, 0.09, 0.072, 0.0648, 0.05184, 0.046656]);
    same(
        Box::new(CosineAnnealingWarmRestarts::new(2, 2, 0.01).unwrap()),
        &[
            0.1,
            0.055,
            0.1,
            0.08681980515339464,
            0.055,
            0.023180194846605363,
            0.1,
            0.0965745789630079,
            0.08681980515339464,
        ],
    );
    let half = || Box::new(ConstantLR { factor: 0.5, total_iters: 3 });
    let decay = || Box::new(ExponentialLR { gamma: 0.9 });
    same(
        Box::new(ChainedScheduler::new(vec![half(), decay()]).unwrap()),
        &[0.05, 0.045, 0.0405, 0.0729, 0.06561, 0.059049],
    );
    same(Box::new(SequentialLR::new(vec![half(), decay()], vec![2]).unwrap()), &[0.05, 0.05, 0.1, 0.09, 0.081, 0.0729]);
    let e = CosineAnnealingWarmRestarts::new(0, 1, 0.0).unwrap_err();
    assert_eq!(e.message(), "Expected positive integer T_0, but got 0");
}

#[test]
fn cycles_change_momentum_inversely_to_the_rate() {
    let cyclic = |mode| CyclicLR { step_size_up: 3, step_size_down: 2, mode, gamma: 0.9, ..CyclicLR::new(0.01, 0.1) };
    let (lr, m) = rates(cyclic(CyclicMode::Triangular2), 9);
    close(&lr, &[0.01, 0.04, 0.07, 0.1, 0.055, 0.01, 0.025, 0.04, 0.055, 0.0325], 1e-12);
    close(
        &m,
        &[
            0.9,
            0.8666666666666667,
            0.8333333333333334,
            0.8,
            0.85,
            0.9,
            0.8833333333333333,
            0.8666666666666667,
            0.85,
            0.875,
        ],
        1e-12,
    );
    let (lr, m) = rates(cyclic(CyclicMode::ExpRange), 4);
    close(&lr, &[0.01, 0.037, 0.0586, 0.07561, 0.0395245], 1e-12);
    close(&m, &[0.9, 0.87, 0.846, 0.8271, 0.867195], 1e-12);
    let (lr, m) = rates(OneCycleLR::new(1.0, 10), 9);
    close(&lr[..4], &[0.04, 0.52, 1.0, 0.9504846320134737], 1e-12);
    close(&m[..4], &[0.95, 0.9, 0.85, 0.854951556604879], 1e-12);
    close(&m[8..], &[0.945048443395121, 0.95], 1e-12);
    let (lr, m) = rates(OneCycleLR { three_phase: true, linear: true, ..OneCycleLR::new(1.0, 10) }, 9);
    close(&lr, &[0.04, 0.52, 1.0, 0.52, 0.04, 0.0320008, 0.0240016, 0.0160024, 0.0080032, 4e-6], 1e-12);
    close(&m, &[0.95, 0.9, 0.85, 0.9, 0.95, 0.95, 0.95, 0.95, 0.95, 0.95], 1e-12);
    // Adam's first beta counts as momentum. Adagrad has neither.
    let p = vec![parameter(&[1.0], Device::CPU)];
    let mut adam = Adam::new(p.clone(), AdamOptions::adam()).unwrap();
    Scheduler::new(OneCycleLR::new(1.0, 10), &mut adam).unwrap();
    assert_eq!(adam.param_groups()[0].get("betas"), Some(Setting::Pair(0.95, 0.999)));
    let mut adagrad = Adagrad::new(p, AdagradOptions::default()).unwrap();
    let e = Scheduler::new(OneCycleLR::new(1.0, 10), &mut adagrad).unwrap_err();
    assert_eq!(e.message(), "optimizer must support momentum or beta1 with `cycle_momentum` option enabled");
}

#[test]
fn a_step_beyond_the_end_of_a_cycle_is_an_error() {
    let mut o = sgd();
    let mut s = Scheduler::new(OneCycleLR::new(1.0, 4), &mut o).unwrap();
    for _ in 0..3 {
        s.step(&mut o).unwrap();
    }
    let last = o.lr();
    let e = s.step(&mut o).unwrap_err();
    assert_eq!(e.message(), "Tried to step 5 times. The specified number of total steps is 4");
    assert_eq!((o.lr(), s.steps()), (last, 3));
}

#[test]
fn schedules_set_each_group_and_resume() {
    let p = [parameter(&[1.0, -2.0], Device::CPU), parameter(&[3.0], Device::CPU)];
    let mut o = CASES[0].1(&p).unwrap();
    let schedule = StepLR { step_size: 2, gamma: 0.5 };
    let mut s = Scheduler::new(schedule, &mut *o).unwrap();
    for _ in 0..3 {
        s.step(&mut *o).unwrap();
    }
    assert_eq!(o.lrs(), [0.05, 0.025]);
    let (state, rates) = (s.state_dict().unwrap(), o.state_dict().unwrap());
    let mut o = CASES[0].1(&p).unwrap();
    o.load_state_dict(&rates).unwrap();
    // The initial rate of a group is one of its settings, so the second scheduler starts from it.
    let mut s = Scheduler::new(schedule, &mut *o).unwrap();
    s.load_state_dict(&state).unwrap();
    s.step(&mut *o).unwrap();
    assert_eq!((o.lrs(), s.steps()), (vec![0.025, 0.0125], 4));

    let (mut a, mut b) = (sgd(), sgd());
    let make = || {
        let mut s = ReduceLROnPlateau::new(false);
        (s.patience, s.cooldown) = (1, 1);
        s
    };
    let (mut s, mut resumed) = (make(), make());
    let measures = [1.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];
    for m in &measures[..4] {
        s.step(*m, &mut a);
    }
    b.set_lr(a.lr());
    resumed.load_state_dict(&s.state_dict().unwrap()).unwrap();
    for m in &measures[4..] {
        s.step(*m, &mut a);
        resumed.step(*m, &mut b);
        assert_eq!(a.lr(), b.lr());
    }
    assert!(a.lr() < 0.002);
}

#[test]
fn the_gradient_norm_neither_overflows_nor_loses_precision() {
    for d in devices() {
        let with = |g: &[f64], dtype: DType| {
            let zero = Tensor::zeros(&[g.len()], dtype, d).unwrap();
            let g = Tensor::from_slice(g, &[g.len()]).unwrap().to_dtype(dtype).unwrap().to_device(d).unwrap();
            let p = Parameter::new(zero).unwrap();
            p.tensor().set_grad(Some(g)).unwrap();
            p
        };
        let grad = |p: &Parameter| p.grad().unwrap().to_vec::<f64>().unwrap();
        let p = [with(&[300.0; 4], DType::F16)];
        let norm = clip_grad_norm(&p, 1.0, 2.0).unwrap();
        assert_eq!((norm.dtype(), norm.item_f64().unwrap()), (DType::F16, 600.0));
        // 1/600 of 300, in f16.
        assert_eq!(grad(&p[0]), [0.5; 4]);
        let p = [with(&[1.0, 4.0 / 3.0], DType::F64)];
        let norm = clip_grad_norm(&p, 1.0, 2.0).unwrap();
        assert_eq!(norm.dtype(), DType::F64);
        close(&[norm.item_f64().unwrap()], &[1.6666666666666667], 1e-15);
        close(&grad(&p[0]), &[0.599999640000216, 0.799999520000288], 1e-15);
        let p = [with(&[3.0, 4.0], DType::F16), with(&[12.0], DType::F32)];
        let norm = clip_grad_norm(&p, 1.0, 2.0).unwrap();
        assert_eq!((norm.dtype(), norm.item_f64().unwrap()), (DType::F32, 13.0));
        assert_eq!(grad(&p[0]), [0.230712890625, 0.3076171875]);
        close(&grad(&p[1]), &[0.923076868057251], 1e-7);
        let p = with(&[f64::INFINITY], DType::F32);
        assert!(get_total_norm(&[p.grad().unwrap()], 2.0, false).is_ok());
        assert_eq!(
            get_total_norm(&[p.grad().unwrap()], 2.0, true).unwrap_err().message(),
            "The total norm of order 2.0 for gradients from `parameters` is non-finite, so it cannot be clipped. To \
            disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        );
    }
}
