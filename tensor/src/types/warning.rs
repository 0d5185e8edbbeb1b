//! Warnings to the user.

use crate::Result;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The function that receives warnings. If it returns an error, the call that warned raises it.
pub type Sink = fn(&str) -> Result<()>;

static SINK: OnceLock<Sink> = OnceLock::new();

/// Install the function that receives warnings. The first one stays. Without one, no warning is shown.
pub fn install(sink: Sink) {
    let _ = SINK.set(sink);
}

/// Warn, unless `said` is set. Then set it.
///
/// # Errors
/// The error that the warning function returns.
pub fn once(said: &AtomicBool, text: &str) -> Result<()> {
    match SINK.get() {
        Some(sink) if !said.swap(true, Relaxed) => sink(text),
        _ => Ok(()),
    }
}

/// Warn once in a process, at each place that uses the macro.
#[macro_export]
macro_rules! warn_once {
    ($text:expr $(,)?) => {{
        static WARNED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
        $crate::warning::once(&WARNED, $text)
    }};
}

/// Warn each time.
///
/// # Errors
/// The error that the warning function returns.
pub fn warn(text: &str) -> Result<()> {
    SINK.get().map_or(Ok(()), |sink| sink(text))
}
