//! A PJRT plugin for tests: a client that several processes make together, as those of GPUs and TPUs.
//!
//! The calls go to XLA:CPU, whose plugin `TORCHTPU_SIMULATED_BY` names. Its client has a device for each process, and
//! only the own one is addressable. A program of several devices waits until the other processes launch it, too: the
//! processes exchange the arguments through the key-value store of the client. Then each of them runs the program on
//! all devices, and returns the results of its own.
//!
//! `TORCHTPU_SIMULATED_FAULT` is a fault, such as `die,1,2`: process 1 ends in its second launch of a program of
//! several devices. With `stall,1,2` it never gets out of that launch.

#[allow(dead_code, reason = "the whole C ABI is declared there, and this plugin uses a part")]
#[path = "../../src/ffi.rs"]
mod ffi;

use ffi::{
    Api, BoolArgs, BufferFromHostArgs, CallbackError, ChildArgs, ClientCreateArgs, DimsArgs, ExecuteArgs, GetPjrtApi,
    Handle, HandleArgs, IntArgs, KeyValueGetArgs, KeyValuePutArgs, ListArgs, NamedValue, NamedValueUnion, SizeArgs,
    TextArgs, ToHostArgs,
};
use std::collections::{HashMap, HashSet};
use std::ffi::{c_char, c_int};
use std::mem::zeroed;
use std::ptr::{null, null_mut};
use std::slice;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The name of the platform.
const PLATFORM: &str = "simulated";
/// Time that a process waits for the others, in milliseconds. It is reached only if one of them is gone.
const TIMEOUT: c_int = 60_000;
/// `PJRT_NamedValue_kInt64`.
const INT64: c_int = 1;
/// `UNAVAILABLE`.
const UNAVAILABLE: c_int = 14;

/// The table of XLA:CPU.
struct Real(Api);

/// The client of this process.
struct Job {
    rank: usize,
    size: usize,
    /// The function table for the key-value store, as the creator of the client passed it.
    store: ClientCreateArgs,
    /// The device of each process.
    devices: Vec<Handle>,
    /// Number of launches with each list of ranks.
    launches: Mutex<HashMap<Vec<usize>, u64>>,
}

/// An error of this plugin. The others are XLA:CPU's.
struct OwnError {
    code: c_int,
    text: String,
}

// SAFETY: the table holds functions, which any thread may call, and a pointer that is never read.
unsafe impl Send for Real {}
// SAFETY: as above. The table does not change.
unsafe impl Sync for Real {}
// SAFETY: any thread may use the store and the devices of a client.
unsafe impl Send for Job {}
// SAFETY: as above. The rest is locked or does not change.
unsafe impl Sync for Job {}

static REAL: OnceLock<Real> = OnceLock::new();
static JOB: OnceLock<Job> = OnceLock::new();
/// Addresses of the errors of this plugin that are alive.
static ERRORS: Mutex<Option<HashSet<usize>>> = Mutex::new(None);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn real() -> &'static Api {
    &REAL.get().expect("the plugin is loaded").0
}

fn job() -> &'static Job {
    JOB.get().expect("the client is made")
}

/// A call that fails with an error of PJRT.
type Outcome<T> = Result<T, Handle>;

fn outcome(error: Handle) -> Outcome<()> {
    if error.is_null() { Ok(()) } else { Err(error) }
}

fn handle(outcome: Outcome<()>) -> Handle {
    outcome.err().unwrap_or(null_mut())
}

/// Make an error.
fn failure(text: String) -> Handle {
    own_error(UNAVAILABLE, text)
}

fn own_error(code: c_int, text: String) -> Handle {
    let error: Handle = Box::into_raw(Box::new(OwnError { code, text })).cast();
    locked(&ERRORS).get_or_insert_default().insert(error.addr());
    error
}

fn is_own(error: Handle) -> bool {
    locked(&ERRORS).as_ref().is_some_and(|errors| errors.contains(&error.addr()))
}

/// Call an entry of XLA:CPU's table. Use it inside `unsafe`: the arguments must be what the entry expects.
macro_rules! real {
    ($entry:ident, $args:expr) => {
        (real().$entry.expect("XLA:CPU has the entry"))($args)
    };
}

