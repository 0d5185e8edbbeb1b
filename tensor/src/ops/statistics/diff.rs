//! Differences of neighbours.

use crate::op::normalize_dim;
use crate::ops::concat::cat;
use crate::ops::pointwise::{BinaryKind, binary};
use crate::{DType, Error, Result, Tensor};

/// `n` times the differences of neighbours along a dimension, with tensors put before and behind it.
pub(super) fn diff(x: &Tensor, n: i64, dim: i64, before: Option<&Tensor>, behind: Option<&Tensor>) -> Result<Tensor> {
    let rank = x.dims().len();
    if rank == 0 {
        return Err(Error::runtime("diff expects input to be at least one-dimensional"));
    }
    if n < 0 {
        return Err(Error::runtime(format!("order must be non-negative but got {n}")));
    }
    let d = normalize_dim(dim, rank)?;
    for t in before.iter().chain(&behind) {
        if t.dims().len() != rank {
            return Err(Error::runtime("diff expects prepend or append to be the same dimension as input"));
        }
        if let Some(i) = (0..rank).find(|&i| i != d && t.dims()[i] != x.dims()[i]) {
            return Err(Error::runtime(format!(
                "diff expects the shape of tensor to prepend or append to match that of input except along the \
                differencing dimension; input.size({i}) = {}, but got tensor.size({i}) = {}",
                x.dims()[i],
                t.dims()[i]
            )));
        }
    }
    if n == 0 {
        return x.copy();
    }
    let dim = d as i64;
    let mut y = match (before, behind) {
        (None, None) => x.clone(),
        _ => cat(&before.into_iter().chain([x]).chain(behind).collect::<Vec<_>>(), dim)?,
    };
    if y.dims()[d] == 0 {
        return y.copy();
    }
    let kind = if y.dtype() == DType::Bool { BinaryKind::LogicalXor } else { BinaryKind::Sub };
    for _ in 0..n.min(y.dims()[d] as i64) {
        let size = y.dims()[d] as i64 - 1;
        y = binary(kind, &y.narrow(dim, 1, size)?, &y.narrow(dim, 0, size)?)?;
    }
    Ok(y)
}
