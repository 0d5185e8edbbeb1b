//! Programs that differ between ranks, and mistakes: on XLA:CPU, whose programs call the process group; with ranks that
//! agree before each launch, as on accelerators; and on a client that the ranks make together, whose programs have
//! collectives of the compiler. A plugin of the tests simulates that one.

mod schedules;
mod started;

use started::{Case, PATIENT, Rank, sum, tpu, values};
use std::sync::Arc;
use std::time::Duration;
use torchtpu_distributed::store::FileStore;
use torchtpu_distributed::transport::shm::Shm;
use torchtpu_distributed::{Op, Options, ProcessGroup, Request, tensors};
use torchtpu_lazy as lazy;
use torchtpu_tensor::comm::{self, Group};
use torchtpu_tensor::ops::collective;
use torchtpu_tensor::{DType, Device, ErrorKind, Tensor};

/// The variable that lets ranks agree.
const AGREEMENT: &str = "TORCHTPU_AGREEMENT";

const CASES: &[Case] = &[
    ("fused", PATIENT, undisturbed_steps),
    ("loss", PATIENT, a_loss_is_read_between_collectives),
    ("forward", PATIENT, a_loss_is_read_before_the_collectives),
    ("mesh", PATIENT, groups_of_a_mesh),
    ("overlap", PATIENT, groups_that_overlap),
    ("host", PATIENT, collectives_of_the_host),
    ("more", PATIENT, one_collective_more),
    ("opposite", Duration::from_secs(4), groups_in_opposite_order),
    ("left", PATIENT, a_rank_leaves),
    ("compiling", Duration::from_secs(4), a_rank_compiles_for_long),
    ("aborted", PATIENT, a_rank_fails),
    ("one_rank", PATIENT, a_collective_of_one_rank),
    ("order", PATIENT, gradients_in_another_order),
    ("late", Duration::from_secs(1), a_rank_is_late),
    ("other", PATIENT, other_calls),
    ("died", PATIENT, a_rank_dies),
    ("instead", PATIENT, a_collective_of_the_host_instead),
    ("launch_died", PATIENT, a_rank_dies_in_a_launch),
    ("launch_stalls", Duration::from_secs(4), a_launch_stalls),
    ("schedules", PATIENT, schedules::run),
];

fn agrees() -> bool {
    started::is_simulated() || std::env::var(AGREEMENT).is_ok_and(|v| v == "always")
}

/// Record a sum of `size` elements in a line of the user's program.
fn sum_at(line: u32, size: usize, group: &Group) -> Tensor {
    let x = Tensor::ones(&[size], DType::F32, Device::TPU).expect("it is recorded");
    tensors::at_line(Some(Arc::from(format!("train.py:{line}"))), || sum(&x, group))
}

/// Read a value whose collective differs between ranks. The error names the lines of both.
fn expect_mismatch(r: &Rank, x: &Tensor, lines: [u32; 2]) {
    let error = r.error(x).to_string();
    assert!(error.contains("Detected mismatch between collectives on ranks"), "{error}");
    for line in lines {
        assert!(error.contains(&format!("train.py:{line}")), "rank {}: {line} is not in:\n{error}", r.rank);
    }
}

/// Return three counts: programs launched whole, programs split, and adopted cuts.
fn counts() -> (u64, u64, u64) {
    let m = lazy::metrics();
    (m.programs_fused, m.programs_split, m.cuts_adopted)
}

fn undisturbed_steps(r: &Rank) {
    let mut x = tpu(&[r.rank as f32, 2.0]);
    for step in 0..20 {
        let y = sum(&x.mul_scalar(0.5).unwrap(), &r.tensors);
        x = sum(&y.add_scalar(1.0).unwrap(), &r.tensors).mul_scalar(0.5).unwrap();
        lazy::mark_step();
        if step % 5 == 4 {
            values(&x);
        }
    }
    assert_eq!(values(&x), [20.5, 22.0]);
    assert_eq!(counts(), if agrees() { (20, 0, 0) } else { (0, 0, 0) });
}

