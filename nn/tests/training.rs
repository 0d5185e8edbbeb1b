//! Tests of whole training runs: equal losses on `cpu` and on `tpu` in every mode, without recompilation and without
//! growth.
//!
//! The tests need a PJRT plugin, which `tests/summary.py` provides. Without one, they fail with its error.

use std::sync::{Mutex, MutexGuard, Once};
use torchtpu::lazy::{self, EagerMode};
use torchtpu::nn::data::{DataLoader, Dataset, TensorDataset, random_split};
use torchtpu::nn::optim::{Adam, AdamOptions, AdamW, Optimizer, Sgd, SgdOptions};
use torchtpu::nn::{
    self, BatchNorm2d, Conv2d, Conv2dOptions, Dropout, Embedding, Flatten, GELU, LayerNorm, Linear, MaxPool2d, Module,
    ReLU, Sequential,
};
use torchtpu::{Backward, DType, Device, Result, Tensor, random};

/// Lock modes, counters and generators, which exist once per process, so that tests run one at a time.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    static FIRST: Once = Once::new();
    let guard = TURN.lock().unwrap_or_else(|e| e.into_inner());
    FIRST.call_once(|| {
        torchtpu::device("tpu").unwrap();
        lazy::set_cache_folder(None).unwrap();
        lazy::device_name().expect("these tests need a plugin");
    });
    lazy::set_eager_mode(EagerMode::Fused);
    lazy::set_interpret(lazy::Interpret::Never);
    lazy::synchronize().unwrap();
    guard
}

fn mlp() -> Result<Sequential> {
    Ok(Sequential::new()
        .push(Linear::new(8, 32)?)
        .push(GELU::default())
        .push(LayerNorm::new(&[32])?)
        .push(Linear::new(32, 32)?)
        .push(ReLU)
        .push(Linear::new(32, 3)?))
}

fn cnn() -> Result<Sequential> {
    let same = Conv2dOptions { padding: [1, 1], ..Conv2dOptions::default() };
    Ok(Sequential::new()
        .push(Conv2d::new(1, 4, [3, 3], same)?)
        .push(BatchNorm2d::new(4)?)
        .push(ReLU)
        .push(MaxPool2d::new(2))
        .push(Conv2d::new(4, 8, [3, 3], same)?)
        .push(ReLU)
        .push(Flatten::default())
        .push(Linear::new(8 * 4 * 4, 3)?))
}

/// Return a learnable problem: three classes, given by the sign and size of a sum.
fn problem(dims: &[usize]) -> Result<(Tensor, Tensor)> {
    let n = dims[0];
    let width: usize = dims[1..].iter().product();
    let x: Vec<f32> = (0..n * width).map(|i| ((i * 7919 + 13) % 997) as f32 / 498.5 - 1.0).collect();
    let y: Vec<i64> = (0..n)
        .map(|i| {
            let s: f32 = x[i * width..(i + 1) * width].iter().take(4).sum();
            if s < -0.4 {
                0
            } else if s < 0.4 {
                1
            } else {
                2
            }
        })
        .collect();
    Ok((Tensor::from_slice(&x, dims)?, Tensor::from_slice(&y, &[n])?))
}

fn step(model: &dyn Module, optimizer: &mut dyn Optimizer, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    optimizer.zero_grad()?;
    let loss = nn::cross_entropy(&model.forward(x)?, y)?;
    loss.backward()?;
    optimizer.step()?;
    Ok(loss.detach())
}

type MakeOptimizer = fn(Vec<nn::Parameter>) -> Result<Box<dyn Optimizer>>;

fn adamw(p: Vec<nn::Parameter>) -> Result<Box<dyn Optimizer>> {
    Ok(Box::new(AdamW::new(p, AdamOptions { lr: 1e-2, ..AdamOptions::adamw() })?))
}

fn sgd(p: Vec<nn::Parameter>) -> Result<Box<dyn Optimizer>> {
    Ok(Box::new(Sgd::new(p, SgdOptions { lr: 0.05, momentum: 0.9, ..SgdOptions::default() })?))
}

fn losses(
    make: fn() -> Result<Sequential>,
    dims: &[usize],
    optimizer: MakeOptimizer,
    device: Device,
    steps: usize,
) -> Result<Vec<f64>> {
    random::manual_seed(3);
    let model = make()?;
    model.to(device)?;
    let mut optimizer = optimizer(model.parameters())?;
    let (x, y) = problem(dims)?;
    let (x, y) = (x.to_device(device)?, y.to_device(device)?);
    (0..steps).map(|_| step(&model, optimizer.as_mut(), &x, &y)?.item_f64()).collect()
}

