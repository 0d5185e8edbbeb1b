//! Normalisation layers.

use super::{bounded, of_rank, pad};
use crate::{Buffer, Module, Parameter, Training, Visitor, init};
use torchtpu_tensor::ops::norm::{BatchNormArgs, batch_norm, group_norm, layer_norm, rms_norm};
use torchtpu_tensor::schema::Arg;
use torchtpu_tensor::{DType, Device, Error, Result, Scalar, Tensor, no_grad, ops};

fn filled(dims: &[usize], value: i64) -> Result<Tensor> {
    Tensor::full(dims, value, init::parameter_dtype(), Device::CPU)
}

/// Return a scale of ones and a shift of zeros, each if requested.
fn affine(dims: &[usize], scale: bool, shift: bool) -> Result<(Option<Parameter>, Option<Parameter>)> {
    let of = |wanted: bool, v: i64| wanted.then(|| Parameter::new(filled(dims, v)?)).transpose();
    Ok((of(scale, 1)?, of(scale && shift, 0)?))
}

fn visit_affine(v: &mut Visitor<'_>, weight: &Option<Parameter>, bias: &Option<Parameter>) {
    weight.iter().for_each(|p| v.parameter("weight", p));
    bias.iter().for_each(|p| v.parameter("bias", p));
}

/// Settings of [`ChannelNorm`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NormOptions {
    /// Number added to the variance.
    pub eps: f64,
    /// Share of a batch in the running statistics. `None` means plain averages.
    pub momentum: Option<f64>,
    /// Whether there is a scale.
    pub affine: bool,
    /// Whether there is a shift too.
    pub bias: bool,
    /// Whether to keep running statistics for evaluation.
    pub track_running_stats: bool,
}

impl NormOptions {
    /// Return the defaults of batch normalisation.
    pub fn batch() -> NormOptions {
        NormOptions { eps: 1e-5, momentum: Some(0.1), affine: true, bias: true, track_running_stats: true }
    }
    /// Return the defaults of instance normalisation: neither scale nor running statistics.
    pub fn instance() -> NormOptions {
        NormOptions { affine: false, track_running_stats: false, ..NormOptions::batch() }
    }
}

/// Normalise each channel of `[n, c, *s]`: over all samples and positions (batch normalisation), or with `INSTANCE`
/// over the positions of each sample. `N` is the number of spatial dimensions.
#[derive(Debug)]
pub struct ChannelNorm<const N: usize, const INSTANCE: bool> {
    /// Scale of shape `[c]`, initially ones.
    pub weight: Option<Parameter>,
    /// Shift of shape `[c]`, initially zeros.
    pub bias: Option<Parameter>,
    /// Running mean of the batches seen in training.
    pub running_mean: Option<Buffer>,
    /// Running unbiased variance of the batches seen in training.
    pub running_var: Option<Buffer>,
    /// Number of batches seen in training.
    pub num_batches_tracked: Option<Buffer>,
    /// Number added to the variance.
    pub eps: f64,
    /// Share of a batch in the running statistics. `None` means plain averages.
    pub momentum: Option<f64>,
    num_features: usize,
    training: Training,
}

/// Batch normalisation of `[n, c]` or `[n, c, l]`.
pub type BatchNorm1d = ChannelNorm<1, false>;
/// Batch normalisation of `[n, c, h, w]`.
pub type BatchNorm2d = ChannelNorm<2, false>;
/// Batch normalisation of `[n, c, d, h, w]`.
pub type BatchNorm3d = ChannelNorm<3, false>;
/// Instance normalisation of `[n, c, l]` or `[c, l]`.
pub type InstanceNorm1d = ChannelNorm<1, true>;
/// Instance normalisation of `[n, c, h, w]` or `[c, h, w]`.
pub type InstanceNorm2d = ChannelNorm<2, true>;
/// Instance normalisation of `[n, c, d, h, w]` or `[c, d, h, w]`.
pub type InstanceNorm3d = ChannelNorm<3, true>;

