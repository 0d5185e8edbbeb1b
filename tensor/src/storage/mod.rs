//! The memory of tensors: blocks, views of them, writes in place, and exchange with other libraries.

#[allow(unsafe_code)] // the file that owns a tensor's memory
pub mod block;
mod chain;
#[allow(unsafe_code)] // structs of other libraries
pub mod dlpack;
pub mod host;
pub mod inplace;
pub(crate) mod overlap;
pub mod strides;
pub mod view;