fn agree_in_all_modes(make: fn() -> Result<Sequential>, dims: &[usize], optimizer: MakeOptimizer, steps: usize) {
    let expected = losses(make, dims, optimizer, Device::CPU, steps).unwrap();
    assert!(expected[steps - 1] < 0.7 * expected[0], "the loss must fall: {expected:?}");
    for mode in [EagerMode::Fused, EagerMode::Strict, EagerMode::Debug] {
        lazy::set_eager_mode(mode);
        let found = losses(make, dims, optimizer, Device::TPU, steps).unwrap();
        for (i, (a, b)) in expected.iter().zip(&found).enumerate() {
            assert!((a - b).abs() < 1e-3, "{mode:?}, step {i}: cpu {a}, tpu {b}");
        }
    }
    lazy::set_eager_mode(EagerMode::Fused);
}

#[test]
fn an_mlp_trains_equally_in_all_modes() {
    let _turn = turn();
    agree_in_all_modes(mlp, &[64, 8], adamw, 40);
    agree_in_all_modes(mlp, &[64, 8], sgd, 20);
}

#[test]
fn a_cnn_trains_equally_in_all_modes() {
    let _turn = turn();
    agree_in_all_modes(cnn, &[32, 1, 8, 8], adamw, 20);
}

#[test]
fn later_steps_compile_nothing() {
    let _turn = turn();
    random::manual_seed(0);
    let model = mlp().unwrap();
    model.to(Device::TPU).unwrap();
    let mut optimizer = adamw(model.parameters()).unwrap();
    let (x, y) = problem(&[64, 8]).unwrap();
    let (x, y) = (x.to_device(Device::TPU).unwrap(), y.to_device(Device::TPU).unwrap());
    let mut train = |steps: usize, lr: &dyn Fn(usize) -> f64| {
        for i in 0..steps {
            optimizer.set_lr(lr(i));
            step(&model, optimizer.as_mut(), &x, &y).unwrap();
        }
        lazy::synchronize().unwrap();
        lazy::metrics()
    };
    let first = train(8, &|_| 1e-2);
    assert!(first.compilations > 0);
    let same = train(20, &|_| 1e-2);
    assert_eq!(same.compilations, first.compilations, "step counts must compile nothing");
    assert!(same.process_cache_hits > first.process_cache_hits);
    let other = train(10, &|i| 1e-2 / (i + 2) as f64);
    assert_eq!(other.compilations, first.compilations, "learning rates must compile nothing");
}

#[test]
fn a_second_run_compiles_nothing() {
    let _turn = turn();
    losses(cnn, &[16, 1, 8, 8], adamw, Device::TPU, 6).unwrap();
    let before = lazy::metrics().compilations;
    losses(cnn, &[16, 1, 8, 8], adamw, Device::TPU, 6).unwrap();
    assert_eq!(lazy::metrics().compilations, before);
}

#[test]
fn three_hundred_steps_do_not_accumulate_values() {
    let _turn = turn();
    random::manual_seed(0);
    let model = mlp().unwrap();
    model.to(Device::TPU).unwrap();
    let mut optimizer = adamw(model.parameters()).unwrap();
    let (x, y) = problem(&[64, 8]).unwrap();
    let (x, y) = (x.to_device(Device::TPU).unwrap(), y.to_device(Device::TPU).unwrap());
    let mut live = Vec::new();
    for i in 1..=300 {
        step(&model, optimizer.as_mut(), &x, &y).unwrap();
        if i % 50 == 0 {
            lazy::synchronize().unwrap();
            let m = lazy::metrics();
            live.push((m.live_values, m.live_bytes));
        }
    }
    assert!(live.iter().all(|l| *l == live[0]), "{live:?}");
}

