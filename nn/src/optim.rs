//! Optimisers.
//!
//! A step is one fused op per parameter: one kernel on `cpu`, and one node of the trace on `tpu`. Learning rate and
//! step count are operands of that node, so changing them compiles nothing. At the end of a step, the optimiser
//! notifies the device that a training step is over.

mod adaptive;
mod clip;
mod groups;
mod schedule;

pub use adaptive::{Adagrad, AdagradOptions, RMSprop, RMSpropOptions};
pub use clip::{clip_grad_norm, clip_grad_value, clip_grads_with_norm, get_total_norm};
pub use groups::{OptimizerState, ParamGroup, Setting};
pub use schedule::{
    ChainedScheduler, ConstantLR, CosineAnnealingLR, CosineAnnealingWarmRestarts, CyclicLR, CyclicMode, ExponentialLR,
    LambdaLR, LinearLR, MultiStepLR, MultiplicativeLR, OneCycleLR, PolynomialLR, ReduceLROnPlateau, Schedule,
    Scheduler, SequentialLR, StepLR,
};

use crate::Parameter;
use groups::{Groups, ParameterState, Settings, Slot};
use std::fmt::Debug;
use torchtpu_tensor::ops::optim as ops;
use torchtpu_tensor::{DType, Device, Error, Result, Tensor};

/// Update parameters by their gradients.
///
/// Parameters are in groups with their own settings. The constructor makes the first group, and `add_param_group` adds
/// others.
pub trait Optimizer {
    /// Update every parameter that has a gradient.
    ///
    /// # Errors
    /// Fails if a parameter and its gradient do not fit, or the device reports an error.
    fn step(&mut self) -> Result<()>;
    /// Return the parameters of all groups.
    fn parameters(&self) -> &[Parameter];
    /// Return the groups and their settings.
    fn param_groups(&self) -> Vec<ParamGroup>;
    /// Change a setting of a group from the next step on. `name` is PyTorch's: `lr`, `momentum`, `betas`.
    ///
    /// # Errors
    /// Fails with `Index` if there is no such group. Fails with `Value` or `Type` if there is no such setting or it has
    /// another type.
    fn set(&mut self, group: usize, name: &str, value: Setting) -> Result<()>;
    /// Return settings and state, from which another optimiser of equal parameters can continue. Its tensors are
    /// copies.
    ///
    /// # Errors
    /// Returns the error that the device reports.
    fn state_dict(&self) -> Result<OptimizerState>;
    /// Load the result of [`Optimizer::state_dict`]. Tensors are copied to the devices of the parameters.
    ///
    /// # Errors
    /// Fails with `Value`, in PyTorch's wording, if groups or sizes do not fit. The optimiser is then unchanged.
    fn load_state_dict(&mut self, state: &OptimizerState) -> Result<()>;
    /// Return the learning rate of the first group.
    fn lr(&self) -> f64 {
        self.lrs()[0]
    }
    /// Set one learning rate for all groups, from the next step on.
    fn set_lr(&mut self, lr: f64) {
        let all = vec![lr; self.param_groups().len()];
        self.set_lrs(&all);
    }
    /// Return the learning rates of the groups.
    fn lrs(&self) -> Vec<f64> {
        groups::numbers(self, "lr").into_iter().map(|lr| lr.expect("every group has a learning rate")).collect()
    }
    /// Set the learning rates of the groups, from the next step on. Groups beyond the list keep theirs.
    fn set_lrs(&mut self, lrs: &[f64]) {
        let count = self.param_groups().len();
        for (i, &lr) in lrs.iter().enumerate().take(count) {
            self.set(i, "lr", Setting::Number(lr)).expect("every group has a learning rate");
        }
    }
    /// Drop all gradients.
    ///
    /// # Errors
    /// Fails with `Runtime` if a parameter is not a leaf.
    fn zero_grad(&self) -> Result<()> {
        self.parameters().iter().try_for_each(|p| p.tensor().set_grad(None))
    }
}

