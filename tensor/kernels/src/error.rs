//! What a kernel can find wrong with the values it is given.

use std::fmt;

/// An error that only the values, not the shapes, could show.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KernelError {
    /// An index tensor holds a position that does not exist; the text is PyTorch's.
    IndexOutOfRange(String),
    /// An integer was divided by zero.
    ZeroDivision,
    /// Memory could not be allocated.
    OutOfMemory {
        /// Bytes that were asked for.
        bytes: usize,
    },
    /// Anything else, in words.
    Other(String),
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KernelError::IndexOutOfRange(text) | KernelError::Other(text) => f.write_str(text),
            KernelError::ZeroDivision => f.write_str("ZeroDivisionError"),
            KernelError::OutOfMemory { bytes } => write!(f, "cannot allocate {bytes} bytes of memory"),
        }
    }
}

impl std::error::Error for KernelError {}
