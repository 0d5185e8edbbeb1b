//! Native CPU kernels on slices and strides.
//!
//! This crate knows no tensor and no op: a kernel takes [`View`]s, which are a pointer, sizes, strides in elements and a
//! [`DType`], and writes a [`ViewMut`]. Whoever calls a kernel has already checked shapes and dtypes.
//!
//! Three types to know: [`DType`], [`View`], [`ViewMut`].

mod dtype;
mod element;
mod error;
mod view;

mod par;
mod real;

pub mod attention;
pub mod conv;
pub mod embedding;
pub mod loss;
pub mod matmul;
pub mod norm;
pub mod pool;
pub mod softmax;
pub mod index;
pub mod random;
mod select;
pub mod sort;
mod strided;
mod convert;
pub mod copy;
mod loops;
pub mod memory;
pub mod pointwise;
pub mod threads;

pub use dtype::DType;
pub use element::Element;
pub use error::KernelError;
pub use half::{bf16, f16};

pub use copy::{Scalar, copy, fill};
pub use pointwise::*;
pub use view::{View, ViewMut, is_contiguous};
