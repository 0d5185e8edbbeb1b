//! Time of `all_reduce` between two processes, over shared memory and over TCP.
//!
//! `cargo bench -p torchtpu-distributed --bench all_reduce` prints the smallest time of each size. The program starts
//! itself again as rank 1.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use torchtpu_distributed::store::FileStore;
use torchtpu_distributed::transport::Network;
use torchtpu_distributed::transport::shm::Shm;
use torchtpu_distributed::transport::tcp::Tcp;
use torchtpu_distributed::{Op, Options, ProcessGroup, ReduceOp, Request};
use torchtpu_tensor::DType;

const FOLDER: &str = "TORCHTPU_BENCH_FOLDER";
/// Bytes, and the number of calls.
const SIZES: [(usize, usize); 4] = [(4, 3000), (64 << 10, 1000), (1 << 20, 200), (64 << 20, 8)];

fn measure(folder: &Path, rank: usize) {
    let networks: [(&str, Arc<dyn Network>); 2] =
        [("shm", Arc::new(Shm)), ("tcp", Arc::new(Tcp { address: IpAddr::V4(Ipv4Addr::LOCALHOST) }))];
    for (name, network) in networks {
        let store = Arc::new(FileStore::new(folder.join("store"), None).expect("the store is made"));
        let options = Options { name: name.into(), ..Options::default() };
        let group = ProcessGroup::new(store, network, rank, 2, options).expect("the group is made");
        for (bytes, calls) in SIZES {
            let request = Request::new(Op::AllReduce(ReduceOp::Max), DType::F32, &[bytes / 4]);
            let mut data = 1f32.to_le_bytes().repeat(bytes / 4);
            let mut best = Duration::MAX;
            for call in 0..calls + 2 {
                let start = Instant::now();
                group.run(&request, &[], &mut data).expect("both ranks call");
                // The first calls touch memory for the first time.
                if call >= 2 {
                    best = best.min(start.elapsed());
                }
            }
            if rank == 0 {
                println!("{name:4} {bytes:>9} bytes  {:>10.1} us", best.as_secs_f64() * 1e6);
            }
        }
    }
}

fn main() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return measure(Path::new(&folder), 1);
    }
    let folder = tempfile::tempdir().expect("the folder is made");
    let program = std::env::current_exe().expect("the bench has a path");
    let mut peer = Command::new(program).env(FOLDER, folder.path()).spawn().expect("the bench starts again");
    measure(folder.path(), 0);
    peer.wait().expect("rank 1 ends");
}
