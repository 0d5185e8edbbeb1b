//! Losses: structs of settings with a method `forward`, and functions with default settings for common losses.

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

/// Define a struct of public settings with defaults. Its last field is `reduction`.
macro_rules! settings {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty = $default:expr),* $(,)? }) => {
        $(#[$doc])*
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
            /// Reduction of the single losses.
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

/// Convert the reduction to the argument of ops.
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

/// Compute the mean cross entropy of logits `[n, c, *]` with class indices or class probabilities.
///
/// # Errors
/// Fails like [`ops::loss::cross_entropy`].
pub fn cross_entropy(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    CrossEntropyLoss::default().forward(x, target)
}

/// Compute the mean negative log likelihood of log-probabilities with class indices.
///
/// # Errors
/// Fails like [`ops::loss::nll_loss`].
pub fn nll_loss(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    NLLLoss::default().forward(x, target)
}

/// Compute the mean of squared differences.
///
/// # Errors
/// Fails with `Runtime` if shapes do not broadcast.
pub fn mse_loss(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    MSELoss::default().forward(x, target)
}

/// Compute the mean of absolute differences.
///
/// # Errors
/// Fails with `Runtime` if shapes do not broadcast.
pub fn l1_loss(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    L1Loss::default().forward(x, target)
}

/// Compute the mean [`SmoothL1Loss`].
///
/// # Errors
/// Fails with `Runtime` if shapes do not broadcast.
pub fn smooth_l1_loss(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    SmoothL1Loss::default().forward(x, target)
}

/// Compute the mean [`HuberLoss`].
///
/// # Errors
/// Fails with `Runtime` if shapes do not broadcast.
pub fn huber_loss(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    HuberLoss::default().forward(x, target)
}

/// Compute the mean binary cross entropy of probabilities, with probabilities as targets.
///
/// # Errors
/// Fails with `Value` if shapes differ, and with `Runtime` for inputs outside `0..=1`.
pub fn binary_cross_entropy(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    BCELoss::default().forward(x, target)
}

/// Compute the mean binary cross entropy of logits, with probabilities as targets.
///
/// # Errors
/// Fails with `Value` if shapes differ.
pub fn binary_cross_entropy_with_logits(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    BCEWithLogitsLoss::default().forward(x, target)
}

/// Compute the mean over all elements of the divergence of log-probabilities from probabilities.
///
/// # Errors
/// Fails with `Runtime` if shapes do not broadcast.
pub fn kl_div(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    KLDivLoss::default().forward(x, target)
}
