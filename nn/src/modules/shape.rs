//! Layers that rearrange or resize.

use super::bounded;
use crate::{Module, Visitor};
use torchtpu_tensor::schema::Arg;
use torchtpu_tensor::{Error, Result, Tensor, ops};

/// Split one dimension into several.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unflatten {
    /// Dimension to split. Negative numbers count from the end.
    pub dim: i64,
    /// Sizes of the new dimensions. One of them may be -1.
    pub unflattened_size: Vec<i64>,
}

impl Unflatten {
    /// Make a layer.
    pub fn new(dim: i64, unflattened_size: &[i64]) -> Unflatten {
        Unflatten { dim, unflattened_size: unflattened_size.to_vec() }
    }
}

impl Module for Unflatten {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.unflatten(self.dim, &self.unflattened_size)
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}

/// Define a layer of one number that calls the named op, from one line each.
macro_rules! shuffles {
    ($($doc:literal $ty:ident $field:ident $field_doc:literal $op:literal;)*) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $ty {
            #[doc = $field_doc]
            pub $field: i64,
        }
        impl $ty {
            /// Make a layer.
            pub fn new($field: i64) -> $ty {
                $ty { $field }
            }
        }
        impl Module for $ty {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                bounded(&[(stringify!($field), &[self.$field])])?;
                ops::call_tensor($op, &[Arg::Tensor(x), Arg::Scalar(self.$field.into())])
            }
            fn visit(&self, _: &mut Visitor<'_>) {}
        }
    )*};
}

shuffles! {
    "Moves channels into space: `[*, c * r^2, h, w]` becomes `[*, c, h * r, w * r]`." PixelShuffle upscale_factor
        "The `r`." "pixel_shuffle";
    "Moves space into channels: `[*, c, h * r, w * r]` becomes `[*, c * r^2, h, w]`." PixelUnshuffle downscale_factor
        "The `r`." "pixel_unshuffle";
    "Takes channels of `[n, c, *s]` from each group in turn." ChannelShuffle groups "How many groups there are."
        "channel_shuffle";
}

/// Copy the sliding blocks of `[n, c, h, w]` to columns `[n, c * kernel, blocks]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unfold {
    /// Sizes of a block.
    pub kernel_size: [i64; 2],
    /// Distance between neighbouring elements of a block.
    pub dilation: [i64; 2],
    /// Number of zeros added on both sides.
    pub padding: [i64; 2],
    /// Distance between neighbouring blocks.
    pub stride: [i64; 2],
}

impl Unfold {
    /// Make a layer with a block at every position.
    pub fn new(kernel_size: [i64; 2]) -> Unfold {
        Unfold { kernel_size, dilation: [1; 2], padding: [0; 2], stride: [1; 2] }
    }

    fn numbers(&self) -> Result<[Arg<'_>; 4]> {
        let all = [&self.kernel_size, &self.dilation, &self.padding, &self.stride];
        bounded(&[("kernel_size", all[0]), ("dilation", all[1]), ("padding", all[2]), ("stride", all[3])])?;
        Ok(all.map(|v| Arg::Ints(&v[..])))
    }
}

impl Module for Unfold {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let [kernel, dilation, padding, stride] = self.numbers()?;
        ops::call_tensor("im2col", &[Arg::Tensor(x), kernel, dilation, padding, stride])
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}

/// Sum columns, as [`Unfold`] makes them, to `[n, c, h, w]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fold {
    /// Height and width of the result.
    pub output_size: [i64; 2],
    /// The layer that made the columns.
    pub blocks: Unfold,
}

impl Fold {
    /// Make a layer for columns with a block at every position.
    pub fn new(output_size: [i64; 2], kernel_size: [i64; 2]) -> Fold {
        Fold { output_size, blocks: Unfold::new(kernel_size) }
    }
}

impl Module for Fold {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        bounded(&[("output_size", &self.output_size)])?;
        let [kernel, dilation, padding, stride] = self.blocks.numbers()?;
        let args = [Arg::Tensor(x), Arg::Ints(&self.output_size), kernel, dilation, padding, stride];
        ops::call_tensor("col2im", &args)
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}

/// How [`Upsample`] computes values between elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UpsampleMode {
    /// The element at or before the position.
    #[default]
    Nearest,
    /// The element with the nearest centre.
    NearestExact,
    /// Linear interpolation, for `[n, c, l]`.
    Linear,
    /// Linear interpolation in two directions, for `[n, c, h, w]`.
    Bilinear,
    /// Cubic interpolation in two directions, for `[n, c, h, w]`.
    Bicubic,
    /// Linear interpolation in three directions, for `[n, c, d, h, w]`.
    Trilinear,
}

impl UpsampleMode {
    fn name(self) -> &'static str {
        match self {
            UpsampleMode::Nearest => "nearest",
            UpsampleMode::NearestExact => "nearest-exact",
            UpsampleMode::Linear => "linear",
            UpsampleMode::Bilinear => "bilinear",
            UpsampleMode::Bicubic => "bicubic",
            UpsampleMode::Trilinear => "trilinear",
        }
    }
}