fn a_loss_is_read_between_collectives(r: &Rank) {
    let x = tpu(&[r.rank as f32 + 1.0, 2.0]);
    for _ in 0..10 {
        let loss = sum(&x.mul_scalar(2.0).unwrap(), &r.tensors);
        let half = loss.mul_scalar(0.5).unwrap();
        if r.rank == 0 {
            assert_eq!(values(&loss), [6.0, 8.0]);
        }
        assert_eq!(values(&sum(&half, &r.tensors)), [6.0, 8.0]);
    }
    // Both programs of a step of rank 0 are split twice, and the one of rank 1.
    let split = if r.rank == 0 { 4 } else { 2 };
    assert_eq!(counts(), if agrees() { (16, split, 1) } else { (0, 0, 0) });
}

fn a_loss_is_read_before_the_collectives(r: &Rank) {
    let x = tpu(&[r.rank as f32 + 1.0, 2.0]);
    for _ in 0..10 {
        let loss = x.mul_scalar(2.0).unwrap();
        if r.rank == 0 {
            assert_eq!(values(&loss), [2.0, 4.0]);
        }
        assert_eq!(values(&sum(&loss.mul_scalar(0.5).unwrap(), &r.tensors)), [3.0, 4.0]);
    }
    assert_eq!(counts(), if agrees() { (8, 2, 1) } else { (0, 0, 0) });
}

/// Make the groups of this rank along a dimension of a mesh of 2 x 2.
fn along(r: &Rank, lists: [[usize; 2]; 2]) -> Group {
    let lists: Vec<Vec<usize>> = lists.iter().map(|list| list.to_vec()).collect();
    let group = r.group.split_group(&lists, None).expect("all ranks are there").expect("each rank is in a list");
    tensors::register(&group, lists).expect("the partition fits")
}

fn groups_of_a_mesh(r: &Rank) {
    let (rows, columns) = (along(r, [[0, 1], [2, 3]]), along(r, [[0, 2], [1, 3]]));
    for step in 0..6 {
        let x = tpu(&[2f32.powi(r.rank as i32)]);
        let y = sum(&sum(&x, &rows), &columns);
        assert_eq!(values(&sum(&y, &r.tensors)), [60.0]);
        // One rank reads the sum of its row.
        let y = sum(&x, &rows);
        if r.rank == 3 && step > 3 {
            assert_eq!(values(&y), [12.0]);
        }
        assert_eq!(values(&sum(&y, &columns)), [15.0]);
    }
    let (fused, split, _) = counts();
    assert_eq!((fused > 9, split > 0), if agrees() { (true, true) } else { (false, false) });
    tensors::unregister(&rows);
    tensors::unregister(&columns);
}

fn groups_that_overlap(r: &Rank) {
    let some = r.group.new_group(&[0, 1], None).expect("all ranks are there");
    let some = some.map(|group| tensors::register(&group, vec![vec![0, 1]]).expect("the partition fits"));
    for _ in 0..4 {
        let mut x = sum(&tpu(&[1.0]), &r.tensors);
        if let Some(some) = &some {
            x = sum(&x, some);
        }
        let x = sum(&x, &r.tensors);
        assert_eq!(values(&x), [if r.group.size() == 3 { 15.0 } else { 0.0 }]);
    }
    // Ranks 0 and 1 need different ranks to agree about a program. It is never launched whole.
    let (fused, split, _) = counts();
    assert_eq!((fused, split > 0), (0, agrees()));
    if let Some(some) = &some {
        tensors::unregister(some);
    }
}

fn collectives_of_the_host(r: &Rank) {
    for _ in 0..5 {
        let y = sum(&tpu(&[3.0]), &r.tensors);
        let one = Tensor::from_slice_on(&[1f32], &[1], Device::CPU).expect("it is copied");
        assert_eq!(values(&sum(&one, &r.tensors)), [2.0]);
        r.group.barrier().expect("all ranks are there");
        assert_eq!(values(&sum(&y, &r.tensors)), [12.0]);
    }
}

fn one_collective_more(r: &Rank) {
    let first = sum_at(1, 2, &r.tensors);
    let second = if r.rank == 0 { sum_at(2, 3, &r.tensors) } else { sum_at(3, 2, &r.tensors) };
    expect_mismatch(r, &second, [2, 3]);
    if agrees() {
        // The ranks agreed about the first one, which is a program of its own.
        assert_eq!(values(&first), [2.0, 2.0]);
    }
}