/// Return the function table of the plugin, or null if `TORCHTPU_SIMULATED_BY` names none.
#[unsafe(no_mangle)]
pub extern "C" fn GetPjrtApi() -> *const u8 {
    static TABLE: OnceLock<Option<Real>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let path = std::env::var_os("TORCHTPU_SIMULATED_BY")?;
        // SAFETY: the library is a plugin of PJRT, which stays loaded, as its threads outlive handles.
        let api = unsafe {
            let library = Box::leak(Box::new(libloading::Library::new(path).ok()?));
            let get = library.get::<GetPjrtApi>(b"GetPjrtApi\0").ok()?;
            Api::copy_from(get())
        };
        REAL.get_or_init(|| Real(api));
        let mut api = api_with_own_entries();
        // Its extensions, such as custom calls, are those of one process.
        api.extension_start = null_mut();
        api.struct_size = size_of::<Api>();
        Some(Real(api))
    });
    table.as_ref().map_or(null(), |table| (&raw const table.0).cast())
}

fn api_with_own_entries() -> Api {
    // SAFETY: the table of XLA:CPU is alive, and as long as its size says.
    let mut api = unsafe { Api::copy_from(real()) };
    api.PJRT_Error_Destroy = Some(error_destroy);
    api.PJRT_Error_Message = Some(error_message);
    api.PJRT_Error_GetCode = Some(error_code);
    api.PJRT_Client_Create = Some(create);
    api.PJRT_Client_PlatformName = Some(platform_name);
    api.PJRT_Device_IsAddressable = Some(is_addressable);
    api.PJRT_LoadedExecutable_AddressableDevices = Some(addressable_devices);
    api.PJRT_LoadedExecutable_Execute = Some(execute);
    api
}

unsafe extern "C" fn error_destroy(args: *mut HandleArgs) {
    // SAFETY: the caller passes arguments that are alive, with an error that it owns.
    unsafe {
        let error = (*args).handle;
        if locked(&ERRORS).as_mut().is_some_and(|errors| errors.remove(&error.addr())) {
            drop(Box::from_raw(error.cast::<OwnError>()));
        } else {
            real!(PJRT_Error_Destroy, args);
        }
    }
}

unsafe extern "C" fn error_message(args: *mut TextArgs) {
    // SAFETY: the caller passes arguments that are alive, with an error that is.
    unsafe {
        if is_own((*args).handle) {
            let error = &*(*args).handle.cast::<OwnError>();
            ((*args).text, (*args).size) = (error.text.as_ptr().cast(), error.text.len());
        } else {
            real!(PJRT_Error_Message, args);
        }
    }
}

unsafe extern "C" fn error_code(args: *mut IntArgs) -> Handle {
    // SAFETY: the caller passes arguments that are alive, with an error that is.
    unsafe {
        if is_own((*args).handle) {
            (*args).value = (*(*args).handle.cast::<OwnError>()).code;
            return null_mut();
        }
        real!(PJRT_Error_GetCode, args)
    }
}

unsafe extern "C" fn callback_error(code: c_int, text: *const c_char, size: usize) -> Handle {
    // SAFETY: the caller passes a text of this size.
    let text = unsafe { slice::from_raw_parts(text.cast::<u8>(), size) };
    own_error(code, String::from_utf8_lossy(text).into_owned())
}

static CALLBACK_ERROR: CallbackError = Some(callback_error);

/// Make the client with the options of the CUDA plugin, and wait for the other processes.
unsafe extern "C" fn create(args: *mut ClientCreateArgs) -> Handle {
    // SAFETY: the caller passes arguments that are alive. Options have names of the given sizes.
    let args = unsafe { &mut *args };
    let given: &[NamedValue] = match args.num_options {
        0 => &[],
        // SAFETY: as above.
        n => unsafe { slice::from_raw_parts(args.options, n) },
    };
    let number = |name: &str| {
        // SAFETY: as above. The value is an integer by its kind.
        let found = |o: &&NamedValue| unsafe {
            o.kind == INT64 && slice::from_raw_parts(o.name.cast::<u8>(), o.name_size) == name.as_bytes()
        };
        // SAFETY: as above.
        given.iter().find(found).map(|o| unsafe { o.value.int64 } as usize)
    };
    let (rank, size) = (number("node_id").unwrap_or(0), number("num_nodes").unwrap_or(1));
    const COUNT: &str = "cpu_device_count";
    let mut count = NamedValue::new();
    (count.name, count.name_size) = (COUNT.as_ptr().cast(), COUNT.len());
    (count.kind, count.value, count.value_size) = (INT64, NamedValueUnion { int64: size as i64 }, 1);
    let mut own = ClientCreateArgs::new();
    (own.options, own.num_options) = (&raw const count, 1);
    let mut made = || {
        // SAFETY: the option outlives the call.
        outcome(unsafe { real!(PJRT_Client_Create, &mut own) })?;
        let mut list = ListArgs::new();
        list.handle = own.client;
        // SAFETY: the client is alive, and so is its list of devices.
        let devices = unsafe {
            outcome(real!(PJRT_Client_Devices, &mut list))?;
            slice::from_raw_parts(list.items, list.count).to_vec()
        };
        args.client = own.client;
        let new = Job { rank, size, store: *args, devices, launches: Mutex::default() };
        let job = JOB.get_or_init(|| new);
        job.put(&format!("process/{rank}"), b"here")?;
        (0..size).try_for_each(|r| job.get(&format!("process/{r}")).map(drop))
    };
    handle(made())
}

