//! Descriptions of tensors: sizes, dtype and device, and the state of the process that calls depend on.

pub mod compute;
pub mod device;
pub mod dims;
pub mod error;
pub mod local;
pub mod meta;
pub mod place;
pub mod scalar;
pub mod state;
pub mod warning;
