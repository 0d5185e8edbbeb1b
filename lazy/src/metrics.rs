//! The counters of the engine.

use crate::cut::CutReason;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts since the start or the last [`reset_metrics`](crate::reset_metrics).
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Metrics {
    /// Programs given to the compiler.
    pub compilations: u64,
    /// Time in the compiler and for making its input.
    pub compile_nanos: u64,
    /// Segments whose executable was in memory.
    pub process_cache_hits: u64,
    /// Executables loaded from disk.
    pub disk_cache_hits: u64,
    /// Executables that were not found on disk.
    pub disk_cache_misses: u64,
    /// Damaged or foreign files found in the disk cache.
    pub disk_cache_rejected: u64,
    /// Executables in memory now.
    pub cached_executables: u64,
    /// Segments launched.
    pub segments_executed: u64,
    /// Segments whose new program was computed op by op.
    pub segments_interpreted: u64,
    /// Segments without outputs, which were dropped.
    pub segments_dropped: u64,
    /// Ops recorded.
    pub nodes_recorded: u64,
    /// Ops in the segments launched.
    pub nodes_executed: u64,
    /// Ops in the segments computed op by op.
    pub nodes_interpreted: u64,
    /// Values copied to the device, also packed numbers.
    pub uploads: u64,
    /// Bytes copied to the device.
    pub upload_bytes: u64,
    /// Values copied to the host.
    pub downloads: u64,
    /// Bytes copied to the host.
    pub download_bytes: u64,
    /// Arguments whose memory was donated.
    pub donations: u64,
    /// Results that were computed into memory from the pool.
    pub pool_hits: u64,
    /// Programs with collectives that all ranks launched as one.
    pub programs_fused: u64,
    /// Programs with collectives that were split, because ranks had different ones.
    pub programs_split: u64,
    /// Places where all ranks cut since programs were split there.
    pub cuts_adopted: u64,
    /// Bytes in the pool now.
    pub pool_bytes: u64,
    /// Cuts by reason. Reasons without cuts are left out.
    pub cuts: Vec<(&'static str, u64)>,
    /// Values that exist now: handles in use.
    pub live_values: u64,
    /// Bytes of values on the device now.
    pub live_bytes: u64,
    /// Peak of bytes of values on the device.
    pub peak_bytes: u64,
}

macro_rules! counters {
    ($($name:ident)*) => {
        pub(crate) struct Counters { $(pub(crate) $name: AtomicU64,)* pub(crate) cuts:
            [AtomicU64; CutReason::ALL.len()] }
        pub(crate) static COUNTERS: Counters =
            Counters { $($name: AtomicU64::new(0),)* cuts: [const { AtomicU64::new(0) }; CutReason::ALL.len()] };
        impl Counters {
            fn reset(&self) {
                $(self.$name.store(0, Relaxed);)*
                self.cuts.iter().for_each(|c| c.store(0, Relaxed));
            }
            fn copy(&self) -> Metrics {
                Metrics { $($name: self.$name.load(Relaxed),)* ..Metrics::default() }
            }
        }
    };
}

// Expands to one atomic per name, and to their reset and copy.
counters! {
    compilations compile_nanos process_cache_hits disk_cache_hits disk_cache_misses disk_cache_rejected
    segments_executed segments_dropped segments_interpreted nodes_executed nodes_interpreted uploads upload_bytes
    downloads download_bytes donations pool_hits programs_fused programs_split cuts_adopted
}

static LIVE_BYTES: AtomicU64 = AtomicU64::new(0);
static PEAK_BYTES: AtomicU64 = AtomicU64::new(0);

#[inline]
pub(crate) fn count(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}

pub(crate) fn add_live_bytes(bytes: usize) {
    let now = LIVE_BYTES.fetch_add(bytes as u64, Relaxed) + bytes as u64;
    if now > PEAK_BYTES.load(Relaxed) {
        PEAK_BYTES.fetch_max(now, Relaxed);
    }
}

pub(crate) fn sub_live_bytes(bytes: usize) {
    LIVE_BYTES.fetch_sub(bytes as u64, Relaxed);
}

pub(crate) fn live_bytes() -> usize {
    LIVE_BYTES.load(Relaxed) as usize
}

/// Return the counters. The engine fills in those of the recording state.
pub(crate) fn snapshot() -> Metrics {
    let mut m = COUNTERS.copy();
    m.cuts = CutReason::ALL
        .iter()
        .map(|&r| (r.name(), COUNTERS.cuts[r as usize].load(Relaxed)))
        .filter(|(_, n)| *n > 0)
        .collect();
    m.live_bytes = LIVE_BYTES.load(Relaxed);
    m.peak_bytes = PEAK_BYTES.load(Relaxed);
    m
}

pub(crate) fn reset() {
    COUNTERS.reset();
    reset_peak();
}

pub(crate) fn reset_peak() {
    PEAK_BYTES.store(LIVE_BYTES.load(Relaxed), Relaxed);
}
