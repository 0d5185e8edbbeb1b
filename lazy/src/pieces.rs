//! Division of programs that are only partly new.
//!
//! Examples are a detection loss over a varying number of boxes, a sequence that grows beside a model, and a branch on
//! a random number: each step is another program, but all except a few of its ops have been compiled before. So if new
//! programs keep coming, they are computed in pieces: runs of ops that are programs of their own. The first program is
//! divided at marks that depend on its ops, so that equal layers are equal pieces. A later program is divided into the
//! known runs. The ops between them are split into a start and an end that they share with known runs, and the new ops
//! in the middle. Soon the changing ops are a piece of their own, and only that piece is compiled.
//!
//! Pieces fuse less than the whole, so a program that comes often is compiled as a whole in the end. Every training
//! loop begins with new programs. So a step counts as varying only if it has a new program that is made mostly of ops
//! that earlier programs had too, and several of the last steps must vary.

use crate::cache::Compiled;
use crate::form::{Form, Source, hash_meta, hash_op, mix};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Least number of ops of a program that is divided. Smaller ones compile faster than they are divided.
pub(crate) const MIN_DIVIDED_OPS: usize = 64;
/// Number of steps that are looked back at.
const RECENT_STEPS: u32 = 8;
/// Number of varying steps among them from which a new program runs in pieces. The first steps of ordinary training
/// vary once or twice.
const MIN_VARYING_STEPS: u32 = 3;
/// Number of runs in pieces after which a program is compiled as a whole. The compilation takes as long as some dozens
/// of runs gain by it.
const RUNS_BEFORE_COMPILING: u32 = 32;
/// Number of runs after which the whole is used. It is fixed, so that results do not depend on the time that the
/// compiler takes.
const RUNS_BEFORE_WHOLE: u32 = 64;
/// Number of runs of other divided programs after which a whole that was not used makes room for another.
const MAX_PENDING_AGE: u32 = 1024;
/// Count of a program whose whole was handed out. It is compiled once only.
const HANDED_OUT: u32 = u32::MAX;
/// Sizes of pieces, in ops.
#[derive(Clone, Copy)]
struct Sizes {
    /// Programs smaller than this are not divided.
    program: usize,
    /// Least size of a run, except of changed ops between two runs.
    run: usize,
    /// Least and greatest size of the pieces of ops that match no known run.
    least: usize,
    most: usize,
}
const SIZES: Sizes = Sizes { program: MIN_DIVIDED_OPS, run: 6, least: 32, most: 128 };
/// Sizes for the new ops of a program that has known runs. They may come again in another program, beside other new
/// ops.
const FINE: Sizes = Sizes { least: 8, most: 32, ..SIZES };
/// Sizes with [`Divide::Always`]: as many cuts as possible.
const SMALL: Sizes = Sizes { program: 2, run: 2, least: 1, most: 5 };
/// One op in this many is a mark on average: see [`marks`].
const OPS_PER_MARK: u64 = 8;
/// Number of ops in known runs, or of programs, above which all are forgotten.
const MAX_KNOWN: usize = 1 << 17;

/// Selects the programs that are computed in pieces.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Divide {
    /// No program.
    Never,
    /// Large new programs, if new ones keep coming.
    #[default]
    Changing,
    /// All programs, in small pieces: to test that this changes no result.
    Always,
}

/// The executable of a whole program after its compilation, or `None` if that failed.
pub(crate) type Whole = Arc<OnceLock<Option<Arc<Compiled>>>>;

/// How to compute a program that has no executable.
pub(crate) enum Plan {
    Pieces {
        /// Nodes of each piece, in order. Nodes that no output depends on are left out.
        pieces: Vec<Vec<usize>>,
        /// The place for the executable of the whole, if the whole is to be compiled meanwhile.
        compile: Option<Whole>,
    },
    /// As a whole, as soon as that is compiled.
    Whole(Whole),
}

/// A whole that is being compiled, or that waits for its first use.
struct Pending {
    hash: u64,
    whole: Whole,
    /// Number of programs that were divided since.
    age: u32,
}

