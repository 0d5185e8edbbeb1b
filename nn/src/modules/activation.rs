//! Activations.

use crate::{Module, Visitor};
use torchtpu_tensor::ops::activation::gelu;
use torchtpu_tensor::schema::Arg;
use torchtpu_tensor::{Result, Scalar, Tensor, ops};

fn float(v: f64) -> Arg<'static> {
    Arg::Scalar(Scalar::Float(v))
}

/// `max(x, 0)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReLU;

impl Module for ReLU {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.relu()
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}

/// Hyperbolic tangent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tanh;

impl Module for Tanh {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.tanh()
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}

/// `1 / (1 + e^-x)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sigmoid;

impl Module for Sigmoid {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.sigmoid()
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}

/// `x sigmoid(x)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SiLU;

impl Module for SiLU {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::call_tensor("silu", &[Arg::Tensor(x)])
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}

/// `x` times the normal distribution function of `x`.
#[derive(Clone, Copy, Debug, Default)]
pub struct GELU {
    /// Use the approximation with a hyperbolic tangent.
    pub tanh: bool,
}

impl Module for GELU {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        gelu(x, if self.tanh { "tanh" } else { "none" })
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}

/// `x` above zero, a slope below.
#[derive(Clone, Copy, Debug)]
pub struct LeakyReLU {
    /// The slope.
    pub negative_slope: f64,
}

impl Default for LeakyReLU {
    fn default() -> LeakyReLU {
        LeakyReLU { negative_slope: 0.01 }
    }
}

impl Module for LeakyReLU {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::call_tensor("leaky_relu", &[Arg::Tensor(x), float(self.negative_slope)])
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}

/// `x` above zero, `alpha (e^x - 1)` below.
#[derive(Clone, Copy, Debug)]
pub struct ELU {
    /// The limit below zero, but for its sign.
    pub alpha: f64,
}

impl Default for ELU {
    fn default() -> ELU {
        ELU { alpha: 1.0 }
    }
}

impl Module for ELU {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::call_tensor("elu", &[Arg::Tensor(x), float(self.alpha), float(1.0), float(1.0)])
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}

/// `log(1 + e^(beta x)) / beta`, or `x` where `beta x` is above the threshold.
#[derive(Clone, Copy, Debug)]
pub struct Softplus {
    /// The steepness.
    pub beta: f64,
    /// Where it becomes linear.
    pub threshold: f64,
}

impl Default for Softplus {
    fn default() -> Softplus {
        Softplus { beta: 1.0, threshold: 20.0 }
    }
}

impl Module for Softplus {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::call_tensor("softplus", &[Arg::Tensor(x), float(self.beta), float(self.threshold)])
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}

/// Exponentials divided by their sum.
#[derive(Clone, Copy, Debug)]
pub struct Softmax {
    /// The dimension they are summed over.
    pub dim: i64,
}

impl Default for Softmax {
    fn default() -> Softmax {
        Softmax { dim: -1 }
    }
}

impl Module for Softmax {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.softmax(self.dim)
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}

/// Logarithm of [`Softmax`].
#[derive(Clone, Copy, Debug)]
pub struct LogSoftmax {
    /// The dimension.
    pub dim: i64,
}

impl Default for LogSoftmax {
    fn default() -> LogSoftmax {
        LogSoftmax { dim: -1 }
    }
}

impl Module for LogSoftmax {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.log_softmax(self.dim)
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}
