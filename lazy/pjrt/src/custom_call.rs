//! Custom calls: functions of this process that a compiled program calls by name, through XLA's typed FFI.
//!
//! A plugin can register them if it has the PJRT extension for FFI. XLA passes a call as a frame, a C struct with
//! operands, results and attributes. This module converts the frame to slices and calls the function.

use std::any::type_name;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::slice;

use smallvec::SmallVec;

use crate::client::Client;
use crate::error::{Code, Error, Result};
use crate::extension::{self, Extension};
use crate::ffi::{Call, Unused};
use crate::plugin::Plugin;
use crate::tensor_type::ElementType;

/// A function that programs call by name.
pub trait CustomCall {
    /// The name in StableHLO: `call_target_name`, with `api_version = 4`.
    const TARGET: &'static str;

    /// Compute the results from the operands. Runs on a thread of the plugin, and several calls may run at once.
    ///
    /// # Errors
    ///
    /// Returns a message, which becomes the error of the execution. A panic does too.
    fn call(frame: CallFrame<'_>) -> std::result::Result<(), String>;
}

/// One call: its inputs, its outputs and its attributes.
pub struct CallFrame<'a> {
    /// The operands. They are row-major if the program's `operand_layouts` say so.
    pub operands: SmallVec<[Operand<'a>; 4]>,
    /// The results. They are row-major if the program's `result_layouts` say so.
    pub results: SmallVec<[OperandMut<'a>; 4]>,
    /// The string attribute `kernel`.
    pub kernel: &'a str,
    /// The `i64` array attribute `numbers`.
    pub numbers: &'a [i64],
    /// The threads of the runtime.
    pub threads: Threads<'a>,
}

/// The threads on which the runtime computes.
#[derive(Clone, Copy)]
pub struct Threads<'a>(&'a Frame);

impl Threads<'_> {
    /// Run `task` on one of the threads, now or later, even after the call. Drops the task if there are no threads.
    pub fn schedule(&self, task: Box<dyn FnOnce() + Send>) {
        // SAFETY: the frame comes from `handle`, so its table is XLA's.
        let schedule = unsafe {
            let api = &*self.0.api;
            if api.struct_size < offset_of!(FfiApi, schedule) + size_of::<usize>() { None } else { api.schedule }
        };
        let Some(schedule) = schedule else { return };
        let data = Box::into_raw(Box::new(task));
        let mut args = Schedule {
            struct_size: size_of::<Schedule>(),
            extension: null_mut(),
            context: self.0.context,
            task: run_task,
            data: data.cast(),
        };
        // SAFETY: the box behind `data` is taken back exactly once: by the task when it runs, or here if the runtime
        // refuses it.
        unsafe {
            let error = schedule(&mut args);
            if !error.is_null() {
                drop(Box::from_raw(data));
                let mut args = DestroyError { struct_size: size_of::<DestroyError>(), extension: null_mut(), error };
                if let Some(destroy) = (*self.0.api).destroy_error {
                    destroy(&mut args);
                }
            }
        }
    }
}

/// `XLA_FFI_Task`.
///
/// # Safety
/// `data` is the box of [`Threads::schedule`] and is not used again.
unsafe extern "C" fn run_task(data: *mut c_void) {
    // SAFETY: the caller passes the box of [`Threads::schedule`], and only once.
    let task = unsafe { Box::from_raw(data.cast::<Box<dyn FnOnce() + Send>>()) };
    // A panic must not enter XLA. Code that waits for the task notices that it is not done.
    let _ = catch_unwind(AssertUnwindSafe(task));
}

/// An array that a call reads.
#[derive(Clone, Copy)]
pub struct Operand<'a> {
    /// Element type.
    pub element_type: ElementType,
    /// Sizes, outermost first.
    pub dims: &'a [i64],
    /// The elements, aligned for their type. Empty if a result takes over the memory; the result then holds them.
    pub bytes: &'a [u8],
}

/// An array that a call writes completely.
pub struct OperandMut<'a> {
    /// Element type.
    pub element_type: ElementType,
    /// Sizes, outermost first.
    pub dims: &'a [i64],
    /// The elements, aligned for their type. If the result takes over an operand's memory (`output_operand_aliases`),
    /// they start as that operand's elements.
    pub bytes: &'a mut [u8],
}

