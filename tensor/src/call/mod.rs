//! The path from a call to its execution: autocast, recording, and the backend of the device.

pub mod autocast;
pub mod backend;
pub mod comm;
pub mod dispatch;
pub mod fake;
pub mod foreign;
pub mod policy;
pub(crate) mod stored;
