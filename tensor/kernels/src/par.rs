//! What the neural-network kernels need to work on several threads: the pool, pointers that they share, and reusable scratch memory.

use crate::memory::Zeroed;
pub(crate) use crate::threads::parallel_for;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

/// A pointer that threads share; they write disjoint elements through it.
pub(crate) struct Shared<T>(*mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Shared<T> {}

// SAFETY: the code that builds one splits the elements between threads (see `slice`).
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(crate) fn new(x: &mut [T]) -> Shared<T> {
        Shared(x.as_mut_ptr())
    }

    /// A pointer whose elements the threads may use as the builder says.
    pub(crate) fn at(ptr: *mut T) -> Shared<T> {
        Shared(ptr)
    }

    #[inline(always)]
    pub(crate) fn ptr(self) -> *mut T {
        self.0
    }

    /// # Safety
    /// The range lies within the slice this was built from, and no other thread uses it meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn slice<'a>(self, start: usize, len: usize) -> &'a mut [T] {
        // SAFETY: by the caller.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(start), len) }
    }
}

/// Asks for memory that will be read soon, where the processor can be asked.
#[inline(always)]
pub(crate) fn prefetch<T>(x: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for line in x.chunks((64 / size_of::<T>()).max(1)) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the address is that of an element; nothing is read.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = x;
}

/// Bytes of idle scratch that one thread keeps. Touching fresh pages costs more than most kernels' arithmetic.
const KEEP_BYTES: usize = 512 << 20;
const KEEP_BUFFERS: usize = 12;

thread_local! {
    static IDLE: RefCell<Vec<Zeroed>> = const { RefCell::new(Vec::new()) };
}

/// A buffer from the thread's store of idle ones; its first contents are unspecified numbers.
pub(crate) struct Scratch<T> {
    block: ManuallyDrop<Zeroed>,
    len: usize,
    of: PhantomData<T>,
}

// SAFETY: owned plain numbers.
unsafe impl<T: Send> Send for Scratch<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Scratch<T> {}

impl<T: crate::Element> Scratch<T> {
    /// Room for `len` numbers with unspecified values. `bool` has invalid bit patterns and is never asked for.
    pub(crate) fn any(len: usize) -> Scratch<T> {
        assert!(T::DTYPE != crate::DType::Bool);
        let need = len * size_of::<T>();
        let best = IDLE.with_borrow_mut(|idle| {
            // The smallest buffer that is large enough, unless it is so large that another call misses it.
            let fits = |b: &Zeroed| b.bytes() >= need && b.bytes() <= need.saturating_mul(16).max(256 << 10);
            let i = (0..idle.len()).filter(|&i| fits(&idle[i])).min_by_key(|&i| idle[i].bytes())?;
            Some(idle.swap_remove(i))
        });
        let block = best.unwrap_or_else(|| Zeroed::new(need));
        Scratch { block: ManuallyDrop::new(block), len, of: PhantomData }
    }

    /// `len` copies of a number.
    pub(crate) fn filled(len: usize, v: T) -> Scratch<T> {
        let mut scratch = Self::any(len);
        scratch.fill(v);
        scratch
    }
}

impl<T> Drop for Scratch<T> {
    fn drop(&mut self) {
        // SAFETY: nobody uses it after this.
        let block = unsafe { ManuallyDrop::take(&mut self.block) };
        // A thread that is ending has no store any more; the buffer is then freed.
        let _ = IDLE.try_with(|idle| {
            let mut idle = idle.borrow_mut();
            idle.push(block);
            while idle.len() > KEEP_BUFFERS || idle.iter().map(Zeroed::bytes).sum::<usize>() > KEEP_BYTES {
                idle.remove(0);
            }
        });
    }
}

impl<T> Deref for Scratch<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the block holds `len` numbers, all bytes initialised, and is aligned for them.
        unsafe { std::slice::from_raw_parts(self.block.ptr().cast(), self.len) }
    }
}

impl<T> DerefMut for Scratch<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`.
        unsafe { std::slice::from_raw_parts_mut(self.block.ptr().cast(), self.len) }
    }
}
