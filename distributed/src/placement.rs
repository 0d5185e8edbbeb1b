//! Placements: what a tensor is along one dimension of a mesh.
//!
//! The placements of a tensor are applied from the first mesh dimension to the last. A later one divides what the
//! earlier ones left, as in PyTorch.

use crate::ReduceOp;
use std::fmt;

/// What ranks along a mesh dimension have of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Placement {
    /// All of it.
    Replicate,
    /// A chunk of a dimension, by the rule of `torch.chunk`: all chunks have `ceil(n / ranks)` places, except that the
    /// last ones may have fewer or none.
    Shard(usize),
    /// The dimension is first divided into `split_factor` chunks. A rank has a chunk of each of them.
    StridedShard {
        /// The dimension.
        dim: usize,
        /// Into how many chunks the dimension is divided first.
        split_factor: usize,
    },
    /// A tensor of the same sizes. The value is the reduction of those of all ranks.
    Partial(ReduceOp),
}

impl Placement {
    /// Return the placement that divides a dimension, with one chunk or one of each of several.
    pub fn sharded(dim: usize, split_factor: usize) -> Placement {
        match split_factor {
            1 => Placement::Shard(dim),
            _ => Placement::StridedShard { dim, split_factor },
        }
    }

    /// Return the dimension that is divided, and its `split_factor`: 1 for `Shard`.
    pub fn shard(self) -> Option<(usize, usize)> {
        match self {
            Placement::Shard(dim) => Some((dim, 1)),
            Placement::StridedShard { dim, split_factor } => Some((dim, split_factor)),
            _ => None,
        }
    }

    /// The reduction that is pending.
    pub fn partial(self) -> Option<ReduceOp> {
        match self {
            Placement::Partial(op) => Some(op),
            _ => None,
        }
    }
}

/// PyTorch's short form: `R`, `S(0)`, `_S(0, 2)`, `P(sum)`.
impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::Replicate => write!(f, "R"),
            Placement::Shard(dim) => write!(f, "S({dim})"),
            Placement::StridedShard { dim, split_factor } => write!(f, "_S({dim}, {split_factor})"),
            Placement::Partial(op) => write!(f, "P({})", op.name().to_lowercase()),
        }
    }
}

/// Placements, one for each mesh dimension, as a text.
pub fn text(placements: &[Placement]) -> String {
    placements.iter().map(ToString::to_string).collect()
}

/// Return the number of places and the first place of a chunk, of `n` places that are divided into `chunks`.
///
/// ```
/// use torchtpu_distributed::placement::local_shard_size_and_offset;
///
/// assert_eq!([0, 1, 2, 3].map(|i| local_shard_size_and_offset(5, 4, i)), [(2, 0), (2, 2), (1, 4), (0, 5)]);
/// ```
pub fn local_shard_size_and_offset(n: usize, chunks: usize, i: usize) -> (usize, usize) {
    let size = n.div_ceil(chunks);
    let (start, end) = ((size * i).min(n), (size * (i + 1)).min(n));
    (end - start, start)
}

/// Return which of `n` places rank `i` of `ranks` has, as first places and lengths of pieces. The places are divided
/// into `split_factor` chunks, and each chunk is divided over the ranks. Pieces that continue each other are joined,
/// and empty ones are left out.
pub fn pieces(n: usize, split_factor: usize, ranks: usize, i: usize) -> Vec<(usize, usize)> {
    let mut pieces: Vec<(usize, usize)> = Vec::new();
    for k in 0..split_factor {
        let (whole, start) = local_shard_size_and_offset(n, split_factor, k);
        let (len, offset) = local_shard_size_and_offset(whole, ranks, i);
        match pieces.last_mut() {
            _ if len == 0 => {}
            Some((s, l)) if *s + *l == start + offset => *l += len,
            _ => pieces.push((start + offset, len)),
        }
    }
    pieces
}

/// The number of places of all pieces.
pub fn length(pieces: &[(usize, usize)]) -> usize {
    pieces.iter().map(|(_, len)| len).sum()
}
