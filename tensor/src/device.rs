//! Where a tensor lives.

use crate::{Error, Result};
use std::fmt;

/// The kinds of devices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum DeviceKind {
    /// Host memory, native kernels.
    Cpu,
    /// Whatever PJRT plugin was found: values of a lazy trace.
    Tpu,
    /// Shapes and dtypes only.
    Meta,
}

/// A device: a kind and an ordinal, written `cpu`, `tpu:0`, `meta`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Device {
    /// Which kind.
    pub kind: DeviceKind,
    /// Which one of its kind.
    pub index: u8,
}

impl Device {
    /// Host memory.
    pub const CPU: Device = Device { kind: DeviceKind::Cpu, index: 0 };
    /// The first accelerator.
    pub const TPU: Device = Device { kind: DeviceKind::Tpu, index: 0 };
    /// Shapes only.
    pub const META: Device = Device { kind: DeviceKind::Meta, index: 0 };

    /// Parses `cpu`, `tpu`, `tpu:1`, `meta`.
    ///
    /// # Errors
    /// `Runtime` with PyTorch's wording for an unknown type or a malformed index.
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
        let index = match index {
            None => 0,
            Some(i) => i.parse().map_err(|_| Error::runtime(format!("Invalid device string: '{s}'")))?,
        };
        Ok(Device { kind, index })
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
            DeviceKind::Tpu => write!(f, "tpu:{}", self.index),
            _ => f.write_str(self.type_name()),
        }
    }
}
impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
