//! Optimisers.
//!
//! A step is one fused op a parameter: one kernel on `cpu`, one node of the trace on `tpu`, where learning rate and step
//! count are operands, so that changing them compiles nothing. At its end the device hears that a training step is over.

mod adaptive;
mod clip;
mod schedule;

pub use adaptive::{Adagrad, AdagradOptions, RMSprop, RMSpropOptions};
pub use clip::{clip_grad_norm, clip_grad_value, clip_grads_with_norm, get_total_norm};
pub use schedule::{
    CosineAnnealingLR, ExponentialLR, LambdaLR, LinearLR, MultiStepLR, OneCycleLR, ReduceLROnPlateau, Schedule,
    Scheduler, SequentialLR, StepLR,
};

use crate::Parameter;
use std::fmt::Debug;
use torchtpu_tensor::ops::optim as ops;
use torchtpu_tensor::{DType, Device, DeviceKind, Error, Result, Tensor, backend, no_grad};

/// Changes parameters by their gradients.
pub trait Optimizer {
    /// Changes every parameter that has a gradient.
    ///
    /// # Errors
    /// When a parameter and its gradient do not fit, or the device reports an error.
    fn step(&mut self) -> Result<()>;
    /// The parameters.
    fn parameters(&self) -> &[Parameter];
    /// The learning rate.
    fn lr(&self) -> f64;
    /// Chooses the learning rate from the next step on.
    fn set_lr(&mut self, lr: f64);
    /// Drops all gradients.
    ///
    /// # Errors
    /// `Runtime` when a parameter is no leaf.
    fn zero_grad(&self) -> Result<()> {
        self.parameters().iter().try_for_each(|p| p.tensor().set_grad(None))
    }
}

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

/// A step: updates every parameter that has a gradient, by it and the parameter's state.
fn step_each<S>(
    parameters: &[Parameter],
    states: &mut [S],
    mut update: impl FnMut(&Tensor, Tensor, &mut S) -> Result<()>,
) -> Result<()> {
    no_grad(|| {
        for (p, state) in parameters.iter().zip(states) {
            let p = p.tensor();
            if let Some(g) = p.grad() {
                update(&p, g, state)?;
            }
        }
        if parameters.iter().any(|p| p.tensor().device().kind == DeviceKind::Tpu) {
            backend::get()?.step_boundary();
        }
        Ok(())
    })
}

/// Puts state where its parameter is, should the module have been moved.
fn follow(state: &mut Tensor, p: &Tensor) -> Result<()> {
    if state.device() != p.device() {
        *state = state.to_device(p.device())?;
    }
    Ok(())
}

/// Settings of [`Sgd`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SgdOptions {
    /// Learning rate.
    pub lr: f64,
    /// How much of the last step's direction is kept.
    pub momentum: f64,
    /// How much of a new gradient the momentum leaves out.
    pub dampening: f64,
    /// Weight decay, added to the gradient.
    pub weight_decay: f64,
    /// Nesterov's momentum.
    pub nesterov: bool,
    /// Ascend.
    pub maximize: bool,
}

impl Default for SgdOptions {
    fn default() -> SgdOptions {
        SgdOptions { lr: 1e-3, momentum: 0.0, dampening: 0.0, weight_decay: 0.0, nesterov: false, maximize: false }
    }
}

/// Stochastic gradient descent, with momentum.
#[derive(Debug)]
pub struct Sgd {
    parameters: Vec<Parameter>,
    options: SgdOptions,
    buffers: Vec<Option<Tensor>>,
}

impl Sgd {
    /// An optimiser of these parameters.
    ///
    /// # Errors
    /// `Value`, in PyTorch's wording, for settings that make no sense.
    pub fn new(parameters: Vec<Parameter>, options: SgdOptions) -> Result<Sgd> {
        let o = &options;
        check("learning rate", o.lr, o.lr >= 0.0)?;
        check("momentum value", o.momentum, o.momentum >= 0.0)?;
        check("weight_decay value", o.weight_decay, o.weight_decay >= 0.0)?;
        if o.nesterov && (o.momentum <= 0.0 || o.dampening != 0.0) {
            return Err(Error::value("Nesterov momentum requires a momentum and zero dampening"));
        }
        check_parameters(&parameters)?;
        Ok(Sgd { buffers: vec![None; parameters.len()], parameters, options })
    }
}

impl Optimizer for Sgd {
    fn step(&mut self) -> Result<()> {
        let o = self.options;
        step_each(&self.parameters, &mut self.buffers, |p, g, buffer| {
            let first = buffer.is_none();
            if o.momentum != 0.0 {
                match buffer {
                    Some(b) => follow(b, p)?,
                    None => *buffer = Some(Tensor::zeros_like_meta(p.meta())?),
                }
            }
            let args = ops::SgdArgs {
                weight_decay: o.weight_decay,
                momentum: o.momentum,
                lr: o.lr,
                dampening: o.dampening,
                nesterov: o.nesterov,
                maximize: o.maximize,
                first: first && o.momentum != 0.0,
            };
            ops::sgd(p, &g, buffer.as_ref(), &args)
        })
    }
    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }
    fn lr(&self) -> f64 {
        self.options.lr
    }
    fn set_lr(&mut self, lr: f64) {
        self.options.lr = lr;
    }
}

