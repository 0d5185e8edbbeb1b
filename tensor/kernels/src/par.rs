//! Parallelism for the neural-network kernels: the thread pool, pointers shared by threads, and reusable scratch
//! memory.

use crate::memory::Zeroed;
pub(crate) use crate::threads::parallel_for;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

/// A pointer that threads share. They write disjoint elements through it.
pub(crate) struct Shared<T>(*mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Shared<T> {}

// SAFETY: the code that builds it splits the elements between threads (see `slice`).
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: the code that builds it splits the elements between threads (see `slice`).
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(crate) fn new(x: &mut [T]) -> Shared<T> {
        Shared(x.as_mut_ptr())
    }

    /// Share a pointer. The caller of this function decides which elements the threads may use.
    pub(crate) fn at(ptr: *mut T) -> Shared<T> {
        Shared(ptr)
    }

    #[inline(always)]
    pub(crate) fn ptr(self) -> *mut T {
        self.0
    }

    /// # Safety
    /// The range lies within the slice that `self` was built from, and no other thread uses it while the result lives.
    #[inline(always)]
    pub(crate) unsafe fn slice<'a>(self, start: usize, len: usize) -> &'a mut [T] {
        // SAFETY: the caller passes a range of the slice that no other thread uses.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(start), len) }
    }
}

/// Prefetch memory that will be read soon, on processors that support it.
#[inline(always)]
pub(crate) fn prefetch<T>(x: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for line in x.chunks((64 / size_of::<T>()).max(1)) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the address is that of an element, and a prefetch reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = x;
}

/// Bytes of idle scratch memory that one thread keeps. Touching fresh pages costs more than the arithmetic of most
/// kernels.
const KEEP_BYTES: usize = 512 << 20;
const KEEP_BUFFERS: usize = 12;

thread_local! {
    static IDLE: RefCell<Vec<Zeroed>> = const { RefCell::new(Vec::new()) };
}

/// A buffer from the thread's store of idle buffers. Its first contents are unspecified numbers.
pub(crate) struct Scratch<T> {
    block: ManuallyDrop<Zeroed>,
    len: usize,
    of: PhantomData<T>,
}

// SAFETY: the buffer owns its memory, which holds plain numbers.
unsafe impl<T: Send> Send for Scratch<T> {}
// SAFETY: the buffer owns its memory, which holds plain numbers.
unsafe impl<T: Sync> Sync for Scratch<T> {}

impl<T: crate::Element> Scratch<T> {
    /// Return a buffer of `len` numbers with unspecified values. `bool` has invalid bit patterns and is never
    /// requested.
    pub(crate) fn any(len: usize) -> Scratch<T> {
        assert!(T::DTYPE != crate::DType::Bool);
        let need = len * size_of::<T>();
        let best = IDLE.with_borrow_mut(|idle| {
            // Take the smallest buffer that is large enough. Skip buffers so much larger that another call will need
            // them.
            let fits = |b: &Zeroed| b.bytes() >= need && b.bytes() <= need.saturating_mul(16).max(256 << 10);
            let i = (0..idle.len()).filter(|&i| fits(&idle[i])).min_by_key(|&i| idle[i].bytes())?;
            Some(idle.swap_remove(i))
        });
        let block = best.unwrap_or_else(|| Zeroed::new(need));
        Scratch { block: ManuallyDrop::new(block), len, of: PhantomData }
    }

    /// Return a buffer of `len` copies of a number.
    pub(crate) fn filled(len: usize, v: T) -> Scratch<T> {
        let mut scratch = Self::any(len);
        scratch.fill(v);
        scratch
    }
}

impl<T> Drop for Scratch<T> {
    fn drop(&mut self) {
        // SAFETY: the value is being dropped, so the block is not used after this.
        let block = unsafe { ManuallyDrop::take(&mut self.block) };
        // The store of an ending thread is already gone. The buffer is then freed.
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
        // SAFETY: the block holds `len` numbers, all bytes initialised, and is aligned for them.
        unsafe { std::slice::from_raw_parts_mut(self.block.ptr().cast(), self.len) }
    }
}
