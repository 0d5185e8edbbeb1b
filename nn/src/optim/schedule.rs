//! Learning-rate schedules.
//!
//! A [`Schedule`] gives the learning rate after a number of steps. A [`Scheduler`] counts the steps and sets the rates
//! of an optimiser. Rates equal those of PyTorch's schedulers of the same names.

use super::{Optimizer, Setting, groups};
use crate::StateDict;
use parking_lot::Mutex;
use std::f64::consts::PI;
use torchtpu_tensor::{Error, Result, Tensor};

/// A learning rate as a function of the number of steps.
pub trait Schedule {
    /// Return the rate after `step` steps, for an optimiser that started with the rate `base`.
    fn lr(&self, base: f64, step: u64) -> f64;
    /// Return the momentum after `step` steps, if the schedule also cycles momentum.
    fn momentum(&self, _step: u64) -> Option<f64> {
        None
    }
    /// Refuse a step beyond the end of the schedule.
    ///
    /// # Errors
    /// Fails with `Value` if `step` is beyond the end.
    fn check(&self, _step: u64) -> Result<()> {
        Ok(())
    }
}

impl<S: Schedule + ?Sized> Schedule for Box<S> {
    fn lr(&self, base: f64, step: u64) -> f64 {
        (**self).lr(base, step)
    }
    fn momentum(&self, step: u64) -> Option<f64> {
        (**self).momentum(step)
    }
    fn check(&self, step: u64) -> Result<()> {
        (**self).check(step)
    }
}

/// Set the learning rates of an optimiser's groups by a schedule, each relative to the initial rate of its group.
///
/// ```
/// use torchtpu_nn::optim::{Optimizer, Scheduler, Sgd, SgdOptions, StepLR};
/// use torchtpu_nn::{Linear, Module};
///
/// let model = Linear::new(2, 1)?;
/// let mut optimizer = Sgd::new(model.parameters(), SgdOptions { lr: 0.1, ..SgdOptions::default() })?;
/// let mut scheduler = Scheduler::new(StepLR { step_size: 2, gamma: 0.5 }, &mut optimizer)?;
/// let mut rates = Vec::new();
/// for _ in 0..4 {
///     scheduler.step(&mut optimizer)?;
///     rates.push(optimizer.lr());
/// }
/// assert_eq!(rates, [0.1, 0.05, 0.05, 0.025]);
/// # Ok::<(), torchtpu_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Scheduler<S> {
    schedule: S,
    bases: Vec<f64>,
    steps: u64,
}

impl<S: Schedule> Scheduler<S> {
    /// Make a scheduler at step zero and set the first rates. The initial rate of a group is stored as its setting
    /// `initial_lr`, which a second scheduler uses too.
    ///
    /// # Errors
    /// Fails with `Value` if the schedule cycles momentum and the optimiser has none.
    pub fn new(schedule: S, optimizer: &mut dyn Optimizer) -> Result<Scheduler<S>> {
        let known = groups::numbers(optimizer, "initial_lr");
        let bases: Vec<f64> = known.into_iter().zip(optimizer.lrs()).map(|(first, lr)| first.unwrap_or(lr)).collect();
        for (i, &lr) in bases.iter().enumerate() {
            optimizer.set(i, "initial_lr", Setting::Number(lr))?;
        }
        let new = Scheduler { schedule, bases, steps: 0 };
        new.apply(optimizer)?;
        Ok(new)
    }
    fn apply(&self, optimizer: &mut dyn Optimizer) -> Result<()> {
        self.schedule.check(self.steps)?;
        let lrs: Vec<f64> = self.bases.iter().map(|&base| self.schedule.lr(base, self.steps)).collect();
        if let Some(new) = self.schedule.momentum(self.steps) {
            for (i, g) in optimizer.param_groups().iter().enumerate() {
                match (g.get("momentum"), g.get("betas")) {
                    (Some(_), _) => optimizer.set(i, "momentum", Setting::Number(new))?,
                    (None, Some(Setting::Pair(_, second))) => optimizer.set(i, "betas", Setting::Pair(new, second))?,
                    _ => {
                        return Err(Error::value(
                            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled",
                        ));
                    }
                }
            }
        }
        optimizer.set_lrs(&lrs);
        Ok(())
    }
    /// Count a step and set the rates.
    ///
    /// # Errors
    /// Fails with `Value`, in PyTorch's wording, beyond the end of the schedule. The step is then not counted.
    pub fn step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        self.schedule.check(self.steps + 1)?;
        self.steps += 1;
        self.apply(optimizer)
    }
    /// Return the number of steps counted so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }
    /// Return the scheduler's state as tensors that [`safetensors`](crate::safetensors) can write: `last_epoch` and
    /// `base_lrs`. It does not include the settings of the schedule.
    ///
    /// # Errors
    /// Returns the errors of making tensors.
    pub fn state_dict(&self) -> Result<StateDict> {
        Ok(vec![
            ("last_epoch".into(), Tensor::from_slice(&[self.steps as i64], &[])?),
            ("base_lrs".into(), Tensor::from_slice(&self.bases, &[self.bases.len()])?),
        ])
    }
    /// Load the result of [`Scheduler::state_dict`]. The optimiser's state contains its rates.
    ///
    /// # Errors
    /// Fails with `Value` if an entry is missing.
    pub fn load_state_dict(&mut self, state: &[(String, Tensor)]) -> Result<()> {
        let bases = entry(state, "base_lrs")?.to_vec()?;
        if bases.len() != self.bases.len() {
            return Err(Error::value(format!(
                "expected {} values for base_lrs, got {}",
                self.bases.len(),
                bases.len()
            )));
        }
        self.steps = number(state, "last_epoch")? as u64;
        self.bases = bases;
        Ok(())
    }
}

