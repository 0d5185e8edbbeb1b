//! The PJRT C ABI, declared by hand: the function table `PJRT_Api` in its exact order (as of C API 0.81; later versions
//! only append), and the argument structs of the used entries.
//!
//! Many entries take structs of the same shape ("a handle in, a string out"). Such a shape is declared once, and its
//! name says what it holds. A C compiler gave the sizes and offsets of version 0.81's header. The unit tests compare
//! ours with them.
#![allow(non_snake_case, reason = "entries keep their C names, which errors quote")]

use std::ffi::{c_char, c_int, c_void};
use std::mem::{offset_of, zeroed};

/// An opaque object of the plugin: error, event, client, device, buffer, executable, topology.
pub(crate) type Handle = *mut c_void;

/// An entry that may fail.
pub(crate) type Call<A> = Option<unsafe extern "C" fn(*mut A) -> Handle>;

/// An entry that returns nothing.
pub(crate) type Notify<A> = Option<unsafe extern "C" fn(*mut A)>;

/// An entry that this crate does not use.
pub(crate) type Unused = Option<unsafe extern "C" fn()>;

/// Frees an object that a plugin returned together with some bytes.
pub(crate) type Deleter = Option<unsafe extern "C" fn(Handle)>;

/// Makes an error of the plugin's from a code and a message.
pub(crate) type CallbackError = Option<unsafe extern "C" fn(c_int, *const c_char, usize) -> Handle>;

/// Frees a value of a key-value store.
pub(crate) type ValueDeleter = Option<unsafe extern "C" fn(*mut c_char)>;

/// The type of `GetPjrtApi`.
pub(crate) type GetPjrtApi = unsafe extern "C" fn() -> *const Api;

// Declare `#[repr(C)]` structs. Like every PJRT struct, they start with their own size and a chain of extensions.
macro_rules! layouts {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $ty:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub(crate) struct $name {
            pub struct_size: usize,
            pub extension_start: *mut c_void,
            $(pub $field: $ty,)*
        }
    )*};
}

