//! The process that a value belongs to.

/// The process that made a value. A fork of it gets a copy of the value, which must not end what the original serves.
pub(crate) struct Owner(u32);

impl Owner {
    pub(crate) fn new() -> Owner {
        Owner(std::process::id())
    }

    /// Whether this process is the owner.
    pub(crate) fn is_here(&self) -> bool {
        self.0 == std::process::id()
    }
}