unsafe extern "C" fn platform_name(args: *mut TextArgs) -> Handle {
    // SAFETY: the caller passes arguments that are alive.
    unsafe { ((*args).text, (*args).size) = (PLATFORM.as_ptr().cast(), PLATFORM.len()) };
    null_mut()
}

unsafe extern "C" fn is_addressable(args: *mut BoolArgs) -> Handle {
    // The list of devices is read while the client is made.
    // SAFETY: the caller passes arguments that are alive.
    unsafe { (*args).value = (*args).handle == job().devices[job().rank] };
    null_mut()
}

unsafe extern "C" fn addressable_devices(args: *mut ListArgs) -> Handle {
    // SAFETY: the caller passes arguments that are alive, with an executable.
    let devices = match unsafe { devices_of((*args).handle) } {
        Ok(devices) => devices,
        Err(error) => return error,
    };
    let own = &job().devices[job().rank];
    // SAFETY: as above. The client's devices live as long as the process.
    unsafe { ((*args).items, (*args).count) = (own, usize::from(devices.contains(own))) };
    null_mut()
}

/// Return the devices of a program.
///
/// # Safety
///
/// The executable is alive.
unsafe fn devices_of(executable: Handle) -> Outcome<&'static [Handle]> {
    let mut list = ListArgs::new();
    list.handle = executable;
    // SAFETY: the caller passes an executable that is alive, and so is its list.
    unsafe {
        outcome(real!(PJRT_LoadedExecutable_AddressableDevices, &mut list))?;
        Ok(slice::from_raw_parts(list.items, list.count))
    }
}

/// Launch a program. With the devices of other processes, wait for their arguments.
unsafe extern "C" fn execute(args: *mut ExecuteArgs) -> Handle {
    // SAFETY: the caller passes what the entry needs, with lists for the one device of this process.
    handle(unsafe {
        match devices_of((*args).executable) {
            Ok([_]) => outcome(real!(PJRT_LoadedExecutable_Execute, args)),
            Ok(devices) => execute_together(&mut *args, devices),
            Err(error) => Err(error),
        }
    })
}

/// Do what `TORCHTPU_SIMULATED_FAULT` says about a launch of this process.
fn fail_if_asked(rank: usize, launch: u64) {
    let Ok(fault) = std::env::var("TORCHTPU_SIMULATED_FAULT") else { return };
    match fault.split_once(',') {
        Some(("die", at)) if at == format!("{rank},{launch}") => std::process::exit(0),
        Some(("stall", at)) if at == format!("{rank},{launch}") => loop {
            std::thread::park();
        },
        _ => {}
    }
}