impl Client {
    /// Register `C` for programs of this plugin, for as long as the process lives. Registering it again changes
    /// nothing.
    ///
    /// # Errors
    ///
    /// Fails with `Unimplemented` if the plugin has no FFI extension, or with the plugin's error if it does not support
    /// this version of it.
    pub fn register_custom_call<C: CustomCall>(&self) -> Result<()> {
        const CONTEXT: &str = "register custom call";
        let plugin: &Plugin = self.plugin();
        let extension = find_ffi(plugin).ok_or_else(|| {
            Error::new(Code::Unimplemented, CONTEXT, format!("plugin {} has no FFI extension", plugin.path().display()))
        })?;
        let platform = CString::new(self.platform_name()).map_err(|e| Error::invalid(CONTEXT, e.to_string()))?;
        let handler: Handler = handle::<C>;
        let mut args = RegisterArgs {
            struct_size: REGISTER_ARGS_SIZE,
            target: C::TARGET.as_ptr().cast(),
            target_size: C::TARGET.len(),
            handler: handler as *mut c_void,
            platform: platform.as_ptr(),
            platform_size: platform.as_bytes().len(),
            traits: 0,
        };
        // SAFETY: the names live during the call, which copies them. The handler is a function and lives forever. A
        // plugin with an older, longer form of these arguments refuses their size.
        unsafe { plugin.call("PJRT_FFI_Register_Handler", extension.register_handler, &mut args) }
    }
}

fn find_ffi(plugin: &Plugin) -> Option<FfiExtension> {
    // SAFETY: `FfiExtension` is the beginning of extensions of this kind.
    unsafe { extension::find(plugin, FFI_EXTENSION) }
}

// The rest is the used part of XLA's C API for FFI (`xla/ffi/api/c_api.h`). Like PJRT's, it only grows at the end.

/// `PJRT_Extension_Type_FFI`.
const FFI_EXTENSION: c_int = 5;
/// `XLA_FFI_Extension_Metadata`.
const METADATA_EXTENSION: c_int = 1;
/// `XLA_FFI_ArgType_BUFFER` and `XLA_FFI_RetType_BUFFER`.
const BUFFER: c_int = 1;
/// `XLA_FFI_AttrType_ARRAY`.
const ARRAY: c_int = 1;
/// `XLA_FFI_AttrType_STRING`.
const STRING: c_int = 4;
/// `XLA_FFI_DataType_S64`.
const S64: c_int = 5;
/// `XLA_FFI_Error_Code_INVALID_ARGUMENT`.
const INVALID_ARGUMENT: c_int = 3;
/// The version of the C API of these structs. `XLA_FFI_CallFrame` has not changed since 0.1.
const VERSION: (c_int, c_int) = (0, 1);

type Handler = unsafe extern "C" fn(*mut Frame) -> *mut c_void;

/// `PJRT_FFI_Extension`.
#[repr(C)]
#[derive(Clone, Copy)]
struct FfiExtension {
    base: Extension,
    type_register: Unused,
    user_data_add: Unused,
    register_handler: Call<RegisterArgs>,
}

/// `PJRT_FFI_Register_Handler_Args`.
#[repr(C)]
struct RegisterArgs {
    struct_size: usize,
    target: *const c_char,
    target_size: usize,
    handler: *mut c_void,
    platform: *const c_char,
    platform_size: usize,
    traits: c_uint,
}

/// Size without trailing padding.
const REGISTER_ARGS_SIZE: usize = 6 * size_of::<usize>() + size_of::<c_uint>();

/// `XLA_FFI_Api_Version`.
#[repr(C)]
struct Version {
    struct_size: usize,
    extension: *mut Extension,
    major: c_int,
    minor: c_int,
}

/// `XLA_FFI_Metadata`, without the fields at its end.
#[repr(C)]
struct Metadata {
    struct_size: usize,
    version: Version,
    traits: u32,
}

/// `XLA_FFI_Metadata_Extension`.
#[repr(C)]
struct MetadataExtension {
    base: Extension,
    metadata: *mut Metadata,
}