fn entry<'a>(state: &'a [(String, Tensor)], name: &str) -> Result<&'a Tensor> {
    let found = state.iter().find(|(n, _)| n == name).map(|(_, t)| t);
    found.ok_or_else(|| Error::value(format!("state of a scheduler: {name:?} is missing")))
}
fn number(state: &[(String, Tensor)], name: &str) -> Result<f64> {
    entry(state, name)?.item_f64()
}

/// Multiply the initial rate by a function of the number of steps.
pub struct LambdaLR<F>(pub F);

impl<F: Fn(u64) -> f64> Schedule for LambdaLR<F> {
    fn lr(&self, base: f64, step: u64) -> f64 {
        base * (self.0)(step)
    }
}

/// Multiply the rate by `gamma` every `step_size` steps.
#[derive(Clone, Copy, Debug)]
pub struct StepLR {
    /// Number of steps between changes.
    pub step_size: u64,
    /// The factor.
    pub gamma: f64,
}

impl Schedule for StepLR {
    fn lr(&self, base: f64, step: u64) -> f64 {
        base * self.gamma.powi((step / self.step_size.max(1)) as i32)
    }
}

/// Multiply the rate by `gamma` at the given steps.
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

/// Multiply the rate by `gamma` every step.
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

/// Multiply the initial rate by a factor that changes linearly, often as a warm-up.
#[derive(Clone, Copy, Debug)]
pub struct LinearLR {
    /// Factor at the start.
    pub start_factor: f64,
    /// Factor at the end.
    pub end_factor: f64,
    /// Number of steps from start to end.
    pub total_iters: u64,
}

impl Schedule for LinearLR {
    fn lr(&self, base: f64, step: u64) -> f64 {
        let part =
            if self.total_iters == 0 { 1.0 } else { step.min(self.total_iters) as f64 / self.total_iters as f64 };
        base * (self.start_factor + (self.end_factor - self.start_factor) * part)
    }
}

/// Follow a cosine from the initial rate down to `eta_min` and back up.
#[derive(Clone, Copy, Debug)]
pub struct CosineAnnealingLR {
    /// Number of steps from the highest to the lowest rate.
    pub t_max: u64,
    /// Lowest rate.
    pub eta_min: f64,
}

impl Schedule for CosineAnnealingLR {
    fn lr(&self, base: f64, step: u64) -> f64 {
        self.eta_min + (base - self.eta_min) * (1.0 + (PI * step as f64 / self.t_max.max(1) as f64).cos()) / 2.0
    }
}

/// Multiply the initial rate by a factor for the first steps.
#[derive(Clone, Copy, Debug)]
pub struct ConstantLR {
    /// The factor.
    pub factor: f64,
    /// Number of steps with the factor.
    pub total_iters: u64,
}

impl Schedule for ConstantLR {
    fn lr(&self, base: f64, step: u64) -> f64 {
        if step < self.total_iters { base * self.factor } else { base }
    }
}

/// Decrease the rate to zero along a power of the remaining steps.
#[derive(Clone, Copy, Debug)]
pub struct PolynomialLR {
    /// Number of steps to the end.
    pub total_iters: u64,
    /// The power.
    pub power: f64,
}

