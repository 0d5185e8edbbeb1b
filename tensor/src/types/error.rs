//! The error type of the library.

use std::fmt;

/// The kind of an error, by the Python exception that it becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// `RuntimeError`: shapes, devices, states.
    Runtime,
    /// `TypeError`: an argument of the wrong type.
    Type,
    /// `ValueError`: an argument of the right type with a wrong value.
    Value,
    /// `IndexError`: a dimension or an index out of range.
    Index,
    /// `NotImplementedError`: known to PyTorch, not supported here. Only this kind may be caught to fall back.
    NotImplemented,
    /// `BufferError`: memory that cannot be exchanged with another library.
    Buffer,
    /// `torch.OutOfMemoryError`.
    OutOfMemory,
    /// `KeyError`.
    Key,
    /// `AttributeError`.
    Attribute,
    /// `KeyboardInterrupt`: Ctrl-C while waiting.
    Interrupted,
    /// `torch.linalg.LinAlgError`, a `RuntimeError`: a matrix that is singular or not positive definite, or iterations
    /// that did not converge.
    LinAlg,
    /// `torch.distributed.DistError`, a `RuntimeError`: several processes failed to work together.
    Dist,
    /// `torch.distributed.DistBackendError`: a collective failed.
    DistBackend,
    /// `torch.distributed.DistNetworkError`: a connection to another process failed.
    DistNetwork,
    /// `torch.distributed.DistStoreError`: a key-value store failed, or a wait for a key took too long.
    DistStore,
    /// `torch.distributed.QueueEmptyError`, a `DistStoreError`: a queue of a store is empty.
    DistQueueEmpty,
    /// `AssertionError`.
    Assertion,
    /// `DataDependentOutputException` of fake tensors: an op needs elements. The message is the op.
    DataDependent,
    /// `DynamicOutputShapeException` of fake tensors: elements decide the size of a result. The message is the op.
    DynamicShape,
    /// `FakeTensorDeviceMismatchError`: fake tensors on two devices.
    FakeDevices,
    /// An exception that user code raised inside a callback. The binding keeps the object and restores it.
    Callback,
}

struct Inner {
    kind: ErrorKind,
    op: &'static str,
    message: String,
    notes: Vec<String>,
    payload: Option<Box<dyn std::any::Any + Send + Sync>>,
}

/// An error with its kind, message and notes. It is one word, so that `Result<Tensor>` stays small.
pub struct Error(Box<Inner>);

/// `std::result::Result` with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of a given kind.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner { kind, op: "", message: message.into(), notes: Vec::new(), payload: None }))
    }
    /// The error for a kernel's error.
    pub(crate) fn of_kernel(e: torchtpu_kernels::KernelError) -> Error {
        use torchtpu_kernels::KernelError as K;
        match e {
            K::IndexOutOfRange(m) => Error::index(m),
            K::ZeroDivision => Error::runtime("ZeroDivisionError"),
            K::OutOfMemory { bytes } => Error::new(
                ErrorKind::OutOfMemory,
                format!("DefaultCPUAllocator: can't allocate memory: you tried to allocate {bytes} bytes"),
            ),
            K::NotImplemented(m) => Error::not_implemented(m),
            K::Other(m) => Error::runtime(m),
        }
    }
    /// A [`ErrorKind::Runtime`] error.
    #[cold]
    pub fn runtime(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Runtime, message)
    }
    /// A [`ErrorKind::Type`] error.
    #[cold]
    pub fn type_error(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Type, message)
    }
    /// A [`ErrorKind::Value`] error.
    #[cold]
    pub fn value(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Value, message)
    }
    /// An [`ErrorKind::Index`] error.
    #[cold]
    pub fn index(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Index, message)
    }
    /// A [`ErrorKind::NotImplemented`] error.
    #[cold]
    pub fn not_implemented(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::NotImplemented, message)
    }
    /// A [`ErrorKind::LinAlg`] error.
    #[cold]
    pub fn linalg(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::LinAlg, message)
    }
    /// Set the name of the op that failed. The first name stays.
    #[cold]
    pub fn in_op(mut self, op: &'static str) -> Error {
        if self.0.op.is_empty() {
            self.0.op = op;
        }
        self
    }
    /// Add a note, such as a remedy or a place, which is printed on a line of its own.
    #[cold]
    pub fn note(mut self, note: impl Into<String>) -> Error {
        self.0.notes.push(note.into());
        self
    }
    /// Carry an object of the caller, such as a Python exception, through library code.
    #[cold]
    pub fn with_payload(mut self, payload: Box<dyn std::any::Any + Send + Sync>) -> Error {
        self.0.payload = Some(payload);
        self
    }
    /// Take the object that [`Error::with_payload`] stored.
    pub fn take_payload(&mut self) -> Option<Box<dyn std::any::Any + Send + Sync>> {
        self.0.payload.take()
    }
    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
    /// The name of the op that failed, or an empty string.
    pub fn op(&self) -> &'static str {
        self.0.op
    }
    /// The message without notes.
    pub fn message(&self) -> &str {
        &self.0.message
    }
    /// The notes.
    pub fn notes(&self) -> &[String] {
        &self.0.notes
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        self.0.notes.iter().try_for_each(|n| write!(f, "\nnote: {n}"))
    }
}
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} error", self.0.kind)?;
        if !self.0.op.is_empty() {
            write!(f, " in {}", self.0.op)?;
        }
        write!(f, ": {self}")
    }
}
impl std::error::Error for Error {}
