//! Devices, and what is known about them.

use std::fmt;

use crate::error::Result;
use crate::ffi::{CountedAttributesArgs, Handle};
use crate::options::{Attributes, OptionValue, from_named_values};
use crate::plugin::{Plugin, call};

/// What a device is: of a client, or of a topology that is only described.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceDescription {
    /// Its number, unique in the client or topology.
    pub id: i32,
    /// The process that drives it.
    pub process_index: i32,
    /// Its kind, such as `cpu` or `TPU v5 lite`.
    pub kind: String,
    /// A line about it for humans.
    pub debug_string: String,
    /// Whatever the plugin tells: `coords`, `core_on_chip`, memory sizes.
    pub attributes: Attributes,
}

impl DeviceDescription {
    /// Its position in the machine, where the plugin tells one.
    pub fn coords(&self) -> Option<&[i64]> {
        match self.attributes.get("coords") {
            Some(OptionValue::Int64List(coords)) => Some(coords),
            _ => None,
        }
    }

    /// # Safety
    ///
    /// `raw` must be a device description of the plugin, alive during the call.
    pub(crate) unsafe fn read(plugin: &Plugin, raw: Handle) -> Result<DeviceDescription> {
        let api = &plugin.api;
        let mut attributes = CountedAttributesArgs::new();
        attributes.handle = raw;
        // SAFETY: the caller vouches for the description; everything is copied before it may end.
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

// SAFETY: the C API lets any thread use a device; the rest is plain data.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    /// Its number, unique in the client.
    pub fn id(&self) -> i32 {
        self.description.id
    }

    /// Its kind, such as `cpu` or `TPU v5 lite`.
    pub fn kind(&self) -> &str {
        &self.description.kind
    }

    /// A line about it for humans.
    pub fn debug_string(&self) -> &str {
        &self.description.debug_string
    }

    /// Whatever the plugin tells about it.
    pub fn attributes(&self) -> &Attributes {
        &self.description.attributes
    }

    /// All of the above.
    pub fn description(&self) -> &DeviceDescription {
        &self.description
    }

    /// Whether this process can put data on it.
    pub fn is_addressable(&self) -> bool {
        self.is_addressable
    }

    /// Its number on this machine; only an addressable device has one.
    pub fn local_hardware_id(&self) -> Option<i32> {
        self.local_hardware_id
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.description.debug_string)
    }
}

/// What a device's allocator tells; `None` where it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceMemoryStats {
    /// Bytes allocated now.
    pub bytes_in_use: i64,
    /// The most that were.
    pub peak_bytes_in_use: Option<i64>,
    /// Allocations so far.
    pub num_allocs: Option<i64>,
    /// Bytes of the largest one.
    pub largest_alloc_bytes: Option<i64>,
    /// Bytes that may be allocated.
    pub bytes_limit: Option<i64>,
    /// Bytes set aside.
    pub bytes_reserved: Option<i64>,
    /// The most that were.
    pub peak_bytes_reserved: Option<i64>,
    /// Bytes that may be set aside.
    pub bytes_reservable_limit: Option<i64>,
    /// Bytes of the largest free block.
    pub largest_free_block_bytes: Option<i64>,
}
