//! Python objects that the autograd graph owns.

use pyo3::prelude::*;

/// Python objects that Rust code owns. They are released with the GIL held, when the owner is dropped. PyO3 alone would
/// defer the release to the next time that Python runs.
pub(super) struct Kept<T>(Option<T>);

impl<T> Kept<T> {
    pub(super) fn new(value: T) -> Kept<T> {
        Kept(Some(value))
    }
    pub(super) fn get(&self) -> &T {
        self.0.as_ref().expect("taken only when dropped")
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        Python::try_attach(|_| drop(value));
    }
}
