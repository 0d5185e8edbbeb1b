//! Losses that compare several inputs.

use super::{Reduction, at_least, flag, float, number, reduced, settings};
use std::fmt;
use std::sync::Arc;
use torchtpu_tensor::schema::Arg;
use torchtpu_tensor::{Error, Result, Tensor, ops};

settings! {
    /// `1 - cos` of two vectors where the target is 1, `max(0, cos - margin)` where it is -1.
    #[derive(Clone, Copy, Debug)]
    CosineEmbeddingLoss {
        /// Cosines below it cost nothing where the target is -1.
        margin: f64 = 0.0,
    }
}

impl CosineEmbeddingLoss {
    /// The loss of rows `[n, d]` with targets `[n]`, or of vectors with a number.
    ///
    /// # Errors
    /// `Runtime` for other shapes.
    pub fn forward(&self, x1: &Tensor, x2: &Tensor, target: &Tensor) -> Result<Tensor> {
        if target.dims().len() > 1 {
            return Err(Error::runtime("0D or 1D target tensor expected, multi-target not supported"));
        }
        let args = [Arg::Tensor(x1), Arg::Tensor(x2), Arg::Tensor(target), float(self.margin), number(self.reduction)];
        ops::call_tensor("cosine_embedding_loss", &args)
    }
}

settings! {
    /// `max(0, margin - t (x1 - x2))`: 1 wants the first to be larger, -1 the second.
    #[derive(Clone, Copy, Debug)]
    MarginRankingLoss {
        /// By how much it should be larger.
        margin: f64 = 0.0,
    }
}

impl MarginRankingLoss {
    /// The loss.
    ///
    /// # Errors
    /// `Runtime` when the numbers of dimensions differ, or shapes do not broadcast.
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
    // Not a number is refused as well.
    if margin > 0.0 {
        return Ok(());
    }
    Err(Error::value(format!("{name}: expected margin to be greater than 0, got {margin:?} instead")))
}

settings! {
    /// `max(0, margin + d(anchor, positive) - d(anchor, negative))` with the p-norm of differences as distance.
    #[derive(Clone, Copy, Debug)]
    TripletMarginLoss {
        /// By how much the negative one should be farther away.
        margin: f64 = 1.0,
        /// Which norm.
        p: f64 = 2.0,
        /// Added to differences.
        eps: f64 = 1e-6,
        /// Takes the distance from positive to negative where it is the smaller one.
        swap: bool = false,
    }
}

impl TripletMarginLoss {
    /// The loss.
    ///
    /// # Errors
    /// `Value` unless the margin is positive, `Runtime` for shapes that do not fit.
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
    /// [`TripletMarginLoss`] with any distance.
    #[derive(Clone)]
    TripletMarginWithDistanceLoss {
        /// The distance; none: the 2-norm of differences.
        distance_function: Option<Distance> = None,
        /// By how much the negative one should be farther away.
        margin: f64 = 1.0,
        /// Takes the distance from positive to negative where it is the smaller one.
        swap: bool = false,
    }
}

impl TripletMarginWithDistanceLoss {
    /// The loss.
    ///
    /// # Errors
    /// `Value` unless the margin is positive, `Runtime` for shapes that do not fit; whatever the distance reports.
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
