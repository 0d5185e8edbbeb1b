//! Builds StableHLO modules and prints them as text; knows no tensor.
#![forbid(unsafe_code)]

mod contraction;
mod elementwise;
mod func;
mod indexing;
mod literal;
mod reduction;
mod shape;
mod special;
mod types;

pub use contraction::ConvDims;
pub use elementwise::Direction;
pub use func::{Func, Value};
pub use indexing::{GatherDims, ScatterDims, ScatterKind};
pub use reduction::ReduceKind;
pub use types::{ElementType, Type};
