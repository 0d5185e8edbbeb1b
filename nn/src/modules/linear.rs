//! Linear maps.

use crate::{Module, Parameter, Visitor, init};
use torchtpu_tensor::ops::matmul;
use torchtpu_tensor::{DType, Device, Meta, Result, Tensor};

/// `y = x W^T + b`.
#[derive(Clone, Debug)]
pub struct Linear {
    /// `[out_features, in_features]`.
    pub weight: Parameter,
    /// `[out_features]`.
    pub bias: Option<Parameter>,
}

impl Linear {
    /// A layer with a bias, in `float32` on `cpu`.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(in_features: usize, out_features: usize) -> Result<Linear> {
        Linear::with_bias(in_features, out_features, true)
    }
    /// A layer with or without a bias.
    ///
    /// # Errors
    /// Out of memory.
    pub fn with_bias(in_features: usize, out_features: usize, bias: bool) -> Result<Linear> {
        let weight = Tensor::empty(&Meta::new(&[out_features, in_features], DType::F32, Device::CPU))?;
        let bias = bias.then(|| Tensor::empty(&Meta::new(&[out_features], DType::F32, Device::CPU))).transpose()?;
        init::linear_default(&weight, bias.as_ref())?;
        Ok(Linear { weight: Parameter::new(weight)?, bias: bias.map(Parameter::new).transpose()? })
    }
}

impl Module for Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        matmul::linear(x, &self.weight.tensor(), self.bias.as_ref().map(Parameter::tensor).as_ref())
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.parameter("weight", &self.weight);
        self.bias.iter().for_each(|b| v.parameter("bias", b));
    }
}

/// Gives its input back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity;

impl Module for Identity {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.clone())
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}

/// Makes one dimension of several.
#[derive(Clone, Copy, Debug)]
pub struct Flatten {
    /// The first of them.
    pub start_dim: i64,
    /// The last of them.
    pub end_dim: i64,
}

impl Default for Flatten {
    fn default() -> Flatten {
        Flatten { start_dim: 1, end_dim: -1 }
    }
}

impl Module for Flatten {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.flatten(self.start_dim, self.end_dim)
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}
