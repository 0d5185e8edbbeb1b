//! Process groups for collectives of tensors.
//!
//! [`register`] gives the [`Group`] that the functions of [`torchtpu_tensor::ops::collective`] take. Such a collective
//! runs on device `cpu` at once, and on device `tpu` in a compiled program, whenever that is launched. Its turn in the
//! group is that of its call.

use crate::group::ProcessGroup;
use crate::reduce::ReduceOp;
use crate::request::{Op, Request};
use crate::store::check_interrupt;
use crate::{agree, launched, watch};
use parking_lot::{Mutex, RwLock};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use torchtpu_tensor::comm::{self, Agreed, Call, Communicator, Disagreement, Group, Proposal, Step, Ticket};
use torchtpu_tensor::ops::collective::{Kind, Reduction};
use torchtpu_tensor::{DType, Dims, Error, ErrorKind, Result, backend};

/// The groups by their numbers, from 1. The place of a group that was unregistered stays empty.
static GROUPS: RwLock<Vec<Option<ProcessGroup>>> = RwLock::new(Vec::new());

/// Number of reserved turns, and of those that were used.
static RESERVED: AtomicU64 = AtomicU64::new(0);
static USED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether this thread runs a collective of a program.
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
    /// The line of the user's program that calls collectives now.
    static LINE: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// The lines of the collectives that have not run.
static LINES: Mutex<BTreeMap<Ticket, Arc<str>>> = Mutex::new(BTreeMap::new());

/// Make a group usable for tensors. `partition` has the global ranks of all groups that were made together with this
/// one. Groups of different lengths cannot be partitions of one program: pass those of this group alone.
///
/// # Errors
/// `Value` if the partition does not have the ranks of the group, or if its lists are not equally long.
pub fn register(group: &ProcessGroup, partition: Vec<Vec<usize>>) -> Result<Group> {
    add(group, partition, Group::new)
}

/// Make a group usable for tensors as [`register`] does, with all its collectives on the host, also those of tensors on
/// `tpu`. Ranks that are threads of one process need it: see [`Group::on_host`].
///
/// # Errors
/// As [`register`].
pub fn register_on_host(group: &ProcessGroup, partition: Vec<Vec<usize>>) -> Result<Group> {
    add(group, partition, Group::on_host)
}

fn add(
    group: &ProcessGroup,
    partition: Vec<Vec<usize>>,
    make: impl FnOnce(u32, Vec<Vec<usize>>) -> Group,
) -> Result<Group> {
    let fits = partition.iter().all(|p| p.len() == group.size());
    if !fits || !partition.iter().any(|p| p == group.ranks()) {
        let ranks = group.ranks();
        return Err(Error::value(format!("register: partition: {partition:?}, must have lists like {ranks:?}")));
    }
    comm::install(&Groups);
    let mut groups = GROUPS.write();
    groups.push(Some(group.clone()));
    Ok(make(groups.len() as u32, partition))
}

/// Wait until the collectives that were recorded have run, then forget the group. Later collectives of it fail.
pub fn unregister(group: &Group) {
    finish();
    let forgotten = GROUPS.write().get_mut(group.number() as usize - 1).and_then(Option::take);
    // The last owner of a group waits for its peers, so the lock is released first.
    drop(forgotten);
}

/// Break a group: what waits ends with an error that says `why`, on all ranks.
pub fn abort(group: &Group, why: &str) {
    if let Ok(group) = find(group.number()) {
        group.abort(why);
    }
}

/// Launch the collectives that are recorded, so that other ranks that wait for them go on. Waits of this crate call
/// this first.
pub fn launch_recorded() {
    let is_open = USED.load(Ordering::Relaxed) < RESERVED.load(Ordering::Relaxed);
    if is_open
        && !IS_RUNNING.get()
        && let Ok(backend) = backend::get()
    {
        backend.launch_collectives();
    }
}

/// Launch the collectives that are recorded, and wait until they have run. Errors stay with their results.
pub fn finish() {
    if RESERVED.load(Ordering::Relaxed) > 0
        && let Ok(backend) = backend::get()
    {
        backend.finish_collectives();
    }
}

/// Return the result of `call`, whose collectives are reported with `line`, such as `train.py:12`.
pub fn at_line<R>(line: Option<Arc<str>>, call: impl FnOnce() -> R) -> R {
    let outer = LINE.replace(line);
    let result = call();
    LINE.set(outer);
    result
}

/// The groups as a communicator.
struct Groups;

/// Return the group with a number.
///
/// # Errors
/// `DistBackend` if it was destroyed.
pub(crate) fn find(number: u32) -> Result<ProcessGroup> {
    let group = (number as usize).checked_sub(1).and_then(|i| GROUPS.read().get(i)?.clone());
    group.ok_or_else(|| Error::new(ErrorKind::DistBackend, "the process group of this collective was destroyed"))
}

/// Return the line of a collective that has not run, if known.
pub(crate) fn line_of(ticket: Ticket) -> Option<Arc<str>> {
    LINES.lock().get(&ticket).cloned()
}

impl Communicator for Groups {
    fn reserve(&self, group: &Group) -> Result<Ticket> {
        let sequence = find(group.number())?.reserve()?;
        RESERVED.fetch_add(1, Ordering::Relaxed);
        let ticket = Ticket::new(group.number(), sequence);
        if let Some(line) = LINE.with_borrow(Clone::clone) {
            LINES.lock().insert(ticket, line);
        }
        Ok(ticket)
    }

    fn run(&self, ticket: Ticket, call: Call<'_>) -> Result<()> {
        USED.fetch_add(1, Ordering::Relaxed);
        let group = find(ticket.group())?;
        let was_running = IS_RUNNING.replace(true);
        let line = LINES.lock().remove(&ticket);
        let result = run(&group, ticket.sequence(), line, call);
        IS_RUNNING.set(was_running);
        result
    }