/// `XLA_FFI_Api`, without the fields at its end.
#[repr(C)]
struct FfiApi {
    struct_size: usize,
    extension: *mut Extension,
    version: Version,
    internal: *const c_void,
    create_error: Option<unsafe extern "C" fn(*mut CreateError) -> *mut c_void>,
    get_message: Unused,
    destroy_error: Option<unsafe extern "C" fn(*mut DestroyError)>,
    register_handler: Unused,
    get_stream: Unused,
    register_type: Unused,
    get_context: Unused,
    set_state: Unused,
    get_state: Unused,
    allocate: Unused,
    free: Unused,
    schedule: Option<unsafe extern "C" fn(*mut Schedule) -> *mut c_void>,
}

/// `XLA_FFI_Error_Destroy_Args`.
#[repr(C)]
struct DestroyError {
    struct_size: usize,
    extension: *mut Extension,
    error: *mut c_void,
}

/// `XLA_FFI_ThreadPool_Schedule_Args`.
#[repr(C)]
struct Schedule {
    struct_size: usize,
    extension: *mut Extension,
    context: *mut c_void,
    task: unsafe extern "C" fn(*mut c_void),
    data: *mut c_void,
}

/// `XLA_FFI_Error_Create_Args`.
#[repr(C)]
struct CreateError {
    struct_size: usize,
    extension: *mut Extension,
    message: *const c_char,
    code: c_int,
}

/// `XLA_FFI_CallFrame`, without the fields at its end.
#[repr(C)]
struct Frame {
    struct_size: usize,
    extension: *mut Extension,
    api: *const FfiApi,
    context: *mut c_void,
    stage: c_int,
    operands: List,
    results: List,
    attributes: Attributes,
}

/// `XLA_FFI_Args` and `XLA_FFI_Rets`.
#[repr(C)]
struct List {
    struct_size: usize,
    extension: *mut Extension,
    size: i64,
    kinds: *const c_int,
    items: *const *mut c_void,
}

/// `XLA_FFI_Attrs`.
#[repr(C)]
struct Attributes {
    struct_size: usize,
    extension: *mut Extension,
    size: i64,
    kinds: *const c_int,
    names: *const *const Bytes,
    items: *const *mut c_void,
}

/// `XLA_FFI_ByteSpan`.
#[repr(C)]
struct Bytes {
    data: *const u8,
    size: usize,
}

/// `XLA_FFI_Array`.
#[repr(C)]
struct Array {
    element: c_int,
    size: usize,
    data: *const c_void,
}

/// `XLA_FFI_Buffer`.
#[repr(C)]
struct RawBuffer {
    struct_size: usize,
    extension: *mut Extension,
    element: c_int,
    data: *mut c_void,
    rank: i64,
    dims: *const i64,
}

/// Handle a call from XLA: first a query of the version, then one call per execution.
///
/// # Safety
/// The frame and the memory that it points to live until the function returns, as XLA guarantees.
unsafe extern "C" fn handle<C: CustomCall>(frame: *mut Frame) -> *mut c_void {
    // SAFETY: XLA passes a frame that lives until this function returns.
    let frame = unsafe { &*frame };
    let extension = frame.extension.cast::<MetadataExtension>();
    // SAFETY: an extension starts with its base, and one of this kind is this struct.
    unsafe {
        if let Some(extension) = extension.as_ref()
            && extension.base.kind == METADATA_EXTENSION
        {
            let metadata = &mut *extension.metadata;
            (metadata.version.major, metadata.version.minor) = VERSION;
            metadata.traits = 0;
            return null_mut();
        }
    }
    // SAFETY: XLA passes the frame of an execution.
    let outcome = catch_unwind(AssertUnwindSafe(|| unsafe { read(frame) }.and_then(C::call)));
    let message = match outcome {
        Ok(Ok(())) => return null_mut(),
        Ok(Err(message)) => message,
        Err(panic) => match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
            (Some(text), _) => text.clone(),
            (_, Some(text)) => (*text).to_string(),
            _ => format!("{} panicked", type_name::<C>()),
        },
    };
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    // SAFETY: XLA passes the frame, copies the message and owns the error.
    unsafe { error(frame, &message) }
}

unsafe fn error(frame: &Frame, message: &CStr) -> *mut c_void {
    let mut args = CreateError {
        struct_size: 3 * size_of::<usize>() + size_of::<c_int>(),
        extension: null_mut(),
        message: message.as_ptr(),
        code: INVALID_ARGUMENT,
    };
    // SAFETY: the caller passes XLA's frame.
    unsafe {
        match (*frame.api).create_error {
            Some(create) => create(&mut args),
            None => null_mut(),
        }
    }
}

