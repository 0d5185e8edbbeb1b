//! Native CPU kernels on slices and strides.
//!
//! This crate knows no tensor and no op. A kernel reads [`View`]s (a pointer, sizes, strides in elements, and a
//! [`DType`]) and writes a [`ViewMut`]. The caller has already checked shapes and dtypes.
//!
//! Three types to know: [`DType`], [`View`], [`ViewMut`].

mod accumulate;
pub mod attention;
pub mod columns;
mod complex;
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
pub mod fft;
mod gemm;
pub mod grid;
pub mod index;
mod loops;
pub mod loss;
mod map;
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
mod skinny;
pub mod softmax;
pub mod sort;
pub mod special;
pub mod stored;
mod strided;
pub mod threads;
mod view;
pub mod widened;

pub use dtype::{Category, DType, Tier, compute_dtype};
pub(crate) use element::refuse_dtype;
pub use element::{Bool, Element, refuse_complex};
pub use error::KernelError;
pub use half::{bf16, f16};

/// `complex64`: a complex number of two `f32`.
#[allow(non_camel_case_types)]
pub type c64 = num_complex::Complex<f32>;
/// `complex128`: a complex number of two `f64`.
#[allow(non_camel_case_types)]
pub type c128 = num_complex::Complex<f64>;
pub use view::{View, ViewMut, is_contiguous};
