//! Words in simulated memory.

use core::cell::Cell;

/// A word in simulated memory.
#[derive(Default)]
#[repr(transparent)]
pub struct Word<T>(pub(crate) Cell<T>);

impl<T> Word<T> {
    /// Where its value is.
    pub(crate) fn cell(&self) -> &Cell<T> {
        &self.0
    }
}
