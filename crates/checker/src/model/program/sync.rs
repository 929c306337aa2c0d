//! Like `std::sync`. A `Mutex` is a futex lock whose waiters are woken one by one, and a `Condvar`
//! counts its notifications: both are as permissive as the standard library allows, except that no
//! sleep ends without a reason.

pub use super::arc::{Arc, Weak};
use super::cell::UnsafeCell;
use crate::model::{Model, Word};
use convoy_sync::{Atomic, Platform, Sleep};
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering::{Relaxed, Release};
pub use std::sync::LockResult;

/// Like `std::sync::atomic`.
pub mod atomic {
    use crate::model::program::first::First;
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
        ($value:ty, $raw:ty, $into:expr, $from:expr) => {
            /// Returns the word, whose first value the calling thread needs.
            #[track_caller]
            pub(in crate::model::program) fn reached(&self) -> &Word<$raw> {
                self.first.needed(&self.word);
                &self.word
            }

            /// Changes the value to the one that `change` returns, if it returns one.
            ///
            /// # Errors
            ///
            /// Returns the value if `change` returned none.
            #[track_caller]
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut held = self.load(failure);
                while let Some(next) = change(held) {
                    match self.compare_exchange(held, next, success, failure) {
                        Ok(held) => return Ok(held),
                        Err(now) => held = now,
                    }
                }
                Err(held)
            }

            /// Reads the value.
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                $from(self.reached().load(order))
            }

            /// Writes the value.
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                self.reached().store($into(value), order);
            }

            /// Writes the value and returns the previous one.
            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                $from(self.reached().swap($into(value), order))
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
                let result = self.reached().compare_exchange(current, new, success, failure);
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
                $from(self.word.newest())
            }
        };
    }

    macro_rules! integers {
        ($($name:ident($int:ty, $raw:ty);)+) => {$(
            /// An integer, like that of the standard library.
            #[derive(Default)]
            #[repr(C)]
            pub struct $name { word: Word<$raw>, first: First }

            impl $name {
                /// Returns an atomic with this value.
                #[must_use]
                pub fn new(value: $int) -> Self {
                    Self { word: Word::new(value as $raw), first: First::new() }
                }

                operations!($int, $raw, |value: $int| value as $raw, |value: $raw| value as $int);

                /// Adds (wrapping) and returns the previous value.
                #[track_caller]
                pub fn fetch_add(&self, value: $int, order: Ordering) -> $int {
                    self.reached().fetch_add(value as $raw, order) as $int
                }

                /// Subtracts (wrapping) and returns the previous value.
                #[track_caller]
                pub fn fetch_sub(&self, value: $int, order: Ordering) -> $int {
                    self.reached().fetch_sub(value as $raw, order) as $int
                }

                /// Bitwise or. Returns the previous value.
                #[track_caller]
                pub fn fetch_or(&self, value: $int, order: Ordering) -> $int {
                    self.reached().fetch_or(value as $raw, order) as $int
                }

                /// Bitwise and. Returns the previous value.
                #[track_caller]
                pub fn fetch_and(&self, value: $int, order: Ordering) -> $int {
                    self.reached().fetch_and(value as $raw, order) as $int
                }

                /// Bitwise exclusive or. Returns the previous value.
                #[track_caller]
                pub fn fetch_xor(&self, value: $int, order: Ordering) -> $int {
                    self.reached().modify(order, |held| held ^ value as $raw) as $int
                }

                /// The greater of both. Returns the previous value.
                #[track_caller]
                pub fn fetch_max(&self, value: $int, order: Ordering) -> $int {
                    self.reached().modify(order, |held| (held as $int).max(value) as $raw) as $int
                }

                /// The smaller of both. Returns the previous value.
                #[track_caller]
                pub fn fetch_min(&self, value: $int, order: Ordering) -> $int {
                    self.reached().modify(order, |held| (held as $int).min(value) as $raw) as $int
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
        AtomicU8(u8, u8);
        AtomicU32(u32, u32);
        AtomicU64(u64, u64);
        AtomicUsize(usize, usize);
        AtomicI8(i8, u8);
        AtomicI32(i32, u32);
        AtomicI64(i64, u64);
        AtomicIsize(isize, usize);
    }

    impl AtomicU32 {
        /// Returns the address of the word of the atomic at this address.
        pub(in crate::model::program) fn word_at(atomic: *const Self) -> *const Word<u32> {
            atomic.wrapping_byte_add(core::mem::offset_of!(Self, word)).cast()
        }
    }

    /// A truth value, like that of the standard library.
    #[derive(Default)]
    #[repr(C)]
    pub struct AtomicBool {
        word: Word<u8>,
        first: First,
    }

    impl AtomicBool {
        /// Returns an atomic with this value.
        #[must_use]
        pub fn new(value: bool) -> Self {
            Self { word: Word::new(value.into()), first: First::new() }
        }

        operations!(bool, u8, u8::from, |value: u8| value != 0);

        /// Bitwise or. Returns the previous value.
        #[track_caller]
        pub fn fetch_or(&self, value: bool, order: Ordering) -> bool {
            self.reached().fetch_or(value.into(), order) != 0
        }

        /// Bitwise and. Returns the previous value.
        #[track_caller]
        pub fn fetch_and(&self, value: bool, order: Ordering) -> bool {
            self.reached().fetch_and(value.into(), order) != 0
        }
    }

    impl Drop for AtomicBool {
        fn drop(&mut self) {
            Model::forget(&raw const self.word);
        }
    }

    /// A pointer, like that of the standard library.
    #[repr(C)]
    pub struct AtomicPtr<T> {
        word: Word<usize>,
        first: First,
        pointer: PhantomData<*mut T>,
    }

    impl<T> AtomicPtr<T> {
        /// Returns an atomic with this value.
        #[must_use]
        pub fn new(value: *mut T) -> Self {
            let word = Word::new(value.expose_provenance());
            Self { word, first: First::new(), pointer: PhantomData }
        }

        operations!(
            *mut T,
            usize,
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
        // A thread that panics ends the execution, and cannot be suspended.
        if !std::thread::panicking() {
            self.0.word.store(0, Release);
        }
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
        let seen = self.notified.newest();
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