/// Define an optimiser of groups from a method `update`.
macro_rules! optimizer {
    ($(#[$doc:meta])* $name:ident, $options:ident, $settings:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name(Groups<$settings>);

        impl $name {
            /// Make an optimiser of these parameters.
            ///
            /// # Errors
            /// Fails with `Value`, in PyTorch's wording, for invalid settings.
            pub fn new(parameters: Vec<Parameter>, options: $options) -> Result<$name> {
                Groups::new(parameters, options.into()).map($name)
            }
            /// Add parameters with their own settings.
            ///
            /// # Errors
            /// Fails like `new`, and with `Value` for a parameter that is already in a group.
            pub fn add_param_group(&mut self, parameters: Vec<Parameter>, options: $options) -> Result<()> {
                self.0.add(parameters, options.into())
            }
        }

        impl Optimizer for $name {
            fn step(&mut self) -> Result<()> {
                self.0.step(|o, p, g, state| o.update(p, g, state))
            }
            fn parameters(&self) -> &[Parameter] {
                self.0.parameters()
            }
            fn param_groups(&self) -> Vec<ParamGroup> {
                self.0.param_groups()
            }
            fn set(&mut self, group: usize, name: &str, value: Setting) -> Result<()> {
                self.0.set(group, name, value)
            }
            fn state_dict(&self) -> Result<OptimizerState> {
                self.0.state_dict()
            }
            fn load_state_dict(&mut self, state: &OptimizerState) -> Result<()> {
                self.0.load_state_dict(state)
            }
        }
    };
}
use optimizer;

fn check(what: &str, value: impl Debug, ok: bool) -> Result<()> {
    if ok { Ok(()) } else { Err(Error::value(format!("Invalid {what}: {value:?}"))) }
}

fn check_parameters(p: &[Parameter]) -> Result<()> {
    if p.is_empty() {
        return Err(Error::value("optimizer got an empty parameter list"));
    }
    if (1..p.len()).any(|i| p[..i].iter().any(|q| q.is_same(&p[i]))) {
        return Err(Error::value("some parameters appear in more than one parameter group"));
    }
    Ok(())
}

/// Move state to the device of its parameter, in case the module was moved.
fn follow_parameter(state: &mut Tensor, p: &Tensor) -> Result<()> {
    if state.place() != p.place() {
        *state = state.to_device(p.place())?;
    }
    Ok(())
}

/// Settings of [`Sgd`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SgdOptions {
    /// Learning rate.
    pub lr: f64,
    /// Share of the last step's direction that is kept.
    pub momentum: f64,
    /// Share of a new gradient that is not added to the momentum.
    pub dampening: f64,
    /// Weight decay, added to the gradient.
    pub weight_decay: f64,
    /// Whether to use Nesterov's momentum.
    pub nesterov: bool,
    /// Whether to ascend instead of descend.
    pub maximize: bool,
}

impl Default for SgdOptions {
    fn default() -> SgdOptions {
        SgdOptions { lr: 1e-3, momentum: 0.0, dampening: 0.0, weight_decay: 0.0, nesterov: false, maximize: false }
    }
}

impl Settings for SgdOptions {
    const STATE: &'static [&'static str] = &["momentum_buffer"];
    const COUNTS: bool = false;
    fn check(&self) -> Result<()> {
        check("learning rate", self.lr, self.lr >= 0.0)?;
        check("momentum value", self.momentum, self.momentum >= 0.0)?;
        check("weight_decay value", self.weight_decay, self.weight_decay >= 0.0)?;
        if self.nesterov && (self.momentum <= 0.0 || self.dampening != 0.0) {
            return Err(Error::value("Nesterov momentum requires a momentum and zero dampening"));
        }
        Ok(())
    }
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        vec![
            ("lr", Slot::Number(&mut self.lr)),
            ("momentum", Slot::Number(&mut self.momentum)),
            ("dampening", Slot::Number(&mut self.dampening)),
            ("weight_decay", Slot::Number(&mut self.weight_decay)),
            ("nesterov", Slot::Flag(&mut self.nesterov)),
            ("maximize", Slot::Flag(&mut self.maximize)),
        ]
    }
}

impl SgdOptions {
    fn update(&self, p: &Tensor, g: Tensor, state: &mut Option<ParameterState>) -> Result<()> {
        let first = self.momentum != 0.0 && state.as_ref().is_none_or(|s| s.tensors[0].is_none());
        if first {
            *state = Some(ParameterState::new(vec![Some(Tensor::zeros_like_meta(p.meta())?)]));
        }
        let buffer = state.as_ref().and_then(|s| s.tensors[0].as_ref()).filter(|_| self.momentum != 0.0);
        let args = ops::SgdArgs {
            weight_decay: self.weight_decay,
            momentum: self.momentum,
            lr: self.lr,
            dampening: self.dampening,
            nesterov: self.nesterov,
            maximize: self.maximize,
            first,
        };
        ops::sgd(p, &g, buffer, &args)
    }
}

