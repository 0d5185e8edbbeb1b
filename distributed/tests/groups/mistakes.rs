//! Ranks that do not do what the others do: every rank gets an error that names it.

use crate::ranks::{PATIENT, networks, run};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use torchtpu_distributed::store::HashStore;
use torchtpu_distributed::transport::Network;
use torchtpu_distributed::{Op, Options, ProcessGroup, ReduceOp, Request};
use torchtpu_tensor::DType;

const SHORT: Duration = Duration::from_secs(2);
/// A mistake that ranks notice by a message must not take the timeout. The test machine may be busy.
const AT_ONCE: Duration = Duration::from_secs(20);

fn sum(dtype: DType, count: usize) -> (Request, Vec<u8>) {
    (Request::new(Op::AllReduce(ReduceOp::Sum), dtype, &[count]), vec![0; count * dtype.size_bytes()])
}

/// Run one request a rank after a barrier. Return the errors of the ranks.
fn errors(
    network: &Arc<dyn Network>,
    size: usize,
    timeout: Duration,
    request: impl Fn(usize) -> (Request, Vec<u8>) + Sync,
) -> Vec<String> {
    run(network, size, Duration::from_secs(60), |group| {
        group.barrier().expect("all ranks come");
        group.set_timeout(timeout);
        let (request, mut output) = request(group.rank());
        let request = request.at(format!("train.py:{}", 10 + group.rank()));
        let error = group.run(&request, &[], &mut output).expect_err("the ranks differ");
        // The group is broken from now on.
        let later = group.barrier().expect_err("the group is broken").to_string();
        assert!(later.contains("The process group 0 is broken, because an earlier call failed"), "{later}");
        error.to_string()
    })
}

#[test]
fn other_shapes_dtypes_and_ops_are_named_on_both_ranks_at_once() {
    type Case = (&'static str, fn(usize) -> (Request, Vec<u8>), [&'static str; 2]);
    let cases: [Case; 5] = [
        (
            "shape",
            |rank| sum(DType::F32, 4 + 2 * rank),
            ["OpType=ALLREDUCE, TensorShape=[4], TensorDtypes=Float", "TensorShape=[6], TensorDtypes=Float"],
        ),
        (
            "dtype",
            |rank| sum(if rank == 0 { DType::F32 } else { DType::I32 }, 4),
            ["TensorShape=[4], TensorDtypes=Float", "TensorShape=[4], TensorDtypes=Int"],
        ),
        (
            "op",
            |rank| match rank {
                0 => sum(DType::F32, 4),
                _ => (Request::new(Op::Broadcast { root: 0 }, DType::F32, &[4]), vec![0; 16]),
            },
            ["OpType=ALLREDUCE", "OpType=BROADCAST"],
        ),
        (
            "a root that only sends",
            |rank| (Request::new(Op::Broadcast { root: 0 }, DType::F32, &[4 + rank]), vec![0; 16 + 4 * rank]),
            ["OpType=BROADCAST, TensorShape=[4]", "OpType=BROADCAST, TensorShape=[5]"],
        ),
        (
            "function",
            |rank| {
                let op = if rank == 0 { ReduceOp::Sum } else { ReduceOp::Max };
                (Request::new(Op::AllReduce(op), DType::F32, &[1]), vec![0; 4])
            },
            ["ReduceOp=SUM", "ReduceOp=MAX"],
        ),
    ];
    for (name, network) in networks() {
        for (case, request, words) in &cases {
            let start = Instant::now();
            let errors = errors(&network, 2, Duration::from_secs(60), request);
            assert!(start.elapsed() < AT_ONCE, "{name}, {case}: {:?}", start.elapsed());
            for (rank, error) in errors.iter().enumerate() {
                for word in words.iter().chain(&[
                    "Detected mismatch between collectives on ranks.",
                    "SequenceNumber=1",
                    "rank 0 called it at train.py:10",
                    "rank 1 called it at train.py:11",
                    &*format!("Rank {rank} of group 0"),
                ]) {
                    assert!(error.contains(word), "{name}, {case}, rank {rank}: {word} is not in:\n{error}");
                }
            }
        }
    }
}

