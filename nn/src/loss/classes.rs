//! Losses of class scores.

use super::{Reduction, float, number, optional, reduced, settings};
use torchtpu_tensor::ops::loss::{self, CrossEntropyArgs, CtcArgs};
use torchtpu_tensor::schema::Arg;
use torchtpu_tensor::{Error, Result, Tensor, ops};

/// Default target of ignored rows.
const IGNORED: i64 = -100;

settings! {
    /// Cross entropy of logits `[n, c, *]`.
    #[derive(Clone, Debug)]
    CrossEntropyLoss {
        /// Weight of each class.
        weight: Option<Tensor> = None,
        /// Target of ignored rows.
        ignore_index: i64 = IGNORED,
        /// Share of the target's probability that is spread over all classes.
        label_smoothing: f64 = 0.0,
    }
}

impl CrossEntropyLoss {
    /// Compute the loss of class indices or class probabilities.
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
        /// Target of ignored rows.
        ignore_index: i64 = IGNORED,
    }
}

impl NLLLoss {
    /// Compute the loss of class indices.
    ///
    /// # Errors
    /// Fails like [`loss::nll_loss`].
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        loss::nll_loss(x, target, self.weight.as_ref(), self.reduction, self.ignore_index)
    }
}

settings! {
    /// Connectionist temporal classification: the negative log-probability that sequences of class probabilities spell
    /// the labels, with blanks and repetitions. The mean is over losses divided by the number of labels.
    #[derive(Clone, Copy, Debug)]
    CTCLoss {
        /// Index of the blank class.
        blank: i64 = 0,
        /// Whether the loss is zero instead of infinite for labels that do not fit their sequence.
        zero_infinity: bool = false,
    }
}

impl CTCLoss {
    /// Compute the loss of log-probabilities `[steps, n, c]`. `target` is `[n, labels]`, or all labels in one
    /// dimension. `steps` and `labels` give the lengths of each sequence.
    ///
    /// # Errors
    /// Fails like [`loss::ctc_loss`].
    pub fn forward(&self, x: &Tensor, target: &Tensor, steps: &[i64], labels: &[i64]) -> Result<Tensor> {
        let args = CtcArgs { blank: self.blank, reduction: self.reduction, zero_infinity: self.zero_infinity };
        loss::ctc_loss(x, target, steps, labels, &args)
    }
}

settings! {
    /// Hinge loss of several classes: how far the scores of other classes exceed the right class's score minus a
    /// margin.
    #[derive(Clone, Debug)]
    MultiMarginLoss {
        /// Power of each excess, 1 or 2.
        p: i64 = 1,
        /// Required lead of the right class's score.
        margin: f64 = 1.0,
        /// Weight of each class.
        weight: Option<Tensor> = None,
    }
}

impl MultiMarginLoss {
    /// Compute the loss of class indices.
    ///
    /// # Errors
    /// Fails with `Value` for a power that is not 1 or 2, and with `Runtime` for shapes or indices that do not fit.
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
    /// Like [`MultiMarginLoss`], with several right classes: those before the first negative target.
    #[derive(Clone, Copy, Debug)]
    MultiLabelMarginLoss {}
}

impl MultiLabelMarginLoss {
    /// Compute the loss of lists of class indices, which have the shape of the scores.
    ///
    /// # Errors
    /// Fails with `Runtime` for shapes or indices that do not fit.
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        ops::call_tensor("multilabel_margin_loss", &[Arg::Tensor(x), Arg::Tensor(target), number(self.reduction)])
    }
}

settings! {
    /// Binary cross entropy of logits for each class, averaged over classes.
    #[derive(Clone, Debug)]
    MultiLabelSoftMarginLoss {
        /// Weight of each class.
        weight: Option<Tensor> = None,
    }
}

impl MultiLabelSoftMarginLoss {
    /// Compute the loss of targets from 0 to 1, which have the shape of the logits.
    ///
    /// # Errors
    /// Fails with `Runtime` if shapes do not broadcast, and with `Index` if `x` has no dimension.
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
