//! One loaded PJRT plugin: its function table, version and attributes.

use std::collections::HashMap;
use std::ffi::c_int;
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use libloading::Library;

use crate::error::{Code, Error, Result};
use crate::ffi::{Api, Call, GetPjrtApi, Handle, HandleArgs, IntArgs, NoArgs, PluginAttributesArgs, TextArgs};
use crate::options::{Attributes, from_named_values, text};
use crate::{search, signals};

/// A PJRT plugin: a shared library that compiles and runs programs on one kind of device.
///
/// A library stays loaded until the process ends, because XLA's threads outlive any handle. So loading a path twice
/// gives the same plugin.
pub struct Plugin {
    pub(crate) api: Api,
    path: PathBuf,
    attributes: Attributes,
}

// SAFETY: the table holds functions, which the C API declares safe to call from any thread, and a pointer that is never
// read.
unsafe impl Send for Plugin {}
// SAFETY: any thread may call the table's functions, and the table does not change after loading.
unsafe impl Sync for Plugin {}

/// Call an entry of a plugin's table and convert its error. Use it inside `unsafe`: every handle and pointer in the
/// arguments must be alive and of the kind that the entry expects.
macro_rules! call {
    ($plugin:expr, $entry:ident, $args:expr) => {{
        let plugin: &$crate::plugin::Plugin = $plugin;
        plugin.call(stringify!($entry), plugin.api.$entry, $args)
    }};
}
pub(crate) use call;

impl Plugin {
    /// Load the plugin at `path`, check its version and initialise it.
    ///
    /// # Errors
    ///
    /// Fails with `NotFound` if there is no such file, with `InvalidArgument` if the file is not a shared library or
    /// not a PJRT plugin, with `FailedPrecondition` for a plugin of another major version, or with the plugin's error
    /// if it refuses to start.
    pub fn load(path: impl AsRef<Path>) -> Result<Arc<Plugin>> {
        // Held while loading, because a plugin must be initialised only once.
        static LOADED: Mutex<Option<HashMap<PathBuf, Arc<Plugin>>>> = Mutex::new(None);
        let path = path.as_ref();
        let canonical = path.canonicalize().map_err(|error| {
            Error::new(Code::NotFound, "load plugin", format!("cannot open PJRT plugin {}: {error}", path.display()))
        })?;
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = loaded.get_or_insert_default();
        if let Some(plugin) = loaded.get(&canonical) {
            return Ok(plugin.clone());
        }
        if search::is_libtpu(&canonical) {
            signals::prepare_for_libtpu();
        }
        let plugin = Arc::new(Self::load_new(&canonical)?);
        if search::is_libtpu(&canonical) {
            signals::libtpu_is_loaded();
        }
        loaded.insert(canonical, plugin.clone());
        Ok(plugin)
    }

    /// Choose and load a plugin.
    ///
    /// `request` is a path, or `cpu`, `cuda` or `tpu`. If it is `None`, the environment variable `TORCHTPU_PJRT_PLUGIN`
    /// is used. If that is not set, the choice is libtpu if TPU chips are present, else the XLA:CPU plugin of the
    /// Python environment. Its places are, in this order: [`add_search_path`](crate::add_search_path), `$VIRTUAL_ENV`,
    /// `.venv` in the current folder or one above, the executable's folder, the `python3` of the `PATH`.
    ///
    /// # Errors
    ///
    /// Fails with `NotFound` and installation hints if there is no plugin. Also fails like [`Plugin::load`].
    pub fn find(request: Option<&str>) -> Result<Arc<Plugin>> {
        Plugin::load(search::find_path(request)?)
    }

    /// Return the file that [`Plugin::find`] would load, without loading it.
    ///
    /// # Errors
    ///
    /// Fails with `NotFound` if there is no such file.
    pub fn locate(request: Option<&str>) -> Result<PathBuf> {
        search::find_path(request)
    }

