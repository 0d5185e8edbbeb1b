//! Time of a program on XLA:CPU with and without a collective between two processes.
//!
//! `cargo bench -p torchtpu-distributed --bench programs` prints the smallest times. The program starts itself again as
//! rank 1. `TORCHTPU_PJRT_PLUGIN` names the plugin.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use torchtpu_distributed::store::FileStore;
use torchtpu_distributed::transport::shm::Shm;
use torchtpu_distributed::{Options, ProcessGroup, tensors};
use torchtpu_lazy::{self as lazy, Interpret};
use torchtpu_tensor::ops::collective::{self, Reduction};
use torchtpu_tensor::{DType, Device, Tensor};

const FOLDER: &str = "TORCHTPU_BENCH_FOLDER";
/// Elements, and the number of calls.
const SIZES: [(usize, usize); 3] = [(1, 3000), (16 << 10, 1000), (256 << 10, 200)];

fn measure(folder: &Path, rank: usize) {
    lazy::install();
    lazy::set_cache_folder(None).expect("nothing has used the device yet");
    // Interpreted programs are not meant here.
    lazy::set_interpret(Interpret::Never);
    let store = Arc::new(FileStore::new(folder.join("store"), None).expect("the store is made"));
    let group = ProcessGroup::new(store, Arc::new(Shm), rank, 2, Options::default()).expect("the group is made");
    let handle = tensors::register(&group, vec![vec![0, 1]]).expect("the partition fits");
    for (elements, calls) in SIZES {
        let x = Tensor::ones(&[elements], DType::F32, Device::TPU).expect("it is recorded");
        lazy::synchronize().expect("nothing has failed");
        let program = |collectives: usize| {
            let mut y = x.mul_scalar(0.5).expect("it is recorded");
            for _ in 0..collectives {
                y = collective::all_reduce(&y, Reduction::Sum, &handle).expect("it is recorded");
            }
            y.sum().and_then(|y| y.to_vec::<f32>()).expect("both ranks are there")
        };
        let best = |collectives| {
            let mut best = Duration::MAX;
            for call in 0..calls + 2 {
                let start = Instant::now();
                program(collectives);
                // The first calls compile.
                if call >= 2 {
                    best = best.min(start.elapsed());
                }
            }
            group.barrier().expect("both ranks are there");
            best.as_secs_f64() * 1e6
        };
        let times = [0, 1, 8].map(best);
        if rank == 0 {
            println!(
                "{elements:>7} floats: {:.1} us, with 1 all_reduce {:.1}, with 8 {:.1}",
                times[0], times[1], times[2]
            );
        }
    }
    tensors::unregister(&handle);
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
