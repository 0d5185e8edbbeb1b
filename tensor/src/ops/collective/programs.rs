//! Collectives in compiled programs.
//!
//! Where the profile `calls_collectives`, a collective is a custom call, which the engine registers as [`TARGET`]. The
//! call runs the collective of the process group, on XLA's buffers. Other compilers have collectives of their own.

use super::{Collective, Kind, Reduction};
use crate::comm::{self, Call, Ticket};
use crate::op::{Func, Value};
use crate::{DType, Dims, Error, Meta, Result};
use torchtpu_stablehlo::{Combine, ElementType, Groups, ReduceKind};

/// The function that programs call.
pub const TARGET: &str = "torchtpu.collective";

/// Append a collective to a program.
pub(super) fn lower(op: &Collective, f: &mut Func, x: &Value, ticket: &Value, y: &Meta) -> Value {
    if op.group.size() == 1 {
        return match &op.kind {
            Kind::Permute { pairs } if pairs.is_empty() => f.splat(0.0, x.ty()),
            _ => x.clone(),
        };
    }
    if f.profile().calls_collectives {
        // The others read the elements of `x` after they have written to the result.
        let is_combined = matches!(op.kind, Kind::AllReduce(_) | Kind::Reduce { .. } | Kind::Broadcast { .. });
        let in_place = is_combined && f.is_ours(x);
        let numbers = numbers(&op.kind);
        return f.ordered_call(TARGET, &[x.clone(), ticket.clone()], &y.ty(), in_place, op.kind.name(), &numbers);
    }
    let groups = &*f.devices_of(op.group.partition());
    // The devices with one rank of each group.
    let devices = |rank: usize| groups.iter().map(|g| g[rank]).collect::<Vec<_>>();
    match &op.kind {
        Kind::AllReduce(by) => f.all_reduce(x, combine(*by), groups),
        Kind::Reduce { by, to } => {
            let sum = f.all_reduce(x, combine(*by), groups);
            masked(f, &sum, &devices(*to))
        }
        Kind::Broadcast { from } => broadcast(f, x, &devices(*from), groups),
        Kind::AllGather => f.all_gather(x, groups),
        // Some compilers make it a sum and a slice. Without the barrier the slice moves to its reader, which may be the
        // optimizer, and the sums of all layers stay alive until then.
        Kind::ReduceScatter(by) => {
            let part = f.reduce_scatter(x, combine(*by), groups);
            f.optimization_barrier(&[part]).swap_remove(0)
        }
        Kind::AllToAll { .. } => f.all_to_all(x, groups),
        Kind::Permute { pairs } => {
            let pairs: Vec<(usize, usize)> =
                groups.iter().flat_map(|g| pairs.iter().map(|&(from, to)| (g[from], g[to]))).collect();
            f.collective_permute(x, &pairs)
        }
    }
}

fn combine(by: Reduction) -> Combine {
    match by {
        Reduction::Sum => Combine::Reduce(ReduceKind::Add),
        Reduction::Product => Combine::Reduce(ReduceKind::Mul),
        Reduction::Min => Combine::Reduce(ReduceKind::Min),
        Reduction::Max => Combine::Reduce(ReduceKind::Max),
        Reduction::And => Combine::Reduce(ReduceKind::And),
        Reduction::Or => Combine::Reduce(ReduceKind::Or),
        Reduction::Xor => Combine::Xor,
    }
}

/// Return `x` on some devices, and zeros on the others.
fn masked(f: &mut Func, x: &Value, devices: &[usize]) -> Value {
    let is_one = f.is_device(devices);
    let zero = f.splat(0.0, x.ty());
    f.select(&is_one, x, &zero)
}

