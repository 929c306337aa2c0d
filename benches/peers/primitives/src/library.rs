//! One trait for each primitive, and its types of each library.

use crate::work::Spin;

/// A reader/writer lock.
pub trait RwLock: Sync {
    fn new() -> Self;
    fn read(&self, body: impl FnOnce());
    fn write(&self, body: impl FnOnce());
}

/// The waiters of one of the two condition variables that are notified.
#[derive(Clone, Copy)]
pub enum Notice {
    None,
    One(usize),
    All(usize),
}

/// A number behind a mutex, with two condition variables.
pub trait Monitor: Sync {
    fn new() -> Self;
    /// Waits at condition variable `which` until the number is `ready`, changes it, releases the
    /// mutex, and notifies.
    fn step(
        &self,
        which: usize,
        ready: impl Fn(u64) -> bool,
        change: impl FnOnce(&mut u64) -> Notice,
    );
}

/// A semaphore.
pub trait Semaphore: Sync {
    fn new(permits: u32) -> Self;
    fn with(&self, body: impl FnOnce());
}

/// A one-time initialisation, which works for as long as [`Spin::initialise`] says.
pub trait Once: Sync + Send {
    fn new() -> Self;
    fn call(&self);
}

/// A barrier.
pub trait Barrier: Sync {
    fn new(threads: u32) -> Self;
    fn wait(&self);
}

/// The usual semaphore of a library that has none: a count behind a mutex.
pub struct Counted<M>(M);

impl<M: Monitor> Semaphore for Counted<M> {
    fn new(permits: u32) -> Self {
        let monitor = M::new();
        monitor.step(
            0,
            |_| true,
            |count| {
                *count = permits.into();
                Notice::None
            },
        );
        Self(monitor)
    }

    fn with(&self, body: impl FnOnce()) {
        self.0.step(
            0,
            |count| count > 0,
            |count| {
                *count -= 1;
                Notice::None
            },
        );
        body();
        self.0.step(
            0,
            |_| true,
            |count| {
                *count += 1;
                Notice::One(0)
            },
        );
    }
}

/// The primitives of a library with the interface of `parking_lot`, or, with `poisoned`, of `std`.
macro_rules! library {
    (@guard $guard:expr) => { $guard };
    (@guard $guard:expr, poisoned) => { $guard.unwrap() };
    (@wait $changed:expr, $guard:ident) => { $changed.wait(&mut $guard) };
    (@wait $changed:expr, $guard:ident, poisoned) => {
        $guard = $changed.wait($guard).unwrap()
    };
    ($module:ident = $($from:ident)::+ $(, $poisoned:ident)?) => {
        pub mod $module {
            use super::{Notice, Spin};
            use ::$($from)::+ as from;

            pub struct RwLock(from::RwLock<()>);
            pub struct Monitor(from::Mutex<u64>, [from::Condvar; 2]);
            pub struct Once(from::Once);

            impl super::RwLock for RwLock {
                fn new() -> Self {
                    Self(from::RwLock::new(()))
                }

                #[inline(never)]
                fn read(&self, body: impl FnOnce()) {
                    let _guard = library!(@guard self.0.read() $(, $poisoned)?);
                    body();
                }

                #[inline(never)]
                fn write(&self, body: impl FnOnce()) {
                    let _guard = library!(@guard self.0.write() $(, $poisoned)?);
                    body();
                }
            }

            impl super::Monitor for Monitor {
                fn new() -> Self {
                    Self(from::Mutex::new(0), [const { from::Condvar::new() }; 2])
                }

                fn step(
                    &self,
                    which: usize,
                    ready: impl Fn(u64) -> bool,
                    change: impl FnOnce(&mut u64) -> Notice,
                ) {
                    let mut guard = library!(@guard self.0.lock() $(, $poisoned)?);
                    while !ready(*guard) {
                        library!(@wait self.1[which], guard $(, $poisoned)?);
                    }
                    let notice = change(&mut guard);
                    drop(guard);
                    match notice {
                        Notice::None => (),
                        Notice::One(which) => _ = self.1[which].notify_one(),
                        Notice::All(which) => _ = self.1[which].notify_all(),
                    }
                }
            }

            impl super::Once for Once {
                fn new() -> Self {
                    Self(from::Once::new())
                }

                #[inline(never)]
                fn call(&self) {
                    self.0.call_once(|| Spin::initialise());
                }
            }
        }
    };
}

