//! RMSprop and Adagrad.

use super::groups::{Groups, ParameterState, Settings, Slot};
use super::{Optimizer, OptimizerState, ParamGroup, Setting, check, optimizer};
use crate::Parameter;
use torchtpu_tensor::{Result, Tensor};

/// Settings of [`RMSprop`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RMSpropOptions {
    /// Learning rate.
    pub lr: f64,
    /// Share of the mean of squared gradients that is kept per step.
    pub alpha: f64,
    /// Number added to the square root of the mean.
    pub eps: f64,
    /// Weight decay, added to the gradient.
    pub weight_decay: f64,
    /// Share of the last step that is kept.
    pub momentum: f64,
    /// Whether to divide by the standard deviation instead of the root of the mean of squared gradients.
    pub centered: bool,
    /// Whether to ascend instead of descend.
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

/// Compute `x = x * keep + y` in place.
fn blend(x: &Tensor, keep: f64, y: &Tensor) -> Result<()> {
    x.copy_(&x.mul_scalar(keep)?.add(y)?)?;
    Ok(())
}

/// Return the gradient to descend along: negated if `maximize`, with weight decay.
fn descent(p: &Tensor, g: Tensor, maximize: bool, weight_decay: f64) -> Result<Tensor> {
    let g = if maximize { g.neg()? } else { g };
    if weight_decay == 0.0 { Ok(g) } else { g.add(&p.mul_scalar(weight_decay)?) }
}

impl Settings for RMSpropOptions {
    const STATE: &'static [&'static str] = &["square_avg", "momentum_buffer", "grad_avg"];
    const COUNTS: bool = true;
    fn check(&self) -> Result<()> {
        check("learning rate", self.lr, self.lr >= 0.0)?;
        check("epsilon value", self.eps, self.eps >= 0.0)?;
        check("momentum value", self.momentum, self.momentum >= 0.0)?;
        check("weight_decay value", self.weight_decay, self.weight_decay >= 0.0)?;
        check("alpha value", self.alpha, self.alpha >= 0.0)
    }
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        vec![
            ("lr", Slot::Number(&mut self.lr)),
            ("momentum", Slot::Number(&mut self.momentum)),
            ("alpha", Slot::Number(&mut self.alpha)),
            ("eps", Slot::Number(&mut self.eps)),
            ("centered", Slot::Flag(&mut self.centered)),
            ("weight_decay", Slot::Number(&mut self.weight_decay)),
            ("maximize", Slot::Flag(&mut self.maximize)),
        ]
    }
}

impl RMSpropOptions {
    fn update(&self, p: &Tensor, g: Tensor, state: &mut Option<ParameterState>) -> Result<()> {
        let s = state.get_or_insert_with(|| ParameterState::new(vec![None; 3]));
        let wanted = [true, self.momentum > 0.0, self.centered];
        for (t, wanted) in s.tensors.iter_mut().zip(wanted) {
            if t.is_none() && wanted {
                *t = Some(Tensor::zeros_like_meta(p.meta())?);
            }
        }
        s.steps += 1;
        let [Some(square), last, mean] = &s.tensors[..] else { unreachable!("filled above") };
        let g = descent(p, g, self.maximize, self.weight_decay)?;
        blend(square, self.alpha, &g.square()?.mul_scalar(1.0 - self.alpha)?)?;
        let size = match mean.as_ref().filter(|_| self.centered) {
            Some(mean) => {
                blend(mean, self.alpha, &g.mul_scalar(1.0 - self.alpha)?)?;
                square.sub(&mean.square()?)?.sqrt()?
            }
            None => square.sqrt()?,
        };
        let mut step = g.div(&size.add_scalar(self.eps)?)?;
        if let Some(last) = last.as_ref().filter(|_| self.momentum > 0.0) {
            blend(last, self.momentum, &step)?;
            step = last.clone();
        }
        p.sub_(&step.mul_scalar(self.lr)?).map(|_| ())
    }
}

optimizer! {
    /// Steps scaled by a running mean of the squared gradient.
    RMSprop, RMSpropOptions, RMSpropOptions
}

/// Settings of [`Adagrad`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdagradOptions {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the learning rate with the number of steps.
    pub lr_decay: f64,
    /// Weight decay, added to the gradient.
    pub weight_decay: f64,
    /// Initial value of the sums of squared gradients.
    pub initial_accumulator_value: f64,
    /// Number added to the square root of the sum.
    pub eps: f64,
    /// Whether to ascend instead of descend.
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

impl Settings for AdagradOptions {
    const STATE: &'static [&'static str] = &["sum"];
    const COUNTS: bool = true;
    fn check(&self) -> Result<()> {
        let start = self.initial_accumulator_value;
        check("learning rate", self.lr, self.lr >= 0.0)?;
        check("lr_decay value", self.lr_decay, self.lr_decay >= 0.0)?;
        check("weight_decay value", self.weight_decay, self.weight_decay >= 0.0)?;
        check("initial_accumulator_value value", start, start >= 0.0)?;
        check("epsilon value", self.eps, self.eps >= 0.0)
    }
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        vec![
            ("lr", Slot::Number(&mut self.lr)),
            ("lr_decay", Slot::Number(&mut self.lr_decay)),
            ("eps", Slot::Number(&mut self.eps)),
            ("weight_decay", Slot::Number(&mut self.weight_decay)),
            ("initial_accumulator_value", Slot::Number(&mut self.initial_accumulator_value)),
            ("maximize", Slot::Flag(&mut self.maximize)),
        ]
    }
    fn initial_state(&self, p: &Tensor) -> Result<Option<ParameterState>> {
        let sum = Tensor::full_meta(p.meta(), self.initial_accumulator_value.into())?;
        Ok(Some(ParameterState::new(vec![Some(sum)])))
    }
}

impl AdagradOptions {
    fn update(&self, p: &Tensor, g: Tensor, state: &mut Option<ParameterState>) -> Result<()> {
        // A state dictionary may lack the sum.
        if state.as_ref().is_none_or(|s| s.tensors[0].is_none()) {
            *state = self.initial_state(p)?;
        }
        let s = state.as_mut().expect("made above");
        s.steps += 1;
        let sum = s.tensors[0].as_ref().expect("made above");
        let g = descent(p, g, self.maximize, self.weight_decay)?;
        sum.add_(&g.square()?)?;
        let lr = self.lr / (1.0 + (s.steps - 1) as f64 * self.lr_decay);
        p.sub_(&g.div(&sum.sqrt()?.add_scalar(self.eps)?)?.mul_scalar(lr)?).map(|_| ())
    }
}

optimizer! {
    /// Steps scaled by the sum of all squared gradients so far.
    Adagrad, AdagradOptions, AdagradOptions
}