/// The runs of ops that were computed as pieces.
#[derive(Default)]
pub(crate) struct Pieces(Mutex<Known>);

#[derive(Default)]
struct Known {
    divide: Divide,
    /// Runs by their first op, and by their last op.
    by_first: FxHashMap<u64, Vec<usize>>,
    by_last: FxHashMap<u64, Vec<usize>>,
    runs: Vec<Vec<u64>>,
    ops: usize,
    /// Number of times that each program was computed in pieces.
    seen: FxHashMap<u64, u32>,
    /// One whole at a time, since the program needs the processor too.
    pending: Option<Pending>,
    /// Hashes of the ops of all large programs.
    programs: FxHashSet<u64>,
    /// One bit for each of the last steps: whether it varied. `step` is the bit of the current step.
    steps: u64,
    step: bool,
}

impl Pieces {
    pub(crate) fn from_environment() -> Pieces {
        let pieces = Pieces::default();
        match std::env::var("TORCHTPU_PIECES").as_deref() {
            Ok("0") => pieces.set(Divide::Never),
            Ok("always") => pieces.set(Divide::Always),
            _ => {}
        }
        pieces
    }

    /// Record that a program is used as a whole. If its executable is dropped, the count starts again.
    pub(crate) fn record_whole(&self, hash: u64) {
        self.0.lock().seen.insert(hash, 0);
    }

    /// Record a program that has an executable.
    pub(crate) fn record_known(&self, form: &Form, ends_step: bool) {
        if form.nodes.len() >= MIN_DIVIDED_OPS {
            self.0.lock().record_program(false, ends_step);
        }
    }

    /// Record a program that has no executable. Return how to divide it, or nothing if it should not be divided.
    pub(crate) fn plan(&self, hash: u64, form: &Form, ends_step: bool) -> Option<Plan> {
        let mut known = self.0.lock();
        if form.nodes.len() < known.sizes().program {
            return None;
        }
        let needed = form.needed(&form.outputs);
        let nodes: Vec<usize> = (0..form.nodes.len()).filter(|&n| needed[n]).collect();
        let ops: Vec<u64> = nodes.iter().map(|&n| hash_node(form, n)).collect();
        let kinds: Vec<u64> =
            nodes.iter().map(|&n| form.nodes[n].op.name().bytes().fold(0, |h, b| mix(h, b.into()))).collect();
        if known.ops.max(known.seen.len()).max(known.programs.len()) > MAX_KNOWN {
            known.clear();
        }
        let new = ops.iter().filter(|op| known.programs.insert(**op)).count();
        let varies = new <= ops.len() / 2;
        let is_one_of_many = varies && (known.steps & ((1 << RECENT_STEPS) - 1)).count_ones() >= MIN_VARYING_STEPS;
        known.record_program(varies, ends_step);
        match known.divide {
            Divide::Always => {}
            Divide::Changing if is_one_of_many => {}
            Divide::Changing | Divide::Never => return None,
        }
        let compile = match known.next_step(hash) {
            Some(Step::Use(whole)) => return Some(Plan::Whole(whole)),
            Some(Step::Compile(whole)) => Some(whole),
            None => None,
        };
        let pieces: Vec<Vec<usize>> =
            known.divide(&ops, &marks(&kinds)).into_iter().map(|r| nodes[r].to_vec()).collect();
        (pieces.len() > 1 || compile.is_some()).then_some(Plan::Pieces { pieces, compile })
    }

    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    pub(crate) fn set(&self, divide: Divide) {
        self.0.lock().divide = divide;
        self.clear();
    }
}

/// Return the hash of an op without its offsets, and of the types that it reads and computes. The origin of its inputs
/// is left out.
fn hash_node(form: &Form, n: usize) -> u64 {
    let op = &form.nodes[n].op;
    let h = if op.has_offsets() { hash_op(&op.without_offsets()) } else { hash_op(op) };
    let h = form.inputs_of(n).iter().fold(h, |h, input| match input.source() {
        Source::Value(v) => mix(h, hash_meta(&form.values[v])),
        Source::Arg(a) => mix(h, hash_meta(&form.args[a].meta)),
        Source::Number(..) => h,
    });
    form.values_of(n).fold(h, |h, v| mix(h, hash_meta(&form.values[v])))
}

