//! Warnings to the user.

use crate::Result;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Where warnings go. An error that it gives is raised by the call that warned.
pub type Sink = fn(&str) -> Result<()>;

static SINK: OnceLock<Sink> = OnceLock::new();

/// Installs where warnings go; the first one stays. Without one, nothing is shown.
pub fn install(sink: Sink) {
    let _ = SINK.set(sink);
}

/// Warns, unless `said` remembers that it has been done.
///
/// # Errors
/// What the sink makes of it.
pub fn once(said: &AtomicBool, text: &str) -> Result<()> {
    match SINK.get() {
        Some(sink) if !said.swap(true, Relaxed) => sink(text),
        _ => Ok(()),
    }
}

/// Warns once in a process, for each place that says so.
#[macro_export]
macro_rules! warn_once {
    ($text:expr $(,)?) => {{
        static SAID: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
        $crate::warning::once(&SAID, $text)
    }};
}

/// Warns, each time.
///
/// # Errors
/// What the sink makes of it.
pub fn warn(text: &str) -> Result<()> {
    SINK.get().map_or(Ok(()), |sink| sink(text))
}
