//! [`Mutex`]: data that one thread at a time may use.

use super::{guard, holder, nanoseconds};
use crate::quota::NativeQuota;
use crate::semaphore::RawSemaphore;
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::time::Duration;

/// A mutex that is fast and does not starve threads: running threads may steal it for the length of
/// a turn. The lock is [`Quota`](crate::Quota), with the interface of `parking_lot`.
///
/// ```
/// use convoy_sync::Mutex;
///
/// static TOTAL: Mutex<u64> = Mutex::new(0);
/// std::thread::scope(|scope| {
///     for part in 1..=4 {
///         scope.spawn(move || *TOTAL.lock() += part);
///     }
/// });
/// assert_eq!(*TOTAL.lock(), 10);
/// ```
pub struct Mutex<T: ?Sized> {
    pub(super) raw: NativeQuota,
    pub(super) value: UnsafeCell<T>,
}

/// Guard of a [`Mutex`]. Releases it when dropped.
#[must_use = "the mutex is held as long as the guard lives"]
pub struct MutexGuard<'a, T: ?Sized> {
    pub(super) lock: &'a Mutex<T>,
    // A guard stays with the thread that took the lock.
    thread: PhantomData<*const ()>,
}

holder!(Mutex, NativeQuota::native(1), try_lock);
guard!(MutexGuard, deref_mut);

// SAFETY: the lock lets one thread at a time use the data.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// Returns an unlocked mutex with a bound instead of 5 ms, rounded down to a power of two times
    /// 32.768 us. Once a thread has waited as long, others acquire the lock past it for a turn
    /// only; after a quarter of it the lock may be handed over. A shorter bound shortens the
    /// longest waits and costs throughput next to threads that compute.
    ///
    /// ```
    /// use convoy_sync::Mutex;
    /// use core::time::Duration;
    ///
    /// static LATEST: Mutex<u64> = Mutex::with_bound(0, Duration::from_millis(5));
    /// assert_eq!(*LATEST.lock(), 0);
    /// ```
    pub const fn with_bound(value: T, bound: Duration) -> Self {
        let ns = bound.as_nanos();
        let ns = if ns < u64::MAX as u128 { ns as u64 } else { u64::MAX };
        Self { raw: NativeQuota::native_with_bound_ns(1, ns), value: UnsafeCell::new(value) }
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Returns the guard of a lock that was just acquired.
    #[inline]
    fn guard(&self) -> MutexGuard<'_, T> {
        MutexGuard { lock: self, thread: PhantomData }
    }

    /// Acquires the lock, blocking until it is available.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.raw.down();
        self.guard()
    }

    /// Acquires the lock if it is free, otherwise returns `None`.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.raw.down_trylock().then(|| self.guard())
    }

    /// Acquires the lock. Returns `None` if that takes longer than `timeout`.
    pub fn try_lock_for(&self, timeout: Duration) -> Option<MutexGuard<'_, T>> {
        self.raw.down_timeout(nanoseconds(timeout)).is_ok().then(|| self.guard())
    }

    /// Returns whether the lock is held. A snapshot.
    pub fn is_locked(&self) -> bool {
        self.raw.free_units() == 0
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.up();
    }
}
