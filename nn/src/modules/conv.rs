//! Convolutions.

use crate::{Module, Parameter, Visitor, init};
use torchtpu_tensor::ops::conv::{ConvArgs, Padding, convolve};
use torchtpu_tensor::{DType, Device, Error, Meta, Result, Tensor};

/// Settings of [`Conv2d`]; each pair is height and width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conv2dOptions {
    /// Steps between windows.
    pub stride: [i64; 2],
    /// Zeros on both sides.
    pub padding: [i64; 2],
    /// Steps between kernel elements.
    pub dilation: [i64; 2],
    /// Groups of channels that do not see each other.
    pub groups: i64,
    /// Whether there is a bias.
    pub bias: bool,
}

impl Default for Conv2dOptions {
    fn default() -> Conv2dOptions {
        Conv2dOptions { stride: [1, 1], padding: [0, 0], dilation: [1, 1], groups: 1, bias: true }
    }
}

/// Two-dimensional convolution of `[n, c, h, w]`.
#[derive(Clone, Debug)]
pub struct Conv2d {
    /// `[out_channels, in_channels / groups, height, width]`.
    pub weight: Parameter,
    /// `[out_channels]`.
    pub bias: Option<Parameter>,
    options: Conv2dOptions,
}

impl Conv2d {
    /// A layer, in `float32` on `cpu`.
    ///
    /// # Errors
    /// `Value` when channels cannot be divided into the groups.
    pub fn new(
        in_channels: usize,
        out_channels: usize,
        kernel_size: [usize; 2],
        options: Conv2dOptions,
    ) -> Result<Conv2d> {
        let groups = usize::try_from(options.groups).ok().filter(|g| *g > 0);
        let groups = groups.ok_or_else(|| Error::value("groups must be a positive integer"))?;
        if !in_channels.is_multiple_of(groups) {
            return Err(Error::value("in_channels must be divisible by groups"));
        }
        if !out_channels.is_multiple_of(groups) {
            return Err(Error::value("out_channels must be divisible by groups"));
        }
        let dims = [out_channels, in_channels / groups, kernel_size[0], kernel_size[1]];
        let weight = Tensor::empty(&Meta::new(&dims, DType::F32, Device::CPU))?;
        let bias =
            options.bias.then(|| Tensor::empty(&Meta::new(&[out_channels], DType::F32, Device::CPU))).transpose()?;
        init::linear_default(&weight, bias.as_ref())?;
        Ok(Conv2d { weight: Parameter::new(weight)?, bias: bias.map(Parameter::new).transpose()?, options })
    }
}

impl Module for Conv2d {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let o = &self.options;
        let args = ConvArgs {
            stride: &o.stride,
            padding: Padding::Sizes(&o.padding),
            dilation: &o.dilation,
            groups: o.groups,
            transposed: None,
        };
        convolve(x, &self.weight.tensor(), self.bias.as_ref().map(Parameter::tensor).as_ref(), 2, &args)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.parameter("weight", &self.weight);
        self.bias.iter().for_each(|b| v.parameter("bias", b));
    }
}
