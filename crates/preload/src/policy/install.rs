//! Installs the locks that replace libc's, chosen by the environment.

use core::ffi::{CStr, c_int};

use crate::interpose::libc::{self, one, two};
use crate::policy::fair::{self, Fair};
use crate::policy::mutex::{self, EBUSY, c11, is_replaced, word_lock, word_unlock};
use crate::policy::spin::{self, Looks};
use crate::policy::{chosen, handoff};

// libc's C11 functions do the same as its pthread functions, but do not call them by name.

extern "C" fn mtx_lock(mutex: usize) -> c_int {
    c11(libc::MUTEX_LOCK.call([mutex, 0, 0, 0]))
}

extern "C" fn mtx_trylock(mutex: usize) -> c_int {
    c11(libc::MUTEX_TRYLOCK.call([mutex, 0, 0, 0]))
}

extern "C" fn mtx_attempt(mutex: usize) -> c_int {
    c11(libc::MUTEX_ATTEMPT.call([mutex, 0, 0, 0]))
}

extern "C" fn mtx_timedlock(mutex: usize, time: usize) -> c_int {
    c11(libc::MUTEX_TIMEDLOCK.call([mutex, time, 0, 0]))
}

extern "C" fn mtx_unlock(mutex: usize) -> c_int {
    c11(libc::MUTEX_UNLOCK.call([mutex, 0, 0, 0]))
}

/// A locked mutex is not destroyed, as in libc, which knows only the owners that it has set.
extern "C" fn destroy(mutex: usize) -> c_int {
    if is_replaced(mutex) {
        if libc::MUTEX_TRYLOCK.call([mutex, 0, 0, 0]) != 0 {
            return EBUSY;
        }
        libc::MUTEX_UNLOCK.call([mutex, 0, 0, 0]);
    }
    libc::MUTEX_DESTROY.libc([mutex, 0, 0, 0])
}

/// Replaces libc's locks with those that the environment names.
pub(crate) fn install(policy: impl Fn(&CStr) -> Option<&'static [u8]>) {
    let (mutex, chosen) = (policy(c"CONVOY_MUTEX="), policy(c"CONVOY_LOCKS="));
    let mutex = mutex.map(|mutex| match mutex.strip_prefix(b"fair:") {
        Some(bound) => {
            fair::set_bound(bound);
            b"fair"
        }
        None => mutex,
    });
    let ours = mutex.is_some() || chosen.is_some();
    if ours && spin::cpus() < 2 {
        spin::forbid();
    }
    match (chosen, mutex) {
        (Some(chosen), mutex) => chosen::install(chosen, mutex.unwrap_or_default()),
        (None, Some(b"spin" | b"sleep")) => {
            if mutex == Some(b"sleep") {
                spin::forbid();
            }
            libc::MUTEX_LOCK.replace(one(word_lock::<Looks>));
            libc::MUTEX_UNLOCK.replace(one(word_unlock));
        }
        (None, Some(b"handoff")) => handoff::install(),
        (None, Some(b"fair")) => {
            fair::prepare();
            mutex::install::<Fair>();
        }
        _ => {}
    }
    if ours {
        libc::MUTEX_DESTROY.replace(one(destroy));
        libc::MTX_LOCK.replace(one(mtx_lock));
        libc::MTX_TRYLOCK.replace(one(mtx_trylock));
        libc::MTX_ATTEMPT.replace(one(mtx_attempt));
        libc::MTX_TIMEDLOCK.replace(two(mtx_timedlock));
        libc::MTX_UNLOCK.replace(one(mtx_unlock));
    }
    if policy(c"CONVOY_SEM=") == Some(b"handoff") {
        handoff::install_semaphores();
    }
}
