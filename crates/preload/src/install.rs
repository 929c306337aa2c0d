//! Installs the locks that replace libc's, chosen by the environment.

use core::ffi::{CStr, c_int};
use core::sync::atomic::Ordering::Relaxed;

use crate::choose;
use crate::fair;
use crate::handoff;
use crate::own::{EBUSY, MOST_LOOKS, c11, cpus, is_ours, spin_lock, word_unlock};
use crate::real::{self, one, two};

// libc's C11 functions do the same as its pthread functions, but do not call them by name.

extern "C" fn mtx_lock(mutex: usize) -> c_int {
    c11(real::MUTEX_LOCK.call([mutex, 0, 0, 0]))
}

extern "C" fn mtx_trylock(mutex: usize) -> c_int {
    c11(real::MUTEX_TRYLOCK.call([mutex, 0, 0, 0]))
}

extern "C" fn mtx_attempt(mutex: usize) -> c_int {
    c11(real::MUTEX_ATTEMPT.call([mutex, 0, 0, 0]))
}

extern "C" fn mtx_timedlock(mutex: usize, time: usize) -> c_int {
    c11(real::MUTEX_TIMEDLOCK.call([mutex, time, 0, 0]))
}

extern "C" fn mtx_unlock(mutex: usize) -> c_int {
    c11(real::MUTEX_UNLOCK.call([mutex, 0, 0, 0]))
}

/// A locked mutex is not destroyed, as in libc, which knows only the owners that it has set.
extern "C" fn destroy(mutex: usize) -> c_int {
    if is_ours(mutex) {
        if real::MUTEX_TRYLOCK.call([mutex, 0, 0, 0]) != 0 {
            return EBUSY;
        }
        real::MUTEX_UNLOCK.call([mutex, 0, 0, 0]);
    }
    real::MUTEX_DESTROY.libc([mutex, 0, 0, 0])
}

/// Replaces libc's locks with those that the environment names.
pub(crate) fn install(policy: impl Fn(&CStr) -> Option<&'static [u8]>) {
    let (mutex, chosen) = (policy(c"CONVOY_MUTEX="), policy(c"CONVOY_LOCKS="));
    let ours = mutex.is_some() || chosen.is_some();
    if ours && cpus() < 2 {
        MOST_LOOKS.store(0, Relaxed);
    }
    match (chosen, mutex) {
        (Some(chosen), mutex) => choose::install(chosen, mutex.unwrap_or_default()),
        (None, Some(b"spin" | b"sleep")) => {
            // Relaxed, here and below: done before the program has threads.
            if mutex == Some(b"sleep") {
                MOST_LOOKS.store(0, Relaxed);
            }
            real::MUTEX_LOCK.replace(one(spin_lock));
            real::MUTEX_UNLOCK.replace(one(word_unlock));
        }
        (None, Some(b"handoff")) => handoff::install(),
        (None, Some(b"fair")) => fair::install(),
        _ => {}
    }
    if ours {
        real::MUTEX_DESTROY.replace(one(destroy));
        real::MTX_LOCK.replace(one(mtx_lock));
        real::MTX_TRYLOCK.replace(one(mtx_trylock));
        real::MTX_ATTEMPT.replace(one(mtx_attempt));
        real::MTX_TIMEDLOCK.replace(two(mtx_timedlock));
        real::MTX_UNLOCK.replace(one(mtx_unlock));
    }
    if policy(c"CONVOY_SEM=") == Some(b"handoff") {
        handoff::install_semaphores();
    }
}
