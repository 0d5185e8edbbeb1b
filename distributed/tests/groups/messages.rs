//! Messages with tags.

use crate::ranks::{PATIENT, networks, run, run_in, tcp};
use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Barrier, mpsc};
use std::time::{Duration, Instant};
use torchtpu_distributed::store::{HashStore, Store};
use torchtpu_distributed::transport::{HEADER_BYTES, Header, Lane, Meeting, Network};
use torchtpu_distributed::{Memory, Op, ReduceOp, Request};
use torchtpu_tensor::{DType, Error};

#[test]
fn messages_are_matched_by_tag_and_not_by_order() {
    for (name, network) in networks() {
        run(&network, 2, PATIENT, |group| {
            if group.rank() == 0 {
                for tag in 0..4u8 {
                    group.send(1, tag.into(), DType::U8, &[tag; 3]).expect(name);
                }
            } else {
                for tag in [2u8, 0, 3, 1] {
                    let mut x = [9; 3];
                    assert_eq!(group.recv(Some(0), tag.into(), DType::U8, &mut x).expect(name), 0);
                    assert_eq!(x, [tag; 3], "{name}");
                }
            }
        });
    }
}

#[test]
fn a_receive_from_any_rank_says_the_rank() {
    for (name, network) in networks() {
        run(&network, 4, PATIENT, |group| {
            if group.rank() != 0 {
                group.send(0, 5, DType::U8, &[group.rank() as u8]).expect(name);
                return;
            }
            let mut seen = Vec::new();
            for _ in 1..4 {
                let mut x = [0];
                let from = group.recv(None, 5, DType::U8, &mut x).expect(name);
                assert_eq!(usize::from(x[0]), from, "{name}");
                seen.push(from);
            }
            seen.sort_unstable();
            assert_eq!(seen, [1, 2, 3], "{name}");
        });
    }
}

#[test]
fn a_pending_receive_does_not_stop_collectives() {
    for (name, network) in networks() {
        run(&network, 2, PATIENT, |group| {
            let sum = || {
                let mut x = [1];
                let request = Request::new(Op::AllReduce(ReduceOp::Sum), DType::U8, &[1]);
                group.run(&request, &[], &mut x).expect(name);
            };
            if group.rank() == 0 {
                let work = group.irecv(Some(1), 0, DType::U8, Box::new(vec![0u8; 3_000_000])).expect(name);
                sum();
                work.wait(None).expect(name);
                assert!(work.result().expect(name).bytes().iter().all(|&b| b == 7), "{name}");
            } else {
                sum();
                group.send(0, 0, DType::U8, &vec![7; 3_000_000]).expect(name);
            }
        });
    }
}

#[test]
fn both_ranks_may_send_large_messages_first() {
    for (name, network) in networks() {
        run(&network, 2, PATIENT, |group| {
            let peer = 1 - group.rank();
            let work = group.isend(peer, 0, DType::U8, vec![group.rank() as u8; 5_000_000]).expect(name);
            let mut x = vec![9; 5_000_000];
            group.recv(Some(peer), 0, DType::U8, &mut x).expect(name);
            work.wait(None).expect(name);
            assert!(x.iter().all(|&b| usize::from(b) == peer), "{name}");
        });
    }
}

#[test]
fn a_message_of_another_dtype_or_length_is_an_error() {
    let errors = run(&networks()[0].1, 2, PATIENT, |group| {
        if group.rank() == 0 {
            group.send(1, 0, DType::F32, &[0; 16]).expect("the message leaves");
            return String::new();
        }
        let mut x = [0; 16];
        group.recv(Some(0), 0, DType::I32, &mut x).expect_err("the dtypes differ").to_string()
    });
    let expected = "recv: message from rank 0 with tag 0 has 16 bytes of float32, must be 16 bytes of int32";
    assert_eq!(errors[1], expected);
}

#[test]
fn a_receive_without_a_message_ends_at_its_timeout() {
    for (name, network) in networks() {
        run(&network, 2, Duration::from_millis(300), |group| {
            if group.rank() == 0 {
                let error = group.recv(Some(1), 3, DType::U8, &mut [0]).expect_err("nothing was sent").to_string();
                let expected = "Timed out waiting for a message from rank 1 with tag 3 (rank 0 of group 0)";
                assert_eq!(error, expected, "{name}");
            }
            group.set_timeout(PATIENT);
            group.barrier().expect("the group is still whole");
        });
    }
}

