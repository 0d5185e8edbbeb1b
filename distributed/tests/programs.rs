//! Collectives in compiled programs, between processes: on XLA:CPU, whose programs call the process group, and on a
//! client that the processes make together, whose programs have collectives of the compiler.

mod started;

use started::{Case, PATIENT, Rank, sum, tpu, values};
use std::time::Duration;
use torchtpu_lazy::{self as lazy, Divide, EagerMode, Interpret};
use torchtpu_tensor::comm::Group;
use torchtpu_tensor::ops::collective::{self, Reduction};
use torchtpu_tensor::{Device, ErrorKind, Result, Tensor};

const CASES: &[Case] = &[
    ("kinds", PATIENT, every_kind_gives_the_results_of_cpu),
    ("steps", PATIENT, steps_share_a_program),
    ("cuts", PATIENT, ranks_cut_at_different_places),
    ("modes", PATIENT, modes_agree),
    ("unread", PATIENT, unread_results_are_computed_for_others),
    ("elsewhere", PATIENT, waits_elsewhere_launch_what_is_recorded),
    ("messages", PATIENT, messages_outlive_their_sender),
    ("host", PATIENT, collectives_on_the_host_keep_the_order),
    ("late", Duration::from_secs(1), late_ranks_are_reported),
    ("gone", PATIENT, ranks_that_leave_are_reported),
    ("shapes", PATIENT, unequal_shapes_are_reported),
];

fn every_kind_gives_the_results_of_cpu(r: &Rank) {
    type Call = fn(&Tensor, &Group) -> Result<Tensor>;
    let calls: [(&str, Call); 9] = [
        ("all_reduce", |x, g| collective::all_reduce(x, Reduction::Sum, g)),
        ("mean", collective::mean),
        ("reduce", |x, g| collective::reduce(x, Reduction::Sum, 1, g)),
        ("broadcast", |x, g| collective::broadcast(x, 1, g)),
        ("all_gather", collective::all_gather),
        ("reduce_scatter", |x, g| collective::reduce_scatter(x, Reduction::Sum, g)),
        ("all_to_all", |x, g| collective::all_to_all(x, &[2, 2], &[2, 2], g)),
        ("permute", |x, g| collective::permute(x, &[(0, 1)], g)),
        ("max", |x, g| collective::all_reduce(&x.detach(), Reduction::Max, g)?.mul(x)),
    ];
    let data: Vec<f32> = (0..12).map(|i| (r.rank * 20 + i) as f32 - 5.5).collect();
    for (name, call) in calls {
        let on = |device| {
            let x = Tensor::from_slice_on(&data, &[4, 3], device).expect("it is copied");
            x.requires_grad_(true).expect("it is a leaf");
            let y = call(&x, &r.tensors).expect("the ranks agree");
            let loss = y.square().and_then(|y| y.sum()).expect("it is recorded");
            torchtpu_autograd::backward(&[loss], &[], None, false, None).expect("both ranks go backward");
            (values(&y), values(&x.grad().expect("it is a leaf")))
        };
        assert_eq!(on(Device::TPU), on(Device::CPU), "{name}");
    }
    let flags = Tensor::from_slice_on(&[r.rank == 0, false], &[2], Device::TPU).expect("it is copied");
    let any = collective::all_reduce(&flags, Reduction::Max, &r.tensors).expect("it is recorded");
    assert_eq!(any.to_vec::<bool>().expect("it is computed"), [true, false]);
}

fn steps_share_a_program(r: &Rank) {
    let x = tpu(&[r.rank as f32 + 1.0, 10.0]);
    let step = |x: &Tensor| values(&sum(&sum(&x.mul(x).unwrap(), &r.tensors), &r.tensors));
    assert_eq!(step(&x), [10.0, 400.0]);
    lazy::reset_metrics();
    for _ in 0..20 {
        assert_eq!(step(&x), [10.0, 400.0]);
    }
    let m = lazy::metrics();
    assert_eq!((m.compilations, m.segments_executed, m.segments_interpreted), (0, 20, 0));
}

fn ranks_cut_at_different_places(r: &Rank) {
    let mut x = tpu(&[1.0, 2.0]);
    for i in 0..8 {
        x = sum(&x, &r.tensors);
        if r.rank == 0 {
            assert_eq!(values(&x)[0], f32::from(2u16.pow(i + 1)));
        }
    }
    assert_eq!(values(&x), [256.0, 512.0]);
    // Twenty steps without a read on rank 1.
    for i in 0..20u16 {
        x = sum(&x, &r.tensors).mul_scalar(0.5).unwrap();
        if r.rank == 0 && i % 3 == 0 {
            assert_eq!(values(&x), [256.0, 512.0]);
        }
    }
    assert_eq!(values(&x), [256.0, 512.0]);
}

fn modes_agree(r: &Rank) {
    let program = || {
        let x = tpu(&(0..100).map(|i| (i + r.rank) as f32).collect::<Vec<_>>());
        let mut y = x.clone();
        for _ in 0..4 {
            y = sum(&y.add(&x).unwrap(), &r.tensors).mul_scalar(0.5).unwrap();
            y = y.sub_scalar(1.0).unwrap();
        }
        values(&y)
    };
    let fused = program();
    for mode in [EagerMode::Strict, EagerMode::Debug, EagerMode::Fused] {
        lazy::set_eager_mode(mode);
        assert_eq!(program(), fused, "{mode:?}");
    }
    lazy::set_interpret(Interpret::Always);
    assert_eq!(program(), fused, "interpreted");
    lazy::set_interpret(Interpret::Never);
    lazy::set_divide(Divide::Always);
    lazy::clear_cache();
    assert_eq!(program(), fused, "in pieces");
}

