//! Tests of schedules of the learning rate against numbers of PyTorch.

use crate::common::{randn, turn};
use torchtpu::nn::Parameter;
use torchtpu::nn::optim::{
    CosineAnnealingLR, LinearLR, MultiStepLR, OneCycleLR, Optimizer, ReduceLROnPlateau, Schedule, Scheduler,
    SequentialLR, Sgd, SgdOptions,
};

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
