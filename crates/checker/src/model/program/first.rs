//! First values: a thread that gets to know of an object must also see how it was created.

use crate::model::Model;
use convoy_sync::Platform;
use std::cell::Cell;
use std::ptr;

/// The number of an object that was dropped.
const DROPPED: usize = usize::MAX;

/// The first value of a word or of data. Each thread needs it once. The number is not among the
/// first 16 bytes of an object, which an allocator may overwrite as soon as it is freed.
#[derive(Debug)]
#[repr(C)]
pub(super) struct First {
    /// One bit for each thread that has seen it.
    seen: Cell<u64>,
    number: usize,
}

impl First {
    pub(super) fn new() -> Self {
        Self { seen: Cell::new(1 << Model::current()), number: Model::begin() }
    }

    /// The calling thread accesses the object at `place`.
    #[track_caller]
    pub(super) fn needed<T>(&self, place: &T) {
        if self.number == DROPPED {
            Model::used_after_drop(place);
        }
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
        // SAFETY: it is a valid place. Volatile, since only a program with a defect reads it again.
        unsafe { ptr::write_volatile(&raw mut self.number, DROPPED) };
    }
}