fn unread_results_are_computed_for_others(r: &Rank) {
    let x = tpu(&[r.rank as f32]);
    let y = sum(&x, &r.tensors);
    if r.rank == 1 {
        assert_eq!(values(&y), [1.0]);
    }
    // Rank 0 drops its result, and the end of the program launches it.
}

fn waits_elsewhere_launch_what_is_recorded(r: &Rank) {
    let y = sum(&tpu(&[r.rank as f32]), &r.tensors);
    if r.rank == 0 {
        r.await_file("read");
    } else {
        assert_eq!(values(&y), [1.0]);
        r.write_file("read");
    }
    // A wait for the store.
    let y = sum(&y, &r.tensors);
    if r.rank == 0 {
        r.group.recv(Some(1), 7, torchtpu_tensor::DType::U8, &mut []).expect("rank 1 sends");
    } else {
        assert_eq!(values(&y), [2.0]);
        r.group.send(0, 7, torchtpu_tensor::DType::U8, &[]).expect("rank 0 receives");
    }
    assert_eq!(values(&y), [2.0]);
}

fn messages_outlive_their_sender(r: &Rank) {
    assert_eq!(values(&sum(&tpu(&[1.0]), &r.tensors)), [2.0]);
    if r.rank == 1 {
        r.group.send(0, 7, torchtpu_tensor::DType::U8, &[]).expect("rank 0 receives");
        r.write_file("sent");
        return;
    }
    r.await_file("sent");
    std::thread::sleep(Duration::from_millis(200));
    r.group.recv(Some(1), 7, torchtpu_tensor::DType::U8, &mut []).expect("rank 1 has sent it");
}

fn collectives_on_the_host_keep_the_order(r: &Rank) {
    let one = Tensor::from_slice_on(&[1f32], &[1], Device::CPU).expect("it is copied");
    for _ in 0..5 {
        let y = sum(&tpu(&[3.0]), &r.tensors);
        let z = sum(&one, &r.tensors);
        r.group.barrier().expect("all ranks are there");
        let w = sum(&y, &r.tensors);
        assert_eq!((values(&z), values(&w)), (vec![2.0], vec![12.0]));
    }
    // Two threads of a process record in an order of their own, one after the other.
    let y = std::thread::scope(|s| s.spawn(|| sum(&tpu(&[1.0]), &r.tensors)).join()).expect("it does not panic");
    let z = sum(&tpu(&[2.0]), &r.tensors);
    assert_eq!((values(&z), values(&y)), (vec![4.0], vec![2.0]));
}

fn late_ranks_are_reported(r: &Rank) {
    if r.rank == 1 {
        // It stays in the group, and does not call the collective.
        r.await_file("reported");
        return;
    }
    let y = sum(&tpu(&[1.0]), &r.tensors);
    let unrelated = tpu(&[5.0]).add_scalar(1.0).expect("it is recorded");
    let error = r.error(&y);
    r.write_file("reported");
    assert!(error.to_string().contains("all_reduce: Timed out waiting 1000 ms for rank 1"), "{error}");
    // Later calls fail at once, and name the first error.
    let error = collective::all_reduce(&tpu(&[1.0]), Reduction::Sum, &r.tensors).expect_err("the group is broken");
    for words in ["is broken, because an earlier call failed: ", "all_reduce: Timed out waiting 1000 ms for rank 1"] {
        assert!(error.to_string().contains(words), "{words} is not in:\n{error}");
    }
    drop(unrelated);
    assert_eq!(values(&tpu(&[5.0]).add_scalar(1.0).expect("it is recorded")), [6.0], "the device still works");
}

fn ranks_that_leave_are_reported(r: &Rank) {
    assert_eq!(values(&sum(&tpu(&[1.0]), &r.tensors)), [2.0]);
    if r.rank == 0 {
        let error = r.error(&sum(&tpu(&[1.0]), &r.tensors));
        assert!(error.to_string().contains("Rank 1"), "{error}");
    }
}

fn unequal_shapes_are_reported(r: &Rank) {
    let x = tpu(&vec![1.0; 4 + 2 * r.rank]);
    let error = r.error(&sum(&x, &r.tensors)).to_string();
    for words in ["Detected mismatch between collectives on ranks", "TensorShape=[4]", "TensorShape=[6]"] {
        assert!(error.contains(words), "rank {}: {words} is not in:\n{error}", r.rank);
    }
    let error = collective::all_reduce(&x, Reduction::Sum, &r.tensors).expect_err("the group is broken");
    assert_eq!(error.kind(), ErrorKind::DistBackend);
}

/// The program of a rank.
#[test]
fn program_of_a_rank() {
    if started::is_rank() {
        started::serve(CASES);
    }
}

/// One test for each case.
macro_rules! cases {
    ($($name:ident = $case:literal;)*) => {$(
        #[test]
        fn $name() {
            if !started::is_rank() {
                started::run($case, 2, &[], Duration::from_secs(180));
                started::run_simulated($case, 2, &[], Duration::from_secs(180));
            }
        }
    )*};
}

cases! {
    every_kind_of_program_gives_the_results_of_cpu = "kinds";
    steps_with_collectives_share_a_program = "steps";
    ranks_may_cut_at_different_places = "cuts";
    all_modes_give_the_same_sums = "modes";
    results_that_no_op_reads_are_computed = "unread";
    a_rank_that_waits_elsewhere_launches_what_it_recorded = "elsewhere";
    a_message_outlives_the_rank_that_sent_it = "messages";
    collectives_of_host_and_device_keep_their_order = "host";
    a_late_rank_is_reported = "late";
    a_rank_that_left_is_reported = "gone";
    unequal_shapes_are_reported_on_both_ranks = "shapes";
}
