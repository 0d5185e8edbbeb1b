//! Bundles: the executables of a program in one file, which can be copied to other machines.
//!
//! A machine that has loaded a bundle does not compile its programs. Executables are native code, so load only a bundle
//! that you would run as a program.
//!
//! ```text
//! magic | header length | header | compressed: (key length | key | executable length | executable)* |
//! SHA-256 of all before
//! ```
//!
//! The header names the environment of the executables: this library's sources, the plugin and its version, the kind of
//! device. It is compared before anything is loaded. A key is the SHA-256 of options and text. Files are written under
//! another name and then renamed.

use crate::disk::hex;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use torchtpu_pjrt::CompileOptions;
use torchtpu_tensor::{Error, Result};

const MAGIC: &[u8; 8] = b"TTPUBND1";

type Key = [u8; 32];

/// The executables of the loaded bundles.
static LOADED: RwLock<Option<FxHashMap<Key, Vec<u8>>>> = RwLock::new(None);

/// Return the key of an executable. It does not depend on the devices, which are planned ones when a bundle is made.
pub(crate) fn key(options: &CompileOptions, text: &str) -> Key {
    let options = CompileOptions { device_assignment: None, ..options.clone() };
    let mut hash = Sha256::new();
    hash.update(format!("{options:?}\n"));
    hash.update(text);
    hash.finalize().into()
}

/// Return the executable of `key`, if a loaded bundle has it. `key` is computed only if a bundle is loaded.
pub(crate) fn find(key: impl FnOnce() -> Key) -> Option<Vec<u8>> {
    LOADED.read().as_ref()?.get(&key()).cloned()
}

/// Write executables that were made for `header`.
///
/// # Errors
/// `Runtime` if the file cannot be written. An existing file then stays unchanged.
pub(crate) fn write(path: &Path, header: &str, executables: &[(Key, Vec<u8>)]) -> Result<()> {
    let fail = |e: std::io::Error| Error::runtime(format!("cannot write the bundle {}: {e}", path.display()));
    let mut bytes = MAGIC.to_vec();
    put(&mut bytes, header.as_bytes()).map_err(fail)?;
    let mut encoder = DeflateEncoder::new(bytes, Compression::default());
    for (key, executable) in executables {
        put(&mut encoder, key).and_then(|()| put(&mut encoder, executable)).map_err(fail)?;
    }
    let mut bytes = encoder.finish().map_err(fail)?;
    let checksum = Sha256::digest(&bytes);
    bytes.extend_from_slice(&checksum);
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let temporary = folder.join(format!(".{name}.{}.{}", std::process::id(), &hex(&checksum)[..8]));
    let written = fs::File::create_new(&temporary)
        .and_then(|mut f| f.write_all(&bytes).and_then(|()| f.sync_all()))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(fail)
}

/// Read a bundle that must be made for `header`. Return the number of its executables.
///
/// # Errors
/// `Runtime` if the file cannot be read, is damaged, or was made for another environment.
pub(crate) fn load(path: &Path, header: &str) -> Result<usize> {
    let named = |why: String| Error::runtime(format!("cannot load the bundle {}: {why}", path.display()));
    let bytes = fs::read(path).map_err(|e| named(e.to_string()))?;
    let executables = parse(&bytes, header).map_err(named)?;
    let count = executables.len();
    LOADED.write().get_or_insert_default().extend(executables);
    Ok(count)
}

fn parse(bytes: &[u8], header: &str) -> std::result::Result<Vec<(Key, Vec<u8>)>, String> {
    let body = bytes.strip_prefix(MAGIC).ok_or("it is not a bundle of this version")?;
    let end = bytes.len().checked_sub(32).filter(|&n| n >= MAGIC.len()).ok_or("the file is cut short")?;
    if Sha256::digest(&bytes[..end])[..] != bytes[end..] {
        return Err("the checksum does not match".into());
    }
    let mut rest = &body[..end - MAGIC.len()];
    let made_for = take(&mut rest).map_err(|e| e.to_string())?.ok_or("it has no header")?;
    if made_for != header.as_bytes() {
        let made_for = String::from_utf8_lossy(&made_for).into_owned();
        let differing = made_for.lines().zip(header.lines()).find(|(a, b)| a != b);
        let (theirs, ours) = differing.unwrap_or((&made_for, header));
        return Err(format!("it was made for another version or device: {theirs:?}, but this process has {ours:?}"));
    }
    let mut decoder = DeflateDecoder::new(rest);
    let mut executables = Vec::new();
    while let Some(key) = take(&mut decoder).map_err(|e| e.to_string())? {
        let key: Key = key.try_into().map_err(|_| "a key has another length")?;
        let executable = take(&mut decoder).map_err(|e| e.to_string())?.ok_or("an executable is missing")?;
        executables.push((key, executable));
    }
    Ok(executables)
}

fn put(to: &mut impl Write, bytes: &[u8]) -> std::io::Result<()> {
    to.write_all(&(bytes.len() as u64).to_le_bytes())?;
    to.write_all(bytes)
}

/// Return the next part, or `None` at the end.
fn take(from: &mut impl Read) -> std::io::Result<Option<Vec<u8>>> {
    let mut length = [0; 8];
    match from.read(&mut length[..1])? {
        0 => return Ok(None),
        _ => from.read_exact(&mut length[1..])?,
    }
    let length = u64::from_le_bytes(length);
    let mut part = Vec::new();
    // A wrong length ends at the end of the data.
    from.take(length).read_to_end(&mut part)?;
    if part.len() as u64 == length { Ok(Some(part)) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_is_read_as_it_was_written_and_damage_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.bundle");
        let executables = vec![([1; 32], vec![7u8; 1000]), ([2; 32], vec![])];
        write(&path, "sources 1\ncpu", &executables).unwrap();
        let bytes = fs::read(&path).unwrap();
        assert!(bytes.len() < 500, "it is compressed");
        assert_eq!(parse(&bytes, "sources 1\ncpu").unwrap(), executables);
        let error = parse(&bytes, "sources 2\ncpu").unwrap_err();
        assert!(error.contains("\"sources 1\", but this process has \"sources 2\""), "{error}");
        for i in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[i] ^= 1;
            assert!(parse(&damaged, "sources 1\ncpu").is_err(), "byte {i}");
            assert!(parse(&bytes[..i], "sources 1\ncpu").is_err(), "cut at {i}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
