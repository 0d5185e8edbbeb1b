//! The reason that a value cannot be computed.

use crate::check::Wrong;
use crate::form::Form;
use crate::xla_cpu::collectives;
use std::sync::Arc;
use torchtpu_pjrt::Code;
use torchtpu_tensor::{Error, ErrorKind};

/// The reason why a value cannot be computed. All values that depend on it share it.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
    /// The op of the error, or an empty text.
    op: &'static str,
    pub(crate) notes: Vec<String>,
    /// Set for the failure of a [check](crate::check::Check).
    pub(crate) wrong: Option<Arc<Wrong>>,
}

impl Failure {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into(), op: "", notes: Vec::new(), wrong: None }
    }
    /// Make the failure of an error.
    pub(crate) fn of(e: &Error) -> Failure {
        let notes = e.notes().iter().map(ToString::to_string).collect();
        Failure { kind: e.kind(), message: e.message().to_string(), op: e.op(), notes, wrong: None }
    }
    /// Make the failure of `what` from an error of the plugin.
    pub(crate) fn device(what: &str, e: &torchtpu_pjrt::Error) -> Failure {
        if let Some(failure) = collectives::find_failure(e.message()) {
            return failure;
        }
        // For temporaries, XLA:CPU reports missing memory only in its text, and our kernels do the same.
        let says = |words: &str| e.message().to_ascii_lowercase().contains(words);
        let kind = match e.code() {
            Code::ResourceExhausted => ErrorKind::OutOfMemory,
            _ if says("out of memory") || says("allocate memory") || says("failed to allocate") => {
                ErrorKind::OutOfMemory
            }
            _ => ErrorKind::Runtime,
        };
        Failure::new(kind, format!("{what}: {}", e.message()))
    }
    pub(crate) fn note(mut self, note: impl Into<String>) -> Failure {
        self.notes.push(note.into());
        self
    }
    /// Add the largest values to a memory error, and the remedies.
    pub(crate) fn about_memory(self, form: &Form) -> Failure {
        if self.kind != ErrorKind::OutOfMemory {
            return self;
        }
        self.note(format!("the largest values of the program: {}", form.largest())).note(
            "a smaller batch, torch.utils.checkpoint, 16-bit floats, or torch.no_grad() where no gradient is needed \
            take less memory",
        )
    }
    /// Add the custom kernels of a program that does not compile: one of them may be the cause.
    pub(crate) fn about_kernels(self, form: &Form) -> Failure {
        let mut named = Vec::new();
        form.custom_kernels().fold(self, |failure, kernel| {
            if named.contains(&kernel.name()) {
                return failure;
            }
            named.push(kernel.name());
            let place = kernel.place().map(|p| format!(", defined at {p}")).unwrap_or_default();
            failure.note(format!("the program calls the custom kernel {}{place}", kernel.name()))
        })
    }
    pub(crate) fn error(&self) -> Error {
        let error = Error::new(self.kind, self.message.clone()).in_op(self.op);
        self.notes.iter().fold(error, |e, n| e.note(n.clone()))
    }
}