    fn load_new(path: &Path) -> Result<Plugin> {
        let shown = path.display();
        let not_a_plugin = |why: String| Error::invalid("load plugin", format!("{shown} is not a PJRT plugin: {why}"));
        if !path.is_file() {
            return Err(not_a_plugin("not a file".into()));
        }
        check_complete(path).map_err(&not_a_plugin)?;
        search::prepare_environment(path);
        // SAFETY: loading runs the library's initialisers. The user named this file as a plugin, and nothing more can
        // be checked.
        let library = unsafe { Library::new(path) }.map_err(|error| not_a_plugin(error.to_string()))?;
        // SAFETY: the C API defines a symbol of this name as a function of this type.
        let get_api = unsafe { library.get::<GetPjrtApi>(b"GetPjrtApi") }
            .map(|symbol| *symbol)
            .map_err(|_| not_a_plugin("it does not export GetPjrtApi".into()))?;
        // Never unload it: XLA's threads and thread-local destructors would run in unmapped memory.
        std::mem::forget(library);
        // SAFETY: the function has no arguments, and returns null or a table that lives as long as the library.
        let table = unsafe { get_api() };
        if table.is_null() {
            return Err(not_a_plugin("GetPjrtApi returned nothing".into()));
        }
        // SAFETY: every version of the table starts with its size.
        let size = unsafe { (*table).struct_size };
        if size < Api::HEADER_SIZE {
            return Err(not_a_plugin(format!("its function table has {size} bytes")));
        }
        // SAFETY: the table has the size that it states.
        let api = unsafe { Api::copy_from(table) };
        if api.version.major != 0 {
            let message = format!(
                "{shown} speaks PJRT C API {}.{}; this program speaks version 0",
                api.version.major, api.version.minor
            );
            return Err(Error::new(Code::FailedPrecondition, "load plugin", message));
        }
        let mut plugin = Plugin { api, path: path.to_path_buf(), attributes: Attributes::new() };
        // Without these two entries, no error could be read.
        if plugin.api.PJRT_Error_Destroy.is_none() || plugin.api.PJRT_Error_Message.is_none() {
            return Err(not_a_plugin("its function table is empty".into()));
        }
        // SAFETY: the call has no handles.
        unsafe { call!(&plugin, PJRT_Plugin_Initialize, &mut NoArgs::new())? };
        if plugin.api.PJRT_Plugin_Attributes.is_some() {
            let mut args = PluginAttributesArgs::new();
            // SAFETY: the call has no handles, and its result lives as long as the plugin.
            plugin.attributes = unsafe {
                call!(&plugin, PJRT_Plugin_Attributes, &mut args)?;
                from_named_values(args.attributes, args.count)
            };
        }
        Ok(plugin)
    }

    /// Make a plugin of functions of a test.
    #[cfg(test)]
    pub(crate) fn of_table(api: Api) -> Plugin {
        Plugin { api, path: PathBuf::from("table"), attributes: Attributes::new() }
    }

    /// Return the major and minor version of the C API that the plugin was built with.
    pub fn api_version(&self) -> (i32, i32) {
        (self.api.version.major, self.api.version.minor)
    }

    /// Return the file that the plugin was loaded from, with links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Return the plugin's own attributes, such as `xla_version` and `stablehlo_current_version`.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Call an entry; see `call!`.
    ///
    /// # Safety
    ///
    /// Every handle and pointer in `args` must be alive and of the kind that this entry expects.
    #[inline]
    pub(crate) unsafe fn call<A>(&self, name: &'static str, entry: Call<A>, args: &mut A) -> Result<()> {
        let Some(entry) = entry else { return Err(self.missing(name)) };
        // SAFETY: `args` is the entry's own argument type, and the caller passes valid contents.
        let error = unsafe { entry(args) };
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: a non-null result is an error, which the caller of the entry owns.
        Err(unsafe { self.take_error(name, error) })
    }

    #[cold]
    fn missing(&self, name: &str) -> Error {
        let (major, minor) = self.api_version();
        let message = format!("plugin {} (API {major}.{minor}) has no {name}", self.path.display());
        Error::new(Code::Unimplemented, name, message)
    }

