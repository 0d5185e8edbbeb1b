//! Redistribution: from the placements of a tensor to others, as collectives along one mesh dimension at a time.
//!
//! [`route`] lists the [`Step`]s. A step is a local part, a collective of equal blocks ([`Exchange`]), and another
//! local part. Chunks that differ in size are padded inside a step only.
//!
//! | from | to | collective |
//! |---|---|---|
//! | replicated | shard, partial | none |
//! | partial | replicated | all-reduce |
//! | partial | shard | reduce-scatter |
//! | shard | replicated | all-gather |
//! | shard | shard of another dimension | all-to-all |
//!
//! Other pairs go through a replicated tensor. If a dimension is divided along several mesh dimensions, the last of
//! them is gathered first.

use crate::ReduceOp;
use crate::placement::{Placement, length, pieces};
use crate::spec::local_dims;
use torchtpu_tensor::ops::concat::cat;
use torchtpu_tensor::ops::indexing::index_select_in_range;
use torchtpu_tensor::{DType, Dims, Place, Result, Scalar, Tensor};

/// A collective along one mesh dimension. Tensors of all ranks have equal sizes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Exchange {
    /// Every rank gets the reduction.
    AllReduce(ReduceOp),
    /// Every rank gets the tensors of all, concatenated.
    AllGather {
        /// The dimension that they are concatenated on.
        dim: usize,
    },
    /// Rank `i` gets block `i` of the reduction.
    ReduceScatter {
        /// The reduction.
        op: ReduceOp,
        /// The dimension that has a block for each rank.
        dim: usize,
    },
    /// Rank `i` gets block `i` of every rank, concatenated.
    AllToAll {
        /// The dimension that has a block for each rank.
        split: usize,
        /// The dimension that the blocks are concatenated on.
        concat: usize,
    },
}

/// A change of the placement along one mesh dimension, for one rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The mesh dimension.
    pub mesh_dim: usize,
    /// The placement before.
    pub from: Placement,
    /// The placement after.
    pub to: Placement,
    /// Number of ranks along the mesh dimension.
    ranks: usize,
    /// The position of the rank.
    index: usize,
    /// Sizes if the tensor was replicated along the mesh dimension.
    whole: Dims,
}

impl Step {
    /// The collective; `None` if ranks need nothing of each other.
    pub fn exchange(&self) -> Option<Exchange> {
        match (self.from, self.to) {
            (Placement::Partial(op), to) => Some(match to.shard() {
                Some((dim, _)) => Exchange::ReduceScatter { op, dim },
                None => Exchange::AllReduce(op),
            }),
            (from, to) => {
                let (concat, _) = from.shard()?;
                Some(match to.shard() {
                    Some((split, _)) => Exchange::AllToAll { split, concat },
                    None => Exchange::AllGather { dim: concat },
                })
            }
        }
    }

    /// The bytes that a rank sends, about, for a tensor with elements of so many bytes.
    pub fn bytes(&self, element: usize) -> f64 {
        bytes(self.from, self.to, self.ranks, (self.whole.numel() * element) as f64)
    }

    /// Return the operand of the collective, or the result of a step without one.
    ///
    /// # Errors
    /// Fails if an op on the local tensor fails.
    pub fn before(&self, x: &Tensor) -> Result<Tensor> {
        let mut x = x.clone();
        match (self.from.shard(), self.to) {
            (Some((dim, split)), _) => x = padded(&x, dim, self.longest(dim, split))?,
            (None, Placement::Partial(op)) => return self.partial(&x, op),
            (None, _) if self.exchange().is_some() => {}
            (None, to) => {
                let Some((dim, split)) = to.shard() else { return Ok(x) };
                let part = self.own_part(&x, dim, split)?;
                // A view would keep the whole in memory.
                return row_major(&if part.numel() < x.numel() { part.copy()? } else { part });
            }
        }
        match self.to.shard() {
            Some((dim, split)) => self.blocks(&x, dim, split),
            None => x.contiguous(),
        }
    }

    /// Return the result of the step from that of the collective.
    ///
    /// # Errors
    /// Fails if an op on the local tensor fails.
    pub fn after(&self, x: &Tensor) -> Result<Tensor> {
        if self.exchange().is_none() {
            return Ok(x.clone());
        }
        let mut x = x.clone();
        if let Some((dim, split)) = self.from.shard() {
            x = self.assembled(&x, dim, split)?;
        }
        if let Some((dim, split)) = self.to.shard() {
            let own = length(&pieces(self.whole[dim], split, self.ranks, self.index));
            x = take(&x, dim, &[(0, own)])?;
        }
        row_major(&x)
    }

