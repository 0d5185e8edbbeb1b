//! Agreement before launches of programs with the compiler's own collectives. Ranks are threads, each with a device of
//! its own of one XLA:CPU client. XLA ends the process if a device waits for others for a minute, so each program that
//! is launched must be launched by all.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use torchtpu_distributed::store::HashStore;
use torchtpu_distributed::transport::memory::Memory;
use torchtpu_distributed::{Options, ProcessGroup, tensors};
use torchtpu_pjrt::{Client, CompileOptions, ElementType, Executable, Plugin};
use torchtpu_tensor::comm::{self, Communicator, Cut, Decision, Group, Proposal, Step};
use torchtpu_tensor::ops::collective::{Collective, Kind, Reduction};
use torchtpu_tensor::{DType, Dims, ErrorKind, Result};

const RANKS: usize = 4;
const PAIRS: [[usize; 2]; 2] = [[0, 1], [2, 3]];
const PATIENT: Duration = Duration::from_secs(60);

/// A generator of random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % n
    }
}

/// An op on four floats.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Op {
    Halve,
    /// Over all ranks, or over the pair of the rank.
    Sum {
        pair: bool,
    },
}

/// A recorded op, with its collective.
type Recorded = (Op, Option<Step>);

/// Return a program of some ops.
fn text(ops: &[Op]) -> String {
    let mut body = String::new();
    for (i, op) in ops.iter().enumerate() {
        let (x, y) = (format!("%v{i}"), format!("%v{}", i + 1));
        // Writing to a string cannot fail.
        let _ = match op {
            Op::Halve => writeln!(body, "{y} = stablehlo.multiply {x}, %half : tensor<4xf32>"),
            Op::Sum { pair } => {
                let groups =
                    if *pair { "[[0, 1], [2, 3]]> : tensor<2x2xi64>" } else { "[[0, 1, 2, 3]]> : tensor<1x4xi64>" };
                writeln!(
                    body,
                    "{y} = \"stablehlo.all_reduce\"({x}) ({{\n^bb0(%a: tensor<f32>, %b: tensor<f32>):\n\
                     %s = stablehlo.add %a, %b : tensor<f32>\nstablehlo.return %s : tensor<f32>\n}}) \
                     {{replica_groups = dense<{groups}}} : (tensor<4xf32>) -> tensor<4xf32>"
                )
            }
        };
    }
    format!(
        "module {{ func.func @main(%v0: tensor<4xf32>) -> tensor<4xf32> {{\n\
         %half = stablehlo.constant dense<0.5> : tensor<4xf32>\n{body}return %v{} : tensor<4xf32>\n}} }}",
        ops.len()
    )
}

/// The devices of all ranks, and the programs, which they share.
struct Devices {
    client: Arc<Client>,
    programs: Mutex<HashMap<String, Arc<Executable>>>,
    fused: AtomicU64,
    split: AtomicU64,
}

impl Devices {
    fn new() -> Devices {
        let plugin = Plugin::find(None).expect("the tests have a plugin");
        let client = Client::create(&plugin, &[("cpu_device_count", (RANKS as i64).into())]).expect("it is made");
        Devices { client, programs: Mutex::default(), fused: AtomicU64::new(0), split: AtomicU64::new(0) }
    }

    /// Run a program that all ranks run.
    fn run(&self, ops: &[Op], x: &mut [f32], rank: usize, launch_id: i32) {
        let text = text(ops);
        let mut programs = self.programs.lock().unwrap_or_else(|e| e.into_inner());
        let program = programs.entry(text).or_insert_with_key(|text| {
            let options = CompileOptions { num_replicas: RANKS as i64, ..CompileOptions::default() };
            Arc::new(self.client.compile(text, &options).expect("it compiles"))
        });
        let program = program.clone();
        drop(programs);
        let bytes: Vec<u8> = x.iter().flat_map(|v| v.to_ne_bytes()).collect();
        let device = &self.client.devices()[rank];
        let argument = self.client.buffer_from_host_on(device, &bytes, ElementType::F32, &[4]).expect("it is copied");
        let result = program.execute_on(rank, launch_id, &[&argument]).expect("all ranks launch it").remove(0);
        let mut bytes = vec![0; bytes.len()];
        result.to_host(&mut bytes).expect("it is computed");
        x.iter_mut().zip(bytes.as_chunks::<4>().0).for_each(|(v, b)| *v = f32::from_ne_bytes(*b));
    }
}

struct Rank<'a> {
    rank: usize,
    all: Group,
    pair: Group,
    devices: &'a Devices,
    comm: &'static dyn Communicator,
}

