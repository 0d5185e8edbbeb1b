//! Normalisation.

use crate::{Buffer, Module, Parameter, Training, Visitor};
use torchtpu_tensor::ops::norm::{BatchNormArgs, batch_norm, layer_norm};
use torchtpu_tensor::{DType, Device, Error, Result, Scalar, Tensor, no_grad};

/// Normalises each channel of `[n, c, h, w]` over all samples and places, and keeps running statistics for evaluation.
#[derive(Debug)]
pub struct BatchNorm2d {
    /// `[c]`, ones at first.
    pub weight: Parameter,
    /// `[c]`, zeros at first.
    pub bias: Parameter,
    /// Mean of the batches seen in training.
    pub running_mean: Buffer,
    /// Unbiased variance of the batches seen in training.
    pub running_var: Buffer,
    /// How many batches there were.
    pub num_batches_tracked: Buffer,
    /// Added to the variance.
    pub eps: f64,
    /// How far a batch moves the running statistics; none: they are plain averages.
    pub momentum: Option<f64>,
    training: Training,
}

impl BatchNorm2d {
    /// A layer with `eps` 1e-5 and `momentum` 0.1.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(num_features: usize) -> Result<BatchNorm2d> {
        let of = |v: i64| Tensor::full(&[num_features], v, DType::F32, Device::CPU);
        Ok(BatchNorm2d {
            weight: Parameter::new(of(1)?)?,
            bias: Parameter::new(of(0)?)?,
            running_mean: Buffer::new(of(0)?),
            running_var: Buffer::new(of(1)?),
            num_batches_tracked: Buffer::new(Tensor::full(&[], 0, DType::I64, Device::CPU)?),
            eps: 1e-5,
            momentum: Some(0.1),
            training: Training::default(),
        })
    }
}

impl Module for BatchNorm2d {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if x.dims().len() != 4 {
            return Err(Error::value(format!("expected 4D input (got {}D input)", x.dims().len())));
        }
        let training = self.training.get();
        let mut momentum = self.momentum.unwrap_or(0.0);
        if training {
            let count = self.num_batches_tracked.tensor();
            no_grad(|| count.add_(&Tensor::number(Scalar::Int(1), DType::I64)?).map(|_| ()))?;
            if self.momentum.is_none() {
                momentum = 1.0 / count.item_f64()?;
            }
        }
        let (weight, bias) = (self.weight.tensor(), self.bias.tensor());
        let (mean, var) = (self.running_mean.tensor(), self.running_var.tensor());
        let args = BatchNormArgs {
            weight: Some(&weight),
            bias: Some(&bias),
            running_mean: Some(&mean),
            running_var: Some(&var),
            training,
            momentum,
            eps: self.eps,
        };
        Ok(batch_norm(x, &args)?.0)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.parameter("weight", &self.weight);
        v.parameter("bias", &self.bias);
        v.buffer("running_mean", &self.running_mean);
        v.buffer("running_var", &self.running_var);
        v.buffer("num_batches_tracked", &self.num_batches_tracked);
        v.training(&self.training);
    }
}

/// Normalises over the last dimensions.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// Of the normalised shape, ones at first.
    pub weight: Parameter,
    /// Of the normalised shape, zeros at first.
    pub bias: Parameter,
    /// Added to the variance.
    pub eps: f64,
    shape: Vec<i64>,
}

impl LayerNorm {
    /// A layer with `eps` 1e-5.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(normalized_shape: &[usize]) -> Result<LayerNorm> {
        LayerNorm::with_eps(normalized_shape, 1e-5)
    }
    /// A layer with an `eps` of one's own.
    ///
    /// # Errors
    /// Out of memory.
    pub fn with_eps(normalized_shape: &[usize], eps: f64) -> Result<LayerNorm> {
        let of = |v: i64| Tensor::full(normalized_shape, v, DType::F32, Device::CPU);
        Ok(LayerNorm {
            weight: Parameter::new(of(1)?)?,
            bias: Parameter::new(of(0)?)?,
            eps,
            shape: normalized_shape.iter().map(|&n| n as i64).collect(),
        })
    }
}

impl Module for LayerNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        layer_norm(x, &self.shape, Some(&self.weight.tensor()), Some(&self.bias.tensor()), self.eps)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.parameter("weight", &self.weight);
        v.parameter("bias", &self.bias);
    }
}
