//! A store in the memory of this process.

use super::{DEFAULT_TIMEOUT, Deadline, Store, Timeout, check_interrupt, wait_timeout};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use torchtpu_tensor::{Error, Result};

/// Keys with their values, and queues: the content of a [`HashStore`], and of the server of a
/// [`TcpStore`](super::TcpStore). Keys are bytes, since clients in other languages may send any.
#[derive(Default)]
pub(super) struct Table {
    values: HashMap<Vec<u8>, Vec<u8>>,
    queues: HashMap<Vec<u8>, VecDeque<Vec<u8>>>,
}

impl Table {
    pub(super) fn set(&mut self, key: &[u8], value: &[u8]) {
        match self.values.get_mut(key) {
            Some(old) => {
                old.clear();
                old.extend_from_slice(value);
            }
            None => drop(self.values.insert(key.to_vec(), value.to_vec())),
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.values.get(key).map(Vec::as_slice)
    }

    pub(super) fn add(&mut self, key: &[u8], amount: i64) -> Result<i64> {
        let sum = add_to(self.get(key), amount, key)?;
        self.set(key, sum.to_string().as_bytes());
        Ok(sum)
    }

    /// Return the value afterwards, and whether it was set.
    pub(super) fn compare_set(&mut self, key: &[u8], expected: &[u8], desired: &[u8]) -> (Vec<u8>, bool) {
        match self.get(key) {
            None if !expected.is_empty() => (expected.to_vec(), false),
            Some(value) if value != expected => (value.to_vec(), false),
            _ => {
                self.set(key, desired);
                (desired.to_vec(), true)
            }
        }
    }

    pub(super) fn delete(&mut self, key: &[u8]) -> bool {
        self.values.remove(key).is_some()
    }

    pub(super) fn append(&mut self, key: &[u8], value: &[u8]) {
        match self.values.get_mut(key) {
            Some(old) => old.extend_from_slice(value),
            None => self.set(key, value),
        }
    }

    /// Whether `key` has a value, or a queue of this name is not empty.
    pub(super) fn contains(&self, key: &[u8]) -> bool {
        self.values.contains_key(key) || self.queues.contains_key(key)
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn keys(&self) -> Vec<&[u8]> {
        let mut keys: Vec<&[u8]> = self.values.keys().map(Vec::as_slice).collect();
        keys.sort_unstable();
        keys
    }

    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.queues.entry(key.to_vec()).or_default().push_back(value.to_vec());
    }

    pub(super) fn pop(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let queue = self.queues.get_mut(key)?;
        let value = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(key);
        }
        value
    }

    pub(super) fn queue_len(&self, key: &[u8]) -> usize {
        self.queues.get(key).map_or(0, VecDeque::len)
    }
}

/// Return `amount` plus the decimal number `value` of `key`.
pub(super) fn add_to(value: Option<&[u8]>, amount: i64, key: &[u8]) -> Result<i64> {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(amount) };
    let number = std::str::from_utf8(value).ok().and_then(|text| text.trim().parse::<i64>().ok());
    let sum = number.and_then(|number| number.checked_add(amount));
    sum.ok_or_else(|| {
        let (key, shown) = (String::from_utf8_lossy(key), String::from_utf8_lossy(&value[..value.len().min(40)]));
        Error::value(format!("add: key '{key}' holds {shown:?}, it must be a number of 64 bits, as must the sum"))
    })
}

/// A store in the memory of this process. Threads share it by `Arc`.
pub struct HashStore {
    table: Mutex<Table>,
    changed: Condvar,
    timeout: Timeout,
}

impl HashStore {
    /// An empty store.
    pub fn new() -> HashStore {
        HashStore { table: Mutex::default(), changed: Condvar::new(), timeout: Timeout::new(DEFAULT_TIMEOUT) }
    }

    /// Wait until `ready` returns a value, and return it. `missing` names keys for the error.
    fn wait_until<R>(
        &self,
        timeout: Duration,
        mut ready: impl FnMut(&mut Table) -> Option<R>,
        missing: impl Fn(&Table) -> Vec<String>,
    ) -> Result<R> {
        let deadline = Deadline::after(timeout);
        let mut table = self.table.lock();
        loop {
            if let Some(value) = ready(&mut table) {
                return Ok(value);
            }
            let Some(slice) = deadline.slice() else { return Err(wait_timeout(timeout, &missing(&table))) };
            if self.changed.wait_for(&mut table, slice).timed_out() {
                // The check may need the interpreter's lock, so it runs without the table's.
                MutexGuard::unlocked(&mut table, check_interrupt)?;
            }
        }
    }
}

