//! Pooling over one, two or three dimensions.

use super::{bounded, dims_of_places, of_rank};
use crate::{Module, Visitor, init};
use torchtpu_tensor::schema::Arg;
use torchtpu_tensor::{Error, Result, Tensor, ops};

/// Take the largest element of each window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxPool<const N: usize> {
    /// Sizes of a window.
    pub kernel_size: [i64; N],
    /// Distance between neighbouring windows.
    pub stride: [i64; N],
    /// Number of elements added on both sides, which are never the maximum.
    pub padding: [i64; N],
    /// Distance between neighbouring elements of a window.
    pub dilation: [i64; N],
    /// Whether to include windows that only start inside the input.
    pub ceil_mode: bool,
}

/// Maximum pooling over one dimension.
pub type MaxPool1d = MaxPool<1>;
/// Maximum pooling over height and width.
pub type MaxPool2d = MaxPool<2>;
/// Maximum pooling over depth, height and width.
pub type MaxPool3d = MaxPool<3>;

impl<const N: usize> MaxPool<N> {
    /// Make a layer with windows of equal sides that do not overlap.
    pub fn new(kernel_size: i64) -> MaxPool<N> {
        let all = [kernel_size; N];
        MaxPool { kernel_size: all, stride: all, padding: [0; N], dilation: [1; N], ceil_mode: false }
    }

    fn args<'a>(&'a self, x: &'a Tensor) -> Result<[Arg<'a>; 6]> {
        bounded(&[
            ("kernel_size", &self.kernel_size),
            ("stride", &self.stride),
            ("padding", &self.padding),
            ("dilation", &self.dilation),
        ])?;
        Ok([
            Arg::Tensor(x),
            Arg::Ints(&self.kernel_size),
            Arg::Ints(&self.stride),
            Arg::Ints(&self.padding),
            Arg::Ints(&self.dilation),
            Arg::Scalar(self.ceil_mode.into()),
        ])
    }

    /// Return the maxima, and their positions in each plane, as [`MaxUnpool`] takes them.
    ///
    /// # Errors
    /// Fails with `Runtime` if the input or the windows do not fit.
    pub fn forward_with_indices(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let names = ["max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices"];
        ops::call_pair(of_rank::<N>(names), &self.args(x)?)
    }
}

impl<const N: usize> Module for MaxPool<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::call_tensor(of_rank::<N>(["max_pool1d", "max_pool2d", "max_pool3d"]), &self.args(x)?)
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
    fn name(&self) -> &'static str {
        of_rank::<N>(["MaxPool1d", "MaxPool2d", "MaxPool3d"])
    }
}

/// Write maxima of [`MaxPool`] back to their positions, with zeros elsewhere. It takes two tensors, so it is not a
/// [`Module`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxUnpool<const N: usize> {
    /// Sizes of a window.
    pub kernel_size: [i64; N],
    /// Distance between neighbouring windows.
    pub stride: [i64; N],
    /// Number of elements that the pooling added on both sides.
    pub padding: [i64; N],
}

/// Inverse of [`MaxPool1d`].
pub type MaxUnpool1d = MaxUnpool<1>;
/// Inverse of [`MaxPool2d`].
pub type MaxUnpool2d = MaxUnpool<2>;
/// Inverse of [`MaxPool3d`].
pub type MaxUnpool3d = MaxUnpool<3>;

impl<const N: usize> MaxUnpool<N> {
    /// Make a layer with windows of equal sides that do not overlap.
    pub fn new(kernel_size: i64) -> MaxUnpool<N> {
        MaxUnpool { kernel_size: [kernel_size; N], stride: [kernel_size; N], padding: [0; N] }
    }

