//! Key-value stores that processes share: the meeting point of a job before its process group exists.
//!
//! A [`TcpStore`] works between machines. A [`FileStore`] needs a file system that all processes share. A [`HashStore`]
//! works between threads of one process. A [`PrefixStore`] keeps the keys of one user of a store apart from others.

mod file;
mod hash;
mod prefix;
mod tcp;

pub use file::FileStore;
pub use hash::HashStore;
pub use prefix::PrefixStore;
pub use tcp::{DEFAULT_PORT, TcpOptions, TcpStore};

use parking_lot::Mutex;
use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use torchtpu_tensor::{Error, ErrorKind, Result};

/// The timeout of a new store.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// The timeout that means: wait for ever.
pub const NO_TIMEOUT: Duration = Duration::ZERO;

/// A key-value store. Calls that wait give up after the store's timeout with an error of kind
/// [`DistStore`](ErrorKind::DistStore).
///
/// A method with a body that only fails is one that PyTorch's stores may also lack.
pub trait Store: Send + Sync {
    /// Set `key` to `value`.
    fn set(&self, key: &str, value: &[u8]) -> Result<()>;

    /// Return the value of `key`. Wait until some process sets it.
    fn get(&self, key: &str) -> Result<Vec<u8>>;

    /// Add `amount` to the decimal number at `key`, and return the sum. An absent key counts as 0.
    fn add(&self, key: &str, amount: i64) -> Result<i64>;

    /// Whether all `keys` are present. Does not wait.
    fn check(&self, keys: &[&str]) -> Result<bool>;

    /// Wait until all `keys` are present. `timeout` replaces the store's timeout for this call.
    fn wait(&self, keys: &[&str], timeout: Option<Duration>) -> Result<()>;

    /// Return the timeout of calls that wait.
    fn timeout(&self) -> Duration;

    /// Set the timeout of calls that wait. [`NO_TIMEOUT`] waits for ever.
    fn set_timeout(&self, timeout: Duration);

    /// Return a number of the object that all stores around it have, too. It tells jobs in one process apart.
    fn identity(&self) -> usize {
        std::ptr::from_ref(self).cast::<u8>().addr()
    }

    /// Set `key` to `desired` if its value is `expected`, or if it is absent and `expected` is empty. Return the value
    /// afterwards, or `expected` if the key is absent.
    fn compare_set(&self, _key: &str, _expected: &[u8], _desired: &[u8]) -> Result<Vec<u8>> {
        Err(Error::not_implemented("Not implemented."))
    }

    /// Delete `key`. Return whether it was present.
    fn delete_key(&self, _key: &str) -> Result<bool> {
        Err(Error::not_implemented("Not implemented."))
    }

    /// Return the number of keys, queues not counted.
    fn num_keys(&self) -> Result<i64> {
        Err(Error::not_implemented("Not implemented."))
    }

    /// Append `value` to the value of `key`. An absent key counts as empty.
    fn append(&self, key: &str, value: &[u8]) -> Result<()> {
        append_by_compare_set(self, key, value)
    }

    /// Return the values of `keys`. Wait until all are present.
    fn multi_get(&self, keys: &[&str]) -> Result<Vec<Vec<u8>>> {
        get_each(self, keys)
    }

    /// Set each of `keys` to its value. The two slices have one length.
    fn multi_set(&self, keys: &[&str], values: &[&[u8]]) -> Result<()> {
        set_each(self, keys, values)
    }

    /// Whether `append`, `multi_get` and `multi_set` cost no more than one call.
    fn has_extended_api(&self) -> bool {
        false
    }

    /// Append `value` to the queue `key`.
    fn queue_push(&self, _key: &str, _value: &[u8]) -> Result<()> {
        Err(Error::not_implemented("queue support is not implemented."))
    }

    /// Take the first value of the queue `key`. If the queue is empty, wait, or without `block` fail with an error of
    /// kind [`DistQueueEmpty`](ErrorKind::DistQueueEmpty).
    fn queue_pop(&self, _key: &str, _block: bool) -> Result<Vec<u8>> {
        Err(Error::not_implemented("queue support is not implemented."))
    }

    /// Return the number of values in the queue `key`.
    fn queue_len(&self, _key: &str) -> Result<i64> {
        Err(Error::not_implemented("queue support is not implemented."))
    }

    /// Return all keys, in any order.
    fn list_keys(&self) -> Result<Vec<String>> {
        Err(Error::not_implemented("listKeys support is not implemented."))
    }

