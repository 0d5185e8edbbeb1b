//! Tests of segments with collectives, on a communicator whose ranks all have the same elements.

use crate::{cuts, tpu, turn, values};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};
use torchtpu_lazy::{self as lazy, CutReason, Divide, EagerMode, Interpret};
use torchtpu_tensor::backend::{self, Backend};
use torchtpu_tensor::comm::{
    self, Agreed, Call, Communicator, Cut, Decision, Disagreement, Group, Proposal, Step, Ticket,
};
use torchtpu_tensor::ops::collective::{self, Kind, Reduction};
use torchtpu_tensor::{DType, Device, Error, ErrorKind, Result, Tensor};

/// What the communicator was asked to do.
#[derive(Default)]
struct Log {
    reserved: u64,
    /// Sequence numbers of the collectives that ran, in order.
    ran: Vec<u64>,
    given_up: Vec<u64>,
    /// The collective that fails.
    fails_at: Option<u64>,
    /// What ranks decide, one after the other. Without any, programs are launched as they are.
    decisions: Vec<(Decision, Option<Cut>)>,
    /// The proposals: whether there is a key, and the sequence numbers.
    proposals: Vec<(bool, Vec<u64>)>,
    /// The last proposal's cuts.
    cuts: Vec<Cut>,
    compilations: (u64, u64),
    awaited: u64,
    /// The collective that runs until a reader has been interrupted.
    waits_at: Option<u64>,
    has_told: bool,
}

static LOG: Mutex<Log> = Mutex::new(Log {
    reserved: 0,
    ran: Vec::new(),
    given_up: Vec::new(),
    decisions: Vec::new(),
    proposals: Vec::new(),
    cuts: Vec::new(),
    compilations: (0, 0),
    awaited: 0,
    fails_at: None,
    waits_at: None,
    has_told: false,
});

struct Same;

impl Communicator for Same {
    fn reserve(&self, group: &Group) -> Result<Ticket> {
        let mut log = LOG.lock().unwrap();
        log.reserved += 1;
        Ok(Ticket::new(group.number(), log.reserved - 1))
    }
    fn run(&self, ticket: Ticket, call: Call<'_>) -> Result<()> {
        let waits = LOG.lock().unwrap().waits_at == Some(ticket.sequence());
        if waits {
            eventually(|| LOG.lock().unwrap().has_told);
        }
        let mut log = LOG.lock().unwrap();
        log.ran.push(ticket.sequence());
        if log.fails_at == Some(ticket.sequence()) {
            return Err(Error::new(ErrorKind::DistBackend, "rank 1 is gone").note("rank 0 of group 0"));
        }
        assert!(matches!(call.kind, Kind::AllReduce(Reduction::Sum)) && call.dtype == DType::F32);
        if !call.x.is_empty() {
            call.y.copy_from_slice(call.x);
        }
        for v in call.y.chunks_exact_mut(4) {
            let twice = f32::from_ne_bytes(v.try_into().unwrap()) * 2.0;
            v.copy_from_slice(&twice.to_ne_bytes());
        }
        Ok(())
    }
    fn give_up(&self, ticket: Ticket, _why: &Error) {
        let mut log = LOG.lock().unwrap();
        if !log.ran.contains(&ticket.sequence()) {
            log.given_up.push(ticket.sequence());
        }
    }
    fn agree(&self, proposal: &Proposal<'_>) -> std::result::Result<Agreed, Disagreement> {
        let mut log = LOG.lock().unwrap();
        let numbers: Vec<u64> = proposal.steps.iter().map(|s| s.ticket.sequence()).collect();
        // Only about a rest.
        if proposal.key == 0 && log.fails_at.is_some_and(|at| numbers.contains(&at)) {
            return Err(Error::new(ErrorKind::DistBackend, "ranks do not agree").into());
        }
        log.proposals.push((proposal.key != 0, numbers));
        log.cuts = proposal.cuts.to_vec();
        let fused = Decision::Fused { is_compiled: proposal.is_compiled };
        let (decision, cut) = if log.decisions.is_empty() { (fused, None) } else { log.decisions.remove(0) };
        Ok(Agreed { decision, cut })
    }
    fn await_compiled(&self, _: &Step) -> std::result::Result<(), Disagreement> {
        LOG.lock().unwrap().awaited += 1;
        Ok(())
    }
    fn note_launch(&self, _: &[Ticket], _: Box<dyn Fn() -> bool + Send + Sync>) {
        panic!("XLA:CPU runs collectives through the communicator");
    }
    fn is_device_running(&self) -> bool {
        false
    }
    fn was_launched(&self, _: Ticket) {
        panic!("XLA:CPU runs collectives through the communicator");
    }
    fn note_compiling(&self, begins: bool) {
        let (began, ended) = &mut LOG.lock().unwrap().compilations;
        *(if begins { began } else { ended }) += 1;
    }
    fn launch_recorded(&self) {}
    fn check_interrupt(&self) -> Result<()> {
        let mut log = LOG.lock().unwrap();
        if log.waits_at.is_none() {
            return Ok(());
        }
        log.has_told = true;
        Err(Error::new(ErrorKind::Interrupted, "Ctrl-C"))
    }
}