impl Default for HashStore {
    fn default() -> HashStore {
        HashStore::new()
    }
}

/// The keys that `table` lacks.
fn absent(table: &Table, keys: &[&str]) -> Vec<String> {
    keys.iter().filter(|key| !table.contains(key.as_bytes())).map(|key| key.to_string()).collect()
}

impl Store for HashStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.table.lock().set(key.as_bytes(), value);
        self.changed.notify_all();
        Ok(())
    }

    fn get(&self, key: &str) -> Result<Vec<u8>> {
        self.wait_until(
            self.timeout(),
            |table| table.get(key.as_bytes()).map(<[u8]>::to_vec),
            |_| vec![key.to_string()],
        )
    }

    fn add(&self, key: &str, amount: i64) -> Result<i64> {
        let sum = self.table.lock().add(key.as_bytes(), amount)?;
        self.changed.notify_all();
        Ok(sum)
    }

    fn check(&self, keys: &[&str]) -> Result<bool> {
        let table = self.table.lock();
        Ok(keys.iter().all(|key| table.contains(key.as_bytes())))
    }

    fn wait(&self, keys: &[&str], timeout: Option<Duration>) -> Result<()> {
        let timeout = timeout.unwrap_or_else(|| self.timeout());
        self.wait_until(
            timeout,
            |table| keys.iter().all(|key| table.contains(key.as_bytes())).then_some(()),
            |table| absent(table, keys),
        )
    }

    fn timeout(&self) -> Duration {
        self.timeout.get()
    }

    fn set_timeout(&self, timeout: Duration) {
        self.timeout.set(timeout);
    }

    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>> {
        let (value, is_set) = self.table.lock().compare_set(key.as_bytes(), expected, desired);
        if is_set {
            self.changed.notify_all();
        }
        Ok(value)
    }

    fn delete_key(&self, key: &str) -> Result<bool> {
        Ok(self.table.lock().delete(key.as_bytes()))
    }

    fn num_keys(&self) -> Result<i64> {
        Ok(self.table.lock().len() as i64)
    }

    fn append(&self, key: &str, value: &[u8]) -> Result<()> {
        self.table.lock().append(key.as_bytes(), value);
        self.changed.notify_all();
        Ok(())
    }

    fn multi_get(&self, keys: &[&str]) -> Result<Vec<Vec<u8>>> {
        self.wait_until(
            self.timeout(),
            |table| keys.iter().map(|key| table.get(key.as_bytes()).map(<[u8]>::to_vec)).collect::<Option<Vec<_>>>(),
            |table| absent(table, keys),
        )
    }

    fn multi_set(&self, keys: &[&str], values: &[&[u8]]) -> Result<()> {
        super::expect_pairs(keys, values)?;
        let mut table = self.table.lock();
        for (key, value) in keys.iter().zip(values) {
            table.set(key.as_bytes(), value);
        }
        self.changed.notify_all();
        Ok(())
    }

    fn has_extended_api(&self) -> bool {
        true
    }

    fn queue_push(&self, key: &str, value: &[u8]) -> Result<()> {
        self.table.lock().push(key.as_bytes(), value);
        self.changed.notify_all();
        Ok(())
    }

    fn queue_pop(&self, key: &str, block: bool) -> Result<Vec<u8>> {
        if !block {
            return self.table.lock().pop(key.as_bytes()).ok_or_else(|| super::queue_empty(key));
        }
        self.wait_until(self.timeout(), |table| table.pop(key.as_bytes()), |_| vec![key.to_string()])
    }

    fn queue_len(&self, key: &str) -> Result<i64> {
        Ok(self.table.lock().queue_len(key.as_bytes()) as i64)
    }

    fn list_keys(&self) -> Result<Vec<String>> {
        let table = self.table.lock();
        Ok(table.keys().into_iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect())
    }
}
