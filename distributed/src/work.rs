//! The handle of a collective that runs on another thread.

use crate::store::check_interrupt;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use torchtpu_tensor::{Error, ErrorKind, Result};

/// Longest sleep between two checks for an interrupt.
const SLICE: Duration = Duration::from_millis(100);

/// How long a thread of callbacks waits for the next one before it ends.
const IDLE_TIME: Duration = Duration::from_secs(10);

/// Memory that a collective reads or writes while the caller goes on.
pub trait Memory: Send {
    /// The bytes.
    fn bytes(&self) -> &[u8];
    /// The bytes, for writing.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// Take the bytes of an output over, once all of them are written. The work ends after this call.
    ///
    /// # Errors
    /// Fails if the bytes cannot be moved to their place. This is then the error of the work.
    fn complete(&mut self) -> Result<()> {
        Ok(())
    }
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

/// A function that is called when a work ends, with its error if it has one.
type Callback = Box<dyn FnOnce(Option<Error>) + Send>;

enum Outcome {
    Running(Vec<Callback>),
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
        let (outcome, ended) = (Mutex::new(Outcome::Running(Vec::new())), Condvar::new());
        Promise(Arc::new(Shared { outcome, ended, name, source: Mutex::new(None) }))
    }
    pub(crate) fn work(&self) -> Work {
        Work(self.clone())
    }
    /// End the work with its output or error.
    pub(crate) fn finish(&self, result: Result<Box<dyn Memory>>) {
        let result = result.and_then(|mut output| output.complete().map(|()| output));
        let error = result.as_ref().err().map(Told::of);
        let outcome = match result {
            Ok(output) => Outcome::Done(Some(output)),
            Err(error) => Outcome::Failed(Told::of(&error)),
        };
        let before = std::mem::replace(&mut *self.0.outcome.lock(), outcome);
        self.0.ended.notify_all();
        if let Outcome::Running(callbacks) = before {
            callbacks.into_iter().for_each(|f| call_later(f, error.clone()));
        }
    }
    /// Note the rank that a message came from.
    pub(crate) fn set_source(&self, rank: usize) {
        *self.0.source.lock() = Some(rank);
    }
    pub(crate) fn is_finished(&self) -> bool {
        !matches!(*self.0.outcome.lock(), Outcome::Running(_))
    }
}

/// Functions that wait for a thread, and the number of threads that wait for functions.
struct Callbacks {
    waiting: VecDeque<Box<dyn FnOnce() + Send>>,
    idle: usize,
}

static CALLBACKS: Mutex<Callbacks> = Mutex::new(Callbacks { waiting: VecDeque::new(), idle: 0 });
static CALLBACK_ADDED: Condvar = Condvar::new();

/// Call a function on a thread of its own, or on one that has ended an earlier function. The caller may hold locks of
/// its group, and the function may start collectives, and wait for other callbacks.
fn call_later(f: Callback, error: Option<Told>) {
    let mut callbacks = CALLBACKS.lock();
    callbacks.waiting.push_back(Box::new(move || f(error.map(|e| e.error()))));
    if callbacks.waiting.len() <= callbacks.idle {
        CALLBACK_ADDED.notify_one();
        return;
    }
    if std::thread::Builder::new().name("group-callbacks".into()).spawn(call_back).is_err() {
        // A thread that ends its function takes this one.
        CALLBACK_ADDED.notify_one();
    }
}

fn call_back() {
    let mut callbacks = CALLBACKS.lock();
    loop {
        if let Some(f) = callbacks.waiting.pop_front() {
            MutexGuard::unlocked(&mut callbacks, f);
            continue;
        }
        callbacks.idle += 1;
        let is_late = CALLBACK_ADDED.wait_for(&mut callbacks, IDLE_TIME).timed_out();
        callbacks.idle -= 1;
        if is_late && callbacks.waiting.is_empty() {
            return;
        }
    }
}

impl Work {
    /// Call `f` when the work has ended, with its error if it failed. If it has ended already, call `f` at once, else
    /// on a thread of callbacks.
    pub fn on_finish(&self, f: impl FnOnce(Option<Error>) + Send + 'static) {
        let error = match &mut *self.0.0.outcome.lock() {
            Outcome::Running(callbacks) => return callbacks.push(Box::new(f)),
            Outcome::Done(_) => None,
            Outcome::Failed(told) => Some(told.error()),
        };
        f(error);
    }

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
                Outcome::Running(_) => {}
            }
            if deadline.is_some_and(|d| Instant::now() >= d) {
                let (name, limit) = (shared.name, timeout.unwrap_or_default());
                let message = format!("{name}: wait timed out after {} ms", limit.as_millis());
                return Err(Error::new(ErrorKind::DistBackend, message));
            }
            let slice = deadline.map_or(SLICE, |d| d.saturating_duration_since(Instant::now()).min(SLICE));
            shared.ended.wait_for(&mut outcome, slice);
            if matches!(*outcome, Outcome::Running(_)) {
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
