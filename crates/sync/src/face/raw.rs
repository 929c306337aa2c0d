//! The traits of `lock_api` for the locks of user space: `lock_api::Mutex<NativeQuota, T>` and
//! `lock_api::RwLock<NativeQuotaRwLock, T>`, and whatever else is generic over these traits.
//!
//! A fair unlock ends the turn of the thread: it queues if it returns while other threads wait.

use super::nanoseconds;
use crate::lock::WaitError;
use crate::native::Native;
use crate::platform::{Platform, Sleep};
use crate::quota::{NativeQuota, NativeQuotaRwLock, Turn};
use crate::semaphore::RawSemaphore;
use core::time::Duration;
use std::time::Instant;

/// Ends the turn of the calling thread: it queues next time.
fn end_turn() {
    Native::set_turn(Turn::over(Native::now()));
}

/// Converts a timeout for a timed wait. Returns whether the wait succeeded.
fn within(timeout: Duration, wait: impl FnOnce(u64) -> Result<(), WaitError>) -> bool {
    wait(Native::now().saturating_add(nanoseconds(timeout))).is_ok()
}

fn until(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

// SAFETY: with one unit, one owner at a time has the lock.
unsafe impl lock_api::RawMutex for NativeQuota {
    const INIT: Self = Self::native(1);
    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock(&self) {
        self.down();
    }
    #[inline]
    fn try_lock(&self) -> bool {
        self.down_trylock()
    }
    #[inline]
    unsafe fn unlock(&self) {
        self.up();
    }
    fn is_locked(&self) -> bool {
        self.free_units() == 0
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawMutexFair for NativeQuota {
    unsafe fn unlock_fair(&self) {
        end_turn();
        self.up();
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawMutexTimed for NativeQuota {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, timeout: Duration) -> bool {
        self.down_timeout(nanoseconds(timeout)).is_ok()
    }
    fn try_lock_until(&self, deadline: Instant) -> bool {
        self.try_lock_for(until(deadline))
    }
}

// SAFETY: a writer has the lock alone, by I1 to I3 of `QuotaRwLock`.
unsafe impl lock_api::RawRwLock for NativeQuotaRwLock {
    const INIT: Self = Self::native();
    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock_shared(&self) {
        self.read();
    }
    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.try_read()
    }
    #[inline]
    unsafe fn unlock_shared(&self) {
        self.read_unlock();
    }
    #[inline]
    fn lock_exclusive(&self) {
        self.write();
    }
    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        self.try_write()
    }
    #[inline]
    unsafe fn unlock_exclusive(&self) {
        self.write_unlock();
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockFair for NativeQuotaRwLock {
    unsafe fn unlock_shared_fair(&self) {
        end_turn();
        self.read_unlock();
    }
    unsafe fn unlock_exclusive_fair(&self) {
        end_turn();
        self.write_unlock();
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockTimed for NativeQuotaRwLock {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_shared_for(&self, timeout: Duration) -> bool {
        within(timeout, |deadline| self.read_unless(Sleep::Uninterruptible, Some(deadline)))
    }
    fn try_lock_shared_until(&self, deadline: Instant) -> bool {
        self.try_lock_shared_for(until(deadline))
    }
    fn try_lock_exclusive_for(&self, timeout: Duration) -> bool {
        within(timeout, |deadline| self.write_unless(Sleep::Uninterruptible, Some(deadline)))
    }
    fn try_lock_exclusive_until(&self, deadline: Instant) -> bool {
        self.try_lock_exclusive_for(until(deadline))
    }
}

// SAFETY: the change admits no task before the writer is a reader.
unsafe impl lock_api::RawRwLockDowngrade for NativeQuotaRwLock {
    unsafe fn downgrade(&self) {
        Self::downgrade(self);
    }
}

// SAFETY: an upgradable reader owns the door, so no writer and no other upgradable reader exist.
unsafe impl lock_api::RawRwLockUpgrade for NativeQuotaRwLock {
    fn lock_upgradable(&self) {
        self.upgradable();
    }
    fn try_lock_upgradable(&self) -> bool {
        self.try_upgradable()
    }
    unsafe fn unlock_upgradable(&self) {
        self.upgradable_unlock();
    }
    unsafe fn upgrade(&self) {
        Self::upgrade(self);
    }
    unsafe fn try_upgrade(&self) -> bool {
        Self::try_upgrade(self)
    }
}

// SAFETY: as the two above.
unsafe impl lock_api::RawRwLockUpgradeDowngrade for NativeQuotaRwLock {
    unsafe fn downgrade_upgradable(&self) {
        self.upgradable_to_read();
    }
    unsafe fn downgrade_to_upgradable(&self) {
        Self::downgrade_to_upgradable(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lock_api::{RwLockUpgradableReadGuard, RwLockWriteGuard};

    const SHORT: Duration = Duration::from_millis(1);

    #[test]
    fn a_mutex_of_lock_api() {
        static LOCK: lock_api::Mutex<NativeQuota, u32> = lock_api::Mutex::new(1);
        let guard = LOCK.lock();
        assert!(LOCK.is_locked() && LOCK.try_lock().is_none());
        let late = std::thread::spawn(|| LOCK.try_lock_for(SHORT).is_none());
        assert!(late.join().unwrap());
        lock_api::MutexGuard::unlock_fair(guard);
        assert_eq!(LOCK.try_lock_until(Instant::now()).as_deref(), Some(&1));
    }

    #[test]
    fn a_reader_writer_lock_of_lock_api() {
        let lock: lock_api::RwLock<NativeQuotaRwLock, u32> = lock_api::RwLock::new(0);
        let right = lock.upgradable_read();
        let reader = lock.read();
        assert!(lock.try_upgradable_read().is_none() && lock.try_write_for(SHORT).is_none());
        let Err(right) = RwLockUpgradableReadGuard::try_upgrade(right) else {
            panic!("there is a reader");
        };
        drop(reader);
        let mut writer = RwLockUpgradableReadGuard::upgrade(right);
        *writer = 1;
        assert!(lock.try_read().is_none() && lock.try_read_for(SHORT).is_none());
        let right = RwLockWriteGuard::downgrade_to_upgradable(writer);
        assert_eq!((*right, lock.try_read().as_deref()), (1, Some(&1)));
        let Ok(writer) = RwLockUpgradableReadGuard::try_upgrade(right) else {
            panic!("it is alone");
        };
        let reader = RwLockWriteGuard::downgrade(writer);
        assert_eq!((*reader, lock.try_read().as_deref()), (1, Some(&1)));
        assert!(lock.try_write().is_none());
        let right = lock.try_upgradable_read().expect("beside readers");
        drop(reader);
        drop(RwLockUpgradableReadGuard::downgrade(right));
        RwLockWriteGuard::unlock_fair(lock.try_write().expect("nobody is left"));
        assert!(!lock.is_locked());
    }
}