// Declare structs that this crate fills. `new` zeroes what follows the start. `SIZE` ends with the last field, without
// trailing padding, because a later version may put a field there.
macro_rules! structs {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $ty:ty),* $(,)? })*) => {$(
        layouts! { $(#[$doc])* $name { $($field: $ty),* } }

        impl $name {
            pub(crate) const SIZE: usize = {
                #[allow(unused_mut, reason = "a struct may have no fields of its own")]
                let mut end = 2 * size_of::<usize>();
                $(if offset_of!($name, $field) + size_of::<$ty>() > end {
                    end = offset_of!($name, $field) + size_of::<$ty>();
                })*
                end
            };

            pub(crate) fn new() -> Self {
                // SAFETY: every field is an integer, a bool, a raw pointer, an optional function, or a struct or union
                // of those. All zeros is a valid value of each.
                let mut args: Self = unsafe { zeroed() };
                args.struct_size = Self::SIZE;
                args
            }
        }
    )*};
}

// Structs that a plugin fills and hands to callbacks.
layouts! {
    /// `PJRT_KeyValueGetCallback_Args`.
    KeyValueGetArgs {
        key: *const c_char, key_size: usize, timeout_ms: c_int, callback_error: *const CallbackError,
        user_arg: *mut c_void, value: *mut c_char, value_size: usize, value_deleter: ValueDeleter,
    }
    /// `PJRT_KeyValueTryGetCallback_Args`.
    KeyValueTryGetArgs {
        key: *const c_char, key_size: usize, callback_error: *const CallbackError, user_arg: *mut c_void,
        value: *mut c_char, value_size: usize, value_deleter: ValueDeleter,
    }
    /// `PJRT_KeyValuePutCallback_Args`.
    KeyValuePutArgs {
        key: *const c_char, key_size: usize, value: *const c_char, value_size: usize,
        callback_error: *const CallbackError, user_arg: *mut c_void,
    }
}

structs! {
    /// `PJRT_Plugin_Initialize_Args`.
    NoArgs {}
    /// A handle in, nothing out: destroy, delete, await.
    HandleArgs { handle: Handle }
    /// A handle in, a string out that lives as long as the handle. Error messages have the same shape.
    TextArgs { handle: Handle, text: *const c_char, size: usize }
    /// A handle in, a list of handles out that lives as long as the handle.
    ListArgs { handle: Handle, items: *const Handle, count: usize }
    /// A handle in, another handle out.
    ChildArgs { handle: Handle, child: Handle }
    /// A handle in, a C `int` or enum out.
    IntArgs { handle: Handle, value: c_int }
    /// A handle in, a bool out.
    BoolArgs { handle: Handle, value: bool }
    /// A handle in, a size, address or byte count out.
    SizeArgs { handle: Handle, value: usize }
    /// A handle in, integers out that live as long as the handle.
    DimsArgs { handle: Handle, dims: *const i64, count: usize }
    /// A handle in, attributes out, with the pointer first. The plugin's own attributes have no handle.
    AttributesArgs { handle: Handle, attributes: *const NamedValue, count: usize }
    /// A handle in, attributes out, with the count first: device descriptions and cost analysis.
    CountedAttributesArgs { handle: Handle, count: usize, attributes: *const NamedValue }
    /// `PJRT_Plugin_Attributes_Args`.
    PluginAttributesArgs { attributes: *const NamedValue, count: usize }
    /// `PJRT_NamedValue`.
    NamedValue { name: *const c_char, name_size: usize, kind: c_int, value: NamedValueUnion, value_size: usize }
    /// `PJRT_Event_OnReady_Args`.
    OnReadyArgs { event: Handle, callback: OnReadyCallback, user_arg: *mut c_void }
    /// `PJRT_Client_Create_Args`.
    ClientCreateArgs {
        options: *const NamedValue, num_options: usize, kv_get: Call<KeyValueGetArgs>, kv_get_arg: *mut c_void,
        kv_put: Call<KeyValuePutArgs>, kv_put_arg: *mut c_void, client: Handle, kv_try_get: Call<KeyValueTryGetArgs>,
        kv_try_get_arg: *mut c_void,
    }
    /// `PJRT_Program`.
    Program { code: *mut c_char, code_size: usize, format: *const c_char, format_size: usize }
    /// `PJRT_Client_Compile_Args`.
    ClientCompileArgs {
        client: Handle, program: *const Program, options: *const c_char, options_size: usize, executable: Handle,
    }
    /// `PJRT_Compile_Args`.
    CompileArgs {
        topology: Handle, program: *const Program, options: *const c_char, options_size: usize, client: Handle,
        executable: Handle,
    }
    /// `PJRT_TopologyDescription_Create_Args`.
    TopologyCreateArgs {
        name: *const c_char, name_size: usize, options: *const NamedValue, num_options: usize, topology: Handle,
    }
    /// `PJRT_Buffer_MemoryLayout_Tiled`.
    TiledLayout {
        minor_to_major: *const i64, minor_to_major_size: usize, tile_dims: *const i64, tile_dim_sizes: *const usize,
        num_tiles: usize,
    }
    /// `PJRT_Buffer_MemoryLayout`. Only the tiled form of its union, the larger one, is used.
    MemoryLayout { tiled: TiledLayout, kind: c_int }
    /// `PJRT_Buffer_GetMemoryLayout_Args`.
    LayoutArgs { buffer: Handle, layout: MemoryLayout }
    /// `PJRT_Client_BufferFromHostBuffer_Args`.
    BufferFromHostArgs {
        client: Handle, data: *const c_void, element_type: c_int, dims: *const i64, num_dims: usize,
        byte_strides: *const i64, num_byte_strides: usize, semantics: c_int, device: Handle, memory: Handle,
        device_layout: *const MemoryLayout, done_with_host_buffer: Handle, buffer: Handle,
    }
    /// `PJRT_Client_CreateUninitializedBuffer_Args`.
    UninitializedBufferArgs {
        client: Handle, dims: *const i64, num_dims: usize, element_type: c_int, layout: *const MemoryLayout,
        device: Handle, memory: Handle, buffer: Handle,
    }
    /// `PJRT_Buffer_ToHostBuffer_Args`.
    ToHostArgs { src: Handle, host_layout: *const MemoryLayout, dst: *mut c_void, dst_size: usize, event: Handle }
    /// `PJRT_Buffer_CopyToDevice_Args`.
    CopyToDeviceArgs { buffer: Handle, device: Handle, copy: Handle }
    /// `PJRT_Device_MemoryStats_Args`.
    DeviceMemoryStatsArgs {
        device: Handle, bytes_in_use: i64, peak_bytes_in_use: OptionalI64, num_allocs: OptionalI64,
        largest_alloc_size: OptionalI64, bytes_limit: OptionalI64, bytes_reserved: OptionalI64,
        peak_bytes_reserved: OptionalI64, bytes_reservable_limit: OptionalI64, largest_free_block_bytes: OptionalI64,
        pool_bytes: OptionalI64, peak_pool_bytes: i64, peak_pool_bytes_is_set: bool,
    }
    /// `PJRT_ExecuteOptions`.
    ExecuteOptions {
        send_callbacks: *mut c_void, recv_callbacks: *mut c_void, num_send_ops: usize, num_recv_ops: usize,
        launch_id: c_int, non_donatable: *const i64, num_non_donatable: usize, context: Handle,
        call_location: *const c_char, num_tasks: usize, task_ids: *mut c_int, incarnation_ids: *mut i64,
    }
    /// `PJRT_LoadedExecutable_Execute_Args`.
    ExecuteArgs {
        executable: Handle, options: *mut ExecuteOptions, argument_lists: *const *const Handle, num_devices: usize,
        num_args: usize, output_lists: *const *mut Handle, device_complete_events: *mut Handle, execute_device: Handle,
    }
    /// `PJRT_Executable_GetCompiledMemoryStats_Args`.
    CompiledMemoryStatsArgs {
        executable: Handle, generated_code: i64, argument: i64, output: i64, alias: i64, temp: i64,
        host_generated_code: i64, host_argument: i64, host_output: i64, host_alias: i64, host_temp: i64, peak: i64,
    }
    /// `PJRT_Executable_OutputElementTypes_Args`.
    OutputElementTypesArgs { executable: Handle, types: *const c_int, count: usize }
    /// `PJRT_Executable_OutputDimensions_Args`.
    OutputDimensionsArgs { executable: Handle, num_outputs: usize, dims: *const i64, dim_sizes: *const usize }
    /// `PJRT_Executable_Serialize_Args`.
    SerializeArgs {
        executable: Handle, bytes: *const c_char, size: usize, backing: Handle, deleter: Deleter,
    }
    /// `PJRT_Executable_DeserializeAndLoad_Args`.
    DeserializeArgs {
        client: Handle, bytes: *const c_char, size: usize, loaded: Handle, options: *const c_char, options_size: usize,
    }
    /// `PJRT_Executable_OptimizedProgram_Args`.
    OptimizedProgramArgs { executable: Handle, program: *mut Program }
}

/// `PJRT_Api_Version`.
#[repr(C)]
pub(crate) struct ApiVersion {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub major: c_int,
    pub minor: c_int,
}

/// The value of a [`NamedValue`].
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union NamedValueUnion {
    pub string: *const c_char,
    pub int64: i64,
    pub int64_list: *const i64,
    pub float: f32,
    pub boolean: bool,
}

/// A number with a flag that says whether the plugin filled it in.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct OptionalI64 {
    pub value: i64,
    pub is_set: bool,
}

