//! Tests of clipping, and of steps of RMSprop and Adagrad, against numbers of PyTorch.

use crate::common::{close, randn, turn};
use torchtpu::nn::Parameter;
use torchtpu::nn::optim::{Adagrad, AdagradOptions, Optimizer, RMSprop, RMSpropOptions, clip_grad_norm};
use torchtpu::{DType, Device, Result, Tensor};

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
