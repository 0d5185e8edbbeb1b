//! Collectives: ops whose results have elements of other ranks. The public functions are in [`functions`].

mod functions;
mod programs;

pub use functions::{
    Observer, all_gather, all_reduce, all_to_all, broadcast, check_mean, mean, mean_of_sum, observe, permute, reduce,
    reduce_scatter,
};
pub use programs::{TARGET, run};

use crate::axes::Axes;
use crate::comm::{self, Call, Group, Ticket};
use crate::op::{Facts, Func, Grads, Op, Prim, Saved, Saves, Value, Values};
use crate::{DType, Error, Meta, Result, Tensor, backend};
use smallvec::{SmallVec, smallvec};

/// The function that combines the elements of ranks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reduction {
    /// Add. For `bool`, a logical or.
    Sum,
    /// Multiply. For `bool`, a logical and.
    Product,
    /// The smallest, or NaN.
    Min,
    /// The largest, or NaN.
    Max,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
}

impl Reduction {
    /// All of them.
    pub const ALL: [Reduction; 7] = [
        Reduction::Sum,
        Reduction::Product,
        Reduction::Min,
        Reduction::Max,
        Reduction::And,
        Reduction::Or,
        Reduction::Xor,
    ];

    /// Return the name in PyTorch's errors.
    pub fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "SUM",
            Reduction::Product => "PRODUCT",
            Reduction::Min => "MIN",
            Reduction::Max => "MAX",
            Reduction::And => "BAND",
            Reduction::Or => "BOR",
            Reduction::Xor => "BXOR",
        }
    }

    fn check(self, op: &str, dtype: DType) -> Result<()> {
        if dtype.is_complex() && self != Reduction::Sum {
            return Err(Error::value(format!("{op} does not support {} on complex tensors", self.name())));
        }
        if dtype.is_inexact() && matches!(self, Reduction::And | Reduction::Or | Reduction::Xor) {
            return Err(Error::value(format!("Cannot use ReduceOp.{} with non-integral dtype", self.name())));
        }
        Ok(())
    }
}

/// The kinds of collectives. Ranks are ranks of the group, and dimension 0 is the one that is gathered or split.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Combine the elements of all ranks, on all ranks.
    AllReduce(Reduction),
    /// Combine the elements of all ranks, on the rank `to`. The others get zeros.
    Reduce {
        /// The function.
        by: Reduction,
        /// The rank with the result.
        to: usize,
    },
    /// Copy the elements of the rank `from` to all ranks.
    Broadcast {
        /// The rank that has the elements.
        from: usize,
    },
    /// Concatenate the elements of all ranks, on all ranks.
    AllGather,
    /// Combine the elements of all ranks, and hand each rank its equal part.
    ReduceScatter(Reduction),
    /// Hand each rank some rows.
    AllToAll {
        /// Rows for each rank.
        sent: Vec<usize>,
        /// Rows from each rank.
        received: Vec<usize>,
    },
    /// Send the elements along pairs of a source and a target. A rank that is no target gets zeros.
    Permute {
        /// The pairs. Each rank is at most once a source, and at most once a target.
        pairs: Vec<(usize, usize)>,
    },
}

