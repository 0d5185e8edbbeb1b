//! Model test of the thread pool's protocol: loom tries all interleavings.
//!
//! The file under test is included with loom's types instead of the standard library's. Loom reports a data race
//! (reading a piece's result before it is written, or the work while it is replaced), a deadlock (a worker that is
//! never woken), and every assertion that fails in some interleaving.

#![allow(dead_code)]

mod sync {
    pub(super) use loom::cell::UnsafeCell;
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
    pub(super) use loom::thread::park;

    pub(super) fn pause(_waits: u32) {
        loom::thread::yield_now();
    }
}

#[path = "../src/threads/job.rs"]
mod job;

use job::{Job, Sleeper};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

/// Run `test` in every interleaving with at most three preemptions. Few errors need more preemptions. Without this
/// bound, a test of three threads takes minutes.
fn interleavings(test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(test);
}

fn new_job() -> Job {
    Job::new(AtomicU64::new(0), UnsafeCell::new(None), AtomicUsize::new(0), AtomicUsize::new(0))
}

/// Cells that loom checks: unordered accesses by two threads are a data race.
struct Results(Vec<UnsafeCell<u32>>);

// SAFETY: loom checks that the accesses are ordered.
unsafe impl Sync for Results {}

impl Results {
    fn new(len: usize) -> Results {
        Results((0..len).map(|_| UnsafeCell::new(0)).collect())
    }

    fn add(&self, i: usize) {
        // SAFETY: loom checks that the accesses are ordered.
        self.0[i].with_mut(|cell| unsafe { *cell += 1 });
    }

    fn all_are(&self, count: u32) -> bool {
        // SAFETY: loom checks that the accesses are ordered.
        self.0.iter().all(|cell| cell.with(|cell| unsafe { *cell }) == count)
    }
}

fn run(job: &Job, pieces: usize, work: &(dyn Fn(usize) + Sync)) -> Result<(), Box<dyn std::any::Any + Send>> {
    // SAFETY: the job is finished on the next line, and only one thread opens jobs in these tests.
    unsafe { job.open(pieces, work) };
    job.finish(work)
}

#[test]
fn every_piece_runs_once_before_the_job_ends() {
    interleavings(|| {
        let job = Arc::new(new_job());
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let job = job.clone();
                loom::thread::spawn(move || {
                    if job.join(job.state()) {
                        job.help();
                    }
                })
            })
            .collect();
        let results = Results::new(2);
        assert!(run(&job, 2, &|i| results.add(i)).is_ok());
        assert!(results.all_are(1));
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

#[test]
fn a_late_worker_cannot_join_the_next_job_with_an_old_state() {
    interleavings(|| {
        let job = Arc::new(new_job());
        let late = {
            let job = job.clone();
            loom::thread::spawn(move || {
                for _ in 0..2 {
                    if job.join(job.state()) {
                        job.help();
                    }
                }
            })
        };
        for _ in 0..2 {
            // The results of a job are dropped before the next one starts, like a caller's frame.
            let results = Results::new(2);
            assert!(run(&job, 2, &|i| results.add(i)).is_ok());
            assert!(results.all_are(1));
        }
        late.join().unwrap();
    });
}

#[test]
fn a_sleeping_worker_is_woken_for_every_job() {
    interleavings(|| {
        let job = Arc::new(new_job());
        let sleeper = Arc::new(Sleeper::new(AtomicBool::new(false)));
        let worker = {
            let (job, sleeper) = (job.clone(), sleeper.clone());
            loom::thread::spawn(move || {
                // A worker that is not woken parks forever, which loom reports as a deadlock.
                let state = sleeper.sleep(&job, 0);
                assert_eq!(job::number(state), 1);
            })
        };
        // SAFETY: the job is finished below.
        unsafe { job.open(1, &|_| {}) };
        job::fence_after_open();
        if sleeper.is_asleep() {
            worker.thread().unpark();
        }
        // Keep the job open until the worker has seen it. In the pool, a worker may miss a job.
        worker.join().unwrap();
        assert!(job.finish(&|_| {}).is_ok());
    });
}

#[test]
fn a_panic_in_a_worker_reaches_the_caller() {
    interleavings(|| {
        let job = Arc::new(new_job());
        let worker = {
            let job = job.clone();
            loom::thread::spawn(move || {
                if job.join(job.state()) {
                    job.help();
                }
            })
        };
        let result = run(&job, 2, &|i| {
            if i == 1 {
                std::panic::resume_unwind(Box::new("piece 1"));
            }
        });
        assert_eq!(*result.unwrap_err().downcast::<&str>().unwrap(), "piece 1");
        worker.join().unwrap();
    });
}