/// Return `x` of a device in each group. Compilers for accelerators refuse `collective_broadcast`, so it is a sum with
/// zeros. The bits are summed as integers: a sum of floats would make 0 of -0.
fn broadcast(f: &mut Func, x: &Value, devices: &[usize], groups: Groups<'_>) -> Value {
    let e = x.element();
    if e.is_complex() {
        let parts = ["stablehlo.real", "stablehlo.imag"].map(|part| {
            let part = f.unary(part, x);
            broadcast(f, &part, devices, groups)
        });
        return f.binary("stablehlo.complex", &parts[0], &parts[1]);
    }
    let integer = match e {
        ElementType::F64 => ElementType::U64,
        ElementType::F32 => ElementType::U32,
        ElementType::F16 | ElementType::BF16 => ElementType::U16,
        other => other,
    };
    let bits = if integer == e { x.clone() } else { f.bitcast_convert(x, integer) };
    let own = masked(f, &bits, devices);
    let sum = f.all_reduce(&own, Combine::Reduce(ReduceKind::Add), groups);
    if integer == e { sum } else { f.bitcast_convert(&sum, e) }
}

/// The attributes of a kind as numbers.
fn numbers(kind: &Kind) -> Vec<i64> {
    let number = |n: &usize| *n as i64;
    match kind {
        Kind::AllReduce(by) | Kind::ReduceScatter(by) => vec![*by as i64],
        Kind::Reduce { by, to } => vec![*by as i64, *to as i64],
        Kind::Broadcast { from } => vec![*from as i64],
        Kind::AllGather => Vec::new(),
        Kind::AllToAll { sent, received } => sent.iter().chain(received).map(number).collect(),
        Kind::Permute { pairs } => pairs.iter().flat_map(|p| [p.0 as i64, p.1 as i64]).collect(),
    }
}

/// Return the kind with a name and attributes: the inverse of [`numbers`].
fn decode(name: &str, numbers: &[i64]) -> Option<Kind> {
    let by = |n: i64| Reduction::ALL.into_iter().find(|by| *by as i64 == n);
    let rank = |n: i64| usize::try_from(n).ok();
    let ranks = |of: &[i64]| of.iter().map(|&n| rank(n)).collect::<Option<Vec<_>>>();
    Some(match (name, numbers) {
        ("all_reduce", &[n]) => Kind::AllReduce(by(n)?),
        ("reduce_scatter", &[n]) => Kind::ReduceScatter(by(n)?),
        ("reduce", &[n, to]) => Kind::Reduce { by: by(n)?, to: rank(to)? },
        ("broadcast", &[from]) => Kind::Broadcast { from: rank(from)? },
        ("all_gather", []) => Kind::AllGather,
        ("all_to_all", rows) => {
            let (sent, received) = rows.split_at(rows.len() / 2);
            Kind::AllToAll { sent: ranks(sent)?, received: ranks(received)? }
        }
        ("permute", pairs) => {
            let ranks = ranks(pairs)?;
            Kind::Permute { pairs: ranks.chunks_exact(2).map(|p| (p[0], p[1])).collect() }
        }
        _ => return None,
    })
}

/// Run a collective that a program calls. `name` and `numbers` are the attributes of the call, and `ticket` is its
/// second operand. `x` is empty if `y` has taken its memory.
///
/// # Errors
/// Those of [`comm::Communicator::run`]. `Runtime` for a call that no lowering writes.
pub fn run(name: &str, numbers: &[i64], ticket: i64, dtype: DType, sizes: Dims, x: &[u8], y: &mut [u8]) -> Result<()> {
    let kind = decode(name, numbers)
        .ok_or_else(|| Error::runtime(format!("no collective {name} with attributes {numbers:?}")))?;
    comm::get()?.run(Ticket::from_i64(ticket), Call { kind: &kind, dtype, sizes, x, y })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_a_call_give_its_kind() {
        let kinds = [
            Kind::AllReduce(Reduction::Max),
            Kind::Reduce { by: Reduction::Xor, to: 3 },
            Kind::Broadcast { from: 1 },
            Kind::AllGather,
            Kind::ReduceScatter(Reduction::Sum),
            Kind::AllToAll { sent: vec![1, 2], received: vec![3, 0] },
            Kind::Permute { pairs: vec![(0, 1), (1, 0)] },
            Kind::Permute { pairs: Vec::new() },
        ];
        for kind in kinds {
            assert_eq!(decode(kind.name(), &numbers(&kind)), Some(kind));
        }
        assert_eq!(decode("all_reduce", &[7]), None);
        assert_eq!(decode("broadcast", &[-1]), None);
        assert_eq!(decode("scan", &[]), None);
    }
}