library!(convoy = convoy_sync);
library!(standard = std::sync, poisoned);
library!(parking_lot = parking_lot);
library!(usync = usync);

macro_rules! barriers {
    ($($type:ty, $number:ty;)+) => { $(
        impl Barrier for $type {
            fn new(threads: u32) -> Self {
                Self::new(threads as $number)
            }

            fn wait(&self) {
                self.wait();
            }
        }
    )+ };
}

barriers! {
    convoy_sync::Barrier, u32;
    std::sync::Barrier, usize;
}

impl Semaphore for convoy_sync::Semaphore {
    fn new(permits: u32) -> Self {
        Self::new(permits)
    }

    #[inline(never)]
    fn with(&self, body: impl FnOnce()) {
        let _permit = self.acquire();
        body();
    }
}

/// The primitives of `foreign.cpp`: the type, its operations and their last argument.
macro_rules! foreign {
    ($($type:ident { $($operation:ident = $name:ident ($($word:ty)?)),+ } $new:ident $free:ident;)+) => { $(
        pub struct $type(*mut std::ffi::c_void);

        // SAFETY: it is a lock for threads.
        unsafe impl Send for $type {}
        // SAFETY: as above.
        unsafe impl Sync for $type {}

        unsafe extern "C" {
            fn $new(number: u32) -> *mut std::ffi::c_void;
            fn $free(it: *mut std::ffi::c_void);
            $(fn $name(it: *mut std::ffi::c_void $(, word: $word)?);)+
        }

        impl $type {
            fn create(number: u32) -> Self {
                // SAFETY: the function accepts any number.
                Self(unsafe { $new(number) })
            }
            $(foreign!(@operation $operation $name $($word)?);)+
        }

        impl Drop for $type {
            fn drop(&mut self) {
                // SAFETY: it is not used again.
                unsafe { $free(self.0) }
            }
        }
    )+ };
    (@operation $operation:ident $name:ident) => {
        fn $operation(&self) {
            // SAFETY: it exists, and callers release only locks that they own.
            unsafe { $name(self.0) }
        }
    };
    (@operation $operation:ident $name:ident $word:ty) => {
        fn $operation(&self, word: $word) {
            // SAFETY: as above.
            unsafe { $name(self.0, word) }
        }
    };
}

macro_rules! foreign_rwlock {
    ($type:ident) => {
        impl RwLock for $type {
            fn new() -> Self {
                Self::create(0)
            }

            fn read(&self, body: impl FnOnce()) {
                self.begin_read();
                body();
                self.end_read();
            }

            fn write(&self, body: impl FnOnce()) {
                self.begin_write();
                body();
                self.end_write();
            }
        }
    };
}

/// The number is beside the mutex, which the foreign object holds.
pub struct Beside<M>(M, std::cell::UnsafeCell<u64>);

// SAFETY: the number is used while the mutex is held.
unsafe impl<M: Sync> Sync for Beside<M> {}

macro_rules! foreign_monitor {
    ($type:ident) => {
        impl Monitor for Beside<$type> {
            fn new() -> Self {
                Self($type::create(0), 0.into())
            }

            fn step(
                &self,
                which: usize,
                ready: impl Fn(u64) -> bool,
                change: impl FnOnce(&mut u64) -> Notice,
            ) {
                self.0.lock();
                // SAFETY: the mutex is held.
                while !ready(unsafe { *self.1.get() }) {
                    self.0.wait(which as u32);
                }
                // SAFETY: the mutex is held.
                let notice = change(unsafe { &mut *self.1.get() });
                self.0.unlock();
                match notice {
                    Notice::None => (),
                    Notice::One(which) => self.0.notify_one(which as u32),
                    Notice::All(which) => self.0.notify_all(which as u32),
                }
            }
        }
    };
}

