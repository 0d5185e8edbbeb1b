//! Errors: their kind, their message, and the call in which they occurred.

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
    /// The time limit was exceeded.
    DeadlineExceeded,
    /// A plugin, file or object does not exist.
    NotFound,
    /// The object already exists.
    AlreadyExists,
    /// The caller lacks the permission.
    PermissionDenied,
    /// A resource is exhausted, most often memory.
    ResourceExhausted,
    /// The state of the object does not allow this: a deleted buffer, a foreign executable.
    FailedPrecondition,
    /// The operation was aborted.
    Aborted,
    /// A value is out of range.
    OutOfRange,
    /// The plugin does not implement this.
    Unimplemented,
    /// An invariant of the plugin is broken. Its compiler also uses this code for programs that it cannot translate.
    Internal,
    /// The device or service cannot be reached.
    Unavailable,
    /// Stored bytes are damaged.
    DataLoss,
    /// The caller is not authenticated.
    Unauthenticated,
}

impl Code {
    pub(crate) fn to_raw(self) -> i32 {
        match self {
            Code::Cancelled => 1,
            Code::Unknown => 2,
            Code::InvalidArgument => 3,
            Code::DeadlineExceeded => 4,
            Code::NotFound => 5,
            Code::AlreadyExists => 6,
            Code::PermissionDenied => 7,
            Code::ResourceExhausted => 8,
            Code::FailedPrecondition => 9,
            Code::Aborted => 10,
            Code::OutOfRange => 11,
            Code::Unimplemented => 12,
            Code::Internal => 13,
            Code::Unavailable => 14,
            Code::DataLoss => 15,
            Code::Unauthenticated => 16,
        }
    }

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

/// An error of the plugin, or of a check before the plugin is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Parts>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    code: Code,
    message: String,
    context: String,
}

impl Error {
    /// Make an error of `code` that occurred in `context`: the C entry that reported it, or an operation of this crate.
    pub fn new(code: Code, context: impl Into<String>, message: impl Into<String>) -> Error {
        Error(Box::new(Parts { code, message: message.into(), context: context.into() }))
    }

    pub(crate) fn invalid(context: &str, message: impl Into<String>) -> Error {
        Error::new(Code::InvalidArgument, context, message)
    }

    /// Return the error's kind.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// Return the message, as the plugin gave it.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Return the C entry (`PJRT_Client_Compile`) or operation (`execute`) in which the error occurred.
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