impl Kind {
    /// Return the name in traces and errors.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::AllReduce(_) => "all_reduce",
            Kind::Reduce { .. } => "reduce",
            Kind::Broadcast { .. } => "broadcast",
            Kind::AllGather => "all_gather",
            Kind::ReduceScatter(_) => "reduce_scatter",
            Kind::AllToAll { .. } => "all_to_all",
            Kind::Permute { .. } => "permute",
        }
    }

    fn reduction(&self) -> Option<Reduction> {
        match *self {
            Kind::AllReduce(by) | Kind::Reduce { by, .. } | Kind::ReduceScatter(by) => Some(by),
            _ => None,
        }
    }

    /// Return the kind that computes the gradient of `x` from that of `y`.
    fn transposed(&self) -> Option<Kind> {
        Some(match self {
            Kind::AllReduce(Reduction::Sum) => self.clone(),
            Kind::Reduce { by: Reduction::Sum, to } => Kind::Broadcast { from: *to },
            Kind::Broadcast { from } => Kind::Reduce { by: Reduction::Sum, to: *from },
            Kind::AllGather => Kind::ReduceScatter(Reduction::Sum),
            Kind::ReduceScatter(Reduction::Sum) => Kind::AllGather,
            Kind::AllToAll { sent, received } => Kind::AllToAll { sent: received.clone(), received: sent.clone() },
            Kind::Permute { pairs } => Kind::Permute { pairs: pairs.iter().map(|&(from, to)| (to, from)).collect() },
            Kind::AllReduce(_) | Kind::Reduce { .. } | Kind::ReduceScatter(_) => return None,
        })
    }
}

impl Prim {
    /// The op, if other ranks take part in it.
    pub fn collective(&self) -> Option<&Collective> {
        match self {
            Prim::Collective(op) => Some(op),
            _ => None,
        }
    }

    /// The ranks that run the op together.
    pub fn group(&self) -> Option<&Group> {
        self.collective().map(|op| &op.group)
    }
}

/// A collective of a group.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | any; at least one dimension for the kinds that gather or split (C1) | any that the function takes (C2) |
/// | ticket | `()` | `int64`: the [`Ticket`] of the call |
/// | y | that of `x`, with other rows for the kinds that gather or split | that of `x` |
///
/// * (C3) A rank among the attributes is less than the size of the group.
/// * (C4) `reduce_scatter` splits dimension 0 into equal parts.
/// * (C5) `all_to_all` states rows for each rank, and their sum is that of `x`. On accelerators all are equal.
/// * (C6) `permute` names each rank at most once as a source and at most once as a target.
///
/// Every rank of the group calls it with operands of equal shapes, except for `all_to_all`. Otherwise running it is an
/// error on all ranks. The op [has effects](Facts::has_effects).
///
/// The gradient is the transposed collective: a sum for a sum, `reduce_scatter` for `all_gather`. All ranks must
/// compute it. The gradient of the smallest and the largest of `all_reduce` is spread evenly over the ranks that have
/// it. Other functions have no gradient.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Collective {
    /// The kind.
    pub kind: Kind,
    /// The ranks.
    pub group: Group,
}

impl Collective {
    fn rows(&self, x: &Tensor) -> Result<usize> {
        let name = self.kind.name();
        match x.dims().first() {
            Some(&rows) => Ok(rows),
            None => Err(Error::runtime(format!("{name}: expected a tensor with at least one dimension"))), // C1
        }
    }

    /// Whether the gradient goes to the ranks whose elements were chosen.
    fn saves_operands(&self) -> bool {
        matches!(self.kind, Kind::AllReduce(Reduction::Min | Reduction::Max))
    }

    fn check_rank(&self, rank: usize) -> Result<()> {
        let size = self.group.size();
        if rank < size {
            return Ok(());
        }
        Err(Error::value(format!("{}: rank: {rank}, must be less than {size}", self.kind.name()))) // C3
    }
}