impl Rank<'_> {
    fn record(&self, op: Op) -> Result<Recorded> {
        let Op::Sum { pair } = op else { return Ok((op, None)) };
        let group = if pair { &self.pair } else { &self.all };
        let ticket = self.comm.reserve(group)?;
        let kind = Kind::AllReduce(Reduction::Sum);
        let step =
            Step { ticket, op: Collective { kind, group: group.clone() }, dtype: DType::F32, sizes: Dims::new(&[4]) };
        Ok((op, Some(step)))
    }

    /// A number that all ranks give to a launch, and to no other one.
    fn launch_id(step: &Step, is_pair: bool, schedule: u64) -> i32 {
        (schedule as i32) * 1000 + (step.ticket.sequence() as i32) * 2 + i32::from(is_pair) + 1
    }

    /// Launch a segment as the ranks agree.
    fn launch(&self, segment: &[Recorded], x: &mut [f32], schedule: u64) -> Result<()> {
        let ops: Vec<Op> = segment.iter().map(|s| s.0).collect();
        let key = text(&ops).bytes().fold(1u64, |h, b| h.wrapping_mul(31).wrapping_add(b.into())).max(1);
        let cuts = [Cut { ops: ops.len() as u64, hash: key }];
        let mut left: Option<usize> = None;
        let mut done = 0;
        while done < segment.len() {
            let rest = &segment[done..];
            let steps: Vec<Step> = rest.iter().filter_map(|s| s.1.clone()).collect();
            if !steps.is_empty() && left.is_none_or(|n| n == 0) {
                let is_whole = done == 0 && left.is_none();
                let key = if is_whole { key } else { 0 };
                let cuts: &[Cut] = if is_whole { &cuts } else { &[] };
                let agreed = self.comm.agree(&Proposal { key, is_compiled: true, cuts, steps: &steps });
                let agreed = agreed.map_err(|disagreement| disagreement.error)?;
                match agreed.decision {
                    Decision::Fused { .. } => {
                        self.devices.fused.fetch_add(1, Ordering::Relaxed);
                        let is_pair =
                            rest.iter().find(|s| s.1.is_some()).is_some_and(|s| s.0 == Op::Sum { pair: true });
                        self.devices.run(&ops, x, self.rank, Rank::launch_id(&steps[0], is_pair, schedule));
                        steps.iter().for_each(|step| self.comm.was_launched(step.ticket));
                        return Ok(());
                    }
                    Decision::Split(n) => {
                        self.devices.split.fetch_add(1, Ordering::Relaxed);
                        left = Some(n);
                    }
                }
            }
            match &rest[0] {
                (op @ Op::Sum { pair }, Some(step)) => {
                    self.devices.run(&[*op], x, self.rank, Rank::launch_id(step, *pair, schedule));
                    self.comm.was_launched(step.ticket);
                    left = left.map(|n| n - 1);
                }
                // Pieces without collectives are the rank's own.
                _ => x.iter_mut().for_each(|v| *v *= 0.5),
            }
            done += 1;
        }
        Ok(())
    }
}

