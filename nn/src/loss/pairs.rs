//! Losses that compare several inputs.

use super::{Reduction, at_least, flag, float, number, reduced, settings};
use std::fmt;
use std::sync::Arc;
use torchtpu_tensor::schema::Arg;
use torchtpu_tensor::{Error, Result, Tensor, ops};

settings! {
    /// `1 - cos` of two vectors for a target of 1, `max(0, cos - margin)` for a target of -1.
    #[derive(Clone, Copy, Debug)]
    CosineEmbeddingLoss {
        /// Cosine below which a target of -1 costs nothing.
        margin: f64 = 0.0,
    }
}

impl CosineEmbeddingLoss {
    /// Compute the loss of rows `[n, d]` with targets `[n]`, or of two vectors with one target.
    ///
    /// # Errors
    /// Fails with `Runtime` for other shapes.
    pub fn forward(&self, x1: &Tensor, x2: &Tensor, target: &Tensor) -> Result<Tensor> {
        if target.dims().len() > 1 {
            return Err(Error::runtime("0D or 1D target tensor expected, multi-target not supported"));
        }
        let args = [Arg::Tensor(x1), Arg::Tensor(x2), Arg::Tensor(target), float(self.margin), number(self.reduction)];
        ops::call_tensor("cosine_embedding_loss", &args)
    }
}

settings! {
    /// `max(0, margin - t (x1 - x2))`. A target `t` of 1 means that the first input should be larger, -1 the second.
    #[derive(Clone, Copy, Debug)]
    MarginRankingLoss {
        /// Required difference.
        margin: f64 = 0.0,
    }
}

impl MarginRankingLoss {
    /// Compute the loss.
    ///
    /// # Errors
    /// Fails with `Runtime` if the numbers of dimensions differ, or shapes do not broadcast.
    pub fn forward(&self, x1: &Tensor, x2: &Tensor, target: &Tensor) -> Result<Tensor> {
        let ranks = [x1, x2, target].map(|x| x.dims().len());
        if ranks.iter().any(|r| *r != ranks[0]) {
            return Err(Error::runtime(format!(
                "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: \
                torch.Size({}), input2: torch.Size({}), target: torch.Size({}) ",
                x1.dims(),
                x2.dims(),
                target.dims()
            )));
        }
        let args = [Arg::Tensor(x1), Arg::Tensor(x2), Arg::Tensor(target), float(self.margin), number(self.reduction)];
        ops::call_tensor("margin_ranking_loss", &args)
    }
}

fn check_margin(name: &str, margin: f64) -> Result<()> {
    // This also refuses NaN.
    if margin > 0.0 {
        return Ok(());
    }
    Err(Error::value(format!("{name}: expected margin to be greater than 0, got {margin:?} instead")))
}

settings! {
    /// `max(0, margin + d(anchor, positive) - d(anchor, negative))` with the p-norm of differences as distance.
    #[derive(Clone, Copy, Debug)]
    TripletMarginLoss {
        /// Required difference between the distances.
        margin: f64 = 1.0,
        /// Order of the norm.
        p: f64 = 2.0,
        /// Number added to each difference.
        eps: f64 = 1e-6,
        /// Whether to use the distance from positive to negative if it is smaller.
        swap: bool = false,
    }
}

impl TripletMarginLoss {
    /// Compute the loss.
    ///
    /// # Errors
    /// Fails with `Value` unless the margin is positive, and with `Runtime` for shapes that do not fit.
    pub fn forward(&self, anchor: &Tensor, positive: &Tensor, negative: &Tensor) -> Result<Tensor> {
        check_margin("TripletMarginLoss", self.margin)?;
        let inputs = [anchor, positive, negative].map(Arg::Tensor);
        let settings = [float(self.margin), float(self.p), float(self.eps), flag(self.swap), number(self.reduction)];
        ops::call_tensor("triplet_margin_loss", &[&inputs[..], &settings].concat())
    }
}

/// A distance between rows of two tensors.
pub type Distance = Arc<dyn Fn(&Tensor, &Tensor) -> Result<Tensor> + Send + Sync>;

settings! {
    /// Like [`TripletMarginLoss`], with any distance.
    #[derive(Clone)]
    TripletMarginWithDistanceLoss {
        /// The distance. `None` means the 2-norm of differences.
        distance_function: Option<Distance> = None,
        /// Required difference between the distances.
        margin: f64 = 1.0,
        /// Whether to use the distance from positive to negative if it is smaller.
        swap: bool = false,
    }
}

impl TripletMarginWithDistanceLoss {
    /// Compute the loss.
    ///
    /// # Errors
    /// Fails with `Value` unless the margin is positive, and with `Runtime` for shapes that do not fit. Returns the
    /// error of the distance.
    pub fn forward(&self, anchor: &Tensor, positive: &Tensor, negative: &Tensor) -> Result<Tensor> {
        check_margin("TripletMarginWithDistanceLoss", self.margin)?;
        let ranks = [anchor, positive, negative].map(|x| x.dims().len());
        if ranks.iter().any(|r| *r != ranks[0]) {
            return Err(Error::runtime(format!(
                "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but \
                got: anchor {}D, positive {}D, and negative {}D inputs",
                ranks[0], ranks[1], ranks[2]
            )));
        }
        let distance = |a: &Tensor, b: &Tensor| match &self.distance_function {
            Some(f) => f(a, b),
            None => ops::call_tensor("pairwise_distance", &[Arg::Tensor(a), Arg::Tensor(b)]),
        };
        let near = distance(anchor, positive)?;
        let mut far = distance(anchor, negative)?;
        if self.swap {
            let other = distance(positive, negative)?;
            far = ops::call_tensor("minimum", &[Arg::Tensor(&far), Arg::Tensor(&other)])?;
        }
        reduced(at_least(&near.sub(&far)?.add_scalar(self.margin)?, 0.0)?, self.reduction)
    }
}

impl fmt::Debug for TripletMarginWithDistanceLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TripletMarginWithDistanceLoss")
            .field("margin", &self.margin)
            .field("swap", &self.swap)
            .field("reduction", &self.reduction)
            .finish_non_exhaustive()
    }
}
