//! Custom kernels: their functions for device `cpu`, which also run on XLA:CPU, and their exported programs on disk.

use crate::disk::DiskCache;
use crate::failure::Failure;
use crate::metrics::{COUNTERS, count};
use crate::{device, types};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::{Arc, OnceLock};
use torchtpu_pjrt::{Buffer, Executable};
use torchtpu_tensor::ops::inline::{Inline, Kernel};
use torchtpu_tensor::{DType, Meta, Result};

type Known = FxHashMap<u128, (Inline, Arc<Executable>)>;
static KNOWN: OnceLock<Mutex<Known>> = OnceLock::new();

/// Run a kernel on XLA:CPU.
pub(crate) fn run(kernel: &Arc<Kernel>, x: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
    let fail = |what: &str, e: &torchtpu_pjrt::Error| Failure::device(&format!("{}: {what}", kernel.name()), e).error();
    let device = device::host()?;
    device.check_process().map_err(|f| f.error())?;
    let executable = executable(device, kernel)?;
    let upload = |(bytes, &(dims, dtype)): (&&[u8], &(torchtpu_tensor::Dims, DType))| {
        let sizes = types::dimensions(&Meta { dims, dtype, place: torchtpu_tensor::Place::CPU });
        let made = device.client.buffer_from_host(bytes, types::element_type(dtype), &sizes);
        made.map_err(|e| fail("copying an argument", &e))
    };
    let args = x.iter().zip(kernel.args()).map(upload).collect::<Result<Vec<Buffer>>>()?;
    let args: Vec<&Buffer> = args.iter().collect();
    let results = executable.execute(&args, &[]).map_err(|e| fail("executing on XLA:CPU", &e))?;
    results.iter().map(|r| r.to_vec().map_err(|e| fail("executing on XLA:CPU", &e))).collect()
}

fn executable(device: &device::Device, kernel: &Arc<Kernel>) -> Result<Arc<Executable>> {
    let known = KNOWN.get_or_init(Mutex::default);
    let (hash, call) = (kernel.library().hash(), Inline(kernel.clone()));
    if let Some((of, executable)) = known.lock().get(&hash)
        && *of == call
    {
        return Ok(executable.clone());
    }
    let text = kernel.library().program();
    let key = device.disk_key(&text, &[], &[]);
    let on_disk = device.disk.as_ref().and_then(|disk| disk.load(&key));
    let executable = match on_disk.and_then(|bytes| device.client.deserialize(&bytes).ok()) {
        Some(found) => {
            count(&COUNTERS.disk_cache_hits, 1);
            found
        }
        None => {
            let made = device.compile(&text, &[], &[]).map_err(|e| {
                let place = kernel.place().map(|p| format!(", defined at {p}")).unwrap_or_default();
                Failure::device(&format!("compiling {}{place} for XLA:CPU", kernel.name()), &e).error()
            })?;
            count(&COUNTERS.compilations, 1);
            if let (Some(disk), Ok(bytes)) = (&device.disk, made.serialize()) {
                disk.store(&device.disk_key(&text, &[], &[]), &bytes);
            }
            made
        }
    };
    let executable = Arc::new(executable);
    known.lock().insert(hash, (call, executable.clone()));
    Ok(executable)
}

fn cache() -> Option<&'static DiskCache> {
    static CACHE: OnceLock<Option<DiskCache>> = OnceLock::new();
    CACHE.get_or_init(device::requested_cache).as_ref()
}

fn key(made: &str) -> Vec<u8> {
    format!("torchtpu {} custom kernel\n{made}", env!("CARGO_PKG_VERSION")).into_bytes()
}

pub(crate) fn load(made: &str) -> Option<Vec<u8>> {
    cache()?.load(&key(made))
}

pub(crate) fn store(made: &str, kernel: &[u8]) {
    if let Some(cache) = cache() {
        cache.store(&key(made), kernel);
    }
}
