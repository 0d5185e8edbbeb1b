//! Chains of view ops as a device runs them.

use crate::op::{Layout, Prim};
use crate::ops::shape::{Expand, Permute, Reshape, Slice};
use crate::{Dims, Result};
use smallvec::SmallVec;

/// The ops of a chain with repeats of elements moved behind the ops that select some of them, so that a device never
/// writes out elements that no later op reads. `dims` are the sizes of the base.
pub(crate) fn repeats_last(dims: Dims, ops: &[&Prim]) -> Result<SmallVec<[Prim; 4]>> {
    let mut out = SmallVec::new();
    // The sizes so far, without and with the repeats that are still to come.
    let (mut inner, mut outer) = (dims, dims);
    for op in ops {
        match op {
            Prim::Expand(Expand(to)) => outer = *to,
            Prim::Slice(s) if inner != outer && s.len > 0 => {
                let own = s.dim.checked_sub(outer.len() - inner.len()).filter(|&d| inner[d] == outer[s.dim]);
                if let Some(dim) = own {
                    out.push(Prim::Slice(Slice { dim, ..*s }));
                    inner = inner.with(dim, s.len);
                }
                outer = outer.with(s.dim, s.len);
            }
            Prim::Permute(Permute(order)) if inner != outer => {
                inner = aligned(&mut out, inner, outer.len());
                out.push((*op).clone());
                (inner, outer) = (order.iter().map(|&d| inner[d]).collect(), order.iter().map(|&d| outer[d]).collect());
            }
            Prim::Reshape(Reshape(to)) if inner != outer && without_ones(&outer) == without_ones(to) => {
                // Only dimensions of size one come and go.
                inner = aligned(&mut out, inner, outer.len());
                let mut sizes = inner.iter().zip(outer.iter()).filter(|(_, n)| **n != 1).map(|(n, _)| *n);
                inner = to.iter().map(|&n| if n == 1 { 1 } else { sizes.next().unwrap_or(n) }).collect();
                out.push(Prim::Reshape(Reshape(inner)));
                outer = *to;
            }
            op => {
                if inner != outer {
                    out.push(Prim::Expand(Expand(outer)));
                }
                out.push((*op).clone());
                outer = op.layout(&Layout::contiguous(outer))?.dims;
                inner = outer;
            }
        }
    }
    if inner != outer {
        out.push(Prim::Expand(Expand(outer)));
    } else if out.is_empty() {
        // All ops cancel. The view still is a value of its own.
        out.push(Prim::Reshape(Reshape(outer)));
    }
    Ok(out)
}

/// Add dimensions of size one in front, up to a rank.
fn aligned(out: &mut SmallVec<[Prim; 4]>, dims: Dims, rank: usize) -> Dims {
    if dims.len() == rank {
        return dims;
    }
    let dims: Dims = std::iter::repeat_n(1, rank - dims.len()).chain(dims.iter().copied()).collect();
    out.push(Prim::Reshape(Reshape(dims)));
    dims
}

fn without_ones(dims: &Dims) -> SmallVec<[usize; 8]> {
    dims.iter().copied().filter(|&n| n != 1).collect()
}
