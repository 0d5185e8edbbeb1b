//! Executables on disk, shared by all processes of a user.
//!
//! A file is named by the SHA-256 of its key, and holds the key itself beside the executable: a name is an index, never a
//! proof. The key is everything the compiler is given (the module's text, the options) and everything it depends on (plugin,
//! version, processor). Files are written under another name and renamed, so that a reader sees all of one or nothing.
//!
//! ```text
//! magic | key length | key | executable length | executable | SHA-256 of all before
//! ```

use crate::metrics::{COUNTERS, count};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

const MAGIC: &[u8; 8] = b"TTPUEXE1";
const SUFFIX: &str = "executable";
const DEFAULT_LIMIT_BYTES: u64 = 2 << 30;
/// A temporary file that old belongs to a process that died.
const STALE: Duration = Duration::from_secs(3600);

/// A folder of executables.
pub(crate) struct DiskCache {
    folder: PathBuf,
    limit_bytes: u64,
    /// Bytes in the folder as last seen; only an estimate, since other processes write too.
    bytes: AtomicU64,
}

impl DiskCache {
    /// The cache that the environment asks for; `None` when it is off or there is no folder for it.
    pub(crate) fn from_environment() -> Option<DiskCache> {
        let var = |name| std::env::var_os(name).filter(|v| !v.is_empty());
        if var("TORCHTPU_CACHE").is_some_and(|v| v == "0") {
            return None;
        }
        let folder = match var("TORCHTPU_CACHE_DIR") {
            Some(f) => PathBuf::from(f),
            None => match (var("XDG_CACHE_HOME"), var("HOME")) {
                (Some(x), _) => PathBuf::from(x).join("torchtpu"),
                (None, Some(h)) => PathBuf::from(h).join(".cache").join("torchtpu"),
                (None, None) => return None,
            },
        };
        Some(DiskCache::in_folder(folder))
    }

    /// A cache in a folder, with the limit that the environment sets.
    pub(crate) fn in_folder(folder: PathBuf) -> DiskCache {
        let limit = std::env::var("TORCHTPU_CACHE_BYTES").ok();
        let limit_bytes = match limit.as_deref().map(str::parse) {
            None => DEFAULT_LIMIT_BYTES,
            Some(Ok(n)) => n,
            Some(Err(_)) => {
                warn(&format!(
                    "TORCHTPU_CACHE_BYTES is '{}', not a number of bytes; using the default",
                    limit.unwrap_or_default()
                ));
                DEFAULT_LIMIT_BYTES
            }
        };
        DiskCache::new(folder, limit_bytes)
    }

    pub(crate) fn new(folder: PathBuf, limit_bytes: u64) -> DiskCache {
        DiskCache { folder, limit_bytes, bytes: AtomicU64::new(u64::MAX) }
    }

    fn path(&self, key: &[u8]) -> PathBuf {
        let digest = Sha256::digest(key);
        let mut name = String::with_capacity(80);
        digest.iter().for_each(|b| name.push_str(&format!("{b:02x}")));
        self.folder.join(format!("{name}.{SUFFIX}"))
    }

    /// The executable stored under `key`. A damaged file, or one of another key, is removed.
    pub(crate) fn load(&self, key: &[u8]) -> Option<Vec<u8>> {
        let path = self.path(key);
        let bytes = match fs::read(&path) {
            Ok(b) => b,
            Err(e) => {
                if e.kind() != io::ErrorKind::NotFound {
                    warn(&format!("cannot read {}: {e}", path.display()));
                }
                count(&COUNTERS.disk_cache_misses, 1);
                return None;
            }
        };
        match parse(&bytes, key) {
            Ok(range) => {
                // Marks it as used; a cache on a read-only file system works without.
                let _ = File::options().append(true).open(&path).and_then(|f| f.set_modified(SystemTime::now()));
                Some(bytes[range].to_vec())
            }
            Err(why) => {
                self.reject(key, why);
                None
            }
        }
    }