impl OptionalI64 {
    pub(crate) fn get(self) -> Option<i64> {
        self.is_set.then_some(self.value)
    }
}

/// A function that the plugin calls, on any thread, when an event is ready. It owns the error.
pub(crate) type OnReadyCallback = Option<unsafe extern "C" fn(error: Handle, user_arg: *mut c_void)>;

/// `PJRT_HostBufferSemantics_kImmutableOnlyDuringCall`.
pub(crate) const IMMUTABLE_ONLY_DURING_CALL: c_int = 0;
/// `PJRT_HostBufferSemantics_kImmutableZeroCopy`.
pub(crate) const IMMUTABLE_ZERO_COPY: c_int = 2;

/// `PJRT_Api`: the function table.
#[repr(C)]
pub(crate) struct Api {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub version: ApiVersion,
    pub PJRT_Error_Destroy: Notify<HandleArgs>,
    pub PJRT_Error_Message: Notify<TextArgs>,
    pub PJRT_Error_GetCode: Call<IntArgs>,
    pub PJRT_Plugin_Initialize: Call<NoArgs>,
    pub PJRT_Plugin_Attributes: Call<PluginAttributesArgs>,
    pub PJRT_Event_Destroy: Call<HandleArgs>,
    pub PJRT_Event_IsReady: Call<BoolArgs>,
    pub PJRT_Event_Error: Unused,
    pub PJRT_Event_Await: Call<HandleArgs>,
    pub PJRT_Event_OnReady: Call<OnReadyArgs>,
    pub PJRT_Client_Create: Call<ClientCreateArgs>,
    pub PJRT_Client_Destroy: Call<HandleArgs>,
    pub PJRT_Client_PlatformName: Call<TextArgs>,
    pub PJRT_Client_ProcessIndex: Call<IntArgs>,
    pub PJRT_Client_PlatformVersion: Call<TextArgs>,
    pub PJRT_Client_Devices: Call<ListArgs>,
    pub PJRT_Client_AddressableDevices: Unused,
    pub PJRT_Client_LookupDevice: Unused,
    pub PJRT_Client_LookupAddressableDevice: Unused,
    pub PJRT_Client_AddressableMemories: Unused,
    pub PJRT_Client_Compile: Call<ClientCompileArgs>,
    pub PJRT_Client_DefaultDeviceAssignment: Unused,
    pub PJRT_Client_BufferFromHostBuffer: Call<BufferFromHostArgs>,
    pub PJRT_DeviceDescription_Id: Call<IntArgs>,
    pub PJRT_DeviceDescription_ProcessIndex: Call<IntArgs>,
    pub PJRT_DeviceDescription_Attributes: Call<CountedAttributesArgs>,
    pub PJRT_DeviceDescription_Kind: Call<TextArgs>,
    pub PJRT_DeviceDescription_DebugString: Call<TextArgs>,
    pub PJRT_DeviceDescription_ToString: Call<TextArgs>,
    pub PJRT_Device_GetDescription: Call<ChildArgs>,
    pub PJRT_Device_IsAddressable: Call<BoolArgs>,
    pub PJRT_Device_LocalHardwareId: Call<IntArgs>,
    pub PJRT_Device_AddressableMemories: Unused,
    pub PJRT_Device_DefaultMemory: Unused,
    pub PJRT_Device_MemoryStats: Call<DeviceMemoryStatsArgs>,
    pub PJRT_Memory_Id: Unused,
    pub PJRT_Memory_Kind: Unused,
    pub PJRT_Memory_DebugString: Unused,
    pub PJRT_Memory_ToString: Unused,
    pub PJRT_Memory_AddressableByDevices: Unused,
    pub PJRT_Executable_Destroy: Call<HandleArgs>,
    pub PJRT_Executable_Name: Call<TextArgs>,
    pub PJRT_Executable_NumReplicas: Unused,
    pub PJRT_Executable_NumPartitions: Unused,
    pub PJRT_Executable_NumOutputs: Call<SizeArgs>,
    pub PJRT_Executable_SizeOfGeneratedCodeInBytes: Call<SizeArgs>,
    pub PJRT_Executable_GetCostAnalysis: Call<CountedAttributesArgs>,
    pub PJRT_Executable_OutputMemoryKinds: Unused,
    pub PJRT_Executable_OptimizedProgram: Call<OptimizedProgramArgs>,
    pub PJRT_Executable_Serialize: Call<SerializeArgs>,
    pub PJRT_LoadedExecutable_Destroy: Call<HandleArgs>,
    pub PJRT_LoadedExecutable_GetExecutable: Call<ChildArgs>,
    pub PJRT_LoadedExecutable_AddressableDevices: Call<ListArgs>,
    pub PJRT_LoadedExecutable_Delete: Unused,
    pub PJRT_LoadedExecutable_IsDeleted: Unused,
    pub PJRT_LoadedExecutable_Execute: Call<ExecuteArgs>,
    pub PJRT_Executable_DeserializeAndLoad: Call<DeserializeArgs>,
    pub PJRT_LoadedExecutable_Fingerprint: Unused,
    pub PJRT_Buffer_Destroy: Call<HandleArgs>,
    pub PJRT_Buffer_ElementType: Call<IntArgs>,
    pub PJRT_Buffer_Dimensions: Call<DimsArgs>,
    pub PJRT_Buffer_UnpaddedDimensions: Call<DimsArgs>,
    pub PJRT_Buffer_DynamicDimensionIndices: Unused,
    pub PJRT_Buffer_GetMemoryLayout: Call<LayoutArgs>,
    pub PJRT_Buffer_OnDeviceSizeInBytes: Call<SizeArgs>,
    pub PJRT_Buffer_Device: Call<ChildArgs>,
    pub PJRT_Buffer_Memory: Unused,
    pub PJRT_Buffer_Delete: Call<HandleArgs>,
    pub PJRT_Buffer_IsDeleted: Call<BoolArgs>,
    pub PJRT_Buffer_CopyToDevice: Call<CopyToDeviceArgs>,
    pub PJRT_Buffer_ToHostBuffer: Call<ToHostArgs>,
    pub PJRT_Buffer_IsOnCpu: Call<BoolArgs>,
    pub PJRT_Buffer_ReadyEvent: Call<ChildArgs>,
    pub PJRT_Buffer_UnsafePointer: Call<SizeArgs>,
    pub PJRT_Buffer_IncreaseExternalReferenceCount: Call<HandleArgs>,
    pub PJRT_Buffer_DecreaseExternalReferenceCount: Call<HandleArgs>,
    pub PJRT_Buffer_OpaqueDeviceMemoryDataPointer: Unused,
    pub PJRT_CopyToDeviceStream_Destroy: Unused,
    pub PJRT_CopyToDeviceStream_AddChunk: Unused,
    pub PJRT_CopyToDeviceStream_TotalBytes: Unused,
    pub PJRT_CopyToDeviceStream_GranuleSize: Unused,
    pub PJRT_CopyToDeviceStream_CurrentBytes: Unused,
    pub PJRT_TopologyDescription_Create: Call<TopologyCreateArgs>,
    pub PJRT_TopologyDescription_Destroy: Call<HandleArgs>,
    pub PJRT_TopologyDescription_PlatformName: Call<TextArgs>,
    pub PJRT_TopologyDescription_PlatformVersion: Call<TextArgs>,
    pub PJRT_TopologyDescription_GetDeviceDescriptions: Call<ListArgs>,
    pub PJRT_TopologyDescription_Serialize: Unused,
    pub PJRT_TopologyDescription_Attributes: Call<AttributesArgs>,
    pub PJRT_Compile: Call<CompileArgs>,
    pub PJRT_Executable_OutputElementTypes: Call<OutputElementTypesArgs>,
    pub PJRT_Executable_OutputDimensions: Call<OutputDimensionsArgs>,
    pub PJRT_Buffer_CopyToMemory: Unused,
    pub PJRT_Client_CreateViewOfDeviceBuffer: Unused,
    pub PJRT_Executable_Fingerprint: Call<TextArgs>,
    pub PJRT_Client_TopologyDescription: Unused,
    pub PJRT_Executable_GetCompiledMemoryStats: Call<CompiledMemoryStatsArgs>,
    pub PJRT_Memory_Kind_Id: Unused,
    pub PJRT_ExecuteContext_Create: Unused,
    pub PJRT_ExecuteContext_Destroy: Unused,
    pub PJRT_Buffer_CopyRawToHost: Unused,
    pub PJRT_AsyncHostToDeviceTransferManager_Destroy: Unused,
    pub PJRT_AsyncHostToDeviceTransferManager_TransferData: Unused,
    pub PJRT_Client_CreateBuffersForAsyncHostToDevice: Unused,
    pub PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer: Unused,
    pub PJRT_AsyncHostToDeviceTransferManager_Device: Unused,
    pub PJRT_AsyncHostToDeviceTransferManager_BufferCount: Unused,
    pub PJRT_AsyncHostToDeviceTransferManager_BufferSize: Unused,
    pub PJRT_AsyncHostToDeviceTransferManager_SetBufferError: Unused,
    pub PJRT_AsyncHostToDeviceTransferManager_AddMetadata: Unused,
    pub PJRT_Client_DmaMap: Unused,
    pub PJRT_Client_DmaUnmap: Unused,
    pub PJRT_Client_CreateUninitializedBuffer: Call<UninitializedBufferArgs>,
    pub PJRT_Client_UpdateGlobalProcessInfo: Unused,
    pub PJRT_TopologyDescription_Deserialize: Unused,
    pub PJRT_Client_CreateAliasBuffer: Unused,
    pub PJRT_Client_FulfillAliasBuffer: Unused,
    pub PJRT_LoadedExecutable_GetDeviceAssignment: Unused,
}