fn common(a: impl Iterator<Item = u64>, b: impl Iterator<Item = u64>) -> usize {
    a.zip(b).take_while(|(a, b)| a == b).count()
}

enum Step {
    Compile(Whole),
    Use(Whole),
}

impl Known {
    /// Count one more run of a program, and return the next step for its whole. Only counts decide, not the progress of
    /// the compiler: the same program gives the same results at each run, to the last bit.
    fn next_step(&mut self, hash: u64) -> Option<Step> {
        let seen = self.seen.entry(hash).or_default();
        *seen = seen.saturating_add(1);
        if let Some(pending) = &mut self.pending {
            pending.age += 1;
            if pending.hash == hash && *seen >= RUNS_BEFORE_WHOLE {
                *seen = HANDED_OUT;
                return self.pending.take().map(|p| Step::Use(p.whole));
            }
            if pending.age < MAX_PENDING_AGE {
                return None;
            }
        }
        if !(RUNS_BEFORE_COMPILING..HANDED_OUT).contains(seen) {
            return None;
        }
        let whole = Whole::default();
        self.pending = Some(Pending { hash, whole: whole.clone(), age: 0 });
        Some(Step::Compile(whole))
    }

    fn sizes(&self) -> Sizes {
        if self.divide == Divide::Always { SMALL } else { SIZES }
    }

    fn clear(&mut self) {
        *self = Known { divide: self.divide, ..Known::default() };
    }

    fn record_program(&mut self, varied: bool, ends_step: bool) {
        self.step |= varied;
        if ends_step {
            self.steps = self.steps << 1 | u64::from(std::mem::take(&mut self.step));
        }
    }

    /// Divide a program into runs, and record these.
    fn divide(&mut self, ops: &[u64], marks: &[bool]) -> Vec<Range<usize>> {
        let mut runs = Vec::new();
        let (mut at, mut rest) = (0, 0);
        while at < ops.len() {
            match self.longest(&ops[at..]) {
                Some(len) => {
                    self.divide_rest(ops, marks, rest..at, &mut runs);
                    runs.push(at..at + len);
                    at += len;
                    rest = at;
                }
                None => at += 1,
            }
        }
        self.divide_rest(ops, marks, rest..at, &mut runs);
        for run in &runs {
            self.learn(&ops[run.clone()]);
        }
        runs
    }

    /// Return the length of the longest known run with which `ops` begin.
    fn longest(&self, ops: &[u64]) -> Option<usize> {
        let runs = self.by_first.get(&ops[0])?.iter().map(|&r| &self.runs[r]);
        runs.filter(|r| ops.starts_with(r)).map(Vec::len).max()
    }

    /// Divide ops in which no known run starts. The ops that they share with the start of a known run become a run, and
    /// also the ops that they share with the end of one.
    fn divide_rest(&self, ops: &[u64], marks: &[bool], range: Range<usize>, runs: &mut Vec<Range<usize>>) {
        if range.is_empty() {
            return;
        }
        let rest = &ops[range.clone()];
        let of = |list: Option<&Vec<usize>>| list.into_iter().flatten().map(|&r| &self.runs[r][..]).collect::<Vec<_>>();
        let starts = of(self.by_first.get(&rest[0]));
        let ends = of(self.by_last.get(&rest[rest.len() - 1]));
        let sizes = self.sizes();
        let long = |n: usize| if n < sizes.run { 0 } else { n };
        let front = starts.iter().map(|r| long(common(r.iter().copied(), rest.iter().copied()))).max().unwrap_or(0);
        let left = &rest[front..];
        let back = |r: &&[u64]| long(common(r.iter().rev().copied(), left.iter().rev().copied()));
        let back = ends.iter().map(back).max().unwrap_or(0);
        let (from, to) = (range.start + front, range.end - back);
        if front > 0 {
            runs.push(range.start..from);
        }
        let is_all = range.len() == ops.len();
        let sizes = if is_all || self.divide == Divide::Always { sizes } else { FINE };
        cut_at_marks(marks, from..to, sizes, runs);
        if back > 0 {
            runs.push(to..range.end);
        }
    }

