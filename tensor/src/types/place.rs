//! Places: the device of a tensor, and the representation of its value.

use crate::{Device, DeviceKind};
use std::fmt;
use std::hash::{Hash, Hasher};

/// A table of the representations: each line is the variant, its name, and how values of it are held.
macro_rules! representations {
    ($($(#[$doc:meta])* $name:ident $text:literal $held:expr;)*) => {
        /// A representation: how the value of a tensor is held.
        ///
        /// It is a byte of each [`Place`], the highest byte of each handle, and an index into the table of
        /// [`backend::of`](crate::backend::of).
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Rep { $($(#[$doc])* $name),* }

        impl Rep {
            /// All representations.
            pub const ALL: &'static [Rep] = &[$(Rep::$name),*];
            const NAMES: &'static [&'static str] = &[$($text),*];
            /// How values are held. `None` leaves it to the device.
            const HELD: &'static [Option<Held>] = &[$($held),*];
        }
    };
}

representations! {
    /// The elements are in the memory of the device, or are a value of its backend.
    Dense "dense" None;
    /// Each process of a mesh has a part of the elements.
    Sharded "sharded" Some(Held::Handle);
    /// There are no elements: see [`fake`](crate::fake).
    Fake "fake" Some(Held::Abstract);
    /// Code outside of this library computes with the value: see [`foreign`](crate::foreign).
    Foreign "foreign" Some(Held::Handle);
}

impl Rep {
    /// The name.
    pub fn name(self) -> &'static str {
        Rep::NAMES[self as usize]
    }
    /// The handle of the value that this representation numbers `id`. Only dense values may use all of the 56 low bits.
    #[inline]
    pub const fn handle(self, id: u64) -> u64 {
        (self as u64) << Rep::SHIFT | id
    }
    /// The number in a handle.
    #[inline]
    pub const fn id(handle: u64) -> u64 {
        handle & ((1 << Rep::SHIFT) - 1)
    }
    /// The position in the table of the representation of a handle.
    #[inline]
    pub(crate) const fn index_of(handle: u64) -> usize {
        (handle >> Rep::SHIFT) as usize
    }
    const SHIFT: u32 = 56;
}

/// How code reaches the elements of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// They are in host memory: kernels run on them.
    Memory,
    /// They are a value that a [representation](crate::backend::Representation) names by a handle.
    Handle,
    /// There are none: only sizes, strides and dtype are known.
    Abstract,
}

/// Where a tensor is, and how its value is held.
///
/// Code inside the library passes places on, so that a new tensor is held as its operands are. Users see the
/// [`Device`]. A place is one word, and is compared as one word.
#[derive(Clone, Copy)]
#[repr(C, align(4))]
pub struct Place {
    /// The device. The parts of a sharded tensor are on it.
    pub device: Device,
    /// The representation.
    pub rep: Rep,
    /// The member of the representation, such as the mesh of a sharded tensor. It is 0 for a dense tensor.
    pub member: u8,
}

const _: () = assert!(size_of::<Place>() == 4);

impl Place {
    /// Host memory.
    pub const CPU: Place = Place::dense(Device::CPU);
    /// The accelerator of this process.
    pub const TPU: Place = Place::dense(Device::TPU);
    /// Shapes only.
    pub const META: Place = Place::dense(Device::META);

    /// The place of dense tensors on a device.
    #[inline]
    pub const fn dense(device: Device) -> Place {
        Place { device, rep: Rep::Dense, member: 0 }
    }
    /// All four bytes as one word.
    #[inline(always)]
    pub const fn word(self) -> u32 {
        u32::from_ne_bytes([self.device.kind as u8, self.device.index, self.rep as u8, self.member])
    }
    /// Whether tensors are dense.
    #[inline]
    pub fn is_dense(self) -> bool {
        self.rep == Rep::Dense
    }
    /// How code reaches the elements.
    #[inline(always)]
    pub fn held(self) -> Held {
        // The commonest case costs one compare.
        if self.in_memory() { Held::Memory } else { self.held_elsewhere() }
    }
    #[inline]
    fn held_elsewhere(self) -> Held {
        match (Rep::HELD[self.rep as usize], self.device.kind) {
            (Some(held), _) => held,
            (None, DeviceKind::Cpu) => Held::Memory,
            (None, DeviceKind::Tpu) => Held::Handle,
            (None, DeviceKind::Meta) => Held::Abstract,
        }
    }
    /// Whether the elements are in host memory.
    #[inline(always)]
    pub fn in_memory(self) -> bool {
        self == Place::CPU
    }
    /// Whether tensors are values that a handle names, without an address in host memory.
    #[inline]
    pub fn has_handle(self) -> bool {
        self.held() == Held::Handle
    }
    /// Whether tensors have no elements.
    #[inline]
    pub fn is_abstract(self) -> bool {
        self.held() == Held::Abstract
    }
    /// Whether tensors are dense values of the backend behind `tpu`.
    #[inline]
    pub fn is_tpu(self) -> bool {
        self.is_dense() && self.device.kind == DeviceKind::Tpu
    }
}

impl PartialEq for Place {
    #[inline(always)]
    fn eq(&self, other: &Place) -> bool {
        self.word() == other.word()
    }
}
impl Eq for Place {}

impl Hash for Place {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.word().hash(state);
    }
}

impl From<Device> for Place {
    #[inline]
    fn from(device: Device) -> Place {
        Place::dense(device)
    }
}

/// Users see the device.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.device, f)
    }
}
impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rep {
            Rep::Dense => fmt::Display::fmt(&self.device, f),
            rep => write!(f, "{} ({} {})", self.device, rep.name(), self.member),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_differ_in_device_representation_and_member() {
        let sharded = Place { rep: Rep::Sharded, ..Place::CPU };
        assert_ne!(sharded, Place::CPU);
        assert_ne!(sharded, Place { member: 1, ..sharded });
        assert_ne!(sharded, Place { device: Device::TPU, ..sharded });
        assert_eq!(sharded.device, Device::CPU);
        assert!(!sharded.in_memory() && sharded.has_handle());
    }

    #[test]
    fn handles_name_their_representation() {
        let handle = Rep::Sharded.handle(7);
        assert_eq!((Rep::id(handle), Rep::index_of(handle)), (7, Rep::Sharded as usize));
        assert_eq!(Rep::index_of(Rep::Dense.handle(1 << 50)), 0);
    }
}
