//! Programs that are computed op by op, instead of being compiled.
//!
//! XLA:CPU may take seconds to compile a program that runs in milliseconds, and a program whose sizes change at every
//! step is compiled at every step. XLA:CPU works in host memory, so the kernels of device `cpu` can compute the same
//! ops. Therefore a program that comes for the first time is *interpreted*: its ops run one after the other on those
//! kernels. A program that comes again is compiled, since loops repeat.
//!
//! The decision depends on the number of times that the program came, and on the number of recent programs that were
//! interpreted. It never depends on time or on files, so a script gives the same results at each run, to the last bit.
//! Within a process, runs of one program may differ by rounding, because kernels compute the first run and the compiled
//! program the later ones. With `torch.use_deterministic_algorithms(True)` all programs are compiled.
//!
//! Some programs are always interpreted, because a launch takes longer than they do: programs of a few ops on small
//! values, and programs of one op in Strict and Debug mode, which have nothing to fuse.

use crate::form::Form;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

const VARIABLE: &str = "TORCHTPU_INTERPRET";
/// Number of times that a program must come to be compiled.
const COMPILED_AT: u32 = 2;
/// The same number, while programs keep changing. Then few of the programs that come twice come often enough to be
/// worth compiling. Examples are a second prompt of the same length, or another epoch of batches of all lengths.
const COMPILED_AT_WHILE_CHANGING: u32 = 8;
/// Number of the last 64 programs that were interpreted from which programs count as changing. The first steps of a
/// training loop have fewer programs.
const CHANGING: u32 = 48;
/// Number of programs above which all are forgotten.
const MAX_KNOWN: usize = 1 << 16;
/// Greatest number of ops, and of bytes of all values, of a program that is faster on kernels than launched: 3 to 14 us
/// instead of 28 to 40 us with a thousand elements per value, on two cores.
const LIGHT_OPS: usize = 16;
const LIGHT_BYTES: usize = 1 << 20;
/// A program with a larger value than this is compiled: the compiler may fuse ops so that the value never exists.
const MOST_BYTES: usize = 1 << 30;
/// Count of a program that kernels cannot compute.
const NEVER: u32 = u32::MAX;

/// Selects the programs that are computed op by op, on a device that computes in host memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u8)]
pub enum Interpret {
    /// None.
    Never,
    /// New ones, and all that are faster so.
    #[default]
    New,
    /// All that kernels can compute: to test that kernels and programs have equal results.
    Always,
}

/// Chooses the programs that are interpreted. See the documentation of this file.
pub(crate) struct Interpreter {
    /// An [`Interpret`].
    wanted: AtomicU8,
    /// Whether the device computes in the host's memory.
    possible: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Number of times that each program came.
    seen: FxHashMap<u64, u32>,
    /// One bit for each of the last programs: whether it was interpreted.
    last: u64,
}

impl Interpreter {
    pub(crate) fn from_environment() -> Interpreter {
        let wanted = match std::env::var(VARIABLE).as_deref().map(str::trim) {
            Ok("0") => Interpret::Never,
            Ok("always") => Interpret::Always,
            _ => Interpret::New,
        };
        Interpreter { wanted: AtomicU8::new(wanted as u8), possible: AtomicBool::new(false), known: Mutex::default() }
    }

    pub(crate) fn set(&self, wanted: Interpret) {
        self.wanted.store(wanted as u8, Relaxed);
        self.clear();
    }

    pub(crate) fn set_possible(&self, possible: bool) {
        self.possible.store(possible, Relaxed);
    }

    /// Return whether programs may be interpreted. With deterministic algorithms they are not: the first run of a
    /// program could round differently from later ones, and a training that runs twice in a process must give the same
    /// numbers, to the last bit.
    pub(crate) fn is_on(&self) -> bool {
        let wanted = self.wanted.load(Relaxed);
        let is_repeatable = wanted == Interpret::Always as u8 || !torchtpu_tensor::state::is_deterministic();
        self.possible.load(Relaxed) && wanted != Interpret::Never as u8 && is_repeatable
    }

    /// Return whether a program is interpreted however often it comes.
    pub(crate) fn always_interprets(&self, hash: u64, form: &Form, is_one_op: bool) -> bool {
        let is_wanted = match self.wanted.load(Relaxed) == Interpret::Always as u8 {
            true => true,
            false => (is_one_op || is_light(form)) && form.nodes.iter().all(|n| n.op.has_kernel() || n.op.is_view()),
        };
        is_wanted && self.known.lock().seen.get(&hash) != Some(&NEVER)
    }

    /// Record a program that has no executable. Return whether to interpret it.
    pub(crate) fn should_interpret(&self, hash: u64, form: &Form) -> bool {
        if is_heavy(form) {
            return false;
        }
        self.count_run(hash)
    }

    fn count_run(&self, hash: u64) -> bool {
        let mut known = self.known.lock();
        if known.seen.len() >= MAX_KNOWN && !known.seen.contains_key(&hash) {
            known.seen.clear();
        }
        let limit = if known.last.count_ones() >= CHANGING { COMPILED_AT_WHILE_CHANGING } else { COMPILED_AT };
        let seen = known.seen.entry(hash).or_default();
        *seen = seen.saturating_add(1);
        let takes = *seen < limit;
        known.last = known.last << 1 | u64::from(takes);
        takes
    }

    /// Record a program that has an executable.
    pub(crate) fn record_compiled(&self) {
        self.known.lock().last <<= 1;
    }

    /// Record a program that kernels cannot compute.
    pub(crate) fn record_refused(&self, hash: u64) {
        self.known.lock().seen.insert(hash, NEVER);
    }

    pub(crate) fn clear(&self) {
        *self.known.lock() = Known::default();
    }
}

fn is_light(form: &Form) -> bool {
    let bytes = || form.values.iter().map(|v| v.bytes().unwrap_or(usize::MAX)).fold(0, usize::saturating_add);
    form.nodes.len() <= LIGHT_OPS && bytes() <= LIGHT_BYTES
}

fn is_heavy(form: &Form) -> bool {
    let is_large = |v: usize| form.values[v].bytes().is_none_or(|b| b > MOST_BYTES);
    (0..form.nodes.len()).any(|n| !form.nodes[n].op.is_view() && form.values_of(n).any(is_large))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_compiled_when_it_comes_again() {
        let i = Interpreter::from_environment();
        assert!(i.count_run(1) && i.count_run(2));
        assert!(!i.count_run(1) && !i.count_run(1) && !i.count_run(2));
        i.clear();
        assert!(i.count_run(1));
        i.record_refused(3);
        assert!(!i.count_run(3));
    }

    #[test]
    fn changing_programs_must_come_more_often() {
        let i = Interpreter::from_environment();
        assert!((0..100).all(|n| i.count_run(n)));
        for n in 90..93 {
            assert_eq!((2..9).take_while(|_| i.count_run(n)).count(), 6, "program {n}");
        }
        (0..64).for_each(|_| i.record_compiled());
        assert!(!i.count_run(99), "compiled programs have run since");
    }
}