    /// Count this process at the barrier `key`, and wait until `world_size` processes have been counted. `timeout`
    /// replaces the store's timeout for this call. A key serves one barrier.
    fn barrier(&self, key: &str, world_size: usize, timeout: Option<Duration>) -> Result<()> {
        let (members, last) = (format!("{key}/num_members"), format!("{key}/last_member"));
        if self.add(&members, 1)? >= world_size as i64 {
            self.set(&last, b"1")?;
        }
        self.wait(&[&last], timeout)
    }
}

/// Append `value` to the value of `key` with [`Store::compare_set`]: what [`Store::append`] does by default.
pub fn append_by_compare_set<S: Store + ?Sized>(store: &S, key: &str, value: &[u8]) -> Result<()> {
    let mut expected = Vec::new();
    loop {
        let desired = [&expected[..], value].concat();
        let found = store.compare_set(key, &expected, &desired)?;
        if found == desired {
            return Ok(());
        }
        // The answer `expected` means that the key is absent now.
        expected = if found == expected { Vec::new() } else { found };
    }
}

/// Return the values of `keys` with [`Store::get`]: what [`Store::multi_get`] does by default.
pub fn get_each<S: Store + ?Sized>(store: &S, keys: &[&str]) -> Result<Vec<Vec<u8>>> {
    keys.iter().map(|key| store.get(key)).collect()
}

/// Set each of `keys` with [`Store::set`]: what [`Store::multi_set`] does by default.
pub fn set_each<S: Store + ?Sized>(store: &S, keys: &[&str], values: &[&[u8]]) -> Result<()> {
    expect_pairs(keys, values)?;
    keys.iter().zip(values).try_for_each(|(key, value)| store.set(key, value))
}

/// Function that says whether the user wants a wait to end, as by Ctrl-C. It returns the error to raise.
pub type InterruptCheck = fn() -> Result<()>;

static INTERRUPT: OnceLock<InterruptCheck> = OnceLock::new();

/// Longest time between two checks for an interrupt while a call waits.
pub(crate) const SLICE: Duration = Duration::from_millis(100);

/// Install the function that waiting calls of this crate ask several times a second. The first one stays.
pub fn install_interrupt_check(check: InterruptCheck) {
    // A second module of the same process has the same signals, so its check would do the same.
    let _ = INTERRUPT.set(check);
}

/// Fail if the user interrupted the program. Waiting calls ask this between slices, holding no lock.
pub fn check_interrupt() -> Result<()> {
    INTERRUPT.get().map_or(Ok(()), |check| check())
}

/// The end of a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    end: Option<Instant>,
    timeout: Duration,
}

impl Deadline {
    /// A wait of `timeout` that begins now.
    pub(crate) fn after(timeout: Duration) -> Deadline {
        let end = if timeout == NO_TIMEOUT { None } else { Instant::now().checked_add(timeout) };
        Deadline { end, timeout }
    }

    /// The time until the next check for an interrupt, or `None` if the wait is over.
    pub(crate) fn slice(&self) -> Option<Duration> {
        let Some(end) = self.end else { return Some(SLICE) };
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() { None } else { Some(left.min(SLICE)) }
    }

    /// The time until the end. `None` is no end.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.end.map(|end| end.saturating_duration_since(Instant::now()))
    }

    /// The whole time of the wait.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }
}

/// A timeout that threads share.
#[derive(Debug)]
pub(crate) struct Timeout(Mutex<Duration>);

impl Timeout {
    pub(crate) fn new(timeout: Duration) -> Timeout {
        Timeout(Mutex::new(timeout))
    }
    pub(crate) fn get(&self) -> Duration {
        *self.0.lock()
    }
    pub(crate) fn set(&self, timeout: Duration) {
        *self.0.lock() = timeout;
    }
}

/// The error of a wait for keys that ended too late.
#[cold]
pub(crate) fn wait_timeout<K: fmt::Display>(timeout: Duration, keys: &[K]) -> Error {
    const SHOWN: usize = 10;
    let mut names: Vec<String> = keys.iter().take(SHOWN).map(K::to_string).collect();
    if keys.len() > SHOWN {
        names.push(format!("and {} more", keys.len() - SHOWN));
    }
    let message = format!("wait timeout after {}ms, keys: {}", timeout.as_millis(), names.join(", "));
    Error::new(ErrorKind::DistStore, message)
}

/// The error of a pop from an empty queue.
#[cold]
pub(crate) fn queue_empty(key: &str) -> Error {
    Error::new(ErrorKind::DistQueueEmpty, format!("queue is empty: {key}"))
}

/// Check that there is one value for each key.
pub(crate) fn expect_pairs(keys: &[&str], values: &[&[u8]]) -> Result<()> {
    if keys.len() == values.len() {
        return Ok(());
    }
    let message = format!("multi_set: values: {} values, must be as many as keys, {}", values.len(), keys.len());
    Err(Error::value(message))
}