impl<const N: usize, const INSTANCE: bool> ChannelNorm<N, INSTANCE> {
    /// Make a layer with PyTorch's settings: [`NormOptions::batch`] or [`NormOptions::instance`].
    ///
    /// # Errors
    /// Fails if memory runs out.
    pub fn new(num_features: usize) -> Result<ChannelNorm<N, INSTANCE>> {
        let options = if INSTANCE { NormOptions::instance() } else { NormOptions::batch() };
        ChannelNorm::with_options(num_features, options)
    }

    /// Make a layer with the given options.
    ///
    /// # Errors
    /// Fails if memory runs out.
    pub fn with_options(num_features: usize, o: NormOptions) -> Result<ChannelNorm<N, INSTANCE>> {
        let (weight, bias) = affine(&[num_features], o.affine, o.bias)?;
        let buffer = |x: Result<Tensor>| o.track_running_stats.then_some(x).transpose().map(|x| x.map(Buffer::new));
        Ok(ChannelNorm {
            weight,
            bias,
            running_mean: buffer(filled(&[num_features], 0))?,
            running_var: buffer(filled(&[num_features], 1))?,
            num_batches_tracked: buffer(Tensor::full(&[], 0, DType::I64, Device::CPU))?,
            eps: o.eps,
            momentum: o.momentum,
            num_features,
            training: Training::default(),
        })
    }

    fn check_rank(&self, rank: usize) -> Result<()> {
        let (low, high) = match (INSTANCE, N) {
            (true, _) | (false, 1) => (N + 1, N + 2),
            (false, _) => (N + 2, N + 2),
        };
        if (low..=high).contains(&rank) {
            return Ok(());
        }
        let wanted = if low == high { format!("{high}D") } else { format!("{low}D or {high}D") };
        Err(Error::value(format!("expected {wanted} input (got {rank}D input)")))
    }

    /// In training, add one to the count of batches. Return the weight of the batch in the running statistics.
    fn next_momentum(&self, training: bool) -> Result<f64> {
        if let Some(count) = self.num_batches_tracked.as_ref().filter(|_| training && !INSTANCE) {
            let count = count.tensor();
            no_grad(|| count.add_(&Tensor::number(Scalar::Int(1), DType::I64)?).map(|_| ()))?;
            if self.momentum.is_none() {
                return Ok(1.0 / count.item_f64()?);
            }
        }
        Ok(self.momentum.unwrap_or(0.0))
    }
}

impl<const N: usize, const INSTANCE: bool> Module for ChannelNorm<N, INSTANCE> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let rank = x.dims().len();
        self.check_rank(rank)?;
        let unbatched = INSTANCE && rank == N + 1;
        let channels = usize::from(!unbatched);
        if INSTANCE && self.weight.is_some() && x.dims()[channels] != self.num_features {
            return Err(Error::value(format!(
                "expected input's size at dim={channels} to match num_features ({}), but got: {}.",
                self.num_features,
                x.dims()[channels]
            )));
        }
        if unbatched {
            return self.forward(&x.unsqueeze(0)?)?.squeeze(0);
        }
        let training = self.training.get();
        let momentum = self.next_momentum(training)?;
        let (weight, bias) = (self.weight.as_ref().map(Parameter::tensor), self.bias.as_ref().map(Parameter::tensor));
        let (mean, var) =
            (self.running_mean.as_ref().map(Buffer::tensor), self.running_var.as_ref().map(Buffer::tensor));
        let by_batch = training || mean.is_none();
        let args = BatchNormArgs {
            weight: weight.as_ref(),
            bias: bias.as_ref(),
            running_mean: mean.as_ref(),
            running_var: var.as_ref(),
            training: by_batch,
            momentum,
            eps: self.eps,
        };
        if !INSTANCE {
            if by_batch && args.eps <= 0.0 {
                return Err(Error::value(format!(
                    "batch_norm eps must be positive during training, but got {:?}",
                    args.eps
                )));
            }
            return Ok(batch_norm(x, &args)?.0);
        }
        let of = |t: Option<&'_ Tensor>| t.cloned();
        let given = [of(args.weight), of(args.bias), of(args.running_mean), of(args.running_var)];
        let given = given.each_ref().map(|t| t.as_ref().map_or(Arg::None, Arg::Tensor));
        let numbers = [by_batch.into(), momentum.into(), self.eps.into(), false.into()].map(Arg::Scalar);
        let all: Vec<Arg<'_>> = [Arg::Tensor(x)].into_iter().chain(given).chain(numbers).collect();
        ops::call_tensor("instance_norm", &all)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        visit_affine(v, &self.weight, &self.bias);
        self.running_mean.iter().for_each(|b| v.buffer("running_mean", b));
        self.running_var.iter().for_each(|b| v.buffer("running_var", b));
        self.num_batches_tracked.iter().for_each(|b| v.buffer("num_batches_tracked", b));
        v.training(&self.training);
    }
    fn name(&self) -> &'static str {
        if INSTANCE {
            of_rank::<N>(["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"])
        } else {
            of_rank::<N>(["BatchNorm1d", "BatchNorm2d", "BatchNorm3d"])
        }
    }
}

