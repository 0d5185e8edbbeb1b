//! A client: a started plugin with its devices.

use std::any::Any;
use std::ffi::{c_char, c_int};
use std::fmt;
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::compiled::envelope::{self, Opened};
use crate::compiled::parameters_for;
use crate::device::{Device, DeviceDescription, DeviceMemoryStats};
use crate::error::{Code, Error, Result};
use crate::event::{Event, keep_until_ready};
use crate::executable::Executable;
use crate::ffi::{
    self, BoolArgs, BufferFromHostArgs, ChildArgs, ClientCompileArgs, ClientCreateArgs, DeserializeArgs,
    DeviceMemoryStatsArgs, Handle, ListArgs, Program, UninitializedBufferArgs,
};
use crate::key_value::{self, KeyValueStore};
use crate::options::{CompileOptions, OptionValue, to_named_values};
use crate::plugin::{Plugin, call};
use crate::tensor_type::{ElementType, TensorType};

/// A started plugin. It owns devices, compiles for them and keeps buffers on them.
///
/// Buffers and executables keep their client alive. The client ends with the last of them.
pub struct Client {
    raw: Handle,
    plugin: Arc<Plugin>,
    platform_name: String,
    platform_version: String,
    devices: Vec<Device>,
    /// Index of the device that receives data if no device is named.
    first_addressable: usize,
}

// SAFETY: the C API lets any thread use a client, and the rest is plain data.
unsafe impl Send for Client {}
// SAFETY: the C API lets several threads use a client at once, and the rest is plain data that does not change.
unsafe impl Sync for Client {}

impl Client {
    /// Start a client. Pass only the options that you need: some plugins refuse unknown options. XLA:CPU takes
    /// `cpu_device_count`, the number of devices in one process.
    ///
    /// # Errors
    ///
    /// Fails with the plugin's error, or with `FailedPrecondition` if no device is addressable.
    pub fn create(plugin: &Arc<Plugin>, options: &[(&str, OptionValue)]) -> Result<Arc<Client>> {
        Client::create_with(plugin, options, None)
    }

    /// Start a client. If several processes make it together, they meet in `store`. Which of them are there, the
    /// options say: the CUDA plugin takes `node_id`, `num_nodes` and `visible_devices`. The call waits for the other
    /// processes. XLA:CPU ignores the store. It is not known whether libtpu uses it.
    ///
    /// # Errors
    ///
    /// Fails like [`Client::create`].
    pub fn create_with(
        plugin: &Arc<Plugin>,
        options: &[(&str, OptionValue)],
        store: Option<Arc<dyn KeyValueStore>>,
    ) -> Result<Arc<Client>> {
        let named = to_named_values(options);
        let mut args = ClientCreateArgs::new();
        if let Some(store) = store {
            key_value::pass(store, &mut args);
        }
        args.options = named.as_ptr();
        args.num_options = named.len();
        // SAFETY: `named` and the options that it borrows from outlive the call.
        unsafe { call!(plugin, PJRT_Client_Create, &mut args)? };
        // From here on, errors destroy the client.
        let mut client = Client {
            raw: args.client,
            plugin: plugin.clone(),
            platform_name: String::new(),
            platform_version: String::new(),
            devices: Vec::new(),
            first_addressable: 0,
        };
        let api = &plugin.api;
        // SAFETY: the client is alive, and its devices live as long as it does.
        unsafe {
            client.platform_name =
                plugin.text_of("PJRT_Client_PlatformName", api.PJRT_Client_PlatformName, client.raw)?;
            client.platform_version =
                plugin.text_of("PJRT_Client_PlatformVersion", api.PJRT_Client_PlatformVersion, client.raw)?;
            let mut list = ListArgs::new();
            list.handle = client.raw;
            call!(plugin, PJRT_Client_Devices, &mut list)?;
            for i in 0..list.count {
                client.devices.push(read_device(plugin, *list.items.add(i))?);
            }
        }
        match client.devices.iter().position(Device::is_addressable) {
            Some(first) => client.first_addressable = first,
            None => {
                let message = format!("{} has no device that this process can use", plugin.path().display());
                return Err(Error::new(Code::FailedPrecondition, "create client", message));
            }
        }
        Ok(Arc::new(client))
    }

