//! Executables in memory.

use crate::form::{DTYPES, Form};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use torchtpu_pjrt::{Buffer, Executable};
use torchtpu_tensor::Meta;

/// Numbers as they were last uploaded, to be used again while they stay the same.
pub(crate) type PackedNumbers = [Option<(Vec<u8>, Arc<Buffer>)>; DTYPES];

/// An executable and the form that it was compiled from.
pub(crate) struct Compiled {
    pub(crate) form: Form,
    pub(crate) executable: Executable,
    /// See [`lower::Module`](crate::lower::Module).
    pub(crate) pooled: Vec<Meta>,
    /// The ops, for errors of execution.
    pub(crate) summary: Arc<str>,
    pub(crate) numbers: Mutex<PackedNumbers>,
    /// When it was last used, in look-ups.
    used: AtomicU64,
}

impl Compiled {
    pub(crate) fn new(form: Form, executable: Executable, pooled: Vec<Meta>) -> Compiled {
        let summary = form.summary().into();
        Compiled { form, executable, pooled, summary, numbers: Mutex::default(), used: AtomicU64::new(0) }
    }
}

/// Executables by the hash of their form. The hash only finds candidates: a hit compares the form itself.
#[derive(Default)]
pub(crate) struct ProcessCache {
    map: RwLock<FxHashMap<u64, Vec<Arc<Compiled>>>>,
    clock: AtomicU64,
}

/// Beyond so many executables, the quarter not used for longest is dropped.
const MAX_EXECUTABLES: usize = 4096;

impl ProcessCache {
    pub(crate) fn get(&self, hash: u64, form: &Form) -> Option<Arc<Compiled>> {
        let map = self.map.read();
        let found = map.get(&hash)?.iter().find(|c| c.form == *form)?;
        found.used.store(self.clock.fetch_add(1, Relaxed), Relaxed);
        Some(found.clone())
    }

    /// Adds an executable, unless another thread has added an equal one meanwhile; returns the one that stays.
    pub(crate) fn insert(&self, hash: u64, compiled: Compiled) -> Arc<Compiled> {
        let mut map = self.map.write();
        compiled.used.store(self.clock.fetch_add(1, Relaxed), Relaxed);
        let list = map.entry(hash).or_default();
        if let Some(same) = list.iter().find(|c| c.form == compiled.form) {
            return same.clone();
        }
        let compiled = Arc::new(compiled);
        list.push(compiled.clone());
        if map.values().map(Vec::len).sum::<usize>() > MAX_EXECUTABLES {
            let mut times: Vec<u64> = map.values().flatten().map(|c| c.used.load(Relaxed)).collect();
            times.sort_unstable();
            let oldest = times[MAX_EXECUTABLES / 4];
            map.values_mut().for_each(|l| l.retain(|c| c.used.load(Relaxed) > oldest));
            map.retain(|_, l| !l.is_empty());
        }
        compiled
    }

    pub(crate) fn len(&self) -> usize {
        self.map.read().values().map(Vec::len).sum()
    }

    pub(crate) fn clear(&self) {
        self.map.write().clear();
    }

    /// The executables compiled or used last, up to `n`.
    pub(crate) fn recent(&self, n: usize) -> Vec<Arc<Compiled>> {
        let mut all: Vec<_> = self.map.read().values().flatten().cloned().collect();
        all.sort_by_key(|c| std::cmp::Reverse(c.used.load(Relaxed)));
        all.truncate(n);
        all
    }
}
