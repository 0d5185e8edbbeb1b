//! Executables on disk, shared by all processes of a user.
//!
//! The name of a file is the SHA-256 of its key. The file also has the key itself beside the executable, so the name is
//! only an index. The key has all input of the compiler (the module's text, the options) and its environment (plugin,
//! version, processor). Files are written under another name and then renamed, so a reader never sees a part of a file.
//!
//! ```text
//! magic | key length | key | executable length | executable | SHA-256 of all before
//! ```
//!
//! An executable is native code, so an entry is trusted only if no user but this one and root could write it. See
//! `docs/decisions/0042-the-disk-cache-trusts-its-user.md`. The folder is held open, and files are opened relative to
//! it: a folder that is replaced after the check is not followed.

use crate::metrics::{COUNTERS, count};
use parking_lot::Mutex;
use rustix::fs::{self as sys, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

const MAGIC: &[u8; 8] = b"TTPUEXE1";
const SUFFIX: &str = ".executable";
const TEMPORARY_SUFFIX: &str = ".tmp";
const DEFAULT_LIMIT_BYTES: u64 = 2 << 30;
/// A temporary file of this age belongs to a process that died.
const STALE: Duration = Duration::from_secs(3600);

/// A folder of executables.
pub(crate) struct DiskCache {
    path: PathBuf,
    owner: Owner,
    limit_bytes: u64,
    /// An estimate of the bytes in the folder. Other processes write too.
    bytes: AtomicU64,
    folder: Mutex<State>,
}

/// The users that may own the folder of a cache.
#[derive(Clone, Copy, PartialEq)]
enum Owner {
    /// The folder in the user's home. Only the user may own it.
    User,
    /// A folder that the user named. The user may own it, or root, and then it is only read.
    UserOrRoot,
}

/// The result of opening the folder.
enum State {
    /// It was not opened yet, or did not exist.
    Unopened,
    Open(Arc<Folder>),
    /// It was refused, and the reason was printed.
    Refused,
}

/// An open folder that passed the checks.
struct Folder {
    fd: OwnedFd,
    /// False for a folder of root that another user reads.
    is_writable: bool,
}

impl DiskCache {
    /// Return the cache that the environment selects, or `None` if it is off or has no folder.
    pub(crate) fn from_environment() -> Option<DiskCache> {
        let var = |name| std::env::var_os(name).filter(|v| !v.is_empty());
        if var("TORCHTPU_CACHE").is_some_and(|v| v == "0") {
            return None;
        }
        if let Some(folder) = var("TORCHTPU_CACHE_DIR") {
            return Some(DiskCache::in_folder(folder.into()));
        }
        let folder = match (var("XDG_CACHE_HOME"), var("HOME")) {
            (Some(x), _) => PathBuf::from(x).join("torchtpu"),
            (None, Some(h)) => PathBuf::from(h).join(".cache").join("torchtpu"),
            (None, None) => return None,
        };
        Some(DiskCache::new(folder, Owner::User, limit_from_environment()))
    }

    /// Make a cache in a folder that the user named, with the limit of the environment.
    pub(crate) fn in_folder(folder: PathBuf) -> DiskCache {
        DiskCache::new(folder, Owner::UserOrRoot, limit_from_environment())
    }

    fn new(path: PathBuf, owner: Owner, limit_bytes: u64) -> DiskCache {
        DiskCache { path, owner, limit_bytes, bytes: AtomicU64::new(u64::MAX), folder: Mutex::new(State::Unopened) }
    }

    /// Return the executable for `key`. A damaged file, a file of another key, and a file that others may have written
    /// are removed.
    pub(crate) fn load(&self, key: &[u8]) -> Option<Vec<u8>> {
        let found = self.find(key);
        if found.is_none() {
            count(&COUNTERS.disk_cache_misses, 1);
        }
        found
    }

    fn find(&self, key: &[u8]) -> Option<Vec<u8>> {
        let folder = self.open(false)?;
        let name = entry_name(key);
        let bytes = match folder.read(&name, self.limit_bytes.max(DEFAULT_LIMIT_BYTES)) {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(why)) => {
                self.remove(&folder, &name, why);
                return None;
            }
            Err(Errno::NOENT) => return None,
            Err(e) => {
                warn(&format!("cannot read {}: {e}", self.path.join(&name).display()));
                return None;
            }
        };
        match parse(&bytes, key) {
            Ok(range) => Some(bytes[range].to_vec()),
            Err(why) => {
                self.remove(&folder, &name, why);
                None
            }
        }
    }

    /// Remove the file of `key`, which is unusable.
    pub(crate) fn reject(&self, key: &[u8], why: &str) {
        if let Some(folder) = self.open(false) {
            self.remove(&folder, &entry_name(key), why);
        }
    }

    fn remove(&self, folder: &Folder, name: &str, why: &str) {
        warn(&format!("discarding {}: {why}", self.path.join(name).display()));
        count(&COUNTERS.disk_cache_rejected, 1);
        if folder.is_writable {
            let _ = sys::unlinkat(&folder.fd, name, AtFlags::empty());
        }
    }

    /// Store an executable. A failure is a warning, since it only costs time.
    pub(crate) fn store(&self, key: &[u8], executable: &[u8]) {
        let size = (MAGIC.len() + 16 + key.len() + executable.len() + 32) as u64;
        if size > self.limit_bytes {
            return;
        }
        let Some(folder) = self.open(true).filter(|folder| folder.is_writable) else { return };
        let mut written = folder.write(key, executable);
        if written == Err(Errno::NOENT) {
            // The folder was deleted while it was open.
            *self.folder.lock() = State::Unopened;
            let Some(again) = self.open(true) else { return };
            written = again.write(key, executable);
        }
        if let Err(e) = written {
            warn(&format!("cannot write to the cache folder {}: {e}", self.path.display()));
            return;
        }
        let known = self.bytes.load(Relaxed);
        let now = if known == u64::MAX { u64::MAX } else { known.saturating_add(size) };
        self.bytes.store(now, Relaxed);
        if now > self.limit_bytes {
            self.evict();
        }
    }

    /// Open the folder. With `make`, create it if it does not exist. Return `None` if there is no folder, or if it is
    /// refused.
    fn open(&self, make: bool) -> Option<Arc<Folder>> {
        let mut state = self.folder.lock();
        match &*state {
            State::Open(folder) => return Some(folder.clone()),
            State::Refused => return None,
            State::Unopened => {}
        }
        if make && let Err(e) = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path) {
            warn(&format!("cannot make the cache folder {}: {e}", self.path.display()));
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let checked = match sys::open(&self.path, flags, Mode::empty()) {
            Ok(fd) => self.check(&fd).map(|is_writable| Folder { fd, is_writable }),
            Err(Errno::NOENT) => return None,
            Err(e) => Err(e.to_string()),
        };
        match checked {
            Ok(folder) => {
                let folder = Arc::new(folder);
                *state = State::Open(folder.clone());
                Some(folder)
            }
            Err(why) => {
                warn(&format!("the cache folder {} is not used: {why}", self.path.display()));
                *state = State::Refused;
                None
            }
        }
    }

    /// Return whether this process may write to an open folder, or the reason why the folder is refused.
    fn check(&self, fd: &OwnedFd) -> Result<bool, String> {
        let info = sys::fstat(fd).map_err(|e| e.to_string())?;
        let user = rustix::process::geteuid().as_raw();
        if info.st_uid != user && !(info.st_uid == 0 && self.owner == Owner::UserOrRoot) {
            return Err(format!(
                "it belongs to user {}, and this process runs as user {user}; name a folder of your own in \
                 TORCHTPU_CACHE_DIR",
                info.st_uid
            ));
        }
        if others_may_write(info.st_mode) {
            return Err(
                "other users may write to it, so its programs cannot be trusted; empty it and run chmod go-w".into()
            );
        }
        Ok(info.st_uid == user)
    }

    /// Remove the least recently used files, until nine tenths of the limit remain.
    fn evict(&self) {
        let Some(folder) = self.open(false).filter(|folder| folder.is_writable) else { return };
        let Ok(list) = sys::Dir::read_from(&folder.fd) else { return };
        let mut files = Vec::new();
        for entry in list.flatten() {
            let Ok(name) = entry.file_name().to_str() else { continue };
            let Ok(info) = sys::statat(&folder.fd, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let used = SystemTime::UNIX_EPOCH + Duration::from_secs(info.st_mtime.max(0) as u64);
            if name.ends_with(SUFFIX) {
                files.push(((info.st_mtime, info.st_mtime_nsec), info.st_size as u64, name.to_string()));
            } else if name.ends_with(TEMPORARY_SUFFIX) && used.elapsed().is_ok_and(|age| age > STALE) {
                let _ = sys::unlinkat(&folder.fd, name, AtFlags::empty());
            }
        }
        let mut total: u64 = files.iter().map(|f| f.1).sum();
        if total > self.limit_bytes {
            files.sort();
            for (_, size, name) in files {
                if total <= self.limit_bytes / 10 * 9 {
                    break;
                }
                // Another process may have removed it.
                if sys::unlinkat(&folder.fd, &*name, AtFlags::empty()).is_ok() {
                    total -= size;
                }
            }
        }
        self.bytes.store(total, Relaxed);
    }
}

impl Folder {
    /// Return the bytes of a file, or the reason why it is not trusted. Mark the file as used. Links are not followed,
    /// and devices and pipes are not read.
    fn read(&self, name: &str, limit_bytes: u64) -> Result<Result<Vec<u8>, &'static str>, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match sys::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::LOOP) => return Ok(Err("it is a link")),
            Err(e) => return Err(e),
        };
        let info = sys::fstat(&fd)?;
        let user = rustix::process::geteuid().as_raw();
        if FileType::from_raw_mode(info.st_mode) != FileType::RegularFile {
            return Ok(Err("it is no regular file"));
        }
        if (info.st_uid != user && info.st_uid != 0) || others_may_write(info.st_mode) {
            return Ok(Err("other users may have written it"));
        }
        let size = info.st_size as u64;
        if size > limit_bytes {
            return Ok(Err("it is larger than the cache may be"));
        }
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(size as usize).is_err() {
            return Err(Errno::NOMEM);
        }
        let mut file = File::from(fd);
        if let Err(e) = (&mut file).take(size).read_to_end(&mut bytes) {
            return Err(Errno::from_io_error(&e).unwrap_or(Errno::IO));
        }
        if self.is_writable {
            // On a read-only file system, the cache works without the mark.
            let _ = file.set_modified(SystemTime::now());
        }
        Ok(Ok(bytes))
    }

    fn write(&self, key: &[u8], executable: &[u8]) -> Result<(), Errno> {
        let (fd, temporary) = self.create_temporary()?;
        let written = write_entry(File::from(fd), key, executable)
            .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
            .and_then(|()| sys::renameat(&self.fd, &*temporary, &self.fd, entry_name(key)));
        if written.is_err() {
            let _ = sys::unlinkat(&self.fd, &*temporary, AtFlags::empty());
        }
        written
    }

    /// Create a file that only this user may open, with a name that others cannot guess.
    fn create_temporary(&self) -> Result<(OwnedFd, String), Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let mut random = [0; 16];
            rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
            let name = hex(&random) + TEMPORARY_SUFFIX;
            match sys::openat(&self.fd, &*name, flags, Mode::RUSR | Mode::WUSR) {
                Err(Errno::EXIST) => continue,
                opened => return opened.map(|fd| (fd, name)),
            }
        }
    }
}

