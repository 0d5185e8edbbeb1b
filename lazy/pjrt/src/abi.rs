//! Versions of the ABI: which runtimes can load a serialised executable.
//!
//! A plugin with the ABI version extension gives each executable a version. It also says whether its own runtime is
//! compatible with a version. The bytes of a version are the plugin's own (a protobuf message of XLA). They are stored
//! with the executable and checked before it is loaded.

use std::ffi::{c_char, c_int};
use std::ptr::null_mut;

use crate::client::Client;
use crate::compiled::Compiled;
use crate::error::{Error, Result};
use crate::extension::{self, Extension};
use crate::ffi::{Call, Deleter, Handle, Unused};
use crate::plugin::Plugin;

/// `PJRT_Extension_Type_AbiVersion`.
const ABI_VERSION_EXTENSION: c_int = 20;

/// `PJRT_AbiVersion_Extension`.
#[repr(C)]
#[derive(Clone, Copy)]
struct AbiVersionExtension {
    base: Extension,
    of_client: Call<GetArgs>,
    of_executable: Call<GetArgs>,
    destroy_of_runtime: Call<DestroyArgs>,
    is_compatible_with_runtime: Unused,
    is_compatible_with_executable: Call<CompareArgs>,
    runtime_to_proto: Unused,
    runtime_platform: Unused,
    destroy_of_executable: Call<DestroyArgs>,
    executable_to_proto: Call<ToProtoArgs>,
    executable_platform: Unused,
    runtime_from_proto: Unused,
    executable_from_proto: Call<FromProtoArgs>,
}

/// `PJRT_Client_RuntimeAbiVersion_Args` and `PJRT_Executable_GetAbiVersion_Args`. Structs of this extension have no
/// extension chain.
#[repr(C)]
struct GetArgs {
    struct_size: usize,
    handle: Handle,
    version: Handle,
}

/// `PJRT_RuntimeAbiVersion_Destroy_Args` and `PJRT_ExecutableAbiVersion_Destroy_Args`.
#[repr(C)]
struct DestroyArgs {
    struct_size: usize,
    version: Handle,
}

/// `PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable_Args`.
#[repr(C)]
struct CompareArgs {
    struct_size: usize,
    of_runtime: Handle,
    of_executable: Handle,
}

/// `PJRT_ExecutableAbiVersion_ToProto_Args`.
#[repr(C)]
struct ToProtoArgs {
    struct_size: usize,
    version: Handle,
    bytes: *const c_char,
    size: usize,
    backing: Handle,
    deleter: Deleter,
}

/// `PJRT_ExecutableAbiVersion_FromProto_Args`.
#[repr(C)]
struct FromProtoArgs {
    struct_size: usize,
    bytes: *const c_char,
    size: usize,
    version: Handle,
}

/// An owned version.
struct Version<'a> {
    raw: Handle,
    plugin: &'a Plugin,
    destroy: Call<DestroyArgs>,
}

impl Drop for Version<'_> {
    fn drop(&mut self) {
        let mut args = DestroyArgs { struct_size: size_of::<DestroyArgs>(), version: self.raw };
        // SAFETY: this value owns the version, and nothing uses it after this call. A destructor cannot report an
        // error, so it is dropped.
        let _ = unsafe { self.plugin.call("PJRT_AbiVersion_Destroy", self.destroy, &mut args) };
    }
}

fn find(plugin: &Plugin) -> Option<AbiVersionExtension> {
    // SAFETY: `AbiVersionExtension` is the struct of extensions of this kind.
    unsafe { extension::find(plugin, ABI_VERSION_EXTENSION) }
}

impl Compiled {
    /// Return the version that a runtime needs to load the executable, in the plugin's own form. Return `None` if the
    /// plugin has no versions.
    ///
    /// # Errors
    ///
    /// Fails if the plugin reports an error.
    pub fn abi_version(&self) -> Result<Option<Vec<u8>>> {
        let plugin = self.plugin();
        let Some(abi) = find(plugin) else { return Ok(None) };
        let mut get = GetArgs { struct_size: size_of::<GetArgs>(), handle: self.raw(), version: null_mut() };
        // SAFETY: the executable is alive. The version is owned here, and its bytes live until their deleter is called.
        unsafe {
            plugin.call("PJRT_Executable_GetAbiVersion", abi.of_executable, &mut get)?;
            let version = Version { raw: get.version, plugin, destroy: abi.destroy_of_executable };
            let mut args = ToProtoArgs {
                struct_size: size_of::<ToProtoArgs>(),
                version: version.raw,
                bytes: std::ptr::null(),
                size: 0,
                backing: null_mut(),
                deleter: None,
            };
            plugin.call("PJRT_ExecutableAbiVersion_ToProto", abi.executable_to_proto, &mut args)?;
            let bytes =
                if args.size == 0 { &[] } else { std::slice::from_raw_parts(args.bytes.cast::<u8>(), args.size) };
            let bytes = bytes.to_vec();
            if let Some(deleter) = args.deleter {
                deleter(args.backing);
            }
            Ok(Some(bytes))
        }
    }
}

impl Client {
    /// Check that an executable of this version can be loaded. A plugin without versions accepts all.
    ///
    /// # Errors
    ///
    /// Fails with the plugin's error, which says how the versions differ.
    pub(crate) fn check_abi_version(&self, version: &[u8]) -> Result<()> {
        let plugin: &Plugin = self.plugin();
        let Some(abi) = find(plugin) else { return Ok(()) };
        let mut get = GetArgs { struct_size: size_of::<GetArgs>(), handle: self.raw(), version: null_mut() };
        let mut from = FromProtoArgs {
            struct_size: size_of::<FromProtoArgs>(),
            bytes: version.as_ptr().cast(),
            size: version.len(),
            version: null_mut(),
        };
        // SAFETY: client and bytes are alive during the calls, and both versions are owned here.
        unsafe {
            plugin.call("PJRT_Client_RuntimeAbiVersion", abi.of_client, &mut get)?;
            let runtime = Version { raw: get.version, plugin, destroy: abi.destroy_of_runtime };
            plugin.call("PJRT_ExecutableAbiVersion_FromProto", abi.executable_from_proto, &mut from)?;
            let executable = Version { raw: from.version, plugin, destroy: abi.destroy_of_executable };
            let mut args = CompareArgs {
                struct_size: size_of::<CompareArgs>(),
                of_runtime: runtime.raw,
                of_executable: executable.raw,
            };
            const ENTRY: &str = "PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable";
            plugin.call(ENTRY, abi.is_compatible_with_executable, &mut args).map_err(|e| {
                Error::new(e.code(), "deserialize", format!("the executable needs another runtime: {}", e.message()))
            })
        }
    }
}
