//! Initialisation of parameters, in place and without gradient.
//!
//! Bounds and standard deviations are computed in one fixed order of operations, and every function draws from the
//! generator like PyTorch's, so equal seeds give equal parameters.

use torchtpu_tensor::ops::random::{self, Distribution};
use torchtpu_tensor::random::Generator;
use torchtpu_tensor::{DType, Device, Error, Meta, Result, Scalar, Tensor, default_dtype, no_grad};

/// The nonlinearity after a layer. It determines the scale of the layer's weights.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Nonlinearity {
    /// None, or a linear layer.
    Linear,
    /// The logistic function.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// `max(x, 0)`.
    ReLU,
    /// `x` above zero, and this slope times `x` below.
    LeakyReLU(f64),
    /// The self-normalising unit.
    SELU,
}

/// The direction in which a layer keeps the variance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FanMode {
    /// Forward: the variance of activations.
    FanIn,
    /// Backward: the variance of gradients.
    FanOut,
}

/// Return the factor for the weights of a layer before `nonlinearity` that keeps the variance.
pub fn calculate_gain(nonlinearity: Nonlinearity) -> f64 {
    match nonlinearity {
        Nonlinearity::Linear | Nonlinearity::Sigmoid => 1.0,
        Nonlinearity::Tanh => 5.0 / 3.0,
        Nonlinearity::ReLU => 2.0f64.sqrt(),
        Nonlinearity::LeakyReLU(slope) => (2.0 / (1.0 + slope.powi(2))).sqrt(),
        Nonlinearity::SELU => 0.75,
    }
}

/// Return the number of inputs of each output, and the number of outputs of each input.
///
/// # Errors
/// Fails with `Value` for fewer than two dimensions.
pub fn calculate_fan_in_and_fan_out(x: &Tensor) -> Result<(usize, usize)> {
    let d = x.dims();
    if d.len() < 2 {
        return Err(Error::value("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"));
    }
    // An empty tensor may have other sizes of any value, so the product may overflow.
    let receptive = d[2..].iter().fold(1usize, |a, &n| a.saturating_mul(n));
    Ok((d[1].saturating_mul(receptive), d[0].saturating_mul(receptive)))
}

/// Return the dtype of new parameters.
pub(crate) fn parameter_dtype() -> DType {
    default_dtype()
}

/// Return uninitialised memory for a parameter of [`parameter_dtype`] on `cpu`.
pub(crate) fn empty(dims: &[usize]) -> Result<Tensor> {
    Tensor::empty(&Meta::new(dims, parameter_dtype(), Device::CPU))
}

/// Return the product of two sizes, or an error if it overflows.
pub(crate) fn product(a: usize, b: usize) -> Result<usize> {
    let fits = a.checked_mul(b).filter(|&n| i64::try_from(n).is_ok());
    fits.ok_or_else(|| Error::runtime(format!("Storage size calculation overflowed with sizes=[{a}, {b}]")))
}

fn fill(d: Distribution, x: &Tensor, generator: Option<&Generator>) -> Result<()> {
    no_grad(|| random::fill(d, x, generator))
}

/// Fill with values drawn uniformly from `[a, b)`.
///
/// # Errors
/// Fails with `Runtime` if the bounds do not fit, or `x` may not be written.
pub fn uniform_(x: &Tensor, a: f64, b: f64, generator: Option<&Generator>) -> Result<()> {
    fill(Distribution::Uniform(a, b), x, generator)
}

/// Fill with values drawn from a normal distribution.
///
/// # Errors
/// Fails with `Runtime` if `std` is negative.
pub fn normal_(x: &Tensor, mean: f64, std: f64, generator: Option<&Generator>) -> Result<()> {
    fill(Distribution::Normal(mean, std), x, generator)
}

/// Fill with values drawn from a normal distribution. Values outside `[a, b]` are drawn again.
///
/// # Errors
/// Fails with `Runtime` for arguments that do not define a distribution.
pub fn trunc_normal_(x: &Tensor, mean: f64, std: f64, a: f64, b: f64, generator: Option<&Generator>) -> Result<()> {
    fill(Distribution::TruncatedNormal(mean, std, a, b), x, generator)
}

