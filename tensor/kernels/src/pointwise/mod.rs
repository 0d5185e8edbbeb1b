//! Element-wise kernels.
//!
//! A kernel is named by a kind ([`UnaryKind`], [`BinaryKind`], [`CompareKind`]) or, when it takes numbers besides its
//! operands, is a function of its own (`fused`, `optimizer`). All operands of a call have the same sizes; broadcasting is
//! a stride of zero, a Python scalar is an element with strides of zero.

mod binary;
mod frexp;
mod fused;
mod math;
mod optimizer;
mod unary;

pub use binary::{BinaryKind, CompareKind, binary, binary_supports, compare};
pub use frexp::frexp;
pub use fused::{
    add_scaled, addcdiv, addcmul, clamp, gelu, gelu_backward, lerp, select, sigmoid_backward, silu, silu_backward,
    tanh_backward, threshold_backward,
};
pub use optimizer::{AdamW, Sgd, adamw_step, sgd_step};
pub use unary::{UnaryKind, unary, unary_supports};

use crate::{DType, KernelError};

/// Declares an enum of kernels with their PyTorch names.
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
            /// PyTorch's name.
            pub const fn name(self) -> &'static str {
                match self { $($Name::$Kind => $name),* }
            }
        }
    };
}
pub(crate) use kinds;

#[cold]
pub(crate) fn unsupported(name: &str, dtype: DType) -> KernelError {
    KernelError::Other(format!("\"{name}_cpu\" not implemented for '{}'", dtype.scalar_type()))
}
