//! A mutex that is poisoned by a panic of its owner, as in the standard library.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

/// [`crate::Mutex`] with the interface of [`std::sync::Mutex`]: one `use` line is the change.
///
/// ```
/// use convoy_sync::poison::Mutex; // was: use std::sync::Mutex;
///
/// let total = Mutex::new(1);
/// *total.lock().unwrap() += 1;
/// assert_eq!(total.into_inner().unwrap(), 2);
/// ```
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    poisoned: AtomicBool,
    inner: crate::Mutex<T>,
}

/// Guard of a [`Mutex`]. Releases it when dropped, poisoned if its thread has started to panic
/// since.
#[must_use = "the mutex is held as long as the guard lives"]
pub struct MutexGuard<'a, T: ?Sized> {
    inner: crate::MutexGuard<'a, T>,
    poisoned: &'a AtomicBool,
    /// The thread was already panicking when it acquired the lock.
    panicking: bool,
}

impl<T> Mutex<T> {
    /// Returns an unlocked lock that contains `value`.
    pub const fn new(value: T) -> Self {
        Self { poisoned: AtomicBool::new(false), inner: crate::Mutex::new(value) }
    }

    /// Consumes the lock and returns the data.
    ///
    /// # Errors
    ///
    /// If the mutex is poisoned; the error has the data.
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.is_poisoned();
        checked(poisoned, self.inner.into_inner())
    }
}

fn checked<G>(poisoned: bool, guard: G) -> LockResult<G> {
    if poisoned { Err(PoisonError::new(guard)) } else { Ok(guard) }
}

impl<T: ?Sized> Mutex<T> {
    fn guard<'a>(&'a self, inner: crate::MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let panicking = std::thread::panicking();
        checked(self.is_poisoned(), MutexGuard { inner, poisoned: &self.poisoned, panicking })
    }

    /// Acquires the lock, blocking until it is available.
    ///
    /// # Errors
    ///
    /// If the mutex is poisoned; the error has the guard.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.guard(self.inner.lock())
    }

    /// Acquires the lock if it is free.
    ///
    /// # Errors
    ///
    /// If it is not, or the mutex is poisoned; the error has the guard then.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let inner = self.inner.try_lock().ok_or(TryLockError::WouldBlock)?;
        Ok(self.guard(inner)?)
    }

    /// Returns whether a thread panicked with the lock held; a snapshot.
    pub fn is_poisoned(&self) -> bool {
        // Relaxed: the lock orders it.
        self.poisoned.load(Relaxed)
    }

    /// Clears the poison: from now on the mutex is not poisoned.
    pub fn clear_poison(&self) {
        // Relaxed, as above.
        self.poisoned.store(false, Relaxed);
    }

    /// Returns the data; the exclusive reference guarantees that the lock is free.
    ///
    /// # Errors
    ///
    /// If the mutex is poisoned; the error has the data.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let poisoned = self.is_poisoned();
        checked(poisoned, self.inner.get_mut())
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if !self.panicking && std::thread::panicking() {
            // Relaxed: the lock, which is released next, orders it.
            self.poisoned.store(true, Relaxed);
        }
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Mutex");
        fields.field("inner", &&self.inner).field("poisoned", &self.is_poisoned()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_with_the_lock_held_is_remembered() {
        let mutex = Mutex::new(1);
        assert!(matches!((mutex.lock(), mutex.try_lock()), (Ok(_), Err(TryLockError::WouldBlock))));
        let panicked = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let mut value = mutex.lock().unwrap();
                *value = 2;
                panic!("with the lock held");
            });
            thread.join().is_err()
        });
        assert!(panicked && mutex.is_poisoned());
        assert_eq!(**mutex.lock().unwrap_err().get_ref(), 2);
        assert!(matches!(mutex.try_lock(), Err(TryLockError::Poisoned(_))));
        mutex.clear_poison();
        assert_eq!(mutex.try_lock().map(|value| *value).unwrap(), 2);
        assert_eq!(mutex.into_inner().unwrap(), 2);
    }
}
