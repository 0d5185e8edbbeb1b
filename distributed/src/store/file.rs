//! A store in a file, for processes that share a file system. The file is PyTorch's, so processes with PyTorch can
//! share it.
//!
//! The file is a log of records, each a key and a value with their lengths as 32-bit numbers. The last record of a key
//! holds. Keys of users stand behind `/`. A record whose key begins with `-` deletes the rest of its key. Each access
//! locks the file with `flock(2)`.

use super::hash::add_to;
use super::{DEFAULT_TIMEOUT, Deadline, Store, Timeout, check_interrupt, expect_pairs, wait_timeout};
use crate::owner::Owner;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use torchtpu_tensor::{Error, ErrorKind, Result};

/// Counts the stores that have been dropped.
const CLEANUP: &str = "cleanup/";

/// Counts the stores that are open.
const OPEN: &str = "refcount/";

/// Time between two looks at the file. Shared file systems do not report changes.
const POLL: Duration = Duration::from_millis(10);

/// A store in a file.
pub struct FileStore {
    path: PathBuf,
    workers: Option<usize>,
    timeout: Timeout,
    log: Mutex<Log>,
    owner: Owner,
}

/// What this process has read of the file.
#[derive(Default)]
struct Log {
    end: u64,
    values: HashMap<String, Vec<u8>>,
}

impl FileStore {
    /// Open the store in the file `path`, and create the file if it is absent. The last of `workers` stores that is
    /// dropped deletes the file; without a number, no store does.
    pub fn new(path: impl AsRef<Path>, workers: Option<usize>) -> Result<FileStore> {
        let path = path.as_ref().to_path_buf();
        let (timeout, log) = (Timeout::new(DEFAULT_TIMEOUT), Mutex::default());
        let store = FileStore { path, workers, timeout, log, owner: Owner::new() };
        store.add_raw(OPEN, 1)?;
        Ok(store)
    }

    /// Return the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Return the number of stores that share the file, if it was given.
    pub fn workers(&self) -> Option<usize> {
        self.workers
    }

    #[cold]
    fn failed(&self, e: &io::Error) -> Error {
        Error::new(ErrorKind::DistStore, format!("FileStore: {}: {e}", self.path.display()))
    }

    /// Run `f` on the locked file, after reading what other processes have appended.
    fn locked<R>(&self, writes: bool, f: impl FnOnce(&mut Records<'_>) -> Result<R>) -> Result<R> {
        let mut log = self.log.lock();
        let mut file = self.open(writes)?;
        // Closing the file unlocks it.
        (if writes { file.lock() } else { file.lock_shared() }).map_err(|e| self.failed(&e))?;
        log.refresh(&mut file).map_err(|e| self.failed(&e))?;
        f(&mut Records { store: self, file, log: &mut log })
    }

    fn open(&self, writes: bool) -> Result<File> {
        let mut options = OpenOptions::new();
        options.read(true);
        if writes {
            options.append(true).create(true);
        }
        let deadline = Deadline::after(self.timeout());
        loop {
            match options.open(&self.path) {
                // Another process may create the file later.
                Err(e) if e.kind() == io::ErrorKind::NotFound && !writes => {
                    let Some(slice) = deadline.slice() else { return Err(self.failed(&e)) };
                    thread::sleep(slice.min(POLL));
                    check_interrupt()?;
                }
                result => return result.map_err(|e| self.failed(&e)),
            }
        }
    }

    fn add_raw(&self, key: &str, amount: i64) -> Result<i64> {
        self.locked(true, |records| {
            let sum = add_to(records.log.values.get(key).map(Vec::as_slice), amount, key.as_bytes())?;
            records.write(key, sum.to_string().as_bytes())?;
            Ok(sum)
        })
    }

    /// Wait until `ready` returns a value, and return it.
    fn wait_until<R>(
        &self,
        keys: &[&str],
        timeout: Duration,
        mut ready: impl FnMut(&mut Log) -> Option<R>,
    ) -> Result<R> {
        let deadline = Deadline::after(timeout);
        loop {
            if let Some(value) = self.locked(false, |records| Ok(ready(records.log)))? {
                return Ok(value);
            }
            let Some(slice) = deadline.slice() else {
                let log = self.log.lock();
                let absent: Vec<&&str> = keys.iter().filter(|key| !log.contains(key)).collect();
                return Err(wait_timeout(timeout, &absent));
            };
            thread::sleep(slice.min(POLL));
            check_interrupt()?;
        }
    }
}

impl Drop for FileStore {
    fn drop(&mut self) {
        // The program may have deleted the file, or its folder: do not make it again.
        if !self.owner.is_here() || !self.path.exists() {
            return;
        }
        let (Ok(dropped), Ok(open)) = (self.add_raw(CLEANUP, 1), self.add_raw(OPEN, -1)) else { return };
        if self.workers.is_some_and(|workers| dropped >= workers as i64) && open == 0 {
            // Another process may have been faster.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Log {
    fn get(&self, key: &str) -> Option<&[u8]> {
        self.values.get(&raw(key)).map(Vec::as_slice)
    }

    fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Read the records from `end` on.
    fn refresh(&mut self, file: &mut File) -> io::Result<()> {
        let size = file.metadata()?.len();
        if size < self.end {
            // The file was replaced by a shorter one.
            *self = Log::default();
        }
        if size == self.end {
            return Ok(());
        }
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(self.end))?;
        file.take(size - self.end).read_to_end(&mut bytes)?;
        let mut rest = bytes.as_slice();
        while let Some((key, value, after)) = record(rest) {
            let key = String::from_utf8_lossy(key).into_owned();
            match key.strip_prefix('-') {
                Some(deleted) => drop(self.values.remove(deleted)),
                None => drop(self.values.insert(key, value.to_vec())),
            }
            self.end += (rest.len() - after.len()) as u64;
            rest = after;
        }
        if rest.is_empty() {
            return Ok(());
        }
        // A process died while it wrote: later records cannot be found.
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("the record at byte {} is not complete", self.end)))
    }
}

