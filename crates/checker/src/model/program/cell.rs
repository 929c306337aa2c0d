//! Like `std::cell::UnsafeCell`, with a check for races.

use crate::model::Model;
use convoy_sync::{Access, Platform};
use std::cell;

/// Data that is not atomic. Every access must happen after the earlier ones that conflict with it.
#[derive(Debug, Default)]
pub struct UnsafeCell<T>(cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    /// Returns a cell with this value.
    pub const fn new(value: T) -> Self {
        Self(cell::UnsafeCell::new(value))
    }

    /// Reads through the pointer to the value.
    #[track_caller]
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        Model::touch(&self.0, Access::Read);
        read(self.0.get())
    }

    /// Writes through the pointer to the value.
    #[track_caller]
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        Model::touch(&self.0, Access::Write);
        write(self.0.get())
    }

    /// Returns the pointer to the value. This counts as a write.
    #[track_caller]
    pub fn get(&self) -> *mut T {
        Model::touch(&self.0, Access::Write);
        self.0.get()
    }

    /// Returns the value, which the caller has alone.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T> Drop for UnsafeCell<T> {
    fn drop(&mut self) {
        Model::forget(&raw const self.0);
    }
}