/// # Safety
///
/// As for `execute`. The devices are those of the program.
unsafe fn execute_together(args: &mut ExecuteArgs, devices: &[Handle]) -> Outcome<()> {
    let job = job();
    let rank_of = |device: &Handle| job.devices.iter().position(|d| d == device);
    let ranks: Vec<usize> = devices.iter().filter_map(rank_of).collect();
    let launch = {
        let mut launches = locked(&job.launches);
        let launch = launches.entry(ranks.clone()).or_insert(0);
        *launch += 1;
        *launch
    };
    // SAFETY: the caller passes a list of arguments and a list of outputs for one device.
    let (own, own_outputs) =
        unsafe { (slice::from_raw_parts(*args.argument_lists, args.num_args), *args.output_lists) };
    fail_if_asked(job.rank, launch);
    let key = |rank: usize| format!("launch/{ranks:?}/{launch}/{rank}");
    // SAFETY: the arguments are alive.
    job.put(&key(job.rank), &unsafe { packed(own) }?)?;
    let mut made = Buffers(Vec::new());
    let mut arguments: Vec<Vec<Handle>> = Vec::new();
    for (&rank, &device) in ranks.iter().zip(devices) {
        if rank == job.rank {
            arguments.push(own.to_vec());
            continue;
        }
        let first = made.0.len();
        unpack(&job.get(&key(rank))?, device, &mut made)?;
        arguments.push(made.0[first..].to_vec());
    }
    // SAFETY: the executable is alive.
    let outputs = unsafe { outputs_of(args.executable) }?;
    let mut others: Vec<Vec<Handle>> = ranks.iter().map(|_| vec![null_mut(); outputs]).collect();
    let mut events: Vec<Handle> = vec![null_mut(); ranks.len()];
    let argument_lists: Vec<*const Handle> = arguments.iter().map(|list| list.as_ptr()).collect();
    let output_lists: Vec<*mut Handle> = ranks
        .iter()
        .zip(&mut others)
        .map(|(&rank, list)| if rank == job.rank { own_outputs } else { list.as_mut_ptr() })
        .collect();
    let mut all = *args;
    (all.argument_lists, all.output_lists) = (argument_lists.as_ptr(), output_lists.as_ptr());
    all.num_devices = ranks.len();
    all.device_complete_events = events.as_mut_ptr();
    // SAFETY: there is a list of each kind for each device of the program, in its order.
    outcome(unsafe { real!(PJRT_LoadedExecutable_Execute, &mut all) })?;
    for ((&rank, list), event) in ranks.iter().zip(others).zip(events) {
        // SAFETY: the launch has made the events and the outputs, and they are owned here.
        unsafe {
            if rank == job.rank && !args.device_complete_events.is_null() {
                *args.device_complete_events = event;
            } else {
                destroy_event(event);
            }
        }
        if rank != job.rank {
            made.0.extend(list);
        }
    }
    Ok(())
}

/// Buffers that are destroyed at the end.
struct Buffers(Vec<Handle>);

impl Drop for Buffers {
    fn drop(&mut self) {
        for &buffer in &self.0 {
            let mut args = HandleArgs::new();
            args.handle = buffer;
            // SAFETY: the buffer is owned here. XLA:CPU keeps what a running program needs.
            if let Err(error) = outcome(unsafe { real!(PJRT_Buffer_Destroy, &mut args) }) {
                args.handle = error;
                // SAFETY: the error is owned here.
                unsafe { error_destroy(&mut args) };
            }
        }
    }
}

/// # Safety
///
/// The event is the caller's.
unsafe fn destroy_event(event: Handle) {
    let mut args = HandleArgs::new();
    args.handle = event;
    // SAFETY: as above. An event without an error to report needs no more care.
    if let Err(error) = outcome(unsafe { real!(PJRT_Event_Destroy, &mut args) }) {
        args.handle = error;
        // SAFETY: the error is owned here.
        unsafe { error_destroy(&mut args) };
    }
}

/// Wait for an event, and destroy it.
///
/// # Safety
///
/// The event is the caller's.
unsafe fn await_event(event: Handle) -> Outcome<()> {
    let mut args = HandleArgs::new();
    args.handle = event;
    // SAFETY: as above.
    unsafe {
        let done = outcome(real!(PJRT_Event_Await, &mut args));
        destroy_event(event);
        done
    }
}

/// Return the number of outputs of a program.
///
/// # Safety
///
/// The executable is alive.
unsafe fn outputs_of(executable: Handle) -> Outcome<usize> {
    let mut child = ChildArgs::new();
    child.handle = executable;
    let mut size = SizeArgs::new();
    let mut last = HandleArgs::new();
    // SAFETY: as above. The program that the call returns is owned here.
    unsafe {
        outcome(real!(PJRT_LoadedExecutable_GetExecutable, &mut child))?;
        (size.handle, last.handle) = (child.child, child.child);
        let counted = outcome(real!(PJRT_Executable_NumOutputs, &mut size));
        outcome(real!(PJRT_Executable_Destroy, &mut last))?;
        counted.map(|()| size.value)
    }
}