    fn give_up(&self, ticket: Ticket, why: &Error) {
        LINES.lock().remove(&ticket);
        if let Ok(group) = find(ticket.group()) {
            group.give_up(ticket.sequence(), why);
        }
    }

    fn agree(&self, proposal: &Proposal<'_>) -> std::result::Result<Agreed, Disagreement> {
        agree::agree(proposal)
    }

    fn await_compiled(&self, step: &Step) -> std::result::Result<(), Disagreement> {
        agree::await_compiled(step)
    }

    fn note_launch(&self, tickets: &[Ticket], has_ended: Box<dyn Fn() -> bool + Send + Sync>) {
        launched::add(tickets, has_ended);
    }

    fn is_device_running(&self) -> bool {
        launched::is_running()
    }

    fn was_launched(&self, ticket: Ticket) {
        USED.fetch_add(1, Ordering::Relaxed);
        LINES.lock().remove(&ticket);
        if let Ok(group) = find(ticket.group()) {
            group.pass(ticket.sequence());
        }
    }

    fn note_compiling(&self, begins: bool) {
        watch::note_compiling(begins);
    }

    fn launch_recorded(&self) {
        launch_recorded();
    }

    fn check_interrupt(&self) -> Result<()> {
        let result = check_interrupt();
        if result.is_err() {
            let groups: Vec<ProcessGroup> = GROUPS.read().iter().flatten().cloned().collect();
            groups.iter().for_each(|group| group.abort("the program was interrupted"));
        }
        result.and_then(|()| launched::check())
    }
}

/// Return a collective on elements of these sizes as a request of its group.
pub(crate) fn request(kind: &Kind, dtype: DType, sizes: &Dims, group: &ProcessGroup) -> Request {
    let new = |op, shape: &[usize]| Request::new(op, dtype, shape);
    match kind {
        Kind::AllReduce(by) => new(Op::AllReduce(op(*by)), sizes),
        Kind::Broadcast { from } => new(Op::Broadcast { root: *from }, sizes),
        Kind::Reduce { by, to } => new(Op::Reduce(op(*by), *to), sizes),
        Kind::AllGather => new(Op::AllGather, sizes),
        Kind::ReduceScatter(by) => {
            let mut part = *sizes;
            part.set(0, sizes[0] / group.size());
            new(Op::ReduceScatter(op(*by)), &part)
        }
        Kind::AllToAll { sent, received } => {
            new(Op::AllToAll { sent: sent.clone(), received: received.clone() }, sizes)
        }
        Kind::Permute { pairs } => {
            // The elements of a rank are one row.
            let (source, target) = partners(pairs, group.rank());
            let rows = |one: Option<usize>| (0..group.size()).map(|r| usize::from(one == Some(r))).collect();
            let op = Op::AllToAll { sent: rows(target), received: rows(source) };
            new(op, &[&[usize::from(target.is_some())], &sizes[..]].concat())
        }
    }
}

/// Return the rank that a rank receives from, and the one that it sends to.
fn partners(pairs: &[(usize, usize)], rank: usize) -> (Option<usize>, Option<usize>) {
    let source = pairs.iter().find(|p| p.1 == rank).map(|p| p.0);
    (source, pairs.iter().find(|p| p.0 == rank).map(|p| p.1))
}

fn run(group: &ProcessGroup, ticket: u64, line: Option<Arc<str>>, call: Call<'_>) -> Result<()> {
    let Call { kind, dtype, sizes, x, y } = call;
    let request = Request { line, ..request(kind, dtype, &sizes, group) };
    // The output of these ops is also their input.
    if matches!(kind, Kind::AllReduce(_) | Kind::Reduce { .. } | Kind::Broadcast { .. }) && !x.is_empty() {
        y.copy_from_slice(x);
    }
    match kind {
        Kind::AllReduce(_) | Kind::Broadcast { .. } => group.run_reserved(ticket, &request, &[], y),
        Kind::Reduce { to, .. } => {
            group.run_reserved(ticket, &request, &[], y)?;
            if group.rank() != *to {
                y.fill(0);
            }
            Ok(())
        }
        Kind::AllGather | Kind::ReduceScatter(_) | Kind::AllToAll { .. } => group.run_reserved(ticket, &request, x, y),
        Kind::Permute { pairs } => {
            let (source, target) = partners(pairs, group.rank());
            // Without a pair, this rank sends nothing, or gets nothing.
            let sent = if target.is_some() { x } else { &[] };
            let received = if source.is_some() { &mut *y } else { &mut [] };
            group.run_reserved(ticket, &request, sent, received)?;
            if source.is_none() {
                y.fill(0);
            }
            Ok(())
        }
    }
}

/// Return the function of a reduction; `None` for the mean.
pub(crate) fn reduction(op: ReduceOp) -> Option<Reduction> {
    Some(match op {
        ReduceOp::Sum => Reduction::Sum,
        ReduceOp::Product => Reduction::Product,
        ReduceOp::Min => Reduction::Min,
        ReduceOp::Max => Reduction::Max,
        ReduceOp::BAnd => Reduction::And,
        ReduceOp::BOr => Reduction::Or,
        ReduceOp::BXor => Reduction::Xor,
        ReduceOp::Avg => return None,
    })
}

fn op(by: Reduction) -> ReduceOp {
    match by {
        Reduction::Sum => ReduceOp::Sum,
        Reduction::Product => ReduceOp::Product,
        Reduction::Min => ReduceOp::Min,
        Reduction::Max => ReduceOp::Max,
        Reduction::And => ReduceOp::BAnd,
        Reduction::Or => ReduceOp::BOr,
        Reduction::Xor => ReduceOp::BXor,
    }
}
