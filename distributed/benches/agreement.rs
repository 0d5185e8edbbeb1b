//! Time of an agreement about a program, and of training steps in which rank 0 reads the loss.
//!
//! `cargo bench -p torchtpu-distributed --bench agreement` prints the smallest and the middle time. The program starts
//! itself again as the other ranks. `TORCHTPU_PJRT_PLUGIN` names the plugin.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};
use torchtpu_distributed::store::FileStore;
use torchtpu_distributed::transport::Network;
use torchtpu_distributed::transport::shm::Shm;
use torchtpu_distributed::transport::tcp::Tcp;
use torchtpu_distributed::{Options, ProcessGroup, tensors};
use torchtpu_lazy::{self as lazy, Interpret};
use torchtpu_tensor::comm::{self, Decision, Group, Proposal, Step};
use torchtpu_tensor::ops::collective::{self, Collective, Kind, Reduction};
use torchtpu_tensor::{DType, Device, Dims, Tensor};

const FOLDER: &str = "TORCHTPU_BENCH_FOLDER";
const PART: &str = "TORCHTPU_BENCH_PART";
const RANK: &str = "TORCHTPU_BENCH_RANK";
/// Parts of the bench: a name, and the number of ranks.
const PARTS: [(&str, usize); 5] = [("shm", 2), ("shm", 4), ("tcp", 2), ("tcp", 8), ("steps", 2)];
const ROUNDS: usize = 3000;
/// Collectives of the program.
const STEPS: usize = 16;
/// Pairs of blocks of training steps, without and with a read, and steps of each.
const BLOCKS: usize = 15;
const BLOCK: usize = 20;

/// Print the smallest and the middle of some times.
fn report(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let micros = |d: Duration| d.as_secs_f64() * 1e6;
    println!("{what}: smallest {:.1} us, middle {:.1} us", micros(times[0]), micros(times[times.len() / 2]));
}

fn rounds(name: &str, rank: usize, size: usize, handle: &Group, group: &ProcessGroup) {
    let comm = comm::get().expect("a group is registered");
    let step = || Step {
        ticket: comm.reserve(handle).expect("the group is whole"),
        op: Collective { kind: Kind::AllReduce(Reduction::Sum), group: handle.clone() },
        dtype: DType::F32,
        sizes: Dims::new(&[128, 64]),
    };
    let steps: Vec<Step> = (0..STEPS).map(|_| step()).collect();
    for differs in [false, true] {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let key = if differs { rank as u64 + 1 } else { 1 };
            let start = Instant::now();
            let proposal = Proposal { key, is_compiled: true, cuts: &[], steps: &steps };
            let decision = comm.agree(&proposal).expect("all ranks are there").decision;
            times.push(start.elapsed());
            let wanted = if differs { Decision::Split(STEPS) } else { Decision::Fused { is_compiled: true } };
            assert_eq!(decision, wanted);
        }
        if rank == 0 {
            let what = if differs { "different programs" } else { "the same program" };
            report(&format!("{name}, {size} ranks, {STEPS} collectives, {what}"), times);
        }
    }
    steps.iter().for_each(|step| group.pass(step.ticket.sequence()));
}

/// A step with two products, and the average of two gradients. Return the loss.
fn train(w: &mut [Tensor; 2], x: &Tensor, handle: &Group, reads: bool) -> torchtpu_tensor::Result<()> {
    w.iter().try_for_each(|w| w.requires_grad_(true).map(drop))?;
    let loss = x.matmul(&w[0])?.tanh()?.matmul(&w[1])?.square()?.mean()?;
    torchtpu_autograd::backward(std::slice::from_ref(&loss), &[], None, false, None)?;
    if reads {
        loss.to_vec::<f32>()?;
    }
    for w in w {
        let g = collective::mean(&w.grad().expect("it is a leaf"), handle)?;
        *w = w.detach().sub(&g.mul_scalar(0.01)?)?;
    }
    lazy::mark_step();
    Ok(())
}

fn steps(rank: usize, handle: &Group, group: &ProcessGroup) {
    let ones = |n: usize, m: usize| Tensor::ones(&[n, m], DType::F32, Device::TPU).and_then(|x| x.mul_scalar(0.01));
    for agrees in [false, true] {
        lazy::set_agreement(agrees);
        let x = ones(128, 512).expect("it is recorded");
        let mut w = [ones(512, 512).expect("it is recorded"), ones(512, 512).expect("it is recorded")];
        let mut times = [Vec::new(), Vec::new()];
        for block in 0..2 * (BLOCKS + 1) {
            let reads = block % 2 == 1;
            group.barrier().expect("both ranks are there");
            let start = Instant::now();
            for _ in 0..BLOCK {
                train(&mut w, &x, handle, reads && rank == 0).expect("both ranks are there");
            }
            lazy::synchronize().expect("both ranks are there");
            // The first blocks compile, and adopt the cut.
            if block >= 2 {
                times[usize::from(reads)].push(start.elapsed() / BLOCK as u32);
            }
        }
        if rank == 0 {
            let mode = if agrees { "with agreement" } else { "without agreement" };
            let [plain, reading] = times;
            let middle = |times: &[Duration]| {
                let mut times = times.to_vec();
                times.sort_unstable();
                times[times.len() / 2].as_secs_f64()
            };
            let ratio = middle(&reading) / middle(&plain);
            report(&format!("step {mode}"), plain);
            report(&format!("step {mode}, rank 0 reads the loss"), reading);
            let m = lazy::metrics();
            let counts = format!("{} fused, {} split, {} adopted", m.programs_fused, m.programs_split, m.cuts_adopted);
            println!("ratio of the middle times {ratio:.3} ({counts})");
        }
    }
}

fn measure(folder: &Path, part: usize, rank: usize) {
    let (name, size) = PARTS[part];
    lazy::install();
    lazy::set_cache_folder(None).expect("nothing has used the device yet");
    lazy::set_interpret(Interpret::Never);
    let network: Arc<dyn Network> =
        if name == "tcp" { Arc::new(Tcp { address: IpAddr::V4(Ipv4Addr::LOCALHOST) }) } else { Arc::new(Shm) };
    let store = Arc::new(FileStore::new(folder.join(format!("store{part}")), None).expect("the store is made"));
    let group = ProcessGroup::new(store, network, rank, size, Options::default()).expect("the group is made");
    let handle = tensors::register(&group, vec![(0..size).collect()]).expect("the partition fits");
    group.barrier().expect("all ranks are there");
    match name {
        "steps" => steps(rank, &handle, &group),
        _ => rounds(name, rank, size, &handle, &group),
    }
    tensors::unregister(&handle);
}

fn main() {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse().ok());
    if let (Some(folder), Some(part), Some(rank)) = (std::env::var_os(FOLDER), number(PART), number(RANK)) {
        return measure(Path::new(&folder), part, rank);
    }
    let folder = tempfile::tempdir().expect("the folder is made");
    let program = std::env::current_exe().expect("the bench has a path");
    for (part, (_, size)) in PARTS.iter().enumerate() {
        let start = |rank: usize| {
            let mut command = Command::new(&program);
            command.env(FOLDER, folder.path()).env(PART, part.to_string()).env(RANK, rank.to_string());
            command.spawn().expect("the bench starts again")
        };
        let ranks: Vec<Child> = (0..*size).map(start).collect();
        ranks.into_iter().for_each(|mut rank| assert!(rank.wait().expect("it ends").success()));
    }
}
