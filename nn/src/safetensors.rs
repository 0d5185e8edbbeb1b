//! Reading and writing the safetensors format.
//!
//! A file is a JSON header (names, dtypes, sizes, positions) and the bytes of the tensors. It contains no code, and a
//! damaged file is refused before any tensor is made. Writing goes to a temporary file in the same folder, which
//! replaces the target when it is complete. So there is never half a file.
//!
//! ```
//! use torchtpu_nn::{Linear, Module, safetensors};
//! use torchtpu_tensor::Device;
//!
//! let path = std::env::temp_dir().join(format!("doctest-{}.safetensors", std::process::id()));
//! let (a, b) = (Linear::new(3, 2)?, Linear::new(3, 2)?);
//! safetensors::save_file(&path, &a.state_dict(), None)?;
//! b.load_state_dict(&safetensors::load_file(&path, Device::CPU)?, true)?;
//! assert_eq!(a.weight.tensor().to_vec::<f32>()?, b.weight.tensor().to_vec::<f32>()?);
//! # std::fs::remove_file(&path).unwrap();
//! # Ok::<(), torchtpu_tensor::Error>(())
//! ```

use crate::StateDict;
use ::safetensors::tensor::{Dtype, Metadata, TensorInfo, View};
use ::safetensors::{SafeTensorError, SafeTensors};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use torchtpu_tensor::{DType, Device, Error, Result, Tensor, no_grad};

/// Texts stored with the tensors, by key.
pub type TextMetadata = HashMap<String, String>;

/// Dtypes that this crate and the format both have.
const DTYPES: &[(&str, Dtype)] = &[
    ("bool", Dtype::BOOL),
    ("uint8", Dtype::U8),
    ("int8", Dtype::I8),
    ("int16", Dtype::I16),
    ("uint16", Dtype::U16),
    ("int32", Dtype::I32),
    ("uint32", Dtype::U32),
    ("int64", Dtype::I64),
    ("uint64", Dtype::U64),
    ("float16", Dtype::F16),
    ("bfloat16", Dtype::BF16),
    ("float32", Dtype::F32),
    ("float64", Dtype::F64),
    ("complex64", Dtype::C64),
    ("float8_e4m3fn", Dtype::F8_E4M3),
    ("float8_e5m2", Dtype::F8_E5M2),
    ("float8_e8m0fnu", Dtype::F8_E8M0),
    ("float8_e4m3fnuz", Dtype::F8_E4M3FNUZ),
    ("float8_e5m2fnuz", Dtype::F8_E5M2FNUZ),
];

fn to_format(d: DType) -> Result<Dtype> {
    let known = DTYPES.iter().find(|(name, _)| *name == d.name());
    known.map(|(_, f)| *f).ok_or_else(|| Error::type_error(format!("safetensors: no dtype for torch.{}", d.name())))
}

fn from_format(f: Dtype) -> Result<DType> {
    let name = DTYPES.iter().find(|(_, known)| *known == f).map(|(name, _)| *name);
    DType::ALL
        .into_iter()
        .find(|d| Some(d.name()) == name)
        .ok_or_else(|| Error::not_implemented(format!("safetensors: tensors of type {f} are not supported")))
}

fn reading(e: impl std::fmt::Display) -> Error {
    Error::runtime(format!("Error while deserializing: {e}"))
}
fn writing(e: SafeTensorError) -> Error {
    Error::runtime(format!("Error while serializing: {e}"))
}

/// A tensor's elements on the host, in order.
struct Elements {
    dtype: Dtype,
    shape: Vec<usize>,
    host: Tensor,
}

impl Elements {
    fn of(x: &Tensor) -> Result<Elements> {
        let host = no_grad(|| x.detach().to_device(Device::CPU)?.contiguous())?;
        Ok(Elements { dtype: to_format(x.dtype())?, shape: x.dims().to_vec(), host })
    }
}

impl View for &Elements {
    fn dtype(&self) -> Dtype {
        self.dtype
    }
    fn shape(&self) -> &[usize] {
        &self.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Owned(self.host.to_bytes().expect("on the host"))
    }
    fn data_len(&self) -> usize {
        self.host.numel() * self.host.dtype().size_bytes()
    }
}

fn elements(tensors: &[(String, Tensor)]) -> Result<Vec<(&str, Elements)>> {
    let mut seen = HashSet::new();
    for (name, _) in tensors {
        if name == "__metadata__" || !seen.insert(name) {
            return Err(Error::value(format!("safetensors: the key {name:?} is reserved or stands twice")));
        }
    }
    tensors.iter().map(|(name, x)| Ok((name.as_str(), Elements::of(x)?))).collect()
}

