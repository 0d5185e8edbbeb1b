//! Builder of [StableHLO](https://openxla.org/stablehlo) modules as text.
//!
//! This crate knows the spelling of StableHLO, its types, and how shapes follow from operands. It knows nothing about
//! tensors, devices or gradients, and it never runs anything: its product is a string that a PJRT plugin compiles.
//!
//! Three types carry it. A [`Type`] is a shape and an [`ElementType`]. A [`Value`] is the name of a result, with its
//! type. A [`Func`] is the body of `@main` under construction: every method appends one operation (a few append
//! several), infers the type of the result and returns the value. [`Func::finish`] prints the module.
//!
//! ```
//! use torchtpu_stablehlo::{ElementType::F32, Func, Type};
//!
//! let mut f = Func::new();
//! let x = f.arg(Type::new(&[2, 3], F32));
//! let w = f.arg(Type::new(&[3], F32));
//! let y = f.dot_general(&x, &w, (&[], &[]), (&[1], &[0]), F32, None);
//! let y = f.unary("stablehlo.tanh", &y);
//! assert_eq!(f.finish("layer", &[y]), "\
//! module @layer {
//!   func.func public @main(%a0: tensor<2x3xf32>, %a1: tensor<3xf32>) -> (tensor<2xf32>) {
//!     %0 = stablehlo.dot_general %a0, %a1, contracting_dims = [1] x [0] \
//!         : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32>
//!     %1 = stablehlo.tanh %0 : tensor<2xf32>
//!     return %1 : tensor<2xf32>
//!   }
//! }
//! ");
//! ```
//!
//! # Guarantees
//!
//! * **The same calls give the same text**, so the text may be hashed, compared and cached. Each constant is printed
//!   once, at its first use.
//! * **Operations without effect are not printed**: a reshape to the same shape, the identity permutation or an empty
//!   padding returns its operand.
//! * **Wrong operands panic.** Shapes were inferred and checked before lowering, so a mismatch here is a bug of a
//!   lowering, not of a user. The message cites the constraint of the specification, as `dot_general (C13)`.
//! * **PyTorch's meaning where names agree.** NaN is the greatest when sorted and wins in `reduce_arg`. Conversion to a
//!   boolean is `x != 0`. Sums of 16-bit floats are accumulated in `f32`.
//!
//! # Duties of the caller
//!
//! `maximum`, `minimum`, `clamp` and reductions by them are printed plainly. XLA:CPU drops NaN in them unless compiled
//! with `xla_cpu_enable_fast_min_max = false`. Gathers move indices that are out of range inwards and scatters leave
//! them out: neither reports them, and negative indices are not wrapped. Only static shapes are supported.
#![forbid(unsafe_code)]

mod collective;
mod contraction;
mod control;
mod elementwise;
mod func;
mod indexing;
mod library;
mod literal;
mod profile;
mod reduction;
mod shape;
mod special;
mod types;

pub use collective::{Combine, Groups};
pub use contraction::ConvDims;
pub use elementwise::Direction;
pub use func::{Func, Precision, Value, Window};
pub use indexing::{GatherDims, ScatterDims, ScatterKind};
pub use library::Library;
pub use profile::Profile;
pub use reduction::ReduceKind;
pub use special::{FftKind, RngAlgorithm};
pub use types::{ElementType, Type};
