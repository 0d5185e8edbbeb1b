//! Programs that are computed op by op, instead of being compiled.
//!
//! XLA:CPU takes seconds to compile what its processor computes in milliseconds, and a program whose sizes change at
//! every step is compiled at every step. Its memory is the host's, though, where the kernels of device `cpu` compute
//! the same ops. So a program that comes for the first time is *interpreted*: its ops run one after the other on those
//! kernels. One that comes again is compiled, since loops repeat.
//!
//! How often a program has come decides, and how many of the last programs were interpreted; never time, and never what
//! is on disk. So a script gives the same results, to the last bit, at each run. Within a process they may differ by
//! rounding: the first run of a program is the kernels', later ones are the compiler's.
//! `torch.use_deterministic_algorithms(True)` leaves all to the compiler.
//!
//! Some programs are interpreted however often they come, because a launch takes longer than they do: those of a few
//! ops on small values, and those of one op in Strict and Debug mode, where there is nothing to fuse.

use crate::form::Form;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

const VARIABLE: &str = "TORCHTPU_INTERPRET";
/// A program is compiled when it comes this often.
const COMPILED_AT: u32 = 2;
/// The same, while programs keep changing. Few of the programs that come twice then come often enough to be worth
/// compiling. Examples are a second prompt of the same length, or another epoch of batches of all lengths.
const COMPILED_AT_WHILE_CHANGING: u32 = 8;
/// Programs keep changing while so many of the last 64 were interpreted. The first steps of a training loop are fewer
/// programs.
const CHANGING: u32 = 48;
/// Beyond so many programs, all are forgotten.
const MAX_KNOWN: usize = 1 << 16;
/// A program of so few ops, on values that all together take so few bytes, is faster on kernels than launched: 3 to 14
/// us instead of 28 to 40 us with a thousand elements a value, on two cores.
const LIGHT_OPS: usize = 16;
const LIGHT_BYTES: usize = 1 << 20;
/// A program with a larger value than this is compiled: the compiler may fuse ops so that the value never exists.
const MOST_BYTES: usize = 1 << 30;
/// How often a program came that kernels cannot compute.
const NEVER: u32 = u32::MAX;

/// Which programs are computed op by op, on a device that computes in the host's memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u8)]
pub enum Interpret {
    /// None.
    Never,
    /// New ones, and all that are faster so.
    #[default]
    New,
    /// All that kernels can compute: to test that they give what programs give.
    Always,
}

/// Decides what is interpreted. See the module's documentation.
pub(crate) struct Interpreter {
    /// An [`Interpret`].
    wanted: AtomicU8,
    /// Whether the device computes in the host's memory.
    possible: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// How often each program has come.
    seen: FxHashMap<u64, u32>,
    /// Which of the last programs were interpreted, a bit each.
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

    /// Whether any program is interpreted. Not where deterministic algorithms are asked for: there a training that is
    /// run twice in a process gives the same numbers, to the last bit, and the first run of a program may round
    /// otherwise than later ones.
    pub(crate) fn is_on(&self) -> bool {
        let wanted = self.wanted.load(Relaxed);
        let is_repeatable = wanted == Interpret::Always as u8 || !torchtpu_tensor::state::is_deterministic();
        self.possible.load(Relaxed) && wanted != Interpret::Never as u8 && is_repeatable
    }

    /// Whether a program is interpreted however often it comes.
    pub(crate) fn always_takes(&self, hash: u64, form: &Form, is_one_op: bool) -> bool {
        let is_wanted = match self.wanted.load(Relaxed) == Interpret::Always as u8 {
            true => true,
            false => (is_one_op || is_light(form)) && form.nodes.iter().all(|n| n.op.has_kernel() || n.op.is_view()),
        };
        is_wanted && self.known.lock().seen.get(&hash) != Some(&NEVER)
    }

    /// Takes note of a program that has no executable; says whether to interpret it.
    pub(crate) fn takes(&self, hash: u64, form: &Form) -> bool {
        if is_heavy(form) {
            return false;
        }
        self.hears(hash)
    }

    fn hears(&self, hash: u64) -> bool {
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

    /// Takes note of a program that has an executable.
    pub(crate) fn passes(&self) {
        self.known.lock().last <<= 1;
    }

    /// Takes note of a program that kernels cannot compute.
    pub(crate) fn refuses(&self, hash: u64) {
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
        assert!(i.hears(1) && i.hears(2));
        assert!(!i.hears(1) && !i.hears(1) && !i.hears(2));
        i.clear();
        assert!(i.hears(1));
        i.refuses(3);
        assert!(!i.hears(3));
    }

    #[test]
    fn where_programs_keep_changing_one_must_come_more_often() {
        let i = Interpreter::from_environment();
        assert!((0..100).all(|n| i.hears(n)));
        for n in 90..93 {
            assert_eq!((2..9).take_while(|_| i.hears(n)).count(), 6, "program {n}");
        }
        (0..64).for_each(|_| i.passes());
        assert!(!i.hears(99), "compiled programs have come meanwhile");
    }
}