impl Schedule for PolynomialLR {
    fn lr(&self, base: f64, step: u64) -> f64 {
        let left = self.total_iters.saturating_sub(step) as f64 / self.total_iters.max(1) as f64;
        base * left.powf(self.power)
    }
}

/// Multiply the rate by a function of the step, at every step after the first.
pub struct MultiplicativeLR<F> {
    factor: F,
    /// The step, and the product of the factors up to it.
    known: Mutex<(u64, f64)>,
}

impl<F: Fn(u64) -> f64> MultiplicativeLR<F> {
    /// Make a schedule from a function of the number of steps.
    pub fn new(factor: F) -> MultiplicativeLR<F> {
        MultiplicativeLR { factor, known: Mutex::new((0, 1.0)) }
    }
}

impl<F: Fn(u64) -> f64> Schedule for MultiplicativeLR<F> {
    fn lr(&self, base: f64, step: u64) -> f64 {
        let mut known = self.known.lock();
        if known.0 > step {
            *known = (0, 1.0);
        }
        while known.0 < step {
            known.0 += 1;
            known.1 *= (self.factor)(known.0);
        }
        base * known.1
    }
}

/// Follow a cosine from the initial rate down to `eta_min`, and restart with longer and longer periods.
#[derive(Clone, Copy, Debug)]
pub struct CosineAnnealingWarmRestarts {
    t_0: u64,
    t_mult: u64,
    eta_min: f64,
}

impl CosineAnnealingWarmRestarts {
    /// Make a schedule whose first period has `t_0` steps. Each period is `t_mult` times as long as the one before.
    ///
    /// # Errors
    /// Fails with `Value`, in PyTorch's wording, if `t_0` or `t_mult` is zero.
    pub fn new(t_0: u64, t_mult: u64, eta_min: f64) -> Result<CosineAnnealingWarmRestarts> {
        if t_0 == 0 {
            return Err(Error::value(format!("Expected positive integer T_0, but got {t_0}")));
        }
        if t_mult == 0 {
            return Err(Error::value(format!("Expected integer T_mult >= 1, but got {t_mult}")));
        }
        Ok(CosineAnnealingWarmRestarts { t_0, t_mult, eta_min })
    }
}

impl Schedule for CosineAnnealingWarmRestarts {
    fn lr(&self, base: f64, step: u64) -> f64 {
        let (mut at, mut length) = (step, self.t_0);
        if self.t_mult == 1 {
            at %= length;
        }
        while at >= length {
            at -= length;
            length = length.saturating_mul(self.t_mult);
        }
        self.eta_min + (base - self.eta_min) * (1.0 + (PI * at as f64 / length as f64).cos()) / 2.0
    }
}

/// How the height of the triangles of [`CyclicLR`] changes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum CyclicMode {
    /// Constant height.
    Triangular,
    /// Half the height after each cycle.
    Triangular2,
    /// Height times `gamma` every step.
    ExpRange,
}

/// Cycle the rate between two bounds in triangles, and momentum inversely.
#[derive(Clone, Copy, Debug)]
pub struct CyclicLR {
    /// Lowest rate.
    pub base_lr: f64,
    /// Highest rate.
    pub max_lr: f64,
    /// Number of steps up.
    pub step_size_up: u64,
    /// Number of steps down.
    pub step_size_down: u64,
    /// How the height changes.
    pub mode: CyclicMode,
    /// The factor of [`CyclicMode::ExpRange`].
    pub gamma: f64,
    /// Momentum at the highest and at the lowest rate. With `None`, momentum does not change.
    pub momentum: Option<(f64, f64)>,
}

impl CyclicLR {
    /// Make a schedule with PyTorch's defaults.
    pub fn new(base_lr: f64, max_lr: f64) -> CyclicLR {
        CyclicLR {
            base_lr,
            max_lr,
            step_size_up: 2000,
            step_size_down: 2000,
            mode: CyclicMode::Triangular,
            gamma: 1.0,
            momentum: Some((0.8, 0.9)),
        }
    }
    /// Return the relative height of a step in its triangle, times the height of the triangle.
    fn height(&self, step: u64) -> f64 {
        let (up, down) = (self.step_size_up as f64, self.step_size_down as f64);
        let total = up + down;
        let cycle = (1.0 + step as f64 / total).floor();
        let x = 1.0 + step as f64 / total - cycle;
        let ratio = up / total;
        let at = if x <= ratio { x / ratio } else { (x - 1.0) / (ratio - 1.0) };
        at * match self.mode {
            CyclicMode::Triangular => 1.0,
            CyclicMode::Triangular2 => 0.5f64.powf(cycle - 1.0),
            CyclicMode::ExpRange => self.gamma.powf(step as f64),
        }
    }
}

