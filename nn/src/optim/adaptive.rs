//! RMSprop and Adagrad.

use super::{Optimizer, check, check_parameters, follow, step_each};
use crate::Parameter;
use torchtpu_tensor::{Result, Tensor};

/// Settings of [`RMSprop`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RMSpropOptions {
    /// Learning rate.
    pub lr: f64,
    /// How much of the mean of squares is kept.
    pub alpha: f64,
    /// Added to the root of the mean.
    pub eps: f64,
    /// Weight decay, added to the gradient.
    pub weight_decay: f64,
    /// How much of the last step is kept.
    pub momentum: f64,
    /// Divide by the deviation rather than by the root of the mean of squares.
    pub centered: bool,
    /// Ascend.
    pub maximize: bool,
}

impl Default for RMSpropOptions {
    fn default() -> RMSpropOptions {
        RMSpropOptions {
            lr: 1e-2,
            alpha: 0.99,
            eps: 1e-8,
            weight_decay: 0.0,
            momentum: 0.0,
            centered: false,
            maximize: false,
        }
    }
}

/// `x = x * keep + y`, in place.
fn blend(x: &Tensor, keep: f64, y: &Tensor) -> Result<()> {
    x.copy_(&x.mul_scalar(keep)?.add(y)?)?;
    Ok(())
}

/// The gradient to step against: its sign by `maximize`, with weight decay.
fn descent(p: &Tensor, g: Tensor, maximize: bool, weight_decay: f64) -> Result<Tensor> {
    let g = if maximize { g.neg()? } else { g };
    if weight_decay == 0.0 { Ok(g) } else { g.add(&p.mul_scalar(weight_decay)?) }
}

#[derive(Debug)]
struct Means {
    square: Tensor,
    gradient: Option<Tensor>,
    step: Option<Tensor>,
}

/// Steps scaled by a running mean of the squared gradient.
#[derive(Debug)]
pub struct RMSprop {
    parameters: Vec<Parameter>,
    options: RMSpropOptions,
    state: Vec<Option<Means>>,
}

impl RMSprop {
    /// An optimiser of these parameters.
    ///
    /// # Errors
    /// `Value`, in PyTorch's wording, for settings that make no sense.
    pub fn new(parameters: Vec<Parameter>, options: RMSpropOptions) -> Result<RMSprop> {
        let o = &options;
        check("learning rate", o.lr, o.lr >= 0.0)?;
        check("epsilon value", o.eps, o.eps >= 0.0)?;
        check("momentum value", o.momentum, o.momentum >= 0.0)?;
        check("weight_decay value", o.weight_decay, o.weight_decay >= 0.0)?;
        check("alpha value", o.alpha, o.alpha >= 0.0)?;
        check_parameters(&parameters)?;
        let state = parameters.iter().map(|_| None).collect();
        Ok(RMSprop { parameters, options, state })
    }
}

impl Optimizer for RMSprop {
    fn step(&mut self) -> Result<()> {
        let o = self.options;
        step_each(&self.parameters, &mut self.state, |p, g, state| {
            if state.is_none() {
                let zeros = |wanted: bool| wanted.then(|| Tensor::zeros_like_meta(p.meta())).transpose();
                *state = Some(Means {
                    square: Tensor::zeros_like_meta(p.meta())?,
                    gradient: zeros(o.centered)?,
                    step: zeros(o.momentum > 0.0)?,
                });
            }
            let s = state.as_mut().expect("made above");
            follow(&mut s.square, p)?;
            s.gradient.iter_mut().chain(&mut s.step).try_for_each(|t| follow(t, p))?;
            let g = descent(p, g, o.maximize, o.weight_decay)?;
            blend(&s.square, o.alpha, &g.square()?.mul_scalar(1.0 - o.alpha)?)?;
            let size = match &s.gradient {
                Some(mean) => {
                    blend(mean, o.alpha, &g.mul_scalar(1.0 - o.alpha)?)?;
                    s.square.sub(&mean.square()?)?.sqrt()?
                }
                None => s.square.sqrt()?,
            };
            let mut step = g.div(&size.add_scalar(o.eps)?)?;
            if let Some(last) = &s.step {
                blend(last, o.momentum, &step)?;
                step = last.clone();
            }
            p.sub_(&step.mul_scalar(o.lr)?).map(|_| ())
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

/// Settings of [`Adagrad`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdagradOptions {
    /// Learning rate.
    pub lr: f64,
    /// How the learning rate falls with the steps.
    pub lr_decay: f64,
    /// Weight decay, added to the gradient.
    pub weight_decay: f64,
    /// Where the sums of squares start.
    pub initial_accumulator_value: f64,
    /// Added to the root of the sum.
    pub eps: f64,
    /// Ascend.
    pub maximize: bool,
}

impl Default for AdagradOptions {
    fn default() -> AdagradOptions {
        AdagradOptions {
            lr: 1e-2,
            lr_decay: 0.0,
            weight_decay: 0.0,
            initial_accumulator_value: 0.0,
            eps: 1e-10,
            maximize: false,
        }
    }
}

/// Steps scaled by the sum of all squared gradients so far.
#[derive(Debug)]
pub struct Adagrad {
    parameters: Vec<Parameter>,
    options: AdagradOptions,
    /// Of each parameter, the sum of squares and the number of steps.
    state: Vec<(Tensor, u64)>,
}

impl Adagrad {
    /// An optimiser of these parameters.
    ///
    /// # Errors
    /// `Value`, in PyTorch's wording, for settings that make no sense.
    pub fn new(parameters: Vec<Parameter>, options: AdagradOptions) -> Result<Adagrad> {
        let o = &options;
        check("learning rate", o.lr, o.lr >= 0.0)?;
        check("lr_decay value", o.lr_decay, o.lr_decay >= 0.0)?;
        check("weight_decay value", o.weight_decay, o.weight_decay >= 0.0)?;
        check("initial_accumulator_value value", o.initial_accumulator_value, o.initial_accumulator_value >= 0.0)?;
        check("epsilon value", o.eps, o.eps >= 0.0)?;
        check_parameters(&parameters)?;
        let state = parameters
            .iter()
            .map(|p| Ok((Tensor::full_meta(p.tensor().meta(), o.initial_accumulator_value.into())?, 0)))
            .collect::<Result<_>>()?;
        Ok(Adagrad { parameters, options, state })
    }
}

impl Optimizer for Adagrad {
    fn step(&mut self) -> Result<()> {
        let o = self.options;
        step_each(&self.parameters, &mut self.state, |p, g, (sum, steps)| {
            follow(sum, p)?;
            *steps += 1;
            let g = descent(p, g, o.maximize, o.weight_decay)?;
            sum.add_(&g.square()?)?;
            let lr = o.lr / (1.0 + (*steps - 1) as f64 * o.lr_decay);
            p.sub_(&g.div(&sum.sqrt()?.add_scalar(o.eps)?)?.mul_scalar(lr)?).map(|_| ())
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