    /// Write maxima back to their positions. Several sizes pool to the same size. `output_size` chooses one of them,
    /// for all dimensions or for the last `N`.
    ///
    /// # Errors
    /// Fails with `Value` if `output_size` does not pool to the input's size. Fails with `Runtime` for indices that do
    /// not fit.
    pub fn unpool(&self, x: &Tensor, indices: &Tensor, output_size: Option<&[i64]>) -> Result<Tensor> {
        let (kernel, stride, padding) = (&self.kernel_size, &self.stride, &self.padding);
        bounded(&[("kernel_size", kernel), ("stride", stride), ("padding", padding)])?;
        let places = dims_of_places::<N>(x, "MaxUnpool")?;
        // Sizes are less than 2^63 and steps less than 2^31.
        let natural: [i128; N] = std::array::from_fn(|d| {
            (i128::from(places[d]) - 1) * i128::from(stride[d]) + i128::from(kernel[d]) - 2 * i128::from(padding[d])
        });
        let mut size = natural;
        if let Some(given) = output_size {
            let wanted = if given.len() == N + 2 { &given[2..] } else { given };
            if wanted.len() != N {
                return Err(Error::value(format!(
                    "output_size should be a sequence containing {N} or {} elements, but it has a length of '{}'",
                    N + 2,
                    given.len()
                )));
            }
            for d in 0..N {
                let (low, high) = (natural[d] - i128::from(stride[d]), natural[d] + i128::from(stride[d]));
                size[d] = i128::from(wanted[d]);
                if size[d] <= low || size[d] >= high {
                    return Err(Error::value(format!(
                        "invalid output_size \"{wanted:?}\" (dim {d} must be between {low} and {high})"
                    )));
                }
            }
        }
        let large = |_| Error::runtime("the output of max_unpool is too large");
        let mut size = size.iter().map(|&n| i64::try_from(n).map_err(large)).collect::<Result<Vec<i64>>>()?;
        match N {
            1 => {
                size.push(1);
                let (x, at) = (x.unsqueeze(-1)?, indices.unsqueeze(-1)?);
                let args = [Arg::Tensor(&x), Arg::Tensor(&at), Arg::Ints(&size)];
                ops::call_tensor("max_unpool2d", &args)?.squeeze(-1)
            }
            2 => ops::call_tensor("max_unpool2d", &[Arg::Tensor(x), Arg::Tensor(indices), Arg::Ints(&size)]),
            _ => {
                let args =
                    [Arg::Tensor(x), Arg::Tensor(indices), Arg::Ints(&size), Arg::Ints(stride), Arg::Ints(padding)];
                ops::call_tensor("max_unpool3d", &args)
            }
        }
    }
}

/// Take the mean of each window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AvgPool<const N: usize> {
    /// Sizes of a window.
    pub kernel_size: [i64; N],
    /// Distance between neighbouring windows.
    pub stride: [i64; N],
    /// Number of zeros added on both sides.
    pub padding: [i64; N],
    /// Whether to include windows that only start inside the input.
    pub ceil_mode: bool,
    /// Whether added zeros count as elements.
    pub count_include_pad: bool,
    /// Divisor of sums, instead of the number of elements. Not for one dimension.
    pub divisor_override: Option<i64>,
}

/// Average pooling over one dimension.
pub type AvgPool1d = AvgPool<1>;
/// Average pooling over height and width.
pub type AvgPool2d = AvgPool<2>;
/// Average pooling over depth, height and width.
pub type AvgPool3d = AvgPool<3>;

impl<const N: usize> AvgPool<N> {
    /// Make a layer with windows of equal sides that do not overlap.
    pub fn new(kernel_size: i64) -> AvgPool<N> {
        AvgPool {
            kernel_size: [kernel_size; N],
            stride: [kernel_size; N],
            padding: [0; N],
            ceil_mode: false,
            count_include_pad: true,
            divisor_override: None,
        }
    }
}

impl<const N: usize> Module for AvgPool<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        bounded(&[("kernel_size", &self.kernel_size), ("stride", &self.stride), ("padding", &self.padding)])?;
        let mut args = vec![
            Arg::Tensor(x),
            Arg::Ints(&self.kernel_size),
            Arg::Ints(&self.stride),
            Arg::Ints(&self.padding),
            Arg::Scalar(self.ceil_mode.into()),
            Arg::Scalar(self.count_include_pad.into()),
        ];
        match self.divisor_override {
            Some(_) if N == 1 => {
                return Err(Error::type_error("AvgPool1d: divisor_override: is for two and three dimensions"));
            }
            Some(n) => args.push(Arg::Scalar(n.into())),
            None => {}
        }
        ops::call_tensor(of_rank::<N>(["avg_pool1d", "avg_pool2d", "avg_pool3d"]), &args)
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
    fn name(&self) -> &'static str {
        of_rank::<N>(["AvgPool1d", "AvgPool2d", "AvgPool3d"])
    }
}