#[test]
fn a_receive_from_a_rank_that_has_left_fails_at_once() {
    // Links in memory are there from the beginning, so they do not show that a rank has never sent anything.
    for (name, network) in networks().into_iter().skip(1) {
        let errors = run(&network, 2, PATIENT, |group| {
            // Rank 1 leaves without a message. Rank 0 waits for less than its timeout.
            (group.rank() == 0).then(|| {
                let start = Instant::now();
                let error = group.recv(Some(1), 5, DType::U8, &mut [0]).expect_err(name).to_string();
                assert!(start.elapsed() < PATIENT / 2, "{name}");
                error
            })
        });
        let error = errors[0].as_ref().expect("rank 0 has waited");
        assert!(error.contains("rank 1: the rank has left the group"), "{name}: {error}");
    }
}

#[test]
fn a_message_can_be_read_after_its_sender_has_closed_the_link() {
    for (name, network) in networks() {
        let store: Arc<dyn Store> = Arc::new(HashStore::new());
        let open = |rank| {
            let meeting = Meeting { store: store.clone(), prefix: "group/0".into(), rank, size: 2 };
            network.open(meeting).expect("the transport is made")
        };
        let (from, to) = (open(0), open(1));
        let header = Header { group: 1, sequence: 2, fingerprint: 3, bytes: 4 };
        let mut sender = from.sender(1, Lane::Message).expect(name).expect("rank 1 is there");
        let mut sent = 0;
        sender.push(&header.encode(), &[7; 4], &mut sent).expect(name);
        assert_eq!(sent, HEADER_BYTES + 4, "{name}");
        drop(sender);

        let limit = Instant::now() + PATIENT;
        let mut receiver = None;
        let mut read = || {
            if receiver.is_none() {
                receiver = to.receiver(0, Lane::Message).expect(name);
            }
            receiver.as_mut().and_then(|r| r.begin().expect(name))
        };
        let mut found = None;
        while found.is_none() {
            assert!(Instant::now() < limit, "{name}");
            found = read();
        }
        assert_eq!(found, Some(header), "{name}");
        let mut payload = [0; 4];
        let n = receiver.expect("it was made").pull_into(&mut payload).expect(name);
        assert_eq!((n, payload), (4, [7; 4]), "{name}");
    }
}

#[test]
fn a_rank_that_leaves_waits_until_its_works_have_ended_and_its_messages_are_taken() {
    for (name, network) in networks() {
        let may_go_on = Barrier::new(2);
        run(&network, 2, PATIENT, |group| {
            let sum = Request::new(Op::AllReduce(ReduceOp::Sum), DType::U8, &[1]);
            if group.rank() == 0 {
                let work = group.start(sum, None, Box::new(vec![1u8])).expect(name);
                assert_eq!(group.leave(Duration::from_millis(100)).expect(name), [1], "{name}");
                assert!(!work.is_completed(), "{name}");
                may_go_on.wait();
                work.wait(Some(PATIENT)).expect(name);
                group.send(1, 7, DType::U8, &[9]).expect(name);
                // Only links in shared memory end with their processes.
                let taken = group.leave(Duration::from_millis(100)).expect(name);
                assert_eq!(taken.is_empty(), !matches!(name, "shm" | "hosts"), "{name}");
                may_go_on.wait();
                assert!(group.leave(PATIENT).expect(name).is_empty(), "{name}");
            } else {
                may_go_on.wait();
                let mut x = [1];
                group.run(&sum, &[], &mut x).expect(name);
                may_go_on.wait();
                group.recv(Some(0), 7, DType::U8, &mut x).expect(name);
                assert_eq!(x, [9], "{name}");
            }
        });
    }
}

#[test]
fn a_rank_that_leaves_does_not_wait_for_those_that_have_left() {
    let network = &networks()[1].1;
    run(network, 2, PATIENT, |group| {
        group.barrier().expect("all ranks come");
        if group.rank() == 0 {
            group.send(1, 7, DType::U8, &[9]).expect("the link has room");
            let start = Instant::now();
            assert!(group.leave(PATIENT).expect("nobody interrupts").is_empty());
            assert!(start.elapsed() < PATIENT / 2);
        }
    });
}

