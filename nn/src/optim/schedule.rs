//! Learning rates that change from epoch to epoch.
//!
//! A [`Schedule`] says what the rate is after a number of steps; a [`Scheduler`] counts the steps and tells the optimiser.
//! Rates are those of PyTorch's schedulers of the same names.

use super::Optimizer;
use std::f64::consts::PI;
use torchtpu_tensor::{Error, Result};

/// The learning rate after a number of steps.
pub trait Schedule {
    /// The rate after `step` steps, where `base` is the one that the optimiser began with.
    fn lr(&self, base: f64, step: u64) -> f64;
}

/// Sets an optimiser's learning rate by a schedule.
///
/// ```
/// use torchtpu_nn::optim::{Optimizer, Scheduler, Sgd, SgdOptions, StepLR};
/// use torchtpu_nn::{Linear, Module};
///
/// let model = Linear::new(2, 1)?;
/// let mut optimizer = Sgd::new(model.parameters(), SgdOptions { lr: 0.1, ..SgdOptions::default() })?;
/// let mut scheduler = Scheduler::new(StepLR { step_size: 2, gamma: 0.5 }, &mut optimizer);
/// let rates: Vec<f64> = (0..4)
///     .map(|_| {
///         scheduler.step(&mut optimizer);
///         optimizer.lr()
///     })
///     .collect();
/// assert_eq!(rates, [0.1, 0.05, 0.05, 0.025]);
/// # Ok::<(), torchtpu_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Scheduler<S> {
    schedule: S,
    base: f64,
    steps: u64,
}

impl<S: Schedule> Scheduler<S> {
    /// A scheduler that has taken no step; it sets the first rate.
    pub fn new(schedule: S, optimizer: &mut dyn Optimizer) -> Scheduler<S> {
        let base = optimizer.lr();
        optimizer.set_lr(schedule.lr(base, 0));
        Scheduler { schedule, base, steps: 0 }
    }
    /// Counts a step and sets the rate.
    pub fn step(&mut self, optimizer: &mut dyn Optimizer) {
        self.steps += 1;
        optimizer.set_lr(self.schedule.lr(self.base, self.steps));
    }
    /// Steps counted so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }
}

/// By a function of the number of steps: the factor of the first rate.
pub struct LambdaLR<F>(pub F);

impl<F: Fn(u64) -> f64> Schedule for LambdaLR<F> {
    fn lr(&self, base: f64, step: u64) -> f64 {
        base * (self.0)(step)
    }
}

/// Times `gamma` every `step_size` steps.
#[derive(Clone, Copy, Debug)]
pub struct StepLR {
    /// Steps between changes.
    pub step_size: u64,
    /// The factor.
    pub gamma: f64,
}

impl Schedule for StepLR {
    fn lr(&self, base: f64, step: u64) -> f64 {
        base * self.gamma.powi((step / self.step_size.max(1)) as i32)
    }
}

/// Times `gamma` at given steps.
#[derive(Clone, Debug)]
pub struct MultiStepLR {
    /// The steps.
    pub milestones: Vec<u64>,
    /// The factor.
    pub gamma: f64,
}

impl Schedule for MultiStepLR {
    fn lr(&self, base: f64, step: u64) -> f64 {
        base * self.gamma.powi(self.milestones.iter().filter(|&&m| m <= step).count() as i32)
    }
}

/// Times `gamma` every step.
#[derive(Clone, Copy, Debug)]
pub struct ExponentialLR {
    /// The factor.
    pub gamma: f64,
}

impl Schedule for ExponentialLR {
    fn lr(&self, base: f64, step: u64) -> f64 {
        base * self.gamma.powi(step as i32)
    }
}

/// In a straight line from one factor of the first rate to another: a warm-up, as a rule.
#[derive(Clone, Copy, Debug)]
pub struct LinearLR {
    /// The factor at first.
    pub start_factor: f64,
    /// The factor at the end.
    pub end_factor: f64,
    /// Steps from one to the other.
    pub total_iters: u64,
}

impl Schedule for LinearLR {
    fn lr(&self, base: f64, step: u64) -> f64 {
        let part =
            if self.total_iters == 0 { 1.0 } else { step.min(self.total_iters) as f64 / self.total_iters as f64 };
        base * (self.start_factor + (self.end_factor - self.start_factor) * part)
    }
}

/// Half a wave of the cosine, from the first rate down to `eta_min` and back up again.
#[derive(Clone, Copy, Debug)]
pub struct CosineAnnealingLR {
    /// Steps from the top to the bottom.
    pub t_max: u64,
    /// The bottom.
    pub eta_min: f64,
}

