//! Groups for plans: only this rank exists, and the others count as doing what it does.
//!
//! A plan shows the programs of one rank of many. The host's collectives of such a program, such as the comparison of
//! shapes at the start of data parallel training, need an answer. It is the one that equal ranks would give.

use super::{Group, Options, ProcessGroup};
use crate::reduce::{Combine, ReduceOp};
use crate::request::{Op, Request};
use crate::store::HashStore;
use crate::transport::memory::Memory;
use std::sync::Arc;
use torchtpu_tensor::{Error, Result};

impl ProcessGroup {
    /// Make a group of `size` ranks in which only `rank` exists. Its collectives do not wait. They give what they would
    /// give if all ranks had made the same call with the same elements.
    ///
    /// # Errors
    /// Fails if `rank` or `options.ranks` do not fit `size`.
    pub fn planned(rank: usize, size: usize, options: Options) -> Result<ProcessGroup> {
        ProcessGroup::make(Arc::new(HashStore::new()), Arc::new(Memory::default()), rank, size, options, true)
    }

    /// Whether only this rank exists.
    pub fn is_planned(&self) -> bool {
        self.0.is_planned
    }
}

impl Group {
    /// Run a collective of equal ranks.
    pub(super) fn perform_planned(
        &self,
        request: &Request,
        combine: Option<(ReduceOp, Combine)>,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<()> {
        let part = |of: &[usize], i: usize| {
            let start = of[..i].iter().sum::<usize>() * request.row_bytes();
            start..start + of[i] * request.row_bytes()
        };
        let own = |bytes: usize| self.rank * bytes..(self.rank + 1) * bytes;
        match &request.op {
            Op::Broadcast { .. } | Op::Barrier | Op::Agree { .. } => {}
            Op::AllReduce(_) | Op::Reduce(..) => self.combine_equal(combine, output),
            Op::ReduceScatter(_) => {
                output.copy_from_slice(&input[own(output.len())]);
                self.combine_equal(combine, output);
            }
            // Only the root of a gather has an output.
            Op::AllGather | Op::Gather { .. } => {
                if !input.is_empty() {
                    output.chunks_exact_mut(input.len()).for_each(|rows| rows.copy_from_slice(input));
                }
            }
            Op::Scatter { root } if *root == self.rank => output.copy_from_slice(&input[own(output.len())]),
            Op::Scatter { root } => return Err(absent("scatter", *root)),
            Op::AllToAll { sent, received } => {
                let given = &input[part(sent, self.rank)];
                for from in 0..self.size {
                    match &mut output[part(received, from)] {
                        rows if rows.len() == given.len() => rows.copy_from_slice(given),
                        // An equal rank would not send this number of rows.
                        rows => rows.fill(0),
                    }
                }
            }
        }
        Ok(())
    }

    /// Combine elements with themselves, once for each other rank.
    fn combine_equal(&self, combine: Option<(ReduceOp, Combine)>, output: &mut [u8]) {
        let Some((op, with)) = combine else { return };
        match op {
            ReduceOp::Sum | ReduceOp::Product | ReduceOp::BXor => {
                let own = output.to_vec();
                (1..self.size).for_each(|_| with.apply(output, &own));
            }
            ReduceOp::Avg | ReduceOp::Min | ReduceOp::Max | ReduceOp::BAnd | ReduceOp::BOr => {}
        }
    }
}

/// Return the error of a call that needs the values of another rank.
pub(super) fn absent(op: &str, rank: usize) -> Error {
    Error::not_implemented(format!("{op}: rank {rank} of a planned group does not exist, so it sends nothing"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use torchtpu_tensor::DType;

    fn group(rank: usize) -> ProcessGroup {
        ProcessGroup::planned(rank, 4, Options::default()).unwrap()
    }

    fn run(rank: usize, op: Op, shape: &[usize], input: &[u8], output: &mut [u8]) -> Result<()> {
        group(rank).run(&Request::new(op, DType::U8, shape), input, output)
    }

    #[test]
    fn results_are_those_of_equal_ranks() {
        let mut x = [1, 2];
        run(1, Op::AllReduce(ReduceOp::Sum), &[2], &[], &mut x).unwrap();
        assert_eq!(x, [4, 8]);
        run(1, Op::AllReduce(ReduceOp::Avg), &[2], &[], &mut x).unwrap();
        run(1, Op::AllReduce(ReduceOp::Max), &[2], &[], &mut x).unwrap();
        run(1, Op::Broadcast { root: 3 }, &[2], &[], &mut x).unwrap();
        assert_eq!(x, [4, 8]);
        let mut y = [0; 8];
        run(2, Op::AllGather, &[2], &x, &mut y).unwrap();
        assert_eq!(y, [4, 8, 4, 8, 4, 8, 4, 8]);
        let mut part = [0; 2];
        run(2, Op::ReduceScatter(ReduceOp::Sum), &[2], &[0, 1, 2, 3, 4, 5, 6, 7], &mut part).unwrap();
        assert_eq!(part, [16, 20]);
        run(3, Op::Scatter { root: 3 }, &[2], &[0, 1, 2, 3, 4, 5, 6, 7], &mut part).unwrap();
        assert_eq!(part, [6, 7]);
        let exchange = Op::AllToAll { sent: vec![1; 4], received: vec![1, 1, 2, 1] };
        let mut y = [9; 5];
        run(1, exchange, &[4], &[5, 6, 7, 8], &mut y).unwrap();
        assert_eq!(y, [6, 6, 0, 0, 6]);
    }

    #[test]
    fn calls_wait_for_no_rank() {
        let all = group(0);
        all.barrier().unwrap();
        all.monitored_barrier(Duration::from_secs(60), true).unwrap();
        all.send(3, 0, DType::U8, &[1]).unwrap();
        let half = all.new_group(&[0, 2], None).unwrap().unwrap();
        assert_eq!((half.ranks(), half.is_planned()), (&[0, 2][..], true));
        half.barrier().unwrap();
    }

    #[test]
    fn values_of_absent_ranks_are_refused() {
        let text = |e: Error| e.to_string();
        assert!(
            text(group(0).recv(Some(2), 0, DType::U8, &mut [0]).unwrap_err()).contains("rank 2 of a planned group")
        );
        assert!(text(group(0).recv(None, 0, DType::U8, &mut [0]).unwrap_err()).contains("no other rank"));
        let scatter = run(0, Op::Scatter { root: 1 }, &[1], &[], &mut [0]).unwrap_err();
        assert!(text(scatter).contains("scatter: rank 1 of a planned group does not exist"));
    }
}
