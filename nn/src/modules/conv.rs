//! Convolutions and transposed convolutions over one, two or three dimensions. The number of dimensions is a constant
//! of the type.

use super::{bounded, of_rank, pad};
use crate::{Module, Parameter, Visitor, init};
use torchtpu_tensor::ops::conv::{ConvArgs, Padding, convolve};
use torchtpu_tensor::{Error, Result, Tensor};

/// Values beyond the border of the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PaddingMode {
    /// Zeros.
    #[default]
    Zeros,
    /// The elements next to the border, mirrored.
    Reflect,
    /// The element at the border.
    Replicate,
    /// The elements of the other end.
    Circular,
}

/// Paddings with names in PyTorch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NamedPadding {
    /// As much padding as keeps the size. Requires a stride of one.
    Same,
    /// No padding.
    Valid,
}

/// Settings of [`Conv`]. Lists have one entry per dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConvOptions<const N: usize> {
    /// Distance between neighbouring windows.
    pub stride: [i64; N],
    /// Number of elements added on both sides.
    pub padding: [i64; N],
    /// Padding by name, instead of `padding`.
    pub named_padding: Option<NamedPadding>,
    /// Distance between neighbouring kernel elements.
    pub dilation: [i64; N],
    /// Number of independent groups of channels.
    pub groups: i64,
    /// Whether there is a bias.
    pub bias: bool,
    /// Values of the added elements.
    pub padding_mode: PaddingMode,
}

impl<const N: usize> Default for ConvOptions<N> {
    fn default() -> ConvOptions<N> {
        ConvOptions {
            stride: [1; N],
            padding: [0; N],
            named_padding: None,
            dilation: [1; N],
            groups: 1,
            bias: true,
            padding_mode: PaddingMode::Zeros,
        }
    }
}

/// Settings of [`Conv1d`].
pub type Conv1dOptions = ConvOptions<1>;
/// Settings of [`Conv2d`]; each pair is height and width.
pub type Conv2dOptions = ConvOptions<2>;
/// Settings of [`Conv3d`]; depth, height and width.
pub type Conv3dOptions = ConvOptions<3>;

/// Convolution of `[n, c, *s]` or `[c, *s]` over `N` dimensions.
#[derive(Clone, Debug)]
pub struct Conv<const N: usize> {
    /// Weight of shape `[out_channels, in_channels / groups, *kernel_size]`.
    pub weight: Parameter,
    /// Bias of shape `[out_channels]`.
    pub bias: Option<Parameter>,
    kernel_size: [usize; N],
    options: ConvOptions<N>,
}

/// Convolution over one dimension.
pub type Conv1d = Conv<1>;
/// Convolution over height and width.
pub type Conv2d = Conv<2>;
/// Convolution over depth, height and width.
pub type Conv3d = Conv<3>;

/// Return weight and bias with initial values. `outer` and `inner` are the numbers of channels in the order of the
/// weight.
fn parameters<const N: usize>(
    [outer, inner]: [usize; 2],
    groups: usize,
    kernel_size: [usize; N],
    bias: Option<usize>,
) -> Result<(Parameter, Option<Parameter>)> {
    let dims: Vec<usize> = [outer, inner / groups].into_iter().chain(kernel_size).collect();
    let weight = init::empty(&dims)?;
    let bias = bias.map(|n| init::empty(&[n])).transpose()?;
    init::linear_default(&weight, bias.as_ref())?;
    Ok((Parameter::new(weight)?, bias.map(Parameter::new).transpose()?))
}

fn checked_groups(groups: i64, in_channels: usize, out_channels: usize) -> Result<usize> {
    let groups = usize::try_from(groups).ok().filter(|g| *g > 0);
    let groups = groups.ok_or_else(|| Error::value("groups must be a positive integer"))?;
    if !in_channels.is_multiple_of(groups) {
        return Err(Error::value("in_channels must be divisible by groups"));
    }
    if !out_channels.is_multiple_of(groups) {
        return Err(Error::value("out_channels must be divisible by groups"));
    }
    Ok(groups)
}

