//! Free blocks: per-thread lists, refilled by carving slabs, and a global pool for lists that grow too long.

use super::PREFIX;
use std::cell::Cell;
use std::ptr::{NonNull, null_mut};
use std::sync::Mutex;
use torchtpu_kernels::memory;

/// Bytes of elements that the blocks of each class have room for.
pub(super) const ROOM: [usize; 5] = [0, 64, 256, 1024, 4096];
/// Block sizes: the headers and the room behind them.
const CLASSES: [usize; 5] = {
    let mut sizes = ROOM;
    let mut class = 0;
    while class < sizes.len() {
        sizes[class] += PREFIX;
        class += 1;
    }
    sizes
};

/// The class of the smallest block with room for some elements, which are at most as many as the largest has room for.
#[inline(always)]
pub(super) const fn class_of(bytes: usize) -> usize {
    1 + (bytes > ROOM[1]) as usize + (bytes > ROOM[2]) as usize + (bytes > ROOM[3]) as usize
}
const SLAB_BYTES: usize = 64 << 10;
/// A thread keeps at most this many free blocks of a class.
const KEEP: u32 = 4096;

struct FreeLists {
    first: [Cell<*mut u8>; CLASSES.len()],
    count: [Cell<u32>; CLASSES.len()],
}

thread_local! {
    static FREE: FreeLists = const {
        FreeLists { first: [const { Cell::new(null_mut()) }; CLASSES.len()],
            count: [const { Cell::new(0) }; CLASSES.len()] }
    };
    /// Initialised when a thread first needs a slab, so that its free blocks return to the pool when the thread ends.
    static RETURN_AT_EXIT: ReturnAtExit = const { ReturnAtExit };
}

struct ReturnAtExit;
impl Drop for ReturnAtExit {
    fn drop(&mut self) {
        let _ = FREE.try_with(|f| (0..CLASSES.len()).for_each(|c| hand_over(f, c)));
    }
}

/// Chains of free blocks that threads gave back.
struct Chain(*mut u8, u32);
// SAFETY: nothing else refers to the memory of a chain.
unsafe impl Send for Chain {}
static POOL: [Mutex<Vec<Chain>>; CLASSES.len()] = [const { Mutex::new(Vec::new()) }; CLASSES.len()];

#[cold]
fn hand_over(f: &FreeLists, class: usize) {
    let chain = Chain(f.first[class].replace(null_mut()), f.count[class].replace(0));
    if chain.1 > 0 {
        POOL[class].lock().unwrap_or_else(|e| e.into_inner()).push(chain);
    }
}

#[inline(always)]
pub(super) fn take_block(class: usize) -> NonNull<u8> {
    FREE.with(|f| match NonNull::new(f.first[class].get()) {
        Some(p) => {
            // SAFETY: a free block's first word is the address of the next one.
            f.first[class].set(unsafe { p.cast::<*mut u8>().read() });
            f.count[class].set(f.count[class].get() - 1);
            p
        }
        None => refill(f, class),
    })
}

#[cold]
#[inline(never)]
fn refill(f: &FreeLists, class: usize) -> NonNull<u8> {
    let _ = RETURN_AT_EXIT.try_with(|_| ());
    if let Some(Chain(first, n)) = POOL[class].lock().unwrap_or_else(|e| e.into_inner()).pop() {
        // SAFETY: a chain has at least one block, whose first word is the address of the next one.
        f.first[class].set(unsafe { *first.cast::<*mut u8>() });
        f.count[class].set(n - 1);
        return NonNull::new(first).expect("a chain is not empty");
    }
    let size = CLASSES[class].next_multiple_of(64);
    let n = SLAB_BYTES / size;
    let layout = std::alloc::Layout::from_size_align(n * size, 64).expect("a constant layout");
    // SAFETY: the layout is not empty. Slabs are never freed: their blocks circulate between the lists.
    let base = unsafe { std::alloc::alloc(layout) };
    if base.is_null() {
        memory::give_up(layout.size());
    }
    for i in 1..n {
        // SAFETY: block `i` lies within the slab.
        let p = unsafe { base.add(i * size) };
        // SAFETY: a free block holds the address of the next one.
        unsafe { p.cast::<*mut u8>().write(f.first[class].get()) };
        f.first[class].set(p);
    }
    f.count[class].set(n as u32 - 1);
    NonNull::new(base).expect("checked above")
}

#[inline(always)]
pub(super) fn put_block(class: usize, p: *mut u8) {
    let done = FREE.try_with(|f| {
        // SAFETY: the block is free, so its first word is unused.
        unsafe { p.cast::<*mut u8>().write(f.first[class].get()) };
        f.first[class].set(p);
        f.count[class].set(f.count[class].get() + 1);
        if f.count[class].get() > KEEP {
            hand_over(f, class);
        }
    });
    if done.is_err() {
        // SAFETY: the block is free, so its first word is unused. The thread is ending and its list is gone.
        unsafe { p.cast::<*mut u8>().write(null_mut()) };
        POOL[class].lock().unwrap_or_else(|e| e.into_inner()).push(Chain(p, 1));
    }
}
