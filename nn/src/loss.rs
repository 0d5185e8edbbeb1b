//! Losses.

use torchtpu_tensor::ops::loss::{self, CrossEntropyArgs, Reduction};
use torchtpu_tensor::schema::Arg;
use torchtpu_tensor::{Result, Scalar, Tensor, ops};

/// Target of rows that do not count, unless another is chosen.
const IGNORED: i64 = -100;

fn number(r: Reduction) -> Arg<'static> {
    Arg::Scalar(Scalar::Int(match r {
        Reduction::None => 0,
        Reduction::Mean => 1,
        Reduction::Sum => 2,
    }))
}

/// Mean cross entropy of logits `[n, c, *]` with class indices or class probabilities.
///
/// # Errors
/// As [`loss::cross_entropy`].
pub fn cross_entropy(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    CrossEntropyLoss::default().forward(x, target)
}

/// Mean negative log likelihood of log-probabilities with class indices.
///
/// # Errors
/// As [`loss::nll_loss`].
pub fn nll_loss(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    loss::nll_loss(x, target, None, Reduction::Mean, IGNORED)
}

/// Mean of squared differences.
///
/// # Errors
/// `Runtime` when shapes do not broadcast.
pub fn mse_loss(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    MSELoss::default().forward(x, target)
}

/// Mean of absolute differences.
///
/// # Errors
/// `Runtime` when shapes do not broadcast.
pub fn l1_loss(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    ops::call_tensor("l1_loss", &[Arg::Tensor(x), Arg::Tensor(target), number(Reduction::Mean)])
}

/// Mean cross entropy of logits with probabilities of one class.
///
/// # Errors
/// `Value` or `Runtime` when shapes differ.
pub fn binary_cross_entropy_with_logits(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    let args = [Arg::Tensor(x), Arg::Tensor(target), Arg::None, Arg::None, number(Reduction::Mean)];
    ops::call_tensor("binary_cross_entropy_with_logits", &args)
}

/// Cross entropy with settings.
#[derive(Clone, Debug)]
pub struct CrossEntropyLoss {
    /// Weight of each class.
    pub weight: Option<Tensor>,
    /// What becomes of the rows' losses.
    pub reduction: Reduction,
    /// Target of rows that do not count.
    pub ignore_index: i64,
    /// How much of the target's probability is spread over all classes.
    pub label_smoothing: f64,
}

impl Default for CrossEntropyLoss {
    fn default() -> CrossEntropyLoss {
        CrossEntropyLoss { weight: None, reduction: Reduction::Mean, ignore_index: IGNORED, label_smoothing: 0.0 }
    }
}

impl CrossEntropyLoss {
    /// The loss.
    ///
    /// # Errors
    /// As [`loss::cross_entropy`].
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        let args = CrossEntropyArgs {
            weight: self.weight.as_ref(),
            reduction: self.reduction,
            ignore_index: self.ignore_index,
            label_smoothing: self.label_smoothing,
        };
        loss::cross_entropy(x, target, &args)
    }
}

/// Squared differences with settings.
#[derive(Clone, Copy, Debug)]
pub struct MSELoss {
    /// What becomes of the elements' losses.
    pub reduction: Reduction,
}

impl Default for MSELoss {
    fn default() -> MSELoss {
        MSELoss { reduction: Reduction::Mean }
    }
}

impl MSELoss {
    /// The loss.
    ///
    /// # Errors
    /// `Runtime` when shapes do not broadcast.
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        ops::call_tensor("mse_loss", &[Arg::Tensor(x), Arg::Tensor(target), number(self.reduction)])
    }
}