/// Settings of [`LayerNorm`] and [`GroupNorm`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LayerNormOptions {
    /// Number added to the variance.
    pub eps: f64,
    /// Whether there is a scale. PyTorch calls it `affine` in `GroupNorm`.
    pub elementwise_affine: bool,
    /// Whether there is a shift too.
    pub bias: bool,
}

impl Default for LayerNormOptions {
    fn default() -> LayerNormOptions {
        LayerNormOptions { eps: 1e-5, elementwise_affine: true, bias: true }
    }
}

fn signed(shape: &[usize]) -> Result<Vec<i64>> {
    let one = |&n: &usize| i64::try_from(n).map_err(|_| Error::runtime(format!("normalized_shape: {n} is too large")));
    shape.iter().map(one).collect()
}

/// Normalise over the last dimensions.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// Scale of the normalised shape, initially ones.
    pub weight: Option<Parameter>,
    /// Shift of the normalised shape, initially zeros.
    pub bias: Option<Parameter>,
    /// Number added to the variance.
    pub eps: f64,
    shape: Vec<i64>,
}

impl LayerNorm {
    /// Make a layer with `eps` 1e-5.
    ///
    /// # Errors
    /// Fails if memory runs out.
    pub fn new(normalized_shape: &[usize]) -> Result<LayerNorm> {
        LayerNorm::with_options(normalized_shape, LayerNormOptions::default())
    }
    /// Make a layer with the given `eps`.
    ///
    /// # Errors
    /// Fails if memory runs out.
    pub fn with_eps(normalized_shape: &[usize], eps: f64) -> Result<LayerNorm> {
        LayerNorm::with_options(normalized_shape, LayerNormOptions { eps, ..LayerNormOptions::default() })
    }
    /// Make a layer with the given options.
    ///
    /// # Errors
    /// Fails if memory runs out.
    pub fn with_options(normalized_shape: &[usize], o: LayerNormOptions) -> Result<LayerNorm> {
        let shape = signed(normalized_shape)?;
        let (weight, bias) = affine(normalized_shape, o.elementwise_affine, o.bias)?;
        Ok(LayerNorm { weight, bias, eps: o.eps, shape })
    }
}

impl Module for LayerNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (w, b) = (self.weight.as_ref().map(Parameter::tensor), self.bias.as_ref().map(Parameter::tensor));
        layer_norm(x, &self.shape, w.as_ref(), b.as_ref(), self.eps)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        visit_affine(v, &self.weight, &self.bias);
    }
}

/// Divide by the root mean square over the last dimensions.
#[derive(Clone, Debug)]
pub struct RMSNorm {
    /// Scale of the normalised shape, initially ones.
    pub weight: Option<Parameter>,
    /// Number added to the mean square. `None` means the machine epsilon of the dtype.
    pub eps: Option<f64>,
    shape: Vec<i64>,
}

impl RMSNorm {
    /// Make a layer with a scale.
    ///
    /// # Errors
    /// Fails if memory runs out.
    pub fn new(normalized_shape: &[usize]) -> Result<RMSNorm> {
        RMSNorm::with_options(normalized_shape, None, true)
    }
    /// Make a layer with the given `eps`, and optionally a scale.
    ///
    /// # Errors
    /// Fails if memory runs out.
    pub fn with_options(normalized_shape: &[usize], eps: Option<f64>, elementwise_affine: bool) -> Result<RMSNorm> {
        let shape = signed(normalized_shape)?;
        Ok(RMSNorm { weight: affine(normalized_shape, elementwise_affine, false)?.0, eps, shape })
    }
}