    pub(crate) fn raw(&self) -> Handle {
        self.raw
    }

    /// Return the plugin.
    pub fn plugin(&self) -> &Arc<Plugin> {
        &self.plugin
    }

    /// Return the platform: `cpu`, `cuda`, `tpu`.
    pub fn platform_name(&self) -> &str {
        &self.platform_name
    }

    /// Return the platform's version, as the plugin words it.
    pub fn platform_version(&self) -> &str {
        &self.platform_version
    }

    /// Return all devices, including those of other processes.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Return the devices that this process can put data on.
    pub fn addressable_devices(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(|device| device.is_addressable)
    }

    /// Return the device that receives data if no device is named: the first addressable device.
    pub fn default_device(&self) -> &Device {
        &self.devices[self.first_addressable]
    }

    /// Return the allocator statistics of a device of this client. Fails with `Unimplemented` on XLA:CPU.
    pub fn device_memory_stats(&self, device: &Device) -> Result<DeviceMemoryStats> {
        self.check_device("device_memory_stats", device)?;
        let mut args = DeviceMemoryStatsArgs::new();
        args.device = device.raw;
        // SAFETY: the device belongs to this client, which is alive.
        unsafe { call!(&self.plugin, PJRT_Device_MemoryStats, &mut args)? };
        Ok(DeviceMemoryStats {
            bytes_in_use: args.bytes_in_use,
            peak_bytes_in_use: args.peak_bytes_in_use.get(),
            num_allocs: args.num_allocs.get(),
            largest_alloc_bytes: args.largest_alloc_size.get(),
            bytes_limit: args.bytes_limit.get(),
            bytes_reserved: args.bytes_reserved.get(),
            peak_bytes_reserved: args.peak_bytes_reserved.get(),
            bytes_reservable_limit: args.bytes_reservable_limit.get(),
            largest_free_block_bytes: args.largest_free_block_bytes.get(),
        })
    }

    /// Compile StableHLO text whose entry function is `@main`.
    ///
    /// # Errors
    ///
    /// Fails with XLA's error and message for text that it cannot parse or compile. Fails with `InvalidArgument` if the
    /// parameter types of the entry function cannot be determined, because its calls could not be checked.
    pub fn compile(self: &Arc<Self>, stablehlo_text: &str, options: &CompileOptions) -> Result<Executable> {
        let option_bytes = options.to_bytes()?;
        let parameters = parameters_for(stablehlo_text, options)?;
        with_program(stablehlo_text, |program| {
            let mut args = ClientCompileArgs::new();
            args.client = self.raw;
            args.program = program;
            args.options = option_bytes.as_ptr().cast::<c_char>();
            args.options_size = option_bytes.len();
            // SAFETY: the client, the program and the option bytes are alive during the call.
            unsafe {
                call!(&self.plugin, PJRT_Client_Compile, &mut args)?;
                Executable::from_raw(args.executable, self.clone(), parameters)
            }
        })
    }

    /// Load an executable from the bytes of [`Compiled::serialize`](crate::Compiled::serialize).
    ///
    /// # Errors
    ///
    /// Fails with `DataLoss` for damaged bytes, which a checksum finds before the plugin reads them. Fails with
    /// `FailedPrecondition` for bytes of another platform or plugin version. Otherwise fails with the plugin's error,
    /// for example if the executable needs another version of the runtime.
    pub fn deserialize(self: &Arc<Self>, bytes: &[u8]) -> Result<Executable> {
        let Opened { payload, parameters, abi_version } =
            envelope::open(bytes, &self.platform_name, self.plugin.api_version())?;
        if !abi_version.is_empty() {
            self.check_abi_version(&abi_version)?;
        }
        let mut args = DeserializeArgs::new();
        args.client = self.raw;
        args.bytes = payload.as_ptr().cast::<c_char>();
        args.size = payload.len();
        // SAFETY: the client and the bytes are alive during the call. The result owns the executable.
        unsafe {
            call!(&self.plugin, PJRT_Executable_DeserializeAndLoad, &mut args)?;
            let mut executable = Executable::from_raw(args.loaded, self.clone(), parameters)?;
            executable.mark_deserialized();
            Ok(executable)
        }
    }

