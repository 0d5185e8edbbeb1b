//! Errors of kernels.

use std::fmt;

/// An error that depends on the values of an input, not on its shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KernelError {
    /// An index tensor holds a position that does not exist. The text is PyTorch's.
    IndexOutOfRange(String),
    /// An integer was divided by zero.
    ZeroDivision,
    /// Memory could not be allocated.
    OutOfMemory {
        /// Number of bytes requested.
        bytes: usize,
    },
    /// The dtype has no such kernel. The text is PyTorch's.
    NotImplemented(String),
    /// Any other error, as text.
    Other(String),
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KernelError::IndexOutOfRange(text) | KernelError::NotImplemented(text) | KernelError::Other(text) => {
                f.write_str(text)
            }
            KernelError::ZeroDivision => f.write_str("ZeroDivisionError"),
            KernelError::OutOfMemory { bytes } => write!(f, "cannot allocate {bytes} bytes of memory"),
        }
    }
}

impl std::error::Error for KernelError {}
