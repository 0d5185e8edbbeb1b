//! Activation layers.

use crate::{Module, Parameter, Training, Visitor, init};
use torchtpu_tensor::ops::activation::gelu;
use torchtpu_tensor::schema::Arg;
use torchtpu_tensor::{Error, Result, Scalar, Tensor, ops};

fn float(v: f64) -> Arg<'static> {
    Arg::Scalar(Scalar::Float(v))
}

/// Apply an op of `x` and numbers.
fn apply(op: &str, x: &Tensor, settings: &[f64]) -> Result<Tensor> {
    let mut args = vec![Arg::Tensor(x)];
    args.extend(settings.iter().map(|&v| float(v)));
    ops::call_tensor(op, &args)
}

/// Define unit structs whose `forward` is one op without settings.
macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident = $op:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;

        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                apply($op, x, &[])
            }
            fn visit(&self, _: &mut Visitor<'_>) {}
        }
    )*};
}

plain! {
    /// `max(x, 0)`.
    ReLU = "relu";
    /// `min(max(x, 0), 6)`.
    ReLU6 = "relu6";
    /// Hyperbolic tangent.
    Tanh = "tanh";
    /// `x - tanh x`.
    Tanhshrink = "tanhshrink";
    /// `1 / (1 + e^-x)`.
    Sigmoid = "sigmoid";
    /// `log(1 / (1 + e^-x))`.
    LogSigmoid = "log_sigmoid";
    /// `min(max(x + 3, 0), 6) / 6`.
    Hardsigmoid = "hardsigmoid";
    /// `x` times [`Hardsigmoid`].
    Hardswish = "hardswish";
    /// `x sigmoid(x)`.
    SiLU = "silu";
    /// `x tanh(log(1 + e^x))`.
    Mish = "mish";
    /// An [`ELU`] with the scale and the limit that keep mean 0 and variance 1.
    SELU = "selu";
    /// `x / (1 + |x|)`.
    Softsign = "softsign";
}

/// Define structs of public settings with defaults. The part after `=>` is `forward`, a function of settings and input.
macro_rules! with_settings {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$field_doc:meta])* $field:ident: $ty:ty = $default:expr),* $(,)?
    } => $forward:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
        }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default),* }
            }
        }

        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                let forward: fn(&$name, &Tensor) -> Result<Tensor> = $forward;
                forward(self, x)
            }
            fn visit(&self, _: &mut Visitor<'_>) {}
        }
    )*};
}

with_settings! {
    /// `x` times the normal distribution function of `x`.
    GELU {
        /// Whether to use the approximation with a hyperbolic tangent.
        tanh: bool = false,
    } => |s, x| gelu(x, if s.tanh { "tanh" } else { "none" });
    /// `x` above zero, a slope below.
    LeakyReLU {
        /// The slope below zero.
        negative_slope: f64 = 0.01,
    } => |s, x| apply("leaky_relu", x, &[s.negative_slope]);
    /// `x` above zero, `alpha (e^x - 1)` below.
    ELU {
        /// The negative of the limit for small `x`.
        alpha: f64 = 1.0,
    } => |s, x| apply("elu", x, &[s.alpha, 1.0, 1.0]);
    /// `x` above zero, `alpha (e^(x / alpha) - 1)` below.
    CELU {
        /// The negative of the limit for small `x`.
        alpha: f64 = 1.0,
    } => |s, x| apply("celu", x, &[s.alpha]);
    /// `log(1 + e^(beta x)) / beta`, or `x` where `beta x` is above the threshold.
    Softplus {
        /// The steepness.
        beta: f64 = 1.0,
        /// Value of `beta x` above which the function is linear.
        threshold: f64 = 20.0,
    } => |s, x| apply("softplus", x, &[s.beta, s.threshold]);
    /// `x` limited at both ends.
    Hardtanh {
        /// The lower limit.
        min_val: f64 = -1.0,
        /// The upper limit.
        max_val: f64 = 1.0,
    } => |s, x| {
        if s.max_val <= s.min_val {
            return Err(Error::value(format!("max_val ({:?}) must be greater than min_val ({:?})", s.max_val,
                s.min_val)));
        }
        apply("hardtanh", x, &[s.min_val, s.max_val])
    };
    /// `x`, and zero from `-lambd` to `lambd`.
    Hardshrink {
        /// Largest magnitude that becomes zero.
        lambd: f64 = 0.5,
    } => |s, x| apply("hardshrink", x, &[s.lambd]);
    /// `x` moved towards zero by `lambd`, and zero if its magnitude is at most `lambd`.
    Softshrink {
        /// The distance.
        lambd: f64 = 0.5,
    } => |s, x| apply("softshrink", x, &[s.lambd]);
    /// Exponentials divided by their sum.
    Softmax {
        /// Dimension of the sum.
        dim: i64 = -1,
    } => |s, x| x.softmax(s.dim);
    /// [`Softmax`] of `-x`.
    Softmin {
        /// Dimension of the sum.
        dim: i64 = -1,
    } => |s, x| x.neg()?.softmax(s.dim);
    /// The logarithm of [`Softmax`].
    LogSoftmax {
        /// Dimension of the sum.
        dim: i64 = -1,
    } => |s, x| x.log_softmax(s.dim);
    /// The first half along a dimension, times the sigmoid of the second half.
    GLU {
        /// The dimension that is halved.
        dim: i64 = -1,
    } => |s, x| ops::call_tensor("glu", &[Arg::Tensor(x), Arg::Scalar(Scalar::Int(s.dim))]);
}

