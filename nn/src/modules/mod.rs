//! The layers.

mod activation;
mod attention;
mod container;
mod conv;
mod distance;
mod dropout;
mod linear;
mod norm;
mod padding;
mod pooling;
mod rnn;
mod shape;
mod sparse;
mod transformer;

pub use activation::{
    CELU, ELU, GELU, GLU, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, LeakyReLU, LogSigmoid, LogSoftmax, Mish, PReLU,
    RReLU, ReLU, ReLU6, SELU, SiLU, Sigmoid, Softmax, Softmax2d, Softmin, Softplus, Softshrink, Softsign, Tanh,
    Tanhshrink, Threshold,
};
pub use attention::{AttentionMask, MultiheadAttention, MultiheadAttentionOptions};
pub use container::{ModuleDict, ModuleList, Sequential};
pub use conv::{
    Conv, Conv1d, Conv1dOptions, Conv2d, Conv2dOptions, Conv3d, Conv3dOptions, ConvOptions, ConvTranspose,
    ConvTranspose1d, ConvTranspose1dOptions, ConvTranspose2d, ConvTranspose2dOptions, ConvTranspose3d,
    ConvTranspose3dOptions, ConvTransposeOptions, NamedPadding, PaddingMode,
};
pub use distance::{CosineSimilarity, PairwiseDistance};
pub use dropout::{AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout};
pub use linear::{Bilinear, Flatten, Identity, Linear};
pub use norm::{
    BatchNorm1d, BatchNorm2d, BatchNorm3d, ChannelNorm, GroupNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d,
    LayerNorm, LayerNormOptions, LocalResponseNorm, NormOptions, RMSNorm,
};
pub use padding::{
    CircularPad, CircularPad1d, CircularPad2d, CircularPad3d, ConstantPad, ConstantPad1d, ConstantPad2d, ConstantPad3d,
    ReflectionPad, ReflectionPad1d, ReflectionPad2d, ReflectionPad3d, ReplicationPad, ReplicationPad1d,
    ReplicationPad2d, ReplicationPad3d, ZeroPad, ZeroPad1d, ZeroPad2d, ZeroPad3d,
};
pub use pooling::{
    AdaptiveAvgPool, AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool, AdaptiveMaxPool1d,
    AdaptiveMaxPool2d, AdaptiveMaxPool3d, AvgPool, AvgPool1d, AvgPool2d, AvgPool3d, FractionalMaxPool,
    FractionalMaxPool2d, FractionalMaxPool3d, FractionalOutput, LPPool, LPPool1d, LPPool2d, LPPool3d, MaxPool,
    MaxPool1d, MaxPool2d, MaxPool3d, MaxUnpool, MaxUnpool1d, MaxUnpool2d, MaxUnpool3d,
};
pub use rnn::{GRU, GRUCell, LSTM, LSTMCell, RNN, RNNCell, RnnNonlinearity, RnnOptions};
pub use shape::{ChannelShuffle, Fold, PixelShuffle, PixelUnshuffle, Unflatten, Unfold, Upsample, UpsampleMode};
pub use sparse::{BagMode, Embedding, EmbeddingBag, EmbeddingBagOptions, EmbeddingOptions};
pub use transformer::{
    Activation, Transformer, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer,
    TransformerOptions, generate_square_subsequent_mask,
};

use torchtpu_tensor::schema::Arg;
use torchtpu_tensor::{Error, Result, Tensor, ops};

/// Return the name for one, two or three dimensions.
fn of_rank<const N: usize>(names: [&'static str; 3]) -> &'static str {
    const { assert!(N >= 1 && N <= 3, "layers are over one, two or three dimensions") };
    names[N - 1]
}

/// Refuse numbers for which the ops' sums of products could overflow 64 bits.
fn bounded(all: &[(&str, &[i64])]) -> Result<()> {
    for (name, v) in all {
        if let Some(n) = v.iter().find(|n| i32::try_from(**n).is_err()) {
            return Err(Error::runtime(format!("{name} {n} is too large")));
        }
    }
    Ok(())
}

/// Like `torch.nn.functional.pad`.
fn pad(x: &Tensor, widths: &[i64], mode: &str, value: Option<f64>) -> Result<Tensor> {
    bounded(&[("padding size", widths)])?;
    let value = value.map_or(Arg::None, |v| Arg::Scalar(v.into()));
    ops::call_tensor("pad", &[Arg::Tensor(x), Arg::Ints(widths), Arg::Str(mode), value])
}

/// Return the last `N` sizes of `[n, c, *s]` or `[c, *s]`.
fn dims_of_places<const N: usize>(x: &Tensor, layer: &str) -> Result<[i64; N]> {
    let d = x.dims();
    if d.len() != N + 1 && d.len() != N + 2 {
        return Err(Error::runtime(format!(
            "{layer}{N}d: input: is of size {d}, must have {} or {} dimensions",
            N + 1,
            N + 2
        )));
    }
    Ok(std::array::from_fn(|i| d[d.len() - N + i] as i64))
}
