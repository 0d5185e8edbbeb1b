//! Memory of dropped results, kept for later results.
//!
//! XLA:CPU takes the memory of each result from `malloc`, and glibc returns large pieces to the system when they are
//! freed. So each step of a training loop would fault in the same megabytes again. Therefore the buffer of a large
//! result goes to the pool when no handle names the result any more. The next result of its type is computed into this
//! buffer, as a donated argument that the program does not read.
//!
//! The pool never holds more bytes than live values held at their peak, nor more than [`MAX_POOLED_BYTES`]. If it has
//! no buffer that fits, it first shrinks until live values and pool together take no more than the peak of live values.
//! A buffer that no launch has asked for in [`MAX_AGE`] launches returns to the system.

use crate::device::Device;
use crate::form::is_large;
use crate::metrics::{self, COUNTERS, count};
use crate::types;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::OnceLock;
use torchtpu_pjrt::{Buffer, Code, Result};
use torchtpu_tensor::Meta;

const MAX_POOLED_BYTES: usize = 2 << 30;
/// In launches that take memory from the pool: several steps.
const MAX_AGE: u64 = 1024;

/// The buffers of dropped results.
#[derive(Default)]
pub(crate) struct MemoryPool(Mutex<Pooled>);

/// Return the pool of this process.
pub(crate) fn shared() -> &'static MemoryPool {
    static POOL: OnceLock<MemoryPool> = OnceLock::new();
    POOL.get_or_init(MemoryPool::default)
}

#[derive(Default)]
struct Pooled {
    /// A stack: the last buffer in is the first out, so that unused ones grow old.
    buffers: FxHashMap<Meta, Vec<Idle>>,
    bytes: usize,
    /// The peak of bytes that live values held.
    highest: usize,
    /// Number of launches that took memory.
    clock: u64,
}

struct Idle {
    buffer: Buffer,
    since: u64,
}

impl MemoryPool {
    /// Take memory for results of these types, for one launch.
    pub(crate) fn take(&self, device: &Device, types: &[Meta]) -> Result<Vec<Buffer>> {
        if types.is_empty() {
            return Ok(Vec::new());
        }
        let mut found: SmallVec<[Option<Buffer>; 16]> = SmallVec::with_capacity(types.len());
        let mut too_many = Vec::new();
        {
            let mut pool = self.0.lock();
            pool.clock += 1;
            if pool.clock.is_multiple_of(MAX_AGE / 4) {
                pool.drop_old(&mut too_many);
            }
            let mut new_bytes = 0;
            for meta in types {
                let buffer = pool.pop(meta);
                if buffer.is_none() {
                    new_bytes += bytes_of(meta);
                }
                found.push(buffer);
            }
            if new_bytes > 0 {
                let live = metrics::live_bytes() + new_bytes;
                let rest = pool.highest.saturating_sub(live);
                pool.shrink(rest, &mut too_many);
            }
        }
        drop(too_many);
        let new = |meta: &Meta| {
            let dims = types::dimensions(meta);
            let make = || device.client.uninitialized_buffer(types::element_type(meta.dtype), &dims);
            match make() {
                Err(e) if e.code() == Code::ResourceExhausted => {
                    self.clear();
                    make()
                }
                made => made,
            }
        };
        found.into_iter().zip(types).map(|(buffer, meta)| buffer.map_or_else(|| new(meta), Ok)).collect()
    }

    /// Keep the buffer of a dropped value, unless it was donated.
    pub(crate) fn keep(&self, meta: &Meta, buffer: Buffer) {
        let bytes = bytes_of(meta);
        if !is_large(meta) || buffer.is_deleted().unwrap_or(true) {
            return;
        }
        let mut too_many = Vec::new();
        let mut pool = self.0.lock();
        // The value was alive until now.
        pool.highest = pool.highest.max(metrics::live_bytes() + bytes);
        let since = pool.clock;
        pool.bytes += bytes;
        pool.buffers.entry(*meta).or_default().push(Idle { buffer, since });
        let limit = pool.highest.min(MAX_POOLED_BYTES);
        pool.shrink(limit, &mut too_many);
        drop(pool);
        drop(too_many);
    }

    /// Return all buffers to the system.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.0.lock());
        drop(all);
    }

    /// Return the bytes of the buffers in the pool.
    pub(crate) fn bytes(&self) -> usize {
        self.0.lock().bytes
    }
}

impl Pooled {
    fn pop(&mut self, meta: &Meta) -> Option<Buffer> {
        let idle = self.buffers.get_mut(meta)?.pop()?;
        self.bytes -= bytes_of(meta);
        count(&COUNTERS.pool_hits, 1);
        Some(idle.buffer)
    }

    /// Move the oldest buffers above a limit to `out`.
    fn shrink(&mut self, limit: usize, out: &mut Vec<Buffer>) {
        while self.bytes > limit {
            let oldest =
                self.buffers.iter().filter_map(|(m, list)| Some((list.first()?.since, *m))).min_by_key(|o| o.0);
            let Some((_, meta)) = oldest else { return };
            if let Some(list) = self.buffers.get_mut(&meta) {
                out.push(list.remove(0).buffer);
                self.bytes -= bytes_of(&meta);
            }
        }
    }

    fn drop_old(&mut self, out: &mut Vec<Buffer>) {
        let Pooled { buffers, bytes, clock, .. } = self;
        buffers.retain(|meta, list| {
            let old = list.partition_point(|idle| idle.since + MAX_AGE < *clock);
            *bytes -= old * bytes_of(meta);
            out.extend(list.drain(..old).map(|idle| idle.buffer));
            !list.is_empty()
        });
    }
}

fn bytes_of(meta: &Meta) -> usize {
    meta.bytes().unwrap_or(0)
}