#[test]
fn every_rank_of_five_gets_the_error_of_two() {
    for count in [4, 200_000] {
        for (name, network) in networks() {
            let start = Instant::now();
            let errors = errors(&network, 5, Duration::from_secs(60), |rank| {
                sum(DType::F32, if rank == 3 { count + 1 } else { count })
            });
            assert!(start.elapsed() < AT_ONCE, "{name}: {:?}", start.elapsed());
            for error in &errors {
                assert!(error.contains("Detected mismatch between collectives on ranks"), "{name}: {error}");
                assert!(error.contains(&format!("TensorShape=[{}]", count + 1)), "{name}: {error}");
            }
        }
    }
}

#[test]
fn one_collective_more_names_both_calls() {
    let network = &networks()[1].1;
    let errors = run(network, 2, Duration::from_secs(60), |group| {
        if group.rank() == 0 {
            group.run(&sum(DType::F32, 4).0.at("log.py:3"), &[], &mut [0; 16]).expect_err("rank 1 is in a barrier")
        } else {
            group.run(&Request::new(Op::Barrier, DType::U8, &[]).at("train.py:9"), &[], &mut []).expect_err("as above")
        }
        .to_string()
    });
    for error in errors {
        assert!(error.contains("log.py:3") && error.contains("train.py:9"), "{error}");
    }
}

fn assert_in_time(start: Instant) {
    assert!(start.elapsed() < SHORT + AT_ONCE, "{:?}", start.elapsed());
}

#[test]
fn a_missing_rank_is_named_on_all_others_within_the_timeout() {
    for (name, network) in networks() {
        let failed = AtomicUsize::new(0);
        let errors = run(&network, 3, PATIENT, |group| {
            group.barrier().expect("all ranks come");
            group.set_timeout(SHORT);
            if group.rank() == 2 {
                // The rank is busy with something else.
                let start = Instant::now();
                while failed.load(Ordering::Relaxed) < 2 && start.elapsed() < PATIENT {
                    std::thread::sleep(Duration::from_millis(10));
                }
                return String::new();
            }
            let start = Instant::now();
            let (request, mut output) = sum(DType::F32, 4);
            let error = group.run(&request.at("train.py:5"), &[], &mut output).expect_err("rank 2 is missing");
            failed.fetch_add(1, Ordering::Relaxed);
            assert_in_time(start);
            error.to_string()
        });
        for (rank, error) in errors[..2].iter().enumerate() {
            for word in ["Timed out waiting 2000 ms for rank 2", "SequenceNumber=1, OpType=ALLREDUCE"] {
                assert!(error.contains(word), "{name}, rank {rank}: {word} is not in:\n{error}");
            }
            assert!(error.contains("train.py:5") && error.contains(&format!("Rank {rank} of group 0")), "{error}");
        }
        assert!(errors.iter().any(|e| e.contains("rank 2: barrier of")), "{name}: {errors:?}");
    }
}

#[test]
fn later_calls_name_the_first_error_whenever_the_watchdog_looks() {
    let network = &networks()[0].1;
    let late = |millis: u64| {
        let has_failed = AtomicBool::new(false);
        run(network, 2, Duration::from_millis(millis), |group| {
            if group.rank() == 1 {
                let start = Instant::now();
                while !has_failed.load(Ordering::Relaxed) && start.elapsed() < PATIENT {
                    std::thread::sleep(Duration::from_millis(10));
                }
                return;
            }
            let (request, mut output) = sum(DType::F32, 4);
            let first = group.run(&request, &[], &mut output).expect_err("rank 1 is missing").to_string();
            let later = group.run(&request, &[], &mut output).expect_err("the group is broken").to_string();
            has_failed.store(true, Ordering::Relaxed);
            for error in [first, later] {
                assert!(error.contains(&format!("Timed out waiting {millis} ms for rank 1")), "{error}");
            }
        });
    };
    // The watchdog looks twice a second. A group needs some time for its report, in which the watchdog may look.
    std::thread::scope(|s| (0..5).for_each(|i| drop(s.spawn(move || late(600 + 100 * i)))));
}

