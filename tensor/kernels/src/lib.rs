//! Native CPU kernels on slices and strides.
//!
//! This crate knows no tensor and no op: a kernel takes [`View`]s, which are a pointer, sizes, strides in elements and a
//! [`DType`], and writes a [`ViewMut`]. Whoever calls a kernel has already checked shapes and dtypes.
//!
//! Three types to know: [`DType`], [`View`], [`ViewMut`].

pub mod attention;
pub mod columns;
pub mod conv;
mod convert;
pub mod copy;
pub mod cpu;
pub mod creation;
pub mod distance;
mod dtype;
mod element;
pub mod embedding;
mod error;
mod gemm;
pub mod grid;
pub mod index;
mod loops;
pub mod loss;
pub mod matmul;
pub mod memory;
pub mod norm;
mod par;
pub mod pointwise;
pub mod pool;
pub mod random;
mod real;
pub mod reduce;
pub mod resample;
pub mod scan;
mod select;
pub mod softmax;
pub mod sort;
pub mod special;
mod strided;
pub mod threads;
mod view;

pub use dtype::DType;
pub use element::Element;
pub use error::KernelError;
pub use half::{bf16, f16};
pub use view::{View, ViewMut, is_contiguous};
