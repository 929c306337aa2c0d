//! [`RwLock`]: data that many threads may read, or one may change.

use super::{guard, holder, nanoseconds};
use crate::native::Native;
use crate::platform::{Platform, Sleep};
use crate::quota::NativeQuotaRwLock;
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::forget;
use core::time::Duration;

/// Data that many threads may read, or one may change; neither kind starves the other. The lock is
/// [`QuotaRwLock`](crate::QuotaRwLock), with the interface of `parking_lot`.
///
/// ```
/// let lock = convoy_sync::RwLock::new(vec![1, 2]);
/// assert_eq!(lock.read().len(), lock.read().len());
/// lock.write().push(3);
/// assert_eq!(*lock.read(), [1, 2, 3]);
/// ```
pub struct RwLock<T: ?Sized> {
    raw: NativeQuotaRwLock,
    value: UnsafeCell<T>,
}

/// Read guard of a [`RwLock`]. Releases it when dropped.
#[must_use = "the lock is held as long as the guard lives"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    // A guard stays with the thread that took the lock.
    thread: PhantomData<*const ()>,
}

/// Write guard of a [`RwLock`]. Releases it when dropped.
#[must_use = "the lock is held as long as the guard lives"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    thread: PhantomData<*const ()>,
}

holder!(RwLock, NativeQuotaRwLock::native(), try_read);
guard!(RwLockReadGuard,);
guard!(RwLockWriteGuard, deref_mut);

// SAFETY: the lock lets many threads use the data immutably, or one mutably.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T: ?Sized> RwLock<T> {
    /// Returns the guard of a lock that was just acquired for reading.
    #[inline]
    fn reader(&self) -> RwLockReadGuard<'_, T> {
        RwLockReadGuard { lock: self, thread: PhantomData }
    }

    /// Returns the guard of a lock that was just acquired exclusively.
    #[inline]
    fn writer(&self) -> RwLockWriteGuard<'_, T> {
        RwLockWriteGuard { lock: self, thread: PhantomData }
    }

    /// Acquires the lock for reading; blocks until it is available.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.raw.read();
        self.reader()
    }

    /// Acquires the lock for reading if no writer owns it or waits for it.
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.raw.try_read().then(|| self.reader())
    }

    /// Acquires the lock for reading. Returns `None` if that takes longer than `timeout`.
    pub fn try_read_for(&self, timeout: Duration) -> Option<RwLockReadGuard<'_, T>> {
        let deadline = Some(Native::now().saturating_add(nanoseconds(timeout)));
        let taken = self.raw.read_unless(Sleep::Uninterruptible, deadline);
        taken.is_ok().then(|| self.reader())
    }

    /// Acquires the lock exclusively, blocking until it is available.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.raw.write();
        self.writer()
    }

    /// Acquires the lock for writing if it is free, otherwise returns `None`.
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.raw.try_write().then(|| self.writer())
    }

    /// Acquires the lock exclusively. Returns `None` if that takes longer than `timeout`.
    pub fn try_write_for(&self, timeout: Duration) -> Option<RwLockWriteGuard<'_, T>> {
        let deadline = Some(Native::now().saturating_add(nanoseconds(timeout)));
        let taken = self.raw.write_unless(Sleep::Uninterruptible, deadline);
        taken.is_ok().then(|| self.writer())
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Admits other readers; no writer can change the data in between.
    pub fn downgrade(guard: Self) -> RwLockReadGuard<'a, T> {
        let lock = guard.lock;
        forget(guard);
        lock.raw.downgrade();
        lock.reader()
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.read_unlock();
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.write_unlock();
    }
}
