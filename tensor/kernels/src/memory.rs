//! Memory for the elements of `cpu` tensors: 64-byte aligned, uninitialised, cached.
//!
//! Fresh pages from the system cost more than most kernels: a first touch moves 1.5 to 6 GB/s, while memory itself
//! moves 40 GB/s and more. So freed blocks are kept for reuse. There are three tiers, by rounded size:
//!
//! * up to 32 KiB: free lists of the calling thread, without a lock;
//! * up to 1 MiB: free lists of the process, with a lock per class;
//! * above: one list of the process in order of release. It returns the oldest blocks to the system when it holds more
//!   than `TORCHTPU_CPU_CACHE_BYTES` (by default a quarter of the machine's memory). These blocks lie on 2 MiB
//!   boundaries, and the kernel is advised to use huge pages for them.
//!
//! A block may be freed on another thread than the one that allocated it. Rounded sizes are powers of two and the
//! quarters between them (the eighths, for large sizes), so [`free`] finds the class again from the requested size.

use crate::KernelError;
use crate::strided::Address;
use crate::threads::parallel_for;
use std::alloc::{Layout, alloc, dealloc};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// Alignment of every block in bytes: a cache line, and the widest vector.
pub const ALIGNMENT: usize = 64;
const THREAD_MAX: usize = 32 << 10;
const SHARED_MAX: usize = 1 << 20;
const HUGE_PAGE: usize = 2 << 20;
/// Bytes of one class that a thread, or the process, keeps for reuse.
const THREAD_KEEPS_BYTES: usize = 256 << 10;
const SHARED_KEEPS_BYTES: usize = 16 << 20;

/// Counters of the allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryStats {
    /// Bytes allocated and not yet freed, as rounded.
    pub allocated_bytes: usize,
    /// Bytes of big and medium blocks that the process keeps for reuse. Blocks that threads keep are not counted.
    pub cached_bytes: usize,
    /// The maximum of `allocated_bytes` since the start or [`reset_peak`].
    pub peak_bytes: usize,
    /// Number of allocations served from a cache.
    pub hits: usize,
    /// Number of allocations served by the system.
    pub misses: usize,
}

static CACHED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Counters of one thread. Only their owner writes them, so that no op needs a locked instruction. [`stats`] adds them
/// up.
#[derive(Default)]
struct Counters {
    allocated: AtomicUsize,
    hits: AtomicUsize,
    misses: AtomicUsize,
}

static ALL_COUNTERS: Mutex<Vec<std::sync::Arc<Counters>>> = Mutex::new(Vec::new());
/// Sums of the counters of ended threads.
static ENDED: Counters =
    Counters { allocated: AtomicUsize::new(0), hits: AtomicUsize::new(0), misses: AtomicUsize::new(0) };
/// Bytes in blocks above [`THREAD_MAX`]. They are counted at each allocation, so that the peak is exact for them.
static LARGE_ALLOCATED: AtomicUsize = AtomicUsize::new(0);

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that can panic runs under these locks, so a poisoned lock still guards valid data.
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// Round up to a multiple of a quarter (an eighth for large sizes) of the power of two below. Return the rounded size
/// and its class.
#[inline]
fn class_of(bytes: usize) -> (usize, usize) {
    let bytes = bytes.max(ALIGNMENT);
    let log = bytes.ilog2() as usize;
    let sub_log = if bytes > SHARED_MAX { 3 } else { 2 };
    let step = (1usize << log >> sub_log).max(ALIGNMENT);
    let rounded = (bytes + step - 1) & !(step - 1);
    let log = rounded.ilog2() as usize;
    (rounded, (log << 2) | ((rounded >> (log - 2)) & 3))
}

const CLASSES: usize = 21 * 4;

struct ThreadCache {
    free: [Vec<NonNull<u8>>; 16 * 4],
    counters: std::sync::Arc<Counters>,
}

impl ThreadCache {
    fn new() -> ThreadCache {
        let counters = std::sync::Arc::new(Counters::default());
        lock(&ALL_COUNTERS).push(counters.clone());
        ThreadCache { free: [const { Vec::new() }; 64], counters }
    }
    fn clear(&mut self) {
        for (class, list) in self.free.iter_mut().enumerate() {
            for p in list.drain(..) {
                // SAFETY: `system_alloc` made the blocks of this list with the size of their class.
                unsafe { system_free(p, class_size(class)) };
            }
        }
    }
}