#[test]
fn optimiser_steps_equal_pytorchs() {
    // One parameter and one gradient, computed by hand.
    let take = |make: &dyn Fn(Vec<nn::Parameter>) -> Result<Box<dyn Optimizer>>, device: Device| -> Vec<f64> {
        let p = nn::Parameter::new(Tensor::from_slice(&[1.0f32], &[1]).unwrap()).unwrap();
        p.to(device).unwrap();
        let mut o = make(vec![p.clone()]).unwrap();
        (0..3)
            .map(|_| {
                p.tensor().set_grad(Some(Tensor::from_slice_on(&[0.5f32], &[1], device).unwrap())).unwrap();
                o.step().unwrap();
                p.tensor().item_f64().unwrap()
            })
            .collect()
    };
    let _turn = turn();
    for device in [Device::CPU, Device::TPU] {
        let near = |a: Vec<f64>, b: [f64; 3]| {
            assert!(a.iter().zip(b).all(|(x, y)| (x - y).abs() < 1e-5), "{device}: {a:?} is not {b:?}");
        };
        let momentum = SgdOptions { lr: 0.1, momentum: 0.9, dampening: 0.5, ..SgdOptions::default() };
        // The buffers are 0.5, 0.7 and 0.88: dampening does not apply to the first.
        near(take(&|p| Ok(Box::new(Sgd::new(p, momentum)?)), device), [0.95, 0.88, 0.792]);
        // With a constant gradient, each step is `lr`, for any step count.
        let plain = AdamOptions { lr: 0.1, ..AdamOptions::adam() };
        near(take(&|p| Ok(Box::new(Adam::new(p, plain)?)), device), [0.9, 0.8, 0.7]);
        let decay = AdamOptions { lr: 0.1, weight_decay: 0.5, ..AdamOptions::adam() };
        near(take(&|p| Ok(Box::new(AdamW::new(p, decay)?)), device), [0.85, 0.7075, 0.572125]);
    }
}

#[test]
fn equal_seeds_give_pytorchs_parameters() {
    let _turn = turn();
    random::manual_seed(0);
    let l = Linear::new(2, 2).unwrap();
    let near =
        |a: Vec<f32>, b: &[f32]| assert!(a.iter().zip(b).all(|(x, y)| (x - y).abs() < 5e-5), "{a:?} is not {b:?}");
    near(l.weight.tensor().to_vec().unwrap(), &[-0.0053, 0.3793, -0.5820, -0.5204]);
    near(l.bias.unwrap().tensor().to_vec().unwrap(), &[-0.2723, 0.1896]);
}

#[test]
fn shared_weights_stay_shared() {
    let _turn = turn();
    let shared = std::sync::Arc::new(Linear::new(4, 4).unwrap());
    let model = Sequential::new().push(shared.clone()).push(ReLU).push(shared.clone());
    assert_eq!(model.parameters().len(), 2);
    assert_eq!(model.state_dict().len(), 4);
    let mut optimizer = Sgd::new(model.parameters(), SgdOptions { lr: 0.5, ..SgdOptions::default() }).unwrap();
    model.to(Device::TPU).unwrap();
    let x = Tensor::ones(&[3, 4], DType::F32, Device::TPU).unwrap();
    model.forward(&x).unwrap().sum().unwrap().backward().unwrap();
    let before = shared.weight.tensor().to_vec::<f32>().unwrap();
    optimizer.step().unwrap();
    let state = model.state_dict();
    let after: Vec<Vec<f32>> = ["0.weight", "2.weight"]
        .iter()
        .map(|k| state.iter().find(|(n, _)| n == k).unwrap().1.to_vec().unwrap())
        .collect();
    assert_eq!(after[0], after[1]);
    assert_ne!(after[0], before);
    assert_eq!(state[0].1.device(), Device::TPU);
}

#[test]
fn state_dicts_survive_a_round_trip_and_refuse_other_keys() {
    let _turn = turn();
    random::manual_seed(1);
    let (a, b) = (cnn().unwrap(), cnn().unwrap());
    let keys: Vec<String> = a.state_dict().into_iter().map(|(k, _)| k).collect();
    assert_eq!(
        keys,
        [
            "0.weight",
            "0.bias",
            "1.weight",
            "1.bias",
            "1.running_mean",
            "1.running_var",
            "1.num_batches_tracked",
            "4.weight",
            "4.bias",
            "7.weight",
            "7.bias"
        ]
    );
    b.load_state_dict(&a.state_dict(), true).unwrap();
    b.to(Device::TPU).unwrap();
    a.eval();
    b.eval();
    let x = problem(&[2, 1, 8, 8]).unwrap().0;
    let (p, q) = (a.forward(&x).unwrap(), b.forward(&x.to_device(Device::TPU).unwrap()).unwrap());
    for (u, v) in p.to_vec::<f32>().unwrap().iter().zip(q.to_vec::<f32>().unwrap()) {
        assert!((u - v).abs() < 1e-4);
    }

    let mut state = a.state_dict();
    state.retain(|(k, _)| k != "7.bias");
    state.push(("8.bias".into(), Tensor::zeros(&[1], DType::F32, Device::CPU).unwrap()));
    state[0].1 = Tensor::zeros(&[4, 1, 5, 5], DType::F32, Device::CPU).unwrap();
    let e = a.load_state_dict(&state, true).unwrap_err();
    assert_eq!(
        e.message(),
        "Error(s) in loading state_dict for Sequential:\n\tMissing key(s) in state_dict: \"7.bias\". \n\
        \tUnexpected key(s) in state_dict: \"8.bias\". \n\tsize mismatch for 0.weight: copying a param with shape \
        torch.Size([4, 1, 5, 5]) from checkpoint, the shape in current model is torch.Size([4, 1, 3, 3])."
    );
    state.remove(0);
    let keys = a.load_state_dict(&state, false).unwrap();
    assert_eq!(keys.missing, ["0.weight", "7.bias"]);
    assert_eq!(keys.unexpected, ["8.bias"]);
}

