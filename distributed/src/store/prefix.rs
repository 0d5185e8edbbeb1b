//! A store whose keys are those of another store behind a prefix.

use super::Store;
use std::sync::Arc;
use std::time::Duration;
use torchtpu_tensor::Result;

/// A store that puts `prefix` and `/` before each key, and passes the call on.
pub struct PrefixStore {
    prefix: String,
    store: Arc<dyn Store>,
}

impl PrefixStore {
    /// The part of `store` with keys below `prefix`.
    pub fn new(prefix: impl Into<String>, store: Arc<dyn Store>) -> PrefixStore {
        PrefixStore { prefix: prefix.into(), store }
    }

    /// Return the store that calls are passed to.
    pub fn underlying_store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn join(&self, key: &str) -> String {
        format!("{}/{key}", self.prefix)
    }

    fn with_joined<R>(&self, keys: &[&str], f: impl FnOnce(&[&str]) -> R) -> R {
        let joined: Vec<String> = keys.iter().map(|key| self.join(key)).collect();
        f(&joined.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

impl Store for PrefixStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.store.set(&self.join(key), value)
    }

    fn get(&self, key: &str) -> Result<Vec<u8>> {
        self.store.get(&self.join(key))
    }

    fn add(&self, key: &str, amount: i64) -> Result<i64> {
        self.store.add(&self.join(key), amount)
    }

    fn check(&self, keys: &[&str]) -> Result<bool> {
        self.with_joined(keys, |keys| self.store.check(keys))
    }

    fn wait(&self, keys: &[&str], timeout: Option<Duration>) -> Result<()> {
        self.with_joined(keys, |keys| self.store.wait(keys, timeout))
    }

    fn timeout(&self) -> Duration {
        self.store.timeout()
    }

    fn identity(&self) -> usize {
        self.store.identity()
    }

    fn set_timeout(&self, timeout: Duration) {
        self.store.set_timeout(timeout);
    }

    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>> {
        self.store.compare_set(&self.join(key), expected, desired)
    }

    fn delete_key(&self, key: &str) -> Result<bool> {
        self.store.delete_key(&self.join(key))
    }

    /// Return the number of keys of the whole underlying store, as PyTorch does.
    fn num_keys(&self) -> Result<i64> {
        self.store.num_keys()
    }

    fn append(&self, key: &str, value: &[u8]) -> Result<()> {
        self.store.append(&self.join(key), value)
    }

    fn multi_get(&self, keys: &[&str]) -> Result<Vec<Vec<u8>>> {
        self.with_joined(keys, |keys| self.store.multi_get(keys))
    }

    fn multi_set(&self, keys: &[&str], values: &[&[u8]]) -> Result<()> {
        self.with_joined(keys, |keys| self.store.multi_set(keys, values))
    }

    fn has_extended_api(&self) -> bool {
        self.store.has_extended_api()
    }

    fn queue_push(&self, key: &str, value: &[u8]) -> Result<()> {
        self.store.queue_push(&self.join(key), value)
    }

    fn queue_pop(&self, key: &str, block: bool) -> Result<Vec<u8>> {
        self.store.queue_pop(&self.join(key), block)
    }

    fn queue_len(&self, key: &str) -> Result<i64> {
        self.store.queue_len(&self.join(key))
    }

    /// Return the keys behind the prefix, without it.
    fn list_keys(&self) -> Result<Vec<String>> {
        let prefix = self.join("");
        let keys = self.store.list_keys()?;
        Ok(keys.iter().filter_map(|key| key.strip_prefix(&prefix)).map(str::to_string).collect())
    }

    fn barrier(&self, key: &str, world_size: usize, timeout: Option<Duration>) -> Result<()> {
        self.store.barrier(&self.join(key), world_size, timeout)
    }
}