impl Drop for ThreadCache {
    fn drop(&mut self) {
        self.clear();
        let mut all = lock(&ALL_COUNTERS);
        all.retain(|c| !std::sync::Arc::ptr_eq(c, &self.counters));
        ENDED.allocated.fetch_add(self.counters.allocated.load(Relaxed), Relaxed);
        ENDED.hits.fetch_add(self.counters.hits.load(Relaxed), Relaxed);
        ENDED.misses.fetch_add(self.counters.misses.load(Relaxed), Relaxed);
    }
}

const fn class_size(class: usize) -> usize {
    let log = class >> 2;
    (1 << log) + ((class & 3) << log >> 2)
}

#[inline]
fn bump(counter: &AtomicUsize, by: usize) {
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}

thread_local! {
    static THREAD: RefCell<ThreadCache> = RefCell::new(ThreadCache::new());
}

struct Block(NonNull<u8>);
// SAFETY: a free block is plain unused memory, which any thread may hand out.
unsafe impl Send for Block {}

static SHARED: [Mutex<Vec<Block>>; CLASSES] = [const { Mutex::new(Vec::new()) }; CLASSES];

/// Big blocks in order of release, oldest first.
static BIG: Mutex<VecDeque<(usize, Block)>> = Mutex::new(VecDeque::new());

fn cache_limit() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        std::env::var("TORCHTPU_CPU_CACHE_BYTES")
            .ok()
            .and_then(|v| v.trim().parse().ok())
            .unwrap_or_else(|| machine_memory("MemTotal:").map_or(1 << 30, |bytes| bytes / 4))
    })
}

/// Return the bytes of all memory, swap space included. A larger block is refused. An allocator that reserves addresses
/// first and memory on the first write would grant it, and the process would then be killed.
fn max_block_bytes() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| {
        let swap = machine_memory("SwapTotal:").unwrap_or(0);
        machine_memory("MemTotal:").map_or(isize::MAX as usize / 2, |bytes| bytes + swap)
    })
}

/// Return an entry of the system's memory list, in bytes.
fn machine_memory(entry: &str) -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|l| l.starts_with(entry))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? << 10)
}

fn layout(rounded: usize) -> Option<Layout> {
    Layout::from_size_align(rounded, if rounded > SHARED_MAX { HUGE_PAGE } else { ALIGNMENT }).ok()
}

fn system_alloc(rounded: usize) -> Option<NonNull<u8>> {
    let layout = layout(rounded)?;
    // SAFETY: the size is not zero.
    let p = NonNull::new(unsafe { alloc(layout) })?;
    if rounded >= HUGE_PAGE {
        advise_huge_pages(p, rounded);
    }
    Some(p)
}

/// # Safety
/// `p` must come from [`system_alloc`] with the same size, and must not be used afterwards.
unsafe fn system_free(p: NonNull<u8>, rounded: usize) {
    if let Some(layout) = layout(rounded) {
        // SAFETY: the caller passes a block of `system_alloc` with its size, so the layout is the block's.
        unsafe { dealloc(p.as_ptr(), layout) };
    }
}

#[cfg(target_os = "linux")]
unsafe extern "C" {
    fn madvise(addr: *mut std::ffi::c_void, length: usize, advice: i32) -> i32;
}