/// Install the communicator, and return a group of two ranks, with an empty log.
fn group() -> Group {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| comm::install(&Same));
    *LOG.lock().unwrap() = Log::default();
    Group::new(1, vec![vec![0, 1]])
}

fn sum(x: &Tensor, group: &Group) -> Tensor {
    collective::all_reduce(x, Reduction::Sum, group).unwrap()
}

fn ran() -> Vec<u64> {
    LOG.lock().unwrap().ran.clone()
}

/// Wait for a condition.
fn eventually(is_so: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < limit, "it takes too long");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn backend() -> &'static dyn Backend {
    backend::get().unwrap()
}

#[test]
fn collectives_run_once_and_in_order() {
    let _turn = turn();
    let group = group();
    let x = tpu(&[1.0, 2.0], &[2]);
    for step in 0..3 {
        let (a, b) = (sum(&x, &group), sum(&x.mul_scalar(3.0).unwrap(), &group));
        // Equal operands, and a result that no op reads.
        drop(sum(&x, &group));
        let y = a.add(&b).unwrap();
        assert_eq!(values(&y), [8.0, 16.0]);
        // A second read runs nothing.
        assert_eq!(values(&y), [8.0, 16.0]);
        assert_eq!(ran(), (0..3 * (step + 1)).collect::<Vec<_>>());
    }
    assert_eq!(lazy::metrics().compilations, 1, "turns are no part of the program");
}

#[test]
fn all_modes_run_collectives_once() {
    let _turn = turn();
    let program = |group: &Group| {
        let mut y = tpu(&[1.0, 2.0], &[2]);
        for _ in 0..4 {
            y = sum(&y.add_scalar(1.0).unwrap(), group).mul_scalar(0.5).unwrap();
        }
        values(&y)
    };
    let run = |what: &str| {
        let group = group();
        for pass in 1..4 {
            assert_eq!(program(&group), [5.0, 6.0], "{what}");
            assert_eq!(ran(), (0..4 * pass).collect::<Vec<_>>(), "{what}");
        }
    };
    run("fused");
    for interpret in [Interpret::New, Interpret::Always] {
        lazy::clear_cache();
        lazy::set_interpret(interpret);
        run(&format!("{interpret:?}"));
    }
    lazy::set_interpret(Interpret::Never);
    lazy::clear_cache();
    lazy::set_divide(Divide::Always);
    run("pieces");
    lazy::set_divide(Divide::Changing);
    lazy::set_max_segment_ops(3);
    run("short segments");
    for mode in [EagerMode::Strict, EagerMode::Debug] {
        lazy::set_eager_mode(mode);
        run(&format!("{mode:?}"));
    }
}

#[test]
fn unread_collectives_run_when_asked_for() {
    let _turn = turn();
    let group = group();
    drop(sum(&tpu(&[1.0], &[1]), &group));
    backend().finish_collectives();
    assert_eq!((ran(), cuts(CutReason::Collective)), (vec![0], 1));
    // Nothing is left.
    backend().launch_collectives();
    assert_eq!(cuts(CutReason::Collective), 1);
}

#[test]
fn collectives_run_though_the_thread_records_nothing_more() {
    let _turn = turn();
    let group = group();
    let y = sum(&tpu(&[1.0], &[1]), &group);
    eventually(|| ran() == [0]);
    assert_eq!(values(&y), [2.0]);
    // Also those of a thread that has ended.
    std::thread::scope(|s| s.spawn(|| drop(sum(&tpu(&[1.0], &[1]), &group))).join()).unwrap();
    eventually(|| ran() == [0, 1]);
}

#[test]
fn a_collective_comes_after_those_of_other_threads() {
    let _turn = turn();
    let group = group();
    for i in 0..5 {
        let y = std::thread::scope(|s| s.spawn(|| sum(&tpu(&[1.0], &[1]), &group)).join()).unwrap();
        assert_eq!(values(&sum(&tpu(&[2.0], &[1]), &group)), [4.0]);
        assert_eq!(values(&y), [2.0]);
        assert_eq!(ran(), (0..2 * (i + 1)).collect::<Vec<_>>());
    }
}