#[test]
fn callbacks_may_start_collectives_and_wait_for_other_callbacks() {
    for (name, network) in networks() {
        run(&network, 2, PATIENT, |group| {
            let sum = || Request::new(Op::AllReduce(ReduceOp::Sum), DType::U8, &[1]);
            let (outer, ended) = mpsc::channel();
            let own = group.clone();
            let work = group.start(sum(), None, Box::new(vec![1])).expect(name);
            work.on_finish(move |error| {
                assert!(error.is_none());
                let (inner, called) = mpsc::channel();
                let nested = own.start(sum(), None, Box::new(vec![2])).expect("the group is whole");
                nested.on_finish(move |error| inner.send(error.is_none()).expect("the other callback waits"));
                let is_well = called.recv_timeout(PATIENT).expect("the callback is called");
                outer.send(is_well).expect("the test waits");
            });
            assert!(ended.recv_timeout(PATIENT).expect(name));
            // A callback that comes late is called at once.
            let (late, called) = mpsc::channel();
            work.on_finish(move |error| late.send(error.is_none()).expect("the test waits"));
            assert_eq!(called.try_recv(), Ok(true), "{name}");
        });
    }
}

/// Memory that cannot be moved to its place.
struct Stuck([u8; 1]);

impl Memory for Stuck {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
    fn complete(&mut self) -> torchtpu_tensor::Result<()> {
        Err(Error::runtime("no place"))
    }
}

#[test]
fn an_output_that_cannot_be_taken_over_is_an_error_of_the_work() {
    run(&networks()[0].1, 2, PATIENT, |group| {
        let request = Request::new(Op::AllReduce(ReduceOp::Sum), DType::U8, &[1]);
        let work = group.start(request, None, Box::new(Stuck([1]))).expect("the group is whole");
        assert_eq!(work.wait(Some(PATIENT)).expect_err("it is stuck").message(), "no place");
        group.barrier().expect("the group is whole");
    });
}

#[test]
fn silent_and_strange_connections_hold_nothing_up() {
    let store: Arc<dyn Store> = Arc::new(HashStore::new());
    let network: Arc<dyn Network> = Arc::new(tcp());
    let ready = Barrier::new(3);
    let go = Barrier::new(3);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            ready.wait();
            let address = |rank: usize| -> (String, u64) {
                let keys = store.list_keys().expect("the store lists its keys");
                let key =
                    keys.into_iter().find(|k| k.ends_with(&format!("place/{rank}"))).expect("the rank has a place");
                let place = String::from_utf8(store.get(&key).expect("it is there")).expect("it is text");
                let mut last = place.split('\n').skip(3);
                let address = last.next().expect("an address").to_string();
                (address, last.next().expect("a token").parse().expect("a number"))
            };
            let mut held = Vec::new();
            for rank in 0..2 {
                let (address, token) = address(rank);
                // As many as would have taken the whole timeout, had each been waited for, and more than the 128 that
                // a system holds by default until a rank accepts them.
                for k in 0..300 {
                    let mut stream = TcpStream::connect(&address).expect("the rank listens");
                    // Some say nothing, some a part of a hello, some a hello with another token.
                    let hello = Header { group: 0, sequence: 1 - rank as u64, fingerprint: token ^ 1, bytes: 0 };
                    let said = [0, HEADER_BYTES / 2, HEADER_BYTES][k % 3];
                    stream.write_all(&hello.encode()[..said]).expect("the rank listens");
                    held.push(stream);
                }
            }
            go.wait();
            ready.wait();
        });
        run_in(&store, &network, 2, Duration::from_secs(40), |group| {
            ready.wait();
            go.wait();
            let mut x = [group.rank() as u8 + 1];
            let request = Request::new(Op::AllReduce(ReduceOp::Sum), DType::U8, &[1]);
            group.run(&request, &[], &mut x).expect("strangers are not waited for");
            assert_eq!(x, [3]);
            ready.wait();
        });
    });
}
