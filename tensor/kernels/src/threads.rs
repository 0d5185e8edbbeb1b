//! Threads: the one place that names rayon.
//!
//! A range is cut into one piece per thread, at places that depend on the range, the grain and the thread count only, so
//! that whatever is computed piece by piece is the same from run to run. The caller works on the first piece itself.

use parking::Pool;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that kernels use; zero until first asked for.
static THREADS: AtomicUsize = AtomicUsize::new(0);

mod parking {
    //! The pool behind a lock: built at the first large kernel, replaced when the thread count changes.

    use std::sync::{Arc, RwLock};

    pub(super) type Pool = Arc<rayon::ThreadPool>;
    static POOL: RwLock<Option<Pool>> = RwLock::new(None);

    /// A pool of `workers` threads, or none if the system refuses to start them.
    pub(super) fn pool(workers: usize) -> Option<Pool> {
        if let Some(p) = POOL.read().unwrap_or_else(|e| e.into_inner()).as_ref() {
            if p.current_num_threads() == workers {
                return Some(p.clone());
            }
        }
        let mut slot = POOL.write().unwrap_or_else(|e| e.into_inner());
        match slot.as_ref() {
            Some(p) if p.current_num_threads() == workers => Some(p.clone()),
            _ => {
                let made = rayon::ThreadPoolBuilder::new()
                    .num_threads(workers)
                    .thread_name(|i| format!("torchtpu-cpu-{i}"))
                    .build()
                    .ok()
                    .map(Arc::new);
                slot.clone_from(&made);
                made
            }
        }
    }
}

/// How many threads a kernel may use: `OMP_NUM_THREADS` if set, else what the machine has, until
/// [`set_num_threads`] says otherwise.
#[inline]
pub fn num_threads() -> usize {
    match THREADS.load(Ordering::Relaxed) {
        0 => {
            let asked = std::env::var("OMP_NUM_THREADS").ok().and_then(|v| v.trim().parse().ok()).filter(|&n| n > 0);
            let n = asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
            // Another thread may have set a count meanwhile; that one stays.
            let _ = THREADS.compare_exchange(0, n, Ordering::Relaxed, Ordering::Relaxed);
            THREADS.load(Ordering::Relaxed)
        }
        n => n,
    }
}

/// Sets how many threads kernels use from now on; zero counts as one.
pub fn set_num_threads(n: usize) {
    THREADS.store(n.max(1), Ordering::Relaxed);
}

/// Whether the calling thread is one of the pool's own, whose kernels run alone.
pub fn in_parallel_region() -> bool {
    rayon::current_thread_index().is_some()
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

#[cold]
fn parallel_pieces(n: usize, grain: usize, work: &(dyn Fn(Range<usize>) + Sync)) {
    let pieces = num_threads().min(n / grain.max(1)).max(1);
    if pieces == 1 || in_parallel_region() {
        return work(0..n);
    }
    let Some(pool): Option<Pool> = parking::pool(num_threads() - 1) else {
        return work(0..n);
    };
    let piece = n.div_ceil(pieces);
    // Whole cache lines to each thread, whatever the element size.
    let piece = if piece >= 1024 { piece.next_multiple_of(64) } else { piece };
    pool.in_place_scope(|scope| {
        let mut start = piece;
        while start < n {
            let end = (start + piece).min(n);
            scope.spawn(move |_| work(start..end));
            start = end;
        }
        work(0..piece.min(n));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
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
}