#[cfg(target_os = "linux")]
fn advise_huge_pages(p: NonNull<u8>, bytes: usize) {
    const MADV_HUGEPAGE: i32 = 14;
    // SAFETY: the range is part of our block. The call changes how it is backed, not its contents. A refusal (by a
    // kernel without huge pages) only costs speed.
    unsafe { madvise(p.as_ptr().cast(), bytes & !(HUGE_PAGE - 1), MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise_huge_pages(_: NonNull<u8>, _: usize) {}

/// Ask the system to use huge pages for those that lie within `bytes`, when they are first written. Other allocators
/// take memory in pages of 4 KiB, and first writes to 50 MB then cause 12,000 faults.
pub fn prefer_huge_pages(bytes: &mut [u8]) {
    let whole = bytes.len().saturating_sub(bytes.as_ptr().align_offset(HUGE_PAGE)) & !(HUGE_PAGE - 1);
    if whole > 0 {
        // The offset is less than the length, because a whole page follows it.
        let at = bytes.as_ptr().align_offset(HUGE_PAGE);
        advise_huge_pages(NonNull::from(&mut bytes[at]), whole);
    }
}

/// A zero-filled block outside of the caches. A block that fills a good part of a huge page gets one: packed operands
/// are read at many places at once, and small pages make a product 2 % slower.
pub(crate) struct Zeroed {
    block: Block,
    rounded: usize,
}

impl Zeroed {
    /// # Panics
    /// Panics if the system has no memory; see [`give_up`].
    pub(crate) fn new(bytes: usize) -> Zeroed {
        let to = if bytes > HUGE_PAGE / 4 { HUGE_PAGE } else { ALIGNMENT };
        let rounded = bytes.max(1).checked_next_multiple_of(to).expect("a size");
        let Some(p) = system_alloc(rounded) else { give_up(rounded) };
        // SAFETY: the block has `rounded` bytes. The zeros follow the advice, because writing them takes the pages.
        unsafe { p.write_bytes(0, rounded) };
        Zeroed { block: Block(p), rounded }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.rounded
    }

    pub(crate) fn ptr(&self) -> *mut u8 {
        self.block.0.as_ptr()
    }
}

impl Drop for Zeroed {
    fn drop(&mut self) {
        // SAFETY: `new` made the block with this size.
        unsafe { system_free(self.block.0, self.rounded) };
    }
}

/// First words of the panic message when no memory is left.
pub const NO_MEMORY: &str = "DefaultCPUAllocator: can't allocate memory: you tried to allocate ";

/// Panic because `bytes` bytes of memory are not available.
///
/// `Vec` aborts the process when it gets no memory. Memory as large as a tensor is therefore allocated by the functions
/// below, which unwind instead and print nothing to stderr. [`or_error`] turns the unwinding into an error, and the
/// binding turns that into an exception.
///
/// # Panics
/// Always panics, with a text that begins with [`NO_MEMORY`].
#[cold]
#[inline(never)]
pub fn give_up(bytes: usize) -> ! {
    std::panic::resume_unwind(Box::new(format!("{NO_MEMORY}{bytes} bytes.")))
}

/// Run `f`, and turn an unwinding of [`give_up`] into an error. Other panics continue.
///
/// # Errors
/// Fails with [`KernelError::OutOfMemory`] if memory ran out.
pub fn or_error<R>(f: impl FnOnce() -> R) -> Result<R, KernelError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).map_err(|payload| match wanted(&*payload) {
        Some(bytes) => KernelError::OutOfMemory { bytes },
        None => std::panic::resume_unwind(payload),
    })
}

/// Return the number of bytes that were not available, if `payload` is a panic of [`give_up`].
pub fn wanted(payload: &(dyn std::any::Any + Send)) -> Option<usize> {
    let text = payload.downcast_ref::<String>()?.strip_prefix(NO_MEMORY)?;
    text.split(' ').next()?.parse().ok()
}

/// Reserve room for `more` elements, or unwind by [`give_up`].
pub fn reserve<T>(v: &mut Vec<T>, more: usize) {
    let bytes = v.len().saturating_add(more).saturating_mul(size_of::<T>());
    // A system may grant addresses without memory; see `max_block_bytes`.
    if bytes > max_block_bytes() || v.try_reserve(more).is_err() {
        give_up(bytes);
    }
}

/// Unwind by [`give_up`] unless `bytes` bytes are available now. Call it before many small allocations, each of which
/// would abort the process if it failed.
pub fn expect_room(bytes: usize) {
    drop(with_capacity::<u8>(bytes));
}

/// Like [`Vec::with_capacity`], but unwind by [`give_up`].
pub fn with_capacity<T>(n: usize) -> Vec<T> {
    let mut v = Vec::new();
    if n.saturating_mul(size_of::<T>()) > max_block_bytes() || v.try_reserve_exact(n).is_err() {
        give_up(n.saturating_mul(size_of::<T>()));
    }
    v
}

/// Like `vec![value; n]`, but unwind by [`give_up`].
pub fn filled<T: Clone>(value: T, n: usize) -> Vec<T> {
    let mut v = with_capacity(n);
    v.resize(n, value);
    v
}

/// Like [`slice::to_vec`], but unwind by [`give_up`].
pub fn copied<T: Copy>(x: &[T]) -> Vec<T> {
    let mut v = with_capacity(x.len());
    v.extend_from_slice(x);
    v
}

/// Like [`Iterator::collect`], but unwind by [`give_up`].
pub fn collect<T>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let items = items.into_iter();
    let (least, most) = items.size_hint();
    let mut v = with_capacity(least);
    if most == Some(least) {
        v.extend(items);
        return v;
    }
    for item in items {
        push(&mut v, item);
    }
    v
}

