//! Losses, each a struct of settings with `forward`, and plain functions with default settings for the common ones.

mod classes;
mod elements;
mod pairs;

pub use classes::{
    CTCLoss, CrossEntropyLoss, MultiLabelMarginLoss, MultiLabelSoftMarginLoss, MultiMarginLoss, NLLLoss,
};
pub use elements::{
    BCELoss, BCEWithLogitsLoss, GaussianNLLLoss, HingeEmbeddingLoss, HuberLoss, KLDivLoss, L1Loss, MSELoss,
    PoissonNLLLoss, SmoothL1Loss, SoftMarginLoss,
};
pub use pairs::{CosineEmbeddingLoss, Distance, MarginRankingLoss, TripletMarginLoss, TripletMarginWithDistanceLoss};

use torchtpu_tensor::ops::loss::Reduction;
use torchtpu_tensor::schema::Arg;
use torchtpu_tensor::{Result, Scalar, Tensor, ops};

/// A struct of public settings, `reduction` the last of them, and their defaults.
macro_rules! settings {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty = $default:expr),* $(,)? }) => {
        $(#[$doc])*
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
            /// What becomes of the single losses.
            pub reduction: Reduction,
        }
        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default,)* reduction: Reduction::Mean }
            }
        }
    };
}
use settings;

/// The reduction as ops take it.
fn number(r: Reduction) -> Arg<'static> {
    Arg::Scalar(Scalar::Int(match r {
        Reduction::None => 0,
        Reduction::Mean => 1,
        Reduction::Sum => 2,
    }))
}

fn float(v: f64) -> Arg<'static> {
    Arg::Scalar(Scalar::Float(v))
}

fn flag(v: bool) -> Arg<'static> {
    Arg::Scalar(Scalar::Bool(v))
}

fn optional(x: Option<&Tensor>) -> Arg<'_> {
    x.map_or(Arg::None, Arg::Tensor)
}

fn reduced(loss: Tensor, r: Reduction) -> Result<Tensor> {
    match r {
        Reduction::None => Ok(loss),
        Reduction::Mean => loss.mean(),
        Reduction::Sum => loss.sum(),
    }
}

fn at_least(x: &Tensor, low: f64) -> Result<Tensor> {
    ops::call_tensor("clamp_min", &[Arg::Tensor(x), float(low)])
}

/// Mean cross entropy of logits `[n, c, *]` with class indices or class probabilities.
///
/// # Errors
/// Fails like [`ops::loss::cross_entropy`].
pub fn cross_entropy(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    CrossEntropyLoss::default().forward(x, target)
}

/// Mean negative log likelihood of log-probabilities with class indices.
///
/// # Errors
/// Fails like [`ops::loss::nll_loss`].
pub fn nll_loss(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    NLLLoss::default().forward(x, target)
}

/// Mean of squared differences.
///
/// # Errors
/// Fails with `Runtime` if shapes do not broadcast.
pub fn mse_loss(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    MSELoss::default().forward(x, target)
}

/// Mean of absolute differences.
///
/// # Errors
/// Fails with `Runtime` if shapes do not broadcast.
pub fn l1_loss(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    L1Loss::default().forward(x, target)
}

/// Mean of what [`SmoothL1Loss`] makes of differences.
///
/// # Errors
/// Fails with `Runtime` if shapes do not broadcast.
pub fn smooth_l1_loss(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    SmoothL1Loss::default().forward(x, target)
}

/// Mean of what [`HuberLoss`] makes of differences.
///
/// # Errors
/// Fails with `Runtime` if shapes do not broadcast.
pub fn huber_loss(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    HuberLoss::default().forward(x, target)
}

/// Mean cross entropy of probabilities of one class with such probabilities.
///
/// # Errors
/// Fails with `Value` if shapes differ, with `Runtime` for inputs outside `0..=1`.
pub fn binary_cross_entropy(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    BCELoss::default().forward(x, target)
}

/// Mean cross entropy of logits with probabilities of one class.
///
/// # Errors
/// Fails with `Value` if shapes differ.
pub fn binary_cross_entropy_with_logits(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    BCEWithLogitsLoss::default().forward(x, target)
}

/// Mean over all elements of the divergence of log-probabilities from probabilities.
///
/// # Errors
/// Fails with `Runtime` if shapes do not broadcast.
pub fn kl_div(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    KLDivLoss::default().forward(x, target)
}
