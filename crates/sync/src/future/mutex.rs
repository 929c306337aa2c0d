//! [`Mutex`]: data that one task at a time may use, also across an `await`.

use super::Semaphore;
use crate::face::{guard, holder};
use core::cell::UnsafeCell;

/// Data that one task at a time may use, also across an `await`. The lock is a [`Semaphore`] with
/// one permit. Where nothing is awaited with the lock held, [`crate::Mutex`] is faster.
///
/// ```
/// use convoy_sync::future::Mutex;
///
/// async fn add(total: &Mutex<u64>) {
///     *total.lock().await += 1;
/// }
/// ```
pub struct Mutex<T: ?Sized> {
    raw: Semaphore,
    value: UnsafeCell<T>,
}

/// Guard of a [`Mutex`]. Releases it when dropped, on any thread.
#[must_use = "the mutex is held as long as the guard lives"]
pub struct MutexGuard<'a, T: ?Sized> {
    lock: &'a Mutex<T>,
}

holder!(Mutex, Semaphore::new(1), try_lock);
guard!(MutexGuard, deref_mut);

// SAFETY: the lock lets one task at a time use the data.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}
// SAFETY: the guard is an exclusive reference to the data.
unsafe impl<T: ?Sized + Send> Send for MutexGuard<'_, T> {}

impl<T: ?Sized> Mutex<T> {
    /// Acquires the lock as soon as possible.
    pub async fn lock(&self) -> MutexGuard<'_, T> {
        self.raw.acquire().await.keep();
        MutexGuard { lock: self }
    }

    /// Acquires the lock if it is free, otherwise returns `None`.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.raw.try_acquire()?.keep();
        Some(MutexGuard { lock: self })
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.add(1);
    }
}