/// Fill with one value.
///
/// # Errors
/// Fails with `Runtime` if `x` may not be written.
pub fn constant_(x: &Tensor, value: impl Into<Scalar>) -> Result<()> {
    let y = Tensor::full_meta(x.meta(), value.into())?;
    no_grad(|| x.copy_(&y)).map(|_| ())
}

/// Fill with ones.
///
/// # Errors
/// Fails like [`constant_`].
pub fn ones_(x: &Tensor) -> Result<()> {
    constant_(x, 1)
}

/// Fill with zeros.
///
/// # Errors
/// Fails like [`constant_`].
pub fn zeros_(x: &Tensor) -> Result<()> {
    constant_(x, 0)
}

fn xavier_std(x: &Tensor, gain: f64) -> Result<f64> {
    let (fan_in, fan_out) = calculate_fan_in_and_fan_out(x)?;
    Ok(gain * (2.0 / (fan_in + fan_out) as f64).sqrt())
}

/// Fill with uniform values of variance `gain^2 * 2 / (fan_in + fan_out)`.
///
/// # Errors
/// Fails with `Value` for fewer than two dimensions.
pub fn xavier_uniform_(x: &Tensor, gain: f64, generator: Option<&Generator>) -> Result<()> {
    let bound = 3.0f64.sqrt() * xavier_std(x, gain)?;
    uniform_(x, -bound, bound, generator)
}

/// Fill with normal values of variance `gain^2 * 2 / (fan_in + fan_out)`.
///
/// # Errors
/// Fails with `Value` for fewer than two dimensions.
pub fn xavier_normal_(x: &Tensor, gain: f64, generator: Option<&Generator>) -> Result<()> {
    normal_(x, 0.0, xavier_std(x, gain)?, generator)
}

fn kaiming_std(x: &Tensor, mode: FanMode, nonlinearity: Nonlinearity) -> Result<f64> {
    let (fan_in, fan_out) = calculate_fan_in_and_fan_out(x)?;
    let fan = if mode == FanMode::FanIn { fan_in } else { fan_out };
    Ok(calculate_gain(nonlinearity) / (fan as f64).sqrt())
}

/// Fill with uniform values of variance `gain^2 / fan`. PyTorch's `a` is the slope of [`Nonlinearity::LeakyReLU`].
/// Draws nothing for an empty tensor.
///
/// # Errors
/// Fails with `Value` for fewer than two dimensions.
pub fn kaiming_uniform_(
    x: &Tensor,
    mode: FanMode,
    nonlinearity: Nonlinearity,
    generator: Option<&Generator>,
) -> Result<()> {
    if x.numel() == 0 {
        return Ok(());
    }
    let bound = 3.0f64.sqrt() * kaiming_std(x, mode, nonlinearity)?;
    uniform_(x, -bound, bound, generator)
}

/// Fill with normal values of variance `gain^2 / fan`.
///
/// # Errors
/// Fails with `Value` for fewer than two dimensions.
pub fn kaiming_normal_(
    x: &Tensor,
    mode: FanMode,
    nonlinearity: Nonlinearity,
    generator: Option<&Generator>,
) -> Result<()> {
    if x.numel() == 0 {
        return Ok(());
    }
    normal_(x, 0.0, kaiming_std(x, mode, nonlinearity)?, generator)
}

/// Initialise `Linear` and convolutions: first weights by [`kaiming_uniform_`] with slope `sqrt(5)`, then biases within
/// `1 / sqrt(fan_in)`.
pub(crate) fn linear_default(weight: &Tensor, bias: Option<&Tensor>) -> Result<()> {
    kaiming_uniform_(weight, FanMode::FanIn, Nonlinearity::LeakyReLU(5.0f64.sqrt()), None)?;
    let Some(bias) = bias else { return Ok(()) };
    let (fan_in, _) = calculate_fan_in_and_fan_out(weight)?;
    let bound = if fan_in > 0 { 1.0 / (fan_in as f64).sqrt() } else { 0.0 };
    uniform_(bias, -bound, bound, None)
}
