//! What went wrong, who said so, and in which call.

use std::fmt;

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an [`Error`]: the status codes of XLA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The operation was cancelled.
    Cancelled,
    /// The plugin gave no code, or one that is not in this list.
    Unknown,
    /// The caller's arguments are wrong.
    InvalidArgument,
    /// Time ran out.
    DeadlineExceeded,
    /// A plugin, file or object is not there.
    NotFound,
    /// The object exists.
    AlreadyExists,
    /// The caller may not do this.
    PermissionDenied,
    /// Out of memory, most often.
    ResourceExhausted,
    /// The object is not in a state that allows this: a deleted buffer, a foreign executable.
    FailedPrecondition,
    /// Aborted.
    Aborted,
    /// Out of range.
    OutOfRange,
    /// The plugin does not implement this.
    Unimplemented,
    /// The plugin's own invariant is broken; its compiler uses it for programs that it cannot translate.
    Internal,
    /// The device or service cannot be reached.
    Unavailable,
    /// Bytes are damaged.
    DataLoss,
    /// Unauthenticated.
    Unauthenticated,
}

impl Code {
    pub(crate) fn from_raw(code: i32) -> Code {
        match code {
            1 => Code::Cancelled,
            3 => Code::InvalidArgument,
            4 => Code::DeadlineExceeded,
            5 => Code::NotFound,
            6 => Code::AlreadyExists,
            7 => Code::PermissionDenied,
            8 => Code::ResourceExhausted,
            9 => Code::FailedPrecondition,
            10 => Code::Aborted,
            11 => Code::OutOfRange,
            12 => Code::Unimplemented,
            13 => Code::Internal,
            14 => Code::Unavailable,
            15 => Code::DataLoss,
            16 => Code::Unauthenticated,
            _ => Code::Unknown,
        }
    }
}

/// An error of the plugin, or of a check that stands before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Parts>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    code: Code,
    message: String,
    context: String,
}

impl Error {
    /// An error of `code` that arose in `context`: the C entry that reported it, or this crate's own operation.
    pub fn new(code: Code, context: impl Into<String>, message: impl Into<String>) -> Error {
        Error(Box::new(Parts { code, message: message.into(), context: context.into() }))
    }

    pub(crate) fn invalid(context: &str, message: impl Into<String>) -> Error {
        Error::new(Code::InvalidArgument, context, message)
    }

    /// Its kind.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The message, as the plugin gave it.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The C entry (`PJRT_Client_Compile`) or operation (`execute`) in which it arose.
    pub fn context(&self) -> &str {
        &self.0.context
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.context, self.0.message)
    }
}

impl std::error::Error for Error {}