#[test]
fn groups_in_opposite_order_name_the_calls_of_both() {
    // Each process tells the store every half second what it waits for.
    let limit = Duration::from_secs(4);
    for (name, network) in networks() {
        let failed = AtomicUsize::new(0);
        let errors = run(&network, 3, PATIENT, |group| {
            let pair = group.new_group(&[1, 0], Some(limit)).expect("all ranks come");
            // Rank 2 waits for rank 0. It hears why that one ends.
            group.set_timeout(if group.rank() == 2 { PATIENT } else { limit });
            let (request, mut output) = sum(DType::F32, 4);
            let request = request.at(format!("train.py:{}", 10 + group.rank()));
            let start = Instant::now();
            // Rank 1 begins with the pair. The others begin with the group of all.
            let first = pair.as_ref().filter(|_| group.rank() == 1).unwrap_or(group);
            let error = first.run(&request, &[], &mut output).expect_err("ranks 0 and 1 wait for each other");
            assert!(start.elapsed() < limit + AT_ONCE, "{:?}", start.elapsed());
            // A rank that leaves would end the waits of the others.
            failed.fetch_add(1, Ordering::Relaxed);
            while failed.load(Ordering::Relaxed) < 3 && start.elapsed() < PATIENT {
                std::thread::sleep(Duration::from_millis(10));
            }
            error.to_string()
        });
        let calls = [
            "SequenceNumber=1, OpType=ALLREDUCE, TensorShape=[4]",
            "rank 1 waits in another group: all_reduce of float32 [4] (sequence number 0 of group 0.0.0 at \
             train.py:11), for rank 1 (global rank 0)",
        ];
        let expected = [
            (0, &["Timed out waiting 4000 ms for rank 1", "train.py:10", "Rank 0 of group 0", calls[0], calls[1]][..]),
            (2, &["Timed out waiting 4000 ms for rank 1", "train.py:10", "Rank 0 of group 0", calls[0], calls[1]][..]),
            (
                1,
                &[
                    "Timed out waiting 4000 ms for rank 1 (global rank 0)",
                    "SequenceNumber=0, OpType=ALLREDUCE, TensorShape=[4]",
                    "train.py:11",
                    "rank 1 (global rank 0) waits in another group: all_reduce of float32 [4] (sequence number 1 of \
                     group 0 at train.py:10), for rank 1",
                ][..],
            ),
        ];
        for (rank, words) in expected {
            for word in words {
                assert!(errors[rank].contains(word), "{name}, rank {rank}: {word} is not in:\n{}", errors[rank]);
            }
        }
    }
}

#[test]
fn a_rank_that_left_is_named() {
    for (name, network) in networks() {
        let left = Barrier::new(2);
        let errors = run(&network, 2, Duration::from_secs(60), |group: &ProcessGroup| {
            group.barrier().expect("all ranks come");
            if group.rank() == 1 {
                left.wait();
                return String::new();
            }
            left.wait();
            let (request, mut output) = sum(DType::F32, 4);
            group.run(&request, &[], &mut output).expect_err("rank 1 has left").to_string()
        });
        assert!(errors[0].starts_with("Rank 1 has left the group"), "{name}: {}", errors[0]);
    }
}