/// Return arguments as bytes: for each, its element type, the number of its dimensions, its sizes, the number of its
/// bytes, and its elements in row-major order. All numbers are `i64`.
///
/// # Safety
///
/// The buffers are alive.
unsafe fn packed(buffers: &[Handle]) -> Outcome<Vec<u8>> {
    let mut bytes = Vec::new();
    for &buffer in buffers {
        let (mut kind, mut dims, mut host) = (IntArgs::new(), DimsArgs::new(), ToHostArgs::new());
        (kind.handle, dims.handle, host.src) = (buffer, buffer, buffer);
        // SAFETY: the buffer is alive, and so are its sizes. The first call without memory returns the size.
        unsafe {
            outcome(real!(PJRT_Buffer_ElementType, &mut kind))?;
            outcome(real!(PJRT_Buffer_Dimensions, &mut dims))?;
            outcome(real!(PJRT_Buffer_ToHostBuffer, &mut host))?;
            let sizes = if dims.count == 0 { &[] } else { slice::from_raw_parts(dims.dims, dims.count) };
            let numbers = [i64::from(kind.value), sizes.len() as i64].into_iter().chain(sizes.iter().copied());
            bytes.extend(numbers.chain([host.dst_size as i64]).flat_map(i64::to_ne_bytes));
            let start = bytes.len();
            bytes.resize(start + host.dst_size, 0);
            host.dst = bytes[start..].as_mut_ptr().cast();
            outcome(real!(PJRT_Buffer_ToHostBuffer, &mut host))?;
            await_event(host.event)?;
        }
    }
    Ok(bytes)
}

/// Put the arguments of another process on its device.
fn unpack(mut bytes: &[u8], device: Handle, made: &mut Buffers) -> Outcome<()> {
    let number = |bytes: &mut &[u8]| -> i64 {
        let (first, rest) = bytes.split_first_chunk::<8>().expect("another process has packed it");
        *bytes = rest;
        i64::from_ne_bytes(*first)
    };
    while !bytes.is_empty() {
        let mut args = BufferFromHostArgs::new();
        args.element_type = number(&mut bytes) as c_int;
        let count = number(&mut bytes) as usize;
        let sizes: Vec<i64> = (0..count).map(|_| number(&mut bytes)).collect();
        let size = number(&mut bytes) as usize;
        let (elements, rest) = bytes.split_at(size);
        bytes = rest;
        (args.client, args.device) = (job().store.client, device);
        (args.dims, args.num_dims, args.data) = (sizes.as_ptr(), count, elements.as_ptr().cast());
        args.semantics = ffi::IMMUTABLE_ONLY_DURING_CALL;
        // SAFETY: the elements and sizes are alive during the call, and after it until the event.
        unsafe {
            outcome(real!(PJRT_Client_BufferFromHostBuffer, &mut args))?;
            made.0.push(args.buffer);
            await_event(args.done_with_host_buffer)?;
        }
    }
    Ok(())
}

impl Job {
    fn put(&self, key: &str, value: &[u8]) -> Outcome<()> {
        let Some(put) = self.store.kv_put else { return self.alone() };
        // SAFETY: all zeros is a valid value of each field.
        let mut args: KeyValuePutArgs = unsafe { zeroed() };
        (args.key, args.key_size) = (key.as_ptr().cast(), key.len());
        (args.value, args.value_size) = (value.as_ptr().cast(), value.len());
        (args.callback_error, args.user_arg) = (&raw const CALLBACK_ERROR, self.store.kv_put_arg);
        // SAFETY: the arguments are alive during the call.
        outcome(unsafe { put(&mut args) })
    }

    fn get(&self, key: &str) -> Outcome<Vec<u8>> {
        let Some(get) = self.store.kv_get else { return self.alone().map(|()| Vec::new()) };
        // SAFETY: all zeros is a valid value of each field.
        let mut args: KeyValueGetArgs = unsafe { zeroed() };
        (args.key, args.key_size) = (key.as_ptr().cast(), key.len());
        (args.timeout_ms, args.callback_error) = (TIMEOUT, &raw const CALLBACK_ERROR);
        args.user_arg = self.store.kv_get_arg;
        // SAFETY: the arguments are alive during the call. The value is this process's until it is freed.
        unsafe {
            outcome(get(&mut args))?;
            let value = match args.value_size {
                0 => Vec::new(),
                size => slice::from_raw_parts(args.value.cast::<u8>(), size).to_vec(),
            };
            if let Some(free) = args.value_deleter {
                free(args.value);
            }
            Ok(value)
        }
    }

    /// Without a store, one process is the whole job.
    fn alone(&self) -> Outcome<()> {
        match self.size {
            1 => Ok(()),
            _ => Err(failure("the client of several processes has no key-value store".to_string())),
        }
    }
}
