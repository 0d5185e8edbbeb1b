//! The thread pool of all kernels.
//!
//! A range is cut into pieces. The cuts depend only on the range, the grain and the thread count, so a computation by
//! pieces gives equal results in every run. The assignment of pieces to threads is not fixed: the caller and the
//! workers draw pieces until none is left. So a descheduled worker delays no other thread, and in a forked process,
//! which has no workers, the caller draws all pieces.
//!
//! Idle workers spin for [`SPIN`] before they sleep: the kernels of a training step follow each other within
//! microseconds, and waking a thread costs tens of microseconds.

mod job;
mod sync;

use job::{Job, Sleeper};
use std::any::Any;
use std::cell::Cell;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Smallest number of elements per thread where an element takes many operations or a library call: a row of a norm, a
/// window of a pool. Waking a thread costs more than computing fewer.
pub(crate) const GRAIN: usize = 1 << 14;

/// Smallest number of elements per thread where an element takes one operation: a copy, a sum.
pub(crate) const CHEAP_GRAIN: usize = 1 << 15;

/// Number of threads that kernels use. Zero until first requested.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Return the number of threads that a kernel may use. It is `OMP_NUM_THREADS` if set, else the machine's number, until
/// [`set_num_threads`] changes it.
#[inline]
pub fn num_threads() -> usize {
    match THREADS.load(Ordering::Relaxed) {
        0 => {
            let asked = std::env::var("OMP_NUM_THREADS").ok().and_then(|v| v.trim().parse().ok()).filter(|&n| n > 0);
            let n = asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
            // If another thread set a count in the meantime, keep that one.
            let _ = THREADS.compare_exchange(0, n.min(MAX_WORKERS + 1), Ordering::Relaxed, Ordering::Relaxed);
            THREADS.load(Ordering::Relaxed)
        }
        n => n,
    }
}

/// Set the number of threads for kernels from now on. Zero counts as one.
pub fn set_num_threads(n: usize) {
    THREADS.store(n.clamp(1, MAX_WORKERS + 1), Ordering::Relaxed);
}

