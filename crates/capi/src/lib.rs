//! C interface of the user-space locks. `include/convoy_sync.h` documents the functions.

use convoy_sync::{
    Barrier, Native, NativeQuota, NativeQuotaCondvar, NativeQuotaRwLock, Once, Platform,
    RawSemaphore as _, Sleep,
};
use core::ffi::c_void;
use core::mem::MaybeUninit;

/// Returns the time that is `ns` nanoseconds from now.
fn after(ns: u64) -> u64 {
    Native::now().saturating_add(ns)
}

/// Exports functions for C, each with a sentence for Rust's documentation.
macro_rules! exports {
    ($($(#[$doc:meta])+
        fn $name:ident($($argument:ident: $type:ty),*) $(-> $returns:ty)? $body:block)+) => {
        $($(#[$doc])+
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) $(-> $returns)? $body)+
    };
}

exports! {
    /// Initialises a free mutex at this place.
    fn convoy_mutex_init(mutex: &mut MaybeUninit<NativeQuota>) {
        mutex.write(NativeQuota::native(1));
    }
    /// Frees the queue of the mutex, if it has one.
    fn convoy_mutex_destroy(mutex: &mut NativeQuota) {
        *mutex = NativeQuota::native(1);
    }
    /// Acquires the mutex.
    fn convoy_mutex_lock(mutex: &NativeQuota) {
        mutex.down();
    }
    /// Acquires the mutex if it is free. Returns whether it was.
    fn convoy_mutex_trylock(mutex: &NativeQuota) -> bool {
        mutex.down_trylock()
    }
    /// Acquires the mutex within `ns` nanoseconds. Returns whether it did.
    fn convoy_mutex_timedlock(mutex: &NativeQuota, ns: u64) -> bool {
        mutex.down_timeout(ns).is_ok()
    }
    /// Releases the mutex.
    fn convoy_mutex_unlock(mutex: &NativeQuota) {
        mutex.up();
    }

    /// Initialises a semaphore with `units` free units.
    fn convoy_sem_init(sem: &mut MaybeUninit<NativeQuota>, units: u32) {
        sem.write(NativeQuota::native(units));
    }
    /// Frees the queue of the semaphore, if it has one.
    fn convoy_sem_destroy(sem: &mut NativeQuota) {
        *sem = NativeQuota::native(0);
    }
    /// Acquires a unit.
    fn convoy_sem_wait(sem: &NativeQuota) {
        sem.down();
    }
    /// Acquires a unit if one is free. Returns whether one was.
    fn convoy_sem_trywait(sem: &NativeQuota) -> bool {
        sem.down_trylock()
    }
    /// Acquires a unit within `ns` nanoseconds. Returns whether it did.
    fn convoy_sem_timedwait(sem: &NativeQuota, ns: u64) -> bool {
        sem.down_timeout(ns).is_ok()
    }
    /// Releases a unit.
    fn convoy_sem_post(sem: &NativeQuota) {
        sem.up();
    }
    /// Returns a snapshot of the number of free units.
    fn convoy_sem_value(sem: &NativeQuota) -> u32 {
        sem.free_units()
    }

    /// Initialises a free reader/writer lock at this place.
    fn convoy_rwlock_init(lock: &mut MaybeUninit<NativeQuotaRwLock>) {
        lock.write(NativeQuotaRwLock::native());
    }
    /// Frees the queue of the lock, if it has one.
    fn convoy_rwlock_destroy(lock: &mut NativeQuotaRwLock) {
        *lock = NativeQuotaRwLock::native();
    }
    /// Acquires the lock for reading, together with other readers.
    fn convoy_rwlock_rdlock(lock: &NativeQuotaRwLock) {
        lock.read();
    }
    /// Acquires the lock for reading if no writer owns it. Returns whether it did.
    fn convoy_rwlock_tryrdlock(lock: &NativeQuotaRwLock) -> bool {
        lock.try_read()
    }
    /// Acquires the lock for reading within `ns` nanoseconds. Returns whether it did.
    fn convoy_rwlock_timedrdlock(lock: &NativeQuotaRwLock, ns: u64) -> bool {
        lock.read_unless(Sleep::Uninterruptible, Some(after(ns))).is_ok()
    }
    /// Releases the lock after reading.
    fn convoy_rwlock_rdunlock(lock: &NativeQuotaRwLock) {
        lock.read_unlock();
    }
    /// Acquires the lock for writing.
    fn convoy_rwlock_wrlock(lock: &NativeQuotaRwLock) {
        lock.write();
    }
    /// Acquires the lock for writing if it is free. Returns whether it did.
    fn convoy_rwlock_trywrlock(lock: &NativeQuotaRwLock) -> bool {
        lock.try_write()
    }
    /// Acquires the lock for writing within `ns` nanoseconds. Returns whether it did.
    fn convoy_rwlock_timedwrlock(lock: &NativeQuotaRwLock, ns: u64) -> bool {
        lock.write_unless(Sleep::Uninterruptible, Some(after(ns))).is_ok()
    }
    /// Releases the lock after writing.
    fn convoy_rwlock_wrunlock(lock: &NativeQuotaRwLock) {
        lock.write_unlock();
    }

    /// Initialises a condition variable at this place.
    fn convoy_cond_init(cond: &mut MaybeUninit<NativeQuotaCondvar>) {
        cond.write(NativeQuotaCondvar::native());
    }
    /// Releases the mutex, waits until notified, and reacquires it.
    fn convoy_cond_wait(cond: &NativeQuotaCondvar, mutex: &NativeQuota) {
        let notified = cond.wait(mutex, None);
        debug_assert!(notified.is_ok(), "there is no deadline");
    }
    /// Releases the mutex, waits until notified, but for at most `ns` nanoseconds, and reacquires
    /// it. Returns whether it was notified.
    fn convoy_cond_timedwait(cond: &NativeQuotaCondvar, mutex: &NativeQuota, ns: u64) -> bool {
        cond.wait(mutex, Some(after(ns))).is_ok()
    }
    /// Notifies the thread that has waited longest. Returns whether a thread was waiting.
    fn convoy_cond_signal(cond: &NativeQuotaCondvar) -> bool {
        cond.notify_one()
    }
    /// Notifies all waiting threads and returns their number.
    fn convoy_cond_broadcast(cond: &NativeQuotaCondvar) -> usize {
        cond.notify_all()
    }

    /// Runs `body` with `argument` unless that was done before. Returns when it is done.
    fn convoy_once(once: &Once, body: extern "C" fn(*mut c_void), argument: *mut c_void) {
        once.call_once(|| body(argument));
    }

    /// Waits until all threads have arrived. Returns true for the last one.
    fn convoy_barrier_wait(barrier: &Barrier) -> bool {
        barrier.wait()
    }
}
