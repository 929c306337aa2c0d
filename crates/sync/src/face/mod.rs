//! The locks that people take home: data behind a lock of this machine's threads, with guards.
//!
//! The file card of the inner lock describes its behaviour: [`Quota`](crate::Quota),
//! [`QuotaRwLock`](crate::QuotaRwLock), [`QuotaCondvar`](crate::QuotaCondvar). A panic with a guard
//! releases the lock and leaves the data unchanged: locks are not poisoned.

mod condvar;
mod mutex;
pub mod poison;
#[cfg(feature = "lock_api")]
mod raw;
mod rwlock;
mod semaphore;

pub use condvar::Condvar;
pub use mutex::{Mutex, MutexGuard};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{Permit, Semaphore};

use core::time::Duration;

/// Returns a duration in the platform's unit, limited to 584 years.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Implements access to the protected data for guards.
macro_rules! guard {
    ($guard:ident, $($mutable:ident)?) => {
        impl<T: ?Sized> core::ops::Deref for $guard<'_, T> {
            type Target = T;
            #[inline]
            fn deref(&self) -> &T {
                // SAFETY: the guard holds the lock, so no mutable reference exists elsewhere.
                unsafe { &*self.lock.value.get() }
            }
        }

        $(impl<T: ?Sized> core::ops::DerefMut for $guard<'_, T> {
            #[inline]
            fn $mutable(&mut self) -> &mut T {
                // SAFETY: the guard holds the lock exclusively, so no other reference exists.
                unsafe { &mut *self.lock.value.get() }
            }
        })?

        impl<T: ?Sized + core::fmt::Debug> core::fmt::Debug for $guard<'_, T> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<T: ?Sized + core::fmt::Display> core::fmt::Display for $guard<'_, T> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                (**self).fmt(f)
            }
        }

        // SAFETY: a reference to the guard gives references to the data, and no more.
        unsafe impl<T: ?Sized + Sync> Sync for $guard<'_, T> {}
    };
}
pub(crate) use guard;

