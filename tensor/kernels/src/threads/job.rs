//! The protocol between the thread that runs a job and the workers that help.
//!
//! `tests/job_model.rs` includes this file and lets loom try all interleavings. So this file names no thread, no clock
//! and no type of `std::sync::atomic` itself, but takes them from `sync`.

use super::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering, UnsafeCell, fence, park, pause};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// Bit of `Job::state`: the job may be joined.
const OPEN: u64 = 1 << 16;
/// Bits of `Job::state`: the number of workers inside the job.
const INSIDE: u64 = OPEN - 1;
/// First bit of the job's number in `Job::state`.
const NUMBER: u32 = 32;

type Work = *const (dyn Fn(usize) + Sync);

/// A sequence of jobs, each divided into pieces that threads draw.
pub(super) struct Job {
    state: AtomicU64,
    work: UnsafeCell<Option<Work>>,
    pieces: AtomicUsize,
    next: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: the thread that opens the job writes `work`, while the job is closed and no worker is inside. Workers read it
// only inside an open job. Its target is `Sync`, and it lives until the job is closed and all workers have left.
unsafe impl Sync for Job {}
// SAFETY: the target of `work` is `Sync`, so any thread may call it. The other fields are `Send`.
unsafe impl Send for Job {}

/// Return the number of the job in this state.
pub(super) fn number(state: u64) -> u64 {
    state >> NUMBER
}

/// Whether the job in this state is open and not the job numbered `last`.
pub(super) fn is_new(state: u64, last: u64) -> bool {
    state & OPEN != 0 && number(state) != last
}

/// Order the opening of a job before the check for sleeping workers. Call it between [`Job::open`] and
/// [`Sleeper::is_asleep`].
pub(super) fn fence_after_open() {
    fence(Ordering::SeqCst);
}

impl Job {
    /// Return a closed job. The caller makes the parts, because loom's parts cannot be made in a constant.
    pub(super) const fn new(
        state: AtomicU64,
        work: UnsafeCell<Option<Work>>,
        pieces: AtomicUsize,
        next: AtomicUsize,
    ) -> Job {
        Job { state, work, pieces, next, panic: Mutex::new(None) }
    }

    pub(super) fn state(&self) -> u64 {
        self.state.load(Ordering::Acquire)
    }

    /// Let workers join a new job of `pieces` pieces.
    ///
    /// # Safety
    /// The previous job is finished, no other thread opens one, and the caller calls [`Job::finish`] while `work`
    /// lives.
    pub(super) unsafe fn open(&self, pieces: usize, work: &(dyn Fn(usize) + Sync)) {
        // SAFETY: the job ends before the caller's frame, whose lifetime `work` has.
        let work = unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), Work>(work) };
        // SAFETY: the job is closed, so no worker is inside and reads the place.
        self.work.with_mut(|place| unsafe { *place = Some(work) });
        self.pieces.store(pieces, Ordering::Relaxed);
        self.next.store(0, Ordering::Relaxed);
        let number = number(self.state.load(Ordering::Relaxed)).wrapping_add(1);
        self.state.store(number << NUMBER | OPEN, Ordering::SeqCst);
    }

    /// Draw pieces on this thread, close the job and wait for the workers inside. `Err` holds the first panic of a
    /// piece.
    pub(super) fn finish(&self, work: &(dyn Fn(usize) + Sync)) -> Result<(), Box<dyn Any + Send>> {
        let mut result = catch_unwind(AssertUnwindSafe(|| self.draw(work)));
        if result.is_err() {
            self.next.store(usize::MAX / 2, Ordering::Relaxed);
        }
        // From here on no worker may join, and workers inside must leave.
        self.state.fetch_and(!OPEN, Ordering::AcqRel);
        let mut waits = 0u32;
        while self.state.load(Ordering::Acquire) & INSIDE != 0 {
            waits += 1;
            pause(waits);
        }
        if let Some(panic) = self.panic.lock().unwrap_or_else(|e| e.into_inner()).take() {
            result = result.and(Err(panic));
        }
        result
    }

    fn draw(&self, work: &(dyn Fn(usize) + Sync)) {
        let pieces = self.pieces.load(Ordering::Relaxed);
        loop {
            let i = self.next.fetch_add(1, Ordering::Relaxed);
            if i >= pieces {
                return;
            }
            work(i);
        }
    }

    /// Join the job of this state if it is still open. Return whether it was.
    pub(super) fn join(&self, mut state: u64) -> bool {
        let asked = number(state);
        while state & OPEN != 0 && number(state) == asked {
            match self.state.compare_exchange_weak(state, state + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// Draw pieces of the joined job, then leave it.
    pub(super) fn help(&self) {
        // SAFETY: this worker is inside the job, and the job's work stays until all workers have left.
        let work = self.work.with(|place| unsafe { (*place).map(|work| &*work) });
        if let Some(work) = work
            && let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.draw(work)))
        {
            self.next.store(usize::MAX / 2, Ordering::Relaxed);
            self.panic.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(panic);
        }
        self.state.fetch_sub(1, Ordering::Release);
    }
}

/// The sleep state of a worker.
pub(super) struct Sleeper {
    asleep: AtomicBool,
}

impl Sleeper {
    pub(super) const fn new(asleep: AtomicBool) -> Sleeper {
        Sleeper { asleep }
    }

    /// Whether the worker must be unparked to see a job.
    pub(super) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::SeqCst)
    }

    /// Park the calling worker until a job other than `last` is open, and return its state.
    pub(super) fn sleep(&self, job: &Job, last: u64) -> u64 {
        self.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        loop {
            let state = job.state.load(Ordering::SeqCst);
            if is_new(state, last) {
                self.asleep.store(false, Ordering::Relaxed);
                return state;
            }
            park();
        }
    }
}