    fn learn(&mut self, run: &[u64]) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return };
        let least = self.sizes().run;
        let same = self.by_first.entry(*first).or_default();
        if run.len() < least || same.iter().any(|&r| self.runs[r] == run) {
            return;
        }
        same.push(self.runs.len());
        self.by_last.entry(*last).or_default().push(self.runs.len());
        self.ops += run.len();
        self.runs.push(run.to_vec());
    }
}

/// Return the marks: the places where ops without known runs are cut. An op is a mark if the hash of its name and of
/// the two names before it is a multiple of [`OPS_PER_MARK`]. Shapes do not matter, so equal ops have equal marks.
fn marks(kinds: &[u64]) -> Vec<bool> {
    let kind = |i: usize, back: usize| i.checked_sub(back).map_or(0, |i| kinds[i]);
    let mark = |i: usize| (mix(mix(kind(i, 2), kind(i, 1)), kind(i, 0)) >> 32).is_multiple_of(OPS_PER_MARK);
    (0..kinds.len()).map(mark).collect()
}

fn cut_at_marks(marks: &[bool], range: Range<usize>, sizes: Sizes, runs: &mut Vec<Range<usize>>) {
    let mut start = range.start;
    for i in range.clone() {
        let len = i + 1 - start;
        if (marks[i] && len >= sizes.least && range.end - i > sizes.run) || len == sizes.most {
            runs.push(start..i + 1);
            start = i + 1;
        }
    }
    if start < range.end {
        runs.push(start..range.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(runs: &[Range<usize>], len: usize) -> bool {
        let ends = runs.iter().map(|r| r.end);
        runs.iter().map(|r| r.start).eq([0].into_iter().chain(ends).take(runs.len()))
            && runs.last().is_some_and(|r| r.end == len)
    }

    fn ops(range: Range<u64>) -> Vec<u64> {
        range.map(|i| mix(7, i)).collect()
    }

    #[test]
    fn changing_ops_become_a_piece_of_their_own() {
        let mut known = Known::default();
        let program = |n: u64| [ops(0..300), ops(1000 * n..1000 * n + 3), ops(400..700)].concat();
        for n in 1..10 {
            let program = program(n);
            let before = known.runs.clone();
            let runs = known.divide(&program, &marks(&program));
            assert!(covers(&runs, program.len()), "{runs:?}");
            let new: usize =
                runs.iter().filter(|r| !before.contains(&program[(*r).clone()].to_vec())).map(Range::len).sum();
            match n {
                1 => assert_eq!(new, 603),
                2 => assert!(new <= 2 * SIZES.most, "{new}"),
                _ => assert_eq!(new, 3, "program {n}: {runs:?}"),
            }
        }
    }

    #[test]
    fn equal_layers_are_equal_pieces() {
        let layer = ops(0..90);
        let program = [ops(200..250), layer.repeat(12), ops(300..350)].concat();
        let runs = Known::default().divide(&program, &marks(&program));
        assert!(covers(&runs, program.len()));
        let mut different: Vec<&[u64]> = runs.iter().map(|r| &program[r.clone()]).collect();
        different.sort_unstable();
        different.dedup();
        assert!(different.len() < runs.len() / 2, "{} of {}", different.len(), runs.len());
    }

    #[test]
    fn missing_and_repeated_ops_keep_the_pieces_complete() {
        let mut known = Known::default();
        let whole = ops(0..500);
        known.divide(&whole, &marks(&whole));
        for cut in [0, 1, 17, 250, 499] {
            for program in [
                [&whole[..cut], &whole[cut + 1..]].concat(),
                [&whole[..cut], &whole[cut..=cut], &whole[cut..]].concat(),
                whole[cut..].to_vec(),
            ] {
                assert!(covers(&known.divide(&program, &marks(&program)), program.len()));
            }
        }
    }
}
