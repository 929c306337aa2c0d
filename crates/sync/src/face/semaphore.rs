//! [`Semaphore`]: a number of permits.

use super::nanoseconds;
use crate::quota::NativeQuota;
use crate::semaphore::RawSemaphore;
use core::fmt;
use core::time::Duration;

/// A number of permits, each of which one thread at a time may have. The lock is
/// [`Quota`](crate::Quota).
///
/// ```
/// let connections = convoy_sync::Semaphore::new(8);
/// let permit = connections.acquire();
/// assert_eq!(connections.available(), 7);
/// drop(permit);
/// ```
pub struct Semaphore {
    raw: NativeQuota,
}

/// A permit of a [`Semaphore`]. Releases it when dropped.
#[must_use = "the permit is held as long as this lives"]
#[derive(Debug)]
pub struct Permit<'a>(&'a Semaphore);

impl Semaphore {
    /// Returns a semaphore with `permits` free permits, fewer than 2^29.
    pub const fn new(permits: u32) -> Self {
        Self { raw: NativeQuota::native(permits) }
    }

    /// Acquires a permit, blocking until it is available.
    #[inline]
    pub fn acquire(&self) -> Permit<'_> {
        // `down` expects one free permit, as a mutex has.
        if !self.raw.down_at_once() {
            self.raw.down();
        }
        Permit(self)
    }

    /// Acquires a permit if one is free, otherwise returns `None`.
    #[inline]
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        self.raw.down_trylock().then(|| Permit(self))
    }

    /// Acquires a permit. Returns `None` if that takes longer than `timeout`.
    pub fn acquire_timeout(&self, timeout: Duration) -> Option<Permit<'_>> {
        self.raw.down_timeout(nanoseconds(timeout)).is_ok().then(|| Permit(self))
    }

    /// Adds permits to those there are, also such as [`Permit::keep`] has kept.
    pub fn add(&self, permits: u32) {
        (0..permits).for_each(|_| self.raw.up());
    }

    /// Returns the number of free permits; a snapshot.
    pub fn available(&self) -> u32 {
        self.raw.free_units()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("available", &self.available()).finish()
    }
}

impl Permit<'_> {
    /// Keeps the permit for good: only [`Semaphore::add`] makes up for it.
    pub fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.raw.up();
    }
}