fn groups_in_opposite_order(r: &Rank) {
    let other = r.group.new_group(&[0, 1], None).expect("all ranks are there").expect("this rank is in it");
    let other = tensors::register(&other, vec![vec![0, 1]]).expect("the partition fits");
    let order = if r.rank == 0 { [&r.tensors, &other] } else { [&other, &r.tensors] };
    let sums = order.map(|group| sum_at(1 + r.rank as u32, 2, group));
    let numbers = [format!("sequence number {} of group 0 at", r.group.sequence() - 1), "0 of group 0.0.0 at".into()];
    for x in &sums {
        let error = r.error(x).to_string();
        assert!(error.contains("all_reduce: Timed out waiting 4000 ms for rank"), "{error}");
        // The rank whose time ends first tells the other one why it leaves.
        let is_own = error.contains(&format!("rank {} waits in another group: all_reduce of", 1 - r.rank));
        let own = [&numbers[1 - r.rank], "SequenceNumber=", "ALLREDUCE", "train.py:1", "train.py:2"];
        let others = [&numbers[r.rank], "SequenceNumber=", "ALLREDUCE", "train.py:1", "train.py:2"];
        for word in if is_own { own } else { others } {
            assert!(error.contains(word), "rank {}: {word} is not in:\n{error}", r.rank);
        }
    }
    tensors::unregister(&other);
}

/// Other shapes, dtypes and ops of rank 1.
fn other_calls(r: &Rank) {
    for case in ["shape", "dtype", "op"] {
        // Each mistake breaks a group.
        let store = Arc::new(FileStore::new(r.folder.join(case), None).expect("the store is made"));
        let options = Options { timeout: PATIENT, ..Options::default() };
        let group = ProcessGroup::new(store, Arc::new(Shm), r.rank, r.group.size(), options).expect("it is made");
        let handle = tensors::register(&group, vec![(0..r.group.size()).collect()]).expect("the partition fits");
        let call = |line: u32, shape: &[usize], dtype: DType, is_sum: bool| {
            let x = Tensor::ones(shape, dtype, Device::TPU).expect("it is recorded");
            let call =
                || if is_sum { sum(&x, &handle) } else { collective::broadcast(&x, 0, &handle).expect("as above") };
            tensors::at_line(Some(Arc::from(format!("train.py:{line}"))), call)
        };
        let (y, words) = match (r.rank, case) {
            (1, "shape") => (call(5, &[6], DType::F32, true), "TensorShape=[6]"),
            (1, "dtype") => (call(5, &[4], DType::I32, true), "TensorDtypes=Int"),
            (1, _) => (call(5, &[4], DType::F32, false), "OpType=BROADCAST"),
            _ => (call(4, &[4], DType::F32, true), ""),
        };
        let read = if y.dtype() == DType::I32 { y.to_vec::<i32>().map(drop) } else { y.to_vec::<f32>().map(drop) };
        let error = read.expect_err("rank 1 calls another collective");
        assert_eq!(error.kind(), ErrorKind::DistBackend, "{error}");
        let error = error.to_string();
        let common = [
            "Detected mismatch between collectives on ranks",
            "train.py:4",
            "train.py:5",
            "SequenceNumber=0, OpType=ALLREDUCE, TensorShape=[4], TensorDtypes=Float",
            "Rank 1",
        ];
        for word in common.into_iter().chain([words]) {
            assert!(error.contains(word), "{case}, rank {}: {word} is not in:\n{error}", r.rank);
        }
        tensors::unregister(&handle);
    }
}

fn a_collective_of_the_host_instead(r: &Rank) {
    assert_eq!(values(&sum_at(3, 2, &r.tensors))[0], r.group.size() as f32);
    let error = if r.rank == 1 {
        let barrier = Request::new(Op::Barrier, DType::U8, &[]).at("train.py:2");
        r.group.run(&barrier, &[], &mut []).expect_err("the others add").to_string()
    } else {
        r.error(&sum_at(1, 2, &r.tensors)).to_string()
    };
    for word in ["Detected mismatch between collectives on ranks", "train.py:1", "train.py:2"] {
        assert!(error.contains(word), "rank {}: {word} is not in:\n{error}", r.rank);
    }
}