#[test]
fn dropout_and_batch_norm_differ_in_training_and_evaluation() {
    let _turn = turn();
    for device in [Device::CPU, Device::TPU] {
        let d = Dropout::new(0.5).unwrap();
        let x = Tensor::ones(&[1000], DType::F32, device).unwrap();
        let zeros = |y: &Tensor| y.to_vec::<f32>().unwrap().iter().filter(|v| **v == 0.0).count();
        let dropped = zeros(&d.forward(&x).unwrap());
        assert!((350..650).contains(&dropped), "{dropped}");
        d.eval();
        assert_eq!(zeros(&d.forward(&x).unwrap()), 0);

        let b = BatchNorm2d::new(2).unwrap();
        b.to(device).unwrap();
        let x = problem(&[4, 2, 3, 3]).unwrap().0.to_device(device).unwrap();
        let y = b.forward(&x).unwrap();
        assert!(y.mean_dim(&[0, 2, 3], false).unwrap().to_vec::<f32>().unwrap().iter().all(|m| m.abs() < 1e-5));
        assert_eq!(b.num_batches_tracked.as_ref().unwrap().tensor().item_f64().unwrap(), 1.0);
        let moved = b.running_mean.as_ref().unwrap().tensor().to_vec::<f32>().unwrap();
        let mean = x.mean_dim(&[0, 2, 3], false).unwrap().to_vec::<f32>().unwrap();
        assert!(moved.iter().zip(&mean).all(|(r, m)| (r - 0.1 * m).abs() < 1e-6));
        b.eval();
        b.forward(&x).unwrap();
        assert_eq!(b.num_batches_tracked.as_ref().unwrap().tensor().item_f64().unwrap(), 1.0);
        assert_eq!(b.running_mean.as_ref().unwrap().tensor().to_vec::<f32>().unwrap(), moved);
    }
}

#[test]
fn an_embedding_trains_all_rows_but_the_padding_row() {
    let _turn = turn();
    for device in [Device::CPU, Device::TPU] {
        let e = Embedding::with_padding(4, 2, Some(-3)).unwrap();
        e.to(device).unwrap();
        let at = Tensor::from_slice_on(&[0i64, 1, 1, 3, 3], &[5], device).unwrap();
        let y = e.forward(&at).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap()[2..6], [0.0; 4]);
        y.sum().unwrap().backward().unwrap();
        assert_eq!(e.weight.grad().unwrap().to_vec::<f32>().unwrap(), [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 2.0, 2.0]);
    }
}

#[test]
fn loaders_give_every_sample_once() {
    let _turn = turn();
    let x = Tensor::arange(0i64.into(), 10i64.into(), 1i64.into(), DType::I64, Device::CPU).unwrap();
    let data = TensorDataset::new(vec![x.clone(), x.mul_scalar(2i64).unwrap()]).unwrap();
    let passes = |seed: u64| -> Vec<i64> {
        random::manual_seed(seed);
        let loader = DataLoader::new(data.clone(), 3).unwrap().shuffle(true);
        let mut all = Vec::new();
        for batch in loader.iter().unwrap() {
            let batch = batch.unwrap();
            let (a, b): (Vec<i64>, Vec<i64>) = (batch[0].to_vec().unwrap(), batch[1].to_vec().unwrap());
            assert!(a.iter().zip(&b).all(|(a, b)| 2 * a == *b));
            all.extend(a);
        }
        all
    };
    let (a, b) = (passes(0), passes(1));
    assert_ne!(a, b);
    assert_eq!(a, passes(0));
    let mut sorted = a;
    sorted.sort_unstable();
    assert_eq!(sorted, (0..10).collect::<Vec<_>>());
    assert_eq!(DataLoader::new(data.clone(), 3).unwrap().drop_last(true).len(), 3);
    let parts = random_split(data.clone(), &[7, 3]).unwrap();
    assert_eq!((parts[0].len(), parts[1].len()), (7, 3));
    let e = random_split(data.clone(), &[7, 4]).err().unwrap();
    assert_eq!(e.message(), "Sum of input lengths does not equal the length of the input dataset!");
    let e = DataLoader::new(data, 0).err().unwrap();
    assert_eq!(e.message(), "batch_size should be a positive integer value, but got batch_size=0");
}