    /// Removes the file of `key`, which turned out to be unusable.
    pub(crate) fn reject(&self, key: &[u8], why: &str) {
        let path = self.path(key);
        warn(&format!("discarding {}: {why}", path.display()));
        count(&COUNTERS.disk_cache_rejected, 1);
        let _ = fs::remove_file(path);
    }

    /// Stores an executable. A cache that cannot be written costs time, not results: failures are warnings.
    pub(crate) fn store(&self, key: &[u8], executable: &[u8]) {
        let size = (MAGIC.len() + 16 + key.len() + executable.len() + 32) as u64;
        if size > self.limit_bytes {
            return;
        }
        if let Err(e) = self.write(key, executable) {
            warn(&format!("cannot write to the cache folder {}: {e}", self.folder.display()));
            return;
        }
        let known = self.bytes.load(Relaxed);
        let now = if known == u64::MAX { u64::MAX } else { known.saturating_add(size) };
        self.bytes.store(now, Relaxed);
        if now > self.limit_bytes {
            self.evict();
        }
    }

    fn write(&self, key: &[u8], executable: &[u8]) -> io::Result<()> {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        fs::create_dir_all(&self.folder)?;
        let name = format!("{}-{}.tmp", std::process::id(), SERIAL.fetch_add(1, Relaxed));
        let temporary = self.folder.join(name);
        let written = (|| {
            let mut file = File::create(&temporary)?;
            let mut hash = Sha256::new();
            for part in [
                &MAGIC[..],
                &(key.len() as u64).to_le_bytes(),
                key,
                &(executable.len() as u64).to_le_bytes(),
                executable,
            ] {
                hash.update(part);
                file.write_all(part)?;
            }
            file.write_all(&hash.finalize())?;
            drop(file);
            fs::rename(&temporary, self.path(key))
        })();
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Removes the files not used for longest until nine tenths of the limit remain.
    fn evict(&self) {
        let Ok(list) = fs::read_dir(&self.folder) else { return };
        let mut files = Vec::new();
        for entry in list.flatten() {
            let (path, Ok(info)) = (entry.path(), entry.metadata()) else { continue };
            let used = info.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            match path.extension().and_then(|e| e.to_str()) {
                Some(SUFFIX) => files.push((used, info.len(), path)),
                Some("tmp") if used.elapsed().is_ok_and(|age| age > STALE) => drop(fs::remove_file(&path)),
                _ => {}
            }
        }
        let mut total: u64 = files.iter().map(|f| f.1).sum();
        if total > self.limit_bytes {
            files.sort();
            for (_, size, path) in files {
                if total <= self.limit_bytes / 10 * 9 {
                    break;
                }
                // Another process may have been faster.
                if fs::remove_file(path).is_ok() {
                    total -= size;
                }
            }
        }
        self.bytes.store(total, Relaxed);
    }
}

/// Where the executable is in the bytes of a file that is intact and of this key.
fn parse(bytes: &[u8], key: &[u8]) -> Result<std::ops::Range<usize>, &'static str> {
    let body = bytes.len().checked_sub(32).ok_or("the file is cut short")?;
    if !bytes.starts_with(MAGIC) {
        return Err("not a cached executable of this version");
    }
    if Sha256::digest(&bytes[..body])[..] != bytes[body..] {
        return Err("the checksum does not match");
    }
    let part = |at: usize| -> Option<std::ops::Range<usize>> {
        let len = u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?);
        let end = (at + 8).checked_add(usize::try_from(len).ok()?)?;
        (end <= body).then_some(at + 8..end)
    };
    let stored_key = part(MAGIC.len()).ok_or("the file is malformed")?;
    let executable = part(stored_key.end).ok_or("the file is malformed")?;
    if bytes[stored_key] != *key {
        return Err("it belongs to another program");
    }
    Ok(executable)
}

