//! Threads that read batches ahead.
//!
//! A worker takes the next unread batch, unless it is too far ahead of the next requested batch. A batch that was read
//! waits for its turn.

use super::Batch;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use torchtpu_tensor::{Error, GradMode, Result, state};

type Read = dyn Fn(&[usize]) -> Batch + Send + Sync;

#[derive(Default)]
struct Progress {
    /// Index of the next batch to read.
    to_read: usize,
    /// Index of the next batch to return.
    to_give: usize,
    /// Batches that wait for their turn.
    read: BTreeMap<usize, Batch>,
    stopped: bool,
}

struct Shared {
    progress: Mutex<Progress>,
    /// Signals that a batch was read.
    arrived: Condvar,
    /// Signals that a batch was returned, or that workers must stop.
    wanted: Condvar,
    batches: Vec<Vec<usize>>,
    ahead: usize,
    read: Arc<Read>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
    }
    /// Run a worker: read batches until none is left or the pass is dropped.
    fn work(&self, worker: usize) {
        loop {
            let mut p = self.lock();
            while !p.stopped && p.to_read < self.batches.len() && p.to_read >= p.to_give + self.ahead {
                self.wanted.wait(&mut p);
            }
            if p.stopped || p.to_read >= self.batches.len() {
                return;
            }
            let at = p.to_read;
            p.to_read += 1;
            drop(p);
            let batch = catch_unwind(AssertUnwindSafe(|| (self.read)(&self.batches[at])));
            let batch = batch.unwrap_or_else(|cause| Err(panicked(worker, &*cause)));
            self.lock().read.insert(at, batch);
            self.arrived.notify_all();
        }
    }
}

fn panicked(worker: usize, cause: &(dyn Any + Send)) -> Error {
    let text = match (cause.downcast_ref::<&str>(), cause.downcast_ref::<String>()) {
        (Some(s), _) => s,
        (None, Some(s)) => s.as_str(),
        (None, None) => "no message",
    };
    Error::runtime(format!("Caught a panic in DataLoader worker {worker}: {text}"))
}

/// The workers of one pass.
pub(super) struct Workers(Arc<Shared>);

impl Workers {
    /// Start `count` threads that read at most `ahead` batches beyond the requested ones.
    pub fn start(count: usize, ahead: usize, batches: Vec<Vec<usize>>, read: Arc<Read>) -> Result<Workers> {
        let count = count.min(batches.len());
        let shared = Arc::new(Shared {
            progress: Mutex::default(),
            arrived: Condvar::new(),
            wanted: Condvar::new(),
            batches,
            ahead,
            read,
        });
        let workers = Workers(shared.clone());
        let grad = state::grad_enabled();
        for i in 0..count {
            let shared = shared.clone();
            let run = move || {
                let _mode = GradMode::set(grad);
                shared.work(i);
            };
            let name = format!("DataLoader {i}");
            // If one fails to start, dropping `workers` stops the others.
            std::thread::Builder::new()
                .name(name)
                .spawn(run)
                .map_err(|e| Error::runtime(format!("DataLoader: cannot start worker {i}: {e}")))?;
        }
        Ok(workers)
    }
    /// Return the next batch.
    pub fn next(&self) -> Option<Batch> {
        let mut p = self.0.lock();
        let at = p.to_give;
        if at >= self.0.batches.len() {
            return None;
        }
        loop {
            if let Some(batch) = p.read.remove(&at) {
                p.to_give += 1;
                self.0.wanted.notify_all();
                return Some(batch);
            }
            self.0.arrived.wait(&mut p);
        }
    }
    /// Return the number of batches left.
    pub fn left(&self) -> usize {
        self.0.batches.len() - self.0.lock().to_give
    }
}

/// Tell the workers to stop, but do not wait for them: one may be reading a slow sample.
impl Drop for Workers {
    fn drop(&mut self) {
        let waiting = {
            let mut p = self.0.lock();
            p.stopped = true;
            std::mem::take(&mut p.read)
        };
        self.0.wanted.notify_all();
        drop(waiting);
    }
}
