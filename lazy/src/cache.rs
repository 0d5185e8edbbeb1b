//! Executables in memory.

use crate::form::{DTYPES, Form};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use torchtpu_pjrt::{Buffer, Executable};
use torchtpu_tensor::Meta;

/// The numbers of the last upload, which are used again while they stay the same.
pub(crate) type PackedNumbers = [Option<(Vec<u8>, Arc<Buffer>)>; DTYPES];

/// An executable and the form that it was compiled from.
pub(crate) struct Compiled {
    pub(crate) form: Form,
    pub(crate) executable: Executable,
    /// See [`lower::Module`](crate::lower::Module).
    pub(crate) pooled: Vec<Meta>,
    /// See [`lower::Module`](crate::lower::Module).
    pub(crate) is_chained: bool,
    /// The ops, for errors of execution.
    pub(crate) summary: Arc<str>,
    pub(crate) numbers: Mutex<PackedNumbers>,
    /// The look-up that used it last.
    used: AtomicU64,
}

impl Compiled {
    pub(crate) fn new(form: Form, executable: Executable, pooled: Vec<Meta>, is_chained: bool) -> Compiled {
        let summary = form.summary().into();
        Compiled { form, executable, pooled, is_chained, summary, numbers: Mutex::default(), used: AtomicU64::new(0) }
    }
}

#[derive(Default)]
struct Map {
    by_hash: FxHashMap<u64, Vec<Arc<Compiled>>>,
    count: usize,
    ops: usize,
}

impl Map {
    /// Drop the least recently used entries, until a quarter of the executables and a quarter of their ops are dropped.
    fn shrink(&mut self) {
        let (count_after, ops_after) = (self.count / 4 * 3, self.ops / 4 * 3);
        let mut all: Vec<(u64, usize)> =
            self.by_hash.values().flatten().map(|c| (c.used.load(Relaxed), c.form.nodes.len())).collect();
        all.sort_unstable();
        let mut oldest = None;
        for (used, ops) in all {
            if (self.count <= count_after && self.ops <= ops_after) || self.count <= MIN_EXECUTABLES {
                break;
            }
            self.count -= 1;
            self.ops -= ops;
            oldest = Some(used);
        }
        let Some(oldest) = oldest else { return };
        self.by_hash.values_mut().for_each(|l| l.retain(|c| c.used.load(Relaxed) > oldest));
        self.by_hash.retain(|_, l| !l.is_empty());
    }
}

/// Executables by the hash of their form. The hash only finds candidates. A hit compares the form itself.
#[derive(Default)]
pub(crate) struct ProcessCache {
    map: RwLock<Map>,
    clock: AtomicU64,
}

/// Number of executables above which the least recently used quarter is dropped.
const MAX_EXECUTABLES: usize = 4096;
/// Number of ops in all executables above which the memory maps of the process are counted. XLA:CPU makes one or two
/// maps per op, and LLVM ends the process if none is left.
const MANY_OPS: usize = 1 << 13;
/// Number of executables that are kept even if maps are scarce: those of one training step.
const MIN_EXECUTABLES: usize = 16;

/// Return whether the process uses more than half of the memory maps that the system allows.
fn maps_are_scarce() -> bool {
    let taken = || std::fs::read("/proc/self/maps").map(|text| text.iter().filter(|&&c| c == b'\n').count());
    let allowed =
        std::fs::read_to_string("/proc/sys/vm/max_map_count").ok().and_then(|n| n.trim().parse::<usize>().ok());
    allowed.is_some_and(|n| taken().is_ok_and(|taken| taken > n / 2))
}

impl ProcessCache {
    pub(crate) fn get(&self, hash: u64, form: &Form) -> Option<Arc<Compiled>> {
        let map = self.map.read();
        let found = map.by_hash.get(&hash)?.iter().find(|c| c.form == *form)?;
        found.used.store(self.clock.fetch_add(1, Relaxed), Relaxed);
        Some(found.clone())
    }

    /// Add an executable, unless another thread has added an equal one. Return the one that stays.
    pub(crate) fn insert(&self, hash: u64, compiled: Arc<Compiled>) -> Arc<Compiled> {
        let mut map = self.map.write();
        compiled.used.store(self.clock.fetch_add(1, Relaxed), Relaxed);
        let list = map.by_hash.entry(hash).or_default();
        if let Some(same) = list.iter().find(|c| c.form == compiled.form) {
            return same.clone();
        }
        list.push(compiled.clone());
        map.count += 1;
        map.ops += compiled.form.nodes.len();
        if map.count > MAX_EXECUTABLES || (map.ops > MANY_OPS && maps_are_scarce()) {
            map.shrink();
        }
        compiled
    }

    pub(crate) fn len(&self) -> usize {
        self.map.read().count
    }

    pub(crate) fn clear(&self) {
        *self.map.write() = Map::default();
    }

    /// Return the most recently used executables, up to `n`.
    pub(crate) fn recent(&self, n: usize) -> Vec<Arc<Compiled>> {
        let mut all: Vec<_> = self.map.read().by_hash.values().flatten().cloned().collect();
        all.sort_by_key(|c| std::cmp::Reverse(c.used.load(Relaxed)));
        all.truncate(n);
        all
    }
}
