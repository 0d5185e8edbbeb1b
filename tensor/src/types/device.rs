//! Devices: where tensors are.

use crate::{Error, Result, local};
use std::fmt;

/// The kinds of devices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum DeviceKind {
    /// Host memory, native kernels.
    Cpu,
    /// The PJRT plugin that was found; its tensors are values of a lazy trace.
    Tpu,
    /// Shapes and dtypes only.
    Meta,
}

/// A device: a kind and an ordinal, written `cpu`, `tpu:0`, `meta`, with its number.
///
/// `tpu` has several ordinals. For other kinds it is always 0, as PyTorch's `cpu:1` means `cpu`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Device {
    /// The kind.
    pub kind: DeviceKind,
    /// The ordinal. The device of this process has 0; [`Device::number`] is what programs call it.
    pub index: u8,
}

impl Device {
    /// Host memory.
    pub const CPU: Device = Device { kind: DeviceKind::Cpu, index: 0 };
    /// The accelerator of this process.
    pub const TPU: Device = Device { kind: DeviceKind::Tpu, index: 0 };
    /// Shapes only.
    pub const META: Device = Device { kind: DeviceKind::Meta, index: 0 };

    /// The device of a kind and an ordinal. For kinds with only one device the ordinal is set to 0.
    pub fn new(kind: DeviceKind, index: u8) -> Device {
        Device { kind, index: if kind == DeviceKind::Tpu { index } else { 0 } }
    }

    /// The device with a number. For kinds with only one device the number is ignored.
    pub fn numbered(kind: DeviceKind, number: u8) -> Device {
        Device::new(kind, if kind == DeviceKind::Tpu { local::exchange(number) } else { number })
    }

    /// The number by which programs name the device: see [`local`].
    pub fn number(self) -> u8 {
        if self.kind == DeviceKind::Tpu { local::exchange(self.index) } else { self.index }
    }

    /// Parse `cpu`, `tpu`, `tpu:1`, `meta`. `cpu:1` is `cpu`.
    ///
    /// # Errors
    /// `Runtime`, in PyTorch's wording, for an unknown type or a malformed index.
    pub fn parse(s: &str) -> Result<Device> {
        let (name, index) = s.split_once(':').map_or((s, None), |(a, b)| (a, Some(b)));
        let kind = match name {
            "cpu" => DeviceKind::Cpu,
            "tpu" => DeviceKind::Tpu,
            "meta" => DeviceKind::Meta,
            _ => {
                return Err(Error::runtime(format!(
                    "Expected one of cpu, tpu, meta device type at start of device string: {name}"
                )));
            }
        };
        let number = Device::parse_index(s, index)?;
        Ok(number.map_or(Device::new(kind, 0), |n| Device::numbered(kind, n)))
    }

    /// The number in a device string, if it has one.
    ///
    /// # Errors
    /// `Runtime`, in PyTorch's wording, if it is malformed.
    pub fn index_in(s: &str) -> Result<Option<u8>> {
        Device::parse_index(s, s.split_once(':').map(|(_, index)| index))
    }

    fn parse_index(s: &str, index: Option<&str>) -> Result<Option<u8>> {
        let Some(index) = index else { return Ok(None) };
        let is_plain = index == "0" || (!index.starts_with('0') && index.bytes().all(|b| b.is_ascii_digit()));
        match index.parse() {
            Ok(i) if is_plain => Ok(Some(i)),
            _ => Err(Error::runtime(format!("Invalid device string: '{s}'"))),
        }
    }

    /// The kind's name: `cpu`, `tpu`, `meta`.
    pub fn type_name(self) -> &'static str {
        match self.kind {
            DeviceKind::Cpu => "cpu",
            DeviceKind::Tpu => "tpu",
            DeviceKind::Meta => "meta",
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            DeviceKind::Tpu => write!(f, "{}:{}", self.type_name(), self.number()),
            _ => f.write_str(self.type_name()),
        }
    }
}
impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
