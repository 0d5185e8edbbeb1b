//! Random programs on four ranks, each cut at random places, some with a mistake of one rank. Without a mistake, all
//! results are those of one process. With one, each rank ends, with the right results or an error.
//!
//! `TORCHTPU_SCHEDULES` is the number of programs.

use crate::started::{PATIENT, Rank, tpu};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use torchtpu_distributed::store::FileStore;
use torchtpu_distributed::transport::shm::Shm;
use torchtpu_distributed::{Options, ProcessGroup, tensors};
use torchtpu_lazy as lazy;
use torchtpu_tensor::comm::Group;
use torchtpu_tensor::ops::collective::{self, Reduction};
use torchtpu_tensor::{ErrorKind, Result, Tensor};

pub const SIZE: usize = 4;
const PAIRS: [[usize; 2]; 2] = [[0, 1], [2, 3]];
const ELEMENTS: usize = 3;

/// The timeout of groups whose ranks make a mistake, because only the timeout ends some of those programs.
const IMPATIENT: Duration = Duration::from_secs(3);

/// The programs that ranks run, such as `3..8`.
pub const PART: &str = "TORCHTPU_PART_OF_SCHEDULES";

/// Return the number of programs.
pub fn count() -> u64 {
    std::env::var("TORCHTPU_SCHEDULES").ok().and_then(|v| v.parse().ok()).unwrap_or(8)
}

/// Return the programs in parts that end with one that has a mistake. After that, devices may be out of step.
pub fn parts() -> Vec<Range<u64>> {
    let mut first = 0;
    let ends = (0..count()).filter(|&seed| Schedule::new(seed).mistake.is_some() || seed + 1 == count());
    ends.map(|seed| std::mem::replace(&mut first, seed + 1)..seed + 1).collect()
}

fn part() -> Option<Range<u64>> {
    let text = std::env::var(PART).ok()?;
    let (first, end) = text.split_once("..")?;
    Some(first.parse().ok()?..end.parse().ok()?)
}

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

/// What all ranks do. Means of 4 keep all values exact.
#[derive(Clone, Copy, Debug)]
enum Action {
    Scale,
    Shift(f32),
    /// Of all ranks, or of a pair.
    Mean(bool),
    Max(bool),
    Broadcast(usize),
    /// To the next rank.
    Permute,
    Barrier,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Mistake {
    Skip,
    Extra,
    OtherShape,
    Leave,
    Abort,
}

struct Schedule {
    actions: Vec<Action>,
    /// A rank, the position of the action, and what it does wrong.
    mistake: Option<(usize, usize, Mistake)>,
}

impl Schedule {
    fn new(seed: u64) -> Schedule {
        let mut random = Random(seed);
        let length = 3 + random.below(8);
        let mut means = 0;
        let actions: Vec<Action> = (0..length)
            .map(|_| match random.below(8) {
                0 => Action::Scale,
                1 => Action::Shift(random.below(8) as f32),
                2..4 if means < 6 => {
                    means += 1;
                    Action::Mean(random.below(3) == 0)
                }
                2..5 => Action::Max(random.below(3) == 0),
                5 => Action::Broadcast(random.below(SIZE as u64) as usize),
                6 => Action::Permute,
                _ => Action::Barrier,
            })
            .collect();
        let all = [Mistake::Skip, Mistake::Extra, Mistake::OtherShape, Mistake::Leave, Mistake::Abort];
        let mistake = (random.below(4) == 0).then(|| {
            let (rank, at) = (random.below(SIZE as u64) as usize, random.below(length) as usize);
            (rank, at, all[random.below(all.len() as u64) as usize])
        });
        Schedule { actions, mistake }
    }

    /// Return the values of all ranks after each action.
    fn oracle(&self) -> Vec<[[f32; ELEMENTS]; SIZE]> {
        let mut x: [[f32; ELEMENTS]; SIZE] = std::array::from_fn(start);
        let mut steps = Vec::new();
        for action in &self.actions {
            let before = x;
            let of = |ranks: &[usize], i: usize| ranks.iter().map(|&r| before[r][i]).collect::<Vec<_>>();
            for (rank, own) in x.iter_mut().enumerate() {
                for (i, v) in own.iter_mut().enumerate() {
                    let group = |pair: bool| if pair { PAIRS[rank / 2].to_vec() } else { (0..SIZE).collect() };
                    *v = match *action {
                        Action::Scale => *v * 0.5,
                        Action::Shift(by) => *v + by,
                        Action::Mean(pair) => of(&group(pair), i).iter().sum::<f32>() / group(pair).len() as f32,
                        Action::Max(pair) => of(&group(pair), i).into_iter().fold(f32::MIN, f32::max),
                        Action::Broadcast(from) => before[from][i],
                        Action::Permute => before[(rank + SIZE - 1) % SIZE][i],
                        Action::Barrier => *v,
                    };
                }
            }
            steps.push(x);
        }
        steps
    }
}

fn start(rank: usize) -> [f32; ELEMENTS] {
    std::array::from_fn(|i| (rank * 4 + i) as f32 - 5.0)
}

/// One rank of one program.
struct Program {
    rank: usize,
    world: ProcessGroup,
    all: Group,
    pair: Group,
    /// Decides about what this rank does alone.
    random: Random,
    kept: Vec<Tensor>,
}

impl Program {
    fn act(&self, action: Action, x: &Tensor) -> Result<Tensor> {
        let group = |pair| if pair { &self.pair } else { &self.all };
        match action {
            Action::Scale => x.mul_scalar(0.5),
            Action::Shift(by) => x.add_scalar(f64::from(by)),
            Action::Mean(pair) => collective::mean(x, group(pair)),
            Action::Max(pair) => collective::all_reduce(x, Reduction::Max, group(pair)),
            Action::Broadcast(from) => collective::broadcast(x, from, &self.all),
            Action::Permute => collective::permute(x, &[(0, 1), (1, 2), (2, 3), (3, 0)], &self.all),
            Action::Barrier => self.world.barrier().map(|()| x.clone()),
        }
    }