/// [`Softmax`] over the channels of `[n, c, h, w]` or `[c, h, w]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Softmax2d;

impl Module for Softmax2d {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if !matches!(x.dims().len(), 3 | 4) {
            return Err(Error::value(format!(
                "Softmax2d: expected input to be 3D or 4D, got {}D instead",
                x.dims().len()
            )));
        }
        x.softmax(-3)
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}

/// `x` above a threshold, and a constant otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Threshold {
    /// The threshold.
    pub threshold: f64,
    /// The constant.
    pub value: f64,
}

impl Threshold {
    /// Make a layer.
    pub fn new(threshold: f64, value: f64) -> Threshold {
        Threshold { threshold, value }
    }
}

impl Module for Threshold {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        apply("threshold", x, &[self.threshold, self.value])
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}

/// `x` above zero, and a trained slope times `x` below.
#[derive(Clone, Debug)]
pub struct PReLU {
    /// The slope, or one slope per channel.
    pub weight: Parameter,
}

impl PReLU {
    /// Make a layer with one slope, initially 0.25.
    ///
    /// # Errors
    /// Fails if memory runs out.
    pub fn new() -> Result<PReLU> {
        PReLU::with_parameters(1, 0.25)
    }
    /// Make a layer with a slope per channel, initially `init`.
    ///
    /// # Errors
    /// Fails if memory runs out.
    pub fn with_parameters(num_parameters: usize, init: f64) -> Result<PReLU> {
        let weight = init::empty(&[num_parameters])?;
        init::constant_(&weight, init)?;
        Ok(PReLU { weight: Parameter::new(weight)? })
    }
}

impl Module for PReLU {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::call_tensor("prelu", &[Arg::Tensor(x), Arg::Tensor(&self.weight.tensor())])
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.parameter("weight", &self.weight);
    }
}

/// `x` above zero, and a slope times `x` below. In training, the slope is drawn for each element. In evaluation, it is
/// the mean of `lower` and `upper`.
#[derive(Debug)]
pub struct RReLU {
    /// The smallest slope.
    pub lower: f64,
    /// The largest slope.
    pub upper: f64,
    training: Training,
}

impl RReLU {
    /// Make a layer with slopes from `lower` to `upper`.
    pub fn new(lower: f64, upper: f64) -> RReLU {
        RReLU { lower, upper, training: Training::default() }
    }
}

impl Default for RReLU {
    fn default() -> RReLU {
        RReLU::new(1.0 / 8.0, 1.0 / 3.0)
    }
}

impl Module for RReLU {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let training = Arg::Scalar(Scalar::Bool(self.training.get()));
        ops::call_tensor("rrelu", &[Arg::Tensor(x), float(self.lower), float(self.upper), training])
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.training(&self.training);
    }
}
