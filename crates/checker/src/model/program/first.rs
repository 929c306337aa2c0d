//! First values: a thread that gets to know of an object must also see how it was created.

use crate::model::Model;
use convoy_sync::Platform;
use std::cell::Cell;
use std::ptr;

/// The first value of a word or of data. Each thread needs it once.
#[derive(Debug)]
pub(super) struct First {
    number: usize,
    /// One bit for each thread that has seen it.
    seen: Cell<u64>,
}

impl First {
    pub(super) fn new() -> Self {
        Self { number: Model::begin(), seen: Cell::new(1 << Model::current()) }
    }

    /// The calling thread accesses the object at `place`.
    #[track_caller]
    pub(super) fn needed<T>(&self, place: &T) {
        let thread = 1 << Model::current();
        if self.number != 0 && self.seen.replace(self.seen.get() | thread) & thread == 0 {
            Model::needs_first(place, self.number);
        }
    }
}

impl Default for First {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for First {
    fn drop(&mut self) {
        if self.number != 0 {
            Model::forget(ptr::without_provenance::<u8>(self.number));
        }
    }
}
