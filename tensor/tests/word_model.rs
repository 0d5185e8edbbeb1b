//! All interleavings of the threads that share a tensor's history, tried by loom.
//!
//! The file under test is included with loom's types in place of the standard library's. Loom reports a history that is
//! used after it was dropped, one that is never dropped, and any assertion that fails in some interleaving.

#![allow(dead_code, reason = "the model uses only a part of the included file")]

mod sync {
    pub(super) use loom::sync::atomic::{AtomicU32, Ordering};

    /// Loom's pointer, with the operation that it lacks.
    pub(super) struct AtomicPtr<T>(loom::sync::atomic::AtomicPtr<T>);

    impl AtomicPtr<()> {
        pub(super) fn new(p: *mut ()) -> AtomicPtr<()> {
            AtomicPtr(loom::sync::atomic::AtomicPtr::new(p))
        }

        pub(super) fn load(&self, order: Ordering) -> *mut () {
            self.0.load(order)
        }

        pub(super) fn store(&self, p: *mut (), order: Ordering) {
            self.0.store(p, order);
        }

        /// Bits that are set already are not written again: loom takes such a write to come after any other thread's
        /// that it is not ordered with, even one that it cannot follow.
        pub(super) fn fetch_or(&self, bits: usize, order: Ordering) -> *mut () {
            let set = |p: *mut ()| (p.addr() & bits != bits).then(|| p.map_addr(|a| a | bits));
            self.0.fetch_update(order, order, set).unwrap_or_else(|p| p)
        }
    }

    pub(super) fn pause() {
        loom::thread::yield_now();
    }
}

#[path = "../src/storage/block/word.rs"]
mod word;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use word::{LEAF, WANTS, Word, untagged};

/// What a word leads to: a number, in a cell that loom watches.
#[repr(align(8))]
struct History(UnsafeCell<u32>);

impl Drop for History {
    fn drop(&mut self) {
        // SAFETY: loom checks it: a thread that still reads it is a data race.
        self.0.with_mut(|n| unsafe { *n = 0 });
    }
}

// SAFETY: loom checks that the accesses are ordered.
unsafe impl Send for History {}
// SAFETY: as above.
unsafe impl Sync for History {}

fn history(n: u32) -> *mut () {
    Arc::into_raw(Arc::new(History(UnsafeCell::new(n)))).cast_mut().cast()
}

/// Takes back a pointer that a word gave up.
fn taken(p: *mut ()) -> Option<Arc<History>> {
    // SAFETY: the pointer came from `history`, and the word is done with it.
    (!p.is_null()).then(|| unsafe { Arc::from_raw(untagged(p).cast_const().cast::<History>()) })
}

/// Another handle to what the word leads to.
fn cloned(p: *mut ()) -> Option<Arc<History>> {
    (*ManuallyDrop::new(taken(p))).clone()
}

fn number(history: &Arc<History>) -> u32 {
    // SAFETY: loom checks it.
    history.0.with(|n| unsafe { *n })
}

/// A tensor's word, which drops its history at the end.
struct Shared(Word);

impl Shared {
    fn new(n: u32) -> Arc<Shared> {
        let p = if n == 0 { null_mut() } else { history(n) };
        Arc::new(Shared(Word::new(sync::AtomicPtr::new(p), AtomicU32::new(n))))
    }

    /// The history's number and the output number beside it, which are equal in these tests.
    fn read(&self) -> Option<u32> {
        let (history, nr) = self.0.look(|p, nr| (cloned(p), nr));
        history.map(|h| {
            assert_eq!(number(&h), nr, "a history with the output number of another");
            nr
        })
    }

    fn set(&self, n: u32) {
        drop(taken(self.0.replace(if n == 0 { null_mut() } else { history(n) }, n)));
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        drop(taken(self.0.last()));
    }
}

/// Run `test` in every interleaving with at most three preemptions. Few errors need more.
fn interleavings(test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(test);
}

fn spawn(word: &Arc<Shared>, work: impl FnOnce(&Shared) + 'static) -> loom::thread::JoinHandle<()> {
    let word = word.clone();
    loom::thread::spawn(move || work(&word))
}

#[test]
fn a_reader_gets_the_old_or_the_new_history_while_another_thread_replaces_it() {
    interleavings(|| {
        let word = Shared::new(1);
        let reader = spawn(&word, |w| assert!(matches!(w.read(), Some(1 | 2))));
        word.set(2);
        assert_eq!(word.read(), Some(2));
        reader.join().unwrap();
    });
}

#[test]
fn two_threads_that_give_a_tensor_a_history_leave_one_of_them() {
    interleavings(|| {
        let word = Shared::new(0);
        let other = spawn(&word, |w| w.set(1));
        word.set(2);
        assert!(matches!(word.read(), Some(1 | 2)));
        other.join().unwrap();
        assert!(matches!(word.read(), Some(1 | 2)));
    });
}

#[test]
fn threads_that_fill_an_empty_word_get_the_same_history() {
    interleavings(|| {
        let word = Shared::new(0);
        let fill = |w: &Shared, n: u32| {
            let new = history(n);
            let (is_new, there) = w.0.fill(new, cloned);
            if !is_new {
                drop(taken(new));
            }
            number(&there.unwrap())
        };
        let other = spawn(&word, move |w| {
            let n = fill(w, 1);
            assert_eq!(w.0.look(|p, _| cloned(p)).map(|h| number(&h)), Some(n));
        });
        let n = fill(&word, 2);
        assert_eq!(word.0.look(|p, _| cloned(p)).map(|h| number(&h)), Some(n));
        other.join().unwrap();
    });
}

#[test]
fn an_empty_word_wants_no_gradient_while_another_thread_looks_at_it() {
    interleavings(|| {
        let word = Shared::new(0);
        let other = spawn(&word, |w| assert_eq!(w.read(), None));
        assert!(!word.0.wants_grad());
        assert_eq!(word.0.peek(), 0);
        other.join().unwrap();
    });
}

#[test]
fn a_leaf_that_wants_a_gradient_stays_a_leaf_while_others_read_it() {
    interleavings(|| {
        let leaf = history(1).map_addr(|a| a | LEAF);
        let word = Arc::new(Shared(Word::new(sync::AtomicPtr::new(leaf), AtomicU32::new(1))));
        let reader = spawn(&word, |w| {
            assert_eq!(w.read(), Some(1));
            assert_eq!(w.0.peek() & LEAF, LEAF);
        });
        word.0.set_wants(true);
        assert!(word.0.wants_grad());
        reader.join().unwrap();
        assert_eq!(word.0.peek() & (LEAF | WANTS), LEAF | WANTS);
        word.0.set_wants(false);
        assert!(!word.0.wants_grad());
    });
}
