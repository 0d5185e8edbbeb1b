//! Linear and bilinear layers, and layers that only reshape.

use crate::module::missing_argument;
use crate::{Module, Parameter, Visitor, init};
use torchtpu_tensor::ops::{self, matmul};
use torchtpu_tensor::schema::Arg;
use torchtpu_tensor::{Error, Result, Tensor};

/// A linear layer: `y = x W^T + b`.
#[derive(Clone, Debug)]
pub struct Linear {
    /// Weight of shape `[out_features, in_features]`.
    pub weight: Parameter,
    /// Bias of shape `[out_features]`.
    pub bias: Option<Parameter>,
}

impl Linear {
    /// Make a layer with a bias, of the default dtype on `cpu`.
    ///
    /// # Errors
    /// Fails if memory runs out.
    pub fn new(in_features: usize, out_features: usize) -> Result<Linear> {
        Linear::with_bias(in_features, out_features, true)
    }
    /// Make a layer with or without a bias.
    ///
    /// # Errors
    /// Fails if memory runs out.
    pub fn with_bias(in_features: usize, out_features: usize, bias: bool) -> Result<Linear> {
        let weight = init::empty(&[out_features, in_features])?;
        let bias = bias.then(|| init::empty(&[out_features])).transpose()?;
        init::linear_default(&weight, bias.as_ref())?;
        Ok(Linear { weight: Parameter::new(weight)?, bias: bias.map(Parameter::new).transpose()? })
    }
    /// Return another layer with the same values.
    pub(crate) fn duplicate(&self) -> Result<Linear> {
        let bias = self.bias.as_ref().map(Parameter::duplicate).transpose()?;
        Ok(Linear { weight: self.weight.duplicate()?, bias })
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

/// A bilinear layer: `y = x1^T A x2 + b`, with one matrix `A` per output.
#[derive(Clone, Debug)]
pub struct Bilinear {
    /// Weight of shape `[out_features, in1_features, in2_features]`.
    pub weight: Parameter,
    /// Bias of shape `[out_features]`.
    pub bias: Option<Parameter>,
}

impl Bilinear {
    /// Make a layer, of the default dtype on `cpu`.
    ///
    /// # Errors
    /// Fails with `Value` if `in1_features` is zero.
    pub fn new(in1_features: usize, in2_features: usize, out_features: usize, bias: bool) -> Result<Bilinear> {
        if in1_features == 0 {
            return Err(Error::value(format!("in1_features must be > 0, but got (in1_features={in1_features})")));
        }
        let bound = 1.0 / (in1_features as f64).sqrt();
        let drawn = |dims: &[usize]| {
            let x = init::empty(dims)?;
            init::uniform_(&x, -bound, bound, None)?;
            Parameter::new(x)
        };
        let weight = drawn(&[out_features, in1_features, in2_features])?;
        Ok(Bilinear { weight, bias: bias.then(|| drawn(&[out_features])).transpose()? })
    }
    /// Apply the layer to two inputs that differ at most in the last dimension.
    ///
    /// # Errors
    /// Fails with `Runtime` if sizes do not fit.
    pub fn apply(&self, x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
        let bias = self.bias.as_ref().map(Parameter::tensor);
        let bias = bias.as_ref().map_or(Arg::None, Arg::Tensor);
        ops::call_tensor("bilinear", &[Arg::Tensor(x1), Arg::Tensor(x2), Arg::Tensor(&self.weight.tensor()), bias])
    }
}

/// `forward` always fails, because one tensor is not enough. Use [`Bilinear::apply`].
impl Module for Bilinear {
    fn forward(&self, _: &Tensor) -> Result<Tensor> {
        Err(missing_argument("Bilinear", "input2"))
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.parameter("weight", &self.weight);
        self.bias.iter().for_each(|b| v.parameter("bias", b));
    }
}

/// A layer that returns its input.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity;

impl Module for Identity {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.clone())
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}

/// A layer that merges several dimensions into one.
#[derive(Clone, Copy, Debug)]
pub struct Flatten {
    /// First merged dimension.
    pub start_dim: i64,
    /// Last merged dimension.
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