thread_local! {
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is working on a piece. Kernels that it calls then run on this thread alone.
pub fn in_parallel_region() -> bool {
    BUSY.get()
}

/// Call `work` on pieces that cover `0..n`, on several threads if each gets at least `grain` items.
///
/// A small range runs on the calling thread in one piece. So does a nested call.
#[inline]
pub fn parallel_for<F: Fn(Range<usize>) + Sync>(n: usize, grain: usize, work: F) {
    if n <= grain {
        if n > 0 {
            work(0..n);
        }
        return;
    }
    parallel_pieces(n, grain, PIECES_PER_THREAD, &work);
}

/// Call `work` on pieces that cover `0..n` expensive items, on several threads. Makes more pieces than
/// [`parallel_for`], so that the first idle thread waits for at most one of them.
pub(crate) fn parallel_tasks(n: usize, work: &(dyn Fn(Range<usize>) + Sync)) {
    parallel_pieces(n, 1, TASKS_PER_THREAD, work);
}

/// Number of pieces per thread. With more than one, other threads take over the share of a delayed thread.
const PIECES_PER_THREAD: usize = 4;
const TASKS_PER_THREAD: usize = 16;

#[cold]
fn parallel_pieces(n: usize, grain: usize, per_thread: usize, work: &(dyn Fn(Range<usize>) + Sync)) {
    let threads = num_threads();
    let pieces = (n / grain.max(1)).clamp(1, per_thread * threads);
    // Give each thread the same number of pieces.
    let pieces = if pieces > threads { pieces / threads * threads } else { pieces };
    if pieces == 1 || threads == 1 || in_parallel_region() {
        return work(0..n);
    }
    // Give each piece whole cache lines, for any element size.
    let piece = n.div_ceil(pieces);
    let piece = if piece >= 1024 { piece.next_multiple_of(64) } else { piece };
    let at = |i: usize| if piece >= 1024 { (i * piece).min(n) } else { i * n / pieces };
    let count = if piece >= 1024 { n.div_ceil(piece) } else { pieces };
    run(threads - 1, count, &|i| work(at(i)..at(i + 1)));
}

const MAX_WORKERS: usize = 255;
/// Spinning time of an idle worker, or of a caller that waits for its workers.
const SPIN: Duration = Duration::from_micros(100);

struct Worker {
    thread: OnceLock<Thread>,
    sleeper: Sleeper,
}

struct Pool {
    /// True while a thread's job runs.
    taken: AtomicBool,
    job: Job,
    /// Number of workers that may join the job.
    limit: AtomicUsize,
    started: AtomicUsize,
    workers: [Worker; MAX_WORKERS],
}

static POOL: Pool = Pool {
    taken: AtomicBool::new(false),
    job: new_job(),
    limit: AtomicUsize::new(0),
    started: AtomicUsize::new(0),
    workers: [const { Worker { thread: OnceLock::new(), sleeper: Sleeper::new(AtomicBool::new(false)) } }; MAX_WORKERS],
};

const fn new_job() -> Job {
    use sync::{AtomicU64, UnsafeCell};
    Job::new(AtomicU64::new(0), UnsafeCell::new(None), AtomicUsize::new(0), AtomicUsize::new(0))
}

/// Threads of the calling runtime, lent to kernels for a time. A second pool would compete with the runtime's
/// own pool for processors.
pub trait Lender {
    /// Run `task` on one of the threads, now or later, or drop it.
    fn lend(&self, task: Box<dyn FnOnce() + Send>);
}

thread_local! {
    static LENDER: Cell<Option<*const dyn Lender>> = const { Cell::new(None) };
}

/// Call `f`. Its kernels use the threads of `lender` instead of the pool.
pub fn with_threads_of<R>(lender: &dyn Lender, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<*const dyn Lender>);
    impl Drop for Restore {
        fn drop(&mut self) {
            LENDER.set(self.0);
        }
    }
    // SAFETY: only the lifetime changes, and the thread forgets the pointer before this function returns.
    let lender = unsafe { std::mem::transmute::<*const (dyn Lender + '_), *const dyn Lender>(lender) };
    let _restore = Restore(LENDER.replace(Some(lender)));
    f()
}

/// Call `work(i)` for `i` in `0..pieces`, on this thread and up to `workers` others.
fn run(workers: usize, pieces: usize, work: &(dyn Fn(usize) + Sync)) {
    let workers = workers.min(pieces - 1).min(MAX_WORKERS);
    if let Some(lender) = LENDER.get() {
        // SAFETY: the pointer is set only while the lender lives.
        return run_lent(unsafe { &*lender }, workers, pieces, work);
    }
    let pool = &POOL;
    // If the pool is busy with another thread's job, run this job on the calling thread alone.
    if pool.taken.swap(true, Ordering::Acquire) {
        BUSY.set(true);
        let _busy = Reset;
        return (0..pieces).for_each(work);
    }
    while pool.started.load(Ordering::Relaxed) < workers && start_worker() {}
    pool.limit.store(workers, Ordering::Relaxed);
    // SAFETY: this thread holds `taken`, and the last job was closed and left by all threads before `taken` was
    // released.
    unsafe { pool.job.open(pieces, work) };
    job::fence_after_open();
    for worker in &pool.workers[..workers] {
        if worker.sleeper.is_asleep()
            && let Some(thread) = worker.thread.get()
        {
            thread.unpark();
        }
    }
    let result = finish(&pool.job, work);
    pool.taken.store(false, Ordering::Release);
    if let Err(panic) = result {
        resume_unwind(panic);
    }
}

/// Like [`run`], on lent threads. A thread that arrives after the job is closed finds nothing to do.
fn run_lent(lender: &dyn Lender, workers: usize, pieces: usize, work: &(dyn Fn(usize) + Sync)) {
    let job = Arc::new(new_job());
    // SAFETY: the job is new, so no thread uses it.
    unsafe { job.open(pieces, work) };
    for _ in 0..workers {
        let job = job.clone();
        lender.lend(Box::new(move || {
            if job.join(job.state()) {
                BUSY.set(true);
                let _busy = Reset;
                job.help();
            }
        }));
    }
    if let Err(panic) = finish(&job, work) {
        resume_unwind(panic);
    }
}

/// Draw pieces on this thread until none is left, then wait for the other threads. Kernels that `work` calls run alone.
fn finish(job: &Job, work: &(dyn Fn(usize) + Sync)) -> Result<(), Box<dyn Any + Send>> {
    let before = BUSY.replace(true);
    let result = job.finish(work);
    BUSY.set(before);
    result
}

struct Reset;
impl Drop for Reset {
    fn drop(&mut self) {
        BUSY.set(false);
    }
}

/// Start one more worker. Return whether the system allowed it.
fn start_worker() -> bool {
    let index = POOL.started.load(Ordering::Relaxed);
    let made = std::thread::Builder::new().name(format!("torchtpu-cpu-{index}")).spawn(move || run_worker(index));
    let Ok(handle) = made else { return false };
    let _ = POOL.workers[index].thread.set(handle.thread().clone());
    POOL.started.store(index + 1, Ordering::Relaxed);
    true
}

/// Run a worker: join one job after the other.
fn run_worker(index: usize) {
    BUSY.set(true);
    let mut last = 0;
    loop {
        let state = wait(index, last);
        last = job::number(state);
        if index < POOL.limit.load(Ordering::Relaxed) && POOL.job.join(state) {
            POOL.job.help();
        }
    }
}

/// Wait for an open job other than the last one: spin for [`SPIN`], then sleep.
fn wait(index: usize, last: u64) -> u64 {
    let start = Instant::now();
    loop {
        for _ in 0..32 {
            let state = POOL.job.state();
            if job::is_new(state, last) {
                return state;
            }
            std::hint::spin_loop();
        }
        if start.elapsed() > SPIN {
            break;
        }
    }
    POOL.workers[index].sleeper.sleep(&POOL.job, last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;
    use std::sync::Mutex;

    #[test]
    fn pieces_cover_the_range_once() {
        for n in [0, 1, 7, 1000, 4097, 100_000] {
            let seen = Mutex::new(vec![0u8; n]);
            parallel_for(n, 100, |r| {
                let mut seen = seen.lock().unwrap();
                for i in r {
                    seen[i] += 1;
                }
            });
            assert!(seen.into_inner().unwrap().iter().all(|&c| c == 1), "n = {n}");
        }
    }

    #[test]
    fn small_ranges_stay_on_the_calling_thread() {
        let here = std::thread::current().id();
        parallel_for(100, 100, |r| {
            assert_eq!(r, 0..100);
            assert_eq!(std::thread::current().id(), here);
        });
    }

    #[test]
    fn nested_calls_finish() {
        let count = AtomicUsize::new(0);
        parallel_for(10_000, 10, |outer| {
            for _ in outer {
                parallel_for(10, 2, |inner| {
                    count.fetch_add(inner.len(), Ordering::Relaxed);
                });
            }
        });
        assert_eq!(count.into_inner(), 100_000);
    }

    /// A lender whose threads run a task later, run it at once, or drop it.
    struct Threads(Mutex<Vec<std::thread::JoinHandle<()>>>, AtomicUsize);

    impl Lender for Threads {
        fn lend(&self, task: Box<dyn FnOnce() + Send>) {
            match self.1.fetch_add(1, Ordering::Relaxed) % 3 {
                0 => self.0.lock().unwrap().push(std::thread::spawn(task)),
                1 => task(),
                _ => drop(task),
            }
        }
    }

    #[test]
    fn lent_threads_may_help_late_or_never() {
        let threads = Threads(Mutex::default(), AtomicUsize::new(0));
        let sum = AtomicUsize::new(0);
        with_threads_of(&threads, || {
            for _ in 0..300 {
                parallel_for(1000, 10, |r| {
                    sum.fetch_add(r.sum::<usize>(), Ordering::Relaxed);
                });
            }
            let failed = catch_unwind(|| parallel_for(1000, 10, |r| assert!(!r.contains(&500), "a piece failed")));
            assert!(failed.is_err());
        });
        threads.0.into_inner().unwrap().into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(sum.into_inner(), 300 * (999 * 1000 / 2));
        assert!(LENDER.get().is_none() && !in_parallel_region());
    }

    #[test]
    fn jobs_of_several_threads_all_finish() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..2000 {
                        let sum = AtomicUsize::new(0);
                        parallel_for(round, 1, |r| {
                            sum.fetch_add(r.sum::<usize>(), Ordering::Relaxed);
                        });
                        assert_eq!(sum.into_inner(), (0..round).sum());
                    }
                });
            }
        });
    }

    #[test]
    fn a_sleeping_pool_wakes_up() {
        for _ in 0..20 {
            std::thread::sleep(2 * SPIN);
            let sum = AtomicUsize::new(0);
            parallel_for(1000, 1, |r| {
                sum.fetch_add(r.len(), Ordering::Relaxed);
            });
            assert_eq!(sum.into_inner(), 1000);
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_leaves_the_pool_usable() {
        for _ in 0..50 {
            let caught = catch_unwind(|| parallel_for(1000, 1, |r| assert!(!r.contains(&700), "piece of 700")));
            let text = *caught.unwrap_err().downcast::<&str>().unwrap();
            assert_eq!(text, "piece of 700");
            let sum = AtomicUsize::new(0);
            parallel_for(1000, 1, |r| {
                sum.fetch_add(r.len(), Ordering::Relaxed);
            });
            assert_eq!(sum.into_inner(), 1000);
        }
    }
}