    /// Copy a dense row-major array to the default device. The data may be reused when this returns.
    pub fn buffer_from_host(self: &Arc<Self>, data: &[u8], element_type: ElementType, dims: &[i64]) -> Result<Buffer> {
        self.buffer_from_host_on(self.default_device(), data, element_type, dims)
    }

    /// Like [`Client::buffer_from_host`], to the given device.
    pub fn buffer_from_host_on(
        self: &Arc<Self>,
        device: &Device,
        data: &[u8],
        element_type: ElementType,
        dims: &[i64],
    ) -> Result<Buffer> {
        // SAFETY: with `IMMUTABLE_ONLY_DURING_CALL`, the plugin does not read the data after the call.
        let (buffer, done) =
            unsafe { self.transfer(device, data, element_type, dims, ffi::IMMUTABLE_ONLY_DURING_CALL)? };
        // SAFETY: the event is owned here, and nothing waits for it.
        unsafe { self.plugin.destroy("PJRT_Event_Destroy", self.plugin.api.PJRT_Event_Destroy, done) };
        Ok(buffer)
    }

    /// Make a buffer of the default device from host memory, without a copy if the device can read that memory. XLA:CPU
    /// can if it starts at a multiple of 64 bytes ([`AlignedBytes`](crate::AlignedBytes)). Otherwise the memory is
    /// copied.
    ///
    /// `owner` is kept alive until the device no longer uses the memory: after the buffer and all executions that read
    /// it have ended.
    pub fn buffer_from_host_zero_copy<T>(
        self: &Arc<Self>,
        owner: Arc<T>,
        element_type: ElementType,
        dims: &[i64],
    ) -> Result<Buffer>
    where
        T: AsRef<[u8]> + Send + Sync + 'static,
    {
        // Call `as_ref` only once. The slice borrows from the shared owner, so it neither moves nor changes.
        let data: &[u8] = (*owner).as_ref();
        // SAFETY: the owner is kept until the plugin no longer uses the data, or forever if the plugin cannot report
        // that.
        unsafe {
            let (buffer, done) =
                self.transfer(self.default_device(), data, element_type, dims, ffi::IMMUTABLE_ZERO_COPY)?;
            keep_until_ready(&self.plugin, done, owner.clone() as Arc<dyn Any + Send + Sync>)?;
            Ok(buffer)
        }
    }

    /// Whether the plugin has [`Client::uninitialized_buffer`].
    pub fn makes_uninitialized_buffers(&self) -> bool {
        self.plugin.api.PJRT_Client_CreateUninitializedBuffer.is_some()
    }

    /// Return a buffer of the default device with unspecified contents. Use it as memory for a program that writes it
    /// (`tf.aliasing_output`).
    ///
    /// # Errors
    ///
    /// Fails with the plugin's error, or with `Unimplemented` if the plugin is too old.
    pub fn uninitialized_buffer(self: &Arc<Self>, element_type: ElementType, dims: &[i64]) -> Result<Buffer> {
        let mut args = UninitializedBufferArgs::new();
        args.client = self.raw;
        args.dims = dims.as_ptr();
        args.num_dims = dims.len();
        args.element_type = element_type.code();
        args.device = self.default_device().raw;
        // SAFETY: client, device and dims are alive during the call. The result owns the buffer.
        unsafe {
            call!(&self.plugin, PJRT_Client_CreateUninitializedBuffer, &mut args)?;
            Ok(Buffer::from_raw(args.buffer, self.clone()))
        }
    }

