//! The word that leads from a tensor to its history, and how threads share it.
//!
//! The word owns its target. A thread that clones or replaces the pointer holds the word's lock for these few
//! instructions. Otherwise one thread could drop the history after another one has read the pointer and before it has
//! cloned it.
//!
//! `tests/word_model.rs` includes this file and lets loom try all interleavings. So this file names no type of
//! `std::sync::atomic` itself: they come from `sync`.

use super::sync::{AtomicPtr, AtomicU32, Ordering, pause};
use std::ptr::null_mut;

/// Tag: the pointer is to a leaf.
pub(super) const LEAF: usize = 1;
/// Tag: a thread clones or replaces the pointer.
const LOCK: usize = 2;
/// Tag: the leaf wants a gradient. This is read without following the pointer.
pub(super) const WANTS: usize = 4;

/// A tagged pointer to a history, or null, and the number of this output of the node.
#[repr(C)]
pub(super) struct Word {
    pointer: AtomicPtr<()>,
    output_nr: AtomicU32,
}

/// The address without the tags.
#[inline(always)]
pub(super) fn untagged(p: *mut ()) -> *mut u8 {
    p.cast::<u8>().map_addr(|a| a & !(LEAF | LOCK | WANTS))
}

impl Word {
    /// An empty word. The caller makes the parts, since loom's atomics cannot be made in a constant.
    #[inline(always)]
    pub(super) const fn new(pointer: AtomicPtr<()>, output_nr: AtomicU32) -> Word {
        Word { pointer, output_nr }
    }

    /// The pointer with all tags but [`LOCK`], as some thread left it. It may dangle: use only its tags and its
    /// address.
    #[inline(always)]
    pub(super) fn peek(&self) -> usize {
        self.pointer.load(Ordering::Relaxed).addr() & !LOCK
    }

    /// Which output of its node the tensor is, as some thread left it.
    #[inline(always)]
    pub(super) fn output_nr(&self) -> u32 {
        self.output_nr.load(Ordering::Relaxed)
    }

    /// Whether the word names a node, or a leaf that wants a gradient.
    #[inline(always)]
    pub(super) fn wants_grad(&self) -> bool {
        let p = self.peek();
        p != 0 && p & (LEAF | WANTS) != LEAF
    }

    #[inline]
    fn lock(&self) -> *mut () {
        // Only one bit of the old word is read, so that this compiles to one instruction instead of a loop.
        while self.pointer.fetch_or(LOCK, Ordering::Acquire).addr() & LOCK != 0 {
            pause();
        }
        self.pointer.load(Ordering::Relaxed).map_addr(|a| a & !LOCK)
    }

    #[inline]
    fn unlock(&self, p: *mut ()) {
        self.pointer.store(p, Ordering::Release);
    }

    /// Call `f` with the pointer and the output number that belongs to it. No thread replaces them meanwhile.
    #[inline]
    pub(super) fn look<R>(&self, f: impl FnOnce(*mut (), u32) -> R) -> R {
        let p = self.lock();
        let r = f(p, self.output_nr());
        self.unlock(p);
        r
    }

    /// Replace the pointer and return the old one, which belongs to the caller from now on.
    #[inline]
    pub(super) fn replace(&self, new: *mut (), output_nr: u32) -> *mut () {
        let old = self.lock();
        self.output_nr.store(output_nr, Ordering::Relaxed);
        self.unlock(new);
        old
    }

    /// [`Word::replace`] for a tensor that the caller has just made, which no other thread sees yet.
    #[inline(always)]
    pub(super) fn start(&self, new: *mut (), output_nr: u32) -> *mut () {
        if self.peek() != 0 {
            return self.replace(new, output_nr);
        }
        self.output_nr.store(output_nr, Ordering::Relaxed);
        self.unlock(new);
        null_mut()
    }

    /// Put `new` into an empty word, then call `f` with the content. Return whether the word was empty; if it was not,
    /// `new` stays the caller's.
    pub(super) fn fill<R>(&self, new: *mut (), f: impl FnOnce(*mut ()) -> R) -> (bool, R) {
        let old = self.lock();
        let is_empty = old.is_null();
        let p = if is_empty { new } else { old };
        if is_empty {
            self.output_nr.store(0, Ordering::Relaxed);
        }
        let r = f(p);
        self.unlock(p);
        (is_empty, r)
    }

    /// Set or clear [`WANTS`] if the word names a leaf.
    pub(super) fn set_wants(&self, on: bool) {
        let p = self.lock();
        let tagged = p.map_addr(|a| if on { a | WANTS } else { a & !WANTS });
        self.unlock(if p.addr() & LEAF == 0 { p } else { tagged });
    }

    /// The pointer of a word that is about to be dropped.
    #[inline(always)]
    pub(super) fn last(&mut self) -> *mut () {
        self.pointer.load(Ordering::Relaxed)
    }
}
