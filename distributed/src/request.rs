//! Descriptions of collectives: [`Op`] is the kind, and [`Request`] adds dtype, shape and the line of the call.

use crate::reduce::{Combine, ReduceOp};
use crate::transport::{hash_text, mix};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use torchtpu_tensor::{DType, Error, Result};

static COMPARES_SHAPES: AtomicBool = AtomicBool::new(false);

/// Set whether ranks must call a collective with equal shapes. Otherwise equal numbers of elements are enough. All
/// ranks must have the same setting.
pub fn set_compares_shapes(compares: bool) {
    COMPARES_SHAPES.store(compares, Relaxed);
}

/// A collective. Roots are ranks of the group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Combine the elements of all ranks, on all ranks. The output is also the input.
    AllReduce(ReduceOp),
    /// Copy the root's elements to all ranks. The output is also the input.
    Broadcast {
        /// The rank that has the elements.
        root: usize,
    },
    /// Combine the elements of all ranks, on the root. The output is also the input. On the other ranks it is
    /// unspecified afterwards.
    Reduce(ReduceOp, usize),
    /// Gather the inputs of all ranks, on all ranks.
    AllGather,
    /// Gather the inputs of all ranks, on the root. The output of the other ranks is empty.
    Gather {
        /// The rank that gets the elements.
        root: usize,
    },
    /// Hand each rank a part of the root's input. The input of the other ranks is empty.
    Scatter {
        /// The rank that has the elements.
        root: usize,
    },
    /// Combine the inputs of all ranks, and hand each rank a part.
    ReduceScatter(ReduceOp),
    /// Hand each rank a part of the input of each rank.
    AllToAll {
        /// Rows of the input for each rank.
        sent: Vec<usize>,
        /// Rows of the output from each rank.
        received: Vec<usize>,
    },
    /// Wait until all ranks are here.
    Barrier,
    /// Wait until all ranks are here, and fail if their texts differ.
    Agree {
        /// What this rank says, such as the ranks of a new group.
        text: String,
    },
}

impl Op {
    /// Return the name of the function in `torch.distributed`.
    pub const fn name(&self) -> &'static str {
        match self {
            Op::AllReduce(_) => "all_reduce",
            Op::Broadcast { .. } => "broadcast",
            Op::Reduce(..) => "reduce",
            Op::AllGather => "all_gather",
            Op::Gather { .. } => "gather",
            Op::Scatter { .. } => "scatter",
            Op::ReduceScatter(_) => "reduce_scatter",
            Op::AllToAll { .. } => "all_to_all",
            Op::Barrier => "barrier",
            Op::Agree { .. } => "new_group",
        }
    }

    /// Return the name in PyTorch's reports of mismatches.
    const fn report_name(&self) -> &'static str {
        match self {
            Op::AllReduce(_) => "ALLREDUCE",
            Op::Broadcast { .. } => "BROADCAST",
            Op::Reduce(..) => "REDUCE",
            Op::AllGather => "ALLGATHER",
            Op::Gather { .. } => "GATHER",
            Op::Scatter { .. } => "SCATTER",
            Op::ReduceScatter(_) => "REDUCE_SCATTER",
            Op::AllToAll { .. } => "ALLTOALL",
            Op::Barrier => "BARRIER",
            Op::Agree { .. } => "NEW_GROUP",
        }
    }

    const fn reduction(&self) -> Option<ReduceOp> {
        match self {
            Op::AllReduce(op) | Op::Reduce(op, _) | Op::ReduceScatter(op) => Some(*op),
            _ => None,
        }
    }

    const fn root(&self) -> Option<usize> {
        match self {
            Op::Broadcast { root } | Op::Reduce(_, root) | Op::Gather { root } | Op::Scatter { root } => Some(*root),
            _ => None,
        }
    }
}

/// A collective with the dtype and shape of its elements.
#[derive(Clone, Debug)]
pub struct Request {
    /// The collective.
    pub op: Op,
    /// Element type.
    pub dtype: DType,
    /// Shape of the elements that each rank has: of the input, or of the output for `scatter` and `reduce_scatter`.
    pub shape: Vec<usize>,
    /// File and line of the caller, for messages.
    pub line: Option<Arc<str>>,
    /// Limit of this collective. `None` is that of the group.
    pub timeout: Option<Duration>,
}

