//! Native CPU kernels on slices and strides.
//!
//! This crate knows no tensor and no op: a kernel takes [`View`]s, which are a pointer, sizes, strides in elements and a
//! [`DType`], and writes a [`ViewMut`]. Whoever calls a kernel has already checked shapes and dtypes.
//!
//! Three types to know: [`DType`], [`View`], [`ViewMut`].

mod dtype;
mod element;
mod view;

mod convert;
mod copy;
mod creation;
mod error;
mod loops;
pub mod memory;
mod pointwise;
mod reduce;
mod scan;
pub mod threads;

pub use dtype::DType;
pub use element::Element;
pub use half::{bf16, f16};

pub use copy::{Scalar, copy, fill};
pub use creation::{arange, eye, linspace, tril, triu};
pub use error::KernelError;
pub use pointwise::*;
pub use reduce::{ReduceKind, arg_reduce, mean, reduce, var};
pub use scan::{cummax, cummin, cumprod, cumsum, logcumsumexp};
pub use view::{View, ViewMut, is_contiguous};
