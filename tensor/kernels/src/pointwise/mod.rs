//! Element-wise kernels.
//!
//! A kind ([`UnaryKind`], [`BinaryKind`], [`CompareKind`]) names a kernel without parameters. A kernel with parameters
//! besides its operands is a function of its own (`fused`, `optimizer`). All operands of a call have equal sizes. A
//! broadcast operand has strides of zero, and so has a Python scalar, as a single element.

mod binary;
mod frexp;
mod fused;
mod math;
mod optimizer;
mod unary;

pub use binary::{BinaryKind, CompareKind, binary, binary_in_place, binary_supports, compare};
pub use frexp::frexp;
pub use fused::{
    add_scaled, addcdiv, addcmul, clamp, gelu, gelu_backward, lerp, select, sigmoid_backward, silu, silu_backward,
    tanh_backward, threshold_backward,
};
pub use optimizer::{AdamW, Sgd, adamw_step, sgd_step};
pub(crate) use unary::truth;
pub use unary::{UnaryKind, unary, unary_supports};

use crate::{DType, KernelError};

/// Declare an enum of kernels with their PyTorch names.
macro_rules! kinds {
    ($(#[$doc:meta])* $Name:ident { $($Kind:ident $name:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum $Name {
            $(#[doc = concat!("`torch.", $name, "`.")] $Kind,)*
        }
        impl $Name {
            /// Every kind.
            pub const ALL: [$Name; [$($name),*].len()] = [$($Name::$Kind),*];
            /// Return PyTorch's name.
            pub const fn name(self) -> &'static str {
                match self { $($Name::$Kind => $name),* }
            }
        }
    };
}
pub(crate) use kinds;

#[cold]
pub(crate) fn unsupported(name: &str, dtype: DType) -> KernelError {
    KernelError::NotImplemented(format!("\"{name}_cpu\" not implemented for '{}'", dtype.scalar_type()))
}