    /// Give data to the plugin. Return the buffer, and an event that is ready when the plugin no longer uses the data.
    /// The caller owns the event.
    ///
    /// # Safety
    ///
    /// The data must stay alive and unchanged for as long as `semantics` requires.
    unsafe fn transfer(
        self: &Arc<Self>,
        device: &Device,
        data: &[u8],
        element_type: ElementType,
        dims: &[i64],
        semantics: c_int,
    ) -> Result<(Buffer, Handle)> {
        const OP: &str = "buffer_from_host";
        self.check_device(OP, device)?;
        let expected = crate::tensor_type::size_in_bytes(element_type, dims);
        if expected != Some(data.len()) {
            let shown = TensorType::new(element_type, dims);
            let message = match expected {
                Some(bytes) => format!("{shown} takes {bytes} bytes, but {} were given", data.len()),
                None => format!("{shown} is not a valid shape"),
            };
            return Err(Error::invalid(OP, message));
        }
        let mut args = BufferFromHostArgs::new();
        args.client = self.raw;
        args.data = data.as_ptr().cast();
        args.element_type = element_type.code();
        args.dims = dims.as_ptr();
        args.num_dims = dims.len();
        args.semantics = semantics;
        args.device = device.raw;
        // SAFETY: client and device are alive, and data and dims have the given sizes. The caller keeps the data alive.
        unsafe {
            call!(&self.plugin, PJRT_Client_BufferFromHostBuffer, &mut args)?;
            Ok((Buffer::from_raw(args.buffer, self.clone()), args.done_with_host_buffer))
        }
    }

    pub(crate) fn check_device(&self, op: &str, device: &Device) -> Result<()> {
        if self.devices.iter().any(|own| own.raw == device.raw) {
            Ok(())
        } else {
            Err(Error::invalid(op, format!("{device:?} belongs to another client")))
        }
    }

    /// # Safety
    ///
    /// `raw` must be an event of this client's plugin. The result owns it.
    pub(crate) unsafe fn event(self: &Arc<Self>, raw: Handle) -> Event {
        // SAFETY: the caller passes an owned event of this plugin.
        unsafe { Event::from_raw(raw, self.clone()) }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: this value owns the client and is dropped after everything that was made from it.
        unsafe { self.plugin.destroy("PJRT_Client_Destroy", self.plugin.api.PJRT_Client_Destroy, self.raw) }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("platform_name", &self.platform_name).field("devices", &self.devices).finish()
    }
}

/// Call `compile` with the text as a PJRT program.
pub(crate) fn with_program<T>(text: &str, compile: impl FnOnce(*const Program) -> Result<T>) -> Result<T> {
    // MLIR's lexer reads one byte past the end, which must be zero.
    let mut code = Vec::with_capacity(text.len() + 1);
    code.extend_from_slice(text.as_bytes());
    code.push(0);
    let format = "mlir";
    let mut program = Program::new();
    program.code = code.as_mut_ptr().cast();
    program.code_size = text.len();
    program.format = format.as_ptr().cast();
    program.format_size = format.len();
    compile(&program)
}

/// # Safety
///
/// `raw` must be a device of a client of this plugin that is alive during the call.
unsafe fn read_device(plugin: &Plugin, raw: Handle) -> Result<Device> {
    let mut description = ChildArgs::new();
    description.handle = raw;
    let mut addressable = BoolArgs::new();
    addressable.handle = raw;
    // SAFETY: the caller passes a device that is alive, and its description lives as long.
    unsafe {
        call!(plugin, PJRT_Device_GetDescription, &mut description)?;
        call!(plugin, PJRT_Device_IsAddressable, &mut addressable)?;
        let local_hardware_id = addressable
            .value
            .then(|| plugin.int_of("PJRT_Device_LocalHardwareId", plugin.api.PJRT_Device_LocalHardwareId, raw))
            .transpose()?;
        Ok(Device {
            raw,
            description: DeviceDescription::read(plugin, description.child)?,
            is_addressable: addressable.value,
            local_hardware_id,
        })
    }
}
