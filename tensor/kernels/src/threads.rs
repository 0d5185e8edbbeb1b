//! Threads: the one pool that every kernel uses.
//!
//! A range is cut into pieces at places that depend on the range, the grain and the thread count only, so that whatever is
//! computed piece by piece is the same from run to run. Which thread takes which piece is left to chance: the caller and the
//! workers draw pieces until none is left. A worker that the system has put aside therefore delays nobody, and in a process
//! made by `fork`, where the workers are missing, the caller draws all pieces itself.
//!
//! Workers look for the next job for [`SPIN`] before they sleep: the kernels of a training step follow each other within
//! microseconds, and waking a thread costs tens of them.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Threads that kernels use; zero until first asked for.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// How many threads a kernel may use: `OMP_NUM_THREADS` if set, else what the machine has, until
/// [`set_num_threads`] says otherwise.
#[inline]
pub fn num_threads() -> usize {
    match THREADS.load(Ordering::Relaxed) {
        0 => {
            let asked = std::env::var("OMP_NUM_THREADS").ok().and_then(|v| v.trim().parse().ok()).filter(|&n| n > 0);
            let n = asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
            // Another thread may have set a count meanwhile; that one stays.
            let _ = THREADS.compare_exchange(0, n.min(MAX_WORKERS + 1), Ordering::Relaxed, Ordering::Relaxed);
            THREADS.load(Ordering::Relaxed)
        }
        n => n,
    }
}

/// Sets how many threads kernels use from now on; zero counts as one.
pub fn set_num_threads(n: usize) {
    THREADS.store(n.clamp(1, MAX_WORKERS + 1), Ordering::Relaxed);
}