macro_rules! foreign_semaphore {
    ($type:ident) => {
        impl Semaphore for $type {
            fn new(permits: u32) -> Self {
                Self::create(permits)
            }

            fn with(&self, body: impl FnOnce()) {
                self.acquire();
                body();
                self.release();
            }
        }
    };
}

macro_rules! foreign_once {
    ($type:ident) => {
        impl Once for $type {
            fn new() -> Self {
                Self::create(0)
            }

            fn call(&self) {
                self.run(Spin::initialise);
            }
        }
    };
}

macro_rules! foreign_barrier {
    ($type:ident) => {
        impl Barrier for $type {
            fn new(threads: u32) -> Self {
                Self::create(threads)
            }

            fn wait(&self) {
                self.arrive();
            }
        }
    };
}

foreign! {
    GlibcRwLock {
        begin_read = GlibcRwLock_read (), end_read = GlibcRwLock_read_unlock (),
        begin_write = GlibcRwLock_write (), end_write = GlibcRwLock_write_unlock ()
    } GlibcRwLock_new GlibcRwLock_free;
    GlibcMonitor {
        lock = GlibcMonitor_lock (), unlock = GlibcMonitor_unlock (),
        wait = GlibcMonitor_wait (u32), notify_one = GlibcMonitor_notify_one (u32),
        notify_all = GlibcMonitor_notify_all (u32)
    } GlibcMonitor_new GlibcMonitor_free;
    GlibcSemaphore {
        acquire = GlibcSemaphore_acquire (), release = GlibcSemaphore_release ()
    } GlibcSemaphore_new GlibcSemaphore_free;
    GlibcOnce { run = GlibcOnce_call (extern "C" fn()) } GlibcOnce_new GlibcOnce_free;
    GlibcBarrier { arrive = GlibcBarrier_wait () } GlibcBarrier_new GlibcBarrier_free;
    StdcxxSemaphore {
        acquire = StdcxxSemaphore_acquire (), release = StdcxxSemaphore_release ()
    } StdcxxSemaphore_new StdcxxSemaphore_free;
    StdcxxBarrier { arrive = StdcxxBarrier_wait () } StdcxxBarrier_new StdcxxBarrier_free;
}

foreign_rwlock!(GlibcRwLock);
foreign_monitor!(GlibcMonitor);
foreign_semaphore!(GlibcSemaphore);
foreign_once!(GlibcOnce);
foreign_barrier!(GlibcBarrier);
foreign_semaphore!(StdcxxSemaphore);
foreign_barrier!(StdcxxBarrier);

#[cfg(abseil)]
mod abseil {
    use super::{Beside, Monitor, Notice, Once, RwLock, Spin};

    foreign! {
        AbseilRwLock {
            begin_read = AbseilRwLock_read (), end_read = AbseilRwLock_read_unlock (),
            begin_write = AbseilRwLock_write (), end_write = AbseilRwLock_write_unlock ()
        } AbseilRwLock_new AbseilRwLock_free;
        AbseilMonitor {
            lock = AbseilMonitor_lock (), unlock = AbseilMonitor_unlock (),
            wait = AbseilMonitor_wait (u32), notify_one = AbseilMonitor_notify_one (u32),
            notify_all = AbseilMonitor_notify_all (u32)
        } AbseilMonitor_new AbseilMonitor_free;
        AbseilOnce { run = AbseilOnce_call (extern "C" fn()) } AbseilOnce_new AbseilOnce_free;
    }

    foreign_rwlock!(AbseilRwLock);
    foreign_monitor!(AbseilMonitor);
    foreign_once!(AbseilOnce);
}
#[cfg(abseil)]
pub use abseil::{AbseilMonitor, AbseilOnce, AbseilRwLock};