    /// Do something that other ranks do not do. Return the values, if this reads them.
    fn disturb(&mut self, x: &Tensor) -> Result<Option<Vec<f32>>> {
        match self.random.below(12) {
            0 | 1 => return x.to_vec().map(Some),
            2 => lazy::mark_step(),
            3 => std::thread::sleep(Duration::from_millis(1 + self.random.below(3))),
            4 => drop(x.mul_scalar(3.0)?.sum()?.to_vec::<f32>()?),
            5 => self.kept.push(x.add_scalar(1.0)?),
            _ => {}
        }
        Ok(None)
    }

    fn run(&mut self, schedule: &Schedule, oracle: &[[[f32; ELEMENTS]; SIZE]]) -> Result<()> {
        let rank = self.rank;
        let check = |at: usize, values: Vec<f32>| {
            // Ranks that skip a call, or call once more, may meet the others in a later call that is equal.
            let is_sure = !matches!(schedule.mistake, Some((_, _, Mistake::Skip | Mistake::Extra)));
            let wanted = &oracle[at][rank];
            assert!(!is_sure || values == wanted, "rank {rank}, action {at}: {values:?}, not {wanted:?}");
        };
        let mut x = tpu(&start(self.rank));
        let mut read = Vec::new();
        for (at, &action) in schedule.actions.iter().enumerate() {
            match schedule.mistake {
                Some((who, place, mistake)) if (who, place) == (rank, at) => match mistake {
                    Mistake::Skip => continue,
                    Mistake::Extra => self.kept.push(collective::broadcast(&x, 2, &self.all)?),
                    Mistake::OtherShape => self.kept.push(collective::broadcast(&tpu(&[1.0]), 2, &self.all)?),
                    Mistake::Leave => return Ok(()),
                    Mistake::Abort => {
                        self.world.abort("a mistake of the test");
                        return Ok(());
                    }
                },
                _ => {}
            }
            x = self.act(action, &x)?;
            if let Some(values) = self.disturb(&x)? {
                read.push((at, values));
            }
        }
        read.push((schedule.actions.len() - 1, x.to_vec()?));
        read.into_iter().for_each(|(at, values)| check(at, values));
        Ok(())
    }
}

/// Run all programs, as one rank.
pub fn run(r: &Rank) {
    let rank = r.rank;
    for seed in part().unwrap_or(0..count()) {
        let schedule = Schedule::new(seed);
        let oracle = schedule.oracle();
        // A program with a mistake breaks its groups.
        let path = r.folder.join(format!("store{seed}"));
        let store = Arc::new(FileStore::new(path, None).expect("the store is made"));
        let timeout = if schedule.mistake.is_some() { IMPATIENT } else { PATIENT };
        let options = Options { timeout, ..Options::default() };
        let world = ProcessGroup::new(store, Arc::new(Shm), rank, SIZE, options).expect("the group is made");
        let random = Random(seed << 8 | rank as u64);
        if let Err(error) = run_one(world, random, rank, &schedule, &oracle) {
            let what = format!("schedule {seed}, rank {rank}: {:?} {:?}: {error}", schedule.actions, schedule.mistake);
            assert!(schedule.mistake.is_some(), "{what}");
            assert_eq!(error.kind(), ErrorKind::DistBackend, "{what}");
        }
    }
}

fn run_one(
    world: ProcessGroup,
    random: Random,
    rank: usize,
    schedule: &Schedule,
    oracle: &[[[f32; ELEMENTS]; SIZE]],
) -> Result<()> {
    let pairs: Vec<Vec<usize>> = PAIRS.iter().map(|pair| pair.to_vec()).collect();
    // A rank may make its mistake while another one is still here.
    let pair = world.split_group(&pairs, None)?.expect("each rank is in a pair");
    let all = tensors::register(&world, vec![(0..SIZE).collect()]).expect("the partition fits");
    let pair = tensors::register(&pair, pairs).expect("the partition fits");
    let mut program = Program { rank, world, all, pair, random, kept: Vec::new() };
    let result = program.run(schedule, oracle);
    tensors::unregister(&program.pair);
    tensors::unregister(&program.all);
    result
}
