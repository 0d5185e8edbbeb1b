//! Linear maps.

use crate::module::missing_argument;
use crate::{Module, Parameter, Visitor, init};
use torchtpu_tensor::ops::{self, matmul};
use torchtpu_tensor::schema::Arg;
use torchtpu_tensor::{Error, Result, Tensor};

/// `y = x W^T + b`.
#[derive(Clone, Debug)]
pub struct Linear {
    /// `[out_features, in_features]`.
    pub weight: Parameter,
    /// `[out_features]`.
    pub bias: Option<Parameter>,
}

impl Linear {
    /// A layer with a bias, of the default dtype on `cpu`.
    ///
    /// # Errors
    /// Fails if memory runs out.
    pub fn new(in_features: usize, out_features: usize) -> Result<Linear> {
        Linear::with_bias(in_features, out_features, true)
    }
    /// A layer with or without a bias.
    ///
    /// # Errors
    /// Fails if memory runs out.
    pub fn with_bias(in_features: usize, out_features: usize, bias: bool) -> Result<Linear> {
        let weight = init::empty(&[out_features, in_features])?;
        let bias = bias.then(|| init::empty(&[out_features])).transpose()?;
        init::linear_default(&weight, bias.as_ref())?;
        Ok(Linear { weight: Parameter::new(weight)?, bias: bias.map(Parameter::new).transpose()? })
    }
    /// Another layer with the same values.
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

/// `y = x1^T A x2 + b`, a form for each output.
#[derive(Clone, Debug)]
pub struct Bilinear {
    /// `[out_features, in1_features, in2_features]`.
    pub weight: Parameter,
    /// `[out_features]`.
    pub bias: Option<Parameter>,
}

impl Bilinear {
    /// A layer, of the default dtype on `cpu`.
    ///
    /// # Errors
    /// Fails with `Value` if the first input has no features.
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
    /// The layer on two inputs that differ in the last dimension at most.
    ///
    /// # Errors
    /// Fails with `Runtime` if sizes do not fit.
    pub fn apply(&self, x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
        let bias = self.bias.as_ref().map(Parameter::tensor);
        let bias = bias.as_ref().map_or(Arg::None, Arg::Tensor);
        ops::call_tensor("bilinear", &[Arg::Tensor(x1), Arg::Tensor(x2), Arg::Tensor(&self.weight.tensor()), bias])
    }
}

/// [`Bilinear::apply`] computes: one tensor is not enough, so `forward` refuses.
impl Module for Bilinear {
    fn forward(&self, _: &Tensor) -> Result<Tensor> {
        Err(missing_argument("Bilinear", "input2"))
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