impl Api {
    /// Smallest size of a plugin's table that can be read: up to and including the version.
    pub(crate) const HEADER_SIZE: usize = offset_of!(Api, PJRT_Error_Destroy);

    /// Return a table without functions.
    #[cfg(test)]
    pub(crate) fn empty() -> Api {
        // SAFETY: all zeros is a valid table: integers, a null pointer, and absent functions.
        unsafe { zeroed() }
    }

    /// Copy a plugin's table. Missing entries of an older, shorter table stay empty. A newer, longer table is cut.
    ///
    /// # Safety
    ///
    /// `table` must point to `(*table).struct_size` readable bytes.
    pub(crate) unsafe fn copy_from(table: *const Api) -> Api {
        // SAFETY: all zeros is a valid table: integers, a null pointer, and absent functions.
        let mut copy: Api = unsafe { zeroed() };
        // SAFETY: the caller passes a table of readable bytes. The destination is one whole `Api`, and the two do not
        // overlap.
        unsafe {
            let size = (*table).struct_size.min(size_of::<Api>());
            std::ptr::copy_nonoverlapping(table.cast::<u8>(), (&raw mut copy).cast::<u8>(), size);
        }
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_equal_those_of_the_c_header() {
        // As printed by a C compiler for `PJRT_*_STRUCT_SIZE` of C API 0.81 on a 64-bit machine.
        let pinned = [
            ("PJRT_Plugin_Initialize_Args", NoArgs::SIZE, 16),
            ("PJRT_Event_Await_Args", HandleArgs::SIZE, 24),
            ("PJRT_Client_PlatformName_Args", TextArgs::SIZE, 40),
            ("PJRT_Error_Message_Args", TextArgs::SIZE, 40),
            ("PJRT_Client_Devices_Args", ListArgs::SIZE, 40),
            ("PJRT_Buffer_ReadyEvent_Args", ChildArgs::SIZE, 32),
            ("PJRT_DeviceDescription_Id_Args", IntArgs::SIZE, 28),
            ("PJRT_Error_GetCode_Args", IntArgs::SIZE, 28),
            ("PJRT_Buffer_ElementType_Args", IntArgs::SIZE, 28),
            ("PJRT_Event_IsReady_Args", BoolArgs::SIZE, 25),
            ("PJRT_Buffer_UnsafePointer_Args", SizeArgs::SIZE, 32),
            ("PJRT_Executable_SizeOfGeneratedCodeInBytes_Args", SizeArgs::SIZE, 32),
            ("PJRT_Buffer_Dimensions_Args", DimsArgs::SIZE, 40),
            ("PJRT_TopologyDescription_Attributes_Args", AttributesArgs::SIZE, 40),
            ("PJRT_Executable_GetCostAnalysis_Args", CountedAttributesArgs::SIZE, 40),
            ("PJRT_DeviceDescription_Attributes_Args", CountedAttributesArgs::SIZE, 40),
            ("PJRT_Plugin_Attributes_Args", PluginAttributesArgs::SIZE, 32),
            ("PJRT_Api_Version", size_of::<ApiVersion>(), 24),
            ("PJRT_NamedValue", NamedValue::SIZE, 56),
            ("PJRT_Event_OnReady_Args", OnReadyArgs::SIZE, 40),
            ("PJRT_Client_Create_Args", ClientCreateArgs::SIZE, 88),
            ("PJRT_KeyValueGetCallback_Args", size_of::<KeyValueGetArgs>(), 80),
            ("PJRT_KeyValueTryGetCallback_Args", size_of::<KeyValueTryGetArgs>(), 72),
            ("PJRT_KeyValuePutCallback_Args", size_of::<KeyValuePutArgs>(), 64),
            ("PJRT_Program", Program::SIZE, 48),
            ("PJRT_Client_Compile_Args", ClientCompileArgs::SIZE, 56),
            ("PJRT_Compile_Args", CompileArgs::SIZE, 64),
            ("PJRT_TopologyDescription_Create_Args", TopologyCreateArgs::SIZE, 56),
            ("PJRT_Buffer_MemoryLayout_Tiled", TiledLayout::SIZE, 56),
            ("PJRT_Buffer_MemoryLayout", MemoryLayout::SIZE, 76),
            ("PJRT_Buffer_GetMemoryLayout_Args", LayoutArgs::SIZE, 104),
            ("PJRT_Client_BufferFromHostBuffer_Args", BufferFromHostArgs::SIZE, 120),
            ("PJRT_Client_CreateUninitializedBuffer_Args", UninitializedBufferArgs::SIZE, 80),
            ("PJRT_Buffer_ToHostBuffer_Args", ToHostArgs::SIZE, 56),
            ("PJRT_Device_MemoryStats_Args", DeviceMemoryStatsArgs::SIZE, 185),
            ("PJRT_ExecuteOptions", ExecuteOptions::SIZE, 112),
            ("PJRT_LoadedExecutable_Execute_Args", ExecuteArgs::SIZE, 80),
            ("PJRT_Executable_GetCompiledMemoryStats_Args", CompiledMemoryStatsArgs::SIZE, 112),
            ("PJRT_Executable_OutputElementTypes_Args", OutputElementTypesArgs::SIZE, 40),
            ("PJRT_Executable_OutputDimensions_Args", OutputDimensionsArgs::SIZE, 48),
            ("PJRT_Executable_Serialize_Args", SerializeArgs::SIZE, 56),
            ("PJRT_Executable_DeserializeAndLoad_Args", DeserializeArgs::SIZE, 64),
            ("PJRT_Executable_OptimizedProgram_Args", OptimizedProgramArgs::SIZE, 32),
            ("PJRT_Buffer_CopyToDevice_Args", CopyToDeviceArgs::SIZE, 40),
            ("PJRT_Error_Destroy", offset_of!(Api, PJRT_Error_Destroy), 40),
            ("PJRT_Client_Create", offset_of!(Api, PJRT_Client_Create), 120),
            ("PJRT_Client_BufferFromHostBuffer", offset_of!(Api, PJRT_Client_BufferFromHostBuffer), 216),
            ("PJRT_Executable_Destroy", offset_of!(Api, PJRT_Executable_Destroy), 360),
            ("PJRT_LoadedExecutable_Execute", offset_of!(Api, PJRT_LoadedExecutable_Execute), 480),
            ("PJRT_Buffer_Destroy", offset_of!(Api, PJRT_Buffer_Destroy), 504),
            ("PJRT_Buffer_ToHostBuffer", offset_of!(Api, PJRT_Buffer_ToHostBuffer), 600),
            ("PJRT_TopologyDescription_Create", offset_of!(Api, PJRT_TopologyDescription_Create), 696),
            ("PJRT_Compile", offset_of!(Api, PJRT_Compile), 752),
            ("PJRT_Executable_Fingerprint", offset_of!(Api, PJRT_Executable_Fingerprint), 792),
            ("PJRT_Executable_GetCompiledMemoryStats", offset_of!(Api, PJRT_Executable_GetCompiledMemoryStats), 808),
            ("PJRT_Client_CreateUninitializedBuffer", offset_of!(Api, PJRT_Client_CreateUninitializedBuffer), 936),
            ("PJRT_Api", size_of::<Api>(), 984),
        ];
        for (name, ours, theirs) in pinned {
            assert_eq!(ours, theirs, "{name}");
        }
    }

    #[test]
    fn a_shorter_table_leaves_late_entries_empty() {
        // SAFETY: all zeros is a valid table.
        let mut table: Api = unsafe { zeroed() };
        unsafe extern "C" fn entry() {}
        table.PJRT_Memory_Id = Some(entry);
        table.PJRT_Client_DmaMap = Some(entry);
        table.struct_size = offset_of!(Api, PJRT_Client_DmaMap);
        // SAFETY: the table is at least as long as its stated size.
        let copy = unsafe { Api::copy_from(&table) };
        assert!(copy.PJRT_Memory_Id.is_some());
        assert!(copy.PJRT_Client_DmaMap.is_none());
    }
}
