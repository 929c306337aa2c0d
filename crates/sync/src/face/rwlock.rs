//! [`RwLock`]: data that many threads may read, or one may change.

use super::{guard, holder};
use crate::adaptive::AdaptiveLock;
use crate::native::Native;
use crate::quota::QuotaRwLock;
use core::cell::UnsafeCell;
use core::marker::PhantomData;

/// Data that many threads may read, or one may change; neither kind starves the other. The lock is
/// [`QuotaRwLock`], the interface that of `parking_lot`.
///
/// ```
/// let lock = convoy_sync::RwLock::new(vec![1, 2]);
/// assert_eq!(lock.read().len(), lock.read().len());
/// lock.write().push(3);
/// assert_eq!(*lock.read(), [1, 2, 3]);
/// ```
pub struct RwLock<T: ?Sized> {
    raw: QuotaRwLock<Native, AdaptiveLock<Native>>,
    value: UnsafeCell<T>,
}

/// Has a [`RwLock`] beside other readers; gives it back when dropped.
#[must_use = "the lock is held as long as the guard lives"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    // A guard stays with the thread that took the lock.
    thread: PhantomData<*const ()>,
}

/// Has a [`RwLock`] alone; gives it back when dropped.
#[must_use = "the lock is held as long as the guard lives"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    thread: PhantomData<*const ()>,
}

holder!(RwLock, QuotaRwLock::native(), try_read);
guard!(RwLockReadGuard,);
guard!(RwLockWriteGuard, deref_mut);

// SAFETY: the lock lets many threads use the data immutably, or one mutably.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T: ?Sized> RwLock<T> {
    /// Takes the lock beside other readers; sleeps until it can.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.raw.read();
        RwLockReadGuard { lock: self, thread: PhantomData }
    }

    /// Takes the lock beside other readers if no writer has it or waits for it.
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.raw.try_read().then(|| RwLockReadGuard { lock: self, thread: PhantomData })
    }

    /// Takes the lock alone; sleeps until it can.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.raw.write();
        RwLockWriteGuard { lock: self, thread: PhantomData }
    }

    /// Takes the lock alone if nobody has it.
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.raw.try_write().then(|| RwLockWriteGuard { lock: self, thread: PhantomData })
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