thread_local! {
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is at work on a piece already; kernels that it calls then run alone.
pub fn in_parallel_region() -> bool {
    BUSY.get()
}

/// Calls `work` on pieces that cover `0..n`, on several threads when each gets at least `grain` items.
///
/// Small ranges run here and now, in one piece. Nested calls run in one piece too.
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

/// Calls `work` on pieces that cover `0..n` items of much work each, on several threads. There are more pieces than
/// [`parallel_for`] makes: the thread that is done first waits no longer than one of them takes.
pub(crate) fn parallel_tasks(n: usize, work: &(dyn Fn(Range<usize>) + Sync)) {
    parallel_pieces(n, 1, TASKS_PER_THREAD, work);
}

/// Pieces for each thread: with more than one, a thread that was held up leaves its share to the others.
const PIECES_PER_THREAD: usize = 4;
const TASKS_PER_THREAD: usize = 16;

#[cold]
fn parallel_pieces(n: usize, grain: usize, per_thread: usize, work: &(dyn Fn(Range<usize>) + Sync)) {
    let threads = num_threads();
    let pieces = (n / grain.max(1)).clamp(1, per_thread * threads);
    // The same number for each thread.
    let pieces = if pieces > threads { pieces / threads * threads } else { pieces };
    if pieces == 1 || threads == 1 || in_parallel_region() {
        return work(0..n);
    }
    // Whole cache lines to each piece, whatever the element size.
    let piece = n.div_ceil(pieces);
    let piece = if piece >= 1024 { piece.next_multiple_of(64) } else { piece };
    let at = |i: usize| if piece >= 1024 { (i * piece).min(n) } else { i * n / pieces };
    let count = if piece >= 1024 { n.div_ceil(piece) } else { pieces };
    run(threads - 1, count, &|i| work(at(i)..at(i + 1)));
}

const MAX_WORKERS: usize = 255;
/// How long an idle worker, or a caller whose workers are not done, looks again and again.
const SPIN: Duration = Duration::from_micros(100);

/// In `Job::state`: a job may be joined.
const OPEN: u64 = 1 << 16;
/// In `Job::state`: the workers that are at the job.
const INSIDE: u64 = OPEN - 1;
/// In `Job::state`: the number of the job, from this bit on.
const NUMBER: u32 = 32;

type Work = *const (dyn Fn(usize) + Sync);

/// What threads do together: one job after the other.
struct Job {
    state: AtomicU64,
    work: UnsafeCell<Option<Work>>,
    pieces: AtomicUsize,
    next: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `work` is written by the thread whose job it is while the job is closed and nobody inside, and read by those inside
// an open job only. What it points to is `Sync` and lives until the job is closed and nobody inside again.
unsafe impl Sync for Job {}
// SAFETY: as above.
unsafe impl Send for Job {}

struct Worker {
    thread: OnceLock<Thread>,
    asleep: AtomicBool,
}

struct Pool {
    /// Held by the thread whose job it is.
    taken: AtomicBool,
    job: Job,
    /// Workers that may join the job.
    limit: AtomicUsize,
    started: AtomicUsize,
    workers: [Worker; MAX_WORKERS],
}

static POOL: Pool = Pool {
    taken: AtomicBool::new(false),
    job: Job::new(),
    limit: AtomicUsize::new(0),
    started: AtomicUsize::new(0),
    workers: [const { Worker { thread: OnceLock::new(), asleep: AtomicBool::new(false) } }; MAX_WORKERS],
};

/// Threads of somebody else, on which kernels may run for a time: those of the runtime that calls them. A second pool beside
/// its own would have the two compete for processors.
pub trait Lender {
    /// Has `task` run on one of the threads, sooner or later, perhaps here and now. It may also be dropped.
    fn lend(&self, task: Box<dyn FnOnce() + Send>);
}

thread_local! {
    static LENDER: Cell<Option<*const dyn Lender>> = const { Cell::new(None) };
}

/// Calls `f`, whose kernels use the threads of `lender` meanwhile.
pub fn with_threads_of<R>(lender: &dyn Lender, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<*const dyn Lender>);
    impl Drop for Restore {
        fn drop(&mut self) {
            LENDER.set(self.0);
        }
    }
    // SAFETY: only the lifetime changes; the pointer is gone from the thread before this function returns.
    let lender = unsafe { std::mem::transmute::<*const (dyn Lender + '_), *const dyn Lender>(lender) };
    let _restore = Restore(LENDER.replace(Some(lender)));
    f()
}

/// Calls `work(i)` for `i` in `0..pieces`, here and on up to `workers` other threads.
fn run(workers: usize, pieces: usize, work: &(dyn Fn(usize) + Sync)) {
    let workers = workers.min(pieces - 1).min(MAX_WORKERS);
    if let Some(lender) = LENDER.get() {
        // SAFETY: it is set only while the lender lives.
        return run_lent(unsafe { &*lender }, workers, pieces, work);
    }
    let pool = &POOL;
    // A second thread with a job of its own meanwhile does it alone.
    if pool.taken.swap(true, Ordering::Acquire) {
        BUSY.set(true);
        let _busy = Reset;
        return (0..pieces).for_each(work);
    }
    while pool.started.load(Ordering::Relaxed) < workers && start_worker() {}
    pool.limit.store(workers, Ordering::Relaxed);
    // SAFETY: `taken` is held, and the last job was closed and left by all before it was given back.
    unsafe { pool.job.open(pieces, work) };
    fence(Ordering::SeqCst);
    for worker in &pool.workers[..workers] {
        if worker.asleep.load(Ordering::SeqCst)
            && let Some(thread) = worker.thread.get()
        {
            thread.unpark();
        }
    }
    let result = pool.job.finish(work);
    pool.taken.store(false, Ordering::Release);
    if let Err(panic) = result {
        resume_unwind(panic);
    }
}

/// The same on threads that are lent. Who comes when the job is closed finds nothing to do.
fn run_lent(lender: &dyn Lender, workers: usize, pieces: usize, work: &(dyn Fn(usize) + Sync)) {
    let job = Arc::new(Job::new());
    // SAFETY: the job is new.
    unsafe { job.open(pieces, work) };
    for _ in 0..workers {
        let job = job.clone();
        lender.lend(Box::new(move || {
            let state = job.state.load(Ordering::Acquire);
            if job.join(state) {
                BUSY.set(true);
                let _busy = Reset;
                job.help();
            }
        }));
    }
    if let Err(panic) = job.finish(work) {
        resume_unwind(panic);
    }
}

struct Reset;
impl Drop for Reset {
    fn drop(&mut self) {
        BUSY.set(false);
    }
}

impl Job {
    const fn new() -> Job {
        Job {
            state: AtomicU64::new(0),
            work: UnsafeCell::new(None),
            pieces: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            panic: Mutex::new(None),
        }
    }

    /// Lets others join a new job.
    ///
    /// # Safety
    /// The last one is closed and left by all; nobody else opens one; and the caller finishes this one while `work` lives.
    unsafe fn open(&self, pieces: usize, work: &(dyn Fn(usize) + Sync)) {
        // SAFETY: nobody reads it meanwhile. The lifetime is that of the caller's frame, which ends after the job.
        unsafe { *self.work.get() = Some(std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), Work>(work)) };
        self.pieces.store(pieces, Ordering::Relaxed);
        self.next.store(0, Ordering::Relaxed);
        let number = (self.state.load(Ordering::Relaxed) >> NUMBER).wrapping_add(1);
        self.state.store(number << NUMBER | OPEN, Ordering::SeqCst);
    }

    /// Draws pieces here, closes the job and waits for those inside.
    fn finish(&self, work: &(dyn Fn(usize) + Sync)) -> Result<(), Box<dyn Any + Send>> {
        let before = BUSY.replace(true);
        let mut result = catch_unwind(AssertUnwindSafe(|| self.draw(work)));
        if result.is_err() {
            self.next.store(usize::MAX / 2, Ordering::Relaxed);
        }
        // Nobody may join any more, and who has joined must leave.
        self.state.fetch_and(!OPEN, Ordering::AcqRel);
        let mut waits = 0u32;
        while self.state.load(Ordering::Acquire) & INSIDE != 0 {
            // A worker that the system has put aside in the middle of a piece needs the processor.
            waits += 1;
            if waits.is_multiple_of(4096) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        BUSY.set(before);
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

    /// Enters the job of this state if it is still open.
    fn join(&self, mut state: u64) -> bool {
        let number = state >> NUMBER;
        while state & OPEN != 0 && state >> NUMBER == number {
            match self.state.compare_exchange_weak(state, state + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// Draws pieces of the job that was joined, and leaves it.
    fn help(&self) {
        // SAFETY: inside an open job the work stays.
        let work = unsafe { (*self.work.get()).map(|w| &*w) };
        if let Some(work) = work
            && let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.draw(work)))
        {
            self.next.store(usize::MAX / 2, Ordering::Relaxed);
            self.panic.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(panic);
        }
        self.state.fetch_sub(1, Ordering::Release);
    }
}

/// Starts one more worker, unless the system refuses.
fn start_worker() -> bool {
    let index = POOL.started.load(Ordering::Relaxed);
    let made = std::thread::Builder::new().name(format!("torchtpu-cpu-{index}")).spawn(move || serve(index));
    let Ok(handle) = made else { return false };
    let _ = POOL.workers[index].thread.set(handle.thread().clone());
    POOL.started.store(index + 1, Ordering::Relaxed);
    true
}

/// The life of a worker.
fn serve(index: usize) {
    BUSY.set(true);
    let mut last = 0;
    loop {
        let state = wait(index, last);
        last = state >> NUMBER;
        if index < POOL.limit.load(Ordering::Relaxed) && POOL.job.join(state) {
            POOL.job.help();
        }
    }
}

/// Waits for an open job other than the last one.
fn wait(index: usize, last: u64) -> u64 {
    let worker = &POOL.workers[index];
    let ready = |state: u64| state & OPEN != 0 && state >> NUMBER != last;
    let start = Instant::now();
    loop {
        for _ in 0..32 {
            let state = POOL.job.state.load(Ordering::Acquire);
            if ready(state) {
                return state;
            }
            std::hint::spin_loop();
        }
        if start.elapsed() > SPIN {
            break;
        }
    }
    worker.asleep.store(true, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    loop {
        let state = POOL.job.state.load(Ordering::SeqCst);
        if ready(state) {
            worker.asleep.store(false, Ordering::Relaxed);
            return state;
        }
        std::thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// Runs every task on a thread of its own, later; or here, or never.
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
    fn lent_threads_do_their_part_or_come_too_late() {
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