/// Split the first record of `bytes` from the rest.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let text = |bytes: &'_ [u8]| -> Option<(usize, usize)> {
        let len = u32::from_ne_bytes(*bytes.first_chunk::<4>()?) as usize;
        (bytes.len() - 4 >= len).then_some((4, 4 + len))
    };
    let (start, end) = text(bytes)?;
    let (key, bytes) = (&bytes[start..end], &bytes[end..]);
    let (start, end) = text(bytes)?;
    Some((key, &bytes[start..end], &bytes[end..]))
}

/// The locked file.
struct Records<'a> {
    store: &'a FileStore,
    file: File,
    log: &'a mut Log,
}

impl Records<'_> {
    /// Append a record with one write, so that a process that dies leaves all of it or nothing.
    fn write(&mut self, key: &str, value: &[u8]) -> Result<()> {
        let mut bytes = Vec::with_capacity(8 + key.len() + value.len());
        for text in [key.as_bytes(), value] {
            let len = u32::try_from(text.len()).map_err(|_| {
                Error::value(format!("FileStore: value: {} bytes, must be less than 4 GiB", text.len()))
            })?;
            bytes.extend_from_slice(&len.to_ne_bytes());
            bytes.extend_from_slice(text);
        }
        self.file.write_all(&bytes).map_err(|e| self.store.failed(&e))
    }
}

/// The key of the file for a key of the user.
fn raw(key: &str) -> String {
    format!("/{key}")
}

impl Store for FileStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.locked(true, |records| records.write(&raw(key), value))
    }

    fn get(&self, key: &str) -> Result<Vec<u8>> {
        self.wait_until(&[key], self.timeout(), |log| log.get(key).map(<[u8]>::to_vec))
    }

    fn add(&self, key: &str, amount: i64) -> Result<i64> {
        self.add_raw(&raw(key), amount)
    }

    fn check(&self, keys: &[&str]) -> Result<bool> {
        self.locked(false, |records| Ok(keys.iter().all(|key| records.log.contains(key))))
    }

    fn wait(&self, keys: &[&str], timeout: Option<Duration>) -> Result<()> {
        let timeout = timeout.unwrap_or_else(|| self.timeout());
        self.wait_until(keys, timeout, |log| keys.iter().all(|key| log.contains(key)).then_some(()))
    }

    fn timeout(&self) -> Duration {
        self.timeout.get()
    }

    fn set_timeout(&self, timeout: Duration) {
        self.timeout.set(timeout);
    }

    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>> {
        self.locked(true, |records| match records.log.get(key) {
            None if !expected.is_empty() => Ok(expected.to_vec()),
            Some(value) if value != expected => Ok(value.to_vec()),
            _ => records.write(&raw(key), desired).map(|()| desired.to_vec()),
        })
    }

    /// Delete `key`. Return `true`, as PyTorch does also for an absent key.
    fn delete_key(&self, key: &str) -> Result<bool> {
        self.locked(true, |records| records.write(&format!("-{}", raw(key)), &[]))?;
        Ok(true)
    }

    /// Return the number of keys. One of them counts the open stores.
    fn num_keys(&self) -> Result<i64> {
        self.locked(false, |records| Ok(records.log.values.len() as i64))
    }

    fn append(&self, key: &str, value: &[u8]) -> Result<()> {
        self.locked(true, |records| {
            let all = [records.log.get(key).unwrap_or_default(), value].concat();
            records.write(&raw(key), &all)
        })
    }

    fn multi_get(&self, keys: &[&str]) -> Result<Vec<Vec<u8>>> {
        self.wait_until(keys, self.timeout(), |log| keys.iter().map(|key| log.get(key).map(<[u8]>::to_vec)).collect())
    }

    fn multi_set(&self, keys: &[&str], values: &[&[u8]]) -> Result<()> {
        expect_pairs(keys, values)?;
        self.locked(true, |records| {
            keys.iter().zip(values).try_for_each(|(key, value)| records.write(&raw(key), value))
        })
    }

    fn list_keys(&self) -> Result<Vec<String>> {
        self.locked(false, |records| {
            let mut keys: Vec<String> =
                records.log.values.keys().filter_map(|key| key.strip_prefix('/')).map(str::to_string).collect();
            keys.sort_unstable();
            Ok(keys)
        })
    }
}