impl<const N: usize> Conv<N> {
    /// Make a layer, in `float32` on `cpu`.
    ///
    /// # Errors
    /// Fails with `Value` if the groups do not divide the channels, or if [`NamedPadding::Same`] is used with a stride.
    /// Fails with `Runtime` for sizes that no tensor can have.
    pub fn new(
        in_channels: usize,
        out_channels: usize,
        kernel_size: [usize; N],
        options: ConvOptions<N>,
    ) -> Result<Conv<N>> {
        let o = &options;
        let groups = checked_groups(o.groups, in_channels, out_channels)?;
        if o.named_padding == Some(NamedPadding::Same) && o.stride.iter().any(|&s| s != 1) {
            return Err(Error::value("padding='same' is not supported for strided convolutions"));
        }
        bounded(&[("stride", &o.stride), ("padding", &o.padding), ("dilation", &o.dilation)])?;
        let channels = o.bias.then_some(out_channels);
        let (weight, bias) = parameters([out_channels, in_channels], groups, kernel_size, channels)?;
        Ok(Conv { weight, bias, kernel_size, options })
    }

    /// Return the padding before and after each dimension, the last dimension first.
    fn both_sides(&self) -> Result<Vec<i64>> {
        let (o, mut both) = (&self.options, Vec::with_capacity(2 * N));
        for d in (0..N).rev() {
            match o.named_padding {
                None => both.extend([o.padding[d]; 2]),
                Some(NamedPadding::Valid) => both.extend([0; 2]),
                Some(NamedPadding::Same) => {
                    let reach = i64::try_from(self.kernel_size[d].saturating_sub(1)).ok();
                    let total = reach.and_then(|r| r.checked_mul(o.dilation[d]));
                    let total = total.ok_or_else(|| Error::runtime("padding size is too large"))?;
                    both.extend([total.div_euclid(2), total - total.div_euclid(2)]);
                }
            }
        }
        Ok(both)
    }
}

impl<const N: usize> Module for Conv<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (o, none) = (&self.options, [0; N]);
        let mode = match o.padding_mode {
            PaddingMode::Zeros => None,
            PaddingMode::Reflect => Some("reflect"),
            PaddingMode::Replicate => Some("replicate"),
            PaddingMode::Circular => Some("circular"),
        };
        let (x, padding) = match (mode, o.named_padding) {
            (Some(mode), _) => (&pad(x, &self.both_sides()?, mode, None)?, Padding::Sizes(&none)),
            (None, None) => (x, Padding::Sizes(&o.padding[..])),
            (None, Some(NamedPadding::Same)) => (x, Padding::Named("same")),
            (None, Some(NamedPadding::Valid)) => (x, Padding::Named("valid")),
        };
        let args = ConvArgs { stride: &o.stride, padding, dilation: &o.dilation, groups: o.groups, transposed: None };
        convolve(x, &self.weight.tensor(), self.bias.as_ref().map(Parameter::tensor).as_ref(), N, &args)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.parameter("weight", &self.weight);
        self.bias.iter().for_each(|b| v.parameter("bias", b));
    }
    fn name(&self) -> &'static str {
        of_rank::<N>(["Conv1d", "Conv2d", "Conv3d"])
    }
}

/// Settings of [`ConvTranspose`]. Lists have one entry per dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConvTransposeOptions<const N: usize> {
    /// Distance between neighbouring windows of the output.
    pub stride: [i64; N],
    /// Number of elements removed on both sides.
    pub padding: [i64; N],
    /// Number of elements added at the end.
    pub output_padding: [i64; N],
    /// Number of independent groups of channels.
    pub groups: i64,
    /// Whether there is a bias.
    pub bias: bool,
    /// Distance between neighbouring kernel elements.
    pub dilation: [i64; N],
}

impl<const N: usize> Default for ConvTransposeOptions<N> {
    fn default() -> ConvTransposeOptions<N> {
        ConvTransposeOptions {
            stride: [1; N],
            padding: [0; N],
            output_padding: [0; N],
            groups: 1,
            bias: true,
            dilation: [1; N],
        }
    }
}

/// Settings of [`ConvTranspose1d`].
pub type ConvTranspose1dOptions = ConvTransposeOptions<1>;
/// Settings of [`ConvTranspose2d`].
pub type ConvTranspose2dOptions = ConvTransposeOptions<2>;
/// Settings of [`ConvTranspose3d`].
pub type ConvTranspose3dOptions = ConvTransposeOptions<3>;