impl Op for Collective {
    const NAME: &'static str = "collective";
    const FACTS: Facts = Facts { has_effects: true, ..Facts::NONE };
    fn label(&self) -> &'static str {
        self.kind.name()
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (x, size) = (x[0], self.group.size());
        if let Some(by) = self.kind.reduction() {
            by.check(self.kind.name(), x.dtype())?; // C2
        }
        let mut dims = *x.dims();
        match &self.kind {
            Kind::AllReduce(_) => {}
            Kind::Reduce { to: rank, .. } | Kind::Broadcast { from: rank } => self.check_rank(*rank)?,
            Kind::AllGather => dims.set(0, self.rows(x)? * size),
            Kind::ReduceScatter(_) => {
                let rows = self.rows(x)?;
                if !rows.is_multiple_of(size) {
                    // C4
                    return Err(Error::value(format!(
                        "input dimension 0 ({rows} must be a multiple of group_size {size})"
                    )));
                }
                dims.set(0, rows / size);
            }
            Kind::AllToAll { sent, received } => {
                if sent.len() != size || received.len() != size {
                    return Err(Error::value("Number of tensor splits not equal to group size")); // C5
                }
                if sent.iter().sum::<usize>() != self.rows(x)? {
                    return Err(Error::value("Split sizes doesn't match total dim 0 size")); // C5
                }
                if sent.iter().chain(received).any(|n| *n != sent[0]) && !backend::profile(x.place()).calls_collectives
                {
                    return Err(Error::not_implemented("all_to_all with unequal splits on an accelerator")); // C5
                }
                dims.set(0, received.iter().sum());
            }
            Kind::Permute { pairs } => {
                for (i, &(from, to)) in pairs.iter().enumerate() {
                    self.check_rank(from.max(to))?;
                    if pairs[..i].iter().any(|p| p.0 == from || p.1 == to) {
                        return Err(Error::value(format!("permute: a rank is in two pairs of {pairs:?}"))); // C6
                    }
                }
            }
        }
        Ok(x.meta().with_dims(dims))
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let axes = match self.kind {
            Kind::AllReduce(_) | Kind::Reduce { .. } | Kind::Broadcast { .. } | Kind::Permute { .. } => {
                Axes::elementwise(x, y)
            }
            Kind::AllGather | Kind::ReduceScatter(_) | Kind::AllToAll { .. } => Axes::except(1, x, y),
        };
        // Linear in the operands of all ranks together.
        if self.kind.transposed().is_some() { axes.linear(&[0b01]) } else { axes }
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let dense = x[0].detach().contiguous()?;
        let (mut y, bytes) = (y[0].clone(), dense.as_bytes().expect("contiguous and on cpu"));
        let y = y.as_bytes_mut().expect("results are contiguous");
        if self.group.size() == 1 {
            match &self.kind {
                Kind::Permute { pairs } if pairs.is_empty() => y.fill(0),
                _ => y.copy_from_slice(bytes),
            }
            return Ok(());
        }
        let ticket = Ticket::from_i64(x[1].scalar_bits().unwrap_or_default() as i64);
        let comm = comm::get()?;
        comm.launch_recorded();
        comm.run(ticket, Call { kind: &self.kind, dtype: dense.dtype(), sizes: *dense.dims(), x: bytes, y })
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        smallvec![programs::lower(self, f, &x[0], &x[1], &y[0])]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        if self.saves_operands() {
            let chosen = s.x(0).eq(s.y(0))?.to_dtype(g.dtype())?;
            let sum = |x: &Tensor| functions::call(Kind::AllReduce(Reduction::Sum), x, &self.group);
            return Ok(smallvec![Some(sum(g)?.mul(&chosen)?.div(&sum(&chosen)?)?), None]);
        }
        let Some(kind) = self.kind.transposed() else {
            let (name, by) = (self.kind.name(), self.kind.reduction().map_or("", Reduction::name));
            let by = by.to_lowercase();
            return Err(Error::not_implemented(match self.kind {
                Kind::AllReduce(_) => format!(
                    "all_reduce backward only supports `sum`, `premul_sum`, `avg`, `max`, `min` reductions, got '{by}'"
                ),
                _ => format!("the derivative for '{name}' with reduction '{by}' is not implemented."),
            }));
        };
        let gradients: SmallVec<_> = smallvec![Some(functions::call(kind, g, &self.group)?), None];
        Ok(gradients)
    }
    fn saves(&self, _: u64) -> Saves {
        if self.saves_operands() { Saves::both(0b1, 0b1) } else { Saves::NONE }
    }
}
