//! Distances between two tensors. They take two tensors and have no parameters, so they are not modules.

use torchtpu_tensor::ops;
use torchtpu_tensor::ops::loss::cosine_similarity;
use torchtpu_tensor::schema::Arg;
use torchtpu_tensor::{Result, Scalar, Tensor};

/// The cosine of the angle between vectors along a dimension.
#[derive(Clone, Copy, Debug)]
pub struct CosineSimilarity {
    /// Dimension of the vectors.
    pub dim: i64,
    /// Smallest length. Shorter vectors count as this long.
    pub eps: f64,
}

impl Default for CosineSimilarity {
    fn default() -> CosineSimilarity {
        CosineSimilarity { dim: 1, eps: 1e-8 }
    }
}

impl CosineSimilarity {
    /// Compute the cosines.
    ///
    /// # Errors
    /// Fails with `Index` for a wrong dimension, and with `Runtime` if sizes do not broadcast.
    pub fn forward(&self, x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
        cosine_similarity(x1, x2, self.dim, self.eps)
    }
}

/// The p-norm of differences along the last dimension.
#[derive(Clone, Copy, Debug)]
pub struct PairwiseDistance {
    /// Order of the norm.
    pub p: f64,
    /// Number added to each difference.
    pub eps: f64,
    /// Whether the last dimension is kept, with size 1.
    pub keepdim: bool,
}

impl Default for PairwiseDistance {
    fn default() -> PairwiseDistance {
        PairwiseDistance { p: 2.0, eps: 1e-6, keepdim: false }
    }
}

impl PairwiseDistance {
    /// Compute the distances.
    ///
    /// # Errors
    /// Fails with `Runtime` if sizes do not broadcast.
    pub fn forward(&self, x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
        let settings = [Scalar::Float(self.p), Scalar::Float(self.eps), Scalar::Bool(self.keepdim)].map(Arg::Scalar);
        ops::call_tensor("pairwise_distance", &[&[Arg::Tensor(x1), Arg::Tensor(x2)][..], &settings].concat())
    }
}
