//! Parts of a program in which nothing may be compiled.

use crate::failure::Failure;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use torchtpu_tensor::{Error, ErrorKind, Result};

/// The number of such parts that have begun and not ended.
static PARTS: AtomicUsize = AtomicUsize::new(0);
/// The message of the first refusal since a part began.
static REFUSED: Mutex<Option<String>> = Mutex::new(None);

/// Begin a part.
pub(crate) fn begin() {
    PARTS.fetch_add(1, SeqCst);
}

/// End a part.
///
/// # Errors
/// `Runtime`, for the first compilation that was refused.
pub(crate) fn end() -> Result<()> {
    PARTS.fetch_sub(1, SeqCst);
    REFUSED.lock().take().map_or(Ok(()), |message| Err(Error::runtime(message)))
}

/// Whether this is inside of a part.
pub(crate) fn is_on() -> bool {
    PARTS.load(SeqCst) > 0
}

/// Refuse a compilation inside of a part. `why` describes the program.
///
/// # Errors
/// `Runtime`, with the text of `why`.
pub(crate) fn check(why: impl FnOnce() -> String) -> std::result::Result<(), Failure> {
    if !is_on() {
        return Ok(());
    }
    let message = format!("a program would be compiled where compilations are forbidden: {}", why());
    REFUSED.lock().get_or_insert_with(|| message.clone());
    Err(Failure::new(ErrorKind::Runtime, message))
}
