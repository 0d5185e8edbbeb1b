//! Learning rates that change from epoch to epoch.
//!
//! A [`Schedule`] says what the rate is after a number of steps; a [`Scheduler`] counts the steps and tells the optimiser.
//! Rates are those of PyTorch's schedulers of the same names.

use super::{Optimizer, Setting, groups};
use crate::StateDict;
use parking_lot::Mutex;
use std::f64::consts::PI;
use torchtpu_tensor::{Error, Result, Tensor};

/// The learning rate after a number of steps.
pub trait Schedule {
    /// The rate after `step` steps, where `base` is the one that the optimiser began with.
    fn lr(&self, base: f64, step: u64) -> f64;
    /// The momentum after `step` steps, of a schedule that cycles it too.
    fn momentum(&self, _step: u64) -> Option<f64> {
        None
    }
    /// Refuses a step that the schedule does not have.
    ///
    /// # Errors
    /// `Value` past the end.
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

/// Sets the learning rates of an optimiser's groups by a schedule, each from the rate that its group began with.
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
    /// A scheduler that has taken no step; it sets the first rates. The rate that a group began with is kept as its setting
    /// `initial_lr`, from which a second scheduler starts too.
    ///
    /// # Errors
    /// `Value` when the schedule cycles momentum and the optimiser has none.
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
    /// Counts a step and sets the rates.
    ///
    /// # Errors
    /// `Value`, in PyTorch's wording, past the end of a schedule that has one; the step is not counted then.
    pub fn step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        self.schedule.check(self.steps + 1)?;
        self.steps += 1;
        self.apply(optimizer)
    }
    /// Steps counted so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }
    /// What the scheduler has counted, as tensors that [`safetensors`](crate::safetensors) can write: `last_epoch` and
    /// `base_lrs`. What the schedule was made of is not in it.
    ///
    /// # Errors
    /// Whatever making tensors reports.
    pub fn state_dict(&self) -> Result<StateDict> {
        Ok(vec![
            ("last_epoch".into(), Tensor::from_slice(&[self.steps as i64], &[])?),
            ("base_lrs".into(), Tensor::from_slice(&self.bases, &[self.bases.len()])?),
        ])
    }
    /// Takes over what [`Scheduler::state_dict`] gave. The optimiser's rates are in the state of the optimiser.
    ///
    /// # Errors
    /// `Value` when something is missing.
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

/// From one factor of the first rate, held for some steps, to the first rate itself.
#[derive(Clone, Copy, Debug)]
pub struct ConstantLR {
    /// The factor.
    pub factor: f64,
    /// Steps for which it holds.
    pub total_iters: u64,
}

impl Schedule for ConstantLR {
    fn lr(&self, base: f64, step: u64) -> f64 {
        if step < self.total_iters { base * self.factor } else { base }
    }
}

/// Down to nothing along a power of the steps that are left.
#[derive(Clone, Copy, Debug)]
pub struct PolynomialLR {
    /// Steps to the end.
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

/// Times what a function of the step gives, at every step after the first.
pub struct MultiplicativeLR<F> {
    factor: F,
    /// The product of the factors up to a step.
    known: Mutex<(u64, f64)>,
}

impl<F: Fn(u64) -> f64> MultiplicativeLR<F> {
    /// By a function of the number of steps.
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

/// Half a wave of the cosine down to `eta_min`, again and again, each time from the first rate and for longer.
#[derive(Clone, Copy, Debug)]
pub struct CosineAnnealingWarmRestarts {
    t_0: u64,
    t_mult: u64,
    eta_min: f64,
}

impl CosineAnnealingWarmRestarts {
    /// Waves of `t_0` steps, of `t_mult` times as many, and so on.
    ///
    /// # Errors
    /// `Value`, in PyTorch's wording, when one of them is zero.
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
    /// Not at all.
    Triangular,
    /// It halves from cycle to cycle.
    Triangular2,
    /// Times `gamma` every step.
    ExpRange,
}

/// Up and down between two rates in triangles, and momentum down and up.
#[derive(Clone, Copy, Debug)]
pub struct CyclicLR {
    /// The lowest rate.
    pub base_lr: f64,
    /// The highest rate.
    pub max_lr: f64,
    /// Steps up.
    pub step_size_up: u64,
    /// Steps down.
    pub step_size_down: u64,
    /// How the height changes.
    pub mode: CyclicMode,
    /// The factor of [`CyclicMode::ExpRange`].
    pub gamma: f64,
    /// Momentum at the highest and at the lowest rate; without it momentum is left alone.
    pub momentum: Option<(f64, f64)>,
}

impl CyclicLR {
    /// Cycles with PyTorch's defaults.
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
    /// How far up the triangle a step is, times the height of the triangle.
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

/// Up from `max_lr / div_factor` to `max_lr` and down to a small part of where it began, by cosines; momentum goes the other
/// way.
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
    /// Straight lines instead of cosines.
    pub linear: bool,
    /// Go down to the first rate as fast as up, and from there to the last.
    pub three_phase: bool,
    /// Momentum at the top and at both ends; without it momentum is left alone.
    pub momentum: Option<(f64, f64)>,
}

impl OneCycleLR {
    /// A cycle with PyTorch's defaults.
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
    /// A value that is `first` at the start, `top` at the top and `last` at the end.
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

/// Several schedules at once: the product of their factors of the first rate.
pub struct ChainedScheduler {
    schedules: Vec<Box<dyn Schedule>>,
}

impl ChainedScheduler {
    /// Of these schedules.
    ///
    /// # Errors
    /// `Value` when there are none.
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
        // Each sees what those before it made of the rate.
        self.schedules.iter().fold(base, |lr, s| s.lr(lr, step))
    }
    fn momentum(&self, step: u64) -> Option<f64> {
        self.schedules.iter().filter_map(|s| s.momentum(step)).next_back()
    }
    fn check(&self, step: u64) -> Result<()> {
        self.schedules.iter().try_for_each(|s| s.check(step))
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
    /// The schedule of a step, and the step within it.
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
    steps: u64,
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
            steps: 0,
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
    /// What has been noted so far, as tensors: `best`, `num_bad_epochs`, `cooldown_counter` and `last_epoch`.
    ///
    /// # Errors
    /// Whatever making tensors reports.
    pub fn state_dict(&self) -> Result<StateDict> {
        let count = |n: u64| Tensor::from_slice(&[n as i64], &[]);
        Ok(vec![
            ("best".into(), Tensor::from_slice(&[self.best], &[])?),
            ("num_bad_epochs".into(), count(self.bad)?),
            ("cooldown_counter".into(), count(self.waiting)?),
            ("last_epoch".into(), count(self.steps)?),
        ])
    }
    /// Takes over what [`ReduceLROnPlateau::state_dict`] gave.
    ///
    /// # Errors
    /// `Value` when something is missing.
    pub fn load_state_dict(&mut self, state: &[(String, Tensor)]) -> Result<()> {
        let (best, bad) = (number(state, "best")?, number(state, "num_bad_epochs")?);
        let (waiting, steps) = (number(state, "cooldown_counter")?, number(state, "last_epoch")?);
        (self.best, self.bad, self.waiting, self.steps) = (best, bad as u64, waiting as u64, steps as u64);
        Ok(())
    }
}