/// Settings of [`Adam`] and [`AdamW`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdamOptions {
    /// Learning rate.
    pub lr: f64,
    /// How slowly the means of gradients and of their squares move.
    pub betas: (f64, f64),
    /// Added to the root of the mean of squares.
    pub eps: f64,
    /// Weight decay: of `AdamW` on the parameter, of `Adam` on the gradient.
    pub weight_decay: f64,
    /// Divide by the largest mean of squares so far.
    pub amsgrad: bool,
    /// Ascend.
    pub maximize: bool,
}

impl AdamOptions {
    /// PyTorch's defaults of `Adam`: no weight decay.
    pub fn adam() -> AdamOptions {
        AdamOptions { lr: 1e-3, betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.0, amsgrad: false, maximize: false }
    }
    /// PyTorch's defaults of `AdamW`: a weight decay of 0.01.
    pub fn adamw() -> AdamOptions {
        AdamOptions { weight_decay: 1e-2, ..AdamOptions::adam() }
    }
}

/// State of one parameter.
#[derive(Debug)]
struct Moments {
    steps: u64,
    mean: Tensor,
    square: Tensor,
    largest: Option<Tensor>,
}

#[derive(Debug)]
struct AdamFamily {
    parameters: Vec<Parameter>,
    options: AdamOptions,
    state: Vec<Option<Moments>>,
    decoupled: bool,
}

impl AdamFamily {
    fn new(parameters: Vec<Parameter>, options: AdamOptions, decoupled: bool) -> Result<AdamFamily> {
        let o = &options;
        check("learning rate", o.lr, o.lr >= 0.0)?;
        check("epsilon value", o.eps, o.eps >= 0.0)?;
        check("beta parameter at index 0", o.betas.0, (0.0..1.0).contains(&o.betas.0))?;
        check("beta parameter at index 1", o.betas.1, (0.0..1.0).contains(&o.betas.1))?;
        check("weight_decay value", o.weight_decay, o.weight_decay >= 0.0)?;
        check_parameters(&parameters)?;
        let state = parameters.iter().map(|_| None).collect();
        Ok(AdamFamily { parameters, options, state, decoupled })
    }

    fn step(&mut self) -> Result<()> {
        let o = self.options;
        let args = ops::AdamArgs {
            lr: o.lr,
            beta1: o.betas.0,
            beta2: o.betas.1,
            weight_decay: o.weight_decay,
            eps: o.eps,
            amsgrad: o.amsgrad,
            maximize: o.maximize,
            decoupled: self.decoupled,
        };
        step_each(&self.parameters, &mut self.state, |p, g, state| {
            if state.is_none() {
                let zeros = || Tensor::zeros_like_meta(p.meta());
                let largest = if o.amsgrad { Some(zeros()?) } else { None };
                *state = Some(Moments { steps: 0, mean: zeros()?, square: zeros()?, largest });
            }
            let s = state.as_mut().expect("made above");
            follow(&mut s.mean, p)?;
            follow(&mut s.square, p)?;
            s.largest.iter_mut().try_for_each(|t| follow(t, p))?;
            s.steps += 1;
            let step = Tensor::full(&[], s.steps as f64, DType::F32, Device::CPU)?;
            let state = ops::AdamState {
                exp_avg: &s.mean,
                exp_avg_sq: &s.square,
                max_exp_avg_sq: s.largest.as_ref(),
                step: &step,
            };
            ops::adam(p, &g, &state, &args)
        })
    }
}

/// The two optimisers of the family differ in how weights decay only.
macro_rules! adam_optimizer {
    ($(#[$doc:meta])* $name:ident, $decoupled:literal) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name(AdamFamily);

        impl $name {
            /// An optimiser of these parameters.
            ///
            /// # Errors
            /// `Value`, in PyTorch's wording, for settings that make no sense.
            pub fn new(parameters: Vec<Parameter>, options: AdamOptions) -> Result<$name> {
                AdamFamily::new(parameters, options, $decoupled).map($name)
            }
        }

        impl Optimizer for $name {
            fn step(&mut self) -> Result<()> {
                self.0.step()
            }
            fn parameters(&self) -> &[Parameter] {
                &self.0.parameters
            }
            fn lr(&self) -> f64 {
                self.0.options.lr
            }
            fn set_lr(&mut self, lr: f64) {
                self.0.options.lr = lr;
            }
        }
    };
}

adam_optimizer! {
    /// Steps scaled by running means of the gradient and of its square.
    Adam, false
}
adam_optimizer! {
    /// [`Adam`] with weight decay on the parameters themselves.
    AdamW, true
}
