//! The autocast policy of an op: a column of its row, and a constant of its node.

use crate::DeviceKind;

/// The dtype to which autocast casts the floating-point operands of a call. Operands of 64 bits are never cast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Compute in the dtype of the autocast block: `bfloat16` or `float16`.
    Lower,
    /// Compute in `float32`.
    Full,
    /// Compute in the widest dtype among the operands.
    Widest,
}

/// The policies of an op on `cpu` and on accelerators, for each of which PyTorch has a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policies {
    cpu: Option<Policy>,
    accelerator: Option<Policy>,
}

impl Policies {
    /// No cast on any device.
    pub const NONE: Policies = Policies { cpu: None, accelerator: None };

    /// The same policy on all devices.
    pub const fn both(policy: Policy) -> Policies {
        Policies { cpu: Some(policy), accelerator: Some(policy) }
    }
    /// A policy on `cpu` only.
    pub const fn cpu(policy: Policy) -> Policies {
        Policies { cpu: Some(policy), accelerator: None }
    }
    /// A policy on accelerators only.
    pub const fn accelerator(policy: Policy) -> Policies {
        Policies { cpu: None, accelerator: Some(policy) }
    }
    /// A policy on `cpu` and another one on accelerators.
    pub const fn each(cpu: Policy, accelerator: Policy) -> Policies {
        Policies { cpu: Some(cpu), accelerator: Some(accelerator) }
    }
    /// The policy on a kind of device. Device `meta` has none.
    pub fn on(self, kind: DeviceKind) -> Option<Policy> {
        match kind {
            DeviceKind::Cpu => self.cpu,
            DeviceKind::Tpu => self.accelerator,
            DeviceKind::Meta => None,
        }
    }
}