    /// Read and destroy an error.
    ///
    /// # Safety
    ///
    /// `error` must be an error of this plugin that the caller owns and does not use again.
    #[cold]
    pub(crate) unsafe fn take_error(&self, context: &str, error: Handle) -> Error {
        let mut code = IntArgs::new();
        code.handle = error;
        let mut message = TextArgs::new();
        message.handle = error;
        let mut destroy = HandleArgs::new();
        destroy.handle = error;
        let mut text_of_error = String::new();
        // SAFETY: `error` is alive until the last call, and the message is copied before.
        unsafe {
            if let Some(get_code) = self.api.PJRT_Error_GetCode {
                let nested = get_code(&mut code);
                if !nested.is_null()
                    && let Some(destroy_error) = self.api.PJRT_Error_Destroy
                {
                    let mut args = HandleArgs::new();
                    args.handle = nested;
                    destroy_error(&mut args);
                }
            }
            if let Some(get_message) = self.api.PJRT_Error_Message {
                get_message(&mut message);
                text_of_error = text(message.text, message.size);
            }
            if let Some(destroy_error) = self.api.PJRT_Error_Destroy {
                destroy_error(&mut destroy);
            }
        }
        Error::new(Code::from_raw(code.value as c_int), context, text_of_error)
    }

    /// Return the string that an entry gives for a handle.
    ///
    /// # Safety
    ///
    /// `handle` must be alive and of the kind that this entry expects.
    pub(crate) unsafe fn text_of(&self, name: &'static str, entry: Call<TextArgs>, handle: Handle) -> Result<String> {
        let mut args = TextArgs::new();
        args.handle = handle;
        // SAFETY: the caller passes a handle that is alive, and the string lives as long as it does.
        unsafe {
            self.call(name, entry, &mut args)?;
            Ok(text(args.text, args.size))
        }
    }

    /// Return the number that an entry gives for a handle.
    ///
    /// # Safety
    ///
    /// `handle` must be alive and of the kind that this entry expects.
    pub(crate) unsafe fn int_of(&self, name: &'static str, entry: Call<IntArgs>, handle: Handle) -> Result<i32> {
        let mut args = IntArgs::new();
        args.handle = handle;
        // SAFETY: the caller passes a handle that is alive and of this kind.
        unsafe { self.call(name, entry, &mut args)? };
        Ok(args.value)
    }

    /// Destroy a handle. Nothing could handle an error here, so it is dropped.
    ///
    /// # Safety
    ///
    /// `handle` must be of the kind that this entry expects, owned by the caller, and not used again.
    pub(crate) unsafe fn destroy(&self, name: &'static str, entry: Call<HandleArgs>, handle: Handle) {
        let mut args = HandleArgs::new();
        args.handle = handle;
        // SAFETY: the caller passes an owned handle of this kind and does not use it again.
        let _ = unsafe { self.call(name, entry, &mut args) };
    }
}

/// Refuse an ELF file that is shorter than its segments, such as an interrupted download. The system's loader would map
/// it, and the process would die when it accesses the missing part. The loader itself refuses other invalid files.
fn check_complete(path: &Path) -> std::result::Result<(), String> {
    const ELF64_LITTLE_ENDIAN: &[u8] = b"\x7fELF\x02\x01";
    let mut file = File::open(path).map_err(|error| error.to_string())?;
    let length = file.metadata().map_err(|error| error.to_string())?.len();
    let mut header = [0u8; 64];
    if file.read_exact(&mut header).is_err() || !header.starts_with(ELF64_LITTLE_ENDIAN) {
        return Ok(());
    }
    let number = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let short = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let (table, entry_size, entries) = (number(&header, 32), short(&header, 54), short(&header, 56));
    let truncated =
        |needed: u64| Err(format!("the file is truncated: it has {length} bytes and needs at least {needed}"));
    if entry_size < 56 {
        return Err("its program headers are malformed".into());
    }
    let table_end = table.saturating_add(u64::from(entry_size) * u64::from(entries));
    if table_end > length {
        return truncated(table_end);
    }
    let mut headers = vec![0u8; usize::from(entry_size) * usize::from(entries)];
    file.seek(SeekFrom::Start(table)).and_then(|_| file.read_exact(&mut headers)).map_err(|error| error.to_string())?;
    // A segment's offset in the file and its size there, in bytes.
    let ends =
        headers.chunks_exact(usize::from(entry_size)).map(|entry| number(entry, 8).saturating_add(number(entry, 32)));
    match ends.max() {
        Some(end) if end > length => truncated(end),
        _ => Ok(()),
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").field("path", &self.path).field("api_version", &self.api_version()).finish()
    }
}
