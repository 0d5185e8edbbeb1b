//! One function per parser of external bytes. It must return for every input, without panicking or hanging.
//!
//! `tests/mutations.rs` calls them with mutated seeds in every `make test`. The targets of `cargo fuzz` (`fuzz/`) call
//! the same functions with libFuzzer's inputs. The pickle machine is written in Python: `fuzz/checkpoint_pickle.py`,
//! `tests/attack/files.py`.

use sha2::Digest;
use torchtpu::dlpack::{self, DLDataType, DLDevice, DLManagedTensorVersioned, DLPackVersion, DLTensor, ManagedTensor};
use torchtpu::schema::Schema;
use torchtpu::{Device, nn::safetensors};

/// A function that takes whatever bytes it is given.
type Target = fn(&[u8]);

/// The name of each target and its function.
pub const TARGETS: &[(&str, Target)] =
    &[("safetensors", safetensors), ("schema", schema), ("dlpack", dlpack), ("disk_cache", disk_cache)];

/// Load the bytes of a safetensors file, then save and load the result again.
pub fn safetensors(data: &[u8]) {
    if let Ok(tensors) = safetensors::load(data, Device::CPU) {
        let again = safetensors::save(&tensors, None).expect("what was loaded can be saved");
        assert_eq!(safetensors::load(&again, Device::CPU).expect("what was saved can be loaded").len(), tensors.len());
    }
}

/// Parse the schema of an op.
pub fn schema(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = Schema::parse(text);
    }
}

/// Look for the executable in a file of the disk cache: once with the bytes unchanged, and once with a correct
/// checksum, so that only the parser's own checks remain.
pub fn disk_cache(data: &[u8]) {
    let body = &data[..data.len().saturating_sub(32)];
    let with_checksum = [body, &sha2::Sha256::digest(body)].concat();
    for bytes in [data, &with_checksum] {
        if let Some(program) = torchtpu::lazy::executable_in_cache_file(bytes, b"key") {
            assert!(program.len() < bytes.len());
        }
    }
}

/// Import a DLPack tensor with arbitrary numbers. Its lists have the length `ndim`, because a reader cannot know
/// better. Its memory is a buffer of [`BUFFER`] bytes, and elements are read only if they lie inside.
pub fn dlpack(data: &[u8]) {
    const BUFFER: usize = 4096;
    const LISTS: usize = 80;
    let mut numbers = data.chunks(8).map(|chunk| {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        i64::from_le_bytes(bytes)
    });
    let mut next = || numbers.next().unwrap_or(0);
    let (kind, ndim, has_strides, flags) = (next(), next(), next(), next());
    let (offset, version, device) = (next(), next(), next());
    let mut buffer = vec![0u64; BUFFER / 8];
    let mut shape: Vec<i64> = (0..LISTS).map(|_| next()).collect();
    let mut strides: Vec<i64> = (0..LISTS).map(|_| next()).collect();
    let dtype = DLDataType { code: kind as u8, bits: (kind >> 8) as u8, lanes: (kind >> 16) as u16 };
    let ndim = (ndim as i32).min(LISTS as i32);
    let mut managed = DLManagedTensorVersioned {
        version: DLPackVersion { major: version as u32 % 4, minor: (version >> 32) as u32 },
        manager_ctx: std::ptr::null_mut(),
        deleter: None,
        flags: flags as u64,
        dl_tensor: DLTensor {
            data: buffer.as_mut_ptr().cast(),
            device: DLDevice { device_type: device as i32 % 16, device_id: (device >> 32) as i32 },
            ndim,
            dtype,
            shape: shape.as_mut_ptr(),
            strides: if has_strides & 1 == 0 { std::ptr::null_mut() } else { strides.as_mut_ptr() },
            byte_offset: offset as u64,
        },
    };
    // Use compact strides if there are none.
    let rank = ndim.max(0) as usize;
    let sizes = &shape[..rank];
    let steps: Vec<i128> = match has_strides & 1 {
        0 => (0..rank)
            .map(|i| sizes[i + 1..].iter().map(|&n| i128::from(n.clamp(0, 1 << 20))).fold(1, saturating))
            .collect(),
        _ => strides[..rank].iter().map(|&step| i128::from(step)).collect(),
    };
    let bytes = i128::from(dtype.bits / 8);
    let ends = sizes.iter().zip(&steps).map(|(&n, &step)| saturating(i128::from(n) - 1, step));
    let (lowest, highest) = ends.fold((0, 0), |(low, high), end| (low + end.min(0), high + end.max(0)));
    let first = i128::from(offset as u64);
    let is_inside = first + lowest * bytes >= 0 && first + (highest + 1) * bytes <= BUFFER as i128;
    // SAFETY: the struct, its lists and its buffer outlive the tensor and do not change, and there is no deleter.
    let managed = unsafe { ManagedTensor::from_raw(&mut managed) };
    // Metadata must be safe for all numbers. Memory is read only if the numbers are correct.
    let _ = managed.meta();
    if is_inside
        && let Ok(x) = dlpack::from_dlpack(managed)
        && x.numel() <= BUFFER
    {
        x.copy().expect("elements inside the buffer can be copied");
    }
}

/// Return a product that is limited, so that sums do not overflow.
fn saturating(a: i128, b: i128) -> i128 {
    a.saturating_mul(b).clamp(-(1 << 100), 1 << 100)
}