/// Append an element. Like [`Vec::push`], but unwind by [`give_up`] if the system has no memory.
#[inline]
pub fn push<T>(v: &mut Vec<T>, item: T) {
    if v.len() == v.capacity() {
        reserve(v, 1);
    }
    v.push(item);
}

/// Allocate `bytes` bytes, aligned to [`ALIGNMENT`] and uninitialised. Zero bytes get a block like one byte.
///
/// # Errors
/// Fails with [`KernelError::OutOfMemory`] if the system has no memory, or if the size exceeds all memory of the
/// machine.
#[inline]
pub fn allocate(bytes: usize) -> Result<NonNull<u8>, KernelError> {
    if bytes <= THREAD_MAX {
        let (rounded, class) = class_of(bytes);
        let cached = THREAD.try_with(|t| {
            let t = &mut *t.borrow_mut();
            bump(&t.counters.allocated, rounded);
            let p = t.free[class].pop();
            bump(if p.is_some() { &t.counters.hits } else { &t.counters.misses }, 1);
            p
        });
        if let Ok(Some(p)) = cached {
            return Ok(p);
        }
        let made = system_alloc(rounded);
        if made.is_none() {
            let _ = THREAD.try_with(|t| bump(&t.borrow().counters.allocated, rounded.wrapping_neg()));
        }
        return made.ok_or(KernelError::OutOfMemory { bytes });
    }
    allocate_large(bytes).map(|made| made.0)
}

/// Like [`allocate`], but filled with zeros. The system gives pages of zeros when they are first used, so a large block
/// that comes from the system costs nothing.
///
/// # Errors
/// The errors of [`allocate`].
pub fn allocate_zeroed(bytes: usize) -> Result<NonNull<u8>, KernelError> {
    let (p, is_fresh) = if bytes <= THREAD_MAX { (allocate(bytes)?, false) } else { allocate_large(bytes)? };
    if !(is_fresh && class_of(bytes).0 > SHARED_MAX && drop_pages(p, class_of(bytes).0)) {
        let to = Address::<u8>::of(p.as_ptr());
        parallel_for(bytes, ZEROED_GRAIN, |range| {
            // SAFETY: the range lies within the block, and ranges are disjoint.
            unsafe { to.at(range.start).write_bytes(0, range.len()) };
        });
    }
    Ok(p)
}

/// Number of bytes that a thread fills with zeros.
const ZEROED_GRAIN: usize = 1 << 20;