/// Run `work` on a thread for each rank, with new groups.
fn on_ranks<R: Send>(devices: &Devices, work: impl Fn(&Rank<'_>, &ProcessGroup) -> R + Sync) -> Vec<R> {
    let (store, network) = (Arc::new(HashStore::new()), Arc::new(Memory::default()));
    std::thread::scope(|threads| {
        let spawn = |rank: usize| {
            let (store, network, work) = (store.clone(), network.clone(), &work);
            threads.spawn(move || {
                let options = Options { timeout: PATIENT, ..Options::default() };
                let world = ProcessGroup::new(store, network, rank, RANKS, options).expect("the group is made");
                let pairs: Vec<Vec<usize>> = PAIRS.iter().map(|pair| pair.to_vec()).collect();
                let pair = world.split_group(&pairs, None).expect("all ranks are there").expect("it is in a pair");
                let all = tensors::register(&world, vec![(0..RANKS).collect()]).expect("the partition fits");
                let pair = tensors::register(&pair, pairs).expect("the partition fits");
                let comm = comm::get().expect("a group is registered");
                let own = Rank { rank, all, pair, devices, comm };
                let result = work(&own, &world);
                tensors::unregister(&own.pair);
                tensors::unregister(&own.all);
                result
            })
        };
        let started: Vec<_> = (0..RANKS).map(spawn).collect();
        started.into_iter().map(|t| t.join().expect("the rank does not panic")).collect()
    })
}

/// Return the values of all ranks after each op.
fn oracle(ops: &[Op]) -> Vec<[f32; RANKS]> {
    let mut x: [f32; RANKS] = std::array::from_fn(|rank| rank as f32 + 1.0);
    let step = |op: &Op| {
        let before = x;
        for (rank, v) in x.iter_mut().enumerate() {
            *v = match op {
                Op::Halve => *v * 0.5,
                Op::Sum { pair: true } => PAIRS[rank / 2].iter().map(|&r| before[r]).sum(),
                Op::Sum { pair: false } => before.iter().sum(),
            };
        }
        x
    };
    ops.iter().map(step).collect()
}

#[test]
fn random_schedules_give_the_results_of_one_process() {
    let devices = Devices::new();
    let count = std::env::var("TORCHTPU_SCHEDULES").ok().and_then(|v| v.parse().ok()).unwrap_or(40);
    for schedule in 0..count {
        let mut random = Random(schedule);
        let ops: Vec<Op> = (0..4 + random.below(6))
            .map(|_| match random.below(4) {
                0 | 1 => Op::Halve,
                2 => Op::Sum { pair: true },
                _ => Op::Sum { pair: false },
            })
            .collect();
        let wanted = oracle(&ops);
        let is_disturbed = random.below(3) > 0;
        on_ranks(&devices, |r, _| {
            let mut random = Random(schedule << 8 | r.rank as u64);
            let mut x = [r.rank as f32 + 1.0; 4];
            let mut segment = Vec::new();
            for (at, &op) in ops.iter().enumerate() {
                segment.push(r.record(op).expect("the groups are whole"));
                if at + 1 == ops.len() || is_disturbed && random.below(4) == 0 {
                    r.launch(&segment, &mut x, schedule).expect("the ranks agree");
                    segment.clear();
                    assert_eq!(x, [wanted[at][r.rank]; 4], "schedule {schedule}, rank {}, op {at} of {ops:?}", r.rank);
                }
            }
        });
    }
    let (fused, split) = (devices.fused.load(Ordering::Relaxed), devices.split.load(Ordering::Relaxed));
    assert!(fused > 0 && split > 0, "{fused} fused, {split} split");
}

#[test]
fn undisturbed_programs_are_launched_whole() {
    let devices = Devices::new();
    let ops = [Op::Sum { pair: true }, Op::Halve, Op::Sum { pair: false }, Op::Halve];
    let wanted = oracle(&ops);
    on_ranks(&devices, |r, _| {
        for step in 0..5 {
            let mut x = [r.rank as f32 + 1.0; 4];
            let segment: Vec<Recorded> = ops.iter().map(|&op| r.record(op).expect("the groups are whole")).collect();
            r.launch(&segment, &mut x, 10 + step).expect("the ranks agree");
            assert_eq!(x, [wanted[3][r.rank]; 4]);
        }
    });
    assert_eq!((devices.fused.load(Ordering::Relaxed), devices.split.load(Ordering::Relaxed)), (5 * 4, 0));
}

#[test]
fn mistakes_are_errors_before_a_device_waits() {
    let devices = Devices::new();
    type Mistake = fn(&Rank<'_>, &ProcessGroup) -> Vec<Op>;
    const SUM: Op = Op::Sum { pair: false };
    let mistakes: [(&str, Mistake); 4] = [
        // A rank sums over its pair instead.
        ("Detected mismatch", |r, _| vec![SUM, Op::Sum { pair: r.rank == 1 }]),
        // The order differs.
        ("Detected mismatch", |r, _| {
            let order = [SUM, Op::Sum { pair: true }];
            if r.rank == 2 { order.iter().rev().copied().collect() } else { order.to_vec() }
        }),
        // A rank leaves before the last sum.
        ("left the group", |r, _| if r.rank == 3 { vec![SUM] } else { vec![SUM, SUM] }),
        // A rank fails.
        ("the batch is empty", |r, world| {
            if r.rank == 0 {
                world.abort("ValueError: the batch is empty");
            }
            vec![SUM]
        }),
    ];
    for (case, (words, mistake)) in mistakes.into_iter().enumerate() {
        let results = on_ranks(&devices, |r, world| {
            let ops = mistake(r, world);
            let segment = ops.into_iter().map(|op| r.record(op)).collect::<Result<Vec<_>>>();
            let result = segment.and_then(|segment| r.launch(&segment, &mut [1.0; 4], 100 + case as u64));
            if let Err(error) = &result {
                // The engine gives up what it does not launch.
                world.abort(error.message());
            }
            result
        });
        for (rank, result) in results.into_iter().enumerate() {
            match result {
                Ok(()) => assert!(case == 2 && rank == 3, "case {case}: rank {rank} does not notice"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::DistBackend);
                    assert!(error.to_string().contains(words), "case {case}, rank {rank}: {error}");
                }
            }
        }
    }
}