fn a_rank_dies(r: &Rank) {
    assert_eq!(values(&sum_at(1, 2, &r.tensors))[0], r.group.size() as f32);
    if r.rank == 1 {
        std::fs::write(r.folder.join("pid"), std::process::id().to_string()).expect("the folder is writable");
        // Nothing is dropped.
        std::process::exit(0);
    }
    let error = r.error(&sum_at(2, 2, &r.tensors)).to_string();
    let pid = std::fs::read_to_string(r.folder.join("pid")).expect("rank 1 wrote it");
    for word in [&*format!("Rank 1 (pid {pid} on"), "has died", "train.py:2", "OpType=ALLREDUCE"] {
        assert!(error.contains(word), "rank {}: {word} is not in:\n{error}", r.rank);
    }
    // On a device that matches collectives by their order, one of the others may have launched the last sum.
    let store = Arc::new(FileStore::new(r.folder.join("others"), None).expect("the store is made"));
    let options = Options { ranks: vec![0, 2], timeout: PATIENT, ..Options::default() };
    let others = ProcessGroup::new(store, Arc::new(Shm), r.rank / 2, 2, options).expect("the group is made");
    let others = tensors::register(&others, vec![vec![0, 2]]).expect("the partition fits");
    let sum = sum_at(3, 2, &others);
    if started::is_simulated() {
        let error = r.error(&sum).to_string();
        for word in ["launches no more collectives on device tpu", "has died", "Start all processes again"] {
            assert!(error.contains(word), "rank {}: {word} is not in:\n{error}", r.rank);
        }
    } else {
        assert_eq!(values(&sum), [2.0, 2.0]);
    }
    tensors::unregister(&others);
}

fn a_rank_dies_in_a_launch(r: &Rank) {
    expect_no_end_of_the_second_launch(r, &["Rank 1 (pid ", "has died"]);
}

fn a_launch_stalls(r: &Rank) {
    expect_no_end_of_the_second_launch(r, &["Watchdog caught collective operation timeout", "SeqNum="]);
}

/// All ranks agree, and then one does not launch the program.
fn expect_no_end_of_the_second_launch(r: &Rank, words: &[&str]) {
    assert_eq!(values(&sum_at(1, 2, &r.tensors)), [2.0, 2.0]);
    let sum = sum_at(2, 2, &r.tensors);
    // The launch blocks its thread here, unlike those of GPUs and TPUs. So another thread does it.
    lazy::mark_step();
    let error = r.error(&sum).to_string();
    for word in words.iter().chain(&["train.py:2"]) {
        assert!(error.contains(word), "rank {}: {word} is not in:\n{error}", r.rank);
    }
    let error = r.group.reserve().expect_err("the group is broken").to_string();
    assert!(error.contains("is broken"), "rank {}: {error}", r.rank);
    // The launch itself does not end.
    std::process::exit(0);
}

fn a_rank_leaves(r: &Rank) {
    assert_eq!(values(&sum_at(1, 2, &r.tensors)), [2.0, 2.0]);
    if r.rank == 0 {
        let error = r.error(&sum_at(2, 2, &r.tensors)).to_string();
        // It leaves, and its process ends. Either may be seen first.
        assert!(error.contains("left the group") || error.contains("has died"), "{error}");
        assert!(error.contains("Rank 1"), "{error}");
    }
}

fn a_rank_compiles_for_long(r: &Rank) {
    assert_eq!(values(&sum_at(1, 2, &r.tensors)), [2.0, 2.0]);
    if r.rank == 1 {
        let comm = comm::get().expect("a group is registered");
        comm.note_compiling(true);
        std::thread::sleep(Duration::from_secs(8));
        comm.note_compiling(false);
    }
    assert_eq!(values(&sum_at(2, 2, &r.tensors)), [2.0, 2.0]);
}

fn a_rank_fails(r: &Rank) {
    assert_eq!(values(&sum_at(1, 2, &r.tensors)), [2.0, 2.0]);
    if r.rank == 1 {
        r.group.abort("ValueError: the batch is empty (train.py:7)");
    } else {
        let error = r.error(&sum_at(2, 2, &r.tensors)).to_string();
        assert!(error.contains("ValueError: the batch is empty (train.py:7)"), "{error}");
    }
}