pub(crate) fn warn(message: &str) {
    eprintln!("torchtpu: warning: {message}");
}

/// What a compiled program for this processor depends on: XLA:CPU emits its newest instructions.
pub(crate) fn processor() -> String {
    let info = fs::read_to_string(Path::new("/proc/cpuinfo")).unwrap_or_default();
    let line = |name: &str| info.lines().find(|l| l.starts_with(name)).unwrap_or("").to_string();
    format!("{} {} {} {}", std::env::consts::ARCH, std::env::consts::OS, line("model name"), line("flags"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Held by tests that look at, or change, the number of rejected entries.
    static COUNTED: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

    #[test]
    fn what_is_stored_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(dir.path().join("new"), 1 << 20);
        assert_eq!(cache.load(b"key"), None);
        cache.store(b"key", b"program");
        assert_eq!(cache.load(b"key").as_deref(), Some(&b"program"[..]));
        assert_eq!(cache.load(b"other key"), None);
    }

    #[test]
    fn every_damaged_byte_is_noticed() {
        let _counted = COUNTED.lock();
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(dir.path().into(), 1 << 20);
        cache.store(b"key", b"program");
        let path = cache.path(b"key");
        let good = fs::read(&path).unwrap();
        for i in 0..good.len() {
            let mut bad = good.clone();
            bad[i] ^= 0x10;
            fs::write(&path, &bad).unwrap();
            assert_eq!(cache.load(b"key"), None, "byte {i}");
            assert!(!path.exists());
        }
        for len in 0..good.len() {
            fs::write(&path, &good[..len]).unwrap();
            assert_eq!(cache.load(b"key"), None, "cut to {len}");
        }
    }

    #[test]
    fn a_file_of_another_key_is_not_trusted() {
        let _counted = COUNTED.lock();
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(dir.path().into(), 1 << 20);
        cache.store(b"key", b"program");
        fs::rename(cache.path(b"key"), cache.path(b"wanted")).unwrap();
        assert_eq!(cache.load(b"wanted"), None);
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(dir.path().into(), 4000);
        let at = |i: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + i);
        for i in 0..3u64 {
            cache.store(&[i as u8], &[0; 1000]);
            File::options().append(true).open(cache.path(&[i as u8])).unwrap().set_modified(at(i)).unwrap();
        }
        assert!(cache.load(&[0]).is_some()); // used again
        cache.store(&[3], &[0; 1000]);
        assert!(cache.load(&[1]).is_none());
        assert!(cache.load(&[0]).is_some() && cache.load(&[2]).is_some() && cache.load(&[3]).is_some());
    }

    #[test]
    fn many_processes_may_write_read_and_evict_at_once() {
        let _counted = COUNTED.lock();
        let dir = tempfile::tempdir().unwrap();
        let rejected = COUNTERS.disk_cache_rejected.load(Relaxed);
        // Each has its own view of the folder, as processes do.
        std::thread::scope(|s| {
            for t in 0..4u8 {
                let cache = DiskCache::new(dir.path().into(), 20_000);
                s.spawn(move || {
                    for i in 0..200u8 {
                        let key = [i % 40];
                        match cache.load(&key) {
                            Some(found) => assert_eq!(found, vec![key[0]; 1000]),
                            None => cache.store(&key, &vec![key[0]; 1000]),
                        }
                        if i % 50 == t {
                            cache.evict();
                        }
                    }
                });
            }
        });
        assert_eq!(COUNTERS.disk_cache_rejected.load(Relaxed), rejected, "a file was seen half written");
        DiskCache::new(dir.path().into(), 20_000).evict();
        let left: u64 = fs::read_dir(dir.path()).unwrap().map(|f| f.unwrap().metadata().unwrap().len()).sum();
        assert!(left <= 20_000, "{left}");
    }

    #[test]
    fn an_executable_beyond_the_limit_is_not_stored() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(dir.path().into(), 100);
        cache.store(b"key", &[0; 1000]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