#[test]
fn a_failure_keeps_its_kind_and_its_notes() {
    let _turn = turn();
    let group = group();
    LOG.lock().unwrap().fails_at = Some(1);
    let x = tpu(&[1.0], &[1]);
    let (a, b, c) = (sum(&x, &group), sum(&x, &group), sum(&x, &group));
    for y in [&b, &c, &a] {
        let error = y.to_vec::<f32>().unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::DistBackend, "rank 1 is gone"));
        assert_eq!(error.notes().first().map(|n| n.to_string()), Some("rank 0 of group 0".to_string()));
    }
    // Nothing is tried again, and the other ranks hear of the call that did not run.
    assert_eq!(ran(), [0, 1]);
    eventually(|| LOG.lock().unwrap().given_up == [2]);
    // The next program does not depend on the failed one.
    assert_eq!(values(&sum(&x, &group)), [2.0]);
}

#[test]
fn a_program_that_cannot_run_gives_up_its_collectives() {
    let _turn = turn();
    let group = group();
    let y = sum(&tpu(&[1.0], &[1]), &group);
    let huge = Tensor::ones(&[1 << 42], DType::F32, Device::TPU).unwrap();
    assert_eq!(huge.to_vec::<f32>().unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert_eq!(y.to_vec::<f32>().unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert_eq!(ran(), [] as [u64; 0]);
    eventually(|| LOG.lock().unwrap().given_up == [0]);
}

#[test]
fn a_read_that_waits_for_a_collective_can_be_interrupted() {
    let _turn = turn();
    let group = group();
    LOG.lock().unwrap().waits_at = Some(0);
    // A program whose argument is not computed yet does not run on the launching thread.
    let n = 1 << 22;
    let mut slow = tpu(&vec![1.0; n], &[n]);
    for _ in 0..50 {
        slow = slow.mul_scalar(0.5).unwrap().exp().unwrap();
    }
    lazy::mark_step();
    let y = sum(&slow, &group);
    assert_eq!(y.to_vec::<f32>().unwrap_err().kind(), ErrorKind::Interrupted);
    LOG.lock().unwrap().waits_at = None;
    assert_eq!(values(&y)[0], 2.0 * values(&slow)[0]);
}

#[test]
fn a_planned_device_compiles_collectives_for_all_ranks() {
    let _turn = turn();
    let group = group();
    let partition = Group::new(2, vec![vec![0, 2], vec![1, 3]]);
    if !lazy::aot::is_available() {
        assert!(std::env::var("CI").is_err(), "libtpu is missing: pip install libtpu");
        return;
    }
    lazy::plan::begin(vec![lazy::aot::Target::new("v5e:2x2")], lazy::plan::Reads::Zeros, 1.0).unwrap();
    let x = Tensor::ones(&[4, 8], DType::F32, Device::TPU).unwrap();
    let calls: [fn(&Tensor, &Group) -> Result<Tensor>; 8] = [
        |x, g| collective::all_reduce(x, Reduction::Sum, g),
        collective::mean,
        |x, g| collective::reduce(x, Reduction::Max, 1, g),
        |x, g| collective::broadcast(x, 1, g),
        collective::all_gather,
        |x, g| collective::reduce_scatter(x, Reduction::Sum, g),
        |x, g| collective::all_to_all(x, &[2, 2], &[2, 2], g),
        |x, g| collective::permute(x, &[(0, 1), (1, 0)], g),
    ];
    for call in calls {
        values(&call(&x, &partition).unwrap().sum().unwrap());
    }
    let report = lazy::plan::end(false).unwrap();
    assert_eq!(report.programs.len(), 8);
    for program in &report.programs {
        let lazy::plan::Compiled::Report(compiled) = &program.reports[0] else {
            panic!("{} does not compile: {}", program.summary, program.text);
        };
        assert_eq!(compiled.devices, 4);
        let groups = ["[[0, 2], [1, 3]]", "[[0, 2], [2, 0], [1, 3], [3, 1]]"];
        assert!(groups.iter().any(|g| program.text.contains(g)), "{}", program.text);
    }
    // A plan takes no turns, since nothing runs.
    assert_eq!(LOG.lock().unwrap().reserved, 0);
    drop(group);
}

/// Turns agreement on, and off again when dropped.
struct Agreement;

impl Agreement {
    fn on() -> Agreement {
        lazy::set_agreement(true);
        Agreement
    }
}

impl Drop for Agreement {
    fn drop(&mut self) {
        lazy::set_agreement(false);
    }
}

/// Record three collectives with ops between them, and return the result.
fn three(x: &Tensor, group: &Group) -> Tensor {
    let y = sum(&x.add_scalar(1.0).unwrap(), group);
    let z = sum(&y.mul_scalar(0.5).unwrap(), group);
    sum(&z.add(&y).unwrap(), group).sub_scalar(1.0).unwrap()
}

#[test]
fn programs_that_all_ranks_have_are_launched_whole() {
    let _turn = turn();
    let (_agreement, group) = (Agreement::on(), group());
    let x = tpu(&[1.0, 3.0], &[2]);
    for step in 0..3 {
        assert_eq!(values(&three(&x, &group)), [15.0, 31.0]);
        assert_eq!(ran().len(), 3 * (step + 1));
    }
    let m = lazy::metrics();
    assert_eq!((m.programs_fused, m.programs_split, m.compilations), (3, 0, 1));
    let log = LOG.lock().unwrap();
    assert_eq!(log.proposals[1], (true, vec![3, 4, 5]));
    // Only the first launch waits until all ranks have compiled.
    assert_eq!((log.awaited, log.compilations), (1, (1, 1)));
}

#[test]
fn programs_that_differ_are_launched_one_collective_at_a_time() {
    let _turn = turn();
    let (_agreement, group) = (Agreement::on(), group());
    let x = tpu(&[1.0, 3.0], &[2]);
    for step in 0..3 {
        // The ranks agree about one collective, and then about the others.
        LOG.lock().unwrap().decisions = vec![(Decision::Split(1), None), (Decision::Split(2), None)];
        let first = step * 3;
        assert_eq!(values(&three(&x, &group)), [15.0, 31.0]);
        let log = LOG.lock().unwrap();
        assert_eq!(log.ran, (0..first + 3).collect::<Vec<_>>());
        let proposals = &log.proposals[log.proposals.len() - 2..];
        assert_eq!(proposals, [(true, vec![first, first + 1, first + 2]), (false, vec![first + 1, first + 2])]);
    }
    let m = lazy::metrics();
    // Four pieces between collectives, and one program for all collectives, since they are equal.
    assert_eq!((m.programs_fused, m.programs_split, m.compilations), (0, 3, 5));
    assert_eq!(LOG.lock().unwrap().decisions.len(), 0);
}

#[test]
fn a_rest_that_ranks_do_not_agree_about_fails() {
    let _turn = turn();
    let (_agreement, group) = (Agreement::on(), group());
    let x = tpu(&[1.0, 3.0], &[2]);
    LOG.lock().unwrap().decisions = vec![(Decision::Split(1), None)];
    LOG.lock().unwrap().fails_at = Some(1);
    let y = sum(&x, &group);
    let z = sum(&y, &group);
    let w = sum(&z, &group);
    for lost in [&w, &z] {
        let error = lost.to_vec::<f32>().unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::DistBackend, "ranks do not agree"));
    }
    // The collective that the ranks agreed about has run.
    assert_eq!((values(&y), ran()), (vec![2.0, 6.0], vec![0]));
    eventually(|| LOG.lock().unwrap().given_up == [1, 2]);
}