fn a_collective_of_one_rank(r: &Rank) {
    let alone = (r.rank == 0).then(|| sum_at(1, 2, &r.tensors));
    let all = sum_at(2, 3, &r.tensors);
    expect_mismatch(r, alone.as_ref().unwrap_or(&all), [1, 2]);
    r.error(&all);
}

fn gradients_in_another_order(r: &Rank) {
    let [a, b] = if r.rank == 0 { [2, 3] } else { [3, 2] };
    let sums = [sum_at(a as u32, a, &r.tensors), sum_at(b as u32, b, &r.tensors)];
    expect_mismatch(r, &sums[0], [2, 3]);
    r.error(&sums[1]);
}

fn a_rank_is_late(r: &Rank) {
    if r.rank == 1 {
        r.await_file("reported");
        return;
    }
    let error = r.error(&sum_at(4, 2, &r.tensors)).to_string();
    r.write_file("reported");
    for words in ["all_reduce: Timed out waiting 1000 ms for rank 1", "train.py:4", "TensorShape=[2]"] {
        assert!(error.contains(words), "{words} is not in:\n{error}");
    }
}

/// The program of a rank.
#[test]
fn program_of_a_rank() {
    if started::is_rank() {
        started::serve(CASES);
    }
}

/// Run a case without and with agreement, and with a client that the ranks make together.
fn run(case: &str, size: usize, limit: Duration) {
    if !started::is_rank() {
        for agreement in ["never", "always"] {
            started::run(case, size, &[(AGREEMENT, agreement)], limit);
        }
        started::run_simulated(case, size, &[], limit);
    }
}

/// One test for each case, with its number of ranks.
macro_rules! cases {
    ($($name:ident = $case:literal on $size:literal;)*) => {$(
        #[test]
        fn $name() {
            run($case, $size, Duration::from_secs(180));
        }
    )*};
}

cases! {
    undisturbed_steps_are_launched_whole = "fused" on 2;
    a_loss_that_one_rank_reads_between_collectives_is_adopted = "loss" on 2;
    a_loss_that_one_rank_reads_before_collectives_is_adopted = "forward" on 2;
    programs_with_all_groups_of_a_mesh_are_launched_whole = "mesh" on 4;
    programs_with_groups_that_overlap_are_split = "overlap" on 3;
    collectives_of_the_host_and_programs_keep_their_order = "host" on 2;
    one_collective_more_names_both_lines = "more" on 2;
    groups_in_opposite_order_name_the_calls_of_both = "opposite" on 2;
    a_rank_that_has_left_is_named = "left" on 2;
    a_rank_that_compiles_for_long_is_waited_for = "compiling" on 2;
    the_exception_of_another_rank_is_told = "aborted" on 2;
    a_collective_of_one_rank_names_both_lines = "one_rank" on 2;
    gradients_in_another_order_name_both_lines = "order" on 2;
    a_late_rank_is_named_with_the_line_of_the_call = "late" on 2;
    other_shapes_dtypes_and_ops_are_named_on_all_ranks = "other" on 3;
    a_rank_that_died_is_named_on_all_others = "died" on 3;
    a_collective_of_the_host_instead_of_a_program_names_both_lines = "instead" on 3;
}

#[test]
fn a_program_whose_other_ranks_are_gone_ends_with_an_error() {
    if !started::is_rank() {
        for (case, fault) in [("launch_died", "die,1,2"), ("launch_stalls", "stall,1,2")] {
            started::run_simulated(case, 2, &[("TORCHTPU_SIMULATED_FAULT", fault)], Duration::from_secs(180));
        }
    }
}

#[test]
fn random_schedules_give_the_results_of_one_process() {
    if started::is_rank() {
        return;
    }
    // Ranks take the number of schedules from the environment too.
    let limit = Duration::from_secs(180 + schedules::count());
    for agreement in ["never", "always"] {
        started::run("schedules", schedules::SIZE, &[(AGREEMENT, agreement)], limit);
    }
    for part in schedules::parts() {
        let part = format!("{}..{}", part.start, part.end);
        started::run_simulated("schedules", schedules::SIZE, &[(schedules::PART, &part)], limit);
    }
}
