//! Like `std::sync::Arc`, with the order that its count gives: all that happened before a reference
//! ended is visible to the drop of the value.

use crate::model::{Model, Word};
use convoy_sync::Atomic;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;
use std::sync;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// The word by which the ends of references are ordered. Its value does not change: the standard
/// library counts.
struct Ends(Word<u32>);

impl Drop for Ends {
    fn drop(&mut self) {
        Model::forget(&raw const self.0);
    }
}

/// A reference to a shared value, like `std::sync::Arc`.
pub struct Arc<T: ?Sized> {
    /// `None` once it has ended.
    value: Option<sync::Arc<T>>,
    ends: Rc<Ends>,
}

/// A reference that does not keep the value, like `std::sync::Weak`.
pub struct Weak<T: ?Sized> {
    value: sync::Weak<T>,
    ends: Rc<Ends>,
}

impl<T> Arc<T> {
    /// Returns the first reference to a value.
    pub fn new(value: T) -> Self {
        Self::from_std(sync::Arc::new(value))
    }

    /// Returns the value if this is the only reference.
    ///
    /// # Errors
    ///
    /// Returns the reference if there is another one.
    pub fn try_unwrap(mut this: Self) -> Result<T, Self> {
        let value = this.value.take().expect("it has not ended");
        match sync::Arc::try_unwrap(value) {
            Ok(value) => {
                Model::leave(&this.ends.0, Acquire);
                Ok(value)
            }
            Err(value) => {
                this.value = Some(value);
                Err(this)
            }
        }
    }

    /// Returns the value if this is the last reference, and ends it otherwise.
    pub fn into_inner(this: Self) -> Option<T> {
        Self::try_unwrap(this).ok()
    }
}

impl<T: ?Sized> Arc<T> {
    /// Returns the first reference to a value in an `Arc` of the standard library, for values of
    /// unsized types. There must be no other reference.
    ///
    /// # Panics
    ///
    /// If there is another one: the checker would not see it.
    pub fn from_std(value: sync::Arc<T>) -> Self {
        assert_eq!(sync::Arc::strong_count(&value), 1, "another reference is not checked");
        Self { value: Some(value), ends: Rc::new(Ends(Word::new(0))) }
    }

    fn value(&self) -> &sync::Arc<T> {
        self.value.as_ref().expect("it has not ended")
    }

    /// Returns whether both refer to one value.
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        sync::Arc::ptr_eq(this.value(), other.value())
    }

    /// Returns the address of the value.
    pub fn as_ptr(this: &Self) -> *const T {
        sync::Arc::as_ptr(this.value())
    }

    /// Returns the number of references.
    pub fn strong_count(this: &Self) -> usize {
        sync::Arc::strong_count(this.value())
    }

    /// Returns the value if this is the only reference.
    pub fn get_mut(this: &mut Self) -> Option<&mut T> {
        let value = sync::Arc::get_mut(this.value.as_mut().expect("it has not ended"))?;
        Model::leave(&this.ends.0, Acquire);
        Some(value)
    }

    /// Returns a reference that does not keep the value.
    pub fn downgrade(this: &Self) -> Weak<T> {
        Weak { value: sync::Arc::downgrade(this.value()), ends: Rc::clone(&this.ends) }
    }
}

impl<T: ?Sized> Weak<T> {
    /// Returns a reference that keeps the value, if there is one.
    pub fn upgrade(&self) -> Option<Arc<T>> {
        let value = self.value.upgrade()?;
        Some(Arc { value: Some(value), ends: Rc::clone(&self.ends) })
    }
}

impl<T: ?Sized> Drop for Arc<T> {
    fn drop(&mut self) {
        if let Some(value) = &self.value {
            let is_last = sync::Arc::strong_count(value) == 1;
            Model::leave(&self.ends.0, if is_last { AcqRel } else { Release });
        }
    }
}

impl<T: ?Sized> Clone for Arc<T> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), ends: Rc::clone(&self.ends) }
    }
}

impl<T: ?Sized> Clone for Weak<T> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), ends: Rc::clone(&self.ends) }
    }
}

impl<T: ?Sized> Deref for Arc<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value()
    }
}

impl<T: ?Sized> AsRef<T> for Arc<T> {
    fn as_ref(&self) -> &T {
        self
    }
}

impl<T: Default> Default for Arc<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for Arc<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: fmt::Debug + ?Sized> fmt::Debug for Arc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