impl Schedule for CyclicLR {
    fn lr(&self, _base: f64, step: u64) -> f64 {
        self.base_lr + (self.max_lr - self.base_lr) * self.height(step)
    }
    fn momentum(&self, step: u64) -> Option<f64> {
        self.momentum.map(|(low, high)| high - (high - low) * self.height(step))
    }
}

/// Raise the rate from `max_lr / div_factor` to `max_lr`, then lower it to a small fraction of the first rate, along
/// cosines. Momentum changes inversely.
#[derive(Clone, Copy, Debug)]
pub struct OneCycleLR {
    /// Highest rate.
    pub max_lr: f64,
    /// Number of steps in the whole cycle.
    pub total_steps: u64,
    /// Share of the steps that raise the rate.
    pub pct_start: f64,
    /// Highest rate divided by the first rate.
    pub div_factor: f64,
    /// First rate divided by the last rate.
    pub final_div_factor: f64,
    /// Whether to use straight lines instead of cosines.
    pub linear: bool,
    /// Whether to lower the rate to the first rate as fast as it was raised, and from there to the last rate.
    pub three_phase: bool,
    /// Momentum at the highest rate, and at both ends. With `None`, momentum does not change.
    pub momentum: Option<(f64, f64)>,
}

impl OneCycleLR {
    /// Make a cycle with PyTorch's defaults.
    pub fn new(max_lr: f64, total_steps: u64) -> OneCycleLR {
        OneCycleLR {
            max_lr,
            total_steps,
            pct_start: 0.3,
            div_factor: 25.0,
            final_div_factor: 1e4,
            linear: false,
            three_phase: false,
            momentum: Some((0.85, 0.95)),
        }
    }
    /// Return the value at `step`, between `first` at the start, `top` at the peak and `last` at the end.
    fn at(&self, step: u64, first: f64, top: f64, last: f64) -> f64 {
        let up = self.pct_start * self.total_steps as f64 - 1.0;
        let end = self.total_steps as f64 - 1.0;
        let step = (step as f64).min(end);
        let between = |from: f64, to: f64, part: f64| {
            if self.linear { (to - from) * part + from } else { to + (from - to) / 2.0 * (1.0 + (PI * part).cos()) }
        };
        let down = 2.0 * self.pct_start * self.total_steps as f64 - 2.0;
        if step <= up {
            between(first, top, step / up)
        } else if !self.three_phase {
            between(top, last, (step - up) / (end - up))
        } else if step <= down {
            between(top, first, (step - up) / (down - up))
        } else {
            between(first, last, (step - down) / (end - down))
        }
    }
}

impl Schedule for OneCycleLR {
    fn lr(&self, _base: f64, step: u64) -> f64 {
        let first = self.max_lr / self.div_factor;
        self.at(step, first, self.max_lr, first / self.final_div_factor)
    }
    fn momentum(&self, step: u64) -> Option<f64> {
        self.momentum.map(|(low, high)| self.at(step, high, low, high))
    }
    fn check(&self, step: u64) -> Result<()> {
        if step >= self.total_steps {
            return Err(Error::value(format!(
                "Tried to step {} times. The specified number of total steps is {}",
                step + 1,
                self.total_steps
            )));
        }
        Ok(())
    }
}

/// Several schedules at once: the product of their factors of the initial rate.
pub struct ChainedScheduler {
    schedules: Vec<Box<dyn Schedule>>,
}

impl ChainedScheduler {
    /// Combine these schedules.
    ///
    /// # Errors
    /// Fails with `Value` if the list is empty.
    pub fn new(schedules: Vec<Box<dyn Schedule>>) -> Result<ChainedScheduler> {
        if schedules.is_empty() {
            return Err(Error::value(
                "ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.",
            ));
        }
        Ok(ChainedScheduler { schedules })
    }
}