optimizer! {
    /// Stochastic gradient descent, with momentum.
    Sgd, SgdOptions, SgdOptions
}

/// Settings of [`Adam`] and [`AdamW`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdamOptions {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the means of gradients and of squared gradients per step.
    pub betas: (f64, f64),
    /// Number added to the square root of the mean of squared gradients.
    pub eps: f64,
    /// Weight decay. `AdamW` applies it to the parameter, and `Adam` adds it to the gradient.
    pub weight_decay: f64,
    /// Whether to divide by the largest mean of squared gradients so far.
    pub amsgrad: bool,
    /// Whether to ascend instead of descend.
    pub maximize: bool,
}

impl AdamOptions {
    /// Return PyTorch's defaults of `Adam`: no weight decay.
    pub fn adam() -> AdamOptions {
        AdamOptions { lr: 1e-3, betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.0, amsgrad: false, maximize: false }
    }
    /// Return PyTorch's defaults of `AdamW`: a weight decay of 0.01.
    pub fn adamw() -> AdamOptions {
        AdamOptions { weight_decay: 1e-2, ..AdamOptions::adam() }
    }
}

/// Settings of both optimisers. `DECOUPLED` chooses the weight decay of `AdamW`.
#[derive(Clone, Copy, Debug)]
struct AdamFamily<const DECOUPLED: bool>(AdamOptions);

impl<const DECOUPLED: bool> From<AdamOptions> for AdamFamily<DECOUPLED> {
    fn from(o: AdamOptions) -> Self {
        AdamFamily(o)
    }
}

impl<const DECOUPLED: bool> Settings for AdamFamily<DECOUPLED> {
    const STATE: &'static [&'static str] = &["exp_avg", "exp_avg_sq", "max_exp_avg_sq"];
    const COUNTS: bool = true;
    fn check(&self) -> Result<()> {
        let o = &self.0;
        check("learning rate", o.lr, o.lr >= 0.0)?;
        check("epsilon value", o.eps, o.eps >= 0.0)?;
        check("beta parameter at index 0", o.betas.0, (0.0..1.0).contains(&o.betas.0))?;
        check("beta parameter at index 1", o.betas.1, (0.0..1.0).contains(&o.betas.1))?;
        check("weight_decay value", o.weight_decay, o.weight_decay >= 0.0)
    }
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        let o = &mut self.0;
        vec![
            ("lr", Slot::Number(&mut o.lr)),
            ("betas", Slot::Pair(&mut o.betas)),
            ("eps", Slot::Number(&mut o.eps)),
            ("weight_decay", Slot::Number(&mut o.weight_decay)),
            ("amsgrad", Slot::Flag(&mut o.amsgrad)),
            ("maximize", Slot::Flag(&mut o.maximize)),
        ]
    }
}

impl<const DECOUPLED: bool> AdamFamily<DECOUPLED> {
    fn update(&self, p: &Tensor, g: Tensor, state: &mut Option<ParameterState>) -> Result<()> {
        let o = &self.0;
        let zeros = || Tensor::zeros_like_meta(p.meta());
        let s = state.get_or_insert_with(|| ParameterState::new(vec![None; 3]));
        for (i, t) in s.tensors.iter_mut().enumerate() {
            if t.is_none() && (i < 2 || o.amsgrad) {
                *t = Some(zeros()?);
            }
        }
        s.steps += 1;
        let step = Tensor::full(&[], s.steps as f64, DType::F32, Device::CPU)?;
        let [Some(exp_avg), Some(exp_avg_sq), largest] = &s.tensors[..] else { unreachable!("filled above") };
        let state =
            ops::AdamState { exp_avg, exp_avg_sq, max_exp_avg_sq: largest.as_ref().filter(|_| o.amsgrad), step: &step };
        let args = ops::AdamArgs {
            lr: o.lr,
            beta1: o.betas.0,
            beta2: o.betas.1,
            weight_decay: o.weight_decay,
            eps: o.eps,
            amsgrad: o.amsgrad,
            maximize: o.maximize,
            decoupled: DECOUPLED,
        };
        ops::adam(p, &g, &state, &args)
    }
}

type Coupled = AdamFamily<false>;
type Decoupled = AdamFamily<true>;

optimizer! {
    /// Adam: steps scaled by running means of the gradient and of its square.
    Adam, AdamOptions, Coupled
}
optimizer! {
    /// Like [`Adam`], with weight decay on the parameters themselves.
    AdamW, AdamOptions, Decoupled
}