/// Take the norm of each window: `(sum of x^p)^(1/p)`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LPPool<const N: usize> {
    /// The power `p`. Infinity gives the largest magnitude.
    pub norm_type: f64,
    /// Sizes of a window.
    pub kernel_size: [i64; N],
    /// Distance between neighbouring windows.
    pub stride: [i64; N],
    /// Whether to include windows that only start inside the input.
    pub ceil_mode: bool,
}

/// Norm pooling over one dimension.
pub type LPPool1d = LPPool<1>;
/// Norm pooling over height and width.
pub type LPPool2d = LPPool<2>;
/// Norm pooling over depth, height and width.
pub type LPPool3d = LPPool<3>;

impl<const N: usize> LPPool<N> {
    /// Make a layer with windows of equal sides that do not overlap.
    pub fn new(norm_type: f64, kernel_size: i64) -> LPPool<N> {
        LPPool { norm_type, kernel_size: [kernel_size; N], stride: [kernel_size; N], ceil_mode: false }
    }
}

impl<const N: usize> Module for LPPool<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let LPPool { norm_type, kernel_size, stride, ceil_mode } = *self;
        if norm_type == 0.0 {
            return Err(Error::value("norm_type must be a non-zero value, but got 0.0"));
        }
        let of = |name: &str, x: &Tensor| ops::call_tensor(name, &[Arg::Tensor(x)]);
        let by = |name: &str, x: &Tensor, v: f64| ops::call_tensor(name, &[Arg::Tensor(x), Arg::Scalar(v.into())]);
        if norm_type == f64::INFINITY {
            let pool = MaxPool { stride, kernel_size, ceil_mode, ..MaxPool::<N>::new(1) };
            return pool.forward(&of("abs", x)?);
        }
        let pool = AvgPool { stride, kernel_size, ceil_mode, ..AvgPool::<N>::new(1) };
        let mean = pool.forward(&by("pow.Tensor_Tensor", x, norm_type)?)?;
        let size: f64 = kernel_size.iter().map(|&k| k as f64).product();
        let sum = by("mul.Tensor", &of("sign", &mean)?.mul(&of("relu", &of("abs", &mean)?)?)?, size)?;
        by("pow.Tensor_Tensor", &sum, 1.0 / norm_type)
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
    fn name(&self) -> &'static str {
        of_rank::<N>(["LPPool1d", "LPPool2d", "LPPool3d"])
    }
}

/// Return the sizes of an adaptive pooling: the given ones, and the input's for `None`.
fn adaptive_sizes<const N: usize>(x: &Tensor, given: &[Option<i64>; N]) -> [i64; N] {
    // The op refuses an input without these dimensions.
    let first = x.dims().len().saturating_sub(N);
    std::array::from_fn(|d| given[d].unwrap_or_else(|| x.dims().get(first + d).map_or(1, |&n| n as i64)))
}

/// Take the mean of windows that are chosen to give the output's size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdaptiveAvgPool<const N: usize> {
    /// Sizes of the output. `None` means the size of the input.
    pub output_size: [Option<i64>; N],
}

/// Adaptive average pooling over one dimension.
pub type AdaptiveAvgPool1d = AdaptiveAvgPool<1>;
/// Adaptive average pooling over height and width.
pub type AdaptiveAvgPool2d = AdaptiveAvgPool<2>;
/// Adaptive average pooling over depth, height and width.
pub type AdaptiveAvgPool3d = AdaptiveAvgPool<3>;

impl<const N: usize> AdaptiveAvgPool<N> {
    /// Make a layer with an output of equal sides.
    pub fn new(output_size: i64) -> AdaptiveAvgPool<N> {
        AdaptiveAvgPool { output_size: [Some(output_size); N] }
    }
}

impl<const N: usize> Module for AdaptiveAvgPool<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let size = adaptive_sizes(x, &self.output_size);
        bounded(&[("output_size", &size)])?;
        let names = ["adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"];
        ops::call_tensor(of_rank::<N>(names), &[Arg::Tensor(x), Arg::Ints(&size)])
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
    fn name(&self) -> &'static str {
        of_rank::<N>(["AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d"])
    }
}

/// Take the maximum of windows that are chosen to give the output's size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdaptiveMaxPool<const N: usize> {
    /// Sizes of the output. `None` means the size of the input.
    pub output_size: [Option<i64>; N],
}

