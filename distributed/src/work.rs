//! The handle of a collective that runs on another thread.

use crate::store::check_interrupt;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::{Duration, Instant};
use torchtpu_tensor::{Error, ErrorKind, Result};

/// Longest sleep between two checks for an interrupt.
const SLICE: Duration = Duration::from_millis(100);

/// Memory that a collective reads or writes while the caller goes on.
pub trait Memory: Send {
    /// The bytes.
    fn bytes(&self) -> &[u8];
    /// The bytes, for writing.
    fn bytes_mut(&mut self) -> &mut [u8];
}

impl Memory for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

/// Kind, message and notes of an error, to be raised at each `wait`.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    kind: ErrorKind,
    message: String,
    notes: Vec<String>,
}

impl Told {
    pub(crate) fn of(error: &Error) -> Told {
        Told { kind: error.kind(), message: error.message().to_string(), notes: error.notes().to_vec() }
    }
    pub(crate) fn message(&self) -> &str {
        &self.message
    }
    pub(crate) fn error(&self) -> Error {
        self.notes.iter().fold(Error::new(self.kind, &*self.message), |e, note| e.note(&**note))
    }
}

enum Outcome {
    Running,
    Done(Option<Box<dyn Memory>>),
    Failed(Told),
}

#[derive(Clone)]
pub(crate) struct Promise(Arc<Shared>);

struct Shared {
    outcome: Mutex<Outcome>,
    ended: Condvar,
    name: &'static str,
    source: Mutex<Option<usize>>,
}

/// A collective or message in flight, as `torch.distributed.Work`.
pub struct Work(Promise);

impl Promise {
    pub(crate) fn new(name: &'static str) -> Promise {
        let (outcome, ended) = (Mutex::new(Outcome::Running), Condvar::new());
        Promise(Arc::new(Shared { outcome, ended, name, source: Mutex::new(None) }))
    }
    pub(crate) fn work(&self) -> Work {
        Work(self.clone())
    }
    /// End the work with its output or error.
    pub(crate) fn finish(&self, result: Result<Box<dyn Memory>>) {
        *self.0.outcome.lock() = match result {
            Ok(output) => Outcome::Done(Some(output)),
            Err(error) => Outcome::Failed(Told::of(&error)),
        };
        self.0.ended.notify_all();
    }
    /// Note the rank that a message came from.
    pub(crate) fn set_source(&self, rank: usize) {
        *self.0.source.lock() = Some(rank);
    }
    pub(crate) fn is_finished(&self) -> bool {
        !matches!(*self.0.outcome.lock(), Outcome::Running)
    }
}

impl Work {
    /// Wait until the work is done. Without `timeout`, the group's timeout limits the wait.
    ///
    /// # Errors
    /// Fails with the error of the work, or after `timeout`. The work goes on after a timeout of this call.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        let shared = &self.0.0;
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        let mut outcome = shared.outcome.lock();
        loop {
            match &*outcome {
                Outcome::Done(_) => return Ok(()),
                Outcome::Failed(told) => return Err(told.error()),
                Outcome::Running => {}
            }
            if deadline.is_some_and(|d| Instant::now() >= d) {
                let (name, limit) = (shared.name, timeout.unwrap_or_default());
                let message = format!("{name}: wait timed out after {} ms", limit.as_millis());
                return Err(Error::new(ErrorKind::DistBackend, message));
            }
            let slice = deadline.map_or(SLICE, |d| d.saturating_duration_since(Instant::now()).min(SLICE));
            shared.ended.wait_for(&mut outcome, slice);
            if matches!(*outcome, Outcome::Running) {
                drop(outcome);
                check_interrupt()?;
                outcome = shared.outcome.lock();
            }
        }
    }

    /// Whether the work has ended, well or with an error.
    pub fn is_completed(&self) -> bool {
        self.0.is_finished()
    }

    /// Return the error of the work, if it has ended with one.
    pub fn exception(&self) -> Option<Error> {
        match &*self.0.0.outcome.lock() {
            Outcome::Failed(told) => Some(told.error()),
            _ => None,
        }
    }

    /// Return the output, if the work has ended well. Only the first call gets it.
    pub fn result(&self) -> Option<Box<dyn Memory>> {
        match &mut *self.0.0.outcome.lock() {
            Outcome::Done(output) => output.take(),
            _ => None,
        }
    }

    /// Return the rank that a received message came from.
    pub fn source(&self) -> Option<usize> {
        *self.0.0.source.lock()
    }
}
