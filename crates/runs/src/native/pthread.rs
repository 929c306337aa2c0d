//! The mutex of the C library.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// The kind that sleeps immediately.
pub(super) const NORMAL: i32 = libc::PTHREAD_MUTEX_NORMAL;

/// The kind of glibc that spins before it sleeps, `PTHREAD_MUTEX_ADAPTIVE_NP`.
pub(super) const ADAPTIVE: i32 = 3;

/// A mutex of the C library, of the kind `KIND`.
pub(super) struct Pthread<const KIND: i32>(Box<UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: the mutex is made to be shared.
unsafe impl<const KIND: i32> Sync for Pthread<KIND> {}
// SAFETY: the mutex stays where it is; only its owner moves.
unsafe impl<const KIND: i32> Send for Pthread<KIND> {}

impl<const KIND: i32> Default for Pthread<KIND> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const KIND: i32> Pthread<KIND> {
    /// A free mutex.
    pub(super) fn new() -> Self {
        let mutex = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        let mut kind = MaybeUninit::uninit();
        // SAFETY: it initialises what it is given.
        unsafe { libc::pthread_mutexattr_init(kind.as_mut_ptr()) };
        // SAFETY: as initialised above.
        unsafe { libc::pthread_mutexattr_settype(kind.as_mut_ptr(), KIND) };
        // SAFETY: nobody else uses the mutex yet.
        unsafe { libc::pthread_mutex_init(mutex.get(), kind.as_ptr()) };
        Self(mutex)
    }

    /// Does `section` with the mutex held. If it panics, the mutex stays taken.
    #[inline]
    pub(super) fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        // SAFETY: the mutex is initialised and does not move.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
        let result = section();
        // SAFETY: this thread has it.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
        result
    }
}