impl Module for RMSNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        rms_norm(x, &self.shape, self.weight.as_ref().map(Parameter::tensor).as_ref(), self.eps)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        visit_affine(v, &self.weight, &None);
    }
}

/// Normalise groups of channels of each sample of `[n, c, *s]`.
#[derive(Clone, Debug)]
pub struct GroupNorm {
    /// Scale of shape `[c]`, initially ones.
    pub weight: Option<Parameter>,
    /// Shift of shape `[c]`, initially zeros.
    pub bias: Option<Parameter>,
    /// Number added to the variance.
    pub eps: f64,
    groups: i64,
}

impl GroupNorm {
    /// Make a layer with `eps` 1e-5.
    ///
    /// # Errors
    /// Fails with `Value` if groups do not divide the channels.
    pub fn new(num_groups: usize, num_channels: usize) -> Result<GroupNorm> {
        GroupNorm::with_options(num_groups, num_channels, LayerNormOptions::default())
    }
    /// Make a layer with the given options.
    ///
    /// # Errors
    /// Fails with `Value` if groups do not divide the channels.
    pub fn with_options(num_groups: usize, num_channels: usize, o: LayerNormOptions) -> Result<GroupNorm> {
        let groups = i64::try_from(num_groups).ok().filter(|&g| g > 0 && num_channels.is_multiple_of(num_groups));
        let groups = groups.ok_or_else(|| {
            Error::value(format!("num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"))
        })?;
        let (weight, bias) = affine(&[num_channels], o.elementwise_affine, o.bias)?;
        Ok(GroupNorm { weight, bias, eps: o.eps, groups })
    }
}

impl Module for GroupNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (w, b) = (self.weight.as_ref().map(Parameter::tensor), self.bias.as_ref().map(Parameter::tensor));
        group_norm(x, self.groups, w.as_ref(), b.as_ref(), self.eps)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        visit_affine(v, &self.weight, &self.bias);
    }
}

/// Divide by a power of the mean square of neighbouring channels of `[n, c, *s]`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LocalResponseNorm {
    /// Number of neighbouring channels.
    pub size: i64,
    /// Factor of the mean square.
    pub alpha: f64,
    /// The power.
    pub beta: f64,
    /// Number added before the power.
    pub k: f64,
}

impl LocalResponseNorm {
    /// Make a layer with `alpha` 1e-4, `beta` 0.75 and `k` 1.
    pub fn new(size: i64) -> LocalResponseNorm {
        LocalResponseNorm { size, alpha: 1e-4, beta: 0.75, k: 1.0 }
    }
}

impl Module for LocalResponseNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        bounded(&[("size", &[self.size])])?;
        let d = x.dims();
        if d.len() < 3 {
            return Err(Error::value(format!(
                "Expected 3D or higher dimensionality                          input (got {} dimensions)",
                d.len()
            )));
        }
        if x.numel() == 0 {
            return Ok(x.clone());
        }
        // Treat channels as the first of three spatial dimensions.
        let whole: Vec<i64> = d.iter().map(|&n| n as i64).collect();
        let square = x.mul(x)?.reshape(&[whole[0], 1, whole[1], whole[2], -1])?;
        let (before, after) = (self.size.div_euclid(2), (self.size - 1).div_euclid(2));
        let square = pad(&square, &[0, 0, 0, 0, before, after], "constant", None)?;
        let (kernel, stride) = ([self.size, 1, 1], [1, 1, 1]);
        let mean = ops::call_tensor("avg_pool3d", &[Arg::Tensor(&square), Arg::Ints(&kernel), Arg::Ints(&stride)])?;
        let number = |name: &str, x: &Tensor, v: f64| ops::call_tensor(name, &[Arg::Tensor(x), Arg::Scalar(v.into())]);
        let base = number("add.Tensor", &number("mul.Tensor", &mean.reshape(&whole)?, self.alpha)?, self.k)?;
        x.div(&number("pow.Tensor_Tensor", &base, self.beta)?)
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}
