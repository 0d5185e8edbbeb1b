//! Tensors, and the meaning of every op.
//!
//! A [`Tensor`] is one word: a pointer to a reference-counted block with sizes, strides, dtype, device and, for small
//! tensors, the elements themselves ([`block`]). It has no type parameters and no subclasses; `cpu` and `tpu` tensors
//! are the same type. On `cpu` views alias memory; on `tpu` a storage holds a value of a lazy trace and a view is a
//! chain of view ops on it ([`view`]).
//!
//! An op is written once, in one file under [`ops`]. Its attributes, shape rule, [`axes`], CPU kernel call, StableHLO
//! lowering and gradient stand together, and with them the rows of the public table: schema, function and samples
//! ([`op`], [`schema`]). The engines elsewhere (`torchtpu-autograd`, `torchtpu-lazy`, the Python binding) ask an op for
//! its rule; they never list ops.
//!
//! Three types to know: [`Tensor`], [`op::Prim`] (a node of a trace or tape), [`schema::Row`] (a public function).
//!
//! ```
//! use torchtpu_tensor::Tensor;
//! let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
//! let y = x.matmul(&x)?.add_scalar(1.0)?;
//! assert_eq!(y.to_vec::<f32>()?, [8.0, 11.0, 16.0, 23.0]);
//! # Ok::<(), torchtpu_tensor::Error>(())
//! ```

#![deny(unsafe_code)]

pub mod axes;
mod call;
pub mod lower;
mod methods;
pub mod op;
mod operators;
pub mod ops;
pub mod print;
pub mod random;
mod record;
pub mod schema;
mod storage;
mod types;

pub use call::{autocast, backend, comm, dispatch, fake, foreign, policy};
pub(crate) use record::formula;
pub use record::{graph, hooks, remade, saved, site};
pub(crate) use storage::overlap;
pub use storage::{block, dlpack, host, inplace, strides, view};
use types::{device, error, place, scalar};
pub use types::{dims, local, meta, state, warning};

pub use block::{GradRef, Tensor, too_many_bytes};
pub use device::{Device, DeviceKind};
pub use dims::Dims;
pub use error::{Error, ErrorKind, Result};
pub use meta::Meta;
pub use place::{Held, Place, Rep};
pub use scalar::{
    Scalar, can_cast, category, default_complex, default_dtype, is_promotable, no_common_dtype, promote_types,
    set_default_dtype,
};
pub use state::{GradMode, no_grad};
pub use strides::MemoryFormat;
pub use torchtpu_kernels::memory;
pub use torchtpu_kernels::{DType, Element, bf16, c64, c128, f16};