/// Give the pages of a block back, so that they are zeros when they are used again. Return whether this was done.
#[cfg(target_os = "linux")]
fn drop_pages(p: NonNull<u8>, bytes: usize) -> bool {
    const MADV_DONTNEED: i32 = 4;
    // SAFETY: the range is a block of the caller's, whose contents are not needed. It begins at a page and is made of
    // whole pages, because large blocks lie on 2 MiB boundaries and their sizes are multiples of 128 KiB.
    unsafe { madvise(p.as_ptr().cast(), bytes, MADV_DONTNEED) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn drop_pages(_: NonNull<u8>, _: usize) -> bool {
    false
}

/// Allocate a block above [`THREAD_MAX`]. Return whether it comes from the system, not from the cache.
#[cold]
#[inline(never)]
fn allocate_large(bytes: usize) -> Result<(NonNull<u8>, bool), KernelError> {
    if bytes > max_block_bytes() {
        return Err(KernelError::OutOfMemory { bytes });
    }
    let (rounded, class) = class_of(bytes);
    let cached = if rounded <= SHARED_MAX {
        lock(&SHARED[class]).pop().map(|b| b.0)
    } else {
        let mut big = lock(&BIG);
        // Take the youngest block of the size: it is most likely still in the processor's caches.
        let at = big.iter().rposition(|(size, _)| *size == rounded);
        at.and_then(|i| big.remove(i)).map(|(_, b)| b.0)
    };
    let hit = cached.is_some();
    if hit {
        CACHED.fetch_sub(rounded, Relaxed);
    }
    let p = match cached.or_else(|| system_alloc(rounded)) {
        Some(p) => p,
        // The system may lack the memory that is cached here.
        None => {
            empty_cache();
            system_alloc(rounded).ok_or(KernelError::OutOfMemory { bytes })?
        }
    };
    let counted = &ENDED;
    if hit { &counted.hits } else { &counted.misses }.fetch_add(1, Relaxed);
    let large = LARGE_ALLOCATED.fetch_add(rounded, Relaxed) + rounded;
    PEAK.fetch_max(large, Relaxed);
    Ok((p, !hit))
}

/// Give a block back.
///
/// # Safety
/// `ptr` must come from [`allocate`] with the same `bytes`, and not be used afterwards.
#[inline]
pub unsafe fn free(ptr: NonNull<u8>, bytes: usize) {
    if bytes <= THREAD_MAX {
        let (rounded, class) = class_of(bytes);
        let kept = THREAD.try_with(|t| {
            let t = &mut *t.borrow_mut();
            bump(&t.counters.allocated, rounded.wrapping_neg());
            let list = &mut t.free[class];
            // A thread that only frees blocks of other threads must not hoard them.
            if list.len() * rounded >= THREAD_KEEPS_BYTES {
                return false;
            }
            list.push(ptr);
            true
        });
        if kept != Ok(true) {
            // SAFETY: the caller passes a block of `allocate` with its size, and the block is in no list.
            unsafe { system_free(ptr, rounded) };
        }
        return;
    }
    // SAFETY: the caller passes a block of `allocate` with its size.
    unsafe { free_large(ptr, bytes) };
}

#[cold]
#[inline(never)]
unsafe fn free_large(ptr: NonNull<u8>, bytes: usize) {
    let (rounded, class) = class_of(bytes);
    LARGE_ALLOCATED.fetch_sub(rounded, Relaxed);
    if rounded <= SHARED_MAX {
        let mut list = lock(&SHARED[class]);
        if list.len() * rounded < SHARED_KEEPS_BYTES {
            list.push(Block(ptr));
            CACHED.fetch_add(rounded, Relaxed);
            return;
        }
        drop(list);
        // SAFETY: the caller passes a block of `allocate` with its size, and the block is in no list.
        unsafe { system_free(ptr, rounded) };
        return;
    }
    let mut evicted = Vec::new();
    {
        let mut big = lock(&BIG);
        big.push_back((rounded, Block(ptr)));
        let mut cached = CACHED.fetch_add(rounded, Relaxed) + rounded;
        while cached > cache_limit() {
            let Some((size, block)) = big.pop_front() else { break };
            CACHED.fetch_sub(size, Relaxed);
            cached -= size;
            evicted.push((size, block));
        }
    }
    for (size, block) in evicted {
        // SAFETY: the block was just removed from the cache, so it is not in use.
        unsafe { system_free(block.0, size) };
    }
}

/// Return every block that the process, or this thread, keeps for reuse to the system.
pub fn empty_cache() {
    let _ = THREAD.try_with(|t| t.borrow_mut().clear());
    for (class, list) in SHARED.iter().enumerate() {
        let blocks = std::mem::take(&mut *lock(list));
        CACHED.fetch_sub(blocks.len() * class_size(class), Relaxed);
        for b in blocks {
            // SAFETY: the block was just removed from the cache, so it is not in use.
            unsafe { system_free(b.0, class_size(class)) };
        }
    }
    let blocks = std::mem::take(&mut *lock(&BIG));
    for (size, b) in blocks {
        CACHED.fetch_sub(size, Relaxed);
        // SAFETY: the block was just removed from the cache, so it is not in use.
        unsafe { system_free(b.0, size) };
    }
}

/// Return the counters of the whole process. They are exact while the other threads are idle. `peak_bytes` follows
/// blocks above 32 KiB at each allocation, and smaller ones at each call of this function.
pub fn stats() -> MemoryStats {
    let mut s = MemoryStats {
        allocated_bytes: ENDED.allocated.load(Relaxed).wrapping_add(LARGE_ALLOCATED.load(Relaxed)),
        cached_bytes: CACHED.load(Relaxed),
        peak_bytes: 0,
        hits: ENDED.hits.load(Relaxed),
        misses: ENDED.misses.load(Relaxed),
    };
    for c in lock(&ALL_COUNTERS).iter() {
        s.allocated_bytes = s.allocated_bytes.wrapping_add(c.allocated.load(Relaxed));
        s.hits += c.hits.load(Relaxed);
        s.misses += c.misses.load(Relaxed);
    }
    s.peak_bytes = PEAK.fetch_max(s.allocated_bytes, Relaxed).max(s.allocated_bytes);
    s
}

/// Start a new measurement of `peak_bytes` from the bytes allocated now.
pub fn reset_peak() {
    PEAK.store(LARGE_ALLOCATED.load(Relaxed), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_the_requested_size_and_waste_little() {
        let mut sizes: Vec<usize> = (0..5000).collect();
        sizes.extend((0..400).map(|i| 5000 + i * 7919));
        sizes.extend([SHARED_MAX - 1, SHARED_MAX, SHARED_MAX + 1, 1 << 30, (1 << 30) + 1]);
        for n in sizes {
            let (rounded, class) = class_of(n);
            assert!(rounded >= n && rounded % ALIGNMENT == 0, "{n} -> {rounded}");
            assert!(n < 512 || rounded <= n + n / 4, "{n} -> {rounded}");
            if rounded <= SHARED_MAX {
                assert!(class < CLASSES);
                assert_eq!(class_size(class), rounded, "class of {n}");
            }
        }
    }

    #[test]
    fn blocks_are_aligned_distinct_and_reused() {
        for bytes in [0, 1, 64, 100, 4096, 40_000, 1 << 20, (1 << 20) + 1, 5 << 20] {
            let a = allocate(bytes).unwrap();
            let b = allocate(bytes).unwrap();
            assert_eq!(a.as_ptr() as usize % ALIGNMENT, 0);
            assert!(a.as_ptr().addr().abs_diff(b.as_ptr().addr()) >= bytes.max(1));
            // SAFETY: the blocks are allocated above with at least these sizes.
            unsafe {
                a.as_ptr().write_bytes(1, bytes);
                b.as_ptr().write_bytes(2, bytes);
                free(b, bytes);
                free(a, bytes);
            }
        }
        let a = allocate(300).unwrap();
        // SAFETY: allocated above with the same size.
        unsafe { free(a, 300) };
        let b = allocate(290).unwrap();
        assert_eq!(a, b);
        // SAFETY: allocated above with the same size.
        unsafe { free(b, 290) };
    }

    #[test]
    fn zeroed_blocks_are_zero_also_when_they_are_reused() {
        for bytes in [100, 40_000, 3 << 20, 70 << 20] {
            for _ in 0..2 {
                let p = allocate_zeroed(bytes).unwrap();
                // SAFETY: the block is allocated above with this size.
                unsafe {
                    assert!(std::slice::from_raw_parts(p.as_ptr(), bytes).iter().all(|b| *b == 0), "{bytes}");
                    p.as_ptr().write_bytes(1, bytes);
                    free(p, bytes);
                }
            }
        }
    }

    #[test]
    fn sizes_beyond_all_memory_are_errors() {
        for bytes in [usize::MAX, isize::MAX as usize, 1 << 62, 1 << 55] {
            assert_eq!(allocate(bytes), Err(KernelError::OutOfMemory { bytes }));
        }
    }

    #[test]
    fn memory_is_freed_by_other_threads() {
        let sizes = [16usize, 1000, 30_000, 100_000, 3 << 20];
        std::thread::scope(|s| {
            for seed in 0..4u64 {
                s.spawn(move || {
                    let (tx, rx) = std::sync::mpsc::channel::<(usize, usize, u8)>();
                    let consumer = std::thread::spawn(move || {
                        for (addr, bytes, tag) in rx {
                            let p = NonNull::new(addr as *mut u8).unwrap();
                            // SAFETY: the producer wrote the whole block and does not use it any more.
                            unsafe {
                                assert_eq!(p.as_ptr().read(), tag);
                                assert_eq!(p.as_ptr().add(bytes - 1).read(), tag);
                                free(p, bytes);
                            }
                        }
                    });
                    for i in 0..200u64 {
                        let bytes = sizes[((i * 7 + seed) % 5) as usize];
                        let p = allocate(bytes).unwrap();
                        let tag = (i + 50 * seed) as u8;
                        // SAFETY: the block is allocated above with `bytes` bytes.
                        unsafe { p.as_ptr().write_bytes(tag, bytes) };
                        tx.send((p.as_ptr() as usize, bytes, tag)).unwrap();
                    }
                    drop(tx);
                    consumer.join().unwrap();
                });
            }
        });
        let s = stats();
        assert!(s.hits + s.misses >= 800);
        assert!(s.peak_bytes >= 3 << 20);
        empty_cache();
    }
}