    /// The places of the rank that has most. That is the first one.
    fn longest(&self, dim: usize, split: usize) -> usize {
        length(&pieces(self.whole[dim], split, self.ranks, 0))
    }

    /// A tensor for each rank. The tensors of all ranks, reduced, give `x`.
    fn partial(&self, x: &Tensor, op: ReduceOp) -> Result<Tensor> {
        let neutral = match op {
            ReduceOp::Sum | ReduceOp::BXor => 0,
            ReduceOp::Product => 1,
            ReduceOp::Avg | ReduceOp::Min | ReduceOp::Max | ReduceOp::BAnd | ReduceOp::BOr => return Ok(x.clone()),
        };
        let others = || Tensor::full_meta(x.meta(), Scalar::Int(neutral));
        match (is_recorded(x), self.index) {
            (true, _) => {
                // A scalar condition: one of size 1 would give a scalar a dimension.
                let is_first = self.index_on(x.place())?.eq_scalar(0)?.reshape(&[])?;
                Tensor::where_(&is_first, x, &others()?)
            }
            (false, 0) => Ok(x.clone()),
            (false, _) => others(),
        }
    }

    /// The position of the rank, as data of a recorded program: so all ranks have the same program.
    fn index_on(&self, place: Place) -> Result<Tensor> {
        Tensor::full(&[1], Scalar::Int(self.index as i64), DType::I64, place)
    }

    /// The part of a replicated tensor that belongs to the rank.
    fn own_part(&self, x: &Tensor, dim: usize, split: usize) -> Result<Tensor> {
        let n = self.whole[dim];
        if !is_recorded(x) || n == 0 || !n.is_multiple_of(split * self.ranks) {
            return take(x, dim, &pieces(n, split, self.ranks, self.index));
        }
        let sizes = |middle: &[usize]| {
            let dims: &[usize] = x.dims();
            [&dims[..dim], middle, &dims[dim + 1..]].concat().iter().map(|&d| d as i64).collect::<Vec<_>>()
        };
        let parts = x.reshape(&sizes(&[split, self.ranks, n / (split * self.ranks)]))?;
        let own = index_select_in_range(&parts, dim + 1, &self.index_on(x.place())?)?;
        own.reshape(&sizes(&[n / self.ranks]))
    }

    /// The parts of all ranks one after another, padded to equal lengths.
    fn blocks(&self, x: &Tensor, dim: usize, split: usize) -> Result<Tensor> {
        let (n, longest) = (self.whole[dim], self.longest(dim, split));
        if split == 1 && n == longest * self.ranks {
            return x.contiguous();
        }
        let block = |i| padded(&take(x, dim, &pieces(n, split, self.ranks, i))?, dim, longest);
        let blocks = (0..self.ranks).map(block).collect::<Result<Vec<_>>>()?;
        cat(&blocks.iter().collect::<Vec<_>>(), dim as i64)
    }

    /// The dimension in its order, from the padded parts of all ranks.
    fn assembled(&self, x: &Tensor, dim: usize, split: usize) -> Result<Tensor> {
        let (n, longest) = (self.whole[dim], self.longest(dim, split));
        if split == 1 && n == longest * self.ranks {
            return Ok(x.clone());
        }
        let mut parts: Vec<(usize, usize, usize)> = Vec::new();
        for i in 0..self.ranks {
            let mut at = i * longest;
            for (start, len) in pieces(n, split, self.ranks, i) {
                parts.push((start, at, len));
                at += len;
            }
        }
        parts.sort_unstable();
        take(x, dim, &parts.iter().map(|&(_, at, len)| (at, len)).collect::<Vec<_>>())
    }
}

/// The bytes that a rank sends, about, to change the placement of a tensor that has so many bytes when replicated.
pub(crate) fn bytes(from: Placement, to: Placement, ranks: usize, whole: f64) -> f64 {
    let share = whole * (ranks.saturating_sub(1)) as f64 / ranks.max(1) as f64;
    match (from, to) {
        (a, b) if a == b => 0.0,
        (Placement::Replicate, _) => 0.0,
        (Placement::Partial(_), to) if to.shard().is_some() => share,
        (Placement::Partial(_), _) => 2.0 * share,
        (a, b) => match (a.shard(), b.shard()) {
            (Some((a, _)), Some((b, _))) if a != b => share / ranks as f64,
            _ => share,
        },
    }
}