/// Resize the dimensions after the second. A list of one entry applies to all of them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Upsample {
    /// Output sizes. Either these or `scale_factor` must be given.
    pub size: Option<Vec<i64>>,
    /// Factors of the input's sizes.
    pub scale_factor: Option<Vec<f64>>,
    /// How values between elements are computed.
    pub mode: UpsampleMode,
    /// Whether the outermost elements keep their positions. Not for the nearest modes.
    pub align_corners: Option<bool>,
    /// Whether to recompute the factors from the resulting sizes.
    pub recompute_scale_factor: bool,
}

impl Upsample {
    /// Resize to the given sizes.
    pub fn to_size(size: &[i64], mode: UpsampleMode) -> Upsample {
        Upsample { size: Some(size.to_vec()), mode, ..Upsample::default() }
    }
    /// Resize by the given factors.
    pub fn by_factor(scale_factor: &[f64], mode: UpsampleMode) -> Upsample {
        Upsample { scale_factor: Some(scale_factor.to_vec()), mode, ..Upsample::default() }
    }
}

/// Return one entry per dimension.
fn spread<T: Copy + std::fmt::Debug>(v: &[T], x: &Tensor, words: [&str; 2]) -> Result<Vec<T>> {
    let places = x.dims().get(2..).unwrap_or_default();
    match v {
        [one] => Ok(vec![*one; places.len()]),
        _ if v.len() == places.len() => Ok(v.to_vec()),
        _ => {
            let [first, second] = words;
            Err(Error::value(format!(
                "Input and {first} must have the same number of spatial dimensions, but got input with spatial \
                dimensions of {places:?} and {second} {v:?}."
            )))
        }
    }
}

impl Module for Upsample {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let nearest = matches!(self.mode, UpsampleMode::Nearest | UpsampleMode::NearestExact);
        if nearest && self.align_corners.is_some() {
            return Err(Error::value(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | \
                trilinear",
            ));
        }
        let (mut size, mut factors) = match (&self.size, &self.scale_factor) {
            (Some(_), Some(_)) => return Err(Error::value("only one of size or scale_factor should be defined")),
            (None, None) => return Err(Error::value("either size or scale_factor should be defined")),
            (Some(v), None) => (Some(spread(v, x, ["output", "output size of"])?), None),
            (None, Some(v)) => (None, Some(spread(v, x, ["scale_factor", "scale_factor of shape"])?)),
        };
        if self.recompute_scale_factor {
            let factors = factors.take();
            let factors = factors
                .ok_or_else(|| Error::value("recompute_scale_factor is not meaningful with an explicit size."))?;
            size = Some(x.dims()[2..].iter().zip(factors).map(|(&n, f)| (n as f64 * f).floor() as i64).collect());
        }
        let rank = x.dims().len();
        let op = match (rank, self.mode) {
            (3, UpsampleMode::Nearest) => "upsample_nearest1d.vec",
            (4, UpsampleMode::Nearest) => "upsample_nearest2d.vec",
            (5, UpsampleMode::Nearest) => "upsample_nearest3d.vec",
            (3, UpsampleMode::NearestExact) => "_upsample_nearest_exact1d.vec",
            (4, UpsampleMode::NearestExact) => "_upsample_nearest_exact2d.vec",
            (5, UpsampleMode::NearestExact) => "_upsample_nearest_exact3d.vec",
            (3, UpsampleMode::Linear) => "upsample_linear1d.vec",
            (4, UpsampleMode::Bilinear) => "upsample_bilinear2d.vec",
            (4, UpsampleMode::Bicubic) => "upsample_bicubic2d.vec",
            (5, UpsampleMode::Trilinear) => "upsample_trilinear3d.vec",
            (3..=5, UpsampleMode::Linear | UpsampleMode::Bilinear | UpsampleMode::Trilinear) => {
                let wanted = match self.mode {
                    UpsampleMode::Linear => "3D",
                    UpsampleMode::Bilinear => "4D",
                    _ => "5D",
                };
                return Err(Error::not_implemented(format!(
                    "Got {rank}D input, but {} mode needs {wanted} input",
                    self.mode.name()
                )));
            }
            _ => {
                return Err(Error::not_implemented(format!(
                    "Input Error: Only 3D, 4D and 5D input Tensors supported (got {rank}D) for the modes: nearest | \
                    linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got {})",
                    self.mode.name()
                )));
            }
        };
        // Check sizes that no tensor can have here. Otherwise they would overflow when they are multiplied.
        let places = x.dims().iter().skip(2);
        let computed: Vec<i64> = match (&size, &factors) {
            (Some(v), _) => v.clone(),
            (None, Some(f)) => places.zip(f).map(|(&n, f)| (n as f64 * f) as i64).collect(),
            (None, None) => Vec::new(),
        };
        bounded(&[("output size", &computed)])?;
        let mut args = vec![Arg::Tensor(x), size.as_deref().map_or(Arg::None, Arg::Ints)];
        if !nearest {
            args.push(Arg::Scalar(self.align_corners.unwrap_or(false).into()));
        }
        args.push(factors.as_deref().map_or(Arg::None, Arg::Floats));
        ops::call_tensor(op, &args)
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}