/// Return the bytes of a file with these tensors.
///
/// # Errors
/// Fails with `Value` for duplicate keys, and with `Type` for dtypes that the format lacks. Returns errors of the
/// device.
pub fn save(tensors: &[(String, Tensor)], metadata: Option<TextMetadata>) -> Result<Vec<u8>> {
    let all = elements(tensors)?;
    // The format's crate allocates the whole file at once, and aborts the process if there is no memory.
    let bytes = all.iter().map(|(name, e)| 256 + name.len() + (&e).data_len()).sum();
    torchtpu_tensor::memory::expect_room(bytes);
    ::safetensors::serialize(all.iter().map(|(name, e)| (*name, e)), metadata).map_err(writing)
}

/// Return the path with links followed. The last component need not exist.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    // The same limit as Linux has.
    for _ in 0..40 {
        match fs::symlink_metadata(&path) {
            Ok(m) if m.is_symlink() => {
                let to = fs::read_link(&path)?;
                path = path.parent().map_or_else(|| to.clone(), |folder| folder.join(&to));
            }
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => return Ok(path),
        }
    }
    Err(io::Error::other("Too many levels of symbolic links"))
}

/// Create an empty file in the folder of `path`, with the permissions of new files.
fn create_temporary(path: &Path) -> io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?.to_string_lossy();
    // Cut a long name, so that the system does not refuse the longer one.
    let name: String = name.chars().take(40).collect();
    loop {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = path.with_file_name(format!(".{name}.{}.{n}.tmp", std::process::id()));
        match fs::OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(_) => return Ok(temporary),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
}

/// Write tensors to a file. The data goes to a temporary file in the same folder, which is flushed to disk and then
/// replaces the file at once. If the process is killed or the disk is full, the old file stays complete. An existing
/// file keeps its permissions. A link stays, and its target is replaced. A pipe or a device is written to directly.
///
/// # Errors
/// Fails like [`save`], and with `Runtime` if the file cannot be written.
pub fn save_file(path: impl AsRef<Path>, tensors: &[(String, Tensor)], metadata: Option<TextMetadata>) -> Result<()> {
    let path = path.as_ref();
    let all = elements(tensors)?;
    let data = || all.iter().map(|(name, e)| (*name, e));
    let failed = |e: io::Error| {
        Error::runtime(format!("Error while serializing: I/O error: {e} at path {:?}", path.display().to_string()))
    };
    let target = follow_links(path).map_err(failed)?;
    let before = match fs::metadata(&target) {
        Ok(m) if m.is_dir() => return Err(failed(io::ErrorKind::IsADirectory.into())),
        Ok(m) if !m.is_file() => {
            let bytes = ::safetensors::serialize(data(), metadata).map_err(writing)?;
            let mut file = fs::OpenOptions::new().write(true).open(&target).map_err(failed)?;
            return file.write_all(&bytes).and_then(|()| file.flush()).map_err(failed);
        }
        Ok(m) => {
            // Do not replace a read-only file.
            fs::OpenOptions::new().write(true).open(&target).map_err(failed)?;
            Some(m.permissions())
        }
        Err(_) => None,
    };
    let temporary = Temporary(create_temporary(&target).map_err(failed)?);
    let new = fs::metadata(&temporary.0).map_err(failed)?;
    ::safetensors::serialize_to_file(data(), metadata, &temporary.0).map_err(|e| match e {
        SafeTensorError::IoError(e) => failed(e),
        e => writing(e),
    })?;
    let file = fs::File::open(&temporary.0).map_err(failed)?;
    // The temporary file is readable only by its owner, so set the final permissions.
    file.set_permissions(before.unwrap_or(new.permissions())).map_err(failed)?;
    flush(&file).map_err(failed)?;
    fs::rename(&temporary.0, &target).map_err(failed)?;
    // Flush the folder too, so that the new name is on disk. The file is complete in either case.
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    let _ = fs::File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
    Ok(())
}

/// A file that is removed when this value is dropped, unless it was renamed.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Flush a file to disk.
fn flush(file: &fs::File) -> io::Result<()> {
    match file.sync_all() {
        // Some file systems do not support flushing.
        Err(e) if matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        done => done,
    }
}

fn tensor(info: &TensorInfo, bytes: &[u8], device: Device) -> Result<Tensor> {
    let x = Tensor::from_bytes(bytes, &info.shape, from_format(info.dtype)?)?;
    if device == Device::CPU { Ok(x) } else { x.to_device(device) }
}