impl Request {
    /// A request without the caller's line, with the group's timeout.
    pub fn new(op: Op, dtype: DType, shape: &[usize]) -> Request {
        Request { op, dtype, shape: shape.to_vec(), line: None, timeout: None }
    }

    /// Add the caller's file and line, such as `train.py:12`.
    pub fn at(self, line: impl Into<Arc<str>>) -> Request {
        Request { line: Some(line.into()), ..self }
    }

    /// Return the bytes of the elements.
    ///
    /// # Errors
    /// Fails if the number does not fit.
    pub fn bytes(&self) -> Result<usize> {
        let bytes = self.shape.iter().try_fold(self.dtype.size_bytes(), |n, &d| n.checked_mul(d));
        bytes.ok_or_else(|| Error::value(format!("{}: shape: {:?} is too large", self.op.name(), self.shape)))
    }

    /// Return the bytes of one row, an index of the first dimension.
    pub(crate) fn row_bytes(&self) -> usize {
        self.shape.iter().skip(1).product::<usize>() * self.dtype.size_bytes()
    }

    /// Return the reduction of this request, if it has one.
    pub(crate) fn combine(&self) -> Result<Option<(ReduceOp, Combine)>> {
        let Some(op) = self.op.reduction() else { return Ok(None) };
        Ok(Some((op, Combine::new(op, self.dtype).map_err(|e| e.in_op(self.op.name()))?)))
    }

    /// Check root and lengths, on rank `rank` of `size`.
    pub(crate) fn check(&self, rank: usize, size: usize, input: usize, output: usize) -> Result<()> {
        let (name, bytes) = (self.op.name(), self.bytes()?);
        if let Some(root) = self.op.root()
            && root >= size
        {
            return Err(Error::value(format!("{name}: root: rank {root}, must be less than {size}")));
        }
        let total = bytes.checked_mul(size).ok_or_else(|| Error::value(format!("{name}: the output is too large")))?;
        let on = |is_root: bool, n: usize| if is_root { n } else { 0 };
        let expected = match &self.op {
            Op::AllReduce(_) | Op::Broadcast { .. } | Op::Reduce(..) => (0, bytes),
            Op::AllGather => (bytes, total),
            Op::Gather { root } => (bytes, on(*root == rank, total)),
            Op::Scatter { root } => (on(*root == rank, total), bytes),
            Op::ReduceScatter(_) => (total, bytes),
            Op::AllToAll { sent, received } => {
                if sent.len() != size || received.len() != size {
                    return Err(Error::value("Number of tensor splits not equal to group size"));
                }
                let row = self.row_bytes();
                (sent.iter().sum::<usize>() * row, received.iter().sum::<usize>() * row)
            }
            Op::Barrier | Op::Agree { .. } => (0, 0),
        };
        let rows = self.shape.first().copied().unwrap_or(0);
        if let Op::AllToAll { sent, .. } = &self.op
            && sent.iter().sum::<usize>() != rows
        {
            return Err(Error::value("Split sizes doesn't match total dim 0 size"));
        }
        if (input, output) == expected {
            return Ok(());
        }
        let message = match &self.op {
            Op::AllGather => "output tensor size must be equal to world_size times input tensor size".to_string(),
            Op::ReduceScatter(_) => "input tensor must be the same size as output size times world size".to_string(),
            _ => format!("{name}: {input} bytes of input and {output} of output, must be {expected:?}"),
        };
        Err(Error::value(message))
    }

    /// Return a hash of everything that must be equal on all ranks. The number of elements must be, and the shape only
    /// if [`set_compares_shapes`] says so.
    pub(crate) fn fingerprint(&self) -> u64 {
        if COMPARES_SHAPES.load(Relaxed) {
            return self.exact_fingerprint();
        }
        self.fingerprint_of(&[self.compared_sizes().iter().product()])
    }

    /// Return a hash of everything that must be equal on all ranks, the shape too.
    pub(crate) fn exact_fingerprint(&self) -> u64 {
        self.fingerprint_of(self.compared_sizes())
    }