impl Schedule for CosineAnnealingLR {
    fn lr(&self, base: f64, step: u64) -> f64 {
        self.eta_min + (base - self.eta_min) * (1.0 + (PI * step as f64 / self.t_max.max(1) as f64).cos()) / 2.0
    }
}

/// Up from `max_lr / div_factor` to `max_lr` and down to a small part of where it began, by cosines.
#[derive(Clone, Copy, Debug)]
pub struct OneCycleLR {
    /// The top.
    pub max_lr: f64,
    /// Steps of the whole cycle.
    pub total_steps: u64,
    /// Part of the steps that go up.
    pub pct_start: f64,
    /// The top over the first rate.
    pub div_factor: f64,
    /// The first rate over the last.
    pub final_div_factor: f64,
}

impl OneCycleLR {
    /// A cycle with PyTorch's defaults.
    pub fn new(max_lr: f64, total_steps: u64) -> OneCycleLR {
        OneCycleLR { max_lr, total_steps, pct_start: 0.3, div_factor: 25.0, final_div_factor: 1e4 }
    }
}

impl Schedule for OneCycleLR {
    fn lr(&self, _base: f64, step: u64) -> f64 {
        let first = self.max_lr / self.div_factor;
        let up = self.pct_start * self.total_steps as f64 - 1.0;
        let last = self.total_steps as f64 - 1.0;
        let step = (step as f64).min(last);
        let between = |from: f64, to: f64, part: f64| to + (from - to) / 2.0 * (1.0 + (PI * part).cos());
        if step <= up {
            between(first, self.max_lr, step / up)
        } else {
            between(self.max_lr, first / self.final_div_factor, (step - up) / (last - up))
        }
    }
}

/// One schedule after the other, each from its own start.
pub struct SequentialLR {
    schedules: Vec<Box<dyn Schedule>>,
    milestones: Vec<u64>,
}

impl SequentialLR {
    /// Schedules, and the steps at which the second and the others begin.
    ///
    /// # Errors
    /// `Value` unless there is one step fewer than schedules and the steps rise.
    pub fn new(schedules: Vec<Box<dyn Schedule>>, milestones: Vec<u64>) -> Result<SequentialLR> {
        if schedules.len() != milestones.len() + 1 {
            return Err(Error::value(format!(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone points, but got number of schedulers {} and the number of milestones to be equal to {}",
                schedules.len(),
                milestones.len()
            )));
        }
        if milestones.windows(2).any(|w| w[1] <= w[0]) {
            return Err(Error::value("the milestones of sequential schedulers must rise"));
        }
        Ok(SequentialLR { schedules, milestones })
    }
}

impl Schedule for SequentialLR {
    fn lr(&self, base: f64, step: u64) -> f64 {
        let at = self.milestones.iter().filter(|&&m| m <= step).count();
        let start = if at == 0 { 0 } else { self.milestones[at - 1] };
        self.schedules[at].lr(base, step - start)
    }
}

/// Lowers the learning rate when a measure has not improved for a while.
#[derive(Clone, Debug)]
pub struct ReduceLROnPlateau {
    /// The factor.
    pub factor: f64,
    /// Steps without improvement that are borne.
    pub patience: u64,
    /// How much better, as a part, counts as better.
    pub threshold: f64,
    /// Steps to wait after a change.
    pub cooldown: u64,
    /// The lowest rate.
    pub min_lr: f64,
    /// Whether larger measures are better.
    pub maximize: bool,
    best: f64,
    bad: u64,
    waiting: u64,
}

impl ReduceLROnPlateau {
    /// PyTorch's defaults: a tenth after 10 steps, for a measure that should fall, or rise with `maximize`.
    pub fn new(maximize: bool) -> ReduceLROnPlateau {
        ReduceLROnPlateau {
            factor: 0.1,
            patience: 10,
            threshold: 1e-4,
            cooldown: 0,
            min_lr: 0.0,
            maximize,
            best: if maximize { f64::NEG_INFINITY } else { f64::INFINITY },
            bad: 0,
            waiting: 0,
        }
    }
    /// Takes note of the measure and lowers the rate when it is time.
    pub fn step(&mut self, measure: f64, optimizer: &mut dyn Optimizer) {
        let better = if self.maximize {
            measure > self.best * (1.0 + self.threshold)
        } else {
            measure < self.best * (1.0 - self.threshold)
        };
        if better {
            self.best = measure;
            self.bad = 0;
        } else {
            self.bad += 1;
        }
        if self.waiting > 0 {
            self.waiting -= 1;
            self.bad = 0;
        }
        if self.bad > self.patience {
            let (old, new) = (optimizer.lr(), (optimizer.lr() * self.factor).max(self.min_lr));
            if old - new > 1e-8 {
                optimizer.set_lr(new);
            }
            self.waiting = self.cooldown;
            self.bad = 0;
        }
    }
}
