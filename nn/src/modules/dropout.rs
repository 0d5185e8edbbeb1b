//! Dropout.

use crate::{Module, Training, Visitor};
use torchtpu_tensor::ops::dropout::dropout;
use torchtpu_tensor::{Error, Result, Tensor};

/// In training zeroes each element with a probability and scales the others up.
#[derive(Debug)]
pub struct Dropout {
    p: f64,
    training: Training,
}

impl Dropout {
    /// A layer that drops with probability `p`.
    ///
    /// # Errors
    /// `Value` when that is no probability.
    pub fn new(p: f64) -> Result<Dropout> {
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::value(format!("dropout probability has to be between 0 and 1, but got {p}")));
        }
        Ok(Dropout { p, training: Training::default() })
    }
}

impl Module for Dropout {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        dropout(x, self.p, self.training.get())
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.training(&self.training);
    }
}
