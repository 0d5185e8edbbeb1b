//! Programs of which only a part is new.
//!
//! A detection loss over another number of boxes, a sequence that grows beside a model, a branch taken on a random
//! number: each step is another program, of which all but a few ops have been compiled before. So where new programs
//! keep coming, they are computed in pieces, runs of ops that are programs of their own. A program is divided first
//! where its ops say so, so that equal layers are equal pieces; a later one into the runs that are known, and what is
//! left into what it shares with one of them and what is new. What changes soon stands alone, and only that is
//! compiled.
//!
//! Pieces fuse less than the whole, so a program that comes again and again is compiled as a whole after all. And every
//! training loop begins with new programs; what counts is how many of the last steps had a new program made mostly of
//! ops that earlier ones had too.

use crate::cache::Compiled;
use crate::form::{Form, Source, hash_meta, hash_op, mix};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Smaller programs are compiled faster than they are divided.
pub(crate) const LARGE: usize = 64;
/// Of the last so many steps ...
const LAST: u32 = 8;
/// ... so many that varied make the next new program run in pieces. First steps of ordinary training vary once or
/// twice.
const VARIED: u32 = 3;
/// A program that has come so often in pieces is compiled as a whole. That takes as long as some dozens of its runs
/// gain by it.
const OFTEN: u32 = 32;
/// So often it has come when that is used.
const OFTEN_COMPILED: u32 = 64;
/// After so many other programs, a whole that was not used makes room for another.
const FORGOTTEN: u32 = 1024;
/// How often a program came that cannot be compiled as a whole.
const NEVER: u32 = u32::MAX;
/// How large pieces are, in ops.
#[derive(Clone, Copy)]
struct Sizes {
    /// Programs smaller than this are not divided.
    program: usize,
    /// Runs are no shorter than this, unless what changes stands between them.
    run: usize,
    /// What no known run divides is cut into pieces of at least and at most so many.
    least: usize,
    most: usize,
}
const SIZES: Sizes = Sizes { program: LARGE, run: 6, least: 32, most: 128 };
/// For what is new in a program of which runs are known: it may come again elsewhere, with other things new beside it.
const FINE: Sizes = Sizes { least: 8, most: 32, ..SIZES };
/// With [`Divide::Always`]: as many cuts as there can be.
const SMALL: Sizes = Sizes { program: 2, run: 2, least: 1, most: 5 };
/// See [`marks`].
const MARKS: u64 = 8;
/// Beyond so many ops in known runs, or so many programs, all are forgotten.
const MAX_KNOWN: usize = 1 << 17;

/// Which programs are computed in pieces.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Divide {
    /// None.
    Never,
    /// Large new ones, where new ones keep coming.
    #[default]
    Changing,
    /// All, in small pieces: to test that this changes no result.
    Always,
}

/// The executable of a whole program, once it has been compiled; `None` if that failed.
pub(crate) type Whole = Arc<OnceLock<Option<Arc<Compiled>>>>;

/// How a program that has no executable is computed.
pub(crate) enum Plan {
    Pieces {
        /// Nodes of each piece, in order; nodes that nothing depends on are left out.
        pieces: Vec<Vec<usize>>,
        /// Where the whole is to be put, if it is worth compiling meanwhile.
        compile: Option<Whole>,
    },
    /// As a whole after all, as soon as it is compiled.
    Whole(Whole),
}

/// A whole that is being compiled or waits to be used.
struct Pending {
    hash: u64,
    whole: Whole,
    /// Programs that were divided since.
    age: u32,
}

/// The runs of ops that were computed as pieces.
#[derive(Default)]
pub(crate) struct Pieces(Mutex<Known>);

#[derive(Default)]
struct Known {
    divide: Divide,
    /// Runs by their first op, and by their last.
    by_first: FxHashMap<u64, Vec<usize>>,
    by_last: FxHashMap<u64, Vec<usize>>,
    runs: Vec<Vec<u64>>,
    ops: usize,
    /// How often each program has come in pieces.
    seen: FxHashMap<u64, u32>,
    /// One at a time, since the rest of the program wants the processor too.
    pending: Option<Pending>,
    /// Ops of all large programs.
    programs: FxHashSet<u64>,
    /// Which of the last steps varied, a bit each, and whether the present one does.
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

    /// Hears that a program is used as a whole. Should its executable be dropped, it has to come often again.
    pub(crate) fn is_whole(&self, hash: u64) {
        self.0.lock().seen.insert(hash, 0);
    }

    /// Hears of a program that has an executable.
    pub(crate) fn heard_again(&self, form: &Form, ends_step: bool) {
        if form.nodes.len() >= LARGE {
            self.0.lock().took_place(false, ends_step);
        }
    }

    /// Hears of a program that has none. How it is divided, if it should be.
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
        let is_one_of_many = varies && (known.steps & ((1 << LAST) - 1)).count_ones() >= VARIED;
        known.took_place(varies, ends_step);
        match known.divide {
            Divide::Always => {}
            Divide::Changing if is_one_of_many => {}
            Divide::Changing | Divide::Never => return None,
        }
        let compile = match known.whole(hash) {
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

/// Hash of an op, but for its offsets, and of what it reads and computes, but not of where that comes from.
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
    /// What is to be done about the whole of a program that comes once more. Counts alone decide, not how far the
    /// compiler has got: the same program gives the same results, to the last bit, at each run.
    fn whole(&mut self, hash: u64) -> Option<Step> {
        let seen = self.seen.entry(hash).or_default();
        *seen = seen.saturating_add(1);
        if let Some(pending) = &mut self.pending {
            pending.age += 1;
            if pending.hash == hash && *seen >= OFTEN_COMPILED {
                *seen = NEVER;
                return self.pending.take().map(|p| Step::Use(p.whole));
            }
            if pending.age < FORGOTTEN {
                return None;
            }
        }
        if !(OFTEN..NEVER).contains(seen) {
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

    fn took_place(&mut self, varied: bool, ends_step: bool) {
        self.step |= varied;
        if ends_step {
            self.steps = self.steps << 1 | u64::from(std::mem::take(&mut self.step));
        }
    }

    /// Divides a program into runs, which are known from then on.
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

    /// Length of the longest known run with which `ops` begin.
    fn longest(&self, ops: &[u64]) -> Option<usize> {
        let runs = self.by_first.get(&ops[0])?.iter().map(|&r| &self.runs[r]);
        runs.filter(|r| ops.starts_with(r)).map(Vec::len).max()
    }

    /// Divides ops that no known run begins with: off goes what they share with the start of one and with the end of
    /// one.
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

/// Where programs are cut that no known run divides: at an op that, with the two before it, is one in so many. Shapes
/// do not matter, so it is at the same places wherever the same ops come.
fn marks(kinds: &[u64]) -> Vec<bool> {
    let kind = |i: usize, back: usize| i.checked_sub(back).map_or(0, |i| kinds[i]);
    let mark = |i: usize| (mix(mix(kind(i, 2), kind(i, 1)), kind(i, 0)) >> 32).is_multiple_of(MARKS);
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
    fn what_changes_soon_stands_alone() {
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
    fn ops_that_are_left_out_or_come_twice_disturb_nothing_else() {
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