/// `x` with the strides of a new tensor, which some kernels compare.
fn row_major(x: &Tensor) -> Result<Tensor> {
    if *x.strides() == x.dims().contiguous_strides() { Ok(x.clone()) } else { x.contiguous()?.copy() }
}

/// Whether ops on the tensor are recorded, and become a program.
fn is_recorded(x: &Tensor) -> bool {
    x.place().is_tpu()
}

/// Pieces of a dimension, one after another.
fn take(x: &Tensor, dim: usize, pieces: &[(usize, usize)]) -> Result<Tensor> {
    let narrow = |&(start, len): &(usize, usize)| x.narrow(dim as i64, start as i64, len as i64);
    match pieces {
        [] => narrow(&(0, 0)),
        [one] if *one == (0, x.dims()[dim]) => Ok(x.clone()),
        [one] => narrow(one),
        _ => {
            let parts = pieces.iter().map(narrow).collect::<Result<Vec<_>>>()?;
            cat(&parts.iter().collect::<Vec<_>>(), dim as i64)
        }
    }
}

/// `x` with zeros behind it up to a length.
fn padded(x: &Tensor, dim: usize, len: usize) -> Result<Tensor> {
    let missing = len - x.dims()[dim];
    if missing == 0 {
        return Ok(x.clone());
    }
    let zeros = Tensor::zeros_like_meta(&x.meta().with_dims(x.dims().with(dim, missing)))?;
    cat(&[x, &zeros], dim as i64)
}

/// Return the steps from placements to others, for the rank at a coordinate of a mesh of these sizes. `dims` are the
/// sizes of the whole tensor. All ranks take the same steps.
pub fn route(dims: &Dims, mesh: &[usize], coordinate: &[usize], from: &[Placement], to: &[Placement]) -> Vec<Step> {
    let (mut now, mut steps) = (from.to_vec(), Vec::new());
    while let Some((mesh_dim, next)) = next_step(&now, to) {
        let mut replicated = now.clone();
        replicated[mesh_dim] = Placement::Replicate;
        steps.push(Step {
            mesh_dim,
            from: now[mesh_dim],
            to: next,
            ranks: mesh[mesh_dim],
            index: coordinate[mesh_dim],
            whole: local_dims(dims, &replicated, mesh, coordinate),
        });
        now[mesh_dim] = next;
    }
    steps
}

/// The mesh dimension to change next, and its next placement.
fn next_step(now: &[Placement], to: &[Placement]) -> Option<(usize, Placement)> {
    let on = |p: Placement, dim: usize| p.shard().filter(|(d, _)| *d == dim);
    let is_last = |m: usize, dim: usize| now[m + 1..].iter().all(|p| on(*p, dim).is_none());
    // Whether the mesh dimensions before `m` divide the dimension as they will in the end.
    let is_prefix = |m: usize, dim: usize| (0..m).all(|k| on(now[k], dim) == on(to[k], dim));
    let may_add = |m: usize, p: Placement| p.shard().is_some_and(|(dim, _)| is_last(m, dim) && is_prefix(m, dim));
    let change = |m: usize| now[m] != to[m];
    let dims = || (0..now.len()).filter(|m| change(*m));
    // Free, and it makes the other steps cheaper.
    if let Some(m) = dims().find(|&m| now[m] == Placement::Replicate && may_add(m, to[m])) {
        return Some((m, to[m]));
    }
    if let Some(m) = dims().find(|&m| now[m].partial().is_some() && may_add(m, to[m])) {
        return Some((m, to[m]));
    }
    if let Some(m) = dims().find(|&m| now[m].partial().is_some() && to[m].shard().is_none()) {
        return Some((m, Placement::Replicate));
    }
    let moves = |m: usize| match (now[m].shard(), to[m].shard()) {
        (Some((a, _)), Some((b, _))) => a != b && is_last(m, a) && may_add(m, to[m]),
        _ => false,
    };
    if let Some(m) = dims().find(|&m| moves(m)) {
        return Some((m, to[m]));
    }
    let gathered =
        |m: &usize| now[*m].shard().is_some_and(|(dim, _)| is_last(*m, dim) && (change(*m) || !is_prefix(*m, dim)));
    if let Some(m) = (0..now.len()).rev().find(gathered) {
        return Some((m, Placement::Replicate));
    }
    if let Some(m) = dims().find(|&m| now[m].partial().is_some()) {
        return Some((m, Placement::Replicate));
    }
    dims().next().map(|m| (m, to[m]))
}
