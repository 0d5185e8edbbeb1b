//! A thread that launches what blocks its launcher.
//!
//! PJRT launches are meant to return at once, and for most programs they do. XLA:CPU computes on the calling thread wherever an
//! argument is donated, which is every training step. Such programs, known by the time that their launches took, are handed to
//! one thread, so that recording goes on. Short ones are launched where they are cut: waking a thread would take longer.
//!
//! Launches keep the order of their cuts: while the thread has work, everything goes through it.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

type Job = Box<dyn FnOnce() + Send>;

/// Launches that wait for the thread, or are under way on it, at most; it bounds the memory they need.
const MAX_WAITING: usize = 2;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    running: bool,
}

#[derive(Default)]
pub(crate) struct Worker {
    queue: Mutex<Queue>,
    work: Condvar,
    done: Condvar,
}

static STARTED: OnceLock<bool> = OnceLock::new();

impl Worker {
    /// Whether a launch now would overtake others.
    pub(crate) fn is_busy(&self) -> bool {
        let q = self.queue.lock();
        q.running || !q.jobs.is_empty()
    }

    /// Has `job` run after all earlier ones; waits while there are too many. Runs it here where no thread can be had.
    pub(crate) fn submit(&'static self, job: Job) {
        let spawn = || std::thread::Builder::new().name("torchtpu-launch".into()).spawn(move || self.serve()).is_ok();
        if !*STARTED.get_or_init(spawn) {
            return job();
        }
        let mut q = self.queue.lock();
        while q.jobs.len() + usize::from(q.running) >= MAX_WAITING {
            self.done.wait(&mut q);
        }
        q.jobs.push_back(job);
        drop(q);
        self.work.notify_one();
    }

    /// Waits until every submitted job has run.
    pub(crate) fn drain(&self) {
        let mut q = self.queue.lock();
        while q.running || !q.jobs.is_empty() {
            self.done.wait(&mut q);
        }
    }

    fn serve(&self) {
        let mut q = self.queue.lock();
        loop {
            match q.jobs.pop_front() {
                Some(job) => {
                    q.running = true;
                    drop(q);
                    // A job fails its own values when it panics; the thread must outlive it.
                    let _ = catch_unwind(AssertUnwindSafe(job));
                    q = self.queue.lock();
                    q.running = false;
                    self.done.notify_all();
                }
                None => self.work.wait(&mut q),
            }
        }
    }
}
