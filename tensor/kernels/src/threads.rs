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
use std::sync::{Mutex, OnceLock};
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
    parallel_pieces(n, grain, &work);
}

/// Pieces for each thread: with more than one, a thread that was held up leaves its share to the others.
const PIECES_PER_THREAD: usize = 4;

#[cold]
fn parallel_pieces(n: usize, grain: usize, work: &(dyn Fn(Range<usize>) + Sync)) {
    let threads = num_threads();
    let pieces = (n / grain.max(1)).clamp(1, PIECES_PER_THREAD * threads);
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

/// In `Pool::state`: a job may be joined.
const OPEN: u64 = 1 << 16;
/// In `Pool::state`: the workers that are at the job.
const INSIDE: u64 = OPEN - 1;
/// In `Pool::state`: the number of the job, from this bit on.
const NUMBER: u32 = 32;

type Work = *const (dyn Fn(usize) + Sync);

struct Worker {
    thread: OnceLock<Thread>,
    asleep: AtomicBool,
}

struct Pool {
    /// Held by the thread whose job it is.
    taken: AtomicBool,
    state: AtomicU64,
    work: UnsafeCell<Option<Work>>,
    pieces: AtomicUsize,
    next: AtomicUsize,
    /// Workers that may join the job.
    limit: AtomicUsize,
    started: AtomicUsize,
    workers: [Worker; MAX_WORKERS],
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `work` is written by the holder of `taken` while the job is closed and no worker is inside, and read by workers
// inside an open job only.
unsafe impl Sync for Pool {}

static POOL: Pool = Pool {
    taken: AtomicBool::new(false),
    state: AtomicU64::new(0),
    work: UnsafeCell::new(None),
    pieces: AtomicUsize::new(0),
    next: AtomicUsize::new(0),
    limit: AtomicUsize::new(0),
    started: AtomicUsize::new(0),
    workers: [const { Worker { thread: OnceLock::new(), asleep: AtomicBool::new(false) } }; MAX_WORKERS],
    panic: Mutex::new(None),
};

/// Calls `work(i)` for `i` in `0..pieces`, here and on up to `workers` other threads.
fn run(workers: usize, pieces: usize, work: &(dyn Fn(usize) + Sync)) {
    let pool = &POOL;
    // A second thread with a job of its own meanwhile does it alone.
    if pool.taken.swap(true, Ordering::Acquire) {
        BUSY.set(true);
        let _busy = Reset;
        return (0..pieces).for_each(work);
    }
    let workers = workers.min(pieces - 1).min(MAX_WORKERS);
    while pool.started.load(Ordering::Relaxed) < workers && start_worker() {}
    // SAFETY: the job is closed and nobody inside. The lifetime is that of this call, which ends after the job.
    unsafe { *pool.work.get() = Some(std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), Work>(work)) };
    pool.pieces.store(pieces, Ordering::Relaxed);
    pool.next.store(0, Ordering::Relaxed);
    pool.limit.store(workers, Ordering::Relaxed);
    let number = (pool.state.load(Ordering::Relaxed) >> NUMBER).wrapping_add(1);
    pool.state.store(number << NUMBER | OPEN, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    for worker in &pool.workers[..workers] {
        if worker.asleep.load(Ordering::SeqCst)
            && let Some(thread) = worker.thread.get()
        {
            thread.unpark();
        }
    }
    BUSY.set(true);
    let mut result = catch_unwind(AssertUnwindSafe(|| draw(pool, work)));
    if result.is_err() {
        pool.next.store(usize::MAX / 2, Ordering::Relaxed);
    }
    // Nobody may join any more, and who has joined must leave.
    pool.state.fetch_and(!OPEN, Ordering::AcqRel);
    let mut waits = 0u32;
    while pool.state.load(Ordering::Acquire) & INSIDE != 0 {
        // A worker that the system has put aside in the middle of a piece needs the processor.
        waits += 1;
        if waits % 4096 == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
    }
    BUSY.set(false);
    if let Some(panic) = pool.panic.lock().unwrap_or_else(|e| e.into_inner()).take() {
        result = result.and(Err(panic));
    }
    pool.taken.store(false, Ordering::Release);
    if let Err(panic) = result {
        resume_unwind(panic);
    }
}

struct Reset;
impl Drop for Reset {
    fn drop(&mut self) {
        BUSY.set(false);
    }
}

fn draw(pool: &Pool, work: &(dyn Fn(usize) + Sync)) {
    let pieces = pool.pieces.load(Ordering::Relaxed);
    loop {
        let i = pool.next.fetch_add(1, Ordering::Relaxed);
        if i >= pieces {
            return;
        }
        work(i);
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
    let pool = &POOL;
    BUSY.set(true);
    let mut last = 0;
    loop {
        let state = wait(index, last);
        last = state >> NUMBER;
        if index >= pool.limit.load(Ordering::Relaxed) {
            continue;
        }
        if !join(state) {
            continue;
        }
        // SAFETY: inside an open job the work stays.
        let work = unsafe { (*pool.work.get()).map(|w| &*w) };
        if let Some(work) = work
            && let Err(panic) = catch_unwind(AssertUnwindSafe(|| draw(pool, work)))
        {
            pool.next.store(usize::MAX / 2, Ordering::Relaxed);
            pool.panic.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(panic);
        }
        pool.state.fetch_sub(1, Ordering::Release);
    }
}

/// Enters a job if it is still open.
fn join(mut state: u64) -> bool {
    let number = state >> NUMBER;
    while state & OPEN != 0 && state >> NUMBER == number {
        match POOL.state.compare_exchange_weak(state, state + 1, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => state = now,
        }
    }
    false
}

/// Waits for an open job other than the last one.
fn wait(index: usize, last: u64) -> u64 {
    let worker = &POOL.workers[index];
    let ready = |state: u64| state & OPEN != 0 && state >> NUMBER != last;
    let start = Instant::now();
    loop {
        for _ in 0..32 {
            let state = POOL.state.load(Ordering::Acquire);
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
        let state = POOL.state.load(Ordering::SeqCst);
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
