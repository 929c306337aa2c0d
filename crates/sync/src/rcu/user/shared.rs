//! [`Shared`]: a value that is read in sections and replaced as a whole.

use super::{QuiescentSection, Section, free};
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Section {}
    impl Sealed for super::QuiescentSection<'_> {}
}

/// A section of either kind of reader.
pub trait Inside: sealed::Sealed {}
impl Inside for Section {}
impl Inside for QuiescentSection<'_> {}

/// A value that sections read, and that is replaced as a whole; the old one is freed after a grace
/// period.
#[derive(Debug)]
pub struct Shared<T> {
    value: AtomicPtr<T>,
    owned: PhantomData<T>,
}

// SAFETY: the value goes to the threads that read it, and to that which frees it.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T: Send + Sync + 'static> Shared<T> {
    /// Returns a pointer to this initial value.
    pub fn new(value: T) -> Self {
        Self { value: AtomicPtr::new(Box::into_raw(Box::new(value))), owned: PhantomData }
    }

    /// Returns the value, valid while both this and the section live.
    #[inline(always)]
    pub fn get<'a>(&'a self, _inside: &'a impl Inside) -> &'a T {
        // Acquire pairs with the exchange in `set`.
        let value = self.value.load(Acquire);
        // SAFETY: it is a value of `new` or `set`, which is freed after a grace period that begins
        // once it is unlinked, and by I1 not before the section ends; or with `self`.
        unsafe { &*value }
    }

    /// Replaces the current value with `value`. May wait as [`super::call`] does.
    pub fn set(&self, value: T) {
        // AcqRel: a reader of the new value sees it whole, and the old value is acquired from its
        // writer.
        let old = self.value.swap(Box::into_raw(Box::new(value)), AcqRel);
        // SAFETY: it was allocated as a box, and no other task has unlinked it.
        free(unsafe { Box::from_raw(old) });
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // Relaxed: no other thread has it any more.
        let value = NonNull::new(self.value.load(Relaxed));
        // SAFETY: no reference to the value outlives `self`, and it was allocated as a box.
        drop(value.map(|value| unsafe { Box::from_raw(value.as_ptr()) }));
    }
}