fn limit_from_environment() -> u64 {
    let Ok(text) = std::env::var("TORCHTPU_CACHE_BYTES") else { return DEFAULT_LIMIT_BYTES };
    text.parse().unwrap_or_else(|_| {
        warn(&format!("TORCHTPU_CACHE_BYTES is '{text}', which is not a number of bytes. Using the default"));
        DEFAULT_LIMIT_BYTES
    })
}

/// Return whether the group or all users may write. With access control lists, the group's bits are their mask.
fn others_may_write(mode: u32) -> bool {
    mode & 0o022 != 0
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn entry_name(key: &[u8]) -> String {
    hex(&Sha256::digest(key)) + SUFFIX
}

fn write_entry(mut file: File, key: &[u8], executable: &[u8]) -> io::Result<()> {
    let mut hash = Sha256::new();
    let (key_len, executable_len) = ((key.len() as u64).to_le_bytes(), (executable.len() as u64).to_le_bytes());
    for part in [&MAGIC[..], &key_len, key, &executable_len, executable] {
        hash.update(part);
        file.write_all(part)?;
    }
    file.write_all(&hash.finalize())
}

/// Return the position of the executable in the bytes of an intact file with this key.
pub(crate) fn parse(bytes: &[u8], key: &[u8]) -> Result<std::ops::Range<usize>, &'static str> {
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

/// Return the properties of this processor that compiled programs depend on: XLA:CPU emits its newest instructions.
pub(crate) fn processor() -> String {
    let info = fs::read_to_string(Path::new("/proc/cpuinfo")).unwrap_or_default();
    let line = |name: &str| info.lines().find(|l| l.starts_with(name)).unwrap_or("").to_string();
    format!("{} {} {} {}", std::env::consts::ARCH, std::env::consts::OS, line("model name"), line("flags"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Tests that check or change the number of rejected entries hold this lock.
    static COUNTED: Mutex<()> = Mutex::new(());

    fn cache_in(path: &Path, limit_bytes: u64) -> DiskCache {
        DiskCache::new(path.into(), Owner::UserOrRoot, limit_bytes)
    }

    fn path_of(cache: &DiskCache, key: &[u8]) -> PathBuf {
        cache.path.join(entry_name(key))
    }

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn folders_and_files_are_for_their_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache_in(&dir.path().join("a/b"), 1 << 20);
        cache.store(b"key", b"program");
        assert_eq!(mode_of(&cache.path), 0o700);
        assert_eq!(mode_of(&path_of(&cache, b"key")), 0o600);
    }

    #[test]
    fn a_folder_that_others_may_write_is_not_used() {
        for mode in [0o770, 0o702, 0o777] {
            let dir = tempfile::tempdir().unwrap();
            cache_in(dir.path(), 1 << 20).store(b"key", b"program");
            set_mode(dir.path(), mode);
            let cache = cache_in(dir.path(), 1 << 20);
            assert_eq!(cache.load(b"key"), None, "{mode:o}");
            cache.store(b"other", b"program");
            assert!(!path_of(&cache, b"other").exists(), "{mode:o}");
        }
    }

    #[test]
    fn a_file_that_others_may_write_is_not_used() {
        let _counted = COUNTED.lock();
        let dir = tempfile::tempdir().unwrap();
        let cache = cache_in(dir.path(), 1 << 20);
        cache.store(b"key", b"program");
        set_mode(&path_of(&cache, b"key"), 0o620);
        assert_eq!(cache.load(b"key"), None);
        assert!(!path_of(&cache, b"key").exists());
    }

    /// Changing owners needs root. The tests run as root in a container, and no other user can make the folder.
    #[test]
    fn a_folder_of_another_user_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("of another");
        cache_in(&folder, 1 << 20).store(b"key", b"program");
        if std::os::unix::fs::chown(&folder, Some(12345), None).is_ok() {
            assert_eq!(cache_in(&folder, 1 << 20).load(b"key"), None);
        }
    }

    #[test]
    fn links_pipes_and_huge_files_are_not_read() {
        let _counted = COUNTED.lock();
        let dir = tempfile::tempdir().unwrap();
        let cache = cache_in(dir.path(), 1 << 20);
        cache.store(b"key", b"program");
        let (good, path) = (path_of(&cache, b"key"), path_of(&cache, b"wanted"));
        std::os::unix::fs::symlink(&good, &path).unwrap();
        assert_eq!(cache.load(b"wanted"), None);
        assert!(path.symlink_metadata().is_err(), "the link stayed");
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert_eq!(cache.load(b"wanted"), None);
        sys::mknodat(sys::CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(cache.load(b"wanted"), None);
        assert!(!path.exists(), "the pipe stayed");
        File::create(&path).unwrap().set_len(DEFAULT_LIMIT_BYTES + 1).unwrap();
        set_mode(&path, 0o600);
        assert_eq!(cache.load(b"wanted"), None);
        assert!(!path.exists(), "the huge file stayed");
        assert_eq!(cache.load(b"key").as_deref(), Some(&b"program"[..]));
    }

    #[test]
    fn a_deleted_folder_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache_in(&dir.path().join("new"), 1 << 20);
        cache.store(b"key", b"program");
        fs::remove_dir_all(&cache.path).unwrap();
        assert_eq!(cache.load(b"key"), None);
        cache.store(b"key", b"program");
        assert_eq!(cache.load(b"key").as_deref(), Some(&b"program"[..]));
    }

    #[test]
    fn temporaries_of_dead_processes_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache_in(dir.path(), 1 << 20);
        cache.store(b"key", b"program");
        let (old, new) = (dir.path().join("old.tmp"), dir.path().join("new.tmp"));
        File::create(&old).unwrap().set_modified(SystemTime::now() - 2 * STALE).unwrap();
        File::create(&new).unwrap();
        cache.evict();
        assert!(!old.exists() && new.exists());
    }

    #[test]
    fn stored_executables_are_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache_in(&dir.path().join("new"), 1 << 20);
        assert_eq!(cache.load(b"key"), None);
        cache.store(b"key", b"program");
        assert_eq!(cache.load(b"key").as_deref(), Some(&b"program"[..]));
        assert_eq!(cache.load(b"other key"), None);
    }

    #[test]
    fn every_damaged_byte_is_noticed() {
        let _counted = COUNTED.lock();
        let dir = tempfile::tempdir().unwrap();
        let cache = cache_in(dir.path(), 1 << 20);
        cache.store(b"key", b"program");
        let path = path_of(&cache, b"key");
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
        let cache = cache_in(dir.path(), 1 << 20);
        cache.store(b"key", b"program");
        fs::rename(path_of(&cache, b"key"), path_of(&cache, b"wanted")).unwrap();
        assert_eq!(cache.load(b"wanted"), None);
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache_in(dir.path(), 4000);
        let at = |i: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + i);
        for i in 0..3u64 {
            cache.store(&[i as u8], &[0; 1000]);
            File::options().append(true).open(path_of(&cache, &[i as u8])).unwrap().set_modified(at(i)).unwrap();
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
        // Each thread has its own cache object, as processes have.
        std::thread::scope(|s| {
            for t in 0..4u8 {
                let cache = cache_in(dir.path(), 20_000);
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
        cache_in(dir.path(), 20_000).evict();
        let left: u64 = fs::read_dir(dir.path()).unwrap().map(|f| f.unwrap().metadata().unwrap().len()).sum();
        assert!(left <= 20_000, "{left}");
    }

    #[test]
    fn an_executable_beyond_the_limit_is_not_stored() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache_in(dir.path(), 100);
        cache.store(b"key", &[0; 1000]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