/// Adaptive maximum pooling over one dimension.
pub type AdaptiveMaxPool1d = AdaptiveMaxPool<1>;
/// Adaptive maximum pooling over height and width.
pub type AdaptiveMaxPool2d = AdaptiveMaxPool<2>;
/// Adaptive maximum pooling over depth, height and width.
pub type AdaptiveMaxPool3d = AdaptiveMaxPool<3>;

impl<const N: usize> AdaptiveMaxPool<N> {
    /// Make a layer with an output of equal sides.
    pub fn new(output_size: i64) -> AdaptiveMaxPool<N> {
        AdaptiveMaxPool { output_size: [Some(output_size); N] }
    }

    /// Return the maxima, and their positions in each plane.
    ///
    /// # Errors
    /// Fails with `Runtime` if the input does not fit.
    pub fn forward_with_indices(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let size = adaptive_sizes(x, &self.output_size);
        bounded(&[("output_size", &size)])?;
        let names = ["adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"];
        ops::call_pair(of_rank::<N>(names), &[Arg::Tensor(x), Arg::Ints(&size)])
    }
}

impl<const N: usize> Module for AdaptiveMaxPool<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.forward_with_indices(x)?.0)
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
    fn name(&self) -> &'static str {
        of_rank::<N>(["AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d"])
    }
}

/// The output size of a fractional pooling.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FractionalOutput<const N: usize> {
    /// The sizes themselves.
    Size([i64; N]),
    /// Ratios of output to input sizes.
    Ratio([f64; N]),
}

/// Take the maximum of windows at random positions, over two or three dimensions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FractionalMaxPool<const N: usize> {
    kernel_size: [i64; N],
    output: FractionalOutput<N>,
}

/// Fractional maximum pooling over height and width.
pub type FractionalMaxPool2d = FractionalMaxPool<2>;
/// Fractional maximum pooling over depth, height and width.
pub type FractionalMaxPool3d = FractionalMaxPool<3>;

impl<const N: usize> FractionalMaxPool<N> {
    /// Make a layer.
    ///
    /// # Errors
    /// Fails with `Value` for empty windows, and for ratios that are not between zero and one.
    pub fn new(kernel_size: [i64; N], output: FractionalOutput<N>) -> Result<FractionalMaxPool<N>> {
        const { assert!(N == 2 || N == 3, "fractional pooling is over two or three dimensions") };
        if kernel_size.iter().any(|&k| k <= 0) {
            return Err(Error::value(format!("kernel_size must greater than zero, but got {kernel_size:?}")));
        }
        bounded(&[("kernel_size", &kernel_size)])?;
        match &output {
            FractionalOutput::Size(size) => bounded(&[("output_size", size)])?,
            FractionalOutput::Ratio(ratio) if ratio.iter().all(|r| 0.0 < *r && *r < 1.0) => {}
            FractionalOutput::Ratio(ratio) => {
                return Err(Error::value(format!("output_ratio must be between 0 and 1 (got {ratio:?})")));
            }
        }
        Ok(FractionalMaxPool { kernel_size, output })
    }

    /// Return the maxima, and their positions in each plane.
    ///
    /// # Errors
    /// Fails with `Runtime` if the input or the windows do not fit.
    pub fn forward_with_indices(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let places = dims_of_places::<N>(x, "FractionalMaxPool")?;
        let d = x.dims();
        let size = match &self.output {
            FractionalOutput::Size(size) => *size,
            FractionalOutput::Ratio(ratio) => std::array::from_fn(|i| (places[i] as f64 * ratio[i]) as i64),
        };
        let batch = if d.len() == N + 1 { 1 } else { d[0] };
        let samples = Tensor::zeros(&[batch, d[d.len() - N - 1], N], x.dtype(), x.place())?;
        init::uniform_(&samples, 0.0, 1.0, None)?;
        let args = [Arg::Tensor(x), Arg::Ints(&self.kernel_size), Arg::Ints(&size), Arg::Tensor(&samples)];
        ops::call_pair(of_rank::<N>(["", "fractional_max_pool2d", "fractional_max_pool3d"]), &args)
    }
}

impl<const N: usize> Module for FractionalMaxPool<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.forward_with_indices(x)?.0)
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
    fn name(&self) -> &'static str {
        of_rank::<N>(["", "FractionalMaxPool2d", "FractionalMaxPool3d"])
    }
}