impl Schedule for ChainedScheduler {
    fn lr(&self, base: f64, step: u64) -> f64 {
        // Each schedule changes the rate of those before it.
        self.schedules.iter().fold(base, |lr, s| s.lr(lr, step))
    }
    fn momentum(&self, step: u64) -> Option<f64> {
        self.schedules.iter().filter_map(|s| s.momentum(step)).next_back()
    }
    fn check(&self, step: u64) -> Result<()> {
        self.schedules.iter().try_for_each(|s| s.check(step))
    }
}

/// Several schedules one after the other, each from its own start.
pub struct SequentialLR {
    schedules: Vec<Box<dyn Schedule>>,
    milestones: Vec<u64>,
}

impl SequentialLR {
    /// Combine schedules. `milestones` are the steps at which the second and later schedules begin.
    ///
    /// # Errors
    /// Fails with `Value` unless there is one milestone fewer than schedules, and milestones increase.
    pub fn new(schedules: Vec<Box<dyn Schedule>>, milestones: Vec<u64>) -> Result<SequentialLR> {
        if schedules.len() != milestones.len() + 1 {
            return Err(Error::value(format!(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of \
                milestone points, but got number of schedulers {} and the number of milestones to be equal to {}",
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

impl SequentialLR {
    /// Return the schedule of a step, and the step within it.
    fn at(&self, step: u64) -> (&dyn Schedule, u64) {
        let at = self.milestones.iter().filter(|&&m| m <= step).count();
        let start = if at == 0 { 0 } else { self.milestones[at - 1] };
        (&*self.schedules[at], step - start)
    }
}

impl Schedule for SequentialLR {
    fn lr(&self, base: f64, step: u64) -> f64 {
        let (schedule, step) = self.at(step);
        schedule.lr(base, step)
    }
    fn momentum(&self, step: u64) -> Option<f64> {
        let (schedule, step) = self.at(step);
        schedule.momentum(step)
    }
    fn check(&self, step: u64) -> Result<()> {
        let (schedule, step) = self.at(step);
        schedule.check(step)
    }
}

/// Lower the learning rate if a measure has not improved for several steps.
#[derive(Clone, Debug)]
pub struct ReduceLROnPlateau {
    /// Factor of a reduction.
    pub factor: f64,
    /// Number of steps without improvement that are tolerated.
    pub patience: u64,
    /// Smallest relative improvement that counts.
    pub threshold: f64,
    /// Number of steps to wait after a reduction.
    pub cooldown: u64,
    /// Lowest rate.
    pub min_lr: f64,
    /// Whether larger measures are better.
    pub maximize: bool,
    best: f64,
    bad: u64,
    waiting: u64,
    steps: u64,
}

impl ReduceLROnPlateau {
    /// Make a scheduler with PyTorch's defaults: a tenth after 10 steps without improvement. The measure should
    /// decrease, or increase with `maximize`.
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
            steps: 0,
        }
    }
    /// Record the measure, and lower the rate if it is due.
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
        self.steps += 1;
        if self.bad > self.patience {
            let lrs: Vec<f64> = optimizer
                .lrs()
                .into_iter()
                .map(|old| {
                    let new = (old * self.factor).max(self.min_lr);
                    if old - new > 1e-8 { new } else { old }
                })
                .collect();
            optimizer.set_lrs(&lrs);
            self.waiting = self.cooldown;
            self.bad = 0;
        }
    }
    /// Return the state as tensors: `best`, `num_bad_epochs`, `cooldown_counter` and `last_epoch`.
    ///
    /// # Errors
    /// Returns the errors of making tensors.
    pub fn state_dict(&self) -> Result<StateDict> {
        let count = |n: u64| Tensor::from_slice(&[n as i64], &[]);
        Ok(vec![
            ("best".into(), Tensor::from_slice(&[self.best], &[])?),
            ("num_bad_epochs".into(), count(self.bad)?),
            ("cooldown_counter".into(), count(self.waiting)?),
            ("last_epoch".into(), count(self.steps)?),
        ])
    }
    /// Load the result of [`ReduceLROnPlateau::state_dict`].
    ///
    /// # Errors
    /// Fails with `Value` if an entry is missing.
    pub fn load_state_dict(&mut self, state: &[(String, Tensor)]) -> Result<()> {
        let (best, bad) = (number(state, "best")?, number(state, "num_bad_epochs")?);
        let (waiting, steps) = (number(state, "cooldown_counter")?, number(state, "last_epoch")?);
        (self.best, self.bad, self.waiting, self.steps) = (best, bad as u64, waiting as u64, steps as u64);
        Ok(())
    }
}
