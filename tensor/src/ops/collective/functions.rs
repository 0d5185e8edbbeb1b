//! Collectives as functions of tensors. Their results are new tensors with gradients.

use super::{Collective, Kind, Reduction};
use crate::comm::{self, Group, Ticket};
use crate::op::Prim;
use crate::schema::Arg;
use crate::{DType, Device, Error, Result, Scalar, Tensor, dispatch, ops};
use std::cell::RefCell;
use std::rc::Rc;

/// A function that is called with the name of each collective.
pub type Observer = Rc<dyn Fn(&'static str)>;

thread_local! {
    static OBSERVER: RefCell<Option<Observer>> = const { RefCell::new(None) };
}

/// Call `observer` before each collective of this thread, those of gradients and of sharded tensors too.
pub fn observe(observer: Option<Observer>) {
    OBSERVER.set(observer);
}

/// Reserve the turn of a collective, and run or record it.
pub(super) fn call(kind: Kind, x: &Tensor, group: &Group) -> Result<Tensor> {
    if group.is_on_host() && x.place().is_tpu() {
        return call(kind, &x.to_device(Device::CPU)?, group)?.to_device(x.place());
    }
    let name = kind.name();
    let op = Prim::Collective(Box::new(Collective { kind, group: group.clone() }));
    let none = Ticket::NONE.operand()?;
    // A mistake must not take a turn, since the other ranks would wait for it.
    op.infer(&[x, &none]).map_err(|e| e.in_op(name))?;
    if let Some(observer) = OBSERVER.with_borrow(Clone::clone) {
        observer(name);
    }
    if !comm::needs_turn(group, x.place()) {
        return dispatch::call(op, &[x, &none]);
    }
    let comm = comm::get()?;
    let ticket = comm.reserve(group)?;
    let result = ticket.operand().and_then(|ticket| dispatch::call(op, &[x, &ticket]));
    result.inspect_err(|e| comm.give_up(ticket, e))
}

/// Combine `x` of all ranks, on all ranks.
///
/// # Errors
/// `Value` if the function does not take the dtype. `DistBackend` if a rank is missing or calls another collective: at
/// once on `cpu`, when the result is read on `tpu`.
pub fn all_reduce(x: &Tensor, by: Reduction, group: &Group) -> Result<Tensor> {
    call(Kind::AllReduce(by), x, group)
}

/// Return the mean of `x` over all ranks, on all ranks. Means of integers are rounded toward zero.
///
/// # Errors
/// As [`all_reduce`]. `Value` for `bool`.
pub fn mean(x: &Tensor, group: &Group) -> Result<Tensor> {
    check_mean(x)?;
    mean_of_sum(&all_reduce(x, Reduction::Sum, group)?, group)
}

/// Refuse dtypes without a mean, before the sum is computed.
///
/// # Errors
/// `Value` for `bool`.
pub fn check_mean(x: &Tensor) -> Result<()> {
    if x.dtype() == DType::Bool {
        return Err(Error::value("Cannot use ReduceOp.AVG with Boolean tensors"));
    }
    Ok(())
}

/// Divide a sum over all ranks by their number. Integers are rounded toward zero.
///
/// # Errors
/// `OutOfMemory`.
pub fn mean_of_sum(sum: &Tensor, group: &Group) -> Result<Tensor> {
    let size = Scalar::Int(group.size() as i64);
    if sum.dtype().is_inexact() {
        return sum.div_scalar(size);
    }
    ops::call_tensor("div.Tensor_mode", &[Arg::Tensor(sum), Arg::Scalar(size), Arg::Str("trunc")])
}

/// Combine `x` of all ranks, on the rank `to` of the group. The other ranks get zeros.
///
/// # Errors
/// As [`all_reduce`]. `Value` if there is no such rank.
pub fn reduce(x: &Tensor, by: Reduction, to: usize, group: &Group) -> Result<Tensor> {
    call(Kind::Reduce { by, to }, x, group)
}

/// Return `x` of the rank `from` of the group, on all ranks.
///
/// # Errors
/// As [`all_reduce`]. `Value` if there is no such rank.
pub fn broadcast(x: &Tensor, from: usize, group: &Group) -> Result<Tensor> {
    call(Kind::Broadcast { from }, x, group)
}

/// Concatenate `x` of all ranks along dimension 0, on all ranks.
///
/// # Errors
/// As [`all_reduce`]. `Runtime` without dimensions.
pub fn all_gather(x: &Tensor, group: &Group) -> Result<Tensor> {
    call(Kind::AllGather, x, group)
}

/// Combine `x` of all ranks. Return the part of dimension 0 that belongs to this rank.
///
/// # Errors
/// As [`all_reduce`]. `Value` if dimension 0 has no equal parts.
pub fn reduce_scatter(x: &Tensor, by: Reduction, group: &Group) -> Result<Tensor> {
    call(Kind::ReduceScatter(by), x, group)
}

/// Send `sent[i]` rows of `x` to rank `i`, and return the rows from all ranks, `received[i]` from rank `i`.
///
/// # Errors
/// As [`all_reduce`]. `Value` if there are other rows in `x`. `NotImplemented` for unequal numbers on an accelerator.
pub fn all_to_all(x: &Tensor, sent: &[usize], received: &[usize], group: &Group) -> Result<Tensor> {
    call(Kind::AllToAll { sent: sent.to_vec(), received: received.to_vec() }, x, group)
}

/// Send `x` along `pairs` of a source and a target rank. A rank that is no target gets zeros.
///
/// # Errors
/// As [`all_reduce`]. `Value` if a rank is twice a source or twice a target.
pub fn permute(x: &Tensor, pairs: &[(usize, usize)], group: &Group) -> Result<Tensor> {
    call(Kind::Permute { pairs: pairs.to_vec() }, x, group)
}
