//! Dropout.

use crate::{Module, Training, Visitor};
use torchtpu_tensor::ops;
use torchtpu_tensor::ops::dropout::dropout;
use torchtpu_tensor::schema::Arg;
use torchtpu_tensor::{Error, Result, Scalar, Tensor};

/// Refuse a number that is not a probability.
pub(crate) fn check_probability(p: f64) -> Result<()> {
    if (0.0..=1.0).contains(&p) {
        return Ok(());
    }
    Err(Error::value(format!("dropout probability has to be between 0 and 1, but got {p:?}")))
}

fn apply_dropout(op: &str, x: &Tensor, p: f64, training: bool) -> Result<Tensor> {
    ops::call_tensor(op, &[Arg::Tensor(x), Arg::Scalar(Scalar::Float(p)), Arg::Scalar(Scalar::Bool(training))])
}

/// Drop whole channels, also of one sample without a batch dimension.
fn drop_channels(x: &Tensor, p: f64, training: bool, batched: bool) -> Result<Tensor> {
    if batched {
        return apply_dropout("feature_dropout", x, p, training);
    }
    apply_dropout("feature_dropout", &x.unsqueeze(0)?, p, training)?.squeeze(0)
}

/// Define layers that hold a probability. They are the identity in evaluation, and the part after `=>` is their
/// function in training.
macro_rules! dropouts {
    ($($(#[$doc:meta])* $name:ident => $forward:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name {
            p: f64,
            training: Training,
        }

        impl $name {
            /// Make a layer that drops with probability `p`.
            ///
            /// # Errors
            /// Fails with `Value` if `p` is not a probability.
            pub fn new(p: f64) -> Result<$name> {
                check_probability(p)?;
                Ok($name { p, training: Training::default() })
            }
        }

        impl Default for $name {
            /// Return a layer that drops with probability one half.
            fn default() -> $name {
                $name { p: 0.5, training: Training::default() }
            }
        }

        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                let forward: fn(&Tensor, f64, bool) -> Result<Tensor> = $forward;
                forward(x, self.p, self.training.get())
            }
            fn visit(&self, v: &mut Visitor<'_>) {
                v.training(&self.training);
            }
        }
    )*};
}

dropouts! {
    /// In training, set each element to zero with a probability, and scale the others up.
    Dropout => dropout;
    /// Like [`Dropout`], for whole channels of `[n, c, l]` or `[c, l]`.
    Dropout1d => |x, p, training| {
        let rank = x.dims().len();
        if !matches!(rank, 2 | 3) {
            return Err(Error::runtime(format!(
                "dropout1d: Expected 2D or 3D input, but received a {rank}D input. Note that dropout1d exists to \
                provide channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional \
                batch dimension (i.e. 2D or 3D inputs)."
            )));
        }
        drop_channels(x, p, training, rank == 3)
    };
    /// Like [`Dropout`], for whole channels of `[n, c, h, w]`. Three dimensions are treated as `[n, c, l]`.
    Dropout2d => |x, p, training| drop_channels(x, p, training, true);
    /// Like [`Dropout`], for whole channels of `[n, c, d, h, w]` or `[c, d, h, w]`.
    Dropout3d => |x, p, training| drop_channels(x, p, training, x.dims().len() != 4);
    /// Dropout that keeps the mean and variance of the outputs of [`SELU`](crate::SELU).
    AlphaDropout => |x, p, training| apply_dropout("alpha_dropout", x, p, training);
    /// Like [`AlphaDropout`], for whole channels of `[n, c, *]`.
    FeatureAlphaDropout => |x, p, training| apply_dropout("feature_alpha_dropout", x, p, training);
}
