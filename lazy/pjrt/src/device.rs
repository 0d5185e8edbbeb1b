//! Devices and their descriptions.

use std::fmt;

use crate::error::Result;
use crate::ffi::{CountedAttributesArgs, Handle};
use crate::options::{Attributes, OptionValue, from_named_values};
use crate::plugin::{Plugin, call};

/// The description of a device, which belongs to a client or to a topology.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceDescription {
    /// Number of the device, unique in the client or topology.
    pub id: i32,
    /// Index of the process that drives the device.
    pub process_index: i32,
    /// Kind of the device, such as `cpu` or `TPU v5 lite`.
    pub kind: String,
    /// One line about the device for humans.
    pub debug_string: String,
    /// Attributes that the plugin reports: `coords`, `core_on_chip`, memory sizes.
    pub attributes: Attributes,
}

impl DeviceDescription {
    /// Return the device's position in the machine, if the plugin reports one.
    pub fn coords(&self) -> Option<&[i64]> {
        match self.attributes.get("coords") {
            Some(OptionValue::Int64List(coords)) => Some(coords),
            _ => None,
        }
    }

    /// Return the device's position in the machine and its core on the chip, if the plugin reports them.
    pub fn place(&self) -> Option<Vec<i64>> {
        let core = match self.attributes.get("core_on_chip") {
            Some(OptionValue::Int64(core)) => *core,
            _ => 0,
        };
        Some([self.coords()?, &[core]].concat())
    }

    /// # Safety
    ///
    /// `raw` must be a device description of the plugin that is alive during the call.
    pub(crate) unsafe fn read(plugin: &Plugin, raw: Handle) -> Result<DeviceDescription> {
        let api = &plugin.api;
        let mut attributes = CountedAttributesArgs::new();
        attributes.handle = raw;
        // SAFETY: the caller passes a description that is alive, and everything is copied during the call.
        unsafe {
            call!(plugin, PJRT_DeviceDescription_Attributes, &mut attributes)?;
            let text = |name, entry| plugin.text_of(name, entry, raw);
            Ok(DeviceDescription {
                id: plugin.int_of("PJRT_DeviceDescription_Id", api.PJRT_DeviceDescription_Id, raw)?,
                process_index: plugin.int_of(
                    "PJRT_DeviceDescription_ProcessIndex",
                    api.PJRT_DeviceDescription_ProcessIndex,
                    raw,
                )?,
                kind: text("PJRT_DeviceDescription_Kind", api.PJRT_DeviceDescription_Kind)?,
                debug_string: text("PJRT_DeviceDescription_DebugString", api.PJRT_DeviceDescription_DebugString)?,
                attributes: from_named_values(attributes.attributes, attributes.count),
            })
        }
    }
}

/// A device of a client.
pub struct Device {
    pub(crate) raw: Handle,
    pub(crate) description: DeviceDescription,
    pub(crate) is_addressable: bool,
    pub(crate) local_hardware_id: Option<i32>,
}

// SAFETY: the C API lets any thread use a device, and the rest is plain data.
unsafe impl Send for Device {}
// SAFETY: the C API lets several threads use a device at once, and the rest is plain data that does not change.
unsafe impl Sync for Device {}

impl Device {
    /// Return the device's number, unique in the client.
    pub fn id(&self) -> i32 {
        self.description.id
    }

    /// Return the device's kind, such as `cpu` or `TPU v5 lite`.
    pub fn kind(&self) -> &str {
        &self.description.kind
    }

    /// Return one line about the device for humans.
    pub fn debug_string(&self) -> &str {
        &self.description.debug_string
    }

    /// Return the attributes that the plugin reports.
    pub fn attributes(&self) -> &Attributes {
        &self.description.attributes
    }

    /// Return the whole description.
    pub fn description(&self) -> &DeviceDescription {
        &self.description
    }

    /// Whether this process can put data on the device.
    pub fn is_addressable(&self) -> bool {
        self.is_addressable
    }

    /// Return the device's number on this machine. Only an addressable device has one.
    pub fn local_hardware_id(&self) -> Option<i32> {
        self.local_hardware_id
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.description.debug_string)
    }
}

/// Statistics of a device's allocator. A field is `None` if the plugin does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceMemoryStats {
    /// Number of bytes allocated now.
    pub bytes_in_use: i64,
    /// Largest number of bytes allocated at any time.
    pub peak_bytes_in_use: Option<i64>,
    /// Number of allocations so far.
    pub num_allocs: Option<i64>,
    /// Size of the largest allocation in bytes.
    pub largest_alloc_bytes: Option<i64>,
    /// Largest number of bytes that may be allocated.
    pub bytes_limit: Option<i64>,
    /// Number of bytes reserved now.
    pub bytes_reserved: Option<i64>,
    /// Largest number of bytes reserved at any time.
    pub peak_bytes_reserved: Option<i64>,
    /// Largest number of bytes that may be reserved.
    pub bytes_reservable_limit: Option<i64>,
    /// Size of the largest free block in bytes.
    pub largest_free_block_bytes: Option<i64>,
}
