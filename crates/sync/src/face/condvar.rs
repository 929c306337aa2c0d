//! [`Condvar`]: waiting for what another owner of a mutex will do.

use super::mutex::MutexGuard;
use super::nanoseconds;
use crate::native::Native;
use crate::platform::Platform;
use crate::quota::NativeQuotaCondvar;
use core::fmt;
use core::time::Duration;

/// Waiting, with a [`Mutex`](crate::Mutex) held, for what another owner of it will do. A thread
/// that is notified while the mutex is held is moved to its queue and woken when it may acquire it.
/// It is implemented by [`QuotaCondvar`](crate::QuotaCondvar), with the interface of `parking_lot`.
///
/// ```
/// use convoy_sync::{Condvar, Mutex};
///
/// let (ready, changed) = (Mutex::new(false), Condvar::new());
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         *ready.lock() = true;
///         changed.notify_one();
///     });
///     changed.wait_while(&mut ready.lock(), |ready| !*ready);
/// });
/// ```
pub struct Condvar {
    raw: NativeQuotaCondvar,
}

impl Condvar {
    /// Creates a condition variable.
    pub const fn new() -> Self {
        Self { raw: NativeQuotaCondvar::native() }
    }

    /// Releases the mutex, waits until notified, and reacquires it; never returns without a
    /// notification.
    ///
    /// # Panics
    ///
    /// If others wait here with another mutex.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        let notified = self.raw.wait(&guard.lock.raw, None);
        debug_assert!(notified.is_ok(), "there is no deadline");
    }

    /// Waits, as [`Self::wait`] does, while `condition` holds.
    ///
    /// # Panics
    ///
    /// As [`Self::wait`].
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// Waits, as [`Self::wait`] does, for at most `timeout`. Returns whether it was notified.
    ///
    /// # Panics
    ///
    /// As [`Self::wait`].
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> bool {
        let deadline = Native::now().saturating_add(nanoseconds(timeout));
        self.raw.wait(&guard.lock.raw, Some(deadline)).is_ok()
    }

    /// Waits, as [`Self::wait_while`] does, for at most `timeout`. Returns whether `condition`
    /// ended.
    ///
    /// # Panics
    ///
    /// As [`Self::wait`].
    pub fn wait_while_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        timeout: Duration,
    ) -> bool {
        let deadline = Native::now().saturating_add(nanoseconds(timeout));
        while condition(guard) {
            if self.raw.wait(&guard.lock.raw, Some(deadline)).is_err() {
                return !condition(guard);
            }
        }
        true
    }

    /// Notifies the thread that has waited longest. Returns whether there was one.
    pub fn notify_one(&self) -> bool {
        self.raw.notify_one()
    }

    /// Notifies all waiting threads. Returns their number.
    pub fn notify_all(&self) -> usize {
        self.raw.notify_all()
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}
