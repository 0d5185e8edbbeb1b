//! Losses of single elements.

use super::{Reduction, at_least, flag, float, number, optional, reduced, settings};
use torchtpu_tensor::schema::Arg;
use torchtpu_tensor::{DType, Error, Result, Tensor, no_grad, ops};

settings! {
    /// Absolute differences.
    #[derive(Clone, Copy, Debug)]
    L1Loss {}
}

impl L1Loss {
    /// Compute the loss.
    ///
    /// # Errors
    /// Fails with `Runtime` if shapes do not broadcast.
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        ops::call_tensor("l1_loss", &[Arg::Tensor(x), Arg::Tensor(target), number(self.reduction)])
    }
}

settings! {
    /// Squared differences.
    #[derive(Clone, Copy, Debug)]
    MSELoss {}
}

impl MSELoss {
    /// Compute the loss.
    ///
    /// # Errors
    /// Fails with `Runtime` if shapes do not broadcast.
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        ops::call_tensor("mse_loss", &[Arg::Tensor(x), Arg::Tensor(target), number(self.reduction)])
    }
}

settings! {
    /// `d^2 / (2 beta)` for differences below `beta`, `d - beta / 2` above.
    #[derive(Clone, Copy, Debug)]
    SmoothL1Loss {
        /// Difference at which the square ends. With 0 this is [`L1Loss`].
        beta: f64 = 1.0,
    }
}

impl SmoothL1Loss {
    /// Compute the loss.
    ///
    /// # Errors
    /// Fails with `Runtime` if `beta` is negative or shapes do not broadcast.
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        let args = [Arg::Tensor(x), Arg::Tensor(target), number(self.reduction), float(self.beta)];
        ops::call_tensor("smooth_l1_loss", &args)
    }
}

settings! {
    /// `d^2 / 2` for differences up to `delta`, `delta (d - delta / 2)` above.
    #[derive(Clone, Copy, Debug)]
    HuberLoss {
        /// Difference at which the square ends.
        delta: f64 = 1.0,
    }
}

impl HuberLoss {
    /// Compute the loss.
    ///
    /// # Errors
    /// Fails with `Runtime` if `delta` is not positive or shapes do not broadcast.
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        let args = [Arg::Tensor(x), Arg::Tensor(target), number(self.reduction), float(self.delta)];
        ops::call_tensor("huber_loss", &args)
    }
}

settings! {
    /// Cross entropy of probabilities with targets from 0 to 1.
    #[derive(Clone, Debug)]
    BCELoss {
        /// Factors of the elements' losses. They broadcast.
        weight: Option<Tensor> = None,
    }
}

impl BCELoss {
    /// Compute the loss.
    ///
    /// # Errors
    /// Fails with `Value` if shapes differ, and with `Runtime` for inputs outside `0..=1`.
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        let args = [Arg::Tensor(x), Arg::Tensor(target), optional(self.weight.as_ref()), number(self.reduction)];
        ops::call_tensor("binary_cross_entropy", &args)
    }
}

settings! {
    /// Cross entropy of logits with targets from 0 to 1, without overflow.
    #[derive(Clone, Debug)]
    BCEWithLogitsLoss {
        /// Factors of the elements' losses. They broadcast.
        weight: Option<Tensor> = None,
        /// Factors of the losses of positive targets. They broadcast.
        pos_weight: Option<Tensor> = None,
    }
}

impl BCEWithLogitsLoss {
    /// Compute the loss.
    ///
    /// # Errors
    /// Fails with `Value` if shapes differ.
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        let (weight, pos_weight) = (optional(self.weight.as_ref()), optional(self.pos_weight.as_ref()));
        let args = [Arg::Tensor(x), Arg::Tensor(target), weight, pos_weight, number(self.reduction)];
        ops::call_tensor("binary_cross_entropy_with_logits", &args)
    }
}

settings! {
    /// Divergence of log-probabilities from a distribution, `t (log t - x)`.
    #[derive(Clone, Copy, Debug)]
    KLDivLoss {
        /// Whether targets are logarithms too.
        log_target: bool = false,
        /// Whether to return the sum divided by the batch size, for any `reduction`: PyTorch's reduction `batchmean`.
        batchmean: bool = false,
    }
}

