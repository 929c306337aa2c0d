//! Like `std::cell::UnsafeCell`, with a check for races.

use super::first::First;
use crate::model::Model;
use convoy_sync::{Access, Platform};
use std::cell;

/// Data that is not atomic. Every access must happen after the earlier ones that conflict with it,
/// and its drop after all of them: share it by an [`Arc`](super::sync::Arc) of this module.
#[derive(Debug, Default)]
#[repr(C)]
pub struct UnsafeCell<T> {
    value: cell::UnsafeCell<T>,
    first: First,
}

impl<T> UnsafeCell<T> {
    /// Returns a cell with this value.
    pub fn new(value: T) -> Self {
        Self { value: cell::UnsafeCell::new(value), first: First::new() }
    }

    #[track_caller]
    fn touch(&self, access: Access) {
        self.first.needed(&self.value);
        Model::touch(&self.value, access);
    }

    /// Reads through the pointer to the value.
    #[track_caller]
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        self.touch(Access::Read);
        read(self.value.get())
    }

    /// Writes through the pointer to the value.
    #[track_caller]
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        self.touch(Access::Write);
        write(self.value.get())
    }

    /// Returns the pointer to the value. This counts as a write.
    #[track_caller]
    pub fn get(&self) -> *mut T {
        self.touch(Access::Write);
        self.value.get()
    }

    /// Returns the value, which the caller has alone.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T> Drop for UnsafeCell<T> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.first.needed(&self.value);
        }
        Model::end(&raw const self.value);
        Model::forget(&raw const self.value);
    }
}