    /// The sizes. Those of an all_to_all leave out the number of rows, which may differ between ranks.
    fn compared_sizes(&self) -> &[usize] {
        let skipped = usize::from(matches!(self.op, Op::AllToAll { .. }));
        self.shape.get(skipped..).unwrap_or_default()
    }

    fn fingerprint_of(&self, sizes: &[usize]) -> u64 {
        let text = if let Op::Agree { text } = &self.op { hash_text(text) } else { 0 };
        let head = [
            hash_text(self.op.report_name()),
            text,
            self.op.reduction().map_or(0, |op| op as u64 + 1),
            self.op.root().map_or(0, |root| root as u64 + 1),
            self.dtype as u64,
            sizes.len() as u64,
        ];
        head.into_iter().chain(sizes.iter().map(|&n| n as u64)).fold(0, mix)
    }

    /// Return the request in the words of PyTorch's reports of mismatches.
    pub(crate) fn describe(&self, sequence: u64) -> String {
        let mut text = format!(
            "CollectiveFingerPrint(SequenceNumber={sequence}, OpType={}, TensorShape={:?}, TensorDtypes={}",
            self.op.report_name(),
            self.shape,
            self.dtype.scalar_type()
        );
        // Writing to a string cannot fail.
        if let Some(op) = self.op.reduction() {
            let _ = write!(text, ", ReduceOp={}", op.name());
        }
        if let Some(root) = self.op.root() {
            let _ = write!(text, ", Root={root}");
        }
        if let Op::Agree { text: said } = &self.op {
            let _ = write!(text, ", Ranks={said}");
        }
        text.push(')');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_must_not_meet_have_different_fingerprints() {
        let sum = Op::AllReduce(ReduceOp::Sum);
        let requests = [
            Request::new(sum.clone(), DType::F32, &[4]),
            Request::new(sum.clone(), DType::F32, &[6]),
            Request::new(sum, DType::I32, &[4]),
            Request::new(Op::AllReduce(ReduceOp::Avg), DType::F32, &[4]),
            Request::new(Op::Broadcast { root: 0 }, DType::F32, &[4]),
            Request::new(Op::Broadcast { root: 1 }, DType::F32, &[4]),
            Request::new(Op::Reduce(ReduceOp::Sum, 0), DType::F32, &[4]),
            Request::new(Op::AllGather, DType::F32, &[4]),
            Request::new(Op::Gather { root: 0 }, DType::F32, &[4]),
            Request::new(Op::Scatter { root: 0 }, DType::F32, &[4]),
            Request::new(Op::ReduceScatter(ReduceOp::Sum), DType::F32, &[4]),
            Request::new(Op::AllToAll { sent: vec![2, 2], received: vec![2, 2] }, DType::F32, &[4]),
            Request::new(Op::Barrier, DType::F32, &[4]),
            Request::new(Op::Agree { text: "[0, 1]".into() }, DType::F32, &[4]),
            Request::new(Op::Agree { text: "[0, 2]".into() }, DType::F32, &[4]),
        ];
        for (i, a) in requests.iter().enumerate() {
            for (j, b) in requests.iter().enumerate() {
                assert_eq!(a.fingerprint() == b.fingerprint(), i == j, "{a:?} and {b:?}");
                assert_eq!(a.exact_fingerprint() == b.exact_fingerprint(), i == j, "{a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn shapes_of_equally_many_elements_may_meet() {
        let request = |shape: &[usize]| Request::new(Op::AllReduce(ReduceOp::Sum), DType::F32, shape);
        assert_eq!(request(&[4]).fingerprint(), request(&[2, 2]).fingerprint());
        assert_eq!(request(&[]).fingerprint(), request(&[1]).fingerprint());
        assert_ne!(request(&[4]).exact_fingerprint(), request(&[2, 2]).exact_fingerprint());
    }

    #[test]
    fn rows_of_an_all_to_all_may_differ() {
        let request =
            |rows| Request::new(Op::AllToAll { sent: vec![rows, 0], received: vec![0; 2] }, DType::F32, &[rows, 3]);
        assert_eq!(request(2).fingerprint(), request(5).fingerprint());
    }
}