impl KLDivLoss {
    /// Compute the loss.
    ///
    /// # Errors
    /// Fails with `Runtime` if shapes do not broadcast or a dtype is not floating point.
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        let reduction = if self.batchmean { Reduction::Sum } else { self.reduction };
        let args = [Arg::Tensor(x), Arg::Tensor(target), number(reduction), flag(self.log_target)];
        let loss = ops::call_tensor("kl_div", &args)?;
        match x.dims().first() {
            Some(&n) if self.batchmean => loss.div_scalar(n as f64),
            _ => Ok(loss),
        }
    }
}

settings! {
    /// Negative log likelihood of counts under Poisson distributions.
    #[derive(Clone, Copy, Debug)]
    PoissonNLLLoss {
        /// Whether the input is the logarithm of the rate.
        log_input: bool = true,
        /// Whether to add Stirling's approximation of the term that does not depend on the input.
        full: bool = false,
        /// Number added to a rate, so that its logarithm is finite. Used if `log_input` is off.
        eps: f64 = 1e-8,
    }
}

impl PoissonNLLLoss {
    /// Compute the loss.
    ///
    /// # Errors
    /// Fails with `Runtime` if shapes do not broadcast.
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        let settings = [flag(self.log_input), flag(self.full), float(self.eps), number(self.reduction)];
        let args = [&[Arg::Tensor(x), Arg::Tensor(target)][..], &settings].concat();
        ops::call_tensor("poisson_nll_loss", &args)
    }
}

settings! {
    /// Negative log likelihood under Gaussians, `(log v + (x - t)^2 / v) / 2`.
    #[derive(Clone, Copy, Debug)]
    GaussianNLLLoss {
        /// Whether to add the constant term.
        full: bool = false,
        /// Smallest variance. Smaller ones are replaced by it.
        eps: f64 = 1e-6,
    }
}

impl GaussianNLLLoss {
    /// Compute the loss of means `x` and variances `var`. `var` has the shape of `x`, lacks its last dimension, or has
    /// size 1 in it.
    ///
    /// # Errors
    /// Fails with `Value` for variances that are negative or of another shape.
    pub fn forward(&self, x: &Tensor, target: &Tensor, var: &Tensor) -> Result<Tensor> {
        let negative = var.detach().lt_scalar(0.0)?.to_dtype(DType::I64)?.sum()?;
        if negative.item_f64()? > 0.0 {
            return Err(Error::value("var has negative entry/entries"));
        }
        let (xs, vs) = (x.dims(), var.dims());
        let fits = |(&a, &b): (&usize, &usize)| a == b || a == 1 || b == 1;
        let var = if xs == vs || (xs.len() == vs.len() && xs.iter().zip(vs.iter()).all(fits)) {
            var.clone()
        } else if !xs.is_empty() && xs[..xs.len() - 1] == vs[..] {
            var.unsqueeze(-1)?
        } else {
            return Err(Error::value("var is of incorrect size"));
        };
        // The gradient ignores the bound.
        let bounded = var.copy()?;
        no_grad(|| bounded.copy_(&at_least(&var.detach(), self.eps)?).map(|_| ()))?;
        let mut loss = bounded.log()?.add(&x.sub(target)?.square()?.div(&bounded)?)?.mul_scalar(0.5)?;
        if self.full {
            loss = loss.add_scalar(0.5 * std::f64::consts::TAU.ln())?;
        }
        reduced(loss, self.reduction)
    }
}

settings! {
    /// `log(1 + e^(-t x))`.
    #[derive(Clone, Copy, Debug)]
    SoftMarginLoss {}
}

impl SoftMarginLoss {
    /// Compute the loss of targets 1 and -1.
    ///
    /// # Errors
    /// Fails with `Runtime` if shapes do not broadcast.
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        ops::call_tensor("soft_margin_loss", &[Arg::Tensor(x), Arg::Tensor(target), number(self.reduction)])
    }
}

settings! {
    /// `x` where the target is 1, `max(0, margin - x)` where it is -1.
    #[derive(Clone, Copy, Debug)]
    HingeEmbeddingLoss {
        /// Distance above which a target of -1 costs nothing.
        margin: f64 = 1.0,
    }
}

impl HingeEmbeddingLoss {
    /// Compute the loss.
    ///
    /// # Errors
    /// Fails with `Runtime` if shapes do not broadcast.
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        let args = [Arg::Tensor(x), Arg::Tensor(target), float(self.margin), number(self.reduction)];
        ops::call_tensor("hinge_embedding_loss", &args)
    }
}