#[test]
fn a_monitored_barrier_names_the_ranks_that_are_late() {
    let network = &networks()[1].1;
    let errors = run(network, 4, Duration::from_secs(60), |group| {
        group.monitored_barrier(Duration::from_secs(20), true).expect("all ranks come");
        if group.rank() >= 2 {
            return String::new();
        }
        group.monitored_barrier(Duration::from_secs(3), true).expect_err("two ranks are missing").to_string()
    });
    for (rank, error) in errors[..2].iter().enumerate() {
        let expected = format!("[Rank {rank}]: Ranks 2, 3 failed to pass monitoredBarrier in 3000 ms");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn different_lists_of_ranks_are_an_error_on_every_rank() {
    let network = &networks()[0].1;
    let errors = run(network, 3, Duration::from_secs(60), |group| {
        let ranks = if group.rank() == 1 { [0, 1] } else { [0, 2] };
        group.new_group(&ranks, None).err().expect("the lists differ").to_string()
    });
    for error in errors {
        assert!(error.contains("Ranks=[[0, 1]]") && error.contains("Ranks=[[0, 2]]"), "{error}");
    }
}

#[test]
fn an_abort_ends_what_waits_on_all_ranks() {
    for (name, network) in networks() {
        let errors = run(&network, 2, Duration::from_secs(60), |group| {
            group.barrier().expect("all ranks come");
            let (request, mut output) = sum(DType::F32, 4);
            if group.rank() == 1 {
                std::thread::sleep(Duration::from_millis(100));
                group.abort("the data is bad");
            }
            group.run(&request, &[], &mut output).expect_err("the group is aborted").to_string()
        });
        for error in errors {
            assert!(error.contains("Rank 1 of group 0 was aborted: the data is bad"), "{name}: {error}");
        }
    }
}

#[test]
fn an_abort_that_is_handed_on_tells_the_first_cause_alone() {
    for (name, network) in networks() {
        let all_failed = Barrier::new(4);
        let errors = run(&network, 4, Duration::from_secs(60), |group| {
            let all: Vec<usize> = (0..4).collect();
            let others = [(); 3].map(|()| group.new_group(&all, None).expect("the ranks agree").expect("all are in"));
            let (request, mut output) = sum(DType::F32, 4);
            // Rank `r` fails in group `r - 1`, and then breaks group `r`, as a rank does that ends by an exception.
            let text = match group.rank() {
                0 => "the data is bad".to_string(),
                rank => others[rank - 1].run(&request, &[], &mut output).expect_err("it is aborted").to_string(),
            };
            if let Some(next) = others.get(group.rank()) {
                next.abort(&text);
                // A second abort changes nothing.
                next.abort("something else");
            }
            // No rank leaves its groups before all have failed.
            all_failed.wait();
            text
        });
        assert!(errors[3].contains("the data is bad"), "{name}: {}", errors[3]);
        assert_eq!(errors[3].matches("was aborted").count(), 1, "{name}: {}", errors[3]);
    }
}

#[test]
fn splits_of_an_all_to_all_that_do_not_fit_are_an_error_on_all_ranks() {
    // Rows that each rank sends and expects, the first and the second rank.
    for splits in [[([1, 3], [2, 2]), ([3, 1], [2, 2])], [([1, 1], [1, 2]), ([1, 1], [2, 0])]] {
        for (name, network) in networks() {
            let errors = run(&network, 2, Duration::from_secs(60), |group| {
                let (sent, received) = splits[group.rank()];
                let rows: usize = sent.iter().sum();
                let (input, mut output) = (vec![0; 4 * rows], vec![0; 4 * received.iter().sum::<usize>()]);
                let op = Op::AllToAll { sent: sent.to_vec(), received: received.to_vec() };
                let error = group.run(&Request::new(op, DType::F32, &[rows]), &input, &mut output);
                error.expect_err("the splits do not fit").to_string()
            });
            for error in errors {
                assert!(error.contains("Detected mismatch between the sizes of ranks"), "{name}: {error}");
            }
        }
    }
}

#[test]
fn wrong_lengths_and_roots_are_refused_before_anything_is_sent() {
    run(&networks()[0].1, 2, Duration::from_secs(60), |group| {
        let refuse = |op: Op, input: &[u8], output: &mut [u8]| {
            group.run(&Request::new(op, DType::F32, &[1]), input, output).expect_err("it does not fit").to_string()
        };
        let gathered = refuse(Op::AllGather, &[0; 4], &mut [0; 4]);
        assert_eq!(gathered, "output tensor size must be equal to world_size times input tensor size");
        let part = refuse(Op::ReduceScatter(ReduceOp::Sum), &[0; 4], &mut [0; 4]);
        assert_eq!(part, "input tensor must be the same size as output size times world size");
        let root = refuse(Op::Broadcast { root: 2 }, &[], &mut [0; 4]);
        assert_eq!(root, "broadcast: root: rank 2, must be less than 2");
        group.barrier().expect("nothing was sent");
        assert_eq!(group.sequence(), 1);
    });
}

#[test]
fn an_abort_is_noticed_without_links_and_without_the_entry_of_the_recorder() {
    let network = &networks()[0].1;
    let start = Instant::now();
    let errors = run(network, 2, PATIENT, |group| {
        let (request, mut output) = sum(DType::F32, 4);
        if group.rank() == 1 {
            return group.run(&request, &[], &mut output).expect_err("rank 0 does not come").to_string();
        }
        std::thread::sleep(Duration::from_millis(100));
        // Another group of this process fills the recorder.
        let other = Options { name: "other".into(), ..Options::default() };
        let other = ProcessGroup::new(Arc::new(HashStore::new()), network.clone(), 0, 1, other);
        let other = other.expect("the group is made");
        for _ in 0..2000 {
            other.barrier().expect("a group of one does not wait");
        }
        group.abort("the data is bad");
        String::new()
    });
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    assert!(errors[1].contains("Rank 0 of group 0 was aborted: the data is bad"), "{}", errors[1]);
}

#[test]
fn a_name_may_be_used_again_in_another_store() {
    for (name, network) in networks() {
        for _ in 0..2 {
            run(&network, 2, PATIENT, |group| group.barrier().expect(name));
        }
    }
}

#[test]
fn an_abort_ends_a_receive_that_no_link_serves() {
    let errors = run(&networks()[0].1, 2, PATIENT, |group| {
        if group.rank() == 1 {
            return group.recv(Some(0), 0, DType::U8, &mut [0]).expect_err("nothing is sent").to_string();
        }
        group.abort("the data is bad");
        String::new()
    });
    assert!(errors[1].contains("Rank 0 of group 0 was aborted: the data is bad"), "{}", errors[1]);
}

#[test]
fn a_rank_in_another_first_call_is_told() {
    for (name, network) in networks() {
        let start = Instant::now();
        let errors = run(&network, 3, PATIENT, |group| {
            // In a barrier, rank 1 makes no link to rank 0, which makes one to it.
            if group.rank() == 1 {
                return group.barrier().expect_err("the others add").to_string();
            }
            let (request, mut output) = sum(DType::F32, 4);
            group.run(&request, &[], &mut output).expect_err("rank 1 does not add").to_string()
        });
        assert!(start.elapsed() < AT_ONCE, "{name}: {:?}", start.elapsed());
        for error in errors {
            assert!(error.contains("Detected mismatch between collectives"), "{name}: {error}");
            assert!(error.contains("BARRIER"), "{name}: {error}");
        }
    }
}

#[test]
fn a_rank_that_left_before_it_met_the_others_is_named() {
    for (name, network) in networks() {
        let start = Instant::now();
        let errors = run(&network, 3, PATIENT, |group| {
            if group.rank() == 1 {
                return String::new();
            }
            let (request, mut output) = sum(DType::F32, 4);
            group.run(&request, &[], &mut output).expect_err("rank 1 has left").to_string()
        });
        assert!(start.elapsed() < AT_ONCE, "{name}: {:?}", start.elapsed());
        for rank in [0, 2] {
            assert!(errors[rank].contains("Rank 1 has left the group"), "{name}: {}", errors[rank]);
        }
    }
}
