//! Losses of scores of classes.

use super::{Reduction, float, number, optional, reduced, settings};
use torchtpu_tensor::ops::loss::{self, CrossEntropyArgs, CtcArgs};
use torchtpu_tensor::schema::Arg;
use torchtpu_tensor::{Error, Result, Tensor, ops};

/// Target of rows that do not count, unless another is chosen.
const IGNORED: i64 = -100;

settings! {
    /// Cross entropy of logits `[n, c, *]`.
    #[derive(Clone, Debug)]
    CrossEntropyLoss {
        /// Weight of each class.
        weight: Option<Tensor> = None,
        /// Target of rows that do not count.
        ignore_index: i64 = IGNORED,
        /// How much of the target's probability is spread over all classes.
        label_smoothing: f64 = 0.0,
    }
}

impl CrossEntropyLoss {
    /// The loss of class indices or class probabilities.
    ///
    /// # Errors
    /// Fails like [`loss::cross_entropy`].
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

settings! {
    /// Negative log likelihood of log-probabilities `[n, c, *]`.
    #[derive(Clone, Debug)]
    NLLLoss {
        /// Weight of each class.
        weight: Option<Tensor> = None,
        /// Target of rows that do not count.
        ignore_index: i64 = IGNORED,
    }
}

impl NLLLoss {
    /// The loss of class indices.
    ///
    /// # Errors
    /// Fails like [`loss::nll_loss`].
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        loss::nll_loss(x, target, self.weight.as_ref(), self.reduction, self.ignore_index)
    }
}

settings! {
    /// How unlikely labels are to be spelled by sequences of class probabilities, with blanks and repetitions. The mean is one of
    /// losses by label.
    #[derive(Clone, Copy, Debug)]
    CTCLoss {
        /// The class that spells nothing.
        blank: i64 = 0,
        /// Whether the loss of labels that do not fit their sequence is zero instead of infinite.
        zero_infinity: bool = false,
    }
}

impl CTCLoss {
    /// The loss of log-probabilities `[steps, n, c]` with labels, `[n, labels]` or all in a line, of which so many steps and labels
    /// count in each sequence.
    ///
    /// # Errors
    /// Fails like [`loss::ctc_loss`].
    pub fn forward(&self, x: &Tensor, target: &Tensor, steps: &[i64], labels: &[i64]) -> Result<Tensor> {
        let args = CtcArgs { blank: self.blank, reduction: self.reduction, zero_infinity: self.zero_infinity };
        loss::ctc_loss(x, target, steps, labels, &args)
    }
}

settings! {
    /// How far scores of other classes come within a margin of the right class's score.
    #[derive(Clone, Debug)]
    MultiMarginLoss {
        /// Power of what is within the margin, 1 or 2.
        p: i64 = 1,
        /// By how much the right score has to lead.
        margin: f64 = 1.0,
        /// Weight of each class.
        weight: Option<Tensor> = None,
    }
}

impl MultiMarginLoss {
    /// The loss of class indices.
    ///
    /// # Errors
    /// Fails with `Value` for a power that is not 1 or 2, with `Runtime` for shapes or indices that do not fit.
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        if !matches!(self.p, 1 | 2) {
            return Err(Error::value("only p == 1 and p == 2 supported"));
        }
        if let Some(w) = self.weight.as_ref().filter(|w| w.dims().len() != 1) {
            return Err(Error::value(format!(
                "MultiMarginLoss: expected weight to be None or 1D tensor, got {}D instead",
                w.dims().len()
            )));
        }
        let settings = [float(self.p as f64), float(self.margin), optional(self.weight.as_ref())];
        let args = [&[Arg::Tensor(x), Arg::Tensor(target)][..], &settings, &[number(self.reduction)]].concat();
        ops::call_tensor("multi_margin_loss", &args)
    }
}

settings! {
    /// As [`MultiMarginLoss`] with several right classes: those listed before the first negative target.
    #[derive(Clone, Copy, Debug)]
    MultiLabelMarginLoss {}
}

impl MultiLabelMarginLoss {
    /// The loss of lists of class indices, of the shape of the scores.
    ///
    /// # Errors
    /// Fails with `Runtime` for shapes or indices that do not fit.
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        ops::call_tensor("multilabel_margin_loss", &[Arg::Tensor(x), Arg::Tensor(target), number(self.reduction)])
    }
}

settings! {
    /// Mean over classes of the cross entropy of logits, each class on its own.
    #[derive(Clone, Debug)]
    MultiLabelSoftMarginLoss {
        /// Weight of each class.
        weight: Option<Tensor> = None,
    }
}

impl MultiLabelSoftMarginLoss {
    /// The loss of targets from 0 to 1, of the shape of the logits.
    ///
    /// # Errors
    /// Fails with `Runtime` if shapes do not broadcast, with `Index` for a number in place of a row.
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        let Some(&classes) = x.dims().last() else {
            return Err(Error::index("Dimension specified as -1 but tensor has no dimensions"));
        };
        let log = |x: &Tensor| ops::call_tensor("log_sigmoid", &[Arg::Tensor(x)]);
        let absent = target.neg()?.add_scalar(1.0)?;
        let mut loss = target.mul(&log(x)?)?.add(&absent.mul(&log(&x.neg()?)?)?)?.neg()?;
        if let Some(w) = &self.weight {
            loss = loss.mul(w)?;
        }
        reduced(loss.sum_dim(&[-1], false)?.div_scalar(classes as f64)?, self.reduction)
    }
}
