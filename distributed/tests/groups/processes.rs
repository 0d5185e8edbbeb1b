//! Ranks as processes. The test starts its own program again, with the rank in an environment variable.

use crate::ranks::{options, tcp};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use torchtpu_distributed::store::FileStore;
use torchtpu_distributed::transport::shm::Shm;
use torchtpu_distributed::transport::{Hosts, Network};
use torchtpu_distributed::{Op, ProcessGroup, ReduceOp, Request};
use torchtpu_tensor::DType;

const RANK: &str = "TORCHTPU_TEST_RANK";
const FOLDER: &str = "TORCHTPU_TEST_FOLDER";
const NETWORK: &str = "TORCHTPU_TEST_NETWORK";
const SIZE: usize = 3;

/// The program of each rank: sums, then rank 1 waits to be killed while the others wait for it.
#[test]
fn program_of_a_rank() {
    let Ok(rank) = std::env::var(RANK) else { return };
    let rank = rank.parse().expect("the rank is a number");
    let folder = PathBuf::from(std::env::var(FOLDER).expect("the parent sets the folder"));
    let network: Arc<dyn Network> = match std::env::var(NETWORK).as_deref() {
        Ok("shm") => Arc::new(Shm),
        Ok("hosts") => Arc::new(Hosts { tcp: tcp() }),
        _ => Arc::new(tcp()),
    };
    let store = Arc::new(FileStore::new(folder.join("store"), None).expect("the store is made"));
    let group = ProcessGroup::new(store, network, rank, SIZE, options(Duration::from_secs(60))).expect("it is made");
    for count in [1, 1000, 500_000] {
        let mut x: Vec<u8> = (rank as f32).to_le_bytes().repeat(count);
        let request = Request::new(Op::AllReduce(ReduceOp::Sum), DType::F32, &[count]);
        group.run(&request, &[], &mut x).expect("all ranks are there");
        assert!(x == 3f32.to_le_bytes().repeat(count), "a wrong sum of {count} numbers");
    }
    if rank == 1 {
        std::fs::write(folder.join("ready"), "").expect("the folder is writable");
        std::thread::sleep(Duration::from_secs(120));
        unreachable!("the parent kills this process");
    }
    let mut x = [0; 4];
    let request = Request::new(Op::AllReduce(ReduceOp::Sum), DType::F32, &[1]).at("train.py:7");
    let error = group.run(&request, &[], &mut x).expect_err("rank 1 was killed").to_string();
    std::fs::write(folder.join(format!("error{rank}")), error).expect("the folder is writable");
}

/// Kills the process when the test ends, however it ends.
struct Rank(Child);

impl Drop for Rank {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(folder: &Path, network: &str, rank: usize) -> Rank {
    let program = std::env::current_exe().expect("the test has a path");
    let child = Command::new(program)
        .args(["--exact", "processes::program_of_a_rank", "--nocapture"])
        .env(RANK, rank.to_string())
        .env(FOLDER, folder)
        .env(NETWORK, network)
        .stdout(Stdio::null())
        .spawn();
    Rank(child.expect("the test starts again"))
}

fn a_killed_rank_is_named(network: &str) {
    let kept = tempfile::tempdir().expect("the folder is made");
    let folder = kept.path();
    let mut ranks: Vec<Rank> = (0..SIZE).map(|rank| spawn(folder, network, rank)).collect();
    let limit = Instant::now() + Duration::from_secs(60);
    while !folder.join("ready").exists() {
        assert!(Instant::now() < limit, "{network}: the sums take too long");
        std::thread::sleep(Duration::from_millis(10));
    }
    // The others should wait for rank 1 by now, but need not.
    std::thread::sleep(Duration::from_millis(100));
    let pid = ranks[1].0.id();
    let killed = Instant::now();
    ranks[1].0.kill().expect("rank 1 runs");
    for rank in [0, 2] {
        let status = ranks[rank].0.wait().expect("the rank can be waited for");
        assert!(status.success(), "{network}: rank {rank} ended with {status}");
        let error = std::fs::read_to_string(folder.join(format!("error{rank}"))).expect("the rank wrote its error");
        for word in [&*format!("Rank 1 (pid {pid} on"), "has died", "SequenceNumber=3, OpType=ALLREDUCE", "train.py:7"]
        {
            assert!(error.contains(word), "{network}, rank {rank}: {word} is not in:\n{error}");
        }
    }
    assert!(killed.elapsed() < Duration::from_secs(30), "{network}: {:?}", killed.elapsed());
}

#[test]
fn a_killed_rank_is_named_over_shared_memory() {
    a_killed_rank_is_named("shm");
}

#[test]
fn a_killed_rank_is_named_over_tcp() {
    a_killed_rank_is_named("tcp");
}

#[test]
fn a_killed_rank_is_named_on_one_host() {
    a_killed_rank_is_named("hosts");
}