/// What holds data behind a lock, but for its own ways to take it.
macro_rules! holder {
    ($holder:ident, $raw:expr, $look:ident) => {
        impl<T> $holder<T> {
            /// Returns an unlocked lock that contains `value`.
            pub const fn new(value: T) -> Self {
                Self { raw: $raw, value: core::cell::UnsafeCell::new(value) }
            }

            /// Consumes the lock and returns the data.
            pub fn into_inner(self) -> T {
                self.value.into_inner()
            }
        }

        impl<T: ?Sized> $holder<T> {
            /// Returns the data; the exclusive reference guarantees that the lock is free.
            pub fn get_mut(&mut self) -> &mut T {
                self.value.get_mut()
            }
        }

        // SAFETY: the lock lets one thread at a time use the data mutably.
        unsafe impl<T: ?Sized + Send> Send for $holder<T> {}

        impl<T: Default> Default for $holder<T> {
            fn default() -> Self {
                Self::new(T::default())
            }
        }

        impl<T> From<T> for $holder<T> {
            fn from(value: T) -> Self {
                Self::new(value)
            }
        }

        impl<T: ?Sized + core::fmt::Debug> core::fmt::Debug for $holder<T> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let mut fields = f.debug_struct(stringify!($holder));
                match self.$look() {
                    Some(guard) => fields.field("data", &&*guard),
                    None => fields.field("data", &format_args!("<locked>")),
                };
                fields.finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use holder;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const ROUNDS: u32 = if cfg!(miri) { 5 } else { 500 };

    #[test]
    fn a_mutex_guards_and_tells_what_it_holds() {
        static COUNT: Mutex<u32> = Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..ROUNDS).for_each(|_| *COUNT.lock() += 1));
            }
        });
        assert_eq!(*COUNT.lock(), 4 * ROUNDS);
        let mut mutex = Mutex::from(vec![1]);
        let guard = mutex.lock();
        assert!(mutex.is_locked() && mutex.try_lock().is_none());
        assert!(mutex.try_lock_for(Duration::from_millis(1)).is_none());
        assert_eq!(format!("{mutex:?} {guard:?}"), "Mutex { data: <locked>, .. } [1]");
        drop(guard);
        mutex.get_mut().push(2);
        assert_eq!(format!("{mutex:?}"), "Mutex { data: [1, 2], .. }");
        assert_eq!(mutex.try_lock_for(Duration::ZERO).as_deref(), Some(&vec![1, 2]));
        assert_eq!(mutex.into_inner(), [1, 2]);
    }

    #[test]
    fn locks_are_small() {
        assert_eq!((size_of::<Mutex<()>>(), size_of::<Semaphore>()), (8, 8));
        assert_eq!((size_of::<RwLock<()>>(), size_of::<Condvar>()), (12, 32));
    }

    #[test]
    fn a_panic_gives_the_lock_back() {
        let mutex = Arc::new(Mutex::new(1));
        let other = Arc::clone(&mutex);
        let panicked = std::thread::spawn(move || {
            let mut value = other.lock();
            *value = 2;
            panic!("with the lock held");
        });
        assert!(panicked.join().is_err());
        assert_eq!(*mutex.lock(), 2);
    }

    #[test]
    fn readers_are_together_and_writers_alone() {
        let lock = RwLock::new(0);
        let readers = (lock.read(), lock.try_read().unwrap());
        assert!(lock.try_write().is_none());
        assert_eq!(*readers.0 + *readers.1, 0);
        assert!(lock.try_write_for(Duration::from_millis(1)).is_none());
        drop(readers);
        let writer = lock.try_write_for(Duration::ZERO).expect("the last wait left nothing behind");
        assert!(lock.try_read().is_none() && lock.try_write().is_none());
        assert!(lock.try_read_for(Duration::from_millis(1)).is_none());
        let reader = RwLockWriteGuard::downgrade(writer);
        assert!(lock.try_write().is_none());
        assert_eq!(*reader, *lock.try_read_for(Duration::ZERO).expect("beside a reader"));
        drop(reader);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let lock = &lock;
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        if (thread + round) % 2 == 0 {
                            *lock.write() += 1;
                        } else {
                            assert!(*lock.read() <= 4 * ROUNDS);
                        }
                    }
                });
            }
        });
        assert_eq!(lock.into_inner(), 2 * ROUNDS);
    }

    #[test]
    fn permits_are_counted() {
        let semaphore = Semaphore::new(2);
        let first = semaphore.acquire();
        let second = semaphore.try_acquire();
        assert!(second.is_some() && semaphore.try_acquire().is_none());
        assert!(semaphore.acquire_timeout(Duration::from_millis(1)).is_none());
        drop(first);
        assert_eq!(semaphore.available(), 1);
        second.unwrap().keep();
        semaphore.add(1);
        assert_eq!(semaphore.available(), 2);
    }

    #[test]
    fn a_queue_of_one_place_passes_everything_on() {
        let place = (Mutex::new(None), Condvar::new(), Condvar::new());
        let (slot, filled, emptied) = &place;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for round in 1..=ROUNDS {
                        let mut slot = slot.lock();
                        emptied.wait_while(&mut slot, |slot| slot.is_some());
                        *slot = Some(round);
                        filled.notify_one();
                    }
                });
            }
            let mut sum = 0;
            for _ in 0..2 * ROUNDS {
                let mut slot = slot.lock();
                filled.wait_while(&mut slot, |slot| slot.is_none());
                sum += slot.take().unwrap();
                emptied.notify_all();
            }
            assert_eq!(sum, ROUNDS * (ROUNDS + 1));
        });
    }

    #[test]
    fn a_wait_for_what_never_comes_ends() {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        let mut guard = mutex.lock();
        assert!(!condvar.wait_for(&mut guard, Duration::from_millis(1)));
        assert!(mutex.is_locked() && !condvar.notify_one());
        assert_eq!(condvar.notify_all(), 0);
    }

    #[test]
    fn a_condition_is_waited_for_as_long_as_there_is_time() {
        let (mutex, condvar) = (Mutex::new(0), Condvar::new());
        let (short, long) = (Duration::from_millis(1), Duration::from_secs(60));
        let mut guard = mutex.lock();
        assert!(!condvar.wait_while_for(&mut guard, |value| *value == 0, short));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2 {
                    *mutex.lock() += 1;
                    condvar.notify_one();
                }
            });
            assert!(condvar.wait_while_for(&mut guard, |value| *value < 2, long));
        });
        assert!(condvar.wait_while_for(&mut guard, |_| false, short));
    }
}
