//! Like `std::sync`. A `Mutex` is a futex lock whose waiters are woken one by one, and a `Condvar`
//! counts its notifications: both are as permissive as the standard library allows, except that no
//! sleep ends without a reason.

use super::cell::UnsafeCell;
use crate::model::{Model, Word};
use convoy_sync::{Atomic, Platform, Sleep};
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering::{Relaxed, Release};
pub use std::sync::{Arc, LockResult};

/// Like `std::sync::atomic`.
pub mod atomic {
    use crate::model::{Model, Word};
    use convoy_sync::{Atomic, Platform};
    pub use core::sync::atomic::Ordering;
    use std::marker::PhantomData;

    /// Synchronises as `std::sync::atomic::fence` does.
    pub fn fence(order: Ordering) {
        Model::fence(order);
    }

    /// Operations of all types; `$raw` is the type of the word, which `$into` and `$from` convert.
    macro_rules! operations {
        ($value:ty, $into:expr, $from:expr) => {
            /// Reads the value.
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                $from(self.word.load(order))
            }

            /// Writes the value.
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                self.word.store($into(value), order);
            }

            /// Writes the value and returns the previous one.
            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                $from(self.word.swap($into(value), order))
            }

            /// Replaces `current` by `new`.
            ///
            /// # Errors
            ///
            /// Returns the value if it is another one.
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let (current, new) = ($into(current), $into(new));
                let result = self.word.compare_exchange(current, new, success, failure);
                result.map($from).map_err($from)
            }

            /// The same: it never fails without a reason here.
            ///
            /// # Errors
            ///
            /// Returns the value if it is another one.
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            /// Returns the value, which the caller has alone.
            pub fn into_inner(self) -> $value {
                $from(self.word.peek())
            }
        };
    }

    macro_rules! integers {
        ($($name:ident($int:ty);)+) => {$(
            /// An integer, like that of the standard library.
            #[derive(Default)]
            pub struct $name { word: Word<$int> }

            impl $name {
                /// Returns an atomic with this value.
                #[must_use]
                pub fn new(value: $int) -> Self {
                    Self { word: Word::new(value) }
                }

                operations!($int, |value: $int| value, |value: $int| value);

                /// Adds (wrapping) and returns the previous value.
                #[track_caller]
                pub fn fetch_add(&self, value: $int, order: Ordering) -> $int {
                    self.word.fetch_add(value, order)
                }

                /// Subtracts (wrapping) and returns the previous value.
                #[track_caller]
                pub fn fetch_sub(&self, value: $int, order: Ordering) -> $int {
                    self.word.fetch_sub(value, order)
                }

                /// Bitwise or. Returns the previous value.
                #[track_caller]
                pub fn fetch_or(&self, value: $int, order: Ordering) -> $int {
                    self.word.fetch_or(value, order)
                }

                /// Bitwise and. Returns the previous value.
                #[track_caller]
                pub fn fetch_and(&self, value: $int, order: Ordering) -> $int {
                    self.word.fetch_and(value, order)
                }

                /// Bitwise exclusive or. Returns the previous value.
                #[track_caller]
                pub fn fetch_xor(&self, value: $int, order: Ordering) -> $int {
                    self.word.modify(order, |held| held ^ value)
                }

                /// The greater of both. Returns the previous value.
                #[track_caller]
                pub fn fetch_max(&self, value: $int, order: Ordering) -> $int {
                    self.word.modify(order, |held| held.max(value))
                }

                /// The smaller of both. Returns the previous value.
                #[track_caller]
                pub fn fetch_min(&self, value: $int, order: Ordering) -> $int {
                    self.word.modify(order, |held| held.min(value))
                }
            }

            impl Drop for $name {
                fn drop(&mut self) {
                    Model::forget(&raw const self.word);
                }
            }
        )+};
    }
    integers! {
        AtomicU8(u8);
        AtomicU32(u32);
        AtomicU64(u64);
        AtomicUsize(usize);
    }

    /// A truth value, like that of the standard library.
    #[derive(Default)]
    pub struct AtomicBool {
        word: Word<u8>,
    }

    impl AtomicBool {
        /// Returns an atomic with this value.
        #[must_use]
        pub fn new(value: bool) -> Self {
            Self { word: Word::new(value.into()) }
        }

        operations!(bool, u8::from, |value: u8| value != 0);

        /// Bitwise or. Returns the previous value.
        #[track_caller]
        pub fn fetch_or(&self, value: bool, order: Ordering) -> bool {
            self.word.fetch_or(value.into(), order) != 0
        }

        /// Bitwise and. Returns the previous value.
        #[track_caller]
        pub fn fetch_and(&self, value: bool, order: Ordering) -> bool {
            self.word.fetch_and(value.into(), order) != 0
        }
    }

    impl Drop for AtomicBool {
        fn drop(&mut self) {
            Model::forget(&raw const self.word);
        }
    }

    /// A pointer, like that of the standard library.
    pub struct AtomicPtr<T> {
        word: Word<usize>,
        pointer: PhantomData<*mut T>,
    }

    impl<T> AtomicPtr<T> {
        /// Returns an atomic with this value.
        #[must_use]
        pub fn new(value: *mut T) -> Self {
            Self { word: Word::new(value.expose_provenance()), pointer: PhantomData }
        }

        operations!(
            *mut T,
            |value: *mut T| value.expose_provenance(),
            core::ptr::with_exposed_provenance_mut
        );
    }

    impl<T> Drop for AtomicPtr<T> {
        fn drop(&mut self) {
            Model::forget(&raw const self.word);
        }
    }
}

/// Like `std::sync::Mutex`; it is never poisoned. Its operations are one step each.
#[derive(Default)]
pub struct Mutex<T> {
    word: Word<u32>,
    data: UnsafeCell<T>,
}

/// Ends the ownership of a [`Mutex`] when it is dropped.
pub struct MutexGuard<'a, T>(&'a Mutex<T>);

impl<T> Mutex<T> {
    /// Returns a mutex without an owner.
    pub fn new(data: T) -> Self {
        Self { word: Word::new(0), data: UnsafeCell::new(data) }
    }

    /// Acquires it.
    ///
    /// # Errors
    ///
    /// Never: a thread that panics ends the execution.
    #[expect(clippy::unnecessary_wraps, reason = "the signature of std")]
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        Model::take(&self.word);
        Ok(MutexGuard(self))
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard's thread owns the mutex.
        self.0.data.with(|data| unsafe { &*data })
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        self.0.data.with_mut(|data| unsafe { &mut *data })
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.0.word.store(0, Release);
    }
}

/// Like `std::sync::Condvar`.
#[derive(Default)]
pub struct Condvar {
    notified: Word<u32>,
}

impl Condvar {
    /// Returns a condition variable without waiters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Releases the mutex, sleeps until it is notified, and acquires the mutex.
    ///
    /// # Errors
    ///
    /// Never, as [`Mutex::lock`].
    #[track_caller]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let mutex = guard.0;
        let seen = self.notified.peek();
        drop(guard);
        Model::wait(&self.notified, seen, Sleep::Uninterruptible, None);
        mutex.lock()
    }

    /// Wakes a waiter.
    #[track_caller]
    pub fn notify_one(&self) {
        self.notified.fetch_add(1, Relaxed);
        Model::wake(&raw const self.notified, 1);
    }

    /// Wakes all waiters.
    #[track_caller]
    pub fn notify_all(&self) {
        self.notified.fetch_add(1, Relaxed);
        Model::wake(&raw const self.notified, usize::MAX);
    }
}