/// Return the tensors in the bytes of a file, in the order of their positions.
///
/// # Errors
/// Fails with `Runtime` if the bytes are not a complete, well-formed file, and with `NotImplemented` for dtypes that
/// this crate lacks.
pub fn load(bytes: &[u8], device: Device) -> Result<StateDict> {
    let (n, metadata) = SafeTensors::read_metadata(bytes).map_err(reading)?;
    let data = &bytes[8 + n..];
    metadata
        .offset_keys()
        .into_iter()
        .map(|name| {
            let info = metadata.info(&name).expect("a key of its own");
            let x = tensor(info, &data[info.data_offsets.0..info.data_offsets.1], device)?;
            Ok((name, x))
        })
        .collect()
}

/// Load a file; see [`load`].
///
/// # Errors
/// Fails like [`load`] and [`File::open`].
pub fn load_file(path: impl AsRef<Path>, device: Device) -> Result<StateDict> {
    let file = File::open(path)?;
    file.names().into_iter().map(|name| file.tensor(&name, device).map(|x| (name, x))).collect()
}

/// A file whose tensors are read one by one.
#[derive(Debug)]
pub struct File {
    file: Mutex<fs::File>,
    metadata: Metadata,
    /// Position of the tensors' first byte.
    start: u64,
}

impl File {
    /// Open a file and check its header and its length.
    ///
    /// # Errors
    /// Fails with `Runtime` if the file cannot be read or is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        let damaged = |e: &dyn std::fmt::Display| Error::runtime(format!("Error while deserializing header: {e}"));
        let unreadable = |e: io::Error| Error::runtime(format!("{e}: {}", path.display()));
        let mut file = fs::File::open(path).map_err(unreadable)?;
        let about = file.metadata().map_err(unreadable)?;
        if about.is_dir() {
            return Err(unreadable(io::ErrorKind::IsADirectory.into()));
        }
        let length = about.len();
        let mut size = [0; 8];
        if file.read_exact(&mut size).is_err() {
            return Err(damaged(&SafeTensorError::HeaderTooSmall));
        }
        let size = u64::from_le_bytes(size);
        // The format limits a header to this size.
        if size > 100_000_000 {
            return Err(damaged(&SafeTensorError::HeaderTooLarge));
        }
        if size + 8 > length {
            return Err(damaged(&SafeTensorError::InvalidHeaderLength));
        }
        let mut header = torchtpu_tensor::memory::filled(0, size as usize);
        if file.read_exact(&mut header).is_err() {
            return Err(damaged(&SafeTensorError::InvalidHeaderLength));
        }
        let text = std::str::from_utf8(&header).map_err(|e| damaged(&SafeTensorError::InvalidHeader(e)))?;
        let metadata: Metadata =
            serde_json::from_str(text).map_err(|e| damaged(&format!("invalid JSON in header: {e}")))?;
        if metadata.data_len() as u64 + 8 + size != length {
            return Err(damaged(&SafeTensorError::MetadataIncompleteBuffer));
        }
        Ok(File { file: Mutex::new(file), metadata, start: 8 + size })
    }
    /// Return the names of the tensors, in the order of their positions.
    pub fn names(&self) -> Vec<String> {
        self.metadata.offset_keys()
    }
    /// Return the texts stored with the tensors.
    pub fn text_metadata(&self) -> Option<&TextMetadata> {
        self.metadata.metadata().as_ref()
    }
    fn info(&self, name: &str) -> Result<&TensorInfo> {
        self.metadata.info(name).ok_or_else(|| Error::runtime(format!("File does not contain tensor {name}")))
    }
    /// Return the format's name for a tensor's dtype, and its sizes.
    ///
    /// # Errors
    /// Fails with `Runtime` if there is no such tensor.
    pub fn describe(&self, name: &str) -> Result<(String, Vec<usize>)> {
        let info = self.info(name)?;
        Ok((info.dtype.to_string(), info.shape.clone()))
    }
    /// Read a tensor.
    ///
    /// # Errors
    /// Fails with `Runtime` if there is no such tensor, or if the file can no longer be read.
    pub fn tensor(&self, name: &str, device: Device) -> Result<Tensor> {
        let info = self.info(name)?;
        let (from, to) = info.data_offsets;
        let mut bytes = torchtpu_tensor::memory::filled(0, to - from);
        {
            let mut file = self.file.lock();
            file.seek(SeekFrom::Start(self.start + from as u64)).map_err(reading)?;
            file.read_exact(&mut bytes).map_err(reading)?;
        }
        tensor(info, &bytes, device)
    }
}