/// # Safety
/// `frame` is XLA's frame of an execution.
unsafe fn read(frame: &Frame) -> std::result::Result<CallFrame<'_>, String> {
    // SAFETY: the caller passes XLA's frame. Its lists have the sizes that they state, and operands and results are
    // whole arrays on the host. Operands are only read, so they may share memory. A result shares memory only with the
    // operands that it was declared to take over, which are left out below. No other code reads or writes it during the
    // call.
    unsafe {
        let mut results = SmallVec::<[OperandMut<'_>; 4]>::new();
        for i in 0..frame.results.size as usize {
            let (element_type, dims, data, size) = buffer(&frame.results, i)?;
            let bytes = if size == 0 { &mut [][..] } else { slice::from_raw_parts_mut(data, size) };
            results.push(OperandMut { element_type, dims, bytes });
        }
        let mut operands = SmallVec::new();
        for i in 0..frame.operands.size as usize {
            let (element_type, dims, data, size) = buffer(&frame.operands, i)?;
            // Memory that a result takes over is visible only through the result: two references to it must not exist.
            let is_taken = results.iter().any(|r| r.bytes.as_ptr() == data && !r.bytes.is_empty());
            operands.push(Operand { element_type, dims, bytes: bytes(data, if is_taken { 0 } else { size }) });
        }
        let (mut kernel, mut numbers) = ("", &[][..]);
        for i in 0..frame.attributes.size as usize {
            let (kind, item) = (*frame.attributes.kinds.add(i), *frame.attributes.items.add(i));
            let name = &**frame.attributes.names.add(i);
            match (text(name)?, kind) {
                ("kernel", STRING) => kernel = text(&*item.cast::<Bytes>())?,
                ("numbers", ARRAY) => {
                    let array = &*item.cast::<Array>();
                    if array.element == S64 && array.size > 0 {
                        numbers = slice::from_raw_parts(array.data.cast::<i64>(), array.size);
                    }
                }
                _ => {}
            }
        }
        Ok(CallFrame { operands, results, kernel, numbers, threads: Threads(frame) })
    }
}

type Parts<'a> = (ElementType, &'a [i64], *mut u8, usize);

unsafe fn buffer(list: &List, i: usize) -> std::result::Result<Parts<'_>, String> {
    // SAFETY: the caller passes an index within the list.
    unsafe {
        if *list.kinds.add(i) != BUFFER {
            return Err(format!("array {i} is no buffer"));
        }
        let raw = &*(*list.items.add(i)).cast::<RawBuffer>();
        let element = element_type(raw.element).ok_or_else(|| format!("array {i} has element type {}", raw.element))?;
        let dims = if raw.rank == 0 { &[][..] } else { slice::from_raw_parts(raw.dims, raw.rank as usize) };
        let size = dims.iter().product::<i64>() as usize * element.size_in_bytes();
        Ok((element, dims, raw.data.cast::<u8>(), size))
    }
}

unsafe fn bytes<'a>(data: *const u8, size: usize) -> &'a [u8] {
    // SAFETY: the caller passes `size` readable bytes. An empty array may have a null address.
    if size == 0 { &[] } else { unsafe { slice::from_raw_parts(data, size) } }
}

unsafe fn text(span: &Bytes) -> std::result::Result<&str, String> {
    // SAFETY: the caller passes a span that lives as long as the frame.
    str::from_utf8(unsafe { bytes(span.data, span.size) }).map_err(|e| e.to_string())
}

/// Convert an `XLA_FFI_DataType`. Its numbers are those of XLA's `PrimitiveType`, not of PJRT.
fn element_type(code: c_int) -> Option<ElementType> {
    Some(match code {
        1 => ElementType::PRED,
        2 => ElementType::S8,
        3 => ElementType::S16,
        4 => ElementType::S32,
        5 => ElementType::S64,
        6 => ElementType::U8,
        7 => ElementType::U16,
        8 => ElementType::U32,
        9 => ElementType::U64,
        10 => ElementType::F16,
        11 => ElementType::F32,
        12 => ElementType::F64,
        15 => ElementType::C64,
        16 => ElementType::BF16,
        18 => ElementType::C128,
        _ => return None,
    })
}