/// Transposed convolution: the gradient of a convolution for its input, as a layer. Maps `[n, in, *s]` to
/// `[n, out, *os]`.
#[derive(Clone, Debug)]
pub struct ConvTranspose<const N: usize> {
    /// Weight of shape `[in_channels, out_channels / groups, *kernel_size]`.
    pub weight: Parameter,
    /// Bias of shape `[out_channels]`.
    pub bias: Option<Parameter>,
    kernel_size: [usize; N],
    options: ConvTransposeOptions<N>,
}

/// Transposed convolution over one dimension.
pub type ConvTranspose1d = ConvTranspose<1>;
/// Transposed convolution over height and width.
pub type ConvTranspose2d = ConvTranspose<2>;
/// Transposed convolution over depth, height and width.
pub type ConvTranspose3d = ConvTranspose<3>;

impl<const N: usize> ConvTranspose<N> {
    /// Make a layer, in `float32` on `cpu`.
    ///
    /// # Errors
    /// Fails with `Value` if the groups do not divide the channels. Fails with `Runtime` for sizes that no tensor can
    /// have.
    pub fn new(
        in_channels: usize,
        out_channels: usize,
        kernel_size: [usize; N],
        options: ConvTransposeOptions<N>,
    ) -> Result<ConvTranspose<N>> {
        let o = &options;
        let groups = checked_groups(o.groups, in_channels, out_channels)?;
        bounded(&[
            ("stride", &o.stride),
            ("padding", &o.padding),
            ("output_padding", &o.output_padding),
            ("dilation", &o.dilation),
        ])?;
        // Only the weight's second dimension is divided by the groups.
        let dims = [in_channels, out_channels];
        let (weight, bias) = parameters(dims, groups, kernel_size, o.bias.then_some(out_channels))?;
        Ok(ConvTranspose { weight, bias, kernel_size, options })
    }

    fn run(&self, x: &Tensor, output_padding: &[i64]) -> Result<Tensor> {
        let o = &self.options;
        let args = ConvArgs {
            stride: &o.stride,
            padding: Padding::Sizes(&o.padding),
            dilation: &o.dilation,
            groups: o.groups,
            transposed: Some(output_padding),
        };
        convolve(x, &self.weight.tensor(), self.bias.as_ref().map(Parameter::tensor).as_ref(), N, &args)
    }

    /// Compute an output of the given size, for all dimensions or for the last `N`. Several output sizes have the same
    /// convolution. `output_size` chooses one of them, instead of `output_padding`.
    ///
    /// # Errors
    /// Fails with `Value` if no convolution from that size gives the input's size.
    pub fn forward_with_output_size(&self, x: &Tensor, output_size: &[i64]) -> Result<Tensor> {
        let (o, rank) = (&self.options, x.dims().len());
        let leading = if rank == N + 2 { 2 } else { 1 };
        if rank != leading + N {
            return self.run(x, &o.output_padding);
        }
        let wanted = if output_size.len() == leading + N { &output_size[leading..] } else { output_size };
        if wanted.len() != N {
            return Err(Error::value(format!(
                "ConvTranspose{N}D: for {rank}D input, output_size must have {N} or {} elements (got {})",
                leading + N,
                output_size.len()
            )));
        }
        let smallest: [i128; N] = std::array::from_fn(|d| {
            let reach = i128::from(o.dilation[d]) * (self.kernel_size[d] as i128 - 1);
            (x.dims()[leading + d] as i128 - 1) * i128::from(o.stride[d]) - 2 * i128::from(o.padding[d]) + reach + 1
        });
        let largest: [i128; N] = std::array::from_fn(|d| smallest[d] + i128::from(o.stride[d]) - 1);
        let more: [i128; N] = std::array::from_fn(|d| i128::from(wanted[d]) - smallest[d]);
        if (0..N).any(|d| more[d] < 0 || i128::from(wanted[d]) > largest[d]) {
            return Err(Error::value(format!(
                "requested an output size of {wanted:?}, but valid sizes range from {smallest:?} to {largest:?} (for \
                an input of torch.Size({:?}))",
                &x.dims()[2.min(rank)..]
            )));
        }
        self.run(x, &more.map(|n| n as i64))
    }
}

impl<const N: usize> Module for ConvTranspose<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.run(x, &self.options.output_padding)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.parameter("weight", &self.weight);
        self.bias.iter().for_each(|b| v.parameter("bias", b));
    }
    fn name(&self) -> &'static str {
        of_rank::<N>(["ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"])
    }
}