#[test]
fn ranks_cut_where_they_have_agreed_to() {
    let _turn = turn();
    let (_agreement, group) = (Agreement::on(), group());
    let x = tpu(&[1.0, 3.0], &[2]);
    // Another rank reads between two collectives. Here that is the program whose cut is adopted.
    let y = sum(&x, &group);
    assert_eq!(values(&y), [2.0, 6.0]);
    let cut = LOG.lock().unwrap().cuts[0];
    assert_eq!(cut.ops, 1);
    let both = |group: &Group| {
        let y = sum(&x, group);
        values(&sum(&y, group))
    };
    assert_eq!(both(&group), [4.0, 12.0]);
    LOG.lock().unwrap().decisions = vec![(Decision::Split(2), Some(cut))];
    assert_eq!(both(&group), [4.0, 12.0]);
    lazy::reset_metrics();
    assert_eq!(both(&group), [4.0, 12.0]);
    assert_eq!((cuts(CutReason::Adopted), cuts(CutReason::Read)), (1, 1));
    let m = lazy::metrics();
    assert_eq!((m.programs_fused, m.programs_split, m.cuts_adopted), (2, 0, 0));
}

#[test]
fn cuts_without_collectives_are_proposed_too() {
    let _turn = turn();
    let (_agreement, group) = (Agreement::on(), group());
    let x = tpu(&[1.0, 3.0], &[2]).add_scalar(1.0).unwrap();
    assert_eq!(values(&x), [2.0, 4.0]);
    let y = x.mul_scalar(2.0).unwrap().add_scalar(1.0).unwrap();
    assert_eq!(values(&sum(&y, &group)), [10.0, 18.0]);
    let ops: Vec<u64> = LOG.lock().unwrap().cuts.iter().map(|cut| cut.ops).collect();
    assert_eq!(ops, [1, 3]);
}
