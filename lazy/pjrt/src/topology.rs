//! Descriptions of machines, and compilation for them.

use std::ffi::c_char;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::client::with_program;
use crate::compiled::{Compiled, parameters_for};
use crate::device::DeviceDescription;
use crate::error::Result;
use crate::ffi::{AttributesArgs, CompileArgs, Handle, ListArgs, TopologyCreateArgs};
use crate::options::{Attributes, CompileOptions, OptionValue, from_named_values, to_named_values};
use crate::plugin::{Plugin, call};

/// The description of a machine, such as `v5e:2x2`. The machine need not exist.
pub struct Topology {
    raw: Handle,
    plugin: Arc<Plugin>,
    platform_name: String,
    platform_version: String,
    devices: Vec<DeviceDescription>,
    attributes: Attributes,
}

// SAFETY: the C API lets any thread use a topology, which does not change, and the rest is plain data.
unsafe impl Send for Topology {}
// SAFETY: a topology does not change, so several threads may use it at once, and the rest is plain data.
unsafe impl Sync for Topology {}

impl Topology {
    /// Describe the machine of this name. libtpu knows `v4:2x2x2`, `v5e:2x4`, `v5p:2x2x2`, `v6e:2x4`, `TPU7x:2x2x1` and
    /// similar names, up to whole pods.
    ///
    /// # Errors
    ///
    /// Fails with the plugin's error for an unknown name, or with `Unimplemented` if the plugin has no topologies.
    pub fn create(plugin: &Arc<Plugin>, name: &str, options: &[(&str, OptionValue)]) -> Result<Topology> {
        let named = to_named_values(options);
        let mut args = TopologyCreateArgs::new();
        args.name = name.as_ptr().cast::<c_char>();
        args.name_size = name.len();
        args.options = named.as_ptr();
        args.num_options = named.len();
        // SAFETY: the name and the options, with everything that they borrow, outlive the call.
        unsafe { call!(plugin, PJRT_TopologyDescription_Create, &mut args)? };
        // From here on, errors destroy the topology.
        let mut topology = Topology {
            raw: args.topology,
            plugin: plugin.clone(),
            platform_name: String::new(),
            platform_version: String::new(),
            devices: Vec::new(),
            attributes: Attributes::new(),
        };
        let (raw, api) = (topology.raw, &plugin.api);
        // SAFETY: the topology is alive, and the lists that it returns live as long.
        unsafe {
            topology.platform_name = plugin.text_of(
                "PJRT_TopologyDescription_PlatformName",
                api.PJRT_TopologyDescription_PlatformName,
                raw,
            )?;
            topology.platform_version = plugin.text_of(
                "PJRT_TopologyDescription_PlatformVersion",
                api.PJRT_TopologyDescription_PlatformVersion,
                raw,
            )?;
            let mut list = ListArgs::new();
            list.handle = raw;
            call!(plugin, PJRT_TopologyDescription_GetDeviceDescriptions, &mut list)?;
            for i in 0..list.count {
                topology.devices.push(DeviceDescription::read(plugin, *list.items.add(i))?);
            }
            let mut attributes = AttributesArgs::new();
            attributes.handle = raw;
            call!(plugin, PJRT_TopologyDescription_Attributes, &mut attributes)?;
            topology.attributes = from_named_values(attributes.attributes, attributes.count);
        }
        Ok(topology)
    }

    /// Return the platform of the devices, such as `tpu`.
    pub fn platform_name(&self) -> &str {
        &self.platform_name
    }

    /// Return the version of the plugin's C API.
    pub fn api_version(&self) -> (i32, i32) {
        self.plugin.api_version()
    }

    /// Return the version of the compiler, as the plugin words it.
    pub fn platform_version(&self) -> &str {
        &self.platform_version
    }

    /// Return the devices.
    pub fn devices(&self) -> &[DeviceDescription] {
        &self.devices
    }

    /// Return the attributes that the plugin reports for the whole machine.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Compile StableHLO text for this machine, ahead of time.
    ///
    /// # Errors
    ///
    /// Fails with the compiler's error and message.
    pub fn compile(&self, stablehlo_text: &str, options: &CompileOptions) -> Result<AotExecutable> {
        let option_bytes = options.to_bytes()?;
        let parameters = parameters_for(stablehlo_text, options)?;
        with_program(stablehlo_text, |program| {
            let mut args = CompileArgs::new();
            args.topology = self.raw;
            args.program = program;
            args.options = option_bytes.as_ptr().cast::<c_char>();
            args.options_size = option_bytes.len();
            // SAFETY: topology, program and option bytes are alive during the call. The result owns the executable.
            unsafe {
                call!(&self.plugin, PJRT_Compile, &mut args)?;
                let platform_name = self.platform_name.clone();
                Ok(AotExecutable(Compiled::from_raw(args.executable, self.plugin.clone(), platform_name, parameters)?))
            }
        })
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        let api = &self.plugin.api;
        // SAFETY: this value owns the topology and is being dropped.
        unsafe {
            self.plugin.destroy("PJRT_TopologyDescription_Destroy", api.PJRT_TopologyDescription_Destroy, self.raw);
        }
    }
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let devices = self.devices.len();
        f.debug_struct("Topology").field("platform_name", &self.platform_name).field("devices", &devices).finish()
    }
}

/// A program compiled for a described machine. It can be inspected and serialised, but not run.
pub struct AotExecutable(Compiled);

impl Deref for AotExecutable {
    type Target = Compiled;

    fn deref(&self) -> &Compiled {
        &self.0
    }
}
